"""The consoles of the command line. They escape control characters, and errors hide passwords."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from gapless.text import visible


class SafeConsole(Console):
    """A console that prints control characters as escape sequences and ignores markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `rich` does, with control characters escaped."""
        super().print(
            *(visible(value, lines=True) if isinstance(value, str) else value for value in objects), **options
        )


def label(text: str) -> str:
    """Escape a text for the description of a progress bar, which takes markup."""
    return escape(visible(text))


def without_passwords(message: str, arguments: Sequence[str]) -> str:
    """Replace the arguments that may hold a password in a message, in every form in which it may quote them.

    >>> without_passwords("no file 'host=db password=x y'", ["synth", "host=db password=x y"])
    "no file '…'"
    """
    from gapless.data.io.address import may_hold_password

    values = [word.partition("=")[2] for word in arguments if word.startswith("-")]
    hidden = {form for word in (*arguments, *values) if may_hold_password(word) for form in (word, str(Path(word)))}
    for word in sorted({*hidden, *(repr(word)[1:-1] for word in hidden)}, key=len, reverse=True):
        message = message.replace(word, "…")
    return message


console, notes = SafeConsole(), SafeConsole(stderr=True)


def print_result(result: Any, text: str, *, as_json: bool) -> None:
    """Print a result as JSON, or as text for people."""
    if as_json:
        print(json.dumps(result))
    else:
        console.print(text)
