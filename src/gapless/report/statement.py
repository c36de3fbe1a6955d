"""The texts of a release: privacy statement, analysis guide, data dictionary.

The privacy statement, privacy.md: what is promised to whom, in words and numbers.

The analysis guide of a release with copies: what they are for, what they support, and code that pools them.

The data dictionary of a release: its columns and what their cells mean, from the schema alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from shlex import quote
from typing import NamedTuple

from gapless.constraints.grammar import quote_name
from gapless.data import Table
from gapless.data.io.spreadsheets import FormulaEscapes
from gapless.data.table import is_text_in_parquet
from gapless.errors import QuestionError
from gapless.privacy import Ledger, Loss
from gapless.privacy.budget import PURE
from gapless.privacy.ledger import Coverage
from gapless.privacy.promise import factor, pricing_note
from gapless.privacy.registry import mechanism_of
from gapless.query import Count, Mean, Proportion
from gapless.schema import Boolean, Integer, Number, Schema
from gapless.schema.schema import FILE_KEYS
from gapless.synth.copies import Copies
from gapless.synth.fitted import FittedModel
from gapless.text import code, markdown, rounded_up, visible

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
        *(f"- Warning: {markdown(caution)}" for caution in (model.noise_warning(),) if caution),
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
    yield from dict.fromkeys(mechanism.description for mechanism in mechanisms if mechanism is not None)
    if None in mechanisms:
        yield "for an entry that a crash left half written nothing was read"


def _other_deltas(ledger: Ledger) -> Iterator[str]:
    """The promise at other δ, whatever is still to come."""
    if ledger.order != PURE and ledger.entries:
        promises = (f"ε = {rounded_up(ledger.epsilon_at(d), 3)} at δ = {d:g}" for d in (1e-5, 1e-7, 1e-9))
        yield f"- The whole budget at other δ: {', '.join(promises)}."


# By `escape_formulas` of the schema.
FORMULAS = {
    True: "In text files (CSV) an apostrophe is put before names and text cells that begin with =, +, -, @, a tab or a "
    "carriage return and go on, numbers excepted, so that no spreadsheet runs them. gapless reads them without it.",
    False: "In text files (CSV) names and text cells are written as they are, also if a spreadsheet would run them as "
    "formulas.",
}


def dictionary(schema: Schema) -> Iterator[str]:
    """The lines of dictionary.md."""
    yield from (f"# Data dictionary: {markdown(schema.name)}", "")
    if schema.description:
        yield from (markdown(schema.description), "")
    file = schema.to_dict()["table"]
    if written := [f"{key} {code(repr(file[key]))}" for key in FILE_KEYS if key in file]:
        yield from (f"Text files are written with {', '.join(written)}.", "")
    yield from (FORMULAS[schema.escape_formulas], "")
    formulas = FormulaEscapes(schema)
    for column in schema.columns:
        yield from (f"## {markdown(column.name)}", "", f"{column.kind}. {markdown(column.description)}".strip(), "")
        if column.name in formulas.names:
            yield f"- name in text files: {code(formulas.names[column.name])}"
        yield f"- cells: {', '.join(map(code, column.cells[: column.values_size]))}"
        if texts := formulas.cells.get(column.name):
            pairs = (f"{code(text)} as {code(written)}" for text, written in texts.items())
            yield f"- written in text files: {', '.join(pairs)}"
        for key in ("spelling", "format"):
            if spelled := getattr(column, key, None):
                yield f"- {key} in text files: {code(spelled if isinstance(spelled, str) else ', '.join(spelled))}"
        if column.not_applicable is not None:
            as_text = "; in synthetic.parquet the column is text, since null is a gap" * is_text_in_parquet(column)
            yield f"- not applicable: {_code(column.not_applicable)}{as_text}"
        if column.may_be_missing:
            codes = ", ".join(f"{_code(gap.code)} ({gap.kind})" for gap in column.missing if gap.kind in column.gaps)
            yield f"- may be missing: {codes or 'an empty cell'}"
        yield ""


def _code(text: str) -> str:
    return code(text) if text else "an empty cell"


_R = """\
# Estimates q and their variances u, of each copy; the estimate of model_rows.csv.gz.
rubin <- function(q, u, original) {
  m <- length(q); b <- (1 + 1 / m) * var(q); w <- mean(u)
  centre <- 2 * original - mean(q)
  half <- qt(0.975, min((m - 1) * (1 + w / b)^2, 1e6)) * sqrt(w + b)
  c(estimate = centre, low = centre - half, high = centre + half)
}
tables <- function(file) { rows <- read.csv(file, check.names = FALSE); split(rows, rows$copy) }
estimate <- function(rows) lm({formula}, rows)  # your analysis
q <- function(fit) coef(fit)[[{coefficient}]]
u <- function(fit) vcov(fit)[{coefficient}, {coefficient}]
fits <- lapply(tables("copies.csv.gz"), estimate)
original <- q(estimate(read.csv("model_rows.csv.gz", check.names = FALSE)))
rubin(sapply(fits, q), sapply(fits, u), original)
# mice::pool(mice::as.mira(fits)) has the same variances; its centre is the mean of the copies.
"""
_R_REPLICATES = """\
# For {varying}: the larger half-width of that and of a bootstrap.
with_replicates <- function(pooled, original, replicates) {
  B <- length(replicates)
  centre <- 2 * original - mean(replicates)
  half <- max((pooled[["high"]] - pooled[["low"]]) / 2, qt(0.975, B - 1) * sd(replicates) * sqrt(1 + 1 / B))
  c(estimate = centre, low = centre - half, high = centre + half)
}
replicates <- sapply(lapply(tables("replicates.csv.gz"), estimate), q)
with_replicates(rubin(sapply(fits, q), sapply(fits, u), original), original, replicates)
"""

_PLACE = re.compile(r"\{(formula|coefficient|varying)\}")
_SPECIAL = frozenset('"$`\\!')


class _Example(NamedTuple):
    """Something that the release supports: a formula in R, which of its coefficients, and a question twice."""

    formula: str
    coefficient: int
    question: str
    text: str


def _example(schema: Schema, together: Sequence[Sequence[int]]) -> _Example:
    """A mean by the other column with the fewest cells, else a share; of one column if none were counted together."""
    known = {place for columns in together for place in columns} or set(range(len(schema.columns)))
    formulas = FormulaEscapes(schema)  # R sees names and cells as text files have them

    def in_r(name: str) -> str:
        return _in_backticks(formulas.names.get(name, name))

    for place in sorted(known):
        if isinstance(column := schema.columns[place], Integer | Number):
            others = {other for columns in together if place in columns for other in columns} - {place}
            by = min((schema.columns[other] for other in sorted(others)), key=lambda other: other.size, default=None)
            if by is None:
                return _Example(f"{in_r(column.name)} ~ 1", 1, f"gl.Mean({column.name!r})", str(Mean(column.name)))
            question = Mean(column.name, by=by.name)
            return _Example(
                f"{in_r(column.name)} ~ {in_r(by.name)}",
                2,
                f"gl.Mean({column.name!r}, by={by.name!r})",
                str(question),
            )
    first, second = together[0][:2] if together else (None, 0)
    column = schema.columns[second]
    if isinstance(column, Boolean):  # R reads true, T and the like as its own, other spellings as texts
        cell, test = "true", f"%in% c(TRUE, {str((column.spelling or ('false', 'true'))[1])!r})"
    else:
        cell = column.cells[0]
        test = f"== {formulas.cells.get(column.name, {}).get(cell, cell)!r}"
    explaining = "1" if first is None else in_r(schema.names[first])
    formula = f"({in_r(column.name)} {test}) ~ {explaining}"
    coefficient = 1 if first is None else 2
    try:
        share = Proportion(f"{quote_name(column.name)} == {cell!r}")
    except QuestionError:  # a name with both kinds of quotes cannot be written in a question
        return _Example(formula, coefficient, "gl.Count()", str(Count()))
    return _Example(formula, coefficient, f"gl.Proportion({share.of!r})", str(share))


def _in_r(example: _Example, varying: str) -> Iterator[str]:
    """The code, with names of columns put in at once: whatever they are, nothing in them is put in for again."""
    known = example._asdict() | {"varying": varying}
    for line in (_R + _R_REPLICATES * bool(varying)).splitlines():
        yield _PLACE.sub(lambda place: str(known[place[1]]), line)


def _in_backticks(name: str) -> str:
    r"""A name of R: a backslash, a backtick and what is not printed are escaped.

    >>> print(_in_backticks("a`b"))
    `a\`b`
    """
    return "`" + visible(re.sub(r"[\\`]", r"\\\g<0>", name)) + "`"


def _in_shell(text: str) -> str:
    """A question as one word, between double quotes where a shell takes it as it is."""
    return quote(text) if _SPECIAL.intersection(text) else f'"{text}"'


def analysis_guide(copies: Copies) -> Iterator[str]:
    """The guide, for those who analyse the rows."""
    model, schema = copies.model, copies.model.schema
    together = sorted(sorted(columns) for columns in copies.measurements.jointly_measured(schema) if len(columns) > 1)
    tables = [" × ".join(schema.names[c] for c in columns) for columns in together]
    if together and together == [list(pair) for pair in combinations(range(len(schema.columns)), 2)]:
        tables = ["every pair of columns"]
    example = _example(schema, together)
    gaps = any(column.gaps for column in schema.columns)
    varying = " or ".join(["columns with gaps"] * gaps + ["numbers in learned bins"] * bool(model.within_bin_counts))
    varying = varying if copies.replicates else ""
    yield from (
        f"# How to analyse {markdown(schema.name)}",
        "",
        "A synthetic table that is treated as if it were real gives intervals that are too narrow: the noise that "
        f"protects people is not in them. So there are {len(copies)} copies, of which each might have been released "
        "instead. Do the analysis with every copy and pool the results: estimates with honest 95 % intervals for the "
        "population from which the private rows were drawn. All this is computed from released values: it cost "
        "nothing.",
        "",
        "- `copies.csv.gz`: all copies, told apart by the first column, `copy`.",
        "- `model_rows.csv.gz`: many rows of the model without a second noise, with which copies are compared.",
        *([f"- `replicates.csv.gz`: as many tables, for estimates that look at {varying}."] if varying else []),
        "- `synthetic.csv` is one table, for a look, for testing code and for training. It is no copy.",
        "",
        "## What can be estimated",
        "",
        "Columns by themselves, and columns that were measured together in one table: "
        + (f"{markdown(', '.join(tables))}." if tables else "none.")
        + " A linear regression needs each two of its columns in one of them. Anything else follows from assumptions "
        "and has no interval: not supported by this release.",
        "",
        "## Python",
        "",
        "```python",
        "import gapless as gl",
        "",
        f'copies = gl.load("synthetic.model").copies({len(copies)})',
        f"print(gl.pool(copies, {example.question}))  # or Proportion, Median, Quantile",
        "```",
        "",
        "It says what is supported; `lambda table: smf.ols(…, table.to_pandas()).fit()` in place of the question is a "
        f"regression. Without Python: {code(f'gapless estimate . {_in_shell(example.text)}')}.",
        "",
        "## R",
        "",
        "```r",
        *_in_r(example, varying),
        "```",
        "",
        "R knows less than `gapless estimate` does: not what hangs on values inside bins, which groups noise hides, "
        "which counts were below zero, or how freely gaps of a mixture are told. Where it matters, as for means of a "
        "long tail, take the intervals of `gapless estimate`.",
        "",
        f"Method: {markdown(model.method)}. Noise and sampling are in the intervals"
        + (", and gaps that are missing at random" if gaps else "")
        + ". What is not: where in its bin a number lies, if bins were declared; that the columns measured together "
        "are the right ones.",
        "",
    )
