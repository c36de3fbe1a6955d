"""Little's test, on tables small enough for a computation by hand, and on odd ones."""

import numpy as np
import pytest

import gapless as gl
from gapless.testing.audit import letters_schema, private


def test_little_agrees_with_a_computation_by_hand():
    """Two variables, one of them complete: EM is the regression of y on x among rows that have y."""
    rng = np.random.default_rng(0)
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 9)), gl.Integer("y", bounds=(0, 9), may_be_missing=True)])
    x = rng.integers(0, 10, 500)
    y = np.minimum(9, x // 2 + rng.integers(0, 5, 500))
    gone = rng.random(500) < 0.02 + 0.05 * x
    result = gl.missing.little_test(gl.Table(schema, [x, np.where(gone, 10, y)], rows=500))
    u, v = x / 9, y / 9
    mean_x, var_x = u.mean(), u.var()
    slope = np.cov(u[~gone], v[~gone], bias=True)[0, 1] / u[~gone].var()
    level = v[~gone].mean() - slope * u[~gone].mean()
    left = (v[~gone] - level - slope * u[~gone]).var()
    sigma = np.array([[var_x, slope * var_x], [slope * var_x, left + slope**2 * var_x]])
    off = np.array([u[~gone].mean() - mean_x, v[~gone].mean() - level - slope * mean_x])
    by_hand = (~gone).sum() * off @ np.linalg.solve(sigma, off) + gone.sum() * (u[gone].mean() - mean_x) ** 2 / var_x
    assert result.statistic == pytest.approx(by_hand, rel=1e-4)
    assert (result.freedom, result.patterns, result.variables) == (1, 2, 2)
    assert result.p_value < 1e-6
    assert "1 degree of freedom" in str(result)


def test_little_on_odd_tables(tmp_path):
    schema = letters_schema((2, 3, 1))
    complete = gl.Table(schema, [np.array([0, 1] * 20), np.array([0, 1, 2, 3] * 10), np.zeros(40)], rows=40)
    assert gl.missing.little_test(complete).p_value == 1.0
    assert gl.missing.little_test(gl.Table(schema, [np.zeros(0)] * 3, rows=0)).patterns == 0
    never = gl.Table(schema, [np.full(40, 2), np.array([0, 1, 2, 4] * 10), np.zeros(40)], rows=40)
    assert 0 <= gl.missing.little_test(never).p_value <= 1
    twins = gl.Schema("t", [gl.Ordinal(n, ["a", "b", "c"], may_be_missing=True) for n in "xy"])  # y is x again
    codes = np.random.default_rng(0).integers(0, 3, 400)
    result = gl.missing.little_test(gl.MCAR({"y": 0.3}).apply(gl.Table(twins, [codes, codes], rows=400), seed=0))
    assert result.freedom == 1
    with pytest.raises(gl.errors.SealedError, match="public Table"):
        gl.missing.little_test(private([], schema, tmp_path))


def test_little_refuses_what_would_take_forever():
    schema = gl.Schema(
        "wide", [gl.Categorical(f"c{i}", [f"l{j}" for j in range(20)], may_be_missing=True) for i in range(20)]
    )
    rng = np.random.default_rng(0)
    table = gl.Table(schema, [rng.integers(0, 21, 3000) for _ in range(20)], rows=3000)
    with pytest.raises(gl.errors.ModelError, match="too many for this test"):
        gl.missing.little_test(gl.MCAR(0.5).apply(table, seed=0))
