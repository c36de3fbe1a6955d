r"""Cells in and out of a network: codes as inputs of 0 and 1, and how well outputs foretell cells.

.. math:: \ell = -\sum_{j\ \text{observed}} \log \operatorname{softmax}(z_j)_{c_j}, \qquad
          \frac{\partial \ell}{\partial z_j} = \operatorname{softmax}(z_j) - e_{c_j}

A cell that is a gap is nothing to foretell: its column adds nothing to the loss of its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from gapless.types import Floats


def indicators(columns: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> Floats:
    """1 at the code of each column, 0 elsewhere: rows × all codes."""
    starts = np.array([0, *accumulate(sizes)])[:-1]
    places = np.stack(columns, axis=1) + starts
    inputs = np.zeros((len(places), sum(sizes)))
    inputs[np.arange(len(places))[:, None], places] = 1.0
    return inputs


def cross_entropy(
    outputs: Floats, columns: Sequence[NDArray[np.integer]], sizes: Sequence[int]
) -> tuple[Floats, Floats]:
    """The loss of each row, and its slopes by the outputs; `sizes` are the observed cells, codes beyond are gaps."""
    starts = np.array([0, *accumulate(sizes)])[:-1]
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    chances = np.exp(outputs - np.maximum.reduceat(outputs, starts, axis=1).take(column_of, axis=1))
    chances /= np.add.reduceat(chances, starts, axis=1).take(column_of, axis=1)
    observed = np.stack([codes < size for codes, size in zip(columns, sizes, strict=True)], axis=1)
    places = np.stack([codes.astype(np.intp) for codes in columns], axis=1) + starts
    rows, which = np.nonzero(observed)
    cells = places[rows, which]
    losses = np.zeros(observed.shape)
    losses[rows, which] = -np.log(np.maximum(chances[rows, cells], np.finfo(np.float64).tiny))
    chances[rows, cells] -= 1.0
    if len(rows) < observed.size:
        chances *= observed[:, column_of]
    return np.asarray(losses.sum(axis=1)), chances
