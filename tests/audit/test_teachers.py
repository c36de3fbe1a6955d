"""Attacks on releases by teachers: what is charged covers the true loss, and planted charges and noise are caught.

Tests of chance raise a false alarm with probability at most 1e-6 each; the others are exact or by quadrature.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from gapless.privacy import Budget, Sampled, SubsampledTeacher, TeacherVotes
from gapless.privacy.noise import SystemNoise
from gapless.privacy.sgd import subsampled_loss
from gapless.privacy.teachers import draw_teachers, subsampled_teacher_loss
from gapless.testing.audit import mu_at_least
from gapless.testing.noise import ScaledNoise

ONE_ROW = Sampled(1)
ORDERS = (2, 3, 5, 12)


# ------------------------------------------------------------------ the charge, against the divergence itself


def divergence(order, chance, centres, std):
    """Of a step in which one teacher of many has another answer, by quadrature; the others' answer is fixed."""
    p, q, others = centres
    x = np.linspace(min(centres) - 12 * std, max(centres) + 12 * std, 40_001)
    logs = {centre: stats.norm.logpdf(x, centre, std) for centre in centres}
    rest = np.log1p(-chance) + logs[others] if chance < 1 else np.full_like(x, -np.inf)
    above, below = (np.logaddexp(rest, np.log(chance) + logs[centre]) for centre in (p, q))
    return (logsumexp(order * above + (1 - order) * below) + math.log(x[1] - x[0])) / (order - 1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("chance", [1.0, 0.3, 0.01])
@pytest.mark.parametrize("std", [0.4, 1.0, 3.0])
def test_the_charge_covers_the_true_loss_for_all_other_rows(order, chance, std):
    charged = subsampled_teacher_loss(chance, 1 / std, order)
    for others in (0.0, 0.3, 0.5, 1.0):
        for centres in ((1.0, 0.0, others), (0.0, 1.0, others)):
            assert divergence(order, chance, centres, std) <= charged * (1 + 1e-6)


def test_with_one_teacher_the_bound_is_that_of_the_noise():
    """With one teacher nothing is hidden: the bound is that of the noise alone."""
    for order in ORDERS:
        assert subsampled_teacher_loss(1.0, 0.5, order) == pytest.approx(order * 0.25 / 2, rel=1e-6)


def loss(**more):
    settings = {"teachers": 1, "steps": 1, "clip": 1.0, "std": 20.0, "vectors": 128, "numbers": 128 * 30} | more
    return SubsampledTeacher(**settings).loss(ONE_ROW, 8.0).value


def flipped(vectors, std, order):
    """The loss of a step whose critic turns from w to -w: attained by a linear critic of unit length."""
    return order * (2 * math.sqrt(vectors) / std) ** 2 / 2


def test_a_critic_that_turns_around_is_paid_for():
    assert flipped(128, 20.0, 8.0) <= loss() <= flipped(128, 20.0, 8.0) * 1.01


def test_the_charges_of_the_paper_are_caught():
    """Planted: sensitivity 2 for all made rows together; and q = B/n for critics that remember all rows."""
    truth = flipped(128, 20.0, 8.0)
    assert truth / 100 > 8.0 * (2 / 20.0) ** 2 / 2  # sensitivity 2 in place of 2√(2B)
    assert subsampled_loss(64 / 32_561, 2 * math.sqrt(128) / 20.0, 8.0) < truth / 100  # as if rows were drawn anew
    assert loss(vectors=1) < truth / 100
    assert loss(teachers=1000) < truth  # what a parting of rows would buy, if there were one


# ------------------------------------------------------------------ one step, by experiment


@dataclass(frozen=True)
class Turning:
    """A ensemble whose single teacher says +1 everywhere if it has a row, and -1 if it has none."""

    answers: tuple[int, int]
    teachers: int = 1

    def start(self):
        return []

    def summarize(self, columns, teacher):
        return np.array([[len(teacher)]])

    def prepare(self, sums):
        return sums

    def ask(self, state, prepared, step, teacher):
        return np.full(self.answers, 1.0 if prepared.any() else -1.0).reshape(
            (1, -1) if teacher is None else self.answers
        )

    def follow(self, state, noisy, step):
        return [*state, float(noisy.sum())]

    def outcome(self, state):
        return np.array(state)


@dataclass(frozen=True)
class Rows:
    """A table with this number of rows."""

    program: Turning
    many: int

    def batches(self, teacher_sampler):
        yield (np.zeros(self.many, dtype=np.uint8),), teacher_sampler(self.many)

    def report_progress(self, steps):
        pass


TRIALS, BUDGET = 4_000, Budget(5.0, 1e-6)


def share(mechanism, price, answers, middle, noise):
    """A lower bound on the Gaussian-DP parameter of a step, as a share of the one that is paid for."""
    less, more = (mechanism(Rows(Turning(answers), many), noise) for many in (0, 1))
    claimed = math.sqrt(2 * price / BUDGET.order)
    return mu_at_least(int((more > middle).sum()), int((less > middle).sum()), TRIALS) / claimed


def votes(noise, **planted):
    mechanism = TeacherVotes.for_loss(BUDGET.capacity, ONE_ROW, teachers=1, steps=1, queries=16)
    price = TeacherVotes(**{"teachers": 1, "steps": 1, "queries": 16, "std": mechanism.std} | planted).loss(
        ONE_ROW, BUDGET.order
    )
    many = TeacherVotes(teachers=1, steps=TRIALS, queries=16, std=mechanism.std)
    return share(many, price.value, (16, 1), 8, noise)


def vectors(noise, **planted):
    mechanism = SubsampledTeacher.for_loss(
        BUDGET.capacity, ONE_ROW, teachers=1, steps=1, clip=1.0, vectors=16, numbers=16
    )
    settings = {"teachers": 1, "steps": 1, "clip": 1.0, "std": mechanism.std, "vectors": 16, "numbers": 16}
    price = SubsampledTeacher(**settings | planted).loss(ONE_ROW, BUDGET.order)
    many = SubsampledTeacher(**settings | {"steps": TRIALS})
    return share(many, price.value, (16, 1), 0, noise)


@pytest.mark.parametrize("audited", [votes, vectors])
def test_a_step_reveals_no_more_than_is_charged_for_and_half_the_noise_is_caught(audited):
    assert 0.5 < audited(SystemNoise()) <= 1
    assert audited(ScaledNoise(0.5, SystemNoise())) > 1


@pytest.mark.parametrize(("audited", "planted"), [(votes, {"queries": 1}), (vectors, {"vectors": 1})])
def test_a_charge_for_one_made_row_in_place_of_all_is_caught(audited, planted):
    assert audited(SystemNoise(), **planted) > 1


# ------------------------------------------------------------------ who goes where


@pytest.mark.parametrize("teachers", [1, 3, 1000])
def test_teachers_are_drawn_evenly(teachers):
    counts = np.bincount(draw_teachers(teachers, 200_000, SystemNoise()), minlength=teachers)
    assert stats.chisquare(counts).pvalue > 1e-6 if teachers > 1 else counts.tolist() == [200_000]
    skewed = np.bincount(draw_teachers(teachers, 200_000, SystemNoise()) // 2, minlength=teachers)  # planted
    assert teachers == 1 or stats.chisquare(skewed).pvalue < 1e-6
