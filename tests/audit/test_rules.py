"""Attack on learned weights: pairs of rows that break a rule, counted with and without one row.

The event is fixed in advance: at least a given number of noisy pairs. False alarm at most 2e-6 for each audit.
Planted: too little noise; and rows paired in order, so that a new first row changes all pairs.
"""

import contextlib
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from gapless import Budget
from gapless.data import workload
from gapless.data.workload import violating_pairs
from gapless.privacy import DiscreteLaplace, noise
from gapless.testing.audit import epsilon_at_least, letters_schema, private
from gapless.testing.noise import scaled_noise
from helpers.open_sealed import reveal

SCHEMA = letters_schema((2, 2))
DECIDES = "t1.x0 == t2.x0 and t1.x1 != t2.x1"
EPSILON, RUNS, DRAWS = 1.0, 5000, 500
TWO_BY_TWO = [("a", town) for town in "aabb" * 10]  # alike in pairs, unlike once they are moved on


class AsTheyCome:
    """Planted: the bucket of a row is half its place."""

    def uniform_words(self, size):
        return np.arange(size, dtype=np.uint64) // np.uint64(2)


def audited_epsilon(folder, rows, *, many, least, draws=1):
    """Lower bounds from both sides, for a row that comes first; buckets are drawn so often, noise in each of them."""
    hits, runs = [], RUNS if draws == 1 else draws
    for people in ([("a", "b"), *rows], rows):
        table = private(people, SCHEMA, folder, budget=Budget(EPSILON, 0))
        pairs = [violating_pairs(table, DECIDES, buckets=many) for _ in range(draws)]
        raw = np.array([reveal(value, table.ledger) for value in pairs])
        mechanism = DiscreteLaplace.for_loss(table.ledger.left, pairs[0].distance)
        noisy = mechanism(np.resize(raw, (runs, 2)), noise.current())
        hits.append(int((noisy[:, 0] >= least).sum()))
    return max(epsilon_at_least(*hits, runs), epsilon_at_least(*hits[::-1], runs))


@pytest.mark.parametrize(("rows", "many", "least", "draws"), [([("a", "a")], 1, 1, 1), (TWO_BY_TWO, 21, 3, DRAWS)])
def test_pairs_in_buckets_keep_their_promise(rows, many, least, draws, tmp_path):
    assert audited_epsilon(tmp_path, rows, many=many, least=least, draws=draws) <= EPSILON


@pytest.mark.parametrize(
    ("planted", "rows", "many", "least"),
    [
        (scaled_noise(0.5), [("a", "a")], 1, 1),
        (mock.patch.object(workload, "noise", SimpleNamespace(current=AsTheyCome)), TWO_BY_TWO, 21, 5),
    ],
)
def test_planted_errors_are_caught(planted, rows, many, least, tmp_path):
    with contextlib.ExitStack() as patches:
        patches.enter_context(planted)
        assert audited_epsilon(tmp_path, rows, many=many, least=least) > EPSILON
