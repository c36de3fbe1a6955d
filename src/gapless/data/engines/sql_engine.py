"""Engines whose rows stay in a database: SQL encodes, counts and filters them.

This module has the part that all of them share. A database answers two questions about a `View` of its rows: how many
rows have each key, and what the codes of the rows are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from gapless.data.engines import memory
from gapless.data.engines.memory import BLOCK_CELLS, ROWS, Batch, Memory, View
from gapless.data.engines.sql_encoding import (
    KINDS,
    ColumnExpressions,
    Dialect,
    DifferenceExpressions,
    cell_error,
    encode_column,
    encode_difference,
)
from gapless.data.engines.sql_persons import PersonExpressions
from gapless.data.io.encode import check_names
from gapless.data.io.persons import RowLimit
from gapless.errors import ReadError
from gapless.schema import Schema
from gapless.schema.difference import difference_of
from gapless.schema.numeric import NumericColumn
from gapless.text import repeated
from gapless.types import Integers

MOST_KEYS = 1 << 20  # up to this many combinations of codes, rows come as counts of each
CHANGED = "read the table again while no one writes to it; what was charged stays charged"


class SqlSource(Protocol):
    """A table in a database, which answers queries and is never written to."""

    @property
    def dialect(self) -> Dialect:
        """Its SQL."""

    @property
    def is_snapshot(self) -> bool:
        """Whether its rows cannot change while it is read."""

    @property
    def fields(self) -> Sequence[tuple[str, str]]:
        """The name of each column and the `Kind` of its values, or the name of the type if it has no `Kind`."""

    def table(self, names: Sequence[str]) -> str:
        """A table expression of its rows, with these column names."""

    def secret(self, value: bytes) -> str:
        """An expression for a secret that its queries use: its value is in none of them."""

    def numbers(self, query: str, columns: int) -> Iterator[Integers]:
        """The integers that a query of counts returns: arrays of rows by columns, some rows at a time."""

    def stream(self, query: str, columns: int) -> Iterator[Integers]:
        """The same for a query that returns every row. Some rows are held at a time."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlEncoding:
    """The rows of a source, and the expressions that encode the columns of a schema."""

    source: SqlSource
    codings: tuple[ColumnExpressions, ...]  # of the schema's columns in a file
    places: tuple[int, ...]  # of these columns in the source
    sizes: tuple[int, ...]  # how many codes each column of the schema has
    rows: int  # when it was read; with persons those that are kept
    differences: Mapping[int, DifferenceExpressions] = field(default_factory=dict)  # by position in the schema
    persons: PersonExpressions | None = None

    @classmethod
    def read(cls, source: SqlSource, schema: Schema, limit: RowLimit | None) -> SqlEncoding:
        """Check the header and all cells of a source, each encoded once, and count the rows that are kept.

        Raises the errors of `encode.py`, for the first column that has one.
        """
        names = [name for name, _ in source.fields]
        if len(set(names)) < len(names):
            wrong = f"two columns have the same name {repeated(names)[0]!r}"
            raise ReadError(wrong, hint="give each column a different name")
        check_names(names, schema)
        persons = None
        if limit is not None:
            persons = PersonExpressions.of(source.fields, limit, source.secret(limit.key), source.dialect)
        places = tuple(map(names.index, schema.file_names))
        codings = []
        for column, place in zip(schema.file_columns, places, strict=True):
            kind = source.fields[place][1]
            if kind not in KINDS:
                hint = "write the column as text, numbers, booleans, dates or timestamps"
                raise ReadError(f"column {column.name!r} holds values of type {kind}, which are not read", hint=hint)
            codings.append(encode_column(column, kind, place, source.dialect))
        parts = list(zip(schema.file_columns, places, codings, strict=True))
        differences = {}
        for position, column in enumerate(schema.columns):
            if (difference := difference_of(column)) is not None and isinstance(column, NumericColumn):
                (other,) = schema.positions([difference.subtrahend])
                pair = parts[position], parts[other]
                differences[position] = encode_difference(column, other, pair, source.dialect)
        sizes = tuple(column.extended_size for column in schema.columns)
        coded = cls(source, tuple(codings), places, sizes, 0, differences)
        worst = (f"COALESCE(MAX(CASE WHEN c{place} < 0 THEN c{place} END), 0)" for place in places)
        query = f"SELECT COUNT(*), {', '.join(worst)} FROM {coded.table(range(len(places)))}"
        ((rows, *found),) = np.concatenate(list(source.numbers(query, 1 + len(places)))).tolist()
        for column, code in zip(schema.columns, found, strict=True):
            if code < 0:
                raise cell_error(column, code)
        if persons is None:
            return replace(coded, rows=rows)
        kept = replace(coded, persons=persons)
        ((rows,),) = np.concatenate(list(source.numbers(f"SELECT COUNT(*) FROM {kept.table([])}", 1))).tolist()
        return replace(kept, rows=rows)

    def table(self, columns: Iterable[int]) -> str:
        """A table expression of the codes of these columns, called `c0`, `c1`, … by their position in the source.

        A difference has the place of its minuend.
        """
        if self.persons is None:
            return self._coded(columns)
        codes = [f"c{place}" for place in self.places]
        wanted = [codes[column] for column in sorted(set(columns))]
        return self.persons.kept_rows(self._coded(range(len(codes))), codes, wanted)

    def _coded(self, columns: Iterable[int]) -> str:
        """The same of all rows, with the id of its person if only some rows of a person are kept."""
        wanted = set(columns)
        differences = {self.places[c]: steps for c, steps in self.differences.items() if c in wanted}
        wanted |= {steps.subtrahend for steps in differences.values()}
        chosen = [(self.places[column], self.codings[column]) for column in sorted(wanted)]
        codes = [f"c{place}" for place, _ in chosen]
        pairs = dict.fromkeys(position for steps in differences.values() for position in steps.positions)
        distances = [f"{steps.distance} AS d{place}" for place, steps in differences.items()]
        rows = self.source.table([f"r{place}" for place in range(len(self.source.fields))])
        positions = [f"{steps.position} AS x{place}" for place, steps in chosen if steps.position]
        levels = {
            "cleaned": [f"{steps.clean} AS t{place}" for place, steps in chosen],
            "placed": [*(f"t{place}" for place, _ in chosen), *positions] if positions else [],
            "coded": [*(f"{steps.code} AS c{place}" for place, steps in chosen), *pairs] or ["0 AS none"],
            "subtracted": [*codes, *distances] if distances else [],
            "differences": [
                f"{differences[place].code} AS c{place}" if place in differences else f"c{place}" for place, _ in chosen
            ]
            if distances
            else [],
        }
        if self.persons is not None:
            texts = [f"i{place}" for place in range(len(self.persons.texts))]
            levels["cleaned"] += [f"{text} AS {name}" for text, name in zip(self.persons.texts, texts, strict=True)]
            levels["placed"] += texts if positions else []
            levels["coded"].append(f"{self.persons.id_of(texts)} AS person")
            levels["subtracted"] += ["person"] if distances else []
            levels["differences"] += ["person"] if distances else []
        for name, expressions in levels.items():
            if expressions:
                rows = f"(SELECT {', '.join(expressions)} FROM {rows}{self.source.dialect.fence}) AS {name}"
        return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlEngine(View):
    """A view of encoded rows, counted in the database."""

    encoding: SqlEncoding

    @classmethod
    def read(cls, source: SqlSource, schema: Schema, limit: RowLimit | None = None) -> Self:
        """All columns of a source, and all its rows or, with a limit, those that are kept."""
        coded = SqlEncoding.read(source, schema, limit)
        width = len(coded.sizes)
        return cls(tuple(range(width)), (None,) * width, {}, coded)

    def count(
        self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], counted_below: Sequence[int]
    ) -> list[Integers]:
        """Count in one query, by blocks of columns that cover the marginals: each row has a key for each block."""
        blocks, home = memory.cover_marginals(marginals, sizes, cells=BLOCK_CELLS)
        first = np.append(0, np.cumsum([math.prod(sizes[column] for column in block) for block in blocks]))
        keys = [self._key(block, sizes, int(start)) for block, start in zip(blocks, first[:-1], strict=True)]
        totals = np.zeros(int(first[-1]), dtype=np.int64)
        for found, rows in self._tally(keys, {column for block in blocks for column in block}):
            totals[found] = rows
        # A cell that is refused now has a key of an earlier block, in which its row would count twice.
        parts = np.split(totals, first[1:-1])
        many = {int(part.sum()) for part in parts}
        if len(many) > 1 or not (self.kept_codes or many == {self.encoding.rows}):
            raise ReadError("the table has changed since it was read", hint=CHANGED)
        places = [home[frozenset(marginal)] for marginal in marginals]
        return [
            memory.marginalize(m, blocks[at], parts[at], sizes, counted_below)
            for m, at in zip(marginals, places, strict=True)
        ]

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """If there are few combinations of codes, equal rows from their counts; else the codes of all rows."""
        sizes = [self._size(column) for column in columns]
        types = [np.min_scalar_type(size - 1) for size in sizes]
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

    # ------------------------------------------------------------------ SQL of the queries

    def _size(self, column: int) -> int:
        codes = self.maps[column]
        return self.encoding.sizes[self.columns[column]] if codes is None else int(codes.max(initial=0)) + 1

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
        return f"CASE WHEN LEAST(0, {codes}) < 0 THEN -1 ELSE {key} END"  # a cell that has changed since the reading

    def _tally(self, keys: Sequence[str], columns: Iterable[int]) -> Iterator[tuple[Integers, Integers]]:
        """The keys that rows have, each once, and the number of rows with it. Every row has one of each of `keys`."""
        key = self.encoding.source.dialect.unnest(keys) if len(keys) > 1 else keys[0]
        query = f"SELECT k, COUNT(*) FROM (SELECT {key} AS k FROM {self._kept(columns)}) AS keys GROUP BY k"
        for part in self.encoding.source.numbers(query, 2):
            _check(part)
            yield part[:, 0], part[:, 1]

    def _kept(self, columns: Iterable[int]) -> str:
        """A table expression of the kept rows, with the codes of these columns."""
        rows = self.encoding.table({*(self.columns[column] for column in columns), *self.kept_codes})
        conditions = [self._is_kept(f"c{self.encoding.places[c]}", mask) for c, mask in self.kept_codes.items()]
        return f"{rows} WHERE {' AND '.join(conditions)}" if conditions else rows

    def _is_kept(self, code: str, mask: NDArray[np.bool_]) -> str:
        first = int(mask.sum())
        if mask[:first].all():
            return f"{code} < {first}"
        return f"{self.encoding.source.dialect.array_element(mask.astype(np.int64).tolist(), code)} = 1"


def materialize(engine: SqlEngine) -> Memory:
    """Read the codes of all rows into memory."""
    everything = range(len(engine.columns))
    return memory.join_batches(engine.batches(everything), len(everything))


def _check(numbers: Integers) -> None:
    """Refuse codes of refused cells: there were none when the table was read."""
    if numbers.size and numbers.min() < 0:
        raise ReadError("the table has changed since it was read", hint=CHANGED)
