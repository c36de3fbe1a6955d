"""The sealed table, and the transformations whose distance is proved.

Each transformation below is *stable*: when one protected unit (up to k rows) comes or goes, its result
moves by at most the distance it declares. Proofs in docs/proofs/stability.md, one property test each in
tests/property/test_stability.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.forbidden import possible_cells
from gapless.data.cutting import cut_schema
from gapless.data.engines.memory import Batch, Engine, HoldsRows, Memory
from gapless.data.filling import Chance, ColumnFiller, Filler, draw_inside, fill_gaps, fill_given, secret_chance
from gapless.data.io.address import is_database, is_url
from gapless.data.io.draft import Draft
from gapless.data.io.reading import is_file, opened
from gapless.data.io.register import check_not_covered, data_files, register
from gapless.data.io.source import (
    EXCEL_ENDINGS,
    PARQUET_ENDINGS,
    TEXT_ENDINGS,
    check_there,
    exists,
    is_pattern,
    split_pattern,
)
from gapless.data.neighbors import Links, Matching
from gapless.errors import (
    Argument,
    Call,
    EngineError,
    Hint,
    LedgerError,
    ModelError,
    QuestionError,
    SchemaError,
    SealedError,
)
from gapless.privacy import noise
from gapless.privacy.assumptions import Assumption, over
from gapless.privacy.budget import Budget, Rows, Spend, check_budget
from gapless.privacy.grant import Grant
from gapless.privacy.ledger import Ledger, check_promised
from gapless.privacy.private import L1, Columns, Private, Sampled, Sealed, gather, transform
from gapless.schema import Schema
from gapless.schema.numeric import _Binned
from gapless.text import plural
from gapless.types import Codes, Integers, all_own, is_own

WhichRows: TypeAlias = Literal["observed", "extended"]
LEDGER = Hint("pass ", Argument("ledger", "people.ledger"), ", the same file whenever this table is read")

T = TypeVar("T")
D = TypeVar("D")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Question(Protocol[A_co]):
    """Something that can be asked: it answers itself from a sealed table, within a grant."""

    def answer(self, table: PrivateTable, grant: Grant) -> A_co:
        """Release what is needed, and say what came out."""
        ...

    def answer_together(
        self, table: PrivateTable, questions: Sequence[Question[Any]], *, spend: Spend
    ) -> Sequence[A_co]:
        """Answer several questions, this one among them, all or none."""
        ...


class PrivateTable(Sealed):
    """A table that cannot be looked at, only measured under its ledger.

    No method of it takes a function, and none hands rows to an object whose class is not of this library. Sums of what
    each row adds, which questions are made of, are in `data/sums.py`.
    """

    __slots__ = (
        "_cells",
        "_drawn",
        "_engine",
        "_filled",
        "_key",
        "_labels",
        "_ledger",
        "_links",
        "_query_digest",
        "_required",
        "_rows",
        "_schema",
    )

    def __init__(
        self,
        cells: Private[Engine, Rows],
        schema: Schema,
        ledger: Ledger,
        *,
        engine: type[Engine],
        required: Columns = frozenset(),
        filled: bool = False,
        drawn: bool = False,
        query_digest: str | None = None,
    ) -> None:
        self._cells = cells  # codes by `schema.fine`: what was read
        self._schema = schema
        self._ledger = ledger
        self._engine = engine  # the class of what the rows lie in: public, so that what it cannot do is refused at once
        self._key = ledger._key  # noqa: SLF001 what it transforms sealed values with
        self._query_digest = query_digest
        self._required = required  # columns on which a row had to be observed to be still here
        self._filled = filled  # gaps were filled: from then on a row is read whether or not it had them
        self._drawn = drawn  # gaps of some columns were: what a row adds hangs on which of its cells were gaps
        grouped = {place: fine.group(told) for place, fine, told in grouping(schema)}
        # Codes by `schema`: each cell's bin, row by row, so that the distance stays.
        self._rows = transform(
            cells, once(lambda engine: engine.recode(grouped)), distance=self.protect, reads=None, key=self._key
        )
        # Secret places of the rows on a circle, for ties: drawn once, when first needed.
        self._labels = self._sealed(
            lambda rows: places(noise.current().words(held(rows).rows)), distance=None, reads=None
        )
        self._links: dict[tuple[tuple[str, ...], Matching], Private[tuple[Links, int], None]] = {}

    def __init_subclass__(cls) -> None:
        """None: a table of another class could say of itself that it protects less."""
        raise SealedError(f"{cls.__name__} would be another kind of sealed table", hint="a function that takes a table")

    @property
    def schema(self) -> Schema:
        """What is publicly known of it. Read-only: distances and `reads` follow from it."""
        return self._schema

    @property
    def ledger(self) -> Ledger:
        """What was spent on it, and what is left. Read-only: distances follow from its protected unit."""
        return self._ledger

    @property
    def protect(self) -> Rows:
        """The protected unit."""
        return self.ledger.protect

    @property
    def filled(self) -> bool:
        """Whether its gaps were filled, so that it has none."""
        return self._filled

    @property
    def query_digest(self) -> str | None:
        """The SHA-256 of the query that was read from a database, which itself is not public; else None."""
        return self._query_digest

    @overload
    def ask(self, question: Question[A], *, spend: Spend) -> A: ...

    @overload
    def ask(self, question: Sequence[Question[A]], *, spend: Spend) -> Sequence[A]: ...

    def ask(self, question: Question[A] | Sequence[Question[A]], *, spend: Spend) -> A | Sequence[A]:
        """Answer a question under the ledger, or several: `people.ask(Mean("income"), spend="10%")`.

        Several share `spend` evenly. All of them can be answered and paid for, or none is asked.
        """
        if isinstance(question, Sequence) and not isinstance(question, str):
            if not question:
                raise QuestionError("no question", hint=Hint("ask ", Call("Mean", "income"), ", or several questions"))
            for item in question:
                check_question(item)
            return question[0].answer_together(self, question, spend=spend)
        check_question(question)
        return question.answer(self, self.ledger.grant(spend, to="ask"))

    def marginal(self, columns: str | Sequence[str], *, rows: WhichRows = "observed") -> Private[Integers, L1]:
        """How many rows fall into each combination of cells of these columns.

        `rows="observed"` leaves out rows with a gap in one of the columns; `rows="extended"` counts every
        row, the gaps as cells of their own. Distance: a row is in one cell, so k rows move the counts by
        at most k in L1. No columns: the number of rows.
        """
        return self.marginals([columns], rows=rows)[0]

    def marginals(
        self, columns: Sequence[str | Sequence[str]], *, rows: WhichRows = "observed"
    ) -> list[Private[Integers, L1]]:
        """Several marginals, each a value of its own, all counted in one pass when the first is opened."""
        return self._counted(columns, rows)[1]

    def _counted(
        self, columns: Sequence[str | Sequence[str]], rows: WhichRows
    ) -> tuple[Private[list[Integers], None], list[Private[Integers, L1]]]:
        """Several marginals as one sealed value without a distance, and each of them by itself."""
        if rows not in ("observed", "extended"):
            raise SchemaError(
                f"no rows called {rows!r}",
                hint=Hint("pass ", Argument("rows", "observed")) | Hint("pass ", Argument("rows", "extended")),
            )
        chosen = [self.schema.positions((names,) if isinstance(names, str) else names) for names in columns]
        sizes = [column.extended_size for column in self.schema.columns]
        shown = sizes if rows == "extended" else [column.size for column in self.schema.columns]
        counts = self._sealed(lambda engine: engine.count(chosen, sizes, shown), distance=None, reads=None)
        return counts, [self._marginal(counts, number, marginal, rows) for number, marginal in enumerate(chosen)]

    def _marginal(
        self, counts: Private[list[Integers], None], number: int, marginal: tuple[int, ...], rows: WhichRows
    ) -> Private[Integers, L1]:
        columns = [self.schema.columns[place] for place in marginal]
        named = frozenset(column.name for column in columns if rows == "observed" and not self._filled and column.gaps)
        return transform(
            counts,
            lambda all_counts: all_counts[number],
            distance=L1(self.protect.at_most),
            reads=self._told(self._required | named),
            key=self._key,
        )

    def _told(self, reads: Columns) -> Columns | None:
        """What a value reads, as it may be told: every row, where what an observed row adds hangs on its other gaps.

        Figures of loss distributions over patterns of gaps take it not to (docs/proofs/ground_truth_pld.md).
        """
        return None if self._drawn else reads or None

    def grouped(
        self, column: str, groups: Sequence[Integers], *, rows: WhichRows = "observed"
    ) -> list[Private[Integers, L1]]:
        """The counts of a column's cells, added up in several public ways; each gives the group of every code.

        Distance: a row is in one group, so k rows move the sums by at most k in L1.
        """
        counts = self.marginal(column, rows=rows)
        size = self.schema[column].extended_size if rows == "extended" else self.schema[column].size
        groups = [np.array(group, dtype=np.int64) for group in groups]  # plain ones, which nobody else holds
        if any(group.shape != (size,) or group.min(initial=0) < 0 for group in groups):
            raise SchemaError(
                f"column {column!r} has {plural(size, 'cell')}, and its groups do not fit", hint="one for each"
            )

        def added(group: Integers) -> Private[Integers, L1]:
            sums = int(group.max()) + 1
            return transform(
                counts,
                lambda cells: np.bincount(group, weights=cells, minlength=sums).astype(np.int64),
                distance=L1(self.protect.at_most),
                reads=counts.reads,
                key=self._key,
            )

        return [added(group) for group in groups]

    def gap_patterns(self, columns: Sequence[str], *, among: Sequence[Sequence[bool]] = ((),)) -> Private[Integers, L1]:
        """How many rows have each pattern of gaps in these columns.

        `among` names public beginnings of patterns, different ones of one length (True: missing); rows that begin
        otherwise are left out. One row of counts for each beginning, with a count for every pattern of the remaining
        columns: its number in binary, 1 for missing, the first column first. Distance: a row has one pattern.
        """
        places = self.schema.positions(columns)
        among = [tuple(map(bool, beginning)) for beginning in among]  # plain ones: they are compared with rows
        begin = len(among[0]) if among else 0
        if len(set(among)) < len(among) or any(len(beginning) != begin for beginning in among):
            raise SchemaError("these beginnings of patterns are not different and of one length", hint="each once")
        sizes = [self.schema.columns[place].size for place in places]
        cells = 1 << (len(places) - begin)

        def tally(engine: Engine) -> Integers:
            counts = np.zeros((len(among), cells), dtype=np.int64)
            for batch in engine.batches(places):
                gaps = [codes >= size for codes, size in zip(batch.columns, sizes, strict=True)]
                number = np.zeros(batch.rows, dtype=np.int64)
                for gap in gaps[begin:]:
                    number = 2 * number + gap
                for place, beginning in enumerate(among):
                    rows = np.ones(batch.rows, dtype=np.bool_)
                    for gap, missing in zip(gaps[:begin], beginning, strict=True):
                        rows &= gap == missing
                    counts[place] += np.bincount(number[rows], minlength=cells)
            return counts

        return self._sealed(tally, distance=L1(self.protect.at_most), reads=self._required or None)

    def select(self, columns: Sequence[str]) -> PrivateTable:
        """The same rows with some of the columns. Row by row, so the distance in rows stays."""
        places = self.schema.positions(columns)
        return self._with(lambda engine: engine.select(places), schema=self.schema.select(columns))

    def at_cells(self, columns: Iterable[str]) -> PrivateTable:
        """The same rows, told by these columns' cells instead of their bins: the finest that is known of them."""
        return self.told_by(self.schema.with_columns({name: self.schema.fine[name] for name in columns}))

    def told_by(self, schema: Schema) -> PrivateTable:
        """The same rows under a public or released schema that groups the cells of their columns otherwise.

        Nothing is computed but the bin of each cell, row by row, when it is needed; so the distance stays, and what
        a column reads.
        """
        if not (is_own(schema) and all(map(is_own, schema.columns))):
            raise SchemaError(
                "this schema, or a column of it, is not of this library",
                hint=Hint("pass a schema from ", Call("Schema.read", "people.toml")),
            )
        if schema.fine.columns != self.schema.fine.columns:
            raise SchemaError("this schema has other columns or cells than the table", hint="the same, in other bins")
        if schema == self.schema:
            return self
        return self._with(lambda engine: engine, schema=schema)

    def where(self, column: str, cells: Iterable[object]) -> PrivateTable:
        """The rows whose cell in `column` is one of these public `cells` (names as in `schema[column].cells`).

        Rows with a gap there are left out. Each row is kept or not by itself, so the distance stays.
        """
        (place,) = self.schema.positions([column])
        kept = np.zeros(self.schema.columns[place].extended_size, dtype=np.bool_)
        kept[[self.schema.columns[place].code_of(cell) for cell in cells]] = True
        return self._with(lambda engine: engine.keep(self._in_cells({place: kept})), required={column})

    def complete_rows(self) -> PrivateTable:
        """The rows without any gap. Each row is kept or not by itself, so the distance stays."""
        columns = enumerate(self.schema.columns)
        observed = {place: np.arange(column.extended_size) < column.size for place, column in columns if column.gaps}
        return self._with(lambda engine: engine.keep(self._in_cells(observed)), required=self.schema.names)

    def _in_cells(self, bins: Mapping[int, NDArray[np.bool_]]) -> dict[int, NDArray[np.bool_]]:
        """Marks of bins as marks of the cells in them."""
        grouped = {place: fine.group(told) for place, fine, told in grouping(self.schema) if place in bins}
        return {place: marked[grouped[place]] if place in grouped else marked for place, marked in bins.items()}

    def fill(self, laws: Sequence[NDArray[np.float64]]) -> PrivateTable:
        """Draw every gap from its column's public or released distribution over observed cells.

        Each row is mapped by itself with chance of its own, so the distance stays; every row is read from here on.
        """
        laws = [np.array(law, dtype=np.float64) for law in laws]  # plain arrays, which nobody else holds
        for column, law in zip(self.schema.columns, laws, strict=True):
            if law.shape != (column.size,) or not (law >= 0).all() or not 0 < law.sum() < np.inf:
                raise SchemaError(
                    f"column {column.name!r} has {plural(column.size, 'observed cell')}, and its law does not fit",
                    hint="a probability for each",
                )
        return self._filled_by(lambda columns, chance: fill_gaps(columns, laws, chance))

    def fill_given(self, model: Filler) -> PrivateTable:
        """Draw every gap from a fitted model, given the other cells of its row.

        The model knows released values and public ones alone, and fills each row by itself with chance of its own; so
        the distance stays, and every row is read from here on. Only a model of this library is handed rows.
        """
        if not (is_own(model) and is_own(model.filled)):
            raise ModelError(
                "this model was neither fitted nor loaded here, and would see every row",
                hint=Hint("use ", Call("FromModel", Call("MST")))
                | Hint("use ", Call("FromModel", Call("load", "people.model"))),
            )
        model = type(model).remade(model)  # a spy among its arrays, or in place of its methods, stays behind
        sizes = [(column.name, column.size) for column in self.schema.columns]
        if sizes == [(column.name, column.size) for column in model.schema.columns]:
            return self._filled_by(lambda columns, chance: fill_given(columns, model, chance))
        if model.schema.fine.columns == self.schema.fine.columns:  # its bins were learned by another release
            return self.told_by(model.schema).fill_given(model).told_by(self.schema)
        raise SchemaError(
            "the model has other columns or cells than the table", hint="fit it on a table with the same schema"
        )

    def fill_column(self, column: str, law: ColumnFiller, *, given: Sequence[str]) -> PrivateTable:
        """Draw every gap of one column from a released law given other columns; from here on it may not be missing.

        The law knows released values and public ones alone, and fills each row by itself with chance of its own: so
        the distance stays. Only a law of this library is handed rows, and only columns without gaps are shown to it.
        """
        (place,), others = self.schema.positions([column]), self.schema.positions(given)
        shown = [self.schema.columns[other] for other in others]
        if not all_own(law):
            raise ModelError("this law is not of this library, and would see every row", hint="a ColumnLaw")
        law = law.remade()  # nothing that was put into it by hand is handed rows
        fits = law.given == tuple(other.size for other in shown) and law.cells == self.schema[column].size
        if not fits or (any(other.gaps for other in shown) and not self._filled):
            raise ModelError(
                f"this law of column {column!r} is for others than {', '.join(map(repr, given))}, or they have gaps",
                hint="the columns and cells that it was trained with; fill these first",
            )

        def fill(columns: tuple[Codes, ...], chance: Chance) -> tuple[Codes, ...]:
            codes, draws = columns[place], chance()
            lacking = np.flatnonzero(codes >= law.cells)
            rows = np.array([columns[other][lacking] for other in others], dtype=np.int64)
            filled = codes.copy()
            filled[lacking] = law.draw(rows.reshape(len(others), len(lacking)).T, draws[lacking])
            return (*columns[:place], filled, *columns[place + 1 :])

        return self._filled_by(fill, only=column)

    def _filled_by(
        self, fill: Callable[[tuple[Codes, ...], Chance], tuple[Codes, ...]], *, only: str | None = None
    ) -> PrivateTable:
        check_held(self, "filling gaps")

        # A gap is filled with a bin, and that with one of its cells. The new codes are as wide as those that were read.
        wanted = set(self.schema.positions(self.schema.names if only is None else [only]))
        finer = [found for found in grouping(self.schema) if found[0] in wanted]
        grouped = {place: (fine.size, fine.group(told)) for place, fine, told in finer}

        def filled(both: list[Any]) -> Memory:
            cells, rows = (held(engine) for engine in both)
            chance = secret_chance(rows.rows)
            columns = [
                drawn if place in wanted else codes
                for place, (drawn, codes) in enumerate(zip(fill(rows.columns, chance), cells.columns, strict=True))
            ]
            for place, (size, bins) in grouped.items():
                inside = draw_inside(columns[place], bins[:size], chance)
                codes = cells.columns[place]
                columns[place] = np.where(codes < size, codes, inside).astype(codes.dtype)
            return Memory(tuple(columns), rows.rows)

        pair: Private[list[Any], None] = gather([self._cells, self._rows], key=self._key)
        if only is None:
            return self._with(filled, source=pair, filled=True)
        schema = self.schema.with_columns({only: self.schema[only].without_gaps()})
        return self._with(filled, source=pair, schema=schema, drawn=True)

    def clamp(self, column: str, *, lowest: object, highest: object) -> PrivateTable:
        """Move cells below `lowest` or above `highest` (public cells) to these. Row by row."""
        (place,) = self.schema.positions([column])
        chosen = self.schema.columns[place]
        low, high = chosen.code_of(lowest), chosen.code_of(highest)
        if not low <= high:
            raise SchemaError(f"column {column!r}: {lowest!r} is above {highest!r}", hint="swap them")
        code = np.arange(chosen.extended_size)
        inside = np.flatnonzero(self._in_cells({place: (code >= low) & (code <= high)})[place])
        fine = self.schema.fine.columns[place]
        code = np.arange(fine.extended_size)
        moved = np.where(code < fine.values_size, np.clip(code, inside[0], inside[-1]), code)

        return self._with(lambda engine: engine.recode({place: moved}))

    def _sealed(self, function: Callable[[Engine], T], *, distance: D, reads: Columns | None) -> Private[T, D]:
        """A sealed function of the rows, computed at most once."""
        if reads is not None and not isinstance(distance, Sampled):  # of training no such figure is told
            reads = self._told(reads)
        return transform(self._rows, once(function), distance=distance, reads=reads, key=self._key)

    def _with(
        self,
        function: Callable[[Any], Engine],
        *,
        source: Private[Any, Any] | None = None,
        schema: Schema | None = None,
        required: Iterable[str] = (),
        filled: bool = False,
        drawn: bool = False,
    ) -> PrivateTable:
        """A table whose cells are a stable function of this one's."""
        return PrivateTable(
            transform(
                self._cells if source is None else source,
                once(function),
                distance=self.protect,
                reads=None,
                key=self._key,
            ),
            schema or self.schema,
            self.ledger,
            engine=self._engine if source is None else Memory,
            required=self._required if self._filled else self._required | lacking(self.schema, required),
            filled=self._filled or filled,
            drawn=self._drawn or drawn,
            query_digest=self._query_digest,
        )

    def __repr__(self) -> str:
        return f"<PrivateTable {self.schema.name!r}: {', '.join(self.schema.names)}; {self.ledger!r}>"


