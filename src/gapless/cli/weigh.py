"""The command `gapless weigh`: weights for synthetic rows, so that they describe the private table better."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapless.cli import options
from gapless.cli.app import app, check_spend, notify, private_source, spend_or_rest, spinner
from gapless.cli.terminal import print_result


@app.command(epilog="Example: `gapless weigh people.csv release/ -s people.toml --spend 20% -o weighted.csv`")
def weigh(
    data: options.PrivateData,
    fake: Annotated[Path, typer.Argument(metavar="FAKE", help="Synthetic rows: a file, or a release folder.")],
    schema: options.SchemaOption,
    output: options.RowsOutput,
    pairs: Annotated[int, typer.Option(min=1, help="Largest number of pairs of columns to measure.")] = 20,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    ledger: options.LedgerOption = None,
    spend: options.Spend = None,
    encoding: options.Encoding = None,
    engine: options.Engine = None,
    query: options.Query = None,
    as_json: options.Json = False,
) -> None:
    """Weight synthetic rows by a private table, and write them with a column `weight`."""
    from gapless.publish import check_weighing
    from gapless.publish import weigh as weigh_rows
    from gapless.schema import Schema
    from gapless.weights import CalibrationWeights

    public = Schema.read(schema)
    check_spend(spend)
    source = private_source(data, public, ledger, epsilon, delta, encoding=encoding, engine=engine, query=query)
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
    files = {"file": str(made.path), "statement": str(made.statement), "report": str(made.report)}
    sizes = {"rows": len(made.weights), "effective_rows": made.weights.effective_rows}
    print_result(files | sizes | made.balance.to_dict(), str(made), as_json=as_json)
