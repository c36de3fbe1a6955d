"""The commands: each one parses its options, calls the library and prints the result."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gapless import __version__
from gapless.cli import options
from gapless.cli.check import print_check
from gapless.cli.codebooks import schema_confirm, schema_from
from gapless.cli.hints import to_cli_hint
from gapless.cli.ledger import EXAMPLE, ledger
from gapless.cli.methods import FitCommand
from gapless.cli.stopping import watch_ledger
from gapless.cli.terminal import console, label, notes, print_result, without_passwords
from gapless.errors import BudgetError, ReadError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless.data import PrivateTable
    from gapless.missing import Check
    from gapless.privacy import Budget, Loss
    from gapless.schema import Schema
    from gapless.synth.fitted import Progress


class Commands(TyperGroup):
    """All commands. Usage errors hide passwords that were typed on the command line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):  # a usage error of typer
                error.message = without_passwords(message, sys.argv[1:])  # type: ignore[attr-defined] # it has one, see above
            raise


app = typer.Typer(
    name="gapless",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Differentially private releases from tables with missing values.\n\nStart with `gapless demo`.",
)
schema_app = typer.Typer(no_args_is_help=True, help="Schemas: the public facts about a table.")
app.add_typer(schema_app, name="schema")
app.command(epilog=EXAMPLE)(ledger)


