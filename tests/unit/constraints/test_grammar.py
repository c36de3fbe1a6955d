"""The language of conditions and rules: what it reads and what it refuses."""

import pytest

from gapless.constraints.grammar import (
    Always,
    And,
    ColumnComparison,
    Comparison,
    IsMissing,
    Not,
    Or,
    gap_columns,
    parse_condition,
    parse_rule,
    required_columns,
    value_columns,
)
from gapless.errors import QuestionError, SchemaError

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
    "age = 20": "Try: write == to compare",
    "age >= 20 and": "expected a column",
    "age >= 20 children == 2": "expected 'and', 'or' or no more text, found 'children'",
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
    "(" * 60 + "age >= 20" + ")" * 60: "more than 50 nested parentheses",
    "age >= 20 or " * 2000: "more than 10000 characters",
}


@pytest.mark.parametrize(("text", "expected"), UNREADABLE.items(), ids=range(len(UNREADABLE)))
def test_unreadable_conditions_are_refused_with_their_position(text, expected):
    with pytest.raises(QuestionError) as error:
        parse_condition(text)
    assert expected in str(error.value)


def test_columns_read_and_columns_required():
    condition = parse_condition("age >= 20 and (children == 2 or income < 500) and not born is missing")
    assert value_columns(condition) == {"age", "children", "income"}
    assert gap_columns(condition) == {"born"}
    assert required_columns(condition) == {"age", "born"}
    assert required_columns(condition, truth=False) == set()
    assert required_columns(parse_condition("not (age >= 20 or children == 2)")) == {"age", "children"}
    assert required_columns(parse_condition("children is missing")) == set()


RULES = {
    "t1.age < 15 and t2.age >= 40": [Comparison("age", "<", "15"), Comparison("age", ">=", "40", 1)],
    't1."odd name" == t2.zip-code': [ColumnComparison("odd name", "==", "zip-code", 0, 1)],
    "t1.pay == <=50K": [Comparison("pay", "==", "<=50K")],
    "t1.q == don't know and t1.r != 'x'": [Comparison("q", "==", "don't know"), Comparison("r", "!=", "x")],
    "t1.q == 1) yes and t2.q == MINING AND QUARRYING": [
        Comparison("q", "==", "1) yes"),
        Comparison("q", "==", "MINING AND QUARRYING", 1),
    ],
    "t1.q == 'bread and butter'": [Comparison("q", "==", "bread and butter")],
    't1 & t2 & IQ(t1.odd name, t2."a, b") & LTE(t2.x,"(1), yes")': [
        ColumnComparison("odd name", "!=", "a, b", 0, 1),
        Comparison("x", "<=", "(1), yes", 1),
    ],
}


@pytest.mark.parametrize(("text", "comparisons"), RULES.items(), ids=RULES)
def test_rules_are_read(text, comparisons):
    assert parse_rule(text) == comparisons


@pytest.mark.parametrize(
    "text",
    [
        *("", "t1.age", "t1.age <", "age < 15", "t3.age < 15", "t1.age = 15", "t1.age in (1, 2)", "not t1.age < 15"),
        *("(t1.age < 15)", "t1.a.b < 15", "t1.age is missing", "15 > t1.age"),
        *("t1 &", "t1 & t2", "t1 & SIM(t1.a, t2.a)", "t1 & EQ(t1.a, t2.a) LT(t1.b, 3)", "t1 & EQ(t1.a (x), 3)"),
        *("t1 & EQ(t1.a)", "t1 & EQ(t1.a, 'x'y)", "t1 & EQ(t1.a, 3) and t1.b < 3", "t1 & eq(t1.a, 3)"),
    ],
)
def test_refuses_texts_that_are_not_rules(text):
    with pytest.raises(SchemaError, match="cannot be read"):
        parse_rule(text)


@pytest.mark.parametrize("joined", ["or", "OR", "|", "||"])
def test_a_rule_has_no_or(joined):
    with pytest.raises(SchemaError, match=r"has '.*', but comparisons can only be joined by and\n  Try: write two"):
        parse_rule(f"t1.age < 15 {joined} t1.sex == 'F'")


@pytest.mark.parametrize("joined", ["&", "AND", ",", "and not"])
def test_comparisons_of_a_rule_are_joined_by_and_alone(joined):
    with pytest.raises(SchemaError, match=r"cannot be read\n  Try: write t1\. before each column"):
        parse_rule(f"t1.age < 15 {joined} t1.sex == 'F'")
    assert len(parse_rule(f"t1.q == 'x {joined} t1.y' and t1.sex == 'F'")) == 2
