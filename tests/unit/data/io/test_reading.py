"""Which engine holds a table, and which cannot."""

import polars as pl
import pytest

import gapless as gl
from gapless.data.engines.disk import Disk
from gapless.data.engines.memory import Memory
from gapless.data.io.reading import default_engine, is_file, open_engine

SCHEMA = gl.Schema("t", [gl.Integer("x", bounds=(0, 9))])
FRAME = pl.DataFrame({"x": [1, 2]})


def opened_by(data, engine=None, query=None):
    return open_engine(data, SCHEMA, engine=engine, query=query, encoding=None)


def test_a_file_is_read_into_memory_unless_another_engine_is_named(tmp_path):
    path = tmp_path / "t.parquet"
    FRAME.write_parquet(path)
    assert isinstance(opened_by(path), Memory)
    assert isinstance(opened_by(path, "disk"), Disk)
    assert isinstance(opened_by(tmp_path / "*.parquet"), Disk)
    assert opened_by(path, "disk").rows == opened_by(FRAME).rows == 2


@pytest.mark.parametrize(
    ("engine", "query", "error", "wrong"),
    [
        ("tape", None, gl.errors.EngineError, "engine = 'tape', but engine must be one of"),
        ("disk", None, gl.errors.EngineError, "the engine disk does not read such data"),
        (None, "select 1", gl.errors.ReadError, "a query is for a database"),
    ],
)
def test_refuses_options_that_do_not_fit(engine, query, error, wrong):
    with pytest.raises(error, match=wrong):
        opened_by(FRAME, engine, query)


def test_a_database_is_no_file_and_what_spark_reads_may_lie_anywhere():
    assert (default_engine("postgresql://localhost/x"), default_engine("big/*.csv"), default_engine(FRAME)) == (
        "sql",
        "disk",
        "memory",
    )
    assert is_file("people.csv")
    assert not is_file("people.parquet", "spark")
    assert not is_file("postgresql://localhost/x")
