from itertools import combinations

import numpy as np
import pytest

from gapless.errors import ModelError
from gapless.model.graphical import GraphicalModel
from gapless.model.junction import JunctionTree, cells, junction_tree
from gapless.model.marginal import Measurement, estimate_total, multiply, project_to_simplex, reconcile


def wave(*shape):
    """A table of positive numbers that looks like nothing in particular."""
    return 2 + np.cos(1 + 1.7 * np.arange(np.prod(shape, dtype=int))).reshape(shape)


def measured(columns, counts, noise_std=1.0):
    return Measurement(tuple(columns), np.asarray(counts, dtype=float), noise_std)


@pytest.mark.parametrize("marginals", [
    [], [(0,)], [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1, 2), (1, 2), (2, 3, 4)], [(0, 4), (1, 3)],
    list(combinations(range(5), 2)), [(0, 1, 2, 3, 4)],
])  # fmt: skip
def test_every_column_fills_a_connected_part_of_the_tree(marginals):
    sizes = (2, 3, 1, 4, 5)
    tree = junction_tree(sizes, marginals)
    assert all(tree.home(marginal) is not None for marginal in marginals)
    assert set().union(*tree.bags) == set(range(5))
    for place, (bag, parent) in enumerate(zip(tree.bags, tree.parents, strict=True)):
        assert parent < place
        before = set().union(*tree.bags[:place])
        assert set(tree.link(place)) == before & set(bag)
        if place:
            assert set(tree.link(place)) <= set(tree.bags[parent])
            assert list(tree.link(place)) == [column for column in tree.bags[parent] if column in bag]
    assert not any(set(a) <= set(b) for a in tree.bags for b in tree.bags if a is not b)
    assert tree.cells == cells(sizes, marginals)
    assert junction_tree(sizes, reversed(marginals)) == tree


def test_a_tree_of_pairs_costs_its_pairs():
    assert cells((2, 3, 4, 5), [(0, 1), (1, 2), (1, 3)]) == 6 + 12 + 15


def test_elimination_prefers_small_tables_to_few_edges():
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert cells((100, 2, 100, 2), ring) == 2 * (2 * 100 * 2)


def test_no_columns_at_all():
    assert junction_tree((), []) == JunctionTree((), (), (), ())
    model = GraphicalModel.fit((), [measured((), 7.0)])
    assert model.total == 7
    assert model.marginal([]) == 1
    assert model.sample(3, np.random.default_rng(0)).shape == (3, 0)


def test_project_to_simplex():
    table = project_to_simplex(np.array([[5.0, -1.0], [2.0, 0.0]]), 4.0)
    assert table.tolist() == [[3.5, 0.0], [0.5, 0.0]]
    assert project_to_simplex(np.array([1.0, 1.0]), 6.0).tolist() == [3.0, 3.0]


def test_estimate_total_trusts_the_precise():
    both = [measured((0,), [60.0, 40.0], 1.0), measured((1,), [55.0, 55.0], 3.0)]
    assert estimate_total(both) == pytest.approx((100 * 9 + 110) / 10)
    assert estimate_total([]) == 0


@pytest.mark.parametrize("shape", [(1, 20_000, 3), (40, 900, 50), (600, 5, 700), (2, 0, 3), (0, 4, 2)])
def test_multiply_in_portions(shape):
    rows, inner, columns = shape
    left, right = wave(2, rows, inner), wave(2, inner, columns)
    np.testing.assert_allclose(multiply(left, right), left @ right)


