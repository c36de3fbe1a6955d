"""The command `gapless ask`: questions to a table under its ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapless.cli.app import (
    Data,
    Delta,
    Encoding,
    Epsilon,
    Json,
    SchemaOption,
    _budget,
    _loss,
    _percent,
    _read,
    app,
    console,
)
from gapless.errors import QuestionError, ReadError

if TYPE_CHECKING:
    from gapless.query import Count, Mean, Proportion, Sum, Variance

EXAMPLES = (
    "Example: `gapless ask people.csv --schema people.toml --ledger people.ledger --spend 10% "
    '"mean(income) where age >= 20 and age < 30" --missing knn --on age,sex`\n\n'
    'More: `"count() by sex"` · `"proportion(smoker == true) where age >= 20"` · `"variance(income, 0, 100000)"` · '
    "`--file questions.txt`, one question on each line, shares --spend evenly."
)


@app.command(epilog=EXAMPLES)
def ask(
    data: Data,
    schema: SchemaOption,
    ledger: Annotated[Path, typer.Option("--ledger", help="The table's ledger; made if there is none.")],
    spend: Annotated[str, typer.Option(help="Share of the whole budget for all questions together, such as 10%.")],
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help='Such as "mean(income) where age >= 20 by sex".')
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Questions, one on each line; # starts a comment.")] = None,
    missing: Annotated[str, typer.Option("--missing", help="drop, knn or hot-deck.")] = "drop",
    on: Annotated[str, typer.Option("--on", help="Columns on which rows are matched: age,sex.")] = "",
    neighbors: Annotated[int, typer.Option(min=1, help="For knn: rows that fill a gap.")] = 1,
    scheme: Annotated[str | None, typer.Option(help="For knn: nearest, mean or majority.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="For hot-deck: how often a row may give.")] = 1,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    encoding: Encoding = "utf-8",
    preview: Annotated[
        bool, typer.Option("--preview", help="Tell the noise to expect; reads and spends nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer questions under the ledger: counts, proportions, sums, means, variances, also in groups."""
    from gapless.privacy import Ledger
    from gapless.query import preview as look_ahead
    from gapless.schema import Schema

    public = Schema.read(schema)
    questions = _questions(question, file, _treatment(missing, on, neighbors, scheme, limit))
    budget = _budget(epsilon, delta, ledger)
    # What cannot be answered, or not with so little, is told before anything is spent.
    promise = budget or Ledger.open(ledger).budget
    each = _percent(spend) / len(questions)
    told: list[Any] = [look_ahead(one, public, budget=promise, percent=each) for one in questions]
    if not preview:
        people = _read(data, public, ledger, budget, encoding)
        share = _loss(people, spend)
        people.ledger.grant(share, to="ask")  # all of it must be there, or nothing is asked
        told = [people.ask(one, spend=share / len(questions)) for one in questions]
    if as_json:
        print(json.dumps([one.to_dict() for one in told]))
        return
    for one in told:
        console.print(str(one))


def _questions(text: str | None, file: Path | None, missing: Any) -> list[Count | Proportion | Sum | Mean | Variance]:
    from gapless.query import parse_question

    texts = [] if text is None else [text]
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            raise ReadError(f"cannot read {file}", hint="a text file with a question on each line") from None
        texts += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not texts:
        raise QuestionError("no question", hint='"count()", or --file questions.txt')
    return [parse_question(one, missing) for one in texts]


def _treatment(missing: str, on: str, neighbors: int, scheme: str | None, limit: int) -> Any:
    from gapless.query import Drop, HotDeck, Knn

    columns = [name.strip() for name in on.split(",") if name.strip()]
    if missing == "drop":
        if columns:
            raise typer.BadParameter("--on is for --missing knn or hot-deck")
        return Drop()
    if missing == "knn":
        if not columns:
            raise typer.BadParameter("--missing knn needs --on, the columns on which rows are matched: --on age,sex")
        return Knn(on=columns, neighbors=neighbors, scheme=scheme or ("nearest" if neighbors == 1 else "mean"))  # type: ignore[arg-type] # checked by Knn
    if missing == "hot-deck":
        return HotDeck(cells=columns, limit=limit)
    raise typer.BadParameter(f"no treatment of gaps {missing!r}. Try: drop, knn, hot-deck")
