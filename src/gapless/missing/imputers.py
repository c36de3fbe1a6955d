"""What a synthesizer does about gaps: the choices for `missing=`, and imputers that fill gaps first.

An imputer fills row by row, from public facts or paid-for parameters only. Such a filling is a random map of each row
by itself, so neighbouring tables stay neighbours (PRIVACY D1, E; proved in docs/proofs/stability.md). An imputer that
looks at other rows is not stable and has no place here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from gapless.data import PrivateTable
from gapless.data.filling import Filler
from gapless.data.private_table import WhichRows
from gapless.errors import Call, Hint, ModelError, SchemaError
from gapless.model.distribution import CanFill
from gapless.model.marginal import project_to_simplex
from gapless.privacy import Grant, Loss, for_counts
from gapless.privacy.noise import SystemNoise, current
from gapless.schema import Column, Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats, is_trusted, number


@runtime_checkable
class Missing(Protocol):
    """How to read a table with gaps."""

    @property
    def rows(self) -> WhichRows:
        """Which rows a marginal counts: those observed on its columns, or all, gaps as cells."""

    @property
    def share(self) -> float:
        """Of the budget, what preparing the table may cost."""

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:
        """The table to measure; what it costs to prepare it comes out of the grant."""


class FreeTreatment:
    """A choice that needs no preparation, and costs nothing."""

    __slots__ = ()
    share: ClassVar[float] = 0.0

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The table itself."""
        return table


@dataclass(frozen=True, slots=True)
class Extended(FreeTreatment):
    """Count every row, with the gap as one more cell; the gaps are completed afterwards, for free.

    Consistent when cells are missing at random given the columns of a marginal, and the only choice that
    can reproduce the gaps (`sample(gaps="as-observed")`).
    """

    rows: ClassVar[WhichRows] = "extended"


@dataclass(frozen=True, slots=True)
class Observed(FreeTreatment):
    """Count, in each marginal, the rows observed on its columns: [MD]'s adaptive recourse.

    Unbiased when cells are missing completely at random.
    """

    rows: ClassVar[WhichRows] = "observed"


@dataclass(frozen=True, slots=True)
class CompleteRows(FreeTreatment):
    """Use only rows without any gap: the baseline that throws the most away."""

    rows: ClassVar[WhichRows] = "observed"

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The complete rows."""
        return table.complete_rows()


class Imputer(Protocol):
    """Fills the gaps of a table; what it must learn from the table it pays for."""

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table without gaps. May release up to `budget` from the grant."""


class Synthesizer(Protocol):
    """What fits a model to a private table."""

    def fit(self, table: PrivateTable, *, spend: Loss) -> Filler:
        """The model, for which up to `spend` was paid."""


@dataclass(frozen=True, slots=True)
class FromDomain:
    """Draw each missing cell evenly from the column's cells: a public rule, free."""

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:  # noqa: ARG002 free
        """The table with its gaps filled evenly."""
        return table.fill([_even(column) for column in table.schema.columns])


