"""Encode the cells of a file or frame as integer codes, by the schema's public rules alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data.engines.memory import Batch, Memory, PersonMemory, join_batches
from gapless.data.io.date_texts import parse_dates
from gapless.data.io.kept_persons import keep_persons
from gapless.data.io.persons import PersonNumbers, RowLimit, check_has_id
from gapless.data.io.source import is_plain, redact_cells
from gapless.errors import GaplessError, ReadError, SchemaError
from gapless.schema import Boolean, Categorical, Column, Schema, toml
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import LevelColumn
from gapless.schema.difference import Difference, difference_of, in_steps
from gapless.schema.gap_codes import as_text
from gapless.schema.id_names import has_name_of_id
from gapless.schema.numeric import BinnedColumn, NumericColumn
from gapless.text import listing, nearest
from gapless.types import Codes

Flags: TypeAlias = NDArray[np.bool_]

SPAN = 1 << 16  # the largest range of whole numbers for which there is a lookup table
WORTH = 4  # a lookup table is made if there are this many cells for each number in it

_NO_CODES = np.zeros(0, dtype=np.uint8)
MINUEND = 2  # added to the priority of an error of the column that follows from a difference
_NONE = -1  # no code: a gap or a cell outside the schema
_CHECK = "run `gapless check`, which shows these cells to you"


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a column before the schema's rules for gaps and outside cells are applied."""

    codes: NDArray[np.int32]  # _NONE for cells without a code; the nearest bin for a number beyond the bounds
    outside: Flags  # neither a gap nor a value of the schema

    @property
    def empty(self) -> Flags:
        """Empty cells, unless the empty cell is a declared code."""
        without_code: Flags = self.codes == _NONE
        return without_code & ~self.outside


def code_type(column: Column) -> np.dtype[np.unsignedinteger]:
    """The type of the codes: one byte if they fit, else two."""
    return np.dtype(np.uint8 if column.extended_size <= 256 else np.uint16)


@redact_cells
def encode(frames: Iterable[pl.DataFrame], schema: Schema, limit: RowLimit | None = None) -> Memory:
    """Encode all rows of these frames, or with a limit those that are kept. One frame is held at a time."""
    if limit is None:
        return join_batches((codes for _, codes in _parts(frames, schema, encoders(schema))), len(schema.columns))
    persons, numbers, parts = PersonNumbers(limit.id), [], []
    for frame, codes in _parts(frames, schema, encoders(schema)):
        numbers.append(persons.numbers(frame))
        parts.append(codes)
    rows = join_batches(parts, len(schema.columns))
    kept = keep_persons(
        np.concatenate(numbers),
        persons.ids,
        limit,
        schema,
        lambda chosen, places: [rows.columns[place][chosen] for place in places],
    )
    columns = tuple(kept.constants.get(place, codes[kept.is_kept]) for place, codes in enumerate(rows.columns))
    return PersonMemory(columns, len(kept.persons), kept.persons, kept.rows_of)


@redact_cells
def encode_public(frames: Iterable[pl.DataFrame], schema: Schema) -> tuple[Batch, list[NDArray[np.float64] | None]]:
    """Encode the rows of a public table, and keep the values of each binned column as well."""
    parts, values, used = [], [], encoders(schema)
    for frame, batch in _parts(frames, schema, used):
        parts.append(batch)
        values.append([encoder.values(frame, codes) for encoder, codes in zip(used, batch.columns, strict=True)])
    joined = [None if column[0] is None else np.concatenate(column) for column in zip(*values, strict=True)]
    return join_batches(parts, len(schema.columns)), joined


def check_frames(frames: Iterable[pl.DataFrame], schema: Schema) -> int:
    """Check all cells of these frames and count the rows. Raises the error that `encode` would raise."""
    return sum(frame.height for frame, _ in _parts(frames, schema, encoders(schema), coded=False))


