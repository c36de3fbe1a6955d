"""Weighted estimates, and weights in the hands of other libraries."""

import numpy as np
import polars as pl
import pytest

import gapless as gl

SCHEMA = gl.Schema(
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
    SCHEMA,
)
W = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def test_a_weight_of_two_is_a_row_written_twice():
    twice = gl.Table.read(pl.concat([PEOPLE.to_polars()] * 2), SCHEMA)
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


def test_what_has_no_mean_is_refused(tmp_path):
    with pytest.raises(gl.errors.SchemaError, match="'sex' holds no numbers"):
        gl.weights.weighted_mean(PEOPLE, "sex")
    with pytest.raises(gl.errors.SchemaError, match="levels"):
        gl.weights.weighted_quantiles(PEOPLE, "age", [1.5])
    with pytest.raises(gl.errors.SchemaError, match="no row with a weight"):
        gl.weights.weighted_mean(PEOPLE, "age", weights=[0, 0, 0, 0, 1])
    people = gl.read(
        PEOPLE.to_polars(), SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "p.ledger"
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
