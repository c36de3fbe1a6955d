"""How noisy an answer will be, before anything is spent."""

from __future__ import annotations

from dataclasses import replace

from gapless.data import PrivateTable
from gapless.data.private_table import check_question
from gapless.errors import Argument, BudgetError, Call, Hint, QuestionError, SchemaError
from gapless.privacy import Budget, Loss, Spend
from gapless.privacy.budget import USUAL, share_of
from gapless.query.questions import AnyQuestion
from gapless.query.treatments import Preview
from gapless.schema import Schema
from gapless.types import whole

WHOLE_TABLE = "as many as the schema expects in the whole table"


def preview(question: AnyQuestion, schema: Schema, *, budget: Budget, spend: Spend, rows: int | None = None) -> Preview:
    """The noise to expect if this share of a budget is spent: public facts alone, no table, nothing spent.

    For a table read with `protect=Rows(schema.rows_per_person)`; with more rows there is more noise.

    Args:
        question: the question.
        schema: what is publicly known of the table.
        budget: the promise for the table.
        spend: what would be spent: "10%" of the budget, or a loss.
        rows: about how many rows the answer is, or one group of it: the noise on means, shares, variances and quantiles
            depends on it. The true number is private, so it has to be stated; by default `expected_rows` of the schema.

    >>> from gapless.query import Count, Mean
    >>> from gapless.schema import Integer
    >>> people = Schema("people", [Integer("age", bounds=(0, 99))])
    >>> print(preview(Count(where="age < 50"), people, budget=Budget(1.0, 0), spend="10%"))
    count() where age < 50: ± 30 (95 %), noise std 14.14, on the answer
    >>> print(preview(Mean("age"), people, budget=Budget(1.0, 0), spend="10%", rows=3000))
    mean(age): at most ± 0.9887 (95 %), noise std at most 0.4667, on an answer about 3,000 rows
    """
    check_question(question)
    if not isinstance(schema, Schema):
        hint = (
            "pass people.schema"
            if isinstance(schema, PrivateTable)
            else Hint("pass ", Call("Schema.read", "people.toml"))
        )
        raise SchemaError(f"schema is a {type(schema).__name__}", hint=hint)
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget is {budget!r}", hint=Hint("pass ", Argument("budget", USUAL)))
    loss = share_of(budget.capacity, spend)
    if rows is not None:
        return look_ahead(question, schema, loss, rows=whole("rows", rows, error=QuestionError, least=1))
    shown = look_ahead(question, schema, loss, rows=schema.expected_rows)
    return shown if shown.rows is None else replace(shown, of=f"{shown.of}, {WHOLE_TABLE}")


def look_ahead(
    question: AnyQuestion, schema: Schema, loss: Loss, *, filled: bool = False, rows: int | None = None
) -> Preview:
    """The noise to expect for a loss; refuses what cannot be answered, or not with so little."""
    return question.treatment(schema, filled=filled).preview(question.compile(schema), schema, loss, rows)
