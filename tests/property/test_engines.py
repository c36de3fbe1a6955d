"""The same numbers wherever the rows lie: chunks, files, PostgreSQL and Spark against memory.

Random tables with gaps of every kind, empty ones and chunks of every size included. What is refused on an engine that
holds no rows: tests/unit/data/engines/test_memory.py. How cells are coded: tests/property/test_coding.py.
"""

import itertools
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.engines import disk, sql_engine
from gapless.data.engines.disk import Disk
from gapless.data.engines.memory import Memory
from gapless.data.engines.postgres import PostgresSource, Sql
from gapless.data.row_contribution import Groups, RowContribution
from gapless.data.sums import hot_deck_sum, plain_sum, rank_scores
from gapless.data.workload import Views, Workload
from gapless.synth import METHODS
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise
from helpers import random_views
from helpers.chunked_engine import ChunkedEngine, chunked
from helpers.databases import in_postgres, query_of
from helpers.examples import examples
from helpers.open_sealed import reveal

SIZES = (2, 3, 2)
TRIED = [
    *(name for name, method in METHODS.items() if method.pure),
    "kamino",
]  # what counts, and one that is trained
SCHEMA = letters_schema(SIZES)
CELLS = [[*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)]
PAIRS = list(itertools.combinations(range(3), 2))
MERGED = [(c, np.maximum(np.arange(column.extended_size) - 1, 0)) for c, column in enumerate(SCHEMA.columns)]

rows_of_letters = st.lists(st.tuples(*(st.sampled_from(cells) for cells in CELLS)), max_size=12)


def count_values(rows):
    """Weighs two columns, gaps and all, in two parts."""
    return np.stack([rows["x0"].astype(np.int64) + 2, 3 * rows["x1"].astype(np.int64)], axis=1)


TALLY = RowContribution(("x0", "x1"), count_values, 2, 30)
GROUPED = RowContribution(
    ("x1", "x2"), lambda rows: rows["x1"][:, None], 1, 9, by=(Groups("x2", np.arange(4), 2),), needs=frozenset({"x0"})
)
COUNTED = replace(GROUPED, value=lambda rows: np.ones((len(rows["x1"]), 1)), unit=1)
EMPTY = RowContribution((), lambda rows: np.ones((len(next(iter(rows.values()))), 1), dtype=np.int64), 1, 1)

# From a sealed table to sealed values.
VALUES = {
    "observed": lambda table: table.marginals(_sets(table), rows="observed"),
    "extended": lambda table: table.marginals(_sets(table), rows="extended"),
    "gap patterns": lambda table: [table.gap_patterns(table.schema.names)],
    "gap patterns, some": lambda table: [table.gap_patterns(table.schema.names, among=[(True,), (False,)])],
    "plain sum": lambda table: [plain_sum(table, TALLY)],
    "plain sum by groups": lambda table: [plain_sum(table, GROUPED)],
    "plain sum of no column": lambda table: [plain_sum(table, EMPTY)],
    "ranks": lambda table: rank_scores(table, COUNTED, "x1", quantile=Fraction(2, 3), shifts=[-1, 0, 2]),
    "hot deck": lambda table: [hot_deck_sum(table, TALLY, targets=["x0", "x1"], cells=["x2"], limit=2)],
    "hot deck, no classes": lambda table: [hot_deck_sum(table, GROUPED, targets=["x1"], cells=[], limit=1)],
    "workload": lambda table: _scores(Workload(table, PAIRS, rows="observed"), gaps=False),
    "workload, extended": lambda table: _scores(Workload(table, PAIRS, rows="extended"), gaps=True),
    "views": lambda table: _views(Views(table, MERGED, rows="observed")),
    "views, extended": lambda table: _views(Views(table, MERGED, rows="extended")),
}
# From a sealed table to another.
MAPS = {
    "itself": lambda table: table,
    "select": lambda table: table.select(["x2", "x0", "x1"]),
    "where": lambda table: table.where("x1", ["a", "not applicable"]),
    "complete rows": lambda table: table.complete_rows(),
    "clamp": lambda table: table.clamp("x1", lowest="a", highest="b"),
    "clamp then where": lambda table: table.clamp("x1", lowest="b", highest="c").where("x0", ["b"]),
}


