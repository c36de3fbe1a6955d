"""AIM: in each round choose the marginal that the model fits worst, measure it, and fit the model again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gapless.data import PrivateTable
from gapless.errors import Argument, Hint, ModelError
from gapless.model.junction import JunctionTree, cells, junction_tree
from gapless.model.marginal import Marginal, Measurement
from gapless.privacy import Linf, Loss, Private, Spend, for_counts
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.marginal.selection import MarginalSelection, checked_candidates, within_tree
from gapless.text import plural
from gapless.types import Floats, is_number

COLUMNS_SHARE = 0.1  # of the budget, for the one-way marginals
ALWAYS_SHARE = 0.5  # of the rest, for the marginals in `always`
CHOICE_SHARE = 0.1  # of each round, for its choice
ROUNDS_PER_COLUMN = 4  # at the start; annealing reduces the number of rounds
REFITS = 60  # most fits in all; wide tables choose several marginals between two fits
SWEEPS = 3  # most sweeps of a fit between two choices
POOL = 3000  # most candidates scored between two fits
_EXAMPLE_WORKLOAD = Hint("pass ", Argument("workload", {("age", "sex"): 1.0}))


@dataclass(frozen=True, slots=True, kw_only=True)
class AIM(Synthesizer):
    r"""Adaptive and iterative mechanism: measure the marginals that the model fits worst.

    All one-way marginals are measured first. Then, in each round, the exponential mechanism chooses a marginal among
    those of the workload that keep the junction tree small. The score is
    :math:`w (\tfrac12\lVert c - |c|\,p\rVert_1 - o)`: the distance of the marginal's counts c from the model's
    probabilities p, less the error o that noise would add. If a measurement shows nothing beyond noise, the share of
    the following rounds doubles (annealing).

    With `Extended()` every row counts. With `missing=Observed()` it is the AIM on partial marginals of [MD], with
    another score. Which rows are observed may depend on a column. So the score takes the counts of the column that
    explains most as given, and compares the rest (`Workload.conditional_misfit`).

    Guarantee: the releases are one batch of one-way marginals, one batch of the marginals in `always`, and in each
    round a choice and a marginal. Everything else, including the share of a round, is a function of released values.

    Args:
        missing: how to treat gaps.
        workload: marginals and their weights; by default all pairs of columns with equal weights.
        always: sets of columns to measure jointly in any case, for an analysis that is known in advance: estimates
            from them have confidence intervals (`gapless.pool`). They share half of the budget that is left after the
            one-way marginals.
        cap_cells: the largest junction tree, in cells.

    References: McKenna, Mullins, Sheldon, Miklau 2022; the score is self-normalised (docs/proofs/scores.md, section 2).
    """

    name = "aim"
    keeps_measurements = True

    workload: Mapping[tuple[str, ...], float] | None = None
    always: Sequence[tuple[str, ...]] = ()
    cap_cells: int = 400_000

    def check(self, context: FitContext) -> None:
        """Refuse marginals or columns that are too large, and a budget that cannot pay for a choice."""
        always = self.always_measured(context.schema)
        if (needed := cells(context.sizes, always)) > self.cap_cells and always:
            raise ModelError(
                f"AIM.fit: the sets of columns in always need a junction tree of {needed:,} cells; "
                f"the cap is {self.cap_cells:,}",
                hint=Hint("pass fewer or smaller sets as ", Argument("always"))
                | Hint("declare fewer levels or bins for their columns")
                | Hint("pass a larger ", Argument("cap_cells")),
            )
        if checked_candidates(context, _closure(context.schema, self.workload), self.cap_cells, always=always):
            rest = (1 - COLUMNS_SHARE) * (1 - ALWAYS_SHARE if always else 1)
            context.check_choice_budget(rest * CHOICE_SHARE / (ROUNDS_PER_COLUMN * len(context.sizes)))

    def always_measured(self, schema: Schema) -> list[Marginal]:
        """Return the marginals in `always`, by column position."""
        if not isinstance(self.always, list | tuple) or not all(
            isinstance(names, list | tuple) for names in self.always
        ):
            raise ModelError(
                f"AIM.fit: always must be a list of tuples of column names, got {self.always!r}",
                hint=Hint("pass ", Argument("always", [("age", "income")])),
            )
        return list(dict.fromkeys(tuple(sorted(schema.positions(names))) for names in self.always))

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the columns and `always`, then choose, measure and fit until `spend` is used up."""
        selection = MarginalSelection(self, table, spend=spend, cap_cells=self.cap_cells, progress=progress)
        weights = _closure(table.schema, self.workload)
        always = selection.nontrivial(self.always_measured(table.schema))
        for marginal in always:
            weights.setdefault(marginal, 1.0)
        selection.add_candidates(weights)
        budget = selection.prepare()
        if not selection.candidates:  # fewer than two columns have more than one cell
            selection.measure_columns(budget)
            return selection.fit_final_model(settings={"rounds": 0})
        selection.notify("counting", 0, 1)
        selection.measure_columns(budget * COLUMNS_SHARE)
        if always:
            selection.measure(always, selection.grant.left * ALWAYS_SHARE)
        chosen, tree = self._run_rounds(selection, weights, always)
        settings = {"rounds": len(chosen) - len(always), "marginals": len(set(chosen))}
        if always:
            settings["always measured"] = len(always)
        limitations = _workload_limitations(tree, weights, chosen, self.cap_cells)
        return selection.fit_final_model(settings=settings, limitations=limitations)

    def _run_rounds(
        self, selection: MarginalSelection, weights: Mapping[Marginal, float], always: Sequence[Marginal]
    ) -> tuple[list[Marginal], JunctionTree]:
        """Choose and measure one marginal per round, until the grant is used up.

        The model is fitted again after `per_fit` rounds. If none of them showed more than noise, the share of a round
        doubles (annealing).

        Returns:
            All measured marginals, `always` first, and their junction tree.
        """
        grant, columns = selection.grant, len(selection.sizes)
        budget = grant.left
        share = budget / (ROUNDS_PER_COLUMN * columns)
        per_fit = math.ceil(ROUNDS_PER_COLUMN * columns / REFITS)
        model, tree = selection.fit_model(), junction_tree(selection.sizes, always)
        chosen, turn, is_last = list(always), 0, False
        while not is_last:
            # The tree may grow in proportion to the budget spent, so that early choices do not fill it.
            limit = self.cap_cells * min(1.0, 1 - (grant.left - share).value / budget.value)
            small = within_tree(tree, selection.candidates, chosen, limit) or chosen or selection.candidates
            small = selection.within_max_cells(small, chosen) or selection.within_max_cells(
                selection.candidates, chosen
            )
            if not small:  # with any of them the constraints would need too large a tree
                selection.measure(selection.one_way_marginals, grant.left)
                break
            # A marginal that was measured twice and still does not fit would not improve with a third measurement.
            stuck = {marginal for marginal in model.unexplained if chosen.count(marginal) > 1}
            candidates = _pool([m for m in dict.fromkeys(small) if m not in stuck] or small, turn)
            expected = model.marginals(candidates)
            scores = _scores(selection, candidates, expected, weights, model.total, share)
            open_places, is_informative = list(range(len(candidates))), False
            for _ in range(per_fit):
                number = len(chosen) - len(always) + 1
                selection.notify(f"round {number}", round(100 * (1 - grant.left.value / budget.value)), 100)
                is_last = not (share * 2).fits_in(grant.left)
                choice = (grant.left if is_last else share) * CHOICE_SHARE
                among = selection.workload.restrict(scores, open_places)
                place = open_places.pop(selection.choose(among, choice, what=f"choice {number}"))
                (measured,) = selection.measure([candidates[place]], grant.left if is_last else share - choice)
                chosen.append(measured.columns)
                is_informative |= _beyond_noise(measured, expected[place])
                tree = junction_tree(selection.sizes, set(chosen))
                if per_fit > 1:
                    small = within_tree(tree, [candidates[p] for p in open_places], chosen, limit)
                    fitting = set(selection.within_max_cells(small, chosen))
                    open_places = [p for p in open_places if candidates[p] in fitting]
                if is_last or not open_places:
                    break
            if not is_last:
                model, turn = selection.fit_model(start=model, sweeps=SWEEPS), turn + 1
                share = share if is_informative else share * 2
        return chosen, tree


