"""The protocol of engines, and the engine that holds its rows in memory: one array of codes for each column.

Many marginals are counted in one pass over batches of rows. Those that overlap are counted together: a few blocks of
columns, each with at most 65,536 cells so that a cell's number fits in 16 bits, cover all that is asked, and each
marginal is then summed out of a block. All pairs of 15 columns need some 20 blocks instead of 105.

Every stable transformation is written once, on `Engine`. An engine decides nothing: which columns, which codes and
which rows are kept is public, and what comes out is the same whoever holds the rows. Some transformations compare rows
with each other, or draw for each row: they need all of them at hand, which `RowAccess` offers. Whether an engine does
is a fact about its class, so what it cannot do is refused before a row is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.sgd import RowSampler
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

    def select(self, columns: Sequence[int]) -> Engine:
        """The same rows with these columns; one may be named twice."""

    def recode(self, codes: Mapping[int, Integers]) -> Engine:
        """The same rows with each code of these columns replaced by the one that stands at its place."""

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Engine:
        """The rows whose code is marked in each of these columns."""

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        """The rows that are marked, with these columns: `row_sampler` gets the number of rows.

        It may be called several times, with the rows of a part each: the draws of any two rows are independent.
        """

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Every row once, with these columns, some rows at a time: which ones is the engine's choice."""


@runtime_checkable
class RowAccess(Engine, Protocol):
    """An engine that has all rows at hand, in an order that stays."""

    def all_rows(self) -> Batch:
        """All rows."""


def rows_in_memory(engine: Engine) -> Batch:
    """All rows of an engine whose class has passed `check_in_memory`."""
    return cast("RowAccess", engine).all_rows()


BLOCK_CELLS = 1 << 16


