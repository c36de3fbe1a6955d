"""Spark: a DataFrame or a Parquet path, encoded and counted on the cluster. Only counts come back.

Spark computes a DataFrame again for each query, so its sources must not change meanwhile. The engine notices added and
removed rows. It notices changed cells only if the schema refuses the new ones.
"""

from __future__ import annotations

import logging
import math
import re
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import numpy as np

from gapless.data.engines.memory import ROWS
from gapless.data.engines.sql_encoding import DAY, FIRST, LAST, Dialect, Kind
from gapless.data.engines.sql_engine import SqlEngine
from gapless.data.io.address import is_connection_string, is_url
from gapless.data.io.source import PARQUET_ENDINGS, file_identity, find_files, is_pattern
from gapless.errors import ReadError, requires_extra
from gapless.types import Integers

T = TypeVar("T")

_SIGNS = re.compile(r"[\\*?{}\[\],]")  # special characters in a pattern of Spark

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("string", "varchar", "char"), "text"),
    **dict.fromkeys(("byte", "short", "integer", "long"), "whole"),
    "float": "single",
    "double": "double",
    "decimal": "decimal",
    "boolean": "boolean",
    "date": "date",
    "timestamp_ntz": "timestamp",
    "timestamp": "zoned timestamp",
}


class SparkDialect(Dialect):
    """SQL of Spark."""

    fence = ""
    text_type = "STRING"
    double_type = "DOUBLE"

    def literal(self, text: str) -> str:
        return f"CAST(X'{text.encode().hex()}' AS STRING)"  # independent of how the session reads a backslash

    def double(self, number: float) -> str:
        text = repr(float(number)) if math.isfinite(number) else ("-" if number < 0 else "") + "Infinity"
        return f"CAST('{text}' AS DOUBLE)"

    def text(self, raw: str, kind: Kind) -> str:
        return f"CAST(CAST({raw} AS BINARY) AS STRING)" if kind == "text" else f"CAST({raw} AS STRING)"

    def trim(self, text: str, letters: str) -> str:
        return f"TRIM(BOTH {self.literal(letters)} FROM {text})"

    def matches(self, text: str, pattern: str) -> str:
        whole = rf"(?s)\A(?:{pattern})\z"
        return f"({text} RLIKE {self.literal(whole)})"

    def sub(self, text: str, pattern: str, by: str) -> str:
        groups = re.sub(r"\\(\d)", r"$\1", by)
        return f"REGEXP_REPLACE({text}, {self.literal(pattern)}, {self.literal(groups)})"

    def look_up(self, text: str, codes: Mapping[str, int]) -> str:
        return f"ELEMENT_AT(MAP({', '.join(f'{self.literal(key)}, {code}' for key, code in codes.items())}), {text})"

    def bytes_of(self, text: str) -> str:
        return f"CAST({text} AS BINARY)"

    def sha256(self, first: str, second: str) -> str:
        return f"UNHEX(SHA2({first} || {second}, 256))"

    def number(self, text: str) -> str:
        return f"TRY_CAST({text} AS DOUBLE)"

    def as_double(self, raw: str, kind: Kind) -> str:
        number = f"CAST({raw} AS DOUBLE)"
        return f"CASE WHEN NOT ISNAN({number}) THEN {number} END" if kind in ("single", "double") else number

    def bucket(self, number: str, cuts: Sequence[float]) -> str:
        """Binary search: i cuts are known not to be above the number, and `step` more are tested."""
        steps = [1 << power for power in reversed(range(len(cuts).bit_length()))]
        array = self._array([repr(float(cut)) for cut in cuts], "DOUBLE")
        further = f"i + step <= {len(cuts)} AND {array}[LEAST(i + step, {len(cuts)}) - 1] <= {number}"
        step = f"(i, step) -> CASE WHEN {further} THEN i + step ELSE i END"
        return f"AGGREGATE({self._array(map(str, steps), 'INT')}, 0, {step})"

    def _array(self, numbers: Iterable[str], kind: str) -> str:
        """An array of public numbers, as one text that Spark parses once."""
        return f"CAST(SPLIT('{','.join(numbers)}', ',') AS ARRAY<{kind}>)"

    def divide(self, whole: str, by: int) -> str:
        return f"({whole} DIV {by})"

    def microseconds(self, raw: str, kind: Kind) -> str:
        """Values are clipped before they are multiplied, so that the product does not overflow."""
        if kind == "zoned timestamp":
            clipped = f"LEAST(GREATEST(UNIX_MICROS({raw}), {FIRST}), {LAST})"
        elif kind == "date":
            clipped = f"LEAST(GREATEST(CAST(UNIX_DATE({raw}) AS BIGINT), {FIRST // DAY}), {LAST // DAY}) * {DAY}"
        else:
            ends = ("0000-01-01 00:00:00", "+10000-12-31 00:00:00")
            first, last = (f"TIMESTAMP_NTZ'{end}'" for end in ends)
            clipped = self._since_1970(f"LEAST(GREATEST({raw}, {first}), {last})")
        return f"CASE WHEN {raw} IS NOT NULL THEN {clipped} END"

    def moment(self, iso: str) -> str:
        return self._since_1970(f"TRY_CAST({iso} AS TIMESTAMP_NTZ)")

    def _since_1970(self, moment: str) -> str:
        minutes = f"(CAST(UNIX_DATE(CAST({moment} AS DATE)) AS BIGINT) * 24 + HOUR({moment})) * 60 + MINUTE({moment})"
        return f"(({minutes}) * 60000000 + CAST(EXTRACT(SECOND FROM {moment}) * 1000000 AS BIGINT))"

    def months(self, days: str) -> str:
        date = f"DATE_FROM_UNIX_DATE(CAST({days} AS INT))"
        return f"(CAST(YEAR({date}) AS BIGINT) * 12 + MONTH({date}) - 23641)"

    def array_element(self, codes: Sequence[int], code: str) -> str:
        return f"{self._array(map(str, codes), 'INT')}[{code}]"

    def unnest(self, keys: Sequence[str]) -> str:
        return f"EXPLODE(ARRAY({', '.join(keys)}))"


