"""A one-run audit of learned bins: 4000 canary rows, each a value of one column, in or out by a fair coin.

The attacker sees all that was released to learn the bins and bets on the values whose counts stand out most. Under ε-DP
the number of right bets is at most Binomial(bets, e^ε/(1+e^ε)) (Steinke, Nasr, Jagielski 2023), so an honest run fails
with probability at most 1e-6. Broken noise must be caught.
"""

import contextlib

import numpy as np
import polars as pl
import pytest

from gapless import Budget, Independent, Integer, Schema
from gapless.synth import learning, measurements
from gapless.testing.audit import one_run_epsilon, private
from gapless.testing.noise import scaled_noise

CANARIES, BETS, EPSILON = 4000, 1500, 3.0
SCHEMA = Schema("canaries", [Integer("x", bounds=(0, CANARIES - 1), bins="learned")])


@pytest.fixture
def released(monkeypatch):
    """The noisy counts of every level of the bin hierarchy, with all of the budget."""
    tables, plain = [], measurements.nonnegative_counts

    def watched(counts, noise_std, *edges, **options):
        tables[:] = counts
        return plain(counts, noise_std, *edges, **options)

    monkeypatch.setattr(measurements, "nonnegative_counts", watched)
    monkeypatch.setattr(learning, "BINS_SHARE", 0.999)
    return tables


def audited_epsilon(folder, tables, source):
    present = np.random.default_rng().random(CANARIES) < 0.5
    table = private(pl.DataFrame({"x": np.flatnonzero(present)}), SCHEMA, folder, budget=Budget(EPSILON, 0))
    with source:
        Independent().fit(table, spend=table.ledger.left)
    order = np.argsort(tables[-1])
    right = int((~present[order[:BETS]]).sum() + present[order[-BETS:]].sum())
    return one_run_epsilon(right, 2 * BETS)


def test_learning_bins_keeps_its_promise_in_one_run(tmp_path, released):
    assert audited_epsilon(tmp_path, released, contextlib.nullcontext()) <= EPSILON
    assert audited_epsilon(tmp_path, released, scaled_noise(0.05)) > EPSILON
