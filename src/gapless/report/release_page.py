"""The report of a release, and the page of weights. Both use released values only, so they are free.

The report of a release shows how much noise is in it, and what was measured.
The page of weights shows the effective number of rows, and the effect on columns and pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from gapless.data import Table
from gapless.draw.cards import MOST_COLUMNS, ColumnCard, Grade, NumberCard, cards, column_cards, footer, left_out, mark
from gapless.draw.charts import bars, heat_map, key, noisy_bars, percent
from gapless.draw.page import Html, join, page, section, side, table, tag, titled, unbroken
from gapless.evaluate.marginals import DENSE_CELLS, association, compare_pairs, measure_of, shares
from gapless.missing.check import crowded_bin
from gapless.privacy import Ledger
from gapless.schema import Column, Integer, Number
from gapless.synth.fitted import FittedModel
from gapless.text import listing, plural
from gapless.types import Floats
from gapless.weights import Weights

SeenOf = Callable[[int], float]
Clarity = Literal["clear", "rough", "lost"]
CLEAR, ROUGH = 0.10, 0.50  # largest relative error (95%) of a clear and of a rough cell; others are lost
_GRADES: dict[Clarity, Grade] = {"clear": "good", "rough": "fair", "lost": "poor"}
_MOST_LISTED = 12


@dataclass(frozen=True, slots=True)
class NoisyColumn:
    """A column of the synthetic rows, and the noise in its shares.

    Sampling rounds the model's shares to whole rows, so it adds almost no noise.

    Attributes:
        shares: the shares of the observed cells in the synthetic rows.
        noise_std: the standard deviation of the noise in a count; None if the column was not measured by itself.
        rows: the approximate number of private rows in which the column is observed, a released number.
        mean: for a measured column of numbers, the mean and half its 95 % interval for the population.
    """

    column: Column
    shares: tuple[float, ...]
    noise_std: float | None
    rows: float
    mean: tuple[float, float] | None = None

    @property
    def clarity(self) -> list[Clarity]:
        """How well each cell of a measured column is known, relative to its size."""
        if self.noise_std is None:
            return []
        reach = 1.96 * self.std
        return [
            "clear" if reach <= CLEAR * share else "rough" if reach <= ROUGH * share else "lost"
            for share in self.shares
        ]

    @property
    def std(self) -> float:
        """The standard deviation of the noise in a share; 0 if the column was not measured by itself."""
        return (self.noise_std or 0.0) / self.rows

    @property
    def off(self) -> float:
        """The relative error (95%) of a cell of average size."""
        return 1.96 * self.std * self.column.size


def release_page(model: FittedModel, sample: Table, ledger: Ledger, *, rows: int | None = None) -> str:
    """Return the report of a release, from released values only: free, and safe to publish.

    It shows the synthetic rows alone. Their distance from the model says nothing about the truth. The noise of the
    measurements does, and its size is public.

    Args:
        model: the fitted model; its marginals and noise levels are released values.
        sample: the synthetic rows of the release, or the first of them.
        ledger: the ledger whose guarantee is quoted.
        rows: the number of synthetic rows, if `sample` has only the first.
    """
    seen_of = cache(partial(_seen, model))  # slow in a large network
    columns = [
        _noisy_column(model, sample, place, seen_of) for place in range(len(sample.schema.columns))[:MOST_COLUMNS]
    ]
    return page(
        f"Report: {sample.schema.name}",
        tag("h1", f"Report: {sample.schema.name}"),
        tag("p", sample.schema.description, class_="soft") if sample.schema.description else Html(""),
        tag("div", tag("p", str(ledger.guarantee())), class_="note"),
        tag("div", tag("p", f"Warning: {caution}"), class_="note warn")
        if (caution := model.noise_warning())
        else Html(""),
        _noise(model, sample.rows if rows is None else rows, sample.rows, columns),
        _measured(model, columns),
        _columns(columns, of=len(sample.schema.columns)),
        _gaps(model, seen_of),
        _released_pairs(model, sample),
        _rules(model),
        section("What this page is made from", tag("p", _ORIGIN)),
        footer(),
    )


_ORIGIN = (
    "This page uses released values only: the synthetic rows, the model, and the noise that the ledger lists. It cost "
    "nothing, and reveals nothing about the private table beyond the release. It shows how noisy the rows are, not how "
    "close they are to the truth: a comparison with the truth would cost budget. privacy.md has the whole statement."
)


def _seen(model: FittedModel, place: int) -> float:
    """Return the model's share of rows in which a column is observed; 1 if it is unknown."""
    column = model.schema.columns[place]
    if model.gapped is None or not column.gaps:
        return 1.0
    whole = model.marginal_if_known(column.name, gaps="as-observed")
    return 1.0 if whole is None else float(whole[: column.size].sum())


