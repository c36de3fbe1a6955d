"""A release as a DDI-Codebook 2.5 document, the format of social science data archives.

The variables describe synthetic.csv. What the standard has no element for, such as bins, is in a note of type
`gapless schema`: the whole schema as TOML text, from which `gapless schema from` restores it.
"""

from __future__ import annotations

import re
from math import isclose, isfinite, log10
from xml.etree import ElementTree as ET

from gapless.publish.archive_files.data_package import bounds_as_dates, missing_codes
from gapless.publish.archive_files.facts import ReleaseFacts
from gapless.publish.folder import ROWS
from gapless.schema import Column, Number
from gapless.schema.calendar import CalendarColumn
from gapless.schema.carried_schema import DDI_NOTE, digest_of_variables
from gapless.schema.columns import LevelColumn
from gapless.schema.gap_codes import as_text
from gapless.schema.numeric import BinnedColumn, NumericColumn

NAMESPACE = "ddi:codebook:2_5"
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # not allowed in XML 1.0


def ddi_codebook(facts: ReleaseFacts) -> str:
    """Return the text of ddi-codebook.xml."""
    schema = facts.schema
    root = ET.Element("codeBook", {"xmlns": NAMESPACE, "version": "2.5"})
    study = _add(root, "stdyDscr")
    citation = _add(study, "citation")
    _add(_add(citation, "titlStmt"), "titl", facts.title)
    made_with = facts.manifest["versions"]["gapless"]
    _add(_add(citation, "prodStmt"), "software", "gapless", version=str(made_with))
    information = _add(study, "stdyInfo")
    if schema.description:
        _add(information, "abstract", schema.description)
    _add(_add(information, "sumDscr"), "dataKind", "synthetic data: no record is a person")
    _add(study, "notes", facts.manifest["guarantee"], type="privacy guarantee")
    file = _add(_add(root, "fileDscr", ID="F1"), "fileTxt")
    _add(file, "fileName", ROWS[0])
    size = _add(file, "dimensns")
    _add(size, "caseQnty", str(facts.manifest["rows"]))
    _add(size, "varQnty", str(len(schema.file_columns)))
    _add(file, "fileType", "text, values separated by " + repr(schema.separator or ","))
    data = _add(root, "dataDscr")
    for number, column in enumerate(schema.file_columns, start=1):
        _variable(data, column, number)
    # All text in TOML is in quotes, so an escape sequence of TOML can stand for what XML does not allow.
    toml = _ILLEGAL.sub(lambda found: f"\\u{ord(found[0]):04x}", schema.to_toml())
    _add(data, "notes", toml, type=DDI_NOTE, subject=digest_of_variables(data.iterfind("var")))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(parent: ET.Element, tag: str, text: str | None = None, /, **attributes: str) -> ET.Element:
    """Append an element. Characters that XML does not allow are replaced."""
    allowed = {name: _ILLEGAL.sub("\ufffd", value) for name, value in attributes.items()}
    element = ET.SubElement(parent, tag, allowed)
    element.text = None if text is None else _ILLEGAL.sub("\ufffd", text)
    return element


def _variable(data: ET.Element, column: Column, number: int) -> None:
    """Append a variable. The standard fixes the order of its parts."""
    attributes = {"ID": f"V{number}", "name": column.name, "files": "F1"}
    attributes["intrvl"] = "contin" if isinstance(column, Number | CalendarColumn) else "discrete"
    if isinstance(column, LevelColumn):
        attributes |= {"nature": "ordinal" if column.is_ordered else "nominal", "representationType": "code"}
    else:
        attributes["representationType"] = "datetime" if isinstance(column, CalendarColumn) else "numeric"
    if isinstance(column, Number) and (digits := _decimals(column)):
        attributes["dcml"] = str(digits)
    variable = _add(data, "var", **attributes)
    if column.description:
        _add(variable, "labl", column.description)
    codes = [(code, label) for code, label in missing_codes(column) if code]  # an empty cell is no code
    _ranges(variable, column, [code for code, _ in codes])
    if isinstance(column, LevelColumn):
        labels = dict(column.labels)
        written = getattr(column, "spelling", None) or column.value_cells
        for text, level in zip(written, column.value_cells, strict=True):
            _category(variable, text, labels.get(level))
    for code, label in codes:
        _category(variable, code, label, missing="Y")
    _format(variable, column)


def _ranges(variable: ET.Element, column: Column, codes: list[str]) -> None:
    """Append the values of a column of numbers or dates, and what is no value."""
    if isinstance(column, BinnedColumn):
        least, most = map(_text, bounds_as_dates(column))
        units = "REAL" if isinstance(column, Number) else "INT"
        _add(_add(variable, "valrng"), "range", UNITS=units, min=least, max=most)
    if codes:
        invalid = _add(variable, "invalrng")
        for gap in column.missing_ranges:
            ends = {"min": gap.least, "max": gap.most}
            _add(invalid, "range", **{end: as_text(value) for end, value in ends.items() if isfinite(value)})
        for code in codes:
            _add(invalid, "item", VALUE=code)


def _format(variable: ET.Element, column: Column) -> None:
    """Append how a file has the values."""
    if isinstance(column, CalendarColumn):
        category = "date" if column.kind == "date" else "time"
        _add(variable, "varFormat", column.format or "ISO 8601", type="character", category=category)
    else:
        is_number = isinstance(column, NumericColumn) or _has_whole_levels(column)
        _add(variable, "varFormat", type="numeric" if is_number else "character", schema="ISO")


def _category(variable: ET.Element, value: str, label: str | None, **attributes: str) -> None:
    category = _add(variable, "catgry", **attributes)
    _add(category, "catValu", value)
    if label:
        _add(category, "labl", label)


def _decimals(column: Number) -> int:
    """Return the digits after the point, if the resolution is that of decimals; else 0, for not known.

    >>> _decimals(Number("x", bounds=(0, 1), resolution=0.01)), _decimals(Number("x", bounds=(0, 1), resolution=0.25))
    (2, 0)
    """
    digits = round(-log10(column.resolution)) if column.resolution else 0
    return digits if digits > 0 and isclose(10.0**-digits, column.step) else 0


def _has_whole_levels(column: Column) -> bool:
    return isinstance(column, LevelColumn) and all(type(level) is int for level in column.levels)


def _text(bound: object) -> str:
    return bound.isoformat() if hasattr(bound, "isoformat") else str(bound)
