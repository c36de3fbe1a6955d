"""Models learned from noisy marginals: what a fit reaches, keeps and refuses."""

from itertools import combinations

import numpy as np
import pytest

from gapless.errors import ModelError
from gapless.model.denoise import EXPLAINED
from gapless.model.graphical import GraphicalModel
from gapless.model.junction import JunctionTree, junction_tree
from gapless.model.marginal import Measurement
from helpers.noisy_tables import measured, wave


def test_no_columns_at_all():
    assert junction_tree((), []) == JunctionTree((), (), (), ())
    model = GraphicalModel.fit((), [measured((), 7.0)])
    assert model.total == 7
    assert model.marginal([]) == 1
    assert model.sample(3, np.random.default_rng(0)).shape == (3, 0)


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
    for follow_noise in (False, True):
        model = GraphicalModel.fit(
            (2, 3, 2),
            [measured((0, 1), counts), measured((1, 2), 100 * wave(3, 2))],
            zeros=[((0, 1), forbidden), ((2, 0), np.array([[False, True], [False, False]]))],
            follow_noise=follow_noise,
        )
        joint = model.marginal([0, 1, 2])
        assert (joint[forbidden] == 0).all()
        assert (joint[1, :, 0] == 0).all()
        assert joint.sum() == pytest.approx(1)
        again = GraphicalModel.fit((2, 3, 2), [measured((0, 1), counts)], start=model)
        assert (again.marginal([0, 1]) > 0).all()  # the new fit has no constraint


def test_save_and_load():
    model = GraphicalModel.fit((2, 3), [measured((1, 0), 50 * wave(3, 2))], zeros=[((0,), np.array([False, True]))])
    arrays = model.to_arrays()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays.values())
    copy = GraphicalModel.from_arrays(arrays)
    assert (copy.total, copy.sizes) == (model.total, model.sizes)
    assert (copy.marginal([0, 1]) == model.marginal([0, 1])).all()
    rows = [distribution.sample(50, np.random.default_rng(3)) for distribution in (model, copy)]
    assert (rows[0] == rows[1]).all()


def test_errors_say_what_to_do():
    big = [measured(pair, np.ones((30, 30))) for pair in combinations(range(4), 2)]
    with pytest.raises(
        ModelError,
        match=r"tree of 810,000 cells; the cap is 1,000\n  Try: .*columns \[0, 1, 2, 3\], or choose .* for them$",
    ):
        GraphicalModel.fit((30,) * 4, big, cap_cells=1000)
    with pytest.raises(ModelError, match=r"columns \(0,\) must have shape \(2,\), got \(3,\)"):
        GraphicalModel.fit((2,), [measured((0,), [1, 2, 3])])
    with pytest.raises(ModelError, match=r"different numbers below \d, got \(5,\)"):
        GraphicalModel.fit((2,), [measured((5,), [1, 2])])
    with pytest.raises(ModelError, match="every column needs at least one level"):
        GraphicalModel.fit((2, 0), [])
    with pytest.raises(ModelError, match="and counts of shape"):
        measured((0, 0), np.ones((2, 2)))
    with pytest.raises(ModelError, match="needs finite counts"):
        measured((0,), [np.nan, 1.0])
    model = GraphicalModel((10,) * 8, {(i, i + 1): np.zeros((10, 10)) for i in range(7)}, 1.0)
    with pytest.raises(ModelError, match=r"needs a table of .* cells, but at most 10,000,000 are computed"):
        model.marginal(range(8))
    for wrong in ([0, 0], [8], [-1]):
        with pytest.raises(ModelError, match="different column numbers from 0 to 7"):
            model.marginal(wrong)


