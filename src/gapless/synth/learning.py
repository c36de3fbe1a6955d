r"""Bins learned from a release: the distribution of a numeric column, from a hierarchy of noisy counts.

In a flat table of a thousand noisy cells, noise adds up over a bin. So cells are counted several times, in groups of
:math:`4^\ell` neighbours, the coarsest level first. All levels have the same noise. In this tree every interval is a
sum of few nodes. Estimation has three steps:

1. The levels are made consistent by weighted means (Hay, Rastogi, Miklau, Suciu 2010).
2. Counts are split from the top. Children are projected to nonnegative counts with the sum of their parent. If a node
   is not clearly above the noise of its children, its rows are spread uniformly.
3. Nodes beyond the outermost ones that stand out of noise are set to zero.

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
from gapless.privacy import L1, Loss, Rows, for_counts
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats, Integers

BINS_SHARE = 0.15  # of the budget, if there is a column whose bins are learned
FANOUT = 4
OUTSTANDING = 2.0  # least count of the outermost nodes, in noise standard deviations
EVEN = 4.0  # least count of a node whose rows are split by its children, in standard deviations of their sum
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


def with_most_bins(schema: Schema) -> Schema:
    """Return the schema with the largest number of learned bins, for checks before any charge."""
    return cut_schema(schema, {}, MOST_BINS)


def bins_for(rows: float, loss: Loss, protect: Rows, columns: int) -> int:
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


def nonnegative_counts(tables: Sequence[Floats], noise_std: float, *, follow_noise: bool = False) -> Floats:
    """Estimate nonnegative counts of cells from the noisy counts of every level, the coarsest first.

    By default thresholds set cells that show only noise to zero, or to a uniform split: less noise for some bias.

    Args:
        tables: the noisy counts of every level.
        noise_std: of each count.
        follow_noise: whether to omit the thresholds. Copies for inference need it (`gapless.synth.copies`): thresholds
            change how much copies vary, and add a bias that copies do not show.
    """
    agreed, stds = _agreed(tables, noise_std)
    ends = [(0, len(values)) for values in agreed] if follow_noise else _ends(agreed, stds)
    rows: Floats = np.array([max(agreed[0].sum(), 0.0)])
    for values, noise, (first, last) in zip(agreed, stds, ends, strict=True):
        kept = (np.arange(len(values)) >= first) & (np.arange(len(values)) < last)
        children = _by_parent(np.where(kept, values, -np.inf), fill=-np.inf)
        real = np.isfinite(children)
        even = np.where(real, rows[:, None] / np.maximum(real.sum(axis=1, keepdims=True), 1), 0.0)
        clear = (rows >= (0.0 if follow_noise else EVEN) * noise * math.sqrt(FANOUT)) & real.any(axis=1)
        split = project_rows(np.where(clear[:, None], children, 0.0), rows)
        rows = np.where(clear[:, None], split, even).ravel()[: len(values)]
    return rows


def least_squares_counts(tables: Sequence[Floats], noise_std: float) -> Floats:
    """Estimate signed counts of cells by least squares over all levels, which is unbiased.

    From the top, the difference between a node and the sum of its children is split equally among the children (Hay,
    Rastogi, Miklau, Suciu 2010).
    """
    agreed, _ = _agreed(tables, noise_std)
    rows = agreed[0]
    for values in agreed[1:]:
        children = _by_parent(values, fill=np.nan)
        difference = (rows - np.nansum(children, axis=1)) / np.isfinite(children).sum(axis=1)
        rows = (children + difference[:, None]).ravel()[: len(values)]
    return rows


def _ends(agreed: Sequence[Floats], stds: Sequence[float]) -> list[tuple[int, int]]:
    """Return, for each level, the first nonempty node and one past the last.

    Positive noise far out on a long tail would inflate means and variances. So nodes at either end are dropped until
    one stands out. On finer levels only children of the outermost node are dropped, if one of them stands out.
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
