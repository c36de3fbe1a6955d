"""Whether synthetic rows keep the relations that were measured: the association of each pair in the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.data import Table
from gapless.evaluate.marginals import DENSE_CELLS, association, shares
from gapless.inference.associations import SPEARMAN, PairPrecision
from gapless.types import Floats

MOST_ROWS = 10_000


def associations_in_rows(sample: Table, pairs: Sequence[PairPrecision]) -> list[float | None]:
    """Return the association of each pair in synthetic rows; None if a column does not vary, or has too many cells.

    Rank correlations are of the ranks of values among the rows in which both are observed, like those measured.

    Args:
        sample: of the rows of a release; the first `MOST_ROWS` are used.
        pairs: what was measured, by the same measures.
    """
    from scipy.stats import rankdata  # noqa: PLC0415 slow to load

    rows = sample.head(MOST_ROWS)
    places = {c for pair in pairs if pair.measure == SPEARMAN for c in pair.columns}
    values = {place: _values(rows, place) for place in places}
    ranks = {place: rankdata(numbers, nan_policy="omit") for place, numbers in values.items()}
    return [
        _rank_correlation(*((values[c], ranks[c]) for c in pair.columns))
        if pair.measure == SPEARMAN
        else _of_cells(rows, pair)
        for pair in pairs
    ]


def _values(rows: Table, place: int) -> Floats:
    """Return the number or the place of the level of each row in a column, NaN at gaps."""
    codes, numbers = rows.codes[place], rows.numeric_values(place)
    values = codes.astype(np.float64) if numbers is None else numbers
    return np.where(codes < rows.schema.columns[place].size, values, np.nan)


def _rank_correlation(*columns: tuple[Floats, Floats]) -> float | None:
    """Return the correlation of ranks, from the values and the ranks of two columns."""
    from scipy.stats import rankdata  # noqa: PLC0415 slow to load

    both = ~np.isnan(columns[0][0] + columns[1][0])
    # Ranks in the whole column are valid among fewer rows only if no value is left out.
    x, y = (ranks[both] if both.sum() == len(both) else rankdata(values[both]) for values, ranks in columns)
    return float(np.corrcoef(x, y)[0, 1]) if len(x) > 1 and x.std() > 0 and y.std() > 0 else None


def _of_cells(rows: Table, pair: PairPrecision) -> float | None:
    both = rows.schema.columns[pair.columns[0]], rows.schema.columns[pair.columns[1]]
    return None if both[0].size * both[1].size > DENSE_CELLS else association(shares(rows, pair.columns), both)
