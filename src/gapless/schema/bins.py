r"""The geometry of bins on a line: into which one a position falls, where each begins and ends, values drawn in it.

Equal bins: the position :math:`v` in :math:`[a, b]` falls into bin
:math:`\min(B - 1, \lfloor B (v - a) / (b - a) \rfloor)`. Between given cuts a bin is closed on the left and open on
the right, the last one closed on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Bins:
    """So many bins between two bounds, on a line of whole numbers or of all; equal ones, or between given cuts."""

    lower: float
    upper: float
    number: int
    whole: bool
    given: Sequence[float] | None = None

    @cached_property
    def cuts(self) -> NDArray[np.float64]:
        """Where each bin begins, and where the last one ends."""
        if self.given is not None:
            return np.array(self.given)
        if self.whole and self.number == self.upper - self.lower + 1:  # one bin for each value
            return np.append(np.arange(self.lower, self.upper + 1), self.upper + 0.5)
        return np.linspace(self.lower, self.upper, self.number + 1)

    @cached_property
    def firsts(self) -> NDArray[np.float64]:
        """The first whole value of each bin, and one past the last."""
        firsts = np.ceil(self.cuts[:-1])
        # The formula for equal bins decides, should rounding put a whole value beside an edge.
        firsts -= self.of(np.maximum(firsts - 1, self.lower)) >= np.arange(self.number)
        firsts += self.of(np.maximum(firsts, self.lower)) < np.arange(self.number)
        return np.append(np.maximum(firsts, self.lower), self.upper + 1)

    def of(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each position, positions beyond the bounds clamped to the end bins."""
        inside = np.clip(positions, self.lower, self.upper)
        if self.given is None and self.cuts[-1] == self.upper:
            bins = np.floor(self.number * (inside - self.lower) / (self.upper - self.lower))  # exact for whole numbers
        else:
            bins = np.searchsorted(self.cuts, inside, side="right") - 1.0
        return np.minimum(bins, self.number - 1).astype(np.int64)

    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest value of each bin."""
        if self.whole:
            return self.firsts[:-1], self.firsts[1:] - 1
        last = np.append(np.nextafter(self.cuts[1:-1], -np.inf), self.cuts[-1])
        return self.cuts[:-1], last

    def within(self, positions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which positions are values: inside the bounds and, on a line of whole numbers, whole."""
        inside: NDArray[np.bool_] = (positions >= self.lower) & (positions <= self.upper)
        return inside & (positions == np.floor(positions)) if self.whole else inside

    def draw(self, bins: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[Any]:
        """A value drawn uniformly from each of these bins; whole numbers stay whole."""
        if self.whole:
            values: NDArray[Any] = rng.integers(
                self.firsts[bins].astype(np.int64), self.firsts[bins + 1].astype(np.int64)
            )
            return values
        lower, upper = self.cuts[bins], self.cuts[bins + 1]
        drawn: NDArray[Any] = np.minimum(lower + rng.random(len(bins)) * (upper - lower), np.nextafter(upper, -np.inf))
        digits = 3 - math.floor(math.log10(np.diff(self.cuts).min()))  # readable: a thousandth of a bin
        if digits > min(300, 15 - math.floor(math.log10(np.abs(self.cuts).max()))):  # more than a float has
            return drawn
        rounded: NDArray[Any] = np.round(drawn, digits)
        return np.where((rounded >= lower) & (rounded < upper), rounded, drawn)
