"""Random imputation of gaps: each row is mapped by itself, from its cells and separate random numbers.

Each row has one number in each vector that `RowRandomness` returns. For fixed numbers the maps below are functions of
one row, so neighbouring tables stay neighbours (docs/proofs/stability.md). The numbers must be independent and never be
used for another table: each table takes a fresh seed from the operating system.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Argument, Call, Hint, ModelError, SchemaError, Variable
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Codes, Integers, all_trusted, is_trusted

RowRandomness: TypeAlias = Callable[[], NDArray[np.float64]]  # a fresh number from [0, 1) for every row, at each call


@runtime_checkable
class Filler(Protocol):
    """A fitted model that fills gaps given the other cells of a row; it consists of released or public values only."""

    @property
    def schema(self) -> Schema:
        """The schema of the rows that it fills."""

    @property
    def private(self) -> bool:
        """Whether it was fitted with real noise, not with the noise of a test."""

    @property
    def filled(self) -> object:
        """The distribution that it draws from."""

    def sanitized(self) -> Filler:
        """A copy rebuilt from plain numbers and text."""

    def fill(self, given: NDArray[np.int64], row_randomness: RowRandomness) -> NDArray[np.integer]:
        """Rows × columns of codes in which each -1 is replaced by a draw: a map of each row and its draws."""


class ColumnFiller(Protocol):
    """The distribution that fills one column given others; it consists of released or public values only."""

    @property
    def given(self) -> tuple[int, ...]:
        """The number of cells of each of the other columns."""

    @property
    def cells(self) -> int:
        """The number of cells of the column."""

    def sanitized(self) -> ColumnFiller:
        """A copy rebuilt from plain numbers; numbers that are too few, or not finite, are refused."""

    def draw(self, others: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
        """A cell for each row, from rows × others: a map of each row and its draw."""


def check_distributions(schema: Schema, distributions: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Copies of the distributions over the observed cells of each column, checked; no caller can change them."""
    distributions = [np.array(distribution, dtype=np.float64) for distribution in distributions]
    for column, distribution in zip(schema.columns, distributions, strict=True):
        fits = distribution.shape == (column.size,) and (distribution >= 0).all() and 0 < distribution.sum() < np.inf
        if not fits:
            raise SchemaError(
                f"the distribution of column {column.name!r} must have shape ({column.size},), no negative number "
                f"and a positive, finite sum, got shape {distribution.shape}",
                hint="pass a probability for each cell of the column",
            )
    return distributions


def trusted_model(model: Filler) -> Filler:
    """A copy of a model of this library, without foreign objects: foreign code would see every row."""
    if not (is_trusted(model) and isinstance(model, Filler) and is_trusted(model.filled)):
        raise ModelError(
            f"gaps are filled by a model that gapless fitted or loaded, not by a {type(model).__name__}; "
            "other code must not see private rows",
            hint=Hint("pass ", Call("gapless.load", "people.model"))
            | Hint("pass the result of ", Call("MST().fit", Variable("people"), Argument("spend", "50%"))),
        )
    return type(model).sanitized(model)


def trusted_column(filler: ColumnFiller, schema: Schema, place: int, others: Sequence[int]) -> ColumnFiller:
    """A copy of a distribution of this library, for the column at `place` given those at `others`."""
    if not all_trusted(filler):
        raise ModelError(
            f"gaps are filled from a distribution that gapless trained, not from a {type(filler).__name__}; "
            "other code must not see private rows",
            hint="pass a distribution that gapless trained",
        )
    filler = filler.sanitized()  # so that no object that was put into it receives rows
    column, given = schema.columns[place], [schema.columns[other] for other in others]
    if filler.given != tuple(other.size for other in given) or filler.cells != column.size:
        names = ", ".join(repr(other.name) for other in given)
        raise ModelError(
            f"this distribution was trained for other columns or cells than {column.name!r} given {names}",
            hint="pass the columns that the distribution was trained with",
        )
    return filler


