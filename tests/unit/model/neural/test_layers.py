"""Layers: gradients against finite differences, lengths against gradients written out, each row by itself to the bit.

A length that is too small would be a wrong guarantee, so every network is looked at on rows with gaps, with repeated
levels, and with inputs that are all zero.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from gapless.model.neural.descent import Adam, CosineSchedule, PredictionTask, PredictionTraining
from gapless.model.neural.gradients import DenseGradients, JointGradients, OuterGradients
from gapless.model.neural.layers import (
    Attention,
    Chain,
    Embedding,
    Linear,
    MaskedLinear,
    PairwiseCritic,
    ReLU,
    Sum,
    cross_entropy,
    one_hot,
)
from gapless.privacy.sgd import BLOCK, SUM_BITS, Block
from gapless.synth.adversarial.game import Game, Generator, Opponents
from gapless.synth.sequential.kamino import masked_network
from helpers.row_gradients import whole_vectors

SIZES, OBSERVED = (3, 4, 3), (2, 3, 2)  # the last code of each column is a gap
ORDER = np.repeat(np.arange(3), SIZES), np.repeat(np.arange(3), OBSERVED)
EARLIER = ORDER[0][:, None] < ORDER[1]
HIDDEN = np.arange(6) % 2 + 1
ALL = {"given": (0, 1, 2), "sizes": SIZES, "targets": (0, 1, 2), "cells": OBSERVED}
LAST = {"given": (0, 1), "sizes": SIZES[:2], "targets": (2,), "cells": OBSERVED[2:]}
POINTS = tuple(np.random.default_rng(5).standard_normal((size, size)) for size in SIZES)

NETWORKS = {
    "linear": (Linear(10, 7), ALL),
    "two layers": (Chain((Linear(7, 5), ReLU(), Linear(5, 2))), LAST),
    "leaky": (Chain((Linear(7, 5), ReLU(0.2), Linear(5, 2), ReLU(0.1))), LAST),
    "masked": (MaskedLinear(EARLIER), ALL),
    "shared": (
        Sum(
            (
                MaskedLinear(EARLIER),
                Chain((MaskedLinear(ORDER[0][:, None] < HIDDEN), ReLU(), MaskedLinear(HIDDEN[:, None] <= ORDER[1]))),
            )
        ),
        ALL,
    ),
    "shared, by points": (masked_network(SIZES, OBSERVED, (1, 2, 0), 4), ALL | {"points": POINTS}),
    "pairs": (Chain((PairwiseCritic(SIZES[:2]), Linear(1, 2))), LAST),
    "pairs of points": (
        Chain((Linear(7, 6), PairwiseCritic((2, 1, 3)), Linear(1, 2))),
        LAST | {"points": POINTS[:2]},
    ),
    "attention": (Chain((Embedding(SIZES[:2], 4), Attention(2, 4), Linear(4, 2))), LAST | {"coded": True}),
    "attention, deep": (
        Chain((Embedding(SIZES[:2], 4), Attention(2, 4), Linear(4, 5), ReLU(), Linear(5, 2))),
        LAST | {"coded": True},
    ),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def program(name, **more):
    network, cells = NETWORKS[name]
    optimizer = Adam(rate=CosineSchedule(rate=0.1, steps=10))
    rng = np.random.default_rng(3)
    begin = rng.standard_normal(sum(network.shapes))  # attention and biases do not stay at zero
    return PredictionTraining(
        network=network, cells=PredictionTask(**cells), optimizer=optimizer, batch_size=10.0, initial=begin, **more
    )


def block(rows=9, seed=1):
    """Random rows, the first ones: all gaps, all the first level, the same level twice."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows) for size in SIZES]
    for codes, size in zip(columns, SIZES, strict=True):
        codes[:3] = (size - 1, 0, 1)
    return Block(tuple(codes.astype(np.uint8) for codes in columns), rows)


def losses(trained, numbers, rows):
    outputs, _ = trained.network.forward(trained.network.unpack(numbers), trained.cells.inputs(rows))
    return trained.cells.losses(outputs, rows)[0]


