"""Distances between two public tables, from weighted shares of cells.

- k-way marginal distance: the total variation distance over all sets of k columns.
- Wasserstein distance: how far rows must move to turn one table into the other.
- Pairs of columns and subgroups: contingency tables and associations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapless.data import Table
from gapless.data.checks import given_weights, to_shared_bins
from gapless.data.points import comparable_rows, points, unit_positions
from gapless.errors import SchemaError
from gapless.model.marginal import cramers_v
from gapless.schema import Column
from gapless.types import Floats, whole

DENSE_CELLS = 1 << 20  # with more cells, only those that occur are numbered


def select_rows(table: Table, kept: NDArray[np.bool_]) -> Table:
    """Return some rows of a table."""
    return Table(table.schema, [codes[kept] for codes in table.codes], rows=int(kept.sum()))


def shares(table: Table, columns: Sequence[int], weights: Floats | None = None) -> Floats | None:
    """Return the share of each combination of cells among rows without a gap; None if there is no such row.

    >>> from gapless.schema import Categorical, Schema
    >>> table = Table(Schema("t", [Categorical("x", ["a", "b"])]), [np.array([0, 1, 1])], rows=3)
    >>> shares(table, [0], np.array([2.0, 1.0, 1.0])).tolist()
    [0.5, 0.5]
    """
    shape = [table.schema.columns[c].size for c in columns]
    seen = _observed(table, columns)
    keys = np.zeros(int(seen.sum()), dtype=np.int64)
    for c, size in zip(columns, shape, strict=True):
        keys = keys * size + table.codes[c][seen]
    return _normalised(keys, None if weights is None else weights[seen], shape)


def shares_side_by_side(
    truth: Table, other: Table, columns: Sequence[int], weights: Floats | None
) -> tuple[Floats | None, Floats | None]:
    """Return the shares in both tables, of all cells or, if there are too many, of those that occur."""
    if math.prod(truth.schema.columns[c].size for c in columns) <= DENSE_CELLS:
        return shares(truth, columns), shares(other, columns, weights)
    first, second = _observed(truth, columns), _observed(other, columns)
    keys = np.zeros(int(first.sum() + second.sum()), dtype=np.int64)
    for c in columns:
        keys = keys * truth.schema.columns[c].size + np.concatenate([truth.codes[c][first], other.codes[c][second]])
        keys = np.unique(keys, return_inverse=True)[1]  # numbers only the cells that occur
    split, shape = int(first.sum()), [int(keys.max(initial=0)) + 1]
    given = None if weights is None else weights[second]
    return _normalised(keys[:split], None, shape), _normalised(keys[split:], given, shape)


def _observed(table: Table, columns: Sequence[int]) -> NDArray[np.bool_]:
    """Return which rows are observed in all the columns."""
    seen = np.ones(table.rows, dtype=np.bool_)
    for c in columns:
        seen &= table.codes[c] < table.schema.columns[c].size
    return seen


def _normalised(keys: NDArray[np.int64], weights: Floats | None, shape: Sequence[int]) -> Floats | None:
    counts = np.bincount(keys, weights=weights, minlength=math.prod(shape)).astype(np.float64)
    total = counts.sum()
    return counts.reshape(shape) / total if total > 0 else None


def total_variation(first: Floats | None, second: Floats | None) -> float:
    """Return the total variation distance; 1 if one table has nothing to compare, 0 if neither has."""
    if first is None or second is None:
        return float((first is None) != (second is None))
    return 0.5 * float(np.abs(first - second).sum())


MOST_SETS = 500


def kway_distance(
    truth: Table, other: Table, *, k: int = 2, most_sets: int = MOST_SETS, weights: ArrayLike | None = None
) -> float:
    r"""Return the mean total variation distance of the two tables' k-way marginals, as in [MD] §6.1.

    .. math:: \frac{1}{|\mathcal S|} \sum_{S \in \mathcal S} \tfrac12 \lVert p_S - q_S \rVert_1

    All sets of k columns are used, or `most_sets` of them, spread evenly: always the same ones. For each set, only rows
    without a gap in its columns count, and each table is normalised by its number of such rows. The distance is 1 if
    only one of the two tables has such a row.

    Args:
        truth: the true table.
        other: the table that is compared with the truth.
        k: the number of columns in a set.
        most_sets: the largest number of sets.
        weights: one for each row of `other`, such as importance weights; a weight of 2 counts like two equal rows.

    >>> import numpy as np
    >>> from gapless.schema import Categorical, Schema
    >>> schema = Schema("letters", [Categorical("x", ["a", "b"]), Categorical("y", ["a", "b"])])
    >>> one = Table(schema, [np.array([0, 1]), np.array([0, 1])], rows=2)
    >>> two = Table(schema, [np.array([0, 1]), np.array([1, 0])], rows=2)
    >>> kway_distance(one, two, k=1), kway_distance(one, two, k=2)
    (0.0, 1.0)
    """
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    columns = len(truth.schema.columns)
    k = whole("k", k, error=SchemaError, least=1, most=columns)
    step = math.ceil(math.comb(columns, k) / whole("most_sets", most_sets, error=SchemaError, least=1))
    sets = list(islice(combinations(range(columns), k), 0, None, step))
    return sum(total_variation(*shares_side_by_side(truth, other, chosen, checked)) for chosen in sets) / len(sets)


DIRECTIONS = 64


def column_wasserstein(column: Column, truth: Floats | None, other: Floats | None) -> float:
    r"""Return the 1-Wasserstein distance of two distributions of one column, with its range scaled to [0, 1].

    .. math:: W_1 = \int_0^1 |F(x) - G(x)| \, dx

    Levels without an order are all at distance 1, which gives the total variation distance. Rows that move to or from
    *not applicable* count 1; the distributions of the others are compared. It is 1 if only one table has rows.

    >>> from gapless.schema import Ordinal
    >>> column_wasserstein(Ordinal("x", ["a", "b", "c"]), np.array([1.0, 0, 0]), np.array([0, 1.0, 0]))
    0.5
    """
    if truth is None or other is None or not column.is_ordered:
        return total_variation(truth, other)
    many = column.values_size
    truth_values, other_values = truth[:many], other[:many]
    here, there = float(truth_values.sum()), float(other_values.sum())
    moved = abs(here - there)  # to or from not applicable
    if here == 0 or there == 0:
        return moved
    below = np.cumsum(truth_values / here - other_values / there)[:-1]
    return moved + min(here, there) * float(np.abs(below) @ np.diff(unit_positions(column)))


def wasserstein_distance(truth: Table, other: Table, *, weights: ArrayLike | None = None) -> float:
    r"""Return the sliced 1-Wasserstein distance of whole rows, the divergence of [IW] §4.2.

    .. math:: \sqrt d \; \frac1L \sum_{l=1}^L W_1(\langle u_l, X\rangle, \langle u_l, Y\rangle)

    Rows become points (`data.points`). An ordered column is one coordinate in [0, 1]. Other levels, and gaps as one
    more level, are corners at distance 1 of each other. The mean is over L = 64 fixed directions u of the sphere in d
    dimensions. The paper does not state how it computed the distance of joint distributions. Slices need no solver, use
    every row and take weights. The distance is 0 for equal tables.

    If one table has gaps and the other has none, only rows without a gap are compared: otherwise the gaps would
    dominate the distance. The distance is 1 if only one of the two tables has such a row.

    Args:
        truth: the true table.
        other: the table that is compared with the truth.
        weights: one for each row of `other`; a weight of 2 counts like two equal rows.
    """
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    kept = comparable_rows(truth, other)
    mass = (np.ones(other.rows) if checked is None else checked)[kept[1]]
    truth_points, other_points = points(truth)[kept[0]], points(other)[kept[1]]
    if len(truth_points) == 0 or not mass.any():
        return float((len(truth_points) == 0) != (not mass.any()))
    rng = np.random.default_rng(0)  # always the same directions
    directions = rng.normal(size=(truth_points.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    slices = zip((truth_points @ directions).T, (other_points @ directions).T, strict=True)
    return float(np.sqrt(truth_points.shape[1]) * np.mean([_line_wasserstein(x, y, mass) for x, y in slices]))


def _line_wasserstein(truth: Floats, other: Floats, mass: Floats) -> float:
    places = np.concatenate([truth, other])
    order = np.argsort(places, kind="stable")
    flow = np.concatenate([np.full(len(truth), 1 / len(truth)), -mass / mass.sum()])[order]
    return float(np.abs(np.cumsum(flow)[:-1]) @ np.diff(places[order]))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns in both tables: the distance of their joint distributions, and the association in each table.

    Associations are Spearman's rank correlation for two ordered columns, else Cramér's V (`measure_of`). They are None
    if a column is constant, or the pair has too many cells. For noisy counts, `between` is the interval that the noise
    leaves open, and the distance may be None.
    """

    columns: tuple[str, str]
    distance: float | None
    measure: str
    truth: float | None = None
    other: float | None = None
    between: tuple[float, float] | None = None

    @property
    def difference(self) -> float | None:
        """The difference of the associations; None if one is undefined."""
        return None if self.truth is None or self.other is None else abs(self.truth - self.other)


