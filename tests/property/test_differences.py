"""A difference of two columns: what its cells are, in every engine, one row at a time; and what is written from it."""

import datetime as dt
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.engines.disk import Disk
from gapless.data.engines.memory import join_batches
from gapless.data.engines.postgres import PostgresSource, Sql
from gapless.data.engines.sql_engine import materialize
from gapless.data.io import encode as encoding
from gapless.data.io.encode import encode
from gapless.schema.difference import difference_of, in_steps
from gapless.testing.audit import private
from helpers.databases import query_of
from helpers.differences import CALENDAR, NEAR, SCHEMAS, SMALL, TAKES_ALL
from helpers.examples import examples
from helpers.odd_cells import TEXTS
from helpers.open_sealed import reveal


def cells_of(schema):
    """Texts that the columns of a schema may hold; most of them are values."""
    dates = isinstance(schema["a"], gl.Date | gl.DateTime)
    return st.sampled_from([*NEAR * 3, *CALENDAR] if dates else [*SMALL * 3, *TEXTS])


def frame_of(rows):
    return pl.DataFrame(rows, schema={"a": pl.String, "b": pl.String}, orient="row")


def stay_on_disk(frame, schema, *, by_duckdb):
    path = Path(tempfile.mkdtemp()) / "t.parquet"
    frame.write_parquet(path)
    on_disk = Disk.at(path, schema, encoding=None, by_duckdb=by_duckdb)
    return join_batches(on_disk.batches(range(2)), 2)


def outcome(read):
    """The codes, sorted; or what is refused."""
    try:
        return sorted(zip(*(codes.tolist() for codes in read().columns), strict=True))
    except gl.GaplessError as error:
        return type(error), error.message


