"""Completion of gaps: against an EM written with dictionaries, and on populations whose truth is known."""

import itertools

import numpy as np
import pytest

from gapless.model.completion import EM_STEPS, _rake_to_margins, complete_model, complete_table, james_stein
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Measurement


def distance(left, right):
    return 0.5 * float(np.abs(left - right).sum())


# ------------------------------------------------------------------ one table, cell by cell


def plain_em(table, sizes, steps):
    """The same iteration, one row pattern at a time: nothing but dictionaries of cells."""
    rows = {cell: max(0.0, float(count)) for cell, count in np.ndenumerate(table)}
    levels = list(itertools.product(*(range(size) for size in sizes)))
    total = sum(rows.values())
    joint = {level: rows[level] + max(1e-9 * total, 1e-300) / len(levels) for level in levels}
    if all(size == many for size, many in zip(sizes, table.shape, strict=True)):
        steps = 0
    for _ in range(steps + 1):
        mass = sum(joint.values())
        joint = {level: weight / mass for level, weight in joint.items()}
        if _ == steps:
            return joint
        filled = dict.fromkeys(levels, 0.0)
        for cell, count in rows.items():
            fitting = [
                level
                for level in levels
                if all(c >= size or c == here for c, here, size in zip(cell, level, sizes, strict=True))
            ]
            mass = sum(joint[level] for level in fitting)
            for level in fitting:
                filled[level] += count * joint[level] / max(mass, 1e-300)
        joint = filled
    raise AssertionError


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((3,), (2,)),
        ((5,), (3,)),  # two gap states
        ((4,), (4,)),  # none
        ((1,), (1,)),
        ((3, 3), (2, 2)),
        ((4, 2), (2, 2)),
        ((2, 5), (1, 3)),
        ((3, 4), (3, 4)),
        ((3, 3, 3), (2, 2, 2)),
        ((4, 3, 2), (2, 2, 2)),
        ((2, 4, 3), (2, 3, 1)),
    ],
)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("steps", [0, 1, 7, EM_STEPS])
def test_complete_table_is_plain_em(shape, sizes, seed, steps):
    """Noisy counts too: negative ones count as none."""
    rng = np.random.default_rng(seed)
    table = rng.poisson(5, shape) + (rng.normal(0, 4, shape) if seed % 2 else 0.0)
    table[rng.random(shape) < 0.2] = 0
    joint = complete_table(table, sizes, steps)
    plain = plain_em(table, sizes, steps)
    assert joint.shape == sizes
    np.testing.assert_allclose(joint, np.array([plain[c] for c in np.ndindex(*sizes)]).reshape(sizes), atol=1e-12)


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 2)])
def test_without_gaps_it_is_the_table_itself(shape):
    table = np.random.default_rng(0).poisson(20, shape) + 1.0
    np.testing.assert_allclose(complete_table(table, shape), table / table.sum(), atol=1e-8)
    padded = np.zeros([n + 1 for n in shape])  # gap states that nobody is in
    padded[tuple(slice(n) for n in shape)] = table
    np.testing.assert_allclose(complete_table(padded, shape), table / table.sum(), atol=1e-12)


def test_one_column_leaves_its_gaps_out():
    """With nothing else to go by, completion is what dropping the gaps gives."""
    assert complete_table(np.array([30.0, 10.0, 7.0, 3.0]), [2]) == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("table", [np.zeros(3), np.zeros((3, 3)), -np.ones((2, 3, 3))])
def test_no_rows_give_an_even_distribution(table):
    sizes = [n - 1 for n in table.shape]
    np.testing.assert_allclose(complete_table(table, sizes), np.full(sizes, 1 / np.prod(sizes)))


def test_a_column_that_is_missing_throughout_comes_out_even_and_harms_no_other():
    table = np.zeros((4, 3))
    table[:3, 2] = [50, 30, 20]
    joint = complete_table(table, [3, 2])
    np.testing.assert_allclose(joint, np.outer([0.5, 0.3, 0.2], [0.5, 0.5]), atol=1e-9)
    assert complete_table(table[:, :2] * 0 + np.array([[0.0], [0], [0], [9.0]]), [3, 1]).sum() == pytest.approx(1)


