"""What a gap is, by a ledger's header and for a reading under it: figures for the complete table rest on one answer.

F is a statement about one pattern of gaps. A release whose reading takes other cells for gaps than the header states
counts every row (docs/proofs/ground_truth.md, section 11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapless.errors import BudgetError, SchemaError
from gapless.privacy.assumptions import MCAR, Assumption, named_rates
from gapless.privacy.private import Columns
from gapless.text import nearest
from gapless.types import GapRule

if TYPE_CHECKING:
    from gapless.privacy.ledger_file import Entry

_UNSAID = "the ledger does not say, so its rate lowers no figure"


@dataclass(frozen=True, slots=True)
class Gaps:
    """The rule of each column: as the header states it, or None if it says nothing; and as a reading has it."""

    stated: Mapping[str, GapRule] | None
    reading: Mapping[str, GapRule]

    def agreed(self, column: str) -> bool:
        """Whether the same cells of a column are gaps for the reading and by the header."""
        here, there = self.reading.get(column), (self.stated or {}).get(column)
        return here is not None and there is not None and here.digest == there.digest

    def recorded(self, reads: Columns | None) -> Columns | None:
        """What a value of this reading reads, as an entry records it: every row, unless the header agrees on it all."""
        return reads if all(map(self.agreed, reads or ())) else None

    def counted(self, reads: Collection[str] | None) -> Columns | None:
        """What an entry reads, as figures for the complete table count it."""
        said = reads is not None and self.stated is not None and self.stated.keys() >= set(reads)
        return frozenset(reads or ()) if said else None

    def losses(self, entries: Iterable[Entry]) -> list[tuple[float, Columns | None]]:
        """What entries have lost, and what each reads."""
        return [(entry.loss, self.counted(entry.reads)) for entry in entries]

    @property
    def columns(self) -> list[str]:
        """The columns that have gaps, as the header states them: no other can lower a figure."""
        return [column for column, rule in (self.stated or {}).items() if rule.told != "nothing"]

    def digests(self) -> dict[str, str]:
        """The rules of the reading, for columns that have gaps."""
        return {column: rule.digest for column, rule in self.reading.items() if rule.told != "nothing"}

    def told(self, assumption: Assumption) -> dict[str, str]:
        """What counts as a gap in each column that an assumption names."""
        rules = self.stated or {}
        return {column: rules[column].told if column in rules else _UNSAID for column in named_rates(assumption)}

    def check_columns(self, assumption: Assumption, where: object) -> None:
        """Refuse a rate for a column that neither the header nor the reading knows: misspelt, it changes nothing."""
        rates = getattr(assumption, "rates", None)  # what is no assumption is refused by `over`
        known = {**self.stated, **self.reading} if self.stated else {}
        for column in rates if known and isinstance(rates, Mapping) else ():
            if column not in known:
                raise SchemaError(f"no column {column!r} in {where}", hint=nearest(column, known))

    def remarks(self) -> tuple[str, ...]:
        """What weakens the promise to the complete table, in sentences; nothing in the usual case."""
        if self.stated is None:
            return (
                "This ledger was begun by an earlier gapless and does not say what a gap is: no figure for the "
                "complete table is below that for the incomplete one.",
            )
        others = [name for name, rule in self.reading.items() if rule.told != "nothing" and not self.agreed(name)]
        if not others:
            return ()
        return (
            f"This reading takes other cells for gaps than the ledger says, in {', '.join(map(repr, others))}: "
            "its releases that look at such a column count every row in figures for the complete table.",
        )


def check_estimated(assumption: Assumption | None, gaps: Mapping[str, GapRule]) -> None:
    """Refuse rates that were estimated with other cells as gaps: they say nothing of these."""
    if not isinstance(assumption, MCAR) or assumption.paid is None:
        return
    for column in named_rates(assumption):
        if column in gaps and assumption.paid.gaps.get(column) != gaps[column].digest:
            raise BudgetError(
                f"the rate of gaps in {column!r} was estimated under a schema that takes other cells for gaps",
                hint="estimate it with the schema that this ledger was opened with",
            )
