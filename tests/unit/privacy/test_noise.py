"""The inversion is exact to the last bit, reads on where it must, and cannot be seeded."""

import json
import random
import subprocess
import sys
import threading
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor

import mpmath
import numpy as np
import pytest

from gapless.privacy import noise
from gapless.privacy.exact_noise import exp
from gapless.privacy.noise import MAX_OPENDP_SIZE, Distribution, SystemNoise, WideGaussian, current, source_name
from gapless.testing.noise import FixedNoise, fixed_noise, no_noise, scaled_noise, shared_noise

DISTRIBUTIONS = {
    **{f"laplace {s}": Distribution.laplace(s) for s in (0.01, 0.3, 1.0, 3.7, 40.0)},
    **{f"gaussian {s}": Distribution.gaussian(s) for s in (0.01, 0.3, 1.0, 3.7, 150.0)},
}
every_distribution = pytest.mark.parametrize("distribution", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)


def exact_cdf(distribution, reach):
    """F(k) for k = -reach-1, …, reach, right to 100 digits: by `decimal`, which shares no code with ours."""
    with localcontext(prec=140):
        slope, bend = (Decimal(x.numerator) / Decimal(x.denominator) for x in (distribution.slope, distribution.bend))
        beyond = reach + 400 + 60 * floor(1 / distribution.slope if distribution.bend == 0 else 0)
        weights = [(-(z * slope + z * (z - 1) / 2 * bend)).exp() for z in map(Decimal, range(beyond))]
        total = 2 * sum(weights) - 1
        tail = sum(weights[reach + 1 :])
        left = [tail / total]
        for weight in reversed(weights[1 : reach + 1]):
            tail += weight
            left.append(tail / total)
        return [Fraction(f) for f in left] + [1 - Fraction(f) for f in reversed(left)]


