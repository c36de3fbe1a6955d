"""The command-line form of a hint: options in place of Python arguments, words in place of objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from shlex import quote
from typing import Any

from gapless.errors import Argument, Call, Hint

# Options with the name of the Python argument.
OPTIONS = frozenset(
    "also copies cover delta encoding engine epsilon ledger limit"  # noqa: SIM905 a list of words reads better
    " method missing neighbors on query scheme spend".split()
)
# The value of --missing for each Python object.
TREATMENTS = {
    "Drop()": "drop",
    "Extended()": "extended",
    "Observed()": "observed",
    "CompleteRows()": "complete-rows",
    "ImputeFirst()": "impute-random",
}


def to_cli_hint(hint: str, **renamed: str) -> str:
    """Return a hint in the form for the command line.

    Args:
        hint: the hint of an error; a plain text is returned unchanged.
        renamed: options of this command that differ from the name of their argument.

    >>> to_cli_hint(Hint("use ", Argument("missing", Call("HotDeck", ...))) | Hint("pass a larger ", Argument("spend")))
    'use --missing hot-deck, or pass a larger --spend'
    >>> to_cli_hint(Hint("pass ", Argument("encoding", "latin-1")), encoding="--fake-encoding")
    'pass --fake-encoding latin-1'
    """

    def form(named: Argument | Call) -> str | None:
        if isinstance(named, Call):
            return CALLS[named.name](*named.arguments) if named.name in CALLS else None
        if named.name in ARGUMENTS:
            return ARGUMENTS[named.name](named.value)
        if named.name not in OPTIONS:
            return None
        return _option(renamed.get(named.name, f"--{named.name}"), named.value)

    return hint.render(form) if isinstance(hint, Hint) else hint


def _option(option: str, value: object) -> str | None:
    word: str | None
    match value:
        case None:
            return option
        case Call("Knn" | "HotDeck" as name, arguments):
            more = [f" {_option(f'--{part.name}', part.value)}" for part in arguments if isinstance(part, Argument)]
            word = ("knn" if name == "Knn" else "hot-deck") + "".join(more)
        case Call():
            word = TREATMENTS.get(str(value))
        case list() | tuple():
            word = quote(",".join(map(str, value)))
        case float():
            word = f"{value:g}".replace("e-0", "e-")
        case _:
            word = quote(str(value))
    return None if word is None else f"{option} {word}"


def _budget(value: Call | None) -> str:
    if value is None:
        return "--epsilon and --delta"
    return " ".join(
        f"{_option(f'--{part.name}', part.value)}" for part in value.arguments if isinstance(part, Argument)
    )


def _gaps(value: str | None) -> str | None:
    return _option("--gaps", value and value.replace(" ", "-"))


def _always(value: Any) -> str:
    return " ".join(f"--always {quote('+'.join(names))}" for names in value) if value else "--always"


def _rates(option: str, rates: object) -> str | None:
    if not (isinstance(rates, Mapping) and rates):
        return None
    return " ".join(f"{option} {quote(f'{column}={rate:g}')}" for column, rate in rates.items())


def _unit(value: Call | None) -> str:
    match value:
        case Call("Persons", (Argument(_, person), Argument(_, rows))):
            return f"person = {json.dumps(person, ensure_ascii=False)} and rows_per_person = {rows} in the schema"
    return f"rows_per_person{'' if value is None else f' = {value.arguments[0]}'} in the schema"


# Arguments without an option of the same name and value.
ARGUMENTS: dict[str, Callable[[Any], str | None]] = {
    "always": _always,
    "budget": _budget,
    "gaps": _gaps,
    "protect": _unit,
    "rate": lambda value: _option("--rate", value),
}
CALLS: dict[str, Callable[..., str | None]] = {
    "AIM": lambda always: f"--method aim {_always(always.value)}",
    "Budget": lambda *arguments: _budget(Call("Budget", *arguments)),
    "MCAR": partial(_rates, "--mcar"),
    "Proportion": lambda condition: f"proportion({condition})",
    "gapless.privacy.MissingAtLeast": partial(_rates, "--missing-at-least"),
    "gapless.evaluate.compare_private": lambda *_: "--spend 5%",
    "people.ask": lambda *_: "gapless ask",
    "people.select": lambda *_: "ignore in the schema",
}