def _noisy_column(model: FittedModel, sample: Table, place: int, seen_of: SeenOf) -> NoisyColumn:
    column = sample.schema.columns[place]
    observed = shares(sample, [place])
    shown = np.zeros(column.size) if observed is None else observed
    noise_std = model.facts.noise.get(column.name)
    rows = max(1.0, model.total * (1.0 if noise_std is None else seen_of(place)))
    mean = None if noise_std is None else _mean(sample, column, noise_std, rows)
    return NoisyColumn(column, tuple(shown.tolist()), noise_std, rows, mean)


def _mean(sample: Table, column: Column, noise_std: float, rows: float) -> tuple[float, float] | None:
    r"""Return the mean of a column's numbers, and 1.96 standard deviations of noise and sampling.

    With :math:`x_c` the middle of each cell the variance is

    .. math:: \frac{\sigma^2}{n^2} \sum_c (x_c - \bar x)^2 + \frac{s^2}{n}.
    """
    values = sample[column.name].drop_nulls()
    if not isinstance(column, Integer | Number) or len(values) < 2:
        return None
    first, last = column.bin_ranges()
    middles = first / 2 + last / 2
    mean, variance = float(values.mean()), float(values.var())  # type: ignore[arg-type]  # numbers
    noise = (noise_std / rows) ** 2 * float(((middles - mean) ** 2).sum())
    return mean, 1.96 * math.sqrt(noise + variance / rows)


# ---------------------------------------------------------------------- how much noise


def _noise(model: FittedModel, many: int, shown: int, columns: Sequence[NoisyColumn]) -> Html:
    measured = [column for column in columns if column.noise_std is not None]
    if not measured:
        return Html("")
    clarities = [word for column in measured for word in column.clarity]
    counts = {word: clarities.count(word) for word in _GRADES}
    reach = 1.96 * float(np.median([column.noise_std for column in measured]))
    first = "" if shown == many else f" (the first {shown:,} are shown)"
    sentence = (
        f"About {plural(max(0, round(model.total)), 'private row')}, {plural(many, 'synthetic row')}{first}, method "
        f"{model.method}. Of {plural(len(clarities), 'cell')} in {plural(len(measured), 'column')}:"
    )
    meanings = {
        "clear": f"known to within {CLEAR:.0%} of their size; cells of {plural(round(reach / CLEAR), 'row')} or more",
        "rough": f"known to within {ROUGH:.0%}",
        "lost": f"lost in noise; cells of fewer than about {plural(round(reach / ROUGH), 'row')}",
    }
    parts = [
        tag("div", tag("b", f"{counts[word]} {word}"), f": {meanings[word]}.", class_=_GRADES[word])
        for word in _GRADES
        if counts[word]
    ]
    rows = [
        (
            column.column.name,
            column.column.size,
            unbroken(f"± {1.96 * (column.noise_std or 0.0):,.0f}"),
            unbroken(f"± {column.off:.1%}"),
            *(column.clarity.count(word) or "–" for word in _GRADES),
        )
        for column in sorted(measured, key=lambda column: -column.off)
    ]
    head = ("column", "cells", "noise in a count", "in % of an average cell", *_GRADES)
    return join(
        [
            tag(
                "section",
                tag("h2", "How much noise is in it"),
                tag("p", sentence),
                tag("div", *parts, class_="grades"),
                class_="verdict",
            ),
            section(
                "Noise, column by column",
                tag("p", _NOISE_EXPLAINED + ("" if _by_features(model) else _SMALLER_CELLS)),
                tag("div", table(head, rows, right=range(1, 7)), class_="wide"),
            ),
        ]
    )


