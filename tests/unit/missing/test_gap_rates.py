"""Rates of gaps, paid for."""

import inspect
import math

import pytest
from scipy import stats

import gapless as gl
from gapless.errors import BudgetError, SchemaError
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise

SCHEMA = letters_schema([2, 3])
ROWS = [("a", "b"), ("b", None), (None, "c"), ("a", None)] * 500


def test_the_bounds_are_clopper_pearson_limits_beyond_the_noise(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0))
    with no_noise():
        assumption = gl.missing.gap_rates(table, spend=table.ledger.left, failure=1e-4)
    assert assumption.failure == 1e-4
    assert assumption.columns == "independent"
    scale = table.ledger.entries[0].mechanism["scale"]
    margin = math.ceil(scale * math.log(2 * 3 / 1e-4))
    for column, hits in (("x0", 1500), ("x1", 1000)):
        limit = stats.beta.ppf(1 - 1e-4 / 4, hits + margin + 1, 2000 - margin - hits - margin)
        assert assumption.rates[column] == pytest.approx(1 - limit)
        assert assumption.rates[column] < 1 - hits / 2000


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_estimate_is_paid_for_and_says_whom_it_read(tmp_path, delta):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, delta))
    gl.missing.gap_rates(table, spend=table.ledger.share("10%"), columns="dependent")
    assert table.ledger.left.value == pytest.approx(0.9 * table.ledger.capacity.value)
    assert [entry.reads for entry in table.ledger.entries] == [["x0"], ["x1"], None]


def test_an_empty_table_has_no_rates(tmp_path):
    table = private([], SCHEMA, tmp_path, budget=gl.Budget(1.0, 0))
    assert gl.missing.gap_rates(table, spend=table.ledger.left, failure=1e-9).rates == {"x0": 0.0, "x1": 0.0}


def test_what_makes_no_sense_is_refused_before_anything_is_spent(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path)
    with pytest.raises(BudgetError, match="failure"):
        gl.missing.gap_rates(table, spend=table.ledger.left, failure=0)
    whole = private([("a",)], gl.Schema("t", [gl.Categorical("x", ["a", "b"])]), tmp_path)
    with pytest.raises(SchemaError, match="no column"):
        gl.missing.gap_rates(whole, spend=whole.ledger.left)
    assert table.ledger.entries == whole.ledger.entries == ()


def test_spend_is_asked_for():
    assert inspect.signature(gl.missing.gap_rates).parameters["spend"].default is inspect.Parameter.empty
