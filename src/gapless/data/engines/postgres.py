"""PostgreSQL: a table given by URL and query, counted in the database.

One connection is held as long as the table. Its read-only transaction sees a snapshot of the database as it was when
the table was read, so writes by others do not change the counts. The query is wrapped and never changed. Error messages
of a database may quote cells, or a URL with its password, so none of them are passed on.
"""

from __future__ import annotations

import json
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gapless.data.engines.memory import ROWS
from gapless.data.engines.sql_encoding import Dialect, Kind
from gapless.data.engines.sql_engine import SqlEngine
from gapless.data.io.address import ACCEPTED, redacted_url
from gapless.errors import Argument, Hint, ReadError, requires_extra
from gapless.types import Integers

T = TypeVar("T")

OLDEST = 14  # the first version that returns timestamps without rounding
_READ_AGAIN = "read the table again; the ledger records what was charged, and that stays charged"

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext", "uuid"), "text"),
    **dict.fromkeys(("int2", "int4", "int8"), "whole"),
    "bool": "boolean",
    "float4": "single",
    "float8": "double",
    "numeric": "decimal",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "zoned timestamp",
}
# Errors before a row is read, by SQLSTATE.
_QUERY_ERRORS = {
    "42P01": "the query names a table that is not there",
    "42703": "the query names a column that is not there",
    "42883": "the query calls a function that is not there",
    "42501": "this user may not read what the query asks for",
    "25006": "the query would write to the database",
}
# Reasons why a connection fails, by a part of the message of libpq.
_CONNECTION_ERRORS = (
    ("password authentication failed", "the server does not accept this user and password"),
    ("no password supplied", "the server asks for a password"),
    ("does not exist", "there is no such database or user"),
    ("no pg_hba.conf entry", "the server does not let this user in from here"),
    ("translate host name", "there is no such host"),
    ("refused", "no server answers there"),
    ("No such file", "no server answers there"),
    ("timeout", "the server does not answer"),
    ("timed out", "the server does not answer"),
)


