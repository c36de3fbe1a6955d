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
from gapless.synth.learners import MAX_JUNCTION_TREE_CELLS
from gapless.synth.marginal.selection import MarginalSelection, checked_candidates
from gapless.text import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class MST(Synthesizer):
    r"""A maximum spanning tree of pairs of columns: fast, and accurate where few pairs matter.

    1. Measure in one batch, with a third of the budget: the one-way marginal of every column; the pairs of columns in a
       constraint between two rows (such as a functional dependency); and the number of rows, unless `missing` counts
       every row anyway.
    2. Choose pairs that connect the columns, one at a time, with the exponential mechanism and a third of the budget.
       The score of a pair (a, b) says how badly the model p of step 1 describes the rows observed on both: predict
       their counts as count(a) p(b | a), take half the L1 distance to the true counts, and do the same with
       count(b) p(a | b). The score is the smaller distance (`Workload.conditional_misfit`).
    3. Measure the chosen pairs with all that is left: two-way marginals, with gap states if `missing` counts them.

    4. Fit a graphical model to all of this, and fill the gaps of the fitted distribution.

    If two columns are related only in which cells are missing, their score is low. Step 4 would gain nothing from them.

    Guarantee: the releases are one batch, at most d - 1 choices for d columns, and another batch. Each choice depends
    on the earlier ones, so they compose adaptively.

    Args:
        missing: how to treat gaps; by default every row counts, with gaps as additional cells (`Extended`).
        cap_cells: the largest pair that may be measured, in cells.

    References: McKenna, Miklau, Sheldon 2021; for the score docs/proofs/scores.md, section 2a.
    """

    name = "mst"
    keeps_measurements = True  # `FittedModel.copies` fits further models to them, for confidence intervals
    cap_cells: int = 1_000_000

    def check(self, context: FitContext) -> None:
        """Refuse columns and constraints that are too large, and a budget that cannot pay for a choice."""
        if checked_candidates(context, combinations(range(len(context.sizes)), 2), self.cap_cells):  # else no choice
            context.check_choice_budget(share=1 / (3 * len(context.sizes)))

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the columns, choose a tree and measure its pairs."""
        # The state of this fit: it takes a grant of `spend`, under which it measures and chooses.
        selection = MarginalSelection(self, table, spend=spend, cap_cells=self.cap_cells, progress=progress)
        selection.add_candidates(combinations(range(len(selection.sizes)), 2))  # columns by position
        spend = selection.prepare()  # treats gaps as `missing` says, and returns the loss that is left
        if not selection.candidates:  # fewer than two columns have more than one cell
            selection.measure_columns(spend)
            return selection.fit_final_model(settings={"pairs": 0})
        selection.notify("counting", 0, 1)  # calls `progress`
        selection.measure_columns(spend / 3)  # step 1
        chosen = self._choose_tree(selection, spend / 3)  # step 2
        tree = selection.keep_tree_small(chosen)  # with constraints, cliques can be larger than the chosen pairs
        selection.notify("measuring", 0, 1)
        selection.measure(
            tree or selection.one_way_marginals, selection.grant.left
        )  # without a tree, every column again
        limitations = []
        if left_out := len(chosen) - len(tree):
            limitations.append(
                f"{left_out} of {plural(len(chosen), 'chosen pair')} would have made the junction tree larger than "
                f"{MAX_JUNCTION_TREE_CELLS:,} cells and {'was' if left_out == 1 else 'were'} not measured."
            )
        return selection.fit_final_model(settings={"pairs": len(tree)}, limitations=limitations)

    @staticmethod
    def _choose_tree(selection: MarginalSelection, spend: Loss) -> list[Marginal]:
        """Choose pairs that connect all columns, as far as the cap allows: Kruskal's algorithm with private choices."""
        pairs = selection.candidates
        predicted = selection.fit_model().marginals(pairs)  # columns are independent, except pairs in a constraint
        # AIM weights its scores and subtracts an offset; MST does not.
        weights, offsets = np.ones(len(pairs)), np.zeros(len(pairs))
        scores = selection.workload.conditional_misfit(pairs, predicted, weights, offsets)
        component = list(range(len(selection.sizes)))  # of each column, in the forest of pairs chosen so far
        choices = len(component) - 1
        open_pairs = list(range(len(pairs)))  # indices of pairs whose columns are not connected yet
        tree: list[Marginal] = []  # a marginal is its columns, by position
        while open_pairs := [place for place in open_pairs if len({component[c] for c in pairs[place]}) > 1]:
            selection.notify("choosing", len(tree), choices)
            open_scores = selection.workload.restrict(scores, open_pairs)
            chosen = selection.choose(open_scores, spend / choices, what=f"choice {len(tree) + 1}")
            column, other = pairs[open_pairs[chosen]]
            tree.append((column, other))
            component = [component[column] if label == component[other] else label for label in component]
        return tree
