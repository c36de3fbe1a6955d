r"""Combinations of cells that may stand in one table, for rules between two rows.

Let u, v be combinations of cells of the columns that a rule names, and :math:`V(u, v)` whether two rows that have them
break it. A table keeps the rule exactly if no two of its rows do. So it is enough to choose a set S with
:math:`V(u, v) = 0` for all u, v in S, u = v included, and to let every row have a combination from S: then the rule is
one on single rows. S is chosen greedily by mass. For a dependency that is the most probable partner.

One value stands for each bin when S is chosen: V is then known. Where rows of S could break the rule with other values
of their bins, these values are *pinned*: to that one or, where a combination could clash with itself alone, to a value
of its own. So it is the written values that keep the rule.

A *soft* rule has a weight w, and tilts the law of combinations instead (`tilt`).
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

BLOCK = 1024  # combinations that are compared with each other at once
GENTLE, STEEPER, STEEPEST = 0.05, 1.05, 1e4  # a weight that grows until a rule is broken as seldom as it should be
STEPS, SETTLED = 1000, 1e-9

UniformDraws = Callable[[], Floats]


@dataclass(frozen=True)
class ForbiddenCells:
    """Combinations of observed cells that no row may have: true in `table` where forbidden."""

    columns: tuple[int, ...]
    table: Flags

    def allows(self, given: Mapping[int, int]) -> bool:
        """Whether a row with these cells, by column, may have others with which it is allowed; a gap always may."""
        known = [given.get(column, -1) for column in self.columns]
        if any(code >= size for code, size in zip(known, self.table.shape, strict=True)):
            return True
        return not self.table[tuple(slice(None) if code < 0 else code for code in known)].all()


@dataclass(frozen=True, eq=False)
class _Combinations:
    """Combinations of values of some columns, each as one number, sorted. A value is a level or a bin."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]  # levels or bins of each
    keys: Integers

    def find(self, codes: NDArray[np.integer]) -> tuple[Flags, Integers, Flags]:
        """Which rows have values in all columns, where their combinations stand, and whether they are there."""
        seen, keys = np.ones(len(codes), dtype=np.bool_), np.zeros(len(codes), dtype=np.int64)
        for column, size in zip(self.columns, self.sizes, strict=True):
            seen &= codes[:, column] < size
            keys = keys * size + codes[:, column]
        keys[~seen] = -1
        places = np.searchsorted(self.keys, keys)
        there = seen & (np.append(self.keys, -1)[places] == keys)
        return seen, np.where(there, places, 0), there


