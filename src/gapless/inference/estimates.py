"""Estimates from one table, with variances as if its rows were a sample.

`Estimates` is the common form of an estimator's result: names, estimates, and their sampling variances. `estimate`
answers a question on a public table in this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.grammar import value_columns
from gapless.data import Table
from gapless.errors import Argument, Call, Hint, ModelError, QuestionError
from gapless.inference import relations
from gapless.inference.intervals import share_variance
from gapless.query import Correlation, CrossTable, Mean, Proportion, Quantile, RankCorrelation, Regression
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import cell_numbers
from gapless.query.parsing import AnyQuestion
from gapless.query.questions import Question
from gapless.query.relations import is_dummy
from gapless.schema import Schema
from gapless.synth.measurements import Measurements
from gapless.types import Floats, Integers
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
    if not isinstance(question, Mean | Proportion | Quantile | CrossTable | Correlation | Regression):
        raise QuestionError(
            f"a release can estimate shares, means, quantiles and relations, but not {question}",
            hint=Hint("ask for a proportion, mean, median, quantile, table, correlation or regression")
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


def needed_together(question: AnyQuestion, schema: Schema) -> list[frozenset[int]]:
    """Return the sets of columns that must have been measured in one table each, by position.

    The coefficients of a linear regression follow from the moments of pairs of columns, under a condition from those
    of each pair with its columns. Other estimates need all their columns in one table.
    """
    columns = frozenset(schema.positions(sorted(columns_used(question, schema))))
    if not isinstance(question, Regression) or question.logistic:
        return [columns]
    places = schema.positions(question.columns)
    always = columns - frozenset(places)
    return [always.union(pair) for pair in combinations(places, 2)]


def estimate(
    question: AnyQuestion | CompiledQuestion, table: Table, measurements: Measurements | None = None
) -> Estimates:
    r"""Estimate the answer in each group with the table's weights, and its variance as if the rows were a sample.

    If `measurements` are given, each number counts as the mean of its bin (`Measurements.bin_means`). Bin means use
    signed counts, and have no sampling error from drawing values, which pooling would mistake for noise.

    With shares w of the weight that sum to 1, the variance is :math:`\sum w^2 (x - \bar x)^2` for means. For a
    proportion it is :math:`p (1 - p) \sum w^2` with p shrunk towards 1/2 by two rows of either kind, so that it is
    never 0. For a quantile it follows from the values 1.96 standard deviations of rank below and above (Woodruff 1952).
    `gapless.inference.relations` has those of correlations and regressions.
    """
    asked = question if isinstance(question, CompiledQuestion) else question.compile(table.schema)
    match asked.question:
        case CrossTable():
            return _cell_shares(_chosen(asked, table))
        case Correlation():
            return _correlations(_chosen(asked, table))
        case Regression():
            return _coefficients(_chosen(asked, table))
    groups = _groups(asked, table, measurements)
    pairs = [_estimate(asked.question, group) if len(group.values) else (np.nan, np.nan) for group in groups]
    values, variances = np.array(pairs).T
    return Estimates(tuple(group.name for group in groups), values, variances, rows=_rows(groups))


def support(question: Quantile, schema: Schema) -> tuple[Floats, Floats, Floats]:
    """Return the possible values of a quantile, ascending, and the least and the largest number in the cell of each."""
    numbers = cell_numbers(question.compile(schema).schema, question.column, None)
    values, first = np.unique(numbers.values, return_index=True)
    lows, highs = numbers.ends
    return values, lows[first], highs[first]


def cumulative_shares(question: Quantile | CompiledQuestion, table: Table, _: Measurements | None = None) -> Estimates:
    """Estimate the share of rows at or below each number of the `support`, group by group, with variances.

    Pooling uses these shares instead of a quantile. Quantiles jump between values of the support; shares do not.
    `quantile_bounds` turns their intervals into one for the quantile.
    """
    asked = question if isinstance(question, CompiledQuestion) else question.compile(table.schema)
    assert isinstance(asked.question, Quantile)  # noqa: S101 for mypy: called for quantiles only
    numbers, groups = np.unique(cell_numbers(asked.schema, asked.question.column, None).values), _groups(asked, table)
    shares, variances = np.full((2, len(groups), len(numbers)), np.nan)
    for index, group in enumerate(groups):
        if not len(group.values):
            continue
        part = group.mass / group.mass.sum()
        one_row = float((part**2).sum())
        below = np.minimum(np.cumsum(np.bincount(np.searchsorted(numbers, group.values), part, len(numbers))), 1.0)
        shares[index], variances[index] = below, share_variance(below, one_row)
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
    number and the share up to it. Where noise makes shares fall, the quantile is that of shares midway between the
    largest up to a number and the smallest from it on.

    >>> quantile_bounds(0.5, np.array([0.2, 0.51, 1.0]), np.array([0.1, 0.1, 0.0]))
    QuantileBounds(place=1, low=1, high=2)
    """
    last = len(shares) - 1
    upper, lower = np.append((shares + half)[:last], 1.0), np.append(0.0, (shares - half)[:last])
    rising = (np.maximum.accumulate(shares) + np.minimum.accumulate(shares[::-1])[::-1]) / 2
    place = int(np.argmax(np.append(rising[:last], 1.0) >= q))
    low, high = int(np.argmax(upper >= q)), last - int(np.argmax(lower[::-1] <= q))
    return QuantileBounds(place, min(low, place), max(high, place))


