"""Spreadsheets: escape formulas in text files, and check the size of Excel files before they are read.

A text that a spreadsheet would run as a formula is written with an apostrophe before it, and read without it. A
spreadsheet computes a cell of a CSV file that begins with `=`, `+`, `-`, `@`, a tab or a carriage return, unless it is
a number or a single character. The schema declares all texts that a table can hold: names of columns, levels,
spellings, missing codes. So the schema alone decides which texts are escaped, and how they are read back. No escaped
text equals a declared one: apostrophes are added until it differs from all of them.

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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.parsers import expat

import polars as pl

from gapless.errors import ReadError, requires_extra
from gapless.schema import Schema
from gapless.schema.calendar import Date, DateTime
from gapless.schema.columns import Column, LevelColumn
from gapless.schema.toml import quoted
from gapless.text import listing

STARTS = r"=+\-@\t\r"
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9., ']*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute this text: it begins like a formula, has more characters, and is no number.

    >>> [is_formula(text) for text in ("=1+1", "- none", "-8", "-", "'=1+1")]
    [True, True, False, False, False]
    """
    return re.match(f"[{STARTS}].", text, re.DOTALL) is not None and _NUMBER.fullmatch(text) is None


def escapes(declared: Iterable[str]) -> dict[str, str]:
    """The escaped form of each declared text that looks like a formula. It differs from all declared texts.

    >>> escapes(["=a", "b"]), escapes(["=a", "'=a"])
    ({'=a': "'=a"}, {'=a': "''=a"})
    """
    taken, written = set(declared), {}
    for text in sorted(filter(is_formula, taken)):
        escaped = f"'{text}"
        while escaped in taken:
            escaped = f"'{escaped}"
        taken.add(escaped)
        written[text] = escaped
    return written


