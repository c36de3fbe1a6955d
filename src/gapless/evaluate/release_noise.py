r"""How much of a difference the noise of a release explains, on the scale of `Difference.error`.

A statistic of one column is, to first order, the sum over its n rows with a value of an influence function g of their
finest cells, divided by n:

.. math:: \text{mean: } \frac{x - m}{s}, \qquad \text{standard deviation: } \frac{(x - m)^2}{2 s^2} - \frac12, \qquad
          \text{share: } 1[x = v], \qquad \text{quantile at } p\text{: } 1[x \le q] - p,

with m, s and q of the released counts. Let :math:`\sigma` be the noise of a count and :math:`\bar g_b` the mean of g in
bin b: over its rows, or over its cells where bins were learned. The standard error by noise is
:math:`\sigma \|\bar g\| / n`, with the noise within learned bins (`Measurements.within_bin_sum`), and with that of
:math:`g - \bar g` in the counts of heaps. All this follows from released values alone.

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
from gapless.query.numbers import cell_numbers
from gapless.schema import Integer, Number
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
    pairs = {frozenset(names[c] for c in pair.columns): pair for pair in pair_precision(model)}

    def noise(difference: Difference) -> float | None:
        if difference.measure in (PEARSON, SPEARMAN, CRAMER):
            pair = pairs.get(frozenset(difference.columns))
            return None if pair is None else max(pair.high - pair.value, pair.value - pair.low)
        if difference.columns[0] not in names:
            return None
        std = _noise_std(model, names.index(difference.columns[0]), difference.measure)
        if std is None:
            return None
        error = simultaneous * std
        if difference.measure == SPREAD:
            return error / (1 + error)  # a share of the larger one
        return error if difference.measure == MEAN else min(1.0, error)

    return tuple(replace(difference, noise=noise(difference)) for difference in differences)


def _noise_std(model: FittedModel, place: int, measure: str) -> float | None:
    """Return the standard error by noise of a statistic of one column; None if that is not known."""
    column, known = model.schema.columns[place], model.measurements
    if known is None:
        return None
    counts, noise_std = known.column_counts(model.schema, place)
    if len(counts) == 1:  # in no table: every row is in its only cell
        counts, noise_std = np.array([model.total]), 0.0
    cells = column.values_size if isinstance(column, BinnedColumn) else column.size
    rows = float(counts[:cells].sum())
    if not noise_std < rows:  # noise hides how many rows have a value
        return None
    if not isinstance(column, BinnedColumn):
        return noise_std / rows if measure == SHARE else None
    bins = column.finest.regroup(column)[: column.finest.values_size]
    shares = known.cell_counts(model.schema, place) + 1e-9
    shares /= shares.sum()
    influence = _influence(column, model, measure, shares)
    if influence is None:
        return None
    is_learned = any(level.columns == (place,) for level in known.bin_hierarchy)
    weights = np.ones(len(bins)) if is_learned else shares
    means = np.bincount(bins, weights * influence) / np.bincount(bins, weights)
    parts = [noise_std * float(np.linalg.norm(means)), known.within_bin_sum(model.schema, place, influence)[1]]
    for heaps in known.heaps:
        if heaps.columns == (place,):
            off = heap_counts(column, shares * (influence - means[bins])) / heap_counts(column, shares)
            parts.append(heaps.noise_std * float(np.linalg.norm(off)))
    return math.hypot(*parts) / rows


def _influence(column: BinnedColumn, model: FittedModel, measure: str, shares: Floats) -> Floats | None:
    """Return the influence function of a statistic on the finest cells, which have these shares."""
    if measure == SHARE:  # of any value: that of the most frequent one
        return np.where(np.arange(len(shares)) == shares.argmax(), 1.0, 0.0)
    if measure in _PROBABILITIES:
        reached = int(np.searchsorted(np.cumsum(shares), _PROBABILITIES[measure]))
        return np.where(np.arange(len(shares)) <= reached, 1.0, 0.0) - _PROBABILITIES[measure]
    if measure not in (MEAN, SPREAD) or not isinstance(column, Integer | Number):
        return None
    numbers = cell_numbers(model.schema.finest, column.name, None).values
    off = numbers - float(shares @ numbers)
    squares = off**2 / max(float(shares @ off**2), 1e-300)
    return np.asarray(np.sign(off) * np.sqrt(squares) if measure == MEAN else squares / 2 - 0.5)
