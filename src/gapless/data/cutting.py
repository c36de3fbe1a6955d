r"""Where to cut a column on a line into bins, given how many rows lie in each of its cells, about.

Bins of about equal weight, where a cell weighs half by its rows and half by how far they lie from the median,

.. math:: w_i = \tfrac12 \frac{c_i}{\sum_j c_j} + \tfrac12 \frac{c_i |v_i - m|}{\sum_j c_j |v_j - m|},

so that most bins lie where most rows do, and a long tail, on which means and correlations hang, gets some as well. A
cell that is as heavy as a bin has one of its own (0, 40 hours, 12 years). No bin is thinner than asked for, unless a
cell of its own on either side leaves no other place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.forbidden import beginnings
from gapless.schema.numeric import _Binned
from gapless.schema.schema import Schema
from gapless.types import Floats

FEW = 12  # cells, up to which each is a bin


def cut_schema(schema: Schema, cells: Mapping[str, Floats], bins: int, *, least: float = 0.0) -> Schema:
    """The schema with bins in place of those to be learned, cut by these counts, or evenly where there are none.

    A bin begins wherever a rule of the schema begins or ceases to hold.
    """
    obliged = beginnings(schema)
    learned = [column for column in schema.columns if isinstance(column, _Binned) and column.learned]
    columns = {}
    for column in learned:
        counts = cells.get(column.name, np.ones(column.values_size))
        columns[column.name] = cut(column, counts, bins, least=least, obliged=obliged.get(column.name, ()))
    return schema.with_columns(columns)


def cut(column: _Binned, counts: Floats, bins: int, *, least: float = 0.0, obliged: Iterable[int] = ()) -> _Binned:
    """The column, whose cells have these counts, with at most so many bins and those that are obliged to begin.

    Args:
        column: told by its cells.
        counts: of its values' cells, none below 0.
        bins: how many, if the counts tell nothing against it.
        least: the fewest rows of a bin.
        obliged: cells with which a bin must begin.

    >>> from gapless.schema.numeric import Integer
    >>> hours = np.where(np.arange(100) == 40, 150.0, 1.0)
    >>> cut(Integer("hours", bounds=(0, 99), bins="learned"), hours, 4).cells
    ('0..39', '40', '41..80', '81..99')
    """
    if column.values_size <= max(FEW, bins):
        return column.cut(column.grid)
    firsts = {0, *obliged}
    weights = _weights(column, counts)
    total = counts.sum()
    low, high = column.ends_of_bins()
    zero = (low <= 0) & (high >= 0) & (counts >= total / (4 * bins))  # where most spikes are
    heavy = np.flatnonzero(((weights >= 1 / bins) | zero) & (counts >= least) & (counts > 0))
    firsts.update(heavy, heavy + 1)
    for first, last in pairwise(sorted(firsts | {column.values_size})):
        rows, weight = counts[first:last].cumsum(), weights[first:last].cumsum()
        many = min(round(weight[-1] * bins), int(rows[-1] // max(least, total / (4 * bins), 1e-300)))
        if last - first > 1 and many > 1:
            firsts.update(first + 1 + np.searchsorted(weight, weight[-1] * np.arange(1, many) / many))
    firsts.discard(column.values_size)
    kept = _merged(np.array(sorted(firsts)), counts, least, {0, *obliged}, {*heavy}, bins)
    return column.cut([*column.grid[kept], column.grid[-1]])


def _weights(column: _Binned, counts: Floats) -> Floats:
    low, high = column.ends_of_bins()
    middles = (low + high) / 2
    rows: Floats = counts / max(counts.sum(), 1e-300)
    median = middles[min(int(np.searchsorted(rows.cumsum(), 0.5)), len(rows) - 1)]
    spread: Floats = rows * np.abs(middles - median)
    return (rows + spread / spread.sum()) / 2 if spread.sum() > 0 else rows


def _merged(
    firsts: NDArray[np.int64], counts: Floats, least: float, obliged: set[int], heavy: set[int], bins: int
) -> NDArray[np.int64]:
    """The beginnings of bins without those of thin ones: each is taken by a neighbour, rather not by a heavy cell.

    So are the thinnest as long as there are more than asked for and obliged.
    """
    kept = list(firsts)
    while len(kept) > 1:
        rows = np.add.reduceat(counts, kept)
        many = len(kept) >= bins + len(obliged)  # one of which is the first
        free = [first not in obliged for first in kept] + [False]  # to be taken by the bin before
        thin = [p for p in range(len(kept)) if (many or rows[p] < least) and (free[p] or free[p + 1])]
        if not thin:
            break
        place = min(thin, key=lambda p: rows[p])
        apart = kept[place - 1] in heavy and free[place + 1] and kept[place + 1] not in heavy
        del kept[place if free[place] and not apart else place + 1]
    return np.array(kept)
