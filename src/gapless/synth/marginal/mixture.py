"""Mixture: every pair of columns, measured in one batch, and a mixture of products fitted to all of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod

from gapless.data import PrivateTable
from gapless.errors import Hint, ModelError
from gapless.privacy import Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FEWER_CELLS, FitContext, Synthesizer
from gapless.synth.marginal.mixture_model import MixtureModel

CELLS_EXPONENT = 1 / 6  # of a pair's cells, for its part of the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(Synthesizer):
    """All pairs at once, nothing chosen: for tables in which many columns depend on each other, and for larger budgets.

    Each pair gets a part of the budget in proportion to the sixth root of its cells, in one batch that is fixed in
    advance, priced by its exact total if nothing was released before. What a column is by itself its pairs tell. A
    mixture of products is fitted to the noisy tables until noise explains what is left (`mixture_fit`).

    Guarantee: the releases are the tables of two columns, of the one if there is no other, and, unless every row is
    counted in them, the number of rows. With `Observed()` the promise to the people behind the gaps holds for the
    whole of them.

    Args:
        missing: what to do about gaps.
        cap_cells: the most cells in a table of all columns' cells by all columns' cells, of which fitting holds a few.
    """

    name = "mixture"
    keeps_tables = True

    cap_cells: int = 50_000_000

    def check(self, fitting: FitContext) -> None:
        """Refuse more cells than the cap."""
        if (cells := sum(fitting.sizes) ** 2) > self.cap_cells:
            raise ModelError(
                f"Mixture.fit: {sum(fitting.sizes):,} cells in all columns make {cells:,} of pairs; "
                f"the cap is {self.cap_cells:,}",
                hint=Hint("choose another method") | FEWER_CELLS,
            )

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure every pair, and fit a mixture to them."""
        fitting = FitContext(self, table, spend=spend, progress=progress)
        pairs = fitting.nontrivial(combinations(range(len(fitting.sizes)), 2))
        marginals = pairs or fitting.columns
        fitting.notify("measuring", 0, 1)
        fitting.measure(
            marginals,
            fitting.prepare(),
            shares=[prod(fitting.sizes[c] for c in marginal) ** CELLS_EXPONENT for marginal in marginals],
            together=True,
        )
        learned = fitting.learn(MixtureModel.kind)
        assert isinstance(learned.filled, MixtureModel)  # noqa: S101 for mypy: by its kind
        return fitting.fitted(learned, settings={"pairs": len(pairs), "components": learned.filled.components})
