"""The text form of questions: what is read, and what an unreadable text is answered."""

import pytest

import gapless as gl
from gapless.errors import QuestionError
from gapless.query import Correlation, CrossTable, RankCorrelation, Regression, parse_question

READ = {
    "count() by sex": gl.Count(by="sex"),
    "table(sex, smoker)": CrossTable("sex", "smoker"),
    'table("marital status") where age >= 20': CrossTable("marital status", where="age >= 20"),
    "corr(age, income) by sex": Correlation("age", "income", by="sex"),
    "spearman(age, grade)": RankCorrelation("age", "grade"),
    "ols(income ~ age + sex)": Regression("income", ["age", "sex"]),
    'logit(smoker ~ age + "marital status") where sex == F': Regression(
        "smoker", ["age", "marital status"], logistic=True, where="sex == F"
    ),
}


@pytest.mark.parametrize(("text", "question"), READ.items(), ids=READ)
def test_a_text_is_read_and_printed_the_same(text, question):
    assert parse_question(text) == question
    assert str(question) == text


def test_blanks_do_not_matter():
    assert parse_question("OLS( income~age+sex )") == READ["ols(income ~ age + sex)"]


def test_relations_of_different_kinds_are_different_questions():
    assert RankCorrelation("age", "grade") != Correlation("age", "grade")
    assert Regression("smoker", ["age"]) != Regression("smoker", ["age"], logistic=True)


BAD_TEXTS = {
    "": "expected a question",
    "mode(age)": "there is no question mode()\n  Try: write one of count(), proportion(CONDITION)",
    "median(age, 0.5)": "expected ')'",
    "quantile(age)": "expected ',', found ')'\n  Try: write quantile(age, 0.9)",
    "quantile(age, much)": "the share of a quantile must be a number, got 'much'",
    "mean(age) by sex,": "expected a column",
    "mean(age) by sex, smoker where age < 20": "Try: write mean(age) where age < 20 by sex, smoker",
    "mean age": "expected '('",
    "mean()": "expected a column",
    "mean(age": "expected ')'",
    "mean(age, 1)": "expected ',', found ')'\n  Try: write mean(age, 0, 100)",
    "mean(age, a, b)": "a bound must be a number, got 'a'",
    "mean(age) where": "expected a condition",
    "mean(age) by": "expected a column",
    "mean(age) sex": "expected 'per person', 'where', 'by' or the end",
    "mean(age) by sex where age < 20": "before 'by', found 'where'\n  Try: write mean(age) where age < 20 by sex",
    "How many people are there?": "Try: write one of count(), proportion(CONDITION)",
    "how many": "Try: write one of count(), proportion(CONDITION)",
    "proportion()": "expected a condition",
    "table(sex, )": "expected a column, found ')'\n  Try: name a column, as in table(sex, smoker)",
    "table(sex, smoker, age)": "expected ')', found ','",
    "corr(age)": "expected ',', found ')'\n  Try: write corr(age, income)",
    "spearman(age; grade)": "expected ',', found ';'\n  Try: write spearman(age, income)",
    "ols(income, age)": "expected '~', found ','\n  Try: write ols(income ~ age + sex)",
    "ols(income ~ age +)": "expected a column, found ')'\n  Try: name a column, as in ols(income ~ age + sex)",
    "logit(smoker)": "expected '~', found ')'\n  Try: write logit(smoker ~ age + sex)",
    "regression(age ~ sex)": "there is no question regression()",
}


@pytest.mark.parametrize(("text", "expected"), BAD_TEXTS.items(), ids=BAD_TEXTS)
def test_refuses_unreadable_texts(text, expected):
    with pytest.raises(QuestionError) as error:
        parse_question(text)
    assert expected in str(error.value)
