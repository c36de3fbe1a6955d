"""Intervals hold the answer without noise as often as they say, however few rows there are.

Each test fails for correct intervals with probability at most 1e-6 (exact binomial tail), and must fail for noise of
twice the declared scale.
"""

import math

import numpy as np
import pytest
from scipy import stats

from gapless import Budget, Integer, Median, Quantile, Schema
from gapless.privacy import L1, ChoiceByGroup, LinfByGroup, for_counts
from gapless.query import parse_question
from gapless.query.answers import Noise, _limit, _steps
from gapless.testing.audit import private
from gapless.testing.noise import FixedNoise, ScaledNoise, fixed_noise

ALPHA = 1e-6
TRIALS = 500
SCHEMA = Schema("people", [Integer("x", bounds=(0, 20), bins=21), Integer("g", bounds=(0, 1))])
BUDGETS = {"pure": Budget(0.5, 0), "normal": Budget(0.5, 1e-6)}
TEXTS = ["count() where x >= 5", "sum(x)", "proportion(x >= 5)", "mean(x)", "variance(x)"]


def missed(text, budget, rows, source, seed):
    """How many of the intervals miss the answer without noise."""
    asked = parse_question(text).compile(SCHEMA)
    xs = np.random.default_rng(seed).binomial(20, 0.3, rows)
    sums = asked.contribution.total({"x": xs, "g": xs % 2})
    mechanism = for_counts(budget.capacity, L1(asked.contribution.unit))
    noise = Noise.of(mechanism, asked.contribution.unit)
    truth = asked.estimand.estimate(sums / asked.contribution.unit)
    outside = 0
    for _ in range(TRIALS):
        (estimate,) = asked.estimates(mechanism(sums, source), asked.contribution.unit, noise)
        low, high = estimate.interval
        outside += not low - 1e-9 <= truth <= high + 1e-9
    return outside


def too_often(outside):
    """Whether this many of the trials can hardly be chance at 5 %."""
    return stats.binom.sf(outside - 1, TRIALS, 0.05) < ALPHA


@pytest.mark.parametrize("rows", [2, 30, 2000])
@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("text", TEXTS)
def test_intervals_cover(text, kind, rows):
    assert not too_often(missed(text, BUDGETS[kind], rows, FixedNoise(rows), rows))


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("text", TEXTS[:4])
def test_noise_that_is_larger_than_declared_is_noticed(text, kind):
    """The intervals of variances are wide on purpose: too wide to notice a factor of two."""
    assert too_often(missed(text, BUDGETS[kind], 2000, ScaledNoise(2.0, FixedNoise(1)), 1))


@pytest.mark.parametrize("kind", BUDGETS)
def test_intervals_of_counts_and_means_are_not_wider_than_needed(kind):
    for text in ("count() where x >= 5", "mean(x)"):
        outside = missed(text, BUDGETS[kind], 2000, FixedNoise(3), 3)
        assert stats.binom.cdf(outside, TRIALS, 0.035) > ALPHA  # not covering far more often than 95 %


WIDE = Schema("people", [Integer("x", bounds=(0, 999)), Integer("g", bounds=(0, 1))])
TABLES = {
    "no rows": [],
    "one row": [0],
    "all at the lowest": [0] * 40,  # all other values are wrong for the lower end: the bound is nearly attained
    "all at the highest": [999] * 3,
    "spread": [(37 * i) % 1000 for i in range(500)],
    "two heaps": [10] * 50 + [990] * 50,
}


