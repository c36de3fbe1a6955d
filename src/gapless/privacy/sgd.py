r"""Private training (DP-SGD): noisy sums of clipped gradients over Poisson samples of rows, all steps in one release.

A step takes each row with the same public probability, clips its gradient, rounds it to integers, adds the gradients up
exactly and adds noise. All iterates are post-processing of the noisy sums. So the loop is one mechanism, charged once,
before the first row is read. The loop runs here. The program, which is code of this library, reads rows only to compute
their gradients, and continues from noisy sums. Proved in docs/proofs/private_training.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Argument, BudgetError, Hint
from gapless.privacy.budget import Loss
from gapless.privacy.mechanisms import Mechanism, RecordedMechanism, check_distance, check_not_pure
from gapless.privacy.noise import LARGEST_SCALE, NoiseSource
from gapless.privacy.private import Sampled
from gapless.text import plural
from gapless.threads import one_thread
from gapless.types import Codes, Floats, Integers, checked_number, whole

BLOCK = 256  # rows evaluated at once, always this many: then a row's contribution does not depend on other rows
GRID_BITS = 20  # sums are rounded to clip·2^-GRID_BITS, so that noise on them is integer noise
SUM_BITS = 44  # each number of a row's contribution is a multiple of clip·2^-SUM_BITS, so that sums of rows are exact
SLACK = 2.0**-13  # more than floats can add to the length of a contribution, in units of `clip`: 2^-15 is proved
HIGHEST_ORDER = 2**14  # up to which the loss is computed to ten digits
ROUND_UP = 1 + 1e-9  # the loss is rounded up by more than its float error
_SAMPLING_BITS = 32  # of the number that decides whether a row is in a sample
CLIP_RANGE = (2.0**-10, 2.0**20)
STD_RANGE = (2.0**-GRID_BITS, LARGEST_SCALE * 2.0**-GRID_BITS)

S = TypeVar("S")
M = TypeVar("M", bound=Mechanism[Any, Sampled, Any])
RowSampler: TypeAlias = Callable[[int], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Block:
    """The codes of `BLOCK` rows, column by column: the first `rows` are rows of a sample, the others padding."""

    columns: tuple[Codes, ...]
    rows: int


class RowGradients(Protocol):
    """The gradients of a block's rows, which are never written out."""

    def squared_norms(self) -> Floats:
        """The squared length of each row's gradient."""

    def total(self, weights: Floats) -> Floats:
        """The sum of the rows' gradients times these weights; a row of weight 0 adds nothing, even if not finite."""

    def integer_total(self, weights: Floats) -> Floats:
        """The exact sum of integer vectors, one for each row: its gradient times its weight, cut towards 0.

        A row's vector is a function of its gradient and its weight alone. Each of its numbers is at most as large as
        before the cut, up to the rounding of a product. So the vector is no longer than before. The sum is exact for
        `BLOCK` rows no longer than 2^SUM_BITS·(1 + SLACK), in any order of the products.
        """


class IterativeProgram(Protocol[S]):
    """A loop over noisy sums: its state is public, because it follows from them."""

    def start(self) -> S:
        """The first state."""

    def follow(self, state: S, noisy: Floats, step: int) -> S:
        """The next state, from the noisy numbers of this step (0, 1 …)."""

    def outcome(self, state: S) -> Floats:
        """The numbers of the last state that are released; a journal can keep them, unlike the state itself."""


class Program(IterativeProgram[S], Protocol[S]):
    """A program that `PrivateTraining` trains by noisy sums of clipped gradients."""

    @property
    def numbers(self) -> int:
        """The length of a gradient."""

    def gradients(self, state: S, block: Block) -> RowGradients:
        """Each row's gradient, computed separately: a function of the state and of the row, to the last bit."""


