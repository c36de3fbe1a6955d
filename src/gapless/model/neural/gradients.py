r"""Per-row gradients, stored as factors: their norms and weighted sums, without computing any gradient explicitly.

Let a layer have inputs a and slopes δ, the derivatives of the row's loss by the outputs. Row i's gradient is the outer
product of aᵢ and δᵢ, so that

.. math:: \lVert g_i \rVert^2 = \lVert a_i \rVert^2 \lVert \delta_i \rVert^2, \qquad
          \sum_i w_i g_i = a^{\mathsf T} \operatorname{diag}(w)\, \delta

(*ghost norms*: Goodfellow 2015). A norm that is too small would break the guarantee, so all norms are exact.
tests/unit/model/neural/test_layers.py compares them with explicit gradients.

For sums that must be exact (`integer_total`), both factors are truncated to integers first, row by row. Then all
products are integers, and sums are exact in any order.

`row_wise_product` multiplies rows with a matrix so that a row's result does not depend on its position, to the last
bit. Proofs need this for private rows: a row's contribution to a sum, or its imputed cell, must not depend on the rows
before it. These rows decide its position in a block. BLAS does not guarantee this. Some kernels compute the last rows
of a block in another order if the number of columns is not a multiple of their width. So columns are padded to a
multiple of `WIDTH`, and the kernel of this machine is tested once for each shape, on public numbers. If results depend
on the position, rows are multiplied one by one.
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

WIDTH = 16  # columns: at least the width of a BLAS kernel
BLOCK = 256  # the number of private rows in a block is a multiple of this
LARGEST = 1 << 16  # rows: larger blocks hold public rows


def row_wise_product(rows: Floats, matrix: Floats) -> Floats:
    """Multiply rows with a matrix; independent of the position if the number of rows is that of a private block."""
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
    """Return whether a product of this shape gives equal rows equal results at every position."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((inputs, outputs))
    for _ in range(4):
        products = np.tile(rng.standard_normal(inputs), (rows, 1)) @ matrix
        if not (products == products[0]).all():
            return False
    return True


def multiply_single_rows(rows: Floats, matrix: Floats) -> Floats:
    """Multiply the rows one by one, by products of one shape."""
    return np.array([row[None] @ matrix for row in rows.copy()]).reshape(len(rows), matrix.shape[1])


_BITS = SUM_BITS // 2  # bits kept of the largest input of a row, so that products are summed exactly
_SMALLEST = 500  # inputs below 2^-500 are not scaled up to 1: the power of two would not be a float


@dataclass(frozen=True, slots=True)
class DenseGradients:
    """Explicit gradients for few parameters: rows × parameters."""

    rows: Floats

    def squared_norms(self) -> Floats:
        """Of each row."""
        return _squares(self.rows)

    def total(self, weights: Floats) -> Floats:
        """The weighted sum."""
        kept, rows = _kept(weights, self.rows)
        return np.asarray(kept @ rows)

    def integer_total(self, weights: Floats) -> Floats:
        """Return the sum of each row times its weight, truncated to integers."""
        kept, rows = _kept(weights, self.rows)
        return np.asarray(np.trunc(rows * kept[:, None]).sum(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The cells of a matrix that are parameters. Outputs that see the same inputs form a group.

    With M = `seen` · `groups`ᵀ, the squared norm (a² M)·δ² is (a² `seen`)·(δ² `groups`), a smaller product.
    """

    free: Integers  # the positions of parameters in the matrix, row after row
    seen: Floats  # inputs × groups
    groups: Floats  # outputs × groups

    @classmethod
    def of(cls, allowed: NDArray[np.bool_]) -> Mask:
        """Build the mask from inputs × outputs of booleans, true for parameters."""
        seen, group = np.unique(allowed, axis=1, return_inverse=True)
        groups = np.equal.outer(group.ravel(), np.arange(seen.shape[1]))
        parts = np.flatnonzero(allowed), seen.astype(np.float64), groups.astype(np.float64)
        for part in parts:
            part.setflags(write=False)  # norms depend on them
        return cls(*parts)

    def matrix(self, numbers: Floats) -> Floats:
        """Return the matrix with these parameters, and zeros elsewhere."""
        matrix = np.zeros((len(self.seen), len(self.groups)))
        matrix.ravel()[self.free] = numbers
        return matrix


@dataclass(frozen=True, slots=True)
class OuterGradients:
    """Gradients of a matrix, inputs × outputs; all of its cells, or those of a mask, are parameters."""

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
        """Return the weighted sum, as a vector over the parameters."""
        kept, inputs, slopes = _kept(weights, self.inputs, self.slopes)
        return self._free(inputs.T @ (slopes * kept[:, None]))

    def integer_total(self, weights: Floats) -> Floats:
        """Return the sum of products of integers, as a vector over the parameters.

        A row's inputs are scaled below 1 by a power of two, and its slopes by the inverse. Inputs keep `_BITS` bits.
        Inputs and slopes can have any size; only their product is bounded.
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
    """Gradients of embedding tables, one table for each column; a row reads one line of each.

    Each column has separate lines, so no two of a row's lines are the same.
    """

    codes: tuple[NDArray[np.integer], ...]
    sizes: tuple[int, ...]
    slopes: Floats

    def squared_norms(self) -> Floats:
        """Return the squared norm of each row's slopes."""
        return _squares(self.slopes.reshape(len(self.slopes), -1))

    def total(self, weights: Floats) -> Floats:
        """Return the weighted sum, table after table."""
        return self._lines(weights, np.asarray)

    def integer_total(self, weights: Floats) -> Floats:
        """Return the weighted sum of slopes truncated to integers."""
        return self._lines(weights, np.trunc)

    def _lines(self, weights: Floats, cut: Callable[[Floats], Floats]) -> Floats:
        """Sum the weighted slopes, each truncated by `cut`, over the lines that the rows read."""
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
        """Return the sum of the parts' squared norms."""
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
    """Return weights and arrays without the rows of weight 0, whose numbers need not be finite."""
    if weights.all():
        return weights, *arrays
    rows = np.flatnonzero(weights)
    return weights[rows], *(array[rows] for array in arrays)
