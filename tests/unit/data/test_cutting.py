"""Where bins are cut: by counts, at spikes, and wherever a rule begins to hold."""

import numpy as np

import gapless as gl
from gapless.data.cutting import cut_column, cut_schema

AGE = gl.Integer("age", bounds=(0, 99), bins="learned")


def test_few_cells_are_a_bin_each():
    column = gl.Integer("rooms", bounds=(1, 9), bins="learned")
    assert cut_column(column, np.ones(9), 4).values_size == 9


def test_bins_lie_where_rows_do_and_a_thin_one_is_merged():
    counts = np.where(np.arange(100) < 20, 100.0, 0.0)
    cells = cut_column(AGE, counts, 5).cells
    assert cells[-1].endswith("..99")
    assert int(cells[-1].partition("..")[0]) <= 20
    assert cut_column(AGE, counts, 5, min_rows=1e6).cells == ("0..99",)


def test_a_bin_begins_where_it_must():
    cells = cut_column(AGE, np.ones(100), 2, required_starts=[18]).cells
    assert any(cell.startswith("18..") for cell in cells)


def test_a_schema_is_cut_evenly_without_counts_and_only_where_it_is_to_be_learned():
    schema = gl.Schema("people", [AGE, gl.Integer("pay", bounds=(0, 99), bins=5)])
    cut_to_two = cut_schema(schema, {}, 2)
    assert cut_to_two["age"].values_size == 2
    assert cut_to_two["pay"] == schema["pay"]
