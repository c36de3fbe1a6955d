"""The protocol of engines, and the engine that holds its rows in memory: one array of codes for each column.

Counting: many marginals in one pass over batches of encoded rows.

Marginals that overlap are counted together: a few blocks of columns, each with at most 65,536 cells so that
a cell's number fits in 16 bits, cover all that is asked, and each marginal is then summed out of a block.
All pairs of 15 columns need some 20 blocks instead of 105.

Where encoded rows lie, and what can be done with them there: one small protocol.

Every stable transformation is written once, on `Engine`. An engine decides nothing: which columns, which codes and
which rows are kept is public, and what comes out is the same whoever holds the rows. Some transformations compare rows
with each other, or draw for each row: they need all of them at hand, which `HoldsRows` offers. Whether an engine does
is a fact about its class, so what it cannot do is refused before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

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


BLOCK_CELLS = 1 << 16


def count(
    batches: Iterable[Batch],
    sizes: Sequence[int],
    marginals: Sequence[tuple[int, ...]],
    shown: Sequence[int],
    *,
    cells: int = BLOCK_CELLS,
) -> list[Integers]:
    """The counts of each marginal, as `Engine.count` tells; blocks have at most `cells` unless a marginal has more."""
    blocks, home = _cover(sizes, marginals, cells=cells)
    totals = [np.zeros(math.prod(sizes[c] for c in block), dtype=np.int64) for block in blocks]
    for batch in batches:
        for block, total in zip(blocks, totals, strict=True):
            np.add(total, _count_block(batch, sizes, block, total.size), out=total)
    shaped = [total.reshape([sizes[c] for c in block]) for block, total in zip(blocks, totals, strict=True)]
    places = [home[frozenset(marginal)] for marginal in marginals]
    return [
        _sum_out(marginal, blocks[place], shaped[place])[tuple(slice(shown[c]) for c in marginal)]
        for marginal, place in zip(marginals, places, strict=True)
    ]


def _cover(
    sizes: Sequence[int], marginals: Sequence[tuple[int, ...]], cells: int
) -> tuple[list[tuple[int, ...]], dict[frozenset[int], int]]:
    """Few blocks of columns such that each marginal lies inside one of them, and the block of each marginal.

    Greedy: a block starts with a marginal, the largest first, and takes in, as long as there is room, the column that
    shares the most uncounted pairs with it for its size.
    """
    wanted = sorted(
        {frozenset(marginal) for marginal in marginals}, key=lambda columns: (-len(columns), sorted(columns))
    )
    uncounted = np.zeros((len(sizes), len(sizes)), dtype=np.bool_)  # pairs, as a symmetric matrix
    for columns in wanted:
        if len(columns) == 2:
            i, j = columns
            uncounted[i, j] = uncounted[j, i] = True
    thirst = 1 / np.log(np.asarray(sizes, dtype=np.float64) + 1)
    blocks: list[tuple[int, ...]] = []
    home: dict[frozenset[int], int] = {}
    for columns in wanted:
        if columns in home:
            continue
        block = sorted(columns)
        room = cells // max(1, math.prod(sizes[c] for c in block))
        while block:
            gain = uncounted[block].sum(axis=0) * thirst
            gain[block] = 0
            gain[np.asarray(sizes) > room] = 0
            best = int(gain.argmax())
            if gain[best] == 0:
                break
            block.append(best)
            room //= sizes[best]
        uncounted[np.ix_(block, block)] = False
        parts = (part for size in range(3) for part in combinations(block, size))
        home |= {frozenset(part): len(blocks) for part in (*parts, columns) if frozenset(part) not in home}
        blocks.append(tuple(sorted(block)))
    return blocks, home


def _count_block(batch: Batch, sizes: Sequence[int], block: tuple[int, ...], cells: int) -> Integers:
    if not block:
        return np.array([batch.rows])
    small: type[np.integer[Any]] = np.uint16 if cells <= BLOCK_CELLS else np.int64
    keys: NDArray[Any] = batch.columns[block[0]].astype(small)
    for c in block[1:]:
        keys *= small(sizes[c])
        keys += batch.columns[c]
    return np.bincount(keys, minlength=cells)


def _sum_out(marginal: tuple[int, ...], block: tuple[int, ...], counts: Integers) -> Integers:
    kept = counts.sum(axis=tuple(i for i, c in enumerate(block) if c not in marginal))
    left = [c for c in block if c in marginal]
    return np.array(np.transpose(kept, [left.index(c) for c in marginal]), order="C")


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
