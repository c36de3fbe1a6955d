"""The distributions of the noise, for all three samplers.

Each test computes p-values and demands more than LEVEL = 1e-7. They are asymptotic (chi-square with at least
25 expected per cell, rank correlations of at least 10,000 draws); the factor of ten up to the promised false
alarm rate of 1e-6 per test covers their error. The very same computation must reject planted bugs: noise
scaled by 0.8 and by 1.25, shared or repeated noise, permute-and-flip in place of the exponential mechanism.
"""

import numpy as np
import pytest
from scipy import stats

from gapless.privacy.noise import MAX_OPENDP_SIZE, SystemNoise
from gapless.testing.noise import FixedNoise, ScaledNoise, SharedNoise

LEVEL = 1e-7
WRONG = [0.8, 1.25]
SIZES = {"opendp": MAX_OPENDP_SIZE, "table": 200_000}
POWER = {"laplace": 1, "gaussian": 2}

every_kind = pytest.mark.parametrize("kind", POWER)
every_size = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


def draw(source, kind, scale, size):
    return getattr(source, f"discrete_{kind}")(scale, size)


def goodness_of_fit(observed, expected):
    """P-value of chi-square after neighbouring cells have been pooled to at least 25 expected."""
    pooled, o, e = [], 0.0, 0.0
    for seen, awaited in zip(observed, expected, strict=True):
        o, e = o + seen, e + awaited
        if e >= 25:
            pooled.append((o, e))
            o, e = 0.0, 0.0
    pooled[-1] = (pooled[-1][0] + o, pooled[-1][1] + e)
    seen, awaited = np.array(pooled).T
    return stats.chi2.sf(((seen - awaited) ** 2 / awaited).sum(), len(pooled) - 1)


def p_distribution(source, kind, scale, size):
    reach = int(40 * scale) + 2
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-((np.abs(z) / scale) ** POWER[kind]) / POWER[kind])
    seen = np.bincount(np.clip(draw(source, kind, scale, size), -reach, reach) + reach, minlength=len(z))
    return goodness_of_fit(seen, size * weight / weight.sum())


@every_kind
@every_size
@pytest.mark.parametrize("scale", [0.3, 3.0, 10.0, 1000.0])
def test_noise_has_its_distribution(kind, size, scale):
    assert p_distribution(SystemNoise(), kind, scale, size) > LEVEL
    for factor in WRONG:
        assert p_distribution(ScaledNoise(factor, SystemNoise()), kind, scale, size) < LEVEL


def p_wide(source, std, size):
    """Chi-square in cells a quarter of a standard deviation wide, and of the last bits, which must be even."""
    drawn = source.discrete_gaussian(std, size)
    edges = np.arange(-5, 5.25, 0.25)
    expected = size * np.diff(stats.norm.cdf(np.r_[-np.inf, edges, np.inf]))
    seen = np.bincount(np.searchsorted(edges, drawn / std), minlength=len(expected))
    last = np.bincount(drawn & 31, minlength=32)
    return min(goodness_of_fit(seen, expected), goodness_of_fit(last, np.full(32, size / 32)))


@pytest.mark.parametrize("std", [40_000.0, 1.3 * 2**20, 2.0**43])
@pytest.mark.parametrize("size", [9_000, 200_000])
def test_wide_noise_has_its_distribution(std, size):
    """A discrete Gaussian as wide as this is a rounded normal to all that a test can see."""
    assert p_wide(SystemNoise(), std, size) > LEVEL
    for factor in WRONG:
        assert p_wide(ScaledNoise(factor, SystemNoise()), std, size) < LEVEL


def test_wide_noise_of_coarse_cells_alone_is_caught():
    """Planted: the beginning of a cell in place of an even place in it."""

    class Coarse:
        def discrete_gaussian(self, std, size):
            return SystemNoise().discrete_gaussian(std, size) // 4096 * 4096

    assert p_wide(Coarse(), 1.3 * 2**20, 200_000) < LEVEL


def test_wide_cells_are_independent():
    assert p_independent(draw(SystemNoise(), "gaussian", 2.0**20, 200_000)) > LEVEL
    assert p_independent(np.repeat(draw(SystemNoise(), "gaussian", 2.0**20, 100_000), 2)) < LEVEL


