"""The texts of a release.

- Privacy statement, privacy.md: the guarantee, in words and numbers.
- Analysis guide, analysis.md, of a release with copies: what they support, and code that pools them.
- Data dictionary, dictionary.md: the columns and the meaning of their cells, from the schema alone.
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
from gapless.data.io.table_files import is_text_in_parquet
from gapless.errors import QuestionError
from gapless.privacy import Ledger, Loss
from gapless.privacy.budget import PURE, Persons, Unit
from gapless.privacy.ledger import Coverage
from gapless.privacy.ledger_file import Entry
from gapless.privacy.promise import BELIEVED, factor, pricing_note
from gapless.privacy.registry import mechanism_of
from gapless.query import Count, Mean, Proportion
from gapless.schema import Boolean, Column, Integer, MissingCode, MissingRange, Number, Schema
from gapless.schema.columns import LevelColumn
from gapless.schema.difference import difference_of
from gapless.schema.schema import FILE_KEYS
from gapless.synth.copies import Copies
from gapless.synth.fitted import FittedModel
from gapless.text import code, markdown, rounded_up, visible

# What was checked about other ledgers for the same rows, and what gapless cannot know.
_OTHER_LEDGERS: dict[Coverage, str] = {
    "registered": (
        "The files of the table are registered with this ledger, in their folder. gapless refuses another ledger for "
        "them, even if they are rewritten, renamed or read together with other files. gapless cannot know about copies "
        "of these files, files that were moved to another folder or machine, the same rows in a database or a data "
        "frame, or releases that were made before the files were registered."
    ),
    "unregistered": (
        "The files of the table could not be registered with this ledger, because their folder is not writable. "
        "gapless would not notice another ledger for the same files or for copies of them."
    ),
    "unknown": (
        "The table was read from a data frame or a database. Only files on the holder's machine can be registered with "
        "a ledger. gapless would not notice another ledger for the same rows."
    ),
}


_MOST_PURPOSES = 4  # of entries with the same noise


def privacy_statement(model: FittedModel, sample: Table, ledger: Ledger, *, rows: int | None = None) -> Iterator[str]:
    """Yield the lines of privacy.md, for the people in the data and for a review board."""
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
        "The rows in this release are synthetic. The release would be almost the same with or without "
        f"{with_person(guarantee.protect)} in the original table. The probability of any conclusion from it changes "
        f"by a factor of at most e^ε = {factor(guarantee.epsilon)}"
        + (f", plus at most δ = {guarantee.delta:g}." if guarantee.delta else "."),
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
        "- Report: report.html says what the rows are usable for. It was made from released values alone, for free.",
        f"- Rows in this release: {many}. By default this is the model's noisy estimate of the number of "
        f"{'kept ' * isinstance(guarantee.protect, Persons)}rows.",
        "",
        *recorded(ledger, "ledger.json"),
    )


def with_person(unit: Unit) -> str:
    """Return whose rows may be there or not."""
    return f"any one {markdown(unit.name)}" if isinstance(unit, Persons) else f"{unit} of any one person"


def unit_of_privacy(unit: Unit) -> str:
    """Return whom the guarantee protects, and whether their number of rows was checked."""
    if isinstance(unit, Persons):
        return (
            f"each {unit.name}, with all its rows, added or removed. At most {unit.at_most} of them were kept, by a "
            "secret key, before anything was counted. (The number of rows and persons is private too.)"
        )
    believed = f" {BELIEVED}." if unit.at_most > 1 else ""
    return f"{unit}, added or removed (the number of rows is private too).{believed}"


def about_persons(unit: Unit) -> Iterator[str]:
    """Yield what else holds if persons are protected."""
    if isinstance(unit, Persons):
        yield f"Never counted or released: the id ({', '.join(unit.id)}). Protected too: how many rows a person has."
        yield (
            "Gaps lower no figure: a row with a gap may take the place of another among those that are kept, so every "
            "release counts as reading every row."
        )


def protection(ledger: Ledger, schema: Schema) -> Iterator[str]:
    """Yield the weaknesses of a ledger's guarantee, and what it protects."""
    unit = ledger.guarantee().protect
    for caution in ledger.cautions(expected_rows=schema.expected_rows):
        yield from (f"**Warning: {caution}**", "")
    yield from (
        "## What is protected, and what is not",
        "",
        f"- Unit of privacy: {markdown(unit_of_privacy(unit))}",
        *(f"- {markdown(line)}" for line in about_persons(unit)),
        "- Protected: every cell of those rows, and which of their cells are missing.",
        "- Not protected: the schema (names of columns, levels, bounds, bins, missing codes), the name of the table, "
        "the method and its settings, and facts about the population that hold whether or not a person took part.",
        "- Trust: the holder runs the software on a machine it trusts. What could be learned from running times is not "
        "covered.",
        f"- Noise: sampled exactly, from the operating system's entropy: {'; '.join(_kinds_of_noise(ledger))}.",
        "",
    )


