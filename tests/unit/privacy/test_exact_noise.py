"""The exact sampler of generalized Cauchy noise: integer powers, and digits read until they decide."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from gapless.privacy.exact_noise import Uniform, _kept, _power, rounded_cauchy
from gapless.testing.noise import FixedNoise, NoNoise, ScaledNoise, SharedNoise

ONE = 1 << 64


@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4, 8, 9, 14, 33, 64])
def test_powers_are_rounded_down_exactly(quarters):
    chance = random.Random(quarters)
    for bits in (64, 128):
        for digits in (0, 1, chance.getrandbits(bits), 2**bits - 1, 2**bits):
            power = _power(digits, bits, quarters)
            exact = Fraction(digits, 2**bits) ** quarters * 2 ** (4 * bits)  # the fourth power of what is asked for
            assert power**4 <= exact < (power + 1) ** 4


def uniform(*words):
    return Uniform(iter(words).__next__)


@pytest.mark.parametrize("quarters", [8, 9, 16])
def test_a_draw_is_kept_as_the_density_says(quarters):
    """Away from the boundary one word decides, and as fractions decide."""
    chance = random.Random(1)
    for _ in range(200):
        y, u = chance.random(), chance.random()
        for inner in (True, False):
            limit = 1 if inner else y ** (quarters / 4 - 2)
            if abs(u * (1 + y ** (quarters / 4)) - limit) > 1e-9:
                said = _kept(uniform(int(y * ONE)), uniform(int(u * ONE)), quarters, inner=inner)
                assert said == (u * (1 + y ** (quarters / 4)) < limit)


def test_an_ambiguous_word_is_read_on():
    """Y = 1/2 and U = 4/5 lie on the boundary for g = 2 as far as the first word tells; the second decides."""
    digits, remainder = divmod(4 * ONE, 5)
    assert remainder
    for second, kept in ((0, True), (ONE - 1, False)):
        y, u = uniform(ONE // 2, 0), uniform(digits, second)
        assert _kept(y, u, 8, inner=True) is kept
        assert y.bits == u.bits == 128


def test_rounding_reads_on_until_it_is_certain():
    """X = 1/2 exactly as far as one word tells, and 1/2 is between two whole numbers."""
    words = iter([3, ONE // 2, 0, ONE - 1])  # coins: inner, positive; Y; U = 0, so it is kept; Y's next digits
    assert rounded_cauchy(Fraction(0), Fraction(1), 8, words.__next__) == 1
    words = iter([2, 0, 0])  # outer and kept, but all digits of 1/X are 0 so far: more are asked for
    with pytest.raises(StopIteration):
        rounded_cauchy(Fraction(0), Fraction(1), 8, words.__next__)


def test_test_sources_draw_it_too():
    fixed = [FixedNoise(7).cauchy(Fraction(10), Fraction(3), 9) for _ in range(2)]
    assert fixed[0] == fixed[1]
    assert NoNoise().cauchy(Fraction(7, 2), Fraction(3), 9) == 4
    assert NoNoise().words(3).tolist() == [0, 1, 2]
    far = ScaledNoise(2.0**40, FixedNoise(7)).cauchy(Fraction(0), Fraction(1000), 9)
    near = FixedNoise(7).cauchy(Fraction(0), Fraction(1000), 9)
    assert abs(far / 2**40 - near) < 1
    shared = SharedNoise(FixedNoise(7))
    assert len(set(shared.words(100).tolist())) == 100
    draws = [shared.cauchy(Fraction(0), Fraction(1000), 9) for _ in range(50)]
    assert all(isinstance(one, int) for one in draws)
    assert len(set(itertools.islice(draws, 50))) > 10
    assert np.median(np.abs(draws)) < 10_000
