"""The public table: codes, marginals, and files that are whole or not there."""

import errno
import io
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.files import replace

SCHEMA = gl.Schema("t", [gl.Categorical("a", ["x", "y"], may_be_missing=True), gl.Boolean("b", may_be_missing=True)])
TABLE = gl.Table.read(pl.DataFrame({"a": ["x", "y", None, "x"], "b": [True, None, None, True]}), SCHEMA)
OLD = b"the old file"


def test_a_table_tells_its_size():
    assert len(TABLE) == TABLE.rows == 4
    assert repr(TABLE) == "<Table 't': 4 rows, 2 columns>"


def test_marginals_count_observed_or_all_rows():
    assert TABLE.marginal("a").tolist() == [2, 1]
    assert TABLE.marginal("a", rows="extended").tolist() == [2, 1, 1]
    assert TABLE.marginal(["b", "a"]).tolist() == [[0, 0], [2, 0]]
    assert TABLE.marginal(["b", "a"], rows="extended").tolist() == [[0, 0, 0], [2, 0, 0], [0, 1, 1]]
    assert TABLE.marginal(()).tolist() == 4
    with pytest.raises(gl.errors.SchemaError, match="no column 'c' in the schema"):
        TABLE.marginal("c")


def test_codes_are_kept_small():
    assert all(codes.dtype == np.uint8 for codes in TABLE.codes)


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(gl.errors.ReadError, match=r"t\.xlsx: unknown ending\n  Try: one of: \.csv"):
        TABLE.write(tmp_path / "t.xlsx")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def old(tmp_path):
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        (tmp_path / name).write_bytes(OLD)
    return tmp_path


def intact(folder: Path) -> bool:
    return {path.name: path.read_bytes() for path in folder.iterdir()} == dict.fromkeys(
        ("t.csv", "t.csv.gz", "t.parquet"), OLD
    )


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_full_disk_leaves_the_old_file_and_no_litter(name, old, monkeypatch):
    class Full(io.FileIO):
        def write(self, _data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(path, mode):
        return Full(path, mode)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(
        gl.errors.ReadError, match=r"No space left on device\n  Try: free space .* the old file is intact"
    ):
        TABLE.write(old / name)
    assert intact(old)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_failing_flush_or_rename_leaves_the_old_file_and_no_litter(name, old, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    for owner, function in ((os, "fsync"), (Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, fail)
            with pytest.raises(gl.errors.ReadError, match="Input/output error"):
                TABLE.write(old / name)
        assert intact(old)


def test_a_real_limit_of_the_system_leaves_the_old_files(old):
    """Not even this process's own library for Parquet gets through: the system itself refuses to write more."""
    code = f"""
import resource, numpy as np, gapless as gl
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
schema = gl.Schema("t", [gl.Number("a", bounds=(0, 1), bins=1)])
table = gl.Table(schema, [np.zeros(9999, int)], rows=9999)
for name in ("t.csv", "t.csv.gz", "t.parquet"):
    try:
        table.write({str(old)!r} + "/" + name)
    except gl.errors.ReadError as error:
        assert "the old file is intact" in str(error)
    else:
        raise SystemExit("written")
"""
    assert resource.RLIMIT_FSIZE is not None
    subprocess.run([sys.executable, "-c", code], check=True)
    assert intact(old)


def test_a_folder_that_is_not_there_or_not_yours_is_named(tmp_path, monkeypatch):
    with pytest.raises(
        gl.errors.ReadError, match=r"No such file or directory\n  Try: a folder that exists and is yours"
    ):
        TABLE.write(tmp_path / "none" / "t.csv")
    (tmp_path / "file").touch()
    with pytest.raises(gl.errors.ReadError, match="Not a directory"):
        TABLE.write(tmp_path / "file" / "t.csv")
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(gl.errors.ReadError, match="Is a directory"):
        TABLE.write(tmp_path / "t.csv")

    def read_only(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("gapless.files.mkdtemp", read_only)
    with pytest.raises(gl.errors.ReadError, match=r"Read-only file system\n  Try: a folder that exists and is yours"):
        TABLE.write(tmp_path / "u.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_folder_keeps_its_old_file(old):
    old.chmod(0o500)
    try:
        with pytest.raises(gl.errors.ReadError, match="Permission denied"):
            TABLE.write(old / "t.csv")
        assert intact(old)
    finally:
        old.chmod(0o700)


def test_an_error_of_another_kind_or_an_interrupt_leaves_no_litter(old):
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), replace(old / "t.csv") as partial:
            partial.write_bytes(b"half")
            raise error
        assert intact(old)


def test_schemas_are_written_the_same_way(old, monkeypatch):
    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(gl.errors.ReadError, match="No space left"):
        SCHEMA.write(old / "t.csv")
    assert intact(old)
