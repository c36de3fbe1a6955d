"""Spreadsheets: escape formulas in text files, and find the table in Excel files.

A text that a spreadsheet would run as a formula is written with an apostrophe before it, and read without it. A
spreadsheet computes a cell of a CSV file that begins with `=`, `+`, `-`, `@`, a tab or a carriage return, unless it is
a number or a single character. The schema declares all texts that a table can hold: names of columns, levels,
spellings, missing codes. So the schema alone decides which texts are escaped, and how they are read back. No escaped
text equals a declared one: apostrophes are added until it differs from all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gapless.errors import ReadError
from gapless.schema import Schema
from gapless.schema.calendar import Date, DateTime
from gapless.schema.columns import Column, LevelColumn
from gapless.schema.toml import quoted
from gapless.text import listing
from gapless.types import is_whole
from gapless.workbooks import read_cells

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

    def choose(sheets: Sequence[str]) -> int:
        chosen = sheets.index(name) if name in sheets else 0 if name is None else name - 1 if is_whole(name) else -1
        if 0 <= chosen < len(sheets):
            return chosen
        raise ReadError(
            f"{path} has no sheet {name!r}; it has {listing(map(repr, sheets))}",
            hint=f"write sheet = {quoted(sheets[0])} below [table] in the schema" if sheets else "add a sheet",
        )

    return read_cells(path, choose)
