"""Independent: one noisy marginal per column. The baseline, and the synthesizer to read first."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.data import PrivateTable
from gapless.model.distribution import Product
from gapless.privacy import Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent(Synthesizer):
    """A product of noisy one-way marginals: columns are modelled as independent.

    Guarantee: one batch, fixed in advance, of all one-way marginals and, unless every row is counted in them, the
    number of rows. Each has an equal share of `spend`.

    Args:
        missing: how to treat gaps.
    """

    name = "independent"
    keeps_measurements = True

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure every one-way marginal with an equal share of `spend`."""
        context = FitContext(self, table, spend=spend, progress=progress)
        context.notify("measuring", 0, 1)
        context.measure(context.one_way_marginals, context.prepare(), together=True)
        noise = context.noise[0]
        settings = {"noise": f"{type(noise).__name__}, std {noise.noise_std:.4g}"}
        return context.fitted(context.learn(Product.kind), settings=settings, structure=())
