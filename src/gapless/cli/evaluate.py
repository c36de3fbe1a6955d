"""The commands `gapless evaluate`, how close a table is to the truth, and `gapless gap`, gaps for experiments."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.cli import options
from gapless.cli.app import app, check_spend, notify, private_source, progress_bar, spinner
from gapless.cli.hints import to_cli_hint
from gapless.cli.terminal import console, notes, print_result
from gapless.errors import ReadError

if TYPE_CHECKING:
    from gapless.data import Table
    from gapless.missing.gap_mechanisms import MAR, MCAR, MNAR
    from gapless.schema import Schema


@app.command(
    epilog="Example: `gapless evaluate truth.csv release/ --schema people.toml -o comparison.html`\n\n"
    "A file is compared in the same way: `gapless evaluate truth.csv fake.csv --schema people.toml`. "
    "If it has a column `weight` that is not in the schema, its rows are weighted by it."
)
def evaluate(
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="The true table: public, held out, or your own.")],
    fake: Annotated[
        Path, typer.Argument(metavar="FAKE", help="The table that is compared with it: a file, or a release folder.")
    ],
    schema: options.SchemaOption,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write; a single file.")] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="Train classifiers too; takes minutes.")] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger",
            help="Show this ledger's guarantee; with --spend, pay from it instead of from the ledger beside TRUTH.",
            show_default=False,
        ),
    ] = None,
    spend: Annotated[
        str | None,
        typer.Option(
            help="Treat TRUTH as private: compare with noisy counts, paid with this share of the ledger's budget."
        ),
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of TRUTH, if it is a text file.", show_default="as the schema says")
    ] = None,
    fake_encoding: Annotated[
        str | None,
        typer.Option(help="Encoding of FAKE; a release has the schema's.", show_default="as the schema says"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure how close a table is to the truth: exact and free if you may look at the truth, noisy with --spend."""
    from gapless.data import Table
    from gapless.evaluate import compare, compare_private
    from gapless.files import check_writable
    from gapless.model.archive import MODEL
    from gapless.privacy.ledger import check_has_budget
    from gapless.publish import notify_cautions, rows_file
    from gapless.schema import Schema
    from gapless.synth import load

    fake = rows_file(fake)
    released = fake.with_name(MODEL)
    if output is not None:
        check_writable(output, distinct_from=(truth, fake, schema, ledger))
        if output.suffix.lower() not in (".html", ".htm"):
            raise ReadError(
                f"the output is an HTML page, but '{output}' does not end with .html",
                hint=f"pass -o {quote(str(output.with_suffix('.html')))}",
            )
    public = Schema.read(schema)
    if spend is None:
        with spinner("reading"):
            true, other = Table.read(truth, public, encoding=encoding), _fake(fake, public, fake_encoding)
        with progress_bar("evaluate") as progress:
            model = load(released) if released.exists() else None
            result = compare(true, other, tasks=tasks, ledger=ledger, model=model, progress=progress)
    elif tasks:
        raise typer.BadParameter(
            "--tasks reads the cells of TRUTH, but --spend treats them as private. Try: leave out --tasks"
        )
    else:
        other = _fake(fake, public, fake_encoding)
        check_spend(spend)
        source = private_source(truth, public, ledger, None, None, encoding=encoding)
        check_has_budget(
            source.ledger, None, hint="pass the path of the ledger of the releases from this table as --ledger"
        )
        with spinner("reading"):
            people = source.read()
        notify_cautions(people.ledger, public, notify)
        with spinner("comparing"):
            result = compare_private(people, other, spend=spend)
    if output is not None:
        result.write(output)
    written = "" if output is None else f"\n\n{output}"
    print_result(result.to_dict(), f"{result}{written}", as_json=as_json)


def _fake(path: Path, schema: Schema, encoding: str | None) -> Table:
    from gapless.data import Table

    try:
        return Table.read(path, schema, encoding=encoding)
    except ReadError as error:  # name the option of this file, not that of TRUTH
        raise ReadError(error.message, hint=to_cli_hint(error.hint, encoding="--fake-encoding")) from None


