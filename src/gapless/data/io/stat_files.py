"""Read data files of SPSS, Stata and SAS, some rows at a time.

Value-labelled columns hold their codes, not their labels. Codes that the file declares as missing stay codes, and the
missing values `.a` to `.z` of Stata, `.A` to `.Z` and `._` of SAS, are texts, so that the schema keeps kinds of gaps
apart. Cells become texts as a CSV file would have them, dates in ISO 8601 or in the format of the schema. Only numbers
of SPSS stay numbers where the schema declares a number.

`pyreadstat` parses the files in C. It has no handle that stays open: each part is a call that skips the rows before it.
Skipping is free where rows have one length and are not compressed. Otherwise a part has at least a `GROWTH`-th of the
rows before it, so that all skipping together takes a time in proportion to the rows.

A damaged file can crash the whole process, as in every program that parses such files in C. No error quotes a cell.
"""

from __future__ import annotations

import codecs
import io
import mmap
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.errors import Argument, Hint, ReadError, requires_extra
from gapless.schema import Schema
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Column
from gapless.schema.numeric import NumericColumn
from gapless.schema.stat_dates import DAY, Dates, dates_of

SPSS_ENDINGS = (".sav", ".zsav", ".por")
STAT_ENDINGS = (*SPSS_ENDINGS, ".dta", ".sas7bdat", ".xpt")
WHOLE_ENDINGS = (".por",)  # skipping a row takes as long as reading it, so these are read at once

CELLS = 1 << 21  # of a part; while it is read, each takes about 32 bytes
MOST_ROWS = 1 << 17  # of a part
GROWTH = 32
EXACT = 2**53  # larger numbers are not exact, and are not written as whole numbers
RECORD = 80  # bytes of a record of an .xpt file

_PROGRAMS = dict.fromkeys(SPSS_ENDINGS, "SPSS") | {".dta": "Stata", ".sas7bdat": "SAS", ".xpt": "SAS transport"}
_FUNCTIONS = {".por": "read_por", ".dta": "read_dta", ".sas7bdat": "read_sas7bdat"}
_EPOCHS = {"SPSS": "1582-10-14", "Stata": "1960-01-01", "SAS": "1960-01-01"}


def ending_of(path: Path) -> str:
    """The ending of a data file of SPSS, Stata or SAS; "" for other files."""
    return next((ending for ending in STAT_ENDINGS if path.name.lower().endswith(ending)), "")