def _sets(table):
    names = table.schema.names
    return [s for n in range(len(names) + 1) for s in itertools.permutations(names, n)]


def _scores(workload, *, gaps):
    columns = SCHEMA.columns
    shapes = [[columns[c].extended_size if gaps else columns[c].size for c in pair] for pair in PAIRS]
    uniform = [np.full(shape, 1 / np.prod(shape)) for shape in shapes]
    weights = np.ones(len(PAIRS)), np.zeros(len(PAIRS))
    return [misfit(PAIRS, uniform, *weights) for misfit in (workload.misfit, workload.conditional_misfit)]


def _views(views):
    return [*views.counts_of([(0, 1), (2,)]), views.dependence(PAIRS), views.dependence([(2, 0, 1)])]


@pytest.mark.parametrize("value", VALUES)
@examples(20)
@given(rows=rows_of_letters, size=st.integers(1, 5), name=st.sampled_from(list(MAPS)))
def test_every_transformation_gives_the_same_on_chunks_as_in_memory(value, rows, size, name):
    memory = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    compare(value, name, memory, chunked(memory, size), ChunkedEngine)


def compare(value, name, memory, other, engine):
    """What a transformation behind a map declares and holds, in memory and elsewhere."""
    if name == "select" and ("workload" in value or "views" in value):
        name = "itself"  # their distributions are for the original columns
    near, far = (MAPS[name](table) for table in (memory, other))
    assert isinstance(reveal(far._rows, far.ledger), engine)
    for here, there in zip(VALUES[value](near), VALUES[value](far), strict=True):
        assert (here.distance, here.reads) == (there.distance, there.reads)
        assert np.array_equal(reveal(here, near.ledger), reveal(there, far.ledger))


@pytest.mark.parametrize("value", VALUES)
@examples(8)
@given(rows=rows_of_letters, size=st.integers(1, 5), name=st.sampled_from(list(MAPS)))
def test_every_transformation_gives_the_same_on_files_as_in_memory(value, rows, size, name):
    memory = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    with mock.patch.object(disk, "ROWS", size):
        compare(value, name, memory, _on_disk(rows, Path(tempfile.mkdtemp())), Disk)


def _on_disk(rows, folder, kind="parquet", **more):
    frame = letters_frame(rows)
    for part in range(2):
        path = folder / f"{part}.{kind}"
        half = frame[part::2]
        half.write_parquet(path) if kind == "parquet" else half.write_csv(path)
    return gl.read(
        folder / f"*.{kind}",
        SCHEMA,
        protect=gl.Rows(1),
        ledger=folder / "t.ledger",
        budget=gl.Budget(3.0, 1e-6),
        **more,
    )


@pytest.mark.parametrize(
    ("kind", "engine", "methods"),
    [
        ("parquet", "disk", TRIED),
        ("csv", "disk", ["aim", "privbayes"]),
        ("parquet", "duckdb", ["aim", "mixture"]),
    ],
)
def test_the_same_noise_gives_the_same_release_from_files(kind, engine, methods, tmp_path):
    rng = np.random.default_rng(5)
    rows = [tuple(cells[rng.integers(len(cells))] for cells in CELLS) for _ in range(300)]
    for method in methods:
        (tmp_path / method).mkdir()
        results = []
        for table in (
            private(rows, SCHEMA, tmp_path, budget=gl.Budget(3.0, 1e-6)),
            _on_disk(rows, tmp_path / method, kind, engine=engine),
        ):
            with fixed_noise(7):
                model = METHODS[method]().fit(table, spend=table.ledger.left)
            results.append([entry.content() for entry in table.ledger.entries])
            # Lots are of rows by their places, and two files have others than one.
            results[-1] += [] if not METHODS[method].pure else model.sample(50, seed=1).to_polars().rows()
        assert results[0] == results[1]