def random_joint(seed, sizes):
    return np.random.default_rng(seed).dirichlet(np.full(np.prod(sizes), 0.8)).reshape(sizes)


def with_gaps(joint, rates):
    """The exact table of a population in which cell (pattern | x) is missing with public chance.

    `rates[c]` says, as a table that broadcasts over all columns, how likely column c is missing; the columns are
    missing independently of each other given the row.
    """
    sizes = joint.shape
    table = np.zeros([n + 1 for n in sizes])
    chances = [np.broadcast_to(rate, sizes) for rate in rates]
    for gaps in itertools.product((False, True), repeat=joint.ndim):
        weight = joint.copy()
        for chance, gap in zip(chances, gaps, strict=True):
            weight = weight * (chance if gap else 1 - chance)
        gone = tuple(axis for axis, gap in enumerate(gaps) if gap)
        place = tuple(slice(n, None) if gap else slice(n) for n, gap in zip(sizes, gaps, strict=True))
        table[place] = weight.sum(axis=gone, keepdims=True)
    return table


def dropped(table, sizes):
    whole = table[tuple(slice(n) for n in sizes)]
    return whole / whole.sum()


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (3, 2, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_gaps_completely_at_random_leave_no_bias(sizes, seed):
    joint = random_joint(seed, sizes)
    rates = np.random.default_rng(seed).uniform(0.05, 0.5, len(sizes))
    table = 1e4 * with_gaps(joint, rates)
    np.testing.assert_allclose(table.sum(), 1e4)
    assert distance(complete_table(table, sizes, 2000), joint) < 1e-6
    assert distance(dropped(table, sizes), joint) < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_gaps_that_depend_on_another_column_of_the_marginal_are_repaired(seed):
    """Missing at random: A says how often B is missing. Dropping the gaps is biased, completion is not."""
    joint = random_joint(seed, (3, 4))
    table = 1e4 * with_gaps(joint, [np.array(0.0), np.array([[0.05], [0.4], [0.8]])])
    assert distance(complete_table(table, joint.shape), joint) < 1e-9
    assert distance(dropped(table, joint.shape), joint) > 0.02


@pytest.mark.parametrize("seed", range(3))
def test_gaps_in_two_columns_that_depend_on_a_third(seed):
    """Neither complete rows nor one-column patterns suffice; the rates go with C, which is always observed."""
    joint = random_joint(seed, (2, 2, 3))
    chance = np.array([0.1, 0.4, 0.7])
    table = 1e4 * with_gaps(joint, [chance, 0.8 * chance, np.array(0.0)])
    assert distance(complete_table(table, joint.shape, 5000), joint) < 1e-4
    assert distance(complete_table(table, joint.shape), joint) < 0.01  # so much do the fixed steps leave
    assert distance(dropped(table, joint.shape), joint) > 0.02


def test_bias_that_no_table_can_repair():
    """Missing not at random: high values hide themselves. Completion takes the observed for all, as documented."""
    joint = np.array([0.5, 0.5])
    table = with_gaps(joint, [np.array([0.0, 0.8])])
    assert complete_table(table, [2]) == pytest.approx([0.5 / 0.6, 0.1 / 0.6])


def test_not_applicable_is_a_level_and_gets_no_more_than_its_share():
    """Column 1 is (x, y, n/a, gap): rows whose cell is n/a stay there, and a gap is filled in the observed shares.

    Where the other column says that nothing but n/a ever occurs, gaps become n/a; elsewhere none do.
    """
    table = np.array([[40.0, 40.0, 0.0, 20.0], [0.0, 0.0, 70.0, 30.0]])
    joint = complete_table(table, [2, 3]) * 200
    np.testing.assert_allclose(joint, [[50, 50, 0], [0, 0, 100]], atol=1e-6)


def test_more_gap_states_of_one_column_count_like_one():
    table = np.random.default_rng(0).poisson(9, (3, 5)).astype(float)
    together = np.concatenate([table[:, :3], table[:, 3:].sum(axis=1, keepdims=True)], axis=1)
    np.testing.assert_allclose(complete_table(table, [2, 3]), complete_table(together, [2, 3]), atol=1e-12)


def test_each_step_raises_the_likelihood_of_what_was_observed():
    rng = np.random.default_rng(3)
    table = rng.poisson(6, (3, 4, 3)).astype(float)
    sizes = (2, 3, 2)

    def log_likelihood(joint):
        value = 0.0
        for cell, count in np.ndenumerate(table):
            mass = joint[tuple(slice(None) if c >= n else c for c, n in zip(cell, sizes, strict=True))].sum()
            value += count * np.log(mass)
        return value

    path = [log_likelihood(complete_table(table, sizes, steps)) for steps in range(12)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(path))
    assert path[-1] > path[0]


# ------------------------------------------------------------------ whole models


def summed(table, columns):
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in columns))


