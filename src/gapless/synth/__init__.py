"""Synthesizers by family: marginal, sequential, adversarial.

To add one, write a file in its family, import it here, and add it to METHODS. The command line and the conformance
suite (tests/e2e/test_conformance.py) read METHODS.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.missing import STRATEGIES, FromModel, ImputeFirst, Missing, Observed
from gapless.synth.adversarial.gan import DPCGAN, DPCTGAN, DPGAN, PATEGAN, DPautoGAN
from gapless.synth.adversarial.misgan import MisGAN
from gapless.synth.auto import Auto
from gapless.synth.fitted import FittedModel
from gapless.synth.fitting import Synthesizer
from gapless.synth.loading import load
from gapless.synth.marginal.aim import AIM
from gapless.synth.marginal.factors import Factors
from gapless.synth.marginal.independent import Independent
from gapless.synth.marginal.mixture import Mixture
from gapless.synth.marginal.mst import MST
from gapless.synth.marginal.privbayes import PrivBayes
from gapless.synth.sequential.kamino import Kamino

_MARGINAL = (Independent, PrivBayes, MST, AIM, Mixture, Factors)
_ADVERSARIAL = (MisGAN, DPGAN, DPCGAN, DPCTGAN, DPautoGAN, PATEGAN)
METHODS: dict[str, type[Synthesizer]] = {method.name: method for method in (*_MARGINAL, Kamino, *_ADVERSARIAL, Auto)}

# Treatments of gaps by their names on the command line: some take a method.
TREATMENTS: dict[str, Callable[[], Missing]] = STRATEGIES | {
    "impute-kamino": lambda: ImputeFirst(FromModel(Kamino(missing=Observed()))),
}

__all__ = [
    "AIM",
    "DPCGAN",
    "DPCTGAN",
    "DPGAN",
    "METHODS",
    "MST",
    "PATEGAN",
    "TREATMENTS",
    "Auto",
    "DPautoGAN",
    "Factors",
    "FittedModel",
    "Independent",
    "Kamino",
    "MisGAN",
    "Mixture",
    "PrivBayes",
    "load",
]
