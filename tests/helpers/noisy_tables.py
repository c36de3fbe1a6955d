"""Small tables for tests of models."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapless.model.marginal import Marginal, Measurement


def wave(*shape: int) -> NDArray[np.float64]:
    """A table of positive numbers that looks like nothing in particular."""
    return np.asarray(2 + np.cos(1 + 1.7 * np.arange(np.prod(shape, dtype=int))).reshape(shape))


def measured(columns: Marginal, counts: ArrayLike, noise_std: float = 1.0) -> Measurement:
    """A measurement of these counts."""
    return Measurement(columns, np.asarray(counts, dtype=float), noise_std)
