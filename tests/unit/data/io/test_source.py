"""Files and frames as they come: the same codes from every source, literal names, and errors that say what to do."""

import datetime as dt
import errno
import glob
import gzip
import itertools
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gapless as gl
from gapless.data.io import encode, source, text_files
from gapless.data.io.reading import ledger_beside
from gapless.data.io.source import find_files, is_pattern
from gapless.missing import check
from helpers.open_sealed import reveal
from helpers.workbooks import workbook

SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Ordinal("grade", [1, 2, 3], may_be_missing=True),
        gl.Integer("age", bounds=(0, 9), may_be_missing=True, missing=["", gl.MissingCode(-8, "refused")]),
        gl.Number("income", bounds=(0, 100), bins=4, may_be_missing=True),
        gl.Boolean("smoker", may_be_missing=True),
        gl.Date("born", bounds=(dt.date(2000, 1, 1), dt.date(2000, 1, 10)), may_be_missing=True),
        gl.DateTime("seen", bounds=("2020-01-01", "2020-01-02"), resolution="hour", bins=25, may_be_missing=True),
    ],
    ignore=("id",),
)
CODES = [[0, 1, 2], [0, 2, 3], [3, 11, 10], [0, 3, 4], [1, 0, 2], [1, 9, 10], [11, 24, 25]]
CSV = """\
id,sex,grade,age,income,smoker,born,seen
1,F,1,3,0.5,true,2000-01-02,2020-01-01T11:30:00
2,M,3,-8,100,false,2000-01-10,2020-01-02 00:00
3,,,,,,,
"""
FRAME = pl.DataFrame(
    {
        "id": [1, 2, 3],
        "sex": ["F", "M", None],
        "grade": [1, 3, None],
        "age": [3, -8, None],
        "income": [0.5, 100, None],
        "smoker": [True, False, None],
        "born": [dt.date(2000, 1, 2), dt.date(2000, 1, 10), None],
        "seen": [dt.datetime(2020, 1, 1, 11, 30), dt.datetime(2020, 1, 2), None],  # noqa: DTZ001 plain
    }
)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def parquet(folder):
    FRAME.write_parquet(folder / "p.parquet")
    return folder / "p.parquet"


def loose_pandas():
    """What pandas makes of such data if nobody takes care: floats for integers, objects for booleans."""
    frame = FRAME.to_pandas()
    return frame.assign(
        grade=[1.0, 3.0, np.nan],
        age=[3.0, -8.0, np.nan],
        smoker=pd.Series([True, False, None], dtype=object),
        born=pd.Series([dt.date(2000, 1, 2), dt.date(2000, 1, 10), None], dtype=object),
    )


def nullable_pandas():
    return FRAME.to_pandas().assign(
        sex=pd.Categorical(["F", "M", None], categories=["M", "F"], ordered=True),
        grade=pd.Categorical([1, 3, None]),
        age=pd.array([3, -8, None], dtype="Int64"),
        smoker=pd.array([True, False, None], dtype="boolean"),
        born=pd.to_datetime(["2000-01-02", "2000-01-10", None]),
    )


def zoned(frame):
    return frame.with_columns(pl.col("seen").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))


