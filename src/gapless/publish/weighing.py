"""Weights for synthetic rows that are there already, in one call: fit, write the rows with their weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapless.data import PrivateTable, Table
from gapless.data.checks import check_comparable, check_private
from gapless.data.table import check_ending
from gapless.files import check_writable, write_atomically
from gapless.privacy import Guarantee, Ledger, Loss, Spend
from gapless.privacy.ledger_file import seal_of
from gapless.publish.balance import Balance, Notify, notify_cautions
from gapless.publish.folder import rows_file
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


def weigh(
    table: PrivateTable,
    fake: str | Path,
    path: str | Path,
    *,
    spend: Spend,
    method: CalibrationWeights | None = None,
    notify: Notify | None = None,
) -> WeightedFile:
    """Weight synthetic rows by a sensitive table, and write them with a column `weight`, a statement and a report.

    Args:
        table: the sealed table.
        fake: a file of synthetic rows, or a release folder.
        path: where to write them with their weights: a CSV (also .csv.gz, .tsv) or Parquet file.
        spend: what may be spent: "10%" of the whole budget, or a loss, such as `table.ledger.left`.
        method: how to weight; by default `CalibrationWeights()`.
        notify: called with sentences for the holder.
    """
    check_private(table, "weigh()")
    path, ledger = Path(path), table.ledger
    rows = check_weighing(table.schema, fake, path, ledger=ledger.given_path)
    loss = ledger.share(spend)
    if isinstance(spend, Loss):
        ledger.check_not_spent()
    if notify is not None:
        notify_cautions(ledger, table.schema, notify)
    before = ledger.percentages()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        weights = (method or CalibrationWeights()).fit(table, rows, spend=loss)
    if notify is not None and weights.caution:
        notify(f"Warning: {weights.caution}")
    rows.with_weights(weights).write(path)
    statement, report = _beside(path)
    with write_atomically(statement) as partial:
        spent = ledger.percentages()[0] - before
        partial.write_text("\n".join(_statement(weights, path, ledger, table.schema, spent)), encoding="utf-8")
    with write_atomically(report) as partial:
        partial.write_text(weights_page(rows, weights, ledger), encoding="utf-8")
    return WeightedFile(
        path=path,
        statement=statement,
        report=report,
        weights=weights,
        guarantee=ledger.guarantee(),
        balance=Balance.of(ledger),
    )


def check_weighing(schema: Schema, fake: str | Path, path: str | Path, *, ledger: Path) -> Table:
    """The synthetic rows, after a look at what does not need the private table: a slip is told before it is read."""
    path = Path(path)
    rows = Table.read(rows_file(fake), schema)
    rows.with_weights([1.0] * rows.rows)  # refuses a schema with a column of this name
    check_ending(path)
    for written in (path, *_beside(path)):
        check_writable(written, distinct_from=(Path(fake), ledger, seal_of(ledger)), must_not_exist=True)
    check_comparable(schema, rows.schema)
    return rows


def _beside(path: Path) -> tuple[Path, Path]:
    """The files of the statement and of the report."""
    return path.with_name(f"{path.name}.privacy.md"), path.with_name(f"{path.name}.report.html")


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
