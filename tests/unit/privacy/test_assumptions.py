"""Assumptions about gaps: what they refuse, how they read, and that they survive a file."""

import math

import pytest

import gapless as gl
from gapless.errors import BudgetError
from gapless.privacy.assumptions import check_assumption, expand_rates, from_dict, named_rates, to_dict


def test_only_an_assumption_is_one():
    for wrong in (0.2, {"a": 0.2}, None, gl.MCAR):
        with pytest.raises(BudgetError, match="an assumption about gaps must be"):
            check_assumption(wrong)
    with pytest.raises(BudgetError, match="a ledger needs a rate for each column"):
        named_rates(gl.MCAR(0.2))


@pytest.mark.parametrize("kind", [gl.MCAR, gl.privacy.MissingAtLeast])
@pytest.mark.parametrize("rates", [{"a": 1.1}, {"a": -0.1}, {"a": True}, {"a": "0.2"}, {3: 0.2}, 1.5, None, math.nan])
def test_rates_are_probabilities(kind, rates):
    with pytest.raises(gl.errors.SchemaError, match="Try: pass the probability of a gap"):
        kind(rates)


@pytest.mark.parametrize("kind", [gl.MCAR, gl.privacy.MissingAtLeast])
def test_a_column_that_is_always_missing_gives_no_figure(kind):
    with pytest.raises(BudgetError, match="the rate of gaps in 'a' must be below 1, got 1"):
        gl.privacy.ground_truth([(0.1, {"a"})], kind({"a": 1.0}))


def test_a_gap_mechanism_is_the_same_assumption():
    from gapless.privacy import assumptions

    assert gl.MCAR({"a": 0.2}) == assumptions.MCAR({"a": 0.2})
    assert hash(gl.MCAR({"a": 0.2})) == hash(assumptions.MCAR({"a": 0.2}))
    assert gl.MCAR({"a": 0.2}) != gl.MCAR({"a": 0.2}, columns="dependent")
    assert gl.MCAR({"a": 0.2}) != gl.privacy.MissingAtLeast({"a": 0.2})


def test_assumptions_are_printed_in_full_and_survive_files():
    for assumption in (
        gl.MCAR({"b": 0.2, "a": 0.1}),
        gl.MCAR({"a": 0.1}, columns="dependent", failure=1e-6),
        gl.privacy.MissingAtLeast({"a": 0.1}),
    ):
        text = str(assumption)
        assert "independently" in text
        assert "nobody outside knows" in text
        assert "0.1 in 'a'" in text
        assert from_dict(to_dict(assumption)) == assumption
    assert "any way" in str(gl.MCAR({"a": 0.1}, columns="dependent"))
    assert "paid estimate" in str(gl.MCAR({"a": 0.1}, failure=1e-6))
    assert expand_rates(gl.privacy.MissingAtLeast(0.3), ["x", "y"]) == gl.privacy.MissingAtLeast({"x": 0.3, "y": 0.3})
    assert "every column" in str(gl.MCAR(0.3))
    assert "0.3 in each of 'a', 'b', 'c', 'd'" in str(gl.MCAR(dict.fromkeys("abcd", 0.3)))
    with pytest.raises(gl.errors.SchemaError, match=r"columns must be .*, got 'odd'"):
        gl.MCAR({}, columns="odd")
    with pytest.raises(BudgetError, match="failure"):
        gl.MCAR({}, failure=1.0)