_NOISE_EXPLAINED = (
    "Noise: ±1.96 standard deviations of the noise that was added to each count. 19 of 20 counts are within this "
    "range. The noisiest columns come first."
)
_SMALLER_CELLS = " Tables of two columns are noisier, because their cells are smaller."


def _by_features(model: FittedModel) -> bool:
    """Return whether pairs of columns were measured by products of features, not by tables."""
    return model.measurements is not None and bool(model.measurements.products)


def _measured(model: FittedModel, columns: Sequence[NoisyColumn]) -> Html:
    """Return what was measured, and what was not."""
    names, many = model.schema.names, len(model.schema.columns)
    together = {frozenset(edge) for edge in model.facts.edges}
    apart = [
        " × ".join(names[c] for c in pair) for pair in combinations(range(many), 2) if frozenset(pair) not in together
    ]
    alone = [column.column.name for column in columns if column.noise_std is None]
    blind = [column for column in columns if column.column.name not in model.within_bin_counts]
    crowded = [column.column.name for column in blind if crowded_bin(column.column, column.shares) is not None]
    pairs = math.comb(many, 2)
    by_features = ": of two ordered columns how their ranks and groups of values go together" * _by_features(model)
    did = [
        f"{len(columns) - len(alone)} of {plural(len(columns), 'column')} by themselves."
        + (f" The others have one cell, or are derived from sets of columns: {listing(alone)}." if alone else ""),
        f"{len(together)} of {plural(pairs, 'pair')} of columns together (structure.svg){by_features}."
        if pairs
        else "",
        f"How values lie inside the bins of {listing(model.within_bin_counts)}: bins were cut from that."
        if model.within_bin_counts
        else "",
    ]
    did_not = [
        f"{plural(len(apart), 'pair')} of columns, derived from other tables and possibly weaker than in the truth: "
        f"{listing(apart, most=_MOST_LISTED)}."
        if apart
        else "",
        "Larger sets of columns, unless they are listed below; and the position of a number in its bin"
        + (", except for the columns named above." if model.within_bin_counts else ".")
        + (f" One bin has most of the rows: {listing(crowded)}." if crowded else ""),
        "" if model.gapped is not None or not any(c.gaps for c in model.schema.columns) else "Which cells are missing.",
        "Values that were missing. Where they are filled, they were sampled from the model; no noise level covers this."
        if any(column.gaps for column in model.schema.columns)
        else "",
        *model.facts.limitations,
    ]
    listed = tag("ul", *(tag("li", line) for line in model.facts.structure))
    return section(
        "What was measured",
        side(
            *titled("Measured, with noise", tag("ul", *(tag("li", sentence) for sentence in did if sentence))),
            *titled("Not measured", tag("ul", *(tag("li", sentence) for sentence in did_not if sentence))),
        ),
        tag("details", tag("summary", f"All measurements, line by line ({len(model.facts.structure)})"), listed)
        if model.facts.structure
        else Html(""),
    )


def _rules(model: FittedModel) -> Html:
    """Return what the release does with the schema's constraints."""
    rules = model.constraints()
    return section("Constraints", tag("ul", *(tag("li", rule) for rule in rules))) if rules else Html("")


# ---------------------------------------------------------------------- columns, gaps, pairs


