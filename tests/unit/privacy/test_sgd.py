"""Private training at the gate: what it costs, that it is charged once and first, what it refuses."""

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy.special import logsumexp

import gapless as gl
from gapless.data.training import train, training_rows
from gapless.model.neural.descent import Adam, CosineSchedule, PredictionTask, PredictionTraining
from gapless.model.neural.gradients import DenseGradients, JointGradients
from gapless.model.neural.layers import Attention, Chain, Embedding, Linear, ReLU
from gapless.privacy import L1, L2, MCAR, Budget, Ledger, PrivateTraining, Rows, Sampled
from gapless.privacy.registry import recomputed_loss
from gapless.privacy.sgd import (
    BLOCK,
    GRID_BITS,
    HIGHEST_ORDER,
    SLACK,
    SUM_BITS,
    Block,
    ExactSum,
    draw_rows,
    subsampled_loss,
)
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import FixedNoise, NoNoise, fixed_noise, no_noise
from gapless.types import all_trusted

SCHEMA = letters_schema([2, 3, 2])
ROWS = [("a", "b", "a"), ("b", None, "b"), (None, "-", "b"), ("a", "n/a", None), ("b", "c", "a")] * 40
SETTINGS = {"rate": 0.1, "steps": 5, "clip": 1.0}


def program(**more):
    sizes = tuple(column.extended_size for column in SCHEMA.columns)
    cells = PredictionTask(given=(0, 1), sizes=sizes[:2], targets=(2,), cells=(2,))
    network = Chain((Linear(sum(sizes[:2]), 4), ReLU(), Linear(4, 2)))
    given = {
        "network": network,
        "cells": cells,
        "optimizer": Adam(rate=CosineSchedule(rate=0.1, steps=5)),
        "batch_size": 20.0,
    }
    return PredictionTraining(**given | more)


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path, budget=Budget(3.0, 1e-6))


def learned(table, *, percent=50, needs=(), **more):
    grant = table.ledger.grant(table.ledger.left, to="test")
    spend = table.ledger.share(f"{percent}%")
    return train(table, program(), grant, spend=spend, what="network", needs=needs, **SETTINGS | more)


# ------------------------------------------------------------------ the loss


def of_training(std, **more):
    return PrivateTraining(**{"rate": 0.1, "steps": 1, "clip": 1.0, "std": std, "numbers": 1} | more)


def reach(mechanism):
    """Δ: how far one row moves a sum, in units of `clip`."""
    return 1 + math.sqrt(mechanism.numbers) * 2.0**-20 + SLACK


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("std", [0.6, 1.3, 8.0])
@pytest.mark.parametrize("order", [2.0, 3.0, 17.0, 64.0])
def test_at_whole_orders_the_loss_is_that_of_an_independent_accountant(rate, std, order):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    mechanism = of_training(std, rate=rate, steps=7, numbers=5000)
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(std / reach(mechanism)))
    accountant = RdpAccountant(orders=[order]).compose(dp_event.SelfComposedDpEvent(event, 7))
    assert mechanism.loss(Sampled(1), order).value == pytest.approx(accountant._rdp[0], rel=1e-8)


@pytest.mark.parametrize("order", [1.3, 2.5, 4.1, 8.92606, 21.9845])
@pytest.mark.parametrize(("rate", "std"), [(0.01, 0.7), (0.1, 1.2), (0.1, 6.0), (0.5, 2.0)])
def test_between_whole_orders_the_loss_is_an_upper_bound_and_no_more_than_the_next(order, rate, std):
    """Against the integral for continuous noise, summed numerically."""
    grid, step = np.linspace(-60, 260, 400_001, retstep=True)
    plain = -(grid**2) / 2 - math.log(math.sqrt(2 * math.pi) / step)
    mixed = plain + np.logaddexp(math.log1p(-rate), math.log(rate) + grid / std - 1 / (2 * std**2))
    loss = subsampled_loss(rate, 1 / std, order)
    assert max(divergence(mixed, plain, order), divergence(plain, mixed, order)) <= loss
    assert loss <= divergence(mixed, plain, math.ceil(order)) * (1 + 1e-8)


