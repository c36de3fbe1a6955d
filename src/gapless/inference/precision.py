r"""How precisely a release knows its columns: noise and sampling errors from released values.

Everything follows from the released counts and the standard deviation of their noise. No copy is drawn, so this is fast
enough for every release. `gapless.inference.associations` does the same for pairs of columns.

Let n be the released number of rows in which a column is observed, and :math:`\kappa = \sigma / n` the
noise in a share. Noise alone causes about this total variation distance between the released shares and the true ones,
with K cells, and this standard error of a mean in standard deviations of the column:

.. math:: \tfrac12 \sqrt{\tfrac 2\pi}\, \kappa\, K \sqrt{1 - 1/K}, \qquad
          \kappa \sqrt{\textstyle\sum_c (x_c - \bar x)^2} \big/ s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gapless.query.numbers import cell_numbers
from gapless.schema import Column, Integer, Number
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.types import Floats

TWO_SIDED = 1.959964
MOSTLY_MISSING = 0.5  # a column that is missing in more rows than this
MEAN_SIZE = math.sqrt(2 / math.pi)  # mean absolute noise at standard deviation 1


class Interval(NamedTuple):
    """An estimate and its 95 % interval for the population."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ColumnPrecision:
    """What noise leaves of one column.

    Attributes:
        column: the column, with the bins of the model.
        rows: the released number of rows in which it is observed.
        people: the same in persons, at least.
        missing: the released share of rows in which it is missing; 0 if gaps were not counted.
        shares: the released shares of its observed cells, some of them perhaps below 0.
        noise_std: the standard deviation of the noise in the count of a cell; infinite if it was not measured.
        middles: the middle of the numbers in each bin; None if the column has no numbers.
        within: the sum over rows of the deviation of a number from the middle of its bin, where bins were learned.
        within_std: its noise.
    """

    column: Column
    rows: float
    people: float
    missing: float
    shares: Floats
    noise_std: float
    middles: Floats | None = None
    within: float = 0.0
    within_std: float = 0.0

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

    @property
    def share_std(self) -> float:
        """The standard deviation of the noise in a share."""
        return self.noise_std / self.rows

    @property
    def distance(self) -> float:
        """The total variation distance of the shares that noise alone is expected to cause."""
        cells = len(self.shares)
        return min(1.0, MEAN_SIZE / 2 * self.share_std * math.sqrt(cells * (cells - 1))) if cells > 1 else 0.0

    @property
    def mean_std(self) -> float | None:
        """The standard error of the mean by noise, in standard deviations; None if the column has no numbers."""
        if self.middles is None:
            return None
        spread = self._spread
        return self._mean_noise / spread if spread > 0 and not self.is_collapsed else math.inf

    @property
    def missing_half(self) -> float | None:
        """Half the 95 % interval of the share of rows in which it is missing; None if that is unknown."""
        if not self.is_measured:
            return None
        noise = self.noise_std * math.sqrt(len(self.column.gaps)) * (1 - self.missing) / self.rows
        return TWO_SIDED * math.hypot(noise, self._sampling(self.missing) * math.sqrt(1 - self.missing))

    def share_intervals(self) -> list[Interval] | None:
        r"""Return the share of each cell in the population, with noise and sampling in its interval.

        If most cells are gaps, the interval of a share :math:`[l, h]` becomes :math:`[(1-g) l, (1-g) h + g]` with g the
        share of gaps: it holds whatever the missing values are. Else values are taken to be missing at random.
        None if the column was not measured, or is lost.
        """
        if not self.is_measured or self.is_collapsed:
            return None
        return [
            self._widened(float(share), TWO_SIDED * math.hypot(self.share_std, self._sampling(float(share))), 0.0, 1.0)
            for share in self.shares
        ]

    def mean_interval(self) -> Interval | None:
        """Return the mean in the population; see `share_intervals`. None without numbers, or if it is lost."""
        if self.middles is None or not self.is_measured or self.is_collapsed:
            return None
        mean = self._mean
        half = TWO_SIDED * math.hypot(self._mean_noise, self._spread / math.sqrt(self.people))
        first, last = self._line.bin_ranges()
        return self._widened(mean, half, float(first[0]), float(last[-1]))

    def _widened(self, value: float, half: float, least: float, most: float) -> Interval:
        gaps = self.missing if self.is_mostly_missing else 0.0
        ends = (1 - gaps) * (value - half) + gaps * least, (1 - gaps) * (value + half) + gaps * most
        value, low, high = (min(most, max(least, end)) for end in (value, *ends))
        return Interval(value, low, high)

    def _sampling(self, share: float) -> float:
        share = min(1.0, max(0.0, share))
        return math.sqrt(share * (1 - share) / self.people)

    @property
    def _line(self) -> BinnedColumn:
        assert isinstance(self.column, BinnedColumn)  # noqa: S101 for mypy: it has numbers
        return self.column

    @property
    def _values(self) -> Floats:
        """The shares of its values, without *not applicable*."""
        return self.shares[: self._line.values_size]

    @property
    def _spread(self) -> float:
        """The standard deviation of its numbers: between bins, and of a uniform position within."""
        assert self.middles is not None  # noqa: S101 for mypy: numbers only
        first, last = self._line.bin_ranges()
        shares = np.maximum(self._values, 0.0)
        shares = shares / max(float(shares.sum()), 1e-9)
        off = self.middles - shares @ self.middles
        return math.sqrt(float(shares @ (off**2 + (last - first) ** 2 / 12)))

    @property
    def _mean_noise(self) -> float:
        """The standard error of the mean by noise in counts of bins, and within learned bins."""
        assert self.middles is not None  # noqa: S101 for mypy: numbers only
        between = self.noise_std * float(np.linalg.norm(self.middles - self._mean))
        return math.hypot(between, self.within_std) / (self.rows * self._of_values)

    @property
    def _mean(self) -> float:
        """The mean, which is linear in signed counts: clipping these at 0 would be a bias that no interval shows."""
        assert self.middles is not None  # noqa: S101 for mypy: numbers only
        return (float(self._values @ self.middles) + self.within / self.rows) / self._of_values

    @property
    def _of_values(self) -> float:
        """The share of values, without *not applicable*; at least its noise."""
        return max(float(self._values.sum()), self.share_std, 1e-9)


