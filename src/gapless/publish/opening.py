"""The private table of a release: read, sealed, and what is weak about its promise told before it is spent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from gapless.data import PrivateTable, read
from gapless.errors import Argument, Hint
from gapless.privacy import Budget, Ledger, Rows
from gapless.privacy.ledger import Coverage
from gapless.schema import Schema

Tell: TypeAlias = Callable[[str], object]  # takes a sentence for the holder


@dataclass(frozen=True, slots=True)
class Balance:
    """How a table's account stands, in percent of its whole budget, and where the ledger lies."""

    spent: float
    left: float
    ledger: Path
    coverage: Coverage = "unknown"

    @classmethod
    def of(cls, ledger: Ledger, place: Path) -> Self:
        """The balance of a ledger, told by the name it was called by."""
        return cls(*ledger.percentages(), place, ledger.coverage)

    @property
    def scope(self) -> str:
        """Which ledger the promise counts, and whether another one for the same rows would be noticed."""
        if self.coverage == "registered":
            return (
                f"The ledger is {self.ledger}; another one is refused for these files. Releases under other ledgers, "
                "from copies of them, are not counted in this promise."
            )
        return (
            f"The ledger is {self.ledger}. Releases under other ledgers would not be noticed, and are not counted in "
            "this promise."
        )

    def to_dict(self) -> dict[str, Any]:
        """The same, for a machine."""
        return {"spent": self.spent, "left": self.left, "ledger": str(self.ledger)}

    def __str__(self) -> str:
        return f"Spent {self.spent:.2f}% of the budget, left {self.left:.2f}%, in {self.ledger}"


def open_table(
    data: Any,
    schema: Schema,
    *,
    protect: Rows,
    budget: Budget | None,
    ledger: Path,
    encoding: str | None,
    tell: Tell | None,
    engine: str | None = None,
    query: str | None = None,
) -> PrivateTable:
    """What `gapless.read` gives; `tell` hears what the holder should weigh before anything is spent under it."""
    new = not ledger.exists()
    people = read(
        data, schema, protect=protect, ledger=ledger, budget=budget, encoding=encoding, engine=engine, query=query
    )
    if tell is not None:
        if new and people.ledger.budget.delta == 0:
            new_ledger = f"{ledger} is new, and for pure differential privacy: without "
            tell(Hint(new_ledger, Argument("delta"), " its δ is 0 for good."))
        for caution in people.ledger.cautions(expected_rows=schema.expected_rows):
            tell(f"Warning: {caution}")
    return people
