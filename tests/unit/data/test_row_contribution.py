"""What rows add by themselves, and what donors add for rows with gaps, in whole numbers."""

import numpy as np
import pytest

from gapless.data.row_contribution import (
    Groups,
    RowContribution,
    distinct_rows,
    hot_deck_distance,
    hot_deck_total,
    plain_sum_distance,
)
from gapless.errors import SchemaError

VALUE = RowContribution(("x",), lambda rows: rows["x"][:, None].astype(np.int64), 1, 5)


def test_a_row_that_breaks_the_unit_or_is_in_no_group_adds_nothing():
    grouped = RowContribution(("x", "g"), VALUE.value, 1, 5, by=(Groups("g", np.array([0, 1, 2]), 2),))
    rows = {"x": np.array([3, 4, 6, 5]), "g": np.array([0, 1, 0, 2])}
    assert grouped.total(rows).tolist() == [3, 4]
    signed = RowContribution(("x",), lambda rows: -rows["x"][:, None], 1, 5)
    assert signed.total({"x": np.array([3])}).tolist() == [0]


def test_a_unit_has_a_limit():
    with pytest.raises(SchemaError, match="has a unit of 0"):
        RowContribution(("x",), VALUE.value, 1, 0)


def test_gaps_are_left_out_and_rows_may_stand_for_several():
    rows = {"x": np.array([1, 2, 5])}
    assert VALUE.total(rows, observed={"x": 5}).tolist() == [3]
    assert VALUE.total(rows, counts=np.array([10, 1, 0])).tolist() == [12]
    assert VALUE.scaled(2).total(rows).tolist() == [16]


def test_like_rows_are_counted_across_batches():
    batches = [{"x": np.array([2, 1, 2], dtype=np.uint8)}, {"x": np.array([1], dtype=np.uint8)}]
    rows, counts = distinct_rows(["x"], iter(batches))
    assert dict(zip(rows["x"].tolist(), counts.tolist(), strict=True)) == {1: 2, 2: 2}


def test_no_donor_gives_more_than_the_limit():
    rows = {"x": np.array([4, 9], dtype=np.uint8)}  # 9 is a gap

    def total(limit, donees):
        return hot_deck_total(VALUE, rows, np.array([1, donees]), targets={"x": 9}, classes=[], limit=limit).tolist()

    assert total(limit=3, donees=2) == [4 + 2 * 4]
    assert total(limit=3, donees=5) == [4 + 3 * 4]


def test_distances():
    assert plain_sum_distance(VALUE, 2).at_most == 10
    assert hot_deck_distance(VALUE, 3, 2).at_most == 2 * (4 * 5 + 1)
