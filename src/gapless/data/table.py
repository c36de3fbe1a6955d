"""The public table: synthetic rows, or data that are not sensitive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from gapless.data.derived import minuend_cells
from gapless.data.engines.memory import Memory
from gapless.data.io.encode import code_type, encode_public
from gapless.data.io.source import read_parts
from gapless.data.io.stat_output import stored_frame, written_ending
from gapless.data.io.table_files import is_parquet, is_text_in_parquet, spelled, write_frame
from gapless.data.private_table import WhichRows
from gapless.draw.page import small_table
from gapless.errors import ReadError, SchemaError, requires_extra
from gapless.schema import Boolean, Column, Date, DateTime, Integer, Number, Ordinal, Schema
from gapless.schema.columns import LevelColumn
from gapless.schema.difference import difference_of
from gapless.schema.gap_codes import as_text
from gapless.schema.numeric import BinnedColumn
from gapless.text import plural, shortened
from gapless.types import Codes, whole

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_LETTERS = 10, 30, 40  # in a notebook
WEIGHT = "weight"  # the name of the column that weights are in files and frames


class Table:
    """Public rows, stored as codes. Numbers and datetimes that were read are kept; others are drawn within their bins.

    The same table always gives the same values: `to_pandas` and `write` agree, and a part of a table has the values of
    the whole table.

    >>> from gapless.schema import Categorical, Integer
    >>> schema = Schema("people", [Integer("age", bounds=(0, 99)), Categorical("sex", ["F", "M"], may_be_missing=True)])
    >>> people = Table.read(pl.DataFrame({"age": [34, 71, 8], "sex": ["F", None, "M"]}), schema)
    >>> people["age"].to_list(), people[1:], list(people.head(1))
    ([34, 71, 8], <Table 'people': 2 rows, 2 columns>, [{'age': 34, 'sex': 'F'}])

    Rows may have weights, with mean 1 (`with_weights`): in files and frames a column `weight`, the last one.
    """

    def __init__(
        self,
        schema: Schema,
        codes: Sequence[NDArray[Any]],
        *,
        rows: int,
        seed: int = 0,
        values: Sequence[NDArray[np.float64] | None] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.schema = schema
        self.weights = weights
        self.codes: tuple[Codes, ...] = tuple(
            np.asarray(array).astype(code_type(column), copy=False)
            for array, column in zip(codes, schema.columns, strict=True)
        )
        self.rows = rows
        self._seed = seed
        # The numbers of each numeric column, NaN where a number is to be drawn.
        self._values = (None,) * len(self.codes) if values is None else tuple(values)

    @classmethod
    def read(cls, data: Any, schema: Schema | str | Path, *, encoding: str | None = None) -> Table:
        """Read a public table. For a sensitive one use `gapless.read`."""
        if isinstance(schema, str | Path):
            schema = Schema.read(schema)
        weights: list[pl.Series] = []
        frames = read_parts(data, schema, encoding=encoding)
        encoded, values = encode_public(_without_weights(frames, schema, weights), schema)
        table = cls(schema, encoded.columns, rows=encoded.rows, values=values)
        return table.with_weights(_numbers(weights)) if weights else table

    def with_codes(self, codes: Sequence[NDArray[Any]], *, schema: Schema, seed: int = 0) -> Table:
        """The same rows with other codes, under a schema with the same values; an unchanged cell keeps its value."""
        values = self._numeric_values(range(len(self.codes)))
        for known, old, new in zip(values, self.codes, codes, strict=True):
            if known is not None:
                known[old != new] = np.nan
        return Table(schema, codes, rows=self.rows, seed=seed, values=values, weights=self.weights)

    @property
    def seed(self) -> int:
        """The seed of values that are drawn from their bins."""
        return self._seed

    @property
    def known_values(self) -> tuple[NDArray[np.float64] | None, ...]:
        """The numbers of each column, NaN where one is drawn from its bin; None where all are."""
        return self._values

    def with_values(self, values: Mapping[int, NDArray[np.float64]]) -> Table:
        """The same rows with these numbers in numeric columns, by position; each must be in the bin of its row."""
        known = [values.get(place, old) for place, old in enumerate(self._values)]
        return Table(self.schema, self.codes, rows=self.rows, seed=self._seed, values=known, weights=self.weights)

    def with_weights(self, weights: ArrayLike) -> Table:
        """The same rows with weights, such as importance weights, which are scaled to a mean of 1.

        `compare` and its parts count rows by them, and files and frames have them as a column `weight`.
        """
        if WEIGHT in (*self.schema.names, *self.schema.ignore):
            raise SchemaError(
                f"weights cannot be added: the schema already has a column {WEIGHT!r}",
                hint="rename the column in the schema and in the data",
            )
        given = check_weights(self.rows, weights)
        given = given * (self.rows / given.sum()) if self.rows else given
        given.setflags(write=False)
        return Table(self.schema, self.codes, rows=self.rows, seed=self._seed, values=self._values, weights=given)

    def resample(self, rows: int | None = None, *, seed: int = 0) -> Table:
        """Rows drawn in proportion to their weights, for tools that take no weights; by default as many as there are.

        Systematic sampling: a row of share p is drawn ⌊np⌋ or ⌈np⌉ times. The order is random.
        """
        many = self.rows if rows is None else whole("rows", rows, error=ReadError)
        if not self.rows:
            raise ReadError("the table has no rows to draw from", hint="use a table with at least one row")
        rng = np.random.default_rng(seed)
        below = np.cumsum(np.ones(self.rows) if self.weights is None else self.weights)
        points = (np.arange(many) + rng.random()) * (below[-1] / max(many, 1))
        drawn = rng.permutation(np.minimum(np.searchsorted(below, points, side="right"), self.rows - 1))
        values = [None if known is None else known[drawn] for known in self._numeric_values(range(len(self.codes)))]
        return Table(self.schema, [codes[drawn] for codes in self.codes], rows=many, values=values)

    def rebin(self, schema: Schema) -> Table:
        """The same rows, values and weights under a schema with other bins for its numeric columns."""
        if schema.columns == self.schema.columns:
            return self
        self.schema.check_same_cells(schema)
        codes: list[NDArray[Any]] = list(self.codes)
        values = list(self._values)
        for place, (old, new) in enumerate(zip(self.schema.columns, schema.columns, strict=True)):
            if old != new and isinstance(new, BinnedColumn) and (known := self.numeric_values(place)) is not None:
                states = self.codes[place].astype(np.int64) - old.values_size + new.values_size
                codes[place] = np.where(np.isnan(known), states, new.bin_of(np.nan_to_num(known)))
                values[place] = known
        return Table(schema, codes, rows=self.rows, seed=self._seed, values=values, weights=self.weights)

    # ------------------------------------------------------------------ parts

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else ", weighted"
        return f"<Table {self.schema.name!r}: {self._size}{weighted}>"

    @property
    def _size(self) -> str:
        return f"{plural(self.rows, 'row')}, {plural(len(self.schema.columns), 'column')}"

    def _repr_html_(self) -> str:
        """The first rows, for a notebook; the caption says how many there are in all."""
        head = self.head(SHOWN_ROWS)[self.schema.names[:SHOWN_COLUMNS]]
        columns = head.schema.file_columns
        cells = [_cells(drawn[0], drawn[1], _polars_series(*drawn)) for drawn in head._in_file()]  # noqa: SLF001 a table too
        caption = f"{self._size} of '{self.schema.name}'"
        if (head.rows, len(columns)) != (self.rows, len(self.schema.columns)):
            caption += f"; shown: the first {head._size}"  # noqa: SLF001 a table too
        names = [shortened(column.name, SHOWN_LETTERS) for column in columns]
        return small_table(names, [column.kind for column in columns], list(zip(*cells, strict=True)), caption=caption)

    def head(self, rows: int = 5) -> Table:
        """The first rows."""
        return self[: whole("rows", rows, error=ReadError)]

    @overload
    def __getitem__(self, key: str) -> pl.Series: ...
    @overload
    def __getitem__(self, key: slice | list[str] | tuple[str, ...]) -> Table: ...
    def __getitem__(self, key: str | slice | list[str] | tuple[str, ...]) -> pl.Series | Table:
        """`table["age"]`, a polars series with gaps null; `table[["age", "sex"]]` and `table[:10]`, tables."""
        if key == WEIGHT and self.weights is not None:
            return pl.Series(WEIGHT, self.weights)
        if isinstance(key, str):
            if key in self.schema.file_names and key not in self.schema.names:  # it follows from a difference
                place = self.schema.file_names.index(key)
                return next(_polars_series(*drawn) for drawn in self._in_file([place]))
            (drawn,) = self._drawn(self.schema.positions([key]))
            return _polars_series(*drawn)
        if isinstance(key, slice):
            return self._part(self.schema, range(len(self.codes)), key)
        if isinstance(key, list | tuple) and all(isinstance(name, str) for name in key):
            return self._part(self.schema.select(key), self.schema.positions(key), slice(None))
        raise SchemaError(
            f"a table has no part {key!r}",
            hint='use table["age"] for a column, table[["age", "sex"]] for several, table[:10] for rows',
        )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row, each a dictionary of values by name; gaps are None."""
        return self.to_polars().iter_rows(named=True)

    def _part(self, schema: Schema, places: Sequence[int], rows: slice) -> Table:
        values = [None if known is None else known[rows] for known in self._numeric_values(places)]
        many = len(range(*rows.indices(self.rows)))
        weights = None if self.weights is None else self.weights[rows]
        return Table(schema, [self.codes[place][rows] for place in places], rows=many, values=values, weights=weights)

    def numeric_values(self, place: int) -> NDArray[np.float64] | None:
        """The values of a numeric column as numbers, NaN where there is none; None for other columns."""
        return self._numeric_values([place])[0]

    def _numeric_values(self, places: Iterable[int]) -> list[NDArray[np.float64] | None]:
        """The same for several columns."""
        values: list[NDArray[np.float64] | None] = []
        for column, _, drawn, filled in self._drawn(places):
            numbers = None
            if isinstance(column, BinnedColumn):
                numbers = np.where(filled, drawn.astype(np.int64 if column.has_whole_values else np.float64), np.nan)
            values.append(numbers)
        return values

    def marginal(self, columns: str | Sequence[str], *, rows: WhichRows = "observed") -> NDArray[np.int64]:
        """The number of rows in each combination of cells of these columns."""
        place = self.schema.positions((columns,) if isinstance(columns, str) else columns)
        sizes = [column.extended_size for column in self.schema.columns]
        counted_below = sizes if rows == "extended" else [column.size for column in self.schema.columns]
        (counts,) = Memory(self.codes, self.rows).count([place], sizes, counted_below)
        return counts

    # ------------------------------------------------------------------ frames

    def _drawn(
        self, places: Iterable[int] | None = None
    ) -> Iterator[tuple[Column, Codes, NDArray[Any], NDArray[np.bool_]]]:
        """For each column: its codes, its values, and which cells have a value; other values mean nothing."""
        for place in range(len(self.codes)) if places is None else places:
            column, codes, known = self.schema.columns[place], self.codes[place], self._values[place]
            filled = codes < column.values_size
            needed = filled if known is None or np.isnan(known[filled]).any() else np.zeros_like(filled)
            drawn = column.draw(
                codes[needed], np.random.default_rng([self._seed, place])
            )  # a public generator: the table is public
            values = np.zeros(self.rows, dtype=drawn.dtype)
            values[needed] = drawn
            if known is not None:
                kept = np.nan_to_num(known)
                kept = kept.astype(np.int64).astype(values.dtype) if values.dtype.kind != "f" else kept
                values = np.where(np.isnan(known), values, kept)
            yield column, codes, values, filled

    def _in_file(
        self, places: Iterable[int] | None = None
    ) -> Iterator[tuple[Column, NDArray[Any], NDArray[Any], NDArray[np.bool_]]]:
        """The same for each column of a file. In place of a difference is the column that follows from it."""
        for place in range(len(self.codes)) if places is None else places:
            column = self.schema.columns[place]
            if (difference := difference_of(column)) is None:
                yield from self._drawn([place])
                continue
            pair = self._numeric_values([place, *self.schema.positions([difference.subtrahend])])
            assert pair[0] is not None and pair[1] is not None  # noqa: S101, PT018 for mypy: both are binned
            yield minuend_cells(column, difference, self.codes[place], pair[0], pair[1])

    def to_polars(self) -> pl.DataFrame:
        """A polars frame with the declared types; gaps are null. Weights, if there are any, are the last column."""
        return self._frame(self._in_file())

    def _frame(self, drawn: Iterable[tuple[Column, NDArray[Any], NDArray[Any], NDArray[np.bool_]]]) -> pl.DataFrame:
        frame = pl.DataFrame([_polars_series(*column) for column in drawn])
        return frame if self.weights is None else frame.with_columns(pl.Series(WEIGHT, self.weights))

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the declared types; gaps are null."""
        with requires_extra("pyarrow", "pandas"):
            import pyarrow as pa  # noqa: PLC0415 an extra

            table = self.to_polars().to_arrow()
        fields = [
            field.with_type(pa.dictionary(field.type.index_type, field.type.value_type))  # levels without an order
            if pa.types.is_dictionary(field.type) and not isinstance(column, Ordinal)
            else field
            for field, column in zip_longest(table.schema, self.schema.file_columns)  # the last may be weights
        ]
        return table.cast(pa.schema(fields))

    def to_pandas(self, *, nullable: bool = True) -> pd.DataFrame:
        """A pandas frame: ordered categoricals, nullable integers and booleans, datetime64 for dates.

        Without `nullable`, for libraries that do not know pandas' own types, integers and booleans have those of numpy:
        floats, true as 1, NaN for a gap, where the schema lets a cell have no value, else int64 and bool.
        """
        with requires_extra("pandas", "pandas"):
            import pandas as pd  # noqa: PLC0415 an extra
        columns = {drawn[0].name: _pandas_array(*drawn, nullable=nullable) for drawn in self._in_file()}
        if self.weights is not None:
            columns[WEIGHT] = np.array(self.weights)
        return pd.DataFrame(columns, index=pd.RangeIndex(self.rows))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule protocol: `pl.DataFrame(table)`, `pa.table(table)`, `pd.DataFrame.from_arrow(table)`."""
        frame: Any
        try:
            frame = self.to_arrow()
        except ReadError:  # without pyarrow, polars provides the stream, with all levels as ordered
            frame = self.to_polars()
        return frame.__arrow_c_stream__(requested_schema)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:  # noqa: FBT001, FBT002 a protocol
        """The older interchange protocol, by pyarrow, for libraries that do not know Arrow's."""
        return self.to_arrow().__dataframe__(nan_as_null, allow_copy)

    def __narwhals_dataframe__(self) -> Any:
        """What narwhals makes of the polars frame, so that libraries written for it take a table."""
        import narwhals as nw  # noqa: PLC0415 it is narwhals that calls this

        return nw.from_native(self.to_polars(), eager_only=True)._compliant_frame  # noqa: SLF001 what it asks for

    def to_text(self) -> pl.DataFrame:
        """A polars frame for a text file: gaps and *not applicable* as codes, values as the schema spells them."""
        return self._as_text(self.schema.file_names)

    def _as_text(self, names: Sequence[str]) -> pl.DataFrame:
        """A polars frame with these columns as text."""
        drawn = [*self._in_file()]
        frame = self._frame(drawn)
        for column, codes, *_ in drawn:
            if column.name not in names:
                continue
            frame = frame.with_columns(spelled(frame[column.name], column))
            texts = {column.code_of_gap(kind): column.text_of_gap(kind) for kind in column.gaps}
            if column.not_applicable is not None:
                texts[column.code_of_gap("not-applicable")] = column.not_applicable
            if any(texts.values()) or column.not_applicable is not None:
                series = frame[column.name].cast(pl.String)
                states = pl.Series(codes.astype(np.int64))
                gaps = states.replace_strict(list(texts), list(texts.values()), default=None, return_dtype=pl.String)
                cells = gaps.zip_with(gaps.is_not_null(), series).replace("", None)
                frame = frame.with_columns(cells.alias(column.name))
        return frame

    def write(self, path: str | Path) -> None:
        """Write a CSV (also .csv.gz, .tsv), Parquet, .sav, .dta or .xlsx file; the old one stays until it is whole.

        A text file has the separator, encoding and spelling that the schema declares, so that the schema reads it.
        Texts that a spreadsheet would run as formulas have an apostrophe before them, which is not read back, unless
        the schema says `escape_formulas = false`.
        SPSS (.sav) and Stata (.dta) files have the codes of levels and gaps, and the labels that the schema declares.
        In Parquet a number, date or boolean that may be *not applicable* is text, as in CSV: null is a gap.
        """
        path = Path(path)
        write_frame(self.frame_to_write(path), path, self.schema)

    def frame_to_write(self, path: Path) -> pl.DataFrame:
        """The frame that `write` puts into a file of this name."""
        if ending := written_ending(path):
            stored = stored_frame(self._in_file(), self.schema, ending)
            return stored if self.weights is None else stored.with_columns(pl.Series(WEIGHT, self.weights))
        coded = [
            column.name for column in self.schema.file_columns if not is_parquet(path) or is_text_in_parquet(column)
        ]
        return self._as_text(coded)


