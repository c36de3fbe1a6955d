r"""The associations of pairs of columns that were measured together, with intervals from the noise in released values.

No copy is drawn, so this is fast enough for every release.

A table of two columns, or the products of their features, is a matrix

.. math:: M = \mathrm{E}\, f_a f_b^\top + \kappa Z

with independent standard noise Z; for a table the features of a cell are its indicator. So everything linear in M has
known noise. Let :math:`w_a` be the weights whose score :math:`w_a^\top f_a` is nearly the rank of a value, with mean 0
and variance 1. The correlation of scores and its variance are

.. math:: r = w_a^\top M w_b, \qquad \operatorname{se}^2 = \kappa^2 \lVert w_a \rVert^2 \lVert w_b \rVert^2
          + \frac{(1 + r^2 / 2)(1 - r^2)^2}{n} + \frac{r^2}{4} (e_a^2 + e_b^2).

The second term is sampling (Bonett, Wright 2000). The last one is noise in the shares p of values, by which scores s
are standardised: :math:`e^2 = \operatorname{Var} \sum_x p_x (s_x^2 - 1)`.

Scores are not quite ranks: features are flat at the ends, and values in one bin of a table have one score. So
Spearman's :math:`\rho` is that of the Gaussian copula in which the scores have the correlation r
(`hermite_coefficients`). Let c be the correlation of a column's scores with its ranks, so that
:math:`u = \sqrt{1 - c^2}` is unseen. Intervals are widened for a bias (`gapless.inference.intervals.widened`) of

.. math:: \lvert \rho - r c_a c_b \rvert + u_a d_a + u_b d_b.

The first part is the change if unseen ranks were unrelated to the other column. The others allow for departures from
the copula: d is the distance of the mean score of the other column from that of the copula, as far as features show it
(`_copula_misfit`). Where they do not, it may be as large. For products of features, declared bins add
:math:`\lvert \rho \rvert / 2` times the change of the variance of scores if values were even within bins.

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
from functools import cached_property
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np

from gapless.data.workload import FEATURE_LENGTH
from gapless.inference.intervals import TWO_SIDED, widened
from gapless.inference.precision import MEAN_SIZE, precision_of
from gapless.model.marginal import LEAST_SHARE, Measurement, marginalize, positive_shares
from gapless.schema import Column, Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.synth.marginal.features import finest_shares, mean_features
from gapless.synth.measurements import Measurements
from gapless.types import Floats, Integers

SPEARMAN, CRAMER = "Spearman's ρ", "Cramér's V"

_ALIKE = 0.2  # of the largest singular value of features: cells that differ less share their features
_RIDGE = 0.1  # of a score, relative to the mean variance of features: half the noise, and still the rank to .99
_WELL_MEASURED = 4.0  # times the least variance, up to which a direction of features is measured well
_ORDERS = np.arange(1, 65)  # of Hermite polynomials
_CORRELATIONS = np.linspace(-1, 1, 401)  # of a Gaussian copula


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


@dataclass(frozen=True, eq=False)
class _Features:
    """The features of a column's observed cells, and what can be computed from them.

    Attributes:
        vectors: observed cells × features.
        shares: of the cells.
        rows: the number of rows in which the column is observed.
    """

    vectors: Floats
    shares: Floats
    rows: float

    def among(self, left_out: Floats, rows: float, noise_std: float) -> Self:
        r"""Return the features of the rows in which another column is observed too, whose shares may be others.

        Given the sums of features over the rows that are left out, shares p become the nearest with the mean of the
        other rows: :math:`p\, (1 + (f - \bar f)^\top C^{-1} \Delta)` with the covariance C of features and the change
        :math:`\Delta` of their mean. Directions of features that noise hides do not change.
        """
        if not left_out.any():
            return self
        mean = self.shares @ self.vectors
        away = self.vectors - mean
        values, directions = np.linalg.eigh((away * self.shares[:, None]).T @ away)
        kept = directions[:, values > noise_std / rows]
        change = (self.rows * mean - left_out) / rows - mean
        tilt = away @ kept @ ((kept.T @ change) / values[values > noise_std / rows])
        shares = self.shares * np.maximum(1 + tilt, LEAST_SHARE)
        return replace(self, shares=shares / shares.sum())

    @cached_property
    def _centre(self) -> Floats:
        """The projection to sums of features whose mean is 0: noise in the mean of features does not enter these."""
        mean = self.shares @ self.vectors
        return np.asarray(np.eye(len(mean)) - np.outer(mean, mean) / max(float(mean @ mean), 1e-300))

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of the features, projected."""
        centred = self.vectors @ self._centre
        return np.asarray((centred * self.shares[:, None]).T @ centred)

    def whitening(self, kappa: float) -> Floats:
        """The map of features to uncorrelated scores of mean 0 and variance 1, without directions that noise hides."""
        values, directions = np.linalg.eigh(self.covariance)
        kept = values > max(kappa, 1e-9)
        return np.asarray((directions[:, kept] / np.sqrt(values[kept])).T @ self._centre)

    def reach(self, whitening: Floats) -> float:
        """By how much noise in the features adds up over the cells: their number, for a table that is not whitened."""
        density = self.vectors @ whitening.T
        return float(self.shares @ np.linalg.norm(density @ whitening, axis=1))


