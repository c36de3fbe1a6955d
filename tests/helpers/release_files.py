"""What the public files of a small release say, and a reader of text files that knows the Table Schema alone."""

import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import gapless as gl
from gapless.publish.archive_files.facts import ReleaseFacts

MANIFEST: dict[str, Any] = {
    "table": "people",
    "method": "independent",
    "verdict": "good",
    "usable_for": ["single columns"],
    "with_care": [],
    "not_for": [],
    "rows": 100,
    "guarantee": "a promise",
    "versions": dict.fromkeys(("python", "gapless", "numpy", "polars", "opendp", "dp-accounting"), "1"),
    "sha256": {},
}
LEDGER: dict[str, Any] = {
    "rows_per_person": 1,
    "budget": {"epsilon": 1.0, "delta": 0.0},
    "order": None,
    "capacity": 1.0,
    "spent": 0.5,
    "guarantee": {"epsilon": 1.0, "delta": 0.0, "basis": "the sum"},
    "entries": [{"mechanism": {"name": "DiscreteLaplace", "scale": 2.0}}],
    "first_batch": {"entries": 1},
}


def facts_of(schema: gl.Schema) -> ReleaseFacts:
    """Facts of a release that is on no disk."""
    return ReleaseFacts.of(Path("release"), schema, MANIFEST, LEDGER, "0")


def read_by_standard(
    path: Path, schema: dict[str, Any], *, encoding: str, delimiter: str
) -> list[Sequence[tuple[str, dict[str, Any]]]]:
    """The rows of a text file: each cell with its field."""
    with path.open(encoding=encoding, newline="") as file:
        header, *rows = csv.reader(file, delimiter=delimiter)
    fields = schema["fields"]
    assert header == [field["name"] for field in fields]
    return [list(zip(row or [""], fields, strict=True)) for row in rows]  # an empty line is one empty cell


def check_cell(cell: str, field: dict[str, Any]) -> None:
    """Check that a cell is a missing value or a value of its field."""
    limits = field["constraints"]
    if cell in [code["value"] for code in field["missingValues"]]:
        assert not limits["required"]
        return
    match field["type"]:
        case "boolean":
            assert cell in (*field["trueValues"], *field["falseValues"])
        case "integer" | "number":
            number = (int if field["type"] == "integer" else float)(cell.replace(field.get("decimalChar", "."), "."))
            assert number in limits.get("enum", [number])
            assert limits.get("minimum", number) <= number <= limits.get("maximum", number)
        case "string":
            assert cell in limits["enum"]
        case _:
            least, value, most = (_moment(text, field) for text in (limits["minimum"], cell, limits["maximum"]))
            assert least <= value <= most


def _moment(text: str, field: dict[str, Any]) -> datetime:
    form = field.get("format")
    return datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)  # noqa: DTZ007 no zone
