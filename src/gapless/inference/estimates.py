r"""Estimates from one table, and pooled intervals from several copies.

`Estimates` is the common form of an estimator's result: names, estimates, and their sampling variances. `estimate`
answers a question on a public table in this form.

**Pooling.** Each copy gives an estimate q and its sampling variance u, as if its rows were a sample. With means
:math:`\bar q, \bar u` and the variance b of the estimates over m copies (Rubin 1987, chapter 3):

.. math:: T = \bar u + (1 + \tfrac1m)\, b, \qquad
          \nu = (m - 1) \Bigl(1 + \frac{\bar u}{(1 + 1/m)\, b}\Bigr)^2, \qquad \mathrm{centre} \pm t_\nu \sqrt T.

u is the variance from sampling n rows; b is the variance from noise. Drawing rows from a model adds almost nothing to b
(`gapless.model.sampling`).

The centre is :math:`2 \hat q - \bar q`, where :math:`\hat q` is the estimate from the model that follows the released
tables. Clipping counts at 0 makes a bias that grows with the noise. The tables of copies have twice the variance of the
noise, so the change from :math:`\hat q` to :math:`\bar q` estimates this bias. It is subtracted (simulation
extrapolation: Cook, Stefanski 1994, a line through two points).

For columns with gaps or learned bins, whose counts cannot be negative in rows, a parametric bootstrap is computed too.
The interval has the bootstrap's centre, and at least its width. Means use signed counts (`Measurements.bin_means`) and
need this only for gaps. With q* the estimates of B replicates, the bootstrap interval is

.. math:: \hat q - (\bar q^* - q^\circ) \pm t_{B-1}\, s(q^*) \sqrt{1 + \tfrac1B}

where :math:`q^\circ` is the true value in the model that replicates come from. It is :math:`\hat q`, except for means,
since rows cannot have negative counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import value_columns
from gapless.data import Table
from gapless.errors import Argument, Call, Hint, ModelError, QuestionError
from gapless.query import Mean, Proportion, Quantile
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import cell_numbers
from gapless.query.questions import AnyQuestion
from gapless.schema import Schema
from gapless.synth.measurements import Measurements
from gapless.types import Floats
from gapless.weights import Estimate

FORMS = (
    "a tuple (estimates, variances), a dict {name: (estimate, variance)}, a weighted mean of gapless.weights, "
    "or a fitted model of statsmodels"
)


class Estimates(NamedTuple):
    """The estimates from one table.

    Attributes:
        names: of the estimates; "" for a single estimate.
        values: the estimates.
        variances: of the estimates, as if the rows were a sample from a population.
        design: for a linear regression, the columns of its design matrix, then the response. The coefficients follow
            from the second moments of these.
        rows: the number of rows behind each estimate, if known.
    """

    names: tuple[str, ...]
    values: Floats
    variances: Floats
    design: Floats | None = None
    rows: Floats | None = None


def estimates_of(result: Any) -> Estimates:
    """Convert the result of an estimator to `Estimates`."""
    try:
        converted = _estimates(result)
    except (TypeError, ValueError, KeyError, IndexError):
        converted = None
    if converted is None or converted.values.ndim != 1 or len(converted.names) != len(converted.values) != 0:
        raise ModelError(
            f"the estimator returned a {type(result).__name__} that cannot be pooled",
            hint=f"write an estimator that returns {FORMS}",
        )
    if converted.values.shape != converted.variances.shape:
        raise ModelError(
            "the estimator must return one variance for each estimate, "
            f"got estimates of shape {converted.values.shape} and variances of shape {converted.variances.shape}",
            hint=f"write an estimator that returns {FORMS}",
        )
    if (converted.variances < 0).any():
        raise ModelError(
            f"variances must be 0 or more, but the estimator returned {converted.variances.min():g}",
            hint="write an estimator that returns the square of each standard error",
        )
    return converted


def _estimates(result: Any) -> Estimates | None:
    if isinstance(result, Estimates):
        return result
    if hasattr(result, "params") and callable(getattr(result, "cov_params", None)):
        return _of_fitted(result)
    if isinstance(result, Estimate):
        return _named({"": result})
    if isinstance(result, Mapping):
        return _named(result)
    if not isinstance(result, tuple):  # a Series of two groups would unpack like an estimate and its variance
        return None
    values, variances = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in result)
    named = getattr(result[0], "index", None)  # of a Series
    names = range(1, len(values) + 1) if named is None or callable(named) else named
    return Estimates(("",) if len(values) == 1 else tuple(map(str, names)), values, variances)


def _named(result: Mapping[Any, Any]) -> Estimates:
    pairs = [
        (part.value, part.standard_error**2) if isinstance(part, Estimate) else tuple(part) for part in result.values()
    ]
    values, variances = np.array(pairs, dtype=np.float64).T
    return Estimates(tuple(map(str, result)), values, variances)


def _of_fitted(fitted: Any) -> Estimates:
    """Return the coefficients of a fitted statsmodels model; for a linear regression also its design."""
    values = np.asarray(fitted.params, dtype=np.float64)
    variances = np.diag(np.asarray(fitted.cov_params(), dtype=np.float64))
    names = getattr(fitted.params, "index", None)
    if names is None:
        names = fitted.model.exog_names
    design = None
    if type(fitted.model).__name__ in ("OLS", "WLS"):
        design = np.column_stack([fitted.model.wexog, fitted.model.wendog])  # scaled by the roots of weights
    return Estimates(tuple(map(str, names)), values, variances, design)


_NORMAL = 1.96  # half-width of the interval of ranks for a quantile's variance, in standard deviations


def columns_used(question: AnyQuestion, schema: Schema) -> frozenset[str]:
    """Return the columns that a question reads; refuse questions that copies cannot answer."""
    if not isinstance(question, Mean | Proportion | Quantile):
        raise QuestionError(
            f"copies can estimate means, proportions, medians and quantiles, but not {question}",
            hint=Hint("ask for a mean, proportion, median or quantile")
            | Hint("ask the private table with ", Call("people.ask", Call("Count"), Argument("spend", "5%"))),
        )
    compiled = question.compile(schema)
    if compiled.gap_columns:
        raise QuestionError(
            f"{question} tests for gaps, but copies have no gaps",
            hint=Hint("ask the private table with ", Call("people.ask", Call("Count"), Argument("spend", "5%"))),
        )
    return frozenset(compiled.contribution.columns)


def bin_mean_column(question: object) -> str | None:
    """Return the column of a mean that is computed from bin means: no condition and no group uses the column."""
    if not isinstance(question, Mean):
        return None
    looked = value_columns(question.condition).union(question.grouped_by)
    return None if question.column in looked else question.column


def estimate(question: AnyQuestion, table: Table, measurements: Measurements | None = None) -> Estimates:
    r"""Estimate the answer in each group with the table's weights, and its variance as if the rows were a sample.

    If `measurements` are given, each number counts as the mean of its bin (`Measurements.bin_means`). Bin means use
    signed counts, and have no sampling error from drawing values, which pooling would mistake for noise.

    With shares w of the weight that sum to 1, the variance is :math:`\sum w^2 (x - \bar x)^2` for means. For a
    proportion it is :math:`p (1 - p) \sum w^2` with p shrunk towards 1/2 by two rows of either kind, so that it is
    never 0. For a quantile it follows from the values 1.96 standard deviations of rank below and above (Woodruff 1952).
    """
    groups = _groups(question, table, measurements)
    pairs = [_estimate(question, group) if len(group.values) else (np.nan, np.nan) for group in groups]
    values, variances = np.array(pairs).T
    return Estimates(tuple(group.name for group in groups), values, variances, rows=_rows(groups))


def support(question: Quantile, schema: Schema) -> Floats:
    """Return the possible values of a quantile, ascending."""
    return np.unique(cell_numbers(question.compile(schema).schema, question.column, None).values)


def cumulative_shares(question: Quantile, table: Table, _: Measurements | None = None) -> Estimates:
    """Estimate the share of rows at or below each number of the `support`, group by group, with variances.

    Pooling uses these shares instead of a quantile. Quantiles jump between values of the support; shares do not.
    `quantile_bounds` turns their intervals into one for the quantile.
    """
    numbers, groups = support(question, table.schema), _groups(question, table)
    shares, variances = np.full((2, len(groups), len(numbers)), np.nan)
    for index, group in enumerate(groups):
        if not len(group.values):
            continue
        part = group.mass / group.mass.sum()
        one_row = float((part**2).sum())
        below = np.minimum(np.cumsum(np.bincount(np.searchsorted(numbers, group.values), part, len(numbers))), 1.0)
        drawn = (below + 2 * one_row) / (1 + 4 * one_row)
        shares[index], variances[index] = below, drawn * (1 - drawn) * one_row
    names = tuple(f"{group.name} ≤ {number:g}" for group in groups for number in numbers)
    rows = np.repeat(_rows(groups), len(numbers))
    return Estimates(names, shares.ravel(), variances.ravel(), rows=rows)


class QuantileBounds(NamedTuple):
    """The positions of a quantile and of the ends of its interval in the `support`."""

    place: int
    low: int
    high: int


def quantile_bounds(q: float, shares: Floats, half: Floats) -> QuantileBounds:
    """Return a quantile and its interval from shares of rows at or below each number, with half-widths.

    The interval has every number that is compatible with the intervals of shares: q may be between the share below the
    number and the share up to it.

    >>> quantile_bounds(0.5, np.array([0.2, 0.51, 1.0]), np.array([0.1, 0.1, 0.0]))
    QuantileBounds(place=1, low=1, high=2)
    """
    last = len(shares) - 1
    upper, lower = np.append((shares + half)[:last], 1.0), np.append(0.0, (shares - half)[:last])
    place = int(np.argmax(np.append(shares[:last], 1.0) >= q))
    low, high = int(np.argmax(upper >= q)), last - int(np.argmax(lower[::-1] <= q))
    return QuantileBounds(place, min(low, place), max(high, place))


class _Group(NamedTuple):
    """The rows of a group that count: their values, the means of their bins, and their weights."""

    name: str
    values: Floats
    expected: Floats
    mass: Floats


def _groups(question: AnyQuestion, table: Table, measurements: Measurements | None = None) -> list[_Group]:
    compiled = question.compile(table.schema)
    rebinned = table.rebin(compiled.schema)
    rows = dict(zip(rebinned.schema.names, rebinned.codes, strict=True))
    group, added = compiled.contribution.evaluate(rows)
    mass = np.where(added.any(axis=1), 1.0 if table.weights is None else table.weights, 0.0)
    values = _values(question, compiled, rows, added)
    expected = values
    column = bin_mean_column(question)
    if isinstance(question, Mean) and column and measurements is not None:
        (position,) = table.schema.positions([column])
        numbers = cell_numbers(compiled.schema, column, question.bounds).values
        means = np.append(measurements.bin_means(table.schema, position, numbers), np.nan)
        expected = means[np.minimum(table.codes[position].astype(np.int64), len(means) - 1)]
    groups = []
    for number, names in enumerate(compiled.groups or [()]):
        here = (group == number) & (mass > 0) & ~np.isnan(values)
        groups.append(_Group(", ".join(names), values[here], expected[here], mass[here]))
    return groups


def _rows(groups: Sequence[_Group]) -> Floats:
    return np.array([group.mass.sum() for group in groups])


def _values(
    question: AnyQuestion, compiled: CompiledQuestion, rows: Mapping[str, NDArray[Any]], added: NDArray[np.int64]
) -> Floats:
    """Return the number of each row that is averaged or ranked; NaN for *not applicable*."""
    if isinstance(question, Quantile):
        numbers = cell_numbers(compiled.schema, question.column, None).values
        places = np.minimum(rows[question.column].astype(np.int64), len(numbers))
        return np.asarray(np.append(numbers, np.nan)[places])
    low, high = (compiled.estimand.estimate(np.array(parts)) for parts in ((0.0, 1.0), (1.0, 0.0)))
    return np.asarray(low + (high - low) * added[:, 0] / np.maximum(added.sum(axis=1), 1))


def _estimate(question: AnyQuestion, group: _Group) -> tuple[float, float]:
    values, share = group.values, group.mass / group.mass.sum()
    one_row = float((share**2).sum())  # 1 / n without weights
    if isinstance(question, Quantile):
        spread = _NORMAL * sqrt(question.q * (1 - question.q) * one_row)
        order = np.argsort(values, kind="stable")
        below = np.cumsum(share[order]) * (1 + 1e-12)
        places = np.searchsorted(below, [question.q, question.q - spread, question.q + spread])
        middle, low, high = values[order][np.minimum(places, len(order) - 1)]
        return float(middle), float((high - low) / (2 * _NORMAL)) ** 2
    mean = float(share @ values)
    if isinstance(question, Proportion):
        drawn = (mean + 2 * one_row) / (1 + 4 * one_row)
        return mean, drawn * (1 - drawn) * one_row
    return float(share @ group.expected), float((share**2) @ (values - mean) ** 2)


LEVEL = 0.95
_MOST_FREEDOM = 1e6  # beyond, t is normal
_TWO_SIDED, _ONE_SIDED = 1.959964, 1.644854
_FAR = 8.0  # bias in standard errors from which only one tail of the interval matters


class Interval(NamedTuple):
    """The centre and half-width of each estimate's interval, and the degrees of freedom of Student's t."""

    centre: Floats
    half: Floats
    freedom: Floats


def rubin(estimate: Floats, estimates: Floats, variances: Floats) -> Interval:
    """Return Rubin's interval from copies × estimates and their variances; `estimate` is from the reference sample."""
    many = len(estimates)
    within = variances.mean(axis=0)
    noise = (1 + 1 / many) * estimates.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        freedom = np.where(noise > 0, (many - 1) * (1 + within / noise) ** 2, np.inf)
    freedom = np.minimum(freedom, _MOST_FREEDOM)
    return Interval(2 * estimate - estimates.mean(axis=0), quantile(freedom) * np.sqrt(within + noise), freedom)


