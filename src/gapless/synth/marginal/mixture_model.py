r"""A mixture of products: every pair of columns at once.

K components of equal weight, in each of which the columns are independent:

.. math:: p(x) = \frac1K \sum_k \prod_j q_{kj}(x_j)

With P the matrix of all laws, a row for each cell of each column and a column for each component, all pair tables are
the blocks of :math:`P P^\top / K`: one matrix product. It is learned from noisy tables by `mixture_fit`.

Rows of a mixture of products, rearranged so that the tables of all pairs of columns come near to the model's.

Given their component the columns of a row are independent: if two rows of one component swap their cells of a column,
they are as likely as before. Couples of such rows are taken in turn. With x and x' the indicators of their cells and
:math:`\delta = x - x'`, all tables of a couple are the blocks of

.. math:: x x^\top + x' x'^\top = \tfrac12 (x + x')(x + x')^\top + \tfrac12\, \delta \delta^\top,

where a swap in column j is another sign of :math:`\delta_j`. Let W be what all tables of the sample, without the last
term of the couples in turn, have more than the model's. Column after column they swap with probability

.. math:: \tfrac12 + \frac{s}{2c}, \qquad s = \delta_{<j}^\top W_{<j,j}\, \delta_j,
          \qquad c = \frac{\sum s^2}{2 \lVert W_{<j,j} \rVert^2},

cut off at 0 and 1. They turn against W on average by :math:`-\sum s^2 / 2c = -\lVert W_{<j,j} \rVert^2`: it vanishes as
far as these couples can tell it, and the chance of the next ones is left.

What is kept: each component's rows and its cells of each column, so tables of one column exactly. Others keep their
expectation: probabilities turn around with W, which comes from all components, and is 0 on average. Where these are few
a couple's own part in W shows, a share of the order of 1 / components (tests/statistical/test_mixture_rows.py).

References: Alweiss, Liu, Sawhney 2021 (random signs, one after the other, that keep a sum of vectors small).
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

CAP_CELLS = 10_000_000  # of a marginal
_CELLS = 1 << 22  # working memory
_NEAR_CELLS = 1 << 18  # where it should stay near the processor


class MixtureModel:
    """A distribution over columns 0 … d-1, a mixture of products; public, free to query and sample.

    Args:
        laws: for each column a row of probabilities for each component; components weigh the same.

    >>> sides = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> MixtureModel([sides, sides]).marginal([0, 1]).round(2).tolist()
    [[0.41, 0.09], [0.09, 0.41]]
    """

    kind: ClassVar[str] = "mixture"

    def __init__(self, probabilities: Iterable[NDArray[Any]]) -> None:
        self.probabilities = tuple(np.asarray(law, dtype=np.float32) for law in probabilities)
        self.sizes = tuple(int(law.shape[-1]) for law in self.probabilities)
        self.components = len(self.probabilities[0]) if self.probabilities else 1
        if self.components < 1 or any(
            law.shape != (self.components, max(1, law.shape[-1])) for law in self.probabilities
        ):
            raise ModelError(
                f"a mixture cannot have laws of shapes {[law.shape for law in self.probabilities]}",
                hint="components × cells for each column, and as many components for every column",
            )

    def marginal(self, columns: Sequence[int]) -> Floats:
        """The probabilities of any set of columns, one axis per column in the order given.

        Raises:
            ModelError: Marginal that are none or twice there, or a table of too many cells.
        """
        shape = [self.sizes[column] for column in columns if 0 <= column < len(self.sizes)]
        if len(set(columns)) != len(columns) or len(shape) != len(columns):
            raise ModelError(
                f"no marginal of columns {tuple(columns)} in a model of {plural(len(self.sizes), 'column')}",
                hint=f"different numbers from 0 to {len(self.sizes) - 1}",
            )
        if prod(shape) > CAP_CELLS:
            raise ModelError(
                f"the marginal of columns {tuple(columns)} would need {prod(shape):,} cells",
                hint="count it in a large sample instead",
            )
        half = (len(columns) + 1) // 2
        table = np.zeros((prod(shape[:half]), prod(shape[half:])))
        step = max(1, _CELLS // sum(table.shape))
        for begin in range(0, self.components, step):
            part = slice(begin, begin + step)
            table += self._joint(columns[:half], part).T @ self._joint(columns[half:], part)
        return (table / self.components).reshape(shape)

    def _joint(self, columns: Sequence[int], part: slice) -> Floats:
        """The law of some columns in some components, a row each."""
        joint = np.ones((len(range(self.components)[part]), 1))
        for column in columns:
            law = self.probabilities[column][part].astype(np.float64)
            law /= law.sum(axis=1, keepdims=True)
            joint = (joint[:, :, None] * law[:, None, :]).reshape(len(joint), -1)
        return joint

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows × columns of codes, components in turn.

        In each component every column's cells are as near to its law as whole numbers are, in random order; then rows
        of one component swap cells, so that the tables of pairs come near to the model's (`balance`).
        Expected tables of one column are exactly the model's, those of more but for a share of 1 / components.
        """
        codes = np.empty((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        which = rng.permutation(rng.permutation(self.components)[np.arange(rows) % self.components])
        for column, law in enumerate(self.probabilities):
            codes[:, column] = systematic_by_group(law.astype(np.float64), which, rng)
        ends = ends_of(self.sizes)
        if rows > self.components and rows * int(ends[-1]) ** 2 <= MOST:
            laws = np.hstack(self.probabilities)
            swap_rebalance(codes, which, laws.T @ (laws * np.float32(rows / self.components)), ends, rng)
        return codes

    def fill(self, given: Integers, chance: UniformDraws) -> Codes:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws.

        A component is drawn by how well it explains what is observed, then every missing cell from its law there. A
        cell that all components left hold impossible is kept, and tells nothing.

        To the last bit no number depends on more than one row: products, quotients, maxima and running sums only.
        """
        codes = given.astype(code_dtype(self.sizes))
        draws = [chance() for _ in range(1 + len(self.sizes))]
        told = [np.vstack([law.T, np.ones((1, self.components), dtype=np.float32)]) for law in self.probabilities]
        step = max(1, _NEAR_CELLS // self.components)
        for begin in range(0, len(given), step):
            some = slice(begin, begin + step)
            fit = self._responsibilities(given[some], told)
            component = inverse_sample(fit.astype(np.float64), np.arange(len(fit)), draws[0][some])
            for column, law in enumerate(self.probabilities):
                lacking = np.flatnonzero(given[some, column] < 0)
                cells = inverse_sample(law.astype(np.float64), component[lacking], draws[1 + column][some][lacking])
                codes[some, column][lacking] = cells
        return codes

    def _responsibilities(self, given: Integers, told: Sequence[Singles]) -> Singles:
        """For each row and component the probability of what is observed, the largest of a row scaled to one.

        `told` has for each column the probability of each cell, and last of a missing one: that is, 1.
        """
        fit = np.ones((len(given), self.components), dtype=np.float32)
        for column, law in enumerate(told):
            now = law[given[:, column]]
            now *= fit
            peak = now.max(axis=1)
            never = peak == 0
            now[never], peak[never] = fit[never], 1
            now /= peak[:, None]
            fit = now
        return fit

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that makes the model, as plain arrays to be saved."""
        laws = np.hstack([np.empty((self.components, 0), dtype=np.float32), *self.probabilities])
        return {"sizes": np.array(self.sizes, dtype=np.int64), "laws": laws}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> MixtureModel:
        """The model that `to_arrays` took apart."""
        return cls(arrays["laws"][:, begin:end] for begin, end in pairwise(ends_of(arrays["sizes"].tolist())))


def ends_of(sizes: Sequence[int]) -> Integers:
    """Where each column begins among the cells of all, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


MOST = 1 << 35  # rows × cells², beyond which it takes longer than it is worth

_COUPLES = (32, 512)  # at a time: so many that none decides alone, and not more, or they go too far together
_TURNS = 16  # at least, if there are couples enough
_ROWS = 1 << 12  # that are counted at a time


def swap_rebalance(codes: Codes, groups: Integers, target: Singles, ends: Integers, rng: np.random.Generator) -> None:
    """Swap cells between rows of one group, in place, so that counts of all pairs of columns come near to the target.

    Args:
        codes: rows × columns.
        groups: of each row, its component; rows of one group are in random order.
        target: the counts that are wanted for each cell of each column with each of every other.
        ends: where each column begins among the cells of all, and where the last one ends.
        rng: of the swaps.
    """
    more = -target
    for begin in range(0, len(codes), _ROWS):
        cells = _indicators(codes[begin : begin + _ROWS], ends)
        more += cells.T @ cells
    first, second = _couples(groups)
    least, most = _COUPLES
    turns = max(min(_TURNS, len(first) // least), -(-len(first) // most))
    for turn in range(turns):
        one, other = first[turn::turns], second[turn::turns]  # of all groups
        apart = _indicators(codes[one], ends) - _indicators(codes[other], ends)
        more -= apart.T @ (apart / 2)
        for column in range(1, codes.shape[1]):
            before, here = slice(ends[column]), slice(ends[column], ends[column + 1])
            excess = more[before, here]
            score = np.einsum("rc,rc->r", apart[:, before] @ excess, apart[:, here])
            even = (score @ score) / max(1e-9, 2 * np.vdot(excess, excess))
            swap = score > even * rng.uniform(-1, 1, len(score))
            apart[swap, here] *= -1
            left, right = one[swap], other[swap]
            codes[left, column], codes[right, column] = codes[right, column], codes[left, column]
        more += apart.T @ (apart / 2)


def _couples(groups: Integers) -> tuple[Integers, Integers]:
    """The first with the second row of each group, the third with the fourth, and so on."""
    order = np.argsort(groups, kind="stable")
    place = np.arange(len(groups)) - np.searchsorted(groups[order], groups[order])
    seconds = np.flatnonzero(place % 2)
    return order[seconds - 1], order[seconds]


def _indicators(codes: Codes, ends: Integers) -> Singles:
    """A row for each row, with a one for its cell of each column."""
    cells = np.zeros((len(codes), int(ends[-1])), dtype=np.float32)
    cells[np.arange(len(codes))[:, None], ends[:-1] + codes] = 1
    return cells
