r"""Teacher ensembles (PATE): noisy answers of teachers about synthetic rows, all steps in one release.

Each row goes to one of K teachers, drawn independently and uniformly, and stays there. A teacher is a function of its
rows and of public values, so one row changes the answers of one teacher, however often it is asked. Synthetic rows made
from noisy answers are public: the teachers are asked about them, step after step. The loop is one mechanism, charged
once, before the first row is read. It runs here, as that of `sgd`. A teacher keeps counts of its rows, so it does not
depend, to the last bit, on the rows of other teachers. Proved in docs/proofs/teachers.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from gapless.errors import Argument, BudgetError, Hint
from gapless.privacy.budget import Loss
from gapless.privacy.mechanisms import RecordedMechanism, check_distance, check_not_pure
from gapless.privacy.noise import LARGEST, NoiseSource
from gapless.privacy.private import Sampled
from gapless.privacy.sgd import GRID_BITS, SLACK, check_range, interpolate_orders, least_std
from gapless.threads import one_thread
from gapless.types import Codes, Floats, Integers, whole

_UP = 1 + 1e-9  # the loss is rounded up by more than its float error

S = TypeVar("S")
TeacherSampler: TypeAlias = Callable[[int], Integers]


class TeacherEnsemble(Protocol[S]):
    """What is asked of teachers, and what is made of the answers: its state is public, since it follows from them."""

    @property
    def teachers(self) -> int:
        """How many there are."""
        ...

    @property
    def answers(self) -> tuple[int, int]:
        """The shape of what a teacher answers at a step: so many vectors of so many numbers."""
        ...

    def start(self) -> S:
        """The first state."""
        ...

    def summarize(self, columns: tuple[Codes, ...], teacher: Integers) -> Integers:
        """Teachers × numbers: what teachers keep of these rows, sums of whole numbers over the rows of each."""
        ...

    def prepare(self, sums: Integers) -> Any:
        """Lessons in the form that answers are computed from: line by line."""
        ...

    def ask(self, state: S, prepared: Any, step: int, teacher: int | None) -> Floats:
        """What teachers say at this step (0, 1 …): one of them, or all, one line after the other.

        The line of a teacher is a function of the state and of its own sums, to the last bit.
        """
        ...

    def follow(self, state: S, noisy: Floats, step: int) -> S:
        """The next state, from noisy answers."""
        ...

    def outcome(self, state: S) -> Floats:
        """The numbers of the last state that are released; a journal can keep them, unlike the state itself."""
        ...


class Teachable(Protocol[S]):
    """Rows, and the ensemble that reads them: what a sealed value for these mechanisms holds."""

    @property
    def program(self) -> TeacherEnsemble[S]:
        """What is asked."""
        ...

    def batches(self, drawn: TeacherSampler) -> Iterator[tuple[tuple[Codes, ...], Integers]]:
        """Every row once, some at a time, with the teacher that it goes to; `drawn` is told how many are to go."""
        ...

    def report_progress(self, steps: int) -> None:
        """Report the number of steps done, and nothing of the state: a stopped training is done again (`Journal`)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherVotes(RecordedMechanism):
    r"""Count the votes of teachers on made rows, with noise (PATE).

    .. math:: \tilde v_t = \sum_{k=1}^K v_{t,k} + Z_t, \qquad v_{t,k} \in \{0, 1\}^B, \qquad
              \varepsilon_\alpha = \frac{\alpha\,T B r^2}{2\sigma^2}

    Notation: K is `teachers`, T is `steps`, B is `queries`, σ is `std`: Z is discrete Gaussian; r is
    `distance.at_most`, at most K: so many teachers have a row of one protected unit.
    Guarantee: Rényi loss as above at every finite order, whatever the teachers are and however they agree: no bound
        that depends on the data is claimed. Proved in docs/proofs/teachers.md, attacked by
        tests/audit/test_teachers.py.
    Edge cases: a teacher without rows votes as any other; a pure budget refuses it.
    References: Papernot et al. 2018; Jordon, Yoon, van der Schaar 2019.
    """

    description: ClassVar[str] = (
        "whole numbers are added to counts of votes by teachers who each know a part of the rows"
    )

    teachers: int
    steps: int
    queries: int
    std: float

    def __post_init__(self) -> None:
        check_range("std", self.std, 2.0**-GRID_BITS, LARGEST)
        object.__setattr__(self, "std", float(self.std))  # plain: what is charged is what is drawn
        for name in ("teachers", "steps", "queries"):
            object.__setattr__(self, name, whole(name, getattr(self, name), error=BudgetError, least=1))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each count."""
        return self.std

    def loss(self, distance: Sampled, order: float) -> Loss:
        """α T B r² / 2σ²."""
        check_distance(distance, Sampled)
        check_not_pure(order, "an ensemble of teachers")
        moved = min(distance.at_most, self.teachers)
        return Loss(order * self.steps * self.queries * moved**2 / (2 * self.std**2) * _UP, order)

    @classmethod
    def for_loss(cls, loss: Loss, distance: Sampled, *, teachers: int, steps: int, queries: int) -> TeacherVotes:
        """The least noise that costs at most `loss`."""

        def with_std(std: float) -> TeacherVotes:
            return cls(teachers=teachers, steps=steps, queries=queries, std=std)

        return with_std(least_std(loss, lambda std: with_std(std).loss(distance, loss.order), LARGEST))

    @one_thread()
    def __call__(self, value: Teachable[S], noise: NoiseSource) -> Floats:
        """Run all steps and give the numbers of the last state."""
        program, state = value.program, value.program.start()
        prepared = _prepare_teachers(value, noise, teachers=self.teachers, answers=(self.queries, 1))
        for step in range(self.steps):
            with np.errstate(all="ignore"):  # a warning would tell of rows
                votes = np.asarray(program.ask(state, prepared, step, None)).reshape(self.teachers, self.queries) > 0
            noisy = votes.sum(axis=0, dtype=np.int64) + noise.discrete_gaussian(self.std, self.queries)
            state = program.follow(state, noisy.astype(np.float64), step)
            value.report_progress(step + 1)
        return program.outcome(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampledTeacher(RecordedMechanism):
    r"""At each step one teacher, drawn anew and evenly, answers with clipped vectors, and noise is added to them.

    .. math:: \tilde a_t = h \Bigl(\bigl\lfloor \tfrac1h \bigl(a_i \min(1, C / \lVert a_i \rVert)\bigr)_{i \le V}
              \bigr\rceil + Z_t\Bigr), \qquad h = C\,2^{-20}, \qquad
              \Delta = 2\sqrt V + 2^{-20} \sqrt P + 2^{-13}

    .. math:: \varepsilon_n \le \frac T{n-1} \log\Bigl(1 + \min\Bigl\{ \gamma (e^{n(n-1)s} - 1),\
              \tbinom n2 \gamma^2 \min(4 (e^{2s} - 1), 2 e^{2s}) +
              \sum_{j=3}^n \tbinom nj \gamma^j\, 2 e^{j(j-1)s} \Bigr\}\Bigr),
              \qquad s = \frac{\Delta^2}{2\sigma^2}, \quad \gamma = \frac rK

    Notation: K is `teachers`, T is `steps`, V is `vectors` (an answer's), P their numbers in all (`numbers`), C is
    `clip`, σ is `std`, in units of C; r is `distance.at_most`. Between two whole orders n the logarithm is
    interpolated.
    Guarantee: Rényi loss as above for one protected unit more or less, both ways: one row may turn all V vectors of
        the teacher that has it, which is why Δ grows with √V, and that teacher is asked with chance γ.
        Proved in docs/proofs/teachers.md, attacked by tests/audit/test_teachers.py.
    Edge cases: numbers that are not finite count as 0; a pure budget refuses it, and so do orders above 2¹⁴.
    References: Chen, Orekondy, Fritz 2020; Wang, Balle, Kasiviswanathan 2019.
    """

    description: ClassVar[str] = (
        "whole numbers, on a public grid, are added to clipped answers of one teacher at a time, who knows a part of "
        "the rows"
    )

    teachers: int
    steps: int
    clip: float
    std: float
    vectors: int
    numbers: int

    def __post_init__(self) -> None:
        check_range("clip", self.clip, 2.0**-10, 2.0**20)
        check_range("std", self.std, 2.0**-GRID_BITS, LARGEST * 2.0**-GRID_BITS)
        for name in ("clip", "std"):
            object.__setattr__(self, name, float(getattr(self, name)))
        for name in ("teachers", "steps", "vectors", "numbers"):
            object.__setattr__(self, name, whole(name, getattr(self, name), error=BudgetError, least=1))

    @classmethod
    def recorded_name(cls) -> str:
        """The name in ledgers, which is older than that of the class."""
        return "OneTeacher"

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each number of an answer."""
        return self.std * self.clip

    def loss(self, distance: Sampled, order: float) -> Loss:
        """T times the loss of one step."""
        check_distance(distance, Sampled)
        check_not_pure(order, "an ensemble of teachers")
        apart = 2 * math.sqrt(self.vectors) + math.sqrt(self.numbers) * 2.0**-GRID_BITS + SLACK
        chance = min(1.0, distance.at_most / self.teachers)
        return Loss(self.steps * subsampled_teacher_loss(chance, apart / self.std, order), order)

    @classmethod
    def for_loss(
        cls, loss: Loss, distance: Sampled, *, teachers: int, steps: int, clip: float, vectors: int, numbers: int
    ) -> SubsampledTeacher:
        """The least noise that costs at most `loss`."""

        def with_std(std: float) -> SubsampledTeacher:
            return cls(teachers=teachers, steps=steps, clip=clip, std=std, vectors=vectors, numbers=numbers)

        most = LARGEST * 2.0**-GRID_BITS
        return with_std(least_std(loss, lambda std: with_std(std).loss(distance, loss.order), most))

    @one_thread()
    def __call__(self, value: Teachable[S], noise: NoiseSource) -> Floats:
        """Run all steps and give the numbers of the last state."""
        program, state, unit = value.program, value.program.start(), self.clip * 2.0**-GRID_BITS
        prepared = _prepare_teachers(
            value, noise, teachers=self.teachers, answers=(self.vectors, self.numbers // self.vectors)
        )
        for step in range(self.steps):
            (teacher,) = draw_teachers(self.teachers, 1, noise)
            with np.errstate(all="ignore"):  # a warning would tell of rows
                answer = self.clipped(program.ask(state, prepared, step, int(teacher)))
            steps_of_grid = np.rint(answer.ravel() / unit).astype(np.int64)
            steps_of_grid += noise.discrete_gaussian(self.std * 2.0**GRID_BITS, self.numbers)
            noisy = np.asarray(steps_of_grid * unit, dtype=np.float64).reshape(answer.shape)
            state = program.follow(state, noisy, step)
            value.report_progress(step + 1)
        return program.outcome(state)

    def clipped(self, vectors: Floats) -> Floats:
        """Each vector cut to the length `clip`; numbers that are not finite are 0."""
        vectors = np.clip(np.nan_to_num(vectors, nan=0.0, posinf=0.0, neginf=0.0), -1e100, 1e100)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        return np.asarray(vectors * np.minimum(1.0, self.clip / np.maximum(lengths, 1e-300))[:, None])


def draw_teachers(teachers: int, many: int, noise: NoiseSource) -> Integers:
    """So many teachers, each drawn by itself, all with the same chance: words that would favour some are drawn anew."""
    words = noise.uniform_words(many).copy()  # those of the system cannot be written to
    most = 2**64 // teachers * teachers - 1
    while (again := np.flatnonzero(words > np.uint64(most))).size:
        words[again] = noise.uniform_words(again.size)
    return (words % np.uint64(teachers)).astype(np.int64)


def subsampled_teacher_loss(chance: float, shift: float, order: float) -> float:
    """The Rényi loss of one step of `SubsampledTeacher`, at most; Δ/σ is `shift`."""
    return interpolate_orders(lambda whole: _log_moment(chance, shift, whole), order)


def _log_moment(chance: float, shift: float, order: int) -> float:
    """The logarithm at a whole order: the lesser of what holds if the teacher is told, and if it is not."""
    from scipy.special import gammaln, logsumexp  # noqa: PLC0415 slow to load

    if order < 2:
        return 0.0
    s = shift**2 / 2
    told = math.log(chance) + _log_expm1(order * (order - 1) * s)
    j = np.arange(2, order + 1)
    many = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1) + j * math.log(chance)
    apart = math.log(2) + j * (j - 1) * s
    apart[0] = min(apart[0], math.log(4) + _log_expm1(2 * s))
    return float(np.logaddexp(0.0, min(told, float(logsumexp(many + apart)))))


def _log_expm1(x: float) -> float:
    """log(e^x - 1), for x above 0."""
    return x + math.log(-math.expm1(-x))


def _prepare_teachers(value: Teachable[S], noise: NoiseSource, *, teachers: int, answers: tuple[int, int]) -> Any:
    """Give each row to a teacher, and add up what they keep."""
    program = value.program
    if (program.teachers, program.answers) != (teachers, answers):
        raise BudgetError(
            f"{program.teachers} teachers with answers of {program.answers}, and noise for {teachers} with {answers} "
            "was paid for",
            hint=Hint("pass ", Argument("teachers"), " of the program, and the shape of its answers"),
        )
    sums: Integers | int = 0
    with np.errstate(all="ignore"):  # a warning would tell of rows
        for columns, teacher in value.batches(lambda rows: draw_teachers(teachers, rows, noise)):
            sums = sums + program.summarize(columns, teacher)
        return program.prepare(np.asarray(sums))
