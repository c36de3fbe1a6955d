"""The help of --method and --missing, from what the methods declare: read only when help is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperOption


class FitCommand(TyperCommand):
    """A command that fits a method."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, with what the methods can do."""
        told = {"method": methods_told, "missing": treatments_told}
        for option in self.params:
            if isinstance(option, TyperOption) and option.name in told:
                option.help = told[option.name]()
        super().format_help(ctx, formatter)


def methods_told() -> str:
    """The methods, and which of them need a δ."""
    from gapless.synth import METHODS

    needing = [name for name, method in METHODS.items() if not method.pure]
    return f"{_listed(list(reversed(METHODS)))}. With --delta above 0 only: {', '.join(needing)}."


def treatments_told() -> str:
    """The treatments of gaps, and the methods that do not take one of them."""
    from gapless.synth import METHODS, TREATMENTS

    refused: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        words = [word for word, treatment in TREATMENTS.items() if not isinstance(treatment(), method.treatments)]
        if words:
            refused.setdefault(_listed(words), []).append(name)
    told = "".join(f" Not {words}: {', '.join(names)}." for words, names in refused.items())
    return f"{_listed(list(TREATMENTS))}.{told} By default what the method does, {_listed(defaults())}."


def defaults() -> list[str]:
    """The treatments that methods take if nothing is said, each with the methods that take it, unless most do."""
    from gapless.synth import METHODS, TREATMENTS

    words = {type(treatment()): word for word, treatment in reversed(TREATMENTS.items())}
    taking: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        taking.setdefault(words[type(method().missing)], []).append(name)
    most, *others = sorted(taking, key=lambda word: -len(taking[word]))
    return [most, *(f"{word} ({', '.join(taking[word])})" for word in others)]


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
