"""Critic weights: what the critic of a generative network says of its rows, for free ([IW] §3.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.data import Table
from gapless.data.checks import check_comparable, check_public
from gapless.errors import ModelError
from gapless.synth import FittedModel
from gapless.weights.raking import keep_columns
from gapless.weights.weights import Weights


@dataclass(frozen=True, slots=True)
class CriticWeights:
    """The odds between private and made rows by the critic that a model carries: free, as the critic was paid for.

    A model carries its critic only if noise protects the critic itself: `DPGAN`, `DPCGAN`, `DPCTGAN`, `DPautoGAN` and
    `MisGAN` as they are here, the student of `PATEGAN`. A critic that saw rows as they are must not be used, however
    private the rows that came of it: those of `MisGAN(noised="generators")`, and teachers, are never handed out. How
    the critic's numbers become odds: `gapless.synth.adversarial.critic`. Columns by themselves, which the model knows
    from tables of their own, are then brought back to what they were.

    Guarantee: a function of the model and of public rows; nothing is released.

    Args:
        model: a fitted model that carries its critic.
    """

    model: FittedModel

    def fit(self, fake: Table) -> Weights:
        """Weights for the rows of `fake`, a sample of the model."""
        if not isinstance(self.model, FittedModel):
            raise ModelError(f"a {type(self.model).__name__} is no fitted model", hint="MisGAN().fit(…)")
        critic = self.model.critic
        if critic is None and len(self.model.schema.columns) == 1:
            raise ModelError(
                f"this model by {self.model.method} has one column, and critics compare pairs",
                hint="no weights: a column by itself is as it was measured",
            )
        if critic is None:
            raise ModelError(
                f"this model by {self.model.method} carries no critic that was paid for",
                hint="a model whose critic gets the noise, such as dpgan; LogisticWeights, for a part of the budget",
            )
        check_public(fake, "CriticWeights.fit weights", private="a public table, such as a sample")
        if not fake.rows:
            raise ModelError("CriticWeights.fit: there are no rows to weight", hint="a table with rows")
        fake = fake.told_by(self.model.schema) if fake.schema.fine.columns == self.model.schema.fine.columns else fake
        check_comparable(self.model.schema, fake.schema)
        logs = critic.log_odds(np.stack([codes.astype(np.int64) for codes in fake.codes], axis=1))
        sizes = [column.extended_size for column in fake.schema.columns]
        return Weights(keep_columns(np.exp(logs - logs.max()), fake.codes, sizes), method="critic")
