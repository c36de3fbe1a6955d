"""Network weights: a small network, trained privately, tells private rows from synthetic ones ([IW] §3.4, DP-MLP)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapless.arguments import is_number, whole
from gapless.data import PrivateTable, Table
from gapless.data.training import train
from gapless.errors import ModelError
from gapless.model.neural.layers import Chain, Linear, ReLU
from gapless.model.neural.odds import Odds
from gapless.model.neural.optimizers import Adam, Cosine
from gapless.privacy import Loss
from gapless.weights.weights import Weights, weighable

LEAST_LOT = 16  # synthetic rows of a step, however few there are


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkWeights:
    r"""The odds of a network with one hidden layer between private and synthetic rows, trained by `PrivateTraining`.

    Each step draws private rows with the public chance `rate`, clips and adds up their gradients, and adds noise once,
    whether any row was drawn or not; then it adds the gradients of as many synthetic rows, which are public. In [IW],
    Algorithm 1, noise is added for each private row that was drawn: its size tells how many there are.

    Private rows are used with their gaps, as levels: as with `LogisticWeights`.

    Guarantee: that of `PrivateTraining`; the odds are a function of the trained network and the public rows.

    Args:
        hidden: how many units the hidden layer has.
        steps: how many steps there are.
        rate: the chance of each private row to be in a step.
        clip: the length that a row's gradient is cut to.
        seed: draws the first parameters and the synthetic rows of each step; nothing else can be repeated.
    """

    hidden: int = 16
    steps: int = 300
    rate: float = 0.05
    clip: float = 1.0
    learning_rate: float = 0.02
    seed: int = 0

    def fit(self, table: PrivateTable, fake: Table, *, spend: Loss) -> Weights:
        """Weights for the rows of `fake`, for which `spend` was paid."""
        what = "NetworkWeights.fit"
        table, fake = weighable(table, fake, what)
        if not (is_number(self.learning_rate) and 0 < self.learning_rate <= 1):
            raise ModelError(f"learning_rate = {self.learning_rate!r}", hint="a number above 0, at most 1")
        hidden, steps = (whole(name, getattr(self, name), error=ModelError, least=1) for name in ("hidden", "steps"))
        program = odds(
            fake, hidden=hidden, steps=steps, rate=self.rate, learning_rate=self.learning_rate, seed=self.seed
        )
        trained = train(
            table,
            program,
            table.ledger.grant(spend, to=what),
            spend=spend,
            rate=self.rate,
            steps=steps,
            clip=self.clip,
            what="network",
        )
        logs = program.log_odds(trained.value, program.public)
        return Weights(np.exp(logs - logs.max()), method="network")


def odds(fake: Table, *, hidden: int, steps: int, rate: float, learning_rate: float, seed: int) -> Odds:
    """What is trained: a network with one hidden layer over all cells, gaps included."""
    sizes = tuple(column.extended_size for column in fake.schema.columns)
    return Odds(
        network=Chain((Linear(sum(sizes), hidden), ReLU(), Linear(hidden, 1, gain=0.0))),
        sizes=sizes,
        public=tuple(np.array(codes) for codes in fake.codes),
        optimizer=Adam(rate=Cosine(rate=float(learning_rate), steps=steps)),
        lot=max(LEAST_LOT, round(rate * fake.rows)),
        seed=whole("seed", seed, error=ModelError),
    )
