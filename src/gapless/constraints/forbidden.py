"""Rules on rows that are publicly known, as combinations of cells that no row may have.

A rule on one row forbids combinations: ``t1.age < 15 and t1.married == 'yes'`` must not hold. A rule between two rows,
such as ``t1.zip == t2.zip and t1.town != t2.town``, leaves a choice of combinations that may stand in one table; which
ones is read off released values (`compatible`). What values inside bins still decide is left to values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.compatible import ForbiddenCells, PairRule
from gapless.constraints.grammar import Comparison, parse_rule
from gapless.constraints.predicates import comparison_mask
from gapless.constraints.rules import ColumnRef, Rule, rules_of
from gapless.constraints.violations import ValueRanges, ranges_of_cells, terms_hold
from gapless.errors import SchemaError
from gapless.schema.numeric import BinnedColumn
from gapless.schema.schema import Schema
from gapless.types import Floats

MOST_CELLS = 1 << 26  # of a table of forbidden combinations
MOST_STEPS = 1000  # in looking for a row that keeps all rules
ALL_CELLS = 1 << 28  # of all such tables
MOST_COLUMNS = 30  # of a table: numpy has no more axes than some


def constraints_of(
    schema: Schema, within_bin_counts: Mapping[str, Floats] | None = None
) -> tuple[list[ForbiddenCells], list[PairRule], list[str]]:
    """The schema's rules that hold always: forbidden combinations, rules between rows, and those not enforced.

    Not enforced are rules that forbid any two rows alike, and rules on too many combinations to number them. What was
    released of the cells of columns lies `inside` their bins.
    """
    enforced, between, others = _classify_rules(schema, within_bin_counts or {})
    return [_forbidden(rule, schema) for rule in enforced], between, others


def _classify_rules(
    schema: Schema, within_bin_counts: Mapping[str, Floats]
) -> tuple[list[Rule], list[PairRule], list[str]]:
    """The rules that hold always: on one row, between rows, and those that are not enforced."""
    rules = [rule for rule in rules_of(schema) if rule.weight is None]
    named = Counter(column for rule in rules for column in rule.columns)
    shared = frozenset(column for column, many in named.items() if many > 1)
    enforced, between, others, held = [], [], [], 0
    for rule in rules:
        told = PairRule(rule, schema, shared, within_bin_counts)
        cells = prod(schema.columns[column].size for column in rule.columns)
        if rule.is_between_rows:
            few = prod(told.sizes) < 1 << 62  # so that they can be numbered
        else:
            few = prod(told.sizes) <= MOST_CELLS and held + cells <= ALL_CELLS and len(rule.columns) <= MOST_COLUMNS
        if not few or rule.forbids_equal_rows:
            others.append(rule.text)
        elif rule.is_between_rows:
            between.append(told)
        else:
            held += cells
            enforced.append(rule)
    return enforced, between, others


def soft_rules_of(schema: Schema, within_bin_counts: Mapping[str, Floats] | None = None) -> list[PairRule]:
    """The schema's rules that have a weight."""
    rules = [rule for rule in rules_of(schema) if rule.weight is not None]
    return [PairRule(rule, schema, within_bin_counts=within_bin_counts or {}) for rule in rules]


def rules_on_values(schema: Schema) -> list[Rule]:
    """The rules on one row that its cells do not decide: they compare columns with bins of several values."""
    found = []
    for rule in rules_of(schema):
        lines = [column for column in (schema.columns[c] for c in rule.columns) if isinstance(column, BinnedColumn)]
        several = any((np.subtract(*column.bin_ranges()) < 0).any() for column in lines)
        if not rule.is_between_rows and several and any(isinstance(term.right, ColumnRef) for term in rule.terms):
            found.append(rule)
    return found


def rows_violating(codes: NDArray[np.integer], forbidden: Sequence[ForbiddenCells]) -> NDArray[np.bool_]:
    """Which rows hold a forbidden combination; a gap breaks nothing."""
    broken = np.zeros(len(codes), dtype=np.bool_)
    for rule in forbidden:
        cells = codes[:, rule.columns].astype(np.int64)
        seen = (cells < np.array(rule.table.shape)).all(axis=1)
        broken[seen] |= rule.table[tuple(cells[seen].T)]
    return broken


