r"""Sets of combinations of cells that are compatible with a rule between two rows.

Let u, v be combinations of cells of the columns that a rule names. :math:`V(u, v)` says whether two rows with them
break the rule. We choose a set S with :math:`V(u, v) = 0` for all u, v in S, including u = v. If every row has a
combination from S, the table keeps the rule. So the rule becomes one on single rows. S is chosen greedily by mass. For
a dependency this selects the most probable partner.

When S is chosen, each bin has a representative value, so that V is known. Other values of the bins could break the
rule. Such values are *pinned* to the representative. If a combination can clash only with itself, they are pinned to a
separate random value. So the released values keep the rule.

A *soft* rule has a weight w. It changes the probabilities of combinations instead (`reweight`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.rules import Rule
from gapless.constraints.violations import (
    Flags,
    Rows,
    ValueRanges,
    conflict_weights,
    partner_weights,
    ranges_of_cells,
    row_count,
    select_rows,
    terms_hold,
)
from gapless.schema.numeric import BinnedColumn
from gapless.schema.schema import Schema
from gapless.types import Floats, Integers

BLOCK = 1024  # combinations compared pairwise at a time
INITIAL_WEIGHT, WEIGHT_GROWTH, MAX_WEIGHT = 0.05, 1.05, 1e4  # to reach a given share of violating pairs
MAX_STEPS, TOLERANCE = 1000, 1e-9

UniformDraws = Callable[[], Floats]


@dataclass(frozen=True)
class ForbiddenCells:
    """Combinations of observed cells that no row may have. `table` is True where forbidden."""

    columns: tuple[int, ...]
    table: Flags

    def allows(self, given: Mapping[int, int]) -> bool:
        """Whether some allowed combination has these cells, given by column. A gap is always allowed."""
        known = [given.get(column, -1) for column in self.columns]
        if any(code >= size for code, size in zip(known, self.table.shape, strict=True)):
            return True
        return not self.table[tuple(slice(None) if code < 0 else code for code in known)].all()


def _mixed_radix(cells: Integers, sizes: Sequence[int]) -> Integers:
    """One number for each combination of cells. `cells` has a row for each column."""
    keys = np.zeros(cells.shape[1], dtype=np.int64)
    for codes, size in zip(cells, sizes, strict=True):
        keys = keys * size + codes
    return keys


@dataclass(frozen=True, eq=False)
class _Combinations:
    """Combinations of values of some columns, each as one number (mixed radix), sorted. A value is a level or a bin."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]  # levels or bins of each
    keys: Integers

    def find(self, codes: NDArray[np.integer]) -> tuple[Flags, Integers, Flags]:
        """For each row: whether it has values in all columns, the index of its combination, and whether that exists."""
        cells = codes[:, self.columns].T.astype(np.int64)
        seen: Flags = np.all(cells < np.array(self.sizes)[:, None], axis=0)
        keys = np.where(seen, _mixed_radix(cells, self.sizes), -1)
        places = np.searchsorted(self.keys, keys)
        there = seen & (np.append(self.keys, -1)[places] == keys)
        return seen, np.where(there, places, 0), there


