"""What rows add to sums of gradients."""

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.sgd import RowGradients


def whole_vectors(gradients: RowGradients, weights: NDArray[np.float64]) -> NDArray[np.object_]:
    """What each row adds to an exact sum, as integers of any length."""
    alone = [
        gradients.integer_total(np.where(np.arange(len(weights)) == row, weights, 0)) for row in range(len(weights))
    ]
    assert all(np.array_equal(vector, np.trunc(vector)) for vector in alone)
    return np.array([[int(number) for number in vector] for vector in alone], dtype=object)
