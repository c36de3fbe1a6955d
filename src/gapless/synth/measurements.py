"""Released noisy tables: what they say of columns, and the tables that might have been released in their place.

Learning is a function of released values, so it is free and can be repeated with other tables that might have been
released. `Measurements.resampled` adds noise of the same size to the tables. `Measurements.measure_rows` counts other
rows and adds noise to these counts. A fit and its repetitions (`gapless.synth.copies`) share the same code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.data.workload import FEATURE_LENGTH
from gapless.model.marginal import Measurement, estimate_total, marginalize, project_to_simplex
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.learners import LEARNERS, MAX_JUNCTION_TREE_CELLS, LearnedModel, LearnOptions, Progress
from gapless.synth.learning import least_squares_counts, level_counts, nonnegative_counts
from gapless.synth.marginal.bayesian_network import Node, joint_start_size
from gapless.synth.marginal.features import FeatureMap, mean_features
from gapless.synth.within_bins import edges_of_cells, heap_counts, spread, with_heaps
from gapless.types import Floats

MOST_CELLS = 1 << 28  # of a junction tree that a model file may ask for: two gigabytes
RELEASED = (
    "tables",
    "rows",
    "bin_hierarchy",
    "heaps",
    "products",
    "pair_rows",
)  # the fields of `Measurements` with noise


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
        return estimate_total(self._counts_of_rows)

    @property
    def total_std(self) -> float:
        """The standard deviation of the noise in `total`; infinite if nothing gives it."""
        precision = sum(1 / (table.counts.size * table.noise_std**2) for table in self._counts_of_rows)
        return precision**-0.5 if precision else float("inf")

    @property
    def _counts_of_rows(self) -> tuple[Measurement, ...]:
        return (*self.rows, *self.tables) if self.extended else self.rows

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
        ordered = sorted(found, key=len, reverse=True)
        largest = {length: place for place, length in reversed(list(enumerate(map(len, ordered))))}
        return [
            columns | constant
            for columns in ordered
            if not any(columns < larger for larger in ordered[: largest[len(columns)]])
        ]

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

    def observed_rows(self, schema: Schema, column: int, other: int, cells: Iterable[int]) -> tuple[float, float]:
        """Estimate in how many rows a column is observed, of those with one of these cells in another column.

        With feature products whole groups of values are counted, so the estimate is an upper bound.

        Returns:
            The number and the standard deviation of its noise; infinity and 0 if it was not measured, or if one of the
            cells of a product is *not applicable*.
        """
        sizes, chosen = self.sizes(schema), sorted(cells)
        if not chosen or not self.extended:
            return np.inf, 0.0
        count, precision = 0.0, 0.0
        for table in self.tables:
            shape = dict(zip(table.columns, table.counts.shape, strict=True))
            if all(shape.get(place) == sizes[place] for place in (column, other)):
                pair = marginalize(table.counts, table.columns, (column, other))[: schema.columns[column].size, chosen]
                weight = 1 / (table.noise_std**2 * pair.size * table.counts.size / (sizes[column] * sizes[other]))
                count, precision = count + weight * float(pair.sum()), precision + weight
        for product in self.products:
            if {column, other} == set(product.columns):
                return self._observed_rows_by_features(schema, product, column, other, chosen)
        return (count / precision, precision**-0.5) if precision else (np.inf, 0.0)

    def _observed_rows_by_features(
        self, schema: Schema, product: Measurement, column: int, other: int, cells: Sequence[int]
    ) -> tuple[float, float]:
        """The same from products of features: all rows in the groups of these cells, less those with a gap."""
        features, line = self.features[other], schema.columns[other]
        gaps = self.sizes(schema)[column] - schema.columns[column].size
        counts, noise_std = self.column_counts(schema, other)
        if max(cells) >= line.values_size:
            return np.inf, 0.0
        if features.groups is None:
            counted, axes, unit = np.isin(np.arange(line.values_size), cells), np.array(cells), 1.0
        elif features.groups.size:
            groups = np.unique(features.groups[cells])
            counted, axes = np.isin(features.groups, groups), 2 + groups
            unit = features.vectors[:, 2:].max() / FEATURE_LENGTH
        else:
            return np.inf, 0.0
        matrix = product.counts if product.columns == (column, other) else product.counts.T
        missing = matrix[len(matrix) - gaps :, axes].sum() / unit
        rows = counts[: line.values_size][counted].sum() - missing
        noise = np.hypot(noise_std * np.sqrt(counted.sum()), product.noise_std * np.sqrt(gaps * len(axes)) / unit)
        return float(rows), float(noise)

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

    def levels_of(self, column: int) -> tuple[tuple[Floats, ...], float]:
        """Return the counts of each level of a column's bin hierarchy, if its bins were learned, and their noise."""
        levels, noise_std = self._hierarchies.get(column, ([], 0.0))
        return tuple(levels), noise_std

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


def _row_features(
    features: FeatureMap, schema: Schema, column: int, finest: NDArray[np.int64], cell_counts: Mapping[str, Floats]
) -> Floats:
    """The features of rows; where only the bin of a value is known, their mean in the bin."""
    line = schema.columns[column]
    if len(features.vectors) == line.extended_size or line.name in cell_counts:
        return features.vectors[finest] / FEATURE_LENGTH
    even = np.full(line.extended_size, 1 / line.extended_size)
    return mean_features(schema, column, even, cell_counts, features.vectors)[finest]
