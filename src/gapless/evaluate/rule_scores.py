"""How often two public tables break the constraints of their schema."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.constraints.rules import rules_of
from gapless.constraints.violations import Numbers, Violations, violations
from gapless.data import Table
from gapless.types import Floats


@dataclass(frozen=True, slots=True)
class RuleScore:
    """One constraint in both tables."""

    truth: Violations
    other: Violations

    @property
    def rule(self) -> str:
        """As the schema writes it."""
        return self.truth.rule

    def __str__(self) -> str:
        rows = f"{self.truth.share:.2%} of rows in the truth, {self.other.share:.2%} in the other table"
        if self.truth.pairs is None or self.other.pairs is None:
            return f"{rows}: {self.rule}"
        return f"{rows}; {self.truth.pairs:.3%} and {self.other.pairs:.3%} of pairs: {self.rule}"


def compare_rules(one: Table, two: Table, weights: Floats | None = None) -> tuple[RuleScore, ...]:
    """Each constraint of the schema: the rows, and pairs of rows, that break it in both tables, by their values.

    `weights` has one for each row of the second table.
    """
    rules = rules_of(one.schema.fine)  # values are compared: no bin is split
    places = sorted({place for rule in rules for place in rule.columns})
    true, other = (_numbers(table, places) for table in (one, two))
    return tuple(RuleScore(violations(rule, true), violations(rule, other, weights)) for rule in rules)


def _numbers(table: Table, places: list[int]) -> dict[int, Numbers]:
    found = {}
    for place in places:
        codes, values = table.codes[place].astype(np.float64), table.positions(place)
        levels = np.where(codes < table.schema.columns[place].values_size, codes, np.nan)
        found[place] = Numbers.exactly(levels if values is None else values)
    return found
