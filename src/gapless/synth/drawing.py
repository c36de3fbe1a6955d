"""The structure of a model as a picture: hand-made SVG, no script, light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

import networkx as nx

from gapless.schema.words import shortened

Edge: TypeAlias = tuple[int, int, float]

MOST_LINES = 80  # the strongest; of more than these no single one can be followed
LONGEST_NAME = 30
# Kinds of relations by their strength, the strongest first: from which strength on, name, width of the line.
KINDS = ((0.3, "strong", 4.0), (0.1, "middle", 2.0), (0.0, "weak", 1.5))

# Plain colours, and others for the dark: not every viewer knows variables.
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


def draw_structure(names: Sequence[str], edges: Sequence[Edge], *, title: str = "Columns modelled together") -> str:
    """Columns on a circle, and a line for each two that are modelled together; the stronger, the thicker.

    Columns that belong together stand side by side. Of very many lines the weakest are left out, with a word on it.

    Args:
        names: of the columns.
        edges: two columns and how strongly they depend on each other in the model, from 0 to 1.
        title: above the drawing.

    >>> draw_structure(["age", "sex"], [(0, 1, 0.5)]).count('class="strong"')
    2
    """
    labels = [shortened(name, LONGEST_NAME) for name in names]
    radius = max(140, 4 * len(names))
    half = radius + 24 + 8 * max(map(len, labels), default=0)
    order = _order(len(names), edges)
    turns = {column: 2 * math.pi * place / len(names) - math.pi / 2 for place, column in enumerate(order)}
    drawn = sorted(edges, key=lambda edge: edge[2])[-MOST_LINES:]  # the strongest last, on top
    told = _legend(edges, len(edges) - len(drawn))
    width, top = max(2 * half, 640), 44
    height = top + 2 * half + 22 * len(told) + 12
    lines = [_line(names, edge, turns, radius) for edge in drawn]
    tied = {column for one, other, _ in edges for column in (one, other)}
    dots = [_dot(names[c], labels[c], turns[c], radius, alone=c not in tied) for c in order]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="structure" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{width:.0f}" height="{height:.0f}"/>',
            f'<text class="title" x="16" y="30">{escape(title)}</text>',
            f'<g transform="translate({width / 2:.1f} {top + half:.1f})">',
            *lines,
            *dots,
            "</g>",
            *(
                f'<g transform="translate(16 {top + 2 * half + 22 * place:.1f})">{entry}</g>'
                for place, entry in enumerate(told)
            ),
            "</svg>",
            "",
        ]
    )


def _order(columns: int, edges: Sequence[Edge]) -> list[int]:
    """Columns around the circle: along the tree of the strongest relations, so that few lines cross the middle."""
    graph = nx.Graph()
    graph.add_nodes_from(range(columns))
    graph.add_weighted_edges_from(edges)
    tree = nx.maximum_spanning_tree(graph)
    total = dict(graph.degree(weight="weight"))
    order: list[int] = []
    seen: set[int] = set()
    waiting = sorted(range(columns), key=lambda column: (total[column], -column))  # the most tied one is taken first
    while waiting:
        column = waiting.pop()
        if column not in seen:
            seen.add(column)
            order.append(column)
            near = sorted(tree[column].items(), key=lambda item: item[1]["weight"])
            waiting += [neighbour for neighbour, _ in near]
    return order


def _kind(strength: float) -> tuple[str, float]:
    return next((name, width) for least, name, width in KINDS if strength >= least)


def _line(names: Sequence[str], edge: Edge, turns: dict[int, float], radius: float) -> str:
    one, other, strength = edge
    kind, width = _kind(strength)
    ends = [(radius * math.cos(turns[c]), radius * math.sin(turns[c])) for c in (one, other)]
    (x1, y1), (x2, y2) = ends
    bend = 0.45 - 0.35 * math.dist(*ends) / (2 * radius)  # towards the middle, the more so the farther apart they are
    bend_x, bend_y = bend * (x1 + x2), bend * (y1 + y2)
    return (
        f'<path class="{kind}" stroke-width="{width:g}" '
        f'd="M{x1:.1f} {y1:.1f}Q{bend_x:.1f} {bend_y:.1f} {x2:.1f} {y2:.1f}">'
        f"<title>{escape(names[one])} and {escape(names[other])}: {strength:.2f}</title></path>"
    )


def _dot(name: str, label: str, turn: float, radius: float, *, alone: bool) -> str:
    """A column: its dot, and its name along the spoke, so that names never lie on each other."""
    left = math.cos(turn) < -1e-9
    spoke = math.degrees(turn)
    flip = f' transform="rotate(180 {radius + 12:.0f} 0)" text-anchor="end"' if left else ""
    kind = "alone" if alone else "tied"
    return (
        f'<g transform="rotate({spoke:.2f})"><circle class="{kind}" cx="{radius}" r="5"/>'
        f'<text x="{radius + 12:.0f}" y="0" dy="0.35em"{flip}><title>{escape(name)}</title>{escape(label)}</text></g>'
    )


def _legend(edges: Sequence[Edge], left_out: int) -> list[str]:
    """What the lines mean, and how many there are of each kind."""
    if not edges:
        return ['<text y="4">No two columns were measured together: the model takes them as independent.</text>']
    entries = [
        '<text y="4">Drawn from released values. How strongly two columns go together in the model:</text>',
        '<text y="4">Cramér’s V, from 0 (not at all) to 1 (one decides the other)</text>',
    ]
    above = math.inf
    for least, kind, width in KINDS:
        many = sum(least <= strength < above for *_, strength in edges)
        bounds = f"below {above:g}" if not least else f"{least:g} and above" if above > 1 else f"{least:g} to {above:g}"
        above = least
        if many:
            entries.append(
                f'<path class="{kind}" stroke-width="{width:g}" d="M0 0H28"/>'
                f'<text x="36" y="4">{kind}, {bounds}: {many} {"pair" if many == 1 else "pairs"}</text>'
            )
    if left_out:
        entries.append(f'<text y="4">The {left_out} weakest are left out here; model.describe() names them all.</text>')
    return entries
