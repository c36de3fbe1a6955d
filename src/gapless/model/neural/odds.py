r"""A program for private training: one network that tells private rows from public ones by its log odds z.

.. math:: \tilde g = \sum_{\text{private } x \text{ in the lot}} -\sigma(-z(x))\,\nabla z(x)\ \text{(clipped)}
          + \text{noise} + \sum_{\text{public } x \text{ in a batch}} \sigma(z(x))\,\nabla z(x)

Public rows are added between steps, where everything is public: they need neither clipping nor noise (PRIVACY G2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from gapless.model.neural.descent import FARTHEST, Learned
from gapless.model.neural.gradients import Joint
from gapless.model.neural.layers import Layer, indicators
from gapless.model.neural.optimizers import Optimizer
from gapless.privacy.sgd import Block, RowGradients
from gapless.types import Codes, Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Odds:
    """Learn the log odds that a row is private.

    `sizes` are the codes of each column, gaps included; `public` the public rows, column by column; `lot` how many of
    them are added at a step, drawn by `seed`, which also draws the first parameters. The gradient is divided by `lot`.
    """

    network: Layer
    sizes: tuple[int, ...]
    public: tuple[Codes, ...]
    optimizer: Optimizer
    lot: int
    seed: int = 0

    @property
    def numbers(self) -> int:
        """How many parameters the network has."""
        return sum(self.network.shapes)

    def start(self) -> Learned:
        """The first parameters."""
        drawn = self.network.start(np.random.default_rng(self.seed))
        return Learned(drawn, self.network.unpack(drawn), None)

    def gradients(self, state: Learned, block: Block) -> RowGradients:
        """Of the loss of each private row."""
        return self._slopes(state, block.columns, label=1.0)

    def follow(self, state: Learned, noisy: Floats, step: int) -> Learned:
        """A step of the optimizer, from the noisy sum of private rows and the exact one of public ones."""
        chosen = np.random.default_rng([self.seed, step]).integers(len(self.public[0]), size=self.lot)
        public = self._slopes(state, tuple(codes[chosen] for codes in self.public), label=0.0)
        total = noisy + public.total(np.ones(self.lot))
        move, moments = self.optimizer.move(state.moments, total / self.lot, step, self.network.shapes)
        numbers = np.clip(state.numbers + move, -FARTHEST, FARTHEST)
        return Learned(numbers, self.network.unpack(numbers), moments)

    def outcome(self, state: Learned) -> Floats:
        """The parameters."""
        return state.numbers

    def log_odds(self, numbers: Floats, columns: tuple[Codes, ...]) -> Floats:
        """The output for each of these rows, of the network with these parameters."""
        outputs, _ = self.network.forward(self.network.unpack(numbers), indicators(columns, self.sizes))
        return np.asarray(outputs[:, 0])

    def _slopes(self, state: Learned, columns: tuple[Codes, ...], *, label: float) -> RowGradients:
        outputs, memory = self.network.forward(state.weights, indicators(columns, self.sizes))
        slopes = expit(outputs) - label
        return Joint.of(self.network.backward(state.weights, memory, slopes, to_inputs=False)[1])