SOURCES = {
    "csv": lambda folder: write(folder / "p.csv", CSV),
    "csv as text": lambda folder: str(write(folder / "p.csv", CSV)),
    "csv.gz": lambda folder: write(folder / "p.csv.gz", gzip.compress(CSV.encode())),
    "tsv": lambda folder: write(folder / "p.tsv", CSV.replace(",", "\t")),
    "tsv.gz": lambda folder: write(folder / "p.TSV.gz", gzip.compress(CSV.replace(",", "\t").encode())),
    "csv with CRLF": lambda folder: write(folder / "p.csv", CSV.replace("\n", "\r\n")),
    "csv with CR": lambda folder: write(folder / "p.csv", CSV.replace("\n", "\r")),
    "csv with a BOM": lambda folder: write(folder / "p.csv", CSV.encode("utf-8-sig")),
    "csv with blank lines": lambda folder: write(folder / "p.csv", "\n" + CSV.replace("\n", "\n\n") + " \n\n"),
    "csv with spaces": lambda folder: write(folder / "p.csv", CSV.replace(",", " , ")),
    "csv in quotes": lambda folder: write(
        folder / "p.csv", "\n".join(",".join(f'"{c}"' for c in line.split(",")) for line in CSV.splitlines())
    ),
    "csv with zones": lambda folder: write(
        folder / "p.csv", CSV.replace("11:30:00", "20:30:00+09:00").replace("02 00:00", "02T00:00:00Z")
    ),
    "parquet": parquet,
    "polars": lambda _: FRAME,
    "polars in text": lambda _: FRAME.cast(pl.String),
    "polars with a zone": lambda _: zoned(FRAME),
    "polars lazy": lambda _: FRAME.lazy(),
    "pandas": lambda _: FRAME.to_pandas(),
    "pandas, loose": lambda _: loose_pandas(),
    "pandas, nullable": lambda _: nullable_pandas(),
    "pandas on Arrow": lambda _: FRAME.to_pandas(use_pyarrow_extension_array=True),
    "pandas with a zone": lambda _: zoned(FRAME).to_pandas(),
    "Arrow": lambda _: FRAME.to_arrow(),
    "Arrow with a dictionary": lambda _: FRAME.with_columns(pl.col("sex").cast(pl.Categorical)).to_arrow(),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_same_data_give_the_same_codes(source, tmp_path):
    table = gl.Table.read(source(tmp_path), SCHEMA)
    assert [codes.tolist() for codes in table.codes] == CODES
    assert table.rows == 3


def test_other_encodings_are_read_when_named(tmp_path):
    schema = gl.Schema("t", [gl.Categorical("ort", ["Köln"]), gl.Boolean("b")])
    for encoding in ("latin-1", "cp1252", "utf-16", "UTF_8"):
        path = write(tmp_path / "o.csv", "ort,b\nKöln,1\n".encode(encoding))
        assert gl.Table.read(path, schema, encoding=encoding).codes[0].tolist() == [0]
    for encoding in ("utf-16-le", "utf-16-be"):  # which take the mark at the start for a letter
        path = write(tmp_path / "o.csv", "\ufeffort,b\nKöln,1\n".encode(encoding))
        assert gl.Table.read(path, schema, encoding=encoding).codes[0].tolist() == [0]
        assert gl.Table.read(path, schema, encoding="utf-16").codes[0].tolist() == [0]
    loose = gl.Schema("t", [gl.Categorical("ort", ["Köln"], may_be_missing=True, outside="missing"), gl.Boolean("b")])
    for end in ("\n", "\r"):  # a cell may hold anything: only the header is looked at
        path = write(tmp_path / "o.csv", f"ort,b{end}\0,1{end}Köln,1{end}")
        assert gl.Table.read(path, loose).rows == 2
    path = write(tmp_path / "o.csv", "ort,b\nKöln,1\n".encode("utf-16"))
    with pytest.raises(gl.errors.ReadError, match=r"is not latin-1 text\n  Try: .*encoding=\"utf-16"):
        gl.Table.read(path, schema, encoding="latin-1")


def test_quoted_cells_may_hold_separators_quotes_and_line_breaks(tmp_path):
    schema = gl.Schema("t", [gl.Categorical("a", ["x, y", 'say "z"', "two\nlines"]), gl.Boolean("b")])
    path = write(tmp_path / "q.csv", 'a,b\n"x, y",1\n"say ""z""",0\n"two\nlines",1\n')
    assert gl.Table.read(path, schema).codes[0].tolist() == [0, 1, 2]


def test_columns_may_come_in_another_order(tmp_path):
    table = gl.Table.read(FRAME.select(reversed(FRAME.columns)), SCHEMA)
    assert [codes.tolist() for codes in table.codes] == CODES


@pytest.mark.parametrize("text", ["sex\n", "sex", "sex,b\n", "sex,b\r\n\r\n"])
def test_a_header_without_rows_is_an_empty_table(text, tmp_path):
    schema = gl.Schema("t", [gl.Categorical("sex", ["F", "M"])], ignore=("b",))
    assert gl.Table.read(write(tmp_path / "h.csv", text), schema).rows == 0


@pytest.mark.parametrize("frame", [FRAME.clear(), FRAME.clear().to_pandas(), FRAME.clear().to_arrow()])
def test_frames_without_rows_are_empty_tables(frame):
    table = gl.Table.read(frame, SCHEMA)
    assert table.rows == 0
    assert all(len(codes) == 0 for codes in table.codes)


def test_one_row_and_all_missing_columns_are_read(tmp_path):
    table = gl.Table.read(FRAME[2:], SCHEMA)
    assert [codes.tolist() for codes in table.codes] == [[codes[-1]] for codes in CODES]
    empty = pl.DataFrame({"a": [None, None], "b": [np.nan, np.nan]})
    schema = gl.Schema("t", [gl.Categorical("a", ["x"], may_be_missing=True), gl.Number("b", bounds=(0, 1), bins=2)])
    with pytest.raises(
        gl.errors.ReadError, match="column 'b' has gaps or unreadable cells, but may_be_missing is not true"
    ):
        gl.Table.read(empty, schema)
    schema = gl.Schema("t", [schema.columns[0], gl.Number("b", bounds=(0, 1), bins=2, may_be_missing=True)])
    assert [codes.tolist() for codes in gl.Table.read(empty, schema).codes] == [[1, 1], [2, 2]]


# ---------------------------------------------------------------------- gaps and cells outside


def codes_of(column, cells, dtype=None):
    return gl.Table.read(pl.DataFrame({"x": pl.Series(cells, dtype=dtype)}), gl.Schema("t", [column])).codes[0].tolist()


KINDS_OF_GAPS = ("", gl.MissingCode("NA"), gl.MissingCode(-8, "refused"), gl.MissingCode("-7", "not-applicable"))


@pytest.mark.parametrize(
    ("column", "value", "size"),
    [
        (gl.Categorical("x", ["a", "b"], may_be_missing=True, missing=KINDS_OF_GAPS), "b", 2),
        (gl.Ordinal("x", ["a", "b"], may_be_missing=True, missing=KINDS_OF_GAPS), "b", 2),
        (gl.Boolean("x", may_be_missing=True, missing=KINDS_OF_GAPS), "Yes", 2),
        (gl.Integer("x", bounds=(0, 1), may_be_missing=True, missing=KINDS_OF_GAPS), "1", 2),
        (gl.Number("x", bounds=(0, 1), bins=2, may_be_missing=True, missing=KINDS_OF_GAPS), "1.0", 2),
        (
            gl.Date("x", bounds=("2020-01-01", "2020-01-02"), may_be_missing=True, missing=KINDS_OF_GAPS),
            "2020-01-02",
            2,
        ),
        (
            gl.DateTime("x", bounds=("2020-01-01", "2020-01-02"), bins=2, may_be_missing=True, missing=KINDS_OF_GAPS),
            "2020-01-02T00:00:00",
            2,
        ),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_gap_codes_keep_their_kind_and_not_applicable_is_a_cell(column, value, size):
    applicable, unknown, refused = size, size + 1, size + 2
    cells = [value, "-7", " -7.0 ", "", None, "NA", "-8", "-8.00", "rubbish"]
    expected = [size - 1, applicable, applicable, unknown, unknown, unknown, refused, refused, unknown]
    assert codes_of(column, cells) == expected


def test_gap_codes_are_found_in_numeric_frames_too():
    column = gl.Integer("x", bounds=(0, 1), may_be_missing=True, missing=KINDS_OF_GAPS)
    assert codes_of(column, [1, -7, -8, None]) == [1, 2, 4, 3]
    assert codes_of(column, [1.0, -7.0, -8.0, np.nan], pl.Float64) == [1, 2, 4, 3]


def test_an_empty_cell_that_means_not_applicable_is_so_in_every_source():
    codes = (gl.MissingCode("", "not-applicable"), "NA")
    column = gl.Integer("x", bounds=(0, 1), may_be_missing=True, missing=codes)
    assert codes_of(column, ["", None, "NA"]) == [2, 2, 3]
    assert codes_of(column, [1, None], pl.Int64) == [1, 2]
    assert codes_of(column, [1.0, np.nan], pl.Float64) == [1, 2]
    column = gl.Categorical("x", ["1.5"], may_be_missing=True, missing=codes)
    assert codes_of(column, [1.5, np.nan], pl.Float64) == [0, 1]


def test_booleans_are_read_in_their_usual_spellings():
    cells = ["true", "T", "YES", "y", "1", "1.0", "false", "f", "No", "N", "0"]
    assert codes_of(gl.Boolean("x"), cells) == [1] * 6 + [0] * 5
    assert codes_of(gl.Boolean("x"), [1.0, 0.0]) == [1, 0]


OUTSIDE = {
    "integer": (gl.Integer, {"bounds": (0, 9)}, ["-1", "10", "3.5", "3"], [0, 9, 3, 3]),
    "number": (gl.Number, {"bounds": (0, 10)}, ["-1", "inf", "1e9", "3"], [0, 9, 9, 3]),
    "date": (
        gl.Date,
        {"bounds": ("2020-01-01", "2020-01-10")},
        ["1900-01-01", "2021-01-01", "2020-01-11", "2020-01-04"],
        [0, 9, 9, 3],
    ),
    "datetime": (
        gl.DateTime,
        {"bounds": ("2020-01-01", "2020-01-10"), "resolution": "day"},
        ["1900-01-01", "2021-01-01T10:00", "2020-01-11", "2020-01-04"],
        [0, 9, 9, 3],
    ),
}


@pytest.mark.parametrize(("kind", "facts", "cells", "clamped"), OUTSIDE.values(), ids=OUTSIDE)
def test_values_outside_are_clamped_become_gaps_or_are_refused(kind, facts, cells, clamped):
    assert codes_of(kind("x", **facts, outside="clamp"), cells) == clamped
    assert codes_of(kind("x", **facts, outside="missing", may_be_missing=True), cells) == [10, 10, 10, 3]
    for cell in cells[:3]:
        with pytest.raises(
            gl.errors.ReadError, match="column 'x' has cells outside its schema, and outside = 'refuse'"
        ):
            codes_of(kind("x", **facts, outside="refuse"), [cell])
    assert codes_of(kind("x", **facts, outside="refuse"), cells[3:]) == [3]


@pytest.mark.parametrize("kind", [gl.Categorical, gl.Ordinal])
def test_unknown_levels_become_gaps_or_are_refused(kind):
    assert codes_of(kind("x", ["a"], outside="missing", may_be_missing=True), ["a", "b"]) == [0, 1]
    for may_be_missing in (True, False):
        with pytest.raises(gl.errors.ReadError, match="outside = 'refuse'"):
            codes_of(kind("x", ["a"], outside="refuse", may_be_missing=may_be_missing), ["a", "b"])


@pytest.mark.parametrize(
    "column",
    [
        gl.Integer("x", bounds=(0, 9)),
        gl.Number("x", bounds=(0, 9)),
        gl.Date("x", bounds=("2020-01-01", "2020-01-10")),
    ],
)
def test_unreadable_values_are_never_clamped(column):
    with pytest.raises(
        gl.errors.ReadError, match="column 'x' has gaps or unreadable cells, but may_be_missing is not true"
    ):
        codes_of(column, ["rubbish"])


# ---------------------------------------------------------------------- bad input

SMALL = gl.Schema("t", [gl.Boolean("a"), gl.Boolean("b", may_be_missing=True)])
BAD_FILES = {
    "empty": ("e.csv", b"", "is empty", "a file with a header line"),
    "blank": ("e.csv", b" \n\n", "is empty", "a file with a header line"),
    "short row": ("r.csv", b"a,b\n1,0\n1\n", "a row has more or fewer fields than the header", "gapless check"),
    "long row": ("r.csv", b"a,b\n1,0\n1,0,1\n", "a row has more or fewer fields than the header", "gapless check"),
    "open quote": ("q.csv", b'a,b\n1,0\n1,"0\n', "is not a valid CSV file", "in quotes"),
    "quote inside": ("q.csv", b'a,b\n5" pipe,0\n', "is not a valid CSV file", "double the quote"),
    "stray line break": ("q.csv", b"a,b\n1,\n1\r0,\n", "is not a valid CSV file", "line break"),
    "semicolons": ("s.csv", b"a;b\n1;0\n", "is not separated by commas", 'write separator = ";"'),
    "semicolons, said so": ("s.csv", b"sep=;\na;b\n1;0\n", "is not separated by commas", 'write separator = ";"'),
    "tabs": ("s.csv", b"a\tb\n1\t0\n", "is not separated by commas", r'separator = "\t"'),
    "same name twice": ("d.csv", b"a,b, a\n1,0,1\n", "has two columns of the same name", "different names"),
    "no name": ("d.csv", b"a,b,\n1,0,\n", "has a column without a name", "delete the column"),
    "not utf-8": ("l.csv", b"a,b\n\xff,1\n", "is not utf-8 text", 'encoding="cp1252"'),
    "UTF-16": ("l.csv", "a,b\n1,0\n".encode("utf-16"), "is not utf-8 text", 'encoding="utf-16"'),
    "UTF-16, zipped": ("l.csv.gz", gzip.compress("a,b\n1,0\n".encode("utf-16")), "is not utf-8", 'encoding="utf-16"'),
    "UTF-16 the other way": ("l.csv", b"\xfe\xff" + "a,b\n1,0\n".encode("utf-16-be"), "is not utf-8", "utf-16"),
    "UTF-16 without a mark": ("l.csv", "a,b\n1,0\n".encode("utf-16-le"), "is not utf-8", 'encoding="utf-16-le"'),
    "UTF-16 the other way without": ("l.csv", "a,b\n1,0\n".encode("utf-16-be"), "is not utf-8", "utf-16-be"),
    "UTF-32": ("l.csv", "a,b\n1,0\n".encode("utf-32"), "is not utf-8 text", 'encoding="utf-32"'),
    "cut gzip": (
        "z.csv.gz",
        gzip.compress(b"a,b\n1,0\n" * 50)[:-9],
        "the file is cut off or damaged",
        "copy or export the file again",
    ),
    "broken gzip": (
        "z.csv.gz",
        b"\x1f\x8b\x08\0\0\0\0\0\0\0\xff\xff",
        "the file is cut off or damaged",
        "copy or export the file again",
    ),
    "not Parquet": (
        "p.parquet",
        b"PAR1 no",
        "is not a valid Parquet file",
        "copy or export the file again, or export it as CSV",
    ),
    "spreadsheet": ("x.xlsx", b"PK", "x.xlsx", "CSV"),
}


@pytest.mark.parametrize(("name", "content", "wrong", "hint"), BAD_FILES.values(), ids=BAD_FILES)
def test_errors_of_bad_files_have_a_remedy(name, content, wrong, hint, tmp_path):
    path = write(tmp_path / name, content)
    with pytest.raises(gl.errors.ReadError) as caught:
        gl.Table.read(path, SMALL)
    assert str(path) in caught.value.message
    assert wrong in caught.value.message
    assert hint in caught.value.hint


def test_missing_files_and_folders_are_errors(tmp_path):
    with pytest.raises(gl.errors.ReadError, match=r"no file .*none\.csv\n  Try: check the path"):
        gl.Table.read(tmp_path / "none.csv", SMALL)
    for url in ("mysql://ada:secret@localhost/registry", "jdbc:postgresql://localhost/registry?password=secret"):
        with pytest.raises(
            gl.errors.ReadError, match=r"a URL is not read, .*\n  Try: copy the data to this machine"
        ) as caught:
            gl.Table.read(url, SMALL)
        assert "secret" not in str(caught.value)
    with pytest.raises(
        gl.errors.ReadError, match=r"is a folder\n  Try: pass a file, or a pattern of several files: .*/\*\.parquet"
    ):
        gl.Table.read(tmp_path, SMALL)
    with pytest.raises(gl.errors.ReadError, match="no encoding is called 'klingon'"):
        gl.Table.read(write(tmp_path / "k.csv", "a,b\n"), SMALL, encoding="klingon")


def test_errors_for_the_holder_name_the_line_and_the_column(tmp_path):
    from gapless.missing import check

    with pytest.raises(gl.errors.ReadError, match="line 4 has more or fewer fields"):
        check(write(tmp_path / "r.csv", "a,b\n1,\n\n1\n"), SMALL)
    with pytest.raises(gl.errors.ReadError, match="two columns called 'a'"):
        check(write(tmp_path / "d.csv", "a,a\n1,\n"), SMALL)


def test_a_very_long_cell_is_no_error(tmp_path):
    schema = gl.Schema("t", [gl.Boolean("a")], ignore=("note",))
    path = write(tmp_path / "n.csv", f'note,a\n"{"x" * 200_000}",1\ny,\n')
    with pytest.raises(gl.errors.ReadError, match="column 'a' has gaps"):  # read to the end, widths checked
        gl.Table.read(path, schema)


BAD_FRAMES = {
    "series": (pd.Series([1]), "cannot read a Series", "pandas, polars or Arrow"),
    "list": ([1], "cannot read a list", "pandas, polars or Arrow"),
    "nothing": (None, "cannot read a NoneType", "pandas, polars or Arrow"),
    "no columns": (pd.DataFrame(), "the data have no columns", "a header and rows"),
    "pandas name twice": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        "two columns have the same name",
        "a different name",
    ),
    "Arrow name twice": (
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        "two columns have the same name",
        "a different name",
    ),
    "complex": (
        pd.DataFrame({"b": [1, 2], "a": [1j, 2j]}),
        "column 'a' of this DataFrame holds a type that is not read",
        "as text, numbers",
    ),
    "Arrow's widest": (
        pa.table({"a": pa.array([Decimal(1)], type=pa.decimal256(70, 0)), "b": [1]}),
        "column 'a' of this Table holds a type that is not read",
        "as text, numbers",
    ),
    "lists": (pl.DataFrame({"a": [[1]], "b": [1]}), "column 'a' holds values of type List", "text, numbers"),
    "bytes": (pl.DataFrame({"a": [b"\xff"], "b": [1]}), "column 'a' holds values of type Binary", "text, numbers"),
    "durations": (pl.DataFrame({"a": [dt.timedelta(1)], "b": [1]}), "holds values of type Duration", "text, numbers"),
}


@pytest.mark.parametrize(("frame", "wrong", "hint"), BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_errors_of_bad_frames_have_a_remedy(frame, wrong, hint):
    with pytest.raises(gl.errors.ReadError) as caught:
        gl.Table.read(frame, SMALL)
    assert wrong in caught.value.message
    assert hint in caught.value.hint


def test_an_ignored_column_may_hold_anything():
    frame = pl.DataFrame({"a": [True], "b": [None], "more": [[1, 2]]})
    schema = gl.Schema("t", SMALL.columns, ignore=("more", "not even there"))
    assert gl.Table.read(frame, schema).rows == 1


def test_columns_and_schema_must_agree():
    with pytest.raises(
        gl.errors.SchemaError,
        match=r"the data have no column 'b'\n  Try: write a name that is in the data into the schema: bb",
    ):
        gl.Table.read(pl.DataFrame({"a": [True], "bb": [True]}), SMALL)
    with pytest.raises(
        gl.errors.SchemaError, match=r'does not have: \'my no\'\n  Try: declare \[column\."my no"\], or write ignore'
    ):
        gl.Table.read(pl.DataFrame({"a": [True], "b": [True], "my no": [1]}), SMALL)


def test_the_error_for_a_file_without_a_header_does_not_quote_its_first_row(tmp_path):
    path = write(tmp_path / "h.csv", "Mueller,1\nMaier,0\n")
    with pytest.raises(gl.errors.SchemaError, match="the data have none of the schema's columns") as caught:
        gl.Table.read(path, SMALL)
    assert "Mueller" not in str(caught.value)


def test_wrong_types_follow_the_rule_for_cells_outside():
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 9), may_be_missing=True)])
    for cells in ([True], [dt.date(2020, 1, 1)], ["ten"]):
        assert gl.Table.read(pl.DataFrame({"x": cells}), schema).codes[0].tolist() == [10]


