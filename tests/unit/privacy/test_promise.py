"""Weak promises are explained: their limits, and what a schema's public number of rows changes."""

import math

import pytest

import gapless as gl
from gapless.privacy.promise import cautions, group_privacy
from gapless.testing.audit import letters_schema, private


@pytest.mark.parametrize(
    ("epsilon", "delta", "rows", "expected"),
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
def test_where_a_promise_is_called_weak(epsilon, delta, rows, expected):
    found = cautions(epsilon, delta, expected_rows=rows)
    assert len(found) == len(expected)
    for caution, part in zip(found, expected, strict=True):
        assert part in caution


def test_a_printed_ledger_names_weak_promises_and_nothing_is_raised(tmp_path):
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
        with pytest.raises(gl.errors.SchemaError, match="expected_rows = "):
            gl.Schema("t", [gl.Boolean("a")], expected_rows=wrong)


def test_group_privacy_by_hand():
    assert group_privacy(math.log(2), 0.1, 3) == (pytest.approx(3 * math.log(2)), pytest.approx(0.1 * (1 + 2 + 4)))
    # (e^11 - 1) / (e - 1) = 59873.14 / 1.718282 = 34844.77
    assert group_privacy(1.0, 1e-6, 11) == (11.0, pytest.approx(0.03484477, rel=1e-6))
    assert group_privacy(0.5, 1e-6, 1) == (0.5, 1e-6)
    assert group_privacy(0.25, 0.0, 4) == (1.0, 0.0)
    assert group_privacy(0.0, 0.01, 5) == (0.0, pytest.approx(0.05))


@pytest.mark.parametrize(("epsilon", "units"), [(1.0, 30), (5.0, 400), (1000.0, 2)])
def test_group_privacy_stops_where_nothing_is_promised(epsilon, units):
    assert group_privacy(epsilon, 1e-6, units) == (units * epsilon, 1.0)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_group_privacy_is_attained(epsilon):
    """An event of probability 0 on one table, and with each further unit as likely as (ε, δ) allows."""
    delta, chance = 1e-9, 0.0
    for units in range(1, 8):
        chance = math.exp(epsilon) * chance + delta
        assert group_privacy(epsilon, delta, units) == (units * epsilon, pytest.approx(chance, rel=1e-12))


# ------------------------------------------------------------------ group privacy as a calculator


def test_the_formula():
    cost = gl.privacy.stability_cost(0.1, 1e-6, changed=11)
    assert cost.epsilon == pytest.approx(1.1)
    assert cost.delta == pytest.approx(1e-6 * sum(math.exp(0.1 * i) for i in range(11)))
    assert round(cost.delta / 1e-6) == 19  # and not 1: δ does not stay
    assert round(gl.privacy.stability_cost(1.0, 1e-6, changed=11).delta / 1e-6) == 34845
    assert gl.privacy.stability_cost(0.0, 1e-6, changed=11).delta == pytest.approx(11e-6)
    assert gl.privacy.stability_cost(2.0, 0.0, changed=400) == gl.privacy.StabilityCost(800.0, 0.0)
    assert gl.privacy.stability_cost(2.0, 1e-9, changed=400).delta == 1.0
    assert gl.privacy.stability_cost(1.0, 1e-6, changed=1).delta == pytest.approx(1e-6)
    assert gl.privacy.stability_cost(1.0, changed=3, rho=0.5).rho == 4.5


def test_a_mechanism_that_the_published_formula_would_allow():
    """Publish each row with probability δ: (0, δ)-DP. With c copies, one of them is out with 1 - (1 - δ)^c > δ."""
    delta, copies = 0.01, 5
    out = 1 - (1 - delta) ** copies
    assert out > delta  # "(c ε, δ)" is false
    assert out <= gl.privacy.stability_cost(0.0, delta, changed=copies).delta


def test_composing_step_by_step_gives_no_less():
    """The hockey-stick of c randomised responses is within the bound, and at c = 1 equal to it."""
    epsilon = 0.7
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    for copies in (1, 2, 4):
        bound = gl.privacy.stability_cost(epsilon, changed=copies).epsilon
        worst = copies * math.log(keep / (1 - keep))
        assert worst <= bound * (1 + 1e-12)


def test_words():
    assert str(gl.privacy.stability_cost(1.0, 1e-6, changed=11, rho=0.25)) == "ε = 11, δ = 0.03485; ρ = 30.25"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"epsilon": -1, "changed": 2}, "epsilon = -1"),
        ({"epsilon": math.inf, "changed": 2}, "epsilon = inf"),
        ({"epsilon": 1, "delta": math.nan, "changed": 2}, "delta = nan"),
        ({"epsilon": 1, "rho": "a", "changed": 2}, "rho = 'a'"),
        ({"epsilon": 1, "changed": 0}, "changed = 0"),
        ({"epsilon": 1, "changed": 2.0}, "changed = 2.0"),
    ],
)
def test_refuses_invalid_arguments(arguments, match):
    with pytest.raises(gl.errors.BudgetError, match=match):
        gl.privacy.stability_cost(**arguments)
