"""Sums over rows in whole numbers: what each row adds by itself, and what donors add for rows with gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.errors import SchemaError
from gapless.privacy.private import L1, Columns
from gapless.schema.columns import Column
from gapless.schema.numeric import BinnedColumn
from gapless.types import Codes, Integers

CodesByName: TypeAlias = Mapping[str, Codes]  # the codes of each column, row by row

CHUNK = 1 << 16  # rows
PAIRS = 1 << 18  # of a donee and a donor
LARGEST_UNIT = 1 << 28  # what fewer than 2³² rows add up to fits into 63 bits
LIMB = 21  # bits: three hold a sum, and one of them times a number of rows fits into 63
ONES = (1 << LIMB) - 1
NONE: Mapping[str, int] = {}


@dataclass(frozen=True)
class Groups:
    """Groups of rows by a column: the group of each of its codes, `many` or beyond for those that are in none."""

    column: str
    group_of_code: Integers
    count: int


@dataclass(frozen=True)
class RowContribution:
    """What each row adds to a vector of whole numbers: public, and a function of that row alone.

    The vector has `parts` numbers for each group; a row adds to the numbers of one group.

    Attributes:
        columns: the columns it looks at, those of the groups included.
        value: from the codes of some rows to what each adds, an array of rows × parts. Row by row: what it says of
            one row must not depend on the others.
        parts: how many numbers a row adds.
        unit: the most that the absolute numbers of one row add up to, at most 2²⁸; a row that breaks this adds nothing.
        by: by which columns rows are grouped: a group for each combination. A row that is in none adds nothing.
        signed: whether a row may add negative numbers; else a row with one adds nothing.
        needs: columns such that a row with a gap in one of them is left out of `plain_sum`.
    """

    columns: tuple[str, ...]
    value: Callable[[CodesByName], Integers]
    components: int
    unit: int
    by: tuple[Groups, ...] = ()
    signed: bool = False
    needs: Columns = frozenset()

    def __post_init__(self) -> None:
        if not 1 <= self.unit <= LARGEST_UNIT:
            raise SchemaError(f"a unit of {self.unit}", hint=f"from 1 to {LARGEST_UNIT}: a coarser grid")

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return math.prod(groups.count for groups in self.by)

    @property
    def width(self) -> int:
        """The length of the vector."""
        return self.groups * self.components

    def scaled(self, factor: int) -> RowContribution:
        """The same on a finer grid."""
        return replace(self, value=lambda rows: self.value(rows) * factor, unit=self.unit * factor)

    def evaluate(self, rows: CodesByName) -> tuple[NDArray[np.int64], Integers]:
        """The group of each row and what it adds there, within the unit whatever `value` says."""
        added = np.asarray(self.value(rows), dtype=np.int64).reshape(-1, self.components)
        within = np.clip(added, -self.unit - 1, self.unit + 1)  # no sum of absolute numbers wraps
        bad = np.abs(within).sum(axis=1) > self.unit
        group = np.zeros(len(added), dtype=np.int64)
        for groups in self.by:
            codes = groups.group_of_code[rows[groups.column]]
            bad |= (codes < 0) | (codes >= groups.count)
            group = group * groups.count + np.clip(codes, 0, groups.count - 1)
        if not self.signed:
            bad |= (added < 0).any(axis=1)
        return np.where(bad, 0, group), np.where(bad[:, None], 0, added)

    def total(
        self, rows: CodesByName, size: int, observed: Mapping[str, int] = NONE, times: Integers | None = None
    ) -> Integers:
        """The sum over rows, as a vector: group by group.

        `observed` tells numbers of observed codes: a row with a gap in one of these columns is left out. `times` tells
        how many rows each of them stands for.
        """
        total = np.zeros((self.groups, self.components), dtype=np.int64)
        for start in range(0, size, CHUNK):
            some = {name: codes[start : start + CHUNK] for name, codes in rows.items()}
            group, added = self.evaluate(some)
            for name, codes in observed.items():
                added[some[name] >= codes] = 0
            if times is not None:
                added *= times[start : start + CHUNK, None]
            np.add.at(total, group, added)
        return total.ravel()


def bin_of_code(told: Column, bins: Column) -> Integers:
    """The code in `bins` of each code in `told`: the same column, told by the same bins or by finer ones."""
    if isinstance(told, BinnedColumn) and isinstance(bins, BinnedColumn) and told != bins:
        return told.regroup(bins)
    return np.arange(told.extended_size)


def plain_sum_distance(tally: RowContribution, rows: int) -> L1:
    """How far a tally moves in L1 when this many rows come or go: a unit for each."""
    return L1(rows * tally.unit)


def hot_deck_distance(tally: RowContribution, limit: int, rows: int) -> L1:
    """The same for `hot_deck_total`: 1 + K units for one number that is never negative, else 1 + 2K.

    And one step of the grid for each number, as shares are rounded (docs/proofs/hot_deck.md).
    """
    units = 1 + limit if tally.width == 1 and not tally.signed else 1 + 2 * limit
    return L1(rows * (units * tally.unit + tally.width))


def distinct_rows(names: Sequence[str], batches: Iterable[tuple[CodesByName, int]]) -> tuple[CodesByName, Integers]:
    """The different rows of all batches, by these columns, and how many there are of each."""
    parts: list[CodesByName] = [{name: np.zeros(0, dtype=np.uint8) for name in names}]
    times = [np.zeros(0, dtype=np.int64)]
    for rows, size in batches:
        first, counts = _distinct([rows[name] for name in names], np.ones(size, dtype=np.int64))
        parts.append({name: rows[name][first] for name in names})
        times.append(counts)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
    first, counts = _distinct(list(joined.values()), np.concatenate(times))
    return {name: codes[first] for name, codes in joined.items()}, counts


def hot_deck_total(
    tally: RowContribution,
    rows: CodesByName,
    times: Integers,
    *,
    targets: Mapping[str, int],
    classes: Sequence[NDArray[np.integer]],
    limit: int,
) -> Integers:
    r"""The sum over all rows, those with a gap in a target filled from donors of the same class.

    In a class with n donors and m donees each donee i takes from each donor j the share
    :math:`w = \min(1/n, K/m)`, so that no donor gives more than K times in all:

    .. math:: q_c = \sum_j f(j) + \Bigl\lfloor w \sum_i \sum_j f(i \leftarrow j) \Bigr\rfloor

    :math:`f(i \leftarrow j)` is f of row i with its gaps in the targets taken from row j. The sum is a whole number,
    the share a fraction: the product is rounded down once in each class, in exact arithmetic. A class without donors
    fills nothing. `targets` tells the number of observed codes of each, `times` how many rows are like each of `rows`,
    `classes` codes of each row that are equal within a class.
    Proof: docs/proofs/hot_deck.md.
    """
    donee = np.logical_or.reduce([rows[name] >= size for name, size in targets.items()])
    observed = {name: codes[~donee] for name, codes in rows.items()}
    total = tally.total(observed, int((~donee).sum()), times=times[~donee])
    class_of = _number_combinations(classes, len(times))
    donors = _DistinctRows.of(class_of[~donee], {name: observed[name] for name in targets}, times[~donee])
    looked_at = dict.fromkeys([*tally.columns, *targets])
    donees = _DistinctRows.of(class_of[donee], {name: rows[name][donee] for name in looked_at}, times[donee])
    filled = np.zeros((tally.groups, tally.components), dtype=np.int64)
    for number in np.intersect1d(donors.classes, donees.classes):
        giving, taking = donors.in_class(int(number)), donees.in_class(int(number))
        n, m = int(giving.counts.sum()), int(taking.counts.sum())
        for place, given in _donated_sums(tally, giving, taking, targets).items():
            filled[place] += given // n if m <= limit * n else given * limit // m
    return total + filled.ravel()


def _donated_sums(
    tally: RowContribution, giving: _DistinctRows, taking: _DistinctRows, targets: Mapping[str, int]
) -> dict[tuple[int, int], int]:
    """What all filled donees add, over all donors, to each number of each group: (group, part) to the sum.

    What one donee takes from all donors fits into 63 bits; the sum over donees may not. So the former is taken apart
    into limbs, these are summed, and put together as Python's integers.
    """
    sums: dict[tuple[int, int], int] = {}
    step = max(1, PAIRS // len(giving.counts))
    for start in range(0, len(taking.counts), step):
        donees = taking.counts[start : start + step]
        pairs: dict[str, Codes] = {}
        for name, codes in taking.codes.items():
            own = np.repeat(codes[start : start + step], len(giving.counts))
            if name in targets:
                given = np.tile(giving.codes[name], len(donees))
                own = np.where(own >= targets[name], given, own)
            pairs[name] = own
        group, added = tally.evaluate(pairs)
        donee = np.repeat(np.arange(len(donees)), len(giving.counts))
        kinds, place = np.unique(donee * tally.groups + group, return_inverse=True)
        taken = np.zeros((len(kinds), tally.components), dtype=np.int64)
        np.add.at(taken, place, np.tile(giving.counts, len(donees))[:, None] * added)
        found, place = np.unique(kinds % tally.groups, return_inverse=True)
        times = donees[kinds // tally.groups][:, None]
        for shift, limb in ((0, taken & ONES), (LIMB, (taken >> LIMB) & ONES), (2 * LIMB, taken >> 2 * LIMB)):
            total = np.zeros((len(found), tally.components), dtype=np.int64)
            np.add.at(total, place, times * limb)
            for (i, part), amount in np.ndenumerate(total):
                key = (int(found[i]), part)
                sums[key] = sums.get(key, 0) + (int(amount) << shift)
    return sums


@dataclass(frozen=True)
class _DistinctRows:
    """Rows that are alike, counted: their class, their codes, how many there are; sorted by class."""

    classes: NDArray[np.int64]
    codes: Mapping[str, Codes]
    counts: Integers

    @classmethod
    def of(cls, classes: NDArray[np.int64], codes: Mapping[str, Codes], times: Integers) -> _DistinctRows:
        first, counts = _distinct([classes, *codes.values()], times)
        return cls(classes[first], {name: array[first] for name, array in codes.items()}, counts)

    def in_class(self, number: int) -> _DistinctRows:
        place = slice(*np.searchsorted(self.classes, [number, number + 1]))
        codes = {name: array[place] for name, array in self.codes.items()}
        return _DistinctRows(self.classes[place], codes, self.counts[place])


def _distinct(columns: Sequence[NDArray[np.integer]], times: Integers) -> tuple[NDArray[np.intp], Integers]:
    """Where each different combination of codes comes first, and how often it comes, each row counted `times`."""
    numbers, first, place = np.unique(_number_combinations(columns, len(times)), return_index=True, return_inverse=True)
    counts = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(counts, place, times)
    return first, counts


def _number_combinations(columns: Sequence[NDArray[np.integer]], size: int) -> NDArray[np.int64]:
    """One number for each different combination of codes."""
    numbers = np.zeros(size, dtype=np.int64)
    for codes in columns:
        wide = codes.astype(np.int64)
        numbers = np.unique(numbers * (int(wide.max(initial=0)) + 1) + wide, return_inverse=True)[1].astype(np.int64)
    return numbers
