"""Calibration weights: what is chosen, measured and raked."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.model.completion import complete_table
from gapless.model.marginal import Measurement
from gapless.privacy.budget import PURE
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise, no_noise
from gapless.weights import calibration as raking
from gapless.weights.calibration import _completed, rake

LETTERS = "abc"
SCHEMA = gl.Schema("letters", [gl.Categorical(name, list(LETTERS), may_be_missing=True) for name in "xyz"])


def letters(rows, seed, *, together, gaps=0.0):
    """Rows in which y is x for some; z is by itself."""
    rng = np.random.default_rng(seed)
    x, y, z = rng.choice(3, (3, rows), p=[0.5, 0.3, 0.2])
    y = np.where(rng.random(rows) < together, x, y)
    cells = {name: np.array(list(LETTERS))[codes].astype(object) for name, codes in zip("xyz", (x, y, z), strict=True)}
    for codes in cells.values():
        codes[rng.random(rows) < gaps] = None
    return pl.DataFrame(
        {name: codes.tolist() for name, codes in cells.items()}, schema=dict.fromkeys(SCHEMA.names, pl.String)
    )


FAKE = gl.Table.read(letters(5000, 1, together=0.0), SCHEMA)


def fitted(rows, folder, *, fake=FAKE, budget=None, **settings):
    table = private(rows, SCHEMA, folder, budget=budget or gl.Budget(4.0, 1e-6))
    with fixed_noise(1):
        return gl.CalibrationWeights(**settings).fit(table, fake, spend=table.ledger.left), table.ledger


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_the_pair_that_is_wrong_is_chosen_and_mended(gaps, tmp_path):
    weights, ledger = fitted(letters(20_000, 2, together=0.6, gaps=gaps), tmp_path, pairs=1)
    assert [entry.what for entry in ledger.entries] == ["choice 1", "x × y"]
    truth = gl.Table.read(letters(20_000, 2, together=0.6), SCHEMA)
    assert gl.evaluate.kway_distance(truth, FAKE) > 0.1
    assert gl.evaluate.kway_distance(truth, FAKE, weights=weights) < 0.02
    assert gl.evaluate.kway_distance(truth, FAKE, k=1, weights=weights) < 0.015
    assert np.asarray(weights).mean() == pytest.approx(1.0)


def test_rows_with_gaps_are_raked_with_their_gaps(tmp_path):
    fake = gl.Table.read(letters(5000, 1, together=0.0, gaps=0.3), SCHEMA)
    rows = letters(20_000, 2, together=0.6, gaps=0.3)
    weights, _ = fitted(rows, tmp_path, fake=fake)
    truth, pair = gl.Table.read(rows, SCHEMA), ["x", "y"]
    cells = np.ravel_multi_index([codes.astype(int) for codes in fake.codes[:2]], (4, 4))
    told = np.bincount(cells, np.asarray(weights), minlength=16).reshape(4, 4) / fake.rows
    shares = truth.marginal(pair, rows="extended") / truth.rows
    assert np.abs(fake.marginal(pair, rows="extended") / fake.rows - shares).sum() > 0.2
    assert np.abs(told - shares).sum() < 0.06


def test_gaps_that_depend_on_the_other_column_are_completed(tmp_path):
    """The observed rows of the pair alone would say something else."""
    rows = letters(40_000, 3, together=0.6)
    gone = (rows["x"].to_numpy() == "a") & (np.random.default_rng(0).random(len(rows)) < 0.8)
    gapped = rows.with_columns(pl.Series("y", np.where(gone, None, rows["y"].to_numpy()).tolist(), dtype=pl.String))
    weights, _ = fitted(gapped, tmp_path, pairs=1)
    truth = gl.Table.read(rows, SCHEMA)
    observed = gl.Table.read(gapped, SCHEMA)
    assert gl.evaluate.kway_distance(truth, observed) > 0.1
    assert gl.evaluate.kway_distance(truth, FAKE, weights=weights) < 0.03


def test_the_spend_is_spent_and_no_more(tmp_path):
    for budget in (gl.Budget(1.0, 0), gl.Budget(1.0, 1e-6)):
        table = private(letters(200, 1, together=0.5), SCHEMA, tmp_path, budget=budget)
        gl.CalibrationWeights(pairs=2).fit(table, FAKE, spend=table.ledger.share("20%"))
        assert table.ledger.percentages()[0] == pytest.approx(20, abs=0.01)
        kinds = {entry.mechanism["name"] for entry in table.ledger.entries}
        noise = "DiscreteLaplace" if table.ledger.order == PURE else "DiscreteGaussian"
        assert kinds == {"ExponentialChoice", noise}
        assert all(entry.reads is None for entry in table.ledger.entries if entry.what.startswith("x"))


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_private_row_is_enough(rows, tmp_path):
    weights, _ = fitted(letters(rows, 1, together=0.5), tmp_path, budget=gl.Budget(0.1, 1e-6))
    assert len(weights) == FAKE.rows
    assert np.isfinite(np.asarray(weights)).all()


def test_noise_that_explains_everything_moves_little(tmp_path):
    """Twenty rows say nothing at ε = 0.1: what is far from the rows is so by noise."""
    weights, _ = fitted(letters(20, 2, together=0.6), tmp_path, budget=gl.Budget(0.1, 1e-6))
    assert weights.effective_rows > 0.5 * FAKE.rows


def test_what_cannot_be_weighted_is_refused_before_anything_is_spent(tmp_path):
    table = private(letters(10, 1, together=0.5), SCHEMA, tmp_path)
    spend = table.ledger.left
    other = gl.Schema("letters", [gl.Categorical("x", ["a", "b"])])
    for method, fake, error, wrong in [
        (gl.CalibrationWeights(), FAKE[:0], gl.errors.ModelError, "no rows to weight"),
        (gl.CalibrationWeights(), FAKE[["x"]], gl.errors.SchemaError, "different schemas"),
        (gl.CalibrationWeights(), gl.Table(other, [np.zeros(1)], rows=1), gl.errors.SchemaError, "different schemas"),
        (gl.CalibrationWeights(), table, gl.errors.SealedError, "a public Table"),
        (gl.CalibrationWeights(pairs=0), FAKE, gl.errors.ModelError, "pairs"),
        (gl.CalibrationWeights(cap_cells=3), FAKE, gl.errors.ModelError, "no two columns"),
    ]:
        with pytest.raises(error, match=wrong):
            method.fit(table, fake, spend=spend)
    with pytest.raises(gl.errors.SealedError, match="takes a PrivateTable"):
        gl.CalibrationWeights().fit(FAKE, FAKE, spend=spend)
    assert not table.ledger.entries


def test_raking_reaches_exact_tables_and_keeps_columns():
    codes = [column.astype(np.int64) for column in FAKE.codes]
    truth = gl.Table.read(letters(5000, 2, together=0.5), SCHEMA)
    columns = [FAKE.marginal(name) / FAKE.rows for name in "xyz"]
    tables = []
    for pair in combinations(range(3), 2):  # the true dependence with the rows' own columns
        table = truth.marginal([SCHEMA.names[c] for c in pair]).astype(float)
        for _ in range(200):
            table *= (5000 * columns[pair[0]] / table.sum(axis=1))[:, None]
            table *= 5000 * columns[pair[1]] / table.sum(axis=0)
        tables.append(Measurement(pair, table, 0.5))
    weights = rake(codes, (3, 3, 3), tables)
    for table in tables:
        cells = np.ravel_multi_index([codes[c] for c in table.columns], (3, 3))
        assert np.bincount(cells, weights).reshape(3, 3) == pytest.approx(table.counts, abs=3.0)
    for column, share in zip(codes, columns, strict=True):
        assert np.bincount(column, weights) / 5000 == pytest.approx(share, rel=1e-6)


def test_columns_move_as_far_as_tables_contradict_them():
    """A column that is off by much more than the noise goes to what was measured."""
    rng = np.random.default_rng(0)
    codes = [rng.choice(2, 4000, p=[0.5, 0.5]), rng.choice(2, 4000)]
    table = Measurement((0, 1), np.array([[1600.0, 1600.0], [400.0, 400.0]]), 10.0)
    weights = rake(codes, (2, 2), [table])
    assert np.bincount(codes[0], weights)[0] / 4000 == pytest.approx(0.8, abs=0.01)
    assert raking._noise_of([np.array([2000.0, 2000.0])], [table]) == pytest.approx(1200, rel=0.01)


def test_a_table_is_completed_as_a_model_completes_it():
    counts = np.array([[40.0, 3.0, 20.0], [5.0, 40.0, 30.0], [10.0, 0.0, 5.0]])
    law = np.full((3, 3), 1 / 4)
    completed = _completed(Measurement((0, 1), counts, 2.0), law, [2, 2])
    assert completed.counts / counts.sum() == pytest.approx(complete_table(counts, [2, 2], steps=200), abs=1e-6)
    assert completed.counts.sum() == pytest.approx(counts.sum())
    assert completed.noise_std == pytest.approx(3.0)


def test_a_complete_table_stays_as_it_is_noise_below_zero_included():
    counts = np.array([[4.0, -1.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    completed = _completed(Measurement((0, 1), counts, 2.0), np.full((3, 3), 1 / 4), [2, 2])
    assert completed.counts.tolist() == counts[:2, :2].tolist()


def test_without_noise_the_weights_are_what_the_counts_say(tmp_path):
    table = private(letters(20_000, 2, together=0.6), SCHEMA, tmp_path, budget=gl.Budget(1.0, 1e-6))
    with no_noise():
        weights = gl.CalibrationWeights().fit(table, FAKE, spend=table.ledger.left)
    truth = gl.Table.read(letters(20_000, 2, together=0.6), SCHEMA)
    assert gl.evaluate.kway_distance(truth, FAKE, weights=weights) < 0.03
