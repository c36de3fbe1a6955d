"""Whether synthetic rows keep the relations that were measured: the association of each pair in the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.data import Table
from gapless.evaluate.marginals import DENSE_CELLS, association, shares
from gapless.inference.associations import SPEARMAN, PairPrecision
from gapless.types import Floats

MOST_ROWS = 20_000


def associations_in_rows(sample: Table, pairs: Sequence[PairPrecision]) -> list[float | None]:
    """Return the association of each pair in synthetic rows; None if a column does not vary, or has too many cells.

    Rank correlations are of values, like those measured. They are computed from the ranks of all rows with a value.

    Args:
        sample: of the rows of a release; the first `MOST_ROWS` are used.
        pairs: what was measured, by the same measures.
    """
    rows = sample.head(MOST_ROWS)
    places = {c for pair in pairs if pair.measure == SPEARMAN for c in pair.columns}
    ranks = {place: _ranks(rows, place) for place in places}
    return [
        _correlation(*(ranks[c] for c in pair.columns)) if pair.measure == SPEARMAN else _of_cells(rows, pair)
        for pair in pairs
    ]


def _ranks(rows: Table, place: int) -> Floats:
    """Return the midrank of each row in a column, NaN at gaps."""
    from scipy.stats import rankdata  # noqa: PLC0415 slow to load

    codes, numbers = rows.codes[place], rows.numeric_values(place)
    values = codes.astype(np.float64) if numbers is None else numbers
    seen = np.where(codes < rows.schema.columns[place].size, values, np.nan)
    return np.asarray(rankdata(seen, nan_policy="omit"))


def _correlation(x: Floats, y: Floats) -> float | None:
    both = ~np.isnan(x + y)
    x, y = x[both], y[both]
    return float(np.corrcoef(x, y)[0, 1]) if len(x) > 1 and x.std() > 0 and y.std() > 0 else None


def _of_cells(rows: Table, pair: PairPrecision) -> float | None:
    both = rows.schema.columns[pair.columns[0]], rows.schema.columns[pair.columns[1]]
    return None if both[0].size * both[1].size > DENSE_CELLS else association(shares(rows, pair.columns), both)
