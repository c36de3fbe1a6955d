"""Attacks on the components of private training, each of which must catch a planted bug.

A whole training has no power against half the noise, so its parts are attacked one by one: how gradients are cut, the
noise of one step, who is in a batch, what is charged, and that noise does not follow the rows. Tests of chance raise a
false alarm with probability at most 1e-6 each; the others are exact.
"""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from gapless.data.training import train
from gapless.model.neural.descent import PredictionTask, PredictionTraining
from gapless.model.neural.gradients import DenseGradients, JointGradients
from gapless.model.neural.layers import Linear
from gapless.privacy import Budget, PrivateTraining, Sampled, sgd
from gapless.privacy.noise import SystemNoise
from gapless.privacy.sgd import BLOCK, SLACK, SUM_BITS, Block, draw_rows, subsampled_loss
from gapless.testing.audit import letters_schema, mu_at_least, private
from gapless.testing.noise import NoNoise, ScaledNoise, _active, scaled_noise
from helpers.optimizers import plain_steps

LEVEL = 1e-6


@dataclass(frozen=True)
class GivenGradients:
    """A program with given gradients of all rows, in parts; its state is the noisy sums of all steps."""

    parts: tuple[np.ndarray, ...]

    @property
    def numbers(self):
        return sum(part.shape[1] for part in self.parts)

    def start(self):
        return []

    def gradients(self, state, block):
        return JointGradients([DenseGradients(part[block.columns[0]]) for part in self.parts])

    def follow(self, state, noisy, step):
        state.append(noisy)
        return state

    def outcome(self, state):
        return np.array(state)


@dataclass(frozen=True)
class Rows:
    """All rows by number, in blocks, for a program with given gradients."""

    program: GivenGradients

    def poisson_sample(self, row_sampler):
        chosen = np.flatnonzero(row_sampler(len(self.program.parts[0])))
        for start in range(0, len(chosen), BLOCK):
            some = chosen[start : start + BLOCK]
            yield Block((np.concatenate([some, np.zeros(BLOCK - len(some), dtype=np.int64)]),), len(some))

    def report_progress(self, steps):
        pass


def sums(mechanism, *parts, noise):
    """The noisy sums of all steps: steps × numbers."""
    program = GivenGradients(tuple(np.asarray(part, dtype=np.float64) for part in parts))
    return replace(mechanism, numbers=program.numbers)(Rows(program), noise)


def training(**more):
    return PrivateTraining(**{"rate": 1.0, "steps": 1, "clip": 1.0, "std": 1.0, "numbers": 1} | more)


# ------------------------------------------------------------------ clipping


