"""MST: a tree of pairs, chosen by noisy dependence, measured all at once."""

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
    r"""A maximum spanning tree of pairs of columns: fast, and good where few pairs matter.

    The budget has three equal parts. The first measures every column by itself. The second chooses pairs that connect
    the columns, one by one with the exponential mechanism; the score of a pair is the distance of its observed counts
    from those of independent columns. The third measures the chosen pairs, with their gaps if `missing` counts these.

    The score looks at observed cells only because a tree has few pairs: that a gap depends on a column is worth one of
    them only if the values depend on it too, for otherwise the completion of gaps has nothing to correct.

    Guarantee: the releases are one batch of marginals of one column, at most d - 1 choices for d columns, and one
    batch of marginals of two columns. Each choice depends on the earlier ones, so they compose adaptively.

    Args:
        missing: what to do about gaps.
        cap_cells: the largest pair that may be measured, in cells.

    References: McKenna, Miklau, Sheldon 2021; the score is `Workload.conditional_misfit`, self-normalised (PRIVACY C3).
    """

    name = "mst"
    keeps_tables = True

    cap_cells: int = 1_000_000

    def check(self, context: FitContext) -> None:
        """Refuse a column that fits in no pair, and a budget that pays for no choice."""
        if within_cap(context, combinations(range(len(context.sizes)), 2), self.cap_cells):
            context.check_choice_budget(1 / (3 * len(context.sizes)))

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the columns, choose a tree, measure its pairs."""
        selection = MarginalSelection(self, table, spend=spend, cap_cells=self.cap_cells, progress=progress)
        selection.offer(combinations(range(len(selection.sizes)), 2))
        budget = selection.prepare()
        if not selection.candidates:  # there is one column, or no other has more than one cell
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
        """Choose pairs that connect all columns, as far as the cap allows: Kruskal's algorithm with noisy choices."""
        pairs = selection.candidates
        independent = selection.fit().marginals(pairs)  # only single columns have been measured so far
        weights, offsets = np.ones(len(pairs)), np.zeros(len(pairs))
        scores = selection.workload.conditional_misfit(pairs, independent, weights, offsets)
        component = list(range(len(selection.sizes)))  # of each column, in the forest of chosen pairs
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
