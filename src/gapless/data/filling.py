"""Gaps filled by chance: a map of each row by itself, from the row's own cells and its own random numbers.

Every row has its own place in each vector of numbers that `Chance` gives. For fixed numbers the maps below are
functions of one row, so neighbouring tables stay neighbours (docs/proofs/stability.md). The numbers must be independent
and never be replayed for another table: a fresh seed from the operating system each time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Call, Hint, ModelError, SchemaError
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.text import plural
from gapless.types import Codes, Integers, all_trusted, is_trusted

Chance: TypeAlias = Callable[[], NDArray[np.float64]]  # a fresh number from [0, 1) for every row, at each call


@runtime_checkable
class Filler(Protocol):
    """What fills gaps given the other cells of a row: a fitted model, made of released or public values alone."""

    @property
    def schema(self) -> Schema:
        """Of the rows it fills."""

    @property
    def private(self) -> bool:
        """Whether anything was promised for it: not if the noise was that of a test."""

    @property
    def filled(self) -> object:
        """The distribution that it draws from."""

    def sanitized(self) -> Filler:
        """The same, made anew of plain numbers and text."""

    def fill(self, given: NDArray[np.int64], chance: Chance) -> NDArray[np.integer]:
        """Rows × columns of codes, those that are -1 drawn: a map of each row and its own draws."""


class ColumnFiller(Protocol):
    """What fills the gaps of one column: its law given other columns, made of released or public values alone."""

    @property
    def given(self) -> tuple[int, ...]:
        """The cells of each of the others."""

    @property
    def cells(self) -> int:
        """The cells of the column."""

    def sanitized(self) -> ColumnFiller:
        """The same, made anew of plain numbers; a law whose numbers are too few, or not finite, is refused."""

    def draw(self, others: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """A cell for each row, from rows × others: a map of each row and its own draw."""


def check_distributions(schema: Schema, distributions: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """A distribution over the observed cells of each column, as plain arrays that nobody else holds."""
    distributions = [np.array(distribution, dtype=np.float64) for distribution in distributions]
    for column, distribution in zip(schema.columns, distributions, strict=True):
        fits = distribution.shape == (column.size,) and (distribution >= 0).all() and 0 < distribution.sum() < np.inf
        if not fits:
            raise SchemaError(
                f"column {column.name!r} has {plural(column.size, 'observed cell')}, and its distribution does not fit",
                hint="pass a probability for each cell",
            )
    return distributions


def trusted_model(model: Filler) -> Filler:
    """A model of this library, made anew: foreign code among its parts would see every row."""
    if not (is_trusted(model) and is_trusted(model.filled)):
        raise ModelError(
            "this model was neither fitted nor loaded here, and would see every row",
            hint=Hint("use ", Call("FromModel", Call("MST")))
            | Hint("use ", Call("FromModel", Call("load", "people.model"))),
        )
    return type(model).sanitized(model)


def trusted_column(filler: ColumnFiller, schema: Schema, place: int, others: Sequence[int]) -> ColumnFiller:
    """A column's distribution of this library, made anew, for the column at `place` given those at `others`."""
    if not all_trusted(filler):
        raise ModelError(
            "this distribution is not of this library, and would see every row",
            hint="pass a distribution that this library trained",
        )
    filler = filler.sanitized()  # nothing that was put into it by hand is handed rows
    column, given = schema.columns[place], [schema.columns[other] for other in others]
    if filler.given != tuple(other.size for other in given) or filler.cells != column.size:
        names = ", ".join(repr(other.name) for other in given)
        raise ModelError(
            f"this distribution of column {column.name!r} has other cells, or is given others than {names}",
            hint="pass the columns that it was trained with",
        )
    return filler


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


def bin_of_cell(schema: Schema) -> dict[int, Integers]:
    """The bin of each cell, for the columns (by position) whose cells are finer than their bins."""
    pairs = zip(schema.finest.columns, schema.columns, strict=True)
    return {
        place: fine.regroup(binned)
        for place, (fine, binned) in enumerate(pairs)
        if isinstance(fine, BinnedColumn) and isinstance(binned, BinnedColumn) and fine.size > binned.size
    }


def draw_within_bins(bins: Codes, of_cells: NDArray[np.int64], chance: Chance) -> NDArray[np.int64]:
    """One of the cells of each of these bins, all with the same chance; `of_cells` is the bin of each cell, rising."""
    many = np.bincount(of_cells)
    first = np.cumsum(many) - many
    return first[bins] + np.floor(chance() * many[bins]).astype(np.int64)


def fill_cells(
    cells: Sequence[Codes],
    drawn: Sequence[Codes],
    finer: Mapping[int, tuple[int, NDArray[np.int64]]],
    chance: Chance,
) -> tuple[Codes, ...]:
    """The columns by their cells, where gaps were filled with bins: an observed cell stays, a gap gets one of its bin.

    `finer` has, for each column whose cells are finer than its bins, the number of cells and the bin of every code. The
    new codes are as wide as those that were read.
    """
    columns = list(drawn)
    for place, (size, bins) in finer.items():
        codes = cells[place]
        columns[place] = np.where(codes < size, codes, draw_within_bins(drawn[place], bins[:size], chance)).astype(
            codes.dtype
        )
    return tuple(columns)


def fill_column(
    columns: Sequence[Codes], filler: ColumnFiller, place: int, others: Sequence[int], chance: Chance
) -> tuple[Codes, ...]:
    """The columns with every gap at `place` drawn given the cells at `others`."""
    codes, draws = columns[place], chance()
    gaps = np.flatnonzero(codes >= filler.cells)
    given = np.array([columns[other][gaps] for other in others], dtype=np.int64)
    filled = codes.copy()
    filled[gaps] = filler.draw(given.reshape(len(others), len(gaps)).T, draws[gaps])
    return (*columns[:place], filled, *columns[place + 1 :])


def fill_given(columns: Sequence[Codes], model: Filler, chance: Chance) -> tuple[Codes, ...]:
    """The columns with every gap drawn from the model given the other cells of its row; observed cells stay."""
    sizes = [column.size for column in model.schema.columns]
    given = np.stack([np.where(codes < n, codes.astype(np.int64), -1) for codes, n in zip(columns, sizes, strict=True)])
    drawn = model.fill(given.T, chance)
    return tuple(
        np.where(codes < n, codes, new).astype(codes.dtype)
        for codes, n, new in zip(columns, sizes, drawn.T, strict=True)
    )
