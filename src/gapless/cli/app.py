"""The commands. Each parses its options, calls the library and prints; nothing is computed here."""

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
from gapless.cli.hints import to_cli_hint
from gapless.cli.ledger import EXAMPLE, ledger
from gapless.cli.methods import FitCommand
from gapless.cli.stopping import watch_ledger
from gapless.cli.terminal import console, label, notes, without_passwords
from gapless.errors import BudgetError, ReadError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gapless.data import PrivateTable
    from gapless.missing import Check
    from gapless.missing.check import ColumnCheck
    from gapless.privacy import Budget, Loss
    from gapless.schema import Schema
    from gapless.synth.fitted import Progress


class Commands(TyperGroup):
    """All commands. What is wrong with a command is said without the passwords in it."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):  # of typer: a word too many, no such option
                error.message = without_passwords(message, sys.argv[1:])  # type: ignore[attr-defined]
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
schema_app = typer.Typer(no_args_is_help=True, help="Schemas: what is publicly known of a table.")
app.add_typer(schema_app, name="schema")
app.command(epilog=EXAMPLE)(ledger)

_INPUT = "A CSV (.csv, .csv.gz, .tsv), Parquet (.parquet) or .xlsx file"
Data = Annotated[Path, typer.Argument(metavar="DATA", help=f"{_INPUT}.")]
RowsOutput = Annotated[
    Path, typer.Option("--output", "-o", help="A CSV (.csv, .csv.gz, .tsv) or Parquet (.parquet) file.")
]
ReleaseOrModel = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder, or a model file.")]


def _file_or_url(text: str) -> Any:
    """A path; the URL of a database as it is, since it would lose a slash."""
    from gapless.data.io.address import is_database

    return text if is_database(text) else Path(text)


PrivateData = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        parser=_file_or_url,
        help=f"{_INPUT}; or postgresql://user@host/database, with --query.",
    ),
]
Query = Annotated[
    str | None,
    typer.Option("--query", help='What to read from a database: "select age, sex from people".', show_default=False),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Where rows are counted: memory, disk, duckdb, sql or spark. By default where they lie; a file in memory.",
        show_default=False,
    ),
]
SchemaOption = Annotated[Path, typer.Option("--schema", "-s", help="The schema, a TOML file.")]
Epsilon = Annotated[float | None, typer.Option(help="The promise ε, for a new ledger.")]
Delta = Annotated[
    float | None,
    typer.Option(help="The promise δ, for a new ledger: 1e-6 is usual; 0 for pure differential privacy, more noise."),
]
Spend = Annotated[
    str | None, typer.Option(help="Share of the whole budget to spend: 50%, or 50. By default all that is left.")
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="The table's ledger, made if there is none. By default it lies beside DATA: people.ledger for people.csv.",
        show_default=False,
    ),
]
Method = Annotated[str, typer.Option("--method", "-m")]  # FitCommand knows the help of these two
MissingOption = Annotated[str | None, typer.Option("--missing")]
Always = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN+COLUMN",
        help="Columns to measure in one table for certain, for estimates with intervals; by aim. Repeatable.",
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Repeat a sample. Noise cannot be seeded.")]
NumberOfRows = Annotated[int | None, typer.Option("--rows", min=0, help="Rows to sample; by default the noisy total.")]
GapsOption = Annotated[str, typer.Option("--gaps", help="filled, or as-observed to draw the gaps as well.")]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text file, else as the schema says.", show_default="utf-8")
]
ExpectedRows = Annotated[
    int | None,
    typer.Option(
        "--expected-rows",
        min=1,
        help="About how many rows there are, if public; for auto. By default expected_rows of the schema.",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tell what was measured, and with how much noise.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a machine.")]


@app.callback(invoke_without_command=True)
def _version(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
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
    from gapless.schema import Schema

    folder = free_name(output)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ReadError(f"cannot make {folder}: {error.strerror}", hint="-o, a folder that is yours") from None
    data, schema, release = folder / "nhanes.csv.gz", folder / "nhanes.toml", folder / "release"
    for path in (data, schema):
        path.write_bytes((files("gapless.demo") / path.name).read_bytes())
    public = Schema.read(schema)
    console.print(f"The table: {public.description}\n")
    _print_check(_check(data, public, None))
    console.print("\nNow a release with 80% of a budget of ε = 1, δ = 1e-6:\n")
    synth(data, schema, output=release, epsilon=1.0, delta=1e-6, spend="80%")
    with spinner("comparing"):
        compare(data, release / "synthetic.csv", schema=public).write(folder / "comparison.html")
    console.print(f"\nThe result lies in {folder.resolve()}")
    console.print(
        f"Open {release}/report.html and read {release}/privacy.md; {folder}/comparison.html has exact numbers,"
    )
    console.print("only because the bundled table is public. Now ask the table something with the budget that is left:")
    asked = f"{_typed(data)} --schema {_typed(schema)} --spend 10%"
    console.print(f'{_program()} ask {asked} "mean(systolic) where age >= 50 by sex"')


def _program() -> str:
    """How this program is called from here: as it was, unless the shell finds it by its name."""
    found = which("gapless")
    return "gapless" if found and Path(found).samefile(sys.argv[0]) else _typed(Path(sys.argv[0]))


def _typed(path: Path) -> str:
    return quote(str(path))


@schema_app.command("draft", epilog="Example: `gapless schema draft people.csv -o people.toml`")
def schema_draft(
    data: Data,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write; else it is printed.")] = None,
    name: Annotated[str | None, typer.Option(help="The table's name, its identity for the ledger.")] = None,
    encoding: Encoding = None,
    max_levels: Annotated[
        int, typer.Option("--max-levels", min=1, help="Leave out text with more different cells.")
    ] = 60,
) -> None:
    """Propose a schema by LOOKING AT THE DATA; every fact read from them is marked."""
    from gapless.data import draft_schema

    draft = draft_schema(data, name=name, encoding=encoding, max_levels=max_levels)
    for column, why in draft.left_out.items():
        notes.print(f"left out {column or 'the first column'}: {why}")
    for column, remark in draft.remarks.items():
        notes.print(f"look at {column}: {remark}")
    if output is None:
        print(draft.to_toml())
        return
    if output.exists():
        raise SchemaError(f"{output} exists", hint="another name with -o, so that no work of yours is lost")
    draft.write(output)
    notes.print(
        f"Wrote {output}. Lines marked 'read from the data' are private facts: take each from a codebook before a "
        "real release."
    )


@app.command(epilog="Example: `gapless check people.csv --schema people.toml`")
def check(data: Data, schema: SchemaOption, encoding: Encoding = None, as_json: Json = False) -> None:
    """Look at your own data: violations and gap patterns. For the holder's eyes, not for release."""
    from gapless.schema import Schema

    result = _check(data, Schema.read(schema), encoding)
    if as_json:
        print(json.dumps({"for": "the holder's eyes", **result.to_dict()}))
    else:
        _print_check(result)
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
    data: PrivateData,
    schema: SchemaOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The release folder.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = "auto",
    missing: MissingOption = None,
    always: Always = None,
    gaps: GapsOption = "filled",
    rows: NumberOfRows = None,
    copies: Annotated[
        int | None, typer.Option("--copies", min=2, help="Add so many copies for inference, and how to pool them.")
    ] = None,
    seed: Seed = None,
    ledger: LedgerOption = None,
    spend: Spend = None,
    encoding: Encoding = None,
    engine: Engine = None,
    query: Query = None,
    expected_rows: ExpectedRows = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Make a release folder: synthetic data, schema, privacy statement, report, ledger, manifest."""
    from gapless.publish import ReleaseOptions, check_release, release
    from gapless.schema import Schema

    public = Schema.read(schema)
    options = _fit_options(method, missing, always, expected_rows)
    options |= {"gaps": _gaps(gaps), "rows": rows, "copies": copies, "seed": seed}
    check_spend(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding, engine, query)
    # What public facts refuse is told before the table is read and a ledger is made.
    source.check()
    checked = ReleaseOptions(**options)
    check_release(public, output, checked, ledger=source.ledger, budget=source.budget, all_left=spend is None)
    with progress_bar(method) as progress:
        table = source.read(progress)
        made = release(table, output, spend=spend_or_rest(spend, table), progress=progress, notify=notify, **options)
    if as_json:
        written = {"folder": str(output), "files": made.files, "rows": made.rows}
        print(json.dumps(written | made.balance.to_dict()))
        return
    if verbose:
        console.print(f"{made.model.describe()}\n")
    console.print(str(made))


@app.command(
    cls=FitCommand,
    epilog="Example: `gapless fit people.csv -s people.toml --epsilon 1 --delta 1e-6 --spend 50% -o people.model`",
)
def fit(
    data: PrivateData,
    schema: SchemaOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file.")],
    epsilon: Epsilon = None,
    delta: Delta = None,
    method: Method = "auto",
    missing: MissingOption = None,
    always: Always = None,
    ledger: LedgerOption = None,
    spend: Spend = None,
    encoding: Encoding = None,
    engine: Engine = None,
    query: Query = None,
    expected_rows: ExpectedRows = None,
    as_json: Json = False,
) -> None:
    """Fit a model under the ledger and save it; sampling from it is free."""
    from gapless.publish import ReleaseOptions, check_model_path, save_model
    from gapless.schema import Schema

    public = Schema.read(schema)
    options = _fit_options(method, missing, always, expected_rows)
    check_spend(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding, engine, query)
    source.check()
    ReleaseOptions(**options).check(public, source.budget)
    check_model_path(output, ledger=source.ledger)
    with progress_bar(method) as progress:
        table = source.read(progress)
        made = save_model(table, output, spend=spend_or_rest(spend, table), progress=progress, notify=notify, **options)
    if as_json:
        written = {"model": str(made.path), "guarantee": asdict(made.guarantee)}
        print(json.dumps(written | made.balance.to_dict()))
        return
    console.print(made.model.describe())
    console.print(str(made.guarantee))
    console.print(str(made.balance))


@app.command(
    epilog="Example: `gapless sample release/ --rows 1000 --seed 7 --given sex=female -o more.csv`\n\n"
    "From a model file: `gapless sample people.model --rows 1000 -o fake.csv`"
)
def sample(
    release: ReleaseOrModel,
    output: RowsOutput,
    rows: NumberOfRows = None,
    seed: Seed = None,
    gaps: GapsOption = "filled",
    given: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="What every row has in a column: a value, or a cell. Repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw synthetic rows from the model of a release: free, as often as you like."""
    from gapless.files import check_writable
    from gapless.publish import model_of
    from gapless.text import plural

    check_writable(output, must_not_exist=True)  # it might be the private table, or part of a release
    with progress_bar("sample") as progress:
        drawn = model_of(release).write_sample(
            output, rows, seed=seed, gaps=_gaps(gaps), given=_given(given or []), progress=progress
        )
    if as_json:
        print(json.dumps({"file": str(output), "rows": drawn}))
    else:
        console.print(f"{plural(drawn, 'row')} in {output}")


