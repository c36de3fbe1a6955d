r"""What a model was learned from: the released tables with their noise, and the way from them to the model.

Everything after the release is a function of released values, so it can be done again, for free, with tables that might
have been released instead. `resampled` puts noise of the same size on the tables once more; `measure_rows` counts other
rows and puts noise on these. What each kind of model makes of tables is written here once, for the fit and
for all repetitions (`gapless.synth.copies`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.compatible import ForbiddenCells
from gapless.constraints.forbidden import constraints_of
from gapless.errors import ModelError
from gapless.model.completion import complete_model, complete_table
from gapless.model.distribution import Distribution, Product
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Marginal, Measurement, estimate_total, project_to_simplex
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.learning import least_squares_counts, level_counts, nonnegative_counts
from gapless.synth.marginal.bayesian_network import (
    Axes,
    BayesianNetwork,
    JointStartNetwork,
    Node,
    conditional,
    fit_tables,
    joint_start_size,
)
from gapless.synth.marginal.mixture_fit import fit_mixture
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.types import Floats

MOST_CELLS = 1 << 28  # of a junction tree that a model file asks for: two gigabytes
ENGINE_CELLS = 20_000_000  # what the engine would refuse; selection keeps far below


Progress = Callable[[int, int], object]  # how much is done, of how much


class LearnedModel(NamedTuple):
    """What was learned, and from which released tables.

    Attributes:
        filled: the distribution over observed cells, gaps completed.
        gapped: the distribution over all cells; None if gaps were not counted.
        total: the number of rows that the tables speak for.
        unexplained: the tables that are further from the model than noise explains.
        measurements: the tables; None if it cannot be learned from tables again.
    """

    filled: Distribution
    gapped: Distribution | None
    total: float
    unexplained: tuple[Marginal, ...] = ()
    measurements: Measurements | None = None


class LearnOptions(NamedTuple):
    """Options for learning, as in `Measurements.learn`."""

    seed: int
    follow_noise: bool
    loose_gap_rates: bool
    start: LearnedModel | None
    progress: Progress | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """Released tables as they were released, and which kind of model is learned from them.

    Structural zeros are not among them: they follow from the schema.

    Attributes:
        kind: of the distribution, as in `LEARNERS`.
        tables: noisy counts; of a network those of each node, parents first, merged as they were counted.
        rows: the noisy number of rows, where it was measured by itself.
        extended: whether every row was counted, gaps as cells.
        trees: of columns whose bins were learned, the counts of their cells in groups, the coarsest level first.
        nodes: of a network, one for each table: those of all columns, parents first, then pairs in some of these.
        same_rows: of a network, whether all tables count the same rows.
        cap_cells: of a network, the largest junction tree on which its tables are brought to agree; of a graphical
            model, the largest table in which a rule between rows is kept by structural zeros.
    """

    kind: str
    tables: tuple[Measurement, ...]
    rows: tuple[Measurement, ...] = ()
    extended: bool
    bin_hierarchy: tuple[Measurement, ...] = ()
    nodes: tuple[Node, ...] = ()
    same_rows: bool = True
    cap_cells: int = ENGINE_CELLS

    @property
    def total(self) -> float:
        """The noisy number of rows: tables tell it too, if every row is in them."""
        return estimate_total([*self.rows, *self.tables] if self.extended else self.rows)

    @property
    def scaled_tables(self) -> list[Measurement]:
        """The tables, brought to a common total.

        Where rows with gaps are left out each table has a total of its own; counts and noise are scaled by N / n, with
        n the table's own noisy total (PRIVACY C4): free, and unbiased if gaps are completely random.
        """
        if self.extended:
            return list(self.tables)
        total = max(1.0, self.total)
        return [table.scaled_to(total) for table in self.tables]

    @property
    def families(self) -> tuple[Node, ...]:
        """Of a network the nodes that make it, one for each column."""
        return self.nodes[: len({node.column for node in self.nodes})]

    def sizes(self, schema: Schema) -> tuple[int, ...]:
        """The cells of each column as they were counted."""
        return tuple(column.extended_size if self.extended else column.size for column in schema.columns)

    def jointly_measured(self, schema: Schema) -> list[frozenset[int]]:
        """The sets of columns that were counted in one table that copies keep, each with all its cells; the largest.

        Those of a network beyond its beginning are kept if an earlier one holds all parents.
        """
        sizes = self.sizes(schema)
        families = self.families
        begun = joint_start_size(sizes, families, self.cap_cells) if families and self.same_rows else 0
        found: set[frozenset[int]] = set()
        for place, table in enumerate(self.tables[: len(families) or None]):  # its pairs are in these
            parents = families[place].parents if begun <= place < len(families) else ()
            if not parents or any(set(parents) <= columns for columns in found):
                axes = zip(table.columns, table.counts.shape, strict=True)
                found.add(frozenset(c for c, size in axes if size == sizes[c]))
        constant = frozenset(c for c, size in enumerate(sizes) if size == 1)  # they go with everything
        return [columns | constant for columns in found if not any(columns < other for other in found)]

    def column_counts(self, schema: Schema, column: int, among: Iterable[int] = ()) -> tuple[Floats, float]:
        """How many rows each cell of a column has, signs and all, and the noise in that: by tables with all its cells.

        Each tells it by a sum over its other columns; what several tell is weighted by precision. Those alone that hold
        the columns `among` as well.
        """
        codes = self.sizes(schema)[column]
        counts, known = np.zeros(codes), 0.0
        for table in self.tables:
            places = [place for place, other in enumerate(table.columns) if other == column]
            if places and table.counts.shape[places[0]] == codes and set(among) <= set(table.columns):
                cells = np.moveaxis(table.counts, places[0], 0).reshape(codes, -1)
                precision = 1 / (cells.shape[1] * table.noise_std**2)
                counts, known = counts + precision * cells.sum(axis=1), known + precision
        return (counts / known, known**-0.5) if known else (counts, np.inf)

    def cells_below_noise(self, schema: Schema, column: int, among: Iterable[int]) -> NDArray[np.bool_]:
        """Which observed cells of a column noise hides in tables with the columns `among`.

        They have no more rows than 1.96 standard deviations of what noise adds up to in the rows of such a cell.
        """
        sizes = self.sizes(schema)
        if sizes[column] == 1:  # it is in no table, and every row is in its cell
            return np.zeros(1, dtype=np.bool_)
        counts, _ = self.column_counts(schema, column)
        _, noise_std = self.column_counts(schema, column, [other for other in among if sizes[other] > 1])
        return np.asarray(counts[: schema.columns[column].size] <= 1.96 * noise_std)

    def is_below_noise(self, schema: Schema, column: int) -> bool:
        """Whether noise hides the rows in which a column with gaps is observed: from released counts, so it is public.

        It does if 1.96 standard deviations of the noise in a cell reach as far as the mean of the observed ones. What
        is made of such cells depends on noise being cut off at zero, and no interval covers that.
        """
        counts, noise_std = self.column_counts(schema, column)
        return bool(1.96 * noise_std >= counts[: schema.columns[column].size].mean())

    def learn(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        follow_noise: bool = False,
        loose_gap_rates: bool = False,
        start: LearnedModel | None = None,
        progress: Progress | None = None,
    ) -> LearnedModel:
        """The model that these tables make.

        Args:
            schema: of the table.
            seed: of the chance in learning; public, so that the same tables give the same model.
            follow_noise: whether to follow the tables, noise and all. A model for rows stops where noise explains the
                rest, which draws columns towards independence: a bias that no interval shows. Noise shows in copies.
            loose_gap_rates: whether rates of gaps in a mixture move faster; others have none.
            start: what was learned closely from tables nearby; a mixture goes on from there. Others are as quick from
                the beginning, and a cell that has become empty would stay so.
            progress: called with how much is done, of how much.
        """
        learned = LEARNERS[self.kind](self, schema, LearnOptions(seed, follow_noise, loose_gap_rates, start, progress))
        return learned._replace(measurements=self)

    def within_bin_counts(self, schema: Schema, *, follow_noise: bool = False) -> dict[str, Floats]:
        """How many rows each cell has, about, of columns whose bins were learned; `follow_noise` as in `learn`."""
        return {
            schema.names[column]: nonnegative_counts(
                [level.counts for level in tree], tree[0].noise_std, follow_noise=follow_noise
            )
            for column, tree in self._levels_by_column.items()
        }

    def bin_means(self, schema: Schema, column: int, numbers: Floats) -> Floats:
        r"""The mean of a column's numbers in each of its bins, by the number of each cell.

        Where bins were learned counts of cells below zero are taken as they are:

        .. math:: \bar v_b + \frac{1}{n_b} \sum_{c \in b} s_c (v_c - \bar v_b), \qquad
                  \bar v_b = \sum_{c \in b} t_c v_c \Bigm/ \sum_{c \in b} t_c

        with v the number of each cell, s its signed count, t that of rows of a copy, none below zero, and n the rows of
        the bin, by all tables. Lifting counts to zero makes a bias that is large on a long tail, and lets estimates
        vary by less than noise does: s has neither. In declared bins rows have values drawn evenly.
        """
        line, tree = schema.columns[column], self._levels_by_column.get(column, [])
        if not isinstance(line, BinnedColumn):
            return numbers
        levels = [level.counts for level in tree]
        held = nonnegative_counts(levels, tree[0].noise_std, follow_noise=True) if tree else np.zeros(len(numbers))
        held = held + 1e-9  # cells of an empty bin are as likely as each other
        bins, many = line.finest.regroup(line)[: len(numbers)], line.values_size
        means = np.bincount(bins, held * numbers, many) / np.bincount(bins, held, many)
        if not tree:
            return means
        counts, counts_std = self.column_counts(schema, column)
        rows = np.maximum(counts[:many], 1.96 * counts_std)
        beyond = least_squares_counts(levels, tree[0].noise_std) * (numbers - means[bins])
        return np.asarray(means + np.bincount(bins, beyond, many) / rows)

    def nonnegative(self, schema: Schema) -> Measurements:
        """The same with trees as rows follow them, no count below zero: what replicates come from."""
        inside = self.within_bin_counts(schema, follow_noise=True)
        trees = [
            replace(level, counts=counts)
            for column, tree in self._levels_by_column.items()
            for level, counts in zip(
                tree, level_counts(inside[schema.names[column]], [level.counts for level in tree]), strict=True
            )
        ]
        return replace(self, bin_hierarchy=tuple(trees))

    @property
    def _levels_by_column(self) -> dict[int, list[Measurement]]:
        levels: dict[int, list[Measurement]] = {}
        for level in self.bin_hierarchy:
            levels.setdefault(level.columns[0], []).append(level)
        return levels

    def resampled(self, rng: np.random.Generator) -> Measurements:
        """The same with as much noise again as there is in it."""
        return self._with_noise([table.counts for table in self._released], rng)

    def measure_rows(self, codes: NDArray[np.integer], schema: Schema, rng: np.random.Generator) -> Measurements:
        """What might have been released of other rows: their counts, with fresh noise. All rows must be counted.

        Values are drawn in learned bins by what was released of them.
        """
        tables = [codes[:, table.columns].astype(np.int64) for table in self.tables]
        for table, node in zip(tables, self.nodes, strict=False):
            for axis, merged in enumerate(node.merged):
                table[:, axis] = merged[table[:, axis]]
        counts = [_count(rows, table.counts.shape) for rows, table in zip(tables, self.tables, strict=True)]
        counts += [np.array(float(len(codes)))] * len(self.rows)
        inside = self.within_bin_counts(schema, follow_noise=True)
        for column, tree in self._levels_by_column.items():
            line = schema.columns[column]
            assert isinstance(line, BinnedColumn)  # noqa: S101 for mypy: others have no bins
            valued = codes[codes[:, column] < line.values_size, column]
            drawn = line.draw_cells(inside[line.name], valued, rng)
            cells = np.bincount(drawn, minlength=line.finest.values_size).astype(np.float64)
            counts += level_counts(cells, [level.counts for level in tree])
        return self._with_noise(counts, rng)

    def _with_noise(self, counts: Sequence[Floats], rng: np.random.Generator) -> Measurements:
        """These counts with noise."""
        fresh = [
            Measurement(old.columns, new + rng.normal(0.0, old.noise_std, np.shape(new)), old.noise_std)
            for old, new in zip(self._released, counts, strict=True)
        ]
        begin, end = len(self.tables), len(self.tables) + len(self.rows)
        return replace(
            self, tables=tuple(fresh[:begin]), rows=tuple(fresh[begin:end]), bin_hierarchy=tuple(fresh[end:])
        )

    @property
    def _released(self) -> tuple[Measurement, ...]:
        return (*self.tables, *self.rows, *self.bin_hierarchy)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds of it."""
        many = [len(self.tables), len(self.rows), len(self.bin_hierarchy), len(self.nodes)]
        facts = [self.extended, self.same_rows, self.cap_cells, *many]
        arrays: dict[str, NDArray[Any]] = {"kind": np.array(self.kind), "facts": np.array(facts, dtype=np.int64)}
        for number, table in enumerate(self._released):
            arrays[f"columns.{number}"] = np.array(table.columns, dtype=np.int64)
            arrays[f"counts.{number}"] = table.counts
            arrays[f"noise_std.{number}"] = np.array(table.noise_std)
        for number, node in enumerate(self.nodes):
            arrays |= {f"merged.{number}.{axis}": codes for axis, codes in enumerate(node.merged)}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Measurements:
        """What a model file holds."""
        extended, same_rows, cap_cells, tables, rows, trees, nodes = arrays["facts"].tolist()
        measured = [
            Measurement(
                tuple(arrays[f"columns.{number}"].tolist()),
                arrays[f"counts.{number}"].astype(np.float64),
                float(arrays[f"noise_std.{number}"]),
            )
            for number in range(tables + rows + trees)
        ]
        families = [
            (columns[-1], columns[:-1], tuple(arrays[f"merged.{number}.{axis}"] for axis in range(len(columns) - 1)))
            for number, columns in enumerate(table.columns for table in measured[:nodes])
        ]
        return cls(
            kind=str(arrays["kind"]),
            tables=tuple(measured[:tables]),
            rows=tuple(measured[tables : tables + rows]),
            bin_hierarchy=tuple(measured[tables + rows :]),
            extended=bool(extended),
            nodes=tuple(Node(*family) for family in families),
            same_rows=bool(same_rows),
            cap_cells=min(int(cap_cells), MOST_CELLS),
        )


