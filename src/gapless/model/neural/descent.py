r"""Programs for private training that train one network, and their optimizer.

Everything here is public: gradients come with their noise, and nothing else is looked at. `PredictionTraining` learns
to predict cells of a row from cells of the same row. `OddsTraining` learns to separate private rows from public ones by
log odds z:

.. math:: \tilde g = \sum_{\text{private } x \text{ in the sample}} -\sigma(-z(x))\,\nabla z(x)\ \text{(clipped)}
          + \text{noise} + \sum_{\text{public } x \text{ in a batch}} \sigma(z(x))\,\nabla z(x)

Public rows are added between steps, where everything is public: they need neither clipping nor noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from gapless.model.neural.gradients import JointGradients
from gapless.model.neural.layers import Layer, cross_entropy, one_hot
from gapless.privacy.sgd import Block, RowGradients
from gapless.types import Codes, Floats


@dataclass(frozen=True, slots=True)
class Moments:
    """The state of the optimizer: a running mean of gradients, and running means of their squares."""

    first: Floats
    second: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineSchedule:
    """A learning rate: a linear warm-up for `warmup` steps, times a cosine decay to 0 at the last of `steps`."""

    rate: float
    steps: int
    warmup: int = 0

    def at(self, step: int) -> float:
        """The learning rate of this step (0, 1 …)."""
        return self.rate * min(1.0, (step + 1) / max(1, self.warmup)) * (1 + math.cos(math.pi * step / self.steps)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Steps of one length whatever the scale of gradients (Kingma and Ba 2015), with one second moment for each tensor.

    Noise has the same size in each coordinate, so that a second moment for each mostly follows noise: the mean over a
    tensor says the same with less of it.
    """

    rate: CosineSchedule
    first: float = 0.9
    second: float = 0.99
    least: float = 1e-8

    def move(self, old: Moments | None, gradient: Floats, step: int, shapes: Sequence[int]) -> tuple[Floats, Moments]:
        """-rate · m̂ / (√v̂ + least)."""
        sizes = np.array([size for size in shapes if size])
        squares = np.add.reduceat(gradient**2, np.cumsum(sizes) - sizes) / sizes
        before = old or Moments(np.zeros_like(gradient), np.zeros(len(sizes)))
        after = Moments(
            self.first * before.first + (1 - self.first) * gradient,
            self.second * before.second + (1 - self.second) * squares,
        )
        length = np.sqrt(after.second / (1 - self.second ** (step + 1))) + self.least
        return -self.rate.at(step) * after.first / (1 - self.first ** (step + 1)) / np.repeat(length, sizes), after


LARGEST_PARAMETER = 2.0**20  # parameters are kept within this, so that a training that runs away stays finite


