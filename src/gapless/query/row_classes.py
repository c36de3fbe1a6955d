r"""Weights that undo a limit of rows per person, from the released numbers of persons by rows.

A limit keeps a random part of the rows of a person. For all rows of the data, a person with n rows weighs n. The sums
of persons' means are released in classes, those with 1, 2, …, 5 or more rows: a person is in one class, so all classes
together move by one unit. A class with j < 5 rows weighs j. The last one weighs the mean of its numbers of rows, with
the released numbers :math:`N_j` of persons with j rows:

.. math:: \sum_{j \ge 5} j N_j \Big/ \sum_{j \ge 5} N_j

That is right on average if in the last class the means of persons are not related to their numbers of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gapless.errors import Call, Hint, QuestionError
from gapless.query.answers import Answer

CLASSES = 5
QUESTION = "rows_per_person("  # how the text of the question begins whose answer has the numbers


@dataclass(frozen=True, slots=True)
class RowClasses:
    """The number of rows that a person weighs, by class: persons with 1, 2, … rows; the last class has more."""

    weights: tuple[float, ...]

    @classmethod
    def of(cls, answer: Any) -> RowClasses:
        """The weights from an answer to the question of rows per person."""
        if not (isinstance(answer, Answer) and answer.question.startswith(QUESTION)):
            raise QuestionError(
                f"all_rows must be an answer to rows_per_person(20), got a {type(answer).__name__}",
                hint=Hint("ask ", Call("gapless.query.RowsPerPerson", 20), " first, and pass its answer"),
            )
        persons = [estimate.value for estimate in answer.estimates]
        last = min(CLASSES, len(persons))
        among = persons[last - 1 :]
        rows = sum(j * many for j, many in enumerate(among, last))
        mean = rows / sum(among) if sum(among) > 0 else float(last)
        return cls((*map(float, range(1, last)), min(float(len(persons)), max(float(last), mean))))

    @property
    def noise_factor(self) -> float:
        """The noise of a weighted sum of classes, over that of a class."""
        return math.hypot(*self.weights)
