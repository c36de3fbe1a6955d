r"""Features of cells, whose products over all rows are released for each pair of columns.

A feature map sends each cell of a column to a vector of length 1. *Levels* have one axis each, so that products are
contingency tables. The values of an *ordered* column with more than two
values, or with two learned bins, are mapped to

.. math:: \bigl(\sqrt{1 - a}\,(\cos \pi r, \sin \pi r),\ \sqrt{a}\, e_g\bigr)

with r the mid-rank of the value, g a group of neighbouring bins, and a the share of groups. The first two features of
both columns give four numbers instead of a table, with about a quarter of its noise on a rank correlation. *Not
applicable* and gap states have one axis each.

Ranks are those of released values, on the finest cells of the schema. So features are functions of released values.
All vectors are whole numbers of at most `FEATURE_LENGTH`, rounded towards zero: rounding makes them shorter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gapless.data.workload import FEATURE_LENGTH
from gapless.schema import Schema
from gapless.schema.columns import Categorical, Column
from gapless.schema.numeric import BinnedColumn
from gapless.synth.marginal.factors_fit import mid_ranks
from gapless.types import Floats, Integers

RANKS = 128  # different mid-ranks of a column: engines count pairs of these


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """The features of one column.

    Attributes:
        vectors: whole numbers; finest cells × features.
        groups: the group of each value if features follow ranks; empty if groups have no features. None for levels.
    """

    vectors: Integers
    groups: Integers | None

    @property
    def size(self) -> int:
        """How many features a cell has."""
        return int(self.vectors.shape[1])


def value_order(column: Column) -> Integers | None:
    """The place of each value in its order; None for levels without an order and for two values.

    Levels that are all numbers have the order of these.
    """
    if column.values_size <= 2:
        return None
    if column.is_ordered:
        return np.arange(column.values_size)
    if isinstance(column, Categorical):
        try:
            numbers = np.array([float(level) for level in column.value_cells])
        except ValueError:
            return None
        return np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
    return None


def rank_order(column: Column, *, is_learned: bool) -> Integers | None:
    """The place of each value in its order, if features follow ranks; None otherwise.

    Noise may leave two learned bins of a number. The released counts of its finest values still give their ranks.
    """
    has_two_bins = isinstance(column, BinnedColumn) and column.values_size == 2 < column.finest.values_size
    return np.arange(2) if has_two_bins and is_learned else value_order(column)


def most_features(column: Column, groups: int) -> int:
    """A public bound on the number of features of a column in at most this many groups, before bins are learned."""
    others = column.extended_size - column.values_size
    return others + (column.values_size if value_order(column) is None else 2 + groups)


def finest_shares(
    schema: Schema, place: int, shares: Floats, cell_counts: Mapping[str, Floats]
) -> tuple[Floats, Integers]:
    """The share of each finest cell of a column, and the cell of the schema that it is in.

    Within a bin, shares follow the released counts of its cells, or are even.

    Args:
        schema: with bins.
        place: of the column.
        shares: of each cell of the schema, values first, then gap states.
        cell_counts: released counts of the finest cells, by column.
    """
    column = schema.columns[place]
    if not isinstance(column, BinnedColumn):
        return shares, np.arange(len(shares))
    cells = column.finest.regroup(column)[: column.finest.values_size + len(shares) - column.values_size]
    counts = np.ones(len(cells))
    if column.name in cell_counts:
        counts[: column.finest.values_size] = cell_counts[column.name]
    within = np.bincount(cells, counts)[cells]
    even = 1 / np.bincount(cells)[cells]
    return shares[cells] * np.where(within > 0, counts / np.maximum(within, 1e-300), even), cells


def feature_map(
    schema: Schema,
    place: int,
    shares: Floats,
    cell_counts: Mapping[str, Floats],
    *,
    groups: int | None,
    group_share: float,
    is_learned: bool = False,
) -> FeatureMap:
    """The features of a column, from released shares of its cells.

    Args:
        schema: with bins.
        place: of the column.
        shares: of each cell of the schema; all positive.
        cell_counts: released counts of the finest cells, by column.
        groups: how many groups an ordered column has, at most; None for a group of each value.
        group_share: a; of the squared length of a vector that is for groups.
        is_learned: whether its bins were learned from counts of its finest cells.
    """
    column = schema.columns[place]
    cell_shares, cells = finest_shares(schema, place, shares, cell_counts)
    order = rank_order(column, is_learned=is_learned)
    if order is None:
        return FeatureMap(FEATURE_LENGTH * np.eye(len(shares), dtype=np.int64)[cells], None)
    values = len(cells) - (len(shares) - column.values_size)
    finest_order = order if values == len(order) else np.arange(values)
    ranks = mid_ranks(cell_shares[:values], finest_order)
    angles = np.pi * (np.floor(ranks * RANKS) + 0.5) / RANKS
    parts = [np.sqrt(1 - group_share) * np.stack([np.cos(angles), np.sin(angles)], axis=1)]
    grouped = np.empty(0, dtype=np.int64)
    if group_share > 0:
        bin_ranks = mid_ranks(shares[: column.values_size], order)
        _, grouped = np.unique(order if groups is None else np.floor(bin_ranks * groups), return_inverse=True)
        parts.append(np.sqrt(group_share) * np.eye(int(grouped.max()) + 1)[grouped[cells[:values]]])
    smooth = np.trunc(FEATURE_LENGTH * np.hstack(parts)).astype(np.int64)
    others = len(shares) - column.values_size
    vectors = np.zeros((len(cells), smooth.shape[1] + others), dtype=np.int64)
    vectors[:values, : smooth.shape[1]] = smooth
    vectors[values:, smooth.shape[1] :] = FEATURE_LENGTH * np.eye(others, dtype=np.int64)
    return FeatureMap(vectors, grouped)


def mean_features(
    schema: Schema, place: int, shares: Floats, cell_counts: Mapping[str, Floats], vectors: Integers
) -> Floats:
    """The mean feature vector of the rows in each cell of the schema, of length at most 1."""
    cell_shares, cells = finest_shares(schema, place, shares, cell_counts)
    weights = np.maximum(cell_shares, 1e-12)
    sums = np.zeros((len(shares), vectors.shape[1]))
    np.add.at(sums, cells, weights[:, None] * vectors)
    return sums / np.bincount(cells, weights)[:, None] / FEATURE_LENGTH


def merged_cells(vectors: Integers, observed: int, extended: int) -> tuple[Integers, Integers]:
    """Merge cells with equal features; return the code of each cell, gap states apart, and the vector of each code.

    Args:
        vectors: of the observed cells, and of gap states if these are counted.
        observed: how many cells are observed.
        extended: how many cells there are with gap states.
    """
    _, first, code = np.unique(vectors[:observed], axis=0, return_index=True, return_inverse=True)
    codes = np.concatenate([code.reshape(-1), len(first) + np.arange(extended - observed)])
    return codes.astype(np.int64), vectors[np.concatenate([first, np.arange(observed, len(vectors))])]
