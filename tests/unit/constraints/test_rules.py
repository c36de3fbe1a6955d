"""Rules fitted to a schema: what they compare, what is refused."""

import pytest

import gapless as gl
from gapless.constraints.forbidden import constraints_of, soft_rules_of
from gapless.constraints.rules import ColumnRef, Term, merge_terms, parse_constraint, rules_of
from gapless.schema import Constraint

SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("education", ["low", "high"]),
        gl.Integer("education_num", bounds=(1, 16), bins=16),
        gl.Integer("age", bounds=(0, 99), edges=(0, 15, 40, 99)),
        gl.Integer("years", bounds=(0, 99), bins=5),
        gl.Ordinal("school", ["none", "low", "high"]),
        gl.Ordinal("fathers school", ["none", "low", "high"]),
        gl.Date("born", bounds=("1900-01-01", "1999-12-31"), resolution="year"),
        gl.Date("moved", bounds=("1900-01-01", "1999-12-31"), resolution="month"),
        gl.Boolean("married"),
    ],
)


READABLE = "t1.education == t2.education and t1.education_num != t2.education_num"


SHORT = "t1&t2&EQ(t1.education,t2.education)&IQ(t1.education_num,t2.education_num)"


def rule(text, weight=None):
    return parse_constraint(Constraint(text, weight=weight), SCHEMA)


def test_both_forms_give_the_same_terms():
    assert rule(READABLE).terms == rule(SHORT).terms
    assert rule(SHORT).terms == (
        Term(ColumnRef(0, 0), "==", ColumnRef(1, 0)),
        Term(ColumnRef(0, 1), "!=", ColumnRef(1, 1)),
    )


@pytest.mark.parametrize(
    ("short", "readable"),
    [
        ('t1&LT(t1.age,"15")&EQ(t1.married,"true")', "t1.age < 15 and t1.married == 'true'"),
        ("t1&t2&GTE(t1.age,40)&LTE(t1.years,t2.years)", "t1.age >= 40 and t1.years <= t2.years"),
        ('t1&t2&GT(t1.fathers school,t2."fathers school")', 't1."fathers school" > t2."fathers school"'),
        ("t1 & t2 & EQ(t2.age , t1.years)", "t1.years == t2.age"),
    ],
)
def test_comparisons_of_the_short_form(short, readable):
    assert rule(short).terms == rule(readable).terms


def test_the_first_row_stands_on_the_left_and_one_row_is_the_first():
    assert rule("t2.age > t1.years").terms == rule("t1.years < t2.age").terms
    alone = rule("t2.age < 15 and t2.years > t2.age")
    assert not alone.is_between_rows
    assert alone.terms == rule("t1.age < 15 and t1.years > t1.age").terms


def test_two_orders_at_once_are_never_or_one_comparison():
    strict, weak = rule("t1.age < t2.age and t1.years > t2.years"), rule("t1.age <= t2.age")
    assert merge_terms((*strict.terms, *strict.swapped)) is None
    assert merge_terms((*weak.terms, *weak.swapped)) == rule("t1.age == t2.age").terms
    assert rule(READABLE).is_symmetric
    assert not strict.is_symmetric


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("t1&t2", "cannot be read"),
        ("t1&t2&SIM(t1.age,t2.age)", "cannot be read"),
        ("t1&t2&EQ(t1.age,t2.age)LT(t1.years,t2.years)", "cannot be read"),
        ("t3.age < 15", "cannot be read"),
        ("t1.age < t2.agee", "no column 'agee'"),
        ("t1&t2&EQ(t1.agee,t2.age)", "no column 'agee'"),
        ("t2.age < 20 and t1.age == t2.age", "splits a bin"),
        ("t1.education < t2.education", "column 'education' has no order"),
        ("t1.school > t2.education", "column 'education' has no order"),
        ("t1.education == t2.school", "columns 'education' and 'school' cannot be compared"),
        ("t1.age == t2.school", "columns 'age' and 'school' cannot be compared"),
        ("t1.born < t1.moved", "columns 'born' and 'moved' cannot be compared"),
        ("t1.born < t1.age", "columns 'born' and 'age' cannot be compared"),
    ],
)
def test_refuses_columns_that_cannot_be_compared(text, wrong):
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        rule(text)


@pytest.mark.parametrize("weight", [0, -1, True, "often", float("inf"), float("nan")])
def test_weights_are_numbers_above_zero_or_learned(weight):
    with pytest.raises(
        gl.errors.SchemaError,
        match=r"must be a number above 0 or \"learned\", got .*\n  Try: write weight = \"learned\"",
    ):
        Constraint(READABLE, weight=weight)


def test_a_weight_is_for_rules_between_rows():
    with pytest.raises(gl.errors.SchemaError, match="is about one row and has a weight"):
        rule("t1.age < 15 and t1.married == 'true'", weight=2.0)


def test_weights_go_through_a_file():
    rules = [Constraint(READABLE, "decides", 2.5), Constraint(SHORT, weight="learned"), Constraint("t1.age < 15")]
    schema = gl.Schema("p", SCHEMA.columns, constraints=rules)
    assert gl.Schema.from_toml(schema.to_toml()) == schema
    assert [soft.rule.weight for soft in soft_rules_of(schema)] == [2.5, "learned"]
    assert constraints_of(schema)[1:] == ([], [])


def test_rules_of_a_schema_keep_their_order():
    schema = gl.Schema("p", SCHEMA.columns, constraints=[Constraint(SHORT), Constraint("t1.age < 15")])
    assert [rule.text for rule in rules_of(schema)] == [SHORT, "t1.age < 15"]
