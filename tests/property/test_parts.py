"""A file that is read in many parts gives the same codes, the same draft and the same errors as one read at once."""

import gzip
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.io import source, text_files
from gapless.missing import check
from helpers.examples import examples

SCHEMA = gl.Schema(
    "t",
    [
        gl.Categorical("a", ["x", "y", 'q"'], may_be_missing=True),
        gl.Number("b", bounds=(0, 10), bins=5, may_be_missing=True, missing=("-9",)),
        gl.Date("c", bounds=("2000-01-01", "2009-12-31"), may_be_missing=True, outside="missing"),
    ],
)
STRICT = gl.Schema(
    "t", [gl.Categorical("a", ["x", "y"]), gl.Number("b", bounds=(0, 10), outside="refuse"), SCHEMA["c"]]
)
ONE_COLUMN = gl.Schema("t", [gl.Categorical("a", ["x", "y"], may_be_missing=True)])
CELLS = [
    "x",
    "y",
    "",
    " ",
    "3.5",
    "-9",
    "11",
    "2004-05-06",
    "é",
    '"x"',
    '"q"""',
    '"a,b"',
    '"x\ny"',
    '"\n"',
    '"\r\n"',
    '""',
]
# Lines that are whole, short, long, blank, or no CSV.
whole = st.tuples(*[st.sampled_from(CELLS)] * 3).map(",".join)
odd = st.sampled_from(["", " ", ",", "x", "x,1", "x,1,2,3", 'x",1,2001-01-01', '"x,1,2001-01-01'])
single = st.sampled_from(["x", "y", "", "z", '"x"', '"x\ny"'])
endings = st.sampled_from(["\n", "\r\n", "\r"])


def outcome(function, *arguments):
    """The result, or the error message."""
    try:
        result = function(*arguments)
    except gl.GaplessError as error:
        return type(error).__name__, str(error)
    return result


def table(path, schema):
    read = gl.Table.read(path, schema)
    return (
        read.rows,
        [codes.tolist() for codes in read.codes],
        [None if values is None else np.nan_to_num(values, nan=-1.0).tolist() for values in read._values],
    )


def texts(path, encoding):
    return gl.Table.read(path, SCHEMA, encoding=encoding).to_text().rows()


def seen(path, schema):
    """Everything that looks at a file."""
    return [
        outcome(table, path, schema),
        outcome(lambda: str(check(path, schema))),
        outcome(lambda: gl.data.draft_schema(path).to_toml()),
    ]


def in_parts(size):
    stack = ExitStack()
    stack.enter_context(mock.patch.object(text_files, "PART", size))
    stack.enter_context(mock.patch.object(source, "PART_ROWS", size))
    return stack


