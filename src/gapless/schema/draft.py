"""A first schema, proposed by looking at the data: for the holder's eyes only.

Levels, bounds and gaps that were read from the data are themselves private: a level that one person alone
has gives that person away. A draft therefore marks each such fact, and is not a schema until a person has
checked it against a codebook.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gapless.errors import SchemaError
from gapless.schema import toml
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
from gapless.schema.schema import Schema
from gapless.schema.source import is_plain, load

USUAL_CODES = ("", "NA", "N/A", "n/a", "nan", "NaN", "NULL", "null", "None", ".", "?")
# Words that stand for a gap among numbers and dates; among other words they may be a level.
GAP_WORDS: dict[str, MissingKind] = {
    **dict.fromkeys(
        ("unknown", "not known", "don't know", "missing", "not stated", "unbekannt", "weiß nicht"), "unknown"
    ),
    **dict.fromkeys(("refused", "declined", "no answer", "keine angabe", "k.a.", "verweigert"), "refused"),
}
MOST_DRAFTED_LEVELS = 60
_FACTS = ("levels", "bounds", "may_be_missing", "missing", "kind")
_HEAD = """\
# DRAFT: made by looking at the data. Lines marked "read from the data" are private facts: before a real
# release each must come from a codebook or from common knowledge. Then take the line "unchecked = true" away.

"""


@dataclass(frozen=True)
class Draft:
    """A proposed schema, the facts in it read from the data, what was left out and why, and what looks odd."""

    schema: Schema
    left_out: Mapping[str, str]
    remarks: Mapping[str, str]

    def to_toml(self) -> str:
        """The schema as TOML, with a comment behind each fact that was read from the data."""
        content = self.schema.to_dict()
        mark = "read from the data"
        comments = {
            ("column", name, key): mark for name, keys in content["column"].items() for key in keys if key in _FACTS
        }
        for name, remark in self.remarks.items():
            key = "bounds" if "bounds" in content["column"][name] else "levels"
            comments["column", name, key] = f"{mark}; {remark}"
        if self.left_out:
            comments["table", "", "ignore"] = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
        return _HEAD + toml.dump(content, comments)

    def write(self, path: str | Path) -> None:
        """Write the marked TOML file."""
        toml.write(Path(path), self.to_toml())


def draft(data: Any, *, name: str | None = None, encoding: str = "utf-8") -> Draft:
    """Propose a schema for a file or frame. Looks at the data."""
    frame = load(data, encoding=encoding, for_holder=True)
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for series in frame:
        column = _column(series)
        if isinstance(column, str):
            left_out[series.name] = column
        else:
            columns.append(column)
            if remark := _remark(series, column):
                remarks[series.name] = remark
    if not columns:
        raise SchemaError("no column can be used", hint="numbers, dates, or text with few levels")
    if name is None:
        name = Path(data).name.split(".")[0] if isinstance(data, str | Path) else "table"
    return Draft(Schema(name, columns, ignore=tuple(left_out), unchecked=True), left_out, remarks)


def _column(series: pl.Series) -> Column | str:
    if not is_plain(series):
        return f"it holds values of type {series.dtype.base_type().__name__}"
    texts = {as_text(text) for text in series.cast(pl.String).unique() if text is not None}
    codes = sorted(texts & set(USUAL_CODES))
    texts -= set(USUAL_CODES)
    words = {text for text in texts if text.casefold() in GAP_WORDS}
    if _on_a_line(texts - words):
        codes += sorted(words)
        texts -= words
    common: dict[str, Any] = {
        "may_be_missing": bool(codes) or series.null_count() > 0,
        "missing": tuple(MissingCode(code, GAP_WORDS.get(code.casefold(), "unknown")) for code in codes),
    }
    if not texts:
        return "it holds no value at all"
    if {Boolean.spellings.get(text.lower()) for text in texts} == {False, True} and not texts <= {"0", "1"}:
        return Boolean(series.name, **common)
    numbers = _numbers(texts)
    if numbers is not None:
        if len(numbers) == len(series) > MOST_DRAFTED_LEVELS and all(number == int(number) for number in numbers):
            return "a different whole number in every row, such as an identifier"
        return _numeric(series.name, numbers, texts, common)
    moments = _moments(texts)
    if moments is not None and len(moments) > 1:
        lower, upper = min(moments), max(moments)
        if all(moment.time() == dt.time() for moment in moments):  # pandas has no other type for days
            return Date(series.name, bounds=(lower.date().isoformat(), upper.date().isoformat()), **common)
        return DateTime(series.name, bounds=(lower.isoformat(), upper.isoformat()), **common)
    if len(texts) > MOST_DRAFTED_LEVELS:
        return f"text with more than {MOST_DRAFTED_LEVELS} levels, such as names or identifiers"
    return Categorical(series.name, sorted(texts), **common)


def _on_a_line(texts: set[str]) -> bool:
    """Whether all of these are numbers, or all of them moments."""
    read = (_numbers(texts), _moments(texts))
    return bool(texts) and any(one is not None for one in read)


def _remark(series: pl.Series, column: Column) -> str:
    """A word on an extreme that is written like a code: the only negative, or nines and the like, far from the rest."""
    codes = {code.code for code in column.missing}
    numbers = _numbers({as_text(text) for text in series.cast(pl.String).unique() if text is not None} - codes)
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
    if any(re.match(r"[+-]?0\d", text) for text in texts):  # 007 is a name: as a number it would lose its zeros
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
