"""Texts that a spreadsheet would run as formulas, in text files: written with an apostrophe before, read without.

A spreadsheet that opens a CSV file computes a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return,
unless it is a number or a single character. All texts that a table can hold are declared in its schema: names of
columns, levels, spellings, codes of gaps. So the schema alone decides which of them is written how, and how it is read
back. No declared text is ever written as another one: more apostrophes are put before it until it is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from gapless.schema import Schema
from gapless.schema.calendar import Date, DateTime
from gapless.schema.columns import Column, _Levels

STARTS = r"=+\-@\t\r"
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9., ']*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?")


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute this text: it begins like a formula, goes on, and is no number.

    >>> [is_formula(text) for text in ("=1+1", "- none", "-8", "-", "'=1+1")]
    [True, True, False, False, False]
    """
    return re.match(f"[{STARTS}].", text, re.DOTALL) is not None and _NUMBER.fullmatch(text) is None


def escapes(declared: Iterable[str]) -> dict[str, str]:
    """How each declared text that looks like a formula is written: as no other declared text, nor like one.

    >>> escapes(["=a", "b"]), escapes(["=a", "'=a"])
    ({'=a': "'=a"}, {'=a': "''=a"})
    """
    taken, written = set(declared), {}
    for text in sorted(filter(is_formula, taken)):
        other = f"'{text}"
        while other in taken:
            other = f"'{other}"
        taken.add(other)
        written[text] = other
    return written


@dataclass(frozen=True)
class Formulas:
    """What of a table's names and cells is written otherwise in text files."""

    schema: Schema

    @cached_property
    def names(self) -> dict[str, str]:
        """Names of columns."""
        return escapes([*self.schema.names, *self.schema.ignore]) if self.schema.escape_formulas else {}

    @cached_property
    def cells(self) -> dict[str, dict[str, str]]:
        """Cells, by the name of their column; columns without any are left out."""
        if not self.schema.escape_formulas:
            return {}
        found = {column.name: escapes(_texts(column)) for column in self.schema.columns}
        return {name: texts for name, texts in found.items() if texts}

    @cached_property
    def dates(self) -> list[str]:
        """Columns of dates whose format begins like a formula: their cells are not listed."""
        columns = (c for c in self.schema.columns if isinstance(c, Date | DateTime) and c.format is not None)
        return [c.name for c in columns if self.schema.escape_formulas and is_formula(str(c.format))]

    def escape(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame as a text file has it."""
        frame = _replaced(frame, self.cells)
        frame = _prefixed(frame, self.dates, f"^([{STARTS}])", "'$1")
        return frame.rename({name: written for name, written in self.names.items() if name in frame.columns})

    def undo(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame of texts from a file, as it was before `escape`."""
        header = {written: name for name, written in self.names.items() if name not in frame.columns}
        frame = frame.rename({written: name for written, name in header.items() if written in frame.columns})
        back = {column: {written: text for text, written in texts.items()} for column, texts in self.cells.items()}
        return _prefixed(_replaced(frame, back), self.dates, f"^'([{STARTS}])", "$1")


def _texts(column: Column) -> list[str]:
    """All texts that cells of a column can be written as, but for numbers and dates."""
    levels = column.cells[: column.values_size] if isinstance(column, _Levels) else ()
    codes = [code.code for code in column.missing]
    spelling = getattr(column, "spelling", None) or ()
    return [text for text in (*levels, *spelling, *codes, column.not_applicable) if text]


def _replaced(frame: pl.DataFrame, texts: Mapping[str, Mapping[str, str]]) -> pl.DataFrame:
    return frame.with_columns(
        frame[name].cast(pl.String).replace(list(pairs), list(pairs.values()))
        for name, pairs in texts.items()
        if name in frame.columns
    )


def _prefixed(frame: pl.DataFrame, names: Iterable[str], pattern: str, by: str) -> pl.DataFrame:
    return frame.with_columns(frame[name].str.replace(pattern, by) for name in names if name in frame.columns)
