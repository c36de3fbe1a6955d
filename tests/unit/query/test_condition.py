"""The language of conditions: what it reads, what it refuses, and what it makes of gaps."""

import numpy as np
import pytest

from gapless import (
    Boolean,
    Categorical,
    Date,
    DateTime,
    GaplessError,
    Integer,
    MissingCode,
    Number,
    Ordinal,
    Schema,
)
from gapless.constraints.grammar import (
    Always,
    And,
    Comparison,
    IsMissing,
    Not,
    Or,
    gap_columns,
    needed,
    parse_condition,
    value_columns,
)
from gapless.constraints.predicates import holds
from gapless.errors import QuestionError
from gapless.query.condition import compile_condition, told_for
from gapless.query.numbers import numbers_of

SCHEMA = Schema(
    "people",
    [
        Integer("age", bounds=(0, 99), bins=10),
        Integer("children", bounds=(0, 5), may_be_missing=True),
        Categorical("marital status", ["single", "never again"], may_be_missing=True),
        Ordinal("health", ["bad", "fair", "good"], may_be_missing=True, missing=[MissingCode("n/a", "not-applicable")]),
        Number("income", bounds=(0, 1000), bins=4, may_be_missing=True),
        Boolean("smoker"),
        Date("born", bounds=("1950-01-01", "1959-12-31"), resolution="year"),
    ],
    ignore=["notes"],
)

age, kids = Comparison("age", ">=", "20"), Comparison("children", "==", "2")
READ = {
    "": Always(),
    "age >= 20": age,
    "age>=20": age,
    "AGE >= 20": Comparison("AGE", ">=", "20"),
    "age >= 20 AND children == 2": And((age, kids)),
    "age >= 20 or children == 2 and age >= 20": Or((age, And((kids, age)))),
    "(age >= 20 or children == 2) and age >= 20": And((Or((age, kids)), age)),
    "not age >= 20": Not(age),
    "not not age >= 20": age,
    "not (age >= 20 and children == 2)": Not(And((age, kids))),
    "children is missing": IsMissing("children"),
    "children is not missing": Not(IsMissing("children")),
    "children in (1, 2)": Or((Comparison("children", "==", "1"), kids)),
    "children not in (2)": Not(Or((kids,))),
    "age between 20 and 39": And((age, Comparison("age", "<=", "39"))),
    "age not between 20 and 39": Not(And((age, Comparison("age", "<=", "39")))),
    "\"marital status\" == 'never again'": Comparison("marital status", "==", "never again"),
    "sex == F": Comparison("sex", "==", "F"),
    'sex == "and"': Comparison("sex", "==", "and"),
    "born < 1955-01-01": Comparison("born", "<", "1955-01-01"),
    "t > -1.5e3": Comparison("t", ">", "-1.5e3"),
    "education-num != 9": Comparison("education-num", "!=", "9"),
}


@pytest.mark.parametrize(("text", "condition"), READ.items(), ids=READ)
def test_conditions_are_read(text, condition):
    assert parse_condition(text) == condition


UNREADABLE = {
    "age": "expected a comparison, the text ends",
    "age >=": "expected a value",
    "age = 20": "== compares",
    "age >= 20 and": "expected a column",
    "age >= 20 children == 2": "expected the end, and, or or, found 'children'",
    "(age >= 20": "expected ')'",
    "age >= 20)": "found ')'",
    "20 <= age": "expected a column",
    "age in 2": "expected '('",
    "age in (2": "expected ')'",
    "age in ()": "expected a value",
    "age between 1": "expected 'and'",
    "age is 20": "expected 'missing'",
    "age is not": "expected 'missing'",
    "age not >= 3": "expected a comparison",
    "and == 3": "expected a column",
    "age >= 20; import os": "at character 10",
    "__import__('os') == 1": "expected a comparison, found '('",
    "'age' == 3": "expected a column",
    "(" * 60 + "age >= 20" + ")" * 60: "more than 50 parentheses",
    "age >= 20 or " * 2000: "more than 10000 characters",
}


@pytest.mark.parametrize(("text", "told"), UNREADABLE.items(), ids=range(len(UNREADABLE)))
def test_what_cannot_be_read_is_told_with_its_place(text, told):
    with pytest.raises(QuestionError) as error:
        parse_condition(text)
    assert told in str(error.value)


