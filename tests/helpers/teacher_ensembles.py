"""Small games for ensembles of teachers, on tables of letters."""

from typing import Any

import numpy as np

from gapless.data import PrivateTable
from gapless.data.training import teacher_rows
from gapless.schema import Schema
from gapless.synth.adversarial.game import Game, Generator, Poll, Side, Tutors
from gapless.synth.adversarial.generative import network
from helpers.optimizers import plain_steps


def game(schema: Schema, sides: int = 1, seed: int = 0) -> Game:
    """Generators of rows, and of masks if there are two sides, that draw all codes of a column alike."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(sides):
        sizes = [column.extended_size for column in schema.columns]
        points = [rng.standard_normal((size, size)) for size in sizes]
        generator = Generator(network=network(2, 3, sum(sizes)), sizes=tuple(sizes), noise=2, bias=np.zeros(sum(sizes)))
        found.append(Side.of(generator, points, points))
    optimizer = plain_steps(0.1, 9)
    return Game(sides=tuple(found), optimizer=optimizer, lot=1.0, memory=1.0, rounds=1, made=4, averaged=0.5)


def poll(schema: Schema, teachers: int = 5, made: int = 8, seed: int = 0) -> Poll:
    """All teachers vote on made rows."""
    return Poll(game=game(schema, seed=seed), teachers=teachers, made=made, steps=9, reach=1.0)


def tutors(schema: Schema, teachers: int = 5, made: int = 4, seed: int = 0) -> Tutors:
    """One teacher at a time is asked for gradients."""
    return Tutors(game=game(schema, 2, seed), teachers=teachers, made=made)


def taught(table: PrivateTable, name: str) -> tuple[Any, dict[str, Any]]:
    """The rows prepared for teachers, and the settings of the mechanism that asks them."""
    if name == "TeacherVotes":
        return teacher_rows(table, poll(table.schema)), {"teachers": 5, "steps": 3, "queries": 8}
    school = tutors(table.schema)
    vectors, width = school.answers
    settings = {"teachers": 5, "steps": 3, "clip": 1.0, "vectors": vectors, "numbers": vectors * width}
    return teacher_rows(table, school), settings
