"""TOML files in and out: `gapless.files` reads them, thirty lines write them."""

import datetime as dt
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapless.errors import ReadError, SchemaError
from gapless.files import parse_toml, read_limited, write_atomically
from gapless.text import CONTROL


def read(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return parse(read_limited(path).decode(), str(path))
    except FileNotFoundError:
        raise ReadError(f"no file {path}", hint="gapless schema draft DATA -o SCHEMA.toml makes a first one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"cannot read {path}: {error}", hint="a TOML file in UTF-8 that you may read") from None


def parse(text: str, where: str) -> dict[str, Any]:
    """The content of TOML text."""
    try:
        return parse_toml(text)
    except ValueError as error:
        raise SchemaError(f"{where} is not valid TOML: {error}", hint="correct that place in the file") from None


def write(path: Path, text: str) -> None:
    """Write TOML text, the old file intact until the new one is whole."""
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8")


def dump(content: Mapping[str, Any], comments: Mapping[tuple[str, str, str], str] | None = None) -> str:
    """TOML text; `comments` may say something behind a line, by (section, name, key)."""
    comments = comments or {}
    lines: list[str] = []
    for section, body in content.items():
        if isinstance(body, list):
            for item in body:
                lines += [f"[[{section}]]", *(f"{key(k)} = {_value(v)}" for k, v in item.items()), ""]
            continue
        nested = all(isinstance(value, Mapping) for value in body.values())
        for name, keys in body.items() if nested else [("", body)]:
            lines.append(f"[{section}.{key(name)}]" if name else f"[{section}]")
            for own, value in keys.items():
                note = comments.get((section, name, own))
                lines.append(f"{key(own)} = {_value(value)}" + (f"  # {_one_line(note)}" if note else ""))
            lines.append("")
    return "\n".join(lines)


def key(name: str) -> str:
    """A name as a key, in quotes where it must be.

    >>> key("household income")
    '"household income"'
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def _one_line(note: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in note)


def quoted(text: str) -> str:
    """A text in quotes, control characters as escape sequences of TOML."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case dt.date():
            return value.isoformat()
        case Mapping():
            return "{ " + ", ".join(f"{key(k)} = {_value(v)}" for k, v in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(_value(item) for item in value) + "]"
        case _:
            return quoted(str(value))
