r"""Programs for private training that train one network, and their optimizer.

Everything here is public: it reads noisy gradients and nothing else. `PredictionTraining` learns to predict cells of a
row from cells of the same row. `OddsTraining` learns to separate private rows from public ones by log odds z:

.. math:: \tilde g = \sum_{\text{private } x \text{ in the sample}} -\sigma(-z(x))\,\nabla z(x)\ \text{(clipped)}
          + \text{noise} + \sum_{\text{public } x \text{ in a batch}} \sigma(z(x))\,\nabla z(x)

Gradients of public rows are added after the noise. They need neither clipping nor noise.
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
        """Return the learning rate of this step (0, 1 …)."""
        return self.rate * min(1.0, (step + 1) / max(1, self.warmup)) * (1 + math.cos(math.pi * step / self.steps)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Adam (Kingma and Ba 2015) with one second moment for each tensor.

    Noise has the same size in each coordinate, so a second moment for each coordinate would mostly follow noise. The
    mean over a tensor estimates the same scale with less noise.
    """

    rate: CosineSchedule
    first: float = 0.9
    second: float = 0.99
    least: float = 1e-8

    def move(self, old: Moments | None, gradient: Floats, step: int, shapes: Sequence[int]) -> tuple[Floats, Moments]:
        """Return the step -rate · m̂ / (√v̂ + least) and the new moments."""
        sizes = np.array([size for size in shapes if size])
        squares = np.add.reduceat(gradient**2, np.cumsum(sizes) - sizes) / sizes
        before = old or Moments(np.zeros_like(gradient), np.zeros(len(sizes)))
        after = Moments(
            self.first * before.first + (1 - self.first) * gradient,
            self.second * before.second + (1 - self.second) * squares,
        )
        length = np.sqrt(after.second / (1 - self.second ** (step + 1))) + self.least
        return -self.rate.at(step) * after.first / (1 - self.first ** (step + 1)) / np.repeat(length, sizes), after


LARGEST_PARAMETER = 2.0**20  # parameters are clipped to this, so that a training that diverges stays finite


def bounded(numbers: Floats) -> Floats:
    """Clip parameters or gradients to ±`LARGEST_PARAMETER`."""
    return np.clip(numbers, -LARGEST_PARAMETER, LARGEST_PARAMETER)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """The state of a training. It is a function of noisy sums only, so it is public."""

    parameters: Floats
    weights: Any  # the same parameters, unpacked by the network
    moments: Moments | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictionTask:
    """The input columns of a network and the columns that it predicts, by their positions in a block.

    A column may be both, if the network's masks hide it from its own prediction.

    Attributes:
        given: the input columns.
        sizes: the number of codes of each input column, gaps included.
        targets: the predicted columns.
        cells: the number of observed cells of each predicted column.
        coded: whether the network begins with an `Embedding` and takes codes.
        points: a vector for each code of each input column; by default one-hot vectors.
    """

    given: tuple[int, ...]
    sizes: tuple[int, ...]
    targets: tuple[int, ...]
    cells: tuple[int, ...]
    coded: bool = False
    points: tuple[Floats, ...] | None = None

    def inputs(self, block: Block) -> Any:
        """Return the inputs of the network for each row."""
        shown = tuple(block.columns[position] for position in self.given)
        if self.points is not None:
            looked = [points[codes] for points, codes in zip(self.points, shown, strict=True)]
            return np.concatenate(looked, axis=1)
        return shown if self.coded else one_hot(shown, self.sizes)

    def losses(self, outputs: Floats, block: Block) -> tuple[Floats, Floats]:
        """Return the loss of each row, and its derivatives by the outputs."""
        return cross_entropy(outputs, [block.columns[position] for position in self.targets], self.cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkTraining:
    """Base of the programs that train one network: only its parameters are learned and released.

    Gradients are divided by `batch_size`, a public guess of the number of rows in a sample. `initial` are the first
    parameters; by default they are drawn by `seed`.
    """

    network: Layer
    optimizer: Adam
    batch_size: float
    seed: int = 0
    initial: Floats | None = None

    @property
    def numbers(self) -> int:
        """The number of parameters of the network."""
        return sum(self.network.shapes)

    def start(self) -> TrainingState:
        """Return the state with the first parameters."""
        drawn = self.network.start(np.random.default_rng(self.seed)) if self.initial is None else self.initial
        return TrainingState(drawn, self.network.unpack(drawn), None)

    def follow(self, state: TrainingState, noisy: Floats, step: int) -> TrainingState:
        """Take a step of the optimizer."""
        move, moments = self.optimizer.move(state.moments, noisy / self.batch_size, step, self.network.shapes)
        numbers = bounded(state.parameters + move)
        return TrainingState(numbers, self.network.unpack(numbers), moments)

    def outcome(self, state: TrainingState) -> Floats:
        """Return the parameters."""
        return state.parameters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PredictionTraining(NetworkTraining):
    """Minimise the prediction loss of a network by noisy sums of clipped gradients."""

    cells: PredictionTask

    def gradients(self, state: TrainingState, block: Block) -> RowGradients:
        """Return the gradient of each row's loss."""
        outputs, memory = self.network.forward(state.weights, self.cells.inputs(block))
        _, slopes = self.cells.losses(outputs, block)
        return JointGradients(self.network.backward(state.weights, memory, slopes, to_inputs=False)[1])


def initial_parameters(network: Layer, biases: Floats, *, place: int, seed: int = 0) -> Floats:
    """Draw first parameters by a public seed, and set those from position `place` on to these biases."""
    numbers = network.start(np.random.default_rng(seed))
    numbers[place : place + len(biases)] = biases
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OddsTraining(NetworkTraining):
    """Learn the log odds that a row is private.

    `sizes` are the numbers of codes of each column, gaps included. `public` are the public rows, column by column. Each
    step adds the gradients of `batch_size` of them, drawn by `seed`.
    """

    batch_size: int
    sizes: tuple[int, ...]
    public: tuple[Codes, ...]

    def gradients(self, state: TrainingState, block: Block) -> RowGradients:
        """Return the gradient of each private row's loss."""
        return self._slopes(state, block.columns, label=1.0)

    def follow(self, state: TrainingState, noisy: Floats, step: int) -> TrainingState:
        """Take a step of the optimizer from the noisy sum of private rows and the exact sum of public rows."""
        chosen = np.random.default_rng([self.seed, step]).integers(len(self.public[0]), size=self.batch_size)
        public = self._slopes(state, tuple(codes[chosen] for codes in self.public), label=0.0)
        return NetworkTraining.follow(self, state, noisy + public.total(np.ones(self.batch_size)), step)

    def log_odds(self, numbers: Floats, columns: tuple[Codes, ...]) -> Floats:
        """Return the network's output for each of these rows, with these parameters."""
        outputs, _ = self.network.forward(self.network.unpack(numbers), one_hot(columns, self.sizes))
        return np.asarray(outputs[:, 0])

    def _slopes(self, state: TrainingState, columns: tuple[Codes, ...], *, label: float) -> RowGradients:
        outputs, memory = self.network.forward(state.weights, one_hot(columns, self.sizes))
        return JointGradients(self.network.backward(state.weights, memory, expit(outputs) - label, to_inputs=False)[1])
