"""Columns as a TOML file has them: a table of keys for each column, or one for a run of columns that are alike.

`[column."q01..q80"]` declares 80 columns with the same keys. A table for a single one of them, `[column.q07]`, replaces
all keys of that column. A column that is really called so has `literal = true` among its keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from itertools import groupby
from typing import Any

from gapless.errors import SchemaError
from gapless.schema import toml
from gapless.schema.calendar import Date, DateTime
from gapless.schema.columns import Boolean, Categorical, Column, Ordinal
from gapless.schema.difference import difference_of
from gapless.schema.gap_codes import MissingCode, MissingRange
from gapless.schema.numeric import Integer, Number, NumericColumn
from gapless.text import listing, nearest, shortened, visible

_CLASSES: tuple[type[Column], ...] = (Categorical, Ordinal, Integer, Number, Boolean, Date, DateTime)
KINDS = {column.kind: column for column in _CLASSES}
_COLUMN_KEYS = ("may_be_missing", "missing", "outside", "per_person", "description", "origin")
_RUN = re.compile(r"(?P<prefix>.*?)(?P<first>[0-9]+)\.\.(?P<again>.*?)(?P<last>[0-9]+)", re.DOTALL)
LONGEST_RUN = 200  # characters of the name of a run
MOST_IN_RUN = 10_000  # columns that one entry may declare
LEAST_IN_RUN = 5  # columns alike from which on one entry is written for them
MOST_NAMES = 8  # columns or runs that a line names
_CODE_KEYS = ("code", "from", "to", "kind", "label")
_CODE_HINT = 'write { code = "-8", kind = "refused" }, or { from = 97, to = 99, kind = "refused" }'


def run_of(name: str) -> list[str] | None:
    """The names that an entry such as q01..q80 declares; None if it is a single name.

    >>> run_of("q08..q11"), run_of("q8..q11"), run_of("income..eur")
    (['q08', 'q09', 'q10', 'q11'], ['q8', 'q9', 'q10', 'q11'], None)
    """
    if ".." not in name or len(name) > LONGEST_RUN or not (found := _RUN.fullmatch(name)):
        return None
    prefix, first, again, last = found.groups()
    if again != prefix:
        return None
    example = 'write the smaller number first, as in [column."q01..q80"], or literal = true if a column is called so'
    padded = len(first) == len(last)
    if int(first) >= int(last) or (not padded and first.startswith("0")):
        what = "the numbers must increase" if int(first) >= int(last) else "the numbers must have equal widths"
        raise SchemaError(f"[column.{toml.key(name)}] is not a valid run of columns: {what}", hint=example)
    if int(last) - int(first) >= MOST_IN_RUN:
        wrong = f"[column.{toml.key(name)}] declares more than {MOST_IN_RUN} columns"
        raise SchemaError(wrong, hint="declare shorter runs of columns")
    width = len(first) if padded else 0
    return [f"{prefix}{number:0{width}d}" for number in range(int(first), int(last) + 1)]


def read_columns(content: Mapping[str, Any], numbers: Mapping[str, Any], *, unchecked: bool = False) -> list[Column]:
    """The columns of the section `column`. A run is in the place of its entry.

    Args:
        content: the section.
        numbers: the table's keys for columns of numbers, which a column may replace.
        unchecked: whether columns without an origin were read from the data, as old drafts say.
    """
    runs: dict[str, list[str]] = {}
    entry_of: dict[str, str] = {}
    for name, keys in content.items():
        if _is_literal(name, keys) or (names := run_of(name)) is None:
            continue
        runs[name] = names
        for member in names:
            if member in entry_of:
                wrong = f"the column {member!r} is declared by [column.{toml.key(entry_of[member])}] and "
                hint = "declare runs that do not overlap"
                raise SchemaError(f"{wrong}[column.{toml.key(name)}]", hint=hint)
            entry_of[member] = name
    columns = []
    default = {"origin": "data"} if unchecked else {}
    for name, keys in content.items():
        if name in entry_of:
            continue  # a single entry for a column of a run: it is in the place of the run
        for member in runs.get(name, [name]):
            chosen = content.get(member, keys) if name in runs else keys
            columns.append(_column(member, chosen, numbers, default))
    return columns


def write_columns(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The section `column`: entries with the same keys and consecutive numbers in their names become one.

    >>> print(list(write_columns({f"q{number}": {"kind": "boolean"} for number in range(8, 14)} | {"age": {}})))
    ['q8..q13', 'age']
    """
    written: dict[str, Mapping[str, Any]] = {}
    for _, group in groupby(enumerate(entries.items()), key=_run_key()):
        alike = [entry for _, entry in group]
        (first, keys), (last, _) = alike[0], alike[-1]
        names = [name for name, _ in alike]
        joined = f"{first}..{last}"
        if len(alike) >= LEAST_IN_RUN and joined not in entries and _try_run(joined) == names:
            written[joined] = keys
        else:
            written |= {name: _as_literal(name, keys) for name, keys in alike}
    return written


