"""The command `gapless weigh`: weights for synthetic rows, so that they describe the private table better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gapless.cli.app import (
    Delta,
    Encoding,
    Engine,
    Epsilon,
    Json,
    LedgerOption,
    PrivateData,
    Query,
    RowsOutput,
    SchemaOption,
    Spend,
    app,
    check_spend,
    notify,
    private_source,
    spend_or_rest,
    spinner,
)
from gapless.cli.terminal import console


@app.command(epilog="Example: `gapless weigh people.csv release/ -s people.toml --spend 20% -o weighted.csv`")
def weigh(
    data: PrivateData,
    fake: Annotated[Path, typer.Argument(metavar="FAKE", help="Synthetic rows: a file, or a release folder.")],
    schema: SchemaOption,
    output: RowsOutput,
    pairs: Annotated[int, typer.Option(min=1, help="Largest number of pairs of columns to measure.")] = 20,
    epsilon: Epsilon = None,
    delta: Delta = None,
    ledger: LedgerOption = None,
    spend: Spend = None,
    encoding: Encoding = None,
    engine: Engine = None,
    query: Query = None,
    as_json: Json = False,
) -> None:
    """Weight synthetic rows by a private table, and write them with a column `weight`."""
    from gapless.publish import check_weighing
    from gapless.publish import weigh as weigh_rows
    from gapless.schema import Schema
    from gapless.weights import CalibrationWeights

    public = Schema.read(schema)
    check_spend(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding, engine, query)
    source.check()
    check_weighing(public, fake, output, ledger=source.ledger)
    with spinner("weighing"):
        table = source.read()
        made = weigh_rows(
            table,
            fake,
            output,
            spend=spend_or_rest(spend, table),
            method=CalibrationWeights(pairs=pairs),
            notify=notify,
        )
    if as_json:
        files = {"file": str(made.path), "statement": str(made.statement), "report": str(made.report)}
        sizes = {"rows": len(made.weights), "effective_rows": made.weights.effective_rows}
        print(json.dumps(files | sizes | made.balance.to_dict()))
    else:
        console.print(str(made))
