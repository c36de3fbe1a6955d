"""The composed total is a bound at distance 1 alone; at any other the filter's promise stays."""

import numpy as np
import pytest

from gapless.privacy import Budget, DiscreteGaussian, DiscreteLaplace, Rows, for_counts
from gapless.privacy.accounting import composed_epsilon
from gapless.testing.audit import letters_schema, private

DELTA = 1e-6


def true_delta(mechanism, shift, epsilon):
    """How much more than e^ε times as likely noise can be when the count moves by `shift`: summed up."""
    reach = np.arange(-20_000, 20_001)
    size = np.abs(reach)
    if isinstance(mechanism, DiscreteGaussian):
        law = np.exp(-(reach**2) / (2 * mechanism.std**2))
    else:
        law = np.exp(-size / mechanism.scale)
    law /= law.sum()
    moved = np.roll(law, shift)
    return np.maximum(moved - np.exp(epsilon) * law, 0).sum()


@pytest.mark.parametrize("distance", [0.5, 2, 5])
@pytest.mark.parametrize(
    "parameters", [{"name": "DiscreteGaussian", "std": 30.0}, {"name": "DiscreteLaplace", "scale": 30.0}]
)
def test_there_is_no_composed_total_at_another_distance(parameters, distance):
    assert composed_epsilon([(parameters, 1)], DELTA) is not None
    assert composed_epsilon([(parameters, distance)], DELTA) is None
    assert composed_epsilon([(parameters, 1), (parameters, distance)], DELTA) is None


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_ledger_of_several_rows_promises_no_less_than_what_its_noise_gives_away(rows, tmp_path):
    """One release at distance 5 and ε = 1: the total of a release at distance 1 would be 0.166."""
    table = private([("a",)], letters_schema([2]), tmp_path, budget=Budget(1.0, DELTA), protect=Rows(rows))
    counts = table.marginal("x0")
    grant = table.ledger.grant(table.ledger.left, to="test")
    mechanism = for_counts(grant.left, counts.distance)
    grant.release(counts, mechanism, what="x0")
    promised = table.ledger.guarantee().epsilon
    assert true_delta(mechanism, rows, promised) <= DELTA
    assert true_delta(mechanism, rows, promised / 2) > DELTA  # so that a promise of one row's loss would be found out
    assert (promised < 1.0) == (rows == 1)


def test_the_composed_total_covers_the_true_loss_of_one_release():
    for mechanism in (DiscreteGaussian(30.0), DiscreteLaplace(30.0)):
        epsilon = composed_epsilon([(mechanism.parameters(), 1)], DELTA)
        assert true_delta(mechanism, 1, epsilon) <= DELTA < true_delta(mechanism, 1, 0.98 * epsilon)


def test_there_is_no_composed_total_of_noise_that_is_larger_than_a_step_of_it_tells():
    """Its law has as many numbers as there is noise: a tiny budget, once charged, must not take hours to state."""
    assert composed_epsilon([({"name": "DiscreteGaussian", "std": 1e12}, 1)], DELTA) is None
