"""Treatments of gaps in questions: the choices for `missing=`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.person_sums import check_classes, person_sum, person_sum_distance, steps_of_person
from gapless.data.row_contribution import plain_sum_distance
from gapless.data.sums import plain_sum
from gapless.errors import Argument, Call, Hint, QuestionError
from gapless.privacy import L1, DiscreteGaussian, DiscreteLaplace, Grant, Loss, Persons, Private, for_counts
from gapless.privacy.budget import PURE
from gapless.query.answers import Answer, Estimate, Noise
from gapless.query.compiled import CompiledQuestion
from gapless.query.condition import known_column
from gapless.text import listing, plural, repeated
from gapless.types import Integers

INTERVAL_NOTE = (
    "Each interval holds, with probability 95 % over the noise, the answer without noise. "
    "It does not cover sampling or gaps."
)


class GapTreatment(Protocol):
    """How a question treats gaps."""

    @property
    def uses_majority(self) -> bool:
        """Whether gaps are filled by a majority. Such a vote is on bins, because few rows agree on a cell."""

    def answer(self, asked: CompiledQuestion, table: PrivateTable, grant: Grant) -> Answer:
        """Release what the question needs."""

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The expected noise, from public facts only; on answers about this number of rows, if given."""


def rows_for(table: PrivateTable, asked: CompiledQuestion) -> PrivateTable:
    """The rows, with the cells and bins that a question reads. Refuses all but a sealed table and its question."""
    check_private(table, "a question")
    if type(asked) is not CompiledQuestion or asked.declared_schema is not table.schema:
        raise QuestionError(
            f"expected a question compiled for the schema of this table, got a {type(asked).__name__}",
            hint=Hint("ask the question itself: ", Call("people.ask", Call("Mean", "income"), Argument("spend", "5%"))),
        )
    return table.rebin(asked.schema)


@dataclass(frozen=True, slots=True)
class Preview:
    """The expected noise of an answer.

    Attributes:
        question: the question as text.
        noise_std: the standard deviation of the noise, if it has one.
        of: the quantity with the noise: the answer, or the answer times its number of rows.
        noise_median: the median size of noise without a standard deviation.
        noise_limit: a bound on the noise in at least 95 % of runs.
        depends_on_rows: whether the noise on the answer depends on the number of rows, as for a mean. Then the numbers
            are upper bounds.
        rows: the number of rows for which the numbers hold. None if it does not matter or is not known.
    """

    question: str
    noise_std: float | None
    of: str
    noise_median: float | None = None
    noise_limit: float | None = None
    depends_on_rows: bool = False
    rows: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
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
    """A number with four digits and separated thousands.

    >>> readable(1239.62), readable(3718854.0), readable(0.0123456)
    ('1,240', '3,719,000', '0.01235')
    """
    return f"{float(f'{number:.4g}'):,.10g}"


@dataclass(frozen=True, slots=True)
class PendingRelease:
    """The one release that answers a question.

    Attributes:
        asked: the question.
        value: the sealed sums.
        unit: what a row or a person adds at most, in steps of the sums.
        notes: on gaps, and on what counts.
        weights: of classes of persons, whose sums are beside each other in each group.
    """

    asked: CompiledQuestion
    value: Private[Integers, L1]
    unit: int
    notes: tuple[str, ...]
    weights: tuple[float, ...] = (1.0,)

    def estimates(self, sums: Integers, mechanism: DiscreteLaplace | DiscreteGaussian) -> tuple[Estimate, ...]:
        """The estimates from the released sums."""
        by_class = sums.reshape(-1, len(self.weights), self.asked.estimand.width)
        totals = np.tensordot(by_class, self.weights, axes=(1, 0)) if len(self.weights) > 1 else sums
        return self.asked.estimates(totals, self.unit, Noise.of(mechanism, self.unit).of_sum(self.weights))


class SingleRelease:
    """A treatment with which a question is one release, so that several questions can be one batch."""

    __slots__ = ()
    uses_majority: ClassVar[bool] = False

    def pending(self, asked: CompiledQuestion, table: PrivateTable) -> PendingRelease:
        """The release, before it is made."""
        raise NotImplementedError

    def answer(self, asked: CompiledQuestion, table: PrivateTable, grant: Grant) -> Answer:
        """Answer with one release."""
        return release_sums([self.pending(asked, table)], table, grant)[0]