@dataclass(frozen=True, eq=False)
class AllowedSet(_Combinations):
    """Combinations of which any two may stand in one table.

    Attributes:
        mass: of each.
        pinned: the value that a row with each combination has in a column, NaN if any of its bin; for some columns.
        stands: what each bin of a column is pinned to, in rows without some values.
        roles: the columns that the rule looks at in its first and in its second row.
    """

    mass: Floats
    pinned: Mapping[int, Floats]
    representatives: Mapping[int, Floats]
    roles: tuple[frozenset[int], frozenset[int]]

    @cached_property
    def _cells(self) -> Integers:
        """The combinations as codes: a row for each column."""
        return np.array(np.unravel_index(self.keys, self.sizes))

    def _keys_on(self, axes: list[int], codes: NDArray[np.integer]) -> tuple[Integers, Integers]:
        """One number for the codes in some columns together: of each of these combinations, and of each row."""
        parts = self._cells[axes], codes[:, [self.columns[axis] for axis in axes]].T.astype(np.int64)
        found = [np.zeros(part.shape[1], dtype=np.int64) for part in parts]
        for place, axis in enumerate(axes):
            found = [keys * self.sizes[axis] + part[place] for keys, part in zip(found, parts, strict=True)]
        return found[0], found[1]

    def violates(self, codes: NDArray[np.integer]) -> Flags:
        """Which rows have a combination that is none of these; one without some values may be any that has them."""
        seen, _, there = self.find(codes)
        broken = seen & ~there
        for lacking, rows in self._partial_rows(codes, ~seen):
            shown = [axis for axis, column in enumerate(self.columns) if column not in lacking]
            allowed, asked = self._keys_on(shown, codes[rows])
            broken[rows] = ~np.isin(asked, allowed)
        return broken

    def allows(self, given: Mapping[int, int]) -> bool:
        """Whether one of these has the cells that are given, by column; a gap may stand beside any."""
        known = [given.get(column, -1) for column in self.columns]
        if any(code >= size for code, size in zip(known, self.sizes, strict=True)):
            return True
        agree = [self._cells[axis] == code for axis, code in enumerate(known) if code >= 0]
        return not agree or bool(np.all(agree, axis=0).any())

    def _partial_rows(self, codes: NDArray[np.integer], lacking_some: Flags) -> list[tuple[frozenset[int], Integers]]:
        """Rows without some values that the rule still binds, as its first row or its second, by what they lack."""
        if self.roles[0] == self.roles[1] or not lacking_some.any():  # nothing compares with them
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
        """Change one cell of each row that breaks the rule, if that is enough: the last column if possible.

        The new cell is drawn by mass among those that the row's other cells leave. Only cells that are `free`, if that
        is told, change. A map of each row and its own numbers.
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
            marks = below[begin] + draws[rows] * (below[end] - below[begin])
            drawn = np.clip(np.searchsorted(below, marks, side="right") - 1, begin, end - 1)
            codes[rows, column] = self._cells[axis][order[drawn]]
            broken = np.setdiff1d(broken, rows)

    def pin(self, codes: NDArray[np.integer], values: Sequence[Floats | None]) -> None:
        """Put the pinned values in; `values` has numbers for each of the pinned columns."""
        seen, places, there = self.find(codes)
        for column, pinned in self.pinned.items():
            kept, told = values[column], np.where(there, pinned[places], np.nan)
            for lacking, rows in self._partial_rows(codes, ~seen):
                if column not in lacking:
                    told[rows] = self.representatives[column][codes[rows, column]]
            if kept is not None:
                np.copyto(kept, told, where=~np.isnan(told))


@dataclass(frozen=True, eq=False)
class SoftReweighting(_Combinations):
    """Combinations that are not as probable as the model says.

    Attributes:
        chances: with which a row that has each combination is kept, else drawn again.
        otherwise: with which any other row is: as often as all are on average, so that gaps stay as frequent.
        share: of all pairs of rows that then break the rule.
    """

    acceptance: Floats
    default_acceptance: float
    violating_share: float

    def acceptance_of(self, codes: NDArray[np.integer]) -> Floats:
        """With which chance each row is kept."""
        _, places, there = self.find(codes)
        return np.where(there, np.append(self.acceptance, 0.0)[places], self.default_acceptance)


@dataclass(frozen=True, eq=False)
class PairRule:
    """A rule between two rows, and the columns that it names, told by a schema.

    Attributes:
        rule: what must not hold.
        schema: in whose cells rows are told.
        shared: columns that other rules name as well.
        inside: what was released of the cells of columns, by name; by it a value stands for a bin.
        given: values that all rows have, by column.
    """

    rule: Rule
    schema: Schema
    shared: frozenset[int] = frozenset()
    within_bin_counts: Mapping[str, Floats] = field(default_factory=dict)
    fixed_values: Mapping[int, float] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[int, ...]:
        """Of the rule; what a dependency decides is the last."""
        return self.rule.columns

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The levels or bins of each column."""
        return tuple(self.schema.columns[column].values_size for column in self.columns)

    @property
    def is_dependency(self) -> bool:
        """Whether it is a dependency: the first columns decide the last."""
        signs = sorted(term.sign for term in self.rule.terms)
        return self.rule.compares_same_columns and signs == ["!=", *["=="] * (len(self.columns) - 1)]

    @cached_property
    def numbers(self) -> dict[int, ValueRanges]:
        """The cells of each column as numbers."""
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
        """Combinations of codes, one in each row, as numbers."""
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
        """A set of these combinations of which any two may stand in one table, the heaviest first.

        `at_random` takes them in the order of draws by mass: for a law that knows nothing of columns together, so
        that each column keeps its own law on average. Values of their own are drawn too, where combinations need them.
        A combination that comes `first` is in the set whatever its mass, unless it breaks the rule with itself.
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
        """Which combinations keep the rule with rows like themselves."""
        rows = self.rows(cells)
        return ~terms_hold(self.rule.terms, rows, rows)

    def _kept(self, cells: Integers, score: Floats) -> Integers:
        """The places of a set of combinations that keep the rule, those with a high score first."""
        places = np.flatnonzero((score > -np.inf) & self.keeps_with_itself(cells))
        places = places[np.argsort(-score[places], kind="stable")]
        return places[self._compatible(self.rows(cells[places]))]

    def _compatible(self, rows: Rows) -> Integers:
        """The places of a set of rows no two of which break the rule: each in turn, if it clashes with none before."""
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
            ones = np.ones(len(chosen[-1]))
            clashes = conflict_weights(
                self.rule, select_rows(rows, waiting), ones, others=select_rows(rows, chosen[-1])
            )
            waiting = waiting[clashes == 0]
        return np.concatenate(chosen)

    def _clash(self, rows: Rows) -> Flags:
        """Which of these rows break the rule with which, in either order."""
        one_way = terms_hold(self.rule.terms, select_rows(rows, np.s_[:, None]), select_rows(rows, np.s_[None, :]))
        one_way = np.broadcast_to(one_way, (row_count(rows), row_count(rows)))
        return one_way | one_way.T

    def _pinned(self, cells: Integers, rng: np.random.Generator) -> dict[int, Floats]:
        """The values of chosen combinations that must be the same in all rows, where other ones could break the rule.

        A combination that could clash with itself alone has values of its own, if no other rule names the column.
        """
        rows, ones, terms = self.rows(cells), np.ones(len(cells)), self.rule.terms
        itself = terms_hold(terms, rows, rows, reading="may")
        clashes = [partner_weights(order, rows, rows, ones, reading="may") for order in (terms, self.rule.swapped)]
        needed = clashes[0] + clashes[1] > 0
        alone = (clashes[0] == itself) & (clashes[1] == itself) & self.rule.compares_same_columns
        pinned = {}
        for axis, place in enumerate(self.columns):
            column, numbers = self.schema.columns[place], rows[place]
            several = needed & (numbers.low < numbers.high)
            if isinstance(column, BinnedColumn) and several.any():
                drawn = column.draw_positions(
                    self.within_bin_counts.get(column.name), cells[:, axis].astype(np.uint16), rng
                )
                values = np.where(alone & (place not in self.shared), drawn, numbers.value)
                pinned[place] = np.where(several, values, np.nan)
        return pinned

    def forbidden_cells(self, law: Floats) -> ForbiddenCells:
        """All combinations of values but those that are chosen by their probabilities; an axis for each column."""
        cells, mass = self.combinations(law)
        table = np.zeros(law.shape, dtype=np.bool_)
        table[tuple(map(slice, self.sizes))] = True
        table[tuple(cells[self._kept(cells, mass)].T)] = False
        return ForbiddenCells(self.columns, table)

    def combinations(self, law: Floats) -> tuple[Integers, Floats]:
        """The combinations of values that a law of observed cells gives some mass, and how much."""
        values = law[tuple(map(slice, self.sizes))]
        return np.argwhere(values > 0), values[values > 0]

    def reweight(
        self, cells: Integers, mass: Floats, *, weight: float | None = None, share: float = 0.0
    ) -> SoftReweighting:
        r"""The law of these combinations under a soft rule, as chances with which rows are kept.

        .. math:: q(u) \propto p(u) \exp\bigl(-w \sum_v K(u, v)\, q(v)\bigr),

        with :math:`K(u, v) = 1` if two rows u and v break the rule, in either order. Of a weight that is given, q is
        the fixed point; else w grows until a `share` of all pairs breaks the rule, and is 0 if no more do anyway. What
        is lacking in mass are rows without values, which break nothing.
        """
        kept, valued = mass > 0, max(float(mass.sum()), 1e-300)
        cells, p = cells[kept], mass[kept] / valued
        rows = self.rows(cells)
        clash = self._clash(rows).astype(np.float64) if len(cells) <= BLOCK else None

        def clashing(law: Floats) -> Floats:
            return np.maximum(conflict_weights(self.rule, rows, law), 0.0) if clash is None else clash @ law

        q, broken, w = p, clashing(p), GENTLE if weight is None else weight
        for _ in range(STEPS):
            if weight is None and (q @ broken * valued**2 <= share or w > STEEPEST):
                break
            # A step down the slope of KL(q | p) + w/2 q'Kq, short enough not to go too far: K is at most 1.
            before, part = q, 1 / (1 + w)
            q = q ** (1 - part) * (p * np.exp(-w * broken)) ** part
            q /= q.sum()
            broken = clashing(q)
            if weight is None:
                w *= STEEPER
            elif np.abs(q - before).sum() < SETTLED:
                break
        ratio = np.append(q / p, 1.0)  # of none at all, every row is kept
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
