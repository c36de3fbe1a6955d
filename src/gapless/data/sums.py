r"""Sums over the rows of a sealed table of what each row adds, by itself or filled from others.

They take functions of rows, so they are no methods of `PrivateTable`: whoever holds a table could pass one that keeps
what it is shown. Only the rooms `data/` and `query/` call them, with functions whose stability is proved.

Sums over a table whose gaps are filled from the nearest rows, and how far one row can move them.

.. math:: q(D) = \sum_{\text{donors}} f(y) + \sum_{\text{donees}} \bar f(x, \mathrm{don}(x)), \qquad
          S(D) = \max(|a|, |b|) + L_1(D)\,(b - a)\,/\,m

f lies in [a, b]; m is k for the scheme "mean" and 1 otherwise. Everything is counted in whole steps of a public grid,
so sums and bounds are exact. Proved in docs/proofs/neighbours.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.data.checks import check_private
from gapless.data.engines.memory import Engine, rows_in_memory
from gapless.data.influence import influence
from gapless.data.neighbors import Links, Matching, Space, link
from gapless.data.private_table import PrivateTable, cached, check_in_memory
from gapless.data.row_contribution import (
    CodesByName,
    RowContribution,
    bin_of_code,
    distinct_rows,
    hot_deck_distance,
    hot_deck_total,
    plain_sum_distance,
)
from gapless.errors import Call, Hint, SchemaError
from gapless.privacy.private import L1, LinfByGroup, Private, Smooth, gather, transform
from gapless.privacy.smooth import SmoothValue
from gapless.schema import Schema
from gapless.types import Codes, Integers, whole

Contribution: TypeAlias = Callable[[Mapping[str, Codes]], NDArray[np.float64]]

_STEPS = 24  # bits of a contribution
_BLOCK = 2**22  # votes counted at a time


@dataclass(frozen=True, slots=True)
class Bounds:
    """The public bounds of a row's contribution, in whole steps of a grid that is a power of two."""

    low: int
    high: int
    step: Fraction

    @classmethod
    def of(cls, low: float, high: float) -> Bounds:
        """The grid has about 2^24 steps up to the larger bound."""
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise SchemaError(f"contributions between {low} and {high}", hint="low below high, both finite")
        step = Fraction(2) ** (math.frexp(max(abs(low), abs(high)))[1] - _STEPS)
        return cls(round(Fraction(low) / step), round(Fraction(high) / step), step)

    @property
    def row_sensitivity(self) -> Fraction:
        """How far a row's own contribution can move the sum."""
        return max(abs(self.low), abs(self.high)) * self.step

    def donee_sensitivity(self, matching: Matching) -> Fraction:
        """How far one donee can move the sum when one of its donors changes."""
        return (self.high - self.low) * self.step / (matching.neighbors if matching.scheme == "mean" else 1)

    def least_sensitivity(self, matching: Matching) -> Fraction:
        """The least bound there can be, as L₁ ≥ 1."""
        return self.row_sensitivity + self.donee_sensitivity(matching)

    def to_steps(self, values: NDArray[np.float64]) -> Integers:
        """Contributions in whole steps; what is no number counts as 0, what is outside as the nearer bound."""
        step = float(self.step)
        inside = np.clip(np.nan_to_num(values, nan=0.0), self.low * step, self.high * step)
        return np.rint(inside / step).astype(np.int64)

    @property
    def without_donor(self) -> int:
        """What a donee contributes in place of a donor that is not there: 0, or the nearer bound."""
        return min(max(0, self.low), self.high)


