"""The base of all synthesizers, and the steps that their fits share: refusals, gaps, measurements, facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import combinations
from operator import or_
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gapless.constraints.forbidden import columns_of_constraints, soft_rules_of
from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.cutting import cut_schema
from gapless.data.private_table import WhichRows, check_in_memory
from gapless.data.workload import grouped_counts, violating_pairs
from gapless.errors import Argument, BudgetError, Call, Hint, ModelError, SchemaError, Variable
from gapless.missing import Extended, FromModel, ImputeFirst, Missing
from gapless.model.distribution import Product
from gapless.model.junction import junction_tree
from gapless.model.marginal import Marginal, Measurement, estimate_total, project_to_simplex
from gapless.model.message_passing import LARGEST_TABLE
from gapless.model.sampling import LEAST_SHARE
from gapless.privacy import (
    L1,
    Budget,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    Guarantee,
    Linf,
    Loss,
    Plan,
    Private,
    Request,
    Rows,
    Spend,
    for_counts,
)
from gapless.privacy.budget import PURE
from gapless.schema import Schema
from gapless.synth.adversarial.generative import Critic
from gapless.synth.fitted import Facts, FittedModel, Progress
from gapless.synth.learners import MAX_JUNCTION_TREE_CELLS, LearnedModel, noise_of
from gapless.synth.learning import (
    THIN,
    bins_for,
    columns_to_learn,
    columns_with_heaps,
    hierarchy_levels,
    learning_share,
    with_most_bins,
)
from gapless.synth.measurements import Measurements
from gapless.text import listing, plural
from gapless.types import Floats, Integers

Noise: TypeAlias = DiscreteLaplace | DiscreteGaussian
Counts: TypeAlias = Private[Integers, L1]

RULE_SHARE, RULES_SHARE = 0.03, 0.1  # of the budget, to learn how often one constraint is broken; at most, for all
RULES_ROWS_SHARE = 0.1  # of that, for the number of rows, which sets the number of buckets
TEST_ROWS = 100  # sampled to test whether the constraints allow any row
SMALLER_COLUMNS = Hint("declare fewer levels or bins for these columns in the schema") | Hint(
    "keep fewer columns, with ", Call("people.select", ["age", "sex"])
)
FEWER_CELLS = SMALLER_COLUMNS | Hint("pass a larger ", Argument("cap_cells"))


def table_cap(cap_cells: int) -> tuple[int, Hint]:
    """Return the largest table that a method may measure, and the hint for a larger one.

    A model cannot compute marginals of more than `LARGEST_TABLE` cells, whatever `cap_cells` is.
    """
    return (cap_cells, FEWER_CELLS) if cap_cells < LARGEST_TABLE else (LARGEST_TABLE, SMALLER_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesizer(ABC):
    """The base class of synthesizers: settings, `fit`, and class variables that declare what the method can do.

    The command line and the conformance suite read the declarations.

    Attributes:
        name: on the command line and in the facts.
        pure: whether it can satisfy δ = 0; every method can satisfy δ > 0.
        can_fill: whether its models can be sampled given some cells of a row.
        keeps_measurements: whether its models keep their noisy tables and can be fitted to them again, for copies.
        treatments: the kinds of `missing` that it accepts; by default all.
        learns_gaps: the kinds of `missing` beside `Extended` with which every row counts and gaps can be sampled.
        missing: how to treat gaps.
    """

    name: ClassVar[str]
    pure: ClassVar[bool] = True
    can_fill: ClassVar[bool] = True
    keeps_measurements: ClassVar[bool] = False
    treatments: ClassVar[tuple[type[Missing], ...]] = (Missing,)
    learns_gaps: ClassVar[tuple[type[Missing], ...]] = ()

    missing: Missing = field(default_factory=Extended)

    @property
    def counts_gaps(self) -> bool:
        """Whether every row is counted, with gaps as cells, so that rows with gaps can be sampled."""
        return getattr(self.missing, "rows", None) == "extended" or isinstance(self.missing, self.learns_gaps)

    def check(self, context: FitContext) -> None:  # noqa: B027 most methods refuse nothing
        """Refuse what the method cannot fit, from public facts and before any charge. Here: nothing.

        A column whose bins are still to be learned has the largest number of bins.
        """

    @abstractmethod
    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Fit a model of the table, and charge at most `spend`."""


