"""What a comparison with a public value says of each cell of a column: for constraints and for questions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.errors import SchemaError
from gapless.schema.columns import Column, Ordinal, _Binned, _Levels

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(column: Column, sign: str, value: str) -> NDArray[np.bool_]:
    """For each level or bin of a column, whether the comparison holds.

    A comparison that would be true for a part of a bin only is refused: nothing finer than a bin is known.

    >>> from gapless.schema.columns import Integer
    >>> holds(Integer("age", bounds=(18, 90), bins=3), ">=", "42").tolist()
    [False, True, True]
    """
    if isinstance(column, _Binned):
        return _bins_hold(column, sign, value)
    if not isinstance(column, _Levels) or (sign not in ("==", "!=") and not isinstance(column, Ordinal)):
        raise SchemaError(f"column {column.name!r} has no order", hint="== or !=, or make it ordinal")
    code = column.code_of(value)
    if code >= column.values_size:
        raise SchemaError(f"column {column.name!r} is compared with {value!r}", hint="one of its levels")
    levels: NDArray[np.bool_] = SIGNS[sign](np.arange(column.values_size), code)
    return levels


def _bins_hold(column: _Binned, sign: str, value: str) -> NDArray[np.bool_]:
    position = column.position(value)
    lows, highs = column.ends_of_bins()
    compare = SIGNS[sign]
    at_low, at_high = compare(lows, position), compare(highs, position)
    inside = (lows < position) & (position < highs)
    split = (at_low != at_high) | (inside & (sign in ("==", "!=")))
    if split.any():
        cut = int(np.flatnonzero(split)[0])
        starts = " and ".join(column.label(start) for start in lows[cut : cut + 2])
        raise SchemaError(
            f"{sign} {value} splits a bin of column {column.name!r} at {value}",
            hint=f"< or >= with the nearest edges: {starts}; or put a bin edge at {value}: edges = [...]",
        )
    bins: NDArray[np.bool_] = at_low
    return bins