def test_reconcile_is_the_least_squares_answer():
    sizes, total = (2, 3, 2), 60.0
    given = [
        measured((0, 1), 10 * wave(2, 3), 2.0),
        measured((2, 1), 9 * wave(2, 3)[::-1], 0.7),
        measured((1,), 20 * wave(3), 1.5),
        measured((0, 1), 11 * wave(2, 3), 1.0),
    ]
    codes = np.indices(sizes).reshape(3, -1)
    rows, goal = [], []
    for each in given:
        shape = [sizes[column] for column in each.columns]
        cell = np.ravel_multi_index([codes[column] for column in each.columns], shape)
        rows.append(np.eye(each.counts.size)[:, cell] / each.noise_std)
        goal.append(each.counts.ravel() / each.noise_std)
    rows, goal = np.vstack(rows), np.concatenate(goal)
    free = np.linalg.svd(np.ones((1, 12)))[2][1:]  # directions that keep the total
    even = np.full(12, total / 12)
    joint = even + free.T @ np.linalg.lstsq(rows @ free.T, goal - rows @ even, rcond=None)[0]
    joint = joint.reshape(sizes)
    found = reconcile(sizes, given, total)
    assert set(found) == {(0, 1), (1, 2), (1,)}
    np.testing.assert_allclose(found[0, 1][0], joint.sum(axis=2))
    np.testing.assert_allclose(found[1, 2][0], joint.sum(axis=0))
    np.testing.assert_allclose(found[1,][0], joint.sum(axis=(0, 2)))
    assert found[0, 1][1] == pytest.approx((1 / 4 + 1) ** -0.5)


def test_exact_marginals_of_a_tree_come_back_exactly():
    joint = wave(2, 3, 4)
    ab, bc = joint.sum(axis=2), joint.sum(axis=0)
    model = GraphicalModel.fit((2, 3, 4), [measured((0, 1), ab, 0), measured((2, 1), bc.T, 0)])
    np.testing.assert_allclose(model.total * model.marginal([0, 1]), ab, rtol=1e-6)
    np.testing.assert_allclose(model.total * model.marginal([1, 2]), bc, rtol=1e-6)
    expected = ab[:, :, None] * bc[None] / ab.sum(axis=0)[None, :, None] / joint.sum()
    np.testing.assert_allclose(model.marginal([0, 1, 2]), expected, rtol=1e-6)
    np.testing.assert_allclose(model.marginal([2, 0]), expected.sum(axis=1).T, rtol=1e-6)


def test_nothing_measured_is_uniform():
    model = GraphicalModel.fit((2, 4), [], total=10)
    assert model.marginal([1, 0]).tolist() == [[0.125] * 2] * 4


@pytest.mark.parametrize("total", [0.0, -50.0, None])
def test_a_total_below_one_row_counts_as_one(total):
    counts = [-3.0, 0.0, 2.0]
    model = GraphicalModel.fit((3, 2), [measured((0,), counts, 5.0), measured((0, 1), -wave(3, 2), 5.0)], total=total)
    assert model.total == 1
    assert np.isfinite(model.marginal([0, 1])).all()
    assert model.marginal([0, 1]).sum() == pytest.approx(1)


def test_warm_start_keeps_what_is_known_and_adds_the_rest():
    sizes = (2, 3, 4)
    joint = 1000 * wave(*sizes)
    pairs = [measured(pair, joint.sum(axis=3 - sum(pair)), 0.1) for pair in combinations(range(3), 2)]
    first = GraphicalModel.fit(sizes, pairs[:2])
    warm = GraphicalModel.fit(sizes, pairs, start=first, sweeps=30)
    cold = GraphicalModel.fit(sizes, pairs, sweeps=30)
    np.testing.assert_allclose(warm.marginal([0, 1, 2]), cold.marginal([0, 1, 2]), atol=1e-5)
    idle = GraphicalModel.fit(sizes, pairs[:2], start=first, sweeps=0)
    np.testing.assert_allclose(idle.marginal([0, 1, 2]), first.marginal([0, 1, 2]), atol=1e-12)


def test_forbidden_cells_have_no_probability():
    forbidden = np.array([[True, False, False], [False, True, True]])
    counts = 100 * wave(2, 3)
    for polish in (0, 50):
        model = GraphicalModel.fit(
            (2, 3, 2),
            [measured((0, 1), counts), measured((1, 2), 100 * wave(3, 2))],
            zeros=[((0, 1), forbidden), ((2, 0), np.array([[False, True], [False, False]]))],
            polish=polish,
        )
        joint = model.marginal([0, 1, 2])
        assert (joint[forbidden] == 0).all()
        assert (joint[1, :, 0] == 0).all()
        assert joint.sum() == pytest.approx(1)
        again = GraphicalModel.fit((2, 3, 2), [measured((0, 1), counts)], start=model)
        assert (again.marginal([0, 1]) > 0).all()  # the new fit has no constraint


