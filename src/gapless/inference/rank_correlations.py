r"""The rank correlation of two ordered columns from noisy products of their features, with its errors.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from gapless.inference.intervals import TWO_SIDED, widened
from gapless.model.marginal import LEAST_SHARE
from gapless.types import Floats, Integers

_RIDGE = 0.1  # of a score, relative to the mean variance of features: half the noise, and still the rank to .99
_WELL_MEASURED = 4.0  # times the least variance, up to which a direction of features is measured well
_ORDERS = np.arange(1, 65)  # of Hermite polynomials
_CORRELATIONS = np.linspace(-1, 1, 401)  # of a Gaussian copula


@dataclass(frozen=True, eq=False)
class Features:
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
class Scale(Features):
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


def scale_of(shares: Floats, vectors: Floats, rows: float) -> Scale:
    """Return the scale of values in their order, with neighbours of equal features in one cell."""
    starts = np.append(True, (np.diff(vectors, axis=0) != 0).any(axis=1))
    cell_of = np.cumsum(starts) - 1
    sums: Floats = np.bincount(cell_of, shares).astype(np.float64)
    return Scale(vectors[starts], sums, rows, values=shares, cell_of=cell_of)


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


def _copula_misfit(joint: Floats, kappa: float, people: float, first: Scale, second: Scale, normal: float) -> float:
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
    assert first.score is not None  # noqa: S101 for mypy: by `estimate_rank_correlation`
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


def estimate_rank_correlation(
    joint: Floats, kappa: float, people: float, first: Scale, second: Scale
) -> tuple[float, float]:
    """Return Spearman's correlation of the values of two columns, and half its 95 % interval; infinite if unknown.

    Args:
        joint: the matrix of products of features, by rows.
        kappa: its noise.
        people: the number of persons in the sample.
        first: the column of its rows.
        second: the column of its columns.
    """
    if first.score is None or second.score is None:
        return 0.0, math.inf
    found = float(np.clip(first.score @ joint @ second.score, -1.0, 1.0))
    noise = kappa * float(np.linalg.norm(first.score) * np.linalg.norm(second.score))
    scale = found**2 / 4 * (first.scale_std**2 + second.scale_std**2)
    half = TWO_SIDED * math.sqrt(noise**2 + scale + sampling_variance(found, people))
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
    return float(value), float(widened(np.array([widest]), np.array([bias]))[0])


def sampling_variance(rank_correlation: float, people: float) -> float:
    """Return the variance of a rank correlation by sampling (Bonett, Wright 2000)."""
    return (1 + rank_correlation**2 / 2) * (1 - rank_correlation**2) ** 2 / people
