"""Pooled estimates and their text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gapless.errors import ModelError
from gapless.text import listing, two_way

FREE = "Computed from released values: nothing was spent."
NOISE_LEGEND = "× by noise: how many times as wide noise makes an interval, compared with sampling alone."
GAPS_LEGEND = "× by gaps: how many times as wide gaps make it, on top of that."


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledEstimate:
    """An estimate and its 95 % interval for the population.

    Attributes:
        name: of the group or the coefficient; "" for a single estimate.
        value: the estimate.
        interval: the 95 % interval; None if the release does not support one.
        noise_factor: how much wider the interval is than without noise.
        gap_factor: how much wider it is again because of gaps.
        unsupported: why there is no interval, and what to measure for one; else empty.
    """

    name: str
    value: float
    interval: tuple[float, float] | None
    noise_factor: float
    gap_factor: float
    unsupported: str = ""

    def known(self, factor: float) -> float | None:
        """Return a factor if there is an interval and the factor is finite, else None."""
        return factor if self.interval and np.isfinite(factor) else None

    def __str__(self) -> str:
        if self.interval is None:
            return "no estimate" if np.isnan(self.value) else f"({self.value:.6g})  no interval"
        low, high = self.interval
        noise = f"  × {self.noise_factor:.2f} by noise" if self.shows_noise else ""
        gaps = f", × {self.gap_factor:.2f} by gaps" if self.shows_gaps else ""
        return f"{self.value:.6g}  [{low:.6g}, {high:.6g}]{noise}{gaps}"

    @property
    def shows_noise(self) -> bool:
        """Whether the text has the factor of noise."""
        return self.known(self.noise_factor) is not None

    @property
    def shows_gaps(self) -> bool:
        """Whether the text has the factor of gaps."""
        return self.shows_noise and 1 < self.gap_factor < np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Estimates pooled from several copies.

    Attributes:
        question: as text.
        estimates: one, or several by name.
        copies: the number of pooled tables; 0 if the estimates follow from released counts in closed form.
        notes: what the intervals do not cover.
        levels: of the rows and the columns of a cross table of two columns, whose cells the estimates are; else None.
    """

    question: str
    estimates: tuple[PooledEstimate, ...]
    copies: int
    notes: tuple[str, ...]
    levels: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def __getitem__(self, name: str) -> PooledEstimate:
        for pooled in self.estimates:
            if pooled.name == name:
                return pooled
        if len(self.estimates) == 1:
            raise ModelError(f"there is no estimate {name!r}", hint="read the only estimate as pooled.estimates[0]")
        known = listing(repr(estimate.name) for estimate in self.estimates)
        raise ModelError(f"there is no estimate {name!r}", hint=f"use one of: {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "question": self.question,
            "estimates": [
                {
                    "name": estimate.name,
                    "estimate": None if np.isnan(estimate.value) else estimate.value,
                    "interval": None if estimate.interval is None else list(estimate.interval),
                    "noise_factor": estimate.known(estimate.noise_factor),
                    "gap_factor": estimate.known(estimate.gap_factor),
                    "unsupported": estimate.unsupported,
                }
                for estimate in self.estimates
            ],
            "copies": self.copies,
            "notes": list(self.notes) if any(estimate.interval for estimate in self.estimates) else [],
        }

    def __str__(self) -> str:
        return "\n".join([*self.answers, *(f"  {note}" for note in self.remarks())])

    @property
    def answers(self) -> list[str]:
        """A line for each estimate, or for each row of a cross table."""
        if self.levels is not None and (lines := two_way(*self.levels, [str(cell) for cell in self.estimates])):
            return [self.question, *lines]
        if len(self.estimates) == 1 and not self.estimates[0].name:
            return [f"{self.question} = {self.estimates[0]}"]
        width = max(len(estimate.name) for estimate in self.estimates)
        return [self.question, *(f"  {estimate.name:<{width}}  {estimate}" for estimate in self.estimates)]

    def remarks(self, form: Callable[[str], str] = str) -> tuple[str, ...]:
        """Return the reasons for missing intervals, each once, a legend, and what the other intervals do not cover.

        Args:
            form: how to write a reason, which may be a `Hint` that names arguments; by default as in Python.
        """
        reasons: dict[str, list[str]] = {}
        for pooled in self.estimates:
            if pooled.unsupported:
                reasons.setdefault(pooled.unsupported, []).append(pooled.name)
        of_all = len(reasons) == 1 and all(estimate.unsupported for estimate in self.estimates)
        why = [form(why) if of_all else f"{listing(names)}: {form(why)}" for why, names in reasons.items()]
        shown = {
            NOISE_LEGEND: any(estimate.shows_noise for estimate in self.estimates),
            GAPS_LEGEND: any(estimate.shows_gaps for estimate in self.estimates),
        }
        legend = [line for line, is_shown in shown.items() if is_shown]
        return (*why, *legend, *(self.notes if any(estimate.interval for estimate in self.estimates) else ()))
