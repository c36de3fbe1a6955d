"""Hot-deck imputation: gaps are filled from rows of the same class, each donating a limited number of times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.data import PrivateTable
from gapless.data.private_table import check_question
from gapless.data.row_contribution import CodesByName, RowContribution, hot_deck_distance
from gapless.data.sums import hot_deck_sum
from gapless.errors import Argument, Call, Hint, QuestionError
from gapless.privacy import Loss, Spend, for_counts
from gapless.query.answers import Answer
from gapless.query.compiled import CompiledQuestion, check_declared_bins
from gapless.query.condition import known_column
from gapless.query.treatments import (
    Drop,
    PendingRelease,
    Preview,
    SingleRelease,
    as_sentence,
    check_filling,
    checked_names,
    guarantee_text,
    preview_sums,
    rows_for,
    weight_note,
)
from gapless.schema import Schema
from gapless.text import listing
from gapless.types import Floats, whole

if TYPE_CHECKING:
    from gapless.query.parsing import AnyQuestion

Flags: TypeAlias = NDArray[np.bool_]

MAX_CELLS = 4_000_000  # combinations in a deck
_ASK_TABLE = Hint("ask the private table: ", Call("people.ask", Call("Median", "income"), Argument("spend", "5%")))
SHARE_GRID = 1 << 20  # steps per row to which shares are rounded


@dataclass(frozen=True, slots=True, kw_only=True)
class HotDeck(SingleRelease):
    r"""Fill gaps from rows of the same class. Each row donates at most `limit` times. Works for any ε.

    Classes are the combinations of cells of `on`, public columns that the question does not fill. A gap is a separate
    cell. In a class with n donors and m donees, a donee takes the share :math:`\min(1/n, K/m)` from each donor. This is
    the expected answer of a random hot deck in which no donor donates more than K times. The answer is consistent, up
    to the limit, if cells are missing at random given the class.

    Guarantee: adding or removing one row changes the answer by at most 1 + K rows, in vectors 1 + 2K. So ordinary noise
        suffices. Proved in docs/proofs/hot_deck.md, tested by tests/property/test_hot_deck.py.
    """

    on: Sequence[str]  # kept as a tuple
    limit: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", checked_names(self.on, "on"))
        object.__setattr__(self, "limit", whole("limit", self.limit, error=QuestionError, least=1))

    def pending(self, asked: CompiledQuestion, table: PrivateTable) -> PendingRelease:
        """The sums over all rows, including filled rows."""
        rows, contribution = rows_for(table, asked), self.contribution(asked)
        value = hot_deck_sum(
            rows, contribution, targets=asked.targets, cells=self.on, limit=self.limit, bins=table.schema
        )
        return PendingRelease(asked, value, contribution.unit, (self.describe(asked), weight_note(asked, table)))

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The noise to expect, from public facts alone."""
        contribution = self.contribution(asked)
        distance = hot_deck_distance(contribution, self.limit, per_person)
        return preview_sums(asked, contribution.unit, distance, loss, rows)

    def release(self, table: PrivateTable, columns: Sequence[str], *, spend: Spend) -> ReleasedDeck:
        """Release the counts of donors and donees in each class, once.

        The released deck answers any number of questions about `on` and `columns` for free. It is one release: the
        counts of all combinations, with gaps as cells. A row is in one combination.
        """
        columns = checked_names(columns, "columns")
        if not columns:
            raise QuestionError(
                "columns is empty, but a deck needs a column to fill",
                hint=Hint("pass ", Argument("columns", ["income"])),
            )
        if both := sorted(set(self.on) & set(columns)):
            raise QuestionError(
                f"column {both[0]!r} is in both on and columns, but rows cannot be matched on a column that is filled",
                hint=Hint(f"leave {both[0]!r} out of ", Argument("on"))
                | Hint(f"leave {both[0]!r} out of ", Argument("columns")),
            )
        names = (*self.on, *columns)
        schema = table.schema.select(known_column(table.schema, name) for name in names)
        if (size := math.prod(column.extended_size for column in schema.columns)) > MAX_CELLS:
            raise QuestionError(
                f"a deck may have at most {MAX_CELLS:,} combinations of cells, "
                f"but {listing(names)} have {size:,} combinations",
                hint="pass fewer columns to match on or to fill, or declare fewer bins or levels in the schema",
            )
        spend = table.ledger.share(spend)
        grant = table.ledger.grant(spend, to="HotDeck.release")
        counts = table.marginal(names, rows="extended")
        mechanism = for_counts(grant.even_loss([counts], spend), counts.distance)
        released = grant.release(counts, mechanism, what=f"hot deck of {listing(columns)} by {listing(self.on)}")
        return ReleasedDeck(self, schema, released.value.astype(np.float64), released.entry, guarantee_text(table))

    def contribution(self, asked: CompiledQuestion) -> RowContribution:
        """What each row adds, on a grid that is fine enough for rounded shares."""
        check_filling(asked, self.on)
        check_declared_bins(asked.declared_schema, self.on, "match rows on")
        return asked.contribution.scaled(-(-SHARE_GRID // asked.contribution.unit))

    def describe(self, asked: CompiledQuestion) -> str:
        """How gaps are filled, for the answer."""
        times = "once" if self.limit == 1 else f"{self.limit} times"
        alike = f"the same {listing(self.on)}" if self.on else "no gap there"
        return f"gaps in {listing(asked.targets)} are filled from rows with {alike}, each giving at most {times}"


@dataclass(frozen=True, repr=False)
class ReleasedDeck:
    """Released counts of donors and donees. They answer any number of questions for free.

    The answers fill gaps as the deck does. A question with another treatment is refused.
    """

    treatment: HotDeck
    schema: Schema
    counts: Floats
    entry: int
    protects: str

    def ask(self, question: AnyQuestion) -> Answer:
        """Answer from the released counts, for free."""
        check_question(question)
        question.check_is_per_row("a deck")
        asked = question.compile(self.schema, at_full_resolution=False)  # only counts of bins were released
        if not isinstance(question.treatment(asked, filled=True), Drop):
            raise QuestionError(
                f"a deck answers counts, sums, means, proportions and variances, but not {question}",
                hint=_ASK_TABLE,
            )
        if question.missing not in (Drop(), self.treatment):
            raise QuestionError(
                f"the question has missing={question.missing}, but this deck fills gaps with {self.treatment}",
                hint=Hint("leave ", Argument("missing"), " out") | _ASK_TABLE,
            )
        if asked.targets:
            check_filling(asked, self.treatment.on)
        gap_note = self.treatment.describe(asked) if asked.targets else ""
        return Answer(
            asked.text,
            asked.estimates(self._sums(asked), asked.contribution.unit, None),
            as_sentence(gap_note, asked.caveat),
            self.protects,
            (self.entry,),
            "No interval: the answer combines many noisy counts. It was free: the deck had been paid for.",
            question.levels(self.schema),
        )

    def __repr__(self) -> str:
        filled = self.schema.names[len(self.treatment.on) :]
        return f"<ReleasedDeck of {listing(filled)} by {listing(self.treatment.on) or 'nothing'}; entry {self.entry}>"

    def _sums(self, asked: CompiledQuestion) -> Floats:
        """The same as `hot_deck_total`, from noisy counts. A class has at least one donor and at least 0 donees."""
        matching = len(self.treatment.on)
        names = self.schema.names
        kept = [i for i, name in enumerate(names) if i < matching or name in asked.contribution.columns] or [0]
        counts = self.counts.sum(axis=tuple(set(range(len(names))) - set(kept)))
        inner = {names[i]: counts.shape[place] for place, i in enumerate(kept) if i >= matching}
        codes = {
            name: grid.ravel() for name, grid in zip(inner, np.indices(tuple(inner.values())), strict=True)
        }  # all combinations within a class
        donee = np.zeros(math.prod(inner.values()), dtype=np.bool_)
        for name in asked.targets:
            donee |= codes[name] >= self.schema[name].size
        sums = np.zeros(asked.contribution.width)
        for place in np.ndindex(counts.shape[:matching]):
            matched = dict(zip(self.treatment.on, place, strict=True))
            sums += self._class_sums(asked, counts[place].ravel(), codes, matched, donee)
        return sums

    def _class_sums(
        self, asked: CompiledQuestion, counts: Floats, codes: CodesByName, matched: dict[str, int], donee: Flags
    ) -> Floats:
        sums = np.zeros((asked.contribution.groups, asked.contribution.components))

        def add(rows: CodesByName, times: Floats) -> None:
            same = {name: np.full(len(times), code) for name, code in matched.items()}
            group, added = asked.contribution.evaluate(dict(rows) | same)
            np.add.at(sums, group, times[:, None] * added)

        giving = {name: array[~donee] for name, array in codes.items()}
        donors = counts[~donee]
        add(giving, donors)
        donees = counts[donee]
        n, m = max(1.0, float(donors.sum())), max(0.0, float(donees.sum()))
        share = min(1 / n, self.treatment.limit / m) if m else 0.0
        for number, takes in zip(np.flatnonzero(donee), donees * share, strict=True):
            filled = {
                name: given
                if codes[name][number] >= self.schema[name].size
                else np.full_like(given, codes[name][number])
                for name, given in giving.items()
            }
            add(filled, takes * donors)
        return sums.ravel()
