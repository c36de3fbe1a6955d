"""Read files and foreign frames as polars frames, some rows at a time. All data enter through this module.

Text files stay text: nothing is inferred. Frames keep their types, and Python objects become text. A file is read in
parts, and one part is held at a time. The error is the same as if the file had been read at once: bytes that cannot be
read or decoded come first, wherever they are. No error quotes a cell: the header, the types and the file's name are
public, the rest is not.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import fnmatch
import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from io import BufferedReader
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import polars as pl

from gapless.data.io.address import ACCEPTED, is_connection_string, is_database, is_url, may_hold_password
from gapless.data.io.spreadsheets import FormulaEscapes, read_first_sheet
from gapless.errors import Argument, GaplessError, Hint, ReadError
from gapless.schema import Schema, toml
from gapless.schema.gap_codes import as_text
from gapless.schema.schema import SEPARATORS
from gapless.text import listing, repeated

P = ParamSpec("P")
R = TypeVar("R")

TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET_ENDINGS = (".parquet", ".pq")
EXCEL_ENDINGS = (".xlsx",)
ENDINGS = (*TEXT_ENDINGS, *PARQUET_ENDINGS, *EXCEL_ENDINGS)

PART = 1 << 23  # bytes of a text file
PART_ROWS = 1 << 17  # of a Parquet file
LINES_FOR_SEPARATOR = 1000
LONGEST_CELL = 2**31 - 1  # characters: Python's limit would make a long comment in a cell an error
LONGEST_ROW = 1 << 25  # characters, all of which are held at once
# A megabyte of gzip can unpack to a gigabyte. A file that unpacks to more bytes and has a larger ratio is refused.
UNPACKED, TIGHTEST = 1 << 30, 100

_BYTE_ORDER_MARKS = {  # those of UTF-32 first: they begin with one of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

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
    for_holder: bool = False,
) -> Iterator[pl.DataFrame]:
    """The rows of a file or frame, some at a time, at least one part. With `for_holder` an error may name the line.

    A text file is UTF-8 with commas, or tabs in .tsv, unless the schema or an argument states otherwise. Formulas that
    were escaped when it was written (`FormulaEscapes`) are restored.
    The caller must be decorated with `redact_cells`, and raise errors about cells after the last part.
    """
    if schema is not None:
        encoding, separator = encoding or schema.encoding, separator or schema.separator
    frames: Iterable[pl.DataFrame]
    if isinstance(data, str | Path):
        layout = encoding or "utf-8", separator, None if schema is None else FormulaEscapes(schema)
        frames = chain.from_iterable(_file_frames(path, *layout, for_holder=for_holder) for path in find_files(data))
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


def separator_of(path: Path, declared: str | None) -> str:
    """The separator of a text file: a tab in .tsv, else the declared one, else a comma."""
    return "\t" if ".tsv" in path.name.lower() else declared or ","


def _file_frames(
    path: Path, encoding: str, separator: str | None, formulas: FormulaEscapes | None, *, for_holder: bool
) -> Iterator[pl.DataFrame]:
    name = path.name.lower()
    check_exists(path)
    with file_errors(path):
        if name.endswith(PARQUET_ENDINGS):
            yield from parquet_frames(path)
        elif name.endswith(TEXT_ENDINGS):
            found = text_frames(path, encoding, separator_of(path, separator), for_holder=for_holder)
            yield from found if formulas is None else map(formulas.unescape, found)
        elif name.endswith(EXCEL_ENDINGS):
            yield _sheet(path, for_holder=for_holder)
        else:
            known = listing(TEXT_ENDINGS)
            hint = Hint(f"use one of: {known}, .parquet, .xlsx") | Hint("pass a data frame as ", Argument("data"))
            raise ReadError(f"{path} has an unknown ending, so its format is not known", hint=hint)


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


def _sheet(path: Path, *, for_holder: bool) -> pl.DataFrame:
    """The first sheet of an Excel file as text, without the rows that have no value."""
    frame = read_first_sheet(path)
    if frame.height == 0:
        raise ReadError(f"{path} is empty", hint="write a header line into the first sheet")
    header = [(name or "").strip() for name in frame.row(0)]
    _check_header(header, path, ",", for_holder=for_holder)
    frame.columns = header
    return frame[1:]


# ---------------------------------------------------------------------- text


def text_frames(path: Path, encoding: str, separator: str, *, for_holder: bool) -> Iterator[pl.DataFrame]:
    """The rows of a text file, some at a time, all cells as text."""
    pieces = _pieces(path, encoding)
    try:
        yield from _parsed(_blocks(pieces, path), path, separator, for_holder=for_holder)
    except (ReadError, csv.Error):
        for _ in pieces:  # a byte that cannot be read or decoded raises its error first, wherever it is
            pass
        raise


def _parsed(blocks: Iterator[str], path: Path, separator: str, *, for_holder: bool) -> Iterator[pl.DataFrame]:
    """Parse each block as a frame. The header is put before each block, so that all are parsed alike."""
    csv.field_size_limit(LONGEST_CELL)
    first = next(blocks)
    rows = csv.reader(io.StringIO(first), delimiter=separator)
    header = [name.strip() for name in next(rows)]
    _check_header(header, path, separator, for_holder=for_holder)
    head = "".join(islice(io.StringIO(first), rows.line_num))
    before = 0  # lines of earlier blocks
    for block in chain([first[len(head) :]], blocks):
        text = head + block
        try:
            frame = pl.read_csv(text.encode(), infer_schema=False, separator=separator, empty_string_is_null=False)
            frame.columns = header  # polars leaves doubled quotes in names
        except pl.exceptions.PolarsError:  # its text quotes cells
            frame = None
        # polars fills a short row with empty cells: only a block with empty cells in its last column is checked again.
        if frame is None or (frame.columns and (frame[:, -1] == "").any()):
            lines = chain.from_iterable(map(io.StringIO, chain([text], blocks if frame is None else ())))
            rows = csv.reader(lines, delimiter=separator)
            kept = _check_widths(rows, len(header), path, before=before if for_holder else None)
            if frame is None:
                raise _not_csv(path)
            if len(kept) < frame.height:
                frame = frame[kept]
        before += block.count("\n")
        yield frame


def _blocks(pieces: Iterable[str], path: Path) -> Iterator[str]:
    """The same text in blocks of whole lines, cut outside of quotes."""
    held: list[str] = []
    quoted = False  # whether `held` ends within quotes
    for piece, following in pairwise(chain(pieces, [""])):
        if following and (cut := _last_line(piece, quoted=quoted)):  # a text of one piece is one block
            yield "".join((*held, piece[:cut]))
            held, quoted = [piece[cut:]], False
        else:
            held.append(piece)
            _check_length(sum(map(len, held)), path)
        quoted ^= held[-1].count('"') % 2 == 1
    yield "".join(held)


def _last_line(piece: str, *, quoted: bool) -> int:
    """Where the last line begins that starts outside of quotes; 0 if there is none."""
    end = len(piece)
    within_quotes = quoted ^ (piece.count('"') % 2 == 1)  # at `end`
    while end > 0:
        start = piece.rfind('"', 0, end) + 1  # there is no quote from here to `end`
        if not within_quotes and (line := piece.rfind("\n", start, end)) >= 0:
            return line + 1
        end, within_quotes = start - 1, not within_quotes
    return 0


def _pieces(path: Path, encoding: str) -> Iterator[str]:
    """The text from the header on, some characters at a time, with line feeds in place of carriage returns alone."""
    pieces = _stripped(path, encoding)
    first = next(pieces)
    # Files of old Macintoshes end lines with carriage returns. Only if the first piece looks so, all is searched.
    has_old_ends = "\n" not in first and not any("\n" in piece for piece in _stripped(path, encoding))
    for piece in chain([first], pieces):
        yield piece.replace("\r", "\n") if has_old_ends else piece


def _stripped(path: Path, encoding: str) -> Iterator[str]:
    pieces = _decoded(path, encoding)
    first = next(pieces, "").removeprefix("\ufeff").lstrip("\r\n")  # utf-16-le and the like leave the mark at the start
    while not first.strip():
        if not (piece := next(pieces, "")):
            raise ReadError(f"{path} is empty", hint="pass a file with a header line")
        first = (first + piece).lstrip("\r\n")
        _check_length(len(first), path)
    if re.match(r"[^\r\n]*\0", first):  # in the header: UTF-16 that was decoded byte by byte
        raise _not_text(path, encoding)
    yield first
    yield from pieces


def _check_length(letters: int, path: Path) -> None:
    """Refuse to hold more characters than a public limit: a quote that is never closed takes all that follows."""
    if letters > LONGEST_ROW:
        wrong = f"{path} has a row of more than {LONGEST_ROW:,} characters"
        raise ReadError(wrong, hint="close every quote, and end every row with a line break")


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    codec = "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
    with path.open("rb") as file, _unzipped(file) as raw:
        try:
            b"a".decode(codec, "ignore")  # raises for codecs that are not for text
            decoder = codecs.getincrementaldecoder(codec)()
        except LookupError:
            hint = "use utf-8, latin-1, cp1252 or another encoding that Python knows"
            raise ReadError(f"no encoding is called {encoding!r}", hint=hint) from None
        parts = _unpacked(raw, path)
        for part in chain(parts, [b""]):
            try:
                text = decoder.decode(part, final=not part)
            except UnicodeError:
                break
            if text:
                yield text
        else:
            return
        for _ in parts:  # a file that is cut off raises its error first
            pass
    raise _not_text(path, encoding)


def _unpacked(raw: BufferedReader | gzip.GzipFile, path: Path) -> Iterator[bytes]:
    """The bytes of a file, some at a time. Refuses a gzip file that may have been made to fill the memory."""
    most = max(UNPACKED, TIGHTEST * path.stat().st_size)
    read = 0
    while part := raw.read(PART):
        read += len(part)
        if read > most and isinstance(raw, gzip.GzipFile):
            wrong = f"{path} unpacks to more than {UNPACKED:,} bytes and more than {TIGHTEST} times its size"
            raise ReadError(wrong, hint="run `gunzip` on it, and pass the file that it writes")
        yield part


def _unzipped(file: BufferedReader) -> BufferedReader | gzip.GzipFile:
    return gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file


def file_layout(data: Any, encoding: str | None) -> tuple[str | None, str | None]:
    """The encoding and the separator of a text file, None for UTF-8 and a comma. For the holder only.

    The first bytes decide the encoding. The separator is the first with which the header has several fields and each
    row below it has as many.
    """
    if not isinstance(data, str | Path) or not (path := Path(data)).name.lower().endswith(TEXT_ENDINGS):
        return encoding, None
    check_exists(path)
    with suppress(OSError, EOFError, zlib.error):  # reading the file raises the error
        encoding = encoding or wide_encoding(path)
        if separator_of(path, None) == ",":
            lines = chain.from_iterable(map(io.StringIO, _blocks(_pieces(path, encoding or "utf-8"), path)))
            return encoding, _separator(list(islice(lines, LINES_FOR_SEPARATOR)))
    return encoding, None


def _separator(lines: list[str]) -> str | None:
    csv.field_size_limit(LONGEST_CELL)
    for separator in SEPARATORS:
        with suppress(csv.Error):
            rows = list(csv.reader(lines, delimiter=separator))
            whole = rows[:-1] if len(lines) == LINES_FOR_SEPARATOR else rows  # the last row may be cut
            widths = {len(row) for row in whole if row}
            if len(widths) == 1 and widths != {1}:
                return None if separator == "," else separator
    return None


def wide_encoding(path: Path) -> str | None:
    """The encoding of a file in UTF-16 or UTF-32, by its first four bytes; None for other files."""
    with path.open("rb") as file, _unzipped(file) as raw:
        start = raw.read(4)
    unmarked = "utf-16-le" if start[1:2] == b"\0" else "utf-16-be" if start[:1] == b"\0" else None
    return next((name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), unmarked)


def _not_text(path: Path, encoding: str) -> ReadError:
    """The error for a wrong encoding. Its hint follows from the first bytes of the header, never from a cell."""
    shown = wide_encoding(path) or "latin-1"
    return ReadError(f"{path} is not {encoding} text", hint=Hint("pass its encoding: ", Argument("encoding", shown)))


def _check_header(header: Sequence[str], path: Path, separator: str, *, for_holder: bool) -> None:
    if twice := repeated(header):
        # The first line may be a row of data: only the holder may see it.
        called = f"called {twice[0]!r}" if for_holder else "of the same name"
        raise ReadError(f"{path} has two columns {called}", hint="write a header line with different names")
    if not all(header[1:] or header):  # spreadsheets leave the first column unnamed if it numbers the rows
        raise ReadError(f"{path} has a column without a name", hint="name it in the header line, or delete the column")
    if len(header) == 1 and separator == "," and (found := [other for other in ";\t" if other in header[0]]):
        hint = f"write separator = {toml.quoted(found[0])} below [table] in the schema"
        raise ReadError(f"{path} is not separated by commas", hint=hint)


def _check_widths(rows: Any, width: int, path: Path, *, before: int | None) -> list[int]:
    """The positions of the rows below the header that are not blank lines. A row of another width is an error.

    `before` is the number of lines before these. It is given if the error may name the line.
    """
    next(rows)
    kept: list[int] = []
    try:
        for place, row in enumerate(rows):
            if len(row) == width or (width == 1 and not row):
                kept.append(place)
            elif width == 1 or len(row) > 1 or "".join(row).strip():
                where = "a row" if before is None else f"line {before + rows.line_num}"
                hint = "put a cell that holds the separator in quotes" + "; `gapless check` names the line" * (
                    before is None
                )
                raise ReadError(f"{path}: {where} has more or fewer fields than the header", hint=hint)
    except csv.Error:
        raise _not_csv(path) from None
    return kept


def _not_csv(path: Path) -> ReadError:
    hint = 'put a cell that holds a quote or a line break in quotes, and double the quote: "5"" pipe"'
    return ReadError(f"{path} is not a valid CSV file", hint=hint)


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