@every_distribution
@pytest.mark.parametrize("bits", [64, 128])
def test_brackets_are_the_floor_of_the_true_distribution_function(distribution, bits):
    lower, upper = distribution.brackets(bits)
    assert lower == upper
    assert lower == [floor(2**bits * f) for f in exact_cdf(distribution, len(lower) // 2 - 1)]


@every_distribution
def test_the_ends_of_a_table_are_always_ambiguous(distribution):
    lower, upper, _ = noise._table(distribution)
    assert lower[0] == 0
    assert upper[-1] == 2**64 - 1
    assert np.all(lower[1:] >= lower[:-1])
    assert np.all(upper[1:] >= upper[:-1])


@pytest.mark.parametrize(
    "distribution", [Distribution.laplace(1e-300), Distribution.laplace(5e-324), Distribution.gaussian(5e-324)]
)
def test_the_smallest_scales_have_all_their_mass_at_zero(distribution):
    assert distribution.brackets(64) == ([0, 2**64 - 1], [0, 2**64 - 1])


@pytest.mark.parametrize("distribution", [Distribution.laplace(1.3), Distribution.gaussian(2.6)])
def test_every_short_word_is_decided_rightly_or_left_open(distribution):
    """All 2^12 words of 12 bits: a decided word is wholly inside its cell of F."""
    bits = 12
    lower, upper = distribution.brackets(bits)
    cdf = exact_cdf(distribution, len(upper) // 2 - 1)
    cells = np.searchsorted(upper, np.arange(2**bits))
    open_words = 0
    for word, cell in enumerate(cells):
        if word < lower[cell]:
            assert cdf[cell - 1] * 2**bits <= word
            assert word + 1 <= cdf[cell] * 2**bits
        else:
            open_words += 1
    assert open_words == len({*lower, *upper})


@pytest.mark.parametrize("scale", [0.3, 0.7, 1.3, 3.0])
@pytest.mark.parametrize("bits", [8, 9, 11, 13, 16])
def test_coarse_brackets_hold_the_truth(scale, bits):
    """With so few digits each rounding and the tail beyond the table are of a size that matters."""
    for distribution in (Distribution.laplace(scale), Distribution.gaussian(scale)):
        lower, upper = distribution.brackets(bits)
        for low, f, high in zip(lower, exact_cdf(distribution, len(lower) // 2 - 1), upper, strict=True):
            assert low <= f * 2**bits <= high + 1


@pytest.mark.parametrize("places", range(2, 40, 4))
def test_coarse_exponentials_hold_the_truth(places):
    for x in (Fraction(n, 37) for n in range(150)):
        lower, upper = exp(x, places)
        with localcontext(prec=60):
            truth = Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp()) * 2**places
        assert lower <= truth <= upper


@pytest.mark.parametrize(
    "x", [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), Fraction(1, 2), Fraction(7), Fraction(400)]
)
@pytest.mark.parametrize("places", [192, 384, 600])
def test_exp_is_bracketed_tightly(x, places):
    lower, upper = exp(x, places)
    with localcontext(prec=400):
        truth = Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp()) * 2**places
    assert lower <= truth <= upper
    assert upper - lower < 2**10


def script(monkeypatch, *answers):
    """Entropy that was written down beforehand; `left` is the part that was not read."""
    left = list(answers)

    def entropy(size):
        answer = left.pop(0)
        assert len(answer) == size
        return answer

    monkeypatch.setattr(noise, "_entropy", entropy)
    return left


def digits(word):
    return int(word).to_bytes(8, sys.byteorder), int(word).to_bytes(8, "big")


@pytest.mark.parametrize(
    "distribution", [Distribution.laplace(3.0), Distribution.gaussian(2.0), Distribution.gaussian(0.3)]
)
@pytest.mark.parametrize("k", [-2, -1, 0, 1])
@pytest.mark.parametrize(("step", "more"), [(-1, 0), (1, 1), (0, 0), (0, 1)])
def test_an_ambiguous_word_is_decided_by_the_words_that_follow(monkeypatch, distribution, k, step, more):
    """U agrees with F(k) for 64 bits, then falls below or above it, in the second word or the third."""
    f = exact_cdf(distribution, 20)[k + 21]
    first, second, third = (floor(f * 2**bits) % 2**64 for bits in (64, 128, 192))
    answers = [digits(first)[0], digits(second + step)[1]]
    if step == 0:
        answers.append(digits(third + (1 if more else -1))[1])
    left = script(monkeypatch, *answers)
    assert distribution.draw(1).tolist() == [k + more]
    assert not left


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_the_tails_go_on_beyond_the_table(monkeypatch, word):
    """U is 2^-120 away from 0 or 1: there F has to be computed further out than in the table."""
    distribution = Distribution.laplace(1.0)
    edge = 256 if word == 0 else 2**64 - 256
    left = script(monkeypatch, digits(word)[0], digits(edge)[1])
    (z,) = distribution.draw(1)
    cdf = exact_cdf(distribution, 100)
    u = Fraction(word * 2**64 + edge, 2**128)
    assert cdf[z - 1 + 101] < u < cdf[z + 101]
    assert 80 < abs(z) < 90
    assert not left


def test_only_the_ambiguous_draws_of_a_vector_are_changed(monkeypatch):
    distribution = Distribution.gaussian(5.0)
    lower, *_ = noise._table(distribution)
    middle = len(lower) // 2
    drawn = np.array([2**63, lower[middle + 2], 2**62], dtype=np.uint64)
    script(monkeypatch, drawn.tobytes(), bytes(8))  # zeros follow: U is below F(2)
    a, b, c = distribution.draw(3)
    assert (a, b) == (0, 2)
    assert c < 0


def test_long_vectors_use_the_table_and_short_ones_opendp(monkeypatch):
    monkeypatch.setattr(Distribution, "draw", lambda _, size: np.full(size, 99))
    for draw in (SystemNoise().discrete_laplace, SystemNoise().discrete_gaussian):
        assert set(draw(3.0, MAX_OPENDP_SIZE + 1)) == {99}
        assert set(draw(3.0, 100)) != {99}
        assert set(draw(1e6, MAX_OPENDP_SIZE + 1)) != {99}, "a table of this scale would be too large"


@pytest.mark.parametrize("distribution", [Distribution.laplace(2**19 / 110), Distribution.gaussian(35_340.0)])
def test_the_largest_tables_keep_to_their_bound(distribution):
    assert distribution.fits_table
    lower, upper, _ = noise._table(distribution)
    assert len(lower) <= 2**20
    assert int((upper - lower).max()) <= 1
    noise._table.cache_clear()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), -float("inf"), 2.0**51])