def same(content, schema, size, *, name="t.csv"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        at_once = seen(path, schema)
        with in_parts(size):
            assert seen(path, schema) == at_once
    return at_once


@examples(50)
@given(lines=st.lists(whole, max_size=8), end=endings, size=st.integers(1, 40), last=st.booleans())
def test_whole_lines(lines, end, size, last):
    text = end.join(["a,b,c", *lines]) + end * last
    same(text.encode(), SCHEMA, size)
    same(text.encode(), STRICT, size)


@examples(50)
@given(lines=st.lists(single, max_size=8), end=endings, size=st.integers(1, 20), last=st.integers(0, 2))
def test_a_single_column_with_empty_lines(lines, end, size, last):
    same((end.join(["a", *lines]) + end * last).encode(), ONE_COLUMN, size)


@examples(50)
@given(lines=st.lists(whole | odd, max_size=8), end=st.sampled_from(["\n", "\r\n"]), size=st.integers(1, 40))
def test_lines_of_which_some_are_short_long_blank_or_no_csv(lines, end, size):
    content = (end.join(["a,b,c", *lines]) + end).encode()
    if any(line.count('"') % 2 for line in lines):
        return  # a quote that is not closed: which lines it swallows is polars' affair
    same(content, SCHEMA, size)


@examples(30)
@given(
    lines=st.lists(whole | odd, max_size=6),
    bad=st.sampled_from([b"\xff", b"x,1,\xe9\n", b""]),
    cut=st.integers(0, 12),
    size=st.integers(1, 40),
)
def test_bytes_that_cannot_be_read_are_reported_first(lines, bad, cut, size):
    if any(line.count('"') % 2 for line in lines):
        return
    content = "\n".join(["a,b,c", *lines, ""]).encode() + bad
    same(content, SCHEMA, size)
    zipped = gzip.compress(content, mtime=0)
    messages = same(zipped[: len(zipped) - cut], SCHEMA, size, name="t.csv.gz")
    if cut:
        assert "cut off or damaged" in messages[0][1]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_letters_of_several_bytes_are_not_cut(encoding, size, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(("\n\r\na,b,c\n" + "x,1,2001-01-01\ny,é,\n" * 3).encode(encoding))
    at_once = [outcome(texts, path, encoding), outcome(texts, path, "utf-8")]
    with in_parts(size):
        assert [outcome(texts, path, encoding), outcome(texts, path, "utf-8")] == at_once
    assert len(at_once[0]) == 6


@examples(15)
@given(
    rows=st.lists(st.tuples(st.sampled_from(["x", "y", "z", None]), st.floats() | st.none(), st.dates() | st.none())),
    size=st.integers(1, 5),
)
@example(rows=[], size=1)
def test_parquet(rows, size):
    frame = pl.DataFrame(rows, schema={"a": pl.String, "b": pl.Float64, "c": pl.Date}, orient="row")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        frame.write_parquet(path)
        at_once = [seen(path, SCHEMA), seen(path, STRICT), seen(frame, SCHEMA)]
        assert at_once[0][0] == at_once[2][0]
        with in_parts(size):
            assert [seen(path, SCHEMA), seen(path, STRICT)] == at_once[:2]


def test_the_file_is_never_held_whole(tmp_path):
    """What is handed on for encoding is a part of the file, and so is each block of text."""
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + 'x,"1",2001-01-01\n' * 5000)
    pl.read_csv(path, infer_schema=False).write_parquet(tmp_path / "t.parquet")
    with in_parts(1000):
        for file in (path, tmp_path / "t.parquet"):
            heights = [frame.height for frame in source.read_parts(file)]
            assert sum(heights) == 5000
            assert max(heights) <= 1000
        assert max(map(len, text_files._blocks(text_files._pieces(path, "utf-8"), path))) <= 1100


def test_errors_of_cells_come_after_those_of_the_file_and_by_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,c\n" + "x,99,2001-01-01\n" * 50 + ",1,2001-01-01\n")
    with in_parts(60), pytest.raises(gl.errors.ReadError, match="column 'a' has gaps"):
        gl.Table.read(path, STRICT)
    path.write_text("a,b,c\n" + "x,99,2001-01-01\n" * 50 + "x,1\n")
    with in_parts(60), pytest.raises(gl.errors.ReadError, match="a row has more or fewer fields"):
        gl.Table.read(path, STRICT)
    with in_parts(60), pytest.raises(gl.errors.ReadError, match="line 52 has more or fewer fields"):
        check(path, STRICT)
    path.write_text("a,b\n" + "x,99\n" * 50 + "x,1,2\n")
    with in_parts(60), pytest.raises(gl.errors.ReadError, match="a row has more or fewer fields"):
        gl.Table.read(path, STRICT)


@examples(25)
@given(
    rows=st.lists(
        st.tuples(*[st.sampled_from(["x", "1,5", "1.234", "", "é", '"a;b|c"', "01.02.2003"])] * 3), max_size=8
    ),
    separator=st.sampled_from([";", "\t", "|"]),
    encoding=st.sampled_from(["utf-8-sig", "utf-16"]),
    end=endings,
    size=st.integers(1, 40),
)
def test_files_as_people_have_them(rows, separator, encoding, end, size):
    schema = gl.Schema(
        "t",
        [
            gl.Categorical("a", ["x", "other"], outside="other", may_be_missing=True),
            gl.Number("b", bounds=(0, 9), decimal=",", thousands=".", may_be_missing=True),
            gl.Date("c", bounds=("2000-01-01", "2009-12-31"), format="%d.%m.%Y", may_be_missing=True),
        ],
        separator=separator,
        encoding="utf-16" if encoding == "utf-16" else None,
    )
    text = end.join(map(separator.join, [("a", "b", "c"), *rows])) + end
    read, checked, _ = same(text.encode(encoding), schema, size)
    assert read[0] == len(rows)
    assert "ReadError" not in checked
