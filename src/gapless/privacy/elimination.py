r"""The mean of an exponential over random patterns of gaps, exactly, or certified from above.

.. math:: F = \log \mathbb{E}_v \exp\Bigl(\sum_A w_A \mathbf{1}\{A \subseteq v\}\Bigr)

with :math:`v_a` independent, :math:`\Pr[v_a = 1]` given. Written as a product of factors
:math:`1 + (e^{w_A} - 1)\prod_{a \in A} v_a` it is summed out column by column (variable elimination, least degree
first); the cost is 2 to the width. Where the width is too large, sets are made smaller: a smaller set is contained in
v more often, so the result can only grow. Nothing is sampled. Proved in docs/proofs/ground_truth.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Sets: TypeAlias = Mapping[frozenset[str], float]

WIDTH = 18  # tables of 2**18 numbers
OUTWARD = 1e-9  # float errors are below 1e-12; the result is raised by this much, relative and absolute


def log_mean_exp(weights: Sets, observed: Mapping[str, float], *, width: int = WIDTH) -> float:
    """F from above: exact up to 1e-9 where tables of `width` columns suffice, else a certified bound.

    Args:
        weights: a weight, not negative, for each set of columns.
        observed: the probability that a column is observed; one that is not named always is.
        width: the most columns of a table.
    """
    total = math.fsum(weights.values())
    names = sorted({a for columns in weights for a in columns if observed.get(a, 1.0) < 1})
    place = {a: i for i, a in enumerate(names)}
    masks: dict[int, float] = {}
    for columns, weight in weights.items():
        mask = sum(1 << place[a] for a in columns if a in place)
        masks[mask] = masks.get(mask, 0.0) + weight
    chances = [observed[a] for a in names]
    masks, order = _narrowed(masks, chances, width)
    return min(total, _sum_out(masks, chances, order) * (1 + OUTWARD) + OUTWARD)


def _sum_out(masks: Mapping[int, float], chances: list[float], order: list[int]) -> float:
    """Eliminate the columns in this order; all numbers are logarithms."""
    waiting = dict(masks)
    result = waiting.pop(0, 0.0)
    tables: list[tuple[int, NDArray[np.float64]]] = []  # columns as a mask, axes by place
    for column in order:
        bit = 1 << column
        touched = [(mask, weight) for mask, weight in waiting.items() if mask & bit]
        joined = [(mask, table) for mask, table in tables if mask & bit]
        tables = [(mask, table) for mask, table in tables if not mask & bit]
        scope = reduce(int.__or__, [mask for mask, _ in touched] + [mask for mask, _ in joined], 0)
        if not scope:
            continue
        axes = _places(scope)
        product = np.zeros((2,) * len(axes))
        for mask, weight in touched:
            del waiting[mask]
            product[tuple(1 if mask >> a & 1 else slice(None) for a in axes)] += weight
        for mask, table in joined:
            product += table.reshape([2 if mask >> a & 1 else 1 for a in axes])
        missing, seen = np.moveaxis(product, axes.index(column), 0)
        chance = chances[column]
        rest = np.logaddexp(missing + math.log1p(-chance), seen + math.log(chance))
        if scope == bit:
            result += float(rest)
        else:
            tables.append((scope ^ bit, np.asarray(rest)))
    return result


def _narrowed(masks: dict[int, float], chances: list[float], width: int) -> tuple[dict[int, float], list[int]]:
    """Sets made smaller, where they must be, and an order in which no table has more than `width` columns.

    In the part of the graph that cannot be eliminated, the column is taken out of the set where this costs the least
    for each connection that it loosens; the cost is the growth of the mean of L.
    """
    while True:
        order, core = _order(masks, len(chances), width)
        if not core:
            return masks, order
        found = _loosenings(masks, chances, core)
        found.sort()
        changed: set[int] = set()
        for _, mask, a in found[: max(1, len(found) // 100)]:
            if mask not in changed:
                smaller = mask & ~(1 << a)
                changed |= {mask, smaller}
                weight = masks.pop(mask)
                masks[smaller] = masks.get(smaller, 0.0) + weight


def _loosenings(masks: Mapping[int, float], chances: list[float], core: int) -> list[tuple[float, int, int]]:
    """What it costs to take a column out of a set, for each connection that only this set makes; set; column."""
    pairs: dict[int, int] = {}
    for mask in masks:
        for a, b in combinations(_places(mask & core), 2):
            pairs[1 << a | 1 << b] = pairs.get(1 << a | 1 << b, 0) + 1
    found = []
    for mask, weight in masks.items():
        inside = _places(mask & core)
        chance = math.prod(chances[a] for a in _places(mask))
        for a in inside if len(inside) > 1 else ():
            loosened = sum(pairs[1 << min(a, b) | 1 << max(a, b)] == 1 for b in inside if b != a)
            found.append((weight * chance * (1 / chances[a] - 1) / (loosened or 0.25), mask, a))
    return found


def _order(masks: Mapping[int, float], columns: int, width: int) -> tuple[list[int], int]:
    """Columns by least degree; what is left, as a mask, once every table would have more than `width` columns."""
    near = [0] * columns
    for mask in masks:
        for a in _places(mask):
            near[a] |= mask
    alive = sum(1 << a for a in range(columns))
    order: list[int] = []
    while alive:
        column = min(_places(alive), key=lambda a: near[a].bit_count())
        scope = near[column] | 1 << column
        if scope.bit_count() > width:
            return order, alive
        rest = scope & ~(1 << column)
        for a in _places(rest):
            near[a] = (near[a] | rest) & ~(1 << column)
        alive &= ~(1 << column)
        order.append(column)
    return order, 0


def _places(mask: int) -> list[int]:
    """The columns in a mask, in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
