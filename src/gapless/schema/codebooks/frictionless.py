"""Data Package (versions 1 and 2) and Table Schema: JSON descriptions of the fields of text files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless.schema.carried_schema import DATA_PACKAGE_PROPERTY, digest_of_fields, restore
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
from gapless.schema.codebooks.json_codebooks import as_list, as_mapping, as_scalar, as_string, choose
from gapless.schema.gap_codes import MissingCode, as_text
from gapless.schema.gap_words import gap_kind
from gapless.schema.schema import SEPARATORS, Schema

_TYPES: dict[str, EntryType] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "year": "integer",
    "any": "text",
    "": "text",
}
_UNUSED = ("object", "array", "list", "geopoint", "geojson", "time", "duration", "yearmonth")


def read_data_package(content: Any, path: Path, table: str | None) -> Contents | Schema:
    """The fields of a table of a Data Package, or of a Table Schema."""
    package = as_mapping(content, path.name)
    carried = package.get(DATA_PACKAGE_PROPERTY)
    if isinstance(carried, Mapping) and isinstance(text := carried.get("schema"), str):
        found = digest_of_fields(_described_fields(package))
        return restore(text, stated=carried.get("fields_sha256"), found=found, where=path.name)
    if "fields" in package:
        return _contents(package, package, path.name, path.name.split(".")[0])
    resources = [
        as_mapping(resource, f"resource {place} of {path.name}")
        for place, resource in enumerate(as_list(package.get("resources"), f"resources of {path.name}"), start=1)
    ]
    tables = [resource for resource in resources if "schema" in resource]
    names = [as_string(resource.get("name"), f"the name of a resource of {path.name}") for resource in tables]
    resource = tables[choose(names, table, path.name)]
    name = str(resource.get("name") or path.name.split(".")[0])
    where = f"resource {name!r} of {path.name}"
    if isinstance(resource["schema"], str):
        hint = "use that file as the codebook"
        raise error(where, f"names another file for its schema: {resource['schema']!r}", hint)
    schema = as_mapping(resource["schema"], f"the schema of {where}")
    return _contents(schema, resource, where, name)


def _described_fields(package: Mapping[str, Any]) -> Any:
    """The fields of the only table of a Data Package that gapless wrote; None if they are not there."""
    resources = package.get("resources")
    found = (
        [part["schema"] for part in resources if isinstance(part, Mapping) and "schema" in part]
        if isinstance(resources, list)
        else []
    )
    return found[0].get("fields") if len(found) == 1 and isinstance(found[0], Mapping) else None


def _contents(schema: Mapping[str, Any], resource: Mapping[str, Any], where: str, name: str) -> Contents:
    fields = as_list(schema.get("fields"), f"fields of {where}")
    check_size(fields, where)
    if isinstance(keys := schema.get("primaryKey", []), str):
        keys = [keys]
    keys = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    shared = schema.get("missingValues", [""])
    entries = [
        _entry(as_mapping(field, f"field {place} of {where}"), f"field {place} of {where}", shared, keys)
        for place, field in enumerate(fields, start=1)
    ]
    return Contents(
        name or "table",
        tuple(entries),
        description=short(as_string(resource.get("description") or resource.get("title"), f"the title of {where}")),
        table_keys=tuple(_file_keys(resource).items()),
    )


def _file_keys(resource: Mapping[str, Any]) -> dict[str, Any]:
    """How the file is written, where the description says so."""
    keys: dict[str, Any] = {}
    dialect = resource.get("dialect")
    delimiter = dialect.get("delimiter") if isinstance(dialect, Mapping) else None
    if delimiter in SEPARATORS and delimiter != ",":
        keys["separator"] = delimiter
    encoding = resource.get("encoding")
    if isinstance(encoding, str) and encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        keys["encoding"] = encoding
    return keys


def _entry(field: Mapping[str, Any], where: str, shared: Any, keys: list[str]) -> Entry:
    name = as_string(field.get("name"), f"the name of {where}")
    kind = as_string(field.get("type"), f"the type of {where}")
    rules = as_mapping(field.get("constraints", {}), f"the constraints of {where}")
    title = as_string(field.get("title"), f"the title of {where}")
    description = as_string(field.get("description"), f"the description of {where}")
    if kind not in _TYPES and kind not in _UNUSED:
        raise error(where, f"has an unknown type {kind!r}", f"use one of: {', '.join(filter(None, _TYPES))}")
    remarks = [f"its rule {key} is ignored" for key in ("pattern", "jsonSchema") if key in rules]
    format_, odd = _format(field.get("format"), kind)
    codes, ordered = _codes(field, rules, name, where)
    bounds = (rules.get("minimum"), rules.get("maximum"))
    for key, place in (("exclusiveMinimum", 0), ("exclusiveMaximum", 1)):
        if key in rules:
            remarks.append(f"{key} {rules[key]} is read as a bound that is itself allowed")
            bounds = (rules[key], bounds[1]) if place == 0 else (bounds[0], rules[key])
    if _TYPES.get(kind) in ("number", "integer"):
        for bound in bounds:
            if bound is not None and number_of(bound) is None:
                raise error(where, f"has the bound {bound!r} of {name!r}, which is not a number")
    elif format_ is not None:
        bounds = tuple(_as_iso(bound, format_) for bound in bounds)
    more: dict[str, Any] = {}
    for key, named in (("decimalChar", "decimal"), ("groupChar", "thousands")):
        if kind in ("number", "integer") and field.get(key):
            more[named] = field[key]
    spelling = _spelling(field, where) if kind == "boolean" else None
    unused = f"values of type {kind} cannot be used" if kind in _UNUSED and not codes else ""
    return Entry(
        name,
        where,
        label=description or title,
        type=_TYPES.get(kind, "text") if not (codes and kind == "integer") else "integer",
        measure="ordinal" if ordered else "nominal" if codes and kind != "boolean" else "",
        codes=codes if kind != "boolean" else (),
        is_closed=bool(codes),
        missing=_missing(field.get("missingValues", shared), where, is_required=rules.get("required") is True),
        bounds=bounds,
        is_required=rules.get("required") is True,
        format=format_,
        spelling=spelling,
        is_id=not codes and (rules.get("unique") is True or keys == [name]),
        left_out=unused or odd,
        remarks=tuple(remarks),
        more=tuple(more.items()),
    )


def _format(given: Any, kind: str) -> tuple[str | None, str]:
    """The format of dates, and why a column with it cannot be used."""
    if kind not in ("date", "datetime") or given in (None, "", "default"):
        return None, ""
    if isinstance(given, str) and "%" in given:
        return (None, "") if given in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ") else (given, "")
    return None, f"its format {given!r} does not say how dates are written"


def _as_iso(bound: Any, form: str) -> Any:
    import datetime as dt  # noqa: PLC0415 only here

    try:
        return dt.datetime.strptime(str(bound), form).isoformat()  # noqa: DTZ007 without a zone
    except ValueError:
        return bound


def _codes(
    field: Mapping[str, Any], rules: Mapping[str, Any], name: str, where: str
) -> tuple[tuple[tuple[str, str], ...], bool]:
    """The values with their labels, and whether they are ordered. An enum limits the categories."""
    pairs: list[tuple[Any, Any]] = []
    for item in as_list(field.get("categories", []) or [], f"categories of {where}"):
        if isinstance(item, Mapping):
            value = as_scalar(item.get("value"), f"a category of {where}")
            pairs.append((value, as_string(item.get("label"), f"the label of a category of {where}")))
        else:
            pairs.append((as_scalar(item, f"a category of {where}"), ""))
    enum = rules.get("enum")
    if enum is not None:
        allowed = [as_scalar(value, f"a value of the enum of {where}") for value in as_list(enum, f"enum of {where}")]
        labels = dict(check_codes(pairs, name, where))
        if unknown := [value for value in allowed if labels and as_text(value) not in labels]:
            raise error(where, f"has the value {unknown[0]!r} in enum, but not in categories, of {name!r}")
        pairs = [(value, labels.get(as_text(value), "")) for value in allowed]
    ordered = field.get("categoriesOrdered") is True
    return check_codes(((v, w) for v, w in pairs if as_text(v)), name, where), ordered


def _missing(given: Any, where: str, *, is_required: bool) -> tuple[MissingCode, ...]:
    """The missing codes. The empty cell is a gap without being declared. A required field has structural codes only."""
    found: dict[str, MissingCode] = {}
    for item in as_list(given, f"missingValues of {where}"):
        value, label = item, ""
        if isinstance(item, Mapping):
            value = as_scalar(item.get("value"), f"a missing value of {where}")
            label = as_string(item.get("label"), f"the label of a missing value of {where}")
        text = as_text(as_scalar(value, f"a missing value of {where}"))
        kind = gap_kind(label) or gap_kind(text) or "unknown"
        if (text or kind != "unknown") and text not in found:
            found[text] = MissingCode(text, kind, short(label))
    return tuple(code for code in found.values() if code.is_structural or not is_required)


def _spelling(field: Mapping[str, Any], where: str) -> tuple[str, str] | None:
    """The texts of false and true, if each is one text."""
    sides = []
    for key, usual in (("falseValues", "false"), ("trueValues", "true")):
        given = as_list(field.get(key, [usual]), f"{key} of {where}")
        sides.append([as_string(text, f"{key} of {where}") for text in given])
    if [len(side) for side in sides] != [1, 1] or sides == [["false"], ["true"]]:
        return None
    return sides[0][0], sides[1][0]


def is_simple_choice(pattern: str) -> list[str]:
    """The texts of a pattern that only lists them, such as a|b|c; none for other patterns.

    >>> is_simple_choice("yes|no"), is_simple_choice("[a-z]+")
    (['yes', 'no'], [])
    """
    texts = re.sub(r"^\^?\(?(?:\?:)?|\)?\$?$", "", pattern).split("|")
    return texts if len(texts) > 1 and all(re.fullmatch(r"[\w \-]+", text) for text in texts) else []
