"""Which texts are dates, and which moments they name.

Dates and datetimes have one grammar (`format_pattern`), so that every engine reads a text alike. A text that does not
match, or that names a day which no calendar has, is no date for any engine. Nothing is left to the leniency of a
library or a database. Those differ, and some raise an error for one cell where others read it.
"""

from __future__ import annotations

import re

import polars as pl

YEAR, PARTS = "Y", "mdHMS"  # as formats name them; the other parts have two digits each
_TWO_DIGITS = {"m": "[0-9]{2}", "d": "[0-9]{2}", "H": "[01][0-9]|2[0-3]", "M": "[0-5][0-9]", "S": "[0-5][0-9]"}
_FEWER_DIGITS = {**_TWO_DIGITS, "m": "[0-9]{1,2}", "d": "[0-9]{1,2}", "H": "[01]?[0-9]|2[0-3]"}
_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.[0-9]+)?)?"
_ZONE = r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?"
ISO = rf"([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?:[Tt ]{_CLOCK}{_ZONE})?"
ISO_PARTS = "YmdHMS+hn"  # of the groups of ISO: behind the second the sign, hours and minutes of the time zone


def format_pattern(form: str | None) -> tuple[str, str] | None:
    r"""The regular expression of a format, without anchors, and the part of the date that each of its groups is.

    Without a format it is that of ISO 8601. It is None for a format with names of months, years of two digits, or AM
    and PM. A day, month or hour may lack its leading zero if it has a separator on both sides.

    >>> format_pattern("%m/%Y")
    ('([0-9]{1,2})/([0-9]{4})', 'mY')
    >>> format_pattern("%Y%m")
    ('([0-9]{4})([0-9]{2})', 'Ym')
    >>> format_pattern("%d %B %Y")
    """
    if form is None:
        return ISO, ISO_PARTS
    between = re.split(r"%.", form)
    names = re.findall(r"%(.)", form)
    if not set(names) <= {YEAR, *PARTS}:
        return None
    pattern = _literal(between[0])
    for place, name in enumerate(names):
        before, after = between[place], between[place + 1]
        touches_part = (place > 0 and not before) or (place < len(names) - 1 and not after)
        touches_digit = re.search(r"\d$", before) or re.match(r"\d", after)
        digits = _TWO_DIGITS if touches_part or touches_digit else _FEWER_DIGITS
        pattern += f"({'[0-9]{4}' if name == YEAR else digits[name]}){_literal(after)}"
    return pattern, "".join(names)


def _literal(text: str) -> str:
    """A literal text of a format, as a regular expression for PostgreSQL, Java and Rust. A space may match several."""
    return re.sub(" +", " +", re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text))


def first_year(form: str | None) -> int:
    """The first year that is valid. With a format, 24 is a truncated 2024 and not the year 24."""
    return 1 if form is None else 1000


def parse_dates(texts: pl.Series, form: str | None = None) -> pl.Series:
    """Parse dates and datetimes in ISO 8601 or in a format; null for other texts.

    Time zones are converted to UTC. Fractions of a second are dropped. A format without a day or month means the first.
    """
    known = format_pattern(form)
    if known is None:
        return _by_names(texts, form or "")
    pattern, names = known
    parts = texts.str.extract_groups(f"^(?:{pattern})$").struct.unnest()
    parts.columns = list(names)
    absent = {**dict.fromkeys("md", "01"), **dict.fromkeys("HMS", "00")}
    filled = [pl.col(name).fill_null(absent[name]) if name in names else pl.lit(absent[name]) for name in PARTS]
    iso = parts.select(pl.format("{}-{}-{} {}:{}:{}", YEAR, *(part.str.zfill(2) for part in filled))).to_series()
    moments = iso.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us")
    moments = moments.set(moments.dt.year() < first_year(form), None)
    if "+" not in names:
        return moments
    hours, minutes = (pl.col(name).cast(pl.Int64).fill_null(0) for name in "hn")
    ahead = pl.when(pl.col("+") == "-").then(-1).otherwise(1) * (60 * hours + minutes)
    return moments - parts.select(pl.duration(minutes=ahead)).to_series()


def _by_names(texts: pl.Series, form: str) -> pl.Series:
    """Parse dates by a format that `format_pattern` does not know."""
    for part, names in (("%m", "mbB"), ("%d", "d")):
        if not any(f"%{name}" in form for name in names):
            texts, form = texts + " 01", f"{form} {part}"
    moments = texts.str.to_datetime(form, strict=False, time_unit="us")
    return moments.set(moments.dt.year() < first_year(form), None)