def _count(cells: NDArray[np.int64], shape: tuple[int, ...]) -> Floats:
    many = int(np.prod(shape))
    places = np.ravel_multi_index(tuple(cells.T), shape) if shape else np.zeros(len(cells), dtype=np.int64)
    return np.bincount(places, minlength=many).reshape(shape).astype(np.float64)


def noise_of(measurements: Iterable[Measurement]) -> dict[Marginal, float]:
    """The noise in each cell of every measured marginal; repeated measurements of one are combined."""
    precision: dict[Marginal, float] = {}
    for measurement in measurements:
        precision[measurement.columns] = precision.get(measurement.columns, 0.0) + measurement.noise_std**-2
    return {columns: known**-0.5 for columns, known in precision.items()}


# ---------------------------------------------------------------------- what each kind makes of tables


def _product(measurements: Measurements, schema: Schema, _: LearnOptions) -> LearnedModel:
    """Each column by itself."""
    observed, total = [column.size for column in schema.columns], measurements.total
    filled, gapped = ([np.ones(size) for size in sizes] for sizes in (observed, measurements.sizes(schema)))
    for table in measurements.tables:
        (place,) = table.columns
        shown = table.counts[: observed[place]]
        filled[place] = project_to_simplex(shown, 1.0 if (n := shown.sum()) <= 0 else n)
        gapped[place] = project_to_simplex(table.counts, max(total, 1.0))
    return LearnedModel(
        Product(tuple(law / law.sum() for law in filled)),
        Product(tuple(law / law.sum() for law in gapped)) if measurements.extended else None,
        total,
    )