class PostgresDialect(Dialect):
    """SQL of PostgreSQL."""

    fence = " OFFSET 0"
    text_type = "TEXT"
    double_type = "DOUBLE PRECISION"

    def literal(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def double(self, number: float) -> str:
        return f"'{float(number)!r}'::double precision"

    def text(self, raw: str, kind: Kind) -> str:
        raw = f"NULLIF({raw}, 'NaN')" if kind == "decimal" else raw
        return f'({raw}::text COLLATE "C")'

    def trim(self, text: str, letters: str) -> str:
        return f"BTRIM({text}, {self.literal(letters)})"

    def matches(self, text: str, pattern: str) -> str:
        return f"({text} ~ {self.literal(f'^(?:{pattern})$')})"

    def sub(self, text: str, pattern: str, by: str) -> str:
        return f"REGEXP_REPLACE({text}, {self.literal(pattern)}, {self.literal(by)})"

    def look_up(self, text: str, codes: Mapping[str, int]) -> str:
        return f"(({self.literal(json.dumps(dict(codes), ensure_ascii=False))}::jsonb) ->> {text})::integer"

    def bytes_of(self, text: str) -> str:
        return f"CONVERT_TO({text}, 'UTF8')"

    def sha256(self, first: str, second: str) -> str:
        return f"SHA256({first} || {second})"

    def number(self, text: str) -> str:
        """A cast, which fails beyond the range of doubles. So texts of unusual length are checked before.

        The power of ten of the first digit decides. At the ends of the range the digits decide: they are compared with
        those halfway between the largest double and the next, and between 0 and the smallest.
        """
        usual = r"[+-]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][+-]?0*1?[0-9]{1,2})?"
        cast = f"{text}::double precision"
        power = f"LTRIM({self.sub(text, '^[^eE]*[eE]?', '')}, '+')"
        figures = f"LTRIM({self.sub(text, '[eE].*$', '')}, '+-')"
        halves = f"SPLIT_PART({figures}, '.', 1) AS before, SPLIT_PART({figures}, '.', 2) AS after"
        parts = f"SELECT {power} AS power, {halves}"
        far = "CASE WHEN LENGTH(LTRIM(power, '-0')) > 9 THEN 999999999 ELSE ('0' || LTRIM(power, '-'))::bigint END"
        sign = "CASE WHEN power LIKE '-%' THEN -1 ELSE 1 END"
        first = "LENGTH(before) - 1 - (LENGTH(before || after) - LENGTH(LTRIM(before || after, '0')))"
        digits = "TRIM('0' FROM before || after)"
        seen = f'SELECT {digits} COLLATE "C" AS digits, {first} + {sign} * {far} AS place FROM ({parts}) AS parts'
        (most, top), (least, bottom) = _ends_of_doubles()
        infinite = f"CASE WHEN {text} LIKE '-%' THEN {self.double(-math.inf)} ELSE {self.double(math.inf)} END"
        unusual = (
            f"(SELECT CASE WHEN digits = '' THEN {self.double(0.0)} "
            f"WHEN place > {top} OR (place = {top} AND digits >= '{most}') THEN {infinite} "
            f"WHEN place < {bottom} OR (place = {bottom} AND digits <= '{least}') THEN {self.double(0.0)} "
            f"ELSE {cast} END FROM ({seen}) AS seen)"
        )
        return f"CASE WHEN {self.matches(text, usual)} THEN {cast} ELSE {unusual} END"

    def as_double(self, raw: str, kind: Kind) -> str:
        if kind == "decimal":  # a cast fails beyond the range of doubles: those go by their text
            cast = f"{raw}::double precision"
            usual = f"WHEN {raw} = 0 OR ABS({raw}) BETWEEN 1e-300 AND 1e300 THEN {cast}"
            infinite = f"WHEN ABS({raw}) = 'Infinity' THEN {cast}"
            return f"CASE WHEN {raw} = 'NaN' THEN NULL {usual} {infinite} ELSE {self.number(f'{raw}::text')} END"
        return f"NULLIF({raw}::double precision, 'NaN')"

    def bucket(self, number: str, cuts: Sequence[float]) -> str:
        return f"WIDTH_BUCKET({number}, '{{{','.join(map(repr, cuts))}}}'::double precision[])"

    def divide(self, whole: str, by: int) -> str:
        return f"({whole} / {by})"

    def microseconds(self, raw: str, kind: Kind) -> str:
        ends = ("'0001-01-01 BC'", "'10000-12-31'")
        if kind == "date":
            first, last = (f"{end}::date" for end in ends)
            moment = f"(LEAST(GREATEST({raw}, {first}), {last}) - '1970-01-01'::date) * 86400000000"
        else:
            first, last = (f"{end}::timestamp" for end in ends)
            plain = f"({raw} AT TIME ZONE 'UTC')" if kind == "zoned timestamp" else raw
            moment = self._epoch(f"LEAST(GREATEST({plain}, {first}), {last})")
        return f"CASE WHEN {raw} IS NOT NULL THEN {moment} END"

    def moment(self, iso: str) -> str:
        return self._epoch(f"({iso})::timestamp")

    def _epoch(self, moment: str) -> str:
        return f"(EXTRACT(EPOCH FROM {moment}) * 1000000)::bigint"

    def months(self, days: str) -> str:
        date = f"('1970-01-01'::date + {days}::integer)"
        return f"(EXTRACT(YEAR FROM {date})::bigint * 12 + EXTRACT(MONTH FROM {date})::bigint - 23641)"

    def array_element(self, codes: Sequence[int], code: str) -> str:
        return f"('{{{','.join(map(str, codes))}}}'::integer[])[{code} + 1]"

    def unnest(self, keys: Sequence[str]) -> str:
        return f"UNNEST(ARRAY[{', '.join(keys)}])"


def _ends_of_doubles() -> tuple[tuple[str, int], tuple[str, int]]:
    """The digits from which on numbers are infinite, and up to which they are 0, each with its power of ten."""
    most = str(2**1024 - 2**970)  # halfway from the largest double to the next
    least = str(5**1075)  # times 10**-1075: halfway from 0 to the smallest
    return (most.rstrip("0"), len(most) - 1), (least, len(least) - 1 - 1075)


class PostgresSource:
    """The result of a query, in a transaction that sees a snapshot of the database."""

    dialect = PostgresDialect()
    is_snapshot = True

    def __init__(self, url: str, query: str | None) -> None:
        if not isinstance(url, str):
            hint = 'pass a text such as "postgresql://ada@localhost/registry"'
            raise ReadError("the URL of a database must be a text, not a path", hint=hint)
        if not (isinstance(query, str) and query.strip(" \n\t;")):
            wrong = f"no query was given for {redacted_url(url)}"
            raise ReadError(wrong, hint=Hint("pass ", Argument("query", "select age, income from people")))
        self._query = query.strip().rstrip(";")
        self._connection = _redact_errors(lambda: _connect(url), lambda error: _not_connected(url, error))
        # psycopg warns about a connection that is garbage-collected while it is open.
        weakref.finalize(self, self._connection.close)
        self.fields = _redact_errors(self._read_header, self._query_error)

    def _read_header(self) -> list[tuple[str, str]]:
        """The names and types of the columns. No row is read."""
        self._connection.execute(
            "SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL datestyle = 'ISO, YMD'; "
            "SET LOCAL standard_conforming_strings = on; SET LOCAL work_mem = '64MB'; SET LOCAL jit = off"
        )
        version = self._connection.info.server_version // 10_000
        encoding = self._connection.info.parameter_status("server_encoding")
        if version < OLDEST or encoding != "UTF8":
            wrong = (
                f"the server must be PostgreSQL {OLDEST} or newer with text in UTF8, but is {version} with {encoding}"
            )
            raise ReadError(wrong, hint="use another server, or save the table as a .parquet file and pass that")
        header = self._connection.execute(f"SELECT * FROM ({self._query}\n) AS said LIMIT 0").description or []
        types = self._connection.execute(
            "SELECT oid, CASE typtype WHEN 'e' THEN 'text' ELSE typname END FROM pg_type WHERE oid = ANY(%s)",
            [[column.type_code for column in header]],
        )
        kinds = dict(types.fetchall())
        named = [(column.name, str(kinds[column.type_code])) for column in header]
        return [(name, _KINDS.get(kind, kind)) for name, kind in named]

    def table(self, names: Sequence[str]) -> str:
        """The query as a table expression with these column names."""
        return f"({self._query}\n) AS said({', '.join(names)})"

    def secret(self, value: bytes) -> str:
        """An expression for a secret: a setting of this transaction, sent as a parameter. COPY takes no parameters."""
        set_it = "SELECT SET_CONFIG('gapless.secret', %s, true)"
        _redact_errors(lambda: self._connection.execute(set_it, [value.hex()]), self._failed)
        return "(SELECT DECODE(CURRENT_SETTING('gapless.secret'), 'hex'))"

    def numbers(self, query: str, columns: int) -> Iterator[Integers]:
        """The result of a query, sent as binary numbers. A savepoint keeps the snapshot if the query fails."""
        import psycopg  # noqa: PLC0415 an extra

        names = [f"n{place}" for place in range(columns)]
        numbers = ", ".join(f"COALESCE({name}::bigint, -1)" for name in names)
        copied = f"COPY (SELECT {numbers} FROM ({query}) AS numbers({', '.join(names)})) TO STDOUT (FORMAT BINARY)"
        problem = None
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor, cursor.copy(copied) as copy:
                yield from _unpacked(copy, columns)
        except psycopg.Error as error:
            problem = self._failed(error)
        if problem is not None:  # raised outside of the handler, so that it does not carry the old error
            raise problem

    stream = numbers  # the server sends rows as they are asked for

    def _query_error(self, error: Any) -> ReadError:
        """The error for a query that fails before a row is read. It does not quote the query."""
        state = str(error.sqlstate or "")
        if state == "42601":
            place = error.diag.statement_position
            where = "" if place is None else f" near character {max(1, int(place) - len('SELECT * FROM ('))}"
            hint = Hint("pass one SELECT: ", Argument("query", "select * from people"))
            return ReadError(f"the query is not understood{where}", hint=hint)
        if state in _QUERY_ERRORS:
            return ReadError(
                _QUERY_ERRORS[state], hint="correct the query; run it in the database as the same user to test it"
            )
        return self._failed(error)

    def _failed(self, error: Any) -> ReadError:
        """The error for a failed query, by its SQLSTATE alone: its text may quote cells."""
        state = str(error.sqlstate or "")
        if self._connection.closed or state.startswith(("08", "57P")):
            return ReadError("the connection to the database is lost", hint=_READ_AGAIN)
        if state.startswith("53"):
            return ReadError("the database has no disk or memory left for this query", hint=_READ_AGAIN)
        if state == "57014":
            return ReadError("the database stopped the query: a time limit, or a user cancelled it", hint=_READ_AGAIN)
        wrong = f"the database cannot compute the query (SQLSTATE {state or 'unknown'})"
        hint = "run the query in the database; its error message is not shown here, since it may quote private data"
        return ReadError(wrong, hint=hint)


class Sql(SqlEngine):
    """The engine whose rows are in PostgreSQL."""

    __slots__ = ()


def _connect(url: str) -> Any:
    import psycopg  # noqa: PLC0415 an extra

    # libpq reads a URL with capital letters in its scheme as a connection string.
    scheme, colon, place = url.partition(":")
    connection = psycopg.connect(scheme.lower() + colon + place, client_encoding="utf8", application_name="gapless")
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def _redact_errors(function: Callable[[], T], problem: Callable[[Any], ReadError]) -> T:
    """Call a function, and replace an error of the database by one that quotes nothing."""
    with requires_extra("psycopg", "sql"):
        import psycopg  # noqa: PLC0415 an extra
    try:
        return function()
    except (psycopg.Error, UnicodeError) as error:
        found = problem(error)
    raise found  # outside of the handler, so that it does not carry the old error


def _not_connected(url: str, error: Exception) -> ReadError:
    reason = next((reason for part, reason in _CONNECTION_ERRORS if part in str(error)), "the connection fails")
    return ReadError(
        f"cannot open {redacted_url(url)}: {reason}",
        hint=f"check user, host, port and database in the URL; write it like {ACCEPTED}",
    )


_HEADER, _TRAILER = 19, 2  # bytes


def _unpacked(copy: Any, columns: int) -> Iterator[Integers]:
    """Unpack rows of integers from PostgreSQL's binary format: the number of fields, then length and value of each."""
    row = np.dtype([("fields", ">i2"), ("numbers", np.dtype([("length", ">i4"), ("number", ">i8")]), (columns,))])
    skipped, held, kept = False, [], 0
    for piece in copy:
        held.append(bytes(piece))
        kept += len(held[-1])
        if kept >= ROWS * row.itemsize + _HEADER:
            data = b"".join(held)[0 if skipped else _HEADER :]
            whole = len(data) // row.itemsize * row.itemsize
            yield np.frombuffer(data[:whole], row)["numbers"]["number"].astype(np.int64)
            skipped, held, kept = True, [data[whole:]], len(data) - whole
    data = b"".join(held)[0 if skipped else _HEADER :][:-_TRAILER]
    if data:
        yield np.frombuffer(data, row)["numbers"]["number"].astype(np.int64)
