r"""Answers and their confidence intervals over the noise.

A released vector is the true vector plus noise with a known distribution. An interval contains the true values that are
consistent with the noise. With probability 95 % over the noise it contains the answer without noise. It covers neither
sampling error nor the effect of gaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.text import listing, two_way
from gapless.types import Floats

ALPHA = 0.05  # the probability that an interval misses the answer without noise
RATIO_GRID = 2001  # ratios between which limits are interpolated
MAX_SUMMED_SCALE = 1000.0  # of discrete normal noise: beyond, its tail is bounded instead of summed


@dataclass(frozen=True, slots=True)
class Noise:
    """The distribution of independent noise on each number of a vector, in rows: Laplace or normal.

    Discrete noise on a grid is within one step of continuous noise (a geometric variable is an exponential one rounded
    down). A limit on two noises at once adds this step.
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

    def of_sum(self, weights: tuple[float, ...]) -> Noise:
        """The noise of a weighted sum of several such numbers; only for normal noise."""
        if weights == (1.0,):
            return self
        return replace(self, scale=self.scale * math.hypot(*weights), step=self.step * sum(weights))

    @property
    def std(self) -> float:
        """The standard deviation, in rows."""
        if self.laplace:
            return self.step * DiscreteLaplace(self.scale / self.step).noise_std
        return self.scale

    def limit(self, alpha: float = ALPHA) -> float:
        """A limit that the absolute noise exceeds with probability at most `alpha`."""
        return self.step * _steps(self.laplace, self.scale / self.step, alpha)

    def limit_of_difference(self) -> float:
        """A limit that the absolute difference of two such noises exceeds with probability at most 5 %."""
        return self.scale * _limit(self.laplace, 1.0, 1.0, ALPHA) + self.step


@lru_cache(maxsize=8192)
def _steps(laplace: bool, scale: float, alpha: float) -> int:  # noqa: FBT001 one of two distributions
    r"""The least whole t with Pr[|Z| > t] ≤ alpha for discrete noise Z.

    Laplace: :math:`\Pr[|Z| > t] = 2 q^{t+1} / (1 + q)`, :math:`q = e^{-1/s}`. Normal: the sum of
    the probabilities. For large scales from Pr[Z > t] ≤ Pr[N(0, σ²) ≥ t] (Canonne, Kamath and Steinke 2020,
    Proposition 23).
    """
    if laplace:
        q = math.exp(-1 / scale)
        return max(0, math.ceil(-scale * math.log(alpha * (1 + q) / 2)) - 1)
    if scale > MAX_SUMMED_SCALE:
        return math.ceil(scale * _limit(laplace, 1.0, 0.0, alpha))
    weights = np.exp(-((np.arange(40 * math.ceil(scale) + 1) / scale) ** 2) / 2)
    beyond = 2 * np.append(np.cumsum(weights[::-1])[::-1][1:], 0) / (2 * weights.sum() - 1)
    return int(np.flatnonzero(beyond <= alpha)[0])


@lru_cache(maxsize=2)
def _ratio_limits(laplace: bool) -> tuple[Floats, Floats]:  # noqa: FBT001 one of two distributions
    """Ratios r on a grid, and the limit that |(1 − r) Z − r Z′| exceeds with probability 5 %. It is convex in r."""
    ratios = np.linspace(0, 1, RATIO_GRID)
    return ratios, np.array([_limit(laplace, float(1 - r), float(r), ALPHA) for r in ratios])


@lru_cache(maxsize=8192)
def _limit(laplace: bool, weight: float, other: float, alpha: float) -> float:  # noqa: FBT001 one of two distributions
    r"""The t with Pr[|w Z + o Z′| > t] = alpha for independent standard Laplace or normal Z, Z′.

    Laplace with scales w > o: :math:`(w^2 e^{-t/w} - o^2 e^{-t/o}) / (w^2 - o^2)`.
    """
    if not laplace:
        from scipy.special import ndtri  # noqa: PLC0415 slow to load

        return float(-ndtri(alpha / 2)) * math.hypot(weight, other)
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
        low, high = (middle, high) if beyond(middle) > alpha else (low, middle)
    return high


