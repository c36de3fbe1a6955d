"""An attack on the promise to the complete table: masks are drawn, then noise, and the worst event is counted.

A complete person, Laplace counts on overlapping marginals, and the event that every noisy count of the person's cell is
1 or more: its probability with the person is exactly e^F times that without. Each bound holds with probability at least
1 - 2e-6 for a correct claim; the linear rule p·ε of [MD], a sum of amplified figures and half the noise must be caught.
"""

import math

import numpy as np
import pytest

import gapless as gl
from gapless.privacy import L1, DiscreteLaplace, Loss
from gapless.privacy.noise import SystemNoise
from gapless.testing.audit import epsilon_at_least
from gapless.testing.noise import ScaledNoise

TRIALS = 400_000
HONEST = SystemNoise()
CASES = {
    "one rare marginal": ([(3.0, {"a"})], {"a": 0.9}),
    "two that overlap": ([(1.0, {"a"}), (1.0, {"a", "b"})], {"a": 0.5, "b": 0.5}),
    "three in a ring": ([(0.8, {"a", "b"}), (0.8, {"b", "c"}), (0.8, {"a", "c"})], {"a": 0.6, "b": 0.6, "c": 0.6}),
}


def attack(releases, rates, noise, seed, *, together=False):
    """The ε that is surely exceeded. `together`: columns go missing all at once."""
    rng = np.random.default_rng(seed)  # the gaps are nature's, not the mechanism's
    draws = {column: rng.random(TRIALS) for column in sorted(rates)}
    same = next(iter(draws.values()))
    seen = {column: (same if together else draw) >= rates[column] for column, draw in draws.items()}
    hits = np.ones(TRIALS, dtype=np.bool_)
    others = np.ones(TRIALS, dtype=np.bool_)
    for loss, columns in releases:
        mechanism = DiscreteLaplace.for_loss(Loss(loss, math.inf), L1(1))
        read = np.logical_and.reduce([seen[column] for column in columns])
        hits &= mechanism(read.astype(np.int64), noise) >= 1
        others &= mechanism(np.zeros(TRIALS, dtype=np.int64), noise) >= 1
    return epsilon_at_least(int(hits.sum()), int(others.sum()), TRIALS)


@pytest.mark.parametrize("case", CASES)
def test_the_figure_holds_and_the_linear_rule_does_not(case):
    releases, rates = CASES[case]
    claim = gl.privacy.ground_truth(releases, gl.MCAR(rates))
    found = attack(releases, rates, HONEST, seed=11)
    assert found <= claim
    linear = sum(loss * math.prod(1 - rates[column] for column in columns) for loss, columns in releases)
    assert found > linear
    assert attack(releases, rates, ScaledNoise(0.5, HONEST), seed=12) > claim


def test_a_sum_of_amplified_figures_does_not_hold():
    ten, rates = [(0.3, {"a"})] * 6, {"a": 0.5}
    added = 6 * gl.privacy.ground_truth(ten[:1], gl.MCAR(rates))
    found = attack(ten, rates, HONEST, seed=13)
    assert added < found <= gl.privacy.ground_truth(ten, gl.MCAR(rates))


def test_independence_of_columns_is_an_assumption_that_can_fail_and_the_robust_figure_covers_it():
    releases, rates = [(2.0, {"a", "b"})], {"a": 0.7, "b": 0.7}
    found = attack(releases, rates, HONEST, seed=14, together=True)
    assert found > gl.privacy.ground_truth(releases, gl.MCAR(rates))
    assert found <= gl.privacy.ground_truth(releases, gl.MCAR(rates, columns="dependent"))