def compare_pairs(truth: Table, other: Table, *, weights: ArrayLike | None = None) -> tuple[Pair, ...]:
    """Return, for every two columns, the distance of their contingency tables and both associations."""
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    columns = truth.schema.columns
    found = []
    for i, j in combinations(range(len(columns)), 2):
        truth_shares, other_shares = shares_side_by_side(truth, other, (i, j), checked)
        both = columns[i], columns[j]
        dense = columns[i].size * columns[j].size <= DENSE_CELLS
        true, compared = (association(joint, both) if dense else None for joint in (truth_shares, other_shares))
        names = both[0].name, both[1].name
        found.append(Pair(names, total_variation(truth_shares, other_shares), measure_of(both), true, compared))
    return tuple(found)


def measure_of(both: tuple[Column, Column]) -> str:
    """Return the name of the association: ρ if both columns are ordered and never *not applicable*, else V."""
    on_a_line = all(column.is_ordered and column.size == column.values_size for column in both)
    return "Spearman's ρ" if on_a_line else "Cramér's V"


def association(shares: Floats | None, both: tuple[Column, Column]) -> float | None:
    r"""Return the association of two columns in a joint distribution: Spearman's ρ or Cramér's V (`measure_of`).

    *Not applicable* has no place in an order, so a column that may be not applicable is compared by V.

    >>> from gapless.schema import Categorical, Ordinal
    >>> two = (Ordinal("x", ["a", "b"]), Ordinal("y", ["a", "b"]))
    >>> association(np.array([[0.0, 0.5], [0.5, 0.0]]), two)
    -1.0
    """
    if shares is None:
        return None
    if measure_of(both) == "Cramér's V":
        return cramers_v(shares)
    x, y = (_ranks(shares.sum(axis=axis)) for axis in (1, 0))
    spread = math.sqrt(float(shares.sum(axis=1) @ x**2) * float(shares.sum(axis=0) @ y**2))
    return max(-1.0, min(1.0, float(x @ shares @ y) / spread)) if spread > 1e-12 else None


