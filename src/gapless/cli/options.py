"""The options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_INPUT = "A CSV (.csv, .csv.gz, .tsv), Parquet (.parquet), .xlsx, SPSS (.sav), Stata (.dta) or SAS file"
Data = Annotated[Path, typer.Argument(metavar="DATA", help=f"{_INPUT}.")]
RowsOutput = Annotated[
    Path,
    typer.Option("--output", "-o", help="A .csv, .csv.gz, .tsv, .parquet, .sav, .dta or .xlsx file."),
]
ReleaseOrModel = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder, or a model file.")]


def _file_or_url(text: str) -> Any:
    """Return a path, or the URL of a database unchanged: a path would lose a slash of it."""
    from gapless.data.io.address import is_database

    return text if is_database(text) else Path(text)


PrivateData = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", parser=_file_or_url, help=f"{_INPUT}; or postgresql://user@host/database, with --query."
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--query",
        help='SQL query that reads the rows from a database: "select age, sex from people".',
        show_default=False,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Where to count rows: memory, disk, duckdb, sql or spark. By default files are read into memory, and a "
        "database counts its own rows.",
        show_default=False,
    ),
]
SchemaOption = Annotated[Path, typer.Option("--schema", "-s", help="The schema, a TOML file.")]
Epsilon = Annotated[float | None, typer.Option(help="Privacy budget ε of a new ledger.")]
Delta = Annotated[
    float | None,
    typer.Option(
        help="Privacy budget δ of a new ledger: 1e-6 is usual; 0 is pure differential privacy, with more noise."
    ),
]
Spend = Annotated[
    str | None, typer.Option(help="Share of the whole budget to spend: 50%, or 50. Default: all that is left.")
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="The table's ledger; created if there is none. Default: beside DATA, people.ledger for people.csv.",
        show_default=False,
    ),
]
Method = Annotated[str, typer.Option("--method", "-m")]  # FitCommand writes the help of these two
MissingOption = Annotated[str | None, typer.Option("--missing")]
Always = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN+COLUMN",
        help="Always measure these columns jointly (AIM only); needed for confidence intervals on them. Repeatable.",
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of the sample, to repeat it. Noise cannot be seeded.")]
CopiesSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="Seed of the copies. Default: derived from the release, so the same command gives the same result.",
        show_default=False,
    ),
]
NumberOfRows = Annotated[
    int | None,
    typer.Option("--rows", min=0, help="Number of rows to sample. Default: the noisy number of private rows."),
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FORMAT", help="Also write the rows as sav (SPSS), dta (Stata) or xlsx, with labels. Repeatable."
    ),
]
Sheet = Annotated[
    str | None, typer.Option(help="Name or number of the sheet of an Excel file.", show_default="the first one")
]
HeaderRow = Annotated[
    int | None,
    typer.Option(
        "--header-row", min=1, help="Row of the sheet with the names.", show_default="the first that has a value"
    ),
]
SkipRows = Annotated[
    int, typer.Option("--skip-rows", min=0, help="Rows below the names that are not rows of the table, such as units.")
]
GapsOption = Annotated[str, typer.Option("--gaps", help="filled, or as-observed to sample the gaps too.")]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text file, if the schema has none.", show_default="utf-8")
]
ExpectedRows = Annotated[
    int | None,
    typer.Option(
        "--expected-rows",
        min=1,
        help="Approximate number of rows, if public; used by auto. Default: expected_rows of the schema.",
        show_default=False,
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print what was measured, and how much noise was added.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