def test_a_long_list_is_read_and_evaluated_without_deep_recursion():
    listed = ", ".join(["1"] * 3000)
    truth = compile_condition(parse_condition(f"children in ({listed})"), SCHEMA)
    assert truth({"children": np.arange(7)}).tolist() == [-1, 1, -1, -1, -1, -1, 0]


MEANING = {
    "age >= 20": ("age", [-1, -1, 1, 1, 1, 1, 1, 1, 1, 1]),
    "age between 10 and 19": ("age", [-1, 1, -1, -1, -1, -1, -1, -1, -1, -1]),
    "age > 19": ("age", [-1, -1, 1, 1, 1, 1, 1, 1, 1, 1]),
    "age >= 1000": ("age", [-1] * 10),
    "children != 2": ("children", [1, 1, -1, 1, 1, 1, 0]),
    "not children == 2": ("children", [1, 1, -1, 1, 1, 1, 0]),
    "children is missing": ("children", [-1] * 6 + [1]),
    "children is not missing": ("children", [1] * 6 + [-1]),
    "health >= fair": ("health", [-1, 1, 1, 0, 0]),
    "health is missing": ("health", [-1, -1, -1, -1, 1]),
    "income < 500": ("income", [1, 1, -1, -1, 0]),
    "income >= 500": ("income", [-1, -1, 1, 1, 0]),
    "income <= 1000": ("income", [1, 1, 1, 1, 0]),
    "smoker == true": ("smoker", [-1, 1]),
    "smoker == false": ("smoker", [1, -1]),
    "born >= 1955-01-01": ("born", [-1] * 5 + [1] * 5),
    "born < 1955": ("born", [1] * 5 + [-1] * 5),
    "health is not applicable": ("health", [-1, -1, -1, 1, 0]),
    "health is applicable": ("health", [1, 1, 1, -1, 0]),
    "children == 2 or children is missing": ("children", [-1, -1, 1, -1, -1, -1, 1]),
    "children == 2 and children is missing": ("children", [-1, -1, -1, -1, -1, -1, 0]),
    "": ("age", [1] * 10),
}


@pytest.mark.parametrize(("text", "expected"), MEANING.items(), ids=MEANING)
def test_each_cell_makes_a_condition_true_false_or_unknown(text, expected):
    column, truths = expected
    truth = compile_condition(parse_condition(text), SCHEMA)
    assert truth({column: np.arange(SCHEMA[column].extended_size)}).tolist() == truths


REFUSED = {
    "hour == 3": "no column 'hour' in the schema",
    "hour is missing": "no column 'hour' in the schema",
    "notes == 'x'": "free text cannot be asked about",
    "notes is missing": "free text cannot be asked about",
    "age >= 25": "< or >= with the nearest edges: 20 and 30",
    "age == 20": ">= 20 and < 30: the whole bin",
    "age == 95": ">= 90 and <= 99: the whole bin",
    "age between 20 and 30": "Try: < 30: a bin begins there",
    "income > 500": "Try: >= 500: a bin begins there",
    "age >= old": "column 'age' is compared with 'old'\n  Try: an integer",
    "income <= 500": "Try: < 500: a bin begins there",
    "income < 600": "nearest edges: 500 and 750",
    "\"marital status\" > 'single'": "has no order",
    '"marital status" == married': "has no cell 'married'",
    "health == 'not applicable'": "one of its levels",
    "born >= 1955-02": "column 'born' is compared with '1955-02'",
    "health == 'n/a'": "health is not applicable",
    "health is not applicable and age is applicable": "column 'age' is always applicable",
    "smoker == maybe": "has no cell 'maybe'",
}


@pytest.mark.parametrize(("text", "told"), REFUSED.items(), ids=REFUSED)
def test_what_the_schema_cannot_answer_is_refused_with_a_hint(text, told):
    with pytest.raises(GaplessError) as error:
        compile_condition(parse_condition(text), SCHEMA)
    assert told in str(error.value)
    assert error.value.hint


