"""Rules on rows, fitted to a schema: what must not hold of one row, or of two (`grammar` reads their texts).

Gaps, and *not applicable*, compare with nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gapless.constraints.grammar import SIGNS, ColumnComparison, Comparison, parse_rule
from gapless.constraints.predicates import comparison_mask, position_of
from gapless.errors import SchemaError
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Column, LevelColumn, Ordinal
from gapless.schema.numeric import BinnedColumn
from gapless.schema.schema import Constraint, Schema, Weight

_ORDERS: dict[str, frozenset[int]] = {  # what a comparison allows: below, equal, above
    sign: frozenset(order for order in (-1, 0, 1) if compare(order, 0)) for sign, compare in SIGNS.items()
}
_SIGNS = {orders: sign for sign, orders in _ORDERS.items()}
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, by position, of the first row (0) or of the second (1)."""

    row: int
    column: int

    def swapped(self) -> ColumnRef:
        """The same column of the other row."""
        return ColumnRef(1 - self.row, self.column)


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison: with another place, or with a public value, told by its number on the column's line."""

    left: ColumnRef
    sign: str
    right: ColumnRef | float

    @property
    def places(self) -> tuple[ColumnRef, ...]:
        """The columns of rows that it names."""
        return (self.left, self.right) if isinstance(self.right, ColumnRef) else (self.left,)

    @property
    def rows(self) -> set[int]:
        """Of which rows it speaks."""
        return {place.row for place in self.places}

    def swapped(self) -> Term:
        """The same with the rows exchanged."""
        right = self.right.swapped() if isinstance(self.right, ColumnRef) else self.right
        return Term(self.left.swapped(), self.sign, right).ordered()

    def ordered(self) -> Term:
        """The same, the first row on the left of a comparison of two."""
        if isinstance(self.right, ColumnRef) and self.left.row > self.right.row:
            return Term(self.right, _TURNED[self.sign], self.left)
        return self


@dataclass(frozen=True)
class Rule:
    """What must not hold: all its terms at once.

    Attributes:
        text: as the schema writes it.
        terms: its comparisons.
        weight: None for a rule that holds without exception; else how much it counts, or "learned".
    """

    text: str
    terms: tuple[Term, ...]
    weight: Weight = None

    @cached_property
    def is_between_rows(self) -> bool:
        """Whether it speaks of two rows."""
        return len({row for term in self.terms for row in term.rows}) == 2

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The columns that it names, those that must differ last: what a dependency decides."""
        ordered = sorted(self.terms, key=lambda term: term.sign == "!=")
        return tuple(dict.fromkeys(place.column for term in ordered for place in term.places))

    def columns_of(self, row: int) -> set[int]:
        """The columns that it names of one of the two rows."""
        return {place.column for term in self.terms for place in term.places if place.row == row}

    @cached_property
    def swapped(self) -> tuple[Term, ...]:
        """Its terms with the rows exchanged."""
        return tuple(term.swapped() for term in self.terms)

    @property
    def is_symmetric(self) -> bool:
        """Whether it says the same of two rows in either order."""
        return set(self.swapped) == set(self.terms)

    @property
    def either_order(self) -> list[tuple[int, tuple[Term, ...]]]:
        """Conjunctions, each with a sign, that add up to: two rows break the rule, in one order or the other."""
        if self.is_symmetric:
            return [(1, self.terms)]
        both = merge_terms((*self.terms, *self.swapped))
        return [(1, self.terms), (1, self.swapped), *([] if both is None else [(-1, both)])]

    @property
    def compares_same_columns(self) -> bool:
        """Whether each column is compared with itself alone, in the other row."""
        return all(isinstance(term.right, ColumnRef) and term.left == term.right.swapped() for term in self.terms)

    @property
    def forbids_equal_rows(self) -> bool:
        """Whether it forbids any two rows alike, so that no set of combinations keeps it."""
        return self.compares_same_columns and all(0 in _ORDERS[term.sign] for term in self.terms)


def merge_terms(terms: tuple[Term, ...]) -> tuple[Term, ...] | None:
    """The same conjunction with one comparison for any two places; None if it can never hold."""
    found: dict[tuple[ColumnRef, ColumnRef], frozenset[int]] = {}
    others = []
    for term in terms:
        if isinstance(term.right, ColumnRef):
            places = term.left, term.right
            found[places] = found.get(places, frozenset((-1, 0, 1))) & _ORDERS[term.sign]
        else:
            others.append(term)
    if not all(found.values()):
        return None
    pairs = [Term(left, _SIGNS[orders], right) for (left, right), orders in found.items() if len(orders) < 3]
    return (*dict.fromkeys(others), *pairs)


def rules_of(schema: Schema) -> list[Rule]:
    """The schema's rules, read; one that cannot be read is an error of the schema."""
    return [parse_constraint(constraint, schema) for constraint in schema.constraints]


def parse_constraint(constraint: Constraint, schema: Schema) -> Rule:
    """One rule; what it compares must be comparable, and no value may split a bin."""
    terms = tuple(_term(written, schema) for written in parse_rule(constraint.forbidden))
    rule = Rule(constraint.forbidden, terms, constraint.weight)
    if not rule.is_between_rows:
        if constraint.weight is not None:
            raise SchemaError(
                f"the constraint {constraint.forbidden!r} is about one row and has a weight",
                hint="a weight is for rules between two rows: how often one row is so, the model learns by itself",
            )
        if terms[0].left.row:  # of t2 alone
            rule = Rule(rule.text, rule.swapped)
    return rule


def _term(written: Comparison | ColumnComparison, schema: Schema) -> Term:
    (place,) = schema.positions([written.column])
    column, left = schema.columns[place], ColumnRef(written.row, place)
    if isinstance(written, Comparison):
        comparison_mask(column, written.sign, written.value)  # refuses what splits a bin
        return Term(left, written.sign, position_of(column, written.value))
    (other,) = schema.positions([written.other])
    _check_comparable(column, written.sign, schema.columns[other])
    return Term(left, written.sign, ColumnRef(written.other_row, other)).ordered()


def _check_comparable(column: Column, sign: str, other: Column) -> None:
    if isinstance(column, BinnedColumn) and isinstance(other, BinnedColumn):
        units = [c.unit if isinstance(c, CalendarColumn) else None for c in (column, other)]
        if units[0] == units[1]:
            return
    elif isinstance(column, LevelColumn) and isinstance(other, LevelColumn):
        ordinal = isinstance(column, Ordinal) and isinstance(other, Ordinal)
        if sign not in ("==", "!=") and not ordinal:
            unordered = other if isinstance(column, Ordinal) else column
            raise SchemaError(f"column {unordered.name!r} has no order", hint="== or !=, or make it ordinal")
        if column.value_cells == other.value_cells:
            return
    raise SchemaError(
        f"columns {column.name!r} and {other.name!r} cannot be compared",
        hint="two of numbers, two of dates of one resolution, or two with the same levels in the same order",
    )
