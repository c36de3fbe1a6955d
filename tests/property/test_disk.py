"""Files that stay on the disk give the codes, counts and errors of files that are read into memory.

Written and cut in every way: CSV and Parquet, one file or several, parts of every size, and by DuckDB.
"""

import datetime as dt
import itertools
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.engines import disk
from gapless.data.engines.disk import Disk
from gapless.data.engines.memory import Memory
from gapless.data.io import encode, source, text_files
from helpers import random_views
from helpers.examples import examples
from helpers.odd_cells import DATES, FAR_DAYS, FAR_STEPS, LEVELS, NUMBERS
from helpers.open_sealed import reveal

COLUMNS = {
    "level": gl.Categorical("level", ["a", "ü 漢", "1", 'q"'], may_be_missing=True, missing=("?",)),
    "number": gl.Categorical("number", [0, 1, 2, -3], may_be_missing=True, missing=("9",), outside="other", other=2),
    "whole": gl.Integer("whole", bounds=(0, 20), bins=4, may_be_missing=True, missing=("-9", "77")),
    "edge": gl.Number("edge", bounds=(0, 10), edges=(0, 2.5, 5, 10), may_be_missing=True, outside="missing"),
    "clamped": gl.Number("clamped", bounds=(-1, 1), bins=3, may_be_missing=True),
    "yes": gl.Boolean("yes", may_be_missing=True),
    "day": gl.Date("day", bounds=("2000-01-01", "2009-12-31"), bins=5, may_be_missing=True),
    "moment": gl.DateTime("moment", bounds=("2000-01-01", "2000-12-31"), bins=3, may_be_missing=True),
    "strict": gl.Integer("strict", bounds=(0, 3), outside="refuse"),
}
FLOATS = st.sampled_from([0.0, -0.0, 2.5, 5.0, 10.0, 10.000001, -9.0, 77.0, math.nan, math.inf, -math.inf, 1e300, None])
WHOLE = st.one_of(st.integers(-10, 25), st.sampled_from([77, -9, 100, None]))
# What a column of each kind may hold, by the type it has in Parquet.
TYPED = {
    pl.String: st.sampled_from(
        ["a", "ü 漢", " a ", "1", "1.0", 'q"', "?", "", "2.5", "-9", "true", "2003-05-06", None]
    ),
    pl.Int8: st.one_of(st.integers(-128, 127), st.none()),
    pl.UInt8: st.one_of(st.integers(0, 255), st.none()),
    pl.Int16: WHOLE,
    pl.Int32: WHOLE,
    pl.Int64: st.one_of(WHOLE, st.sampled_from([2**62, -(2**63), 2**63 - 1])),
    pl.UInt64: st.sampled_from([0, 1, 9, 2**64 - 1, None]),
    pl.Float32: FLOATS,
    pl.Float64: FLOATS,
    pl.Boolean: st.sampled_from([True, False, None]),
    pl.Date: st.one_of(st.dates(), st.sampled_from([dt.date(2004, 1, 1), None])),
    pl.Datetime("us"): st.one_of(st.datetimes(), st.none()),
    pl.Decimal(38, 10): st.one_of(st.decimals(-(10**27), 10**27, places=10), st.none()),
    pl.Categorical: st.sampled_from(["a", "1", "-9", None]),
    **{
        pl.Datetime(unit, zone): st.one_of(st.sampled_from(FAR_STEPS), st.integers(-(2**63), 2**63 - 1))
        for unit in ("ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin")
    },
}


@st.composite
def frames(draw):
    """A few columns of any types, not only those of the schema."""
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True))
    rows = draw(st.integers(0, 9))
    cells = {}
    for name in names:
        dtype = draw(st.sampled_from(list(TYPED)))
        column = draw(st.lists(TYPED[dtype], min_size=rows, max_size=rows))
        raw = pl.Int64 if any(isinstance(cell, int) for cell in column) and dtype.is_temporal() else dtype
        cells[name] = pl.Series(name, column, dtype=raw, strict=False).cast(dtype)
    return pl.DataFrame(cells)


