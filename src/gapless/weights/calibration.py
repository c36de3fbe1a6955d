"""Calibration weights: the pairs that the rows describe worst are measured, and the rows are raked to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from gapless.arguments import whole
from gapless.data import PrivateTable, Table
from gapless.data.workload import Workload
from gapless.errors import ModelError
from gapless.model.completion import EM_STEPS
from gapless.model.marginal import Marginal, Measurement, project_to_simplex
from gapless.privacy import ExponentialChoice, Linf, Loss, for_counts
from gapless.privacy.grant import Grant
from gapless.types import Floats
from gapless.weights.raking import rake
from gapless.weights.weights import Weights, weighable

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

    def fit(self, table: PrivateTable, fake: Table, *, spend: Loss) -> Weights:
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
                hint="fewer levels or bins, or raise cap_cells",
            )
        grant = table.ledger.grant(spend, to="CalibrationWeights.fit")
        measured = _measure(table, fake, candidates, min(many, len(candidates)), grant, spend)
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
        place = grant.release(workload.among(scores, places), chooser, what=f"choice {number}").value
        chosen.append(candidates[places.pop(place)])
    counts = [workload.counts(pair) for pair in chosen]
    noises = [for_counts(part, distance) for part in grant.split(counts, rest)]
    names = [" × ".join(schema.names[c] for c in pair) for pair in chosen]
    released = grant.release_all(list(zip(counts, noises, names, strict=True)))
    return [
        Measurement(pair, answer.value.astype(np.float64), noise.noise_std)
        for pair, answer, noise in zip(chosen, released, noises, strict=True)
    ]


def _raked(fake: Table, measured: Sequence[Measurement]) -> Floats:
    """Weights from released tables: public from here on."""
    columns = fake.schema.columns
    if _has_gaps(fake):
        return rake(fake.codes, [column.extended_size for column in columns], measured)
    sizes = [column.size for column in columns]
    if not any(column.gaps for column in columns):
        return rake(fake.codes, sizes, measured)
    completed = [_completed(table, _law(fake, table.columns), sizes) for table in measured]
    return rake(fake.codes, sizes, completed)


def _law(fake: Table, pair: Marginal) -> Floats:
    """The share of each combination of cells, gaps as cells."""
    counts = fake.marginal([fake.schema.names[c] for c in pair], rows="extended")
    return np.asarray(counts / fake.rows)


def _has_gaps(fake: Table) -> bool:
    return any((codes >= column.size).any() for codes, column in zip(fake.codes, fake.schema.columns, strict=True))


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
