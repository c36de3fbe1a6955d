"""Questions fitted to a schema: groups, what they read, rows without a value."""

from unittest import mock

import pytest

import gapless as gl
from gapless.constraints.grammar import Parser
from gapless.errors import QuestionError
from gapless.query import ask_all, parse_question
from gapless.query.compiled import CompiledQuestion
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import KNN, NEAR, PAIRS, SCHEMA, ask


def test_groups_are_the_cells_of_the_schema_and_cost_as_much_as_one(table):
    grouped = ask(table, "count() by sex")
    assert grouped.estimate == {"F": 2, "M": 2}
    assert ask(table, "mean(children) by sex").estimate == {"F": 0, "M": 2.5}
    assert ask(table, "count() by children").estimate["not applicable"] == 1
    assert list(grouped.interval) == ["F", "M"]
    losses = [entry.loss for entry in table.ledger.entries]
    assert losses == pytest.approx([losses[0]] * 3)
    assert {entry.to for entry in table.ledger.entries} == {"ask"}
    assert [entry.what for entry in table.ledger.entries][:2] == ["count() by sex", "mean(children) by sex"]


def test_groups_by_several_columns_are_all_combinations(table):
    both = ask(table, "count() by sex, smoker")
    assert both.estimate == {("F", "false"): 0, ("F", "true"): 2, ("M", "false"): 1, ("M", "true"): 1}
    assert list(both.interval) == list(both.estimate)
    assert [written["group"] for written in both.to_dict()["estimates"]][1] == ("F", "true")
    assert "\n  F, true   2 " in str(both)
    assert ask(table, gl.Mean("income", by=["smoker", "sex"])).estimate["true", "F"] == pytest.approx(-15)
    assert gl.Count(by=["sex"]) == gl.Count(by="sex")
    first, *_, last = table.ledger.entries
    assert first.loss == pytest.approx(last.loss)


def test_a_column_can_be_grouped_by_bins_and_looked_at_by_cells(table):
    """Groups are the declared bins, also if the question reads finer ones."""
    found = ask(table, "mean(age) where age >= 16 by age").estimate
    assert list(found) == list(SCHEMA["age"].cells)
    assert (found["20..29"], found["30..39"]) == (25, 35)
    assert ask(table, "count() where age == 15 by age").estimate["10..19"] == 2


def test_groups_of_a_column_without_declared_bins_are_its_values_if_they_are_few(tmp_path):
    columns = [gl.Integer("few", bounds=(0, 99), bins="learned"), gl.Integer("many", bounds=(0, 100), bins="learned")]
    table = private([("3", "7")], gl.Schema("t", columns), tmp_path)
    assert ask(table, "count() by few").estimate["3"] == 1
    with pytest.raises(
        QuestionError,
        match=r"to group by must have .* 'many' has 101 values and no declared bins\n  Try: write bins = 10",
    ):
        ask(table, "count() by many")
    with pytest.raises(
        QuestionError, match=r"to match rows on must have .* 'many' has 101 values and no declared bins"
    ):
        gl.HotDeck(on=["many"]).contribution(gl.Mean("few").compile(table.schema))
    wide = gl.Schema("w", [gl.Integer(name, bounds=(0, 99), bins=100) for name in "abc"])
    with pytest.raises(QuestionError, match="at most 65,536 groups, got 1,000,000 groups by "):
        gl.Count(by=["a", "b", "c"]).compile(wide)


def test_a_group_without_rows_has_a_defined_answer(table):
    for text in ("mean(children) where age >= 90", "proportion(smoker == true) where age >= 90"):
        assert ask(table, text).estimate == 0
    assert ask(table, "variance(children) where age >= 90").estimate == 0
    low, high = ask(table, "mean(children) where age >= 90").interval
    assert (low, high) == (0, 4)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("count()", None),
        ("count() where age < 20", None),  # it is never missing
        ("count() where sex is missing", None),
        ("count() where sex == F or age >= 30", ["sex"]),
        ("count() where sex == F or sex is missing", None),
        ("count() where sex is missing and age < 20", None),
        ("proportion(income < 0 or income is missing) by sex", ["sex"]),
        ("count() where sex == F and age >= 30 by children", ["children", "sex"]),
        ("mean(income) where sex is not missing", ["income", "sex"]),
        ("proportion(sex == F and smoker == true)", ["sex"]),
        ("proportion(sex == F)", ["sex"]),
        ("median(age)", None),
        ("median(income)", ["income"]),
        ("median(age) where income >= 3 by sex", ["income", "sex"]),
    ],
)
def test_the_entry_records_the_columns_that_the_question_reads(text, reads, table):
    ask(table, text)
    assert table.ledger.entries[-1].reads == reads


