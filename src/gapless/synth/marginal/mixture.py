"""Mixture: measure every pair of columns in one batch, and fit a mixture of products to all of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod

from gapless.data import PrivateTable
from gapless.errors import Hint, ModelError
from gapless.privacy import Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FEWER_CELLS, SMALLER_COLUMNS, FitContext, Synthesizer
from gapless.synth.marginal.mixture_model import CAP_CELLS, MixtureModel

CELLS_EXPONENT = 1 / 6  # a pair's share of the budget is proportional to its number of cells to this power


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(Synthesizer):
    """All pairs at once, without choices: for larger budgets and tables in which many columns depend on each other.

    Each pair gets a share of the budget in proportion to the sixth root of its number of cells. The batch is fixed in
    advance, and priced by its exact total if nothing was released before. Columns are not measured alone: their pairs
    determine their marginals. A mixture of products is fitted until noise explains the residuals (`mixture_fit`).

    Guarantee: the releases are all two-way marginals (the one-way marginal of a table with one column) and, unless
    every row is counted in them, the number of rows. With `Observed()` the promise for the complete data covers the
    whole batch.

    Args:
        missing: how to treat gaps.
        cap_cells: the largest matrix of all columns' cells by all columns' cells; fitting holds a few of them.
    """

    name = "mixture"
    keeps_measurements = True

    cap_cells: int = 50_000_000

    def check(self, context: FitContext) -> None:
        """Refuse more cells than the cap, and a pair whose marginal the model could not compute."""
        if (cells := sum(context.sizes) ** 2) > self.cap_cells:
            raise ModelError(
                f"Mixture.fit: all columns together have {sum(context.sizes):,} cells, which makes {cells:,} pairs "
                f"of cells; the cap is {self.cap_cells:,}",
                hint=Hint("choose another method, such as mst") | FEWER_CELLS,
            )
        largest = sorted(range(len(context.sizes)), key=lambda c: -context.sizes[c])[:2]
        if (cells := prod(context.sizes[c] for c in largest)) > CAP_CELLS:
            names = " × ".join(context.schema.names[c] for c in sorted(largest))
            raise ModelError(
                f"Mixture.fit: the marginal of {names} has {cells:,} cells; the cap is {CAP_CELLS:,}",
                hint=SMALLER_COLUMNS,
            )

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure every pair, and fit a mixture to them."""
        context = FitContext(self, table, spend=spend, progress=progress)
        pairs = context.nontrivial(combinations(range(len(context.sizes)), 2))
        marginals = pairs or context.one_way_marginals
        shares = [prod(context.sizes[c] for c in marginal) ** CELLS_EXPONENT for marginal in marginals]
        context.notify("measuring", 0, 1)
        context.measure(marginals, context.prepare(), shares=shares, together=True)
        learned = context.learn(MixtureModel.kind)
        assert isinstance(learned.filled, MixtureModel)  # noqa: S101 for mypy: by its kind
        return context.fitted(learned, settings={"pairs": len(pairs), "components": learned.filled.components})
