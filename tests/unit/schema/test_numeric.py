"""Columns on a line: their cells, scales and resolutions, and where bins are cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.constraints.forbidden import constraints_of, required_cuts
from gapless.data.cutting import MOST_SINGLE_CELL_BINS, cut_column, cut_schema
from gapless.errors import SchemaError
from gapless.schema import Constraint, Date, DateTime, Integer, Number, Schema


def test_an_integer_has_a_cell_for_each_value_while_codes_last():
    assert Integer("age", bounds=(18, 90), bins=3).finest.size == 73
    wide = Integer("votes", bounds=(5, 157_608), scale="log", bins="learned")
    assert wide.cells[:3] == ("5", "6", "7")
    assert wide.cells[-2:] == ("150000..154999", "155000..157608")
    assert 500 < wide.size < 1025


def test_a_number_has_a_cell_for_zero_and_a_thousand_others():
    pay = Number("pay", bounds=(-10, 90), bins="learned")
    assert pay.size == 1001
    zero = pay.cells.index("0")
    assert pay.bin_of(np.array([0.0, 5e-324, -5e-324])).tolist() == [zero, zero + 1, zero - 1]
    assert (pay.draw(np.full(20, zero), np.random.default_rng(0)) == 0).all()


def test_zero_has_a_cell_on_every_long_line():
    gain = Integer("gain", bounds=(0, 10**10), bins="learned")
    assert gain.cells[0] == "0"
    assert Integer("gain", bounds=(0, 10**10), edges=(0, 10**9, 10**10)).finest.cells[0] == "0"
    assert Number("loss", bounds=(-5, 0), bins="learned").grid[-1] == 0
    cents = Number("cents", bounds=(-5, 10**7), resolution=0.01, bins="learned")
    assert "0" in cents.cells


def test_a_resolution_keeps_multiples_as_they_are_written():
    price = Number("price", bounds=(0, 400), resolution=0.01, bins="learned")
    texts = [f"{cents / 100:.2f}" for cents in range(0, 40_001, 7)]
    codes = price.bin_of(np.array([float(text) for text in texts]))
    assert codes.tolist() == list(range(0, 40_001, 7))
    drawn = price.draw(codes, np.random.default_rng(0))
    assert [f"{value:.2f}" for value in drawn] == texts
    assert (drawn == np.array([float(text) for text in texts])).all()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bounds": (0.005, 1), "resolution": 0.01}, "not multiples"),
        ({"bounds": (0, 1), "resolution": 0}, "resolution = 0"),
        ({"bounds": (0, 1), "scale": "log"}, "needs a lower bound above 0, but its bounds are"),
        ({"bounds": (0, 1), "scale": "cubic"}, "scale = 'cubic'"),
        ({"bounds": (0, 1), "bins": "lerned"}, "bins = 'lerned'"),
        ({"bounds": (0, 1), "bins": "learned", "edges": (0, 1)}, "bins, edges"),
    ],
)
def test_invalid_declarations_of_numbers_are_errors(keys, message):
    with pytest.raises(SchemaError, match=message):
        Number("x", **keys)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"heaping": 5}, "column 'x' has heaping = 5, but heaping must be a list of steps"),
        ({"heaping": [0.5]}, "has heaping at 0.5, which is no multiple of 1, the step between its values"),
        ({"heaping": [1]}, "has heaping at 1, which is no multiple of 1"),
        ({"heaping": ["5"]}, "has heaping at '5', which is no multiple of 1"),
        ({"heaping": [500]}, "has none or more than 8125 multiples of 500 within its bounds"),
        ({"bounds": (1, 10**6), "heaping": [10]}, "has none or more than 8125 multiples of 10 within its bounds"),
    ],
)
def test_invalid_heaping_is_an_error(column, message):
    with pytest.raises(SchemaError) as error:
        Integer("x", **{"bounds": (1, 95), **column})
    assert message in error.value.message
    assert str(error.value.hint).startswith("write ")


def test_heaping_needs_steps_between_values():
    with pytest.raises(SchemaError, match="has heaping, but no resolution"):
        Number("x", bounds=(0, 1), heaping=[0.5])
    wage = Number("wage", bounds=(0, 50), resolution=0.01, heaping=[0.5, 1])
    assert np.bincount(wage.heap_of_cell).tolist() == [50, 51, 4900]


def test_heaping_is_kept_in_a_schema_file():
    schema = Schema("s", [Integer("cigarettes", bounds=(1, 95), heaping=[5, 10])])
    assert "heaping = [5, 10]" in schema.to_toml()
    assert Schema.from_toml(schema.to_toml()) == schema


def test_round_values_have_cells_of_their_own_on_long_lines():
    pay = Integer("pay", bounds=(0, 200_000), heaping=(1000, 5000), bins="learned")
    assert pay.cells[5:8] == ("800..999", "1000", "1001..1199")
    assert np.bincount(pay.heap_of_cell).tolist() == [160, 41, 1000]
    assert Integer("pay", bounds=(0, 200_000), heaping=(1000,), edges=(0, 1500, 200_000)).finest.bin_of(
        np.array([999.0, 1000.0, 1001.0])
    ).tolist() == [5, 6, 7]


def test_the_last_value_may_be_a_bin_by_itself():
    age = Integer("age", bounds=(17, 90), edges=(17, 65, 90, 91))
    assert age.cells == ("17..64", "65..89", "90")
    day = Date("day", bounds=("2020-01-01", "2020-12-31"), edges=("2020-01-01", "2020-12-31", "2021-01-01"))
    assert day.cells == ("2020-01-01..2020-12-30", "2020-12-31")
    with pytest.raises(SchemaError, match="outside its bounds"):
        Integer("age", bounds=(17, 90), edges=(17, 92))


COLUMNS = [
    Integer("a", bounds=(0, 99), bins=7, may_be_missing=True, missing=("", "-1")),
    Integer("b", bounds=(-5, 10**6), scale="symlog", bins=12),
    Number("c", bounds=(-2.5, 7.1), bins=10),
    Number("d", bounds=(0, 1), edges=(0, 0.1, 0.30000001, 1)),
    Number("e", bounds=(0.1, 1e6), scale="log", quantiles=(3.3, 99)),
    Number("f", bounds=(0, 10), resolution=0.25, bins=4),
    Date("g", bounds=("1900-01-01", "9999-12-31"), bins=5),
    DateTime("h", bounds=("2020-01-01", "2021-01-01"), resolution="hour", bins="learned"),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_cells_refine_bins_and_are_those_of_every_cut(column):
    cells_as_bins = column.finest
    assert cells_as_bins.finest == cells_as_bins
    assert cells_as_bins.size >= column.size
    lower, upper = column.bin_ranges()[0][0], column.bin_ranges()[1][-1]
    places = np.sort(np.random.default_rng(0).uniform(lower, upper, 500))
    places = np.round(places / column.step) * column.step if column.step else places
    places = np.concatenate([np.clip(places, lower, upper), column.bin_ranges()[0], column.bin_ranges()[1]])
    assert (cells_as_bins.regroup(column)[cells_as_bins.bin_of(places)] == column.bin_of(places)).all()
    cells = np.random.default_rng(1).choice(np.arange(1, cells_as_bins.values_size), 3, replace=False)
    starts = np.sort(np.append(cells_as_bins.bin_ranges()[0][cells], lower))
    again = cells_as_bins.with_cuts([*starts, cells_as_bins.grid[-1]]) if cells_as_bins.has_learned_bins else column
    assert np.array_equal(again.finest.bin_ranges(), cells_as_bins.bin_ranges())


def test_values_in_a_bin_are_drawn_as_its_cells_were_counted():
    hours = Integer("hours", bounds=(0, 9), edges=(0, 5, 9), may_be_missing=True)
    cells = np.array([0, 3, 0, 1, 0, 0, 0, 0, 0, 0.0])
    drawn = hours.draw_positions(cells, np.array([0] * 8000 + [1] * 2000 + [2]), np.random.default_rng(0))
    assert set(drawn[:8000]) == {1.0, 3.0}
    assert abs((drawn[:8000] == 1).mean() - 0.75) < 0.025  # five standard deviations
    assert set(drawn[8000:-1]) == {5.0, 6.0, 7.0, 8.0, 9.0}  # nothing is known: evenly
    assert np.isnan(drawn[-1])


def test_a_spike_has_a_bin_and_thin_bins_are_merged():
    hours = Integer("hours", bounds=(0, 99), bins="learned")
    counts = np.full(100, 10.0)
    counts[40] = 1000
    binned = cut_column(hours, counts, 8, min_rows=60)
    assert "40" in binned.cells
    assert all(counts[bins].sum() >= 60 for bins in _cells_of(binned, hours))
    assert cut_column(hours, counts, 8, min_rows=1e6).cells == ("0..99",)


def _cells_of(binned, cells):
    groups = cells.regroup(binned)
    return [groups == code for code in range(binned.size)]


def test_a_long_tail_gets_bins_of_its_own():
    delay = Integer("delay", bounds=(0, 999), bins="learned")
    counts = np.concatenate([np.full(50, 1000.0), np.full(950, 1.0)])
    ends = cut_column(delay, counts, 20, min_rows=20).bin_ranges()[0]
    assert (ends >= 50).sum() >= 4
    assert (ends < 50).sum() >= 8


def test_few_values_are_a_bin_each():
    assert (
        cut_column(
            Integer("s", bounds=(1, MOST_SINGLE_CELL_BINS), bins="learned"),
            np.zeros(MOST_SINGLE_CELL_BINS),
            2,
            min_rows=99,
        ).size
        == MOST_SINGLE_CELL_BINS
    )


@given(st.lists(st.floats(0, 1000), min_size=30, max_size=30), st.integers(1, 20), st.floats(0, 500))
def test_bins_are_at_most_as_many_as_asked_for_and_none_is_thin(counts, bins, least):
    column = Integer("x", bounds=(0, 29), bins="learned")
    counts = np.array(counts)
    binned = cut_column(column, counts, bins, min_rows=least)
    if bins < 30:
        assert binned.size <= bins
        if binned.size > 1:
            assert min(counts[cells].sum() for cells in _cells_of(binned, column)) >= min(least, counts.sum())


def test_bins_begin_where_a_rule_does():
    rule = Constraint("t1.age < 16 and t1.pay >= 1000")
    schema = Schema(
        "people",
        [Integer("age", bounds=(0, 99), bins="learned"), Integer("pay", bounds=(0, 60_000), bins="learned")],
        constraints=[rule],
    )
    assert required_cuts(schema) == {"age": [16], "pay": [1000]}
    binned = cut_schema(schema, {}, 1)
    assert [column.cells for column in binned.columns] == [("0..15", "16..99"), ("0..999", "1000..60000")]
    (forbidden,), _, _ = constraints_of(binned)
    assert forbidden.table.tolist() == [[False, True], [False, False]]
    assert binned.is_cut_from(schema)
    assert not binned.is_cut_from(schema.with_columns({"age": Integer("age", bounds=(0, 98), bins="learned")}))
    assert not binned.is_cut_from(Schema("others", schema.columns, constraints=[rule]))


def test_a_column_contains_only_its_values():
    assert gl.Integer("x", bounds=(0, 5)).contains(np.array([0, 2.5, 5, 6])).tolist() == [True, False, True, False]
    assert gl.Number("x", bounds=(0, 5)).contains(np.array([0, 2.5, 5, 6])).tolist() == [True, True, True, False]
