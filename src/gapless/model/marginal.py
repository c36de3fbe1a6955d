"""Noisy marginals: what was measured, and the tables they agree on.

A marginal is a set of columns, here by position; a measurement is its noisy table of counts. Columns measured in
several marginals are known several times: `reconcile` finds the tables closest to all measurements that agree on
every shared column, by splitting each table into its mean, main effects and interactions and averaging
every part with inverse-variance weights. It is the exact least-squares answer but for signs: cells may be negative.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod, sqrt

import numpy as np

from gapless.errors import Argument, Hint, ModelError
from gapless.types import Floats

Marginal = tuple[int, ...]  # its columns, by position

LEAST_SHARE = 1e-5  # of a cell that must be possible
LEAST_NOISE = 1e-6  # counts that are as good as exact, at absurd budgets, still have a finite weight


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A noisy table of counts over some columns, in the order of `columns`, with independent noise per cell.

    `noise_std` is kept as `LEAST_NOISE` where it is less.
    """

    columns: Marginal
    counts: Floats
    noise_std: float

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns) or self.counts.ndim != len(self.columns):
            raise ModelError(
                f"a measurement needs different columns and one axis of counts for each, "
                f"got columns {self.columns} and counts of shape {self.counts.shape}",
                hint="pass one axis of counts for each column, and name each column once",
            )
        if not (self.noise_std >= 0 and np.isfinite(self.counts).all()):
            found = "counts that are not finite" if self.noise_std >= 0 else f"noise_std = {self.noise_std}"
            raise ModelError(
                f"a measurement of columns {self.columns} needs finite counts and noise_std >= 0, got {found}",
                hint=Hint("pass finite counts, and ", Argument("noise_std"), " of 0 or more"),
            )
        object.__setattr__(self, "noise_std", max(float(self.noise_std), LEAST_NOISE))

    def scaled_to(self, total: float) -> "Measurement":
        """Counts and noise scaled to another total; a sum that is mostly noise is taken for no less than its noise."""
        known_total = max(1.0, float(self.counts.sum()), self.noise_std * sqrt(self.counts.size))
        return Measurement(self.columns, self.counts * (total / known_total), self.noise_std * (total / known_total))


def project_to_simplex(values: Floats, total: float) -> Floats:
    """The nearest table without negative cells that sums to `total`.

    >>> project_to_simplex(np.array([3.0, 1.0, -2.0]), 2.0)
    array([2., 0., 0.])
    """
    falling = np.sort(values, axis=None)[::-1]
    excess = np.cumsum(falling) - total
    last = np.flatnonzero(falling * np.arange(1, falling.size + 1) > excess)[-1]
    return np.asarray(np.maximum(values - excess[last] / (last + 1), 0.0))


def positive_shares(counts: Floats, total: float) -> Floats:
    """Noisy counts as positive shares that sum to 1."""
    shares = np.maximum(project_to_simplex(counts, total) / total, LEAST_SHARE)
    return np.asarray(shares / shares.sum())


def estimate_total(measurements: Iterable[Measurement]) -> float:
    """The number of rows that all measurements together speak for: inverse-variance mean of their sums."""
    known = [(float(table.counts.sum()), table.noise_std**-2 / table.counts.size) for table in measurements]
    weight = sum(precision for _, precision in known)
    return sum(total * precision for total, precision in known) / weight if known else 0.0


def reconcile(
    sizes: Sequence[int], measurements: Iterable[Measurement], total: float
) -> dict[Marginal, tuple[Floats, float]]:
    """The closest tables that agree on shared columns and sum to `total`, each with its measured noise_std.

    Keys are ascending columns; equal marginals become one.
    """
    precisions: dict[Marginal, float] = {}
    effects: dict[Marginal, tuple[Floats, float]] = {(): (np.array(0.0), 0.0)}
    for measurement in measurements:
        columns, precision = tuple(sorted(measurement.columns)), measurement.noise_std**-2
        precisions[columns] = precisions.get(columns, 0.0) + precision
        for part in _subsets(columns):
            weight = precision / prod(sizes[column] for column in columns if column not in part)
            old, known = effects.get(part, (np.array(0.0), 0.0))
            effect = _effect(marginalize(measurement.counts, measurement.columns, part))
            effects[part] = (known * old + weight * effect) / (known + weight), known + weight
    effects[()] = (np.array(float(total)), 1.0)
    return {columns: (_assemble(sizes, columns, effects), 1 / sqrt(known)) for columns, known in precisions.items()}


