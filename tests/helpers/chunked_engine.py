"""A small engine for tests: rows in a list of chunks, every method a loop over them, never all rows at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gapless.data import PrivateTable
from gapless.data.engines.memory import Batch
from gapless.privacy.budget import Rows
from gapless.privacy.private import transform
from gapless.privacy.sgd import RowSampler

Row = tuple[int, ...]


@dataclass(frozen=True)
class ChunkedEngine:
    """Chunks of rows; every row is a tuple of codes."""

    chunks: tuple[tuple[Row, ...], ...]

    def count(
        self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], shown: Sequence[int]
    ) -> list[NDArray[np.int64]]:
        counted = []
        for marginal in marginals:
            cells = Counter(tuple(row[c] for c in marginal) for chunk in self.chunks for row in chunk)
            counts = np.zeros([sizes[c] for c in marginal], dtype=np.int64)
            for cell, number in cells.items():
                counts[cell] = number
            counted.append(counts[tuple(slice(shown[c]) for c in marginal)])
        return counted

    def select(self, columns: Sequence[int]) -> Self:
        return self._map_rows(lambda row: [tuple(row[c] for c in columns)])

    def recode(self, codes: Mapping[int, NDArray[np.int64]]) -> Self:
        return self._map_rows(
            lambda row: [tuple(int(codes[c][code]) if c in codes else code for c, code in enumerate(row))]
        )

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Self:
        return self._map_rows(lambda row: [row] if all(marked[row[c]] for c, marked in kept_codes.items()) else [])

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        for chunk in self.chunks:
            yield Batch(tuple(np.array([row[c] for row in chunk], dtype=np.uint16) for c in columns), len(chunk))

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        rows = [row for chunk in self.chunks for row, mark in zip(chunk, row_sampler(len(chunk)), strict=True) if mark]
        return Batch(tuple(np.array([row[c] for row in rows], dtype=np.uint16) for c in columns), len(rows))

    def _map_rows(self, function: Callable[[Row], Iterable[Row]]) -> Self:
        return replace(
            self, chunks=tuple(tuple(new for row in chunk for new in function(row)) for chunk in self.chunks)
        )


def chunked(table: PrivateTable, size: int, engine: type[ChunkedEngine] = ChunkedEngine) -> PrivateTable:
    """The same sealed table with its rows in chunks of this size."""

    def cut(held: Any) -> ChunkedEngine:
        batches = held.batches(range(len(table.schema.columns)))
        rows = iter([tuple(map(int, row)) for batch in batches for row in zip(*batch.columns, strict=True)])
        return engine(tuple(iter(lambda: tuple(islice(rows, size)), ())))

    rows = transform(table._unbinned_rows, cut, distance=Rows(table.protect.at_most), reads=None, key=table._key)
    return PrivateTable(rows, table.schema, table.ledger, engine=engine)
