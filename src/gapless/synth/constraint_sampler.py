"""How a model keeps the schema's rules: rows of cells, and the values that are written."""

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
from gapless.data.filling import Chance
from gapless.errors import ModelError
from gapless.model.distribution import Distribution, HasMarginal, Product
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats

Draw: TypeAlias = Callable[[NDArray[np.intp]], NDArray[Any]]  # rows at these places, drawn afresh
DrawValues: TypeAlias = Callable[[int, NDArray[Any]], Floats]  # values in the bins of these codes of a column
Values: TypeAlias = list[Floats | None]

TRIES = 50
MARGINAL_CELLS = 1 << 21  # of a marginal from which combinations are chosen
SAMPLE_ROWS = 20_000  # of the sample in which they are counted if there is none: less than most samples take
FEW_ROWS = 5  # of each kind of rows that keep all rules, to be tried where a sample has none


@dataclass(frozen=True, eq=False)
class ConstraintSampler:
    """The schema's rules as a model keeps them.

    Attributes:
        schema: of its rows.
        forbidden: combinations that no row may have.
        chosen: for each rule between rows, combinations of which every row has one.
        tilted: for each soft rule, how often a row is kept.
        on_values: rules on one row that values inside bins decide.
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
        """The rules of a schema as a law keeps them.

        What was released of the cells of columns lies `inside` bins; `broken` is the share of pairs that break a soft
        rule, and its noise; `given` are values that all rows have. A law that breaks a rule no more often than noise
        allows stays as it is. What is chosen leaves a `row` possible, if one is passed. Everything follows from public
        and released values, the same at each call.
        """
        forbidden, between, _ = constraints_of(schema, within_bin_counts)
        combinations = _Combinations(distribution)
        by_chance, rng = isinstance(distribution, Product), np.random.default_rng(0)  # the same at each call
        tilted = {}
        for soft in soft_rules_of(schema, within_bin_counts):
            weight = None if soft.rule.weight == "learned" else soft.rule.weight
            share = sum(broken.get(soft.rule.text, (1.0,)))
            tilted[soft.rule.text] = soft.reweight(*combinations.of(soft), weight=weight, share=share)
        chosen = []
        for rule in between:
            first = None if row is None else row[[*rule.columns]]
            if first is not None and (first >= rule.sizes).any():
                first = None  # not applicable, which the rule does not bind
            told = replace(rule, fixed_values=given or {})
            chosen.append(told.choose(*combinations.of(rule), rng, at_random=by_chance, first=first))
        return cls(schema, forbidden, chosen, tilted, rules_on_values(schema))

    @staticmethod
    def possible_rows(
        schema: Schema, distribution: Distribution, within_bin_counts: Mapping[str, Floats]
    ) -> NDArray[np.int64]:
        """Some rows that keep all rules by their cells, beside rows like themselves.

        First rows of the law, then searched ones, then rows of any cells that happen to keep them. Rules between rows
        are chosen one by one, by mass; where noise has spoilt a law they may contradict each other.
        """
        forbidden, between, _ = constraints_of(schema, within_bin_counts)
        rng, sizes = np.random.default_rng(0), np.array([column.size for column in schema.columns])
        drawn = distribution.sample(SAMPLE_ROWS, rng).astype(np.int64)
        drawn = drawn[(drawn < sizes).all(axis=1)]
        even = rng.integers(sizes, size=(SAMPLE_ROWS, len(sizes)))
        searched = even[:FEW_ROWS].copy()
        for row in searched:
            cells = possible_cells(schema, rng) or {}
            row[list(cells)] = list(cells.values())
        found = []
        for rows in (drawn, searched, even):
            kept = rows[~rows_violating(rows, forbidden)]
            for rule in between:
                kept = kept[rule.keeps_with_itself(kept[:, rule.columns])]
            found.append(kept[:FEW_ROWS])
        return np.vstack(found)

    def names(self, columns: Iterable[int]) -> bool:
        """Whether a rule between rows names one of these columns."""
        return any(column in chosen.columns for chosen in self.allowed_sets for column in columns)

    def breaks(self, codes: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which rows break a rule that holds always."""
        broken = rows_violating(codes, self.forbidden)
        for chosen in self.allowed_sets:
            broken |= chosen.violates(codes)
        return broken

    def leaves(self, given: Mapping[int, int]) -> bool:
        """Whether each rule that holds always leaves, by itself, some row with these cells, by column."""
        rules: list[ForbiddenCells | AllowedSet] = [*self.forbidden, *self.allowed_sets]
        return all(rule.allows(given) for rule in rules)

    def draw(
        self, draw: Draw, rows: int, chance: Chance, *, free: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Rows that keep the rules as far as tries go, and the places of those that do not.

        A row that breaks a rule between rows is mended in one cell if it can be; one that still breaks a rule, or that
        a soft one throws out, is drawn again. Only cells that are `free`, if that is told, change. A map of each row
        and its own numbers from `chance`.
        """
        waiting = np.arange(rows)
        codes = self._repair(draw(waiting), chance, free)
        for left in range(TRIES, -1, -1):
            out = self.breaks(codes[waiting])
            for tilted in self.soft_rules.values():
                out |= chance()[waiting] >= tilted.acceptance_of(codes[waiting])
            if free is not None:
                out &= free[waiting].any(axis=1)
            waiting = waiting[out]
            if not len(waiting) or not left:
                break
            some = None if free is None else free[waiting]
            codes[waiting] = self._repair(draw(waiting), partial(chance_of_rows, chance, waiting), some)
        return codes, waiting

    def _repair(self, codes: NDArray[Any], chance: Chance, free: NDArray[np.bool_] | None) -> NDArray[Any]:
        named = [column for chosen in self.allowed_sets for column in chosen.columns]
        turns = len(self.allowed_sets) if len(set(named)) < len(named) else 1  # what one decides may decide in turn
        for chosen in turns * list(self.allowed_sets):
            chosen.repair(codes, chance, free=free)
        return codes

    def write(
        self, codes: NDArray[Any], values: Values, draw: DrawValues, *, given: Mapping[int, float]
    ) -> NDArray[np.bool_]:
        """Put in values that keep the rules; which rows could not be made to.

        `given` are values that every row has. Columns of which no rule decides a value stay as they are.
        """
        lines = {place for place, column in enumerate(self.schema.columns) if isinstance(column, BinnedColumn)}
        pinned = {place for chosen in self.allowed_sets for place in chosen.pinned}
        loose = lines & {place for rule in self.on_values for place in rule.columns}
        for place in pinned | loose | set(given):
            known = values[place]
            values[place] = draw(place, codes[:, place]) if known is None else known
        for left in range(TRIES, -1, -1):
            for chosen in self.allowed_sets:
                chosen.pin(codes, values)
            for place, position in given.items():
                values[place] = np.full(len(codes), position)
            broken = self._broken(codes, values)
            if not broken.any() or not left:
                break
            for place in loose:
                if (known := values[place]) is not None:
                    known[broken] = draw(place, codes[broken, place])
        return broken

    def _broken(self, codes: NDArray[Any], values: Values) -> NDArray[np.bool_]:
        """Which rows break a rule by their values."""
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
    """The combinations of cells that a law gives some mass, and how much: by its marginals, or in a sample of it."""

    def __init__(self, law: Distribution) -> None:
        self.law = law
        self.rows: NDArray[Any] | None = None

    def of(self, rule: PairRule) -> tuple[NDArray[np.int64], Floats]:
        if isinstance(self.law, HasMarginal) and prod(rule.sizes) <= MARGINAL_CELLS:
            try:
                return rule.combinations(self.law.marginal(rule.columns))
            except ModelError:  # the cells of the tables on the way are known only on the way
                pass
        if self.rows is None:
            self.rows = self.law.sample(SAMPLE_ROWS, np.random.default_rng(0))
        cells = self.rows[:, rule.columns].astype(np.int64)
        cells = cells[(cells < np.array(rule.sizes)).all(axis=1)]
        found, times = np.unique(np.ravel_multi_index(tuple(cells.T), rule.sizes), return_counts=True)
        return np.stack(np.unravel_index(found, rule.sizes), axis=1), times / SAMPLE_ROWS


def chance_of_rows(chance: Chance, rows: NDArray[np.intp]) -> Floats:
    """Fresh numbers of some rows: each row keeps its own place in what chance gives."""
    return chance()[rows]
