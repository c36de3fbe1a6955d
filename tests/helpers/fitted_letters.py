"""A table of three columns of letters with gaps, and fits of it that keep their measurements."""

from pathlib import Path
from typing import Any

import numpy as np

import gapless as gl
from gapless.schema import Categorical, Schema
from gapless.synth import METHODS, FittedModel
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise

SCHEMA = letters_schema([3, 2, 4])
WHOLE = Schema("whole", [Categorical(f"x{i}", list("abcd")[:size]) for i, size in enumerate([3, 2, 4])])
PAIRS = {(0, 1): (3, 2), (0, 2): (3, 4), (1, 2): (2, 4)}


def rows(many: int = 400) -> list[tuple[Any, ...]]:
    """x1 depends on x0, and one cell in ten is missing."""
    rng = np.random.default_rng(3)
    letters = np.array(list("abcd"))
    first = rng.integers(3, size=many)
    second = (first + rng.integers(2, size=many)) % 2
    cells = np.stack([letters[first], letters[second], letters[rng.integers(4, size=many)]], axis=1).astype(object)
    cells[rng.random((many, 3)) < 0.1] = None
    return [tuple(row) for row in cells]


def fitted(method: str, folder: Path, *, seed: int = 1, **settings: Any) -> FittedModel:
    """A model of the table by this method, with the noise of this seed."""
    table = private(rows(), SCHEMA, folder, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(seed):
        return METHODS[method](**settings).fit(table, spend=table.ledger.left)