class FormulaEscapes:
    """The names and cells of a table that text files write in an escaped form.

    Attributes:
        names: the escaped names of columns.
        cells: the escaped cells, by the name of their column.
        dates: columns of dates whose format begins like a formula. Their cells are too many to list.
    """

    def __init__(self, schema: Schema) -> None:
        escaped = schema.escape_formulas
        columns = schema.file_columns if escaped else ()
        self.names = escapes([*schema.file_names, *schema.person, *schema.ignore] if escaped else [])
        cells = {column.name: escapes(declared_texts(column)) for column in columns}
        self.cells = {name: texts for name, texts in cells.items() if texts}
        self.dates = [c.name for c in columns if isinstance(c, Date | DateTime) and is_formula(c.format or "")]

    def escape(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Escape the names and cells of a frame for a text file."""
        frame = _replaced(frame, self.cells)
        frame = _prefixed(frame, self.dates, f"^([{STARTS}])", "'$1")
        return frame.rename({name: written for name, written in self.names.items() if name in frame.columns})

    def unescape(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Undo `escape` for a frame of texts from a file."""
        header = {written: name for name, written in self.names.items() if name not in frame.columns}
        frame = frame.rename({written: name for written, name in header.items() if written in frame.columns})
        back = {column: {written: text for text, written in texts.items()} for column, texts in self.cells.items()}
        return _prefixed(_replaced(frame, back), self.dates, f"^'([{STARTS}])", "$1")


def declared_texts(column: Column) -> list[str]:
    """All texts that cells of a column can have, except numbers and dates."""
    levels = column.cells[: column.values_size] if isinstance(column, LevelColumn) else ()
    codes = [code.code for code in column.missing_codes]
    spelling = getattr(column, "spelling", None) or ()
    return [text for text in (*levels, *spelling, *codes, column.not_applicable) if text]


def _replaced(frame: pl.DataFrame, texts: Mapping[str, Mapping[str, str]]) -> pl.DataFrame:
    return frame.with_columns(
        frame[name].cast(pl.String).replace(list(pairs), list(pairs.values()))
        for name, pairs in texts.items()
        if name in frame.columns
    )


def _prefixed(frame: pl.DataFrame, names: Iterable[str], pattern: str, by: str) -> pl.DataFrame:
    return frame.with_columns(frame[name].str.replace(pattern, by) for name in names if name in frame.columns)


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


@dataclass(frozen=True, slots=True)
class SheetLayout:
    """Which cells of an Excel file are the table.

    Attributes:
        sheet: the name of the sheet, or its number from 1 on; None for the first.
        header_row: the number of the row with the names, as the spreadsheet shows it; None for the first that has a
            value.
        skip_rows: how many rows below the names are no rows of the table, such as one with units.
    """

    sheet: str | int | None = None
    header_row: int | None = None
    skip_rows: int = 0


FIRST_SHEET = SheetLayout()


def read_sheet(path: Path, layout: SheetLayout = FIRST_SHEET) -> tuple[list[str], pl.DataFrame]:
    """Read the names of the columns, and the rows that have a value. Cells become text, dates as in ISO 8601.

    Every row without a value is dropped. A sheet ends with its last value. If empty rows were kept, one person's value
    would decide how many of them there are.
    """
    frame = _all_cells(path, layout.sheet)
    has_value = frame.select(pl.any_horizontal(pl.all().str.strip_chars() != "").fill_null(False)).to_series()
    if not has_value.any():
        return [], frame
    if layout.header_row is not None and not (layout.header_row <= frame.height and has_value[layout.header_row - 1]):
        wrong = f"{path} has no names in row {layout.header_row} of this sheet, which is declared as header_row"
        raise ReadError(wrong, hint="write header_row = 1, or the number of the row that has the names")
    place = int(has_value.arg_max() or 0) if layout.header_row is None else layout.header_row - 1
    header = [(name or "").strip() for name in frame.row(place)]
    first = place + 1 + layout.skip_rows
    rows = frame[first:].filter(has_value[first:])
    if layout.header_row is not None:  # a title above the table may be wider than the table
        kept = [place for place, name in enumerate(header) if name or _has_cell(rows[:, place])]
        header, rows = [header[place] for place in kept], rows[:, kept]
    return header, rows


def _has_cell(series: pl.Series) -> bool:
    return bool((series.str.strip_chars() != "").any())


def _all_cells(path: Path, name: str | int | None) -> pl.DataFrame:
    """All cells of a sheet as text, from its first row on."""
    with requires_extra("fastexcel", "excel", ", or save the table as CSV"):
        import fastexcel  # noqa: PLC0415 an extra
    sheets: list[str] = []
    try:
        book = fastexcel.read_excel(_measured(path))
        sheets = list(book.sheet_names)
        chosen = name if isinstance(name, str) else 0 if name is None else name - 1
        known = chosen in sheets if isinstance(chosen, str) else chosen < len(sheets)
        sheet = book.load_sheet(chosen, header_row=None, skip_rows=0, dtypes="string") if known else None
        frame = None if sheet is None else pl.DataFrame(sheet)
    except BaseException as error:
        # The class of a panic of fastexcel is in no module. The text of either error may quote cells.
        broken = isinstance(error, (fastexcel.FastExcelError, *_BROKEN)) or type(error).__name__ == "PanicException"
        if not broken:
            raise
        frame, known = None, True
    if not known:
        raise ReadError(
            f"{path} has no sheet {name!r}; it has {listing(map(repr, sheets))}",
            hint=f"write sheet = {quoted(sheets[0])} below [table] in the schema" if sheets else "add a sheet",
        )
    if frame is None:
        raise ReadError(f"{path} is not a valid Excel file", hint="save the table again as .xlsx, or save it as CSV")
    return frame


def _measured(path: Path) -> bytes:
    """A new archive of the XML parts that the reader needs, all of them within the limits."""
    copy, left = io.BytesIO(), MOST_BYTES
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as measured:
        for name, packed in {packed.filename: packed for packed in archive.infolist()}.items():
            if not name.lower().endswith((".xml", ".rels")):
                continue
            root, attributes = _root(_unpacked(archive, packed, _START))
            if root not in _ROOTS:
                continue
            if packed.file_size > left:
                raise ReadError(f"{path} unpacks to more than {MOST_BYTES:,} bytes", hint="save the table as CSV")
            part = _unpacked(archive, packed, left)
            if _texts_in(part, root, attributes) > MOST_CELLS:
                raise ReadError(f"{path} has more than {MOST_CELLS:,} texts", hint="save the table as CSV")
            rows, columns = _extent(part)
            if rows * columns > MOST_CELLS:
                wrong = f"{path} has a sheet of more than {MOST_CELLS:,} cells from A1 to its last row and column"
                hint = "remove all rows and columns beyond the table, also empty ones, or save the table as CSV"
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