def recorded(ledger: Ledger, full: str) -> Iterator[str]:
    """Yield all entries of a ledger, as a Markdown table. Entries that differ by their columns alone share a line.

    Args:
        ledger: whose entries are listed.
        full: the file that lists every entry.
    """
    yield from (
        "## Everything that this ledger has recorded",
        "",
        "The guarantee covers what is listed here. If the table also has another ledger, its ε comes on top of this "
        "one. Promises for the complete data, which `gapless ledger --mcar` prints, must not be added up over ledgers.",
        "",
        _OTHER_LEDGERS[ledger.coverage],
        "",
        f"Entries with the same noise share a line. {full} lists every entry.",
        "",
        "| entries | share of budget | by | for | mechanism | rows read |",
        "|---:|---:|---|---|---|---|",
    )
    alike: dict[tuple[str, str, bool], list[Entry]] = {}
    for entry in ledger.entries:
        name, *given = entry.mechanism.values()
        shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in given)
        alike.setdefault((entry.to, f"{name}({shown})", entry.reads is None), []).append(entry)
    for (by, mechanism, reads_all), entries in alike.items():
        share = ledger.percent(Loss(math.fsum(entry.loss for entry in entries), ledger.order))
        reads = "all" if reads_all else "observed on " + ", ".join(entries[0].reads or ())
        more = f" … ({len(entries) - _MOST_PURPOSES:,} more)" if len(entries) > _MOST_PURPOSES else ""
        purposes = "; ".join(visible(entry.what) for entry in entries[:_MOST_PURPOSES]) + more
        if len(entries) > 1 and not reads_all:
            reads = "observed on the columns of each"
        cells = (_numbers(entries), share, by, purposes, mechanism, reads)
        yield f"| {' | '.join(map(markdown, cells))} |"
    yield ""


def _numbers(entries: Sequence[Entry]) -> str:
    """Return the numbers of entries: how many, and the first and the last."""
    first, last = entries[0].number, entries[-1].number
    return str(first) if len(entries) == 1 else f"{len(entries):,}, from {first} to {last}"


def _kinds_of_noise(ledger: Ledger) -> Iterator[str]:
    """Yield a description of the noise of each mechanism that this ledger has recorded."""
    mechanisms = [mechanism_of(entry.mechanism) for entry in ledger.entries]
    yield from dict.fromkeys(mechanism.description for mechanism in mechanisms if mechanism is not None)
    if None in mechanisms:
        yield "for an entry that a crash left incomplete, nothing was read"


def _other_deltas(ledger: Ledger) -> Iterator[str]:
    """Yield the guarantee of the whole budget at other values of δ."""
    if ledger.order != PURE and ledger.entries:
        promises = (f"ε = {rounded_up(ledger.epsilon_at(d), 3)} at δ = {d:g}" for d in (1e-5, 1e-7, 1e-9))
        yield f"- The whole budget at other δ: {', '.join(promises)}."