@dataclass(frozen=True, eq=False)
class _Scale(_Features):
    """The features of an ordered column, whose cells follow each other. A cell may have several values.

    Attributes:
        values: the shares of its values, in their order.
        cell_of: the cell of each value.
        scale_std: the noise in the variance of the scores, by the noise in shares; 0 if it is that of the joint counts.
        scale_bias: the change of this variance if values were even within bins, where no count says how they are.
    """

    values: Floats
    cell_of: Integers
    scale_std: float = 0.0
    scale_bias: float = 0.0

    def among(self, left_out: Floats, rows: float, noise_std: float) -> Self:
        """Return the same, with the shares of the values in each cell moved like that of the cell."""
        found = super().among(left_out, rows, noise_std)
        moved = found.shares / np.maximum(self.shares, 1e-300)
        return self if found is self else replace(found, values=self.values * moved[self.cell_of])

    @property
    def ranks(self) -> Floats:
        """The mid-rank of each cell, with mean 0."""
        return _ranks(self.shares)

    @cached_property
    def rank_coefficients(self) -> Floats:
        """The series of the ranks of values (`hermite_coefficients`)."""
        return hermite_coefficients(_ranks(self.values), self.values)

    @cached_property
    def score_coefficients(self) -> Floats:
        """The series of the scores."""
        return (
            np.zeros(len(_ORDERS))
            if self.score is None
            else hermite_coefficients(self.vectors @ self.score, self.shares)
        )

    @cached_property
    def score(self) -> Floats | None:
        """The weights of features whose sum is nearly the rank, standardised; None without ranks that differ."""
        ridge = _RIDGE * np.trace(self.covariance) / len(self.covariance) + 1e-12
        target = self._centre @ self.vectors.T @ (self.shares * self.ranks)
        weights = self._centre @ np.linalg.solve(self.covariance + ridge * np.eye(len(target)), target)
        spread = math.sqrt(float(weights @ self.covariance @ weights))
        return np.asarray(weights / spread) if spread > 1e-9 else None

    @cached_property
    def agreement(self) -> float:
        r"""The correlation of scores with the ranks of values, whose variance is :math:`(1 - \sum_v p_v^3) / 12`."""
        if self.score is None:
            return 0.0
        variance = (1 - float((self.values**3).sum())) / 12
        return min(1.0, float((self.shares * self.ranks) @ self.vectors @ self.score) / math.sqrt(variance))

    @property
    def unseen_std(self) -> float:
        """The standard deviation of what scores do not show of ranks, in standard deviations of ranks."""
        return math.sqrt(1 - self.agreement**2)


