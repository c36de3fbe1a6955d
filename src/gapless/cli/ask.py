"""The command `gapless ask`: questions to a table under its ledger."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.cli import options
from gapless.cli.app import app, notify, private_source, spinner
from gapless.cli.terminal import console, notes
from gapless.errors import GaplessError, QuestionError, ReadError
from gapless.files import MEGABYTE, read_limited

if TYPE_CHECKING:
    from gapless.publish import Balance
    from gapless.query import Answer
    from gapless.query.compiled import CompiledQuestion
    from gapless.query.parsing import AnyQuestion
    from gapless.query.treatments import Preview

EXAMPLES = (
    "Example: `gapless ask people.csv --schema people.toml --spend 10% "
    '"mean(income) where age >= 20" --missing hot-deck --on sex,region`\n\n'
    'More: `"count() by sex"` · `"proportion(smoker == true) where age >= 20"` · `"variance(income, 0, 100000)"` · '
    '`"median(income) by sex, region"` · `"quantile(income, 0.9) where age >= 33"` · `"table(sex, smoker)"`\n\n'
    'With several rows per person: `"mean(income) per person"` · `"rows_per_person(20)"`\n\n'
    "Ask several questions as arguments, or in `--file questions.txt`, one on each line. They share --spend evenly. "
    "All are checked before any is charged. They are charged together. With `--missing knn`, or a quantile among "
    "them, they are charged one after the other, and each answer is printed as soon as it is paid for.\n\n"
    "Rows cannot be matched on a column of the question that may be missing. `--missing knn` needs a share above "
    "ε = ln 2 for each sum."
)
COMMENT = re.compile(r"""^((?:[^#"']|"[^"]*"|'[^']*')*)#.*""")  # a # within quotes begins none


@app.command(epilog=EXAMPLES)
def ask(
    data: options.PrivateData,
    schema: options.SchemaOption,
    spend: Annotated[
        str,
        typer.Option(help="Share of the whole budget for all questions together, such as 10%; they share it evenly."),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION", help='Such as "mean(income) where age >= 20 by sex, region"; there may be several.'
        ),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Questions, one on each line; # starts a comment.")] = None,
    missing: Annotated[str, typer.Option("--missing", help="drop, knn or hot-deck.")] = "drop",
    on: Annotated[str, typer.Option("--on", help="Columns to match rows on: age,sex.")] = "",
    neighbors: Annotated[
        int | None, typer.Option(min=1, max=1000, help="For knn: number of rows that fill a gap.")
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="For knn: nearest, mean or majority.")] = None,
    cover: Annotated[
        str | None,
        typer.Option(help="For knn: some columns of --on, for a bound that is computed faster and is wider."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="For hot-deck: how often a row may be a donor.")] = None,
    ledger: options.LedgerOption = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    encoding: options.Encoding = None,
    engine: options.Engine = None,
    query: options.Query = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Print the expected noise; reads and spends nothing.")
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="For --preview: approximate number of rows in an answer, or in a group of it. "
            "Default: expected_rows of the schema, without persons.",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Answer questions under the ledger: counts, shares, sums, means, variances, quantiles and cross tables."""
    from gapless.privacy import Ledger
    from gapless.privacy.budget import percent_of, share_of
    from gapless.privacy.ledger import check_has_budget
    from gapless.publish import Balance, notify_cautions
    from gapless.query import ask_all
    from gapless.query.ask import preview_compiled
    from gapless.schema import Schema

    if rows is not None and not preview:
        raise typer.BadParameter("--rows is only for --preview. Try: add --preview, or leave out --rows")
    public = Schema.read(schema)
    questions = _questions(texts or [], file, _treatment(missing, on, neighbors, scheme, cover, limit))
    percent = percent_of(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding=encoding, engine=engine, query=query)
    if preview:  # reads no table, so it need not exist yet
        check_has_budget(source.ledger, source.budget)
    else:
        source.check()
    # Refuse questions that cannot be answered, or not with this share, before anything is read.
    promise = source.budget or Ledger.open(source.ledger).budget
    share = share_of(promise.capacity, f"{percent / len(questions)}%")
    asked: list[CompiledQuestion] = []
    ahead: list[Preview] = []
    for where, question in questions:
        with _locate_errors(where):
            asked.append(question.compile(public))
            ahead.append(preview_compiled(asked[-1], share, rows))
    if preview:
        _print_previews(ahead, percent, as_json=as_json)
        if source.ledger.exists() and not (known := Ledger.open(source.ledger)).share(spend).fits_in(known.left):
            notes.print(f"{spend} is more than the {known.percentages()[1]:.2f}% of the budget that is left.")
        return
    with spinner("reading"):
        people = source.read()
    notify_cautions(people.ledger, public, notify)
    people.ledger.grant(spend, to="ask")  # refuse a share that is not left before any answer is printed
    shown = _AnswerPrinter([question for _, question in questions], percent, as_json=as_json)
    try:
        ask_all(people, asked, spend=spend, answered=shown.add)
    finally:  # print what was paid for even if a later question fails
        shown.end(Balance.of(people.ledger))


def _shared_evenly(questions: int, percent: float) -> str:
    return f"{questions} questions share {percent:g}% of the budget evenly: {percent / questions:.4g}% each."


class _AnswerPrinter:
    """Prints each answer as soon as it is paid for, and notes that several answers share once."""

    def __init__(self, questions: list[AnyQuestion], percent: float, *, as_json: bool) -> None:
        self.questions, self.percent, self.as_json = questions, percent, as_json
        self.several = len(questions) > 1
        self.answers: list[Answer] = []
        if self.several and not as_json:
            console.print(_shared_evenly(len(questions), percent))

    def add(self, answer: Answer) -> None:
        """Print an answer. JSON is printed at the end, for all answers together."""
        from gapless.query.answers import indented

        self.answers.append(answer)
        if not self.as_json:
            short = "\n".join([answer.estimates_text, *indented(answer.measures, answer.paid_by)])
            console.print(short if self.several else str(answer))
            sys.stdout.flush()

    def end(self, balance: Balance) -> None:
        """Print notes that all answers share, the rest of the budget, and the questions without an answer."""
        from gapless.query.answers import shared_notes

        if self.as_json:
            answers = [answer.to_dict() for answer in self.answers]
            share = {"percent_each": self.percent / len(self.questions)}
            print(json.dumps({"answers": answers} | share | balance.to_dict()), flush=True)
        else:
            if self.several:
                pairs = [
                    (note, answer.question)
                    for answer in self.answers
                    for note in (answer.interval_note, answer.protects)
                ]
                for note in shared_notes(pairs, len(self.answers)):
                    console.print(note)
            console.print(str(balance))
        for question in self.questions[len(self.answers) :]:
            notes.print(f"not answered: {question}")


def _print_previews(ahead: list[Preview], percent: float, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([shown.to_dict() | {"percent": percent / len(ahead)} for shown in ahead]))
        return
    if len(ahead) > 1:
        console.print(_shared_evenly(len(ahead), percent))
    for shown in ahead:
        console.print(str(shown))
    if any(shown.depends_on_rows and shown.rows is None for shown in ahead):
        sys.stdout.flush()
        notes.print(
            "The noise depends on how many rows or persons an answer is about, which is private. "
            "Try: add --rows 3000, or your own estimate of that number"
        )


@contextmanager
def _locate_errors(place: str) -> Iterator[None]:
    """Put the place of a question in front of its errors."""
    try:
        yield
    except GaplessError as error:
        raise type(error)(place + error.message, hint=error.hint) from None


def _questions(arguments: list[str], file: Path | None, missing: Any) -> list[tuple[str, AnyQuestion]]:
    """Return each question with its place in the arguments or the file."""
    from gapless.query import parse_question

    texts = [(f"question {number}: " if len(arguments) > 1 else "", asked) for number, asked in enumerate(arguments, 1)]
    if file is not None:
        try:
            lines = read_limited(file, MEGABYTE).decode().splitlines()
        except OSError as error:
            hint = "check that the file exists and that you may read it"
            raise ReadError(f"cannot read {file}: {error.strerror}", hint=hint) from None
        except UnicodeDecodeError:
            hint = "save the file as UTF-8 text, with a question on each line"
            raise ReadError(f"cannot read {file}: it is not UTF-8 text", hint=hint) from None
        for number, line in enumerate(lines, 1):
            if asked := COMMENT.sub(r"\1", line).strip():
                texts.append((f"{file}, line {number}: ", asked))
    if not texts:
        raise QuestionError(
            "the command names no question", hint='add a question such as "count()", or --file questions.txt'
        )
    questions = []
    for place, asked in texts:
        with _locate_errors(place):
            questions.append((place, parse_question(asked, missing)))
    return questions


def _treatment(
    missing: str, on: str, neighbors: int | None, scheme: str | None, cover: str | None, limit: int | None
) -> Any:
    from gapless.query import Drop, HotDeck, Knn

    given = {"--on": on or None, "--neighbors": neighbors, "--scheme": scheme, "--cover": cover, "--limit": limit}
    takes = {"drop": (), "knn": ("--on", "--neighbors", "--scheme", "--cover"), "hot-deck": ("--on", "--limit")}
    if missing not in takes:
        raise typer.BadParameter(f"there is no --missing {missing}. Try: choose one of: {', '.join(takes)}")
    for option, value in given.items():
        if value is not None and option not in takes[missing]:
            fitting = " and ".join(f"--missing {name}" for name, options in takes.items() if option in options)
            raise typer.BadParameter(f"{option} is only for {fitting}. Try: leave out {option}")
    if missing == "drop":
        return Drop()
    if missing == "hot-deck":
        return HotDeck(on=_names(on), limit=limit or 1)
    if not _names(on):
        raise typer.BadParameter("--missing knn needs columns to match rows on. Try: add --on age,sex")
    return Knn(
        on=_names(on),
        neighbors=neighbors or 1,
        scheme=scheme or ("nearest" if neighbors in (None, 1) else "mean"),  # type: ignore[arg-type] # checked by Knn
        cover=None if cover is None else _names(cover),
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
