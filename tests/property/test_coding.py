"""The coding in SQL gives each cell the code that it has from a file or frame: gaps, codes, bounds, edges, dates."""

import datetime as dt
import math
import re
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gapless as gl
from databases import query_of
from gapless.data.coding import SURE, cuts_of
from gapless.data.encode import encode
from gapless.data.pushed import hold
from gapless.data.sql import Postgres, Sql
from gapless.schema import Boolean, Categorical, Date, DateTime, Integer, MissingCode, Number, Ordinal

GAPS = {"may_be_missing": True, "missing": (MissingCode("-9", "refused"), "NA", MissingCode("n/a", "not-applicable"))}
EMPTY = {"may_be_missing": True, "missing": ("NA", MissingCode("", "not-applicable"))}
LEVELS = {
    "plain": Categorical("x", ["a", "b", "Ä", "c'd", "\\", "日本"]),
    "gaps": Categorical("x", ["a", "b", 13, "1.50", "-0", "1e+16", 0.1, "inf", "true", "2024-02-29"], **GAPS),
    "refuse": Categorical("x", ["a", 13, True], may_be_missing=True, outside="refuse"),
    "other": Categorical("x", ["a", 13, "rest", "٣"], outside="other", other="rest", **EMPTY),
    "many": Ordinal("x", [f"level {i}" for i in range(100)] + list(range(100)), may_be_missing=True),
    "boolean": Boolean("x", **GAPS),
    "spelling": Boolean("x", spelling=("Não", "ﾓK"), may_be_missing=True, missing=("K",)),
}
NUMBERS = {
    "whole": Integer("x", bounds=(0, 120), **GAPS),
    "whole, bins": Integer("x", bounds=(-5, 10**6), bins=7, outside="missing", **GAPS),
    "whole, refuse": Integer("x", bounds=(0, 10), may_be_missing=True, outside="refuse"),
    "whole, huge": Integer("x", bounds=(-(2**53), 2**53), bins=3, **EMPTY),
    "number": Number("x", bounds=(0, 1), bins=10, **GAPS),
    "number, edges": Number("x", bounds=(-1, 2.5), edges=(-1, 0.1, 0.3, 1 / 3, 2.5), outside="missing", **EMPTY),
    "number, log": Number("x", bounds=(0.001, 1e300), scale="log", may_be_missing=True, missing=("0", "inf", "1e-400")),
    "number, symlog": Number("x", bounds=(-1e6, 1e6), scale="symlog"),
    "number, steps": Number("x", bounds=(0, 3), resolution=0.1, **GAPS),
    "number, many steps": Number("x", bounds=(0, 10_000), resolution=0.01, bins=13, **GAPS),
    "comma": Number("x", bounds=(0, 2000), decimal=",", thousands=".", **GAPS),
    "grouped": Integer("x", bounds=(0, 2000), thousands=" ", **GAPS),
    "apostrophe": Number("x", bounds=(0, 2000), thousands="'", outside="missing", may_be_missing=True),
}
DATES = {
    "days": Date("x", bounds=("1900-01-01", "2030-12-31"), may_be_missing=True, missing=("NA", "1899-12-31")),
    "months": Date("x", bounds=("0001-01-01", "9999-12-31"), resolution="month", **EMPTY),
    "years": Date("x", bounds=("1969-01-01", "1971-12-31"), resolution="year", outside="missing", may_be_missing=True),
    "seconds": DateTime("x", bounds=("1960-01-01T00:00:00", "2040-01-01T00:00:00"), may_be_missing=True),
    "hours": DateTime("x", bounds=("2024-02-28T00:00:00", "2024-03-01T23:00:00"), resolution="hour", **GAPS),
    "minutes": DateTime("x", bounds=("1969-12-31T00:00:00", "1970-01-02T00:00:00"), resolution="minute"),
    "german": Date("x", bounds=("1900-01-01", "2030-12-31"), format="%d.%m.%Y", **GAPS),
    "year alone": Date("x", bounds=("1900-01-01", "2030-12-31"), resolution="year", format="%Y", **GAPS),
    "american": DateTime("x", bounds=("1900-01-01", "2030-12-31"), format="%m/%d/%Y %H:%M", may_be_missing=True),
}
WORDS = [
    "", " ", "NA", " NA ", "na", "-9", "-9.0", "-9,0", "n/a", "a", " a\u3000", "A", "ä", "Ä", "c'd", "\\", "日本", "13",
    "13.0", "13.00", "13.", "--13.0", "1.0.0", "٣.0", "٣", "level 3", "7", "7.000", "true", "TRUE", "T", "yes", "0", "1.0",
    "não", "NÃO", "ﾓK", "ﾓk", "\u212a", "k", "\x1c", "\x1c13\x1f", "\x1c ", "\u200b", "\x85a", "a\nb", "rest", "-0", "-0.0", "%", "%s",
    "1", "1.", ".5", "+.5", ".", "+", "-", "e5", "1e5", "1E+2", "1e-5", "1e", "1_000", "0x10", "inf", "-Inf", "+INFINITY", "nan",
    "-nan", "infinit", "1e400", "-1e400", "1e-400", "0e999999999999", "1e999999999999", "1e-999999999999", "00012", "1.5f",
    "1d", "1,5", "1.234,5", "1.234", "1234,5", "12.34", ",5", "5,", ",", "-,", ",e3", "1 234", "1\u00a0234", "1\u202f2345",
    "1'234.5", "1’234", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1.7976931348623158e308",
    "1.7976931348623159e308", "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400", "1" * 50, "0.1" + "0" * 60, "0.30000000000000004",
    "9007199254740993", "0.3", "0.1", "0.99999999999999994", "1e-323", "3.5", "0.05",
]  # fmt: skip
MOMENTS = [
    "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "2024-04-31",
    "0000-00-00", "0001-01-01", "9999-12-31", "1969-12-31", "1970-01-01", "2024-02-29T23:59:59", "2024-02-29 23:59:59.999999",
    "2024-02-29T24:00:00", "2024-02-29 10:61", "2024-02-29T10:05", "2024-02-29T10:05:00Z", "2024-03-01T00:30:00+02:00",
    "2024-02-28T23:30:00.25-01:30", "no date", "29.02.2024", "31.12.1999", "30.02.2000", "02/29/2024 10:30", "12/31/0999 00:00",
    "1999", "0999", "2024", "01.01.0999", "1899-12-31", "NA", "", " 2024-02-29 ",
]  # fmt: skip