def _ranks(shares: Floats) -> Floats:
    """Return the mid-ranks of the cells, with mean 0."""
    return np.asarray(np.cumsum(shares) - shares / 2 - 0.5)


@dataclass(frozen=True, slots=True)
class Subgroup:
    """The rows with one cell in one column, and how well the other table describes them.

    `error` is the mean, over all other columns, of the total variation distance within the subgroup; 1 if the other
    table has no such row.
    """

    column: str
    cell: str
    truth: float
    other: float
    rows: int
    error: float


def compare_subgroups(
    truth: Table, other: Table, *, columns: Sequence[str] | None = None, weights: ArrayLike | None = None
) -> tuple[Subgroup, ...]:
    """Return the errors within every subgroup of the truth, the worst first.

    Small subgroups differ by chance alone: `rows` is the number of rows of the truth in the subgroup.

    Args:
        truth: the true table.
        other: the table that is compared with the truth.
        columns: the columns whose cells define the subgroups; by default all columns of at most 20 cells.
        weights: one for each row of `other`.
    """
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    schema = truth.schema
    small = [c for c, column in enumerate(schema.columns) if column.size <= 20]
    found = []
    for c in small if columns is None else schema.positions(columns):
        column, codes = schema.columns[c], (truth.codes[c], other.codes[c])
        whole = shares(truth, [c]), shares(other, [c], checked)
        for cell in range(column.size):
            in_subgroup = [table_codes == cell for table_codes in codes]
            if not in_subgroup[0].any():
                continue
            parts = [select_rows(table, kept) for table, kept in zip((truth, other), in_subgroup, strict=True)]
            given = None if checked is None else checked[in_subgroup[1]]
            others = [o for o in range(len(schema.columns)) if o != c]
            errors = [total_variation(shares(parts[0], [o]), shares(parts[1], [o], given)) for o in others]
            shown = [0.0 if column_shares is None else float(column_shares[cell]) for column_shares in whole]
            error = sum(errors) / len(errors) if errors else 0.0
            found.append(Subgroup(column.name, column.cells[cell], shown[0], shown[1], parts[0].rows, error))
    return tuple(sorted(found, key=lambda subgroup: -subgroup.error))
