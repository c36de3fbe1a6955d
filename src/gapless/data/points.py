"""The rows of a public table as points: a position for each ordered column, one-hot coordinates for the others."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.data.table import Table
from gapless.schema import Column
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats

Flags: TypeAlias = NDArray[np.bool_]

MOST_ONE_HOT_LEVELS = 100


def unit_positions(column: Column) -> Floats:
    """The position of each level or bin between 0 and 1: midpoints of bins within the bounds, levels at even steps.

    >>> from gapless.schema import Integer
    >>> unit_positions(Integer("age", bounds=(0, 100), edges=(0, 20, 100))).tolist()
    [0.095, 0.6]
    """
    if isinstance(column, BinnedColumn):
        first, last = column.bin_ranges()
        low, high = float(first[0]), float(last[-1])
        return ((first + last) / 2 - low) / (high - low) if high > low else np.zeros(len(first))
    return np.linspace(0.0, 1.0, column.values_size) if column.values_size > 1 else np.zeros(1)


def points(table: Table, *, without: str | None = None) -> Floats:
    """Each row as a point; every column adds at most 1 to the square of the distance of two rows.

    An ordered column is one coordinate from 0 to 1. Gaps and *not applicable* have further coordinates, at distance 1
    from both ends. Levels without order, and gaps as one more level, are one-hot, at distance 1 of each other. More
    than 100 such levels are put on a line too, in the order of the schema.
    """
    parts = [np.zeros((table.rows, 0))]
    for column, codes in zip(table.schema.columns, table.codes, strict=True):
        if column.name == without:
            continue
        if column.extended_size <= MOST_ONE_HOT_LEVELS and not column.is_ordered:
            parts.append((np.eye(column.extended_size) / np.sqrt(2))[codes])
            continue
        line = np.full((column.extended_size, 1), 0.5)
        line[: column.values_size, 0] = unit_positions(column)
        aside = np.arange(column.extended_size)[:, None] == np.arange(column.values_size, column.extended_size)
        parts.append(np.hstack([line, np.sqrt(0.75) * aside])[codes])
    return np.hstack(parts)


def comparable_rows(truth: Table, other: Table) -> tuple[Flags, Flags]:
    """The rows of each table to compare: all if both have gaps or neither has, else those without a gap.

    Otherwise the comparison would see gaps in one table only, and little else.
    """
    complete = ~rows_with_gaps(truth), ~rows_with_gaps(other)
    if complete[0].all() == complete[1].all():
        return np.ones(truth.rows, dtype=np.bool_), np.ones(other.rows, dtype=np.bool_)
    return complete


def rows_with_gaps(table: Table) -> Flags:
    """Which rows have a gap."""
    found = np.zeros(table.rows, dtype=np.bool_)
    for column, codes in zip(table.schema.columns, table.codes, strict=True):
        found |= codes >= column.size
    return found
