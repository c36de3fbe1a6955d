"""PrivBayes: choose a Bayesian network by noisy dependence scores, then measure its tables in one batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gapless.constraints.compatible import PairRule
from gapless.constraints.forbidden import constraints_of
from gapless.data import PrivateTable
from gapless.data.workload import Views
from gapless.errors import ModelError
from gapless.model.marginal import LEAST_NOISE, Marginal, Measurement
from gapless.privacy import Loss, Spend, for_counts
from gapless.privacy.budget import PURE
from gapless.schema import Column, Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Counts, FitContext, Synthesizer, table_cap
from gapless.synth.learners import MAX_JUNCTION_TREE_CELLS
from gapless.synth.marginal.bayesian_network import BayesianNetwork, Node
from gapless.types import Integers

ROWS_SHARE = 0.01  # of the budget, for the number of rows
CHOICE_SHARE = 0.2  # of the budget, for the network: the error of a choice is small beside the noise in a table
PAIRS_SHARE = 0.5  # of the budget for tables, for pairs within them
USEFUL = 4.0  # least mean count of a cell, in noise standard deviations
MOST_PARENTS = 3
POOL = 5000  # most candidates for a choice; where there are more, parents are columns that the network joins already
SPREAD = 1_000_003  # a prime: steps of this length visit all candidates, in mixed order


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivBayes(Synthesizer):
    r"""A Bayesian network: fast, and accurate where each column depends on a few others.

    The network starts with the first column of the schema. Then the exponential mechanism repeatedly chooses a column X
    and its parents Π among the columns that are placed. The score is the number of rows that would have to change to
    make X independent of Π: :math:`\tfrac12\lVert c(x,\pi) - c(x)\,c(\pi)/m\rVert_1`. Candidates are the largest sets
    of parents for which the table of X and Π is *useful*: the mean count of its cells is at least
    :math:`\theta = 4` times the noise, by a noisy number of rows. Neighbouring cells of an ordered parent may be
    merged. Last, the tables of all columns are measured.

    Half of the budget for tables goes to separate tables of each column with each of its several parents. A pair is a
    sum over many cells of a larger table, and adds up their noise. There are no separate pairs under a pure budget,
    where twice as many tables have twice the noise, nor where tables count different rows.

    With `missing=Observed()` it is the PrivBayesE of [MD]: a table counts the rows observed on its columns, and gives
    only the distribution of X given Π. With `Extended()` every row counts.

    Guarantee: 1 % of the budget pays for the number of rows, 20 % for the choices, and the rest for one
        table per column. Half of the rest goes to pairs within these, if there are any. Shares are equal.

    Args:
        missing: how to treat gaps.
        cap_cells: the largest table, and the largest junction tree on which tables are reconciled.

    References: Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017.
    """

    name = "privbayes"
    keeps_measurements = True

    cap_cells: int = 400_000

    def check(self, context: FitContext) -> None:
        """Refuse columns and rules that are too large for a table, and a budget that cannot pay for a choice."""
        cap, hint = table_cap(self.cap_cells)
        sizes = zip(context.schema.names, context.sizes, strict=True)
        if names := ", ".join(f"{name} ({size} cells)" for name, size in sizes if size > cap):
            raise ModelError(f"these columns do not fit into {cap:,} cells: {names}", hint=hint)
        for rule in _dependencies(context.schema):
            if (cells := math.prod(context.sizes[place] for place in rule.columns)) > cap:
                names = ", ".join(context.schema.names[place] for place in rule.columns)
                raise ModelError(
                    f"a constraint on {names} needs a table of {cells:,} cells; the cap is {cap:,}",
                    hint=hint,
                )
        context.check_choice_budget(CHOICE_SHARE / max(1, len(context.one_way_marginals) - 1), distance=2.0)

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Choose a network and measure its tables until `spend` is used up."""
        network_fit = _NetworkFit(self, table, spend=spend, progress=progress)
        spend = network_fit.prepare()
        network_fit.count_rows(spend * ROWS_SHARE, planned=spend * (1 - ROWS_SHARE - CHOICE_SHARE))
        network_fit.choose_families(spend * CHOICE_SHARE)
        network_fit.measure_families(network_fit.grant.left)
        return network_fit.fit_final_model()