def bootstrap(estimate: Floats, replicates: Floats, truth: Floats | None = None) -> Interval:
    """Return the bias-corrected interval of a parametric bootstrap, from the estimate and replicates × estimates.

    The bias is the mean of the replicates minus the truth in the model that they come from. By default this truth is
    the estimate.
    """
    many = len(replicates)
    freedom = np.full(estimate.shape, float(many - 1))
    half = quantile(freedom) * replicates.std(axis=0, ddof=1) * np.sqrt(1 + 1 / many)
    bias = replicates.mean(axis=0) - (estimate if truth is None else truth)
    return Interval(estimate - bias, half, freedom)


def widened(half: Floats, bias: Floats) -> Floats:
    r"""Widen half-widths so that intervals also cover a bias of either sign up to this size.

    With s the standard error of a half-width, the result is :math:`s \sqrt{\chi^2_1(b^2 / s^2)}` with the 95 % quantile
    of the noncentral distribution. The absolute value of a normal variable with mean b exceeds it in 5 % of cases
    (Armstrong, Kolesár 2018).
    """
    from scipy.special import chndtrix  # noqa: PLC0415 slow to load

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.minimum(bias / (half / _TWO_SIDED), _FAR)
    more = np.where(ratio > 0, np.sqrt(chndtrix(LEVEL, 1.0, np.nan_to_num(ratio) ** 2)) / _TWO_SIDED, 1.0)
    far = bias + half * _ONE_SIDED / _TWO_SIDED
    return np.asarray(np.where(ratio >= _FAR, far, half * more))


def quantile(freedom: Floats) -> Floats:
    """Return the two-sided 95 % quantile of Student's t."""
    from scipy.special import stdtrit  # noqa: PLC0415 slow to load

    return np.asarray(stdtrit(freedom, (1 + LEVEL) / 2))
