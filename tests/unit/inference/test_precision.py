"""The noise in a column, in closed form."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.inference.precision import ColumnPrecision
from gapless.schema import Categorical, Integer

LEVELS = ColumnPrecision(Categorical("x", ["a", "b"]), 1000.0, 1000.0, 0.0, np.array([0.3, 0.7]), 10.0)
NUMBERS = replace(LEVELS, column=Integer("x", bounds=(0, 1)), middles=np.array([0.0, 1.0]))


def test_shares_have_noise_and_sampling_in_their_intervals():
    (value, low, high), _ = LEVELS.share_intervals()
    assert value == 0.3
    assert (high - low) / 2 == pytest.approx(1.959964 * np.hypot(0.01, np.sqrt(0.3 * 0.7 / 1000)))
    assert LEVELS.distance == pytest.approx(np.sqrt(2 / np.pi) / 2 * 0.01 * np.sqrt(2))
    assert LEVELS.mean_std is None
    assert LEVELS.mean_interval() is None


def test_fewer_people_than_rows_widen_intervals():
    few = replace(LEVELS, people=10.0)
    assert few.share_intervals()[0].low < LEVELS.share_intervals()[0].low


def test_a_mean_is_linear_in_signed_shares():
    value, low, high = NUMBERS.mean_interval()
    assert value == pytest.approx(0.7)
    noise = 10 * np.hypot(0.7, 0.3) / 1000
    assert (high - low) / 2 == pytest.approx(1.959964 * np.hypot(noise, np.sqrt(0.21 / 1000)))
    assert NUMBERS.mean_std == pytest.approx(noise / np.sqrt(0.21))
    moved = replace(NUMBERS, within=20.0, within_std=5.0)
    assert moved.mean_interval().value == pytest.approx(0.72)
    assert moved.mean_std > NUMBERS.mean_std


def test_a_column_that_is_mostly_missing_is_widened_to_what_holds_for_any_missing_values():
    gappy, half = replace(LEVELS, missing=0.8), 1.959964 * np.hypot(0.01, np.sqrt(0.3 * 0.7 / 1000))
    value, low, high = gappy.share_intervals()[0]
    assert (value, low, high) == pytest.approx((0.3, 0.2 * (0.3 - half), 0.2 * (0.3 + half) + 0.8))
    assert gappy.is_mostly_missing
    assert replace(LEVELS, missing=0.4).share_intervals() == LEVELS.share_intervals()
    mean = replace(NUMBERS, missing=0.8).mean_interval()
    assert mean.low < 0.2
    assert mean.high > 0.9


def test_a_column_that_is_lost_or_was_not_measured_has_no_interval():
    unknown = replace(NUMBERS, noise_std=np.inf)
    assert (unknown.share_intervals(), unknown.mean_interval(), unknown.missing_half) == (None, None, None)
    line = Integer("x", bounds=(0, 99), bins=1)
    collapsed = replace(NUMBERS, column=line, shares=np.array([1.0]), middles=np.array([49.5]))
    if collapsed.is_collapsed:
        assert (collapsed.share_intervals(), collapsed.mean_interval()) == (None, None)
        assert collapsed.mean_std == np.inf
