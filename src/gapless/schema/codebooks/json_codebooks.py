"""What the JSON formats of codebooks share: parsing, and checks of the types of values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless.errors import SchemaError
from gapless.files import parse_json
from gapless.schema.codebooks.entries import error
from gapless.text import listing, plural, shortened

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(content: bytes, path: Path) -> Any:
    """The content of a JSON file."""
    try:
        text = content.decode("utf-8-sig")
        parsed = parse_json(text)
        if _SURROGATE.search(text):
            json.dumps(parsed, ensure_ascii=False).encode()  # half of a pair of escapes is no character
    except ValueError as malformed:
        what = shortened(" ".join(str(malformed).split()), 120)
        hint = "correct the file at this place, or export it again as UTF-8"
        raise SchemaError(f"{path.name} is not valid JSON: {what}", hint=hint) from None
    return parsed


def is_csvw(content: Any) -> bool:
    """Whether this is metadata of CSV on the Web."""
    if not isinstance(content, Mapping):
        return False
    return "csvw" in str(content.get("@context", "")) or "tableSchema" in content or "tables" in content


def as_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """A JSON object, or an error."""
    if not isinstance(value, Mapping):
        raise error(where, f"must be an object, but is a {_json_type(value)}")
    return value


def as_list(value: Any, where: str) -> list[Any]:
    """A JSON array, or an error."""
    if not isinstance(value, list):
        raise error(where, f"must be a list, but is a {_json_type(value)}")
    return value


def as_scalar(value: Any, where: str) -> Any:
    """A text, a number, true or false, or an error."""
    if not isinstance(value, str | int | float | bool):
        raise error(where, f"must be a text or a number, but is a {_json_type(value)}")
    return value


def as_string(value: Any, where: str) -> str:
    """A text, or an error; the empty text for null."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise error(where, f"must be a text, but is a {_json_type(value)}")
    return value


def choose(names: list[str], table: str | None, where: str) -> int:
    """The place of the table that was asked for, or of the only one."""
    if table is not None:
        if table not in names:
            raise error(where, f"has no table {table!r}", f"choose one of: {listing(names)}")
        return names.index(table)
    if len(names) != 1:
        what = f"describes {plural(len(names), 'table')}: {listing(names)}" if names else "describes no table"
        raise error(where, what, "name the table to use" if names else "pass a file that describes a table")
    return 0


def _json_type(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