def test_rows_without_a_value_are_in_no_denominator(tmp_path):
    """A column that can be not applicable decides together with what is filled whether a row counts."""
    never = gl.MissingCode("n/a", "not-applicable")
    schema = gl.Schema(
        "t",
        [
            gl.Boolean("x", may_be_missing=True),
            gl.Categorical("y", ["a", "b"], missing=[never]),
            gl.Integer("p", bounds=(0, 9)),
        ],
    )
    rows = [("true", "a", "0"), ("", "n/a", "1"), ("false", "n/a", "9"), ("", "a", "8")]
    table = private(rows, schema, tmp_path, budget=gl.Budget(40.0, 0))
    question = gl.Proportion("x == true and y == a", missing=gl.Knn(on=["p"]))
    with no_noise():
        answer = table.ask(question, spend=table.ledger.left)
    # Filled, the rows are true-a, true-n/a (unknown), false-n/a (false) and false-a: 1 of 3.
    assert answer.estimate == pytest.approx(1 / 3, abs=1e-3)


@pytest.mark.parametrize("cells", [255, 256, 257])
@pytest.mark.parametrize("missing", [gl.Drop(), gl.HotDeck(on=["g"]), gl.Knn(on=["g"])])
def test_columns_as_wide_as_a_byte_can_be_asked_about(cells, missing, tmp_path):
    """Found by review: codes of 8 bits met the number 256, after the charge."""
    for gaps in (False, True):
        x = gl.Integer("x", bounds=(0, cells - 1), bins=cells, may_be_missing=gaps)
        schema = gl.Schema("wide", [x, gl.Integer("g", bounds=(0, 1))])
        table = private([("0", "1"), (str(cells - 1), "1")], schema, tmp_path, budget=gl.Budget(90.0, 0))
        for text, expected in {
            "sum(x)": cells - 1,
            "mean(x)": (cells - 1) / 2,
            f"count() where x >= {cells - 1}": 1,
        }.items():
            with no_noise():
                answer = table.ask(parse_question(text, missing), spend=table.ledger.share("10%"))
            assert answer.estimate == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("missing", [gl.Drop(), gl.HotDeck(on=["place"]), KNN], ids=["drop", "hot deck", "knn"])
@pytest.mark.parametrize("text", ["mean(x) where place >= 2", "proportion(x == 1)", "median(place) where place > 1"])
@pytest.mark.parametrize("several", [False, True])
def test_an_answer_parses_a_condition_and_compiles_a_question_once(several, text, missing, tmp_path):
    table = private(NEAR, PAIRS, tmp_path, budget=gl.Budget(40.0, 0))
    with (
        mock.patch.object(
            CompiledQuestion, "__post_init__", autospec=True, side_effect=CompiledQuestion.__post_init__
        ) as compiled,
        mock.patch.object(Parser, "condition", autospec=True, side_effect=Parser.condition) as parsed,
    ):
        question = parse_question(text, missing)
        table.ask([question] if several else question, spend="50%")
    assert (compiled.call_count, parsed.call_count) == (1, 1)


def test_a_question_compiled_for_a_preview_is_asked(table):
    asked = [gl.Count(where="age < 20").compile(table.schema), gl.Median("age").compile(table.schema)]
    with mock.patch.object(CompiledQuestion, "__post_init__", side_effect=AssertionError("compiled again")), no_noise():
        answers = ask_all(table, asked, spend="10%")
    assert [answer.estimate for answer in answers] == [2, 25]
