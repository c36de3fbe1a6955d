r"""The source of every random number of a mechanism.

Three samplers draw integer noise, and all are exact: OpenDP's (rejection in rational arithmetic) for up to
`MAX_OPENDP_SIZE` cells, our inversion for longer vectors, and `WideGaussian` for Gaussian noise too wide for a table,
an inversion in coarse cells with a rejection inside them. The inversion reads the digits of a number U, uniform on
[0, 1), one 64-bit word at a time, until they single out the integer z with F(z-1) ≤ U < F(z):

.. math:: F(z) = \Pr[Z \le z] = \sum_{x \le z} w(|x|) \Big/ \sum_{x} w(|x|)

F is never rounded: `Distribution.brackets` encloses it between integers that were rounded down and up. One word nearly
always decides. A word that falls into a bracket is ambiguous; then more digits of U are read and more digits of F are
computed. So the distribution is exact and adds nothing to δ. The only assumption is the entropy of the operating
system. Proved in docs/proofs/exact_noise.md, attacked by tests/statistical/test_noise.py.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.exact_noise import WORD, exp, rounded_cauchy, rounded_knorm
from gapless.types import Floats, Integers

if TYPE_CHECKING:
    from opendp.mod import Measurement

__all__ = ["Floats", "Integers", "NoiseSource", "SystemNoise", "current", "source_name"]


MAX_OPENDP_SIZE = 10_000  # cells that OpenDP draws in a fraction of a second
LARGEST_SCALE = 2.0**50  # scale up to which no draw comes near the ends of int64
SYSTEM = "system"  # the ledger's word for noise that is private
_SUFFIX_BITS = np.uint64(48)  # bits of a word after the prefix by which its cell is looked up
_EXTRA_VARIANCE = Fraction(1, 512)  # η: the relative excess variance of the proposals for a wide Gaussian
_MARGIN = 2.0**-36  # more than the float error of a probability exp(-E)


class NoiseSource(Protocol):
    """The source of every random number of a mechanism."""

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Independent integers, Pr[z] ∝ exp(-|z|/scale)."""

    def discrete_gaussian(self, std: float, size: int) -> Integers:
        """Independent integers, Pr[z] ∝ exp(-z²/2std²)."""

    def knorm(self, scale: float, size: int) -> Integers:
        """`scale·Y` to the nearest whole numbers, Y with density ∝ exp(-|y|₂)."""

    def choose(self, scores: Floats, scale: float) -> int:
        """One index, Pr[i] ∝ exp(scores[i]/scale): the exponential mechanism."""

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:
        """`centre + scale·X` to the nearest whole number, X with density ∝ 1/(1 + |x|^(quarters/4))."""

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        """Independent numbers, uniform on 64 bits."""


