"""Persons in files: sums per person, rows per person and constant columns are those of the same rows in memory."""

import numpy as np
import polars as pl
import pytest

from gapless.data.engines import disk, memory
from gapless.data.person_sums import person_sum, rows_per_person
from gapless.query import parse_question
from gapless.schema import Categorical, Integer, Schema
from helpers.open_sealed import reveal
from helpers.person_tables import private_persons

SCHEMA = Schema(
    "visits",
    [
        Categorical("sex", ["f", "m"], may_be_missing=True, per_person=True),
        Integer("age", bounds=(0, 99), bins=4, may_be_missing=True),
    ],
)
QUESTIONS = ["table(sex) per person", "mean(age) per person where age >= 20 by sex", "count() per person"]


def visits(rows=700, persons=150):
    rng = np.random.default_rng(4)
    ids = [None if number == 0 else f"p{number}" for number in rng.integers(0, persons, rows)]
    return pl.DataFrame(
        {
            "id": ids,
            "sex": rng.choice(["f", "m", None], rows).tolist(),
            "age": pl.Series(rng.integers(0, 100, rows)).set(pl.Series(rng.random(rows) < 0.2), None),
        }
    )


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """The same rows in memory, in a text file and in Parquet files; engines hold few rows at a time."""
    monkeypatch.setattr(disk, "ROWS", 60)
    monkeypatch.setattr(memory, "ROWS", 90)
    pytest.importorskip("duckdb")
    frame = visits()
    frame.write_csv(tmp_path / "visits.csv")
    (tmp_path / "parts").mkdir()
    frame.head(300).write_parquet(tmp_path / "parts/a.parquet")
    frame.tail(-300).write_parquet(tmp_path / "parts/b.parquet")
    read = {
        "memory": (frame, None),
        "text": (tmp_path / "visits.csv", "disk"),
        "parquet": (tmp_path / "parts/*.parquet", "disk"),
        "duckdb": (tmp_path / "parts/*.parquet", "duckdb"),
    }
    ledgers = {name: tmp_path / f"ledger of {name}" for name in read}
    for folder in ledgers.values():
        folder.mkdir()
    return {
        name: private_persons(data, SCHEMA, ledgers[name], at_most=2, engine=engine)
        for name, (data, engine) in read.items()
    }


def opened(table):
    """Everything that is released of persons."""
    values = [table.marginal(["sex", "age"], rows="extended"), rows_per_person(table, 5)]
    for text in QUESTIONS:
        asked = parse_question(text).compile(table.schema)
        values += [person_sum(table.rebin(asked.schema), asked.contribution, classes=some) for some in (None, 3)]
    filtered = table.where("age", ["25..49", "50..74"])
    asked = parse_question("table(sex) per person").compile(filtered.schema)
    values += [person_sum(filtered, asked.contribution), rows_per_person(filtered, 3)]
    return [np.asarray(reveal(value, table.ledger)).tolist() for value in values]


def test_engines_have_the_same_sums(tables):
    in_memory = opened(tables["memory"])
    assert sum(in_memory[1]) > 140
    assert len(in_memory) == 10
    for name, table in tables.items():
        assert opened(table) == in_memory, name