@app.command(
    epilog="Example: `gapless gap truth.csv --schema truth.toml --mechanism mar --rate 0.2 --seed 0 -o gapped.csv "
    "--schema-output gapped.toml`"
)
def gap(
    data: options.Data,
    schema: options.SchemaOption,
    output: options.RowsOutput,
    rate: Annotated[
        list[str],
        typer.Option("--rate", "-r", help="Share of gaps: 0.2 for all columns, or income=0.2 for one. Repeatable."),
    ],
    mechanism: Annotated[str, typer.Option("--mechanism", "-m", help="mcar, mar or mnar.")] = "mcar",
    how: Annotated[
        str | None, typer.Option(help="For mnar: logistic (the default), self or quantile.", show_default=False)
    ] = None,
    observed: Annotated[
        list[str] | None,
        typer.Option(help="For mar: a column that stays observed and drives the gaps. Repeatable.", show_default=False),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed, to repeat the same gaps.")] = None,
    schema_output: Annotated[
        Path | None, typer.Option("--schema-output", help="Where to write the schema of the gapped table.")
    ] = None,
    encoding: options.Encoding = None,
    as_json: options.Json = False,
) -> None:
    """Make gaps in a PUBLIC table, for experiments. The other cells do not change. Not for private data."""
    from gapless.data import Table
    from gapless.data.io.source import load_frame
    from gapless.data.io.table_files import write_frame
    from gapless.files import check_writable
    from gapless.missing.check import patterns_of
    from gapless.missing.gap_mechanisms import frame_with_gaps, schema_with_gaps
    from gapless.schema import Schema
    from gapless.text import aligned, plural

    chosen = _mechanism(mechanism, rate, how, observed)
    check_writable(output, distinct_from=(data, schema, schema_output))
    if schema_output is not None:
        check_writable(schema_output, distinct_from=(data, schema))
    public = Schema.read(schema)
    frame = load_frame(data, public, encoding=encoding)
    table = Table.read(frame, public)
    flags = chosen.mask(table, seed=seed)
    write_frame(frame_with_gaps(frame, public, flags), output, public)
    after = schema_with_gaps(public, flags)
    if schema_output is not None:
        after.write(schema_output)
    gaps = [codes >= c.size for codes, c in zip(table.codes, public.columns, strict=True)]
    found = patterns_of(public.names, [old | new for old, new in zip(gaps, flags.T, strict=True)], table.rows)
    if as_json:
        summary = {"file": str(output), "rows": table.rows, "complete_rows": found.complete, "rates": found.rates}
        print(json.dumps(summary))
        return
    console.print(f"{plural(table.rows, 'row')} in {output}, {found.complete:,} of them complete")
    rates = {name: share for name, share in found.rates.items() if share > 0}
    for name, share in zip(aligned(rates), rates.values(), strict=True):
        console.print(f"  {name}  {100 * share:5.1f}% missing")
    if after != public and schema_output is None:
        fresh = [new.name for new, old in zip(after.columns, public.columns, strict=True) if new != old]
        notes.print(
            f"To read it, declare may_be_missing = true for {', '.join(fresh)}. --schema-output writes such a schema."
        )


def _mechanism(name: str, rate: list[str], how: str | None, observed: list[str] | None) -> MCAR | MAR | MNAR:
    from gapless.missing.gap_mechanisms import MECHANISMS
    from gapless.text import nearest

    if name not in MECHANISMS:
        raise typer.BadParameter(f"there is no --mechanism {name}. Try: choose {nearest(name, MECHANISMS)}")
    for option, value, owner in (("--how", how, "mnar"), ("--observed", observed, "mar")):
        if value and name != owner:
            raise typer.BadParameter(f"{option} is only for --mechanism {owner}. Try: leave out {option}")
    more: dict[str, Any] = {key: value for key, value in (("how", how), ("observed", observed)) if value}
    return MECHANISMS[name](_rates(rate), **more)


def _rates(texts: list[str]) -> Any:
    """0.2 for all columns, or income=0.2 for one."""
    rates: dict[str, float] = {}
    for text in texts:
        column, _, value = text.rpartition("=")
        if column in rates:
            raise typer.BadParameter(
                f"--rate is given twice for {column or 'all columns'}. Try: write only --rate {text}"
            )
        try:
            rates[column] = float(value)
        except ValueError:
            rates[column] = -1.0
        if not 0 <= rates[column] <= 1:
            raise typer.BadParameter(
                f"--rate must be a share from 0 to 1, got {text!r}. Try: write --rate 0.2 or --rate income=0.2"
            )
    if "" not in rates:
        return rates
    if len(rates) > 1:
        raise typer.BadParameter(
            "--rate is given for all columns and again for a single column. Try: write one rate for all columns, "
            "or one for each"
        )
    return rates[""]