@app.command(epilog="Example: `gapless verify release/`")
def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A release folder, as `gapless synth` makes it.")],
    as_json: Json = False,
) -> None:
    """Check a release against its manifest: every file there and unchanged, nothing else, and all of one release."""
    from gapless.publish import verify_release

    with spinner("verifying"):
        result = verify_release(folder)
    if as_json:
        print(json.dumps(result.to_dict()))
    else:
        console.print(str(result))
    if result.problems:
        raise typer.Exit(1)


# ---------------------------------------------------------------------- from words to objects


def _fit_options(
    method: str, missing: str | None, always: list[str] | None, expected_rows: int | None
) -> dict[str, Any]:
    """The arguments of a fit: the method, the treatment of gaps, what is always measured jointly, the expected rows."""
    from gapless.synth import METHODS, TREATMENTS
    from gapless.text import nearest

    if method not in METHODS:
        raise typer.BadParameter(f"no method {method!r}. Try: {nearest(method, METHODS)}")
    if not (missing is None or missing in TREATMENTS):
        raise typer.BadParameter(f"no treatment of gaps {missing!r}. Try: {nearest(missing, TREATMENTS)}")
    treatment = None if missing is None else TREATMENTS[missing]()
    return {
        "method": method,
        "missing": treatment,
        "always": _always(always or []),
        "expected_rows": expected_rows,
    }


