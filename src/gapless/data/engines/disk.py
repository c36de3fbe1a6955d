"""The engine whose rows stay in files. Each pass reads them again and holds some rows at a time.

Rows are encoded by the same code as those in memory. Public transformations of the table are a `View` of the files'
columns, so a pass reads only the columns that are needed.

If files changed between two passes, counts would be of two tables. So the sizes, times and inodes of the files are
compared with those at reading, before and after each pass. These are facts about the file system, not cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data.engines.memory import Batch, Memory, PersonMemory, View, count_marginals
from gapless.data.io import source
from gapless.data.io.encode import check_frames, check_names, encoder_of
from gapless.data.io.kept_persons import KeptPersons, keep_persons
from gapless.data.io.persons import PersonNumbers, RowLimit, encode_ids
from gapless.data.io.source import FileLayout
from gapless.data.io.stat_files import WHOLE_ENDINGS
from gapless.data.io.text_files import TEXT_ENDINGS
from gapless.errors import Argument, GaplessError, Hint, ReadError
from gapless.schema import Schema
from gapless.text import listing
from gapless.types import Codes, Integers

ROWS = 1 << 17  # of a batch
ON_DISK = tuple(
    ending for ending in source.ENDINGS if ending not in (*source.EXCEL_ENDINGS, *WHOLE_ENDINGS)
)  # files that are read some rows at a time
_READ_AGAIN = "put the files back as they were, or read the table again; what was released stays paid"
MEMORY = "1GB"  # that DuckDB may take


def _stamp(path: Path) -> tuple[int, ...]:
    """The size, time, device and inode of a file. Another content with the same stamp needs intent."""
    now = path.stat()
    return now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino


@dataclass(frozen=True, slots=True)
class Files:
    """Files that are read some rows at a time, and how they are read.

    Attributes:
        data: the path or the pattern of the files.
        schema: the public description of their columns.
        layout: how they are read.
        by_duckdb: whether DuckDB reads Parquet files. It does not hold a whole row group.
        stamps: the stamp of each file when the table was read.
    """

    data: str | Path
    schema: Schema
    layout: FileLayout
    by_duckdb: bool
    stamps: Mapping[Path, tuple[int, ...]]

    @classmethod
    def at(cls, data: str | Path, schema: Schema, *, encoding: str | None, by_duckdb: bool) -> Files:
        """The files that are there now."""
        source.check_exists(Path(data))
        paths = source.find_files(data)
        for path in paths:
            source.check_exists(path)
            if not path.name.lower().endswith(ON_DISK):
                known = listing(ON_DISK)
                hint = Hint("pass ", Argument("engine", "memory")) | Hint("use a file in one of these formats")
                raise ReadError(
                    f"{path} cannot stay on the disk while it is read; only these formats can: {known}", hint=hint
                )
        if by_duckdb:
            _duckdb()
        try:
            stamps = {path: _stamp(path) for path in paths}
        except OSError as error:
            raise ReadError(
                f"cannot read {data}: {error.strerror}",
                hint="check that the files are there and that you may read them",
            ) from None
        return cls(data, schema, FileLayout.of(schema, encoding=encoding), by_duckdb, stamps)

    def check_unchanged(self) -> None:
        """Refuse files that have changed since the table was read."""
        try:
            now = {path: _stamp(path) for path in source.find_files(self.data)}
        except (OSError, ReadError):
            now = {}
        if now == self.stamps:
            return
        gone = [path for path in self.stamps if path not in now and not path.exists()]
        other = [path for path in now if now[path] != self.stamps.get(path)]
        which = f"{gone[0]} is gone" if gone else f"{other[0]} is new or changed" if other else f"{self.data} changed"
        raise ReadError(f"{which} since the table was read: releases would be of two tables", hint=_READ_AGAIN)

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
        """All rows, some at a time, with these columns or all; at least one frame for each file."""
        known = self.schema.file_names if columns is None else columns  # columns that the schema ignores are not read
        for path in self.stamps:
            is_parquet = path.name.lower().endswith(source.PARQUET_ENDINGS)
            read = _duckdb_frames if is_parquet and self.by_duckdb else self.layout.frames
            with source.file_errors(path):
                for frame in read(path, known):
                    names = frame.columns if columns is None else columns
                    yield pl.DataFrame({name: source.clip_dates(frame[name]) for name in names})

    def codes(self, places: Sequence[int], rows: NDArray[np.bool_] | None) -> Iterator[dict[int, Codes]]:
        """The codes of these columns of the schema, some rows at a time: of all rows, or of those that are true.

        `rows` are in the order of the files, which every pass keeps.
        """
        encoders = {place: encoder_of(self.schema.columns[place], self.schema) for place in places}
        names = dict.fromkeys(name for encoder in encoders.values() for name in encoder.names)
        start = 0
        for frame in self.frames([*names]):
            chosen = frame if rows is None else frame.filter(pl.Series(rows[start : start + frame.height]))
            start += frame.height
            found = {}
            for place, encoder in encoders.items():
                found[place], wrong = encoder.codes(chosen)
                for error in wrong.values():
                    raise error
            yield found
        if rows is not None and start != len(rows):
            raise ReadError(f"{self.data} has another number of rows than at reading", hint=_READ_AGAIN)

    @source.redact_cells
    def check_id(self, names: Sequence[str]) -> None:
        """Refuse files without these columns, or with a type that is no id, by their headers alone.

        The other names come first: a file without a header has a row of data there, which no error may quote.
        """
        for path in self.stamps:
            header = self.layout.header(path)
            check_names(header.columns, self.schema)
            encode_ids(header, names)

    @source.redact_cells
    def kept_persons(self, limit: RowLimit) -> KeptPersons:
        """Which rows are kept, in the order of the files: a pass that numbers the persons, and one for each group."""
        numbering = PersonNumbers(limit.id)
        persons = np.concatenate([numbering.numbers(frame) for frame in self.frames(limit.id)])

        def codes_of(chosen: NDArray[np.bool_], places: Sequence[int]) -> list[Codes]:
            parts = [tuple(found.values()) for found in self.codes(places, chosen)]
            return [np.concatenate(column) for column in zip(*parts, strict=True)]

        kept = keep_persons(persons, numbering.ids, limit, self.schema, codes_of)
        self.check_unchanged()
        return kept

    @source.redact_cells
    def check(self) -> int:
        """Check all cells and count the rows. Raises the errors that the engine in memory would raise."""
        for path in self.stamps:  # names first: checking the cells of earlier files may take hours
            if not path.name.lower().endswith(TEXT_ENDINGS):
                check_names(self.layout.header(path).columns, self.schema)
        rows = check_frames(self.frames(), self.schema)
        self.check_unchanged()
        return rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Disk(View):
    """A view of rows in files."""

    files: Files
    rows: int  # in the files, or how many of them are kept

    @classmethod
    def at(
        cls,
        data: str | Path,
        schema: Schema,
        *,
        encoding: str | None,
        by_duckdb: bool = False,
        limit: RowLimit | None = None,
    ) -> Disk:
        """The rows of these files, after a first pass that checks their cells; with a limit those that are kept."""
        files = Files.at(data, schema, encoding=encoding, by_duckdb=by_duckdb)
        if limit is not None:  # first: checking the cells may take hours
            files.check_id(limit.id)
        width, rows = len(schema.columns), files.check()
        if limit is None:
            return cls(tuple(range(width)), (None,) * width, {}, files, rows)
        kept = files.kept_persons(limit)
        return PersonDisk(tuple(range(width)), (None,) * width, {}, files, len(kept.persons), kept)

    def count(
        self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int], counted_below: Sequence[int]
    ) -> list[Integers]:
        """Count in one pass over the needed columns. The number of all rows is known."""
        if not any(marginals) and not self.kept_codes:
            return [np.array(self.rows) for _ in marginals]
        return count_marginals(self.batches, self.rows, marginals, sizes, counted_below)

    def batches(self, columns: Sequence[int]) -> Iterator[Batch]:
        """Make a pass over the files. All cells were valid at reading: an error is due to the files or the disk."""
        self.files.check_unchanged()
        failure = None
        try:
            yield from self.select(columns)._batches()  # noqa: SLF001 one class
        except (GaplessError, MemoryError) as error:
            failure = error
        except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001 its text may quote cells
            wrong = f"{self.files.data} could not be read again ({type(error).__name__})"
            failure = ReadError(wrong, hint="keep the files where they are, on a disk that works, and read them again")
        self.files.check_unchanged()
        if failure is not None:
            raise failure from None

    def _batches(self) -> Iterator[Memory]:
        needed = sorted({*self.columns, *self.kept_codes}) or [0]
        for rows in self._read(needed):
            yield self._view(rows, needed)

    def _read(self, places: Sequence[int]) -> Iterator[Memory]:
        """These columns of all rows, before they are mapped."""
        for found in self.files.codes(places, None):
            for start in range(0, max(1, len(found[places[0]])), ROWS):
                codes = tuple(found[place][start : start + ROWS] for place in places)
                yield Memory(codes, len(codes[0]))

    def _view(self, rows: Memory, read: Sequence[int]) -> Memory:
        """The view of some rows of the files, given the columns that were read."""
        places = {place: column for column, place in enumerate(read)}
        masks = {places[place]: mask for place, mask in self.kept_codes.items()}
        kept = rows.keep(masks) if masks else rows
        shown = kept.select([places[place] for place in self.columns])
        return shown.recode({column: codes for column, codes in enumerate(self.maps) if codes is not None})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PersonDisk(Disk):
    """A view of those rows in files that are kept of persons."""

    kept: KeptPersons

    def person_batches(self, columns: Sequence[int]) -> Iterator[PersonMemory]:
        """Make a pass over the files, as `batches` does."""
        return cast("Iterator[PersonMemory]", self.batches(columns))

    def rows_of_persons(self) -> Integers:
        """The numbers of rows in the files."""
        return self.kept.rows_of

    def _read(self, places: Sequence[int]) -> Iterator[PersonMemory]:
        """These columns of the rows that are kept, and their persons."""
        first, constants = 0, self.kept.constants
        for found in self.files.codes(places, self.kept.is_kept):
            rows = len(found[places[0]])
            codes = {
                place: constants[place][first : first + rows] if place in constants else found[place]
                for place in places
            }
            persons = self.kept.persons[first : first + rows]
            for start in range(0, max(1, rows), ROWS):
                part = slice(start, start + ROWS)
                columns = tuple(column[part] for column in codes.values())
                yield PersonMemory(columns, len(columns[0]), persons[part], self.kept.rows_of)
            first += rows


def _duckdb() -> Any:
    try:
        import duckdb  # noqa: PLC0415 an extra
        import pyarrow  # noqa: F401, ICN001, PLC0415 an extra: batches of DuckDB are its
    except ModuleNotFoundError as error:
        hint = Hint("run pip install 'gapless[sql]'") | Hint("pass ", Argument("engine", "disk"))
        raise ReadError(f"{error.name} is not installed", hint=hint) from None
    return duckdb


def _duckdb_name(path: Path, connection: Any) -> str:
    """The pattern with which DuckDB finds this file and no other. DuckDB reads every name as a pattern."""
    name = re.sub(r"[*?[]", r"[\g<0>]", str(path.absolute()))
    with suppress(_duckdb().Error):  # the name is not valid Unicode
        found = connection.execute("FROM glob(?)", [name]).fetchall()
        if len(found) == 1 and path.samefile(found[0][0]):
            return name
    hint = Hint("rename the file to letters and digits") | Hint("pass ", Argument("engine", "disk"))
    raise ReadError(f"DuckDB does not take the name {path} literally, but as a pattern", hint=hint)


def _duckdb_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Read columns of a Parquet file with DuckDB, some rows at a time; with polars if DuckDB changes a type."""
    # Rows come in the order of the file: those that are kept are known by their place.
    settings = {"memory_limit": MEMORY, "arrow_large_buffer_size": "true", "preserve_insertion_order": "true"}
    connection = _duckdb().connect(config=settings)
    try:
        types = source.scan_parquet(path).collect_schema()
        table = connection.read_parquet(_duckdb_name(path, connection), hive_partitioning=False)
        called = dict(zip(types.names(), table.columns, strict=True))  # DuckDB ignores case, and renames one of X and x
        table = table.select(*('"' + called[name].replace('"', '""') + '"' for name in columns))
        header = pl.DataFrame(table.limit(0).to_arrow_table())
        if not all(map(_keeps_type, [types[name] for name in columns], header.dtypes)):
            yield from source.parquet_frames(path, columns)
            return
        # DuckDB returns datetimes with a time zone in UTC.
        zoned: Any = {name: types[name] for name in columns if isinstance(types[name], pl.Datetime)}
        for batch in chain([header], table.to_arrow_reader(source.PART_ROWS)):
            frame = pl.DataFrame(batch)
            frame.columns = list(columns)
            yield frame.cast(zoned)
    finally:
        connection.close()


def _keeps_type(dtype: pl.DataType, by_duckdb: pl.DataType) -> bool:
    """Whether DuckDB returns the cells of a column unchanged. The type of a column is public.

    DuckDB has fewer types. It converts milliseconds to microseconds, and a value that overflows fails the whole file.
    """
    if isinstance(dtype, pl.Datetime) and isinstance(by_duckdb, pl.Datetime):
        return dtype.time_unit == by_duckdb.time_unit
    return dtype == by_duckdb or (isinstance(dtype, pl.Categorical | pl.Enum) and by_duckdb == pl.String)
