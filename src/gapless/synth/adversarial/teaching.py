r"""Two schools for teachers who each know a part of the rows (`gapless.privacy.teachers`).

A teacher keeps how many of its rows have which two codes in which two columns: whole numbers, from which follow the
mean products :math:`m_k` of its rows' points, for all pairs of columns. Against made rows with mean products
:math:`m_G` its critic is :math:`W_k = m_k - m_G`, the best one, as in `adversarial`: it needs no training, and
remembers nothing but its rows.

`Poll`: teachers vote on made rows; what is up- and downvoted tells a student where private rows are (PATE-GAN).
`Tutors`: one teacher at a time says how the points of made rows should move (GS-WGAN; [MD] Algorithm 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gapless.model.neural.descent import FARTHEST
from gapless.model.neural.layers import Pairs, indicators
from gapless.synth.adversarial.game import Game, Played, diagonal
from gapless.types import Codes, Floats, Integers

_PORTION = 1 << 22  # products of made rows at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _School:
    """What both share: what teachers keep of their rows."""

    game: Game
    teachers: int
    made: int  # rows that teachers are asked about at a step
    codes: Pairs = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", Pairs(tuple(map(len, self.game.sides[0].lines))))

    def start(self) -> Played:
        """As the game."""
        return self.game.start()

    def outcome(self, state: Played) -> Floats:
        """As the game."""
        return self.game.outcome(state)

    def lessons(self, columns: tuple[Codes, ...], teacher: Integers) -> Integers:
        """How many rows of each teacher have which two codes. Floats hold these sums exactly, in any order."""
        shown, free = indicators(columns, self.codes.sizes), self.codes.mask.free
        order = np.argsort(teacher, kind="stable")
        ends = np.searchsorted(teacher[order], np.arange(self.teachers + 1))
        found = np.zeros((self.teachers, free.size), dtype=np.int64)
        for place in np.flatnonzero(np.diff(ends)):
            own = shown[order[ends[place] : ends[place + 1]]]
            found[place] = (own.T @ own).ravel()[free]
        return found

    def taught(self, lessons: Integers) -> tuple[Floats, ...]:
        """For each side teachers × numbers: the mean products of their rows' points; 0 of those who have no row."""
        found = [np.zeros((len(lessons), sum(side.critic.shapes))) for side in self.game.sides]
        points = [diagonal(side.lines) for side in self.game.sides]
        first, second = self.codes.sizes[:2]
        for place, pairs in enumerate(lessons):
            counts = self.codes.unpack(pairs.astype(np.float64))
            rows = max(1.0, counts[:first, first : first + second].sum())  # each has one code in each column
            for means, lines, side in zip(found, points, self.game.sides, strict=True):
                means[place] = (lines.T @ counts @ lines).ravel()[side.critic.mask.free] / rows
        return tuple(found)

    def _chance(self, step: int) -> np.random.Generator:
        """Public, of what is made to be asked about; other than the game's own."""
        return np.random.default_rng([self.game.seed, step, 1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Poll(_School):
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

    def ask(self, state: Played, taught: tuple[Floats, ...], step: int, teacher: int | None) -> Floats:
        """1 for the rows above the median, by the critic of each teacher; 0 of those who have no row."""
        means = taught[0] if teacher is None else taught[0][[teacher]]
        points, mean = self._asked(state, step)
        free, scores = self.game.sides[0].critic.mask.free, np.zeros((len(means), len(points)))
        portion = max(1, _PORTION // points.shape[1] ** 2)
        for begin in range(0, len(points), portion):
            some = points[begin : begin + portion]
            products = (some[:, :, None] * some[:, None, :]).reshape(len(some), -1)[:, free]
            scores[:, begin : begin + portion] = means @ products.T - mean @ products.T
        votes = scores > np.median(scores, axis=1, keepdims=True)
        return np.asarray(votes & np.any(means, axis=1, keepdims=True), dtype=np.float64)

    def follow(self, state: Played, noisy: Floats, step: int) -> Played:
        """The student's step, then those of generators."""
        points, _ = self._asked(state, step)
        share = np.clip(noisy / self.teachers, -FARTHEST, FARTHEST)
        share = (share - share.mean()) / len(points)  # their sum is 0, so products need not be centred
        moved = ((points.T * share) @ points).ravel()[self.game.sides[0].critic.mask.free]
        return self.game.play(state, state.remembered + self.rate(step) * moved, step)

    def rate(self, step: int) -> float:
        """How far the student goes at this step."""
        return float(self.reach * (1 + np.cos(np.pi * step / self.steps)) / 2)

    def _asked(self, state: Played, step: int) -> tuple[Floats, Floats]:
        """The points of some made rows, drawn cell by cell, and the mean products of others'."""
        (side,), (player,), rng = self.game.sides, state.players, self._chance(step)
        generator = side.generator
        weights = generator.network.unpack(player.numbers)
        chances, _ = generator.forward(weights, generator.inputs(self.made, rng))
        cells = np.zeros_like(chances)
        for begin, end in zip(generator.starts[:-1], generator.starts[1:], strict=True):
            steps = chances[:, begin:end].cumsum(axis=1)
            drawn = (steps < rng.random((len(steps), 1)) * steps[:, -1:]).sum(axis=1)
            cells[np.arange(len(cells)), begin + np.minimum(drawn, end - begin - 1)] = 1.0
        (others,) = (shown.points for shown in self.game.shown(state.players, self.game.made, rng))
        return cells @ side.heads, (others.T @ others / len(others)).ravel()[side.critic.mask.free]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tutors(_School):
    """The slopes of made rows' points by the critic of one teacher, and of made masks' by another critic of its."""

    @property
    def answers(self) -> tuple[int, int]:
        """A vector for each made row, then for each mask, filled up with zeros to one length."""
        return self.made * len(self.game.sides), max(side.heads.shape[1] for side in self.game.sides)

    def ask(self, state: Played, taught: tuple[Floats, ...], step: int, teacher: int | None) -> Floats:
        """Up the critics of this teacher."""
        vectors, width = self.answers
        found = np.zeros((len(self.game.sides), self.made, width))
        made = self.game.shown(state.players, self.made, self._chance(step))
        for place, (side, points) in enumerate(zip(self.game.sides, (shown.points for shown in made), strict=True)):
            mean = ((points.T @ points) / len(points)).ravel()[side.critic.mask.free]
            critic = side.critic.unpack(taught[place][teacher] - mean)
            found[place, :, : points.shape[1]] = points @ (critic + critic.T)
        return found.reshape(vectors, width)

    def follow(self, state: Played, noisy: Floats, step: int) -> Played:
        """A step of each generator along its noisy slopes."""
        up = noisy.reshape(len(self.game.sides), self.made, -1)
        slopes = [own[:, : side.heads.shape[1]] for own, side in zip(up, self.game.sides, strict=True)]
        return self.game.along(state, slopes, step, self._chance(step))
