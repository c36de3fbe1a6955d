"""Gaps filled by chance: a map of each row by itself, from the row's own cells and its own random numbers.

Every row has its own place in each vector of numbers that `Chance` gives. For fixed numbers the maps below are
functions of one row, so neighbouring tables stay neighbours (docs/proofs/stability.md). The numbers must be independent
and never be replayed for another table: a fresh seed from the operating system each time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.schema import Schema
from gapless.types import Codes

Chance: TypeAlias = Callable[[], NDArray[np.float64]]  # a fresh number from [0, 1) for every row, at each call


@runtime_checkable
class Filler(Protocol):
    """What fills gaps given the other cells of a row: a fitted model, made of released or public values alone."""

    @property
    def schema(self) -> Schema:
        """Of the rows it fills."""
        ...

    @property
    def private(self) -> bool:
        """Whether anything was promised for it: not if the noise was that of a test."""
        ...

    @property
    def filled(self) -> object:
        """The distribution that it draws from."""
        ...

    def remade(self) -> Filler:
        """The same, made anew of plain numbers and text."""
        ...

    def fill(self, given: NDArray[np.int64], chance: Chance) -> NDArray[np.integer]:
        """Rows × columns of codes, those that are -1 drawn: a map of each row and its own draws."""
        ...


class ColumnFiller(Protocol):
    """What fills the gaps of one column: its law given other columns, made of released or public values alone."""

    @property
    def given(self) -> tuple[int, ...]:
        """The cells of each of the others."""
        ...

    @property
    def cells(self) -> int:
        """The cells of the column."""
        ...

    def remade(self) -> ColumnFiller:
        """The same, made anew of plain numbers; a law whose numbers are too few, or not finite, is refused."""
        ...

    def draw(self, others: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """A cell for each row, from rows × others: a map of each row and its own draw."""
        ...


def secret_chance(rows: int) -> Chance:
    """Numbers that nobody knows.

    Each call has a stream of its own, so that the first n rows get the same numbers whether or not more rows follow.
    """
    seed, calls = secrets.randbits(128), count()
    return lambda: np.random.default_rng([seed, next(calls)]).random(rows)


def fill_gaps(columns: Sequence[Codes], laws: Sequence[NDArray[np.float64]], chance: Chance) -> tuple[Codes, ...]:
    """The columns with every code beyond a column's law replaced by a draw from it."""
    filled = []
    for codes, law in zip(columns, laws, strict=True):
        steps = np.cumsum(law)
        marks = np.minimum(chance() * steps[-1], np.nextafter(steps[-1], 0))  # below the last step after rounding
        drawn = np.searchsorted(steps, marks, side="right")
        filled.append(np.where(codes < len(law), codes, drawn).astype(codes.dtype))
    return tuple(filled)


def draw_inside(bins: Codes, of_cells: NDArray[np.int64], chance: Chance) -> NDArray[np.int64]:
    """One of the cells of each of these bins, all with the same chance; `of_cells` is the bin of each cell, rising."""
    many = np.bincount(of_cells)
    first = np.cumsum(many) - many
    return first[bins] + np.floor(chance() * many[bins]).astype(np.int64)


def fill_given(columns: Sequence[Codes], model: Filler, chance: Chance) -> tuple[Codes, ...]:
    """The columns with every gap drawn from the model given the other cells of its row; observed cells stay."""
    sizes = [column.size for column in model.schema.columns]
    given = np.stack([np.where(codes < n, codes.astype(np.int64), -1) for codes, n in zip(columns, sizes, strict=True)])
    drawn = model.fill(given.T, chance)
    return tuple(
        np.where(codes < n, codes, new).astype(codes.dtype)
        for codes, n, new in zip(columns, sizes, drawn.T, strict=True)
    )
