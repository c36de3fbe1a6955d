r"""How much of a difference the noise of a release explains, on the scale of `Difference.error`.

A statistic of one column is, to first order, the sum over its n rows with a value of an influence function g of their
finest cells, divided by n:

.. math:: \text{mean: } \frac{x - m}{s}, \qquad \text{standard deviation: } \frac{(x - m)^2}{2 s^2} - \frac12, \qquad
          \text{share: } 1[x = v], \qquad \text{quantile at } p\text{: } 1[x \le q] - p,

with m, s and q of the released counts. `ColumnPrecision.noise` is the noise in such a sum, within learned bins too.
With heaping, the deviation of g from its mean in a bin depends on the counts of heaps as well. All this follows from
released values alone.

The worst columns and pairs are selected, so noise explains what is in an interval for all of them at once (Bonferroni,
95 %). Rows whose counts were shrunk may be closer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from gapless.evaluate.values import MEAN, PEARSON, QUANTILES, SHARE, SPEARMAN, SPREAD, Difference
from gapless.evaluate.verdict import CRAMER
from gapless.inference.associations import pair_precision
from gapless.inference.precision import ColumnPrecision, column_precision
from gapless.query.numbers import cell_numbers
from gapless.schema import Column, Integer, Number
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.synth.within_bins import heap_counts
from gapless.types import Floats

_OUTSIDE = 0.05  # the share of releases in which some column is outside its interval
_PROBABILITIES = {measure: probability for probability, measure in QUANTILES.items()}


def with_noise(differences: Iterable[Difference], model: FittedModel) -> tuple[Difference, ...]:
    """Return the differences, each with the error that the noise of the release of this model explains."""
    names = model.schema.names
    simultaneous = NormalDist().inv_cdf(1 - _OUTSIDE / (2 * len(names)))
    columns = dict(zip(names, column_precision(model), strict=True))
    pairs = {frozenset(names[c] for c in pair.columns): pair for pair in pair_precision(model)}

    def noise(difference: Difference) -> float | None:
        if difference.measure in (PEARSON, SPEARMAN, CRAMER):
            pair = pairs.get(frozenset(difference.columns))
            return None if pair is None else max(pair.at_once[1] - pair.value, pair.value - pair.at_once[0])
        column = columns.get(difference.columns[0])
        std = None if column is None else standard_error(model, column, difference.measure)
        if std is None:
            return None
        error = simultaneous * std
        if difference.measure == SPREAD:
            return error / (1 + error)  # a share of the larger one
        return error if difference.measure == MEAN else min(1.0, error)

    return tuple(replace(difference, noise=noise(difference)) for difference in differences)


def standard_error(model: FittedModel, column: ColumnPrecision, measure: str) -> float | None:
    """Return the standard error by noise of a statistic of one column; None if that is not known."""
    known, line = model.measurements, column.column
    if known is None or not column.is_measured:
        return None
    (place,) = model.schema.positions([line.name])
    binned = isinstance(line, BinnedColumn)
    shares = known.cell_counts(model.schema, place) if binned else np.maximum(column.counts[: line.size], 0.0)
    shares = (shares + 1e-9) / (shares + 1e-9).sum()
    influence = _influence(line, model, measure, shares)
    is_value = np.arange(len(column.bins)) < len(shares)  # not *not applicable*
    rows = float(column.signed_cells @ is_value)
    if influence is None or not column.noise(is_value.astype(np.float64)) < rows:
        return None
    parts = [column.noise(np.append(influence, np.zeros(len(is_value) - len(shares))))]
    for heaps in known.heaps:
        if heaps.columns == (place,):
            bins = column.bins[is_value]
            off = shares * (influence - (np.bincount(bins, shares * influence) / np.bincount(bins, shares))[bins])
            parts.append(heaps.noise_std * float(np.linalg.norm(heap_counts(line, off) / heap_counts(line, shares))))
    return math.hypot(*parts) / rows


def _influence(column: Column, model: FittedModel, measure: str, shares: Floats) -> Floats | None:
    """Return the influence function of a statistic on the finest cells, which have these shares."""
    if measure == SHARE:  # of any value: that of the most frequent one
        return np.where(np.arange(len(shares)) == shares.argmax(), 1.0, 0.0)
    if not isinstance(column, BinnedColumn):
        return None
    if measure in _PROBABILITIES:
        reached = int(np.searchsorted(np.cumsum(shares), _PROBABILITIES[measure]))
        return np.where(np.arange(len(shares)) <= reached, 1.0, 0.0) - _PROBABILITIES[measure]
    if measure not in (MEAN, SPREAD) or not isinstance(column, Integer | Number):
        return None
    numbers = cell_numbers(model.schema.finest, column.name, None).values
    off = numbers - float(shares @ numbers)
    squares = off**2 / max(float(shares @ off**2), 1e-300)
    return np.asarray(np.sign(off) * np.sqrt(squares) if measure == MEAN else squares / 2 - 0.5)