class _Column(NamedTuple):
    """What pairs need of a column: the features of its cells, and the same on a scale if it is ordered."""

    features: _Features
    scale: _Scale | None

    def among(self, left_out: Floats, seen: _Joint) -> _Column:
        """Return it for the rows in which another column is observed too."""
        features = self.features.among(left_out, seen.rows, seen.noise_std)
        if isinstance(features, _Scale):
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
        features = _Features(np.eye(column.size), shares, rows)
    else:
        of_values = known.features[place].size - (len(extended) - column.size)  # the last features are those of gaps
        fine_vectors = known.features[place].vectors[:observed, :of_values] / FEATURE_LENGTH
        means = mean_features(schema, place, extended, cell_counts, known.features[place].vectors)
        features = _Features(means[: column.size, :of_values], shares, rows)
    if not _is_scale(column):
        return _Column(features, None)
    scale = _scale(fine_shares, fine_vectors, rows)
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


def _scale(shares: Floats, vectors: Floats, rows: float) -> _Scale:
    """Return the scale of values in their order, with neighbours of equal features in one cell."""
    starts = np.append(True, (np.diff(vectors, axis=0) != 0).any(axis=1))
    cell_of = np.cumsum(starts) - 1
    sums: Floats = np.bincount(cell_of, shares).astype(np.float64)
    return _Scale(vectors[starts], sums, rows, values=shares, cell_of=cell_of)


def _ranks(shares: Floats) -> Floats:
    return np.asarray(np.cumsum(shares) - shares / 2 - 0.5)


def hermite_coefficients(numbers: Floats, shares: Floats) -> Floats:
    r"""Return the coefficients of numbers of cells in Hermite polynomials of the normal score of a row, standardised.

    A cell with normal scores from z to z' adds :math:`(h_{k-1}(z) \varphi(z) - h_{k-1}(z') \varphi(z')) / \sqrt k`
    times its number to coefficient k, with the normalised polynomials h. If the normal scores of two columns have
    correlation r, the correlation of their numbers is the sum of :math:`r^k` times both coefficients (Mehler 1866). The
    squares of all coefficients add up to 1.

    Args:
        numbers: of each cell; or several rows of numbers.
        shares: of the cells, in their order.
    """
    from scipy.special import ndtri  # noqa: PLC0415 slow to load

    ends = ndtri(np.clip(np.cumsum(shares)[:-1], 1e-12, 1 - 1e-12))
    before, polynomial, found = np.zeros_like(ends), np.exp(-(ends**2) / 2) / math.sqrt(2 * math.pi), []
    for order in _ORDERS:
        found.append(polynomial / math.sqrt(order))
        following = (ends * polynomial - math.sqrt(order - 1) * before) / math.sqrt(order)
        before, polynomial = polynomial, following
    away = numbers - (numbers @ shares)[..., None]
    spread = np.sqrt(np.maximum(away**2 @ shares, 1e-300))
    return np.asarray(np.diff(away / spread[..., None]) @ np.stack(found, axis=1))


def correlations(first: Floats, second: Floats) -> Floats:
    """Return the correlation of numbers for each copula of the grid, from the `hermite_coefficients` of both columns.

    Numbers that jump have a long series. Its rest, which matters near 1 and -1 only, is taken to be as similar in both
    columns as the second half of the known orders is.
    """
    powers, later = _CORRELATIONS[:, None] ** _ORDERS, len(_ORDERS) // 2
    rests = [max(0.0, 1 - float(series @ series)) for series in (first, second)]
    lengths = float(np.linalg.norm(first[later:]) * np.linalg.norm(second[later:]))
    products = (first * second)[later:] / max(lengths, 1e-300)
    similar = np.where(_CORRELATIONS > 0, products.sum(), products @ (-1.0) ** _ORDERS[later:])
    return np.asarray(
        powers @ (first * second) + math.sqrt(math.prod(rests)) * similar * _CORRELATIONS ** (2 * len(_ORDERS))
    )