def imputed_sum(
    columns: Mapping[str, Codes],
    links: Links,
    moved: int,
    value: Contribution,
    *,
    schema: Schema,
    targets: Sequence[str],
    matching: Matching,
    bounds: Bounds,
) -> SmoothValue:
    """The sum of all contributions, and its smooth bound when one row can move `moved` donees."""
    donors, donees = links.donors, links.donees
    own = {name: codes[donees] for name, codes in columns.items()}
    sizes = {name: schema[name].size for name in targets}
    rows = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    rows[donees] = False
    total = int(bounds.to_steps(value({name: codes[rows] for name, codes in columns.items()})).sum())

    def filled(cells: Mapping[str, Codes], served: NDArray[np.bool_]) -> int:
        """The donees' sum when their gaps take these cells; those without a donor contribute nothing."""
        whole = {name: np.where(own[name] < sizes[name], own[name], cells[name]) for name in targets}
        contributions = bounds.to_steps(value(own | whole))
        return int(np.where(served, contributions, bounds.without_donor).sum())

    def cells_of(slot: int) -> dict[str, Codes]:
        given = np.maximum(donors[:, slot], 0)
        return {name: np.minimum(columns[name][given], sizes[name] - 1) for name in targets}

    if not donees.size:
        share = Fraction(0)
    elif matching.scheme == "majority":
        (name,) = targets
        given = np.minimum(columns[name][np.maximum(donors, 0)], sizes[name] - 1)
        cells = _most_frequent(given, donors >= 0, sizes[name])
        share = Fraction(filled({name: cells}, donors[:, 0] >= 0))
    else:
        slots = range(donors.shape[1])
        share = Fraction(sum(filled(cells_of(slot), donors[:, slot] >= 0) for slot in slots), donors.shape[1])
    return SmoothValue(
        (total + share) * bounds.step, bounds.row_sensitivity + moved * bounds.donee_sensitivity(matching)
    )