def grouping(schema: Schema) -> list[tuple[int, _Binned, _Binned]]:
    """The columns whose cells are finer than their bins: where each stands, told by its cells, and as it is told."""
    pairs = zip(schema.fine.columns, schema.columns, strict=True)
    return [
        (place, fine, told)
        for place, (fine, told) in enumerate(pairs)
        if isinstance(fine, _Binned) and isinstance(told, _Binned) and fine.size > told.size
    ]


def check_question(question: object) -> None:
    """Refuse what is no question of ours: another would say what each row adds, which is proved for ours alone."""
    if not (is_own(question) and callable(getattr(question, "answer", None))):
        shown = repr(question) if isinstance(question, str | type) else f"a {type(question).__name__}"  # never a table
        raise QuestionError(
            f"{shown} is not a question",
            hint=Hint("ask ", Call("Mean", "income")) | Hint("read text with ", Call("parse_question", "mean(income)")),
        )


def places(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Where each of these random words stands among all; equal ones in the order of rows."""
    ranks = np.empty(words.size, dtype=np.int64)
    ranks[np.argsort(words, kind="stable")] = np.arange(words.size)
    return ranks


def check_held(table: PrivateTable, what: str) -> None:
    """Refuse, by a public fact, what needs all rows at hand if they are not: asked before anything is charged."""
    engine = table._engine  # noqa: SLF001 one room
    if not issubclass(engine, HoldsRows):
        raise EngineError(
            f"{what} needs all rows at hand, and the engine {engine.__name__.lower()} does not hold them",
            hint=Hint("pass ", Argument("engine", "memory"))
            | Hint("choose a treatment of gaps that needs counts alone"),
        )


def held(engine: Engine) -> Batch:
    """All rows of an engine whose class has passed `check_held`."""
    return cast("HoldsRows", engine).whole()


def lacking(schema: Schema, names: Iterable[str]) -> Columns:
    """Those of the columns that may be missing: on the others every row is observed, so nothing hangs on them."""
    return frozenset(name for name in names if schema[name].gaps)


def once(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Compute a sealed intermediate result at most once: its argument is the same at every call."""
    results: list[T] = []

    def compute(value: Any) -> T:
        if not results:
            results.append(function(value))
        return results[0]

    return compute


def read(
    data: Any,
    schema: Schema,
    *,
    protect: Rows,
    ledger: str | Path | None = None,
    budget: Budget | None = None,
    encoding: str | None = None,
    engine: str | None = None,
    query: str | None = None,
) -> PrivateTable:
    """Read a sensitive table and seal it.

    Args:
        data: a path (CSV, TSV, gzip, Parquet), a pattern that names several files (`big/*.parquet`), or a pandas,
            polars or Arrow table; the URL of a PostgreSQL database; a Spark DataFrame.
        schema: what is publicly known of it.
        protect: the protected unit, `Rows(1)` or the most rows that one person has.
        ledger: the file that remembers what was spent on this table; it is created if there is none. By default it
            lies beside the data, `people.ledger` for `people.csv`; a frame lies nowhere, so that it must be named.
            A file that was paid for under one ledger takes no other.
        budget: the promise; needed for a new ledger, and must agree with an existing one.
        encoding: of a text file, by default the schema's, else UTF-8.
        engine: where the rows are while they are counted: "memory"; "disk", where files of any size stay and are read
            once for each round; "duckdb", the same with Parquet read by DuckDB, for files with very large row groups;
            "sql"; "spark". By default where they lie, a single file in memory. Counts are the same.
        query: what is read from a database, a SELECT. The table is what it gives: each person is in at most as many of
            its rows as `protect` says, and changes no other.

    A cell outside the schema follows the schema's public rule. Errors are raised here, for the holder's
    eyes, before anything is released.
    """
    if isinstance(schema, Draft) or (isinstance(schema, Schema) and schema.unchecked):
        raise SchemaError(
            "this schema is a draft: its levels and bounds were read from the data",
            hint="check each marked fact against a codebook, then take the line 'unchecked = true' away",
        )
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"schema is a {type(schema).__name__}", hint=Hint("pass ", Call("Schema.read", "people.toml"))
        )
    if not isinstance(protect, Rows):
        raise SchemaError(
            f"protect is {protect!r}",
            hint=Hint("pass ", Argument("protect", Call("Rows", 1)), ", or the most rows that one person has"),
        )
    check_budget(budget)
    if protect.at_most < schema.rows_per_person:
        raise SchemaError(
            f"the schema says {plural(schema.rows_per_person, 'row')} per person, but {protect} would be protected",
            hint=Hint("pass ", Argument("protect", Call("Rows", schema.rows_per_person))),
        )
    if budget is not None and budget.ground_truth is not None:
        budget = replace(budget, ground_truth=_about(schema, budget.ground_truth))
    possible_cells(cut_schema(schema, {}, 1))  # refuses rules that cannot be read, or that no row keeps
    check_data(data, engine)
    place = ledger_beside(data) if ledger is None else Path(ledger)
    coverage = check_not_covered(data_files(data, engine), place, ledger_beside)
    check_promised(place, budget)  # before rows are read
    held = opened(data, schema, engine=engine, query=query, encoding=encoding)
    account = Ledger.attach(place, table=schema.name, protect=protect, budget=budget, gaps=schema.gap_rules)
    register(data_files(data, engine), account, coverage)
    rows = Private(lambda: held, distance=protect, reads=None, key=account._key)  # noqa: SLF001 sealed here
    # The query itself is the holder's business.
    digest = None if query is None else sha256(query.encode()).hexdigest()
    return PrivateTable(rows, schema, account, engine=type(held), query_digest=digest)


