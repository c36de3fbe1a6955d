"""Columns of every kind, and cells that might be read otherwise somewhere else."""

import datetime as dt
import math
from typing import Any

import numpy as np

from gapless.data.engines.sql_encoding import FIRST, LAST, bin_starts
from gapless.schema import Boolean, Categorical, Date, DateTime, Integer, MissingCode, MissingRange, Number, Ordinal

GAPS: dict[str, Any] = {
    "may_be_missing": True,
    "missing": (MissingCode("-9", "refused"), "NA", MissingCode("n/a", "not-applicable")),
}
EMPTY: dict[str, Any] = {"may_be_missing": True, "missing": ("NA", MissingCode("", "not-applicable"))}
LEVELS = {
    "plain": Categorical("x", ["a", "b", "Ä", "c'd", "\\", "日本"]),
    "gaps": Categorical("x", ["a", "b", 13, "1.50", "-0", "1e+16", 0.1, "inf", "true", "2024-02-29"], **GAPS),
    "refuse": Categorical("x", ["a", 13, True], may_be_missing=True, outside="refuse"),
    "other": Categorical("x", ["a", 13, "rest", "٣"], outside="other", other="rest", **EMPTY),
    "many": Ordinal("x", [f"level {i}" for i in range(100)] + list(range(100)), may_be_missing=True),
    "boolean": Boolean("x", **GAPS),
    "spelling": Boolean("x", spelling=("Não", "ﾓK"), may_be_missing=True, missing=(MissingCode("K"),)),
}
NUMBERS = {
    "whole": Integer("x", bounds=(0, 120), **GAPS),
    "whole, bins": Integer("x", bounds=(-5, 10**6), bins=7, outside="missing", **GAPS),
    "whole, refuse": Integer("x", bounds=(0, 10), may_be_missing=True, outside="refuse"),
    "whole, huge": Integer("x", bounds=(-(2**53), 2**53), bins=3, **EMPTY),
    "number": Number("x", bounds=(0, 1), bins=10, **GAPS),
    "number, edges": Number("x", bounds=(-1, 2.5), edges=(-1, 0.1, 0.3, 1 / 3, 2.5), outside="missing", **EMPTY),
    "number, log": Number(
        "x",
        bounds=(0.001, 1e300),
        scale="log",
        may_be_missing=True,
        missing=tuple(map(MissingCode, ("0", "inf", "1e-400"))),
    ),
    "number, symlog": Number("x", bounds=(-1e6, 1e6), scale="symlog"),
    "number, steps": Number("x", bounds=(0, 3), resolution=0.1, **GAPS),
    "number, many steps": Number("x", bounds=(0, 10_000), resolution=0.01, bins=13, **GAPS),
    "comma": Number("x", bounds=(0, 2000), decimal=",", thousands=".", **GAPS),
    "grouped": Integer("x", bounds=(0, 2000), thousands=" ", **GAPS),
    "apostrophe": Number("x", bounds=(0, 2000), thousands="'", outside="missing", may_be_missing=True),
    "ranges": Number(
        "x",
        bounds=(0, 9),
        bins=3,
        may_be_missing=True,
        missing=(MissingRange(-math.inf, -0.5, "refused"), MissingRange(99, 2000, "not-asked"), MissingCode("-9")),
    ),
    "whole, ranges": Integer("x", bounds=(0, 90), may_be_missing=True, missing=(MissingRange(97, math.inf),)),
}
DATES = {
    "days": Date(
        "x",
        bounds=("1900-01-01", "2030-12-31"),
        may_be_missing=True,
        missing=tuple(map(MissingCode, ("NA", "1899-12-31"))),
    ),
    "months": Date("x", bounds=("0001-01-01", "9999-12-31"), resolution="month", **EMPTY),
    "years": Date("x", bounds=("1969-01-01", "1971-12-31"), resolution="year", outside="missing", may_be_missing=True),
    "seconds": DateTime("x", bounds=("1960-01-01T00:00:00", "2040-01-01T00:00:00"), may_be_missing=True),
    "hours": DateTime("x", bounds=("2024-02-28T00:00:00", "2024-03-01T23:00:00"), resolution="hour", **GAPS),
    "minutes": DateTime("x", bounds=("1969-12-31T00:00:00", "1970-01-02T00:00:00"), resolution="minute"),
    "german": Date("x", bounds=("1900-01-01", "2030-12-31"), format="%d.%m.%Y", **GAPS),
    "year alone": Date("x", bounds=("1900-01-01", "2030-12-31"), resolution="year", format="%Y", **GAPS),
    "american": DateTime("x", bounds=("1900-01-01", "2030-12-31"), format="%m/%d/%Y %H:%M", may_be_missing=True),
    "without signs": Date("x", bounds=("1900-01-01", "2030-12-31"), format="%Y%m%d", outside="missing", **GAPS),
}
TEXTS = [
    "", " ", "NA", " NA ", "na", "-9", "-9.0", "-9,0", "n/a", "a", " a\u3000", "A", "ä", "Ä", "c'd", "\\",
    "日本", "13", "13.0", "13.00", "13.", "--13.0", "1.0.0", "٣.0", "٣", "level 3", "7", "7.000", "true",
    "TRUE", "T", "yes", "0", "1.0", "não", "NÃO", "ﾓK", "ﾓk", "\u212a", "k", "\x1c", "\x1c13\x1f", "\x1c ",
    "\u200b", "\x85a", "a\nb", "rest", "-0", "-0.0", "%", "%s", "1", "1.", ".5", "+.5", ".", "+", "-", "e5",
    "1e5", "1E+2", "1e-5", "1e", "1_000", "0x10", "inf", "-Inf", "+INFINITY", "nan", "-nan", "infinit",
    "1e400", "-1e400", "1e-400", "0e999999999999", "1e999999999999", "1e-999999999999", "00012", "1.5f", "1d",
    "1,5", "1.234,5", "1.234", "1234,5", "12.34", ",5", "5,", ",", "-,", ",e3", "1 234", "1\u00a0234",
    "1\u202f2345", "1'234.5", "1’234", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324",
    "1.7976931348623158e308", "1.7976931348623159e308", "0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400",
    "1" * 50, "0.1" + "0" * 60, "0.30000000000000004", "9007199254740993", "0.3", "0.1",
    "0.99999999999999994", "1e-323", "3.5", "0.05",
]  # fmt: skip
FAR = [dt.datetime.fromisoformat(moment) for moment in ("0001-01-01", "1969-12-31 23:59:59.999999")]
MOMENTS = [
    "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "2024-13-01", "2024-00-10", "2024-01-00",
    "2024-04-31", "0000-00-00", "0001-01-01", "9999-12-31", "1969-12-31", "1970-01-01", "2024-02-29T23:59:59",
    "2024-02-29 23:59:59.999999", "2024-02-29T24:00:00", "2024-02-29 10:61", "2024-02-29T10:05",
    "2024-02-29T10:05:00Z", "2024-03-01T00:30:00+02:00", "2024-02-28T23:30:00.25-01:30", "no date",
    "29.02.2024", "31.12.1999", "30.02.2000", "02/29/2024 10:30", "12/31/0999 00:00", "1999", "0999", "2024",
    "01.01.0999", "1899-12-31", "NA", "", " 2024-02-29 ",
    # What some library or database reads, raises an error for, or reads as another moment.
    "2024-1-5", "2024-1-5 9:05", "2024-1-5 9:5", "0000-01-01", "0000-12-31T23:59:59-14:00", "20240105", "24-01-05",
    "2024-02-31", "99999-01-01", "+2024-01-05", "-2024-01-05", "+262142-12-31T23:59:59Z", "10000-01-01", "2024-W01-1",
    "2024-005", "infinity", "-infinity", "now", "today", "epoch", "tomorrow", "allballs", "NaT", "0044-03-15 BC",
    "2024-01-05 AD", "January 8, 1999", "J2451187", "1999.008", "2024- 1-05", "2024-01-0510:00", "2024-01-05t10:00:00z",
    "2024-01-05 10:00:00Z", "2024-01-05T10:00Z", "2024-01-05 10:00:00+00", "2024-01-05 10:00:00+0130",
    "2024-01-05T10:00:60", "2016-12-31T23:59:60Z", "2024-01-05T10:00:00+24:00", "2024-01-05T10:00:00+99:99",
    "2024-01-05T10:00:00+02:", "2024-01-05T10:00:00 UTC", "2024-01-05T10:00:00 Europe/Berlin", "2024-01-05T10",
    "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2024-01-05T10:00:00." + "9" * 40, "2024-01-05T",
    "2024-01-05T10:00:00.", "2024-01-05 10:00:00,5", "2024-01-05T10:00:00-", "٢٠٢٤-٠١-٠٥", "2024‐01‐05",
    "2024-01-05\n10:00", "5.1.2024", "05.1.2024", "5. 1. 2024", "05.01.24", "5.13.2024", "31.04.2024", "29.2.2023",
    "1.1.10000", "0.1.2024", "2/9/2024 1:30", "2/9/2024  01:30", "2/9/2024 1:3", "02/09/2024 24:00", "02/09/2024",
    "20240229", "20240230", "2024229", "202401", "19991231", "24", "02024",
]  # fmt: skip
DAYS = [
    f"{year:04}-{month:02}-{day:02}"
    for year in (1, 1900, 1999, 2000, 2024)
    for month in range(13)
    for day in (0, 1, 28, 29, 30, 31)
]


