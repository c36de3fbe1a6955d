"""The pages: a comparison, and the report of a release, which uses released values only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import combinations

import numpy as np

from gapless.data import Table
from gapless.errors import ModelError
from gapless.evaluate.charts import bars, dots, heat_map, key, pattern_picture, percent
from gapless.evaluate.comparison import ColumnScore, Comparison, Score
from gapless.evaluate.laws import DENSE_CELLS, Floats, half_l1, shares
from gapless.evaluate.page import Html, join, page, section, table, tag
from gapless.evaluate.pairs import association, measure_of
from gapless.privacy import Ledger
from gapless.synth.fitted import FittedModel, Gaps

LawOf = Callable[[int, Gaps], tuple[Floats | None, float]]

TRUTH = ("the truth", "the compared table")
NOISY = ("noisy counts of the truth", "the compared table")
MODEL = ("the model, fitted to noisy counts", "the synthetic rows")
MOST_SUBGROUPS = 15
MOST_COLUMNS = 40  # are drawn: the first ones of the schema


def comparison_page(one: Comparison) -> str:
    """Everything that was compared, on one page."""
    names = TRUTH if one.spent is None else NOISY
    return page(
        f"How close? {one.table}",
        tag("h1", f"How close? {one.table}"),
        tag("p", one.sizes[0].upper() + one.sizes[1:] + ".", class_="soft"),
        _nature(one),
        _cards(one.scores),
        _promise(one),
        _columns(one.columns[:MOST_COLUMNS], names, of=len(one.columns)),
        _pair_errors(one),
        _patterns(one, names),
        _tasks(one),
        _subgroups(one),
        _footer(),
    )


def _nature(one: Comparison) -> Html:
    if one.spent is not None:
        return tag("div", tag("p", one.nature), class_="note")
    return tag("div", tag("p", tag("strong", "Not for others, unless the truth is public")), tag("p", one.nature),
               class_="note warn")  # fmt: skip


def _promise(one: Comparison) -> Html:
    if one.promise is None:
        return Html("")
    told = [tag("p", one.promise)]
    if one.spent is not None:
        told.append(
            tag(
                "p",
                f"Private, and paid with {one.spent}: the shares called noisy, their distances and rates of gaps. "
                "Free: everything about the compared table alone, and this page.",
            )
        )
    else:
        told.append(tag("p", "The promise is for what the ledger lists. This page is not in it: see the note above."))
    return section("Privacy", *told)


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
        _cards(list(_released_scores(model, sample, columns, gaps))),
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
        _columns(columns, MODEL, of=len(sample.schema.columns)),
        _released_gaps(model, law_of),
        _released_pairs(model, sample),
        _footer(),
    )


# ---------------------------------------------------------------------- parts of both


def _cards(scores: Sequence[Score]) -> Html:
    cards = []
    for score in scores:
        lines = [tag("small", score.about, class_="soft about")]
        if score.best:
            lines.insert(0, tag("small", f"the truth itself: {score.best:.3f}. "))
        if score.second_sample is not None:
            lines.insert(0, tag("small", f"a second sample: {score.second_sample:.3f}. "))
        if score.between is not None:
            lines.insert(0, tag("small", f"noise leaves open {score.between[0]:.3f} to {score.between[1]:.3f}. "))
        value = "–" if score.value is None else f"{score.value:,.0f}" if score.value >= 100 else f"{score.value:.3f}"
        cards.append(tag("div", tag("small", score.name), tag("b", value), *lines, class_="card"))
    shown = tag("div", *cards, class_="cards")
    if all(score.second_sample is None for score in scores):
        return shown
    told = "A second sample: about what as many other people of the same kind would score, from two parts of the truth."
    return join([shown, tag("p", tag("small", told, class_="soft"))])


def _columns(columns: Sequence[ColumnScore], names: tuple[str, str], *, of: int) -> Html:
    cards = []
    for column in columns:
        chart = bars(
            f"Shares of {column.name}",
            column.cells,
            (column.truth, column.other),
            names,
            ordered=column.kind != "categorical",
            noise=column.noise,
        )
        distance = "" if column.distance is None else f"distance {column.distance:.3f}"
        head = tag("div", tag("h3", column.name), tag("small", distance, class_="soft"), class_="head")
        gaps = Html("")
        if column.gaps is not None and any(column.gaps):
            gaps = tag("small", f"missing: {percent(column.gaps[0])} and {percent(column.gaps[1])}", class_="soft")
        cards.append(tag("div", head, chart, gaps, class_="card"))
    told = "Shares of each cell among the rows in which the column is not missing."
    if any(column.noise is not None for column in columns):
        told += " Whiskers: ±1.96 standard deviations of noise."
    told += _left_out(of)
    return section("Columns", key(names), tag("p", told), tag("div", *cards, class_="columns"))


def _side(*cards: Html) -> Html:
    """Cards side by side where there is room."""
    return tag("div", *cards, class_="side")


def _titled(title: str, inside: Html | None) -> list[Html]:
    return [] if inside is None else [tag("div", tag("h3", title), inside, class_="wide keep")]


def _left_out(columns: int) -> str:
    return f" The first {MOST_COLUMNS} of {columns} columns are drawn." if columns > MOST_COLUMNS else ""


def _footer() -> Html:
    from gapless import __version__  # noqa: PLC0415 the package's own room imports nothing at import

    told = "One file, no script, nothing fetched from anywhere."
    return tag("footer", tag("small", f"Made by gapless {__version__}. {told}", class_="soft"))


# ---------------------------------------------------------------------- a comparison


def _pair_errors(one: Comparison) -> Html:
    values = {pair.columns: pair.distance for pair in one.pairs if pair.distance is not None}
    if not values:
        return Html("")
    told = {}
    for pair in one.pairs:
        strengths = [f"{strength:.2f}" for strength in (pair.truth, pair.other) if strength is not None]
        more = f"; {pair.measure} {' and '.join(strengths)}" if len(strengths) == 2 else ""
        if pair.between is not None:
            more += f"; noise leaves open {pair.between[0]:.3f} to {pair.between[1]:.3f}"
        told[pair.columns] = f"{pair.columns[0]} × {pair.columns[1]}: {pair.distance or 0:.3f}{more}"
    named = [column.name for column in one.columns if any(column.name in pair for pair in values)]
    names = named[:MOST_COLUMNS]
    shown = {pair: value for pair, value in values.items() if set(pair) <= set(names)}
    about = "Total variation distance of the tables of two columns, in hundredths: 0 is equal, 100 disjoint."
    if one.spent is not None:
        possible = math.comb(len(one.columns), 2)
        if len(values) < possible:
            about += (
                f" {len(values)} of {possible} pairs are shown; the others were not measured, or are lost in noise."
            )
        about += " A 0 says that the noise is larger than the difference: the text of a square has what it leaves open."
    picture = heat_map("Errors of pairs of columns", names, shown, full=0.3, told=told)
    changed = sorted((p for p in one.pairs if p.difference is not None), key=lambda p: -(p.difference or 0.0))[:10]
    rows = [
        (" × ".join(p.columns), _unbroken(p.measure), _number(p.truth), _number(p.other), _number(p.difference))
        for p in changed
    ]
    head = ("columns", "association", "truth", "compared", "difference")
    return section(
        "Pairs of columns",
        tag("p", about + _left_out(len(named))),
        _side(
            tag("div", picture, class_="wide keep"),
            *_titled("Associations that changed most", table(head, rows, right=(2, 3, 4)) if rows else None),
        ),
    )


def _patterns(one: Comparison, names: tuple[str, str]) -> Html:
    if not one.patterns:
        return Html("")
    columns = [column.name for column in one.columns if column.gaps is not None and any(column.gaps)]
    patterns = [(pattern.missing, pattern.truth, pattern.other) for pattern in one.patterns]
    told = "Columns that are missing together: a full square is observed, an open one missing."
    if not any(column.gaps[1] for column in one.columns if column.gaps is not None):
        told += " The compared table is filled, so its gaps are not scored."
    picture = pattern_picture("Patterns of gaps", columns, patterns, names)
    rates = [(column.name, *map(percent, column.gaps)) for column in one.columns if column.gaps and any(column.gaps)]
    shares_of_gaps = table(("column", "truth", "compared"), rates[:MOST_COLUMNS], right=(1, 2))
    return section(
        "Gaps",
        key(names),
        tag("p", told),
        _side(tag("div", picture, class_="wide keep"), *_titled("Shares of gaps", shares_of_gaps)),
    )


def _tasks(one: Comparison) -> Html:
    if not one.tasks:
        return Html("")
    rows = [(task.label, task.means[1], task.means[0]) for task in one.tasks]
    details = [
        (
            task.label,
            ", ".join(task.positive[:3]) + (" …" if len(task.positive) > 3 else ""),
            *(f"{mean:.3f}" for mean in reversed(task.means)),
            _number(task.auc_of_truth),
            _number(task.auc),
            _number(task.coefficient_mse, 5),
        )
        for task in one.tasks
    ]
    models = list(one.tasks[0].f1)
    by_model = [
        (
            model,
            f"{np.mean([task.f1_of_truth[model] for task in one.tasks]):.3f}",
            f"{np.mean([task.f1[model] for task in one.tasks]):.3f}",
        )
        for model in models
    ]
    names = ("the truth", "the compared table")
    head = ("label", "positive", "F1 truth", "F1 compared", "AUC truth", "AUC compared", "coefficient MSE")
    return section(
        "What can be learned",
        tag(
            "p",
            "Each column in turn is a label. Nine classifiers are trained on 90% of up to 5,000 rows, and tested on "
            "10% of up to 5,000 rows of the truth. A label is positive in the second half of the cells that the schema "
            "lists. Rings and dots: mean F1 of the nine, from the truth and from the compared table.",
        ),
        key(names),
        _side(
            tag("div", dots("F1 for each label", rows, names), class_="wide keep"),
            tag("div", table(("classifier", "F1 truth", "F1 compared"), by_model, right=(1, 2)), class_="wide keep"),
        ),
        tag("div", table(head, details, right=(2, 3, 4, 5, 6)), class_="wide"),
    )


def _subgroups(one: Comparison) -> Html:
    if not one.subgroups:
        return Html("")
    large = [group for group in one.subgroups if group.rows >= max(1, one.rows[0] // 100)]
    rows = [
        (f"{group.column} = {group.cell}", f"{group.rows:,}", percent(group.truth), percent(group.other),
         f"{group.error:.3f}")
        for group in large[:MOST_SUBGROUPS]
    ]  # fmt: skip
    told = (
        "Rows that share a cell: the mean distance of all other columns among them. The worst of those with at least "
        f"1% of the rows; {len(one.subgroups) - len(large)} smaller ones differ by chance alone, and are left out."
    )
    head = ("subgroup", "rows", "share, truth", "share, compared", "error")
    return section("Subgroups", tag("p", told), tag("div", table(head, rows, right=(1, 2, 3, 4)), class_="wide"))


def _unbroken(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


# ---------------------------------------------------------------------- a release


def _released_column(model: FittedModel, sample: Table, place: int, gaps: Gaps, law_of: LawOf) -> ColumnScore:
    column = sample.schema.columns[place]
    rows = shares(sample, [place])
    law, seen = law_of(place, gaps)
    rates = None
    if gaps == "as observed" and column.gaps:
        missing = sample.codes[place] >= column.size
        rates = 1 - seen, float(missing.mean()) if sample.rows else 0.0
    noise_std = model.facts.get("noise", {}).get(column.name)
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
    """The model's law of a column's observed cells, None if the network is too large for it, and their share of all."""
    column = model.schema.columns[place]
    try:
        law = model.marginal(column.name, gaps=gaps)[: column.size]
    except ModelError:
        return None, 1.0
    seen = max(float(law.sum()), 1e-9)
    return law / seen, seen


def _released_scores(model: FittedModel, sample: Table, columns: Sequence[ColumnScore], gaps: Gaps) -> Iterable[Score]:
    about = f"Drawn by {model.method}. The private table has about {max(0.0, model.total):,.0f} (a noisy number)."
    yield Score("synthetic rows", float(sample.rows), None, about)
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
    for one, other in model.facts.get("edges", ()):
        if max(one, other) < MOST_COLUMNS and columns[one].size * columns[other].size <= DENSE_CELLS:
            law = _joint(model, (one, other), gaps)
            if law is not None:
                yield half_l1(law, shares(sample, (one, other)))


def _joint(model: FittedModel, places: tuple[int, int], gaps: Gaps) -> Floats | None:
    names = [model.schema.names[place] for place in places]
    sizes = [model.schema.columns[place].size for place in places]
    try:
        law = model.marginal(names, gaps=gaps)[: sizes[0], : sizes[1]]
    except ModelError:  # too far apart in a large network to be computed
        return None
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
        noise = model.facts.get("noise", {}).get(column.name)
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
    edges = len(model.facts.get("edges", ()))
    names = [column.name for column in columns]
    rows = [
        (
            " × ".join(pair),
            _unbroken(measure_of((sample.schema[pair[0]], sample.schema[pair[1]]))),
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
            + _left_out(len(sample.schema.columns)),
        ),
        _side(
            tag("div", heat_map("Associations", names, values, full=1.0, told=told), class_="wide keep"),
            *_titled("The strongest", table(("columns", "association", ""), rows, right=(2,))),
        ),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