def near_deterministic(noise_std):
    """Three columns of which two decide the third, nearly: pairs with many empty cells, as of calendars."""
    month, day = np.divmod(np.arange(12 * 30), 30)
    joint = np.zeros((12, 10, 10))
    np.add.at(joint, (month, day // 3, np.minimum(9, (month * 30 + day) // 36)), 1000.0)
    pairs = [(0, 1), (0, 2), (1, 2)]
    rng = np.random.default_rng(1)
    tables = [joint.sum(axis=3 - first - second) for first, second in pairs]
    measured = [
        Measurement(pair, table + rng.normal(0, noise_std, table.shape), noise_std)
        for pair, table in zip(pairs, tables, strict=True)
    ]
    return joint, pairs, tables, measured


@pytest.mark.parametrize("noise_std", [300.0, 30.0, 3.0])
def test_the_fit_goes_on_until_noise_explains_what_is_left(noise_std):
    """A dozen sweeps, at any noise, would leave every one of these distances above 0.006."""
    joint, pairs, tables, measured = near_deterministic(noise_std)
    model = GraphicalModel.fit(joint.shape, measured, total=joint.sum())
    off = [
        0.5 * np.abs(found - table / joint.sum()).sum()
        for found, table in zip(model.marginals(pairs), tables, strict=True)
    ]
    noise = 0.5 * np.sqrt(2 / np.pi) * 120 * noise_std / joint.sum()
    assert np.mean(off) < max(noise, 1e-4)


def test_a_trend_that_is_measured_well_survives_in_a_table_that_noise_explains():
    """The trend of two columns has ten standard deviations of noise; its table's χ² without it is not unusual."""
    size, total, noise_std = 24, 200_000.0, 100.0
    scores = np.linspace(-1, 1, size)
    trend = np.outer(scores, scores)
    signal = 10 * noise_std * trend / np.sqrt((trend**2).sum())
    expected = total / size**2
    excess = (signal**2).sum() / noise_std**2 / (2 * size**2) ** 0.5
    assert excess < EXPLAINED
    rng = np.random.default_rng(4)
    kept = []
    for _ in range(10):
        noisy = Measurement((0, 1), expected + signal + rng.normal(0, noise_std, (size, size)), noise_std)
        found = total * GraphicalModel.fit((size, size), [noisy], total=total).marginal([0, 1])
        kept.append((found * trend).sum() / (signal * trend).sum())
    assert 0.65 < np.mean(kept) < 1


def test_a_fit_stopped_by_its_cap_names_the_unexplained_tables():
    joint, _, _, measured = near_deterministic(3.0)
    stopped = GraphicalModel.fit(joint.shape, measured, total=joint.sum(), sweeps=2)
    assert set(stopped.unexplained) == {(0, 1), (0, 2), (1, 2)}
    alone = GraphicalModel.fit(joint.shape, measured[:1], total=joint.sum())
    assert alone.unexplained == ()


STRUCTURES = {
    "10 columns, 17 pairs": (
        [2, 3, 12, 5, 4, 7, 6, 9, 3, 8],
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (0, 2), (2, 4), (4, 6), (6, 8), (1, 3),
         (5, 7), (7, 9), (0, 9)],
    ),
    "12 columns, 10 triples": ([4] * 12, [(i, i + 1, i + 2) for i in range(10)]),
    "8 columns, star with nested marginals": ([5] * 8, [(0, i) for i in range(1, 8)] + [(i,) for i in range(8)]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("noise_std", [5.0, 50.0])
@pytest.mark.parametrize("name", STRUCTURES)
def test_loss_is_no_higher_than_mbi(name, noise_std):
    """On domains too large to write out."""
    mbi = pytest.importorskip("mbi")
    import jax

    jax.config.update("jax_enable_x64", True)
    sizes, marginals = STRUCTURES[name]
    rng = np.random.default_rng(7)
    total = 20_000
    hidden = rng.integers(0, 6, total)
    data = [np.where(rng.random(total) < 0.6, hidden % size, rng.integers(0, size, total)) for size in sizes]
    measurements = []
    for number, columns in enumerate(marginals):
        shape = [sizes[column] for column in columns]
        cell = np.ravel_multi_index([data[column] for column in columns], shape)
        counts = np.bincount(cell, minlength=np.prod(shape)).reshape(shape)
        std = noise_std * (1 + number % 3)
        measurements.append(Measurement(columns, counts + rng.normal(0, std, shape), std))
    domain = mbi.Domain.fromdict({str(column): size for column, size in enumerate(sizes)})
    theirs = mbi.estimation.MirrorDescent().estimate(
        domain,
        [mbi.LinearMeasurement(m.counts.ravel(), tuple(map(str, m.columns)), m.noise_std) for m in measurements],
        known_total=float(total),
        iters=1000,
    )
    loss = sum(
        0.5 * float((((np.asarray(theirs.project(tuple(map(str, m.columns))).datavector()).reshape(m.counts.shape)
                       - m.counts) / m.noise_std) ** 2).sum())
        for m in measurements
    )  # fmt: skip
    ours = GraphicalModel.fit(sizes, measurements, total=total, follow_noise=True)
    found = sum(0.5 * (((total * ours.marginal(m.columns) - m.counts) / m.noise_std) ** 2).sum() for m in measurements)
    assert found <= loss + 0.05 * sum(m.counts.size for m in measurements)