@dataclass(frozen=True, eq=False)
class AllowedSet(_Combinations):
    """Combinations of which any two are compatible.

    Attributes:
        mass: the mass of each combination.
        pinned: for some columns, the value of each combination. NaN means any value of its bin.
        representatives: the value to which each bin of a column is pinned in rows without some values.
        roles: the columns that the rule names in its first and in its second row.
    """

    mass: Floats
    pinned: Mapping[int, Floats]
    representatives: Mapping[int, Floats]
    roles: tuple[frozenset[int], frozenset[int]]

    @cached_property
    def _cells(self) -> Integers:
        """The combinations as codes, with a row for each column."""
        return np.array(np.unravel_index(self.keys, self.sizes))

    def _keys_on(self, axes: list[int], codes: NDArray[np.integer]) -> tuple[Integers, Integers]:
        """Keys of the codes in some columns, for each of these combinations and for each row."""
        sizes = [self.sizes[axis] for axis in axes]
        cells = codes[:, [self.columns[axis] for axis in axes]].T.astype(np.int64)
        return _mixed_radix(self._cells[axes], sizes), _mixed_radix(cells, sizes)

    def violates(self, codes: NDArray[np.integer]) -> Flags:
        """Which rows have a combination outside the set. A row with gaps may match any combination with its values."""
        seen, _, there = self.find(codes)
        broken = seen & ~there
        for lacking, rows in self._partial_rows(codes, ~seen):
            shown = [axis for axis, column in enumerate(self.columns) if column not in lacking]
            allowed, asked = self._keys_on(shown, codes[rows])
            broken[rows] = ~np.isin(asked, allowed)
        return broken

    def allows(self, given: Mapping[int, int]) -> bool:
        """Whether a combination of the set has these cells, given by column. A gap is always allowed."""
        known = [given.get(column, -1) for column in self.columns]
        if any(code >= size for code, size in zip(known, self.sizes, strict=True)):
            return True
        agree = [self._cells[axis] == code for axis, code in enumerate(known) if code >= 0]
        return not agree or bool(np.all(agree, axis=0).any())

    def _partial_rows(self, codes: NDArray[np.integer], lacking_some: Flags) -> list[tuple[frozenset[int], Integers]]:
        """Rows with gaps to which the rule still applies, as its first or second row, by the columns of their gaps."""
        if self.roles[0] == self.roles[1] or not lacking_some.any():  # the rule needs all columns
            return []
        missing = codes[:, self.columns] >= np.array(self.sizes)
        patterns = missing @ (1 << np.arange(len(self.columns)))
        found = []
        for pattern in np.unique(patterns[lacking_some]).tolist():
            lacking = frozenset(column for axis, column in enumerate(self.columns) if pattern >> axis & 1)
            if len(lacking) < len(self.columns) and not all(lacking & role for role in self.roles):
                found.append((lacking, np.flatnonzero(patterns == pattern)))
        return found

    def repair(self, codes: NDArray[Any], draw_uniforms: UniformDraws, *, free: Flags | None = None) -> None:
        """Change one cell of each row that breaks the rule, where one is enough. Later columns are tried first.

        The new cell is drawn by mass, given the other cells of the row. With `free`, only those cells may change. The
        result for a row depends only on the row and its random numbers.
        """
        seen, _, there = self.find(codes)
        broken = np.flatnonzero(seen & ~there)
        for axis in reversed(range(len(self.columns))):
            draws, column = draw_uniforms(), self.columns[axis]
            rows = broken if free is None else broken[free[broken, column]]
            others = [place for place in range(len(self.columns)) if place != axis]
            beside, asked = self._keys_on(others, codes[rows])
            order = np.argsort(beside, kind="stable")
            below = np.append(0.0, np.cumsum(self.mass[order]))
            begin, end = (np.searchsorted(beside[order], asked, side=side) for side in ("left", "right"))
            possible = end > begin
            rows, begin, end = rows[possible], begin[possible], end[possible]
            targets = below[begin] + draws[rows] * (below[end] - below[begin])
            drawn = np.clip(np.searchsorted(below, targets, side="right") - 1, begin, end - 1)
            codes[rows, column] = self._cells[axis][order[drawn]]
            broken = np.setdiff1d(broken, rows)

    def pin(self, codes: NDArray[np.integer], values: Sequence[Floats | None]) -> None:
        """Write the pinned values into `values`, which has numbers for each pinned column."""
        seen, places, there = self.find(codes)
        for column, pinned in self.pinned.items():
            kept, fixed = values[column], np.where(there, pinned[places], np.nan)
            for lacking, rows in self._partial_rows(codes, ~seen):
                if column not in lacking:
                    fixed[rows] = self.representatives[column][codes[rows, column]]
            if kept is not None:
                np.copyto(kept, fixed, where=~np.isnan(fixed))


@dataclass(frozen=True, eq=False)
class SoftReweighting(_Combinations):
    """Acceptance probabilities that make a sample follow a soft rule.

    Attributes:
        acceptance: the probability that a row with each combination is kept. Else it is drawn again.
        default_acceptance: the same for all other rows. It equals the average, so that gaps stay as frequent.
        violating_share: the share of pairs of rows that then break the rule.
    """

    acceptance: Floats
    default_acceptance: float
    violating_share: float

    def acceptance_of(self, codes: NDArray[np.integer]) -> Floats:
        """The probability that each row is kept."""
        _, places, there = self.find(codes)
        return np.where(there, np.append(self.acceptance, 0.0)[places], self.default_acceptance)


