"""Texts that spreadsheets would run: escaped in text files, and read back as they were."""

import csv
import gzip
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given

import gapless as gl
from gapless.data.io.spreadsheets import escapes, is_formula
from helpers.examples import examples
from helpers.open_sealed import reveal

STARTS = ("=", "+", "-", "@", "\t", "\r")
parts = st.tuples(st.sampled_from(["", "'", "''"]), st.sampled_from([*STARTS, "", "a"]), st.text("ab'=-1", max_size=3))
texts = parts.map("".join).filter(lambda text: text.strip() == text and text)
levels = st.lists(texts, min_size=2, max_size=6, unique=True)


def column_of(path):
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t" if ".tsv" in path.name else ","))


@examples(50)
@given(found=levels, name=texts, ending=st.sampled_from([".csv", ".csv.gz", ".tsv"]))
@example(found=["=a", "'=a", "''=a"], name="=cmd|' /C calc'!A0", ending=".csv")
@example(found=["-5", "'-5", "-5a"], name="+sum", ending=".csv")
def test_a_table_comes_back_from_a_text_file_and_no_cell_is_a_formula(found, name, ending):
    schema = gl.Schema("people", [gl.Categorical(name, levels=found), gl.Number("x", bounds=(-9, 9), bins=6)])
    codes = np.arange(len(found) * 3) % len(found)
    table = gl.Table(schema, [codes, codes % 6], rows=len(codes))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t{ending}"
        table.write(path)
        header, *rows = column_of(path)
        assert not any(is_formula(cell) for cell in (*header, *(row[0] for row in rows)))
        assert all(float(row[1]) < 10 for row in rows)  # numbers are never escaped
        again = gl.Table.read(path, schema)
        assert np.array_equal(again.codes[0], table.codes[0])
        for engine in ("memory", "disk"):
            ledger = path.with_suffix(".ledger")
            read = gl.read(path, schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=ledger, engine=engine)
            counts = reveal(read.marginal(name), read.ledger)
            assert counts.tolist() == np.bincount(codes, minlength=len(found)).tolist()


@given(st.lists(texts, max_size=8, unique=True))
def test_no_text_is_written_as_another_one(declared):
    written = escapes(declared)
    assert set(written) == {text for text in declared if is_formula(text)}
    assert len({*written.values(), *declared}) == len(written) + len(declared)
    assert all(escaped.startswith("'") for escaped in written.values())


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@sum", "\tx", "\rx", "- none", "-1-1", "=-5", "--5", "-5%x"])
def test_finds_texts_that_spreadsheets_execute(text):
    assert is_formula(text)


@pytest.mark.parametrize("text", ["-5", "+5.2", "-1,234.5", "-.5", "-1e-5", "-5%", "-", "", "a=b", "'=a", "5-3"])
def test_numbers_and_plain_texts_are_left_alone(text):
    assert not is_formula(text)


def test_codes_of_gaps_spellings_and_dates_are_escaped_too(tmp_path):
    schema = gl.Schema.from_toml(
        '[table]\nname = "t"\n[column.smoker]\nkind = "boolean"\nspelling = ["=no", "=yes"]\nmay_be_missing = true\n'
        'missing = ["@refused"]\n[column.day]\nkind = "date"\nbounds = [2020-01-01, 2020-12-31]\nformat = "=%Y-%m-%d"\n'
        '[column.x]\nkind = "integer"\nbounds = [-2, 2]\nmay_be_missing = true\nmissing = ["-x"]\n'
    )
    days = ["=2020-02-03", "=2020-03-04", "=2020-04-05"]
    frame = pl.DataFrame({"smoker": ["=no", "=yes", "@refused"], "day": days, "x": ["-2", "-x", "1"]})
    table = gl.Table.read(frame, schema)
    table.write(tmp_path / "t.csv")
    _, *rows = column_of(tmp_path / "t.csv")
    assert rows == [
        ["'=no", "'=2020-02-03", "-2"],
        ["'=yes", "'=2020-03-04", "'-x"],
        ["'@refused", "'=2020-04-05", "1"],
    ]
    again = gl.Table.read(tmp_path / "t.csv", schema)
    assert all(np.array_equal(before, after) for before, after in zip(table.codes, again.codes, strict=True))
    assert again.to_polars()["day"].to_list() == table.to_polars()["day"].to_list()


def test_the_schema_switches_it_off(tmp_path):
    schema = gl.Schema("t", [gl.Categorical("=a", levels=["=x", "'=x"])], escape_formulas=False)
    table = gl.Table(schema, [[0, 1, 1]], rows=3)
    table.write(tmp_path / "t.csv")
    assert column_of(tmp_path / "t.csv") == [["=a"], ["=x"], ["'=x"], ["'=x"]]
    assert gl.Table.read(tmp_path / "t.csv", schema).codes[0].tolist() == [0, 1, 1]
    assert gl.Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(gl.errors.SchemaError, match="escape_formulas must be true or false, got 'no'"):
        gl.Schema("t", [gl.Boolean("a")], escape_formulas="no")


def test_a_file_that_others_wrote_is_read_as_it_is(tmp_path):
    (tmp_path / "t.csv").write_text("a\n=x\n'=y\ny\n")
    schema = gl.Schema("t", [gl.Categorical("a", levels=["=x", "'=y", "y"])])
    assert gl.Table.read(tmp_path / "t.csv", schema).codes[0].tolist() == [0, 1, 2]
