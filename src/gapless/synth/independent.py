"""Independent: every column by itself. The baseline, and the pattern for all other synthesizers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gapless.data import PrivateTable
from gapless.missing import Extended, Missing
from gapless.model.marginal import Measurement, estimate_total, project_to_simplex
from gapless.model.product import Product
from gapless.privacy import Loss
from gapless.synth.facts import Facts
from gapless.synth.fitted import FittedModel, Progress, grant_for, noise_of_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """One noisy marginal for each column, columns taken as independent: the baseline.

    Guarantee: the releases are the one-way marginals and, unless every row is counted in them, the number
    of rows, each with an even share of `spend`.
    """

    missing: Missing = field(default_factory=Extended)

    def fit(self, table: PrivateTable, *, spend: Loss, progress: Progress | None = None) -> FittedModel:
        """Measure every one-way marginal with an even share of `spend`."""
        grant = grant_for(self, table, self.missing, spend)
        if progress is not None:
            progress("measuring", 0, 1)
        prepared = self.missing.prepare(table, grant)
        extended = self.missing.rows == "extended"
        columns = table.schema.columns
        sizes = [column.extended_size if extended else column.size for column in columns]
        telling = [place for place, size in enumerate(sizes) if size > 1] or [0]  # one cell tells nothing
        names = [columns[place].name for place in telling]
        counts = prepared.marginals(names, rows=self.missing.rows)
        if not extended:
            counts.append(table.marginal(()))
            names.append("number of rows")
        noise = grant.noise_for(counts, grant.left)[0]  # the same for all
        requests = [(value, noise, name) for value, name in zip(counts, names, strict=True)]
        released = grant.release_all(requests, together=True)
        measured = [
            Measurement(place, answer.value.astype(np.float64), noise.noise_std)
            for place, answer in zip([*((c,) for c in telling), ()], released, strict=False)
        ]
        # Where every row is counted each marginal tells the number of rows; else only the last does.
        rows = measured if extended else [measured.pop()]
        total = estimate_total(rows)
        filled, gapped = ([np.ones(size) for size in sizes] for sizes in ([c.size for c in columns], sizes))
        for marginal in measured:
            (place,) = marginal.columns
            shown = marginal.counts[: columns[place].size]
            filled[place] = project_to_simplex(shown, 1.0 if (n := shown.sum()) <= 0 else n)
            gapped[place] = project_to_simplex(marginal.counts, max(total, 1.0))
        return FittedModel(
            table.schema,
            Product(tuple(law / law.sum() for law in filled)),
            Product(tuple(law / law.sum() for law in gapped)) if extended else None,
            total,
            Facts(
                method="independent",
                guarantee=table.ledger.guarantee(),
                settings={
                    "missing": repr(self.missing),
                    "noise": f"{type(noise).__name__}, std {noise.noise_std:.4g}",
                },
                noise=noise_of_columns(
                    table.schema.names,
                    measured if extended else [marginal.scaled_to(max(total, 1.0)) for marginal in measured],
                ),
            ),
        )