class SparkSource:
    """A Spark DataFrame, registered under a unique name in its session."""

    dialect = SparkDialect()
    is_snapshot = False

    def __init__(self, frame: Any) -> None:
        self._session = frame.sparkSession
        self._name = f"gapless_{uuid.uuid4().hex}"
        fields = [(str(field.name), str(field.dataType.typeName())) for field in frame.schema.fields]
        self.fields = [(name, _KINDS.get(kind, kind)) for name, kind in fields]
        places = [f"r{place}" for place in range(len(fields))]
        _redact_errors(lambda: frame.toDF(*places).createOrReplaceTempView(self._name))
        weakref.finalize(self, _forget, self._session, self._name)

    @classmethod
    def of(cls, data: Any, person: Sequence[str] = ()) -> SparkSource:
        """The source for a DataFrame, or for a Parquet file, folder or pattern that Spark reads.

        Each file must have the columns of the id of a `person`, if they are given.
        """
        if not isinstance(data, str | Path):
            return cls(data)
        if not str(data).rstrip("/").lower().endswith(PARQUET_ENDINGS):
            hint = "write the data as Parquet, or pass a Spark DataFrame in Python"
            raise ReadError("Spark reads only Parquet by its path, which must end with .parquet", hint=hint)
        with requires_extra("pyspark", "spark", ", and install Java 17"):
            from pyspark.sql import SparkSession  # noqa: PLC0415 an extra
        session = _redact_errors(lambda: SparkSession.builder.appName("gapless").getOrCreate())
        return cls(_parquet(session, data, person))

    def table(self, names: Sequence[str]) -> str:
        """The name of the DataFrame. Its columns have these names already."""
        del names
        return self._name

    def secret(self, value: bytes) -> str:
        """An expression for a secret: the cell of a table that Spark's logs name without its content."""
        name = f"{self._name}_secret"
        frame = _redact_errors(lambda: self._session.createDataFrame([(bytearray(value),)], "secret BINARY"))
        _redact_errors(lambda: frame.createOrReplaceTempView(name))
        weakref.finalize(self, _forget, self._session, name)
        return f"(SELECT secret FROM {name})"

    def numbers(self, query: str, columns: int) -> Iterator[Integers]:
        """The result of a query, all at once: there are few counts."""
        rows = _redact_errors(lambda: self._session.sql(query).collect())
        yield np.array(rows, dtype=np.int64).reshape(len(rows), columns)

    def stream(self, query: str, columns: int) -> Iterator[Integers]:
        """The rows of a query, one partition after the other."""
        rows = _redact_errors(lambda: self._session.sql(query).toLocalIterator())
        while part := _redact_errors(lambda: list(islice(rows, ROWS))):
            yield np.array(part, dtype=np.int64).reshape(len(part), columns)


