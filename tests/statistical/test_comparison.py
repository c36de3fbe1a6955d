"""What noise adds to a distance: the correction of `compare_private` is right on average.

Each check compares a mean of 4,000 draws with its expectation at 5 standard errors: a false alarm has a probability of
at most 6e-7. Noise at 1.25 or 0.8 of its scale must fail.
"""

import numpy as np
import pytest

from gapless.evaluate.private import distance_less_noise
from gapless.testing.noise import FixedNoise

DRAWS, STD, ROWS = 4_000, 30.0, 1_000_000
LAW = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02])


def distances(truth, *, scale=1.0, laplace=False, seed=1):
    source = FixedNoise(seed)
    size = DRAWS * len(LAW)
    width = STD / np.sqrt(2)  # a Laplace scale of about this standard deviation
    drawn = source.discrete_laplace(scale * width, size) if laplace else source.discrete_gaussian(scale * STD, size)
    counts = np.round(ROWS * truth) + drawn.reshape(DRAWS, len(LAW))
    return np.array([distance_less_noise(one, LAW, STD)[1][1] for one in counts])


def by_noise():
    exact = ROWS * LAW
    exact[0] += 10 * ROWS  # far away: nothing is cut off at 0
    value, (_, noisy) = distance_less_noise(exact, LAW, STD)
    return (noisy - value) * exact.sum() / ROWS


def z(values, expected):
    return abs(values.mean() - expected) / (values.std() / np.sqrt(len(values)))


def test_noise_alone_adds_what_is_taken_off():
    assert z(distances(LAW), by_noise()) < 5


@pytest.mark.parametrize("scale", [0.8, 1.25])
def test_other_noise_would_be_noticed(scale):
    assert z(distances(LAW, scale=scale), by_noise()) > 5


def test_laplace_noise_adds_no_more():
    noisy = distances(LAW, laplace=True)
    assert 0.85 * by_noise() < noisy.mean() < by_noise() + 5 * noisy.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("moved", [0.00002, 0.0001, 0.01])
def test_the_noisy_distance_is_between_the_true_one_and_the_true_one_with_noise(moved):
    truth = LAW.copy()
    truth[0] += moved
    truth[1] -= moved
    noisy = distances(truth)
    error = 5 * noisy.std() / np.sqrt(DRAWS)
    assert moved - error < noisy.mean() < moved + by_noise() + error
