"""Several questions at once: all of them can be answered and paid for, or none is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.private_table import check_held, check_question
from gapless.data.sums import FILLING
from gapless.errors import Call, Hint, QuestionError
from gapless.privacy import Spend
from gapless.query.answers import Answer
from gapless.query.knn import Knn
from gapless.query.preview import look_ahead
from gapless.query.questions import AnyQuestion
from gapless.query.treatments import InOneRelease, release_sums


def ask_all(
    table: PrivateTable,
    questions: Iterable[AnyQuestion],
    *,
    spend: Spend,
    answered: Callable[[Answer], object] | None = None,
) -> list[Answer]:
    """Answer questions, each with an even share of `spend`.

    If each is one release they are one batch, fixed in advance: as the first of its ledger it is priced by its exact
    total, and what is promised to the people behind the gaps holds for it as a whole. With nearest neighbours or
    quantiles, which take several releases, they are asked in turn.

    Args:
        table: the sealed table.
        questions: one after the other, as given.
        spend: for all of them together; it must be there, or nothing is asked.
        answered: called with each answer as soon as it is paid for, so that none is lost if a later one fails.

    What cannot be answered, or not with so little, is told before anything is spent.
    """
    check_private(table, "ask_all")
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError(
            "ask_all takes a list of questions",
            hint=Hint("pass a list, such as [", Call("Count"), ", ", Call("Mean", "income"), "]"),
        )
    questions = tuple(questions)
    if not questions:
        raise QuestionError(
            "no question", hint=Hint("pass a list, such as [", Call("Count"), ", ", Call("Mean", "income"), "]")
        )
    loss = table.ledger.share(spend)
    grant = table.ledger.grant(loss, to="ask")
    share = loss / len(questions)
    protected = replace(table.schema, rows_per_person=table.protect.at_most)
    told = answered or (lambda _: None)
    for question in questions:
        check_question(question)
        look_ahead(question, protected, share, filled=table.filled)
    treatments = [question.treatment(table.schema, filled=table.filled) for question in questions]
    if any(isinstance(treatment, Knn) for treatment in treatments):
        check_held(table, FILLING)  # now, before a question that comes first is charged
    fixed = [
        treatment.sums(question, table)
        for treatment, question in zip(treatments, questions, strict=True)
        if isinstance(treatment, InOneRelease)
    ]
    answers = release_sums(fixed, table, grant) if len(fixed) == len(questions) else []
    for answer in answers:
        told(answer)
    for question in questions[len(answers) :]:
        answers.append(table.ask(question, spend=share))
        told(answers[-1])
    return answers
