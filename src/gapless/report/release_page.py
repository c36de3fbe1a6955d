"""The report of a release, and the page of weights.

The report of a release: how much noise is in it, and what was measured; from released values only, and free.

The page of weights: how many rows they leave in effect, and what they do to columns and pairs; free.
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
CLEAR, ROUGH = 0.10, 0.50  # a cell is clear, or rough, if it is known to within so much of itself; else it is lost
_GRADES: dict[Clarity, Grade] = {"clear": "good", "rough": "fair", "lost": "poor"}
_MOST_LISTED = 12


@dataclass(frozen=True, slots=True)
class NoisyColumn:
    """A column of the synthetic rows, and how far noise leaves its shares from the truth.

    Rows are dealt out as near to the model's shares as whole numbers are, so that drawing them adds next to nothing.

    Attributes:
        shares: of the observed cells, in the synthetic rows.
        noise_std: of the noise in a count, None if the column was not measured by itself.
        rows: about how many private rows it was observed in, a released number.
        mean: of a column of numbers that was measured, with half its 95 % interval for the population.
    """

    column: Column
    shares: tuple[float, ...]
    noise_std: float | None
    rows: float
    mean: tuple[float, float] | None = None

    @property
    def clarity(self) -> list[Clarity]:
        """How well each cell is known, measured by its own size; of a column that was measured."""
        if self.noise_std is None:
            return []
        reach = 1.96 * self.std
        return [
            "clear" if reach <= CLEAR * share else "rough" if reach <= ROUGH * share else "lost"
            for share in self.shares
        ]

    @property
    def std(self) -> float:
        """The standard deviation of noise in a share; 0 if the column was not measured by itself."""
        return (self.noise_std or 0.0) / self.rows

    @property
    def off(self) -> float:
        """By how much of itself a mean cell is off: ±1.96 standard deviations of noise over the rows in it."""
        return 1.96 * self.std * self.column.size


def release_page(model: FittedModel, sample: Table, ledger: Ledger, *, rows: int | None = None) -> str:
    """How much noise is in a release, and what was measured, from released values only: free, and safe to publish.

    It shows the synthetic rows alone. That they follow the model from which they were drawn says nothing about the
    truth; the noise of the measurements does, and its size is public.

    Args:
        model: the fitted model; its marginals and noise levels are released values.
        sample: the synthetic rows of the release, or the first of them.
        ledger: whose promise is quoted.
        rows: how many there are, if they are more.
    """
    seen_of = cache(partial(_seen, model))  # in a large network each one takes a while
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
    "Released values only: the synthetic rows, the model, and the noise that the ledger lists. It cost nothing, and "
    "says nothing about the private table that the release does not. So it says how noisy the rows are, not how close "
    "they are to the truth: nobody may look at that for free. privacy.md has the whole statement."
)


def _seen(model: FittedModel, place: int) -> float:
    """The share of rows in which a column is observed, by the model; 1 where it is not known."""
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
    r"""The mean of a column's numbers, and 1.96 standard deviations of noise and sampling.

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
        f"About {plural(max(0, round(model.total)), 'private row')}, {plural(many, 'synthetic one')}{first}, by "
        f"{model.method}. Of {plural(len(clarities), 'cell')} in {plural(len(measured), 'column')}:"
    )
    meanings = {
        "clear": f"known to within {CLEAR:.0%} of their own size; cells of about {plural(round(reach / CLEAR), 'row')} "
        "and more",
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
    head = ("column", "cells", "noise in a count", "of a mean cell", *_GRADES)
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
                tag("p", _NOISE_EXPLAINED),
                tag("div", table(head, rows, right=range(1, 7)), class_="wide"),
            ),
        ]
    )


_NOISE_EXPLAINED = (
    "Noise: ±1.96 standard deviations of what was added to each count, so that 19 of 20 counts lie within; the "
    "noisiest columns first. Tables of two columns are noisier: their cells are smaller."
)


