"""Checks of data by their holder before a release. The results are exact and not for publication."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.constraints.forbidden import possible_cells
from gapless.constraints.rules import rules_of
from gapless.constraints.violations import ValueRanges, Violations, violations
from gapless.data import Table
from gapless.data.checks import check_public
from gapless.data.cutting import cut_schema
from gapless.data.io.encode import Cells, DifferenceEncoder, check_names, classify, encoders
from gapless.data.io.source import load_frame
from gapless.errors import SchemaError
from gapless.missing.file_remarks import FileRemark, file_remarks
from gapless.missing.persons import RowsPerPerson, possible_ids, rows_per_person
from gapless.schema import Column, Date, DateTime, Integer, Number, Schema
from gapless.schema.numeric import BinnedColumn
from gapless.text import plural
from gapless.types import whole


@dataclass(frozen=True, slots=True)
class Pair:
    """How often two columns are missing together, compared with independent gaps.

    Attributes:
        column: a column.
        other: another.
        both: the share of rows in which both are missing.
        association: the correlation of the two missing states, from -1 (never together) to 1 (always together).
    """

    column: str
    other: str
    both: float
    association: float


@dataclass(frozen=True, slots=True)
class Patterns:
    """The gap rates of columns, and the columns that are missing together. Exact: NOT for release."""

    columns: tuple[str, ...]
    rows: int
    rates: dict[str, float]
    frequent: tuple[tuple[tuple[str, ...], int], ...]  # columns missing together, number of rows
    different: int
    complete: int  # rows without any gap
    pairs: tuple[Pair, ...]  # every two columns that have gaps

    def __str__(self) -> str:
        return (
            f"{plural(self.rows, 'row')}, {self.complete:,} of them complete (■ observed, · missing):\n{self.picture()}"
        )

    def picture(self) -> str:
        """A text picture: one line for each frequent pattern, ■ observed, · missing."""
        gappy = [name for name in self.columns if self.rates[name] > 0]
        if not gappy:
            return "  no gaps at all"
        lines = [f"  {'rows':>9}  {'share':>6}  " + " ".join(f"{i:>2}" for i in range(1, len(gappy) + 1))]
        for missing, count in self.frequent:
            symbols = " ".join(" ·" if name in missing else " ■" for name in gappy)
            lines.append(f"  {count:>9}  {100 * count / max(1, self.rows):>5.1f}%  {symbols}")
        if self.different > len(self.frequent):
            lines.append(f"  … and {plural(self.different - len(self.frequent), 'rarer pattern')}")
        lines.append("  columns: " + ", ".join(f"{i} {name}" for i, name in enumerate(gappy, 1)))
        return "\n".join(lines)


def patterns(table: Table, *, most: int = 12) -> Patterns:
    """Describe the gaps of a table that you are allowed to look at."""
    check_public(
        table, "patterns() needs", private="run `gapless check` on the file, if you hold the data: it shows their gaps"
    )
    most = whole("most", most, error=SchemaError, least=1)
    gaps = [codes >= column.size for codes, column in zip(table.codes, table.schema.columns, strict=True)]
    return patterns_of(table.schema.names, gaps, table.rows, most=most)


def patterns_of(names: tuple[str, ...], gaps: Sequence[NDArray[np.bool_]], rows: int, *, most: int = 12) -> Patterns:
    """Describe gaps from one flag for each cell."""
    rates = {name: float(gap.mean()) if rows else 0.0 for name, gap in zip(names, gaps, strict=True)}
    different, counts = _distinct(gaps, rows)
    order = np.argsort(-counts, kind="stable")[:most]
    frequent = tuple(
        (tuple(name for name, gap in zip(names, different[i], strict=True) if gap), int(counts[i])) for i in order
    )
    complete = int(counts[~different.any(axis=1)].sum())
    return Patterns(names, rows, rates, frequent, len(counts), complete, tuple(_pairs(names, different, counts)))


def _pairs(names: tuple[str, ...], different: NDArray[np.bool_], counts: NDArray[np.int64]) -> Iterator[Pair]:
    """Co-missingness, from the different patterns and their counts."""
    rows = max(1, int(counts.sum()))
    indicators = different.astype(np.float64)
    both = indicators.T @ (indicators * counts[:, None]) / rows
    rate = np.diag(both)
    spread = np.sqrt(np.outer(rate * (1 - rate), rate * (1 - rate)))
    extra = both - np.outer(rate, rate)
    association = np.divide(extra, spread, out=np.zeros_like(both), where=spread > 0)
    for i, j in combinations(np.flatnonzero(rate > 0).tolist(), 2):
        yield Pair(names[i], names[j], float(both[i, j]), float(np.clip(association[i, j], -1, 1)))


def _distinct(gaps: Sequence[NDArray[np.bool_]], rows: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The different patterns and the number of rows of each. Patterns are packed into bytes to compare them."""
    if rows == 0:
        return np.zeros((0, len(gaps)), dtype=np.bool_), np.zeros(0, dtype=np.int64)
    packed = np.packbits(np.stack(gaps, axis=1), axis=1)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return np.stack([gap[first] for gap in gaps], axis=1), counts


