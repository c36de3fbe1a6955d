"""Generators and their steps: gradients against finite differences, conditions that are kept, rows that are drawn."""

import itertools

import numpy as np
import pytest

from helpers.generators import KINDS, generator

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
        for column, marginal in zip(made.given, made.marginals, strict=True):
            np.testing.assert_allclose(shown[made.starts[column] : made.starts[column + 1]], marginal, atol=0.06)


def test_the_critic_at_chances_is_its_mean_over_rows_drawn_by_them():
    """Why a generator may be led by chances: the critic is linear in each column."""
    from gapless.model.neural.layers import PairwiseCritic

    rng = np.random.default_rng(0)
    marginals = [rng.dirichlet(np.ones(size)) for size in (2, 3, 2)]
    pairs = PairwiseCritic((2, 3, 2))
    weights = pairs.unpack(rng.standard_normal(sum(pairs.shapes)))
    mean = 0.0
    for cells in itertools.product(*map(range, (2, 3, 2))):
        row = np.concatenate([np.eye(len(marginal))[cell] for marginal, cell in zip(marginals, cells, strict=True)])
        chance = np.prod([marginal[cell] for marginal, cell in zip(marginals, cells, strict=True)])
        mean += chance * pairs.forward(weights, row[None])[0][0, 0]
    assert pairs.forward(weights, np.concatenate(marginals)[None])[0][0, 0] == pytest.approx(mean)
