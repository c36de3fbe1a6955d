"""The page of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from gapless.draw.cards import (
    GRADES,
    MOST_COLUMNS,
    ColumnCard,
    NumberCard,
    cards,
    column_cards,
    footer,
    left_out,
    mark,
)
from gapless.draw.charts import dots, heat_map, key, pattern_picture, percent
from gapless.draw.page import Html, page, section, side, table, tag, titled, unbroken
from gapless.evaluate.comparison import SECOND_SAMPLE, ColumnScore, Comparison, Score
from gapless.evaluate.values import MEASURES, PEARSON, SPEARMAN, Difference
from gapless.evaluate.verdict import LEADS, format_number, grade_of_difference, grade_of_score
from gapless.schema.columns_toml import KINDS
from gapless.text import plural

TRUTH = ("the truth", "the compared table")
NOISY = ("noisy counts of the truth", "the compared table")
MOST_SUBGROUPS, MOST_CORRELATIONS = 15, 12
_LIMITS = (
    "Grades have fixed limits. Good: errors of means up to 0.1 standard deviations, of standard deviations up to 10%, "
    "of quantiles up to 5 ranks of 100, of shares up to 2 points, of correlations up to 0.1. Poor: more than 0.25, "
    "25%, 10 ranks, 5 points, 0.2. An error that chance explains is good."
)


def comparison_page(comparison: Comparison) -> str:
    """Return the page of a comparison."""
    names = TRUTH if comparison.spent is None else NOISY
    return page(
        f"How close? {comparison.table}",
        tag("h1", f"How close? {comparison.table}"),
        tag("p", comparison.sizes[0].upper() + comparison.sizes[1:] + ".", class_="soft"),
        _nature(comparison),
        _verdict(comparison),
        _scores(comparison),
        _promise(comparison),
        _columns(comparison, names),
        _correlations(comparison),
        _pair_errors(comparison),
        _patterns(comparison, names),
        _rules(comparison),
        _tasks(comparison),
        _subgroups(comparison),
        footer(),
    )


def _nature(comparison: Comparison) -> Html:
    if comparison.spent is not None:
        return tag("div", tag("p", comparison.nature), class_="note")
    warning = tag("strong", "Share only if the truth is public")
    return tag("div", tag("p", warning), tag("p", comparison.nature), class_="note warn")


def _verdict(comparison: Comparison) -> Html:
    found = comparison.verdict
    parts = [
        tag("div", tag("b", LEADS[grade]), tag("ul", *(tag("li", use) for use in uses)), class_=grade)
        for grade in reversed(GRADES)
        if (uses := getattr(found, grade))
    ]
    worst = tag("ol", *(tag("li", _whole(sentence)) for sentence in found.worst)) if found.worst else None
    return tag(
        "section",
        tag("h2", "In plain words"),
        tag("div", *parts, class_="grades"),
        *([tag("h3", "The worst"), worst] if worst else []),
        *(tag("p", remark) for remark in found.remarks),
        tag("p", tag("small", _LIMITS, class_="soft")),
        class_="verdict",
    )


def _whole(sentence: str) -> str:
    """Keep the sign of a noise level beside its number."""
    return sentence.replace("± ", "±\N{NO-BREAK SPACE}")


def _scores(comparison: Comparison) -> Html:
    text = "Means over all columns, or over all sets of columns. The worst scores come first."
    if any(score.second_sample is not None for score in comparison.scores):
        text += f" {SECOND_SAMPLE}"
    numbers = [
        NumberCard(score.name, score.value, score.about, tuple(_score_remarks(score)), grade_of_score(score))
        for score in comparison.scores
    ]
    return section("Scores", tag("p", text), cards(numbers))


def _score_remarks(score: Score) -> Iterator[str]:
    if score.between is not None:
        yield f"with noise: {score.between[0]:.3f} to {score.between[1]:.3f}. "
    if score.second_sample is not None:
        yield f"second sample: {score.second_sample:.3f}. "
    if score.best:
        yield f"the truth itself: {score.best:.3f}. "


def _columns(comparison: Comparison, names: tuple[str, str]) -> Html:
    """Return the cards of the columns: shares of cells, and statistics of values."""
    by_column: dict[str, list[Difference]] = {column.name: [] for column in comparison.columns[:MOST_COLUMNS]}
    for difference in comparison.differences:
        if len(difference.columns) == 1 and difference.columns[0] in by_column:
            by_column[difference.columns[0]].append(difference)
    remark = " Below: statistics of the values, without gaps. The worst columns come first."
    return column_cards(
        [_column_card(column, by_column[column.name]) for column in comparison.columns[:MOST_COLUMNS]],
        names,
        of=len(comparison.columns),
        remark=remark if any(by_column.values()) else "",
    )


def _column_card(column: ColumnScore, differences: Sequence[Difference]) -> ColumnCard:
    grades = [grade for difference in differences if (grade := grade_of_difference(difference)) is not None]
    rows = [
        (
            difference.measure if difference.cell is None else f"share of {difference.cell}",
            *(format_number(value, difference.measure, column.kind) for value in (difference.truth, difference.other)),
            mark(worse) if worse in ("fair", "poor") else "",
        )
        for difference in differences
        if (worse := grade_of_difference(difference)) in ("fair", "poor") or difference.measure in MEASURES
    ]
    return ColumnCard(
        column.name,
        column.cells,
        (column.truth, column.other),
        column.distance,
        column.gaps,
        ordered=KINDS[column.kind].is_ordered,
        noise=column.noise,
        numbers=table(("", "truth", "compared", ""), rows, right=(1, 2, 3)) if rows else None,
        grade=max(grades, key=GRADES.index, default=None),
    )


def _correlations(comparison: Comparison) -> Html:
    """Return the correlations of values that changed most."""
    found = [difference for difference in comparison.differences if difference.measure in (PEARSON, SPEARMAN)]
    rows = [
        (
            " × ".join(difference.columns),
            unbroken(difference.measure),
            *(format_number(value, difference.measure, "number") for value in (difference.truth, difference.other)),
            mark(grade) if (grade := grade_of_difference(difference)) else "",
        )
        for difference in sorted(found, key=lambda difference: -difference.error)[:MOST_CORRELATIONS]
    ]
    if not rows:
        return Html("")
    head = ("columns", "measure", "truth", "compared", "")
    text = (
        "The correlations of values or ordered levels that changed most. Rows with a gap in either column are left out."
    )
    numbers = table(head, rows, right=(2, 3, 4))
    return section("Correlations", tag("p", text), tag("div", numbers, class_="wide"))


def _rules(comparison: Comparison) -> Html:
    """Return how often both tables break the schema's constraints."""
    if not comparison.rules:
        return Html("")
    rows = []
    for rule in comparison.rules:
        found = rule.truth, rule.other
        pairs = ("" if count.pairs is None else f"{count.pairs:.3%}" for count in found)
        rows.append((rule.rule, *(f"{count.share:.2%}" for count in found), *pairs))
    text = "Rows that break a constraint, by themselves or with some other row; pairs of rows among all pairs."
    head = ("must not hold", "rows of truth", "compared", "pairs of truth", "compared")
    return section("Constraints", tag("p", text), tag("div", table(head, rows, right=(1, 2, 3, 4)), class_="wide"))


