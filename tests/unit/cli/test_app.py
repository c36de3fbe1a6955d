"""What the command line makes of its options before anything is read."""

import sys

import pytest
import typer

from gapless.cli import app
from gapless.cli.app import _always, _budget, _given
from gapless.errors import BudgetError
from gapless.privacy import Budget, Ledger, Rows


def test_a_new_ledger_needs_both_epsilon_and_delta(tmp_path):
    place = tmp_path / "people.ledger"
    assert _budget(place, 1.0, 1e-6) == Budget(1.0, 1e-6)
    assert _budget(place, None, None) is None
    with pytest.raises(BudgetError, match="A new ledger needs --delta"):
        _budget(place, 1.0, None)


def test_an_existing_ledger_keeps_the_number_that_is_not_repeated(tmp_path):
    place = tmp_path / "people.ledger"
    Ledger.attach(place, table="people", protect=Rows(1), budget=Budget(2.0, 1e-6))
    assert _budget(place, 3.0, None) == Budget(3.0, 1e-6)
    assert _budget(place, None, 0.0) == Budget(2.0, 0.0)


def test_given_cells_and_columns_measured_jointly_are_read_from_words():
    assert _given(["sex=F", "note=a=b"]) == {"sex": "F", "note": "a=b"}
    assert _always(["age+sex", "sex+income"]) == [("age", "sex"), ("sex", "income")]


@pytest.mark.parametrize("wrong", ["age", "age+", "age+age"])
def test_one_column_is_not_measured_jointly(wrong):
    with pytest.raises(typer.BadParameter):
        _always([wrong])


def test_a_given_cell_needs_a_column():
    with pytest.raises(typer.BadParameter):
        _given(["sex"])


@pytest.mark.parametrize(
    ("called", "shown"),
    [("gapless", "gapless"), ("no such file", "gapless"), ("/x/gapless/__main__.py", f"{sys.executable} -m gapless")],
)
def test_the_demo_names_a_command_that_can_be_typed(called, shown, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [called])
    assert app._program() == shown
