r"""How values lie inside bins and cells: smooth where counts do not say, with heaps at declared round values.

Counts of bins leave open where in a bin its rows are. An even spread makes the standard deviation of a long tail too
large. Here the cumulative counts at the edges of bins are joined by a monotone cubic spline (Fritsch, Carlson 1980):
the density is continuous, never negative, has the released count in each bin, and falls towards the end of a tail.

**Heaping.** People report round numbers. If a schema declares `heaping`, a release counts the rows at multiples of each
step, in one table per column. The density is then smooth relative to *weights*, one for each step and one for all other
cells: a cell of weight 5 is five times as wide for the spline. The weights are those with which the estimate has the
released counts of heaps, found by iterative scaling.

Everything here is a function of public and released values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gapless.model.marginal import Measurement
from gapless.schema import Column
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats

SHRINK = 2.0  # squared standard deviations of noise, for each free count, up to which a difference is taken for noise
ROUNDS = 5  # of iterative scaling
_LEAST_WEIGHT = 1e-3
_LEAST_SHARE = 1e-12  # smaller densities, relative to others, are taken for 0


def interpolate(counts: Floats, edges: Floats, finer: Floats) -> Floats:
    """Return counts between the finer edges, by a monotone cubic spline through the cumulative counts at `edges`.

    Its slopes are weighted harmonic means of the densities on both sides (Fritsch, Carlson 1980; Fritsch, Butland
    1984).

    >>> interpolate(np.array([9.0, 9.0]), np.array([0.0, 3.0, 6.0]), np.arange(7.0)).tolist()
    [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    >>> interpolate(np.array([60.0, 6.0]), np.array([0.0, 2.0, 4.0]), np.arange(5.0)).round(1).tolist()
    [35.6, 24.4, 4.6, 1.4]
    """
    widths = np.diff(edges)
    density = counts / widths
    before, after, left, right = widths[:-1], widths[1:], density[:-1], density[1:]
    slopes = np.append(density, density[-1])
    slopes[1:-1] = 0.0
    least = _LEAST_SHARE * density.max()
    both = (left > least) & (right > least)
    near, far = (2 * after + before)[both], (after + 2 * before)[both]
    slopes[1:-1][both] = (near + far) / (near / left[both] + far / right[both])
    ends = {}
    for end, beside in ((0, 1), (-1, -2)) if len(counts) > 1 else ():
        ends[end % len(counts)] = rate = _rate(counts[[beside, end]], widths[[beside, end]])
        if rate > 0:
            slopes[beside] = counts[end] * rate / -np.expm1(-rate * widths[end])
    place = np.clip(np.searchsorted(edges, finer, side="right") - 1, 0, len(counts) - 1)
    t = np.clip((finer - edges[place]) / widths[place], 0.0, 1.0)
    slopes = np.minimum(slopes, 3 * np.minimum(np.append(density, np.inf), np.append(np.inf, density)))
    within = widths[place] * (
        density[place] * t**2 * (3 - 2 * t) + slopes[place] * t * (1 - t) ** 2 - slopes[place + 1] * t**2 * (1 - t)
    )
    for end, rate in ends.items():
        if rate > 0:
            here, decay = place == end, rate * widths[end]
            from_inside = t[here] if end else 1 - t[here]
            share = np.expm1(-decay * from_inside) / np.expm1(-decay)
            within[here] = counts[end] * (share if end else 1 - share)
    return np.asarray(np.maximum(np.diff(np.append(0.0, np.cumsum(counts))[place] + within), 0.0))


def _rate(counts: Floats, widths: Floats) -> float:
    """Return the rate of the exponential decay that has these counts in two bins, from the inner one outwards.

    0 if the density of the outer bin is not smaller, or if it has no rows.
    """
    inner, outer = counts
    if outer <= _LEAST_SHARE * inner or inner / widths[0] <= outer / widths[1]:
        return 0.0
    low, high = 0.0, np.log1p(inner / outer) / widths[0]
    for _ in range(60):
        rate = (low + high) / 2
        if np.expm1(rate * widths[0]) * outer < -np.expm1(-rate * widths[1]) * inner:
            low = rate
        else:
            high = rate
    return float(high)


def shrunk(differences: Floats, noise_std: float, free: Floats | float) -> Floats:
    r"""Shrink each row of differences towards 0 as its noise demands: by :math:`(1 - c f \sigma^2 / |d|^2)_+`.

    This is the positive part of the estimator of James and Stein (1961), with f free differences in a row and the
    larger constant c of block thresholding (Cai 1999), so that noise alone seldom remains.
    """
    squares = np.maximum((differences**2).sum(axis=-1, keepdims=True), 1e-300)
    return np.asarray(differences * np.maximum(1 - SHRINK * np.reshape(free, (-1, 1)) * noise_std**2 / squares, 0.0))


def spread(column: BinnedColumn, counts: Floats, weights: Floats | None = None) -> Floats:
    """Return counts of the finest cells of a column from nonnegative counts of its bins; `weights` are those of heaps.

    >>> from gapless.schema import Integer
    >>> spread(Integer("size", bounds=(0, 5), edges=(0, 3, 5)), np.array([3.0, 3.0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    edges = edges_of_cells(column, weights)
    bins = column.finest.regroup(column)[: len(edges) - 1]
    firsts = np.searchsorted(bins, np.arange(column.values_size))
    return interpolate(counts, edges[np.append(firsts, len(edges) - 1)], edges)


def edges_of_cells(column: BinnedColumn, weights: Floats | None = None) -> Floats:
    """Return where each finest cell begins on the column's scale, and the last one ends, heaps widened by weights."""
    widths = column.cell_widths if weights is None else column.cell_widths * weights[column.heap_of_cell]
    return np.append(0.0, np.cumsum(widths))


def heap_counts(column: Column, cells: Floats) -> Floats:
    """Return the counts of each step of heaping, then of all other cells, from counts of the finest cells."""
    assert isinstance(column, BinnedColumn)  # noqa: S101 for mypy: others have no heaping
    return np.bincount(column.heap_of_cell, cells, len(column.heaping) + 1).astype(np.float64)


def with_heaps(
    column: BinnedColumn,
    released: Measurement | None,
    estimate: Callable[[Floats | None], Floats],
    *,
    follow_noise: bool = False,
) -> Floats:
    """Return the estimate of counts of cells with the weights that the released counts of heaps ask for.

    Args:
        column: with heaping.
        released: the counts at multiples of each step, then of all others; None without heaping.
        estimate: counts of cells for weights; called several times.
        follow_noise: whether to follow a difference that noise explains, as in `LearnOptions`.
    """
    if released is None:
        return estimate(None)
    weights, known = np.ones(len(released.counts)), np.maximum(released.counts, 0.0)
    for _ in range(ROUNDS):
        found = heap_counts(column, estimate(weights))
        difference = known * (found.sum() / max(known.sum(), 1e-300)) - found
        if not follow_noise:
            difference = shrunk(difference[None], released.noise_std, len(weights) - 1)[0]
        weights = weights * np.maximum(1 + difference / np.maximum(found, 1e-300), _LEAST_WEIGHT)
        weights = np.maximum(weights / weights.max(), _LEAST_WEIGHT)
    return estimate(weights)
