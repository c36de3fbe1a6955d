"""Neighbouring tables in PostgreSQL: with and without each row of a table of odd cells.

Each row is taken away once, and is once alone. Nothing may be refused; every marginal and every pattern of gaps moves
by one row in one cell, or by none where the row has a gap and only observed rows count; and the rows that are handed
out are the same but for that one. The same for files: tests/audit/test_replay_files.py. On a Spark cluster rows are
counted by the same queries (`data/engines/sql_engine.py`).
"""

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
import psycopg
import pytest

import gapless as gl
from gapless.data.engines.postgres import Sql
from helpers.odd_cells import MOMENTS, POSTGRES, TEXTS
from helpers.open_sealed import reveal

GAPS = {
    "may_be_missing": True,
    "missing": ("NA", gl.MissingCode("-9", "refused"), gl.MissingCode("n/a", "not-applicable")),
}
SCHEMA = gl.Schema(
    "odd",
    [
        gl.Categorical("word", ["a", "b", "13", "日本", "other"], outside="other", **GAPS),
        gl.Boolean("yes", **GAPS),
        gl.Number("amount", bounds=(0, 2000), bins=3, decimal=",", thousands=".", outside="missing", **GAPS),
        gl.Number("number", bounds=(-1, 1000), edges=(-1, 0, 0.5, 1000), **GAPS),
        gl.Date("day", bounds=("1900-01-01", "2030-12-31"), bins=3, **GAPS),
        gl.DateTime("moment", bounds=("1960-01-01", "2040-01-01"), bins=3, outside="missing", **GAPS),
        gl.Date("written", bounds=("1900-01-01", "2030-12-31"), bins=3, outside="missing", **GAPS),
    ],
)
CELLS = {  # by column: its type in the database, and what it holds
    "word": ("text", [None, *TEXTS]),
    "yes": ("text", [None, "yes", "NO", "true", "-9", *TEXTS]),
    "amount": ("text", [None, "1.234,5", "-9,0", *TEXTS]),
    "number": ("numeric", [None, "0", "0.5", "-9", "999.999", *POSTGRES["numeric"]]),
    "day": ("date", [None, "2024-02-29", "1899-12-31", "2031-01-01", *POSTGRES["date"]]),
    "moment": ("timestamptz", [None, "2024-02-29 10:00+00", "1960-01-01 00:00+00", *POSTGRES["timestamptz"]]),
    "written": ("text", [None, "2024-02-29", "NA", *MOMENTS]),
}
SETS = [s for n in range(3) for s in itertools.combinations(SCHEMA.names, n)] + [("word", "number", "day")]
QUERY = "SELECT word, yes, amount, number, day, moment, written FROM odd"


def fill(url, rows):
    """A table with this number of rows; each row has other unusual cells."""
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in CELLS.items())
    cells = [
        (
            row,
            *(
                cells[(3 * row + 5 * place + row // len(cells)) % len(cells)]
                for place, (_, cells) in enumerate(CELLS.values())
            ),
        )
        for row in range(rows)
    ]
    placeholders = ", ".join(["%s", *(f"%s::{kind}" for kind, _ in CELLS.values())])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS odd")
        connection.execute(f"CREATE TABLE odd (id integer, {columns})")
        connection.cursor().executemany(f"INSERT INTO odd VALUES ({placeholders})", cells)


@dataclass(frozen=True)
class Seen:
    """All that is counted of a table, and its rows."""

    extended: list
    observed: list
    patterns: np.ndarray
    complete: list
    rows: Counter

    @classmethod
    def of(cls, url, query, folder):
        given = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "ledger": folder / "odd.ledger"}
        table = gl.read(url, SCHEMA, query=query, **given)
        assert table._engine is Sql

        def counts(table, rows):
            return [reveal(value, table.ledger) for value in table.marginals(SETS, rows=rows)]

        held = reveal(table._unbinned_rows, table.ledger)
        places = [SCHEMA.names.index(name) for name in ("word", "day")]
        batches = (batch for columns in (places, range(len(SCHEMA.names))) for batch in held.batches(columns))
        rows = Counter(tuple(map(int, row)) for batch in batches for row in zip(*batch.columns, strict=True))
        patterns = reveal(table.gap_patterns(SCHEMA.names), table.ledger)
        kept = table.where("yes", ["true"]).clamp(
            "number", lowest=SCHEMA["number"].cells[1], highest=SCHEMA["number"].cells[1]
        )
        return cls(counts(table, "extended"), counts(table, "observed"), patterns, counts(kept, "extended"), rows)


def problems(more, less):
    """What is wrong with two tables of which one has a row more; and how many values were compared."""
    found = []
    pairs = [
        *(("extended", 1, *values) for values in zip(more.extended, less.extended, strict=True)),
        *(("observed", 0, *values) for values in zip(more.observed, less.observed, strict=True)),
        *(("filtered", 0, *values) for values in zip(more.complete, less.complete, strict=True)),
        ("patterns", 1, more.patterns, less.patterns),
    ]
    for name, least, here, there in pairs:
        change = (here - there).ravel()
        if change.min(initial=0) < 0 or not least <= change.sum() <= 1:
            found.append(f"{name} of shape {here.shape} moved by {np.abs(change).sum()}")
    gone, come = more.rows - less.rows, less.rows - more.rows
    if gone.total() != 2 or come:  # one of the two columns, one of all
        found.append(f"{gone.total()} rows went and {come.total()} came")
    return found, len(pairs) + 1


def replay(url, rows, folder, query=QUERY):
    """What goes wrong, and how many values were compared: each row taken away, and each alone."""
    fill(url, rows)
    whole, none = (Seen.of(url, f"{query} WHERE {which}", folder) for which in ("true", "false"))
    assert not any(values.any() for values in none.extended)
    found, compared = [], 0
    for row in range(rows):
        for more, less in (
            (whole, Seen.of(url, f"{query} WHERE id <> {row}", folder)),
            (Seen.of(url, f"{query} WHERE id = {row}", folder), none),
        ):
            wrong, values = problems(more, less)
            found += [f"row {row}: {text}" for text in wrong]
            compared += values
    return found, compared


def test_a_row_changes_every_count_by_one_in_one_cell(postgres, tmp_path, record_property):
    found, compared = replay(postgres, 8, tmp_path)
    assert not found
    assert compared == 8 * 2 * (3 * len(SETS) + 2)
    record_property("comparisons", compared)


@pytest.mark.slow
def test_a_row_of_any_odd_cells_changes_every_count_by_one_in_one_cell(postgres, tmp_path, record_property):
    rows = max(len(cells) for _, cells in CELLS.values())
    found, compared = replay(postgres, rows, tmp_path)
    assert not found
    assert compared == rows * 2 * (3 * len(SETS) + 2)
    record_property("comparisons", compared)


def test_a_query_in_which_a_row_changes_others_is_found(postgres, tmp_path):
    """The holder must not write it; here it stands for an engine that counts rows by what others hold."""
    counting = "CASE WHEN count(*) OVER () > 2 THEN 'a' ELSE 'b' END AS word"
    planted = f"SELECT {counting}, {', '.join(SCHEMA.names[1:])} FROM odd"
    found, _ = replay(postgres, 3, tmp_path, planted)
    assert found
