"""The engine whose rows stay in files: each pass reads them again, some rows at a time, and holds no more than these.

Rows are encoded as those in memory are, by the same rules in the same code. What a table is made of by public maps is a
`View` of the files' columns, so a pass reads no column that nobody asks for.

Files that change between two passes would give counts of two tables. So their sizes, times and places on the disk are
compared with those at reading, before each pass and after it: facts about the file system, and no cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gapless.data.engines.memory import Batch, Memory, View, count_marginals
from gapless.data.io.encode import Encoder, check_frames, check_names
from gapless.data.io.source import (
    PARQUET_ENDINGS,
    PART_ROWS,
    TEXT_ENDINGS,
    check_exists,
    clip_dates,
    file_errors,
    find_files,
    parquet_frames,
    redact_cells,
    scan_parquet,
    separator_of,
    text_frames,
)
from gapless.data.io.spreadsheets import FormulaEscapes
from gapless.errors import Argument, GaplessError, Hint, ReadError
from gapless.schema import Schema
from gapless.text import listing
from gapless.types import Codes, Integers

ROWS = 1 << 17  # of a batch
MEMORY = "1GB"  # that DuckDB may take


def _stamp(path: Path) -> tuple[int, ...]:
    """What the file system says of a file: another content without another stamp takes intent."""
    now = path.stat()
    return now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino


@dataclass(frozen=True, slots=True)
class Files:
    """Text and Parquet files, and how they are read.

    Attributes:
        data: the path, or the pattern that names them.
        schema: what is publicly known of their columns.
        encoding: of text.
        by_duckdb: whether DuckDB goes through Parquet: it holds no row group as a whole.
        stamps: of each file, when the table was read.
    """

    data: str | Path
    schema: Schema
    encoding: str
    by_duckdb: bool
    stamps: Mapping[Path, tuple[int, ...]]

    @classmethod
    def at(cls, data: str | Path, schema: Schema, *, encoding: str | None, by_duckdb: bool) -> Files:
        """Those that are there now."""
        check_exists(Path(data))
        paths = find_files(data)
        for path in paths:
            check_exists(path)
            if not path.name.lower().endswith((*TEXT_ENDINGS, *PARQUET_ENDINGS)):
                raise ReadError(
                    f"{path}: not read from the disk",
                    hint=f"one of: {listing(TEXT_ENDINGS)}, .parquet; other files are read into memory",
                )
        if by_duckdb:
            _duckdb()
        try:
            stamps = {path: _stamp(path) for path in paths}
        except OSError as error:
            raise ReadError(f"cannot read {data}: {error.strerror}", hint="files that you may read") from None
        return cls(data, schema, encoding or schema.encoding or "utf-8", by_duckdb, stamps)

    def check_unchanged(self) -> None:
        """Refuse to go on with other files than those that were read."""
        try:
            now = {path: _stamp(path) for path in find_files(self.data)}
        except (OSError, ReadError):
            now = {}
        if now == self.stamps:
            return
        gone = [path for path in self.stamps if path not in now and not path.exists()]
        other = [path for path in now if now[path] != self.stamps.get(path)]
        which = f"{gone[0]} is gone" if gone else f"{other[0]} is new or changed" if other else f"{self.data} changed"
        raise ReadError(
            f"{which} since the table was read: releases would be of two tables",
            hint="put the files back as they were, or read the table again; what was released stays paid",
        )

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """All rows, some at a time, with these columns or all that there are; at least one frame for each file."""
        formulas, by = FormulaEscapes(self.schema), _duckdb_frames if self.by_duckdb else parquet_frames
        for path in self.stamps:
            with file_errors(path):
                if path.name.lower().endswith(PARQUET_ENDINGS):  # a cell that the schema ignores is not looked at
                    found = by(path, self.schema.names if columns is None else columns)
                else:
                    separator = separator_of(path, self.schema.separator)
                    texts = text_frames(path, self.encoding, separator, for_holder=False)
                    found = (formulas.unescape(frame) for frame in texts)
                for frame in found:
                    names = frame.columns if columns is None else columns
                    yield pl.DataFrame({name: clip_dates(frame[name]) for name in names})

    @redact_cells
    def check(self) -> int:
        """The number of rows, after all of them were looked at: what is wrong is told as if they were in memory."""
        for path in self.stamps:  # before hours are spent on the files before it
            with file_errors(path):
                if path.name.lower().endswith(PARQUET_ENDINGS):
                    check_names(list(scan_parquet(path).collect_schema().names()), self.schema)
        rows = check_frames(self.frames(), self.schema)
        self.check_unchanged()
        return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Disk(View):
    """Rows of files, under a view of them."""

    files: Files
    rows: int  # in the files

    @classmethod
    def at(cls, data: str | Path, schema: Schema, *, encoding: str | None, by_duckdb: bool = False) -> Disk:
        """All rows of these files; a first pass has looked at each of them."""
        files = Files.at(data, schema, encoding=encoding, by_duckdb=by_duckdb)
        width = len(schema.columns)
        return cls(tuple(range(width)), (None,) * width, {}, files, files.check())

    def count(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], shown: Sequence[int]) -> list[Integers]:
        """In one pass over the columns that are asked for; the number of all rows is known."""
        if not any(marginals) and not self.kept_codes:
            return [np.array(self.rows) for _ in marginals]
        return count_marginals(self.batches, self.rows, marginals, sizes, shown)

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """A pass over the files. What goes wrong in it, after all was right at reading, is the files' own fault."""
        self.files.check_unchanged()
        told = None
        try:
            yield from self.select(columns)._batches()  # noqa: SLF001 one class
        except (GaplessError, MemoryError) as error:
            told = error
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001 its text may quote cells
            told = ReadError(
                f"{self.files.data} could not be read again ({type(error).__name__})",
                hint="files that stay where they are, on a disk that works",
            )
        self.files.check_unchanged()
        if told is not None:
            raise told from None

    def _batches(self) -> Iterator[Batch]:
        schema = self.files.schema
        needed = sorted({*self.columns, *self.kept_codes}) or [0]
        encoders = {place: Encoder(schema.columns[place]) for place in needed}
        for frame in self.files.frames([schema.names[place] for place in needed]):
            found = {}
            for place, encoder in encoders.items():
                found[place], wrong = encoder.codes(frame[schema.names[place]])
                for error in wrong.values():
                    raise error
            for start in range(0, max(1, frame.height), ROWS):
                yield self._batch({place: codes[start : start + ROWS] for place, codes in found.items()})

    def _batch(self, found: Mapping[int, Codes]) -> Batch:
        """The view of some rows of the files, given the codes of all columns that it needs."""
        places = {place: column for column, place in enumerate(found)}
        rows = Memory(tuple(found.values()), len(next(iter(found.values()))))
        kept = (
            rows.keep({places[place]: marks for place, marks in self.kept_codes.items()}) if self.kept_codes else rows
        )
        shown = kept.select([places[place] for place in self.columns])
        return shown.recode({column: codes for column, codes in enumerate(self.maps) if codes is not None})


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415 an extra
        import pyarrow  # noqa: F401, ICN001, PLC0415 an extra: batches of DuckDB are its
    except ModuleNotFoundError as error:
        hint = Hint("run pip install 'gapless[sql]'") | Hint(
            "pass ", Argument("engine", "disk"), ", which needs no extra"
        )
        raise ReadError(f"{error.name} is not installed", hint=hint) from None
    return duckdb


