"""The measuring side that marginal synthesizers share: select, measure, fit, complete, whatever is done about gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gapless.data import PrivateTable
from gapless.data.workload import Workload
from gapless.errors import ModelError
from gapless.missing import Missing
from gapless.model.completion import complete_model
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Floats, Marginal, Measurement, estimate_total
from gapless.privacy import ExponentialChoice, Grant, Linf, Loss, Private, for_counts
from gapless.schema.constraints import Forbidden, constraints_of
from gapless.synth.facts import Facts
from gapless.synth.fitted import FittedModel, Progress, noise_of_columns

ENGINE_CELLS = 20_000_000  # what the engine would refuse; selection keeps far below


class Survey:
    """What was measured so far, and the grant from which further measurements are paid.

    Attributes:
        sizes: the cells of each column as they are counted: with gap states if every row is counted.
        measurements: noisy counts, brought to a common total.
    """

    def __init__(
        self,
        table: PrivateTable,
        missing: Missing,
        grant: Grant,
        *,
        marginals: Sequence[Marginal],
        cap_cells: int,
        progress: Progress | None = None,
    ) -> None:
        self.schema = table.schema
        self.grant = grant
        self.extended = missing.rows == "extended"
        self.cap_cells = cap_cells
        self._missing = missing
        self._progress = progress
        self._table = table
        columns = table.schema.columns
        self.sizes = tuple(column.extended_size if self.extended else column.size for column in columns)
        self.marginals = self._within_cap(marginals)
        self._forbidden, self._dependencies, _ = constraints_of(table.schema)
        # Columns by themselves, and those of which one decides another: what is always measured.
        self._always: list[Marginal] = self._telling([(c,) for c in range(len(columns))]) or [(0,)]
        self._always += self._within_cap([rule.columns for rule in self._dependencies])
        self.workload: Workload
        self._raw: list[Measurement] = []
        self._rows: Measurement | None = None

    def _within_cap(self, marginals: Sequence[Marginal]) -> list[Marginal]:
        """The marginals that are small enough; a column that fits in none of its marginals is an error."""
        marginals = self._telling(marginals)
        kept = [one for one in marginals if math.prod(self.sizes[c] for c in one) <= self.cap_cells]
        asked = {c for one in marginals for c in one}
        if lost := sorted(asked - {c for one in kept for c in one}):
            names = ", ".join(f"{self.schema.names[c]} ({self.sizes[c]} cells)" for c in lost)
            raise ModelError(
                f"no marginal of these columns fits into {self.cap_cells:,} cells: {names}",
                hint="fewer levels or bins for them, leave them out with select(), or raise cap_cells",
            )
        return kept

    def _telling(self, marginals: Sequence[Marginal]) -> list[Marginal]:
        """The marginals without columns of one cell, which tell nothing that the others do not."""
        return [marginal for marginal in marginals if all(self.sizes[c] > 1 for c in marginal)]

    def prepare(self) -> Loss:
        """Fill gaps or leave rows out, which may cost; what is left to spend. After all public refusals."""
        prepared = self._missing.prepare(self._table, self.grant)
        wanted = list(dict.fromkeys([*self._always, *self.marginals]))
        self.workload = Workload(prepared, wanted, rows=self._missing.rows)
        return self.grant.left

    def tell(self, phase: str, done: int, of: int) -> None:
        """Show progress, if anybody looks."""
        if self._progress is not None:
            self._progress(phase, done, of)

    def measure_columns(self, spend: Loss) -> None:
        """What is always measured and, unless every row is counted, the number of rows: one batch, even shares."""
        self._measure(self._always, spend, rows=not self.extended)

    def measure(self, marginals: Sequence[Marginal], spend: Loss) -> list[Measurement]:
        """Noisy counts of these marginals, in one batch with even shares."""
        return self._measure(marginals, spend, rows=False)

    def _measure(self, marginals: Sequence[Marginal], spend: Loss, *, rows: bool) -> list[Measurement]:
        counts = [self.workload.counts(one) for one in marginals]
        names = [self.name(one) for one in marginals]
        if rows:
            counts.append(self._table.marginal(()))
            names.append("number of rows")
        noise = for_counts(self.grant.even(counts, spend), counts[0].distance)
        released = self.grant.release_all([(value, noise, name) for value, name in zip(counts, names, strict=True)])
        fresh = [
            Measurement(one, answer.value.astype(np.float64), noise.noise_std)
            for one, answer in zip([*marginals, ()], released, strict=False)
        ]
        if rows:
            self._rows = fresh.pop()
        self._raw += fresh
        return fresh

    def can_choose(self, share: float) -> None:
        """Refuse, before anything is spent, a share with which no choice could be paid, whatever filling gaps costs."""
        spend = self.grant.left * (share * (1 - self._missing.share))
        ExponentialChoice.for_loss(spend, Linf(float(self._table.protect.at_most)))

    def choose(self, scores: Private[Floats, Linf], spend: Loss, *, what: str) -> int:
        """The place of a candidate with a high score."""
        chooser = ExponentialChoice.for_loss(spend, scores.distance)
        return self.grant.release(scores, chooser, what=what).value

    @property
    def total(self) -> float:
        """The noisy number of rows, at least one."""
        return max(1.0, estimate_total(self._raw) if self._rows is None else float(self._rows.counts))

    @property
    def measurements(self) -> list[Measurement]:
        """What was measured, brought to a common total.

        Where rows with gaps are left out each marginal has a total of its own; counts and noise are scaled by
        N / n, with n the marginal's own noisy total (PRIVACY C4): free, and unbiased if gaps are completely random.
        """
        if self.extended:
            return list(self._raw)
        return [one.scaled_to(self.total) for one in self._raw]

    def fit(
        self, *, start: GraphicalModel | None = None, sweeps: int = 200, forbidden: Sequence[Forbidden] = ()
    ) -> GraphicalModel:
        """The model of the rows as they are counted."""
        return GraphicalModel.fit(
            self.sizes,
            self.measurements,
            total=self.total,
            start=start,
            sweeps=sweeps,
            zeros=[(rule.columns, self._with_gaps(rule)) for rule in forbidden],
            cap_cells=ENGINE_CELLS,
        )

    def _with_gaps(self, rule: Forbidden) -> NDArray[np.bool_]:
        """A forbidden combination of observed cells as one of all cells: a gap is never forbidden."""
        more = [(0, self.sizes[c] - size) for c, size in zip(rule.columns, rule.table.shape, strict=True)]
        return np.pad(rule.table, more)

    def name(self, marginal: Marginal) -> str:
        """A marginal in words."""
        return " × ".join(self.schema.names[c] for c in marginal)

    def conclude(self, method: str, settings: Mapping[str, str | int], *, limits: Sequence[str] = ()) -> FittedModel:
        """The finished model: a last fit from the start, and the gaps completed.

        `limits` are sentences on what the model could not take in.
        """
        self.tell("fitting", 0, 1)
        observed = [column.size for column in self.schema.columns]
        model = self.fit(forbidden=self._forbidden)
        forbidden = list(self._forbidden)
        for rule in self._dependencies:  # what decides what is read off the model, then holds exactly
            law = model.marginal(rule.columns)[tuple(slice(observed[c]) for c in rule.columns)]
            forbidden.append(rule.forbidden(law))
        if self._dependencies:
            model = self.fit(forbidden=forbidden)
        gapped: GraphicalModel | None = None
        filled = model
        if self.extended:
            gapped = model
            zeros = [(rule.columns, rule.table) for rule in forbidden]
            filled = complete_model(model, observed, _noise(self._raw), zeros=zeros, cap_cells=ENGINE_CELLS)
        self.tell("fitting", 1, 1)
        far = ", ".join(self.name(marginal) for marginal in model.unexplained)
        facts = Facts(
            method=method,
            guarantee=self._table.ledger.guarantee(),
            settings={"missing": repr(self._missing), **settings},
            structure=tuple(self._structure()),
            noise=noise_of_columns(self.schema.names, self.measurements),
            limits=(*limits, *([f"Further from the model than noise explains: {far}."] if far else [])),
            edges=tuple(sorted({pair for one in self._raw for pair in combinations(sorted(one.columns), 2)})),
        )
        return FittedModel(self.schema, filled, gapped, self.total, facts)

    def _structure(self) -> Iterable[str]:
        for columns, noise_std in _noise(self._raw).items():
            yield f"{self.name(columns)}: noise std {noise_std:.1f}"


def _noise(measurements: Iterable[Measurement]) -> dict[Marginal, float]:
    """The noise in each cell of every measured marginal; repeated measurements of one are combined."""
    precision: dict[Marginal, float] = {}
    for one in measurements:
        precision[one.columns] = precision.get(one.columns, 0.0) + one.noise_std**-2
    return {columns: known**-0.5 for columns, known in precision.items()}
