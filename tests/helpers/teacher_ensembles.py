"""Small games for ensembles of teachers, on tables of letters."""

from typing import Any

import numpy as np

from gapless.data import PrivateTable
from gapless.data.training import teacher_rows
from gapless.schema import Schema
from gapless.synth.adversarial.game import Game, Generator, GradientGame, Opponents, VoteGame
from gapless.synth.adversarial.generative import network
from helpers.optimizers import plain_steps


def game(schema: Schema, sides: int = 1, seed: int = 0) -> Game:
    """Generators of rows, and of masks if there are two sides, that draw all codes of a column alike."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(sides):
        sizes = [column.extended_size for column in schema.columns]
        points = [rng.standard_normal((size, size)) for size in sizes]
        generator = Generator(network=network(2, 3, sum(sizes)), sizes=tuple(sizes), noise=2, bias=np.zeros(sum(sizes)))
        found.append(Opponents.of(generator, points, points))
    optimizer = plain_steps(0.1, 9)
    return Game(sides=tuple(found), optimizer=optimizer, batch_size=1.0, memory=1.0, rounds=1, made=4, averaged=0.5)


def vote_game(schema: Schema, teachers: int = 5, made: int = 8, seed: int = 0) -> VoteGame:
    """All teachers vote on made rows."""
    return VoteGame(game=game(schema, seed=seed), teachers=teachers, made=made, steps=9, reach=1.0)


def gradient_game(schema: Schema, teachers: int = 5, made: int = 4, seed: int = 0) -> GradientGame:
    """One teacher at a time is asked for gradients."""
    return GradientGame(game=game(schema, 2, seed), teachers=teachers, made=made)


def prepare_example(table: PrivateTable, name: str) -> tuple[Any, dict[str, Any]]:
    """The rows prepared for teachers, and the settings of the mechanism that asks them."""
    if name == "TeacherVotes":
        return teacher_rows(table, vote_game(table.schema)), {"teachers": 5, "steps": 3, "queries": 8}
    ensemble = gradient_game(table.schema)
    vectors, width = ensemble.answers
    settings = {"teachers": 5, "steps": 3, "clip": 1.0, "vectors": vectors, "numbers": vectors * width}
    return teacher_rows(table, ensemble), settings