def coded(frame, schema, url):
    """The rows of codes from memory and from the database, sorted; or what each of them refuses."""
    results = []
    for read in (
        lambda: encode([frame], schema.fine),
        lambda: hold(Sql.read(Postgres(url, query_of(frame)), schema.fine)),
    ):
        try:
            results.append(sorted(zip(*(column.tolist() for column in read().columns), strict=True)))
        except gl.GaplessError as error:
            results.append((type(error), error.wrong))
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


@pytest.mark.parametrize("name", [name for name, c in (LEVELS | NUMBERS).items() if c.may_be_missing and c.outside != "refuse"])
@settings(max_examples=6, deadline=None)
@given(more=st.lists(st.one_of(letters, digits), min_size=20, max_size=80))
def test_texts_have_the_codes_that_a_file_gives_them(name, more, postgres):
    check([None, *WORDS, *more], (LEVELS | NUMBERS)[name], postgres, pl.String)


@pytest.mark.parametrize("name", ["plain", "refuse", "whole, refuse", "number, symlog"])
def test_each_text_alone_is_refused_or_not_as_in_a_file(name, postgres):
    for cell in [None, *WORDS[::6]]:
        frame = pl.DataFrame({"x": pl.Series([cell], dtype=pl.String)})
        memory, database = coded(frame, gl.Schema("t", [(LEVELS | NUMBERS)[name]]), postgres)
        assert memory == database, cell


def near(column):
    """Numbers on the edges of a column's cells, and beside them."""
    lower, upper = column._ends
    fine = column.fine
    edges = np.array([lower, upper, *cuts_of(fine)[:: max(1, fine.values_size // 20)], *cuts_of(column)])
    beside = [np.nextafter(edges, end) for end in (-np.inf, np.inf)]
    more = [0.0, -0.0, 5e-324, -5e-324, 1.5, 13.0, -9.0, 1e16, 0.1, 1e300, -1e300, 1.7976931348623157e308]
    return [*np.concatenate([edges, *beside]).tolist(), *more, math.inf, -math.inf, math.nan, None]


@pytest.mark.parametrize("name", NUMBERS)
@settings(max_examples=4, deadline=None)
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


FORMS = {"german": "\\d\\d[.]\\d\\d[.]\\d{4}", "year alone": "\\d{4}", "american": "\\d\\d/\\d\\d/\\d{4} \\d\\d:\\d\\d"}
DAYS = [
    f"{year:04}-{month:02}-{day:02}"
    for year in (1, 1900, 1999, 2000, 2024)
    for month in range(13)
    for day in (0, 1, 28, 29, 30, 31)
]


@pytest.mark.parametrize("name", [name for name, column in DATES.items() if column.may_be_missing])
def test_texts_of_dates_have_the_codes_that_a_file_gives_them(name, postgres):
    column = DATES[name]
    known = re.compile(FORMS.get(name, SURE) + "|[^0-9]*|-9")
    cells = [*MOMENTS, *DAYS, *(f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in DAYS)]
    cells += [f"{day[5:7]}/{day[8:]}/{day[:4]} {int(day[8:]) % 27:02}:{2 * int(day[8:]):02}" for day in DAYS]
    cells = [cell for cell in cells if known.fullmatch(cell.strip()) and (cell != "-9" or column.missing)]
    assert len(cells) > 3
    check(cells, column, postgres, pl.String)


@pytest.mark.parametrize("cell", ["2024-1-5", "0000-01-01", "20240105", "2024-01-05 10:00:00Z", "2024-01-05T10:00:60", "24-01-05"])
def test_texts_that_a_file_might_read_as_dates_are_refused_and_not_guessed(cell, postgres):
    frame = pl.DataFrame({"x": ["2024-01-05", cell]})
    _, database = coded(frame, gl.Schema("t", [DATES["days"]]), postgres)
    assert database == (gl.ReadError, "column 'x' has texts that may be dates, written as this engine does not read them")


@pytest.mark.parametrize("name", DATES)
@settings(max_examples=4, deadline=None)
@given(moments=st.lists(st.datetimes(), min_size=10, max_size=40))
def test_dates_and_moments_have_the_same_codes(name, moments, postgres):
    column = DATES[name]
    lower, upper = (dt.datetime.fromisoformat(str(bound)) for bound in column.bounds)
    ends = [end + dt.timedelta(microseconds=step) for end in (lower, upper) for step in (0, 1) if end.year < 9999]
    cells = [lower, upper, *ends, dt.datetime.min, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), *moments]
    cells += [None] * column.may_be_missing
    check(cells, column, postgres, pl.Datetime("us"))
    check([cell and cell.date() for cell in cells], column, postgres, pl.Date)
    zoned = pl.Series(cells, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")
    check(zoned.to_list(), column, postgres, zoned.dtype)
