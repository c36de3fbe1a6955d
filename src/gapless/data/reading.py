"""Which engine holds a table: by what it is read from, and by what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapless.data.address import is_database
from gapless.data.engine import Engine
from gapless.data.pushed import Pushed, hold
from gapless.errors import ReadError
from gapless.schema import Schema
from gapless.schema.words import nearest

ENGINES = ("memory", "sql", "spark")


def pushed(data: Any, schema: Schema, engine: str | None, query: str | None) -> Engine | None:
    """The rows of a database or a cluster, coded by a schema at its finest grid; None for files and other frames."""
    if engine is not None and engine not in ENGINES:
        raise ReadError(f"no engine {engine!r}", hint=nearest(str(engine), ENGINES))
    found = own_engine(data)
    if query is not None and found != "sql":
        raise ReadError("a query is for a database", hint='"postgresql://ada@localhost/registry", or no query')
    if engine not in (None, "memory", found) and not (engine == "spark" and is_file(data)):
        raise ReadError(f"the engine {engine} does not read this", hint=f"engine={found!r}, or leave it out")
    rows: Pushed
    if found == "sql":
        from gapless.data.sql import Postgres, Sql  # noqa: PLC0415 an extra

        rows = Sql.read(Postgres(data, query), schema)
    elif found == "spark" or engine == "spark":
        from gapless.data.spark import Spark, SparkFrame  # noqa: PLC0415 an extra

        rows = Spark.read(SparkFrame.of(data), schema)
    else:
        return None
    return hold(rows) if engine == "memory" else rows


def own_engine(data: Any) -> str:
    """The engine of what is to be read, if no other is named."""
    if is_database(data):
        return "sql"
    modules = (kind.__module__ for kind in type(data).__mro__)
    return "spark" if any(module.startswith("pyspark.sql") for module in modules) else "memory"


def is_file(data: Any, engine: str | None = None) -> bool:
    """Whether it is read from a file here; what Spark reads may lie anywhere, and be a folder."""
    return isinstance(data, str | Path) and not is_database(data) and engine != "spark"
