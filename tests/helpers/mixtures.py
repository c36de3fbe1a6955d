"""Random mixtures of products, all their probabilities by enumeration, and noisy tables of rows."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.model.marginal import Measurement
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.types import Floats

SIZES = (3, 4, 2, 3)


def random_model(components: int = 5, sizes: Sequence[int] = SIZES, seed: int = 0) -> MixtureModel:
    """A mixture with random probabilities."""
    rng = np.random.default_rng(seed)
    return MixtureModel([rng.dirichlet(np.full(size, 0.6), components) for size in sizes])


def joint(model: MixtureModel) -> Floats:
    """The probability of every row, one by one."""
    table = np.zeros(model.sizes)
    for row in product(*map(range, model.sizes)):
        for component in range(model.components):
            table[row] += np.prod(
                [table[component, cell] for table, cell in zip(model.probabilities, row, strict=True)], dtype=float
            )
    return np.asarray(table / model.components)


def tables_of(codes: NDArray[Any], sizes: Sequence[int], noise_std: float, seed: int = 0) -> list[Measurement]:
    """Noisy counts of every column and every pair."""
    rng = np.random.default_rng(seed)
    measured = []
    for columns in [*combinations(range(len(sizes)), 1), *combinations(range(len(sizes)), 2)]:
        shape = [sizes[column] for column in columns]
        cells = np.ravel_multi_index(tuple(codes[:, columns].T), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        measured.append(Measurement(columns, counts + noise_std * rng.normal(size=shape), noise_std))
    return measured


def distance(first: Floats, other: Floats) -> float:
    """The total variation distance of two distributions."""
    return float(0.5 * np.abs(first - other).sum())
