"""Inference against brute force: the full joint table of up to six columns, written out."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from gapless.model.graphical import GraphicalModel
from gapless.model.junction import cells, junction_tree
from gapless.model.marginal import Measurement, project_to_simplex, reconcile
from helpers.examples import examples


@st.composite
def structures(draw, columns=6, largest=4, least=0):
    sizes = tuple(draw(st.lists(st.integers(1, largest), min_size=1, max_size=columns)))
    column = st.integers(0, len(sizes) - 1)
    marginal = st.lists(column, min_size=least, max_size=3, unique=True).map(tuple)
    return sizes, draw(st.lists(marginal, min_size=least, max_size=7)), draw(st.integers(0, 2**32 - 1))


def spread(table, columns, sizes):
    """A table seen as a function of all columns."""
    order = np.argsort(columns)
    return table.transpose(order).reshape([size if i in columns else 1 for i, size in enumerate(sizes)])


def shrink(joint, columns):
    """The marginal of a joint table, axes in the order of `columns`."""
    kept = joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in columns))
    return kept.transpose(np.argsort(np.argsort(columns)))


def some_cells(shape, rng):
    """A third of the cells, never the first: so one row stays possible."""
    return (rng.random(shape) < 0.3) & (np.indices(shape).sum(axis=0) > 0)


def random_model(sizes, marginals, rng, *, zeros=False):
    potentials = {tuple(sorted(m)): rng.normal(0, 2, [sizes[i] for i in sorted(m)]) for m in marginals}
    if zeros:
        for table in potentials.values():
            table[some_cells(table.shape, rng)] = -np.inf
    joint = np.zeros(sizes)
    for columns, table in potentials.items():
        joint = joint + spread(table, columns, sizes)
    joint = np.exp(joint - joint.max())
    return GraphicalModel(sizes, potentials, 1.0), joint / joint.sum()


def noisy(sizes, marginals, rng, total=200.0):
    joint = rng.dirichlet(np.full(np.prod(sizes), 0.3)).reshape(sizes)
    measurements = []
    for columns in marginals:
        noise_std = float(rng.choice([1.0, 5.0, 30.0]))
        table = total * shrink(joint, columns)
        measurements.append(Measurement(columns, table + rng.normal(0, noise_std, table.shape), noise_std))
    return measurements


@given(structures(), st.booleans())
def test_every_marginal_equals_enumeration(structure, zeros):
    sizes, marginals, seed = structure
    rng = np.random.default_rng(seed)
    model, joint = random_model(sizes, marginals, rng, zeros=zeros)
    wanted = [rng.permutation(c).tolist() for k in range(len(sizes) + 1) for c in combinations(range(len(sizes)), k)]
    for columns, together in zip(wanted, model.marginals(wanted), strict=True):
        np.testing.assert_allclose(together, shrink(joint, columns), atol=1e-12)
        np.testing.assert_allclose(model.marginal(columns), shrink(joint, columns), atol=1e-12)
    pairs = set(combinations(range(len(sizes)), 2))
    found = model._engine.distant_pairs(pairs)
    assert set(found) == pairs
    for pair, table in found.items():
        np.testing.assert_allclose(table, shrink(joint, pair), atol=1e-12)


@given(structures())
def test_the_price_is_known_beforehand(structure):
    sizes, marginals, _ = structure
    tree = junction_tree(sizes, marginals)
    assert (
        tree.cells
        == cells(sizes, marginals)
        == sum(np.prod([sizes[i] for i in clique], dtype=int) for clique in tree.cliques)
    )
    for place, clique in enumerate(tree.cliques[1:], start=1):
        assert (
            set(clique) & set().union(*tree.cliques[:place])
            == set(tree.separator(place))
            <= set(tree.cliques[tree.parents[place]])
        )


@examples(40)
@given(structures(columns=5, largest=3, least=1))
def test_a_fit_that_follows_its_tables_is_near_the_least_squares_optimum(structure):
    """Within a twentieth for each cell of a loss to which noise adds a half for each."""
    sizes, marginals, seed = structure
    rng = np.random.default_rng(seed)
    total = 200.0
    measurements = noisy(sizes, marginals, rng, total)
    design, goal = [], []
    for measurement in measurements:
        cell = np.arange(measurement.counts.size).reshape(measurement.counts.shape)
        cell = np.broadcast_to(spread(cell, measurement.columns, sizes), sizes).ravel()
        design.append(total * np.eye(measurement.counts.size)[:, cell] / measurement.noise_std)
        goal.append(measurement.counts.ravel() / measurement.noise_std)
    design, goal = np.vstack(design), np.concatenate(goal)
    heavy = 1e6  # holds the sum of probabilities at one
    best, _ = nnls(np.vstack([design, np.full(design.shape[1], heavy)]), np.append(goal, heavy), maxiter=10_000)
    lowest = 0.5 * ((design @ (best / best.sum()) - goal) ** 2).sum()
    model = GraphicalModel.fit(sizes, measurements, total=total, follow_noise=True)
    p = model.marginal(range(len(sizes))).ravel()
    assert 0.5 * ((design @ p - goal) ** 2).sum() <= lowest + 0.05 * goal.size


@given(structures(), st.floats(-100, 1e6), st.integers(0, 3))
def test_any_measurement_gives_a_distribution(structure, total, sweeps):
    sizes, marginals, seed = structure
    rng = np.random.default_rng(seed)
    measurements = noisy(sizes, marginals, rng)
    first = GraphicalModel.fit(sizes, measurements[:2], total=total)
    model = GraphicalModel.fit(sizes, measurements, total=total, start=first, sweeps=sweeps)
    joint = model.marginal(range(len(sizes)))
    assert (joint >= 0).all()
    assert np.isclose(joint.sum(), 1)
    assert model.total == max(total, 1)
    rows = model.sample(20, rng)
    assert rows.shape == (20, len(sizes))
    assert (rows < np.array(sizes)).all()


@given(structures())
def test_without_noise_sweeps_find_the_measured_marginals(structure):
    sizes, marginals, seed = structure
    _, joint = random_model(sizes, marginals, np.random.default_rng(seed))
    joint = 0.99 * joint + 0.01 / joint.size
    measurements = [Measurement(columns, 500 * shrink(joint, columns), 0.5) for columns in marginals]
    models = [GraphicalModel.fit(sizes, measurements, sweeps=n) for n in (0, 10, 300)]
    losses = [
        sum(
            ((model.total * table - measurement.counts) ** 2).sum()
            for measurement, table in zip(measurements, model.marginals(marginals), strict=True)
        )
        for model in models
    ]
    assert losses[1] <= losses[0] + 1e-9
    assert not models[2].unexplained
    for columns, table in zip(marginals, models[2].marginals(marginals), strict=True):
        off = (500 * (table - shrink(joint, columns)) / 0.5) ** 2
        assert off.sum() <= off.size + 3 * np.sqrt(2 * off.size)


@given(structures(), st.integers(1, 60))
def test_forbidden_cells_never_appear(structure, rows):
    sizes, marginals, seed = structure
    rng = np.random.default_rng(seed)
    model, joint = random_model(sizes, marginals, rng, zeros=True)
    drawn = model.sample(rows, rng)
    assert (joint[tuple(drawn.T)] > 0).all()
    known = np.where(rng.random(drawn.shape) < 0.5, drawn.astype(int), -1)
    filled = model.fill(known, lambda: rng.random(rows))
    assert ((known < 0) | (filled == known)).all()
    assert (joint[tuple(filled.T)] > 0).all()


@given(structures(least=1))
def test_fitted_constraints_hold_exactly(structure):
    sizes, marginals, seed = structure
    rng = np.random.default_rng(seed)
    zeros = [(columns, some_cells([sizes[i] for i in columns], rng)) for columns in marginals[:2]]
    model = GraphicalModel.fit(sizes, noisy(sizes, marginals[1:], rng), zeros=zeros)
    for columns, forbidden in zeros:
        assert (model.marginal(columns)[forbidden] == 0).all()
    assert np.isclose(model.marginal([0]).sum(), 1)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12), st.floats(0.1, 100))
def test_simplex_projection_is_the_nearest(values, total):
    values = np.array(values)
    nearest = project_to_simplex(values, total)
    assert (nearest >= 0).all()
    assert np.isclose(nearest.sum(), total)
    pull = values - nearest  # the same pull on every cell that is kept, no more on the others
    kept = nearest > 0
    assert np.allclose(pull[kept], pull[kept][0], atol=1e-7)
    assert (pull[~kept] <= pull[kept][0] + 1e-7).all()


@given(structures(least=1))
def test_reconciled_tables_agree(structure):
    sizes, marginals, seed = structure
    measurements = noisy(sizes, marginals, np.random.default_rng(seed))
    tables = reconcile(sizes, measurements, 123.0)
    for (first, (left, _)), (other, (right, _)) in combinations(tables.items(), 2):
        common = sorted(set(first) & set(other))
        sums = [
            table.sum(axis=tuple(axis for axis, column in enumerate(columns) if column not in common))
            for columns, table in ((first, left), (other, right))
        ]
        np.testing.assert_allclose(*sums, atol=1e-7)
    assert all(np.isclose(table.sum(), 123.0) for table, _ in tables.values())


@given(structures(), st.booleans())
def test_a_saved_model_is_the_same_model(structure, zeros):
    sizes, marginals, seed = structure
    model, joint = random_model(sizes, marginals, np.random.default_rng(seed), zeros=zeros)
    copy = GraphicalModel.from_arrays(model.to_arrays())
    np.testing.assert_allclose(copy.marginal(range(len(sizes))), joint, atol=1e-12)
