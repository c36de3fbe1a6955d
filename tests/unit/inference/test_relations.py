"""Correlations and regressions of rows: values and variances against closed forms and other software."""

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from scipy import stats

import gapless as gl
from gapless.inference.estimates import estimate, needed_together
from gapless.inference.relations import correlation, rank_correlation, regression
from gapless.query import parse_question

ROWS = 400


def numbers():
    rng = np.random.default_rng(1)
    x = rng.gamma(2, size=ROWS)
    y = 0.5 * x + rng.normal(size=ROWS)
    return x, y, (rng.random(ROWS) < 1 / (1 + np.exp(-x + 1.5))).astype(float)


def test_correlations_are_those_of_scipy():
    x, y, ties = numbers()
    even = np.ones(ROWS)
    assert correlation(x, y, even)[0] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert rank_correlation(x, y, even)[0] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert rank_correlation(np.round(x), ties, even)[0] == pytest.approx(stats.spearmanr(np.round(x), ties).statistic)


def test_the_variance_of_a_correlation_of_normal_numbers_is_the_closed_form():
    """(1 - r^2)^2 / n for normal numbers: the 20,000 influences have a relative error of about 0.02."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=20_000)
    y = 0.6 * x + 0.8 * rng.normal(size=20_000)
    r, variance = correlation(x, y, np.ones(20_000))
    assert variance * 20_000 == pytest.approx((1 - r**2) ** 2, rel=0.1)


def jackknife(correlate, x, y):
    kept = ~np.eye(len(x), dtype=bool)
    left_out = np.array([correlate(x[rows], y[rows], np.ones(len(x) - 1))[0] for rows in kept])
    return (len(x) - 1) / len(x) * ((left_out - left_out.mean()) ** 2).sum()


@pytest.mark.parametrize("rounded", [False, True])
def test_variances_of_correlations_are_those_of_the_jackknife(rounded):
    """They agree up to terms of order 1 / n. Pearson's variance for ranks forgets that a row moves other ranks."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=ROWS)
    y = x + 0.5 * rng.normal(size=ROWS)
    x, y = (np.round(values) if rounded else values for values in (x, y))
    even, ranks = np.ones(ROWS), [stats.rankdata(values) for values in (x, y)]
    assert correlation(x, y, even)[1] == pytest.approx(jackknife(correlation, x, y), rel=0.05)
    truth = jackknife(rank_correlation, x, y)
    assert rank_correlation(x, y, even)[1] == pytest.approx(truth, rel=0.05)
    assert correlation(*ranks, even)[1] != pytest.approx(truth, rel=0.06)


def test_weights_count_rows():
    """Whole weights are repeated rows, for the estimates; variances know that a row is one row."""
    x, y, _ = numbers()
    times = np.random.default_rng(3).integers(1, 4, ROWS)
    design = np.column_stack([np.ones(ROWS), x])
    for correlate in (correlation, rank_correlation):
        weighted, variance = correlate(x, y, times)
        repeated, smaller = correlate(np.repeat(x, times), np.repeat(y, times), np.ones(times.sum()))
        assert weighted == pytest.approx(repeated)
        assert variance > smaller
    weighted, _ = regression(design, y, times, logistic=False)
    design, y = (np.repeat(values, times, axis=0) for values in (design, y))
    repeated, _ = regression(design, y, np.ones(times.sum()), logistic=False)
    assert weighted == pytest.approx(repeated)


@pytest.mark.parametrize("logistic", [False, True])
def test_regressions_are_those_of_statsmodels(logistic):
    x, y, event = numbers()
    design = np.column_stack([np.ones(ROWS), x, y])
    response = event if logistic else x * y
    model = sm.Logit(response, design) if logistic else sm.OLS(response, design)
    fitted = model.fit(disp=0, cov_type="HC1") if logistic else model.fit(cov_type="HC1")
    values, variances = regression(design, response, np.ones(ROWS), logistic=logistic)
    assert values == pytest.approx(fitted.params, rel=1e-6)
    assert np.sqrt(variances) == pytest.approx(fitted.bse, rel=0.02 if logistic else 1e-6)


