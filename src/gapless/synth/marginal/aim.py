"""AIM: choose the worst-described marginal, measure it, fit, and again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gapless.data import PrivateTable
from gapless.errors import Argument, Hint, ModelError
from gapless.model.junction import JunctionTree, cell_growth, cells, junction_tree
from gapless.model.marginal import Marginal, Measurement
from gapless.privacy import Linf, Loss, Private, Spend, for_counts
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.marginal.selection import MarginalSelection, within_cap
from gapless.text import plural
from gapless.types import Floats

COLUMNS_SHARE = 0.1  # of the budget, for every column by itself
ALWAYS_SHARE = 0.5  # of the rest, for tables that are measured for certain
CHOICE_SHARE = 0.1  # of each round
ROUNDS_PER_COLUMN = 4  # to begin with; annealing makes them fewer
REFITS = 60  # wide tables choose several marginals between two fits
SWEEPS = 3  # at the most, between two choices
POOL = 3000  # candidates looked at between two fits


@dataclass(frozen=True, slots=True, kw_only=True)
class AIM(Synthesizer):
    r"""Adaptive and iterative: measure where the model is worst, as long as that is more than noise.

    Every column is measured first. Then, round by round, the exponential mechanism chooses among the marginals of the
    workload that keep the junction tree small, by :math:`w (\tfrac12\lVert c - |c|\,p\rVert_1 - o)`: how far the
    marginal's counts are from the model's probabilities, less the error that noise would bring. A measurement that
    shows nothing beyond noise doubles the share of the following rounds (annealing).

    With `Extended()` every row counts. With `missing=Observed()` it is the AIM on partial marginals of [MD], but for
    the score: which rows are observed may depend on a column, so the counts of the column that explains the most are
    taken as they are, and the rest is scored (`Workload.conditional_misfit`).

    Guarantee: the releases are one batch of marginals of one column, one batch of those in `always`, and in each round
    a choice and a marginal. Everything else, the share of a round included, follows from released values.

    Args:
        missing: what to do about gaps.
        workload: marginals and their weights; by default all pairs of columns alike.
        always: sets of columns that are measured for certain, by those who know their analysis beforehand: estimates
            from each have intervals (`gapless.pool`). Half of what is left after the columns is theirs, in even shares.
        cap_cells: the largest junction tree.

    References: McKenna, Mullins, Sheldon, Miklau 2022; the score is self-normalised (PRIVACY C3).
    """

    name = "aim"
    keeps_tables = True

    workload: Mapping[tuple[str, ...], float] | None = None
    always: Sequence[tuple[str, ...]] = ()
    cap_cells: int = 400_000

    def check(self, context: FitContext) -> None:
        """Refuse tables that do not fit, a column that fits in no marginal, and a budget that pays for no choice."""
        always = self.certain(context.schema)
        if (price := cells(context.sizes, always)) > self.cap_cells and always:
            raise ModelError(
                f"AIM.fit: the tables that are always measured need a junction tree of {price:,} cells; "
                f"the cap is {self.cap_cells:,}",
                hint=Hint("pass fewer of them as ", Argument("always"))
                | Hint("use fewer levels or bins for their columns")
                | Hint("pass a larger ", Argument("cap_cells")),
            )
        if within_cap(context, _closure(context.schema, self.workload), self.cap_cells):
            rest = (1 - COLUMNS_SHARE) * (1 - ALWAYS_SHARE if always else 1)
            context.check_choice_budget(rest * CHOICE_SHARE / (ROUNDS_PER_COLUMN * len(context.sizes)))

    def certain(self, schema: Schema) -> list[Marginal]:
        """The tables that are measured for certain, by position."""
        if isinstance(self.always, str) or any(isinstance(names, str) for names in self.always):
            raise ModelError(
                f"AIM.fit: always = {self.always!r}", hint=Hint("pass ", Argument("always", [("age", "income")]))
            )
        return list(dict.fromkeys(tuple(sorted(schema.positions(names))) for names in self.always))

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the columns and what is asked for, then choose, measure and fit until `spend` is used up."""
        selection = MarginalSelection(self, table, spend=spend, cap_cells=self.cap_cells, progress=progress)
        weights = _closure(table.schema, self.workload)
        always = selection.nontrivial(self.certain(table.schema))
        for marginal in always:
            weights.setdefault(marginal, 1.0)
        selection.offer(weights)
        budget = selection.prepare()
        if not selection.candidates:  # there is one column, or no other has more than one cell
            selection.measure_columns(budget)
            return selection.conclude({"rounds": 0})
        selection.notify("counting", 0, 1)
        selection.measure_columns(budget * COLUMNS_SHARE)
        if always:
            selection.measure(always, selection.grant.left * ALWAYS_SHARE)
        chosen, tree = self._run_rounds(selection, weights, always)
        settings = {"rounds": len(chosen) - len(always), "marginals": len(set(chosen))}
        if always:
            settings["always measured"] = len(always)
        return selection.conclude(settings, limits=_no_room(tree, weights, chosen, self.cap_cells))

    def _run_rounds(
        self, selection: MarginalSelection, weights: Mapping[Marginal, float], always: Sequence[Marginal]
    ) -> tuple[list[Marginal], JunctionTree]:
        """Choose and measure one marginal a round, until the grant is used up.

        The model is fitted again after `per_fit` rounds. If none of them showed more than noise, the share of a round
        doubles (annealing).

        Returns:
            All marginals that were measured, `always` first, and their junction tree.
        """
        grant, columns = selection.grant, len(selection.sizes)
        budget = grant.left
        share = budget / (ROUNDS_PER_COLUMN * columns)
        per_fit = math.ceil(ROUNDS_PER_COLUMN * columns / REFITS)
        model, tree = selection.fit(), junction_tree(selection.sizes, always)
        chosen, turn, last = list(always), 0, False
        while not last:
            # The tree may grow with the budget that is used: early choices must not take all the room.
            limit = self.cap_cells * min(1.0, 1 - (grant.left - share).value / budget.value)
            small = _within(tree, selection.candidates, chosen, limit) or chosen or selection.candidates
            # What was measured twice and is not followed by the model would teach it nothing a third time.
            stuck = {marginal for marginal in model.unexplained if chosen.count(marginal) > 1}
            candidates = _pool([m for m in dict.fromkeys(small) if m not in stuck] or small, turn)
            expected = model.marginals(candidates)
            scores = _scores(selection, candidates, expected, weights, model.total, share)
            waiting, informative = list(range(len(candidates))), False
            for _ in range(per_fit):
                number = len(chosen) - len(always) + 1
                selection.notify(f"round {number}", round(100 * (1 - grant.left.value / budget.value)), 100)
                last = not (share * 2).fits_in(grant.left)
                choice = (grant.left if last else share) * CHOICE_SHARE
                among = selection.workload.restrict(scores, waiting)
                place = waiting.pop(selection.choose(among, choice, what=f"choice {number}"))
                (measured,) = selection.measure([candidates[place]], grant.left if last else share - choice)
                chosen.append(measured.columns)
                informative |= _beyond_noise(measured, expected[place])
                tree = junction_tree(selection.sizes, set(chosen))
                still = set(_within(tree, [candidates[p] for p in waiting], chosen, limit)) if per_fit > 1 else set()
                waiting = [p for p in waiting if candidates[p] in still]
                if last or not waiting:
                    break
            if not last:
                model, turn = selection.fit(start=model, sweeps=SWEEPS), turn + 1
                share = share if informative else share * 2
        return chosen, tree


