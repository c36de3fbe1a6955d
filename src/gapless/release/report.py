"""The report of a release: from released values only, free, and safe to publish."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import combinations

import numpy as np

from gapless.data import Table
from gapless.draw.charts import heat_map, percent
from gapless.draw.markup import Html, tag
from gapless.draw.page import page, section, side, table, titled, unbroken
from gapless.evaluate.comparison import ColumnScore, Score
from gapless.evaluate.laws import DENSE_CELLS, Floats, half_l1, shares
from gapless.evaluate.pairs import association, measure_of
from gapless.evaluate.parts import MOST_COLUMNS, cards, column_cards, footer, left_out
from gapless.privacy import Ledger
from gapless.synth.fitted import FittedModel, Gaps

LawOf = Callable[[int, Gaps], tuple[Floats | None, float]]
MODEL = ("the model, fitted to noisy counts", "the synthetic rows")


def release_page(model: FittedModel, sample: Table, ledger: Ledger) -> str:
    """What a release looks like, and how much noise is in it, from released values only: free, and safe to publish.

    Args:
        model: the fitted model; its marginals and noise levels are released values.
        sample: the synthetic rows of the release.
        ledger: whose promise is quoted.
    """
    gapped = any((codes >= c.size).any() for codes, c in zip(sample.codes, sample.schema.columns, strict=True))
    gaps: Gaps = "as observed" if gapped and model.gapped is not None else "filled"
    law_of = cache(partial(_law, model))  # in a large network each one takes a while
    columns = [
        _released_column(model, sample, place, gaps, law_of)
        for place in range(len(sample.schema.columns))[:MOST_COLUMNS]
    ]
    return page(
        f"Report: {sample.schema.name}",
        tag("h1", f"Report: {sample.schema.name}"),
        tag("p", sample.schema.description, class_="soft") if sample.schema.description else Html(""),
        tag(
            "div",
            tag("p", str(ledger.guarantee())),
            tag(
                "p",
                "This page was made from released values only: the synthetic rows, the model, and the noise that the "
                "ledger lists. It cost nothing, and says nothing about the private table that the release does not. "
                "privacy.md has the whole statement.",
            ),
            class_="note",
        ),
        tag("div", tag("p", f"Warning: {caution}"), class_="note warn")
        if (caution := model.lost_in_noise())
        else Html(""),
        cards(list(_released_scores(model, sample, columns, gaps))),
        section(
            "How to read it",
            tag(
                "p",
                "The synthetic rows are compared with the model from which they were drawn, and the model was fitted "
                "to noisy counts. So these numbers say how faithfully the rows follow the noisy measurements, not how "
                "close they are to the truth: nobody may look at that for free. What separates the measurements from "
                "the truth is their noise, and its size is public: a whisker covers ±1.96 standard deviations of the "
                "noise in a count of the column, and the true share lies about that close to the measured one in 19 of "
                "20 cases. The model reconciles many measurements, and so may differ a little from each. Rows that "
                "were missing and are filled were completed from the model: no noise level covers that.",
            ),
        ),
        column_cards(columns, MODEL, of=len(sample.schema.columns)),
        _released_gaps(model, law_of),
        _released_pairs(model, sample),
        footer(),
    )


def _released_column(model: FittedModel, sample: Table, place: int, gaps: Gaps, law_of: LawOf) -> ColumnScore:
    column = sample.schema.columns[place]
    rows = shares(sample, [place])
    law, seen = law_of(place, gaps)
    rates = None
    if gaps == "as observed" and column.gaps:
        missing = sample.codes[place] >= column.size
        rates = 1 - seen, float(missing.mean()) if sample.rows else 0.0
    noise_std = model.facts.noise.get(column.name)
    if noise_std is not None and model.gapped is not None and column.gaps and gaps == "filled":
        seen = law_of(place, "as observed")[1]
    shown = rows if law is None else law
    return ColumnScore(
        column.name,
        column.kind,
        column.cells[: column.size],
        tuple([0.0] * column.size if shown is None else shown.tolist()),
        tuple([0.0] * column.size if rows is None else rows.tolist()),
        None if law is None else half_l1(law, rows),
        None,
        rates,
        None if noise_std is None else noise_std / max(1.0, model.total * seen),
    )


def _law(model: FittedModel, place: int, gaps: Gaps) -> tuple[Floats | None, float]:
    """The model's law of a column's observed cells, None if it is not known, and their share of all."""
    column = model.schema.columns[place]
    whole = model.marginal_if_known(column.name, gaps=gaps)
    if whole is None:
        return None, 1.0
    law = whole[: column.size]
    seen = max(float(law.sum()), 1e-9)
    return law / seen, seen


def _released_scores(model: FittedModel, sample: Table, columns: Sequence[ColumnScore], gaps: Gaps) -> Iterable[Score]:
    about = f"Drawn by {model.method}. The private table has about {max(0.0, model.total):,.0f} (a noisy number)."
    yield Score("synthetic rows", sample.rows, None, about)
    about = "Mean distance of the rows from the model, over columns: 0 is equal, 1 disjoint."
    yield Score("rows from model, one-way", _mean([column.distance or 0.0 for column in columns]), None, about)
    if pairs := list(_edge_distances(model, sample, gaps)):
        about = f"Mean distance of the rows from the model, over {len(pairs)} pairs of columns modelled together."
        yield Score("rows from model, two-way", _mean(pairs), None, about)
    noise = [column.noise * len(column.cells) for column in columns if column.noise is not None]
    if noise:
        by_noise = _mean(noise) * math.sqrt(2 / math.pi) / 2
        about = "The distance from the truth that noise makes in a measured column, on average over columns."
        yield Score("measurements from truth, one-way", min(1.0, by_noise), None, about)


def _edge_distances(model: FittedModel, sample: Table, gaps: Gaps) -> Iterable[float]:
    columns = sample.schema.columns
    for one, other in model.facts.edges:
        if max(one, other) < MOST_COLUMNS and columns[one].size * columns[other].size <= DENSE_CELLS:
            law = _joint(model, (one, other), gaps)
            if law is not None:
                yield half_l1(law, shares(sample, (one, other)))


def _joint(model: FittedModel, places: tuple[int, int], gaps: Gaps) -> Floats | None:
    names = [model.schema.names[place] for place in places]
    sizes = [model.schema.columns[place].size for place in places]
    whole = model.marginal_if_known(names, gaps=gaps)
    if whole is None:
        return None
    law = whole[: sizes[0], : sizes[1]]
    return law / law.sum() if law.sum() > 0 else None


def _released_gaps(model: FittedModel, law_of: LawOf) -> Html:
    may = [column for column in model.schema.columns[:MOST_COLUMNS] if column.gaps]
    if model.gapped is None or not may:
        return Html("")
    rows = []
    for column in may:
        law, seen = law_of(model.schema.names.index(column.name), "as observed")
        if law is None:
            continue
        noise = model.facts.noise.get(column.name)
        std = None if noise is None else 1.96 * noise * math.sqrt(len(column.gaps)) / max(1.0, model.total)
        rows.append((column.name, percent(max(0.0, 1 - seen)), "–" if std is None else f"± {100 * std:.1f}"))
    told = "The share of rows in which a column is missing, by the model: noisy, and already paid for."
    head = ("column", "missing", "noise (95%), points")
    return section("Gaps", tag("p", told), tag("div", table(head, rows, right=(1, 2)), class_="wide keep"))


def _released_pairs(model: FittedModel, sample: Table) -> Html:
    columns = sample.schema.columns[:MOST_COLUMNS]
    values, told = {}, {}
    for one, other in combinations(range(len(columns)), 2):
        both = columns[one], columns[other]
        if both[0].size * both[1].size > DENSE_CELLS:
            continue
        strength = association(shares(sample, (one, other)), both)
        if strength is not None:
            pair = both[0].name, both[1].name
            values[pair] = abs(strength)
            told[pair] = f"{pair[0]} × {pair[1]}: {measure_of(both)} {strength:.2f}"
    if not values:
        return Html("")
    edges = len(model.facts.edges)
    limits = "".join(f" {sentence}" for sentence in model.facts.limits)
    names = [column.name for column in columns]
    rows = [
        (
            " × ".join(pair),
            unbroken(measure_of((sample.schema[pair[0]], sample.schema[pair[1]]))),
            f"{values[pair]:.2f}",
        )
        for pair in sorted(values, key=lambda pair: -values[pair])[:12]
    ]
    return section(
        "What goes together",
        tag(
            "p",
            "How strongly two columns go together in the synthetic rows, in hundredths: Spearman's ρ on a line, "
            f"without its sign, else Cramér's V. The model knows {edges} pairs by measurement (structure.svg); "
            "the others follow from these, and may be weaker than in the truth."
            + limits
            + left_out(len(sample.schema.columns)),
        ),
        side(
            tag("div", heat_map("Associations", names, values, full=1.0, told=told), class_="wide keep"),
            *titled("The strongest", table(("columns", "association", ""), rows, right=(2,))),
        ),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
