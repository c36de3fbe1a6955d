r"""Weights that undo a limit of rows per person, from the released numbers of persons by rows.

A limit keeps a random part of the rows of a person. For all rows of the data, a person with n rows weighs n. The sums
of persons' means are released in classes, those with 1, 2, …, c or more rows: a person is in one class, so all classes
together move by one unit. A class with j < c rows weighs j. The last one weighs the mean of its numbers of rows, with
the released numbers :math:`N_j` of persons with j rows:

.. math:: \sum_{j \ge c} j N_j \Big/ \sum_{j \ge c} N_j

That is right on average if in the last class the means of persons are not related to their numbers of rows. More
classes leave less of such a bias and bring more noise. There are as many as keep the noise of a weighted sum, at the
noise of the numbers :math:`N_j`, within 1 % of the rows; at least 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gapless.data.person_sums import MOST_CLASSES
from gapless.errors import Call, Hint, QuestionError
from gapless.query.answers import Answer
from gapless.text import plural
from gapless.types import is_number

LEAST_CLASSES = 3
MOST_NOISE = 0.01  # of a weighted sum, as a share of the rows
QUESTION = "rows_per_person("  # how the text of the question begins whose answer has the numbers


@dataclass(frozen=True, slots=True)
class RowClasses:
    """The number of rows that a person weighs, by class: persons with 1, 2, … rows; the last class has more."""

    weights: tuple[float, ...]

    @classmethod
    def of(cls, answer: Any) -> RowClasses:
        """The weights from an answer to the question of rows per person."""
        hint = Hint("ask ", Call("gapless.query.RowsPerPerson", 20), " first, and pass its answer")
        if not (isinstance(answer, Answer) and answer.question.startswith(QUESTION)):
            raise QuestionError(
                f"all_rows must be an answer to rows_per_person(20), got a {type(answer).__name__}", hint=hint
            )
        persons = [estimate.value for estimate in answer.estimates]
        if not (2 <= len(persons) <= MOST_CLASSES and all(map(_is_finite, [*persons, answer.noise_std]))):
            raise QuestionError(
                f"all_rows must have from 2 to {MOST_CLASSES:,} finite numbers and the noise on them, "
                f"got {plural(len(persons), 'number')}",
                hint=hint,
            )
        most_noise = MOST_NOISE * sum(j * many for j, many in enumerate(persons, 1))
        found = cls(_weights(persons, min(LEAST_CLASSES, len(persons))))
        for classes in range(LEAST_CLASSES + 1, len(persons) + 1):
            more = cls(_weights(persons, classes))
            if more.noise_factor * (answer.noise_std or 0.0) > most_noise:
                break
            found = more
        return found

    @property
    def noise_factor(self) -> float:
        """The noise of a weighted sum of classes, over that of a class."""
        return math.hypot(*self.weights)


def _is_finite(number: object) -> bool:
    return is_number(number) and math.isfinite(number)


def _weights(persons: Sequence[float], classes: int) -> tuple[float, ...]:
    """The weights of so many classes, from the numbers of persons with 1, 2, … rows."""
    among = persons[classes - 1 :]
    rows = sum(j * many for j, many in enumerate(among, classes))
    mean = rows / sum(among) if sum(among) > 0 else float(classes)
    return (*map(float, range(1, classes)), min(float(len(persons)), max(float(classes), mean)))
