"""The coding in SQL gives each cell the code that it has from a file or frame: gaps, codes, bounds, edges, dates."""

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.engines import sql_encoding
from gapless.data.engines.postgres import PostgresSource, Sql
from gapless.data.engines.sql_encoding import DAY
from gapless.data.engines.sql_engine import materialize
from gapless.data.io.encode import encode
from helpers.databases import query_of
from helpers.examples import examples
from helpers.odd_cells import DATES, DAYS, FAR, LEVELS, MOMENTS, NUMBERS, POSTGRES, TEXTS, near


def coded(frame, schema, url):
    """The rows of codes from memory and from the database, sorted; or what each of them refuses."""
    results = []
    for read in (
        lambda: encode([frame], schema.finest),
        lambda: materialize(Sql.read(PostgresSource(url, query_of(frame)), schema.finest)),
    ):
        try:
            results.append(sorted(zip(*(column.tolist() for column in read().columns), strict=True)))
        except gl.GaplessError as error:
            results.append((type(error), error.message))
    return results


def check(cells, column, url, dtype):
    frame = pl.DataFrame({"x": pl.Series(cells, dtype=dtype)})
    memory, database = coded(frame, gl.Schema("t", [column]), url)
    assert isinstance(memory, list)
    if memory == database:
        return
    for cell in cells:  # the smallest example
        memory, database = coded(pl.DataFrame({"x": pl.Series([cell], dtype=dtype)}), gl.Schema("t", [column]), url)
        assert memory == database, cell
    raise AssertionError(cells)


letters = st.text(
    st.one_of(st.sampled_from("0123456789+-.,eE '"), st.characters(codec="utf-8", exclude_characters="\0")), max_size=12
)
digits = st.from_regex(r"[+-]?[0-9]{0,25}[.,]?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@pytest.mark.parametrize(
    "name", [name for name, c in (LEVELS | NUMBERS).items() if c.may_be_missing and c.outside != "refuse"]
)
@examples(6)
@given(more=st.lists(st.one_of(letters, digits), min_size=20, max_size=80))
def test_texts_have_the_codes_that_a_file_gives_them(name, more, postgres):
    check([None, *TEXTS, *more], (LEVELS | NUMBERS)[name], postgres, pl.String)


@pytest.mark.parametrize("name", ["plain", "refuse", "whole, refuse", "number, symlog"])
def test_each_text_alone_is_refused_or_not_as_in_a_file(name, postgres):
    for cell in [None, *TEXTS[::6]]:
        frame = pl.DataFrame({"x": pl.Series([cell], dtype=pl.String)})
        memory, database = coded(frame, gl.Schema("t", [(LEVELS | NUMBERS)[name]]), postgres)
        assert memory == database, cell


@pytest.mark.parametrize("name", NUMBERS)
@examples(4)
@given(more=st.lists(st.floats(), min_size=20, max_size=60))
def test_doubles_on_edges_and_beside_them_fall_into_the_same_cells(name, more, postgres):
    column = NUMBERS[name]
    cells = near(column) + more
    if column.outside == "refuse":
        cells = [cell for cell in cells if cell is None or (0 <= cell <= 10 and cell == int(cell))]
    if not column.may_be_missing:
        cells = [cell for cell in cells if cell is not None and not math.isnan(cell)]
    check(cells, column, postgres, pl.Float64)
    check(cells, column, postgres, pl.Float32)
    whole = [None if cell is None else int(cell) for cell in cells if cell is None or abs(cell) < 2**62]
    check(whole, column, postgres, pl.Int64)
    check([cell for cell in whole if cell is None or abs(cell) < 2**15], column, postgres, pl.Int16)


@pytest.mark.parametrize("name", LEVELS)
def test_numbers_and_booleans_are_levels_by_their_text(name, postgres):
    column = LEVELS[name]
    numbers = [0.0, -0.0, 1.0, 13.0, 13.5, 1.5, 0.1, 1e16, math.inf, -9.0, 99.0]
    gaps = [None, math.nan] if column.may_be_missing else []
    for dtype, cells in {
        pl.Float64: numbers + gaps,
        pl.Float32: numbers + gaps,
        pl.Int64: [0, 1, 13, -9, 99, *gaps[:1]],
        pl.Boolean: [True, False, *gaps[:1]],
        pl.Decimal(20, 2): [Decimal("1.50"), Decimal(13), Decimal("0.10"), Decimal(-9), *gaps[:1]],
        pl.Date: [dt.date(2024, 2, 29), dt.date(1, 1, 1), *gaps[:1]],
    }.items():
        for some in [cells] if column.may_be_missing and column.outside != "refuse" else [[c] for c in cells[::3]]:
            memory, database = coded(
                pl.DataFrame({"x": pl.Series(some, dtype=dtype)}), gl.Schema("t", [column]), postgres
            )
            assert memory == database, (some, dtype)