def test_columns_looked_at_and_columns_needed():
    condition = parse_condition("age >= 20 and (children == 2 or income < 500) and not born is missing")
    assert value_columns(condition) == {"age", "children", "income"}
    assert gap_columns(condition) == {"born"}
    assert needed(condition) == {"age", "born"}
    assert needed(condition, truth=False) == set()
    assert needed(parse_condition("not (age >= 20 or children == 2)")) == {"age", "children"}
    assert needed(parse_condition("children is missing")) == set()


def test_edges_are_hit_although_their_last_bit_is_another():
    """Found by review: three tenths of 1 is 0.30000000000000004 there."""
    tenths = Number("x", bounds=(0, 1), bins=10)
    around = Number("x", bounds=(-0.7, 0.7), bins=14)
    for column, edges in ((tenths, range(1, 10)), (around, range(-6, 7))):
        for edge in edges:
            below = holds(column, "<", str(edge / 10))
            assert below.sum() == edge - round(column.bounds[0] * 10)
            assert (holds(column, ">=", str(edge / 10)) == ~below).all()
    # And where 0 has a cell of its own, which is as narrow as can be.
    assert holds(tenths.fine, "<", "0.3").tolist() == (tenths.fine.group(tenths)[: tenths.fine.size] < 3).tolist()
    far = Number("x", bounds=(1e9, 1e9 + 10), bins=10)
    for column, between in ((tenths, "0.30001"), (far, "1000000000.5")):
        with pytest.raises(GaplessError, match="splits a bin"):
            holds(column, "<", between)
    monthly = Date("d", bounds=("2020-01-01", "2020-12-31"), resolution="month", bins=12)
    assert holds(monthly, ">=", "2020-05").sum() == 8


def test_a_column_is_cut_where_a_condition_splits_its_bins_and_not_finer():
    """So that rows which a condition cannot tell apart stay alike."""
    wide = Schema(
        "wide",
        [
            Integer("age", bounds=(0, 99)),
            Integer("pay", bounds=(0, 50_000), bins="learned"),
            Number("x", bounds=(0, 1), edges=(0, 0.7, 1)),
            Date("day", bounds=("2020-01-01", "2020-12-31")),
            Integer("few", bounds=(0, 9), bins="learned"),
            Integer("huge", bounds=(0, 10**9), bins=2),
        ],
    )
    told = {
        "age >= 33 or age == 99 or age < 20": {
            "age": [
                *("0..9", "10..19", "20..29", "30..32", "33..39", "40..49"),
                *("50..59", "60..69", "70..79", "80..89", "90..98", "99"),
            ]
        },
        "age >= 30": {},
        "pay between 100 and 200 and not pay == 0": {"pay": ["0", "1..99", "100..200", "201..50000"]},
        "x < 0.5": {"x": ["[0, 0.5)", "[0.5, 0.7)", "[0.7, 1]"]},
        "x == 0": {"x": ["0", "(0, 0.7)", "[0.7, 1]"]},
        "few >= 3": {},
        "huge < 500000000": {},
    }
    for text, expected in told.items():
        found = told_for(parse_condition(text), wide)
        assert {name: list(column.value_cells) for name, column in found.items()} == expected
        assert wide.with_columns(found).fine.columns == wide.fine.columns
    days = told_for(parse_condition("day >= 2020-02-03"), wide)["day"]
    assert days.size == 11
    with pytest.raises(GaplessError, match="nearest edges"):
        told_for(parse_condition("x < 0.1234"), wide)


def test_a_name_in_a_hint_is_quoted_as_it_must_be_typed():
    with pytest.raises(QuestionError) as error:
        numbers_of(SCHEMA, "marital status", None)
    assert 'proportion("marital status" == …)' in error.value.hint


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        (Number("x", bounds=(0, 10), resolution=1.0), "6.5", "multiples of 1"),
        (DateTime("x", bounds=("2020-01-01", "2021-01-01"), resolution="day"), "2020-06-01T12:00:00", "by the day"),
    ],
    ids=["number", "moment"],
)
@pytest.mark.parametrize("sign", [">=", ">", "==", "<"])
def test_a_comparison_inside_a_step_of_the_resolution_is_refused(column, value, told, sign):
    """Values are kept as multiples: an answer for something between two of them would be wrong in silence."""
    with pytest.raises(GaplessError, match=told):
        holds(column, sign, value)
