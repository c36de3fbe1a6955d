r"""Which rows break a rule, and with how many others. Sorting avoids a loop over all pairs.

A row is one number for each column that a rule names. `partner_weights` sums the weights of all second rows that
satisfy all comparisons with a first row. It reduces the comparisons:

- Equal columns define groups: a row has partners only in its own group.
- The count for :math:`x \ne y` is the count of all minus the count for :math:`x = y`.
- For whole numbers below :math:`2^b`, :math:`x < y` holds if for exactly one of b bits the higher bits agree, x has 0
  and y has 1. These are b comparisons for equality. The last order comparison is a search in a sorted list.

For n rows, d order comparisons and m different numbers this takes :math:`O(n \log n \log^{d-1} m)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import SIGNS
from gapless.constraints.rules import ColumnRef, Rule, Term
from gapless.schema.columns import Column
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats, Integers

Flags: TypeAlias = NDArray[np.bool_]
Reading: TypeAlias = Literal["value", "may", "must"]

_ROUNDING = 1e-12  # relative rounding error of sums of weights that should be 0
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class ValueRanges:
    """The values of rows or cells in one column, as numbers. NaN where nothing can be compared.

    Attributes:
        value: the value, or the representative value of a cell.
        low: the smallest possible value.
        high: the largest possible value.
    """

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def exactly(cls, values: Floats) -> ValueRanges:
        """Known values."""
        return cls(values, values, values)

    def __getitem__(self, rows: Any) -> ValueRanges:
        return ValueRanges(self.value[rows], self.low[rows], self.high[rows])


Rows: TypeAlias = Mapping[int, ValueRanges]  # by the position of a column


def ranges_of_cells(column: Column, cells: Floats | None = None) -> ValueRanges:
    """The values of a column's cells, by code. A level has its position, *not applicable* and gaps have NaN.

    The representative value of a bin is its middle, or its most frequent cell if the counts of `cells` are known.
    """
    none = np.full(column.extended_size - column.values_size, np.nan)
    if not isinstance(column, BinnedColumn):
        return ValueRanges.exactly(np.append(np.arange(float(column.values_size)), none))
    return ValueRanges(*(np.append(ends, none) for ends in (column.bin_midpoints(cells), *column.bin_ranges())))


def select_rows(rows: Rows, which: Any) -> dict[int, ValueRanges]:
    """Index the rows of every column."""
    return {column: numbers[which] for column, numbers in rows.items()}


def terms_hold(terms: Sequence[Term], first: Rows, second: Rows, *, reading: Reading = "value") -> Flags:
    """Whether all terms hold for a first and a second row, element by element.

    For cells, `reading` says for which values: the representatives, some values (`may`) or all values (`must`).
    """
    result: Flags = np.ones((), dtype=np.bool_)
    for term in terms:
        left = (first, second)[term.left.row][term.left.column]
        if isinstance(term.right, ColumnRef):
            right = (first, second)[term.right.row][term.right.column]
            result = result & _compare(left, term.sign, right, reading) & ~np.isnan(left.value) & ~np.isnan(right.value)
        else:  # no value splits a bin
            result = result & SIGNS[term.sign](left.value, term.right) & ~np.isnan(left.value)
    return result


def _compare(left: ValueRanges, sign: str, right: ValueRanges, reading: Reading) -> Any:
    if reading == "value":
        return SIGNS[sign](left.value, right.value)
    if reading == "must":
        return ~_compare(left, _NEGATED[sign], right, "may")
    if sign == "==":
        return (left.low <= right.high) & (left.high >= right.low)
    if sign == "!=":
        return ~((left.low == left.high) & (right.low == right.high) & (left.low == right.low))
    return SIGNS[sign](*((left.low, right.high) if sign in ("<", "<=") else (left.high, right.low)))


def partner_weights(
    terms: Sequence[Term], first: Rows, second: Rows, weights: Floats, *, reading: Reading = "value"
) -> Floats:
    """For each first row, the total weight of the second rows with which all terms hold. See `terms_hold`."""
    sides = []
    for row, rows in enumerate((first, second)):
        alone = terms_hold([term for term in terms if term.rows == {row}], first, second, reading=reading)
        sides.append(np.broadcast_to(alone, row_count(rows)).copy())
    equal, unequal, orders = [], [], []
    for term in terms:
        if not isinstance(term.right, ColumnRef) or len(term.rows) == 1:
            continue
        left, right = first[term.left.column], second[term.right.column]
        sides[0] &= ~np.isnan(left.value)
        sides[1] &= ~np.isnan(right.value)
        if reading == "value":
            left, right = ValueRanges.exactly(left.value), ValueRanges.exactly(right.value)
        if term.sign == "==" and _is_exact(left) and _is_exact(right):
            equal.append((left.value, right.value))
        elif term.sign == "==":
            orders += [(left.low, right.high, False), (-left.high, -right.low, False)]
        elif term.sign == "!=":
            unequal.append((_exact_value(left), _exact_value(right)))
        elif term.sign in ("<", "<="):
            orders.append((left.low, right.high, term.sign == "<"))
        else:
            orders.append((-left.high, -right.low, term.sign == ">"))
    found = np.zeros(len(sides[0]))
    ours, theirs = map(np.flatnonzero, sides)
    found[ours] = _count(
        [(x[ours], y[theirs]) for x, y in equal],
        [(x[ours], y[theirs]) for x, y in unequal],
        [_ranks(x[ours], y[theirs], strict=strict) for x, y, strict in orders],
        (np.zeros(len(ours), dtype=np.int64), np.zeros(len(theirs), dtype=np.int64)),
        weights[theirs],
    )
    return found


def row_count(rows: Rows) -> int:
    """The number of rows."""
    return len(next(iter(rows.values())).value)


def _is_exact(numbers: ValueRanges) -> bool:
    return bool((np.isnan(numbers.value) | (numbers.low == numbers.high)).all())


def _exact_value(numbers: ValueRanges) -> Floats:
    """The value of a cell with a single value, else NaN, which equals nothing."""
    return np.where(numbers.low == numbers.high, numbers.low, np.nan)


def _ranks(left: Floats, right: Floats, *, strict: bool) -> tuple[Integers, Integers]:
    """Integer ranks: the left rank is smaller exactly where left < right, or left <= right if not `strict`."""
    ranks = np.unique(np.concatenate([left, right]), return_inverse=True)[1].ravel()
    return ranks[: len(left)], ranks[len(left) :] + (not strict)


def _count(
    equal: Sequence[tuple[Floats, Floats]],
    unequal: Sequence[tuple[Floats, Floats]],
    orders: Sequence[tuple[Integers, Integers]],
    groups: tuple[Integers, Integers],
    weights: Floats,
) -> Floats:
    """For each left row, the weight of the right rows of its group that satisfy the comparisons.

    `orders` has pairs of ranks of which the left one must be smaller.
    """
    if not len(groups[0]) or not len(groups[1]):
        return np.zeros(len(groups[0]))
    if unequal:
        pair, *rest = unequal
        return _count(equal, rest, orders, groups, weights) - _count([*equal, pair], rest, orders, groups, weights)
    for x, y in equal:  # NaN is equal to nothing
        ranks = _ranks(np.where(np.isnan(x), np.inf, x), np.where(np.isnan(y), -np.inf, y), strict=True)
        groups = _split_groups(groups, ranks)
    if not orders:
        size = int(max(side.max() for side in groups)) + 1
        return np.bincount(groups[1], weights=weights, minlength=size).astype(np.float64)[groups[0]]
    (low, high), *others = orders
    if not others:
        return _above(low, high, groups, weights)
    counts = np.zeros(len(low))
    for bit in range(int(max(low.max(), high.max())).bit_length()):
        ours, theirs = np.flatnonzero(~low >> bit & 1), np.flatnonzero(high >> bit & 1)
        higher = _split_groups((groups[0][ours], groups[1][theirs]), (low[ours] >> bit + 1, high[theirs] >> bit + 1))
        selected = [(left[ours], right[theirs]) for left, right in others]
        counts[ours] += _count([], [], selected, higher, weights[theirs])
    return counts


def _split_groups(groups: tuple[Integers, Integers], ranks: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """Split groups by ranks, and renumber them so that the numbers stay small."""
    if not len(groups[0]) or not len(groups[1]):
        return groups
    size = int(max(side.max() for side in ranks)) + 1
    keys = np.concatenate([group * size + rank for group, rank in zip(groups, ranks, strict=True)])
    numbers = np.unique(keys, return_inverse=True)[1].ravel()
    return numbers[: len(groups[0])], numbers[len(groups[0]) :]


def _above(left: Integers, right: Integers, groups: tuple[Integers, Integers], weights: Floats) -> Floats:
    """For each left row, the weight of the right rows of its group with a higher rank."""
    size = int(max(left.max(), right.max())) + 1
    keys = groups[1] * size + right
    order = np.argsort(keys, kind="stable")
    keys, sums = keys[order], np.append(0.0, np.cumsum(weights[order]))
    begin = np.searchsorted(keys, groups[0] * size + left, side="right")
    end = np.searchsorted(keys, (groups[0] + 1) * size)
    above: Floats = sums[end] - sums[begin]
    return above


def conflict_weights(rule: Rule, rows: Rows, weights: Floats, *, others: Rows | None = None) -> Floats:
    """For each row, the weight of the rows, or of `others`, with which it breaks a rule, in either order."""
    found = np.zeros(row_count(rows))
    for sign, terms in rule.either_order:
        found += sign * partner_weights(terms, rows, rows if others is None else others, weights)
    return found


@dataclass(frozen=True, slots=True)
class Violations:
    """How often a rule is broken.

    Attributes:
        rule: the rule as the schema writes it.
        rows: the number of rows that break it, alone or with another row.
        share: the share of rows that break it, by weight.
        pairs: the share of pairs of rows that break it, weighted by the product of their weights. None for a rule on
            one row.
    """

    rule: str
    rows: int
    share: float
    pairs: float | None


def violations(rule: Rule, rows: Rows, weights: Floats | None = None) -> Violations:
    """Count the rows and pairs of rows that break a rule."""
    mass = np.ones(row_count(rows)) if weights is None else weights
    total, pairs = float(mass.sum()), None
    alone = broken = np.broadcast_to(terms_hold(rule.terms, rows, rows), mass.shape)
    if rule.is_between_rows:
        partners_of = conflict_weights(rule, rows, mass) - alone * mass  # a row does not pair with itself
        broken = partners_of > _ROUNDING * total
        all_pairs = total**2 - float(mass @ mass)
        pairs = float(mass @ partners_of) / all_pairs if all_pairs > 0 else 0.0
    return Violations(rule.text, int(broken.sum()), float(mass @ broken) / total if total > 0 else 0.0, pairs)
