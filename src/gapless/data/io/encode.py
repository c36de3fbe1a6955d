"""Cells of a file or frame as small numbers, by the schema's public rules alone.

Dates and datetimes have one grammar (`format_pattern`), so that every engine reads a text alike. A text that does not
match, or that names a day which no calendar has, is no date for any engine. Nothing is left to the leniency of a
library or a database. Those differ, and some raise an error for one cell where others read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data.engines.memory import Batch, Memory, join_batches
from gapless.data.io.source import is_plain, redact_cells
from gapless.errors import GaplessError, ReadError, SchemaError
from gapless.schema import Boolean, Categorical, Column, Schema, toml
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import LevelColumn, as_text
from gapless.schema.numeric import BinnedColumn, NumericColumn
from gapless.text import listing, nearest
from gapless.types import Codes

YEAR, PARTS = "Y", "mdHMS"  # as formats name them; the other parts have two digits each
_TWO_DIGITS = {"m": "[0-9]{2}", "d": "[0-9]{2}", "H": "[01][0-9]|2[0-3]", "M": "[0-5][0-9]", "S": "[0-5][0-9]"}
_FEWER_DIGITS = {**_TWO_DIGITS, "m": "[0-9]{1,2}", "d": "[0-9]{1,2}", "H": "[01]?[0-9]|2[0-3]"}
_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.[0-9]+)?)?"
_ZONE = r"(?:[Zz]|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?"
ISO = rf"([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?:[Tt ]{_CLOCK}{_ZONE})?"
ISO_PARTS = "YmdHMS+hn"  # of the groups of ISO: behind the second the sign, hours and minutes of the time zone


def format_pattern(form: str | None) -> tuple[str, str] | None:
    r"""The pattern of the texts that are read, without anchors, and which part each of its groups is.

    By ISO 8601 unless there is a format; None for a format with names of months, years of two digits or hours of half a
    day. A day, month or hour may lack its leading zero where a sign stands on both sides of it.

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
    """A part of a format, as a regular expression that PostgreSQL, Java and Rust read alike; spaces may be many."""
    return re.sub(" +", " +", re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", text))


def first_year(form: str | None) -> int:
    """The first year that is read: by a format 24 is 2024 cut short, not the year 24."""
    return 1 if form is None else 1000


def parse_dates(texts: pl.Series, form: str | None = None) -> pl.Series:
    """Dates and moments as ISO 8601 writes them, with a time zone in UTC, or by a format; null where a text is none.

    To the second: what follows it is dropped. A format without day or month means the first.
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
    """By a format that only files are read by."""
    for part, names in (("%m", "mbB"), ("%d", "d")):
        if not any(f"%{name}" in form for name in names):
            texts, form = texts + " 01", f"{form} {part}"
    moments = texts.str.to_datetime(form, strict=False, time_unit="us")
    return moments.set(moments.dt.year() < first_year(form), None)


Flags: TypeAlias = NDArray[np.bool_]

SPAN = 1 << 16  # between the least and the largest of whole numbers that are looked up in a table
WORTH = 4  # cells for each number in a table, from which on it is worth making

_NO_CODES = np.zeros(0, dtype=np.uint8)
_NONE = -1  # no code: a gap or a cell outside the schema
_CHECK = "`gapless check` shows them to you, the holder"


@dataclass(frozen=True, slots=True)
class Cells:
    """One column as it was found, before the schema's rules for gaps and outside cells are applied."""

    codes: NDArray[np.int32]  # _NONE where there is none; for a number beyond the bounds the nearest bin
    outside: Flags  # not a gap, and not a value that the schema knows

    @property
    def empty(self) -> Flags:
        """Cells with nothing in them, and no declared code either."""
        without_code: Flags = self.codes == _NONE
        return without_code & ~self.outside


def code_type(column: Column) -> np.dtype[np.unsignedinteger]:
    """One byte for each cell as long as the codes fit."""
    return np.dtype(np.uint8 if column.extended_size <= 256 else np.uint16)


@redact_cells
def encode(frames: Iterable[pl.DataFrame], schema: Schema) -> Memory:
    """The codes of every column of the schema, of all rows of these frames, of which one is held at a time."""
    return join_batches((codes for _, codes in _parts(frames, schema)), len(schema.columns))


@redact_cells
def encode_public(frames: Iterable[pl.DataFrame], schema: Schema) -> tuple[Batch, list[NDArray[np.float64] | None]]:
    """The same, and `column_values` each column: what a public table keeps beside its codes."""
    parts, known = [], []
    for frame, codes in _parts(frames, schema):
        parts.append(codes)
        known.append(
            [column_values(frame[c.name], c, own) for c, own in zip(schema.columns, codes.columns, strict=True)]
        )
    values = [None if column[0] is None else np.concatenate(column) for column in zip(*known, strict=True)]
    return join_batches(parts, len(schema.columns)), values


def check_frames(frames: Iterable[pl.DataFrame], schema: Schema) -> int:
    """The number of rows of these frames, in which nothing is wrong: else the error that `encode` would raise."""
    return sum(frame.height for frame, _ in _parts(frames, schema, coded=False))


def _parts(
    frames: Iterable[pl.DataFrame], schema: Schema, *, coded: bool = True
) -> Iterator[tuple[pl.DataFrame, Batch]]:
    """Each frame and the codes of its columns. Refusals name the column and the rule, never a cell.

    They come after the last frame, the first column's first: the same, however rows are cut into frames.
    """
    wrong: dict[tuple[int, int], GaplessError] = {}  # by column, and by what is told first of a column
    encoders = [Encoder(column) for column in schema.columns]
    for frame in frames:
        try:
            check_names(frame.columns, schema)
        except SchemaError as error:
            wrong[-1, 0] = error
            continue
        codes = []
        for place, encoder in enumerate(encoders):
            series = frame[encoder.column.name]
            found, told = encoder.codes(series) if coded else (_NO_CODES, encoder.wrong(series))
            codes.append(found)
            for order, refusal in told.items():
                wrong.setdefault((place, order), refusal)
        if not wrong:
            yield frame, Batch(tuple(codes), frame.height)
    if wrong:
        raise wrong[min(wrong)]


def check_names(names: list[str], schema: Schema) -> None:
    """The file's columns and the schema's must be the same, but for those the schema ignores."""
    present, known = set(names), {*schema.names, *schema.ignore}
    lacking = [name for name in schema.names if name not in present]
    if len(lacking) == len(schema.names):  # then the first line may be no header at all: it is not quoted
        raise SchemaError(
            "the data have none of the schema's columns", hint=f"a header line with: {listing(schema.names)}"
        )
    if lacking:
        raise SchemaError(
            f"the data have no column {listing(map(repr, lacking))}",
            hint=f"in the data: {nearest(lacking[0], names)}",
        )
    if unknown := [name for name in names if name not in known]:
        raise SchemaError(
            f"the schema does not know {listing(map(repr, unknown))}",
            hint=f"declare [column.{toml.key(unknown[0])}], or leave it out: [table] ignore = [{unknown[0]!r}]"
            if unknown[0]
            else 'a column without a name is left out: [table] ignore = [""]',
        )


def refused_cells(column: Column, how_to_see_them: str) -> ReadError:
    """What is told of a column with cells that its schema refuses."""
    return ReadError(
        f"column {column.name!r} has cells outside its schema, and outside = 'refuse'",
        hint=f"{how_to_see_them}; mend them, or choose another rule for outside",
    )


def lost_cells(column: Column, how_to_see_them: str) -> ReadError:
    """What is told of a column that may not be missing and has gaps."""
    return ReadError(
        f"column {column.name!r} has gaps or unreadable cells, but may_be_missing is not true",
        hint=f"{how_to_see_them}; declare may_be_missing = true, or mend them",
    )


@dataclass(frozen=True, slots=True)
class _EncodedCells:
    """Cells of a column by the schema's rules."""

    codes: Codes  # of no meaning where something is wrong
    refused: Flags  # outside the schema, where that is refused
    lost: Flags  # gaps and unreadable cells, where there may be none

    @classmethod
    def of(cls, series: pl.Series, column: Column) -> _EncodedCells:
        cells = classify(series, column)
        codes, outside = cells.codes, cells.outside
        refused = outside if column.outside == "refuse" else np.zeros(len(series), dtype=np.bool_)
        lost = cells.empty | (outside & ((codes == _NONE) | (column.outside == "missing")))
        if column.may_be_missing:
            codes = np.where(lost, column.code_of_gap(column.gaps[0]), codes)
            lost = np.zeros(len(series), dtype=np.bool_)
        return cls(codes.astype(code_type(column)), refused, lost)

    def at(self, numbers: pl.Series, least: int) -> _EncodedCells:
        """What a table says of these whole numbers: `least` comes first in it, and null last."""
        places = (numbers.cast(pl.Int64) - least).fill_null(len(self.codes) - 1).to_numpy()
        return _EncodedCells(self.codes.take(places), self.refused.take(places), self.lost.take(places))


class Encoder:
    """The codes of one column, by the schema's public rules alone.

    Whole numbers that lie close together are looked up in a table, which holds what the same rules say of each of them.
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        self._tables: dict[
            str, tuple[int, _EncodedCells]
        ] = {}  # by type: the least number, and what each one is; null last

    def codes(self, series: pl.Series) -> tuple[Codes, dict[int, GaplessError]]:
        """The codes of a part of the column, and what is wrong with it, by what is told first."""
        try:
            known = self._table(series)
            coded = _EncodedCells.of(series, self.column) if known is None else known[1].at(series, known[0])
        except ReadError as error:
            return np.zeros(0, dtype=code_type(self.column)), {0: error}
        wrong: dict[int, GaplessError] = {}
        if coded.refused.any():
            wrong[1] = refused_cells(self.column, _CHECK)
        if coded.lost.any():
            wrong[2] = lost_cells(self.column, _CHECK)
        return coded.codes, wrong

    def wrong(self, series: pl.Series) -> dict[int, GaplessError]:
        """What is wrong with a part of the column: no cell is looked at if nothing can be."""
        known = self._table(series)
        if known is not None and not (known[1].refused.any() or known[1].lost.any()):
            return {}
        return self.codes(series)[1]

    def _table(self, series: pl.Series) -> tuple[int, _EncodedCells] | None:
        """The least number of a table that has all numbers of this part, and the table, with null last."""
        if not series.dtype.is_integer() or series.null_count() == len(series):
            return None
        low, high = cast("int", series.min()), cast("int", series.max())
        known = self._tables.get(str(series.dtype))
        if known is not None:
            last = known[0] + len(known[1].codes) - 2
            if known[0] <= low and high <= last:
                return known
            low, high = min(low, known[0]), max(high, last)
        if not (high - low < min(SPAN, len(series) // WORTH) and -(2**62) < low <= high < 2**62):
            return None
        numbers = pl.Series([*range(low, high + 1), None], dtype=series.dtype)
        self._tables[str(series.dtype)] = low, _EncodedCells.of(numbers, self.column)
        return self._tables[str(series.dtype)]


@redact_cells
def classify(series: pl.Series, column: Column) -> Cells:
    """Sort the cells of one column into codes, gaps and cells outside the schema."""
    if not is_plain(series):
        raise ReadError(
            f"column {column.name!r} holds values of type {series.dtype.base_type().__name__}",
            hint="text, numbers, booleans, dates or datetimes",
        )
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if isinstance(column, LevelColumn):
        return _classify_levels(series, column)
    if isinstance(column, CalendarColumn):
        return _classify_positions(series, _moments(series, column), column)
    if isinstance(column, BinnedColumn):
        return _classify_positions(series, _numbers(series, column), column)
    raise TypeError(column)


@redact_cells
def column_values(series: pl.Series, column: Column, codes: Codes) -> NDArray[np.float64] | None:
    """What cells with these codes say, as numbers on their column's line; NaN where there is none, None for levels.

    A cell that is no value of its column, and was not lost, is moved into its bin.
    """
    if not isinstance(column, BinnedColumn):
        return None
    positions = _moments(series, column) if isinstance(column, CalendarColumn) else _numbers(series, column)
    first, last = column.bin_ranges()
    bins = np.minimum(codes, column.values_size - 1)
    moved = np.clip(np.floor(positions) if column.has_whole_values else positions, first[bins], last[bins])
    values = np.where(column.contains(positions), positions, moved)
    return np.where(codes < column.values_size, values, np.nan)


def _texts(series: pl.Series) -> pl.Series:
    return series.cast(pl.String).fill_null("").str.strip_chars()


def gap_codes(column: Column) -> dict[str, int]:
    """The code of each text that stands for a gap."""
    return {code.code: column.code_of_gap(code.kind) for code in column.missing}


def level_codes(column: LevelColumn) -> dict[str, int]:
    """The code of each text that is a level or stands for a gap; of booleans in small letters as well."""
    gaps = gap_codes(column)
    if not isinstance(column, Boolean):
        return {as_text(level): code for code, level in enumerate(column.levels)} | gaps
    spelled = {spelling: int(value) for spelling, value in column.reads.items()}
    return spelled | {text.lower(): code for text, code in gaps.items()} | gaps


def _lookup(texts: pl.Series, codes: dict[str, int]) -> NDArray[np.int32]:
    """The code of each text, _NONE where there is none; each different text is looked at once."""
    different = texts.unique()
    found = pl.Series([codes.get(as_text(text), _NONE) for text in different], dtype=pl.Int32)
    return texts.replace_strict(different, found, return_dtype=pl.Int32).to_numpy()


def _classify_levels(series: pl.Series, column: LevelColumn) -> Cells:
    texts = _texts(series)
    if isinstance(column, Boolean):
        texts = texts.str.to_lowercase()
    found = _lookup(texts, level_codes(column))
    outside = (found == _NONE) & (texts != "").to_numpy()
    if isinstance(column, Categorical) and column.outside == "other":
        found = np.where(outside, np.int32(column.code_of(column.other)), found)
    return Cells(found, outside)


def _classify_positions(series: pl.Series, positions: NDArray[np.float64], column: BinnedColumn) -> Cells:
    """Cells on a line: `positions` is NaN where a cell is not a position."""
    readable = ~np.isnan(positions)
    codes = np.full(len(series), _NONE, dtype=np.int32)
    codes[readable] = column.bin_of(positions[readable])
    known = gap_codes(column)
    if series.dtype.is_numeric():
        empty = series.is_null().to_numpy()
        for code, gap in known.items():
            codes[empty if code == "" else positions == to_number(code)] = gap
        coded = codes >= column.values_size
    else:
        texts = _texts(series)
        empty = (texts == "").to_numpy()
        if (plain := _plain(texts, column)) is not None:  # -9,0 is the code -9, and 9.000 is not the code 9
            texts = plain.zip_with(plain.is_not_null(), texts)
        gaps = _lookup(texts, known) if known else np.full(len(series), _NONE, dtype=np.int32)
        coded = gaps != _NONE
        codes[coded] = gaps[coded]
    outside = ~coded & ~empty & ~(readable & column.contains(positions))
    return Cells(codes, outside)


def to_number(text: str) -> float:
    """A code as a number; NaN, which equals none, for a code in words."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _numbers(series: pl.Series, column: Column) -> NDArray[np.float64]:
    numbers = series
    if not series.dtype.is_numeric():
        texts = _texts(series)
        plain = _plain(texts, column)
        numbers = (texts if plain is None else plain).cast(pl.Float64, strict=False)
    return numbers.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _plain(texts: pl.Series, column: Column) -> pl.Series | None:
    """Numbers that a file writes in another way as 1234.5, null for what is none; None if it writes them so."""
    if not isinstance(column, NumericColumn) or column.written_plainly:
        return None
    different = texts.unique()
    found = pl.Series([column.plain(text) for text in different], dtype=pl.String)
    return texts.replace_strict(different, found, return_dtype=pl.String)


def _moments(series: pl.Series, column: CalendarColumn) -> NDArray[np.float64]:
    """Whole steps of the column's resolution since 1970; NaN where a cell is not a moment."""
    if not series.dtype.is_temporal():
        texts = _texts(series)
        different = texts.unique()
        series = texts.replace_strict(different, parse_dates(different, column.format), return_dtype=pl.Datetime("us"))
    elif getattr(series.dtype, "time_zone", None):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    steps = series.cast(pl.Datetime("us"), strict=False).to_numpy().astype(column.unit)
    return np.where(np.isnat(steps), np.nan, steps.astype(np.int64))