# By `escape_formulas` of the schema.
FORMULAS = {
    True: "In text files (CSV), names and text cells that a spreadsheet could run as a formula start with an "
    "apostrophe. These are texts, other than numbers, that begin with =, +, -, @, a tab or a carriage return and have "
    "more characters. gapless removes the apostrophe when it reads them.",
    False: "In text files (CSV), names and text cells are written unchanged, even if a spreadsheet would run them as "
    "formulas.",
}


def dictionary(schema: Schema) -> Iterator[str]:
    """Yield the lines of dictionary.md."""
    yield from (f"# Data dictionary: {markdown(schema.name)}", "")
    if schema.description:
        yield from (markdown(schema.description), "")
    file = schema.to_dict()["table"]
    if written := [f"{key} {code(repr(file[key]))}" for key in FILE_KEYS if key in file]:
        yield from (f"Text files are written with {', '.join(written)}.", "")
    yield from (FORMULAS[schema.escape_formulas], "")
    formulas = FormulaEscapes(schema)
    for column, of_file in zip(schema.columns, schema.file_columns, strict=True):
        yield from _heading(column)
        cells = f"- cells: {', '.join(_cell(column, name) for name in column.cells[: column.values_size])}"
        if (difference := difference_of(column)) is not None:
            yield f"- {code(str(difference))}: the files have {code(of_file.name)} in its place"
            yield from (cells, "", *_heading(of_file))
            bounds = code(" to ".join(map(str, difference.minuend.bounds)))
            yield f"- {code(f'{difference.subtrahend} + {column.name}')}, within {bounds}"
        if of_file.name in formulas.names:
            yield f"- name in text files: {code(formulas.names[of_file.name])}"
        if difference is None:
            yield cells
        yield from _as_written(of_file, formulas)
        yield ""


def _heading(column: Column) -> tuple[str, ...]:
    return f"## {markdown(column.name)}", "", f"{column.kind}. {markdown(column.description)}".strip(), ""


def _as_written(column: Column, formulas: FormulaEscapes) -> Iterator[str]:
    """Yield how files write the cells of a column."""
    if texts := formulas.cells.get(column.name):
        pairs = (f"{code(text)} as {code(written)}" for text, written in texts.items())
        yield f"- written in text files: {', '.join(pairs)}"
    for key in ("spelling", "format"):
        if spelled := getattr(column, key, None):
            yield f"- {key} in text files: {code(spelled if isinstance(spelled, str) else ', '.join(spelled))}"
    if column.per_person:
        yield "- the same in all rows of a person"
    if column.not_applicable is not None:
        as_text = "; in synthetic.parquet the column is text, since null is a gap" * is_text_in_parquet(column)
        codes = ", ".join(_gap(gap) for gap in column.missing if gap.is_structural)
        yield f"- not applicable: {codes}{as_text}"
    if column.may_be_missing:
        codes = ", ".join(_gap(gap) for gap in column.missing if gap.kind in column.gaps)
        yield f"- may be missing: {codes or 'an empty cell'}"


def _cell(column: Column, name: str) -> str:
    """A level or bin, with its label if it has one."""
    label = column.label_of(name) if isinstance(column, LevelColumn) else ""
    return f"{code(name)} ({markdown(label)})" if label else code(name)


def _gap(gap: MissingCode | MissingRange) -> str:
    """A code or range for gaps with its kind and label; the kind not applicable follows from the heading."""
    text = _code(gap.code) if isinstance(gap, MissingCode) else f"{code(str(gap))}"
    kind = "" if gap.kind == "not-applicable" else gap.kind
    remarks = ", ".join(filter(None, [kind, markdown(gap.label)]))
    return f"{text} ({remarks})" if remarks else text


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
    """An estimate that the release supports: a formula in R, its coefficient, and a question in Python and as text."""

    formula: str
    coefficient: int
    question: str
    text: str


