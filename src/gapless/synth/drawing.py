"""The structure of a model as a picture: hand-made SVG, no script, light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #222; }
  line { stroke: #3b6ea5; stroke-linecap: round; opacity: .75; }
  circle { fill: #f4a259; stroke: #fff; }
  @media (prefers-color-scheme: dark) { text { fill: #eee; } line { stroke: #8fb8e8; } circle { stroke: #222; } }
"""


def draw_structure(names: Sequence[str], edges: Sequence[tuple[int, int, float]]) -> str:
    """Columns on a circle, and a line for each two that are modelled together; the stronger, the thicker.

    Args:
        names: of the columns.
        edges: two columns and how strongly they depend on each other, from 0 to 1.

    >>> draw_structure(["age", "sex"], [(0, 1, 0.5)]).count("<line")
    1
    """
    radius = 40 + 14 * len(names)
    margin = 20 + 8 * max(map(len, names), default=0)
    half_width, half_height = radius + margin, radius + 40
    spots = [
        (radius * math.cos(turn), radius * math.sin(turn))
        for turn in (2 * math.pi * i / len(names) - math.pi / 2 for i in range(len(names)))
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-half_width:.0f} {-half_height:.0f} '
        f'{2 * half_width:.0f} {2 * half_height:.0f}" role="img" aria-label="which columns are modelled together">',
        f"<style>{_STYLE}</style>",
    ]
    for one, other, strength in edges:
        (x1, y1), (x2, y2) = spots[one], spots[other]
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke-width="{1 + 6 * strength:.1f}">'
            f"<title>{escape(names[one])} and {escape(names[other])}: {strength:.2f}</title></line>"
        )
    for name, (x, y) in zip(names, spots, strict=True):
        anchor = "middle" if abs(x) < 1 else "start" if x > 0 else "end"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(
            f'<text x="{x * (1 + 14 / radius):.1f}" y="{y * (1 + 14 / radius) + 4:.1f}" text-anchor="{anchor}">'
            f"{escape(name)}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])
