"""Bayesian networks against brute force: probabilities, marginals, samples, noisy tables, files, refusals."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from gapless.errors import ModelError
from gapless.synth.marginal import bayesian_network as module
from gapless.synth.marginal.bayesian_network import (
    BayesianNetwork,
    JointStartNetwork,
    Node,
    conditional,
    fit_tables,
    joint_start_size,
)

SIZES = (3, 4, 2, 3)
WHOLE = [np.arange(size) for size in SIZES]
HALVES = np.array([0, 0, 1, 1])  # column 1 with its cells merged two by two
NODES = [
    Node(1),
    Node(3, (1,), (HALVES,)),
    Node(0, (1, 3), (WHOLE[1], WHOLE[3])),
    Node(2, (1, 0), (HALVES, WHOLE[0])),
]


def conditionals(seed=0, nodes=NODES):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.full(SIZES[node.column], 0.7), node.shape) for node in nodes]


def joint(network):
    """The probability of every row, one by one."""
    table = np.zeros(network.sizes)
    for row in product(*map(range, network.sizes)):
        table[row] = 1.0
        for node, given_parents in zip(network.nodes, network.probabilities, strict=True):
            given = tuple(codes[row[parent]] for parent, codes in zip(node.parents, node.merged, strict=True))
            table[row] *= given_parents[(*given, row[node.column])]
    return table


@pytest.fixture
def network():
    return BayesianNetwork(SIZES, NODES, conditionals())


@pytest.mark.parametrize("columns", [(), (0,), (1,), (2, 3), (3, 0), (2, 1, 0), (0, 1, 2, 3)])
def test_marginals_are_those_of_the_enumerated_rows(network, columns):
    whole = joint(network)
    assert whole.sum() == pytest.approx(1)
    assert network.marginal(columns) == pytest.approx(np.einsum(whole, [0, 1, 2, 3], columns))


def test_marginals_with_impossible_cells():
    zeros = [np.where(table > table.max() / 2, table, 0.0) for table in conditionals(1)]
    network = BayesianNetwork(SIZES, NODES, [table / table.sum(axis=-1, keepdims=True) for table in zeros])
    assert network.marginal((2, 0, 3)) == pytest.approx(np.einsum(joint(network), [0, 1, 2, 3], [2, 0, 3]))


def test_samples_follow_the_enumerated_distribution(network):
    """The whole joint within multinomial error (false alarm 1e-6), and nearer to single columns than chance."""
    rows = 60_000
    codes = network.sample(rows, np.random.default_rng(3)).astype(np.int64)
    counts = np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=joint(network).size)
    expected = joint(network).ravel() * rows
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    first = np.bincount(codes[:, 1], minlength=4)
    assert np.abs(first - network.marginal((1,)) * rows).max() < 1


def test_children_of_one_parent_are_not_coupled():
    """Each column gets exact shares within a parent's rows; dealt out in the same order, they would be equal."""
    half = np.full((1, 2), 0.5)
    first = np.zeros(1, dtype=np.int64)
    nodes = [Node(0), Node(1, (0,), (first,)), Node(2, (0,), (first,))]
    network = BayesianNetwork((1, 2, 2), nodes, [np.ones(1), half, half])
    codes = network.sample(10_000, np.random.default_rng(0))
    assert (codes[:, 1] == codes[:, 2]).mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(network, rows):
    assert network.sample(rows, np.random.default_rng(0)).shape == (rows, 4)


def test_arrays_make_the_same_network(network):
    arrays = network.to_arrays()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    again = BayesianNetwork.from_arrays(arrays)
    assert np.array_equal(again.sample(99, np.random.default_rng(1)), network.sample(99, np.random.default_rng(1)))
    assert np.array_equal(again.marginal((2, 3)), network.marginal((2, 3)))


def test_a_marginal_that_is_too_large_is_refused(network, monkeypatch):
    monkeypatch.setattr(module, "CAP_CELLS", 10)
    with pytest.raises(ModelError, match=r"marginal of columns \(0, 2\) would need .* cells"):
        network.marginal((0, 2))


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (NODES[:3], "one node for each column"),
        ([*NODES[:3], NODES[2]], "one node for each column"),
        ([NODES[1], NODES[0], *NODES[2:]], "needs parents that come before"),
        ([NODES[0], Node(3, (1,), (HALVES[:3],)), *NODES[2:]], "needs parents that come before"),
    ],
)
def test_refuses_invalid_networks(nodes, text):
    with pytest.raises(ModelError, match=text):
        BayesianNetwork(SIZES, nodes, conditionals(nodes=nodes))


def test_refuses_probabilities_of_the_wrong_shape():
    with pytest.raises(ModelError, match=r"got parents .* and shape \(4, 3\)"):
        BayesianNetwork(SIZES, NODES, [conditionals()[0], np.full((4, 3), 1 / 3), *conditionals()[2:]])