def by_differences(trained, rows, step=1e-6):
    """Each row's gradient, number by number, from losses alone."""
    start = trained.start().parameters
    found = np.zeros((rows.rows, start.size))
    for place in range(start.size):
        up, down = start.copy(), start.copy()
        up[place] += step
        down[place] -= step
        found[:, place] = (losses(trained, up, rows) - losses(trained, down, rows)) / (2 * step)
    return found


def written_out(gradients, rows):
    """Each row's gradient as the sum in which it alone has a weight."""
    return np.array([gradients.total(np.eye(rows)[row]) for row in range(rows)])


@every_network
def test_gradients_are_those_of_finite_differences(name):
    trained, rows = program(name), block()
    found = written_out(trained.gradients(trained.start(), rows), rows.rows)
    np.testing.assert_allclose(found, by_differences(trained, rows), atol=2e-8)
    assert np.abs(found[1:]).max() > 0.1
    assert not found[0].any()  # nothing of the first row is observed, so it has nothing to say


@every_network
def test_lengths_are_those_of_gradients_written_out(name):
    trained, rows = program(name), block(rows=40)
    gradients = trained.gradients(trained.start(), rows)
    explicit = (written_out(gradients, rows.rows) ** 2).sum(axis=1)
    np.testing.assert_allclose(gradients.squared_norms(), explicit, rtol=1e-13, atol=1e-300)


@every_network
def test_sums_are_weighted_sums_of_gradients_written_out(name):
    trained, rows = program(name), block(rows=40)
    gradients = trained.gradients(trained.start(), rows)
    weights = np.random.default_rng(2).random(40)
    weights[5:8] = 0
    np.testing.assert_allclose(gradients.total(weights), weights @ written_out(gradients, 40), rtol=1e-12, atol=1e-13)


@every_network
@pytest.mark.parametrize("clip", [0.01, 3.0])
def test_exact_sums_are_sums_of_whole_vectors_no_longer_than_the_gradients(name, clip):
    """Integers of any length say the same as floats; no number of a row is larger than before it was cut."""
    trained, rows = program(name), block(rows=60)
    gradients = trained.gradients(trained.start(), rows)
    lengths = np.sqrt(np.maximum(gradients.squared_norms(), 1e-300))
    weights = np.minimum(1, clip / lengths) * (2.0**SUM_BITS / clip)
    weights[7:9] = 0
    vectors = whole_vectors(gradients, weights)
    assert not vectors[7:9].any()
    assert [int(number) for number in gradients.integer_total(weights)] == vectors.sum(axis=0).tolist()
    before = written_out(gradients, 60) * weights[:, None]
    assert (np.abs(vectors.astype(np.float64)) <= np.abs(before) * (1 + 2.0**-50)).all()
    # Cut by less than a part of 2^-20 of the length, which is a step of the grid that noise is added on.
    cut = np.abs(vectors.astype(np.float64) - before).max(axis=1)
    assert (cut <= 2.0**-20 * np.maximum(weights * lengths, 2.0**SUM_BITS)).all()


def test_lengths_where_all_inputs_are_zero():
    """Then only the bias has a gradient; a layer must not divide by the length of its input."""
    layer = MaskedLinear(np.array([[True, False], [True, True]]))
    slopes = np.array([[3.0, 4.0]])
    _, found = layer.backward(layer.unpack(np.ones(5)), np.zeros((1, 2)), slopes, to_inputs=True)
    assert JointGradients(found).squared_norms().tolist() == [25.0]
    assert JointGradients(found).total(np.ones(1)).tolist() == [0, 0, 0, 3, 4]


@pytest.mark.parametrize("wrong", ["mask forgotten", "bias forgotten"])
def test_a_planted_length_is_caught(wrong):
    trained, rows = program("masked"), block(rows=40)
    gradients = trained.gradients(trained.start(), rows)
    matrix, bias = gradients.parts
    planted = OuterGradients(matrix.inputs, matrix.slopes) if wrong == "mask forgotten" else matrix
    lengths = planted.squared_norms() + (bias.squared_norms() if wrong == "mask forgotten" else 0)
    explicit = (written_out(gradients, rows.rows) ** 2).sum(axis=1)
    assert not np.allclose(lengths, explicit, rtol=1e-3)


