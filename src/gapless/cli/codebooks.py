"""The commands `gapless schema from` and `gapless schema confirm`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.cli.terminal import console, notes
from gapless.errors import SchemaError

if TYPE_CHECKING:
    from gapless.schema import Schema
    from gapless.schema.columns import Column

CodebookFile = Annotated[
    Path,
    typer.Argument(
        metavar="CODEBOOK",
        help="SPSS (.sav, .por), Stata (.dta) or SAS (.sas7bdat, .xpt) file; Data Package, Table Schema or CSVW "
        "(.json); DDI-Codebook (.xml); REDCap data dictionary or table of codes (.csv, .xlsx).",
    ),
]
SchemaFile = Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema file.")]


def schema_from(
    codebook: CodebookFile,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: print the schema.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the table; a ledger identifies it by this name.")] = None,
    table: Annotated[
        str | None, typer.Option(help="Table, file or sheet to use, if the codebook describes several.")
    ] = None,
    catalog: Annotated[
        Path | None, typer.Option(help="Value labels of a .sas7bdat file (.sas7bcat).", show_default=False)
    ] = None,
) -> None:
    """Make a schema from a codebook. No row of data is read."""
    from gapless.schema.codebooks import read_codebook
    from gapless.text import plural

    if output is not None and output.exists():
        raise SchemaError(f"the schema must be a new file, but '{output}' exists", hint="pass -o and another name")
    found = read_codebook(codebook, name=name, table=table, catalog=catalog)
    if output is None:
        print(found.to_toml())
    else:
        found.write(output)
    if found.asked:
        notes.print("The codebook does not say all that a schema needs. Look at each of these:")
        for line in found.asked:
            notes.print(f"  {line}")
    if output is not None:
        proposed = len(found.schema.unconfirmed)
        columns = plural(len(found.schema.file_columns), "column")
        rest = f", {proposed} of them not confirmed. Check these, then run `gapless schema confirm {output}`."
        notes.print(f"Wrote {output}: {columns}{rest if proposed else '.'}")


def schema_confirm(
    schema: SchemaFile,
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COLUMN]...", help="Columns to confirm. Default: all that are not confirmed."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Only list the columns that are not confirmed.")] = False,
) -> None:
    """Mark columns as checked whose facts were proposed or read from the data.

    Run it with --list first, and compare the listed facts with a codebook or with common knowledge.
    """
    from gapless.schema import Schema
    from gapless.schema.codebooks import needs_bounds
    from gapless.text import listing, nearest, plural, visible

    known = Schema.read(schema)
    left = {column.name: column for column in known.unconfirmed}
    for name in columns or ():
        if name not in left:
            wrong = f"{name!r} is confirmed already, or is not a column of the schema"
            raise SchemaError(wrong, hint=f"use {nearest(name, left)}" if left else "run the command without columns")
    chosen = [left[name] for name in columns] if columns else list(left.values())
    if not left:
        console.print(f"Nothing is left to confirm in {schema}.")
        return
    for column in chosen:
        console.print(visible(f"{column.name}: {_facts(column)}"))
    if show:
        return
    lacking = [column.name for column in chosen if needs_bounds(column)]
    ready = [column.name for column in chosen if column.name not in lacking]
    if ready and sys.stdin.isatty():
        typer.confirm(f"Did you check these facts of {plural(len(ready), 'column')}?", abort=True)
    if ready:
        _write_confirmed(schema, known, ready)
        console.print(f"Confirmed in {schema}: {listing(ready)}")
    if lacking:
        raise SchemaError(
            f"bounds are not known for {listing(map(repr, lacking))}",
            hint=f"write the lowest and the highest possible value of each into {schema}, then run this command again",
        )


def _facts(column: Column) -> str:
    """What a holder confirms about a column, on one line."""
    from gapless.schema import toml
    from gapless.schema.codebooks import needs_bounds
    from gapless.schema.columns_toml import column_keys
    from gapless.text import shortened

    keys = {key: value for key, value in column_keys(column).items() if key != "description"}
    origin = {"data": "read from the data", "proposed": "proposed"}[keys.pop("origin")]
    facts = {key: toml.written(value) for key, value in keys.items()}
    if needs_bounds(column):
        facts["bounds"] = "NOT KNOWN"
    return shortened(", ".join(f"{key} = {value}" for key, value in facts.items()), 300) + f" ({origin})"


def _write_confirmed(path: Path, schema: Schema, names: list[str]) -> None:
    """Mark columns as typed in the file; keep its comments if its lines can be edited one by one."""
    from gapless.schema import Schema, toml

    expected = schema.confirmed(names)
    text = path.read_text(encoding="utf-8")
    edited = _edited(text, set(names))
    if not expected.unconfirmed:
        edited = _without_questions(edited)
    try:
        is_same = Schema.from_toml(edited) == expected
    except SchemaError:
        is_same = False
    toml.write(path, edited if is_same else expected.to_toml())


def _edited(text: str, names: set[str]) -> str:
    """The text with `origin = "typed"` in the sections of these columns, without the marks of a draft.

    Bounds that were not known are known now, so their comment goes too.
    """
    import tomllib

    from gapless.schema.columns_toml import run_of

    lines, is_chosen = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            try:
                content = tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                content = {}
            section = next(iter(content.get("column", {})), "") if isinstance(content.get("column"), dict) else ""
            is_chosen = bool(section) and names >= set(run_of(section) or [section])
        lines.append(_confirmed_line(line) if is_chosen else line)
    return "".join(lines)


def _confirmed_line(line: str) -> str:
    """A line of a confirmed column: its origin is typed, and comments on where facts came from are gone."""
    from gapless.schema.codebooks.codebook import NO_BOUNDS

    line = re.sub(r"""^(\s*origin\s*=\s*)(["'])(?:data|proposed)\2""", r'\1"typed"', line)
    line = re.sub(r"\s*# (?:read from the data|as the data are written)[^\"']*$", "\n", line)
    return re.sub(rf"\s*# {re.escape(NO_BOUNDS)}.*$", "", line)


def _without_questions(text: str) -> str:
    """The text without the list of what to look at before confirming, which is in the comments at its head."""
    from gapless.schema.codebooks.codebook import QUESTIONS_BELOW

    lines = text.splitlines(keepends=True)
    head = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    begin = next((place for place, line in enumerate(lines[:head]) if line.startswith(QUESTIONS_BELOW)), head)
    end = begin + 1
    while end < head and lines[end].startswith("# - "):
        end += 1
    return "".join(lines[:begin] + lines[end:] if begin < head else lines)
