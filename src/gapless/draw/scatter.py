"""Small scatter plots as SVG: points, a line, and the band that its interval leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gapless.draw.charts import shorten
from gapless.draw.page import Html, join, shape, svg, tag

_LEFT, _TOP, _WIDE, _HIGH, _BELOW = 46.0, 8.0, 244.0, 168.0, 36.0


class Band(NamedTuple):
    """A line and its interval at some places from left to right."""

    places: Sequence[float]
    line: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def scatter(title: str, points: Sequence[tuple[float, float]], band: Band, *, across: str, up: str, about: str) -> Html:
    """Draw points with a line and its band; the axes hold all points.

    Args:
        title: of the drawing.
        points: at least two different positions on either axis.
        band: drawn behind the points, cut at the ends of the axes.
        across: the name of the axis of the first coordinate.
        up: the name of the other axis.
        about: a description for screen readers.
    """
    xs, ys = ([point[axis] for point in points] for axis in (0, 1))
    (left, right), (bottom, top) = (_axis(values) for values in (xs, ys))

    def x(value: float) -> float:
        return _LEFT + _WIDE * (value - left) / (right - left)

    def y(value: float) -> float:
        return _TOP + _HIGH * (top - min(top, max(bottom, value))) / (top - bottom)

    def path(values: Sequence[float], places: Sequence[float]) -> str:
        return "L".join(f"{x(place):.1f} {y(value):.1f}" for place, value in zip(places, values, strict=True))

    outline = f"M{path(band.high, band.places)}L{path(band.low[::-1], band.places[::-1])}Z"
    drawn = [
        shape("path", d=outline, class_="band"),
        join(shape("circle", cx=f"{x(a):.1f}", cy=f"{y(b):.1f}", r=1.7, class_="point") for a, b in points),
        shape("path", d=f"M{path(band.line, band.places)}", class_="fit"),
        shape("path", d=f"M{_LEFT} {_TOP}V{_TOP + _HIGH}H{_LEFT + _WIDE}", class_="axis"),
        *(_tick(f"{end:.4g}", place, _TOP + _HIGH + 14, anchor)
          for end, place, anchor in ((left, _LEFT, "start"), (right, _LEFT + _WIDE, "end"))),
        *(_tick(f"{end:.4g}", _LEFT - 5, place, "end") for end, place in ((top, _TOP + 9), (bottom, _TOP + _HIGH))),
        tag("text", shorten(across, _WIDE), x=_LEFT + _WIDE / 2, y=_TOP + _HIGH + 29, text_anchor="middle"),
        tag("text", shorten(up, _HIGH), text_anchor="middle",
            transform=f"translate({_LEFT - 32:.0f} {_TOP + _HIGH / 2:.0f}) rotate(-90)"),
    ]  # fmt: skip
    return svg(_LEFT + _WIDE + 10, _TOP + _HIGH + _BELOW, title, *drawn, about=about)


def _axis(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _tick(text: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", text, x=f"{x:.0f}", y=f"{y:.0f}", text_anchor=anchor, class_="soft tiny")