def check_declared(synthesizer: Synthesizer, budget: Budget) -> None:
    """Refuse a treatment of gaps or a budget that the method does not declare, from public facts, before any charge."""
    caller, missing = f"{type(synthesizer).__name__}.fit", synthesizer.missing
    if isinstance(missing, type) or not isinstance(missing, Missing):
        treatment = Call("Extended")
        if isinstance(missing, FittedModel):
            treatment = Call("ImputeFirst", Call("gapless.missing.FromModel", Variable("model")))
        elif hasattr(missing, "impute") and not isinstance(missing, type):
            package = "gapless.missing." if type(missing).__module__.startswith("gapless.") else ""
            imputer = "imputer" if "<" in repr(missing) else f"{package}{missing!r}"
            treatment = Call("ImputeFirst", Variable(imputer))
        raise ModelError(
            f"{caller}: missing must be a treatment of gaps, got {missing!r}",
            hint=Hint("pass ", Argument("missing", treatment)),
        )
    if not isinstance(missing, synthesizer.treatments):
        choices = [Hint("pass ", Argument("missing", Call(kind.__name__))) for kind in synthesizer.treatments]
        raise ModelError(f"{caller}: this method does not accept missing = {missing!r}", hint=reduce(or_, choices))
    if budget.order == PURE and not synthesizer.pure:
        raise BudgetError(
            f"{caller}: this method needs a δ above 0, but the budget has δ = 0",
            hint=Hint("choose another method, such as mst")
            | Hint("pass ", Argument("delta", 1e-6), " with a new ledger"),
        )
    imputing = getattr(getattr(missing, "imputer", None), "model", None)
    if isinstance(imputing, Synthesizer):  # its fit is charged to the same budget later
        check_declared(imputing, budget)