def outcome(path, schema, folder, engine):
    """The class of the engine, the codes of all rows and all counts; or the error message."""
    number = len(list(folder.glob("*.ledger")))
    try:
        table = gl.read(
            path,
            schema,
            protect=gl.Rows(1),
            ledger=folder / f"{number}.ledger",
            budget=gl.Budget(1.0, 1e-6),
            engine=engine,
        )
    except gl.GaplessError as error:
        return type(error).__name__, str(error)
    held = reveal(table._unbinned_rows, table.ledger)
    assert isinstance(held, Memory if engine == "memory" else Disk)
    rows = [row for batch in held.batches(range(len(schema.names))) for row in zip(*batch.columns, strict=True)]
    sets = [s for n in range(3) for s in itertools.combinations(schema.names, n)]
    counts = [reveal(value, table.ledger).tolist() for value in table.marginals(sets, rows="extended")]
    return [tuple(map(int, row)) for row in rows], counts


@examples(20)
@given(
    frame=frames(),
    files=st.integers(1, 3),
    kind=st.sampled_from(["csv", "parquet"]),
    size=st.integers(1, 4),
    data=st.data(),
)
def test_the_same_codes_counts_and_errors_from_the_disk_as_from_memory(frame, files, kind, size, data):
    folder = Path(tempfile.mkdtemp())
    cuts = sorted(data.draw(st.lists(st.integers(0, frame.height), min_size=files - 1, max_size=files - 1)))
    for number, (start, stop) in enumerate(itertools.pairwise([0, *cuts, frame.height])):
        part = frame[start:stop]
        if kind == "csv":
            written = [source.clip_dates(series) for series in part]  # polars writes no others as text
            pl.DataFrame(written).write_csv(folder / f"{number}.csv")
        else:
            part.write_parquet(folder / f"{number}.parquet", row_group_size=2)
    schema = gl.Schema("t", [COLUMNS[name] for name in frame.columns])
    pattern = folder / f"*.{kind}"
    whole = outcome(pattern, schema, folder, "memory")
    with (
        mock.patch.object(text_files, "PART", 4),
        mock.patch.object(source, "PART_ROWS", size),
        mock.patch.multiple(disk, ROWS=size),
        mock.patch.multiple(encode, WORTH=0.1),  # tables for the smallest parts
    ):
        for engine in ("disk", "duckdb"):
            assert outcome(pattern, schema, folder, engine) == whole


@examples(200)
@given(data=st.data())
def test_a_table_of_numbers_agrees_with_the_rules(data):
    dtype = data.draw(st.sampled_from([dtype for dtype in TYPED if dtype.is_integer()]))
    column = COLUMNS[data.draw(st.sampled_from(list(COLUMNS)))]
    looked_up, plain = encode.Encoder(column), encode.Encoder(column)
    for _ in range(3):  # tables grow
        series = pl.Series(column.name, data.draw(st.lists(TYPED[dtype], max_size=6)), dtype=dtype)
        with mock.patch.object(encode, "WORTH", 0.01):
            found = looked_up.codes(series.to_frame())
        with mock.patch.object(encode, "SPAN", 0):
            codes, wrong = plain.codes(series.to_frame())
        assert np.array_equal(found[0], codes)
        assert found[0].dtype == codes.dtype
        assert {order: str(error) for order, error in found[1].items()} == {o: str(e) for o, e in wrong.items()}


@examples(50)
@given(rows=random_views.rows_of_codes, maps=random_views.maps, size=st.integers(1, 4))
def test_views_of_views_are_what_memory_makes_of_them(rows, maps, size):
    path = Path(tempfile.mkdtemp()) / "t.parquet"
    frame = pl.DataFrame(rows, schema=dict.fromkeys(random_views.NAMES, pl.Int64), orient="row")
    frame.write_parquet(path)
    memory = Memory(tuple(frame[name].to_numpy().astype(np.uint8) for name in random_views.NAMES), frame.height)
    near, far = random_views.viewed(memory, Disk.at(path, random_views.SCHEMA, encoding=None), maps)
    with mock.patch.multiple(disk, ROWS=size):
        random_views.check_same_rows(near, far)


