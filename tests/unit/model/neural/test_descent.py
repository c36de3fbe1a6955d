"""Optimizers and programs that train one network."""

import math

import numpy as np
import pytest

from gapless.model.neural.descent import (
    LARGEST_PARAMETER,
    Adam,
    CosineSchedule,
    OddsTraining,
    PredictionTask,
    PredictionTraining,
)
from gapless.model.neural.layers import Linear
from gapless.privacy.sgd import Block
from helpers.optimizers import plain_steps


def test_steps_grow_in_a_line_and_fall_along_a_cosine():
    rate = CosineSchedule(rate=2.0, steps=100, warmup=4)
    assert rate.at(0) == 0.5
    assert rate.at(50) == pytest.approx(1.0)
    assert rate.at(99) < 0.001
    assert CosineSchedule(rate=2.0, steps=10).at(0) == 2.0


def test_adam_has_one_second_moment_for_each_group():
    flat = CosineSchedule(rate=1.0, steps=10**9)
    gradient = np.array([3.0, 4.0, 0.5])
    move, moments = Adam(rate=flat).move(None, gradient, 0, (2, 0, 1))
    np.testing.assert_allclose(move, -gradient / np.repeat([math.sqrt(12.5), 0.5], [2, 1]), rtol=1e-6)
    assert moments.second.shape == (2,)
    again, _ = Adam(rate=flat).move(moments, gradient, 1, (2, 0, 1))
    np.testing.assert_allclose(again, move, rtol=1e-6)  # a gradient that stays is followed at one speed


def test_a_training_that_runs_away_stays_finite():
    cells = PredictionTask(given=(0,), sizes=(3,), targets=(1,), cells=(2,))
    trained = PredictionTraining(network=Linear(3, 2), cells=cells, optimizer=plain_steps(1e30, 10), batch_size=1.0)
    state = trained.start()
    for step in range(4):
        state = trained.follow(state, np.full(trained.numbers, 1e9), step)
    assert (state.parameters == -LARGEST_PARAMETER).all()
    rows = Block((np.array([0, 1, 2], dtype=np.uint8), np.array([1, 0, 2], dtype=np.uint8)), 3)
    assert np.isfinite(trained.gradients(state, rows).squared_norms()).all()


def test_log_odds_separate_private_rows_from_public_rows():
    """Private rows are all of the first level, public ones of either."""
    public = (np.array([0, 1] * 50, dtype=np.uint8),)
    optimizer = Adam(rate=CosineSchedule(rate=0.1, steps=60))
    program = OddsTraining(network=Linear(2, 1), sizes=(2,), public=public, optimizer=optimizer, batch_size=20)
    state, private = program.start(), Block((np.zeros(20, dtype=np.uint8),), 20)
    for step in range(60):
        state = program.follow(state, program.gradients(state, private).total(np.ones(20)), step)
    first, second = program.log_odds(program.outcome(state), (np.array([0, 1], dtype=np.uint8),))
    assert first > 0.3 > -0.3 > second
