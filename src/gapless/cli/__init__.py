"""The command line: parse, call, print, exit code."""

import io
import os
import sys
import traceback
from pathlib import Path

from gapless.cli.hints import to_cli_hint
from gapless.cli.stopping import Stopped, stop_message, stoppable
from gapless.cli.terminal import without_passwords
from gapless.errors import BudgetError, GaplessError, QuestionError, SchemaError
from gapless.text import visible

EXIT_CODES = ((BudgetError, 3), (SchemaError, 2), (QuestionError, 2), (GaplessError, 1))


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 2 usage, schema or question, 3 budget, 130 and 143 stopped, 1 anything else.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε prints ? instead of failing
    try:
        with stoppable():
            from gapless.cli.app import app  # slow to import, so it must be stoppable too

            app()
    except GaplessError as error:
        text = f"{type(error).__name__}: {error.message}\n  Try: {to_cli_hint(error.hint)}"
        print(visible(without_passwords(text, sys.argv[1:]), lines=True), file=sys.stderr)
        sys.exit(next(code for kind, code in EXIT_CODES if isinstance(error, kind)))
    except Stopped as stopped:
        print(visible(stop_message(), lines=True), file=sys.stderr)
        sys.exit(stopped.code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 the text may quote a private cell
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        print(
            f"Internal error: {type(error).__name__} at {where} (text withheld: it may quote private data)\n"
            "  Try: report this error with the command you ran, without the data",
            file=sys.stderr,
        )
        sys.exit(1)
