"""Read and write TOML files. `gapless.files` parses them."""

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
        hint = "check the path, or run `gapless schema draft DATA -o SCHEMA.toml` to make a first schema"
        raise ReadError(f"no file {path}", hint=hint) from None
    except OSError as error:
        hint = "check that the path names a schema file and that you may read it"
        raise ReadError(f"cannot read {path}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise ReadError(f"cannot read {path}: the file is not UTF-8 text", hint="save the file as UTF-8") from None


def parse(text: str, where: str) -> dict[str, Any]:
    """The content of TOML text."""
    try:
        return parse_toml(text)
    except ValueError as error:
        raise SchemaError(
            f"{where} is not valid TOML: {error}",
            hint="correct the line that is named here, write each key and section only once, or pass a schema file",
        ) from None


def write(path: Path, text: str) -> None:
    """Write TOML text. An old file stays intact until the new one is complete."""
    with write_atomically(path) as partial:
        partial.write_text(text, encoding="utf-8")


def dump(content: Mapping[str, Any], comments: Mapping[tuple[str, str, str], str] | None = None) -> str:
    """TOML text. `comments` holds comments for lines, by (section, name, key)."""
    comments = comments or {}
    lines: list[str] = []
    for section, body in content.items():
        if isinstance(body, list):
            for item in body:
                lines += [f"[[{section}]]", *(f"{key(field)} = {written(v)}" for field, v in item.items()), ""]
            continue
        nested = all(isinstance(value, Mapping) for value in body.values())
        for name, keys in body.items() if nested else [("", body)]:
            lines.append(f"[{section}.{key(name)}]" if name else f"[{section}]")
            for field, value in keys.items():
                note = comments.get((section, name, field), "")
                printable = "".join(letter if letter.isprintable() else " " for letter in note)
                lines.append(f"{key(field)} = {written(value)}" + (f"  # {printable}" if note else ""))
            lines.append("")
    return "\n".join(lines)


def key(name: str) -> str:
    """A name as a TOML key, in quotes where TOML requires them.

    >>> key("household income")
    '"household income"'
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def quoted(text: str) -> str:
    """A text in quotes, with control characters as escape sequences of TOML."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def written(value: Any) -> str:
    """A value as TOML, on one line."""
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
            return "{ " + ", ".join(f"{key(k)} = {written(v)}" for k, v in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(written(item) for item in value) + "]"
        case _:
            return quoted(str(value))