def _promise(comparison: Comparison) -> Html:
    if comparison.promise is None:
        return Html("")
    paragraphs = [tag("p", comparison.promise)]
    if comparison.spent is not None:
        paragraphs.append(
            tag(
                "p",
                f"The noisy shares, their distances and the rates of gaps are private. They were paid with "
                f"{comparison.spent}. All about the compared table alone, and this page, is free.",
            )
        )
    else:
        paragraphs.append(
            tag("p", "The guarantee covers what the ledger lists. It does not cover this page: see the note above.")
        )
    return section("Privacy", *paragraphs)


def _pair_errors(comparison: Comparison) -> Html:
    values = {pair.columns: pair.distance for pair in comparison.pairs if pair.distance is not None}
    if not values:
        return Html("")
    tooltips = {}
    for pair in comparison.pairs:
        strengths = [f"{strength:.2f}" for strength in (pair.truth, pair.other) if strength is not None]
        more = f"; {pair.measure} {' and '.join(strengths)}" if len(strengths) == 2 else ""
        if pair.between is not None:
            more += f"; with noise {pair.between[0]:.3f} to {pair.between[1]:.3f}"
        tooltips[pair.columns] = f"{pair.columns[0]} × {pair.columns[1]}: {pair.distance or 0:.3f}{more}"
    named = [column.name for column in comparison.columns if any(column.name in pair for pair in values)]
    names = named[:MOST_COLUMNS]
    shown = {pair: value for pair, value in values.items() if set(pair) <= set(names)}
    about = "Total variation distance of the tables of two columns, in hundredths: 0 is equal, 100 is disjoint."
    if comparison.spent is not None:
        possible = math.comb(len(comparison.columns), 2)
        if len(values) < possible:
            shown_pairs = f"{len(values)} of {plural(possible, 'pair')}"
            about += f" Shown: {shown_pairs}; the others were not measured, or are lost in noise."
        about += " A 0 means that the noise is larger than the difference. The tooltip of a square has the interval."
    picture = heat_map("Errors of pairs of columns", names, shown, full=0.3, tooltips=tooltips)
    changed = sorted((p for p in comparison.pairs if p.difference is not None), key=lambda p: -(p.difference or 0.0))
    rows = [
        (" × ".join(p.columns), unbroken(p.measure), _number(p.truth), _number(p.other), _number(p.difference))
        for p in changed[:10]
    ]
    head = ("columns", "association", "truth", "compared", "difference")
    return section(
        "Pairs of columns",
        tag("p", about + left_out(len(named))),
        side(
            tag("div", picture, class_="wide keep"),
            *titled("Associations that changed most", table(head, rows, right=(2, 3, 4)) if rows else None),
        ),
    )


