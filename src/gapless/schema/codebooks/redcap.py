"""REDCap data dictionaries: the CSV that a project exports of its forms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gapless.schema.codebooks.branching import rules_of_branching
from gapless.schema.codebooks.entries import (
    Contents,
    Entry,
    EntryType,
    check_codes,
    check_size,
    error,
    gaps_by_label,
    number_of,
)
from gapless.schema.gap_codes import MissingCode
from gapless.schema.gap_words import is_gap
from gapless.schema.schema import Constraint
from gapless.text import shortened

# The beginnings of the headers, as the export of a project and as the API write them.
_PARTS: dict[str, tuple[str, ...]] = {
    "name": ("variable / field name", "field_name", "variable"),
    "form": ("form name", "form_name"),
    "type": ("field type", "field_type"),
    "label": ("field label", "field_label"),
    "choices": ("choices", "select_choices"),
    "validation": ("text validation type", "text_validation_type"),
    "low": ("text validation min", "text_validation_min"),
    "high": ("text validation max", "text_validation_max"),
    "identifier": ("identifier",),
    "branching": ("branching logic", "branching_logic"),
}
_FREE_TEXT = {
    "notes": "free text",
    "file": "an uploaded file",
    "signature": "a signature",
    "sql": "choices from a query, which the dictionary does not list",
}
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,1000}>")
_NOT_DATA = ("descriptive",)
_VALIDATION: dict[str, EntryType] = {
    "integer": "integer",
    "number": "number",
    **{f"number_{digits}dp": "number" for digits in range(1, 5)},
}
_SYSTEM = (
    *("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance", "redcap_data_access_group"),
    "redcap_survey_identifier",
)


def is_redcap(header: Sequence[str]) -> bool:
    """Whether a header is that of a REDCap data dictionary."""
    lower = [cell.lower().strip() for cell in header]
    return all(any(cell.startswith(_PARTS[part]) for cell in lower) for part in ("name", "type")) and any(
        cell.startswith((*_PARTS["choices"], *_PARTS["form"])) for cell in lower
    )


def read_redcap(header: Sequence[str], rows: Iterator[tuple[int, list[str]]], path: Path) -> Contents:
    """The columns of the data that a project exports, raw, with codes."""
    places = {part: _place(header, names) for part, names in _PARTS.items()}
    entries: list[Entry] = []
    branching: list[tuple[str, list[str]]] = []  # the logic of a field, and its columns
    forms: dict[str, None] = {}
    first = ""
    for number, cells in rows:
        row = {part: cells[p] if p is not None and p < len(cells) else "" for part, p in places.items()}
        if not any(row.values()):
            continue
        row["label"] = _without_markup(row["label"])
        where = f"row {number} of {path.name}"
        if not row["name"]:
            raise error(where, "has no field name", "write the name of the field, or remove the row")
        forms.setdefault(row["form"])
        if row["type"].lower() in _NOT_DATA:
            continue
        first = first or row["name"]
        made = _entries(row, where)
        if row["branching"]:
            branching.append((row["branching"], [entry.name for entry in made]))
        entries += made
        check_size(entries, path.name)
    known = {entry.name: entry for entry in entries}
    rules: list[tuple[Constraint, frozenset[str]]] = []
    for logic, columns in branching:
        found = rules_of_branching(logic, columns, known)
        rules += found.rules
        for column in columns:
            known[column] = _not_asked(known[column], found.remark)
    extra = [f"{form}_complete" for form in forms if form] + [f"{form}_timestamp" for form in forms if form]
    return Contents(
        path.name.split(".")[0] or "table",
        tuple(known[entry.name] if known[entry.name].where == entry.where else entry for entry in entries),
        constraints=tuple(rules),
        person=first if first and not any(entry.name == first and entry.codes for entry in entries) else "",
        ignore=(*extra, *_SYSTEM),
    )


def _place(header: Sequence[str], names: tuple[str, ...]) -> int | None:
    return next((place for place, cell in enumerate(header) if cell.lower().strip().startswith(names)), None)


def _not_asked(entry: Entry, remark: str) -> Entry:
    """A column with branching logic: an empty cell means that nobody asked, and is never imputed."""
    empty = MissingCode("", "not-asked", "not shown by the branching logic")
    if entry.left_out:
        return entry
    remarks = ["empty cells are taken as not asked, because of its branching logic; other empty cells look the same"]
    remarks += [remark] if remark else []
    return replace(entry, missing=(*entry.missing, empty), is_required=True, remarks=(*entry.remarks, *remarks))


def _entries(row: dict[str, str], where: str) -> list[Entry]:
    """The columns of a field: one, or one for each choice of a checkbox."""
    name, kind = row["name"], row["type"].lower().strip()
    common: dict[str, Any] = {"label": row["label"]}
    if row["identifier"].lower() in ("y", "yes"):
        return [Entry(name, where, left_out="the dictionary marks it as an identifier", **common)]
    if kind in _FREE_TEXT:
        return [Entry(name, where, left_out=_FREE_TEXT[kind], **common)]
    if kind in ("radio", "dropdown", "checkbox"):
        choices = _choices(row["choices"], name, where)
        if kind != "checkbox":
            return [_with_gaps(Entry(name, where, codes=choices, is_closed=True, **common))]
        return [
            Entry(
                f"{name}___{_in_name(code)}",
                where,
                label=f"{row['label']}: {label}",
                type="boolean",
                spelling=("0", "1"),
            )
            for code, label in choices
        ]
    if kind in ("yesno", "truefalse"):
        codes = (("0", "No"), ("1", "Yes")) if kind == "yesno" else ()
        return [Entry(name, where, type="boolean", spelling=("0", "1"), codes=codes, **common)]
    if kind == "slider":
        bounds = (_end(row, "low", where), _end(row, "high", where))
        given = tuple(usual if end is None else end for end, usual in zip(bounds, (0, 100), strict=True))
        return [Entry(name, where, type="integer", bounds=(given[0], given[1]), **common)]
    if kind == "calc":
        return [Entry(name, where, type="number", remarks=("it is calculated by the form",), **common)]
    if kind == "text":
        return [_text(row, where, common)]
    hint = (
        "write one of: text, notes, radio, dropdown, checkbox, yesno, truefalse, slider, calc, descriptive, file, sql"
    )
    raise error(where, f"has an unknown field type {shortened(kind, 40)!r}", hint)


def _with_gaps(entry: Entry) -> Entry:
    """Choices that name gaps are gaps, and are asked about."""
    named = [(code, label) for code, label in entry.codes if is_gap(code, label)]
    remarks = (gaps_by_label(named),) if named else ()
    return replace(entry, missing=tuple(MissingCode(code) for code, _ in named), remarks=(*entry.remarks, *remarks))


def _choices(text: str, name: str, where: str) -> tuple[tuple[str, str], ...]:
    r"""The codes and labels of choices: `1, Yes | 2, No`.

    >>> _choices("1, Yes | 2, No, never", "smoker", "row 2")
    (('1', 'Yes'), ('2', 'No, never'))
    """
    parts = [part.strip() for part in re.split(r"\||\n", text) if part.strip()]
    pairs = []
    for part in parts:
        code, comma, label = part.partition(",")
        if not comma or not code.strip():
            wrong = f"has the choice {shortened(part, 40)!r} of {name!r}, which is not a code, a comma and a label"
            raise error(where, wrong, "write the choices like 1, Yes | 2, No")
        pairs.append((code, _without_markup(label)))
    if not pairs:
        raise error(where, f"has no choices for {name!r}", "write the choices like 1, Yes | 2, No")
    return check_codes(pairs, name, where)


def _without_markup(text: str) -> str:
    """A text of a form without its HTML tags.

    >>> _without_markup('Region <div style="color:red">of the clinic</div>, if age < 5')
    'Region of the clinic, if age < 5'
    """
    return " ".join(_TAG.sub("", text.replace("<br", " <br").replace("<div", " <div")).split())


def _in_name(code: str) -> str:
    """A code as the export writes it into the name of a column."""
    return re.sub(r"[^a-z0-9_]", "_", code.lower())


def _text(row: dict[str, str], where: str, common: dict[str, Any]) -> Entry:
    """A text field, which is a number or a date if its answers are validated so."""
    name, validation = row["name"], row["validation"].lower().strip()
    comma = validation.endswith("_comma_decimal")
    kind = _VALIDATION.get(validation.removesuffix("_comma_decimal"))
    if kind is not None:
        digits = re.search(r"_(\d)dp", validation)
        bounds = (_end(row, "low", where), _end(row, "high", where))
        return Entry(
            name,
            where,
            type=kind,
            bounds=bounds,
            resolution=10.0 ** -int(digits[1]) if digits else None,
            remarks=tuple(_odd_ends(row)),
            more=(("decimal", ","),) if comma else (),
            **common,
        )
    if validation.startswith(("date_", "datetime_")):
        dated: EntryType = "date" if validation.startswith("date_") else "datetime"
        seconds = (("resolution", "second"),) if "seconds" in validation else ()
        ends = (row["low"] or None, row["high"] or None)
        return Entry(name, where, type=dated, bounds=ends, remarks=tuple(_odd_ends(row)), more=seconds, **common)
    why = f"text validated as {validation}" if validation else "free text"
    return Entry(name, where, left_out=why, **common)


def _end(row: dict[str, str], part: str, where: str) -> float | None:
    text = row[part].replace(",", ".")
    if not text or _is_computed(text):
        return None
    if (number := number_of(text)) is None:
        raise error(
            where, f"has the validation limit {shortened(text, 40)!r} of {row['name']!r}, which is not a number"
        )
    return number


def _is_computed(text: str) -> bool:
    """Whether a limit depends on the day or on another field."""
    return text.lower() in ("today", "now") or "[" in text


def _odd_ends(row: dict[str, str]) -> Iterator[str]:
    for part in ("low", "high"):
        if _is_computed(row[part]):
            yield f"its limit {row[part]!r} depends on the day or on other fields"