def test_no_length_is_changed_by_what_is_done_to_the_marks_or_the_mask():
    allowed = EARLIER.copy()
    layer = MaskedLinear(allowed)
    allowed[:] = False
    assert np.array_equal(layer.mask.seen @ layer.mask.groups.T, EARLIER)
    for part in (layer.mask.free, layer.mask.seen, layer.mask.groups):
        with pytest.raises(ValueError, match="read-only"):
            part[:] = 0


def test_slopes_of_inputs_are_those_of_finite_differences():
    """Through a critic, to what a generator made."""
    layer = Chain((Linear(3, 4), ReLU(0.2), Sum((Linear(4, 2), MaskedLinear(np.eye(4, 2, dtype=bool))))))
    rng = np.random.default_rng(5)
    weights, inputs, slopes = (
        layer.unpack(rng.standard_normal(sum(layer.shapes))),
        rng.standard_normal((6, 3)),
        rng.standard_normal((6, 2)),
    )
    _, memory = layer.forward(weights, inputs)
    back, _ = layer.backward(weights, memory, slopes, to_inputs=True)
    for row, column in np.ndindex(6, 3):
        shift = np.zeros_like(inputs)
        shift[row, column] = 1e-6
        up, down = (layer.forward(weights, inputs + sign * shift)[0] for sign in (1, -1))
        assert back[row, column] == pytest.approx(((up - down) * slopes).sum() / 2e-6, abs=1e-8)


@dataclass(frozen=True)
class Wide:
    """A network as wide as those of real tables."""

    columns: int = 12
    levels: int = 9
    hidden: int = 48

    def program(self):
        sizes = (self.levels + 1,) * self.columns
        into = np.repeat(np.arange(self.columns), self.levels + 1)
        out = np.repeat(np.arange(self.columns), self.levels)
        degree = np.arange(self.hidden) % (self.columns - 1) + 1
        hidden = Chain((MaskedLinear(into[:, None] < degree), ReLU(), MaskedLinear(degree[:, None] <= out)))
        places = tuple(range(self.columns))
        cells = PredictionTask(given=places, sizes=sizes, targets=places, cells=(self.levels,) * self.columns)
        network = Sum((MaskedLinear(into[:, None] < out), hidden))
        return PredictionTraining(
            network=network, cells=cells, optimizer=Adam(rate=CosineSchedule(rate=0.1, steps=9)), batch_size=9, seed=4
        )

    def attention(self):
        sizes = (self.levels + 1,) * (self.columns - 1)
        cells = PredictionTask(
            given=tuple(range(self.columns - 1)),
            sizes=sizes,
            targets=(self.columns - 1,),
            cells=(self.levels,),
            coded=True,
        )
        layers = (Embedding(sizes, 8), Attention(len(sizes), 8), Linear(8, 32), ReLU(), Linear(32, self.levels))
        return PredictionTraining(
            network=Chain(layers),
            cells=cells,
            optimizer=Adam(rate=CosineSchedule(rate=0.1, steps=9)),
            batch_size=9,
            seed=4,
        )

    def game(self):
        """Rows and masks against critics of pairs."""
        lines = tuple(
            np.vstack([np.eye(self.levels) - 1 / self.levels, np.zeros(self.levels)]) for _ in range(self.columns)
        )
        gaps = tuple(np.r_[np.zeros(self.levels), 1.0][:, None] - 0.1 for _ in range(self.columns))
        sides = []
        for part in (lines, gaps):
            cells = (2,) * self.columns
            generator = Generator(
                network=Linear(3, 2 * self.columns), sizes=cells, noise=3, bias=np.zeros(2 * self.columns)
            )
            sizes = tuple(points.shape[1] for points in part)
            heads = np.zeros((2 * self.columns, sum(sizes)))
            sides.append(
                Opponents(
                    generator=generator,
                    code_points=part,
                    cell_points=heads,
                    critic=PairwiseCritic(sizes),
                    initial=np.zeros(sum(generator.network.shapes)),
                )
            )
        optimizer = Adam(rate=CosineSchedule(rate=0.1, steps=9))
        return Game(sides=tuple(sides), optimizer=optimizer, batch_size=9, memory=2.0, rounds=1, made=4, averaged=0.5)


