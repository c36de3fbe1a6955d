"""Dates in a draft: the format in which a column writes them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from gapless.data.io.date_texts import parse_dates
from gapless.schema.calendar import Date, DateTime
from gapless.schema.columns import Column
from gapless.schema.numeric import LEARNED

_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y"),
    *("%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y"),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")


def calendar_column(name: str, moments: set[dt.datetime], common: Mapping[str, Any]) -> Column:
    """A column of dates if all are midnights, else of moments."""
    lower, upper = min(moments), max(moments)
    if all(moment.time() == dt.time() for moment in moments):  # pandas has no other type for days
        return Date(name, bounds=(lower.date().isoformat(), upper.date().isoformat()), bins=LEARNED, **common)
    step = "second" if any(m.second for m in moments) else "minute" if any(m.minute for m in moments) else "hour"
    return DateTime(name, bounds=(lower.isoformat(), upper.isoformat()), resolution=step, bins=LEARNED, **common)


def moments_of(texts: set[str]) -> tuple[set[dt.datetime], list[str]]:
    """Dates as they will be read, to the second and in UTC; and the formats in which all of them are written."""
    read = parse_dates(found := pl.Series(sorted(texts), dtype=pl.String))
    if not read.has_nulls() and read.dt.year().is_between(1, 9999).all():
        return set(read), []
    forms = ["%Y%m%d"] if are_days(texts) else _forms(texts)
    return (set(parse_dates(found, forms[0])), forms) if forms else (set(), [])


def are_days(texts: set[str]) -> bool:
    """Whether these are dates without separators: 20241231."""
    within = all(re.fullmatch(r"(19|20)[0-9]{6}", text) for text in texts)
    return len(texts) > 1 and within and not parse_dates(pl.Series(sorted(texts)), "%Y%m%d").has_nulls()


def _forms(texts: set[str]) -> list[str]:
    """The formats in which all these texts are written; each must have a year of two or four digits."""
    found = pl.Series(sorted(texts), dtype=pl.String)
    if not all(re.search(r"(\A|[^0-9])[0-9]{2}([0-9]{2})?(\Z|[^0-9])", text) for text in texts):
        return []
    forms = [day + time for day in _DAYS for time in _TIMES]
    forms = [form for form in forms if not parse_dates(found[:1], form).has_nulls()]
    return [form for form in forms if not parse_dates(found, form).has_nulls()]
