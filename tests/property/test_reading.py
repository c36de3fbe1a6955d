"""No cell stops a reading where the schema has a rule for it, and each row is read by itself."""

import csv
import datetime as dt
import decimal
import io
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.io import encode, source
from gapless.missing import check
from helpers.examples import examples

CODES = ("?", gl.MissingCode("-9", "refused"))
BOUNDS = {"date": ("2000-01-01", "2020-12-31"), "datetime": ("2000-01-01T00:00:00", "2020-12-31T00:00:00")}


def columns(outside):
    """A column of every kind and resolution, with every rule set that is recommended against refusals."""
    message = {"outside": outside, "may_be_missing": True, "missing": CODES}
    yield gl.Integer("c", bounds=(0, 100), **message)
    yield gl.Number("c", bounds=(0, 1), edges=(0, 0.5, 1), **message)
    for kind in (gl.Date, gl.DateTime):
        for resolution in kind.resolutions:
            yield kind("c", bounds=BOUNDS[kind.kind], resolution=resolution, bins=2, **message)
    if outside == "missing":
        yield gl.Categorical("c", ["a", "5", True], **message)
        yield gl.Ordinal("c", ["1999-12-31", "2020-01-01"], **message)
        yield gl.Boolean("c", **message)


COLUMNS = [*columns("clamp"), *columns("missing")]

FAR = [2**31 - 1, -(2**31), 2**53 + 1, 2**62, -(2**62), 2**63 - 1, 1 - 2**63, -(2**63)]
WHOLE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-100, 2 * 10**9), st.sampled_from(FAR))
DAYS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 20_000))
REAL = st.one_of(st.floats(), st.floats(0, 1), st.sampled_from([-9.0, 5e-324, 1e308, 2.0**63]))
ODD = ["", "?", "-9", "-9.0", "9" * 400, "1e999", "nan", "-inf", "0x10", "٣", "5\u00a0", "\x00", "\ufeff", "True", "T"]
ODD += [
    "2016-12-31T23:59:60Z",
    "+262142-12-31T23:59:59Z",
    "-262143-01-01",
    "10000-01-01",
    "0000-00-00",
    "🙂",
    '"',
    "a\nb",
]
ODD += ["2020-01-01T00:00:00+99:99", "2020-01-01T24:00", "2005-05-05 05:05:05.999999999999", "x" * 70_000]
TEXT = st.one_of(st.text(st.characters(codec="utf-8"), max_size=12), st.sampled_from(ODD), st.dates().map(str))
OBJECTS = st.one_of(
    TEXT,
    st.integers(),
    st.floats(),
    st.booleans(),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, dt.UTC])),
    st.decimals(),
    st.binary(max_size=4),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(
        ["\ud800", pd.NA, pd.NaT, pd.Timestamp.max, object, {}, 2**200, np.float32(2), np.datetime64("2001")]
    ),
)


MOMENTS = [pl.Datetime(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")]
SECONDS = [pa.timestamp("s"), pa.timestamp("s", "Asia/Kolkata"), pa.timestamp("ns", "America/New_York")]
MADE = {
    **{str(dtype): (WHOLE, lambda some, dtype=dtype: pl.Series("c", some, pl.Int64).cast(dtype)) for dtype in MOMENTS},
    "Date": (DAYS, lambda some: pl.Series("c", some, dtype=pl.Int32).cast(pl.Date)),
    "Int64": (WHOLE, lambda some: pl.Series("c", some, dtype=pl.Int64)),
    "UInt64": (st.integers(0, 2**64 - 1), lambda some: pl.Series("c", some, dtype=pl.UInt64)),
    "Int128": (st.integers(-(2**127), 2**127 - 1), lambda some: pl.Series("c", some, dtype=pl.Int128)),
    "Float64": (REAL, lambda some: pl.Series("c", some, dtype=pl.Float64)),
    "Float32": (REAL, lambda some: pl.Series("c", some, dtype=pl.Float64).cast(pl.Float32)),
    "Decimal": (
        st.decimals(-(10**27), 10**27, places=10),
        lambda some: pl.Series("c", some, dtype=pl.Decimal(38, 10)),
    ),
    "String": (TEXT, lambda some: pl.Series("c", some, dtype=pl.String)),
    "Categorical": (TEXT, lambda some: pl.Series("c", some, dtype=pl.String).cast(pl.Categorical)),
    "Boolean": (st.booleans(), lambda some: pl.Series("c", some, dtype=pl.Boolean)),
    "pandas objects": (OBJECTS, lambda some: pd.DataFrame({"c": pd.Series(some, dtype=object)})),
    "pandas seconds": (WHOLE, lambda some: pd.DataFrame({"c": moments(some, "s")})),
    "bytes as text": (st.binary(max_size=6), lambda some: pa.table({"c": not_quite_text(some)})),
    **{
        str(kind): (WHOLE, lambda some, kind=kind: pa.table({"c": pa.array(some, type=pa.int64()).cast(kind)}))
        for kind in SECONDS
    },
}


def moments(numbers, unit):
    least = np.iinfo(np.int64).min  # no moment, as None
    return np.array([least if number is None else number for number in numbers], dtype=np.int64).view(f"M8[{unit}]")


def not_quite_text(cells):
    """An Arrow array of texts that are no Unicode, as a careless writer makes them."""
    parts = [cell or b"" for cell in cells]
    ends = np.cumsum([0, *map(len, parts)]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(parts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))])


