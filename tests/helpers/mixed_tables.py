"""Public tables with a column of every common kind, whose columns depend on each other."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

import gapless as gl
from gapless.schema import Boolean, Categorical, Integer, MissingCode, Ordinal, Schema

GAP_CODES = (MissingCode("n/a", "not-applicable"), MissingCode(""))
MIXED = Schema(
    "people",
    [
        Integer("age", bounds=(0, 99), bins=5, may_be_missing=True),
        Categorical("town", ["a", "b", "c"], may_be_missing=True, missing=GAP_CODES),
        Ordinal("grade", ["low", "middle", "high"]),
        Boolean("smoker", may_be_missing=True),
        Categorical("only", ["one"]),
    ],
)


def table(schema: Schema, columns: Sequence[ArrayLike]) -> gl.Table:
    """A table of these codes, column by column."""
    codes = [np.asarray(column) for column in columns]
    return gl.Table(schema, codes, rows=len(codes[0]))


def mixed(rows: int, seed: int, *, gaps: bool = True) -> gl.Table:
    """A table of `MIXED`, in which every column mostly follows one hidden number."""
    rng = np.random.default_rng(seed)
    latent = rng.random(rows)
    codes = []
    for column in MIXED.columns:
        cells = (np.clip(latent + rng.normal(0, 0.2, rows), 0, 0.999) * column.values_size).astype(int)
        if gaps and column.gaps:
            cells[rng.random(rows) < 0.2] = column.size
        codes.append(cells)
    return table(MIXED, codes)