def count_marginals(
    batches: Callable[[Sequence[int]], Iterable[Batch]],
    rows: int,
    marginals: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    shown: Sequence[int],
) -> list[Integers]:
    """The counts of each marginal, as `Engine.count` tells, in one pass over batches of the columns asked for.

    About `rows` rows come: a block is worth its cells while they are few beside these.
    """
    used = sorted({column for marginal in marginals for column in marginal})
    blocks, home = cover_marginals(marginals, sizes, cells=min(BLOCK_CELLS, max(256, rows // 4)))
    totals = [np.zeros(math.prod(sizes[c] for c in block), dtype=np.int64) for block in blocks]
    for batch in batches(used):
        columns = dict(zip(used, batch.columns, strict=True))
        for block, total in zip(blocks, totals, strict=True):
            np.add(total, _count_block(columns, batch.rows, sizes, block, total.size), out=total)
    places = [home[frozenset(marginal)] for marginal in marginals]
    return [
        marginalize(m, blocks[place], totals[place], sizes, shown) for m, place in zip(marginals, places, strict=True)
    ]


def cover_marginals(
    marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], *, cells: int
) -> tuple[list[tuple[int, ...]], dict[frozenset[int], int]]:
    """Few blocks of columns such that each marginal lies inside one of them, and the block of each marginal.

    Blocks have at most `cells` unless a marginal has more. Greedy: a block starts with a marginal, the largest first,
    and takes in, as long as there is room, the column that shares the most uncounted pairs with it for its size.
    """
    wanted = sorted(
        {frozenset(marginal) for marginal in marginals}, key=lambda columns: (-len(columns), sorted(columns))
    )
    uncounted = np.zeros((len(sizes), len(sizes)), dtype=np.bool_)  # pairs, as a symmetric matrix
    for columns in wanted:
        if len(columns) == 2:
            i, j = columns
            uncounted[i, j] = uncounted[j, i] = True
    inverse_log_size = 1 / np.log(np.asarray(sizes, dtype=np.float64) + 1)
    blocks: list[tuple[int, ...]] = []
    home: dict[frozenset[int], int] = {}
    for columns in wanted:
        if columns in home:
            continue
        block = sorted(columns)
        room = cells // max(1, math.prod(sizes[c] for c in block))
        while block:
            gain = uncounted[block].sum(axis=0) * inverse_log_size
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


def _count_block(
    columns: Mapping[int, Codes], rows: int, sizes: Sequence[int], block: tuple[int, ...], cells: int
) -> Integers:
    if not block:
        return np.array([rows])
    small: type[np.integer[Any]] = np.uint16 if cells <= BLOCK_CELLS else np.int64
    keys: NDArray[Any] = columns[block[0]].astype(small)
    for c in block[1:]:
        keys *= small(sizes[c])
        keys += columns[c]
    return np.bincount(keys, minlength=cells)


def marginalize(
    marginal: tuple[int, ...], block: tuple[int, ...], counts: Integers, sizes: Sequence[int], shown: Sequence[int]
) -> Integers:
    """The counts of a marginal, of codes below `shown`, out of those of the block that it lies in."""
    shaped = counts.reshape([sizes[c] for c in block])
    kept = shaped.sum(axis=tuple(i for i, c in enumerate(block) if c not in marginal))
    left = [c for c in block if c in marginal]
    ordered = np.array(np.transpose(kept, [left.index(c) for c in marginal]), order="C")
    return ordered[tuple(slice(shown[c]) for c in marginal)]


def count_gap_patterns(
    batches: Iterable[Batch], sizes: Sequence[int], prefixes: Sequence[tuple[bool, ...]]
) -> Integers:
    """The number of rows with each pattern of gaps, by its prefix: `PrivateTable.gap_patterns` says in which order.

    `sizes` are the numbers of observed cells of the columns of the batches.
    """
    fixed = len(prefixes[0]) if prefixes else 0
    patterns = 1 << (len(sizes) - fixed)
    counts = np.zeros((len(prefixes), patterns), dtype=np.int64)
    for batch in batches:
        gaps = np.array([codes >= size for codes, size in zip(batch.columns, sizes, strict=True)])
        gaps = gaps.reshape(len(sizes), batch.rows)
        number = np.zeros(batch.rows, dtype=np.int64)
        for gap in gaps[fixed:]:
            number = 2 * number + gap
        for place, prefix in enumerate(prefixes):
            rows = (gaps[:fixed] == np.array(prefix, dtype=np.bool_)[:, None]).all(axis=0)
            counts[place] += np.bincount(number[rows], minlength=patterns)
    return counts


def join_batches(batches: Iterable[Batch], columns: int) -> Memory:
    """All rows of some batches, or of none, in memory."""
    parts = [Batch((np.zeros(0, dtype=np.uint8),) * columns, 0), *batches]
    joined = (np.concatenate(codes) for codes in zip(*(part.columns for part in parts), strict=True))
    return Memory(tuple(joined), sum(part.rows for part in parts))


ROWS = 1 << 16  # of a batch: their codes stay in the cache


@dataclass(frozen=True, slots=True)
class Memory(Batch):
    """All rows as one batch."""

    def count(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], shown: Sequence[int]) -> list[Integers]:
        """By blocks of columns that cover the marginals, in one pass."""
        return count_marginals(self.batches, self.rows, marginals, sizes, shown)

    def select(self, columns: Sequence[int]) -> Memory:
        """The arrays of these columns."""
        return Memory(tuple(self.columns[column] for column in columns), self.rows)

    def recode(self, codes: Mapping[int, Integers]) -> Memory:
        """Each of these columns looked up in its new codes, which take one byte if they fit."""
        columns = list(self.columns)
        for column, new in codes.items():
            columns[column] = new.astype(np.min_scalar_type(new.max(initial=0)))[columns[column]]
        return Memory(tuple(columns), self.rows)

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Memory:
        """The rows that every mask marks."""
        kept = np.ones(self.rows, dtype=np.bool_)
        for column, marked in kept_codes.items():
            kept &= marked[self.columns[column]]
        return Memory(tuple(codes[kept] for codes in self.columns), int(kept.sum()))

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        """The marked rows, copied."""
        rows = np.flatnonzero(row_sampler(self.rows))
        return Batch(tuple(self.columns[column][rows] for column in columns), rows.size)

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Slices: nothing is copied."""
        chosen = [self.columns[column] for column in columns]
        for start in range(0, self.rows, ROWS):
            stop = min(start + ROWS, self.rows)
            yield Batch(tuple(codes[start:stop] for codes in chosen), stop - start)

    def all_rows(self) -> Batch:
        """Itself."""
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View:
    """Rows that lie elsewhere, seen through public maps: what engines have in common that hold no rows.

    A view of a view is again one: a map behind a map is one map, and marks behind a map are marks before it.

    Attributes:
        columns: each of them a column of the schema that the rows were read by.
        maps: for each column the codes that stand for those that were read, None for the same.
        marks: by column of that schema, the codes that a row must have to be kept.
    """

    columns: tuple[int, ...]
    maps: tuple[Integers | None, ...]
    kept_codes: Mapping[int, NDArray[np.bool_]]

    def select(self, columns: Sequence[int]) -> Self:
        """The same rows, other columns."""
        chosen = [(self.columns[column], self.maps[column]) for column in columns]
        return replace(self, columns=tuple(c for c, _ in chosen), maps=tuple(codes for _, codes in chosen))

    def recode(self, codes: Mapping[int, Integers]) -> Self:
        """The same rows, other codes."""
        maps = [
            np.asarray(codes[place])[slice(None) if before is None else before] if place in codes else before
            for place, before in enumerate(self.maps)
        ]
        return replace(self, maps=tuple(maps))

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Self:
        """Fewer rows: a row must satisfy the earlier masks and these."""
        masks = dict(self.kept_codes)
        for place, mask in kept_codes.items():
            column, codes = self.columns[place], self.maps[place]
            masks[column] = np.asarray(mask if codes is None else mask[codes]) & masks.get(column, True)
        return replace(self, kept_codes=masks)

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        """The marked rows of one pass."""
        everything = range(len(columns))
        drawn = (
            Memory(batch.columns, batch.rows).poisson_sample(everything, row_sampler) for batch in self.batches(columns)
        )
        return join_batches(drawn, len(columns))

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """One pass, as `Engine.batches` tells."""
        raise NotImplementedError
