"""Rows per person, for the holder: distribution, dropped rows, rows without an id; the question of the check."""

from dataclasses import replace

import polars as pl
import pytest
from typer.testing import CliRunner

from gapless.cli.app import app
from gapless.errors import SchemaError
from gapless.missing import check
from gapless.missing.persons import rows_per_person
from gapless.schema import Integer, Schema
from helpers.visits import SCHEMA, visits

SMALL = pl.DataFrame({"id": ["a"] * 7 + ["b", "b", " b", "c", "", None], "age": list(range(13))})


def test_counts_rows_of_each_id():
    found = rows_per_person(SMALL, ["id"], {})
    assert (found.rows, found.persons, found.without_id) == (13, 3, 2)
    assert found.persons_by_rows == {1: 1, 3: 1, 7: 1}
    dropped = {limit: round(13 * share) for limit, share in found.dropped.items()}
    assert dropped == {1: 8, 2: 6, 3: 4, 5: 2, 10: 0}  # rows without an id are always kept


def test_a_person_may_have_several_id_columns():
    found = rows_per_person(SMALL.with_columns(nr=pl.Series([1, 1, 2] * 4 + [None])), ["id", "nr"], {})
    assert found.id == "id and nr"
    assert found.persons_by_rows == {1: 3, 2: 2, 5: 1}
    assert found.without_id == 1


def test_no_rows_drop_nothing():
    assert set(rows_per_person(SMALL.head(0), ["id"], {}).dropped.values()) == {0.0}


def test_the_picture_shows_ranges_of_rows():
    shown = str(rows_per_person(SMALL, ["id"], {})).splitlines()
    assert shown[0] == "Rows per person (id): 13 rows of 3 persons, 2 rows without an id"
    assert [line.split() for line in shown[3:6]] == [["1", "1"], ["3", "1"], ["6-10", "1"]]
    assert shown[-1].split() == ["10", "0.0%"]


def test_the_check_shows_it(tmp_path):
    visits(50, 200).write_csv(tmp_path / "visits.csv")
    SCHEMA.write(tmp_path / "visits.toml")
    run = CliRunner().invoke(app, ["check", str(tmp_path / "visits.csv"), "-s", str(tmp_path / "visits.toml")])
    assert run.exit_code == 0
    assert "Rows per person (patient_id): 200 rows of 50 persons, 0 rows without an id" in run.output


def test_the_check_names_codes_in_place_of_an_id(tmp_path):
    frame = visits(50, 200)
    ids = [" -9 "] * 12 + ["unknown"] * 2 + frame["patient_id"].cast(pl.String).to_list()[14:]
    frame = frame.with_columns(patient_id=pl.Series(ids))
    assert check(frame, SCHEMA).persons.codes == {"-9": 12, "unknown": 2}
    assert check(visits(50, 200), SCHEMA).persons.codes == {}
    frame.write_csv(tmp_path / "visits.csv")
    SCHEMA.write(tmp_path / "visits.toml")
    run = CliRunner().invoke(app, ["check", str(tmp_path / "visits.csv"), "-s", str(tmp_path / "visits.toml")])
    assert "The id is '-9' in 12 rows, which looks like a code for a gap" in " ".join(run.output.split())


def test_the_check_asks_if_one_row_per_person_is_promised_but_an_id_repeats(tmp_path):
    frame = visits(50, 200)
    promised = replace(SCHEMA, person=(), rows_per_person=1, ignore=["patient_id"])
    assert check(frame, promised).possible_ids == (("patient_id", 50),)
    assert check(frame, SCHEMA).possible_ids == ()
    assert check(frame, replace(promised, rows_per_person=5)).possible_ids == ()
    once = frame.unique("patient_id")
    assert check(once, promised).possible_ids == ()
    frame.write_csv(tmp_path / "visits.csv")
    promised.write(tmp_path / "visits.toml")
    run = CliRunner().invoke(app, ["check", str(tmp_path / "visits.csv"), "-s", str(tmp_path / "visits.toml")])
    assert "promises one row per person, but patient_id looks like an id of 50 persons" in run.output.replace("\n", " ")


def test_a_schema_with_an_id_must_say_how_many_rows_are_kept(tmp_path):
    undecided = replace(SCHEMA, rows_per_person=None)
    assert Schema.from_toml(undecided.to_toml()) == undecided
    assert replace(SCHEMA, rows_per_person=1) == Schema.from_toml(replace(SCHEMA, rows_per_person=1).to_toml())
    assert check(visits(50, 200), undecided).persons is not None
    visits(50, 200).write_csv(tmp_path / "visits.csv")
    undecided.write(tmp_path / "visits.toml")
    paths = [str(tmp_path / "visits.csv"), "-s", str(tmp_path / "visits.toml"), "-o", str(tmp_path / "release")]
    run = CliRunner().invoke(app, ["synth", *paths, "--epsilon", "1", "--delta", "1e-6"])
    assert isinstance(run.exception, SchemaError)
    assert run.exception.message == (
        "the schema names the id of a person, patient_id, but not how many rows of each to keep"
    )
    assert run.exception.hint.startswith("write rows_per_person = 3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["visits.csv", "visits.toml"]  # nothing was begun


def test_without_an_id_one_row_per_person_is_the_default():
    assert Schema("people", [Integer("age", bounds=(0, 99))]).rows_per_person == 1
    with pytest.raises(SchemaError, match="rows_per_person"):
        Schema("people", [Integer("age", bounds=(0, 99))], rows_per_person=0)


def test_columns_that_vary_within_persons_are_counted_and_constant_ones_named(tmp_path):
    frame = visits(50, 200)
    found = check(frame, SCHEMA).persons
    assert found.varying["age"] == found.varying["sex"] == 0
    of_patient = frame.filter(pl.col("pressure") != "NA").group_by("patient_id")
    assert found.varying["pressure"] == (of_patient.agg(pl.col("pressure").n_unique())["pressure"] > 1).sum()
    assert str(found).endswith("the same in all rows of each person: age, sex")
    frame.write_csv(tmp_path / "visits.csv")
    SCHEMA.write(tmp_path / "before.toml")
    run = CliRunner().invoke(app, ["check", str(tmp_path / "visits.csv"), "-s", str(tmp_path / "before.toml")])
    declare = "Try: write per_person = true for those that cannot change"
    assert declare in " ".join(run.output.split())
    columns = [replace(column, per_person=True) for column in SCHEMA.columns]
    replace(SCHEMA, columns=columns).write(tmp_path / "visits.toml")
    run = CliRunner().invoke(app, ["check", str(tmp_path / "visits.csv"), "-s", str(tmp_path / "visits.toml")])
    wrong = f"pressure has per_person = true, but several values in the rows of {found.varying['pressure']} persons"
    assert wrong in run.output.replace("\n", " ")
    assert "age has per_person" not in run.output
    assert declare not in " ".join(run.output.split())
