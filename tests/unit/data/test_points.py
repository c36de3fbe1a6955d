"""Rows as points: distances that a column adds, and gaps aside."""

import numpy as np
import polars as pl

import gapless as gl
from gapless.data.points import comparable_rows, points, rows_with_gaps, unit_positions

SCHEMA = gl.Schema(
    "t",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Ordinal("size", ["S", "M", "L"], may_be_missing=True),
    ],
)


def table(sexes, sizes):
    return gl.Table.read(pl.DataFrame({"sex": sexes, "size": sizes}, schema={"sex": str, "size": str}), SCHEMA)


def test_levels_stand_at_even_steps_and_one_level_at_zero():
    assert unit_positions(SCHEMA["size"]).tolist() == [0, 0.5, 1]
    assert unit_positions(gl.Ordinal("only", ["x"])).tolist() == [0]


def test_corners_are_one_apart_and_a_gap_is_one_from_the_ends_of_a_line():
    rows = points(table(["F", "M", None, "F", "F"], ["S", "S", "S", "L", None]))
    far = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert np.allclose(far[0], [0, 1, 1, 1, 1])
    assert np.isclose(far[3, 4], 1)


def test_a_column_can_be_left_out():
    assert points(table(["F"], ["S"]), without="size").shape == (1, 3)


def test_rows_without_gaps_are_compared_unless_both_have_some():
    gapped, whole = table(["F", None], ["S", "S"]), table(["F", "M"], ["S", "S"])
    assert rows_with_gaps(gapped).tolist() == [False, True]
    assert [kept.tolist() for kept in comparable_rows(gapped, whole)] == [[True, False], [True, True]]
    assert [kept.tolist() for kept in comparable_rows(gapped, gapped)] == [[True, True], [True, True]]
