r"""Sums over the rows of a sealed table: of each row by itself, and of rows filled from others.

These functions take functions of rows, which could keep the rows that they receive. So they are not methods of
`PrivateTable`. Only the packages `data/` and `query/` call them, with functions whose stability is proved.

A sum over a table whose gaps are filled from the nearest rows, and a bound on its change by one row:

.. math:: q(D) = \sum_{\text{donors}} f(y) + \sum_{\text{donees}} \bar f(x, \mathrm{don}(x)), \qquad
          S(D) = \max(|a|, |b|) + L_1(D)\,(b - a)\,/\,m

f has values in [a, b]; m is k for the scheme "mean" and 1 otherwise. All values are integers on a public grid, so sums
and bounds are exact. Proved in docs/proofs/neighbours.md.
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
    number_of_rows,
    plain_sum_distance,
)
from gapless.errors import Call, Hint, SchemaError
from gapless.privacy.private import L1, LinfByGroup, Private, Smooth, gather, transform
from gapless.privacy.smooth import SmoothValue
from gapless.schema import Schema
from gapless.types import Codes, Integers, whole

Contribution: TypeAlias = Callable[[Mapping[str, Codes]], NDArray[np.float64]]

_CONTRIBUTION_BITS = 24
_BLOCK = 2**22  # votes counted at a time


@dataclass(frozen=True, slots=True)
class Bounds:
    """The public bounds of a row's contribution, in integer steps of a grid; the step is a power of two."""

    low: int
    high: int
    step: Fraction

    @classmethod
    def of(cls, low: float, high: float) -> Bounds:
        """The grid has about 2^24 steps up to the larger bound."""
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise SchemaError(
                f"low = {low} and high = {high} do not bound contributions: low must be below high, and both finite",
                hint="pass a finite low that is below a finite high",
            )
        step = Fraction(2) ** (math.frexp(max(abs(low), abs(high)))[1] - _CONTRIBUTION_BITS)
        return cls(round(Fraction(low) / step), round(Fraction(high) / step), step)

    def sensitivity(self, matching: Matching, donees: int) -> Fraction:
        """The largest change of the sum by one row that changes a donor of this many donees."""
        of_donee = (self.high - self.low) * self.step / (matching.neighbors if matching.scheme == "mean" else 1)
        return max(abs(self.low), abs(self.high)) * self.step + donees * of_donee

    def to_steps(self, values: NDArray[np.float64]) -> Integers:
        """Contributions in integer steps, clipped to the bounds; NaN counts as 0."""
        step = float(self.step)
        clipped = np.clip(np.nan_to_num(values, nan=0.0), self.low * step, self.high * step)
        return np.rint(clipped / step).astype(np.int64)

    @property
    def without_donor(self) -> int:
        """The contribution of a donee without a donor: 0, or the bound nearest to it."""
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
    """The sum of all contributions, and its smooth bound if one row can change a donor of `moved` donees."""
    donors, donees = links.donors, links.donees
    donee_codes = {name: codes[donees] for name, codes in columns.items()}
    sizes = {name: schema[name].size for name in targets}
    is_donor = np.ones(number_of_rows(columns), dtype=np.bool_)
    is_donor[donees] = False
    total = int(bounds.to_steps(value({name: codes[is_donor] for name, codes in columns.items()})).sum())

    def donated(name: str, rows: Integers) -> Codes:
        return np.minimum(columns[name][np.maximum(rows, 0)], sizes[name] - 1)

    def filled(cells: Mapping[str, Codes], has_donor: NDArray[np.bool_]) -> int:
        """The sum over donees when their gaps take these cells."""
        taken = {name: np.where(donee_codes[name] < sizes[name], donee_codes[name], cells[name]) for name in targets}
        contributions = bounds.to_steps(value(donee_codes | taken))
        return int(np.where(has_donor, contributions, bounds.without_donor).sum())

    if not donees.size:
        share = Fraction(0)
    elif matching.scheme == "majority":
        (name,) = targets
        cells = _most_frequent(donated(name, donors), donors >= 0, sizes[name])
        share = Fraction(filled({name: cells}, donors[:, 0] >= 0))
    else:
        sums = (filled({name: donated(name, rows) for name in targets}, rows >= 0) for rows in donors.T)
        share = Fraction(sum(sums), donors.shape[1])
    return SmoothValue((total + share) * bounds.step, bounds.sensitivity(matching, moved))


