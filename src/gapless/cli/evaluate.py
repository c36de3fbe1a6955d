"""`gapless evaluate`: how close a table is to the truth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.cli.app import Encoding, Json, SchemaOption, _loss, _progress, _read, _working, app, console
from gapless.errors import BudgetError, ReadError

if TYPE_CHECKING:
    from gapless.evaluate import Comparison
    from gapless.schema import Schema


@app.command(epilog="Example: `gapless evaluate truth.csv fake.csv --schema people.toml -o comparison.html`")
def evaluate(
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="The true table: public, held out, or your own.")],
    fake: Annotated[Path, typer.Argument(metavar="FAKE", help="The table that is compared with it.")],
    schema: SchemaOption,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="An HTML page, complete in itself.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Train classifiers too: minutes.")] = False,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Show this ledger's promise on the page.")] = None,
    spend: Annotated[
        str | None,
        typer.Option(help="Treat TRUTH as private: noisy counts, paid with this share of the ledger's budget."),
    ] = None,
    encoding: Encoding = "utf-8",
    as_json: Json = False,
) -> None:
    """Say how close a table is to the truth: exact and free if you may look at the truth, noisy with --spend."""
    from gapless.files import check_writable
    from gapless.schema import Schema

    if output is not None:
        check_writable(output, unlike=(truth, fake, schema, ledger))
        if output.suffix.lower() not in (".html", ".htm"):
            raise ReadError(f"{output} is written as an HTML page", hint=f"-o {output.with_suffix('.html')}")
    public = Schema.read(schema)
    if spend is None:
        result = _looking(truth, fake, public, ledger, encoding, tasks=tasks)
    elif ledger is None:
        raise BudgetError("--spend needs the ledger of the table", hint="--ledger people.ledger --spend 10%")
    elif tasks:
        raise typer.BadParameter("--tasks looks at the cells of the truth, and --spend says that nobody may")
    else:
        result = _paying(truth, fake, public, ledger, encoding, spend)
    if output is not None:
        result.write(output)
    if as_json:
        print(json.dumps(result.to_dict()))
        return
    console.print(str(result))
    if output is not None:
        console.print(f"\n{output}")


def _looking(truth: Path, fake: Path, schema: Schema, ledger: Path | None, encoding: str, *, tasks: bool) -> Comparison:
    from gapless.data import Table
    from gapless.evaluate import compare

    with _working("reading"):
        tables = [Table.read(path, schema, encoding=encoding) for path in (truth, fake)]
    with _progress("evaluate") as progress:
        return compare(*tables, tasks=tasks, ledger=ledger, progress=progress)


def _paying(truth: Path, fake: Path, schema: Schema, ledger: Path, encoding: str, spend: str) -> Comparison:
    from gapless.data import Table
    from gapless.evaluate import compare_private

    other = Table.read(fake, schema, encoding=encoding)
    people = _read(truth, schema, ledger, None, encoding)
    with _working("comparing"):
        return compare_private(people, other, spend=_loss(people, spend))
