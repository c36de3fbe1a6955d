"""PrivBayes: a Bayesian network, grown by noisy choices, its tables measured all at once."""

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
from gapless.synth.fitting import FEWER_CELLS, Counts, FitContext, Synthesizer
from gapless.synth.marginal.bayesian_network import BayesianNetwork, Node
from gapless.types import Integers

ROWS_SHARE = 0.01  # of the budget, for the number of rows
CHOICE_SHARE = 0.2  # for the network: a choice errs by little beside the noise in a table
PAIRS_SHARE = 0.5  # of what is left for tables: for pairs in them
USEFUL = 4.0  # a table's cells hold on average this many times the noise, or more
MOST_PARENTS = 3
POOL = 5000  # candidates for a choice; where there are more, parents are columns that the network joins already
SPREAD = 1_000_003  # a prime: steps of this length meet all of the candidates, in no order


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivBayes(Synthesizer):
    r"""A Bayesian network: quick, and good where each column depends on a few others.

    The network begins with the first column of the schema. Then the exponential mechanism chooses, again and again, a
    column X and its parents Π among those that are there, by how many rows would have to change to make X independent
    of Π: :math:`\tfrac12\lVert c(x,\pi) - c(x)\,c(\pi)/m\rVert_1`. Candidates are the largest sets of parents for which
    the table of X and Π is *useful*: its cells hold :math:`\theta = 4` times the noise on average, by a noisy number of
    rows. A parent on a scale may enter with neighbouring cells merged. Last, the tables of all columns are measured.

    Half of what these may cost goes to each column with each of several parents, in tables of their own: a pair is a
    sum over many cells of a larger table, and adds up their noise. Not under a pure budget, where twice as many tables
    have twice the noise, nor where each table counts rows of its own.

    With `missing=Observed()` it is the PrivBayesE of [MD]: a table counts the rows observed on its columns, and only
    the law of X given Π is taken from it. With `Extended()` every row counts.

    Guarantee: 1 % of the budget pays for the number of rows, 20 % for the choices (PRIVACY C1), the rest for one table
        for each column, and half of it for pairs in these if there are any, in even shares each (C2).

    Args:
        missing: what to do about gaps.
        cap_cells: the largest table, and the largest junction tree on which tables are brought to agree.

    References: Zhang, Cormode, Procopiuc, Srivastava, Xiao 2017.
    """

    name = "privbayes"
    keeps_tables = True

    cap_cells: int = 400_000

    def check(self, fitting: FitContext) -> None:
        """Refuse columns and rules that fit in no table, and a budget that pays for no choice."""
        columns = fitting.schema.columns
        if wide := [column for column in columns if column.size > self.cap_cells]:
            names = ", ".join(f"{column.name} ({column.size} cells)" for column in wide)
            raise ModelError(f"these columns do not fit into {self.cap_cells:,} cells: {names}", hint=FEWER_CELLS)
        for rule in _dependencies(fitting.schema):
            if (cells := math.prod(fitting.sizes[place] for place in rule.columns)) > self.cap_cells:
                names = ", ".join(fitting.schema.names[place] for place in rule.columns)
                raise ModelError(
                    f"a rule needs a table of {cells:,} cells of {names}; the cap is {self.cap_cells:,}",
                    hint=FEWER_CELLS,
                )
        fitting.check_choice_budget(CHOICE_SHARE / max(1, len(fitting.columns) - 1), distance=2.0)

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Choose a network and measure its tables until `spend` is used up."""
        growth = _Growth(self, table, spend=spend, progress=progress)
        spend = growth.prepare()
        growth.count_rows(spend * ROWS_SHARE, planned=spend * (1 - ROWS_SHARE - CHOICE_SHARE))
        growth.choose_families(spend * CHOICE_SHARE)
        growth.measure_families(growth.grant.left)
        return growth.conclude()


class _Growth(FitContext):
    """A network on its way.

    A *view* is a column as it is or with neighbouring cells merged, by number; a *family* is the view of a whole column
    and those of its parents.

    Attributes:
        families: of the columns that have their place.
        waiting: the columns that have none, by position.
        useful: the most cells of a table.
        pairs: views of a column and of one of its parents, which are measured by themselves too.
        nodes: of all families, then of all pairs.
    """

    def __init__(
        self, synthesizer: PrivBayes, table: PrivateTable, *, spend: Spend, progress: Progress | None = None
    ) -> None:
        super().__init__(synthesizer, table, spend=spend, progress=progress)
        self.cap_cells = synthesizer.cap_cells
        columns = self.schema.columns
        self.views = [(place, codes) for place, column in enumerate(columns) for codes in _coarser(column)]
        self.data = Views(self.table, self.views, rows=self.missing.rows)
        self.levels: list[list[int]] = [[] for _ in columns]  # the views of each column, the whole one first
        for view, (place, _) in enumerate(self.views):
            self.levels[place].append(view)
        # A column of one cell tells nothing: it is never measured and never a parent.
        self.constant = [place for place, size in enumerate(self.sizes) if size == 1]
        # A column that, by a rule of the schema, others decide gets just these as its parents, once they are there.
        self.decided = {
            rule.columns[-1]: tuple(place for place in rule.columns[:-1] if place not in self.constant)
            for rule in _dependencies(self.schema)
            if rule.columns[-1] not in self.constant
        }
        telling = [place for place in range(len(columns)) if place not in self.constant] or [self.constant.pop()]
        first = next((place for place in telling if place not in self.decided), telling[0])
        self.families: list[Marginal] = [(self.levels[first][0],)]
        self.waiting = [place for place in telling if place != first]
        self.useful = 0
        self.pairs: list[Marginal] = []
        self.nodes: list[Node]
        self.same_rows: bool

    def prepare(self) -> Loss:
        """Fill gaps or leave rows out, which may cost; what is left to spend. After all public refusals."""
        left = super().prepare()
        self.data = Views(self.prepared, self.views, rows=self.missing.rows)
        return left

    def count_rows(self, spend: Loss, *, planned: Loss) -> None:
        """The noisy number of rows, and the cells that a table may have if all tables cost `planned`."""
        numbers = [self.table.marginal(())]
        if (kept := self.prepared.marginal(())).reads != numbers[0].reads:  # else the same rows: pay once
            numbers.append(kept)
        # Shares as they are: what a promise to the people behind the gaps allows beyond them is for the tables.
        released = self.release([(number, "number of rows") for number in numbers], spend, shares=[1.0] * len(numbers))
        self.rows = [Measurement((), released[0], self.noise[0].noise_std)]
        each = planned * (1 - self.pairs_share) / len(self.sizes)
        noise_std = max(LEAST_NOISE, for_counts(each, numbers[0].distance).noise_std)
        self.useful = max(0, min(self.cap_cells, int(released[-1] / (USEFUL * noise_std))))

    def choose_families(self, spend: Loss) -> None:
        """Give every waiting column its parents; free if no set of parents is useful."""
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
        """For each waiting column the largest useful sets of parents, or none."""
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
                fitting = (self._fitting(group, narrow, self.useful / size) for group in groups)
                found[size] = [parents for parents in fitting if parents] or [()]
            candidates += [(whole, *parents) for parents in found[size]]
        many = len(candidates)
        return candidates if many <= POOL else [candidates[step * SPREAD % many] for step in range(POOL)]

    def _groups(self, placed: Sequence[int]) -> Iterator[Marginal]:
        """Marginal that may be parents together: any, if these are few, else a column and some of its own parents."""
        for many in range(1, MOST_PARENTS + 1):
            if math.comb(len(placed), many) * len(self.waiting) <= POOL:
                yield from combinations(placed, many)
            else:
                for family in self.families:
                    column, *parents = (self.views[view][0] for view in family)
                    yield from ((column, *some) for some in combinations(parents, many - 1))

    def _fitting(self, group: Marginal, narrow: Sequence[int], room: float) -> Marginal | None:
        """The views of these columns, the widest merged until they fit; None if they cannot, or if more columns could.

        More could if these fit as they are beside one of the `narrow` columns, which take the least room.
        """
        at = [self.levels[column] for column in group]
        while (cells := math.prod(self.data.sizes[levels[0]] for levels in at)) > room:
            widest = max(range(len(at)), key=lambda place: (len(at[place]) > 1, self.data.sizes[at[place][0]]))
            if len(at[widest]) == 1:
                return None
            at[widest] = at[widest][1:]
        if len(group) < MOST_PARENTS and all(len(now) == len(self.levels[c]) for now, c in zip(at, group, strict=True)):
            others = (self.data.sizes[self.levels[column][-1]] for column in narrow if column not in group)
            if cells * next(others, math.inf) <= room:
                return None
        return tuple(levels[0] for levels in at)

    @property
    def pairs_share(self) -> float:
        """The part of the tables' budget that goes to pairs: none if it is pure or tables count rows of their own.

        With Gaussian noise twice as many tables have 1.4 times the noise, and a pair is told better by itself than by
        the sum over a larger table; under a pure budget they have twice the noise. Tables of other rows could not be
        brought to agree with their pairs.
        """
        whole = self.data.counts_of([(views[0],) for views in self.levels])
        same_rows = len({self._lacking(counts) for counts in whole}) == 1
        return PAIRS_SHARE if same_rows and self.grant.left.order != PURE else 0.0

    def _lacking(self, counts: Counts) -> frozenset[str]:
        """The columns with gaps on which a row must be observed to be counted."""
        return (counts.reads or frozenset()) & {column.name for column in self.schema.columns if column.gaps}

    def measure_families(self, spend: Loss) -> None:
        """The table of every family, and each column with each of its several parents: one batch."""
        self.notify("counting", 0, 1)
        if share := self.pairs_share:
            self.pairs = [(column, parent) for column, *parents in self.families if parents[1:] for parent in parents]
        tables = [*self.families, *self.pairs]
        counts = self.data.counts_of([(*parents, column) for column, *parents in tables])
        self.same_rows = len({self._lacking(table) for table in counts}) == 1
        shares = [(1 - share) / len(self.families)] * len(self.families)
        shares += [share / len(self.pairs) for _ in self.pairs]
        released = self.release(list(zip(counts, map(self.name, tables), strict=True)), spend, shares=shares)
        self.nodes = [self._node(table).cut(self.sizes) for table in tables]
        self.measured = [
            Measurement((*node.parents, node.column), table, noise.noise_std)
            for node, table, noise in zip(self.nodes, released, self.noise, strict=True)
        ]

    def conclude(self) -> FittedModel:
        """The finished model: tables without noise's signs, and the gaps completed."""
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
        """The noisy number of rows, at least one: the tables of all families tell it too, if every row is in them."""
        return max(1.0, self.to_measurements().total)

    def _node(self, family: Marginal) -> Node:
        parents = [self.views[view] for view in family[1:]]
        return Node(self.views[family[0]][0], tuple(c for c, _ in parents), tuple(codes for _, codes in parents))

    def name(self, family: Marginal) -> str:
        """A family in words."""

        def called(view: int) -> str:
            place, _ = self.views[view]
            merged = "" if view == self.levels[place][0] else f" in {self.data.sizes[view]} cells"
            return self.schema.names[place] + merged

        column, *parents = map(called, family)
        return f"{column} given {', '.join(parents)}" if parents else column


def _dependencies(schema: Schema) -> list[PairRule]:
    """The rules by which some columns decide another."""
    return [rule for rule in constraints_of(schema)[1] if rule.is_dependency]


def _coarser(column: Column) -> list[Integers]:
    """The codes of a column's cells, then those with neighbouring cells merged two by two, as often as it makes sense.

    Only columns on a scale have neighbours. *Not applicable* and gaps stay cells of their own.
    """
    many, codes = column.values_size, np.arange(column.extended_size)
    found = [codes]
    while column.is_ordered and many > 2:
        half = -(-many // 2)
        codes = np.where(codes < many, codes // 2, codes - many + half)
        found.append(codes)
        many = half
    return found