def marginalize(table: Floats, axes: Marginal, keep: Marginal) -> Floats:
    """The marginal of a table, its axes in the order of `keep`."""
    total = table.sum(axis=tuple(axis for axis, column in enumerate(axes) if column not in keep))
    left = [column for column in axes if column in keep]
    return np.asarray(total).transpose([left.index(column) for column in keep])


def pooled_margin(columns: Marginal, tables: Iterable[Measurement]) -> tuple[Floats, float]:
    """A smaller table by all that hold its columns, and its precision, 1 / variance of a cell; 0 if none holds them.

    Each table counts by its precision in the margin, which adds up the noise of its cells.
    """
    total, precision = np.zeros(()), 0.0
    for table in tables:
        if set(columns) <= set(table.columns):
            counts = marginalize(table.counts, table.columns, columns)
            weight = table.noise_std**-2 * counts.size / table.counts.size
            total, precision = total + weight * counts, precision + weight
    return total / precision if precision else total, precision


def contract(table: Floats, axes: Marginal, other: Floats, others: Marginal, out: Marginal) -> Floats:
    """Multiply two tables and sum out the columns that are not in `out`, as one batched matrix product."""
    size = dict(zip(axes + others, table.shape + other.shape, strict=True))
    batch = tuple(column for column in axes if column in others and column in out)
    gone = tuple(column for column in axes if column in others and column not in out)
    left = tuple(column for column in axes if column in out and column not in others)
    right = tuple(column for column in others if column in out and column not in axes)
    first = marginalize(table, axes, batch + left + gone)
    second = marginalize(other, others, batch + gone + right)
    cells = [prod(size[column] for column in part) for part in (batch, left, gone, right)]
    result = multiply(first.reshape(cells[0], cells[1], cells[2]), second.reshape(cells[0], cells[2], cells[3]))
    order = batch + left + right
    return result.reshape([size[column] for column in order]).transpose([order.index(column) for column in out])


def multiply(left: Floats, right: Floats) -> Floats:
    """A matrix product in portions for which BLAS starts no threads: on a busy machine these wait for each other."""
    rows, inner, columns = *left.shape[-2:], right.shape[-1]
    step = max(1, (1 << 18 if min(rows, columns) > 1 else 1 << 13) // max(1, rows * columns))
    result = left[..., :step] @ right[..., :step, :]
    for begin in range(step, inner, step):
        result += left[..., begin : begin + step] @ right[..., begin : begin + step, :]
    return result


def cramers_v(joint: Floats) -> float | None:
    r"""How far the two columns of a joint distribution are from independent: 0 if they are, 1 if one decides the other.

    .. math:: V = \sqrt{\frac{\phi^2}{\min(r, c) - 1}}, \qquad
              \phi^2 = \sum_{ij} \frac{(p_{ij} - p_{i\cdot} p_{\cdot j})^2}{p_{i\cdot} p_{\cdot j}}

    with r and c the numbers of cells that *occur*: φ² is at most min(r, c) - 1, and reaches it, with these alone, so a
    level that the schema lists and no row has does not make the same rows look less associated. None if a column does
    not vary.

    References: Cramér 1946, Mathematical Methods of Statistics, chapter 21 (page 282).

    >>> cramers_v(np.array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]))
    1.0
    """
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    joint, rows, columns = joint[rows > 0][:, columns > 0], rows[rows > 0], columns[columns > 0]
    if min(joint.shape) < 2:
        return None
    independent = np.outer(rows, columns)
    return min(1.0, sqrt(float(((joint - independent) ** 2 / independent).sum()) / (min(joint.shape) - 1)))


def _subsets(columns: Marginal) -> Iterable[Marginal]:
    return chain.from_iterable(combinations(columns, many) for many in range(len(columns) + 1))


def _effect(table: Floats) -> Floats:
    """What is left of a table after taking out its mean along every axis."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _assemble(sizes: Sequence[int], columns: Marginal, effects: Mapping[Marginal, tuple[Floats, float]]) -> Floats:
    """Add up the effects of all subsets of `columns`."""
    table = np.zeros([sizes[column] for column in columns])
    for part in _subsets(columns):
        spread = prod(sizes[column] for column in columns if column not in part)
        table += effects[part][0].reshape([sizes[column] if column in part else 1 for column in columns]) / spread
    return table