def counted(network, rows, noise=0.0, seed=0):
    """What a measurement of every node's table would say."""
    rng = np.random.default_rng(seed)
    tables = []
    for node in network.nodes:
        axes = network.marginal((*node.parents, node.column))
        for axis, codes in enumerate(node.merged):
            axes = np.stack([axes.compress(codes == cell, axis).sum(axis) for cell in range(codes.max() + 1)], axis)
        tables.append(axes * rows + rng.normal(0, noise, axes.shape))
    return tables


@pytest.mark.parametrize("cap_cells", [10_000, 60, 1])
def test_exact_counts_give_the_tables_back_for_any_cap(network, cap_cells):
    counts = counted(network, 1e6)
    tables = fit_tables(SIZES, NODES, counts, [0.01] * len(NODES), total=1e6, cap_cells=cap_cells).tables
    for table, count in zip(tables, counts, strict=True):
        assert table == pytest.approx(count / 1e6, abs=1e-4)


def test_tables_of_different_rows_keep_their_distributions(network):
    counts = [table * (number + 1) for number, table in enumerate(counted(network, 1e6))]
    tables = fit_tables(SIZES, NODES, counts, [0.01] * len(NODES), total=None, cap_cells=10_000).tables
    for table, count in zip(tables, counts, strict=True):
        assert table == pytest.approx(count / count.sum(), abs=1e-4)


def test_fitting_together_is_nearer_to_the_truth(network):
    def error(cap_cells, seed):
        counts = counted(network, 2000, noise=40.0, seed=seed)
        tables = fit_tables(SIZES, NODES, counts, [40.0] * len(NODES), total=2000.0, cap_cells=cap_cells).tables
        assert all((table >= 0).all() for table in tables)
        truth = counted(network, 1.0)
        return sum(np.abs(table - true).sum() for table, true in zip(tables, truth, strict=True))

    together, apart = (np.mean([error(cap, seed) for seed in range(20)]) for cap in (10_000, 1))
    assert together < apart


@pytest.mark.parametrize("cap_cells", [10_000, 1])
def test_separate_pairs_reduce_the_error(network, cap_cells):
    """Ten times better known than the tables around them: those come nearer to the truth, wherever they are fitted."""
    place, family = next((place, node) for place, node in enumerate(NODES) if len(node.parents) > 1)
    pairs = [
        Node(family.column, (parent,), (codes,)) for parent, codes in zip(family.parents, family.merged, strict=True)
    ]
    nodes, noise = [*NODES, *pairs], [60.0] * len(NODES) + [6.0] * len(pairs)
    whole = counted(network, 2000.0)
    axes = range(len(family.parents))
    whole += [whole[place].sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]

    def off(known):
        errors = []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            counts = [table + rng.normal(0, std, table.shape) for table, std in zip(whole, noise, strict=True)]
            found = fit_tables(
                SIZES, nodes[:known], counts[:known], noise[:known], total=2000.0, cap_cells=cap_cells
            ).tables
            assert len(found) == len(NODES)
            errors.append(np.abs(found[place] - whole[place] / 2000).sum())
        return np.mean(errors)

    assert off(len(nodes)) < 0.8 * off(len(NODES))


def test_a_slice_without_rows_has_the_marginal_distribution():
    table = conditional(np.array([[[2.0, 6.0], [0.0, 0.0]], [[0.0, 0.0], [6.0, 2.0]]]))
    assert table.tolist() == [[[0.25, 0.75], [0.5, 0.5]], [[0.5, 0.5], [0.75, 0.25]]]
    assert conditional(np.zeros((2, 4))).tolist() == np.full((2, 4), 0.25).tolist()


def test_rows_keep_a_table_whose_parents_no_other_table_holds():
    """A column given two that go together: a network draws these by themselves, one model of all tables does not."""
    sizes, both = (2, 2, 2), (np.arange(2), np.arange(2))
    nodes = [Node(0), Node(1), Node(2, (0, 1), both)]
    table = np.array([[[300.0, 100.0], [50.0, 50.0]], [[50.0, 50.0], [100.0, 300.0]]])
    counts = [table.sum(axis=(1, 2)), table.sum(axis=(0, 2)), table]
    tables, start = fit_tables(sizes, nodes, counts, [0.1] * 3, total=1000.0, cap_cells=100, follow_noise=True)
    network = BayesianNetwork(sizes, nodes, map(conditional, tables))

    def error(model):
        drawn = np.histogramdd(model.sample(1000, np.random.default_rng(1)), bins=[[-0.5, 0.5, 1.5]] * 3)[0]
        return np.abs(drawn - table).max()

    assert error(network) > 50
    joint = JointStartNetwork(network, start, 3)
    assert error(joint) <= 2
    np.testing.assert_allclose(joint.marginal([2, 0, 1]), table.transpose(2, 0, 1) / 1000, atol=1e-3)
    again = BayesianNetwork.from_arrays(joint.to_arrays())
    assert (again.sample(100, np.random.default_rng(2)) == joint.sample(100, np.random.default_rng(2))).all()


def test_the_joint_start_is_as_long_as_the_cap_allows():
    found = [joint_start_size(SIZES, NODES, cap) for cap in range(1, 200)]
    assert found == sorted(found)
    assert {found[0], found[-1]} == {0, 4} < set(found)
