r"""Which estimates a release supports, and how sensitive they are to dependence within bins.

**Support** is a public fact. A model of measured tables estimates the dependence between the columns of each table, up
to noise. Other dependence follows from assumptions, and no interval covers an assumption. So an estimate is
*supported* if all columns that it reads were measured in one table. The coefficients of a linear regression follow from
second moments. They are supported if each pair of columns of the design was measured in one table.

The columns that a function reads are found by changing them: the function is applied to a copy in which some columns
hold other cells. Sets of columns are halved until single columns are left.

**Dependence within bins.** A release shows how bins depend on other columns. Dependence within a bin was not measured:
values in a bin are drawn from their column's distribution only. If there is such dependence, this biases slopes,
correlations and differences of groups towards zero. So an estimate is computed again from rows in which the values of
every bin are *reassigned*: rows whose other cells are like those of the next higher bin get the higher values. The
values, and so all statistics of the column alone, stay the same. The change of the estimate is taken as the size of a
bias of unknown sign (`gapless.inference.intervals.widened`).

The reassignment uses normal scores. Let u be the standard normal score of a value in its column. In a bin b with
scores from a to a', u has

.. math:: t_b = \frac{\varphi(a) - \varphi(a')}{p_b}, \qquad v_b = 1 + \frac{a \varphi(a) - a' \varphi(a')}{p_b} - t_b^2

as mean and variance. Suppose that near b the odds of cells z of other columns grow by :math:`e^{\theta(z) u}`, as they
do if columns are normal. Then t has, in b and the two adjacent bins, the mean
:math:`\operatorname{Var}(t \mid z)\,\theta(z)` given z, up to a constant. So a regression with one effect for each cell
estimates θ. θ is as informative about u as a normal measurement of precision τ, with
:math:`\operatorname{Var}(\theta) = \tau + \tau^2 v_b` in the bin. Values are sorted; rows are sorted by a score with
the correlation :math:`\sqrt{v_b \tau / (1 + v_b \tau)}` with u; and both are matched in this order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from gapless.data import Table
from gapless.errors import Argument, Call, Hint
from gapless.inference.estimates import Estimates
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.text import listing
from gapless.types import Floats, Integers

Estimator = Callable[[Table], Estimates]
Bools = NDArray[np.bool_]


def required_columns(estimator: Estimator, table: Table, result: Estimates) -> list[list[frozenset[int]]]:
    """Return, for each estimate, the sets of columns that must have been measured in one table each, by position.

    Args:
        estimator: the function to examine.
        table: a copy.
        result: the result of the estimator for this copy.
    """
    many = len(result.values) if result.design is None else result.design.shape[1]
    looks = np.zeros((len(table.codes), many), dtype=np.bool_)
    _look(estimator, table, result, list(range(len(table.codes))), looks)
    parts = [frozenset(np.flatnonzero(looks[:, place]).tolist()) for place in range(many)]
    if result.design is None:
        return [[part] for part in parts]
    pairs = {first | second for first, second in combinations_with_replacement(parts, 2)}
    return [list(pairs)] * len(result.values)


def _look(estimator: Estimator, table: Table, result: Estimates, columns: Sequence[int], looks: Bools) -> None:
    """Mark in `looks` which estimates read each of these columns."""
    changed = _changed(estimator, table, result, columns)
    if not changed.any():
        return
    if len(columns) == 1:
        looks[columns[0]] = changed
        return
    half = len(columns) // 2
    for part in (columns[:half], columns[half:]):
        _look(estimator, table, result, part, looks)


def _changed(estimator: Estimator, table: Table, result: Estimates, columns: Sequence[int]) -> Bools:
    """Return which estimates change if these columns hold random cells, only the first cell, or only the last."""
    rng = np.random.default_rng(len(columns))
    sizes = [column.size for column in table.schema.columns]
    fillings: tuple[Callable[[int], NDArray[np.int64]], ...] = (
        lambda size: rng.integers(size, size=table.rows),
        lambda _: np.zeros(table.rows, dtype=np.int64),
        lambda size: np.full(table.rows, size - 1),
    )
    before = _shown(result)
    changed = np.zeros(before.shape[1], dtype=np.bool_)
    for filling in fillings[: 1 if result.design is not None else 3]:  # one change is enough for a design
        codes = [filling(sizes[c]) if c in columns else codes for c, codes in enumerate(table.codes)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                after = _shown(estimator(table.with_codes(codes, schema=table.schema, seed=1)))
        except Exception:  # noqa: BLE001 a function that fails on changed columns read them
            return np.ones_like(changed)
        if after.shape != before.shape:
            return np.ones_like(changed)
        changed |= ~((after == before) | (np.isnan(after) & np.isnan(before))).all(axis=0)
        if changed.all():
            break
    return changed


def _shown(result: Estimates) -> NDArray[np.float64]:
    return np.stack([result.values, result.variances]) if result.design is None else result.design


def not_measured(needs: Iterable[frozenset[int]], together: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Return the largest sets of columns that were not measured in one table."""
    lacking = {need for need in needs if need and not any(need <= columns for columns in together)}
    return [need for need in sorted(lacking, key=sorted) if not any(need < other for other in lacking)]


