"""Tables for tests in PostgreSQL and Spark."""

import math
from typing import Any

import polars as pl

from gapless.data import PrivateTable
from gapless.data.engines.postgres import PostgresSource, Sql
from gapless.data.private_table import cached
from gapless.privacy.budget import Rows
from gapless.privacy.private import transform

TYPES = {
    pl.String: "text",
    pl.Boolean: "boolean",
    pl.Int16: "smallint",
    pl.Int64: "bigint",
    pl.Float32: "real",
    pl.Float64: "double precision",
    pl.Decimal: "numeric",
    pl.Date: "date",
    pl.Datetime: "timestamp",
}


def type_of(dtype: pl.DataType) -> str:
    """The type of a column in PostgreSQL."""
    return "timestamptz" if getattr(dtype, "time_zone", None) else TYPES[dtype.base_type()]


def literal(value: object, dtype: pl.DataType) -> str:
    """A value as PostgreSQL writes it, to the last bit."""
    if value is None:
        return f"NULL::{type_of(dtype)}"
    text = str(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return "'" + text.replace("'", "''") + f"'::{type_of(dtype)}"


def query_of(frame: pl.DataFrame) -> str:
    """A query that gives the rows of a frame."""
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in frame.columns)
    rows = [
        "(" + ", ".join(literal(cell, dtype) for cell, dtype in zip(row, frame.dtypes, strict=True)) + ")"
        for row in frame.iter_rows()
    ]
    none = "(" + ", ".join(f"NULL::{type_of(dtype)}" for dtype in frame.dtypes) + ")"
    query = f"SELECT * FROM (VALUES {', '.join(rows or [none])}) AS rows({names})"
    return query if rows else f"{query} WHERE false"


SPARK_TYPES = TYPES | {
    pl.String: "string",
    pl.Float32: "float",
    pl.Float64: "double",
    pl.Datetime: "timestamp_ntz",
}


def spark_frame(session: Any, frame: pl.DataFrame) -> Any:
    """The same rows on a Spark cluster."""

    def type_there(dtype: pl.DataType) -> str:
        if isinstance(dtype, pl.Decimal):
            return f"decimal({dtype.precision},{dtype.scale})"
        return "timestamp" if getattr(dtype, "time_zone", None) else SPARK_TYPES[dtype.base_type()]

    fields = ", ".join(f"`{name}` {type_there(dtype)}" for name, dtype in frame.schema.items())
    return session.createDataFrame(list(frame.iter_rows()), fields)


def in_postgres(table: PrivateTable, frame: pl.DataFrame, url: str, query: str | None = None) -> PrivateTable:
    """The same sealed table with the rows of this frame in a database."""

    def moved(_: object) -> Sql:
        return Sql.read(PostgresSource(url, query or query_of(frame)), table.schema.finest)

    rows = transform(
        table._unbinned_rows, cached(moved), distance=Rows(table.protect.at_most), reads=None, key=table._key
    )
    return PrivateTable(rows, table.schema, table.ledger, engine=Sql)
