r"""Estimates from one table, and from several copies of it with an interval.

What an estimator says of one table, in one form: names, estimates, and their variances as if rows were a sample.

Questions to a public table: what `ask` answers under noise, with the variance that a sample of its rows has.

From the estimates of several copies to one with an interval.

Copy j gives an estimate q and its sampling variance u, as if its rows were a sample. With means :math:`\bar q, \bar u`
and the variance b of the estimates (Rubin 1987, chapter 3):

.. math:: T = \bar u + (1 + \tfrac1m)\, b, \qquad
          \nu = (m - 1) \Bigl(1 + \frac{\bar u}{(1 + 1/m)\, b}\Bigr)^2, \qquad \mathrm{centre} \pm t_\nu \sqrt T.

u is what a sample of n rows varies by; b is what noise varies by, as long as drawing rows adds next to nothing
(`gapless.model.sampling`).

The centre is :math:`2 \hat q - \bar q` with :math:`\hat q` the estimate of the model that follows the released tables
themselves. That no count is below 0 makes a bias that grows with the noise. The tables of copies have twice its
variance: what that changes is taken off once more (Cook, Stefanski 1994, a line through two points).

With gaps, and on lines of learned cells, none of which can be below 0 in rows, the interval must also be as wide as a
parametric bootstrap says, whose centre is taken then; means follow signed counts (`Measurements.bin_means`) and need it
for gaps alone. With q* the estimates of B replicates,

.. math:: \hat q - (\bar q^* - q^\circ) \pm t_{B-1}\, s(q^*) \sqrt{1 + \tfrac1B}

with :math:`q^\circ` what is true of the model that replicates come from: :math:`\hat q`, but for means, since rows have
no counts below 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import value_columns
from gapless.data import Table
from gapless.errors import ModelError, QuestionError
from gapless.query import Mean, Proportion, Quantile, Variance
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import cell_numbers
from gapless.query.questions import AnyQuestion
from gapless.schema import Schema
from gapless.synth.measurements import Measurements
from gapless.types import Floats
from gapless.weights import Estimate

FORMS = (
    "a tuple (estimates, variances), {name: (estimate, variance)}, what weighted_mean gives, "
    "or a fitted model of statsmodels"
)


class Estimates(NamedTuple):
    """The estimates from one table.

    Attributes:
        names: of the estimates; "" if there is one alone.
        values: the estimates.
        variances: theirs, as if the rows were a sample from a population.
        design: of a linear regression, its columns and last what it explains: its coefficients follow from how each
            two of these go together.
        rows: how many rows each estimate rests on, where that is known.
    """

    names: tuple[str, ...]
    values: Floats
    variances: Floats
    design: Floats | None = None
    rows: Floats | None = None


def estimates_of(result: Any) -> Estimates:
    """What an estimator returned, in one form."""
    try:
        found = _estimates(result)
    except (TypeError, ValueError, KeyError, IndexError):
        found = None
    if found is None or found.values.ndim != 1 or len(found.names) != len(found.values) != 0:
        raise ModelError(f"an estimator returned a {type(result).__name__} that cannot be pooled", hint=f"give {FORMS}")
    if found.values.shape != found.variances.shape or (found.variances < 0).any():
        raise ModelError("an estimator returned variances that do not fit its estimates", hint=f"give {FORMS}")
    return found


def _estimates(result: Any) -> Estimates | None:
    if isinstance(result, Estimates):
        return result
    if hasattr(result, "params") and callable(getattr(result, "cov_params", None)):
        return _of_fitted(result)
    if isinstance(result, Estimate):
        return _named({"": result})
    if isinstance(result, Mapping):
        return _named(result)
    if not isinstance(result, tuple):  # two groups of a Series are no estimate and its variance
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
    """The coefficients of a fitted model as statsmodels gives it; of a linear one its design too."""
    values = np.asarray(fitted.params, dtype=np.float64)
    variances = np.diag(np.asarray(fitted.cov_params(), dtype=np.float64))
    names = getattr(fitted.params, "index", None)
    if names is None:
        names = fitted.model.exog_names
    design = None
    if type(fitted.model).__name__ in ("OLS", "WLS"):
        design = np.column_stack([fitted.model.wexog, fitted.model.wendog])  # times the roots of weights
    return Estimates(tuple(map(str, names)), values, variances, design)


_NORMAL = 1.96  # half-width of the interval of ranks for a quantile's variance, in standard deviations


def columns_used(question: AnyQuestion, schema: Schema) -> frozenset[str]:
    """The columns that a question looks at; questions that copies cannot answer are refused."""
    if not isinstance(question, Mean | Proportion | Quantile):
        why = "" if isinstance(question, Variance) else ": it counts one table, and there are several"
        raise QuestionError(
            f"{question} is not estimated from copies{why}",
            hint="ask for a mean, proportion, median or quantile, or ask the private table",
        )
    asked = question.compile(schema)
    if asked.gap_columns:
        raise QuestionError(f"{question} looks at gaps, and copies have none", hint="ask the private table")
    return frozenset(asked.contribution.columns)


def bin_mean_column(question: object) -> str | None:
    """The column of a mean that is computed from the means of its bins: no condition and no group uses it."""
    if not isinstance(question, Mean):
        return None
    looked = value_columns(question.condition).union(question.grouped_by)
    return None if question.column in looked else question.column


def estimate(question: AnyQuestion, table: Table, measurements: Measurements | None = None) -> Estimates:
    r"""The answer in each group, and its variance as if the rows were a sample; by the table's own weights.

    Where it is known what the table was learned from, numbers count as the mean of their bin
    (`Measurements.bin_means`), which has counts below zero in it, and no chance of drawing values: that would be taken
    for noise.

    With shares w of the weight that add up to 1, the variance is :math:`\sum w^2 (x - \bar x)^2` for means; for a
    proportion :math:`p (1 - p) \sum w^2` with p drawn towards 1/2 by two rows of either kind, so that it is never 0;
    for a quantile it follows from the values 1.96 standard deviations of rank below and above (Woodruff 1952).
    """
    groups = _groups(question, table, measurements)
    found = [_estimate(question, group) if len(group.values) else (np.nan, np.nan) for group in groups]
    values, variances = np.array(found).T
    return Estimates(tuple(group.name for group in groups), values, variances, rows=_rows(groups))


def support(question: Quantile, schema: Schema) -> Floats:
    """The numbers that a quantile may be, ascending."""
    return np.unique(cell_numbers(question.compile(schema).schema, question.column, None).values)


def cumulative_shares(question: Quantile, table: Table, _: Measurements | None = None) -> Estimates:
    """The shares of rows at or below each number of the `support`, group by group, with their variances.

    What pooling asks in place of a quantile: quantiles jump from number to number, shares do not, so that their
    intervals can be turned into one for the quantile (`quantile_bounds`).
    """
    numbers, groups = support(question, table.schema), _groups(question, table)
    shares, variances = np.full((2, len(groups), len(numbers)), np.nan)
    for place, group in enumerate(groups):
        if not len(group.values):
            continue
        part = group.mass / group.mass.sum()
        one_row = float((part**2).sum())
        below = np.minimum(np.cumsum(np.bincount(np.searchsorted(numbers, group.values), part, len(numbers))), 1.0)
        drawn = (below + 2 * one_row) / (1 + 4 * one_row)
        shares[place], variances[place] = below, drawn * (1 - drawn) * one_row
    names = tuple(f"{group.name} ≤ {number:g}" for group in groups for number in numbers)
    rows = np.repeat(_rows(groups), len(numbers))
    return Estimates(names, shares.ravel(), variances.ravel(), rows=rows)


class QuantileBounds(NamedTuple):
    """The places of a quantile and of its interval in the `support`."""

    place: int
    low: int
    high: int


def quantile_bounds(q: float, shares: Floats, half: Floats) -> QuantileBounds:
    """A quantile from the shares of rows at or below each number, and the half-widths of their intervals.

    A number may be the quantile if q may be between the share below it and the share up to it: the interval has all of
    these, and with them a neighbour that as much as half of the chance is for.

    >>> quantile_bounds(0.5, np.array([0.2, 0.51, 1.0]), np.array([0.1, 0.1, 0.0]))
    QuantileBounds(place=1, low=1, high=2)
    """
    last = len(shares) - 1
    upper, lower = np.append((shares + half)[:last], 1.0), np.append(0.0, (shares - half)[:last])
    place = int(np.argmax(np.append(shares[:last], 1.0) >= q))
    low, high = int(np.argmax(upper >= q)), last - int(np.argmax(lower[::-1] <= q))
    return QuantileBounds(place, min(low, place), max(high, place))


class _Group(NamedTuple):
    """The rows of a group that count: their values, what is expected of these, and what they weigh."""

    name: str
    values: Floats
    expected: Floats
    mass: Floats


def _groups(question: AnyQuestion, table: Table, measurements: Measurements | None = None) -> list[_Group]:
    asked = question.compile(table.schema)
    rebinned = table.rebin(asked.schema)
    rows = dict(zip(rebinned.schema.names, rebinned.codes, strict=True))
    group, added = asked.contribution.evaluate(rows)
    mass = np.where(added.any(axis=1), 1.0 if table.weights is None else table.weights, 0.0)
    values = _values(question, asked, rows, added)
    expected = values
    column = bin_mean_column(question)
    if isinstance(question, Mean) and column and measurements is not None:
        (place,) = table.schema.positions([column])
        numbers = cell_numbers(asked.schema, column, question.bounds).values
        means = np.append(measurements.bin_means(table.schema, place, numbers), np.nan)
        expected = means[np.minimum(table.codes[place].astype(np.int64), len(means) - 1)]
    found = []
    for place, names in enumerate(asked.groups or [()]):
        here = (group == place) & (mass > 0) & ~np.isnan(values)
        found.append(_Group(", ".join(names), values[here], expected[here], mass[here]))
    return found


def _rows(groups: Sequence[_Group]) -> Floats:
    return np.array([group.mass.sum() for group in groups])


def _values(
    question: AnyQuestion, asked: CompiledQuestion, rows: Mapping[str, NDArray[Any]], added: NDArray[np.int64]
) -> Floats:
    """What is averaged or ranked in each row that counts; *not applicable* is no number."""
    if isinstance(question, Quantile):
        numbers = cell_numbers(asked.schema, question.column, None).values
        places = np.minimum(rows[question.column].astype(np.int64), len(numbers))
        return np.asarray(np.append(numbers, np.nan)[places])
    low, high = (asked.estimand.estimate(np.array(parts)) for parts in ((0.0, 1.0), (1.0, 0.0)))
    return np.asarray(low + (high - low) * added[:, 0] / np.maximum(added.sum(axis=1), 1))


def _estimate(question: AnyQuestion, group: _Group) -> tuple[float, float]:
    values, share = group.values, group.mass / group.mass.sum()
    one_row = float((share**2).sum())  # of a row without weights, 1 / n
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
_FAR = 8.0  # standard errors, from which a bias has one side


class Interval(NamedTuple):
    """Centres and half-widths, one of each for every estimate; freedom is that of Student's t."""

    centre: Floats
    half: Floats
    freedom: Floats