def divergence(first, second, order):
    """The Rényi divergence of two distributions on the integers, from their logarithms."""
    return logsumexp(order * first + (1 - order) * second) / (order - 1)


def gaussian(centre, std, reach):
    z = np.arange(-reach, reach + 1)
    weights = -((z - centre) ** 2) / (2 * std**2)
    return weights - logsumexp(weights)


@pytest.mark.parametrize("order", [2.0, 3.5, 11.0, 32.0])
@pytest.mark.parametrize(("rate", "std", "shift"), [(0.1, 1.5, 1), (0.01, 0.8, 1), (0.3, 5.0, 3), (0.5, 20.0, 20)])
def test_the_true_divergence_of_discrete_noise_is_within_the_loss_both_ways(order, rate, std, shift):
    """Narrow noise on the integers, where it differs most from the continuous one that others account for."""
    plain, moved = gaussian(0, std, 1200), gaussian(shift, std, 1200)
    mixed = np.logaddexp(math.log1p(-rate) + plain, math.log(rate) + moved)
    loss = subsampled_loss(rate, shift / std, order)
    there, back = divergence(mixed, plain, order), divergence(plain, mixed, order)
    assert back <= there * (1 + 1e-9) + 1e-12
    assert there <= loss
    if order == int(order) and std > 3:
        assert there == pytest.approx(loss, rel=1e-6)  # nothing is given away at whole orders


def convolved(first, second):
    """The distribution of a sum of two integers, each with a distribution around 0."""
    half = len(first) // 2
    return np.log(np.convolve(np.exp(first), np.exp(second))[half:-half])


@pytest.mark.parametrize("draws", [1, 2, 3])
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("order", [2.0, 5.0, 9.0])
def test_several_rows_of_one_person_are_within_the_loss_both_ways(rows, draws, order):
    """The worst case that we know: each row that is drawn moves the sum by the same step in the same direction."""
    rate, std, step = 0.2, 12.0, 4
    mechanism = of_training(std / step * reach(of_training(1.0)), rate=rate, draws=draws)
    joint = []
    for drawn in range(rows + 1):
        distribution = gaussian(drawn * step, std / math.sqrt(draws), 160)
        for _ in range(draws - 1):
            distribution = convolved(distribution, gaussian(0, std / math.sqrt(draws), 160))
        chance = math.comb(rows, drawn) * rate**drawn * (1 - rate) ** (rows - drawn)
        joint.append(distribution + math.log(chance))
    plain = joint[0] - rows * math.log1p(-rate)
    mixed = logsumexp(joint, axis=0)
    loss = mechanism.loss(Sampled(rows), order).value
    inner = slice(60, -60)  # beyond, convolutions have no digits left
    for here, there in ((mixed, plain), (plain, mixed)):
        found = divergence(here[inner], there[inner], order)
        assert 0 < found <= loss


@pytest.mark.parametrize(("rows", "draws", "at_once"), [(3, 1, 3), (3, 2, 2), (4, 2, 2), (3, 3, 1)])
def test_rows_that_one_draw_hides_are_sampled_if_any_of_them_is(rows, draws, at_once):
    """As the proof has it: with chance 1 - (1 - q)^j, and then they move a sum by j lengths at most."""
    mechanism = of_training(6.0, rate=0.2, draws=draws)
    shift = at_once * math.sqrt(draws) * reach(mechanism) / 6.0
    step = subsampled_loss(1 - 0.8**at_once, shift, 4.0)
    assert mechanism.loss(Sampled(rows), 4.0).value == pytest.approx(mechanism.steps * draws * step, rel=1e-9)


