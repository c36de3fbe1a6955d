"""Mechanisms that ask teachers: prices, settings, noise, refusals."""

import math
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import gapless as gl
from gapless.data.training import teacher_rows
from gapless.privacy import L1, Budget, Sampled, SubsampledTeacher, TeacherVotes
from gapless.privacy.budget import PURE
from gapless.privacy.noise import SystemNoise
from gapless.privacy.registry import recomputed_loss
from gapless.privacy.sgd import HIGHEST_ORDER
from gapless.privacy.teachers import draw_teachers, subsampled_teacher_loss
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import _active
from helpers.counting_noise import CountingNoise
from helpers.teacher_ensembles import gradient_game, prepare_example, vote_game

VOTES = {"teachers": 5, "steps": 3, "queries": 8}
ANSWERS = {"teachers": 5, "steps": 3, "clip": 1.0, "vectors": 8, "numbers": 24}
BOTH = [(TeacherVotes, VOTES), (SubsampledTeacher, ANSWERS)]
ROWS = [("a", "b"), ("b", "a"), (None, "a")]


def test_votes_cost_as_in_the_formula():
    assert TeacherVotes(**VOTES, std=7.0).loss(Sampled(1), 4.0).value == pytest.approx(4 * 3 * 8 / (2 * 49))
    assert TeacherVotes(**VOTES, std=7.0).loss(Sampled(2), 4.0).value == pytest.approx(4 * 4 * 3 * 8 / (2 * 49))
    assert TeacherVotes(**VOTES, std=7.0).loss(Sampled(9), 4.0).value == pytest.approx(25 * 4 * 3 * 8 / (2 * 49))


@pytest.mark.parametrize(("multiplier", "epsilon"), [(0.98, 1.0), (0.64, 3.0), (0.46, 9.5)])
def test_one_of_a_thousand_costs_what_was_computed_by_others(multiplier, epsilon):
    """PRIVACY B: 2,000 steps, δ = 1e-6."""
    found = [
        2000 * subsampled_teacher_loss(1 / 1000, 1 / multiplier, order)
        + math.log((order - 1) / order)
        - (math.log(1e-6) + math.log(order)) / (order - 1)
        for order in range(2, 64)
    ]
    assert min(found) == pytest.approx(epsilon, rel=0.02)


def moment(chance, s, order):
    """The sum of docs/proofs/teachers.md, written out."""
    revealed = chance * math.expm1(order * (order - 1) * s)
    secret = math.comb(order, 2) * chance**2 * min(4 * math.expm1(2 * s), 2 * math.exp(2 * s))
    secret += sum(math.comb(order, j) * chance**j * 2 * math.exp(j * (j - 1) * s) for j in range(3, order + 1))
    return math.log1p(min(revealed, secret))


@pytest.mark.parametrize("order", [2, 3, 4, 9, 20])
@pytest.mark.parametrize("chance", [1.0, 0.4, 0.02, 1e-3, 1e-6])
@pytest.mark.parametrize("shift", [1e-4, 0.05, 0.3, 1.0, 1.5])
def test_a_subsampled_teacher_costs_as_in_the_formula(order, chance, shift):
    cost = moment(chance, shift**2 / 2, order)
    found = subsampled_teacher_loss(chance, shift, order)
    assert cost / (order - 1) <= found <= cost / (order - 1) * (1 + 1e-8)
    above = 0.75 * cost + 0.25 * moment(chance, shift**2 / 2, order + 1)
    assert subsampled_teacher_loss(chance, shift, order + 0.25) == pytest.approx(above / (order - 0.75), rel=1e-8)
    below = subsampled_teacher_loss(chance, shift, 1.01)  # (α - 1) times the loss is 0 at 1
    assert below == pytest.approx(moment(chance, shift**2 / 2, 2), rel=1e-8)


@pytest.mark.parametrize(("rows", "chance"), [(1, 0.2), (3, 0.6), (9, 1.0)])
def test_answers_cost_as_in_the_formula(rows, chance):
    mechanism = SubsampledTeacher(**ANSWERS | {"numbers": 24 * 2**20}, std=40.0)
    apart = 2 * math.sqrt(8) + math.sqrt(24 * 2**20) * 2**-20 + 2**-13
    cost = 3 * moment(chance, (apart / 40) ** 2 / 2, 7) / 6
    assert cost <= mechanism.loss(Sampled(rows), 7.0).value <= cost * (1 + 1e-8)


@pytest.mark.parametrize(("kind", "settings"), BOTH)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_least_noise_that_fits(kind, settings, rows):
    budget = Budget(2.0, 1e-6)
    mechanism = kind.for_loss(budget.capacity, Sampled(rows), **settings)
    cost = mechanism.loss(Sampled(rows), budget.order).value
    assert cost <= budget.capacity.value
    assert cost == pytest.approx(budget.capacity.value, rel=1e-6)
    assert recomputed_loss(mechanism.parameters(), {"Sampled": rows}, budget.order) == cost


