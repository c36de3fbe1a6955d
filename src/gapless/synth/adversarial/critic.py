r"""A critic that was paid for: how much more likely each row is among private rows than among made ones.

The critic of a game (`game`) is :math:`W = A - \mathbb E\,\varphi(G(z))`, A private gradients as
they were released. Its numbers have no scale. So rows are weighted by :math:`e^{t f(x)}`, :math:`f(x) = \langle W,
\varphi(x)\rangle`. To first order this moves the mean of :math:`\varphi` over made rows by :math:`t\,\Sigma W`, where
:math:`\Sigma` is the covariance of :math:`\varphi` there; closest to private rows it comes with

.. math:: t = \frac{\langle W, \Sigma W\rangle - s^2 \operatorname{tr} \Sigma}{\lVert \Sigma W\rVert^2}

s² is the variance of the noise in each number of A, which is in W as well: without it, t would follow noise. If nothing
is left, t is 0 and all weights are alike. All of it is a function of released values and of rows drawn from the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from gapless.model.distribution import Distribution
from gapless.model.neural.layers import Pairs
from gapless.privacy.private import Released
from gapless.synth.adversarial.game import Side
from gapless.types import Floats

__all__ = ["Critic", "Known"]

DRAWN = 1 << 14
WIDEST = 1.0  # standard deviation of log weights among made rows, at the most
_PORTION = 1 << 12  # rows at once


class Known(NamedTuple):
    """What is known of the private gradients that a game remembers.

    Attributes:
        kept: the weight of all that is remembered.
        noise_std: that of the noise in each of its numbers.
        clip: the length that a row's gradient was cut to.
    """

    kept: float
    noise_std: float
    clip: float


@dataclass(frozen=True, slots=True, eq=False)
class Critic:
    """The log odds that a row is private, but for a constant.

    Attributes:
        lines: the point of each code of each column.
        numbers: t W, one block of a pair of columns after the other.
        clip: the length that a row's products are cut to, as when the critic was trained.
        entry: the ledger's entry that paid for the critic; nothing else makes one.
    """

    lines: tuple[Floats, ...]
    numbers: Floats
    clip: float
    entry: int

    @classmethod
    def paid(cls, released: Released[Floats], side: Side, model: Distribution, known: Known) -> Self:
        """From the outcome of a game that was paid for.

        Its scale follows from rows drawn from the model with a public seed.
        """
        size, clip = sum(side.critic.shapes), known.clip
        aim, noise = released.value[:size] / known.kept, known.noise_std / known.kept
        plain = cls(side.lines, np.zeros(size), clip, released.entry)
        made = model.sample(DRAWN, np.random.default_rng(0)).astype(np.int64)
        halves = made[::2], made[1::2]  # what W is made of, and what it is judged by
        numbers = aim - plain._mean(halves[0], np.ones(len(halves[0])))
        scores = cls(side.lines, numbers, clip, released.entry).log_odds(halves[1])
        mean = plain._mean(halves[1], np.ones(len(scores)))
        moved = plain._mean(halves[1], scores) - scores.mean() * mean
        spread = plain._square(halves[1]) - float(mean @ mean)
        gain = float((aim - mean) @ moved) - noise**2 * spread
        scale = max(0.0, gain) / max(float(moved @ moved), 1e-300)
        widest = WIDEST / max(float(scores.std()), 1e-300)
        return cls(side.lines, min(scale, widest) * numbers, clip, released.entry)

    @property
    def _pairs(self) -> Pairs:
        return Pairs(tuple(lines.shape[1] for lines in self.lines))

    def _points(self, codes: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """The points of rows, and by how much their products are cut."""
        points = np.concatenate([lines[codes[:, c]] for c, lines in enumerate(self.lines)], axis=1)
        _, (gradient,) = self._pairs.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)
        lengths = np.sqrt(gradient.squared_norms())
        return points, np.minimum(1.0, self.clip / np.maximum(lengths, 1e-300))

    def _mean(self, codes: NDArray[np.integer], weights: Floats) -> Floats:
        """The mean of the rows' products, cut, times their weights."""
        total = np.zeros(len(self.numbers))
        for begin in range(0, len(codes), _PORTION):
            points, cut = self._points(codes[begin : begin + _PORTION])
            _, (gradient,) = self._pairs.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)
            total += gradient.total(cut * weights[begin : begin + _PORTION])
        return total / len(codes)

    def _square(self, codes: NDArray[np.integer]) -> float:
        """The mean squared length of the rows' products, cut."""
        total = 0.0
        for begin in range(0, len(codes), _PORTION):
            points, cut = self._points(codes[begin : begin + _PORTION])
            _, (gradient,) = self._pairs.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)
            total += float((cut**2) @ gradient.squared_norms())
        return total / len(codes)

    def log_odds(self, codes: NDArray[np.integer]) -> Floats:
        """Of each row: rows × columns of codes in."""
        pairs = self._pairs
        matrix, found = pairs.unpack(self.numbers), np.zeros(len(codes))
        for begin in range(0, len(codes), _PORTION):
            points, cut = self._points(codes[begin : begin + _PORTION])
            found[begin : begin + _PORTION] = cut * pairs.forward(matrix, points)[0][:, 0]
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds of it."""
        facts = {"numbers": self.numbers, "clip": np.array(self.clip), "entry": np.array(self.entry)}
        return facts | {f"lines{place}": lines for place, lines in enumerate(self.lines)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The critic that a model file holds."""
        many = sum(name.startswith("lines") for name in arrays)
        lines = tuple(arrays[f"lines{place}"] for place in range(many))
        return cls(lines, arrays["numbers"], float(arrays["clip"]), int(arrays["entry"]))
