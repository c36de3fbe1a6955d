"""The question how many rows persons have, and what the answer says about a limit of rows per person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

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
        return PendingRelease(asked, rows_per_person(table, self.most), 1, ("each number counts persons",))

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
        """The share of rows that limits keep, and the noise: see `kept_shares`."""
        shares = kept_shares([estimate.value for estimate in estimates])
        lines = [f"at most {limit}: keeps {share:.0%} of the rows, noise × {limit}" for limit, share in shares.items()]
        about = f"What a limit keeps, if persons with {self.most} or more rows have {self.most}:"
        return "\n".join([about, *lines])

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
    return {limit: min(1.0, max(0.0, many / rows)) if rows > 0 else 1.0 for limit, many in kept.items()}