def test_a_draw_for_each_row_of_a_person_costs_less_than_one_for_all():
    together, apart = (of_training(6.0, draws=draws).loss(Sampled(3), 20.0).value for draws in (1, 3))
    assert apart < together / 4
    assert of_training(6.0).loss(Sampled(3), 20.0).value > 3 * of_training(6.0).loss(Sampled(1), 20.0).value


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [0.02, 0.5, 1.0, 3.0, 10.0, 100.0])
def test_noise_for_a_loss_never_costs_more_and_hardly_less(epsilon, rows):
    budget = Budget(epsilon, 1e-6)
    for part in (1.0, 0.01):
        loss = budget.capacity * part
        mechanism = PrivateTraining.for_loss(loss, Sampled(rows), rate=0.05, steps=200, clip=2.0, numbers=1000)
        cost = mechanism.loss(Sampled(rows), budget.order)
        assert cost.value <= loss.value
        assert cost.value == pytest.approx(loss.value, rel=1e-6)
        assert mechanism.draws == rows


def test_more_steps_a_higher_rate_and_more_numbers_cost_more():
    least = of_training(2.0, steps=10).loss(Sampled(1), 9.0).value
    for more in ({"steps": 11}, {"rate": 0.11}, {"numbers": 10**6}, {"std": 1.9}):
        assert replace(of_training(2.0, steps=10), **more).loss(Sampled(1), 9.0).value > least


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0}, {"rate": 1.1}, {"rate": "0.1"}, {"rate": True}, {"rate": math.nan}, {"steps": 0}, {"steps": 1.5},
        {"clip": 0.0}, {"clip": math.inf}, {"std": 0.0}, {"std": math.nan}, {"std": 2.0**40}, {"numbers": 0},
        {"draws": 0},
    ],
)  # fmt: skip
def test_constants_that_make_no_sense_are_refused(wrong):
    with pytest.raises(gl.errors.BudgetError, match=next(iter(wrong))):
        of_training(**{"std": 1.0} | wrong)


def test_other_distances_and_budgets_are_refused():
    for distance in (L1(1), L2(1), Rows(1)):
        with pytest.raises(gl.errors.BudgetError, match="bounded as Sampled"):
            of_training(1.0).loss(distance, 8.0)
        with pytest.raises(gl.errors.BudgetError, match="bounded as Sampled"):
            PrivateTraining.for_loss(gl.Loss(1.0, 8.0), distance, numbers=3, **SETTINGS)
    with pytest.raises(gl.errors.BudgetError, match="up to the Rényi order 16384, but"):
        of_training(1.0).loss(Sampled(1), HIGHEST_ORDER + 1.0)
    with pytest.raises(gl.errors.BudgetError, match="too small for training"):
        PrivateTraining.for_loss(gl.Loss(1e-30, 8.0), Sampled(1), numbers=3, **SETTINGS)


def test_a_pure_budget_is_refused_before_anything_is_charged(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=Budget(1.0, 0))
    with pytest.raises(
        gl.errors.BudgetError, match=r"needs δ above 0, but this ledger has δ = 0.*\n  Try: use a method or noise"
    ):
        learned(table)
    assert not Ledger.open(table.ledger.path).entries


@dataclass(frozen=True)
class Spy:
    """A program that would keep what it is shown."""

    numbers: int = 3


@dataclass(frozen=True)
class SpyCells(PredictionTask):
    """A part of one."""


@pytest.mark.parametrize(
    "wrong",
    [
        Spy,
        lambda: program(cells=SpyCells(given=(0,), sizes=(3,), targets=(2,), cells=(2,))),
        lambda: program(network=Chain((Linear(3, 4), Spy()))),
        lambda: program(optimizer=lambda *_: None),
        lambda: program(initial=np.zeros(3).view(type("Kept", (np.ndarray,), {}))),
        lambda: program(
            initial=np.array([Spy()] * program().numbers)
        ),  # each would be multiplied with what it is shown
    ],
)
def test_a_program_that_is_not_wholly_of_this_library_sees_no_rows(table, wrong):
    with pytest.raises(gl.errors.ModelError, match="is not of this library; other code must not see private rows"):
        training_rows(table, wrong())
    assert all_trusted(program(batch_size=np.float64(20.0)))


