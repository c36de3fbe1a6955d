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

    needing = [f" {name}: with --delta above 0 only." for name, method in METHODS.items() if not method.pure]
    return f"{_listed(list(reversed(METHODS)))}.{''.join(needing)}"


def treatments_told() -> str:
    """The treatments of gaps, and the methods that do not take one of them."""
    from gapless.synth import METHODS, TREATMENTS

    told = f"{_listed(list(TREATMENTS))}."
    for name, method in METHODS.items():
        refused = [word for word, treatment in TREATMENTS.items() if not isinstance(treatment(), method.treatments)]
        told += f" {name}: not {_listed(refused)}." if refused else ""
    return told


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
