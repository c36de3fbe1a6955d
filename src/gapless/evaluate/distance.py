"""The k-way marginal distance: how far two tables are from each other in all sets of k columns."""

from __future__ import annotations

import math
from itertools import combinations, islice

from numpy.typing import ArrayLike

from gapless.arguments import whole
from gapless.data import Table
from gapless.data.checks import check_weights, comparable
from gapless.errors import SchemaError
from gapless.evaluate.marginals import half_l1, shares_side_by_side

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
