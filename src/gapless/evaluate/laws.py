"""Two public tables side by side: weighted shares of cells, and each column as a position on a line."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapless.data import PrivateTable, Table
from gapless.errors import SchemaError, SealedError
from gapless.schema import Boolean, Column, Ordinal
from gapless.schema.columns import _Binned

Floats = NDArray[np.float64]

DENSE_CELLS = 1 << 20  # above, cells are numbered as they occur instead of counted in a table
MOST_CORNERS = 100


def check_tables(*tables: Table) -> None:
    """Refuse what is no public table, and tables whose cells cannot be compared."""
    for table in tables:
        if isinstance(table, PrivateTable):
            raise SealedError(
                "a PrivateTable is not a public table",
                hint="compare_private(table, fake, spend=…) compares it for a price",
            )
        if not isinstance(table, Table):
            raise SchemaError(
                f"a {type(table).__name__} is not a table with a schema",
                hint="Table.read(data, schema) makes one of it",
            )
    first = [(column.name, column.cells) for column in tables[0].schema.columns]
    for table in tables[1:]:
        if [(column.name, column.cells) for column in table.schema.columns] != first:
            raise SchemaError("the two tables have different schemas", hint="read both with the same schema")


def check_weights(table: Table, weights: ArrayLike | None) -> Floats | None:
    """One weight for each row: finite, not negative, not all zero. Only their ratios matter."""
    if weights is None:
        return None
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise SchemaError("weights must be numbers", hint="one weight for each row") from None
    if given.shape != (table.rows,):
        raise SchemaError(f"{given.size} weights for {table.rows} rows", hint="one weight for each row")
    if not (np.isfinite(given).all() and (given >= 0).all() and (given.any() or not given.size)):
        raise SchemaError("weights must be finite, not negative and not all zero", hint="weights of 0 or more")
    return given


def alike(truth: Table, other: Table) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows of each table to compare as wholes: all if both have gaps or neither, else those without a gap.

    A gap in one table and a fill in the other would be all that such a comparison sees.
    """
    complete = ~gap_rows(truth), ~gap_rows(other)
    if complete[0].all() == complete[1].all():
        return np.ones(truth.rows, dtype=np.bool_), np.ones(other.rows, dtype=np.bool_)
    return complete


def rows_of(table: Table, kept: NDArray[np.bool_]) -> Table:
    """Some rows of a table."""
    return Table(table.schema, [codes[kept] for codes in table.codes], rows=int(kept.sum()))


def gap_rows(table: Table) -> NDArray[np.bool_]:
    """Which rows have a gap."""
    found = np.zeros(table.rows, dtype=np.bool_)
    for column, codes in zip(table.schema.columns, table.codes, strict=True):
        found |= codes >= column.size
    return found


def shares(table: Table, columns: Sequence[int], weights: Floats | None = None) -> Floats | None:
    """The share of each combination of observed cells, among rows without a gap there; None if there is no such row.

    >>> from gapless.schema import Categorical, Schema
    >>> table = Table(Schema("t", [Categorical("x", ["a", "b"])]), [np.array([0, 1, 1])], rows=3)
    >>> shares(table, [0], np.array([2.0, 1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    shape = [table.schema.columns[c].size for c in columns]
    keys, seen = _observed(table, columns)
    for c, size in zip(columns, shape, strict=True):
        keys = keys * size + table.codes[c][seen]
    return _normalised(keys, None if weights is None else weights[seen], shape)


def shares_side_by_side(
    truth: Table, other: Table, columns: Sequence[int], weights: Floats | None
) -> tuple[Floats | None, Floats | None]:
    """The shares in both tables, of all cells or, where these are too many, of those that occur."""
    if math.prod(truth.schema.columns[c].size for c in columns) <= DENSE_CELLS:
        return shares(truth, columns), shares(other, columns, weights)
    (keys, first), (others, second) = _observed(truth, columns), _observed(other, columns)
    keys = np.concatenate([keys, others])
    for c in columns:
        keys = keys * truth.schema.columns[c].size + np.concatenate([truth.codes[c][first], other.codes[c][second]])
        keys = np.unique(keys, return_inverse=True)[1]  # as many numbers as there are cells that occur
    split, shape = int(first.sum()), [int(keys.max(initial=0)) + 1]
    given = None if weights is None else weights[second]
    return _normalised(keys[:split], None, shape), _normalised(keys[split:], given, shape)


def _observed(table: Table, columns: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A zero for each row observed on the columns, and which rows these are."""
    seen = np.ones(table.rows, dtype=np.bool_)
    for c in columns:
        if table.schema.columns[c].gaps:
            seen &= table.codes[c] < table.schema.columns[c].size
    return np.zeros(int(seen.sum()), dtype=np.int64), seen


def _normalised(keys: NDArray[np.int64], weights: Floats | None, shape: Sequence[int]) -> Floats | None:
    counts = np.bincount(keys, weights=weights, minlength=math.prod(shape)).astype(np.float64)
    total = counts.sum()
    return counts.reshape(shape) / total if total > 0 else None


def half_l1(one: Floats | None, other: Floats | None) -> float:
    """The total variation distance; 1 if one table has nothing to compare, 0 if neither has."""
    if one is None or other is None:
        return float((one is None) != (other is None))
    return 0.5 * float(np.abs(one - other).sum())


def is_ordered(column: Column) -> bool:
    """Whether its cells lie on a line: numbers, dates, ordinal levels, false and true."""
    return isinstance(column, Ordinal | Boolean | _Binned)


def positions(column: Column) -> Floats:
    """Where each level or bin lies between 0 and 1: middles of bins within the bounds, levels at even steps.

    >>> from gapless.schema import Integer
    >>> positions(Integer("age", bounds=(0, 100), edges=(0, 20, 100))).tolist()
    [0.095, 0.6]
    """
    if isinstance(column, _Binned):
        first, last = column.ends_of_bins()
        low, high = float(first[0]), float(last[-1])
        return ((first + last) / 2 - low) / (high - low) if high > low else np.zeros(len(first))
    return np.linspace(0.0, 1.0, column.values_size) if column.values_size > 1 else np.zeros(1)


def points(table: Table, *, without: str | None = None) -> Floats:
    """Each row as a point; every column adds at most 1 to the square of the distance of two rows.

    A column on a line is one coordinate from 0 to 1, and what has no value there (a gap, *not applicable*) stands
    aside, at distance 1 from the ends. Other levels, and gaps as one more, are corners at distance 1 of each other;
    more than 100 of them are put on a line too, in the order of the schema.
    """
    parts = [np.zeros((table.rows, 0))]
    for column, codes in zip(table.schema.columns, table.codes, strict=True):
        if column.name == without:
            continue
        states = np.eye(column.extended_size) if column.extended_size <= MOST_CORNERS else None
        if states is not None and not is_ordered(column):
            parts.append((states / np.sqrt(2))[codes])
            continue
        line = np.full((column.extended_size, 1), 0.5)
        line[: column.values_size, 0] = positions(column)
        aside = np.arange(column.extended_size)[:, None] == np.arange(column.values_size, column.extended_size)
        parts.append(np.hstack([line, np.sqrt(0.75) * aside])[codes])
    return np.hstack(parts)
