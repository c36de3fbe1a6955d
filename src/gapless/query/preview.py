"""How noisy an answer will be, before anything is spent."""

from __future__ import annotations

from gapless.arguments import is_number
from gapless.data import PrivateTable
from gapless.data.private_table import check_question
from gapless.errors import BudgetError, SchemaError
from gapless.privacy import Budget
from gapless.query.questions import Count, Mean, Proportion, Sum, Variance
from gapless.query.treatments import Drop, Preview
from gapless.schema import Schema


def preview(
    question: Count | Proportion | Sum | Mean | Variance, schema: Schema, *, budget: Budget, percent: float
) -> Preview:
    """The noise to expect if this share of a budget is spent: public facts alone, no table, nothing spent.

    For a table read with `protect=Rows(schema.rows_per_person)`; with more rows there is more noise.

    >>> from gapless.schema import Integer
    >>> people = Schema("people", [Integer("age", bounds=(0, 99))])
    >>> print(preview(Count(where="age < 50"), people, budget=Budget(1.0), percent=10))
    count() where age < 50: noise std 14.14 on the answer
    """
    if not (is_number(percent) and 0 < percent <= 100):
        raise BudgetError(f"{percent!r} percent of the budget", hint="a number above 0 and up to 100")
    check_question(question)
    if not isinstance(schema, Schema):
        hint = "people.schema" if isinstance(schema, PrivateTable) else 'Schema.read("people.toml")'
        raise SchemaError(f"schema is a {type(schema).__name__}", hint=hint)
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget is {budget!r}", hint="budget=Budget(epsilon=1.0), or people.ledger.budget")
    asked = question.compile(schema)
    missing = question.missing if asked.targets else Drop()
    return missing.preview(asked, schema, budget.capacity * (percent / 100))
