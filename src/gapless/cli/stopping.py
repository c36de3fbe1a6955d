"""Ctrl-C, and the system's wish to end: the command tells what it has spent, and how to go on."""

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
_watched: list[tuple[Path, Loss | None]] = []  # the ledger of this command, and what was spent before it


class Stopped(BaseException):
    """The command was ended from outside. No error: typer would leave without a word on KeyboardInterrupt."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn the signals that end a command into `Stopped` while it runs."""
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
    """Remember the ledger that this command spends from, and how it stands."""
    from gapless.privacy import Ledger

    before = None
    with suppress(GaplessError):  # one that is new; one that cannot be read is told by whoever needs it
        before = Ledger.open(path).spent
    _watched.append((path, before))


def stop_message() -> str:
    """What the command has spent, and how to go on."""
    from gapless.privacy import Ledger

    for path, before in _watched:
        if not path.exists():
            continue
        try:
            ledger = Ledger.open(path)  # the file knows best what was charged last
        except GaplessError as error:
            return f"Stopped. What was spent stays spent, but the ledger cannot be read: {error}"
        if (spent := ledger.spent if before is None else ledger.spent - before).value > 0:
            _, left = ledger.percentages()
            return (
                f"Stopped. {ledger.percent(spent)} of the budget of '{ledger.table}' was spent since the command "
                f"began; {left:.2f}% is left in {ledger.path}\n"
                "  Try: run the same command again; synth and fit resume from their answers, and pay for none again"
            )
    return "Stopped. Nothing was spent."
