r"""Estimate the distribution of complete rows from tables with gaps.

This is post-processing of released values, at no cost in privacy. The assumption is *missing at random*: whether a cell
is missing depends on observed cells, not on the missing value. There are two steps. First, expectation maximisation
inside each measured marginal moves the rows of every gap pattern to the cells that they may have come from:

.. math:: q \leftarrow \tfrac1N \sum_S t_S(x_{\bar S})\, q(x_S \mid x_{\bar S})

where :math:`t_S` counts the rows whose columns S are missing. A marginal without the column on which the gaps depend
stays biased in its one-way margins. So the second step corrects these with the whole model. Rows are drawn with their
gaps, and filled from the completed model given *all* their observed cells. Then the marginals are raked to the result.
The second step runs twice. *Not applicable* is an observed cell and is never filled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np

from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Marginal, Measurement, pooled_margin
from gapless.model.message_passing import sum_out
from gapless.types import Floats

EM_STEPS = 50
FILL_ROUNDS = 2  # of filling
SAMPLE_ROWS = 15_000


def complete_table(table: Floats, sizes: Sequence[int], steps: int = EM_STEPS) -> Floats:
    """Estimate the distribution over observed cells of a table whose axes have gap states after `sizes` cells.

    >>> complete_table(np.array([[4.0, 0.0, 2.0], [0.0, 4.0, 2.0]]), [2, 2]).round(3)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    patterns = []
    for gaps in product((False, True), repeat=table.ndim):
        cells = table[tuple(slice(n, None) if gap else slice(n) for n, gap in zip(sizes, gaps, strict=True))]
        gone = tuple(axis for axis, gap in enumerate(gaps) if gap)
        if cells.size:
            patterns.append((gone, np.maximum(cells, 0.0).sum(axis=gone, keepdims=True)))
    (_, whole), *partial = patterns
    total = sum(float(cells.sum()) for _, cells in patterns)
    # Every cell stays possible, even if no row is complete.
    probabilities: Floats = whole + max(1e-9 * total, 1e-300) / whole.size
    probabilities = probabilities / probabilities.sum()
    for _ in range(steps if partial else 0):
        filled = whole.copy()
        for gone, cells in partial:
            filled += probabilities * (cells / np.maximum(probabilities.sum(axis=gone, keepdims=True), 1e-300))
        if not filled.sum() > 0:
            break
        probabilities = filled / filled.sum()
    return probabilities


def complete_model(
    gapped: GraphicalModel,
    sizes: Sequence[int],
    measured: Mapping[Marginal, float],
    *,
    zeros: Sequence[tuple[Marginal, np.ndarray]] = (),
    cap_cells: int,
    seed: int = 0,
) -> GraphicalModel:
    """Estimate the distribution of complete rows from a model of rows with gaps.

    Args:
        gapped: A model whose columns have gap states after their first `sizes` cells.
        sizes: The observed cells of each column.
        measured: The marginals that were measured, with the noise in each cell.
        zeros: Forbidden combinations of observed cells.
        cap_cells: The largest junction tree allowed.
        seed: Of the draws; public, so that the same released values always give the same model.
    """
    if tuple(sizes) == gapped.sizes:
        return gapped
    # A table inside a larger one would be completed from fewer columns: take it from the larger ones instead.
    largest = [marginal for marginal in measured if not any(set(marginal) < set(other) for other in measured)]
    tables = [
        Measurement(marginal, gapped.total * complete_table(table, [sizes[c] for c in marginal]), measured[marginal])
        for marginal, table in zip(largest, gapped.marginals(largest), strict=True)
    ]

    fit = partial(
        GraphicalModel.fit, sizes, total=gapped.total, follow_noise=True, zeros=zeros, cap_cells=cap_cells
    )  # the tables are those of a model, which is shrunk already

    def refit(tables: Sequence[Measurement], start: GraphicalModel) -> GraphicalModel:
        inner = [
            Measurement(marginal, pooled_margin(marginal, tables)[0], noise)
            for marginal, noise in measured.items()
            if marginal not in largest
        ]
        return fit(measurements=[*inner, *tables], start=start)

    # A warm start: the potentials of complete cells.
    complete = {columns: table[tuple(slice(sizes[c]) for c in columns)] for columns, table in gapped.potentials.items()}
    model = refit(tables, GraphicalModel(sizes, complete, gapped.total))
    rng = np.random.default_rng(seed)
    rows = gapped.sample(SAMPLE_ROWS, rng).astype(np.int64)
    observed = np.where(rows < np.array(sizes), rows, -1)
    lacking = (observed < 0).any(axis=1)
    if not lacking.any():
        return model
    for _ in range(FILL_ROUNDS):
        filled = observed.copy()
        filled[lacking] = model.fill(observed[lacking], lambda: rng.random(lacking.sum()))
        margins = [
            gapped.total
            * james_stein(np.bincount(codes, minlength=size) / SAMPLE_ROWS, model.marginal([c]), (seen < 0).sum())
            for c, (codes, seen, size) in enumerate(zip(filled.T, observed.T, sizes, strict=True))
        ]
        tables = [
            Measurement(
                table.columns, _rake_to_margins(table.counts, [margins[c] for c in table.columns]), table.noise_std
            )
            for table in tables
        ]
        model = refit(tables, model)
    return model


def james_stein(sampled: Floats, before: Floats, drawn: int) -> Floats:
    """Shrink a sampled margin towards the margin `before`, by the positive-part James-Stein estimate.

    The shrinkage is strong if the sampling variance of the `drawn` filled cells explains the change.
    """
    move = sampled - before
    chance = drawn * (1 - float((sampled**2).sum())) / SAMPLE_ROWS**2
    size = float((move**2).sum())
    return before + max(0.0, 1 - chance / size) * move if size > 0 else before


def _rake_to_margins(table: Floats, margins: Sequence[Floats], rounds: int = 20) -> Floats:
    """Scale a table along each axis in turn until its margins are those given."""
    table = table + 1e-12 * table.sum() / table.size
    for _ in range(rounds):
        moved = 0.0
        for axis, margin in enumerate(margins):
            others = tuple(other for other in range(table.ndim) if other != axis)
            factor = margin / np.maximum(sum_out(table, others), 1e-300)
            table = table * factor.reshape([-1 if other == axis else 1 for other in range(table.ndim)])
            moved = max(moved, float(np.abs(factor - 1).max()))
        if moved < 1e-9:
            break
    return table
