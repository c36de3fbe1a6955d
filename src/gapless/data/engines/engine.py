"""Where encoded rows lie, and what can be done with them there: one small protocol.

Every stable transformation is written once, on `Engine`. An engine decides nothing: which columns, which codes and
which rows are kept is public, and what comes out is the same whoever holds the rows. Some transformations compare rows
with each other, or draw for each row: they need all of them at hand, which `HoldsRows` offers. Whether an engine does
is a fact about its class, so what it cannot do is refused before a row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.sgd import Marks
from gapless.types import Codes, Integers


@dataclass(frozen=True, slots=True)
class Batch:
    """The codes of some rows, column by column."""

    columns: tuple[Codes, ...]
    rows: int


class Engine(Protocol):
    """Rows of codes. Columns are named by position; whatever comes back has the same capabilities."""

    def count(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], shown: Sequence[int]) -> list[Integers]:
        """How many rows fall into each combination of codes of each marginal's columns.

        `sizes` are the codes of each column, those of gaps included. A row with a code that is not below `shown` in one
        of the columns is left out: `shown` is `sizes` for *extended* counts, and the numbers of observed cells for
        *observed* ones. The empty marginal is the number of rows.
        """
        ...

    def select(self, columns: Sequence[int]) -> Engine:
        """The same rows with these columns; one may be named twice."""
        ...

    def recode(self, codes: Mapping[int, Integers]) -> Engine:
        """The same rows with each code of these columns replaced by the one that stands at its place."""
        ...

    def keep(self, cells: Mapping[int, NDArray[np.bool_]]) -> Engine:
        """The rows whose code is marked in each of these columns."""
        ...

    def lot(self, columns: Sequence[int], marks: Marks) -> Batch:
        """The rows that are marked, with these columns: `marks` is told how many rows there are to mark.

        It may be called several times, with the rows of a part each: marks of any two rows are independent.
        """
        ...

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Every row once, with these columns, some rows at a time: which ones is the engine's choice."""
        ...


@runtime_checkable
class HoldsRows(Engine, Protocol):
    """An engine that has all rows at hand, in an order that stays."""

    def whole(self) -> Batch:
        """All rows."""
        ...
