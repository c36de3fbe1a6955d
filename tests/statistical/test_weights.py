"""Debiased weights that are not normalised: right on average over the noise, for each noise ([IW], Proposition 2).

False alarms at most 1e-6 for each comparison: means of many draws within five standard errors. Weights without the
factor, and with factors for 0.8 and 1.25 times the noise, must be outside.
"""

import numpy as np
import pytest

from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.testing.noise import FixedNoise
from gapless.weights.logistic import log_ratios

DRAWS, STEP = 400_000, 2.0**-20
POINTS = np.array([[1.0, 0.2, 1.0], [1.0, 0.9, 1.0], [1.0, 0.0, 1.0]])
TRUE = np.array([0.5, -1.0, 0.3])
NOISES = {"gaussian": lambda std: DiscreteGaussian(std / STEP), "laplace": lambda std: DiscreteLaplace(std / 2 / STEP)}


def drawn(noise, factor):
    """Weights under noise, and those that are debiased for noise of this factor of it."""
    zeros = np.zeros((DRAWS, 3), dtype=np.int64)
    noisy = TRUE + noise(0.4)(zeros, FixedNoise(11)) * STEP
    plain = np.exp(noisy @ POINTS.T)
    factors = np.exp(-log_ratios(POINTS, np.zeros(3), noise(0.4 * factor), STEP))
    return plain, plain / factors


@pytest.mark.parametrize("kind", NOISES)
def test_debiased_weights_are_right_on_average_and_closer(kind):
    exact = np.exp(POINTS @ TRUE)
    plain, debiased = drawn(NOISES[kind], 1.0)
    off = abs(debiased.mean(axis=0) - exact) / (debiased.std(axis=0) / np.sqrt(DRAWS))
    assert (off < 5).all()
    assert (abs(plain.mean(axis=0) - exact) > 20 * plain.std(axis=0) / np.sqrt(DRAWS)).all()
    assert (((debiased - exact) ** 2).mean(axis=0) < ((plain - exact) ** 2).mean(axis=0)).all()


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_factor_for_other_noise_is_noticed(kind, factor):
    _, debiased = drawn(NOISES[kind], factor)
    exact = np.exp(POINTS @ TRUE)
    assert (abs(debiased.mean(axis=0) - exact) > 5 * debiased.std(axis=0) / np.sqrt(DRAWS)).all()