@pytest.mark.parametrize("coded", [False, True])
def test_a_program_that_does_not_take_gaps_is_refused_for_any_rows(coded, tmp_path):
    observed = tuple(column.size for column in SCHEMA.columns[:2])
    network = Chain((Embedding(observed, 3), Attention(2, 3), Linear(3, 2))) if coded else Linear(sum(observed), 2)
    cells = PredictionTask(given=(0, 1), sizes=observed, targets=(2,), cells=(2,), coded=coded)
    for rows in ([("a", "b", "a")], [("a", None, "a")]):
        table = private(rows, SCHEMA, tmp_path)
        with pytest.raises(gl.errors.ModelError, match="fails for columns whose numbers of codes are"):
            training_rows(table, program(network=network, cells=cells))
        assert training_rows(table, program(network=network, cells=cells), needs=["x0", "x1"]).reads == {"x0", "x1"}
        filled = table.fill([np.ones(column.size) for column in SCHEMA.columns])
        assert training_rows(filled, program(network=network, cells=cells), needs=["x0"]).reads is None


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e200])
def test_a_row_whose_length_is_no_number_adds_nothing(odd):
    rows = np.array([[3.0, 4.0], [odd, 1.0], [0.0, 0.0], [0.3, 0.4]])
    with np.errstate(all="ignore"):
        total = of_training(1.0, numbers=2).clipped(
            JointGradients((DenseGradients(rows[:, :1]), DenseGradients(rows[:, 1:]))), 4
        )
    assert (total * 2.0**-SUM_BITS).tolist() == pytest.approx([0.6 + 0.3, 0.8 + 0.4])


def test_the_slack_covers_what_floats_do_to_the_length_of_a_row():
    """The numbers of docs/proofs/private_training.md, section 5: the length as computed, for up to 2³⁵ numbers."""
    unit, numbers = 2.0**-53, 2.0**35
    length = 4 * numbers * unit / 2  # a squared length is off by a part of 4Pu
    products = 4 * unit  # a weight and its products with slopes
    assert length + products <= 2.0**-15 <= SLACK
    assert BLOCK * 2.0**SUM_BITS * (1 + SLACK) < 2.0**53  # so floats hold the sum of a block, and all parts of it


def test_the_loss_of_several_rows_is_computed_jointly():
    mechanism = of_training(4.0, draws=2)
    for rows in (1, 2, 3):
        again = recomputed_loss(mechanism.parameters(), {"Sampled": rows}, 8.0)
        assert again == mechanism.loss(Sampled(rows), 8.0).value


def test_a_program_of_another_size_than_was_paid_for_is_not_run(table):
    value = training_rows(table, program())
    mechanism = PrivateTraining(**SETTINGS, std=9.0, numbers=5)
    grant = table.ledger.grant(table.ledger.left, to="test")
    with pytest.raises(
        gl.errors.BudgetError,
        match=r"the noise was charged for 5 numbers in a gradient, not for \d+\n  Try: pass numbers=",
    ):
        grant.release(value, mechanism, what="x")


# ------------------------------------------------------------------ what is seen of a sum


@dataclass(frozen=True)
class FixedGradients:
    """A program with given gradients, one for each row; its state is all that it was handed so far."""

    rows: np.ndarray

    @property
    def numbers(self):
        return self.rows.shape[1]

    def start(self):
        return ()

    def gradients(self, state, block):
        return DenseGradients(self.rows[block.columns[0]])

    def follow(self, state, noisy, step):
        assert step == len(state)
        return (*state, noisy)

    def outcome(self, state):
        return np.concatenate(state)


class RowNumbers:
    """The rows of such a program; keeps what is reported after each step."""

    def __init__(self, rows):
        self.program, self.reported = FixedGradients(np.asarray(rows, dtype=np.float64)), []

    def poisson_sample(self, row_sampler):
        chosen = np.flatnonzero(row_sampler(len(self.program.rows)))
        for start in range(0, len(chosen), BLOCK):
            some = chosen[start : start + BLOCK]
            yield Block((np.pad(some, (0, BLOCK - len(some))),), len(some))

    def report_progress(self, steps):
        self.reported.append(steps)


