"""Which cells are missing together: for the holder's eyes, or for public tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gapless.arguments import whole
from gapless.data import Table
from gapless.data.checks import check_public
from gapless.errors import SchemaError
from gapless.text import plural


@dataclass(frozen=True, slots=True)
class Pair:
    """How often two columns are missing together, and whether more often than chance would have it.

    Attributes:
        one: a column.
        other: another.
        both: the share of rows in which both are missing.
        association: the correlation of the two missing states, from -1 (never together) to 1 (always together).
    """

    one: str
    other: str
    both: float
    association: float


@dataclass(frozen=True, slots=True)
class Patterns:
    """How often each column is missing, and which columns are missing together. Exact: NOT for release."""

    columns: tuple[str, ...]
    rows: int
    rates: dict[str, float]
    frequent: tuple[tuple[tuple[str, ...], int], ...]  # columns missing together, number of rows
    different: int
    complete: int  # rows without any gap
    pairs: tuple[Pair, ...]  # every two columns that have gaps

    def __str__(self) -> str:
        return (
            f"{plural(self.rows, 'row')}, {self.complete:,} of them complete (■ observed, · missing):\n{self.picture()}"
        )

    def picture(self) -> str:
        """A text picture: one line for each frequent pattern, ■ observed, · missing."""
        gappy = [name for name in self.columns if self.rates[name] > 0]
        if not gappy:
            return "  no gaps at all"
        lines = [f"  {'rows':>9}  {'share':>6}  " + " ".join(f"{i:>2}" for i in range(1, len(gappy) + 1))]
        for missing, count in self.frequent:
            marks = " ".join(" ·" if name in missing else " ■" for name in gappy)
            lines.append(f"  {count:>9}  {100 * count / max(1, self.rows):>5.1f}%  {marks}")
        if self.different > len(self.frequent):
            lines.append(f"  … and {plural(self.different - len(self.frequent), 'rarer pattern')}")
        lines.append("  columns: " + ", ".join(f"{i} {name}" for i, name in enumerate(gappy, 1)))
        return "\n".join(lines)


def patterns(table: Table, *, most: int = 12) -> Patterns:
    """Describe the gaps of a table that you are allowed to look at."""
    check_public(table, "patterns() looks at", private="`gapless check` shows its gaps to the holder")
    most = whole("most", most, error=SchemaError, least=1)
    gaps = [codes >= column.size for codes, column in zip(table.codes, table.schema.columns, strict=True)]
    return patterns_of(table.schema.names, gaps, table.rows, most=most)


def patterns_of(names: tuple[str, ...], gaps: Sequence[NDArray[np.bool_]], rows: int, *, most: int = 12) -> Patterns:
    """The same from one flag for each cell."""
    rates = {name: float(gap.mean()) if rows else 0.0 for name, gap in zip(names, gaps, strict=True)}
    different, counts = _distinct(gaps, rows)
    order = np.argsort(-counts, kind="stable")[:most]
    frequent = tuple(
        (tuple(name for name, gap in zip(names, different[i], strict=True) if gap), int(counts[i])) for i in order
    )
    complete = int(counts[~different.any(axis=1)].sum())
    return Patterns(names, rows, rates, frequent, len(counts), complete, tuple(_pairs(names, different, counts)))


def _pairs(names: tuple[str, ...], different: NDArray[np.bool_], counts: NDArray[np.int64]) -> Iterator[Pair]:
    """Co-missingness, from the different patterns and their counts."""
    rows = max(1, int(counts.sum()))
    marks = different.astype(np.float64)
    both = marks.T @ (marks * counts[:, None]) / rows
    rate = np.diag(both)
    spread = np.sqrt(np.outer(rate * (1 - rate), rate * (1 - rate)))
    extra = both - np.outer(rate, rate)
    association = np.divide(extra, spread, out=np.zeros_like(both), where=spread > 0)
    for i, j in combinations(np.flatnonzero(rate > 0).tolist(), 2):
        yield Pair(names[i], names[j], float(both[i, j]), float(np.clip(association[i, j], -1, 1)))


def _distinct(gaps: Sequence[NDArray[np.bool_]], rows: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The different patterns and how many rows have each; a pattern is packed into bytes to be compared."""
    if rows == 0:
        return np.zeros((0, len(gaps)), dtype=np.bool_), np.zeros(0, dtype=np.int64)
    packed = np.packbits(np.stack(gaps, axis=1), axis=1)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return np.stack([gap[first] for gap in gaps], axis=1), counts
