"""Noise for tests: it repeats, it is broken as it says, and it ends with its block."""

from fractions import Fraction

import numpy as np
import pytest

from gapless.privacy.noise import SystemNoise, current, source_name
from gapless.testing import fixed_noise, no_noise, scaled_noise, shared_noise
from gapless.testing.noise import FixedNoise, NoNoise, ScaledNoise, SharedNoise

KINDS = ["discrete_laplace", "discrete_gaussian", "knorm"]


@pytest.mark.parametrize("make", [lambda: fixed_noise(1), lambda: scaled_noise(0.5), shared_noise, no_noise])
def test_a_source_is_active_inside_its_block_only_and_never_private(make):
    with make() as source:
        assert current() is source
        assert source_name(source).endswith("NOT PRIVATE")
    assert type(current()) is SystemNoise


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_noise_draws_at_another_scale(kind):
    assert np.array_equal(getattr(ScaledNoise(3.0, FixedNoise(1)), kind)(5.0, 9), getattr(FixedNoise(1), kind)(15.0, 9))


@pytest.mark.parametrize("kind", KINDS)
def test_shared_noise_has_one_draw_for_all_cells(kind):
    drawn = getattr(SharedNoise(FixedNoise(1)), kind)(50.0, 9)
    assert np.array_equal(drawn, np.repeat(getattr(FixedNoise(1), kind)(50.0, 1), 9))


def test_shared_noise_does_all_else_as_its_source_does():
    scores, scale = np.array([0.0, 1.0, 0.5]), Fraction(9)
    for seed in range(5):
        shared, source = SharedNoise(FixedNoise(seed)), FixedNoise(seed)
        assert shared.choose(scores, 1.0) == source.choose(scores, 1.0)
        assert shared.uniform_words(4).tolist() == source.uniform_words(4).tolist()
        assert shared.cauchy(Fraction(1), scale, 9) == source.cauchy(Fraction(1), scale, 9)


@pytest.mark.parametrize("kind", KINDS)
def test_no_noise_is_none(kind):
    assert getattr(NoNoise(), kind)(5.0, 3).tolist() == [0, 0, 0]
    assert NoNoise().choose(np.array([1.0, 2.0, 2.0]), 1.0) == 1


@pytest.mark.parametrize("std", [2.0, 5000.0])
def test_fixed_noise_is_as_wide_as_asked(std):
    assert FixedNoise(0).discrete_gaussian(std, 20_000).std() == pytest.approx(std, rel=0.03)