@pytest.mark.parametrize(("kind", "settings"), BOTH)
def test_more_of_anything_costs_more(kind, settings):
    cost = kind(**settings, std=9.0).loss(Sampled(1), 6.0).value
    assert kind(**settings | {"steps": 4}, std=9.0).loss(Sampled(1), 6.0).value > cost
    assert kind(**settings, std=8.0).loss(Sampled(1), 6.0).value > cost
    assert kind(**settings, std=9.0).loss(Sampled(2), 6.0).value > cost
    many = "queries" if kind is TeacherVotes else "vectors"
    assert kind(**settings | {many: 9}, std=9.0).loss(Sampled(1), 6.0).value > cost


@pytest.mark.parametrize(("kind", "settings"), BOTH)
def test_refusals(kind, settings):
    with pytest.raises(gl.errors.BudgetError, match="needs δ above 0, but this ledger has δ = 0"):
        kind(**settings, std=9.0).loss(Sampled(1), PURE)
    with pytest.raises(gl.errors.BudgetError, match="the mechanism needs a value whose distance is bounded as Sampled"):
        kind(**settings, std=9.0).loss(L1(1), 6.0)
    with pytest.raises(gl.errors.BudgetError, match="std = 0"):
        kind(**settings, std=0)
    with pytest.raises(gl.errors.BudgetError, match="teachers = 0"):
        kind(**settings | {"teachers": 0}, std=1.0)
    with pytest.raises(gl.errors.BudgetError, match="too small for training"):
        kind.for_loss(gl.Loss(1e-40, 8.0), Sampled(1), **settings)


def test_orders_without_end_are_refused():
    with pytest.raises(gl.errors.BudgetError, match="up to the Rényi order 16384, but"):
        SubsampledTeacher(**ANSWERS, std=9.0).loss(Sampled(1), HIGHEST_ORDER + 1.0)


@pytest.mark.parametrize("rows", [[], ROWS])
@pytest.mark.parametrize("name", ["TeacherVotes", "SubsampledTeacher"])
def test_as_many_noisy_answers_as_charged_for_any_rows(name, rows, tmp_path):
    table = private(rows, letters_schema([2, 2]), tmp_path, budget=Budget(8.0, 1e-6))
    value, settings = prepare_example(table, name)
    mechanism = {"TeacherVotes": TeacherVotes, "SubsampledTeacher": SubsampledTeacher}[name].for_loss(
        table.ledger.left, value.distance, **settings
    )
    with _active(source := CountingNoise()):
        table.ledger.grant(table.ledger.left, to="test").release(value, mechanism, what="x")
    (entry,) = table.ledger.entries
    assert entry.reads is None
    std, size = (mechanism.std, 8) if name == "TeacherVotes" else (mechanism.std * 2**20, settings["numbers"])
    assert source.drawn == [(pytest.approx(std), size)] * 3


@pytest.mark.parametrize("other", [{"teachers": 5, "queries": 7}, {"teachers": 10, "queries": 8}])
def test_answers_of_another_shape_than_was_paid_for_are_refused(other, tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, budget=Budget(8.0, 1e-6))
    value = teacher_rows(table, vote_game(table.schema))
    fewer = TeacherVotes.for_loss(table.ledger.left, value.distance, steps=3, **other)
    with pytest.raises(gl.errors.BudgetError, match=r"the noise was charged for .* teachers(.|\n)*Try: pass teachers="):
        table.ledger.grant(table.ledger.left, to="test").release(value, fewer, what="x")


def test_programs_of_others_see_no_row(tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path)
    with pytest.raises(gl.errors.ModelError, match="is not of this library"):
        teacher_rows(table, object())
    with pytest.raises(gl.errors.SealedError, match="teacher_rows"):
        teacher_rows(object(), vote_game(table.schema))


def test_an_ensemble_that_does_not_take_a_code_is_refused_before_the_charge(tmp_path):
    table = private([("a", "a")], letters_schema([2, 3]), tmp_path)
    for ensemble in (vote_game(letters_schema([2, 2])), gradient_game(letters_schema([2, 2]))):
        with pytest.raises(
            gl.errors.ModelError,
            match=r"fails for columns whose numbers of codes are 3, 6, (.|\n)*Try: pass an ensemble made for",
        ):
            teacher_rows(table, ensemble)
    assert not table.ledger.entries