def test_contradicting_constraints_are_refused():
    left = np.array([True, False])
    with pytest.raises(ModelError, match=r"leave no possible row\n  Try: check the constraints"):
        GraphicalModel.fit((2,), [measured((0,), [3.0, 4.0])], zeros=[((0,), left), ((0,), ~left)])


def test_save_and_load():
    model = GraphicalModel.fit((2, 3), [measured((1, 0), 50 * wave(3, 2))], zeros=[((0,), np.array([False, True]))])
    arrays = model.to_arrays()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    copy = GraphicalModel.from_arrays(arrays)
    assert (copy.total, copy.sizes) == (model.total, model.sizes)
    assert (copy.marginal([0, 1]) == model.marginal([0, 1])).all()
    rows = [each.sample(50, np.random.default_rng(3)) for each in (model, copy)]
    assert (rows[0] == rows[1]).all()


def test_marginals_far_apart():
    sizes = (2, 3, 2, 3, 2, 2)
    chain = {(i, i + 1): np.log(wave(sizes[i], sizes[i + 1])) for i in range(5)}
    model = GraphicalModel(sizes, chain, 1.0)
    joint = model.marginal(range(6))
    pairs = [(5, 0), (0, 5), (1, 4), (2, 3), (3,), (0, 2, 5), ()]
    for columns, table in zip(pairs, model.marginals(pairs), strict=True):
        order = np.argsort(np.argsort(columns))
        summed = joint.sum(axis=tuple(column for column in range(6) if column not in columns))
        np.testing.assert_allclose(table, summed.transpose(order), atol=1e-15)


def test_extreme_potentials_stay_finite():
    opposed = {(0, 1): np.array([[0.0, -900.0], [-900.0, 0.0]]), (1, 2): np.array([[-900.0, -900.0], [0.0, 0.0]])}
    model = GraphicalModel((2, 2, 2), opposed, 1.0)
    np.testing.assert_allclose(model.marginal([0]), [0, 1], atol=1e-12)
    np.testing.assert_allclose(model.marginal([0, 2]), [[0, 0], [0.5, 0.5]], atol=1e-12)


def test_errors_say_what_to_do():
    big = [measured(pair, np.ones((30, 30))) for pair in combinations(range(4), 2)]
    with pytest.raises(ModelError, match=r"tree of 810,000 cells; the cap is 1,000\n  Try: .*columns \[0, 1, 2, 3\]"):
        GraphicalModel.fit((30,) * 4, big, cap_cells=1000)
    with pytest.raises(ModelError, match=r"shape \(3,\) does not fit columns \(0,\)"):
        GraphicalModel.fit((2,), [measured((0,), [1, 2, 3])])
    with pytest.raises(ModelError, match=r"does not fit columns \(5,\)"):
        GraphicalModel.fit((2,), [measured((5,), [1, 2])])
    with pytest.raises(ModelError, match="without levels"):
        GraphicalModel.fit((2, 0), [])
    with pytest.raises(ModelError, match="cannot have counts of shape"):
        measured((0, 0), np.ones((2, 2)))
    with pytest.raises(ModelError, match="not finite"):
        measured((0,), [np.nan, 1.0])
    model = GraphicalModel((10,) * 8, {(i, i + 1): np.zeros((10, 10)) for i in range(7)}, 1.0)
    with pytest.raises(ModelError, match=r"needs a table of .* cells; the cap is 1,000"):
        model.marginal(range(8), cap_cells=1000)
    for wrong in ([0, 0], [8], [-1]):
        with pytest.raises(ModelError, match="different numbers from 0 to 7"):
            model.marginal(wrong)
    rng = np.random.default_rng(0)
    with pytest.raises(ModelError, match="not a level"):
        model.sample(2, rng, given={0: [3, 10]})
    with pytest.raises(ModelError, match=r"shape \(3,\) for column 0 do not fit 2 rows"):
        model.sample(2, rng, given={0: [1, 1, 1]})


