"""Noise on the weights themselves, in place of the coefficients that they come from ([IW] Supplement A.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gapless.arguments import is_number
from gapless.data import PrivateTable, Table
from gapless.data.private_logistic import logistic_odds
from gapless.errors import ModelError
from gapless.privacy import DiscreteGaussian, KNorm, Spend
from gapless.privacy.budget import PURE
from gapless.privacy.mechanisms import Mechanism
from gapless.types import Integers
from gapless.weights.discriminators import strength
from gapless.weights.weights import Weights, weighable


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisedWeights:
    r"""The odds of a logistic regression between private and synthetic rows, with noise on each of them.

    .. math:: \bar w(x_i) = \min(c, e^{\hat\beta \cdot x_i}) + \zeta_i

    Noise has mean 0, so these are right on average, up to the cut at c, without a factor. But there is a number of
    noise for each row, where `LogisticWeights` has one for each coefficient: use it for few rows, or not at all. Odds
    without a cut can move by any amount, so they have no price. Weights below 0 are set to 0 and all are brought to a
    mean of 1, which ends that they are right on average.

    Points, gaps and `regularization` are those of `LogisticWeights`.

    Guarantee: a weight moves by at most c(1 - e^(-RS)), all of them by √m times that in L2, and they get integer noise
        on a public grid: discrete Gaussian, or K-norm under a pure budget. Proved in docs/proofs/weights.md, attacked
        by tests/property/test_weights.py.

    Args:
        largest: c, a public number: odds above it are cut. Odds are 1 on average if there are as many private rows as
            synthetic ones.
        regularization: Λ, as of `LogisticWeights`.

    References: [IW] Supplement A.1.
    """

    largest: float = 10.0
    regularization: float | None = None

    def fit(self, table: PrivateTable, fake: Table, *, spend: Spend) -> Weights:
        """Weights for the rows of `fake`, for which `spend` was paid."""
        what = "NoisedWeights.fit"
        table, fake = weighable(table, fake, what)
        spend = table.ledger.share(spend)
        if not (is_number(self.largest) and 2.0**-10 <= self.largest <= 2.0**10):
            raise ModelError(f"largest = {self.largest!r}", hint="a public number from 1/1024 to 1024, such as 10")
        odds, step = logistic_odds(
            table, fake, regularization=strength(self.regularization, fake), largest=self.largest
        )
        noise: Mechanism[Integers, Any, Integers]
        noise = (KNorm if spend.order == PURE else DiscreteGaussian).for_loss(spend, odds.distance)
        steps = table.ledger.grant(spend, to=what).release(odds, noise, what="weights").value
        weights = np.maximum(steps.astype(np.float64) * step, 0)
        return Weights(weights if weights.any() else np.ones(fake.rows), method="noised")
