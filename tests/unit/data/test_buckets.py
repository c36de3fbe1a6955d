"""What is refused when pairs of rows are counted, before anything is charged; and rows that are in no pair."""

import polars as pl
import pytest

import gapless as gl
from gapless.data.workload import violating_pairs
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise
from helpers.open_sealed import reveal

SCHEMA = letters_schema((2, 2))
DECIDES = "t1.x0 == t2.x0 and t1.x1 != t2.x1"


@pytest.mark.parametrize(
    ("rule", "buckets", "wrong"),
    [
        ("t1.x0 == 'a'", 3, "is about one row"),
        ("t1.x0 is t2.x0", 3, "cannot be read"),
        ("t1.x0 == t2.x9", 3, "no column 'x9'"),
        (DECIDES, 0, "buckets = 0"),
        (DECIDES, 2.5, "buckets = 2.5"),
    ],
)
def test_what_cannot_be_counted_is_refused(rule, buckets, wrong, tmp_path):
    table = private([("a", "b")], SCHEMA, tmp_path)
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        violating_pairs(table, rule, buckets=buckets)
    assert table.ledger.entries == ()


def test_a_public_table_is_refused():
    with pytest.raises(gl.errors.SealedError, match=r"violating_pairs\(\) takes a PrivateTable"):
        violating_pairs(gl.Table(SCHEMA, [[0], [0]], rows=1), DECIDES, buckets=1)


@pytest.mark.parametrize(
    ("rows", "pairs"),
    [
        ([], [0, 0]),
        ([("a", "a")], [0, 0]),
        ([("a", "a"), ("a", "b")], [1, 0]),
        ([("a", "b"), ("a", "b")], [0, 1]),
        ([("a", "a"), ("a", None), ("a", "b")], [1, 0]),  # a gap is in no bucket
        ([("a", "a"), ("a", "n/a")], [0, 1]),  # not applicable is, and breaks nothing
        ([("a", "a"), ("a", "b"), ("a", "b")], [0, 0]),  # three are no pair
    ],
)
def test_one_bucket_with_exactly_two_rows(rows, pairs, tmp_path):
    table = private(rows, SCHEMA, tmp_path)
    assert reveal(violating_pairs(table, DECIDES, buckets=1), table.ledger).tolist() == pairs


@pytest.mark.parametrize("rows", [[(1, 9), (2, 8)], [(2, 8), (1, 9)]])
def test_a_pair_breaks_a_rule_whichever_of_its_rows_is_read_first(rows, tmp_path):
    """An inequality holds from one side alone, and rows lie in any order."""
    schema = gl.Schema("pay", [gl.Integer("salary", bounds=(0, 9)), gl.Integer("tax", bounds=(0, 9))])
    table = private(pl.DataFrame(rows, schema=["salary", "tax"], orient="row"), schema, tmp_path)
    pairs = violating_pairs(table, "t1.salary < t2.salary and t1.tax > t2.tax", buckets=1)
    assert reveal(pairs, table.ledger).tolist() == [1, 0]


def test_filled_tables_read_every_row_and_required_columns_stay(tmp_path):
    table = private([("a", "b")] * 4, SCHEMA, tmp_path)
    assert violating_pairs(table, DECIDES, buckets=1).reads == {"x0", "x1"}
    assert violating_pairs(table.where("x0", ["a"]), "t1.x1 != t2.x1", buckets=1).reads == {"x0", "x1"}
    laws = [[1 / column.size] * column.size for column in SCHEMA.columns]
    with no_noise():
        assert violating_pairs(table.fill(laws), DECIDES, buckets=1).reads is None
