r"""A program for private training: generators of rows and of gaps, and the critics that they must please.

A private row's cells are points: for each column a 1 in the place of its cell, less the column's known marginal; a gap
is the point 0. The critic gives a row the number :math:`\langle W, \varphi(x)\rangle`, where :math:`\varphi` has the
products of the points of all pairs of columns (`PairwiseCritic`). It wants private rows high and made ones low, and
pays for the length of W:

.. math:: \max_W\ \langle W, \mathbb E\,\varphi(x)\rangle - \langle W, \mathbb E\,\varphi(G(z))\rangle
          - \tfrac12 \lVert W\rVert^2

The gradient of a private row is :math:`\varphi(x)`. Its sums over samples, clipped and noised, are all that is seen of
rows; they are remembered with a weight that falls by 1 - 1/τ a step. What is subtracted for made rows needs no row:
between two steps the critic is the best one for the remembered sums against rows that are made now, and the generator
takes steps against it. So the critic bends at once to what the generator does, and the game does not circle. Columns by
themselves need no critic: their marginals are known, and a generator pays for the square of what it is off.

A generator gives, for its noise, chances for the cells of each column, independent of each other. The critic is linear
in each column, so its mean over rows that are drawn by these chances is its value at the chances themselves: gradients
of generators have no noise of drawing.

Where gaps are learned, a second generator makes masks, a second critic sees masks alone, and the first one sees made
rows with the gaps of made masks, as private rows have theirs (Li, Jiang, Marlin 2019; [MD] Algorithm 1). Both critics'
gradients of one row are clipped together.

Two ensembles of teachers who each know a part of the rows (`gapless.privacy.teachers`).

A teacher keeps how many of its rows have which two codes in which two columns: whole numbers, from which follow the
mean products :math:`m_k` of its rows' points, for all pairs of columns. Against made rows with mean products
:math:`m_G` its critic is :math:`W_k = m_k - m_G`, the best one, as in `adversarial`: it needs no training, and
remembers nothing but its rows.

`VoteGame`: teachers vote on made rows; the counts show a student where private rows are (PATE-GAN).
`GradientGame`: one teacher at a time gives the gradient for the points of made rows (GS-WGAN; [MD] Algorithm 1).
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
    """Noise in, the chances of each column's cells out.

    The network turns `noise` standard normal numbers into the logits of all cells, one column after the other, to
    which `bias` is added; with a `decoder` into what this matrix turns into logits. If there are `given` columns, one
    of them, drawn evenly for each row, has a cell drawn from its marginal; the network is shown the cell, and keeps it.
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
        """Where each column's cells begin, and where the last one's end."""
        return np.array([0, *itertools.accumulate(self.sizes)], dtype=np.int64)

    @property
    def column_of(self) -> Integers:
        """The column of each cell."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def inputs(self, rows: int, rng: np.random.Generator) -> tuple[Floats, Integers | None]:
        """The inputs of the network for some rows, and the cell that each row is conditioned on, among all cells."""
        noise = rng.standard_normal((rows, self.noise))
        if not self.given:
            return noise, None
        begins = np.cumsum([0, *map(len, self.marginals)])
        which = rng.integers(len(self.given), size=rows)
        draws, codes = rng.random(rows), np.zeros(rows, dtype=np.int64)
        for place, marginal in enumerate(self.marginals):
            mine = which == place
            cells = np.flatnonzero(marginal)
            steps = np.cumsum(marginal[cells] / marginal.sum())
            codes[mine] = cells[np.minimum(np.searchsorted(steps, draws[mine]), len(cells) - 1)]
        shown = np.zeros((rows, begins[-1]))
        shown[np.arange(rows), begins[which] + codes] = 1.0
        return np.concatenate([noise, shown], axis=1), self.starts[np.array(self.given)[which]] + codes

    def forward(self, weights: Any, inputs: tuple[Floats, Integers | None]) -> tuple[Floats, Any]:
        """The chances of all cells, and what to remember."""
        shown, held = inputs
        outputs, memory = self.network.forward(weights, shown)
        logits = (outputs if self.decoder is None else outputs @ self.decoder) + self.bias
        chances, kept = self.chances(logits, held)
        return chances, (memory, chances, kept)

    def chances(self, logits: Floats, held: Integers | None) -> tuple[Floats, NDArray[np.bool_] | None]:
        """The chances of all cells, and which of them are kept by a condition."""
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
        """The gradient of the network's parameters, summed over rows, from the slopes of the chances."""
        inner, chances, kept = memory
        starts, column_of = self.starts[:-1], self.column_of
        through = chances * slopes
        through -= chances * np.add.reduceat(through, starts, axis=1).take(column_of, axis=1)
        if kept is not None:
            through[kept] = 0.0
        if self.decoder is not None:
            through = through @ self.decoder.T
        found = self.network.backward(weights, inner, through, to_inputs=False)[1]
        return JointGradients(found).total(np.ones(len(through)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opponents:
    """A generator and the critic that it plays against.

    `lines` has the point of each code of each column of a private row, `heads` that of each of the generator's cells:
    cells × numbers, zero outside a column's own.
    """

    generator: Generator
    code_points: tuple[Floats, ...]
    cell_points: Floats
    critic: PairwiseCritic
    initial: Floats

    @classmethod
    def of(cls, generator: Generator, lines: Sequence[Floats], heads: Sequence[Floats]) -> Self:
        """A generator against a critic of pairs; its first parameters come from a public seed."""
        return cls(
            generator=generator,
            code_points=tuple(lines),
            cell_points=block_diagonal(heads),
            critic=PairwiseCritic(tuple(points.shape[1] for points in lines)),
            initial=generator.network.start(np.random.default_rng(0)),
        )

    def points(self, columns: tuple[Any, ...]) -> Floats:
        """The points of rows, from their codes."""
        return np.concatenate([lines[codes] for lines, codes in zip(self.code_points, columns, strict=True)], axis=1)

    def mean_products(self, points: Floats) -> Floats:
        """The mean over rows of the products of their points, for all pairs of columns."""
        return ((points.T @ points) / len(points)).ravel()[self.critic.mask.free]


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorState:
    """Where a generator stands, and the mean of where it stood."""

    parameters: Floats
    average: Floats
    moments: Moments | None

    def averaged(self, kept: float) -> GeneratorState:
        """The same with a new mean, of which so much is the earlier one."""
        return replace(self, average=kept * self.average + (1 - kept) * self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class GeneratedBatch:
    """What a generator makes: the points of rows with made gaps, or of masks, and what its gradient needs.

    `seen` are the chances that cells are no gaps, where there are masks.
    """

    points: Floats
    seen: Floats | None
    weights: Any
    memory: Any


@dataclass(frozen=True, slots=True, eq=False)
class GameState:
    """Where a game stands. All of it follows from noisy sums, and is public.

    `remembered` are private rows' gradients, for all critics one after the other: noisy means over samples.
    """

    remembered: Floats
    players: tuple[GeneratorState, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Game:
    """Train critics by noisy sums of clipped gradients, and between two steps generators against them.

    `sides` are rows, and masks if gaps are learned. `batch_size` is about how many rows a sample has, a public guess;
    `memory` is τ; at each step generators take `rounds` steps with `made` rows each, an even number, of which either
    half meets the best critic against the other. All of their noise comes from a public seed.
    """

    sides: tuple[Opponents, ...]
    optimizer: Adam
    batch_size: float
    memory: float
    rounds: int
    made: int
    averaged: float  # of the earlier mean of generators, what stays in the next

    @property
    def numbers(self) -> int:
        """How many parameters the critics have."""
        return sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        return [sum(side.critic.shapes) for side in self.sides]

    def start(self) -> GameState:
        """Nothing remembered, generators as they begin."""
        players = tuple(GeneratorState(side.initial, side.initial, None) for side in self.sides)
        return GameState(np.zeros(self.numbers), players)

    def gradients(self, state: GameState, block: Block) -> RowGradients:
        """The gradients of the critics' outputs for each row; they do not depend on the critics."""
        del state
        found: list[RowGradients] = []
        for side in self.sides:
            points = side.points(block.columns)
            found += side.critic.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)[1]
        return JointGradients(found)

    def follow(self, state: GameState, noisy: Floats, step: int) -> GameState:
        """Remember the noisy sum; then the generators' steps."""
        kept = 1 - 1 / self.memory
        remembered = kept * state.remembered + (1 - kept) * bounded(noisy / self.batch_size)
        return self.play_rounds(state, remembered, step)

    def outcome(self, state: GameState) -> Floats:
        """What is remembered of private rows, then the mean of where each generator stood."""
        return np.concatenate([state.remembered, *(player.average for player in state.players)])

    def averages(self, outcome: Floats) -> list[Floats]:
        """The mean of where each generator stood."""
        return split(outcome[self.numbers :], [side.initial.size for side in self.sides])

    def play_rounds(self, state: GameState, remembered: Floats, step: int) -> GameState:
        """The generators' steps against the best critics for what is remembered."""
        rng, players = np.random.default_rng([0, step]), state.players
        for turn in range(step * self.rounds, (step + 1) * self.rounds):
            players = self._step_all(remembered, players, turn, rng)
        return GameState(remembered, tuple(player.averaged(self.averaged) for player in players))

    def step_along(self, state: GameState, slopes: Sequence[Floats], turn: int, rng: np.random.Generator) -> GameState:
        """A step of each generator up given slopes of the points of as many made rows, or masks, drawn by `rng`."""
        moved: list[GeneratorState] = []
        made = self.generate(state.players, len(slopes[0]), rng)
        for side, player, shown, up in zip(self.sides, state.players, made, slopes, strict=True):
            down = (MARGINAL_WEIGHT * shown.points.mean(axis=0) - up) / len(up)
            moved.append(self._step_one(side, player, shown, down, turn).averaged(self.averaged))
        return GameState(state.remembered, tuple(moved))

    def generate(self, players: Sequence[GeneratorState], rows: int, rng: np.random.Generator) -> list[GeneratedBatch]:
        """What is made now, masks first: rows are shown with made gaps."""
        seen: Floats | None = None
        found: list[GeneratedBatch] = []
        for side, player in reversed(list(zip(self.sides, players, strict=True))):
            generator = side.generator
            weights = generator.network.unpack(player.parameters)
            chances, memory = generator.forward(weights, generator.inputs(rows, rng))
            points = chances @ side.cell_points
            if seen is not None:
                seen = seen.repeat(side.critic.sizes, axis=1)
                points *= seen
            found.append(GeneratedBatch(points, seen, weights, memory))
            seen = chances[:, generator.starts[:-1]]  # of masks: the chance of no gap
        return found[::-1]

    def _step_all(
        self, remembered: Floats, players: Sequence[GeneratorState], turn: int, rng: np.random.Generator
    ) -> tuple[GeneratorState, ...]:
        """A step of each generator."""
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
        """A generator after a step down these slopes of what it makes."""
        if shown.seen is not None:
            slopes = slopes * shown.seen
        gradient = side.generator.backward(shown.weights, shown.memory, slopes @ side.cell_points.T)
        move, moments = self.optimizer.move(player.moments, gradient, turn, side.generator.network.shapes)
        return replace(player, parameters=bounded(player.parameters + move), moments=moments)

    def _slopes(self, side: Opponents, target: Floats, points: Floats, against: Floats) -> Floats:
        """Of what is to fall, by these points, with the best critic of what is remembered against other made points.

        With the best critic against the same ones a generator would also make little of what chance does to them, and
        so of how columns go together. Made points have mean 0 where columns are as known.
        """
        critic = target - side.mean_products(against)
        slopes, _ = side.critic.backward(
            side.critic.unpack(critic), points, np.full((len(points), 1), -1 / self.made), to_inputs=True
        )
        assert slopes is not None  # noqa: S101 for mypy: asked for
        return np.asarray(slopes + MARGINAL_WEIGHT * against.mean(axis=0) / self.made)


def block_diagonal(blocks: Sequence[Floats]) -> Floats:
    """These matrices one after another, zero elsewhere."""
    found = np.zeros(np.sum([block.shape for block in blocks], axis=0))
    row = column = 0
    for block in blocks:
        found[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return found


_PORTION = 1 << 22  # products of made rows at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _TeacherGame:
    """What both share: what teachers keep of their rows."""

    game: Game
    teachers: int
    made: int  # rows that teachers are asked about at a step
    codes: PairwiseCritic = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", PairwiseCritic(tuple(map(len, self.game.sides[0].code_points))))

    def start(self) -> GameState:
        """As the game."""
        return self.game.start()

    def outcome(self, state: GameState) -> Floats:
        """As the game."""
        return self.game.outcome(state)

    def summarize(self, columns: tuple[Codes, ...], teacher: Integers) -> Integers:
        """How many rows of each teacher have which two codes. Floats hold these sums exactly, in any order."""
        shown, free = one_hot(columns, self.codes.sizes), self.codes.mask.free
        order = np.argsort(teacher, kind="stable")
        ends = np.searchsorted(teacher[order], np.arange(self.teachers + 1))
        found = np.zeros((self.teachers, free.size), dtype=np.int64)
        for place in np.flatnonzero(np.diff(ends)):
            part = shown[order[ends[place] : ends[place + 1]]]
            found[place] = (part.T @ part).ravel()[free]
        return found

    def prepare(self, sums: Integers) -> tuple[Floats, ...]:
        """For each side teachers × numbers: the mean products of their rows' points; 0 of those who have no row."""
        found = [np.zeros((len(sums), sum(side.critic.shapes))) for side in self.game.sides]
        points = [block_diagonal(side.code_points) for side in self.game.sides]
        first, second = self.codes.sizes[:2]
        for place, pairs in enumerate(sums):
            counts = self.codes.unpack(pairs.astype(np.float64))
            rows = max(1.0, counts[:first, first : first + second].sum())  # each has one code in each column
            for means, lines, side in zip(found, points, self.game.sides, strict=True):
                means[place] = (lines.T @ counts @ lines).ravel()[side.critic.mask.free] / rows
        return tuple(found)

    def _chance(self, step: int) -> np.random.Generator:
        """Public, of what is made to be asked about; other than the game's own."""
        return np.random.default_rng([0, step, 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VoteGame(_TeacherGame):
    r"""Teachers vote for the half of some made rows that their critics give the most; a student learns from the counts.

    With p the noisy share of votes for each row z, what a student remembers of private rows moves by

    .. math:: A \leftarrow A + \eta\, \overline{(p(z) - \bar p)\,(\varphi(z) - \bar\varphi)}

    in the direction of the rows that are voted for; then generators play against the best critic for A. η is `reach`,
    and falls along a cosine to 0.
    """

    steps: int
    reach: float

    @property
    def answers(self) -> tuple[int, int]:
        """A vote on each made row."""
        return self.made, 1

    def ask(self, state: GameState, prepared: tuple[Floats, ...], step: int, teacher: int | None) -> Floats:
        """1 for the rows above the median, by the critic of each teacher; 0 of those who have no row."""
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
        """The student's step, then those of generators."""
        points, _ = self._candidates(state, step)
        share = bounded(noisy / self.teachers)
        share = (share - share.mean()) / len(points)  # their sum is 0, so products need not be centred
        moved = ((points.T * share) @ points).ravel()[self.game.sides[0].critic.mask.free]
        return self.game.play_rounds(state, state.remembered + self.rate(step) * moved, step)

    def rate(self, step: int) -> float:
        """How far the student goes at this step."""
        return float(self.reach * (1 + np.cos(np.pi * step / self.steps)) / 2)

    def _candidates(self, state: GameState, step: int) -> tuple[Floats, Floats]:
        """The points of some made rows, drawn cell by cell, and the mean products of others'."""
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
    """The slopes of made rows' points by the critic of one teacher, and of made masks' by another critic of its."""

    @property
    def answers(self) -> tuple[int, int]:
        """A vector for each made row, then for each mask, filled up with zeros to one length."""
        return self.made * len(self.game.sides), max(side.cell_points.shape[1] for side in self.game.sides)

    def ask(self, state: GameState, prepared: tuple[Floats, ...], step: int, teacher: int | None) -> Floats:
        """Up the critics of this teacher."""
        vectors, width = self.answers
        found = np.zeros((len(self.game.sides), self.made, width))
        made = self.game.generate(state.players, self.made, self._chance(step))
        for place, (side, shown) in enumerate(zip(self.game.sides, made, strict=True)):
            critic = side.critic.unpack(prepared[place][teacher] - side.mean_products(shown.points))
            found[place, :, : shown.points.shape[1]] = shown.points @ (critic + critic.T)
        return found.reshape(vectors, width)

    def follow(self, state: GameState, noisy: Floats, step: int) -> GameState:
        """A step of each generator along its noisy slopes."""
        up = noisy.reshape(len(self.game.sides), self.made, -1)
        slopes = [part[:, : side.cell_points.shape[1]] for part, side in zip(up, self.game.sides, strict=True)]
        return self.game.step_along(state, slopes, step, self._chance(step))
