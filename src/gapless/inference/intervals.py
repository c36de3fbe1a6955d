r"""Pooled intervals from the estimates of several copies.

Each copy gives an estimate q and its sampling variance u, as if its rows were a sample. With means
:math:`\bar q, \bar u` and the variance b of the estimates over m copies (Rubin 1987, chapter 3):

.. math:: T = \bar u + (1 + \tfrac1m)\, b, \qquad
          \nu = (m - 1) \Bigl(1 + \frac{\bar u}{(1 + 1/m)\, b}\Bigr)^2, \qquad \mathrm{centre} \pm t_\nu \sqrt T.

u is the variance from sampling n rows; b is the variance from noise. Drawing rows from a model adds almost nothing to b
(`gapless.model.sampling`).

The centre is :math:`2 \hat q - \bar q`, where :math:`\hat q` is the estimate from the model that follows the released
tables. Clipping counts at 0 makes a bias that grows with the noise. The tables of copies have twice the variance of the
noise, so the change from :math:`\hat q` to :math:`\bar q` estimates this bias. It is subtracted (simulation
extrapolation: Cook, Stefanski 1994, a line through two points).

For columns with gaps or learned bins, whose counts cannot be negative in rows, a parametric bootstrap is computed too.
The interval has the bootstrap's centre, and at least its width. Means use signed counts (`Measurements.bin_means`) and
need this only for gaps. With q* the estimates of B replicates, the bootstrap interval is

.. math:: \hat q - \tfrac12 \beta \pm t_{B-1}\, s(q^*) \sqrt{1 + \tfrac1B}, \qquad \beta = \bar q^* - q^\circ,

widened for a bias up to :math:`|\beta| / 2`: β is the bias in the model rather than in the population, and a full
correction varies more than q*. Here :math:`q^\circ` is the true value in the model that replicates come from. It is
:math:`\hat q`, except for means, since rows cannot have negative counts. An estimate that uses values in learned bins
is widened for a bias up to :math:`|\beta|`: in a small table noise hides most cells, and the correction is as uncertain
as the bias is large.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gapless.types import Floats

LEVEL = 0.95
_MOST_FREEDOM = 1e6  # beyond, t is normal
TWO_SIDED, _ONE_SIDED = 1.959964, 1.644854
_FAR = 8.0  # bias in standard errors from which only one tail of the interval matters


class Interval(NamedTuple):
    """The centre and half-width of each estimate's interval, and the degrees of freedom of Student's t."""

    centre: Floats
    half: Floats
    freedom: Floats


def rubin(estimate: Floats, estimates: Floats, variances: Floats) -> Interval:
    """Return Rubin's interval from copies × estimates and their variances; `estimate` is from the reference sample."""
    many = len(estimates)
    within = variances.mean(axis=0)
    noise = (1 + 1 / many) * estimates.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        freedom = np.where(noise > 0, (many - 1) * (1 + within / noise) ** 2, np.inf)
    freedom = np.minimum(freedom, _MOST_FREEDOM)
    return Interval(2 * estimate - estimates.mean(axis=0), quantile(freedom) * np.sqrt(within + noise), freedom)


def bootstrap(estimate: Floats, replicates: Floats, truth: Floats | None = None) -> Interval:
    """Return the interval of a parametric bootstrap, from the estimate and replicates × estimates.

    The bias is the mean of the replicates minus the truth in the model that they come from. By default this truth is
    the estimate. The centre is corrected by half of it, and the caller widens the interval.
    """
    many = len(replicates)
    freedom = np.full(estimate.shape, float(many - 1))
    half = quantile(freedom) * replicates.std(axis=0, ddof=1) * np.sqrt(1 + 1 / many)
    bias = replicates.mean(axis=0) - (estimate if truth is None else truth)
    return Interval(estimate - bias / 2, half, freedom)


def widened(half: Floats, bias: Floats) -> Floats:
    r"""Widen half-widths so that intervals also cover a bias of either sign up to this size.

    With s the standard error of a half-width, the result is :math:`s \sqrt{\chi^2_1(b^2 / s^2)}` with the 95 % quantile
    of the noncentral distribution. The absolute value of a normal variable with mean b exceeds it in 5 % of cases
    (Armstrong, Kolesár 2018).
    """
    from scipy.special import chndtrix  # noqa: PLC0415 slow to load

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.minimum(bias / (half / TWO_SIDED), _FAR)
    more = np.where(ratio > 0, np.sqrt(chndtrix(LEVEL, 1.0, np.nan_to_num(ratio) ** 2)) / TWO_SIDED, 1.0)
    far = bias + half * _ONE_SIDED / TWO_SIDED
    return np.asarray(np.where(ratio >= _FAR, far, half * more))


def quantile(freedom: Floats) -> Floats:
    """Return the two-sided 95 % quantile of Student's t."""
    from scipy.special import stdtrit  # noqa: PLC0415 slow to load

    return np.asarray(stdtrit(freedom, (1 + LEVEL) / 2))


def within_ends(value: Any, half: Any, least: float, most: float) -> tuple[Any, Any, Any]:
    """Move an estimate between the least and the largest possible value; return it and the ends of its interval."""
    value = np.clip(value, least, most)
    return value, np.maximum(value - half, least), np.minimum(value + half, most)


def share_variance(share: Any, one_row: float) -> Any:
    """Return the variance of a share p: p (1 − p) / n, with p shrunk towards 1/2 by two rows of either kind."""
    drawn = (share + 2 * one_row) / (1 + 4 * one_row)
    return drawn * (1 - drawn) * one_row
