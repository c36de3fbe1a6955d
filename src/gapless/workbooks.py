"""Read the cells of Excel files, which may come from a stranger.

An .xlsx file is a zip of XML parts. A small one can unpack to terabytes, or have a single cell in the last row of the
last column, for which the reader would allocate the whole rectangle. So the parts are unpacked and measured here, up to
public limits. The reader gets a new archive of the measured parts and nothing else. Sizes and dimensions that a file
declares may be false, and are not used.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from xml.parsers import expat

import polars as pl

from gapless.errors import ReadError, requires_extra

MOST_BYTES = 1 << 30  # of all XML parts, unpacked
MOST_CELLS = 1 << 26  # from A1 to the last row and column: 64 columns of the most rows that a sheet can have

_WINDOW = 1 << 20  # bytes that are searched at once
_START = 1 << 16  # bytes that must contain the first element of a part
_ROOTS = ("Types", "Relationships", "workbook", "styleSheet", "sst", "worksheet")  # of parts that the reader needs
_COLUMNS = re.compile(rb'<c r="([A-Z]{1,3})[0-9]{1,7}"')  # of cells as Excel writes them
_ROWS = re.compile(rb'<c r="[A-Z]{1,3}([0-9]{1,7})"')
_CELLS = [
    re.compile(rb"<c[\s/>]"),
    re.compile(rb":c[\s/>]"),
]  # all cells, with a namespace or without; two patterns are faster than one
_TEXT_TABLES = re.compile(rb"""<(?:[^\s<>/"'=]+:)?sst[\s/>]""")
_PLACE = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")
_BROKEN = (zipfile.BadZipFile, zlib.error, expat.ExpatError, struct.error, EOFError, RuntimeError, ValueError)


def read_cells(
    path: Path,
    choose: Callable[[Sequence[str]], int],
    *,
    most_bytes: int | None = None,
    most_cells: int | None = None,
    what: str = "table",
) -> pl.DataFrame:
    """All cells of a sheet as text, from its first row on.

    Args:
        path: the file.
        choose: the place of the sheet to read, by the names of all.
        most_bytes: the most bytes of all XML parts, unpacked; by default `MOST_BYTES`.
        most_cells: the most cells from A1 to the last row and column; by default `MOST_CELLS`.
        what: what the file holds, for errors.
    """
    with requires_extra("fastexcel", "excel", f", or save the {what} as CSV"):
        import fastexcel  # noqa: PLC0415 an extra
    try:
        book = fastexcel.read_excel(_measured(path, most_bytes or MOST_BYTES, most_cells or MOST_CELLS, what))
        sheet = book.load_sheet(choose(list(book.sheet_names)), header_row=None, skip_rows=0, dtypes="string")
        return pl.DataFrame(sheet)
    except BaseException as error:
        # The class of a panic of fastexcel is in no module. The text of either error may quote cells.
        broken = isinstance(error, (fastexcel.FastExcelError, *_BROKEN)) or type(error).__name__ == "PanicException"
        if not broken:
            raise
    hint = f"save the {what} again as .xlsx, or save it as CSV"
    raise ReadError(f"{path} is not a valid Excel file", hint=hint)


def _measured(path: Path, most_bytes: int, most_cells: int, what: str) -> bytes:
    """A new archive of the XML parts that the reader needs, all of them within the limits."""
    copy, left, hint = io.BytesIO(), most_bytes, f"save the {what} as CSV"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as measured:
        for name, packed in {packed.filename: packed for packed in archive.infolist()}.items():
            if not name.lower().endswith((".xml", ".rels")):
                continue
            root, attributes = _root(_unpacked(archive, packed, _START))
            if root not in _ROOTS:
                continue
            if packed.file_size > left:
                raise ReadError(f"{path} unpacks to more than {most_bytes:,} bytes", hint=hint)
            part = _unpacked(archive, packed, left)
            if _texts_in(part, root, attributes) > most_cells:
                raise ReadError(f"{path} has more than {most_cells:,} texts", hint=hint)
            rows, columns = _extent(part)
            if rows * columns > most_cells:
                wrong = f"{path} has a sheet of more than {most_cells:,} cells from A1 to its last row and column"
                hint = f"remove all rows and columns beyond the {what}, also empty ones, or save the {what} as CSV"
                raise ReadError(wrong, hint=hint)
            measured.writestr(name, part)
            left -= len(part)
    return copy.getvalue()


def _unpacked(archive: zipfile.ZipFile, packed: zipfile.ZipInfo, most: int) -> bytes:
    """The first bytes of a part. Deflate is the only compression that Excel files may have."""
    if packed.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise zipfile.BadZipFile
    with archive.open(packed) as file:
        return file.read(min(most, packed.file_size))  # without a limit all would be unpacked, and then cut


def _root(start: bytes) -> tuple[str, dict[str, str]]:
    """The name and the attributes of the first element of an XML part; "" if there is none."""
    elements: list[tuple[str, dict[str, str]]] = []
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = lambda *element: elements.append(element)
    if b"<!DOCTYPE" not in start:
        with suppress(expat.ExpatError):
            parser.Parse(start, False)
    name, attributes = elements[0] if elements else ("", {})
    return name.rpartition(":")[2], attributes


def _texts_in(part: bytes, root: str, attributes: Mapping[str, str]) -> int:
    """The number of texts that a part has or declares, whichever is more: the reader allocates what is declared."""
    if b"sst" in part and len(_TEXT_TABLES.findall(part)) != (root == "sst"):
        raise ValueError  # the reader would also find a table of texts within another element
    declared = [int(attributes.get(key, "0")) for key in ("count", "uniqueCount")] if root == "sst" else []
    return max(part.count(b"<si") + part.count(b":si"), *declared, 0)


def _extent(part: bytes) -> tuple[int, int]:
    """The last row and the last column in which an XML part has a cell, even one that is only formatted.

    If every cell is written as Excel writes it, regular expressions find all positions. Otherwise the part is parsed.
    """
    if b"<!DOCTYPE" in part or b"\0" in part:  # Excel writes no entities, which can grow, and no UTF-16
        raise ValueError
    columns, rows, start = {b""}, {b"0"}, 0
    while start < len(part):
        end = part.find(b"<c", start + _WINDOW)
        end = len(part) if end < 0 else end
        found = _COLUMNS.findall(part, start, end)
        if len(found) < sum(len(cells.findall(part, start, end)) for cells in _CELLS):
            return _parsed_extent(part)
        columns.update(found)
        rows.update(_ROWS.findall(part, start, end))
        start = end
    return max(map(int, rows)), max(_number(letters.decode()) for letters in columns)


def _parsed_extent(part: bytes) -> tuple[int, int]:
    """The same by parsing. A row or cell without a position follows the one before it."""
    row = column = last_row = last_column = 0

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, last_row, last_column
        kind, place = name.rpartition(":")[2], attributes.get("r")
        if kind == "row":
            row, column = int(place) if place else row + 1, 0
        elif kind == "c":
            at, column = row, column + 1
            if place:
                if (found := _PLACE.fullmatch(place)) is None:
                    raise ValueError
                at, column = int(found[2]), _number(found[1])
            last_row, last_column = max(last_row, at), max(last_column, column)

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = begin
    parser.Parse(part, True)
    return last_row, last_column


def _number(letters: str) -> int:
    """The number of a column: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
