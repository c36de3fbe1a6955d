"""Two public tables side by side: weighted shares of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.data import Table
from gapless.types import Floats

DENSE_CELLS = 1 << 20  # above, cells are numbered as they occur instead of counted in a table


def rows_of(table: Table, kept: NDArray[np.bool_]) -> Table:
    """Some rows of a table."""
    return Table(table.schema, [codes[kept] for codes in table.codes], rows=int(kept.sum()))


def shares(table: Table, columns: Sequence[int], weights: Floats | None = None) -> Floats | None:
    """The share of each combination of observed cells, among rows without a gap there; None if there is no such row.

    >>> from gapless.schema import Categorical, Schema
    >>> table = Table(Schema("t", [Categorical("x", ["a", "b"])]), [np.array([0, 1, 1])], rows=3)
    >>> shares(table, [0], np.array([2.0, 1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    shape = [table.schema.columns[c].size for c in columns]
    keys, seen = _observed(table, columns)
    for c, size in zip(columns, shape, strict=True):
        keys = keys * size + table.codes[c][seen]
    return _normalised(keys, None if weights is None else weights[seen], shape)


def shares_side_by_side(
    truth: Table, other: Table, columns: Sequence[int], weights: Floats | None
) -> tuple[Floats | None, Floats | None]:
    """The shares in both tables, of all cells or, where these are too many, of those that occur."""
    if math.prod(truth.schema.columns[c].size for c in columns) <= DENSE_CELLS:
        return shares(truth, columns), shares(other, columns, weights)
    (keys, first), (others, second) = _observed(truth, columns), _observed(other, columns)
    keys = np.concatenate([keys, others])
    for c in columns:
        keys = keys * truth.schema.columns[c].size + np.concatenate([truth.codes[c][first], other.codes[c][second]])
        keys = np.unique(keys, return_inverse=True)[1]  # as many numbers as there are cells that occur
    split, shape = int(first.sum()), [int(keys.max(initial=0)) + 1]
    given = None if weights is None else weights[second]
    return _normalised(keys[:split], None, shape), _normalised(keys[split:], given, shape)


def _observed(table: Table, columns: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A zero for each row observed on the columns, and which rows these are."""
    seen = np.ones(table.rows, dtype=np.bool_)
    for c in columns:
        if table.schema.columns[c].gaps:
            seen &= table.codes[c] < table.schema.columns[c].size
    return np.zeros(int(seen.sum()), dtype=np.int64), seen


def _normalised(keys: NDArray[np.int64], weights: Floats | None, shape: Sequence[int]) -> Floats | None:
    counts = np.bincount(keys, weights=weights, minlength=math.prod(shape)).astype(np.float64)
    total = counts.sum()
    return counts.reshape(shape) / total if total > 0 else None


def half_l1(one: Floats | None, other: Floats | None) -> float:
    """The total variation distance; 1 if one table has nothing to compare, 0 if neither has."""
    if one is None or other is None:
        return float((one is None) != (other is None))
    return 0.5 * float(np.abs(one - other).sum())
