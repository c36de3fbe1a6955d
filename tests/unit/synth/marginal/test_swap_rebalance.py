"""Balanced rows: what swaps keep, and how near to the model's tables they come."""

from itertools import combinations

import numpy as np
import pytest

from gapless.synth.marginal import mixture_model as module
from gapless.synth.marginal.mixture_model import MixtureModel, balance

SIZES = (3, 4, 2, 5)
ENDS = np.array([0, 3, 7, 9, 14])


def drawn(rows=4_000, groups=40, seed=0):
    """Rows of a mixture without any art, their groups, and the counts that are expected."""
    rng = np.random.default_rng(seed)
    laws = [rng.dirichlet(np.full(size, 0.6), groups) for size in SIZES]
    which = rng.permutation(np.arange(rows) % groups)
    codes = np.stack([(np.cumsum(law, 1)[which] < rng.random((rows, 1))).sum(axis=1) for law in laws], axis=1)
    whole = np.hstack(laws).astype(np.float32)
    return codes.clip(0, np.array(SIZES) - 1).astype(np.uint16), which, whole.T @ whole * np.float32(rows / groups)


def off(codes, target):
    """How far all pairs are from the target, in rows."""
    far = 0.0
    for one, other in combinations(range(len(SIZES)), 2):
        counts = np.zeros((SIZES[one], SIZES[other]))
        np.add.at(counts, (codes[:, one], codes[:, other]), 1)
        far += np.abs(counts - target[ENDS[one] : ENDS[one + 1], ENDS[other] : ENDS[other + 1]]).sum() / 2
    return far


def test_every_group_keeps_its_rows_and_its_cells_of_each_column():
    codes, which, target = drawn()
    before = codes.copy()
    balance(codes, which, target, ENDS, np.random.default_rng(1))
    assert (codes != before).any()
    for group in range(40):
        inside = which == group
        assert np.array_equal(np.sort(codes[inside], axis=0), np.sort(before[inside], axis=0))


def test_indicators_count():
    codes, _, _ = drawn(rows=500)
    cells = module._indicators(codes, ENDS)
    assert cells.sum() == codes.size
    assert (cells.T @ cells)[2, 3] == ((codes[:, 0] == 2) & (codes[:, 1] == 0)).sum()


def test_portions_make_no_difference(monkeypatch):
    codes, which, target = drawn(rows=500)
    again = codes.copy()
    balance(codes, which, target, ENDS, np.random.default_rng(1))
    monkeypatch.setattr(module, "_ROWS", 70)
    balance(again, which, target, ENDS, np.random.default_rng(1))
    assert np.array_equal(codes, again)


def test_pairs_come_near_to_what_the_cells_of_the_groups_allow():
    """Which is their counts as if columns were independent in each group."""
    codes, which, _ = drawn()
    counts = np.zeros((40, ENDS[-1]), dtype=np.float32)
    np.add.at(counts, (which[:, None], ENDS[:-1] + codes), 1)
    within = counts.T @ (counts / 100)
    mixed = codes.copy()
    balance(mixed, which, within, ENDS, np.random.default_rng(1))
    assert off(mixed, within) < 0.5 * off(codes, within)


def test_couples_are_of_one_group_and_no_row_is_in_two():
    groups = np.array([2, 0, 2, 1, 2, 0, 0, 0])
    first, second = module._couples(groups)
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 2), (1, 5), (6, 7)]


@pytest.mark.parametrize("sizes", [(2, 2), (3, 4, 2, 3), (5,) * 8])
@pytest.mark.parametrize(("components", "rows"), [(5, 400), (20, 400), (1_000, 4_000)])
def test_samples_are_nearer_to_the_model_than_without(sizes, components, rows, monkeypatch):
    """Also where columns, components or rows are few, on average over some samples."""
    rng = np.random.default_rng(0)
    model = MixtureModel([rng.dirichlet(np.full(size, 0.6), components) for size in sizes])

    def mean_distance(seed):
        rng, far = np.random.default_rng(seed), []
        for _ in range(40 if rows < 4_000 else 8):
            codes = model.sample(rows, rng).astype(np.int64)
            for one, other in combinations(range(len(sizes)), 2):
                counts = np.zeros((sizes[one], sizes[other]))
                np.add.at(counts, (codes[:, one], codes[:, other]), 1)
                far.append(np.abs(counts / rows - model.marginal((one, other))).sum() / 2)
        return np.mean(far)

    mixed = mean_distance(3)
    monkeypatch.setattr(module, "MOST", 0)
    assert mixed < 0.9 * mean_distance(3)
