"""Questions and answers without noise: what is measured, what is charged, what is refused before anything is spent."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.errors import GaplessError, QuestionError
from gapless.query import ask_all, parse_question
from gapless.query.answers import Noise, _ratio_limits, ratio_interval
from gapless.testing.audit import private
from gapless.testing.noise import no_noise

NOT_APPLICABLE = gl.MissingCode("-1", "not-applicable")
SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins=10),
        gl.Integer(
            "children", bounds=(0, 4), may_be_missing=True, missing=["", gl.MissingCode("-1", "not-applicable")]
        ),
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Number("income", bounds=(-100, 100), bins=4, resolution=1, may_be_missing=True),
        gl.Boolean("smoker"),
        gl.Ordinal("grade", [1, 2, 5]),
        gl.Date("born", bounds=("1950-01-01", "1959-12-31"), resolution="year"),
    ],
    ignore=["notes"],
)
ROWS = [
    ("15", "0", "F", "-90", "true", "1", "1950-02-03"),
    ("15", "1", "M", "10", "false", "2", "1951-02-03"),
    ("25", "4", "M", "60", "true", "5", "1952-02-03"),
    ("25", "", "F", "60", "true", "5", "1953-02-03"),
    ("35", "-1", "", "", "false", "1", "1953-02-03"),
    ("35", "2", "", "10", "false", "1", "1953-02-03"),
]


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0))


def ask(table, question):
    if isinstance(question, str):
        question = parse_question(question)
    with no_noise():
        return table.ask(question, spend=table.ledger.share("1%"))


EXACT = {
    "count()": 6,
    "count() where age < 20": 2,
    "count() where sex == F": 2,
    "count() where not sex == F": 2,
    "count() where sex is missing": 2,
    "count() where sex == F or age >= 30": 2,  # not those at 35, whose sex is missing
    "count() where sex == F or sex is missing": 4,
    "proportion(sex == F or age >= 30)": 0.5,
    "proportion(sex == F and smoker == true)": 0.5,
    "proportion(not (sex == F or age >= 30))": 0.5,
    "count() where age >= 90": 0,
    "proportion(smoker == true)": 0.5,
    "proportion(sex == F)": 0.5,
    "proportion(sex == F) where age < 20 or age >= 30": 0.5,
    "proportion(where sex == M) where age >= 20": 0.5,
    "sum(children)": 7,
    "mean(children)": 7 / 4,
    "mean(children, 1, 3)": 7 / 4,
    "mean(children, 0, 2)": 5 / 4,
    "variance(children)": 2.9166666666666665,
    "mean(grade)": 15 / 6,
    "sum(grade) where smoker == true": 11,
    "mean(smoker)": 0.5,
    "sum(income)": (-90 + 10 + 60 + 60 + 10),
    "mean(income)": (-90 + 10 + 60 + 60 + 10) / 5,
    "sum(income, 0, 100)": (0 + 10 + 60 + 60 + 10),
    "mean(age)": (15 * 2 + 25 * 2 + 35 * 2) / 6,
    "variance(age)": 80,
    "count() where age >= 16 and age < 35": 2,  # within bins of ten years
    "count() where age == 15": 2,
    "proportion(age > 15)": 4 / 6,
    "mean(age) where age != 35": 20,
    "median(age)": 25,
    "quantile(age, 0.4)": 25,
    "median(age) where age >= 16": 25,
    "median(income)": 10,
    "quantile(income, 0.9)": 60,
    "median(grade)": 1,
    "median(smoker)": 0,
    "median(children)": 1,
    "count() where born >= 1953-01-01": 3,
    "count() where born between 1951 and 1952": 2,
    "count() where children is not applicable": 1,
    "count() where children is applicable": 4,
}


@pytest.mark.parametrize(("text", "expected"), EXACT.items(), ids=EXACT)
def test_answers_without_noise_are_the_answers(text, expected, table):
    answer = ask(table, text)
    assert answer.estimate == pytest.approx(expected)
    low, high = answer.interval
    assert low <= answer.estimate <= high


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
    assert [told["group"] for told in both.to_dict()["estimates"]][1] == ("F", "true")
    assert "\n  F, true   2 " in str(both)
    assert ask(table, gl.Mean("income", by=["smoker", "sex"])).estimate["true", "F"] == pytest.approx(-15)
    assert gl.Count(by=["sex"]) == gl.Count(by="sex")
    first, *_, last = table.ledger.entries
    assert first.loss == pytest.approx(last.loss)


def test_a_column_can_be_grouped_by_bins_and_looked_at_by_cells(table):
    """Groups are the declared bins, whatever the question reads."""
    found = ask(table, "mean(age) where age >= 16 by age").estimate
    assert list(found) == list(SCHEMA["age"].cells)
    assert (found["20..29"], found["30..39"]) == (25, 35)
    assert ask(table, "count() where age == 15 by age").estimate["10..19"] == 2


def test_groups_of_a_column_without_declared_bins_are_its_values_if_they_are_few(tmp_path):
    columns = [gl.Integer("few", bounds=(0, 99), bins="learned"), gl.Integer("many", bounds=(0, 100), bins="learned")]
    table = private([("3", "7")], gl.Schema("t", columns), tmp_path)
    assert ask(table, "count() by few").estimate["3"] == 1
    with pytest.raises(QuestionError, match=r"'many' has 101 cells and no declared bins to group by\n  Try: bins = 10"):
        ask(table, "count() by many")
    with pytest.raises(QuestionError, match=r"'many' has 101 cells and no declared bins to match"):
        gl.HotDeck(on=["many"]).tally(gl.Mean("few").compile(table.schema), table.schema)
    wide = gl.Schema("w", [gl.Integer(name, bounds=(0, 99), bins=100) for name in "abc"])
    with pytest.raises(QuestionError, match="1,000,000 groups, more than 65,536"):
        gl.Count(by=["a", "b", "c"]).compile(wide)


def test_a_value_counts_as_itself_or_as_the_middle_of_its_cell(tmp_path):
    cells = gl.Schema("t", [gl.Number("x", bounds=(0, 1024), bins=4), gl.Integer("y", bounds=(0, 9_999), bins=2)])
    table = private([("0", "1234"), ("7.25", "9999"), ("7.75", "0")], cells, tmp_path)
    answer = ask(table, "sum(x)")
    assert answer.estimate == pytest.approx(0 + 7.5 + 7.5, abs=1e-3)  # 0 has a cell of its own
    assert "A value of x counts as the middle of its cell, one of 1,025." in str(answer)
    for text, expected in (("sum(y)", 1234 + 9999), ("mean(y)", 11233 / 3), ("median(y)", 1234)):
        answer = ask(table, text)
        assert answer.estimate == pytest.approx(expected)
        assert "middle" not in str(answer)
    assert ask(table, "median(x)").interval == (0, 1024)
    for text in ("count() where x < 7", "count() where x > 0", "count() where x == 0"):
        assert ask(table, text).estimate in (1, 2)
    with pytest.raises(GaplessError, match="nearest edges: 7 and 8"):
        ask(table, "count() where x < 7.5")


def test_scales_that_the_schema_says_are_numbers_can_be_averaged(tmp_path):
    scale = {"integer": gl.Integer("s", bounds=(1, 5)), "ordinal": gl.Ordinal("s", [1, 2, 3, 4, 5])}
    for column in scale.values():
        table = private([("1",), ("2",), ("5",)], gl.Schema("t", [column]), tmp_path)
        assert ask(table, "mean(s)").estimate == pytest.approx(8 / 3)
        assert ask(table, "median(s)").estimate == 2
    for column in (gl.Ordinal("s", ["1", "2"]), gl.Categorical("s", ["1", "2"])):
        with pytest.raises(QuestionError, match="a scale is averaged as an integer column"):
            gl.Mean("s").compile(gl.Schema("t", [column]))


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
def test_the_entry_says_whom_the_question_reads(text, reads, table):
    ask(table, text)
    assert table.ledger.entries[-1].reads == reads


@pytest.mark.parametrize("text", ["mean(income) where sex == F by children", "proportion(sex == F)", "median(income)"])
def test_a_question_to_a_filled_table_reads_every_row_that_was_there_to_fill(text, table):
    laws = [np.ones(column.size) for column in SCHEMA.columns]
    ask(table.fill(laws), text)
    assert table.ledger.entries[-1].reads is None
    ask(table.where("sex", ["F"]).fill(laws), text)
    assert table.ledger.entries[-1].reads == ["sex"]


def test_an_answer_tells_what_it_is(table):
    answer = ask(table, gl.Mean("income", where="age < 30"))
    assert answer.entries == (1,)
    assert answer.noise_std is None
    assert "Rows with a gap in income are left out.\n" in str(answer)
    assert "NOT PRIVATE: noise of a test" in str(answer)
    assert "Paid by entry 1 of the ledger." in str(answer)
    assert "mean(income) where age < 30 = 10" in str(answer)
    told = json.loads(json.dumps(answer.to_dict()))
    assert told["estimates"][0]["estimate"] == pytest.approx(10)
    assert told["entries"] == [1]
    count = ask(table, gl.Count())
    assert count.noise_std == pytest.approx(math.sqrt(2) * 100, rel=1e-3)
    assert "left out" not in str(count)
    assert "clamped to [0, 50]" in ask(table, gl.Sum("income", bounds=(0, 50))).measures


def test_questions_are_frozen_values_that_print_as_they_are_read():
    question = gl.Mean("income", bounds=(0, 100), where="age < 30", by="sex")
    assert question == gl.Mean("income", bounds=[0, 100], where="age < 30", by="sex")
    assert parse_question(str(question)) == question
    for text in (
        "count()",
        "proportion(sex == F) where age < 20 by smoker",
        'sum("odd name")',
        "variance(age) by sex",
        'mean(age) by sex, "odd name"',
        "median(age) where sex == F",
        "quantile(age, 0.9) by sex, smoker",
    ):
        assert str(parse_question(text)) == text
    with pytest.raises(AttributeError):
        question.column = "age"


# ---------------------------------------------------------------------- quantiles


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


def test_a_preview_of_a_quantile_tells_by_how_many_rows_it_may_miss_its_rank():
    shown = gl.query.preview(gl.Median("age"), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%")
    assert shown.noise_limit == pytest.approx(2 * math.log(100 / 0.05), rel=1e-6)
    assert str(shown) == "median(age): ± 15.2 (95 %), on the rank of the answer, in rows"
    assert gl.query.preview(gl.Median("age"), SCHEMA, budget=gl.Budget(1.0, 1e-6), spend="100%").noise_limit < 40


def test_a_quantile_of_too_many_groups_and_levels_that_fall_are_refused(tmp_path):
    wide = gl.Schema("w", [gl.Integer("x", bounds=(0, 60_000)), gl.Integer("g", bounds=(0, 99), bins=100)])
    with pytest.raises(QuestionError, match="more than 4,194,304 scores"):
        gl.query.preview(gl.Median("x", by="g"), wide, budget=gl.Budget(1.0, 0), spend="100%")
    falling = gl.Schema("f", [gl.Ordinal("s", [3, 2, 1])])
    with pytest.raises(QuestionError, match="do not rise"):
        gl.query.preview(gl.Median("s"), falling, budget=gl.Budget(1.0, 0), spend="100%")


def test_quantiles_and_sums_can_be_asked_together(table):
    questions = [gl.Count(), gl.Median("age"), gl.Mean("age")]
    with no_noise():
        answers = ask_all(table, questions, spend=table.ledger.share("9%"))
    assert [answer.estimate for answer in answers] == pytest.approx([6, 25, 25])
    assert table.ledger.spent.value == pytest.approx(0.09)
    assert [len(answer.entries) for answer in answers] == [1, 3, 1]


# ---------------------------------------------------------------------- filling gaps


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


def test_the_nearest_row_is_the_nearest_by_bins_also_where_cells_are_asked_about(tmp_path):
    """Found by a mutation: 29 is nearer to 31, but in the bin of 21."""
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 99)), gl.Integer("x", bounds=(0, 999), may_be_missing=True)])
    table = private([("21", "100"), ("29", ""), ("31", "900")], schema, tmp_path, budget=gl.Budget(400.0, 0))
    for where in ("age >= 20 and age < 30", "age >= 25 and age < 30"):
        question = gl.Sum("x", where=where, missing=gl.Knn(on=["age"]))
        with no_noise():
            answer = table.ask(question, spend=table.ledger.share("40%"))
        assert answer.estimate == pytest.approx(200 if "20" in where else 100, abs=0.5)


def test_a_majority_is_one_of_bins(tmp_path):
    schema = gl.Schema("t", [gl.Boolean("g"), gl.Integer("x", bounds=(0, 99), may_be_missing=True)])
    table = private([("true", x) for x in ("11", "12", "88", "")], schema, tmp_path, budget=gl.Budget(400.0, 0))
    question = gl.Sum("x", missing=gl.Knn(on=["g"], neighbors=3, scheme="majority"))
    with no_noise():
        answer = table.ask(question, spend=table.ledger.left)
    assert answer.estimate == pytest.approx(3 * 14.5 + 84.5, abs=0.1)
    assert "middle of its bin" in str(answer)


def test_the_limit_binds(tmp_path):
    schema = gl.Schema("t", [gl.Boolean("x", may_be_missing=True)])
    rows = [("true",), *[("",)] * 10]
    for limit, expected in ((1, 2), (3, 4), (10, 11), (20, 11)):
        table = private(rows, schema, tmp_path)
        question = gl.Count(where="x == true", missing=gl.HotDeck(on=[], limit=limit))
        assert ask(table, question).estimate == pytest.approx(expected)


def test_questions_that_look_at_no_gap_get_the_plain_noise(table):
    """Automatically: a hot deck with a large limit would add far more."""
    deck = gl.HotDeck(on=["smoker"], limit=50)
    for text in ("count() where age < 20", "mean(age) by smoker", "count() where sex is missing"):
        plain, filled = ask(table, text), ask(table, parse_question(text, deck))
        assert plain.estimate == filled.estimate
        one, other = table.ledger.entries[-2:]
        assert one.mechanism == other.mechanism
    filled = table.fill([np.ones(column.size) for column in SCHEMA.columns])  # no gaps are left
    ask(filled, gl.Mean("income", missing=deck))
    assert table.ledger.entries[-1].distance == ask_distance(table, "mean(income)")


def ask_distance(table, text):
    ask(table, text)
    return table.ledger.entries[-1].distance


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
    assert repr(deck) == str(deck) == "<Deck of children, sex by age; entry 1>"
    for wrong, told in (
        (gl.Mean("income"), "no column 'income'"),
        (gl.Median("children"), r"a deck has no answer to median\(children\)"),
        ("mean(children)", "is not a question"),
        (gl.Mean("children", missing=gl.Knn(on=["age"])), "fills gaps in its own way"),
        (gl.Mean("children", missing=gl.HotDeck(on=["age"], limit=2)), "fills gaps in its own way"),
    ):
        with pytest.raises(GaplessError, match=told):
            deck.ask(wrong)


# ---------------------------------------------------------------------- bad questions


BAD = {
    "unknown column": (lambda: gl.Mean("incme"), "no column 'incme' in the schema\n  Try: income"),
    "unknown column in where": (lambda: gl.Count(where="hour > 3"), "no column 'hour'"),
    "unknown group": (lambda: gl.Count(by="hour"), "no column 'hour'"),
    "free text": (lambda: gl.Count(where="notes == 'x'"), "free text cannot be asked about"),
    "free text by": (lambda: gl.Count(by="notes"), "free text cannot be asked about"),
    "free text mean": (lambda: gl.Mean("notes"), "free text cannot be asked about"),
    "mean of words": (lambda: gl.Mean("sex"), "the cells of column 'sex', a categorical column, are no numbers"),
    "mean of dates": (
        lambda: gl.Mean("born"),
        "a date column, are no numbers\n  Try: proportion(born < …), the share before",
    ),
    "bounds reversed": (lambda: gl.Mean("age", bounds=(90, 10)), "bounds (90, 10) are empty"),
    "bounds equal": (lambda: gl.Sum("age", bounds=(9, 9)), "bounds (9, 9) are empty"),
    "bounds outside": (lambda: gl.Sum("age", bounds=(200, 300)), "stand for the same number, 200"),
    "bounds too narrow": (lambda: gl.Sum("age", bounds=(5e-324, 1e-323)), "cannot be put on a grid"),
    "bounds no numbers": (lambda: gl.Sum("age", bounds=("a", "b")), "bounds are ('a', 'b')"),
    "bounds not finite": (lambda: gl.Sum("age", bounds=(0, math.inf)), "bounds are (0, inf)"),
    "ends exchanged": (lambda: gl.Count(where="age between 30 and 19"), "never between 30 and 19"),
    "ends of words exchanged": (lambda: gl.Count(where="grade between 5 and 1"), "never between 5 and 1"),
    "a code is no value": (lambda: gl.Count(where="children == -1"), "Try: children is not applicable"),
    "a code is no number": (lambda: gl.Count(where="children >= -1"), "a code for not applicable"),
    "always applicable": (lambda: gl.Count(where="age is not applicable"), "age is missing"),
    "a text": (lambda: "mean(income)", 'parse_question("mean(income)")'),
    "a class": (lambda: gl.Mean, "is not a question"),
    "a table": (lambda: pl.DataFrame({"income": [60]}), "a DataFrame is not a question"),
    "no condition": (lambda: gl.Proportion(" "), "a proportion of what?"),
    "where is no text": (lambda: gl.Count(where=3), "3 is not a condition"),
    "by is a number": (lambda: gl.Count(by=3), "a list of columns"),
    "by names a column twice": (lambda: gl.Count(by=["sex", "sex"]), "name it once"),
    "by has no column": (lambda: gl.Count(by=[]), "by has no column"),
    "a median of words": (lambda: gl.Median("sex"), "are no numbers"),
    "a median of dates": (lambda: gl.Median("born"), "are no numbers"),
    "a median of a list": (lambda: gl.Median(["age"]), "the name of one column"),
    "an unknown median": (lambda: gl.Median("incme"), "no column 'incme'"),
    "a median of free text": (lambda: gl.Median("notes"), "free text cannot be asked about"),
    "a quantile of all": (lambda: gl.Quantile("age", 1), "q = 1"),
    "a quantile in percent": (
        lambda: gl.Quantile("age", 90),
        "a share between 0 and 1: 0.9 for 90 %, 0.5 for the median",
    ),
    "a filled quantile": (lambda: gl.Median("income", missing=gl.HotDeck(on=["age"])), "cannot be filled"),
    "a quantile of near ones": (lambda: gl.Median("income", missing=gl.Knn(on=["age"])), "missing=Drop()"),
    "column is a list": (lambda: gl.Mean(["age"]), "the name of one column"),
    "missing is a text": (lambda: gl.Count(missing="drop"), "Drop()"),
    "cells is a text": (lambda: gl.HotDeck(on="age"), "a list of columns"),
    "cells twice": (lambda: gl.HotDeck(on=["age", "age"]), "name it once"),
    "limit": (lambda: gl.HotDeck(on=["age"], limit=0), "limit = 0"),
    "matched on what is filled": (
        lambda: gl.Mean("income", missing=gl.HotDeck(on=["income"])),
        "rows cannot be matched on it",
    ),
    "unknown cells": (lambda: gl.Mean("income", missing=gl.HotDeck(on=["hour"])), "no column 'hour'"),
    "gaps and values": (
        lambda: gl.Mean("income", where="income is missing", missing=gl.HotDeck(on=["age"])),
        "looks at the values of 'income' and at its gaps",
    ),
}


@pytest.mark.parametrize(("make", "told"), BAD.values(), ids=BAD)
def test_bad_questions_are_refused_before_anything_is_spent(make, told, table):
    with pytest.raises(GaplessError) as error:
        table.ask(make(), spend=table.ledger.share("10%"))
    assert told in str(error.value)
    assert not table.ledger.entries


BAD_TEXTS = {
    "": "expected a question",
    "mode(age)": "there is no mode; the questions are count(), proportion(CONDITION)",
    "median(age, 0.5)": "expected ')'",
    "quantile(age)": "expected ',', found ')'\n  Try: quantile(age, 0.9)",
    "quantile(age, much)": "'much' is not a number",
    "mean(age) by sex,": "expected a column",
    "mean(age) by sex, smoker where age < 20": "Try: mean(age) where … by sex, smoker",
    "mean age": "expected '('",
    "mean()": "expected a column",
    "mean(age": "expected ')'",
    "mean(age, 1)": "expected ',', found ')'\n  Try: mean(age, 0, 100)",
    "mean(age, a, b)": "'a' is not a number",
    "mean(age) where": "expected a column",
    "mean(age) by": "expected a column",
    "mean(age) sex": "expected where, by or the end",
    "mean(age) by sex where age < 20": "where comes before by, found 'where'\n  Try: mean(age) where … by sex",
    "How many people are there?": "Try: count(), proportion(CONDITION)",
    "how many": "Try: count(), proportion(CONDITION)",
    "proportion()": "expected a column",
}


@pytest.mark.parametrize(("text", "told"), BAD_TEXTS.items(), ids=BAD_TEXTS)
def test_bad_texts_are_told(text, told):
    with pytest.raises(QuestionError) as error:
        parse_question(text)
    assert told in str(error.value)


def test_a_deck_that_is_too_large_or_matched_on_what_it_fills_is_refused(table):
    spend = table.ledger.share("10%")
    with pytest.raises(QuestionError, match="name it once"):
        gl.HotDeck(on=["age"]).release(table, ["age"], spend=spend)
    with pytest.raises(QuestionError, match="a deck without a column"):
        gl.HotDeck(on=["age"]).release(table, [], spend=spend)
    wide = gl.Schema("w", [gl.Integer(f"x{i}", bounds=(0, 99), bins=100) for i in range(4)])
    other = private(
        pl.DataFrame({f"x{i}": [1] for i in range(4)}), wide, table.ledger.path.parent, budget=gl.Budget(1.0, 0)
    )
    with pytest.raises(QuestionError, match="a deck of 100,000,000 combinations"):
        gl.HotDeck(on=["x0", "x1", "x2"]).release(other, ["x3"], spend=other.ledger.left)
    assert not table.ledger.entries
    assert not other.ledger.entries


def test_too_little_budget_is_refused(table):
    with pytest.raises(gl.errors.BudgetError):
        table.ask(gl.Count(), spend=table.ledger.share("50%") * 3)
    assert not table.ledger.entries


# ---------------------------------------------------------------------- preview


@pytest.mark.parametrize("budget", [gl.Budget(1.0, 0), gl.Budget(1.0, 1e-6)])
@pytest.mark.parametrize("missing", [gl.Drop(), gl.HotDeck(on=["age"], limit=2)])
@pytest.mark.parametrize("text", ["count() where sex == F", "sum(income)", "count() by sex"])
def test_a_preview_tells_the_noise_of_the_answer(text, missing, budget, tmp_path):
    question = parse_question(text, missing)
    table = private(ROWS, SCHEMA, tmp_path, budget=budget)
    expected = gl.query.preview(question, SCHEMA, budget=budget, spend="20%")
    answer = table.ask(question, spend=table.ledger.share("20%"))
    assert expected.noise_std == pytest.approx(answer.noise_std)
    assert expected.of == "the answer"


def test_a_preview_of_a_mean_is_told_per_row():
    shown = gl.query.preview(gl.Mean("children"), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%")
    assert str(shown).endswith(", on the answer times the number of rows it is about")
    assert (shown.depends_on_rows, shown.rows) == (True, None)
    assert shown.noise_std == pytest.approx(math.sqrt(2) * 4, rel=1e-2)
    assert shown.to_dict()["question"] == "mean(children)"
    with pytest.raises(gl.errors.BudgetError):
        gl.query.preview(gl.Mean("children"), SCHEMA, budget=gl.Budget(1.0, 0), spend="0%")


FOR_ROWS = {
    "mean(children)": "at most ± 0.012 (95 %), noise std at most 0.005642, on an answer about 1,000 rows",
    "mean(children, 0, 2) by sex": "at most ± 0.006 (95 %), noise std at most 0.002799, on an answer about 1,000 rows",
    "proportion(smoker == true)": "at most ± 0.003 (95 %), noise std at most 0.001357, on an answer about 1,000 rows",
    "median(age)": "± 15.2 (95 %), on the rank of the answer, in rows: between the 48.5 % and the 51.5 % quantile of "
    "1,000 rows",
    "count() where sex == F": "± 3 (95 %), noise std 1.357, on the answer",
    "sum(income)": "± 300 (95 %), noise std 141.4, on the answer",
}


@pytest.mark.parametrize(("text", "told"), FOR_ROWS.items(), ids=FOR_ROWS)
def test_a_preview_is_in_the_unit_of_the_answer_for_a_stated_number_of_rows(text, told):
    shown = gl.query.preview(parse_question(text), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%", rows=1000)
    assert str(shown) == f"{text}: {told}"
    assert shown.rows == (1000 if "1,000" in told else None)
    one = gl.query.preview(parse_question(text), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%", rows=1)
    assert "1,000" not in str(one)
    assert " 1 rows" not in str(one)


def test_the_rows_of_a_preview_are_stated_or_those_that_the_schema_expects():
    expecting = replace(SCHEMA, expected_rows=1000)
    mean, shown = gl.Mean("children"), {"budget": gl.Budget(1.0, 0), "spend": "100%"}
    assumed = gl.query.preview(mean, expecting, **shown)
    assert (assumed.rows, assumed.noise_limit) == (1000, gl.query.preview(mean, SCHEMA, rows=1000, **shown).noise_limit)
    assert str(assumed).endswith("an answer about 1,000 rows, as many as the schema expects in the whole table")
    assert "expects" not in str(gl.query.preview(mean, expecting, rows=500, **shown))
    assert "expects" not in str(gl.query.preview(gl.Count(), expecting, **shown))
    for wrong in (0, -3, 2.5, True, "many"):
        with pytest.raises(QuestionError, match=r"rows = .*\n  Try: a whole number of at least 1"):
            gl.query.preview(mean, SCHEMA, rows=wrong, **shown)


def test_no_preview_promises_an_error_beyond_the_range_of_the_answer():
    few = {"budget": gl.Budget(0.01, 0), "spend": "1%", "rows": 10}
    assert gl.query.preview(gl.Mean("children"), SCHEMA, **few).noise_limit == 4
    assert gl.query.preview(gl.Proportion("smoker == true"), SCHEMA, **few).noise_limit == 1
    assert gl.query.preview(gl.Variance("children"), SCHEMA, **few).noise_limit == 8  # of 0 and 4: sample variance 8


@pytest.mark.parametrize("budget", [gl.Budget(1.0, 0), gl.Budget(1.0, 1e-6)])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_answers_about_so_many_rows_stay_within_the_limit_of_a_preview(budget, share):
    """By 200,000 draws of the noise that a release of this price has; always the same draws."""
    n, rng = 400, np.random.default_rng(0)
    asked = gl.Proportion("smoker == true"), gl.Variance("smoker")
    within = []
    for question in asked:
        shown = gl.query.preview(question, SCHEMA, budget=budget, spend="20%", rows=n)
        width = question.compile(SCHEMA).shape.width
        std = gl.query.preview(gl.Count(), SCHEMA, budget=budget, spend="20%").noise_std
        draw = rng.normal if budget.delta else lambda _, s, size: rng.laplace(0, s / math.sqrt(2), size)
        values = np.array({2: [share, 1 - share], 3: [share, 0.0, 1 - share]}[width]) * n
        parts = values + draw(0, std, (200_000, width))
        true = question.compile(SCHEMA).shape.finish(values)
        found = np.clip(parts[:, 0] / np.maximum(1, parts.sum(axis=1)), 0, 1)
        if width == 3:
            rows = np.maximum(2, parts.sum(axis=1))
            found = np.clip((parts[:, 0] - parts[:, :2].sum(axis=1) ** 2 / rows) / (rows - 1), 0, 0.5)
        within.append(np.mean(np.abs(found - true) <= shown.noise_limit))
    assert min(within) >= 0.95


# ---------------------------------------------------------------------- nearest neighbours


PAIRS = gl.Schema(
    "pairs",
    [
        gl.Integer("place", bounds=(0, 9)),
        gl.Integer("x", bounds=(0, 4), may_be_missing=True),
        gl.Boolean("g", may_be_missing=True),
    ],
)
NEAR = [("0", "1", "true"), ("1", "", "true"), ("9", "4", "false"), ("8", "", "false"), ("7", "", "false")]


def near(folder, question, *, budget=40.0):
    table = private(NEAR, PAIRS, folder, budget=gl.Budget(budget, 0))
    with no_noise():
        return table, table.ask(question, spend=table.ledger.share("50%"))


KNN = gl.Knn(on=["place"])
FILLED = {
    "sum(x)": 1 + 1 + 4 + 4 + 4,
    "count() where x >= 2": 3,
    "mean(x)": 14 / 5,
    "mean(x) where place >= 5": 4,
    "proportion(x == 1)": 2 / 5,
    "variance(x)": np.var([1, 1, 4, 4, 4], ddof=1),
    "mean(x, 0, 2)": (1 + 1 + 2 + 2 + 2) / 5,
}


@pytest.mark.parametrize(("text", "expected"), FILLED.items(), ids=FILLED)
def test_gaps_are_filled_from_the_nearest_rows(text, expected, tmp_path):
    _, answer = near(tmp_path, parse_question(text, KNN))
    assert answer.estimate == pytest.approx(expected, abs=1e-2)  # answers lie on a public grid
    assert (answer.interval, answer.noise_std) == (None, None)
    assert "the size of the noise is itself private" in str(answer)
    assert "Gaps in x are filled from the row nearest in place" in str(answer)


def test_each_group_is_paid_for(tmp_path):
    table, answer = near(tmp_path, gl.Mean("x", by="g", missing=KNN))
    assert answer.estimate == pytest.approx({"false": 4, "true": 1}, abs=1e-2)
    names = [entry.mechanism["name"] for entry in table.ledger.entries]
    assert names == ["SmoothCauchy"] * 4  # which rows there are in a group depends on what is filled: g may be missing
    assert answer.entries == (1, 2, 3, 4)
    assert table.ledger.spent.value == pytest.approx(20, rel=1e-2)
    assert {entry.what for entry in table.ledger.entries} >= {
        "mean(x) by g = true",
        "number of rows of mean(x) by g = true",
    }


@pytest.mark.parametrize(
    ("text", "mechanisms"),
    [
        ("count() where x >= 2", ["SmoothCauchy"]),
        ("mean(x)", ["DiscreteLaplace", "SmoothCauchy"]),
        ("mean(x) where g == true", ["SmoothCauchy", "SmoothCauchy"]),
        ("proportion(x >= 2)", ["DiscreteLaplace", "SmoothCauchy"]),
        ("variance(x)", ["DiscreteLaplace", "SmoothCauchy", "SmoothCauchy"]),
        ("count() where place >= 2", ["DiscreteLaplace"]),
    ],
)
def test_numbers_of_rows_are_counted_plainly_where_nothing_is_filled(text, mechanisms, tmp_path):
    table, _ = near(tmp_path, parse_question(text, KNN))
    assert [entry.mechanism["name"] for entry in table.ledger.entries] == mechanisms
    assert table.ledger.spent.value <= 20 * (1 + 1e-9)


@pytest.mark.parametrize("text", ["count() where x >= 2", "mean(x)", "variance(x)", "mean(x) by g"])
def test_below_ln_2_a_hot_deck_is_recommended_before_anything_is_spent(text, tmp_path):
    table = private(NEAR, PAIRS, tmp_path, budget=gl.Budget(0.6, 0))
    question = parse_question(text, KNN)
    with pytest.raises(gl.errors.BudgetError, match="HotDeck"):
        table.ask(question, spend=table.ledger.left)
    assert not table.ledger.entries
    with pytest.raises(gl.errors.BudgetError, match="HotDeck"):
        gl.query.preview(question, PAIRS, budget=gl.Budget(0.6, 0), spend="100%")


def test_a_preview_of_neighbours_is_told_for_each_unit_of_sensitivity():
    shown = gl.query.preview(gl.Count(where="x >= 2", missing=KNN), PAIRS, budget=gl.Budget(1.0, 0), spend="100%")
    assert shown.noise_std is None
    assert 0.8 < shown.noise_median < 1.1
    assert "for each row that one row can change" in str(shown)
    mean = gl.query.preview(gl.Mean("x", missing=KNN), PAIRS, budget=gl.Budget(2.0, 0), spend="100%")
    assert "times the number of rows" in mean.of
    stated = gl.query.preview(gl.Mean("x", missing=KNN), PAIRS, budget=gl.Budget(2.0, 0), spend="100%", rows=100)
    assert stated.noise_median == pytest.approx(mean.noise_median / 100)
    assert "on an answer about 100 rows, for each row that one row can change" in str(stated)


def test_a_preview_of_what_is_none_is_refused(table):
    for arguments, budget, told in (
        (("count()", SCHEMA), gl.Budget(1.0, 0), "parse_question"),
        ((gl.Count(), "people.toml"), gl.Budget(1.0, 0), "Schema.read"),
        ((gl.Count(), table), gl.Budget(1.0, 0), "people.schema"),
        ((gl.Count(), SCHEMA), 1.0, "Budget(epsilon=1.0, delta=1e-6)"),
    ):
        with pytest.raises(GaplessError) as error:
            gl.query.preview(*arguments, budget=budget, spend="10%")
        assert told in str(error.value)


def test_a_cover_is_declared_or_follows_from_the_schema(tmp_path):
    """Never from the table: the search for the exact bound must end on tables of any schema."""
    wide = gl.Schema("wide", [gl.Integer(name, bounds=(0, 999), bins=1000) for name in "abc"])
    assert gl.Knn(on=["a", "b"]).matching(wide).cover is None
    assert gl.Knn(on=["a", "b", "c"]).matching(wide).cover == ("a", "b")
    assert gl.Knn(on=["a", "b", "c"], cover=["c"]).matching(wide).cover == ("c",)
    assert gl.Knn(on=["a"], cover=[]).matching(wide).cover == ()
    with pytest.raises(GaplessError, match="cover has 'b', which is not matched on"):
        gl.Knn(on=["a"], cover=["b"])
    _, answer = near(tmp_path, gl.Sum("x", missing=gl.Knn(on=["place"], cover=[])))
    assert answer.estimate == pytest.approx(14, abs=1e-2)


def test_matching_that_makes_no_sense_is_refused():
    for make, told in (
        (lambda: gl.Knn(on="place"), "a list of columns"),
        (lambda: gl.Knn(on=[]), "no column to compare rows on"),
        (lambda: gl.Knn(on=["place"], neighbors=3), "the nearest row is one"),
        (lambda: gl.Knn(on=["place"], scheme="median", neighbors=3), "no scheme called 'median'"),
        (
            lambda: gl.query.preview(
                gl.Mean("x", missing=gl.Knn(on=["x"])), PAIRS, budget=gl.Budget(9.0, 0), spend="9%"
            ),
            "filled",
        ),
    ):
        with pytest.raises(GaplessError) as error:
            make()
        assert told in str(error.value) or "matched" in str(error.value)


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


def test_an_answer_quotes_what_its_ledger_promises(tmp_path):
    """Under a filter for the complete table the incomplete one has another ε, and it comes first."""
    for assumed in (None, gl.MCAR({"income": 0.5})):
        table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=assumed))
        answer = table.ask(gl.Count(where="income < 50"), spend=table.ledger.left)
        told = table.ledger.guarantee() if assumed is None else table.ledger.ground_truth()
        assert " ".join(str(told).split()) in " ".join(str(answer).split())
        assert "of the incomplete table" in str(answer)
        first, *notes = str(answer).splitlines()  # found by review: lines after the first of a note stood at the margin
        assert first.startswith("count() where income < 50 = ")
        assert all(line.startswith("  ") and line[2] != " " for line in notes)
        assert len(notes) == (4 if assumed is None else 5)
        assert notes[-1] == "  Paid by entry 1 of the ledger."


def test_notes_stand_below_groups_and_tell_all_entries(table):
    with no_noise():
        answer = table.ask(gl.Median("age", by="sex"), spend=table.ledger.left)
    assert str(answer).splitlines() == [
        "median(age) by sex",
        *(f"  {name}  {estimate}" for name, estimate in zip("FM", answer.estimates, strict=True)),
        "  Rows with a gap in sex are left out.",
        f"  {answer.interval_note}",
        f"  {answer.protects}",
        "  Paid by entries 1, 2, 3 of the ledger.",
    ]


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


# ---------------------------------------------------------------------- intervals


@pytest.mark.parametrize("laplace", [True, False])
def test_what_the_noise_of_a_ratio_explains_is_convex(laplace):
    """Bisection from the estimate outwards rests on it."""
    _, limits = _ratio_limits(laplace)
    assert (np.diff(limits, 2) > -1e-12).all()


@pytest.mark.parametrize("share", [0.0, 0.0003, 0.41978, 1.0])
@pytest.mark.parametrize("laplace", [True, False])
def test_more_rows_never_make_an_interval_wider(laplace, share):
    """Found by review: between two points of a grid the whole range came back once there was little noise."""
    noise = Noise(laplace, 3.0, 1.0)
    widths = []
    for rows in np.geomspace(1, 1e9, 60):
        low, high = ratio_interval(share * rows, (1 - share) * rows, noise)
        assert low <= share <= high
        widths.append(high - low)
    assert (np.diff(widths) <= 1e-15).all()
    assert widths[-1] < 1e-7


def test_an_interval_is_never_empty_nor_without_its_estimate(tmp_path):
    for part, rest in ((-50.0, 1000.0), (1000.0, -50.0), (-40.0, -40.0), (0.2, 0.0)):
        low, high = ratio_interval(part, rest, Noise(True, 3.0, 1.0))
        assert 0 <= low <= high <= 1
    asked = parse_question("count()").compile(SCHEMA)
    (few,) = asked.estimates(np.array([-84]), 1, Noise(True, 10.0, 1.0))
    assert (few.value, few.interval) == (0, (0, 0))
    (exact,) = asked.estimates(np.array([7]), 1, Noise(True, 0.01, 1.0))
    assert (exact.value, exact.interval) == (7, (7, 7))


def test_what_is_said_of_gaps_is_what_was_done(table):
    told = "Rows with a gap in sex, income are left out"
    assert told in ask(table, "proportion(income >= 50 or sex == F)").measures
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


def test_a_deck_of_one_class_counts_its_rows(table):
    with no_noise():
        deck = gl.HotDeck(on=[]).release(table, ["sex"], spend=table.ledger.share("10%"))
    assert deck.ask(gl.Count()).estimate == pytest.approx(6)
    assert deck.ask(gl.Proportion("sex == F")).estimate == pytest.approx(0.5)