@pytest.mark.parametrize("name", NUMBERS)
def test_decimals_have_the_codes_of_doubles(name, postgres):
    column = NUMBERS[name]
    cells = [Decimal(n) / 100 for n in (0, 1, 5, 10, 30, 100, 150, 250, 1000)]
    whole = column.outside != "refuse"
    check(cells if whole else [Decimal(3)], column, postgres, pl.Decimal(30, 2))


@st.composite
def dates_gone_wrong(draw):
    """A text of a date, with letters added, left out or replaced."""
    text = draw(st.sampled_from([*MOMENTS, *DAYS]))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + draw(st.sampled_from("0123456789-+:. TtZz/,\u00a0"))
            + text[place + draw(st.integers(0, 2)) :]
        )
    return text


@pytest.mark.parametrize("name", [name for name, column in DATES.items() if column.may_be_missing])
@examples(4)
@given(more=st.lists(dates_gone_wrong(), min_size=50, max_size=150))
def test_texts_of_dates_have_the_codes_that_a_file_gives_them(name, more, postgres):
    cells = [None, *MOMENTS, *DAYS, *(f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in DAYS), *more]
    cells += [f"{day[5:7]}/{day[8:]}/{day[:4]} {int(day[8:]) % 27:02}:{2 * int(day[8:]):02}" for day in DAYS]
    cells += [day.replace("-", "") for day in DAYS]
    check(cells, DATES[name], postgres, pl.String)


@pytest.mark.parametrize("kind", POSTGRES)
@pytest.mark.parametrize("name", [*LEVELS, *NUMBERS, *DATES])
def test_no_cell_that_only_postgresql_holds_makes_reading_fail(kind, name, postgres):
    column = replace((LEVELS | NUMBERS | DATES)[name], may_be_missing=True)
    column = replace(column, outside="missing") if column.outside == "refuse" else column
    schema = gl.Schema("t", [column]).finest
    if name in (DATES if kind == "numeric" else NUMBERS):  # by the type, which is public
        with pytest.raises(gl.errors.ReadError, match=f"'x' has kind {column.kind} in the schema, but type"):
            Sql.read(PostgresSource(postgres, f"SELECT NULL::{kind} AS x"), schema)
        return
    cells = ", ".join(f"('{text}'::{kind})" for text in POSTGRES[kind])
    found = materialize(
        Sql.read(PostgresSource(postgres, f"SELECT * FROM (VALUES {cells}) AS said(x)"), schema)
    ).columns[0]
    assert len(found) == len(POSTGRES[kind])
    if name not in LEVELS:
        (expected,) = encode([pl.DataFrame({"x": in_memory(kind, POSTGRES[kind].values())})], schema).columns
        assert sorted(found.tolist()) == sorted(expected.tolist())


def in_memory(kind, numbers):
    if kind == "numeric":
        return pl.Series(numbers, dtype=pl.Float64)
    if kind == "date":
        return pl.Series([number // DAY for number in numbers], dtype=pl.Int32).cast(pl.Date)
    return pl.Series(numbers, dtype=pl.Int64).cast(pl.Datetime("us"))


@pytest.mark.parametrize("name", DATES)
@examples(4)
@given(moments=st.lists(st.datetimes(), min_size=10, max_size=40))
def test_dates_and_moments_have_the_same_codes(name, moments, postgres):
    column = DATES[name]
    lower, upper = (dt.datetime.fromisoformat(str(bound)) for bound in column.bounds)
    ends = [end + dt.timedelta(microseconds=step) for end in (lower, upper) for step in (0, 1) if end.year < 9999]
    cells = [lower, upper, *ends, *FAR, *moments]
    cells += [None] * column.may_be_missing
    check(cells, column, postgres, pl.Datetime("us"))
    check([cell and cell.date() for cell in cells], column, postgres, pl.Date)
    zoned = pl.Series(cells, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")
    check(zoned.to_list(), column, postgres, zoned.dtype)


def test_instants_are_in_utc_for_any_time_zone_of_the_session(postgres):
    cells = [dt.datetime(2024, 2, 29, hour, 30, tzinfo=dt.UTC) for hour in (0, 9, 23)]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET timezone = 'Pacific/Kiritimati'")
        try:
            check(cells, DATES["hours"], postgres, pl.Datetime("us", "UTC"))
        finally:
            connection.execute("ALTER ROLE CURRENT_USER RESET timezone")


def test_a_cut_that_is_one_bit_off_and_a_letter_that_is_not_trimmed_are_found(monkeypatch, postgres):
    number, levels = NUMBERS["number"], LEVELS["gaps"]
    monkeypatch.setattr(sql_encoding, "MORE_SPACE", sql_encoding.SPACE)
    with pytest.raises(AssertionError):
        check(["\x1c13\x1f"], levels, postgres, pl.String)
    right = sql_encoding.bin_starts
    monkeypatch.setattr(sql_encoding, "bin_starts", lambda column: np.nextafter(right(column), np.inf))
    with pytest.raises(AssertionError):
        check(near(number), number, postgres, pl.Float64)