@dataclass(frozen=True, slots=True)
class Source:
    """A private table as a command names it, to be read after all that can be checked without its rows."""

    data: Any
    schema: Schema
    ledger: Path
    budget: Budget | None
    encoding: str | None
    engine: str | None
    query: str | None

    def check(self) -> None:
        """Refuse data that are not there, and a new ledger without a promise."""
        from gapless.data.io.reading import check_data
        from gapless.privacy.ledger import check_has_budget

        check_data(self.data, self.engine)
        check_has_budget(self.ledger, self.budget)

    def read(self, progress: Progress | None = None) -> PrivateTable:
        """The table, sealed."""
        from gapless.data import read
        from gapless.privacy import Rows

        if progress is not None:
            progress("reading", 0, 1)
        return read(
            self.data,
            self.schema,
            protect=Rows(self.schema.rows_per_person),
            budget=self.budget,
            ledger=self.ledger,
            encoding=self.encoding,
            engine=self.engine,
            query=self.query,
        )


def private_source(
    data: Any,
    schema: Schema,
    ledger: Path | None,
    epsilon: float | None,
    delta: float | None,
    encoding: str | None,
    engine: str | None,
    query: str | None,
) -> Source:
    """The table, its ledger and its promise; a command that is stopped tells what it has spent from the ledger."""
    from gapless.data.io.reading import ledger_beside

    place = ledger or ledger_beside(data)
    watch_ledger(place)
    return Source(data, schema, place, _budget(place, epsilon, delta), encoding, engine, query)


def _budget(ledger: Path, epsilon: float | None, delta: float | None) -> Budget | None:
    """The promise: of a new ledger both numbers, of an existing one those that are repeated."""
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
    """Refuse what is no share of the budget."""
    from gapless.privacy.budget import percent_of

    if spend is not None:
        percent_of(spend)


