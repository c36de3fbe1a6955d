"""The consoles of the command line: text from files and schemas cannot give commands to the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from gapless.text import visible


class SafeConsole(Console):
    """A console that shows control characters in texts as escape sequences, and takes no markup in them."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `rich` does, texts made visible first."""
        super().print(
            *(visible(thing, lines=True) if isinstance(thing, str) else thing for thing in objects), **options
        )


def label(text: str) -> str:
    """A text for the description of a progress bar, which takes markup."""
    return escape(visible(text))


console, notes = SafeConsole(), SafeConsole(stderr=True)
