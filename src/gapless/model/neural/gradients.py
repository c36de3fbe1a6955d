r"""The gradients of many rows, kept as factors: their lengths and weighted sums, without one of them written out.

For a layer with inputs a and slopes δ (the derivatives of the row's loss by its outputs) row i's gradient is the outer
product of aᵢ and δᵢ, so that

.. math:: \lVert g_i \rVert^2 = \lVert a_i \rVert^2 \lVert \delta_i \rVert^2, \qquad
          \sum_i w_i g_i = a^{\mathsf T} \operatorname{diag}(w)\, \delta

(*ghost norms*: Goodfellow 2015). A length that is too small would be a wrong guarantee, so none is an estimate:
tests/unit/model/neural/test_layers.py compares all of them with gradients that are written out.

For sums that must be exact (`integer_total`) both factors are cut to whole numbers first, row by row. Then all products
are whole numbers, and adding them up in any order loses no digit.

Products of rows with a matrix, in which the result of a row does not depend on its position, to the last bit.

Proofs need this where rows are private: what a row adds to a sum, or is filled with, must not depend on the rows before
it, which move it to another place in its block. BLAS does not promise it: some kernels compute the last rows of a block
in another order if the number of columns is not a multiple of their width. So columns are filled up to a multiple of
`WIDTH`, and the kernel that this machine has is tried once for each shape, on public numbers. Where it treats places
differently, rows are multiplied one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.sgd import SUM_BITS, RowGradients
from gapless.types import Floats, Integers

WIDTH = 16  # columns: at least as many as a kernel takes at once
BLOCK = 256  # private rows come in blocks of a multiple of this many
LARGEST = 1 << 16  # rows: more at once are public ones


def row_wise_product(rows: Floats, matrix: Floats) -> Floats:
    """Rows times a matrix; each row by itself if their number is that of a block."""
    if len(rows) % BLOCK or len(rows) > LARGEST:
        return np.asarray(rows @ matrix)
    inputs, outputs = matrix.shape
    padded = np.zeros((inputs, -(-outputs // WIDTH) * WIDTH))
    padded[:, :outputs] = matrix
    rows = np.ascontiguousarray(rows)
    if is_row_wise(len(rows), *padded.shape):
        return np.asarray((rows @ padded)[:, :outputs])
    return np.asarray(multiply_single_rows(rows, padded)[:, :outputs])


@cache
def is_row_wise(rows: int, inputs: int, outputs: int) -> bool:
    """Whether a product of this shape gives equal rows equal results, at every place."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((inputs, outputs))
    for _ in range(4):
        found = np.tile(rng.standard_normal(inputs), (rows, 1)) @ matrix
        if not (found == found[0]).all():
            return False
    return True


def multiply_single_rows(rows: Floats, matrix: Floats) -> Floats:
    """The same, by as many products of one row, which all have the same shape."""
    return np.array([row[None] @ matrix for row in rows.copy()]).reshape(len(rows), matrix.shape[1])


_BITS = SUM_BITS // 2  # of the largest input of a row, where products are summed exactly
_SMALLEST = 500  # inputs below 2^-500 are not brought up to 1: the power of two would be no float


