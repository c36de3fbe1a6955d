"""Comparison of public values with the cells of a column, for constraints, questions and conditional samples."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import SIGNS
from gapless.errors import SchemaError
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Boolean, Column, Ordinal
from gapless.schema.gap_codes import as_text
from gapless.schema.numeric import TINY, BinnedColumn, Integer
from gapless.text import listing

TOLERANCE = 1e-9  # of the narrowest bin: a value this near to an edge counts as the edge
FIRST_DAY = {"year": (re.compile(r"\d{4}"), "-01-01"), "month": (re.compile(r"\d{4}-\d{2}"), "-01")}


def comparison_mask(column: Column, sign: str, value: str) -> NDArray[np.bool_]:
    """For each level or bin of a column, whether the comparison holds.

    A comparison that holds for only a part of a bin is refused, because a table stores nothing finer than bins.

    >>> from gapless.schema.numeric import Integer
    >>> comparison_mask(Integer("age", bounds=(18, 90), bins=3), ">=", "42").tolist()
    [False, True, True]
    """
    if isinstance(column, BinnedColumn):
        return _bin_mask(column, sign, value)
    check_ordered(column, sign)
    code = _code_of(column, value)
    if code >= column.values_size:
        wrong = f"column {column.name!r} is compared with {value!r}, which is not one of its levels"
        raise SchemaError(wrong, hint=f"use one of: {listing(column.value_cells)}")
    levels: NDArray[np.bool_] = SIGNS[sign](np.arange(column.values_size), code)
    return levels


def check_ordered(column: Column, sign: str) -> None:
    """Refuse to order the levels of a column that is not ordinal."""
    if sign not in ("==", "!=") and not isinstance(column, Ordinal):
        raise SchemaError(
            f"column {column.name!r} has no order, so {sign} cannot compare its levels",
            hint='use == or !=, or write kind = "ordinal" for the column in the schema',
        )


def position_of(column: Column, value: str) -> float:
    """A public value as a number. For levels, the number is the position of the level."""
    if isinstance(column, BinnedColumn):
        return column.position(_as_day(column, value))
    return float(_code_of(column, value))


def cell_of(column: Column, value: object) -> tuple[int, float]:
    """The code of the cell that a public value falls into, and the value as a number.

    The value may also be the name of a cell. The number is then NaN, as for a level.

    >>> from gapless.schema.numeric import Integer
    >>> age = Integer("age", bounds=(18, 90), bins=3)
    >>> cell_of(age, 50), cell_of(age, "42..65")
    ((1, 50.0), (1, nan))
    """
    text = as_text(value)
    if isinstance(column, BinnedColumn) and text not in column.cells[: column.size]:
        position = column.position(_as_day(column, text))
        if not column.contains(np.array([position])).all():
            first, last = column.bounds
            kind = f"whole number from {first}" if isinstance(column, Integer) else f"{column.kind} from {first}"
            raise SchemaError(f"column {column.name!r} has no value {text}", hint=f"use a {kind} to {last}")
        return int(column.bin_of(np.array([position]))[0]), position
    return _code_of(column, text), math.nan


def _code_of(column: Column, text: str) -> int:
    """The code of a cell by its name. A boolean may be written as in the file."""
    if isinstance(column, Boolean):
        text = as_text({**column.spellings, **column.reads}.get(text.lower(), text))
    return column.code_of(text)


def _bin_mask(column: BinnedColumn, sign: str, value: str) -> NDArray[np.bool_]:
    lows, highs = column.bin_ranges()
    position = _at_edge(column.position(_as_day(column, value)), np.append(lows, highs[-1]))
    compare = SIGNS[sign]
    at_low, at_high = compare(lows, position), compare(highs, position)
    split = at_low != at_high
    if sign in ("==", "!="):
        split |= (lows < position) & (position < highs)
    if split.any():
        cut = int(np.flatnonzero(split)[0])
        edges = [column.label(edge) for edge in np.append(lows, highs[-1])[cut : cut + 2]]
        is_last = cut + 1 == len(lows)
        if sign == "==":
            hint = f"compare it by >= {edges[0]} and by {'<=' if is_last else '<'} {edges[1]} for the whole bin"
        elif sign == "!=":
            hint = f"compare it by < {edges[0]} or by {'>' if is_last else '>='} {edges[1]} for all other bins"
        elif position == lows[cut]:
            hint = f"write {'<' if sign == '<=' else '>='} {edges[0]}: a bin includes its lower edge"
        else:
            finer = "a finer resolution" if column.has_learned_bins else f"edges with {value} among them"
            hint = f"compare it by < or >= with an edge, {' or '.join(edges)}, or declare {finer} in the schema"
        kind = "step" if column.has_learned_bins else "bin"  # learned bins consist of whole steps of the resolution
        wrong = f"{sign} {value} splits a {kind} of column {column.name!r}, from {edges[0]} to {edges[1]}"
        raise SchemaError(f"{wrong}; a comparison must keep each {kind} whole", hint=hint)
    bins: NDArray[np.bool_] = at_low
    return bins


def _at_edge(position: float, edges: NDArray[np.float64]) -> float:
    """The edge that is meant, up to rounding: 0.3 differs in its last bit from the third of ten equal parts of 1."""
    nearest = float(edges[np.abs(edges - position).argmin()])
    widths = np.diff(edges)
    narrowest = float(widths[widths > TINY].min(initial=np.inf))  # the cell of 0 alone is narrower than any bin
    return nearest if abs(nearest - position) <= TOLERANCE * narrowest else position


def _as_day(column: BinnedColumn, value: str) -> str:
    """The first day of a year or month, for columns of that resolution."""
    if isinstance(column, CalendarColumn) and (start := FIRST_DAY.get(column.resolution)) and start[0].fullmatch(value):
        return value + start[1]
    return value
