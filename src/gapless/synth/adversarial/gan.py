"""Generative adversarial networks with privately trained critics: the base class, and all methods but MisGAN.

One-way tables are measured first. Then the critics are trained, and generators take steps between the critics' steps.
In PATEGAN the critic is a student of teachers, each of whom sees a part of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt
from typing import ClassVar, NamedTuple

import numpy as np

from gapless.data import PrivateTable
from gapless.data.training import teacher_rows, train, training_rows
from gapless.errors import ModelError
from gapless.missing import CompleteRows, Extended, ImputeFirst, Missing
from gapless.model.distribution import Distribution
from gapless.model.marginal import estimate_total
from gapless.model.neural.descent import Adam, CosineSchedule, PredictionTask, PredictionTraining, initial_parameters
from gapless.model.neural.layers import Chain, Linear
from gapless.privacy import PrivateTraining, Released, Sampled, Spend, TeacherVotes
from gapless.synth.adversarial.game import Game, Generator, Opponents, VoteGame
from gapless.synth.adversarial.generative import Critic, CriticFacts, GeneratorModel, network
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.learners import LearnedModel
from gapless.threads import one_thread
from gapless.types import Floats, whole

# All of it public. Chosen on Adult with gaps (bench/gans.py).
RATE = 0.1  # the probability of each row to be sampled at a step
STEPS = 100
REACH = 1.25  # the clipping norm, as a multiple of the typical norm of a gradient given the marginals
MEMORY = 0.3  # τ, as a share of the steps
NOISE, HIDDEN = 32, 128  # dimension of a generator's noise; units of its hidden layer
MADE = 512  # generated rows, or masks, for a step of a generator
ROUNDS = 8  # generator steps per critic step
LEARNING_RATE = 0.02  # of generators
WARMUP = 10  # steps of critics
AVERAGED = 0.9
COLUMNS_SHARE = 0.2  # of the budget, for tables of one column
MOST_NUMBERS = 4_000_000  # largest square of the number of cells of all columns
TEACHERS = 1_000
MOST_LESSONS = 1 << 24  # numbers that all teachers store together
ASKED = 128  # generated rows that teachers judge at a step
CODE = 15  # dimension of the autoencoder's code of a row
AUTO_SHARE = 0.5  # of the budget after the one-way tables, for the autoencoder
AUTO_RATE, AUTO_CLIP = 0.02, 2.0  # learning rate and clipping norm of the autoencoder


class GameResult(NamedTuple):
    """The released result of a game, and facts about its critic if the critic was paid for."""

    released: Released[Floats]
    critic: CriticFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversarial(Synthesizer):
    """A generative network. Only its critics see private rows; they are trained privately, in one training.

    Guarantee: the releases are the one-way marginals, the number of rows unless these count every row, and then one
        training. Sampling rate, number of steps, clipping norm and the generators' seeds are public. They depend on the
        number of rows only through its noisy release.
    """

    pure: ClassVar[bool] = False
    can_fill: ClassVar[bool] = False
    treatments: ClassVar[tuple[type[Missing], ...]] = (Extended, CompleteRows, ImputeFirst)

    steps: int | None = None

    def check(self, fitting: FitContext) -> None:
        """Refuse invalid settings, and columns whose critic would be too large."""
        if self.steps is not None:
            whole("steps", self.steps, error=ModelError, least=1)
        if (cells := sum(fitting.sizes)) ** 2 > MOST_NUMBERS:
            raise ModelError(
                f"all columns together have {cells:,} cells, but one critic takes at most {isqrt(MOST_NUMBERS):,}",
                hint="choose another method, such as mixture, or declare fewer levels or bins in the schema",
            )

    @one_thread()
    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure one-way marginals, train, and rake the model's columns to the measured marginals."""
        fitting = FitContext(self, table, spend=spend, progress=progress)
        left, several = fitting.prepare(), len(fitting.one_way_marginals) > 1
        marginals = fitting.column_probabilities(left * COLUMNS_SHARE if several else left)
        sides = self.opponents(fitting, marginals)
        game = self.game(fitting, sides)
        played = self.play(fitting, game, marginals) if several else None
        players = game.averages(played.released.value) if played else [np.zeros_like(side.initial) for side in sides]
        made = [GeneratorModel.of(side.generator, parameters) for side, parameters in zip(sides, players, strict=True)]
        filled, gapped = self.model(fitting, made, marginals)
        critic = None
        if played and played.critic:
            critic = Critic.from_release(played.released, sides[0], gapped or filled, played.critic)
        return fitting.fitted(
            LearnedModel(filled, gapped, fitting.total),
            settings=self.settings(fitting) | {"steps": self.step_count if several else 0},
            edges=combinations(range(len(fitting.schema.columns)), 2),
            critic=critic,
        )

    def settings(self, fitting: FitContext) -> dict[str, str | int]:  # noqa: ARG002 most methods have none
        """Return further settings that the model records."""
        return {}

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Return generators and critics; by default of rows, with gaps as cells if they are counted."""
        return [row_opponents(fitting, marginals, fitting.sizes)]

    def model(
        self, fitting: FitContext, made: Sequence[GeneratorModel], marginals: Sequence[Floats]
    ) -> tuple[Distribution, Distribution | None]:
        """Return the distribution of complete rows, and of rows with gaps if gaps were counted."""
        raked = made[0].raked(marginals)
        if not fitting.extended:
            return raked, None
        sizes = [column.size for column in fitting.schema.columns]
        return raked.restricted(sizes).raked(condition_on_first_cells(marginals, sizes)), raked

    @property
    def step_count(self) -> int:
        """The number of steps: `steps`, or the default."""
        return STEPS if self.steps is None else self.steps

    def game(self, fitting: FitContext, sides: Sequence[Opponents]) -> Game:
        """Return the game. All of its settings are public."""
        steps = self.step_count
        return Game(
            sides=tuple(sides),
            optimizer=Adam(rate=CosineSchedule(rate=LEARNING_RATE, steps=steps * ROUNDS, warmup=WARMUP * ROUNDS)),
            batch_size=RATE * max(1.0, estimate_total(fitting.measured)),
            memory=max(1.0, MEMORY * steps),
            rounds=ROUNDS,
            made=MADE,
            averaged=AVERAGED,
        )

    def play(self, fitting: FitContext, game: Game, marginals: Sequence[Floats]) -> GameResult:
        """Train the critics with the rest of the grant."""
        steps = self.step_count
        rows = training_rows(fitting.prepared, game, progress=lambda step: fitting.notify("training", step, steps))
        training = PrivateTraining.for_loss(
            fitting.grant.left,
            rows.distance,
            rate=RATE,
            steps=steps,
            clip=typical_clip(game.sides, marginals),
            numbers=game.numbers,
        )
        released = fitting.grant.release(rows, training, what="critics")
        kept = 1 - 1 / game.memory
        step_std = training.noise_std / game.batch_size * (1 - kept)  # of one step; the weights are a geometric series
        noise_std = step_std * np.sqrt((1 - kept ** (2 * steps)) / (1 - kept**2))
        return GameResult(released, CriticFacts(kept=1 - kept**steps, noise_std=float(noise_std), clip=training.clip))


def row_opponents(
    fitting: FitContext,
    marginals: Sequence[Floats],
    sizes: Sequence[int],
    *,
    given: Sequence[int] = (),
    decoder: Floats | None = None,
) -> Opponents:
    """Return the generator of rows whose columns have these cells, and its critic."""
    observed = condition_on_first_cells(marginals, sizes)
    codes = [column.extended_size for column in fitting.schema.columns]
    heads = [np.eye(size) - marginal for size, marginal in zip(sizes, observed, strict=True)]
    lines = [np.pad(points, ((0, many - len(points)), (0, 0))) for points, many in zip(heads, codes, strict=True)]
    known = tuple(observed[column] for column in given)
    generator = Generator(
        network=network(NOISE + sum(map(len, known)), HIDDEN, sum(sizes) if decoder is None else len(decoder)),
        sizes=tuple(sizes),
        noise=NOISE,
        bias=np.log(np.concatenate(observed)),
        decoder=decoder,
        given=tuple(given),
        marginals=known,
    )
    return Opponents.of(generator, lines, heads)


def condition_on_first_cells(marginals: Sequence[Floats], sizes: Sequence[int]) -> list[Floats]:
    """Return the marginal of each column, conditioned on its first cells."""
    return [marginal[:size] / marginal[:size].sum() for marginal, size in zip(marginals, sizes, strict=True)]


def teacher_count(fitting: FitContext) -> int:
    """Return the number of teachers among whom rows are split; it depends only on the schema."""
    codes = [column.extended_size for column in fitting.schema.columns]
    pairs = (sum(codes) ** 2 - sum(size**2 for size in codes)) // 2  # counts that each teacher stores: pairs of codes
    return max(2, min(TEACHERS, MOST_LESSONS // max(1, pairs)))


def typical_clip(sides: Sequence[Opponents], marginals: Sequence[Floats]) -> float:
    """Return the clipping norm: `REACH` times the root mean squared norm of gradients for independent columns."""
    square = 0.0
    for side in sides:
        columns = zip(marginals, side.code_points, strict=True)
        means = np.array([marginal @ (points[: len(marginal)] ** 2).sum(axis=1) for marginal, points in columns])
        square += float(means.sum() ** 2 - (means**2).sum()) / 2
    return float(np.clip(REACH * np.sqrt(square), 2.0**-10, 2.0**20))


@dataclass(frozen=True, slots=True, kw_only=True)
class DPGAN(Adversarial):
    """A generator against a critic that sees private rows only through noisy sums of clipped gradients.

    The generator is a network with one hidden layer that maps noise to probabilities of each column's cells. The critic
    compares pairs of columns (`gapless.synth.adversarial.game`). The fitted model keeps its critic, which the same
    training paid for, so `CriticWeights(model)` are free. With `Extended()`, gaps are cells. They are filled from the
    probabilities of the other cells for the same noise. Each column then has the distribution of its observed cells.

    Args:
        missing: how to treat gaps.
        steps: the number of training steps; by default 100.

    References: Xie, Lin, Wang, Wang, Zhou 2018.
    """

    name = "dpgan"


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCGAN(Adversarial):
    """`DPGAN` with a conditional generator: it gets a label for each row, drawn from the label's released table.

    Args:
        missing: how to treat gaps.
        label: the column on which the generator is conditioned; by default the last column of the schema.
        steps: the number of training steps; by default 100.

    References: Torkzadehmahani, Kairouz, Paten 2019.
    """

    name = "dpcgan"

    label: str | None = None

    def check(self, fitting: FitContext) -> None:
        """Check the settings, also that `label` is a column."""
        Adversarial.check(self, fitting)
        self._label(fitting)

    def _label(self, fitting: FitContext) -> int:
        schema = fitting.schema
        return len(schema.names) - 1 if self.label is None else schema.positions([self.label])[0]

    def settings(self, fitting: FitContext) -> dict[str, str | int]:
        """Return the label."""
        return {"label": fitting.schema.names[self._label(fitting)]}

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Return the opponents for rows, given their label."""
        return [row_opponents(fitting, marginals, fitting.sizes, given=[self._label(fitting)])]


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCTGAN(Adversarial):
    """`DPGAN` with a generator conditioned on one cell of each row, of a random column, drawn from its released table.

    The generated row keeps that cell. The original method also chooses private rows by this cell, so which rows are
    read depends on their values. Here all rows have the same sampling rate, and cells are drawn by released
    frequencies.

    Args:
        missing: how to treat gaps.
        steps: the number of training steps; by default 100.

    References: Xu, Skoularidou, Cuesta-Infante, Veeramachaneni 2019; Fang, Dhami, Kersting 2022.
    """

    name = "dpctgan"

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Return the opponents for rows, given a cell of any column with more than one cell."""
        return [
            row_opponents(fitting, marginals, fitting.sizes, given=[column for (column,) in fitting.one_way_marginals])
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class DPautoGAN(Adversarial):
    """`DPGAN` with a generator that ends in the decoder of an autoencoder.

    First, a linear encoder to a short code and a linear decoder to the logits of all cells are trained to predict the
    row. Then a generator of codes is trained against a critic of decoded rows. Each training gets half of the budget
    that the one-way tables leave. On complete rows this is [MD]'s baseline among generative networks.

    Guarantee: as for `Adversarial`, with two trainings instead of one.

    Args:
        missing: how to treat gaps.
        steps: the number of steps of each training; by default 100.

    References: Tantipongpipat, Waites, Boob, Siva, Cummings 2021.
    """

    name = "dpautogan"

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Train the autoencoder, and return the opponents for rows with its decoder."""
        side = row_opponents(fitting, marginals, fitting.sizes)
        if len(fitting.one_way_marginals) == 1:
            return [side]
        steps = self.step_count
        shown, every = tuple(map(len, side.code_points)), tuple(range(len(fitting.sizes)))
        network = Chain((Linear(sum(fitting.sizes), CODE), Linear(CODE, sum(fitting.sizes), gain=0.0)))
        place = sum(network.shapes) - sum(fitting.sizes)
        program = PredictionTraining(
            network=network,
            cells=PredictionTask(given=every, sizes=shown, targets=every, cells=fitting.sizes, points=side.code_points),
            optimizer=Adam(rate=CosineSchedule(rate=AUTO_RATE, steps=steps, warmup=WARMUP)),
            batch_size=RATE * max(1.0, estimate_total(fitting.measured)),
            initial=initial_parameters(network, side.generator.bias, place=place),
        )
        trained = train(
            fitting.prepared,
            program,
            fitting.grant,
            spend=fitting.grant.left * AUTO_SHARE,
            rate=RATE,
            steps=steps,
            clip=AUTO_CLIP,
            what="autoencoder",
            progress=lambda step: fitting.notify("training the autoencoder", step, steps),
        )
        _, (decoder, _) = network.unpack(trained.value)
        return [row_opponents(fitting, marginals, fitting.sizes, decoder=decoder)]


