"""The distribution of generalized Cauchy noise as the mechanism draws it.

Each test has a false-alarm rate of at most 1e-6 and must reject noise at 0.8 and 1.25 times its scale.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from gapless.privacy import Loss, Smooth, SmoothCauchy, SmoothValue
from gapless.privacy.noise import SystemNoise
from gapless.testing.noise import FixedNoise, ScaledNoise

LEVEL = 1e-6
DRAWS = 10_000
VALUE = SmoothValue(Fraction(1000, 3), Fraction(7))


def draws(mechanism, source):
    noise = np.array([mechanism(VALUE, source) for _ in range(DRAWS)]) - float(VALUE.answer)
    return noise * mechanism.alpha / float(VALUE.bound)


def has_right_distribution(noise, exponent):
    """|X|^g / (1 + |X|^g) is Beta(1/g, 1 - 1/g), and signs are even.

    Kolmogorov-Smirnov and binomial test, half the level each. Rounding to the grid moves a distribution function by
    far less than the statistic's own spread.
    """
    power = np.abs(noise) ** exponent
    shape = stats.kstest(power / (1 + power), stats.beta(1 / exponent, 1 - 1 / exponent).cdf).pvalue
    signs = stats.binomtest(int((noise > 0).sum()), noise.size).pvalue
    return min(shape, signs) > LEVEL / 2


@pytest.mark.parametrize("epsilon", [0.8, 1.386, 4.159, 6.0])
@pytest.mark.parametrize("source", [SystemNoise(), FixedNoise(3)], ids=["system", "fixed"])
def test_noise_has_its_distribution(epsilon, source):
    mechanism = SmoothCauchy.for_loss(Loss(epsilon, math.inf), Smooth(1, 2.0))
    assert has_right_distribution(draws(mechanism, source), mechanism.exponent)


@pytest.mark.parametrize("epsilon", [0.8, 4.159])
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_noise_of_the_wrong_size_is_caught(epsilon, factor):
    mechanism = SmoothCauchy.for_loss(Loss(epsilon, math.inf), Smooth(1, 2.0))
    assert not has_right_distribution(draws(mechanism, ScaledNoise(factor, SystemNoise())), mechanism.exponent)


def test_a_wrong_exponent_is_caught():
    mechanism = SmoothCauchy(3.5, 2.8, 2.0**-12)
    assert not has_right_distribution(draws(mechanism, SystemNoise()), 3.0)