def _columns(columns: Sequence[NoisyColumn], *, of: int) -> Html:
    text = (
        "Bars: shares among the synthetic rows in which the column is not missing. Whiskers: 95% intervals for the "
        "share in the population from which the private rows came. They cover noise and sampling, but not the values "
        "that are missing. The model combines many measurements, so it may differ a little from each of them. For "
        "estimates on several columns, use gapless estimate."
    )
    return section(
        "Columns",
        tag("p", text + left_out(of)),
        tag("div", *(_column_card(column) for column in columns), class_="columns"),
    )


def _rounded(value: float, digits: int) -> str:
    """Return a number with so many digits, and without an exponent where it is short."""
    return f"{float(f'{value:.{digits}g}'):.10g}"


def _column_card(column: NoisyColumn) -> Html:
    clarities = column.clarity
    labels = [mark(_GRADES[word], f"{clarities.count(word)} {word}") for word in _GRADES if word in clarities]
    return tag(
        "div",
        tag("div", tag("h3", column.column.name), tag("span", *labels) if labels else "", class_="head"),
        noisy_bars(
            f"Shares of {column.column.name}",
            column.column.cells[: column.column.size],
            column.shares,
            column.std,
            column.rows,
            ordered=column.column.is_ordered,
        ),
        Html("") if clarities else tag("small", "Not measured by itself.", class_="soft"),
        tag("small", f"Mean {_rounded(column.mean[0], 4)} ± {_rounded(column.mean[1], 2)}.", class_="soft")
        if column.mean
        else Html(""),
        class_="card",
    )


def _gaps(model: FittedModel, seen_of: SeenOf) -> Html:
    may = [place for place, column in enumerate(model.schema.columns[:MOST_COLUMNS]) if column.gaps]
    if model.gapped is None or not may:
        return Html("")
    rows = []
    for place in may:
        column = model.schema.columns[place]
        noise = model.facts.noise.get(column.name)
        std = None if noise is None else 1.96 * noise * math.sqrt(len(column.gaps)) / max(1.0, model.total)
        missing = percent(max(0.0, 1 - seen_of(place)))
        rows.append((column.name, missing, "–" if std is None else f"± {100 * std:.1f}"))
    text = "The model's share of private rows in which a column is missing. It is noisy, and already paid for."
    head = ("column", "missing", "noise (95%), points")
    return section("Gaps", tag("p", text), tag("div", table(head, rows, right=(1, 2)), class_="wide keep"))


def _released_pairs(model: FittedModel, sample: Table) -> Html:
    columns = sample.schema.columns[:MOST_COLUMNS]
    values, tooltips = {}, {}
    for first, second in combinations(range(len(columns)), 2):
        both = columns[first], columns[second]
        if both[0].size * both[1].size > DENSE_CELLS:
            continue
        strength = association(shares(sample, (first, second)), both)
        if strength is not None:
            pair = both[0].name, both[1].name
            values[pair] = abs(strength)
            tooltips[pair] = f"{pair[0]} × {pair[1]}: {measure_of(both)} {strength:.2f}"
    if not values:
        return Html("")
    together = {frozenset(sample.schema.names[c] for c in edge) for edge in model.facts.edges}
    names = [column.name for column in columns]
    rows = [
        (
            " × ".join(pair),
            unbroken(measure_of((sample.schema[pair[0]], sample.schema[pair[1]]))),
            f"{values[pair]:.2f}",
            "yes" if frozenset(pair) in together else "no",
        )
        for pair in sorted(values, key=lambda pair: -values[pair])[:12]
    ]
    return section(
        "Associations",
        tag(
            "p",
            "The association of two columns in the synthetic rows, in hundredths: Spearman's ρ without its sign for "
            "two ordered columns, else Cramér's V. Noise changes these numbers. Columns that were not measured "
            "together may be associated more strongly in the truth." + left_out(len(sample.schema.columns)),
        ),
        side(
            tag("div", heat_map("Associations", names, values, full=1.0, tooltips=tooltips), class_="wide keep"),
            *titled("The strongest", table(("columns", "association", "", "measured"), rows, right=(2, 3))),
        ),
    )


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
    return section("Weights", cards(numbers), key(both), tag("div", chart, class_="card"))


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
