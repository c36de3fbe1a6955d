"""A column that is the difference of two others: `difference = "discharge - admission"`.

The file has `discharge` and `admission`. The table that is modelled has `admission` and, in place of `discharge`, its
difference from `admission`. So a rule such as "nobody leaves before they came" is the lower bound of a column, and
`discharge` = `admission` + difference follows when rows are written (`data/derived.py`).

The difference has the states of `discharge`: the same kinds of gaps, and *not applicable*. So `discharge` gets its own
state back, and all that follows from two cells is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gapless.errors import SchemaError
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Column
from gapless.schema.gap_codes import MissingCode, gap_state
from gapless.schema.numeric import BinnedColumn, Integer, NumericColumn
from gapless.text import listing
from gapless.types import Floats

EXAMPLE = 'write difference = "discharge - admission"'


@dataclass(frozen=True)
class Difference:
    """Two columns of the file, the first of which follows from the difference and the second.

    Attributes:
        minuend: the column that is not modelled, and follows.
        subtrahend: the name of the column that is modelled.
    """

    minuend: BinnedColumn
    subtrahend: str

    def __str__(self) -> str:
        return f"{self.minuend.name} - {self.subtrahend}"


def difference_of(column: Column) -> Difference | None:
    """The difference that this column of a schema is; None for all other columns."""
    found = getattr(column, "difference", None)
    return found if isinstance(found, Difference) else None


def file_column(column: Column) -> Column:
    """The column of the file that stands for this column of the schema."""
    found = difference_of(column)
    return column if found is None else found.minuend


def resolve(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns that are modelled: each difference in the place of its minuend."""
    known = {column.name: column for column in columns}
    stated = {
        column.name: (column, *_names(column, known))
        for column in columns
        if isinstance(column, NumericColumn) and column.difference is not None and difference_of(column) is None
    }
    _check_no_chain([(name, minuend, other) for name, (_, minuend, other) in stated.items()])
    resolved = {minuend: _resolved(column, known[minuend], known[other]) for column, minuend, other in stated.values()}
    kept = (resolved.get(column.name, column) for column in columns if column.name not in stated)
    return tuple(_with_states(column, known) for column in kept)


def in_steps(column: BinnedColumn, positions: Floats) -> Floats:
    """Positions as whole numbers of steps of the column, rounded to the nearest; NaN stays."""
    return positions if column.has_whole_values else np.floor(positions / column.step + 0.5)


def without_minuend(column: Column) -> Column:
    """The difference as a column of its own, for a table without the subtrahend."""
    return column if difference_of(column) is None else replace(column, difference=None)  # type: ignore[call-arg]


def _names(column: NumericColumn, known: Mapping[str, Column]) -> tuple[str, str]:
    """The names on both sides of the minus. A name may contain a minus itself."""
    text = column.difference
    wanted = "two columns of the schema with a minus between them"
    if not isinstance(text, str):
        raise _error(column, f"has a difference that is not a text: {text!r}", EXAMPLE)
    sides = [(text[:place].strip(), text[place + 1 :].strip()) for place, sign in enumerate(text) if sign == "-"]
    found = [pair for pair in sides if set(pair) <= set(known)]
    if len(found) != 1:
        unknown = [name for pair in sides[:1] for name in pair if name not in known]
        which = f", and no column is called {unknown[0]!r}" if len(sides) == 1 and unknown else ""
        raise _error(column, f"has difference = {text!r}, which is not {wanted}{which}", EXAMPLE)
    if len({*found[0], column.name}) < 3:
        raise _error(column, f"has difference = {text!r}, but needs two other columns", EXAMPLE)
    return found[0]


def _check_no_chain(stated: Sequence[tuple[str, str, str]]) -> None:
    """Refuse a column that follows from one difference and is in another."""
    named = [name for _, *pair in stated for name in pair]
    for name, minuend, _ in stated:
        if name in named:
            wrong = f"the column {name!r} is a difference, so another cannot be computed from it"
            raise SchemaError(wrong, hint="write differences of columns that the file has")
        if named.count(minuend) > 1:
            wrong = f"the column {minuend!r} follows from the difference {name!r}, so it cannot be in another"
            raise SchemaError(wrong, hint="use the same second column in all differences: one that follows from none")


