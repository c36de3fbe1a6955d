r"""Cells that should be empty: noisy tables whose mass is not smeared over them.

A table of numbers that nearly decide each other has few full cells and many empty ones, over which noise, and a fit
that stops where noise explains the rest, spread a per cent or two of all rows. Distances hardly see it; correlations of
heavy-tailed values do. Everything here reads released counts only: post-processing, at no cost in privacy.

**Which cells are empty** is asked of the table itself (empirical Bayes). With y the noisy counts in units of their
`noise_std`, the distribution of the true counts is the nonparametric maximum-likelihood estimate on a grid,

.. math:: \hat G = \arg\max_G \sum_i \log \int \phi(y_i - m) \, dG(m),

by `STEPS` steps of expectation maximisation from the uniform distribution. A cell's posterior probability of at most
`NEAR` says how surely it is small. Small is not empty: where many cells are small because there are few rows for each,
as in dense tables, these counts add up to what independent columns expect. So for small cells of about the same
expectation e,

.. math:: \hat c = \frac{\sum p_i y_i + \sqrt{\sum p_i^2}}{\sum p_i e_i}

is an upper bound, one standard deviation above the estimate, on the share of that which is there. A cell is empty with
evidence :math:`p_i (1 - \hat c)`, which counts from even odds on and wholly from three to one.

The variance of an empty cell is that of what is still unknown of it. So :math:`\chi^2` in units of these variances has
one unit for each cell as before, and a fit that ends where noise explains the rest ends where it should.

References: Kiefer, Wolfowitz 1956; Efron 2010, Large-Scale Inference, chapter 1. Constants were chosen
on flights, Adult and a simulated tree; bench/sparse.py shows what they do.

What a fit aims at: noisy tables, how far each may be trusted, and the step towards one of them in closed form.

The formulas stand in `gapless.model.graphical`; weights that are raked towards tables take the same steps.
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
EMPTY_STD = 0.25  # what is still unknown of an empty cell, in noise_std
CERTAIN_STD = 5.0  # noise_std above which an unexpected cell is certainly not empty
STEPS = 50

_LEAST_START = 1e-3
_LEAST_OCTAVE = -8  # expectations below 2^-8 noise_std are alike
_ROUNDS = 10  # of bringing a table back to its margins
_LOWEST, _HIGHEST, _WIDTH = -4.0, 8.0, 0.25  # counts are sorted into bins; what is above is not small
_SEEN = np.arange(_LOWEST, _HIGHEST, _WIDTH) + _WIDTH / 2
_TRUE = np.arange(0.0, _HIGHEST + NEAR, NEAR)
_LIKELIHOOD = np.exp(-0.5 * (_SEEN[:, None] - _TRUE) ** 2)


class Denoised(NamedTuple):
    """What a fit makes of a noisy table.

    Attributes:
        counts: what the model's table shall be.
        variance: of each cell, in units of noise_std²: 1, and less where it is empty.
        start: the ratio to independent columns from which a fit may begin: 1 where the table does not show more.
    """

    counts: Floats
    variance: Floats
    start: Floats

    @staticmethod
    def plain(table: Floats) -> "Denoised":
        """A table as it is."""
        unit = np.ones_like(table)
        return Denoised(table, unit, unit)


def denoise(
    table: Floats, noise_std: float, margins_std: Sequence[float], *, region: tuple[slice, ...] | None = None
) -> Denoised:
    """Draw empty cells to zero, and leave margins, which other tables know too, as far as they are known.

    A cell with emptiness u keeps 1 - u of its count and, but for `EMPTY_STD`, of its variance. Then the table is taken
    that is nearest to this, in units of these variances, and to the margins of the noisy one, in units of their own:
    what was drawn to zero moves to the other cells.

    Args:
        table: noisy counts; those of one column stay as they are.
        noise_std: of each cell.
        margins_std: for each axis the noise of its margin, by all tables together (`margin_noise`).
        region: The cells that may be empty; all, if not given.
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
    """The noise in a count of one cell of each column, by all tables in which it is, given the noise in their cells."""
    precision = np.full(len(sizes), 1e-300)
    for columns, noise_std in noise.items():
        for column in columns:
            precision[column] += sizes[column] / prod(sizes[other] for other in columns) / noise_std**2
    return [float(known) ** -0.5 for known in precision]