@dataclass(frozen=True, slots=True)
class DenseGradients:
    """Gradients that are written out, for few parameters: rows × parameters."""

    rows: Floats

    def squared_norms(self) -> Floats:
        """Of each row."""
        return _squares(self.rows)

    def total(self, weights: Floats) -> Floats:
        """The weighted sum."""
        kept, rows = _kept(weights, self.rows)
        return np.asarray(kept @ rows)

    def integer_total(self, weights: Floats) -> Floats:
        """The sum of each row times its weight, cut to whole numbers."""
        kept, rows = _kept(weights, self.rows)
        return np.asarray(np.trunc(rows * kept[:, None]).sum(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Which cells of a matrix are parameters. Outputs that see the same inputs are a group.

    With M = `seen` · `groups`ᵀ the squared length (a² M)·δ² is (a² `seen`)·(δ² `groups`), of fewer numbers.
    """

    free: Integers  # the places of parameters in the matrix, row after row
    seen: Floats  # inputs × groups
    groups: Floats  # outputs × groups

    @classmethod
    def of(cls, allowed: NDArray[np.bool_]) -> Mask:
        """From marks, inputs × outputs."""
        seen, group = np.unique(allowed, axis=1, return_inverse=True)
        groups = np.equal.outer(group.ravel(), np.arange(seen.shape[1]))
        parts = np.flatnonzero(allowed), seen.astype(np.float64), groups.astype(np.float64)
        for part in parts:
            part.setflags(write=False)  # lengths follow from them
        return cls(*parts)

    def matrix(self, numbers: Floats) -> Floats:
        """The matrix with these parameters, and zeros elsewhere."""
        matrix = np.zeros((len(self.seen), len(self.groups)))
        matrix.ravel()[self.free] = numbers
        return matrix


@dataclass(frozen=True, slots=True)
class OuterGradients:
    """Gradients of a matrix, inputs × outputs, of which all cells, or those of a mask, are parameters."""

    inputs: Floats
    slopes: Floats
    mask: Mask | None = None

    def squared_norms(self) -> Floats:
        """Of each row."""
        if self.mask is None:
            return _squares(self.inputs) * _squares(self.slopes)
        return np.asarray(
            (row_wise_product(self.inputs**2, self.mask.seen) * row_wise_product(self.slopes**2, self.mask.groups)).sum(
                axis=1
            )
        )

    def total(self, weights: Floats) -> Floats:
        """The weighted sum, as a vector of the free cells."""
        kept, inputs, slopes = _kept(weights, self.inputs, self.slopes)
        return self._free(inputs.T @ (slopes * kept[:, None]))

    def integer_total(self, weights: Floats) -> Floats:
        """The sum of products of whole numbers, as a vector of the free cells.

        A row's inputs are brought to below 1 by a power of two, which its slopes get in return, and keep `_BITS` bits:
        inputs and slopes can be of any size, and only their product is bounded.
        """
        kept, inputs, slopes = _kept(weights, self.inputs, self.slopes)
        _, exponents = np.frexp(_squares(inputs))
        shift = _BITS - np.maximum((exponents + 1) // 2, -_SMALLEST)
        whole_inputs = np.trunc(inputs * np.ldexp(1.0, shift)[:, None])
        whole_slopes = np.trunc(slopes * np.ldexp(kept, -shift)[:, None])
        return self._free(whole_inputs.T @ whole_slopes)

    def _free(self, matrix: Floats) -> Floats:
        cells = matrix.ravel()
        return np.asarray(cells if self.mask is None else cells[self.mask.free])


@dataclass(frozen=True, slots=True)
class EmbeddingGradients:
    """Gradients of embedding tables, one for each column, in which a row looks up one line each.

    Each column has separate lines, so no two of a row's lines are the same.
    """

    codes: tuple[NDArray[np.integer], ...]
    sizes: tuple[int, ...]
    slopes: Floats

    def squared_norms(self) -> Floats:
        """Of each row: that of its slopes."""
        return _squares(self.slopes.reshape(len(self.slopes), -1))

    def total(self, weights: Floats) -> Floats:
        """The weighted sum, table after table."""
        return self._lines(weights, np.asarray)

    def integer_total(self, weights: Floats) -> Floats:
        """The same of slopes that are cut to whole numbers."""
        return self._lines(weights, np.trunc)

    def _lines(self, weights: Floats, cut: Callable[[Floats], Floats]) -> Floats:
        """The sum of the weighted slopes, each cut by this function, at the lines that the rows look up."""
        kept, slopes, *codes = _kept(weights, self.slopes, *self.codes)
        scaled, sums = cut(slopes * kept[:, None, None]), []
        for column, (code, size) in enumerate(zip(codes, self.sizes, strict=True)):
            sums.append((np.equal.outer(np.arange(size), code).astype(np.float64) @ scaled[:, column]).ravel())
        return np.concatenate(sums)


@dataclass(frozen=True, slots=True)
class JointGradients:
    """The gradients of several groups of parameters, clipped together, also if they belong to different networks."""

    parts: Sequence[RowGradients]

    def squared_norms(self) -> Floats:
        """Squared lengths add up."""
        return np.asarray(sum(part.squared_norms() for part in self.parts))

    def total(self, weights: Floats) -> Floats:
        """One vector for all."""
        return np.concatenate([part.total(weights) for part in self.parts])

    def integer_total(self, weights: Floats) -> Floats:
        """One vector for all."""
        return np.concatenate([part.integer_total(weights) for part in self.parts])


def _squares(rows: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _kept(weights: Floats, *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Weights and arrays without the rows of weight 0, whose numbers need not be finite."""
    if weights.all():
        return weights, *arrays
    rows = np.flatnonzero(weights)
    return weights[rows], *(array[rows] for array in arrays)
