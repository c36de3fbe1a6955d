"""Counts of rows and pairs that break rules."""

import polars as pl

import gapless as gl
from gapless.evaluate.comparison import compare_rules
from gapless.schema import Constraint


def test_violations_in_two_tables_are_counted_by_values():
    columns = [gl.Integer("a", bounds=(0, 99), bins=2), gl.Integer("b", bounds=(0, 99), bins=2, may_be_missing=True)]
    rules = [Constraint("t1.a > t1.b"), Constraint("t1.a < t2.a and t1.b > t2.b"), Constraint("t1.a == t2.a")]
    schema = gl.Schema("p", columns, constraints=rules)
    truth = gl.Table.read(pl.DataFrame({"a": [1, 2, 3, 4], "b": [10, 11, None, 12]}), schema)
    other = gl.Table.read(pl.DataFrame({"a": [1, 2, 2, 4], "b": [3, 2, None, 1]}), schema)
    alone, order, key = compare_rules(truth, other)
    assert (alone.truth.rows, alone.truth.pairs, alone.other.rows, alone.other.share) == (0, None, 1, 0.25)
    assert (order.truth.rows, order.other.rows, order.other.pairs) == (0, 3, 3 / 6)
    assert (key.truth.rows, key.other.rows, key.other.pairs) == (0, 2, 1 / 6)
    assert str(alone) == "0.00% of rows in the truth, 25.00% in the other table: t1.a > t1.b"
    comparison = gl.compare(truth, other)
    assert comparison.rules == (alone, order, key)
    assert "16.667% of pairs: t1.a == t2.a" in str(comparison)
    assert comparison.to_dict()["rules"][1]["other"]["rows"] == 3
