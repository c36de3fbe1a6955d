r"""A program for private training: generators of rows and of gaps, and the critics that they must please.

A private row's cells are points: for each column a 1 in the place of its cell, less the column's known law; a gap is
the point 0. The critic gives a row the number :math:`\langle W, \varphi(x)\rangle`, where :math:`\varphi` has the
products of the points of all pairs of columns (`Pairs`). It wants private rows high and made ones low, and pays for the
length of W:

.. math:: \max_W\ \langle W, \mathbb E\,\varphi(x)\rangle - \langle W, \mathbb E\,\varphi(G(z))\rangle
          - \tfrac12 \lVert W\rVert^2

The gradient of a private row is :math:`\varphi(x)`. Its sums over lots, clipped and noised, are all that is seen of
rows; they are remembered with a weight that falls by 1 - 1/τ a step. What is subtracted for made rows needs no row:
between two steps the critic is the best one for the remembered sums against rows that are made now, and the generator
takes steps against it. So the critic bends at once to what the generator does, and the game does not circle. Columns by
themselves need no critic: their laws are known, and a generator pays for the square of what it is off.

A generator gives, for its noise, chances for the cells of each column, independent of each other. The critic is linear
in each column, so its mean over rows that are drawn by these chances is its value at the chances themselves: gradients
of generators have no noise of drawing.

Where gaps are learned, a second generator makes masks, a second critic sees masks alone, and the first one sees made
rows with the gaps of made masks, as private rows have theirs (Li, Jiang, Marlin 2019; [MD] Algorithm 1). Both critics'
gradients of one row are clipped together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gapless.model.neural.descent import FARTHEST
from gapless.model.neural.gradients import Joint
from gapless.model.neural.layers import Layer, Pairs, cut
from gapless.model.neural.optimizers import Moments, Optimizer
from gapless.privacy.sgd import Block, RowGradients
from gapless.types import Floats, Integers

COLUMNS = 3.0  # what a column that is off its known law costs a generator, beside pairs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generator:
    """Noise in, the chances of each column's cells out.

    The network turns `noise` standard normal numbers into the logits of all cells, one column after the other, to
    which `bias` is added; with a `decoder` into what this matrix turns into logits. If there are `given` columns, one
    of them, drawn evenly for each row, has a cell drawn by its law; the network is shown the cell, and keeps it.
    """

    network: Layer
    sizes: tuple[int, ...]
    noise: int
    bias: Floats
    decoder: Floats | None = None
    given: tuple[int, ...] = ()
    laws: tuple[Floats, ...] = ()  # of the given columns

    @property
    def starts(self) -> Integers:
        """Where each column's cells begin, and where the last one's end."""
        return np.array([0, *itertools.accumulate(self.sizes)], dtype=np.int64)

    @property
    def column_of(self) -> Integers:
        """The column of each cell."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def inputs(self, rows: int, rng: np.random.Generator) -> tuple[Floats, Integers | None]:
        """What the network is shown for so many rows, and the cell that each has by its condition, among all cells."""
        noise = rng.standard_normal((rows, self.noise))
        if not self.given:
            return noise, None
        begins = np.cumsum([0, *map(len, self.laws)])
        which = rng.integers(len(self.given), size=rows)
        draws, codes = rng.random(rows), np.zeros(rows, dtype=np.int64)
        for place, law in enumerate(self.laws):
            mine = which == place
            cells = np.flatnonzero(law)
            steps = np.cumsum(law[cells] / law.sum())
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
        return Joint.of(found).total(np.ones(len(through)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """A generator and the critic that it plays against.

    `lines` has the point of each code of each column of a private row, `heads` that of each of the generator's cells:
    cells × numbers, zero outside a column's own.
    """

    generator: Generator
    lines: tuple[Floats, ...]
    heads: Floats
    critic: Pairs
    begin: Floats

    @classmethod
    def of(cls, generator: Generator, lines: Sequence[Floats], heads: Sequence[Floats]) -> Self:
        """A generator against a critic of pairs; its first parameters come from a public seed."""
        return cls(
            generator=generator,
            lines=tuple(lines),
            heads=diagonal(heads),
            critic=Pairs(tuple(points.shape[1] for points in lines)),
            begin=generator.network.start(np.random.default_rng(0)),
        )

    def points(self, columns: tuple[Any, ...]) -> Floats:
        """The points of rows, from their codes."""
        return np.concatenate([lines[codes] for lines, codes in zip(self.lines, columns, strict=True)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Player:
    """Where a generator stands, and the mean of where it stood."""

    numbers: Floats
    average: Floats
    moments: Moments | None

    def averaged(self, kept: float) -> Player:
        """The same with a new mean, of which so much is the earlier one."""
        return replace(self, average=kept * self.average + (1 - kept) * self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What a generator makes: the points of rows with made gaps, or of masks, and what its gradient needs.

    `seen` are the chances that cells are no gaps, where there are masks.
    """

    points: Floats
    seen: Floats | None
    weights: Any
    memory: Any


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Where a game stands. All of it follows from noisy sums, and is public.

    `remembered` are private rows' gradients, for all critics one after the other: noisy means over lots. `off` is how
    long the critic of rows was at the last step of its generator, which is the generator's loss.
    """

    remembered: Floats
    players: tuple[Player, ...]
    off: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Game:
    """Train critics by noisy sums of clipped gradients, and between two steps generators against them.

    `sides` are rows, and masks if gaps are learned. `lot` is about how many rows a lot has, a public guess; `memory` is
    τ; at each step generators take `rounds` steps with `made` rows each, an even number, of which either half meets the
    best critic against the other. The public `seed` draws all of their noise.
    """

    sides: tuple[Side, ...]
    optimizer: Optimizer
    lot: float
    memory: float
    rounds: int
    made: int
    averaged: float  # of the earlier mean of generators, what stays in the next
    seed: int = 0

    @property
    def numbers(self) -> int:
        """How many parameters the critics have."""
        return sum(self._sizes)

    @property
    def _sizes(self) -> list[int]:
        return [sum(side.critic.shapes) for side in self.sides]

    def start(self) -> Played:
        """Nothing remembered, generators as they begin."""
        return Played(np.zeros(self.numbers), tuple(Player(side.begin, side.begin, None) for side in self.sides))

    def gradients(self, state: Played, block: Block) -> RowGradients:
        """Of what the critics give to each row: the same whatever they are."""
        del state
        found: list[RowGradients] = []
        for side in self.sides:
            points = side.points(block.columns)
            found += side.critic.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)[1]
        return Joint.of(found)

    def follow(self, state: Played, noisy: Floats, step: int) -> Played:
        """Remember the noisy sum; then the generators' steps."""
        kept = 1 - 1 / self.memory
        return self.play(
            state, kept * state.remembered + (1 - kept) * np.clip(noisy / self.lot, -FARTHEST, FARTHEST), step
        )

    def outcome(self, state: Played) -> Floats:
        """What is remembered of private rows, then the mean of where each generator stood."""
        return np.concatenate([state.remembered, *(player.average for player in state.players)])

    def averages(self, outcome: Floats) -> list[Floats]:
        """The mean of where each generator stood."""
        return cut(outcome[self.numbers :], [side.begin.size for side in self.sides])

    def play(self, state: Played, remembered: Floats, step: int) -> Played:
        """The generators' steps against the best critics for what is remembered."""
        rng, players = np.random.default_rng([self.seed, step]), list(state.players)
        for turn in range(step * self.rounds, (step + 1) * self.rounds):
            players, off = self._round(remembered, players, turn, rng)
        return Played(remembered, tuple(player.averaged(self.averaged) for player in players), off)

    def along(self, state: Played, slopes: Sequence[Floats], turn: int, rng: np.random.Generator) -> Played:
        """A step of each generator up given slopes of the points of as many made rows, or masks, drawn by `rng`."""
        moved: list[Player] = []
        made = self.shown(state.players, len(slopes[0]), rng)
        for side, player, shown, up in zip(self.sides, state.players, made, slopes, strict=True):
            down = (COLUMNS * shown.points.mean(axis=0) - up) / len(up)
            moved.append(self._moved(side, player, shown, down, turn).averaged(self.averaged))
        return Played(state.remembered, tuple(moved))

    def shown(self, players: Sequence[Player], rows: int, rng: np.random.Generator) -> list[Shown]:
        """What is made now, masks first: rows are shown with made gaps."""
        seen: Floats | None = None
        found: list[Shown] = []
        for side, player in reversed(list(zip(self.sides, players, strict=True))):
            generator = side.generator
            weights = generator.network.unpack(player.numbers)
            chances, memory = generator.forward(weights, generator.inputs(rows, rng))
            points = chances @ side.heads
            if seen is not None:
                seen = seen.repeat(side.critic.sizes, axis=1)
                points *= seen
            found.append(Shown(points, seen, weights, memory))
            seen = chances[:, generator.starts[:-1]]  # of masks: the chance of no gap
        return found[::-1]

    def _round(
        self, remembered: Floats, players: list[Player], turn: int, rng: np.random.Generator
    ) -> tuple[list[Player], float]:
        """A step of each generator, and how long the critic of rows was."""
        moved: list[Player] = []
        lengths: list[float] = []
        aims, made = cut(remembered, self._sizes), self.shown(players, self.made, rng)
        for side, player, aim, shown in zip(self.sides, players, aims, made, strict=True):
            halves = itertools.permutations(np.split(shown.points, 2))
            parts = [(own, against, self._critic(side, aim, against)) for own, against in halves]
            slopes = np.concatenate([self._slopes(side, *part) for part in parts])
            lengths.append(float(np.linalg.norm(parts[0][2])))
            moved.append(self._moved(side, player, shown, slopes, turn))
        return moved, lengths[0]

    def _moved(self, side: Side, player: Player, shown: Shown, slopes: Floats, turn: int) -> Player:
        """A generator after a step down these slopes of what it makes."""
        if shown.seen is not None:
            slopes = slopes * shown.seen
        gradient = side.generator.backward(shown.weights, shown.memory, slopes @ side.heads.T)
        move, moments = self.optimizer.move(player.moments, gradient, turn, side.generator.network.shapes)
        return replace(player, numbers=np.clip(player.numbers + move, -FARTHEST, FARTHEST), moments=moments)

    @staticmethod
    def _critic(side: Side, aim: Floats, against: Floats) -> Floats:
        """The best critic of what is remembered against made points, which have mean 0 where columns are as known."""
        return aim - ((against.T @ against) / len(against)).ravel()[side.critic.mask.free]

    def _slopes(self, side: Side, points: Floats, against: Floats, critic: Floats) -> Floats:
        """Of what is to fall, by these points, with the best critic against others.

        With the best critic against the same ones a generator would also make little of what chance does to them, and
        so of how columns go together.
        """
        slopes, _ = side.critic.backward(
            side.critic.unpack(critic), points, np.full((len(points), 1), -1 / self.made), to_inputs=True
        )
        assert slopes is not None  # noqa: S101 for mypy: asked for
        return np.asarray(slopes + COLUMNS * against.mean(axis=0) / self.made)


def diagonal(blocks: Sequence[Floats]) -> Floats:
    """These matrices one after another, zero elsewhere."""
    found = np.zeros((sum(len(block) for block in blocks), sum(block.shape[1] for block in blocks)))
    row = column = 0
    for block in blocks:
        found[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    return found