@pytest.mark.parametrize(("levels", "bytes_per_cell"), [(2, 1), (254, 1), (255, 1), (256, 2), (1000, 2)])
def test_a_cell_takes_one_byte_while_its_codes_fit(levels, bytes_per_cell):
    column = gl.Integer("x", bounds=(0, levels - 1), bins=levels, may_be_missing=True)
    (codes,) = gl.Table.read(pl.DataFrame({"x": range(levels)}), gl.Schema("t", [column])).codes
    assert codes.nbytes == bytes_per_cell * levels
    assert codes.tolist() == list(range(levels))


def small(ledger=None, **more):
    schema = gl.Schema("small", [gl.Categorical("sex", ["F", "M"])])
    return lambda data: gl.read(data, schema, protect=gl.Rows(1), ledger=ledger, **more)


@pytest.mark.parametrize(
    ("file", "ledger"),
    [
        ("people.csv", "people.ledger"),
        ("people.csv.gz", "people.ledger"),
        ("PEOPLE.TSV.GZ", "PEOPLE.ledger"),
        ("people.2024.txt", "people.2024.ledger"),
        ("people.parquet", "people.ledger"),
        ("people.pq", "people.ledger"),
    ],
)
def test_the_default_ledger_is_beside_the_data(file, ledger, tmp_path):
    if file.endswith(("parquet", "pq")):
        pl.DataFrame({"sex": ["F", "M"]}).write_parquet(tmp_path / file)
    else:
        (tmp_path / file).write_text("sex\nF\nM\n")
    people = small(budget=gl.Budget(1.0, 0))(tmp_path / file)
    assert people.ledger.path == tmp_path / ledger
    assert small()(str(tmp_path / file)).ledger.budget == gl.Budget(1.0, 0)


