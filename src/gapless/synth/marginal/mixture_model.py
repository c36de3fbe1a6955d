r"""Mixtures of products of column distributions, and balanced samples of them.

A mixture has K components of equal weight. In each component the columns are independent:

.. math:: p(x) = \frac1K \sum_k \prod_j q_{kj}(x_j)

Let P be the matrix of all probabilities, with a row for each cell of each column and a column for each component. All
pair tables are the blocks of :math:`P P^\top / K`: one matrix product. `mixture_fit` learns P from noisy tables.

*Balanced samples.* `swap_rebalance` rearranges sampled rows so that the tables of all pairs of columns come near the
expected ones. Given their component, the columns of a row are independent. So two rows of one component may swap their
cells of a column: the result is as likely as before. With x and x' the indicators of the cells of two such rows and
:math:`\delta = x - x'`, all tables of the two rows are the blocks of

.. math:: x x^\top + x' x'^\top = \tfrac12 (x + x')(x + x')^\top + \tfrac12\, \delta \delta^\top.

A swap in column j changes the sign of :math:`\delta_j`. Let W be the tables of the sample less the expected tables,
without the last term for the pairs of rows in the current turn. Column after column, the rows swap with probability

.. math:: \tfrac12 + \frac{s}{2c}, \qquad s = \delta_{<j}^\top W_{<j,j}\, \delta_j,
          \qquad c = \frac{\sum s^2}{2 \lVert W_{<j,j} \rVert^2},

clipped to [0, 1]. The mean change along W is :math:`-\sum s^2 / 2c = -\lVert W_{<j,j} \rVert^2`: the difference
vanishes as far as these rows can correct it, and only the randomness of the next ones is left.

Swaps keep each component's rows and its cells of each column, so tables of one column stay exact. Other tables keep
their expectation: the probabilities change sign with W, which sums over all components and is 0 on average. With few
components a pair of rows affects W itself; the bias is of the order of 1 / components
(tests/statistical/test_mixture_rows.py).

References: Alweiss, Liu, Sawhney 2021 (sequential random signs that keep a sum of vectors small).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gapless.errors import ModelError
from gapless.model.sampling import UniformDraws, code_dtype, inverse_sample, systematic_by_group
from gapless.text import plural
from gapless.types import Codes, Floats, Integers

__all__ = ["MixtureModel", "swap_rebalance"]

Singles = NDArray[np.float32]

CAP_CELLS = 10_000_000  # of the largest marginal
MOST = 1 << 35  # rows × cells² up to which a sample is balanced; beyond, it takes too long
_CELLS = 1 << 22  # of the working memory
_CACHE_CELLS = 1 << 18  # of the working memory that should stay in the processor's cache
_ROW_PAIRS = (32, 512)  # per turn, at least and at most: enough to average, few enough not to overshoot
_TURNS = 16  # at least, if there are enough pairs of rows
_ROWS = 1 << 12  # counted at a time


class MixtureModel:
    """A distribution over columns 0 … d-1, a mixture of products; public, free to query and sample.

    Args:
        probabilities: for each column a row for each component; components have equal weights.
        features: for each column cells × features; samples are balanced in their products. By default features are
            the cells themselves.

    >>> sides = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> MixtureModel([sides, sides]).marginal([0, 1]).round(2).tolist()
    [[0.41, 0.09], [0.09, 0.41]]
    """

    kind: ClassVar[str] = "mixture"

    def __init__(
        self, probabilities: Iterable[NDArray[Any]], *, features: Sequence[NDArray[Any]] | None = None
    ) -> None:
        self.features = None if features is None else tuple(np.asarray(cells, np.float32) for cells in features)
        self.probabilities = tuple(np.asarray(table, dtype=np.float32) for table in probabilities)
        self.sizes = tuple(int(table.shape[-1]) for table in self.probabilities)
        self.components = len(self.probabilities[0]) if self.probabilities else 1
        shapes = [table.shape for table in self.probabilities]
        if self.components < 1 or any(shape != (self.components, max(1, shape[-1])) for shape in shapes):
            raise ModelError(
                "probabilities of a mixture must have shape (components, cells) for each column, with the same number "
                f"of components, got {shapes}",
                hint="pass one row of probabilities for each component, and at least one component",
            )

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Compute the probabilities of a set of columns, with one axis per column in the order given.

        Raises:
            ModelError: A column does not exist or is named twice, or the table would have too many cells.
        """
        shape = [self.sizes[column] for column in columns if 0 <= column < len(self.sizes)]
        if len(set(columns)) != len(columns) or len(shape) != len(columns):
            raise ModelError(
                f"no marginal of columns {tuple(columns)} in a model of {plural(len(self.sizes), 'column')}",
                hint=f"pass different numbers from 0 to {len(self.sizes) - 1}",
            )
        if prod(shape) > CAP_CELLS:
            raise ModelError(
                f"the marginal of columns {tuple(columns)} would need {prod(shape):,} cells; the cap is {CAP_CELLS:,}",
                hint="use counts of a large sample instead",
            )
        half = (len(columns) + 1) // 2
        table = np.zeros((prod(shape[:half]), prod(shape[half:])))
        step = max(1, _CELLS // sum(table.shape))
        for begin in range(0, self.components, step):
            part = slice(begin, begin + step)
            table += self._joint(columns[:half], part).T @ self._joint(columns[half:], part)
        return (table / self.components).reshape(shape)

    def _joint(self, columns: Sequence[int], part: slice) -> Floats:
        """Return the joint probabilities of some columns in some components, a row each."""
        joint = np.ones((len(range(self.components)[part]), 1))
        for column in columns:
            cells = self.probabilities[column][part].astype(np.float64)
            cells /= cells.sum(axis=1, keepdims=True)
            joint = (joint[:, :, None] * cells[:, None, :]).reshape(len(joint), -1)
        return joint

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Draw rows × columns of codes, with equal numbers of rows for all components.

        In each component the counts of a column are its expected counts, rounded, in random order. Then rows of one
        component swap cells, so that pair tables come near the expected ones (`swap_rebalance`). The expectation of
        one-way tables is exact; that of larger ones has a bias of the order of 1 / components.
        """
        codes = np.empty((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        which = rng.permutation(rng.permutation(self.components)[np.arange(rows) % self.components])
        for column, table in enumerate(self.probabilities):
            codes[:, column] = systematic_by_group(table.astype(np.float64), which, rng)
        features = self.features or [np.eye(size, dtype=np.float32) for size in self.sizes]
        ends = ends_of([cells.shape[1] for cells in features])
        if rows > self.components and rows * int(ends[-1]) ** 2 <= MOST:
            means = np.hstack([cells @ map_ for cells, map_ in zip(self.probabilities, features, strict=True)])
            target = means.T @ (means * np.float32(rows / self.components))
            swap_rebalance(codes, which, features, target, ends, rng)
        return codes

    def fill(self, given: Integers, chance: UniformDraws) -> Codes:
        """Draw the codes that are -1 given the other codes of each row: a function of each row and its random draws.

        A component is drawn from its posterior given the observed cells, then every missing cell from this component.
        An observed cell with probability 0 in all remaining components is kept, and ignored in the posterior.

        To the last bit, results depend on one row only: the code uses products, quotients, maxima and running sums.
        """
        codes = given.astype(code_dtype(self.sizes))
        draws = [chance() for _ in range(1 + len(self.sizes))]
        likelihoods = [
            np.vstack([table.T, np.ones((1, self.components), dtype=np.float32)]) for table in self.probabilities
        ]
        step = max(1, _CACHE_CELLS // self.components)
        for begin in range(0, len(given), step):
            some = slice(begin, begin + step)
            fit = self._responsibilities(given[some], likelihoods)
            component = inverse_sample(fit.astype(np.float64), np.arange(len(fit)), draws[0][some])
            for column, table in enumerate(self.probabilities):
                lacking = np.flatnonzero(given[some, column] < 0)
                cells = inverse_sample(table.astype(np.float64), component[lacking], draws[1 + column][some][lacking])
                codes[some, column][lacking] = cells
        return codes

    def _responsibilities(self, given: Integers, likelihoods: Sequence[Singles]) -> Singles:
        """Return the likelihood of the observed cells for each row and component; the largest of a row is 1.

        `likelihoods` has for each column the probability of each cell, then 1 for a missing cell.
        """
        fit = np.ones((len(given), self.components), dtype=np.float32)
        for column, likelihood in enumerate(likelihoods):
            now = likelihood[given[:, column]]
            now *= fit
            peak = now.max(axis=1)
            never = peak == 0
            now[never], peak[never] = fit[never], 1
            now /= peak[:, None]
            fit = now
        return fit

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        whole = np.hstack([np.empty((self.components, 0), dtype=np.float32), *self.probabilities])
        arrays = {"sizes": np.array(self.sizes, dtype=np.int64), "probabilities": whole}
        return arrays | {f"features.{column}": cells for column, cells in enumerate(self.features or ())}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MixtureModel:
        """Rebuild the mixture from the arrays of a model file."""
        sizes = arrays["sizes"].tolist()
        features = [arrays[f"features.{column}"] for column in range(len(sizes))] if "features.0" in arrays else None
        cells = (arrays["probabilities"][:, begin:end] for begin, end in pairwise(ends_of(sizes)))
        return cls(cells, features=features)


def ends_of(sizes: Sequence[int]) -> Integers:
    """Return where each column begins among the cells of all columns, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def swap_rebalance(
    codes: Codes,
    groups: Integers,
    features: Sequence[Singles],
    target: Singles,
    ends: Integers,
    rng: np.random.Generator,
) -> None:
    """Swap cells between rows of one group, in place, so that all sums of feature products come near the target.

    Args:
        codes: rows × columns.
        groups: the component of each row; rows of one group are in random order.
        features: for each column cells × features; with one for each cell, products are the pair tables.
        target: the expected sums, features of all columns × features of all columns.
        ends: where each column begins among the features of all columns, and where the last one ends.
        rng: of the swaps.
    """
    difference = -target
    for begin in range(0, len(codes), _ROWS):
        cells = _features_of(codes[begin : begin + _ROWS], features)
        difference += cells.T @ cells
    first, second = _row_pairs(groups)
    least, most = _ROW_PAIRS
    turns = max(min(_TURNS, len(first) // least), -(-len(first) // most))
    for turn in range(turns):
        upper, lower = first[turn::turns], second[turn::turns]  # from all groups
        apart = _features_of(codes[upper], features) - _features_of(codes[lower], features)
        difference -= apart.T @ (apart / 2)
        for column in range(1, codes.shape[1]):
            before, here = slice(ends[column]), slice(ends[column], ends[column + 1])
            excess = difference[before, here]
            score = np.einsum("rc,rc->r", apart[:, before] @ excess, apart[:, here])
            even = (score @ score) / max(1e-9, 2 * np.vdot(excess, excess))
            swap = score > even * rng.uniform(-1, 1, len(score))
            apart[swap, here] *= -1
            left, right = upper[swap], lower[swap]
            codes[left, column], codes[right, column] = codes[right, column], codes[left, column]
        difference += apart.T @ (apart / 2)


def _row_pairs(groups: Integers) -> tuple[Integers, Integers]:
    """Pair the first with the second row of each group, the third with the fourth, and so on."""
    order = np.argsort(groups, kind="stable")
    place = np.arange(len(groups)) - np.searchsorted(groups[order], groups[order])
    seconds = np.flatnonzero(place % 2)
    return order[seconds - 1], order[seconds]


def _features_of(codes: Codes, features: Sequence[Singles]) -> Singles:
    """Return the features of rows, column after column."""
    return np.hstack([cells[codes[:, column]] for column, cells in enumerate(features)])
