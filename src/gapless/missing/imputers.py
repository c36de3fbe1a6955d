"""Filling gaps before anything is measured: row by row, from public facts or paid-for parameters only.

Such a filling is a random map of each row by itself, so neighbouring tables stay neighbours (PRIVACY D1). An imputer
that looks at other rows is not stable and has no place here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from gapless.data import PrivateTable
from gapless.data.private_table import WhichRows
from gapless.errors import ModelError
from gapless.privacy import Grant, Loss


class Imputer(Protocol):
    """Fills the gaps of a table; what it must learn from the table it pays for."""

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table without gaps. May release up to `budget` from the grant."""
        ...


@dataclass(frozen=True, slots=True)
class FromDomain:
    """Draw each missing cell evenly from the column's cells: a public rule, free."""

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:  # noqa: ARG002 free
        """The table with its gaps filled evenly."""
        return table.fill([np.full(column.size, 1 / column.size) for column in table.schema.columns])


@dataclass(frozen=True, slots=True)
class ImputeFirst:
    """Fill the gaps, then go on as if there had been none: the baseline of [MD] §6.2.

    Args:
        imputer: how gaps are filled.
        share: of the budget, what the imputer may spend.
    """

    rows: ClassVar[WhichRows] = "observed"

    imputer: Imputer = field(default_factory=FromDomain)
    share: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ModelError(f"share = {self.share} of the budget for filling gaps", hint="between 0 and 1: 0.25")

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:
        """The filled table."""
        return self.imputer.impute(table, grant, grant.left * self.share)
