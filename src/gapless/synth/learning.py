r"""Bins learned from a release: the distribution of a numeric column, from a hierarchy of noisy counts.

In a flat table of a thousand noisy cells, noise adds up over a bin. So cells are counted several times, in groups of
:math:`4^\ell` neighbours, the coarsest level first. All levels have the same noise. In this tree every interval is a
sum of few nodes. Estimation has three steps:

1. The levels are made consistent by weighted means (Hay, Rastogi, Miklau, Suciu 2010).
2. Counts are split from the top. The smooth density of a level predicts the next one (`within_bins.interpolate`). The
   children of a node follow their own counts as far as these differ from the prediction by more than noise
   (`within_bins.shrunk`), and are projected to nonnegative counts with the sum of their parent.
3. Far out, where noise in a single count would change the variance much, nodes that do not stand out of noise are set
   to zero (`_reach`).

`bench/cells.py` compares this with dyadic and wider trees, a flat table, PrivTree and private quantiles.

The bins (`data.cutting`), their number, and the distribution of values within bins are functions of released values.
Guarantee: each level is a histogram of one column, at distance 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.data.cutting import MOST_SINGLE_CELL_BINS, cut_schema
from gapless.privacy import L1, Loss, for_counts
from gapless.privacy.budget import Unit
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.within_bins import interpolate, shrunk
from gapless.types import Floats, Integers

BINS_SHARE = 0.15  # of the budget, if there is a column whose bins are learned
HEAPS_SHARE = 0.01  # of the budget, for each column with heaping, if no bins are learned
FANOUT = 4
OUTSTANDING = 2.5  # least count of the outermost nodes, in noise standard deviations
FAR = 0.25  # of the variance; where noise of one count changes it by more, only what stands out is kept
THIN = 4.0  # least rows of a bin, in noise standard deviations
ROWS_PER_NOISE = 4.0  # mean rows of a cell of a pair of columns, per noise standard deviation; sets the number of bins
FEWEST_BINS, MOST_BINS = 6, 32


def columns_to_learn(schema: Schema) -> list[BinnedColumn]:
    """Return the columns whose bins are learned. Columns with few cells have one bin per cell, for free."""
    return [
        c
        for c in schema.columns
        if isinstance(c, BinnedColumn) and c.has_learned_bins and c.values_size > MOST_SINGLE_CELL_BINS
    ]


def columns_with_heaps(schema: Schema) -> list[BinnedColumn]:
    """Return the columns with declared heaping, unless each of their cells is a bin."""
    learned = columns_to_learn(schema)
    return [
        c
        for c in schema.columns
        if isinstance(c, BinnedColumn) and c.heaping and (c in learned or c.values_size < c.finest.values_size)
    ]


def learning_share(schema: Schema) -> float:
    """Return the share of the budget for counts of bins and heaps."""
    if columns_to_learn(schema):
        return BINS_SHARE
    return min(BINS_SHARE, HEAPS_SHARE * len(columns_with_heaps(schema)))


def with_most_bins(schema: Schema) -> Schema:
    """Return the schema with the largest number of learned bins, for checks before any charge."""
    return cut_schema(schema, {}, MOST_BINS)


def bins_for(rows: float, loss: Loss, protect: Unit, columns: int) -> int:
    """Return the number of bins that leaves a cell of a pair `ROWS_PER_NOISE` rows per noise standard deviation.

    The noise is that of all pairs of columns measured with equal shares of the loss.
    """
    pairs = max(1, columns * (columns - 1) // 2)
    return bins_for_noise(rows, for_counts(loss / pairs, L1(protect.at_most)).noise_std)


def bins_for_noise(rows: float, noise_std: float) -> int:
    """The same for pairs with this noise."""
    cells = max(rows, 0.0) / (ROWS_PER_NOISE * max(noise_std, 1e-9))
    return int(np.clip(math.sqrt(cells), FEWEST_BINS, MOST_BINS))


def hierarchy_levels(cells: int, others: int) -> list[Integers]:
    """Return the node of each cell on every level, the coarsest level first; `others` are separate nodes.

    >>> [level.tolist() for level in hierarchy_levels(6, 1)]
    [[0, 0, 0, 0, 1, 1, 2], [0, 1, 2, 3, 4, 5, 6]]
    """
    levels = []
    node = np.arange(cells)
    while True:
        nodes = int(node[-1]) + 1
        levels.append(np.append(node, nodes + np.arange(others)))
        if nodes <= FANOUT:
            return levels[::-1]
        node = node // FANOUT


def level_counts(cells: Floats, tables: Sequence[Floats]) -> list[Floats]:
    """Sum the counts of cells on every level of a hierarchy with tables of these sizes, the coarsest first.

    >>> [counts.tolist() for counts in level_counts(np.array([1, 0, 0, 0, 0, 2]), [np.zeros(2), np.zeros(6)])]
    [[1.0, 2.0], [1.0, 0.0, 0.0, 0.0, 0.0, 2.0]]
    """
    return [
        np.asarray(np.bincount(np.arange(len(cells)) // FANOUT ** (len(tables) - level), cells, len(table)), np.float64)
        for level, table in enumerate(tables, start=1)
    ]


def nonnegative_counts(
    tables: Sequence[Floats], noise_std: float, edges: Floats | None = None, *, follow_noise: bool = False
) -> Floats:
    """Estimate nonnegative counts of cells from the noisy counts of every level, the coarsest first.

    By default counts that show only noise follow the smooth prediction: less noise for some bias.

    Args:
        tables: the noisy counts of every level.
        noise_std: of each count.
        edges: where each cell begins on the column's scale, and the last one ends; by default cells are equally wide.
        follow_noise: whether to follow the noisy counts. Copies for inference need it (`gapless.synth.copies`):
            shrinkage changes how much copies vary, and adds a bias that copies do not show.
    """
    levels = list(zip(*_agreed(tables, noise_std), strict=True))
    cells = len(tables[-1])
    edges = np.arange(cells + 1.0) if edges is None else edges
    if follow_noise:
        return _split(levels, edges, (0, cells), follow_noise=True)
    outstanding = _ends(*zip(*levels, strict=True))[-1]
    rows = _split(levels, edges, outstanding)
    return _split(levels, edges, _reach(rows, levels[-1][1], edges, outstanding))


def _split(
    levels: Sequence[tuple[Floats, float]], edges: Floats, kept: tuple[int, int], *, follow_noise: bool = False
) -> Floats:
    """Split the rows of each node among its children, from the top.

    Args:
        levels: the agreed counts of each level, and their noise.
        edges: of the cells.
        kept: the first cell that may have rows, and one past the last.
        follow_noise: as in `nonnegative_counts`.
    """
    rows = np.array([max(levels[0][0].sum(), 0.0)])
    ends, cells = edges[[0, -1]], len(levels[-1][0])
    for depth, (values, noise) in enumerate(levels, start=1):
        size = FANOUT ** (len(levels) - depth)  # of a node, in cells
        first, last, nodes = kept[0] // size, -(-kept[1] // size), np.arange(len(values))
        open_nodes = _by_parent(((nodes >= first) & (nodes < last)).astype(np.float64), fill=0.0)
        finer = np.append(edges[:cells:size], edges[-1])
        predicted = open_nodes * _by_parent(interpolate(rows, ends, finer), fill=0.0)
        predicted = np.where(predicted.sum(axis=1, keepdims=True) > 0, predicted, open_nodes)
        predicted *= (rows / np.maximum(predicted.sum(axis=1), 1e-300))[:, None]
        many = np.maximum(open_nodes.sum(axis=1), 1.0)
        differences = open_nodes * (_by_parent(values, fill=0.0) - predicted)
        differences -= open_nodes * (differences.sum(axis=1) / many)[:, None]
        if not follow_noise:
            differences = shrunk(differences, noise, np.maximum(many - 1, 1))
        children = np.where(open_nodes > 0, predicted + differences, -np.inf)
        empty = ~open_nodes.any(axis=1)
        children[empty] = 0.0
        rows, ends = project_rows(children, rows).ravel()[: len(values)], finer
    return rows


def _reach(rows: Floats, noise_std: float, edges: Floats, outstanding: tuple[int, int]) -> tuple[int, int]:
    r"""Return the first cell that may have rows, and one past the last: those that stand out, and all that are near.

    Near is a distance :math:`d` from the mean up to which :math:`\sigma d^2 / (n s^2)` is at most `FAR`, with
    :math:`s^2` the variance of n rows: positive noise beyond would inflate means and variances of long tails.
    """
    total, middles = max(float(rows.sum()), 1e-300), (edges[1:] + edges[:-1]) / 2
    mean = float(rows @ middles) / total
    distance = math.sqrt(FAR * float(rows @ (middles - mean) ** 2) / noise_std)
    first, last = np.searchsorted(edges, [mean - distance, mean + distance])
    return min(outstanding[0], max(int(first) - 1, 0)), max(outstanding[1], min(int(last), len(rows)))


def least_squares_counts(tables: Sequence[Floats], noise_std: float) -> Floats:
    """Estimate signed counts of cells by least squares over all levels, which is unbiased.

    From below, a node's count is combined with the sum of its children by precision. From the top, the difference
    between a node and the sum of its children is divided among these by their variances (Hay, Rastogi, Miklau, Suciu
    2010, also where nodes have fewer children than others).
    """
    values, variances = [np.asarray(tables[-1], dtype=np.float64)], [np.full(len(tables[-1]), noise_std**2)]
    for table in tables[-2::-1]:
        sums, spread = (_by_parent(part[0], fill=0.0).sum(axis=1) for part in (values, variances))
        weight = spread / (spread + noise_std**2)
        values.insert(0, weight * table + (1 - weight) * sums)
        variances.insert(0, weight * noise_std**2)
    rows = values[0]
    for below, variance in zip(values[1:], variances[1:], strict=True):
        children, spread = _by_parent(below, fill=0.0), _by_parent(variance, fill=0.0)
        difference = (rows - children.sum(axis=1)) / spread.sum(axis=1)
        rows = (children + difference[:, None] * spread).ravel()[: len(below)]
    return rows


def _ends(agreed: Sequence[Floats], stds: Sequence[float]) -> list[tuple[int, int]]:
    """Return, for each level, the first nonempty node and one past the last.

    Nodes at either end are dropped until one stands out of noise. On finer levels only children of the outermost node
    are dropped, if one of them stands out.
    """
    found = []
    first, last, open_first, open_last = 0, len(agreed[0]), True, True
    for level, (values, noise) in enumerate(zip(agreed, stds, strict=True)):
        if level:
            first, last = first * FANOUT, min(last * FANOUT, len(values))
        seen = np.flatnonzero(values[first:last] >= OUTSTANDING * noise)
        before, after = (seen[0], last - first - 1 - seen[-1]) if len(seen) else (len(values), len(values))
        most = FANOUT - 1 if level else len(values) - 1
        open_first, open_last = open_first and before <= most, open_last and after <= most
        first, last = first + before * open_first, last - after * open_last
        found.append((int(first), int(last)))
    return found


def _agreed(tables: Sequence[Floats], noise_std: float) -> tuple[list[Floats], list[float]]:
    """Combine each node's count with the sum of its children by precision; return counts and noise of each level."""
    values, variance = [np.asarray(tables[-1], dtype=np.float64)], [noise_std**2]
    for table in tables[-2::-1]:
        sums = _by_parent(values[0], fill=0.0).sum(axis=1)
        weight = (FANOUT * variance[0]) / (FANOUT * variance[0] + noise_std**2)
        values.insert(0, weight * table + (1 - weight) * sums)
        variance.insert(0, weight * noise_std**2)
    return values, [math.sqrt(v) for v in variance]


def _by_parent(values: Floats, *, fill: float) -> Floats:
    """Reshape to one row per parent with its children, padded with `fill`."""
    lacking = -len(values) % FANOUT
    return np.concatenate([values, np.full(lacking, fill)]).reshape(-1, FANOUT)


def project_rows(values: Floats, totals: Floats) -> Floats:
    """Project each row to the nearest nonnegative row with its total."""
    ordered: NDArray[np.float64] = -np.sort(-values, axis=1)
    above = np.cumsum(np.where(np.isfinite(ordered), ordered, 0.0), axis=1) - totals[:, None]
    taken = above / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > taken).sum(axis=1) - 1, 0)
    projected: Floats = np.maximum(values - taken[np.arange(len(values)), last][:, None], 0.0)
    return projected