def check_weights(rows: int, weights: ArrayLike) -> NDArray[np.float64]:
    """One weight for each row: finite, not negative, not all zero. Only their ratios matter."""
    try:
        given = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise SchemaError("weights must be numbers, one for each row", hint="pass a list of numbers") from None
    if given.shape != (rows,):
        raise SchemaError(
            f"{plural(given.size, 'weight')} for {plural(rows, 'row')}, but each row needs one weight",
            hint="pass one weight for each row",
        )
    odd = given[~(np.isfinite(given) & (given >= 0))]
    if odd.size or (given.size and not given.any()):
        found = f"{odd[0]:g}" if odd.size else "only zeros"
        wrong = f"weights must be finite, not negative and not all zero, got {found}"
        raise SchemaError(wrong, hint="pass weights of 0 or more, at least one of them above 0")
    return given


def _without_weights(
    frames: Iterable[pl.DataFrame], schema: Schema, weights: list[pl.Series]
) -> Iterator[pl.DataFrame]:
    """The frames without a column of weights that the schema does not know; the weights are collected in a list."""
    for frame in frames:
        if WEIGHT in frame.columns and WEIGHT not in (*schema.names, *schema.ignore):
            weights.append(frame[WEIGHT])
            yield frame.drop(WEIGHT)
        else:
            yield frame


