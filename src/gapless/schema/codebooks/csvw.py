"""Metadata of CSV on the Web (JSON), as statistical offices publish them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless.schema.codebooks.entries import (
    Contents,
    Entry,
    EntryType,
    check_codes,
    check_size,
    error,
    number_of,
    short,
)
from gapless.schema.codebooks.frictionless import is_simple_choice
from gapless.schema.codebooks.json_codebooks import as_list, as_mapping, as_scalar, as_string, choose
from gapless.schema.gap_codes import MissingCode, as_text
from gapless.schema.gap_words import gap_kind

_TYPES: dict[str, EntryType] = {
    **dict.fromkeys(("string", "any", "normalizedString", "token", "language", "Name", "xml", "html", "json"), "text"),
    **dict.fromkeys(("number", "decimal", "double", "float"), "number"),
    **dict.fromkeys(("integer", "long", "int", "short", "byte", "gYear"), "integer"),
    **dict.fromkeys(("nonNegativeInteger", "positiveInteger", "unsignedByte", "unsignedShort"), "integer"),
    **dict.fromkeys(("unsignedInt", "unsignedLong", "nonPositiveInteger", "negativeInteger"), "integer"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("datetime", "dateTime", "dateTimeStamp"), "datetime"),
}
_LEAST = {"nonNegativeInteger": 0, "unsignedByte": 0, "unsignedShort": 0, "unsignedInt": 0, "positiveInteger": 1}
_PARTS = (("yyyy", "%Y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))


def read_csvw(content: Any, path: Path, table: str | None) -> Contents:
    """The columns of a table."""
    group = as_mapping(content, path.name)
    tables = [group]
    if "tables" in group:
        tables = [
            as_mapping(part, f"a table of {path.name}") for part in as_list(group["tables"], f"tables of {path.name}")
        ]
    names = [as_string(part.get("url") or part.get("name"), f"the url of a table of {path.name}") for part in tables]
    chosen = tables[choose(names, table, path.name)]
    where = path.name
    schema = chosen.get("tableSchema", group.get("tableSchema"))
    if isinstance(schema, str):
        hint = "write the schema into this file"
        raise error(where, f"names another file for its schema: {schema!r}", hint)
    schema = as_mapping(schema, f"the tableSchema of {where}")
    keys = schema.get("primaryKey", [])
    keys = [keys] if isinstance(keys, str) else keys
    entries = []
    columns = as_list(schema.get("columns"), f"columns of {where}")
    check_size(columns, where)
    for place, column in enumerate(columns, start=1):
        known = as_mapping(column, f"column {place} of {where}")
        if known.get("virtual") is not True:
            entries.append(_entry({**_inherited(group, chosen, schema), **known}, f"column {place} of {where}", keys))
    url = as_string(chosen.get("url"), f"the url of {where}")
    name = Path(url).name.split(".")[0] or path.name.split(".")[0] or "table"
    title = _text(chosen.get("dc:title") or chosen.get("rdfs:label"))
    return Contents(name, tuple(entries), description=short(title), table_keys=_file_keys(group, chosen))


def _inherited(*levels: Mapping[str, Any]) -> dict[str, Any]:
    return {key: level[key] for level in levels for key in ("null", "datatype", "required") if key in level}


def _file_keys(group: Mapping[str, Any], chosen: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    dialect = chosen.get("dialect", group.get("dialect"))
    delimiter = dialect.get("delimiter") if isinstance(dialect, Mapping) else None
    return (("separator", delimiter),) if delimiter in (";", "\t", "|") else ()


def _text(value: Any) -> str:
    """A text in one language of several."""
    if isinstance(value, Mapping):
        value = value.get("en", next(iter(value.values()), ""))
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, Mapping):
        value = value.get("@value", "")
    return value if isinstance(value, str) else ""


def _entry(column: Mapping[str, Any], where: str, keys: Any) -> Entry:
    title = _text(column.get("titles"))
    name = title or as_string(column.get("name"), f"the name of {where}")
    type_ = column.get("datatype", "string")
    datatype: Mapping[str, Any] = (
        {"base": type_} if isinstance(type_, str) else as_mapping(type_, f"datatype of {where}")
    )
    base = as_string(datatype.get("base", "string"), f"the base of the datatype of {where}")
    kind = _TYPES.get(base)
    form = datatype.get("format")
    bounds = [
        datatype.get("minimum", datatype.get("minInclusive")),
        datatype.get("maximum", datatype.get("maxInclusive")),
    ]
    bounds = [_LEAST.get(base) if place == 0 and bound is None else bound for place, bound in enumerate(bounds)]
    if kind in ("number", "integer") and any(bound is not None and number_of(bound) is None for bound in bounds):
        raise error(where, f"has a bound of {name!r} that is not a number")
    choices = is_simple_choice(form) if kind == "text" and isinstance(form, str) else []
    codes = check_codes(((text, "") for text in choices), name, where)
    spelling, format_, remarks = None, None, []
    if kind == "boolean" and isinstance(form, str):
        yes, bar, no = form.partition("|")
        if not (yes and bar and no):
            raise error(where, f"has the format {form!r} of a boolean, which must be like yes|no")
        spelling = (no, yes)
    elif kind in ("date", "datetime") and isinstance(form, str):
        format_ = _format(form)
    elif form is not None and not choices:
        remarks.append("its format is ignored")
    nulls = column.get("null", [""])
    nulls = [nulls] if isinstance(nulls, str) else as_list(nulls, f"null of {where}")
    texts = dict.fromkeys(as_text(as_scalar(text, f"null of {where}")) for text in nulls)
    return Entry(
        name,
        where,
        label=_text(column.get("dc:description") or column.get("rdfs:comment")) or title,
        type=kind or "text",
        codes=codes,
        is_closed=bool(codes),
        missing=tuple(MissingCode(text, gap_kind(text) or "unknown") for text in texts if text),
        bounds=(bounds[0], bounds[1]),
        is_required=column.get("required") is True,
        format=format_,
        spelling=spelling,
        is_id=keys in ([column.get("name")], [name]) and not codes,
        left_out="" if kind else f"values of type {base} cannot be used",
        remarks=tuple(remarks),
    )


def _format(form: str) -> str | None:
    """A date format of CSVW in Python's form; None for ISO 8601.

    >>> _format("dd.MM.yyyy"), _format("yyyy-MM-dd")
    ('%d.%m.%Y', None)
    """
    python = form
    for part, sign in _PARTS:
        python = python.replace(part, sign)
    for part, sign in (("M", "%m"), ("d", "%d")):
        python = python if sign in python else python.replace(part, sign)
    return None if python in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S") else python