class SystemNoise:
    """The only source in production: entropy of the operating system, exact distributions, no seed.

    A float parameter stands for the rational number it is, to the last bit. Between two calls we keep only tables of F,
    which are public. OpenDP draws through OpenSSL, which the system seeds and which reseeds after a fork. Sizes, scales
    and the number of candidates are public too.

    >>> SystemNoise().discrete_laplace(2.0, size=3).dtype
    dtype('int64')
    >>> SystemNoise().choose(np.array([0.0, 1e6, 0.0]), scale=2.0)
    1
    """

    __slots__ = ()

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Independent integers, Pr[z] ∝ exp(-|z|/scale)."""
        noise = Distribution.laplace(_checked(scale))
        return noise.draw(size) if size > MAX_OPENDP_SIZE and noise.fits_table else _opendp_draw("l1", scale, size)

    def discrete_gaussian(self, std: float, size: int) -> Integers:
        """Independent integers, Pr[z] ∝ exp(-z²/2std²)."""
        noise = Distribution.gaussian(_checked(std))
        if not noise.fits_table:
            return WideGaussian.of(float(std)).draw(size)
        return noise.draw(size) if size > MAX_OPENDP_SIZE else _opendp_draw("l2", std, size)

    def knorm(self, scale: float, size: int) -> Integers:
        """`scale·Y` to the nearest whole numbers, Y with density ∝ exp(-|y|₂)."""
        return rounded_knorm(Fraction(_checked(scale)), size, _word)

    def choose(self, scores: Floats, scale: float) -> int:
        """One index, Pr[i] ∝ exp(scores[i]/scale): the exponential mechanism.

        The scores are taken as the rational numbers they are. If they come from floating-point arithmetic, their
        sensitivity holds only up to its rounding. So the caller rounds them to a public grid.
        """
        if scores.ndim != 1 or not scores.size or not np.isfinite(scores).all():
            raise ValueError("scores must be a non-empty vector of finite numbers")  # private: never quoted
        return int(_opendp_choice(_checked(scale))(scores.astype(np.float64)))

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:
        """`centre + scale·X` to the nearest whole number, X with density ∝ 1/(1 + |x|^(quarters/4))."""
        return rounded_cauchy(centre, scale, quarters, _word)

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        """Independent numbers, uniform on 64 bits."""
        return _uniform_words(size)


_source: ContextVar[NoiseSource] = ContextVar("gapless.noise")  # set by gapless.testing only


def current() -> NoiseSource:
    """The active source: the system's, unless `gapless.testing` has replaced it.

    >>> source_name(current())
    'system'
    """
    return _source.get(SystemNoise())


def source_name(source: NoiseSource) -> str:
    """The source as a ledger records it. The type decides, so that no source can declare itself private.

    >>> source_name(SystemNoise())
    'system'
    """
    return SYSTEM if type(source) is SystemNoise else f"{type(source).__name__}: NOT PRIVATE"


def _checked(scale: float) -> float:
    if not 0 < scale <= LARGEST_SCALE:  # NaN fails as well
        raise ValueError(f"noise scale must be in (0, 2^50]. Found {scale}.")
    return float(scale)


def _entropy(size: int) -> bytes:
    """The one place where random bytes enter our own samplers."""
    return os.urandom(size)


def _uniform_words(size: int) -> NDArray[np.uint64]:
    """Independent uniform numbers of 64 bits."""
    return np.frombuffer(_entropy(size * WORD // 8), dtype=np.uint64)


def _word() -> int:
    """A uniform number of 64 bits."""
    return int.from_bytes(_entropy(WORD // 8))


@dataclass(frozen=True, slots=True)
class Distribution:
    """A symmetric distribution on the integers: Pr[z] ∝ w(|z|), w(0) = 1, w(z+1) = w(z)·exp(-slope - z·bend).

    Discrete Laplace: slope 1/s, bend 0. Discrete Gaussian: slope 1/2σ², bend 1/σ², as (z+1)² - z² = 1 + 2z.
    """

    slope: Fraction
    bend: Fraction

    @classmethod
    def laplace(cls, scale: float) -> Distribution:
        """Pr[z] ∝ exp(-|z|/scale)."""
        return cls(1 / Fraction(scale), Fraction(0))

    @classmethod
    def gaussian(cls, std: float) -> Distribution:
        """Pr[z] ∝ exp(-z²/2std²)."""
        return cls(1 / (2 * Fraction(std) ** 2), 1 / Fraction(std) ** 2)

    @property
    def fits_table(self) -> bool:
        """Whether a table of 2^20 entries is enough: -ln w(2^19) ≥ 110."""
        return 2**19 * self.slope + 2**18 * (2**19 - 1) * self.bend >= 110

    def draw(self, size: int) -> Integers:
        """Independent draws by inversion of F."""
        lower, upper, guide = _table(self)
        drawn = _uniform_words(size)
        cells = guide[drawn >> _SUFFIX_BITS]  # the right cell, unless the rest of the word passes a cut
        late = np.flatnonzero(upper[cells] < drawn)
        cells[late] = np.searchsorted(upper, drawn[late])  # upper[cell - 1] < word ≤ upper[cell]
        ambiguous = np.flatnonzero(drawn >= lower[cells])
        cells -= len(upper) // 2
        for i in ambiguous:
            cells[i] = self.resolve(int(drawn[i]))
        return np.asarray(cells, dtype=np.int64)

    def resolve(self, word: int) -> int:
        """Finish a draw that began with an ambiguous word: read digits until U is outside every bracket of F."""
        bits = WORD
        while True:
            bits += WORD
            word = word << WORD | _word()
            lower, upper = self.brackets(bits)
            cell = bisect_left(upper, word)
            if word < lower[cell]:
                return cell - len(upper) // 2

    def brackets(self, bits: int) -> tuple[list[int], list[int]]:
        """Integers with lower ≤ 2^bits·F(k) ≤ upper + 1, at most 1 apart, for k = -K-1, …, K.

        All numbers are integers in units of 2^-3bits, once rounded down and once (`_up`) rounded up. K is so large that
        the weights beyond it add up to less than 2^-2bits. By symmetry the k < 0 are enough: F(-k-1) = Pr[Z > k] =
        1 - F(k).
        """
        places = 3 * bits
        unit = 1 << places
        (ratio, ratio_up), (bend, bend_up) = exp(self.slope, places), exp(self.bend, places)
        weight = weight_up = unit
        weights, weights_up = [], []
        while weight_up << 2 * bits >= unit - ratio_up:
            weights.append(weight)
            weights_up.append(weight_up)
            weight, weight_up = weight * ratio >> places, -(-weight_up * ratio_up >> places)
            ratio, ratio_up = ratio * bend >> places, -(-ratio_up * bend_up >> places)
        rest_up = -(-(weight_up << places) // (unit - ratio_up))  # a geometric series, as the ratios only fall

        # Sums over z > k for k = K, …, 0, -1. The last two, over z > 0 and z ≥ 0, make the sum over all z.
        tails = list(accumulate(reversed(weights), initial=0))
        tails_up = list(accumulate(reversed(weights_up), initial=rest_up))
        total, total_up = tails.pop() + tails[-1], tails_up.pop() + tails_up[-1]
        lower = [(tail << bits) // total_up for tail in tails]
        upper = [((tail << bits) - 1) // total for tail in tails_up]
        top = (1 << bits) - 1
        return lower + [top - cut for cut in reversed(upper)], upper + [top - cut for cut in reversed(lower)]


@dataclass(frozen=True, slots=True)
class WideGaussian:
    r"""A discrete Gaussian too wide for a table: a coarse one in cells of width W, a uniform place in it, a rejection.

    .. math:: z = bW + r, \qquad b \sim N_{\mathbb Z}(0, s^2/W^2), \qquad r \text{ uniform on } [-W/2, W/2), \qquad
              E = \frac{z^2}{2\sigma^2} - \frac{(bW)^2}{2s^2} + c

    A proposal is accepted with probability exp(-E), so that Pr[z] ∝ exp(-z²/2σ²) exactly. With s² = σ²(1 + η) and
    c = W²/8ησ² no E is negative. E is computed in floats, within `_MARGIN`. Where that does not decide, rational
    numbers do, with more digits of U, as in `Distribution.resolve`. Proved in docs/proofs/exact_noise.md.
    """

    std: float
    bits: int  # W = 2^bits

    @classmethod
    def of(cls, std: float) -> WideGaussian:
        """With cells such that 256 ≤ σ/W < 512: few proposals are rejected, and the table of cells is small."""
        return cls(std, math.frexp(std)[1] - 9)

    @property
    def cells(self) -> Distribution:
        """The distribution of b."""
        variance = Fraction(self.std) ** 2 * (1 + _EXTRA_VARIANCE) / 4**self.bits
        return Distribution(1 / (2 * variance), 1 / variance)

    def draw(self, size: int) -> Integers:
        """Independent draws; rejected proposals are drawn again."""
        drawn = np.empty(size, dtype=np.int64)
        pending = np.arange(size)
        while pending.size:
            z, accepted = self._propose(pending.size)
            drawn[pending[accepted]] = z[accepted]
            pending = pending[~accepted]
        return drawn

    def _propose(self, size: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Proposals, and which are accepted: a word holds the place in the cell and the first digits of U."""
        width, places = 1 << self.bits, WORD - self.bits
        cells = self.cells.draw(size)
        drawn = _uniform_words(size)
        start = cells * width
        z = start + (drawn & np.uint64(width - 1)).astype(np.int64) - width // 2
        u = (drawn >> np.uint64(self.bits)) * 2.0**-places
        variance = 2 * self.std**2
        slack = width**2 / (8 * float(_EXTRA_VARIANCE) * self.std**2)
        chance = np.exp(
            z.astype(np.float64) ** 2 / -variance
            + start.astype(np.float64) ** 2 / (variance * (1 + float(_EXTRA_VARIANCE)))
            - slack
        )
        accepted = u + (2.0**-places + _MARGIN) <= chance
        for i in np.flatnonzero(~accepted & (u < chance + _MARGIN)):
            accepted[i] = self.decide(int(drawn[i]) >> self.bits, places, int(start[i]), int(z[i]))
        return z, accepted

    def decide(self, digits: int, places: int, start: int, z: int) -> bool:
        """Whether U < exp(-E), given the first binary places of U: read more until the answer is certain."""
        square = 2 * Fraction(self.std) ** 2
        energy = (
            z**2 / square
            - start**2 / (square * (1 + _EXTRA_VARIANCE))
            + Fraction(4**self.bits) / (4 * _EXTRA_VARIANCE * square)
        )
        while True:
            places += WORD
            digits = digits << WORD | _word()
            lower, upper = exp(energy, places + WORD)
            if (digits + 1) << WORD <= lower:
                return True
            if digits << WORD >= upper:
                return False