def _copula_misfit(joint: Floats, kappa: float, people: float, first: _Scale, second: _Scale, normal: float) -> float:
    """Return the distance of the mean score of one column, given another one, from that of a Gaussian copula.

    It is the length of the difference over those directions of the other column's features that are measured well.
    The variance of errors is subtracted from its square, and one standard error is added.

    Args:
        joint: the matrix of products of features.
        kappa: its noise.
        people: the number of persons in the sample.
        first: the column whose mean score it is.
        second: the column that is given.
        normal: the correlation of the copula.
    """
    assert first.score is not None  # noqa: S101 for mypy: by `_spearman`
    whiten = second.whitening(kappa)
    if not len(whiten):
        return 0.0
    expected = hermite_coefficients(whiten @ second.vectors.T, second.shares) @ (
        normal**_ORDERS * first.score_coefficients
    )
    variances = (kappa * np.linalg.norm(first.score)) ** 2 * (whiten**2).sum(axis=1) + 1 / people
    squares = (whiten @ joint.T @ first.score - expected) ** 2
    is_measured = variances <= _WELL_MEASURED * variances.min()
    squares, variances = squares[is_measured], variances[is_measured]
    return math.sqrt(max(0.0, float((squares - variances).sum())) + math.sqrt(2 * float((variances**2).sum())))


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
        sampling_std=math.sqrt(_sampling_variance(association.value, people)),
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
        scale = _scale(positive_shares(sums, rows), np.eye(column.size), rows)  # values of a cell are ties
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
        return SPEARMAN, _spearman(joint, kappa, people, first, second)
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


def _spearman(joint: Floats, kappa: float, people: float, first: _Scale, second: _Scale) -> _Association:
    if first.score is None or second.score is None:
        return _Association(0.0, math.inf)
    found = float(np.clip(first.score @ joint @ second.score, -1.0, 1.0))
    noise = kappa * float(np.linalg.norm(first.score) * np.linalg.norm(second.score))
    scale = found**2 / 4 * (first.scale_std**2 + second.scale_std**2)
    half = TWO_SIDED * math.sqrt(noise**2 + scale + _sampling_variance(found, people))
    of_scores = np.maximum.accumulate(correlations(first.score_coefficients, second.score_coefficients))
    of_ranks = correlations(first.rank_coefficients, second.rank_coefficients)
    low, value, high = np.interp(found + half * np.array([-1, 0, 1]), of_scores, of_ranks)
    bias = abs(value - found * first.agreement * second.agreement)
    bias += abs(value) / 2 * (first.scale_bias + second.scale_bias)
    normal = float(np.interp(found, of_scores, _CORRELATIONS))
    bias += second.unseen_std * _copula_misfit(joint, kappa, people, first, second, normal)
    bias += first.unseen_std * _copula_misfit(joint.T, kappa, people, second, first, normal)
    # At the ends of the grid no larger correlation is possible, and the error is at least that of the scores.
    widest = max(high - value, value - low, half)
    return _Association(float(value), float(widened(np.array([widest]), np.array([bias]))[0] / TWO_SIDED) ** 2)


def _sampling_variance(rank_correlation: float, people: float) -> float:
    """Return the variance of a rank correlation by sampling (Bonett, Wright 2000)."""
    return (1 + rank_correlation**2 / 2) * (1 - rank_correlation**2) ** 2 / people


def _cramer(joint: Floats, kappa: float, people: float, whiten: Sequence[Floats]) -> _Association:
    squares = (whiten[0] @ joint @ whiten[1].T) ** 2
    variances = kappa**2 * np.outer((whiten[0] ** 2).sum(axis=1), (whiten[1] ** 2).sum(axis=1)) + 1 / people
    # The squares hold noise too, so that their excess over it estimates those without.
    excess, at_zero = float((squares - variances).sum()), 2 * float((variances**2).sum())
    typical = float((variances * squares).sum() / max(squares.sum(), 1e-300))
    return _Association(excess, at_zero, min(len(whiten[0]), len(whiten[1])), 4 * typical)


def _group_means(column: Column, averaged: _Scale | None, kappa: float, groups: int, reach: float) -> float | None:
    if not isinstance(column, BinnedColumn) or averaged is None:
        return None
    if averaged.score is None or groups == 0:
        return math.inf
    return TWO_SIDED * kappa * float(np.linalg.norm(averaged.score)) * reach
