"""Files with a row more or less: every engine, kind of file, odd cell and odd name.

Each table is written, read by `gapless.read` and counted: all marginals of one and two columns, gaps included. Then it
is written again without one of its rows. A violation is

- a marginal that has moved by more than 1 in total, as one row is in one cell;
- a count that is not that of the same rows in a data frame: another file was read, or a file twice.

The ordinary run takes some rows out of each table, the slow one all. `pytest --log-cli-level=INFO` shows how many
comparisons were made.
"""

import csv
import gzip
import io
import itertools
import logging
import os
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pyreadstat
import pytest

import gapless as gl
from gapless.data.io import source
from gapless.data.io import spreadsheets as excel
from helpers.odd_cells import DATES, LEVELS, MOMENTS, NUMBERS, TEXTS, near
from helpers.open_sealed import reveal
from helpers.workbooks import FORMATTED, workbook

NAMES = ("level", "number", "moment")
SETS = [s for many in (1, 2) for s in itertools.combinations(NAMES, many)]
TYPES = {"level": pl.Int64, "number": pl.Float64, "moment": pl.Date}
READERS = [
    ("xlsx", "memory"),
    *itertools.product(("parquet", "typed parquet", "csv"), ("memory", "disk", "duckdb")),
    *itertools.product(("csv.gz", "tsv", "sav", "dta", "xpt"), ("memory", "disk")),
]
WRITERS = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}

# ------------------------------------------------------------------ tables


def takes_all(declared):
    """Columns for which no cell makes reading fail."""
    return [column for column in declared.values() if column.may_be_missing and column.outside != "refuse"]


@cache
def schema_of(number):
    """One column of levels, one of numbers and one of moments; other three for each number."""
    kinds = [takes_all(LEVELS), takes_all(NUMBERS), takes_all(DATES)]
    chosen = [columns[number % len(columns)] for columns in kinds]
    return gl.Schema("t", [replace(column, name=name) for column, name in zip(chosen, NAMES, strict=True)])


@cache
def odd_texts(number):
    """Rows of odd texts, some of them twice; rows with nothing in them stand before, between and near the end."""
    texts = [*TEXTS[number % 7 :], *TEXTS[: number % 7]]
    moments = [MOMENTS[(number + place) % len(MOMENTS)] for place in range(len(texts))]
    rows = list(zip(texts, texts[3:] + texts[:3], moments, strict=True))
    empty, end = [("", "", ""), ("", " ", ""), (" ", "", "\t")], [("", "", "")] * 3
    return [*empty, *rows[:20], *empty, *rows[10:], *empty, *end, ("a", "1", "2024-02-29")]


@cache
def odd_numbers(number):
    """Rows of odd numbers and dates in the types of Parquet, and of nothing."""
    places = itertools.cycle(near(schema_of(number).columns[1]))
    levels = itertools.cycle([1, 13, 0, -9, None])
    days = pl.Series(MOMENTS, dtype=pl.String).str.to_date("%Y-%m-%d", strict=False)
    days = days.set(days.dt.year() < 1, None)  # Python has no such year
    return [*zip(levels, places, days, strict=False), (None, None, None), (None, None, None)]


def rows_for(kind, number, *, many=None):
    rows = odd_numbers(number) if kind == "typed parquet" else odd_texts(number)
    if kind == "xlsx":  # XML has no signs below the space, and makes one line break of two
        rows = [row for row in rows if not any(sign < " " for cell in row for sign in cell.replace("\t", ""))]
    return rows if many is None else [*rows[:many], *rows[-4:]]


def frame_of(kind, rows):
    types = TYPES if kind == "typed parquet" else dict.fromkeys(NAMES, pl.String)
    return pl.DataFrame(rows, schema=types, orient="row")


def write(path, kind, rows):
    """A file of this kind; an Excel file has formats where there is no text."""
    if kind.endswith("parquet"):
        with path.open("wb") as file:
            frame_of(kind, rows).write_parquet(file, row_group_size=5)
    elif kind in WRITERS:
        WRITERS[kind](frame_of(kind, rows), str(path))
    elif kind == "xlsx":
        workbook(path, [NAMES, *([cell or FORMATTED for cell in row] for row in rows)])
    else:
        text = io.StringIO()
        separator, end = "\t" if kind == "tsv" else ",", "\r\n" if kind == "csv.gz" else "\n"
        csv.writer(text, delimiter=separator, lineterminator=end).writerows([NAMES, *rows])
        content = text.getvalue().encode()
        path.write_bytes(gzip.compress(content, 1) if kind == "csv.gz" else content)


# ------------------------------------------------------------------ names


def named(name, *others):
    """A file of this name, beside others that the name would find if it were a pattern."""

    def lay(folder, ending, put, rows):
        for other in others:
            put(folder / f"{other}.{ending}", rows[:2])
        (folder / name).parent.mkdir(exist_ok=True)
        put(folder / f"{name}.{ending}", rows)
        return folder / f"{name}.{ending}"

    return lay


def linked(folder, ending, put, rows):
    put(folder / f"real.{ending}", rows)
    (folder / f"link[1].{ending}").symlink_to(f"real.{ending}")
    return folder / f"link[1].{ending}"


