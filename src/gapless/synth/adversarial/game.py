r"""Programs for private training of generators of rows and of gaps against critics.

A private row is encoded as one *point* per column: the one-hot vector of its cell, less the column's released marginal.
The point of a gap is 0. The critic's score of a row is :math:`\langle W, \varphi(x)\rangle`, where :math:`\varphi` has
the products of the points of all pairs of columns (`PairwiseCritic`). The critic maximises the difference in mean
score between private and generated rows, with a penalty on the norm of W:

.. math:: \max_W\ \langle W, \mathbb E\,\varphi(x)\rangle - \langle W, \mathbb E\,\varphi(G(z))\rangle
          - \tfrac12 \lVert W\rVert^2

The gradient of a private row is :math:`\varphi(x)`. Training sees rows only through sums of these gradients over
samples, clipped and noised. An exponential mean of the sums is kept; weights fall by the factor 1 - 1/τ per step. The
term for generated rows needs no private row. Between two steps, the generator takes steps against the optimal critic
for the current mean and the rows generated now. So the critic adapts at once, and the game does not oscillate. Single
columns need no critic: their marginals are known, and the generator has a squared penalty for its error in them.

For each draw of noise, a generator returns independent probabilities for the cells of each column. The critic is linear
in each column. So its mean over rows drawn from these probabilities is its value at the probabilities, and gradients of
generators have no sampling error.

If gaps are learned, a second generator makes masks, and a second critic sees only masks. The first critic then sees
generated rows with the gaps of generated masks, like private rows (Li, Jiang, Marlin 2019; [MD] Algorithm 1). Both
critics' gradients of one row are clipped together.

**Teachers.** Two further games use an ensemble of teachers, each with a part of the rows (`gapless.privacy.teachers`).
A teacher counts the pairs of codes in its rows, for all pairs of columns. From these counts follow the mean products
:math:`m_k` of its rows' points. Against generated rows with mean products :math:`m_G` its optimal critic is
:math:`W_k = m_k - m_G`. It needs no training, and depends only on the teacher's rows.

`VoteGame`: teachers vote on generated rows; the counts show a student where private rows are (PATE-GAN).
`GradientGame`: one teacher at a time gives the gradient for the points of generated rows (GS-WGAN; [MD] Algorithm 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gapless.model.neural.descent import Adam, Moments, bounded
from gapless.model.neural.gradients import JointGradients
from gapless.model.neural.layers import Layer, PairwiseCritic, one_hot, split
from gapless.privacy.sgd import Block, RowGradients
from gapless.types import Codes, Floats, Integers

MARGINAL_WEIGHT = 3.0  # weight of the squared error in single columns, relative to pairs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generator:
    """A network that maps noise to probabilities of each column's cells.

    The network maps `noise` standard normal numbers to the logits of all cells, one column after the other. With a
    `decoder`, its outputs are multiplied by this matrix to get logits. `bias` is added to the logits. With `given`
    columns, one of them is drawn uniformly for each row, and its cell is drawn from its marginal. The network gets this
    cell as an input, and the row keeps it.
    """

    network: Layer
    sizes: tuple[int, ...]
    noise: int
    bias: Floats
    decoder: Floats | None = None
    given: tuple[int, ...] = ()
    marginals: tuple[Floats, ...] = ()  # of the given columns

    @property
    def starts(self) -> Integers:
        """The position of each column's first cell, and the end of the last column."""
        return np.array([0, *itertools.accumulate(self.sizes)], dtype=np.int64)

    @property
    def column_of(self) -> Integers:
        """The column of each cell."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def inputs(self, rows: int, rng: np.random.Generator) -> tuple[Floats, Integers | None]:
        """Draw the inputs of the network for some rows, and the cell on which each row is conditioned, if any."""
        noise = rng.standard_normal((rows, self.noise))
        if not self.given:
            return noise, None
        begins = np.cumsum([0, *map(len, self.marginals)])
        which = rng.integers(len(self.given), size=rows)
        draws, codes = rng.random(rows), np.zeros(rows, dtype=np.int64)
        for index, marginal in enumerate(self.marginals):
            mine = which == index
            cells = np.flatnonzero(marginal)
            steps = np.cumsum(marginal[cells] / marginal.sum())
            codes[mine] = cells[np.minimum(np.searchsorted(steps, draws[mine]), len(cells) - 1)]
        shown = np.zeros((rows, begins[-1]))
        shown[np.arange(rows), begins[which] + codes] = 1.0
        return np.concatenate([noise, shown], axis=1), self.starts[np.array(self.given)[which]] + codes

    def forward(self, weights: Any, inputs: tuple[Floats, Integers | None]) -> tuple[Floats, Any]:
        """Return the probabilities of all cells, and the values that `backward` needs."""
        shown, held = inputs
        outputs, memory = self.network.forward(weights, shown)
        logits = (outputs if self.decoder is None else outputs @ self.decoder) + self.bias
        chances, kept = self.chances(logits, held)
        return chances, (memory, chances, kept)

    def chances(self, logits: Floats, held: Integers | None) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Return the probabilities of all cells, and which cells are fixed by the condition."""
        starts, column_of = self.starts[:-1], self.column_of
        chances = np.exp(logits - np.maximum.reduceat(logits, starts, axis=1).take(column_of, axis=1))
        chances /= np.add.reduceat(chances, starts, axis=1).take(column_of, axis=1)
        kept = None
        if held is not None:
            kept = column_of == column_of[held][:, None]
            chances[kept] = 0.0
            chances[np.arange(len(held)), held] = 1.0
        return chances, kept

    def backward(self, weights: Any, memory: Any, slopes: Floats) -> Floats:
        """Return the gradient of the network's parameters, summed over rows, from the slopes of the probabilities."""
        inner, chances, kept = memory
        starts, column_of = self.starts[:-1], self.column_of
        through = chances * slopes
        through -= chances * np.add.reduceat(through, starts, axis=1).take(column_of, axis=1)
        if kept is not None:
            through[kept] = 0.0
        if self.decoder is not None:
            through = through @ self.decoder.T
        gradients = self.network.backward(weights, inner, through, to_inputs=False)[1]
        return JointGradients(gradients).total(np.ones(len(through)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opponents:
    """A generator and the critic that it plays against.

    Attributes:
        generator: the generator.
        code_points: for each column of a private row, the point of each code.
        cell_points: the points of the generator's cells, as a block-diagonal matrix with one block for each column.
        critic: the critic of pairs of columns.
        initial: the generator's first parameters.
    """

    generator: Generator
    code_points: tuple[Floats, ...]
    cell_points: Floats
    critic: PairwiseCritic
    initial: Floats

    @classmethod
    def of(cls, generator: Generator, lines: Sequence[Floats], heads: Sequence[Floats]) -> Self:
        """Pair a generator with a critic of pairs of columns; its first parameters come from a public seed."""
        return cls(
            generator=generator,
            code_points=tuple(lines),
            cell_points=block_diagonal(heads),
            critic=PairwiseCritic(tuple(points.shape[1] for points in lines)),
            initial=generator.network.start(np.random.default_rng(0)),
        )

    def points(self, columns: tuple[Any, ...]) -> Floats:
        """Return the points of rows, from their codes."""
        return np.concatenate([lines[codes] for lines, codes in zip(self.code_points, columns, strict=True)], axis=1)

    def mean_products(self, points: Floats) -> Floats:
        """Return the mean over rows of the products of their points, for all pairs of columns."""
        return ((points.T @ points) / len(points)).ravel()[self.critic.mask.free]


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorState:
    """The parameters of a generator, their running mean, and the state of its optimizer."""

    parameters: Floats
    average: Floats
    moments: Moments | None

    def averaged(self, kept: float) -> GeneratorState:
        """Update the running mean; the earlier mean has the weight `kept`."""
        return replace(self, average=kept * self.average + (1 - kept) * self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedBatch:
    """The points of generated rows with their gaps, or of generated masks, and the values that the gradient needs.

    `seen` are the probabilities that cells are observed, if there are masks.
    """

    points: Floats
    seen: Floats | None
    weights: Any
    memory: Any


@dataclass(frozen=True, slots=True, eq=False)
class GameState:
    """The state of a game. It is a function of noisy sums only, so it is public.

    `remembered` is the exponential mean of private rows' noisy gradients, for all critics one after the other.
    """

    remembered: Floats
    players: tuple[GeneratorState, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Game:
    """Train critics by noisy sums of clipped gradients, and generators against them between two steps.

    Each half of the generated rows meets the optimal critic against the other half. All noise of generators comes from
    a public seed.

    Attributes:
        sides: the opponents for rows, and for masks if gaps are learned.
        optimizer: of the generators.
        batch_size: a public guess of the number of rows in a sample.
        memory: τ.
        rounds: generator steps per critic step.
        made: generated rows per generator step, an even number.
        averaged: the weight of the earlier mean in the running mean of generators.
    """

    sides: tuple[Opponents, ...]
    optimizer: Adam
    batch_size: float
    memory: float
    rounds: int
    made: int
    averaged: float

    @property
    def numbers(self) -> int:
        """The number of parameters of all critics."""
        return sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        return [sum(side.critic.shapes) for side in self.sides]

    def start(self) -> GameState:
        """Return the initial state: a mean of zero, and generators with their first parameters."""
        players = tuple(GeneratorState(side.initial, side.initial, None) for side in self.sides)
        return GameState(np.zeros(self.numbers), players)

    def gradients(self, state: GameState, block: Block) -> RowGradients:
        """Return the gradients of the critics' outputs for each row; they do not depend on the critics."""
        del state
        gradients: list[RowGradients] = []
        for side in self.sides:
            points = side.points(block.columns)
            gradients += side.critic.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)[1]
        return JointGradients(gradients)

    def follow(self, state: GameState, noisy: Floats, step: int) -> GameState:
        """Add the noisy sum to the exponential mean; then take the generators' steps."""
        kept = 1 - 1 / self.memory
        remembered = kept * state.remembered + (1 - kept) * bounded(noisy / self.batch_size)
        return self.play_rounds(state, remembered, step)

    def outcome(self, state: GameState) -> Floats:
        """Return the mean of private gradients, then the running mean of each generator's parameters."""
        return np.concatenate([state.remembered, *(player.average for player in state.players)])

    def averages(self, outcome: Floats) -> list[Floats]:
        """Return the running mean of each generator's parameters, from the outcome."""
        return split(outcome[self.numbers :], [side.initial.size for side in self.sides])

    def play_rounds(self, state: GameState, remembered: Floats, step: int) -> GameState:
        """Take the generators' steps against the optimal critics for the mean of private gradients."""
        rng, players = np.random.default_rng([0, step]), state.players
        for turn in range(step * self.rounds, (step + 1) * self.rounds):
            players = self._step_all(remembered, players, turn, rng)
        return GameState(remembered, tuple(player.averaged(self.averaged) for player in players))

    def step_along(self, state: GameState, slopes: Sequence[Floats], turn: int, rng: np.random.Generator) -> GameState:
        """Take a step of each generator along given slopes of the points of generated rows, or masks."""
        moved: list[GeneratorState] = []
        made = self.generate(state.players, len(slopes[0]), rng)
        for side, player, shown, up in zip(self.sides, state.players, made, slopes, strict=True):
            down = (MARGINAL_WEIGHT * shown.points.mean(axis=0) - up) / len(up)
            moved.append(self._step_one(side, player, shown, down, turn).averaged(self.averaged))
        return GameState(state.remembered, tuple(moved))

    def generate(self, players: Sequence[GeneratorState], rows: int, rng: np.random.Generator) -> list[GeneratedBatch]:
        """Generate a batch for each side, masks first: rows get the gaps of generated masks."""
        seen: Floats | None = None
        batches: list[GeneratedBatch] = []
        for side, player in reversed(list(zip(self.sides, players, strict=True))):
            generator = side.generator
            weights = generator.network.unpack(player.parameters)
            chances, memory = generator.forward(weights, generator.inputs(rows, rng))
            points = chances @ side.cell_points
            if seen is not None:
                seen = seen.repeat(side.critic.sizes, axis=1)
                points *= seen
            batches.append(GeneratedBatch(points, seen, weights, memory))
            seen = chances[:, generator.starts[:-1]]  # of masks: the probability of no gap
        return batches[::-1]

    def _step_all(
        self, remembered: Floats, players: Sequence[GeneratorState], turn: int, rng: np.random.Generator
    ) -> tuple[GeneratorState, ...]:
        """Take a step of each generator."""
        moved: list[GeneratorState] = []
        targets, made = split(remembered, self._sizes), self.generate(players, self.made, rng)
        for side, player, target, shown in zip(self.sides, players, targets, made, strict=True):
            halves = itertools.permutations(np.split(shown.points, 2))
            slopes = np.concatenate([self._slopes(side, target, part, against) for part, against in halves])
            moved.append(self._step_one(side, player, shown, slopes, turn))
        return tuple(moved)

    def _step_one(
        self, side: Opponents, player: GeneratorState, shown: GeneratedBatch, slopes: Floats, turn: int
    ) -> GeneratorState:
        """Return a generator after a step down these slopes of its points."""
        if shown.seen is not None:
            slopes = slopes * shown.seen
        gradient = side.generator.backward(shown.weights, shown.memory, slopes @ side.cell_points.T)
        move, moments = self.optimizer.move(player.moments, gradient, turn, side.generator.network.shapes)
        return replace(player, parameters=bounded(player.parameters + move), moments=moments)

    def _slopes(self, side: Opponents, target: Floats, points: Floats, against: Floats) -> Floats:
        """Return the slopes of a generator's loss by its points, with the optimal critic against other points.

        If the critic were computed from the same points, the generator would also minimise their sampling error, and so
        the dependence between columns. Generated points have mean 0 if columns have their known marginals.
        """
        critic = target - side.mean_products(against)
        slopes, _ = side.critic.backward(
            side.critic.unpack(critic), points, np.full((len(points), 1), -1 / self.made), to_inputs=True
        )
        assert slopes is not None  # noqa: S101 for mypy: by to_inputs=True
        return np.asarray(slopes + MARGINAL_WEIGHT * against.mean(axis=0) / self.made)


def block_diagonal(blocks: Sequence[Floats]) -> Floats:
    """Return the block-diagonal matrix of these matrices."""
    matrix = np.zeros(np.sum([block.shape for block in blocks], axis=0))
    row = column = 0
    for block in blocks:
        matrix[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return matrix


_PORTION = 1 << 22  # products of generated rows computed at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TeacherGame:
    """Base of the games with teachers: the counts that teachers store of their rows."""

    game: Game
    teachers: int
    made: int  # generated rows that teachers judge at a step
    codes: PairwiseCritic = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", PairwiseCritic(tuple(map(len, self.game.sides[0].code_points))))

    def start(self) -> GameState:
        """Return the initial state of the game."""
        return self.game.start()

    def outcome(self, state: GameState) -> Floats:
        """Return the outcome of the game."""
        return self.game.outcome(state)

    def summarize(self, columns: tuple[Codes, ...], teacher: Integers) -> Integers:
        """Count the pairs of codes in each teacher's rows. Sums of integers in floats are exact, in any order."""
        shown, free = one_hot(columns, self.codes.sizes), self.codes.mask.free
        order = np.argsort(teacher, kind="stable")
        ends = np.searchsorted(teacher[order], np.arange(self.teachers + 1))
        counts = np.zeros((self.teachers, free.size), dtype=np.int64)
        for number in np.flatnonzero(np.diff(ends)):
            part = shown[order[ends[number] : ends[number + 1]]]
            counts[number] = (part.T @ part).ravel()[free]
        return counts

    def prepare(self, sums: Integers) -> tuple[Floats, ...]:
        """Return, for each side, the mean products of each teacher's points; 0 for a teacher without rows."""
        means_of_sides = [np.zeros((len(sums), sum(side.critic.shapes))) for side in self.game.sides]
        points = [block_diagonal(side.code_points) for side in self.game.sides]
        first, second = self.codes.sizes[:2]
        for teacher, pairs in enumerate(sums):
            counts = self.codes.unpack(pairs.astype(np.float64))
            rows = max(1.0, counts[:first, first : first + second].sum())  # each row has one code in each column
            for means, lines, side in zip(means_of_sides, points, self.game.sides, strict=True):
                means[teacher] = (lines.T @ counts @ lines).ravel()[side.critic.mask.free] / rows
        return tuple(means_of_sides)

    def _chance(self, step: int) -> np.random.Generator:
        """Return the public random numbers for the rows that teachers judge; other than those of the game."""
        return np.random.default_rng([0, step, 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoteGame(_TeacherGame):
    r"""Teachers vote for the half of some generated rows with the highest scores; a student learns from the counts.

    With p the noisy share of votes for each row z, the student's estimate A of private products moves by

    .. math:: A \leftarrow A + \eta\, \overline{(p(z) - \bar p)\,(\varphi(z) - \bar\varphi)}

    towards the rows with many votes. Then generators play against the optimal critic for A. η starts at `reach` and
    falls to 0 along a cosine.
    """

    steps: int
    reach: float

    @property
    def answers(self) -> tuple[int, int]:
        """The number of answers and their length: one vote on each generated row."""
        return self.made, 1

    def ask(self, state: GameState, prepared: tuple[Floats, ...], step: int, teacher: int | None) -> Floats:
        """Return each teacher's votes: 1 for rows with a score above the median; 0 from a teacher without rows."""
        means = prepared[0] if teacher is None else prepared[0][[teacher]]
        points, mean = self._candidates(state, step)
        free, scores = self.game.sides[0].critic.mask.free, np.zeros((len(means), len(points)))
        portion = max(1, _PORTION // points.shape[1] ** 2)
        for begin in range(0, len(points), portion):
            some = points[begin : begin + portion]
            products = (some[:, :, None] * some[:, None, :]).reshape(len(some), -1)[:, free]
            scores[:, begin : begin + portion] = means @ products.T - mean @ products.T
        votes = scores > np.median(scores, axis=1, keepdims=True)
        return np.asarray(votes & np.any(means, axis=1, keepdims=True), dtype=np.float64)

    def follow(self, state: GameState, noisy: Floats, step: int) -> GameState:
        """Take the student's step, then those of the generators."""
        points, _ = self._candidates(state, step)
        share = bounded(noisy / self.teachers)
        share = (share - share.mean()) / len(points)  # shares sum to 0, so products need not be centred
        moved = ((points.T * share) @ points).ravel()[self.game.sides[0].critic.mask.free]
        return self.game.play_rounds(state, state.remembered + self.rate(step) * moved, step)

    def rate(self, step: int) -> float:
        """Return the student's step size η at this step."""
        return float(self.reach * (1 + np.cos(np.pi * step / self.steps)) / 2)

    def _candidates(self, state: GameState, step: int) -> tuple[Floats, Floats]:
        """Draw the rows to vote on, cell by cell; return their points, and the mean products of other rows."""
        (side,), (player,), rng = self.game.sides, state.players, self._chance(step)
        generator = side.generator
        weights = generator.network.unpack(player.parameters)
        chances, _ = generator.forward(weights, generator.inputs(self.made, rng))
        cells = np.zeros_like(chances)
        for begin, end in zip(generator.starts[:-1], generator.starts[1:], strict=True):
            steps = chances[:, begin:end].cumsum(axis=1)
            drawn = (steps < rng.random((len(steps), 1)) * steps[:, -1:]).sum(axis=1)
            cells[np.arange(len(cells)), begin + np.minimum(drawn, end - begin - 1)] = 1.0
        (others,) = self.game.generate(state.players, self.game.made, rng)
        return cells @ side.cell_points, side.mean_products(others.points)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientGame(_TeacherGame):
    """One teacher per step returns the slopes of its critics by the points of generated rows and masks."""

    @property
    def answers(self) -> tuple[int, int]:
        """The number of answers and their length: a vector for each generated row, then for each mask, zero-padded."""
        return self.made * len(self.game.sides), max(side.cell_points.shape[1] for side in self.game.sides)

    def ask(self, state: GameState, prepared: tuple[Floats, ...], step: int, teacher: int | None) -> Floats:
        """Return the slopes of this teacher's critics by the points."""
        vectors, width = self.answers
        slopes = np.zeros((len(self.game.sides), self.made, width))
        made = self.game.generate(state.players, self.made, self._chance(step))
        for index, (side, shown) in enumerate(zip(self.game.sides, made, strict=True)):
            critic = side.critic.unpack(prepared[index][teacher] - side.mean_products(shown.points))
            slopes[index, :, : shown.points.shape[1]] = shown.points @ (critic + critic.T)
        return slopes.reshape(vectors, width)

    def follow(self, state: GameState, noisy: Floats, step: int) -> GameState:
        """Take a step of each generator along its noisy slopes."""
        up = noisy.reshape(len(self.game.sides), self.made, -1)
        slopes = [part[:, : side.cell_points.shape[1]] for part, side in zip(up, self.game.sides, strict=True)]
        return self.game.step_along(state, slopes, step, self._chance(step))
