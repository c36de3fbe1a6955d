r"""A critic that was paid for: how much more likely each row is among private rows than among made ones.

The critic of a game (`neural.adversarial`) is :math:`W = A - \mathbb E\,\varphi(G(z))`, A private gradients as
they were released. Its numbers have no scale. So rows are weighted by :math:`e^{t f(x)}`, :math:`f(x) = \langle W,
\varphi(x)\rangle`, with the t for which made rows, so weighted, have the mean of f that private rows have:

.. math:: \frac{\mathbb E\,f e^{tf}}{\mathbb E\,e^{tf}} = \langle W, A\rangle - P s^2

P is the number of parameters and s² the variance of the noise in each: W holds the noise of A, and so
:math:`\langle W, A\rangle` is too large by Ps² on average. If nothing is left of it, t is 0 and all weights are alike.
All of it is a function of released values and of rows drawn from the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gapless.model.marginal import Floats
from gapless.model.neural.adversarial import Played, Side
from gapless.model.neural.layers import Pairs
from gapless.privacy.private import Released

__all__ = ["Critic"]

WIDEST = 1.0  # standard deviation of log weights among made rows, at the most
_HALVINGS = 50
_PORTION = 1 << 12  # rows at once


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
    def paid(
        cls,
        released: Released[Played],
        side: Side,
        made: NDArray[np.integer],
        *,
        kept: float,
        noise_std: float,
        clip: float,
    ) -> Self:
        """From a game that was paid for.

        `made` are rows drawn from the model, `kept` is the weight of all that is remembered, and `noise_std` that of
        the noise in each of its numbers.
        """
        size = sum(side.critic.shapes)
        aim = released.value.remembered[:size] / kept
        own = cls(side.lines, np.zeros(size), clip, released.entry)
        numbers = aim - own._mean(made)
        scores = cls(side.lines, numbers, clip, released.entry).log_odds(made)
        wanted = float(numbers @ aim) - size * noise_std**2 / kept**2
        return cls(side.lines, _scale(scores, wanted) * numbers, clip, released.entry)

    @property
    def _pairs(self) -> Pairs:
        return Pairs(tuple(lines.shape[1] for lines in self.lines))

    def _points(self, codes: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """The points of rows, and by how much their products are cut."""
        points = np.concatenate([lines[codes[:, c]] for c, lines in enumerate(self.lines)], axis=1)
        _, (gradient,) = self._pairs.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)
        lengths = np.sqrt(gradient.squared_norms())
        return points, np.minimum(1.0, self.clip / np.maximum(lengths, 1e-300))

    def _mean(self, codes: NDArray[np.integer]) -> Floats:
        total = np.zeros(len(self.numbers))
        for begin in range(0, len(codes), _PORTION):
            points, cut = self._points(codes[begin : begin + _PORTION])
            _, (gradient,) = self._pairs.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)
            total += gradient.total(cut)
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


def _scale(scores: Floats, wanted: float) -> float:
    """The t from 0 on for which the mean of scores, weighted by e^(t score), is the wanted one; never too far."""
    if not wanted > scores.mean():
        return 0.0
    low, high = 0.0, WIDEST / max(float(scores.std()), 1e-300)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        weights = np.exp(middle * (scores - scores.max()))
        low, high = (middle, high) if float(weights @ scores / weights.sum()) < wanted else (low, middle)
    return low