@pytest.mark.parametrize(
    ("unit", "zone"), [("D", None), *itertools.product(["ms", "us", "ns"], [None, "America/New_York"])]
)
def test_no_moment_makes_reading_fail(unit, zone, tmp_path):
    """However far it is, it has the code that memory gives it, in columns of every kind."""
    steps = FAR_DAYS if unit == "D" else FAR_STEPS
    moments = pl.Series("x", steps, dtype=pl.Int32 if unit == "D" else pl.Int64)
    moments = moments.cast(pl.Date if unit == "D" else pl.Datetime(unit, zone))
    kinds = [LEVELS["gaps"], LEVELS["boolean"], NUMBERS["number"], *DATES.values()]
    schema = gl.Schema("t", [replace(kind, name=f"x{n}", may_be_missing=True) for n, kind in enumerate(kinds)]).finest
    pl.DataFrame(dict.fromkeys(schema.names, moments)).write_parquet(tmp_path / "t.parquet")
    within = pl.DataFrame(dict.fromkeys(schema.names, source.clip_dates(moments)))
    columns = encode.encode([within], schema).columns
    for by_duckdb in (False, True):
        engine = Disk.at(tmp_path / "t.parquet", schema, encoding=None, by_duckdb=by_duckdb)
        batches = list(engine.batches(range(len(kinds))))
        for place, (name, codes) in enumerate(zip(schema.names, columns, strict=True)):
            found = np.concatenate([batch.columns[place] for batch in batches])
            assert found.tolist() == codes.tolist(), name


@pytest.mark.parametrize("engine", ["memory", "disk", "duckdb"])
def test_a_cell_of_a_column_that_is_ignored_makes_no_reading_fail(engine, tmp_path):
    times, moments = (pa.array([2**61, -1, 0], pa.int64()).view(kind) for kind in (pa.time64("us"), pa.timestamp("ms")))
    pq.write_table(pa.table({"strict": [1, 2, 3], "times": times, "moments": moments}), tmp_path / "t.parquet")
    schema = gl.Schema("t", [COLUMNS["strict"]], ignore=["times", "moments"])
    codes, _ = outcome(tmp_path / "t.parquet", schema, tmp_path, engine)
    assert codes == [(1,), (2,), (3,)]


def test_names_that_differ_by_large_letters_are_columns_apart(tmp_path):
    frame = pl.DataFrame({"x": [0, 1], "X": [2, 3], "x_1": [1, 1]})
    frame.write_parquet(tmp_path / "t.parquet")
    schema = gl.Schema("t", [gl.Categorical(name, [0, 1, 2, 3]) for name in ("X", "x_1", "x")])
    for engine in ("memory", "disk", "duckdb"):
        codes, _ = outcome(tmp_path / "t.parquet", schema, tmp_path, engine)
        assert codes == frame.select("X", "x_1", "x").rows()


@pytest.mark.parametrize("engine", ["disk", "duckdb"])
def test_rows_that_are_refused_are_refused_at_reading(engine, tmp_path):
    pl.DataFrame({"strict": [1, 2, 9]}).write_parquet(tmp_path / "t.parquet")
    schema = gl.Schema("t", [COLUMNS["strict"]])
    with pytest.raises(gl.errors.ReadError, match="outside = 'refuse'"):
        gl.read(tmp_path / "t.parquet", schema, protect=gl.Rows(1), budget=gl.Budget(1, 1e-6), engine=engine)
    assert not (tmp_path / "t.ledger").exists()
    lax = replace(COLUMNS["strict"], outside="clamp")
    gl.read(tmp_path / "t.parquet", gl.Schema("t", [lax]), protect=gl.Rows(1), budget=gl.Budget(1, 1e-6), engine=engine)
