r"""Teacher ensembles (PATE): noisy answers of teachers about synthetic rows, all steps in one release.

Each row goes to one of K teachers, drawn independently and uniformly, and stays there. A teacher is a function of its
rows and of public values, so one row changes the answers of one teacher, however often it is asked. Synthetic rows made
from noisy answers are public, and the teachers are asked about them at each step. The loop is one mechanism, charged
once, before the first row is read. It runs here, as that of `sgd`. A teacher keeps counts of its rows, so it does not
depend, to the last bit, on the rows of other teachers. Proved in docs/proofs/teachers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from gapless.errors import Argument, BudgetError, Hint
from gapless.privacy.budget import Loss
from gapless.privacy.mechanisms import RecordedMechanism, check_distance, check_not_pure
from gapless.privacy.noise import LARGEST_SCALE, NoiseSource
from gapless.privacy.private import Sampled
from gapless.privacy.sgd import (
    CLIP_RANGE,
    GRID_BITS,
    ROUND_UP,
    SLACK,
    STD_RANGE,
    IterativeProgram,
    interpolate_orders,
    least_noise,
    set_checked,
)
from gapless.text import plural
from gapless.threads import one_thread
from gapless.types import Codes, Floats, Integers

S = TypeVar("S")
TeacherSampler: TypeAlias = Callable[[int], Integers]


class TeacherEnsemble(IterativeProgram[S], Protocol[S]):
    """A program that asks teachers about its state, and continues from their noisy answers."""

    @property
    def teachers(self) -> int:
        """The number of teachers."""

    @property
    def answers(self) -> tuple[int, int]:
        """The shape of a teacher's answer at a step: the number of vectors, and their length."""

    def summarize(self, columns: tuple[Codes, ...], teacher: Integers) -> Integers:
        """Teachers × numbers: the statistics that teachers keep of these rows, sums of integers over their rows."""

    def prepare(self, sums: Integers) -> Any:
        """Convert the statistics of all rows, teacher by teacher, to the form that answers are computed from."""

    def ask(self, state: S, prepared: Any, step: int, teacher: int | None) -> Floats:
        """The answers of teachers at this step (0, 1 …): of one teacher, or of all of them in order.

        The answer of a teacher is a function of the state and of its own statistics, to the last bit.
        """


