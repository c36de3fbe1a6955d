"""An attack on a first batch that takes a whole budget: the joint evidence of its tables must not exceed its μ.

Every bound holds with probability at least 1 - 2e-6 for correct noise; noise of 0.8 times the size must be caught, here
by the answers and in `tests/unit/privacy/test_first_batch.py` by the record.
"""

import math

import numpy as np
import pytest

from gapless.privacy import Budget, DiscreteGaussian, Rows
from gapless.privacy.noise import SystemNoise
from gapless.testing.audit import epsilon_at_least, letters_schema, mu_at_least, private
from gapless.testing.noise import ScaledNoise

HONEST = SystemNoise()
SHORT = ScaledNoise(0.8, HONEST)
TRIALS = 250_000
SHARES = [1.0, 2.0, 3.0, 6.0, 1.0, 1.0]
SETS = [("x0",), ("x1",), ("x0", "x1"), ("x2",), ("x0", "x2"), ("x1", "x2")]


def noises(folder, budget, rows):
    """What the ledger lets a batch of six tables have for the whole budget."""
    schema = letters_schema([2, 2, 2])
    table = private([("a", "b", "a")], schema, folder, budget=budget, protect=Rows(rows))
    grant = table.ledger.grant(table.ledger.left, to="audit")
    counts = [table.marginal(columns) for columns in SETS]
    found = grant.noise_for(counts, grant.left, shares=SHARES)
    grant.release_all([(value, noise, "x") for value, noise in zip(counts, found, strict=True)], together=True)
    assert all(entry.together for entry in table.ledger.entries)
    return found


def log_ratios(found, source, rows):
    """The log-ratio of the answers with a person of this number of rows in one cell of each table, and without."""
    ratios = []
    for present in (rows, 0):
        answers = [DiscreteGaussian(noise.std)(np.full(TRIALS, present), source) for noise in found]
        ratios.append(sum(rows * answer / noise.std**2 for answer, noise in zip(answers, found, strict=True)))
    return ratios


@pytest.mark.parametrize(("epsilon", "rows"), [(1.0, 1), (3.0, 1), (1.0, 3)])
def test_a_whole_batch_loses_no_more_than_promised(epsilon, rows, tmp_path):
    budget = Budget(epsilon, 1e-6)
    found = noises(tmp_path, budget, rows)
    mu = math.sqrt(sum((rows / noise.std) ** 2 for noise in found))

    def lower(source):
        within, without = log_ratios(found, source, rows)
        return mu_at_least(int((within > mu**2 / 2).sum()), int((without > mu**2 / 2).sum()), TRIALS)

    assert lower(HONEST) <= mu * 1.01  # answers are whole numbers: the threshold moves a little
    assert lower(SHORT) > mu * 1.01


def test_a_claim_that_the_batch_could_not_keep_is_caught_by_the_answers(tmp_path):
    """(ε, δ) itself, at a δ that can be seen: ε = 1 holds with honest noise and fails with noise of half the size."""
    budget = Budget(1.0, 0.01)
    found = noises(tmp_path, budget, 1)
    mu = math.sqrt(sum((1 / noise.std) ** 2 for noise in found))

    def lower(source):
        within, without = log_ratios(found, source, 1)
        event = 2 * mu**2  # seen often enough with either noise
        return epsilon_at_least(int((within > event).sum()), int((without > event).sum()), TRIALS, delta=0.01)

    assert lower(HONEST) <= 1.0
    assert lower(ScaledNoise(0.5, HONEST)) > 1.0