class FitContext:
    """The state of one fit: the grant that pays, the prepared table, and the measurements so far.

    Creating it checks everything that public facts decide, then learns bins. A method then calls `prepare` once,
    measures or chooses as often as it needs, and ends with `fitted`. A method whose counts are not marginals of columns
    overrides `counts` and `name`.

    Attributes:
        input_schema: the schema with which the table was read.
        table: the table, in learned bins where the schema leaves bins to a release.
        within_bin_counts: released counts of the cells of columns with learned bins, by name.
        prepared: the table to measure; set by `prepare`.
        grant: pays for everything; a method with other mechanisms releases from it.
        extended: whether every row is counted, with gaps as cells.
        sizes: the number of cells of each column as counted, with gap states if `extended`.
        one_way_marginals: those of all columns with more than one cell; if there is none, of the first column.
        measured: the released noisy counts.
        rows: the noisy number of rows, if it was measured separately.
        bin_hierarchy: released counts of the cells of columns with learned bins, in groups.
        heaps: released counts at the multiples at which values pile up, for columns with heaping.
        noise: the noise of each count in the latest batch.
        broken: for each constraint with a learned weight, the share of pairs of rows that break it, and its noise.
        plan: requests that were charged with the latest batch and are not released yet.
    """

    def __init__(
        self, synthesizer: Synthesizer, table: PrivateTable, *, spend: Spend, progress: Progress | None = None
    ) -> None:
        caller = f"{type(synthesizer).__name__}.fit"
        check_private(table, caller)
        check_declared(synthesizer, table.ledger.budget)
        if isinstance(synthesizer.missing, ImputeFirst):
            check_in_memory(table, "filling gaps first")  # before bins are paid for
            if isinstance(synthesizer.missing.imputer, FromModel):
                synthesizer.missing.imputer.check(table.schema)
        self.grant = table.ledger.grant(spend, to=caller)
        self.missing = synthesizer.missing
        self.extended = synthesizer.counts_gaps
        self.within_bin_counts: dict[str, Floats] = {}
        self.measured: list[Measurement] = []
        self.rows: list[Measurement] = []
        self.bin_hierarchy: list[Measurement] = []
        self.heaps: list[Measurement] = []
        self.noise: list[Noise] = []
        self.broken: dict[str, tuple[float, float]] = {}
        self.plan: Plan
        self._method = synthesizer.name
        self._progress = progress
        self.input_schema = table.schema
        self._set_table(table.rebin(with_most_bins(table.schema)))
        _check_constraints(self.schema)
        synthesizer.check(self)
        self._set_table(table.rebin(self._learn_bins(table)))

    def _set_table(self, table: PrivateTable) -> None:
        """Use this table from here on."""
        self.table = self.prepared = table
        self.schema = table.schema
        self.sizes = tuple(column.extended_size if self.extended else column.size for column in table.schema.columns)
        self.one_way_marginals: list[Marginal] = self.nontrivial([(c,) for c in range(len(self.sizes))]) or [(0,)]

    def _learn_bins(self, table: PrivateTable) -> Schema:
        """Learn the bins that the schema leaves to a release, and heaps, in one batch with equal shares.

        Returns the schema with the bins.
        """
        schema, learned, heaped = table.schema, columns_to_learn(table.schema), columns_with_heaps(table.schema)
        columns = {c.name: c.finest for c in (*learned, *heaped)}
        if not columns:
            return with_most_bins(schema)
        self.notify("learning bins", 0, 1)
        table = table.rebin(schema.with_columns(columns))
        others = {c.name: (c.extended_size if self.extended else c.size) - c.values_size for c in columns.values()}
        levels = [
            (c.name, groups)
            for c in learned
            for groups in hierarchy_levels(columns[c.name].values_size, others[c.name])
        ]
        heaps = [(c.name, np.append(c.heap_of_cell, len(c.heaping) + 1 + np.arange(others[c.name]))) for c in heaped]
        named = [(name, groups, "cells") for name, groups in levels]
        named += [(name, groups, "groups of round values") for name, groups in heaps]
        requests = [
            (counts, f"{name} in {groups.max() + 1} {kind}")
            for name, groups, kind in named
            for counts in grouped_counts(table, name, [groups], rows=self.counted)
        ]
        released = self.release_bins(requests)
        noise_std = max(noise.noise_std for noise in self.noise)
        measured = [
            Measurement(tuple(schema.positions([name])), counts[: len(counts) - others[name]], noise_std)
            for (name, _), counts in zip((*levels, *heaps), released, strict=True)
        ]
        self.bin_hierarchy, self.heaps = measured[: len(levels)], measured[len(levels) :]
        if not learned:
            return with_most_bins(schema)
        self.within_bin_counts = self.to_measurements().within_bin_counts(schema)
        top_levels = {name: counts for (name, _), counts in reversed([*zip(levels, released, strict=False)])}
        total = max(counts.sum() for counts in top_levels.values())
        return cut_schema(schema, self.within_bin_counts, self.bins(total), min_rows=THIN * noise_std)

    def release_bins(self, requests: Sequence[tuple[Counts, str]]) -> list[Floats]:
        """Release the counts from which bins are learned. A method that plans all its releases overrides this."""
        return self.release(requests, self.grant.left * learning_share(self.input_schema))

    def bins(self, rows: float) -> int:
        """Return how many bins a column may have, given the noisy number of rows."""
        return bins_for(rows, self.grant.left, self.table.protect, len(self.sizes))

    @property
    def counted(self) -> WhichRows:
        """The rows that a marginal counts."""
        return "extended" if self.extended else "observed"

    def notify(self, phase: str, done: int, of: int) -> None:
        """Report progress, if the caller asked for it."""
        if self._progress is not None:
            self._progress(phase, done, of)

    def nontrivial(self, marginals: Iterable[Marginal]) -> list[Marginal]:
        """Return the marginals without constant columns."""
        return [marginal for marginal in marginals if all(self.sizes[c] > 1 for c in marginal)]

    def check_choice_budget(self, share: float, *, distance: float = 1.0) -> None:
        """Refuse a share of the budget that cannot pay for a choice, before any charge.

        Args:
            share: of what is left after filling gaps, learning bins and learning weights of constraints.
            distance: how much one row changes a score.
        """
        learning = learning_share(self.input_schema)
        spend = self.grant.left * (share * (1 - self.missing.share) * (1 - learning) * (1 - self._rules_share))
        ExponentialChoice.for_loss(spend, Linf(distance * self.table.protect.at_most))

    def check_junction_tree(self, marginals: Iterable[Marginal] = ()) -> None:
        """Refuse these marginals if a graphical model of them would have too large a junction tree.

        Call it in `Synthesizer.check` if the method learns a `GraphicalModel`. Constraints on one row are tables of the
        tree too.
        """
        marginals = list(marginals)
        constrained, _ = columns_of_constraints(self.schema)
        tree = junction_tree(self.sizes, [*constrained, *marginals])
        if tree.cells <= MAX_JUNCTION_TREE_CELLS:
            return
        names = ", ".join(self.schema.names[c] for c in sorted(max(tree.cliques, key=tree.cells_of)))
        parts = [what for what, some in (("constraints", constrained), ("marginals", marginals)) if some]
        raise ModelError(
            f"the {' and '.join(parts) or 'columns'} need a junction tree of {tree.cells:,} cells; "
            f"the cap is {MAX_JUNCTION_TREE_CELLS:,}",
            hint=reduce(
                or_,
                [Hint(f"choose coarser bins or fewer levels for {names}")]
                + [Hint(f"remove a {what.removesuffix('s')} between them") for what in parts],
            ),
        )

    def prepare(self) -> Loss:
        """Treat the gaps, which may cost, and return the loss that is left. Call it after all public refusals."""
        self.prepared = self.missing.prepare(self.table, self.grant)
        if rules := self._rules_to_learn:
            self._learn_rules(rules, self.grant.left * self._rules_share)
        return self.grant.left

    @property
    def _rules_to_learn(self) -> list[str]:
        return [soft.rule.text for soft in soft_rules_of(self.schema) if soft.rule.weight == "learned"]

    @property
    def _rules_share(self) -> float:
        return min(RULES_SHARE, RULE_SHARE * len(self._rules_to_learn))

    def _learn_rules(self, rules: Sequence[str], spend: Loss) -> None:
        """Measure how often each constraint is broken, on pairs of rows from buckets of about two rows each."""
        (rows,) = self.release([(self.prepared.marginal(()), "number of rows")], spend * RULES_ROWS_SHARE)
        buckets = max(1, round(float(rows) / 2))
        requests = [
            (violating_pairs(self.prepared, rule, buckets=buckets), f"pairs that break {rule}") for rule in rules
        ]
        counts = self.release(requests, spend * (1 - RULES_ROWS_SHARE))
        for rule, (broken, kept), noise in zip(rules, counts, self.noise, strict=True):
            found = max(1.0, broken + kept)
            self.broken[rule] = float(np.clip(broken / found, 0.0, 1.0)), noise.noise_std / found

    def counts(self, marginals: Sequence[Marginal]) -> list[Counts]:
        """Return the sealed counts of these marginals of the prepared table."""
        return self.prepared.marginals(
            [[self.schema.names[c] for c in marginal] for marginal in marginals], rows=self.counted
        )

    def name(self, marginal: Marginal) -> str:
        """Return the name of a marginal in the ledger."""
        return " × ".join(self.schema.names[c] for c in marginal)

    def measure(
        self,
        marginals: Sequence[Marginal],
        spend: Loss,
        *,
        shares: Sequence[float] | None = None,
        together: bool = False,
        planned: Sequence[Request] = (),
    ) -> list[Measurement]:
        """Measure these marginals in one batch, with the number of rows if it is neither measured nor implied.

        Args:
            marginals: sets of columns, by position.
            spend: for the whole batch.
            shares: relative cost of each marginal; the number of rows gets the smallest. By default all are equal.
            together: price the batch by its exact total if nothing was released before (`Grant.noise_for`).
            planned: requests to charge in the same batch, beyond `spend`; `plan` releases them later.
        """
        requests = list(zip(self.counts(marginals), map(self.name, marginals), strict=True))
        if needs_rows := not (self.extended or self.rows):
            requests.append((self.table.marginal(()), "number of rows"))
            shares = shares and [*shares, min(shares)]
        released = self.release(requests, spend, shares=shares, together=together, planned=planned)
        fresh = [
            Measurement(marginal, counts, noise.noise_std)
            for marginal, counts, noise in zip([*marginals, ()], released, self.noise, strict=False)
        ]
        if needs_rows:
            self.rows.append(fresh.pop())
        self.measured += fresh
        return fresh

    def column_probabilities(self, spend: Loss, *, planned: Sequence[Request] = ()) -> list[Floats]:
        """Measure the one-way marginals and return their probabilities, all above zero."""
        self.notify("measuring", 0, 1)
        probabilities = [np.ones(size) / size for size in self.sizes]
        for marginal in self.measure(self.one_way_marginals, spend, planned=planned):
            (column,) = marginal.columns
            total = max(1.0, marginal.counts.sum())
            positive = np.maximum(project_to_simplex(marginal.counts, total) / total, LEAST_SHARE)
            probabilities[column] = positive / positive.sum()
        return probabilities

    def release(
        self,
        requests: Sequence[tuple[Counts, str]],
        spend: Loss,
        *,
        shares: Sequence[float] | None = None,
        together: bool = False,
        planned: Sequence[Request] = (),
    ) -> list[Floats]:
        """Release counts with noise, each under its name in the ledger. All are charged before the first is read.

        Shares of the loss are larger where the promise for the complete data stops the ledger (`Grant.split_losses`).
        """
        values = [value for value, _ in requests]
        if together:
            self.noise = self.grant.noise_for(values, spend, shares=shares)
        else:
            parts = self.grant.split_losses(values, spend, shares=shares)
            self.noise = [for_counts(part, value.distance) for part, value in zip(parts, values, strict=True)]
        batch = [(value, noise, name) for (value, name), noise in zip(requests, self.noise, strict=True)]
        if not planned:
            return [answer.value.astype(np.float64) for answer in self.grant.release_all(batch, together=together)]
        counted = [Request(value.distance, value.reads, noise, name) for value, noise, name in batch]
        self.plan = self.grant.charge_plan([*counted, *planned])
        return [self.plan.release(value).value.astype(np.float64) for value in values]

    def choose(self, scores: Private[Floats, Linf], spend: Loss, *, what: str) -> int:
        """Choose a candidate with a high score by the exponential mechanism; return its place."""
        chooser = ExponentialChoice.for_loss(spend, scores.distance)
        return self.grant.release(scores, chooser, what=what).value

    @property
    def total(self) -> float:
        """The noisy number of rows."""
        return estimate_total(self.rows or self.measured)

    @property
    def scaled_tables(self) -> list[Measurement]:
        """The measured tables, scaled to a common total."""
        return self.to_measurements().scaled_tables

    def to_measurements(self, kind: str = "", **more: Any) -> Measurements:
        """Return all measurements so far, for a distribution of this kind; `more` are fields of `Measurements`."""
        return Measurements(
            kind=kind,
            tables=tuple(self.measured),
            rows=tuple(self.rows),
            extended=self.extended,
            bin_hierarchy=tuple(self.bin_hierarchy),
            heaps=tuple(self.heaps),
            **more,
        )

    def learn(self, kind: str, **more: Any) -> LearnedModel:
        """Learn a distribution of this kind from all measurements. Its model keeps the tables, for copies.

        `more` is passed to `to_measurements`.
        """
        self.notify("fitting", 0, 1)
        learned = self.to_measurements(kind, **more).learn(self.schema, progress=partial(self.notify, "fitting"))
        self.notify("fitting", 1, 1)
        return learned

    def structure(self) -> list[str]:
        """Return a line for each measured marginal, with its noise."""
        return [f"{self.name(columns)}: noise std {std:.1f}" for columns, std in noise_of(self.measured).items()]

    def fitted(
        self,
        learned: LearnedModel,
        *,
        settings: Mapping[str, str | int],
        structure: Iterable[str] | None = None,
        limitations: Sequence[str] = (),
        edges: Iterable[tuple[int, int]] | None = None,
        critic: Critic | None = None,
    ) -> FittedModel:
        """Return the model with its facts.

        Args:
            learned: the distribution.
            settings: facts on the fit, by name.
            structure: lines on what was measured; by default one for each measured marginal.
            limitations: sentences on what the model could not represent.
            edges: pairs of columns that were measured together; by default those in measured marginals.
            critic: a private critic that is part of the release.
        """
        if edges is None:
            edges = {pair for known in self.measured for pair in combinations(sorted(known.columns), 2)}
        if learned.unexplained:
            unexplained = ", ".join(map(self.name, learned.unexplained))
            limitations = [*limitations, f"Further from the model than noise explains: {unexplained}."]
        bins = {}
        if learned_bins := len({level.columns for level in self.bin_hierarchy}):
            share = learning_share(self.input_schema)
            bins["bins"] = f"learned for {plural(learned_bins, 'column')}, with {share:.0%} of what this fit spent"
        if self.heaps:
            bins["heaping"] = f"counted at round values of {listing(self.name(known.columns) for known in self.heaps)}"
        facts = Facts(
            method=self._method,
            guarantee=self.table.ledger.guarantee(),
            settings={"missing": repr(self.missing), **bins, **settings},
            structure=tuple(self.structure() if structure is None else structure),
            noise=_noise_of_columns(self.schema.names, self.sizes, self.scaled_tables),
            limitations=tuple(limitations),
            edges=tuple(sorted(edges)),
            broken=self.broken,
        )
        filled, gapped, _, _, measurements, _ = learned
        within_bin_counts = self.to_measurements().within_bin_counts(self.schema)
        return FittedModel(self.schema, filled, gapped, self.total, facts, within_bin_counts, measurements, critic)


