"""The sealed table and its stable transformations.

A transformation is *stable* if adding or removing one protected unit (up to k rows) changes its result by at most the
distance that it declares. The `reads` of a result are columns such that a row with a gap in one of them does not
change the result. docs/proofs/stability.md proves both (sections 3 and 4: distances; section 5: `reads`).
tests/property/test_stability.py tests each transformation.

The cells of a column are integer codes from 0. Codes below `values_size` are levels or bins. Codes below `size` are
observed cells: these, and *not applicable*. Codes below `extended_size` are all cells: these, and the kinds of gaps.
`schema.finest` is the same schema before numbers are binned. An `Engine` holds the codes of rows, in memory or
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gapless.data import filling
from gapless.data.engines.memory import Engine, Memory, RowAccess, count_gap_patterns, rows_in_memory
from gapless.data.filling import ColumnFiller, Filler, RowRandomness, bin_of_cell
from gapless.data.neighbors import Links, Matching, random_ranks
from gapless.errors import Argument, Call, EngineError, Hint, ModelError, QuestionError, SchemaError, SealedError
from gapless.privacy import noise
from gapless.privacy.budget import Rows, Spend, Unit
from gapless.privacy.grant import Grant
from gapless.privacy.ledger import Ledger
from gapless.privacy.private import L1, Columns, Private, Sampled, Sealed, gather, transform
from gapless.schema import Schema
from gapless.text import check_one_of, listing
from gapless.types import Codes, Integers, is_trusted

WhichRows: TypeAlias = Literal["observed", "extended"]

T = TypeVar("T")
D = TypeVar("D")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class Question(Protocol[A_co]):
    """A question that computes its own answer from a sealed table, within a grant."""

    def answer(self, table: PrivateTable, grant: Grant) -> A_co:
        """Release what the answer needs, and compute it."""

    def answer_together(
        self, table: PrivateTable, questions: Sequence[Question[Any]], *, spend: Spend
    ) -> Sequence[A_co]:
        """Answer several questions, including this one: all of them or none."""


class PrivateTable(Sealed):
    """A table that cannot be inspected, only measured under its ledger.

    No public method takes a function, and none passes rows to an object whose class this library does not define.
    Questions are answered from sums over rows, which are in `data/sums.py`.
    """

    __slots__ = (
        "_bin_of_cell",
        "_donor_links",
        "_engine",
        "_is_filled",
        "_key",
        "_ledger",
        "_query_digest",
        "_random_order",
        "_reads_every_row",
        "_required",
        "_rows",
        "_schema",
        "_unbinned_rows",
    )

    def __init__(
        self,
        unbinned_rows: Private[Engine, Rows],
        schema: Schema,
        ledger: Ledger,
        *,
        engine: type[Engine],
        required: Columns = frozenset(),
        is_filled: bool = False,
        reads_every_row: bool = False,
        query_digest: str | None = None,
    ) -> None:
        schema.check_confirmed()  # here, so that also bins that come later cannot be read from the data
        self._unbinned_rows = unbinned_rows  # coded by `schema.finest`
        self._schema = schema
        self._ledger = ledger
        self._engine = engine  # its class is public, so an operation that it lacks is refused before any charge
        self._key = ledger._key  # noqa: SLF001 needed to transform sealed values
        self._query_digest = query_digest
        self._required = required  # rows with a gap in one of these columns were left out
        self._is_filled = is_filled  # by `fill` or `fill_given`: a row is read whether or not it had gaps
        self._reads_every_row = reads_every_row  # after `fill_column`: see `_declared_reads`
        self._bin_of_cell = bins = bin_of_cell(schema)  # by position: the bin of each finest cell
        # Codes of `schema`: the bin of each cell, row by row, so the distance is unchanged.
        self._rows = transform(
            unbinned_rows,
            cached(lambda engine: engine.recode(bins)),
            distance=Rows(self.protect.at_most),
            reads=None,
            key=self._key,
        )
        # A secret random order of the rows, which breaks ties between donors; drawn once, when first needed.
        self._random_order = self._seal(_rank_randomly, distance=None, reads=None)
        # A cache, filled by data/sums.py. Key: the columns to fill, and how donors are found (donors are similar rows
        # whose cells fill a gap). Value: the rows with gaps with their donors, and how many of them one row can affect.
        self._donor_links: dict[tuple[tuple[str, ...], Matching], Private[tuple[Links, int], None]] = {}

    def __init_subclass__(cls) -> None:
        """Refuse subclasses: they could state a smaller protected unit."""
        raise SealedError(
            f"{cls.__name__} would be a subclass of PrivateTable, which must have none",
            hint="write a function that takes a table",
        )

    @property
    def schema(self) -> Schema:
        """The public schema. Read-only: distances and `reads` depend on it."""
        return self._schema

    @property
    def ledger(self) -> Ledger:
        """The ledger. Read-only: distances depend on its protected unit."""
        return self._ledger

    @property
    def protect(self) -> Unit:
        """The protected unit."""
        return self.ledger.protect

    @property
    def is_filled(self) -> bool:
        """Whether all gaps were filled."""
        return self._is_filled

    @property
    def query_digest(self) -> str | None:
        """The SHA-256 of the database query (the query itself is not public); None for other sources."""
        return self._query_digest

    @overload
    def ask(self, question: Question[A], *, spend: Spend) -> A: ...

    @overload
    def ask(self, question: Sequence[Question[A]], *, spend: Spend) -> Sequence[A]: ...

    def ask(self, question: Question[A] | Sequence[Question[A]], *, spend: Spend) -> A | Sequence[A]:
        """Answer one question or several: `people.ask(Mean("income"), spend="10%")`.

        Several questions share `spend` evenly. If one of them cannot be answered, nothing is charged.
        """
        if isinstance(question, Sequence) and not isinstance(question, str):
            if not question:
                raise QuestionError(
                    "no question was asked", hint=Hint("ask ", Call("gapless.Mean", "income"), ", or several questions")
                )
            for item in question:
                check_question(item)
            return question[0].answer_together(self, question, spend=spend)
        check_question(question)
        return question.answer(self, self.ledger.grant(spend, to="ask"))

    def marginal(self, columns: str | Sequence[str], *, rows: WhichRows = "observed") -> Private[Integers, L1]:
        """The contingency table of these columns: the number of rows in each combination of their cells.

        `rows="observed"` leaves out rows with a gap in one of the columns; `rows="extended"` counts every
        row, with gaps as additional cells. Distance: a row is in one cell, so k rows change the counts by
        at most k in L1. Without columns: the number of rows.
        """
        return self.marginals([columns], rows=rows)[0]

    def marginals(
        self, columns: Sequence[str | Sequence[str]], *, rows: WhichRows = "observed"
    ) -> list[Private[Integers, L1]]:
        """Several marginals, each a separate value, all counted in one pass when the first is opened."""
        return self._count_marginals(columns, rows)[1]

    def _count_marginals(
        self, columns: Sequence[str | Sequence[str]], rows: WhichRows
    ) -> tuple[Private[list[Integers], None], list[Private[Integers, L1]]]:
        """All marginals as one sealed value without a distance, and each marginal as a separate value."""
        check_one_of("rows", rows, ("observed", "extended"), error=SchemaError)
        chosen = [self.schema.positions((names,) if isinstance(names, str) else names) for names in columns]
        sizes = [column.extended_size for column in self.schema.columns]
        # A row with a code that is not below `counted_below` in one of the columns is left out.
        counted_below = sizes if rows == "extended" else [column.size for column in self.schema.columns]
        counts = self._seal(lambda engine: engine.count(chosen, sizes, counted_below), distance=None, reads=None)
        marginals = []
        for number, positions in enumerate(chosen):
            needed = [self.schema.names[position] for position in positions] if rows == "observed" else ()
            reads = self._declared_reads(self._observed_on(needed))
            distance = L1(self.protect.at_most)
            marginals.append(transform(counts, itemgetter(number), distance=distance, reads=reads, key=self._key))
        return counts, marginals

    def _observed_on(self, needed: Iterable[str] = ()) -> Columns:
        """The columns on which a row must be observed to count in a value that needs these columns."""
        return self._required if self._is_filled else self._required | columns_with_gaps(self.schema, needed)

    def _declared_reads(self, observed_on: Columns) -> Columns | None:
        """The `reads` of a value of rows observed on these columns; None means that every row is read.

        After `fill_column` it is None, which is always safe. The columns would be valid too, and cost less
        (docs/proofs/ground_truth_pld.md, section 2).
        """
        return None if self._reads_every_row else observed_on or None

    def gap_patterns(self, columns: Sequence[str], *, among: Sequence[Sequence[bool]] = ((),)) -> Private[Integers, L1]:
        """The number of rows with each pattern of gaps in these columns.

        A prefix says for each of the first columns whether it is missing (True). Only rows that match one of the public
        prefixes in `among` are counted; these differ and are equally long. The result has a line of counts for each
        prefix. Within a line the pattern of the remaining columns, read as a binary number (missing = 1, first column
        first), is the position. Distance: a row has one pattern. `reads` stay.
        """
        positions = self.schema.positions(columns)
        prefixes = [tuple(map(bool, prefix)) for prefix in among]  # plain ones, since they are compared with rows
        if len(set(prefixes)) < len(prefixes) or len(set(map(len, prefixes))) > 1:
            raise SchemaError(
                f"among = {prefixes!r} has a prefix twice, or prefixes of several lengths",
                hint="pass each prefix once, all of one length",
            )
        sizes = [self.schema.columns[position].size for position in positions]
        return self._seal(
            lambda engine: count_gap_patterns(engine.batches(positions), sizes, prefixes),
            distance=L1(self.protect.at_most),
            reads=self._required,
        )

    def select(self, columns: Sequence[str]) -> PrivateTable:
        """The same rows with some of the columns. Row by row: distance and `reads` are unchanged."""
        positions = self.schema.positions(columns)
        return self._derive(lambda engine: engine.select(positions), schema=self.schema.select(columns))

    def rebin(self, schema: Schema) -> PrivateTable:
        """The same rows under a public or released schema with other bins for the same cells.

        Only the bin of each cell is computed, row by row, when it is needed: distance and `reads` are unchanged.
        """
        if not (is_trusted(schema) and all(map(is_trusted, schema.columns))):
            raise SchemaError(
                "the schema and its columns must be objects of gapless itself, not of subclasses",
                hint=Hint("pass a schema from ", Call("Schema.read", "people.toml")),
            )
        self.schema.check_same_cells(schema)
        return self if schema == self.schema else self._derive(lambda engine: engine, schema=schema)

    def where(self, column: str, cells: Iterable[object]) -> PrivateTable:
        """The rows whose cell in `column` is one of these public `cells`, named as in `schema[column].cells`.

        In a column with bins these are its bins. Each row is kept or not by itself, so the distance is unchanged. Rows
        with a gap in `column` are left out, so `column` is added to `reads`.
        """
        (position,) = self.schema.positions([column])
        kept = np.zeros(self.schema.columns[position].extended_size, dtype=np.bool_)
        kept[[self.schema.columns[position].code_of(cell) for cell in cells]] = True
        return self._derive(lambda engine: engine.keep(self._mask_cells({position: kept})), required={column})

    def complete_rows(self) -> PrivateTable:
        """The rows without any gap. Row by row: the distance is unchanged; all columns are added to `reads`."""
        observed = observed_codes(self.schema, self.schema.names)
        return self._derive(lambda engine: engine.keep(self._mask_cells(observed)), required=self.schema.names)

    def _mask_cells(self, masks: Mapping[int, NDArray[np.bool_]]) -> dict[int, NDArray[np.bool_]]:
        """Masks over the cells of columns, from masks over their bins."""
        return {position: mask[self._bin_of_cell.get(position, slice(None))] for position, mask in masks.items()}

    def fill(self, distributions: Sequence[NDArray[np.float64]]) -> PrivateTable:
        """Draw every gap from its column's public or released distribution over observed cells.

        Each row is mapped by itself, with independent random numbers, so the distance is unchanged. From here on a row
        is read whether or not it has gaps: nothing is added to `reads`.
        """
        checked = filling.check_distributions(self.schema, distributions)
        return self._fill_rows(lambda columns, randomness: filling.fill_gaps(columns, checked, randomness))

    def fill_given(self, model: Filler) -> PrivateTable:
        """Draw every gap from a fitted model, given the other cells of its row. Distance and `reads` as for `fill`.

        The model consists of released and public values and maps each row by itself, with independent random numbers.
        Only models of this library are accepted: another could keep the rows that it fills.
        """
        model = filling.trusted_model(model)  # a copy of plain numbers; refuses models of other libraries
        sizes, model_sizes = ([(c.name, c.size) for c in schema.columns] for schema in (self.schema, model.schema))
        if sizes == model_sizes:
            return self._fill_rows(lambda columns, randomness: filling.fill_given(columns, model, randomness))
        if model.schema.finest.columns == self.schema.finest.columns:  # another release learned its bins
            return self.rebin(model.schema).fill_given(model).rebin(self.schema)
        raise SchemaError(
            "the model has other columns or cells than the table", hint="fit the model on a table with the same schema"
        )

    def fill_column(self, column: str, distribution: ColumnFiller, *, given: Sequence[str]) -> PrivateTable:
        """Draw every gap of one column from a released distribution given other columns, which must have no gaps.

        The distribution consists of released and public values and maps each row by itself, with independent random
        numbers. So the distance is unchanged; counts and sums read every row from here on. Only distributions of this
        library are accepted.
        """
        (position,), others = self.schema.positions([column]), self.schema.positions(given)
        if any(self.schema.columns[other].gaps for other in others) and not self._is_filled:
            raise ModelError(
                f"column {column!r} would be filled given {listing(given)}, but these columns must have no gaps",
                hint=Hint("pass columns without gaps as ", Argument("given")),
            )
        filler = filling.trusted_column(distribution, self.schema, position, others)
        return self._fill_rows(
            lambda columns, randomness: filling.fill_column(columns, filler, position, others, randomness), only=column
        )

    def _fill_rows(
        self, fill: Callable[[tuple[Codes, ...], RowRandomness], tuple[Codes, ...]], *, only: str | None = None
    ) -> PrivateTable:
        """Fill the gaps of all columns, or of `only` one: draw a bin, then one of its cells."""
        check_in_memory(self, "filling gaps")
        wanted = set(self.schema.positions(self.schema.names if only is None else [only]))
        finest = self.schema.finest.columns
        # By position: the number of observed cells, and the bin of each cell.
        bins_by_column = {i: (finest[i].size, bins) for i, bins in self._bin_of_cell.items() if i in wanted}

        def filled(engines: list[Any]) -> Memory:
            unbinned, binned = (rows_in_memory(engine) for engine in engines)
            randomness = filling.secret_row_randomness(binned.rows)
            filled_codes = fill(binned.columns, randomness)  # in columns with bins, the bin of each row
            drawn = [filled_codes[i] if i in wanted else codes for i, codes in enumerate(unbinned.columns)]
            # An observed cell stays; a gap gets a cell of the bin that was drawn for it.
            return Memory(filling.fill_cells(unbinned.columns, drawn, bins_by_column, randomness), binned.rows)

        both: Private[list[Any], None] = gather([self._unbinned_rows, self._rows], key=self._key)
        if only is None:
            return self._derive(filled, source=both, is_filled=True)
        schema = self.schema.with_columns({only: self.schema[only].without_gaps()})
        return self._derive(filled, source=both, schema=schema, reads_every_row=True)

    def clamp(self, column: str, *, lowest: object, highest: object) -> PrivateTable:
        """Replace cells below `lowest` or above `highest` (public cells) by these.

        Row by row; gaps and *not applicable* stay. So distance and `reads` are unchanged.
        """
        (position,) = self.schema.positions([column])
        binned, unbinned = self.schema.columns[position], self.schema.finest.columns[position]
        low, high = binned.code_of(lowest), binned.code_of(highest)
        if not low <= high:
            raise SchemaError(
                f"column {column!r} is clamped to [{lowest!r}, {highest!r}], but the lower end must come first",
                hint=Hint("pass ", Argument("lowest", highest), " and ", Argument("highest", lowest)),
            )
        codes = np.arange(binned.extended_size)
        kept = np.flatnonzero(self._mask_cells({position: (codes >= low) & (codes <= high)})[position])
        codes = np.arange(unbinned.extended_size)
        clamped = np.where(codes < unbinned.values_size, np.clip(codes, kept[0], kept[-1]), codes)
        return self._derive(lambda engine: engine.recode({position: clamped}))

    def _seal(self, function: Callable[[Engine], T], *, distance: D, reads: Columns | None) -> Private[T, D]:
        """A sealed function of the rows, computed once.

        After `fill_column` values read every row, except those for training (`Sampled`), which keep their `reads`. Of
        all guarantees only the Rényi bound uses these (docs/proofs/ground_truth.md, section 5).
        """
        if reads is not None and not isinstance(distance, Sampled):
            reads = self._declared_reads(reads)
        return transform(self._rows, cached(function), distance=distance, reads=reads, key=self._key)

    def _derive(
        self,
        function: Callable[[Any], Engine],
        *,
        source: Private[Any, Any] | None = None,
        schema: Schema | None = None,
        required: Iterable[str] = (),
        is_filled: bool = False,
        reads_every_row: bool = False,
    ) -> PrivateTable:
        """A table whose rows are a stable function of the rows of this one, or of `source`, at the same distance."""
        source, engine = (self._unbinned_rows, self._engine) if source is None else (source, Memory)
        return PrivateTable(
            transform(source, cached(function), distance=Rows(self.protect.at_most), reads=None, key=self._key),
            schema or self.schema,
            self.ledger,
            engine=engine,
            required=self._observed_on(required),
            is_filled=self._is_filled or is_filled,
            reads_every_row=self._reads_every_row or reads_every_row,
            query_digest=self._query_digest,
        )

    def __repr__(self) -> str:
        return f"<PrivateTable {self.schema.name!r}: {', '.join(self.schema.names)}; {self.ledger!r}>"


def _rank_randomly(engine: Engine) -> Integers:  # the ranks of 64 random bits for each row
    return random_ranks(noise.current().uniform_words(rows_in_memory(engine).rows))


def check_question(question: object) -> None:
    """Refuse questions that this library does not define: the sensitivity is proved for its own questions only."""
    if not (is_trusted(question) and callable(getattr(question, "answer", None))):
        shown = repr(question) if isinstance(question, str | type) else f"a {type(question).__name__}"  # never a table
        raise QuestionError(
            f"{shown} is not a question",
            hint=Hint("ask ", Call("gapless.Mean", "income"))
            | Hint("read text with ", Call("gapless.parse_question", "mean(income)")),
        )


def check_in_memory(table: PrivateTable, operation: str) -> None:
    """Refuse an operation that needs all rows in memory if the engine does not hold them, before any charge."""
    engine = table._engine  # noqa: SLF001 same package
    if not issubclass(engine, RowAccess):
        raise EngineError(
            f"{operation} needs all rows in memory, but the engine {engine.__name__.lower()} does not hold them",
            hint=Hint("read the table with ", Argument("engine", "memory"))
            | Hint("choose a treatment of gaps that needs only counts"),
        )


def columns_with_gaps(schema: Schema, names: Iterable[str]) -> Columns:
    """Those of these columns that may have gaps; on the others every row is observed."""
    return frozenset(name for name in names if schema[name].gaps)


def observed_codes(schema: Schema, names: Iterable[str]) -> dict[int, NDArray[np.bool_]]:
    """For each of these columns that may have gaps, by position: which of its codes are observed cells."""
    columns = [(position, schema.columns[position]) for position in schema.positions(names)]
    return {position: np.arange(column.extended_size) < column.size for position, column in columns if column.gaps}


def cached(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Cache a sealed intermediate result; its argument is the same at every call."""
    results: list[T] = []

    def compute(value: Any) -> T:
        if not results:
            results.append(function(value))
        return results[0]

    return compute