class _NetworkFit(FitContext):
    """The state of a fit: the network so far.

    A *view* is a column, whole or with neighbouring cells merged; views are numbered. A *family* is the view of a whole
    column, followed by those of its parents.

    Attributes:
        families: of the columns that are placed.
        waiting: the columns that are not placed, by position.
        cap_cells: the largest junction tree.
        largest_table: the most cells of a table that a model can hold.
        useful: the largest number of cells of a table, by the number of rows too.
        pairs: views of a column and of one of its parents that are also measured separately.
        nodes: of all families, then of all pairs.
    """

    def __init__(
        self, synthesizer: PrivBayes, table: PrivateTable, *, spend: Spend, progress: Progress | None = None
    ) -> None:
        super().__init__(synthesizer, table, spend=spend, progress=progress)
        self.cap_cells = min(synthesizer.cap_cells, MAX_JUNCTION_TREE_CELLS)
        self.largest_table, _ = table_cap(synthesizer.cap_cells)
        columns = self.schema.columns
        self.views = [(place, codes) for place, column in enumerate(columns) for codes in _coarser(column)]
        self.data = Views(self.table, self.views, rows=self.missing.rows)
        self.levels: list[list[int]] = [[] for _ in columns]  # the views of each column, the whole column first
        for view, (place, _) in enumerate(self.views):
            self.levels[place].append(view)
        # A constant column is never measured and never a parent.
        self.constant = [place for place, size in enumerate(self.sizes) if size == 1]
        # A column that others determine by a rule of the schema has exactly these as parents, once they are placed.
        self.decided = {
            rule.columns[-1]: tuple(place for place in rule.columns[:-1] if place not in self.constant)
            for rule in _dependencies(self.schema)
            if rule.columns[-1] not in self.constant
        }
        varying = [place for place in range(len(columns)) if place not in self.constant] or [self.constant.pop()]
        first = next((place for place in varying if place not in self.decided), varying[0])
        self.families: list[Marginal] = [(self.levels[first][0],)]
        self.waiting = [place for place in varying if place != first]
        self.useful = 0
        self.pairs: list[Marginal] = []
        self.nodes: list[Node]
        self.same_rows: bool

    def prepare(self) -> Loss:
        """Treat the gaps, which may cost, and return the loss that is left. Call it after all public refusals."""
        left = super().prepare()
        self.data = Views(self.prepared, self.views, rows=self.missing.rows)
        return left

    def count_rows(self, spend: Loss, *, planned: Loss) -> None:
        """Measure the number of rows, and set the largest useful table if all tables cost `planned`."""
        numbers = [self.table.marginal(())]
        if (kept := self.prepared.marginal(())).reads != numbers[0].reads:  # else the same rows, which are paid once
            numbers.append(kept)
        # Fixed shares: what the promise for the complete data allows beyond them is left to the tables.
        released = self.release([(number, "number of rows") for number in numbers], spend, shares=[1.0] * len(numbers))
        self.rows = [Measurement((), released[0], self.noise[0].noise_std)]
        table_loss = planned * (1 - self.pairs_share) / len(self.sizes)
        noise_std = max(LEAST_NOISE, for_counts(table_loss, numbers[0].distance).noise_std)
        self.useful = max(0, min(self.largest_table, int(released[-1] / (USEFUL * noise_std))))

    def choose_families(self, spend: Loss) -> None:
        """Choose parents for every waiting column; this is free if no set of parents is useful."""
        share = spend / max(1, len(self.waiting))
        while self.waiting:
            self.notify("choosing", len(self.families), len(self.sizes))
            candidates = self._candidates()
            place = 0
            if any(len(family) > 1 for family in candidates) and len(candidates) > 1:
                place = self.choose(self.data.dependence(candidates), share, what=f"choice {len(self.families)}")
            self.families.append(candidates[place])
            self.waiting.remove(self.views[candidates[place][0]][0])

    def _candidates(self) -> list[Marginal]:
        """Return the candidate families: for each waiting column the largest useful sets of parents, or none."""
        placed = [self.views[family[0]][0] for family in self.families]
        for column, deciding in self.decided.items():
            if column in self.waiting and set(deciding) <= set(placed):
                return [tuple(self.levels[place][0] for place in (column, *deciding))]
        groups = list(self._groups(placed))
        narrow = sorted(placed, key=lambda column: self.data.sizes[self.levels[column][-1]])[: MOST_PARENTS + 1]
        found: dict[int, list[Marginal]] = {}  # waiting columns of one size have the same sets
        candidates: list[Marginal] = []
        free = [column for column in self.waiting if column not in self.decided] or self.waiting
        for column in free:
            whole, size = self.levels[column][0], self.sizes[column]
            if size not in found:
                within = (self._views_within(group, narrow, self.useful / size) for group in groups)
                found[size] = [parents for parents in within if parents] or [()]
            candidates += [(whole, *parents) for parents in found[size]]
        many = len(candidates)
        return candidates if many <= POOL else [candidates[step * SPREAD % many] for step in range(POOL)]

    def _groups(self, placed: Sequence[int]) -> Iterator[Marginal]:
        """Yield sets of columns that may be parents: all if they are few, else a column and some of its parents."""
        for many in range(1, MOST_PARENTS + 1):
            if math.comb(len(placed), many) * len(self.waiting) <= POOL:
                yield from combinations(placed, many)
            else:
                for family in self.families:
                    column, *parents = (self.views[view][0] for view in family)
                    yield from ((column, *some) for some in combinations(parents, many - 1))

    def _views_within(self, group: Marginal, narrow: Sequence[int], limit: float) -> Marginal | None:
        """Return views of these columns within a number of cells, merging the widest first.

        Returns None if they do not fit, or if another column would fit with them. The latter is tested with the
        `narrow` columns, which have the fewest cells.
        """
        at = [self.levels[column] for column in group]
        while (cells := math.prod(self.data.sizes[levels[0]] for levels in at)) > limit:
            widest = max(range(len(at)), key=lambda place: (len(at[place]) > 1, self.data.sizes[at[place][0]]))
            if len(at[widest]) == 1:
                return None
            at[widest] = at[widest][1:]
        if len(group) < MOST_PARENTS and all(len(now) == len(self.levels[c]) for now, c in zip(at, group, strict=True)):
            others = (self.data.sizes[self.levels[column][-1]] for column in narrow if column not in group)
            if cells * next(others, math.inf) <= limit:
                return None
        return tuple(levels[0] for levels in at)

    @property
    def pairs_share(self) -> float:
        """The share of the budget for tables that goes to pairs: 0 if it is pure, or if tables count different rows.

        With Gaussian noise twice as many tables have 1.4 times the noise, and a separate pair is more precise than the
        sum over a larger table. Under a pure budget they have twice the noise. Tables of different rows could not be
        reconciled with their pairs.
        """
        whole = self.data.counts_of([(views[0],) for views in self.levels])
        same_rows = len({self._gap_columns_read(counts) for counts in whole}) == 1
        return PAIRS_SHARE if same_rows and self.grant.left.order != PURE else 0.0

    def _gap_columns_read(self, counts: Counts) -> frozenset[str]:
        """Return the columns with gaps on which a row must be observed to be counted."""
        return (counts.reads or frozenset()) & {column.name for column in self.schema.columns if column.gaps}

    def measure_families(self, spend: Loss) -> None:
        """Measure, in one batch, the table of every family, and each column with each of its several parents."""
        self.notify("counting", 0, 1)
        if share := self.pairs_share:
            self.pairs = [(column, parent) for column, *parents in self.families if parents[1:] for parent in parents]
        tables = [*self.families, *self.pairs]
        counts = self.data.counts_of([(*parents, column) for column, *parents in tables])
        self.same_rows = len({self._gap_columns_read(table) for table in counts}) == 1
        shares = [(1 - share) / len(self.families)] * len(self.families)
        shares += [share / len(self.pairs) for _ in self.pairs]
        released = self.release(list(zip(counts, map(self.name, tables), strict=True)), spend, shares=shares)
        self.nodes = [self._node(table).cut(self.sizes) for table in tables]
        self.measured = [
            Measurement((*node.parents, node.column), table, noise.noise_std)
            for node, table, noise in zip(self.nodes, released, self.noise, strict=True)
        ]

    def fit_final_model(self) -> FittedModel:
        """Learn the network, complete the gaps, and return the model."""
        learned = self.learn(
            BayesianNetwork.kind, nodes=tuple(self.nodes), same_rows=self.same_rows, cap_cells=self.cap_cells
        )
        pairs = {(min(node.column, parent), max(node.column, parent)) for node in self.nodes for parent in node.parents}
        named = zip([*self.families, *self.pairs], self.measured, strict=True)
        return self.fitted(
            learned,
            settings={"cells of a chosen table": f"at most {self.useful:,}"},
            structure=[f"{self.name(family)}: noise std {table.noise_std:.1f}" for family, table in named],
            edges=pairs,
        )

    @property
    def total(self) -> float:
        """The noisy number of rows, at least one; estimated from all tables if every row is in them."""
        return max(1.0, self.to_measurements().total)

    def _node(self, family: Marginal) -> Node:
        parents = [self.views[view] for view in family[1:]]
        return Node(self.views[family[0]][0], tuple(c for c, _ in parents), tuple(codes for _, codes in parents))

    def name(self, family: Marginal) -> str:
        """Return the name of a family in the ledger."""

        def view_name(view: int) -> str:
            place, _ = self.views[view]
            merged = "" if view == self.levels[place][0] else f" in {self.data.sizes[view]} cells"
            return self.schema.names[place] + merged

        column, *parents = map(view_name, family)
        return f"{column} given {', '.join(parents)}" if parents else column


def _dependencies(schema: Schema) -> list[PairRule]:
    """Return the rules by which some columns determine another."""
    return [rule for rule in constraints_of(schema)[1] if rule.is_dependency]


def _coarser(column: Column) -> list[Integers]:
    """Return the codes of a column's cells, then codes with neighbouring cells merged in pairs, down to two cells.

    Only ordered columns are merged. *Not applicable* and gaps stay separate cells.
    """
    many, codes = column.values_size, np.arange(column.extended_size)
    found = [codes]
    while column.is_ordered and many > 2:
        half = -(-many // 2)
        codes = np.where(codes < many, codes // 2, codes - many + half)
        found.append(codes)
        many = half
    return found
