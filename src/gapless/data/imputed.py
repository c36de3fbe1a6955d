r"""Sums over a table whose gaps are filled from the nearest rows, and how far one row can move them.

.. math:: q(D) = \sum_{\text{donors}} f(y) + \sum_{\text{donees}} \bar f(x, \mathrm{don}(x)), \qquad
          S(D) = \max(|a|, |b|) + L_1(D)\,(b - a)\,/\,m

f lies in [a, b]; m is k for the scheme "mean" and 1 otherwise. Everything is counted in whole steps of a public grid,
so sums and bounds are exact. Proved in docs/proofs/neighbours.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.data.neighbors import Links, Matching
from gapless.errors import SchemaError
from gapless.privacy.smooth import SmoothValue
from gapless.schema import Schema
from gapless.types import Codes, Integers

Contribution: TypeAlias = Callable[[Mapping[str, Codes]], NDArray[np.float64]]

_STEPS = 24  # bits of a contribution
_BLOCK = 2**22  # votes counted at a time


@dataclass(frozen=True, slots=True)
class Bounds:
    """The public bounds of a row's contribution, in whole steps of a grid that is a power of two."""

    low: int
    high: int
    step: Fraction

    @classmethod
    def of(cls, low: float, high: float) -> Bounds:
        """The grid has about 2^24 steps up to the larger bound."""
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise SchemaError(f"contributions between {low} and {high}", hint="low below high, both finite")
        step = Fraction(2) ** (math.frexp(max(abs(low), abs(high)))[1] - _STEPS)
        return cls(round(Fraction(low) / step), round(Fraction(high) / step), step)

    @property
    def own(self) -> Fraction:
        """How far a row's own contribution can move the sum."""
        return max(abs(self.low), abs(self.high)) * self.step

    def of_donee(self, matching: Matching) -> Fraction:
        """How far one donee can move the sum when one of its donors changes."""
        return (self.high - self.low) * self.step / (matching.neighbors if matching.scheme == "mean" else 1)

    def least(self, matching: Matching) -> Fraction:
        """The least bound there can be, as L₁ ≥ 1."""
        return self.own + self.of_donee(matching)

    def whole(self, values: NDArray[np.float64]) -> Integers:
        """Contributions in whole steps; what is no number counts as 0, what is outside as the nearer bound."""
        step = float(self.step)
        inside = np.clip(np.nan_to_num(values, nan=0.0), self.low * step, self.high * step)
        return np.rint(inside / step).astype(np.int64)

    @property
    def nothing(self) -> int:
        """What a donee contributes in place of a donor that is not there: 0, or the nearer bound."""
        return min(max(0, self.low), self.high)


def imputed_sum(
    columns: Mapping[str, Codes],
    links: Links,
    moved: int,
    value: Contribution,
    *,
    schema: Schema,
    targets: Sequence[str],
    matching: Matching,
    bounds: Bounds,
) -> SmoothValue:
    """The sum of all contributions, and its smooth bound when one row can move `moved` donees."""
    donors, donees = links.donors, links.donees
    own = {name: codes[donees] for name, codes in columns.items()}
    sizes = {name: schema[name].size for name in targets}
    rows = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    rows[donees] = False
    total = int(bounds.whole(value({name: codes[rows] for name, codes in columns.items()})).sum())

    def filled(cells: Mapping[str, Codes], served: NDArray[np.bool_]) -> int:
        """The donees' sum when their gaps take these cells; those without a donor contribute nothing."""
        whole = {name: np.where(own[name] < sizes[name], own[name], cells[name]) for name in targets}
        contributions = bounds.whole(value(own | whole))
        return int(np.where(served, contributions, bounds.nothing).sum())

    def cells_of(slot: int) -> dict[str, Codes]:
        given = np.maximum(donors[:, slot], 0)
        return {name: np.minimum(columns[name][given], sizes[name] - 1) for name in targets}

    if not donees.size:
        share = Fraction(0)
    elif matching.scheme == "majority":
        (name,) = targets
        given = np.stack([cells_of(slot)[name] for slot in range(donors.shape[1])], axis=1)
        cells = _most_frequent(given, donors >= 0, sizes[name])
        share = Fraction(filled({name: cells}, donors[:, 0] >= 0))
    else:
        slots = range(donors.shape[1])
        share = Fraction(sum(filled(cells_of(slot), donors[:, slot] >= 0) for slot in slots), donors.shape[1])
    return SmoothValue((total + share) * bounds.step, bounds.own + moved * bounds.of_donee(matching))


def _most_frequent(cells: Codes, counted: NDArray[np.bool_], size: int) -> Codes:
    """The most frequent cell of each row, the first of several; a block of rows at a time."""
    most = np.empty(len(cells), dtype=cells.dtype)
    step = max(1, _BLOCK // size)
    for first in range(0, len(cells), step):
        block = cells[first : first + step].astype(np.int64)
        flat = block + np.arange(len(block))[:, None] * size
        votes = np.bincount(flat[counted[first : first + step]], minlength=len(block) * size)
        most[first : first + step] = votes.reshape(len(block), size).argmax(axis=1)
    return most