def several(folder, ending, put, rows):
    """Parts whose names look like patterns of each other."""
    middle = len(rows) // 2
    put(folder / f"part1.{ending}", rows[:middle])
    put(folder / f"part[1].{ending}", rows[middle:])
    return folder / f"part*.{ending}"


def several_twice(folder, ending, put, rows):
    """Parts that have several names each, in folders that are found on several ways."""
    middle = len(rows) // 2
    (folder / "2024").mkdir()
    put(folder / f"old.{ending}", rows[:middle])
    put(folder / "2024" / f"new.{ending}", rows[middle:])
    os.link(folder / f"old.{ending}", folder / f"hard.{ending}")
    (folder / f"latest.{ending}").symlink_to(Path("2024", f"new.{ending}"))
    (folder / "2024" / "up").symlink_to("..", target_is_directory=True)
    return folder / "**" / "**" / f"*.{ending}"


LAYOUTS = {
    "plain": named("people"),
    "brackets": named("people[1]", "people1"),
    "star": named("people*", "people1", "people"),
    "question mark": named("people?", "people1"),
    "space and letters": named("a b%20#é漢'", "a"),
    "folder": named("rel[1]/level=a", "rel1"),
    "link": linked,
    "pattern": several,
    "pattern and links": several_twice,
}

# ------------------------------------------------------------------ the replay


@dataclass
class Replay:
    """What was compared and what was found."""

    comparisons: int = 0
    violations: tuple[str, ...] = ()

    def note(self, *description, right):
        self.comparisons += 1
        if not right:
            self.violations += (", ".join(map(str, description)),)


def counts_of(data, schema, engine, folder):
    """What a release would add noise to."""
    budget, ledger = gl.Budget(1.0, 1e-6), folder.parent / f"{folder.name}.ledger"
    table = gl.read(data, schema, protect=gl.Rows(1), budget=budget, ledger=ledger, engine=engine)
    return [reveal(value, table.ledger) for value in table.marginals(SETS, rows="extended")]


def replay(kind, engine, layout, rows, schema, removed, found):
    """The table, and the same without each of the removed rows."""
    first = None
    for left_out in (None, *removed):
        kept = [row for place, row in enumerate(rows) if place != left_out]
        folder = Path(tempfile.mkdtemp())
        ending = kind.removeprefix("typed ")
        data = LAYOUTS[layout](folder, ending, lambda path, part: write(path, kind, part), kept)
        counts = counts_of(data, schema, engine, folder)
        if first is None:
            first = counts
            seen = [row for row in rows if any(cell.strip() for cell in row)] if kind == "xlsx" else rows
            meant = counts_of(frame_of(kind, seen), schema, None, folder)
            for names, before, now in zip(SETS, meant, counts, strict=True):
                right = np.array_equal(before, now)
                found.note("not the rows of the file", kind, engine, layout, names, right=right)
        else:
            for names, before, now in zip(SETS, first, counts, strict=True):
                right = np.abs(before - now).sum() <= 1
                found.note("moved by more than one", kind, engine, layout, names, left_out, right=right)


def replayed(*, many, every, readers=READERS, layouts=LAYOUTS):
    """All readers and layouts, with another schema for each; the last row is always one that goes."""
    found = Replay()
    for ((kind, engine), layout), number in zip(itertools.product(readers, layouts), itertools.cycle(range(12))):
        rows = rows_for(kind, number, many=many)
        removed = {*range(number % every, len(rows), every), len(rows) - 1}
        replay(kind, engine, layout, rows, schema_of(number), removed, found)
    logging.getLogger(__name__).info("%d comparisons, %d violations", found.comparisons, len(found.violations))
    return found


def test_one_row_changes_one_count_by_one_in_every_file(record_property):
    found = replayed(many=12, every=12)
    record_property("comparisons", found.comparisons)
    assert found.comparisons > 2000
    assert not found.violations


@pytest.mark.slow
def test_every_row_of_longer_tables(record_property):
    found = replayed(many=None, every=1)
    record_property("comparisons", found.comparisons)
    assert found.comparisons > 60_000
    assert not found.violations


# ------------------------------------------------------------------ planted: the replay itself must find these


def with_empty_rows(path, layout):
    """Rows as they come from the sheet, up to its last value."""
    with mock.patch.object(pl.DataFrame, "filter", lambda frame, *_: frame):
        return excel.read_sheet(path, layout)


def every_name(data):
    folder, pattern = source.split_pattern(data)
    return [Path(data)] if not pattern else sorted(source._matches(folder, Path(pattern).parts))


PLANTED = {
    "empty rows of a sheet": ("read_sheet", with_empty_rows, ("xlsx", "memory"), "plain", "moved by more"),
    "a name for a pattern": ("scan_parquet", pl.scan_parquet, ("parquet", "memory"), "star", "not the rows"),
    "a file of many names": ("find_files", every_name, ("csv", "memory"), "pattern and links", "moved by more"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_replay_finds_what_is_planted(name):
    function, planted, reader, layout, expected = PLANTED[name]
    with mock.patch.object(source, function, planted):
        found = replayed(many=12, every=1, readers=[reader], layouts=[layout])
    assert any(expected in violation for violation in found.violations)
