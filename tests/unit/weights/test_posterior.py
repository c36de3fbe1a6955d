"""Weighted posteriors: those of a conjugate prior, written out; of a maximum, where there is no such; refusals."""

import sys
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.private_logistic import Points

SCHEMA = gl.Schema(
    "people",
    [
        gl.Number("x", bounds=(0, 1), bins=20),
        gl.Categorical("group", ["a", "b"], may_be_missing=True),
        gl.Number("y", bounds=(-10, 10), bins=20, may_be_missing=True),
    ],
)


def people(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    x, group = rng.random(rows), rng.choice(["a", "b", None], rows)
    y = 4 * x - 2 * (group == "b") + rng.normal(size=rows)
    frame = pl.DataFrame({"x": x, "group": group.tolist(), "y": np.where(rng.random(rows) < 0.1, np.nan, y)})
    table = gl.Table.read(frame.with_columns(pl.col("y").fill_nan(None)), SCHEMA)
    return table.with_weights(rng.gamma(1.0, size=rows) * np.where(y > 1, 5, 1))


@pytest.mark.slow
def test_a_linear_posterior_is_the_conjugate_one():
    """Normal-inverse-gamma: mean (X'WX + s⁻²)⁻¹ X'Wy; the variance has shape 1 + Σw/2."""
    pytest.importorskip("numpyro", reason="numpyro is not installed")
    table = people()
    found = gl.weights.weighted_posterior(table, "y", prior_std=5.0, draws=2000, seed=1)
    seen = table["y"].is_not_null().to_numpy()
    rest = table[["x", "group"]]
    x, w = Points.of(rest.schema)(rest.codes)[seen], table.weights[seen]
    y = (table["y"].drop_nulls().to_numpy() + 10) / 20
    inner = x.T * w @ x + np.eye(x.shape[1]) / 25
    mean = np.linalg.solve(inner, x.T * w @ y)
    rate = 0.01 + (w @ y**2 - mean @ inner @ mean) / 2
    variance = rate / (1 + w.sum() / 2 - 1)  # of the noise, on average
    std = np.sqrt(variance * np.diag(np.linalg.inv(inner)))
    told = found.predict(table)[seen]
    spread = 20 * np.sqrt(variance * (x @ np.linalg.inv(inner) * x).sum(axis=1))
    assert found.names == ("x", "group = a", "group = b", "group = missing", "intercept")
    assert found.draws.std(axis=0) == pytest.approx(20 * std, rel=0.15)
    assert np.abs(told - (20 * x @ mean - 10)).max() < 0.25 * spread.max()
    even = 20 * x @ np.linalg.lstsq(x, y)[0] - 10
    assert np.abs(told - even).mean() > 1.5 * spread.mean()  # without weights it is another one
    assert "x: " in str(found)


@pytest.mark.slow
def test_a_logistic_posterior_is_about_that_of_its_maximum():
    """Many rows: near the weighted maximum, as wide as the inverse of the curvature there."""
    pytest.importorskip("numpyro", reason="numpyro is not installed")
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    x = rng.random(2000)
    label = np.where(rng.random(2000) < 1 / (1 + np.exp(2 - 4 * x)), "b", "a")
    schema = gl.Schema("two", [gl.Number("x", bounds=(0, 1), bins=50), gl.Categorical("label", ["a", "b"])])
    table = gl.Table.read(pl.DataFrame({"x": x, "label": label}), schema).with_weights(rng.gamma(2.0, size=2000))
    found = gl.weights.weighted_posterior(table, "label", positive="b", draws=2000)
    rest = table[["x"]]
    points = Points.of(rest.schema)(rest.codes)
    best = linear_model.LogisticRegression(C=100.0, fit_intercept=False, tol=1e-10)
    best.fit(points, label == "b", sample_weight=table.weights)
    chance = best.predict_proba(points)[:, 1]
    curvature = (points.T * (table.weights * chance * (1 - chance))) @ points + np.eye(2) / 100
    std = np.sqrt(np.diag(np.linalg.inv(curvature)))
    assert np.abs(found.draws.mean(axis=0) - best.coef_[0]).max() < 0.2 * std.max()
    assert found.draws.std(axis=0) == pytest.approx(std, rel=0.15)
    assert found.predict(table) == pytest.approx(chance, abs=0.02)
    again = gl.weights.weighted_posterior(table, "label", positive=["b"], draws=2000)
    assert again.draws.tolist() == found.draws.tolist()


def test_what_cannot_be_foretold_is_refused(tmp_path):
    table = people(50)
    with pytest.raises(gl.errors.SchemaError, match="'group' holds no numbers") as refused:
        gl.weights.weighted_posterior(table, "group")
    assert 'positive="a"' in refused.value.hint
    with pytest.raises(gl.errors.SchemaError, match="no column beside 'y'"):
        gl.weights.weighted_posterior(table[["y"]], "y")
    with pytest.raises(gl.errors.SchemaError, match="no row with a weight"):
        gl.weights.weighted_posterior(table, "y", weights=1.0 * table["y"].is_null().to_numpy())
    with pytest.raises(gl.errors.SchemaError, match="has no cell"):
        gl.weights.weighted_posterior(table, "group", positive="z")
    for wrong in ({"prior_std": 0.0}, {"draws": 0}, {"draws": 1.5}):
        with pytest.raises(gl.errors.ModelError):
            gl.weights.weighted_posterior(table, "y", **wrong)
    private = gl.read(
        table.to_polars().drop("weight"), SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "l"
    )
    with pytest.raises(gl.errors.SealedError):
        gl.weights.weighted_posterior(private, "y")


def test_without_the_extra_it_is_said_what_to_install():
    with (
        mock.patch.dict(sys.modules, {"jax": None}),
        pytest.raises(gl.errors.ReadError, match="numpyro is not") as refused,
    ):
        gl.weights.weighted_posterior(people(50), "y")
    assert "gapless[bayes]" in refused.value.hint