@pytest.mark.parametrize("value", VALUES)
@examples(6)
@given(rows=rows_of_letters, name=st.sampled_from(list(MAPS)))
def test_every_transformation_gives_the_same_in_postgresql_as_in_memory(value, rows, name, postgres):
    memory = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    compare(value, name, memory, in_postgres(memory, letters_frame(rows), postgres), Sql)


@examples(25)
@given(rows=random_views.rows_of_codes, maps=random_views.maps, size=st.integers(1, 4), few=st.booleans())
@example(  # a map behind a map, marks before it, and marks behind it on the same column
    rows=[(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 3)],
    maps=[
        ("keep", {0: [True, True, True, False]}),
        ("recode", {0: [1, 2, 3, 0]}),
        ("recode", {0: [0, 2, 2, 1]}),
        ("keep", {0: [True, True, False, True]}),
        ("select", [2, 0]),
    ],
    size=1,
    few=True,
)
def test_views_of_views_in_postgresql_are_what_memory_makes_of_them(rows, maps, size, few, postgres):
    """By counts of combinations of codes, or by codes of all rows where those are too many."""
    frame = pl.DataFrame(rows, schema=dict.fromkeys(random_views.NAMES, pl.Int64), orient="row")
    memory = Memory(tuple(frame[name].to_numpy().astype(np.uint8) for name in random_views.NAMES), frame.height)
    table = Sql.read(PostgresSource(postgres, query_of(frame)), random_views.SCHEMA)
    near, far = random_views.viewed(memory, table, maps)
    with mock.patch.multiple(sql_engine, ROWS=size, MOST_KEYS=sql_engine.MOST_KEYS if few else 0):
        random_views.check_same_rows(near, far, ordered=False)


def letters_frame(rows):
    return pl.DataFrame(list(rows), schema=dict.fromkeys(SCHEMA.names, pl.String), orient="row")


@pytest.mark.parametrize("method", TRIED)
@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed(), gl.CompleteRows()])
def test_the_same_noise_gives_the_same_model_on_chunks_as_in_memory(method, missing, tmp_path):
    rng = np.random.default_rng(5)
    rows = [tuple(cells[rng.integers(len(cells))] for cells in CELLS) for _ in range(300)]
    samples = []
    for size in (None, 40):
        table = private(rows, SCHEMA, tmp_path, budget=gl.Budget(3.0, 1e-6))
        with fixed_noise(7):
            model = METHODS[method](missing=missing).fit(
                table if size is None else chunked(table, size), spend=table.ledger.left
            )
        sample = model.sample(50, seed=1).to_polars()
        entries = [(entry.what, entry.mechanism, entry.reads) for entry in table.ledger.entries]
        # Lots are drawn part by part: where parts have odd numbers of rows, by other words of the same noise.
        others = isinstance(missing, gl.CompleteRows) and not METHODS[method].pure
        samples.append(entries if others else sample.rows())
    assert samples[0] == samples[1]


@pytest.mark.parametrize("missing", [gl.Drop(), gl.HotDeck(on=["x0"])])
def test_the_same_noise_gives_the_same_answers_on_chunks_as_in_memory(missing, tmp_path):
    rows = [("a", "b", "a"), ("b", None, "b"), (None, "-", "b"), ("a", "n/a", "b"), ("b", "c", None)] * 20
    questions = [gl.Count(where="x1 == b", missing=missing), gl.Proportion("x1 == b", by="x2", missing=missing)]
    results = []
    for size in (None, 7):
        table = private(rows, SCHEMA, tmp_path, budget=gl.Budget(3.0, 1e-6))
        table = table if size is None else chunked(table, size)
        with fixed_noise(7):
            results.append([str(table.ask(question, spend=table.ledger.share("20%"))) for question in questions])
            results[-1].append(str(gl.missing.describe_gaps(table, spend=table.ledger.share("50%"))))
    assert results[0] == results[1]
