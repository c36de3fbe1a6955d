"""Cards of a page: single numbers, columns of two tables side by side, grades, and the footer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.draw.charts import bars, key, percent
from gapless.draw.page import Html, section, tag

Grade = Literal["good", "fair", "poor"]
GRADES: tuple[Grade, ...] = ("good", "fair", "poor")
MOST_COLUMNS = 40  # drawn on a page: the first ones of the schema


def mark(grade: str, word: str | None = None) -> Html:
    """Return a grade as a coloured word."""
    return tag("span", word or grade, class_=f"mark {grade}")


@dataclass(frozen=True, slots=True)
class NumberCard:
    """One number with its name.

    Attributes:
        remarks: sentences below the number.
        about: the meaning of the number, the last sentence.
    """

    name: str
    value: float | None
    about: str
    remarks: tuple[str, ...] = ()
    grade: Grade | None = None


@dataclass(frozen=True, slots=True)
class ColumnCard:
    """One column in two tables: the shares of its cells, their distance, the gaps, and a table of numbers."""

    name: str
    cells: tuple[str, ...]
    shares: tuple[tuple[float, ...], tuple[float, ...]]
    distance: float | None
    gaps: tuple[float, float] | None
    ordered: bool
    noise: float | None = None
    numbers: Html | None = None
    grade: Grade | None = None


def cards(numbers: Sequence[NumberCard]) -> Html:
    """Return the cards of some numbers, the worst first."""
    return tag("div", *(_card(number) for number in sorted(numbers, key=_from_worst)), class_="cards")


def _from_worst(card: NumberCard | ColumnCard) -> int:
    return len(GRADES) if card.grade is None else -GRADES.index(card.grade)


def _head(content: Html, grade: Grade | None) -> Html:
    return tag("div", content, mark(grade) if grade else "", class_="head")


def _card(card: NumberCard) -> Html:
    lines = [*(tag("small", remark) for remark in card.remarks), tag("small", card.about, class_="soft")]
    head = _head(tag("small", card.name), card.grade)
    kind = f"card {card.grade}" if card.grade else "card"
    return tag("div", head, tag("b", _number(card.value)), *lines, class_=kind)


def _number(value: float | None) -> str:
    """Format a number; a count has no decimals.

    >>> _number(69), _number(12345), _number(0.25), _number(None)
    ('69', '12,345', '0.250', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3f}"


def column_cards(columns: Sequence[ColumnCard], names: tuple[str, str], *, of: int, remark: str = "") -> Html:
    """Return a card for each column, the worst first; the table has `of` columns."""
    text = "Bars: shares of each cell among the rows in which the column is not missing."
    if any(column.noise is not None for column in columns):
        text += " Whiskers: ±1.96 standard deviations of noise."
    drawn = (_column_card(column, names) for column in sorted(columns, key=_from_worst))
    return section("Columns", key(names), tag("p", text + remark + left_out(of)), tag("div", *drawn, class_="columns"))


def _column_card(column: ColumnCard, names: tuple[str, str]) -> Html:
    chart = bars(
        f"Shares of {column.name}", column.cells, column.shares, names, ordered=column.ordered, noise=column.noise
    )
    gaps = Html("")
    if column.gaps is not None and any(column.gaps):
        gaps = tag("small", f"missing: {percent(column.gaps[0])} and {percent(column.gaps[1])}", class_="soft")
    distance = "" if column.distance is None else f"distance of cells {column.distance:.3f}"
    return tag(
        "div",
        _head(tag("h3", column.name), column.grade),
        tag("small", distance, class_="soft"),
        chart,
        gaps,
        column.numbers or Html(""),
        class_="card",
    )


def left_out(columns: int) -> str:
    """Return a sentence if not every column is drawn."""
    return f" The first {MOST_COLUMNS} of {columns} columns are drawn." if columns > MOST_COLUMNS else ""


def footer() -> Html:
    """Return the footer with the version of gapless."""
    from gapless import __version__  # noqa: PLC0415 avoids a circular import

    text = "This page is one file, has no script and loads nothing."
    return tag("footer", tag("small", f"Made by gapless {__version__}. {text}", class_="soft"))
