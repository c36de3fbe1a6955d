"""Conditions fitted to a schema: what each comes to for the codes of a row.

**Gaps.** A comparison with a gap, or with *not applicable*, is neither true nor false but *unknown*. And is the least,
or the greatest of false < unknown < true; not turns true into false and leaves unknown as it is (Kleene 1952). A row is
counted if the condition is true for it. Only `is missing` and `is not missing` look at the gap itself, and only
`is not applicable` and `is applicable` at that. What becomes of gaps before, whether such rows are left out or filled,
is up to the question (treatments.py).

**Cells.** A comparison may cut through a bin of a column, but not through a cell: a sealed table knows nothing finer.
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
from gapless.schema.columns import Column, as_text
from gapless.schema.numeric import BinnedColumn
from gapless.types import Codes

Truth: TypeAlias = NDArray[np.int8]
CompiledCondition: TypeAlias = Callable[[Mapping[str, Codes]], Truth]

TRUE, UNKNOWN, FALSE = np.int8(1), np.int8(0), np.int8(-1)
MOST_VALUES = 100  # groups or classes of a column whose bins are not declared


def refined_columns(condition: Condition, schema: Schema) -> dict[str, Column]:
    """The columns with a bin that the condition splits, cut also where it splits them; without bins, there alone.

    Rows that a condition cannot tell apart should look alike: a hot deck takes its time for each kind of row.
    """
    lines = {column.name: column for column in schema.columns if isinstance(column, BinnedColumn)}
    compared = [found for found in comparisons(condition) if found.column in lines and found.sign != "is"]
    split = dict.fromkeys(
        found.column for found in compared if _unbinned(lines[found.column]) or _splits(lines[found.column], found)
    )
    return {name: _cut(lines[name], [found for found in compared if found.column == name]) for name in split}


def _splits(column: BinnedColumn, comparison: Comparison) -> bool:
    try:
        comparison_mask(column, comparison.sign, comparison.value)
    except SchemaError:
        return True
    return False


def _unbinned(column: BinnedColumn) -> bool:
    """Whether nothing is grouped or matched by its bins: they are not declared, and its values are too many."""
    return column.has_learned_bins and column.size > MOST_VALUES


def _cut(column: BinnedColumn, comparisons: Sequence[Comparison]) -> BinnedColumn:
    """Cells in groups: of one declared bin, and alike for all comparisons."""
    fine = column.finest
    begins = np.any([np.diff(comparison_mask(fine, found.sign, found.value)) for found in comparisons], axis=0)
    if not _unbinned(column):
        begins |= np.diff(bin_of_code(fine, column)[: fine.values_size]) > 0
    cuts = fine.intervals.cuts  # where its cells begin, and where the last one ends
    return fine.with_cuts(cuts[np.concatenate([[True], begins, [True]])])


def compile_condition(condition: Condition, schema: Schema) -> CompiledCondition:
    """The condition as a function of the codes of each row by itself; columns and values are checked here."""
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
            raise QuestionError(
                f"column {column!r} is never between {low} and {high}", hint="the lower value first, within its bounds"
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
            raise QuestionError(f"column {name!r} is always applicable", hint=f"{quote_name(name)} is missing")
        table[: column.size] = np.where(np.arange(column.size) == column.values_size, TRUE, FALSE)
        return table
    for code in column.missing:
        if code.code == as_text(value):
            states = "not applicable" if code.kind == "not-applicable" else "missing"
            raise QuestionError(
                f"{value!r} is no value of column {name!r} but a code for {states}",
                hint=f"{quote_name(name)} is {states}",
            )
    table[: column.values_size] = np.where(comparison_mask(column, sign, value), TRUE, FALSE)
    return table


def known_column(schema: Schema, name: str) -> str:
    """The name of a column that can be asked about."""
    if name in schema.ignore:
        raise QuestionError(
            f"the schema leaves column {name!r} out, so nothing is known of its cells",
            hint="declare it with levels or bounds; free text cannot be asked about",
        )
    schema.positions([name])
    return name