def _graphical(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """A fit on a junction tree, constraints as structural zeros, and the gaps completed."""
    sizes, observed = measurements.sizes(schema), [column.size for column in schema.columns]
    total, tables = max(1.0, measurements.total), measurements.scaled_tables

    def fit(rules: Sequence[ForbiddenCells]) -> GraphicalModel:
        return GraphicalModel.fit(
            sizes,
            tables,
            total=total,
            follow_noise=options.follow_noise,
            unmerged=len(sizes),
            zeros=[(rule.columns, _with_gaps(rule, sizes)) for rule in rules],
            cap_cells=ENGINE_CELLS,
        )

    def completed(model: GraphicalModel, rules: Sequence[ForbiddenCells]) -> LearnedModel:
        if not measurements.extended:
            return LearnedModel(model, None, total, model.unexplained)
        filled = complete_model(
            model,
            observed,
            noise_of(measurements.tables),
            zeros=[(rule.columns, rule.table) for rule in rules],
            cap_cells=ENGINE_CELLS,
            follow_noise=options.follow_noise,
            seed=options.seed,
        )
        return LearnedModel(filled, model, total, model.unexplained)

    forbidden, between, _ = constraints_of(schema, measurements.within_bin_counts(schema))
    model = fit(forbidden)
    chosen = list(forbidden)
    for rule in between:  # which combinations go together is read off the model, then holds exactly
        if prod(sizes[c] for c in rule.columns) <= measurements.cap_cells:
            law = model.marginal(rule.columns)[tuple(slice(observed[c]) for c in rule.columns)]
            chosen.append(rule.forbidden_cells(law))
    if len(chosen) > len(forbidden):
        with suppress(ModelError):  # chosen one by one, they may contradict each other: then samples keep them
            return completed(fit(chosen), chosen)
    return completed(model, forbidden)


def _with_gaps(rule: ForbiddenCells, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """A forbidden combination of observed cells as one of all cells: a gap is never forbidden."""
    return np.pad(rule.table, [(0, sizes[c] - size) for c, size in zip(rule.columns, rule.table.shape, strict=True)])


def _network(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """Tables without noise's signs, brought to agree, then the law of each column given its parents."""
    sizes, observed = measurements.sizes(schema), [column.size for column in schema.columns]
    total = max(1.0, measurements.total)
    agreed = total if measurements.extended else max(1.0, estimate_total(measurements.tables))
    families, noise = measurements.families, [table.noise_std for table in measurements.tables]
    tables, start = fit_tables(
        sizes,
        measurements.nodes,
        [table.counts for table in measurements.tables],
        noise,
        total=agreed if measurements.same_rows else None,
        cap_cells=measurements.cap_cells,
        follow_noise=options.follow_noise,
    )
    constant = [Node(c, (), ()) for c in sorted(set(range(len(sizes))).difference(n.column for n in families))]
    nodes = [*families, *constant]
    tables += [np.ones(1)] * len(constant)
    begun = (
        joint_start_size(sizes, families, measurements.cap_cells) if options.follow_noise and start is not None else 0
    )

    def network(sizes: Sequence[int], nodes: Sequence[Node], start: GraphicalModel | None) -> BayesianNetwork:
        found = BayesianNetwork(sizes, nodes, map(conditional, tables))
        return found if start is None or not begun else JointStartNetwork(found, start, begun)

    whole = network(sizes, nodes, start)
    if not measurements.extended:
        return LearnedModel(whole, None, total)
    nodes = [node.cut(observed) for node in nodes]
    tables = [
        complete_table(table, (*node.shape, observed[node.column])) for node, table in zip(nodes, tables, strict=True)
    ]
    if start is not None and begun:
        columns = {node.column for node in nodes[:begun]}
        kept = [place for place, node in enumerate(measurements.nodes) if node.column in columns]
        axes = Axes(observed, [measurements.nodes[place].cut(observed) for place in kept])
        known = {tuple(sorted(key)): noise[place] for key, place in zip(axes.tables, kept, strict=True)}
        start = complete_model(
            start,
            axes.sizes,
            known,
            zeros=axes.structural_zeros,
            cap_cells=ENGINE_CELLS,
            follow_noise=True,
            seed=options.seed,
        )
    return LearnedModel(network(observed, nodes, start), whole, total)


def _mixture(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """A mixture of products; combinations of two columns that are forbidden become targets."""
    forbidden, _, _ = constraints_of(schema)
    found = fit_mixture(
        measurements.sizes(schema),
        measurements.scaled_tables,
        observed=[column.size for column in schema.columns],
        total=measurements.total,
        zeros=[(rule.columns, rule.table) for rule in forbidden if len(rule.columns) == 2],
        follow_noise=options.follow_noise,
        start=None if options.start is None else _mixtures(options.start),
        loose_gap_rates=options.loose_gap_rates,
        seed=options.seed,
        progress=options.progress,
    )
    return LearnedModel(*found)


def _mixtures(learned: LearnedModel) -> tuple[MixtureModel, MixtureModel | None]:
    filled, gapped = learned.filled, learned.gapped
    assert isinstance(filled, MixtureModel)  # noqa: S101 for mypy: by its kind
    return filled, gapped if isinstance(gapped, MixtureModel) else None


LEARNERS: dict[str, Callable[[Measurements, Schema, LearnOptions], LearnedModel]] = {
    Product.kind: _product,
    GraphicalModel.kind: _graphical,
    BayesianNetwork.kind: _network,
    MixtureModel.kind: _mixture,
}
