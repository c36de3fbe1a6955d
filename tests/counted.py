"""Noise that is counted: which vectors of it are drawn, for tests that compare them with what was charged."""

from gapless.testing.noise import FixedNoise


class Counting(FixedNoise):
    """Notes every vector of noise that is drawn."""

    def __init__(self):
        super().__init__(1)
        self.drawn = []

    def discrete_gaussian(self, std, size):
        self.drawn.append((std, size))
        return super().discrete_gaussian(std, size)
