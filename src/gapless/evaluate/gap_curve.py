"""A drawing of a ledger's guarantee for the complete data, by the rate of gaps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median
from typing import TypeAlias

from gapless.draw.charts import Line, curves
from gapless.errors import BudgetError
from gapless.privacy import MCAR, Ledger

Curve: TypeAlias = Sequence[float]  # an ε for each rate

RATES = tuple(step / 10 for step in range(10))
_CLOSE = 0.02  # of the largest ε; closer lines look like one
_ASSUMED = (
    "For the complete table we assume that gaps are independent across rows and of all values,",
    "that their rates are public, and that nobody outside knows which cells of a person are missing.",
)


def gap_curve(ledger: Ledger, columns: Collection[str] | None = None) -> str:
    """Draw the guarantee for the complete table as SVG, if some columns (by default all that matter) have one rate.

    The lines are: the guarantee for the incomplete table; the guarantee for the complete table if columns are
    independent, and if they may depend on each other in any way; and, dashed, the loss of the answers so far, where
    it is less than the guarantee. Where lines coincide, the drawing explains why.
    """
    if columns is None:
        columns = {column for entry in ledger.entries for column in entry.reads or ()}
    columns = sorted(columns)
    assumed = [
        [MCAR(dict.fromkeys(columns, rate), columns=how) for rate in RATES] for how in ("independent", "dependent")
    ]
    free, any_way = ([ledger.ground_truth(assumption) for assumption in row] for row in assumed)
    incomplete = free[0].incomplete.epsilon
    if not incomplete < float("inf"):
        raise BudgetError(
            "the plot needs a finite ε, but this ledger has releases with test noise, which is not private",
            hint="use a ledger whose releases all have real noise",
        )
    lines = [
        Line("incomplete table", "#555555", [incomplete] * len(RATES)),
        Line("complete table, any dependence of columns", "#b35900", [figure.epsilon for figure in any_way]),
        Line("complete table, columns independent", "#0b5fa5", [figure.epsilon for figure in free]),
    ]
    realised = [figure.realised for figure in free if figure.realised is not None]
    if len(realised) == len(RATES) and any(
        epsilon < 0.999 * promised.epsilon for epsilon, promised in zip(realised, free, strict=True)
    ):
        lines.append(Line("columns independent, these answers only: no guarantee", "#0b5fa5", realised, dash="6 4"))
    where = ", ".join(columns) if 0 < len(columns) <= 4 else f"each of {len(columns)} columns"
    return curves(
        f"Privacy for the complete data of '{ledger.table}'",
        RATES,
        lines,
        across=f"rate of gaps in {where}",
        up="ε",
        remarks=_why_close(ledger, frozenset(columns), *(line.values for line in lines[:3])),
        small_print=_ASSUMED,
    )


def _why_close(
    ledger: Ledger, columns: frozenset[str], incomplete: Curve, any_way: Curve, independent: Curve
) -> tuple[str, ...]:
    """Return why lines of the drawing coincide, if they do; from the ledger, which is public."""
    needed = {columns.intersection(entry.reads or ()) for entry in ledger.entries} - {frozenset()}
    if not ledger.entries:
        return ("The lines coincide: nothing has been released yet, and the whole budget may still be spent.",)
    if not needed:
        return ("The lines coincide: no release leaves out rows with gaps in these columns.",)
    if _close(incomplete, independent):
        if any(entry.batch != 1 for entry in ledger.entries):
            return (
                "The lines almost coincide: only releases that were fixed in advance, in one batch, gain",
                "from gaps. Releases that were chosen after earlier answers count in full.",
            )
        return ("The lines almost coincide: most of the loss is in releases that also read rows with gaps.",)
    if _close(any_way, independent) and max(map(len, needed)) == 1:
        return (
            "The lines for the complete table almost coincide: each release leaves out rows for one",
            "column only, so the dependence of columns matters little.",
        )
    if _close(any_way, incomplete) and ledger.budget.delta > 0:
        return (
            "Two lines coincide: with δ > 0 and any dependence of columns, little is proved beyond the",
            "guarantee for the incomplete table.",
        )
    return ()


def _close(first: Curve, second: Curve) -> bool:
    return median(abs(a - b) for a, b in zip(first, second, strict=True)) <= _CLOSE * max(*first, *second)
