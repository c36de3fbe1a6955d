"""The protocol of engines, and the engine that holds its rows in memory: one array of codes for each column.

Many marginals are counted in one pass over batches of rows. Marginals that overlap are counted together: a few blocks
of columns cover all marginals, and each marginal is summed out of a block. A block has at most 65,536 cells, so that
the number of a cell fits in 16 bits. All pairs of 15 columns need some 20 blocks instead of 105.

Every stable transformation is written once, on `Engine`. An engine decides nothing: which columns, codes and rows are
kept is public, and the result is the same for all engines. Some transformations compare rows with each other, or draw
for each row. They need all rows in memory (`RowAccess`). Whether an engine has them depends on its class, so a
transformation that it cannot do is refused before a row is read.
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
    """Rows of codes. Columns are named by position. Transformations return engines with the same capabilities."""

    def count(
        self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], counted_below: Sequence[int]
    ) -> list[Integers]:
        """Count the rows with each combination of codes, for each marginal.

        `sizes` are the numbers of codes of the columns, with those of gaps. A row is left out if one of its codes is
        not below `counted_below`. That is `sizes` for *extended* counts, and the numbers of observed cells for
        *observed* counts. The empty marginal is the number of rows.
        """

    def select(self, columns: Sequence[int]) -> Engine:
        """The same rows with these columns. A column may be named twice."""

    def recode(self, codes: Mapping[int, Integers]) -> Engine:
        """The same rows with each code `c` of these columns replaced by `codes[column][c]`."""

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Engine:
        """The rows whose code has a true mask in each of these columns."""

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        """The sampled rows, with these columns. `row_sampler` gets a number of rows and returns which are sampled.

        It may be called several times, for a part of the rows each: rows are sampled independently.
        """

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Every row once, with these columns, some rows at a time. The engine chooses the batches."""


