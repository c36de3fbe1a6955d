"""Pairs of columns: contingency tables, strengths of association, and what they say of subgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from gapless.data import Table
from gapless.data.checks import check_weights, comparable
from gapless.evaluate.marginals import DENSE_CELLS, half_l1, rows_of, shares, shares_side_by_side
from gapless.model.marginal import cramers_v
from gapless.schema import Column
from gapless.types import Floats


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns in both tables: how far apart their joint laws are, and how strongly the two go together.

    Associations are Spearman's rank correlation for two columns on a line, else Cramér's V (`measure_of`); None where a
    column does not vary, or the pair has too many cells. From noisy counts the distance comes with what the noise
    leaves open, `between`, and may be None.
    """

    columns: tuple[str, str]
    distance: float | None
    measure: str
    truth: float | None
    other: float | None
    between: tuple[float, float] | None = None

    @property
    def difference(self) -> float | None:
        """By how much the association differs; None if it is undefined in a table."""
        return None if self.truth is None or self.other is None else abs(self.truth - self.other)


def compare_pairs(truth: Table, other: Table, *, weights: ArrayLike | None = None) -> tuple[Pair, ...]:
    """Every two columns: total variation distance of their contingency tables, and both associations."""
    truth, other = comparable(truth, other)
    checked = check_weights(other, weights)
    columns = truth.schema.columns
    found = []
    for i, j in combinations(range(len(columns)), 2):
        one, two = shares_side_by_side(truth, other, (i, j), checked)
        both = columns[i], columns[j]
        dense = columns[i].size * columns[j].size <= DENSE_CELLS
        strengths = [association(law, both) if dense else None for law in (one, two)]
        found.append(
            Pair((both[0].name, both[1].name), half_l1(one, two), measure_of(both), strengths[0], strengths[1])
        )
    return tuple(found)


def measure_of(both: tuple[Column, Column]) -> str:
    """The name of the association that suits: ρ if both are on a line, with no *not applicable* beside it."""
    on_a_line = all(column.on_scale and column.size == column.values_size for column in both)
    return "Spearman's ρ" if on_a_line else "Cramér's V"


def association(law: Floats | None, both: tuple[Column, Column]) -> float | None:
    r"""How strongly two columns go together in a joint law: Spearman's ρ on a line, else Cramér's V.

    *Not applicable* has no place on a line, so a column that may be it is one for V.

    >>> from gapless.schema import Categorical, Ordinal
    >>> two = (Ordinal("x", ["a", "b"]), Ordinal("y", ["a", "b"]))
    >>> association(np.array([[0.0, 0.5], [0.5, 0.0]]), two)
    -1.0
    """
    if law is None:
        return None
    if measure_of(both) == "Cramér's V":
        return cramers_v(law)
    x, y = (_ranks(law.sum(axis=axis)) for axis in (1, 0))
    spread = math.sqrt(float(law.sum(axis=1) @ x**2) * float(law.sum(axis=0) @ y**2))
    return max(-1.0, min(1.0, float(x @ law @ y) / spread)) if spread > 1e-12 else None


def _ranks(law: Floats) -> Floats:
    """Mid-ranks of the cells, with mean 0."""
    return np.asarray(np.cumsum(law) - law / 2 - 0.5)


@dataclass(frozen=True, slots=True)
class Subgroup:
    """The rows with one cell in one column, and how well the other table describes them.

    `error` is the mean, over all other columns, of the total variation distance of their laws within the subgroup; 1 if
    the other table has no such row.
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
    """The errors within every subgroup that the truth has, the worst first.

    Small subgroups differ by chance alone: `rows` says how many rows of the truth there are.

    Args:
        truth: the table that is right.
        other: the table that is compared with it.
        columns: whose cells make the subgroups; by default all columns of at most 20 cells.
        weights: one for each row of `other`.
    """
    truth, other = comparable(truth, other)
    checked = check_weights(other, weights)
    schema = truth.schema
    small = [c for c, column in enumerate(schema.columns) if column.size <= 20]
    found = []
    for c in small if columns is None else schema.positions(columns):
        column, codes = schema.columns[c], (truth.codes[c], other.codes[c])
        whole = shares(truth, [c]), shares(other, [c], checked)
        for cell in range(column.size):
            inside = [table_codes == cell for table_codes in codes]
            if not inside[0].any():
                continue
            parts = [rows_of(table, kept) for table, kept in zip((truth, other), inside, strict=True)]
            given = None if checked is None else checked[inside[1]]
            errors = [
                half_l1(shares(parts[0], [o]), shares(parts[1], [o], given))
                for o in range(len(schema.columns))
                if o != c
            ]
            shown = [0.0 if law is None else float(law[cell]) for law in whole]
            error = sum(errors) / len(errors) if errors else 0.0
            found.append(Subgroup(column.name, column.cells[cell], shown[0], shown[1], parts[0].rows, error))
    return tuple(sorted(found, key=lambda subgroup: -subgroup.error))