def _numbers(weights: Sequence[pl.Series]) -> NDArray[np.float64]:
    return pl.concat([part.cast(pl.Float64, strict=False) for part in weights]).fill_null(np.nan).to_numpy()


def _polars_series(column: Column, codes: Codes, values: NDArray[Any], filled: NDArray[np.bool_]) -> pl.Series:
    if isinstance(column, LevelColumn) and not isinstance(column, Boolean):
        names = _names(column)
        whole = all(type(name) is int for name in names)
        levels = names if whole else [as_text(name) for name in names]
        dtype = pl.Int64 if whole else pl.Enum(levels)
        states = pl.Series(column.name, [*levels, *[None] * len(column.gaps)], dtype=dtype)
        return states[codes.astype(np.int64)]
    kind: Any = {Boolean: pl.Boolean, Integer: pl.Int64, Number: pl.Float64, Date: pl.Date}.get(type(column))
    if isinstance(column, Date | DateTime):
        kind = kind or pl.Datetime("ms")
        values = values.astype("datetime64[D]" if kind == pl.Date else "datetime64[ms]")
    if isinstance(column, Boolean):
        values = values.astype(np.bool_)
    series = pl.Series(column.name, values).cast(kind)
    return series.zip_with(pl.Series(filled), pl.Series([None], dtype=kind).new_from_index(0, len(codes)))