def _check_constraints(schema: Schema) -> None:
    """Refuse constraints that allow no row, before any charge, by sampling a uniform model under them."""
    if not schema.constraints:
        return
    uniform = Product(tuple(np.full(column.size, 1 / column.size) for column in schema.columns))
    no_facts = Facts(method="", guarantee=Guarantee(schema.name, Rows(1), 0.0, 0.0, "the schema alone"))
    try:
        FittedModel(schema, uniform, None, 0.0, no_facts).sample(TEST_ROWS, seed=0)
    except ModelError:
        raise SchemaError(
            "no row was found that satisfies all constraints of the schema",
            hint="remove one of the constraints that contradict each other, or a column of numbers that must equal "
            "another column",
        ) from None


def _noise_of_columns(names: Sequence[str], sizes: Sequence[int], tables: Iterable[Measurement]) -> dict[str, float]:
    """Return the noise in the count of one cell, for each column that some table holds with all its cells.

    A table gives the count as a sum over its other columns. Several tables are weighted by precision.
    """
    known: dict[str, float] = {}
    for table in tables:
        for size, column in zip(table.counts.shape, table.columns, strict=True):
            if size == sizes[column]:  # not where a network merged them
                precision = size / table.counts.size / table.noise_std**2
                known[names[column]] = known.get(names[column], 0.0) + precision
    return {name: precision**-0.5 for name, precision in known.items()}
