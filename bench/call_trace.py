"""Count what a call passes through: functions, modules and packages of gapless, and how deep calls are nested.

    python bench/call_trace.py

Runs `ask`, `synth`, `weigh` and `estimate` on the bundled example table, as the command line does and in this process.
A function counts if it is called at least once, a module if one of its functions is, a package by the first name below
`gapless`. Depth is the largest number of gapless functions that are active at once. What runs while modules are
imported is not counted: all are imported before.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

# ------------------------------------------------------------------ the only part to adapt when names change
import gapless
from gapless.cli import main as command_line

NEW = ("--epsilon", "4", "--delta", "1e-6")
TABLE = ("nhanes.csv.gz", "--schema", "nhanes.toml")
COMMANDS: dict[str, tuple[str, ...]] = {
    "synth": ("synth", *TABLE, *NEW, "--spend", "50%", "--seed", "1", "-o", "release"),
    "ask": ("ask", *TABLE, "--spend", "10%", "mean(systolic) where age >= 50 by sex"),
    "weigh": ("weigh", TABLE[0], "release", *TABLE[1:], "--spend", "10%", "-o", "weighted.csv"),
    "estimate": ("estimate", "release", "mean(systolic) by sex", "--copies", "2", "--seed", "1"),
}

# ------------------------------------------------------------------ counting

SOURCE = str(Path(gapless.__file__).parent) + os.sep


class Passed:
    """The functions that were called, and the greatest depth."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, int, str]] = set()
        self.depth = self.deepest = 0

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call or a return of a function of gapless; generators are entered and left as often as they run."""
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(SOURCE):
            return
        if event == "return":
            self.depth -= 1
            return
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        code = frame.f_code
        self.functions.add((code.co_filename, code.co_firstlineno, code.co_qualname))

    @property
    def modules(self) -> set[str]:
        """The files of these functions, below the package."""
        return {name.removeprefix(SOURCE) for name, _, _ in self.functions}

    @property
    def packages(self) -> set[str]:
        """The folders of these files, by their first name; modules that lie in none are no package."""
        return {Path(module).parts[0] for module in self.modules if len(Path(module).parts) > 1}


@contextlib.contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    """Work in this folder, and print nothing."""
    old_folder, old_arguments = Path.cwd(), sys.argv
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.chdir(old_folder)
        sys.argv = old_arguments


def run(folder: Path, arguments: tuple[str, ...], watch: Callable[[FrameType, str, Any], None] | None) -> None:
    """One command, watched; one that fails ends this script."""
    with working_folder(folder):
        sys.argv = ["gapless", *arguments]
        sys.setprofile(watch)
        try:
            command_line()
        except SystemExit as left:
            if left.code:
                raise SystemExit(f"{' '.join(arguments)} ended with exit code {left.code}") from None
        finally:
            sys.setprofile(None)


def prepare(folder: Path) -> None:
    """The bundled table and its schema."""
    for name in ("nhanes.csv.gz", "nhanes.toml"):
        (folder / name).write_bytes((files("gapless.demo") / name).read_bytes())


def main() -> None:
    """Run every command twice, in two folders: first to import what it needs, then to count."""
    print(f"{'command':<10} {'functions':>9} {'modules':>8} {'packages':>9} {'deepest':>8}")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        for place, watched in ((Path(first), False), (Path(second), True)):
            prepare(place)
            for name, arguments in COMMANDS.items():
                passed = Passed()
                run(place, arguments, passed.watch if watched else None)
                if watched:
                    numbers = (len(passed.functions), len(passed.modules), len(passed.packages), passed.deepest)
                    print("{:<10} {:>9} {:>8} {:>9} {:>8}".format(name, *numbers), flush=True)


if __name__ == "__main__":
    main()
