"""The command line in this process, which saves the start of another one."""

import contextlib
import io
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from gapless.cli import main

PROGRAM = str(Path(sys.executable).parent / "gapless")


@dataclass(frozen=True)
class Finished:
    """How a command ended; the names are those of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, cwd: Path) -> Finished:
    """Run `gapless` with these arguments in a folder, and capture what it prints."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    code: object = 0
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", [PROGRAM, *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # printed, as in a new process: pytest would raise them
        try:
            main()
        except SystemExit as left:
            code = left.code
    texts = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return Finished(code if isinstance(code, int) else 0, *texts)
