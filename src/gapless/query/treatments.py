"""What a question does about gaps: the choices for `missing=`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.row_contribution import RowContribution, plain_sum_distance
from gapless.data.sums import plain_sum
from gapless.errors import Argument, Call, Hint, QuestionError
from gapless.privacy import L1, Grant, Loss, Private, for_counts
from gapless.query.answers import Answer, Noise
from gapless.query.compiled import CompiledQuestion
from gapless.query.condition import known_column
from gapless.text import listing, plural
from gapless.types import Integers

COVERS = "Each interval holds, with probability 95 % over the noise, the answer without noise; not sampling, not gaps."


class GapTreatment(Protocol):
    """How a question reads a table with gaps."""

    @property
    def uses_majority(self) -> bool:
        """Whether gaps are filled by a vote: on bins then, as few rows agree on a cell."""

    def answer(self, asked: CompiledQuestion, table: PrivateTable, grant: Grant) -> Answer:
        """Release what the question needs."""

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The noise to expect, from public facts alone; on answers about so many rows, if that is stated."""


def rows_for(table: PrivateTable, asked: CompiledQuestion) -> PrivateTable:
    """The rows, by the cells and bins that a question reads. Nothing stands in for it, nor for a sealed table."""
    check_private(table, "a question")
    if type(asked) is not CompiledQuestion or asked.declared_schema is not table.schema:
        raise QuestionError(
            f"a {type(asked).__name__} is not a question fitted to this table's schema",
            hint=Hint("use ", Call("people.ask", ...)),
        )
    return table.rebin(asked.schema)


@dataclass(frozen=True, slots=True)
class Preview:
    """The noise to expect, and on what: its standard deviation, or its median size where there is none, and a limit.

    Attributes:
        question: the question in words.
        noise_std: the standard deviation of the noise, if it has one.
        of: what the noise is on: the answer, or the answer times the number of rows it is about.
        noise_median: the median size of noise without a standard deviation.
        noise_limit: what the noise stays below in 95 % of runs, at least.
        depends_on_rows: whether the noise on the answer depends on the number of rows, as for a mean; then the numbers
            are upper bounds.
        rows: for how many rows the numbers are; None if that does not matter, or is not known.
    """

    question: str
    noise_std: float | None
    of: str
    noise_median: float | None = None
    noise_limit: float | None = None
    depends_on_rows: bool = False
    rows: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything, for a machine."""
        return asdict(self)

    def __str__(self) -> str:
        most = "at most " if self.depends_on_rows and self.noise_std is not None else ""
        sizes = [
            (f"{most}± {{}} (95 %)", self.noise_limit),
            (f"noise std {most}{{}}", self.noise_std),
            ("noise median {}", self.noise_median),
        ]
        shown = ", ".join(text.format(readable(size)) for text, size in sizes if size is not None)
        return f"{self.question}: {shown}, on {self.of}"


def readable(number: float) -> str:
    """Four digits of a number, thousands apart.

    >>> readable(1239.62), readable(3718854.0), readable(0.0123456)
    ('1,240', '3,719,000', '0.01235')
    """
    return f"{float(f'{number:.4g}'):,.10g}"


@dataclass(frozen=True, slots=True)
class PendingRelease:
    """The one release that answers a question: the question, what each row adds, the sealed sums, and words on gaps."""

    asked: CompiledQuestion
    contribution: RowContribution
    value: Private[Integers, L1]
    gap_note: str


class SingleRelease:
    """A treatment with which a question is one release, so that several can be fixed in advance."""

    __slots__ = ()
    uses_majority: ClassVar[bool] = False

    def pending(self, asked: CompiledQuestion, table: PrivateTable) -> PendingRelease:
        """What to release, and how to read it."""
        raise NotImplementedError

    def answer(self, asked: CompiledQuestion, table: PrivateTable, grant: Grant) -> Answer:
        """One release."""
        return release_sums([self.pending(asked, table)], table, grant)[0]


@dataclass(frozen=True, slots=True)
class Drop(SingleRelease):
    """Leave out rows with a gap in any column that the question looks at: complete cases, the baseline.

    Columns whose gaps are asked about by `is missing` are no reason to leave a row out. Shares and means are unbiased
    when cells are missing completely at random.
    """

    def pending(self, asked: CompiledQuestion, table: PrivateTable) -> PendingRelease:
        """The sums of what each row adds."""
        rows = rows_for(table, asked)
        return PendingRelease(
            asked, asked.contribution, plain_sum(rows, asked.contribution), dropped_rows_note(asked, table)
        )

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The noise to expect, from public facts alone."""
        return preview_sums(asked, asked.contribution, plain_sum_distance(asked.contribution, per_person), loss, rows)