def _names(column: LevelColumn) -> list[Any]:
    """The levels and, if it is declared, *not applicable*."""
    named = [] if column.not_applicable is None else [column.not_applicable or "not applicable"]
    return [*column.levels, *named]


def _cells(column: Column, codes: Codes, values: pl.Series) -> list[str | None]:
    """The cells of a column as short texts for a notebook, None for a gap."""
    texts = (f"{value:.6g}" if isinstance(value, float) else as_text(value) for value in values)
    states: tuple[str | None, ...] = (*column.cells[: column.size], *[None] * len(column.gaps))
    return [
        shortened(text, SHOWN_LETTERS) if code < column.values_size else states[code]
        for code, text in zip(codes.tolist(), texts, strict=True)
    ]


def _pandas_array(
    column: Column, codes: Codes, values: NDArray[Any], filled: NDArray[np.bool_], *, nullable: bool
) -> Any:
    import pandas as pd  # noqa: PLC0415 an extra

    if isinstance(column, LevelColumn) and not isinstance(column, Boolean):
        names = _names(column)
        if len(set(map(type, names))) > 1:  # pandas takes 1 and True for the same
            names = [as_text(name) for name in names]
        states = np.where(codes < len(names), codes.astype(np.int64), -1)
        return pd.Categorical.from_codes(states, categories=names, ordered=isinstance(column, Ordinal))
    if isinstance(column, Date | DateTime):
        return np.where(filled, values.astype("datetime64[s]"), np.datetime64("NaT", "s"))
    if isinstance(column, Number) or (not nullable and column.extended_size > column.values_size):
        return np.where(filled, values.astype(np.float64), np.nan)
    whole = values.astype(np.bool_ if isinstance(column, Boolean) else np.int64)
    if not nullable:
        return whole
    return (pd.arrays.BooleanArray if isinstance(column, Boolean) else pd.arrays.IntegerArray)(whole, ~filled)
