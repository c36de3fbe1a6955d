"""The relations of a release: a map of associations with intervals, the strongest ones, and plots of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.data import Table
from gapless.draw.charts import heat_map
from gapless.draw.page import Html, join, section, side, table, tag, titled, unbroken
from gapless.draw.scatter import Band, scatter
from gapless.evaluate.usability import Usability
from gapless.inference.associations import PairPrecision
from gapless.inference.precision import ColumnPrecision, Interval
from gapless.schema import Integer, Number
from gapless.text import plural
from gapless.types import Floats

MOST_MAPPED = 30  # columns on the map: those with the strongest certain relations
MOST_BESIDE = 16  # columns of a map that leaves space for the list beside it
MOST_LISTED = 12
MOST_PLOTTED, POINTS = 6, 300

_MAP = (
    "Associations in hundredths: Spearman's ρ for two ordered columns, else Cramér's V. They are estimates from the "
    "released values, with 95% intervals for noise and sampling. For columns without gaps, gapless estimate prints the "
    "same ρ. Of many pairs of independent columns, some look related by chance. So each pair has a second, wider "
    "interval, and in 19 of 20 releases all of these contain the truth. A relation is certain if its wider interval "
    "does not contain 0; other pairs are grey. Pairs without a square were not measured together, or are lost in noise."
)
_PLOTS = (
    "Points: the first synthetic rows. Line: the regression on all of them. Band: the lines that agree with the "
    "intervals of the rank correlation and the mean. The strongest certain relations of two numbers are shown."
)


_STAR = tag(
    "small",
    "*: in the synthetic rows the relation is outside the interval. For columns with gaps, rows drawn with gaps are "
    "compared.",
    class_="soft",
)


def relations_section(sample: Table, usability: Usability) -> Html:
    """Return the map of associations, the list of the strongest, all intervals, and plots of numbers."""
    if not any(pair.is_known for pair in usability.pairs):
        return Html("")
    names = sample.schema.names
    chosen = _mapped_columns(usability.pairs, len(names))
    shown = [pair for pair in usability.pairs if pair.is_known and set(pair.columns) <= set(chosen)]
    keys = {pair: (names[pair.columns[0]], names[pair.columns[1]]) for pair in shown}
    tooltips = {keys[pair]: f"{' × '.join(keys[pair])}: {pair.measure} {_text(pair)}" for pair in shown}
    picture = heat_map(
        "Associations",
        [names[c] for c in chosen],
        {keys[pair]: pair.value for pair in shown},
        full=1.0,
        tooltips=tooltips,
        uncertain={keys[pair] for pair in shown if not pair.is_certain},
    )
    left_out = len(names) - len(chosen)
    remark = f" Shown: the {plural(len(chosen), 'column')} with the strongest certain relations." if left_out else ""
    cards = [
        tag("div", picture, class_="wide keep"),
        *titled("The strongest", _strongest(sample.schema.names, usability)),
    ]
    return section(
        "Relations",
        tag("p", _MAP + remark),
        side(*cards) if len(chosen) <= MOST_BESIDE else join(cards),
        tag("div", tag("h3", "All intervals"), _intervals(shown, keys), class_="wide"),
        _plots(sample, usability),
    )


def _mapped_columns(pairs: Sequence[PairPrecision], many: int) -> list[int]:
    """Return the columns of the map: all, or those of the strongest certain relations, then the first others."""
    found: dict[int, None] = {}
    for pair in pairs:
        if pair.is_certain:
            found |= dict.fromkeys(pair.columns)
    return sorted([*found, *(c for c in range(many) if c not in found)][:MOST_MAPPED])


def _text(pair: PairPrecision) -> str:
    return f"{_number(pair.value)} ({_number(pair.low)} to {_number(pair.high)})"


def _number(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


def _strongest(names: Sequence[str], usability: Usability) -> Html:
    """Return the pairs that certainly have a relation, by the end of the interval that is nearest to 0."""
    rows = [
        (
            " × ".join(names[c] for c in pair.columns),
            unbroken(pair.measure),
            _number(pair.value),
            unbroken(f"{_number(pair.low)} to {_number(pair.high)}"),
            _in_rows(pair, found),
        )
        for pair, found in list(zip(usability.pairs, usability.in_rows, strict=True))[:MOST_LISTED]
        if pair.is_certain
    ]
    if not rows:
        return tag("p", "None: noise hides every relation of two columns.")
    starred = any(row[-1].endswith("*") for row in rows)
    numbers = table(("columns", "", "value", "interval", "in the rows"), rows, right=(2, 3, 4))
    return join([numbers, _STAR]) if starred else numbers


def _in_rows(pair: PairPrecision, found: float | None) -> str:
    """Return the association in the synthetic rows, marked where it is outside of the interval."""
    return "–" if found is None else _number(found) + ("" if pair.low <= found <= pair.high else " *")


def _intervals(pairs: Sequence[PairPrecision], keys: dict[PairPrecision, tuple[str, str]]) -> Html:
    """Return the intervals of all pairs as text, for print and for readers without a pointer."""
    lines = (tag("li", f"{' × '.join(keys[pair])} ", tag("span", unbroken(_text(pair)))) for pair in pairs)
    return tag("ul", *lines, class_="dense")


def _plots(sample: Table, usability: Usability) -> Html:
    plots: list[Html] = []
    for pair in usability.pairs:
        both = [usability.columns[c] for c in pair.columns]
        is_number = all(isinstance(column.column, Integer | Number) for column in both)
        if not (pair.is_certain and is_number and pair.measure.startswith("Spearman")) or len(plots) == MOST_PLOTTED:
            continue
        if (plot := _plot(sample, pair, both)) is not None:
            plots.append(tag("div", tag("h3", " × ".join(c.column.name for c in both)), plot, class_="card"))
    if not plots:
        return Html("")
    return section("Numbers that go together", tag("p", _PLOTS), tag("div", *plots, class_="plots"))


def _plot(sample: Table, pair: PairPrecision, both: Sequence[ColumnPrecision]) -> Html | None:
    x, y = (sample.numeric_values(c) for c in pair.columns)
    if x is None or y is None:
        return None
    seen = np.isfinite(x) & np.isfinite(y)
    x, y = x[seen], y[seen]
    mean = both[1].mean_interval()
    if len(x) < 2 or not x.std() or not y.std() or mean is None:
        return None
    names = [column.column.name for column in both]
    return scatter(
        " × ".join(names),
        list(zip(x[:POINTS].tolist(), y[:POINTS].tolist(), strict=True)),
        _band(x, y, pair, mean),
        across=names[0],
        up=names[1],
        about=f"{pair.measure} {_text(pair)}",
    )


def _band(x: Floats, y: Floats, pair: PairPrecision, mean: Interval) -> Band:
    """Return the regression line of the rows, and the lines that agree with the intervals of correlation and mean."""
    places = np.linspace(x[:POINTS].min(), x[:POINTS].max(), 25)
    off = (places - x.mean()) / x.std()
    slope = float(np.corrcoef(x, y)[0, 1])
    line, *ends = (y.std() * r * off for r in (slope, pair.low, pair.high))
    low, high = np.minimum(*ends) + mean.low, np.maximum(*ends) + mean.high
    return Band(places.tolist(), (y.mean() + line).tolist(), low.tolist(), high.tolist())
