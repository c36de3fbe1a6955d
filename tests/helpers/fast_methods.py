"""Every synthesizer, the adversarial ones with few training steps: for tests that do not depend on the fit."""

from dataclasses import dataclass
from typing import cast

from gapless import synth
from gapless.missing import STRATEGIES
from gapless.synth.adversarial.gan import Adversarial
from gapless.synth.fitting import Synthesizer

GANS = [name for name, method in synth.METHODS.items() if issubclass(method, Adversarial)]


def in_few_steps(method: type[Synthesizer]) -> type[Synthesizer]:
    """The same method, trained in four steps."""
    subclass = type(method.__name__, (method,), {"__annotations__": {"steps": "int | None"}, "steps": 4})
    return cast("type[Synthesizer]", dataclass(frozen=True, slots=True, kw_only=True)(subclass))


METHODS = synth.METHODS | {name: in_few_steps(synth.METHODS[name]) for name in GANS}
TRIED = [name for name in METHODS if name not in GANS or name == "misgan"]  # the other GANs have the same core


def takes(method: str, missing: str) -> bool:
    """Whether a method declares a treatment of gaps."""
    return isinstance(STRATEGIES[missing](), METHODS[method].treatments)
