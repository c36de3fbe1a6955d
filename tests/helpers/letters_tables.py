"""A table of four columns of letters, x1 following x0 and x3 following x2, and fits of it by MST and AIM."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gapless as gl
from gapless.data import PrivateTable
from gapless.missing import STRATEGIES
from gapless.synth import FittedModel
from gapless.testing.audit import letters_schema, private

SIZES = (2, 3, 2, 2)
SCHEMA = letters_schema(SIZES)
PAIRS = list(itertools.combinations(range(4), 2))
METHODS: dict[str, type[gl.MST | gl.AIM]] = {"mst": gl.MST, "aim": gl.AIM}


def letters(rows: int = 400, seed: int = 0, gaps: float = 0.2) -> list[tuple[Any, ...]]:
    """x1 follows x0, x3 follows x2; one cell in five is missing, one in ten of x1 and x3 not applicable."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (rows, 4))
    codes[:, 1] = np.where(rng.random(rows) < 0.8, codes[:, 0], rng.integers(0, 3, rows))
    codes[:, 3] = np.where(rng.random(rows) < 0.8, codes[:, 2], codes[:, 3])
    cells_ = np.array(list("abc"), dtype=object)[codes]
    cells_[:, 1::2][rng.random((rows, 2)) < 0.1] = "n/a"
    cells_[rng.random((rows, 4)) < gaps] = None
    return [tuple(row) for row in cells_]


def table_of(
    folder: Path,
    rows: Sequence[tuple[Any, ...]] | None = None,
    *,
    schema: gl.Schema = SCHEMA,
    budget: gl.Budget | None = None,
    k: int = 1,
) -> PrivateTable:
    """A private table of these rows, by default of `letters`, of which a person has up to k."""
    return private(letters() if rows is None else rows, schema, folder, budget=budget, protect=gl.Rows(k))


def fit(method: str, missing: str, table: PrivateTable, **settings: Any) -> FittedModel:
    """A model of the table by MST or AIM, for all that its ledger has left."""
    return METHODS[method](missing=STRATEGIES[missing](), **settings).fit(table, spend=table.ledger.left)
