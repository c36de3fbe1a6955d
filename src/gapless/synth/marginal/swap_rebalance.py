r"""Rows of a mixture of products, rearranged so that the tables of all pairs of columns come near to the model's.

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

import numpy as np
from numpy.typing import NDArray

from gapless.types import Codes, Integers

__all__ = ["balance"]

Singles = NDArray[np.float32]

MOST = 1 << 35  # rows × cells², beyond which it takes longer than it is worth

_COUPLES = (32, 512)  # at a time: so many that none decides alone, and not more, or they go too far together
_TURNS = 16  # at least, if there are couples enough
_ROWS = 1 << 12  # that are counted at a time


def balance(codes: Codes, groups: Integers, target: Singles, ends: Integers, rng: np.random.Generator) -> None:
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