def _measured(model: FittedModel, columns: Sequence[NoisyColumn]) -> Html:
    """What the release knows by measurement, and what it does not."""
    names, many = model.schema.names, len(model.schema.columns)
    together = {frozenset(edge) for edge in model.facts.edges}
    apart = [
        " × ".join(names[c] for c in pair) for pair in combinations(range(many), 2) if frozenset(pair) not in together
    ]
    alone = [column.column.name for column in columns if column.noise_std is None]
    blind = [column for column in columns if column.column.name not in model.within_bin_counts]
    crowded = [column.column.name for column in blind if crowded_bin(column.column, column.shares) is not None]
    pairs = math.comb(many, 2)
    did = [
        f"{len(columns) - len(alone)} of {plural(len(columns), 'column')} by themselves."
        + (f" The others have one cell, or follow from sets of columns: {listing(alone)}." if alone else ""),
        f"{len(together)} of {plural(pairs, 'pair')} of columns together (structure.svg)." if pairs else "",
        f"How values lie inside the bins of {listing(model.within_bin_counts)}: bins were cut from that."
        if model.within_bin_counts
        else "",
    ]
    did_not = [
        f"{plural(len(apart), 'pair')} of columns, derived from others and perhaps weaker than in the truth: "
        f"{listing(apart, most=_MOST_LISTED)}."
        if apart
        else "",
        "Sets of more columns, unless they are listed below; and where in its bin a number lies"
        + (", but for the columns named above." if model.within_bin_counts else ".")
        + (f" Most rows lie in one bin of {listing(crowded)}." if crowded else ""),
        "" if model.gapped is not None or not any(c.gaps for c in model.schema.columns) else "Which cells are missing.",
        "What was missing and is filled here: it was drawn from the model, and no noise level covers that."
        if any(column.gaps for column in model.schema.columns)
        else "",
        *model.facts.limits,
    ]
    listed = tag("ul", *(tag("li", line) for line in model.facts.structure))
    return section(
        "What was measured",
        side(
            *titled("Measured, with noise", tag("ul", *(tag("li", sentence) for sentence in did if sentence))),
            *titled("Not measured", tag("ul", *(tag("li", sentence) for sentence in did_not if sentence))),
        ),
        tag(
            "details",
            tag("summary", f"Everything that was measured, line by line ({len(model.facts.structure)})"),
            listed,
        )
        if model.facts.structure
        else Html(""),
    )


def _rules(model: FittedModel) -> Html:
    """What becomes of the schema's constraints."""
    rules = model.constraints()
    return section("Constraints", tag("ul", *(tag("li", rule) for rule in rules))) if rules else Html("")


# ---------------------------------------------------------------------- columns, gaps, pairs


def _columns(columns: Sequence[NoisyColumn], *, of: int) -> Html:
    text = (
        "The synthetic rows in which a column is not missing. A whisker is a 95% interval for the share in the "
        "population from which the private rows came: noise and sampling are in it, not what gaps hide. The model "
        "reconciles many measurements, and so may differ a little from each. For anything but single columns: "
        "gapless estimate."
    )
    return section(
        "Columns",
        tag("p", text + left_out(of)),
        tag("div", *(_column_card(column) for column in columns), class_="columns"),
    )


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
        tag("small", f"Mean {column.mean[0]:.4g} ± {column.mean[1]:.2g}.", class_="soft") if column.mean else Html(""),
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
    text = "The share of private rows in which a column is missing, by the model: noisy, and already paid for."
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
        "What goes together",
        tag(
            "p",
            "How strongly two columns go together in the synthetic rows, in hundredths: Spearman's ρ on a line, "
            "without its sign, else Cramér's V. Noise changes these too, and what was not measured together may be "
            "weaker than in the truth." + left_out(len(sample.schema.columns)),
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
    "The synthetic rows and their weights, which are a function of released values. It cost nothing, and says nothing "
    "about the private table that these do not: it shows what the weights change, not how close the rows are to the "
    "truth."
)


def weights_page(rows: Table, weights: Weights, ledger: Ledger) -> str:
    """What weights do to public rows, from these alone: free, and safe to publish.

    Args:
        rows: the synthetic rows.
        weights: one for each.
        ledger: whose promise is quoted.
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
    """How many rows, and how much of all weight, lie in which range."""
    mass = np.asarray(weights)
    places = np.searchsorted(EDGES, mass, side="right") - 1
    names = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    distributions = [np.bincount(places, given, minlength=len(EDGES)) / len(mass) for given in (None, mass)]
    both = ("share of the rows", "share of all weight")
    numbers = (
        NumberCard("rows", len(mass), "as many as were given"),
        NumberCard("rows in effect", round(weights.effective_rows), "a mean varies as if there were so many"),
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
    """The pairs of columns that weights change most."""
    found = [pair for pair in compare_pairs(rows, rows, weights=weights) if pair.distance is not None]
    most = sorted(found, key=lambda pair: -(pair.distance or 0.0))[:MOST_PAIRS]
    text = "Those that weights change most: the share of all weight that moved to another combination of cells."
    lines = [(" × ".join(pair.columns), percent(pair.distance or 0.0)) for pair in most]
    return section("Pairs", tag("p", text), table(("columns", "moved"), lines, right=(1,))) if lines else Html("")
