"""The structure of a model as a picture, from released values."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.draw.markup import Html
from gapless.draw.ring import MOST_LINES, Edge, legend_kinds, legend_text, ring
from gapless.text import shortened

LONGEST_NAME = 30


def draw_structure(names: Sequence[str], edges: Sequence[Edge], *, title: str = "Columns modelled together") -> str:
    """Columns on a circle, and a line for each two that are modelled together; the stronger, the thicker.

    Of very many lines the weakest are left out, with a word on it.

    Args:
        names: of the columns.
        edges: two columns and how strongly they depend on each other in the model, from 0 to 1.
        title: above the drawing.

    >>> draw_structure(["age", "sex"], [(0, 1, 0.5)]).count('class="strong"')
    2
    """
    labels = [shortened(name, LONGEST_NAME) for name in names]
    return ring(title, names, edges, labels=labels, legend=_legend(edges))


def _legend(edges: Sequence[Edge]) -> list[Html]:
    """What the lines mean, and how many there are of each kind."""
    if not edges:
        return [legend_text("No two columns were measured together: the model takes them as independent.")]
    rows = [
        legend_text("Drawn from released values. How strongly two columns go together in the model:"),
        legend_text("Cramér’s V, from 0 (not at all) to 1 (one decides the other)"),
        *legend_kinds(edges),
    ]
    if len(edges) > MOST_LINES:
        left_out = len(edges) - MOST_LINES
        rows.append(legend_text(f"The {left_out} weakest are left out here; model.describe() names them all."))
    return rows
