"""Importance weights: what each synthetic row should count so that all together describe the private table."""

from gapless.weights.calibration import CalibrationWeights, FewRowsWarning, Weights
from gapless.weights.discriminators import MLP, CriticWeights, LogisticWeights, LogReg, NetworkWeights, NoisedWeights
from gapless.weights.weighted_learners import (
    Estimate,
    Posterior,
    weighted_mean,
    weighted_posterior,
    weighted_proportions,
    weighted_quantiles,
)

__all__ = [
    "MLP",
    "CalibrationWeights",
    "CriticWeights",
    "Estimate",
    "FewRowsWarning",
    "LogReg",
    "LogisticWeights",
    "NetworkWeights",
    "NoisedWeights",
    "Posterior",
    "Weights",
    "weighted_mean",
    "weighted_posterior",
    "weighted_proportions",
    "weighted_quantiles",
]