def name_runs(names: Iterable[str]) -> str:
    """The names of columns in a line, those with consecutive numbers as a run.

    >>> name_runs(["age", *(f"q{number:02d}" for number in range(1, 81))])
    'age, q01..q80'
    """
    runs = write_columns({name: {} for name in names if name})
    shown = [visible(shortened(name, 60)) for name in list(runs)[:MOST_NAMES]]
    return ", ".join(shown) + (f" … ({len(runs) - MOST_NAMES} more)" if len(runs) > MOST_NAMES else "")


def _run_key() -> Any:
    """A function that gives neighbouring entries the same number if they belong to one run."""
    state: dict[str, Any] = {"number": 0, "last": None}

    def key(item: tuple[int, tuple[str, Mapping[str, Any]]]) -> int:
        name, keys = item[1]
        prefix = name.rstrip("0123456789")
        digits = name[len(prefix) :]
        here = (prefix, int(digits), keys) if 0 < len(digits) < 10 else None
        last = state["last"]
        if here is None or last is None or (here[0], here[2]) != (last[0], last[2]) or here[1] != last[1] + 1:
            state["number"] += 1
        state["last"] = here
        number: int = state["number"]
        return number

    return key


def _try_run(name: str) -> list[str] | None:
    try:
        return run_of(name)
    except SchemaError:
        return None


def _is_literal(name: str, keys: Any) -> bool:
    literal = keys.get("literal", False) if isinstance(keys, Mapping) else False
    if not isinstance(literal, bool):
        wrong = f"column {name!r} has literal = {literal!r}, but it must be true or false"
        raise SchemaError(wrong, hint=f"write literal = true if a column is called {name!r}")
    return literal


def _as_literal(name: str, keys: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys of a single column, marked if its name looks like a run."""
    try:
        is_run = run_of(name) is not None
    except SchemaError:
        is_run = True
    return {**keys, "literal": True} if is_run else keys


def check_keys(content: Any, keys: tuple[str, ...], where: str) -> None:
    """Refuse what is not a table of these keys."""
    if not isinstance(content, Mapping):
        raise SchemaError(f"{where} is not a table of keys", hint=f"write it as a table with keys of: {listing(keys)}")
    for key in content:
        if key not in keys:
            raise SchemaError(f"{where} has an unknown key {key!r}", hint=f"use {nearest(str(key), keys)}")


def _column(name: str, keys: Any, numbers: Mapping[str, Any], default: Mapping[str, Any]) -> Column:
    """A column. `numbers` are the table's keys for columns of numbers, which the column may override."""
    where = f"column {name!r}"
    if not isinstance(keys, Mapping):
        raise SchemaError(f"{where} is not a table of keys", hint=f"write it as [column.{toml.key(name)}]")
    if "kind" not in keys:
        raise SchemaError(f"{where} has no kind", hint=f'write kind = "integer", or another of: {listing(KINDS)}')
    if keys["kind"] not in tuple(KINDS):
        wrong = f"{where} has an unknown kind {keys['kind']!r}"
        raise SchemaError(wrong, hint=f"use {nearest(str(keys['kind']), KINDS)}")
    kind = KINDS[keys["kind"]]
    check_keys(keys, ("kind", *kind.extra_keys, *_COLUMN_KEYS, "literal"), where)
    given = {**default, **{key: value for key, value in keys.items() if key not in ("kind", "literal")}}
    if issubclass(kind, NumericColumn):
        given = {**numbers, **given}
    if "missing" in given:
        codes = given["missing"]
        given["missing"] = [_missing_code(code, where) for code in codes] if isinstance(codes, list) else codes
    return kind(name, **given)


def _missing_code(code: Any, where: str) -> Any:
    if not isinstance(code, Mapping):
        return code
    check_keys(code, _CODE_KEYS, f"{where}, missing")
    more = {key: code[key] for key in ("kind", "label") if key in code}
    if "code" in code and not {"from", "to"} & set(code):
        return MissingCode(code["code"], **more)
    if "code" in code or not {"from", "to"} <= set(code):
        wrong = f"{where} has an item of missing without the key code, or without both from and to"
        raise SchemaError(wrong, hint=_CODE_HINT)
    return MissingRange(code["from"], code["to"], **more)


def column_keys(column: Column) -> dict[str, Any]:
    """The keys of a column in a TOML file: all that differ from their defaults."""
    keys: dict[str, Any] = {"kind": column.kind}
    defaults = {field.name: field.default for field in fields(column)}
    for key in (*column.extra_keys, *_COLUMN_KEYS):
        value = getattr(column, key)
        default = column.default_outside if key == "outside" else defaults[key]
        if value == default:
            continue
        if key == "difference":
            value = str(value)
        elif key == "missing" and difference_of(column):
            continue  # those of the column that follows from it
        elif key == "missing":
            value = [_code_keys(code) for code in value]
        elif key == "labels":
            value = dict(value)
        keys[key] = list(value) if isinstance(value, tuple) else value
    return keys


def _code_keys(code: MissingCode | MissingRange) -> Any:
    more = ({} if code.kind == "unknown" else {"kind": code.kind}) | ({"label": code.label} if code.label else {})
    if isinstance(code, MissingRange):
        return {"from": code.least, "to": code.most, **more}
    return {"code": code.code, **more} if more else code.code
