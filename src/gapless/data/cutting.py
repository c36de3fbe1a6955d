r"""Learn the bins of a numeric column from (noisy) counts of its cells.

Bins have about equal weight. A cell's weight is half its share of rows and half its share of absolute deviations
from the median,

.. math:: w_i = \tfrac12 \frac{c_i}{\sum_j c_j} + \tfrac12 \frac{c_i |v_i - m|}{\sum_j c_j |v_j - m|},

so most bins are where most rows are, and a long tail, which decides means and correlations, gets some as well. A cell
as heavy as a bin is a separate bin (0, 40 hours, 12 years). No bin has fewer rows than asked for, unless it is
between two such cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.forbidden import required_cuts
from gapless.schema.numeric import BinnedColumn
from gapless.schema.schema import Schema
from gapless.types import Floats

MOST_SINGLE_CELL_BINS = 12  # up to this many cells, each cell is a bin


def cut_schema(schema: Schema, cells: Mapping[str, Floats], bins: int, *, min_rows: float = 0.0) -> Schema:
    """The schema with bins for the columns whose bins are to be learned: by these counts, or even bins without counts.

    A bin begins wherever a constraint of the schema begins or ceases to hold.
    """
    required_starts = required_cuts(schema)
    learned = [column for column in schema.columns if isinstance(column, BinnedColumn) and column.has_learned_bins]
    columns = {}
    for column in learned:
        counts = cells.get(column.name, np.ones(column.values_size))
        columns[column.name] = cut_column(
            column, counts, bins, min_rows=min_rows, required_starts=required_starts.get(column.name, ())
        )
    return schema.with_columns(columns)


def cut_column(
    column: BinnedColumn, counts: Floats, bins: int, *, min_rows: float = 0.0, required_starts: Iterable[int] = ()
) -> BinnedColumn:
    """Cut a column into at most `bins` bins, besides those that `required_starts` adds.

    Args:
        column: the column, with one bin for each cell.
        counts: the (noisy) number of rows in each cell of its values, not negative.
        bins: the number of bins wanted; fewer if rows are too few.
        min_rows: the fewest rows of a bin.
        required_starts: cells at which a bin must begin.

    >>> from gapless.schema.numeric import Integer
    >>> hours = np.where(np.arange(100) == 40, 150.0, 1.0)
    >>> cut_column(Integer("hours", bounds=(0, 99), bins="learned"), hours, 4).cells
    ('0..39', '40', '41..80', '81..99')
    """
    if column.values_size <= max(MOST_SINGLE_CELL_BINS, bins):
        return column.with_cuts(column.grid)
    firsts = {0, *required_starts}
    weights = _weights(column, counts)
    total = counts.sum()
    low, high = column.bin_ranges()
    zero = (low <= 0) & (high >= 0) & (counts >= total / (4 * bins))  # where most spikes are
    heavy = np.flatnonzero(((weights >= 1 / bins) | zero) & (counts >= min_rows) & (counts > 0))
    firsts.update(heavy, heavy + 1)
    for first, last in pairwise(sorted(firsts | {column.values_size})):
        rows, weight = counts[first:last].cumsum(), weights[first:last].cumsum()
        many = min(round(weight[-1] * bins), int(rows[-1] // max(min_rows, total / (4 * bins), 1e-300)))
        if last - first > 1 and many > 1:
            firsts.update(first + 1 + np.searchsorted(weight, weight[-1] * np.arange(1, many) / many))
    firsts.discard(column.values_size)
    kept = _merged(np.array(sorted(firsts)), counts, min_rows, {0, *required_starts}, {*heavy}, bins)
    return column.with_cuts([*column.grid[kept], column.grid[-1]])


def _weights(column: BinnedColumn, counts: Floats) -> Floats:
    low, high = column.bin_ranges()
    middles = (low + high) / 2
    rows: Floats = counts / max(counts.sum(), 1e-300)
    median = middles[min(int(np.searchsorted(rows.cumsum(), 0.5)), len(rows) - 1)]
    spread: Floats = rows * np.abs(middles - median)
    return (rows + spread / spread.sum()) / 2 if spread.sum() > 0 else rows


def _merged(
    firsts: NDArray[np.int64], counts: Floats, min_rows: float, required_starts: set[int], heavy: set[int], bins: int
) -> NDArray[np.int64]:
    """The first cells of bins after thin bins were merged with a neighbour, if possible not with a heavy cell.

    While there are more bins than wanted and required, the thinnest is merged too.
    """
    kept = list(firsts)
    while len(kept) > 1:
        rows = np.add.reduceat(counts, kept)
        many = len(kept) >= bins + len(required_starts)  # one of which is the first
        free = [first not in required_starts for first in kept] + [False]  # to be taken by the bin before
        thin = [p for p in range(len(kept)) if (many or rows[p] < min_rows) and (free[p] or free[p + 1])]
        if not thin:
            break
        place = min(thin, key=lambda p: rows[p])
        apart = kept[place - 1] in heavy and free[place + 1] and kept[place + 1] not in heavy
        del kept[place if free[place] and not apart else place + 1]
    return np.array(kept)