@lru_cache(maxsize=8)  # up to 16 MB each
def _table(distribution: Distribution) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Integers]:
    """The brackets of one word, and for each prefix of a word the first possible cell."""
    lower, upper = (np.array(cuts, dtype=np.uint64) for cuts in distribution.brackets(WORD))
    prefixes = np.arange(1 << WORD - int(_SUFFIX_BITS), dtype=np.uint64) << _SUFFIX_BITS
    return lower, upper, np.searchsorted(upper, prefixes)


def _opendp_draw(metric: str, scale: float, size: int) -> Integers:
    return np.array(_opendp_noise(metric, float(scale))(np.zeros(size, dtype=np.int64)), dtype=np.int64)


@lru_cache(maxsize=256)
def _opendp_noise(metric: str, scale: float) -> Measurement:
    """OpenDP's exact discrete Laplace ("l1") or Gaussian ("l2"), after Canonne, Kamath and Steinke 2020."""
    from opendp import domains, measurements, measures, metrics, mod  # noqa: PLC0415  slow to load

    mod.enable_features("contrib")
    space = domains.vector_domain(domains.atom_domain(T="i64"))
    if metric == "l1":
        return measurements.make_noise(space, metrics.l1_distance(T="i64"), measures.max_divergence(), scale)
    return measurements.make_noise(space, metrics.l2_distance(T="f64"), measures.zero_concentrated_divergence(), scale)


@lru_cache(maxsize=256)
def _opendp_choice(scale: float) -> Measurement:
    """OpenDP's exact exponential mechanism.

    The measure decides the distribution. Under zero-concentrated divergence a candidate is drawn uniformly and accepted
    with probability exp((score - best)/scale), else drawn again: that is the exponential mechanism. Under max
    divergence candidates are not drawn twice: that is permute-and-flip, which lacks the bounded range.
    """
    from opendp import domains, measurements, measures, metrics, mod  # noqa: PLC0415  slow to load

    mod.enable_features("contrib")
    space = domains.vector_domain(domains.atom_domain(T="f64", nan=False))
    return measurements.make_noisy_max(
        space, metrics.linf_distance(T="f64"), measures.zero_concentrated_divergence(), scale
    )
