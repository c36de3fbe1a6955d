r"""Correlations and coefficients of regressions, with variances as if the rows were a sample.

An estimate :math:`\hat\theta` of weighted rows has an influence :math:`\psi_i` of row i, and the variance
:math:`\sum_i w_i^2 \psi_i^2` for shares w of the weight that sum to 1. It holds for any distribution of the rows.

For Pearson's correlation r of standardized numbers u and v (Devlin, Gnanadesikan, Kettenring 1975):

.. math:: \psi = u v - \tfrac12 r (u^2 + v^2).

Spearman's correlation is that of midranks. A row also moves the ranks of other rows, which adds to the influence.

The coefficients of a regression solve :math:`\sum_i w_i x_i (y_i - \mu(x_i^\top \beta)) = 0`. Their influence is
:math:`A^{-1} x (y - \mu)` with :math:`A = \sum_i w_i \mu'_i x_i x_i^\top`: the sandwich variance (White 1980), times
n / (n - k) for k coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.types import Floats

MOST_STEPS = 50  # of Newton's method
CONVERGED = 1e-10  # largest step, in standardized units
SINGULAR = 1e-10  # least eigenvalue of the moments of a design with columns of length one


def correlation(x: Floats, y: Floats, mass: Floats) -> tuple[float, float]:
    """Return Pearson's correlation and its variance; NaN if a column is constant."""
    share = mass / mass.sum()
    u, v = (_standardized(values, share) for values in (x, y))
    r = float(share @ (u * v))
    return r, float(share**2 @ (u * v - r / 2 * (u**2 + v**2)) ** 2)


def rank_correlation(x: Floats, y: Floats, mass: Floats) -> tuple[float, float]:
    """Return Spearman's rank correlation and its variance; NaN if a column is constant."""
    share = mass / mass.sum()
    ranks = [_midranks(values, share) for values in (x, y)]
    u, v = (_standardized(values, share) for values in ranks)
    r = float(share @ (u * v))
    # the influence of a row on the ranks of others: on the products, and on the squares of both columns
    moved = [_moved(values, other, share) for values, other in ((x, v), (y, u))]
    squared = [_moved(values, scores, share) for values, scores in ((x, u), (y, v))]
    scale = [np.sqrt(share @ (values - share @ values) ** 2) for values in ranks]
    influence = u * v + moved[0] / scale[0] + moved[1] / scale[1]
    for scores, change, unit in zip((u, v), squared, scale, strict=True):
        influence = influence - r / 2 * (scores**2 + 2 * change / unit)
    influence = influence - share @ influence
    return r, float(share**2 @ influence**2)


def regression(design: Floats, response: Floats, mass: Floats, *, logistic: bool) -> tuple[Floats, Floats]:
    """Return the coefficients of a linear or logistic regression and their variances.

    A coefficient whose column is 0 in all rows is NaN; all are if the others do not determine each other.
    """
    values, variances = np.full((2, design.shape[1]), np.nan)
    share = mass / mass.sum()
    known = np.flatnonzero(share @ design**2 > 0)
    length = np.sqrt(share @ design[:, known] ** 2)
    x = design[:, known] / length
    if np.linalg.eigvalsh(x.T @ (share[:, None] * x))[0] < SINGULAR:
        return values, variances
    beta, weight = np.zeros(len(known)), np.ones(len(share))
    for _ in range(MOST_STEPS if logistic else 1):
        mean = 1 / (1 + np.exp(-np.clip(x @ beta, -500, 500))) if logistic else x @ beta
        weight = mean * (1 - mean) if logistic else weight
        moments = x.T @ ((share * weight)[:, None] * x)
        if np.linalg.eigvalsh(moments)[0] < SINGULAR:  # the outcome follows from the regressors
            return values, variances
        step = np.linalg.solve(moments, x.T @ (share * (response - mean)))
        beta = beta + step
        if np.abs(step).max() < CONVERGED:
            break
    else:
        if logistic:
            return values, variances
    mean = 1 / (1 + np.exp(-(x @ beta))) if logistic else x @ beta
    influence = np.linalg.solve(moments, (x * (response - mean)[:, None]).T)
    rows = 1 / float(share @ share)
    many = rows / (rows - len(beta)) if rows > len(beta) else np.inf
    values[known], variances[known] = beta / length, many * (influence**2 @ share**2) / length**2
    return values, variances


def dummies(codes: Sequence[int] | Floats, levels: int) -> Floats:
    """Return a column for each level but the first: 1 in its rows, else 0."""
    return np.asarray(np.asarray(codes)[:, None] == np.arange(1, levels), dtype=np.float64)


def _standardized(values: Floats, share: Floats) -> Floats:
    centred = values - share @ values
    spread = np.sqrt(share @ centred**2)
    return np.asarray(centred / spread if spread > 0 else np.full(len(values), np.nan))


def _midranks(values: Floats, share: Floats) -> Floats:
    """Return the share of rows below each value, and half of those with the same value."""
    _, level = np.unique(values, return_inverse=True)
    mass = np.bincount(level, share)
    return np.asarray((np.cumsum(mass) - mass / 2)[level])


def _moved(values: Floats, other: Floats, share: Floats) -> Floats:
    """Return, for each row, the mean of `other` over rows above it, and half of that over rows with the same value."""
    _, level = np.unique(values, return_inverse=True)
    sums = np.bincount(level, share * other)
    return np.asarray((sums[::-1].cumsum()[::-1] - sums / 2)[level])