def test_progress_is_told():
    calls = []
    uneven = [Measurement((0, 1), np.array([[9.0, 1.0], [1.0, 9.0]]), 1e-3)]
    GraphicalModel.fit((2, 2), uneven, sweeps=3, step=1e-3, progress=lambda done, of: calls.append((done, of)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def near_deterministic(noise_std):
    """Three columns of which two decide the third, nearly: pairs with many empty cells, as of calendars."""
    month, day = np.divmod(np.arange(12 * 30), 30)
    joint = np.zeros((12, 10, 10))
    np.add.at(joint, (month, day // 3, np.minimum(9, (month * 30 + day) // 36)), 1000.0)
    pairs = [(0, 1), (0, 2), (1, 2)]
    rng = np.random.default_rng(1)
    tables = [joint.sum(axis=3 - one - other) for one, other in pairs]
    measured = [
        Measurement(pair, table + rng.normal(0, noise_std, table.shape), noise_std)
        for pair, table in zip(pairs, tables, strict=True)
    ]
    return joint, pairs, tables, measured


@pytest.mark.parametrize("noise_std", [300.0, 30.0, 3.0])
def test_the_fit_goes_on_until_noise_explains_what_is_left(noise_std):
    """A dozen sweeps, whatever the noise, would leave every one of these distances above 0.006."""
    joint, pairs, tables, measured = near_deterministic(noise_std)
    model = GraphicalModel.fit(joint.shape, measured, total=joint.sum())
    off = [
        0.5 * np.abs(law - table / joint.sum()).sum() for law, table in zip(model.marginals(pairs), tables, strict=True)
    ]
    noise = 0.5 * np.sqrt(2 / np.pi) * 120 * noise_std / joint.sum()
    assert np.mean(off) < max(noise, 1e-4)


def test_the_fit_ends_early_where_noise_explains_all():
    """Counts as independent as the model begins with: going on would only follow the noise."""
    rng, calls = np.random.default_rng(2), []
    table = 100.0 + rng.normal(0, 30, (6, 6))
    GraphicalModel.fit((6, 6), [Measurement((0, 1), table, 30.0)], progress=lambda done, of: calls.append((done, of)))
    assert calls == [(1, 200)]


def test_a_fit_that_its_cap_stops_tells_what_it_did_not_reach():
    joint, _, _, measured = near_deterministic(3.0)
    stopped = GraphicalModel.fit(joint.shape, measured, total=joint.sum(), sweeps=2)
    assert set(stopped.unexplained) == {(0, 1), (0, 2), (1, 2)}
    alone = GraphicalModel.fit(joint.shape, measured[:1], total=joint.sum())
    assert alone.unexplained == ()


def test_sampling_edge_cases():
    model = GraphicalModel((2, 1, 3), {(0, 2): np.log(wave(2, 3))}, 1.0)
    rng = np.random.default_rng(0)
    assert model.sample(0, rng).shape == (0, 3)
    assert model.sample(0, rng, given={0: []}).shape == (0, 3)
    assert model.sample(1, rng).shape == (1, 3)
    assert model.sample(4, rng, given={0: [-1] * 4, 2: [0, 1, 2, -1]})[:3, 2].tolist() == [0, 1, 2]
    assert model.sample(9, np.random.default_rng(1)).tolist() == model.sample(9, np.random.default_rng(1)).tolist()


def test_impossible_evidence_is_kept():
    never = {(0, 1): np.where(np.eye(2), 0.0, -np.inf), (1, 2): np.zeros((2, 2))}
    rows = GraphicalModel((2, 2, 2), never, 1.0).sample(2, np.random.default_rng(0), given={0: [0, 1], 1: [1, 1]})
    assert rows[:, :2].tolist() == [[0, 1], [1, 1]]
