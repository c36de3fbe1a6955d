r"""The column of a file that follows from a difference and the column that it is counted from.

.. math:: \text{discharge} = \text{admission} + \text{difference}

It is moved to the nearest bound of its schema if it is beyond. The schema's check of bounds ensures that the difference
is then still within its own bounds (`schema/difference.py`): nobody leaves before they came.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.schema import Column
from gapless.schema.calendar import CalendarColumn
from gapless.schema.difference import Difference, in_steps
from gapless.schema.numeric import BinnedColumn
from gapless.types import Codes, Floats


def minuend_cells(
    column: Column, difference: Difference, codes: Codes, values: Floats, subtrahend: Floats
) -> tuple[BinnedColumn, NDArray[np.int64], NDArray[Any], NDArray[np.bool_]]:
    """The minuend, its codes and values, and which cells have a value; other values mean nothing.

    Args:
        column: the difference.
        difference: its two columns.
        codes: of the difference. A cell without a value has the state of the difference.
        values: of the difference, NaN where it has none.
        subtrahend: the values of the subtrahend. Without one, a cell is the first kind of gap.
    """
    minuend = difference.minuend
    sums = minuend.intervals.from_steps(in_steps(minuend, values) + in_steps(minuend, subtrahend))
    filled = ~np.isnan(sums)
    positions = np.where(filled, np.clip(sums, *minuend.limits), minuend.limits[0])
    states = {column.code_of_gap(kind): minuend.code_of_gap(kind) for kind in column.gaps}
    if column.not_applicable is not None:
        states[column.code_of_gap("not-applicable")] = minuend.code_of_gap("not-applicable")
    found = minuend.bin_of(positions)
    if not filled.all():
        found[~filled] = minuend.code_of_gap(minuend.gaps[0]) if minuend.gaps else 0
    for state, code in states.items():
        found[codes == state] = code
    drawn: NDArray[Any] = positions.astype(np.int64) if minuend.has_whole_values else positions
    return minuend, found, drawn.astype(minuend.unit) if isinstance(minuend, CalendarColumn) else drawn, filled
