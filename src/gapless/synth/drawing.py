"""The structure of a model as a picture, from released values."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from gapless.draw.markup import Html
from gapless.draw.ring import MOST_LINES, Edge, legend_kinds, legend_text, ring
from gapless.schema.words import shortened

LONGEST_NAME = 30


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
    return ring(title, names, edges, labels=labels, order=_order(len(names), edges), legend=_legend(edges))


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