def _parts(
    frames: Iterable[pl.DataFrame], schema: Schema, used: Sequence[ColumnEncoder], *, coded: bool = True
) -> Iterator[tuple[pl.DataFrame, Batch]]:
    """Each frame and the codes of its columns. Errors name the column and the rule, never a cell.

    The first error by columns is raised after the last frame. So the error does not depend on how rows are cut into
    frames.
    """
    wrong: dict[tuple[int, int], GaplessError] = {}  # by column, and by priority within a column
    for frame in frames:
        try:
            check_names(frame.columns, schema)
        except SchemaError as misnamed:
            wrong[-1, 0] = misnamed
            continue
        codes = []
        for place, encoder in enumerate(used):
            found, errors = encoder.codes(frame) if coded else (_NO_CODES, encoder.errors(frame))
            codes.append(found)
            for priority, error in errors.items():
                wrong.setdefault((place, priority), error)
        if not wrong:
            yield frame, Batch(tuple(codes), frame.height)
    if wrong:
        raise wrong[min(wrong)]


def check_names(names: list[str], schema: Schema) -> None:
    """Check that the data have the schema's columns, and no others but those that the schema ignores."""
    present, known = set(names), {*schema.file_names, *schema.person, *schema.ignore}
    lacking = [name for name in schema.file_names if name not in present]
    if len(lacking) == len(schema.file_names):  # the first line may be a row of data: the error does not quote it
        hint = f"check that data and schema belong together, or write a header line with: {listing(schema.file_names)}"
        raise SchemaError("the data have none of the schema's columns", hint=hint)
    if lacking:
        wrong = f"the data have no column {listing(map(repr, lacking))}"
        raise SchemaError(wrong, hint=f"write a name that is in the data into the schema: {nearest(lacking[0], names)}")
    if both := [column for column in schema.columns if column.name in present - known]:
        wrong = f"the data have a column {both[0].name!r}, which the schema computes: {difference_of(both[0])}"
        raise SchemaError(wrong, hint="give the difference another name in the schema, and add this one to ignore")
    if unknown := [name for name in names if name not in known]:
        check_has_id(names, schema.person)  # its name is then perhaps among the unknown ones
        ids = [name for name in unknown if has_name_of_id(name) and not schema.person]
        by_id = f"write person = {toml.quoted(ids[0])} below [table] if it is the id of persons; or " if ids else ""
        declare = f"declare [column.{toml.key(unknown[0])}], or " if unknown[0] else ""
        left_out = ", ".join(map(toml.quoted, [*schema.ignore, *unknown]))
        hint = f"{by_id}{declare}write ignore = [{left_out}] below [table] to leave out what is not declared"
        raise SchemaError(
            f"the data have columns that the schema does not have: {listing(map(repr, unknown))}", hint=hint
        )


def refused_cells(column: Column, how_to_see_them: str) -> ReadError:
    """The error for a column with cells that its schema refuses."""
    wrong = f"column {column.name!r} has cells outside its schema, and outside = 'refuse'"
    return ReadError(
        wrong, hint=f"{how_to_see_them}; correct the cells, or write another rule for outside in the schema"
    )


def lost_cells(column: Column, how_to_see_them: str) -> ReadError:
    """The error for a column with gaps that may not be missing."""
    wrong = f"column {column.name!r} has gaps or unreadable cells, but may_be_missing is not true"
    return ReadError(wrong, hint=f"{how_to_see_them}; write may_be_missing = true in the schema, or correct the cells")


