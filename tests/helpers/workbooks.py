"""Excel files for tests: the least that is one, and what hostile or careless programs make of it."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SHEET = "xl/worksheets/sheet1.xml"
STRINGS = "xl/sharedStrings.xml"
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" '
    'ContentType="application/xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" Type="{RELATIONS}'
    '/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets><sheet name="t" sheetId="1" '
    'r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2" '
    f'Type="{RELATIONS}/styles" Target="styles.xml"/><Relationship Id="r3" '
    f'Type="{RELATIONS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
    "xl/styles.xml": f'<styleSheet xmlns="{MAIN}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    "</styleSheet>",
}
FORMATTED = object()  # a cell with a format and nothing in it


def cell(place: int, line: int, value: object, *, day: int | None = None) -> str:
    """One cell as XML; nothing for None."""
    at = f'r="{chr(65 + place)}{line}"'
    if value is FORMATTED:
        return f'<c {at} s="1"/>'
    if isinstance(value, str):
        text = value.replace("&", "&amp;").replace("<", "&lt;")
        return f'<c {at} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
    if isinstance(value, bool):
        return f'<c {at} t="b"><v>{value:d}</v></c>'
    return "" if value is None else f'<c {at} s="{place == day:d}"><v>{value}</v></c>'


def row(line: int, values: Iterable[object], *, day: int | None = None) -> str:
    """One row as XML."""
    return f'<row r="{line}">{"".join(cell(place, line, value, day=day) for place, value in enumerate(values))}</row>'


def pack(path: Path, rows: str, **parts: str) -> None:
    """An Excel file whose first sheet has these rows of XML; other parts by their names."""
    sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in (PARTS | {SHEET: sheet} | parts).items():
            file.writestr(name, text)


def workbook(path: Path, rows: Iterable[Iterable[object]], *, day: int | None = None) -> None:
    """An Excel file of one sheet, texts in their cells; numbers of the column `day` are days."""
    pack(path, "".join(row(line, values, day=day) for line, values in enumerate(rows, start=1)))
