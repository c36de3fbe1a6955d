"""Teachers on random neighbouring tables: no more of them change than rows come, and what they say moves no farther.

Rows keep their teacher when others come: the draws are coupled, as in docs/proofs/teachers.md.
"""

import math
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.data.training import teacher_rows
from gapless.privacy import Rows, Sampled, SubsampledTeacher
from gapless.privacy.sgd import SLACK
from gapless.synth.adversarial import game as teaching
from gapless.testing.audit import letters_schema, private
from helpers.examples import examples
from helpers.open_sealed import reveal
from helpers.teacher_ensembles import gradient_game, vote_game

SIZES = (2, 3, 2)
SCHEMA = letters_schema(SIZES)
LETTERS = [
    [*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)
]
row = st.tuples(*(st.sampled_from(letters) for letters in LETTERS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=12), st.lists(row, min_size=1, max_size=k))
)
TEACHERS = 4


def lessons(ensemble, rows, unit, drawn):
    """What teachers keep of a table, rows in order given to those that `drawn` says."""
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()), protect=Rows(unit))
    sealed = teacher_rows(table, ensemble)
    assert sealed.distance == Sampled(unit)
    places = iter(drawn)
    parts = reveal(sealed, table.ledger).batches(lambda many: np.array([next(places) for _ in range(many)], dtype=int))
    return sum(ensemble.summarize(columns, teacher) for columns, teacher in parts)


def both(ensemble, pair, seed):
    k, rows, more = pair
    drawn = np.random.default_rng(seed).integers(TEACHERS, size=len(rows) + len(more)).tolist()
    before, after = lessons(ensemble, rows, k, drawn), lessons(ensemble, rows + more, k, drawn)
    return before, after


@examples(40)
@given(pair=neighbours, seed=st.integers(0, 99))
def test_each_row_changes_one_teacher_and_each_vote_by_one(pair, seed):
    ensemble, many = vote_game(SCHEMA, TEACHERS, seed=seed), len(pair[2])
    before, after = both(ensemble, pair, seed)
    assert (before != after).any(axis=1).sum() <= many
    state = ensemble.start()
    less, greater = (ensemble.ask(state, ensemble.prepare(kept), 0, None) for kept in (before, after))
    assert set(np.unique(less)) <= {0.0, 1.0}
    assert (less != greater).any(axis=1).sum() <= many
    assert np.abs(less.sum(axis=0) - greater.sum(axis=0)).max() <= many


@examples(40)
@given(pair=neighbours, seed=st.integers(0, 99), kind=st.sampled_from([vote_game, gradient_game]))
def test_teachers_without_the_rows_that_come_say_the_same_to_the_last_bit(pair, seed, kind):
    ensemble = kind(SCHEMA, TEACHERS, seed=seed)
    before, after = both(ensemble, pair, seed)
    state = ensemble.start()
    for teacher in np.flatnonzero((before == after).all(axis=1)):
        answers = [
            ensemble.ask(state, ensemble.prepare(kept), 0, None)[teacher]
            if kind is vote_game
            else ensemble.ask(state, ensemble.prepare(kept), 0, int(teacher))
            for kept in (before, after)
        ]
        assert np.array_equal(*answers)


@examples(40)
@given(pair=neighbours, seed=st.integers(0, 99), clip=st.sampled_from([0.01, 1.0]))
def test_two_answers_are_no_farther_apart_than_is_charged_for(pair, seed, clip):
    ensemble = gradient_game(SCHEMA, TEACHERS, seed=seed)
    vectors, width = ensemble.answers
    mechanism = SubsampledTeacher(
        teachers=TEACHERS, steps=1, clip=clip, std=1.0, vectors=vectors, numbers=vectors * width
    )
    state, answers = ensemble.start(), []
    for kept in both(ensemble, pair, seed):
        prepared = ensemble.prepare(kept)
        answers += [mechanism.clipped(ensemble.ask(state, prepared, 0, teacher)) for teacher in range(TEACHERS)]
    grid = [np.rint(answer / (clip * 2.0**-20)) for answer in answers]
    reach = 2 * math.sqrt(vectors) + math.sqrt(vectors * width) * 2.0**-20 + SLACK
    assert max(np.linalg.norm(a - b) for a in grid for b in grid) / 2**20 <= reach


def test_a_teacher_is_the_same_however_rows_come_in_batches(monkeypatch):
    ensemble = vote_game(SCHEMA, TEACHERS)
    rng = np.random.default_rng(1)
    columns = tuple(rng.integers(column.extended_size, size=500) for column in SCHEMA.columns)
    teacher = rng.integers(TEACHERS, size=500)
    whole = ensemble.summarize(columns, teacher)
    order = rng.permutation(500)
    parts = [order[:3], order[3:77], order[77:]]
    assert np.array_equal(whole, sum(ensemble.summarize(tuple(c[p] for c in columns), teacher[p]) for p in parts))
    assert whole.dtype == np.int64
    prepared = ensemble.prepare(whole)
    alone = ensemble.ask(ensemble.start(), prepared, 0, 2)
    assert np.array_equal(alone[0], ensemble.ask(ensemble.start(), prepared, 0, None)[2])


def seeing_all(self, columns, teacher):
    """Planted: every teacher is shown all rows, as the one pair of critics of [MD]."""
    once = LESSONS(self, columns, np.zeros_like(teacher))
    return np.repeat(once[:1], self.teachers, axis=0)


def by_order(self, columns, teacher):
    """Planted: rows are cut into equal chunks, which one row more shifts."""
    return LESSONS(self, columns, np.arange(len(teacher)) * self.teachers // max(1, len(teacher)))


LESSONS = teaching._TeacherGame.summarize


@pytest.mark.parametrize("wrong", [seeing_all, by_order])
def test_teachers_who_share_rows_are_found(wrong):
    rows = [("a", "b", "a"), ("b", "c", "b"), ("a", "a", "b"), ("b", "a", "a")] * 2
    with mock.patch.object(teaching._TeacherGame, "summarize", wrong):
        before, after = both(vote_game(SCHEMA, TEACHERS), (1, rows, [("b", None, "b")]), 0)
    assert (before != after).any(axis=1).sum() > 1
