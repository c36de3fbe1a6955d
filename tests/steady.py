"""Noise for tests of runs that are stopped and go on: what is drawn follows from what is asked for, not from when."""

import zlib

from gapless.testing.noise import FixedNoise, _active


class SteadyNoise:
    """NOT PRIVATE: the same numbers for the same scale and size."""

    def __init__(self, seed):
        self._seed = seed

    def _fixed(self, *asked):
        return FixedNoise(zlib.crc32(repr((self._seed, *asked)).encode()))

    def discrete_laplace(self, scale, size):
        return self._fixed(scale, size).discrete_laplace(scale, size)

    def discrete_gaussian(self, std, size):
        return self._fixed(std, size).discrete_gaussian(std, size)

    def knorm(self, scale, size):
        return self._fixed(scale, size).knorm(scale, size)

    def choose(self, scores, scale):
        return self._fixed(scale, len(scores)).choose(scores, scale)

    def cauchy(self, centre, scale, quarters):
        return self._fixed(scale, quarters).cauchy(centre, scale, quarters)

    def words(self, size):
        return self._fixed(size).words(size)


def steady_noise(seed):
    return _active(SteadyNoise(seed))