@dataclass(frozen=True, slots=True)
class _EncodedCells:
    """Cells of a column after the schema's rules for gaps and outside cells."""

    codes: Codes  # undefined for refused and lost cells
    refused: Flags  # outside the schema, where that is refused
    lost: Flags  # gaps and unreadable cells, where there may be none

    @classmethod
    def of(cls, cells: Cells, column: Column) -> _EncodedCells:
        codes, outside = cells.codes, cells.outside
        none = np.zeros(len(codes), dtype=np.bool_)
        refused = outside if column.outside == "refuse" else none
        lost = cells.empty | (outside & ((codes == _NONE) | (column.outside == "missing")))
        if column.may_be_missing:
            codes = np.where(lost, column.code_of_gap(column.gaps[0]), codes)
            lost = none
        return cls(codes.astype(code_type(column)), refused, lost)

    def errors(self, column: Column) -> dict[int, GaplessError]:
        """The errors of these cells of a column, by priority."""
        wrong: dict[int, GaplessError] = {}
        if self.refused.any():
            wrong[1] = refused_cells(column, _CHECK)
        if self.lost.any():
            wrong[2] = lost_cells(column, _CHECK)
        return wrong

    def at(self, numbers: pl.Series, least: int) -> _EncodedCells:
        """Look up whole numbers in this table of cells. `least` is the first number in it, and null comes last."""
        places = (numbers.cast(pl.Int64) - least).fill_null(len(self.codes) - 1).to_numpy()
        return _EncodedCells(self.codes.take(places), self.refused.take(places), self.lost.take(places))


class Encoder:
    """Encodes the cells of one column, by the schema's public rules alone.

    Whole numbers within a small range are looked up in a table, which the same rules have filled.
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        # By type: the least number, and the cells of all numbers from it on, with null last.
        self._tables: dict[str, tuple[int, _EncodedCells]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the file that are read."""
        return (self.column.name,)

    def codes(self, frame: pl.DataFrame) -> tuple[Codes, dict[int, GaplessError]]:
        """The codes of the column in a part of the rows, and its errors by priority."""
        series = frame[self.column.name]
        try:
            known = self._table(series)
            coded = _encoded(series, self.column) if known is None else known[1].at(series, known[0])
        except ReadError as error:
            return np.zeros(0, dtype=code_type(self.column)), {0: error}
        return coded.codes, coded.errors(self.column)

    def errors(self, frame: pl.DataFrame) -> dict[int, GaplessError]:
        """The errors of the same cells by priority. No cell is encoded if the lookup table has no error."""
        known = self._table(frame[self.column.name])
        if known is not None and not (known[1].refused.any() or known[1].lost.any()):
            return {}
        return self.codes(frame)[1]

    def values(self, frame: pl.DataFrame, codes: Codes) -> NDArray[np.float64] | None:
        """The `column_values` of the same cells."""
        return column_values(frame[self.column.name], self.column, codes)

    def _table(self, series: pl.Series) -> tuple[int, _EncodedCells] | None:
        """A lookup table with all numbers of this part, and its least number; None if their range is too large."""
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
        self._tables[str(series.dtype)] = low, _encoded(numbers, self.column)
        return self._tables[str(series.dtype)]