@dataclass(frozen=True, slots=True)
class Drop(SingleRelease):
    """Leave out rows with a gap in any column that the question reads: complete cases, the baseline.

    A gap in a column that is tested by `is missing` does not exclude a row. Shares and means are unbiased if cells are
    missing completely at random.
    """

    def pending(self, asked: CompiledQuestion, table: PrivateTable) -> PendingRelease:
        """The sums of what each row adds, or of the means of what the rows of each person add."""
        rows, question = rows_for(table, asked), asked.question
        notes = dropped_rows_note(asked, table), weight_note(asked, table)
        if not question.needs_persons:
            return PendingRelease(asked, plain_sum(rows, asked.contribution), asked.contribution.unit, notes)
        weights = _class_weights(asked)
        _check_is_normal(asked, table.ledger.budget.order)
        value = person_sum(rows, asked.contribution, classes=len(weights) if question.row_classes else None)
        return PendingRelease(asked, value, _person_unit(asked), notes, weights)

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The expected noise, from public facts only."""
        if not asked.question.needs_persons:
            distance = plain_sum_distance(asked.contribution, per_person)
            return preview_sums(asked, asked.contribution.unit, distance, loss, rows)
        _check_is_normal(asked, loss.order)
        weights, distance = _class_weights(asked), person_sum_distance(asked.contribution)
        check_classes(asked.contribution, len(weights))
        return preview_sums(asked, _person_unit(asked), distance, loss, rows, weights)


def _person_unit(asked: CompiledQuestion) -> int:
    """What a person adds at most, in steps of the sums."""
    return asked.contribution.unit * steps_of_person(asked.contribution)


def _class_weights(asked: CompiledQuestion) -> tuple[float, ...]:
    """The weights of the classes of persons in the sums."""
    return (1.0,) if asked.question.row_classes is None else asked.question.row_classes.weights


def _check_is_normal(asked: CompiledQuestion, order: float) -> None:
    """Refuse a weighted sum of Laplace noise, whose distribution is another one."""
    if asked.question.row_classes is not None and order == PURE:
        raise QuestionError(
            f"{asked.text} adds up several noises, which needs normal noise, but the budget has δ = 0",
            hint="ask per person or per row, or read the table with a budget with δ above 0",
        )


def weight_note(asked: CompiledQuestion, table: PrivateTable) -> str:
    """A note on whether rows or persons count alike, where these differ."""
    if not (asked.question.needs_persons and isinstance(table.protect, Persons)):
        return table.protect.row_weight
    name, classes = table.protect.name, asked.question.row_classes
    if classes is None:
        return f"per person: each {name} weighs 1, shared equally by its rows that count"
    weights = (
        f"one {name} weighs as many rows as it has, {classes.weights[-1]:.3g} if it has {len(classes.weights)} or more"
    )
    return f"per row, of all rows in the data: {weights}; intervals do not cover that these weights are estimates"


def dropped_rows_note(asked: CompiledQuestion, table: PrivateTable) -> str:
    """A note on the rows that are left out because of gaps."""
    gaps = [name for name in asked.targets if name in asked.contribution.needs]
    return f"rows with a gap in {listing(gaps)} are left out" if gaps and not table.is_filled else ""


def release_sums(questions: Sequence[PendingRelease], table: PrivateTable, grant: Grant) -> list[Answer]:
    """Release sums in one batch that is fixed in advance, with all of the grant, and compute the answers."""
    noises = grant.noise_for([sums.value for sums in questions], grant.left)
    requests = [(sums.value, noise, sums.asked.text) for sums, noise in zip(questions, noises, strict=True)]
    released = grant.release_all(requests, together=True)
    promise = guarantee_text(table)
    return [
        Answer(
            sums.asked.text,
            estimates,
            "\n".join(
                filter(None, [as_sentence(*sums.notes, sums.asked.caveat), sums.asked.question.advice(estimates)])
            ),
            promise,
            (answer.entry,),
            INTERVAL_NOTE,
            sums.asked.question.levels(table.schema),
        )
        for sums, noise, answer in zip(questions, noises, released, strict=True)
        for estimates in [sums.estimates(answer.value, noise)]
    ]


def preview_sums(
    asked: CompiledQuestion,
    unit: int,
    distance: L1,
    loss: Loss,
    rows: int | None,
    weights: tuple[float, ...] = (1.0,),
) -> Preview:
    """The expected noise of a vector of sums, of which a row or a person adds at most `unit` steps."""
    estimand, noise = asked.estimand, Noise.of(for_counts(loss, distance), unit).of_sum(weights)
    std, limit = noise.std * estimand.std_factor, estimand.noise_limit(noise)
    rows = rows if estimand.is_ratio else None
    if rows is not None:
        std, limit = (min(size / rows, estimand.max_error) for size in (std, limit))
    of = noise_target(asked, rows)
    return Preview(asked.text, std, of, noise_limit=limit, depends_on_rows=estimand.is_ratio, rows=rows)


def noise_target(asked: CompiledQuestion, rows: int | None) -> str:
    """The quantity with the noise, for `Preview.of`."""
    if not asked.estimand.is_ratio:
        return "the answer"
    counted = "person" if asked.question.per_person else "row"
    if rows is None:
        return f"the answer times the number of {counted}s behind it"
    return f"an answer about {plural(rows, counted)}"


def as_sentence(*clauses: str) -> str:
    """Join clauses into one sentence."""
    text = "; ".join(filter(None, clauses))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def guarantee_text(table: PrivateTable) -> str:
    """The guarantee of the ledger for the incomplete table and, if its budget limits that, for the complete data."""
    ledger = table.ledger
    return str(ledger.guarantee() if ledger.budget.ground_truth is None else ledger.ground_truth())


def checked_names(names: Sequence[str], key: str) -> tuple[str, ...]:
    """Check a list of columns, and return it as a tuple."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise QuestionError(
            f"{key} must be a list of column names, got {names!r}",
            hint=Hint("pass ", Argument(key, [names] if isinstance(names, str) else ["age", "sex"])),
        )
    if len(set(names)) < len(names):
        raise QuestionError(f"{key} names column {repeated(names)[0]!r} twice", hint="name each column once")
    return tuple(names)


def check_filling(asked: CompiledQuestion, matching: Sequence[str]) -> None:
    """Refuse to match rows on a column that is filled, or to test its gaps."""
    for name in matching:
        known_column(asked.declared_schema, name)
    if both := sorted(set(asked.targets) & set(matching)):
        raise QuestionError(
            f"the question fills the gaps of column {both[0]!r}, so rows cannot be matched on this column",
            hint=Hint(f"leave {both[0]!r} out of ", Argument("on"))
            | Hint("pass ", Argument("missing", Call("Drop")), " to fill no gaps"),
        )
    if both := sorted(set(asked.targets) & asked.gap_columns):
        raise QuestionError(
            f"the question tests for gaps in column {both[0]!r}, but also fills these gaps to read its values",
            hint=Hint("ask about values and about gaps in two questions")
            | Hint("pass ", Argument("missing", Call("Drop")), " to fill no gaps"),
        )
