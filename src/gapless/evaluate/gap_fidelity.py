"""How similar the gaps of two tables are: rates and patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapless.data import Table
from gapless.data.checks import given_weights, to_shared_bins
from gapless.types import Floats


@dataclass(frozen=True, slots=True)
class Pattern:
    """Columns that are missing together, and the share of rows in which exactly these are missing."""

    missing: tuple[str, ...]
    truth: float
    other: float


@dataclass(frozen=True, slots=True)
class GapFidelity:
    """The gaps of two tables.

    Attributes:
        truth, other: the share of gaps in each column.
        patterns: which columns are missing together, the most frequent pattern of the truth first.
        rate_error: the mean difference of the shares, over columns that may be missing.
        pattern_distance: the total variation distance of the distributions of all patterns.
        together_error: the mean difference of the shares of rows in which two such columns are both missing.
    """

    truth: dict[str, float]
    other: dict[str, float]
    patterns: tuple[Pattern, ...]
    rate_error: float
    pattern_distance: float
    together_error: float

    @property
    def kept(self) -> bool:
        """Whether the other table has any gaps; the gaps of a filled table are not scored."""
        return any(self.other.values())


def compare_gaps(truth: Table, other: Table, *, most: int = 12, weights: ArrayLike | None = None) -> GapFidelity:
    """Compare rates and patterns of gaps. The result lists `most` patterns; the distance is over all."""
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    schema = truth.schema
    may = [c for c, column in enumerate(schema.columns) if column.gaps]
    names = [schema.names[c] for c in may]
    gaps = [_gaps(truth, may), _gaps(other, may)]
    mass = [_mass(truth, None), _mass(other, checked)]
    rates = [m @ g for m, g in zip(mass, gaps, strict=True)]
    together = [(g * m[:, None]).T @ g for m, g in zip(mass, gaps, strict=True)]
    pairs = np.triu_indices(len(may), 1)
    patterns = _patterns(names, gaps, mass)
    return GapFidelity(
        dict(zip(names, rates[0].tolist(), strict=True)),
        dict(zip(names, rates[1].tolist(), strict=True)),
        patterns[:most],
        float(np.abs(rates[0] - rates[1]).mean()) if may else 0.0,
        sum(abs(pattern.truth - pattern.other) for pattern in patterns) / 2,
        float(np.abs(together[0] - together[1])[pairs].mean()) if len(may) > 1 else 0.0,
    )


def _gaps(table: Table, columns: Sequence[int]) -> NDArray[np.bool_]:
    missing = [table.codes[c] >= table.schema.columns[c].size for c in columns]
    return np.stack(missing, axis=1) if missing else np.zeros((table.rows, 0), dtype=np.bool_)


def _mass(table: Table, weights: Floats | None) -> Floats:
    mass = np.ones(table.rows) if weights is None else weights
    return mass / mass.sum() if len(mass) else mass


def _patterns(names: Sequence[str], gaps: Sequence[NDArray[np.bool_]], mass: Sequence[Floats]) -> tuple[Pattern, ...]:
    """Return every pattern that occurs in either table. Patterns are packed into bytes to compare them."""
    stacked = np.concatenate(gaps)
    if not stacked.size:
        return ()
    packed = np.packbits(stacked, axis=1)
    _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    place, split = place.ravel(), len(gaps[0])
    truth = np.bincount(place[:split], weights=mass[0], minlength=len(first))
    other = np.bincount(place[split:], weights=mass[1], minlength=len(first))
    order = np.lexsort((-other, -truth))
    return tuple(
        Pattern(
            tuple(name for name, gap in zip(names, stacked[first[i]], strict=True) if gap),
            float(truth[i]),
            float(other[i]),
        )
        for i in order
    )
