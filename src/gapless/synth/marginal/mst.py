"""MST: a tree of pairs, chosen by noisy dependence, measured all at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gapless.data import PrivateTable
from gapless.model.marginal import Marginal
from gapless.privacy import Loss, Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Fitting, Synthesizer
from gapless.synth.marginal.selection import Survey, within_cap


@dataclass(frozen=True, slots=True, kw_only=True)
class MST(Synthesizer):
    r"""A maximum spanning tree: fast, and good where few pairs of columns matter.

    A third of the budget measures every column; a third chooses, one by one with the exponential mechanism, pairs that
    connect the columns, by how far their observed cells are from those of independent columns; a third measures these
    pairs, with their gaps if `missing` counts these. A tree has few pairs: that a gap depends on a column is worth one
    of them only if the values depend on it too, for otherwise the completion has nothing to correct.

    Args:
        missing: what to do about gaps.
        cap_cells: the largest pair.

    References: McKenna, Miklau, Sheldon 2021; the score is `Workload.conditional_misfit`, self-normalised (PRIVACY C3).
    """

    name = "mst"
    keeps_tables = True

    cap_cells: int = 1_000_000

    def check(self, fitting: Fitting) -> None:
        """Refuse a column that fits in no pair, and a budget that pays for no choice."""
        if within_cap(fitting, combinations(range(len(fitting.sizes)), 2), self.cap_cells):
            fitting.can_choose(1 / (3 * len(fitting.sizes)))

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure columns, choose a tree, measure its pairs."""
        survey = Survey(self, table, spend=spend, cap_cells=self.cap_cells, progress=progress)
        survey.offer(combinations(range(len(survey.sizes)), 2))
        if not survey.marginals:
            survey.measure_columns(survey.prepare())
            return survey.conclude({"pairs": 0})
        spend = survey.prepare()
        survey.tell("counting", 0, 1)
        survey.measure_columns(spend / 3)
        tree = self._choose_tree(survey, spend / 3)
        survey.tell("measuring", 0, 1)
        survey.measure(tree, survey.grant.left)
        return survey.conclude({"pairs": len(tree)})

    @staticmethod
    def _choose_tree(survey: Survey, spend: Loss) -> list[Marginal]:
        """Pairs that connect all columns, as far as the cap allows."""
        part = list(range(len(survey.sizes)))  # the connected part to which each column belongs
        pairs = survey.marginals
        nothing = np.zeros(len(pairs))
        scores = survey.workload.conditional_misfit(pairs, survey.fit().marginals(pairs), nothing + 1, nothing)
        open_places = list(range(len(pairs)))
        tree: list[Marginal] = []
        share = spend / (len(part) - 1)
        while open_places := [p for p in open_places if part[pairs[p][0]] != part[pairs[p][1]]]:
            survey.tell("choosing", len(tree), len(part) - 1)
            among = survey.workload.among(scores, open_places)
            column, other = pairs[open_places[survey.choose(among, share, what=f"choice {len(tree) + 1}")]]
            tree.append((column, other))
            part = [part[column] if name == part[other] else name for name in part]
        return tree