CROWDED = 0.5  # share of rows in one bin of several values, of which a release shows only the bin
FREQUENT = 0.15  # share of rows with one value that shares its bin with others
HIDDEN_VALUES_HINT = 'write bins = "learned" in the schema, or edges from a codebook that separate these values'


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """How one column fits its schema, in exact numbers."""

    name: str
    kind: str
    gaps: int
    outside: int
    unreadable: int  # cells outside that are no values: they become gaps, or are refused
    invalid: int  # cells that count as gaps but are not empty: unreadable, or outside where the rule is "missing"
    empty: int  # empty cells in a column that may not be missing
    rule: str
    examples: tuple[str, ...]  # a few cells outside the schema, unreadable ones first
    advice: str  # how to write such cells, if known
    refused: bool  # whether reading this column for a release would be refused
    hidden: str  # a sentence if a bin hides frequent values, else empty


@dataclass(frozen=True, slots=True)
class Check:
    """How a file fits its schema, and its gaps."""

    rows: int
    columns: tuple[ColumnCheck, ...]
    patterns: Patterns
    broken: tuple[Violations, ...]  # the schema's constraints that rows break, and how many do
    unconfirmed: tuple[str, ...]  # columns whose facts were read from the data or guessed: nothing can be released
    persons: RowsPerPerson | None  # how many rows persons have, if the schema names their id
    remarks: tuple[FileRemark, ...]  # what else differs from what the schema leads one to expect
    possible_ids: tuple[tuple[str, int], ...]  # if it promises one row per person: other ids, and how many they are

    @property
    def refused(self) -> tuple[str, ...]:
        """The columns for which reading would be refused."""
        return tuple(column.name for column in self.columns if column.refused)

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


def check(data: Any, schema: Schema, *, encoding: str | None = None) -> Check:
    """Check data that you hold: gaps, cells outside the schema, patterns. Exact: NOT for release."""
    frame = load_frame(data, schema, encoding=encoding, for_holder=True)
    check_names(frame.columns, schema)
    by_rules = cut_schema(schema, {}, 1)
    possible_cells(by_rules)  # refuses rules that cannot be parsed, or that no row can keep
    checked, gaps, codes, cells_of = [], [], [], []
    used = encoders(schema)
    for column, of_file, encoder in zip(schema.columns, schema.file_columns, used, strict=True):
        series = frame[of_file.name]
        cells = classify(series, of_file)
        fit, gap, code = _checked(of_file, series, cells)
        checked.append(fit)
        cells_of.append((of_file, series, gap, cells.outside))
        if isinstance(encoder, DifferenceEncoder):  # its minuend was checked, and is not modelled
            fit, gap, code = _checked(column, encoder.series(frame), encoder.cells(frame)[0])
            checked.append(fit)
        gaps.append(gap)
        codes.append(code)
    rows = {}
    for place, (column, encoder) in enumerate(zip(schema.columns, used, strict=True)):
        values = encoder.values(frame, codes[place])
        levels = np.where(codes[place] < column.values_size, codes[place], np.nan)
        rows[place] = ValueRanges.exactly(levels if values is None else values)
    found = (violations(rule, rows) for rule in rules_of(by_rules))
    broken = tuple(counted for counted in found if counted.rows)
    found_gaps = patterns_of(schema.names, gaps, frame.height)
    persons = None
    if schema.person:
        named = zip(schema.file_columns, gaps, strict=True)
        by_name = {of_file.name: without_gaps(frame[of_file.name], gap) for of_file, gap in named}
        persons = rows_per_person(frame, schema.person, by_name)
    ids = () if schema.person or schema.rows_per_person != 1 else tuple(possible_ids(frame))
    remarks = tuple(file_remarks(cells_of))
    unconfirmed = tuple(column.name for column in schema.unconfirmed)
    return Check(frame.height, tuple(checked), found_gaps, broken, unconfirmed, persons, remarks, ids)