class DifferenceEncoder:
    """Encodes a column that is the difference of two others, from the two cells of each row.

    The difference is between the values that the schema reads: a cell outside the bounds follows the rule of its column
    first. It has no value where one of the two has none. Then it has the state of the minuend; if only the subtrahend
    has no value, it is the first kind of gap, as a cell outside the schema is.
    """

    def __init__(self, column: NumericColumn, difference: Difference, subtrahend: BinnedColumn) -> None:
        self.column = column
        self._pair = difference.minuend, subtrahend

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the file that are read."""
        return tuple(column.name for column in self._pair)

    def codes(self, frame: pl.DataFrame) -> tuple[Codes, dict[int, GaplessError]]:
        """The codes of the difference in a part of the rows, and the errors by priority; those of the minuend last."""
        try:
            cells, minuend = self.cells(frame)
        except ReadError as error:
            return np.zeros(0, dtype=code_type(self.column)), {0: error}
        coded = _EncodedCells.of(cells, self.column)
        others = {MINUEND + priority: error for priority, error in minuend.errors(self._pair[0]).items()}
        return coded.codes, coded.errors(self.column) | others

    def errors(self, frame: pl.DataFrame) -> dict[int, GaplessError]:
        """The errors of the same cells by priority."""
        return self.codes(frame)[1]

    def values(self, frame: pl.DataFrame, codes: Codes) -> NDArray[np.float64]:
        """The values of the same cells; NaN for cells without a value. One outside is moved to the nearest."""
        found = self.series(frame).cast(pl.Float64).fill_null(np.nan).to_numpy()
        return np.where(codes < self.column.values_size, np.clip(found, *self.column.limits), np.nan)

    def series(self, frame: pl.DataFrame) -> pl.Series:
        """The differences, also those outside the bounds; null where there is none."""
        (_, high), (_, low) = (_value_steps(frame[column.name], column) for column in self._pair)
        differences = pl.Series(self.column.name, self.column.intervals.from_steps(high - low)).fill_nan(None)
        return differences.cast(pl.Int64) if self.column.has_whole_values else differences

    def cells(self, frame: pl.DataFrame) -> tuple[Cells, _EncodedCells]:
        """The cells of the difference, and those of the minuend."""
        (minuend, high), (subtrahend, low) = (_value_steps(frame[column.name], column) for column in self._pair)
        positions = self.column.intervals.from_steps(high - low)
        readable = ~np.isnan(positions)
        codes = np.full(frame.height, _NONE, dtype=np.int32)
        codes[readable] = self.column.bin_of(positions[readable])
        size = self._pair[0].values_size
        codes = np.where(minuend.codes >= size, minuend.codes.astype(np.int32) - size + self.column.values_size, codes)
        wrong = minuend.refused | minuend.lost | subtrahend.refused | subtrahend.lost  # has an error of its own
        return Cells(np.where(wrong, 0, codes), readable & ~self.column.contains(positions)), minuend


ColumnEncoder: TypeAlias = Encoder | DifferenceEncoder


def encoders(schema: Schema) -> list[ColumnEncoder]:
    """The encoder of each column."""
    return [encoder_of(column, schema) for column in schema.columns]


def encoder_of(column: Column, schema: Schema) -> ColumnEncoder:
    """The encoder of a column of this schema."""
    if (difference := difference_of(column)) is None:
        return Encoder(column)
    subtrahend = schema[difference.subtrahend]
    assert isinstance(column, NumericColumn) and isinstance(subtrahend, BinnedColumn)  # noqa: S101, PT018 for mypy: by schema
    return DifferenceEncoder(column, difference, subtrahend)


def _encoded(series: pl.Series, column: Column) -> _EncodedCells:
    return _EncodedCells.of(classify(series, column), column)


def _value_steps(series: pl.Series, column: BinnedColumn) -> tuple[_EncodedCells, NDArray[np.float64]]:
    """The cells of a binned column, and each value that the schema reads, in steps; NaN where there is none."""
    coded, positions = _encoded(series, column), _positions(series, column)
    moved = np.clip(np.floor(positions) if column.has_whole_values else positions, *column.limits)
    is_value = (coded.codes < column.values_size) & ~coded.refused & ~coded.lost
    return coded, np.where(is_value, in_steps(column, moved), np.nan)


@redact_cells
def classify(series: pl.Series, column: Column) -> Cells:
    """Sort the cells of one column into codes, gaps and cells outside the schema."""
    if not is_plain(series):
        wrong = f"column {column.name!r} holds values of type {series.dtype.base_type().__name__}"
        hint = "write the column as text, numbers, booleans, dates or datetimes"
        raise ReadError(f"{wrong}, which are not read", hint=hint)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if isinstance(column, LevelColumn):
        return _classify_levels(series, column)
    if isinstance(column, BinnedColumn):
        return _classify_positions(series, _positions(series, column), column)
    raise TypeError(column)


@redact_cells
def column_values(series: pl.Series, column: Column, codes: Codes) -> NDArray[np.float64] | None:
    """The positions of the values of a binned column; NaN for cells without a value. None for a column with levels.

    A cell outside the schema that has a bin is moved to the nearest value in it.
    """
    if not isinstance(column, BinnedColumn):
        return None
    positions = _positions(series, column)
    first, last = column.bin_ranges()
    bins = np.minimum(codes, column.values_size - 1)
    moved = np.clip(np.floor(positions) if column.has_whole_values else positions, first[bins], last[bins])
    values = np.where(column.contains(positions), positions, moved)
    return np.where(codes < column.values_size, values, np.nan)


def _texts(series: pl.Series) -> pl.Series:
    return series.cast(pl.String).fill_null("").str.strip_chars()


def gap_codes(column: Column) -> dict[str, int]:
    """The code of each text that means a gap or *not applicable*."""
    return {code.code: column.code_of_gap(code.kind) for code in column.missing_codes}


def level_codes(column: LevelColumn) -> dict[str, int]:
    """The code of each text that is a level or a missing code; for booleans in lower case as well."""
    gaps = gap_codes(column)
    if not isinstance(column, Boolean):
        return {as_text(level): code for code, level in enumerate(column.levels)} | gaps
    spelled = {spelling: int(value) for spelling, value in column.reads.items()}
    return spelled | {text.lower(): code for text, code in gaps.items()} | gaps


def _lookup(texts: pl.Series, codes: dict[str, int]) -> NDArray[np.int32]:
    """The code of each text, or _NONE. Each different text is looked up once."""
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
    """Classify cells of a binned column. `positions` is NaN where a cell has none."""
    readable = ~np.isnan(positions)
    codes = np.full(len(series), _NONE, dtype=np.int32)
    codes[readable] = column.bin_of(positions[readable])
    known = gap_codes(column)
    for gap_range in column.missing_ranges:  # before single codes, which have kinds of their own
        codes[(positions >= gap_range.least) & (positions <= gap_range.most)] = column.code_of_gap(gap_range.kind)
    if series.dtype.is_numeric():
        empty = series.is_null().to_numpy()
        for code, gap in known.items():
            codes[empty if code == "" else positions == to_number(code)] = gap
    else:
        texts = _texts(series)
        empty = (texts == "").to_numpy()
        if (plain := _plain(texts, column)) is not None:  # -9,0 is the code -9; 9.000 is nine thousand, not the code 9
            texts = plain.zip_with(plain.is_not_null(), texts)
        gaps = _lookup(texts, known) if known else np.full(len(series), _NONE, dtype=np.int32)
        codes[gaps != _NONE] = gaps[gaps != _NONE]
    coded = codes >= column.values_size
    outside = ~coded & ~empty & ~(readable & column.contains(positions))
    return Cells(codes, outside)


def to_number(text: str) -> float:
    """A missing code as a number; NaN if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _positions(series: pl.Series, column: BinnedColumn) -> NDArray[np.float64]:
    """The position of each cell; NaN for cells that have none."""
    if isinstance(column, CalendarColumn):
        return _calendar_positions(series, column)
    numbers = series
    if not series.dtype.is_numeric():
        texts = _texts(series)
        plain = _plain(texts, column)
        numbers = (texts if plain is None else plain).cast(pl.Float64, strict=False)
    return numbers.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _plain(texts: pl.Series, column: Column) -> pl.Series | None:
    """Rewrite numbers as 1234.5, other texts as null. None if the file writes them so already."""
    if not isinstance(column, NumericColumn) or column.written_plainly:
        return None
    different = texts.unique()
    found = pl.Series([column.plain(text) for text in different], dtype=pl.String)
    return texts.replace_strict(different, found, return_dtype=pl.String)


def _calendar_positions(series: pl.Series, column: CalendarColumn) -> NDArray[np.float64]:
    """Whole steps of the column's resolution since 1970; NaN where a cell is not a date."""
    if not series.dtype.is_temporal():
        texts = _texts(series)
        different = texts.unique()
        series = texts.replace_strict(different, parse_dates(different, column.format), return_dtype=pl.Datetime("us"))
    elif getattr(series.dtype, "time_zone", None):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    steps = series.cast(pl.Datetime("us"), strict=False).to_numpy().astype(column.unit)
    return np.where(np.isnat(steps), np.nan, steps.astype(np.int64))