def factors(gradients):
    """All numbers of which a row's gradient is made, row by row."""
    arrays = []
    for part in gradients.parts:
        arrays += [part.rows] if isinstance(part, DenseGradients) else [part.slopes]
        arrays += [part.inputs] if isinstance(part, OuterGradients) else []
    return [array.reshape(len(array), -1) for array in arrays]


@pytest.mark.parametrize("kind", ["program", "attention", "game"])
def test_a_rows_gradient_does_not_depend_on_its_position_or_on_other_rows(kind):
    """In blocks of one size: docs/proofs/private_training.md, section 5, needs it."""
    trained = getattr(Wide(), kind)()
    rng = np.random.default_rng(8)
    state = trained.start()
    state = trained.follow(state, rng.standard_normal(trained.numbers) * 50, 0)
    codes = rng.integers(0, 10, (BLOCK, 12)).astype(np.uint8)
    first = factors(trained.gradients(state, Block(tuple(codes.T), BLOCK)))
    for trial in range(6):
        order = rng.permutation(BLOCK)
        others = rng.integers(0, 10, (BLOCK, 12)).astype(np.uint8)
        kept = rng.random(BLOCK) < (0.5 if trial % 2 else 1.0)
        moved = np.where(kept[:, None], codes[order], others)
        again = factors(trained.gradients(state, Block(tuple(np.ascontiguousarray(moved.T)), BLOCK)))
        for before, after in zip(first, again, strict=True):
            assert np.array_equal(before[order][kept], after[kept])


def test_the_loss_is_that_of_the_observed_cells_alone():
    outputs = np.log(np.array([[0.2, 0.8, 0.5, 0.25, 0.25], [0.2, 0.8, 0.5, 0.25, 0.25]])) + 700
    columns = [np.array([1, 2], dtype=np.uint8), np.array([0, 2], dtype=np.uint8)]
    found, slopes = cross_entropy(outputs, columns, (2, 3))
    np.testing.assert_allclose(found, [-math.log(0.8) - math.log(0.5), -math.log(0.25)])
    np.testing.assert_allclose(slopes, [[0.2, -0.2, -0.5, 0.25, 0.25], [0, 0, 0.5, 0.25, -0.75]], atol=1e-12)


def test_indicators_have_a_one_for_each_column():
    columns = [np.array([0, 2], dtype=np.uint8), np.array([200, 1], dtype=np.uint8)]
    found = one_hot(columns, (3, 201))
    assert found.sum() == 4
    assert found[0, 0] == found[1, 2] == found[0, 203] == found[1, 4] == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_clipped_sum_is_that_of_jax_privacy():
    jp = pytest.importorskip("jax_privacy")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    trained, rows = program("two layers"), block(rows=64)
    keep = rows.columns[2] < OBSERVED[2]
    state = trained.start()
    gradients = trained.gradients(state, rows)
    lengths = np.sqrt(gradients.squared_norms())
    clip = float(np.median(lengths[keep]))
    ours = gradients.total(np.where(keep, np.minimum(1, clip / np.where(keep, lengths, 1)), 0))

    def loss(weights, inputs, labels):
        hidden = jax.nn.relu(inputs @ weights["a"] + weights["b"])
        logits = hidden @ weights["c"] + weights["d"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    (a, b), _, (c, d) = state.weights
    inputs = one_hot(rows.columns[:2], SIZES[:2])[keep]
    theirs = jp.clipped_grad(loss, l2_clip_norm=clip, batch_argnums=(1, 2))(
        {"a": jnp.array(a), "b": jnp.array(b), "c": jnp.array(c), "d": jnp.array(d)},
        jnp.array(inputs),
        jnp.array(rows.columns[2][keep].astype(np.int64)),
    )
    flat = np.concatenate([np.asarray(theirs[name]).ravel() for name in "abcd"])
    np.testing.assert_allclose(ours, flat, atol=1e-9)
