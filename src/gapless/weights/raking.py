"""Weights of public rows, moved until their weighted tables are as was measured: reluctantly, and columns stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.model.denoise import Denoised
from gapless.model.marginal import Measurement, estimate_total, project_to_simplex, reconcile, sum_to
from gapless.model.targets import EXPLAINED, PATIENCE, aims_of, ratio, towards
from gapless.types import Floats

SWEEPS = 200  # at the most
LAST = 20  # sweeps over columns alone, at the end
STEP = 1 / 32  # as far at a time as a graphical model goes
EXACT = 1e-3  # the noise, in rows, of columns that the measured tables do not contradict


def rake(
    codes: Sequence[NDArray[np.integer]],
    sizes: Sequence[int],
    measured: Iterable[Measurement],
    *,
    start: Floats | None = None,
) -> Floats:
    r"""Weights with mean 1 under which the rows agree with noisy tables, as far as these tell more than noise.

    First the tables are reconciled with what the rows say of each column by itself, which counts as much as it is known
    (`_noise_of`). Then, in sweeps, the weights of the rows in each cell of each table are multiplied by what brings the
    cell closer to its count, as reluctantly as a graphical model does (`GraphicalModel`), and by what brings each
    column back: iterative proportional fitting over rows in place of cells. Sweeps end when noise explains what is left
    of every table, when the worst of them no longer gets better, or at a cap. A cell that no row is in stays empty.

    Args:
        codes: the rows, column by column.
        sizes: how many codes each column has.
        measured: noisy tables of pairs of columns; only their shares matter.
        start: weights to begin with; by default 1 for each row.

    References: Deming and Stephan 1940.
    """
    rows, measured = len(codes[0]), list(measured)
    total = max(1.0, estimate_total(measured))
    measured = [table.scaled_to(total) for table in measured]
    even = np.full(rows, total / rows)
    own = [_counts(column, even, size) for column, size in zip(codes, sizes, strict=True)]
    noise_std = _noise_of(own, measured)
    known = [Measurement((column,), counts, noise_std) for column, counts in enumerate(own)]
    targets = reconcile(sizes, [*known, *measured], total)
    margins = [project_to_simplex(targets[column,][0], total) for column in range(len(sizes))]
    pairs = {columns: (Denoised.plain(table), noise) for columns, (table, noise) in targets.items() if len(columns) > 1}
    aims = aims_of(pairs, STEP)
    cells = {columns: _cells([codes[c] for c in columns], [sizes[c] for c in columns]) for columns in aims}
    weights = even if start is None else start * (total / start.sum())
    lowest, stalled = np.inf, 0
    for _ in range(SWEEPS):
        worst = -np.inf
        for columns, aim in aims.items():
            now = _counts(cells[columns], weights, aim.target.size)
            square = float((((now - aim.target) / aim.noise_std) ** 2).sum())
            worst = max(worst, (square - now.size) / (2 * now.size) ** 0.5)
            weights *= ratio(towards(aim, now, total), now)[cells[columns]]
        _to_margins(weights, codes, margins)
        lowest, stalled = (worst, 0) if worst < 0.9 * lowest else (lowest, stalled + 1)
        if worst <= EXPLAINED or stalled == PATIENCE:
            break
    for _ in range(LAST):
        _to_margins(weights, codes, margins)
    return np.asarray(weights / weights.mean())


def keep_columns(weights: Floats, codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> Floats:
    """Weights with which each column by itself is as the rows have it without weights."""
    kept: Floats = weights / weights.mean()
    even = np.ones(len(kept))
    margins = [_counts(column, even, size) for column, size in zip(codes, sizes, strict=True)]
    for _ in range(LAST):
        _to_margins(kept, codes, margins)
    return kept


def _to_margins(weights: Floats, codes: Sequence[NDArray[np.integer]], margins: Sequence[Floats]) -> None:
    for column, margin in zip(codes, margins, strict=True):
        weights *= ratio(margin, _counts(column, weights, margin.size))[column]


def _noise_of(own: Sequence[Floats], measured: Sequence[Measurement]) -> float:
    r"""How far the rows' own columns are from the truth, as the measured tables tell: the standard deviation of a cell.

    .. math:: o^2 = \frac{\sum_c (\lVert y_c - n_c \rVert^2 - v_c K_c) / v_c^2}{\sum_c K_c / v_c^2}

    y is what all measured tables together say of column c with K cells, v its noise variance, n the rows' own counts:
    the mean of the right side is :math:`o^2` if the rows' counts are off by independent errors of that variance, and
    columns that were measured well count more.
    """
    square, cells = 0.0, 0.0
    for column, counts in enumerate(own):
        told, known = np.zeros(counts.shape), 0.0  # known is 1/v
        for table in measured:
            if column in table.columns:
                weight = table.noise_std**-2 * counts.size / table.counts.size  # a margin adds up the noise of cells
                told, known = told + weight * sum_to(table.counts, table.columns, (column,)), known + weight
        if known:
            square += known**2 * (float(((told / known - counts) ** 2).sum()) - counts.size / known)
            cells += known**2 * counts.size
    return float(np.sqrt(max(EXACT**2, square / cells if cells else 0.0)))


def _counts(cells: NDArray[np.integer], weights: Floats, size: int) -> Floats:
    """The weight in each cell."""
    return np.bincount(cells, weights, minlength=size).astype(np.float64, copy=False)


def _cells(columns: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> NDArray[np.intp]:
    """The number of each row's cell in a table of these columns."""
    return np.ravel_multi_index(tuple(column.astype(np.intp) for column in columns), tuple(sizes))
