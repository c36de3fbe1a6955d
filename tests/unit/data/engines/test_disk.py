"""Rows that stay on the disk: how many passes there are, files that change, refusals, and messages."""

import os
import sys
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.engines import disk
from gapless.data.engines.disk import Disk, Files
from gapless.data.io.reading import ledger_beside
from gapless.privacy.sgd import BLOCK
from gapless.synth import METHODS
from gapless.testing.audit import letters_schema
from gapless.testing.noise import fixed_noise

SCHEMA = letters_schema([2, 3, 2, 2])
RNG = np.random.default_rng(2)
FRAME = pl.DataFrame(
    {f"x{c}": [None if RNG.random() < 0.1 else str(RNG.choice(list("ab"))) for _ in range(300)] for c in range(4)}
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people").mkdir()
    for part in range(3):
        FRAME[100 * part : 100 * part + 100].write_parquet(tmp_path / "people" / f"{part}.parquet")
    return tmp_path / "people"


def opened(data, engine=None, schema=SCHEMA, **more):
    return gl.read(data, schema, protect=gl.Rows(1), budget=gl.Budget(3.0, 1e-6), engine=engine, **more)


def passes():
    """Each pass over the files, as it begins."""
    begun = []
    frames = Files.frames

    def counted(files, columns=None):
        begun.append(columns)
        return frames(files, columns)

    return begun, mock.patch.object(Files, "frames", counted)


# One for each round, besides the look at every cell: rounds that do not depend on what was counted before share one.
PASSES = {
    "independent": 1,  # every column
    "mixture": 1,  # every pair
    "mst": 1,  # all pairs, of which scores and measurements are made
    "aim": 1,  # the same
    "privbayes": 4,  # three columns choose their parents; then all tables. The number of rows is known
}


@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed()])
@pytest.mark.parametrize("method", PASSES)
def test_a_method_makes_one_pass_for_each_round(method, missing, folder):
    table = opened(folder / "*.parquet")
    begun, counting = passes()
    with counting, fixed_noise(1):
        METHODS[method](missing=missing).fit(table, spend=table.ledger.left)
    assert len(begun) <= PASSES[method]


def test_training_makes_one_pass_for_each_step(folder):
    table = opened(folder / "*.parquet")
    begun, counting = passes()
    with counting, fixed_noise(1):
        gl.Kamino(steps=3).fit(table, spend=table.ledger.left)
    assert len(begun) == 1 + 3


def test_diagnosis_and_questions_make_few(folder):
    table = opened(folder / "*.parquet")
    begun, counting = passes()
    with counting, fixed_noise(1):
        table.ask(gl.Proportion("x0 == a", missing=gl.HotDeck(on=["x1"])), spend=table.ledger.share("10%"))
        assert len(begun) == 1
        gl.missing.describe_gaps(table, spend=table.ledger.share("50%"))
    assert len(begun) <= 4


def test_a_pass_reads_only_the_needed_columns(folder):
    table = opened(folder / "*.parquet").where("x3", ["a"])
    begun, counting = passes()
    with counting, fixed_noise(1):
        table.ask(gl.Proportion("x1 == a"), spend=table.ledger.share("10%"))
    assert [sorted(columns) for columns in begun] == [["x1", "x3"]]


