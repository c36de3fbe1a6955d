"""The unit `Persons` in budgets, ledgers and guarantees."""

import json

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.workload import grouped_counts, violating_pairs
from gapless.errors import BudgetError, LedgerError, SchemaError
from gapless.privacy import L1, MCAR, Guarantee, Ledger, Persons, Rows
from gapless.privacy.journal import resumable
from gapless.privacy.ledger_file import hash_of, seal_of
from gapless.privacy.row_key import key_of

SCHEMA = gl.Schema(
    "visits", [gl.Categorical("ward", ["a", "b"], may_be_missing=True)], person="patient", rows_per_person=3
)
FRAME = pl.DataFrame({"patient": ["1"] * 9 + ["2", None], "ward": ["a", "b", None] * 3 + ["a", "b"]})


@pytest.fixture
def read(tmp_path):
    def read_again(at_most=3, frame=FRAME, budget=None, **changes):
        given = {"protect": Persons("patient", at_most), "budget": budget, "ledger": tmp_path / "l.ledger"} | changes
        return gl.read(frame, SCHEMA, **given)

    read_again(budget=gl.Budget(1, 1e-6))
    return read_again


def test_an_id_is_a_column_or_several():
    assert Persons("patient", 3) == Persons(["patient"], 3) == Persons(id="patient", at_most=3)
    assert Persons(("household", "number"), 1).id == ("household", "number")
    assert str(Persons("patient", 3)) == "all rows of one patient (at most 3 are kept)"
    assert str(Persons(["household", "number"], 1)) == "all rows of one household and number (at most 1 is kept)"


@pytest.mark.parametrize(
    ("id_columns", "at_most"), [("", 1), ((), 1), (["a", "a"], 1), ([1], 1), (None, 1), ({"a"}, 1)]
)
def test_an_id_without_columns_is_refused(id_columns, at_most):
    with pytest.raises(BudgetError, match="Persons needs the name of the column with the id"):
        Persons(id_columns, at_most)


@pytest.mark.parametrize("at_most", [0, -1, 1.5, "3", None, True])
def test_a_number_of_rows_is_whole(at_most):
    with pytest.raises(BudgetError, match="at_most of Persons must be a whole number from 1"):
        Persons("patient", at_most)


def test_distances_are_those_of_the_kept_rows(read):
    table = read(2)
    assert table.protect == Persons("patient", 2)
    values = [
        table.marginal("ward"),
        table.gap_patterns(["ward"]),
        violating_pairs(table, "t1.ward != t2.ward", buckets=2),
        *grouped_counts(table, "ward", [np.array([0, 0])], rows="observed"),
    ]
    assert [value.distance for value in values] == [L1(2)] * 4


def test_the_header_binds_the_id_and_an_entry_has_its_own_number_of_rows(read, tmp_path):
    for at_most in (3, 5, 1):
        read(at_most).ask(gl.Count(), spend="10%")
    header, *entries = map(json.loads, (tmp_path / "l.ledger").read_text().splitlines())
    assert header["persons"] == {"id": ["patient"], "at_most": 3}
    assert "rows_per_person" not in header
    assert [entry["kept_rows"] for entry in entries] == [3, 5, 1]
    assert [entry["distance"] for entry in entries] == [{"L1": 3}, {"L1": 5}, {"L1": 1}]
    opened = Ledger.open(tmp_path / "l.ledger")
    assert opened.guarantee().protect == Persons("patient", 5)
    assert "protecting all rows of one patient (at most 5 are kept)" in str(opened)
    assert opened.summary()["persons"] == {"id": ["patient"], "at_most": 5}


def test_a_row_with_a_gap_can_take_the_place_of_another_so_every_row_is_read(read):
    table = read()
    value = table.marginal("ward")
    assert value.reads == {"ward"}  # of the rows that are kept
    table.ask(gl.Proportion("ward == a", missing=gl.Drop()), spend="10%")
    assert [entry.reads for entry in table.ledger.entries] == [None]
    figure = table.ledger.ground_truth(MCAR({"ward": 0.5}))
    assert (figure.epsilon, figure.delta) == (figure.incomplete.epsilon, figure.incomplete.delta)
    assert "which rows of a person are kept depends on its gaps" in figure.basis


def test_a_budget_for_the_complete_data_is_refused(tmp_path):
    budget = gl.Budget(1, 0, ground_truth=MCAR({"ward": 0.5}))
    with pytest.raises(BudgetError, match="a budget with ground_truth cannot protect persons"):
        gl.read(FRAME, SCHEMA, protect=Persons("patient", 3), budget=budget, ledger=tmp_path / "l.ledger")
    assert not (tmp_path / "l.ledger").exists()


@pytest.mark.parametrize("unit", [Persons("person", 3), Persons(["patient", "person"], 3), Rows(3)])
def test_another_unit_than_that_of_the_ledger_is_refused(unit, read, tmp_path):
    read().ask(gl.Count(), spend="10%")
    other = gl.Schema("visits", SCHEMA.columns, ignore=["patient", "person"])
    frame = FRAME.with_columns(person=pl.col("patient"))
    with pytest.raises(LedgerError, match=r"protects all rows of one patient .*, and now it would be") as error:
        gl.read(frame, other, protect=unit, ledger=tmp_path / "l.ledger")
    assert error.value.hint == 'keep protect=Persons(id="patient", at_most=3)'


