"""Weights of the rows of a public table, and those that rake its rows to measured pairs of columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.data import PrivateTable, Table
from gapless.data.checks import check_comparable, check_private, check_public, shared_bins
from gapless.data.workload import Workload
from gapless.errors import Argument, Call, Hint, ModelError, Variable
from gapless.model.completion import EM_STEPS
from gapless.model.denoise import EXPLAINED, PATIENCE, Denoised, fit_targets, proximal_step, safe_ratio
from gapless.model.marginal import Marginal, Measurement, estimate_total, pooled_margin, project_to_simplex, reconcile
from gapless.privacy import ExponentialChoice, Linf, Loss, Spend, for_counts
from gapless.privacy.grant import Grant
from gapless.text import plural
from gapless.types import Floats, checked_number, whole

FEW_ROWS = 0.1  # the effective share of the rows below which there is a warning


class FewRowsWarning(UserWarning):
    """Weights with few effective rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    r"""One weight for each row of a public table, with mean 1: about p_private / p_synthetic at each row.

    They are an array wherever one is asked for: `LogisticRegression().fit(X, y, sample_weight=w)`,
    `compare(truth, fake, weights=w)`, `fake.with_weights(w)`.

    Attributes:
        values: the weights.
        method: how they were computed.
        effective_rows: :math:`(\sum w)^2 / \sum w^2`, the number of unweighted rows whose mean varies as much.
        largest_share: the share of all weight that the heaviest row has.
    """

    values: Floats
    method: str

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
            raise ModelError(
                "the weights of rows must be a vector of finite numbers of 0 or more, at least one of them above 0",
                hint="pass one finite number of 0 or more for each row",
            )
        values *= values.size / values.sum()
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        if self.caution:
            warnings.warn(self.caution, FewRowsWarning, stacklevel=3)

    def __len__(self) -> int:
        return int(self.values.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 a protocol
        return np.array(self.values, dtype=dtype, copy=copy)

    @property
    def effective_rows(self) -> float:
        """The number of unweighted rows whose mean varies as much."""
        return float(len(self) ** 2 / (self.values**2).sum())

    @property
    def largest_share(self) -> float:
        """The share of all weight that the heaviest row has."""
        return float(self.values.max() / len(self))

    def truncated(self, largest: float) -> Weights:
        """No weight above `largest` (in units of the mean before): less variance for some bias; the mean is 1 again."""
        checked_number("largest", largest, 0, np.inf, "(]", error=ModelError, example=10)
        return Weights(np.minimum(self.values, largest), method=self.method)

    @property
    def caution(self) -> str | None:
        """A warning if the effective number of rows is below a tenth of the rows."""
        if self.effective_rows >= FEW_ROWS * len(self):
            return None
        left = f"{self.effective_rows:.0f} of {plural(len(self), 'row')}"
        return (
            f"these weights leave {left} in effect: what is computed with them "
            "varies as if there were no more; truncate them, or use the rows without weights"
        )

    def __str__(self) -> str:
        share, left = self.effective_rows / len(self), plural(round(self.effective_rows), "row")
        return (
            f"{self.method} weights of {plural(len(self), 'row')}: {left} in effect ({share:.0%}), "
            f"the heaviest has {self.largest_share:.2%} of all weight"
        )

    def __repr__(self) -> str:
        return f"<Weights: {self}>"


def to_weightable(table: object, fake: object, what: str) -> tuple[PrivateTable, Table]:
    """A sealed table and a public table with rows, in the same bins; everything else is refused.

    Bins that are not yet known are those of the public rows. Nothing is read from the sealed table.
    """
    check_private(
        table,
        what,
        public=Hint(
            "use ", Call("gapless.weights.LogReg().fit", Variable("truth"), Variable("fake")), ", if both are public"
        ),
    )
    assert isinstance(table, PrivateTable)  # noqa: S101 for mypy: checked above
    fake = public_rows(fake, what)
    if table.schema.finest.columns == fake.schema.finest.columns:
        bins = shared_bins(table.schema, fake, counted=fake)
        table, fake = table.rebin(bins), fake.rebin(bins)
    check_comparable(table.schema, fake.schema)
    return table, fake


def public_rows(fake: object, what: str) -> Table:
    """A public table with rows; everything else is refused."""
    check_public(fake, f"{what}: the rows to weight must be", private="pass a public table, such as a sample")
    assert isinstance(fake, Table)  # noqa: S101 for mypy: checked above
    if not fake.rows:
        raise ModelError(
            f"{what}: the table to weight has no rows", hint="pass a table with rows, such as a sample of a model"
        )
    return fake


SELECTION_SHARE = 0.2  # of the spend, for choosing pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationWeights:
    r"""Measure the pairs of columns in which the rows fit worst, and weight the rows until they fit.

    .. math:: s = \min_j \tfrac12 \lVert c(x) - c_j(x_j)\,p(x \mid x_j) \rVert_1 - \tfrac12 \sqrt{2/\pi}\,\sigma K

    A fifth of `spend` chooses pairs, one by one with the exponential mechanism. The score is the misfit between the
    rows' distribution p and the dependence in the private counts c (`Workload.conditional_misfit`), minus the expected
    effect of noise of standard deviation σ in K cells. The rest measures the pairs, in one batch. The rows are raked to
    the noisy tables, and back to their own marginals (`rake`): a synthesizer measures marginals better than is possible
    here.

    Private rows are used with their gaps. If the synthetic rows have gaps, tables are compared with gaps as cells. If
    they are filled, the tables are completed by EM. That is right if gaps are missing at random given the other column
    of the pair, so under MCAR in any case.

    Guarantee: choices and measurements are charged; all else is a function of these and of the public rows.
        Proved in docs/proofs/weights.md, attacked by tests/audit/test_weights.py.

    Args:
        pairs: the largest number of pairs to choose.
        cap_cells: the largest number of cells of a pair.
    """

    pairs: int = 20
    cap_cells: int = 1_000_000

    def fit(self, table: PrivateTable, fake: Table, *, spend: Spend) -> Weights:
        """Weights for the rows of `fake`, at a cost of up to `spend`."""
        many = whole("pairs", self.pairs, error=ModelError, least=1)
        table, fake = to_weightable(table, fake, "CalibrationWeights.fit")
        columns = table.schema.columns
        candidates = [
            pair
            for pair in combinations(range(len(columns)), 2)
            if prod(columns[c].extended_size for c in pair) <= self.cap_cells and all(columns[c].size > 1 for c in pair)
        ]
        if not candidates:
            raise ModelError(
                "CalibrationWeights needs two columns that have at least 2 cells each and at most "
                f"{self.cap_cells:,} combinations of cells, but no two columns of the table do",
                hint=Hint("use a table with two such columns")
                | Hint("declare fewer levels or bins in the schema")
                | Hint("pass a larger ", Argument("cap_cells")),
            )
        grant = table.ledger.grant(spend, to="CalibrationWeights.fit")
        measured = _measure(table, fake, candidates, min(many, len(candidates)), grant, table.ledger.share(spend))
        return Weights(_raked(fake, measured), method="calibration")


def _measure(
    table: PrivateTable, fake: Table, candidates: Sequence[Marginal], many: int, grant: Grant, spend: Loss
) -> list[Measurement]:
    """Choose `many` of the candidates and measure them, gaps as cells."""
    schema = table.schema
    workload = Workload(table, candidates, rows="extended")
    choices, rest = spend * SELECTION_SHARE, spend * (1 - SELECTION_SHARE)
    distance = workload.counts(candidates[0]).distance
    noise_std = for_counts(rest / many, distance).noise_std
    expected = [_cell_shares(fake, pair) for pair in candidates]
    by_noise = [
        0.5 * np.sqrt(2 / np.pi) * noise_std * prod(schema.columns[c].size for c in pair) for pair in candidates
    ]
    scores = workload.conditional_misfit(candidates, expected, np.ones(len(candidates)), np.array(by_noise))
    chooser = ExponentialChoice.for_loss(choices / many, Linf(scores.distance.at_most))
    places = list(range(len(candidates)))
    chosen: list[Marginal] = []
    for turn in range(1, many + 1):
        place = grant.release(workload.restrict(scores, places), chooser, what=f"choice {turn}").value
        chosen.append(candidates[places.pop(place)])
    counts = [workload.counts(pair) for pair in chosen]
    noises = [for_counts(part, distance) for part in grant.split_losses(counts, rest)]
    names = [" × ".join(schema.names[c] for c in pair) for pair in chosen]
    released = grant.release_all(list(zip(counts, noises, names, strict=True)))
    return [
        Measurement(pair, answer.value.astype(np.float64), noise.noise_std)
        for pair, answer, noise in zip(chosen, released, noises, strict=True)
    ]


def _raked(fake: Table, measured: Sequence[Measurement]) -> Floats:
    """Weights from released tables: public from here on."""
    columns = fake.schema.columns
    if any((codes >= column.size).any() for codes, column in zip(fake.codes, columns, strict=True)):
        return rake(fake.codes, [column.extended_size for column in columns], measured)
    sizes = [column.size for column in columns]
    if any(column.gaps for column in columns):
        measured = [_completed(table, _cell_shares(fake, table.columns), sizes) for table in measured]
    return rake(fake.codes, sizes, measured)


def _cell_shares(fake: Table, pair: Marginal) -> Floats:
    """The share of each combination of cells, gaps as cells."""
    counts = fake.marginal([fake.schema.names[c] for c in pair], rows="extended")
    return np.asarray(counts / fake.rows)


def _completed(table: Measurement, shares: Floats, sizes: Sequence[int]) -> Measurement:
    r"""A noisy table with its gaps distributed over the cells: EM, started at the distribution of the rows.

    .. math:: \hat c(x, y) = c(x, y) + c(x, ?)\,p(y \mid x) + c(?, y)\,p(x \mid y) + c(?, ?)\,p(x, y)

    is linear in the counts, so that negative noise is kept; p is the distribution nearest to the last :math:`\hat c`.
    """
    rows, columns = (sizes[c] for c in table.columns)
    counts, shares = table.counts, shares[:rows, :columns]
    filled = counts[:rows, :columns]
    for _ in range(EM_STEPS):
        given = [shares / np.maximum(shares.sum(axis=axis, keepdims=True), 1e-300) for axis in (1, 0)]
        filled = (
            counts[:rows, :columns]
            + counts[:rows, columns:].sum(axis=1, keepdims=True) * given[0]
            + counts[rows:, :columns].sum(axis=0, keepdims=True) * given[1]
            + counts[rows:, columns:].sum() * shares
        )
        shares = project_to_simplex(filled, max(1.0, float(filled.sum()))) / max(1.0, float(filled.sum()))
    # The distributed counts bring their noise along: equal in all cells, so that sums over a column are right.
    return Measurement(table.columns, filled, table.noise_std * (counts.size / filled.size) ** 0.5)


MAX_SWEEPS = 200
LAST_SWEEPS = 20  # over single columns, at the end
MIN_NOISE_STD = 1e-3  # in rows, of columns that the measured tables do not contradict


def rake(
    codes: Sequence[NDArray[np.integer]],
    sizes: Sequence[int],
    measured: Sequence[Measurement],
) -> Floats:
    r"""Weights with mean 1 under which the rows agree with noisy tables, up to noise.

    First the tables are reconciled with the rows' marginals, weighted by their precision (`_marginals_noise_std`). Then
    sweeps follow: the weights of the rows in each cell of each table are multiplied by a factor that brings the cell
    closer to its count, with the shrinkage of `GraphicalModel`, and by a factor that restores each marginal. This is
    iterative proportional fitting over rows instead of cells. Sweeps end when noise explains the misfit of every table,
    when the worst misfit no longer improves, or at a cap. A cell without rows stays empty.

    Args:
        codes: the rows, column by column.
        sizes: the number of codes of each column.
        measured: noisy tables of pairs of columns; only their shares matter.

    References: Deming and Stephan 1940.
    """
    total = max(1.0, estimate_total(measured))
    measured = [table.scaled_to(total) for table in measured]
    uniform = np.full(len(codes[0]), total / len(codes[0]))
    marginals = [_counts(column, uniform, size) for column, size in zip(codes, sizes, strict=True)]
    noise_std = _marginals_noise_std(marginals, measured)
    known = [Measurement((column,), counts, noise_std) for column, counts in enumerate(marginals)]
    reconciled = reconcile(sizes, [*known, *measured], total)
    margins = [project_to_simplex(reconciled[column,][0], total) for column in range(len(sizes))]
    pairs = {
        columns: (Denoised.plain(table), noise) for columns, (table, noise) in reconciled.items() if len(columns) > 1
    }
    targets = fit_targets(pairs)
    cells = {
        columns: np.ravel_multi_index([codes[c].astype(np.intp) for c in columns], [sizes[c] for c in columns])
        for columns in targets
    }
    weights = uniform.copy()
    lowest, stalled = np.inf, 0
    for _ in range(MAX_SWEEPS):
        worst = -np.inf
        for columns, target in targets.items():
            now = _counts(cells[columns], weights, target.counts.size)
            square = float((((now - target.counts) / target.noise_std) ** 2).sum())
            worst = max(worst, (square - now.size) / (2 * now.size) ** 0.5)
            weights *= safe_ratio(proximal_step(target, now, total), now)[cells[columns]]
        _to_margins(weights, codes, margins)
        lowest, stalled = (worst, 0) if worst < 0.9 * lowest else (lowest, stalled + 1)
        if worst <= EXPLAINED or stalled == PATIENCE:
            break
    for _ in range(LAST_SWEEPS):
        _to_margins(weights, codes, margins)
    return np.asarray(weights / weights.mean())


def keep_columns(weights: Floats, codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> Floats:
    """Weights under which each marginal is that of the rows without weights."""
    kept: Floats = weights / weights.mean()
    uniform = np.ones(len(kept))
    margins = [_counts(column, uniform, size) for column, size in zip(codes, sizes, strict=True)]
    for _ in range(LAST_SWEEPS):
        _to_margins(kept, codes, margins)
    return kept


def _to_margins(weights: Floats, codes: Sequence[NDArray[np.integer]], margins: Sequence[Floats]) -> None:
    for column, margin in zip(codes, margins, strict=True):
        weights *= safe_ratio(margin, _counts(column, weights, margin.size))[column]


def _marginals_noise_std(marginals: Sequence[Floats], measured: Sequence[Measurement]) -> float:
    r"""The standard deviation of a cell of the rows' marginals around the truth, estimated from the measured tables.

    .. math:: o^2 = \frac{\sum_c (\lVert y_c - n_c \rVert^2 - v_c K_c) / v_c^2}{\sum_c K_c / v_c^2}

    y is the estimate of column c with K cells from all measured tables, v its noise variance, n the rows' counts. The
    mean of the right side is :math:`o^2` if the rows' counts have independent errors of that variance. Columns that
    were measured well count more.
    """
    square, cells = 0.0, 0.0
    for column, counts in enumerate(marginals):
        margin, precision = pooled_margin((column,), measured)  # y, 1/v
        if precision:
            square += precision**2 * (float(((margin - counts) ** 2).sum()) - counts.size / precision)
            cells += precision**2 * counts.size
    return float(np.sqrt(max(MIN_NOISE_STD**2, square / cells if cells else 0.0)))


def _counts(cells: NDArray[np.integer], weights: Floats, size: int) -> Floats:
    """The weight in each cell."""
    return np.bincount(cells, weights, minlength=size).astype(np.float64, copy=False)
