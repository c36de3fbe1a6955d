"""Bins on a line."""

import numpy as np
import pytest

import gapless as gl
from gapless.schema import Number

HEAD = '[table]\nname = "people"\n'


def column(keys: str, name: str = "x") -> str:
    return f"{HEAD}[column.{name}]\n{keys}"


@pytest.mark.parametrize("bins", [1, 3, 7, 49, 99, 100, 101])
def test_equal_bins_of_whole_numbers_cover_all_of_them_once(bins):
    column = gl.Integer("x", bounds=(0, 100), bins=bins)
    binned = column.bin_of(np.arange(101.0))
    assert sorted(set(binned)) == list(range(bins))
    assert np.all(np.diff(binned) >= 0)
    assert column.value_cells[0].split("..")[0] == "0"
    assert column.value_cells[-1].split("..")[-1] == "100"


def test_edges_close_on_the_left_and_the_last_bin_on_both_sides():
    column = gl.Number("x", bounds=(0, 10), edges=(0, 5, 10))
    assert column.cells == ("[0, 5)", "[5, 10]")
    assert column.bin_of(np.array([-1, 0, 4.999, 5, 10, 11])).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("bounds", [(0, 200_000), (-45, 1e5), (1e-6, 1), (0.003, 77), (-1e9, 1e12), (0, 0.5)])
@pytest.mark.parametrize("scale", ["linear", "log", "symlog"])
def test_cells_begin_at_round_numbers(bounds, scale):
    if scale == "log" and bounds[0] <= 0:
        return
    cuts = Number("x", bounds=bounds, scale=scale, bins="learned").grid
    assert (cuts[0], cuts[-1]) == bounds
    assert (np.diff(cuts) > 0).all()
    starts = cuts[1:-1][np.abs(cuts[1:-1]) > 5e-324]
    if scale != "linear":
        assert all(float(f"{cut:.2e}") == cut for cut in starts)  # three digits
        power = 10.0 ** np.floor(np.log10(abs(bounds[1])))
        assert np.isin(np.round(np.arange(2, 9) * power / 10, 12), np.round(cuts, 12)).all()
    assert 40 < len(cuts) < 1500