class Teachable(Protocol[S]):
    """Rows and the ensemble that reads them: the content of a sealed value for these mechanisms."""

    @property
    def program(self) -> TeacherEnsemble[S]:
        """The ensemble."""

    def batches(self, teacher_sampler: TeacherSampler) -> Iterator[tuple[tuple[Codes, ...], Integers]]:
        """Every row once, in batches, with its teacher; `teacher_sampler` gets the number of rows and draws these."""

    def report_progress(self, steps: int) -> None:
        """Report the number of steps done, and nothing of the state: a stopped training is done again (`Journal`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherVotes(RecordedMechanism):
    r"""Count the votes of teachers on synthetic rows, with noise (PATE).

    .. math:: \tilde v_t = \sum_{k=1}^K v_{t,k} + Z_t, \qquad v_{t,k} \in \{0, 1\}^B, \qquad
              \varepsilon_\alpha = \frac{\alpha\,T B r^2}{2\sigma^2}

    Notation: K is `teachers`, T is `steps`, B is `queries`, σ is `std`: Z is discrete Gaussian; r is
    `distance.at_most`, at most K: the number of teachers that have a row of one protected unit.
    Guarantee: Rényi loss as above at every finite order, for any teachers, whether or not they agree: no bound
        that depends on the data is claimed. Proved in docs/proofs/teachers.md, attacked by
        tests/audit/test_teachers.py.
    Edge cases: a teacher without rows votes as any other; a pure budget refuses it.
    References: Papernot et al. 2018; Jordon, Yoon, van der Schaar 2019.
    """

    description: ClassVar[str] = (
        "whole-number noise is added to counts of votes by teachers who each know a part of the rows"
    )

    teachers: int
    steps: int
    queries: int
    std: float

    def __post_init__(self) -> None:
        set_checked(self, {"std": (2.0**-GRID_BITS, LARGEST_SCALE)}, ("teachers", "steps", "queries"))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each count."""
        return self.std

    def loss(self, distance: Sampled, order: float) -> Loss:
        """α T B r² / 2σ²."""
        check_distance(distance, Sampled)
        check_not_pure(order, "an ensemble of teachers")
        moved = min(distance.at_most, self.teachers)
        return Loss(order * self.steps * self.queries * moved**2 / (2 * self.std**2) * ROUND_UP, order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: Sampled, *, teachers: int, steps: int, queries: int) -> TeacherVotes:
        """The least noise that costs at most `loss`."""
        build = partial(cls, teachers=teachers, steps=steps, queries=queries)
        return least_noise(build, loss, distance, LARGEST_SCALE)

    @one_thread()
    def __call__(self, value: Teachable[S], noise: NoiseSource) -> Floats:
        """Run all steps and return the numbers of the last state."""
        program, state = value.program, value.program.start()
        prepared = _prepare_teachers(value, noise, teachers=self.teachers, answers=(self.queries, 1))
        for step in range(self.steps):
            with np.errstate(all="ignore"):  # a warning would reveal rows
                votes = np.asarray(program.ask(state, prepared, step, None)).reshape(self.teachers, self.queries) > 0
            noisy = votes.sum(axis=0, dtype=np.int64) + noise.discrete_gaussian(self.std, self.queries)
            state = program.follow(state, noisy.astype(np.float64), step)
            value.report_progress(step + 1)
        return program.outcome(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledTeacher(RecordedMechanism):
    r"""Ask one teacher at each step, drawn uniformly again, and add noise to its clipped vectors.

    .. math:: \tilde a_t = h \Bigl(\bigl\lfloor \tfrac1h \bigl(a_i \min(1, C / \lVert a_i \rVert)\bigr)_{i \le V}
              \bigr\rceil + Z_t\Bigr), \qquad h = C\,2^{-20}, \qquad
              \Delta = 2\sqrt V + 2^{-20} \sqrt P + 2^{-13}

    .. math:: \varepsilon_n \le \frac T{n-1} \log\Bigl(1 + \min\Bigl\{ \gamma (e^{n(n-1)s} - 1),\
              \tbinom n2 \gamma^2 \min(4 (e^{2s} - 1), 2 e^{2s}) +
              \sum_{j=3}^n \tbinom nj \gamma^j\, 2 e^{j(j-1)s} \Bigr\}\Bigr),
              \qquad s = \frac{\Delta^2}{2\sigma^2}, \quad \gamma = \frac rK

    Notation: K is `teachers`, T is `steps`, V is `vectors` (an answer's), P their numbers in all (`numbers`), C is
    `clip`, σ is `std`, in units of C; r is `distance.at_most`. Between two integer orders n the logarithm is
    interpolated.
    Guarantee: Rényi loss as above for one protected unit more or less, both ways: one row can change all V vectors of
        its teacher, so Δ grows with √V, and that teacher is asked with probability γ.
        Proved in docs/proofs/teachers.md, attacked by tests/audit/test_teachers.py.
    Edge cases: numbers that are not finite count as 0; a pure budget refuses it, and so do orders above 2¹⁴.
    References: Chen, Orekondy, Fritz 2020; Wang, Balle, Kasiviswanathan 2019.
    """

    description: ClassVar[str] = (
        "noise, as whole numbers on a public grid, is added to clipped answers of one teacher at a time, who knows a "
        "part of the rows"
    )

    teachers: int
    steps: int
    clip: float
    std: float
    vectors: int
    numbers: int

    def __post_init__(self) -> None:
        set_checked(self, {"clip": CLIP_RANGE, "std": STD_RANGE}, ("teachers", "steps", "vectors", "numbers"))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each number of an answer."""
        return self.std * self.clip

    def loss(self, distance: Sampled, order: float) -> Loss:
        """T times the loss of one step."""
        check_distance(distance, Sampled)
        check_not_pure(order, "an ensemble of teachers")
        sensitivity = 2 * math.sqrt(self.vectors) + math.sqrt(self.numbers) * 2.0**-GRID_BITS + SLACK
        chance = min(1.0, distance.at_most / self.teachers)
        return Loss(self.steps * subsampled_teacher_loss(chance, sensitivity / self.std, order), order)

    @classmethod
    def for_loss(
        cls, loss: Loss, distance: Sampled, *, teachers: int, steps: int, clip: float, vectors: int, numbers: int
    ) -> SubsampledTeacher:
        """The least noise that costs at most `loss`."""
        build = partial(cls, teachers=teachers, steps=steps, clip=clip, vectors=vectors, numbers=numbers)
        return least_noise(build, loss, distance, STD_RANGE[1])

    @one_thread()
    def __call__(self, value: Teachable[S], noise: NoiseSource) -> Floats:
        """Run all steps and return the numbers of the last state."""
        program, state, unit = value.program, value.program.start(), self.clip * 2.0**-GRID_BITS
        prepared = _prepare_teachers(
            value, noise, teachers=self.teachers, answers=(self.vectors, self.numbers // self.vectors)
        )
        for step in range(self.steps):
            (teacher,) = draw_teachers(self.teachers, 1, noise)
            with np.errstate(all="ignore"):  # a warning would reveal rows
                answer = self.clipped(program.ask(state, prepared, step, int(teacher)))
            steps_of_grid = np.rint(answer.ravel() / unit).astype(np.int64)
            steps_of_grid += noise.discrete_gaussian(self.std * 2.0**GRID_BITS, self.numbers)
            noisy = np.asarray(steps_of_grid * unit, dtype=np.float64).reshape(answer.shape)
            state = program.follow(state, noisy, step)
            value.report_progress(step + 1)
        return program.outcome(state)

    def clipped(self, vectors: Floats) -> Floats:
        """Each vector clipped to the norm `clip`; numbers that are not finite are 0."""
        vectors = np.clip(np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0), -1e100, 1e100)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        return np.asarray(vectors * np.minimum(1.0, self.clip / np.maximum(lengths, 1e-300))[:, None])


def draw_teachers(teachers: int, size: int, noise: NoiseSource) -> Integers:
    """Draw teachers independently and uniformly; words that would favour some teachers are drawn again."""
    drawn = noise.uniform_words(size).copy()  # those of the system cannot be written to
    most = 2**64 // teachers * teachers - 1
    while (again := np.flatnonzero(drawn > np.uint64(most))).size:
        drawn[again] = noise.uniform_words(again.size)
    return (drawn % np.uint64(teachers)).astype(np.int64)


def subsampled_teacher_loss(chance: float, shift: float, order: float) -> float:
    """An upper bound on the Rényi loss of one step of `SubsampledTeacher`; Δ/σ is `shift`."""
    return interpolate_orders(partial(_log_moment, chance, shift), order)


def _log_moment(chance: float, shift: float, order: int) -> float:
    """The logarithm at an integer order: the smaller of the bounds with the asked teacher revealed and secret."""
    from scipy.special import gammaln, logsumexp  # noqa: PLC0415 slow to load

    if order < 2:
        return 0.0
    s = shift**2 / 2
    revealed = math.log(chance) + _log_expm1(order * (order - 1) * s)
    j = np.arange(2, order + 1)
    subsets = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1) + j * math.log(chance)
    apart = math.log(2) + j * (j - 1) * s
    apart[0] = min(apart[0], math.log(4) + _log_expm1(2 * s))
    return float(np.logaddexp(0.0, min(revealed, float(logsumexp(subsets + apart)))))


def _log_expm1(x: float) -> float:
    """log(e^x - 1), for x above 0."""
    return x + math.log(-math.expm1(-x))


def _prepare_teachers(value: Teachable[S], noise: NoiseSource, *, teachers: int, answers: tuple[int, int]) -> Any:
    """Draw a teacher for each row, add up the statistics of each teacher, and prepare them."""
    program = value.program
    if (program.teachers, program.answers) != (teachers, answers):
        raise BudgetError(
            f"the noise was charged for {plural(teachers, 'teacher')} with answers of shape {answers}, "
            f"but the program has {program.teachers} with {program.answers}",
            hint=Hint("pass ", Argument("teachers", program.teachers), " and the shape of the program's answers"),
        )
    sums: Integers | int = 0
    with np.errstate(all="ignore"):  # a warning would reveal rows
        for columns, teacher in value.batches(lambda rows: draw_teachers(teachers, rows, noise)):
            sums = sums + program.summarize(columns, teacher)
        return program.prepare(np.asarray(sums))
