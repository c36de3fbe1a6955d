r"""Mechanisms: each adds its noise and computes its privacy loss.

`loss(distance, order)` is computed from public facts alone. `for_loss(loss, distance)` is the mechanism with the least
noise that costs at most a given loss.

Three kinds of noise have modules of their own: `smooth` (smooth sensitivity), `sgd` and `teachers` (private training).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from gapless.errors import Argument, BudgetError, Hint
from gapless.privacy.budget import PURE, Loss, pure_loss
from gapless.privacy.noise import LARGEST_SCALE, NoiseSource
from gapless.privacy.private import L1, L2, Linf, LinfByGroup, Numbers, Sampled, Smooth
from gapless.types import Floats, Integers

T_contra = TypeVar("T_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
D_pure = TypeVar("D_pure", bound=L2)
R_co = TypeVar("R_co", bound=Numbers, covariant=True)

# A calibrated scale is rounded up by this factor, so that its recomputed loss never exceeds the target.
_ROUND_UP = 1 + 1e-13
# Margins added to the ε of a choice for the rounding of scores (docs/proofs/exponential_choice.md, section 4).
_RELATIVE_ERROR, _ABSOLUTE_ERROR = 2.0**-20, 2.0**-22
_LARGEST_EXACT = 2**53  # whole numbers up to here are exact floats


class Mechanism(Protocol[T_contra, D_contra, R_co]):
    """Noise with its privacy loss. Answers are numbers: the file of a resumable run (its journal) stores them."""

    def loss(self, distance: D_contra, order: float) -> Loss:
        """The Rényi divergence at this order between any two values at this distance."""

    def __call__(self, value: T_contra, noise: NoiseSource) -> R_co:
        """Draw the answer, with randomness from `noise`: the operating system, or a test."""

    def parameters(self) -> dict[str, Any]:
        """The name of the mechanism and all parameters that its loss depends on."""


class RecordedMechanism:
    """A dataclass whose fields the ledger records, so that its loss can be computed again."""

    __slots__ = ()

    def parameters(self) -> dict[str, Any]:
        """The name of the class and its fields, as the ledger records them."""
        return {"name": type(self).__name__} | asdict(self)  # type: ignore[call-overload,no-any-return]


def check_distance(distance: object, kind: type[Linf | Smooth | Sampled]) -> None:
    """Refuse a distance of another kind before anything is charged, also where no type checker runs."""
    if not isinstance(distance, kind):
        raise BudgetError(
            f"the mechanism needs a value whose distance is bounded as {kind.__name__}, but this value has {distance}",
            hint="use Laplace or Gaussian noise for L1, Gaussian or K-norm noise for L2, a noisy choice for Linf, and "
            "private training for Sampled",
        )


def check_not_pure(order: float, mechanism: str) -> None:
    """Refuse a mechanism without a finite pure loss under a pure budget."""
    if order == PURE:
        raise BudgetError(
            f"{mechanism} needs δ above 0, but this ledger has δ = 0: its loss would not be finite",
            hint="use a method or noise that works with δ = 0, such as mst, or Laplace noise",
        )


def _check_integers(value: Integers) -> Integers:
    if value.dtype.kind != "i":  # in numpy uint64 + int64 is float64
        raise BudgetError(
            f"integer noise does not protect fractions: values must be signed integers, got {value.dtype}",
            hint="pass counts as int64",
        )
    return value


def _check_positive(name: str, value: float) -> float:
    """The value as a plain float: a subclass of float could be charged as one number and used as another."""
    plain = float(value)
    if not 0 < plain <= LARGEST_SCALE:
        needs_smaller_spend = (plain > LARGEST_SCALE) == (name == "loss")  # too large a loss, or too small a scale
        raise BudgetError(
            f"{name} must be in (0, 2^{math.log2(LARGEST_SCALE):g}], got {plain:g}",
            hint=Hint(f"pass a {'smaller' if needs_smaller_spend else 'larger'} ", Argument("spend")),
        )
    return plain


@dataclass(frozen=True, slots=True)
class _ScaledMechanism(RecordedMechanism):
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _check_positive("scale", self.scale))


@dataclass(frozen=True, slots=True)
class _PureNoise(_ScaledMechanism, Generic[D_pure]):
    """Integer noise of `scale` b that is ε-DP with ε = Δ / b, for a distance Δ of this kind."""

    distance_kind: ClassVar[type[Linf]]

    def loss(self, distance: D_pure, order: float) -> Loss:
        """Δ / b at order ∞; at a finite order the loss of any ε-DP mechanism."""
        check_distance(distance, self.distance_kind)
        return Loss(pure_loss(distance.at_most / self.scale, order), order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: D_pure) -> Self:
        """The least noise that costs at most `loss`."""
        return cls(distance.at_most / pure_epsilon(loss) * _ROUND_UP)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(_PureNoise[L1]):
    r"""Add integer noise with the discrete Laplace distribution: for counts under a pure budget.

    .. math:: \Pr[Z = z] \propto e^{-|z|/b}, \qquad \varepsilon = \Delta_1 / b

    Notation: :math:`b` is `scale`, :math:`\Delta_1` is `distance.at_most`.
    Guarantee: ε-DP for any two inputs at L1 distance at most Δ₁; at a finite order the loss of any ε-DP
        mechanism. Proved in docs/proofs/discrete_laplace.md, attacked by tests/audit/test_mechanisms.py.
    Edge cases: `scale` 0 is refused; the sums of counts and noise stay far within 64 bits.
    References: Ghosh, Roughgarden, Sundararajan 2009; Canonne, Kamath, Steinke 2020.
    """

    distance_kind: ClassVar = L1
    description: ClassVar[str] = "whole-number noise is added to counts"  # for the report on a release

    @property
    def noise_std(self) -> float:
        r"""The standard deviation of the noise: :math:`\sqrt2\,e^{-1/2b} / (1 - e^{-1/b})`; nearly 0 if ε is large."""
        return math.sqrt(2) * math.exp(-1 / (2 * self.scale)) / -math.expm1(-1 / self.scale)

    def __call__(self, value: Integers, noise: NoiseSource) -> Integers:
        """Draw the answer."""
        return _check_integers(value) + noise.discrete_laplace(self.scale, value.size).reshape(value.shape)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(RecordedMechanism):
    r"""Add integer noise with the discrete Gaussian distribution: for counts.

    .. math:: \Pr[Z = z] \propto e^{-z^2/2\sigma^2}, \qquad \varepsilon_\alpha = \alpha\,\Delta_2^2 / 2\sigma^2

    Notation: :math:`\sigma` is `std`, :math:`\Delta_2` is `distance.at_most`.
    Guarantee: Rényi loss as above for any two integer inputs at L2 distance at most Δ₂, at every finite
        order. Proved in docs/proofs/discrete_gaussian.md, attacked by tests/audit/test_mechanisms.py.
    Edge cases: no finite loss at order ∞: a pure budget refuses it; `std` 0 is refused; the sums of counts and noise
        stay far within 64 bits.
    References: Canonne, Kamath, Steinke 2020, §2.
    """

    description: ClassVar[str] = "whole-number noise is added to counts"

    std: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", _check_positive("std", self.std))

    @property
    def noise_std(self) -> float:
        """An upper bound on the standard deviation of the noise: `std`."""
        return self.std

    def loss(self, distance: L2, order: float) -> Loss:
        """α Δ₂² / 2σ²."""
        check_distance(distance, L2)
        check_not_pure(order, "Gaussian noise")
        return Loss(order * distance.at_most**2 / (2 * self.std**2), order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: L2) -> DiscreteGaussian:
        """The least noise that costs at most `loss`."""
        _check_positive("loss", loss.value)
        check_not_pure(loss.order, "Gaussian noise")
        return cls(distance.at_most * math.sqrt(loss.order / (2 * loss.value)) * _ROUND_UP)

    def __call__(self, value: Integers, noise: NoiseSource) -> Integers:
        """Draw the answer."""
        return _check_integers(value) + noise.discrete_gaussian(self.std, value.size).reshape(value.shape)


@dataclass(frozen=True, slots=True)
class KNorm(_PureNoise[L2]):
    r"""Add integer noise by the K-norm mechanism for the Euclidean norm: for vectors with bounded L2 sensitivity.

    .. math:: f(y) \propto e^{-\lVert y \rVert_2/b}, \qquad Z = \operatorname{round}(y), \qquad
              \varepsilon = \Delta_2 / b

    Notation: :math:`b` is `scale`, :math:`\Delta_2` is `distance.at_most`.
    Guarantee: ε-DP for any two integer inputs at L2 distance at most Δ₂; at a finite order the loss of any ε-DP
        mechanism. The draw is exactly that of the rounded continuous noise. Proved in docs/proofs/knorm.md, attacked by
        tests/audit/test_mechanisms.py.
    Edge cases: `scale` 0 is refused; sums are modulo 2⁶⁴. A vector of one number gets Laplace noise, rounded.
    References: Hardt and Talwar 2010; Chaudhuri, Monteleoni, Sarwate 2011.
    """

    distance_kind: ClassVar = L2
    description: ClassVar[str] = "whole-number noise, scaled to the vector's L2 sensitivity, is added to coefficients"

    def __call__(self, value: Integers, noise: NoiseSource) -> Integers:
        """Draw the answer."""
        return _check_integers(value) + noise.knorm(self.scale, value.size).reshape(value.shape)


@dataclass(frozen=True, slots=True)
class ExponentialChoice(_ScaledMechanism):
    r"""Choose a candidate, better ones more often: the exponential mechanism.

    .. math:: \Pr[i] \propto e^{s_i / b}, \qquad \varepsilon = 2\Delta_\infty / b, \qquad
              \varepsilon_\alpha \le \min(\alpha\,\varepsilon^2 / 8,\ \text{any ε-DP mechanism's loss})

    Notation: :math:`b` is `scale`, :math:`\Delta_\infty` is `distance.at_most`, how far each score can move.
    Guarantee: ε-DP, and ε²/8-zCDP because log-probabilities move within a range of ε (Cesar and Rogers
        2021). Scores are clamped to ±b·2²⁶ and rounded to a grid of b·2⁻²⁴. To cover this and float errors in the
        scores, the charged ε is ε(1 + 2⁻²⁰) + 2⁻²². Proved in docs/proofs/exponential_choice.md, attacked by
        tests/audit/test_mechanisms.py.
    Edge cases: one candidate is chosen for certain; scores that are not numbers are refused.
    References: McSherry and Talwar 2007; Cesar and Rogers 2021.
    """

    description: ClassVar[str] = "choices are drawn from public candidates, better ones more often"

    def loss(self, distance: Linf, order: float) -> Loss:
        """ε at order ∞; at a finite order the better of the two bounds."""
        check_distance(distance, Linf)
        return _bounded_range_loss(2 * distance.at_most / self.scale * (1 + _RELATIVE_ERROR) + _ABSOLUTE_ERROR, order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: Linf) -> ExponentialChoice:
        """The sharpest choice that costs at most `loss`."""
        epsilon = (_bounded_range_for(loss) - _ABSOLUTE_ERROR) / (1 + _RELATIVE_ERROR)
        if epsilon <= 0:
            raise BudgetError(
                "this share of the budget is too small for a choice: its ε is below the rounding error of scores",
                hint=Hint("pass a larger ", Argument("spend")),
            )
        return cls(2 * distance.at_most / epsilon * _ROUND_UP)

    def __call__(self, value: Floats, noise: NoiseSource) -> int:
        """Draw the answer."""
        grid, bound = self.scale * 2.0**-24, self.scale * 2.0**26
        return noise.choose(np.round(np.clip(value, -bound, bound) / grid) * grid, self.scale)


@dataclass(frozen=True, slots=True)
class ChoiceByGroup(_ScaledMechanism):
    r"""Choose a candidate for each group by the exponential mechanism; a row changes the scores of one group.

    .. math:: \Pr[i_1, i_2, \dots] = \prod_g \Pr[i_g], \qquad \Pr[i_g] \propto e^{s_{g,i}/b}, \qquad
              \varepsilon = 2\Delta / b, \qquad
              \varepsilon_\alpha \le \min(\alpha\,\varepsilon^2 / 8,\ \text{any ε-DP mechanism's loss})

    Notation: :math:`b` is `scale`, :math:`\Delta` is `distance.at_most`: how far the scores of each group can move,
        added up over the groups.
    Guarantee: ε-DP and ε²/8-zCDP, however many groups there are: ranges add up over the groups that move. Scores are
        whole numbers and nothing is rounded, so ε has no margin. Proved in docs/proofs/exponential_choice.md, attacked
        by tests/audit/test_mechanisms.py.
    Edge cases: a single candidate is chosen for certain; scores with fractions are refused.
    References: McSherry 2009 (parallel composition); Dong, Durfee and Rogers 2020 (bounded range).
    """

    description: ClassVar[str] = "choices are drawn from public candidates, better ones more often"

    def loss(self, distance: LinfByGroup, order: float) -> Loss:
        """ε at order ∞; at a finite order the better of the two bounds."""
        check_distance(distance, LinfByGroup)
        return _bounded_range_loss(2 * distance.at_most / self.scale, order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: LinfByGroup) -> ChoiceByGroup:
        """The sharpest choices that cost at most `loss`."""
        return cls(2 * distance.at_most / _bounded_range_for(loss) * _ROUND_UP)

    def __call__(self, value: Integers, noise: NoiseSource) -> Integers:
        """Draw the answers, from a line of scores for each group."""
        exact = np.clip(_check_integers(value), -_LARGEST_EXACT, _LARGEST_EXACT).astype(np.float64)
        return np.array([noise.choose(scores, self.scale) for scores in exact], dtype=np.int64)


def _bounded_range_loss(epsilon: float, order: float) -> Loss:
    """The loss of a mechanism whose log-probabilities change within a range of ε (bounded range)."""
    bounded_range = epsilon if order == PURE else order * epsilon**2 / 8
    return Loss(min(bounded_range, pure_loss(epsilon, order)), order)


def _bounded_range_for(loss: Loss) -> float:
    """The largest bounded range whose loss is at most `loss`."""
    epsilon = pure_epsilon(loss)
    return epsilon if loss.order == PURE else max(epsilon, math.sqrt(8 * loss.value / loss.order))


def for_counts(loss: Loss, distance: L2) -> DiscreteLaplace | DiscreteGaussian:
    """The noise for counts: discrete Laplace under a pure budget, else discrete Gaussian."""
    if loss.order != PURE:
        return DiscreteGaussian.for_loss(loss, distance)
    if not isinstance(distance, L1):
        check_distance(distance, L1)  # always raises
    return DiscreteLaplace.for_loss(loss, L1(distance.at_most))


def pure_epsilon(loss: Loss) -> float:
    """The largest ε whose loss at this order, for any ε-DP mechanism, stays within `loss`."""
    _check_positive("loss", loss.value)
    if loss.order == PURE:
        return loss.value
    low, high = loss.value, max(2 * loss.value, 1.0)  # the loss of an ε-DP mechanism is at most ε
    while pure_loss(high, loss.order) < loss.value and high <= 1e6:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if pure_loss(middle, loss.order) <= loss.value else (low, middle)
    return low
