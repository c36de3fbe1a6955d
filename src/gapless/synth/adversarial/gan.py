"""Generative networks whose critics are trained privately: what all of them share, and the plain ones.

Tables of one column are measured first; then one training of critics, with steps of the generators between its steps.

PATEGAN: a generator against a student of teachers, each of whom knows a part of the rows.
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
from gapless.synth.measurements import LearnedModel
from gapless.threads import one_thread
from gapless.types import Floats, whole

# All of it public. Chosen on Adult with gaps (bench/gans.py).
RATE = 0.1  # the probability of each row to be sampled at a step
STEPS = 100
REACH = 1.25  # times the typical length of a gradient, given the marginals: the clipping norm
MEMORY = 0.3  # of the steps: τ
NOISE, HIDDEN = 32, 128  # numbers that a generator starts from; units of its hidden layer
MADE = 512  # rows, or masks, for a step of a generator
ROUNDS = 8  # steps of generators for each of the critics'
LEARNING_RATE = 0.02  # of generators
WARMUP = 10  # steps of critics
AVERAGED = 0.9
COLUMNS_SHARE = 0.2  # of the budget, for tables of one column
MOST_NUMBERS = 4_000_000  # cells of all columns by cells of all columns
TEACHERS = 1_000
MOST_LESSONS = 1 << 24  # numbers that all teachers keep together
ASKED = 128  # made rows that teachers are asked about at a step
CODE = 15  # numbers that an autoencoder describes a row by
AUTO_SHARE = 0.5  # of what columns leave of the budget, for the autoencoder
AUTO_RATE, AUTO_CLIP = 0.02, 2.0  # of its steps; the length that gradients are cut to


class GameResult(NamedTuple):
    """The outcome of a game; what is known of its critic, if that was paid for."""

    released: Released[Floats]
    critic: CriticFacts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adversarial(Synthesizer):
    """A generative network: its critics are trained privately, all in one training, and are all that sees rows.

    Guarantee: the releases are the one-way marginals and, unless every row is counted in them, the number of rows; then
        one training. Sampling rate, number of steps, clipping and the generators' seeds are public, and follow no
        number of rows but the noisy.
    """

    pure: ClassVar[bool] = False
    can_fill: ClassVar[bool] = False
    treatments: ClassVar[tuple[type[Missing], ...]] = (Extended, CompleteRows, ImputeFirst)

    steps: int | None = None

    def check(self, fitting: FitContext) -> None:
        """Refuse settings that are none, and columns whose critic would be too large."""
        if self.steps is not None:
            whole("steps", self.steps, error=ModelError, least=1)
        if (cells := sum(fitting.sizes)) ** 2 > MOST_NUMBERS:
            raise ModelError(
                f"all columns together have {cells:,} cells, but one critic takes at most {isqrt(MOST_NUMBERS):,}",
                hint="choose another method, or declare fewer levels or bins",
            )

    @one_thread()
    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure columns by themselves, train, and bring the columns of the model to what was measured."""
        fitting = FitContext(self, table, spend=spend, progress=progress)
        left, several = fitting.prepare(), len(fitting.columns) > 1
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
        """Settings that the model's facts name."""
        return {}

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Generators and critics; by default of rows alone, in which gaps are cells if they are counted."""
        return [row_opponents(fitting, marginals, fitting.sizes)]

    def model(
        self, fitting: FitContext, made: Sequence[GeneratorModel], marginals: Sequence[Floats]
    ) -> tuple[Distribution, Distribution | None]:
        """The distribution of complete rows, and perhaps of rows with their gaps."""
        raked = made[0].raked(marginals)
        if not fitting.extended:
            return raked, None
        sizes = [column.size for column in fitting.schema.columns]
        return raked.restricted(sizes).raked(condition_on_first_cells(marginals, sizes)), raked

    @property
    def step_count(self) -> int:
        """As many as are set, or by default."""
        return STEPS if self.steps is None else self.steps

    def game(self, fitting: FitContext, sides: Sequence[Opponents]) -> Game:
        """The game that is played: all of it public."""
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
        """Train the critics with what is left of the grant."""
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
        step_std = training.noise_std / game.batch_size * (1 - kept)  # of each step, what stays is a geometric series
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
    """The generator of rows whose columns have these cells, and its critic."""
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
    """The marginal of each column given that it is in its first cells."""
    return [marginal[:size] / marginal[:size].sum() for marginal, size in zip(marginals, sizes, strict=True)]


def teacher_count(fitting: FitContext) -> int:
    """How many teachers rows are parted among, where it is teachers that see them: the schema says."""
    codes = [column.extended_size for column in fitting.schema.columns]
    kept = (sum(codes) ** 2 - sum(size**2 for size in codes)) // 2  # by each: pairs of codes of two columns
    return max(2, min(TEACHERS, MOST_LESSONS // max(1, kept)))


def typical_clip(sides: Sequence[Opponents], marginals: Sequence[Floats]) -> float:
    """The clipping norm: from the length of gradients if columns are independent, with their released marginals."""
    square = 0.0
    for side in sides:
        columns = zip(marginals, side.code_points, strict=True)
        means = np.array([marginal @ (points[: len(marginal)] ** 2).sum(axis=1) for marginal, points in columns])
        square += float(means.sum() ** 2 - (means**2).sum()) / 2
    return float(np.clip(REACH * np.sqrt(square), 2.0**-10, 2.0**20))


@dataclass(frozen=True, slots=True, kw_only=True)
class DPGAN(Adversarial):
    """A generator against a critic that sees private rows through noisy sums of clipped gradients alone.

    The generator is a network with one hidden layer that turns noise into chances for each column's cells; the critic
    looks at pairs of columns (`gapless.synth.adversarial.game`). The fitted model carries its critic, which was paid
    for with it: `CriticWeights(model)` are free. With `Extended()` gaps are cells, and are filled by the chances of the
    other cells for the same noise; single columns then have the distribution of their observed cells.

    Args:
        missing: what to do about gaps.
        steps: how many steps the training has; by default 100.

    References: Xie, Lin, Wang, Wang, Zhou 2018.
    """

    name = "dpgan"


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCGAN(Adversarial):
    """As `DPGAN`, with a generator that gets the label of each row, drawn from its released table.

    Args:
        missing: what to do about gaps.
        label: the column that rows are made for; by default the last one of the schema.
        steps: how many steps the training has; by default 100.

    References: Torkzadehmahani, Kairouz, Paten 2019.
    """

    name = "dpcgan"

    label: str | None = None

    def check(self, fitting: FitContext) -> None:
        """Refuse also a label that is no column."""
        Adversarial.check(self, fitting)
        self._label(fitting)

    def _label(self, fitting: FitContext) -> int:
        schema = fitting.schema
        return len(schema.names) - 1 if self.label is None else schema.positions([self.label])[0]

    def settings(self, fitting: FitContext) -> dict[str, str | int]:
        """The label."""
        return {"label": fitting.schema.names[self._label(fitting)]}

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Rows, given their label."""
        return [row_opponents(fitting, marginals, fitting.sizes, given=[self._label(fitting)])]


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCTGAN(Adversarial):
    """As `DPGAN`, with a generator that gets one cell of each row: of any column, drawn from its released table.

    A made row keeps the cell. Private rows are not sought by their cells, as in the original, where which rows are read
    depends on what is in them: all rows have the same sampling rate, and cells are drawn by released frequencies.

    Args:
        missing: what to do about gaps.
        steps: how many steps the training has; by default 100.

    References: Xu, Skoularidou, Cuesta-Infante, Veeramachaneni 2019; Fang, Dhami, Kersting 2022.
    """

    name = "dpctgan"

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Rows, given a cell of any column with more than one cell."""
        return [row_opponents(fitting, marginals, fitting.sizes, given=[column for (column,) in fitting.columns])]


@dataclass(frozen=True, slots=True, kw_only=True)
class DPautoGAN(Adversarial):
    """As `DPGAN`, with a generator that ends in the decoder of an autoencoder.

    First a linear map of a row's cells to few numbers and one back, to the logits of all cells, are trained to predict
    the row; then a generator of these numbers against a critic of decoded rows. Each training has half of what the
    tables of one column leave. [MD]'s baseline among generative networks, on complete rows.

    Guarantee: two trainings in place of one.

    Args:
        missing: what to do about gaps.
        steps: how many steps each training has; by default 100.

    References: Tantipongpipat, Waites, Boob, Siva, Cummings 2021.
    """

    name = "dpautogan"

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Rows, from what the decoder takes."""
        side = row_opponents(fitting, marginals, fitting.sizes)
        if len(fitting.columns) == 1:
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


