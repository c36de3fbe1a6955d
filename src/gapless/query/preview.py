"""How noisy an answer will be, before anything is spent."""

from __future__ import annotations

from gapless.data import PrivateTable
from gapless.data.private_table import check_question
from gapless.errors import BudgetError, SchemaError
from gapless.privacy import Budget, Loss
from gapless.privacy.budget import check_percent
from gapless.query.questions import AnyQuestion
from gapless.query.treatments import Preview
from gapless.schema import Schema


def preview(question: AnyQuestion, schema: Schema, *, budget: Budget, percent: float) -> Preview:
    """The noise to expect if this share of a budget is spent: public facts alone, no table, nothing spent.

    For a table read with `protect=Rows(schema.rows_per_person)`; with more rows there is more noise.

    >>> from gapless.query import Count
    >>> from gapless.schema import Integer
    >>> people = Schema("people", [Integer("age", bounds=(0, 99))])
    >>> print(preview(Count(where="age < 50"), people, budget=Budget(1.0), percent=10))
    count() where age < 50: noise std 14.14 on the answer
    """
    check_percent(percent)
    check_question(question)
    if not isinstance(schema, Schema):
        hint = "people.schema" if isinstance(schema, PrivateTable) else 'Schema.read("people.toml")'
        raise SchemaError(f"schema is a {type(schema).__name__}", hint=hint)
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget is {budget!r}", hint="budget=Budget(epsilon=1.0), or people.ledger.budget")
    return look_ahead(question, schema, budget.capacity * (percent / 100))


def look_ahead(question: AnyQuestion, schema: Schema, loss: Loss, *, filled: bool = False) -> Preview:
    """The noise to expect for a loss; refuses what cannot be answered, or not with so little."""
    return question.treatment(schema, filled=filled).preview(question.compile(schema), schema, loss)
