"""Several questions at once, and previews."""

import math
from dataclasses import replace

import numpy as np
import pytest

import gapless as gl
from gapless.errors import GaplessError, QuestionError
from gapless.query import ask_all, parse_question
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import ROWS, SCHEMA


def test_quantiles_and_sums_can_be_asked_together(table):
    questions = [gl.Count(), gl.Median("age"), gl.Mean("age")]
    with no_noise():
        answers = ask_all(table, questions, spend=table.ledger.share("9%"))
    assert [answer.estimate for answer in answers] == pytest.approx([6, 25, 25])
    assert table.ledger.spent.value == pytest.approx(0.09)
    assert [len(answer.entries) for answer in answers] == [1, 3, 1]


def test_too_little_budget_is_refused(table):
    with pytest.raises(gl.errors.BudgetError):
        table.ask(gl.Count(), spend=table.ledger.share("50%") * 3)
    assert not table.ledger.entries


@pytest.mark.parametrize("budget", [gl.Budget(1.0, 0), gl.Budget(1.0, 1e-6)])
@pytest.mark.parametrize("missing", [gl.Drop(), gl.HotDeck(on=["age"], limit=2)])
@pytest.mark.parametrize("text", ["count() where sex == F", "sum(income)", "count() by sex"])
def test_a_preview_gives_the_noise_of_the_answer(text, missing, budget, tmp_path):
    question = parse_question(text, missing)
    table = private(ROWS, SCHEMA, tmp_path, budget=budget)
    expected = gl.query.preview(question, SCHEMA, budget=budget, spend="20%")
    answer = table.ask(question, spend=table.ledger.share("20%"))
    assert expected.noise_std == pytest.approx(answer.noise_std)
    assert expected.of == "the answer"


def test_a_preview_of_a_mean_is_times_the_number_of_rows():
    shown = gl.query.preview(gl.Mean("children"), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%")
    assert str(shown).endswith(", on the answer times the number of rows behind it")
    assert (shown.depends_on_rows, shown.rows) == (True, None)
    assert shown.noise_std == pytest.approx(math.sqrt(2) * 4, rel=1e-2)
    assert shown.to_dict()["question"] == "mean(children)"
    with pytest.raises(gl.errors.BudgetError):
        gl.query.preview(gl.Mean("children"), SCHEMA, budget=gl.Budget(1.0, 0), spend="0%")


FOR_ROWS = {
    "mean(children)": "at most ± 0.012 (95 %), noise std at most 0.005642, on an answer about 1,000 rows",
    "mean(children, 0, 2) by sex": "at most ± 0.006 (95 %), noise std at most 0.002799, on an answer about 1,000 rows",
    "proportion(smoker == true)": "at most ± 0.003 (95 %), noise std at most 0.001357, on an answer about 1,000 rows",
    "median(age)": "± 15.2 (95 %), on the rank of the answer, in rows: with 1,000 rows the answer is between the "
    "48.5 % and the 51.5 % quantile",
    "count() where sex == F": "± 3 (95 %), noise std 1.357, on the answer",
    "sum(income)": "± 300 (95 %), noise std 141.4, on the answer",
}


@pytest.mark.parametrize(("text", "expected"), FOR_ROWS.items(), ids=FOR_ROWS)
def test_a_preview_is_in_the_unit_of_the_answer_for_a_stated_number_of_rows(text, expected):
    shown = gl.query.preview(parse_question(text), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%", rows=1000)
    assert str(shown) == f"{text}: {expected}"
    assert shown.rows == (1000 if "1,000" in expected else None)
    single = gl.query.preview(parse_question(text), SCHEMA, budget=gl.Budget(1.0, 0), spend="100%", rows=1)
    assert "1,000" not in str(single)
    assert " 1 rows" not in str(single)


def test_the_rows_of_a_preview_are_stated_or_those_that_the_schema_expects():
    expecting = replace(SCHEMA, expected_rows=1000)
    mean, shown = gl.Mean("children"), {"budget": gl.Budget(1.0, 0), "spend": "100%"}
    assumed = gl.query.preview(mean, expecting, **shown)
    assert (assumed.rows, assumed.noise_limit) == (1000, gl.query.preview(mean, SCHEMA, rows=1000, **shown).noise_limit)
    assert str(assumed).endswith("an answer about 1,000 rows, as many as the schema expects in the whole table")
    assert "expects" not in str(gl.query.preview(mean, expecting, rows=500, **shown))
    assert "expects" not in str(gl.query.preview(gl.Count(), expecting, **shown))
    for wrong in (0, -3, 2.5, True, "many"):
        with pytest.raises(QuestionError, match=r"rows = .*\n  Try: pass a whole number of at least 1"):
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
        width = question.compile(SCHEMA).estimand.width
        std = gl.query.preview(gl.Count(), SCHEMA, budget=budget, spend="20%").noise_std
        draw = rng.normal if budget.delta else lambda _, s, size: rng.laplace(0, s / math.sqrt(2), size)
        values = np.array({2: [share, 1 - share], 3: [share, 0.0, 1 - share]}[width]) * n
        parts = values + draw(0, std, (200_000, width))
        true = question.compile(SCHEMA).estimand.estimate(values)
        found = np.clip(parts[:, 0] / np.maximum(1, parts.sum(axis=1)), 0, 1)
        if width == 3:
            rows = np.maximum(2, parts.sum(axis=1))
            found = np.clip((parts[:, 0] - parts[:, :2].sum(axis=1) ** 2 / rows) / (rows - 1), 0, 0.5)
        within.append(np.mean(np.abs(found - true) <= shown.noise_limit))
    assert min(within) >= 0.95


def test_refuses_a_preview_of_other_objects(table):
    for arguments, budget, expected in (
        (("count()", SCHEMA), gl.Budget(1.0, 0), "parse_question"),
        ((gl.Count(), "people.toml"), gl.Budget(1.0, 0), "Schema.read"),
        ((gl.Count(), table), gl.Budget(1.0, 0), "people.schema"),
        ((gl.Count(), SCHEMA), 1.0, "Budget(epsilon=1.0, delta=1e-6)"),
    ):
        with pytest.raises(GaplessError) as error:
            gl.query.preview(*arguments, budget=budget, spend="10%")
        assert expected in str(error.value)
