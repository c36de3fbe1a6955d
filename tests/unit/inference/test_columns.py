"""The shares and means of all columns: the numbers of `pool`, and no interval where nothing was observed."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.inference import column_estimates
from gapless.query import CrossTable
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise

SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 9), bins=10),
        gl.Categorical("sex", ["F", "M"]),
        gl.Integer("wage", bounds=(0, 3), may_be_missing=True),
        gl.Integer("height", bounds=(0, 999), bins=1),
    ],
)


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Of 600 people without any wage."""
    rng = np.random.default_rng(1)
    age, height = rng.integers(10, size=600), rng.integers(1000, size=600)
    people = pl.DataFrame({"age": age, "sex": rng.choice(["F", "M"], 600), "wage": [None] * 600, "height": height})
    table = private(people, SCHEMA, tmp_path_factory.mktemp("columns"), budget=gl.Budget(2.0, 1e-6))
    with fixed_noise(1):
        model = gl.MST().fit(table, spend=table.ledger.left)
    return model.copies(4, seed=1)


def test_columns_have_the_estimates_of_pool(copies):
    found = column_estimates(copies)
    assert list(found) == list(SCHEMA.names)
    assert found["age"].shares == gl.pool(copies, CrossTable("age"))
    assert found["age"].mean == gl.pool(copies, gl.Mean("age")).estimates[0]
    assert [len(estimates.shares.estimates) for estimates in found.values()] == [10, 2, 4, 1]
    assert found["sex"].mean is None
    assert list(column_estimates(copies, ["sex"])) == ["sex"]


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
    assert gl.pool(copies, gl.Mean("height")).estimates[0].interval is not None


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