def _most_frequent(cells: Codes, counted: NDArray[np.bool_], size: int) -> Codes:
    """The most frequent cell of each row, the first one if there are several; a block of rows at a time."""
    most = np.empty(len(cells), dtype=cells.dtype)
    step = max(1, _BLOCK // size)
    for first in range(0, len(cells), step):
        block = cells[first : first + step].astype(np.int64)
        flat = block + np.arange(len(block))[:, None] * size
        votes = np.bincount(flat[counted[first : first + step]], minlength=len(block) * size)
        most[first : first + step] = votes.reshape(len(block), size).argmax(axis=1)
    return most


NEIGHBOR_FILLING = "filling gaps from the nearest rows"
MOST_QUANTILE_PARTS = 1_000_000  # the largest denominator: with fewer than 2³² rows scores are exact floats


def plain_sum(table: PrivateTable, contribution: RowContribution) -> Private[Integers, L1]:
    """The sum of the contributions of all rows, each by itself.

    Distance: a row adds at most `contribution.unit` in L1, so k rows move the sum by at most k units.
    `reads`: `contribution.needs`, since rows with a gap in one of these columns are left out.
    """
    check_private(table, "plain_sum()")
    names = _columns_read(table, contribution, sorted(contribution.needs))
    observed = {name: table.schema[name].size for name in contribution.needs}

    def total(engine: Engine) -> Integers:
        sums = np.zeros(contribution.width, dtype=np.int64)
        for rows in _named_batches(table, engine, names):
            sums += contribution.total(rows, observed)
        return sums

    distance = plain_sum_distance(contribution, table.protect.at_most)
    return table._seal(total, distance=distance, reads=table._observed_on(contribution.needs))


def rank_scores(
    table: PrivateTable, contribution: RowContribution, column: str, *, quantile: Fraction, shifts: Sequence[int]
) -> list[Private[Integers, LinfByGroup]]:
    r"""Scores of a column's values, by group: 0 at a quantile of the rows that `contribution` counts, else below 0.

    .. math:: s_c = -D \max(B_c - t,\ t - B_c - n_c,\ 0), \qquad t = q n + \text{shift}

    n counts the rows of a group, :math:`n_c` those with value c, :math:`B_c` those with an earlier value; q = N / D.
    The score is 0 for the values at which t rows are reached, and otherwise -D for each row between. The first value
    has no :math:`B_c - t` and the last no :math:`t - B_c - n_c`: a rank before the first row is reached at the first
    value. There is one result for each shift, all from the same counts.

    Distance: one more row in a group changes t by q, and :math:`B_c`, :math:`B_c + n_c` by 0 or 1. So it changes scores
    of its group by at most D max(q, 1 - q) = max(N, D - N), and of no other group. k rows change them by k times that,
    added up over groups. `reads`: `contribution.needs`.
    """
    check_private(table, "rank_scores()")
    part, parts = int(quantile.numerator), int(quantile.denominator)  # plain: counts are multiplied by them
    counts_rows = (contribution.components, contribution.unit, contribution.signed) == (1, 1, False)
    if not counts_rows:
        raise SchemaError(
            "ranks are of rows that are counted once, but this contribution does not count rows",
            hint="pass a contribution of 1 for each row",
        )
    if not 0 <= part <= parts <= MOST_QUANTILE_PARTS:
        raise SchemaError(
            f"a quantile must be a fraction from 0 to 1 with a denominator of at most {MOST_QUANTILE_PARTS}, "
            f"got {part}/{parts}",
            hint="pass a fraction such as 1/2",
        )
    names = _columns_read(table, contribution, sorted(contribution.needs), [column])
    observed = {name: table.schema[name].size for name in contribution.needs}
    cells = table.schema[column].values_size

    def count(engine: Engine) -> Integers:
        counts = np.zeros(contribution.groups * cells, dtype=np.int64)
        for rows in _named_batches(table, engine, names):
            group, added = contribution.evaluate(rows, observed)
            kept = (added[:, 0] == 1) & (rows[column] < cells)
            counts += np.bincount(group[kept] * cells + rows[column][kept], minlength=len(counts))
        return counts.reshape(contribution.groups, cells)

    def scores(counts: Integers, shift: int) -> Integers:
        reached = parts * np.cumsum(counts, axis=1)
        before = reached - parts * counts
        rank = part * counts.sum(axis=1, keepdims=True) + parts * shift
        too_high, too_low = before - rank, rank - reached
        too_high[:, 0], too_low[:, -1] = 0, 0
        away: Integers = np.maximum(np.maximum(too_high, too_low), 0)
        return -away

    counts = table._seal(count, distance=None, reads=None)
    distance = LinfByGroup(table.protect.at_most * max(part, parts - part))
    reads = table._declared_reads(table._observed_on(contribution.needs))
    return [
        transform(counts, partial(scores, shift=int(shift)), distance=distance, reads=reads, key=table._key)
        for shift in shifts
    ]


def hot_deck_sum(
    table: PrivateTable,
    contribution: RowContribution,
    *,
    targets: Sequence[str],
    cells: Sequence[str],
    limit: int,
    bins: Schema | None = None,
) -> Private[Integers, L1]:
    """The sum of contributions when gaps in `targets` are filled from donors with the same `cells`: `hot_deck_total`.

    `bins` is a schema with the public bins by which rows are matched, if those of the table are finer.
    Distance: `hot_deck_distance`. `reads`: every row that the table reads.
    """
    check_private(table, "hot_deck_sum()")
    schema = table.schema
    targets, cells = (targets,) if isinstance(targets, str) else tuple(targets), tuple(cells)
    names = _columns_read(table, contribution, targets, cells)
    limit = whole("limit", limit, error=SchemaError, least=1)
    sizes = {name: schema[name].size for name in targets}
    if not sizes:
        raise SchemaError(
            "no column to fill: a hot deck needs at least one",
            hint=Hint("use ", Call("plain_sum", ...), ", which fills nothing"),
        )
    matched = {name: bin_of_code(schema[name], (bins or schema)[name]) for name in cells}

    def total(engine: Engine) -> Integers:
        rows, counts = distinct_rows(names, _named_batches(table, engine, names))
        classes = [matched[name][rows[name]] for name in cells]
        return hot_deck_total(contribution, rows, counts, targets=sizes, classes=classes, limit=limit)

    distance = hot_deck_distance(contribution, limit, table.protect.at_most)
    return table._seal(total, distance=distance, reads=table._required or None)


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
    """The sum of contributions when gaps in `targets` are filled from the nearest rows without such gaps.

    Args:
        table: the sealed table.
        value: maps columns of codes to the contribution of each row, row by row; gaps of the targets are filled.
        targets: the columns whose gaps are filled. A row observed on all of them is a donor. Another row keeps its
            observed cells and takes the others from its donor.
        matching: the columns on which rows are compared, and the number of donors.
        low: the least contribution of a row. All contributions are clamped, also those of rows that the question
            leaves out: then 0 should lie within the bounds.
        high: the largest contribution of a row.
        values_from: the same rows under another schema, for `value`; rows are matched under the schema of `table`.

    It has a smooth bound instead of a distance: max(|low|, |high|) + L₁ (high - low), where the last term is divided by
    the number of neighbors for the scheme "mean". A donee without any donor contributes 0, or the bound nearest to it.
    Proved in docs/proofs/neighbours.md.
    """
    check_private(table, "neighbour_sum()")
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    values_from = table if values_from is None else values_from
    check_private(values_from, "neighbour_sum()")
    schema = values_from.schema
    matching.check(table.schema, targets)
    check_in_memory(table, NEIGHBOR_FILLING)
    bounds = Bounds.of(low, high)

    def compute(sealed: list[Any]) -> SmoothValue:
        engine, (links, moved) = sealed
        columns = dict(zip(schema.names, rows_in_memory(engine).columns, strict=True))
        return imputed_sum(
            columns, links, moved, value, schema=schema, targets=targets, matching=matching, bounds=bounds
        )

    both: Private[list[Any], None] = gather([values_from._rows, _find_links(table, targets, matching)], key=table._key)
    distance = Smooth(table.protect.at_most, float(bounds.sensitivity(matching, 1)))  # as L₁ ≥ 1
    return transform(both, compute, distance=distance, reads=table._required or None, key=table._key)


def _find_links(table: PrivateTable, targets: tuple[str, ...], matching: Matching) -> Private[tuple[Links, int], None]:
    """Donees, their donors, and the largest number of donees that one row can change; cached for all sums."""
    if (targets, matching) not in table._donor_links:
        schema = table.schema
        space = Space.of(matching, schema)
        matched, target_places = schema.positions(space.names), schema.positions(targets)

        def compute(sealed: list[Any]) -> tuple[Links, int]:
            engine, random_order = sealed
            columns = rows_in_memory(engine).columns
            observed = [columns[place] < schema.columns[place].size for place in target_places]
            is_donor = np.logical_and.reduce(observed)
            links = link(space, [columns[place] for place in matched], is_donor, random_order, matching.neighbors)
            return links, influence(links, space, matching.cover)

        both: Private[list[Any], None] = gather([table._rows, table._random_order], key=table._key)
        links = transform(both, cached(compute), distance=None, reads=None, key=table._key)
        table._donor_links[targets, matching] = links
    return table._donor_links[targets, matching]


def _columns_read(table: PrivateTable, contribution: RowContribution, *more: Iterable[str]) -> tuple[str, ...]:
    """The columns of a contribution and more, each once; at least one, since it gives the number of rows."""
    lists = [contribution.columns, *map(tuple, more)]
    for names in lists:
        table.schema.positions(names)  # refuses an unknown or repeated name before the charge
    return tuple(dict.fromkeys(chain.from_iterable(lists))) or table.schema.names[:1]


def _named_batches(table: PrivateTable, engine: Engine, names: Sequence[str]) -> Iterator[CodesByName]:
    """The codes of these columns by name, some rows at a time."""
    for batch in engine.batches(table.schema.positions(names)):
        yield dict(zip(names, batch.columns, strict=True))
