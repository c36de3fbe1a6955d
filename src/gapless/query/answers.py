r"""Answers, and intervals that the noise alone decides.

A released vector is a true one and noise with a known law. An interval collects the true values that the noise does
not speak against: with probability 95 % over the noise it holds the answer that would have been given without noise. It
says nothing about how the people in the table were drawn, nor about what the gaps hide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.text import listing
from gapless.types import Floats

ALPHA = 0.05  # how often an interval may miss
RATIOS = 2001  # between which limits are interpolated
LONG = 1000.0  # steps of discrete normal noise: beyond, its tail is bounded instead of summed


@dataclass(frozen=True, slots=True)
class Noise:
    """The law of independent noise on each number of a vector, in units of rows: Laplace or normal.

    Discrete noise on a grid lies within a step of the continuous one (a geometric variable is an exponential one
    rounded down); the step is added where a limit on two noises at once is computed.
    """

    laplace: bool
    scale: float
    step: float

    @classmethod
    def of(cls, mechanism: DiscreteLaplace | DiscreteGaussian, unit: int) -> Noise:
        """The noise of a mechanism on a grid of 1/unit rows."""
        if isinstance(mechanism, DiscreteLaplace):
            return cls(True, mechanism.scale / unit, 1 / unit)
        return cls(False, mechanism.std / unit, 1 / unit)

    @property
    def std(self) -> float:
        """The standard deviation, in rows."""
        if self.laplace:
            return self.step * DiscreteLaplace(self.scale / self.step).noise_std
        return self.scale

    def limit(self, miss: float = ALPHA) -> float:
        """What the noise exceeds, either way, with probability at most `miss`."""
        return self.step * _steps(self.laplace, self.scale / self.step, miss)

    def limit_of_difference(self) -> float:
        """What the difference of two such noises exceeds, either way, with probability at most 5 %."""
        return self.scale * _limit(self.laplace, 1.0, 1.0, ALPHA) + self.step


@lru_cache(maxsize=8192)
def _steps(laplace: bool, scale: float, miss: float) -> int:  # noqa: FBT001 a law has two names
    r"""The least whole t with Pr[|Z| > t] ≤ miss for discrete noise Z.

    Laplace: :math:`\Pr[|Z| > t] = 2 q^{t+1} / (1 + q)`, :math:`q = e^{-1/s}`. Normal: summed up; where that is long,
    from Pr[Z > t] ≤ Pr[N(0, σ²) ≥ t] (Canonne, Kamath and Steinke 2020, Proposition 23).
    """
    if laplace:
        q = math.exp(-1 / scale)
        return max(0, math.ceil(-scale * math.log(miss * (1 + q) / 2)) - 1)
    if scale > LONG:
        return math.ceil(scale * _limit(laplace, 1.0, 0.0, miss))
    weights = np.exp(-((np.arange(40 * math.ceil(scale) + 1) / scale) ** 2) / 2)
    beyond = 2 * np.append(np.cumsum(weights[::-1])[::-1][1:], 0) / (2 * weights.sum() - 1)
    return int(np.flatnonzero(beyond <= miss)[0])


@lru_cache(maxsize=2)
def _ratio_limits(laplace: bool) -> tuple[Floats, Floats]:  # noqa: FBT001 a law has two names
    """Ratios r on a grid, and what |(1 − r) Z − r Z′| exceeds with probability 5 % for each. Convex in r."""
    ratios = np.linspace(0, 1, RATIOS)
    return ratios, np.array([_limit(laplace, float(1 - r), float(r), ALPHA) for r in ratios])


@lru_cache(maxsize=8192)
def _limit(laplace: bool, weight: float, other: float, miss: float) -> float:  # noqa: FBT001 a law has two names
    r"""The t with Pr[|w Z + o Z′| > t] = miss for independent standard Laplace or normal Z, Z′.

    Laplace with scales w > o: :math:`(w^2 e^{-t/w} - o^2 e^{-t/o}) / (w^2 - o^2)`.
    """
    if not laplace:
        from scipy.special import ndtri  # noqa: PLC0415 slow to load

        return float(-ndtri(miss / 2)) * math.hypot(weight, other)
    weight, other = max(weight, other), min(weight, other)

    def beyond(t: float) -> float:
        if other < 1e-9 * weight:
            return math.exp(-t / weight)
        if weight - other < 1e-6 * weight:
            return math.exp(-t / weight) * (1 + t / (2 * weight))
        return (weight**2 * math.exp(-t / weight) - other**2 * math.exp(-t / other)) / (weight**2 - other**2)

    low, high = 0.0, 60.0 * weight
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle) > miss else (low, middle)
    return high


def ratio_interval(part: float, rest: float, noise: Noise) -> tuple[float, float]:
    r"""The ratios r for which (1 − r) · part − r · rest is no larger than its noise explains (Fieller 1954).

    At the true ratio that difference is noise alone, so the set of all such r holds it with probability 95 %, however
    few rows there are. Numbers below 0 are first raised to 0, where the true ones can be: that brings the difference at
    the true ratio nearer to 0. Then the ratio of the two is always in the set. From there the ends are found by
    bisection: what the noise explains is convex in r, so there is one on either side; and lines between the points
    of its grid lie above it.
    """
    part, rest = max(0.0, part), max(0.0, rest)
    if part + rest == 0:
        return 0.0, 1.0
    ratios, limits = _ratio_limits(noise.laplace)

    def explained(r: float) -> bool:
        limit = noise.scale * float(np.interp(r, ratios, limits)) + noise.step
        return abs((1 - r) * part - r * rest) <= limit

    def end(outer: float) -> float:
        if explained(outer):
            return outer
        inner = part / (part + rest)
        for _ in range(60):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if explained(middle) else (inner, middle)
        return outer

    return end(0.0), end(1.0)


def variance_interval(parts: Floats, noise: Noise) -> tuple[float, float]:
    """From limits on all three noises at once, each missed with probability 5 % / 3: wide, and never too narrow."""
    t = noise.limit(ALPHA / 3)
    rows_low, rows_high = max(2.0, float(parts.sum()) - 3 * t), max(2.0, float(parts.sum()) + 3 * t)
    squares_low, squares_high = max(0.0, float(parts[0]) - t), max(0.0, float(parts[0]) + t)
    values_low, values_high = max(0.0, float(parts[:2].sum()) - 2 * t), max(0.0, float(parts[:2].sum()) + 2 * t)
    low = (squares_low - values_high**2 / rows_low) / (rows_high - 1)
    high = (squares_high - values_low**2 / rows_high) / (rows_low - 1)
    return min(0.5, max(0.0, low)), min(0.5, max(0.0, high))


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of an answer: its group, its estimate, and what the noise allows to say."""

    group: tuple[str, ...] | None  # its cell in each column after by
    value: float
    noise_std: float | None
    interval: tuple[float, float] | None

    @property
    def key(self) -> str | tuple[str, ...]:
        """Its group, by itself if there is one column."""
        return self.group[0] if self.group is not None and len(self.group) == 1 else self.group or ""

    def __str__(self) -> str:
        about = f"{self.value:.6g}"
        if self.interval is not None:
            about += f"  [{self.interval[0]:.6g}, {self.interval[1]:.6g}]"
        if self.noise_std is not None:
            about += f"  noise std {self.noise_std:.4g}"
        return about


