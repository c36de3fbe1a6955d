"""Weights for synthetic rows that are there already, in one call: read, fit, write the rows with their weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapless.data import Table
from gapless.data.checks import check_comparable
from gapless.data.io.reading import is_file
from gapless.data.io.source import check_there
from gapless.data.private_table import ledger_beside
from gapless.data.table import check_ending
from gapless.files import check_writable, replace
from gapless.privacy import Budget, Guarantee, Ledger, Rows
from gapless.privacy.budget import check_budget, check_percent
from gapless.privacy.ledger import check_promised
from gapless.privacy.ledger_file import seal_of
from gapless.publish.folder import rows_file
from gapless.publish.opening import Balance, Tell, open_table
from gapless.report.release_page import weights_page
from gapless.report.statement import protection, recorded
from gapless.schema import Schema
from gapless.text import markdown
from gapless.weights import CalibrationWeights, FewRowsWarning, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedFile:
    """Synthetic rows that were written with their weights.

    Attributes:
        path: the file of rows, the last column of which is `weight`.
        statement: the file that says what was spent, beside it.
        report: the page that shows what the weights do to the rows, beside it.
        weights: the weights.
        guarantee: what is promised for all that the ledger has recorded.
        balance: how the table's account stands, and where its ledger lies.
    """

    path: Path
    statement: Path
    report: Path
    weights: Weights
    guarantee: Guarantee
    balance: Balance

    def __str__(self) -> str:
        files = f"{self.path}\n{self.statement}\n{self.report}"
        return "\n".join([str(self.guarantee), str(self.weights), files, f"\n{self.balance}"])


def make_weights(
    data: Any,
    schema: Schema,
    fake: str | Path,
    path: str | Path,
    *,
    protect: Rows,
    budget: Budget | None = None,
    ledger: str | Path | None = None,
    percent: float | None = None,
    method: CalibrationWeights | None = None,
    encoding: str | None = None,
    engine: str | None = None,
    query: str | None = None,
    tell: Tell | None = None,
) -> WeightedFile:
    """Weight synthetic rows by a sensitive table, and write them with a column `weight`, a statement and a report.

    Args:
        data: the sensitive table, as for `make_release`.
        schema: what is publicly known of both.
        fake: a file of synthetic rows, or a release folder.
        path: where to write them with their weights: a CSV (also .csv.gz, .tsv) or Parquet file.
        protect: the protected unit.
        budget: the promise; needed for a new ledger, and must agree with an existing one.
        ledger: the file that remembers what was spent on this table; by default it lies beside the data.
        percent: the share of the whole budget to spend; by default all that is left.
        method: how to weight; by default `CalibrationWeights()`.
        encoding: of the sensitive table, if it is a text file.
        engine: where the sensitive rows are counted, as `read` takes it.
        query: what is read from a database, as `read` takes it.
        tell: called with sentences for the holder.
    """
    fake, path = Path(fake), Path(path)
    if percent is not None:
        check_percent(percent)
    check_budget(budget)
    if is_file(data, engine):
        check_there(Path(data))
    place = ledger_beside(data) if ledger is None else Path(ledger)
    check_promised(place, budget)
    rows = Table.read(rows_file(fake), schema)
    rows.with_weights([1.0] * rows.rows)  # refuses, before anything is spent, a schema with a column of this name
    check_ending(path)
    statement, report = (path.with_name(f"{path.name}.{ending}") for ending in ("privacy.md", "report.html"))
    for written in (path, statement, report):
        check_writable(written, unlike=(fake, place, seal_of(place)), new=True)
    source = {"encoding": encoding, "engine": engine, "query": query}
    people = open_table(data, schema, protect=protect, budget=budget, ledger=place, tell=tell, **source)
    check_comparable(people.schema, rows.schema)
    before = people.ledger.percentages()[0]
    spend = people.ledger.share_as_told(percent=percent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        weights = (method or CalibrationWeights()).fit(people, rows, spend=spend)
    if tell is not None and weights.caution:
        tell(f"Warning: {weights.caution}")
    rows.with_weights(weights).write(path)
    with replace(statement) as partial:
        spent = people.ledger.percentages()[0] - before
        partial.write_text("\n".join(_statement(weights, path, people.ledger, schema, spent)), encoding="utf-8")
    with replace(report) as partial:
        partial.write_text(weights_page(rows, weights, people.ledger), encoding="utf-8")
    return WeightedFile(
        path=path,
        statement=statement,
        report=report,
        weights=weights,
        guarantee=people.ledger.guarantee(),
        balance=Balance.of(people.ledger, place),
    )


def _statement(weights: Weights, path: Path, ledger: Ledger, schema: Schema, spent: float) -> Iterator[str]:
    yield from (
        f"# Privacy statement: weights of {markdown(path.name)}",
        "",
        f"**{markdown(str(ledger.guarantee()))}**",
        "",
        f"- Weights: {markdown(str(weights))}.",
        f"- Spent on the weights: {spent:.2f}% of the budget ({ledger.budget}); what made the rows is counted in the "
        "promise if it stands in the same ledger, listed below.",
        "- The weights are a function of the noisy values listed below and of the synthetic rows alone.",
        *(f"- Warning: {markdown(caution)}." for caution in (weights.caution,) if caution),
        f"- Report: {markdown(path.name)}.report.html was made from the synthetic rows and their weights alone, for "
        "free.",
        "",
        *protection(ledger, schema),
        *recorded(ledger),
    )
