"""Answers from released counts in closed form: to questions about one column, or the ranks of one measured pair.

`gapless.pool` answers with them where it can, and the report prints the same numbers (`gapless.inference.precision`,
`gapless.inference.associations`). Copies answer the rest. They also answer where cells may be missing, because they
fill gaps given other columns, while counts are of observed rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gapless.inference.associations import SPEARMAN, pair_precision
from gapless.inference.intervals import TWO_SIDED
from gapless.inference.precision import ColumnPrecision, Ratio, is_binned, precision_of
from gapless.query import CrossTable, Mean, Proportion, Quantile, RankCorrelation
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import cell_numbers
from gapless.synth.fitted import FittedModel
from gapless.types import Floats

FEW_PLACES = 200  # at which the noise in cumulative shares is computed; between them it is interpolated


class Answers(NamedTuple):
    """Estimates in closed form: of each group, or for a quantile of the cumulative share up to each number.

    Attributes:
        values: the estimates.
        halves: of their 95 % intervals.
        sampling_stds: what sampling alone adds to their standard errors.
        is_hidden: whether noise hides the rows that the estimate is about.
    """

    values: Floats
    halves: Floats
    sampling_stds: Floats
    is_hidden: list[bool]


def closed_form(model: FittedModel, asked: CompiledQuestion) -> Answers | None:
    """Return the answers in closed form; None if the question needs copies."""
    names, question, schema = asked.contribution.columns, asked.question, model.schema
    if any(schema[name].gaps for name in names) or asked.gap_columns:
        return None
    if isinstance(question, RankCorrelation):
        return None if question.where or question.by else _rank_correlation(model, names)
    if len(names) != 1 or not isinstance(question, Mean | Proportion | CrossTable | Quantile):
        return None
    (place,) = schema.positions(names)
    column = precision_of(model, place)
    return None if column.unsupported else _answers(column, asked, names[0])


def _rank_correlation(model: FittedModel, names: tuple[str, ...]) -> Answers | None:
    pairs = pair_precision(model, only=frozenset(model.schema.positions(names)))
    if not pairs or pairs[0].measure != SPEARMAN:  # a column without an order, such as a boolean, has Cramér's V
        return None
    (pair,) = pairs
    half = max(pair.value - pair.low, pair.high - pair.value)  # one end may be cut at 1 or -1
    return Answers(np.array([pair.value]), np.array([half]), np.array([pair.sampling_std]), [False])


def _answers(column: ColumnPrecision, asked: CompiledQuestion, name: str) -> Answers | None:
    question, here, codes = asked.question, asked.schema[name], np.arange(column.column.size)
    if is_binned(column.column) and is_binned(here):  # finer than the bins, if a condition divides one
        finest = column.column.finest
        codes = finest.regroup(here)[: finest.size]
    group, added = asked.contribution.evaluate({name: codes.astype(np.uint32)})
    counts: Floats = np.asarray(added.any(axis=1), dtype=np.float64)
    wholes: list[Floats] = [counts * (group == cell) for cell in range(len(asked.groups or [()]))]
    if isinstance(question, CrossTable):
        return _gather(column, [(part, counts, True) for part in wholes])
    if isinstance(question, Proportion):
        return _gather(column, [(added[:, 0] * whole, whole, True) for whole in wholes])
    assert isinstance(question, Mean | Quantile)  # noqa: S101 for mypy: by `closed_form`
    numbers = cell_numbers(asked.schema, name, question.bounds if isinstance(question, Mean) else None).values
    numbers = np.append(numbers, np.zeros(here.size - len(numbers)))[codes]
    if isinstance(question, Mean):
        return _gather(column, [(numbers * whole, whole, False) for whole in wholes])
    is_value = codes < here.values_size
    return None if asked.groups else _cumulative(column, numbers[is_value], np.where(is_value, counts, 0.0))


def _gather(column: ColumnPrecision, parts: Sequence[tuple[Any, Floats, bool]]) -> Answers:
    found = [column.ratio(part, whole, is_share=is_share) for part, whole, is_share in parts]
    hidden = [_is_hidden(column, whole) for _, whole, _ in parts]
    values, halves, sampling = (
        np.array(some) for some in zip(*((ratio.value, ratio.half, ratio.sampling_std) for ratio in found), strict=True)
    )
    return Answers(values, halves, sampling, hidden)


def _cumulative(column: ColumnPrecision, numbers: Floats, whole: Floats) -> Answers:
    """Estimate the share of rows at or below each number; noise may make it fall."""
    support, position = np.unique(numbers, return_inverse=True)
    values = len(numbers)
    rows = max(float(column.signed_cells @ whole), column.noise(whole), 1e-9)
    steps = np.bincount(position, (column.signed_cells * whole)[:values], len(support))
    shares = np.cumsum(steps) / rows
    every = max(1, len(support) // FEW_PLACES)
    edges = position[np.flatnonzero(np.diff(column.bins[:values], append=-1))]
    places = np.union1d(np.arange(0, len(support), every), edges)

    def at(place: int) -> Ratio:
        below = whole.copy()
        below[:values][position > place] = 0.0
        return column.ratio(below, whole, is_share=True)

    found = [at(place) for place in places.tolist()]
    halves, sampling = (
        np.interp(np.arange(len(support)), places, some)
        for some in ([ratio.half for ratio in found], [ratio.sampling_std for ratio in found])
    )
    return Answers(shares, halves, sampling, [_is_hidden(column, whole)] * len(support))


def _is_hidden(column: ColumnPrecision, whole: Floats) -> bool:
    """Whether there may be no row at all; not if no cell of the column is in question."""
    return bool(whole.any() and column.signed_cells @ whole <= TWO_SIDED * column.noise(whole))
