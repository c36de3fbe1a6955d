"""Write a table as an Excel workbook with one sheet.

Numbers and dates are cells of these types, all else is text. Texts that a spreadsheet would run as formulas have an
apostrophe before them, as in text files (`spreadsheets`).
"""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias
from xml.sax.saxutils import escape

import polars as pl

from gapless.data.io.spreadsheets import FormulaEscapes, declared_texts
from gapless.errors import ReadError, SchemaError
from gapless.schema import Schema
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Column, LevelColumn
from gapless.schema.numeric import NumericColumn

CellType: TypeAlias = Literal["number", "date", "datetime", "text"]

SHEET_ENDINGS = (".xlsx",)
ROWS = 1 << 14  # that are held as texts
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS = 1_048_576, 16_384, 32_767  # of a sheet, and of a cell
LEAVE_OUT = "leave this format out"
_ILLEGAL = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_x[0-9A-Fa-f]{4}_")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_SERIAL_ZERO = dt.datetime(1899, 12, 30)  # noqa: DTZ001 without a zone
_FIRST_DATE = dt.datetime(1900, 3, 1)  # noqa: DTZ001 Excel has a 29 February 1900, which no calendar has
_MADE = (1980, 1, 1, 0, 0, 0)  # the time in the archive: no release tells when it was written
_STYLES = {"date": 1, "datetime": 2}

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_SHEET_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_SHEET_TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_SHEET_TYPE}.worksheet+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_SHEET_TYPE}.styles+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
    '<sheet name="synthetic" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><numFmts count="2">'
    '<numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
    '<numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/></numFmts>'
    '<fonts count="1"><font/></fonts><fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills><borders count="1"><border/></borders>'
    '<cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="3"><xf xfId="0"/>'
    '<xf numFmtId="164" xfId="0" applyNumberFormat="1"/><xf numFmtId="165" xfId="0" applyNumberFormat="1"/></cellXfs>'
    "</styleSheet>",
}


def check_sheet(schema: Schema) -> None:
    """Refuse a schema whose table does not fit into a sheet."""
    names = schema.file_names
    if len(names) > MOST_COLUMNS:
        wrong = f"a sheet has at most {MOST_COLUMNS:,} columns, and the table has {len(names):,}"
        raise SchemaError(wrong, hint=LEAVE_OUT)
    for column in schema.file_columns:
        for text in (column.name, *declared_texts(column)):
            if _ILLEGAL.search(text) or len(text) > MOST_LETTERS:
                wrong = f"column {column.name!r} does not fit into an .xlsx file: {text[:40]!r} holds characters "
                wrong += f"that no sheet can hold, or more than {MOST_LETTERS:,}"
                raise SchemaError(wrong, hint=f"write other texts in the data and the schema, or {LEAVE_OUT}")


def write_workbook(frames: Iterator[pl.DataFrame], path: Path, schema: Schema) -> None:
    """Write frames of texts, numbers and dates, one after the other, into one sheet; one of them is held at a time."""
    check_sheet(schema)
    types = {column.name: _type(column) for column in schema.file_columns}
    formulas = FormulaEscapes(schema)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in _PARTS.items():
            archive.writestr(zipfile.ZipInfo(name, _MADE), _XML + part, zipfile.ZIP_DEFLATED)
        place = zipfile.ZipInfo("xl/worksheets/sheet1.xml", _MADE)
        place.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(place, "w", force_zip64=True) as sheet:
            sheet.write(f'{_XML}<worksheet xmlns="{_MAIN}"><sheetData>'.encode())
            row = 1
            for frame in _slices(frames):
                written = formulas.escape(frame)
                if row == 1:
                    sheet.write(_row(row, [_text(name) for name in written.columns]).encode())
                if row + frame.height > MOST_ROWS:
                    wrong = f"the table has more than {MOST_ROWS - 1:,} rows, but a sheet has room for no more"
                    raise ReadError(wrong, hint=f"ask for fewer rows, or {LEAVE_OUT}; what was paid for is kept")
                columns = [
                    _cells(series, types.get(name, "number"))
                    for name, series in zip(frame.columns, written, strict=True)
                ]
                sheet.writelines(_row(row + n, cells).encode() for n, cells in enumerate(zip(*columns, strict=True), 1))
                row += frame.height
            sheet.write(b"</sheetData></worksheet>")


def _slices(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The same rows in smaller frames, at least one: their cells become texts before they are written."""
    for frame in frames:
        yield from frame.iter_slices(ROWS) if frame.height else [frame]


def _type(column: Column) -> CellType:
    """The type of the cells of a column that have a value."""
    if isinstance(column, NumericColumn):
        return "number" if column.written_plainly else "text"
    if isinstance(column, CalendarColumn) and column.format is None:
        return "date" if column.kind == "date" else "datetime"
    numbers = isinstance(column, LevelColumn) and all(isinstance(level, int | float) for level in column.levels)
    return "number" if numbers and column.kind != "boolean" else "text"


def _cells(series: pl.Series, kind: CellType) -> list[str]:
    """The cells of a column as XML, an empty one as an empty text."""
    if kind in ("date", "datetime"):
        moments = (
            series.cast(pl.String)
            .str.slice(0, 19)
            .str.to_datetime("%Y-%m-%d" if kind == "date" else "%Y-%m-%d %H:%M:%S", strict=False)
        )
        texts = series.cast(pl.String).str.replace(r"\.0+$", "")
        return [_dated(moment, text, kind) for moment, text in zip(moments, texts, strict=True)]
    texts = series.cast(pl.String)
    if kind == "number":
        return [_numbered(text) for text in texts]
    return [_text(text) for text in texts]


def _dated(moment: dt.datetime | None, text: str | None, kind: str) -> str:
    if moment is None or moment < _FIRST_DATE:
        return _text(text)
    days = (moment - _SERIAL_ZERO) / dt.timedelta(days=1)
    return f' s="{_STYLES[kind]}"><v>{days!r}</v></c>' if days % 1 else f' s="{_STYLES[kind]}"><v>{days:.0f}</v></c>'


def _numbered(text: str | None) -> str:
    """A number, or a missing code among numbers; a number of more digits than Excel keeps is text."""
    if text is not None and _NUMBER.fullmatch(text):
        return f"><v>{text}</v></c>"
    return _text(text)


def _text(text: str | None) -> str:
    if not text:
        return ""
    return f' t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'


def _row(number: int, cells: Any) -> str:
    found = "".join(f'<c r="{_letters(place)}{number}"{cell}' for place, cell in enumerate(cells) if cell)
    return f'<row r="{number}">{found}</row>'


_KNOWN: list[str] = []


def _letters(place: int) -> str:
    """The letters of a column, from 0 on.

    >>> _letters(0), _letters(27)
    ('A', 'AB')
    """
    while place >= len(_KNOWN):
        number, letters = len(_KNOWN) + 1, ""
        while number:
            number, left = divmod(number - 1, 26)
            letters = chr(ord("A") + left) + letters
        _KNOWN.append(letters)
    return _KNOWN[place]
