"""Public tables to compare, with names and levels that would break a page which does not escape them."""

import numpy as np

import gapless as gl
from gapless.schema import Categorical, Integer, Schema

NASTY = '<script>alert("x")</script>'
SCHEMA = Schema(
    "people & <co>",
    [
        Integer("age", bounds=(0, 99), bins=40, may_be_missing=True),
        Categorical(f"town {NASTY}", ["a", f"b{NASTY}", *(f"t{i}" for i in range(30))], may_be_missing=True),
        Categorical("sex", ["f", "m"]),
        Categorical("only", ["one"]),
    ],
)


def people(rows: int, seed: int, *, gaps: bool = True) -> gl.Table:
    """A table of `SCHEMA` with independent, uniform columns and a tenth of the cells missing."""
    rng = np.random.default_rng(seed)
    codes = []
    for column in SCHEMA.columns:
        cells = rng.integers(0, column.size, rows)
        if gaps and column.gaps:
            cells[rng.random(rows) < 0.1] = column.size
        codes.append(cells)
    return gl.Table(SCHEMA, codes, rows=rows)
