"""Factors: release feature products of all pairs of columns, and fit latent factors to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from gapless.constraints.forbidden import columns_of_constraints
from gapless.data import PrivateTable
from gapless.data.workload import PRODUCT_LENGTH, Views, planned_counts, planned_products
from gapless.errors import Hint, ModelError
from gapless.model.marginal import Marginal, Measurement, positive_shares
from gapless.privacy import Private, Request, Spend
from gapless.privacy.pricing import Measurable
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FEWER_CELLS, Counts, FitContext, Noise, Synthesizer
from gapless.synth.learners import FACTORS
from gapless.synth.learning import MOST_BINS, bins_for_noise, columns_to_learn, learning_share
from gapless.synth.marginal.features import FeatureMap, feature_map, merged_cells, most_features, value_order
from gapless.types import Floats

GROUP_SHARE = 1 / 3  # of the squared length of a feature vector that is for groups of values
ORDERED_WEIGHT = 2.0  # of the loss of a pair of ordered columns, relative to other pairs
COLUMNS_SHARE = (0.1, 0.3)  # of one-way tables in the loss of these and of products, at least and at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors(Synthesizer):
    """All pairs of columns by a few numbers each: keeps correlations and regressions, also in small tables.

    Three stages are charged at once: counts from which bins are learned, the one-way table of each column, and for each
    pair of columns the sum over rows of the products of their features (`gapless.synth.marginal.features`). Features of
    ordered columns are smooth functions of ranks. Then latent factors are fitted to everything that was released
    (`gapless.synth.marginal.factors_fit`).

    Guarantee: distances, noise and `reads` of all stages are fixed before the first read; values of later stages depend
    on earlier answers. If nothing was released before, all stages are priced as one Gaussian mechanism
    (docs/proofs/first_batch.md). Feature vectors have length at most 1, so products have L2 sensitivity 1
    (docs/proofs/stability.md, section 4).

    Args:
        missing: how to treat gaps.
        cap_cells: the largest matrix of all columns' features by all columns' features.
    """

    name = "factors"
    pure = False
    keeps_measurements = True

    cap_cells: int = 50_000_000

    def check(self, context: FitContext) -> None:
        """Refuse more features than the cap."""
        if not self.fits(context.schema):
            features = total_features(context.schema)
            raise ModelError(
                f"Factors.fit: {features:,} features of all columns make {features**2:,} products; "
                f"the cap is {self.cap_cells:,}",
                hint=Hint("choose another method") | FEWER_CELLS,
            )

    def fits(self, schema: Schema) -> bool:
        """Whether the features of all columns are within the cap."""
        return total_features(schema) ** 2 <= self.cap_cells

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure all stages, and fit factors to them."""
        context = FactorsContext(self, table, spend=spend, progress=progress)
        context.prepare()
        context.measure_columns()
        context.measure_products()
        learned = context.learn(
            FACTORS,
            features=tuple(context.features),
            products=tuple(context.products),
            pair_rows=tuple(context.pair_rows),
        )
        return context.fitted(
            learned,
            settings={
                "pairs": len(context.pairs),
                "features": sum(known.size for known in context.features),
                "products of features": f"counted in units of 1/{PRODUCT_LENGTH:,}",
            },
            edges=[(a, b) for a, b in context.pairs],
        )


