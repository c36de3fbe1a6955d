r"""How much of a difference the noise of a release explains, on the scale of `Difference.error`.

From the precision of the columns and pairs that the release measured (`gapless.inference`), so from released values
alone. Let :math:`\kappa` be the standard deviation of the noise in a share of the rows with a value, :math:`x_c` the
middle of bin c of K, m and s the released mean and standard deviation. Noise alone causes errors of these standard
deviations, to first order:

.. math:: \kappa \;\text{(a share)}, \qquad
          \tfrac\kappa2 \sqrt{\textstyle\sum_c \big((x_c - m)^2 / s^2 - 1\big)^2} \;\text{(s, relative)}, \qquad
          \kappa \sqrt{k (1 - p)^2 + (K - k) p^2} \;\text{(a quantile at p, with k bins below)}.

For a mean it is `ColumnPrecision.mean_std`. The worst columns and pairs are selected, so noise explains what is in an
interval for all of them at once (Bonferroni, 95 %). Rows whose counts were shrunk may be closer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from gapless.evaluate.values import MEAN, PEARSON, QUANTILES, SHARE, SPEARMAN, SPREAD, Difference
from gapless.evaluate.verdict import CRAMER, GAPS
from gapless.inference.associations import pair_precision
from gapless.inference.precision import ColumnPrecision, column_precision
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel

_OUTSIDE = 0.05  # the share of releases in which some column is outside its interval


def with_noise(differences: Iterable[Difference], model: FittedModel) -> tuple[Difference, ...]:
    """Return the differences, each with the error that the noise of the release of this model explains."""
    names = model.schema.names
    columns = dict(zip(names, column_precision(model), strict=True))
    simultaneous = NormalDist().inv_cdf(1 - _OUTSIDE / (2 * len(columns)))
    pairs = {frozenset(names[c] for c in pair.columns): pair for pair in pair_precision(model)}

    def noise(difference: Difference) -> float | None:
        if difference.measure in (PEARSON, SPEARMAN, CRAMER):
            pair = pairs.get(frozenset(difference.columns))
            return None if pair is None else max(pair.high - pair.value, pair.value - pair.low)
        column = columns.get(difference.columns[0])
        is_known = column is not None and column.is_measured and not column.is_collapsed
        std = _noise_std(difference.measure, column) if column is not None and is_known else None
        return None if std is None else _on_scale_of_error(difference.measure, simultaneous * std)

    return tuple(replace(difference, noise=noise(difference)) for difference in differences)


def _noise_std(measure: str, column: ColumnPrecision) -> float | None:
    """Return the standard error by noise of a statistic of one column; None if that is not known."""
    if measure == MEAN:
        return column.mean_std
    if measure == GAPS:
        return column.share_std * math.sqrt(len(column.column.gaps)) * (1 - column.missing)
    cells = column.column.values_size if isinstance(column.column, BinnedColumn) else len(column.shares)
    shares = np.maximum(column.shares[:cells], 0.0)
    rows = column.rows * float(shares.sum())
    if rows <= column.noise_std:  # noise hides how many rows have a value
        return None
    shares, kappa = shares / shares.sum(), column.noise_std / rows
    if measure == SPREAD and column.middles is not None:
        squares = (column.middles - shares @ column.middles) ** 2
        return kappa / 2 * float(np.linalg.norm(squares / max(float(shares @ squares), 1e-300) - 1))
    for probability, quantile in QUANTILES.items():
        if measure == quantile:
            below = int(np.searchsorted(np.cumsum(shares), probability))
            return kappa * math.sqrt(below * (1 - probability) ** 2 + (cells - below) * probability**2)
    return kappa if measure == SHARE else None


def _on_scale_of_error(measure: str, noise: float) -> float:
    """Return noise on the scale of `Difference.error`: in a standard deviation, as a share of the larger one."""
    return noise / (1 + noise) if measure == SPREAD else noise