@dataclass(frozen=True, slots=True)
class FromDistribution:
    """Draw each missing cell from its column's noisy distribution.

    Guarantee: the releases are the counts of the observed cells of every column that may be missing, each with an even
    share of the budget.
    """

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table with its gaps filled by the noisy counts of observed cells."""
        laws = _measured(table, grant, budget)
        return table.fill([self._filling(column, law) for column, law in zip(table.schema.columns, laws, strict=True)])

    def _filling(self, column: Column, law: Floats) -> Floats:  # noqa: ARG002 as it is
        """What gaps of a column are drawn from, given the noisy distribution of its observed cells."""
        return law


@dataclass(frozen=True, slots=True)
class FromMode(FromDistribution):
    """Put the most frequent cell of its column, by noisy counts, into each gap. Pays like `FromDistribution`."""

    def _filling(self, column: Column, law: Floats) -> Floats:  # noqa: ARG002 any column
        return _point(len(law), int(law.argmax()))


@dataclass(frozen=True, slots=True)
class FromMean(FromDistribution):
    """Put the noisy mean of its column into each gap; levels without an order are drawn: the baseline of [MD] §6.2.

    The mean is that of the noisy counts, taken in the middle of the bins, or over the numbers of ordered levels; the
    cell that holds it is put in. *Not applicable* has no part in it. Pays like `FromDistribution`.
    """

    def _filling(self, column: Column, law: Floats) -> Floats:
        values = law[: column.values_size]
        if not column.is_ordered:
            return law
        if values.sum() <= 0:  # nothing but not applicable was seen
            values = np.ones(column.values_size)
        if not isinstance(column, BinnedColumn):
            return _point(column.size, round(float(np.average(np.arange(len(values)), weights=values))))
        first, last = column.bin_ranges()
        mean = np.average(first / 2 + last / 2, weights=values)
        return _point(column.size, int(column.bin_of(np.array([mean]))[0]))


@dataclass(frozen=True, slots=True)
class FromModel:
    """Draw each row's gaps from a model given its observed cells.

    Args:
        model: a model that was fitted or loaded here, which costs nothing; or a synthesizer, such as `MST()`, which is
            fitted first and may spend the imputer's budget. Nothing else is handed rows.
    """

    model: Filler | Synthesizer

    def __post_init__(self) -> None:
        fitted = is_trusted(self.model) and isinstance(self.model, Filler)
        if isinstance(self.model, type) or not (fitted or hasattr(self.model, "fit")):
            raise ModelError(
                f"the model is {self.model!r}",
                hint=Hint("use ", Call("FromModel", Call("MST")))
                | Hint("use ", Call("FromModel", Call("load", "people.model"))),
            )

    def check(self, schema: Schema) -> None:
        """Refuse a model that could not fill the gaps of a table of this schema: before anything is paid."""
        if hasattr(self.model, "fit"):
            _check_fills(can_fill=getattr(self.model, "can_fill", True))
            return
        fitted: Filler = self.model
        _check_fills(can_fill=isinstance(fitted.filled, CanFill))
        if not fitted.private and type(current()) is SystemNoise:
            raise ModelError("this model was fitted with the noise of a test", hint="fit it again, outside of tests")
        sizes = [[(column.name, column.size) for column in of.columns] for of in (fitted.schema, schema)]
        if sizes[0] != sizes[1] and fitted.schema.finest.columns != schema.finest.columns:
            raise SchemaError(
                "the model has other columns or cells than the table", hint="fit it on a table with the same schema"
            )

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table with its gaps drawn given what is observed."""
        self.check(table.schema)
        model: Filler = self.model.fit(table, spend=grant.lend(budget)) if hasattr(self.model, "fit") else self.model
        if is_trusted(model):
            _check_fills(can_fill=isinstance(model.filled, CanFill))
        return table.fill_given(model)  # refuses a model that is not ours


@dataclass(frozen=True, slots=True)
class ImputeFirst:
    """Fill the gaps, then go on as if there had been none: the baseline of [MD] §6.2.

    Args:
        imputer: how gaps are filled.
        share: of the budget, what the imputer may spend; 0.25, 0.5 and 0.75 in [MD].
    """

    rows: ClassVar[WhichRows] = "observed"

    imputer: Imputer = field(default_factory=FromDomain)
    share: float = 0.25

    def __post_init__(self) -> None:
        if isinstance(self.imputer, Filler):  # its impute() is for public tables
            raise ModelError(
                f"the imputer is {self.imputer!r}", hint=Hint("use ", Call("ImputeFirst", Call("FromModel", ...)))
            )
        if isinstance(self.imputer, type) or not hasattr(self.imputer, "impute"):
            raise ModelError(
                f"the imputer is {self.imputer!r}", hint=Hint("use ", Call("ImputeFirst", Call("FromMean")))
            )
        number("share", self.share, 0, 1, "()", error=ModelError, example=0.25)

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:
        """The filled table."""
        return self.imputer.impute(table, grant, grant.left * self.share)


def _check_fills(*, can_fill: bool) -> None:
    if not can_fill:
        raise ModelError(
            "this model cannot be drawn from given some cells of a row",
            hint=Hint("use ", Call("FromModel", Call("MST"))) | Hint("use ", Call("FromModel", Call("AIM"))),
        )


def _measured(table: PrivateTable, grant: Grant, budget: Loss) -> list[Floats]:
    """The noisy distribution over observed cells of each column that may be missing; even for the others, unused."""
    laws = {column.name: _even(column) for column in table.schema.columns}
    gappy = [column.name for column in table.schema.columns if column.gaps]
    if gappy:
        counts = table.marginals(gappy)
        noise = for_counts(budget / len(gappy), counts[0].distance)
        released = grant.release_all(
            [(value, noise, f"{name}, to fill gaps") for name, value in zip(gappy, counts, strict=True)]
        )
        for name, answer in zip(gappy, released, strict=True):
            noisy = answer.value.astype(np.float64)
            laws[name] = project_to_simplex(noisy, max(1.0, float(noisy.sum())))
    return list(laws.values())


def _even(column: Column) -> Floats:
    return np.full(column.size, 1 / column.size)


def _point(size: int, cell: int) -> Floats:
    law = np.zeros(size)
    law[cell] = 1.0
    return law
