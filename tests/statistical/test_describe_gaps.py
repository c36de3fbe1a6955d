"""What the description of gaps claims about itself: false alarms and power, of the private check and of Little's test.

Counts of rejections are compared with binomial bounds at 1e-6; seeds are fixed.
"""

import numpy as np
import pytest
from scipy import stats

import gapless as gl
from gapless.missing.diagnosis import LEVEL, _largest_noise, check_table
from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.testing.noise import FixedNoise, NoNoise

ALARM = 1e-6
NOISES = {"gaussian": DiscreteGaussian(20.0), "laplace": DiscreteLaplace(15.0)}
CELLS = np.array([900, 700, 500, 400, 300, 150, 40, 10])


def noisy_table(rates, noise, rng, source):
    gaps = rng.binomial(CELLS, rates)
    counts = np.stack([CELLS - gaps, gaps])
    return noise(counts, source).astype(float)


def p_values(rates, noise, runs, seed, *, source=None, believed=None, tables=1):
    rng = np.random.default_rng(seed)
    source = source or FixedNoise(seed)
    return np.array(
        [
            check_table(noisy_table(rates, noise, rng, source), believed or noise, rng, tables=tables)[0]
            for _ in range(runs)
        ]
    )


def ordinary(*pairs):
    """Every kind of noise with every value, of which the ordinary run takes these pairs."""
    values = sorted({value for _, value in pairs})
    return [
        (name, value) if (name, value) in pairs else pytest.param(name, value, marks=pytest.mark.slow)
        for name in NOISES
        for value in values
    ]


@pytest.mark.parametrize(
    ("name", "rate"), ordinary(("gaussian", 0.02), ("gaussian", 0.3), ("laplace", 0.0), ("laplace", 1.0))
)
def test_no_more_false_alarms_than_promised(name, rate):
    """At 5 % and at 1 %, up to a fifth more for the estimated distribution: counts within the 1e-6 bound."""
    found = p_values(rate, NOISES[name], 600, seed=1)
    for level in (0.05, 0.01):
        assert (found <= level).sum() <= stats.binom.isf(ALARM, 600, 1.2 * level)


def test_p_values_are_about_uniform():
    found = p_values(0.3, NOISES["gaussian"], 600, seed=2)
    assert stats.kstest(found, "uniform").pvalue > ALARM


def test_a_check_that_forgets_the_noise_is_caught():
    """Planted: noise of std 20 that the check takes for 2."""
    found = p_values(0.3, NOISES["gaussian"], 200, seed=3, believed=DiscreteGaussian(2.0))
    assert (found <= 0.05).sum() > stats.binom.isf(ALARM, 200, 0.06)


@pytest.mark.parametrize(("name", "tables"), ordinary(("gaussian", 1), ("laplace", 20)))
def test_a_detectable_association_is_found_four_times_in_five(name, tables):
    """Within 55 % and 95 %, allowing for estimation error; an effect of half that size is found far less often."""
    noise, rng = NOISES[name], np.random.default_rng(4)
    source = FixedNoise(4)
    reach = [check_table(noisy_table(0.3, noise, rng, source), noise, rng, tables=tables)[2] for _ in range(20)]
    association = float(np.median(reach))
    assert association < 1
    signs = np.array([1, -1, -1, 1, 1, -1, 1, -1])  # over all cells
    signs = signs - (signs * CELLS).sum() / CELLS.sum()
    signs /= np.sqrt((signs**2 * CELLS).sum() / CELLS.sum())

    def power(size):
        rates = np.clip(0.3 + size * np.sqrt(0.21) * signs, 0, 1)
        found = p_values(rates, noise, 200, seed=5, tables=tables)
        return (found * tables <= LEVEL).mean()

    assert 0.55 < power(association) < 0.95
    assert power(association / 2) < 0.45


def test_patterns_that_no_row_has_are_not_listed():
    """The largest of 4096 noises is beyond the bound in 5 % of 400 runs at the most, beyond 0.7 of it far oftener."""
    for noise in NOISES.values():
        bound = _largest_noise(noise, 4096, LEVEL)
        source = FixedNoise(6)
        largest = np.array([noise(np.zeros(4096, dtype=np.int64), source).max() for _ in range(400)])
        assert (largest > bound).sum() <= stats.binom.isf(ALARM, 400, LEVEL)
        assert (largest > 0.7 * bound).sum() > stats.binom.isf(ALARM, 400, LEVEL)


def test_without_noise_the_check_is_the_test_of_independence():
    rng = np.random.default_rng(7)
    found = []
    for _ in range(200):
        counts = noisy_table(0.3, DiscreteGaussian(1e-9 + 0.01), rng, NoNoise())[:, :6]
        p_value, _, _ = check_table(counts, DiscreteGaussian(0.01), rng, tables=1)
        found.append(p_value - stats.chi2_contingency(counts, correction=False).pvalue)
    assert np.abs(found).max() < 0.1  # 999 simulations
    assert abs(np.mean(found)) < 0.02


# ------------------------------------------------------------------ Little's test

SCHEMA = gl.Schema(
    "t",
    [gl.Integer("a", bounds=(0, 9)), gl.Categorical("b", ["x", "y", "z"]), gl.Number("d", bounds=(0, 1))],
)


def table(seed, rows=600):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 10, rows)
    b = np.minimum(2, (a + rng.integers(0, 5, rows)) // 5)
    return gl.Table(SCHEMA, [a, b, (a + 3 * b + rng.integers(0, 3, rows)) % 10], rows=rows)


def test_little_is_about_uniform_if_gaps_are_completely_at_random():
    rates = {"a": 0.2, "b": 0.3, "d": 0.1}
    for columns in ("independent", "dependent"):  # which columns are missing together does not matter
        gapped = (gl.MCAR(rates, columns=columns).apply(table(seed), seed=seed) for seed in range(80))
        found = [gl.missing.little_test(gapped_table).p_value for gapped_table in gapped]
        assert stats.kstest(found, "uniform").pvalue > ALARM


def test_little_rejects_gaps_that_depend_on_what_is_observed():
    found = [gl.missing.little_test(gl.MAR({"b": 0.3, "d": 0.1}).apply(table(s), seed=s)).p_value for s in range(20)]
    assert max(found) < 1e-3
