"""Independent: every column by itself. The baseline, and the pattern for all other synthesizers."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.data import PrivateTable
from gapless.model.distribution import Product
from gapless.privacy import Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent(Synthesizer):
    """One noisy marginal for each column, columns taken as independent: the baseline.

    Guarantee: the releases are the one-way marginals and, unless every row is counted in them, the number
    of rows, each with an even share of `spend`, in one batch fixed in advance.

    Args:
        missing: what to do about gaps.
    """

    name = "independent"
    keeps_tables = True

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure every one-way marginal with an even share of `spend`."""
        fitting = FitContext(self, table, spend=spend, progress=progress)
        fitting.notify("measuring", 0, 1)
        fitting.measure(fitting.columns, fitting.prepare(), together=True)
        noise = fitting.noise[0]
        settings = {"noise": f"{type(noise).__name__}, std {noise.noise_std:.4g}"}
        return fitting.fitted(fitting.learn(Product.kind), settings=settings, structure=())
