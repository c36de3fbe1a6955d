r"""Where every random number of a mechanism comes from.

Three samplers draw integer noise, and all are exact: OpenDP's (rejection in rational arithmetic) for up to
`SMALL` cells, an inversion of our own for longer vectors, and for Gaussian noise too wide for a table an inversion in
coarse cells with a rejection inside them (`WideGaussian`). The inversion reads the digits of a number U,
uniform on [0, 1), one 64-bit word at a time, until they single out the integer z with F(z-1) ≤ U < F(z):

.. math:: F(z) = \Pr[Z \le z] = \sum_{x \le z} w(|x|) \Big/ \sum_{x} w(|x|)

F is never rounded: `Distribution.brackets` holds it between integers that were rounded down and up. One word nearly
always decides; a word that falls into a bracket is ambiguous, and then more digits of U are read and more
digits of F computed. So the law is exact and adds nothing to δ; what remains assumed is the entropy of the
operating system. Proved in docs/proofs/exact_noise.md, attacked by tests/statistical/test_noise.py.
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

__all__ = ["Floats", "Integers", "NoiseSource", "SystemNoise", "current", "origin"]


SMALL = 10_000  # cells that OpenDP draws in a fraction of a second
LARGEST = 2.0**50  # scale up to which no draw comes near the ends of int64
SYSTEM = "system"  # what a ledger writes for noise that keeps anybody's privacy
_REST = np.uint64(48)  # bits of a word after the beginning by which its cell is looked up
_WIDER = Fraction(1, 512)  # η: by how much the variance of proposals for a wide Gaussian exceeds its own
_MARGIN = 2.0**-36  # more than the float error of a chance exp(-E)


class NoiseSource(Protocol):
    """Where every random number of a mechanism comes from."""

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
    """The only source of production: entropy of the operating system, exact laws, no seed.

    A float parameter stands for the rational number it is, to the last bit. We keep nothing between two calls
    but tables of F, which are public; OpenDP draws through OpenSSL, which the system seeds and which reseeds
    after a fork. Sizes, scales and the number of candidates are public too.

    >>> SystemNoise().discrete_laplace(2.0, size=3).dtype
    dtype('int64')
    >>> SystemNoise().choose(np.array([0.0, 1e6, 0.0]), scale=2.0)
    1
    """

    __slots__ = ()

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Independent integers, Pr[z] ∝ exp(-|z|/scale)."""
        law = Distribution.laplace(_checked(scale))
        return law.draw(size) if size > SMALL and law.fits else _opendp_draw("l1", scale, size)

    def discrete_gaussian(self, std: float, size: int) -> Integers:
        """Independent integers, Pr[z] ∝ exp(-z²/2std²)."""
        law = Distribution.gaussian(_checked(std))
        if not law.fits:
            return WideGaussian.of(float(std)).draw(size)
        return law.draw(size) if size > SMALL else _opendp_draw("l2", std, size)

    def knorm(self, scale: float, size: int) -> Integers:
        """`scale·Y` to the nearest whole numbers, Y with density ∝ exp(-|y|₂)."""
        return rounded_knorm(Fraction(_checked(scale)), size, _word)

    def choose(self, scores: Floats, scale: float) -> int:
        """One index, Pr[i] ∝ exp(scores[i]/scale): the exponential mechanism.

        The scores are taken as the rational numbers they are. If floating-point arithmetic made them, their
        sensitivity holds up to its rounding: the caller rounds them to a public grid.
        """
        if scores.ndim != 1 or not scores.size or not np.isfinite(scores).all():
            raise ValueError("scores must be a non-empty vector of finite numbers")  # private: never quoted
        return int(_opendp_choice(_checked(scale))(scores.astype(np.float64)))

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:
        """`centre + scale·X` to the nearest whole number, X with density ∝ 1/(1 + |x|^(quarters/4))."""
        return rounded_cauchy(centre, scale, quarters, _word)

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        """Independent numbers, uniform on 64 bits."""
        return np.frombuffer(_entropy(size * WORD // 8), dtype=np.uint64)


_source: ContextVar[NoiseSource] = ContextVar("gapless.noise")  # set by gapless.testing only


def current() -> NoiseSource:
    """The active source: the system's, unless `gapless.testing` has put another in its place.

    >>> origin(current())
    'system'
    """
    return _source.get(SystemNoise())


def origin(source: NoiseSource) -> str:
    """Who draws, as a ledger records it: decided by type, so that nothing a source says of itself can make it private.

    >>> origin(SystemNoise())
    'system'
    """
    return SYSTEM if type(source) is SystemNoise else f"{type(source).__name__}: NOT PRIVATE"


def _checked(scale: float) -> float:
    if not 0 < scale <= LARGEST:  # NaN fails as well
        raise ValueError(f"noise scale must be in (0, 2^50]. Found {scale}.")
    return float(scale)


def _entropy(size: int) -> bytes:
    """The one place where random bytes enter our own samplers."""
    return os.urandom(size)


def _word() -> int:
    """A uniform number of 64 bits."""
    return int.from_bytes(_entropy(WORD // 8))


@dataclass(frozen=True, slots=True)
class Distribution:
    """A symmetric law on the integers with Pr[z] ∝ w(|z|), w(0) = 1, w(z+1) = w(z)·exp(-slope - z·bend).

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
    def fits(self) -> bool:
        """Whether a table of 2^20 entries is enough: -ln w(2^19) ≥ 110."""
        return 2**19 * self.slope + 2**18 * (2**19 - 1) * self.bend >= 110

    def draw(self, size: int) -> Integers:
        """Independent draws by inversion of F."""
        lower, upper, guide = _table(self)
        words = np.frombuffer(_entropy(size * WORD // 8), dtype=np.uint64)
        cells = guide[words >> _REST]  # where the search ends, unless the rest of the word passes a cut
        late = np.flatnonzero(upper[cells] < words)
        cells[late] = np.searchsorted(upper, words[late])  # upper[cell - 1] < word ≤ upper[cell]
        ambiguous = np.flatnonzero(words >= lower[cells])
        cells -= len(upper) // 2
        for i in ambiguous:
            cells[i] = self.reveal(int(words[i]))
        return np.asarray(cells, dtype=np.int64)

    def reveal(self, word: int) -> int:
        """Finish the draw that began with an ambiguous word: read on until U leaves every bracket of F."""
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

        All numbers are integers in units of 2^-3bits, once rounded down and once (`_up`) rounded up; K is so
        large that the weights beyond it add up to less than 2^-2bits. By symmetry the k < 0 are enough:
        F(-k-1) = Pr[Z > k] = 1 - F(k).
        """
        places = 3 * bits
        one = 1 << places
        (ratio, ratio_up), (bend, bend_up) = exp(self.slope, places), exp(self.bend, places)
        weight = weight_up = one
        weights, weights_up = [], []
        while weight_up << 2 * bits >= one - ratio_up:
            weights.append(weight)
            weights_up.append(weight_up)
            weight, weight_up = weight * ratio >> places, -(-weight_up * ratio_up >> places)
            ratio, ratio_up = ratio * bend >> places, -(-ratio_up * bend_up >> places)
        rest_up = -(-(weight_up << places) // (one - ratio_up))  # a geometric series, as the ratios only fall

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
    r"""A discrete Gaussian too wide for a table: a coarse one in cells of W, an even place in the cell, a rejection.

    .. math:: z = bW + r, \qquad b \sim N_{\mathbb Z}(0, s^2/W^2), \qquad r \text{ even on } [-W/2, W/2), \qquad
              E = \frac{z^2}{2\sigma^2} - \frac{(bW)^2}{2s^2} + c

    A proposal is kept with chance exp(-E), so that Pr[z] ∝ exp(-z²/2σ²) exactly. With s² = σ²(1 + η) and
    c = W²/8ησ² no E is negative. E is computed in floats, within `_MARGIN`; where that does not decide, in rational
    numbers with more digits of U, as `Distribution.reveal` does. Proved in docs/proofs/exact_noise.md.
    """

    std: float
    bits: int  # W = 2^bits

    @classmethod
    def of(cls, std: float) -> WideGaussian:
        """With cells such that 256 ≤ σ/W < 512: few are thrown away, and their table is small."""
        return cls(std, math.frexp(std)[1] - 9)

    @property
    def cells(self) -> Distribution:
        """The law of b."""
        variance = Fraction(self.std) ** 2 * (1 + _WIDER) / 4**self.bits
        return Distribution(1 / (2 * variance), 1 / variance)

    def draw(self, size: int) -> Integers:
        """Independent draws: whatever is thrown away is drawn anew."""
        drawn = np.empty(size, dtype=np.int64)
        open_ = np.arange(size)
        while open_.size:
            z, kept = self._propose(open_.size)
            drawn[open_[kept]] = z[kept]
            open_ = open_[~kept]
        return drawn

    def _propose(self, size: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Proposals, and which of them are kept: a word holds the place in the cell and the first digits of U."""
        width, places = 1 << self.bits, WORD - self.bits
        cells = self.cells.draw(size)
        words = np.frombuffer(_entropy(size * WORD // 8), dtype=np.uint64)
        start = cells * width
        z = start + (words & np.uint64(width - 1)).astype(np.int64) - width // 2
        u = (words >> np.uint64(self.bits)) * 2.0**-places
        variance = 2 * self.std**2
        slack = width**2 / (8 * float(_WIDER) * self.std**2)
        chance = np.exp(
            z.astype(np.float64) ** 2 / -variance
            + start.astype(np.float64) ** 2 / (variance * (1 + float(_WIDER)))
            - slack
        )
        kept = u + (2.0**-places + _MARGIN) <= chance
        for i in np.flatnonzero(~kept & (u < chance + _MARGIN)):
            kept[i] = self.decide(int(words[i]) >> self.bits, places, int(start[i]), int(z[i]))
        return z, kept

    def decide(self, digits: int, places: int, start: int, z: int) -> bool:
        """Whether U < exp(-E), of which these many binary places are known: read on until it is plain."""
        square = 2 * Fraction(self.std) ** 2
        energy = z**2 / square - start**2 / (square * (1 + _WIDER)) + Fraction(4**self.bits) / (4 * _WIDER * square)
        while True:
            places += WORD
            digits = digits << WORD | _word()
            lower, upper = exp(energy, places + WORD)
            if (digits + 1) << WORD <= lower:
                return True
            if digits << WORD >= upper:
                return False


@lru_cache(maxsize=8)  # up to 16 MB each
def _table(law: Distribution) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Integers]:
    """The brackets of one word, and for each beginning of a word the first cell that it may fall into."""
    lower, upper = (np.array(cuts, dtype=np.uint64) for cuts in law.brackets(WORD))
    beginnings = np.arange(1 << WORD - int(_REST), dtype=np.uint64) << _REST
    return lower, upper, np.searchsorted(upper, beginnings)


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

    The measure decides the law: under zero-concentrated divergence a candidate is drawn evenly and kept with
    probability exp((score - best)/scale), else drawn anew, which is the exponential mechanism. Under max
    divergence candidates are not drawn twice: that is permute-and-flip, which lacks the bounded range.
    """
    from opendp import domains, measurements, measures, metrics, mod  # noqa: PLC0415  slow to load

    mod.enable_features("contrib")
    space = domains.vector_domain(domains.atom_domain(T="f64", nan=False))
    return measurements.make_noisy_max(
        space, metrics.linf_distance(T="f64"), measures.zero_concentrated_divergence(), scale
    )
