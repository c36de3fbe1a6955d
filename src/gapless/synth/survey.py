"""What graphical synthesizers share on top of `Fitting`: marginals to choose from, the model, completion of gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.data import PrivateTable
from gapless.data.workload import Workload
from gapless.errors import ModelError
from gapless.model.completion import complete_model
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Marginal
from gapless.privacy import Loss
from gapless.schema.compatible import Forbidden
from gapless.schema.constraints import constraints_of
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Counts, Fitting, Synthesizer, noise_of

ENGINE_CELLS = 20_000_000  # what the engine would refuse; selection keeps far below


class Survey(Fitting):
    """A fit that chooses among marginals and ends with a graphical model.

    Attributes:
        marginals: those that may be chosen, after `offer`.
        workload: their counts and scores, after `prepare`.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        table: PrivateTable,
        *,
        spend: Loss,
        cap_cells: int,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(synthesizer, table, spend=spend, progress=progress)
        self.cap_cells = cap_cells
        self.marginals: list[Marginal] = []
        self.workload: Workload
        self._always: list[Marginal] = []
        self._forbidden, between, _ = constraints_of(self.schema, self.inside)
        # Rules whose columns fit into one table are structural zeros; others are kept in sampling.
        self._between = [rule for rule in between if math.prod(self.sizes[c] for c in rule.columns) <= cap_cells]

    def offer(self, marginals: Iterable[Marginal]) -> None:
        """Let these be chosen, if they are small enough; a column that fits in none of its marginals is an error."""
        self.marginals = within_cap(self, marginals, self.cap_cells)
        # Columns by themselves, and those that a rule between rows names together: what is always measured.
        together = dict.fromkeys(rule.columns for rule in self._between)
        self._always = [*self.columns, *self.telling(together)]

    def prepare(self) -> Loss:
        """Fill gaps or leave rows out, which may cost; what is left to spend. After all public refusals."""
        left = super().prepare()
        wanted = list(dict.fromkeys([*self._always, *self.marginals]))
        self.workload = Workload(self.prepared, wanted, rows=self.missing.rows)
        return left

    def counts(self, marginals: Sequence[Marginal]) -> list[Counts]:
        """The sealed counts of these marginals, which the scores of choices share."""
        return [self.workload.counts(marginal) for marginal in marginals]

    def measure_columns(self, spend: Loss) -> None:
        """What is always measured, in one batch with even shares."""
        self.measure(self._always, spend)

    @property
    def total(self) -> float:
        """The noisy number of rows, at least one."""
        return max(1.0, float(self.rows[0].counts) if self.rows else super().total)

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

    def conclude(self, settings: Mapping[str, str | int], *, limits: Sequence[str] = ()) -> FittedModel:
        """The finished model: a last fit from the start, and the gaps completed.

        `limits` are sentences on what the model could not take in.
        """
        self.tell("fitting", 0, 1)
        observed = [column.size for column in self.schema.columns]
        model = self.fit(forbidden=self._forbidden)
        forbidden = list(self._forbidden)
        for rule in self._between:  # which combinations go together is read off the model, then holds exactly
            law = model.marginal(rule.columns)[tuple(slice(observed[c]) for c in rule.columns)]
            forbidden.append(rule.forbidden(law))
        if self._between:
            model = self.fit(forbidden=forbidden)
        gapped: GraphicalModel | None = None
        filled = model
        if self.extended:
            gapped = model
            zeros = [(rule.columns, rule.table) for rule in forbidden]
            filled = complete_model(model, observed, noise_of(self.measured), zeros=zeros, cap_cells=ENGINE_CELLS)
        self.tell("fitting", 1, 1)
        far = ", ".join(self.name(marginal) for marginal in model.unexplained)
        told = [f"Further from the model than noise explains: {far}."] if far else []
        return self.fitted(filled, gapped, settings=settings, structure=self.structure(), limits=[*limits, *told])


def within_cap(fitting: Fitting, marginals: Iterable[Marginal], cap_cells: int) -> list[Marginal]:
    """The marginals that are small enough; a column that fits in none of its marginals is an error."""
    marginals = fitting.telling(marginals)
    kept = [marginal for marginal in marginals if math.prod(fitting.sizes[c] for c in marginal) <= cap_cells]
    if lost := sorted({c for marginal in marginals for c in marginal}.difference(*kept)):
        names = ", ".join(f"{fitting.schema.names[c]} ({fitting.sizes[c]} cells)" for c in lost)
        raise ModelError(
            f"no marginal of these columns fits into {cap_cells:,} cells: {names}",
            hint="fewer levels or bins for them, leave them out with select(), or raise cap_cells",
        )
    return kept
