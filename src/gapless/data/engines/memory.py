"""The engine whose rows lie in memory, one array of codes for each column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapless.data.engines.counting import BLOCK_CELLS, count
from gapless.data.engines.engine import Batch
from gapless.privacy.sgd import Marks
from gapless.types import Integers

ROWS = 1 << 16  # of a batch: their codes stay in the cache


@dataclass(frozen=True, slots=True)
class Memory(Batch):
    """All rows as one batch."""

    def count(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], shown: Sequence[int]) -> list[Integers]:
        """By blocks of columns that cover the marginals, in one pass (`counting`)."""
        cells = min(BLOCK_CELLS, max(256, self.rows // 4))  # a block is worth its cells while they are few beside rows
        return count(self.batches(range(len(self.columns))), sizes, marginals, shown, cells=cells)

    def select(self, columns: Sequence[int]) -> Memory:
        """The arrays of these columns."""
        return Memory(tuple(self.columns[column] for column in columns), self.rows)

    def recode(self, codes: Mapping[int, Integers]) -> Memory:
        """Each of these columns looked up in its new codes, which take one byte if they fit."""
        columns = list(self.columns)
        for column, new in codes.items():
            columns[column] = new.astype(np.min_scalar_type(new.max(initial=0)))[columns[column]]
        return Memory(tuple(columns), self.rows)

    def keep(self, cells: Mapping[int, NDArray[np.bool_]]) -> Memory:
        """The rows that every mask marks."""
        kept = np.ones(self.rows, dtype=np.bool_)
        for column, marked in cells.items():
            kept &= marked[self.columns[column]]
        return Memory(tuple(codes[kept] for codes in self.columns), int(kept.sum()))

    def lot(self, columns: Sequence[int], marks: Marks) -> Batch:
        """The marked rows, copied."""
        rows = np.flatnonzero(marks(self.rows))
        return Batch(tuple(self.columns[column][rows] for column in columns), rows.size)

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Slices: nothing is copied."""
        chosen = [self.columns[column] for column in columns]
        for start in range(0, self.rows, ROWS):
            stop = min(start + ROWS, self.rows)
            yield Batch(tuple(codes[start:stop] for codes in chosen), stop - start)

    def whole(self) -> Batch:
        """Itself."""
        return self
