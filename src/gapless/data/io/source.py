"""Read files and foreign frames as polars frames, some rows at a time. All data enter through this module.

Text files stay text: nothing is inferred. Frames keep their types, and Python objects become text. A file is read in
parts, and one part is held at a time. The error is the same as if the file had been read at once: bytes that cannot be
read or decoded come first, wherever they are. No error quotes a cell: the header, the types and the file's name are
public, the rest is not.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
import glob
import os
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import polars as pl

from gapless.data.io.address import ACCEPTED, is_connection_string, is_database, is_url, may_hold_password
from gapless.data.io.spreadsheets import FIRST_SHEET, FormulaEscapes, SheetLayout, read_sheet
from gapless.data.io.stat_files import STAT_ENDINGS, stat_frames
from gapless.data.io.text_files import TEXT_ENDINGS, check_header, separator_of, text_frames, text_layout
from gapless.errors import Argument, GaplessError, Hint, ReadError
from gapless.schema import Schema
from gapless.schema.gap_codes import as_text
from gapless.text import listing

P = ParamSpec("P")
R = TypeVar("R")

PARQUET_ENDINGS = (".parquet", ".pq")
EXCEL_ENDINGS = (".xlsx",)
ENDINGS = (*TEXT_ENDINGS, *PARQUET_ENDINGS, *EXCEL_ENDINGS, *STAT_ENDINGS)

PART_ROWS = 1 << 17  # of a Parquet file

_NOTHING = ("none", "nan", "snan", "-nan", "nat", "<na>")  # texts of missing values in Python, numpy and pandas

_PLAIN = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date, pl.Datetime, pl.Null)


def redact_cells(function: Callable[P, R]) -> Callable[P, R]:
    """Make every unexpected error of a function, also a panic of polars, a ReadError that quotes no cell."""

    @wraps(function)
    def redacted(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (GaplessError, MemoryError):
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001 its text may quote cells
            kind = type(error).__name__
        # Raised outside of the handler, so that the new error does not carry the old one.
        hint = (
            "write all columns as text, numbers, booleans or dates; if it still fails, report the types that they had"
        )
        raise ReadError(f"the data have a column of a type that cannot be read ({kind})", hint=hint)

    return redacted


def read_parts(
    data: Any,
    schema: Schema | None = None,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    sheet: SheetLayout | None = None,
    for_holder: bool = False,
) -> Iterator[pl.DataFrame]:
    """The rows of a file or frame, some at a time, at least one part. With `for_holder` an error may name the line.

    A text file is UTF-8 with commas, or tabs in .tsv, unless the schema or an argument states otherwise. Formulas that
    were escaped when it was written (`FormulaEscapes`) are restored.
    The caller must be decorated with `redact_cells`, and raise errors about cells after the last part.
    """
    frames: Iterable[pl.DataFrame]
    if isinstance(data, str | Path):
        layout = FileLayout.of(schema, encoding=encoding, separator=separator, sheet=sheet)
        frames = chain.from_iterable(layout.frames(path, for_holder=for_holder) for path in find_files(data))
    else:
        frames = [_load_frame(data)]
    for frame in frames:
        if frame.width == 0:
            raise ReadError("the data have no columns", hint="pass a table with a header and rows")
        yield pl.DataFrame({series.name: clip_dates(series) for series in frame})  # by name, which may be empty


@redact_cells
def load_frame(data: Any, schema: Schema, *, encoding: str | None = None, for_holder: bool = False) -> pl.DataFrame:
    """All of a file's or frame's rows and columns."""
    return pl.concat(read_parts(data, schema, encoding=encoding, for_holder=for_holder))


def is_plain(series: pl.Series) -> bool:
    """Whether its cells are texts, numbers, booleans, dates or datetimes."""
    dtype = series.dtype
    return dtype.is_numeric() or dtype.base_type() in _PLAIN


def clip_dates(series: pl.Series) -> pl.Series:
    """Clip dates to the years 0 to 10000.

    Bounds are dates from year 1 to 9999, so a clipped date is still outside. polars panics when it writes some dates
    beyond. Nanoseconds do not reach that far, but their least number is no date in numpy.
    """
    if series.dtype.base_type() not in (pl.Date, pl.Datetime):
        return series
    unit: Any = getattr(series.dtype, "time_unit", "D")
    ends = ("0000-01-01", "10000-12-31") if unit != "ns" else (1 - 2**63, 2**63 - 1)
    first, last = (int(np.datetime64(end, unit).astype(np.int64)) for end in ends)
    return series.to_physical().clip(first, last).cast(series.dtype)


def split_pattern(data: str | Path) -> tuple[Path, str]:
    """Split a path into its literal part and the pattern that follows it, "" if there is none.

    A name that exists is literal: the file `people[1].csv`, and the folder of `rel[1]/*.csv`.
    """
    literal, parts = Path(), Path(data).parts
    for place, part in enumerate(parts):
        if glob.has_magic(part) and not os.path.lexists(literal / part):
            return literal, str(Path(*parts[place:]))
        literal /= part
    return literal, ""


def is_pattern(data: Any) -> bool:
    """Whether this is a pattern of files, as in `big/*.parquet`, and not a file itself."""
    return isinstance(data, str | Path) and not is_database(data) and split_pattern(data)[1] != ""


def find_files(data: str | Path) -> list[Path]:
    """The files that a path or a pattern names, sorted, each file once.

    Of several names and links of one file the first is kept. Otherwise one person's row would be counted several times.
    """
    found: dict[Hashable, Path] = {}
    for path in find_paths(data):
        found.setdefault(file_identity(path), path)
    return list(found.values())


def find_paths(data: str | Path) -> list[Path]:
    """All paths that match a path or a pattern, sorted. One file may have several."""
    if not is_pattern(data):
        return [Path(data)]
    folder, pattern = split_pattern(data)
    found = sorted(_matches(folder, Path(pattern).parts))
    if not found:
        raise _nothing_at(data, f"no file matches {data}", "check the pattern")
    return found


def _matches(folder: Path, parts: Sequence[str]) -> list[Path]:
    """All paths below a folder that match the parts of a pattern, by the rules of `glob`. A path may come twice."""
    found = [folder]
    for part in parts:
        if part == "**":
            found = _folders_below(found)
        elif glob.has_magic(part):
            found = [parent / name for parent in found for name in fnmatch.filter(_names_in(parent, part), part)]
        else:
            found = [parent / part for parent in found if os.path.lexists(parent / part)]
    return found


def _folders_below(folders: Iterable[Path]) -> list[Path]:
    """These folders and all below them, each once. Links may form a circle."""
    found: dict[Hashable, Path] = {}
    waiting = list(folders)
    for folder in waiting:  # the list grows meanwhile
        if folder.is_dir() and (identity := file_identity(folder)) not in found:
            found[identity] = folder
            waiting += [folder / name for name in _names_in(folder, "**")]
    return list(found.values())


def _names_in(folder: Path, part: str) -> list[str]:
    """The names in a folder that this part of a pattern may match; hidden ones only if it begins with a point."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError:  # a file, or a folder that may not be listed
        return []
    return [name for name in names if part.startswith(".") or not name.startswith(".")]


