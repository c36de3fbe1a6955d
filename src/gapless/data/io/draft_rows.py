"""What a draft finds by comparing columns row by row: cells empty by a rule, copies of rows, dates in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data.io.encode import Encoder
from gapless.data.io.source import is_plain
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import Column
from gapless.schema.numeric import TINY, BinnedColumn
from gapless.types import Codes, Floats

IN_ORDER = 0.99  # share of rows in which two dates are in order, from which on their difference is proposed
LEAST_DATES = 10  # rows with both dates, at least
DECIDING_LEVELS = 12  # of a column that may decide where others are empty, at most
SLICE = 1 << 12  # rows that are compared at once: most pairs of columns are out after the first
LEAST_ROWS = 20  # empty ones, and others, from which a rule is proposed
BY_CHANCE = 1e-9  # chance that a level has only empty cells, above which that is no rule
MOST_EMPTY_EXPLAINED = 0.5  # share of a column's empty cells that a rule must explain, if it does not explain all
EQUAL_BY_CHANCE = 0.05  # pairs of rows equal in half of the columns: with more, copies of rows mean nothing
MORE_THAN_CHANCE = 100  # times as many pairs as independent halves have must be equal in both, for copies


@dataclass(frozen=True, slots=True)
class EmptyRule:
    """A column is empty wherever another has one of these levels; if it is *exact*, in no other row.

    If a `sign` is given, it is so where the other column is below (`<`) or from the only level on (`>=`).
    """

    column: str
    decider: str
    levels: tuple[str, ...]
    is_exact: bool
    sign: str = "=="


@dataclass
class EmptyRules:
    """Find the columns that are empty where another column has certain levels."""

    columns: Sequence[Column]
    gappy: Sequence[Column] = field(init=False)
    rows: dict[str, Floats] = field(init=False)  # by the levels of a decider, its gaps last
    empty: dict[str, Floats] = field(init=False)  # the same rows in which each gappy column is empty
    possible: dict[str, NDArray[np.bool_]] = field(init=False)  # gappy columns for which a rule is still possible
    # Of columns with an order: the lowest and highest codes where each gappy column has a value, and where it is empty.
    ranges: dict[str, Floats] = field(init=False)
    height: int = 0  # rows that were seen
    gaps: Any = 0.0  # the number of them in which each gappy column is empty

    def __post_init__(self) -> None:
        self.gappy = [column for column in self.columns if column.may_be_missing]
        deciders = [c for c in self.columns if 2 <= c.values_size <= DECIDING_LEVELS]
        self.rows = {column.name: np.zeros(column.size + 1) for column in deciders}
        self.empty = {column.name: np.zeros((column.size + 1, len(self.gappy))) for column in deciders}
        self.possible = {
            column.name: np.array([other is not column for other in self.gappy], dtype=bool) for column in deciders
        }
        self.ranges = {
            column.name: np.tile([[np.inf], [-np.inf], [np.inf], [-np.inf]], len(self.gappy))
            for column in self.columns
            if isinstance(column, BinnedColumn) and column.values_size > DECIDING_LEVELS
        }

    def look(self, codes: Mapping[str, Codes]) -> None:
        """Compare some more rows."""
        if not self.gappy:
            return
        self.height += len(codes[self.gappy[0].name])
        gaps = np.stack([codes[column.name] >= column.size for column in self.gappy], axis=1).astype(np.float32)
        self.gaps = self.gaps + gaps.sum(axis=0)
        for start in range(0, len(gaps), SLICE):
            slice_ = slice(start, start + SLICE)
            for name in self.rows:
                if not (possible := self.possible[name]).any():
                    continue
                rows = self.rows[name]
                levels = np.minimum(codes[name][slice_], len(rows) - 1)
                is_level = (levels == np.arange(len(rows))[:, None]).astype(np.float32)
                rows += is_level.sum(axis=1)
                self.empty[name][:, possible] += is_level @ gaps[slice_][:, possible]
                always = self.empty[name][:-1] == rows[:-1, None]
                self.possible[name] = possible & always.any(axis=0)
            for name, ends in self.ranges.items():
                apart = np.flatnonzero((ends[3] < ends[0]) | (ends[2] > ends[1]) | (ends[3] == -np.inf))
                self._widen(ends, apart, codes[name][slice_, None].astype(np.float32), gaps[slice_][:, apart] > 0)

    def _widen(self, ends: Floats, places: NDArray[np.intp], codes: Floats, empty: NDArray[np.bool_]) -> None:
        """Widen the ranges of codes of these gappy columns by some more rows."""
        for first, cells in ((0, ~empty), (2, empty)):
            ends[first, places] = np.minimum(ends[first, places], np.where(cells, codes, np.inf).min(axis=0))
            last = np.where(cells, codes, -np.inf).max(axis=0)
            ends[first + 1, places] = np.maximum(ends[first + 1, places], last)

    def found(self) -> list[EmptyRule]:
        """The rules, at most one for each column: an exact one first, then one by the column with the fewest levels."""
        order = sorted(self.rows, key=lambda name: len(self.rows[name]))
        rules = []
        for place, column in enumerate(self.gappy):
            candidates = [rule for name in order if (rule := self._rule(column, place, name))]
            candidates += [rule for name in self.ranges if (rule := self._bound(column, place, name))]
            candidates.sort(key=lambda rule: not rule.is_exact)
            rules += candidates[:1]
        return rules

    def _rule(self, column: Column, place: int, name: str) -> EmptyRule | None:
        if not self.possible[name][place]:
            return None
        decider = next(other for other in self.columns if other.name == name)
        rows, empty = self.rows[name], self.empty[name][:, place]
        by_rule = np.append((rows[:-1] > 0) & (empty[:-1] == rows[:-1]), False)
        by_rule[decider.values_size :] = False  # a cell that is not applicable decides nothing
        ruled, others, others_empty = rows[by_rule].sum(), rows[~by_rule].sum(), empty[~by_rule].sum()
        if ruled < LEAST_ROWS or others - others_empty < LEAST_ROWS:
            return None
        chances = (others_empty / others) ** rows[by_rule]
        if chances.max() > BY_CHANCE or ruled < MOST_EMPTY_EXPLAINED * (ruled + others_empty):
            return None
        levels = tuple(cell for cell, is_ruled in zip(decider.cells, by_rule, strict=False) if is_ruled)
        return EmptyRule(column.name, name, levels, is_exact=others_empty == 0)

    def _bound(self, column: Column, place: int, name: str) -> EmptyRule | None:
        """The rule that a column is empty exactly below or above a value of another."""
        decider = next(other for other in self.columns if other.name == name)
        lowest, highest, first, last = self.ranges[name][:, place]
        enough = LEAST_ROWS <= self.gaps[place] <= self.height - LEAST_ROWS
        overlap = lowest <= last and first <= highest
        if not enough or overlap or max(highest, last) >= decider.values_size or not isinstance(decider, BinnedColumn):
            return None
        sign, code = ("<", lowest) if last < lowest else (">=", first)
        bound = decider.bin_ranges()[0][int(code)]
        if bound == TINY:  # where the cell of 0 ends: no value that a rule can name
            return None
        return EmptyRule(column.name, name, (decider.label(bound),), is_exact=True, sign=sign)


@dataclass
class RowCopies:
    """Count rows that are copies of others, unless few columns make equal rows likely.

    The columns are cut into two halves. If equal rows are chance, then pairs of rows that are equal in one half are
    about as often equal in the other half as all pairs are.
    """

    halves: tuple[Sequence[str], Sequence[str]]
    hashes: list[pl.DataFrame] = field(default_factory=list)

    @classmethod
    def of(cls, names: Sequence[str]) -> RowCopies:
        """Compare these columns, given in the order of how many different values they have."""
        return cls(([*names[0::4], *names[3::4]], [*names[1::4], *names[2::4]]))

    def look(self, frame: pl.DataFrame) -> None:
        """Compare some more rows."""
        texts = {series.name: series.cast(pl.String) for series in frame if is_plain(series)}
        hashed = {}
        for half, names in zip("ab", self.halves, strict=True):
            known = [texts[name] for name in names if name in texts]
            hashed[half] = pl.DataFrame(known).hash_rows(seed=0) if known else pl.zeros(frame.height, eager=True)
        self.hashes.append(pl.DataFrame(hashed).cast(pl.UInt64))

    def found(self) -> int:
        """The number of rows that are copies of an earlier row."""
        rows = pl.concat(self.hashes)
        if rows.height < LEAST_ROWS:
            return 0
        pairs = rows.height * (rows.height - 1) / 2
        both, (first, second) = _equal_pairs(rows, ["a", "b"]), (_equal_pairs(rows, [half]) for half in "ab")
        if max(first, second) > EQUAL_BY_CHANCE * pairs or both < MORE_THAN_CHANCE * first * second / pairs:
            return 0
        return rows.height - rows.n_unique()


def _equal_pairs(rows: pl.DataFrame, names: list[str]) -> float:
    """The number of pairs of rows that are equal in these columns."""
    times = rows.group_by(names).len()["len"].cast(pl.Float64)
    return float((times * (times - 1) / 2).sum())


@dataclass
class OrderedDates:
    """Find pairs of dates that are in order in nearly all rows."""

    columns: Sequence[CalendarColumn]
    pairs: list[tuple[CalendarColumn, CalendarColumn]] = field(init=False)
    found: Floats = field(init=False)  # of each pair: rows with both, rows in order, the sum of the differences

    def __post_init__(self) -> None:
        pairs = permutations(self.columns, 2)
        self.pairs = [(later, earlier) for later, earlier in pairs if later.unit == earlier.unit]
        self.found = np.zeros((len(self.pairs), 3))

    def look(self, frame: pl.DataFrame, encoders: Mapping[str, Encoder], codes: Mapping[str, Codes]) -> None:
        """Compare some more rows."""
        if not self.pairs:
            return
        values = {column.name: encoders[column.name].values(frame, codes[column.name]) for column in self.columns}
        for place, (later, earlier) in enumerate(self.pairs):
            high, low = values[later.name], values[earlier.name]
            if high is None or low is None:  # for mypy: dates have values
                continue
            differences = (high - low)[~np.isnan(high - low)]
            self.found[place] += len(differences), (differences >= 0).sum(), differences.sum()

    def differences(self) -> list[tuple[str, str]]:
        """Pairs in order in nearly all rows, the later first. No column follows from two others."""
        rows, in_order, total = self.found.T
        is_ordered = (rows >= LEAST_DATES) & (in_order >= IN_ORDER * rows) & (total > 0)
        ordered = np.flatnonzero(is_ordered).tolist()
        proposed: dict[str, str] = {}
        for place in sorted(ordered, key=lambda place: total[place] / rows[place]):  # the closest first
            minuend, subtrahend = (column.name for column in self.pairs[place])
            if minuend not in {*proposed, *proposed.values()} and subtrahend not in proposed:
                proposed[minuend] = subtrahend
        return [*proposed.items()]


def look_at_rows(
    frames: Iterable[pl.DataFrame], columns: Sequence[Column], names: Sequence[str]
) -> tuple[list[EmptyRule], int, list[tuple[str, str]]]:
    """Rules of empty cells, the number of copies of rows, and pairs of dates in order.

    Args:
        frames: the rows.
        columns: the drafted columns.
        names: the columns in which a copy of a row is equal, those with many different values first.
    """
    rules, copies = EmptyRules(columns), RowCopies.of(names)
    dates = OrderedDates([column for column in columns if isinstance(column, CalendarColumn)])
    for frame in frames:
        encoders = {column.name: Encoder(column) for column in columns}
        codes = {name: encoder.codes(frame)[0] for name, encoder in encoders.items()}
        rules.look(codes)
        copies.look(frame)
        dates.look(frame, encoders, codes)
    return rules.found(), copies.found(), dates.differences()
