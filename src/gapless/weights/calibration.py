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
from gapless.errors import Argument, Call, Hint, ModelError
from gapless.model.completion import EM_STEPS
from gapless.model.denoise import EXPLAINED, PATIENCE, Denoised, fit_targets, proximal_step, safe_ratio
from gapless.model.marginal import Marginal, Measurement, estimate_total, pooled_margin, project_to_simplex, reconcile
from gapless.privacy import ExponentialChoice, Linf, Loss, Spend, for_counts
from gapless.privacy.grant import Grant
from gapless.text import plural
from gapless.types import Floats, whole

FEW = 0.1  # an effective share of the rows below which weights are warned of


class FewRowsWarning(UserWarning):
    """Weights that leave few rows to count."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    r"""One weight for each row of a public table, with mean 1: about p_private / p_synthetic at each row.

    They are an array wherever one is asked for: `LogisticRegression().fit(X, y, sample_weight=w)`,
    `compare(truth, fake, weights=w)`, `fake.with_weights(w)`.

    Attributes:
        values: the weights.
        method: how they were made.
        effective_rows: :math:`(\sum w)^2 / \sum w^2`, of how many rows without weights means would vary as much.
        largest_share: the share of all weight that the heaviest row has.
    """

    values: Floats
    method: str

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not values.size or not (np.isfinite(values).all() and (values >= 0).all()):
            raise ModelError("these are no weights", hint="a finite number of 0 or more for each row")
        if not (total := values.sum()) > 0:
            raise ModelError("all weights are zero", hint="weights of which some are above 0")
        values *= values.size / total
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
        """Of how many rows without weights a mean would vary as much."""
        return float(len(self) ** 2 / (self.values**2).sum())

    @property
    def largest_share(self) -> float:
        """The share of all weight that the heaviest row has."""
        return float(self.values.max() / len(self))

    def truncated(self, largest: float) -> Weights:
        """No weight above `largest` (in units of the mean before): less variance for some bias; the mean is 1 again."""
        if not largest > 0:
            raise ModelError(f"largest = {largest!r}", hint="a number above 0, such as 10")
        return Weights(np.minimum(self.values, largest), method=self.method)

    @property
    def caution(self) -> str | None:
        """What to be warned of: that less than a tenth of the rows is left in effect."""
        if self.effective_rows >= FEW * len(self):
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


def weighable(table: object, fake: object, what: str) -> tuple[PrivateTable, Table]:
    """A sealed table and public rows, of which there are some, told by the same bins; all else is refused.

    Bins to be learned are those of the public rows, or cut by these: nothing is read of the sealed table.
    """
    check_private(table, what, public=Hint("use ", Call("LogReg().fit", ...), ", which takes two public tables"))
    check_public(fake, f"{what} weights", private="a public table, such as a sample")
    assert isinstance(table, PrivateTable)  # noqa: S101 for mypy: checked above
    assert isinstance(fake, Table)  # noqa: S101 for mypy: checked above
    if not fake.rows:
        raise ModelError(f"{what}: there are no rows to weight", hint="a table with rows")
    if table.schema.finest.columns == fake.schema.finest.columns:
        bins = shared_bins(table.schema, fake, counted=fake)
        table, fake = table.rebin(bins), fake.rebin(bins)
    check_comparable(table.schema, fake.schema)
    return table, fake


CHOICE = 0.2  # of the spend goes to choosing


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationWeights:
    r"""Measure the pairs of columns that the rows describe worst, and weight the rows until they describe them.

    .. math:: s = \min_j \tfrac12 \lVert c(x) - c_j(x_j)\,p(x \mid x_j) \rVert_1 - \tfrac12 \sqrt{2/\pi}\,\sigma K

    A fifth of `spend` chooses pairs, one by one with the exponential mechanism, by how badly the rows' own law p
    describes how the private counts c go together (`Workload.conditional_misfit`), less what noise of the standard
    deviation σ in K cells would add. The rest measures them, in one batch. The rows are raked to the noisy tables, and
    back to what they say themselves of each column (`rake`): columns are measured better by a synthesizer than here.

    Private rows are used with their gaps. If the synthetic rows have some, tables are compared cell by cell, gaps as
    cells; if they are filled, the tables are completed by EM, which is right if gaps are missing at random given
    the other column of the pair, so under MCAR in any case.

    Guarantee: what is chosen and measured is charged; all else is a function of it and of the public rows.
        Proved in docs/proofs/weights.md, attacked by tests/audit/test_weights.py.

    Args:
        pairs: how many to choose, at the most.
        cap_cells: the largest pair.
    """

    pairs: int = 20
    cap_cells: int = 1_000_000

    def fit(self, table: PrivateTable, fake: Table, *, spend: Spend) -> Weights:
        """Weights for the rows of `fake`, for which up to `spend` was paid."""
        many = whole("pairs", self.pairs, error=ModelError, least=1)
        table, fake = weighable(table, fake, "CalibrationWeights.fit")
        columns = table.schema.columns
        candidates = [
            pair
            for pair in combinations(range(len(columns)), 2)
            if prod(columns[c].extended_size for c in pair) <= self.cap_cells and all(columns[c].size > 1 for c in pair)
        ]
        if not candidates:
            raise ModelError(
                f"no two columns with several cells each and {self.cap_cells:,} together",
                hint=Hint("use fewer levels or bins") | Hint("pass a larger ", Argument("cap_cells")),
            )
        grant = table.ledger.grant(spend, to="CalibrationWeights.fit")
        measured = _measure(table, fake, candidates, min(many, len(candidates)), grant, table.ledger.share(spend))
        return Weights(_raked(fake, measured), method="calibration")


def _measure(
    table: PrivateTable, fake: Table, candidates: Sequence[Marginal], many: int, grant: Grant, spend: Loss
) -> list[Measurement]:
    """Choose so many of the candidates and measure them, gaps as cells."""
    schema = table.schema
    workload = Workload(table, candidates, rows="extended")
    choices, rest = spend * CHOICE, spend * (1 - CHOICE)
    distance = workload.counts(candidates[0]).distance
    noise_std = for_counts(rest / many, distance).noise_std
    expected = [_law(fake, pair) for pair in candidates]
    by_noise = [
        0.5 * np.sqrt(2 / np.pi) * noise_std * prod(schema.columns[c].size for c in pair) for pair in candidates
    ]
    scores = workload.conditional_misfit(candidates, expected, np.ones(len(candidates)), np.array(by_noise))
    chooser = ExponentialChoice.for_loss(choices / many, Linf(scores.distance.at_most))
    places = list(range(len(candidates)))
    chosen: list[Marginal] = []
    for number in range(1, many + 1):
        place = grant.release(workload.restrict(scores, places), chooser, what=f"choice {number}").value
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
        measured = [_completed(table, _law(fake, table.columns), sizes) for table in measured]
    return rake(fake.codes, sizes, measured)


def _law(fake: Table, pair: Marginal) -> Floats:
    """The share of each combination of cells, gaps as cells."""
    counts = fake.marginal([fake.schema.names[c] for c in pair], rows="extended")
    return np.asarray(counts / fake.rows)


def _completed(table: Measurement, law: Floats, sizes: Sequence[int]) -> Measurement:
    r"""A noisy table with its gaps shared out: EM, begun at the law of the rows.

    .. math:: \hat c(x, y) = c(x, y) + c(x, ?)\,p(y \mid x) + c(?, y)\,p(x \mid y) + c(?, ?)\,p(x, y)

    is linear in the counts, so that noise below zero is not cut off; p is the law nearest to the last :math:`\hat c`.
    """
    one, two = (sizes[c] for c in table.columns)
    counts, law = table.counts, law[:one, :two]
    filled = counts[:one, :two]
    for _ in range(EM_STEPS):
        given = [law / np.maximum(law.sum(axis=axis, keepdims=True), 1e-300) for axis in (1, 0)]
        filled = (
            counts[:one, :two]
            + counts[:one, two:].sum(axis=1, keepdims=True) * given[0]
            + counts[one:, :two].sum(axis=0, keepdims=True) * given[1]
            + counts[one:, two:].sum() * law
        )
        law = project_to_simplex(filled, max(1.0, float(filled.sum()))) / max(1.0, float(filled.sum()))
    # What is shared out brings its noise along: spread evenly, so that it is right in the sums over a column.
    return Measurement(table.columns, filled, table.noise_std * (counts.size / filled.size) ** 0.5)


SWEEPS = 200  # at the most
LAST = 20  # sweeps over columns alone, at the end
EXACT = 1e-3  # the noise, in rows, of columns that the measured tables do not contradict


def rake(
    codes: Sequence[NDArray[np.integer]],
    sizes: Sequence[int],
    measured: Sequence[Measurement],
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

    References: Deming and Stephan 1940.
    """
    total = max(1.0, estimate_total(measured))
    measured = [table.scaled_to(total) for table in measured]
    even = np.full(len(codes[0]), total / len(codes[0]))
    own = [_counts(column, even, size) for column, size in zip(codes, sizes, strict=True)]
    noise_std = _noise_of(own, measured)
    known = [Measurement((column,), counts, noise_std) for column, counts in enumerate(own)]
    targets = reconcile(sizes, [*known, *measured], total)
    margins = [project_to_simplex(targets[column,][0], total) for column in range(len(sizes))]
    pairs = {columns: (Denoised.plain(table), noise) for columns, (table, noise) in targets.items() if len(columns) > 1}
    aims = fit_targets(pairs)
    cells = {
        columns: np.ravel_multi_index([codes[c].astype(np.intp) for c in columns], [sizes[c] for c in columns])
        for columns in aims
    }
    weights = even.copy()
    lowest, stalled = np.inf, 0
    for _ in range(SWEEPS):
        worst = -np.inf
        for columns, aim in aims.items():
            now = _counts(cells[columns], weights, aim.counts.size)
            square = float((((now - aim.counts) / aim.noise_std) ** 2).sum())
            worst = max(worst, (square - now.size) / (2 * now.size) ** 0.5)
            weights *= safe_ratio(proximal_step(aim, now, total), now)[cells[columns]]
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
        weights *= safe_ratio(margin, _counts(column, weights, margin.size))[column]


def _noise_of(own: Sequence[Floats], measured: Sequence[Measurement]) -> float:
    r"""How far the rows' own columns are from the truth, as the measured tables tell: the standard deviation of a cell.

    .. math:: o^2 = \frac{\sum_c (\lVert y_c - n_c \rVert^2 - v_c K_c) / v_c^2}{\sum_c K_c / v_c^2}

    y is what all measured tables together say of column c with K cells, v its noise variance, n the rows' own counts:
    the mean of the right side is :math:`o^2` if the rows' counts are off by independent errors of that variance, and
    columns that were measured well count more.
    """
    square, cells = 0.0, 0.0
    for column, counts in enumerate(own):
        margin, precision = pooled_margin((column,), measured)  # y, 1/v
        if precision:
            square += precision**2 * (float(((margin - counts) ** 2).sum()) - counts.size / precision)
            cells += precision**2 * counts.size
    return float(np.sqrt(max(EXACT**2, square / cells if cells else 0.0)))


def _counts(cells: NDArray[np.integer], weights: Floats, size: int) -> Floats:
    """The weight in each cell."""
    return np.bincount(cells, weights, minlength=size).astype(np.float64, copy=False)
