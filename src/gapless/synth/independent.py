"""Independent: every column by itself. The baseline, and the pattern for all other synthesizers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gapless.data import PrivateTable
from gapless.missing import Extended, Missing
from gapless.model.marginal import Measurement, estimate_total, project_to_simplex
from gapless.model.product import Product
from gapless.privacy import Loss, for_counts
from gapless.synth.fitted import FittedModel, Progress, grant_for, noise_of_columns


class IndependentModel(FittedModel):
    """One distribution for each column."""

    method: ClassVar[str] = "independent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """One noisy marginal for each column, columns taken as independent: the baseline.

    Guarantee: the releases are the one-way marginals and, unless every row is counted in them, the number
    of rows, each with an even share of `spend`.
    """

    missing: Missing = field(default_factory=Extended)

    def fit(self, table: PrivateTable, *, spend: Loss, progress: Progress | None = None) -> IndependentModel:
        """Measure every one-way marginal with an even share of `spend`."""
        grant = grant_for(self, table, self.missing, spend)
        if progress is not None:
            progress("measuring", 0, 1)
        prepared = self.missing.prepare(table, grant)
        extended = self.missing.rows == "extended"
        columns = table.schema.columns
        counts = prepared.marginals([column.name for column in columns], rows=self.missing.rows)
        names = [column.name for column in columns]
        if not extended:
            counts.append(table.marginal(()))
            names.append("number of rows")
        noise = for_counts(grant.even(counts, grant.left), counts[0].distance)
        released = grant.release_all([(value, noise, name) for value, name in zip(counts, names, strict=True)])
        measured = [
            Measurement((i,) if i < len(columns) else (), one.value.astype(np.float64), noise.noise_std)
            for i, one in enumerate(released)
        ]
        # Where every row is counted each marginal tells the number of rows; else only the last does.
        total = estimate_total(measured if extended else measured[-1:])
        filled = [
            project_to_simplex(one.counts[: column.size], 1.0 if (n := one.counts[: column.size].sum()) <= 0 else n)
            for one, column in zip(measured, columns, strict=False)
        ]
        gapped = [project_to_simplex(one.counts, max(total, 1.0)) for one in measured] if extended else None
        return IndependentModel(
            table.schema,
            Product(tuple(one / one.sum() for one in filled)),
            Product(tuple(one / one.sum() for one in gapped)) if gapped else None,
            total,
            {
                "settings": {
                    "missing": repr(self.missing),
                    "noise": f"{type(noise).__name__}, std {noise.noise_std:.4g}",
                },
                "noise": noise_of_columns(
                    names, measured if extended else [one.scaled_to(max(total, 1.0)) for one in measured[:-1]]
                ),
                "guarantee": str(table.ledger.guarantee()),
            },
        )