def file_identity(path: Path) -> Hashable:
    """The device and inode of a file, which all its names and links share."""
    try:
        found = path.stat()
    except OSError:  # a broken link: reading it raises the error
        return path
    return (found.st_dev, found.st_ino) if found.st_ino else path.resolve()  # some file systems have no inodes


def check_exists(path: Path) -> None:
    """Refuse a path or a pattern at which there is no file."""
    if is_database(path):  # its URL may have a password
        hint = "pass a file; `gapless synth` and `gapless ask` read databases"
        raise ReadError("a database is not read here, only files are", hint=hint)
    if is_pattern(path):
        find_files(path)
        return
    if not exists(path):
        raise _nothing_at(path, f"no file {path}", "check the path")
    if path.is_dir():
        raise ReadError(f"{path} is a folder", hint=f"pass a file, or a pattern of several files: {path}/*.parquet")


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder. `Path.exists` would raise for a name that is too long, and show it."""
    return os.path.exists(path)  # noqa: PTH110 see above


def _nothing_at(data: str | Path, what: str, hint: str) -> ReadError:
    """The error for a path without a file. A text that may hold a password is not shown."""
    if is_url(data):
        hint = f"copy the data to this machine and pass the file; for a database, pass {ACCEPTED}"
        return ReadError("a URL is not read, unless it is that of a database", hint=hint)
    if is_connection_string(data):
        wrong = "a connection string is not read, and no file has this name"
        return ReadError(wrong, hint=f"write it as a URL: {ACCEPTED}")
    if may_hold_password(data):
        return ReadError("no file has this name, which is not shown: it may hold a password", hint=hint)
    return ReadError(what, hint=hint)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How files of a table are read, by the schema and the arguments of the caller.

    Attributes:
        schema: the public description of the table, if it is known.
        encoding: of texts; None for UTF-8, and for the one that a file of SPSS, Stata or SAS states.
        separator: of text files; None for a comma.
        sheet: which cells of an Excel file are the table.
    """

    schema: Schema | None
    encoding: str | None
    separator: str | None
    sheet: SheetLayout

    @classmethod
    def of(
        cls,
        schema: Schema | None,
        *,
        encoding: str | None = None,
        separator: str | None = None,
        sheet: SheetLayout | None = None,
    ) -> FileLayout:
        """The layout of a schema, with the arguments first."""
        if schema is None:
            return cls(None, encoding, separator, sheet or FIRST_SHEET)
        declared = SheetLayout(schema.sheet, schema.header_row, schema.skip_rows)
        return cls(schema, encoding or schema.encoding, separator or schema.separator, sheet or declared)

    def frames(
        self, path: Path, columns: Sequence[str] | None = None, *, for_holder: bool = False
    ) -> Iterator[pl.DataFrame]:
        """The rows of a file, some at a time, at least one frame. Where it saves time, only these columns are read."""
        name = path.name.lower()
        check_exists(path)
        formulas = None if self.schema is None else FormulaEscapes(self.schema)
        with file_errors(path):
            if name.endswith(PARQUET_ENDINGS):
                yield from parquet_frames(path, columns)
            elif name.endswith(TEXT_ENDINGS):
                separator = separator_of(path, self.separator)
                found = text_frames(path, self.encoding or "utf-8", separator, for_holder=for_holder)
                yield from found if formulas is None else map(formulas.unescape, found)
            elif name.endswith(STAT_ENDINGS):
                yield from stat_frames(path, self.schema, self.encoding, columns)
            elif name.endswith(EXCEL_ENDINGS):
                rows = _sheet(path, self.sheet, for_holder=for_holder)
                yield rows if formulas is None else formulas.unescape(rows)
            else:
                known = listing(TEXT_ENDINGS)
                others = listing((*PARQUET_ENDINGS[:1], *EXCEL_ENDINGS, *STAT_ENDINGS))
                hint = Hint(f"use one of: {known}, {others}") | Hint("pass a data frame as ", Argument("data"))
                raise ReadError(f"{path} has an unknown ending, so its format is not known", hint=hint)

    def header(self, path: Path) -> pl.DataFrame:
        """The columns of a file without rows."""
        if path.name.lower().endswith(PARQUET_ENDINGS):
            with file_errors(path):
                return scan_parquet(path).head(0).collect()
        return next(self.frames(path)).head(0)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Make errors of the file system, of decompression and of Parquet a ReadError."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "the file is cut off or damaged"
        denied = isinstance(error, PermissionError)
        hint = "ask its owner for permission to read it" if denied else "copy or export the file again"
        raise ReadError(f"cannot read {path}: {why}", hint=hint) from None
    except pl.exceptions.PolarsError:  # its text may quote cells
        hint = "copy or export the file again, or export it as CSV"
        raise ReadError(f"{path} is not a valid Parquet file", hint=hint) from None


