"""Products of rows with a matrix in which each row comes out the same to the last bit, wherever it stands.

Proofs need this where rows are private: what a row adds to a sum, or is filled with, must not depend on the rows before
it, which move it to another place in its block. BLAS does not promise it: some kernels compute the last rows of a block
in another order if the number of columns is not a multiple of their width. So columns are filled up to a multiple of
`WIDTH`, and the kernel that this machine has is tried once for each shape, on public numbers. Where it treats places
differently, rows are multiplied one by one.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from gapless.types import Floats

WIDTH = 16  # columns: at least as many as a kernel takes at once
BLOCK = 256  # private rows come in blocks of a multiple of this many
LARGEST = 1 << 16  # rows: more at once are public ones


def product(rows: Floats, matrix: Floats) -> Floats:
    """Rows times a matrix; each row by itself if their number is that of a block."""
    if len(rows) % BLOCK or len(rows) > LARGEST:
        return np.asarray(rows @ matrix)
    inputs, outputs = matrix.shape
    padded = np.zeros((inputs, -(-outputs // WIDTH) * WIDTH))
    padded[:, :outputs] = matrix
    rows = np.ascontiguousarray(rows)
    if is_row_wise(len(rows), *padded.shape):
        return np.asarray((rows @ padded)[:, :outputs])
    return np.asarray(one_by_one(rows, padded)[:, :outputs])


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


def one_by_one(rows: Floats, matrix: Floats) -> Floats:
    """The same, by as many products of one row, which all have the same shape."""
    return np.array([row[None] @ matrix for row in rows.copy()]).reshape(len(rows), matrix.shape[1])