def _duckdb_name(path: Path, connection: Any) -> str:
    """The pattern by which DuckDB finds this file and no other: it takes every name for a pattern."""
    name = re.sub(r"[*?[]", r"[\g<0>]", str(path.absolute()))
    with suppress(_duckdb().Error):  # a name that is no Unicode
        found = connection.execute("FROM glob(?)", [name]).fetchall()
        if len(found) == 1 and path.samefile(found[0][0]):
            return name
    raise ReadError(
        f"DuckDB does not take the name {path} literally",
        hint=Hint("rename the file") | Hint("pass ", Argument("engine", "disk")),
    )


def _duckdb_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Columns of a Parquet file by DuckDB, which holds some thousand rows at a time; by polars if it changes a type."""
    connection = _duckdb().connect(config={"memory_limit": MEMORY, "arrow_large_buffer_size": "true"})
    try:
        types = scan_parquet(path).collect_schema()
        table = connection.read_parquet(_duckdb_name(path, connection), hive_partitioning=False)
        called = dict(zip(types.names(), table.columns, strict=True))  # DuckDB takes X for x, and renames one of them
        table = table.select(*('"' + called[name].replace('"', '""') + '"' for name in columns))
        header = pl.DataFrame(table.limit(0).to_arrow_table())
        if not all(map(_keeps_type, [types[name] for name in columns], header.dtypes)):
            yield from parquet_frames(path, columns)
            return
        # DuckDB tells moments with a time zone in UTC.
        zoned: Any = {name: types[name] for name in columns if isinstance(types[name], pl.Datetime)}
        for batch in chain([header], table.to_arrow_reader(PART_ROWS)):
            frame = pl.DataFrame(batch)
            frame.columns = list(columns)
            yield frame.cast(zoned)
    finally:
        connection.close()


def _keeps_type(dtype: pl.DataType, by_duckdb: pl.DataType) -> bool:
    """Whether DuckDB gives the cells of a column as they are in the file, whose type is public.

    It has fewer types. Moments in milliseconds become microseconds: one that does not fit would fail the whole file.
    """
    if isinstance(dtype, pl.Datetime) and isinstance(by_duckdb, pl.Datetime):
        return dtype.time_unit == by_duckdb.time_unit
    return dtype == by_duckdb or (isinstance(dtype, pl.Categorical | pl.Enum) and by_duckdb == pl.String)