@dataclass(frozen=True, slots=True)
class StatFile:
    """An SPSS, Stata or SAS file: its dictionary, and how its rows are read."""

    path: Path
    encoding: str | None
    header: Any = field(init=False)  # the metadata of pyreadstat

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", self._read(metadataonly=True)[1])

    @property
    def program(self) -> str:
        """The program whose dates and missing values the file has."""
        return _PROGRAMS[ending_of(self.path)].partition(" ")[0]

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.header.column_names)

    def parts(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """The cells of these columns, some rows at a time, as Python objects."""
        if ending_of(self.path) in WHOLE_ENDINGS:
            yield self._read(usecols=list(columns))[0]
            return
        rows = max(1, min(MOST_ROWS, CELLS // max(1, len(columns))))
        start, read = 0, self._reader()
        while True:
            many = rows if read.skips_freely else max(rows, start // GROWTH)
            cells = read.rows(start, many, columns)
            found = len(next(iter(cells.values()), ()))
            if found:
                yield cells
            start += found
            if found < many:
                return

    def _reader(self) -> _Reader:
        ending = ending_of(self.path)
        if ending == ".xpt":
            return _Reader(True, _TransportRows.of(self.path, self.header).read_by(self._read))
        free = ending == ".dta" or (ending == ".sav" and _has_plain_rows(self.path))
        return _Reader(free, lambda start, many, columns: self._read(start, many, usecols=list(columns))[0])

    def _read(
        self, row_offset: int = 0, row_limit: int = 0, *, source: Any = None, **more: Any
    ) -> tuple[dict[str, list[Any]], Any]:
        """Call pyreadstat. Its errors may quote cells, so none is passed on."""
        with requires_extra("pyreadstat", "stat", ", or save the table as CSV"):
            import pyreadstat  # noqa: PLC0415 an extra
        ending = ending_of(self.path)
        if ending != ".por":
            more["user_missing"] = True
            more["encoding"] = None if self.encoding is None else codecs.lookup(self.encoding).name
        function: Callable[..., Any] = getattr(pyreadstat, _FUNCTIONS.get(ending, "read_sav"))
        if ending == ".xpt":  # the public function would drop the letters of missing values
            function = partial(pyreadstat._readstat_parser.parser_entry_point, parser_format="xport")  # noqa: SLF001 see above
        called = source or str(self.path.absolute())  # a leading ~ would be expanded
        failed, twice = True, False
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found, header = function(
                    called,
                    row_offset=row_offset,
                    row_limit=row_limit,
                    disable_datetime_conversion=True,
                    output_format="dict",
                    **more,
                )
                failed, twice = False, any("duplicated" in str(warning.message) for warning in warned)
            except (MemoryError, OSError):
                raise
            except Exception:  # noqa: BLE001, S110 its text may quote cells
                pass
        if failed:
            raise self._damaged()
        if not all(isinstance(name, str) for name in header.column_names):
            raise self._damaged()
        if twice:
            hint = "give each column a different name, and export the file again"
            raise ReadError(f"{self.path} has two columns of the same name", hint=hint)
        return found, header

    def _damaged(self) -> ReadError:
        with self.path.open("rb"):  # a file that may not be read raises its error
            pass
        ending = ending_of(self.path)
        hint = Hint("write the table to this format again") | Hint("write it as CSV")
        if ending != ".por":
            hint = Hint("write the table again") | Hint("pass ", Argument("encoding"), " if its texts have another one")
        return ReadError(f"{self.path} is not a valid {_PROGRAMS[ending]} file, or is damaged", hint=hint)


@dataclass(frozen=True, slots=True)
class _Reader:
    """How rows of a file are read from any place on, and whether the rows before them cost nothing."""

    skips_freely: bool
    rows: Callable[[int, int, Sequence[str]], dict[str, list[Any]]]


def _has_plain_rows(path: Path) -> bool:
    """Whether an SPSS system file does not compress its rows: the word at byte 72 of its header is 0."""
    with path.open("rb") as file:
        return file.read(76)[72:] == b"\0\0\0\0"


@dataclass(frozen=True, slots=True)
class _TransportRows:
    """The rows of a SAS transport file. All have one width, and nothing is between them.

    Version 8 of the format states their number. Other versions fill the last record of 80 bytes with spaces. If all
    columns are texts, a row of spaces looks the same as this filling. Then one person's row would decide whether the
    rows before it count, so such a file is refused.
    """

    path: Path
    place: int  # of the first row
    width: int
    rows: int

    @classmethod
    def of(cls, path: Path, header: Any) -> _TransportRows:
        width = sum(header.variable_storage_width.values())
        size = path.stat().st_size
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            announced = re.search(rb"HEADER RECORD\*{7}OBS(?:V8)? +HEADER RECORD!{7}(?: {0,20}(\d+))?", content)
            place = announced.start() + RECORD if announced else size
            is_counted = announced is not None and b"OBSV8" in announced[0]
            stated = int(announced[1] or 0) if announced is not None and is_counted else None
            if content.find(b"HEADER RECORD*******MEMB", place) >= 0:
                hint = "write each table to a separate file"
                raise ReadError(f"{path} holds several tables, but only one can be read", hint=hint)
            narrow_texts = width < RECORD and set(header.readstat_variable_types.values()) == {"string"}
            if stated is None and narrow_texts:
                wrong = f"{path} has only columns of text, and its format does not say how many rows it has"
                raise ReadError(wrong, hint="write the table in version 8 of the format, or as CSV")
            end = max(place, size - RECORD + 1)
            end += len(content[end:size].rstrip(b" "))
        return cls(path, place, width, -(-(end - place) // max(1, width)) if stated is None else stated)

    def read_by(self, read: Callable[..., Any]) -> Callable[[int, int, Sequence[str]], dict[str, list[Any]]]:
        """A function that reads some rows with pyreadstat, from a file without the rows before them."""

        def rows(start: int, many: int, columns: Sequence[str]) -> dict[str, list[Any]]:
            if start >= self.rows:
                return {}
            with self.path.open("rb") as file:
                window = _Window(file, self.place, start * self.width)
                found: dict[str, list[Any]]
                found, _ = read(row_limit=min(many, self.rows - start), usecols=list(columns), source=window)
            return found

        return rows


class _Window(io.RawIOBase):
    """A file without some bytes at one place."""

    def __init__(self, file: BinaryIO, place: int, left_out: int) -> None:
        self._file, self._place, self._left_out, self._at = file, place, left_out, 0

    def seek(self, offset: int, origin: int = os.SEEK_SET) -> int:
        """Move to a position from the start, from here or from the end."""
        size = os.fstat(self._file.fileno()).st_size - self._left_out
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: size}[origin]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes; all that are left by default."""
        found = b""
        if self._at < self._place:
            self._file.seek(self._at)
            found = self._file.read(self._place - self._at if size < 0 else min(size, self._place - self._at))
        if size < 0 or len(found) < size:
            self._file.seek(self._at + len(found) + self._left_out)
            found += self._file.read(size if size < 0 else size - len(found))
        self._at += len(found)
        return found


# ---------------------------------------------------------------------- cells


def stat_frames(
    path: Path, schema: Schema | None, encoding: str | None, columns: Sequence[str] | None = None
) -> Iterator[pl.DataFrame]:
    """The rows of an SPSS, Stata or SAS file, some at a time, with these columns or all; first a frame without rows."""
    file = StatFile(path, encoding)
    declared = {} if schema is None else {column.name: column for column in schema.file_columns}
    names = file.names if columns is None else list(columns)
    forms = {name: _CellForm.of(file, name, declared.get(name)) for name in names}
    yield pl.DataFrame({name: form.series([]) for name, form in forms.items()})
    for cells in file.parts(names):
        yield pl.DataFrame({name: forms[name].series(cells[name]) for name in names})


@dataclass(frozen=True, slots=True)
class _CellForm:
    """How the cells of a column are passed on. It follows from the dictionary of the file and the schema alone.

    Attributes:
        is_text: whether the file stores texts.
        stays_number: whether cells stay numbers.
        decimal: the sign in numbers.
        dates: how the file stores dates, if it does.
        epoch: the day of the number 0.
        form: the format of dates; None for ISO 8601.
        codes: the ranges of numbers that mean missing.
    """

    is_text: bool
    stays_number: bool
    decimal: str
    dates: Dates | None
    epoch: str
    form: str | None
    codes: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, file: StatFile, name: str, column: Column | None) -> _CellForm:
        header, program = file.header, file.program
        is_number = isinstance(column, NumericColumn)
        declared: Sequence[Mapping[str, Any]] = header.missing_ranges.get(name, ())
        is_text = header.readstat_variable_types.get(name) == "string"
        return cls(
            is_text=is_text,
            stays_number=is_number and program == "SPSS",
            decimal=column.decimal if isinstance(column, NumericColumn) else ".",
            dates=None if is_number else dates_of(program, header.original_variable_types.get(name)),
            epoch=_EPOCHS[program],
            form=column.format if isinstance(column, CalendarColumn) else None,
            codes=() if is_text else tuple((found["lo"], found["hi"]) for found in declared),
        )

    def series(self, cells: list[Any]) -> pl.Series:
        if self.is_text:
            return pl.Series(cells, dtype=pl.String)
        letters = None
        try:
            numbers = pl.Series(cells, dtype=pl.Float64, strict=True)
        except TypeError:  # Stata's and SAS's own missing values are texts of one letter
            letters = pl.Series([f".{cell}" if isinstance(cell, str) else None for cell in cells], dtype=pl.String)
            numbers = pl.Series([None if isinstance(cell, str) else cell for cell in cells], dtype=pl.Float64)
        numbers = numbers.fill_nan(None)
        if self.stays_number:
            return numbers
        texts = _plain_texts(numbers) if self.dates is None else self._date_texts(numbers, self.dates)
        if self.decimal != ".":
            texts = texts.str.replace(".", self.decimal, literal=True)
        return texts if letters is None else letters.zip_with(letters.is_not_null(), texts)

    def _date_texts(self, numbers: pl.Series, dates: Dates) -> pl.Series:
        """Dates as texts. A number that the file declares as missing, or that is no date, stays a number."""
        moments = _moments(numbers.to_numpy(), dates, self.epoch)
        form = self.form or ("%Y-%m-%d %H:%M:%S" if dates.has_time else "%Y-%m-%d")
        texts = pl.Series(moments, dtype=pl.Datetime("us")).dt.strftime(form)
        values, is_code = numbers.fill_null(np.nan).to_numpy(), np.zeros(len(numbers), dtype=np.bool_)
        for low, high in self.codes:
            # A code such as 9999-12-31 is written as a date, one such as -9 as a number: no survey has dates of 1583.
            is_code |= (values >= low) & (values <= high) & (np.abs(values) < 366 * DAY)
        return texts.zip_with(texts.is_not_null() & ~pl.Series(is_code), _plain_texts(numbers))


def _plain_texts(numbers: pl.Series) -> pl.Series:
    """Numbers as texts: whole ones without a point, others with as many digits as they need."""
    whole = numbers.is_between(-EXACT, EXACT) & (numbers == numbers.floor())
    digits = numbers.zip_with(whole, pl.Series([None], dtype=pl.Float64).new_from_index(0, len(numbers)))
    texts = digits.cast(pl.Int64).cast(pl.String)
    return texts.zip_with(texts.is_not_null(), numbers.cast(pl.String))


def _moments(numbers: NDArray[np.float64], dates: Dates, epoch: str) -> NDArray[np.datetime64]:
    """Stored numbers as datetimes, NaT for numbers that are no dates of the years 1 to 9999."""
    first, last = np.datetime64("0001-01-01", "s"), np.datetime64("9999-12-31T23:59:59", "s")
    origin = np.datetime64(epoch, "s")
    with np.errstate(invalid="ignore", over="ignore"):
        if dates.seconds is None:
            months = np.floor(numbers)
            months[~(np.abs(months) < 12 * 10_000)] = np.nan
            known = ~np.isnan(months)
            moments = origin.astype("datetime64[M]") + np.where(known, months, 0).astype(np.int64)
            moments = moments.astype("datetime64[s]")
        else:
            seconds = np.floor(numbers * dates.seconds)
            if not dates.has_time:
                seconds = np.floor(seconds / DAY) * DAY
            known = np.abs(seconds) < 10_000 * 366 * DAY
            moments = origin + np.where(known, seconds, 0).astype(np.int64)
    moments = moments.astype("datetime64[s]")
    known &= (moments >= first) & (moments <= last)
    found: NDArray[np.datetime64] = np.where(known, moments, np.datetime64("NaT", "s")).astype("datetime64[us]")
    return found
