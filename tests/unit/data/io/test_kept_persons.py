"""Columns that are constant within a person: the first kept row that has a value gives it to all."""

import itertools

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.io.encode import encode
from gapless.data.io.kept_persons import hold_constant
from gapless.data.io.persons import RowLimit
from gapless.errors import EngineError, SchemaError
from gapless.schema import Categorical, Integer, MissingCode, Schema
from helpers.person_tables import KEY, private_persons

GAPS = (MissingCode(""), MissingCode("ref", "refused"))
SCHEMA = Schema(
    "visits",
    [
        Categorical("sex", ["f", "m", "x"], may_be_missing=True, missing=GAPS, per_person=True),
        Integer("visit", bounds=(0, 99)),
    ],
)


def read(rows, at_most=5, key=KEY):
    frame = pl.DataFrame(rows, schema={"id": pl.String, "sex": pl.String, "visit": pl.Int64}, orient="row")
    read_as = Schema("visits", SCHEMA.columns, person="id", rows_per_person=at_most)
    return encode([frame], read_as.finest, RowLimit(("id",), at_most, key)).columns


def test_all_rows_of_a_person_get_the_value_that_some_have():
    sex, visit = read([("p", "", 1), ("p", "m", 2), ("p", "", 3), ("q", "ref", 4), ("q", "ref", 5), ("r", "f", 6)])
    assert sex.tolist() == [1, 1, 1, 4, 4, 0]
    assert visit.tolist() == [1, 2, 3, 4, 5, 6]


def test_rows_without_an_id_keep_their_values():
    sex, _ = read([(None, "f", 1), (None, "m", 2), ("", "", 3), ("p", "m", 4), ("p", "", 5)])
    assert sex.tolist() == [0, 1, 3, 1, 1]


def test_a_value_that_varies_is_that_of_the_first_row_in_the_order_of_the_hash():
    rows = [("p", "f", 1), ("p", "m", 2), ("p", "", 3), ("p", "x", 4)]
    found = set()
    for key in (bytes([number] * 32) for number in range(9)):
        results = set()
        for order in itertools.islice(itertools.permutations(rows), 0, None, 3):
            sex, _ = read(list(order), key=key)
            assert len(set(sex.tolist())) == 1
            results.add(int(sex[0]))
        assert len(results) == 1  # the order of the file does not matter
        found |= results
    assert found == {0, 1, 2}  # the key decides


def test_the_first_row_is_the_one_that_is_kept_alone():
    rows = [("p", sex, visit) for sex, visit in zip("fmxfmx", range(6), strict=True)]
    for key in (bytes([number] * 32) for number in range(9)):
        assert read(rows, at_most=6, key=key)[0][0] == read(rows, at_most=1, key=key)[0][0]


def test_only_kept_rows_give_values():
    rows = [("p", "f" if visit % 2 else "m", visit) for visit in range(10)]
    for key in (bytes([number] * 32) for number in range(10)):
        sex, visit = read(rows, at_most=1, key=key)
        assert sex.tolist() == [int(visit[0] % 2 == 0)]


def test_without_values_the_first_row_gives_the_kind_of_gap():
    kinds = {int(read([("p", "", 1), ("p", "ref", 2)], key=bytes([number] * 32))[0][0]) for number in range(20)}
    assert kinds == {3, 4}


def test_other_columns_and_tables_without_rows_stay():
    no_constants = Schema("visits", [Integer("a", bounds=(0, 9)), Integer("b", bounds=(0, 9))])
    assert hold_constant(np.array([0, 0], dtype=np.int32), ["1:p"], no_constants, KEY, None) == {}
    assert [codes.tolist() for codes in read([])] == [[], []]


def test_constant_columns_need_persons_and_no_database(tmp_path):
    frame = pl.DataFrame({"id": ["p", "p"], "sex": ["f", ""], "visit": [1, 2]})
    frame.write_csv(tmp_path / "visits.csv")
    ledger = tmp_path / "visits.ledger"
    budget = gl.Budget(1.0, 1e-6)
    ignoring = Schema("visits", SCHEMA.columns, ignore=["id"])
    with pytest.raises(SchemaError, match="read without an id of persons"):
        gl.read(tmp_path / "visits.csv", ignoring, protect=gl.Rows(1), budget=budget)
    with pytest.raises(EngineError, match="needs rows of a file or a frame"):
        gl.read("postgresql://db/none", ignoring, protect=gl.Persons("id", 1), budget=budget, ledger=ledger)
    with pytest.raises(EngineError, match="needs rows of a file or a frame"):
        gl.read(tmp_path / "visits.csv", ignoring, protect=gl.Persons("id", 1), budget=budget, engine="spark")
    assert not ledger.exists()
    assert private_persons(frame, ignoring, tmp_path).schema["sex"].per_person


def test_the_key_of_a_schema_is_written_and_checked():
    assert "per_person = true" in SCHEMA.to_toml()
    assert Schema.from_toml(SCHEMA.to_toml()) == SCHEMA
    with pytest.raises(SchemaError, match="per_person = 'yes', but it must be true or false"):
        Integer("a", bounds=(0, 9), per_person="yes")
