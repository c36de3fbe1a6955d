"""Treatments of gaps, and their notes."""

import numpy as np
import pytest

import gapless as gl
from gapless.query import parse_question
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import SCHEMA, ask


@pytest.mark.parametrize("text", ["mean(income) where sex == F by children", "proportion(sex == F)", "median(income)"])
def test_a_question_to_a_filled_table_reads_every_row_that_was_there_to_fill(text, table):
    distributions = [np.ones(column.size) for column in SCHEMA.columns]
    ask(table.fill(distributions), text)
    assert table.ledger.entries[-1].reads is None
    ask(table.where("sex", ["F"]).fill(distributions), text)
    assert table.ledger.entries[-1].reads == ["sex"]


def test_rows_are_matched_by_bins_and_filled_with_values(tmp_path):
    """Cells would make matches rare; the value that a donor gives is its own."""
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 99)), gl.Integer("x", bounds=(0, 999), may_be_missing=True)])
    rows = [("21", "123"), ("29", ""), ("85", "900"), ("81", "")]
    for missing in (gl.HotDeck(on=["age"]), gl.Knn(on=["age"])):
        table = private(rows, schema, tmp_path, budget=gl.Budget(400.0, 0))
        for text, expected in {
            "sum(x)": 2 * (123 + 900),
            "mean(x)": (123 + 900) / 2,
            "mean(x) where age >= 25": (123 + 2 * 900) / 3,
            "count() where x >= 120 and age != 21": 3,
            "mean(x) where age < 50 by age": {"20..29": 123},
        }.items():
            with no_noise():
                answer = table.ask(parse_question(text, missing), spend=table.ledger.share("15%"))
            found = answer.estimate if not isinstance(expected, dict) else {"20..29": answer.estimate["20..29"]}
            assert found == pytest.approx(expected, abs=0.5)
        assert table.schema["age"].size == 10


def test_questions_that_look_at_no_gap_get_the_plain_noise(table):
    """Automatically: a hot deck with a large limit would add far more."""
    deck = gl.HotDeck(on=["smoker"], limit=50)
    for text in ("count() where age < 20", "mean(age) by smoker", "count() where sex is missing"):
        plain, filled = ask(table, text), ask(table, parse_question(text, deck))
        assert plain.estimate == filled.estimate
        first, second = table.ledger.entries[-2:]
        assert first.mechanism == second.mechanism
    filled = table.fill([np.ones(column.size) for column in SCHEMA.columns])  # no gaps are left
    ask(filled, gl.Mean("income", missing=deck))
    assert table.ledger.entries[-1].distance == ask_distance(table, "mean(income)")


def ask_distance(table, text):
    ask(table, text)
    return table.ledger.entries[-1].distance


def test_the_note_on_gaps_names_the_columns_of_dropped_rows(table):
    note = "Rows with a gap in sex, income are left out"
    assert note in ask(table, "proportion(income >= 50 or sex == F)").measures
    assert "left out" not in ask(table, "count() where sex == F or sex is missing").measures


def test_an_answer_uses_up_what_it_may_spend_under_a_promise_for_the_complete_table(tmp_path):
    """Found by review: rows that are left out cost less there, and the noise did not get any smaller."""
    schema = gl.Schema("t", [gl.Boolean("x", may_be_missing=True)])
    noises = []
    for assumed in (None, gl.MCAR({"x": 0.6})):
        table = private([("true",), ("",)], schema, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=assumed))
        noises.append(table.ask(gl.Count(where="x == true"), spend=table.ledger.left).noise_std)
        assert table.ledger.spent.value == pytest.approx(1.0, rel=1e-6)
    assert noises[1] < 0.75 * noises[0]
