"""Which engine holds a table: by what it is read from, and by what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapless.data.engines.disk import Disk
from gapless.data.engines.memory import Engine, Memory
from gapless.data.engines.sql_engine import Pushed, hold
from gapless.data.io.address import is_database
from gapless.data.io.encode import encode
from gapless.data.io.source import is_pattern, parts
from gapless.errors import Argument, EngineError, Hint, ReadError
from gapless.schema import Schema

ENGINES = ("memory", "disk", "duckdb", "sql", "spark")
FILES = ("disk", "duckdb")  # what stays in them is read in passes


def opened(data: Any, schema: Schema, *, engine: str | None, query: str | None, encoding: str | None) -> Engine:
    """The rows where they are counted, coded by a schema at its finest grid."""
    if engine is not None and engine not in ENGINES:
        raise EngineError(f"no engine {engine!r}", hint=f"one of: {', '.join(ENGINES)}")
    own = own_engine(data)
    if query is not None and own != "sql":
        raise ReadError(
            "a query is for a database",
            hint=Hint("pass the URL of a database") | Hint("leave ", Argument("query"), " out"),
        )
    engine = engine or own
    if engine not in ("memory", own) and not (is_file(data) and engine in (*FILES, "spark")):
        raise EngineError(
            f"the engine {engine} does not read this",
            hint=Hint("pass ", Argument("engine", own)) | Hint("leave ", Argument("engine"), " out"),
        )
    rows: Pushed
    if own == "sql":
        from gapless.data.engines.postgres import Postgres, Sql  # noqa: PLC0415 an extra

        rows = Sql.read(Postgres(data, query), schema.fine)
    elif "spark" in (own, engine):
        from gapless.data.engines.spark import Spark, SparkFrame  # noqa: PLC0415 an extra

        rows = Spark.read(SparkFrame.of(data), schema.fine)
    elif engine in FILES:
        return Disk.at(data, schema.fine, encoding=encoding, by_duckdb=engine == "duckdb")
    else:
        encoded = encode(parts(data, schema, encoding=encoding), schema.fine)
        return Memory(encoded.columns, encoded.rows)
    return hold(rows) if engine == "memory" else rows


def own_engine(data: Any) -> str:
    """The engine of what is to be read, if no other is named."""
    if is_database(data):
        return "sql"
    if is_pattern(data):
        return "disk"
    modules = (kind.__module__ for kind in type(data).__mro__)
    return "spark" if any(module.startswith("pyspark.sql") for module in modules) else "memory"


def is_file(data: Any, engine: str | None = None) -> bool:
    """Whether it is read from a file here; what Spark reads may lie anywhere, and be a folder."""
    return isinstance(data, str | Path) and not is_database(data) and engine != "spark"