def missed_quantiles(table, q, budget, source):
    """Count the intervals that miss the quantile under every rule for ties, and those that miss its rank."""
    xs = np.array(table)
    question = Quantile("x", q)
    treatment = question.treatment(question.compile(WIDE), filled=False)
    ends, centre = (
        ChoiceByGroup.for_loss(budget.capacity * share, LinfByGroup(treatment.distance)) for share in (0.25, 0.5)
    )
    beyond = math.ceil(treatment.rank_error(ends, 0.025))
    counts = np.bincount(xs.astype(int), minlength=1000)
    truth = [value for value, away in enumerate(away_from(counts, q * len(xs))) if away == 0]
    unit = treatment.quantile.denominator
    scores = [
        np.rint(-unit * away_from(counts, q * len(xs) + shift)).astype(np.int64) for shift in (-beyond, 0, beyond)
    ]
    outside = wrong = 0
    for _ in range(TRIALS):
        low, middle, high = (
            choice(s[None, :], source)[0] for choice, s in zip((ends, centre, ends), scores, strict=True)
        )
        outside += truth[0] < low or truth[-1] > high
        wrong += -scores[1][middle] / unit > treatment.rank_error(centre, 0.05)
    return outside, wrong


def away_from(counts, rank):
    up_to = np.cumsum(counts)
    too_high, too_low = up_to - counts - rank, rank - up_to
    too_high[0] = too_low[-1] = 0
    return np.maximum(np.maximum(too_high, too_low), 0)


@pytest.mark.parametrize("q", [0.5, 0.05, 0.9])
@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("table", TABLES)
def test_intervals_of_quantiles_cover(table, kind, q):
    outside, wrong = missed_quantiles(TABLES[table], q, BUDGETS[kind], FixedNoise(4))
    assert not too_often(outside)
    assert not too_often(wrong)


def test_choices_that_are_less_sharp_than_declared_are_noticed():
    outside, _ = missed_quantiles(TABLES["all at the lowest"], 0.5, BUDGETS["pure"], ScaledNoise(2.0, FixedNoise(1)))
    assert too_often(outside)


def test_a_released_quantile_and_its_interval_are_those_of_the_gate(tmp_path):
    """End to end: read a table, ask, check the answer. In each group the interval covers the median of its rows."""
    rng = np.random.default_rng(2)
    xs = np.minimum(rng.exponential(60, 4000).astype(int), 999)
    rows = [(str(x), str(i % 2)) for i, x in enumerate(xs)]
    outside = 0
    for seed in range(60):
        table = private(rows, WIDE, tmp_path, budget=Budget(1.0, 0))
        with fixed_noise(seed):
            answer = table.ask(Median("x", by="g"), spend=table.ledger.left)
        for group in (0, 1):
            truth = np.median(xs[group::2])
            low, high = answer.interval[str(group)]
            outside += not low <= truth <= high
            assert high - low < 20
            assert abs(answer.estimate[str(group)] - truth) < 5
    assert stats.binom.sf(outside - 1, 120, 0.05) > ALPHA


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.5, 0.5), (0.8, 0.2), (0.5, 0.4999)])
@pytest.mark.parametrize("laplace", [True, False])
def test_limits_are_quantiles_of_weighted_noise(weights, laplace):
    rng = np.random.default_rng(5)
    draws = rng.laplace(size=(2, 200_000)) if laplace else rng.normal(size=(2, 200_000))
    beyond = np.abs(weights[0] * draws[0] + weights[1] * draws[1]) > _limit(laplace, *weights, 0.05)
    outside = int(beyond.sum())
    assert ALPHA < stats.binom.cdf(outside, 200_000, 0.05) < 1 - ALPHA


@pytest.mark.parametrize("scale", [0.01, 0.4, 3.0, 70.0, 2000.0])
@pytest.mark.parametrize("laplace", [True, False])
def test_limits_of_discrete_noise_are_the_least(laplace, scale):
    k = np.arange(1, int(40 * scale) + 50)
    mass = np.exp(-k / scale) if laplace else np.exp(-((k / scale) ** 2) / 2)
    whole = 1 + 2 * mass.sum()
    t = _steps(laplace, scale, 0.05)
    assert 2 * mass[t:].sum() / whole <= 0.05
    if t and (laplace or scale < 1000):
        assert 2 * mass[t - 1 :].sum() / whole > 0.05
