"""Noise for tests of runs that stop and resume: a draw depends on what is asked for, not on when."""

import zlib
from contextlib import AbstractContextManager
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.noise import NoiseSource
from gapless.testing.noise import FixedNoise, _active


class RepeatableNoise:
    """NOT PRIVATE: the same numbers for the same scale and size."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def _fixed(self, *asked: object) -> FixedNoise:
        return FixedNoise(zlib.crc32(repr((self._seed, *asked)).encode()))

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        return self._fixed(scale, size).discrete_laplace(scale, size)

    def discrete_gaussian(self, std: float, size: int) -> NDArray[np.int64]:
        return self._fixed(std, size).discrete_gaussian(std, size)

    def knorm(self, scale: float, size: int) -> NDArray[np.int64]:
        return self._fixed(scale, size).knorm(scale, size)

    def choose(self, scores: NDArray[np.float64], scale: float) -> int:
        return self._fixed(scale, len(scores)).choose(scores, scale)

    def cauchy(self, centre: Fraction, scale: Fraction, quarters: int) -> int:
        return self._fixed(scale, quarters).cauchy(centre, scale, quarters)

    def uniform_words(self, size: int) -> NDArray[np.uint64]:
        return self._fixed(size).uniform_words(size)


def repeatable_noise(seed: int) -> AbstractContextManager[NoiseSource]:
    """Use repeatable noise inside a `with` block."""
    return _active(RepeatableNoise(seed))
