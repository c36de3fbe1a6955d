"""Rows of a mixture are balanced, and still a draw from it: no table of two or more columns is off on average."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from gapless.synth.marginal import mixture_model as module
from gapless.synth.marginal.mixture_model import MixtureModel

SIZES, COMPONENTS, ROWS, TIMES = (3, 4, 2, 3), 20, 400, 1_500


def model_of(seed=0):
    rng = np.random.default_rng(seed)
    return MixtureModel([rng.dirichlet(np.full(size, 0.6), COMPONENTS) for size in SIZES])


def many_samples(model):
    """The counts of all cells in each of many samples."""
    rng, every = np.random.default_rng(1), np.zeros((TIMES, *SIZES))
    for counts in every:
        np.add.at(counts, tuple(model.sample(ROWS, rng).astype(np.int64).T), 1)
    return every


def worst(model, every, order):
    """The least p-value, over sets of columns and their cells, of the mean count of the samples (Bonferroni)."""
    least, tests = 1.0, 0
    for columns in combinations(range(len(SIZES)), order):
        others = tuple(1 + column for column in range(len(SIZES)) if column not in columns)
        counts = every.sum(axis=others)
        off = counts.mean(axis=0) - ROWS * model.marginal(columns)
        standard = off / np.maximum(counts.std(axis=0) / np.sqrt(TIMES), 1e-9)
        least, tests = min(least, float(2 * stats.norm.sf(np.abs(standard)).min())), tests + standard.size
    return least * tests


def test_tables_keep_their_expectation():
    """False alarm 1e-3 for each number of columns; the seed is fixed."""
    model = model_of()
    every = many_samples(model)
    for order in (2, 3, 4):
        assert worst(model, every, order) > 1e-3


def test_the_check_finds_a_draw_that_is_drawn_elsewhere(monkeypatch):
    """Planted: the target of the swaps is moved a twentieth of the way to another model."""
    other, plain = np.hstack(model_of(seed=9).probabilities), module.swap_rebalance

    def elsewhere(codes, groups, features, target, ends, rng):
        wrong = other.T @ other * np.float32(ROWS / COMPONENTS)
        plain(codes, groups, features, np.float32(0.95) * target + np.float32(0.05) * wrong, ends, rng)

    monkeypatch.setattr(module, "swap_rebalance", elsewhere)
    model = model_of()
    every = many_samples(model)
    for order in (2, 3):
        assert worst(model, every, order) < 1e-6


def test_more_columns_are_no_less_even():
    """Tables of three columns, which nothing aims at, are nearer to the model's too."""
    model, rng = model_of(), np.random.default_rng(2)

    def far():
        counts = np.zeros(SIZES)
        np.add.at(counts, tuple(model.sample(ROWS, rng).astype(np.int64).T), 1)
        return np.abs(counts.sum(axis=3) / ROWS - model.marginal((0, 1, 2))).sum() / 2

    mixed = np.mean([far() for _ in range(200)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", 0)
        assert mixed < 0.9 * np.mean([far() for _ in range(200)])