def unsupported(model: FittedModel, needs: Sequence[frozenset[int]]) -> str:
    """Return the reason for a missing interval; an empty text if there is an interval."""
    measurements, names = model.measurements, model.schema.names
    assert measurements is not None  # noqa: S101 for mypy: else there are no copies
    lacking = not_measured(needs, measurements.jointly_measured(model.schema))
    if lacking:
        described = [" × ".join(names[c] for c in sorted(columns)) for columns in lacking]
        tables = [tuple(names[c] for c in sorted(columns)) for columns in lacking]
        was, object_form = ("was", "it") if len(described) == 1 else ("were", "them")
        kept = " in a table that rows of a network keep" if measurements.nodes else ""
        return Hint(
            f"not supported by this release: {listing(described)} {was} not measured{kept}; ",
            Call("AIM", Argument("always", tables)),
            f" measures {object_form}",
        )
    if not measurements.extended and any(column.gaps for column in model.schema.columns):
        extended = Argument("missing", Call("Extended"))
        return Hint("not supported by this release: gaps were not measured; ", extended, " measures them")
    columns = sorted(frozenset().union(*needs))
    whole = [names[c] for c in binned(model.schema, columns) if model.schema.columns[c].values_size == 1]
    if whole and (len(columns) > 1 or whole[0] not in model.within_bin_counts):
        lost = "so relations with other columns were" if len(columns) > 1 else "and where they are in it was"
        return (
            f"not supported by this release: all values of {listing(whole)} are in one bin, {lost} not measured; more "
            "of the budget, or declared bins, would help"
        )
    hidden = [
        names[c] for c in columns if model.schema.columns[c].gaps and measurements.is_below_noise(model.schema, c)
    ]
    if hidden:
        return (
            f"not supported by this release: noise hides the rows in which {listing(hidden)} "
            f"{'is' if len(hidden) == 1 else 'are'} observed; more of the budget, or fewer cells, would show them"
        )
    return ""


MOST_INSIDE = 0.1  # of what dependence inside one bin of each column could add to a correlation


def varies_inside_bins(table: Table, columns: Iterable[int]) -> list[int]:
    r"""Return the two columns whose relation is mostly a matter of values inside two bins; none if there are none.

    With :math:`\eta` the share of a column's variance that is inside one bin, dependence inside two bins changes the
    correlation of two columns by at most :math:`\sqrt{\eta_1 \eta_2}` (Cauchy, Schwarz). In long tails this is large:
    the last bin holds much of the variance, and no release shows how two columns go together in it.
    """
    shares = {c: _share_inside(table, c) for c in binned(table.schema, columns)}
    most = sorted(shares, key=lambda c: shares[c])[-2:]
    return sorted(most) if len(most) == 2 and np.sqrt(np.prod([shares[c] for c in most])) > MOST_INSIDE else []


def _share_inside(table: Table, column: int) -> float:
    """Return the largest share of the variance of a binned column's values that is inside one bin."""
    values, codes, bins = table.numeric_values(column), table.codes[column], table.schema.columns[column].values_size
    assert values is not None  # noqa: S101 for mypy: the column is numeric
    values, codes = values[codes < bins].astype(np.float64), codes[codes < bins].astype(np.int64)
    means = np.bincount(codes, values, bins) / np.maximum(np.bincount(codes, minlength=bins), 1)
    squares = np.bincount(codes, np.square(values - means[codes]), bins)
    return float(squares.max() / max(len(values) * values.var(), np.finfo(float).tiny)) if len(values) else 0.0


