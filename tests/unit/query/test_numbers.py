"""The numbers that cells stand for."""

import pytest

import gapless as gl
from gapless.cli.hints import to_cli_hint
from gapless.errors import GaplessError, QuestionError
from gapless.query.numbers import cell_numbers
from gapless.testing.audit import private
from helpers.small_tables import ask


def test_a_value_counts_as_itself_or_as_the_middle_of_its_cell(tmp_path):
    cells = gl.Schema("t", [gl.Number("x", bounds=(0, 1024), bins=4), gl.Integer("y", bounds=(0, 9_999), bins=2)])
    table = private([("0", "1234"), ("7.25", "9999"), ("7.75", "0")], cells, tmp_path)
    answer = ask(table, "sum(x)")
    assert answer.estimate == pytest.approx(0 + 7.5 + 7.5, abs=1e-3)  # 0 has a separate cell
    assert "A value of x counts as the middle of its cell, one of 1,025." in str(answer)
    for text, expected in (("sum(y)", 1234 + 9999), ("mean(y)", 11233 / 3), ("median(y)", 1234)):
        answer = ask(table, text)
        assert answer.estimate == pytest.approx(expected)
        assert "middle" not in str(answer)
    assert ask(table, "median(x)").interval == (0, 1024)
    for text in ("count() where x < 7", "count() where x > 0", "count() where x == 0"):
        assert ask(table, text).estimate in (1, 2)
    with pytest.raises(GaplessError, match="with an edge, 7 or 8"):
        ask(table, "count() where x < 7.5")


def test_ordinal_scales_with_numbers_for_levels_can_be_averaged(tmp_path):
    scale = {"integer": gl.Integer("s", bounds=(1, 5)), "ordinal": gl.Ordinal("s", [1, 2, 3, 4, 5])}
    for column in scale.values():
        table = private([("1",), ("2",), ("5",)], gl.Schema("t", [column]), tmp_path)
        assert ask(table, "mean(s)").estimate == pytest.approx(8 / 3)
        assert ask(table, "median(s)").estimate == 2
    for column in (gl.Ordinal("s", ["1", "2"]), gl.Categorical("s", ["1", "2"])):
        with pytest.raises(QuestionError, match='or write kind = "integer" in the schema'):
            gl.Mean("s").compile(gl.Schema("t", [column]))


def test_a_name_in_a_hint_is_quoted_as_it_must_be_typed():
    with pytest.raises(QuestionError) as error:
        cell_numbers(gl.Schema("t", [gl.Categorical("marital status", ["single", "married"])]), "marital status", None)
    assert "proportion(\"marital status\" == 'single')" in to_cli_hint(error.value.hint)
