"""MST: choose a spanning tree of pairs of columns by noisy dependence scores, then measure its pairs in one batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gapless.data import PrivateTable
from gapless.model.marginal import Marginal
from gapless.privacy import Loss, Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.marginal.selection import MarginalSelection, within_cap


@dataclass(frozen=True, slots=True, kw_only=True)
class MST(Synthesizer):
    r"""A maximum spanning tree of pairs of columns: fast, and accurate where few pairs matter.

    The budget is split into three equal parts:

    1. Measure the one-way marginal of every column.
    2. Choose pairs that connect the columns, one at a time, with the exponential mechanism. The score of a pair is the
       L1 distance between its observed counts and those of independent columns.
    3. Measure the two-way marginals of the chosen pairs, with gap states if `missing` counts them.

    The score uses observed cells only. A tree has few pairs. A pair in which only the gaps depend on the other column
    is not worth one of them: the completion of gaps would have nothing to correct.

    Guarantee: the releases are one batch of one-way marginals, at most d - 1 choices for d columns, and one batch of
    two-way marginals. Each choice depends on the earlier ones, so they compose adaptively.

    Args:
        missing: how to treat gaps.
        cap_cells: the largest pair that may be measured, in cells.

    References: McKenna, Miklau, Sheldon 2021. The score is `Workload.conditional_misfit`, self-normalised (PRIVACY C3).
    """

    name = "mst"
    keeps_tables = True

    cap_cells: int = 1_000_000

    def check(self, context: FitContext) -> None:
        """Refuse a column that is too large for every pair, and a budget that cannot pay for a choice."""
        if within_cap(context, combinations(range(len(context.sizes)), 2), self.cap_cells):
            context.check_choice_budget(1 / (3 * len(context.sizes)))

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the columns, choose a tree and measure its pairs."""
        selection = MarginalSelection(self, table, spend=spend, cap_cells=self.cap_cells, progress=progress)
        selection.offer(combinations(range(len(selection.sizes)), 2))
        budget = selection.prepare()
        if not selection.candidates:  # fewer than two columns have more than one cell
            selection.measure_columns(budget)
            return selection.conclude({"pairs": 0})
        selection.notify("counting", 0, 1)
        selection.measure_columns(budget / 3)
        tree = self._choose_tree(selection, budget / 3)
        selection.notify("measuring", 0, 1)
        selection.measure(tree, selection.grant.left)
        return selection.conclude({"pairs": len(tree)})

    @staticmethod
    def _choose_tree(selection: MarginalSelection, spend: Loss) -> list[Marginal]:
        """Choose pairs that connect all columns, as far as the cap allows: Kruskal's algorithm with private choices."""
        pairs = selection.candidates
        independent = selection.fit().marginals(pairs)  # only single columns have been measured so far
        weights, offsets = np.ones(len(pairs)), np.zeros(len(pairs))
        scores = selection.workload.conditional_misfit(pairs, independent, weights, offsets)
        component = list(range(len(selection.sizes)))  # of each column, in the forest of pairs chosen so far
        choices = len(component) - 1
        open_pairs = list(range(len(pairs)))
        tree: list[Marginal] = []
        while open_pairs := [place for place in open_pairs if len({component[c] for c in pairs[place]}) > 1]:
            selection.notify("choosing", len(tree), choices)
            among = selection.workload.restrict(scores, open_pairs)
            chosen = selection.choose(among, spend / choices, what=f"choice {len(tree) + 1}")
            column, other = pairs[open_pairs[chosen]]
            tree.append((column, other))
            component = [component[column] if name == component[other] else name for name in component]
        return tree
