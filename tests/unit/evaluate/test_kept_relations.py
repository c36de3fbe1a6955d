"""The associations of synthetic rows: those that were measured, computed from values."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import gapless as gl
from gapless.evaluate import kept_relations
from gapless.evaluate.kept_relations import associations_in_rows
from gapless.evaluate.usability import LEAST_WEAKENED, loss_in_rows, usability
from gapless.inference.associations import SPEARMAN, pair_precision
from gapless.schema import Categorical, Integer, Ordinal, Schema
from gapless.testing import fixed_noise
from gapless.testing.audit import private

SCHEMA = Schema(
    "t",
    [
        Integer("x", bounds=(0, 99), bins=3),
        Integer("y", bounds=(0, 99), bins=3, may_be_missing=True),
        Categorical("k", ["a", "b"]),
    ],
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Two numbers with a strong relation, a part of it inside their three bins."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, 20_000)
    y = (x + rng.integers(-5, 6, 20_000)).clip(0, 99)
    frame = pl.DataFrame({"x": x, "y": y, "k": np.where(x < 50, "a", "b")}).cast(pl.String)
    table = private(frame, SCHEMA, tmp_path_factory.mktemp("kept"), budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        return gl.Factors().fit(table, spend=table.ledger.left)


def test_rank_correlations_of_rows_are_of_values_and_others_of_cells(fitted):
    sample = fitted.sample(5_000, seed=1)
    pairs = pair_precision(fitted)
    found = dict(zip([pair.columns for pair in pairs], associations_in_rows(sample, pairs), strict=True))
    numbers = sample.to_polars()
    assert found[0, 1] == pytest.approx(spearmanr(numbers["x"], numbers["y"]).statistic)
    exact = gl.evaluate.association(sample.marginal(["x", "k"]) / sample.rows, (SCHEMA["x"], SCHEMA["k"]))
    assert found[0, 2] == pytest.approx(exact)


def test_rows_with_a_gap_are_left_out_and_constant_columns_have_no_association(fitted):
    sample = fitted.sample(5_000, seed=1)
    pairs = [pair for pair in pair_precision(fitted) if pair.columns == (0, 1)]
    gaps = sample.codes[1].copy()
    gaps[:2_000] = SCHEMA["y"].size
    (kept,) = associations_in_rows(gl.Table(sample.schema, [sample.codes[0], gaps, sample.codes[2]], rows=5_000), pairs)
    assert 0.8 < kept < 0.95
    constant = gl.Table(sample.schema, [np.zeros_like(sample.codes[0]), *sample.codes[1:]], rows=5_000)
    number = constant.numeric_values(0)
    assert number.std() > 0  # drawn within a bin
    assert abs(associations_in_rows(constant, pairs)[0]) < 0.1
    assert associations_in_rows(sample.head(1), pairs) == [None]


def test_a_relation_that_rows_lose_is_named_and_not_called_usable(fitted, monkeypatch):
    """Values are drawn independently in each bin, so that of .99 about .89 is left."""
    sample = fitted.sample(5_000, seed=1)
    judged = usability(fitted, sample)
    place = next(place for place, pair in enumerate(judged.pairs) if pair.columns == (0, 1))
    assert judged.pairs[place].measure == SPEARMAN
    assert loss_in_rows(judged.pairs[place], judged.in_rows[place], 5_000) > LEAST_WEAKENED
    (reason,) = [reason for reason in judged.reasons if reason.startswith("Weaker in the rows than measured")]
    assert "x × y (0.8" in reason
    assert any(use.startswith("associations") and "x × y" in use for use in (*judged.with_care, *judged.not_for))
    assert not any("Weaker" in reason for reason in usability(fitted).reasons)  # without rows nothing is said of them
    monkeypatch.setattr(kept_relations, "MOST_ROWS", 10)
    assert usability(fitted, sample).in_rows != judged.in_rows


def test_a_relation_is_weakened_only_if_it_is_certain_and_chance_does_not_explain_it(fitted):
    pair = replace(pair_precision(fitted)[0], value=-0.5, low=-0.6, high=-0.4, at_once=(-0.7, -0.3))
    many = 10**6
    assert loss_in_rows(pair, -0.35, many) == 0.0
    assert loss_in_rows(pair, -0.8, many) == 0.0  # stronger, not weaker
    assert loss_in_rows(pair, -0.2, many) == pytest.approx(0.3)
    assert loss_in_rows(pair, -0.2, 100) == 0.0
    assert loss_in_rows(pair, 0.1, many) == pytest.approx(0.6)
    assert loss_in_rows(pair, None, many) == 0.0
    uncertain = replace(pair, at_once=(-1.0, 0.2))
    assert loss_in_rows(uncertain, 0.5, many) == 0.0
    none = replace(pair, value=0.0, at_once=(0.0, 0.05))
    assert loss_in_rows(none, 0.19, many) == 0.0


def test_few_rows_or_many_independent_pairs_weaken_nothing(tmp_path):
    """V of independent levels is inflated in few rows."""
    rng = np.random.default_rng(2)
    schema = Schema("t", [Categorical(name, list("abcdefghij")) for name in "xyz"])
    frame = pl.DataFrame({name: rng.choice(list("abcdefghij"), 30_000) for name in "xyz"})
    table = private(frame, schema, tmp_path, budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        model = gl.Factors().fit(table, spend=table.ledger.left)
    for rows in (2, 50, 200, 20_000):
        assert usability(model, model.sample(rows, seed=0)).weaker_relations == ""
    assert usability(model, model.sample(200, seed=0)).verdict == usability(model).verdict


@pytest.mark.parametrize("kind", [Integer, Ordinal])
def test_rows_are_compared_before_their_gaps_are_filled(kind, tmp_path):
    """Only people with a high x have a y. Filled, y goes with x more or less strongly than where it is observed."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 10, 20_000)
    y = np.clip(x + rng.integers(-3, 4, 20_000), 0, 9)
    seen = rng.random(20_000) < np.where(x > 6, 1.0, 0.15)
    values = {"bounds": (0, 9)} if kind is Integer else {"levels": list("0123456789")}
    columns = [Integer("x", bounds=(0, 9)), kind("y", **values, may_be_missing=True, missing=["-1"])]
    frame = pl.DataFrame({"x": x, "y": np.where(seen, y, -1)}).cast(pl.String)
    table = private(frame, Schema("t", columns), tmp_path, budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        model = gl.MST().fit(table, spend=table.ledger.left)
    judged = usability(model, model.sample(20_000, seed=1))
    assert judged.weaker_relations == ""
    (pair,), (kept,) = judged.pairs, judged.in_rows
    assert pair.value == pytest.approx(spearmanr(x[seen], y[seen]).statistic, abs=0.03)
    assert kept == pytest.approx(pair.value, abs=0.03)
