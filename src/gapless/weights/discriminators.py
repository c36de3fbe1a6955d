"""Weights by discriminators: classifiers between private and synthetic rows, with and without privacy ([IW] §3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gapless.data import PrivateTable, Table
from gapless.data.checks import check_comparable, to_shared_bins
from gapless.data.private_logistic import (
    Points,
    grid_step,
    labelled_blocks,
    logistic_coefficients,
    logistic_odds,
    minimize,
)
from gapless.data.training import train
from gapless.errors import Argument, BudgetError, Call, Hint, ModelError, Variable
from gapless.model.neural.descent import Adam, CosineSchedule, OddsTraining
from gapless.model.neural.layers import Chain, Linear, ReLU
from gapless.privacy import DiscreteGaussian, DiscreteLaplace, KNorm, Spend
from gapless.privacy.budget import PURE
from gapless.privacy.mechanisms import Mechanism
from gapless.privacy.sgd import Block
from gapless.synth import FittedModel
from gapless.text import check_one_of
from gapless.threads import one_thread
from gapless.types import Floats, Integers, checked_number, whole
from gapless.weights.calibration import Weights, keep_columns, public_rows, to_weightable

Noise: TypeAlias = DiscreteGaussian | DiscreteLaplace | KNorm

NOISES: dict[str, type[Noise]] = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace, "knorm": KNorm}
_LESS_NOISE = (
    Hint("pass ", Argument("debias", False))
    | Hint("pass a larger ", Argument("spend"))
    | Hint("pass a larger ", Argument("regularization"))
)
LAMBDA = 0.1  # Λ for each synthetic row


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticWeights:
    r"""The odds of a logistic regression between private and synthetic rows, with noise on its coefficients.

    .. math:: \bar w(x) = e^{(\hat\beta + \zeta) \cdot x}, \qquad
              \bar w^*(x) = \bar w(x) / \mathrm E\,e^{\zeta \cdot x}

    Without `debias` these are the weights of Ji and Elkan 2013 (BetaNoised); with it their mean over the noise is the
    weight without noise (BetaDebiased, [IW] Proposition 2), as long as they are not normalised. The weights that come
    back have mean 1, so that a factor that all rows share cancels: debiasing changes them only where rows are at
    different distances from the origin, which levels of a column never are.

    Rows are points by the schema alone (`Points`): one coordinate from 0 to 1 for a numeric or ordered column, one for
    each level and each kind of gap, and the intercept, which is penalised too. Private rows are used with their gaps,
    as levels. So the weights estimate the ratio of the distributions of rows *with* gaps; with filled synthetic rows
    they are right under MCAR only.

    Guarantee: the coefficients move by at most (kR + 2τ)/Λ in L2, whatever the rows are, and get integer noise on a
        public grid: discrete Gaussian, K-norm, or discrete Laplace calibrated to √d times that in L1. Proved in
        docs/proofs/weights.md, attacked by tests/audit/test_weights.py.

    Args:
        noise: "gaussian"; for pure budgets too "knorm", noise scaled to the L2 sensitivity of the vector, or "laplace",
            noise on each coefficient, which is more of it. With δ > 0 Gaussian noise is the least, unless there
            are hardly any coefficients.
        debias: divide by the mean of what noise does to each weight.
        regularization: Λ, a public number; more of it means less noise and coefficients closer to 0. By default a tenth
            of the number of synthetic rows, the λ = 0.1 of [IW].

    References: [IW] §3.3; Chaudhuri, Monteleoni, Sarwate 2011 for the bound.
    """

    noise: Literal["gaussian", "laplace", "knorm"] = "gaussian"
    debias: bool = True
    regularization: float | None = None

    def fit(self, table: PrivateTable, fake: Table, *, spend: Spend) -> Weights:
        """Weights for the rows of `fake`, at a cost of `spend`."""
        what = "LogisticWeights.fit"
        table, fake = to_weightable(table, fake, what)
        spend = table.ledger.share(spend)
        check_one_of("noise", self.noise, NOISES, error=ModelError)
        if self.noise == "gaussian" and spend.order == PURE:
            raise BudgetError(
                f"{what}: noise='gaussian' needs δ above 0, but this budget has δ = 0",
                hint=Hint("pass ", Argument("noise", "knorm")),
            )
        points = Points.of(table.schema)
        regularization = strength(self.regularization, fake)
        step = grid_step(points, regularization)
        norm: Literal["L1", "L2"] = "L1" if self.noise == "laplace" else "L2"
        coefficients = logistic_coefficients(table, fake, regularization=regularization, norm=norm)
        noise: Noise = NOISES[self.noise].for_loss(spend, coefficients.distance)  # type: ignore[arg-type]
        if self.debias and not has_mean(noise, step, points.radius):
            raise ModelError(
                f"{what}: debiasing divides each weight by its mean over the noise, but the noise is so large that "
                "this mean is infinite",
                hint=_LESS_NOISE
                if spend.order == PURE
                else _LESS_NOISE | Hint("pass ", Argument("noise", "gaussian")),  # which needs a δ above 0
            )
        gate: Mechanism[Integers, Any, Integers] = noise
        steps = table.ledger.grant(spend, to=what).release(coefficients, gate, what="coefficients").value
        rows = points(fake.codes)
        logs = rows @ (steps.astype(np.float64) * step)
        if self.debias:
            logs -= log_means(rows, noise, step)
        return Weights(np.exp(logs - logs.max()), method="logistic")


def strength(regularization: float | None, fake: Table) -> float:
    """Λ: as given, or a tenth of the number of synthetic rows."""
    if regularization is None:
        return LAMBDA * fake.rows
    return checked_number("regularization", regularization, 2.0**-10, 2.0**30, "[]", error=ModelError, example=1000)


def log_means(points: Floats, noise: Noise, step: float) -> Floats:
    r"""The logarithm of :math:`\mathrm E\,e^{\zeta \cdot x}` for the noise as it is drawn, ζ = step · Z.

    .. math:: \text{Gaussian: } \tfrac12 \sigma^2 h^2 \lVert x \rVert^2, \qquad \text{K-norm: }
              -\tfrac{d+1}2 \log(1 - b^2 h^2 \lVert x \rVert^2), \qquad \text{Laplace: }
              \sum_j \log \frac{(1-p)^2}{(1 - p\,e^{h x_j})(1 - p\,e^{-h x_j})}, \quad p = e^{-1/b}

    The first two are those of the continuous distributions: the discrete Gaussian differs by a factor of
    :math:`1 \pm 4e^{-2\pi^2\sigma^2}`, which is 1 in floats for σ above 2, and rounding by at most half a step for each
    coefficient. K-norm needs :math:`h \lVert x \rVert < 1/b`, Laplace all :math:`h |x_j| < 1/b`.
    """
    squares = (points**2).sum(axis=1)
    if isinstance(noise, DiscreteGaussian):
        return np.asarray((noise.std * step) ** 2 / 2 * squares)
    if isinstance(noise, KNorm):
        return np.asarray(-(points.shape[1] + 1) / 2 * np.log1p(-((noise.scale * step) ** 2) * squares))
    slopes, rate = step * np.abs(points), 1 / noise.scale
    # 1 - p e^s = -expm1(s - rate): no digit is lost, however fine the grid is.
    parts = 2 * np.log(-np.expm1(-rate)) - np.log(-np.expm1(slopes - rate)) - np.log(-np.expm1(-slopes - rate))
    return np.asarray(parts.sum(axis=1))


def has_mean(noise: Noise, step: float, radius: float) -> bool:
    """Whether every weight has a finite mean: no point is longer than `radius`, and no coordinate of one above 1."""
    if isinstance(noise, DiscreteGaussian):
        return True
    return step * noise.scale * (radius if isinstance(noise, KNorm) else 1) < 1


MIN_BATCH = 16  # synthetic rows of a step, however few there are


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """A network with one hidden layer over all cells, gaps included, and how it is trained."""

    hidden: int = 16
    steps: int = 300
    rate: float = 0.05
    learning_rate: float = 0.02
    seed: int = 0

    def program(self, fake: Table) -> OddsTraining:
        """What is trained: the log odds that a row is none of `fake`."""
        learning_rate = checked_number("learning_rate", self.learning_rate, 0, 1, "(]", error=ModelError, example=0.02)
        hidden, steps = (whole(name, getattr(self, name), error=ModelError, least=1) for name in ("hidden", "steps"))
        sizes = tuple(column.extended_size for column in fake.schema.columns)
        return OddsTraining(
            network=Chain((Linear(sum(sizes), hidden), ReLU(), Linear(hidden, 1, gain=0.0))),
            sizes=sizes,
            public=tuple(np.array(codes) for codes in fake.codes),
            optimizer=Adam(rate=CosineSchedule(rate=learning_rate, steps=steps)),
            batch_size=max(MIN_BATCH, round(self.rate * fake.rows)),
            seed=whole("seed", self.seed, error=ModelError),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkWeights(NetworkSettings):
    r"""The odds of a network with one hidden layer between private and synthetic rows, trained by `PrivateTraining`.

    Each step draws private rows with the public chance `rate`, clips and adds up their gradients, and adds noise once,
    even if no row was drawn. Then it adds the gradients of as many synthetic rows, which are public. In [IW],
    Algorithm 1, noise is added for each sampled private row, so its size reveals their number.

    Private rows are used with their gaps, as levels: as with `LogisticWeights`.

    Guarantee: that of `PrivateTraining`; the odds are a function of the trained network and the public rows.

    Args:
        hidden: how many units the hidden layer has.
        steps: how many steps there are.
        rate: the chance of each private row to be in a step.
        clip: the length that a row's gradient is cut to.
        seed: draws the first parameters and the synthetic rows of each step; nothing else can be repeated.
    """

    clip: float = 1.0

    def fit(self, table: PrivateTable, fake: Table, *, spend: Spend) -> Weights:
        """Weights for the rows of `fake`, at a cost of `spend`."""
        what = "NetworkWeights.fit"
        table, fake = to_weightable(table, fake, what)
        spend = table.ledger.share(spend)
        program = self.program(fake)
        trained = train(
            table,
            program,
            table.ledger.grant(spend, to=what),
            spend=spend,
            rate=self.rate,
            steps=self.steps,
            clip=self.clip,
            what="network",
        )
        logs = program.log_odds(trained.value, program.public)
        return Weights(np.exp(logs - logs.max()), method="network")


@dataclass(frozen=True, slots=True)
class CriticWeights:
    """The odds between private and synthetic rows by the critic in a model: free, as the critic was charged already.

    A model carries its critic only if noise protects the critic itself: `DPGAN`, `DPCGAN`, `DPCTGAN`, `DPautoGAN` and
    `MisGAN` as they are here, the student of `PATEGAN`. A critic trained without noise must not be used, however
    private the rows made with it: those of `MisGAN(noised="generators")`, and teachers, are never handed out. See
    `gapless.synth.adversarial.generative` for how the critic's numbers become odds. Then the marginals, which the
    model has from separate tables, are restored.

    Guarantee: a function of the model and of public rows; nothing is released.

    Args:
        model: a fitted model that carries its critic.
    """

    model: FittedModel

    def fit(self, fake: Table) -> Weights:
        """Weights for the rows of `fake`, a sample of the model."""
        if not isinstance(self.model, FittedModel):
            raise ModelError(
                f"CriticWeights takes a fitted model, not a {type(self.model).__name__}",
                hint=Hint(
                    "fit one with ", Call("gapless.synth.DPGAN().fit", Variable("people"), Argument("spend", "50%"))
                ),
            )
        critic = self.model.critic
        if critic is None and len(self.model.schema.columns) == 1:
            raise ModelError(
                f"CriticWeights needs at least 2 columns, but this {self.model.method} model has 1",
                hint="use the rows without weights; a model of a single column needs none",
            )
        if critic is None:
            raise ModelError(
                "CriticWeights needs a model that stores a critic trained with noise, "
                f"but this {self.model.method} model stores none",
                hint=Hint("fit a model with the method dpgan")
                | Hint(
                    "use ",
                    Call(
                        "gapless.weights.LogisticWeights().fit",
                        Variable("people"),
                        Variable("fake"),
                        Argument("spend", "5%"),
                    ),
                ),
            )
        fake = public_rows(fake, "CriticWeights.fit")
        fake = fake.rebin(self.model.schema) if fake.schema.finest.columns == self.model.schema.finest.columns else fake
        check_comparable(self.model.schema, fake.schema)
        logs = critic.log_odds(np.stack([codes.astype(np.int64) for codes in fake.codes], axis=1))
        sizes = [column.extended_size for column in fake.schema.columns]
        return Weights(keep_columns(np.exp(logs - logs.max()), fake.codes, sizes), method="critic")


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
        both = [*labelled_blocks(points(truth.codes), 1.0), *labelled_blocks(points(fake.codes), -1.0)]
        found = minimize(lambda: iter(both), points, strength(self.regularization, fake), tolerance=1e-6)
        logs = points(fake.codes) @ found
        return Weights(np.exp(logs - logs.max()), method="logistic (NOT PRIVATE)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP(NetworkSettings):
    """`NetworkWeights` without noise or clipping. NOT PRIVATE: for a truth that is public; a private table is refused.

    Args: as of `NetworkWeights`.
    """

    @one_thread()
    def fit(self, truth: Table, fake: Table) -> Weights:
        """Weights for the rows of `fake`, from the rows of `truth` as they are."""
        truth, fake = _alike(truth, fake)
        program = self.program(fake)
        state, rng = program.start(), np.random.default_rng(self.seed)
        for step in range(self.steps):
            chosen = rng.integers(truth.rows, size=program.batch_size)
            rows = program.gradients(state, Block(tuple(codes[chosen] for codes in truth.codes), program.batch_size))
            state = program.follow(state, rows.total(np.ones(program.batch_size)), step)
        logs = program.log_odds(program.outcome(state), program.public)
        return Weights(np.exp(logs - logs.max()), method="network (NOT PRIVATE)")


def _alike(truth: Table, fake: Table) -> tuple[Table, Table]:
    truth, fake = to_shared_bins(truth, fake)
    if not (truth.rows and fake.rows):
        empty = "second" if truth.rows else "first"
        raise ModelError(
            f"both tables must have rows, but the {empty} table has none", hint="pass two tables with rows"
        )
    return truth, fake


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisedWeights:
    r"""The odds of a logistic regression between private and synthetic rows, with noise on each of them.

    .. math:: \bar w(x_i) = \min(c, e^{\hat\beta \cdot x_i}) + \zeta_i

    Noise has mean 0, so these are right on average, up to the cut at c, without a factor. But noise is drawn for each
    row, where `LogisticWeights` draws it for each coefficient: use it for few rows, or not at all. Odds
    without a cut can move by any amount, so they have no price. Weights below 0 are set to 0 and all are scaled to
    mean 1; after that they are no longer unbiased.

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
        """Weights for the rows of `fake`, at a cost of `spend`."""
        what = "NoisedWeights.fit"
        table, fake = to_weightable(table, fake, what)
        spend = table.ledger.share(spend)
        checked_number("largest", self.largest, 2.0**-10, 2.0**10, "[]", error=ModelError, example=10)
        odds, step = logistic_odds(
            table, fake, regularization=strength(self.regularization, fake), largest=self.largest
        )
        noise: Mechanism[Integers, Any, Integers]
        noise = (KNorm if spend.order == PURE else DiscreteGaussian).for_loss(spend, odds.distance)
        steps = table.ledger.grant(spend, to=what).release(odds, noise, what="weights").value
        weights = np.maximum(steps.astype(np.float64) * step, 0)
        return Weights(weights if weights.any() else np.ones(fake.rows), method="noised")