SWEEPS = 4  # of backfitting
SHRINK = 20.0  # rows: the effect of a cell with this many rows is halved
LEAST = 0.01  # least residual variance of scores given other cells, as a share of their variance


def binned(schema: Schema, columns: Iterable[int]) -> list[int]:
    """Return those of these columns that have bins with several values."""
    return [
        c
        for c in sorted(columns)
        if isinstance(column := schema.columns[c], BinnedColumn) and column.values_size < column.finest.values_size
    ]


def reassign_within_bins(table: Table, columns: Iterable[int], rng: np.random.Generator) -> Table:
    """Return the rows, with the values in each bin of these columns reassigned by the cells of the other columns."""
    columns = sorted(columns)
    sizes = [column.size for column in table.schema.columns]
    codes = {c: np.minimum(table.codes[c].astype(np.int64), sizes[c]) for c in columns}
    values = {}
    for c in binned(table.schema, columns):
        column, positions = table.schema.columns[c], table.numeric_values(c)
        assert isinstance(column, BinnedColumn)  # noqa: S101 for mypy: by `binned`
        assert positions is not None  # noqa: S101 for mypy: the column is numeric
        others = [(codes[other], sizes[other] + 1) for other in columns if other != c]
        values[c] = _reassign(positions, np.minimum(codes[c], column.values_size), column.values_size, others, rng)
    return table.with_values(values)


def _reassign(
    values: Floats, bin_of: Integers, bins: int, others: Sequence[tuple[Integers, int]], rng: np.random.Generator
) -> Floats:
    """Permute the values of one column within bins; the module's text has the formulas."""
    counts = np.bincount(bin_of, minlength=bins + 1)
    means, variances = _scores(counts[:bins] / max(1, counts[:bins].sum()))
    theta = np.zeros(len(bin_of))
    for number in range(bins):
        near = np.flatnonzero((np.abs(bin_of - number) <= 1) & (bin_of < bins))
        score = means[bin_of[near]]
        if len(near) and score.var() > 0:
            effect = _additive(score - score.mean(), [(codes[near], size) for codes, size in others])
            here = bin_of[near] == number
            theta[near[here]] = effect[here] / max(score.var() - effect.var(), LEAST * score.var())
    counts = np.maximum(counts, 1)
    theta -= (np.bincount(bin_of, theta, minlength=bins + 1) / counts)[bin_of]
    square, within = np.bincount(bin_of, theta**2, minlength=bins + 1) / counts, np.append(variances, 0.0)
    precision = (np.sqrt(1 + 4 * within * square) - 1) / 2  # v τ
    score = theta * np.sqrt(precision / (1 + precision) / np.maximum(square, 1e-300))[bin_of]
    score += np.sqrt(1 / (1 + precision))[bin_of] * rng.standard_normal(len(bin_of))
    reassigned = np.empty_like(values)
    reassigned[np.lexsort((score, bin_of))] = values[np.lexsort((values, bin_of))]
    return reassigned


def _additive(response: Floats, others: Sequence[tuple[Integers, int]]) -> Floats:
    """Return the fitted values of an additive regression on the cells of each column, by backfitting."""
    effects = [np.zeros(size) for _, size in others]
    left = response
    for _ in range(SWEEPS):
        for index, (codes, size) in enumerate(others):
            left = left + effects[index][codes]
            effects[index] = np.bincount(codes, left, size) / (np.bincount(codes, minlength=size) + SHRINK)
            left = left - effects[index][codes]
    return response - left


def _scores(share: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the variance of normal scores in each bin."""
    from scipy.special import ndtri  # noqa: PLC0415 slow to load

    ends = ndtri(np.clip(np.append(0.0, np.cumsum(share)), 0.0, 1.0))
    inner = np.where(np.isfinite(ends), ends, 0.0)
    height = np.where(np.isfinite(ends), np.exp(-(inner**2) / 2) / np.sqrt(2 * np.pi), 0.0)
    held = np.maximum(share, 1e-300)
    means = np.where(share > 0, -np.diff(height) / held, 0.0)
    return means, np.where(share > 0, np.clip(1 - np.diff(inner * height) / held - means**2, 0.0, 1.0), 0.0)
