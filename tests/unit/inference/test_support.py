"""Which columns an estimate needs together, and values inside bins that follow the other columns."""

import numpy as np
import polars as pl

import gapless as gl
from gapless.inference.support import binned, not_measured, reassign_within_bins, varies_inside_bins

SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins=5),
        gl.Categorical("sex", ["F", "M"]),
        gl.Integer("children", bounds=(0, 3)),
    ],
)


def test_only_the_largest_sets_that_no_table_holds_are_named():
    needs = [frozenset({0, 1}), frozenset({0, 1, 2}), frozenset({1}), frozenset()]
    assert not_measured(needs, [frozenset({0, 1})]) == [frozenset({0, 1, 2})]
    assert not_measured(needs, [frozenset({0, 1, 2})]) == []


def test_columns_with_bins_of_several_values():
    assert binned(SCHEMA, [0, 1, 2]) == [0]


def test_values_stay_in_their_bins_and_are_those_that_were_there():
    rng = np.random.default_rng(0)
    ages, sexes = rng.integers(0, 100, 400), rng.integers(0, 2, 400)
    frame = {"age": ages, "sex": np.array(["F", "M"])[sexes], "children": np.zeros(400, dtype=int)}
    table = gl.Table.read(pl.DataFrame(frame), SCHEMA)
    found = reassign_within_bins(table, [0, 1], np.random.default_rng(1)).to_polars()["age"].to_numpy()
    assert sorted(found) == sorted(ages)
    assert (found // 20 == ages // 20).all()


def test_two_columns_whose_last_bins_hold_most_of_their_variance_are_found():
    columns = [gl.Number(name, bounds=(0, 1000), edges=(0, 10, 20, 1000)) for name in ("area", "subsidy")]
    schema = gl.Schema("farms", [*columns, gl.Number("rain", bounds=(0, 20), bins=8)])
    rng = np.random.default_rng(0)
    long_tail, short = rng.exponential(8, 2000), rng.uniform(0, 20, 2000)
    tail = {"area": long_tail + 300 * (rng.random(2000) < 0.02) * rng.random(2000), "rain": short}
    table = gl.Table.read(pl.DataFrame(tail | {"subsidy": 2 * tail["area"]}), schema)
    assert varies_inside_bins(table, [0, 1, 2]) == [0, 1]
    assert varies_inside_bins(table, [0, 2]) == []
    assert varies_inside_bins(table, [0]) == []