@app.callback(invoke_without_command=True)
def _version(
    ctx: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        console.print(f"gapless {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        console.print(ctx.get_help())


@app.command(epilog="Example: `gapless demo -o my-first-release`")
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the result.")] = Path("gapless-demo"),
) -> None:
    """Make a release from a bundled incomplete table, start to finish."""
    from importlib.resources import files

    from gapless.evaluate import compare
    from gapless.files import free_name
    from gapless.model.archive import MODEL
    from gapless.schema import Schema
    from gapless.synth import load

    folder = free_name(output)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ReadError(
            f"cannot create the folder '{folder}': {error.strerror}", hint="pass -o and a folder that you may write to"
        ) from None
    data, schema, release = folder / "nhanes.csv.gz", folder / "nhanes.toml", folder / "release"
    for path in (data, schema):
        path.write_bytes((files("gapless.demo") / path.name).read_bytes())
    public = Schema.read(schema)
    console.print(f"The table: {public.description}\n")
    print_check(_check(data, public, None), public)
    console.print("\nNow a release with 80% of a budget of ε = 1, δ = 1e-6:\n")
    synth(data, schema, output=release, epsilon=1.0, delta=1e-6, spend="80%")
    with spinner("comparing"):
        model = load(release / MODEL)
        compare(data, release / "synthetic.csv", schema=public, model=model).write(folder / "comparison.html")
    asked = f"{quote(str(data))} --schema {quote(str(schema))} --spend 10%"
    console.print(
        f"\nWrote {folder.resolve()}\n"
        f"Open {release}/report.html and read {release}/privacy.md.\n"
        f"{folder}/comparison.html has exact numbers: they may be shown because the bundled table is public.\n"
        "Now ask the table a question with the budget that is left:\n"
        f'{_program()} ask {asked} "mean(systolic) where age >= 50 by sex"'
    )


def _program() -> str:
    """Return how to call this program from a shell: as `python -m gapless`, by its name, or by its path."""
    called, found = Path(sys.argv[0]), which("gapless")
    if called.name == "__main__.py":
        return f"{quote(sys.executable)} -m gapless"
    # A caller may pass any text as the name of the program, also one that is no path.
    is_other_file = called.exists() and not (found and Path(found).samefile(called))
    return quote(str(called)) if is_other_file else "gapless"


@schema_app.command("draft", epilog="Example: `gapless schema draft people.csv -o people.toml`")
def schema_draft(
    data: options.Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: print the schema.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the table; a ledger identifies it by this name.")] = None,
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    header_row: options.HeaderRow = None,
    skip_rows: options.SkipRows = 0,
    max_levels: Annotated[
        int, typer.Option("--max-levels", min=1, help="Leave out text columns with more different cells.")
    ] = 60,
) -> None:
    """Draft a schema by LOOKING AT THE DATA. Every fact read from the data is marked."""
    from gapless.data import draft_schema

    number = int(sheet) if sheet is not None and sheet.isdecimal() else sheet
    place: dict[str, Any] = {"sheet": number, "header_row": header_row, "skip_rows": skip_rows}
    draft = draft_schema(data, name=name, encoding=encoding, max_levels=max_levels, **place)
    for line in draft.lines():
        notes.print(line)
    if output is None:
        print(draft.to_toml())
        return
    if output.exists():
        raise SchemaError(f"a draft must be a new file, but '{output}' exists", hint="pass -o and another name")
    draft.write(output)
    notes.print(
        f"Wrote {output}. Lines marked 'read from the data' are private facts: take each from a codebook before a "
        "real release."
    )


schema_app.command("from", epilog="Example: `gapless schema from survey.sav -o survey.toml`")(schema_from)
schema_app.command("confirm", epilog="Example: `gapless schema confirm people.toml`")(schema_confirm)


@app.command(epilog="Example: `gapless check people.csv --schema people.toml`")
def check(
    data: options.Data, schema: options.SchemaOption, encoding: options.Encoding = None, as_json: options.Json = False
) -> None:
    """Check your own data: violations of the schema and gap patterns. For the data holder only, not for release."""
    from gapless.schema import Schema

    public = Schema.read(schema)
    result = _check(data, public, encoding)
    if as_json:
        print(json.dumps({"for": "the holder's eyes", **result.to_dict()}))
    else:
        print_check(result, public)
    if result.refused:
        raise typer.Exit(2)


@app.command(
    cls=FitCommand,
    epilog="Example: `gapless synth people.csv --schema people.toml --epsilon 1 --delta 1e-6 -o release/`\n\n"
    'From a database: `gapless synth postgresql://ada@localhost/registry --query "select age, sex from people" '
    "--schema people.toml --ledger people.ledger --epsilon 1 --delta 1e-6 -o release/`, the password in PGPASSWORD or "
    "~/.pgpass",
)
def synth(
    data: options.PrivateData,
    schema: options.SchemaOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The release folder.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    method: options.Method = "auto",
    missing: options.MissingOption = None,
    always: options.Always = None,
    gaps: options.GapsOption = "filled",
    rows: options.NumberOfRows = None,
    copies: Annotated[
        int | None,
        typer.Option("--copies", min=2, help="Number of copies for inference to add, with a guide to pool them."),
    ] = None,
    seed: options.Seed = None,
    also: options.Also = None,
    ledger: options.LedgerOption = None,
    spend: options.Spend = None,
    encoding: options.Encoding = None,
    engine: options.Engine = None,
    query: options.Query = None,
    expected_rows: options.ExpectedRows = None,
    verbose: options.Verbose = False,
    as_json: options.Json = False,
) -> None:
    """Make a release folder: synthetic data, schema, privacy statement, report, ledger, manifest."""
    from gapless.publish import ReleaseOptions, check_release, release
    from gapless.publish.releases import method_and_reason
    from gapless.schema import Schema

    public = Schema.read(schema)
    options = _fit_options(method, missing, always, expected_rows)
    options |= {"gaps": _gaps(gaps), "rows": rows, "copies": copies, "seed": seed, "also": also or []}
    check_spend(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding=encoding, engine=engine, query=query)
    # Refuse what public facts rule out before the table is read and a ledger is made.
    source.check()
    checked = ReleaseOptions(**options)
    check_release(public, output, checked, ledger=source.ledger, budget=source.budget, all_left=spend is None)
    with progress_bar(method) as progress:
        table = source.read(progress)
        made = release(table, output, spend=spend_or_rest(spend, table), progress=progress, notify=notify, **options)
    written = {"folder": str(output), "files": made.files, "rows": made.rows}
    written |= method_and_reason(made.model) | made.balance.to_dict() | made.usability.to_dict()
    description = f"{made.model.describe()}\n\n" if verbose else ""
    print_result(written, f"{description}{made}", as_json=as_json)


@app.command(
    cls=FitCommand,
    epilog="Example: `gapless fit people.csv -s people.toml --epsilon 1 --delta 1e-6 --spend 50% -o people.model`",
)
def fit(
    data: options.PrivateData,
    schema: options.SchemaOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file.")],
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    method: options.Method = "auto",
    missing: options.MissingOption = None,
    always: options.Always = None,
    ledger: options.LedgerOption = None,
    spend: options.Spend = None,
    encoding: options.Encoding = None,
    engine: options.Engine = None,
    query: options.Query = None,
    expected_rows: options.ExpectedRows = None,
    as_json: options.Json = False,
) -> None:
    """Fit a model under the ledger and save it; sampling from it is free."""
    from gapless.publish import ReleaseOptions, check_model_path, save_model
    from gapless.publish.releases import method_and_reason
    from gapless.schema import Schema

    public = Schema.read(schema)
    options = _fit_options(method, missing, always, expected_rows)
    check_spend(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding=encoding, engine=engine, query=query)
    source.check()
    ReleaseOptions(**options).check(public, source.budget)
    check_model_path(output, ledger=source.ledger)
    with progress_bar(method) as progress:
        table = source.read(progress)
        made = save_model(table, output, spend=spend_or_rest(spend, table), progress=progress, notify=notify, **options)
    written = {"model": str(made.path), "guarantee": asdict(made.guarantee)}
    written |= method_and_reason(made.model) | made.balance.to_dict()
    print_result(written, f"{made.model.describe()}\n{made.guarantee}\n{made.balance}", as_json=as_json)


@app.command(
    epilog="Example: `gapless sample release/ --rows 1000 --seed 7 --given sex=female -o more.csv`\n\n"
    "From a model file: `gapless sample people.model --rows 1000 -o fake.csv`"
)
def sample(
    release: options.ReleaseOrModel,
    output: options.RowsOutput,
    rows: options.NumberOfRows = None,
    seed: options.Seed = None,
    gaps: options.GapsOption = "filled",
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="Fix a column to a value, or to a cell, in every row. Repeatable."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Sample synthetic rows from the model of a release. Free, as often as you like."""
    from gapless.files import check_writable
    from gapless.publish import model_of
    from gapless.text import plural

    check_writable(output, must_not_exist=True)  # the file may be the private table, or part of a release
    with progress_bar("sample") as progress:
        drawn = model_of(release).write_sample(
            output, rows, seed=seed, gaps=_gaps(gaps), given=_given(given or []), progress=progress
        )
    print_result({"file": str(output), "rows": drawn}, f"{plural(drawn, 'row')} in {output}", as_json=as_json)


@app.command(epilog="Example: `gapless verify release/`")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A release folder, as `gapless synth` makes it.")],
    as_json: options.Json = False,
) -> None:
    """Check a release against its manifest: no file missing, changed or added, and all from one release."""
    from gapless.publish import verify_release

    with spinner("verifying"):
        result = verify_release(folder)
    print_result(result.to_dict(), str(result), as_json=as_json)
    if result.problems:
        raise typer.Exit(1)


# ---------------------------------------------------------------------- from options to objects


def _fit_options(
    method: str, missing: str | None, always: list[str] | None, expected_rows: int | None
) -> dict[str, Any]:
    """Return the arguments of a fit: method, treatment of gaps, columns measured jointly, expected rows."""
    from gapless.synth import METHODS, TREATMENTS
    from gapless.text import nearest

    if method not in METHODS:
        raise typer.BadParameter(f"there is no --method {method}. Try: choose {nearest(method, METHODS)}")
    if not (missing is None or missing in TREATMENTS):
        raise typer.BadParameter(f"there is no --missing {missing}. Try: choose {nearest(missing, TREATMENTS)}")
    treatment = None if missing is None else TREATMENTS[missing]()
    return {"method": method, "missing": treatment, "always": _always(always or []), "expected_rows": expected_rows}


@dataclass(frozen=True, slots=True)
class Source:
    """A private table as a command names it. A command reads it after all checks that need no rows."""

    data: Any
    schema: Schema
    ledger: Path
    budget: Budget | None
    reading: dict[str, str | None]  # encoding, engine and query of `gapless.read`

    def check(self) -> None:
        """Refuse data that do not exist, and a new ledger without a budget."""
        from gapless.data.io.reading import check_data, unit_of
        from gapless.privacy.ledger import check_has_budget

        check_data(self.data, self.reading.get("engine"))
        unit_of(self.schema)  # refuses an id without a number of rows
        check_has_budget(self.ledger, self.budget)

    def read(self, progress: Progress | None = None) -> PrivateTable:
        """Read and seal the table."""
        from gapless.data import read
        from gapless.data.io.reading import unit_of

        if progress is not None:
            progress("reading", 0, 1)
        return read(
            self.data, self.schema, protect=unit_of(self.schema), budget=self.budget, ledger=self.ledger, **self.reading
        )


def private_source(
    data: Any, schema: Schema, ledger: Path | None, epsilon: float | None, delta: float | None, **reading: str | None
) -> Source:
    """Return the table with its ledger and budget, and watch the ledger: a stopped command reports what it spent."""
    from gapless.data.io.reading import ledger_beside

    place = ledger or ledger_beside(data)
    watch_ledger(place)
    return Source(data, schema, place, _budget(place, epsilon, delta), reading)


def _budget(ledger: Path, epsilon: float | None, delta: float | None) -> Budget | None:
    """Return the budget: both numbers for a new ledger; for an existing one, its own with the given numbers."""
    from gapless.privacy import Budget, Ledger

    promised = (("epsilon", epsilon), ("delta", delta))
    given: dict[str, Any] = {name: value for name, value in promised if value is not None}
    if len(given) == 2:
        return Budget(**given)
    if not given:
        return None
    if ledger.exists():
        return replace(Ledger.open(ledger).budget, **given)
    if epsilon is None:
        return None
    raise BudgetError(
        "A new ledger needs --delta.",
        hint="add --delta 1e-6 (recommended, less noise) or --delta 0 (pure differential privacy, much more noise)",
    )


def check_spend(spend: str | None) -> None:
    """Refuse a text that is no share of the budget."""
    from gapless.privacy.budget import percent_of

    if spend is not None:
        percent_of(spend)


def spend_or_rest(spend: str | None, table: PrivateTable) -> str | Loss:
    """Return what a command may spend: by default all that is left."""
    return table.ledger.left if spend is None else spend


def notify(sentence: str) -> None:
    """Print a message for the data holder."""
    notes.print(to_cli_hint(sentence))


def _given(options: list[str]) -> dict[str, str]:
    """Parse texts such as sex=female into columns and values."""
    given: dict[str, str] = {}
    for option in options:
        column, sign, value = option.partition("=")
        if not (column and sign and value):
            raise typer.BadParameter(f"--given must be COLUMN=VALUE, got {option!r}. Try: write --given sex=female")
        if column in given:
            raise typer.BadParameter(f"--given names column {column!r} twice. Try: write one value for each column")
        given[column] = value
    return given


def _always(options: list[str]) -> list[tuple[str, ...]]:
    """Parse texts such as age+income into sets of columns."""
    sets = [tuple(option.split("+")) for option in options]
    for option, names in zip(options, sets, strict=True):
        if len(names) < 2 or not all(names) or len(set(names)) < len(names):
            raise typer.BadParameter(
                "--always must name at least two different columns, joined by +, "
                f"got {option!r}. Try: write --always age+income"
            )
    return sets


def _gaps(gaps: str) -> Any:
    if gaps not in ("filled", "as-observed"):
        raise typer.BadParameter(
            f"--gaps must be filled or as-observed, got {gaps!r}. Try: write --gaps filled or --gaps as-observed"
        )
    return gaps


@contextmanager
def progress_bar(method: str) -> Iterator[Progress | None]:
    """Show a progress bar with the phase on a terminal, and nothing in a pipe."""
    if not notes.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn

    with Bar(SpinnerColumn(), *Bar.get_default_columns(), console=notes, transient=True) as bar:
        task = bar.add_task(method, total=None)

        def show(phase: str, done: int, of: int) -> None:
            if done == 0:
                bar.reset(task)  # a finished task does not move
            bar.update(task, description=label(f"{method}: {phase}"), completed=done, total=of)

        yield show


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Show a spinner on a terminal, and nothing in a pipe."""
    if not notes.is_terminal:
        yield
        return
    with notes.status(f"{what} …"):
        yield


def _check(data: Path, schema: Schema, encoding: str | None) -> Check:
    from gapless.missing import check as look

    with spinner("looking"):
        return look(data, schema, encoding=encoding)


import gapless.cli.archive  # noqa: E402 registers its command
import gapless.cli.ask  # noqa: E402 registers its command
import gapless.cli.estimate  # noqa: E402 registers its commands
import gapless.cli.evaluate  # noqa: E402 registers its command
import gapless.cli.weigh  # noqa: E402, F401 registers its command