def bounded(numbers: Floats) -> Floats:
    """Clip parameters or gradients to ±`LARGEST_PARAMETER`."""
    return np.clip(numbers, -LARGEST_PARAMETER, LARGEST_PARAMETER)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """The state of a training. It follows from noisy sums alone, so it is public."""

    parameters: Floats
    weights: Any  # the same, as the network unpacks them
    moments: Moments | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictionTask:
    """The columns that a network is given and those that it predicts, by their places in a block.

    `sizes` are the codes of each shown column, gaps included; `cells` the observed ones of each column that is
    predicted. A column may be both, if the network's masks keep it from itself. `points` has a line for each code of a
    shown column, which stands for it; by default one-hot codes.
    """

    given: tuple[int, ...]
    sizes: tuple[int, ...]
    targets: tuple[int, ...]
    cells: tuple[int, ...]
    coded: bool = False  # for a network that begins with an `Embedding`
    points: tuple[Floats, ...] | None = None

    def inputs(self, block: Block) -> Any:
        """The inputs of the network for each row."""
        shown = tuple(block.columns[place] for place in self.given)
        if self.points is not None:
            looked = [points[codes] for points, codes in zip(self.points, shown, strict=True)]
            return np.concatenate(looked, axis=1)
        return shown if self.coded else one_hot(shown, self.sizes)

    def losses(self, outputs: Floats, block: Block) -> tuple[Floats, Floats]:
        """The loss of each row, and its slopes by the outputs."""
        return cross_entropy(outputs, [block.columns[place] for place in self.targets], self.cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkTraining:
    """Base of the programs that train one network: only its parameters are learned and released.

    `batch_size` is about how many rows a sample has, a public guess by which gradients are divided; `seed` draws the
    first parameters, unless `begin` gives them.
    """

    network: Layer
    optimizer: Adam
    batch_size: float
    seed: int = 0
    initial: Floats | None = None

    @property
    def numbers(self) -> int:
        """How many parameters the network has."""
        return sum(self.network.shapes)

    def start(self) -> TrainingState:
        """The first parameters."""
        drawn = self.network.start(np.random.default_rng(self.seed)) if self.initial is None else self.initial
        return TrainingState(drawn, self.network.unpack(drawn), None)

    def follow(self, state: TrainingState, noisy: Floats, step: int) -> TrainingState:
        """A step of the optimizer."""
        move, moments = self.optimizer.move(state.moments, noisy / self.batch_size, step, self.network.shapes)
        numbers = bounded(state.parameters + move)
        return TrainingState(numbers, self.network.unpack(numbers), moments)

    def outcome(self, state: TrainingState) -> Floats:
        """The parameters."""
        return state.parameters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictionTraining(NetworkTraining):
    """Descend on the loss of a network by noisy sums of clipped gradients."""

    cells: PredictionTask

    def gradients(self, state: TrainingState, block: Block) -> RowGradients:
        """The gradient of each row's loss."""
        outputs, memory = self.network.forward(state.weights, self.cells.inputs(block))
        _, slopes = self.cells.losses(outputs, block)
        return JointGradients(self.network.backward(state.weights, memory, slopes, to_inputs=False)[1])


def initial_parameters(network: Layer, biases: Floats, *, place: int, seed: int = 0) -> Floats:
    """First parameters, by a public seed, with these biases from `place` on."""
    numbers = network.start(np.random.default_rng(seed))
    numbers[place : place + len(biases)] = biases
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OddsTraining(NetworkTraining):
    """Learn the log odds that a row is private.

    `sizes` are the codes of each column, gaps included; `public` the public rows, column by column. At each step
    `batch_size` of them are added, drawn by `seed`.
    """

    batch_size: int
    sizes: tuple[int, ...]
    public: tuple[Codes, ...]

    def gradients(self, state: TrainingState, block: Block) -> RowGradients:
        """The gradient of each private row's loss."""
        return self._slopes(state, block.columns, label=1.0)

    def follow(self, state: TrainingState, noisy: Floats, step: int) -> TrainingState:
        """A step of the optimizer, from the noisy sum of private rows and the exact one of public ones."""
        chosen = np.random.default_rng([self.seed, step]).integers(len(self.public[0]), size=self.batch_size)
        public = self._slopes(state, tuple(codes[chosen] for codes in self.public), label=0.0)
        return NetworkTraining.follow(self, state, noisy + public.total(np.ones(self.batch_size)), step)

    def log_odds(self, numbers: Floats, columns: tuple[Codes, ...]) -> Floats:
        """The output for each of these rows, of the network with these parameters."""
        outputs, _ = self.network.forward(self.network.unpack(numbers), one_hot(columns, self.sizes))
        return np.asarray(outputs[:, 0])

    def _slopes(self, state: TrainingState, columns: tuple[Codes, ...], *, label: float) -> RowGradients:
        outputs, memory = self.network.forward(state.weights, one_hot(columns, self.sizes))
        return JointGradients(self.network.backward(state.weights, memory, expit(outputs) - label, to_inputs=False)[1])
