r"""The associations of pairs of columns that were measured together, with intervals from the noise in released values.

No copy is drawn, so this is fast enough for every release.

A table of two columns, or the products of their features, is a matrix

.. math:: M = \mathrm{E}\, f_a f_b^\top + \kappa Z

with independent standard noise Z; for a table the features of a cell are its indicator. So everything linear in M has
known noise. The rank correlation of two ordered columns is estimated by `gapless.inference.rank_correlations`.

For other pairs let :math:`W_a` map the features of a to uncorrelated scores of mean 0 and variance 1. The entries of
:math:`G = W_a M W_b^\top` are 0 for independent columns. The sum of their squares is Pearson's :math:`\phi^2`, and
their variances v are known:

.. math:: \hat\phi^2 = \sum (G^2 - v), \qquad \operatorname{se}^2(\hat\phi^2) = 2 \sum v^2 + 4 \bar v \phi^2,
          \qquad V = \sqrt{\hat\phi^2 / \min(\dim a, \dim b)}

with the mean :math:`\bar v` of v, weighted by :math:`G^2`. The upper end of the interval is the largest :math:`\phi^2`
whose distance from the estimate is at most 1.96 of its standard errors (Wilson 1927).

Directions of features in which noise exceeds everything that could be there are left out: cells that noise hides. With
several rows of one person, n counts persons. Estimates are those of the rows in which both columns are observed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from gapless.data.workload import FEATURE_LENGTH
from gapless.inference.intervals import TWO_SIDED
from gapless.inference.precision import MEAN_SIZE, precision_of
from gapless.inference.rank_correlations import Features, Scale, estimate_rank_correlation, sampling_variance, scale_of
from gapless.model.marginal import Measurement, marginalize, positive_shares
from gapless.schema import Column, Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.synth.marginal.features import finest_shares, mean_features
from gapless.synth.measurements import Measurements
from gapless.types import Floats

SPEARMAN, CRAMER = "Spearman's ρ", "Cramér's V"

_ALIKE = 0.2  # of the largest singular value of features: cells that differ less share their features


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPrecision:
    """What a release knows of two columns that were measured together.

    Attributes:
        columns: their positions.
        measure: Spearman's ρ for two ordered columns, else Cramér's V.
        value: the association in the released values.
        low, high: its 95 % interval for the population, from noise and sampling. For rank correlations of columns
            without gaps, `gapless estimate` prints the same.
        at_once: a wider interval. Those of all pairs hold at once in 19 of 20 releases (Bonferroni): of thousands of
            pairs, many of independent columns look related.
        sampling_std: the part of sampling in the standard error of a rank correlation.
        distance: the total variation distance of their cross table that noise alone is expected to cause.
        group_means: half the 95 % interval, by noise, of a mean of one column in groups of the other, in standard
            deviations; the mean over groups by their size, for (first by second, second by first). None where the
            averaged column has no numbers.
    """

    columns: tuple[int, int]
    measure: str
    value: float
    low: float
    high: float
    at_once: tuple[float, float]
    sampling_std: float
    distance: float
    group_means: tuple[float | None, float | None]

    @property
    def is_known(self) -> bool:
        """Whether the wider interval leaves out any possible value."""
        low, high = self.at_once
        return high < 1 or low > (-1 if self.measure == SPEARMAN else 0)

    @property
    def is_certain(self) -> bool:
        """Whether the wider interval does not contain 0."""
        return self.least > 0

    @property
    def least(self) -> float:
        """The end of the wider interval nearest to 0, as a size; 0 if the interval contains 0."""
        low, high = self.at_once
        return max(low, -high, 0.0)

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


class _Joint(NamedTuple):
    """What was measured of two columns.

    Attributes:
        counts: the matrix of observed cells, or of the products of features.
        left_out: for each column, the sums of its features over rows in which only the other one is missing.
        noise_std: the noise in each.
        rows: the number of rows in which both are observed.
        is_product: whether features were measured, not cells.
    """

    counts: Floats
    left_out: tuple[Floats, Floats]
    noise_std: float
    rows: float = 0.0
    is_product: bool = False

    @classmethod
    def of(cls, counts: Floats, observed: tuple[int, int], noise_std: float) -> _Joint:
        """Divide a matrix whose last cells of each axis are gaps."""
        a, b = observed
        left_out = counts[:a, b:].sum(axis=1), counts[a:, :b].sum(axis=0)
        return cls(np.asarray(counts[:a, :b]), left_out, noise_std)


class _Column(NamedTuple):
    """What pairs need of a column: the features of its cells, and the same on a scale if it is ordered."""

    features: Features
    scale: Scale | None

    def among(self, left_out: Floats, seen: _Joint) -> _Column:
        """Return it for the rows in which another column is observed too."""
        features = self.features.among(left_out, seen.rows, seen.noise_std)
        if isinstance(features, Scale):
            return _Column(features, features)
        return _Column(features, self.scale and self.scale.among(left_out, seen.rows, seen.noise_std))


def pair_precision(model: FittedModel, only: frozenset[int] | None = None) -> list[PairPrecision]:
    """Return what is known of each pair of columns that was measured together; none without measurements.

    A pair is left out if the model's rows do not keep its table (`Measurements.jointly_measured`), or if it is not the
    pair in `only`.
    """
    known = model.measurements
    if known is None:
        return []
    joint = _joint_counts(known, model)
    z = NormalDist().inv_cdf(1 - 0.025 / max(1, len(joint)))
    protect = model.facts.guarantee.protect.at_most
    chosen = {pair: seen for pair, seen in sorted(joint.items()) if only is None or only == frozenset(pair)}
    columns = {c: _column(model, known, c) for c in sorted({c for pair in chosen for c in pair})}
    pairs = []
    for pair, seen in chosen.items():
        both = [columns[c].among(left_out, seen) for c, left_out in zip(pair, seen.left_out, strict=True)]
        pairs.append(_pair_precision(model.schema, pair, seen, both, z, protect))
    return pairs


def cell_noise(model: FittedModel, columns: frozenset[int]) -> float:
    """Return the noise in the number of rows of one joint cell of these columns; infinite if it was not measured.

    It is that of the best linear estimate from all tables that hold the columns; from products of features, the root
    of the mean variance over cells. Rows of a model vary less where counts are clipped at 0.
    """
    known = model.measurements
    assert known is not None  # noqa: S101 for mypy: else there are no copies
    sizes, precision = known.sizes(model.schema), 0.0
    whole = frozenset(c for c in columns if sizes[c] > 1)
    for table in known.tables:
        shape = dict(zip(table.columns, table.counts.shape, strict=True))
        if all(shape.get(c) == sizes[c] for c in whole):
            cells = math.prod(sizes[c] for c in whole)
            precision += cells / table.counts.size / table.noise_std**2
    for product in known.products:
        if whole == frozenset(product.columns):
            both = [_column(model, known, c).features for c in product.columns]
            inverses = [np.linalg.pinv(features.vectors, rcond=_ALIKE) for features in both]
            scale = math.prod(float((inverse**2).sum()) / inverse.shape[1] for inverse in inverses)
            precision += 1 / (scale * product.noise_std**2)
    return precision**-0.5 if precision else math.inf


def _column(model: FittedModel, known: Measurements, place: int) -> _Column:
    """Return the features of a column: those of products, or the indicators of cells."""
    schema, column, total = model.schema, model.schema.columns[place], max(1.0, known.total)
    counts, noise_std = known.column_counts(schema, place)
    extended = positive_shares(counts, total) if math.isfinite(noise_std) else np.full(len(counts), 1 / len(counts))
    shares, rows = extended[: column.size], total * float(extended[: column.size].sum())
    shares = shares / shares.sum()
    cell_counts = {column.name: known.cell_counts(schema, place)} if isinstance(column, BinnedColumn) else {}
    fine_shares, cell_of = finest_shares(schema, place, extended, cell_counts)
    observed = len(cell_of) - (len(extended) - column.size)
    fine_shares = fine_shares[:observed] / fine_shares[:observed].sum()
    if not known.products:
        fine_vectors = np.eye(column.size)[cell_of[:observed]]
        features = Features(np.eye(column.size), shares, rows)
    else:
        of_values = known.features[place].size - (len(extended) - column.size)  # the last features are those of gaps
        fine_vectors = known.features[place].vectors[:observed, :of_values] / FEATURE_LENGTH
        means = mean_features(schema, place, extended, cell_counts, known.features[place].vectors)
        features = Features(means[: column.size, :of_values], shares, rows)
    if not _is_scale(column):
        return _Column(features, None)
    scale = scale_of(fine_shares, fine_vectors, rows)
    if not known.products:
        return _Column(scale, scale)
    even_shares = fine_shares
    if not known.levels_of(place)[0]:
        even_shares = finest_shares(schema, place, extended, {})[0][:observed]
    if scale.score is None:
        return _Column(features, scale)
    squares, precision = (fine_vectors @ scale.score) ** 2, precision_of(model, place)
    scale_std = precision.noise(squares - 1) / precision.rows if precision.is_measured else 0.0
    scale_bias = abs(float(squares @ (even_shares / even_shares.sum() - fine_shares)))
    return _Column(features, replace(scale, scale_std=scale_std, scale_bias=scale_bias))


def _is_scale(column: Column) -> bool:
    """Whether all observed cells have a place in the order: *not applicable* has none."""
    return column.is_ordered and column.size == column.values_size


def _joint_counts(known: Measurements, model: FittedModel) -> dict[tuple[int, int], _Joint]:
    """Return what was measured of each pair."""
    schema, sizes = model.schema, known.sizes(model.schema)
    observed, together = [column.size for column in schema.columns], known.jointly_measured(schema)
    kept = {pair for columns in together for pair in combinations(sorted(columns), 2)}
    found: dict[tuple[int, int], _Joint] = {}
    holding: defaultdict[tuple[int, int], list[Measurement]] = defaultdict(list)
    for table in known.tables:
        whole = [c for c, size in zip(table.columns, table.counts.shape, strict=True) if size == sizes[c] > 1]
        for pair in kept.intersection(combinations(sorted(whole), 2)):
            holding[pair].append(table)
    for pair, tables in holding.items():
        sums = [marginalize(table.counts, table.columns, pair) for table in tables]
        precisions = [s.size / table.counts.size / table.noise_std**2 for s, table in zip(sums, tables, strict=True)]
        counts = sum(s * p for s, p in zip(sums, precisions, strict=True)) / sum(precisions)
        seen = _Joint.of(np.asarray(counts), (observed[pair[0]], observed[pair[1]]), sum(precisions) ** -0.5)
        found[pair] = seen._replace(rows=max(1.0, float(seen.counts.sum())))
    for number, product in enumerate(known.products):
        a, b = product.columns
        values = [size - (sizes[c] - observed[c]) for c, size in zip((a, b), product.counts.shape, strict=True)]
        if known.pair_rows:
            rows = float(known.pair_rows[number].counts)
        else:  # all rows but those with a gap state, whose features are indicators
            in_gaps = [known.column_counts(schema, c)[0][observed[c] :].sum() for c in (a, b)]
            rows = known.total - in_gaps[0] - in_gaps[1] + product.counts[values[0] :, values[1] :].sum()
        seen = _Joint.of(product.counts, (values[0], values[1]), product.noise_std)
        found[a, b] = seen._replace(rows=max(1.0, float(rows), product.noise_std), is_product=True)
    return found


def _pair_precision(
    schema: Schema, pair: tuple[int, int], seen: _Joint, both: Sequence[_Column], z: float, rows_per_person: int
) -> PairPrecision:
    rows = seen.rows
    people = rows / rows_per_person  # at least: the rows of a person are not a sample of independent rows
    kappa = seen.noise_std / rows
    whiten = [side.features.whitening(kappa) for side in both]
    reach = [side.features.reach(white) for side, white in zip(both, whiten, strict=True)]
    is_known = min(map(len, whiten)) > 0
    measure, association = _association(seen.counts / rows, kappa, people, both, whiten)
    low, high = association.interval(TWO_SIDED)
    return PairPrecision(
        columns=pair,
        measure=measure,
        value=association.value,
        low=low,
        high=high,
        at_once=association.interval(z),
        sampling_std=math.sqrt(sampling_variance(association.value, people)),
        distance=min(1.0, MEAN_SIZE / 2 * kappa * reach[0] * reach[1]) if is_known else 1.0,
        group_means=(
            _group_means(schema.columns[pair[0]], both[0].scale, kappa, len(whiten[1]), reach[1]),
            _group_means(schema.columns[pair[1]], both[1].scale, kappa, len(whiten[0]), reach[0]),
        ),
    )


def table_association(both: tuple[Column, Column], counts: Floats, noise_std: float) -> tuple[str, float, float]:
    """Return the association of the cells of two columns, and half its 95 % interval, from a noisy table of both."""
    rows = max(1.0, float(counts.sum()))
    columns = []
    for column, sums in zip(both, (counts.sum(axis=1), counts.sum(axis=0)), strict=True):
        scale = scale_of(positive_shares(sums, rows), np.eye(column.size), rows)  # values of a cell are ties
        columns.append(_Column(scale, scale if _is_scale(column) else None))
    kappa = noise_std / rows
    whiten = [column.features.whitening(kappa) for column in columns]
    measure, association = _association(counts / rows, kappa, rows, columns, whiten)
    low, high = association.interval(TWO_SIDED)
    return measure, association.value, (high - low) / 2


def _association(
    joint: Floats, kappa: float, people: float, both: Sequence[_Column], whiten: Sequence[Floats]
) -> tuple[str, _Association]:
    first, second = (column.scale for column in both)
    if first is not None and second is not None:
        value, half = estimate_rank_correlation(joint, kappa, people, first, second)
        return SPEARMAN, _Association(value, (half / TWO_SIDED) ** 2)
    return CRAMER, _cramer(joint, kappa, people, whiten) if min(map(len, whiten)) else _UNKNOWN_V


@dataclass(frozen=True, slots=True)
class _Association:
    """An estimate and its variance. Of Cramér's V the square times `dims` is estimated; its variance grows."""

    estimate: float
    variance: float  # of a square: if its true value is 0
    dims: int = 0  # 0 for a rank correlation
    slope: float = 0.0  # by which the variance of a square grows with its true value

    def _convert(self, estimate: float) -> float:
        if not self.dims:
            return min(1.0, max(-1.0, estimate))
        return math.sqrt(min(1.0, max(0.0, estimate) / self.dims))

    @property
    def value(self) -> float:
        return self._convert(self.estimate)

    def interval(self, quantile: float) -> tuple[float, float]:
        """Return the ends of the interval.

        The upper one is the largest value that is as far from the estimate as the noise at this value allows.
        The lower one uses the larger noise at the estimate, since sums of squares have a long upper tail.
        """
        half = quantile * math.sqrt(self.variance + self.slope * max(0.0, self.estimate))
        shift = quantile**2 * self.slope / 2
        return self._convert(self.estimate - half), self._convert(self.estimate + shift + math.hypot(shift, half))


_UNKNOWN_V = _Association(0.0, math.inf, 1)


def _cramer(joint: Floats, kappa: float, people: float, whiten: Sequence[Floats]) -> _Association:
    squares = (whiten[0] @ joint @ whiten[1].T) ** 2
    variances = kappa**2 * np.outer((whiten[0] ** 2).sum(axis=1), (whiten[1] ** 2).sum(axis=1)) + 1 / people
    # The squares hold noise too, so that their excess over it estimates those without.
    excess, at_zero = float((squares - variances).sum()), 2 * float((variances**2).sum())
    typical = float((variances * squares).sum() / max(squares.sum(), 1e-300))
    return _Association(excess, at_zero, min(len(whiten[0]), len(whiten[1])), 4 * typical)


def _group_means(column: Column, averaged: Scale | None, kappa: float, groups: int, reach: float) -> float | None:
    if not isinstance(column, BinnedColumn) or averaged is None:
        return None
    if averaged.score is None or groups == 0:
        return math.inf
    return TWO_SIDED * kappa * float(np.linalg.norm(averaged.score)) * reach