def emptiness(table: Floats, noise_std: float) -> Floats:
    """How surely each cell of a noisy table is empty, from 0 for not, or not known, to 1.

    >>> full = np.diag([400.0, 300.0, 200.0, 100.0, 400.0, 300.0])
    >>> emptiness(full, 10.0)[0, :2].round(1).tolist()
    [0.0, 1.0]
    >>> bool(emptiness(np.full((20, 20), 5.0), 10.0).any())  # small, but as many as independent columns expect
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
    """The posterior probability that each true count is at most `NEAR`, all in units of noise."""
    bins = np.clip(np.floor((counts - _LOWEST) / _WIDTH), 0, len(_SEEN)).astype(np.int64)
    many = np.bincount(bins.ravel(), minlength=len(_SEEN) + 1)[:-1]
    prior = np.full(len(_TRUE), 1 / len(_TRUE))
    for _ in range(STEPS if many.any() else 0):
        prior *= ((many / (_LIKELIHOOD @ prior)) @ _LIKELIHOOD) / many.sum()
    posterior = _LIKELIHOOD * prior
    small = posterior[:, _TRUE <= NEAR].sum(axis=1) / posterior.sum(axis=1)
    return np.append(small, 0.0)[bins]


def _independent_table(table: Floats) -> Floats:
    """What the margins of a table would make of it if its columns were independent."""
    total = max(1.0, float(table.sum()))
    expected = np.full(table.shape, total)
    for others in _other_axes(table):
        expected *= np.maximum(table.sum(axis=others, keepdims=True), 0.0) / total
    return expected


def _restore_margins(table: Floats, variance: Floats, like: Floats, loose: Sequence[float]) -> Floats:
    """The table nearest to this one and to the margins of another, whose variances are `loose`, axis after axis."""
    axes = _other_axes(table)
    shifts: list[Floats | float] = [0.0] * len(axes)
    for _ in range(_ROUNDS):
        for axis, others in enumerate(axes):
            room = variance.sum(axis=others, keepdims=True)
            lacking = (like - table).sum(axis=others, keepdims=True) + shifts[axis] * room
            shift = lacking / (room + loose[axis])
            table, shifts[axis] = table + variance * (shift - shifts[axis]), shift
    return table


def _raked(table: Floats, like: Floats) -> Floats:
    """A table with the margins of another, by scaling one axis after the other."""
    for _ in range(_ROUNDS):
        for others in _other_axes(table):
            wanted, there = like.sum(axis=others, keepdims=True), table.sum(axis=others, keepdims=True)
            table = table * (np.maximum(wanted, 1e-300) / np.maximum(there, 1e-300))
    return table


def _other_axes(table: Floats) -> list[tuple[int, ...]]:
    return [tuple(other for other in range(table.ndim) if other != axis) for axis in range(table.ndim)]


STEP = 1 / 32  # how far a sweep moves a cell that is off by one noise_std, as an exponent
EXPLAINED = 3.0  # standard deviations of χ² up to which noise explains a residual
PATIENCE = 10  # sweeps without progress after which a contradiction is taken for one
_FLOOR = 1e-20  # the least share of the total that fitting leaves to a possible cell

Margin = tuple[tuple[int, ...], Floats]  # the axes that are summed out of a table, and what is left in as many axes


class FitTarget(NamedTuple):
    """What a marginal moves towards in a sweep and how reluctantly.

    `variance` is that of each cell in units of noise_std². `pairs` are margins it moves towards as well, each with the
    axes that are summed out.
    """

    counts: Floats
    variance: Floats
    noise_std: float
    reluctance: float
    pair_margins: tuple[Margin, ...] = ()


def denoise_all(
    sizes: Sizes, targets: Mapping[Marginal, tuple[Floats, float]], *, fresh: bool
) -> dict[Marginal, tuple[Denoised, float]]:
    """What the sweeps aim at; a fresh fit draws empty cells to zero, and begins where a table leaves no doubt.

    A fit that goes on from a model has its empty cells in the potentials already.
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
    """Tables and their noise as aims: noisier ones are approached more reluctantly."""
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
    """A step towards each pair: solve ν - target + reluctance · log(ν / now) = 0; then back to the total."""
    for gone, target in aim.pair_margins:
        now = np.maximum(table.sum(axis=gone, keepdims=True), _FLOOR * total)
        pair = aim.reluctance * wrightomega(target / aim.reluctance + np.log(now / aim.reluctance))
        table = table * (pair / now)
    return np.asarray(np.maximum(table * (total / table.sum()), _FLOOR * total))


def pair_margins(columns: Marginal, table: Floats, unmerged: int) -> tuple[Margin, ...]:
    """The margins of each two columns before `whole`, of a table of more."""
    places = [place for place, column in enumerate(columns) if column < unmerged]
    gone = [tuple(axis for axis in range(table.ndim) if axis not in pair) for pair in combinations(places, 2)]
    return tuple((axes, table.sum(axis=axes, keepdims=True)) for axes in gone if axes)


def safe_ratio(new: Floats, old: Floats) -> Floats:
    """What turns `old` into `new`; 1 where there is nothing to turn."""
    ratio = np.ones_like(new)
    np.divide(new, old, out=ratio, where=old > 1e-290)
    return ratio
