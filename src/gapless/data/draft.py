"""A first schema, proposed by looking at the data, some rows at a time: for the holder's eyes only."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from gapless.data.source import is_plain, parts, without_cells
from gapless.errors import SchemaError
from gapless.schema.columns import (
    DEFAULT_BINS,
    LARGEST,
    LARGEST_WHOLE,
    Boolean,
    Categorical,
    Column,
    Date,
    DateTime,
    Integer,
    MissingCode,
    MissingKind,
    Number,
    as_text,
)
from gapless.schema.draft import Draft
from gapless.schema.schema import Schema

USUAL_CODES = ("", "NA", "N/A", "n/a", "nan", "NaN", "NULL", "null", "None", ".", "?")
# Words that stand for a gap among numbers and dates; among other words they may be a level.
GAP_WORDS: dict[str, MissingKind] = {
    **dict.fromkeys(
        ("unknown", "not known", "don't know", "missing", "not stated", "unbekannt", "weiß nicht"), "unknown"
    ),
    **dict.fromkeys(("refused", "declined", "no answer", "keine angabe", "k.a.", "verweigert"), "refused"),
}
MOST_DRAFTED_LEVELS = 60
_LEADING_ZERO = re.compile(r"[+-]?0\d")


@dataclass
class _Seen:
    """What was seen of one column: different texts, gaps and rows; or why it cannot be used."""

    name: str
    texts: set[str] = field(default_factory=set)
    gaps: bool = False
    rows: int = 0
    odd: str = ""

    def look(self, series: pl.Series) -> None:
        if not is_plain(series):
            self.odd = f"it holds values of type {series.dtype.base_type().__name__}"
            return
        self.texts |= {as_text(text) for text in series.cast(pl.String).unique() if text is not None}
        self.gaps |= series.null_count() > 0
        self.rows += len(series)


@without_cells
def draft(data: Any, *, name: str | None = None, encoding: str = "utf-8") -> Draft:
    """Propose a schema for a file or frame. Looks at the data."""
    seen: dict[str, _Seen] = {}
    for frame in parts(data, encoding=encoding, for_holder=True):
        for series in frame:
            seen.setdefault(series.name, _Seen(series.name)).look(series)
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for each in seen.values():
        column = each.odd or _column(each)
        if isinstance(column, str):
            left_out[each.name] = column
        else:
            columns.append(column)
            if remark := _remark(each, column):
                remarks[each.name] = remark
    if not columns:
        raise SchemaError("no column can be used", hint="numbers, dates, or text with few levels")
    if name is None:
        name = Path(data).name.split(".")[0] if isinstance(data, str | Path) else "table"
    return Draft(Schema(name, columns, ignore=tuple(left_out), unchecked=True), left_out, remarks)


def _column(seen: _Seen) -> Column | str:
    codes = sorted(seen.texts & set(USUAL_CODES))
    texts = seen.texts - set(USUAL_CODES)
    words = {text for text in texts if text.casefold() in GAP_WORDS}
    if words and _on_a_line(texts - words):
        codes += sorted(words)
        texts -= words
    common: dict[str, Any] = {
        "may_be_missing": bool(codes) or seen.gaps,
        "missing": tuple(MissingCode(code, GAP_WORDS.get(code.casefold(), "unknown")) for code in codes),
    }
    if not texts:
        return "it holds no value at all"
    if {Boolean.spellings.get(text.lower()) for text in texts} == {False, True} and not texts <= {"0", "1"}:
        return Boolean(seen.name, **common)
    numbers = _numbers(texts)
    if numbers is not None:
        if len(numbers) == seen.rows > MOST_DRAFTED_LEVELS and all(number == int(number) for number in numbers):
            return "a different whole number in every row, such as an identifier"
        return _numeric(seen.name, numbers, texts, common)
    moments = _moments(texts)
    if moments is not None and len(moments) > 1:
        lower, upper = min(moments), max(moments)
        if all(moment.time() == dt.time() for moment in moments):  # pandas has no other type for days
            return Date(seen.name, bounds=(lower.date().isoformat(), upper.date().isoformat()), **common)
        return DateTime(seen.name, bounds=(lower.isoformat(), upper.isoformat()), **common)
    if len(texts) > MOST_DRAFTED_LEVELS:
        return f"text with more than {MOST_DRAFTED_LEVELS} levels, such as names or identifiers"
    return Categorical(seen.name, sorted(texts), **common)


def _on_a_line(texts: set[str]) -> bool:
    """Whether all of these are numbers, or all of them moments."""
    read = (_numbers(texts), _moments(texts))
    return bool(texts) and any(found is not None for found in read)


def _remark(seen: _Seen, column: Column) -> str:
    """A word on an extreme that is written like a code: the only negative, or nines and the like, far from the rest."""
    numbers = _numbers(seen.texts - {code.code for code in column.missing})
    if numbers is None or len(numbers) < 3:
        return ""
    lowest, second, *_ = ordered = sorted(numbers)
    *_, last, highest = ordered
    digits = set(as_text(highest))
    if lowest < 0 <= second and lowest == int(lowest):
        odd = lowest
    elif len(digits) == 1 and digits <= set("789") and highest - last > last - lowest:
        odd = highest
    else:
        return ""
    return f"{odd:g} looks like a code for a gap: missing = [{odd:g}]?"


def _numeric(name: str, numbers: list[float], texts: set[str], common: Mapping[str, Any]) -> Column | str:
    lower, upper = min(numbers), max(numbers)
    whole = all(number == int(number) for number in numbers)
    if max(-lower, upper) > (LARGEST_WHOLE if whole else LARGEST):
        return "its numbers are very large, such as identifiers"
    if whole and len(numbers) <= DEFAULT_BINS:
        levels = sorted(map(int, numbers))
        return Categorical(name, levels if set(map(str, levels)) == texts else sorted(texts), **common)
    if whole:
        return Integer(name, bounds=(int(lower), int(upper)), **common)
    if lower == upper:
        return Categorical(name, sorted(texts), **common)
    return Number(name, bounds=(lower, upper), bins=DEFAULT_BINS, **common)


def _numbers(texts: set[str]) -> list[float] | None:
    if any(map(_LEADING_ZERO.match, texts)):  # 007 is a name: as a number it would lose its zeros
        return None
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _moments(texts: set[str]) -> set[dt.datetime] | None:
    """Dates and times of day as they will be read: to the second, in UTC."""
    try:
        moments = [dt.datetime.fromisoformat(text) for text in texts]
        in_utc = [moment if moment.tzinfo is None else moment.astimezone(dt.UTC) for moment in moments]
    except (ValueError, OverflowError):
        return None
    return {moment.replace(tzinfo=None, microsecond=0) for moment in in_utc}