def chain(missing=(0.1, 0.7)):
    """A → B → C; A says how often B is missing. The distribution of complete rows, and the table with gaps."""
    joint = np.einsum("a,ab,bc->abc", [0.6, 0.4], [[0.8, 0.2], [0.1, 0.9]], [[0.7, 0.3], [0.2, 0.8]])
    table = np.zeros((2, 3, 2))
    table[:, :2] = joint * (1 - np.array(missing))[:, None, None]
    table[:, 2] = (joint * np.array(missing)[:, None, None]).sum(axis=1)
    return joint, table


TREE = [(0,), (1,), (2,), (0, 1), (1, 2)]


def gapped_model(table, marginals, total=1e6):
    measured = [Measurement(columns, total * summed(table, columns), 1.0) for columns in marginals]
    return GraphicalModel.fit(table.shape, measured, total=total)


def completed(table, sizes, marginals):
    return complete_model(gapped_model(table, marginals), sizes, dict.fromkeys(marginals, 1.0), cap_cells=10**6)


def test_a_chain_whose_gaps_depend_on_a_neighbour():
    """The pair B × C lacks A, on which the gaps depend: inside it EM stays 0.12 off, the model brings A in."""
    joint, table = chain()
    model = completed(table, (2, 2, 2), TREE)
    within_table = complete_table(summed(table, (1, 2)), (2, 2))
    assert distance(within_table, summed(joint, (1, 2))) > 0.1
    assert distance(dropped(summed(table, (0, 1)), (2, 2)), summed(joint, (0, 1))) > 0.2
    for columns in [(1,), (0, 1), (1, 2)]:
        assert distance(model.marginal(columns), summed(joint, columns)) < 0.01, columns
    for columns in [(0,), (2,), (0, 2)]:
        assert distance(model.marginal(columns), summed(joint, columns)) < 0.002, columns


def test_a_column_inside_a_measured_pair_does_not_spoil_the_pair():
    """Completed by itself the pair is exact (`test_gaps_that_depend_on_another_column_…`), and it holds all of B."""
    joint, table = chain()
    model = completed(summed(table, (0, 1)), (2, 2), [(0,), (1,), (0, 1)])
    assert distance(model.marginal([0, 1]), summed(joint, (0, 1))) < 1e-3


def test_a_chain_with_gaps_completely_at_random():
    joint, table = chain((0.4, 0.4))
    model = completed(table, (2, 2, 2), TREE)
    for columns in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]:
        assert distance(model.marginal(columns), summed(joint, columns)) < 0.004, columns


def test_a_chain_without_gaps_is_left_as_it_is():
    joint, table = chain((0.0, 0.0))
    gapped = gapped_model(table, TREE)
    model = complete_model(gapped, (2, 2, 2), dict.fromkeys(TREE, 1.0), cap_cells=10**6)
    for columns in [(0, 1), (1, 2), (0, 2)]:
        assert distance(model.marginal(columns), summed(joint, columns)) < 1e-4
        assert distance(model.marginal(columns), gapped.marginal(columns)[:, :2][:2]) < 1e-4


def test_columns_without_any_gap_state():
    joint, _ = chain()
    model = completed(joint, (2, 2, 2), TREE)
    for columns in TREE:
        assert distance(model.marginal(columns), summed(joint, columns)) < 1e-4


def test_the_same_released_values_give_the_same_model():
    _, table = chain()
    state = np.random.get_state()[1].copy()  # noqa: NPY002 to see that it is left alone
    first, second = (completed(table, (2, 2, 2), TREE) for _ in range(2))
    assert first.potentials.keys() == second.potentials.keys()
    for columns, potential in first.potentials.items():
        assert np.array_equal(potential, second.potentials[columns])
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002 the global state must stay


