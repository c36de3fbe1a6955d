r"""Noise scaled to the data: smooth sensitivity, and the mechanism for it.

The change of a value under one row may be bounded by a number that is itself private. The value then comes with that
bound. The bound must be *smooth*: at neighbouring tables it differs by a factor of at most 2 (β = ln 2 in Nissim,
Raskhodnikova and Smith 2007). Then noise in proportion to the bound hides both the value and the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Argument, BudgetError, Call, Hint
from gapless.privacy.budget import Loss, pure_loss
from gapless.privacy.mechanisms import RecordedMechanism, check_distance, pure_epsilon
from gapless.privacy.noise import NoiseSource
from gapless.privacy.private import Smooth

LN2 = math.log(2)
QUARTERS = range(8, 65)  # exponents 2, 2.25, …, 16
_GRID_PER_NOISE = 2.0**-10  # the grid of answers, in units of the least possible noise
_MIN_GRID_PER_BOUND = 2.0**-30  # the finest grid, in units of the least bound: for very little noise
_MAX_STEPS = 2**60  # answers beyond, in steps of the grid, are clamped: at least 2³⁰ times the least bound
_TOLERANCE = 1e-5  # by how much `joint_loss` may exceed the true loss
_ROUNDING = 1e-9  # far more than the float errors of its few logarithms
_RATIOS = (0.5, 1.0, 2.0)  # of the two bounds


@dataclass(frozen=True, slots=True)
class SmoothValue:
    """A private answer and the private bound on how far one row can move it. Both are exact."""

    answer: Fraction
    bound: Fraction


@dataclass(frozen=True, slots=True)
class SmoothCauchy(RecordedMechanism):
    r"""Add generalized Cauchy noise in proportion to a smooth bound: for answers that depend on imputed rows.

    .. math:: q(D) + \frac{S(D)}{a} X, \qquad f(x) \propto \frac1{1 + |x|^g}, \qquad
              \varepsilon = J(g, a) \le a (g-1)^{1 - 1/g} + \max(g - 1, 1) \ln 2

    Notation: :math:`g` is `exponent`, :math:`a` is `alpha`, :math:`S(D)` the private bound; J is `joint_loss`.
    Guarantee: ε-DP for one row if |q(D) - q(D')| ≤ min(S(D), S(D')) and S(D)/S(D') is in [1/2, 2]; kε for k rows; at
        a finite order the loss of any ε-DP mechanism. The answer is rounded to `grid`, which is public; the draw is
        exact. Proved in docs/proofs/smooth_cauchy.md, attacked by tests/audit/test_smooth.py.
    Edge cases: ε ≤ ln 2 per row is refused: at the mode of the noise a doubled scale alone costs ln 2. The size of the
        noise is private, so there is no `noise_std`; `median_per_bound` times a guess of the bound estimates it.
    References: Nissim, Raskhodnikova, Smith 2007; Clifton, Hanson, Merrill, Merrill 2022, whose calibration is false
        below ε = 0.87.
    """

    description: ClassVar[str] = (
        "noise on a public grid, whose size follows a private bound, is added to answers that imputed rows enter"
    )

    exponent: float
    alpha: float
    grid: float

    def __post_init__(self) -> None:
        for name in ("exponent", "alpha", "grid"):
            object.__setattr__(self, name, float(getattr(self, name)))  # plain: the noise drawn is the noise charged
        if 4 * self.exponent not in QUARTERS:
            raise BudgetError(
                f"exponent must be a multiple of 1/4 from 2 to 16, got {self.exponent}",
                hint=Hint("pass ", Argument("exponent", 2.25)),
            )
        if not (0 < self.alpha < math.inf and 0 < self.grid < math.inf):
            raise BudgetError(
                f"alpha and grid must be above 0 and finite, got {self.alpha} and {self.grid}",
                hint="pass two finite numbers above 0",
            )

    @property
    def median_per_bound(self) -> float:
        """The median of the noise's absolute value, in units of the private bound."""
        return _quantile(self.exponent, 0.5) / self.alpha

    def loss(self, distance: Smooth, order: float) -> Loss:
        """J(g, a) times the number of rows at order ∞; at a finite order the loss of any ε-DP mechanism."""
        check_distance(distance, Smooth)
        return Loss(pure_loss(distance.at_most * joint_loss(self.exponent, self.alpha), order), order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: Smooth) -> SmoothCauchy:
        """The exponent and alpha that cost at most `loss` with the least noise (the 95 % point of its size)."""
        check_distance(distance, Smooth)
        epsilon = pure_epsilon(loss) / distance.at_most
        found = _calibrated(epsilon) if epsilon > LN2 else None
        if found is None:
            raise BudgetError(
                f"filling gaps from neighbors needs ε above ln 2 (0.6931) per row, this spend gives {epsilon:.4g}",
                hint=Hint(
                    "use ",
                    Argument("missing", Call("HotDeck", Argument("on", ["age", "sex"]))),
                    ", which works at any ε",
                )
                | Hint("pass a larger ", Argument("spend")),
            )
        exponent, alpha = found
        return cls(
            exponent,
            alpha,
            2.0 ** math.floor(math.log2(distance.least * max(_GRID_PER_NOISE / alpha, _MIN_GRID_PER_BOUND))),
        )

    def __call__(self, value: SmoothValue, noise: NoiseSource) -> float:
        """Draw the answer."""
        grid = Fraction(self.grid)
        scale = value.bound / (Fraction(self.alpha) * grid)
        steps = noise.cauchy(value.answer / grid, scale, round(4 * self.exponent))
        return float(max(-_MAX_STEPS, min(steps, _MAX_STEPS)) * grid)


@lru_cache(maxsize=1024)
def joint_loss(exponent: float, alpha: float) -> float:
    r"""An upper bound, tight to 1e-5, on the log-ratio of the two densities over all outputs.

    .. math:: J(g, a) = \max_{c \in \{1/2, 1, 2\}} \sup_{u \ge 0}
              \big[\log(1 + (cu + a\min(1, c))^g) - \log(1 + u^g) - \log c\big]

    c is the ratio of the two bounds. The log-ratio is convex in log c between these three values. On an interval of u
    it is at most the first logarithm at the right end minus the second at the left end, as both increase. Intervals
    that could contain the supremum are halved until that bound is tight. So the result is certified, not estimated.
    """
    return max(_supremum(exponent, ratio, alpha * min(1.0, ratio)) - math.log(ratio) for ratio in _RATIOS)


def _supremum(exponent: float, ratio: float, shift: float) -> float:
    """The supremum over u ≥ 0 of log(1 + (ratio·u + shift)^g) - log(1 + u^g), bounded from above."""
    edges = np.concatenate([[0.0], np.geomspace(1e-3, 1e9 * max(1.0, shift), 300)])
    tail = exponent * max(0.0, math.log(ratio + shift / edges[-1]))  # (1 + w^g)/(1 + u^g) ≤ max(1, (w/u)^g)
    left, right, settled = edges[:-1], edges[1:], tail
    while True:
        above, below = _log1p_power(ratio * right + shift, exponent), _log1p_power(left, exponent)
        attained = np.max(_log1p_power(ratio * left + shift, exponent) - below)
        bound = above - below
        unsettled = bound > max(attained, settled) + _TOLERANCE
        settled = max(settled, float(bound[~unsettled].max(initial=settled)))
        if not unsettled.any():
            return settled + _ROUNDING
        middle = (left[unsettled] + right[unsettled]) / 2
        left, right = np.concatenate([left[unsettled], middle]), np.concatenate([middle, right[unsettled]])


def _log1p_power(x: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """log(1 + x^g) without overflow."""
    with np.errstate(divide="ignore"):  # x = 0
        return np.asarray(np.logaddexp(0.0, exponent * np.log(x)))


@lru_cache(maxsize=64)
def _calibrated(epsilon: float) -> tuple[float, float] | None:
    """The exponent and alpha of loss at most ε with the least noise, measured by the 95 % point of its absolute value.

    An estimate of J finds candidates; the certified `joint_loss` decides.
    """
    exponents = [quarters / 4 for quarters in QUARTERS if (quarters / 4 - 1) * LN2 < epsilon]  # the scale alone
    alphas = [_largest_alpha(exponent, epsilon) for exponent in exponents]
    pairs = zip(exponents, alphas, strict=True)
    for exponent, alpha in sorted(pairs, key=lambda pair: _quantile(pair[0], 0.95) / pair[1]):
        for shrunk in alpha * 0.999 ** np.arange(1, 8):
            if joint_loss(exponent, shrunk) <= epsilon:
                return exponent, float(shrunk)
    return None


def _largest_alpha(exponent: float, epsilon: float) -> float:
    """About the largest alpha with J ≤ ε, by bisection of its logarithm; J is estimated on a grid of u."""
    u = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 600)])
    below = _log1p_power(u, exponent)
    low, high = -14.0, min(epsilon, 60.0)
    for _ in range(24):
        middle = (low + high) / 2
        alpha = math.exp(middle)
        loss = max(
            np.max(_log1p_power(ratio * u + alpha * min(1.0, ratio), exponent) - below) - math.log(ratio)
            for ratio in _RATIOS
        )
        low, high = (middle, high) if loss <= epsilon else (low, middle)
    return math.exp(low)


def _quantile(exponent: float, probability: float) -> float:
    """The quantile of |X| at this probability."""
    from scipy.special import betaincinv  # noqa: PLC0415 slow to load

    share = float(betaincinv(1 / exponent, 1 - 1 / exponent, probability))
    return float((share / (1 - share)) ** (1 / exponent))
