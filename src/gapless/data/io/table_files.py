"""Write public tables to files. The ending of the file decides the format."""

from __future__ import annotations

import codecs
import contextlib
import errno
import gzip
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO

import polars as pl
from polars.io.plugins import register_io_source

from gapless.data.io.sheet_output import SHEET_ENDINGS, check_sheet, write_workbook
from gapless.data.io.spreadsheets import FormulaEscapes
from gapless.data.io.stat_output import WRITTEN_ENDINGS, stat_layout, write_stat_file, written_ending
from gapless.data.io.text_files import TEXT_ENDINGS, separator_of
from gapless.errors import ReadError, requires_extra
from gapless.files import write_atomically
from gapless.schema import Boolean, Column, Date, DateTime, Number, Schema
from gapless.schema.columns import LevelColumn
from gapless.text import listing

OUTPUT_ENDINGS = (*TEXT_ENDINGS, ".parquet", ".pq", *WRITTEN_ENDINGS, *SHEET_ENDINGS)


def write_frame(frame: pl.DataFrame, path: Path, schema: Schema) -> None:
    """Write a public frame, in the form of the schema, in the format that the name of the file says."""
    write_frames(iter([frame]), path, schema)


def write_frames(frames: Iterator[pl.DataFrame], path: Path, schema: Schema) -> None:
    """Write public frames of the same columns, one after the other, into one file.

    One of them is held at a time, but all for the formats of SPSS and Stata.
    """
    check_output(path, schema)
    with write_atomically(path) as partial:
        if is_parquet(path):
            _write_parquet(frames, partial)
            return
        if ending := written_ending(path):
            write_stat_file(frames, partial, schema, ending)
            return
        if path.name.lower().endswith(SHEET_ENDINGS):
            write_workbook(frames, partial, schema)
            return
        formulas = FormulaEscapes(schema)
        encoder = codecs.getincrementalencoder(schema.encoding or "utf-8")()
        separator, zipped = separator_of(path, schema.separator), path.name.lower().endswith(".gz")
        with partial.open("wb") as file, _gzip(file) if zipped else contextlib.nullcontext(file) as whole:
            for number, frame in enumerate(frames):
                text = formulas.escape(frame).write_csv(separator=separator, include_header=number == 0)
                try:
                    whole.write(encoder.encode(text))
                except UnicodeEncodeError:
                    raise ReadError(
                        f"the encoding {schema.encoding} cannot write a character of this table",
                        hint='write encoding = "utf-8" under [table] in the schema, or write a .parquet file',
                    ) from None


def _gzip(file: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)


def _write_parquet(frames: Iterator[pl.DataFrame], path: Path) -> None:
    """Write frames one by one; an error while a frame is made is raised unchanged."""
    first, wrong = next(frames), list[BaseException]()

    def source(*_: object) -> Iterator[pl.DataFrame]:
        try:
            yield from chain([first], frames)
        except BaseException as error:
            wrong.append(error)
            raise

    with path.open("wb") as file:
        try:
            register_io_source(source, schema=first.schema).sink_parquet(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise (wrong[0] if wrong else _system_error(error)) from None


def _system_error(error: Exception) -> OSError:
    """The error of the operating system: polars words it differently."""
    if isinstance(error, OSError):
        return error
    known = [number for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) if os.strerror(number) in str(error)]
    return OSError(*(known or [errno.EIO]), os.strerror(known[0]) if known else str(error))


def check_ending(path: Path) -> None:
    """Refuse a file name whose ending does not say what kind of file to write."""
    if not path.name.lower().endswith(OUTPUT_ENDINGS):
        wrong = f"{path} has an unknown ending, but the ending decides the format to write"
        known = listing(ending for ending in OUTPUT_ENDINGS if ending != ".pq")
        raise ReadError(wrong, hint=f"end the name with one of: {known}")


def check_output(path: Path, schema: Schema) -> None:
    """Refuse a file name with an unknown ending, or of a format that cannot hold a table of this schema."""
    check_ending(path)
    if ending := written_ending(path):
        with requires_extra("pyreadstat", "stat", ", or write a .csv file"):
            import pyreadstat  # noqa: F401, PLC0415 an extra
        stat_layout(schema, ending)
    elif path.name.lower().endswith(SHEET_ENDINGS):
        check_sheet(schema)


def spelled(series: pl.Series, column: Column) -> pl.Series:
    """The values of a column as its schema writes them in text files; digits are not grouped."""
    if isinstance(column, Boolean) and column.spelling is not None:
        return series.replace_strict([False, True], list(column.spelling), default=None, return_dtype=pl.String)
    if isinstance(column, Number) and column.decimal != ".":
        return series.cast(pl.String).str.replace(".", column.decimal, literal=True)
    if isinstance(column, Date | DateTime) and column.format is not None:
        return series.dt.strftime(column.format)
    return series


def is_text_in_parquet(column: Column) -> bool:
    """Whether a Parquet file has a column as text, since null could be *not applicable* or a gap."""
    named = isinstance(column, LevelColumn) and not isinstance(column, Boolean)
    return not column.empty_is_a_gap or (column.not_applicable is not None and not named)


def is_parquet(path: Path) -> bool:
    """Whether the name of a file is that of a Parquet file."""
    return path.name.lower().endswith((".parquet", ".pq"))
