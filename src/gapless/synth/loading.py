"""Loading of model files, which may be damaged or hostile: all parts are checked before the model is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gapless.data.workload import FEATURE_LENGTH
from gapless.errors import GaplessError, ModelError
from gapless.model import archive
from gapless.model.distribution import Distribution, Product
from gapless.model.graphical import GraphicalModel
from gapless.model.junction import cells
from gapless.schema import Schema
from gapless.schema.columns import Column
from gapless.synth.fitted import DAMAGED, FittedModel
from gapless.synth.learners import FACTORS, LEARNERS
from gapless.synth.marginal.bayesian_network import BayesianNetwork
from gapless.synth.marginal.features import FeatureMap, rank_order
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.synth.measurements import MOST_CELLS, RELEASED, Measurements

LARGEST = 2.0**53  # count or noise; whole numbers up to here are exact
TRIED_ROWS = 16  # sampled to test a distribution


def load(path: str | Path) -> FittedModel:
    """Read a model from a file that `model.save` wrote, or from a release folder."""
    path = Path(path)
    head, arrays = archive.load(path / archive.MODEL if path.is_dir() else path)
    try:
        model = FittedModel.from_file(head, arrays)
        _check(model)
    except GaplessError as error:  # its hint is for those who make a model, not for readers of a file
        raise type(error)(f"{path} is damaged: {error.message}", hint=DAMAGED) from None
    except Exception:  # noqa: BLE001 parts that do not fit together fail in many ways
        raise ModelError(f"{path} is damaged: its parts do not fit together", hint=DAMAGED) from None
    return model


def _check(model: FittedModel) -> None:
    """Refuse a model whose parts do not match its schema, or that cannot be sampled."""
    columns = model.schema.columns
    _require(type(model.total) in (int, float) and abs(model.total) <= LARGEST)
    _require(all(0 <= place < len(columns) for edge in model.facts.edges for place in edge))
    for distribution in (model.filled, model.gapped):
        if distribution is not None:
            sizes = (c.size if distribution is model.filled else c.extended_size for c in columns)
            _check_distribution(distribution, tuple(sizes))
    for name, counts in model.within_bin_counts.items():
        _require(counts.shape == (model.schema.finest[name].values_size,) and bool((counts >= 0).all()))
    if model.measurements is not None:
        _check_measurements(model.measurements, model.schema)
    if model.critic is not None:
        model.critic.log_odds(np.array([[column.size - 1 for column in columns]]))


def _check_distribution(distribution: Distribution, sizes: tuple[int, ...]) -> None:
    _require(getattr(distribution, "sizes", sizes) == sizes)  # a distribution need not have them
    if isinstance(distribution, GraphicalModel):
        _require(cells(sizes, distribution.potentials) <= MOST_CELLS)
    if isinstance(distribution, Product | MixtureModel | BayesianNetwork):
        _require(all((table >= 0).all() and (table.sum(axis=-1) > 0).all() for table in distribution.probabilities))
    if isinstance(distribution, MixtureModel) and distribution.features is not None:
        _require(tuple(len(vectors) for vectors in distribution.features) == sizes)
        _require(all(vectors.ndim == 2 and (np.abs(vectors) <= 1).all() for vectors in distribution.features))
        _require(sum(vectors.shape[1] for vectors in distribution.features) ** 2 <= MOST_CELLS)
    drawn = distribution.sample(TRIED_ROWS, np.random.default_rng(0))
    _require(drawn.shape == (TRIED_ROWS, len(sizes)) and bool((drawn < np.array(sizes)).all()))


def _check_measurements(measurements: Measurements, schema: Schema) -> None:
    """Refuse tables from which copies cannot be learned: each must have the cells of its columns, or of its node."""
    sizes = measurements.sizes(schema)
    _require(measurements.kind in LEARNERS)
    for measured in (measured for field in RELEASED for measured in getattr(measurements, field)):
        _require(1 / LARGEST <= measured.noise_std <= LARGEST and bool((np.abs(measured.counts) <= LARGEST).all()))
        _require(len(set(measured.columns)) == len(measured.columns) <= len(sizes))
        _require(all(0 <= column < len(sizes) for column in measured.columns))
    for place, table in enumerate(measurements.tables):
        _require(measurements.kind != MixtureModel.kind or 1 <= len(table.columns) <= 2)
        shape = [sizes[column] for column in table.columns]
        if place < len(measurements.nodes):
            node = measurements.nodes[place]
            _require([len(codes) for codes in node.merged] == [sizes[parent] for parent in node.parents])
            shape = [*node.shape, sizes[node.column]]
        _require(table.counts.shape == tuple(shape))
    totals = (*measurements.rows, *measurements.pair_rows)
    _require(all(table.counts.shape == () and table.columns == () for table in totals))
    for heaps in measurements.heaps:
        (place,) = heaps.columns
        _require(heaps.counts.shape == (len(getattr(schema.columns[place], "heaping", ())) + 1,))
    measurements.within_bin_counts(schema)
    _check_features(measurements, schema)


def _check_features(measurements: Measurements, schema: Schema) -> None:
    """Refuse feature products that do not match the features of their columns. Only factors have features."""
    features, products = measurements.features, measurements.products
    _require(measurements.kind == FACTORS or not (features or products or measurements.pair_rows))
    if measurements.kind != FACTORS:
        return
    _require(len({table.columns for table in measurements.tables}) == len(measurements.tables))
    _require(all(len(table.columns) == 1 for table in measurements.tables))
    finest = schema.finest.columns
    learned = {level.columns[0] for level in measurements.bin_hierarchy}
    for place, (known, column, line) in enumerate(zip(features, schema.columns, finest, strict=True)):
        cells = line.extended_size if measurements.extended else line.size
        _check_feature_map(known, column, cells, is_learned=place in learned)
    _require(sum(known.size for known in features) ** 2 <= MOST_CELLS)
    _require(len({frozenset(product.columns) for product in products}) == len(products))
    for product in products:
        _require(len(product.columns) == 2)
        _require(product.counts.shape == tuple(features[column].size for column in product.columns))
    _require(len(measurements.pair_rows) == (0 if measurements.extended else len(products)))


def _check_feature_map(features: FeatureMap, column: Column, cells: int, *, is_learned: bool) -> None:
    """Refuse vectors that are too long, 0 or not one for each finest cell, and groups that have no features."""
    vectors, groups, others = features.vectors, features.groups, cells - getattr(column, "finest", column).values_size
    _require(vectors.dtype.kind == "i" and vectors.ndim == 2 and len(vectors) == cells and vectors.shape[1] > others)
    _require(bool((np.abs(vectors.astype(np.float64)) <= FEATURE_LENGTH).all()))
    squares = (vectors.astype(np.int64) ** 2).sum(axis=1)
    _require(bool(((squares > 0) & (squares <= FEATURE_LENGTH**2)).all()))
    _require((groups is None) == (rank_order(column, is_learned=is_learned) is None))
    if groups is not None:
        _require(groups.dtype.kind == "i" and groups.shape in ((0,), (column.values_size,)))
        _require(bool(((groups >= 0) & (groups < vectors.shape[1] - 2 - others)).all()))


def _require(fits: bool) -> None:  # noqa: FBT001 an assertion
    if not fits:
        raise ValueError
