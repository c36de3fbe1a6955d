"""Lines over an axis of shares, with a key and a few sentences below: an SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gapless.draw.markup import Html, shape, svg_file, tag

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 640, 476, 60, 40, 20, 186
_WIDE, _HIGH = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM


class Line(NamedTuple):
    """A value for each place on the axis; `dash` is SVG's pattern of dashes, none if empty."""

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
    told: Sequence[str],
    small_print: Sequence[str],
) -> str:
    """Lines from 0 upwards over `places`, shares from 0 on.

    Args:
        title: above the drawing.
        places: where on the axis the values of each line belong.
        lines: what is drawn, the last one on top.
        across: the name of the axis of places.
        up: the name of the axis of values.
        told: sentences below the key.
        small_print: sentences below these, set off a little.
    """
    largest = max(max(line.values) for line in lines) or 1.0
    step = next(
        step for step in (base * 10.0**power for power in range(-9, 9) for base in (1, 2, 5)) if 5 * step >= largest
    )
    top = step * math.ceil(largest / step)

    def x(place: float) -> str:
        return f"{_LEFT + _WIDE * place / places[-1]:.1f}"

    def y(value: float) -> str:
        return f"{_TOP + _HIGH * (1 - value / top):.1f}"

    drawn = [
        shape("rect", width=_WIDTH, height=_HEIGHT, fill="white"),
        tag("text", title, x=_LEFT, y=22, font_size=14),
        *(tag("text", f"{place:.0%}", x=x(place), y=_TOP + _HIGH + 16, text_anchor="middle") for place in places),
    ]
    for value in (step * many for many in range(round(top / step) + 1)):
        drawn.append(shape("line", x1=_LEFT, x2=_LEFT + _WIDE, y1=y(value), y2=y(value), stroke="#dddddd"))
        drawn.append(tag("text", f"{value:.3g}", x=_LEFT - 6, y=y(value), dy=4, text_anchor="end"))
    drawn.append(tag("text", across, x=_LEFT + _WIDE, y=_TOP + _HIGH + 32, text_anchor="end"))
    drawn.append(tag("text", up, x=_LEFT - 6, y=_TOP - 14, text_anchor="end"))
    for row, line in enumerate(lines):
        under = _TOP + _HIGH + 36 + 17 * row
        points = " ".join(f"{x(place)},{y(value)}" for place, value in zip(places, line.values, strict=True))
        drawn.append(_stroke(points, line))
        drawn.append(_stroke(f"{_LEFT},{under} {_LEFT + 28},{under}", line))
        drawn.append(tag("text", line.name, x=_LEFT + 34, y=under + 4))
    below = [(text, 6) for text in told] + [(text, 0) for text in small_print]
    for row, (text, gap) in enumerate(below, start=1 - len(below)):
        drawn.append(tag("text", text, x=_LEFT, y=_HEIGHT - 9 - gap + 15 * row, font_size=11))
    return svg_file(title, drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", font_family="sans-serif", font_size=12)


def _stroke(points: str, line: Line) -> Html:
    return shape("polyline", points=points, fill="none", stroke=line.colour, stroke_width=2, stroke_dasharray=line.dash)