@dataclass(frozen=True, eq=False)
class PairRule:
    """A rule between two rows, with the schema of its columns.

    Attributes:
        rule: the terms that must not all hold.
        schema: the schema whose cells the rows have.
        shared: columns that other rules name as well.
        within_bin_counts: released counts of the cells within bins, by column. They give each bin its representative.
        fixed_values: values that all rows have, by column.
    """

    rule: Rule
    schema: Schema
    shared: frozenset[int] = frozenset()
    within_bin_counts: Mapping[str, Floats] = field(default_factory=dict)
    fixed_values: Mapping[int, float] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the rule. The column that a dependency determines is the last."""
        return self.rule.columns

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of levels or bins of each column."""
        return tuple(self.schema.columns[column].values_size for column in self.columns)

    @property
    def is_dependency(self) -> bool:
        """Whether it is a dependency: the first columns determine the last."""
        signs = sorted(term.sign for term in self.rule.terms)
        return self.rule.compares_same_columns and signs == ["!=", *["=="] * (len(self.columns) - 1)]

    @cached_property
    def numbers(self) -> dict[int, ValueRanges]:
        """The values of the cells of each column."""
        columns = {column: self.schema.columns[column] for column in self.columns}
        found = {
            place: ranges_of_cells(column, self.within_bin_counts.get(column.name)) for place, column in columns.items()
        }
        for place, position in self.fixed_values.items():
            column = columns.get(place)
            if isinstance(column, BinnedColumn):
                (code,) = column.bin_of(np.array([position]))
                for ends in (found[place].value, found[place].low, found[place].high):
                    ends[code] = position
        return found

    def rows(self, cells: Integers) -> dict[int, ValueRanges]:
        """The values of combinations of codes, with one combination in each row."""
        return {column: self.numbers[column][cells[:, axis]] for axis, column in enumerate(self.columns)}

    def choose(
        self,
        cells: Integers,
        mass: Floats,
        rng: np.random.Generator,
        *,
        at_random: bool = False,
        first: Integers | None = None,
    ) -> AllowedSet:
        """Choose compatible combinations greedily, by decreasing mass.

        With `at_random` the order is a weighted random order. It is for distributions without dependence between
        columns: on average each column then keeps its distribution. Pinned values are drawn too. The combination
        `first` is always in the set, unless it breaks the rule with itself.
        """
        order = np.log(np.maximum(mass, 1e-300)) + (rng.gumbel(size=len(mass)) if at_random else 0.0)
        order = np.where(mass > 0, order, -np.inf)
        if first is not None:
            others = (cells != first).any(axis=1)
            cells, order = np.vstack([first, cells[others]]), np.concatenate([[np.inf], order[others]])
            mass = np.concatenate([[max(mass.max(initial=0.0), 1e-300)], mass[others]])
        kept = self._kept(cells, order)
        keys = np.ravel_multi_index(tuple(cells[kept].T), self.sizes)
        kept = kept[np.argsort(keys)]
        return AllowedSet(
            self.columns,
            self.sizes,
            np.sort(keys),
            mass=mass[kept],
            pinned=self._pinned(cells[kept], rng),
            representatives={column: numbers.value for column, numbers in self.numbers.items()},
            roles=(frozenset(self.rule.columns_of(0)), frozenset(self.rule.columns_of(1))),
        )

    def keeps_with_itself(self, cells: Integers) -> Flags:
        """Which combinations are compatible with themselves."""
        rows = self.rows(cells)
        return ~terms_hold(self.rule.terms, rows, rows)

    def _kept(self, cells: Integers, score: Floats) -> Integers:
        """Indices of compatible combinations, chosen greedily by decreasing score."""
        places = np.flatnonzero((score > -np.inf) & self.keeps_with_itself(cells))
        places = places[np.argsort(-score[places], kind="stable")]
        return places[self._compatible(self.rows(cells[places]))]

    def _compatible(self, rows: Rows) -> Integers:
        """Indices of compatible rows: each row in turn, if it clashes with none before."""
        free = conflict_weights(self.rule, rows, np.ones(row_count(rows))) == 0
        chosen, waiting = [np.flatnonzero(free)], np.flatnonzero(~free)
        while len(waiting):
            head, waiting = waiting[:BLOCK], waiting[BLOCK:]
            clash = self._clash(select_rows(rows, head))
            out = np.zeros(len(head), dtype=np.bool_)
            for place in range(len(head)):
                if not out[place]:
                    out |= clash[place]
            chosen.append(head[~out])
            latest, weights = select_rows(rows, chosen[-1]), np.ones(len(chosen[-1]))
            clashes = conflict_weights(self.rule, select_rows(rows, waiting), weights, others=latest)
            waiting = waiting[clashes == 0]
        return np.concatenate(chosen)

    def _clash(self, rows: Rows) -> Flags:
        """Which pairs of these rows break the rule, in either order."""
        one_way = terms_hold(self.rule.terms, select_rows(rows, np.s_[:, None]), select_rows(rows, np.s_[None, :]))
        one_way = np.broadcast_to(one_way, (row_count(rows), row_count(rows)))
        return one_way | one_way.T

    def _pinned(self, cells: Integers, rng: np.random.Generator) -> dict[int, Floats]:
        """The pinned values of chosen combinations: where another value of the bin could break the rule.

        A combination that can clash only with itself gets a separate random value, if no other rule names the column.
        """
        rows, weights, terms = self.rows(cells), np.ones(len(cells)), self.rule.terms
        itself = terms_hold(terms, rows, rows, reading="may")
        clashes = [partner_weights(order, rows, rows, weights, reading="may") for order in (terms, self.rule.swapped)]
        needed = clashes[0] + clashes[1] > 0
        alone = (clashes[0] == itself) & (clashes[1] == itself) & self.rule.compares_same_columns
        pinned = {}
        for axis, place in enumerate(self.columns):
            column, numbers = self.schema.columns[place], rows[place]
            several = needed & (numbers.low < numbers.high)
            if isinstance(column, BinnedColumn) and several.any():
                counts = self.within_bin_counts.get(column.name)
                drawn = column.draw_positions(counts, cells[:, axis].astype(np.uint16), rng)
                values = np.where(alone & (place not in self.shared), drawn, numbers.value)
                pinned[place] = np.where(several, values, np.nan)
        return pinned

    def forbidden_cells(self, probabilities: Floats) -> ForbiddenCells:
        """All combinations of values except those chosen by their probabilities, with an axis for each column."""
        cells, mass = self.combinations(probabilities)
        table = np.zeros(probabilities.shape, dtype=np.bool_)
        table[tuple(map(slice, self.sizes))] = True
        table[tuple(cells[self._kept(cells, mass)].T)] = False
        return ForbiddenCells(self.columns, table)

    def combinations(self, probabilities: Floats) -> tuple[Integers, Floats]:
        """The combinations of values with positive probability, and their probabilities."""
        values = probabilities[tuple(map(slice, self.sizes))]
        return np.argwhere(values > 0), values[values > 0]

    def reweight(
        self, cells: Integers, mass: Floats, *, weight: float | None = None, share: float = 0.0
    ) -> SoftReweighting:
        r"""The acceptance probabilities of these combinations under a soft rule.

        .. math:: q(u) \propto p(u) \exp\bigl(-w \sum_v K(u, v)\, q(v)\bigr),

        with :math:`K(u, v) = 1` if two rows u and v break the rule, in either order. For a given weight, q is the fixed
        point. Else w grows until at most a `share` of all pairs breaks the rule; it is 0 if that holds from the start.
        The mass may sum to less than 1: the rest are rows with gaps, which break nothing.
        """
        kept, valued = mass > 0, max(float(mass.sum()), 1e-300)
        cells, p = cells[kept], mass[kept] / valued
        rows = self.rows(cells)
        clash = self._clash(rows).astype(np.float64) if len(cells) <= BLOCK else None

        def clashing(masses: Floats) -> Floats:
            return np.maximum(conflict_weights(self.rule, rows, masses), 0.0) if clash is None else clash @ masses

        q, broken, w = p, clashing(p), INITIAL_WEIGHT if weight is None else weight
        for _ in range(MAX_STEPS):
            if weight is None and (q @ broken * valued**2 <= share or w > MAX_WEIGHT):
                break
            # A descent step on KL(q | p) + w/2 q'Kq. It is short enough not to overshoot, since K is at most 1.
            before, part = q, 1 / (1 + w)
            q = q ** (1 - part) * (p * np.exp(-w * broken)) ** part
            q /= q.sum()
            broken = clashing(q)
            if weight is None:
                w *= WEIGHT_GROWTH
            elif np.abs(q - before).sum() < TOLERANCE:
                break
        ratio = np.append(q / p, 1.0)  # without combinations every row is kept
        keys = np.ravel_multi_index(tuple(cells.T), self.sizes)
        order = np.argsort(keys)
        return SoftReweighting(
            self.columns,
            self.sizes,
            keys[order],
            acceptance=(ratio[:-1] / ratio.max())[order],
            default_acceptance=float(1 / ratio.max()),
            violating_share=float(q @ broken) * valued**2,
        )