def scan_parquet(path: Path) -> pl.LazyFrame:
    """Scan one Parquet file by its literal name.

    By default polars would expand `*`, `?`, `[` and a leading `~`, and make columns of folders called `year=2024`.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ReadError(f"the name {str(path)!a} is not valid Unicode", hint="rename the file") from None
    return pl.scan_parquet(path.absolute(), glob=False, hive_partitioning=False)


def parquet_frames(path: Path, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file, some at a time, with these columns or all. One row group is held at a time."""
    scan = scan_parquet(path) if columns is None else scan_parquet(path).select(columns)
    yield scan.head(0).collect()  # the columns, even if there is no row
    yield from scan.collect_batches(chunk_size=PART_ROWS, maintain_order=True)


def _sheet(path: Path, layout: SheetLayout, *, for_holder: bool) -> pl.DataFrame:
    """The table in an Excel file as text, without the rows that have no value."""
    header, rows = read_sheet(path, layout)
    if not header:
        raise ReadError(f"{path} is empty", hint="write a header line into the sheet")
    if layout.header_row is None and header.count("") > 1:  # a title above the table has a row for itself
        wrong = f"{path} has columns without a name in its first row with a value"
        raise ReadError(wrong, hint="write header_row = 3, or the number of the row that has the names")
    check_header(header, path, ",", for_holder=for_holder)
    rows.columns = header
    return rows