CLIPS = [1.0, 0.3, 7.0]  # with 1 alone a unit that is forgotten would not show


def handed(value, seed=5, **more):
    """What a program was handed at each step, with noise from a seed; everybody is in every lot."""
    mechanism = of_training(0.01, **{"rate": 1.0, "steps": 3, "numbers": value.program.numbers} | more)
    released = mechanism(value, FixedNoise(seed))
    return np.split(released, mechanism.steps)


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("clip", CLIPS)
def test_a_program_is_handed_the_rounded_sum_plus_noise_on_the_grid_and_nothing_else(clip, draws):
    """To the last bit: an integer and separate noise for each coordinate, times the step of the grid."""
    unit, steps_of_grid = clip * 2.0**-20, np.array([5.0, -700.0, 0.0, 1.0])
    value = RowNumbers(np.array([steps_of_grid + 0.2, [0.125, 0.0, 0.25, -0.25]]) * unit)
    again = FixedNoise(5)
    for noisy in handed(value, clip=clip, draws=draws):
        again.uniform_words(1)
        drawn = sum(again.discrete_gaussian(0.01 * 2**20 / math.sqrt(draws), 4) for _ in range(draws))
        assert noisy.tolist() == ((steps_of_grid.astype(np.int64) + drawn) * unit).tolist()
        assert len(set(drawn.tolist())) == 4


@pytest.mark.parametrize("clip", CLIPS)
def test_no_part_of_a_sum_below_a_step_of_the_grid_is_seen(clip):
    """Tables whose sums differ by less, and are rounded to the same whole numbers, have the same results to the bit."""
    unit, rng = clip * 2.0**-20, np.random.default_rng(4)
    below = rng.uniform(-0.49, 0.49, (6, 5)) * unit
    found = [np.array(handed(RowNumbers([np.arange(5) * 1000 * unit, part]), clip=clip)) for part in below]
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_the_number_of_steps_is_reported_and_nothing_of_the_state():
    """A training that was stopped is done again under its charge: nobody may have seen how it stood."""
    value = RowNumbers(np.ones((2, 4)))
    handed(value)
    assert value.reported == [1, 2, 3]


# ------------------------------------------------------------------ sums of any number of rows


