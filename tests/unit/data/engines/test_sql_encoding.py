"""The coding as SQL: what is refused by its type, where bins begin, and what is said of bad cells."""

import numpy as np
import pytest

import gapless as gl
from gapless.data.engines.postgres import PostgresDialect
from gapless.data.engines.sql_encoding import LOST, REFUSED, bin_starts, cell_error, encode_column

AGE = gl.Integer("age", bounds=(0, 99), bins=4)


@pytest.mark.parametrize(
    ("column", "kind", "wrong"),
    [
        (AGE, "date", "has kind integer in the schema, but type date in the data"),
        (gl.Date("born", bounds=("2000-01-01", "2020-01-01")), "whole", "but type whole in the data"),
        (gl.Date("born", bounds=("2000-01-01", "2020-01-01"), format="%d %B %Y"), "text", "does not read"),
        (gl.Boolean("yes", spelling=("ς", "σ")), "text", "do not lower-case one to one"),
    ],
)
def test_types_that_a_database_might_read_differently_are_refused(column, kind, wrong):
    with pytest.raises(gl.errors.ReadError, match=wrong):
        encode_column(column, kind, 0, PostgresDialect())


def test_bins_begin_where_values_of_memory_do():
    cuts = bin_starts(AGE)
    assert AGE.bin_of(cuts).tolist() == [1, 2, 3]
    assert AGE.bin_of(np.nextafter(cuts, -np.inf)).tolist() == [0, 1, 2]


def test_each_step_names_the_one_before_it():
    steps = encode_column(AGE, "text", 3, PostgresDialect())
    assert "r3" in steps.clean
    assert "t3" in steps.position
    assert "x3" in steps.code
    assert encode_column(AGE, "whole", 3, PostgresDialect()).position is None


def test_bad_cells_raise_the_same_errors_as_in_a_file():
    assert "outside = 'refuse'" in str(cell_error(AGE, REFUSED))
    assert "may_be_missing is not true" in str(cell_error(AGE, LOST))
    assert "find them with a query" in str(cell_error(AGE, LOST))