class Spark(SqlEngine):
    """The engine whose rows are on a Spark cluster."""

    __slots__ = ()


def _parquet(session: Any, data: str | Path, person: Sequence[str]) -> Any:
    """A DataFrame of Parquet files. Each file is read once, and has all columns of the id of a `person`.

    Files on this machine are found here, and passed to Spark with special characters escaped. Spark finds others, such
    as `hdfs://…`.
    """
    files: list[Path] = []
    if not is_url(data) and (is_pattern(data) or Path(data).exists()):
        with suppress(ReadError):  # nothing matches here: Spark may have another file system
            files = find_files(data)
    if not files and is_connection_string(data):  # Spark logs the paths that it looks for
        hint = "pass the path of Parquet files, or a Spark DataFrame"
        raise ReadError("no file has this name, and it may hold a password, which Spark would log", hint=hint)
    names = ["file://" + _SIGNS.sub(r"\\\g<0>", str(file.absolute())) for file in files]
    frame = _redact_errors(lambda: session.read.parquet(*(names or [str(data)])))
    urls = [url for url in _redact_errors(frame.inputFiles) if url.startswith("file:")]
    found = [file_identity(Path(url2pathname(urlsplit(url).path))) for url in urls]
    if len(set(found)) < len(found):
        wrong = f"two names in {data} lead to one file, whose rows would be counted twice"
        raise ReadError(wrong, hint="remove one of the two names, or pass a pattern that matches only one")
    if {file_identity(file) for file in files if not file.is_dir()} - set(found):
        wrong = f"Spark skips a file of {data}: it reads no name that begins with _ or ."
        raise ReadError(wrong, hint="rename the file so that its name begins with a letter or digit")
    if person:
        _check_id_in_each_file(session, frame, person)
    return frame


def _check_id_in_each_file(session: Any, frame: Any, person: Sequence[str]) -> None:
    """Refuse files of which some have a column of the id and others do not, by their headers.

    Spark takes the columns of one file for all, and fills what a file lacks with NULL. A row without an id is a person
    by itself, so all rows of such a file would be kept. A column that no file has is in the names of folders.
    """

    def columns_of(url: str) -> set[str]:
        path = _SIGNS.sub(r"\\\g<0>", unquote(url))
        return set(_redact_errors(lambda: session.read.parquet(path).columns))

    columns = [columns_of(url) for url in _redact_errors(frame.inputFiles)]
    for name in person:
        if len({name in present for present in columns}) > 1:
            wrong = f"some of the files have no column {name!r}, which is the id of a person"
            raise ReadError(wrong, hint=f"write a column {name!r} into each file, or leave these files out")


def _forget(session: Any, name: str) -> None:
    with suppress(Exception):  # the session may have ended
        session.catalog.dropTempView(name)


def _redact_errors(function: Callable[[], T]) -> T:
    """Call a function of Spark. Its errors may quote cells: they are replaced by one that does not, and not logged."""
    log = logging.getLogger("SQLQueryContextLogger")
    before, log.disabled = log.disabled, True
    try:
        return function()
    except Exception as error:  # noqa: BLE001 Spark raises many classes
        kind = type(error).__name__
    finally:
        log.disabled = before
    hint = "call collect on the DataFrame to see why; its message is not shown here, since it may quote private data"
    raise ReadError(f"Spark cannot compute this ({kind}); what was charged stays charged", hint=hint)
