"""Conditions compiled for a schema: functions from the codes of rows to truth values.

**Gaps.** A comparison with a gap or with *not applicable* is *unknown*. With false < unknown < true, `and` is the
minimum, `or` the maximum, and `not` exchanges true and false (Kleene 1952). A row counts if the condition is true for
it. Only `is missing` and `is not missing` test for gaps. Only `is not applicable` and `is applicable` test for that
state. The treatment of the question (treatments.py) drops or fills gaps before.

**Cells.** A comparison may split a bin of a column but not a cell: a sealed table stores nothing finer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import And, Comparison, Condition, IsMissing, Not, Or, comparisons, quote_name
from gapless.constraints.predicates import comparison_mask
from gapless.data.row_contribution import bin_of_code
from gapless.errors import QuestionError, SchemaError
from gapless.schema import Schema
from gapless.schema.columns import Column
from gapless.schema.gap_codes import as_text
from gapless.schema.numeric import BinnedColumn
from gapless.types import Codes

Truth: TypeAlias = NDArray[np.int8]
CompiledCondition: TypeAlias = Callable[[Mapping[str, Codes]], Truth]

TRUE, UNKNOWN, FALSE = np.int8(1), np.int8(0), np.int8(-1)
MAX_VALUES = 100  # groups or classes of a column whose bins are not declared


def refined_columns(condition: Condition, schema: Schema) -> dict[str, Column]:
    """The columns with a bin that the condition splits, with additional cuts where it splits them.

    Columns without declared bins have cuts only there. Cuts are as few as possible, because the time of a hot deck
    grows with the number of different rows.
    """
    binned = {column.name: column for column in schema.columns if isinstance(column, BinnedColumn)}
    compared = [found for found in comparisons(condition) if found.column in binned and found.sign != "is"]
    split = dict.fromkeys(
        found.column
        for found in compared
        if has_many_undeclared_bins(binned[found.column]) or _splits(binned[found.column], found)
    )
    return {name: _cut(binned[name], [found for found in compared if found.column == name]) for name in split}


def _splits(column: BinnedColumn, comparison: Comparison) -> bool:
    try:
        comparison_mask(column, comparison.sign, comparison.value)
    except SchemaError:
        return True
    return False


def has_many_undeclared_bins(column: BinnedColumn) -> bool:
    """Whether a column has no declared bins and too many values to use them as groups."""
    return column.has_learned_bins and column.size > MAX_VALUES


def _cut(column: BinnedColumn, comparisons: Sequence[Comparison]) -> BinnedColumn:
    """The column with bins that no comparison splits, within its declared bins."""
    finest = column.finest
    begins = np.any([np.diff(comparison_mask(finest, found.sign, found.value)) for found in comparisons], axis=0)
    if not has_many_undeclared_bins(column):
        begins |= np.diff(bin_of_code(finest, column)[: finest.values_size]) > 0
    cuts = finest.intervals.cuts  # where its cells begin, and where the last one ends
    return finest.with_cuts(cuts[np.concatenate([[True], begins, [True]])])


def compile_condition(condition: Condition, schema: Schema) -> CompiledCondition:
    """Compile a condition to a function that maps the codes of each row to a truth value. Checks columns and values."""
    match condition:
        case Comparison(column, sign, value):
            truths = _comparison(schema, column, sign, value)
            return lambda columns: truths[columns[column]]
        case IsMissing(column):
            asked = schema[known_column(schema, column)]
            table = np.full(asked.extended_size, FALSE)
            table[asked.size :] = TRUE
            return lambda columns: table[columns[column]]
        case Not(negated):
            inner = compile_condition(negated, schema)
            return lambda columns: np.negative(inner(columns))
        case And((Comparison(column, ">=", low), Comparison(other, "<=", high))) if (
            column == other
            and not (
                (_comparison(schema, column, ">=", low) == TRUE) & (_comparison(schema, column, "<=", high) == TRUE)
            ).any()
        ):
            known = schema[column]
            ends = known.bounds if isinstance(known, BinnedColumn) else known.cells[: known.values_size]
            raise QuestionError(
                f"no value of column {column!r} is between {low} and {high}",
                hint=f"write the lower value first, and values from {ends[0]} to {ends[-1]}",
            )
        case And(parts) | Or(parts):
            compiled = [compile_condition(part, schema) for part in parts]
            join = np.minimum if isinstance(condition, And) else np.maximum
            return lambda columns: reduce(join, (part(columns) for part in compiled))
    return lambda columns: np.full(len(next(iter(columns.values()))), TRUE)


def _comparison(schema: Schema, name: str, sign: str, value: str) -> Truth:
    column = schema[known_column(schema, name)]
    table = np.full(column.extended_size, UNKNOWN)
    if sign == "is":
        if column.not_applicable is None:
            raise QuestionError(
                f"cells of column {name!r} cannot be not applicable: the schema declares no code for that",
                hint=f"write {quote_name(name)} is missing, to ask for gaps"
                if column.gaps
                else f"remove the comparison: no cell of {name!r} is missing or not applicable",
            )
        table[: column.size] = np.where(np.arange(column.size) == column.values_size, TRUE, FALSE)
        return table
    for code in column.missing_codes:
        if code.code == as_text(value):
            states = "not applicable" if code.is_structural else "missing"
            raise QuestionError(
                f"{value!r} is not a value of column {name!r} but a code for {states}",
                hint=f"write {quote_name(name)} is {states}",
            )
    table[: column.values_size] = np.where(comparison_mask(column, sign, value), TRUE, FALSE)
    return table


def known_column(schema: Schema, name: str) -> str:
    """Return the name of a column, or refuse one that the schema ignores or does not have."""
    if name in schema.ignore:
        raise QuestionError(
            f"the schema ignores column {name!r}, so its cells were not read",
            hint=f"choose another column; if {name!r} is neither free text nor an identifier of people, remove it from "
            "ignore in the schema and declare it",
        )
    schema.positions([name])
    return name