def test_bad_scales_are_refused(scale):
    source = SystemNoise()
    for attempt in (
        lambda: source.discrete_laplace(scale, 3),
        lambda: source.discrete_gaussian(scale, 3),
        lambda: source.choose(np.zeros(3), scale),
    ):
        with pytest.raises(ValueError, match="noise scale must be in"):
            attempt()


@pytest.mark.parametrize("scores", [[], [0.0, float("nan")], [float("inf"), 1.0], [-float("inf"), 1.0], [[1.0]]])
def test_bad_scores_are_refused_without_being_quoted(scores):
    with pytest.raises(ValueError, match=r"finite numbers$"):
        SystemNoise().choose(np.array(scores), 1.0)


def test_choices_of_any_size_and_range():
    source = SystemNoise()
    assert source.choose(np.array([-3.5]), 1.0) == 0
    assert source.choose(np.array([-1e308, 1.7e308, 5e-324]), 1.0) == 1
    assert source.choose(np.r_[np.zeros(5000), 1e9], 1.0) == 5000
    assert 0 <= source.choose(np.zeros(5000), 1e-3) < 5000


@pytest.mark.parametrize("size", [0, 1, MAX_OPENDP_SIZE, MAX_OPENDP_SIZE + 1])
def test_shapes_and_types(size):
    for source in (SystemNoise(), FixedNoise(0)):
        for draw in (source.discrete_laplace, source.discrete_gaussian):
            noise_ = draw(3.0, size)
            assert noise_.dtype == np.int64
            assert noise_.shape == (size,)


def draws():
    source = SystemNoise()
    return (
        source.discrete_laplace(1e6, 50).tolist(),
        source.discrete_gaussian(1000.0, MAX_OPENDP_SIZE + 1).tolist(),
        [source.choose(np.zeros(1000), 1.0) for _ in range(50)],
    )


def test_the_system_source_cannot_be_seeded():
    runs = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002 what a user may do
        random.seed(0)
        runs.append(draws())
    for first, second in zip(*runs, strict=True):
        assert first != second
    with pytest.raises(TypeError):
        SystemNoise(1)


