"""Quantiles: three choices, and what they refuse."""

import math

import numpy as np
import pytest

import gapless as gl
from gapless.errors import QuestionError
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import ROWS, SCHEMA, ask


def test_a_quantile_is_three_choices_for_all_groups_at_once(table):
    answer = ask(table, "quantile(income, 0.75) where age < 30 by smoker, sex")
    assert answer.estimate["true", "M"] == 60
    assert answer.entries == (1, 2, 3)
    assert [entry.mechanism["name"] for entry in table.ledger.entries] == ["ChoiceByGroup"] * 3
    assert {str(entry.distance) for entry in table.ledger.entries} == {"{'LinfByGroup': 3}"}  # 3 of 4 parts of a row
    assert [entry.what.split(" quantile")[0] for entry in table.ledger.entries][1:] == ["lower end of", "upper end of"]
    assert table.ledger.spent.value == pytest.approx(0.01)
    assert table.ledger.entries[0].loss == pytest.approx(0.005)
    assert "Rows with a gap in sex, income are left out." in str(answer)
    assert gl.Ledger.open(table.ledger.path).spent.value == pytest.approx(0.01)


def test_quantiles_of_a_filled_table_and_of_a_person_with_several_rows(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0), protect=gl.Rows(4))
    filled = table.fill([np.eye(column.size)[0] for column in SCHEMA.columns])
    with no_noise():
        answer = filled.ask(gl.Median("income", missing=gl.HotDeck(on=["age"])), spend=table.ledger.left)
    assert answer.estimate == 10
    assert "left out" not in str(answer)
    assert table.ledger.entries[-1].reads is None
    assert table.ledger.entries[-1].distance == {"LinfByGroup": 4}


def test_a_preview_of_a_quantile_bounds_the_error_of_its_rank():
    shown = gl.query.preview(gl.Median("age"), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%")
    assert shown.noise_limit == pytest.approx(2 * math.log(100 / 0.05), rel=1e-6)
    assert str(shown) == "median(age): ± 15.2 (95 %), on the rank of the answer, in rows"
    assert gl.query.preview(gl.Median("age"), SCHEMA, budget=gl.Budget(1.0, 1e-6), spend="100%").noise_limit < 40


def test_a_quantile_of_too_many_groups_and_levels_that_fall_are_refused(tmp_path):
    wide = gl.Schema("w", [gl.Integer("x", bounds=(0, 60_000)), gl.Integer("g", bounds=(0, 99), bins=100)])
    with pytest.raises(QuestionError, match="at most 4,194,304 combinations"):
        gl.query.preview(gl.Median("x", by="g"), wide, budget=gl.Budget(1.0, 0), spend="100%")
    falling = gl.Schema("f", [gl.Ordinal("s", [3, 2, 1])])
    with pytest.raises(QuestionError, match="do not rise"):
        gl.query.preview(gl.Median("s"), falling, budget=gl.Budget(1.0, 0), spend="100%")
