"""Black-box attacks on each mechanism: a lower bound on its loss that must stay below the claim.

Every bound holds with probability at least 1 - 2e-6 for a correct mechanism; half the noise must be caught.
"""

import math

import numpy as np
import pytest

from gapless.privacy import (
    L1,
    L2,
    Budget,
    ChoiceByGroup,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    Linf,
    LinfByGroup,
    Loss,
)
from gapless.privacy.noise import SystemNoise
from gapless.testing.audit import epsilon_at_least, mu_at_least
from gapless.testing.noise import ScaledNoise

HONEST = SystemNoise()
HALF = ScaledNoise(0.5, HONEST)
TRIALS = 200_000


def laplace_bound(epsilon, noise):
    """The count is 0 or 1; the event is an answer of at least 1."""
    mechanism = DiscreteLaplace.for_loss(Loss(epsilon, math.inf), L1(1))
    with_row = mechanism(np.ones(TRIALS, dtype=np.int64), noise)
    without = mechanism(np.zeros(TRIALS, dtype=np.int64), noise)
    return epsilon_at_least(int((with_row >= 1).sum()), int((without >= 1).sum()), TRIALS)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_laplace_counts(epsilon):
    assert laplace_bound(epsilon, HONEST) <= epsilon
    assert laplace_bound(epsilon, HALF) > epsilon


def knorm_bound(epsilon, noise, size):
    """Two vectors 1000 steps apart; the event is an answer beyond the second, on the line through both."""
    trials, moved = 8_000, np.zeros(size, dtype=np.int64)
    moved[0] = 1000
    mechanism = KNorm.for_loss(Loss(epsilon, math.inf), L2(1000))
    hits, others = (
        sum(mechanism(value, noise)[0] >= 1000 for _ in range(trials)) for value in (moved, np.zeros_like(moved))
    )
    return epsilon_at_least(hits, others, trials)


@pytest.mark.parametrize("size", [1, 2])
def test_knorm_noise(size):
    """In more dimensions an attack has no power: the distribution of the norm is tested in tests/statistical."""
    assert 0.4 < knorm_bound(1.0, HONEST, size) <= 1.0
    assert knorm_bound(1.0, HALF, size) > 1.0


def gaussian_bound(mechanism, noise):
    with_row = mechanism(np.ones(TRIALS, dtype=np.int64), noise)
    without = mechanism(np.zeros(TRIALS, dtype=np.int64), noise)
    return mu_at_least(int((with_row >= 1).sum()), int((without >= 1).sum()), TRIALS)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_gaussian_counts(epsilon):
    budget = Budget(epsilon, 1e-6)
    mechanism = DiscreteGaussian.for_loss(budget.capacity, L2(1))
    assert gaussian_bound(mechanism, HONEST) <= 1 / mechanism.std * 1.02  # the event has width 1: μ is 1/σ
    assert gaussian_bound(mechanism, HALF) > 1 / mechanism.std * 1.02


def choice_bound(epsilon, noise, candidates=10):
    """One score goes up by 1 and all others go down by 1: two candidates alone would only show ε/2."""
    trials = 5_000
    mechanism = ExponentialChoice.for_loss(Loss(epsilon, math.inf), Linf(1))
    scores = np.full(candidates, 1.0)
    moved = np.full(candidates, 0.0)
    scores[0], moved[0] = -1.0 + 1.0, 1.0
    hits = sum(mechanism(moved, noise) == 0 for _ in range(trials))
    others = sum(mechanism(scores, noise) == 0 for _ in range(trials))
    return epsilon_at_least(hits, others, trials)


def groups_bound(epsilon, noise, candidates=5):
    """Two rows, each in a separate group: in both the first candidate goes up and all others go down."""
    trials = 8_000
    mechanism = ChoiceByGroup.for_loss(Loss(epsilon, math.inf), LinfByGroup(2))
    before, after = np.ones((2, candidates), dtype=np.int64), np.zeros((2, candidates), dtype=np.int64)
    before[:, 0], after[:, 0] = 0, 1
    hits, others = (sum(not mechanism(scores, noise).any() for _ in range(trials)) for scores in (after, before))
    return epsilon_at_least(hits, others, trials)


def test_choices_by_group():
    """At ε = 3 both choices fall on the first candidate often enough.

    Half the noise shows more than 3, except with probability 1e-6.
    """
    assert groups_bound(3.0, HONEST) <= 3.0
    assert groups_bound(3.0, HALF) > 3.0


def test_exponential_choice():
    """Half the noise shows more than 2.3, except with probability 1e-6."""
    assert choice_bound(2.0, HONEST) <= 2.0
    assert choice_bound(2.0, HALF) > 2.0
