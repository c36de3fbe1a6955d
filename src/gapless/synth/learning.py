r"""Bins cut from a paid release: how the values of a column lie on its line, told by a tree of noisy counts.

A flat table of a thousand noisy cells adds up its noise over a bin. So the cells are counted several times, in groups
of :math:`4^\ell` neighbours, the coarsest first; each level costs the same. In this tree every stretch of the line is a
sum of few nodes. The levels are brought to agree (the weighted means of Hay, Rastogi, Miklau, Suciu 2010), then split
from the top: children are projected to what their parent holds, none below 0, and where a node is not clearly above the
noise of its children its rows are spread evenly. Beyond the outermost nodes that stand out of noise nothing is left.
Beside dyadic trees, wider ones, a flat table, PrivTree and private quantiles, at equal budget: `bench/cells.py`.

Everything after the counts is computed from released values: the bins (`schema.cutting`), how many there are, and the
cells from which values inside a bin are drawn. Guarantee: each level is a histogram of one column, at distance 1.
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
OUTSTANDING = 2.0  # noise standard deviations: the outermost nodes of the line are at least so high
EVEN = 4.0  # noise standard deviations of its children's sum, below which a node's rows are spread evenly
THIN = 4.0  # noise standard deviations: the fewest rows of a bin
ROWS_PER_NOISE = 4.0  # in a cell of a pair of columns, on average: as many bins as leave that
FEWEST_BINS, MOST_BINS = 6, 32


def columns_to_learn(schema: Schema) -> list[BinnedColumn]:
    """The columns whose bins are left to a release; those of few cells have a bin for each, for free."""
    return [
        c
        for c in schema.columns
        if isinstance(c, BinnedColumn) and c.has_learned_bins and c.values_size > MOST_SINGLE_CELL_BINS
    ]


def with_most_bins(schema: Schema) -> Schema:
    """The schema with as many bins as can be learned: what is refused is refused by this, before anything is paid."""
    return cut_schema(schema, {}, MOST_BINS)


def bins_for(rows: float, loss: Loss, protect: Rows, columns: int) -> int:
    """How many bins a column gets: as many as leave a cell of a pair `ROWS_PER_NOISE` rows for each unit of its noise.

    The noise is that of all pairs of columns measured with this loss in even shares.
    """
    pairs = max(1, columns * (columns - 1) // 2)
    noise_std = max(for_counts(loss / pairs, L1(protect.at_most)).noise_std, 1e-9)
    return int(np.clip(math.sqrt(max(rows, 0.0) / (ROWS_PER_NOISE * noise_std)), FEWEST_BINS, MOST_BINS))


def hierarchy_levels(cells: int, others: int) -> list[Integers]:
    """The node of each cell on every level of the tree, the coarsest level first; `others` are nodes by themselves.

    >>> [level.tolist() for level in levels(6, 1)]
    [[0, 0, 0, 0, 1, 1, 2], [0, 1, 2, 3, 4, 5, 6]]
    """
    found = []
    node = np.arange(cells)
    while True:
        nodes = int(node[-1]) + 1
        found.append(np.append(node, nodes + np.arange(others)))
        if nodes <= FANOUT:
            return found[::-1]
        node = node // FANOUT


def level_counts(cells: Floats, tables: Sequence[Floats]) -> list[Floats]:
    """The counts of cells summed on every level of a tree that has tables of this size, the coarsest first.

    >>> [counts.tolist() for counts in sums_of_levels(np.array([1, 0, 0, 0, 0, 2]), [np.zeros(2), np.zeros(6)])]
    [[1.0, 2.0], [1.0, 0.0, 0.0, 0.0, 0.0, 2.0]]
    """
    return [
        np.asarray(np.bincount(np.arange(len(cells)) // FANOUT ** (len(tables) - level), cells, len(table)), np.float64)
        for level, table in enumerate(tables, start=1)
    ]


def nonnegative_counts(tables: Sequence[Floats], noise_std: float, *, follow_noise: bool = False) -> Floats:
    """How many rows each cell has, about, none below 0: from the noisy counts of every level, the coarsest first.

    Where only noise is seen nothing is left, or an even spread: less noise for some bias. `closely` the counts are
    followed, noise and all, as copies for inference need it (`gapless.synth.copies`): thresholds would make copies vary
    by other amounts than noise does, and a bias that none of them shows.
    """
    agreed, stds = _agreed(tables, noise_std)
    ends = [(0, len(values)) for values in agreed] if follow_noise else _ends(agreed, stds)
    rows: Floats = np.array([max(agreed[0].sum(), 0.0)])
    for values, noise, (first, last) in zip(agreed, stds, ends, strict=True):
        inside = (np.arange(len(values)) >= first) & (np.arange(len(values)) < last)
        children = _by_parent(np.where(inside, values, -np.inf), fill=-np.inf)
        real = np.isfinite(children)
        even = np.where(real, rows[:, None] / np.maximum(real.sum(axis=1, keepdims=True), 1), 0.0)
        clear = (rows >= (0.0 if follow_noise else EVEN) * noise * math.sqrt(FANOUT)) & real.any(axis=1)
        split = project_rows(np.where(clear[:, None], children, 0.0), rows)
        rows = np.where(clear[:, None], split, even).ravel()[: len(values)]
    return rows


def least_squares_counts(tables: Sequence[Floats], noise_std: float) -> Floats:
    """How many rows each cell has, signs and all: the least squares of all levels, so without bias.

    From the top, what a node has beyond the sum of its children is shared by them evenly (Hay and others 2010).
    """
    agreed, _ = _agreed(tables, noise_std)
    rows = agreed[0]
    for values in agreed[1:]:
        children = _by_parent(values, fill=np.nan)
        beyond = (rows - np.nansum(children, axis=1)) / np.isfinite(children).sum(axis=1)
        rows = (children + beyond[:, None]).ravel()[: len(values)]
    return rows


def _ends(agreed: Sequence[Floats], stds: Sequence[float]) -> list[tuple[int, int]]:
    """For each level the first node, and one past the last, beyond which the line is taken for empty.

    Noise above 0 far out on a long tail would make means and spreads too large. So nodes at either end go until one
    stands out; on finer levels only children of the outermost node go, as long as one of them stands out.
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
    """Each node's count and its children's sum weighed by their noise; and what noise is left on each level."""
    values, variance = [np.asarray(tables[-1], dtype=np.float64)], [noise_std**2]
    for table in tables[-2::-1]:
        below = _by_parent(values[0], fill=0.0).sum(axis=1)
        own = (FANOUT * variance[0]) / (FANOUT * variance[0] + noise_std**2)
        values.insert(0, own * table + (1 - own) * below)
        variance.insert(0, own * noise_std**2)
    return values, [math.sqrt(v) for v in variance]


def _by_parent(values: Floats, *, fill: float) -> Floats:
    """A row for each parent, with all its children."""
    lacking = -len(values) % FANOUT
    return np.concatenate([values, np.full(lacking, fill)]).reshape(-1, FANOUT)


def project_rows(values: Floats, totals: Floats) -> Floats:
    """The nearest row to each of these that is nowhere below 0 and has this total."""
    ordered: NDArray[np.float64] = -np.sort(-values, axis=1)
    above = np.cumsum(np.where(np.isfinite(ordered), ordered, 0.0), axis=1) - totals[:, None]
    taken = above / np.arange(1, values.shape[1] + 1)
    last = np.maximum((ordered > taken).sum(axis=1) - 1, 0)
    projected: Floats = np.maximum(values - taken[np.arange(len(values)), last][:, None], 0.0)
    return projected
