"""Weak promises are told in words: where the limits lie, and what a schema's public number of rows changes."""

import pytest

import gapless as gl
from gapless.privacy.promise import cautions
from gapless.testing.audit import letters_schema, private


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "told"),
    [
        (1.0, 1e-6, None, []),
        (1.0, 1e-5, None, []),
        (1.01, 0.0, None, ["ε = 1.01 is above 1: "]),
        (10.0, 0.0, None, ["e^ε = 22030."]),
        (10.01, 0.0, None, ["ε = 10.01 is above 10, A VERY WEAK PROMISE: "]),
        (5000.0, 0.0, None, ["e^ε = 10^2172"]),
        (1.0, 1.1e-5, None, ["10,000 rows assumed"]),
        (1.0, 1e-5, 10_001, ["10,001 rows that the schema expects"]),
        (1.0, 1e-3, 100, []),
        (1.0, 0.1, 10, ["one in 10, not clearly below one in the 10 rows that the schema expects"]),
        (20.0, 0.1, 10, ["ε = 20", "δ = 0.1"]),
    ],
)
def test_where_a_promise_is_called_weak(epsilon, delta, rows, told):
    found = cautions(epsilon, delta, expected_rows=rows)
    assert len(found) == len(told)
    for caution, words in zip(found, told, strict=True):
        assert words in caution


def test_a_printed_ledger_tells_what_is_weak_and_nothing_is_raised(tmp_path):
    usual, weak = (private([("a",)], letters_schema([2]), tmp_path, budget=gl.Budget(e, 1e-6)) for e in (1.0, 11.0))
    assert "above" not in str(usual.ledger)
    assert "  ε = 11 is above 10, A VERY WEAK PROMISE" in str(weak.ledger)
    assert weak.ledger.cautions(expected_rows=10**7)[1].startswith("δ = 1e-06 is one in 1,000,000")
    people = gl.Budget(3.0, 0, ground_truth=gl.MCAR({"x0": 0.5}))
    behind = private([("a",)], letters_schema([2]), tmp_path, budget=people).ledger
    assert behind.cautions()[0].startswith("ε = 3.")  # that of the incomplete table, which is larger
    assert behind.guarantee().epsilon > 3


def test_the_expected_number_of_rows_is_a_public_fact_of_the_schema():
    text = '[table]\nname = "t"\nexpected_rows = 5000\n\n[column.a]\nkind = "boolean"\n'
    schema = gl.Schema.from_toml(text)
    assert schema.expected_rows == 5000
    assert schema.to_toml() == text
    wide = gl.Schema("t", [gl.Boolean(name) for name in "abc"], expected_rows=5000)
    assert "5,000 rows expected" in gl.synth.Auto().choose(wide, gl.Budget(1.0, 0).capacity, gl.Rows(1))[1]
    for wrong in (0, True, 2.5, "many"):
        with pytest.raises(gl.errors.SchemaError, match="expected_rows is"):
            gl.Schema("t", [gl.Boolean("a")], expected_rows=wrong)