def _patterns(comparison: Comparison, names: tuple[str, str]) -> Html:
    if not comparison.patterns:
        return Html("")
    columns = [column.name for column in comparison.columns if column.gaps is not None and any(column.gaps)]
    patterns = [(pattern.missing, pattern.truth, pattern.other) for pattern in comparison.patterns]
    text = "Columns that are missing together. A full square is observed, an open square is missing."
    if not any(column.gaps[1] for column in comparison.columns if column.gaps is not None):
        text += " The compared table is filled, so its gaps are not scored."
    picture = pattern_picture("Patterns of gaps", columns, patterns, names)
    rates = [
        (column.name, *map(percent, column.gaps)) for column in comparison.columns if column.gaps and any(column.gaps)
    ]
    shares_of_gaps = table(("column", "truth", "compared"), rates[:MOST_COLUMNS], right=(1, 2))
    return section(
        "Gaps",
        key(names),
        tag("p", text),
        side(tag("div", picture, class_="wide keep"), *titled("Shares of gaps", shares_of_gaps)),
    )


def _tasks(comparison: Comparison) -> Html:
    if not comparison.tasks:
        return Html("")
    rows = [(task.label, task.means[1], task.means[0]) for task in comparison.tasks]
    details = [
        (
            task.label,
            ", ".join(task.positive[:3]) + (" …" if len(task.positive) > 3 else ""),
            *(f"{mean:.3f}" for mean in reversed(task.means)),
            _number(task.auc_of_truth),
            _number(task.auc),
            _number(task.coefficient_mse, 5),
        )
        for task in comparison.tasks
    ]
    models = list(comparison.tasks[0].f1)
    by_model = [
        (
            model,
            f"{np.mean([task.f1_of_truth[model] for task in comparison.tasks]):.3f}",
            f"{np.mean([task.f1[model] for task in comparison.tasks]):.3f}",
        )
        for model in models
    ]
    names = ("the truth", "the compared table")
    head = ("label", "positive", "F1 truth", "F1 compared", "AUC truth", "AUC compared", "coefficient MSE")
    return section(
        "Prediction",
        tag(
            "p",
            "Each column is a label in turn. Nine classifiers are trained on 90% of up to 5,000 rows, and tested on "
            "10% of up to 5,000 rows of the truth. The second half of the cells in the schema are positive. Rings and "
            "dots: mean F1 of the nine classifiers, trained on the truth and on the compared table.",
        ),
        key(names),
        side(
            tag("div", dots("F1 for each label", rows, names), class_="wide keep"),
            tag("div", table(("classifier", "F1 truth", "F1 compared"), by_model, right=(1, 2)), class_="wide keep"),
        ),
        tag("div", table(head, details, right=(2, 3, 4, 5, 6)), class_="wide"),
    )


def _subgroups(comparison: Comparison) -> Html:
    if not comparison.subgroups:
        return Html("")
    large = [group for group in comparison.subgroups if group.rows >= max(1, comparison.rows[0] // 100)]
    rows = [
        (f"{group.column} = {group.cell}", f"{group.rows:,}", percent(group.truth), percent(group.other),
         f"{group.error:.3f}")
        for group in large[:MOST_SUBGROUPS]
    ]  # fmt: skip
    smaller = plural(len(comparison.subgroups) - len(large), "smaller one")
    text = (
        "A subgroup has the same cell in one column. Its error is the mean distance of all other columns. Shown are "
        f"the worst subgroups with at least 1% of the rows. Left out, because chance makes them differ: {smaller}."
    )
    head = ("subgroup", "rows", "share, truth", "share, compared", "error")
    return section("Subgroups", tag("p", text), tag("div", table(head, rows, right=(1, 2, 3, 4)), class_="wide"))


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
