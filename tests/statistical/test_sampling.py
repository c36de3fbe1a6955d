"""The distribution of sampled rows, on a model small enough to write out in full.

Every check states a false alarm of at most 1e-6 and must reject the same check with a planted bug.
"""

import numpy as np
import pytest
from scipy import stats

from gapless.model import sampling
from gapless.model.graphical import GraphicalModel

ALARM = 1e-6
SIZES = (2, 3, 3, 2, 2)  # 1 and 2 both hang on 0; 3 hangs on the loop 1-2-3; 4 on 3


def wave(*shape):
    return np.sin(3 + 2.3 * np.arange(np.prod(shape))).reshape(shape)


@pytest.fixture(scope="module")
def model():
    pairs = {(0, 1): 2.0, (0, 2): 1.5, (3, 4): 1.0}
    return GraphicalModel(SIZES, {(a, b): k * wave(SIZES[a], SIZES[b]) for (a, b), k in pairs.items()}, 1.0)


@pytest.fixture(scope="module")
def looped():
    pairs = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4)]
    return GraphicalModel(SIZES, {(a, b): 1.5 * wave(SIZES[a], SIZES[b]) for a, b in pairs}, 1.0)


def joint_of(model):
    return model.marginal(range(len(SIZES))).ravel()


def histogram(rows):
    return np.bincount(np.ravel_multi_index(tuple(rows.astype(int).T), SIZES), minlength=np.prod(SIZES))


def chi_square(counts, expected):
    """The distance of counts from what is expected, rare cells taken together, and its degrees of freedom."""
    rare = expected < 20
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    return ((counts - expected) ** 2 / expected).sum(), len(expected) - 1


def unbiased(model, rows, repeats, seed):
    """Is every cell's mean count what the model says? Normal test of each mean, Bonferroni over the cells."""
    rng = np.random.default_rng(seed)
    counts = np.array([histogram(model.sample(rows, rng)) for _ in range(repeats)])
    expected = rows * joint_of(model)
    common = expected * repeats > 100  # where the normal approximation of a mean is good
    error = np.maximum(counts.std(axis=0, ddof=1), 1e-9)[common] / repeats**0.5
    z = np.abs(counts.mean(axis=0) - expected)[common] / error
    return z.max() <= stats.norm.isf(ALARM / 2 / common.sum())


def within_multinomial(model, rows, seed):
    """Is the sample at most as far from the model as independent rows may be? Chi-square, upper tail only."""
    expected = rows * joint_of(model)
    counts = histogram(model.sample(rows, np.random.default_rng(seed)))
    distance, freedom = chi_square(counts, expected)
    return distance <= stats.chi2.isf(ALARM, freedom)


def sorted_within_groups(probabilities, groups, rng):
    """The bug of two other tools: rows of a group take the cells in order, so siblings become comonotone."""
    sizes = np.bincount(groups, minlength=len(probabilities))
    chosen = np.empty(len(groups), dtype=np.int64)
    for group in np.flatnonzero(sizes):
        shares = probabilities[group] / probabilities[group].sum()
        chosen[groups == group] = np.sort(rng.choice(len(shares), sizes[group], p=shares))
    return chosen


def unnormalised(probabilities, groups, rng):
    """Joint instead of conditional probabilities: what is left over falls into the last cell."""
    levels = np.cumsum(probabilities, axis=1)[groups]
    return np.minimum((levels <= rng.random((len(groups), 1))).sum(axis=1), probabilities.shape[1] - 1)


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_expected_counts_are_exact(model, looped, rows):
    repeats = 3000 // rows + 1500
    assert unbiased(model, rows, repeats, seed=rows)
    assert unbiased(looped, rows, repeats, seed=rows)


def test_samples_are_within_multinomial_variation(model, looped):
    for rows in (2_000, 50_000):
        assert within_multinomial(model, rows, seed=1)
        assert within_multinomial(looped, rows, seed=2)


@pytest.mark.parametrize("bug", [sorted_within_groups, unnormalised])
def test_planted_bugs_are_caught(model, monkeypatch, bug):
    monkeypatch.setattr(sampling, "systematic_by_group", bug)
    assert not within_multinomial(model, 2_000, seed=1)
    assert not unbiased(model, 60, 1600, seed=1)


def test_siblings_are_independent_given_their_parent(model):
    rows = model.sample(40_000, np.random.default_rng(5)).astype(int)
    for level in range(SIZES[0]):
        group = rows[rows[:, 0] == level]
        table = np.bincount(group[:, 1] * 3 + group[:, 2], minlength=9).reshape(3, 3)
        assert stats.chi2_contingency(table).pvalue > ALARM


def test_rounding_is_closer_to_the_model_than_chance():
    uniform = GraphicalModel((4, 5), {}, 1.0)
    counts = np.bincount(uniform.sample(1000, np.random.default_rng(0))[:, 0], minlength=4)
    assert counts.tolist() == [250] * 4


def conditional_fits(model, shares, seed):
    """Chi-square of the free columns for a row pattern that is given many times, within one mixed call."""
    patterns = [{}, {4: 1}, {1: 2, 2: 0}, {0: 1, 3: 0}, {3: 1, 1: 0, 2: 2}, {0: 0, 4: 0}]
    many = 20_000
    known = np.full((many * len(patterns), len(SIZES)), -1)
    for number, pattern in enumerate(patterns):
        for column, code in pattern.items():
            known[number :: len(patterns), column] = code
    rng = np.random.default_rng(seed)
    rows = model.fill(known, lambda: rng.random(len(known)))
    assert ((known < 0) | (rows == known)).all()
    joint = shares.reshape(SIZES)
    for number, pattern in enumerate(patterns):
        allowed = np.zeros(SIZES)
        allowed[tuple(pattern.get(column, slice(None)) for column in range(len(SIZES)))] = 1
        expected = (many * joint * allowed / (joint * allowed).sum()).ravel()
        counts = histogram(rows[number :: len(patterns)])
        possible = expected > 0
        assert counts[~possible].sum() == 0
        distance, freedom = chi_square(counts[possible], expected[possible])
        if not stats.chi2.isf(1 - ALARM / 12, freedom) <= distance <= stats.chi2.isf(ALARM / 12, freedom):
            return False
    return True


def test_conditional_rows_follow_the_conditional_distribution(model, looped):
    assert conditional_fits(model, joint_of(model), seed=3)
    assert conditional_fits(looped, joint_of(looped), seed=4)


def forgets_messages(evidence, place, send=sampling._ConditionalSampler._send):
    send(evidence, place)
    evidence.messages[place][:] = 1.0


def test_conditional_check_has_power(looped, monkeypatch):
    tilted = joint_of(looped) * np.linspace(1, 1.25, np.prod(SIZES))
    assert not conditional_fits(looped, tilted / tilted.sum(), seed=4)
    monkeypatch.setattr(sampling._ConditionalSampler, "_send", forgets_messages)  # what is known below is not heard
    assert not conditional_fits(looped, joint_of(looped), seed=4)


def test_conditional_sampling_in_small_portions(looped, monkeypatch):
    monkeypatch.setattr(sampling, "_CELLS", 8)
    rng = np.random.default_rng(6)
    rows = looped.sample(300, rng)
    known = np.where(rng.random(rows.shape) < 0.5, rows.astype(int), -1)
    filled = looped.fill(known, lambda: rng.random(300))
    assert ((known < 0) | (filled == known)).all()