def without_gaps(series: pl.Series, gap: NDArray[np.bool_]) -> pl.Series:
    """The texts of cells, null where there is a gap."""
    texts = series.cast(pl.String).str.strip_chars()
    return texts.set(pl.Series(gap), None)


def _checked(column: Column, series: pl.Series, cells: Cells) -> tuple[ColumnCheck, NDArray[np.bool_], NDArray[Any]]:
    """How a column fits its schema, which cells are gaps, and the codes, with one for all gaps."""
    unreadable = cells.outside & (cells.codes < 0)
    invalid = unreadable | (cells.outside & (column.outside == "missing"))
    lost = cells.empty | invalid
    gap = lost | (cells.codes >= column.size)
    codes = np.where(gap, column.size, cells.codes)
    examples = _examples(series, unreadable, cells.outside)
    found = ColumnCheck(
        name=column.name,
        kind=column.kind,
        gaps=int(gap.sum()),
        outside=int(cells.outside.sum()),
        unreadable=int(unreadable.sum()),
        invalid=int(invalid.sum()),
        empty=0 if column.may_be_missing else int(cells.empty.sum()),
        rule=str(column.outside),
        examples=examples,
        advice=_advice(column, examples),
        hidden=_hidden(series.filter(pl.Series(~gap)), column, codes[~gap]),
        refused=bool(np.any(cells.outside & (column.outside == "refuse") | lost & (not column.may_be_missing))),
    )
    return found, gap, codes


def crowded_bin(column: Column, shares: Sequence[float]) -> int | None:
    """The bin of several values that has more than half of the rows. None if there is none or bins are learned.

    >>> crowded_bin(Integer("votes", bounds=(0, 99), bins=10), [0.94, 0.06, *[0.0] * 8])
    0
    """
    if not isinstance(column, BinnedColumn) or not len(shares) or column.has_learned_bins:
        return None
    fullest = int(np.argmax(shares))
    return fullest if shares[fullest] > CROWDED and _has_several_values(column, fullest) else None


def _has_several_values(column: BinnedColumn, code: int) -> bool:
    """Whether a bin has more than one value."""
    first, last = column.bin_ranges()
    return bool(code < column.values_size and first[code] < last[code])


def _hidden(seen: pl.Series, column: Column, codes: NDArray[np.integer]) -> str:
    """A sentence if one bin contains most values of a column, or hides a frequent value among others."""
    if not isinstance(column, BinnedColumn) or not len(codes) or column.has_learned_bins:
        return ""
    shares = np.bincount(codes, minlength=column.size)[: column.values_size] / len(codes)
    if (fullest := crowded_bin(column, shares.tolist())) is not None:
        return f"{shares[fullest]:.0%} of the rows fall into one bin of {column.name}, {column.cells[fullest]}"
    texts = seen.cast(pl.String).str.strip_chars()
    value, rows = texts.value_counts(sort=True).row(0)
    code = int(codes[texts.to_numpy() == value][0])
    if rows / len(codes) < FREQUENT or not _has_several_values(column, code):
        return ""
    return (
        f"{rows / len(codes):.0%} of the rows are {value} in {column.name}, one value of the bin {column.cells[code]}"
    )


def _examples(series: pl.Series, *chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    texts = pl.concat([series.filter(pl.Series(flags)) for flags in chosen]).cast(pl.String).str.strip_chars()
    return tuple(texts.unique(maintain_order=True).head(5))


def _advice(column: Column, examples: tuple[str, ...]) -> str:
    """How to write these cells, if a spreadsheet may have changed them."""
    if isinstance(column, Date | DateTime):
        other = any(re.match(r"\d+[./]\d|\d+-\d+-\d{4}", text) for text in examples)
        written = column.format or '2024-12-31, or as it says: format = "%d.%m.%Y"'
        return f"a date is written {written}" if other else ""
    if isinstance(column, Integer | Number):
        comma = any(re.search(r"\d[.,]\d" if column.decimal == "," else r"\d,\d", text) for text in examples)
        written = f"1{column.thousands}234{column.decimal}5"
        return f"a number is written {written}; decimal and thousands declare another separator" if comma else ""
    levels = {level.casefold(): level for level in column.value_cells}
    alike = [text for text in examples if text.casefold() in levels]
    return f"{alike[0]!r} is not {levels[alike[0].casefold()]!r}: capitals count" if alike else ""
