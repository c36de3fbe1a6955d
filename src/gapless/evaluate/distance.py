"""The k-way marginal distance: how far two tables are from each other in all sets of k columns."""

from __future__ import annotations

import math
from itertools import combinations, islice

import numpy as np

from gapless.data import Table
from gapless.data.counting import count
from gapless.errors import SchemaError

MOST_SETS = 500


def kway_distance(truth: Table, other: Table, *, k: int = 2, most_sets: int = MOST_SETS) -> float:
    r"""The mean total variation distance of the two tables' k-way marginals, as in [MD] §6.1.

    .. math:: \frac{1}{|\mathcal S|} \sum_{S \in \mathcal S} \tfrac12 \lVert p_S - q_S \rVert_1

    All sets of k columns are taken, or `most_sets` of them spread evenly over all. In each set the rows without a gap
    in its columns count, and each table is normalised by its own number of them; without any such row it is 1.

    >>> from gapless.schema import Categorical, Schema
    >>> schema = Schema("letters", [Categorical("x", ["a", "b"]), Categorical("y", ["a", "b"])])
    >>> one = Table(schema, [np.array([0, 1]), np.array([0, 1])], rows=2)
    >>> two = Table(schema, [np.array([0, 1]), np.array([1, 0])], rows=2)
    >>> kway_distance(one, two, k=1), kway_distance(one, two, k=2)
    (0.0, 1.0)
    """
    for table in (truth, other):
        if not isinstance(table, Table):
            raise SchemaError(f"a {type(table).__name__} is not a public table", hint="Table.read(data, schema)")
    if truth.schema.names != other.schema.names or [c.size for c in truth.schema.columns] != [
        c.size for c in other.schema.columns
    ]:
        raise SchemaError("the two tables have different schemas", hint="read both with the same schema")
    columns = len(truth.schema.columns)
    if not 1 <= k <= columns:
        raise SchemaError(f"no sets of {k} columns among {columns}", hint=f"k from 1 to {columns}")
    step = math.ceil(math.comb(columns, k) / most_sets)
    sets = list(islice(combinations(range(columns), k), 0, None, step))
    sizes = [column.extended_size for column in truth.schema.columns]
    total = 0.0
    for one in sets:  # one at a time: many sets of four columns would not fit into memory together
        observed = tuple(slice(truth.schema.columns[c].size) for c in one)
        laws = []
        for table in (truth, other):
            (cells,) = count(table.codes, sizes, [one], table.rows)
            cells = cells[observed]
            laws.append(cells / cells.sum() if cells.any() else None)
        total += 1.0 if laws[0] is None or laws[1] is None else 0.5 * float(np.abs(laws[0] - laws[1]).sum())
    return total / len(sets)