def test_a_poisson_sample_has_the_sampled_rows_and_no_others(folder):
    engine = Disk.at(folder / "*.parquet", SCHEMA, encoding=None)
    asked = []
    with mock.patch.object(disk, "ROWS", 7):
        sample = engine.poisson_sample([0, 2], lambda rows: asked.append(rows) or np.arange(rows) % 5 == 0)
    assert max(asked) == 7
    assert sum(asked) == 300
    assert sample.rows == sum(-(-rows // 5) for rows in asked) < BLOCK
    assert len(sample.columns) == 2


# ---------------------------------------------------------------------- files that change


def longer_at_the_same_time(path):
    before = path.stat()
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {
    "longer": lambda folder: FRAME.write_parquet(folder / "1.parquet"),
    "touched": lambda folder: os.utime(folder / "1.parquet", ns=(1, 1)),
    "replaced by an equal one": lambda folder: (
        (folder / "new").write_bytes((folder / "1.parquet").read_bytes()),
        os.utime(
            folder / "new", ns=((folder / "1.parquet").stat().st_atime_ns, (folder / "1.parquet").stat().st_mtime_ns)
        ),
        (folder / "new").replace(folder / "1.parquet"),
    ),
    "longer, and its time put back": lambda folder: longer_at_the_same_time(folder / "1.parquet"),
    "gone": lambda folder: (folder / "1.parquet").unlink(),
    "one more": lambda folder: FRAME.write_parquet(folder / "9.parquet"),
    "all gone": lambda folder: [path.unlink() for path in folder.iterdir()],
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_files_are_refused_before_a_pass(change, folder):
    table = opened(folder / "*.parquet")
    CHANGES[change](folder)
    with (
        mock.patch.object(Files, "frames") as frames,
        pytest.raises(gl.errors.ReadError, match=r"since the table was read: releases would be of two tables"),
    ):
        gl.Independent().fit(table, spend=table.ledger.left)
    assert not frames.called


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_change_during_a_pass_are_refused_after_it(change, folder):
    engine = Disk.at(folder / "*.parquet", SCHEMA, encoding=None)
    batches = engine.batches([0])
    next(batches)
    CHANGES[change](folder)
    with pytest.raises(gl.errors.ReadError, match=r"since the table was read"):
        list(batches)


def test_a_change_while_the_table_is_read_is_refused_and_no_ledger_is_made(folder):
    frames = Files.frames

    def changing(files, columns=None):
        yield from frames(files, columns)
        os.utime(folder / "0.parquet", ns=(1, 1))

    with (
        mock.patch.object(Files, "frames", changing),
        pytest.raises(gl.errors.ReadError, match=r"0.parquet is new or changed"),
    ):
        opened(folder / "*.parquet")
    assert not (folder.parent / "people.ledger").exists()


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ValueError("cell 'secret'"), pl.exceptions.PanicException("secret")]
)
def test_a_pass_that_fails_quotes_no_cell(error, folder):
    engine = Disk.at(folder / "*.parquet", SCHEMA, encoding=None)
    with (
        mock.patch.object(disk.source, "parquet_frames", side_effect=error),
        pytest.raises(gl.errors.ReadError) as caught,
    ):
        list(engine.batches([0]))
    assert "secret" not in str(caught.value)


# ---------------------------------------------------------------------- what is refused


def test_errors_name_a_missing_file_a_wrong_column_and_a_wrong_type(folder):
    with pytest.raises(gl.errors.ReadError, match=r"no file matches .*nobody"):
        opened(folder / "nobody*.parquet")
    with pytest.raises(gl.errors.ReadError, match=r"no file .*9.parquet"):
        opened(folder / "9.parquet", "disk")
    FRAME.drop("x1").write_parquet(folder / "8.parquet")
    with pytest.raises(gl.errors.SchemaError, match="the data have no column 'x1'"):
        opened(folder / "*.parquet")
    FRAME.with_columns(x1=pl.lit([1, 2])).write_parquet(folder / "8.parquet")
    with pytest.raises(gl.errors.ReadError, match="column 'x1' holds values of type List"):
        opened(folder / "*.parquet")
    (folder / "8.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(gl.errors.ReadError, match=r"8.parquet is not a valid Parquet file"):
        opened(folder / "*.parquet")
    (folder / "8.parquet").unlink()
    (folder / "8.xlsx").write_bytes(b"")
    with pytest.raises(
        gl.errors.ReadError,
        match=r"8.xlsx cannot stay on the disk while it is read; only these formats can: .csv, .*\n  Try: pass engine",
    ):
        opened(folder / "*")
    assert not (folder.parent / "people.ledger").exists()


def test_refuses_and_names_operations_on_all_rows(folder):
    table = opened(folder / "*.parquet")
    for refused in (
        lambda: gl.MST(missing=gl.ImputeFirst(gl.missing.FromMode())).fit(table, spend=table.ledger.left),
        lambda: table.ask(gl.Count(where="x0 == a", missing=gl.Knn(on=["x1"])), spend=table.ledger.left),
    ):
        with pytest.raises(gl.errors.EngineError, match="the engine disk does not hold them"):
            refused()
    assert not table.ledger.entries


def test_filling_is_refused_before_bins_are_paid_for(tmp_path):
    pl.DataFrame({"age": [20, None, 60]}).write_parquet(tmp_path / "people.parquet")
    schema = gl.Schema("people", [gl.Integer("age", bounds=(0, 99), bins="learned", may_be_missing=True)])
    table = opened(tmp_path / "people.parquet", "disk", schema)
    with pytest.raises(gl.errors.EngineError, match="filling gaps first"):
        gl.Independent(missing=gl.ImputeFirst(gl.missing.FromMode())).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_engines_that_are_none_and_frames_on_no_disk_are_refused(folder):
    with pytest.raises(gl.errors.EngineError, match=r"engine = 'paper', but engine must be one of.*\n  Try"):
        opened(folder / "0.parquet", "paper")
    with pytest.raises(
        gl.errors.EngineError, match=r'the engine disk does not read such data, .*\n  Try: pass engine="memory"'
    ):
        opened(FRAME, "disk", ledger=folder / "l.ledger")


def test_without_duckdb_the_hint_names_what_needs_none(folder):
    with (
        mock.patch.dict(sys.modules, {"duckdb": None}),
        pytest.raises(gl.errors.ReadError, match=r'duckdb is not installed\n.*"disk"'),
    ):
        opened(folder / "*.parquet", "duckdb")


def test_a_pattern_may_be_read_into_memory_and_has_one_ledger_beside_its_folder(folder, monkeypatch):
    table = opened(folder / "*.parquet", "memory")
    assert table.ledger.path == folder.parent / "people.ledger"
    assert opened(folder / "[0-2].parquet").ledger.path == table.ledger.path
    monkeypatch.chdir(folder)
    assert ledger_beside("*.parquet") == folder.parent / "people.ledger"
    assert ledger_beside(folder.parent / "*" / "*.parquet").name == f"{folder.parent.name}.ledger"
    with pytest.raises(gl.errors.LedgerError):
        ledger_beside("/*.parquet")
    odd = folder / "odd [1].parquet"  # a file whose name looks like a pattern
    FRAME.write_parquet(odd)
    assert ledger_beside(odd) == folder / "odd [1].ledger"