def ratio_interval(part: float, rest: float, noise: Noise) -> tuple[float, float]:
    r"""The ratios r for which (1 − r) · part − r · rest is within the limit of its noise (Fieller 1954).

    At the true ratio this difference is noise only. So the set of all such r contains the true ratio with probability
    95 %, for any number of rows. Negative parts are first set to 0. This moves the difference at the true ratio towards
    0, and the ratio of the parts is then always in the set. The ends are found by bisection from there. The limit is
    convex in r, so there is one end on either side, and linear interpolation of the limit is never too low.
    """
    part, rest = max(0.0, part), max(0.0, rest)
    if part + rest == 0:
        return 0.0, 1.0
    ratios, limits = _ratio_limits(noise.laplace)

    def is_consistent(r: float) -> bool:
        limit = noise.scale * float(np.interp(r, ratios, limits)) + noise.step
        return abs((1 - r) * part - r * rest) <= limit

    def end(outer: float) -> float:
        if is_consistent(outer):
            return outer
        inner = part / (part + rest)
        for _ in range(60):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if is_consistent(middle) else (inner, middle)
        return outer

    return end(0.0), end(1.0)


def variance_interval(parts: Floats, noise: Noise) -> tuple[float, float]:
    """A conservative interval from limits on all three noises, each exceeded with probability 5 % / 3."""
    t = noise.limit(ALPHA / 3)
    rows_low, rows_high = max(2.0, float(parts.sum()) - 3 * t), max(2.0, float(parts.sum()) + 3 * t)
    squares_low, squares_high = max(0.0, float(parts[0]) - t), max(0.0, float(parts[0]) + t)
    values_low, values_high = max(0.0, float(parts[:2].sum()) - 2 * t), max(0.0, float(parts[:2].sum()) + 2 * t)
    low = (squares_low - values_high**2 / rows_low) / (rows_high - 1)
    high = (squares_high - values_low**2 / rows_high) / (rows_low - 1)
    return min(0.5, max(0.0, low)), min(0.5, max(0.0, high))


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of an answer, with its group, noise and interval."""

    group: tuple[str, ...] | None  # its cell in each column after by
    value: float
    noise_std: float | None
    interval: tuple[float, float] | None

    @property
    def key(self) -> str | tuple[str, ...]:
        """The group: a text for one column, a tuple for several."""
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
    """The answer to a question.

    Attributes:
        question: the question as text.
        estimates: one estimate, or one for each group.
        measures: what the numbers measure, with regard to gaps and bins.
        protects: the protected unit and the guarantee. Empty for a free answer.
        entries: the numbers of the ledger entries that paid for it.
        interval_note: what the intervals cover, or why there are none.
        levels: of the rows and the columns of a cross table of two columns; else None.
    """

    question: str
    estimates: tuple[Estimate, ...]
    measures: str
    protects: str
    entries: tuple[int, ...]
    interval_note: str
    levels: tuple[tuple[str, ...], tuple[str, ...]] | None = None

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
        """The 95 % interval, or one for each group. None where none is known."""
        if any(estimate.interval is None for estimate in self.estimates):
            return None
        if self.estimates[0].group is None:
            return self.estimates[0].interval
        return {estimate.key: estimate.interval for estimate in self.estimates if estimate.interval is not None}

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
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
        """The question and its estimates: one line, one for each group, or one for each row of a cross table."""
        if self.levels is not None and (lines := two_way(*self.levels, list(map(str, self.estimates)))):
            return "\n".join([self.question, *lines])
        if self.estimates[0].group is None:
            return f"{self.question} = {self.estimates[0]}"
        names = [", ".join(estimate.group or ()) for estimate in self.estimates]
        width = max(map(len, names))
        pairs = zip(names, self.estimates, strict=True)
        return "\n".join([self.question, *(f"  {name:<{width}}  {estimate}" for name, estimate in pairs)])

    @property
    def paid_by(self) -> str:
        """A sentence with the ledger entries that paid for it. Empty for a free answer."""
        if not self.protects:
            return ""
        numbers = ", ".join(map(str, self.entries))
        return f"Paid by {'entry' if len(self.entries) == 1 else 'entries'} {numbers} of the ledger."

    def __str__(self) -> str:
        return "\n".join(
            [self.estimates_text, *indented(self.measures, self.interval_note, self.protects, self.paid_by)]
        )


def indented(*notes: str) -> list[str]:
    """The lines of all notes, indented."""
    return [f"  {line}" for note in notes for line in note.splitlines()]


def shared_notes(notes: Iterable[tuple[str, str]], answers: int) -> list[str]:
    """Each note once: unchanged if all answers have it, else with its questions.

    Args:
        notes: pairs of a note and the question of its answer.
        answers: the number of answers.

    >>> shared_notes([("Free.", "count()"), ("No interval.", "median(age)"), ("Free.", "median(age)")], 2)
    ['Free.', 'median(age): No interval.']
    """
    questions: dict[str, list[str]] = {}
    for note, question in notes:
        questions.setdefault(note, []).append(question)
    return [note if len(asked) == answers else f"{listing(asked)}: {note}" for note, asked in questions.items()]