def _no_room(tree: JunctionTree, weights: Mapping[Marginal, float], chosen: Sequence[Marginal], cap: int) -> list[str]:
    """What part of the workload would make the tree larger than it may be, whatever the budget, in words."""
    asked = [marginal for marginal in weights if all(tree.sizes[c] > 1 for c in marginal)]
    left = set(asked).difference(_within(tree, asked, chosen, cap))
    if not left:
        return []
    share = sum(weights[marginal] for marginal in left) / sum(weights[marginal] for marginal in asked)
    return [
        f"The tree (cap_cells = {cap:,}) has no room for {len(left)} of {plural(len(asked), 'marginal')} of the "
        f"workload, {share:.0%} by weight, whatever the budget."
    ]


def _within(
    tree: JunctionTree, marginals: Sequence[Marginal], chosen: Sequence[Marginal], limit: float
) -> list[Marginal]:
    """The marginals with which the tree keeps within the limit; those chosen before cost nothing."""
    known, growth = set(chosen), cell_growth(tree)

    def fits(marginal: Marginal) -> bool:
        if len(marginal) > 2:
            return cells(tree.sizes, [*known, marginal]) <= limit
        i, j = marginal
        return tree.cells + growth[i][j] <= limit

    return [marginal for marginal in marginals if marginal in known or fits(marginal)]