class FactorsContext(FitContext):
    """The state of a fit of factors, whose stages are charged at once.

    They are charged with the counts for bins. If gaps are filled first or weights of constraints are learned, these are
    released in between, and one-way tables and products are charged after them.

    Attributes:
        measured_columns, pairs: the columns and the pairs of columns that are measured, by public facts.
        features: of all columns.
        products: the released products of each pair, in rows.
        pair_rows: the noisy number of rows in each pair, if rows with gaps are left out.
    """

    measured_columns: list[Marginal]
    pairs: list[Marginal]
    features: list[FeatureMap]
    products: list[Measurement]
    pair_rows: list[Measurement]
    _waiting: list[Noise]  # the noise of the planned releases that were not read yet

    def release_bins(self, requests: Sequence[tuple[Counts, str]]) -> list[Floats]:
        """Charge all stages, and release the first."""
        if self.missing.share or self._rules_to_learn:
            return super().release_bins(requests)
        self._charge_stages(requests)
        return self._release_next([value for value, _ in requests])

    def bins(self, rows: float) -> int:  # noqa: ARG002 for any number of rows
        """As many bins as there can be: the number of products does not grow with them."""
        return MOST_BINS

    def measure_columns(self) -> None:
        """Release the one-way tables and, unless every row is counted in them, the number of rows."""
        self.notify("measuring", 0, 2)
        if not hasattr(self, "pairs"):
            self._charge_stages(())
        counts = self.counts(self.measured_columns)
        if not self.extended:
            counts.append(self.table.marginal(()))
        released = self._release_next(counts)
        for marginal, known, noise in zip([*self.measured_columns, ()], released, self.noise, strict=False):
            (self.measured if marginal else self.rows).append(Measurement(marginal, known, noise.noise_std))

    def measure_products(self) -> None:
        """Release the products of features, which are functions of the one-way tables."""
        self.notify("measuring", 1, 2)
        self.features = self._feature_maps()
        finest = self.prepared.rebin(self.prepared.schema.finest)
        merged = [
            merged_cells(known.vectors, column.size, column.extended_size)
            for known, column in zip(self.features, finest.schema.columns, strict=True)
        ]
        views = Views(finest, list(enumerate(codes for codes, _ in merged)), rows=self.counted)
        values = views.feature_products(self.pairs, [vectors for _, vectors in merged], numbers=self._most_numbers)
        released = self._release_next(values)
        self.products, self.pair_rows = [], []
        for (a, b), known, noise in zip(self.pairs, released, self.noise, strict=True):
            numbers, noise_std = known / PRODUCT_LENGTH, noise.noise_std / PRODUCT_LENGTH
            shape = self.features[a].size, self.features[b].size
            self.products.append(Measurement((a, b), numbers[: shape[0] * shape[1]].reshape(shape), noise_std))
            if not self.extended:  # the last number is half the number of rows
                self.pair_rows.append(Measurement((), np.asarray(2 * numbers[-1]), 2 * noise_std))

    def structure(self) -> list[str]:
        """Return a line for each one-way table and each product, with its noise."""
        noise = {self.name(product.columns): product.noise_std for product in self.products}
        return [
            *super().structure(),
            *(f"{name}, products of features: noise std {std:.1f}" for name, std in noise.items()),
        ]

    def _charge_stages(self, bins: Sequence[tuple[Counts, str]]) -> None:
        """Plan and charge the counts for bins, the one-way tables and the products, all that is left of the grant."""
        self.measured_columns = self.one_way_marginals
        self.pairs = self.nontrivial(combinations(range(len(self.sizes)), 2))
        names = self.schema.names
        table = self.missing.prepare(self.table, self.grant) if bins else self.prepared  # free before the first charge
        columns: list[tuple[Measurable, str]] = [
            (planned_counts(table, [names[c]], rows=self.counted), names[c]) for (c,) in self.measured_columns
        ]
        if not self.extended:
            columns.append((planned_counts(self.table, [], rows=self.counted), "number of rows"))
        products = [
            planned_products(table, [names[a], names[b]], rows=self.counted, numbers=self._most_numbers)
            for a, b in self.pairs
        ]
        for_bins = learning_share(self.input_schema) if bins else 0.0
        for_columns = (1 - for_bins) * (columns_share(len(names)) if products else 1.0)
        ordered = [value_order(column) is not None for column in self.schema.columns]
        weights = np.array([ORDERED_WEIGHT if ordered[a] and ordered[b] else 1.0 for a, b in self.pairs])
        shares = [
            *np.full(len(bins), for_bins / max(1, len(bins))),
            *np.full(len(columns), for_columns / len(columns)),
            *(weights * (1 - for_bins - for_columns) / max(1.0, weights.sum())),
        ]
        values: list[Measurable] = [*(value for value, _ in (*bins, *columns)), *products]
        purposes = [*(name for _, name in (*bins, *columns))]
        purposes += [f"{self.name(pair)}, products of features" for pair in self.pairs]
        self._waiting = self.grant.noise_for(values, self.grant.left, shares=shares)
        requests = [
            Request(value.distance, value.reads, noise, what)
            for value, noise, what in zip(values, self._waiting, purposes, strict=True)
        ]
        self.plan = self.grant.charge_plan(requests, together=True)

    def _feature_maps(self) -> list[FeatureMap]:
        """The features of all columns, from released values; more groups of values where there is less noise."""
        total = max(1.0, self.total)
        noise_std = min((noise.noise_std for noise in self._waiting), default=0.0) / PRODUCT_LENGTH
        tables = {table.columns[0]: table.counts for table in self.scaled_tables}
        shares = [
            positive_shares(tables[c], total) if c in tables else np.full(size, 1 / size)
            for c, size in enumerate(self.sizes)
        ]
        usual = bins_for_noise(total, noise_std)
        learned = {column.name for column in columns_to_learn(self.input_schema)}
        # A rule between rows says which values go together: groups of several values could not tell.
        _, between = columns_of_constraints(self.schema, self.within_bin_counts)
        named = {c for columns in between for c in columns if self.schema.columns[c].values_size <= MOST_BINS}
        return [
            feature_map(
                self.schema,
                c,
                shares[c],
                self.within_bin_counts,
                groups=None if c in named else usual,
                group_share=GROUP_SHARE,
                is_learned=self.schema.names[c] in learned,
            )
            for c in range(len(self.sizes))
        ]

    @cached_property
    def _most_numbers(self) -> int:
        """A public bound on the numbers of a product, with its number of rows."""
        return max(most_features(column, MOST_BINS) for column in self.input_schema.columns) ** 2 + 1

    def _release_next(self, values: Sequence[Private[Any, Any]]) -> list[Floats]:
        """Release the next values of the plan."""
        self.noise, self._waiting = self._waiting[: len(values)], self._waiting[len(values) :]
        return [answer.value.astype(np.float64) for answer in self.plan.release_all(values)]


def columns_share(columns: int) -> float:
    """The share of one-way tables in the loss of these and of products: products are many in wide tables."""
    return float(np.clip(3 / (columns + 5), *COLUMNS_SHARE))


def total_features(schema: Schema) -> int:
    """A public bound on the number of features of all columns."""
    return sum(most_features(column, MOST_BINS) for column in schema.columns)
