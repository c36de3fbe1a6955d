"""A release as a Data Package: datapackage.json, with a Table Schema of the synthetic rows (version 2 of both).

The fields describe synthetic.csv as it is written. What the standard has no word for, such as bins, is in the custom
property `gapless`: the whole schema as TOML text, from which `gapless schema from` restores it.
"""

from __future__ import annotations

import codecs
import json
from typing import Any

import numpy as np

from gapless.data.io.spreadsheets import FormulaEscapes
from gapless.publish.archive_files.facts import ReleaseFacts
from gapless.publish.folder import MANIFEST, ROWS
from gapless.schema import Boolean, Column, Integer, Number, Schema
from gapless.schema.calendar import CalendarColumn
from gapless.schema.carried_schema import DATA_PACKAGE_PROPERTY, digest_of_fields
from gapless.schema.columns import LevelColumn
from gapless.schema.gap_codes import MissingKind
from gapless.schema.numeric import BinnedColumn, NumericColumn

PROFILE = "https://datapackage.org/profiles/2.0/{}.json"
MEDIA_TYPES = {
    "csv": "text/csv",
    "dta": "application/x-stata-dta",
    "gz": "application/gzip",
    "html": "text/html",
    "json": "application/json",
    "md": "text/markdown",
    "parquet": "application/vnd.apache.parquet",
    "sav": "application/x-spss-sav",
    "svg": "image/svg+xml",
    "toml": "application/toml",
    "txt": "text/plain",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def data_package(facts: ReleaseFacts) -> str:
    """Return the text of datapackage.json."""
    names = sorted({*facts.manifest["sha256"], MANIFEST}, key=lambda name: (name not in ROWS, name))
    described = table_schema(facts.schema)
    carried = {"schema": facts.schema.to_toml(), "fields_sha256": digest_of_fields(described["fields"])}
    package = {
        "$schema": PROFILE.format("datapackage"),
        "name": facts.slug,
        "title": facts.title,
        "description": " ".join(filter(None, [facts.schema.description, facts.manifest["guarantee"]])),
        "resources": [_resource(facts, name, described) for name in names],
        DATA_PACKAGE_PROPERTY: carried | {"manifest_sha256": facts.sha256},
    }
    return json.dumps(package, ensure_ascii=False, indent=2) + "\n"


def _resource(facts: ReleaseFacts, name: str, described: dict[str, Any]) -> dict[str, Any]:
    """Return a file of the release; synthetic.csv with its Table Schema."""
    ending = name.rpartition(".")[2]
    digest = facts.manifest["sha256"].get(name, facts.sha256)
    resource = {
        "name": name.lower().replace("_", "-").replace(".", "-"),
        "path": name,
        "format": ending,
        "mediatype": MEDIA_TYPES.get(ending, "application/octet-stream"),
        "bytes": (facts.folder / name).stat().st_size,
        "hash": f"sha256:{digest}",
    }
    if name != ROWS[0]:
        return resource
    schema = facts.schema
    dialect = {} if schema.separator is None else {"dialect": {"delimiter": schema.separator}}
    encoding = codecs.lookup(schema.encoding or "utf-8").name
    return resource | {"type": "table", "encoding": encoding, **dialect, "schema": described}


def table_schema(schema: Schema) -> dict[str, Any]:
    """Return the Table Schema of a text file with the rows of a table."""
    formulas = FormulaEscapes(schema)
    return {
        "$schema": PROFILE.format("tableschema"),
        "fields": [_field(column, formulas) for column in schema.file_columns],
    }


def _field(column: Column, formulas: FormulaEscapes) -> dict[str, Any]:
    """Return a field: its type, its values and its missing codes, as a text file has them."""
    escaped = formulas.cells.get(column.name, {})
    field: dict[str, Any] = {"name": formulas.names.get(column.name, column.name)}
    if column.description:
        field["description"] = column.description
    constraints: dict[str, Any] = {"required": not column.missing and not column.may_be_missing}
    match column:
        case Boolean():  # the standard has no labels for these
            no, yes = column.spelling or ("false", "true")
            field |= {"type": "boolean", "trueValues": [_written(yes, escaped)]}
            field |= {"falseValues": [_written(no, escaped)]}
        case LevelColumn():
            whole = all(type(level) is int for level in column.levels)
            values = column.levels if whole else [_written(text, escaped) for text in column.value_cells]
            field |= {"type": "integer" if whole else "string", "categories": _categories(column, list(values))}
            field["categoriesOrdered"] = column.is_ordered
            constraints["enum"] = list(values)
        case CalendarColumn():
            field |= {"type": column.kind} | ({} if column.format is None else {"format": column.format})
            constraints |= _bounds(column)
        case Integer() | Number():
            field["type"] = column.kind
            if isinstance(column, Number) and column.decimal != ".":
                field["decimalChar"] = column.decimal
            constraints |= _bounds(column)
    field["constraints"] = constraints
    field["missingValues"] = [
        {"value": _written(code, escaped), "label": label} for code, label in missing_codes(column)
    ]
    return field


def _written(text: object, escaped: dict[str, str]) -> str:
    """Return a cell as text files have it."""
    return escaped.get(str(text), str(text))


def _categories(column: LevelColumn, values: list[Any]) -> list[Any]:
    """Return the levels with their labels; levels alone if none has a label."""
    if not column.labels:
        return values
    labels = dict(column.labels)
    pairs = zip(values, column.value_cells, strict=True)
    return [{"value": value} | ({"label": labels[text]} if text in labels else {}) for value, text in pairs]


def _bounds(column: BinnedColumn) -> dict[str, Any]:
    """Return the bounds. The standard wants texts as the file has them, so dates follow the format of the file."""
    if isinstance(column, NumericColumn):
        return dict(zip(("minimum", "maximum"), column.bounds, strict=True))
    least, most = bounds_as_dates(column)
    if (form := getattr(column, "format", None)) is not None:
        return {"minimum": least.strftime(form), "maximum": most.strftime(form)}
    return {"minimum": least.isoformat(), "maximum": most.isoformat()}


def bounds_as_dates(column: BinnedColumn) -> tuple[Any, Any]:
    """Return the bounds; of dates and datetimes as such, the lower one at the beginning of its month, year and so on.

    Files have the beginning of each step of the resolution, which may be before the declared bound.
    """
    if not isinstance(column, CalendarColumn):
        return column.bounds
    most = column.bounds[1]
    least = np.int64(column.limits[0]).astype(column.unit).astype("datetime64[D]" if column.kind == "date" else "M8[s]")
    return least.item(), column.python_type.fromisoformat(most) if isinstance(most, str) else most


KIND_LABELS: dict[MissingKind, str] = {
    "unknown": "unknown",
    "refused": "refused",
    "dont-know": "don't know",
    "technical": "technical error",
    "not-asked": "not asked",
    "not-applicable": "not applicable",
}


def missing_codes(column: Column) -> list[tuple[str, str]]:
    """Return the texts in a file that are no value, each with its label; a code without one has its kind's name.

    An empty cell is a gap where the column may be missing and no code says otherwise. A range has the text with which
    files are written.
    """
    codes: dict[str, str] = {}
    for code in column.missing:
        codes.setdefault(column.text_of(code), code.label or KIND_LABELS[code.kind])
    if column.may_be_missing and "" not in codes:
        codes = {"": KIND_LABELS["unknown"]} | codes
    return list(codes.items())