FORK = """
import json, os
import numpy as np
from gapless.privacy.noise import SystemNoise
def draws():
    source = SystemNoise()
    return [source.discrete_laplace(1e6, 50).tolist(), source.discrete_gaussian(1000.0, 10_001).tolist(),
            [source.choose(np.zeros(1000), 1.0) for _ in range(50)]]
draws()  # any state exists before the fork
read, write = os.pipe()
if os.fork() == 0:
    with os.fdopen(write, "w") as file:
        json.dump(draws(), file)
    os._exit(0)
os.close(write)
mine = draws()
with os.fdopen(read) as file:
    print(json.dumps([mine, json.load(file)]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_parent_and_child_of_a_fork_draw_different_noise():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=True)
    for parent, child in zip(*json.loads(done.stdout), strict=True):
        assert parent != child


def test_testing_sources_say_what_they_are_and_go_away():
    assert source_name(current()) == "system"
    for swap in (fixed_noise(3), scaled_noise(0.5), shared_noise(), no_noise()):
        with swap as source:
            assert current() is source
            assert "NOT PRIVATE" in source_name(current())
            seen = []
            thread = threading.Thread(target=lambda seen=seen: seen.append(source_name(current())))
            thread.start()
            thread.join()
            assert seen == ["system"], "another thread keeps the private source"
        assert source_name(current()) == "system"


def test_a_swapped_source_goes_away_after_an_error():
    with pytest.raises(RuntimeError), no_noise():
        raise RuntimeError
    assert source_name(current()) == "system"


def test_fixed_noise_repeats():
    runs = []
    for _ in range(2):
        with fixed_noise(5):
            source = current()
            runs.append(
                (
                    *source.discrete_laplace(9.0, 20),
                    *source.discrete_gaussian(9.0, 20),
                    source.choose(np.arange(9.0), 2.0),
                )
            )
    assert runs[0] == runs[1]


def test_broken_twins_are_broken_as_they_say():
    with no_noise() as source:
        assert not source.discrete_laplace(5.0, 9).any()
        assert not source.discrete_gaussian(5.0, 9).any()
        assert source.choose(np.array([1.0, 3.0, 2.0]), 5.0) == 1
    with shared_noise() as source:
        assert len(set(source.discrete_laplace(1e6, 9))) == 1
        assert len(set(source.discrete_gaussian(1e6, 9))) == 1
    with fixed_noise(1) as plain:
        expected = plain.discrete_gaussian(500.0, 9)
    with fixed_noise(1), scaled_noise(0.5) as half:
        assert half.discrete_gaussian(1000.0, 9).tolist() == expected.tolist()


# ------------------------------------------------------------------ Gaussian noise too wide for a table

WIDE = [40_000.0, 1.3 * 2**20, 6.5 * 2**20, 2.0**50]


def chance(wide, start, z):
    """exp(-E) with 60 digits, by `decimal`."""
    with localcontext(prec=60):
        square = 2 * Decimal(wide.std) ** 2
        wider = 1 + Decimal(1) / 512
        return (-(Decimal(z) ** 2 / square - Decimal(start) ** 2 / (square * wider) + _slack(wide))).exp()


def _slack(wide):
    return Decimal(512) * Decimal(4) ** wide.bits / (8 * Decimal(wide.std) ** 2)


@pytest.mark.parametrize("std", WIDE)
def test_no_proposal_has_a_chance_above_one_and_few_are_thrown_away(std):
    wide = WideGaussian.of(std)
    assert 256 <= std / 2**wide.bits < 512
    width = 2**wide.bits
    for cell in (-9000, -513, -512, -300, -1, 0, 1, 77, 511, 512, 513, 9000):
        for r in (-width // 2, -1, 0, 1, width // 2 - 1):
            assert chance(wide, cell * width, cell * width + r) <= 1
    _, kept = wide._propose(20_000)
    assert kept.mean() > 0.98


@pytest.mark.parametrize("std", WIDE)
def test_wide_noise_is_the_same_whether_floats_or_fractions_decide(std, monkeypatch):
    """The float chance is within a small part of the margin; with the margin at 1 every draw is decided exactly."""
    wide = WideGaussian.of(std)
    entropy = np.random.default_rng(4).bytes(2 * 8 * 300)

    def draws(margin):
        left = bytearray(entropy)
        fresh = np.random.default_rng(5)

        def read(size):
            taken = bytes(left[:size])
            del left[:size]
            return taken + fresh.bytes(size - len(taken))

        monkeypatch.setattr(noise, "_MARGIN", margin)
        monkeypatch.setattr(noise, "_entropy", read)
        return wide._propose(300)

    decided = []
    decide = WideGaussian.decide
    monkeypatch.setattr(WideGaussian, "decide", lambda *given: decided.append(given) or decide(*given))
    by_floats = draws(noise._MARGIN)
    few = len(decided)
    by_fractions = draws(1.0)
    assert np.array_equal(by_floats[0], by_fractions[0])
    assert np.array_equal(by_floats[1], by_fractions[1])
    assert len(decided) - few == 300
    assert few < 3 or std == 2.0**50  # where a word has few digits of U left


@pytest.mark.parametrize(("above", "kept"), [(False, True), (True, False)])
def test_a_wide_draw_at_the_edge_is_decided_by_the_words_that_follow(above, kept, monkeypatch):
    wide = WideGaussian.of(1.3 * 2**20)
    places, start, z = 64 - wide.bits, 3 << wide.bits, (3 << wide.bits) + 100
    true = Fraction(chance(wide, start, z))
    digits = floor(true * 2**places)
    rest = floor(true * 2 ** (places + 128)) - (digits << 128)  # the next 128 digits of the chance itself
    drawn = [(rest >> 64).to_bytes(8), ((rest & (2**64 - 1)) + (5 if above else -5)).to_bytes(8)]
    monkeypatch.setattr(noise, "_entropy", lambda _size: drawn.pop(0))
    assert wide.decide(digits, places, start, z) is kept
    assert not drawn
    monkeypatch.undo()
    assert wide.decide(digits - 1, places, start, z)
    assert not wide.decide(digits + 1, places, start, z)


def test_wide_noise_is_used_where_no_table_fits(monkeypatch):
    asked = []
    draw = WideGaussian.draw
    monkeypatch.setattr(WideGaussian, "draw", lambda wide, size: asked.append(size) or draw(wide, size))
    SystemNoise().discrete_gaussian(35_000.0, 5)
    SystemNoise().discrete_gaussian(36_000.0, 5)
    SystemNoise().discrete_gaussian(36_000.0, MAX_OPENDP_SIZE + 1)
    assert asked == [5, MAX_OPENDP_SIZE + 1]
    assert SystemNoise().discrete_gaussian(2.0**50, 0).shape == (0,)


@pytest.mark.parametrize("std", [40000.0, 65535.9, 3e9])
def test_wide_noise_accepts_each_draw_with_the_probability_of_its_distribution(std, monkeypatch):
    """What is proposed times the chance of keeping it is e^(-z²/2σ²), to the last digit; and no chance is above 1."""
    wide = noise.WideGaussian.of(std)
    width, places = 1 << wide.bits, 64 - wide.bits
    cells = np.repeat([0, 1, -1, 300, -300, 1500, -1500, 2700], 4)
    places_in_cell = np.tile(np.array([0, 1, width // 2, width - 1], dtype=np.uint64), 8)
    monkeypatch.setattr(noise.Distribution, "draw", lambda *_: cells)

    def kept(digits):
        drawn = (digits << np.uint64(wide.bits)) | places_in_cell
        monkeypatch.setattr(noise, "_entropy", lambda size: drawn.tobytes() if size > 8 else bytes(8))
        return wide._propose(len(cells))

    low, high = np.zeros(len(cells), dtype=np.uint64), np.full(len(cells), 1 << places, dtype=np.uint64)
    while (high - low > 1).any():  # kept at low, thrown away at high
        middle = (low + high) // np.uint64(2)
        z, stays = kept(middle)
        low, high = np.where(stays, middle, low), np.where(stays, high, middle)
    with mpmath.workdps(60):
        distribution = wide.cells
        constants = []
        for b, at, cut in zip(cells.tolist(), z.tolist(), high.tolist(), strict=True):
            proposed = (
                mpmath.mpf(distribution.slope.numerator) / distribution.slope.denominator * b**2
            )  # slope 1/2s², bend 1/s²
            energy = mpmath.mpf(at) ** 2 / (2 * mpmath.mpf(std) ** 2) - proposed
            constants.append((energy, cut))
        slack = mpmath.mpf(width) ** 2 / (8 * mpmath.mpf(std) ** 2) * 512
        for energy, cut in constants:
            assert energy + slack >= 0
            assert cut == mpmath.ceil(mpmath.exp(-energy - slack) * 2**places)
    assert distribution.bend == 2 * distribution.slope
    assert -(width // 2) <= (z - cells * width).min() <= (z - cells * width).max() < width // 2
