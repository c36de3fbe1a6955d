"""Rows that are counted elsewhere: what must not be believed of a table that changed since it was read."""

from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.data.engines.postgres import PostgresDialect
from gapless.data.engines.sql_encoding import ColumnExpressions
from gapless.data.engines.sql_engine import SqlEncoding, SqlEngine

ROWS = 3


class CountingSource:
    """A source that says how many rows have each key."""

    dialect = PostgresDialect()
    is_snapshot = False
    fields = (("a", "text"), ("b", "text"))

    def __init__(self, tally):
        self._tally = np.array(tally)

    def table(self, names):
        return f"people({', '.join(names)})"

    def numbers(self, query, columns):
        assert "GROUP BY" in query
        yield self._tally.reshape(-1, columns)


def count(tally, mask=None):
    """Two columns of two codes, each a separate block: keys 0 and 1, 2 and 3."""
    codings = (ColumnExpressions("r0", None, "c0"), ColumnExpressions("r1", None, "c1"))
    engine = SqlEngine((0, 1), (None, None), {}, SqlEncoding(CountingSource(tally), codings, (0, 1), (2, 2), ROWS))
    engine = engine if mask is None else engine.keep({0: np.array(mask)})
    with mock.patch("gapless.data.engines.sql_engine.BLOCK_CELLS", 2):
        return [counts.tolist() for counts in engine.count([(0,), (1,)], [2, 2], [2, 2])]


def test_each_row_has_a_key_in_each_block():
    assert count([(0, 2), (1, 1), (2, 3)]) == [[2, 1], [3, 0]]
    assert count([(0, 2), (2, 1), (3, 1)], mask=[True, False]) == [[2, 0], [1, 1]]


@pytest.mark.parametrize(
    ("tally", "mask"),
    [
        ([(0, 2), (1, 1), (2, 2)], None),  # a row is gone in one block
        ([(0, 2), (1, 2), (2, 4)], None),  # one came
        ([(0, 2), (1, 1), (2, 1)], [True, False]),  # b is refused by now in one row, which counts twice in a
        ([(0, 3), (2, 3), (-1, 1)], [True, False]),
    ],
)
def test_a_table_that_changed_is_not_counted(tally, mask):
    with pytest.raises(gl.errors.ReadError, match="the table has changed since it was read"):
        count(tally, mask)