@every_kind
@pytest.mark.parametrize("scale", [0.3, 10.0, 2000.0])
def test_noise_of_the_fixed_source_has_its_distribution(kind, scale):
    assert p_distribution(FixedNoise(1), kind, scale, MAX_OPENDP_SIZE) > LEVEL
    for factor in WRONG:
        assert p_distribution(ScaledNoise(factor, FixedNoise(1)), kind, scale, MAX_OPENDP_SIZE) < LEVEL


def p_same(first, second):
    """P-value of a chi-square test that two samples have one distribution, in 20 cells of their common quantiles."""
    edges = np.unique(np.quantile(np.r_[first, second], np.linspace(0, 1, 21)[1:-1]))
    cells = [np.searchsorted(edges, sample) for sample in (first, second)]
    counts = np.array([np.bincount(cell, minlength=len(edges) + 1) for cell in cells])
    return stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0], correction=False).pvalue


@every_kind
@pytest.mark.parametrize("scale", [1.0, 10.0, 1000.0])
def test_table_and_opendp_agree(kind, scale):
    opendp = draw(SystemNoise(), kind, scale, SIZES["opendp"])
    assert p_same(opendp, draw(SystemNoise(), kind, scale, SIZES["table"])) > LEVEL
    for factor in WRONG:
        assert p_same(opendp, draw(SystemNoise(), kind, factor * scale, SIZES["table"])) < LEVEL


def p_independent(noise):
    """P-value for rank correlations of cells 1 to 8 apart, of values and magnitudes (Bonferroni over 16)."""
    worst = 0.0
    for values in (noise, np.abs(noise)):
        ranks = stats.rankdata(values)
        ranks = (ranks - ranks.mean()) / (ranks.std() or 1.0)
        for lag in range(1, 9):
            worst = max(worst, abs((ranks[lag:] * ranks[:-lag]).sum()) / np.sqrt(len(noise) - lag))
    return min(1.0, 16 * 2 * stats.norm.sf(worst))


@every_kind
@every_size
def test_cells_are_independent(kind, size):
    def noise():
        return draw(SystemNoise(), kind, 20.0, size)

    assert p_independent(noise()) > LEVEL
    assert p_independent(np.repeat(noise(), 2)[:size]) < LEVEL, "each draw used twice"
    sign = np.where(np.arange(size) % 2, 1, -1)
    assert p_independent(np.repeat(noise(), 2)[:size] * sign) < LEVEL, "magnitudes used twice"


@every_kind
def test_calls_are_independent(kind):
    """200 calls of 100 cells: what one call adds to all of its cells shows as a correlation of neighbours."""

    def noise(source):
        return np.concatenate([draw(source, kind, 20.0, 100) for _ in range(200)])

    assert p_independent(noise(SystemNoise())) > LEVEL
    assert p_independent(noise(SharedNoise(SystemNoise()))) < LEVEL


CANDIDATES = {2: np.array([0.0, 3.0]), 5: np.array([1.0, 0.0, 4.5, 2.0, 3.0]), 50: np.linspace(-4.0, 6.0, 50)}
PICKS = 7_000  # noise of the wrong scale is missed with probability 1e-7 at the most


def p_choice(pick, scores, scale):
    seen = np.bincount([pick(scores, scale) for _ in range(PICKS)], minlength=len(scores))
    weight = np.exp(scores / scale)
    return goodness_of_fit(seen, PICKS * weight / weight.sum())


@pytest.mark.parametrize("scores", CANDIDATES.values(), ids=CANDIDATES)
def test_choice_is_the_exponential_mechanism(scores):
    assert p_choice(SystemNoise().choose, scores, 2.0) > LEVEL
    for factor in WRONG:
        assert p_choice(ScaledNoise(factor, SystemNoise()).choose, scores, 2.0) < LEVEL


def test_choice_is_not_permute_and_flip():
    """OpenDP has another distribution under pure differential privacy; the test above would notice."""
    from opendp import domains, measurements, measures, metrics

    space = domains.vector_domain(domains.atom_domain(T="f64", nan=False)), metrics.linf_distance(T="f64")
    flip = measurements.make_noisy_max(*space, measures.max_divergence(), 2.0)
    assert p_choice(lambda scores, _: flip(scores), CANDIDATES[5], 2.0) < LEVEL


def test_choice_of_the_fixed_source():
    assert p_choice(FixedNoise(2).choose, CANDIDATES[5], 2.0) > LEVEL