@pytest.mark.parametrize("name", ["TeacherVotes", "SubsampledTeacher"])
def test_no_warning_reveals_rows_even_where_warnings_are_errors(name, tmp_path):
    """Points beyond what floats hold, of codes that only one of the rows has."""
    table = private([("b", "b")], letters_schema([2, 2]), tmp_path, budget=Budget(8.0, 1e-6))
    ensemble = {"TeacherVotes": vote_game, "SubsampledTeacher": gradient_game}[name](table.schema)
    far = [
        np.where(np.arange(len(points))[:, None] == 1, 1e200, points) for points in ensemble.game.sides[0].code_points
    ]
    sides = replace(ensemble.game.sides[0], code_points=tuple(far)), *ensemble.game.sides[1:]
    value = teacher_rows(table, replace(ensemble, game=replace(ensemble.game, sides=sides)))
    _, settings = prepare_example(table, name)
    kind = {"TeacherVotes": TeacherVotes, "SubsampledTeacher": SubsampledTeacher}[name]
    mechanism = kind.for_loss(table.ledger.left, value.distance, **settings)
    with np.errstate(over="raise", invalid="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        table.ledger.grant(table.ledger.left, to="test").release(value, mechanism, what="x")


# ------------------------------------------------------------------ the loops, word by word


@dataclass
class ScriptedNoise:
    """A noise source with given words and noise 0."""

    left: list[int]

    def uniform_words(self, size):
        found, self.left = self.left[:size], self.left[size:]
        return np.array(found, dtype=np.uint64)

    def discrete_gaussian(self, std, size):
        return np.zeros(size, dtype=np.int64)


@dataclass
class Three:
    """An ensemble of three teachers who count their rows, answer above the clipping norm, and record who was asked."""

    answers: tuple[int, int]
    teachers: int = 3
    asked: list[int] = field(default_factory=list)

    def start(self):
        return []

    def summarize(self, columns, teacher):
        return np.bincount(teacher, minlength=3)[:, None]

    def prepare(self, sums):
        return sums

    def ask(self, state, prepared, step, teacher):
        self.asked.append(teacher)
        answer = np.array([[30.0, 40.0], [0.3, -0.4], [1 / 3, 1 / 7]])
        return (prepared - 1.0) * 17 if teacher is None else answer * (1 + prepared[teacher])

    def follow(self, state, noisy, step):
        return [*state, noisy]

    def outcome(self, state):
        return np.array(state)


@dataclass
class Four:
    """Four rows, which are handed out once."""

    program: Three
    handed: int = 0

    def batches(self, teacher_sampler):
        self.handed += 1
        yield (np.zeros(4, dtype=np.uint8),), teacher_sampler(4)

    def report_progress(self, steps):
        self.done_steps = steps


def test_votes_are_counted_and_rows_are_distributed_once():
    rows, source = Four(Three((1, 1))), ScriptedNoise([4, 2, 0, 1])  # to the second twice, to the others once
    found = TeacherVotes(teachers=3, steps=5, queries=1, std=1.0)(rows, source)
    assert [noisy.tolist() for noisy in found] == [[1.0]] * 5
    assert rows.handed == 1
    assert source.left == []


def test_a_teacher_is_drawn_at_each_step_and_its_answer_clipped_and_rounded():
    rows, source = Four(Three((3, 2))), ScriptedNoise([4, 2, 0, 1, 5, 7, 0, 2])
    found = SubsampledTeacher(teachers=3, steps=4, clip=2.0, std=1.0, vectors=3, numbers=6)(rows, source)
    assert rows.program.asked == [2, 1, 0, 2]
    assert rows.handed == 1
    assert source.left == []
    unit = 2.0**-19
    for noisy, many in zip(found, [1, 2, 1, 1], strict=True):
        assert np.array_equal(noisy / unit, np.rint(noisy / unit))  # whole steps of the grid
        wanted = np.array([[1.2, 1.6], [0.3 * (1 + many), -0.4 * (1 + many)], [(1 + many) / 3, (1 + many) / 7]])
        assert np.abs(noisy - wanted).max() <= 0.5000001 * unit


def test_vectors_are_clipped_and_non_finite_numbers_are_zero():
    mechanism = SubsampledTeacher(**ANSWERS, std=1.0)
    found = mechanism.clipped(np.array([[3.0, 4.0], [0.3, 0.4], [math.inf, 1.0], [math.nan, math.nan], [1e200, 0.0]]))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.3, 0.4], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])


def test_words_that_would_favour_some_teachers_are_drawn_again():
    class RejectedOnce:
        def __init__(self):
            self.given = [np.array([2**64 - 1, 5], dtype=np.uint64), np.array([7], dtype=np.uint64)]

        def uniform_words(self, size):
            found = self.given.pop(0)
            assert len(found) == size
            return found

    assert draw_teachers(10, 2, RejectedOnce()).tolist() == [7, 5]


def test_system_words_are_drawn_again_too():
    """A quarter of the words would favour some of this number of teachers."""
    drawn = draw_teachers(3 * 2**61, 1000, SystemNoise())
    assert drawn.min() >= 0
    assert drawn.max() < 3 * 2**61
    assert abs((drawn < 2**61).mean() - 1 / 3) < 0.1