def test_a_long_sum_is_exact():
    """Against integers of any length, from far up to where floats have lost the last digits long ago."""
    rng, total = np.random.default_rng(6), ExactSum.zeros(3)
    exact = np.zeros(3, dtype=object)
    for _ in range(300):
        vector = np.rint(rng.uniform(-(2.0**52), 2.0**52, 3))
        total.add(vector)
        exact += vector.astype(np.int64).astype(object)
    assert (
        total.high.astype(object) * 2 ** (SUM_BITS - GRID_BITS) + total.low.astype(object)
    ).tolist() == exact.tolist()
    half = 2 ** (SUM_BITS - GRID_BITS - 1)
    assert total.rounded().tolist() == [(number + half) // (2 * half) for number in exact]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_long_sum_forgets_nothing_however_large_it_is(sign):
    """Far up a float would not change by the small numbers that come last; beyond 64 bits the sum wraps."""
    step = 2 ** (SUM_BITS - GRID_BITS)
    for start in (sign * 2**62, 2**63 - 1):
        total = ExactSum(np.array([start]), np.array([step - 1]))
        for small in (1.0, step + 1.0, -3.0):
            total.add(np.array([small]))
        exact = start * step + 2 * step - 2
        assert 0 <= total.low[0] < step
        assert (int(total.high[0]) * step + int(total.low[0]) - exact) % (2**64 * step) == 0


class Repeated:
    """Blocks of rows with one number each, which are their gradients: more rows than any table in memory has."""

    numbers = 1

    def __init__(self, blocks):
        self.program, self._blocks = self, blocks

    def start(self):
        return 0.0

    def gradients(self, state, block):
        return DenseGradients(block.columns[0][:, None])

    def follow(self, state, noisy, step):
        return float(noisy[0])

    def outcome(self, state):
        return np.array([state])

    def poisson_sample(self, row_sampler):
        return self._blocks()

    def report_progress(self, steps):
        pass


@pytest.mark.slow
def test_a_row_moves_the_sum_of_many_millions_by_no_more_than_its_distance():
    """2²⁵ rows for which rounding in a float sum is always down, and with one row more at their head always up.

    That row moves all others by one place: each block has the last row of the block before in place of its own, which
    lifts its sum over half of the last digit of a total above 2²⁴. A float sum moves by 1 + 2⁻¹², more than Δ.
    """
    usual, step = 1 - 2.0**-10, 2.0**-43

    def blocks(*, another):
        rows, last = np.full(BLOCK, usual), 1.0
        for place in range(2**17):
            rows[-1] = usual - place * step
            rows[1] = usual + 2.0**-29 - step / 2 + place * step
            if another:  # it is as long as a row can be
                last, rows[-1] = rows[-1], last
            yield Block((rows,), BLOCK)
        if another:
            rows[0] = last
            yield Block((rows,), 1)

    mechanism = of_training(1.0, rate=1.0)
    less, greater = (mechanism(Repeated(partial(blocks, another=another)), NoNoise())[0] for another in (False, True))
    assert abs(greater - less) <= reach(mechanism)


# ------------------------------------------------------------------ at the gate


class Watched:
    """No noise, and notes how often it is asked for what."""

    def __init__(self):
        self.words_asked, self.noise_asked = [], []

    def uniform_words(self, size):
        self.words_asked.append(size)
        return NoNoise().uniform_words(size)

    def discrete_gaussian(self, std, size):
        self.noise_asked.append((std, size))
        return NoNoise().discrete_gaussian(std, size)


def test_all_steps_are_charged_once_and_before_the_first_row_is_read(table, monkeypatch):
    from gapless.data.engines.memory import Memory

    found = []
    sample = Memory.poisson_sample
    monkeypatch.setattr(
        Memory,
        "poisson_sample",
        lambda *given: found.append(len(Ledger.open(table.ledger.path).entries)) or sample(*given),
    )
    steps = []
    released = learned(table, progress=steps.append)
    assert found == [1] * 5
    assert steps == [1, 2, 3, 4, 5]
    assert released.entry == 1
    (entry,) = Ledger.open(table.ledger.path).entries
    assert entry.distance == {"Sampled": 1}
    assert entry.mechanism["name"] == "PrivateTraining"
    assert list(entry.mechanism) == ["name", "rate", "steps", "clip", "std", "numbers", "draws"]
    assert entry.loss == pytest.approx(table.ledger.share("50%").value, rel=1e-6)
    assert "PrivateTraining(0.1, 5, 1," in str(table.ledger)
    assert table.ledger.guarantee().private


def test_every_step_gets_its_noise_for_any_sample(tmp_path):
    """For each number of the sum, on an empty table too; one word for every two rows decides which are sampled."""
    for rows, asked in ((ROWS, 100), ([], 0), (ROWS[:1], 1)):
        table = private(rows, SCHEMA, tmp_path, budget=Budget(3.0, 1e-6), protect=Rows(2))
        watched = Watched()
        value = training_rows(table, program())
        mechanism = PrivateTraining.for_loss(table.ledger.left, value.distance, numbers=program().numbers, **SETTINGS)
        mechanism(value._open(table.ledger._key), watched)
        assert watched.words_asked == [asked] * 5
        std = mechanism.std * 2**20 / math.sqrt(2)
        assert watched.noise_asked == [(std, program().numbers)] * 10  # two draws for two rows of a person


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"std": 0.1}, "records a smaller loss for entry 1"),
        ({"rate": 0.9}, "records a smaller loss for entry 1"),
        ({"steps": 50}, "records a smaller loss for entry 1"),
        ({"numbers": 10**9}, "records a smaller loss for entry 1"),
        ({"draws": 0}, "was changed at entry 1"),
        ({"clip": -1.0}, "was changed at entry 1"),
        ({"momentum": 0.9}, "was changed at entry 1"),
    ],
)
def test_a_ledger_with_other_constants_than_were_paid_for_is_refused(table, change, message):
    learned(table)
    header, line = table.ledger.path.read_text().splitlines(keepends=True)
    content = json.loads(line)
    content["mechanism"] |= change
    other = table.ledger.path.with_name("other.ledger")
    other.write_text(header + json.dumps(content) + "\n")
    with pytest.raises(gl.errors.LedgerError, match=message):
        Ledger.open(other)


