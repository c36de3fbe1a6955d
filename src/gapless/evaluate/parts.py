"""Parts that both pages have: cards, columns side by side, a footer."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.draw.charts import bars, key, percent
from gapless.draw.markup import Html, tag
from gapless.draw.page import section, table
from gapless.evaluate.comparison import ColumnScore, Score
from gapless.evaluate.values import MEASURES, Difference
from gapless.evaluate.verdict import GRADES, Grade, grade_of_difference, number
from gapless.schema.schema import KINDS

MOST_COLUMNS = 40  # are drawn: the first ones of the schema


def mark(grade: str, word: str | None = None) -> Html:
    """A grade as a coloured word."""
    return tag("span", word or grade, class_=f"mark {grade}")


def cards(scores: Sequence[Score], grades: Sequence[Grade | None]) -> Html:
    """Numbers at a glance, the worst first."""
    order = sorted(zip(scores, grades, strict=True), key=lambda pair: _from_worst(pair[1]))
    return tag("div", *(_card(score, grade) for score, grade in order), class_="cards")


def _from_worst(grade: Grade | None) -> int:
    return len(GRADES) if grade is None else -GRADES.index(grade)


def _card(score: Score, grade: Grade | None) -> Html:
    lines = [tag("small", score.about, class_="soft")]
    if score.best:
        lines.insert(0, tag("small", f"the truth itself: {score.best:.3f}. "))
    if score.second_sample is not None:
        lines.insert(0, tag("small", f"a second sample: {score.second_sample:.3f}. "))
    if score.between is not None:
        lines.insert(0, tag("small", f"noise leaves open {score.between[0]:.3f} to {score.between[1]:.3f}. "))
    head = tag("div", tag("small", score.name), mark(grade) if grade else "", class_="head")
    return tag("div", head, tag("b", _number(score.value)), *lines, class_=f"card {grade}" if grade else "card")


def _number(value: float | None) -> str:
    """A number for people: a count is whole.

    >>> _number(69), _number(12345), _number(0.25), _number(None)
    ('69', '12,345', '0.250', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if isinstance(value, int) or value >= 100 else f"{value:.3f}"


def column_cards(
    columns: Sequence[ColumnScore], differences: Sequence[Difference], names: tuple[str, str], *, of: int
) -> Html:
    """Each column beside its twin, the worst first: cells, and numbers on values; there are `of` columns in all."""
    by_column: dict[str, list[Difference]] = {column.name: [] for column in columns}
    for difference in differences:
        if len(difference.columns) == 1 and difference.columns[0] in by_column:
            by_column[difference.columns[0]].append(difference)
    graded = [(column, by_column[column.name], _worst_grade(by_column[column.name])) for column in columns]
    graded.sort(key=lambda entry: _from_worst(entry[2]))
    told = "Bars: shares of each cell among the rows in which the column is not missing."
    if any(column.noise is not None for column in columns):
        told += " Whiskers: ±1.96 standard deviations of noise."
    if any(found for found in by_column.values()):
        told += " Below them numbers on values, gaps left out. The worst columns come first."
    told += left_out(of)
    shown = (_column_card(column, found, grade, names) for column, found, grade in graded)
    return section("Columns", key(names), tag("p", told), tag("div", *shown, class_="columns"))


def _worst_grade(differences: Sequence[Difference]) -> Grade | None:
    grades = [grade for difference in differences if (grade := grade_of_difference(difference)) is not None]
    return max(grades, key=GRADES.index, default=None)


def _column_card(
    column: ColumnScore, differences: Sequence[Difference], grade: Grade | None, names: tuple[str, str]
) -> Html:
    chart = bars(
        f"Shares of {column.name}",
        column.cells,
        (column.truth, column.other),
        names,
        ordered=KINDS[column.kind].on_scale,
        noise=column.noise,
    )
    rows = [
        (
            difference.measure if difference.cell is None else f"share of {difference.cell}",
            *(number(value, difference.measure, column.kind) for value in (difference.truth, difference.other)),
            mark(worse) if worse in ("fair", "poor") else "",
        )
        for difference in differences
        if (worse := grade_of_difference(difference)) in ("fair", "poor") or difference.measure in MEASURES
    ]
    head = tag("div", tag("h3", column.name), mark(grade) if grade else "", class_="head")
    gaps = Html("")
    if column.gaps is not None and any(column.gaps):
        gaps = tag("small", f"missing: {percent(column.gaps[0])} and {percent(column.gaps[1])}", class_="soft")
    numbers = table(("", "truth", "compared", ""), rows, right=(1, 2, 3)) if rows else Html("")
    distance = "" if column.distance is None else f"distance of cells {column.distance:.3f}"
    return tag("div", head, tag("small", distance, class_="soft"), chart, gaps, numbers, class_="card")


def left_out(columns: int) -> str:
    """That not every column is drawn, if so."""
    return f" The first {MOST_COLUMNS} of {columns} columns are drawn." if columns > MOST_COLUMNS else ""


def footer() -> Html:
    """Which gapless drew the page."""
    from gapless import __version__  # noqa: PLC0415 the package's own room imports nothing at import

    told = "One file, no script, nothing fetched from anywhere."
    return tag("footer", tag("small", f"Made by gapless {__version__}. {told}", class_="soft"))
