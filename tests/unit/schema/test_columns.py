"""Columns with levels: their cells, their gaps, what is outside."""

import pytest

import gapless as gl

HEAD = '[table]\nname = "people"\n'


def column(keys: str, name: str = "x") -> str:
    return f"{HEAD}[column.{name}]\n{keys}"


def test_cells_are_numbered_levels_then_not_applicable_then_gaps():
    codes = ("", gl.MissingCode("-8", "refused"), gl.MissingCode("-7", "not-applicable"))
    column = gl.Integer("x", bounds=(0, 9), bins=2, may_be_missing=True, missing=codes)
    assert column.cells == ("0..4", "5..9", "not applicable", "unknown", "refused")
    assert (column.values_size, column.size, column.extended_size) == (2, 3, 5)
    assert [column.code_of_gap(kind) for kind in ("not-applicable", "unknown", "refused")] == [2, 3, 4]
    assert column.code_of("5..9") == 1


def test_an_empty_cell_is_an_unknown_gap_unless_a_code_declares_it():
    def gaps(*codes):
        return gl.Boolean("x", may_be_missing=True, missing=codes).gaps

    refused = gl.MissingCode("-8", "refused")
    assert gaps() == ("unknown",)
    assert gaps(refused) == ("unknown", "refused")
    assert gaps("", refused) == ("unknown", "refused")
    assert gaps(gl.MissingCode("", "refused")) == ("refused",)
    assert gaps(gl.MissingCode("", "not-applicable"), refused) == ("refused",)
    assert gl.Boolean("x", missing=(gl.MissingCode("-7", "not-applicable"),)).gaps == ()


def test_default_rules_for_cells_outside():
    assert gl.Integer("x", bounds=(0, 1)).outside == "clamp"
    assert gl.Categorical("x", ["a"]).outside == "refuse"
    assert gl.Categorical("x", ["a"], may_be_missing=True).outside == "missing"


def test_zero_and_minus_zero_are_one_level():
    with pytest.raises(gl.errors.SchemaError, match="has the level '0' twice"):
        gl.Categorical("x", [0.0, -0.0])
