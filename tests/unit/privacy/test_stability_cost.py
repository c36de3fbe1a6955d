"""Group privacy as a calculator: the numbers of the formula, and a counterexample to what it replaces."""

import math

import pytest

import gapless as gl


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
def test_what_is_refused(arguments, match):
    with pytest.raises(gl.errors.BudgetError, match=match):
        gl.privacy.stability_cost(**arguments)