def column_precision(model: FittedModel) -> list[ColumnPrecision]:
    """Return what noise leaves of each column; without measurements, by the noise levels and the model alone."""
    return [_column_precision(model, place) for place in range(len(model.schema.columns))]


def _column_precision(model: FittedModel, place: int) -> ColumnPrecision:
    column, total, known = model.schema.columns[place], max(1.0, model.total), model.measurements
    per_person = model.facts.guarantee.protect.at_most
    counts, noise_std = (np.zeros(0), math.inf) if known is None else known.column_counts(model.schema, place)
    numbers = (
        cell_numbers(model.schema.finest, column.name, None).values if isinstance(column, Integer | Number) else None
    )
    if known is None or not math.isfinite(noise_std):
        whole = model.marginal_if_known(column.name, gaps="filled" if model.gapped is None else "as-observed")
        shares = np.full(column.size, 1 / column.size) if whole is None else whole[: column.size]
        observed = max(float(shares.sum()), 1e-9)
        noise_std = 0.0 if column.size == 1 else model.facts.noise.get(column.name, math.inf)
        rows, missing = max(1.0, total * observed), max(0.0, 1 - observed)
        middles = _bin_middles(column, numbers)
        return ColumnPrecision(column, rows, rows / per_person, missing, shares / observed, noise_std, middles)
    seen = counts[: column.size]
    rows = max(1.0, float(seen.sum()), noise_std * math.sqrt(len(seen)))
    of_all = max(rows, float(counts.sum()) if known.extended else total)
    return ColumnPrecision(
        column,
        rows,
        max(1.0, rows / per_person),
        1 - rows / of_all,
        seen / rows,
        noise_std,
        _bin_middles(column, numbers),
        *((0.0, 0.0) if numbers is None else known.within_bin_sum(model.schema, place, numbers)),
    )


def _bin_middles(column: Column, numbers: Floats | None) -> Floats | None:
    """Return the mean of the numbers of a column's finest cells in each of its bins."""
    if numbers is None:
        return None
    assert isinstance(column, BinnedColumn)  # noqa: S101 for mypy: it has numbers
    bins = column.finest.regroup(column)[: len(numbers)]
    return np.asarray(np.bincount(bins, numbers) / np.bincount(bins))