def near(column: Any) -> list[float | None]:
    """Numbers on the edges of a column's cells, and beside them."""
    lower, upper = column.limits
    finest = column.finest
    edges = np.array([lower, upper, *bin_starts(finest)[:: max(1, finest.values_size // 20)], *bin_starts(column)])
    beside = [np.nextafter(edges, end) for end in (-np.inf, np.inf)]
    more = [0.0, -0.0, 5e-324, -5e-324, 1.5, 13.0, -9.0, 1e16, 0.1, 1e300, -1e300, 1.7976931348623157e308]
    return [*np.concatenate([edges, *beside]).tolist(), *more, math.inf, -math.inf, math.nan, None]


# Whole numbers that Parquet may hold as moments or days, at and beyond the ends of what some engine can compute with.
FAR_STEPS = [
    0, 1, -1, 10**15, -(10**15), 2**53 + 1, 2**61, -(2**61), 2**62, -(2**62), 2**63 - 1, -(2**63), 1 - 2**63,
    60_000_000 - 2**63, -62_135_596_800_000, -62_135_596_800_001, 253_402_300_800_000, -62_135_596_800_000_000,
    -62_135_596_800_000_001, 253_402_300_800_000_000, 253_433_836_800_000_001, 1_709_164_800_000, None,
]  # fmt: skip
FAR_DAYS = [
    0,
    19782,
    -719_162,
    -719_163,
    -719_528,
    -719_529,
    2_932_896,
    2_932_897,
    2_933_262,
    2**31 - 1,
    -(2**31),
    None,
]

# By type, what PostgreSQL holds and no file does; and the number that stands for it in memory.
POSTGRES = {
    "date": {
        "infinity": LAST, "-infinity": FIRST, "4714-11-24 BC": FIRST, "0044-03-15 BC": FIRST,
        "0001-12-31 BC": FIRST, "10000-01-01": LAST, "5874897-12-31": LAST,
    },
    "timestamp": {
        "infinity": LAST, "-infinity": FIRST, "4714-11-24 00:00:00 BC": FIRST,
        "0001-12-31 23:59:59.999999 BC": FIRST, "294276-12-31 23:59:59.999999": LAST,
    },
    "timestamptz": {
        "infinity": LAST, "-infinity": FIRST, "4714-11-24 00:00:00+00 BC": FIRST,
        "0001-01-01 00:00:00+15:59": FIRST, "9999-12-31 23:59:59.999999-15:59": LAST,
        "294276-12-31 23:59:59.999999+00": LAST,
    },
    "numeric": {
        "NaN": None, "Infinity": math.inf, "-Infinity": -math.inf, "1e131071": math.inf, "-1e131071": -math.inf,
        "1e-16383": 0.0, "-1e-16383": 0.0, "1.7976931348623158e308": 1.7976931348623157e308,
        "1.7976931348623159e308": math.inf, "2.47e-324": 0.0, "2.48e-324": 5e-324, "9" * 500: math.inf,
        "0." + "3" * 500: 1 / 3, "13.000": 13.0,
    },
}  # fmt: skip
