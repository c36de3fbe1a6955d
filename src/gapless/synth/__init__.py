"""Synthesizers: one file each. A new one goes into METHODS and passes tests/e2e/test_conformance.py."""

from __future__ import annotations

from pathlib import Path

from gapless.model import archive
from gapless.synth.aim import AIM
from gapless.synth.auto import Auto
from gapless.synth.fitted import FittedModel
from gapless.synth.fitting import Synthesizer
from gapless.synth.independent import Independent
from gapless.synth.kamino import Kamino
from gapless.synth.mixture import Mixture
from gapless.synth.mst import MST
from gapless.synth.privbayes import PrivBayes

METHODS: dict[str, type[Synthesizer]] = {
    method.name: method for method in (Independent, PrivBayes, MST, AIM, Mixture, Kamino, Auto)
}

__all__ = [
    "AIM",
    "METHODS",
    "MST",
    "Auto",
    "FittedModel",
    "Independent",
    "Kamino",
    "Mixture",
    "PrivBayes",
    "load",
]


def load(path: str | Path) -> FittedModel:
    """Read a model that was saved with `model.save`."""
    return FittedModel.from_file(*archive.load(Path(path)))
