"""A look at one's own data before a release: for the holder's eyes, never for publication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from gapless.data.encode import check_names, classify
from gapless.missing.patterns import Patterns, describe_gaps
from gapless.schema import Schema
from gapless.schema.source import load


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """How one column fits its schema, in exact numbers."""

    name: str
    kind: str
    gaps: int
    outside: int
    undeclared: int  # gaps or unreadable cells in a column that may not be missing
    rule: str
    examples: tuple[str, ...]  # a few cells outside the schema

    @property
    def refused(self) -> bool:
        """Whether reading this column for a release would be refused."""
        return self.undeclared > 0 or (self.rule == "refuse" and self.outside > 0)


@dataclass(frozen=True, slots=True)
class Check:
    """How a file fits its schema, and its gaps."""

    rows: int
    columns: tuple[ColumnCheck, ...]
    patterns: Patterns

    @property
    def refused(self) -> tuple[str, ...]:
        """The columns for which reading would be refused."""
        return tuple(column.name for column in self.columns if column.refused)


def check(data: Any, schema: Schema, *, encoding: str = "utf-8") -> Check:
    """Look at data that you hold: gaps, cells outside the schema, patterns. Exact: NOT for release."""
    frame = load(data, encoding=encoding, for_holder=True)
    check_names(frame.columns, schema)
    checked, gaps = [], []
    for column in schema.columns:
        cells = classify(frame[column.name], column)
        lost = cells.empty | (cells.outside & ((cells.codes < 0) | (column.outside == "missing")))
        gap = lost | (cells.codes >= column.size)
        seen = frame[column.name].filter(cells.outside).cast(pl.String).unique(maintain_order=True).head(5)
        gaps.append(gap)
        checked.append(
            ColumnCheck(
                name=column.name,
                kind=column.kind,
                gaps=int(gap.sum()),
                outside=int(cells.outside.sum()),
                undeclared=0 if column.may_be_missing else int(lost.sum()),
                rule=str(column.outside),
                examples=tuple(seen.to_list()),
            )
        )
    return Check(frame.height, tuple(checked), describe_gaps(schema.names, gaps, frame.height))
