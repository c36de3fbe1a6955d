import copy
import json
import pickle

import numpy as np
import polars as pl
import pytest

from gapless.errors import SealedError
from gapless.privacy import L1, DiscreteGaussian
from gapless.testing.tables import letters_schema, private
from seals import reveal

ROWS = [("a", "b"), ("b", None), ("a", "a")]

ATTEMPTS = {
    "len": len,
    "iteration": list,
    "indexing": lambda x: x[0],
    "slicing": lambda x: x[:1],
    "in": lambda x: "a" in x,
    "truth": bool,
    "equality": lambda x: x == x,  # noqa: PLR0124
    "inequality": lambda x: x != 1,
    "order": lambda x: x < 1,
    "hash": hash,
    "set": lambda x: {x},
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asarray": np.asarray,
    "sum": np.sum,
    "int": int,
    "float": float,
    "range": range,
    "frame": pl.DataFrame,
    "json": json.dumps,
    "vars": vars,
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_private_table_refuses_to_be_looked_at(attempt, tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path)
    with pytest.raises((SealedError, TypeError)) as caught:
        ATTEMPTS[attempt](table)
    assert caught.type is SealedError or attempt in {"json", "vars", "frame"}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_private_value_refuses_to_be_looked_at(attempt, tmp_path):
    value = private(ROWS, letters_schema([2, 2]), tmp_path).marginal("x0")
    with pytest.raises((SealedError, TypeError)) as caught:
        ATTEMPTS[attempt](value)
    assert caught.type is SealedError or attempt in {"json", "vars", "frame"}


def test_what_is_printed_is_public(tmp_path):
    schema = letters_schema([2, 2])
    few, many = private(ROWS, schema, tmp_path), private(ROWS * 50, schema, tmp_path)
    assert repr(few) == repr(many)
    assert repr(few.marginal("x0")) == repr(many.marginal("x0"))
    assert repr(few.marginal("x0")) == "<Private: L1(at_most=1), reads rows observed on x0>"


def test_nothing_is_computed_before_the_ledger_is_charged(tmp_path, monkeypatch):
    table = private(ROWS, letters_schema([2, 2]), tmp_path)
    seen = []
    counts = table.marginal("x0").transform(
        lambda value: (seen.append(len(table.ledger.entries)), value)[1], distance=L1(1), reads=None
    )
    grant = table.ledger.grant(table.ledger.share(percent=10), to="test")
    assert not seen
    grant.release(counts, DiscreteGaussian.for_loss(grant.left, counts.distance), what="x0")
    assert seen == [1]


def test_another_ledger_cannot_open_a_value(tmp_path):
    schema = letters_schema([2, 2])
    mine, other = private(ROWS, schema, tmp_path), private(ROWS, schema, tmp_path)
    grant = other.ledger.grant(other.ledger.left, to="test")
    value = mine.marginal("x0")
    with pytest.raises(SealedError, match="another ledger"):
        grant.release(value, DiscreteGaussian.for_loss(grant.left, value.distance), what="x0")
    assert reveal(value, mine.ledger).tolist() == [2, 1]
