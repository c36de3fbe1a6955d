"""Sealed tables of persons that keep the same rows: readings with one key."""

from pathlib import Path
from unittest.mock import patch

import polars as pl

from gapless import Budget, Persons, read
from gapless.data import PrivateTable
from gapless.schema import Schema

KEY = bytes(range(32))


def private_persons(
    data: pl.DataFrame | Path,
    schema: Schema,
    folder: Path,
    *,
    at_most: int = 3,
    key: bytes = KEY,
    budget: Budget | None = None,
    engine: str | None = None,
) -> PrivateTable:
    """A sealed table with a ledger of its own. The column of the id is `id`."""
    ledger = folder / f"{len(list(folder.glob('*.ledger')))}.ledger"
    with patch("gapless.data.io.reading.row_key", lambda _: key):
        return read(
            data,
            schema,
            protect=Persons("id", at_most),
            ledger=ledger,
            budget=budget or Budget(1.0, 1e-6),
            engine=engine,
        )
