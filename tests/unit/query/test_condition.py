"""Conditions fitted to a schema: what they make of gaps, and which bins they split."""

import numpy as np
import pytest

from gapless import (
    Boolean,
    Categorical,
    Date,
    GaplessError,
    Integer,
    MissingCode,
    Number,
    Ordinal,
    Schema,
)
from gapless.constraints.grammar import (
    parse_condition,
)
from gapless.query.condition import compile_condition, refined_columns

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
    "notes == 'x'": "is neither free text nor an identifier of people, remove it from ignore",
    "notes is missing": "is neither free text nor an identifier of people, remove it from ignore",
    "age >= 25": "compare it by < or >= with an edge, 20 or 30, or declare edges with 25 among them",
    "age == 20": "compare it by >= 20 and by < 30 for the whole bin",
    "age == 95": "compare it by >= 90 and by <= 99 for the whole bin",
    "age between 20 and 30": "Try: write < 30: a bin includes its lower edge",
    "income > 500": "Try: write >= 500: a bin",
    "age >= old": "column 'age' is compared with 'old', which is not an integer\n  Try: write an integer",
    "income <= 500": "Try: write < 500: a bin",
    "income < 600": "with an edge, 500 or 750",
    "\"marital status\" > 'single'": "has no order",
    '"marital status" == married': "has no cell 'married'",
    "health == 'not applicable'": "which is not one of its levels",
    "born >= 1955-02": "column 'born' is compared with '1955-02'",
    "health == 'n/a'": "health is not applicable",
    "health is not applicable and age is applicable": "column 'age' cannot be not applicable",
    "smoker == maybe": "has no cell 'maybe'",
}


@pytest.mark.parametrize(("text", "expected"), REFUSED.items(), ids=REFUSED)
def test_refuses_conditions_that_do_not_fit_the_schema(text, expected):
    with pytest.raises(GaplessError) as error:
        compile_condition(parse_condition(text), SCHEMA)
    assert expected in str(error.value)
    assert error.value.hint


def test_a_column_is_cut_where_a_condition_splits_its_bins_and_not_finer():
    """Rows for which a condition has the same truth stay alike."""
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
    cells = {
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
    for text, expected in cells.items():
        found = refined_columns(parse_condition(text), wide)
        assert {name: list(column.value_cells) for name, column in found.items()} == expected
        assert wide.with_columns(found).finest.columns == wide.finest.columns
    days = refined_columns(parse_condition("day >= 2020-02-03"), wide)["day"]
    assert days.size == 11
    with pytest.raises(GaplessError, match="with an edge"):
        refined_columns(parse_condition("x < 0.1234"), wide)
