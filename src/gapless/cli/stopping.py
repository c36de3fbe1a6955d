"""Stop signals (Ctrl-C, SIGTERM): a stopped command reports what it has spent and how to resume."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.errors import GaplessError

if TYPE_CHECKING:
    from types import FrameType

    from gapless.privacy import Loss

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_watched: list[tuple[Path, Loss | None]] = []  # the ledger of this command, and the loss before it


class Stopped(BaseException):
    """A signal stopped the command. Not a KeyboardInterrupt: typer would exit on it without a message."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `Stopped` on a signal that ends the command, while it runs."""
    _watched.clear()
    before = {number: signal.signal(number, _stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def watch_ledger(path: Path) -> None:
    """Remember the ledger that this command spends from, and what it has spent so far."""
    from gapless.privacy import Ledger

    before = None
    with suppress(GaplessError):  # it is new, or unreadable, which its first use reports
        before = Ledger.open(path).spent
    _watched.append((path, before))


def stop_message() -> str:
    """Return what the command has spent and how to resume it."""
    from gapless.privacy import Ledger

    for path, before in _watched:
        if not path.exists():
            continue
        try:
            ledger = Ledger.open(path)  # from the file: it has the last charge
        except GaplessError as error:
            return f"Stopped. What was spent stays spent. The ledger cannot be read: {error}"
        if (spent := ledger.spent if before is None else ledger.spent - before).value > 0:
            _, left = ledger.percentages()
            return (
                f"Stopped. {ledger.percent(spent)} of the budget of '{ledger.table}' was spent since the command "
                f"began; {left:.2f}% is left in {ledger.path}\n"
                "  Try: run the same command again; synth and fit resume where they stopped and pay for no answer twice"
            )
    return "Stopped. Nothing was spent."
