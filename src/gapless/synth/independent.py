"""Independent: every column by itself. The baseline, and the pattern for all other synthesizers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.data import PrivateTable
from gapless.model.marginal import project_to_simplex
from gapless.model.product import Product
from gapless.privacy import Loss
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Fitting, Synthesizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent(Synthesizer):
    """One noisy marginal for each column, columns taken as independent: the baseline.

    Guarantee: the releases are the one-way marginals and, unless every row is counted in them, the number
    of rows, each with an even share of `spend`, in one batch fixed in advance.

    Args:
        missing: what to do about gaps.
    """

    name = "independent"

    def fit(self, table: PrivateTable, *, spend: Loss, progress: Progress | None = None) -> FittedModel:
        """Measure every one-way marginal with an even share of `spend`."""
        fitting = Fitting(self, table, spend=spend, progress=progress)
        fitting.tell("measuring", 0, 1)
        measured = fitting.measure(fitting.columns, fitting.prepare(), together=True)
        observed = [column.size for column in fitting.schema.columns]
        filled, gapped = ([np.ones(size) for size in sizes] for sizes in (observed, fitting.sizes))
        for marginal in measured:
            (place,) = marginal.columns
            shown = marginal.counts[: observed[place]]
            filled[place] = project_to_simplex(shown, 1.0 if (n := shown.sum()) <= 0 else n)
            gapped[place] = project_to_simplex(marginal.counts, max(fitting.total, 1.0))
        noise = fitting.noise[0]
        return fitting.fitted(
            Product(tuple(law / law.sum() for law in filled)),
            Product(tuple(law / law.sum() for law in gapped)) if fitting.extended else None,
            settings={"noise": f"{type(noise).__name__}, std {noise.noise_std:.4g}"},
        )