def secret_row_randomness(rows: int) -> RowRandomness:
    """Secret random numbers.

    Each call has a separate stream, so that the first n rows get the same numbers whether or not more rows follow.
    """
    seed, calls = secrets.randbits(128), count()
    return lambda: np.random.default_rng([seed, next(calls)]).random(rows)


def fill_gaps(
    columns: Sequence[Codes], distributions: Sequence[NDArray[np.float64]], row_randomness: RowRandomness
) -> tuple[Codes, ...]:
    """The columns with every gap replaced by a draw from the column's distribution."""
    filled = []
    for codes, distribution in zip(columns, distributions, strict=True):
        cumulative = np.cumsum(distribution)
        levels = np.minimum(
            row_randomness() * cumulative[-1], np.nextafter(cumulative[-1], 0)
        )  # below the last, if rounded up
        drawn = np.searchsorted(cumulative, levels, side="right")
        filled.append(np.where(codes < len(distribution), codes, drawn).astype(codes.dtype))
    return tuple(filled)


def bin_of_cell(schema: Schema) -> dict[int, Integers]:
    """The bin of each cell, for the columns (by position) whose cells are finer than their bins."""
    pairs = zip(schema.finest.columns, schema.columns, strict=True)
    return {
        place: unbinned.regroup(binned)
        for place, (unbinned, binned) in enumerate(pairs)
        if isinstance(unbinned, BinnedColumn) and isinstance(binned, BinnedColumn) and unbinned.size > binned.size
    }


def draw_within_bins(bins: Codes, of_cells: NDArray[np.int64], row_randomness: RowRandomness) -> NDArray[np.int64]:
    """A uniform draw among the cells of each of these bins; `of_cells` is the bin of each cell, in order."""
    sizes = np.bincount(of_cells)
    first = np.cumsum(sizes) - sizes
    return first[bins] + np.floor(row_randomness() * sizes[bins]).astype(np.int64)


def fill_cells(
    cells: Sequence[Codes],
    drawn: Sequence[Codes],
    finer: Mapping[int, tuple[int, NDArray[np.int64]]],
    row_randomness: RowRandomness,
) -> tuple[Codes, ...]:
    """The cells of the columns, after gaps were filled with bins: an observed cell stays, a gap gets a cell of its bin.

    `finer` has, for each column whose cells are finer than its bins, the number of cells and the bin of every code. The
    codes keep their type.
    """
    columns = list(drawn)
    for place, (size, bins) in finer.items():
        codes = cells[place]
        columns[place] = np.where(
            codes < size, codes, draw_within_bins(drawn[place], bins[:size], row_randomness)
        ).astype(codes.dtype)
    return tuple(columns)


def fill_column(
    columns: Sequence[Codes], filler: ColumnFiller, place: int, others: Sequence[int], row_randomness: RowRandomness
) -> tuple[Codes, ...]:
    """The columns with every gap at `place` drawn given the cells at `others`."""
    codes, draws = columns[place], row_randomness()
    gaps = np.flatnonzero(codes >= filler.cells)
    given = np.array([columns[other][gaps] for other in others], dtype=np.int64)
    filled = codes.copy()
    filled[gaps] = filler.draw(given.reshape(len(others), len(gaps)).T, draws[gaps])
    return (*columns[:place], filled, *columns[place + 1 :])


def fill_given(columns: Sequence[Codes], model: Filler, row_randomness: RowRandomness) -> tuple[Codes, ...]:
    """The columns with every gap drawn from the model given the other cells of its row; observed cells stay."""
    sizes = [column.size for column in model.schema.columns]
    given = np.stack([np.where(codes < n, codes.astype(np.int64), -1) for codes, n in zip(columns, sizes, strict=True)])
    drawn = model.fill(given.T, row_randomness)
    return tuple(
        np.where(codes < n, codes, new).astype(codes.dtype)
        for codes, n, new in zip(columns, sizes, drawn.T, strict=True)
    )