def _most_frequent(cells: Codes, counted: NDArray[np.bool_], size: int) -> Codes:
    """The most frequent cell of each row, the first of several; a block of rows at a time."""
    most = np.empty(len(cells), dtype=cells.dtype)
    step = max(1, _BLOCK // size)
    for first in range(0, len(cells), step):
        block = cells[first : first + step].astype(np.int64)
        flat = block + np.arange(len(block))[:, None] * size
        votes = np.bincount(flat[counted[first : first + step]], minlength=len(block) * size)
        most[first : first + step] = votes.reshape(len(block), size).argmax(axis=1)
    return most


NEIGHBOR_FILLING = "filling gaps from the nearest rows"
MOST_QUANTILE_PARTS = (
    1_000_000  # of a whole, in which a quantile is told: with fewer than 2³² rows scores are exact floats
)


def plain_sum(table: PrivateTable, tally: RowContribution) -> Private[Integers, L1]:
    """The sum of what each row adds, by itself, to a vector of whole numbers.

    Distance: the absolute numbers of one row add up to at most `tally.unit`, so k rows move the sum by at most
    k units in L1. Rows with a gap in one of `tally.needs` are left out, whatever they would add.
    """
    check_private(table, "plain_sum()")
    schema = table.schema
    names = _columns_read(table, tally, sorted(tally.needs))
    observed = {name: schema[name].size for name in tally.needs}

    def total(engine: Engine) -> Integers:
        sums = np.zeros(tally.width, dtype=np.int64)
        for some, rows in _named_batches(table, engine, names):
            sums += tally.total(some, rows, observed)
        return sums

    return table._seal(
        total,
        distance=plain_sum_distance(tally, table.protect.at_most),
        reads=table._observed_on(tally.needs),
    )


def rank_scores(
    table: PrivateTable, tally: RowContribution, column: str, *, quantile: Fraction, shifts: Sequence[int]
) -> list[Private[Integers, LinfByGroup]]:
    r"""How near each value of a column is to a quantile of the rows that `tally` counts, group by group.

    .. math:: s_c = -D \max(B_c - t,\ t - B_c - n_c,\ 0), \qquad t = q n + \text{shift}

    n counts the rows of a group, :math:`n_c` those with value c, :math:`B_c` those with an earlier one; q = N / D. The
    score is 0 for the value, or the values, at which t rows are reached, and else -D for each row between. The first
    value has no :math:`B_c - t` and the last no :math:`t - B_c - n_c`: a rank before the first row is reached at the
    first value. One value for each shift, of one and the same counts.

    Distance: a row more in a group changes t by q and :math:`B_c`, :math:`B_c + n_c` by 0 or 1, so its scores by at
    most D max(q, 1 - q) = max(N, D - N), and those of no other group; k rows move scores by k times that, added up over
    groups. Rows with a gap in one of `tally.needs` are left out.
    """
    check_private(table, "rank_scores()")
    schema = table.schema
    part, parts = int(quantile.numerator), int(quantile.denominator)  # plain: counts are multiplied by them
    if (tally.components, tally.unit, tally.signed) != (1, 1, False) or not 0 <= part <= parts <= MOST_QUANTILE_PARTS:
        raise SchemaError("ranks are of rows, each counted once, and of a plain share", hint="a tally of rows")
    names = _columns_read(table, tally, sorted(tally.needs), [column])
    observed = {name: schema[name].size for name in tally.needs}
    cells = schema[column].values_size

    def count(engine: Engine) -> Integers:
        counts = np.zeros(tally.groups * cells, dtype=np.int64)
        for some, _ in _named_batches(table, engine, names):
            group, added = tally.evaluate(some)
            kept = (added[:, 0] == 1) & (some[column] < cells)
            for name, codes in observed.items():
                kept &= some[name] < codes
            counts += np.bincount(group[kept] * cells + some[column][kept], minlength=len(counts))
        return counts.reshape(tally.groups, cells)

    def scores(counts: Integers, shift: int) -> Integers:
        reached = parts * np.cumsum(counts, axis=1)
        begun = reached - parts * counts
        rank = part * counts.sum(axis=1, keepdims=True) + parts * shift
        too_high, too_low = begun - rank, rank - reached
        too_high[:, 0], too_low[:, -1] = 0, 0
        away: Integers = np.maximum(np.maximum(too_high, too_low), 0)
        return -away

    counted = table._seal(count, distance=None, reads=None)
    return [
        transform(
            counted,
            partial(scores, shift=int(shift)),
            distance=LinfByGroup(table.protect.at_most * max(part, parts - part)),
            reads=table._declared_reads(table._observed_on(tally.needs)),
            key=table._key,
        )
        for shift in shifts
    ]


def hot_deck_sum(
    table: PrivateTable,
    tally: RowContribution,
    *,
    targets: Sequence[str],
    cells: Sequence[str],
    limit: int,
    bins: Schema | None = None,
) -> Private[Integers, L1]:
    """The same sum when gaps in `targets` are filled from donors with the same `cells`: see `hot_deck_total`.

    `bins` tells by which public bins rows are matched, where the table tells these columns by something finer.
    Distance: see `hot_deck_distance`. Every row is read.
    """
    check_private(table, "hot_deck_sum()")
    schema = table.schema
    targets, cells = (targets,) if isinstance(targets, str) else tuple(targets), tuple(cells)
    names = _columns_read(table, tally, targets, cells)
    limit = whole("limit", limit, error=SchemaError, least=1)
    sizes = {name: schema[name].size for name in targets}
    if not sizes:
        raise SchemaError("no column to fill", hint=Hint("use ", Call("plain_sum", ...), ", which fills nothing"))

    matched = {name: bin_of_code(schema[name], (bins or schema)[name]) for name in cells}

    def total(engine: Engine) -> Integers:
        rows, times = distinct_rows(names, _named_batches(table, engine, names))
        classes = [matched[name][rows[name]] for name in cells]
        return hot_deck_total(tally, rows, times, targets=sizes, classes=classes, limit=limit)

    return table._seal(
        total,
        distance=hot_deck_distance(tally, limit, table.protect.at_most),
        reads=table._required or None,
    )


def neighbour_sum(
    table: PrivateTable,
    value: Contribution,
    *,
    targets: Sequence[str],
    matching: Matching,
    low: float,
    high: float,
    values_from: PrivateTable | None = None,
) -> Private[SmoothValue, Smooth]:
    """The sum of each row's contribution, gaps in `targets` filled from the nearest rows that have none.

    Args:
        table: the sealed table.
        value: maps columns of codes to each row's contribution, row by row; gaps of the targets come filled.
        targets: the columns whose gaps are filled. A row observed on all of them is a donor; another keeps the
            cells that it has and takes the others from its donor.
        matching: on which columns rows are compared, and how many donors there are.
        low: the least that a row can contribute. All contributions are clamped, also those of rows that the
            question leaves out: then 0 should lie within the bounds.
        high: the most that a row can contribute.
        values_from: the same rows under another schema, for `value`; rows are matched under the schema of `table`.

    Comes with a smooth bound in place of a distance: max(|low|, |high|) + L₁ (high - low), the last term divided
    by the number of neighbors for the scheme "mean". Without any donor a donee contributes 0, or the bound nearer
    to it. Proved in docs/proofs/neighbours.md.
    """
    check_private(table, "neighbour_sum()")
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    values_from = table if values_from is None else values_from
    check_private(values_from, "neighbour_sum()")
    schema = values_from.schema
    matching.check(table.schema, targets)
    check_in_memory(table, NEIGHBOR_FILLING)
    bounds = Bounds.of(low, high)

    def compute(both: list[Any]) -> SmoothValue:
        engine, (links, moved) = both
        named = dict(zip(schema.names, rows_in_memory(engine).columns, strict=True))
        return imputed_sum(named, links, moved, value, schema=schema, targets=targets, matching=matching, bounds=bounds)

    pair: Private[list[Any], None] = gather([values_from._rows, _find_links(table, targets, matching)], key=table._key)
    distance = Smooth(table.protect.at_most, float(bounds.least_sensitivity(matching)))
    return transform(pair, compute, distance=distance, reads=table._required or None, key=table._key)


def _find_links(table: PrivateTable, targets: tuple[str, ...], matching: Matching) -> Private[tuple[Links, int], None]:
    """Donees, their donors, and how many donees one row can move; found once for all sums over them."""
    if (targets, matching) not in table._donor_links:
        schema = table.schema
        space = Space.of(matching, schema)
        matched, asked = schema.positions(space.names), schema.positions(targets)
        sizes = [schema.columns[place].size for place in asked]

        def compute(both: list[Any]) -> tuple[Links, int]:
            engine, labels = both
            rows = rows_in_memory(engine)
            observed = np.ones(rows.rows, dtype=np.bool_)
            for place, size in zip(asked, sizes, strict=True):
                observed &= rows.columns[place] < size
            links = link(space, [rows.columns[place] for place in matched], observed, labels, matching.neighbors)
            return links, influence(links, space, matching.cover)

        pair: Private[list[Any], None] = gather([table._rows, table._random_order], key=table._key)
        table._donor_links[targets, matching] = transform(
            pair, cached(compute), distance=None, reads=None, key=table._key
        )
    return table._donor_links[targets, matching]


def _columns_read(table: PrivateTable, tally: RowContribution, *more: Iterable[str]) -> tuple[str, ...]:
    """The columns of a tally and more, each once; one at least: it tells how many rows a batch has."""
    asked = [tally.columns, *map(tuple, more)]
    for names in asked:
        table.schema.positions(names)  # an unknown or repeated name is told now
    return tuple(dict.fromkeys(chain.from_iterable(asked))) or table.schema.names[:1]


def _named_batches(table: PrivateTable, engine: Engine, names: Sequence[str]) -> Iterator[tuple[CodesByName, int]]:
    """The codes of these columns by name, and how many rows they are of, some rows at a time."""
    for batch in engine.batches(table.schema.positions(names)):
        yield dict(zip(names, batch.columns, strict=True)), batch.rows
