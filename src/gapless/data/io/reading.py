"""Read a sensitive table: check the public facts, choose the engine that holds the rows, open the ledger, seal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gapless.constraints.forbidden import possible_cells
from gapless.data.cutting import cut_schema
from gapless.data.engines.disk import Disk
from gapless.data.engines.memory import Engine
from gapless.data.engines.sql_engine import SqlEngine, materialize
from gapless.data.io.address import is_database, is_url
from gapless.data.io.draft import Draft
from gapless.data.io.encode import encode
from gapless.data.io.persons import RowLimit
from gapless.data.io.register import check_not_covered, data_files, register
from gapless.data.io.source import ENDINGS, check_exists, exists, is_pattern, read_parts, split_pattern
from gapless.data.private_table import PrivateTable, columns_with_gaps
from gapless.errors import Argument, Call, EngineError, Hint, LedgerError, ReadError, SchemaError
from gapless.privacy.assumptions import Assumption, expand_rates
from gapless.privacy.budget import Budget, Persons, Rows, Unit, check_budget, unit_call
from gapless.privacy.ledger import Ledger, check_has_budget
from gapless.privacy.private import Private
from gapless.privacy.row_key import row_key
from gapless.schema import Schema
from gapless.text import check_one_of, listing, plural

ENGINES = ("memory", "disk", "duckdb", "sql", "spark")
FILES = ("disk", "duckdb")  # engines whose rows stay in files, which each pass reads again
LEDGER = Hint("pass ", Argument("ledger", "people.ledger"), ", the same file whenever this table is read")


def read(
    data: Any,
    schema: Schema,
    *,
    protect: Unit,
    ledger: str | Path | None = None,
    budget: Budget | None = None,
    encoding: str | None = None,
    engine: str | None = None,
    query: str | None = None,
) -> PrivateTable:
    """Read a sensitive table and seal it.

    Args:
        data: a path (CSV, TSV, gzip, Parquet, Excel, SPSS, Stata, SAS), a pattern that names several files
            (`big/*.parquet`), or a pandas, polars or Arrow table; the URL of a PostgreSQL database; a Spark DataFrame.
        schema: the public description of the table.
        protect: the protected unit. `Persons("patient_id", at_most=3)` protects all rows of a person, and keeps at
            most 3 of them; `Rows(1)`, or the most rows that one person has, believes that number.
        ledger: the file that records what was spent on this table. It is created if there is none. By default it is
            beside the data, `people.ledger` for `people.csv`; for a frame it must be given. A file that was paid for
            under one ledger takes no other.
        budget: the promise. A new ledger needs one; it must agree with an existing ledger.
        encoding: of a text file, by default the schema's, else UTF-8.
        engine: where the rows are while they are counted: "memory"; "disk", where files of any size stay and are read
            once for each pass; "duckdb", the same with Parquet read by DuckDB, for files with very large row groups;
            "sql"; "spark". By default rows stay where they are, but those of a single file are read into memory. All
            engines count the same.
        query: the SELECT that reads a table from a database. Each person may be in at most as many of its rows as
            `protect` states, and must not change any other row.

    A cell outside the schema follows the schema's public rule. Errors are raised here, for the holder, before anything
    is released.
    """
    check_confirmed(schema)
    if not isinstance(schema, Schema):
        wrong = f"schema must be a Schema, got a {type(schema).__name__}"
        raise SchemaError(wrong, hint=Hint("pass ", Call("Schema.read", "people.toml")))
    if not isinstance(protect, Rows | Persons):
        unit = Hint("pass ", Argument("protect", Call("Rows", 1)), ", or the most rows that one person has")
        raise SchemaError(f"protect must be a Rows or Persons, got {protect!r}", hint=unit)
    check_budget(budget)
    _check_unit(schema, protect)
    if budget is not None and budget.ground_truth is not None:
        budget = replace(budget, ground_truth=_about(schema, budget.ground_truth))
    possible_cells(cut_schema(schema, {}, 1))  # refuses rules that cannot be read, or that every row breaks
    check_data(data, engine)
    place = ledger_beside(data) if ledger is None else Path(ledger)
    coverage = check_not_covered(data_files(data, engine), place, ledger_beside)
    check_has_budget(place, budget)  # before rows are read
    _check_constants(schema, protect, data, engine)
    rows_schema, limit = schema, None
    if isinstance(protect, Persons):
        ignored = [name for name in schema.ignore if name not in protect.id]
        rows_schema = replace(schema, person=protect.id, ignore=ignored)
        if place.exists():  # a ledger of another unit gets no key
            Ledger.attach(place, table=schema.name, protect=protect, budget=budget, gaps=schema.gap_rules)
        limit = RowLimit(protect.id, protect.at_most, row_key(place))
    held = open_engine(data, rows_schema, engine=engine, query=query, encoding=encoding, limit=limit)
    account = Ledger.attach(place, table=schema.name, protect=protect, budget=budget, gaps=schema.gap_rules)
    register(data_files(data, engine), account, coverage)
    rows = Private(lambda: held, distance=Rows(protect.at_most), reads=None, key=account._key)  # noqa: SLF001 sealed here
    # The query itself is the holder's business.
    digest = None if query is None else sha256(query.encode()).hexdigest()
    return PrivateTable(rows, schema, account, engine=type(held), query_digest=digest)


def check_confirmed(schema: object) -> None:
    """Refuse a draft, and a schema with columns whose facts were read from the data, or guessed.

    Args:
        schema: the schema of a private table; what is neither a schema nor a draft is left to other checks.
    """
    known = schema.schema if isinstance(schema, Draft) else schema
    if isinstance(known, Schema):
        known.check_confirmed()


def unit_of(schema: Schema) -> Unit:
    """The protected unit that a schema states: persons if it names their id, else rows."""
    if schema.rows_per_person is None:
        raise SchemaError(
            f"the schema names the id of a person, {listing(schema.person)}, but not how many rows of each to keep",
            hint="write rows_per_person = 3, or another number, below person; "
            "more rows mean more noise, fewer rows mean less detail",
        )
    return Persons(schema.person, schema.rows_per_person) if schema.person else Rows(schema.rows_per_person)


def _check_unit(schema: Schema, protect: Unit) -> None:
    """Refuse a unit that protects less than the schema states."""
    if isinstance(protect, Persons) and schema.person == protect.id:
        return
    stated = unit_of(schema)
    enough = Argument("protect", unit_call(stated))
    if isinstance(stated, Persons):
        wrong = f"the schema names the id of a person, {stated.name}, but {protect} would be protected"
        raise SchemaError(wrong, hint=Hint("pass ", enough))
    if isinstance(protect, Rows) and protect.at_most < stated.at_most:
        wrong = f"the schema says {plural(stated.at_most, 'row')} per person, but {protect} would be protected"
        raise SchemaError(wrong, hint=Hint("pass ", enough))


def _check_constants(schema: Schema, protect: Unit, data: Any, engine: str | None) -> None:
    """Refuse columns that are constant within a person where persons are not known, or in a database."""
    constant = [column.name for column in schema.columns if column.per_person]
    if constant and isinstance(protect, Rows):
        unit = Argument("protect", Call("Persons", Argument("id", "patient_id"), Argument("at_most", 3)))
        wrong = f"column {constant[0]!r} has per_person = true, but the table is read without an id of persons"
        raise SchemaError(wrong, hint=Hint("pass ", unit) | Hint("remove per_person = true"))
    if (constant and "spark" in (engine, default_engine(data))) or (constant and default_engine(data) == "sql"):
        wrong = f"column {constant[0]!r} has per_person = true, which needs rows of a file or a frame"
        raise EngineError(wrong, hint="read the same rows from a file, or remove per_person = true")


def check_data(data: Any, engine: str | None = None) -> None:
    """Refuse a path at which there is no file, before anything else is checked."""
    if is_file(data, engine):
        check_exists(Path(data))


def ledger_beside(data: Any) -> Path:
    """The default path of the ledger of a file: beside it, so that every release finds it.

    The ledger of several files is beside their folder. So all patterns of files in a folder share one ledger.

    >>> ledger_beside("survey/people.csv.gz").as_posix()
    'survey/people.ledger'
    >>> ledger_beside("survey/people/*.parquet").as_posix()
    'survey/people.ledger'
    """
    if not isinstance(data, str | Path) or is_database(data) or (is_url(data) and not exists(data)):
        kind = "database" if is_database(data) else type(data).__name__
        raise LedgerError(f"a {kind} has no place beside it for its ledger", hint=LEDGER)
    path = Path(data)
    if is_pattern(data):
        folder = split_pattern(data)[0]
        if os.path.islink(folder) or folder.name in ("", ".."):  # noqa: PTH114 as below
            folder = folder.resolve()
        if not folder.name:
            raise LedgerError("these files are in a folder without a name", hint=LEDGER)
        return folder.with_name(f"{folder.name}.ledger")
    if os.path.islink(path) or not path.name:  # noqa: PTH114 Path.is_symlink raises for a name that is too long
        path = path.resolve()  # a link to the data is the same table
    if not path.name:
        raise LedgerError(f"{path} is a folder without a name", hint="pass the path of a file")
    ending = max(filter(path.name.lower().endswith, ENDINGS), key=len, default=path.suffix)
    return path.with_name(f"{path.name[: len(path.name) - len(ending)]}.ledger")


def _about(schema: Schema, assumption: Assumption) -> Assumption:
    """The assumption for the columns of this schema that may be missing."""
    gappy = columns_with_gaps(schema, schema.gap_rules)
    named = expand_rates(assumption, gappy)
    for column in named.rates if isinstance(named.rates, Mapping) else ():
        schema.positions([column])
        if column not in schema.gap_rules:
            wrong = (
                f"column {column!r} is a difference, whose gaps follow from two columns, so no rate is assumed for it"
            )
            raise SchemaError(wrong, hint=f"leave {column!r} out of the assumption")
        if column not in gappy:
            wrong = f"column {column!r} may not be missing, but a rate of gaps is assumed for it"
            hint = f"leave {column!r} out of the assumption, or write may_be_missing = true for it in the schema"
            raise SchemaError(wrong, hint=hint)
    return named


def open_engine(
    data: Any,
    schema: Schema,
    *,
    engine: str | None,
    query: str | None,
    encoding: str | None,
    limit: RowLimit | None = None,
) -> Engine:
    """Open the engine that counts the rows, encoded by the schema at its finest grid.

    With a limit it has only the rows that are kept, before anything else is done with them.
    """
    if engine is not None:
        check_one_of("engine", engine, ENGINES, error=EngineError)
    default = default_engine(data)
    if query is not None and default != "sql":
        hint = Hint("pass the URL of a database") | Hint("leave ", Argument("query"), " out")
        raise ReadError("a query is for a database, but the data are not the URL of one", hint=hint)
    engine = engine or default
    if engine not in ("memory", default) and not (is_file(data) and engine in (*FILES, "spark")):
        hint = Hint("pass ", Argument("engine", default)) | Hint("leave ", Argument("engine"), " out")
        raise EngineError(f"the engine {engine} does not read such data, which need the engine {default}", hint=hint)
    rows: SqlEngine
    if default == "sql":
        from gapless.data.engines.postgres import PostgresSource, Sql  # noqa: PLC0415 an extra

        rows = Sql.read(PostgresSource(data, query), schema.finest, limit)
    elif "spark" in (default, engine):
        from gapless.data.engines.spark import Spark, SparkSource  # noqa: PLC0415 an extra

        rows = Spark.read(SparkSource.of(data, () if limit is None else limit.id), schema.finest, limit)
    elif engine in FILES:
        return Disk.at(data, schema.finest, encoding=encoding, by_duckdb=engine == "duckdb", limit=limit)
    else:
        return encode(read_parts(data, schema, encoding=encoding), schema.finest, limit)
    return materialize(rows) if engine == "memory" else rows


def default_engine(data: Any) -> str:
    """The engine for these data if none is named."""
    if is_database(data):
        return "sql"
    if is_pattern(data):
        return "disk"
    modules = (kind.__module__ for kind in type(data).__mro__)
    return "spark" if any(module.startswith("pyspark.sql") for module in modules) else "memory"


def is_file(data: Any, engine: str | None = None) -> bool:
    """Whether these are files on this machine. Spark may read a folder, or files elsewhere."""
    return isinstance(data, str | Path) and not is_database(data) and engine != "spark"
