"""Questions to a public table: what `ask` answers under noise, with the variance that a sample of its rows has."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.data import Table
from gapless.errors import QuestionError
from gapless.inference.estimates import Estimates
from gapless.model.marginal import Floats
from gapless.query import Mean, Proportion, Quantile, Variance
from gapless.query.compiled import Compiled
from gapless.query.numbers import numbers_of
from gapless.query.questions import AnyQuestion
from gapless.schema import Schema

_NORMAL = 1.96  # half the width of the ranks from which a quantile's variance is told, in standard deviations


def looked_at(question: AnyQuestion, schema: Schema) -> frozenset[str]:
    """The columns that a question looks at; questions that copies cannot answer are refused."""
    if not isinstance(question, Mean | Proportion | Quantile):
        why = "" if isinstance(question, Variance) else ": it counts one table, and there are several"
        raise QuestionError(
            f"{question} is not estimated from copies{why}",
            hint="mean, proportion, median or quantile; or ask the private table",
        )
    asked = question.compile(schema)
    if asked.tests:
        raise QuestionError(f"{question} looks at gaps, and copies have none", hint="ask the private table")
    return frozenset(asked.tally.columns)


def estimate(question: AnyQuestion, table: Table) -> Estimates:
    r"""The answer in each group, and its variance as if the rows were a sample; by the table's own weights.

    With shares w of the weight that add up to 1, the variance is :math:`\sum w^2 (x - \bar x)^2` for means; for a
    proportion :math:`p (1 - p) \sum w^2` with p drawn towards 1/2 by two rows of either kind, so that it is never 0;
    for a quantile it follows from the values 1.96 standard deviations of rank below and above (Woodruff 1952).
    """
    asked = question.compile(table.schema)
    told = table.told_by(asked.schema)
    rows = dict(zip(told.schema.names, told.codes, strict=True))
    group, added = asked.tally.of(rows)
    mass = np.where(added.any(axis=1), 1.0 if table.weights is None else table.weights, 0.0)
    values = _values(question, asked, rows, added)
    found = []
    for place in range(asked.tally.groups):
        here = (group == place) & (mass > 0) & ~np.isnan(values)
        found.append(_estimate(question, values[here], mass[here]) if here.any() else (np.nan, np.nan))
    names = [", ".join(names) for names in asked.groups or [()]]
    return Estimates(tuple(names), *np.array(found).T)


def _values(
    question: AnyQuestion, asked: Compiled, rows: Mapping[str, NDArray[Any]], added: NDArray[np.int64]
) -> Floats:
    """What is averaged or ranked in each row that counts; *not applicable* is no number."""
    if isinstance(question, Quantile):
        numbers = numbers_of(asked.schema, question.column, None).values
        places = np.minimum(rows[question.column].astype(np.int64), len(numbers))
        return np.asarray(np.append(numbers, np.nan)[places])
    low, high = (asked.shape.finish(np.array(parts)) for parts in ((0.0, 1.0), (1.0, 0.0)))
    return np.asarray(low + (high - low) * added[:, 0] / np.maximum(added.sum(axis=1), 1))


def _estimate(question: AnyQuestion, values: Floats, mass: Floats) -> tuple[float, float]:
    share = mass / mass.sum()
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
    return mean, float((share**2) @ (values - mean) ** 2)