def read(data, column):
    (codes,) = gl.Table.read(data, gl.Schema("t", [column])).codes
    return codes.tolist()


def frame_of(made):
    return made.to_frame() if isinstance(made, pl.Series) else made


@pytest.mark.parametrize("name", MADE)
@examples(25)
@given(data=st.data(), column=st.sampled_from(COLUMNS))
def test_no_cell_stops_a_reading_and_each_is_read_by_itself(name, data, column):
    cells, make = MADE[name]
    some = data.draw(st.lists(st.none() | cells, max_size=4))
    together = read(frame_of(make(some)), column)
    assert together == [code for cell in some for code in read(frame_of(make([cell])), column)]


@examples(25)
@given(
    rows=st.lists(st.tuples(TEXT, TEXT), max_size=4),
    pair=st.tuples(st.sampled_from(COLUMNS), st.sampled_from(COLUMNS)),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_no_cell_of_a_text_file_stops_a_reading(rows, pair, end):
    first, second = pair
    schema = gl.Schema("t", [first, replace(second, name="d")])

    def codes(some):
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerows([("c", "d"), *some])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.csv"
            path.write_bytes(text.getvalue().encode())
            return np.stack(gl.Table.read(path, schema).codes, axis=1).tolist()

    assert codes(rows) == [code for row in rows for code in codes([row])]


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_moments_of_a_parquet_file_beyond_all_years_are_outside(unit, zone, tmp_path):
    path = tmp_path / "t.parquet"
    far = pa.array([2**62, -(2**62), -(2**63), 0, None], type=pa.int64()).cast(pa.timestamp(unit, zone))
    pq.write_table(pa.table({"c": far}), path)
    for column in COLUMNS:
        if isinstance(column, gl.DateTime):
            gap = column.size
            lost = column.outside == "missing"
            assert read(path, column) == ([gap] * 5 if lost else [1, 0, 0, 0, gap]), column


def test_days_beyond_all_years_are_outside():
    far = pl.Series("c", [2**31 - 1, -(2**31), 11_000, None], dtype=pl.Int32).cast(pl.Date).to_frame()
    clamp, lost = (
        gl.Date("c", bounds=BOUNDS["date"], bins=2, may_be_missing=True, outside=o) for o in ("clamp", "missing")
    )
    assert read(far, clamp) == [1, 0, 0, 2]
    assert read(far, lost) == [2, 2, 0, 2]


def test_cells_of_no_common_type_are_read_as_text():
    cells = [5, "5", 5.0, True, "true", None, float("nan"), pd.NA, b"5", [5], decimal.Decimal(7), dt.date(2020, 1, 1)]
    column = gl.Categorical("c", ["5", True, "7", "2020-01-01"], may_be_missing=True)
    mixed = pd.DataFrame({"c": pd.Series(cells, dtype=object)})
    assert read(mixed, column) == [0, 0, 0, 1, 1, 4, 4, 4, 4, 4, 2, 3]


def test_check_and_draft_take_what_can_be_read():
    far = pl.Series("c", [2**62, 0, 10**12], dtype=pl.Int64).cast(pl.Datetime("ms")).to_frame()
    (column,) = check(far, gl.Schema("t", [gl.DateTime("c", bounds=BOUNDS["datetime"])])).columns
    assert column.outside == 2
    assert gl.data.draft_schema(far).schema.names == ("c",)


# ------------------------------------------------------------------ whatever else goes wrong


def panic(*_, **__):
    pl.Series([2**62]).cast(pl.Datetime("ms")).cast(pl.String)


def quote(*_, **__):
    raise ValueError("Mueller, 1961-05-03")


@pytest.mark.parametrize("wrong", [panic, quote])
@pytest.mark.parametrize(
    ("where", "name"),
    [(source, "text_frames"), (source, "clip_dates"), (encode, "_lookup"), (encode, "_calendar_positions")],
)
def test_every_failure_is_a_read_error_without_a_cell(where, name, wrong, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("c,d\nMueller,1961-05-03\n")
    schema = gl.Schema("t", [gl.Categorical("c", ["Mueller"]), gl.Date("d", bounds=("1900-01-01", "2000-01-01"))])
    with mock.patch.object(where, name, wrong), pytest.raises(gl.errors.ReadError, match="cannot be read") as caught:
        gl.read(path, schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "t.ledger")
    assert "Mueller" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert not (tmp_path / "t.ledger").exists()


def test_a_lack_of_memory_is_reported(tmp_path):
    with mock.patch.object(source, "clip_dates", side_effect=MemoryError), pytest.raises(MemoryError):
        gl.Table.read(pl.DataFrame({"c": [1]}), gl.Schema("t", [gl.Integer("c", bounds=(0, 1))]))
