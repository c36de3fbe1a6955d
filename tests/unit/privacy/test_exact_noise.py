"""The exact sampler of generalized Cauchy noise: integer powers, and digits read until they decide."""

import itertools
import random
from fractions import Fraction
from functools import partial
from unittest import mock

import mpmath
import numpy as np
import pytest

from gapless.privacy import exact_noise
from gapless.privacy.exact_noise import (
    Uniform,
    _energies,
    _half,
    _happens,
    _is_accepted,
    _power,
    half_normal,
    rounded_cauchy,
    rounded_knorm,
)
from gapless.testing.noise import FixedNoise, NoNoise, ScaledNoise, SharedNoise

UNIT = 1 << 64


@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4, 8, 9, 14, 33, 64])
def test_powers_are_rounded_down_exactly(quarters):
    chance = random.Random(quarters)
    for bits in (64, 128):
        for digits in (0, 1, chance.getrandbits(bits), 2**bits - 1, 2**bits):
            power = _power(digits, bits, quarters)
            exact = Fraction(digits, 2**bits) ** quarters * 2 ** (4 * bits)  # the fourth power of what is asked for
            assert power**4 <= exact < (power + 1) ** 4


def uniform(*scripted_words):
    return Uniform(iter(scripted_words).__next__)


@pytest.mark.parametrize("quarters", [8, 9, 16])
def test_a_draw_is_accepted_according_to_the_density(quarters):
    """Away from the boundary one word decides, and as fractions decide."""
    chance = random.Random(1)
    for _ in range(200):
        y, u = chance.random(), chance.random()
        for inner in (True, False):
            limit = 1 if inner else y ** (quarters / 4 - 2)
            if abs(u * (1 + y ** (quarters / 4)) - limit) > 1e-9:
                decided = _is_accepted(uniform(int(y * UNIT)), uniform(int(u * UNIT)), quarters, inner=inner)
                assert decided == (u * (1 + y ** (quarters / 4)) < limit)