@dataclass(frozen=True, slots=True)
class Answer:
    """What came out, what it measures, what it protects, and which entries of the ledger paid for it.

    Attributes:
        question: the question in words.
        estimates: one, or one for each group.
        measures: what the numbers stand for, gaps and bins considered.
        protects: the unit and the promise; empty for an answer that was free.
        entries: numbers of the entries in the ledger.
        interval_note: what the intervals cover, or why there are none.
    """

    question: str
    estimates: tuple[Estimate, ...]
    measures: str
    protects: str
    entries: tuple[int, ...]
    interval_note: str

    @property
    def estimate(self) -> float | dict[str | tuple[str, ...], float]:
        """The number, or one for each group: `estimate["F"]`, with several columns `estimate["F", "north"]`."""
        if self.estimates[0].group is None:
            return self.estimates[0].value
        return {estimate.key: estimate.value for estimate in self.estimates}

    @property
    def noise_std(self) -> float | None:
        """The standard deviation of the noise on each estimate, when it is public and known in advance."""
        return self.estimates[0].noise_std

    @property
    def interval(self) -> tuple[float, float] | dict[str | tuple[str, ...], tuple[float, float]] | None:
        """The 95 % interval, or one for each group; None where none would be honest."""
        if any(estimate.interval is None for estimate in self.estimates):
            return None
        if self.estimates[0].group is None:
            return self.estimates[0].interval
        return {estimate.key: estimate.interval for estimate in self.estimates if estimate.interval is not None}

    def to_dict(self) -> dict[str, Any]:
        """Everything, for a machine."""
        return {
            "question": self.question,
            "estimates": [
                ({} if estimate.group is None else {"group": estimate.key})
                | {
                    "estimate": estimate.value,
                    "noise_std": estimate.noise_std,
                    "interval": None if estimate.interval is None else list(estimate.interval),
                }
                for estimate in self.estimates
            ],
            "measures": self.measures,
            "protects": self.protects,
            "entries": list(self.entries),
            "interval_note": self.interval_note,
        }

    @property
    def estimates_text(self) -> str:
        """The question and its estimates: one line, or one for each group."""
        if self.estimates[0].group is None:
            return f"{self.question} = {self.estimates[0]}"
        names = [", ".join(estimate.group or ()) for estimate in self.estimates]
        width = max(map(len, names))
        pairs = zip(names, self.estimates, strict=True)
        return "\n".join([self.question, *(f"  {name:<{width}}  {estimate}" for name, estimate in pairs)])

    @property
    def paid_by(self) -> str:
        """Which entries of the ledger paid for it; empty for an answer that was free."""
        if not self.protects:
            return ""
        numbers = ", ".join(map(str, self.entries))
        return f"Paid by {'entry' if len(self.entries) == 1 else 'entries'} {numbers} of the ledger."

    def __str__(self) -> str:
        return "\n".join(
            [self.estimates_text, *indented(self.measures, self.interval_note, self.protects, self.paid_by)]
        )


def indented(*notes: str) -> list[str]:
    """The lines of notes below what they are about: a note may have several, and an empty one has none."""
    return [f"  {line}" for note in notes for line in note.splitlines()]


def shared_notes(notes: Iterable[tuple[str, str]], answers: int) -> list[str]:
    """Each note once: as it is if all answers have it, else with the questions that it is about.

    Args:
        notes: each with the question of its answer.
        answers: how many there are.

    >>> shared_notes([("Free.", "count()"), ("No interval.", "median(age)"), ("Free.", "median(age)")], 2)
    ['Free.', 'median(age): No interval.']
    """
    questions: dict[str, list[str]] = {}
    for note, question in notes:
        questions.setdefault(note, []).append(question)
    return [note if len(asked) == answers else f"{listing(asked)}: {note}" for note, asked in questions.items()]