def _pool(candidates: Sequence[Marginal], turn: int) -> list[Marginal]:
    """At most POOL of the candidates, others at each turn: a wide table has too many pairs to look at all of them."""
    step = math.ceil(len(candidates) / POOL)
    return list(candidates[turn % step :: step])


def _closure(schema: Schema, workload: Mapping[tuple[str, ...], float] | None) -> dict[Marginal, float]:
    """The candidates and their weights: all subsets of two or more columns of the marginals asked for.

    A candidate weighs as much as the columns it shares with the workload, the heaviest weighing 1.
    """
    if workload is None:
        return dict.fromkeys(combinations(range(len(schema.columns)), 2), 1.0)
    if not isinstance(workload, Mapping):
        raise ModelError(f"the workload is a {type(workload).__name__}", hint='{("age", "sex"): 1.0}')
    asked: dict[Marginal, float] = {}
    for names, weight in workload.items():
        marginal = tuple(sorted(schema.positions(names)))
        asked[marginal] = asked.get(marginal, 0.0) + float(weight)
    heaviest = sum(map(len, asked)) * sum(asked.values())
    good = all(weight > 0 for weight in workload.values()) and math.isfinite(heaviest)
    if not asked or not good:
        raise ModelError(
            "the workload has no marginal, or a weight that is not positive and finite",
            hint='{("age", "sex"): 1.0}',
        )
    candidates = {
        part for marginal in asked for many in range(2, len(marginal) + 1) for part in combinations(marginal, many)
    }
    weights = {
        part: sum(weight * len(set(part) & set(marginal)) for marginal, weight in asked.items())
        for part in sorted(candidates)
    }
    heaviest = max(weights.values(), default=1.0)
    return {part: weight / heaviest for part, weight in weights.items()}


def _scores(
    selection: MarginalSelection,
    candidates: Sequence[Marginal],
    expected: Sequence[Floats],
    weights: Mapping[Marginal, float],
    total: float,
    share: Loss,
) -> Private[Floats, Linf]:
    """How much each candidate would teach the model beyond the noise of its measurement.

    Where rows with gaps are left out, candidates count different rows, and what that does to a column is no lesson.
    """
    noise = for_counts(share * (1 - CHOICE_SHARE), selection.workload.counts(candidates[0]).distance)
    misfit = selection.workload.misfit if selection.extended else selection.workload.conditional_misfit
    return misfit(
        candidates,
        expected,
        np.array([weights[candidate] for candidate in candidates]),
        np.array([_noise_error(law * total, noise.noise_std) for law in expected]),
    )


def _noise_error(expected: Floats, noise_std: float) -> float:
    """The error that noise would bring to a marginal: √(2/π) σ a cell, but no more than the model expects in it."""
    return 0.5 * float(np.minimum(math.sqrt(2 / math.pi) * noise_std, expected).sum())


def _beyond_noise(measured: Measurement, expected: Floats) -> bool:
    """Whether a measurement is further from what was expected than noise alone would be, on average."""
    off = (measured.counts - measured.counts.sum() * expected) / measured.noise_std
    return float((off**2).sum()) > measured.counts.size
