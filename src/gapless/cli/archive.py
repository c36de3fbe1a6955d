"""The command `gapless archive`: files with which a release is archived and registered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapless.cli import options
from gapless.cli.app import app, spinner
from gapless.cli.terminal import print_result


@app.command(epilog="Example: `gapless archive release/`, then `gapless archive release/ --answers answers.toml`")
def archive(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A release folder, as `gapless synth` makes it.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the files. Default: beside the release.", show_default=False),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help="A TOML file with your answers to the questions.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write files to archive and register a release: data package, DDI codebook, registry entry, checklist."""
    from gapless.publish import archive as write_archive

    with spinner("archiving"):
        made = write_archive(folder, output, answers=answers)
    print_result(made.to_dict(), str(made), as_json=as_json)
