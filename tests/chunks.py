"""A throw-away engine for tests: rows in a list of chunks, everything done by loops over them, nothing held whole."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from gapless.data import PrivateTable
from gapless.data.engines.engine import Batch
from gapless.privacy.sealing import transform

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Chunks:
    """Some rows each, every row a tuple of codes."""

    chunks: tuple[Rows, ...]

    def count(self, marginals, sizes, shown):
        counted = []
        for marginal in marginals:
            cells = Counter(tuple(row[c] for c in marginal) for chunk in self.chunks for row in chunk)
            counts = np.zeros([sizes[c] for c in marginal], dtype=np.int64)
            for cell, number in cells.items():
                counts[cell] = number
            counted.append(counts[tuple(slice(shown[c]) for c in marginal)])
        return counted

    def select(self, columns):
        return self._each(lambda row: [tuple(row[c] for c in columns)])

    def recode(self, codes):
        return self._each(
            lambda row: [tuple(int(codes[c][code]) if c in codes else code for c, code in enumerate(row))]
        )

    def keep(self, cells):
        return self._each(lambda row: [row] if all(marked[row[c]] for c, marked in cells.items()) else [])

    def batches(self, columns):
        for chunk in self.chunks:
            yield Batch(tuple(np.array([row[c] for row in chunk], dtype=np.uint16) for c in columns), len(chunk))

    def lot(self, columns, marks):
        rows = [row for chunk in self.chunks for row, mark in zip(chunk, marks(len(chunk)), strict=True) if mark]
        return Batch(tuple(np.array([row[c] for row in rows], dtype=np.uint16) for c in columns), len(rows))

    def _each(self, function):
        return replace(
            self, chunks=tuple(tuple(new for row in chunk for new in function(row)) for chunk in self.chunks)
        )


def chunked(table, size, engine=Chunks):
    """The same sealed table with its rows in chunks of this size."""

    def cut(held):
        batches = held.batches(range(len(table.schema.columns)))
        rows = iter([tuple(map(int, row)) for batch in batches for row in zip(*batch.columns, strict=True)])
        return engine(tuple(iter(lambda: tuple(islice(rows, size)), ())))

    rows = transform(table._cells, cut, distance=table.protect, reads=None, key=table._key)
    return PrivateTable(rows, table.schema, table.ledger, engine=engine)
