"""What every fit does, once: the grant, the refusals, the treatment of gaps, batches of measurements, the facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import combinations
from operator import or_
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gapless.constraints.forbidden import soft_rules_of
from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.cutting import cut_schema
from gapless.data.private_table import WhichRows, check_in_memory
from gapless.data.workload import grouped_counts, violating_pairs
from gapless.errors import Argument, BudgetError, Call, Hint, ModelError, SchemaError
from gapless.missing import Extended, FromModel, ImputeFirst, Missing
from gapless.model.distribution import Product
from gapless.model.marginal import Marginal, Measurement, estimate_total, project_to_simplex
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
from gapless.synth.learning import BINS_SHARE, THIN, bins_for, columns_to_learn, hierarchy_levels, with_most_bins
from gapless.synth.measurements import LearnedModel, Measurements, noise_of
from gapless.text import plural
from gapless.types import Floats, Integers

Noise: TypeAlias = DiscreteLaplace | DiscreteGaussian
Counts: TypeAlias = Private[Integers, L1]

RULE_SHARE, RULES_SHARE = 0.03, 0.1  # of the budget, to learn how often a constraint is broken; at the most, for all
RULES_ROWS_SHARE = 0.1  # of that, for about how many rows there are to put into pairs
DRAWN = 100  # rows, to see whether constraints leave any
FEWER_CELLS = (
    Hint("use fewer levels or bins for them")
    | Hint("leave columns out with ", Call("people.select", ...))
    | Hint("pass a larger ", Argument("cap_cells"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesizer(ABC):
    """Settings, a `fit`, and a declaration of what it can do, which the command line and the conformance suite read.

    Attributes:
        name: on the command line and in the facts.
        pure: whether it can keep a promise with δ = 0; with δ above 0 every method can.
        can_fill: whether its models can be drawn from given some cells of a row.
        keeps_tables: whether its models can be learned again from the tables that they keep, so that there are copies.
        treatments: the kinds of `missing` that it takes; by default any.
        learns_gaps: those beside `Extended` with which every row is counted and rows with gaps can be sampled.
        missing: what to do about gaps.
    """

    name: ClassVar[str]
    pure: ClassVar[bool] = True
    can_fill: ClassVar[bool] = True
    keeps_tables: ClassVar[bool] = False
    treatments: ClassVar[tuple[type[Missing], ...]] = (Missing,)
    learns_gaps: ClassVar[tuple[type[Missing], ...]] = ()

    missing: Missing = field(default_factory=Extended)

    @property
    def counts_gaps(self) -> bool:
        """Whether every row is counted, gaps as cells, so that rows with gaps can be sampled."""
        return getattr(self.missing, "rows", None) == "extended" or isinstance(self.missing, self.learns_gaps)

    def check(self, fitting: FitContext) -> None:  # noqa: B027 most methods can do all
        """Refuse what the method cannot do: by public facts, before anything is paid. Bins to be learned count as most.

        By default nothing.
        """

    @abstractmethod
    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """The model, for which up to `spend` was paid."""


def check_declared(synthesizer: Synthesizer, budget: Budget) -> None:
    """Refuse a treatment of gaps or a budget that the method does not declare: from public facts, before any charge."""
    to, missing = f"{type(synthesizer).__name__}.fit", synthesizer.missing
    if isinstance(missing, type) or not isinstance(missing, Missing):
        treatment = Call("Extended")
        if isinstance(missing, FittedModel):
            treatment = Call("ImputeFirst", Call("FromModel", ...))
        elif hasattr(missing, "impute") and not isinstance(missing, type):
            treatment = Call("ImputeFirst", missing)
        raise ModelError(f"{to}: missing = {missing!r}", hint=Hint("pass ", Argument("missing", treatment)))
    if not isinstance(missing, synthesizer.treatments):
        choices = [Hint("pass ", Argument("missing", Call(kind.__name__))) for kind in synthesizer.treatments]
        raise ModelError(f"{to}: this method does not take missing = {missing!r}", hint=reduce(or_, choices))
    if budget.order == PURE and not synthesizer.pure:
        raise BudgetError(
            f"{to}: this method cannot promise δ = 0",
            hint=Hint("choose another method") | Hint("pass ", Argument("delta", 1e-6), " for a new ledger"),
        )
    imputing = getattr(getattr(missing, "imputer", None), "model", None)
    if isinstance(imputing, Synthesizer):  # it pays from the same budget, but later
        check_declared(imputing, budget)


class FitContext:
    """One fit on its way: the grant that pays, the table as gaps are treated, and what was measured so far.

    A method refuses by public facts what it must, calls `prepare` once, then measures or chooses as often as it likes,
    and ends with `fitted`. A method whose counts are not marginals of columns says so by `counts` and `name`.

    Attributes:
        read: the schema with which the table was read.
        table: the table, told by bins that were learned where the schema leaves them to a release.
        inside: what was released of the cells of such columns, by name.
        prepared: the table to measure, after `prepare`.
        grant: pays for everything; a method with a mechanism of its own releases from it.
        extended: whether every row is counted, gaps as cells.
        sizes: the cells of each column as they are counted: with gap states if every row is counted.
        columns: each column by itself, without those of one cell, which tell nothing; the first if there is no other.
        measured: noisy counts as they were released.
        rows: the noisy number of rows, if it was measured by itself.
        trees: counts of the cells of columns whose bins were learned, in groups.
        noise: that of each count in the latest batch.
        broken: the share of pairs of rows that break each constraint whose weight is learned, and the noise in it.
        plan: what was charged with the latest batch and is still to be released.
    """

    def __init__(
        self, synthesizer: Synthesizer, table: PrivateTable, *, spend: Spend, progress: Progress | None = None
    ) -> None:
        to = f"{type(synthesizer).__name__}.fit"
        check_private(table, to)
        check_declared(synthesizer, table.ledger.budget)
        if isinstance(synthesizer.missing, ImputeFirst):
            check_in_memory(table, "filling gaps first")  # before bins are paid for
            if isinstance(synthesizer.missing.imputer, FromModel):
                synthesizer.missing.imputer.check(table.schema)
        self.grant = table.ledger.grant(spend, to=to)
        self.missing = synthesizer.missing
        self.extended = synthesizer.counts_gaps
        self.within_bin_counts: dict[str, Floats] = {}
        self.measured: list[Measurement] = []
        self.rows: list[Measurement] = []
        self.bin_hierarchy: list[Measurement] = []
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
        """Fit this table from here on."""
        self.table = self.prepared = table
        self.schema = table.schema
        self.sizes = tuple(column.extended_size if self.extended else column.size for column in table.schema.columns)
        self.columns: list[Marginal] = self.nontrivial([(c,) for c in range(len(self.sizes))]) or [(0,)]

    def _learn_bins(self, table: PrivateTable) -> Schema:
        """The schema with the bins that it leaves to a release: one batch, all levels of all columns alike."""
        columns = columns_to_learn(table.schema)
        if not columns:
            return with_most_bins(table.schema)
        self.notify("learning bins", 0, 1)
        rows = self.counted
        sizes = {c.name: c.extended_size if self.extended else c.size for c in columns}
        trees = {c.name: hierarchy_levels(c.values_size, sizes[c.name] - c.values_size) for c in columns}
        requests = [
            (counts, f"{name} in {level.max() + 1} cells")
            for name, tree in trees.items()
            for level, counts in zip(tree, grouped_counts(table, name, tree, rows=rows), strict=True)
        ]
        released = iter(self.release(requests, self.grant.left * BINS_SHARE))
        noise_std = max(noise.noise_std for noise in self.noise)
        total = 0.0
        for column in columns:
            tables = [next(released) for _ in trees[column.name]]
            others = sizes[column.name] - column.values_size
            (place,) = table.schema.positions([column.name])
            self.bin_hierarchy += [
                Measurement((place,), counts[: len(counts) - others], noise_std) for counts in tables
            ]
            total = max(total, tables[0].sum())
        self.within_bin_counts = self.to_measurements().within_bin_counts(table.schema)
        bins = bins_for(total, self.grant.left, table.protect, len(table.schema.columns))
        return cut_schema(table.schema, self.within_bin_counts, bins, min_rows=THIN * noise_std)

    @property
    def counted(self) -> WhichRows:
        """Which rows a marginal counts."""
        return "extended" if self.extended else "observed"

    def notify(self, phase: str, done: int, of: int) -> None:
        """Show progress, if anybody looks."""
        if self._progress is not None:
            self._progress(phase, done, of)

    def nontrivial(self, marginals: Iterable[Marginal]) -> list[Marginal]:
        """The marginals without columns of one cell, which tell nothing that the others do not."""
        return [marginal for marginal in marginals if all(self.sizes[c] > 1 for c in marginal)]

    def check_choice_budget(self, share: float, *, distance: float = 1.0) -> None:
        """Refuse, before anything is spent, a share with which no choice could be paid, whatever filling gaps costs.

        `distance` is how far a score moves with one row.
        """
        learning = BINS_SHARE if columns_to_learn(self.input_schema) else 0.0
        spend = self.grant.left * (share * (1 - self.missing.share) * (1 - learning) * (1 - self._rules_share))
        ExponentialChoice.for_loss(spend, Linf(distance * self.table.protect.at_most))

    def prepare(self) -> Loss:
        """Fill gaps or leave rows out, which may cost; what is left to spend. After all public refusals."""
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
        """How often each of these constraints is broken: in buckets, about half as many as there are rows."""
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
        """The sealed counts of these marginals of the prepared table."""
        return self.prepared.marginals(
            [[self.schema.names[c] for c in marginal] for marginal in marginals], rows=self.counted
        )

    def name(self, marginal: Marginal) -> str:
        """A marginal in words."""
        return " × ".join(self.schema.names[c] for c in marginal)

    def measure(
        self,
        marginals: Sequence[Marginal],
        spend: Loss,
        *,
        shares: Sequence[float] | None = None,
        together: bool = False,
        ahead: Sequence[Request] = (),
    ) -> list[Measurement]:
        """Noisy counts of these marginals, and of the rows where no other count has told how many there are: one batch.

        Args:
            marginals: sets of columns, by position.
            spend: for all of them together.
            shares: what each costs beside the others, the number of rows as little as any; by default all the same.
            together: price them by their exact total if nothing was released before (`Grant.noise_for`).
            ahead: what is charged in the same batch, beyond `spend`, to be released later from `plan`.
        """
        requests = list(zip(self.counts(marginals), map(self.name, marginals), strict=True))
        if first := not (self.extended or self.rows):
            requests.append((self.table.marginal(()), "number of rows"))
            shares = shares and [*shares, min(shares)]
        released = self.release(requests, spend, shares=shares, together=together, ahead=ahead)
        fresh = [
            Measurement(marginal, counts, noise.noise_std)
            for marginal, counts, noise in zip([*marginals, ()], released, self.noise, strict=False)
        ]
        if first:
            self.rows.append(fresh.pop())
        self.measured += fresh
        return fresh

    def column_probabilities(self, spend: Loss, *, ahead: Sequence[Request] = ()) -> list[Floats]:
        """The law of each column by itself, as noisy counts tell it, no cell quite impossible."""
        self.notify("measuring", 0, 1)
        laws = [np.ones(size) / size for size in self.sizes]
        for marginal in self.measure(self.columns, spend, ahead=ahead):
            (column,) = marginal.columns
            total = max(1.0, marginal.counts.sum())
            law = np.maximum(project_to_simplex(marginal.counts, total) / total, LEAST_SHARE)
            laws[column] = law / law.sum()
        return laws

    def release(
        self,
        requests: Sequence[tuple[Counts, str]],
        spend: Loss,
        *,
        shares: Sequence[float] | None = None,
        together: bool = False,
        ahead: Sequence[Request] = (),
    ) -> list[Floats]:
        """Noisy counts, each with its name in the ledger: all are paid for before the first is read.

        Parts are larger where the ledger stops on the promise to the people behind the gaps (`Grant.split`).
        """
        values = [value for value, _ in requests]
        if together:
            self.noise = self.grant.noise_for(values, spend, shares=shares)
        else:
            parts = self.grant.split_losses(values, spend, shares=shares)
            self.noise = [for_counts(part, value.distance) for part, value in zip(parts, values, strict=True)]
        batch = [(value, noise, name) for (value, name), noise in zip(requests, self.noise, strict=True)]
        if not ahead:
            return [answer.value.astype(np.float64) for answer in self.grant.release_all(batch, together=together)]
        counted = [Request(value.distance, value.reads, noise, name) for value, noise, name in batch]
        self.plan = self.grant.plan([*counted, *ahead])
        return [self.plan.release(value).value.astype(np.float64) for value in values]

    def choose(self, scores: Private[Floats, Linf], spend: Loss, *, what: str) -> int:
        """The place of a candidate with a high score."""
        chooser = ExponentialChoice.for_loss(spend, scores.distance)
        return self.grant.release(scores, chooser, what=what).value

    @property
    def total(self) -> float:
        """The noisy number of rows."""
        return estimate_total(self.rows or self.measured)

    @property
    def scaled_tables(self) -> list[Measurement]:
        """What was measured, brought to a common total."""
        return self.to_measurements().scaled_tables

    def to_measurements(self, kind: str = "", **more: Any) -> Measurements:
        """All that was measured so far, of which a distribution of this kind is learned; `more` is for networks."""
        return Measurements(
            kind=kind,
            tables=tuple(self.measured),
            rows=tuple(self.rows),
            extended=self.extended,
            bin_hierarchy=tuple(self.bin_hierarchy),
            **more,
        )

    def learn(self, kind: str, **more: Any) -> LearnedModel:
        """A distribution of this kind, of all that was measured. Its model keeps the tables, so that there are copies.

        `more` is what `to_measurements` takes.
        """
        self.notify("fitting", 0, 1)
        learned = self.to_measurements(kind, **more).learn(self.schema, progress=partial(self.notify, "fitting"))
        self.notify("fitting", 1, 1)
        return learned

    def structure(self) -> list[str]:
        """What was measured and with how much noise, a line for each marginal."""
        return [f"{self.name(columns)}: noise std {std:.1f}" for columns, std in noise_of(self.measured).items()]

    def fitted(
        self,
        learned: LearnedModel,
        *,
        settings: Mapping[str, str | int],
        structure: Iterable[str] | None = None,
        limits: Sequence[str] = (),
        edges: Iterable[tuple[int, int]] | None = None,
        critic: Critic | None = None,
    ) -> FittedModel:
        """The finished model and its facts.

        Structure and edges are those of what was measured, unless others are given. `critic` is one that was paid for.
        """
        if edges is None:
            edges = {pair for known in self.measured for pair in combinations(sorted(known.columns), 2)}
        if learned.unexplained:
            far = ", ".join(map(self.name, learned.unexplained))
            limits = [*limits, f"Further from the model than noise explains: {far}."]
        bins = {}
        if self.within_bin_counts:
            bins["bins"] = (
                f"learned for {plural(len(self.within_bin_counts), 'column')}, with {BINS_SHARE:.0%} of the budget"
            )
        facts = Facts(
            method=self._method,
            guarantee=self.table.ledger.guarantee(),
            settings={"missing": repr(self.missing), **bins, **settings},
            structure=tuple(self.structure() if structure is None else structure),
            noise=_noise_of_columns(self.schema.names, self.sizes, self.scaled_tables),
            limits=tuple(limits),
            edges=tuple(sorted(edges)),
            broken=self.broken,
        )
        filled, gapped, _, _, measurements = learned
        return FittedModel(self.schema, filled, gapped, self.total, facts, self.within_bin_counts, measurements, critic)


def _check_constraints(schema: Schema) -> None:
    """Refuse constraints under which no row could be drawn: whatever is learned, and before anything is paid.

    Rows are drawn as a model would draw them that knows the schema alone.
    """
    if not schema.constraints:
        return
    even = Product(tuple(np.full(column.size, 1 / column.size) for column in schema.columns))
    nothing = Facts(method="", guarantee=Guarantee(schema.name, Rows(1), 0.0, 0.0, "the schema alone"))
    try:
        FittedModel(schema, even, None, 0.0, nothing).sample(DRAWN, seed=0)
    except ModelError:
        raise SchemaError(
            "no row was found that keeps all constraints",
            hint="check them for conflicts, and leave out a number that must equal another one",
        ) from None


def _noise_of_columns(names: Sequence[str], sizes: Sequence[int], tables: Iterable[Measurement]) -> dict[str, float]:
    """The noise in a count of one cell of each column, by all tables in which it is with all its cells.

    A table tells it by a sum over its other columns; what several tell is weighted by precision.
    """
    known: dict[str, float] = {}
    for table in tables:
        for size, column in zip(table.counts.shape, table.columns, strict=True):
            if size == sizes[column]:  # not where a network merged them
                precision = size / table.counts.size / table.noise_std**2
                known[names[column]] = known.get(names[column], 0.0) + precision
    return {name: precision**-0.5 for name, precision in known.items()}
