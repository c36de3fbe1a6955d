"""Public values beside the cells of a column: for constraints, for questions, and for samples given some cells."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import SIGNS
from gapless.errors import SchemaError
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Boolean, Column, LevelColumn, Ordinal, as_text
from gapless.schema.numeric import TINY, BinnedColumn

CLOSE = 1e-9  # of the narrowest bin: as near to an edge is on it
BEGIN = {"year": (re.compile(r"\d{4}"), "-01-01"), "month": (re.compile(r"\d{4}-\d{2}"), "-01")}


def comparison_mask(column: Column, sign: str, value: str) -> NDArray[np.bool_]:
    """For each level or bin of a column, whether the comparison holds.

    A comparison that would be true for a part of a bin only is refused: nothing finer than a bin is known.

    >>> from gapless.schema.numeric import Integer
    >>> holds(Integer("age", bounds=(18, 90), bins=3), ">=", "42").tolist()
    [False, True, True]
    """
    if isinstance(column, BinnedColumn):
        return _bins_hold(column, sign, value)
    if not isinstance(column, LevelColumn) or (sign not in ("==", "!=") and not isinstance(column, Ordinal)):
        raise SchemaError(f"column {column.name!r} has no order", hint="== or !=, or make it ordinal")
    code = _code_of(column, value)
    if code >= column.values_size:
        raise SchemaError(f"column {column.name!r} is compared with {value!r}", hint="one of its levels")
    levels: NDArray[np.bool_] = SIGNS[sign](np.arange(column.values_size), code)
    return levels


def position_of(column: Column, value: str) -> float:
    """A public value as a number on a column's line; of levels, the place of one among them."""
    if isinstance(column, BinnedColumn):
        return column.position(_moment(column, value))
    return float(_code_of(column, value))


def cell_of(column: Column, value: object) -> tuple[int, float]:
    """The code of the observed cell that a public value falls into, and the value on the column's line.

    The value may also be the name of a cell. A cell, and a value that is on no line, has NaN there.

    >>> from gapless.schema.numeric import Integer
    >>> age = Integer("age", bounds=(18, 90), bins=3)
    >>> cell_of(age, 50), cell_of(age, "42..65")
    ((1, 50.0), (1, nan))
    """
    text = as_text(value)
    if isinstance(column, BinnedColumn) and text not in column.cells[: column.size]:
        position = column.position(_moment(column, text))
        if not column.contains(np.array([position])).all():
            first, last = column.bounds
            steps = " in whole steps" if column.has_whole_values else ""
            raise SchemaError(f"column {column.name!r} has no value {text}", hint=f"from {first} to {last}{steps}")
        return int(column.bin_of(np.array([position]))[0]), position
    return _code_of(column, text), math.nan


def _code_of(column: Column, text: str) -> int:
    """The code of a cell by its name; a boolean may be written as the file writes it."""
    if isinstance(column, Boolean):
        text = as_text({**column.spellings, **column.reads}.get(text.lower(), text))
    return column.code_of(text)


def _bins_hold(column: BinnedColumn, sign: str, value: str) -> NDArray[np.bool_]:
    lows, highs = column.bin_ranges()
    position = _at_edge(column.position(_moment(column, value)), np.append(lows, highs[-1]))
    compare = SIGNS[sign]
    at_low, at_high = compare(lows, position), compare(highs, position)
    inside = (lows < position) & (position < highs)
    split = (at_low != at_high) | (inside & (sign in ("==", "!=")))
    if split.any():
        cut = int(np.flatnonzero(split)[0])
        edges = [column.label(edge) for edge in np.append(lows, highs[-1])[cut : cut + 2]]
        if sign in ("==", "!="):
            hint = f">= {edges[0]} and {'<' if cut + 1 < len(lows) else '<='} {edges[1]}: the whole bin"
        elif position == lows[cut]:
            hint = f"{'<' if sign == '<=' else '>='} {edges[0]}: a bin begins there and holds its lower edge"
        else:
            finer = "a finer resolution" if column.has_learned_bins else "edges = [...]"
            hint = f"< or >= with the nearest edges: {' and '.join(edges)}; or a bin edge there by {finer}"
        raise SchemaError(f"{sign} {value} splits a bin of column {column.name!r} at {value}", hint=hint)
    bins: NDArray[np.bool_] = at_low
    return bins


def _at_edge(position: float, edges: NDArray[np.float64]) -> float:
    """The edge that is meant: 0.3 is not to the last bit the third of ten equal parts of 1."""
    nearest = float(edges[np.abs(edges - position).argmin()])
    widths = np.diff(edges)
    narrowest = float(widths[widths > TINY].min(initial=np.inf))  # the cell of 0 alone has no width to speak of
    return nearest if abs(nearest - position) <= CLOSE * narrowest else position


def _moment(column: BinnedColumn, value: str) -> str:
    """A year or a month as the day on which it begins, for columns that know nothing finer."""
    if isinstance(column, CalendarColumn) and (start := BEGIN.get(column.resolution)) and start[0].fullmatch(value):
        return value + start[1]
    return value
