"""Propose a first schema by looking at the data, some rows at a time. For the holder only.

Levels, bounds and gaps that were read from the data are private: a level that only one person has reveals that person.
So a draft is not a schema until the holder has checked it against a codebook.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gapless import types
from gapless.data.io.date_texts import parse_dates
from gapless.data.io.encode import Encoder
from gapless.data.io.ids import likeliest, looks_like_id
from gapless.data.io.source import file_layout, is_plain, read_parts, redact_cells
from gapless.data.io.spreadsheets import SheetLayout
from gapless.errors import SchemaError
from gapless.schema import toml
from gapless.schema.bins import Scale
from gapless.schema.calendar import CalendarColumn, Date, DateTime
from gapless.schema.columns import MOST_LEVELS, Boolean, Categorical, Column
from gapless.schema.gap_codes import MissingCode, MissingKind, as_text
from gapless.schema.numeric import DEFAULT_BINS, LARGEST, LARGEST_WHOLE, LEARNED, Integer, Number
from gapless.schema.schema import Schema
from gapless.text import listing, plural

USUAL_CODES = ("", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NULL", "null", "None", ".", "?", "-")
# Words that mean a gap among numbers and dates; among other words they may be a level.
_UNKNOWN = ("unknown", "not known", "don't know", "missing", "not stated", "unbekannt", "weiß nicht")
_REFUSED = ("refused", "declined", "no answer", "keine angabe", "k.a.", "verweigert")
GAP_WORDS: dict[str, MissingKind] = {**dict.fromkeys(_UNKNOWN, "unknown"), **dict.fromkeys(_REFUSED, "refused")}
MOST_DECIMALS = 4  # numbers with more decimals get no resolution
LONG_TAIL = 50  # the largest number over the median of the different numbers, from which on a log scale is proposed
IN_ORDER = 0.99  # share of rows in which two dates are in order, from which on their difference is proposed
MOST_DIFFERENT = 60  # whole numbers in this many rows may all differ by chance
_LEADING_ZERO = re.compile(r"[+-]?0\d")
CODES_AMONG_NUMBERS = re.compile(r"-7+|-8+|-9+|77+|88+|99+")
_FACTS = ("levels", "bounds", "resolution", "scale", "heaping", "may_be_missing", "missing", "kind")
HEAPS = (2, 5, 10, 50, 100, 500, 1000, 5000, 10_000)  # steps at which values may pile up, in smallest steps
HEAPED, NEARLY_ALL = 2.0, 9.0  # least odds of a multiple beside its neighbours, and of an even number
HEAPED_ROWS = 0.05  # least excess, as a share of rows
NEIGHBOURS, LEAST_MULTIPLES = 2, 3  # neighbours on either side, at most; multiples that occur, at least
_LAYOUT = ("separator", "encoding", "decimal", "thousands", "format", "spelling")
# Comments for the lines of a draft that follow from the data.
_COMMENTS = {**dict.fromkeys(_FACTS, "read from the data"), **dict.fromkeys(_LAYOUT, "as the data are written")}
PERSON_REMARK = "looks like the id of persons with several rows: add rows_per_person, the most rows kept of each"
_HEAD = """\
# DRAFT: made by looking at the data. Lines marked "read from the data" are private facts: before a real
# release each must come from a codebook or from common knowledge. Then run `gapless schema confirm` on this file.

