r"""Little's test: are the gaps of a public table completely at random?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from gapless.data import Table
from gapless.data.checks import check_public
from gapless.errors import Argument, Call, Hint, ModelError, Variable
from gapless.text import plural
from gapless.types import Floats

Flags: TypeAlias = NDArray[np.bool_]

MAX_STEPS = 100  # of EM
_RANK = 1e-9  # directions with a smaller share of the largest variance count as constant
_MAX_WORK = 1e12  # patterns × variables³ × steps: about an hour


@dataclass(frozen=True, slots=True)
class LittleTest:
    """The result of Little's test.

    Attributes:
        statistic: d², the distance of the means of the patterns from a common mean.
        freedom: the degrees of freedom.
        p_value: the probability of a d² at least this large if gaps are completely at random, for large patterns.
        patterns: the number of different patterns of gaps.
        variables: the number of variables of a row.
    """

    statistic: float
    freedom: int
    p_value: float
    patterns: int
    variables: int

    def __str__(self) -> str:
        return (
            f"Little's test: d² = {self.statistic:.1f}, {plural(self.freedom, 'degree')} of freedom, "
            f"p = {self.p_value:.3g} ({plural(self.patterns, 'pattern')}, {plural(self.variables, 'variable')})"
        )


def little_test(table: Table) -> LittleTest:
    r"""Little's test of whether gaps are completely at random, for a public table.

    .. math:: d^2 = \sum_j n_j (\bar y_j - \hat\mu_j)^\top \hat\Sigma_j^{-1} (\bar y_j - \hat\mu_j)

    over the patterns j of gaps: :math:`n_j` rows, the mean :math:`\bar y_j` of their observed variables, and the
    mean and covariance of all rows on these variables, estimated by EM as for normal rows. If gaps are completely at
    random, d² is about χ² with :math:`\sum_j p_j - p` degrees of freedom, :math:`p_j` the rank of
    :math:`\hat\Sigma_j`, for any distribution of the rows, if patterns have many rows.

    A column on a scale is one variable, the number of its cell. Levels without an order and *not applicable* are one
    indicator each, except the most frequent one. Cells that never occur are ignored.

    A small p-value is evidence against *completely* at random. A large one does not prove it: the test detects
    differences of means, and none that depend only on the missing value.

    References: Little 1988.
    """
    check_public(
        table,
        "little_test() needs",
        private=Hint(
            "use ",
            Call("gapless.missing.describe_gaps", Variable("people"), Argument("spend", "5%")),
            ", which has a check for it",
        ),
    )
    values, owner = _variables(table)
    observed = np.stack([codes < c.size for codes, c in zip(table.codes, table.schema.columns, strict=True)], axis=1)
    seen = observed[:, owner]
    groups = _groups(values, seen)
    if len(owner) == 0 or len(groups) < 2:
        return LittleTest(0.0, 0, 1.0, len(groups), len(owner))
    if len(groups) * len(owner) ** 3.0 * MAX_STEPS > _MAX_WORK:
        raise ModelError(
            f"the table has {len(groups)} patterns of gaps in {len(owner)} variables, too many for this test",
            hint='select fewer columns, as in table[["age", "income"]], or declare fewer levels',
        )
    mean, covariance = _fit(groups, values, seen)
    statistic, freedom = 0.0, -_inverse(covariance)[1]
    for group in groups:
        if group.where.any():
            inverse, rank = _inverse(covariance[np.ix_(group.where, group.where)])
            off = group.mean - mean[group.where]
            statistic += group.rows * float(off @ inverse @ off)
            freedom += rank
    return LittleTest(
        statistic, freedom, float(chdtrc(freedom, statistic)) if freedom > 0 else 1.0, len(groups), len(owner)
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows with one pattern: the observed variables, their mean and their scatter matrix."""

    where: Flags
    rows: int
    mean: Floats
    scatter: Floats


def _variables(table: Table) -> tuple[Floats, NDArray[np.int64]]:
    """The variables, rows × variables with arbitrary values for gaps, and the column of each variable."""
    found, owner = [], []
    for place, (codes, column) in enumerate(zip(table.codes, table.schema.columns, strict=True)):
        counts = np.bincount(codes, minlength=column.extended_size)[: column.size]
        varies = column.is_ordered and (counts[: column.values_size] > 0).sum() > 1
        cells = list(range(column.values_size if column.is_ordered else 0, column.size))
        cells = [cell for cell in cells if 0 < counts[cell] < counts.sum()]
        if not column.is_ordered and cells:
            cells.remove(max(cells, key=lambda cell: counts[cell]))
        if varies:
            found.append(np.where(codes < column.values_size, codes, 0) / (column.values_size - 1))
        found += [(codes == cell).astype(np.float64) for cell in cells]
        owner += [place] * (varies + len(cells))
    values = np.stack(found, axis=1) if found else np.zeros((table.rows, 0))
    return values, np.array(owner, dtype=np.int64)


def _groups(values: Floats, seen: Flags) -> list[_Group]:
    if not len(seen):
        return []
    different, group_of_row = np.unique(seen, axis=0, return_inverse=True)
    order = np.argsort(group_of_row.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(group_of_row.ravel()))
    groups = []
    for where, rows in zip(different, np.split(order, ends[:-1]), strict=True):
        cells = values[np.ix_(rows, where)]
        mean = cells.mean(axis=0)
        groups.append(_Group(where, len(rows), mean, (cells - mean).T @ (cells - mean)))
    return groups


def _fit(groups: Sequence[_Group], values: Floats, seen: Flags) -> tuple[Floats, Floats]:
    """Mean and covariance of normal rows with these gaps, by EM from the observed means and variances."""
    observed_rows = seen.sum(axis=0)
    mean = np.where(seen, values, 0.0).sum(axis=0) / np.maximum(observed_rows, 1)
    spread = np.where(seen, (values - mean) ** 2, 0.0).sum(axis=0) / np.maximum(observed_rows, 1)
    covariance = np.diag(np.maximum(spread, 1e-12))
    rows = sum(group.rows for group in groups)
    for _ in range(MAX_STEPS):
        total, second = np.zeros_like(mean), np.zeros_like(covariance)
        for group in groups:
            here, gone = group.where, ~group.where
            slope = np.zeros((len(mean), int(here.sum())))  # of all variables on the observed ones
            slope[here] = np.eye(slope.shape[1])
            left = np.zeros_like(covariance)
            if gone.any():
                inverse, _ = _inverse(covariance[np.ix_(here, here)])
                slope[gone] = covariance[np.ix_(gone, here)] @ inverse
                left[np.ix_(gone, gone)] = covariance[np.ix_(gone, gone)] - slope[gone] @ covariance[np.ix_(here, gone)]
            centre = mean + slope @ (group.mean - mean[here])
            total += group.rows * centre
            second += group.rows * (np.outer(centre - mean, centre - mean) + left) + slope @ group.scatter @ slope.T
        shift = total / rows - mean
        new = second / rows - np.outer(shift, shift)
        done = max(np.abs(shift).max(), np.abs(new - covariance).max()) < 1e-7
        mean, covariance = mean + shift, new
        if done:
            break
    return mean, covariance


def _inverse(matrix: Floats) -> tuple[Floats, int]:
    """The pseudo-inverse, and the rank."""
    values, vectors = np.linalg.eigh(matrix) if matrix.size else (np.zeros(0), np.zeros((0, 0)))
    kept = values > _RANK * max(float(values.max(initial=0.0)), 1e-300)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())