def file_layout(data: Any, encoding: str | None) -> tuple[str | None, str | None]:
    """The encoding and the separator of a text file, None for UTF-8 and a comma. For the holder only."""
    if not isinstance(data, str | Path) or not (path := Path(data)).name.lower().endswith(TEXT_ENDINGS):
        return encoding, None
    check_exists(path)
    with suppress(OSError, EOFError, zlib.error):  # reading the file raises the error
        return text_layout(path, encoding)
    return encoding, None


def _load_frame(data: Any) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    if isinstance(data, pl.LazyFrame):
        try:
            return data.collect()
        except pl.exceptions.PolarsError:  # its text may quote cells
            raise ReadError("this LazyFrame cannot be computed", hint="call collect on it to see why") from None
    import narwhals as nw  # noqa: PLC0415 only foreign frames need it

    try:
        native = nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise ReadError("two columns have the same name", hint="give each column a different name") from None
    except TypeError:
        hint = "pass a path, or a pandas, polars or Arrow table"
        raise ReadError(f"cannot read a {type(data).__name__}", hint=hint) from None
    columns = {str(name): _load_column(native.get_column(name)) for name in native.columns}
    if odd := [name for name, column in columns.items() if column is None]:
        wrong = f"column {odd[0]!r} of this {type(data).__name__} holds a type that is not read"
        raise ReadError(wrong, hint="write the column as text, numbers, booleans, dates or datetimes")
    return pl.DataFrame(columns)


def _load_column(column: Any) -> pl.Series | None:
    """A column of a foreign frame as a polars series; None if its type, which is public, is unknown.

    No cell decides how the others are read: each cell of a column of Python objects becomes text by itself.
    """
    import narwhals as nw  # noqa: PLC0415 only foreign frames need it

    if column.dtype != nw.Object:
        try:
            return _unicode(pl.Series(column.to_polars()))
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 its text may quote cells
            if column.dtype != nw.String:
                return None
    return pl.Series([_text(cell) for cell in column.to_list()], dtype=pl.String)


def _text(cell: object) -> str | None:
    """A Python object as the text of a cell in a file; None for a missing value."""
    text = cell.isoformat() if isinstance(cell, dt.date) else as_text(cell)
    if not isinstance(cell, str) and text.lower() in _NOTHING:
        return None
    return text.encode(errors="replace").decode()


def _unicode(series: pl.Series) -> pl.Series:
    """The same texts; bytes of a broken array that are not valid UTF-8 become replacement characters."""
    if series.dtype.base_type() not in (pl.String, pl.Categorical):
        return series
    raw = series.cast(pl.String).cast(pl.Binary)
    try:
        raw.cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series([None if cell is None else cell.decode(errors="replace") for cell in raw], dtype=pl.String)
    return series
