"""Mixtures of products against brute force: marginals, samples, filling, gradients, fits, gaps, files, refusals."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from gapless.errors import ModelError
from gapless.model import archive
from gapless.model.distribution import CanFill, HasMarginal
from gapless.synth.marginal import mixture_model
from gapless.synth.marginal.mixture_model import MixtureModel, swap_rebalance
from helpers.mixtures import SIZES, joint, random_model


@pytest.mark.parametrize("columns", [(), (0,), (1,), (2, 3), (3, 0), (2, 1, 0), (0, 1, 2, 3)])
def test_marginals_are_those_of_the_enumerated_rows(columns, monkeypatch):
    model = random_model()
    whole = joint(model)
    assert whole.sum() == pytest.approx(1)
    assert model.marginal(columns) == pytest.approx(np.einsum(whole, [0, 1, 2, 3], columns), abs=1e-7)
    monkeypatch.setattr(mixture_model, "_CELLS", 16)  # a few components at a time
    assert model.marginal(columns) == pytest.approx(np.einsum(whole, [0, 1, 2, 3], columns), abs=1e-7)


@pytest.mark.parametrize("columns", [(0, 0), (4,), (-1, 0)])
def test_marginals_of_columns_that_are_not_there(columns):
    with pytest.raises(ModelError, match="no marginal of columns"):
        random_model().marginal(columns)


def test_a_marginal_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(mixture_model, "CAP_CELLS", 11)
    with pytest.raises(ModelError, match=r"columns \(0, 1\) would need 12 cells"):
        random_model().marginal((0, 1))


def test_it_can_do_what_others_can():
    assert isinstance(random_model(), HasMarginal)
    assert isinstance(random_model(), CanFill)


def test_samples_follow_the_enumerated_distribution():
    """The whole joint within multinomial error (false alarm 1e-6), and nearer to single columns than chance."""
    model, rows = random_model(), 60_000
    codes = model.sample(rows, np.random.default_rng(3)).astype(np.int64)
    counts = np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=joint(model).size)
    assert stats.chisquare(counts, joint(model).ravel() * rows).pvalue > 1e-6
    for column, size in enumerate(SIZES):
        off = np.bincount(codes[:, column], minlength=size) - model.marginal((column,)) * rows
        assert np.abs(off).max() <= model.components


def test_small_samples_are_unbiased():
    """With repeated samples of few rows, every component is drawn (false alarm 1e-6 by normal approximation)."""
    model, rows, times = random_model(components=7, seed=1), 3, 1_500
    rng = np.random.default_rng(5)
    seen = np.zeros(SIZES)
    for _ in range(times):
        np.add.at(seen, tuple(model.sample(rows, rng).astype(np.int64).T), 1)
    table = joint(model)
    standard = np.sqrt(table * (1 - table) * rows * times)
    assert (np.abs(seen - table * rows * times) <= 6 * standard + 1e-9).all()


def test_columns_of_a_component_are_not_coupled():
    model = MixtureModel([np.full((3, 2), 0.5), np.full((3, 2), 0.5)])
    codes = model.sample(9_000, np.random.default_rng(0))
    assert (codes[:, 0] == codes[:, 1]).mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows):
    assert random_model().sample(rows, np.random.default_rng(0)).shape == (rows, 4)


def test_filling_is_bayes_by_enumeration():
    """The distribution of the missing cells given the others, within multinomial error (false alarm 1e-6 each)."""
    model, rows = random_model(), 40_000
    whole, rng = joint(model), np.random.default_rng(1)
    for known in ({}, {0: 1}, {1: 2, 3: 0}, {0: 2, 1: 0, 3: 1}):
        given = np.full((rows, 4), -1)
        for column, cell in known.items():
            given[:, column] = cell
        codes = model.fill(given, lambda: rng.random(rows)).astype(np.int64)
        table = whole[tuple(known.get(column, slice(None)) for column in range(4))]
        free = [column for column in range(4) if column not in known]
        counts = np.bincount(np.ravel_multi_index(codes[:, free].T, table.shape), minlength=table.size)
        assert stats.chisquare(counts, (table / table.sum()).ravel() * rows).pvalue > 1e-6
        assert all((codes[:, column] == cell).all() for column, cell in known.items())


def test_a_cell_that_no_component_allows_is_kept_and_ignored():
    sure = np.array([[1.0, 0.0], [1.0, 0.0]])
    model = MixtureModel([sure, np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])])
    given = np.array([[1, 1, -1]] * 50)
    codes = model.fill(given, lambda: np.linspace(0, 0.99, 50))
    assert (codes == [1, 1, 1]).all()


def test_many_columns_do_not_underflow():
    """A hundred cells speak a little for one component, as many then strongly for the other."""
    weak, strong = np.array([[0.11, 0.89], [0.1, 0.9]]), np.array([[0.1, 0.9], [0.2, 0.8]])
    model = MixtureModel([np.eye(2), *[weak] * 100, *[strong] * 100])
    given = np.zeros((50, 201), dtype=np.int64)
    given[:, 0] = -1
    rng = np.random.default_rng(0)
    assert (model.fill(given, lambda: rng.random(50))[:, 0] == 1).all()


def test_files_hold_the_same_model(tmp_path):
    model = random_model()
    archive.save(tmp_path / "one.model", {}, model.to_arrays())
    again = MixtureModel.from_arrays(archive.load(tmp_path / "one.model")[1])
    assert again.sizes == model.sizes
    assert all(
        np.array_equal(first, other) for first, other in zip(again.probabilities, model.probabilities, strict=True)
    )
    assert np.array_equal(again.sample(99, np.random.default_rng(1)), model.sample(99, np.random.default_rng(1)))


@pytest.mark.parametrize(
    "tables", [[np.ones((2, 1)), np.ones((3, 1))], [np.ones(3)], [np.ones((2, 0))], [np.ones((0, 2))]]
)
def test_refuses_probabilities_of_the_wrong_shapes(tables):
    with pytest.raises(ModelError, match="probabilities of a mixture must have shape"):
        MixtureModel(tables)


WIDE_SIZES = (3, 4, 2, 5)


ENDS = np.array([0, 3, 7, 9, 14])
CELLS = [np.eye(size, dtype=np.float32) for size in np.diff(ENDS)]  # one feature for each cell


def drawn(rows=4_000, groups=40, seed=0):
    """Rows of a mixture without any art, their groups, and the counts that are expected."""
    rng = np.random.default_rng(seed)
    tables = [rng.dirichlet(np.full(size, 0.6), groups) for size in WIDE_SIZES]
    which = rng.permutation(np.arange(rows) % groups)
    codes = np.stack([(np.cumsum(table, 1)[which] < rng.random((rows, 1))).sum(axis=1) for table in tables], axis=1)
    whole = np.hstack(tables).astype(np.float32)
    return codes.clip(0, np.array(WIDE_SIZES) - 1).astype(np.uint16), which, whole.T @ whole * np.float32(rows / groups)


def off(codes, target):
    """How far all pairs are from the target, in rows."""
    far = 0.0
    for first, other in combinations(range(len(WIDE_SIZES)), 2):
        counts = np.zeros((WIDE_SIZES[first], WIDE_SIZES[other]))
        np.add.at(counts, (codes[:, first], codes[:, other]), 1)
        far += np.abs(counts - target[ENDS[first] : ENDS[first + 1], ENDS[other] : ENDS[other + 1]]).sum() / 2
    return far


def test_every_group_keeps_its_rows_and_its_cells_of_each_column():
    codes, which, target = drawn()
    before = codes.copy()
    swap_rebalance(codes, which, CELLS, target, ENDS, np.random.default_rng(1))
    assert (codes != before).any()
    for group in range(40):
        is_member = which == group
        assert np.array_equal(np.sort(codes[is_member], axis=0), np.sort(before[is_member], axis=0))


def test_features_count():
    codes, _, _ = drawn(rows=500)
    cells = mixture_model._features_of(codes, CELLS)
    assert cells.sum() == codes.size
    assert (cells.T @ cells)[2, 3] == ((codes[:, 0] == 2) & (codes[:, 1] == 0)).sum()


def test_portions_make_no_difference(monkeypatch):
    codes, which, target = drawn(rows=500)
    again = codes.copy()
    swap_rebalance(codes, which, CELLS, target, ENDS, np.random.default_rng(1))
    monkeypatch.setattr(mixture_model, "_ROWS", 70)
    swap_rebalance(again, which, CELLS, target, ENDS, np.random.default_rng(1))
    assert np.array_equal(codes, again)


def test_pairs_come_near_to_what_the_cells_of_the_groups_allow():
    """Which is their counts as if columns were independent in each group."""
    codes, which, _ = drawn()
    counts = np.zeros((40, ENDS[-1]), dtype=np.float32)
    np.add.at(counts, (which[:, None], ENDS[:-1] + codes), 1)
    within = counts.T @ (counts / 100)
    mixed = codes.copy()
    swap_rebalance(mixed, which, CELLS, within, ENDS, np.random.default_rng(1))
    assert off(mixed, within) < 0.5 * off(codes, within)


def test_row_pairs_are_of_one_group_and_no_row_is_in_two():
    groups = np.array([2, 0, 2, 1, 2, 0, 0, 0])
    first, second = mixture_model._row_pairs(groups)
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
            for first, other in combinations(range(len(sizes)), 2):
                counts = np.zeros((sizes[first], sizes[other]))
                np.add.at(counts, (codes[:, first], codes[:, other]), 1)
                far.append(np.abs(counts / rows - model.marginal((first, other))).sum() / 2)
        return np.mean(far)

    mixed = mean_distance(3)
    monkeypatch.setattr(mixture_model, "MOST", 0)
    assert mixed < 0.9 * mean_distance(3)
