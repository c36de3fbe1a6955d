"""Small private tables for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gapless.data import PrivateTable, read
from gapless.privacy import Budget, Rows
from gapless.schema import Categorical, MissingCode, Schema

Row = tuple[str | None, ...]


def letters_schema(sizes: Sequence[int], *, name: str = "letters") -> Schema:
    """Columns x0, x1 … with levels a, b, c …; all may be missing, the odd ones also refused or not applicable."""
    kinds = (MissingCode("?"), MissingCode("-", "refused"), MissingCode("n/a", "not-applicable"))
    columns = [
        Categorical(f"x{i}", [chr(97 + j) for j in range(size)], may_be_missing=True, missing=kinds if i % 2 else ())
        for i, size in enumerate(sizes)
    ]
    return Schema(name, tuple(columns))


def private(
    rows: Sequence[Row] | pl.DataFrame,
    schema: Schema,
    folder: Path,
    *,
    budget: Budget | None = None,
    protect: Rows | None = None,
) -> PrivateTable:
    """A sealed table of these rows with a ledger of its own in `folder`."""
    if not isinstance(rows, pl.DataFrame):
        rows = pl.DataFrame(list(rows), schema=dict.fromkeys(schema.names, pl.String), orient="row")
    number = len(list(folder.glob("*.ledger")))
    return read(
        rows,
        schema,
        protect=protect or Rows(1),
        ledger=folder / f"{number}.ledger",
        budget=budget or Budget(1.0, 1e-6),
    )
