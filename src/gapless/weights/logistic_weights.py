"""Logistic weights: a regression tells private rows from synthetic ones, and its odds are the weights ([IW] §3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gapless.arguments import is_number
from gapless.data import PrivateTable, Table
from gapless.data.private_logistic import Points, grid, logistic_coefficients
from gapless.errors import BudgetError, ModelError
from gapless.privacy import DiscreteGaussian, DiscreteLaplace, KNorm, Loss
from gapless.privacy.budget import PURE
from gapless.privacy.mechanisms import Mechanism
from gapless.types import Floats, Integers
from gapless.weights.weights import Weights, weighable

Noise: TypeAlias = DiscreteGaussian | DiscreteLaplace | KNorm

NOISES: dict[str, type[Noise]] = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace, "knorm": KNorm}
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

    Rows are points by the schema alone (`Points`): a column on a line from 0 to 1, a number for each level, for each
    kind of gap, and the intercept, which is penalised too. Private rows are used with their gaps, as levels: what is
    estimated is the ratio of the laws of rows *with* gaps, so with filled synthetic rows it is right under MCAR only.

    Guarantee: the coefficients move by at most (kR + 2τ)/Λ in L2, whatever the rows are, and get integer noise on a
        public grid: discrete Gaussian, K-norm, or discrete Laplace calibrated to √d times that in L1. Proved in
        docs/proofs/weights.md, attacked by tests/audit/test_weights.py.

    Args:
        noise: "gaussian"; for pure budgets too "knorm", noise by the length of the whole vector, or "laplace", noise on
            each coefficient, which is more of it. With δ > 0 Gaussian noise is the least, unless there are hardly any
            coefficients.
        debias: divide by the mean of what noise does to each weight.
        regularization: Λ, a public number; more of it means less noise and coefficients closer to 0. By default a tenth
            of the number of synthetic rows, the λ = 0.1 of [IW].

    References: [IW] §3.3; Chaudhuri, Monteleoni, Sarwate 2011 for the bound.
    """

    noise: Literal["gaussian", "laplace", "knorm"] = "gaussian"
    debias: bool = True
    regularization: float | None = None

    def fit(self, table: PrivateTable, fake: Table, *, spend: Loss) -> Weights:
        """Weights for the rows of `fake`, for which `spend` was paid."""
        what = "LogisticWeights.fit"
        table, fake = weighable(table, fake, what)
        self._check(spend)
        points = Points.of(table.schema)
        regularization = strength(self.regularization, fake)
        step = grid(points, regularization)
        norm: Literal["L1", "L2"] = "L1" if self.noise == "laplace" else "L2"
        coefficients = logistic_coefficients(table, fake, regularization=regularization, norm=norm)
        noise: Noise = NOISES[self.noise].for_loss(spend, coefficients.distance)  # type: ignore[arg-type]
        if self.debias and not has_mean(noise, step, points.radius):
            raise ModelError(
                f"{what}: with this noise the mean of a weight is infinite, and cannot be divided by",
                hint='a larger regularization= or spend=, noise="gaussian", or debias=False',
            )
        gate: Mechanism[Integers, Any, Integers] = noise
        steps = table.ledger.grant(spend, to=what).release(coefficients, gate, what="coefficients").value
        logs = log_ratios(points(fake.codes), steps.astype(np.float64) * step, noise if self.debias else None, step)
        return Weights(np.exp(logs - logs.max()), method="logistic")

    def _check(self, spend: Loss) -> None:
        if self.noise not in NOISES:
            raise ModelError(f"noise = {self.noise!r}", hint=f"one of: {', '.join(NOISES)}")
        if self.noise == "gaussian" and spend.order == PURE:
            raise BudgetError("Gaussian noise cannot promise δ = 0", hint='noise="knorm"')


def strength(regularization: float | None, fake: Table) -> float:
    """Λ: as given, or a tenth of the number of synthetic rows."""
    if regularization is None:
        return LAMBDA * fake.rows
    if not (is_number(regularization) and 2.0**-10 <= regularization <= 2.0**30):
        raise ModelError(f"regularization = {regularization!r}", hint="a public number, such as 1000")
    return float(regularization)


def log_ratios(points: Floats, coefficients: Floats, noise: Noise | None, step: float) -> Floats:
    """The logarithm of each row's weight, not normalised; `noise` is what to debias for, on a grid of `step`."""
    logs = points @ coefficients
    return logs if noise is None else logs - log_means(points, noise, step)


def log_means(points: Floats, noise: Noise, step: float) -> Floats:
    r"""The logarithm of :math:`\mathrm E\,e^{\zeta \cdot x}` for the noise as it is drawn, ζ = step · Z.

    .. math:: \text{Gaussian: } \tfrac12 \sigma^2 h^2 \lVert x \rVert^2, \qquad \text{K-norm: }
              -\tfrac{d+1}2 \log(1 - b^2 h^2 \lVert x \rVert^2), \qquad \text{Laplace: }
              \sum_j \log \frac{(1-p)^2}{(1 - p\,e^{h x_j})(1 - p\,e^{-h x_j})}, \quad p = e^{-1/b}

    The first two are those of the continuous laws: the discrete Gaussian differs by a factor of
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
