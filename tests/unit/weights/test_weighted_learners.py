"""Weighted estimates, also by other libraries; weighted posteriors, against a conjugate prior and a maximum."""

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
    predicted = found.predict(table)[seen]
    spread = 20 * np.sqrt(variance * (x @ np.linalg.inv(inner) * x).sum(axis=1))
    assert found.names == ("x", "group = a", "group = b", "group = missing", "intercept")
    assert found.draws.std(axis=0) == pytest.approx(20 * std, rel=0.15)
    assert np.abs(predicted - (20 * x @ mean - 10)).max() < 0.25 * spread.max()
    even = 20 * x @ np.linalg.lstsq(x, y)[0] - 10
    assert np.abs(predicted - even).mean() > 1.5 * spread.mean()  # without weights it is another one
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


def test_a_label_that_cannot_be_predicted_is_refused(tmp_path):
    table = people(50)
    with pytest.raises(gl.errors.SchemaError, match="'group' has kind categorical") as refused:
        gl.weights.weighted_posterior(table, "group")
    assert 'positive="a"' in refused.value.hint
    with pytest.raises(gl.errors.SchemaError, match="at least one column besides 'y'"):
        gl.weights.weighted_posterior(table[["y"]], "y")
    with pytest.raises(gl.errors.SchemaError, match="needs a value with a weight above 0"):
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


def test_a_missing_extra_is_named_in_the_hint():
    with (
        mock.patch.dict(sys.modules, {"jax": None}),
        pytest.raises(gl.errors.ReadError, match="numpyro is not") as refused,
    ):
        gl.weights.weighted_posterior(people(50), "y")
    assert "gapless[bayes]" in refused.value.hint


ADULTS = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), may_be_missing=True),
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Number("income", bounds=(0, 100)),
    ],
)
PEOPLE = gl.Table.read(
    pl.DataFrame(
        {"age": [10, 20, 30, 40, None], "sex": ["F", "M", "M", None, "F"], "income": [1.0, 2.0, 4.0, 8.0, 16.0]}
    ),
    ADULTS,
)
W = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def test_a_weight_of_two_is_a_row_written_twice():
    twice = gl.Table.read(pl.concat([PEOPLE.to_polars()] * 2), ADULTS)
    halves = np.r_[W, W]
    for table, weights in ((PEOPLE, W), (twice, halves), (PEOPLE.with_weights(W), None)):
        assert gl.weights.weighted_mean(table, "age", weights=weights).value == pytest.approx(30.0)
        shares = gl.weights.weighted_proportions(table, "sex", weights=weights)
        assert {cell: share.value for cell, share in shares.items()} == pytest.approx({"F": 6 / 11, "M": 5 / 11})
        assert gl.weights.weighted_quantiles(table, "age", [0, 0.1, 0.3, 0.5, 0.6, 1], weights=weights) == [
            10, 10, 20, 30, 30, 40,
        ]  # fmt: skip


def test_without_weights_every_row_counts_the_same():
    assert gl.weights.weighted_mean(PEOPLE, "income").value == pytest.approx(31 / 5)
    assert gl.weights.weighted_quantiles(PEOPLE, "income", [0.5]) == [4.0]


def test_the_standard_error_is_the_sandwichs():
    x, w = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), W
    found = gl.weights.weighted_mean(PEOPLE, "income", weights=w)
    mean = (w @ x) / w.sum()
    assert (found.value, found.standard_error) == pytest.approx((mean, np.sqrt(w**2 @ (x - mean) ** 2) / w.sum()))


def test_refuses_columns_without_a_mean(tmp_path):
    with pytest.raises(gl.errors.SchemaError, match="'sex' has kind categorical"):
        gl.weights.weighted_mean(PEOPLE, "sex")
    with pytest.raises(gl.errors.SchemaError, match="levels"):
        gl.weights.weighted_quantiles(PEOPLE, "age", [1.5])
    with pytest.raises(gl.errors.SchemaError, match="needs a value with a weight above 0"):
        gl.weights.weighted_mean(PEOPLE, "age", weights=[0, 0, 0, 0, 1])
    people = gl.read(
        PEOPLE.to_polars(), ADULTS, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "p.ledger"
    )
    with pytest.raises(gl.errors.SealedError):
        gl.weights.weighted_mean(people, "age")


def regression(seed=0, rows=400):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    y = x @ [1.0, 2.0, -1.0] + rng.normal(size=rows) * (1 + (x[:, 1] > 0))
    return x, y, gl.weights.Weights(rng.gamma(1.0, size=rows), method="by hand")


def test_scikit_learn_takes_weights():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y, weights = regression()
    found = linear_model.LinearRegression(fit_intercept=False).fit(x, y, sample_weight=weights).coef_
    w = np.asarray(weights)
    assert found == pytest.approx(np.linalg.solve(x.T * w @ x, x.T * w @ y))


@pytest.mark.slow
def test_statsmodels_takes_variance_weights_with_the_sandwich():
    """HC0 is (X'WX)⁻¹ X'W² e² X (X'WX)⁻¹; frequency weights would count a weight of 2 as two people."""
    sm = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    x, y, weights = regression()
    w = np.asarray(weights)
    fitted = sm.GLM(y, x, var_weights=w).fit(cov_type="HC0")
    bread = np.linalg.inv(x.T * w @ x)
    rest = y - x @ fitted.params
    sandwich = bread @ (x.T * (w * rest) ** 2 @ x) @ bread
    assert fitted.bse == pytest.approx(np.sqrt(np.diag(sandwich)), rel=1e-6)
    scaled = [sm.GLM(y, x, var_weights=c * w).fit(cov_type="HC0").bse for c in (1, 10)]
    assert scaled[0] == pytest.approx(scaled[1])  # only ratios of weights matter
    counted = [sm.GLM(y, x, freq_weights=c * w).fit().bse for c in (1, 10)]
    assert (counted[1] < 0.5 * counted[0]).all()  # ten times the people, and three times as sure
