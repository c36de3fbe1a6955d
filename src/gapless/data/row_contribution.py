"""Integer contributions of rows to a vector of sums: of each row by itself, and of rows filled from donors."""

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

CHUNK = 1 << 16  # rows evaluated at a time
PAIRS = 1 << 18  # pairs of a donee and a donor evaluated at a time
LARGEST_UNIT = 1 << 28  # sums over fewer than 2³² rows fit into 63 bits
LIMB_BITS = 21  # three limbs hold a sum, and a limb times a number of rows fits into 63 bits
LIMB_MASK = (1 << LIMB_BITS) - 1
NO_COLUMNS: Mapping[str, int] = {}


@dataclass(frozen=True)
class Groups:
    """Groups of rows by a column: the group of each of its codes; `count` or more means that the row is in no group."""

    column: str
    group_of_code: Integers
    count: int


@dataclass(frozen=True)
class RowContribution:
    """A public function of one row: the integers that it adds to a vector of sums.

    The vector has `components` numbers for each group; a row adds to the numbers of one group.

    Attributes:
        columns: the columns that it reads, those of the groups included.
        value: maps the codes of some rows to an array of rows × components. The result for a row must not depend on
            other rows.
        components: the number of integers that a row adds.
        unit: a bound on the L1 norm of what a row adds, at most 2²⁸; a row that exceeds it adds nothing.
        by: the columns that group rows, a group for each combination. A row that is in no group adds nothing.
        signed: whether a row may add negative numbers; otherwise a row with a negative number adds nothing.
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
            raise SchemaError(
                f"a row contribution has a unit of {self.unit}, but it must be from 1 to {LARGEST_UNIT}",
                hint="choose a coarser grid",
            )

    @property
    def groups(self) -> int:
        """The number of groups."""
        return math.prod(groups.count for groups in self.by)

    @property
    def width(self) -> int:
        """The length of the vector."""
        return self.groups * self.components

    def scaled(self, factor: int) -> RowContribution:
        """The same contribution on a finer grid."""
        return replace(self, value=lambda rows: self.value(rows) * factor, unit=self.unit * factor)

    def evaluate(
        self, rows: CodesByName, observed: Mapping[str, int] = NO_COLUMNS
    ) -> tuple[NDArray[np.int64], Integers]:
        """The group of each row and what it adds there, at most `unit` in L1 for any result of `value`.

        `observed` has the number of observed codes of some columns: a row with a gap in one of them adds nothing.
        """
        added = np.asarray(self.value(rows), dtype=np.int64).reshape(-1, self.components)
        within = np.clip(added, -self.unit - 1, self.unit + 1)  # so that the L1 norm does not overflow
        left_out = np.abs(within).sum(axis=1) > self.unit
        group = np.zeros(len(added), dtype=np.int64)
        for groups in self.by:
            codes = groups.group_of_code[rows[groups.column]]
            left_out |= (codes < 0) | (codes >= groups.count)
            group = group * groups.count + np.clip(codes, 0, groups.count - 1)
        if not self.signed:
            left_out |= (added < 0).any(axis=1)
        for name, size in observed.items():
            left_out |= rows[name] >= size
        return np.where(left_out, 0, group), np.where(left_out[:, None], 0, added)

    def total(
        self, rows: CodesByName, observed: Mapping[str, int] = NO_COLUMNS, counts: Integers | None = None
    ) -> Integers:
        """The sum over rows, group by group; `counts` says how often each row occurs."""
        total = np.zeros((self.groups, self.components), dtype=np.int64)
        for start in range(0, number_of_rows(rows), CHUNK):
            chunk = {name: codes[start : start + CHUNK] for name, codes in rows.items()}
            group, added = self.evaluate(chunk, observed)
            if counts is not None:
                added *= counts[start : start + CHUNK, None]
            np.add.at(total, group, added)
        return total.ravel()


def number_of_rows(rows: CodesByName) -> int:
    """The number of rows; there must be a column."""
    return len(next(iter(rows.values())))


def bin_of_code(column: Column, binned: Column) -> Integers:
    """The code in `binned` of each code in `column`: the same column, with the same bins or with finer ones."""
    if isinstance(column, BinnedColumn) and isinstance(binned, BinnedColumn) and column != binned:
        return column.regroup(binned)
    return np.arange(column.extended_size)


def plain_sum_distance(contribution: RowContribution, rows: int) -> L1:
    """The L1 sensitivity of `plain_sum` to this many rows: a unit for each row."""
    return L1(rows * contribution.unit)


def hot_deck_distance(contribution: RowContribution, limit: int, rows: int) -> L1:
    """The L1 sensitivity of `hot_deck_total`: 1 + K units for one nonnegative number, otherwise 1 + 2K.

    One step of the grid is added for each number, as shares are rounded (docs/proofs/hot_deck.md).
    """
    units = 1 + limit if contribution.width == 1 and not contribution.signed else 1 + 2 * limit
    return L1(rows * (units * contribution.unit + contribution.width))


def distinct_rows(names: Sequence[str], batches: Iterable[CodesByName]) -> tuple[CodesByName, Integers]:
    """The distinct rows of all batches, by these columns, and how often each occurs."""
    parts: list[CodesByName] = [{name: np.zeros(0, dtype=np.uint8) for name in names}]
    counts = [np.zeros(0, dtype=np.int64)]
    for rows in batches:
        first, occurrences = _distinct([rows[name] for name in names], np.ones(number_of_rows(rows), dtype=np.int64))
        parts.append({name: rows[name][first] for name in names})
        counts.append(occurrences)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
    first, occurrences = _distinct(list(joined.values()), np.concatenate(counts))
    return {name: codes[first] for name, codes in joined.items()}, occurrences


def hot_deck_total(
    contribution: RowContribution,
    rows: CodesByName,
    counts: Integers,
    *,
    targets: Mapping[str, int],
    classes: Sequence[NDArray[np.integer]],
    limit: int,
) -> Integers:
    r"""The sum over all rows, where rows with a gap in a target are filled from donors of the same class.

    In a class with n donors and m donees, each donee i takes from each donor j the share
    :math:`w = \min(1/n, K/m)`. So no donor gives more than K times in all:

    .. math:: q_c = \sum_j f(j) + \Bigl\lfloor w \sum_i \sum_j f(i \leftarrow j) \Bigr\rfloor

    :math:`f(i \leftarrow j)` is f of row i with its gaps in the targets taken from row j. The sum is an integer, the
    share a fraction: the product is rounded down once in each class, in exact arithmetic. A class without donors fills
    nothing. Proof: docs/proofs/hot_deck.md.

    Args:
        contribution: f, the contribution of a row.
        rows: distinct rows.
        counts: how often each of them occurs.
        targets: the number of observed codes of each column that is filled.
        classes: codes of each row, equal within a class.
        limit: K.
    """
    donee = np.logical_or.reduce([rows[name] >= size for name, size in targets.items()])
    observed = {name: codes[~donee] for name, codes in rows.items()}
    total = contribution.total(observed, counts=counts[~donee])
    class_of = _number_combinations(classes, len(counts))
    donors = _DistinctRows.of(class_of[~donee], {name: observed[name] for name in targets}, counts[~donee])
    columns = dict.fromkeys([*contribution.columns, *targets])
    donees = _DistinctRows.of(class_of[donee], {name: rows[name][donee] for name in columns}, counts[donee])
    filled = np.zeros((contribution.groups, contribution.components), dtype=np.int64)
    for number in np.intersect1d(donors.classes, donees.classes):
        giving, taking = donors.in_class(int(number)), donees.in_class(int(number))
        n, m = int(giving.counts.sum()), int(taking.counts.sum())
        for place, donated in _donated_sums(contribution, giving, taking, targets).items():
            filled[place] += donated // n if m <= limit * n else donated * limit // m
    return total + filled.ravel()


def _donated_sums(
    contribution: RowContribution, giving: _DistinctRows, taking: _DistinctRows, targets: Mapping[str, int]
) -> dict[tuple[int, int], int]:
    """The sum over all pairs of a donee and a donor, for each number of each group: (group, component) to the sum.

    The sum over the donors of one donee fits into 63 bits. The sum over donees may not. So the former is split into
    limbs, these are summed, and joined as Python's integers.
    """
    sums: dict[tuple[int, int], int] = {}
    step = max(1, PAIRS // len(giving.counts))
    for start in range(0, len(taking.counts), step):
        donees = taking.counts[start : start + step]
        pairs: dict[str, Codes] = {}
        for name, codes in taking.codes.items():
            pairs[name] = np.repeat(codes[start : start + step], len(giving.counts))
            if name in targets:
                donated = np.tile(giving.codes[name], len(donees))
                pairs[name] = np.where(pairs[name] >= targets[name], donated, pairs[name])
        group, added = contribution.evaluate(pairs)
        donee = np.repeat(np.arange(len(donees)), len(giving.counts))
        kinds, place = np.unique(donee * contribution.groups + group, return_inverse=True)
        taken = np.zeros((len(kinds), contribution.components), dtype=np.int64)
        np.add.at(taken, place, np.tile(giving.counts, len(donees))[:, None] * added)
        found, place = np.unique(kinds % contribution.groups, return_inverse=True)
        times = donees[kinds // contribution.groups][:, None]
        limbs = (taken & LIMB_MASK, (taken >> LIMB_BITS) & LIMB_MASK, taken >> 2 * LIMB_BITS)
        for shift, limb in zip((0, LIMB_BITS, 2 * LIMB_BITS), limbs, strict=True):
            total = np.zeros((len(found), contribution.components), dtype=np.int64)
            np.add.at(total, place, times * limb)
            for (i, component), amount in np.ndenumerate(total):
                key = (int(found[i]), component)
                sums[key] = sums.get(key, 0) + (int(amount) << shift)
    return sums


@dataclass(frozen=True)
class _DistinctRows:
    """Distinct rows: their classes, their codes, and how often each occurs; sorted by class."""

    classes: NDArray[np.int64]
    codes: Mapping[str, Codes]
    counts: Integers

    @classmethod
    def of(cls, classes: NDArray[np.int64], codes: Mapping[str, Codes], counts: Integers) -> _DistinctRows:
        first, counts = _distinct([classes, *codes.values()], counts)
        return cls(classes[first], {name: array[first] for name, array in codes.items()}, counts)

    def in_class(self, number: int) -> _DistinctRows:
        place = slice(*np.searchsorted(self.classes, [number, number + 1]))
        codes = {name: array[place] for name, array in self.codes.items()}
        return _DistinctRows(self.classes[place], codes, self.counts[place])


def _distinct(columns: Sequence[NDArray[np.integer]], counts: Integers) -> tuple[NDArray[np.intp], Integers]:
    """Where each distinct combination of codes occurs first, and the sum of its `counts`."""
    numbers, first, place = np.unique(
        _number_combinations(columns, len(counts)), return_index=True, return_inverse=True
    )
    sums = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(sums, place, counts)
    return first, sums


def _number_combinations(columns: Sequence[NDArray[np.integer]], size: int) -> NDArray[np.int64]:
    """The number of each row's combination of codes among the distinct combinations."""
    numbers = np.zeros(size, dtype=np.int64)
    for codes in columns:
        wide = codes.astype(np.int64)
        numbers = np.unique(numbers * (int(wide.max(initial=0)) + 1) + wide, return_inverse=True)[1].astype(np.int64)
    return numbers