"""


@dataclass(frozen=True)
class Draft:
    """A proposed schema, the columns that were left out and why, and remarks on what looks odd."""

    schema: Schema
    left_out: Mapping[str, str]
    remarks: Mapping[str, str]

    def to_toml(self) -> str:
        """The schema as TOML, with a comment on each fact that was read from the data."""
        content = self.schema.to_dict()
        sections = {("table", ""): content["table"]}
        sections |= {("column", name): keys for name, keys in content["column"].items()}
        found = [(*section, key) for section, keys in sections.items() for key in keys if key in _COMMENTS]
        comments = {line: _COMMENTS[line[2]] for line in found}
        if self.schema.person:
            comments["table", "", "person"] = PERSON_REMARK
        for name, remark in self.remarks.items():
            key = "bounds" if "bounds" in content["column"][name] else "levels"
            comments["column", name, key] = f"{_COMMENTS[key]}; {remark}"
        if self.left_out:
            reasons = (f"{name or 'the first column'}: {why}" for name, why in self.left_out.items())
            comments["table", "", "ignore"] = "; ".join(reasons)
        return _HEAD + toml.dump(content, comments)

    def write(self, path: str | Path) -> None:
        """Write the marked TOML file."""
        toml.write(Path(path), self.to_toml())


PLAINLY = (".", "")  # the decimal sign and the sign between thousands of 1234.5
STYLES = (PLAINLY, (",", ""), (",", "."), (".", ","), (".", " "), (",", " "), (".", "'"), (",", "'"))
DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d %b %Y", "%d-%b-%Y"),
    *("%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%b-%y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")


@dataclass
class _ObservedColumn:
    """What was seen of one column: its different texts, how often each occurs, gaps and rows, or why it cannot be used.

    Then also how its numbers are written, and remarks.
    """

    name: str
    texts: set[str] = field(default_factory=set)
    times: Counter[str] = field(default_factory=Counter)
    gaps: bool = False
    rows: int = 0
    odd: str = ""
    style: tuple[str, str] = PLAINLY
    written: dict[str, str] = field(default_factory=dict)  # the text in the file of each number such as 1234.5
    remarks: list[str] = field(default_factory=list)

    def look(self, series: pl.Series) -> None:
        if not is_plain(series):
            self.odd = f"it holds values of type {series.dtype.base_type().__name__}"
            return
        for text, times in series.cast(pl.String).drop_nulls().alias("text").value_counts().iter_rows():
            self.times[text.strip()] += times
        self.texts |= self.times.keys()
        self.gaps |= series.null_count() > 0
        self.rows += len(series)

    def numbers(self, style: tuple[str, str]) -> dict[str, str] | None:
        """Its numbers rewritten as 1234.5, if all its texts but the usual codes are numbers in this style."""
        values = {text for text in self.texts if text not in USUAL_CODES and text.casefold() not in GAP_WORDS}
        column = Number("any", bounds=(0, 1), decimal=style[0], thousands=style[1])
        plain: dict[str, str] = {}
        for text in values:
            number = text if style == PLAINLY else column.plain(text)
            if number is None:
                return None
            plain[text] = number
        return plain if _numbers(set(plain.values())) else None

    def settle(self, styles: Iterable[tuple[str, str]]) -> None:
        """Rewrite its numbers as 1234.5, if it holds numbers in one of these styles."""
        for style in styles if not self.odd else ():
            if (plain := self.numbers(style)) is not None:
                self.style = style
                self.written = {as_text(number): text for text, number in plain.items()}
                self._rename(plain)
                return
        self._rename({})

    def _rename(self, plain: Mapping[str, str]) -> None:
        """Replace texts by numbers such as 1234.5, and write numbers without needless digits."""
        times: Counter[str] = Counter()
        for text, many in self.times.items():
            times[as_text(plain.get(text, text))] += many
        self.times, self.texts = times, set(times)


@redact_cells
def draft_schema(
    data: Any,
    *,
    name: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    header_row: int | None = None,
    skip_rows: int = 0,
    max_levels: int = 60,
) -> Draft:
    """Propose a schema by LOOKING AT THE DATA. It is for the holder, who must check it against a codebook.

    The separator, the encoding and the formats of numbers and dates of a text file are found as well. Text columns with
    more than `max_levels` levels are left out. `sheet`, `header_row` and `skip_rows` say which cells of an .xlsx file
    are the table, as the keys of the same names in a schema.
    """
    types.whole("max_levels", max_levels, error=SchemaError, least=1)
    seen: dict[str, _ObservedColumn] = {}
    encoding, separator = file_layout(data, encoding)
    place = SheetLayout(sheet, header_row, skip_rows)
    for frame in read_parts(data, encoding=encoding, separator=separator, sheet=place, for_holder=True):
        for series in frame:
            seen.setdefault(series.name, _ObservedColumn(series.name)).look(series)
    styles = _styles(seen.values(), separator)
    columns: list[Column] = []
    left_out: dict[str, str] = {}
    remarks: dict[str, str] = {}
    ids = _ids(seen.values())
    person = (likeliest(ids.items()),) if ids else ()
    left_out |= {id_: f"looks like an id of {plural(ids[id_], 'person')}" for id_ in ids if id_ not in person}
    for name_seen, observed in seen.items():
        if name_seen in ids:
            continue
        observed.settle(styles)
        column = observed.odd or _column(observed, max_levels)
        if isinstance(column, str):
            left_out[name_seen] = column
            continue
        columns.append(column)
        if found := [*observed.remarks, *_remark(observed, column)]:
            remarks[name_seen] = "; ".join(found)
    if not columns:
        wrong = "no column can be used: a schema needs numbers, dates, booleans, or text with few levels"
        raise SchemaError(wrong, hint="pass data with at least one such column")
    frames = read_parts(data, encoding=encoding, separator=separator, sheet=place, for_holder=True)
    for later, earlier in _ordered_dates(frames, [column for column in columns if isinstance(column, CalendarColumn)]):
        remark = f'hardly ever before {earlier}: declare the time between, difference = "{later} - {earlier}"?'
        remarks[later] = "; ".join(filter(None, [remarks.get(later), remark]))
    if name is None:
        name = Path(data).name.split(".")[0] if isinstance(data, str | Path) else "table"
    schema = Schema(
        name,
        [replace(column, origin="data") for column in columns],
        person=person,
        ignore=tuple(left_out),
        separator=separator,
        encoding=encoding,
        sheet=sheet,
        header_row=header_row,
        skip_rows=skip_rows,
    )
    return Draft(schema, left_out, remarks)


def _ids(columns: Iterable[_ObservedColumn]) -> dict[str, int]:
    """The columns that look like the id of persons with several rows, and the number of different ids."""
    found: dict[str, int] = {}
    for seen in columns:
        ids = {text: rows for text, rows in seen.times.items() if text not in USUAL_CODES}
        if not seen.odd and looks_like_id(seen.name, ids, sum(ids.values())):
            found[seen.name] = len(ids)
    return found


def _styles(columns: Iterable[_ObservedColumn], separator: str | None) -> list[tuple[str, str]]:
    """The styles of numbers, first those that fit most columns; 1234.5 comes first among equals.

    If commas separate the cells, 1,234 was put in quotes and is above a thousand; otherwise it is between one and two.
    """
    grouped = [(".", ","), *STYLES] if separator is None else STYLES
    known = dict.fromkeys((PLAINLY, *grouped))
    fitting = {style: sum(seen.numbers(style) is not None for seen in columns) for style in known}
    return sorted(known, key=lambda style: -fitting[style])


def _column(seen: _ObservedColumn, max_levels: int) -> Column | str:
    if not seen.name:
        return "it has no name, such as the number of the row"
    codes, texts = _codes(seen)
    common: dict[str, Any] = {
        "may_be_missing": bool(codes) or seen.gaps,
        "missing": tuple(MissingCode(code, GAP_WORDS.get(code.casefold(), "unknown")) for code in codes),
    }
    if not texts:
        return "it holds no value at all"
    if {Boolean.spellings.get(text.lower()) for text in texts} == {False, True} and not texts <= {"0", "1"}:
        spelling = sorted(texts, key=lambda text: Boolean.spellings[text.lower()])
        is_usual = len(texts) > 2 or spelling == ["false", "true"]
        return Boolean(seen.name, spelling=None if is_usual else spelling, **common)
    numbers = _numbers(texts)
    if numbers is not None and not _are_days(texts):
        if len(numbers) == seen.rows > MOST_DIFFERENT and all(number == int(number) for number in numbers):
            return "a different whole number in every row, such as an identifier"
        return _numeric(seen, numbers, texts, common)
    moments, forms = _moments(texts)
    if len(moments) > 1:
        if len(forms) > 1:
            seen.remarks.append(f"{listing(forms[1:])} would fit as well")
        return _calendar(seen.name, moments, common | {"format": forms[0] if forms else None})
    if len(texts) > max_levels:
        return f"text with more than {plural(max_levels, 'level')}, such as names or identifiers"
    return Categorical(seen.name, sorted(texts), **common)


def _ordered_dates(frames: Iterable[pl.DataFrame], dates: Sequence[CalendarColumn]) -> list[tuple[str, str]]:
    """Pairs of dates that are in order in nearly all rows, the later first. No column follows from two others."""
    pairs = [(later, earlier) for later, earlier in permutations(dates, 2) if later.unit == earlier.unit]
    found = np.zeros((len(pairs), 3))  # rows with both, rows in order, the sum of the differences
    for frame in frames if pairs else ():
        encoders = {column.name: Encoder(column) for column in dates}
        values = {name: encoder.values(frame, encoder.codes(frame)[0]) for name, encoder in encoders.items()}
        for place, (later, earlier) in enumerate(pairs):
            high, low = values[later.name], values[earlier.name]
            if high is None or low is None:  # for mypy: dates have values
                continue
            differences = (high - low)[~np.isnan(high - low)]
            found[place] += len(differences), (differences >= 0).sum(), differences.sum()
    rows, in_order, total = found.T
    ordered = [place for place in range(len(pairs)) if in_order[place] >= IN_ORDER * rows[place] and total[place] > 0]
    proposed: dict[str, str] = {}
    for place in sorted(ordered, key=lambda place: total[place] / rows[place]):  # the closest first
        minuend, subtrahend = (column.name for column in pairs[place])
        if minuend not in {*proposed, *proposed.values()} and subtrahend not in proposed:
            proposed[minuend] = subtrahend
    return [*proposed.items()]


def _codes(seen: _ObservedColumn) -> tuple[list[str], set[str]]:
    """The texts that mean a gap, and all other texts."""
    codes = sorted(seen.texts & set(USUAL_CODES))
    texts = seen.texts - set(USUAL_CODES)
    gap_words = {text for text in texts if text.casefold() in GAP_WORDS}
    if _on_a_line(texts - gap_words):
        odd = _codes_among(texts - gap_words)
        codes += sorted(gap_words) + odd
        texts -= {*gap_words, *odd}
        if odd:
            seen.remarks.append(f"{listing(odd)}: taken for a gap")
    return codes, texts


def _calendar(name: str, moments: set[dt.datetime], common: Mapping[str, Any]) -> Column:
    lower, upper = min(moments), max(moments)
    if all(moment.time() == dt.time() for moment in moments):  # pandas has no other type for days
        return Date(name, bounds=(lower.date().isoformat(), upper.date().isoformat()), bins=LEARNED, **common)
    step = "second" if any(m.second for m in moments) else "minute" if any(m.minute for m in moments) else "hour"
    return DateTime(name, bounds=(lower.isoformat(), upper.isoformat()), resolution=step, bins=LEARNED, **common)


def _on_a_line(texts: set[str]) -> bool:
    """Whether all of these are numbers, or all of them dates."""
    return bool(texts) and (_numbers(texts) is not None or bool(_moments(texts)[0]))


def _codes_among(texts: set[str]) -> list[str]:
    """Numbers of sevens, eights or nines that look like codes: -9 if no other is negative, 999 far above the others."""
    numbers = _numbers(texts) or []
    odd = [number for number in sorted(numbers) if CODES_AMONG_NUMBERS.fullmatch(as_text(number))]
    rest = sorted(set(numbers) - set(odd))
    if len(rest) < 3:
        return []
    lowest, highest = rest[0], rest[-1]
    return [as_text(number) for number in odd if number < 0 <= lowest or number - highest > highest - lowest]


def _remark(seen: _ObservedColumn, column: Column) -> list[str]:
    """A remark if the smallest or largest number looks like a code: the only negative, or 999 far above the rest."""
    numbers = _numbers(seen.texts - {code.code for code in column.missing_codes})
    if numbers is None or len(numbers) < 3 or isinstance(column, Date):
        return []
    lowest, second, *_ = ordered = sorted(numbers)
    *_, last, highest = ordered
    digits = set(as_text(highest))
    if lowest < 0 <= second and lowest == int(lowest):
        odd = lowest
    elif len(digits) == 1 and digits <= set("789") and highest - last > last - lowest:
        odd = highest
    else:
        return []
    return [f"{odd:g} looks like a code for a gap: missing = [{odd:g}]?"]


def _numeric(seen: _ObservedColumn, numbers: list[float], texts: set[str], common: Mapping[str, Any]) -> Column | str:
    name = seen.name
    signs: dict[str, Any] = dict(zip(("decimal", "thousands"), seen.style, strict=True))
    names = {
        seen.written.get(text, text) if seen.style != PLAINLY else text for text in texts
    }  # their texts in the file, if they become levels
    lower, upper = min(numbers), max(numbers)
    whole = all(number == int(number) for number in numbers)
    if max(-lower, upper) > (LARGEST_WHOLE if whole else LARGEST):
        return "its numbers are very large, such as identifiers"
    if whole and 2 < len(numbers) >= upper - lower < DEFAULT_BINS:  # such as a rating from 1 to 5: a bin for each
        return Integer(name, bounds=(int(lower), int(upper)), **signs, **common)
    if whole and len(numbers) <= DEFAULT_BINS and (names == texts or lower == upper):
        levels = sorted(map(int, numbers))
        if len(levels) > 2:
            seen.remarks.append(
                'its numbers were taken as codes without order; write kind = "integer" if they count or measure'
            )
        return Categorical(name, levels if set(map(str, levels)) == names else sorted(names), **common)
    if lower == upper:
        return Categorical(name, sorted(names), **common)
    common = {**common, **signs, "bins": LEARNED, "scale": _scale(numbers)}
    step = 1 if whole else _resolution(numbers)
    if step is not None:
        times = {round(float(text) / step): seen.times[text] for text in texts}
        common["heaping"] = tuple(round(heap * step, MOST_DECIMALS) if step != 1 else heap for heap in _heaps(times))
    if whole:
        return Integer(name, bounds=(int(lower), int(upper)), **common)
    return Number(name, bounds=(lower, upper), resolution=step, **common)


def _heaps(times: Mapping[int, int]) -> list[int]:
    """The steps at whose multiples values pile up, from how often each whole number occurs.

    The step whose multiples stand out most from their neighbours is found first. A coarser one must stand out among
    these multiples, and for a finer one they are left aside. So are 0, the smallest and the largest number: they are
    spikes for other reasons.
    """
    first, last = min(times), max(times)
    left = {value: many for value, many in times.items() if value not in (0, first, last)}
    least, found = HEAPED_ROWS * sum(left.values()), []
    while strengths := {
        heap: _strength(left, heap, least) for heap in HEAPS if heap < last - first < heap * MOST_LEVELS // 8
    }:
        unit = max(strengths, key=strengths.__getitem__)
        if not strengths[unit]:
            break
        among = {value: many for value, many in left.items() if value % unit == 0}
        left = {value: many for value, many in left.items() if value % unit}
        found.append(unit)
        for heap in (heap for heap in HEAPS if heap > unit):
            if heap % unit == 0 and _strength({v // unit: many for v, many in among.items()}, heap // unit, least):
                found.append(heap)
                among, unit = {value: many for value, many in among.items() if value % heap == 0}, heap
    return sorted(set(found))


def _strength(times: Mapping[int, int], heap: int, least: float) -> float:
    """How much the multiples of a step stand out from their neighbours; 0 if by fewer than `least` rows."""
    reach = min(heap // 2, NEIGHBOURS)
    sides = [side for side in range(-reach, reach + 1) if side]
    on = {value: many for value, many in times.items() if value % heap == 0}
    beside = sum(times.get(value + side, 0) for value in on for side in sides) / len(sides)
    excess = sum(on.values()) - beside
    odds = NEARLY_ALL if heap == 2 else HEAPED  # a slight preference for even numbers is no heaping
    if len(on) < LEAST_MULTIPLES or sum(on.values()) <= odds * beside or excess <= least:
        return 0.0
    return excess / math.sqrt(beside + 1)


def _resolution(numbers: list[float]) -> float | None:
    """The largest step of which all are multiples, if they have few decimals."""
    decimals = max(len(as_text(number).partition(".")[2]) for number in numbers)
    steps = (round(number * 10**decimals) for number in numbers)
    return math.gcd(*steps) / 10**decimals if decimals <= MOST_DECIMALS else None


def _scale(numbers: list[float]) -> Scale:
    """A log scale if most numbers are small compared with the largest."""
    sizes = sorted(map(abs, numbers))
    if sizes[-1] < LONG_TAIL * max(sizes[len(sizes) // 2], 1):
        return "linear"
    return "log" if min(numbers) > 0 else "symlog"


def _numbers(texts: set[str]) -> list[float] | None:
    if any(map(_LEADING_ZERO.match, texts)):  # 007 is a name: a number would lose its zeros
        return None
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _moments(texts: set[str]) -> tuple[set[dt.datetime], list[str]]:
    """Dates as they will be read, to the second and in UTC; and the formats in which all of them are written."""
    read = parse_dates(found := pl.Series(sorted(texts), dtype=pl.String))
    if not read.has_nulls() and read.dt.year().is_between(1, 9999).all():
        return set(read), []
    forms = ["%Y%m%d"] if _are_days(texts) else _forms(texts)
    return (set(parse_dates(found, forms[0])), forms) if forms else (set(), [])


def _are_days(texts: set[str]) -> bool:
    """Whether these are dates without separators: 20241231."""
    within = all(re.fullmatch(r"(19|20)[0-9]{6}", text) for text in texts)
    return len(texts) > 1 and within and not parse_dates(pl.Series(sorted(texts)), "%Y%m%d").has_nulls()


def _forms(texts: set[str]) -> list[str]:
    """The formats in which all these texts are written; each must have a year of two or four digits."""
    found = pl.Series(sorted(texts), dtype=pl.String)
    if not all(re.search(r"(\A|[^0-9])[0-9]{2}([0-9]{2})?(\Z|[^0-9])", text) for text in texts):
        return []
    forms = [day + time for day in DAYS for time in TIMES]
    forms = [form for form in forms if not parse_dates(found[:1], form).has_nulls()]
    return [form for form in forms if not parse_dates(found, form).has_nulls()]
