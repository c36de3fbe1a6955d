"""Which formats of SPSS, Stata and SAS show dates, and how a file stores them: codebooks and data files share this."""

from __future__ import annotations

import re
from dataclasses import dataclass

DAY = 86_400.0  # seconds
# Formats of dates, and how many seconds one unit of the stored number has.
_SPSS_DAYS = re.compile(r"(?:A|E|J|S)?DATE\d*|(?:MOYR|QYR|WKYR)\d*")
_SPSS_SECONDS = re.compile(r"(?:DATETIME|YMDHMS)[\d.]*")
_SAS_DAYS = re.compile(
    r"(?:DATE|(?:MMDDYY|DDMMYY|YYMMDD)[BCDNPS]?|WEEKDAT[EX]|MONYY|YYMON|YYMM|(?:IS|E|B)8601DA)[\d.]*"
)
_SAS_SECONDS = re.compile(r"(?:DATETIME|DATEAMPM|MDYAMPM|DTDATE|(?:IS|E|B)8601D[TN])[\d.]*")


@dataclass(frozen=True, slots=True)
class Dates:
    """How a column stores dates: the seconds in one unit of its numbers, or months, and whether it has a time of day.

    Attributes:
        seconds: in one unit; None if a unit is a month.
        has_time: whether the format shows a time of day.
    """

    seconds: float | None
    has_time: bool


def dates_of(program: str, form: str | None) -> Dates | None:
    """How a column of this format stores dates; None if it stores none. A time of day alone is a number of seconds.

    >>> dates_of("Stata", "%td"), dates_of("SPSS", "F8.2")
    (Dates(seconds=86400.0, has_time=False), None)
    """
    form = form or ""
    if program == "Stata":
        if re.match(r"%-?t?d(?![a-zA-Z]*g$)", form):
            return Dates(DAY, has_time=False)
        if re.match(r"%-?t[cC]", form):
            return None if form.startswith("%tcHH") else Dates(0.001, has_time=True)
        return Dates(None, has_time=False) if re.match(r"%-?tm", form) else None
    days, seconds, unit = (_SPSS_DAYS, _SPSS_SECONDS, 1.0) if program == "SPSS" else (_SAS_DAYS, _SAS_SECONDS, DAY)
    if seconds.fullmatch(form.upper()):
        return Dates(1.0, has_time=True)
    return Dates(unit, has_time=False) if days.fullmatch(form.upper()) else None
