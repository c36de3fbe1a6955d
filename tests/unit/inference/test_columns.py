"""The shares and means of all columns: the numbers of `pool`, and no interval where nothing was observed."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata

import gapless as gl
from gapless.inference import column_estimates
from gapless.inference.associations import pair_precision
from gapless.inference.precision import column_precision
from gapless.query import CrossTable, RankCorrelation
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise

SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 9), bins=10),
        gl.Categorical("sex", ["F", "M"]),
        gl.Integer("wage", bounds=(0, 3), may_be_missing=True),
        gl.Integer("height", bounds=(0, 999), bins=1),
        gl.Ordinal("grade", list("abcd")),
    ],
)


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Of 600 people without any wage."""
    rng = np.random.default_rng(1)
    age, height = rng.integers(10, size=600), rng.integers(1000, size=600)
    people = pl.DataFrame({"age": age, "sex": rng.choice(["F", "M"], 600), "wage": [None] * 600, "height": height})
    people = people.with_columns(grade=pl.Series(np.array(list("abcd"))[np.minimum(age // 2, 3)]))
    table = private(people, SCHEMA, tmp_path_factory.mktemp("columns"), budget=gl.Budget(2.0, 1e-6))
    with fixed_noise(1):
        model = gl.MST().fit(table, spend=table.ledger.left)
    return model.copies(4, seed=1)


def test_columns_have_the_estimates_of_pool(copies):
    found = column_estimates(copies)
    assert list(found) == list(SCHEMA.names)
    assert found["age"].shares == gl.pool(copies, CrossTable("age"))
    assert found["age"].mean == gl.pool(copies, gl.Mean("age")).estimates[0]
    assert [len(estimates.shares.estimates) for estimates in found.values()] == [10, 2, 4, 1, 4]
    assert found["sex"].mean is None
    assert list(column_estimates(copies, ["sex"])) == ["sex"]


def test_the_report_and_pool_have_the_same_numbers_and_no_copy_is_drawn(copies):
    """To all digits that are printed: shares, means and rank correlations are of the same function."""
    age, sex, *_ = column_precision(copies.model)
    fresh = copies.model.copies(4, seed=1)
    found = column_estimates(fresh, ["age", "sex"])
    for column, name in ((age, "age"), (sex, "sex")):
        for share, of_report in zip(found[name].shares.estimates, column.share_intervals(), strict=True):
            assert (share.value, *share.interval) == pytest.approx(of_report, rel=1e-12)
    mean = found["age"].mean
    assert (mean.value, *mean.interval) == pytest.approx(age.mean_interval(), rel=1e-12)
    (pair,) = pair_precision(copies.model, only=frozenset({0, 4}))
    (related,) = gl.pool(fresh, gl.query.RankCorrelation("age", "grade")).estimates
    assert (related.value, *related.interval) == pytest.approx((pair.value, pair.low, pair.high), rel=1e-12)
    assert fresh.parts == {}
    assert found["age"].shares.copies == 0
    assert 0.4 < related.interval[0] < related.value < 0.95


def test_conditions_on_the_column_itself_need_no_copies(copies):
    fresh = copies.model.copies(4, seed=1)
    grown, young = gl.Mean("age", where="age >= 5"), gl.Proportion("age <= 1", where="age < 5")
    for question, truth in ((grown, 7.0), (young, 0.4), (gl.Median("age"), 4.5), (gl.Quantile("age", 0.9), 8.5)):
        (found,) = gl.pool(fresh, question).estimates
        assert found.interval[0] - 0.5 <= truth <= found.interval[1] + 0.5
        assert found.interval[1] - found.interval[0] <= 2
    (few,) = gl.pool(fresh, gl.Mean("age", where="age > 9")).estimates
    assert few.interval is None
    assert fresh.parts == {}


def test_a_column_without_observed_rows_has_no_interval_but_a_reason(copies):
    wage = column_estimates(copies, ["wage"])["wage"]
    for estimate in (wage.mean, *wage.shares.estimates):
        assert estimate.interval is None
        assert "noise hides the rows in which wage is observed" in estimate.unsupported


def test_a_column_in_one_bin_has_no_relations(copies):
    for question in (gl.query.Correlation("age", "height"), gl.Mean("height", by="sex")):
        for estimate in gl.pool(copies, question).estimates:
            assert estimate.interval is None
            assert "all values of height are in one bin, so relations with other columns" in estimate.unsupported
    (mean,) = gl.pool(copies, gl.Mean("height")).estimates
    assert mean.interval is None
    assert "all values of height are in one bin, and where they are in it was not measured" in mean.unsupported


def test_several_questions_are_estimated_in_one_pass(copies):
    questions = [gl.Mean("age"), CrossTable("sex")]
    assert gl.pool(copies, questions) == [gl.pool(copies, question) for question in questions]
    with pytest.raises(gl.errors.QuestionError, match="not count"):
        gl.pool(copies, [gl.Mean("age"), gl.Count()])


def test_a_cross_table_prints_two_ways(copies):
    pooled = gl.pool(copies, CrossTable("sex", "age"))
    assert "  F, 0  " in str(pooled)  # ten columns are too wide
    narrow = gl.pool(copies, CrossTable("sex", where="age > 3"))
    assert narrow.levels is None
    assert "Each number is the share of the rows that are in this cell." in str(narrow)


def test_a_rank_correlation_with_a_boolean_has_its_sign(tmp_path):
    """Its association with others is Cramér's V, which has none."""
    rng = np.random.default_rng(3)
    age = rng.integers(0, 10, 4_000)
    schema = gl.Schema("child", [gl.Integer("age", bounds=(0, 9)), gl.Boolean("child", spelling=("no", "yes"))])
    frame = pl.DataFrame({"age": age, "child": np.where(age < 4, "yes", "no")})
    table = private(frame, schema, tmp_path, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        copies = gl.MST().fit(table, spend=table.ledger.left).copies(4, seed=1)
    (found,) = gl.pool(copies, RankCorrelation("age", "child")).estimates
    truth = np.corrcoef(rankdata(age), age < 4)[0, 1]
    assert found.interval[0] < truth < found.interval[1] < -0.7