def check_data(data: Any, engine: str | None = None) -> None:
    """Refuse a path at which there is no file, before anything else is looked at."""
    if is_file(data, engine):
        check_there(Path(data))


def ledger_beside(data: Any) -> Path:
    """Where the ledger of a file lies unless another place is named: beside it, so that every release finds it.

    That of several files lies beside their folder: another pattern of the same files is no other table.

    >>> ledger_beside("survey/people.csv.gz").as_posix()
    'survey/people.ledger'
    >>> ledger_beside("survey/people/*.parquet").as_posix()
    'survey/people.ledger'
    """
    if not isinstance(data, str | Path) or is_database(data) or (is_url(data) and not exists(data)):
        raise LedgerError(
            f"a {'database' if is_database(data) else type(data).__name__} has no place beside it for its ledger",
            hint=LEDGER,
        )
    path = Path(data)
    if is_pattern(data):
        folder = split_pattern(data)[0]
        if os.path.islink(folder) or folder.name in ("", ".."):  # noqa: PTH114 as below
            folder = folder.resolve()
        if not folder.name:
            raise LedgerError("these files lie in no folder that has a name", hint=LEDGER)
        return folder.with_name(f"{folder.name}.ledger")
    if os.path.islink(path) or not path.name:  # noqa: PTH114 Path.is_symlink raises for a name that is too long
        path = path.resolve()  # a link to the data is no other table
    if not path.name:
        raise LedgerError(f"{path} is a folder without a name", hint="pass a file")
    known = [
        ending for ending in (*TEXT_ENDINGS, *PARQUET_ENDINGS, *EXCEL_ENDINGS) if path.name.lower().endswith(ending)
    ]
    ending = max(known, key=len, default=path.suffix)
    return path.with_name(f"{path.name[: len(path.name) - len(ending)]}.ledger")


def _about(schema: Schema, assumption: Assumption) -> Assumption:
    """The assumption about the columns of this schema: only those that may be missing have gaps."""
    gappy = lacking(schema, schema.names)
    named = over(assumption, gappy)
    for column in named.rates if isinstance(named.rates, Mapping) else ():
        schema.positions([column])
        if column not in gappy:
            raise SchemaError(
                f"column {column!r} may not be missing, but a rate of gaps is assumed for it",
                hint="leave it out of the assumption, or say may_be_missing = true in the schema",
            )
    return named