def test_a_model_with_a_column_that_is_missing_throughout():
    joint, table = chain((1.0, 1.0))
    model = completed(table, (2, 2, 2), TREE)
    assert distance(model.marginal([0]), summed(joint, (0,))) < 1e-3
    assert distance(model.marginal([2]), summed(joint, (2,))) < 1e-3
    np.testing.assert_allclose(model.marginal([1]), [0.5, 0.5], atol=0.05)


def test_forbidden_cells_stay_empty():
    _, table = chain()
    forbidden = np.array([[False, True], [False, False]])
    model = complete_model(
        gapped_model(table, TREE),
        (2, 2, 2),
        dict.fromkeys(TREE, 1.0),
        zeros=[((0, 1), forbidden)],
        cap_cells=10**6,
    )
    assert model.marginal([0, 1])[0, 1] == 0
    assert not (model.sample(1000, np.random.default_rng(0))[:, :2] == [0, 1]).all(axis=1).any()


def test_several_gap_states_and_not_applicable_through_the_model():
    """B is (x, n/a, gap, refused). In A = 1 it is always n/a: no gap there becomes an x, none elsewhere an n/a."""
    table = np.array([[0.4, 0.0, 0.06, 0.04], [0.0, 0.3, 0.1, 0.1]])
    model = completed(table, (2, 2), [(0,), (1,), (0, 1)])
    np.testing.assert_allclose(model.marginal([0, 1]), [[0.5, 0], [0, 0.5]], atol=0.01)


# ------------------------------------------------------------------ the tools


def test_raking_gives_the_margins_and_keeps_the_odds():
    table, margins = np.array([[4.0, 1.0], [2.0, 3.0]]), [np.array([6.0, 4.0]), np.array([7.0, 3.0])]
    raked = _rake_to_margins(table, margins)
    np.testing.assert_allclose(raked.sum(axis=1), margins[0], rtol=1e-6)
    np.testing.assert_allclose(raked.sum(axis=0), margins[1], rtol=1e-6)
    assert raked[0, 0] * raked[1, 1] / (raked[0, 1] * raked[1, 0]) == pytest.approx(6.0)


def test_raking_a_table_with_empty_cells_and_an_empty_margin():
    raked = _rake_to_margins(np.diag([5.0, 0.0]), [np.array([1.0, 0.0]), np.array([0.5, 0.5])])
    assert np.isfinite(raked).all()
    assert raked[1].sum() == 0


def test_a_move_within_chance_is_not_made_and_a_large_one_is():
    before = np.array([0.5, 0.5])
    assert james_stein(np.array([0.5001, 0.4999]), before, 30_000).tolist() == [0.5, 0.5]
    assert james_stein(np.array([0.7, 0.3]), before, 3_000) == pytest.approx([0.7, 0.3], abs=1e-3)
    assert james_stein(before, before, 0).tolist() == [0.5, 0.5]
    assert james_stein(np.array([0.6, 0.4]), before, 0).tolist() == [0.6, 0.4]


def test_a_well_measured_column_stays_well_known_when_its_pairs_are_completed():
    """The pairs are loud, the columns were measured well: without the columns their margins would be blurred."""
    rng = np.random.default_rng(5)
    joint = random_joint(1, (6, 6))
    table = 1e4 * with_gaps(joint, [np.array(0.0), np.array(0.2)])
    errors = {}
    for has_columns in (True, False):
        errors[has_columns] = 0.0
        for _ in range(10):
            pair = Measurement((0, 1), table + rng.normal(0, 60, table.shape), 60.0)
            one_way = [Measurement((c,), table.sum(axis=1 - c) + rng.normal(0, 5, table.shape[c]), 5.0) for c in (0, 1)]
            known = [pair, *one_way] if has_columns else [pair]
            gapped = GraphicalModel.fit(table.shape, known, total=1e4, cap_cells=10_000)
            measured = {table.columns: table.noise_std for table in known}
            model = complete_model(gapped, [6, 6], measured, cap_cells=10_000)
            errors[has_columns] += distance(model.marginal([0]), joint.sum(axis=1))
    assert errors[True] < 0.7 * errors[False], errors
