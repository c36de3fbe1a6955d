"""The page of weights: the effective number of rows, and the effect on columns and pairs; from public rows, so free."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gapless.data import Table
from gapless.draw.cards import MOST_COLUMNS, ColumnCard, NumberCard, cards, column_cards, footer
from gapless.draw.charts import bars, key, percent
from gapless.draw.page import Html, page, section, table, tag
from gapless.evaluate.marginals import compare_pairs, shares
from gapless.privacy import Ledger
from gapless.types import Floats
from gapless.weights import Weights

NAMES = ("without weights", "with weights")
EDGES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
MOST_PAIRS = 12

_WEIGHTS_ORIGIN = (
    "This page uses the synthetic rows and their weights, which are a function of released values. It cost nothing, "
    "and reveals nothing more about the private table. It shows what the weights change, not how close the rows are to "
    "the truth."
)


def weights_page(rows: Table, weights: Weights, ledger: Ledger) -> str:
    """Return the page of weights, from public rows and their weights alone: free, and safe to publish.

    Args:
        rows: the synthetic rows.
        weights: one for each row.
        ledger: the ledger whose guarantee is quoted.
    """
    mass = np.asarray(weights)
    title = f"Weights: {rows.schema.name}"
    return page(
        title,
        tag("h1", title),
        tag("p", f"{str(weights)[0].upper()}{str(weights)[1:]}.", class_="soft"),
        tag("div", tag("p", str(ledger.guarantee())), class_="note"),
        tag("div", tag("p", f"Warning: {weights.caution}"), class_="note warn") if weights.caution else Html(""),
        _spread(weights),
        column_cards(
            [_column(rows, place, mass) for place in range(len(rows.schema.columns))[:MOST_COLUMNS]],
            NAMES,
            of=len(rows.schema.columns),
        ),
        _pairs(rows, weights),
        section("What this page is made from", tag("p", _WEIGHTS_ORIGIN)),
        footer(),
    )


def _spread(weights: Weights) -> Html:
    """Return the share of the rows, and of all weight, in each range of weights."""
    mass = np.asarray(weights)
    places = np.searchsorted(EDGES, mass, side="right") - 1
    names = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    distributions = [np.bincount(places, given, minlength=len(EDGES)) / len(mass) for given in (None, mass)]
    both = ("share of the rows", "share of all weight")
    numbers = (
        NumberCard("rows", len(mass), "number of rows"),
        NumberCard("rows in effect", round(weights.effective_rows), "a mean varies as with this many unweighted rows"),
        NumberCard("the heaviest row", weights.largest_share, "its share of all weight"),
    )
    chart = bars(
        "Weights",
        [*names, f"{EDGES[-1]:g} or more"],
        (distributions[0].tolist(), distributions[1].tolist()),
        both,
        ordered=True,
    )
    text = "The mean weight is 1. Bars: the rows whose weight is in each range."
    return section("Weights", cards(numbers), tag("p", text), key(both), tag("div", chart, class_="card"))


def _column(rows: Table, place: int, mass: Floats) -> ColumnCard:
    column = rows.schema.columns[place]
    found = (shares(rows, [place], given) for given in (None, mass))
    plain, weighted = (np.zeros(column.size) if observed is None else observed for observed in found)
    missing = rows.codes[place] >= column.size
    gaps = (float(missing.mean()), float(mass @ missing / mass.sum())) if column.gaps else None
    return ColumnCard(
        column.name,
        column.cells[: column.size],
        (tuple(plain.tolist()), tuple(weighted.tolist())),
        float(np.abs(plain - weighted).sum() / 2),
        gaps,
        ordered=column.is_ordered,
    )


def _pairs(rows: Table, weights: Weights) -> Html:
    """Return the pairs of columns that weights change most."""
    found = [pair for pair in compare_pairs(rows, rows, weights=weights) if pair.distance is not None]
    most = sorted(found, key=lambda pair: -(pair.distance or 0.0))[:MOST_PAIRS]
    text = "The pairs that weights change most: the share of all weight that moved to another combination of cells."
    lines = [(" × ".join(pair.columns), percent(pair.distance or 0.0)) for pair in most]
    return section("Pairs", tag("p", text), table(("columns", "moved"), lines, right=(1,))) if lines else Html("")
