"""How each kind of model is learned from released noisy tables.

A learner is a function of the tables, the schema and options, and it reads nothing else. It has an entry in `LEARNERS`;
`Measurements.learn` calls it by the kind of the tables. So rows and copies are learned by the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.compatible import ForbiddenCells
from gapless.constraints.forbidden import constraints_of
from gapless.errors import ModelError
from gapless.model.completion import complete_model, complete_table
from gapless.model.distribution import Distribution, Product
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Marginal, Measurement, estimate_total, positive_shares, project_to_simplex
from gapless.schema import Schema
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
from gapless.synth.marginal.features import mean_features, value_order
from gapless.synth.marginal.mixture_fit import fit_mixture
from gapless.synth.marginal.mixture_model import MixtureModel

if TYPE_CHECKING:
    from gapless.synth.measurements import Measurements  # it learns by `LEARNERS`

MAX_JUNCTION_TREE_CELLS = 20_000_000  # of a junction tree that can be fitted; selection stays far below
Progress = Callable[[int, int], object]  # called with how much is done, and of how much

FOLLOW_RIDGE = 0.1  # of a model of factors that follows noise, relative to the usual ridge
FOLLOW_GAP_RIDGE = 0.03  # of gap rates in such a model, relative to the mean precision of products, as shares of rows
FOLLOW_STEPS = 1000  # of such a model from a cold start: a move that it still lacks would look like one by noise
COPY_STEPS = 200  # from that model, which copies start with: fewer, and they would vary by less than noise does
RULE_STEPS = 300  # of a second fit for rows, with combinations that the first one shows to be forbidden
LOOSE_GAP_RIDGE = 0.1  # of gap rates that are less restricted, relative to the usual ridge
FACTORS = "factors"  # a kind of learner; its distributions are mixtures


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


def noise_of(measurements: Iterable[Measurement]) -> dict[Marginal, float]:
    """Return the noise in each cell of every measured marginal; repeated measurements are combined."""
    precision: dict[Marginal, float] = {}
    for measurement in measurements:
        precision[measurement.columns] = precision.get(measurement.columns, 0.0) + measurement.noise_std**-2
    return {columns: known**-0.5 for columns, known in precision.items()}


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