def spend_or_rest(spend: str | None, table: PrivateTable) -> str | Loss:
    """What may be spent; by default all that is left."""
    return table.ledger.left if spend is None else spend


def notify(sentence: str) -> None:
    """Show a sentence for the holder."""
    notes.print(to_cli_hint(sentence))


def _given(options: list[str]) -> dict[str, str]:
    """Columns and their values from sex=female; a column is told once."""
    given: dict[str, str] = {}
    for option in options:
        column, sign, value = option.partition("=")
        if not (column and sign and value) or column in given:
            raise typer.BadParameter(f"--given {option}. Try: --given sex=female, each column once")
        given[column] = value
    return given


def _always(options: list[str]) -> list[tuple[str, ...]]:
    """Sets of columns from age+income."""
    sets = [tuple(option.split("+")) for option in options]
    for option, names in zip(options, sets, strict=True):
        if len(names) < 2 or not all(names) or len(set(names)) < len(names):
            raise typer.BadParameter(f"--always {option}. Try: --always age+income, different columns")
    return sets


def _gaps(gaps: str) -> Any:
    if gaps not in ("filled", "as-observed"):
        raise typer.BadParameter(f"no gaps {gaps!r}. Try: filled, as-observed")
    return gaps


@contextmanager
def progress_bar(method: str) -> Iterator[Progress | None]:
    """A bar with the phase on a terminal, nothing in a pipe."""
    if not notes.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn

    with Bar(SpinnerColumn(), *Bar.get_default_columns(), console=notes, transient=True) as bar:
        task = bar.add_task(method, total=None)

        def show(phase: str, done: int, of: int) -> None:
            if done == 0:
                bar.reset(task)  # a task that was done stands still
            bar.update(task, description=label(f"{method}: {phase}"), completed=done, total=of)

        yield show


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """A sign of life on a terminal, nothing in a pipe."""
    if not notes.is_terminal:
        yield
        return
    with notes.status(f"{what} …"):
        yield


def _check(data: Path, schema: Schema, encoding: str | None) -> Check:
    from gapless.missing import check as look

    with spinner("looking"):
        return look(data, schema, encoding=encoding)


def _print_check(result: Check) -> None:
    from gapless.missing.check import HIDDEN_VALUES_HINT
    from gapless.text import aligned, plural

    console.print(f"FOR THE HOLDER'S EYES, not for release. {plural(result.rows, 'row')}.")
    if result.rows == 0:
        console.print("The table has a header but no rows.")
    head, *names = aligned(["column", *(column.name for column in result.columns)])
    console.print(f"\n  {head}  {'kind':<12} {'missing':>8}  outside the schema")
    for name, column in zip(names, result.columns, strict=True):
        share = f"{100 * column.gaps / result.rows:.1f}%" if result.rows else "-"
        console.print(f"  {name}  {column.kind:<12} {share:>8}  {_out_of_schema(column)}".rstrip())
    console.print("\nGaps that occur together (■ observed, · missing):\n")
    console.print(result.patterns.picture())
    if result.broken:
        console.print("\nConstraints that rows break; a release keeps to them all the same, unless they are soft:\n")
        for broken in result.broken:
            pairs = "" if broken.pairs is None else f", {broken.pairs:.2%} of pairs"
            console.print(f"  {plural(broken.rows, 'row'):>14}{pairs}  {broken.rule}")
    if hidden := [column.hidden for column in result.columns if column.hidden]:
        console.print("\nBins that hide what is in them:\n")
        for sentence in hidden:
            console.print(f"  {sentence}")
        console.print(f"  Try: {HIDDEN_VALUES_HINT}")
    if result.refused:
        notes.print(
            f"\nReading this file for a release will be refused because of: {', '.join(result.refused)}\n"
            "  Try: mend the cells, or change the schema's rules for these columns"
        )


def _out_of_schema(column: ColumnCheck) -> str:
    """What is wrong with a column, what becomes of it, some examples and some advice."""
    lost = "refused" if column.refused else "gap"
    problems = [
        (column.empty, "empty, but may_be_missing is not true → refused"),
        (column.unreadable, f"not a value → {lost}"),
        (column.outside - column.unreadable, f"outside → {column.rule}"),
    ]
    summary = "; ".join(f"{count} {what}" for count, what in problems if count)
    examples = ", ".join(repr(cell if len(cell) <= 30 else cell[:29] + "…") for cell in column.examples)
    return summary + (f": {examples}" if examples else "") + (f" ({column.advice})" if column.advice else "")


import gapless.cli.ask  # noqa: E402 registers its command
import gapless.cli.estimate  # noqa: E402 registers its commands
import gapless.cli.evaluate  # noqa: E402 registers its command
import gapless.cli.weigh  # noqa: E402, F401 registers its command