class _Chosen(NamedTuple):
    """The rows of a table as a question reads them: their codes, their group, and their weight, 0 if left out."""

    asked: CompiledQuestion
    codes: Mapping[str, NDArray[Any]]
    group: NDArray[np.int64]
    added: NDArray[np.int64]
    mass: Floats

    def numbers(self, column: str) -> Floats:
        """Return the number of each row in a column; NaN for *not applicable*."""
        numbers = cell_numbers(self.asked.schema, column, None).values
        return np.asarray(np.append(numbers, np.nan)[np.minimum(self.codes[column].astype(np.int64), len(numbers))])


def _chosen(asked: CompiledQuestion, table: Table) -> _Chosen:
    rebinned = table.rebin(asked.schema)
    codes = dict(zip(rebinned.schema.names, rebinned.codes, strict=True))
    group, added = asked.contribution.evaluate(codes)
    mass = np.where(added.any(axis=1), 1.0 if table.weights is None else table.weights, 0.0)
    return _Chosen(asked, codes, group, added, mass)


def _cell_shares(chosen: _Chosen) -> Estimates:
    names = tuple(", ".join(names) for names in chosen.asked.groups or [()])
    total = chosen.mass.sum()
    if not total:
        none = np.full(len(names), np.nan)
        return Estimates(names, none, none, rows=np.zeros(len(names)))
    shares = np.bincount(chosen.group, chosen.mass, len(names)) / total
    variances = share_variance(shares, float((chosen.mass**2).sum() / total**2))
    return Estimates(names, shares, variances, rows=np.full(len(names), total))


def _correlations(chosen: _Chosen) -> Estimates:
    question = chosen.asked.question
    assert isinstance(question, Correlation)  # noqa: S101 for mypy: called for correlations only
    names = tuple(", ".join(names) for names in chosen.asked.groups or [()])
    if isinstance(question, RankCorrelation):
        correlate, schema = relations.rank_correlation, chosen.asked.schema
        pair = [
            np.where(codes < schema[name].values_size, codes.astype(np.float64), np.nan)
            for name, codes in ((name, chosen.codes[name]) for name in (question.column, question.other))
        ]
    else:
        correlate = relations.correlation
        pair = [chosen.numbers(name) for name in (question.column, question.other)]
    known = (chosen.mass > 0) & ~np.isnan(pair[0] + pair[1])
    found, rows = np.full((2, len(names)), np.nan), np.zeros(len(names))
    for number in range(len(names)):
        here = known & (chosen.group == number)
        rows[number] = chosen.mass[here].sum()
        if rows[number]:
            found[:, number] = correlate(pair[0][here], pair[1][here], chosen.mass[here])
    return Estimates(names, found[0], found[1], rows=rows)


