"""Rubin's rule and the bootstrap, against their formulas written out."""

import math

import numpy as np
import pytest
from scipy import stats

import gapless as gl
from gapless.inference.estimates import support
from gapless.inference.intervals import bootstrap, rubin

ESTIMATES = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0], [5.0, 5.0]])
VARIANCES = np.array([[0.5, 0.25], [0.25, 0.25], [0.5, 0.25], [0.75, 0.25]])


def test_rubins_rule_is_its_formula():
    many, within, between = 4, 0.5, np.var([1, 2, 4, 5], ddof=1)
    total = within + (1 + 1 / many) * between
    freedom = (many - 1) * (1 + within / ((1 + 1 / many) * between)) ** 2
    found = rubin(np.array([3.5, 5.0]), ESTIMATES, VARIANCES)
    assert found.freedom[0] == pytest.approx(freedom)
    assert found.half[0] == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(total))
    assert found.centre.tolist() == pytest.approx([2 * 3.5 - 3.0, 5.0])


def test_copies_that_agree_leave_a_normal_interval():
    found = rubin(np.array([3.0, 5.0]), ESTIMATES, VARIANCES)
    assert found.half[1] == pytest.approx(1.96 * 0.5, rel=1e-3)


def test_the_bootstrap_takes_half_of_its_bias_off():
    found = bootstrap(np.array([10.0]), np.array([[11.0], [12.0], [13.0]]))
    assert found.centre[0] == pytest.approx(9.0)
    assert found.half[0] == pytest.approx(stats.t.ppf(0.975, 2) * 1.0 * math.sqrt(4 / 3))


def test_possible_values_of_a_quantile_ascend_with_the_ends_of_their_cells():
    schema = gl.Schema("t", [gl.Ordinal("grade", [3, 1, 2]), gl.Number("size", bounds=(0, 2), edges=(0, 1, 2))])
    values, lows, highs = support(gl.Median("grade"), schema)
    assert values.tolist() == lows.tolist() == highs.tolist() == [1, 2, 3]
    values, lows, highs = support(gl.Median("size"), schema)
    assert (np.diff(values) > 0).all()
    assert ((lows <= values) & (values <= highs)).all()
    assert (lows < highs).any()
