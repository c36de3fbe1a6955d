"""Codebooks that are tables themselves: rows with a column, a code and a label, or a REDCap data dictionary."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gapless.errors import SchemaError
from gapless.files import MEGABYTE
from gapless.schema.codebooks.codebook_file import check_file, read_bytes
from gapless.schema.codebooks.entries import Contents, Entry, EntryType, check_codes, check_size, error, number_of
from gapless.schema.codebooks.json_codebooks import choose
from gapless.schema.codebooks.redcap import is_redcap, read_redcap
from gapless.schema.gap_codes import GAP_KINDS, STRUCTURAL_KINDS, MissingCode, as_text
from gapless.schema.gap_words import gap_kind
from gapless.text import listing, shortened

MOST_BYTES = 64 * MEGABYTE  # of a text
MOST_UNPACKED, MOST_CELLS = 256 * MEGABYTE, 1 << 23  # of a workbook
MOST_ROWS = 2_000_000
MOST_CELL = 1 << 20  # characters: the choices of a question with 10,000 answers
# The headers that name each part, in lower case.
_HEADERS: dict[str, tuple[str, ...]] = {
    "column": (
        "column",
        "variable",
        "variable name",
        "variable_name",
        "name",
        "field",
        "field name",
        "field_name",
        "var",
    ),
    "code": ("code", "value", "values", "codes", "level", "response code", "option"),
    "label": (
        "label",
        "value label",
        "value_label",
        "meaning",
        "code label",
        "category",
        "answer",
        "response",
        "labels",
    ),
    "about": ("description", "question", "variable label", "variable_label", "question text", "text", "title"),
    "kind": ("missing", "kind", "is missing", "missing kind"),
    "type": ("type", "data type", "datatype", "format"),
    "low": ("min", "minimum", "lowest", "low", "from"),
    "high": ("max", "maximum", "highest", "high", "to"),
}
_TYPES: dict[str, EntryType] = {
    **dict.fromkeys(("integer", "int", "whole number", "count"), "integer"),
    **dict.fromkeys(("number", "numeric", "float", "double", "decimal", "real", "continuous"), "number"),
    **dict.fromkeys(("text", "string", "char", "character", "str"), "text"),
    **dict.fromkeys(("date",), "date"),
    **dict.fromkeys(("datetime", "timestamp"), "datetime"),
    **dict.fromkeys(("boolean", "bool", "logical"), "boolean"),
}
_MEASURES = {
    "ordinal": "ordinal",
    "nominal": "nominal",
    "categorical": "nominal",
    "factor": "nominal",
    "scale": "scale",
}
_SEVERAL = re.compile(r"=.*[;,|\n].*=", re.DOTALL)  # 1 = male; 2 = female
_NO = ("no", "n", "false", "0", "valid")
_YES = ("yes", "y", "true", "1", "x", "missing")


def read_code_table(path: Path, table: str | None) -> Contents:
    """The columns that a table describes. For a workbook, `table` is the name of the sheet."""
    rows = _sheet(path, table) if path.suffix.lower() == ".xlsx" else _text_rows(path)
    header = next((cells for _, cells in rows if any(cells)), None)
    if header is None:
        raise SchemaError(f"{path.name} is empty", hint="pass a codebook with a header line")
    if is_redcap(header):
        return read_redcap(header, rows, path)
    return _plain(header, rows, path)


def _text_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    content = read_bytes(path, MOST_BYTES)
    try:
        text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
    first = text.partition("\n")[0]
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t|", key=first.count)
    csv.field_size_limit(MOST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for cells in reader:
            yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as malformed:
        hint = "save the codebook as CSV again, with quotes around cells with line breaks"
        raise SchemaError(f"line {reader.line_num} of {path.name} cannot be read: {malformed}", hint=hint) from None


def _sheet(path: Path, sheet: str | None) -> Iterator[tuple[int, list[str]]]:
    from gapless.workbooks import read_cells  # noqa: PLC0415 polars is slow to import

    def choose_sheet(names: Sequence[str]) -> int:
        return 0 if sheet is None else choose(list(names), sheet, path.name)

    check_file(path)
    found = read_cells(path, choose_sheet, most_bytes=MOST_UNPACKED, most_cells=MOST_CELLS, what="codebook")
    for number, cells in enumerate(found.iter_rows(), start=1):
        yield number, ["" if cell is None else str(cell).strip() for cell in cells]


def _plain(header: Sequence[str], rows: Iterator[tuple[int, list[str]]], path: Path) -> Contents:
    """Rows with a column, a code and a label. A row without a name goes on with the column above it."""
    places = _places(header, path)
    blocks: dict[str, list[tuple[str, dict[str, str]]]] = {}
    name = ""
    for many, (number, cells) in enumerate(rows):
        if many > MOST_ROWS:
            raise error(path.name, f"has more than {MOST_ROWS:,} rows")
        row = {part: cells[place] if place < len(cells) else "" for part, place in places.items()}
        if not any(row.values()):
            continue
        where = f"row {number} of {path.name}"
        previous, name = name, row["column"] or name
        if not name:
            raise error(
                where, "names no column, and no row above it does", "write the name of the column into this row"
            )
        if row["column"] and name in blocks and name != previous:
            raise error(
                where,
                f"declares the column {shortened(name, 60)!r} again, after other columns",
                "keep the rows of a column together, and each name once",
            )
        blocks.setdefault(name, []).append((where, row))
        check_size(blocks, path.name)
    return Contents(path.name.split(".")[0] or "table", tuple(_entry(name, block) for name, block in blocks.items()))


def _places(header: Sequence[str], path: Path) -> dict[str, int]:
    """The place of each part in a row."""
    lower = [" ".join(cell.lower().replace("_", " ").split()) for cell in header]
    places: dict[str, int] = {}
    for part, names in _HEADERS.items():
        known = (name.replace("_", " ") for name in names)
        if (place := next((lower.index(name) for name in known if name in lower), None)) is not None:
            places.setdefault(part, place)
    lacking = [part for part in ("column", "code") if part not in places]
    if "column" in lacking or (lacking and not {"type", "low", "high"} & set(places)):
        hint = (
            "write into the first row: column, code, label; and also description, missing, type, min, max. For a file "
            "of data run `gapless schema draft`"
        )
        raise error(f"the header of {path.name}", f"has no column called {listing(lacking)}", hint)
    return places


def _entry(name: str, block: list[tuple[str, dict[str, str]]]) -> Entry:
    where = block[0][0]
    about = next((row["about"] for _, row in block if row.get("about")), "")
    pairs: list[tuple[str, str]] = []
    missing: dict[str, MissingCode] = {}
    for place, row in block:
        code, label = as_text(row.get("code", "")), row.get("label", "")
        if not code:
            about = about or label
            continue
        if _SEVERAL.search(code):
            wrong = f"has several codes of {shortened(name, 60)!r} in one cell: {shortened(code, 60)!r}"
            raise error(place, wrong, "write one row for each code, with its label in the next cell")
        pairs.append((code, label))
        kind = row.get("kind", "").lower().replace(" ", "-").replace("'", "")
        if kind and kind not in _NO:
            if kind not in (*GAP_KINDS, *STRUCTURAL_KINDS, *_YES):
                kinds = listing((*GAP_KINDS, *STRUCTURAL_KINDS))
                raise error(place, f"has an unknown kind of gap {kind!r}", f"write yes, or one of: {kinds}")
            known: Any = kind if kind in (*GAP_KINDS, *STRUCTURAL_KINDS) else gap_kind(label) or "unknown"
            missing[code] = MissingCode(code, known, label)
    codes = check_codes(pairs, name, where)
    return Entry(
        name,
        where,
        label=about,
        codes=codes,
        missing=tuple(missing.values()),
        bounds=_bounds(block, name),
        **_type_of(block),
    )


def _type_of(block: list[tuple[str, dict[str, str]]]) -> Mapping[str, Any]:
    given = next((row["type"].lower() for _, row in block if row.get("type")), "")
    if given in _MEASURES:
        return {"measure": _MEASURES[given]}
    return {"type": _TYPES.get(given, "")}


def _bounds(block: list[tuple[str, dict[str, str]]], name: str) -> tuple[Any, Any]:
    ends: list[Any] = []
    for part in ("low", "high"):
        where, given = next(((where, row[part]) for where, row in block if row.get(part)), ("", ""))
        is_date = _type_of(block).get("type") in ("date", "datetime")
        if given and not is_date and number_of(given) is None:
            raise error(where, f"has the bound {shortened(given, 40)!r} of {name!r}, which is not a number")
        ends.append((given if is_date else number_of(given)) if given else None)
    return ends[0], ends[1]
