"""Rules of a schema: conjunctions of comparisons that must not hold for one row, or for two (`grammar` parses them).

A comparison with a gap or with *not applicable* never holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gapless.constraints.grammar import SIGNS, ColumnComparison, Comparison, parse_rule
from gapless.constraints.predicates import check_ordered, comparison_mask, position_of
from gapless.errors import SchemaError
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Column, LevelColumn
from gapless.schema.numeric import BinnedColumn
from gapless.schema.schema import Constraint, Schema, Weight

_ORDERS: dict[str, frozenset[int]] = {  # the orders that satisfy a comparison: below, equal, above
    sign: frozenset(order for order in (-1, 0, 1) if compare(order, 0)) for sign, compare in SIGNS.items()
}
_SIGNS = {orders: sign for sign, orders in _ORDERS.items()}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


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
    """One comparison of a column with another column, or with a public value given as a number."""

    left: ColumnRef
    sign: str
    right: ColumnRef | float

    @property
    def places(self) -> tuple[ColumnRef, ...]:
        """The columns that it names, each with its row."""
        return (self.left, self.right) if isinstance(self.right, ColumnRef) else (self.left,)

    @property
    def rows(self) -> set[int]:
        """The rows that it names."""
        return {place.row for place in self.places}

    def swapped(self) -> Term:
        """The same with the rows exchanged."""
        right = self.right.swapped() if isinstance(self.right, ColumnRef) else self.right
        return Term(self.left.swapped(), self.sign, right).ordered()

    def ordered(self) -> Term:
        """The same comparison with the first row on the left."""
        if isinstance(self.right, ColumnRef) and self.left.row > self.right.row:
            return Term(self.right, _MIRRORED[self.sign], self.left)
        return self


@dataclass(frozen=True)
class Rule:
    """A rule: its terms must not all hold at once.

    Attributes:
        text: the rule as the schema writes it.
        terms: its comparisons.
        weight: None for a rule without exceptions, else its weight, or "learned".
    """

    text: str
    terms: tuple[Term, ...]
    weight: Weight = None

    @cached_property
    def is_between_rows(self) -> bool:
        """Whether it compares two rows."""
        return len({row for term in self.terms for row in term.rows}) == 2

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The columns that it names. Columns that must differ come last: a dependency determines those."""
        ordered = sorted(self.terms, key=lambda term: term.sign == "!=")
        return tuple(dict.fromkeys(place.column for term in ordered for place in term.places))

    def columns_of(self, row: int) -> set[int]:
        """The columns that it names in one of the two rows."""
        return {place.column for term in self.terms for place in term.places if place.row == row}

    @cached_property
    def swapped(self) -> tuple[Term, ...]:
        """Its terms with the rows exchanged."""
        return tuple(term.swapped() for term in self.terms)

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging the two rows changes nothing."""
        return set(self.swapped) == set(self.terms)

    @property
    def either_order(self) -> list[tuple[int, tuple[Term, ...]]]:
        """Conjunctions, each with a sign. Their sum counts pairs that break the rule in one order or the other."""
        if self.is_symmetric:
            return [(1, self.terms)]
        both = merge_terms((*self.terms, *self.swapped))
        return [(1, self.terms), (1, self.swapped), *([] if both is None else [(-1, both)])]

    @property
    def compares_same_columns(self) -> bool:
        """Whether each column is compared only with itself in the other row."""
        return all(isinstance(term.right, ColumnRef) and term.left == term.right.swapped() for term in self.terms)

    @property
    def forbids_equal_rows(self) -> bool:
        """Whether it forbids any two equal rows, so that no set of combinations keeps it."""
        return self.compares_same_columns and all(0 in _ORDERS[term.sign] for term in self.terms)


def merge_terms(terms: tuple[Term, ...]) -> tuple[Term, ...] | None:
    """The same conjunction with one comparison for each pair of columns. None if it can never hold."""
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
    """The parsed rules of a schema."""
    return [parse_constraint(constraint, schema) for constraint in schema.constraints]


def parse_constraint(constraint: Constraint, schema: Schema) -> Rule:
    """Parse one rule. Its columns must be comparable, and no value may split a bin."""
    terms = tuple(_term(written, schema) for written in parse_rule(constraint.forbidden))
    rule = Rule(constraint.forbidden, terms, constraint.weight)
    if not rule.is_between_rows:
        if constraint.weight is not None:
            raise SchemaError(
                f"the constraint {constraint.forbidden!r} is about one row and has a weight, "
                "which only constraints on two rows, t1 and t2, may have",
                hint="remove the weight; the model learns without it how often a row breaks the constraint",
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
        check_ordered(column, sign)
        check_ordered(other, sign)
        if column.value_cells == other.value_cells:
            return
    raise SchemaError(
        f"columns {column.name!r} and {other.name!r} cannot be compared with {sign}",
        hint="compare two columns of numbers, two of dates with the same resolution, or two with the same levels",
    )