@pytest.mark.parametrize("name", SCHEMAS)
@examples(4)
@given(data=st.data())
def test_all_engines_compute_the_same_cells(name, data, postgres):
    schema = SCHEMAS[name].finest
    many = 60 if name in TAKES_ALL else 2  # few rows show which cells are refused
    rows = st.lists(st.tuples(cells_of(schema), cells_of(schema)), min_size=many // 2, max_size=many)
    frame = frame_of(data.draw(rows))
    here = outcome(lambda: encode([frame], schema))
    assert outcome(lambda: encode([frame[place] for place in range(frame.height)], schema)) == here
    assert outcome(lambda: stay_on_disk(frame, schema, by_duckdb=False)) == here
    assert outcome(lambda: stay_on_disk(frame, schema, by_duckdb=True)) == here
    assert outcome(lambda: materialize(Sql.read(PostgresSource(postgres, query_of(frame)), schema))) == here


moments = st.none() | st.datetimes(*map(dt.datetime.fromisoformat, ("2023-12-01", "2025-01-31")))


@examples(4)
@given(rows=st.lists(st.tuples(moments, moments), min_size=10, max_size=20))
def test_typed_columns_have_the_same_differences(rows, postgres):
    """Dates, datetimes, and instants with a time zone, which are counted in UTC: a night in March has 24 hours."""
    schema, days = SCHEMAS["seconds"].finest, SCHEMAS["days, gaps outside"].finest
    plain = pl.DataFrame(rows, schema={"a": pl.Datetime("us"), "b": pl.Datetime("us")}, orient="row")
    zoned = plain.select(pl.all().dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin"))
    dates = plain.select(pl.all().cast(pl.Date))
    assert outcome(lambda: encode([zoned], schema)) == outcome(lambda: encode([plain], schema))
    for frame, of in ((plain, schema), (zoned.select(pl.all().dt.convert_time_zone("UTC")), schema), (dates, days)):
        there = outcome(lambda f=frame, s=of: materialize(Sql.read(PostgresSource(postgres, query_of(f)), s)))
        assert there == outcome(lambda f=frame, s=of: encode([f], s))


@pytest.mark.parametrize("name", TAKES_ALL)
@examples(6)
@given(data=st.data())
def test_a_cell_is_the_difference_of_the_two_values_that_are_read(name, data):
    schema = SCHEMAS[name]
    rows = data.draw(st.lists(st.tuples(cells_of(schema), cells_of(schema)), min_size=20, max_size=40))
    difference, minuend = schema["between"], difference_of(schema["between"]).minuend
    table = gl.Table.read(frame_of(rows), schema)
    parts = gl.Table.read(frame_of(rows), gl.Schema("t", [schema["a"], minuend]))
    first, second = parts.numeric_values(1), parts.numeric_values(0)
    found, codes = table.numeric_values(1), table.codes[1].astype(int)
    steps = in_steps(minuend, first) - in_steps(minuend, second)
    values = difference.intervals.from_steps(steps)
    kept = np.clip(values, *difference.limits)
    if difference.outside == "missing":
        kept = np.where(values == kept, kept, np.nan)
    assert np.array_equal(found, kept, equal_nan=True)
    states = parts.codes[1].astype(int) - minuend.values_size
    lacking = np.isnan(first)  # then the state of the minuend, else the first kind of gap
    assert (codes[lacking] - difference.values_size == states[lacking]).all()
    assert (codes[~lacking & np.isnan(kept)] == difference.code_of_gap(difference.gaps[0])).all()


@pytest.mark.parametrize("name", TAKES_ALL)
@examples(4)
@given(data=st.data())
def test_neighbouring_tables_differ_in_one_row(name, data, tmp_path_factory):
    """One row more changes no other row's code, and moves the counts of all columns together by one."""
    schema, folder = SCHEMAS[name], tmp_path_factory.mktemp("neighbours")
    rows = data.draw(st.lists(st.tuples(cells_of(schema), cells_of(schema)), min_size=1, max_size=12))
    place = data.draw(st.integers(0, len(rows) - 1))
    less = rows[:place] + rows[place + 1 :]
    with_row, without = (encode([frame_of(some)], schema.finest) for some in (rows, less))
    for codes, others in zip(with_row.columns, without.columns, strict=True):
        assert np.array_equal(np.delete(codes, place), others)
    tables = [private(frame_of(some), schema, folder) for some in (rows, less)]
    counts = [reveal(table.marginal(["a", "between"], rows="extended"), table.ledger) for table in tables]
    assert np.abs(counts[0] - counts[1]).sum() == 1


def test_a_difference_from_the_row_above_is_found(monkeypatch):
    """The tests above can fail: a planted difference that reads another row changes that row's code."""
    schema, rows = SCHEMAS["days"], [("2024-02-27", "2024-02-29"), ("2024-02-28", "2024-02-29")]
    right = encoding._value_steps

    def shifted(series, column):
        coded, values = right(series, column)
        return coded, np.roll(values, 1) if column.name == "a" else values

    monkeypatch.setattr(encoding, "_value_steps", shifted)
    whole, part = (encode([frame_of(some)], schema.finest).columns[1] for some in (rows, rows[1:]))
    assert not np.array_equal(whole[1:], part)


@pytest.mark.parametrize("name", SCHEMAS)
@examples(4)
@given(seed=st.integers(0, 10**6), ends=st.booleans())
@example(seed=0, ends=True)
def test_what_is_written_is_within_the_bounds_and_read_again(name, seed, ends, tmp_path_factory):
    """For any rows of a model: the minuend within its bounds, the difference within its own, both read as written."""
    schema, rng = SCHEMAS[name], np.random.default_rng(seed)
    states = [range(column.extended_size) for column in schema.columns]
    extremes = [[0, column.values_size - 1, column.extended_size - 1] for column in schema.columns]
    drawn = [rng.choice(codes, 30) for codes in (extremes if ends else states)]
    table = gl.Table(schema, drawn, rows=30, seed=seed)
    column, minuend = schema["between"], difference_of(schema["between"]).minuend
    path = tmp_path_factory.mktemp("written") / "t.csv"
    table.write(path)
    written = encoding._positions(table["b"], minuend)
    for again in (gl.Table.read(path, schema), gl.Table.read(table.to_polars(), schema)):
        low, between = (again.numeric_values(place) for place in (0, 1))
        high = gl.Table.read(table.to_polars(), gl.Schema("t", [schema["a"], minuend])).numeric_values(1)
        assert np.array_equal(written, high, equal_nan=True)  # no rule for cells outside was needed
        observed = ~np.isnan(high)
        assert np.array_equal(observed, ~np.isnan(between))
        steps = in_steps(minuend, high) - in_steps(minuend, low)
        assert (column.intervals.from_steps(steps) == between)[observed].all()  # nothing was moved to a bound
        exact = observed & (high > minuend.limits[0]) & (high < minuend.limits[1])
        assert (between == table.numeric_values(1))[exact].all()
