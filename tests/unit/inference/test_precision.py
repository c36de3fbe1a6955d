"""The noise in a column, in closed form."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.inference.intervals import within_ends
from gapless.inference.precision import ColumnPrecision
from gapless.schema import Categorical, Integer

LEVELS = ColumnPrecision(Categorical("x", ["a", "b"]), np.array([300.0, 700.0]), 10.0, 1000.0, 10 * 2**0.5, 1000.0)
NUMBERS = replace(LEVELS, column=Integer("x", bounds=(0, 1)), numbers=np.array([0.0, 1.0]))
NOISE = 10 * np.hypot(0.7, 0.3) / 1000  # of a share of .3 or .7, if its denominator is the sum of both counts


def test_shares_have_noise_and_sampling_in_their_intervals():
    (value, low, high), _ = LEVELS.share_intervals()
    assert value == pytest.approx(0.3)
    share = 302 / 1004
    assert (high - low) / 2 == pytest.approx(1.959964 * np.hypot(NOISE, np.sqrt(share * (1 - share) / 1000)))
    assert LEVELS.distance == pytest.approx(np.sqrt(2 / np.pi) / 2 * 0.01 * np.sqrt(2))
    assert LEVELS.mean_std is None
    assert LEVELS.mean_interval() is None


def test_a_number_of_rows_that_is_known_better_narrows_shares():
    """The counts are moved to the total by equal parts, and only their differences have noise."""
    known = replace(LEVELS, counts=np.array([310.0, 710.0]), total_std=0.0)
    ratio = known.ratio(np.array([1.0, 0.0]), np.ones(2), is_share=True)
    assert ratio.value == pytest.approx(0.3)
    assert ratio.noise_std == pytest.approx(10 * np.sqrt(1 / 2) / 1000)


def test_noise_of_a_ratio_is_that_of_simulated_counts():
    """Of many cells of which one has most rows: noise in the number of rows counts more than that in its count."""
    rng = np.random.default_rng(0)
    column = Categorical("x", [str(level) for level in range(40)])
    truth = np.append(900.0, np.full(39, 100 / 39))
    total, total_std = 1000 + rng.normal(0, 20.0, 4000), 20.0
    counts = truth + rng.normal(0, 10.0, (4000, 40))
    counts += (total - 1000 - (counts - truth).sum(axis=1))[:, None] / 40  # the noise of the total is in the counts
    first = np.eye(40)[0]
    shares = [
        ColumnPrecision(column, drawn, 10.0, of_all, total_std, of_all).ratio(first, np.ones(40), is_share=True)
        for drawn, of_all in zip(counts, total, strict=True)
    ]
    found = np.std([share.value for share in shares])
    assert found == pytest.approx(shares[0].noise_std, rel=0.1)
    assert found > 1.5 * 10 / 1000


def test_fewer_people_than_rows_widen_intervals():
    few = replace(LEVELS, per_person=100)
    assert few.people == 10
    assert few.share_intervals()[0].low < LEVELS.share_intervals()[0].low


def test_a_mean_is_linear_in_signed_shares():
    value, low, high = NUMBERS.mean_interval()
    assert value == pytest.approx(0.7)
    assert (high - low) / 2 == pytest.approx(1.959964 * np.hypot(NOISE, np.sqrt(0.21 / 1000)), rel=1e-4)
    assert NUMBERS.mean_std == pytest.approx(NOISE / np.sqrt(0.21), rel=1e-4)
    negative = replace(NUMBERS, counts=np.array([-20.0, 1020.0]))
    assert negative.ratio(np.array([0.0, 1.0]), np.ones(2)).value == pytest.approx(1.02)
    assert negative.mean_interval().value == 1


def test_the_error_of_a_standard_deviation_is_that_of_half_the_variance():
    """With a share p of ones the variance is p - p², so a small change e of p changes it by (1 - 2p) e."""
    variance = 0.3 * 0.7
    assert NUMBERS.spread_std == pytest.approx(0.4 * NOISE / (2 * variance), rel=1e-4)
    assert LEVELS.spread_std is None


def test_empty_cells_together_may_be_empty():
    """The ends of each interval are cut at 0, so those of a sum do not follow from them."""
    line = Integer("x", bounds=(0, 5))
    column = replace(LEVELS, column=line, counts=np.array([500.0, 500.0, 4.0, -6.0, 5.0, -3.0]), total_std=10 * 6**0.5)
    share, low, high = column.share_interval([2, 3, 4, 5])
    assert (share, low) == (0, 0)
    assert high == pytest.approx(1.959964 * np.hypot(20e-3, (2 / 1004) ** 0.5 / 1000**0.5), rel=0.05)
    assert sum(end.high for end in column.share_intervals()[2:]) > 1.8 * high
    assert column.share_interval([1]) == column.share_intervals()[1]


def test_counts_within_learned_bins_move_a_mean_and_add_noise():
    line = Integer("x", bounds=(0, 3), bins=2)
    counted = replace(NUMBERS, column=line, numbers=np.arange(4.0))
    levels = (np.array([150.0, 150.0, 350.0, 350.0]),)
    even = replace(counted, levels=levels, level_std=5.0)
    assert even.mean_interval().value == pytest.approx(counted.mean_interval().value)
    assert even.mean_std > counted.mean_std
    moved = replace(even, levels=(np.array([100.0, 200.0, 350.0, 350.0]),))
    assert moved.mean_interval().value == pytest.approx(even.mean_interval().value + 0.05)


def test_a_column_that_is_mostly_missing_is_widened_to_what_holds_for_any_missing_values():
    gappy, (plain, *_) = replace(LEVELS, all_rows=5000.0), LEVELS.share_intervals()
    value, low, high = gappy.share_intervals()[0]
    assert (value, low, high) == pytest.approx((0.3, 0.2 * plain.low, 0.2 * plain.high + 0.8))
    assert gappy.is_mostly_missing
    assert replace(LEVELS, all_rows=1700.0).share_intervals() == LEVELS.share_intervals()
    mean = replace(NUMBERS, all_rows=5000.0).mean_interval()
    assert mean.low < 0.2
    assert mean.high > 0.9


def test_an_interval_is_around_the_estimate_within_its_range():
    assert within_ends(-0.1, 0.05, 0.0, 1.0) == (0.0, 0.0, 0.05)
    assert within_ends(0.5, 0.7, 0.0, 1.0) == (0.5, 0.0, 1.0)


def test_a_column_that_is_lost_or_was_not_measured_has_no_interval():
    unknown = replace(NUMBERS, noise_std=np.inf)
    assert (unknown.share_intervals(), unknown.mean_interval(), unknown.missing_half) == (None, None, None)
    drawn = replace(NUMBERS, unsupported="no counts")
    assert (drawn.share_intervals(), drawn.mean_interval()) == (None, None)
    line = Integer("x", bounds=(0, 99), bins=1)
    collapsed = replace(NUMBERS, column=line, counts=np.array([1000.0]), numbers=np.arange(100.0))
    assert collapsed.is_collapsed
    assert (collapsed.share_intervals(), collapsed.mean_interval()) == (None, None)
    assert (collapsed.mean_std, collapsed.spread_std) == (np.inf, np.inf)


def test_a_released_number_of_rows_of_zero_is_at_least_that_of_the_rows_that_were_counted():
    gaps = replace(LEVELS, counts=np.array([3.0, 7.0, 5.0]), total=0.0, all_rows=0.0)
    assert gaps.missing == 0
    assert 0 < gaps.missing_half < np.inf
