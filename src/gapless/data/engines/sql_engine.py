"""Engines whose rows stay where they are: the coding, the counting and the choice of rows are said in SQL.

What all of them share is here. A database answers two questions about a `View` of its rows: how many of them have each
key, and what their codes are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from gapless.data.engines.memory import (
    BLOCK_CELLS,
    ROWS,
    Batch,
    Memory,
    View,
    cover_marginals,
    join_batches,
    marginalize,
)
from gapless.data.engines.sql_encoding import KINDS, ColumnExpressions, Dialect, cell_error, encode_column
from gapless.data.io.encode import check_names
from gapless.errors import ReadError
from gapless.schema import Schema
from gapless.types import Integers

MOST_KEYS = 1 << 20  # combinations of codes, up to which rows come as so many of each
CHANGED = "read it again, and let nobody write to it meanwhile; what was charged stays charged"


class SqlSource(Protocol):
    """A table somewhere else, which answers queries and is never written to."""

    @property
    def dialect(self) -> Dialect:
        """How it says what."""

    @property
    def is_snapshot(self) -> bool:
        """Whether what it holds cannot change while it is read."""

    @property
    def fields(self) -> Sequence[tuple[str, str]]:
        """The name of each column and the kind of its values; the type's own name if it is none that is known."""

    def table(self, names: Sequence[str]) -> str:
        """A table expression of its rows, the columns called so by their place."""

    def numbers(self, query: str, columns: int) -> Iterator[Integers]:
        """The whole numbers that a query gives, which counts: rows by columns, some rows at a time."""

    def stream(self, query: str, columns: int) -> Iterator[Integers]:
        """The same for a query that gives every row, of which some are held at a time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlEncoding:
    """The rows of a source, and how the columns of a schema are coded in it."""

    source: SqlSource
    codings: tuple[ColumnExpressions, ...]
    places: tuple[int, ...]  # of the schema's columns in the source
    sizes: tuple[int, ...]  # how many codes each has
    rows: int  # when it was read

    @classmethod
    def read(cls, source: SqlSource, schema: Schema) -> SqlEncoding:
        """A source after a look at its header and, for what the schema refuses, at all of its cells: each coded once.

        Refusals are those of `encode.py`, the first column's first.
        """
        names = [name for name, _ in source.fields]
        if len(set(names)) < len(names):
            raise ReadError("two columns have the same name", hint="give each column its own name")
        check_names(names, schema)
        places = tuple(names.index(column.name) for column in schema.columns)
        codings = []
        for column, place in zip(schema.columns, places, strict=True):
            kind = source.fields[place][1]
            if kind not in KINDS:
                raise ReadError(
                    f"column {column.name!r} holds values of type {kind}",
                    hint="text, numbers, booleans, dates or moments: make it one of them in the query",
                )
            codings.append(encode_column(column, kind, place, source.dialect))
        coded = cls(source, tuple(codings), places, tuple(column.extended_size for column in schema.columns), 0)
        worst = (f"COALESCE(MAX(CASE WHEN c{place} < 0 THEN c{place} END), 0)" for place in places)
        query = f"SELECT COUNT(*), {', '.join(worst)} FROM {coded.table(range(len(places)))}"
        ((rows, *found),) = np.concatenate(list(source.numbers(query, 1 + len(places)))).tolist()
        for column, code in zip(schema.columns, found, strict=True):
            if code < 0:
                raise cell_error(column, code)
        return replace(coded, rows=rows)

    def table(self, columns: Iterable[int]) -> str:
        """A table expression of the codes of these columns, each called by its place in the source: `c0` and so on."""
        chosen = [(self.places[column], self.codings[column]) for column in sorted(set(columns))]
        rows = self.source.table([f"r{place}" for place in range(len(self.source.fields))])
        steps = [
            [f"{steps.clean} AS t{place}" for place, steps in chosen],
            [
                f"t{place}" + (f", {steps.position} AS x{place}" if steps.position else "")
                for place, steps in chosen
                if any(steps.position for _, steps in chosen)
            ],
            [f"{steps.code} AS c{place}" for place, steps in chosen] or ["0 AS none"],
        ]
        for name, expressions in zip(("cleaned", "placed", "coded"), steps, strict=True):
            if expressions:
                rows = f"(SELECT {', '.join(expressions)} FROM {rows}{self.source.dialect.fence}) AS {name}"
        return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlEngine(View):
    """A view of coded rows, counted where they lie."""

    encoding: SqlEncoding

    @classmethod
    def read(cls, source: SqlSource, schema: Schema) -> Self:
        """All rows and columns of a source."""
        coded = SqlEncoding.read(source, schema)
        width = len(coded.sizes)
        return cls(tuple(range(width)), (None,) * width, {}, coded)

    def count(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], shown: Sequence[int]) -> list[Integers]:
        """By blocks of columns that cover the marginals, in one query: each row has a key for each."""
        blocks, home = cover_marginals(marginals, sizes, cells=BLOCK_CELLS)
        first = np.append(0, np.cumsum([math.prod(sizes[column] for column in block) for block in blocks]))
        keys = [self._key(block, sizes, int(start)) for block, start in zip(blocks, first[:-1], strict=True)]
        totals = np.zeros(int(first[-1]), dtype=np.int64)
        for found, rows in self._tally(keys, {column for block in blocks for column in block}):
            totals[found] = rows
        # A cell that is refused by now has a key of an earlier block, in which its row would count twice.
        parts = np.split(totals, first[1:-1])
        many = {int(part.sum()) for part in parts}
        if len(many) > 1 or not (self.kept_codes or many == {self.encoding.rows}):
            raise ReadError("the table has changed since it was read", hint=CHANGED)
        places = [home[frozenset(marginal)] for marginal in marginals]
        return [marginalize(m, blocks[at], parts[at], sizes, shown) for m, at in zip(marginals, places, strict=True)]

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Where combinations of codes are few, so many rows of each; else the codes of all rows, one after another."""
        sizes = [self._size(column) for column in columns]
        types = [self._type(column) for column in columns]
        if math.prod(sizes) <= MOST_KEYS:
            key = self.select(columns)._key(range(len(columns)), sizes, 0)  # noqa: SLF001 itself
            found = [np.stack(part, axis=1) for part in self._tally([key], set(columns))]
            keys, rows = np.concatenate(found).T if found else np.zeros((2, 0), dtype=np.int64)
            ends = np.cumsum(rows)
            for start in range(0, int(rows.sum()), ROWS):
                some = keys[np.searchsorted(ends, np.arange(start, min(start + ROWS, int(ends[-1]))), side="right")]
                codes = np.unravel_index(some, sizes) if sizes else ()
                yield Batch(tuple(c.astype(kind) for c, kind in zip(codes, types, strict=True)), len(some))
            return
        codes_of = ", ".join(self._code(column) for column in columns)
        for part in self.encoding.source.stream(f"SELECT {codes_of} FROM {self._kept(set(columns))}", len(columns)):
            _check(part)
            yield Batch(tuple(codes.astype(kind) for codes, kind in zip(part.T, types, strict=True)), len(part))

    # ------------------------------------------------------------------ what is asked, as SQL

    def _size(self, column: int) -> int:
        codes = self.maps[column]
        return self.encoding.sizes[self.columns[column]] if codes is None else int(codes.max(initial=0)) + 1

    def _type(self, column: int) -> np.dtype[np.unsignedinteger]:
        return np.min_scalar_type(self._size(column) - 1)

    def _code(self, column: int) -> str:
        codes = self.maps[column]
        code = f"c{self.encoding.places[self.columns[column]]}"
        return code if codes is None else self.encoding.source.dialect.array_element(codes.tolist(), code)

    def _key(self, columns: Sequence[int], sizes: Sequence[int], start: int) -> str:
        """The number of a row's cell among those of these columns, counted from `start`."""
        terms, stride = [str(start)], 1
        for column in reversed(columns):
            terms.append(f"{stride} * {self._code(column)}")
            stride *= sizes[column]
        key = f"CAST({' + '.join(terms)} AS BIGINT)"
        if self.encoding.source.is_snapshot or not columns:
            return key
        codes = ", ".join(f"c{self.encoding.places[self.columns[column]]}" for column in columns)
        return f"CASE WHEN LEAST(0, {codes}) < 0 THEN -1 ELSE {key} END"  # a cell that was not there at reading

    def _tally(self, keys: Sequence[str], columns: Iterable[int]) -> Iterator[tuple[Integers, Integers]]:
        """Keys that rows have, each once, and how many rows; every row has one of each of `keys`."""
        each = self.encoding.source.dialect.unnest(keys) if len(keys) > 1 else keys[0]
        query = f"SELECT k, COUNT(*) FROM (SELECT {each} AS k FROM {self._kept(columns)}) AS keys GROUP BY k"
        for part in self.encoding.source.numbers(query, 2):
            _check(part)
            yield part[:, 0], part[:, 1]

    def _kept(self, columns: Iterable[int]) -> str:
        """A table expression of the rows that are kept, with the codes of these columns."""
        rows = self.encoding.table({*(self.columns[column] for column in columns), *self.kept_codes})
        marks = [self._marked(f"c{self.encoding.places[column]}", marked) for column, marked in self.kept_codes.items()]
        return f"{rows} WHERE {' AND '.join(marks)}" if marks else rows

    def _marked(self, code: str, marked: NDArray[np.bool_]) -> str:
        first = int(marked.sum())
        if marked[:first].all():
            return f"{code} < {first}"
        return f"{self.encoding.source.dialect.array_element(marked.astype(np.int64).tolist(), code)} = 1"


def materialize(engine: SqlEngine) -> Memory:
    """The codes of all rows in memory, for what needs all of them at hand."""
    everything = range(len(engine.columns))
    return join_batches(engine.batches(everything), len(everything))


def _check(numbers: Integers) -> None:
    """Codes are what they were when the table was read: none of a cell that is refused."""
    if numbers.size and numbers.min() < 0:
        raise ReadError("the table has changed since it was read", hint=CHANGED)
