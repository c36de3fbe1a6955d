"""The commands `gapless copies` and `gapless estimate`: inference from a release, for free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gapless.cli import options
from gapless.cli.app import app, progress_bar
from gapless.cli.hints import to_cli_hint
from gapless.cli.terminal import console, print_result

Many = Annotated[int, typer.Option("--copies", min=2, help="Number of copies: 5 are enough, 20 are better.")]


@app.command(epilog="Example: `gapless copies release/ -o copies.csv.gz`")
def copies(
    release: options.ReleaseOrModel,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="A file (.csv, .csv.gz, .tsv, .parquet, .sav, .dta, .xlsx) with a column copy, or a folder of files.",
        ),
    ],
    many: Many = 20,
    seed: options.CopiesSeed = None,
    as_json: options.Json = False,
) -> None:
    """Write copies of a release for inference: their differences show the effect of noise. Free."""
    from gapless.files import check_writable
    from gapless.publish import kept_copies, model_of

    if output.suffix:
        check_writable(output, must_not_exist=True)
    model = model_of(release)
    with (
        progress_bar("learning") as progress,
        kept_copies(model.copies(many, seed=seed, progress=progress), release) as tables,
    ):
        written = tables.write(output)
    files = {"files": [str(path) for path in written], "copies": many}
    print_result(files, f"{many} copies in {output}. Nothing was spent.", as_json=as_json)


@app.command(
    epilog='Example: `gapless estimate release/ "mean(income) by sex"`\n\n'
    'More: `"proportion(smoker == true) where age >= 20"` · `"median(income) by sex"` · `"quantile(income, 0.9)"` · '
    '`"corr(age, income)"` · `"spearman(age, income)"` · `"table(sex, smoker)"` · `"ols(income ~ age + sex)"` · '
    '`"logit(smoker ~ age)"`\n\n'
    "Ask several questions as arguments: copies are made once for all of them."
)
def estimate(
    release: options.ReleaseOrModel,
    questions: Annotated[list[str], typer.Argument(metavar="QUESTION", help='Such as "mean(income) by sex".')],
    many: Many = 20,
    seed: options.CopiesSeed = None,
    as_json: options.Json = False,
) -> None:
    """Estimate from a release, with intervals that cover noise, sampling and gaps. Free: no private row is read."""
    from gapless.inference import columns_used, pool
    from gapless.inference.pooled import FREE
    from gapless.publish import kept_copies, model_of
    from gapless.query import parse_question
    from gapless.query.answers import shared_notes

    model = model_of(release)
    asked = [parse_question(text) for text in questions]
    for question in asked:
        columns_used(question, model.schema)  # refuse an impossible question before anything is learned
    with (
        progress_bar("learning") as progress,
        kept_copies(model.copies(many, seed=seed, progress=progress), release) as tables,
    ):
        pooled = pool(tables, asked)
    if as_json:
        print(json.dumps([result.to_dict() for result in pooled]))
    else:
        for result in pooled:
            console.print("\n".join(result.answers))
        notes = [(note, result.question) for result in pooled for note in result.remarks(to_cli_hint)]
        notes.sort(key=lambda pair: pair[0] == FREE)  # last of all
        for note in shared_notes(notes, len(pooled)):
            console.print(f"  {note}")
