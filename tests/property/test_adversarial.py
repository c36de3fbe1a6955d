"""Two critics clipped together: what one row adds to both is no longer than Δ, on random neighbouring tables.

The sum of a step before noise; every subset of rows is a lot that chance may have drawn, so all rows are drawn here.
"""

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.data.training import training_rows
from gapless.model.neural.layers import PairwiseCritic
from gapless.privacy import PrivateTraining, Rows, Sampled
from gapless.privacy.sgd import BLOCK, SLACK, SUM_BITS
from gapless.synth.adversarial.game import Game, Generator, Opponents
from gapless.synth.adversarial.generative import network
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import NoNoise
from helpers.examples import examples
from helpers.open_sealed import reveal
from helpers.optimizers import plain_steps

SIZES = (2, 3, 2)
SCHEMA = letters_schema(SIZES)
LETTERS = [
    [*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)
]
row = st.tuples(*(st.sampled_from(letters) for letters in LETTERS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=8), st.lists(row, min_size=1, max_size=k))
)


def side(lines):
    """A generator of two cells for each column against a critic of these points."""
    heads = np.zeros((2 * len(lines), sum(points.shape[1] for points in lines)))
    generator = Generator(network=network(2, 2, 2 * len(lines)), sizes=(2,) * len(lines), noise=2, bias=np.zeros(6))
    pairs = PairwiseCritic(tuple(points.shape[1] for points in lines))
    return Opponents(
        generator=generator,
        code_points=lines,
        cell_points=heads,
        critic=pairs,
        initial=np.zeros(sum(generator.network.shapes)),
    )


def game(scale, seed):
    """Rows and masks, at points of any length: lines of gaps are 0 for the first."""
    rng, columns = np.random.default_rng(seed), SCHEMA.columns
    rows = tuple(
        scale * np.vstack([rng.standard_normal((c.size, c.size)), np.zeros((c.extended_size - c.size, c.size))])
        for c in columns
    )
    masks = tuple(scale * rng.standard_normal((c.extended_size, c.extended_size - c.size)) for c in columns)
    optimizer = plain_steps()
    return Game(
        sides=(side(rows), side(masks)), optimizer=optimizer, batch_size=1.0, memory=1.0, rounds=1, made=2, averaged=0.5
    )  # memory of 1: what is remembered is the last sum


def summed(played, clip, table):
    """The sum of a step at which everybody is, in steps of the grid."""
    value = reveal(training_rows(table, played), table.ledger)
    mechanism = PrivateTraining(rate=1.0, steps=1, clip=clip, std=1.0, numbers=played.numbers)
    return np.rint(mechanism(value, NoNoise())[: mechanism.numbers] / (clip * 2.0**-20))


def farther(pair, scale, seed, clip, before=0):
    """How far a person's rows move the sum, as a share of what is charged for."""
    k, rows, more = pair
    rows = [("a", "a", "b")] * before + rows
    folder, played = Path(tempfile.mkdtemp()), game(scale, seed)
    tables = [private(r, SCHEMA, folder, protect=Rows(k)) for r in (rows, more[:1] + rows + more[1:])]
    assert training_rows(tables[0], played).distance == Sampled(k)
    less, greater = (summed(played, clip, table) for table in tables)
    reach = 1 + math.sqrt(played.numbers) * 2.0**-20 + SLACK
    return float(np.linalg.norm(greater - less)) / 2**20 / (len(more) * reach)


@examples(60)
@given(
    pair=neighbours,
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    seed=st.integers(0, 99),
    clip=st.sampled_from([0.25, 2.0]),
    before=st.sampled_from([0, BLOCK - 1]),
)
def test_both_critics_together_move_by_no_more_than_one_row_is_charged_for(pair, scale, seed, clip, before):
    assert farther(pair, scale, seed, clip, before) <= 1


CLIPPED = PrivateTraining.clipped


def each_critic_by_itself(mechanism, gradients, rows):
    """Planted: two critics, each cut to the whole length, paid once."""
    return np.concatenate([CLIPPED(mechanism, part, rows) for part in gradients.parts])


def only_the_first(mechanism, gradients, rows):
    """Planted: the length is that of one critic's gradient."""
    first = replace(gradients, parts=gradients.parts[:1])
    weights = np.minimum(1.0, mechanism.clip / np.maximum(np.sqrt(first.squared_norms()), 1e-300))
    weights[rows:] = 0.0
    return gradients.integer_total(weights * (2.0**SUM_BITS / mechanism.clip))


@pytest.mark.parametrize("wrong", [each_critic_by_itself, only_the_first])
def test_critics_that_are_clipped_apart_are_found(wrong):
    pair = (1, [("a", "b", "a")], [("b", None, "b")])
    honest = [farther(pair, 30.0, seed, 0.25) for seed in range(4)]
    assert max(honest) <= 1
    assert max(honest) > 0.99  # as long as is charged for
    with mock.patch.object(PrivateTraining, "clipped", wrong):
        assert max(farther(pair, 30.0, seed, 0.25) for seed in range(4)) > 1.2
