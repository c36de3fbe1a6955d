"""Relations between columns: cross tables of a private table, and what is refused before anything is spent."""

import pytest

import gapless as gl
from gapless.errors import GaplessError
from gapless.query import Correlation, CrossTable, RankCorrelation, Regression, ask_all, parse_question
from gapless.testing.noise import no_noise
from helpers.small_tables import ask

TABLES = {
    "table(sex, smoker)": {("F", "false"): 0, ("F", "true"): 2, ("M", "false"): 1, ("M", "true"): 1},
    "table(smoker)": {"false": 3, "true": 3},
    "table(smoker, sex) where age >= 20": {
        ("false", "F"): 0,
        ("false", "M"): 0,
        ("true", "F"): 1,
        ("true", "M"): 1,
    },
}


@pytest.mark.parametrize(("text", "counts"), TABLES.items(), ids=TABLES)
def test_a_cross_table_counts_the_rows_of_every_cell(text, counts, table):
    answer = ask(table, text)
    assert answer.estimate == counts
    assert len(table.ledger.entries) == 1
    assert all(low <= counts[key] <= high for key, (low, high) in answer.interval.items())


def test_a_cross_table_has_the_price_of_a_count(table):
    """All cells are one release at distance 1: the same entry as that of one count, with the same noise."""
    for question in (gl.Count(), CrossTable("sex", "smoker")):
        ask(table, question)
    count, cells = table.ledger.entries
    assert (cells.loss, cells.distance) == (count.loss, count.distance)


def test_a_cross_table_joins_the_batch(table):
    with no_noise():
        answers = ask_all(table, [gl.Count(), CrossTable("sex", "smoker")], spend=table.ledger.share("10%"))
    assert [answer.entries for answer in answers] == [(1,), (2,)]
    assert answers[1].estimate["F", "true"] == 2


def test_gaps_of_a_cross_table_are_left_out_or_filled(table):
    assert "Rows with a gap in sex are left out; each number counts rows." in str(ask(table, "table(sex, smoker)"))
    filled = ask(table, CrossTable("sex", "smoker", missing=gl.HotDeck(on=["grade"])))
    assert sum(filled.estimate.values()) > sum(ask(table, "table(sex, smoker)").estimate.values())


def test_a_deck_answers_cross_tables(table):
    with no_noise():
        deck = gl.HotDeck(on=["grade"]).release(table, ["sex", "smoker"], spend=table.ledger.share("10%"))
    answer = deck.ask(CrossTable("sex", "smoker"))
    assert answer.interval is None
    assert str(answer).splitlines()[1].split() == ["false", "true"]


def test_a_cross_table_prints_two_ways(table):
    answer = ask(table, "table(sex, smoker)")
    head, columns, first, second, *_ = str(answer).splitlines()
    assert head == "table(sex, smoker)"
    assert columns.split() == ["false", "true"]
    assert (first.split()[:2], second.split()[:2]) == (["F", "0"], ["M", "1"])
    assert str(ask(table, "table(smoker)")).splitlines()[1].startswith("  false  3")


BAD = {
    "a table by": (lambda: CrossTable("sex", "smoker", by="age"), "a cross table has no groups, got by='age'\n"),
    "a table of itself": (lambda: CrossTable("sex", "sex"), "needs two different columns, got 'sex' twice"),
    "a table of a list": (lambda: CrossTable(["sex"]), "column must be the name of one column, got ['sex']"),
    "a table of an unknown column": (lambda: CrossTable("sex", "hour"), "no column 'hour' in the schema"),
    "a correlation": (
        lambda: Correlation("age", "income"),
        "private rows do not answer corr(age, income), which a release answers without cost\n"
        "  Try: use a release: run gapless estimate release/ 'corr(age, income)'",
    ),
    "a rank correlation": (lambda: RankCorrelation("age", "born"), "do not answer spearman(age, born)"),
    "a linear regression": (lambda: Regression("income", ["age", "sex"]), "do not answer ols(income ~ age + sex)"),
    "a logistic regression": (
        lambda: Regression("smoker", ["age"], logistic=True),
        "not answer logit(smoker ~ age)",
    ),
    "a correlation of words": (lambda: Correlation("age", "sex"), "column 'sex' has kind categorical"),
    "ranks of words": (
        lambda: RankCorrelation("age", "sex"),
        "a rank correlation needs cells with an order, but column 'sex' has kind categorical\n"
        "  Try: write kind = \"ordinal\" for 'sex' in the schema",
    ),
    "no regressors": (
        lambda: Regression("income", []),
        "a regression of 'income' needs other columns",
    ),
    "the outcome on itself": (lambda: Regression("income", ["income"]), "needs other columns as regressors"),
    "a regressor twice": (lambda: Regression("income", ["age", "age"]), "regressors names column 'age' twice"),
    "regressors as a text": (
        lambda: Regression("income", "age"),
        "must be a list of column names, got 'age'",
    ),
    "a regression by": (lambda: Regression("income", ["age"], by="sex"), "a regression has no groups, got by='sex'"),
    "a regression of words": (lambda: Regression("sex", ["age"]), "needs a column of numbers, but column 'sex'"),
    "a regression on dates": (lambda: Regression("income", ["born"]), "needs a column of numbers, but column 'born'"),
    "log odds of a number": (
        lambda: Regression("income", ["age"], logistic=True),
        "the outcome of a logistic regression must have two levels, but column 'income' has 201\n"
        "  Try: choose a column with two levels, or write ols in place of logit for a column of numbers",
    ),
}


@pytest.mark.parametrize(("make", "expected"), BAD.values(), ids=BAD)
def test_bad_relations_are_refused_before_anything_is_spent(make, expected, table):
    with pytest.raises(GaplessError) as error:
        table.ask([gl.Count(), make()], spend=table.ledger.share("10%"))
    assert expected in str(error.value)
    assert not table.ledger.entries


def test_too_many_levels_for_dummy_variables_are_refused():
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 9)), gl.Categorical("town", [str(i) for i in range(101)])])
    with pytest.raises(GaplessError, match="a regressor may have at most 100 levels, but column 'town' has 101"):
        parse_question("ols(x ~ town)").compile(schema)
