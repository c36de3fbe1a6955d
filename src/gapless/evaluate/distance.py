"""The k-way marginal distance: how far two tables are from each other in all sets of k columns.

The Wasserstein distance: how far rows must be moved to make one table of the other.
"""

from __future__ import annotations

import math
from itertools import combinations, islice

import numpy as np
from numpy.typing import ArrayLike

from gapless.arguments import whole
from gapless.data import Table
from gapless.data.checks import check_weights, comparable
from gapless.data.points import alike, points, positions
from gapless.errors import SchemaError
from gapless.evaluate.marginals import half_l1, shares_side_by_side
from gapless.schema import Column
from gapless.types import Floats

MOST_SETS = 500


def kway_distance(
    truth: Table, other: Table, *, k: int = 2, most_sets: int = MOST_SETS, weights: ArrayLike | None = None
) -> float:
    r"""The mean total variation distance of the two tables' k-way marginals, as in [MD] §6.1.

    .. math:: \frac{1}{|\mathcal S|} \sum_{S \in \mathcal S} \tfrac12 \lVert p_S - q_S \rVert_1

    All sets of k columns are taken, or `most_sets` of them spread evenly over all: always the same ones. In each set
    the rows without a gap in its columns count, and each table is normalised by its own number of them; if only one
    of the two has such a row the distance is 1.

    Args:
        truth: the table that is right.
        other: the table that is compared with it.
        k: the number of columns in a set.
        most_sets: the most sets that are looked at.
        weights: one for each row of `other`, such as importance weights; a weight of 2 counts like the row written
            twice.

    >>> import numpy as np
    >>> from gapless.schema import Categorical, Schema
    >>> schema = Schema("letters", [Categorical("x", ["a", "b"]), Categorical("y", ["a", "b"])])
    >>> one = Table(schema, [np.array([0, 1]), np.array([0, 1])], rows=2)
    >>> two = Table(schema, [np.array([0, 1]), np.array([1, 0])], rows=2)
    >>> kway_distance(one, two, k=1), kway_distance(one, two, k=2)
    (0.0, 1.0)
    """
    truth, other = comparable(truth, other)
    checked = check_weights(other, weights)
    columns = len(truth.schema.columns)
    k = whole("k", k, error=SchemaError, least=1, most=columns)
    step = math.ceil(math.comb(columns, k) / whole("most_sets", most_sets, error=SchemaError, least=1))
    sets = list(islice(combinations(range(columns), k), 0, None, step))
    return sum(half_l1(*shares_side_by_side(truth, other, chosen, checked)) for chosen in sets) / len(sets)


DIRECTIONS = 64


def column_wasserstein(column: Column, truth: Floats | None, other: Floats | None) -> float:
    r"""The 1-Wasserstein distance of two laws of one column, its line scaled to [0, 1].

    .. math:: W_1 = \int_0^1 |F(x) - G(x)| \, dx

    Levels without an order are all at distance 1, which makes it the total variation distance. Rows that came to or
    left *not applicable* count 1, the others are compared by their own laws. If only one of the two has a row it is 1.

    >>> from gapless.schema import Ordinal
    >>> column_wasserstein(Ordinal("x", ["a", "b", "c"]), np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))
    0.5
    """
    if truth is None or other is None or not column.on_scale:
        return half_l1(truth, other)
    many = column.values_size
    one, two = truth[:many], other[:many]
    here, there = float(one.sum()), float(two.sum())
    moved = abs(here - there)  # to or from not applicable
    if here == 0 or there == 0:
        return moved
    below = np.cumsum(one / here - two / there)[:-1]
    return moved + min(here, there) * float(np.abs(below) @ np.diff(positions(column)))


def wasserstein_distance(truth: Table, other: Table, *, weights: ArrayLike | None = None) -> float:
    r"""The sliced 1-Wasserstein distance of whole rows, as the divergence of [IW] §4.2.

    .. math:: \sqrt d \; \frac1L \sum_{l=1}^L W_1(\langle u_l, X\rangle, \langle u_l, Y\rangle)

    Rows become points: a column on a line one coordinate in [0, 1], other levels (and gaps, as one more level) corners
    at distance 1 of each other (`data.points`). The mean is over L = 64 fixed directions u of the sphere in d
    dimensions. The paper does not say how it computed the distance of joint laws; slices need no solver, use every row
    and take weights. 0 for equal tables.

    If one table has gaps and the other has none, only rows without a gap are compared: otherwise the gaps would be most
    of what is seen. If only one of the two has such a row it is 1.

    Args:
        truth: the table that is right.
        other: the table that is compared with it.
        weights: one for each row of `other`; a weight of 2 counts like the row written twice.
    """
    truth, other = comparable(truth, other)
    checked = check_weights(other, weights)
    kept = alike(truth, other)
    mass = (np.ones(other.rows) if checked is None else checked)[kept[1]]
    one, two = points(truth)[kept[0]], points(other)[kept[1]]
    if len(one) == 0 or not mass.any():
        return float((len(one) == 0) != (not mass.any()))
    rng = np.random.default_rng(0)  # always the same directions
    directions = rng.normal(size=(one.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    slices = [_on_a_line(x, y, mass) for x, y in zip((one @ directions).T, (two @ directions).T, strict=True)]
    return float(np.sqrt(one.shape[1]) * np.mean(slices))


def _on_a_line(one: Floats, two: Floats, mass: Floats) -> float:
    places = np.concatenate([one, two])
    order = np.argsort(places, kind="stable")
    flow = np.concatenate([np.full(len(one), 1 / len(one)), -mass / mass.sum()])[order]
    return float(np.abs(np.cumsum(flow)[:-1]) @ np.diff(places[order]))
