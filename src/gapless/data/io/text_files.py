"""Read text files: CSV, TSV and the like, also gzipped, some rows at a time. Every cell is text.

No error quotes a cell: the header and the file's name are public, the rest is not.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BufferedReader
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import polars as pl

from gapless.errors import Argument, Hint, ReadError
from gapless.schema import toml
from gapless.schema.schema import SEPARATORS
from gapless.text import repeated

TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")

PART = 1 << 23  # bytes of a text file
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


def separator_of(path: Path, declared: str | None) -> str:
    """The separator of a text file: a tab in .tsv, else the declared one, else a comma."""
    return "\t" if ".tsv" in path.name.lower() else declared or ","


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
    check_header(header, path, separator, for_holder=for_holder)
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


def text_layout(path: Path, encoding: str | None) -> tuple[str | None, str | None]:
    """The encoding and the separator of a text file, None for UTF-8 and a comma. For the holder only.

    The first bytes decide the encoding. The separator is the first with which the header has several fields and each
    row below it has as many.
    """
    encoding = encoding or wide_encoding(path)
    if separator_of(path, None) != ",":
        return encoding, None
    lines = chain.from_iterable(map(io.StringIO, _blocks(_pieces(path, encoding or "utf-8"), path)))
    return encoding, _separator(list(islice(lines, LINES_FOR_SEPARATOR)))


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
    shown = wide_encoding(path) or ("latin-1" if encoding == "cp1252" else "cp1252")  # cp1252 has € in addition
    return ReadError(f"{path} is not {encoding} text", hint=Hint("pass its encoding: ", Argument("encoding", shown)))


def check_header(header: Sequence[str], path: Path, separator: str, *, for_holder: bool) -> None:
    """Refuse names that are empty or not unique, and a header with another separator than the comma."""
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
