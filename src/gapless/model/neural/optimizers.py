r"""Steps from noisy gradients. All of it is public: gradients come with their noise, and nothing else is looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gapless.types import Floats


@dataclass(frozen=True, slots=True)
class Moments:
    """What an optimizer remembers: a mean of gradients, and means of their squares."""

    first: Floats
    second: Floats


class Optimizer(Protocol):
    """Where to go from a gradient."""

    def move(
        self, moments: Moments | None, gradient: Floats, step: int, shapes: Sequence[int]
    ) -> tuple[Floats, Moments]:
        """What to add to the parameters at this step (0, 1 …), and what to remember for the next."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """The length of steps: up in a line for `warmup` steps, then down along a cosine to 0 at the last of `steps`."""

    rate: float
    steps: int
    warmup: int = 0

    def at(self, step: int) -> float:
        """Of this step (0, 1 …)."""
        return self.rate * min(1.0, (step + 1) / max(1, self.warmup)) * (1 + math.cos(math.pi * step / self.steps)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD:
    """Against the gradient, with momentum: m ← μ m + g."""

    rate: Cosine
    momentum: float = 0.9

    def move(
        self, moments: Moments | None, gradient: Floats, step: int, shapes: Sequence[int]
    ) -> tuple[Floats, Moments]:
        """-rate · m."""
        del shapes
        first = gradient if moments is None else self.momentum * moments.first + gradient
        return -self.rate.at(step) * first, Moments(first, np.zeros(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Steps of one length whatever the scale of gradients (Kingma and Ba 2015), with one second moment for each tensor.

    Noise has the same size in each coordinate, so that a second moment for each mostly follows noise: the mean over a
    tensor says the same with less of it.
    """

    rate: Cosine
    first: float = 0.9
    second: float = 0.99
    least: float = 1e-8

    def move(
        self, moments: Moments | None, gradient: Floats, step: int, shapes: Sequence[int]
    ) -> tuple[Floats, Moments]:
        """-rate · m̂ / (√v̂ + least)."""
        sizes = np.array([size for size in shapes if size])
        squares = np.add.reduceat(gradient**2, np.cumsum(sizes) - sizes) / sizes
        before = moments or Moments(np.zeros_like(gradient), np.zeros(len(sizes)))
        after = Moments(
            self.first * before.first + (1 - self.first) * gradient,
            self.second * before.second + (1 - self.second) * squares,
        )
        length = np.sqrt(after.second / (1 - self.second ** (step + 1))) + self.least
        return -self.rate.at(step) * after.first / (1 - self.first ** (step + 1)) / np.repeat(length, sizes), after
