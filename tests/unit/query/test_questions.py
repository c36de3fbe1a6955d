"""Questions without noise: what they measure, how they are written, what is refused before anything is spent."""

import math

import polars as pl
import pytest

import gapless as gl
from gapless.errors import GaplessError
from gapless.query import parse_question
from helpers.small_tables import ask

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


BAD = {
    "unknown column": (lambda: gl.Mean("incme"), "no column 'incme' in the schema\n  Try: use income"),
    "unknown column in where": (lambda: gl.Count(where="hour > 3"), "no column 'hour'"),
    "unknown group": (lambda: gl.Count(by="hour"), "no column 'hour'"),
    "free text": (
        lambda: gl.Count(where="notes == 'x'"),
        "is neither free text nor an identifier of people, remove it from ignore",
    ),
    "free text by": (
        lambda: gl.Count(by="notes"),
        "is neither free text nor an identifier of people, remove it from ignore",
    ),
    "free text mean": (
        lambda: gl.Mean("notes"),
        "is neither free text nor an identifier of people, remove it from ignore",
    ),
    "mean of words": (lambda: gl.Mean("sex"), "needs a column of numbers, but column 'sex' has kind categorical"),
    "mean of dates": (
        lambda: gl.Mean("born"),
        "has kind date\n  Try: ask for the share of earlier cells: Proportion(\"born < '1959-12-31'\")",
    ),
    "bounds reversed": (lambda: gl.Mean("age", bounds=(90, 10)), "must be below the second, got 90 and 10"),
    "bounds equal": (lambda: gl.Sum("age", bounds=(9, 9)), "must be below the second, got 9 and 9"),
    "bounds outside": (lambda: gl.Sum("age", bounds=(200, 300)), "count as 200"),
    "bounds too narrow": (lambda: gl.Sum("age", bounds=(5e-324, 1e-323)), "range at least"),
    "bounds no numbers": (
        lambda: gl.Sum("age", bounds=("a", "b")),
        "bounds must be two finite numbers, got ('a', 'b')",
    ),
    "bounds not finite": (lambda: gl.Sum("age", bounds=(0, math.inf)), "two finite numbers, got (0, inf)"),
    "ends exchanged": (
        lambda: gl.Count(where="age between 30 and 19"),
        "no value of column 'age' is between 30 and 19",
    ),
    "ends of words exchanged": (lambda: gl.Count(where="grade between 5 and 1"), "is between 5 and 1"),
    "a code is no value": (lambda: gl.Count(where="children == -1"), "Try: write children is not applicable"),
    "a code is no number": (lambda: gl.Count(where="children >= -1"), "a code for not applicable"),
    "always applicable": (
        lambda: gl.Count(where="age is not applicable"),
        "Try: remove the comparison: no cell of 'age' is missing",
    ),
    "a text": (lambda: "mean(income)", 'parse_question("mean(income)")'),
    "a class": (lambda: gl.Mean, "is not a question"),
    "a table": (lambda: pl.DataFrame({"income": [60]}), "a DataFrame is not a question"),
    "no condition": (lambda: gl.Proportion(" "), "a proportion needs a condition"),
    "where is no text": (lambda: gl.Count(where=3), "3 is not a condition"),
    "by is a number": (lambda: gl.Count(by=3), "must be a list of column names"),
    "by names a column twice": (lambda: gl.Count(by=["sex", "sex"]), "name each column once"),
    "by has no column": (lambda: gl.Count(by=[]), "by is an empty list"),
    "a median of words": (lambda: gl.Median("sex"), "needs a column of numbers"),
    "a median of dates": (lambda: gl.Median("born"), "needs a column of numbers"),
    "a median of a list": (lambda: gl.Median(["age"]), "column must be the name of one column"),
    "an unknown median": (lambda: gl.Median("incme"), "no column 'incme'"),
    "a median of free text": (
        lambda: gl.Median("notes"),
        "is neither free text nor an identifier of people, remove it from ignore",
    ),
    "a quantile of all": (lambda: gl.Quantile("age", 1), "q of a quantile must be above 0 and below 1, got 1"),
    "a quantile in percent": (
        lambda: gl.Quantile("age", 90),
        "Try: write 0.9 for 90 %",
    ),
    "a filled quantile": (lambda: gl.Median("income", missing=gl.HotDeck(on=["age"])), "cannot be filled"),
    "a quantile of near ones": (lambda: gl.Median("income", missing=gl.Knn(on=["age"])), "missing=Drop()"),
    "column is a list": (lambda: gl.Mean(["age"]), "column must be the name of one column"),
    "missing is a text": (lambda: gl.Count(missing="drop"), "Drop()"),
    "cells is a text": (lambda: gl.HotDeck(on="age"), "must be a list of column names"),
    "cells twice": (lambda: gl.HotDeck(on=["age", "age"]), "name each column once"),
    "limit": (lambda: gl.HotDeck(on=["age"], limit=0), "limit = 0"),
    "matched on what is filled": (
        lambda: gl.Mean("income", missing=gl.HotDeck(on=["income"])),
        "rows cannot be matched on this column",
    ),
    "unknown cells": (lambda: gl.Mean("income", missing=gl.HotDeck(on=["hour"])), "no column 'hour'"),
    "gaps and values": (
        lambda: gl.Mean("income", where="income is missing", missing=gl.HotDeck(on=["age"])),
        "tests for gaps in column 'income', but also fills these gaps to read its values",
    ),
}


@pytest.mark.parametrize(("make", "expected"), BAD.values(), ids=BAD)
def test_bad_questions_are_refused_before_anything_is_spent(make, expected, table):
    with pytest.raises(GaplessError) as error:
        table.ask(make(), spend=table.ledger.share("10%"))
    assert expected in str(error.value)
    assert not table.ledger.entries
