"""Charts as SVG, each with a title and tooltips; the style of the page sets the colours.

`curves` draws lines over an axis of shares as a separate SVG file.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from gapless.draw.page import Html, join, shape, svg, svg_file, tag

MOST_BARS = 14
_NARROW = frozenset(" !'(),-./:;I[\\]fijlrt|")
_WIDE = frozenset("%@MWm")
_USUAL = frozenset(string.digits + string.ascii_lowercase.replace("w", "") + 'FJLTY_*?{}$"')
_MOST_LETTERS = 100  # no text here has space for more
_SLANTED = 118.0  # length of a name that is written at 45 degrees
_DAYS = re.compile(r"(\d{4}-\d\d-\d\d)(?:T[\d:]+)?\.\.(\d{4}-\d\d-\d\d)(?:T[\d:]+)?")


def percent(share: float) -> str:
    """Format a share in percent.

    >>> percent(0.1234), percent(0.00004), percent(0.0)
    ('12.3%', '<0.1%', '0%')
    """
    if share == 0:
        return "0%"
    return f"{100 * share:.1f}%" if abs(share) >= 0.0005 else "<0.1%"


def text_width(text: str) -> float:
    """Return an upper bound on the width of a text at 12 px, from DejaVu Sans, one of the widest fonts.

    >>> round(text_width("il")), round(text_width("MW")), round(text_width("東京"))
    (10, 24, 26)
    """
    return 12 * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    """Return an upper bound on the width of a letter, as a share of the font size."""
    letter = unicodedata.normalize("NFD", letter)[0]  # an accent adds no width
    if unicodedata.combining(letter):
        return 0.0
    if not letter.isascii():
        return 1.4 if unicodedata.category(letter) == "So" else 1.1  # pictograms are wider than letters
    return 0.42 if letter in _NARROW else 1.0 if letter in _WIDE else 0.66 if letter in _USUAL else 0.84


def shorten(text: str, width: float, *, ends: bool = False) -> str:
    """Shorten a text to a width in pixels: to its beginning, or with `ends` to its two ends.

    >>> shorten("chinstrap penguin", 70), shorten("chinstrap penguin", 70, ends=True)
    ('chinstra…', 'chin…uin')
    """
    if text_width(text) <= width:
        return text
    for many in range(min(len(text) - 1, _MOST_LETTERS), 0, -1):
        tail = many // 2 if ends else 0
        cut = f"{text[: many - tail]}…{text[len(text) - tail :]}"
        if text_width(cut) <= width:
            return cut
    return "…"


def labels(cells: Sequence[str], width: float = 126.0) -> list[str]:
    """Return short labels that differ: ranges of dates become years, months and days, or their start.

    >>> labels(["2020-01-01..2020-12-31", "2021-01-01..2022-12-31"])
    ['2020', '2021..2022']
    >>> labels(["2021-03-01..2021-08-31", "2021-09-01..2021-12-15", "not applicable"])
    ['2021-03-01..08-31', '2021-09-01..12-15', 'not applicable']
    >>> labels(["2021-03-01..2021-08-31", "2021-09-01..2022-02-28"])
    ['from 2021-03-01', 'from 2021-09-01']
    """
    spans = [_DAYS.fullmatch(cell) for cell in cells]
    days = [span.groups() for span in spans if span is not None]
    years = all(first.endswith("-01-01") and last.endswith("-12-31") for first, last in days)
    within = all(first[:4] == last[:4] for first, last in days)
    fewer = []
    for cell, span in zip(cells, spans, strict=True):
        if span is None:
            fewer.append(shorten(cell, width))
            continue
        first, last = span.groups()
        if years:
            fewer.append(first[:4] if first[:4] == last[:4] else f"{first[:4]}..{last[:4]}")
        else:
            fewer.append(f"{first}..{last[5:]}" if within else f"from {first}")
    return [
        shorten(cell, width, ends=True) if fewer.count(label) > 1 else label
        for label, cell in zip(fewer, cells, strict=True)
    ]


def bars(
    title: str,
    cells: Sequence[str],
    shares: tuple[Sequence[float], Sequence[float]],
    names: tuple[str, str],
    *,
    ordered: bool,
    noise: float | None = None,
) -> Html:
    """Draw two bars for each cell; whiskers show ±1.96 standard deviations of noise in the first."""
    cells, (first, second), groups = _fold(cells, shares, ordered=ordered)
    if any(len(group) > 1 for group in groups):
        noise = None  # the noise of merged cells is larger
    left, width, row = 134.0, 148.0, 29.0
    reach = 0.0 if noise is None else 1.96 * noise
    most = max([*(share + reach for share in first), *second, 1e-9])
    parts = []
    for i, (cell, label, *both) in enumerate(zip(cells, labels(cells, left - 8), first, second, strict=True)):
        top = i * row + 3
        parts.append(_left_label(cell, label, left - 8, top + 15))
        for name, share, offset, kind in zip(names, both, (0, 11), ("truth", "other"), strict=True):
            summary = f"{cell}: {percent(share)} in {name}"
            end = width * share / most
            shape = {"x": left, "y": top + offset, "width": f"{max(end, 0.8):.1f}", "height": 10, "rx": 1.5}
            parts.append(tag("rect", tag("title", summary), **shape, class_=kind))
            if noise is not None and kind == "truth":
                low, end = (width * max(0.0, share + sign * reach) / most for sign in (-1, 1))
                parts += _whisker(left + low, left + end, top + 5)
            parts.append(tag("text", percent(share), x=f"{left + end + 6:.1f}", y=top + offset + 9, class_="soft tiny"))
    summary = "; ".join(f"{c} {percent(a)} and {percent(b)}" for c, a, b in zip(cells, first, second, strict=True))
    return svg(330, len(cells) * row + 4, title, *parts, about=f"Shares in {names[0]} and in {names[1]}: {summary}")


def interval_bars(
    title: str,
    cells: Sequence[str],
    shares: Sequence[float],
    interval: Callable[[Sequence[int]], tuple[float, float]] | None,
    *,
    ordered: bool,
) -> Html:
    """Draw a bar for each cell, or for several if there are many; without intervals, bars alone.

    Args:
        title: the title for screen readers.
        cells: the names of the cells.
        shares: their shares.
        interval: returns the 95 % interval of the share of some cells together, for the whisker of their bar.
        ordered: whether neighbouring cells are merged, not the smallest ones.
    """
    names, (drawn,), groups = _fold(cells, (shares,), ordered=ordered)
    ends = [None if interval is None else interval(group) for group in groups]
    left, width, row = 134.0, 120.0, 21.0
    most = max([*drawn, *(high for _, high in filter(None, ends)), 1e-9])
    parts, texts = [], []
    for i, (cell, label, share, reach) in enumerate(zip(names, labels(names, left - 8), drawn, ends, strict=True)):
        top = i * row + 3
        value_text = percent(share) if reach is None else span_text(*reach)
        texts.append(f"{cell} {value_text}")
        parts.append(_left_label(cell, label, left - 8, top + 11))
        shape = {"x": left, "y": top + 1, "width": f"{max(width * share / most, 0.8):.1f}", "height": 12, "rx": 1.5}
        tooltip = f"{cell}: {percent(share)} of the synthetic rows" + (f", interval {value_text}" if reach else "")
        parts.append(tag("rect", tag("title", tooltip), **shape, class_="other"))
        low, high = (share, share) if reach is None else reach
        parts += _whisker(left + width * low / most, left + width * high / most, top + 7) if reach else []
        text_start = left + width * max(high, share) / most + 6
        parts.append(tag("text", value_text, x=f"{text_start:.1f}", y=top + 11, class_="soft tiny"))
    about = "Shares" if interval is None else "95% intervals of shares"
    return svg(330, len(names) * row + 4, title, *parts, about=f"{about}: {'; '.join(texts)}")


def span_text(low: float, high: float) -> str:
    """Format an interval of shares in percent.

    >>> span_text(0.1234, 0.2), span_text(0.0, 1.0)
    ('12.3–20.0%', '0.0–100.0%')
    """
    return f"{100 * low:.1f}\N{EN DASH}{100 * high:.1f}%"


def _fold(
    cells: Sequence[str], distributions: Sequence[Sequence[float]], *, ordered: bool
) -> tuple[list[str], list[list[float]], list[list[int]]]:
    """Merge cells so that there are few bars: neighbours if ordered, else all but the largest.

    Returns the names of the bars, their shares in each table, and the cells in each bar.
    """
    many = len(cells)
    if many <= MOST_BARS:
        return list(cells), [list(shares) for shares in distributions], [[cell] for cell in range(many)]
    if ordered:
        step = -(-many // MOST_BARS)
        groups = [list(range(start, min(start + step, many))) for start in range(0, many, step)]
        names = [_span(cells[group[0]], cells[group[-1]]) for group in groups]
    else:
        order = sorted(range(many), key=lambda cell: -max(shares[cell] for shares in distributions))
        rest = order[MOST_BARS - 1 :]
        groups = [*([cell] for cell in order[: MOST_BARS - 1]), rest]
        names = [*(cells[cell] for cell in order[: MOST_BARS - 1]), f"{len(rest)} others"]
    merged = [[sum(shares[cell] for cell in group) for group in groups] for shares in distributions]
    return names, merged, groups


def _span(first: str, last: str) -> str:
    """Return the name of a range of neighbouring cells.

    >>> _span("0..4", "10..14"), _span("[1, 2)", "[2, 3)"), _span("low", "high")
    ('0..14', '[1, 3)', 'low … high')
    """
    for mark in ("..", ", "):
        if mark in first and mark in last:
            return first.partition(mark)[0] + mark + last.partition(mark)[2]
    return first if first == last else f"{first} … {last}"


def heat_map(
    title: str,
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    full: float,
    tooltips: Mapping[tuple[str, str], str],
    uncertain: Collection[tuple[str, str]] = (),
) -> Html:
    """Draw a triangle of squares, one for each pair; the larger the value, the stronger the colour, up to `full`.

    `full` is fixed, so that colours mean the same on every page. The size of a value decides its colour; squares of
    `uncertain` pairs have none. Pairs without a value have no square.
    """
    many = len(names)
    size, top = min(44.0, max(26.0, 360 / max(1, many))), 34.0
    left = _label_width(names[1:])
    rows, squares = [], _heat_key(full)
    for row, row_name in enumerate(names[1:], start=1):
        y = top + (row - 1) * size
        rows.append(_left_label(row_name, shorten(row_name, left - 8), left - 8, y + size / 2 + 4))
        for column, column_name in enumerate(names[:row]):
            pair = (column_name, row_name) if (column_name, row_name) in values else (row_name, column_name)
            if pair in values:
                colour = 0.0 if pair in uncertain else full
                squares += _square(column * size, y, size, values[pair], colour, tooltips[pair])
    bottom = top + (many - 1) * size + 8
    squares += [_slanted_label(name, i * size + size / 2 + 4, bottom, 45) for i, name in enumerate(names[:-1])]
    worst = sorted(values, key=lambda pair: (pair in uncertain, -abs(values[pair])))[:5]
    height = bottom + _slanted_height(names)
    return _scrolling_pair(
        svg(left, height, f"{title}: names of the rows", *rows, class_="stays"),
        svg(
            max(many * size + 70, 190),
            height,
            title,
            *squares,
            about="The largest: " + "; ".join(tooltips[pair] for pair in worst),
        ),
    )


def _left_label(name: str, label: str, x: float, y: float) -> Html:
    """Return a label that ends at x, with the full name as a tooltip."""
    return tag("text", tag("title", name), label, x=x, y=y, text_anchor="end")


def _slanted_label(name: str, x: float, y: float, degrees: int) -> Html:
    """Return a shortened name that starts at a point and is turned, with the full name as a tooltip."""
    turned = f"translate({x:.1f} {y:.1f}) rotate({degrees})"
    return tag("text", tag("title", name), shorten(name, _SLANTED), transform=turned)


def _square(x: float, y: float, size: float, value: float, full: float, tooltip: str) -> list[Html]:
    """Return a square of a heat map with its number, in hundredths; without colour if `full` is 0."""
    heat = min(1.0, abs(value) / full) if full else 0.0
    shape = {"x": x + 1, "y": y + 1, "width": size - 2, "height": size - 2, "rx": 3}
    middle = {"x": x + size / 2, "y": y + size / 2 + 4, "text_anchor": "middle"}
    return [
        tag("rect", **shape, class_="cold"),
        tag("rect", tag("title", tooltip), **shape, class_="hot", fill_opacity=f"{heat:.3f}"),
        tag(
            "text",
            f"{round(100 * value) + 0:.0f}".replace("-", "\N{MINUS SIGN}"),
            **middle,
            class_="tiny on-hot" if heat > 0.55 else "tiny" if full else "tiny soft",
            pointer_events="none",
        ),
    ]


def _scrolling_pair(stays: Html, moves: Html) -> Html:
    """Put two drawings side by side; on a narrow screen the second one scrolls under the first."""
    return tag("div", stays, moves, class_="map")


def _label_width(names: Sequence[str], most: float = 132.0) -> float:
    """Return the width of the longest name, at most `most`."""
    return min(most, 8 + max((text_width(name) for name in names), default=0.0))


def _slanted_height(names: Sequence[str]) -> float:
    """Return the height of the longest name, written at 45 degrees."""
    return 20 + max((text_width(shorten(name, _SLANTED)) for name in names), default=0.0) / math.sqrt(2)


def _heat_key(full: float) -> list[Html]:
    """Return the colour scale, from 0 to `full`, in hundredths."""
    parts = [tag("text", "0", x=0, y=15, class_="soft")]
    for step in range(6):
        shape = {"x": 14 + 18 * step, "y": 4, "width": 18, "height": 13}
        parts += [tag("rect", **shape, class_="cold"), tag("rect", **shape, class_="hot", fill_opacity=step / 5)]
    more = "" if full >= 1 else " and more"
    return [*parts, tag("text", f"{100 * full:.0f}{more}", x=14 + 18 * 6 + 6, y=15, class_="soft")]


def pattern_picture(
    title: str, names: Sequence[str], patterns: Sequence[tuple[tuple[str, ...], float, float]], legend: tuple[str, str]
) -> Html:
    """Draw a row for each pattern of gaps: full squares are observed, open ones missing; bars show its frequency."""
    size, top, length = 22.0, _slanted_height(names), 84.0
    most = max([share for _, *both in patterns for share in both] + [1e-9])
    squares, rates = [_slanted_label(name, i * size + 14, top - 8, -45) for i, name in enumerate(names)], []
    for row, (missing, *both) in enumerate(patterns):
        y = top + row * 28
        shown = ", ".join(f"{percent(share)} in {name}" for share, name in zip(both, legend, strict=True))
        tooltip = f"missing: {', '.join(missing) or 'nothing'}: {shown}"
        shape = {"y": y + 4, "width": size - 8, "height": size - 8, "rx": 3}
        drawn = (
            tag("rect", x=column * size + 4, **shape, class_="hole" if name in missing else "truth")
            for column, name in enumerate(names)
        )
        squares.append(tag("g", tag("title", tooltip), *drawn))
        for share, offset, kind in zip(both, (1, 12), ("truth", "other"), strict=True):
            end = max(0.8, length * share / most)
            rates.append(tag("rect", x=0, y=y + offset, width=f"{end:.1f}", height=10, rx=1.5, class_=kind))
            rates.append(tag("text", percent(share), x=f"{end + 5:.1f}", y=y + offset + 9, class_="soft tiny"))
    about = "; ".join(
        f"{', '.join(missing) or 'nothing'} {percent(a)} and {percent(b)}" for missing, a, b in patterns[:6]
    )
    height = top + 28 * len(patterns) + 6
    return _scrolling_pair(
        svg(length + 46, height, f"{title}: how frequent", *rates, class_="stays"),
        svg(size * len(names) + 90, height, title, *squares, about=f"Missing together: {about}"),
    )


def dots(title: str, rows: Sequence[tuple[str, float, float]], names: tuple[str, str]) -> Html:
    """Draw a ring and a dot on a scale from 0 to 1 for each row; both are visible where they overlap."""
    left, width, row = 132.0, 196.0, 24.0
    bottom = len(rows) * row + 6
    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x = left + width * tick
        parts.append(_line(x, 0, x, bottom, "rule"))
        parts.append(tag("text", f"{tick:g}", x=x, y=bottom + 14, text_anchor="middle", class_="soft"))
    for i, (name, *both) in enumerate(rows):
        y = i * row + 14
        places = [left + width * share for share in both]
        parts.append(_left_label(name, shorten(name, left - 12), left - 12, y + 4))
        parts.append(_line(places[0], y, places[1], y, "whisker"))
        for place, share, kind, size, who in zip(places, both, ("ring", "other"), (6.5, 4), names, strict=True):
            tooltip = tag("title", f"{name}: {share:.3f} from {who}")
            parts.append(tag("circle", tooltip, cx=f"{place:.1f}", cy=y, r=size, class_=kind))
    about = "; ".join(f"{name} {first_value:.2f} and {second_value:.2f}" for name, first_value, second_value in rows)
    return svg(left + width + 20, bottom + 20, title, *parts, about=f"From {names[0]} and from {names[1]}: {about}")


def key(names: tuple[str, str]) -> Html:
    """Return the key of the colours."""
    parts = [join([tag("i", class_=kind), name]) for kind, name in zip(("truth", "other"), names, strict=True)]
    return tag("p", *parts, class_="key")


def _whisker(low: float, high: float, y: float) -> list[Html]:
    """Draw an interval with ends, over a wider line in the colour of the card for contrast with the bar."""
    path = f"M{low:.1f} {y:.1f}H{high:.1f}M{low:.1f} {y - 3:.1f}v6M{high:.1f} {y - 3:.1f}v6"
    return [tag("path", d=path, class_=kind) for kind in ("halo", "whisker")]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return tag("line", **{name: f"{value:.1f}" for name, value in ends.items()}, class_=kind)


_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 476, 60, 40, 20, 186
_CURVE_WIDE, _HIGH = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM


class Line(NamedTuple):
    """A line with a value for each place on the axis; `dash` is a dash pattern of SVG, solid if empty."""

    name: str
    colour: str
    values: Sequence[float]
    dash: str = ""


def curves(
    title: str,
    places: Sequence[float],
    lines: Sequence[Line],
    *,
    across: str,
    up: str,
    remarks: Sequence[str],
    small_print: Sequence[str],
) -> str:
    """Draw lines over an axis of shares, both axes from 0, as an SVG file.

    Args:
        title: the title above the drawing.
        places: the positions of the values of each line on the axis.
        lines: the lines, the last one on top.
        across: the name of the axis of places.
        up: the name of the axis of values.
        remarks: sentences below the key.
        small_print: sentences below the remarks, after a small gap.
    """
    largest = max(max(line.values) for line in lines) or 1.0
    step = next(
        step for step in (base * 10.0**power for power in range(-9, 9) for base in (1, 2, 5)) if 5 * step >= largest
    )
    top = step * math.ceil(largest / step)

    def x(place: float) -> str:
        return f"{_LEFT + _CURVE_WIDE * place / places[-1]:.1f}"

    def y(value: float) -> str:
        return f"{_TOP + _HIGH * (1 - value / top):.1f}"

    drawn = [
        shape("rect", width=_WIDTH, height=_HEIGHT, fill="white"),
        tag("text", title, x=_LEFT, y=22, font_size=14),
        *(tag("text", f"{place:.0%}", x=x(place), y=_TOP + _HIGH + 16, text_anchor="middle") for place in places),
    ]
    for value in (step * many for many in range(round(top / step) + 1)):
        drawn.append(shape("line", x1=_LEFT, x2=_LEFT + _CURVE_WIDE, y1=y(value), y2=y(value), stroke="#dddddd"))
        drawn.append(tag("text", f"{value:.3g}", x=_LEFT - 6, y=y(value), dy=4, text_anchor="end"))
    drawn.append(tag("text", across, x=_LEFT + _CURVE_WIDE, y=_TOP + _HIGH + 32, text_anchor="end"))
    drawn.append(tag("text", up, x=_LEFT - 6, y=_TOP - 14, text_anchor="end"))
    for row, line in enumerate(lines):
        under = _TOP + _HIGH + 36 + 17 * row
        points = " ".join(f"{x(place)},{y(value)}" for place, value in zip(places, line.values, strict=True))
        drawn.append(_stroke(points, line))
        drawn.append(_stroke(f"{_LEFT},{under} {_LEFT + 28},{under}", line))
        drawn.append(tag("text", line.name, x=_LEFT + 34, y=under + 4))
    below = [(text, 6) for text in remarks] + [(text, 0) for text in small_print]
    for row, (text, gap) in enumerate(below, start=1 - len(below)):
        drawn.append(tag("text", text, x=_LEFT, y=_HEIGHT - 9 - gap + 15 * row, font_size=11))
    return svg_file(title, drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", font_family="sans-serif", font_size=12)


def _stroke(points: str, line: Line) -> Html:
    return shape("polyline", points=points, fill="none", stroke=line.colour, stroke_width=2, stroke_dasharray=line.dash)