def _example(schema: Schema, together: Sequence[Sequence[int]]) -> _Example:
    """Return a mean by the other column with the fewest cells, else a proportion.

    It is about one column if no columns were counted together.
    """
    in_files = [place for place, column in enumerate(schema.columns) if difference_of(column) is None]
    together = [columns for columns in together if set(columns) <= set(in_files)]
    known = {place for columns in together for place in columns} or set(in_files)
    formulas = FormulaEscapes(schema)  # R reads names and cells as text files have them

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
                f"{in_r(column.name)} ~ {in_r(by.name)}", 2, f"gl.Mean({column.name!r}, by={by.name!r})", str(question)
            )
    first, second = together[0][:2] if together else (None, in_files[0])
    column = schema.columns[second]
    if isinstance(column, Boolean):  # R reads true, T and the like as logical, other spellings as text
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
    """Yield the code in R. All names are filled in at once, so that no name is taken for a placeholder."""
    known = example._asdict() | {"varying": varying}
    for line in (_R + _R_REPLICATES * bool(varying)).splitlines():
        yield _PLACE.sub(lambda place: str(known[place[1]]), line)


def _in_backticks(name: str) -> str:
    r"""Quote a name for R. Backslashes, backticks and unprintable characters are escaped.

    >>> print(_in_backticks("a`b"))
    `a\`b`
    """
    return "`" + visible(re.sub(r"[\\`]", r"\\\g<0>", name)) + "`"


def _in_shell(text: str) -> str:
    """Quote a question for a shell, in double quotes where these are enough."""
    return quote(text) if _SPECIAL.intersection(text) else f'"{text}"'


def analysis_guide(copies: Copies) -> Iterator[str]:
    """Yield the lines of analysis.md, for analysts of the rows."""
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
        "If you analyse a synthetic table as if it were real, the intervals are too narrow: they do not include the "
        f"privacy noise. So this release has {len(copies)} copies. Each of them could have been released instead. Run "
        "the analysis on every copy and pool the results. You get estimates with valid 95 % intervals for the "
        "population from which the private rows were drawn. The copies are computed from released values, so they cost "
        "nothing.",
        "",
        "- `copies.csv.gz`: all copies; the first column, `copy`, is the number of the copy.",
        "- `model_rows.csv.gz`: many rows of the model without added noise. Compare the copies with these rows.",
        *([f"- `replicates.csv.gz`: as many tables, for estimates that use {varying}."] if varying else []),
        "- `synthetic.csv`: one table, to look at, to test code and to train models. It is not a copy.",
        "",
        "## What can be estimated",
        "",
        "Single columns, and columns that were measured together: "
        + (f"{markdown(', '.join(tables))}." if tables else "none.")
        + " For a linear regression every two of its columns must have been measured together. Other estimates rest "
        "on assumptions of the model. They have no interval and are not supported by this release.",
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
        "The result states what is supported. For a regression, pass `lambda table: smf.ols(…, "
        "table.to_pandas()).fit()` in place of the question. Without Python, run "
        f"{code(f'gapless estimate . {_in_shell(example.text)}')}.",
        "",
        "## R",
        "",
        "```r",
        *_in_r(example, varying),
        "```",
        "",
        "The code in R has less information than `gapless estimate`. It does not know the effect of values inside "
        "bins, the groups that are lost in noise, the counts below zero, or how loosely the model follows the rates of "
        "gaps. Where this matters, as for means of a column with a long tail, use the intervals of `gapless estimate`.",
        "",
        f"Method: {markdown(model.method)}. The intervals cover noise and sampling"
        + (", and gaps that are missing at random" if gaps else "")
        + ". They do not cover the position of a number in its bin, if bins were declared, or the choice of the "
        "columns that were measured together.",
        "",
    )
