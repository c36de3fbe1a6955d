"""A drawing: what a ledger promises to the people behind the gaps, by how often cells are missing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median
from typing import TypeAlias

from gapless.draw.charts import Line, curves
from gapless.errors import BudgetError
from gapless.privacy import MCAR, Ledger

Curve: TypeAlias = Sequence[float]  # an ε for each rate

RATES = tuple(step / 10 for step in range(10))
_CLOSE = 0.02  # of the largest ε: lines that are nearer to each other at most rates look like one
_ASSUMED = (
    "For the complete table it is assumed that gaps are independent across rows and of all values,",
    "that their rates are public, and that nobody outside knows which cells of a person are missing.",
)


def gap_curve(ledger: Ledger, columns: Collection[str] | None = None) -> str:
    """The promise for the complete table, as SVG, if these columns (by default all that count) are missing at one rate.

    Lines: the promise for the incomplete table; that for the complete one if columns are independent, and if they may
    go together in any way; and, dashed, what is true after the fact, where that is less than the promise. Where lines
    fall together the drawing says why.
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
        raise BudgetError("noise of a test promises nothing", hint="a ledger of real releases")
    lines = [
        Line("incomplete table", "#555555", [incomplete] * len(RATES)),
        Line("complete table, columns in any relation", "#b35900", [figure.epsilon for figure in any_way]),
        Line("complete table, columns independent", "#0b5fa5", [figure.epsilon for figure in free]),
    ]
    realised = [figure.realised for figure in free if figure.realised is not None]
    if len(realised) == len(RATES) and any(
        epsilon < 0.999 * promised.epsilon for epsilon, promised in zip(realised, free, strict=True)
    ):
        lines.append(Line("columns independent, after the fact: no guarantee", "#0b5fa5", realised, dash="6 4"))
    where = ", ".join(columns) if 0 < len(columns) <= 4 else f"each of {len(columns)} columns"
    return curves(
        f"What is promised to the people behind the gaps of '{ledger.table}'",
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
    """Why lines of the drawing fall together, if they do; from the ledger, which is public."""
    needed = {columns.intersection(entry.reads or ()) for entry in ledger.entries} - {frozenset()}
    if not ledger.entries:
        return ("The lines fall together: nothing has been released, and the whole budget may still be.",)
    if not needed:
        return ("The lines fall together: no release leaves out rows with gaps here, so gaps hide nobody.",)
    if _close(incomplete, independent):
        if any(entry.batch != 1 for entry in ledger.entries):
            return (
                "The lines lie close together: only releases that were all fixed in advance, in one batch, gain",
                "from gaps. What was asked or chosen in the light of earlier answers counts in full.",
            )
        return ("The lines lie close together: most of the loss is in releases that read rows with gaps too.",)
    if _close(any_way, independent) and max(map(len, needed)) == 1:
        return (
            "The lines for the complete table lie close together: each release leaves out rows for one",
            "column only, so that it matters little how columns go together.",
        )
    if _close(any_way, incomplete) and ledger.budget.delta > 0:
        return (
            "Two lines fall together: with δ > 0 and columns in any relation little is proved beyond the",
            "promise for the incomplete table.",
        )
    return ()


def _close(first: Curve, second: Curve) -> bool:
    return median(abs(a - b) for a, b in zip(first, second, strict=True)) <= _CLOSE * max(*first, *second)
