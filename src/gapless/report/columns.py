"""The columns of a release: the noise in each, its shares with intervals, and its gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.data import Table
from gapless.draw.cards import MOST_COLUMNS, left_out, mark
from gapless.draw.charts import interval_bars, percent
from gapless.draw.page import Html, section, table, tag, unbroken
from gapless.evaluate.marginals import shares
from gapless.evaluate.usability import SHARE_LIMITS, Usability, grade_of_column, grade_of_mean
from gapless.evaluate.verdict import MEAN_LIMITS
from gapless.inference.intervals import TWO_SIDED
from gapless.inference.precision import ColumnPrecision
from gapless.synth.fitted import FittedModel

_NOISE = (
    "Noise in a count: ±1.96 standard deviations; 19 of 20 counts are within this range. Moved: the share of the rows "
    "that noise alone is expected to move to other cells. Mean: ±1.96 standard errors by noise, in standard deviations "
    "of the column. The noisiest columns come first. "
    f"Moved is good up to {SHARE_LIMITS.good:.0%} and lost above {SHARE_LIMITS.poor:.0%}; a mean is good up to "
    f"{MEAN_LIMITS.good:g} and not usable above {MEAN_LIMITS.poor:g}."
)
_INTERVALS = (
    "Bars: shares among the synthetic rows in which the column is not missing. Whiskers and numbers: 95% intervals for "
    "the share in the population from which the private rows came, among those whose value is observed. They follow "
    "from the released counts, and cover noise and sampling. Synthetic rows follow a model of many measurements, so a "
    "bar may be outside its whisker. For columns without gaps, gapless estimate prints the same "
    "numbers. For columns with gaps it estimates for all people: it fills gaps by what other columns show."
)
_HIDDEN = (
    " Of columns that are mostly missing, the intervals are widened by what the gaps hide: they hold for all people, "
    "whatever the missing values are."
)


def noise_section(usability: Usability) -> Html:
    """Return the table of the noise in each column, the noisiest first."""
    measured = [column for column in usability.columns[:MOST_COLUMNS] if column.is_measured]
    rows = [
        (
            column.column.name,
            column.column.size,
            "–" if column.is_collapsed else unbroken(f"± {TWO_SIDED * column.noise_std:,.0f}"),
            "–" if column.is_collapsed else f"{column.distance:.1%}",
            _mean_noise(column),
            _grade(column),
        )
        for column in sorted(measured, key=lambda column: (not column.is_collapsed, -column.distance))
    ]
    if not rows:
        return Html("")
    head = ("column", "cells", "noise in a count", "moved", "mean", "")
    return section(
        "Noise, column by column",
        tag("p", _NOISE),
        tag("div", table(head, rows, right=(1, 2, 3, 4)), class_="wide"),
    )


def _mean_noise(column: ColumnPrecision) -> str:
    std = column.mean_std
    return "–" if std is None or not np.isfinite(std) else unbroken(f"± {TWO_SIDED * std:.2f}")


def _grade(column: ColumnPrecision) -> Html:
    grades = [grade for grade in (grade_of_column(column), grade_of_mean(column)) if grade is not None]
    if column.is_collapsed or grades[0] == "poor":
        return mark("poor", "lost")
    return mark("fair", "with care") if "fair" in grades or "poor" in grades else mark("good", "usable")


def columns_section(sample: Table, usability: Usability) -> Html:
    """Return a card for each column."""
    columns = usability.columns[:MOST_COLUMNS]
    hidden = _HIDDEN if any(column.is_mostly_missing for column in columns) else ""
    cards = (_card(column, shares(sample, [place])) for place, column in enumerate(columns))
    return section(
        "Columns",
        tag("p", _INTERVALS + hidden + left_out(len(usability.columns))),
        tag("div", *cards, class_="columns"),
    )


def _card(column: ColumnPrecision, found: np.ndarray | None) -> Html:
    drawn = np.zeros(column.column.size) if found is None else found
    is_lost = grade_of_column(column) == "poor" and column.is_measured

    def ends(cells: Sequence[int]) -> tuple[float, float]:
        _, low, high = column.share_interval(cells)
        return low, high

    chart = interval_bars(
        f"Shares of {column.column.name}",
        column.column.cells[: column.column.size],
        drawn.tolist(),
        ends if column.has_intervals and not is_lost else None,
        ordered=column.column.is_ordered,
    )
    return tag(
        "div",
        tag("div", tag("h3", column.column.name), _grade(column) if column.is_measured else "", class_="head"),
        chart,
        *(tag("small", sentence, class_="soft") for sentence in _remarks(column, is_lost=is_lost)),
        class_="card",
    )


def _remarks(column: ColumnPrecision, *, is_lost: bool) -> list[str]:
    remarks = []
    if column.is_collapsed:
        remarks.append("Lost: noise left one bin for all values. ")
    elif is_lost:
        remarks.append("Lost in noise: these shares say nothing about the table. ")
    elif column.unsupported:
        remarks.append(f"No interval: {column.unsupported}. ")
    mean = None if is_lost or grade_of_mean(column) == "poor" else column.mean_interval()
    if mean is not None:
        of = " of observed values" if column.column.gaps else ""
        remarks.append(f"Mean{of} {_rounded(mean.value)} ({_rounded(mean.low)} to {_rounded(mean.high)}). ")
    if column.is_mostly_missing:
        remarks.append(f"Missing in {column.missing:.0%} of the rows, and filled in all synthetic rows.")
    return remarks


def _rounded(value: float) -> str:
    """Return a number with four digits, and without an exponent where it is short.

    >>> _rounded(1234567.8), _rounded(0.012345)
    ('1235000', '0.01235')
    """
    return f"{float(f'{value:.4g}'):.10g}"


def gaps_section(model: FittedModel, usability: Usability) -> Html:
    """Return the share of private rows in which each column is missing."""
    gappy = [column for column in usability.columns[:MOST_COLUMNS] if column.column.gaps]
    if model.gapped is None or not gappy:
        return Html("")
    rows = [
        (column.column.name, percent(column.missing), "–" if half is None else unbroken(f"± {100 * half:.1f}"))
        for column, half in ((column, column.missing_half) for column in gappy)
    ]
    text = "The share of rows in which a column is missing, with its 95% interval in points: noise and sampling."
    head = ("column", "missing", "interval, points")
    return section("Gaps", tag("p", text), tag("div", table(head, rows, right=(1, 2)), class_="wide keep"))


def drawn_shares(sample: Table, columns: Sequence[ColumnPrecision]) -> list[Sequence[float]]:
    """Return the shares of each column in the synthetic rows; 0 where no row is observed."""
    found = (shares(sample, [place]) for place in range(len(columns)))
    return [np.zeros(c.column.size).tolist() if s is None else s.tolist() for c, s in zip(columns, found, strict=True)]
