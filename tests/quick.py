"""Every method, networks against critics trained with few steps: for tests of what holds whatever they learn."""

from dataclasses import dataclass

from gapless import synth
from gapless.missing import STRATEGIES
from gapless.synth.adversarial.gan import Adversarial

GANS = [name for name, method in synth.METHODS.items() if issubclass(method, Adversarial)]


def in_few_steps(method):
    """The same method, trained in four steps."""
    return dataclass(frozen=True, slots=True, kw_only=True)(
        type(method.__name__, (method,), {"__annotations__": {"steps": "int | None"}, "steps": 4})
    )


METHODS = synth.METHODS | {name: in_few_steps(synth.METHODS[name]) for name in GANS}
TRIED = [name for name in METHODS if name not in GANS or name == "misgan"]  # the others have the same core


def takes(method, missing):
    """Whether a method declares a treatment of gaps."""
    return isinstance(STRATEGIES[missing](), METHODS[method].treatments)
