"""Names on a circle and lines between them, as an SVG file for light and dark screens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from gapless.draw.page import Html, join, shape, svg_file, tag

Edge: TypeAlias = tuple[int, int, float]  # the indices of two names, and a strength from 0 to 1

MOST_LINES = 80  # the strongest ones; more lines would be unreadable
# Kinds of edges, the strongest first: least strength, name, width of the line.
KINDS = ((0.3, "strong", 4.0), (0.1, "middle", 2.0), (0.0, "weak", 1.5))

# No CSS variables: some viewers of SVG do not support them.
_STYLE = """
  .structure { background: #fff; }
  .structure rect { fill: #fff; }
  .structure text { font: 13px system-ui, sans-serif; fill: #222; }
  .structure .title { font-size: 16px; font-weight: 600; }
  .structure path { fill: none; stroke-linecap: round; }
  .structure .strong { stroke: #0b5fa5; }
  .structure .middle { stroke: #4f8cc6; }
  .structure .weak { stroke: #8090a0; }
  .structure circle { fill: #d9782d; stroke: #fff; stroke-width: 2; }
  .structure .alone { fill: #fff; stroke: #d9782d; }
  @media (prefers-color-scheme: dark) {
    .structure { background: #14181d; }
    .structure rect { fill: #14181d; }
    .structure text { fill: #e4e6e8; }
    .structure .strong { stroke: #8ec5ff; }
    .structure .middle { stroke: #4f8fcb; }
    .structure .weak { stroke: #7b8d9e; }
    .structure circle { fill: #f0a35e; stroke: #14181d; }
    .structure .alone { fill: #14181d; stroke: #f0a35e; }
  }
"""


def ring(
    title: str, names: Sequence[str], edges: Sequence[Edge], *, labels: Sequence[str], legend: Sequence[Html]
) -> str:
    """Draw names on a circle and a line for each edge; a stronger edge has a thicker line.

    Only the strongest `MOST_LINES` edges are drawn. Strongly connected names are neighbours on the circle.

    Args:
        title: the title above the drawing.
        names: the full names, for tooltips.
        edges: the edges between the names.
        labels: the names as they are drawn.
        legend: rows below the circle.
    """
    radius = max(140, 4 * len(names))
    half = radius + 24 + 8 * max(map(len, labels), default=0)
    order = _order(len(names), edges)
    turns = {name: 2 * math.pi * place / len(names) - math.pi / 2 for place, name in enumerate(order)}
    tied = {name for first, second, _ in edges for name in (first, second)}
    strongest = sorted(edges, key=lambda edge: edge[2])[-MOST_LINES:]  # the strongest last, on top
    width, top = max(2 * half, 640), 44
    height = top + 2 * half + 22 * len(legend) + 12
    drawn = [
        tag("title", title),
        tag("style", Html(_STYLE)),
        shape("rect", width=f"{width:.0f}", height=f"{height:.0f}"),
        tag("text", title, class_="title", x=16, y=30),
        Html(f'<g transform="translate({width / 2:.1f} {top + half:.1f})">'),
        *(_line(names, edge, turns, radius) for edge in strongest),
        *(_dot(names[name], labels[name], turns[name], radius, alone=name not in tied) for name in order),
        Html("</g>"),
        *(
            tag("g", row, transform=f"translate(16 {top + 2 * half + 22 * place:.1f})")
            for place, row in enumerate(legend)
        ),
    ]
    return svg_file(title, drawn, class_="structure", viewBox=f"0 0 {width:.0f} {height:.0f}")


def _order(names: int, edges: Sequence[Edge]) -> list[int]:
    """Order the names along a maximum spanning tree, so that few lines cross the middle."""
    strengths: list[list[float]] = [[] for _ in range(names)]
    for first, second, strength in edges:
        strengths[first].append(strength)
        strengths[second].append(strength)
    near = _spanning_tree(names, edges)
    order: list[int] = []
    waiting = sorted(
        range(names), key=lambda name: (sum(strengths[name]), -name)
    )  # the most connected name comes first
    seen: set[int] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            order.append(name)
            waiting += sorted(near[name], key=near[name].__getitem__)
    return order


def _spanning_tree(names: int, edges: Sequence[Edge]) -> list[dict[int, float]]:
    """Return the neighbours of each name in Kruskal's maximum spanning tree, with the strengths of the edges."""
    near: list[dict[int, float]] = [{} for _ in range(names)]
    part = list(range(names))  # names with the same number are connected
    for first, second, strength in sorted(edges, key=lambda edge: (-edge[2], min(edge[:2]))):
        if part[first] != part[second]:
            near[first][second] = near[second][first] = strength
            joined, gone = part[first], part[second]
            part = [joined if number == gone else number for number in part]
    return near


def legend_text(text: str) -> Html:
    """Return a row of a legend that is a sentence."""
    return tag("text", text, y=4)


def legend_kinds(edges: Sequence[Edge]) -> list[Html]:
    """Return a row of a legend for each kind of edge that occurs, with the number of such edges."""
    rows = []
    above = math.inf
    for least, kind, width in KINDS:
        many = sum(least <= strength < above for *_, strength in edges)
        bounds = f"below {above:g}" if not least else f"{least:g} and above" if above > 1 else f"{least:g} to {above:g}"
        above = least
        if many:
            line = shape("path", class_=kind, stroke_width=f"{width:g}", d="M0 0H28")
            text = f"{kind}, {bounds}: {many} {'pair' if many == 1 else 'pairs'}"
            rows.append(join([line, tag("text", text, x=36, y=4)]))
    return rows


def _line(names: Sequence[str], edge: Edge, turns: dict[int, float], radius: float) -> Html:
    first, second, strength = edge
    kind, width = next((name, width) for least, name, width in KINDS if strength >= least)
    ends = [(radius * math.cos(turns[name]), radius * math.sin(turns[name])) for name in (first, second)]
    (x1, y1), (x2, y2) = ends
    bend = 0.45 - 0.35 * math.dist(*ends) / (2 * radius)  # long edges bend more towards the middle
    bend_x, bend_y = bend * (x1 + x2), bend * (y1 + y2)
    return tag(
        "path",
        tag("title", f"{names[first]} and {names[second]}: {strength:.2f}"),
        class_=kind,
        stroke_width=f"{width:g}",
        d=f"M{x1:.1f} {y1:.1f}Q{bend_x:.1f} {bend_y:.1f} {x2:.1f} {y2:.1f}",
    )


def _dot(name: str, label: str, turn: float, radius: float, *, alone: bool) -> Html:
    """Draw a name: a dot, and a label in radial direction, so that labels never overlap."""
    left = math.cos(turn) < -1e-9
    text = tag(
        "text",
        tag("title", name),
        label,
        x=f"{radius + 12:.0f}",
        y=0,
        dy="0.35em",
        transform=f"rotate(180 {radius + 12:.0f} 0)" if left else None,
        text_anchor="end" if left else None,
    )
    dot = shape("circle", class_="alone" if alone else "tied", cx=radius, r=5)
    return tag("g", dot, text, transform=f"rotate({math.degrees(turn):.2f})")
