r"""Shrink cells of noisy tables that are probably empty, and take steps of a fit towards the tables.

A table of numeric columns that nearly determine each other has few full cells and many empty ones. Noise, and shrinkage
towards independent columns, spread one or two per cent of all rows over the empty cells. Distances between tables
hardly change; correlations of heavy-tailed values do. Everything here reads only released counts. So it is
post-processing, at no cost in privacy.

**Which cells are empty** is estimated from the table itself (empirical Bayes). With y the noisy counts in units of
their `noise_std`, the distribution of the true counts is the nonparametric maximum-likelihood estimate on a grid,

.. math:: \hat G = \arg\max_G \sum_i \log \int \phi(y_i - m) \, dG(m),

by `STEPS` steps of expectation maximisation from the uniform distribution. A cell is *small* with the posterior
probability p that its true count is at most `NEAR`. A small cell need not be empty. In dense tables many cells are
small because there are few rows for each, and their counts add up to the expectation under independence. So for small
cells of about the same expectation e,

.. math:: \hat c = \frac{\sum p_i y_i + \sqrt{\sum p_i^2}}{\sum p_i e_i}

is an upper bound on the share of the expectation that is present, one standard deviation above its estimate. The
evidence that a cell is empty is :math:`p_i (1 - \hat c)`. It has no effect up to even odds, and full effect from odds
of three to one.

The variance of an empty cell is its remaining uncertainty. So :math:`\chi^2` in units of these variances still has
expectation one per cell, and shows which tables noise does not explain.

References: Kiefer, Wolfowitz 1956; Efron 2010, Large-Scale Inference, chapter 1. Constants were chosen
on flights, Adult and a simulated tree; bench/sparse.py shows their effect.

**Fit targets** are noisy tables with the variance of each cell; `proximal_step` moves a marginal towards one in closed
form. The formulas are in `gapless.model.graphical`. Raking of weights uses the same steps.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from gapless.model.junction import Sizes
from gapless.model.marginal import Marginal
from gapless.types import Floats

NEAR = 0.5  # noise_std up to which a count is small
EMPTY_STD = 0.25  # remaining standard deviation of an empty cell, in noise_std
CERTAIN_STD = 5.0  # noise_std above which an unexpected cell is certainly not empty
STEPS = 50

_LEAST_START = 1e-3
_LEAST_OCTAVE = -8  # expectations below 2^-8 noise_std form one group
_ROUNDS = 10  # of raking a table to its margins
_LOWEST, _HIGHEST, _WIDTH = -4.0, 8.0, 0.25  # bins of counts; larger counts are not small
_SEEN = np.arange(_LOWEST, _HIGHEST, _WIDTH) + _WIDTH / 2
_TRUE = np.arange(0.0, _HIGHEST + NEAR, NEAR)
_LIKELIHOOD = np.exp(-0.5 * (_SEEN[:, None] - _TRUE) ** 2)


class Denoised(NamedTuple):
    """A noisy table as a target of a fit.

    Attributes:
        counts: the target counts.
        variance: of each cell, in units of noise_std²: 1, and less for an empty cell.
        start: the start value of each cell, as a ratio to its expectation under independence; 1 without evidence.
    """

    counts: Floats
    variance: Floats
    start: Floats

    @staticmethod
    def plain(table: Floats) -> "Denoised":
        """Return the table unchanged, with equal variances."""
        unit = np.ones_like(table)
        return Denoised(table, unit, unit)


def denoise(
    table: Floats, noise_std: float, margins_std: Sequence[float], *, region: tuple[slice, ...] | None = None
) -> Denoised:
    """Shrink empty cells to zero, and keep the margins as far as all tables together determine them.

    A cell with emptiness u keeps the share 1 - u of its count, and of its variance down to `EMPTY_STD`. The result is
    the table nearest to these counts and to the margins of the noisy table, each in units of its variance. So the mass
    taken from empty cells moves to the other cells.

    Args:
        table: noisy counts. A table of one column is not changed.
        noise_std: of each cell.
        margins_std: for each axis the noise of its margin, by all tables together (`margin_noise`).
        region: the cells that may be empty; by default all.
    """
    if table.ndim < 2:
        return Denoised.plain(table)
    part, expected = region or (slice(None),) * table.ndim, _independent_table(table)
    empty, there = np.zeros_like(table), np.zeros(table.shape, dtype=np.bool_)
    empty[part] = emptiness(table[part], noise_std)
    there[part] = ((table > CERTAIN_STD * noise_std) & (expected < noise_std))[part]
    if not (empty.any() or there.any()):
        return Denoised.plain(table)
    seen = np.where(there, table, np.maximum(1 - empty, _LEAST_START) * expected)
    start = _raked(seen, expected) / np.maximum(expected, 1e-300)
    variance = 1 - empty * (1 - EMPTY_STD**2)
    loose = [(std / noise_std) ** 2 for std in margins_std]
    return Denoised(_restore_margins(table * (1 - empty), variance, table, loose), variance, start)


def margin_noise(sizes: Sequence[int], noise: Mapping[Marginal, float]) -> list[float]:
    """Return the noise in a one-way count of each column, estimated from all tables with that column."""
    precision = np.full(len(sizes), 1e-300)
    for columns, noise_std in noise.items():
        for column in columns:
            precision[column] += sizes[column] / prod(sizes[other] for other in columns) / noise_std**2
    return [float(known) ** -0.5 for known in precision]


def emptiness(table: Floats, noise_std: float) -> Floats:
    """Return the evidence that each cell of a noisy table is empty, from 0 (none) to 1 (certain).

    >>> full = np.diag([400.0, 300.0, 200.0, 100.0, 400.0, 300.0])
    >>> emptiness(full, 10.0)[0, :2].round(1).tolist()
    [0.0, 1.0]
    >>> bool(emptiness(np.full((20, 20), 5.0), 10.0).any())  # small, but as expected under independence
    False
    """
    expected, small = _independent_table(table), _probability_small(table / noise_std)
    octave = np.maximum(np.log2(np.maximum(expected / noise_std, 1e-300)), _LEAST_OCTAVE).astype(np.int64).ravel()
    octave -= octave.min()
    found, chance, looked_for = (
        np.bincount(octave, cells.ravel()) for cells in (small * table, small**2, small * expected)
    )
    bound = (found + noise_std * np.sqrt(chance)) / np.maximum(looked_for, 1e-9 * noise_std)
    lacking = (1 - np.clip(bound, 0.0, 1.0))[octave].reshape(table.shape)
    return np.clip(4 * small * lacking - 2, 0.0, 1.0)


def _probability_small(counts: Floats) -> Floats:
    """Return the posterior probability that each true count is at most `NEAR`, in units of noise."""
    bins = np.clip(np.floor((counts - _LOWEST) / _WIDTH), 0, len(_SEEN)).astype(np.int64)
    many = np.bincount(bins.ravel(), minlength=len(_SEEN) + 1)[:-1]
    prior = np.full(len(_TRUE), 1 / len(_TRUE))
    for _ in range(STEPS if many.any() else 0):
        prior *= ((many / (_LIKELIHOOD @ prior)) @ _LIKELIHOOD) / many.sum()
    posterior = _LIKELIHOOD * prior
    small = posterior[:, _TRUE <= NEAR].sum(axis=1) / posterior.sum(axis=1)
    return np.append(small, 0.0)[bins]


def _independent_table(table: Floats) -> Floats:
    """Return the expected counts under independence, from the margins of a table."""
    total = max(1.0, float(table.sum()))
    expected = np.full(table.shape, total)
    for others in _other_axes(table):
        expected *= np.maximum(table.sum(axis=others, keepdims=True), 0.0) / total
    return expected


def _restore_margins(table: Floats, variance: Floats, like: Floats, loose: Sequence[float]) -> Floats:
    """Return the table nearest to this one and to the margins of `like`, whose variances are `loose`, by axis."""
    axes = _other_axes(table)
    shifts: list[Floats | float] = [0.0] * len(axes)
    for _ in range(_ROUNDS):
        for axis, others in enumerate(axes):
            margin_variance = variance.sum(axis=others, keepdims=True)
            lacking = (like - table).sum(axis=others, keepdims=True) + shifts[axis] * margin_variance
            shift = lacking / (margin_variance + loose[axis])
            table, shifts[axis] = table + variance * (shift - shifts[axis]), shift
    return table


def _raked(table: Floats, like: Floats) -> Floats:
    """Rake a table to the margins of another, by scaling one axis after the other."""
    for _ in range(_ROUNDS):
        for others in _other_axes(table):
            wanted, there = like.sum(axis=others, keepdims=True), table.sum(axis=others, keepdims=True)
            table = table * (np.maximum(wanted, 1e-300) / np.maximum(there, 1e-300))
    return table


def _other_axes(table: Floats) -> list[tuple[int, ...]]:
    return [tuple(other for other in range(table.ndim) if other != axis) for axis in range(table.ndim)]


STEP = 1 / 32  # log ratio by which a sweep moves a cell that is off by one noise_std
EXPLAINED = 3.0  # standard deviations of χ² up to which noise explains a residual
PATIENCE = 10  # sweeps without progress after which the tables are taken to contradict each other
_FLOOR = 1e-20  # the least share of the total that fitting leaves to a possible cell

Margin = tuple[tuple[int, ...], Floats]  # the axes summed out of a table, and the sums with these axes kept at size 1


class FitTarget(NamedTuple):
    """The target of a marginal in a sweep, and the penalty on a step towards it.

    `variance` is that of each cell in units of noise_std². `pair_margins` are further targets, margins of two columns,
    each with the axes that are summed out.
    """

    counts: Floats
    variance: Floats
    noise_std: float
    reluctance: float
    pair_margins: tuple[Margin, ...] = ()


def denoise_all(
    sizes: Sizes, targets: Mapping[Marginal, tuple[Floats, float]], *, fresh: bool
) -> dict[Marginal, tuple[Denoised, float]]:
    """Return the target of each marginal; in a `fresh` fit, empty cells are shrunk to zero.

    A fit with a warm start has empty cells in its potentials already.
    """
    margins = margin_noise(sizes, {columns: noise_std for columns, (_, noise_std) in targets.items()})
    return {
        columns: (
            denoise(table, noise_std, [margins[c] for c in columns]) if fresh else Denoised.plain(table),
            noise_std,
        )
        for columns, (table, noise_std) in targets.items()
    }


def fit_targets(shown: Mapping[Marginal, tuple[Denoised, float]], step: float = STEP) -> dict[Marginal, FitTarget]:
    """Return the targets of sweeps. Tables with more noise get smaller steps."""
    typical = np.exp(np.mean([np.log(noise_std) for _, noise_std in shown.values()])) if shown else 1.0
    return {
        columns: FitTarget(
            table.counts.ravel(),
            table.variance.ravel(),
            noise_std,
            noise_std / step * float(np.clip(noise_std / typical, 1 / 16, 16)) ** 0.5,
        )
        for columns, (table, noise_std) in shown.items()
    }


def proximal_step(aim: FitTarget, now: Floats, total: float) -> Floats:
    """Solve (ν - target) / variance + reluctance · log(ν / now) = -λ for the λ that makes ν sum to `total`."""
    possible, goal, scale = now > 0, aim.counts / aim.variance, aim.reluctance * aim.variance
    logs = np.full_like(now, -np.inf)
    np.log(now / scale, out=logs, where=possible)
    least = float((goal - now / aim.variance)[possible].min())  # every cell would grow: λ is not below this
    shift = max(least, 0.0)
    for _ in range(50):
        omega: Floats = wrightomega((goal - shift) / aim.reluctance + logs)
        excess = float(scale @ omega) - total
        if abs(excess) <= 1e-9 * total:
            break
        shift = max(least, shift + excess / max(float(aim.variance @ (omega / (1 + omega))), 1e-300))
    return np.asarray(np.maximum(scale * omega, _FLOOR * total))


def pair_step(aim: FitTarget, table: Floats, total: float) -> Floats:
    """Step towards each pair: solve ν - target + reluctance · log(ν / now) = 0; then rescale to the total."""
    for gone, target in aim.pair_margins:
        now = np.maximum(table.sum(axis=gone, keepdims=True), _FLOOR * total)
        pair = aim.reluctance * wrightomega(target / aim.reluctance + np.log(now / aim.reluctance))
        table = table * (pair / now)
    return np.asarray(np.maximum(table * (total / table.sum()), _FLOOR * total))


def pair_margins(columns: Marginal, table: Floats, unmerged: int) -> tuple[Margin, ...]:
    """Return the margins of each pair of unmerged columns of a table with three or more columns."""
    original_axes = [axis for axis, column in enumerate(columns) if column < unmerged]
    gone = [tuple(axis for axis in range(table.ndim) if axis not in pair) for pair in combinations(original_axes, 2)]
    return tuple((axes, table.sum(axis=axes, keepdims=True)) for axes in gone if axes)


def safe_ratio(new: Floats, old: Floats) -> Floats:
    """Return new / old; 1 where old is zero."""
    ratio = np.ones_like(new)
    np.divide(new, old, out=ratio, where=old > 1e-290)
    return ratio
