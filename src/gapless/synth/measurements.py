r"""Released noisy tables, and how each kind of model is learned from them.

Learning is a function of released values, so it is free and can be repeated with other tables that might have been
released. `Measurements.resampled` adds noise of the same size to the tables. `Measurements.measure_rows` counts other
rows and adds noise to these counts. A fit and its repetitions (`gapless.synth.copies`) share the same code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.compatible import ForbiddenCells
from gapless.constraints.forbidden import constraints_of
from gapless.data.workload import FEATURE_LENGTH
from gapless.errors import ModelError
from gapless.model.completion import complete_model, complete_table
from gapless.model.distribution import Distribution, Product
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Marginal, Measurement, estimate_total, positive_shares, project_to_simplex
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
from gapless.synth.marginal.factors_fit import (
    GAP_RIDGE,
    STEPS,
    ColumnTarget,
    FactorsFit,
    WarmStart,
    few_combinations,
    fit_factors,
    ridge_for,
)
from gapless.synth.marginal.features import FeatureMap, mean_features, value_order
from gapless.synth.marginal.mixture_fit import fit_mixture
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.synth.within_bins import edges_of_cells, heap_counts, spread, with_heaps
from gapless.types import Floats

MOST_CELLS = 1 << 28  # of a junction tree that a model file may ask for: two gigabytes
MAX_JUNCTION_TREE_CELLS = 20_000_000  # of a junction tree that can be fitted; selection stays far below

Progress = Callable[[int, int], object]  # called with how much is done, and of how much


FOLLOW_RIDGE = 0.1  # of a model of factors that follows noise, relative to the usual ridge
FOLLOW_GAP_RIDGE = 0.03  # of gap rates in such a model, relative to the mean precision of products, as shares of rows
FOLLOW_STEPS = 1000  # of such a model from a cold start: a move that it still lacks would look like one by noise
COPY_STEPS = 200  # from that model, which copies start with: fewer, and they would vary by less than noise does
RULE_STEPS = 300  # of a second fit for rows, with combinations that the first one shows to be forbidden
LOOSE_GAP_RIDGE = 0.1  # of gap rates that are less restricted, relative to the usual ridge
FACTORS = "factors"  # a kind of learner; its distributions are mixtures
RELEASED = (
    "tables",
    "rows",
    "bin_hierarchy",
    "heaps",
    "products",
    "pair_rows",
)  # the fields of `Measurements` with noise


class LearnedModel(NamedTuple):
    """A distribution, and the released tables that it was learned from.

    Attributes:
        filled: the distribution over observed cells, gaps completed.
        gapped: the distribution over all cells; None if gaps were not counted.
        total: the noisy number of rows.
        unexplained: the tables that are further from the model than noise explains.
        measurements: the tables; None if the model cannot be learned from tables again.
        end: of a fit of factors, for a warm start.
    """

    filled: Distribution
    gapped: Distribution | None
    total: float
    unexplained: tuple[Marginal, ...] = ()
    measurements: Measurements | None = None
    end: WarmStart | None = None


class LearnOptions(NamedTuple):
    """Options for learning a model from tables.

    Attributes:
        seed: of the random numbers in learning; public, so that the same tables give the same model.
        follow_noise: whether to fit the noisy tables exactly. A model for rows is shrunk towards independent columns
            (`gapless.model.graphical`): a bias that no interval shows. Copies show noise.
        loose_gap_rates: whether gap rates are less restricted, in a mixture or in factors. Other models have none.
        start: a model of similar tables, learned with `follow_noise`, as a warm start for a mixture or for factors.
            Other models start cold: they are as fast, and a cell that became empty would stay empty.
        progress: called with how much is done, and of how much.
    """

    seed: int = 0
    follow_noise: bool = False
    loose_gap_rates: bool = False
    start: LearnedModel | None = None
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """The noisy tables of a release, and the kind of model that is learned from them.

    Structural zeros are not included: they follow from the schema.

    Attributes:
        kind: of the distribution, a key of `LEARNERS`.
        tables: noisy counts. For a network: one table per node, parents first, with cells merged as counted.
        rows: the noisy number of rows, if it was measured separately.
        extended: whether every row was counted, with gaps as cells.
        bin_hierarchy: for columns with learned bins, the counts of their cells in groups, the coarsest level first.
        heaps: for columns with heaping, the counts at multiples of each step and elsewhere.
        nodes: for a network, one per table: those of all columns, parents first, then pairs within some of these.
        same_rows: for a network, whether all tables count the same rows.
        features: for factors, the features of each column's cells.
        products: for factors, the feature products of each pair of columns, as numbers of rows.
        pair_rows: for factors, the noisy number of rows observed in each pair, if rows with gaps are left out.
        cap_cells: for a network, the largest junction tree on which its tables are reconciled. For a graphical model,
            the largest table in which structural zeros enforce a rule between rows.
    """

    kind: str
    tables: tuple[Measurement, ...]
    rows: tuple[Measurement, ...] = ()
    extended: bool
    bin_hierarchy: tuple[Measurement, ...] = ()
    heaps: tuple[Measurement, ...] = ()
    nodes: tuple[Node, ...] = ()
    same_rows: bool = True
    features: tuple[FeatureMap, ...] = ()
    products: tuple[Measurement, ...] = ()
    pair_rows: tuple[Measurement, ...] = ()
    cap_cells: int = MAX_JUNCTION_TREE_CELLS

    @property
    def total(self) -> float:
        """The noisy number of rows, estimated from the tables too if every row is in them."""
        return estimate_total([*self.rows, *self.tables] if self.extended else self.rows)

    @property
    def scaled_tables(self) -> list[Measurement]:
        """The tables, scaled to a common total.

        Where rows with gaps are left out, tables have different totals. Counts and noise are scaled by N / n, with n
        the noisy total of the table. This is free, and unbiased if gaps are completely at random.
        """
        if self.extended:
            return list(self.tables)
        total = max(1.0, self.total)
        return [table.scaled_to(total) for table in self.tables]

    @property
    def families(self) -> tuple[Node, ...]:
        """For a network, the nodes that define it: one per column."""
        return self.nodes[: len({node.column for node in self.nodes})]

    @property
    def derived_seed(self) -> int:
        """A seed that is a hash of the released counts, so it is public.

        The same release gives the same seed, and another release another one. One seed for all releases would give
        their copies the same draws: the errors of their intervals would not average out.
        """
        digest = hashlib.sha256()
        for table in self._released:
            digest.update(np.asarray(table.counts, dtype="<f8").tobytes())
        return int.from_bytes(digest.digest()[:8], "big")

    def sizes(self, schema: Schema) -> tuple[int, ...]:
        """Return the number of cells of each column, as counted."""
        return tuple(column.extended_size if self.extended else column.size for column in schema.columns)

    def jointly_measured(self, schema: Schema) -> list[frozenset[int]]:
        """Return the largest sets of columns whose joint distribution was measured, and is kept in copies.

        Columns with merged cells are left out. A network keeps the table of a node beyond its joint start only if an
        earlier table holds all parents. Feature products of two columns stand for their table.
        """
        sizes = self.sizes(schema)
        families = self.families
        joint = joint_start_size(sizes, families, self.cap_cells) if families and self.same_rows else 0
        found: set[frozenset[int]] = set()
        for place, table in enumerate(self.tables[: len(families) or None]):  # these contain the pairs of a network
            parents = families[place].parents if joint <= place < len(families) else ()
            if not parents or any(set(parents) <= columns for columns in found):
                axes = zip(table.columns, table.counts.shape, strict=True)
                found.add(frozenset(c for c, size in axes if size == sizes[c]))
        found |= {frozenset(product.columns) for product in self.products}
        constant = frozenset(c for c, size in enumerate(sizes) if size == 1)  # jointly known with every set
        return [columns | constant for columns in found if not any(columns < other for other in found)]

    def column_counts(self, schema: Schema, column: int, among: Iterable[int] = ()) -> tuple[Floats, float]:
        """Estimate the signed counts of a column's cells, and the standard deviation of their noise.

        Each table that holds the column with all its cells, and the columns `among`, gives an estimate: its sum over
        the other columns. The estimates are weighted by precision. Without such a table the noise is infinite.
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

    def _joint_noise_std(self, column: int, other: int) -> float:
        r"""Return the noise in the number of rows on one axis of a column's features, by products with another column.

        With the features f of the other column, this number is the product with the shortest w for which
        :math:`w^\top f(x)` is 1 in all cells x, or nearly. The axis of a group has a shorter unit than that of a level.
        """
        known = [product.noise_std for product in self.products if {column, other} == set(product.columns)]
        if not known:
            return np.inf
        here, there = (self.features[place] for place in (column, other))
        unit = here.vectors[0, 2 if here.groups is not None and here.groups.size else 0 :].max() / FEATURE_LENGTH
        w = np.linalg.lstsq(there.vectors / FEATURE_LENGTH, np.ones(len(there.vectors)), rcond=None)[0]
        return float(known[0] * np.linalg.norm(w) / unit)

    def cells_below_noise(self, schema: Schema, column: int, among: Iterable[int]) -> NDArray[np.bool_]:
        """Return which observed cells of a column are below the noise in tables with the columns `among`.

        A cell is if its count is at most 1.96 standard deviations of the noise in the sum over such a table, or over
        such feature products.
        """
        sizes = self.sizes(schema)
        if sizes[column] == 1:  # it is in no table; every row is in its only cell
            return np.zeros(1, dtype=np.bool_)
        counts, _ = self.column_counts(schema, column)
        others = [other for other in among if sizes[other] > 1 and other != column]
        if len(others) == 1 and self.products:
            noise_std = self._joint_noise_std(column, others[0])
        else:
            _, noise_std = self.column_counts(schema, column, others)
        return np.asarray(counts[: schema.columns[column].size] <= 1.96 * noise_std)

    def is_below_noise(self, schema: Schema, column: int) -> bool:
        """Return whether the mean count of a column's observed cells is at most 1.96 standard deviations of noise.

        The answer uses released counts only, so it is public. Such cells depend on how noise is clipped at zero, and no
        confidence interval covers that.
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
        """Learn the model from these tables; the keywords are the fields of `LearnOptions`."""
        options = LearnOptions(seed, follow_noise, loose_gap_rates, start, progress)
        learned = LEARNERS[self.kind](self, schema, options)
        return learned._replace(measurements=self)

    def within_bin_counts(self, schema: Schema, *, follow_noise: bool = False) -> dict[str, Floats]:
        """Estimate the nonnegative cell counts of columns with learned bins or heaping.

        `follow_noise` is as in `LearnOptions`.
        """
        known = sorted({*self._hierarchies, *(heaps.columns[0] for heaps in self.heaps)})
        return {schema.names[column]: self.cell_counts(schema, column, follow_noise=follow_noise) for column in known}

    def cell_counts(self, schema: Schema, place: int, *, follow_noise: bool = False) -> Floats:
        """Estimate the nonnegative counts of a column's finest cells: from all that was counted of it.

        Where bins are declared they are smooth within bins, but for heaps. A column without a table has equal bins.
        """
        column = schema.columns[place]
        assert isinstance(column, BinnedColumn)  # noqa: S101 for mypy: others have no finer cells
        levels, noise_std = self._hierarchies.get(place, ([], 0.0))
        if levels and follow_noise:  # every cell was counted
            return nonnegative_counts(levels, noise_std, follow_noise=True)
        if levels:

            def estimate(weights: Floats | None) -> Floats:
                edges = edges_of_cells(column, weights)
                return nonnegative_counts(levels, noise_std, edges)

        else:
            counts, _ = self.column_counts(schema, place)
            bins = project_to_simplex(counts[: column.values_size], max(1.0, float(counts.sum())))

            def estimate(weights: Floats | None) -> Floats:
                return spread(column, bins, weights)

        heaps = next((heaps for heaps in self.heaps if heaps.columns == (place,)), None)
        return with_heaps(column, heaps, estimate, follow_noise=follow_noise)

    def bin_means(self, schema: Schema, column: int, numbers: Floats) -> Floats:
        r"""Estimate the mean of a column's numbers in each of its bins, from the number of each cell.

        Where bins were learned, negative counts of cells enter as they are:

        .. math:: \bar v_b + \frac{1}{n_b} \sum_{c \in b} s_c (v_c - \bar v_b), \qquad
                  \bar v_b = \sum_{c \in b} t_c v_c \Bigm/ \sum_{c \in b} t_c

        with v the number of each cell, s its signed count, t its nonnegative count in the rows of a copy, and n the
        rows of the bin by all tables. Clipping counts at zero makes a bias that is large on a long tail, and makes
        estimates vary less than noise does. Signed counts have neither defect. In declared bins there are none.
        """
        line, (levels, noise_std) = schema.columns[column], self._hierarchies.get(column, ([], 0.0))
        if not isinstance(line, BinnedColumn):
            return numbers
        shares = self.cell_counts(schema, column, follow_noise=True) + 1e-9  # cells of an empty bin are equally likely
        bins, many = line.finest.regroup(line)[: len(numbers)], line.values_size
        means = np.bincount(bins, shares * numbers, many) / np.bincount(bins, shares, many)
        if not levels:
            return means
        counts, counts_std = self.column_counts(schema, column)
        rows = np.maximum(counts[:many], 1.96 * counts_std)
        deviations = least_squares_counts(levels, noise_std) * (numbers - means[bins])
        return np.asarray(means + np.bincount(bins, deviations, many) / rows)

    def within_bin_sum(self, schema: Schema, column: int, numbers: Floats) -> tuple[float, float]:
        r"""Estimate the sum over rows of each number's deviation from the middle of its learned bin, and its noise.

        Signed counts are a least-squares estimate. With d the deviations, X the sums of cells that were counted, and
        :math:`\sigma` the noise of a count, the variance is :math:`\sigma^2 d^\top (X^\top X)^{-1} d`. The estimate
        from counts of 0, and d in place of the finest counts, is :math:`(X^\top X)^{-1} d`.
        """
        levels, noise_std = self._hierarchies.get(column, ([], 0.0))
        line = schema.columns[column]
        if not levels or not isinstance(line, BinnedColumn):
            return 0.0, 0.0
        bins = line.finest.regroup(line)[: len(numbers)]
        deviations = numbers - (np.bincount(bins, numbers) / np.bincount(bins))[bins]
        inverse = least_squares_counts([*(np.zeros(len(level)) for level in levels[:-1]), deviations], noise_std)
        variance = noise_std**2 * float(deviations @ inverse)
        return float(least_squares_counts(levels, noise_std) @ deviations), float(np.sqrt(max(0.0, variance)))

    def nonnegative(self, schema: Schema) -> Measurements:
        """Return the same tables with nonnegative counts in the bin hierarchy, as replicates have them."""
        cells = self.within_bin_counts(schema, follow_noise=True)
        hierarchies = [
            Measurement((column,), counts, noise_std)
            for column, (levels, noise_std) in self._hierarchies.items()
            for counts in level_counts(cells[schema.names[column]], levels)
        ]
        return replace(self, bin_hierarchy=tuple(hierarchies))

    @property
    def _hierarchies(self) -> dict[int, tuple[list[Floats], float]]:
        """The counts of all levels, which have the same noise, and its standard deviation; by column."""
        found: dict[int, tuple[list[Floats], float]] = {}
        for level in self.bin_hierarchy:
            levels, _ = found.setdefault(level.columns[0], ([], level.noise_std))
            levels.append(level.counts)
        return found

    def resampled(self, rng: np.random.Generator) -> Measurements:
        """Return these tables with noise of the same size added again."""
        return self._with_noise([table.counts for table in self._released], rng)

    def measure_rows(self, codes: NDArray[np.integer], schema: Schema, rng: np.random.Generator) -> Measurements:
        """Return the tables that might have been released for other rows: their counts with fresh noise.

        All rows must be counted. Values within learned bins are drawn from the released counts.
        """
        tables = [codes[:, table.columns].astype(np.int64) for table in self.tables]
        for table, node in zip(tables, self.nodes, strict=False):
            for axis, merged in enumerate(node.merged):
                table[:, axis] = merged[table[:, axis]]
        counts = [_count(rows, table.counts.shape) for rows, table in zip(tables, self.tables, strict=True)]
        counts += [np.array(float(len(codes)))] * len(self.rows)
        within_bins = self.within_bin_counts(schema, follow_noise=True)
        finest = [codes[:, column].astype(np.int64) for column in range(codes.shape[1])]
        drawn_cells = {}
        for name, within in within_bins.items():
            (column,), line = schema.positions([name]), schema[name]
            assert isinstance(line, BinnedColumn)  # noqa: S101 for mypy: others have no bins
            has_value = codes[:, column] < line.values_size
            drawn = line.draw_cells(within, codes[has_value, column], rng.random(np.count_nonzero(has_value)))
            finest[column] += line.finest.values_size - line.values_size  # *not applicable* and gap states
            finest[column][has_value] = drawn
            drawn_cells[column] = np.bincount(drawn, minlength=line.finest.values_size).astype(np.float64)
        for column, (levels, _) in self._hierarchies.items():
            counts += level_counts(drawn_cells[column], levels)
        counts += [heap_counts(schema.columns[h.columns[0]], drawn_cells[h.columns[0]]) for h in self.heaps]
        if self.products:
            vectors = [_row_features(self.features[c], schema, c, finest[c], within_bins) for c in range(len(finest))]
            counts += [vectors[a].T @ vectors[b] for a, b in (product.columns for product in self.products)]
            counts += [np.array(float(len(codes)))] * len(self.pair_rows)
        return self._with_noise(counts, rng)

    def _with_noise(self, counts: Sequence[Floats], rng: np.random.Generator) -> Measurements:
        """Return the tables with these counts, and fresh noise on them."""
        noise = [rng.normal(0.0, old.noise_std, np.shape(old.counts)) for old in self._released]
        return self._with_counts([known + noisy for known, noisy in zip(counts, noise, strict=True)])

    def with_numbers(self, numbers: Floats) -> Measurements:
        """Return the tables with other counts, in the order of `numbers`."""
        ends = np.cumsum([table.counts.size for table in self._released])
        parts = np.split(numbers, ends)
        if len(parts.pop()):
            raise ValueError("more numbers than these tables have")
        return self._with_counts([part.reshape(t.counts.shape) for part, t in zip(parts, self._released, strict=True)])

    @property
    def numbers(self) -> Floats:
        """The counts of all tables, in one row."""
        return np.concatenate([np.ravel(table.counts) for table in self._released])

    def _with_counts(self, counts: Sequence[Floats]) -> Measurements:
        pairs = zip(self._released, counts, strict=True)
        remaining = iter([Measurement(old.columns, new, old.noise_std) for old, new in pairs])
        changed: dict[str, Any] = {f: tuple(islice(remaining, len(getattr(self, f)))) for f in RELEASED}
        return replace(self, **changed)

    @property
    def _released(self) -> tuple[Measurement, ...]:
        return tuple(measured for field in RELEASED for measured in getattr(self, field))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        many = [*(len(getattr(self, field)) for field in RELEASED), len(self.nodes), len(self.features)]
        facts = [self.extended, self.same_rows, self.cap_cells, *many]
        arrays: dict[str, NDArray[Any]] = {"kind": np.array(self.kind), "facts": np.array(facts, dtype=np.int64)}
        for number, table in enumerate(self._released):
            arrays[f"columns.{number}"] = np.array(table.columns, dtype=np.int64)
            arrays[f"counts.{number}"] = table.counts
            arrays[f"noise_std.{number}"] = np.array(table.noise_std)
        for number, node in enumerate(self.nodes):
            arrays |= {f"merged.{number}.{axis}": codes for axis, codes in enumerate(node.merged)}
        for number, features in enumerate(self.features):
            arrays[f"features.{number}"] = features.vectors
            if features.groups is not None:
                arrays[f"groups.{number}"] = features.groups
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Measurements:
        """Rebuild the measurements from the arrays of a model file."""
        extended, same_rows, cap_cells, *many, nodes, features = arrays["facts"].tolist()
        measured = [
            Measurement(
                tuple(arrays[f"columns.{number}"].tolist()),
                arrays[f"counts.{number}"].astype(np.float64),
                float(arrays[f"noise_std.{number}"]),
            )
            for number in range(sum(many))
        ]
        families = [
            (columns[-1], columns[:-1], tuple(arrays[f"merged.{number}.{axis}"] for axis in range(len(columns) - 1)))
            for number, columns in enumerate(table.columns for table in measured[:nodes])
        ]
        remaining = iter(measured)
        return cls(
            kind=str(arrays["kind"]),
            features=tuple(
                FeatureMap(arrays[f"features.{number}"], arrays.get(f"groups.{number}")) for number in range(features)
            ),
            **{field: tuple(islice(remaining, length)) for field, length in zip(RELEASED, many, strict=True)},
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
    """Return the noise in each cell of every measured marginal; repeated measurements are combined."""
    precision: dict[Marginal, float] = {}
    for measurement in measurements:
        precision[measurement.columns] = precision.get(measurement.columns, 0.0) + measurement.noise_std**-2
    return {columns: known**-0.5 for columns, known in precision.items()}


# ---------------------------------------------------------------------- how each kind of model is learned


def _product(measurements: Measurements, schema: Schema, _: LearnOptions) -> LearnedModel:
    """Learn a product of one-way marginals."""
    observed, total = [column.size for column in schema.columns], measurements.total
    filled, gapped = ([np.ones(size) for size in sizes] for sizes in (observed, measurements.sizes(schema)))
    for table in measurements.tables:
        (place,) = table.columns
        shown = table.counts[: observed[place]]
        filled[place] = project_to_simplex(shown, 1.0 if (n := shown.sum()) <= 0 else n)
        gapped[place] = project_to_simplex(table.counts, max(total, 1.0))
    return LearnedModel(
        Product(tuple(cells / cells.sum() for cells in filled)),
        Product(tuple(cells / cells.sum() for cells in gapped)) if measurements.extended else None,
        total,
    )


def _graphical(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """Fit a graphical model on a junction tree, with constraints as structural zeros, and complete the gaps."""
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
            cap_cells=MAX_JUNCTION_TREE_CELLS,
        )

    def complete(model: GraphicalModel, rules: Sequence[ForbiddenCells]) -> LearnedModel:
        if not measurements.extended:
            return LearnedModel(model, None, total, model.unexplained)
        filled = complete_model(
            model,
            observed,
            noise_of(measurements.tables),
            zeros=[(rule.columns, rule.table) for rule in rules],
            cap_cells=MAX_JUNCTION_TREE_CELLS,
            seed=options.seed,
        )
        return LearnedModel(filled, model, total, model.unexplained)

    forbidden, between, _ = constraints_of(schema, measurements.within_bin_counts(schema))
    model = fit(forbidden)
    chosen = list(forbidden)
    for rule in between:  # the first fit decides which combinations are allowed; the second one enforces them exactly
        if prod(sizes[c] for c in rule.columns) <= measurements.cap_cells:
            probabilities = model.marginal(rule.columns)[tuple(slice(observed[c]) for c in rule.columns)]
            chosen.append(rule.forbidden_cells(probabilities))
    if len(chosen) > len(forbidden):
        with suppress(ModelError):  # rules may contradict each other; then sampling enforces them
            return complete(fit(chosen), chosen)
    return complete(model, forbidden)


def _with_gaps(rule: ForbiddenCells, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Extend a table of forbidden observed cells to all cells: a gap is never forbidden."""
    return np.pad(rule.table, [(0, sizes[c] - size) for c, size in zip(rule.columns, rule.table.shape, strict=True)])


