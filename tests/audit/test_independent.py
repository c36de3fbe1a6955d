"""A one-run audit of a whole synthesizer: thousands of canary rows, each in a separate cell, in or out by a coin.

False alarm at most 1e-6 (Steinke, Nasr, Jagielski 2023); half the noise must be caught. The attacker sees
what is public: the noisy counts behind the model.
"""

import contextlib

import numpy as np
import polars as pl
import pytest

from gapless import Budget, Categorical, Independent, Schema
from gapless.testing.audit import one_run_epsilon, private
from gapless.testing.noise import scaled_noise

CANARIES = 4000
SCHEMA = Schema("canaries", [Categorical("cell", [f"c{i}" for i in range(CANARIES)])])


def audited_epsilon(folder, budget, source):
    present = np.random.default_rng().random(CANARIES) < 0.5
    table = private(pl.DataFrame({"cell": [f"c{i}" for i in np.flatnonzero(present)]}), SCHEMA, folder, budget=budget)
    with source:
        model = Independent().fit(table, spend=table.ledger.left)
    mass = model.marginal("cell")
    guessed = mass > np.median(mass)
    sure = mass != np.median(mass)
    return one_run_epsilon(int((guessed == present)[sure].sum()), int(sure.sum()))


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_independent_keeps_its_promise_in_one_run(epsilon, tmp_path):
    assert audited_epsilon(tmp_path, Budget(epsilon, 0), contextlib.nullcontext()) <= epsilon
    assert audited_epsilon(tmp_path, Budget(epsilon, 0), scaled_noise(0.4)) > epsilon
