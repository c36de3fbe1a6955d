"""The distribution of K-norm noise as the mechanism draws it.

Each test has a false-alarm rate of at most 1e-6 and must reject noise at 0.8 and 1.25 times its scale.
"""

import math

import numpy as np
import pytest
from scipy import stats

from gapless.privacy import L2, KNorm, Loss
from gapless.privacy.exact_noise import half_normal
from gapless.privacy.noise import SystemNoise, _word
from gapless.testing.noise import FixedNoise, ScaledNoise, SharedNoise

LEVEL = 1e-6
DRAWS = 4000
MECHANISM = KNorm.for_loss(Loss(0.5, math.inf), L2(2.0**20))
SIZES = [1, 2, 6]


def drawn(size, source):
    zeros = np.zeros(size, dtype=np.int64)
    return np.array([MECHANISM(zeros, source) for _ in range(DRAWS)]) / MECHANISM.scale


def has_right_distribution(noise):
    """The length is Gamma(d), the square of the first part of a direction Beta(1/2, (d - 1)/2), signs even and apart.

    Kolmogorov-Smirnov and binomial tests, a quarter of the level each. A step of the grid is a part in two million of
    the scale, far less than the statistic's own spread.
    """
    size = noise.shape[1]
    length = np.sqrt((noise**2).sum(axis=1))
    found = [stats.kstest(length, stats.gamma(size).cdf).pvalue]
    found += [stats.binomtest(int((noise > 0).sum()), noise.size).pvalue]
    if size > 1:
        found.append(stats.kstest((noise[:, 0] / length) ** 2, stats.beta(0.5, (size - 1) / 2).cdf).pvalue)
        found.append(stats.binomtest(int((noise[:, 0] * noise[:, -1] > 0).sum()), DRAWS).pvalue)
    return min(found) > LEVEL / 4


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", [SystemNoise(), FixedNoise(3)], ids=["system", "fixed"])
def test_noise_has_its_distribution(size, source):
    assert has_right_distribution(drawn(size, source))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_noise_of_the_wrong_size_is_caught(size, factor):
    assert not has_right_distribution(drawn(size, ScaledNoise(factor, SystemNoise())))


def test_noise_of_another_kind_is_caught():
    """One number for all cells, a separate Laplace number for each, and one sign for all."""
    assert not has_right_distribution(drawn(2, SharedNoise(SystemNoise())))
    assert not has_right_distribution(np.random.default_rng(1).laplace(size=(DRAWS, 3)))
    signs = np.random.default_rng(2).choice([-1, 1], (DRAWS, 1))
    assert not has_right_distribution(np.abs(drawn(2, SystemNoise())) * signs)  # one sign for both


def test_half_normal_numbers_are_half_normal():
    sizes = [k + x.digits / 2**x.bits for k, x in (half_normal(_word) for _ in range(20_000))]
    assert stats.kstest(sizes, stats.halfnorm.cdf).pvalue > LEVEL
    assert stats.kstest(np.array(sizes) * 1.25, stats.halfnorm.cdf).pvalue < LEVEL
