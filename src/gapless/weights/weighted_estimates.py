r"""Weighted means, shares and quantiles of a public table's rows.

Standard errors are those of the sandwich formula for a weighted mean,

.. math:: \mathrm{se}^2 = \frac{\sum_i w_i^2 (x_i - \bar x_w)^2}{\bigl(\sum_i w_i\bigr)^2},

as if rows had been drawn by themselves: what privacy and a synthesizer added is not in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gapless.data import Table
from gapless.data.checks import check_public, check_weights
from gapless.errors import SchemaError
from gapless.types import Floats


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its standard error, as if the rows had been drawn by themselves."""

    value: float
    standard_error: float


def weighted_mean(table: Table, column: str, *, weights: ArrayLike | None = None) -> Estimate:
    """The mean of a column of numbers over the rows that have one; by default with the table's own weights."""
    return _mean(*_numbers(table, column, weights))


def weighted_proportions(table: Table, column: str, *, weights: ArrayLike | None = None) -> dict[str, Estimate]:
    """The share of each cell of a column among rows without a gap there."""
    codes, mass = _observed(table, column, weights)
    cells = table.schema[column].cells[: table.schema[column].size]
    return {cell: _mean((codes == code).astype(np.float64), mass) for code, cell in enumerate(cells)}


def weighted_quantiles(
    table: Table, column: str, levels: Sequence[float], *, weights: ArrayLike | None = None
) -> list[float]:
    """The least values of a column of numbers below or at which at least these shares of the weight lie."""
    values, mass = _numbers(table, column, weights)
    if not all(0 <= level <= 1 for level in levels):
        raise SchemaError(f"levels = {list(levels)!r}", hint="numbers from 0 to 1, such as [0.25, 0.5, 0.75]")
    order = np.argsort(values, kind="stable")
    order = order[mass[order] > 0]
    below = np.cumsum(mass[order])
    places = np.searchsorted(below, np.asarray(levels) * below[-1] * (1 - 1e-12))
    return [float(value) for value in values[order][np.minimum(places, len(order) - 1)]]


def _mean(values: Floats, mass: Floats) -> Estimate:
    share = mass / mass.sum()
    value = float(share @ values)
    return Estimate(value, float(np.sqrt((share**2) @ ((values - value) ** 2))))


def _numbers(table: Table, column: str, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    mass = _mass(table, weights)
    cells = table[column]
    if not cells.dtype.is_numeric():
        raise SchemaError(f"column {column!r} holds no numbers", hint="a column of the kind integer or number")
    seen = cells.is_not_null().to_numpy()
    _check_any(mass[seen], column)
    return cells.drop_nulls().to_numpy().astype(np.float64), mass[seen]


def _observed(table: Table, column: str, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    mass = _mass(table, weights)
    (place,) = table.schema.positions([column])
    seen = table.codes[place] < table.schema.columns[place].size
    _check_any(mass[seen], column)
    return table.codes[place][seen].astype(np.float64), mass[seen]


def _mass(table: Table, weights: ArrayLike | None) -> Floats:
    check_public(table, "weighted estimates are of", private="table.ask(Mean(…), spend=…)")
    checked = check_weights(table, weights)
    return np.ones(table.rows) if checked is None else checked


def _check_any(mass: Floats, column: str) -> None:
    if not mass.sum() > 0:
        raise SchemaError(f"no row with a weight has a value in {column!r}", hint="another column, or other weights")