def test_a_link_to_the_data_has_no_budget_of_its_own(tmp_path):
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "people.csv").write_text("sex\nF\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "safe" / "people.csv")
    assert small(budget=gl.Budget(1.0, 0))(tmp_path / "link.csv").ledger.path == tmp_path / "safe" / "people.ledger"


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_a_frame_has_no_place_for_a_ledger(kind):
    with pytest.raises(gl.errors.LedgerError, match=r'a DataFrame has no place .*\n  Try: pass ledger="people.ledger"'):
        small(budget=gl.Budget(1.0, 0))(kind({"sex": ["F"]}))


def test_a_folder_that_cannot_be_written_needs_another_place_for_the_ledger(tmp_path, monkeypatch):
    (tmp_path / "people.csv").write_text("sex\nF\n")
    (tmp_path / "kept").mkdir()
    allowed = os.open

    def refuse(path, flags, *mode):  # as the system does; a test that runs as root may write anywhere
        if Path(path).parent == tmp_path and flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied")
        return allowed(path, flags, *mode)

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(
        gl.errors.LedgerError, match=r"people.ledger: Permission denied\n  Try: pass a path in a folder"
    ):
        small(budget=gl.Budget(1.0, 0))(tmp_path / "people.csv")
    small(tmp_path / "kept" / "p.ledger", budget=gl.Budget(1.0, 0))(tmp_path / "people.csv")
    monkeypatch.undo()
    (tmp_path / "people.ledger").mkdir()
    with pytest.raises(
        gl.errors.LedgerError, match=r"cannot open the ledger .*\n  Try: pass the name of a file as ledger"
    ):
        small(budget=gl.Budget(1.0, 0))(tmp_path / "people.csv")
    (tmp_path / "people.ledger").rmdir()
    (tmp_path / "people.ledger").touch()  # it is there, and it cannot be opened: no advice to take another

    def refuse_all(path, flags, *mode):
        if Path(path) == tmp_path / "people.ledger":
            raise PermissionError(errno.EACCES, "Permission denied")
        return allowed(path, flags, *mode)

    monkeypatch.setattr("os.open", refuse_all)
    with pytest.raises(gl.errors.LedgerError, match=r"cannot open the ledger .*\n  Try: ask its owner"):
        small(budget=gl.Budget(1.0, 0))(tmp_path / "people.csv")


def test_a_ledger_with_too_long_a_name_is_refused(tmp_path):
    (tmp_path / "people.csv").write_text("sex\nF\n")
    for letters in (251, 300):  # the first fits, but its seal does not
        with pytest.raises(gl.errors.LedgerError, match=r"File name too long\n  Try: pass a shorter name as ledger"):
            small(tmp_path / ("x" * letters), budget=gl.Budget(1.0, 0))(tmp_path / "people.csv")


def test_the_error_for_another_budget_states_what_is_left_and_the_remedy(tmp_path):
    (tmp_path / "people.csv").write_text("sex\nF\n")
    people = small(budget=gl.Budget(1.0, 0))(tmp_path / "people.csv")
    gl.Independent().fit(people, spend=people.ledger.share("60%"))
    with pytest.raises(gl.errors.LedgerError, match=r"\n  Try: leave budget= out: .* of which 40.00% is left"):
        small(budget=gl.Budget(2.0, 0))(tmp_path / "people.csv")
    gl.Independent().fit(people, spend=people.ledger.left)
    with pytest.raises(gl.errors.LedgerError, match="use what was released before"):
        small(budget=gl.Budget(2.0, 0))(tmp_path / "people.csv")


# ---------------------------------------------------------------------- names of files


NAMES_SCHEMA = gl.Schema("t", [gl.Integer("x", bounds=(0, 99), bins=100, may_be_missing=True)])
READ = [("xlsx", "memory"), *itertools.product(("csv", "csv.gz", "parquet"), ("memory", "disk", "duckdb"))]
# What a name would find if it were taken for a pattern, polars' and DuckDB's included.
ODD = {
    "people[1]": ["people1"],
    "people[[]1]": ["people[1]"],
    "people[!a]": ["peopleb"],
    "people*": ["people1", "people"],
    "people?": ["people1"],
    "**": ["people"],
    "{a,b}": ["a", "b"],
    "rel[1]/people": ["rel1/people"],
    "rel*/[a]": ["rel1/a", "rel1/[a]"],
    "x=7/people": [],
    "~/people": [],
    "a b%20#é\u200b'\"": [],
    "s3:/people": [],
    "-people": [],
}


def write_names(path, numbers):
    """A file of one column of whole numbers, of the kind that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["x", *map(str, numbers), ""])
    if path.suffix == ".parquet":
        with path.open("wb") as file:
            pl.DataFrame({"x": numbers}).write_parquet(file)
    elif path.suffix == ".xlsx":
        workbook(path, [["x"], *([number] for number in numbers)])
    else:
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def rows_of(data, engine):
    """The rows that a release would count, sorted."""
    given = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "ledger": "t.ledger"}
    table = gl.read(data, NAMES_SCHEMA, engine=engine, **given)
    counts = reveal(table.marginal("x", rows="extended"), table.ledger)
    return [value for value, many in enumerate(counts) for _ in range(many)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("kind", "engine"), READ)
@pytest.mark.parametrize("name", ODD)
def test_an_existing_file_is_read_by_its_literal_name(name, kind, engine, here):
    for number, other in enumerate(ODD[name], start=1):
        write_names(here / f"{other}.{kind}", [number])
    write_names(here / f"{name}.{kind}", [50, 51])
    for data in (f"{name}.{kind}", here / f"{name}.{kind}"):
        assert rows_of(data, engine) == [50, 51]
        assert find_files(data) == [Path(data)]
        assert not is_pattern(data)
    assert gl.Table.read(f"{name}.{kind}", NAMES_SCHEMA).rows == 2
    assert check(f"{name}.{kind}", NAMES_SCHEMA).rows == 2
    assert ledger_beside(f"{name}.{kind}") == Path(f"{name}.ledger")


@pytest.mark.parametrize(("kind", "engine"), READ)
def test_a_pattern_is_expanded_once_and_what_it_finds_is_literal(kind, engine, here):
    for number, name in enumerate(("people1", "people[1]", "people*", "people?", "other"), start=1):
        write_names(here / f"{name}.{kind}", [number, 10 * number])
    assert rows_of(f"people?*.{kind}", engine) == [1, 2, 3, 4, 10, 20, 30, 40]
    assert rows_of(f"people*.{kind}", engine) == [3, 30]  # a file of this name is there


@pytest.mark.parametrize(("kind", "engine"), READ)
def test_a_file_with_several_names_is_read_once(kind, engine, here):
    write_names(here / "big" / f"2023.{kind}", [1])
    write_names(here / "big" / f"2024.{kind}", [2, 3])
    (here / "big" / f"latest.{kind}").symlink_to(f"2024.{kind}")
    os.link(here / "big" / f"2023.{kind}", here / "big" / f"hard.{kind}")
    (here / "big" / "again").symlink_to(".", target_is_directory=True)
    for pattern in ("big/*", "big/**/*", "**/**/*", "**/**/**/*[0-9t]", "b*/*/*"):
        assert rows_of(f"{pattern}.{kind}", engine) == [1, 2, 3], pattern
    assert find_files(f"big/*.{kind}") == [Path("big", f"{year}.{kind}") for year in (2023, 2024)]


def test_patterns_mean_what_they_mean_to_glob(here):
    for name in ("a.csv", "b/a.csv", "b/.h.csv", ".h/a.csv", ".h/c/.d.csv", "b/c/xy.csv", "b/[1].csv", "[1]/d/1.csv"):
        write_names(here / name, [1])
    (here / "e").symlink_to("b", target_is_directory=True)
    patterns = ["*.csv", "**/*.csv", "*/*.csv", "**/a.csv", "**/**/*.csv", "*/../*.csv", ".*/*.csv", ".*/**/.*.csv"]
    patterns += ["**/.h.csv", "*/c/x?.csv", "[!a]*/*.csv", "*/**/1.csv", "./*/*.csv", "[[]1]/*/*.csv", "e/**/x*", "*/*"]
    for pattern in itertools.chain(patterns, (str(here / pattern) for pattern in patterns)):
        meant = {Path(name).stat().st_ino for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207 compared with
        found = [path.stat().st_ino for path in find_files(pattern)]
        assert sorted(found) == sorted(meant), pattern


def test_a_folder_of_an_existing_name_is_literal_before_a_pattern(here):
    write_names(here / "rel[1]" / "a.parquet", [7])
    write_names(here / "rel1" / "a.parquet", [1])
    assert source.split_pattern("rel[1]/*.parquet") == (Path("rel[1]"), "*.parquet")
    assert source.split_pattern("rel[2]/*.parquet") == (Path(), "rel[2]/*.parquet")
    for engine in ("memory", "disk", "duckdb"):
        assert rows_of("rel[1]/*.parquet", engine) == [7]
    assert ledger_beside("rel[1]/*.parquet") == Path("rel[1].ledger")
    assert ledger_beside(here / "rel[1]" / "*.parquet") == here / "rel[1].ledger"
    assert ledger_beside("rel[12]/*.parquet").name == f"{here.name}.ledger"


@pytest.mark.parametrize("engine", ["memory", "disk", "duckdb"])
def test_columns_are_those_of_the_file_and_not_of_its_folder(engine, here):
    write_names(here / "x=9" / "y=1" / "a.parquet", [3])
    write_names(here / "x=8" / "y=2" / "a.parquet", [4])
    assert rows_of("x=9/y=1/a.parquet", engine) == [3]
    assert rows_of("*/*/a.parquet", engine) == [3, 4]


@pytest.mark.parametrize("engine", ["memory", "disk", "duckdb"])
def test_a_broken_link_is_an_error(engine, here):
    write_names(here / "a.csv", [1])
    (here / "b.csv").symlink_to("gone.csv")
    (here / "c[1].csv").symlink_to("gone.csv")
    write_names(here / "c1.csv", [2])
    with pytest.raises(gl.errors.ReadError, match=r"no file b\.csv"):
        rows_of("[ab].csv", engine)
    with pytest.raises(gl.errors.ReadError, match=r"no file c\[1\]\.csv"):
        rows_of("c[1].csv", engine)


def test_files_without_inodes_are_distinguished_by_their_paths(here):
    for number in (1, 2):
        write_names(here / f"{number}.csv", [number])
    found = os.stat_result((0o100644, 0, 7, 1, 0, 0, 4, 0, 0, 0))
    with mock.patch.object(Path, "stat", return_value=found):
        assert find_files("*.csv") == [Path("1.csv"), Path("2.csv")]


def test_names_that_a_reader_cannot_open_are_errors(here):
    write_names(here / "back\\slash[1].parquet", [1])
    assert rows_of("back\\slash[1].parquet", "disk") == [1]
    with pytest.raises(
        gl.errors.ReadError,
        match=r'does not take the name .* literally, .*\n  Try: rename the file to letters and digits, or .*"disk"',
    ):
        rows_of("back\\slash[1].parquet", "duckdb")
    name = os.fsdecode(b"no unicode \xff.parquet")
    write_names(here / name, [1])
    for engine in ("memory", "disk", "duckdb"):
        with pytest.raises(
            gl.errors.ReadError, match=r"xff.parquet' is not valid Unicode|dcff.parquet' is not valid Unicode"
        ):
            rows_of(name, engine)


@pytest.mark.parametrize("name", ["fake[1].parquet", "fake*.csv", "x=1/~.tsv", "fake?.csv.gz"])
def test_a_written_file_has_the_requested_name(name, here):
    write_names(here / "fake1.parquet", [5])
    (here / name).parent.mkdir(exist_ok=True)
    before = set(here.rglob("*"))
    gl.Table.read(pl.DataFrame({"x": [7]}), NAMES_SCHEMA).write(name)
    assert set(here.rglob("*")) - before == {here / name}
    assert gl.Table.read(name, NAMES_SCHEMA).to_polars()["x"].to_list() == [7]


# ---------------------------------------------------------------------- files made to fill the memory


LIMITS_SCHEMA = gl.Schema("t", [gl.Integer("a", bounds=(0, 9)), gl.Integer("b", bounds=(0, 9), may_be_missing=True)])
TOO_LONG = r"has a row of more than 1,000 characters\n  Try: close every quote"
ENGINES = ("memory", "disk")
ROW = b"1,2\n"


def read(path, engine="memory"):
    given = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "ledger": path.parent / "t.ledger"}
    return gl.read(path, LIMITS_SCHEMA, engine=engine, **given)


# ---------------------------------------------------------------------- gzip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_is_packed_too_tightly_is_refused(engine, tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + ROW * 30_000))
    read(path, engine)
    with mock.patch.multiple(text_files, UNPACKED=100_000, PART=1000):
        with pytest.raises(
            gl.errors.ReadError, match=r"more than 100,000 bytes and .* 100 times its size\n  Try: run `gunzip` on it"
        ):
            read(path, engine)
        with mock.patch.object(text_files, "TIGHTEST", 1000):  # a large table that is packed as tables are
            read(path, engine)
        plain = tmp_path / "t.csv"
        plain.write_bytes(b"a,b\n" + ROW * 30_000)
        read(plain, engine)


def test_bytes_behind_one_that_cannot_be_decoded_are_limited_as_well(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n\xff" + ROW * 30_000))
    with (
        mock.patch.multiple(text_files, UNPACKED=100_000, PART=1000),
        pytest.raises(gl.errors.ReadError, match="more than 100,000 bytes"),
    ):
        read(path)


# ---------------------------------------------------------------------- rows

ENDLESS = {
    "a quote that is not closed": b'a,b\n1,"' + ROW * 1000,
    "quotes in a quote": b'a,b\n1,"' + b'""\n' * 1000,
    "one line": b"a,b\n1," + b"2" * 3000,
    "a header": b"a,b" * 1000,
    "spaces before a header": b" " * 3000 + b"a,b\n1,2\n",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ENDLESS)
def test_a_row_that_does_not_end_is_refused(name, engine, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(ENDLESS[name])
    with (
        mock.patch.multiple(text_files, PART=100, LONGEST_ROW=1000),
        pytest.raises(gl.errors.ReadError, match=TOO_LONG),
    ):
        read(path, engine)


def test_a_row_that_is_as_long_as_allowed_is_read_and_lines_without_cells_are_no_row(tmp_path):
    path = tmp_path / "t.csv"
    long = b'1,"' + b" " * 700 + b'2"\n'
    path.write_bytes(b"\n" * 3000 + b"a,b\n" + ROW + b"\n" * 3000 + long + b"\r\n" * 3000 + ROW + b"\n\n")
    with mock.patch.multiple(text_files, PART=100, LONGEST_ROW=1000):
        assert gl.Table.read(path, LIMITS_SCHEMA).rows == 3


# Run with less memory than the old code asked for.
LIMITS_READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import gapless as gl
try:
    gl.Table.read(sys.argv[1], gl.Schema("t", [gl.Integer("a", bounds=(0, 9))]))
except gl.GaplessError as error:
    print(error)
"""


@pytest.mark.slow
def test_half_a_gigabyte_in_one_cell_is_refused_in_little_memory(tmp_path):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'a\n"')
        for _ in range(600):
            file.write(b"x" * (1 << 20))
    run = subprocess.run(
        [sys.executable, "-c", LIMITS_READ, path], capture_output=True, text=True, check=False, timeout=300
    )
    assert "has a row of more than 33,554,432 characters\n  Try: close" in run.stdout, run.stderr


# ---------------------------------------------------------------------- columns


class Name(str):
    """A name that counts how often it is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_header_is_checked_in_linear_time(tmp_path):
    """32,000 columns took 75 seconds, since each name was compared with all."""
    many = 2000
    names = [Name(f"column {place}") for place in range(many)]
    schema = gl.Schema("t", [gl.Integer("column 0", bounds=(0, 9))], ignore=[str(name) for name in names[1:]])
    Name.compared = 0
    text_files.check_header(names, tmp_path / "t.csv", ",", for_holder=True)
    encode.check_names(names, schema)
    assert Name.compared < 10 * many
    names[7] = Name("column 3")
    with pytest.raises(gl.errors.ReadError, match="two columns called 'column 3'"):
        text_files.check_header(names, tmp_path / "t.csv", ",", for_holder=True)
