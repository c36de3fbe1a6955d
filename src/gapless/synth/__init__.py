"""Synthesizers: one file each. A new one goes into METHODS and passes tests/e2e/test_conformance.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapless.errors import ModelError
from gapless.model import archive
from gapless.schema.words import nearest
from gapless.synth.aim import AIM, AIMModel
from gapless.synth.auto import Auto
from gapless.synth.fitted import FittedModel
from gapless.synth.independent import Independent, IndependentModel
from gapless.synth.mst import MST, MSTModel
from gapless.synth.privbayes import PrivBayes, PrivBayesModel

METHODS: dict[str, Any] = {"independent": Independent, "privbayes": PrivBayes, "mst": MST, "aim": AIM, "auto": Auto}
_MODELS: dict[str, type[FittedModel]] = {
    model.method: model for model in (IndependentModel, PrivBayesModel, MSTModel, AIMModel)
}

__all__ = [
    "AIM",
    "METHODS",
    "MST",
    "AIMModel",
    "Auto",
    "FittedModel",
    "Independent",
    "IndependentModel",
    "MSTModel",
    "PrivBayes",
    "PrivBayesModel",
    "load",
]


def load(path: str | Path) -> FittedModel:
    """Read a model that was saved with `model.save`."""
    facts, arrays = archive.load(Path(path))
    if facts.get("method") not in _MODELS:
        raise ModelError(f"{path} was made by an unknown method", hint=nearest(str(facts.get("method")), _MODELS))
    return _MODELS[facts["method"]].from_file(facts, arrays)
