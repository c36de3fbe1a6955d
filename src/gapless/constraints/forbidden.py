"""Public rules as combinations of cells that no row may have.

A rule on one row forbids combinations: ``t1.age < 15 and t1.married == 'yes'`` must not hold. For a rule between two
rows, such as ``t1.zip == t2.zip and t1.town != t2.town``, compatible combinations are chosen from released values
(`compatible`). Rules that depend on values within bins are enforced on the sampled values (`rules_on_values`).
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

MAX_CELLS = 1 << 26  # of a table of forbidden combinations
MAX_STEPS = 1000  # of the search for a row that keeps all rules
MAX_TOTAL_CELLS = 1 << 28  # of all such tables
MAX_COLUMNS = 30  # of a table: numpy limits the number of axes


def constraints_of(
    schema: Schema, within_bin_counts: Mapping[str, Floats] | None = None
) -> tuple[list[ForbiddenCells], list[PairRule], list[str]]:
    """The rules without a weight: forbidden combinations, rules between rows, and texts of rules not enforced.

    A rule is not enforced if it forbids any two equal rows, or if its combinations are too many to number. See
    `PairRule` for `within_bin_counts`.
    """
    enforced, between, others = _classify_rules(schema, within_bin_counts or {})
    return [_forbidden(rule, schema) for rule in enforced], between, others


def _classify_rules(
    schema: Schema, within_bin_counts: Mapping[str, Floats]
) -> tuple[list[Rule], list[PairRule], list[str]]:
    """The rules without a weight: on one row, between rows, and texts of those not enforced."""
    rules = [rule for rule in rules_of(schema) if rule.weight is None]
    named = Counter(column for rule in rules for column in rule.columns)
    shared = frozenset(column for column, many in named.items() if many > 1)
    enforced, between, others, held = [], [], [], 0
    for rule in rules:
        pair_rule = PairRule(rule, schema, shared, within_bin_counts)
        cells = prod(schema.columns[column].size for column in rule.columns)
        if rule.is_between_rows:
            few = prod(pair_rule.sizes) < 1 << 62  # so that they can be numbered
        else:
            small = prod(pair_rule.sizes) <= MAX_CELLS and len(rule.columns) <= MAX_COLUMNS
            few = small and held + cells <= MAX_TOTAL_CELLS
        if not few or rule.forbids_equal_rows:
            others.append(rule.text)
        elif rule.is_between_rows:
            between.append(pair_rule)
        else:
            held += cells
            enforced.append(rule)
    return enforced, between, others


def columns_of_constraints(
    schema: Schema, within_bin_counts: Mapping[str, Floats] | None = None
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The columns of each rule without a weight: rules on one row, and rules between rows.

    They are those of `constraints_of`, without its tables.
    """
    enforced, between, _ = _classify_rules(schema, within_bin_counts or {})
    return [rule.columns for rule in enforced], [rule.columns for rule in between]


def soft_rules_of(schema: Schema, within_bin_counts: Mapping[str, Floats] | None = None) -> list[PairRule]:
    """The rules with a weight."""
    rules = [rule for rule in rules_of(schema) if rule.weight is not None]
    return [PairRule(rule, schema, within_bin_counts=within_bin_counts or {}) for rule in rules]


def rules_on_values(schema: Schema) -> list[Rule]:
    """The rules on one row that depend on values within bins: they compare columns with bins of several values."""
    found = []
    for rule in rules_of(schema):
        binned = [column for column in (schema.columns[c] for c in rule.columns) if isinstance(column, BinnedColumn)]
        several = any((np.subtract(*column.bin_ranges()) < 0).any() for column in binned)
        if not rule.is_between_rows and several and any(isinstance(term.right, ColumnRef) for term in rule.terms):
            found.append(rule)
    return found


def rows_violating(codes: NDArray[np.integer], forbidden: Sequence[ForbiddenCells]) -> NDArray[np.bool_]:
    """Which rows have a forbidden combination. A gap breaks nothing."""
    broken = np.zeros(len(codes), dtype=np.bool_)
    for rule in forbidden:
        cells = codes[:, rule.columns].astype(np.int64)
        seen = (cells < np.array(rule.table.shape)).all(axis=1)
        broken[seen] |= rule.table[tuple(cells[seen].T)]
    return broken


def possible_cells(schema: Schema, rng: np.random.Generator | None = None) -> dict[int, int] | None:
    """Cells, by column, with which a row keeps all rules without a weight, also together with rows equal to it.

    Values are preferred to *not applicable*. With an `rng` the cells are chosen at random.

    Returns:
        The cells, or None if the search would take too long.

    Raises:
        SchemaError: no row can keep all rules.
    """
    enforced, between, _ = _classify_rules(schema, {})
    rules = [*enforced, *(pair.rule for pair in between if prod(pair.sizes) <= MAX_CELLS)]
    forbidden = [_forbidden(rule, schema) for rule in rules]
    columns = {column: schema.columns[column] for rule in forbidden for column in rule.columns}
    for sizes in ({p: c.values_size for p, c in columns.items()}, {p: c.size for p, c in columns.items()}):
        allowed = {place: np.arange(column.size) < sizes[place] for place, column in columns.items()}
        try:
            found = _search(forbidden, allowed, rng, iter(range(MAX_STEPS)))
        except StopIteration:
            return None
        if found is not None:
            return {column: int(kept.argmax()) for column, kept in found.items()}
    raise SchemaError(
        "the constraints of the schema forbid every row",
        hint="remove one of the constraints that contradict each other from the schema",
    )


def _search(
    forbidden: Sequence[ForbiddenCells],
    allowed: Mapping[int, NDArray[np.bool_]],
    rng: np.random.Generator | None,
    steps: Iterator[int],
) -> Mapping[int, NDArray[np.bool_]] | None:
    """One cell of each column so that no rule is broken, or None. Each step tries one more cell."""
    next(steps)
    narrowed = _propagate(forbidden, allowed)
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


def _propagate(
    forbidden: Sequence[ForbiddenCells], allowed: Mapping[int, NDArray[np.bool_]]
) -> dict[int, NDArray[np.bool_]] | None:
    """The cells that each rule allows, given those left of the other columns (arc consistency), or None if none are."""
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
    """For each binned column, the cells at which a comparison changes its truth: bins must begin there too."""
    found: dict[str, list[int]] = {}
    for constraint in schema.constraints:
        for written in parse_rule(constraint.forbidden):
            if isinstance(written, Comparison) and isinstance(column := schema[written.column], BinnedColumn):
                true = comparison_mask(column.finest, written.sign, written.value)
                found.setdefault(written.column, []).extend(np.flatnonzero(np.diff(true)) + 1)
    return found


def _forbidden(rule: Rule, schema: Schema) -> ForbiddenCells:
    """The combinations that break a rule on one row for all their values."""
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