@runtime_checkable
class RowAccess(Engine, Protocol):
    """An engine that has all rows in memory, in a fixed order."""

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
    counted_below: Sequence[int],
) -> list[Integers]:
    """Count each marginal as `Engine.count` does, in one pass over batches of the needed columns.

    `rows` is about the number of rows. Blocks have at most a quarter as many cells.
    """
    used = sorted({column for marginal in marginals for column in marginal})
    blocks, home = cover_marginals(marginals, sizes, cells=min(BLOCK_CELLS, max(256, rows // 4)))
    totals = [np.zeros(math.prod(sizes[c] for c in block), dtype=np.int64) for block in blocks]
    for batch in batches(used):
        columns = dict(zip(used, batch.columns, strict=True))
        for block, total in zip(blocks, totals, strict=True):
            np.add(total, _count_block(columns, batch.rows, sizes, block, total.size), out=total)
    found = zip(marginals, [home[frozenset(marginal)] for marginal in marginals], strict=True)
    return [marginalize(marginal, blocks[at], totals[at], sizes, counted_below) for marginal, at in found]


def cover_marginals(
    marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], *, cells: int
) -> tuple[list[tuple[int, ...]], dict[frozenset[int], int]]:
    """Find few blocks of columns such that each marginal is within one of them; and the block of each marginal.

    Blocks have at most `cells` cells unless a marginal has more. The search is greedy. A block starts with a marginal,
    the largest first. While a column still fits, it takes the column with the most uncounted pairs for its size.
    """
    wanted = sorted(set(map(frozenset, marginals)), key=lambda columns: (-len(columns), sorted(columns)))
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
        largest_size = cells // max(1, math.prod(sizes[c] for c in block))
        while block:
            gain = uncounted[block].sum(axis=0) * inverse_log_size
            gain[block] = 0
            gain[np.asarray(sizes) > largest_size] = 0
            best = int(gain.argmax())
            if gain[best] == 0:
                break
            block.append(best)
            largest_size //= sizes[best]
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
    marginal: tuple[int, ...],
    block: tuple[int, ...],
    counts: Integers,
    sizes: Sequence[int],
    counted_below: Sequence[int],
) -> Integers:
    """Sum a marginal out of the counts of its block, for codes below `counted_below`."""
    shaped = counts.reshape([sizes[c] for c in block])
    kept = shaped.sum(axis=tuple(i for i, c in enumerate(block) if c not in marginal))
    left = [c for c in block if c in marginal]
    ordered = np.array(np.transpose(kept, [left.index(c) for c in marginal]), order="C")
    return ordered[tuple(slice(counted_below[c]) for c in marginal)]


def count_gap_patterns(
    batches: Iterable[Batch], sizes: Sequence[int], prefixes: Sequence[tuple[bool, ...]]
) -> Integers:
    """Count the rows with each pattern of gaps, by prefix, in the order of `PrivateTable.gap_patterns`.

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
    """Join the rows of any number of batches in memory."""
    parts = [Batch((np.zeros(0, dtype=np.uint8),) * columns, 0), *batches]
    joined = (np.concatenate(codes) for codes in zip(*(part.columns for part in parts), strict=True))
    return Memory(tuple(joined), sum(part.rows for part in parts))


ROWS = 1 << 16  # of a batch: its codes fit in the processor's cache


@dataclass(frozen=True, slots=True)
class Memory(Batch):
    """All rows as one batch."""

    def count(
        self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], counted_below: Sequence[int]
    ) -> list[Integers]:
        """Count in one pass, by blocks of columns that cover the marginals."""
        return count_marginals(self.batches, self.rows, marginals, sizes, counted_below)

    def select(self, columns: Sequence[int]) -> Self:
        """The arrays of these columns."""
        return replace(self, columns=tuple(self.columns[column] for column in columns))

    def recode(self, codes: Mapping[int, Integers]) -> Self:
        """Look up the new code of each cell. New codes take one byte if they fit."""
        columns = list(self.columns)
        for column, new in codes.items():
            columns[column] = new.astype(np.min_scalar_type(new.max(initial=0)))[columns[column]]
        return replace(self, columns=tuple(columns))

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Self:
        """The rows for which every mask is true."""
        kept = np.ones(self.rows, dtype=np.bool_)
        for column, mask in kept_codes.items():
            kept &= mask[self.columns[column]]
        return self._only(kept)

    def _only(self, kept: NDArray[np.bool_]) -> Self:
        return replace(self, columns=tuple(codes[kept] for codes in self.columns), rows=int(kept.sum()))

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        """Copy the sampled rows."""
        rows = np.flatnonzero(row_sampler(self.rows))
        return Batch(tuple(self.columns[column][rows] for column in columns), rows.size)

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Slices of the columns. Nothing is copied."""
        chosen = [self.columns[column] for column in columns]
        for start in range(0, self.rows, ROWS):
            stop = min(start + ROWS, self.rows)
            yield Batch(tuple(codes[start:stop] for codes in chosen), stop - start)

    def all_rows(self) -> Batch:
        """Itself."""
        return self


@runtime_checkable
class KnowsPersons(Engine, Protocol):
    """An engine that knows whose its rows are."""

    def person_batches(self, columns: Sequence[int]) -> Iterator[PersonMemory]:
        """Every row once, with these columns and its person, some rows at a time."""

    def rows_of_persons(self) -> Integers:
        """How many rows each person had before any was left out, by number."""


@dataclass(frozen=True, slots=True)
class PersonMemory(Memory):
    """All rows as one batch, and whose they are.

    Attributes:
        persons: the number of the person of each row, from 0.
        rows_of: how many rows each person had before any was left out, by number.
    """

    persons: NDArray[np.int32]
    rows_of: Integers

    def person_batches(self, columns: Sequence[int]) -> Iterator[PersonMemory]:
        """Slices of the columns."""
        chosen = tuple(self.columns[column] for column in columns)
        for start in range(0, self.rows, ROWS):
            part = slice(start, start + ROWS)
            persons = self.persons[part]
            yield PersonMemory(tuple(codes[part] for codes in chosen), len(persons), persons, self.rows_of)

    def rows_of_persons(self) -> Integers:
        """The numbers of rows."""
        return self.rows_of

    def _only(self, kept: NDArray[np.bool_]) -> Self:
        columns = tuple(codes[kept] for codes in self.columns)
        return replace(self, columns=columns, rows=int(kept.sum()), persons=self.persons[kept])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class View:
    """Public transformations of rows that are elsewhere, shared by all engines that hold no rows.

    A view of a view is a view: two maps compose to one map, and a mask after a map is a mask before it.

    Attributes:
        columns: the columns, as positions in the schema that the rows were read with.
        maps: for each column the new code of each code that was read; None for the same codes.
        kept_codes: masks of codes by column of that schema. A row is kept if all masks are true.
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
        maps = list(self.maps)
        for place, new in codes.items():
            before = maps[place]
            maps[place] = np.asarray(new) if before is None else np.asarray(new)[before]
        return replace(self, maps=tuple(maps))

    def keep(self, kept_codes: Mapping[int, NDArray[np.bool_]]) -> Self:
        """Fewer rows: a row must satisfy the earlier masks and these."""
        masks = dict(self.kept_codes)
        for place, mask in kept_codes.items():
            column, codes = self.columns[place], self.maps[place]
            masks[column] = np.asarray(mask if codes is None else mask[codes]) & masks.get(column, True)
        return replace(self, kept_codes=masks)

    def poisson_sample(self, columns: Sequence[int], row_sampler: RowSampler) -> Batch:
        """Sample rows in one pass."""
        everything = range(len(columns))
        parts = (Memory(batch.columns, batch.rows) for batch in self.batches(columns))
        return join_batches((part.poisson_sample(everything, row_sampler) for part in parts), len(columns))

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Make one pass, as `Engine.batches` does."""
        raise NotImplementedError