def dropped_rows_note(asked: CompiledQuestion, table: PrivateTable) -> str:
    """Which rows complete cases leave out, in words."""
    gaps = [name for name in asked.targets if name in asked.contribution.needs]
    return f"rows with a gap in {listing(gaps)} are left out" if gaps and not table.is_filled else ""


def release_sums(questions: Sequence[PendingRelease], table: PrivateTable, grant: Grant) -> list[Answer]:
    """Release sums with all of the grant, in one batch that is fixed in advance, and read the answers from them."""
    noises = grant.noise_for([sums.value for sums in questions], grant.left)
    requests = [(sums.value, noise, sums.asked.text) for sums, noise in zip(questions, noises, strict=True)]
    released = grant.release_all(requests, together=True)
    promise = guarantee_text(table)
    return [
        Answer(
            sums.asked.text,
            sums.asked.estimates(answer.value, sums.contribution.unit, Noise.of(noise, sums.contribution.unit)),
            as_sentence(sums.gap_note, sums.asked.caveat),
            promise,
            (answer.entry,),
            COVERS,
        )
        for sums, noise, answer in zip(questions, noises, released, strict=True)
    ]


def preview_sums(
    asked: CompiledQuestion, tally: RowContribution, distance: L1, loss: Loss, rows: int | None
) -> Preview:
    """The noise of a vector of sums."""
    shape, noise = asked.estimand, Noise.of(for_counts(loss, distance), tally.unit)
    std, limit = noise.std * shape.std_factor, shape.noise_limit(noise)
    rows = rows if shape.is_ratio else None
    if rows is not None:
        std, limit = (min(size / rows, shape.max_error) for size in (std, limit))
    of = noise_target(asked, rows)
    return Preview(asked.text, std, of, noise_limit=limit, depends_on_rows=shape.is_ratio, rows=rows)


def noise_target(asked: CompiledQuestion, rows: int | None) -> str:
    """What the noise is on."""
    if not asked.estimand.is_ratio:
        return "the answer"
    return (
        "the answer times the number of rows it is about" if rows is None else f"an answer about {plural(rows, 'row')}"
    )


def as_sentence(*told: str) -> str:
    """What the numbers stand for, as a sentence."""
    words = "; ".join(filter(None, told))
    return f"{words[0].upper()}{words[1:]}." if words else ""


def guarantee_text(table: PrivateTable) -> str:
    """What the ledger promises: for the incomplete table and, if it stops on that, for the complete one."""
    ledger = table.ledger
    return str(ledger.guarantee() if ledger.budget.ground_truth is None else ledger.ground_truth())


def checked_names(names: Sequence[str], key: str) -> tuple[str, ...]:
    """A list of columns, kept as a tuple."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise QuestionError(f"{key} is {names!r}", hint=Hint("pass a list of columns: ", Argument(key, ["age", "sex"])))
    if len(set(names)) < len(names):
        raise QuestionError(f"{key} names a column twice", hint="name it once")
    return tuple(names)


def check_filling(asked: CompiledQuestion, matching: Sequence[str]) -> None:
    """Columns that are filled cannot also decide from whom, and their gaps cannot be asked about at the same time."""
    for name in matching:
        known_column(asked.declared_schema, name)
    if both := sorted(set(asked.targets) & set(matching)):
        raise QuestionError(
            f"the question fills the gaps of {both[0]!r}, so rows cannot be matched on it",
            hint=Hint("match on other columns") | Hint("pass ", Argument("missing", Call("Drop"))),
        )
    if both := sorted(set(asked.targets) & asked.gap_columns):
        raise QuestionError(
            f"the question looks at the values of {both[0]!r} and at its gaps, which would be filled",
            hint=Hint("ask two questions") | Hint("pass ", Argument("missing", Call("Drop"))),
        )
