"""Attack on filling: 60 people with a gap, and one with an answer who is in the table or not.

The event is fixed in advance: the model gives the rare answer more than a third. False alarm at most 2e-6 for each
honest imputer. A planted imputer that fills gaps with cells of other rows, as published code does and calls free, turns
the one answer into sixty and must be caught; noise on the counts afterwards does not save it.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from gapless import Budget, Categorical, ImputeFirst, Independent, Schema
from gapless.data.engines.memory import Memory
from gapless.missing import FromDistribution, FromMode, FromModel
from gapless.testing.audit import epsilon_at_least, private

SCHEMA = Schema("answers", [Categorical("answer", ["no", "yes", "rare"], may_be_missing=True)])
EPSILON, RUNS = 1.0, 80


@dataclass(frozen=True)
class HotDeck:
    """Planted: gaps take the cells of other rows."""

    def impute(self, table, grant, budget):
        def fill(rows):
            (codes,) = rows.columns
            donors = codes[codes < 3]
            chosen = np.resize(donors, rows.rows) if len(donors) else np.zeros(rows.rows, dtype=codes.dtype)
            return Memory((np.where(codes < 3, codes, chosen),), rows.rows)

        return table._derive(fill, is_filled=True)


def audited_epsilon(imputer, folder):
    hits = []
    for more in ([("rare",)], []):
        shown = 0
        for _ in range(RUNS):
            table = private([(None,)] * 60 + more, SCHEMA, folder, budget=Budget(EPSILON, 0))
            model = Independent(missing=ImputeFirst(imputer, 0.5)).fit(table, spend=table.ledger.left)
            shown += model.marginal("answer")[2] > 1 / 3
        hits.append(int(shown))
    return epsilon_at_least(hits[0], hits[1], RUNS)


@pytest.mark.parametrize("imputer", [FromDistribution(), FromMode(), FromModel(Independent())])
def test_imputers_keep_their_promise(imputer, tmp_path):
    assert audited_epsilon(imputer, tmp_path) <= EPSILON


def test_an_imputer_that_copies_cells_of_other_rows_is_caught(tmp_path):
    assert audited_epsilon(HotDeck(), tmp_path) > EPSILON