def test_a_row_must_be_observed_on_what_is_needed(table):
    assert training_rows(table, program()).reads is None
    assert training_rows(table, program(), needs=["x2"]).reads == {"x2"}
    assert training_rows(table.where("x0", ["a"]), program(), needs=["x2"]).reads == {"x0", "x2"}
    filled = table.fill([np.ones(column.size) for column in SCHEMA.columns])
    assert training_rows(filled, program(), needs=["x2"]).reads is None
    learned(table, needs=["x2"])
    assert table.ledger.entries[0].reads == ["x2"]
    figure = table.ledger.ground_truth(MCAR({"x2": 0.5}))
    assert figure.epsilon < table.ledger.guarantee().epsilon  # a gap there keeps a person out of all steps


def test_the_same_chance_gives_the_same_network_and_another_another(table, tmp_path):
    found = []
    for seed in (1, 1, 2):
        again = private(ROWS, SCHEMA, tmp_path, budget=Budget(3.0, 1e-6))
        with fixed_noise(seed):
            found.append(learned(again).value)
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_the_columns_come_in_the_order_asked_for(table):
    cells = PredictionTask(given=(0,), sizes=(3,), targets=(1,), cells=(2,))
    value = training_rows(table, program(cells=cells, network=Linear(3, 2)), columns=["x2", "x0"])
    (block,) = value._open(table.ledger._key).poisson_sample(lambda rows: np.ones(rows, dtype=bool))
    assert block.rows == 200
    assert len(block.columns) == 2
    assert block.columns[0][:5].tolist() == [0, 1, 1, 2, 0]
    assert block.columns[1][:5].tolist() == [0, 1, 2, 0, 1]
    assert not block.columns[0][200:].any()


def test_training_learns(tmp_path):
    """x2 repeats x0: without noise, and with all rows in every lot, a network finds that."""
    rows = [("a", "a", "a"), ("b", "a", "b")] * 100
    table = private(rows, SCHEMA, tmp_path, budget=Budget(1.0, 1e-6))
    trained = program(optimizer=Adam(rate=CosineSchedule(rate=0.1, steps=60)), batch_size=200.0)
    with no_noise():
        grant = table.ledger.grant(table.ledger.left, to="test")
        numbers = train(table, trained, grant, spend=grant.left, rate=1.0, steps=60, clip=1.0, what="network").value
    inputs = np.zeros((2, sum(trained.cells.sizes)))
    inputs[:, 3] = 1
    inputs[[0, 1], [0, 1]] = 1
    outputs, _ = trained.network.forward(trained.network.unpack(numbers), inputs)
    assert outputs[0, 0] - outputs[0, 1] > 2
    assert outputs[1, 1] - outputs[1, 0] > 2


# ------------------------------------------------------------------ which rows are sampled


def test_rate_one_samples_every_row_and_no_probability_exceeds_the_rate():
    assert draw_rows(1.0, 1001, FixedNoise(1)).all()
    assert not draw_rows(2.0**-32, 1001, FixedNoise(1)).any()

    class Edge:
        def uniform_words(self, size):
            low = int(Fraction(0.3) * 2**32)
            return np.full(size, (low - 1) | (low << 32), dtype=np.uint64)

    assert draw_rows(0.3, 4, Edge()).tolist() == [True, False, True, False]
