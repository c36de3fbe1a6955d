"""The command `gapless ledger`: what was spent on what, and what is guaranteed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gapless.cli import options
from gapless.cli.terminal import notes, print_result

if TYPE_CHECKING:
    from gapless.privacy import Assumption

EXAMPLE = "Example: `gapless ledger people.ledger --mcar income=0.2 --mcar age=0.05`"


def ledger(
    path: Annotated[Path, typer.Argument(metavar="LEDGER", help="A ledger file.")],
    mcar: Annotated[
        list[str] | None,
        typer.Option(
            help="Assume that a column is missing completely at random: income=0.2 (repeatable), or 0.2 for all."
        ),
    ] = None,
    dependent: Annotated[
        bool,
        typer.Option("--dependent", help="With --mcar: gaps of different columns may depend on each other in any way."),
    ] = False,
    missing_at_least: Annotated[
        list[str] | None,
        typer.Option(
            help="Assume that a column is missing at least this often, for all values: income=0.1, or 0.1 for all."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the guarantee for the complete data against the rate of gaps (SVG).")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what was spent and what is guaranteed; with --mcar or --missing-at-least, for the complete data too."""
    from gapless.files import check_writable, write_atomically
    from gapless.privacy import Ledger
    from gapless.privacy.assumptions import named_rates

    assumption = _assumption(mcar, missing_at_least, dependent=dependent)
    if plot is not None:
        check_writable(plot, distinct_from=(path,))
        if plot.suffix.lower() != ".svg":
            svg = quote(str(plot.with_suffix(".svg")))
            raise typer.BadParameter(f"--plot writes an SVG file, but got {plot}. Try: write --plot {svg}")
    account = Ledger.open(path)
    named = named_rates(assumption) if assumption is not None and isinstance(assumption.rates, dict) else None
    assumption = assumption or account.budget.ground_truth
    figure = None if assumption is None else account.ground_truth(assumption)  # refuses an unknown column
    needed = {column for entry in account.entries for column in entry.reads or ()}
    for column in sorted(set(named or ()) - needed):
        notes.print(f"No release of this ledger leaves out rows with a gap in {column!r}, so its rate changes nothing.")
    if plot is not None:
        from gapless.evaluate.gap_curve import gap_curve

        with write_atomically(plot) as partial:
            partial.write_text(gap_curve(account, named), encoding="utf-8")
    summary = account.summary() | ({} if figure is None else {"ground_truth": figure.summary()})
    written = "" if plot is None else f"\n\nWrote {plot}"
    print_result(summary, f"{account}\n\n{figure or account.guarantee()}{written}", as_json=as_json)


def _assumption(mcar: list[str] | None, missing_at_least: list[str] | None, *, dependent: bool) -> Assumption | None:
    from gapless.privacy import MCAR, MissingAtLeast

    if mcar and missing_at_least:
        raise typer.BadParameter("--mcar and --missing-at-least cannot be used together. Try: leave out one of them")
    if missing_at_least and dependent:
        raise typer.BadParameter(
            "--missing-at-least allows any dependence of columns already. Try: leave out --dependent"
        )
    if missing_at_least:
        return MissingAtLeast(_rates(missing_at_least, "--missing-at-least"))
    if mcar:
        return MCAR(_rates(mcar, "--mcar"), columns="dependent" if dependent else "independent")
    if dependent:
        raise typer.BadParameter("--dependent needs rates of gaps. Try: add --mcar income=0.2")
    return None


def _rates(given: list[str], option: str) -> float | dict[str, float]:
    """Parse income=0.2 for a column, repeated; or 0.2 alone, for every column that may be missing."""
    if len(given) == 1:
        with suppress(ValueError):
            return float(given[0])
    rates: dict[str, float] = {}
    for text in given:
        column, _, rate = text.rpartition("=")  # the name of a column may contain "="
        try:
            if not column:
                raise ValueError  # noqa: TRY301 one message for every form that is wrong
            if column in rates:
                raise typer.BadParameter(f"{option} names column {column!r} twice. Try: write one rate for each column")
            rates[column] = float(rate)
        except ValueError:
            raise typer.BadParameter(
                f"{option} must be COLUMN=RATE, or a single rate for all columns, got {text!r}. "
                f"Try: write {option} income=0.2"
            ) from None
    return rates