def farthest():
    """How far a row can move a sum, at most, over rows that try hard, as a share of what is charged for."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for clip in (0.25, 1.0, 7.0):
        for others in (0, 1, 300):
            fixed = [rng.standard_normal((others, 3)), rng.standard_normal((others, 5))]
            for canary in (
                [10, 0, 0, 0, 0, 0, 0, 0],
                [0.99, 0, 0, 0, 0, 0, 0, 0.99],
                [1e9] * 8,
                [math.inf] * 8,
                [0.5] * 8,
            ):
                row = clip * np.array([canary], dtype=np.float64)
                added = [np.concatenate([part, new]) for part, new in zip(fixed, (row[:, :3], row[:, 3:]), strict=True)]
                before, after = (sums(training(clip=clip), *parts, noise=NoNoise())[0] for parts in (fixed, added))
                reach = 1 + math.sqrt(8) * 2.0**-20 + SLACK
                worst = max(worst, float(np.linalg.norm(after - before)) / clip / reach)
    return worst


def test_no_row_moves_a_sum_by_more_than_is_charged_for():
    assert 0.999 < farthest() <= 1


def clip_the_mean(mechanism, gradients, rows):
    """Planted: all gradients of a block are averaged, and the average is cut."""
    mean = gradients.total(np.r_[np.ones(rows), np.zeros(BLOCK - rows)]) / max(rows, 1)
    cut = mean * min(1, mechanism.clip / max(np.linalg.norm(mean), 1e-300))
    return np.nan_to_num(
        np.rint(cut * rows * (2.0**SUM_BITS / mechanism.clip)), nan=2.0**50
    )  # not finite: it is not left out


def clip_parts(mechanism, gradients, rows):
    """Planted: each part of a gradient is cut by itself, which is paid for once."""
    return np.concatenate([CLIPPED(mechanism, part, rows) for part in gradients.parts])


def clip_twice_as_long(mechanism, gradients, rows):
    """Planted: cut where the squared length is above `clip`, not the length."""
    length = math.sqrt(mechanism.clip)
    return CLIPPED(replace(mechanism, clip=length), gradients, rows) * (length / mechanism.clip)


CLIPPED = PrivateTraining.clipped


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("wrong", [clip_the_mean, clip_parts, clip_twice_as_long])
def test_a_planted_way_of_clipping_is_caught(wrong, monkeypatch):
    monkeypatch.setattr(PrivateTraining, "clipped", wrong)
    assert not farthest() <= 1


# ------------------------------------------------------------------ one step


TRIALS = 4_000


def one_step(noise):
    """A lower bound on the Gaussian-DP parameter of a step in which everybody is, from a gradient of length `clip`.

    As a share of the one that the charge is for: α μ²/2 is the loss at order α.
    """
    budget = Budget(5.0, 1e-6)
    mechanism = PrivateTraining.for_loss(budget.capacity, Sampled(1), rate=1.0, steps=1, clip=2.0, numbers=1)
    many = replace(mechanism, steps=TRIALS)  # the noise of each step is the noise of one
    with_row, without = (sums(many, row, noise=noise)[:, 0] for row in ([[2.0]], np.zeros((0, 1))))
    claimed = math.sqrt(2 * mechanism.loss(Sampled(1), budget.order).value / budget.order)
    return mu_at_least(int((with_row > 1).sum()), int((without > 1).sum()), TRIALS) / claimed


def test_one_step_reveals_no_more_than_is_charged_for_and_half_the_noise_is_caught():
    assert one_step(SystemNoise()) <= 1
    assert one_step(ScaledNoise(0.5, SystemNoise())) > 1


# ------------------------------------------------------------------ who is in a batch


@dataclass(frozen=True)
class OnlyWords:
    """The chance of batches from the operating system, and no noise: for counting who is in them."""

    def uniform_words(self, size):
        return SystemNoise().uniform_words(size)

    def discrete_gaussian(self, std, size):
        return np.zeros(size, dtype=np.int64)


def batches_are_poisson(rate=0.1, steps=400):
    """Whether each row is in each batch with chance `rate`, by itself, on tables of two sizes.

    Rows have gradients of their own directions, so that a sum shows who is in. Three tests for each table, of level
    1e-6/6: how often rows are in batches, how the sizes of batches vary, and how often each row is in.
    """
    worst = 1.0
    for rows in (60, 250):
        seen = np.rint(sums(training(rate=rate, steps=steps), np.eye(rows), noise=OnlyWords()))
        total = stats.binomtest(int(seen.sum()), steps * rows, rate).pvalue
        spread = rate * (1 - rate)
        sizes = ((seen.sum(axis=1) - rows * rate) ** 2).sum() / (rows * spread)
        row_counts = ((seen.sum(axis=0) - steps * rate) ** 2).sum() / (steps * spread)
        chi_squares = [(sizes, steps), (row_counts, rows)]
        worst = min(worst, total, *(2 * min(stats.chi2.cdf(x, n), stats.chi2.sf(x, n)) for x, n in chi_squares))
    return worst > LEVEL / 10  # six tests; chi-square is asymptotic


def test_each_row_is_in_a_batch_with_the_charged_probability():
    assert batches_are_poisson()


def from_the_number_of_rows(rate, rows, noise):
    """Planted: q = B/n, so that batches reveal the number of rows."""
    del rate
    return draw_rows(min(1.0, 10 / max(rows, 1)), rows, noise)


def of_one_size(rate, rows, noise):
    """Planted: a shuffled table in equal parts, charged as if each row were drawn by itself."""
    drawn = np.zeros(rows, dtype=bool)
    drawn[np.argsort(noise.uniform_words(rows))[: round(rate * rows)]] = True
    return drawn


def always_the_same(rate, rows, noise):
    """Planted: one batch for all steps."""
    del noise
    return np.random.default_rng(0).random(rows) < rate


@pytest.mark.parametrize("wrong", [from_the_number_of_rows, of_one_size, always_the_same])
def test_planted_batch_sampling_is_caught(wrong, monkeypatch):
    monkeypatch.setattr(sgd, "draw_rows", wrong)
    assert not batches_are_poisson()


# ------------------------------------------------------------------ what is charged


def true_loss(rate, std, order):
    """The larger of both directions, by numerical integration of continuous noise: no code in common with ours."""
    grid, step = np.linspace(-80, 400, 100_001, retstep=True)
    plain = -(grid**2) / 2 + math.log(step / math.sqrt(2 * math.pi))
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + grid / std - 1 / (2 * std**2))
    return max(logsumexp(plain + order * ratio), logsumexp(plain + (1 - order) * ratio)) / (order - 1)


CASES = [
    (rate, std, order) for rate in (0.01, 0.1, 0.4) for std in (0.8, 2.0, 6.0) for order in (3.84608, 8.92606, 21.9845)
]


def charges_enough(loss):
    return all(loss(rate, std, order) >= true_loss(rate, std, order) for rate, std, order in CASES)


def test_the_charge_covers_the_true_loss():
    assert charges_enough(lambda rate, std, order: subsampled_loss(rate, 1 / std, order))
    for rate, std, order in CASES:
        loss = subsampled_loss(rate, 1 / std, order)
        assert loss <= true_loss(rate, std, math.ceil(order)) * (1 + 1e-6)  # never above the next whole order


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rate, std, order: subsampled_loss(rate / 2, 1 / std, order),
        lambda rate, std, order: subsampled_loss(rate, 1 / std, math.floor(order)),
        lambda rate, std, order: subsampled_loss(rate, 0.5 / std, order),
        lambda rate, std, order: rate**2 * order / std**2 / 2,  # "q² for free", true only to first order
    ],
)
def test_a_planted_charge_is_caught(wrong):
    assert not charges_enough(wrong)


@pytest.mark.parametrize(("rate", "std", "order"), CASES[::4])
def test_the_charge_agrees_with_an_independent_accountant(rate, std, order):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    mechanism = training(rate=rate, std=std, steps=30)
    whole = math.ceil(order)
    reach = 1 + 2.0**-20 + SLACK
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(std / reach))
    theirs = RdpAccountant(orders=[whole]).compose(dp_event.SelfComposedDpEvent(event, 30))._rdp[0]
    assert mechanism.loss(Sampled(1), whole).value == pytest.approx(theirs, rel=1e-8)
    assert mechanism.loss(Sampled(1), order).value <= theirs * (1 + 1e-8)


# ------------------------------------------------------------------ noise for any rows


def whole_way(rows, folder, noise=nullcontext):
    """The noise of 30 steps through the gate, in units of what was paid for, on rows of gaps: their gradients are 0."""
    schema = letters_schema([4, 20])
    table = private([(None, None)] * rows, schema, folder, budget=Budget(1.0, 1e-6))
    cells = PredictionTask(given=(0,), sizes=(5,), targets=(1,), cells=(20,))
    seen = []
    trained = PredictionTraining(
        network=Linear(5, 20), cells=cells, optimizer=plain_steps(), batch_size=1.0,
        initial=np.zeros(120),
    )  # fmt: skip
    grant = table.ledger.grant(table.ledger.left, to="test")
    for _ in range(30):
        with noise():
            numbers = train(
                table, trained, grant, spend=table.ledger.capacity / 31, rate=0.2, steps=1, clip=2.0, what="network"
            ).value
        std = table.ledger.entries[-1].mechanism["std"] * 2.0
        seen.append(-numbers / std)
    return np.array(seen)


def noise_is_right(seen):
    """A two-sided chi-square test of the squares, and of the mean; 3,600 numbers."""
    square = (seen**2).sum()
    p_square = 2 * min(stats.chi2.cdf(square, seen.size), stats.chi2.sf(square, seen.size))
    p_mean = 2 * stats.norm.sf(abs(seen.mean()) * math.sqrt(seen.size))
    return min(p_square, p_mean) > LEVEL / 2


@pytest.mark.parametrize("rows", [0, 1, 900])
def test_the_noise_of_a_step_does_not_depend_on_the_batch_size(rows, tmp_path):
    assert noise_is_right(whole_way(rows, tmp_path))


class PerRow:
    """Planted: noise is drawn for each row of a batch and added up, as in relaxed DP-SGD; none if nobody is in it."""

    def __init__(self):
        self.drawn = 0

    def uniform_words(self, size):
        random_words = SystemNoise().uniform_words(size)
        self.drawn = int((random_words.view(np.uint32) < int(0.2 * 2**32)).sum())
        return random_words

    def discrete_gaussian(self, std, size):
        if not self.drawn:
            return np.zeros(size, dtype=np.int64)
        return SystemNoise().discrete_gaussian(std * math.sqrt(self.drawn), size)


@pytest.mark.parametrize("rows", [0, 1, 900])
def test_noise_that_is_drawn_for_each_row_is_caught(rows, tmp_path):
    assert not noise_is_right(whole_way(rows, tmp_path, noise=lambda: _active(PerRow())))


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25])
def test_noise_of_another_size_is_caught(factor, tmp_path):
    assert not noise_is_right(whole_way(3, tmp_path, noise=lambda: scaled_noise(factor)))
