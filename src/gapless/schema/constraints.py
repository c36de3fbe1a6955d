"""Rules on rows that are publicly known, as combinations of cells that no row may have.

Two kinds are understood. A *forbidden combination* speaks of one row: ``t1.age < 15 and t1.married == 'yes'`` must not
hold. A *dependency* speaks of two: ``t1.zip == t2.zip and t1.town != t2.town`` must not hold, so the zip code decides
the town; which town is learned from released values. Other rules are kept, and said not to be enforced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.errors import SchemaError
from gapless.schema.comparison import holds
from gapless.schema.line import _Binned
from gapless.schema.schema import Schema

_NAME = r"""t([12])\.([\w-]+|"[^"]+")"""
_TERM = re.compile(rf"\s*{_NAME}\s*(==|!=|<=|>=|<|>)\s*(?:{_NAME}|(.+?))\s*")


@dataclass(frozen=True)
class Forbidden:
    """Combinations of observed cells that no row may have: true in `table` where forbidden."""

    columns: tuple[int, ...]
    table: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Dependency:
    """The first columns decide the last one."""

    columns: tuple[int, ...]

    def forbidden(self, law: NDArray[np.float64]) -> Forbidden:
        """All but the most probable cell of the last column, for each combination of the first ones."""
        best = law.argmax(axis=-1)
        return Forbidden(self.columns, np.arange(law.shape[-1]) != best[..., None])


def constraints_of(schema: Schema) -> tuple[list[Forbidden], list[Dependency], list[str]]:
    """The schema's rules: forbidden combinations, dependencies, and those that are not understood."""
    forbidden, dependencies, others = [], [], []
    for rule in schema.constraints:
        parsed = _parse(rule.forbidden, schema)
        if isinstance(parsed, Forbidden):
            forbidden.append(parsed)
        elif isinstance(parsed, Dependency):
            dependencies.append(parsed)
        else:
            others.append(rule.forbidden)
    if not _possible(forbidden, {}):
        raise SchemaError("the constraints leave no possible row", hint="check them for conflicts")
    return forbidden, dependencies, others


def breaks(codes: NDArray[np.integer], forbidden: Sequence[Forbidden]) -> NDArray[np.bool_]:
    """Which rows hold a forbidden combination; a gap breaks nothing."""
    broken = np.zeros(len(codes), dtype=np.bool_)
    for rule in forbidden:
        cells = codes[:, rule.columns].astype(np.int64)
        seen = (cells < np.array(rule.table.shape)).all(axis=1)
        broken[seen] |= rule.table[tuple(cells[seen].T)]
    return broken


def decide(codes: NDArray[Any], rules: Sequence[Forbidden], *, free: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """The same rows, in each of them the last column of every rule as its first ones allow; gaps stay gaps.

    Rules are those of dependencies, which allow one cell each time; what one decides may decide something in turn. Only
    cells that are `free`, if that is told, change.
    """
    for rule in [rule for _ in rules for rule in rules]:
        *first, last = rule.columns
        cells = codes[:, rule.columns].astype(np.int64)
        open_to = (cells < np.array(rule.table.shape)).all(axis=1)
        if free is not None:
            open_to &= free[:, last]
        codes[open_to, last] = rule.table.argmin(axis=-1)[tuple(codes[open_to][:, first].T.astype(np.int64))]
    return codes


def _possible(forbidden: Sequence[Forbidden], allowed: Mapping[int, NDArray[np.bool_]]) -> bool:
    """Whether some row breaks no rule: each is kept by a cell of one of its columns, tried in turn."""
    if not forbidden:
        return True
    rule, *others = forbidden
    for axis, column in enumerate(rule.columns):
        bad = rule.table.any(axis=tuple(other for other in range(rule.table.ndim) if other != axis))
        now = allowed.get(column, np.ones_like(bad))
        kept = now & ~bad
        if kept.any() and _possible(others, {**allowed, column: kept}):
            return True
        if not (now & bad).any():  # kept already: no other way can do better
            return False
    return False


def _parse(rule: str, schema: Schema) -> Forbidden | Dependency | None:
    terms = [_TERM.fullmatch(term) for term in re.split(r"\s+and\s+", rule)]
    if any(term is None for term in terms):
        raise SchemaError(
            f"the constraint {rule!r} cannot be read",
            hint="comparisons such as t1.age < 15 or t1.zip == t2.zip, joined by and",
        )
    found = [term.groups() for term in terms if term is not None]
    one_row = all(row == "1" and other is None for row, _, _, other, _, _ in found)
    if one_row:
        return _forbidden([(name.strip('"'), sign, value) for _, name, sign, _, _, value in found], schema)
    same = [name.strip('"') for _, name, sign, _, other, _ in found if sign == "==" and name == other]
    differs = [name.strip('"') for _, name, sign, _, other, _ in found if sign == "!=" and name == other]
    if len(differs) == 1 and same and len(same) + 1 == len(found):
        return Dependency(schema.positions([*same, *differs]))
    schema.positions(dict.fromkeys(name.strip('"') for _, name, _, _, _, _ in found))  # names must exist all the same
    return None


def beginnings(schema: Schema) -> dict[str, list[int]]:
    """For each column on a line, the cells with which a rule begins or ceases to hold: bins must begin there too."""
    found: dict[str, list[int]] = {}
    for constraint in schema.constraints:
        for term in filter(None, map(_TERM.fullmatch, re.split(r"\s+and\s+", constraint.forbidden.strip()))):
            row, name, sign, other, _, value = term.groups()
            name = name.strip('"')
            if row == "1" and other is None and isinstance(column := schema[name], _Binned):
                true = holds(column.fine, sign, value.strip("'\""))
                found.setdefault(name, []).extend(np.flatnonzero(np.diff(true)) + 1)
    return found


def _forbidden(terms: list[tuple[str, str, str]], schema: Schema) -> Forbidden:
    places = schema.positions(dict.fromkeys(name for name, _, _ in terms))
    masks = {place: np.ones(schema.columns[place].size, dtype=np.bool_) for place in places}
    for name, sign, value in terms:
        (place,) = schema.positions([name])
        column = schema.columns[place]
        true = np.zeros(column.size, dtype=np.bool_)  # *not applicable* never compares
        true[: column.values_size] = holds(column, sign, value.strip("'\""))
        masks[place] &= true
    table = np.ones((), dtype=np.bool_)
    for place in places:
        table = np.logical_and.outer(table, masks[place])
    return Forbidden(places, table)
