"""Importance weights: what each synthetic row should count so that all together describe the private table."""

from gapless.weights.calibration import CalibrationWeights
from gapless.weights.critic import CriticWeights
from gapless.weights.estimates import Estimate, weighted_mean, weighted_proportions, weighted_quantiles
from gapless.weights.logistic import LogisticWeights
from gapless.weights.network import NetworkWeights
from gapless.weights.noised import NoisedWeights
from gapless.weights.posterior import Posterior, weighted_posterior
from gapless.weights.public import MLP, LogReg
from gapless.weights.weights import FewRowsWarning, Weights

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
