"""Sums over rows: whole steps of a public grid, rows left out, and what no sum is made of."""

from fractions import Fraction

import numpy as np
import pytest

from gapless.data.neighbors import Matching
from gapless.data.row_contribution import RowContribution
from gapless.data.sums import Bounds, hot_deck_sum, neighbour_sum, plain_sum, rank_scores
from gapless.errors import SchemaError
from gapless.privacy import Rows, Smooth
from gapless.testing.audit import letters_schema, private
from helpers.open_sealed import reveal

SCHEMA = letters_schema([2, 2])
ROWS = [("a", "a"), ("a", "b"), ("b", "b"), (None, "b")]
COUNT_A = RowContribution(
    ("x0",), lambda rows: (rows["x0"] == 0)[:, None].astype(np.int64), 1, 1, needs=frozenset({"x0"})
)
EVERY_ROW = RowContribution((), lambda rows: np.ones((len(next(iter(rows.values()))), 1), dtype=np.int64), 1, 1)


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path)


def test_bounds_are_whole_steps_of_a_power_of_two():
    bounds = Bounds.of(-1.0, 3.0)
    assert (bounds.low * bounds.step, bounds.high * bounds.step) == (-1, 3)
    assert bounds.without_donor == 0
    assert (bounds.to_steps(np.array([np.nan, -9.0, 9.0, 1.0])) * bounds.step).tolist() == [0, -1, 3, 1]
    matching = Matching(on=("x",), neighbors=4, scheme="mean")
    assert [bounds.sensitivity(matching, donees) for donees in (0, 1, 2)] == [3, 4, 5]
    with pytest.raises(SchemaError, match=r"low = 1\.0 and high = 0\.0"):
        Bounds.of(1.0, 0.0)


def test_rows_with_a_gap_in_what_is_needed_are_left_out(table):
    value = plain_sum(table, COUNT_A)
    assert reveal(value, table.ledger).tolist() == [2]
    assert (value.distance.at_most, value.reads) == (1, {"x0"})


def test_a_gap_is_filled_from_donors_of_its_class(table):
    value = hot_deck_sum(table, COUNT_A, targets=["x0"], cells=["x1"], limit=2)
    assert reveal(value, table.ledger).tolist() == [2]  # of two donors, b says a half: rounded down
    assert value.reads is None
    with pytest.raises(SchemaError, match="no column to fill"):
        hot_deck_sum(table, COUNT_A, targets=[], cells=["x1"], limit=2)


def test_a_score_is_zero_at_the_quantile_and_falls_with_each_row_between(table):
    (value,) = rank_scores(table, EVERY_ROW, "x1", quantile=Fraction(1, 4), shifts=[0])
    assert reveal(value, table.ledger).tolist() == [[0, 0]]
    (value,) = rank_scores(table, EVERY_ROW, "x1", quantile=Fraction(1, 2), shifts=[0])
    assert reveal(value, table.ledger).tolist() == [[-2, 0]]
    with pytest.raises(SchemaError, match="counted once"):
        rank_scores(table, RowContribution((), EVERY_ROW.value, 1, 2), "x1", quantile=Fraction(1, 2), shifts=[0])


def test_the_nearest_row_gives_what_is_missing(tmp_path):
    table = private([("a", "a"), ("b", "b"), (None, "b")], SCHEMA, tmp_path)
    value = neighbour_sum(
        table, lambda rows: rows["x0"] == 1, targets=["x0"], matching=Matching(on=("x1",)), low=0, high=1
    )
    assert reveal(value, table.ledger).answer == 2


def test_a_sum_over_filled_rows_is_of_all_rows_of_a_person_and_reads_every_row(tmp_path):
    """Its bound is for one row, and a row with a gap adds to it: neither is smaller than that."""
    table = private(ROWS, SCHEMA, tmp_path, protect=Rows(3))
    value = neighbour_sum(
        table, lambda rows: rows["x0"] == 1, targets=["x0"], matching=Matching(on=("x1",)), low=0, high=1
    )
    assert (value.distance, value.reads) == (Smooth(3, 2.0), None)
