r"""What would change if numbers went with other columns inside their bins as bins do.

A release tells how bins go with other columns. How values inside a bin do was not measured: they are drawn from what is
known of their column alone, which draws slopes, correlations and differences of groups towards none. Whether that is so
no release tells. So an estimate is computed once more from rows in which the values of every bin are *dealt*: those
whose other cells are like those of the next bin above get the higher values. The values stay what they are, and with
them all that is true of the column alone. What an estimate moves by is taken for the size of a bias of unknown sign
(`gapless.inference.rubin.widened`).

By normal scores: let u be the standard normal score of a value among those of its column. Where bin b begins at a and
ends at a', u has

.. math:: t_b = \frac{\varphi(a) - \varphi(a')}{p_b}, \qquad v_b = 1 + \frac{a \varphi(a) - a' \varphi(a')}{p_b} - t_b^2

as mean and variance. If the odds of cells z of other columns grow by :math:`e^{\theta(z) u}` about b, as they do if
columns are normal, then t has, in b and the bins beside it, the mean :math:`\operatorname{Var}(t \mid z)\,\theta(z)`
given z, up to a constant: a regression on one effect for each cell tells θ. It tells u as a normal measurement of
precision τ would, with :math:`\operatorname{Var}(\theta) = \tau + \tau^2 v_b` in the bin. So values and rows are put
into order, rows by a score that has the correlation :math:`\sqrt{v_b \tau / (1 + v_b \tau)}` with u, and matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gapless.data import Table
from gapless.schema import Schema
from gapless.schema.numeric import _Binned
from gapless.types import Floats, Integers

SWEEPS = 4  # of backfitting
SHRINK = 20.0  # rows: the effect of a cell with so many counts half
LEAST = 0.01  # of the variance of scores, that is left given other cells


def binned(schema: Schema, columns: Iterable[int]) -> list[int]:
    """Those of these columns that have bins of several values."""
    return [
        c
        for c in sorted(columns)
        if isinstance(column := schema.columns[c], _Binned) and column.values_size < column.fine.values_size
    ]


def dealt(table: Table, columns: Iterable[int], rng: np.random.Generator) -> Table:
    """The rows, with the values inside bins of these columns dealt by the cells of the others among them."""
    columns = sorted(columns)
    sizes = [column.size for column in table.schema.columns]
    codes = {c: np.minimum(table.codes[c].astype(np.int64), sizes[c]) for c in columns}
    values = {}
    for c in binned(table.schema, columns):
        column, positions = table.schema.columns[c], table.positions(c)
        assert isinstance(column, _Binned)  # noqa: S101 for mypy: by `binned`
        assert positions is not None  # noqa: S101 for mypy: it is on a line
        others = [(codes[other], sizes[other] + 1) for other in columns if other != c]
        values[c] = _deal(positions, np.minimum(codes[c], column.values_size), column.values_size, others, rng)
    return table.with_values(values)


def _deal(
    values: Floats, own: Integers, bins: int, others: Sequence[tuple[Integers, int]], rng: np.random.Generator
) -> Floats:
    many = np.bincount(own, minlength=bins + 1)
    means, variances = _scores(many[:bins] / max(1, many[:bins].sum()))
    pull = np.zeros(len(own))
    for place in range(bins):
        near = np.flatnonzero((np.abs(own - place) <= 1) & (own < bins))
        score = means[own[near]]
        if len(near) and score.var() > 0:
            told = _additive(score - score.mean(), [(codes[near], size) for codes, size in others])
            here = own[near] == place
            pull[near[here]] = told[here] / max(score.var() - told.var(), LEAST * score.var())
    many = np.maximum(many, 1)
    pull -= (np.bincount(own, pull, minlength=bins + 1) / many)[own]
    square, inside = np.bincount(own, pull**2, minlength=bins + 1) / many, np.append(variances, 0.0)
    told = (np.sqrt(1 + 4 * inside * square) - 1) / 2  # v τ
    score = pull * np.sqrt(told / (1 + told) / np.maximum(square, 1e-300))[own]
    score += np.sqrt(1 / (1 + told))[own] * rng.standard_normal(len(own))
    dealt = np.empty_like(values)
    dealt[np.lexsort((score, own))] = values[np.lexsort((values, own))]
    return dealt


def _additive(response: Floats, others: Sequence[tuple[Integers, int]]) -> Floats:
    """What one effect for each cell of each column explains of a response, by backfitting."""
    effects = [np.zeros(size) for _, size in others]
    left = response
    for _ in range(SWEEPS):
        for place, (codes, size) in enumerate(others):
            left = left + effects[place][codes]
            effects[place] = np.bincount(codes, left, size) / (np.bincount(codes, minlength=size) + SHRINK)
            left = left - effects[place][codes]
    return response - left


def _scores(share: Floats) -> tuple[Floats, Floats]:
    """The mean and the variance of normal scores in each bin."""
    from scipy.special import ndtri  # noqa: PLC0415 slow to load

    ends = ndtri(np.clip(np.append(0.0, np.cumsum(share)), 0.0, 1.0))
    inner = np.where(np.isfinite(ends), ends, 0.0)
    height = np.where(np.isfinite(ends), np.exp(-(inner**2) / 2) / np.sqrt(2 * np.pi), 0.0)
    held = np.maximum(share, 1e-300)
    means = np.where(share > 0, -np.diff(height) / held, 0.0)
    return means, np.where(share > 0, np.clip(1 - np.diff(inner * height) / held - means**2, 0.0, 1.0), 0.0)
