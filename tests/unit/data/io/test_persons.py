import datetime as dt
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest

import gapless as gl
from gapless.data.io import persons
from gapless.data.io.persons import NO_ID, PersonNumbers, RowLimit, encode_ids, keyed_hash
from gapless.errors import ReadError, SchemaError
from helpers.open_sealed import reveal

SCHEMA = gl.Schema("visits", [gl.Boolean("well", may_be_missing=True)], person="id")

# By type: ids, and their encodings.
VECTORS = {
    "texts": (
        pl.Series(["1", "1.0", "007", "-0.0", "1e0", "a b", "ä", "日本", "1:2", "-"]),
        ["1:1", "3:1.0", "3:007", "4:-0.0", "3:1e0", "3:a b", "2:ä", "6:日本", "3:1:2", "1:-"],
    ),
    "padded texts": (pl.Series([" 7", "7\t", "\u30007\n", "7\u00a0", "\x1c7"]), ["1:7"] * 4 + ["2:\x1c7"]),
    "missing": (pl.Series([None, "", "  ", "\t"]), [None] * 4),
    "moments as texts": (
        pl.Series(["2024-01-05", "2024-01-05T09:30:00Z", "2024-01-05T10:30:00+01:00"]),
        ["10:2024-01-05", "20:2024-01-05T09:30:00Z", "25:2024-01-05T10:30:00+01:00"],
    ),
    "whole numbers": (pl.Series([1, 7, -12, None, 2**63 - 1]), ["1:1", "1:7", "3:-12", None, "19:9223372036854775807"]),
    "small numbers": (pl.Series([1, None], dtype=pl.UInt8), ["1:1", None]),
    "categories": (pl.Series(["7", " 7 ", None], dtype=pl.Categorical), ["1:7", "1:7", None]),
    "nothing": (pl.Series([None, None]), [None, None]),
}


@pytest.mark.parametrize("name", VECTORS)
def test_ids_have_one_text(name):
    ids, encoded = VECTORS[name]
    assert encode_ids(pl.DataFrame({"id": ids}), ["id"]).to_list() == encoded


def test_an_id_of_several_parts_is_missing_only_if_all_parts_are():
    frame = pl.DataFrame(
        {"household": ["1", "1", "11", None, "-", None, ""], "number": [11, None, 1, 1, None, None, None]}
    )
    encoded = encode_ids(frame, ["household", "number"]).to_list()
    assert encoded == ["1:12:11", "1:1-", "2:111:1", "-1:1", "1:--", None, None]


