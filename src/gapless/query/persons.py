"""The question how many rows persons have, and what the answer says about a limit of rows per person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gapless.data import PrivateTable
from gapless.data.person_sums import MOST_CLASSES, rows_per_person
from gapless.errors import QuestionError
from gapless.privacy import L1, Loss
from gapless.query.answers import Estimate
from gapless.query.compiled import CompiledQuestion, Estimand, count_estimand
from gapless.query.questions import Question
from gapless.query.treatments import PendingRelease, Preview, SingleRelease, preview_sums
from gapless.schema import Schema
from gapless.types import whole

LIMITS = (1, 2, 3, 5, 10, 20, 50, 100)  # of rows per person, of which the answer says what they would keep


@dataclass(frozen=True, slots=True)
class CountPersons(SingleRelease):
    """The release of the number of persons with each number of rows."""

    most: int

    def pending(self, asked: CompiledQuestion, table: PrivateTable) -> PendingRelease:
        """The counts of persons."""
        return PendingRelease(
            asked,
            rows_per_person(table, self.most),
            1,
            ("each number counts persons, and a row without an id is a person by itself",),
        )

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:  # noqa: ARG002 of any
        """The expected noise: it is the same for any number of rows per person."""
        return preview_sums(asked, 1, L1(1), loss, rows)


@dataclass(frozen=True, slots=True)
class RowsPerPerson(Question):
    """The number of persons with 1, 2, …, `most` or more rows in the data, before rows are left out.

    A person is in one cell, so the noise does not grow with the number of rows. From the answer follows, without
    further cost, which share of the rows a limit keeps.

    >>> print(RowsPerPerson(20))
    rows_per_person(20)
    """

    can_be_per_person: ClassVar[bool] = True  # it is

    most: int = 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", whole("most", self.most, error=QuestionError, least=2, most=MOST_CLASSES))
        Question.__post_init__(self)
        if self.where or self.by is not None or self.per_person or self.all_rows is not None:
            raise QuestionError(
                "the question of rows per person is about all persons, without where, by and weights",
                hint=f"write {self._head()} alone",
            )

    def treatment(self, asked: CompiledQuestion, *, filled: bool) -> CountPersons:  # noqa: ARG002 it reads no cell
        """The release, whatever is done about gaps."""
        return CountPersons(self.most)

    @property
    def needs_persons(self) -> bool:
        """It counts them."""
        return True

    def groups(self, schema: Schema) -> tuple[tuple[str, ...], ...]:  # noqa: ARG002 none of its columns
        """The numbers of rows."""
        return *((str(rows),) for rows in range(1, self.most)), (f"{self.most} or more",)

    def advice(self, estimates: Sequence[Estimate]) -> str:
        """The share of rows that limits keep, with its interval, and the noise: see `kept_shares`, `kept_interval`."""
        persons = [estimate.value for estimate in estimates]
        error = max(estimate.interval[1] - estimate.value for estimate in estimates if estimate.interval is not None)
        about = f"if persons with {self.most} or more rows have {self.most}; it is less if they have more"
        lines = [f"What a limit keeps, with 95 % intervals, {about}:"]
        for limit, share in kept_shares(persons).items():
            low, high = kept_interval(persons, limit, error)
            kept = f"{share:.0%} [{low:.0%}, {high:.0%}]" if limit < self.most else "all"
            lines.append(f"at most {limit}: keeps {kept} of the rows, noise × {limit}")
        return "\n".join(lines)

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:  # noqa: ARG002 persons are persons
        return replace(count_estimand(), least=-math.inf), "numbers below 0 are noise, kept so that totals are right"

    def _head(self) -> str:
        return f"rows_per_person({self.most})"


def kept_shares(persons: Sequence[float]) -> dict[int, float]:
    r"""The share of rows that each limit c keeps, from the numbers :math:`N_j` of persons with j rows.

    .. math:: \sum_j \min(j, c) N_j \Big/ \sum_j j N_j

    >>> kept_shares([50, 0, 10])
    {1: 0.75, 2: 0.875, 3: 1.0}
    """
    rows = sum(j * many for j, many in enumerate(persons, 1))
    limits = sorted({limit for limit in LIMITS if limit < len(persons)} | {len(persons)})
    kept = {limit: sum(min(j, limit) * many for j, many in enumerate(persons, 1)) for limit in limits}
    most = len(persons)  # a person keeps at least the share c / most
    return {limit: min(1.0, max(limit / most, many / rows)) if rows > 0 else 1.0 for limit, many in kept.items()}


def kept_interval(persons: Sequence[float], limit: int, error: float) -> tuple[float, float]:
    r"""The 95 % interval of the share of rows that a limit c keeps, from the noisy numbers :math:`N_j` (Fieller 1954).

    At the true share r the sum :math:`\sum_j (\min(j, c) - r j) N_j` is noise alone. Let t be the limit that the
    absolute value of normal noise exceeds with probability 5 %. Then the sum exceeds
    :math:`t \lVert \min(j, c) - r j \rVert_2` with the same probability; with Laplace noise less often, because sums
    have lighter tails. The interval has all r for which it does not: those between the roots of a quadratic polynomial.

    Args:
        persons: the noisy numbers of persons with 1, 2, … rows.
        limit: c, the most rows that are kept of a person.
        error: t, half the 95 % interval of one of these numbers.

    >>> [round(end, 2) for end in kept_interval([500, 0, 100], 1, 10)]
    [0.73, 0.77]
    """
    rows = np.arange(1.0, len(persons) + 1)
    kept, numbers = np.minimum(rows, limit), np.asarray(persons, dtype=np.float64)
    least = limit / len(persons)  # a person keeps at least this share
    variance = max(error, 1.0) ** 2  # numbers are whole: noise that is 0 in 95 % of cases has t = 0, but may be 1
    square = float((rows @ numbers) ** 2 - variance * (rows @ rows))
    middle = float((rows @ numbers) * (kept @ numbers) - variance * (rows @ kept))
    constant = float((kept @ numbers) ** 2 - variance * (kept @ kept))
    if square <= 0 or rows @ numbers <= 0:  # the number of rows may be noise alone
        return least, 1.0
    half = math.sqrt(max(0.0, middle**2 - square * constant))
    low, high = (middle - half) / square, (middle + half) / square
    return min(1.0, max(least, low)), min(1.0, max(least, high))