def _coefficients(chosen: _Chosen) -> Estimates:
    question, schema = chosen.asked.question, chosen.asked.schema
    assert isinstance(question, Regression)  # noqa: S101 for mypy: called for regressions only
    names, columns = ["intercept"], [np.ones(len(chosen.mass))]
    for name in question.regressors:
        column = schema[name]
        if is_dummy(column):
            names += [f"{name} == {level}" for level in column.cells[1 : column.size]]
            columns += list(relations.dummies(chosen.codes[name], column.size).T)
        else:
            names.append(name)
            columns.append(chosen.numbers(name))
    codes, size = chosen.codes[question.outcome], schema[question.outcome].values_size
    response = np.where(codes < size, codes, np.nan) if question.logistic else chosen.numbers(question.outcome)
    design = np.column_stack(columns)
    known = (chosen.mass > 0) & ~np.isnan(design.sum(axis=1) + response)
    rows = np.full(len(names), chosen.mass[known].sum())
    found = np.full((2, len(names)), np.nan)
    if known.any():
        found[:] = relations.regression(design[known], response[known], chosen.mass[known], logistic=question.logistic)
    return Estimates(tuple(names), found[0], found[1], rows=rows)


def cells_of_groups(asked: CompiledQuestion, table: Table) -> list[dict[str, Integers]]:
    """Return, for each group, the cells that its rows have in each column of a question, in the schema of the table."""
    chosen, found = _chosen(asked, table), []
    codes = dict(zip(table.schema.names, table.codes, strict=True))
    for number in range(len(asked.groups or [()])):
        here = (chosen.group == number) & (chosen.mass > 0)
        found.append({name: np.unique(codes[name][here]).astype(np.int64) for name in asked.contribution.columns})
    return found


class _Group(NamedTuple):
    """The rows of a group that count: their values, the means of their bins, and their weights."""

    name: str
    values: Floats
    expected: Floats
    mass: Floats


def _groups(asked: CompiledQuestion, table: Table, measurements: Measurements | None = None) -> list[_Group]:
    question, chosen = asked.question, _chosen(asked, table)
    values = _values(chosen)
    expected = values
    column = bin_mean_column(question)
    if isinstance(question, Mean) and column and measurements is not None:
        (position,) = table.schema.positions([column])
        numbers = cell_numbers(asked.schema, column, question.bounds).values
        means = np.append(measurements.bin_means(table.schema, position, numbers), np.nan)
        expected = means[np.minimum(table.codes[position].astype(np.int64), len(means) - 1)]
    groups = []
    for number, names in enumerate(asked.groups or [()]):
        here = (chosen.group == number) & (chosen.mass > 0) & ~np.isnan(values)
        groups.append(_Group(", ".join(names), values[here], expected[here], chosen.mass[here]))
    return groups


def _rows(groups: Sequence[_Group]) -> Floats:
    return np.array([group.mass.sum() for group in groups])


def _values(chosen: _Chosen) -> Floats:
    """Return the number of each row that is averaged or ranked; NaN for *not applicable*."""
    question, estimand = chosen.asked.question, chosen.asked.estimand
    if isinstance(question, Quantile):
        return chosen.numbers(question.column)
    low, high = (estimand.estimate(np.array(parts)) for parts in ((0.0, 1.0), (1.0, 0.0)))
    return np.asarray(low + (high - low) * chosen.added[:, 0] / np.maximum(chosen.added.sum(axis=1), 1))


def _estimate(question: Question, group: _Group) -> tuple[float, float]:
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
        return mean, float(share_variance(mean, one_row))
    return float(share @ group.expected), float((share**2) @ (values - mean) ** 2)
