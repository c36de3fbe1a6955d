"""Weights without privacy, between two public tables: what private ones would be without noise ([IW] LogReg, MLP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.data import Table
from gapless.data.checks import comparable
from gapless.data.private_logistic import Points, blocks_of, minimum
from gapless.errors import ModelError
from gapless.privacy.sgd import Block
from gapless.threads import one_thread
from gapless.weights.logistic_weights import strength
from gapless.weights.network_weights import odds
from gapless.weights.weights import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReg:
    """`LogisticWeights` without noise. NOT PRIVATE: for a truth that is public; a private table is refused.

    Args:
        regularization: Λ; by default a tenth of the number of synthetic rows.
    """

    regularization: float | None = None

    def fit(self, truth: Table, fake: Table) -> Weights:
        """Weights for the rows of `fake`, from the rows of `truth` as they are."""
        truth, fake = _alike(truth, fake)
        points = Points.of(truth.schema)
        both = [*blocks_of(points(truth.codes), 1.0), *blocks_of(points(fake.codes), -1.0)]
        found = minimum(lambda: iter(both), points, strength(self.regularization, fake), near=1e-6)
        logs = points(fake.codes) @ found
        return Weights(np.exp(logs - logs.max()), method="logistic (NOT PRIVATE)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """`NetworkWeights` without noise or clipping. NOT PRIVATE: for a truth that is public; a private table is refused.

    Args: as of `NetworkWeights`.
    """

    hidden: int = 16
    steps: int = 300
    rate: float = 0.05
    learning_rate: float = 0.02
    seed: int = 0

    @one_thread()
    def fit(self, truth: Table, fake: Table) -> Weights:
        """Weights for the rows of `fake`, from the rows of `truth` as they are."""
        truth, fake = _alike(truth, fake)
        program = odds(
            fake,
            hidden=self.hidden,
            steps=self.steps,
            rate=self.rate,
            learning_rate=self.learning_rate,
            seed=self.seed,
        )
        state, rng = program.start(), np.random.default_rng(self.seed)
        for step in range(self.steps):
            chosen = rng.integers(truth.rows, size=program.lot)
            rows = program.gradients(state, Block(tuple(codes[chosen] for codes in truth.codes), program.lot))
            state = program.follow(state, rows.total(np.ones(program.lot)), step)
        logs = program.log_odds(program.outcome(state), program.public)
        return Weights(np.exp(logs - logs.max()), method="network (NOT PRIVATE)")


def _alike(truth: Table, fake: Table) -> tuple[Table, Table]:
    truth, fake = comparable(truth, fake)
    if not (truth.rows and fake.rows):
        raise ModelError("there are no rows to tell apart", hint="two tables with rows")
    return truth, fake
