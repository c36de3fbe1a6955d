"""What graphical synthesizers share on top of `FitContext`: marginals to choose from, the model, completion of gaps."""

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
    """A fit that chooses among marginals and ends with a graphical model.

    Attributes:
        candidates: the marginals that may be chosen, after `offer`.
        workload: their counts and scores, after `prepare`.
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
        _, between, _ = constraints_of(self.schema, self.within_bin_counts)
        # Rules whose columns fit into one table are structural zeros; others are kept in sampling.
        self._between = [rule for rule in between if math.prod(self.sizes[c] for c in rule.columns) <= cap_cells]

    def offer(self, marginals: Iterable[Marginal]) -> None:
        """Let these be chosen, if they are small enough; a column that fits in none of its marginals is an error."""
        self.candidates = within_cap(self, marginals, self.cap_cells)
        # Columns by themselves, and those that a rule between rows names together: what is always measured.
        together = dict.fromkeys(rule.columns for rule in self._between)
        self._always = [*self.columns, *self.nontrivial(together)]

    def prepare(self) -> Loss:
        """Fill gaps or leave rows out, which may cost; what is left to spend. After all public refusals."""
        left = super().prepare()
        wanted = list(dict.fromkeys([*self._always, *self.candidates]))
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

    def fit(self, *, start: GraphicalModel | None = None, sweeps: int = 200) -> GraphicalModel:
        """The model of the rows as they are counted, to choose by: constraints come in at the end."""
        return GraphicalModel.fit(
            self.sizes, self.scaled_tables, total=self.total, start=start, sweeps=sweeps, cap_cells=ENGINE_CELLS
        )

    def conclude(self, settings: Mapping[str, str | int], *, limits: Sequence[str] = ()) -> FittedModel:
        """The finished model: a last fit from the start, and the gaps completed.

        `limits` are sentences on what the model could not take in.
        """
        learned = self.learn(GraphicalModel.kind, cap_cells=self.cap_cells)
        return self.fitted(learned, settings=settings, limits=limits)


def within_cap(context: FitContext, marginals: Iterable[Marginal], cap_cells: int) -> list[Marginal]:
    """The marginals that are small enough; a column that fits in none of its marginals is an error."""
    marginals = context.nontrivial(marginals)
    kept = [marginal for marginal in marginals if math.prod(context.sizes[c] for c in marginal) <= cap_cells]
    if lost := sorted({c for marginal in marginals for c in marginal}.difference(*kept)):
        names = ", ".join(f"{context.schema.names[c]} ({context.sizes[c]} cells)" for c in lost)
        raise ModelError(
            f"no marginal of these columns fits into {cap_cells:,} cells: {names}",
            hint=FEWER_CELLS,
        )
    return kept