def test_a_ledger_of_rows_refuses_persons_and_states_what_its_releases_lack(tmp_path):
    bare = gl.Schema("visits", SCHEMA.columns, ignore=["patient"])
    place = {"ledger": tmp_path / "l.ledger"}
    table = gl.read(FRAME, bare, protect=Rows(1), budget=gl.Budget(1, 1e-6), **place)
    with pytest.raises(LedgerError, match="nothing was spent under it"):
        gl.read(FRAME, SCHEMA, protect=Persons("patient", 3), **place)
    table.ask(gl.Count(), spend="10%")
    with pytest.raises(LedgerError, match="the releases so far are less private than they state") as error:
        gl.read(FRAME, SCHEMA, protect=Persons("patient", 3), **place)
    assert "keep protect=Rows(1) without an id, if no person has more rows" in error.value.hint
    assert not key_of(place["ledger"]).exists()


def test_a_schema_with_an_id_protects_persons(read, tmp_path):
    for unit in (Rows(3), Persons("ward", 3)):
        with pytest.raises(SchemaError, match="the schema names the id of a person, patient, but") as error:
            read(protect=unit)
        assert error.value.hint == 'pass protect=Persons(id="patient", at_most=3)'
    bare = gl.Schema("visits", SCHEMA.columns)
    with pytest.raises(SchemaError, match="'ward' is declared, and is the id of a person"):
        gl.read(FRAME, bare, protect=Persons("ward", 3), ledger=tmp_path / "l.ledger")
    with pytest.raises(SchemaError, match="protect must be a Rows or Persons, got 3"):
        read(protect=3)


def test_an_id_that_the_schema_ignores_is_read(read, tmp_path):
    bare = gl.Schema("visits", SCHEMA.columns, ignore=["patient"])
    table = gl.read(FRAME, bare, protect=Persons("patient", 3), ledger=tmp_path / "l.ledger")
    assert table.marginal("ward").distance.at_most == 3


def test_a_promise_for_rows_states_what_it_believes():
    believed = "That no person has more rows is believed, not checked."
    stated = {
        rows: str(Guarantee("t", unit, 1.0, 0.0, "x")) for rows, unit in enumerate([Rows(1), Rows(3), Persons("p", 3)])
    }
    assert [believed in text for text in stated.values()] == [False, True, False]
    assert "adding or removing all rows of one p (at most 3 are kept) of the incomplete table 't'" in stated[2]


def test_group_privacy_is_refused_for_another_unit(read):
    ledger = read().ledger
    assert ledger.guarantee_for(Persons("patient", 14)) == ledger.guarantee()
    for unit in (Rows(14), Persons("person", 3)):
        with pytest.raises(BudgetError, match="which says nothing about"):
            ledger.guarantee_for(unit)


def test_a_run_with_another_number_of_rows_is_not_resumed(read, tmp_path):
    journal = tmp_path / "run"
    with resumable(read(3).ledger, journal):
        pass
    table = read(3)
    with resumable(table.ledger, journal):
        table.ask(gl.Count(), spend="10%")
    other = read(2)
    with resumable(other.ledger, journal), pytest.raises(gl.errors.ReadError, match="a run with other requests"):
        other.ask(gl.Count(), spend="10%")


@pytest.mark.parametrize("wrong", [None, 0, 1.5, "3"])
def test_an_entry_without_its_number_of_rows_is_refused(wrong, read, tmp_path):
    read().ask(gl.Count(), spend="10%")
    path = tmp_path / "l.ledger"
    header, line = path.read_text().splitlines(keepends=True)
    entry = json.loads(line) | {"kept_rows": wrong, "previous": hash_of(header)}
    path.write_text(header + json.dumps(entry) + "\n")
    seal_of(path).unlink()
    with pytest.raises(LedgerError, match="was changed at entry 1"):
        Ledger.open(path)


def test_an_entry_of_rows_has_none(tmp_path):
    bare = gl.Schema("visits", SCHEMA.columns, ignore=["patient"])
    table = gl.read(FRAME, bare, protect=Rows(1), budget=gl.Budget(1, 1e-6), ledger=tmp_path / "l.ledger")
    table.ask(gl.Count(), spend="10%")
    assert table.ledger.entries[0].kept_rows is None
    assert "kept_rows" not in (tmp_path / "l.ledger").read_text()


def test_every_reading_keeps_the_same_rows_until_the_key_is_lost(read, tmp_path):
    frame = pl.DataFrame({"patient": [str(n % 40) for n in range(800)], "ward": ["a", "b", None, "a"] * 200})

    def kept():
        table = read(2, frame=frame)
        return table.marginal("ward", rows="extended")._open(table.ledger._key).tolist()

    before = kept()
    assert kept() == before
    assert sum(before) == 80
