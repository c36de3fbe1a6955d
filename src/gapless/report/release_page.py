"""The report of a release: what it is usable for, how much noise is in it, and what was measured.

It uses released values only, so it is free, and safe to publish.
"""

from __future__ import annotations

import math
from itertools import combinations

from gapless.data import Table
from gapless.draw.cards import footer
from gapless.draw.page import Html, page, section, side, tag, titled
from gapless.evaluate.usability import USES, Usability, usability
from gapless.missing.check import crowded_bin
from gapless.privacy import Ledger
from gapless.report.columns import columns_section, drawn_shares, gaps_section, noise_section
from gapless.report.relations import relations_section
from gapless.report.statement import kept_rows
from gapless.synth.fitted import FittedModel
from gapless.text import listing, plural

_MOST_LISTED = 12


def release_page(
    model: FittedModel, sample: Table, ledger: Ledger, verdict: Usability | None = None, *, rows: int | None = None
) -> str:
    """Return the report of a release, from released values only: free, and safe to publish.

    The distance of the synthetic rows from the model says nothing about the truth. The noise of the measurements does,
    and its size is public.

    Args:
        model: the fitted model; its measurements and noise levels are released values.
        sample: the synthetic rows of the release, or the first of them.
        ledger: the ledger whose guarantee is quoted.
        verdict: that on the model, if it is known already.
        rows: the number of synthetic rows, if `sample` has only the first.
    """
    judged = usability(model, sample) if verdict is None else verdict
    return page(
        f"Report: {sample.schema.name}",
        tag("h1", f"Report: {sample.schema.name}"),
        tag("p", sample.schema.description, class_="soft") if sample.schema.description else Html(""),
        _verdict(model, judged, sample.rows if rows is None else rows, sample.rows),
        tag("div", tag("p", str(ledger.guarantee())), class_="note"),
        relations_section(sample, judged),
        columns_section(sample, judged),
        noise_section(judged),
        gaps_section(model, judged),
        _measured(model, sample, judged),
        _rules(model),
        section("What this page is made from", tag("p", _ORIGIN)),
        footer(),
    )


def _verdict(model: FittedModel, judged: Usability, many: int, shown: int) -> Html:
    """Return the verdict, the uses, and the numbers behind them."""
    first = "" if shown == many else f" (the first {shown:,} are shown)"
    kept = kept_rows(model)
    private = f"{kept} " if kept else f"About {plural(max(0, round(model.total)), 'private row')}, "
    sizes = (
        f"{private}{plural(many, 'synthetic row')}{first}, method {model.method}. "
        "Judged from released values alone: by the noise in them, not by a look at the table."
    )
    weight = model.facts.guarantee.protect.row_weight
    parts = [
        tag("div", tag("b", USES[grade]), tag("ul", *(tag("li", use) for use in uses)), class_=grade)
        for grade, uses in judged.uses
    ]
    name, sentence = judged.sentence.split(". ", 1)
    return tag(
        "section",
        tag("h2", name),
        tag("p", tag("strong", sentence)),
        tag("p", sizes, class_="soft"),
        tag("p", f"All numbers are {weight}.", class_="soft") if weight else Html(""),
        tag("div", *parts, class_="grades"),
        tag("ul", *(tag("li", reason) for reason in judged.reasons), class_="reasons"),
        class_=f"verdict {_CLASSES[judged.verdict]}",
    )


_CLASSES = {"mostly noise": "card poor", "limited": "card fair", "good": "card good", "cannot tell": "card fair"}
_ORIGIN = (
    "This page uses released values only: the synthetic rows, the model, and the noise that the ledger lists. It cost "
    "nothing, and reveals nothing about the private table beyond the release. It shows how noisy the rows are, not how "
    "close they are to the truth: a comparison with the truth would cost budget. privacy.md has the whole statement."
)


def _by_features(model: FittedModel) -> bool:
    """Return whether pairs of columns were measured by products of features, not by tables."""
    return model.measurements is not None and bool(model.measurements.products)


def _measured(model: FittedModel, sample: Table, judged: Usability) -> Html:
    """Return what was measured, and what was not."""
    names, many = model.schema.names, len(model.schema.columns)
    together = {frozenset(edge) for edge in model.facts.edges}
    apart = [
        " × ".join(names[c] for c in pair) for pair in combinations(range(many), 2) if frozenset(pair) not in together
    ]
    columns = judged.columns
    alone = [column.column.name for column in columns if column.column.name not in model.facts.noise]
    found = zip(columns, drawn_shares(sample, columns), strict=True)
    blind = [(column.column, drawn) for column, drawn in found if column.column.name not in model.within_bin_counts]
    crowded = [column.name for column, drawn in blind if crowded_bin(column, drawn) is not None]
    pairs = math.comb(many, 2)
    by_features = ": for two ordered columns, how their ranks and groups of values vary together" * _by_features(model)
    did = [
        f"{len(columns) - len(alone)} of {plural(len(columns), 'column')} by themselves."
        + (f" The others have one cell, or are derived from sets of columns: {listing(alone)}." if alone else ""),
        f"{len(together)} of {plural(pairs, 'pair')} of columns together (structure.svg){by_features}."
        if pairs
        else "",
        f"Counts within the bins of {listing(model.within_bin_counts)}: these bins were learned from them."
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
