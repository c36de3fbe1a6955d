"""The help of --method and --missing, from the declarations of the methods; built only when help is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperOption


class FitCommand(TyperCommand):
    """A command that fits a method."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with what each method can do."""
        help_texts = {"method": methods_help, "missing": treatments_help}
        for option in self.params:
            if isinstance(option, TyperOption) and option.name in help_texts:
                option.help = help_texts[option.name]()
        super().format_help(ctx, formatter)


def methods_help() -> str:
    """List the methods, and which of them need a δ above 0."""
    from gapless.synth import METHODS

    needing = [name for name, method in METHODS.items() if not method.pure]
    return f"{_join_with_or(list(reversed(METHODS)))}. These need --delta above 0: {', '.join(needing)}."


def treatments_help() -> str:
    """List the treatments of gaps, and the methods that do not support one of them."""
    from gapless.synth import METHODS, TREATMENTS

    refused: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        treatments = [word for word, treatment in TREATMENTS.items() if not isinstance(treatment(), method.treatments)]
        if treatments:
            refused.setdefault(_join_with_or(treatments), []).append(name)
    exclusions = "".join(
        f" {', '.join(names)} {'does' if len(names) == 1 else 'do'} not take {treatments}."
        for treatments, names in refused.items()
    )
    defaults = _join_with_or(default_treatments())
    return f"{_join_with_or(list(TREATMENTS))}.{exclusions} Default: that of the method, {defaults}."


def default_treatments() -> list[str]:
    """List the default treatments, the most frequent first; the others with their methods."""
    from gapless.synth import METHODS, TREATMENTS

    names = {type(treatment()): word for word, treatment in reversed(TREATMENTS.items())}
    taking: dict[str, list[str]] = {}
    for name, method in METHODS.items():
        taking.setdefault(names[type(method().missing)], []).append(name)
    most, *others = sorted(taking, key=lambda word: -len(taking[word]))
    return [most, *(f"{word} ({', '.join(taking[word])})" for word in others)]


def _join_with_or(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
