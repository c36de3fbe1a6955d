"""Ask several questions at once, all or none. Preview the noise of an answer before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.io.reading import unit_of
from gapless.data.private_table import check_in_memory, check_question
from gapless.data.sums import NEIGHBOR_FILLING
from gapless.errors import Argument, BudgetError, Call, Hint, QuestionError, SchemaError
from gapless.privacy import Budget, Loss, Spend
from gapless.privacy.budget import RECOMMENDED_BUDGET, share_of
from gapless.query.answers import Answer
from gapless.query.compiled import CompiledQuestion
from gapless.query.knn import Knn
from gapless.query.parsing import AnyQuestion
from gapless.query.treatments import Preview, SingleRelease, release_sums
from gapless.schema import Schema
from gapless.types import whole

WHOLE_TABLE = "as many as the schema expects in the whole table"


def ask_all(
    table: PrivateTable,
    questions: Iterable[AnyQuestion | CompiledQuestion],
    *,
    spend: Spend,
    answered: Callable[[Answer], object] | None = None,
) -> list[Answer]:
    """Answer questions, each with an equal share of `spend`.

    If each question is one release, they are one batch that is fixed in advance. As the first batch of its ledger it is
    priced by its exact total, and the guarantee for the complete data holds for the batch as a whole. If there are
    nearest neighbours or quantiles, which need several releases, the questions are asked in turn.

    Args:
        table: the sealed table.
        questions: the questions, possibly compiled for the schema of the table.
        spend: the budget for all of them together. If it is not available, nothing is asked.
        answered: called with each answer as soon as it is paid for, so that none is lost if a later one fails.

    Questions that cannot be answered, or not with this budget, are refused before anything is spent.
    """
    check_private(table, "ask_all")
    hint = Hint("pass a list, such as [", Call("Count"), ", ", Call("Mean", "income"), "]")
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError(f"ask_all takes a list of questions, not a {type(questions).__name__}", hint=hint)
    questions = tuple(questions)
    if not questions:
        raise QuestionError("ask_all needs at least one question, but the list is empty", hint=hint)
    loss = table.ledger.share(spend)
    grant = table.ledger.grant(loss, to="ask")
    share = loss / len(questions)
    notify = answered or (lambda _: None)
    asked = []
    for question in questions:
        if not isinstance(question, CompiledQuestion):
            check_question(question)
            question = question.compile(table.schema)  # noqa: PLW2901 the same question
        _preview(question, share, per_person=table.protect.at_most, filled=table.is_filled)
        asked.append(question)
    treatments = [question.question.treatment(question, filled=table.is_filled) for question in asked]
    if any(isinstance(treatment, Knn) for treatment in treatments):
        check_in_memory(table, NEIGHBOR_FILLING)  # before an earlier question is charged
    pairs = list(zip(treatments, asked, strict=True))
    fixed = [
        treatment.pending(question, table) for treatment, question in pairs if isinstance(treatment, SingleRelease)
    ]
    answers = release_sums(fixed, table, grant) if len(fixed) == len(pairs) else []
    for answer in answers:
        notify(answer)
    for treatment, question in pairs[len(answers) :]:
        answers.append(treatment.answer(question, table, table.ledger.grant(share, to="ask")))
        notify(answers[-1])
    return answers


def preview(question: AnyQuestion, schema: Schema, *, budget: Budget, spend: Spend, rows: int | None = None) -> Preview:
    """The expected noise if this share of a budget is spent. Needs only public facts and spends nothing.

    It is for a table of which `schema.rows_per_person` rows are protected, or kept of each person. With more rows there
    is more noise.

    Args:
        question: the question.
        schema: the public schema of the table.
        budget: the budget of the table.
        spend: the amount to spend: "10%" of the budget, or a loss.
        rows: the approximate number of rows that the answer, or one group of it, is about. The noise on means, shares,
            variances and quantiles depends on it. The true number is private. By default `expected_rows` of the schema;
            none if the schema names the id of persons, since that is not the number of kept rows or of persons.

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
            "pass the schema of this table, as in people.schema"
            if isinstance(schema, PrivateTable)
            else Hint("pass ", Call("Schema.read", "people.toml"))
        )
        raise SchemaError(f"schema must be a Schema, not a {type(schema).__name__}", hint=hint)
    if not isinstance(budget, Budget):
        raise BudgetError(
            f"budget must be a Budget, not {budget!r}", hint=Hint("pass ", Argument("budget", RECOMMENDED_BUDGET))
        )
    return preview_compiled(question.compile(schema), share_of(budget.capacity, spend), rows)


def preview_compiled(asked: CompiledQuestion, loss: Loss, rows: int | None = None) -> Preview:
    """The expected noise for a loss: see `preview`."""
    per_person = unit_of(asked.declared_schema).at_most
    if rows is not None:
        rows = whole("rows", rows, error=QuestionError, least=1)
        return _preview(asked, loss, per_person=per_person, rows=rows)
    expected = None if asked.declared_schema.person else asked.declared_schema.expected_rows
    shown = _preview(asked, loss, per_person=per_person, rows=expected)
    return shown if shown.rows is None else replace(shown, of=f"{shown.of}, {WHOLE_TABLE}")


def _preview(
    asked: CompiledQuestion, loss: Loss, *, per_person: int, filled: bool = False, rows: int | None = None
) -> Preview:
    """The expected noise for a loss. Refuses questions that cannot be answered, or not with this loss."""
    return asked.question.treatment(asked, filled=filled).preview(asked, loss, per_person=per_person, rows=rows)