# Step size of the student; it falls with the noise in shares of votes. Chosen on Adult with gaps.
STUDENT_REACH, MUCH_NOISE = 2.0, 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class PATEGAN(Adversarial):
    """`DPGAN` with a student as critic: it sees only generated rows and the teachers' noisy votes on them.

    Each private row goes to one of 1,000 teachers at random. There are fewer teachers if each would store too many
    numbers. A teacher compares its rows with generated rows on all pairs of columns. It votes for the half of some
    generated rows that are most like its own. Counts of votes get noise. A row can change the votes of only one
    teacher. The stated loss holds whether or not teachers agree; the original claims a smaller loss where they do.
    The student is paid for, so `CriticWeights(model)` are free. Teachers are never released.

    Args:
        missing: how to treat gaps.
        steps: the number of votes; by default 100.

    References: Jordon, Yoon, van der Schaar 2019; Papernot et al. 2018.
    """

    name = "pategan"

    def play(self, fitting: FitContext, game: Game, marginals: Sequence[Floats]) -> GameResult:
        """Take votes with the rest of the grant."""
        steps, many = self.step_count, teacher_count(fitting)
        distance = Sampled(fitting.table.protect.at_most)
        votes = TeacherVotes.for_loss(fitting.grant.left, distance, teachers=many, steps=steps, queries=ASKED)
        reach = STUDENT_REACH / (1 + votes.std / many / MUCH_NOISE)
        poll = VoteGame(game=game, teachers=many, made=ASKED, steps=steps, reach=reach)
        rows = teacher_rows(fitting.prepared, poll, progress=lambda step: fitting.notify("votes", step, steps))
        released = fitting.grant.release(rows, votes, what="votes")
        clip = typical_clip(game.sides, marginals)
        length = clip / np.sqrt(game.numbers)  # approximate size of a product in one generated row
        rates = np.sqrt(sum(poll.rate(step) ** 2 for step in range(steps)))
        noise_std = float(rates * votes.std / many * length / np.sqrt(ASKED))
        return GameResult(released, CriticFacts(kept=1.0, noise_std=noise_std, clip=clip))
