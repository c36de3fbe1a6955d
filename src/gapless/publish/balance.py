"""The balance of a ledger after a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from gapless.privacy import Ledger
from gapless.privacy.ledger import Coverage
from gapless.schema import Schema

Notify: TypeAlias = Callable[[str], object]  # takes a message for the data holder


@dataclass(frozen=True, slots=True)
class Balance:
    """What is spent and left, in percent of the whole budget, and the path of the ledger."""

    spent: float
    left: float
    ledger: Path
    coverage: Coverage = "unknown"

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """Return the balance of a ledger, with the path that it was opened with."""
        return cls(*ledger.percentages(), ledger.given_path, ledger.coverage)

    @property
    def scope(self) -> str:
        """Which ledger the guarantee covers, and whether gapless would notice another one for the same rows."""
        if self.coverage == "registered":
            return (
                f"The ledger is {self.ledger}; another one is refused for these files. Releases from copies of these "
                "files, under other ledgers, are not counted in this promise."
            )
        return (
            f"The ledger is {self.ledger}. Releases under other ledgers would not be noticed, and are not counted in "
            "this promise."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the balance for JSON."""
        return {"spent": self.spent, "left": self.left, "ledger": str(self.ledger)}

    def __str__(self) -> str:
        return f"Spent {self.spent:.2f}% of the budget, left {self.left:.2f}%, in {self.ledger}"


def notify_cautions(ledger: Ledger, schema: Schema, notify: Notify) -> None:
    """Report the weaknesses of a ledger's guarantee, before anything is spent under it."""
    for caution in ledger.cautions(expected_rows=schema.expected_rows):
        notify(f"Warning: {caution}")
