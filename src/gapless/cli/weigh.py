"""`gapless weigh`: weights for synthetic rows, so that they describe the private table better."""

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
    _account,
    _ledger,
    _percent,
    _working,
    app,
)
from gapless.cli.terminal import console


@app.command(epilog="Example: `gapless weigh people.csv release/ -s people.toml --spend 20% -o weighted.csv`")
def weigh(
    data: PrivateData,
    fake: Annotated[Path, typer.Argument(metavar="FAKE", help="Synthetic rows: a file, or a release folder.")],
    schema: SchemaOption,
    output: RowsOutput,
    pairs: Annotated[int, typer.Option(min=1, help="How many pairs of columns to measure, at the most.")] = 20,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    ledger: LedgerOption = None,
    spend: Spend = None,
    encoding: Encoding = None,
    engine: Engine = None,
    query: Query = None,
    as_json: Json = False,
) -> None:
    """Weight synthetic rows by a private table: they are written again with a column `weight`."""
    from gapless.publish import make_weights
    from gapless.schema import Schema
    from gapless.weights import CalibrationWeights

    public = Schema.read(schema)
    with _working("weighing"):
        made = make_weights(
            data,
            public,
            fake,
            output,
            percent=None if spend is None else _percent(spend),
            method=CalibrationWeights(pairs=pairs),
            **_account(public, _ledger(data, ledger), epsilon, delta, encoding, engine, query),
        )
    if as_json:
        told = {"file": str(made.path), "statement": str(made.statement), "report": str(made.report)}
        kept = {"rows": len(made.weights), "effective_rows": made.weights.effective_rows}
        print(json.dumps(told | kept | made.balance.to_dict()))
    else:
        console.print(str(made))