# How far the student follows the votes: less, the more noise there is in shares of them. Chosen on Adult with gaps.
STUDENT_REACH, MUCH_NOISE = 2.0, 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class PATEGAN(Adversarial):
    """As `DPGAN`, but the critic is a student, who sees made rows alone, with the noisy votes of teachers on them.

    Each private row goes to one of 1,000 teachers by chance (fewer, where a teacher would keep very many numbers). A
    teacher compares its rows with made ones, pair of columns by pair, and votes for the half of some made rows that
    look most like its own. Counts of votes get noise. A row can turn the votes of one teacher alone; the stated loss
    holds however teachers agree, while the original claims less where they do. The student is paid for:
    `CriticWeights(model)` are free. Teachers are never handed out.

    Args:
        missing: what to do about gaps.
        steps: how many times votes are taken; by default 100.

    References: Jordon, Yoon, van der Schaar 2019; Papernot et al. 2018.
    """

    name = "pategan"

    def play(self, fitting: FitContext, game: Game, marginals: Sequence[Floats]) -> GameResult:
        """Take votes with what is left of the grant."""
        steps, many = self.step_count, teacher_count(fitting)
        distance = Sampled(fitting.table.protect.at_most)
        votes = TeacherVotes.for_loss(fitting.grant.left, distance, teachers=many, steps=steps, queries=ASKED)
        reach = STUDENT_REACH / (1 + votes.std / many / MUCH_NOISE)
        poll = VoteGame(game=game, teachers=many, made=ASKED, steps=steps, reach=reach)
        rows = teacher_rows(fitting.prepared, poll, progress=lambda step: fitting.notify("votes", step, steps))
        released = fitting.grant.release(rows, votes, what="votes")
        clip = typical_clip(game.sides, marginals)
        length = clip / np.sqrt(game.numbers)  # of a product in one made row, about
        rates = np.sqrt(sum(poll.rate(step) ** 2 for step in range(steps)))
        noise_std = float(rates * votes.std / many * length / np.sqrt(ASKED))
        return GameResult(released, CriticFacts(kept=1.0, noise_std=noise_std, clip=clip))