def test_what_rows_do_not_determine_is_no_number():
    x, y, _ = numbers()
    even = np.ones(ROWS)
    with np.errstate(invalid="ignore"):
        assert np.isnan(correlation(x, np.zeros(ROWS), even)[0])
    twice = np.column_stack([np.ones(ROWS), x, 2 * x])
    assert np.isnan(regression(twice, y, even, logistic=False)[0]).all()
    absent = np.column_stack([np.ones(ROWS), x, np.zeros(ROWS)])
    values, _ = regression(absent, y, even, logistic=False)
    assert np.isnan(values).tolist() == [False, False, True]
    separated = np.column_stack([np.ones(ROWS), x])
    assert np.isnan(regression(separated, (x > 2).astype(float), even, logistic=True)[0]).all()


SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins=10),
        gl.Categorical("sex", ["F", "M"]),
        gl.Integer("pay", bounds=(0, 9), missing=[gl.MissingCode("-1", "not-applicable")]),
        gl.Boolean("smoker"),
        gl.Ordinal("grade", ["low", "mid", "high"]),
    ],
)


def table():
    rng = np.random.default_rng(4)
    columns = {
        "age": rng.integers(100, size=300).astype(str),
        "sex": rng.choice(["F", "M"], 300),
        "pay": rng.integers(-1, 10, size=300).astype(str),
        "smoker": rng.choice(["false", "true"], 300),
        "grade": rng.choice(["low", "mid", "high"], 300),
    }
    return gl.Table.read(pl.DataFrame(columns), SCHEMA)


def test_a_cross_table_has_the_shares_of_cells_which_sum_to_one():
    rows = table()
    found = estimate(parse_question("table(sex, smoker) where age >= 30"), rows)
    kept = [row for row in rows if row["age"] >= 30]
    cells = [("F", False), ("F", True), ("M", False), ("M", True)]
    truth = [np.mean([(row["sex"], row["smoker"]) == cell for row in kept]) for cell in cells]
    assert found.names == ("F, false", "F, true", "M, false", "M, true")
    assert found.values == pytest.approx(truth)
    assert found.values.sum() == pytest.approx(1)
    assert found.variances == pytest.approx([p * (1 - p) / len(kept) for p in truth], rel=0.05)


def test_relations_leave_out_what_is_not_applicable():
    rows = table()
    kept = [row for row in rows if isinstance(row["pay"], int)]
    assert 0 < len(kept) < rows.rows
    found = estimate(parse_question("corr(age, pay)"), rows)
    assert found.rows == len(kept)
    age, pay = ([row[name] for row in kept] for name in ("age", "pay"))
    assert found.values[0] == pytest.approx(np.corrcoef(age, pay)[0, 1])


def test_levels_are_dummy_variables_against_the_first():
    rows = table()
    found = estimate(parse_question("ols(age ~ sex + smoker + grade)"), rows)
    assert found.names == ("intercept", "sex == M", "smoker == true", "grade == mid", "grade == high")
    levels = [("sex", "M"), ("smoker", True), ("grade", "mid"), ("grade", "high")]
    design = np.array([[1.0, *(row[name] == level for name, level in levels)] for row in rows])
    age = np.array([row["age"] for row in rows], dtype=float)
    assert found.values == pytest.approx(np.linalg.lstsq(design, age, rcond=None)[0])
    found = estimate(parse_question("logit(smoker ~ age)"), rows)
    fitted = sm.Logit([row["smoker"] for row in rows], sm.add_constant(age)).fit(disp=0)
    assert found.values == pytest.approx(fitted.params, rel=1e-6)


def test_what_must_be_measured_together():
    def needs(text):
        found = needed_together(parse_question(text), SCHEMA)
        return {"".join(SCHEMA.names[c][0] for c in sorted(part)) for part in found}

    assert needs("corr(age, pay)") == {"ap"}
    assert needs("ols(age ~ sex + smoker)") == {"as", "ss"}
    assert needs("ols(age ~ sex) where pay > 3") == {"asp"}
    assert needs("logit(smoker ~ age + sex)") == {"ass"}
    assert needs("table(sex, smoker)") == {"ss"}
