"""Models of generators: files, columns brought to their tables, draws, gaps by masks."""

import numpy as np
import pytest

from gapless.synth.adversarial.game import Generator
from gapless.synth.adversarial.generative import GappedGenerator, GeneratorModel, network
from helpers.generators import KINDS, MARGINALS, SIZES, generator


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_the_generator_and_survives_a_file(kind):
    made, numbers = generator(kind)
    model = GeneratorModel.of(made, numbers)
    plain, _ = made.forward(made.network.unpack(numbers), made.inputs(50, np.random.default_rng(3)))
    np.testing.assert_allclose(model.chances(50, np.random.default_rng(3)), plain)
    again = GeneratorModel.from_arrays(model.to_arrays())
    rows = model.sample(500, np.random.default_rng(4))
    assert np.array_equal(again.sample(500, np.random.default_rng(4)), rows)
    assert (rows.max(axis=0) < SIZES).all()


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_brought_to_their_tables_also_after_gaps_are_cut_off(kind):
    made, numbers = generator(kind)
    model = GeneratorModel.of(made, numbers).raked(MARGINALS)
    rows = model.sample(20_000, np.random.default_rng(5))
    for column, marginal in enumerate(MARGINALS):
        np.testing.assert_allclose(np.bincount(rows[:, column], minlength=len(marginal)) / 20_000, marginal, atol=0.02)
    cut = model.restricted((2, 1, 3)).sample(5_000, np.random.default_rng(6))
    assert (cut.max(axis=0) < (2, 1, 3)).all()


def test_draws_follow_the_rows_noise():
    """Pairs of columns are dependent through the noise, as the generator's own chances say."""
    made, numbers = generator("plain")
    model = GeneratorModel.of(made, 2 * numbers)
    chances = model.chances(20_000, np.random.default_rng(7))
    rows = model.sample(20_000, np.random.default_rng(8))
    expected = chances[:, :3].T @ chances[:, 4:] / len(chances)
    seen = np.zeros((3, 4))
    np.add.at(seen, (rows[:, 0], rows[:, 2]), 1 / len(rows))
    assert np.abs(expected - seen).sum() < 0.05
    assert np.abs(np.outer(expected.sum(axis=1), expected.sum(axis=0)) - expected).sum() > 0.1


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