def _network(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """Make the tables nonnegative and consistent, then estimate each column's distribution given its parents."""
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
    joint = 0 if start is None else joint_start_size(sizes, families, measurements.cap_cells)

    def network(sizes: Sequence[int], nodes: Sequence[Node], start: GraphicalModel | None) -> BayesianNetwork:
        found = BayesianNetwork(sizes, nodes, map(conditional, tables))
        return found if start is None else JointStartNetwork(found, start, joint)

    whole = network(sizes, nodes, start)
    if not measurements.extended:
        return LearnedModel(whole, None, total)
    nodes = [node.cut(observed) for node in nodes]
    tables = [
        complete_table(table, (*node.shape, observed[node.column])) for node, table in zip(nodes, tables, strict=True)
    ]
    if start is not None:
        columns = {node.column for node in nodes[:joint]}
        kept = [place for place, node in enumerate(measurements.nodes) if node.column in columns]
        axes = Axes(observed, [measurements.nodes[place].cut(observed) for place in kept])
        known = {tuple(sorted(key)): noise[place] for key, place in zip(axes.tables, kept, strict=True)}
        start = complete_model(
            start,
            axes.sizes,
            known,
            zeros=axes.structural_zeros,
            cap_cells=MAX_JUNCTION_TREE_CELLS,
            seed=options.seed,
        )
    return LearnedModel(network(observed, nodes, start), whole, total)


def _mixture(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """Fit a mixture of products; forbidden combinations of two columns become targets."""
    forbidden, _, _ = constraints_of(schema)
    found = fit_mixture(
        measurements.sizes(schema),
        measurements.scaled_tables,
        observed=[column.size for column in schema.columns],
        total=measurements.total,
        zeros=[(rule.columns, rule.table) for rule in forbidden if len(rule.columns) == 2],
        follow_noise=options.follow_noise,
        start=cast("tuple[MixtureModel, MixtureModel | None] | None", options.start and options.start[:2]),
        loose_gap_rates=options.loose_gap_rates,
        seed=options.seed,
        progress=options.progress,
    )
    return LearnedModel(*found)


def _row_features(
    features: FeatureMap, schema: Schema, column: int, finest: NDArray[np.int64], cell_counts: Mapping[str, Floats]
) -> Floats:
    """The features of rows; where only the bin of a value is known, their mean in the bin."""
    line = schema.columns[column]
    if len(features.vectors) == line.extended_size or line.name in cell_counts:
        return features.vectors[finest] / FEATURE_LENGTH
    even = np.full(line.extended_size, 1 / line.extended_size)
    return mean_features(schema, column, even, cell_counts, features.vectors)[finest]


def _factors(measurements: Measurements, schema: Schema, options: LearnOptions) -> LearnedModel:
    """Fit latent factors to one-way tables and feature products, with forbidden combinations as targets.

    The first fit decides which combinations a rule between rows allows; a second one has the others as targets too.
    """
    total = max(1.0, measurements.total)
    cell_counts = measurements.within_bin_counts(schema, follow_noise=options.follow_noise)
    sizes = measurements.sizes(schema)
    tables = {table.columns[0]: table for table in measurements.scaled_tables}
    forbidden, between, _ = constraints_of(schema, cell_counts)
    never = {rule.columns[0]: np.flatnonzero(rule.table) for rule in forbidden if len(rule.columns) == 1}
    columns = []
    for place, (column, features) in enumerate(zip(schema.columns, measurements.features, strict=True)):
        shares, noise_std = np.full(sizes[place], 1 / sizes[place]), np.full(sizes[place], 1.0)
        if place in tables:
            counts = tables[place].counts.copy()
            counts[never.get(place, [])] = -total  # share 0
            shares = positive_shares(counts, total)
            noise_std = np.full(sizes[place], tables[place].noise_std / total)
        columns.append(
            ColumnTarget(
                shares,
                noise_std,
                mean_features(schema, place, shares, cell_counts, features.vectors),
                gaps=sizes[place] - column.size,
                order=value_order(column),
                groups=features.groups,
            )
        )
    rows = [total] * len(measurements.products)
    if measurements.pair_rows:
        rows = [max(1.0, float(known.counts), known.noise_std) for known in measurements.pair_rows]
    products = {
        product.columns: (product.counts / known, product.noise_std / known)
        for product, known in zip(measurements.products, rows, strict=True)
    }
    gap_ridge = GAP_RIDGE
    # With a fixed ridge, gap rates explain all of precise products, so that copies are biased. Rows keep it: they are
    # better with a scaled one on Adult with gaps completely at random, but worse on SLID (bench/relations.py).
    if options.follow_noise and products:
        gap_ridge = max(GAP_RIDGE, FOLLOW_GAP_RIDGE * float(np.mean([std**-2.0 for _, std in products.values()])))

    def fit(zeros: Sequence[ForbiddenCells], start: WarmStart | None) -> FactorsFit:
        return fit_factors(
            columns,
            products,
            ridge=ridge_for(columns) * (FOLLOW_RIDGE if options.follow_noise else 1.0),
            gap_ridge=gap_ridge * (LOOSE_GAP_RIDGE if options.loose_gap_rates else 1.0),
            zeros=[(rule.columns, rule.table) for rule in zeros],
            start=start,
            steps=(COPY_STEPS if start else FOLLOW_STEPS) if options.follow_noise else RULE_STEPS if start else STEPS,
            seed=options.seed,
        )

    def model(found: FactorsFit) -> MixtureModel:
        observed = [column.features[: column.values] for column in columns]
        return MixtureModel([cells.T for cells in found.values], features=observed)

    zeros = [rule for rule in forbidden if len(rule.columns) > 1]
    found = fit(zeros, options.start and options.start.end)
    filled = model(found)
    if chosen := [rule for rule in between if few_combinations(rule.sizes)]:
        zeros += [rule.forbidden_cells(filled.marginal(rule.columns)) for rule in chosen]
        found = fit(zeros, found.end)
        filled = model(found)
    maps = [column.features for column in columns]
    gapped = MixtureModel([cells.T for cells in found.cells], features=maps) if measurements.extended else None
    return LearnedModel(filled, gapped, total, end=found.end)


LEARNERS: dict[str, Callable[[Measurements, Schema, LearnOptions], LearnedModel]] = {
    Product.kind: _product,
    GraphicalModel.kind: _graphical,
    BayesianNetwork.kind: _network,
    MixtureModel.kind: _mixture,
    FACTORS: _factors,
}
