"""Several questions at once: all of them can be answered and paid for, or none is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.private_table import check_question
from gapless.errors import QuestionError
from gapless.privacy import Loss
from gapless.query.answers import Answer
from gapless.query.preview import look_ahead
from gapless.query.questions import AnyQuestion


def ask_all(
    table: PrivateTable,
    questions: Iterable[AnyQuestion],
    *,
    spend: Loss,
    answered: Callable[[Answer], object] | None = None,
) -> list[Answer]:
    """Answer questions in turn, each with an even share of `spend`; they compose as if asked one by one.

    Args:
        table: the sealed table.
        questions: one after the other, as given.
        spend: for all of them together; it must be there, or nothing is asked.
        answered: called with each answer as soon as it is paid for, so that none is lost if a later one fails.

    What cannot be answered, or not with so little, is told before anything is spent.
    """
    check_private(table, "ask_all")
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise QuestionError("ask_all takes a list of questions", hint='[Count(), Mean("income")]')
    questions = tuple(questions)
    if not questions:
        raise QuestionError("no question", hint='[Count(), Mean("income")]')
    table.ledger.grant(spend, to="ask")
    share = spend / len(questions)
    protected = replace(table.schema, rows_per_person=table.protect.at_most)
    for question in questions:
        check_question(question)
        look_ahead(question, protected, share, filled=table.filled)
    answers = []
    for question in questions:
        answers.append(table.ask(question, spend=share))
        if answered is not None:
            answered(answers[-1])
    return answers