def test_an_ambiguous_word_is_read_on():
    """Y = 1/2 and U = 4/5 lie on the boundary for g = 2 by the first word; the second decides."""
    digits, remainder = divmod(4 * UNIT, 5)
    assert remainder
    for second, kept in ((0, True), (UNIT - 1, False)):
        y, u = uniform(UNIT // 2, 0), uniform(digits, second)
        assert _is_accepted(y, u, 8, inner=True) is kept
        assert y.bits == u.bits == 128


def test_rounding_reads_on_until_it_is_certain():
    """X = 1/2 exactly by the first word, and 1/2 is between two whole numbers."""
    scripted_words = iter(
        [3, UNIT // 2, 0, UNIT - 1]
    )  # coins: inner, positive; Y; U = 0, so it is kept; Y's next digits
    assert rounded_cauchy(Fraction(0), Fraction(1), 8, scripted_words.__next__) == 1
    scripted_words = iter([2, 0, 0])  # outer and kept, but all digits of 1/X are 0 so far: more are asked for
    with pytest.raises(StopIteration):
        rounded_cauchy(Fraction(0), Fraction(1), 8, scripted_words.__next__)


def test_test_sources_draw_it_too():
    fixed = [FixedNoise(7).cauchy(Fraction(10), Fraction(3), 9) for _ in range(2)]
    assert fixed[0] == fixed[1]
    assert NoNoise().cauchy(Fraction(7, 2), Fraction(3), 9) == 4
    assert NoNoise().uniform_words(3).tolist() == [0, 1, 2]
    far = ScaledNoise(2.0**40, FixedNoise(7)).cauchy(Fraction(0), Fraction(1000), 9)
    near = FixedNoise(7).cauchy(Fraction(0), Fraction(1000), 9)
    assert abs(far / 2**40 - near) < 1
    shared = SharedNoise(FixedNoise(7))
    assert len(set(shared.uniform_words(100).tolist())) == 100
    draws = [shared.cauchy(Fraction(0), Fraction(1000), 9) for _ in range(50)]
    assert all(isinstance(draw, int) for draw in draws)
    assert len(set(itertools.islice(draws, 50))) > 10
    assert np.median(np.abs(draws)) < 10_000


# ------------------------------------------------------------------ K-norm noise


def scripted_words(*some):
    return iter(some).__next__


def chance(k, x):
    """exp(-((k + x)² - k)/2) in 64 binary places, rounded down, with many digits."""
    with mpmath.workdps(60):
        return int(mpmath.floor(mpmath.exp(-((k + mpmath.mpf(x) / UNIT) ** 2 - k) / 2) * UNIT))


def test_digits_are_those_that_were_read():
    x = Uniform(scripted_words(3 << 62, 5, 7))
    assert (x.prefix(1), x.prefix(2), x.prefix(64), x.bits) == (1, 3, 3 << 62, 64)
    assert x.prefix(128) == (3 << 62) << 64 | 5
    assert x.prefix(64) == 3 << 62


@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_floats_and_integers_decide_alike(k):
    source = random.Random(k)
    for _ in range(300):
        digits, u = source.getrandbits(64), source.getrandbits(64)
        about = float(mpmath.mpf(chance(k, digits)) / UNIT)
        decided = []
        for margin in (exact_noise._MARGIN, 2.0):  # a margin of 2 leaves everything to the integers
            with mock.patch.object(exact_noise, "_MARGIN", margin):
                x = Uniform(scripted_words(digits, 1 << 63))
                decided.append(_happens(about, partial(_energies, k, x), scripted_words(u, 1 << 63)))
        assert decided[0] == decided[1] == (u < chance(k, digits))


@pytest.mark.parametrize("k", [0, 3])
def test_an_ambiguous_word_of_knorm_noise_is_read_on(k):
    """U is the chance itself by the first word: the digits that follow decide, and X's are read along."""
    digits = UNIT // 3
    first = chance(k, digits)
    for second, kept in ((0, True), (UNIT - 1, False)):
        x = Uniform(scripted_words(digits, 0, 0))
        assert _happens(first / UNIT, partial(_energies, k, x), scripted_words(first, second, second)) is kept
        assert x.bits > 64


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("off", [-0.9 * 2.0**-36, 0.9 * 2.0**-36])
def test_a_float_that_is_off_by_less_than_the_margin_decides_nothing(k, off):
    """The proof claims that floats are off by less than 2^-46, and takes 2^-36: within it integers decide alone.

    The uniform number is between the chance and the float, so that the float by itself would give the wrong answer.
    """
    digits = UNIT // 3
    exact = chance(k, digits)
    between = exact + int(off * UNIT / 64)
    x = Uniform(scripted_words(digits, 0, 0))
    assert _happens(exact / UNIT + off, partial(_energies, k, x), scripted_words(between, 0, 0)) is (off < 0)


@pytest.mark.parametrize(("far", "kept"), [(-(2.0**-35), True), (2.0**-35, False)])
def test_floats_decide_beyond_twice_the_margin(far, kept):
    """There no exact number is computed: reading on at every word would take hours."""
    assert (
        _happens(0.5, lambda _: pytest.fail("asked for more digits"), scripted_words(UNIT // 2 + int(far * UNIT)))
        is kept
    )


def test_the_first_part_falls_by_a_root_of_e():
    with mpmath.workdps(60):
        root = int(mpmath.floor(mpmath.exp(mpmath.mpf(-1) / 2) * UNIT))
    assert _happens(exact_noise._ROOT, _half, scripted_words(root - 1, 0))
    assert not _happens(exact_noise._ROOT, _half, scripted_words(root + 1, 0))
    for second, kept in ((0, True), (UNIT - 1, False)):
        assert _happens(exact_noise._ROOT, _half, scripted_words(root, second, second)) is kept
    k, x = half_normal(scripted_words(0, 0, UNIT - 1, 7, 0))  # twice below, once above; x; U = 0: kept
    assert (k, x.digits) == (2, 7)
    k, x = half_normal(scripted_words(UNIT - 1, UNIT - 1, UNIT - 1, UNIT - 1, 5, 0))  # x = 1, not kept; the next is
    assert (k, x.digits) == (0, 5)


def half_normals(*some):
    """Numbers k + x in place of draws."""
    return mock.patch.object(exact_noise, "half_normal", mock.Mock(side_effect=some))


def test_rounding_of_knorm_noise_reads_on_until_it_is_certain():
    """|N| = 1/2 and a length of 1 by the first word: 1/2 is between two whole numbers."""
    for more, steps in ((0, 0), (UNIT - 1, 1)):
        n, m = Uniform(scripted_words(UNIT // 2 - 1, more)), Uniform(scripted_words(0, more))
        rest = Uniform(scripted_words(0, 0))
        with half_normals((0, n), (1, m), (0, rest)):
            found = rounded_knorm(Fraction(1), 1, scripted_words(1))
        assert n.bits == 128
        assert found.tolist() == [steps] or more  # below 1/2 it is 0; just below, with a longer length, either
    n, m, rest = (Uniform(scripted_words(digits, 0, 0)) for digits in (0, 0, 0))
    with half_normals((3, n), (4, m), (3, rest)):  # 3 · √(4² + 3²) = 15, times 2, and a little more
        assert rounded_knorm(Fraction(2), 1, scripted_words(0)).tolist() == [-30]


@pytest.mark.parametrize(
    ("coins", "signs"), [((1, 0, 3), (1, -1, 1)), ((0, 0, 1), (-1, -1, 1)), ((UNIT - 2, UNIT - 1, 2), (-1, 1, -1))]
)
def test_each_coordinate_has_a_coin_for_its_sign_which_is_the_last_bit_of_a_word(coins, signs):
    """One word each, in order, and no other: here |N| = 1, 2, 3 and the length is 2."""
    numbers = [(k, Uniform(scripted_words(0, 0, 0))) for k in (1, 2, 3, 2, 0, 0, 0)]
    read = iter(coins)
    with half_normals(*numbers):
        assert rounded_knorm(Fraction(10), 3, read.__next__).tolist() == [
            20 * s * n for s, n in zip(signs, (1, 2, 3), strict=True)
        ]
    assert next(read, None) is None


def test_noise_beyond_all_integers_wraps_as_sums_do():
    numbers = [(8, Uniform(scripted_words(0, 0, 0))) for _ in range(3)]
    with half_normals(*numbers):
        (wrapped,) = rounded_knorm(Fraction(2**60), 1, scripted_words(1))
    exact = round(8 * 2**60 * 128**0.5)
    assert abs((exact - int(wrapped)) % 2**64) < 2**20 or abs((int(wrapped) - exact) % 2**64) < 2**20


def test_test_sources_draw_knorm_noise_too():
    fixed = [FixedNoise(7).knorm(1000.0, 4).tolist() for _ in range(2)]
    assert fixed[0] == fixed[1]
    assert NoNoise().knorm(3.0, 2).tolist() == [0, 0]
    far = ScaledNoise(2.0**20, FixedNoise(7)).knorm(1000.0, 4)
    assert np.abs(far / 2**20 - fixed[0]).max() < 1
    assert len(set(SharedNoise(FixedNoise(7)).knorm(1000.0, 5).tolist())) == 1
