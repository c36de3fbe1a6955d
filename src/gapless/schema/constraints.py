"""Rules on rows that are publicly known, as combinations of cells that no row may have.

A rule on one row forbids combinations: ``t1.age < 15 and t1.married == 'yes'`` must not hold. A rule between two rows,
such as ``t1.zip == t2.zip and t1.town != t2.town``, leaves a choice of combinations that may stand in one table; which
ones is read off released values (`gapless.schema.compatible`). What values inside bins still decide is left to values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from gapless.errors import SchemaError
from gapless.schema.bins import Floats
from gapless.schema.comparison import holds
from gapless.schema.compatible import Between, Forbidden
from gapless.schema.line import _Binned
from gapless.schema.rules import Place, Rule, read, rules_of
from gapless.schema.schema import Schema
from gapless.schema.violations import Numbers, hold, numbers_of_cells

MOST_CELLS = 1 << 26  # of a table of forbidden combinations
ALL_CELLS = 1 << 28  # of all such tables
MOST_COLUMNS = 30  # of a table: numpy has no more axes than some
MOST_TRIES = 100_000  # in looking for a row that keeps all rules


def constraints_of(
    schema: Schema, inside: Mapping[str, Floats] | None = None
) -> tuple[list[Forbidden], list[Between], list[str]]:
    """The schema's rules that hold always: forbidden combinations, rules between rows, and those not enforced.

    Not enforced are rules that forbid any two rows alike, and rules on too many combinations to number them. What was
    released of the cells of columns lies `inside` their bins.
    """
    rules = [rule for rule in rules_of(schema) if rule.weight is None]
    named = Counter(column for rule in rules for column in rule.columns)
    shared = frozenset(column for column, many in named.items() if many > 1)
    forbidden, plain, between, others, held = [], [], [], [], 0
    for rule in rules:
        told = Between(rule, schema, shared, inside or {})
        cells = prod(schema.columns[column].size for column in rule.columns)
        if rule.between_rows:
            few = told.countable
        else:
            few = prod(told.sizes) <= MOST_CELLS and held + cells <= ALL_CELLS and len(rule.columns) <= MOST_COLUMNS
        if not few or rule.apart:
            others.append(rule.text)
        elif rule.between_rows:
            between.append(told)
        else:
            held += cells
            forbidden.append(_forbidden(rule, schema))
            plain += [forbidden[-1]] if _by_values(rule) else []
    if not _possible(plain):
        raise SchemaError("the constraints leave no possible row", hint="check them for conflicts")
    return forbidden, between, others


def _by_values(rule: Rule) -> bool:
    """Whether it compares columns with values alone, so that its combinations are all of some cells of each."""
    return not any(isinstance(term.right, Place) for term in rule.terms)


def soft_rules_of(schema: Schema, inside: Mapping[str, Floats] | None = None) -> list[Between]:
    """The schema's rules that have a weight."""
    rules = [rule for rule in rules_of(schema) if rule.weight is not None]
    return [Between(rule, schema, inside=inside or {}) for rule in rules]


def rules_on_values(schema: Schema) -> list[Rule]:
    """The rules on one row that its cells do not decide: they compare columns with bins of several values."""
    found = []
    for rule in rules_of(schema):
        lines = [column for column in (schema.columns[c] for c in rule.columns) if isinstance(column, _Binned)]
        several = any((np.subtract(*column.ends_of_bins()) < 0).any() for column in lines)
        if not rule.between_rows and not _by_values(rule) and several:
            found.append(rule)
    return found


def breaks(codes: NDArray[np.integer], forbidden: Sequence[Forbidden]) -> NDArray[np.bool_]:
    """Which rows hold a forbidden combination; a gap breaks nothing."""
    broken = np.zeros(len(codes), dtype=np.bool_)
    for rule in forbidden:
        cells = codes[:, rule.columns].astype(np.int64)
        seen = (cells < np.array(rule.table.shape)).all(axis=1)
        broken[seen] |= rule.table[tuple(cells[seen].T)]
    return broken


def _possible(forbidden: Sequence[Forbidden]) -> bool:
    """Whether some row breaks no rule: each is kept by a cell of one of its columns, tried in turn.

    Raises:
        SchemaError: So many ways were tried that nobody would wait for the others.
    """
    bad = [
        [
            (column, rule.table.any(axis=tuple(other for other in range(rule.table.ndim) if other != axis)))
            for axis, column in enumerate(rule.columns)
        ]
        for rule in forbidden
    ]
    waiting: list[tuple[int, dict[int, NDArray[np.bool_]]]] = [(0, {})]  # how many rules are kept, by which cells
    for _ in range(MOST_TRIES + len(bad)):
        if not waiting:
            return False
        place, allowed = waiting.pop()
        if place == len(bad):
            return True
        ways = []
        for column, cells in bad[place]:
            now = allowed.get(column, np.ones_like(cells))
            if not (now & cells).any():  # kept already: no other way can do better
                ways = [allowed]
                break
            if (now & ~cells).any():
                ways.append({**allowed, column: now & ~cells})
        waiting += [(place + 1, way) for way in reversed(ways)]
    raise SchemaError(
        f"the {len(bad)} constraints are too many to tell whether any row keeps them all",
        hint="leave some of the constraints out",
    )


def beginnings(schema: Schema) -> dict[str, list[int]]:
    """For each column on a line, the cells with which a rule begins or ceases to hold: bins must begin there too."""
    found: dict[str, list[int]] = {}
    for constraint in schema.constraints:
        for written in read(constraint.forbidden):
            if written.value is not None and isinstance(column := schema[written.name], _Binned):
                true = holds(column.fine, written.sign, written.value)
                found.setdefault(written.name, []).extend(np.flatnonzero(np.diff(true)) + 1)
    return found


def _forbidden(rule: Rule, schema: Schema) -> Forbidden:
    """The combinations that break a rule on one row whatever values they have."""
    rows: dict[int, Numbers] = {}
    for axis, column in enumerate(rule.columns):
        size = schema.columns[column].size
        shape = [size if other == axis else 1 for other in range(len(rule.columns))]
        cells = numbers_of_cells(schema.columns[column])[:size]
        rows[column] = Numbers(*(ends.reshape(shape) for ends in (cells.at, cells.low, cells.high)))
    sizes = [schema.columns[column].size for column in rule.columns]
    return Forbidden(rule.columns, np.broadcast_to(hold(rule.terms, rows, rows, reading="must"), sizes).copy())