class Trainable(Protocol[S]):
    """Rows and the program trained on them: the content of a sealed value for `PrivateTraining`."""

    @property
    def program(self) -> Program[S]:
        """The program to train."""

    def poisson_sample(self, row_sampler: RowSampler) -> Iterator[Block]:
        """The sampled rows, block by block; `row_sampler` gets the number of rows and draws which to take."""

    def report_progress(self, steps: int) -> None:
        """Report the number of steps done, and nothing of the state: a stopped training is done again (`Journal`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTraining(RecordedMechanism):
    r"""Train by noisy sums of clipped gradients over Poisson samples of the rows (DP-SGD).

    .. math:: \tilde s_t = h \Bigl(\Bigl\lfloor 2^{-24} \sum_{i \in L_t} \bigl[\tfrac{2^{24}}h g_i \min(1, C/\lVert g_i
              \rVert)\bigr] \Bigr\rceil + Z_t\Bigr), \qquad \Pr[i \in L_t] = q, \qquad h = C\,2^{-20}

    .. math:: \varepsilon_n \le \frac{T}{n-1} \log \sum_{k=0}^n \binom nk (1-q)^{n-k} q^k e^{k(k-1)\Delta^2/2\sigma^2},
              \qquad \Delta = 1 + 2^{-20} \sqrt P + 2^{-13}

    Notation: q is `rate`, T is `steps`, C is `clip`, P is `numbers` (of a gradient), σ is `std`: Z is discrete Gaussian
    with parameter σ·2²⁰, so σC in units of the sum. [·] cuts a vector towards 0 to integers, factor by factor where it
    is a product; ⌊·⌉ rounds to the nearest. Between two integer orders n the logarithm is interpolated.
    Guarantee: Rényi loss as above for one row more or less, both ways. For k rows of one person the noise is the sum of
        k independent draws (`draws`), each with parameter σ·2²⁰/√k and one row to hide: k times the loss with √k·Δ.
        Sums of rows are exact, so it holds for every number of rows in a sample.
        Proved in docs/proofs/private_training.md, attacked by tests/audit/test_training.py.
    Edge cases: an empty sample gets the same noise; a gradient that is not finite adds nothing; a pure budget refuses
        it; orders above 2¹⁴ (ε below some thousandths) are refused.
    References: Abadi et al. 2016; Mironov, Talwar, Zhang 2019; Canonne, Kamath, Steinke 2020.
    """

    description: ClassVar[str] = (
        "noise, as whole numbers on a public grid, is added to sums of clipped gradients of random samples of rows"
    )

    rate: float
    steps: int
    clip: float
    std: float
    numbers: int
    draws: int = 1

    def __post_init__(self) -> None:
        ranges = {"rate": (2.0**-_SAMPLING_BITS, 1.0), "clip": CLIP_RANGE, "std": STD_RANGE}
        set_checked(self, ranges, ("steps", "numbers", "draws"))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each number of a sum."""
        return self.std * self.clip

    def loss(self, distance: Sampled, order: float) -> Loss:
        """T times the loss of one step; each draw hides an even part of a person's rows."""
        check_distance(distance, Sampled)
        check_not_pure(order, "private training")
        rows = -(-distance.at_most // self.draws)
        rate = -math.expm1(rows * math.log1p(-self.rate)) if self.rate < 1 else 1.0
        shift = rows * (1 + math.sqrt(self.numbers) * 2.0**-GRID_BITS + SLACK) * math.sqrt(self.draws) / self.std
        return Loss(self.steps * self.draws * subsampled_loss(rate, shift, order), order)

    @classmethod
    def for_loss(
        cls, loss: Loss, distance: Sampled, *, rate: float, steps: int, clip: float, numbers: int
    ) -> PrivateTraining:
        """The least noise that costs at most `loss`."""
        check_distance(distance, Sampled)
        build = partial(cls, rate=rate, steps=steps, clip=clip, numbers=numbers, draws=distance.at_most)
        return least_noise(build, loss, distance, STD_RANGE[1])

    @one_thread()
    def __call__(self, value: Trainable[S], noise: NoiseSource) -> Floats:
        """Run all steps and return the numbers of the last state."""
        program, unit = value.program, self.clip * 2.0**-GRID_BITS
        if program.numbers != self.numbers:
            raise BudgetError(
                f"the noise was charged for {plural(self.numbers, 'number')} in a gradient, not for {program.numbers}",
                hint=Hint("pass ", Argument("numbers", program.numbers)),
            )
        state = program.start()
        for step in range(self.steps):
            total = ExactSum.zeros(self.numbers)
            for block in value.poisson_sample(lambda rows: draw_rows(self.rate, rows, noise)):
                with np.errstate(all="ignore"):  # a warning would reveal rows
                    total.add(self.clipped(program.gradients(state, block), block.rows))
            steps_of_grid = total.rounded()
            for _ in range(self.draws):
                steps_of_grid += noise.discrete_gaussian(
                    self.std * 2.0**GRID_BITS / math.sqrt(self.draws), self.numbers
                )
            state = program.follow(state, np.asarray(steps_of_grid * unit, dtype=np.float64), step)
            value.report_progress(step + 1)
        return program.outcome(state)

    def clipped(self, gradients: RowGradients, rows: int) -> Floats:
        """The sum of the first rows' gradients, each clipped to the norm `clip`; one that is not finite is left out.

        The sum is exact, in units of clip·2^-SUM_BITS.
        """
        weights = np.minimum(1.0, self.clip / np.sqrt(gradients.squared_norms()))
        weights[rows:] = 0.0
        return gradients.integer_total(np.where(np.isfinite(weights), weights, 0.0) * (2.0**SUM_BITS / self.clip))


@dataclass(slots=True)
class ExactSum:
    """An exact sum of any number of vectors of integers below 2^53.

    Float sums lose digits. Here `high` counts steps of the grid on which noise is added, and `low` the remainder in
    finer steps, from 0 to below 2^(SUM_BITS - GRID_BITS). Beyond 64 bits `high` wraps, as noise does.
    """

    high: Integers
    low: Integers

    @classmethod
    def zeros(cls, numbers: int) -> ExactSum:
        """The empty sum."""
        return cls(np.zeros(numbers, dtype=np.int64), np.zeros(numbers, dtype=np.int64))

    def add(self, vector: Floats) -> None:
        """Add a vector of integers."""
        numbers = vector.astype(np.int64) + self.low
        self.high += numbers >> SUM_BITS - GRID_BITS  # rounded down, so that the remainder is not negative
        self.low = numbers & (1 << SUM_BITS - GRID_BITS) - 1

    def rounded(self) -> Integers:
        """The sum in steps of the grid, rounded to the nearest."""
        return self.high + (self.low + (1 << SUM_BITS - GRID_BITS - 1) >> SUM_BITS - GRID_BITS)


def set_checked(mechanism: object, ranges: Mapping[str, tuple[float, float]], integers: Sequence[str]) -> None:
    """Check parameters and replace them with plain numbers, so that the noise drawn is the noise charged."""
    for name, (least, most) in ranges.items():
        plain = checked_number(name, getattr(mechanism, name), least, most, "[]", error=BudgetError, example=1)
        object.__setattr__(mechanism, name, plain)
    for name in integers:
        object.__setattr__(mechanism, name, whole(name, getattr(mechanism, name), error=BudgetError, least=1))


def least_noise(build: Callable[..., M], loss: Loss, distance: Sampled, most: float) -> M:
    """The mechanism with the least `std`, up to `most`, that costs at most `loss`."""

    def fits(std: float) -> bool:
        return build(std=std).loss(distance, loss.order).value <= loss.value

    if not fits(most):
        raise BudgetError(
            "this spend is too small for training: even the largest noise would cost more",
            hint=Hint("pass a larger ", Argument("spend")),
        )
    low, high = math.log(2.0**-10), math.log(most)
    while high - low > 1e-12:  # the loss falls as noise grows
        middle = (low + high) / 2
        low, high = (low, middle) if fits(math.exp(middle)) else (middle, high)
    return build(std=math.exp(high) if fits(math.exp(high)) else most)


def draw_rows(rate: float, rows: int, noise: NoiseSource) -> NDArray[np.bool_]:
    """Draw which rows are in a sample: each independently, with probability ⌊rate·2³²⌋/2³²."""
    drawn = noise.uniform_words(-(-rows // 2)).view(np.uint32)[:rows]
    return np.asarray(drawn < int(rate * 2**_SAMPLING_BITS))


def subsampled_loss(rate: float, shift: float, order: float) -> float:
    r"""An upper bound on the Rényi loss of one step; `shift` is in units of the noise.

    At integer orders n it is the bound of the mechanism. :math:`(n-1)\varepsilon_n` is convex in the order, and 0 at 1,
    so a line between integer orders is above it.
    """
    return interpolate_orders(partial(_log_moment, rate, shift), order)


def interpolate_orders(log_moment: Callable[[int], float], order: float) -> float:
    """The loss at any order, rounded up, from a bound on the logarithm of the moment at integer orders."""
    if order > HIGHEST_ORDER:
        raise BudgetError(
            f"the loss of training is known up to the Rényi order {HIGHEST_ORDER}, but this budget has {order:.6g}",
            hint="use a method that measures counts instead, such as mst",
        )
    below = math.floor(order)
    part = order - below
    moment = (1 - part) * log_moment(below) + (part * log_moment(below + 1) if part else 0)
    return moment / (order - 1) * ROUND_UP


def _log_moment(rate: float, shift: float, order: int) -> float:
    """The logarithm of the sum at an integer order.

    Binomial probabilities add up to 1. Only the excess over 1 is summed, so that no digit is lost.
    """
    from scipy.special import gammaln, logsumexp, xlog1py  # noqa: PLC0415 slow to load

    if order < 2:
        return 0.0
    k = np.arange(2, order + 1)
    chance = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    chance += k * math.log(rate) + xlog1py(order - k, -rate)
    exponent = k * (k - 1) * (shift**2 / 2)
    beyond = exponent + np.log(-np.expm1(-exponent))  # log(e^x - 1)
    return float(np.logaddexp(0.0, logsumexp(chance + beyond)))
