"""Gaps filled from rows of the same class, and released decks."""

import polars as pl
import pytest

import gapless as gl
from gapless.errors import GaplessError, QuestionError
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import ask


def test_a_hot_deck_fills_from_the_same_class(table):
    deck = gl.HotDeck(on=["age"], limit=1)
    # Class 25: one donor with 4 children and one donee; class 35: a donor without children to count, no donee.
    assert ask(table, gl.Sum("children", missing=deck)).estimate == pytest.approx(7 + 4)
    assert ask(table, gl.Mean("children", missing=deck)).estimate == pytest.approx(11 / 5)
    assert ask(table, gl.Count(where="children >= 1", missing=deck)).estimate == pytest.approx(3 + 1)
    everyone = gl.HotDeck(on=[])
    assert ask(table, gl.Proportion("sex == F", missing=everyone)).estimate == pytest.approx(0.5)
    assert ask(table, gl.Count(by="sex", missing=everyone)).estimate == pytest.approx({"F": 3, "M": 3})
    answer = ask(table, gl.Sum("children", missing=deck))
    assert "Gaps in children are filled from rows with the same age, each giving at most once;" in str(answer)
    assert "rows where children is not applicable are left out." in str(answer)
    assert table.ledger.entries[-1].reads is None


def test_a_donee_keeps_what_is_observed_of_it(tmp_path):
    schema = gl.Schema(
        "t", [gl.Boolean("x", may_be_missing=True), gl.Boolean("y", may_be_missing=True), gl.Boolean("z")]
    )
    rows = [("true", "true", "true"), ("", "false", "true"), ("", "true", "false")]
    table = private(rows, schema, tmp_path)
    deck = gl.HotDeck(on=[], limit=2)
    both = gl.Count(where="x == true and y == true", missing=deck)
    assert ask(table, both).estimate == pytest.approx(2)
    assert ask(table, gl.Count(where="x == true and z == true", missing=deck)).estimate == pytest.approx(2 / 3 * 3)


def test_the_limit_binds(tmp_path):
    schema = gl.Schema("t", [gl.Boolean("x", may_be_missing=True)])
    rows = [("true",), *[("",)] * 10]
    for limit, expected in ((1, 2), (3, 4), (10, 11), (20, 11)):
        table = private(rows, schema, tmp_path)
        question = gl.Count(where="x == true", missing=gl.HotDeck(on=[], limit=limit))
        assert ask(table, question).estimate == pytest.approx(expected)


def test_a_released_deck_answers_for_free(table):
    with no_noise():
        deck = gl.HotDeck(on=["age"], limit=1).release(table, ["children", "sex"], spend=table.ledger.share("10%"))
    assert len(table.ledger.entries) == 1
    assert deck.ask(gl.Sum("children")).estimate == pytest.approx(11)
    assert deck.ask(gl.Mean("children")).estimate == pytest.approx(11 / 5)
    assert deck.ask(gl.Count(where="age < 20", by="sex")).estimate == pytest.approx({"F": 1, "M": 1})
    assert deck.ask(gl.Count()).estimate == pytest.approx(6)
    assert deck.ask(gl.Count(where="sex is missing")).estimate == pytest.approx(2)
    answer = deck.ask(gl.Mean("children"))
    assert (answer.interval, answer.noise_std, answer.entries) == (None, None, (1,))
    assert "No interval" in str(answer)
    assert len(table.ledger.entries) == 1
    assert repr(deck) == str(deck) == "<ReleasedDeck of children, sex by age; entry 1>"
    for wrong, note in (
        (gl.Mean("income"), "no column 'income'"),
        (gl.Median("children"), r"a deck answers counts, .*, but not median\(children\)"),
        ("mean(children)", "is not a question"),
        (gl.Mean("children", missing=gl.Knn(on=["age"])), "this deck fills gaps with HotDeck"),
        (gl.Mean("children", missing=gl.HotDeck(on=["age"], limit=2)), "this deck fills gaps with HotDeck"),
    ):
        with pytest.raises(GaplessError, match=note):
            deck.ask(wrong)


def test_a_deck_that_is_too_large_or_matched_on_what_it_fills_is_refused(table):
    spend = table.ledger.share("10%")
    with pytest.raises(QuestionError, match="is in both on and columns"):
        gl.HotDeck(on=["age"]).release(table, ["age"], spend=spend)
    with pytest.raises(QuestionError, match="columns is empty"):
        gl.HotDeck(on=["age"]).release(table, [], spend=spend)
    wide = gl.Schema("w", [gl.Integer(f"x{i}", bounds=(0, 99), bins=100) for i in range(4)])
    other = private(
        pl.DataFrame({f"x{i}": [1] for i in range(4)}), wide, table.ledger.path.parent, budget=gl.Budget(1.0, 0)
    )
    with pytest.raises(
        QuestionError, match=r"at most 4,000,000 combinations of cells, but .* have 100,000,000 combinations"
    ):
        gl.HotDeck(on=["x0", "x1", "x2"]).release(other, ["x3"], spend=other.ledger.left)
    assert not table.ledger.entries
    assert not other.ledger.entries


def test_a_deck_of_one_class_counts_its_rows(table):
    with no_noise():
        deck = gl.HotDeck(on=[]).release(table, ["sex"], spend=table.ledger.share("10%"))
    assert deck.ask(gl.Count()).estimate == pytest.approx(6)
    assert deck.ask(gl.Proportion("sex == F")).estimate == pytest.approx(0.5)
