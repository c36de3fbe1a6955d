"""Whether synthetic rows keep the relations that were measured: the association of each pair in the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.data import Table
from gapless.evaluate.marginals import DENSE_CELLS, association, shares
from gapless.evaluate.values import correlation_of, rows_of_pair, weighted_ranks
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
    rows = sample.head(MOST_ROWS)
    places = {c for pair in pairs if pair.measure == SPEARMAN for c in pair.columns}
    values = {rows.schema.names[place]: _values(rows, place) for place in places}
    ranks = {name: weighted_ranks(numbers, np.ones(rows.rows)) for name, numbers in values.items()}

    def rank_correlation(pair: PairPrecision) -> float | None:
        first, second = (rows.schema.names[c] for c in pair.columns)
        found = correlation_of(*rows_of_pair(values, ranks, np.ones(rows.rows), (first, second), SPEARMAN))
        return None if found is None else found.r

    return [rank_correlation(pair) if pair.measure == SPEARMAN else _of_cells(rows, pair) for pair in pairs]


def _values(rows: Table, place: int) -> Floats:
    """Return the number or the place of the level of each row in a column, NaN at gaps."""
    codes, numbers = rows.codes[place], rows.numeric_values(place)
    values = codes.astype(np.float64) if numbers is None else numbers
    return np.where(codes < rows.schema.columns[place].size, values, np.nan)


def _of_cells(rows: Table, pair: PairPrecision) -> float | None:
    both = rows.schema.columns[pair.columns[0]], rows.schema.columns[pair.columns[1]]
    return None if both[0].size * both[1].size > DENSE_CELLS else association(shares(rows, pair.columns), both)
