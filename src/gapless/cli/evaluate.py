"""`gapless evaluate`: how close a table is to the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.cli.app import Json, SchemaOption, _progress, _working, app, check_spend, notify, source_of
from gapless.cli.terminal import console
from gapless.cli.words import spoken
from gapless.errors import ReadError

if TYPE_CHECKING:
    from gapless.data import Table
    from gapless.schema import Schema


@app.command(
    epilog="Example: `gapless evaluate truth.csv release/ --schema people.toml -o comparison.html`\n\n"
    "A file is compared in the same way: `gapless evaluate truth.csv fake.csv --schema people.toml`. "
    "If it has a column `weight` that is not in the schema, rows count by it."
)
def evaluate(
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="The true table: public, held out, or your own.")],
    fake: Annotated[
        Path, typer.Argument(metavar="FAKE", help="The table that is compared with it: a file, or a release folder.")
    ],
    schema: SchemaOption,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="An HTML page, complete in itself.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Train classifiers too: minutes.")] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="Show this ledger's promise on the page; with --spend, pay from it and not from the one beside TRUTH.",
            show_default=False,
        ),
    ] = None,
    spend: Annotated[
        str | None,
        typer.Option(help="Treat TRUTH as private: noisy counts, paid with this share of the ledger's budget."),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of TRUTH, if it is a text file.", show_default="as the schema says")
    ] = None,
    fake_encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of FAKE; a release has the schema's.", show_default="as the schema says"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how close a table is to the truth: exact and free if you may look at the truth, noisy with --spend."""
    from gapless.data import Table
    from gapless.evaluate import compare, compare_private
    from gapless.files import check_writable
    from gapless.privacy.ledger import check_promised
    from gapless.publish import notify_cautions, rows_file
    from gapless.schema import Schema

    fake = rows_file(fake)
    if output is not None:
        check_writable(output, unlike=(truth, fake, schema, ledger))
        if output.suffix.lower() not in (".html", ".htm"):
            raise ReadError(f"{output} is written as an HTML page", hint=f"-o {output.with_suffix('.html')}")
    public = Schema.read(schema)
    if spend is None:
        with _working("reading"):
            true, other = Table.read(truth, public, encoding=encoding), _fake(fake, public, fake_encoding)
        with _progress("evaluate") as progress:
            result = compare(true, other, tasks=tasks, ledger=ledger, progress=progress)
    elif tasks:
        raise typer.BadParameter("--tasks looks at the cells of the truth, and --spend says that nobody may")
    else:
        other = _fake(fake, public, fake_encoding)
        check_spend(spend)
        source = source_of(truth, public, ledger, None, None, encoding, None, None)
        check_promised(source.ledger, None, hint="ledger=PATH, the ledger of the releases from this table")
        with _working("reading"):
            people = source.read()
        notify_cautions(people.ledger, public, notify)
        with _working("comparing"):
            result = compare_private(people, other, spend=spend)
    if output is not None:
        result.write(output)
    if as_json:
        print(json.dumps(result.to_dict()))
        return
    console.print(str(result))
    if output is not None:
        console.print(f"\n{output}")


def _fake(path: Path, schema: Schema, encoding: str | None) -> Table:
    from gapless.data import Table

    try:
        return Table.read(path, schema, encoding=encoding)
    except ReadError as error:  # the option of the other file would not help
        raise ReadError(error.wrong, hint=spoken(error.hint).replace("--encoding", "--fake-encoding")) from None
