"""What the entry in a registry needs and software cannot know: questions, and the file in which the holder answers.

An answer that breaks a rule of the registry is refused with the name of its field. Nothing is guessed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gapless.errors import ReadError, SchemaError
from gapless.schema import toml
from gapless.text import listing, nearest

Answers: TypeAlias = dict[str, Any]

ONE_LINE, TEXT, NAMES, DATE = "one line", "text", "names", "date"


@dataclass(frozen=True, slots=True)
class Question:
    """A field of the registry that the holder answers.

    Attributes:
        field: the name of the field, as the registry has it.
        section: the part of the deployment that has the field.
        text: the question.
        why: why a reader of the registry needs the answer.
        tier: the lowest tier of the registry that asks for it.
        is_required: whether an entry without this answer is not valid.
        form: the form of an answer: one line, text, names or a date.
        choices: the allowed answers; any text if there are none.
    """

    field: str
    section: str
    text: str
    why: str
    tier: int = 3
    is_required: bool = False
    form: str = TEXT
    choices: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The path of the field in the entry."""
        return f"deployment.{self.section}.{self.field}"

    @property
    def rule(self) -> str:
        """The rule for an answer, in words."""
        if self.choices:
            return f"one of: {listing(self.choices)}"
        return {
            ONE_LINE: "a text on one line",
            TEXT: "a text",
            NAMES: 'a list of at least one text, such as ["Ministry of Health"]',
            DATE: "a date as YYYY-MM-DD",
        }[self.form]

    @property
    def example(self) -> str:
        """An answer of the right form, for a hint."""
        if self.choices:
            return f'"{self.choices[0]}"'
        return {NAMES: '["Ministry of Health"]', DATE: '"2026-01-31"'}.get(self.form, '"…"')


SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")

QUESTIONS = (
    Question("name", "basic", "What is the data product called?", "Readers search for this name.", 1, True, ONE_LINE),
    Question(
        "data_curators",
        "basic",
        "Who publishes it? List the organizations.",
        "Readers must know who is responsible.",
        1,
        True,
        NAMES,
    ),
    Question(
        "intended_use",
        "basic",
        "For what are the rows meant to be used?",
        "Other uses may need another release.",
        1,
        True,
    ),
    Question(
        "data_product_region",
        "basic",
        "Which region do the data describe, or whose laws apply?",
        "The region decides which rules apply.",
        1,
        True,
        ONE_LINE,
    ),
    Question(
        "publication_date",
        "basic",
        "When was or will it be published? Write 01 for an unknown day or month.",
        "The ledger knows when releases were paid for, not when they were published.",
        1,
        True,
        DATE,
    ),
    Question(
        "registry_authors",
        "administrative",
        "Who fills in this entry? List names.",
        "The registry asks them if something is unclear.",
        1,
        True,
        NAMES,
    ),
    Question(
        "data_product_sector",
        "basic",
        "Which sector do the data describe? Leave it empty if none fits.",
        "Readers look for similar data.",
        1,
        choices=SECTORS,
    ),
    Question(
        "sources",
        "administrative",
        "Where can readers find the data product, and more about it? Give links.",
        "An entry without links cannot be checked.",
        1,
    ),
    Question(
        "release_type",
        "deployment_model",
        "Is this the only release of this data product, or one of many?",
        "The ledger knows past releases, not your plans.",
        2,
        choices=("One release", "Many releases"),
    ),
    Question(
        "data_source_type",
        "deployment_model",
        "Are new data added over time (Dynamic) or not (Static)?",
        "People whose data are added each year need a promise that covers all years.",
        2,
        choices=("Static", "Dynamic"),
    ),
    Question(
        "release_type_details",
        "deployment_model",
        "Will the same data be used or published again? If so: when, and is there a limit on the total privacy loss?",
        "Other ledgers, and later releases, add to the privacy loss.",
    ),
    Question(
        "actors",
        "deployment_model",
        "Who can see the data, the budget and the release? Why are they trusted, or not?",
        "The promise does not protect against those who can see the data.",
    ),
    Question(
        "preprocessing_and_hyperparameter_tuning",
        "implementation",
        "Was the table looked at or cleaned, or used to choose ε, the method or the schema? Was that accounted for?",
        "A choice made by looking at the data is a release without noise.",
    ),
    Question(
        "mechanisms",
        "implementation",
        "How are the data kept safe, and who has access? (gapless fills in what it did.)",
        "gapless does not see the security of the machine.",
    ),
    Question(
        "justification",
        "implementation",
        "Why this ε, this δ, this unit of privacy and this method? How was that tested?",
        "Readers judge whether the choices suit the data.",
    ),
)
BY_FIELD = {question.field: question for question in QUESTIONS}


def questions_toml() -> str:
    """Return the file with all questions, for the holder to answer."""
    lines = [
        "# Questions for an entry in the OpenDP deployments registry. Software cannot know these answers.",
        "# Write them between the quotes or brackets, and run: gapless archive RELEASE --answers THIS_FILE",
        "# Leave open what you cannot answer. The entry is valid once all required questions have an answer.",
        "",
    ]
    for question in QUESTIONS:
        empty = "[]" if question.form == NAMES else '""'
        need = "required" if question.is_required else f"for tier {question.tier}" * (question.tier > 1) or "optional"
        lines += [
            f"# {question.text} ({need})",
            f"# Why: {question.why}",
            f"# Write {question.rule}.",
            f"{question.field} = {empty}",
            "",
        ]
    return "\n".join(lines)


def read_answers(path: Path) -> Answers:
    """Read and check the answers of the holder. Empty answers are left out.

    Raises:
        ReadError: The file cannot be read.
        SchemaError: An answer breaks the rule of its field, or there is no such field.
    """
    try:
        content = toml.read(path)
    except ReadError as error:
        hint = "pass the path of the questions that gapless archive wrote, with your answers"
        raise ReadError(error.message, hint=hint) from None
    return check_answers(content)


def check_answers(content: Mapping[str, Any]) -> Answers:
    """Check answers, and return those that are not empty.

    >>> check_answers({"release_type": "One release", "name": ""})
    {'release_type': 'One release'}
    """
    answers: Answers = {}
    for field, value in content.items():
        if field not in BY_FIELD:
            raise SchemaError(
                f"the answers have an unknown field {field!r}", hint=f"use {nearest(str(field), BY_FIELD)}"
            )
        question = BY_FIELD[field]
        answer = _checked(question, value)
        if answer:
            answers[field] = answer
    return answers


def _checked(question: Question, value: Any) -> Any:
    """Return an answer, trimmed, if it follows the rule of its field."""
    wrong = f"the answer {question.field} must be {question.rule}, got {value!r}"
    error = SchemaError(wrong, hint=f"write {question.field} = {question.example}, or leave the answer empty")
    if question.form == NAMES:
        if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
            raise error
        return [name.strip() for name in value]
    if question.form == DATE and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    if not isinstance(value, str):
        raise error
    answer = value.strip()
    is_allowed = not question.choices or answer in question.choices
    if answer and not (is_allowed and (question.form != DATE or _is_date(answer)) and _is_short(question, answer)):
        raise error
    return answer


def _is_date(text: str) -> bool:
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_short(question: Question, answer: str) -> bool:
    return question.form != ONE_LINE or len(answer.splitlines()) == 1


def unanswered(answers: Answers) -> Iterator[Question]:
    """Yield the questions without an answer."""
    yield from (question for question in QUESTIONS if question.field not in answers)
