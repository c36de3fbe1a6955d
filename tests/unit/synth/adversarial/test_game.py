"""Generators and their steps: gradients against finite differences, conditions that are kept, rows that are drawn."""

import itertools

import numpy as np
import pytest

from gapless.synth.adversarial.game import Generator
from gapless.synth.adversarial.generative import GappedGenerator, GeneratorModel, network

SIZES = (3, 1, 4)
LAWS = (np.array([0.5, 0.3, 0.2]), np.ones(1), np.array([0.1, 0.2, 0.3, 0.4]))


def generator(kind, seed=0):
    rng = np.random.default_rng(seed)
    given = {"one column": (2,), "any column": (0, 2)}.get(kind, ())
    laws = tuple(LAWS[column] for column in given)
    decoder = rng.standard_normal((3, 8)) if kind == "decoder" else None
    layers = network(5 + sum(map(len, laws)), 6, 8 if decoder is None else 3)
    made = Generator(
        network=layers, sizes=SIZES, noise=5, bias=rng.standard_normal(8), decoder=decoder, given=given, laws=laws
    )
    return made, rng.standard_normal(sum(layers.shapes))


KINDS = ["plain", "decoder", "one column", "any column"]
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_gradients_are_those_of_finite_differences(kind):
    made, numbers = generator(kind)
    inputs = made.inputs(7, np.random.default_rng(1))
    slopes = np.random.default_rng(2).standard_normal((7, 8))
    _, memory = made.forward(made.network.unpack(numbers), inputs)
    found = made.backward(made.network.unpack(numbers), memory, slopes)
    for place in range(len(numbers)):
        shift = np.zeros(len(numbers))
        shift[place] = 1e-6
        up, down = (made.forward(made.network.unpack(numbers + sign * shift), inputs)[0] for sign in (1, -1))
        assert found[place] == pytest.approx(((up - down) * slopes).sum() / 2e-6, abs=1e-7)
    assert np.abs(found).max() > 0.1


@every_kind
def test_chances_add_up_and_conditions_are_kept(kind):
    made, numbers = generator(kind)
    inputs = made.inputs(2_000, np.random.default_rng(1))
    chances, _ = made.forward(made.network.unpack(numbers), inputs)
    np.testing.assert_allclose(np.add.reduceat(chances, made.starts[:-1], axis=1), 1.0)
    if inputs[1] is not None:
        assert (chances[np.arange(2_000), inputs[1]] == 1).all()
        shown = np.bincount(inputs[1], minlength=8) / 2_000 * len(made.given)
        for column, law in zip(made.given, made.laws, strict=True):
            np.testing.assert_allclose(shown[made.starts[column] : made.starts[column + 1]], law, atol=0.06)


@every_kind
def test_a_model_is_the_generator_and_survives_a_file(kind):
    made, numbers = generator(kind)
    model = GeneratorModel.of(made, numbers)
    plain, _ = made.forward(made.network.unpack(numbers), made.inputs(50, np.random.default_rng(3)))
    np.testing.assert_allclose(model.chances(50, np.random.default_rng(3)), plain)
    again = GeneratorModel.from_arrays(model.to_arrays())
    rows = model.sample(500, np.random.default_rng(4))
    assert np.array_equal(again.sample(500, np.random.default_rng(4)), rows)
    assert (rows.max(axis=0) < SIZES).all()


@every_kind
def test_columns_are_brought_to_their_tables_also_after_gaps_are_cut_off(kind):
    made, numbers = generator(kind)
    model = GeneratorModel.of(made, numbers).raked(LAWS)
    rows = model.sample(20_000, np.random.default_rng(5))
    for column, law in enumerate(LAWS):
        np.testing.assert_allclose(np.bincount(rows[:, column], minlength=len(law)) / 20_000, law, atol=0.02)
    cut = model.cut((2, 1, 3)).sample(5_000, np.random.default_rng(6))
    assert (cut.max(axis=0) < (2, 1, 3)).all()


def test_draws_follow_the_rows_noise():
    """Pairs of columns are dependent through the noise, as the generator's own chances say."""
    made, numbers = generator("plain")
    model = GeneratorModel.of(made, 2 * numbers)
    chances = model.chances(20_000, np.random.default_rng(7))
    rows = model.sample(20_000, np.random.default_rng(8))
    told = chances[:, :3].T @ chances[:, 4:] / len(chances)
    seen = np.zeros((3, 4))
    np.add.at(seen, (rows[:, 0], rows[:, 2]), 1 / len(rows))
    assert np.abs(told - seen).sum() < 0.05
    assert np.abs(np.outer(told.sum(axis=1), told.sum(axis=0)) - told).sum() > 0.1


def test_gaps_are_put_where_masks_say():
    rows = GeneratorModel.of(*generator("plain"))
    states = Generator(network=network(2, 2, 6), sizes=(2, 1, 3), noise=2, bias=np.log([0.5, 0.5, 1, 0.4, 0.3, 0.3]))
    gapped = GappedGenerator(rows, GeneratorModel(states, np.zeros(sum(states.network.shapes))))
    codes = gapped.sample(10_000, np.random.default_rng(0))
    assert codes.max(axis=0).tolist() == [3, 0, 5]
    assert (codes[:, 0] == 3).mean() == pytest.approx(0.5, abs=0.03)
    for state in (4, 5):
        assert (codes[:, 2] == state).mean() == pytest.approx(0.3, abs=0.03)
    again = GappedGenerator.from_arrays(gapped.to_arrays())
    assert np.array_equal(again.sample(99, np.random.default_rng(1)), gapped.sample(99, np.random.default_rng(1)))


def test_the_critic_at_chances_is_its_mean_over_rows_drawn_by_them():
    """Why a generator may be led by chances: the critic is linear in each column."""
    from gapless.model.neural.layers import Pairs

    rng = np.random.default_rng(0)
    laws = [rng.dirichlet(np.ones(size)) for size in (2, 3, 2)]
    pairs = Pairs((2, 3, 2))
    weights = pairs.unpack(rng.standard_normal(sum(pairs.shapes)))
    mean = 0.0
    for cells in itertools.product(*map(range, (2, 3, 2))):
        row = np.concatenate([np.eye(len(law))[cell] for law, cell in zip(laws, cells, strict=True)])
        chance = np.prod([law[cell] for law, cell in zip(laws, cells, strict=True)])
        mean += chance * pairs.forward(weights, row[None])[0][0, 0]
    assert pairs.forward(weights, np.concatenate(laws)[None])[0][0, 0] == pytest.approx(mean)