def possible_cells(schema: Schema, rng: np.random.Generator | None = None) -> dict[int, int] | None:
    """Cells of the columns that rules name which keep all rules that hold always, also beside rows like themselves.

    Refuses rules that leave none; None if it would take too long to find some. Values come before *not applicable*.
    With an `rng` they are chosen by chance.
    """
    enforced, between, _ = _classify_rules(schema, {})
    rules = [*enforced, *(told.rule for told in between if prod(told.sizes) <= MOST_CELLS)]
    forbidden = [_forbidden(rule, schema) for rule in rules]
    columns = {column: schema.columns[column] for rule in forbidden for column in rule.columns}
    for sizes in ({p: c.values_size for p, c in columns.items()}, {p: c.size for p, c in columns.items()}):
        allowed = {place: np.arange(column.size) < sizes[place] for place, column in columns.items()}
        try:
            found = _search(forbidden, allowed, rng, iter(range(MOST_STEPS)))
        except StopIteration:
            return None
        if found is not None:
            return {column: int(kept.argmax()) for column, kept in found.items()}
    raise SchemaError("the constraints leave no possible row", hint="check them for conflicts")


def _search(
    forbidden: Sequence[ForbiddenCells],
    allowed: Mapping[int, NDArray[np.bool_]],
    rng: np.random.Generator | None,
    steps: Iterator[int],
) -> Mapping[int, NDArray[np.bool_]] | None:
    """One cell of each column so that no rule is broken; None if there are none. Each step tries one more cell."""
    next(steps)
    narrowed = _narrowed(forbidden, allowed)
    if narrowed is None:
        return None
    many = {column: int(cells.sum()) for column, cells in narrowed.items()}
    waiting = [column for column in narrowed if many[column] > 1]
    if not waiting:
        return narrowed
    column = min(waiting, key=lambda column: many[column])
    cells = np.flatnonzero(narrowed[column])
    for cell in cells if rng is None else rng.permutation(cells):
        found = _search(forbidden, {**narrowed, column: np.arange(len(narrowed[column])) == cell}, rng, steps)
        if found is not None:
            return found
    return None


def _narrowed(
    forbidden: Sequence[ForbiddenCells], allowed: Mapping[int, NDArray[np.bool_]]
) -> dict[int, NDArray[np.bool_]] | None:
    """The cells that each rule by itself leaves, beside cells that are left of the others; None if one leaves none."""
    left, before = dict(allowed), -1
    while before != (before := sum(int(cells.sum()) for cells in left.values())):
        for rule in forbidden:
            cells = [np.flatnonzero(left[column]) for column in rule.columns]
            kept = ~rule.table[np.ix_(*cells)]
            if not kept.any():
                return None
            for axis, column in enumerate(rule.columns):
                others = tuple(other for other in range(kept.ndim) if other != axis)
                left[column] = np.zeros_like(left[column])
                left[column][cells[axis][kept.any(axis=others)]] = True
    return left


def required_cuts(schema: Schema) -> dict[str, list[int]]:
    """For each column on a line, the cells with which a rule begins or ceases to hold: bins must begin there too."""
    found: dict[str, list[int]] = {}
    for constraint in schema.constraints:
        for written in parse_rule(constraint.forbidden):
            if isinstance(written, Comparison) and isinstance(column := schema[written.column], BinnedColumn):
                true = comparison_mask(column.finest, written.sign, written.value)
                found.setdefault(written.column, []).extend(np.flatnonzero(np.diff(true)) + 1)
    return found


def _forbidden(rule: Rule, schema: Schema) -> ForbiddenCells:
    """The combinations that break a rule on one row whatever values they have."""
    rows: dict[int, ValueRanges] = {}
    for axis, column in enumerate(rule.columns):
        size = schema.columns[column].size
        shape = [size if other == axis else 1 for other in range(len(rule.columns))]
        cells = ranges_of_cells(schema.columns[column])[:size]
        rows[column] = ValueRanges(*(ends.reshape(shape) for ends in (cells.value, cells.low, cells.high)))
    sizes = [schema.columns[column].size for column in rule.columns]
    return ForbiddenCells(
        rule.columns, np.broadcast_to(terms_hold(rule.terms, rows, rows, reading="must"), sizes).copy()
    )
