r"""Bins of a numeric scale: which bin a position falls into, where each bin begins and ends, values drawn from a bin.

With B equal bins the position :math:`v` in :math:`[a, b]` falls into bin
:math:`\min(B - 1, \lfloor B (v - a) / (b - a) \rfloor)`. Between given cuts a bin is closed on the left and open on
the right; the last bin is closed on both sides. A scale may have *steps*: then its values are multiples of the step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.types import Floats

Scale: TypeAlias = Literal["linear", "log", "symlog"]


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins between two bounds.

    Attributes:
        lower: the lower bound.
        upper: the upper bound.
        number: the number of bins.
        step: the distance of neighbouring values; 0 for a continuous scale.
        given: where the bins begin, and where the last one ends; None for equal bins.
    """

    lower: float
    upper: float
    number: int
    step: float
    given: Sequence[float] | Floats | None = None

    @cached_property
    def cuts(self) -> Floats:
        """Where each bin begins, and where the last one ends."""
        if self.given is not None:
            return np.array(self.given)
        if self.step and self.number == round((self.upper - self.lower) / self.step) + 1:  # each value is a bin
            values = self.from_steps(self.to_steps(self.lower) + np.arange(self.number))
            return np.append(values, self.upper + self.step / 2)
        # Divided last: with ten bins from 0 to 1 the third cut is exactly 0.3.
        part = np.arange(self.number + 1)
        return (self.lower * (self.number - part) + self.upper * part) / self.number

    @cached_property
    def first_steps(self) -> Floats:
        """The first value of each bin, in steps, and one past the last value."""
        firsts, lowest, bins = self.to_steps(self.cuts[:-1]), self.to_steps(self.lower), np.arange(self.number)
        if self.given is None:  # rounding may put a value beside an edge: the formula for equal bins decides
            firsts -= self.bin_of(self.from_steps(np.maximum(firsts - 1, lowest))) >= bins
            firsts += self.bin_of(self.from_steps(np.maximum(firsts, lowest))) < bins
        return np.append(np.maximum(firsts, lowest), self.to_steps(self.upper, up=False) + 1)

    def to_steps(self, positions: Any, *, up: bool = True) -> Any:
        """Positions in whole steps, rounded up or down unless they are on a step."""
        steps = np.asarray(positions) / self.step
        near = np.round(steps)
        rounded = np.ceil(steps) if up else np.floor(steps)
        return np.where(np.abs(steps - near) < 1e-6, near, rounded) if self.step != 1 else rounded

    def from_steps(self, steps: Any) -> Any:
        """The positions of whole steps."""
        return steps if self.step == 1 else multiples(steps, self.step)

    def bin_of(self, positions: Floats) -> NDArray[np.int64]:
        """The bin of each position, positions beyond the bounds clamped to the end bins."""
        clipped = np.clip(positions, self.lower, self.upper)
        if self.step and self.given is None and self.cuts[-1] == self.upper:
            bins = np.floor(self.number * (clipped - self.lower) / (self.upper - self.lower))  # exact for whole numbers
        else:
            bins = np.searchsorted(self.cuts, clipped, side="right") - 1.0
        return np.minimum(bins, self.number - 1).astype(np.int64)

    def bin_ranges(self) -> tuple[Floats, Floats]:
        """The smallest and the largest value of each bin."""
        if self.step:
            return self.from_steps(self.first_steps[:-1]), self.from_steps(self.first_steps[1:] - 1)
        last = np.append(np.nextafter(self.cuts[1:-1], -np.inf), self.cuts[-1])
        return self.cuts[:-1], last

    def midpoints(self) -> Floats:
        """A value in the middle of each bin."""
        if self.step:
            return np.asarray(self.from_steps(np.floor((self.first_steps[:-1] + self.first_steps[1:] - 1) / 2)))
        low, high = self.bin_ranges()
        return low + (high - low) / 2

    def draw(self, bins: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[Any]:
        """Draw a value uniformly from each of these bins; on a scale with steps, a multiple of the step."""
        if self.step:
            steps = rng.integers(self.first_steps[bins].astype(np.int64), self.first_steps[bins + 1].astype(np.int64))
            return np.asarray(self.from_steps(steps))
        lower, upper = self.cuts[bins], self.cuts[bins + 1]
        drawn: NDArray[Any] = np.minimum(lower + rng.random(len(bins)) * (upper - lower), np.nextafter(upper, -np.inf))
        widths = np.diff(self.cuts)
        narrowest = widths[widths > np.finfo(float).tiny].min(initial=np.inf)  # without the cell of 0
        digits = 3 - math.floor(math.log10(narrowest)) if narrowest < np.inf else 999  # a thousandth of a bin
        if digits > min(300, 15 - math.floor(math.log10(np.abs(self.cuts).max()))):  # more digits than a float has
            return drawn
        rounded: NDArray[Any] = np.round(drawn, digits)
        return np.where((rounded >= lower) & (rounded < upper), rounded, drawn)


def stratified(codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> Floats:
    """A uniform number from [0, 1) for each code; those of n equal codes lie in n different intervals of length 1/n."""
    order = np.lexsort((rng.random(len(codes)), codes))
    _, first, many = np.unique(codes[order], return_index=True, return_counts=True)
    chances = np.empty(len(codes))
    chances[order] = (np.arange(len(codes)) - np.repeat(first, many) + rng.random(len(codes))) / np.repeat(many, many)
    return chances


def multiples(steps: Any, step: float | Decimal) -> Floats:
    """Multiples of a step, each the float nearest to its decimal text: 29 steps of 0.01 are 0.29.

    >>> multiples(29, 0.01).item()
    0.29
    """
    numerator, denominator = Decimal(str(step)).as_integer_ratio()
    return np.asarray(steps, dtype=np.float64) * float(numerator) / float(denominator)


def on_scale(positions: Floats, scale: Scale) -> Floats:
    r"""Positions on a scale: :math:`v`, :math:`\log v` or :math:`\operatorname{sign}(v) \log(1 + |v|)`."""
    if scale == "log":
        return np.asarray(np.log(positions))
    return np.sign(positions) * np.log1p(np.abs(positions)) if scale == "symlog" else positions


def equal_width_cells(lower: float, upper: float, cells: int, scale: Scale) -> Floats:
    """Where cells of equal width on a scale (`on_scale`) begin, and where the last one ends.

    >>> equal_width_cells(1, 1000, 3, "log").round(6).tolist()
    [1.0, 10.0, 100.0, 1000.0]
    """
    if scale == "linear":
        return np.linspace(lower, upper, cells + 1)
    if scale == "log":
        cuts = np.geomspace(lower, upper, cells + 1)
    else:
        first, last = on_scale(np.array([lower, upper]), scale)
        places = np.linspace(float(first), float(last), cells + 1)
        cuts = np.sign(places) * np.expm1(np.abs(places))
    cuts[0], cuts[-1] = lower, upper
    return cuts


def round_number_cells(lower: float, upper: float, cells: int, scale: Scale) -> Floats:
    """Where about `cells` cells begin, at round numbers, and where the last one ends.

    On a log scale the same leading digits are used in every power of ten. So a public rule such as ``income >= 30000``
    seldom splits a cell.

    >>> round_number_cells(0, 3, 5, "linear").tolist(), round_number_cells(7, 40, 20, "log").tolist()
    ([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [7.0, 7.5, 8.0, 8.5, 9.0, 9.5, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0])
    """
    if scale == "linear":
        power = math.floor(math.log10((upper - lower) / cells))
        steps = [Decimal(digits) * Decimal(10) ** (power + more) for more in (0, 1) for digits in (1, 2, 5)]
        step = min(steps, key=lambda step: abs(math.log((upper - lower) / float(step) / cells)))
        starts = multiples(np.arange(math.ceil(lower / float(step)), math.floor(upper / float(step)) + 1), step)
    elif scale == "log":
        starts = _powers(lower, upper, _digits(math.log10(upper / lower), cells))
    else:
        reach = [math.log10(max(1.0, abs(end))) + 0.1 for end in (lower, upper)]
        per_power = _digits(max(0.1, reach[1] - reach[0]) if lower > 0 else sum(reach), cells)
        below_one = multiples(np.arange(0, 100, 900 // per_power), Decimal("0.01"))
        positive = np.append(below_one, _powers(1.0, max(1.0, abs(lower), abs(upper)), per_power))
        starts = np.append(-positive, positive)
    return np.unique([lower, *starts[(starts > lower) & (starts < upper)], upper])


def _digits(powers: float, cells: int) -> int:
    """How many of the 900 numbers with three digits begin a cell in each power of ten, to get about `cells` cells."""
    return min((1, 9, 18, 45, 90, 180, 450, 900), key=lambda starts: abs(math.log(starts * powers / cells)))


def _powers(lower: float, upper: float, per_power: int) -> Floats:
    """Numbers with three digits, `per_power` in each power of ten, from below `lower` to above `upper`."""
    digits = np.arange(100, 1000, 900 // per_power)
    powers = range(math.floor(math.log10(lower)), math.ceil(math.log10(upper)) + 1)
    return np.concatenate([multiples(digits, Decimal(10) ** (power - 2)) for power in powers])
