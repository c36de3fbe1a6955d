"""The shared part of MST and AIM: candidate marginals, their private scores, and the graphical model fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from gapless.constraints.forbidden import columns_of_constraints
from gapless.data import PrivateTable
from gapless.data.workload import Workload
from gapless.errors import ModelError
from gapless.model.graphical import GraphicalModel
from gapless.model.junction import JunctionTree, cell_growth, cells, junction_tree
from gapless.model.marginal import Marginal
from gapless.privacy import Loss, Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Counts, FitContext, Synthesizer, table_cap
from gapless.synth.learners import MAX_JUNCTION_TREE_CELLS


class MarginalSelection(FitContext):
    """A fit that chooses among candidate marginals and ends with a graphical model.

    Attributes:
        candidates: the marginals that may be chosen; set by `add_candidates`.
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
        self._in_every_tree: list[Marginal] = []

    def add_candidates(self, marginals: Iterable[Marginal]) -> None:
        """Set the candidates: the marginals that are small enough. Refuse a column that is in none of them."""
        self.candidates = within_cap(self, marginals, self.cap_cells)
        # Rules between rows whose columns fit into one table become structural zeros; sampling enforces the others.
        constrained, _ = columns_of_constraints(self.schema, self.within_bin_counts)
        self._always = [*self.one_way_marginals, *_constraints_between_rows(self, self.cap_cells)]
        self._in_every_tree = [marginal for marginal in [*constrained, *self._always] if len(marginal) > 1]

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
        """Measure every column, and the columns of constraints between two rows, in one batch with equal shares."""
        self.measure(self._always, spend)

    def keep_tree_small(self, chosen: Sequence[Marginal]) -> list[Marginal]:
        """Leave out chosen marginals, the last ones first, that would make the junction tree of the model too large."""
        if cells(self.sizes, [*self._in_every_tree, *chosen]) <= MAX_JUNCTION_TREE_CELLS:
            return list(chosen)
        kept: list[Marginal] = []
        for marginal in chosen:
            if cells(self.sizes, [*self._in_every_tree, *kept, marginal]) <= MAX_JUNCTION_TREE_CELLS:
                kept.append(marginal)
        return kept

    def within_max_cells(self, marginals: Sequence[Marginal], chosen: Sequence[Marginal]) -> list[Marginal]:
        """Return the marginals with which the junction tree of the model, with its constraints, is small enough."""
        if not self._in_every_tree and self.cap_cells <= MAX_JUNCTION_TREE_CELLS:
            return list(marginals)
        known = [*self._in_every_tree, *chosen]
        return within_tree(junction_tree(self.sizes, known), marginals, known, MAX_JUNCTION_TREE_CELLS)

    @property
    def total(self) -> float:
        """The noisy number of rows, at least one."""
        return max(1.0, float(self.rows[0].counts) if self.rows else super().total)

    def fit_model(self, *, start: GraphicalModel | None = None, sweeps: int = 200) -> GraphicalModel:
        """Fit the model that scores candidates, over cells as they are counted, without constraints."""
        return GraphicalModel.fit(
            self.sizes,
            self.scaled_tables,
            total=self.total,
            start=start,
            sweeps=sweeps,
            cap_cells=MAX_JUNCTION_TREE_CELLS,
        )

    def fit_final_model(self, *, settings: Mapping[str, str | int], limitations: Sequence[str] = ()) -> FittedModel:
        """Fit the final model from scratch, complete the gaps, and return it.

        Args:
            settings: facts on the fit, by name, which the model only records.
            limitations: sentences on what the model could not represent.
        """
        learned = self.learn(GraphicalModel.kind, cap_cells=self.cap_cells)
        return self.fitted(learned, settings=settings, limitations=limitations)


def within_cap(context: FitContext, marginals: Iterable[Marginal], cap_cells: int) -> list[Marginal]:
    """Return the marginals that are small enough (`table_cap`). Refuse a column that is in none of them."""
    marginals, (cap, hint) = context.nontrivial(marginals), table_cap(cap_cells)
    kept = [marginal for marginal in marginals if math.prod(context.sizes[c] for c in marginal) <= cap]
    if lost := sorted({c for marginal in marginals for c in marginal}.difference(*kept)):
        names = ", ".join(f"{context.schema.names[c]} ({context.sizes[c]} cells)" for c in lost)
        raise ModelError(f"no marginal of these columns fits into {cap:,} cells: {names}", hint=hint)
    return kept


def checked_candidates(
    context: FitContext, marginals: Iterable[Marginal], cap_cells: int, *, always: Iterable[Marginal] = ()
) -> list[Marginal]:
    """Return the candidates; refuse columns, constraints and marginals in `always` that are too large."""
    candidates = within_cap(context, marginals, cap_cells)
    context.check_junction_tree([*_constraints_between_rows(context, cap_cells), *always])
    return candidates


def _constraints_between_rows(context: FitContext, cap_cells: int) -> list[Marginal]:
    """Return the columns of each constraint between two rows that is measured: those that fit into one table."""
    _, between = columns_of_constraints(context.schema, context.within_bin_counts)
    small = dict.fromkeys(m for m in between if math.prod(context.sizes[c] for c in m) <= cap_cells)
    return context.nontrivial(small)


def within_tree(
    tree: JunctionTree, marginals: Sequence[Marginal], chosen: Sequence[Marginal], limit: float
) -> list[Marginal]:
    """Return the marginals with which the tree stays within the limit; those chosen before are free."""
    known, growth = set(chosen), cell_growth(tree)

    def fits(marginal: Marginal) -> bool:
        if len(marginal) > 2:
            return cells(tree.sizes, [*known, marginal]) <= limit
        i, j = marginal
        return tree.cells + growth[i][j] <= limit

    return [marginal for marginal in marginals if marginal in known or fits(marginal)]
