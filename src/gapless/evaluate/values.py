"""Statistics of values in two tables: means, standard deviations, quantiles, frequent values, correlations."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from gapless.data import Table
from gapless.data.checks import given_weights, to_shared_bins
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats

QUANTILES = {0.1: "10% quantile", 0.25: "25% quantile", 0.5: "median", 0.75: "75% quantile", 0.9: "90% quantile"}
NEAR = 0.01  # of the distance from the 10 % to the 90 % quantile: up to it a quantile is wrong by values, not ranks
SPIKE = 0.05  # least share of a frequent value, which is compared by itself
PEARSON, SPEARMAN = "Pearson's r", "Spearman's ρ"
MEAN, SPREAD, DISTANCE, SHARE = "mean", "standard deviation", "Wasserstein distance", "share"
MEASURES = (MEAN, SPREAD, *QUANTILES.values(), DISTANCE)  # of one column

MEAN_SIZE = math.sqrt(2 / math.pi)  # mean absolute value of a standard normal variable
_MILLISECONDS = 86_400_000.0  # of a day


@dataclass(frozen=True, slots=True)
class Difference:
    """One statistic in both tables, such as the median of a column.

    Attributes:
        columns: the column, or the two columns of a correlation.
        measure: the statistic: "mean", "median", "Pearson's r", "share" …
        cell: the value or level of a share.
        truth, other: the statistic in each table; dates and times in days since 1970. None without values.
        error: the difference, on a scale that all columns share (`compare_values`).
        chance: the approximate `error` of a second sample from the same population.
        noise: the `error` that the noise of a release explains; None if no model of it was given.
    """

    columns: tuple[str, ...]
    measure: str
    truth: float | None
    other: float | None
    error: float
    chance: float
    cell: str | None = None
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class _Distribution:
    """The values that occur, in increasing order, and the share of each."""

    places: Floats
    shares: Floats
    rows: float  # effective number

    @property
    def mean(self) -> float:
        return float(self.shares @ self.places)

    @property
    def std(self) -> float:
        return math.sqrt(float(self.shares @ (self.places - self.mean) ** 2))

    @property
    def tails(self) -> float:
        """The standard deviation of the influence function of the standard deviation, as a share of it."""
        return _std(((self.places - self.mean) / (self.std or 1.0)) ** 2, self.shares) / 2

    @property
    def up_to(self) -> Floats:
        """The share at or below each value, with a leading 0."""
        return np.append(0.0, np.cumsum(self.shares))

    def quantile(self, share: float) -> float:
        """Return the smallest value with `share` at or below it; the middle to the next value on equality."""
        reached = self.up_to[1:]
        first, second = (
            min(int(np.searchsorted(reached, share + shift)), len(self.places) - 1) for shift in (-1e-9, 1e-9)
        )
        return float(self.places[first] + self.places[second]) / 2

    def share_up_to(self, values: Floats) -> Floats:
        """Return the share at or below each of some values."""
        return self.up_to[np.searchsorted(self.places, values, "right")]

    def index(self, values: Floats) -> NDArray[np.int64]:
        """Return the indices of values that occur; any index for others."""
        return np.minimum(np.searchsorted(self.places, values), len(self.places) - 1)

    def ranks(self, value: float) -> tuple[float, float]:
        """Return the share below a value, and the share up to it."""
        below, up_to = (self.up_to[np.searchsorted(self.places, value, side)] for side in ("left", "right"))
        return float(below), float(up_to)


def compare_values(truth: Table, other: Table, *, weights: ArrayLike | None = None) -> tuple[Difference, ...]:
    r"""Compare numbers, integers, dates and times by their values, and every two such columns by correlation.

    A row without a value in a column (a gap, *not applicable*) is left out for this column and its correlations. With s
    the standard deviation of the truth and F its distribution function, the errors are

    - mean and Wasserstein distance :math:`W_1 = \int |F - G|`: in units of s;
    - standard deviation: the difference, as a share of the larger one;
    - quantiles at 10, 25, 50, 75 and 90 %: in ranks of the truth, the distance of p from :math:`[F(q^-), F(q)]`, with q
      the other table's quantile; a median at the truth's 98 % quantile has the error 0.48;
    - share of a value with at least 5 % of the rows of a table: the difference; only the largest is reported;
    - Pearson's r, Spearman's ρ (mid-ranks): the difference; left out where it is undefined.

    `chance` is :math:`\sqrt{2/\pi}\,\sqrt{1/n + 1/m}` times the standard deviation of the statistic's influence
    function in the truth; for :math:`W_1` it is the integral of that of F. For standard deviations and correlations it
    is the larger of both tables', because a sample without its tail underestimates chance. n and m are effective
    numbers of rows.

    Args:
        truth: the true table.
        other: the table that is compared with the truth.
        weights: one for each row of `other`; a weight of 2 counts like two equal rows.
    """
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    truth_values, other_values = column_values(truth), column_values(other)
    masses = np.ones(truth.rows), np.ones(other.rows) if checked is None else checked
    singles = (
        difference
        for name in truth_values
        for difference in _column(
            truth, name, _distribution(truth_values[name], masses[0]), _distribution(other_values[name], masses[1])
        )
    )
    return (*singles, *_correlations(truth_values, other_values, masses))


def column_values(table: Table) -> dict[str, Floats]:
    """Return the values of every number, integer, date and time, NaN without a value; times in days since 1970."""
    found = {}
    for column in table.schema.columns:
        if isinstance(column, BinnedColumn):
            series = table[column.name]
            steps = _MILLISECONDS if isinstance(series.dtype, pl.Datetime) else 1.0
            found[column.name] = series.to_physical().cast(pl.Float64).to_numpy() / steps
    return found


def format_value(value: float, kind: str) -> str:
    """Format a value: a number, a date, or a date and a time.

    >>> format_value(8003.0, "integer"), format_value(0.123456, "number")
    ('8,003', '0.1235')
    >>> format_value(19000.5, "datetime"), format_value(19000.5, "date")
    ('2022-01-08 12:00', '2022-01-08')
    """
    if kind not in ("date", "datetime"):
        return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    moment = np.datetime64(round(value * 1440), "m").astype(dt.datetime)
    return f"{moment:%Y-%m-%d %H:%M}" if kind == "datetime" else f"{moment:%Y-%m-%d}"


def _distribution(values: Floats, mass: Floats) -> _Distribution | None:
    seen = ~np.isnan(values) & (mass > 0)
    if not seen.any():
        return None
    kept = mass[seen]
    places, at = np.unique(values[seen], return_inverse=True)
    return _Distribution(places, np.bincount(at, kept) / kept.sum(), float(kept.sum() ** 2 / (kept**2).sum()))


def _column(table: Table, name: str, truth: _Distribution | None, other: _Distribution | None) -> Iterator[Difference]:
    if truth is None or other is None:
        if truth is not other:
            known = [None if distribution is None else distribution.mean for distribution in (truth, other)]
            yield Difference((name,), MEAN, known[0], known[1], 1.0, 0.0)
        return
    unit = truth.std or max(truth.places[-1], other.places[-1]) - min(truth.places[0], other.places[0]) or 1.0
    chance = chance_of_means(truth.rows, other.rows)
    yield Difference((name,), MEAN, truth.mean, other.mean, abs(truth.mean - other.mean) / unit, chance)
    larger = max(truth.std, other.std) or 1.0
    tails = max(truth.tails, other.tails)
    yield Difference((name,), SPREAD, truth.std, other.std, abs(truth.std - other.std) / larger, tails * chance)
    middle = truth.quantile(0.9) - truth.quantile(0.1)
    for share, measure in QUANTILES.items():
        below, up_to = truth.ranks(other.quantile(share))
        error, off = max(0.0, below - share, share - up_to), abs(truth.quantile(share) - other.quantile(share))
        if 0 < off <= NEAR * middle:  # beside a frequent value a small step passes many ranks
            error = min(error, off / middle)
        by_chance = math.sqrt(share * (1 - share)) * chance
        yield Difference((name,), measure, truth.quantile(share), other.quantile(share), error, by_chance)
    moved, by_chance = _wasserstein(truth, other)
    yield Difference((name,), DISTANCE, 0.0, moved, moved / unit, by_chance * chance / unit)
    yield from _spike(name, table.schema[name].kind, truth, other, chance)


def _std(values: Floats, shares: Floats) -> float:
    return math.sqrt(max(0.0, float(shares @ values**2) - float(shares @ values) ** 2))


def _wasserstein(truth: _Distribution, other: _Distribution) -> tuple[float, float]:
    """Return how far values must move on average, and the part of chance, before the factor for the rows."""
    places = np.union1d(truth.places, other.places)
    steps = np.diff(places)
    first, second = np.clip(truth.share_up_to(places[:-1]), 0.0, 1.0), other.share_up_to(places[:-1])
    return float(np.abs(first - second) @ steps), float(np.sqrt(first * (1 - first)) @ steps)


def _spike(name: str, kind: str, truth: _Distribution, other: _Distribution, chance: float) -> Iterator[Difference]:
    """Yield the frequent value whose share changed most."""
    spikes = np.union1d(truth.places[truth.shares >= SPIKE], other.places[other.shares >= SPIKE])
    if not len(spikes):
        return
    shares = [_shares_at(distribution, spikes) for distribution in (truth, other)]
    most = int(np.argmax(np.abs(shares[0] - shares[1])))
    true, found = float(shares[0][most]), float(shares[1][most])
    by_chance = chance_of_shares(true, found, chance)
    yield Difference((name,), SHARE, true, found, abs(true - found), by_chance, format_value(float(spikes[most]), kind))


def _shares_at(distribution: _Distribution, values: Floats) -> Floats:
    at = distribution.index(values)
    return np.where(distribution.places[at] == values, distribution.shares[at], 0.0)


def chance_of_means(rows: float, others: float) -> float:
    """Return the mean absolute difference by chance of two means, in standard deviations of a value."""
    return MEAN_SIZE * math.sqrt(1 / max(1.0, rows) + 1 / max(1.0, others))


def chance_of_shares(first: float, second: float, chance: float) -> float:
    """Return the mean absolute difference by chance of two shares, from their mean: one of them may be 0."""
    middle = min(1.0, (first + second) / 2)
    return chance * math.sqrt(middle * (1 - middle))


# ---------------------------------------------------------------------- correlations


def _correlations(
    truth: Mapping[str, Floats], other: Mapping[str, Floats], masses: tuple[Floats, Floats]
) -> Iterator[Difference]:
    """Yield Pearson's r and Spearman's ρ of every two columns."""
    tables = [
        (values, {name: weighted_ranks(column, mass) for name, column in values.items()}, mass)
        for values, mass in zip((truth, other), masses, strict=True)
    ]
    for pair in combinations(truth, 2):
        for measure in (PEARSON, SPEARMAN):
            true, found = (correlation_of(*rows_of_pair(*table, pair, measure)) for table in tables)
            if true is not None and found is not None:
                chance = max(true.spread, found.spread) * chance_of_means(true.rows, found.rows)
                yield Difference(pair, measure, true.r, found.r, abs(true.r - found.r), chance)


def rows_of_pair(
    values: Mapping[str, Floats], ranks: Mapping[str, Floats], mass: Floats, pair: tuple[str, str], measure: str
) -> tuple[Floats, Floats, Floats]:
    """Return values or ranks of two columns in the rows that have both, and the weights of these rows."""
    both = ~np.isnan(values[pair[0]] + values[pair[1]])
    if measure == PEARSON:
        x, y = (values[name][both] for name in pair)
    else:  # the ranks in the whole column are valid if no value is left out
        x, y = (
            ranks[name][both]
            if both.sum() == (~np.isnan(values[name])).sum()
            else weighted_ranks(values[name][both], mass[both])
            for name in pair
        )
    return x, y, mass[both]


def weighted_ranks(values: Floats, mass: Floats) -> Floats:
    """Return mid-ranks from 0 to 1, NaN without a value."""
    ranks = np.full(len(values), np.nan)
    seen = ~np.isnan(values)
    distribution = _distribution(values, mass)
    if distribution is not None:
        at = distribution.index(values[seen])
        ranks[seen] = distribution.up_to[at] + distribution.shares[at] / 2
    return ranks


class _Correlation(NamedTuple):
    r: float
    spread: float  # the standard deviation of the influence function
    rows: float  # effective number


def correlation_of(x: Floats, y: Floats, mass: Floats) -> _Correlation | None:
    """Return Pearson's r; None if a column is constant."""
    if not mass.sum() > 0:
        return None
    mass = mass / mass.sum()
    standard = []
    for line in (x, y):
        middle = line - mass @ line
        spread = math.sqrt(float(mass @ middle**2))
        if not spread > 1e-9 * np.abs(line).max():
            return None
        standard.append(middle / spread)
    x, y = standard
    r = max(-1.0, min(1.0, float(mass @ (x * y))))
    return _Correlation(r, _std(x * y - r / 2 * (x**2 + y**2), mass), float(1 / (mass**2).sum()))
