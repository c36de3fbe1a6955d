"""A drawing: what a ledger promises to the people behind the gaps, by how often cells are missing."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from html import escape
from statistics import median
from typing import TypeAlias

from gapless.errors import BudgetError
from gapless.privacy import MCAR, Ledger

Curve: TypeAlias = Sequence[float]  # an ε for each rate

RATES = tuple(step / 10 for step in range(10))
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 476, 60, 40, 20, 186
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
    free, any_way = ([ledger.ground_truth(one) for one in row] for row in assumed)
    incomplete = free[0].incomplete.epsilon
    if not incomplete < float("inf"):
        raise BudgetError("noise of a test promises nothing", hint="a ledger of real releases")
    lines = [
        ("incomplete table", "#555555", "", [incomplete] * len(RATES)),
        ("complete table, columns in any relation", "#b35900", "", [one.epsilon for one in any_way]),
        ("complete table, columns independent", "#0b5fa5", "", [one.epsilon for one in free]),
    ]
    realised = [one.realised for one in free if one.realised is not None]
    if len(realised) == len(RATES) and any(
        one < 0.999 * promised.epsilon for one, promised in zip(realised, free, strict=True)
    ):
        lines.append(("columns independent, after the fact: no guarantee", "#0b5fa5", "6 4", realised))
    where = ", ".join(columns) if 0 < len(columns) <= 4 else f"each of {len(columns)} columns"
    why = _why_close(ledger, frozenset(columns), *(values for *_, values in lines[:3]))
    return _svg(
        f"What is promised to the people behind the gaps of '{ledger.table}'", f"rate of gaps in {where}", lines, why
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


def _close(one: Curve, other: Curve) -> bool:
    return median(abs(a - b) for a, b in zip(one, other, strict=True)) <= _CLOSE * max(*one, *other)


def _svg(title: str, axis: str, lines: Sequence[tuple[str, str, str, Curve]], why: Sequence[str]) -> str:
    largest = max(max(values) for *_, values in lines) or 1.0
    step = next(
        step for step in (base * 10.0**power for power in range(-9, 9) for base in (1, 2, 5)) if 5 * step >= largest
    )
    top = step * math.ceil(largest / step)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at(rate: float, value: float) -> str:
        return f"{_LEFT + wide * rate / RATES[-1]:.1f},{_TOP + high * (1 - value / top):.1f}"

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for rate in RATES:
        x = at(rate, 0).partition(",")[0]
        drawn.append(f'<text x="{x}" y="{_TOP + high + 16}" text-anchor="middle">{rate:.0%}</text>')
    for value in (step * many for many in range(round(top / step) + 1)):
        y = at(0, value).partition(",")[2]
        drawn.append(f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{y}" y2="{y}" stroke="#dddddd"/>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{y}" dy="4" text-anchor="end">{value:.3g}</text>')
    drawn.append(f'<text x="{_LEFT + wide}" y="{_TOP + high + 32}" text-anchor="end">{escape(axis)}</text>')
    drawn.append(f'<text x="{_LEFT - 6}" y="{_TOP - 14}" text-anchor="end">ε</text>')
    for place, (name, colour, dash, values) in enumerate(lines):
        points = " ".join(at(rate, value) for rate, value in zip(RATES, values, strict=True))
        stroke = f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        drawn.append(f'<polyline points="{points}" {stroke}/>')
        under = _TOP + high + 36 + 17 * place
        drawn.append(f'<polyline points="{_LEFT},{under} {_LEFT + 28},{under}" {stroke}/>')
        drawn.append(f'<text x="{_LEFT + 34}" y="{under + 4}">{escape(name)}</text>')
    below = [*why, *_ASSUMED]
    for place, text in enumerate(below, start=1 - len(below)):
        gap = 6 if place <= -len(_ASSUMED) else 0
        drawn.append(f'<text x="{_LEFT}" y="{_HEIGHT - 9 - gap + 15 * place}" font-size="11">{escape(text)}</text>')
    return "\n".join([*drawn, "</svg>", ""])