def _workload_limitations(
    tree: JunctionTree, weights: Mapping[Marginal, float], chosen: Sequence[Marginal], cap: int
) -> list[str]:
    """Describe the part of the workload that would exceed the largest tree at any budget."""
    asked = [marginal for marginal in weights if all(tree.sizes[c] > 1 for c in marginal)]
    left = set(asked).difference(within_tree(tree, asked, chosen, cap))
    if not left:
        return []
    share = sum(weights[marginal] for marginal in left) / sum(weights[marginal] for marginal in asked)
    return [
        f"The tree (cap_cells = {cap:,}) has no room for {len(left)} of {plural(len(asked), 'marginal')} of the "
        f"workload, {share:.0%} by weight, whatever the budget."
    ]


def _pool(candidates: Sequence[Marginal], turn: int) -> list[Marginal]:
    """Return at most POOL candidates, different ones at each turn: a wide table has too many pairs to score all."""
    step = math.ceil(len(candidates) / POOL)
    return list(candidates[turn % step :: step])


def _closure(schema: Schema, workload: Mapping[tuple[str, ...], float] | None) -> dict[Marginal, float]:
    """Return the candidates and their weights: all subsets of two or more columns of the workload's marginals.

    The weight of a candidate is the sum, over the workload, of weight times number of shared columns. The largest is 1.
    """
    if workload is None:
        return dict.fromkeys(combinations(range(len(schema.columns)), 2), 1.0)
    if not isinstance(workload, Mapping):
        raise ModelError(
            f"workload must be a dict from tuples of column names to weights, got a {type(workload).__name__}",
            hint=_EXAMPLE_WORKLOAD,
        )
    if not workload:
        raise ModelError("workload must have at least one marginal, but it is empty", hint=_EXAMPLE_WORKLOAD)
    asked: dict[Marginal, float] = {}
    for names, weight in workload.items():
        if not (is_number(weight) and 0 < weight < math.inf):
            raise ModelError(
                f"a weight in workload must be a finite number above 0, got {weight!r} for {names!r}",
                hint=_EXAMPLE_WORKLOAD,
            )
        marginal = tuple(sorted(schema.positions(names)))
        asked[marginal] = asked.get(marginal, 0.0) + float(weight)
    if not math.isfinite(sum(map(len, asked)) * sum(asked.values())):
        raise ModelError("the weights in workload are so large that their sum is infinite", hint=_EXAMPLE_WORKLOAD)
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
    """Return the sealed scores: the misfit of each candidate beyond the noise of its measurement.

    Where rows with gaps are left out, candidates count different rows. The conditional misfit ignores the change in
    columns that comes from that.
    """
    noise = for_counts(share * (1 - CHOICE_SHARE), selection.workload.counts(candidates[0]).distance)
    misfit = selection.workload.misfit if selection.extended else selection.workload.conditional_misfit
    return misfit(
        candidates,
        expected,
        np.array([weights[candidate] for candidate in candidates]),
        np.array([_noise_error(probabilities * total, noise.noise_std) for probabilities in expected]),
    )


def _noise_error(expected: Floats, noise_std: float) -> float:
    """Return the L1 error that noise adds to a marginal: √(2/π) σ per cell, at most the expected count of the cell."""
    return 0.5 * float(np.minimum(math.sqrt(2 / math.pi) * noise_std, expected).sum())


def _beyond_noise(measured: Measurement, expected: Floats) -> bool:
    """Return whether a measurement is further from the expected counts than noise alone would be on average."""
    off = (measured.counts - measured.counts.sum() * expected) / measured.noise_std
    return float((off**2).sum()) > measured.counts.size
