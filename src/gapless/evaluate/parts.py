"""Parts that both pages have: cards, columns side by side, a footer."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.draw.charts import bars, key, percent
from gapless.draw.markup import Html, join, tag
from gapless.draw.page import section
from gapless.evaluate.comparison import ColumnScore, Score
from gapless.schema.schema import KINDS

MOST_COLUMNS = 40  # are drawn: the first ones of the schema


def cards(scores: Sequence[Score]) -> Html:
    """Numbers at a glance."""
    cards = []
    for score in scores:
        lines = [tag("small", score.about, class_="soft about")]
        if score.best:
            lines.insert(0, tag("small", f"the truth itself: {score.best:.3f}. "))
        if score.second_sample is not None:
            lines.insert(0, tag("small", f"a second sample: {score.second_sample:.3f}. "))
        if score.between is not None:
            lines.insert(0, tag("small", f"noise leaves open {score.between[0]:.3f} to {score.between[1]:.3f}. "))
        cards.append(tag("div", tag("small", score.name), tag("b", _number(score.value)), *lines, class_="card"))
    shown = tag("div", *cards, class_="cards")
    if all(score.second_sample is None for score in scores):
        return shown
    told = "A second sample: about what as many other people of the same kind would score, from two parts of the truth."
    return join([shown, tag("p", tag("small", told, class_="soft"))])


def _number(value: float | None) -> str:
    """A number for people: a count is whole.

    >>> _number(69), _number(12345), _number(0.25), _number(None)
    ('69', '12,345', '0.250', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3f}"


def column_cards(columns: Sequence[ColumnScore], names: tuple[str, str], *, of: int) -> Html:
    """The distributions of columns, each beside its twin; `of` is how many columns there are."""
    cards = []
    for column in columns:
        chart = bars(
            f"Shares of {column.name}",
            column.cells,
            (column.truth, column.other),
            names,
            ordered=KINDS[column.kind].on_scale,
            noise=column.noise,
        )
        distance = "" if column.distance is None else f"distance {column.distance:.3f}"
        head = tag("div", tag("h3", column.name), tag("small", distance, class_="soft"), class_="head")
        gaps = Html("")
        if column.gaps is not None and any(column.gaps):
            gaps = tag("small", f"missing: {percent(column.gaps[0])} and {percent(column.gaps[1])}", class_="soft")
        cards.append(tag("div", head, chart, gaps, class_="card"))
    told = "Shares of each cell among the rows in which the column is not missing."
    if any(column.noise is not None for column in columns):
        told += " Whiskers: ±1.96 standard deviations of noise."
    told += left_out(of)
    return section("Columns", key(names), tag("p", told), tag("div", *cards, class_="columns"))


def left_out(columns: int) -> str:
    """That not every column is drawn, if so."""
    return f" The first {MOST_COLUMNS} of {columns} columns are drawn." if columns > MOST_COLUMNS else ""


def footer() -> Html:
    """Which gapless drew the page."""
    from gapless import __version__  # noqa: PLC0415 the package's own room imports nothing at import

    told = "One file, no script, nothing fetched from anywhere."
    return tag("footer", tag("small", f"Made by gapless {__version__}. {told}", class_="soft"))
