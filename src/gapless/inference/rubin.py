r"""From the estimates of several copies to one with an interval.

Copy j gives an estimate q and its sampling variance u, as if its rows were a sample. With means :math:`\bar q, \bar u`
and the variance b of the estimates (Rubin 1987, chapter 3):

.. math:: T = \bar u + (1 + \tfrac1m)\, b, \qquad
          \nu = (m - 1) \Bigl(1 + \frac{\bar u}{(1 + 1/m)\, b}\Bigr)^2, \qquad \mathrm{centre} \pm t_\nu \sqrt T.

u is what a sample of n rows varies by; b is what noise varies by, as long as drawing rows adds next to nothing
(`gapless.model.sampling`).

The centre is :math:`2 \hat q - \bar q` with :math:`\hat q` the estimate of the model that follows the released tables
themselves. That no count is below 0 makes a bias that grows with the noise. The tables of copies have twice its
variance: what that changes is taken off once more (Cook, Stefanski 1994, a line through two points).

With gaps, and on lines of learned cells, none of which can be below 0 in rows, the interval must also be as wide as a
parametric bootstrap says, whose centre is taken then; means follow signed counts (`Evidence.means`) and need it for
gaps alone. With q* the estimates of B replicates,

.. math:: \hat q - (\bar q^* - q^\circ) \pm t_{B-1}\, s(q^*) \sqrt{1 + \tfrac1B}

with :math:`q^\circ` what is true of the model that replicates come from: :math:`\hat q`, but for means, since rows have
no counts below 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gapless.types import Floats

LEVEL = 0.95
_MOST_FREEDOM = 1e6  # beyond, t is normal
_NORMAL, _ONE_SIDED = 1.959964, 1.644854
_FAR = 8.0  # standard errors, from which a bias has one side


class Interval(NamedTuple):
    """Centres and half-widths, one of each for every estimate; freedom is that of Student's t."""

    centre: Floats
    half: Floats
    freedom: Floats


def rubin(estimate: Floats, estimates: Floats, variances: Floats) -> Interval:
    """Rubin's interval from copies × estimates and as many variances, about the estimate without their noise."""
    many = len(estimates)
    within = variances.mean(axis=0)
    noise = (1 + 1 / many) * estimates.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        freedom = np.where(noise > 0, (many - 1) * (1 + within / noise) ** 2, np.inf)
    freedom = np.minimum(freedom, _MOST_FREEDOM)
    return Interval(2 * estimate - estimates.mean(axis=0), quantile(freedom) * np.sqrt(within + noise), freedom)


def bootstrap(estimate: Floats, replicates: Floats, truth: Floats | None = None) -> Interval:
    """The interval of a parametric bootstrap, its bias taken off; from the estimate and replicates × estimates.

    The bias is what replicates are off by from the truth of the model that they come from; this is the estimate itself,
    unless another is given.
    """
    many = len(replicates)
    freedom = np.full(estimate.shape, float(many - 1))
    half = quantile(freedom) * replicates.std(axis=0, ddof=1) * np.sqrt(1 + 1 / many)
    bias = replicates.mean(axis=0) - (estimate if truth is None else truth)
    return Interval(estimate - bias, half, freedom)


def widened(half: Floats, bias: Floats) -> Floats:
    r"""Half-widths of intervals that hold a bias of either sign, up to this size, as well.

    With s the standard error behind a half-width, that is :math:`s \sqrt{\chi^2_1(b^2 / s^2)}` at 95 %, the quantile of
    the noncentral law: what is exceeded by the absolute value of a normal variable with mean b in 5 % of cases
    (Armstrong, Kolesár 2018).
    """
    from scipy.special import chndtrix  # noqa: PLC0415 slow to load

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.minimum(bias / (half / _NORMAL), _FAR)
    more = np.where(ratio > 0, np.sqrt(chndtrix(LEVEL, 1.0, np.nan_to_num(ratio) ** 2)) / _NORMAL, 1.0)
    far = bias + half * _ONE_SIDED / _NORMAL
    return np.asarray(np.where(ratio >= _FAR, far, half * more))


def quantile(freedom: Floats) -> Floats:
    """Student's t that is exceeded, either way, in 5 % of cases."""
    from scipy.special import stdtrit  # noqa: PLC0415 slow to load

    return np.asarray(stdtrit(freedom, (1 + LEVEL) / 2))
