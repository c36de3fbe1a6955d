"""The shared part of MST and AIM: candidate marginals, their private scores, and the graphical model fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gapless.constraints.forbidden import constraints_of
from gapless.data import PrivateTable
from gapless.data.workload import Workload
from gapless.errors import ModelError
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Marginal
from gapless.privacy import Loss, Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FEWER_CELLS, Counts, FitContext, Synthesizer
from gapless.synth.measurements import ENGINE_CELLS


class MarginalSelection(FitContext):
    """A fit that chooses among candidate marginals and ends with a graphical model.

    Attributes:
        candidates: the marginals that may be chosen; set by `offer`.
        workload: the sealed counts and scores of the candidates; set by `prepare`.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        table: PrivateTable,
        *,
        spend: Spend,
        cap_cells: int,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(synthesizer, table, spend=spend, progress=progress)
        self.cap_cells = cap_cells
        self.candidates: list[Marginal] = []
        self.workload: Workload
        self._always: list[Marginal] = []

    def offer(self, marginals: Iterable[Marginal]) -> None:
        """Set the candidates: the marginals that are small enough. Refuse a column that is in none of them."""
        self.candidates = within_cap(self, marginals, self.cap_cells)
        # Rules between rows whose columns fit into one table become structural zeros; sampling enforces the others.
        _, between, _ = constraints_of(self.schema, self.within_bin_counts)
        in_rules = dict.fromkeys(
            r.columns for r in between if math.prod(self.sizes[c] for c in r.columns) <= self.cap_cells
        )
        self._always = [*self.columns, *self.nontrivial(in_rules)]

    def prepare(self) -> Loss:
        """Treat the gaps, count the candidates, and return the loss that is left. Call it after all public refusals."""
        left = super().prepare()
        wanted = list(dict.fromkeys([*self._always, *self.candidates]))
        self.workload = Workload(self.prepared, wanted, rows=self.missing.rows)
        return left

    def counts(self, marginals: Sequence[Marginal]) -> list[Counts]:
        """Return the sealed counts of these marginals; the scores of choices use the same ones."""
        return [self.workload.counts(marginal) for marginal in marginals]

    def measure_columns(self, spend: Loss) -> None:
        """Measure every column, and the columns of rules between rows, in one batch with equal shares."""
        self.measure(self._always, spend)

    @property
    def total(self) -> float:
        """The noisy number of rows, at least one."""
        return max(1.0, float(self.rows[0].counts) if self.rows else super().total)

    def fit(self, *, start: GraphicalModel | None = None, sweeps: int = 200) -> GraphicalModel:
        """Fit the model that scores candidates, over cells as they are counted. `conclude` adds the constraints."""
        return GraphicalModel.fit(
            self.sizes, self.scaled_tables, total=self.total, start=start, sweeps=sweeps, cap_cells=ENGINE_CELLS
        )

    def conclude(self, settings: Mapping[str, str | int], *, limits: Sequence[str] = ()) -> FittedModel:
        """Fit the final model from scratch, complete the gaps, and return it.

        Args:
            settings: facts on the fit, by name.
            limits: sentences on what the model could not represent.
        """
        learned = self.learn(GraphicalModel.kind, cap_cells=self.cap_cells)
        return self.fitted(learned, settings=settings, limits=limits)


def within_cap(context: FitContext, marginals: Iterable[Marginal], cap_cells: int) -> list[Marginal]:
    """Return the marginals of at most `cap_cells` cells. Refuse a column that is in none of them."""
    marginals = context.nontrivial(marginals)
    kept = [marginal for marginal in marginals if math.prod(context.sizes[c] for c in marginal) <= cap_cells]
    if lost := sorted({c for marginal in marginals for c in marginal}.difference(*kept)):
        names = ", ".join(f"{context.schema.names[c]} ({context.sizes[c]} cells)" for c in lost)
        raise ModelError(
            f"no marginal of these columns fits into {cap_cells:,} cells: {names}",
            hint=FEWER_CELLS,
        )
    return kept
