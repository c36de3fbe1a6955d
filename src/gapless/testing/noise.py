"""Noise for tests: repeatable, or broken on purpose. NOT PRIVATE, and the ledger says so.

A source is active inside its `with` block, in the thread and task that entered it, and nowhere else:

>>> from gapless.privacy.noise import source_name
>>> with fixed_noise(seed=1) as source:
...     source_name(source)
'FixedNoise: NOT PRIVATE'
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.exact_noise import rounded_cauchy, rounded_knorm
from gapless.privacy.noise import NoiseSource, _source, current
from gapless.types import Floats, Integers


class FixedNoise:
    """NOT PRIVATE: the distributions of `SystemNoise` up to floating point, from a seed.

    >>> FixedNoise(7).discrete_gaussian(10.0, 4).tolist() == FixedNoise(7).discrete_gaussian(10.0, 4).tolist()
    True
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """Draw differences of two geometric variables."""
        up, down = self._rng.geometric(-np.expm1(-1 / scale), (2, size))
        return np.asarray(up - down, dtype=np.int64)

    def discrete_gaussian(self, std: float, size: int) -> Integers:
        """Draw by inversion in floating point; above a std of 1000, draw rounded normals, which hardly differ."""
        if std > 1000:
            return np.rint(self._rng.normal(0, std, size)).astype(np.int64)
        reach = int(10 * std) + 2
        below = np.cumsum(np.exp(-((np.arange(-reach, reach + 1) / std) ** 2) / 2))
        cells = np.searchsorted(below, self._rng.random(size) * below[-1], side="right")
        return np.asarray(cells - reach, dtype=np.int64)

    def choose(self, scores: Floats, scale: float) -> int:
        """Return the largest score after Gumbel noise, which is the exponential mechanism."""
        return int(np.argmax(scores / scale + self._rng.gumbel(size=len(scores))))

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:
        """The exact sampler, with words from the seed."""
        return rounded_cauchy(centre, scale, quarters, self._word)

    def knorm(self, scale: float, size: int) -> Integers:
        """The exact sampler, with words from the seed."""
        return rounded_knorm(Fraction(scale), size, self._word)

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        """Uniform words from the seed."""
        return self._rng.integers(0, 2**64, size, dtype=np.uint64)

    def _word(self) -> int:
        return self._rng.bit_generator.random_raw()  # as `words` draws one, and faster


@dataclass(frozen=True, slots=True)
class ScaledNoise:
    """NOT PRIVATE: the noise of `source` at `factor` times the requested scale."""

    factor: float
    source: NoiseSource

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """At the wrong scale."""
        return self.source.discrete_laplace(self.factor * scale, size)

    def discrete_gaussian(self, std: float, size: int) -> Integers:
        """At the wrong standard deviation."""
        return self.source.discrete_gaussian(self.factor * std, size)

    def knorm(self, scale: float, size: int) -> Integers:
        """At the wrong scale."""
        return self.source.knorm(self.factor * scale, size)

    def choose(self, scores: Floats, scale: float) -> int:
        """At the wrong scale."""
        return self.source.choose(scores, self.factor * scale)

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:
        """At the wrong scale."""
        return self.source.cauchy(centre, Fraction(self.factor) * scale, quarters)

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        """Return the words of `source`: they have no scale."""
        return self.source.uniform_words(size)


@dataclass(frozen=True, slots=True)
class SharedNoise(ScaledNoise):
    """NOT PRIVATE: one draw of `source` for all cells of a vector, so that differences of cells are exact."""

    factor: float = field(default=1.0, init=False)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        """The same number in each cell."""
        return np.repeat(self.source.discrete_laplace(scale, 1), size)

    def discrete_gaussian(self, std: float, size: int) -> Integers:
        """The same number in each cell."""
        return np.repeat(self.source.discrete_gaussian(std, 1), size)

    def knorm(self, scale: float, size: int) -> Integers:
        """The same number in each cell."""
        return np.repeat(self.source.knorm(scale, 1), size)


@dataclass(frozen=True, slots=True)
class NoNoise:
    """NOT PRIVATE: zeros, and the first of the best candidates."""

    def discrete_laplace(self, scale: float, size: int) -> Integers:  # noqa: ARG002 no noise
        """Zeros."""
        return np.zeros(size, dtype=np.int64)

    def discrete_gaussian(self, std: float, size: int) -> Integers:  # noqa: ARG002 no noise
        """Zeros."""
        return np.zeros(size, dtype=np.int64)

    knorm = discrete_laplace

    def choose(self, scores: Floats, scale: float) -> int:  # noqa: ARG002 no noise
        """The first of the best."""
        return int(np.argmax(scores))

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:  # noqa: ARG002 no noise
        """The centre itself, to the nearest whole number."""
        return round(centre)

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        """Return 0, 1, 2 …: the order of the rows."""
        return np.arange(size, dtype=np.uint64)


def fixed_noise(seed: int) -> AbstractContextManager[NoiseSource]:
    """NOT PRIVATE: repeatable noise inside the `with` block."""
    return _active(FixedNoise(seed))


def scaled_noise(factor: float) -> AbstractContextManager[NoiseSource]:
    """NOT PRIVATE: a planted bug, the noise of the active source at `factor` times its scale."""
    return _active(ScaledNoise(factor, current()))


def shared_noise() -> AbstractContextManager[NoiseSource]:
    """NOT PRIVATE: a planted bug, one draw of the active source for all cells of a vector."""
    return _active(SharedNoise(current()))


def no_noise() -> AbstractContextManager[NoiseSource]:
    """NOT PRIVATE: a planted bug, no noise at all; also for tests of exact answers."""
    return _active(NoNoise())


@contextmanager
def _active(source: NoiseSource) -> Iterator[NoiseSource]:
    token = _source.set(source)
    try:
        yield source
    finally:
        _source.reset(token)
