"""The public number that each cell of a column stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.constraints.grammar import quote_name
from gapless.errors import Call, Hint, QuestionError
from gapless.schema import Boolean, Date, DateTime, Integer, Number, Ordinal, Schema
from gapless.schema.columns import Column
from gapless.schema.numeric import TINY
from gapless.types import Floats, Integers

STEPS = 1 << 24  # steps of the finest grid to which values are rounded, if they must be
MIN_RANGE = 1e-290  # of values: a step of the grid must still be a normal float
SQUARE_STEPS = 1 << 14  # steps of the grid where values are squared


@dataclass(frozen=True)
class CellNumbers:
    """The number of each level, cell or bin of a column, clamped to public bounds.

    Whole numbers and halves stay exact if the range allows. Others are rounded to a grid of 2⁻²⁴ of the range, or 2⁻¹⁴
    where they are squared.
    """

    column: str
    values: Floats
    ends: tuple[Floats, Floats]
    low: float
    high: float
    caveat: str  # what the numbers leave out, in words

    def steps_above_low(self, most: int = STEPS) -> tuple[Integers, int]:
        """The distance of each value from `low` in steps of a grid, and that of `high`."""
        for halves in (1, 2):
            size = (self.high - self.low) * halves
            steps = (self.values - self.low) * halves
            if size == round(size) <= most and (steps == np.round(steps)).all():
                return steps.astype(np.int64), int(size)
        return np.rint((self.values - self.low) / (self.high - self.low) * most).astype(np.int64), most

    @property
    def signed_steps(self) -> tuple[Integers, float]:
        """Each value in whole steps of a grid around 0, and the size of a step."""
        for step in (1.0, 0.5):
            sizes = self.values / step
            if (sizes == np.round(sizes)).all() and np.abs(sizes).max() <= STEPS:
                return sizes.astype(np.int64), step
        step = max(abs(self.low), abs(self.high)) / STEPS
        return np.rint(self.values / step).astype(np.int64), step


def cell_numbers(schema: Schema, name: str, bounds: tuple[float, float] | None) -> CellNumbers:
    """The numbers of a column: numeric levels, 1 for true, and the middle of cells and bins with several values."""
    column = schema[name]
    about = ""
    if isinstance(column, Integer | Number):
        ends = column.bin_ranges()
        if not column.step:
            ends = ends[0], np.append(ends[0][1:], ends[1][-1])
        values = (ends[0] + ends[1]) / 2
        if (values > ends[0] + TINY).any():  # the cell of 0 alone ends at the next float
            part = f"cell, one of {column.values_size:,}" if column == column.finest else "bin"
            about = f"a value of {name} counts as the middle of its {part}"
    elif isinstance(column, Boolean):
        values = np.array([0.0, 1.0])
        ends = values, values
    elif isinstance(column, Ordinal) and all(type(level) in (int, float) for level in column.levels):
        values = np.array(column.levels, dtype=np.float64)
        ends = values, values
    else:
        raise _not_numeric(column)
    if bounds is not None and (bounds[0] > values.min() or bounds[1] < values.max()):
        values = np.clip(values, *bounds)
        about += f"{'; ' if about else ''}values of {name} are clamped to [{bounds[0]:g}, {bounds[1]:g}]"
    if column.not_applicable is not None:
        about += f"{'; ' if about else ''}rows where {name} is not applicable are left out"
    low, high = float(values.min()), float(values.max())
    if low == high:
        raise QuestionError(
            f"all values of column {name!r} would count as {low:g}"
            + ("" if bounds is None else f", because they are clamped to bounds ({bounds[0]:g}, {bounds[1]:g})"),
            hint="write more bins or levels for the column in the schema"
            if bounds is None
            else "choose bounds that contain more than one value of the column, or leave the bounds out",
        )
    if not MIN_RANGE <= high - low < np.inf:  # also refuses a level of NaN
        raise QuestionError(
            f"the numbers of column {name!r} must be finite, and their range at least {MIN_RANGE:g}, "
            f"got {low:g} to {high:g}",
            hint=f"declare the column with finite numbers and a range of at least {MIN_RANGE:g} in the schema"
            if bounds is None
            else f"choose bounds at least {MIN_RANGE:g} apart, or leave the bounds out",
        )
    return CellNumbers(name, values, ends, low, high, about)


def _not_numeric(column: Column) -> QuestionError:
    """The error for a question about numbers to a column without numbers."""
    wrong = f"this question needs a column of numbers, but column {column.name!r} has kind {column.kind}"
    name = quote_name(column.name)
    if isinstance(column, Date | DateTime):
        earlier = Call("Proportion", f"{name} < {str(column.bounds[1])!r}")
        return QuestionError(wrong, hint=Hint("ask for the share of earlier cells: ", earlier))
    return QuestionError(
        wrong,
        hint=Hint("ask for the share of a cell: ", Call("Proportion", f"{name} == {column.cells[0]!r}"))
        | Hint('write kind = "integer" in the schema if its values are numbers'),
    )
