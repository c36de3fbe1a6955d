"""Importance weights: what each synthetic row should count so that all together describe the private table."""

from gapless.weights.calibration import CalibrationWeights
from gapless.weights.critic_weights import CriticWeights
from gapless.weights.logistic_weights import LogisticWeights
from gapless.weights.network_weights import NetworkWeights
from gapless.weights.noised import NoisedWeights
from gapless.weights.posterior import Posterior, weighted_posterior
from gapless.weights.public import MLP, LogReg
from gapless.weights.weighted_estimates import Estimate, weighted_mean, weighted_proportions, weighted_quantiles
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
