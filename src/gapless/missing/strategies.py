"""What a synthesizer does about gaps: the choices for `missing=`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from gapless.data import PrivateTable
from gapless.data.private_table import WhichRows
from gapless.privacy import Grant


@runtime_checkable
class Missing(Protocol):
    """How to read a table with gaps."""

    @property
    def rows(self) -> WhichRows:
        """Which rows a marginal counts: those observed on its columns, or all, gaps as cells."""
        ...

    @property
    def share(self) -> float:
        """Of the budget, what preparing the table may cost."""
        ...

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:
        """The table to measure; what it costs to prepare it comes out of the grant."""
        ...


@dataclass(frozen=True, slots=True)
class Extended:
    """Count every row, with the gap as one more cell; the gaps are completed afterwards, for free.

    Consistent when cells are missing at random given the columns of a marginal, and the only choice that
    can reproduce the gaps (`sample(gaps="as-observed")`).
    """

    rows: ClassVar[WhichRows] = "extended"
    share: ClassVar[float] = 0.0

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The table itself."""
        return table


@dataclass(frozen=True, slots=True)
class Observed:
    """Count, in each marginal, the rows observed on its columns: [MD]'s adaptive recourse.

    Unbiased when cells are missing completely at random.
    """

    rows: ClassVar[WhichRows] = "observed"
    share: ClassVar[float] = 0.0

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The table itself."""
        return table


@dataclass(frozen=True, slots=True)
class CompleteRows:
    """Use only rows without any gap: the baseline that throws the most away."""

    rows: ClassVar[WhichRows] = "observed"
    share: ClassVar[float] = 0.0

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The complete rows."""
        return table.complete_rows()
