"""Sampling under the schema's rules: rows of cells that satisfy them, and values within bins that do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.compatible import AllowedSet, ForbiddenCells, PairRule, SoftReweighting
from gapless.constraints.forbidden import constraints_of, possible_cells, rows_violating, rules_on_values, soft_rules_of
from gapless.constraints.rules import Rule
from gapless.constraints.violations import ValueRanges, terms_hold
from gapless.data.filling import RowRandomness
from gapless.errors import ModelError
from gapless.model.distribution import Distribution, HasMarginal, Product
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats

Draw: TypeAlias = Callable[[NDArray[np.intp]], NDArray[Any]]  # draws rows for these places
DrawValues: TypeAlias = Callable[[int, NDArray[Any]], Floats]  # draws values within the bins of these codes of a column
Values: TypeAlias = list[Floats | None]

TRIES = 50
MARGINAL_CELLS = 1 << 21  # of the largest marginal from which combinations are chosen
SAMPLE_ROWS = 20_000  # of the sample that replaces a marginal; faster than most samples
FEW_ROWS = 5  # possible rows of each source that are tried where a sample has none


@dataclass(frozen=True, eq=False)
class ConstraintSampler:
    """Draws rows of a distribution that satisfy the schema's rules.

    Attributes:
        schema: of the rows.
        forbidden: combinations that no row may have.
        allowed_sets: for each rule between rows, a set of combinations; every row has one of them.
        soft_rules: for each soft rule, the probability with which a row is kept.
        on_values: rules on one row that depend on values within bins.
    """

    schema: Schema
    forbidden: Sequence[ForbiddenCells]
    allowed_sets: Sequence[AllowedSet]
    soft_rules: Mapping[str, SoftReweighting]
    on_values: Sequence[Rule]

    @classmethod
    def of(
        cls,
        schema: Schema,
        distribution: Distribution,
        within_bin_counts: Mapping[str, Floats],
        broken: Mapping[str, tuple[float, float]],
        given: Mapping[int, float] | None = None,
        *,
        row: NDArray[np.int64] | None = None,
    ) -> ConstraintSampler:
        """Prepare the rules of a schema for a distribution: a function of public and released values.

        A distribution that breaks a soft rule no more often than noise allows stays as it is.

        Args:
            schema: of the rows.
            distribution: to draw from.
            within_bin_counts: released counts of the cells of columns with learned bins, by name.
            broken: for each soft rule, the share of pairs of rows that break it, and its noise.
            given: values that all rows have, by column.
            row: a row that the rules between rows must allow.
        """
        forbidden, between, _ = constraints_of(schema, within_bin_counts)
        combinations = _Combinations(distribution)
        is_product, rng = isinstance(distribution, Product), np.random.default_rng(0)  # the same seed at each call
        soft_rules = {}
        for soft in soft_rules_of(schema, within_bin_counts):
            weight = None if soft.rule.weight == "learned" else soft.rule.weight
            share = sum(broken.get(soft.rule.text, (1.0,)))
            soft_rules[soft.rule.text] = soft.reweight(*combinations.of(soft), weight=weight, share=share)
        allowed_sets = []
        for rule in between:
            first = None if row is None else row[[*rule.columns]]
            if first is not None and (first >= rule.sizes).any():
                first = None  # the rule does not apply to it
            rule_given = replace(rule, fixed_values=given or {})
            allowed_sets.append(rule_given.choose(*combinations.of(rule), rng, at_random=is_product, first=first))
        return cls(schema, forbidden, allowed_sets, soft_rules, rules_on_values(schema))

    @staticmethod
    def possible_rows(
        schema: Schema, distribution: Distribution, within_bin_counts: Mapping[str, Floats]
    ) -> NDArray[np.int64]:
        """Return some rows whose cells satisfy all rules, also between two copies of the row.

        Allowed sets of rules between rows are chosen one by one, by mass. Under much noise they may contradict each
        other; then sampling starts from one of these rows. They come from the distribution, a search, and uniform
        draws, in this order.
        """
        forbidden, between, _ = constraints_of(schema, within_bin_counts)
        rng, sizes = np.random.default_rng(0), np.array([column.size for column in schema.columns])
        drawn = distribution.sample(SAMPLE_ROWS, rng).astype(np.int64)
        drawn = drawn[(drawn < sizes).all(axis=1)]
        uniform = rng.integers(sizes, size=(SAMPLE_ROWS, len(sizes)))
        searched = uniform[:FEW_ROWS].copy()
        for row in searched:
            cells = possible_cells(schema, rng) or {}
            row[list(cells)] = list(cells.values())
        found = []
        for rows in (drawn, searched, uniform):
            kept = rows[~rows_violating(rows, forbidden)]
            for rule in between:
                kept = kept[rule.keeps_with_itself(kept[:, rule.columns])]
            found.append(kept[:FEW_ROWS])
        return np.vstack(found)

    def names(self, columns: Iterable[int]) -> bool:
        """Return whether a rule between rows names one of these columns."""
        return any(column in allowed.columns for allowed in self.allowed_sets for column in columns)

    def breaks(self, codes: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which rows break a rule that is not soft."""
        broken = rows_violating(codes, self.forbidden)
        for allowed in self.allowed_sets:
            broken |= allowed.violates(codes)
        return broken

    def leaves(self, given: Mapping[int, int]) -> bool:
        """Return whether each rule that is not soft, taken alone, allows some row with these cells, by column."""
        rules: list[ForbiddenCells | AllowedSet] = [*self.forbidden, *self.allowed_sets]
        return all(rule.allows(given) for rule in rules)

    def draw(
        self, draw: Draw, rows: int, chance: RowRandomness, *, free: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Draw rows that satisfy the rules; return them, and the places of rows that still break a rule.

        A row that breaks a rule between rows is repaired in one cell if possible. A row that still breaks a rule, or
        that a soft rule rejects, is drawn again. Each row depends only on its own draws.

        Args:
            draw: draws rows.
            rows: how many.
            chance: returns a fresh uniform number for each row.
            free: which cells may change; by default all.
        """
        waiting = np.arange(rows)
        codes = self._repair(draw(waiting), chance, free)
        for left in range(TRIES, -1, -1):
            out = self.breaks(codes[waiting])
            for soft in self.soft_rules.values():
                out |= chance()[waiting] >= soft.acceptance_of(codes[waiting])
            if free is not None:
                out &= free[waiting].any(axis=1)
            waiting = waiting[out]
            if not len(waiting) or not left:
                break
            some = None if free is None else free[waiting]
            codes[waiting] = self._repair(draw(waiting), partial(chance_of_rows, chance, waiting), some)
        return codes, waiting

    def _repair(self, codes: NDArray[Any], chance: RowRandomness, free: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Move rows into the allowed sets by changing one cell each, in place."""
        named = [column for allowed in self.allowed_sets for column in allowed.columns]
        # If two sets share a column, a repair for one may break the other: repeat.
        turns = len(self.allowed_sets) if len(set(named)) < len(named) else 1
        for allowed in turns * list(self.allowed_sets):
            allowed.repair(codes, chance, free=free)
        return codes

    def write(
        self, codes: NDArray[Any], values: Values, draw: DrawValues, *, given: Mapping[int, float]
    ) -> NDArray[np.bool_]:
        """Draw values that satisfy the rules, in place; return which rows still break a rule.

        `given` are values that every row has. Columns whose values no rule restricts stay as they are.
        """
        binned = {place for place, column in enumerate(self.schema.columns) if isinstance(column, BinnedColumn)}
        pinned = {place for allowed in self.allowed_sets for place in allowed.pinned}
        redrawn = binned & {place for rule in self.on_values for place in rule.columns}
        for place in pinned | redrawn | set(given):
            known = values[place]
            values[place] = draw(place, codes[:, place]) if known is None else known
        for left in range(TRIES, -1, -1):
            for allowed in self.allowed_sets:
                allowed.pin(codes, values)
            for place, position in given.items():
                values[place] = np.full(len(codes), position)
            broken = self._broken(codes, values)
            if not broken.any() or not left:
                break
            for place in redrawn:
                if (known := values[place]) is not None:
                    known[broken] = draw(place, codes[broken, place])
        return broken

    def _broken(self, codes: NDArray[Any], values: Values) -> NDArray[np.bool_]:
        """Return which rows break a rule by their values."""
        broken = np.zeros(len(codes), dtype=np.bool_)
        for rule in self.on_values:
            rows = {}
            for place in rule.columns:
                known = values[place]
                levels = np.where(codes[:, place] < self.schema.columns[place].values_size, codes[:, place], np.nan)
                rows[place] = ValueRanges.exactly(levels if known is None else known)
            broken |= terms_hold(rule.terms, rows, rows)
        return broken


class _Combinations:
    """The combinations of cells that have mass in a distribution: from its marginals, or from a sample."""

    def __init__(self, distribution: Distribution) -> None:
        self.distribution = distribution
        self.rows: NDArray[Any] | None = None

    def of(self, rule: PairRule) -> tuple[NDArray[np.int64], Floats]:
        if isinstance(self.distribution, HasMarginal) and prod(rule.sizes) <= MARGINAL_CELLS:
            try:
                return rule.combinations(self.distribution.marginal(rule.columns))
            except ModelError:  # the size of intermediate tables is known only while computing
                pass
        if self.rows is None:
            self.rows = self.distribution.sample(SAMPLE_ROWS, np.random.default_rng(0))
        cells = self.rows[:, rule.columns].astype(np.int64)
        cells = cells[(cells < np.array(rule.sizes)).all(axis=1)]
        found, times = np.unique(np.ravel_multi_index(tuple(cells.T), rule.sizes), return_counts=True)
        return np.stack(np.unravel_index(found, rule.sizes), axis=1), times / SAMPLE_ROWS


def chance_of_rows(chance: RowRandomness, rows: NDArray[np.intp]) -> Floats:
    """Return fresh uniform numbers of some rows; each row has its place in the output of `chance`."""
    return chance()[rows]
