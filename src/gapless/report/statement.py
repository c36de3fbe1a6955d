"""The privacy statement of a release, privacy.md: what is promised to whom, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gapless.data import Table
from gapless.privacy import Ledger, Loss
from gapless.privacy.budget import PURE
from gapless.privacy.ledger import Coverage
from gapless.privacy.ledger_text import pricing_note
from gapless.privacy.promise import factor
from gapless.privacy.registry import mechanism_of
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel
from gapless.text import markdown, rounded_up

# What was checked about other ledgers for the same rows, and what nobody can know.
_OTHER_LEDGERS: dict[Coverage, str] = {
    "registered": (
        "The files of the table are registered with this ledger, in the folder where they lie: gapless refuses another "
        "ledger for them, also if they are written anew, renamed or read together with others. It cannot know of "
        "copies of these files, of files that were moved to another folder or machine, of the same rows in a database "
        "or a data frame, nor of releases that were made before the files were registered."
    ),
    "unregistered": (
        "The files of the table could not be registered with this ledger, because the folder where they lie cannot be "
        "written to: gapless would not notice another ledger for the same files or for copies of them."
    ),
    "unknown": (
        "The table was not read from files on the holder's machine, which could be registered with this ledger, but "
        "from a data frame or a database: gapless would not notice another ledger for the same rows."
    ),
}


def privacy_statement(model: FittedModel, sample: Table, ledger: Ledger, *, rows: int | None = None) -> Iterator[str]:
    """The privacy statement, for the people in the data and for a review board."""
    many = sample.rows if rows is None else rows
    guarantee = ledger.guarantee()
    promises = guarantee if ledger.budget.ground_truth is None else ledger.ground_truth()
    first, *beside = str(promises).split("\n")
    yield from (f"# Privacy statement: {markdown(sample.schema.name)}", "", f"**{markdown(first)}**", "")
    for sentence in (*beside, *(ledger.remarks if beside else ())):
        yield from (markdown(sentence), "")
    if guarantee.epsilon == math.inf:
        yield "THIS RELEASE IS NOT PRIVATE and must not be published."
        return
    spent, left = ledger.percentages()
    yield from (
        "## In plain words",
        "",
        f"The rows in this release are synthetic. Whether or not {ledger.protect} of any one person is in the "
        "original table, the release would have come out almost the same: the probability of anything that somebody "
        f"could conclude from it changes by a factor of at most e^ε = {factor(guarantee.epsilon)}"
        + (f", and by at most δ = {guarantee.delta:g} besides." if guarantee.delta else "."),
        "",
        *protection(ledger, sample.schema),
        "## The numbers",
        "",
        f"- Budget: {markdown(str(ledger.budget))}; spent {spent:.2f}%, left {left:.2f}%.",
        f"- Guarantee: ε = {rounded_up(guarantee.epsilon)} at δ = {guarantee.delta:g}; basis: {guarantee.basis}.",
        *(f"- Price: {pricing}" for pricing in (pricing_note(ledger),) if pricing),
        *_other_deltas(ledger),
        f"- Method: {markdown(model.method)}; "
        + markdown("; ".join(f"{name}: {value}" for name, value in model.facts.settings.items()))
        + ".",
        *(f"- {markdown(line[0].upper() + line[1:])}." for line in model.constraints()),
        *(f"- Warning: {markdown(caution)}" for caution in (model.lost_in_noise(),) if caution),
        "- Report: report.html was made from the synthetic rows, the model and the noise levels alone, for free.",
        f"- Rows in this release: {many}. The model's own estimate of the size, used by default, is noisy.",
        "",
        *recorded(ledger),
    )


def protection(ledger: Ledger, schema: Schema) -> Iterator[str]:
    """What is weak about a ledger's promise, and whom and what it covers."""
    for caution in ledger.cautions(expected_rows=schema.expected_rows):
        yield from (f"**Warning: {caution}**", "")
    yield from (
        "## What is protected, and what is not",
        "",
        f"- Unit of privacy: {ledger.protect}, added or removed (the number of rows is private too).",
        "- Protected: every cell of those rows, and which of their cells are missing.",
        "- Not protected: the schema (names of columns, levels, bounds, bins, missing codes), the name of the "
        "table, the method and its settings, and what is true of the population whether or not a person took part.",
        "- Trust: the holder runs the software on a machine it trusts. Running times are out of scope.",
        f"- Noise is drawn exactly, from the operating system's entropy: {'; '.join(_kinds_of_noise(ledger))}.",
        "",
    )


def recorded(ledger: Ledger) -> Iterator[str]:
    """All entries of a ledger, as a table of a statement."""
    yield from (
        "## Everything that this ledger has recorded",
        "",
        "The promise covers what is listed here. Releases from the same table under another ledger "
        "come on top, in full: figures that rest on gaps must not be added.",
        "",
        _OTHER_LEDGERS[ledger.coverage],
        "",
        "| no | share of budget | by | for | mechanism | rows read |",
        "|---:|---:|---|---|---|---|",
    )
    for entry in ledger.entries:
        name, *given = entry.mechanism.values()
        shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in given)
        reads = "all" if entry.reads is None else "observed on " + ", ".join(entry.reads)
        share = ledger.percent(Loss(entry.loss, ledger.order))
        cells = (str(entry.number), share, entry.to, entry.what, f"{name}({shown})", reads)
        yield f"| {' | '.join(map(markdown, cells))} |"
    yield ""


def _kinds_of_noise(ledger: Ledger) -> Iterator[str]:
    """What is said of noise, by the mechanisms that this ledger has recorded."""
    mechanisms = [mechanism_of(entry.mechanism) for entry in ledger.entries]
    yield from dict.fromkeys(mechanism.told for mechanism in mechanisms if mechanism is not None)
    if None in mechanisms:
        yield "for an entry that a crash left half written nothing was read"


def _other_deltas(ledger: Ledger) -> Iterator[str]:
    """The promise at other δ, whatever is still to come."""
    if ledger.order != PURE and ledger.entries:
        told = (f"ε = {rounded_up(ledger.epsilon_at(d), 3)} at δ = {d:g}" for d in (1e-5, 1e-7, 1e-9))
        yield f"- The whole budget at other δ: {', '.join(told)}."
