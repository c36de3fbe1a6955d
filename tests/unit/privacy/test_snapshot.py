"""Guarantees from a snapshot: one definition of a gap, and figures that later charges do not change."""

import pytest

import gapless as gl
from gapless.privacy.snapshot import GapDefinitions, check_rates_use_these_gaps
from gapless.testing.audit import letters_schema, private
from gapless.types import GapRule

EMPTY, MINUS = GapRule("an empty cell", "e"), GapRule("'-8'", "m")


def test_a_release_with_other_gaps_than_the_header_reads_every_row():
    gaps = GapDefinitions({"age": EMPTY, "pay": EMPTY}, {"age": EMPTY, "pay": MINUS})
    assert gaps.is_same_rule("age")
    assert not gaps.is_same_rule("pay")
    assert gaps.recorded_reads(frozenset({"age"})) == {"age"}
    assert gaps.recorded_reads(frozenset({"age", "pay"})) is None
    assert gaps.recorded_reads(None) is None
    assert "in 'pay'" in gaps.remarks()[0]


def test_a_column_that_the_header_does_not_define_lowers_no_figure():
    gaps = GapDefinitions({}, {"age": EMPTY})
    assert gaps.reads_by_header(["age"]) is None
    assert gaps.columns_with_gaps == []
    assert "in 'age'" in gaps.remarks()[0]


def test_unknown_columns_are_refused():
    gaps = GapDefinitions({"age": EMPTY}, {"age": EMPTY})
    gaps.check_columns(gl.MCAR({"age": 0.2}), "a ledger")
    with pytest.raises(gl.errors.SchemaError, match="no column 'aeg' in a ledger"):
        gaps.check_columns(gl.MCAR({"aeg": 0.2}), "a ledger")


def test_public_rates_hold_for_any_definition_of_a_gap():
    check_rates_use_these_gaps(None, {"age": EMPTY})
    check_rates_use_these_gaps(gl.MCAR({"age": 0.2}), {"age": MINUS})


def test_a_snapshot_does_not_change_with_later_charges(tmp_path):
    table = private([("a", "b")] * 5, letters_schema([2, 2]), tmp_path, budget=gl.Budget(1.0, 1e-6))
    before = table.ledger._snapshot
    gl.MST().fit(table, spend="50%")
    assert before.entries == ()
    assert before.epsilon_spent() == 0
    assert 0 < table.ledger.epsilon_spent() <= 1
    assert table.ledger.guarantee().epsilon <= before.guarantee().epsilon == 1