def rubin(estimate: Floats, estimates: Floats, variances: Floats) -> Interval:
    """Rubin's interval from copies × estimates and as many variances, about the estimate without their noise."""
    many = len(estimates)
    within = variances.mean(axis=0)
    noise = (1 + 1 / many) * estimates.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        freedom = np.where(noise > 0, (many - 1) * (1 + within / noise) ** 2, np.inf)
    freedom = np.minimum(freedom, _MOST_FREEDOM)
    return Interval(2 * estimate - estimates.mean(axis=0), quantile(freedom) * np.sqrt(within + noise), freedom)


def bootstrap(estimate: Floats, replicates: Floats, truth: Floats | None = None) -> Interval:
    """The interval of a parametric bootstrap, its bias taken off; from the estimate and replicates × estimates.

    The bias is what replicates are off by from the truth of the model that they come from; this is the estimate itself,
    unless another is given.
    """
    many = len(replicates)
    freedom = np.full(estimate.shape, float(many - 1))
    half = quantile(freedom) * replicates.std(axis=0, ddof=1) * np.sqrt(1 + 1 / many)
    bias = replicates.mean(axis=0) - (estimate if truth is None else truth)
    return Interval(estimate - bias, half, freedom)


def widened(half: Floats, bias: Floats) -> Floats:
    r"""Half-widths of intervals that hold a bias of either sign, up to this size, as well.

    With s the standard error behind a half-width, that is :math:`s \sqrt{\chi^2_1(b^2 / s^2)}` at 95 %, the quantile of
    the noncentral distribution: what is exceeded by the absolute value of a normal variable with mean b in 5 % of cases
    (Armstrong, Kolesár 2018).
    """
    from scipy.special import chndtrix  # noqa: PLC0415 slow to load

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.minimum(bias / (half / _TWO_SIDED), _FAR)
    more = np.where(ratio > 0, np.sqrt(chndtrix(LEVEL, 1.0, np.nan_to_num(ratio) ** 2)) / _TWO_SIDED, 1.0)
    far = bias + half * _ONE_SIDED / _TWO_SIDED
    return np.asarray(np.where(ratio >= _FAR, far, half * more))


def quantile(freedom: Floats) -> Floats:
    """Student's t that is exceeded, either way, in 5 % of cases."""
    from scipy.special import stdtrit  # noqa: PLC0415 slow to load

    return np.asarray(stdtrit(freedom, (1 + LEVEL) / 2))
