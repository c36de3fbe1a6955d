r"""What a release knows of single columns: estimates linear in released counts, with their noise, in closed form.

No copy is drawn, so this is fast enough for every release. `gapless.inference.associations` does the same for pairs.
The report and the verdict use it, and `gapless.inference.closed_form` answers questions with it.

Let n be the noisy counts of the K cells of a column, gaps among them, each with noise :math:`\sigma`. Let N be the
number of rows by all tables, with noise :math:`\sigma_N`. For numbers f of the cells, with the mean :math:`\bar f`,

.. math:: S(f) = N \bar f + (f - \bar f)^\top n, \qquad
          \operatorname{Var} S(f) = \sigma^2 \lVert f - \bar f \rVert^2 + \sigma_N^2 \bar f^2

is the best linear estimate of the sum of f over rows: :math:`n - \bar n` and N have independent noise. Where bins were
learned, the sum of deviations within bins, by the least-squares counts of their cells, is added
(Hay, Rastogi, Miklau, Suciu 2010).
Shares, means and cumulative shares are ratios of two such sums. To first order, the error of r = S(f) / S(d) is

.. math:: \bigl(S(g) + \textstyle\sum_i g_i\bigr) / S(d), \qquad g = f - r\, d,

with the noise of S(g), and the sum over a sample of rows of g, whose variance is :math:`n \operatorname{E} g^2`. With
several rows of one person, n counts persons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gapless.inference.intervals import TWO_SIDED, share_variance, within_ends
from gapless.inference.support import unsupported
from gapless.model.marginal import positive_shares
from gapless.query.numbers import cell_numbers
from gapless.schema import Column, Integer, Number
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.synth.learning import least_squares_counts
from gapless.types import Floats

MOSTLY_MISSING = 0.5  # a column that is missing in more rows than this
NOT_MEASURED = "not supported by this release: there are no released counts of the column"
WANTED_BINS = 10  # learned bins; with fewer, what noise hides within them counts
MEAN_SIZE = math.sqrt(2 / math.pi)  # mean absolute noise at standard deviation 1


class Interval(NamedTuple):
    """An estimate and its 95 % interval for the population."""

    value: float
    low: float
    high: float


class Ratio(NamedTuple):
    """An estimate from released counts, and the standard deviations of its two errors."""

    value: float
    noise_std: float
    sampling_std: float

    @property
    def half(self) -> float:
        """Half the 95 % interval."""
        return TWO_SIDED * math.hypot(self.noise_std, self.sampling_std)


@dataclass(frozen=True, eq=False)
class ColumnPrecision:
    """What noise leaves of one column.

    Attributes:
        column: the column, with the bins of the model.
        counts: the released counts of its cells, some of them perhaps below 0; then those of its gaps, if counted.
        noise_std: the standard deviation of the noise in each count; infinite if it was not measured.
        total: the number of counted rows, by all tables.
        total_std: its noise.
        all_rows: the number of rows, counted in this column or not.
        per_person: rows of one person, at most.
        unsupported: why estimates have no interval, as `gapless.pool` says it; else empty.
        numbers: the number of each of its finest cells; None if the column has no numbers.
        within: nonnegative counts of these cells, for the distribution within bins; None where it is even.
        levels: where bins were learned, the counts of these cells and of groups of them, the coarsest level first.
        level_std: the noise in each of these.
    """

    column: Column
    counts: Floats
    noise_std: float
    total: float
    total_std: float
    all_rows: float
    per_person: int = 1
    unsupported: str = ""
    numbers: Floats | None = None
    within: Floats | None = None
    levels: tuple[Floats, ...] = ()
    level_std: float = 0.0

    @property
    def is_collapsed(self) -> bool:
        """Whether all values are in one learned bin, so that only their spread within the bin could be known."""
        column = self.column
        return isinstance(column, BinnedColumn) and column.values_size == 1 < column.finest.values_size

    @property
    def is_measured(self) -> bool:
        """Whether the noise in its shares is known."""
        return math.isfinite(self.noise_std)

    @property
    def is_mostly_missing(self) -> bool:
        """Whether certainly most cells are gaps, so that most values of the synthetic rows are filled."""
        return self.missing - (self.missing_half or 0.0) > MOSTLY_MISSING

    @cached_property
    def rows(self) -> float:
        """The released number of rows in which it is observed; at least its noise."""
        noise = self.noise_std * math.sqrt(self.column.size) if self.is_measured else 0.0
        return max(1.0, float(self.signed_cells.sum()), noise)

    @property
    def people(self) -> float:
        """The same in persons, at least."""
        return max(1.0, self.rows / self.per_person)

    @property
    def missing(self) -> float:
        """The released share of rows in which it is missing; 0 if gaps were not counted."""
        return 1 - self.rows / self._rows_with_gaps

    @property
    def _rows_with_gaps(self) -> float:
        """The number of rows, at least those in which it is observed: noise may make the released number 0."""
        return max(self.rows, self.all_rows)

    @property
    def share_std(self) -> float:
        """The standard deviation of the noise in a share."""
        return self.noise_std / self.rows

    @property
    def distance(self) -> float:
        r"""The total variation distance of the shares that noise alone is expected to cause.

        With K cells and :math:`\kappa` the noise in a share it is about
        :math:`\tfrac12 \sqrt{2 / \pi}\, \kappa\, K \sqrt{1 - 1/K}`. If noise left fewer than ten learned bins, rows
        move within them too: as among ten cells with the noise of a level, but no more than bins of several cells hold.
        """
        within = 0.0
        if self.levels and self.column.size < WANTED_BINS:
            several = np.bincount(self.bins)[self.bins] > 1
            noise = _distance(WANTED_BINS, self.level_std / self.rows)
            within = min(noise, float(self._likely_cells[several].sum()))
        return min(1.0, _distance(self.column.size, self.share_std) + within)

    @property
    def mean_std(self) -> float | None:
        """The standard error of the mean by noise, in standard deviations; None if the column has no numbers."""
        if self.numbers is None:
            return None
        part, whole = self._mean_parts
        likely = self._likely_cells / max(float(self._likely_cells @ whole), 1e-300)
        spread = math.sqrt(float(likely @ (part - (likely @ part) * whole) ** 2))
        return self.ratio(part, whole).noise_std / spread if spread > 0 and not self.is_collapsed else math.inf

    @property
    def spread_std(self) -> float | None:
        """The standard error of the standard deviation by noise, as a share of it; None if the column has no numbers.

        To first order: the noise in the sum over rows of half their squared distance from the mean, in variances. A
        long tail of nonnegative counts may be noise alone. It inflates the variance, but the error stays large.
        """
        if self.numbers is None:
            return None
        part, whole = self._mean_parts
        likely = self._likely_cells / max(float(self._likely_cells @ whole), 1e-300)
        squares = (part - (likely @ part) * whole) ** 2
        variance = float(likely @ squares)
        if not self.is_measured or self.is_collapsed or variance <= 0:
            return math.inf
        rows = max(float(self.signed_cells @ whole), self.noise(whole), 1e-9)
        return self.noise(squares / variance - whole) / (2 * rows)

    @property
    def missing_half(self) -> float | None:
        """Half the 95 % interval of the share of rows in which it is missing; None if that is unknown."""
        if not self.is_measured:
            return None
        gaps = (np.arange(len(self.counts)) >= self.column.size).astype(np.float64)
        noise = self._noise_of_counts(gaps - self.missing) / self._rows_with_gaps if gaps.any() else 0.0
        people = max(1.0, self._rows_with_gaps / self.per_person)
        return TWO_SIDED * math.hypot(noise, math.sqrt(self.missing * (1 - self.missing) / people))

    def share_intervals(self) -> list[Interval] | None:
        r"""Return the share of each cell in the population, with noise and sampling in its interval.

        If most cells are gaps, the interval of a share :math:`[l, h]` becomes :math:`[(1-g) l, (1-g) h + g]` with g the
        share of gaps: it holds whatever the missing values are. Else values are taken to be missing at random.
        None if the column was not measured, or is lost.
        """
        return [self.share_interval([cell]) for cell in range(self.column.size)] if self.has_intervals else None

    def share_interval(self, cells: Sequence[int]) -> Interval:
        """Return the share of these cells together, if the column has intervals; see `share_intervals`."""
        part = np.isin(self.bins, cells).astype(np.float64)
        return self._interval(self.ratio(part, np.ones(len(part)), is_share=True), 0.0, 1.0)

    def mean_interval(self) -> Interval | None:
        """Return the mean in the population; see `share_intervals`. None without numbers, or if it is lost."""
        if self.numbers is None or not self.has_intervals:
            return None
        return self._interval(self.ratio(*self._mean_parts), float(self.numbers.min()), float(self.numbers.max()))

    def ratio(self, part: Floats, whole: Floats, *, is_share: bool = False) -> Ratio:
        """Estimate the ratio of two sums over rows, given what each of the finest observed cells adds to them.

        It is unknown if the column was not measured, or if no cell adds to the denominator.

        Args:
            part: what cells add to the numerator.
            whole: what cells add to the denominator.
            is_share: whether it is a share. Its variance is then never 0, as if two rows of either kind were added.
        """
        if not self.is_measured or not whole.any():
            return Ratio(math.nan, math.nan, math.nan)
        rows = max(float(self.signed_cells @ whole), self.noise(whole), 1e-9)
        value = float(self.signed_cells @ part) / rows
        error, people = part - value * whole, max(1.0, rows / self.per_person)
        if is_share:
            variance = share_variance(min(1.0, max(0.0, value)), 1 / people)
        else:
            likely = self._likely_cells
            variance = float(likely @ error**2) / max(float(likely @ whole), 1e-300) / people
        return Ratio(value, self.noise(error) / rows, math.sqrt(variance))

    def noise(self, added: Floats) -> float:
        """The standard deviation of the noise in the sum over rows of what each of the finest cells adds."""
        of_bins = np.bincount(self.bins, self._weights * added, self.column.size)
        variance = self._noise_of_counts(np.append(of_bins, np.zeros(len(self.counts) - self.column.size))) ** 2
        if self.levels:
            within = (added - of_bins[self.bins])[: len(self.levels[-1])]
            if np.abs(within).max() > 1e-12 * np.abs(added).max():
                # The variance is σ² d′(X′X)⁻¹d. The estimate from counts of 0, but d as the finest, is (X′X)⁻¹d.
                zeros = (np.zeros(len(level)) for level in self.levels[:-1])
                inverse = least_squares_counts([*zeros, within], self.level_std)
                variance += self.level_std**2 * max(0.0, float(within @ inverse))
        return math.sqrt(variance)

    def _noise_of_counts(self, added: Floats) -> float:
        middle = float(added.mean())
        return math.hypot(self.noise_std * float(np.linalg.norm(added - middle)), self.total_std * middle)

    @cached_property
    def signed_cells(self) -> Floats:
        """The signed counts of the finest observed cells: their product with what cells add is the sum over rows."""
        counts = self.counts + (self.total - self.counts.sum()) / len(self.counts)
        cells = counts[self.bins] * self._weights
        if self.levels:
            found = least_squares_counts(self.levels, self.level_std)
            bins = self.bins[: len(found)]
            cells[: len(found)] += found - (np.bincount(bins, found) / np.bincount(bins))[bins]
        return np.asarray(cells)

    @cached_property
    def bins(self) -> NDArray[np.int64]:
        """The cell of this column that holds each of its finest observed cells."""
        column = self.column
        return column.finest.regroup(column)[: column.finest.size] if is_binned(column) else np.arange(column.size)

    @cached_property
    def _mean_parts(self) -> tuple[Floats, Floats]:
        """What each of the finest cells adds to the sum of the numbers, and to their number."""
        assert self.numbers is not None  # noqa: S101 for mypy: numbers only
        none = np.zeros(len(self.bins) - len(self.numbers))
        return np.append(self.numbers, none), np.append(np.ones(len(self.numbers)), none)

    @cached_property
    def _weights(self) -> Floats:
        """The share of each of the finest cells in its bin: equal where deviations from that are measured."""
        return self._shares_in_bins(None if self.levels else self.within)

    @cached_property
    def _likely_cells(self) -> Floats:
        """The shares of the finest observed cells as rows have them: not negative."""
        shares = positive_shares(self.counts, max(1.0, float(self.counts.sum())))
        return shares[self.bins] * self._shares_in_bins(self.within)

    def _shares_in_bins(self, counts: Floats | None) -> Floats:
        likely = np.ones(len(self.bins))
        if counts is not None:
            likely[: len(counts)] = counts + 1e-9  # cells of an empty bin are equally likely
        return np.asarray(likely / np.bincount(self.bins, likely)[self.bins])

    @property
    def has_intervals(self) -> bool:
        """Whether its shares have intervals: it was measured, and is not lost."""
        return not self.unsupported and self.is_measured and not self.is_collapsed

    def _interval(self, found: Ratio, least: float, most: float) -> Interval:
        value, low, high = within_ends(found.value, found.half, least, most)
        gaps = self.missing if self.is_mostly_missing else 0.0
        return Interval(value, (1 - gaps) * low + gaps * least, (1 - gaps) * high + gaps * most)


def _distance(cells: int, noise_std: float) -> float:
    """Return the total variation distance that noise in the shares of cells is expected to cause."""
    return MEAN_SIZE / 2 * noise_std * math.sqrt(cells * (cells - 1)) if cells > 1 else 0.0


def is_binned(column: Column) -> TypeGuard[BinnedColumn]:
    """Whether several values of a column may be in one cell."""
    return isinstance(column, BinnedColumn)


def column_precision(model: FittedModel) -> list[ColumnPrecision]:
    """Return what noise leaves of each column; without measurements, by the noise levels and the model alone."""
    return [precision_of(model, place) for place in range(len(model.schema.columns))]


def precision_of(model: FittedModel, place: int) -> ColumnPrecision:
    """Return what noise leaves of the column at this place."""
    column, known = model.schema.columns[place], model.measurements
    per_person = model.facts.guarantee.protect.at_most
    has_numbers = isinstance(column, Integer | Number)
    numbers = cell_numbers(model.schema.finest, column.name, None).values if has_numbers else None
    counts, noise_std = (np.zeros(0), math.inf) if known is None else known.column_counts(model.schema, place)
    reason = NOT_MEASURED if known is None else unsupported(model, [frozenset({place})])
    if known is not None and len(counts) == 1:  # every row is in the only cell, so no table counts it
        counts, noise_std = np.array([model.total]), 0.0
    if not math.isfinite(noise_std):
        whole = model.marginal_if_known(column.name, gaps="filled" if model.gapped is None else "as-observed")
        counts = model.total * (np.full(column.size, 1 / column.size) if whole is None else whole)
        noise_std, reason = model.facts.noise.get(column.name, math.inf), reason or NOT_MEASURED
    total, total_std, all_rows = float(counts.sum()), noise_std * math.sqrt(len(counts)), model.total
    if known is not None and known.extended:
        total, total_std, all_rows = known.total, known.total_std, known.total
    levels, level_std = ((), 0.0) if known is None else known.levels_of(place)
    is_coarse = is_binned(column) and column.values_size < column.finest.values_size
    within = known.cell_counts(model.schema, place) if known is not None and is_coarse else None
    return ColumnPrecision(
        column,
        counts,
        noise_std,
        total,
        total_std,
        all_rows,
        per_person,
        reason,
        numbers,
        within,
        levels,
        level_std,
    )
