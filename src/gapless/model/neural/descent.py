"""A program for private training: one network that foretells cells of a row from cells of the same row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gapless.model.neural.gradients import Joint
from gapless.model.neural.layers import Layer, cross_entropy, indicators
from gapless.model.neural.optimizers import Moments, Optimizer
from gapless.privacy.sgd import Block, RowGradients
from gapless.types import Floats

FARTHEST = 2.0**20  # parameters are kept within this, so that a training that runs away stays finite


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Where a training stands. All of it follows from noisy sums, and is public."""

    numbers: Floats
    weights: Any  # the same, as the network unpacks them
    moments: Moments | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Which columns a network is shown and which it foretells, by their places in a block.

    `sizes` are the codes of each shown column, gaps included; `cells` the observed ones of each column that is
    foretold. A column may be both, if the network's masks keep it from itself. `points` has a line for each code of a
    shown column, which stands for it; by default a 1 in a place of its own.
    """

    given: tuple[int, ...]
    sizes: tuple[int, ...]
    targets: tuple[int, ...]
    cells: tuple[int, ...]
    coded: bool = False  # for a network that begins with an `Embedding`
    points: tuple[Floats, ...] | None = None

    def inputs(self, block: Block) -> Any:
        """What the network is shown of each row."""
        shown = tuple(block.columns[place] for place in self.given)
        if self.points is not None:
            looked = [points[codes] for points, codes in zip(self.points, shown, strict=True)]
            return np.concatenate(looked, axis=1)
        return shown if self.coded else indicators(shown, self.sizes)

    def losses(self, outputs: Floats, block: Block) -> tuple[Floats, Floats]:
        """The loss of each row, and its slopes by the outputs."""
        return cross_entropy(outputs, [block.columns[place] for place in self.targets], self.cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Descent:
    """Descend on the loss of a network by noisy sums of clipped gradients.

    `lot` is about how many rows a lot has, a public guess that only scales steps; `seed` draws the first parameters,
    unless `begin` gives them.
    """

    network: Layer
    cells: Cells
    optimizer: Optimizer
    lot: float
    seed: int = 0
    begin: Floats | None = None

    @property
    def numbers(self) -> int:
        """How many parameters the network has."""
        return sum(self.network.shapes)

    def start(self) -> Learned:
        """The first parameters."""
        drawn = self.network.start(np.random.default_rng(self.seed)) if self.begin is None else self.begin
        return Learned(drawn, self.network.unpack(drawn), None)

    def gradients(self, state: Learned, block: Block) -> RowGradients:
        """Of the loss of each row."""
        outputs, memory = self.network.forward(state.weights, self.cells.inputs(block))
        _, slopes = self.cells.losses(outputs, block)
        return Joint.of(self.network.backward(state.weights, memory, slopes, to_inputs=False)[1])

    def follow(self, state: Learned, noisy: Floats, step: int) -> Learned:
        """A step of the optimizer."""
        move, moments = self.optimizer.move(state.moments, noisy / self.lot, step, self.network.shapes)
        numbers = np.clip(state.numbers + move, -FARTHEST, FARTHEST)
        return Learned(numbers, self.network.unpack(numbers), moments)

    def outcome(self, state: Learned) -> Floats:
        """The parameters."""
        return state.numbers


def begun(network: Layer, biases: Floats, *, place: int, seed: int = 0) -> Floats:
    """First parameters, by a public seed, with these biases from `place` on."""
    numbers = network.start(np.random.default_rng(seed))
    numbers[place : place + len(biases)] = biases
    return numbers
