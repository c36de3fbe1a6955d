"""What a codebook says about one column, in a form that all formats share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gapless.errors import SchemaError
from gapless.schema.gap_codes import MissingCode, MissingRange, as_text
from gapless.schema.schema import Constraint
from gapless.text import shortened

EntryType: TypeAlias = Literal["", "number", "integer", "text", "date", "datetime", "boolean"]
Measure: TypeAlias = Literal["", "nominal", "ordinal", "scale"]
MOST_COLUMNS = 20_000
MOST_LETTERS = 200  # of a description: the text of a question may have pages


@dataclass(frozen=True)
class Entry:
    """What a codebook says about a column. Attributes that it does not state are empty.

    Attributes:
        name: the name of the column.
        where: the place in the codebook, for errors.
        label: what the column is about.
        type: the type of its values.
        measure: the measurement level: nominal, ordinal or scale.
        codes: the codes of its values and of its gaps, each with its label.
        is_closed: whether it can have no other values than these codes.
        missing: the codes and ranges that the codebook declares as missing.
        bounds: the lowest and the highest value, each None if not given.
        is_required: whether no cell may be empty.
        resolution: the step between values.
        digits: the digits of its values, if the codebook gives a width for it.
        format: the format of dates in the data.
        spelling: the texts for false and true in the data.
        is_id: whether the codebook calls it an identifier.
        left_out: why the column cannot be used; empty if it can.
        remarks: what the codebook says and a schema cannot express.
        more: further keys of the column in a schema file.
    """

    name: str
    where: str
    label: str = ""
    type: EntryType = ""
    measure: Measure = ""
    codes: tuple[tuple[str, str], ...] = ()
    is_closed: bool = False
    missing: tuple[MissingCode | MissingRange, ...] = ()
    bounds: tuple[Any, Any] = (None, None)
    is_required: bool = False
    resolution: float | None = None
    digits: int | None = None
    format: str | None = None
    spelling: tuple[str, str] | None = None
    is_id: bool = False
    left_out: str = ""
    remarks: tuple[str, ...] = ()
    more: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Contents:
    """All that was read from a codebook.

    Attributes:
        name: the name of the table.
        entries: its columns, in order.
        description: the description of the table.
        constraints: rules that follow from routing, each with the columns that it names.
        person: the column with the id of a person, if the codebook names it.
        ignore: further columns that data files of this kind may have.
        table_keys: further keys of the table in a schema file, such as its separator.
    """

    name: str
    entries: tuple[Entry, ...]
    description: str = ""
    constraints: tuple[tuple[Constraint, frozenset[str]], ...] = ()
    person: str = ""
    ignore: tuple[str, ...] = ()
    table_keys: tuple[tuple[str, Any], ...] = ()


def error(where: str, wrong: str, hint: str = "correct the codebook, or remove this part of it") -> SchemaError:
    """An error about a place in a codebook."""
    return SchemaError(f"{where} {wrong}", hint=hint)


def check_size(columns: Sized, where: str) -> None:
    """Refuse a codebook of more columns than can be handled."""
    if len(columns) > MOST_COLUMNS:
        hint = "remove the columns that you do not need from the codebook"
        raise error(where, f"describes more than {MOST_COLUMNS:,} columns", hint)


def check_codes(codes: Iterable[tuple[Any, Any]], name: str, where: str) -> tuple[tuple[str, str], ...]:
    """Codes and labels as texts, each code once. Refuses a code with two labels, or without a text.

    >>> check_codes([(1.0, " Yes "), (2, "No"), ("1", "Yes")], "smoker", "row 3")
    (('1', 'Yes'), ('2', 'No'))
    """
    found: dict[str, str] = {}
    for code, label in codes:
        text, meaning = as_text(code), " ".join(str(label).split())
        if not text:
            raise error(where, f"has a code of column {name!r} without a text")
        if found.setdefault(text, meaning) != meaning:
            wrong = (
                f"has two labels for the code {shortened(text, 40)!r} of column {name!r}: "
                f"{shortened(found[text], 40)!r} and {shortened(meaning, 40)!r}"
            )
            raise error(where, wrong, "keep one of the two labels")
    return tuple(found.items())


def number_of(text: object) -> float | None:
    """A finite number, or None for what is none.

    >>> number_of("12.0"), number_of("twelve"), number_of("")
    (12.0, None, None)
    """
    try:
        number = float(str(text).strip())
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def as_number(number: float) -> int | float:
    """An integer if the number is whole."""
    return int(number) if number == int(number) and abs(number) < 2**53 else number


def short(text: object) -> str:
    """A text on one line, short enough for a description."""
    return shortened(" ".join(str(text).split()), MOST_LETTERS)


def gaps_by_label(codes: Iterable[tuple[str, str]]) -> str:
    """What is asked about codes whose labels name gaps."""
    listed = ", ".join(f"{code} {label!r}" for code, label in codes)
    return f"labels show that these codes are gaps: {shortened(listed, 120)}"
