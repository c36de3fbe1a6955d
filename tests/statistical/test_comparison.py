"""What noise adds to a distance: `compare_private` takes off what is right on average, and its range holds the truth.

Each check compares a mean of 4,000 draws with its expectation at 5 standard errors: a false alarm has a probability of
at most 6e-7. Noise at 1.25 or 0.8 of its scale must fail.
"""

import numpy as np
import pytest

from gapless.evaluate.private_comparison import noisy_distance
from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.testing.noise import FixedNoise

DRAWS, STD, ROWS = 4_000, 30.0, 1_000_000
SHARES = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02])
GAUSSIAN, LAPLACE = DiscreteGaussian(STD), DiscreteLaplace(STD / np.sqrt(2))
BY_NOISE = {noise: noisy_distance(ROWS * SHARES, SHARES, noise).by_noise for noise in (GAUSSIAN, LAPLACE)}
TO_TWO = np.array([1, -1, 0, 0, 0, 0, 0, 0, 0, 0])
TO_ALL = np.array([1, -1, 1, -1, 1, -1, 1, -1, 1, -1]) / 5


def distances(truth, noise=GAUSSIAN, *, scale=1.0, seed=1):
    source = FixedNoise(seed)
    draw = source.discrete_laplace if noise is LAPLACE else source.discrete_gaussian
    size = DRAWS * len(SHARES)
    drawn = draw(scale * (noise.scale if noise is LAPLACE else noise.std), size)
    return [
        noisy_distance(distance, SHARES, noise)
        for distance in np.round(ROWS * truth) + drawn.reshape(DRAWS, len(SHARES))
    ]


def noisy(found):
    return np.array([distance.noisy for distance in found])


def z(values, expected):
    return abs(values.mean() - expected) / (values.std() / np.sqrt(len(values)))


def test_noise_alone_adds_what_is_taken_off():
    assert z(noisy(distances(SHARES)), BY_NOISE[GAUSSIAN]) < 5


@pytest.mark.parametrize("scale", [0.8, 1.25])
def test_other_noise_would_be_noticed(scale):
    assert z(noisy(distances(SHARES, scale=scale)), BY_NOISE[GAUSSIAN]) > 5


def test_of_laplace_noise_hardly_more_is_left_than_is_taken_off():
    """The mean size of one cell's noise is a lower bound for that of a sum, which is between it and a Gaussian's."""
    found = noisy(distances(SHARES, LAPLACE))
    error = 5 * found.std() / np.sqrt(DRAWS)
    assert BY_NOISE[LAPLACE] - error < found.mean() < 1.06 * BY_NOISE[LAPLACE]


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("spread", [TO_TWO, TO_ALL])
@pytest.mark.parametrize("times", [0.1, 0.5, 2, 20])
def test_the_range_holds_the_true_distance_at_its_expected_ends_and_in_most_draws(noise, spread, times):
    true = times * BY_NOISE[noise]
    found = distances(SHARES + true * spread, noise)
    mean, error = noisy(found).mean(), 5 * noisy(found).std() / np.sqrt(DRAWS)
    by_noise = BY_NOISE[noise] * (1.06 if noise is LAPLACE else 1)
    assert mean - by_noise - error < true < np.sqrt(np.pi / 2 * ((mean + error) ** 2 - BY_NOISE[noise] ** 2))
    held = np.mean([distance.between[0] <= true <= distance.between[1] for distance in found])
    assert held > 0.9
    assert all(distance.between[0] <= distance.value <= distance.between[1] for distance in found)


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
def test_the_value_is_near_the_truth_if_differences_are_spread_like_noise(noise):
    """Neither at the lower end, as if all difference were in a few cells, nor at the noisy distance."""
    spread = np.random.default_rng(3).normal(size=len(SHARES)) * np.sqrt(1 - 2 * SHARES + len(SHARES) * SHARES**2)
    spread = 2 * (spread - spread.mean()) / np.abs(spread - spread.mean()).sum()
    true = BY_NOISE[noise]
    found = distances(SHARES + true * spread, noise)
    assert np.mean([distance.value for distance in found]) == pytest.approx(true, rel=0.15)
    assert np.mean([max(0.0, distance.noisy - distance.by_noise) for distance in found]) < 0.6 * true
    assert noisy(found).mean() > 1.3 * true
