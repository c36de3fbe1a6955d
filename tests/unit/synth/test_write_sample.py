"""Samples of any size go to a file part by part: the same rows as `sample` draws, whole or not there."""

import resource
import signal
import subprocess
import sys
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.synth import fitted
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise

SCHEMA = gl.Schema(
    "t",
    [
        gl.Categorical("a", ["x", "y", "ü"], may_be_missing=True),
        gl.Integer("b", bounds=(0, 99), bins=5, may_be_missing=True),
        gl.Number("c", bounds=(0, 1), bins=4),
        gl.Date("d", bounds=("2000-01-01", "2009-12-31"), bins=3),
        gl.Boolean("e"),
    ],
    encoding="utf-16",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(1)
    rows = pl.DataFrame(
        {
            "a": rng.choice(["x", "y", None], 500).tolist(),
            "b": rng.integers(0, 100, 500),
            "c": rng.random(500),
            "d": ["2004-02-03"] * 500,
            "e": rng.random(500) < 0.5,
        }
    )
    table = private(rows, SCHEMA, tmp_path_factory.mktemp("model"), budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        return gl.MST().fit(table, spend=table.ledger.left)


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.tsv", "s.parquet"])
def test_parts_are_the_rows_that_sample_draws(name, model, tmp_path):
    told = []
    with mock.patch.object(fitted, "PART_ROWS", 100):
        assert (
            model.write_sample(tmp_path / name, 250, seed=3, gaps="as-observed", progress=lambda *p: told.append(p))
            == 250
        )
    assert told == [("sampling", done, 3) for done in range(4)]
    seeds = [fitted._seed_of(3, part) for part in range(3)]
    assert len(set(seeds)) == 3
    assert seeds[0] == 3
    tables = [
        model.sample(many, seed=seed, gaps="as-observed") for many, seed in zip([100, 100, 50], seeds, strict=True)
    ]
    read = gl.Table.read(tmp_path / name, model.schema)
    assert read.rows == 250
    for place, codes in enumerate(read.codes):
        assert np.array_equal(codes, np.concatenate([table.codes[place] for table in tables]))


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.parquet"])
@pytest.mark.parametrize("rows", [0, 70])
def test_one_part_is_what_a_table_writes(name, rows, model, tmp_path):
    model.write_sample(tmp_path / name, rows, seed=3)
    model.sample(rows, seed=3).write(tmp_path / f"whole {name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole {name}").read_bytes()
    frame = pl.read_parquet if name.endswith("parquet") else lambda path: gl.Table.read(path, model.schema).to_polars()
    assert frame(tmp_path / name).height == rows


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_what_stops_a_sample_leaves_the_old_file(name, model, tmp_path):
    path = tmp_path / name
    path.write_text("old")
    with mock.patch.object(fitted, "PART_ROWS", 100):
        draw = type(model).sample
        turns = iter(range(10))
        broken = lambda *args, **more: draw(*args, **more) if next(turns) < 1 else 1 / 0  # noqa: E731 one line
        with mock.patch.object(type(model), "sample", broken), pytest.raises(ZeroDivisionError):
            model.write_sample(path, 250)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == [name]


FULL = """
import resource, signal, sys
import gapless as gl
from gapless.synth import fitted
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
fitted.PART_ROWS = 20_000
try:
    gl.load(sys.argv[1]).write_sample(sys.argv[2], 400_000, seed=1)
except gl.errors.ReadError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ") or not hasattr(resource, "RLIMIT_FSIZE"), reason="no such limit")
@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.parquet"])
def test_a_full_disk_is_told_and_nothing_is_lost(name, model, tmp_path):
    """A limit on the size of files says what a full disk says, but for the word."""
    model.save(tmp_path / "t.model")
    path = tmp_path / name
    path.write_text("old")
    told = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "t.model"), str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert f"cannot write {path}: File too large" in told
    assert "free space on the disk; the old file is intact" in told
    assert path.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([name, "t.model"])