def _resolved(column: NumericColumn, minuend: Column, subtrahend: Column) -> NumericColumn:
    """The difference with its two columns, after all checks."""
    if not (isinstance(minuend, BinnedColumn) and isinstance(subtrahend, BinnedColumn)):
        odd = subtrahend if isinstance(minuend, BinnedColumn) else minuend
        raise _error(column, f"is a difference, but {odd.name!r} is {odd.kind}", "use two columns of numbers or dates")
    _check_kinds(column, minuend, subtrahend)
    if column.missing:
        wrong = f"has missing codes, but it is computed: its gaps are those of {minuend.name!r}"
        raise _error(column, wrong, f"remove missing, and write the codes into {minuend.name!r}")
    if subtrahend.not_applicable is not None:
        wrong = f"is counted from {subtrahend.name!r}, which may be not applicable"
        raise _error(column, wrong, "count from a column that always applies, or remove that code from it")
    lacking = [c.name for c in (column, subtrahend) if c.may_be_missing and not minuend.may_be_missing]
    if lacking:
        wrong = f"{minuend.name!r} is missing where {lacking[0]!r} is, but may_be_missing is not true for it"
        hint = f"write may_be_missing = true for {minuend.name!r}, or remove it from {listing(map(repr, lacking))}"
        raise SchemaError(wrong, hint=hint)
    _check_reach(column, minuend, subtrahend)
    plain = replace(minuend, bins=None, edges=None, quantiles=None)  # it is not modelled
    difference, states = Difference(plain, subtrahend.name), _states(minuend)
    return replace(column, difference=difference, may_be_missing=minuend.may_be_missing, missing=states)


def _check_kinds(column: NumericColumn, minuend: BinnedColumn, subtrahend: BinnedColumn) -> None:
    """Refuse columns without a common step: a difference is a whole number of steps, so that sums are exact."""
    pair = f"{minuend.name!r} and {subtrahend.name!r}"
    if isinstance(minuend, CalendarColumn) and isinstance(subtrahend, CalendarColumn):
        if minuend.unit != subtrahend.unit:
            wrong = f"is a difference of {pair}, which have different resolutions"
            raise _error(column, wrong, f'write resolution = "{minuend.resolution}" for both, or another one')
        if not isinstance(column, Integer):
            raise _error(column, f"counts {minuend.resolution}s, which are whole", 'write kind = "integer"')
    elif isinstance(minuend, NumericColumn) and isinstance(subtrahend, NumericColumn):
        steps = {part.step for part in (column, minuend, subtrahend)}
        if len(steps) > 1 or 0.0 in steps:
            wrong = f"is a difference of {pair}, but the three have no common resolution"
            raise _error(column, wrong, 'write kind = "integer" for all, or one resolution such as 0.01 for all')
    else:
        wrong = f"is a difference of {pair}, which are neither both numbers nor both dates"
        raise _error(column, wrong, "use two columns of numbers, or two of dates")


def _check_reach(column: NumericColumn, minuend: BinnedColumn, subtrahend: BinnedColumn) -> None:
    """Each value of the subtrahend must have a difference with which the minuend is within its bounds.

    So a row that is written within the bounds of the minuend has a difference within those of the difference.
    """
    (lower, upper), (first, last), (least, most) = (c.limits for c in (minuend, subtrahend, column))
    ends = ((last + least, "at least", 1, last + least > upper), (first + most, "at most", 0, first + most < lower))
    for position, side, end, is_beyond in ends:
        if is_beyond:
            bounds = f"[{minuend.bounds[0]}, {minuend.bounds[1]}]"
            wrong = (
                f"column {minuend.name!r} would be {side} {minuend.label(position)} where {subtrahend.name!r} is "
                f"{subtrahend.bounds[end]}, but its bounds are {bounds}"
            )
            hint = f"write other bounds for {minuend.name!r}, {subtrahend.name!r} or {column.name!r}"
            raise SchemaError(wrong, hint=hint)


def _states(minuend: BinnedColumn) -> tuple[MissingCode, ...]:
    """Codes with which a difference has the kinds of gaps of its minuend, and no text that could be a number."""
    kinds = [*minuend.gaps, *(["not-applicable"] if minuend.not_applicable is not None else [])]
    empty = {gap_state(code.kind) for code in minuend.missing_codes if code.code == ""}
    if kinds == ["unknown"]:
        return ()
    return tuple(MissingCode("" if kind in empty else kind.replace("-", " "), kind) for kind in kinds)  # type: ignore[arg-type]


def _with_states(column: Column, known: Mapping[str, Column]) -> Column:
    """A difference whose minuend may be missing where one of the two columns may be.

    They change when a table is filled, or when gaps are made in a public one.
    """
    found = difference_of(column)
    if found is None or found.subtrahend not in known:
        return column
    minuend = found.minuend
    if minuend.may_be_missing == (may := column.may_be_missing or known[found.subtrahend].may_be_missing):
        return column
    minuend = replace(minuend, may_be_missing=True) if may else minuend.without_gaps()
    return replace(column, difference=replace(found, minuend=minuend))  # type: ignore[call-arg]


def _error(column: Column, wrong: str, hint: str) -> SchemaError:
    return SchemaError(f"column {column.name!r} {wrong}", hint=hint)