REFUSED = {
    "floating numbers": pl.Series([1.0, -0.0, None]),
    "decimals": pl.Series(["1.0"]).cast(pl.Decimal(10, 2)),
    "booleans": pl.Series([True]),
    "dates": pl.Series([dt.date(2024, 1, 5)]),
    "moments": pl.Series([dt.datetime(2024, 1, 5, tzinfo=dt.UTC)]),
    "lists": pl.Series([[1]]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ids_that_engines_write_differently_are_refused_by_type(name, tmp_path):
    """Before anything is charged, and without a cell."""
    frame = pl.DataFrame({"id": REFUSED[name]}).with_columns(well=pl.lit("true"))
    ledger = tmp_path / "l.ledger"
    with pytest.raises(ReadError, match=r"the id 'id' has type \w+, which engines write differently") as error:
        gl.read(frame, SCHEMA, protect=gl.Persons("id", 1), budget=gl.Budget(1, 0), ledger=ledger)
    assert "write 'id' as text or as whole numbers" in error.value.hint
    assert not ledger.exists()


def test_whole_numbers_that_pandas_made_floating_are_refused(tmp_path):
    frame = pd.DataFrame({"id": [1, None], "well": ["true", "true"]})
    with pytest.raises(ReadError, match="has type Float64"):
        gl.read(frame, SCHEMA, protect=gl.Persons("id", 1), budget=gl.Budget(1, 0), ledger=tmp_path / "l.ledger")
    ids = gl.read(
        frame.astype({"id": "Int64"}),
        SCHEMA,
        protect=gl.Persons("id", 1),
        budget=gl.Budget(1, 0),
        ledger=tmp_path / "l.ledger",
    )
    assert ids.schema.names == ("well",)


@pytest.mark.parametrize("engine", ["memory", "disk", "duckdb"])
def test_data_without_the_id_are_refused(engine, tmp_path):
    pl.DataFrame({"idd": ["1"], "well": ["true"]}).write_parquet(tmp_path / "t.parquet")
    schema = gl.Schema("visits", SCHEMA.columns, person="id", ignore=["idd"])
    with pytest.raises(SchemaError, match="the data have no column 'id', which is the id of a person") as error:
        gl.read(tmp_path / "t.parquet", schema, protect=gl.Persons("id", 1), budget=gl.Budget(1, 0), engine=engine)
    assert "idd" in error.value.hint
    assert "or remove person and rows_per_person from the schema, if these are synthetic rows" in error.value.hint


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_no_error_quotes_the_first_line_of_a_file_without_a_header(engine, tmp_path):
    """It is a row of data."""
    (tmp_path / "t.csv").write_text("PAT-17,true\nPAT-18,false\n")
    given = {"protect": gl.Persons("id", 1), "budget": gl.Budget(1, 0), "engine": engine}
    with pytest.raises(SchemaError, match="the data have none of the schema's columns") as error:
        gl.read(tmp_path / "t.csv", SCHEMA, **given)
    assert "PAT" not in f"{error.value}{error.value.hint}"


def test_the_keyed_hash_is_that_of_databases():
    """Computed by `sha256sum`, twice."""
    expected = "fa35c74b52ae53875410dc431b1be508997e5943204cf0e87beac123a679e36e"
    assert keyed_hash(b"k" * 32, b"1:70,2;1").hex() == expected


def test_persons_are_numbered_over_parts_of_a_table():
    numbering = PersonNumbers(["id"])
    assert numbering.numbers(pl.DataFrame({"id": ["b", None, "a", " b"]})).tolist() == [0, NO_ID, 1, 0]
    assert numbering.numbers(pl.DataFrame({"id": ["", "c", "a"]})).tolist() == [NO_ID, 2, 1]
    assert numbering.ids == ["1:b", "1:a", "1:c"]


def test_rows_are_held_in_groups_of_persons():
    """A group has the rows of some persons, each with all its rows; persons with few rows are in none."""
    people = np.repeat(np.arange(50, dtype=np.int32), 4)
    people[:3] = NO_ID  # so person 0 has one row
    seen = []

    def columns_of(chosen):
        seen.append(people[chosen])
        return [np.zeros(chosen.sum(), dtype=np.uint8)]

    with mock.patch.object(persons, "GROUP_BYTES", 26 * 20):
        kept = persons.kept_rows(
            people, [str(n) for n in range(50)], RowLimit(("id",), 3, b"k" * 32), width=1, columns_of=columns_of
        )
    assert max(map(len, seen)) <= 24
    assert sorted(np.concatenate(seen)) == sorted(people[people > 0])
    assert kept.sum() == 4 + 49 * 3


def test_a_limit_does_not_show_its_key():
    assert "key" not in repr(RowLimit(("id",), 3, b"secret"))


@pytest.mark.parametrize("engine", ["memory", "disk"])
def test_an_id_whose_name_a_spreadsheet_would_run_is_found(engine, tmp_path):
    """gapless writes such a name with an apostrophe."""
    (tmp_path / "t.csv").write_text("'=id,well\n1,true\n1,false\n")
    schema = gl.Schema("visits", SCHEMA.columns, person="=id")
    given = {"protect": gl.Persons("=id", 1), "budget": gl.Budget(1, 0), "engine": engine}
    table = gl.read(tmp_path / "t.csv", schema, ledger=tmp_path / "l.ledger", **given)
    assert reveal(table.marginal(()), table.ledger) == 1
