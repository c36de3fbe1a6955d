"""Weights for existing synthetic rows, in one call: fit the weights, write the rows with them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapless.data import PrivateTable, Table
from gapless.data.checks import check_comparable, check_private
from gapless.data.io.table_files import check_output
from gapless.files import check_writable, write_atomically
from gapless.privacy import Guarantee, Ledger, Loss, Spend
from gapless.privacy.ledger_file import seal_of
from gapless.publish.balance import Balance, Notify, notify_cautions
from gapless.publish.folder import rows_file
from gapless.report.statement import protection, recorded
from gapless.report.weights_page import weights_page
from gapless.schema import Schema
from gapless.text import markdown
from gapless.weights import CalibrationWeights, FewRowsWarning, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedFile:
    """Synthetic rows that were written with their weights.

    Attributes:
        path: the file of rows, with `weight` as the last column.
        statement: the privacy statement, a file beside it.
        report: the page that shows the effect of the weights, a file beside it.
        weights: the weights.
        guarantee: the guarantee for all that the ledger has recorded.
        balance: what is spent and left, and the path of the ledger.
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
        path: the file to write, rows with weights: CSV (also .csv.gz, .tsv), Parquet, .sav, .dta or .xlsx.
        spend: what the weights may spend: "10%" of the whole budget, or a loss, such as `table.ledger.left`.
        method: the method of weighting; by default `CalibrationWeights()`.
        notify: called with messages for the data holder.
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
    """Read the synthetic rows, and check all that needs no private table, before that is read."""
    path = Path(path)
    rows = Table.read(rows_file(fake), schema)
    rows.with_weights([1.0] * rows.rows)  # refuses a schema with a column `weight`
    check_output(path, schema)
    for written in (path, *_beside(path)):
        check_writable(written, distinct_from=(Path(fake), ledger, seal_of(ledger)), must_not_exist=True)
    check_comparable(schema, rows.schema)
    return rows


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the paths of the statement and of the report."""
    return path.with_name(f"{path.name}.privacy.md"), path.with_name(f"{path.name}.report.html")


def _statement(weights: Weights, path: Path, ledger: Ledger, schema: Schema, spent: float) -> Iterator[str]:
    yield from (
        f"# Privacy statement: weights of {markdown(path.name)}",
        "",
        f"**{markdown(str(ledger.guarantee()))}**",
        "",
        f"- Weights: {markdown(str(weights))}.",
        f"- Spent on the weights: {spent:.2f}% of the budget ({ledger.budget}). The guarantee also covers the release "
        "of the rows if the same ledger, listed below, recorded it.",
        "- The weights are a function of the noisy values listed below and of the synthetic rows alone.",
        *(f"- Warning: {markdown(caution)}." for caution in (weights.caution,) if caution),
        f"- Report: {markdown(path.name)}.report.html was made from the synthetic rows and their weights alone. It "
        "cost nothing.",
        "",
        *protection(ledger, schema),
        *recorded(ledger, "The ledger"),
    )
