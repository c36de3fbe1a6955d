"""Noise that records what is drawn, for tests that compare draws with charges."""

import numpy as np
from numpy.typing import NDArray

from gapless.testing.noise import FixedNoise


class CountingNoise(FixedNoise):
    """Fixed noise that records the standard deviation and the size of every Gaussian vector."""

    def __init__(self) -> None:
        super().__init__(1)
        self.drawn: list[tuple[float, int]] = []

    def discrete_gaussian(self, std: float, size: int) -> NDArray[np.int64]:
        self.drawn.append((std, size))
        return super().discrete_gaussian(std, size)
