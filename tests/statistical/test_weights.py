"""Debiased weights that are not normalised: right on average over the noise, for each noise ([IW], Proposition 2).

False alarms at most 1e-6 for each comparison: means of many draws within five standard errors. Weights without the
factor, and with factors for 0.8 and 1.25 times the noise, must be outside.
"""

from functools import cache

import numpy as np
import pytest

from gapless.privacy import DiscreteGaussian, DiscreteLaplace, KNorm
from gapless.testing.noise import FixedNoise
from gapless.weights.discriminators import log_means

DRAWS, STEP = 400_000, 2.0**-20
POINTS = np.array([[1.0, 0.2, 1.0], [1.0, 0.9, 1.0], [1.0, 0.0, 1.0]])
TRUE = np.array([0.5, -1.0, 0.3])
NOISES = {
    "gaussian": lambda std: DiscreteGaussian(std / STEP),
    "laplace": lambda std: DiscreteLaplace(std / 2 / STEP),
    "knorm": lambda std: KNorm(std / 2 / STEP),
}


@cache
def noisy_weights(kind):
    """Weights under noise on the coefficients; K-norm noise is one draw for each vector."""
    noise, source = NOISES[kind](0.4), FixedNoise(11)
    if kind == "knorm":
        drawn = np.array([noise(np.zeros(3, dtype=np.int64), source) for _ in range(DRAWS // 20)])
    else:
        drawn = noise(np.zeros((DRAWS, 3), dtype=np.int64), source)
    return np.exp((TRUE + drawn * STEP) @ POINTS.T)


def debiased_weights(kind, factor):
    """Debiased for this factor of the noise."""
    return noisy_weights(kind) * np.exp(-log_means(POINTS, NOISES[kind](0.4 * factor), STEP))


def error(weights):
    return weights.std(axis=0) / np.sqrt(len(weights))


@pytest.mark.parametrize("kind", NOISES)
def test_debiased_weights_are_right_on_average_and_closer(kind):
    exact = np.exp(POINTS @ TRUE)
    plain, debiased = noisy_weights(kind), debiased_weights(kind, 1.0)
    assert (abs(debiased.mean(axis=0) - exact) < 5 * error(debiased)).all()
    assert (abs(plain.mean(axis=0) - exact) > 20 * error(plain)).all()
    assert (((debiased - exact) ** 2).mean(axis=0) < ((plain - exact) ** 2).mean(axis=0)).all()


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_factor_for_other_noise_is_noticed(kind, factor):
    debiased = debiased_weights(kind, factor)
    assert (abs(debiased.mean(axis=0) - np.exp(POINTS @ TRUE)) > 5 * error(debiased)).all()
