"""Treatments of gaps for synthesizers: the choices for `missing=`, and imputers that fill gaps first.

An imputer fills each row separately, from public facts or released parameters only. Such a random map of rows keeps
neighbouring tables neighbours (proved in docs/proofs/stability.md). An imputer that uses other rows is
not stable, so there is none here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from gapless.data import PrivateTable
from gapless.data.filling import Filler
from gapless.data.private_table import WhichRows
from gapless.errors import Call, Hint, ModelError, SchemaError, Variable
from gapless.model.distribution import CanFill
from gapless.model.marginal import project_to_simplex
from gapless.privacy import Grant, Loss, for_counts
from gapless.privacy.noise import SystemNoise, current
from gapless.schema import Column, Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats, checked_number, is_trusted


@runtime_checkable
class Missing(Protocol):
    """How a synthesizer treats gaps."""

    @property
    def rows(self) -> WhichRows:
        """Which rows a marginal counts: those observed on its columns, or all, with gaps as cells."""

    @property
    def share(self) -> float:
        """The share of the budget for preparing the table."""

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:
        """The table to measure. The grant pays for its preparation."""


class FreeTreatment:
    """A treatment that needs no preparation and is free."""

    __slots__ = ()
    share: ClassVar[float] = 0.0

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The table itself."""
        return table


@dataclass(frozen=True, slots=True)
class Extended(FreeTreatment):
    """Count every row, with the gap as one more cell. The gaps are completed afterwards, for free.

    Consistent if cells are missing at random given the columns of a marginal. Only this treatment can reproduce the
    gaps (`sample(gaps="as-observed")`).
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
    """Use only rows without gaps: the baseline that discards most."""

    rows: ClassVar[WhichRows] = "observed"

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:  # noqa: ARG002 nothing to pay for
        """The complete rows."""
        return table.complete_rows()


class Imputer(Protocol):
    """Fills the gaps of a table, and pays for what it learns from the table."""

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table without gaps. May release up to `budget` from the grant."""


class Synthesizer(Protocol):
    """Fits a model to a private table."""

    def fit(self, table: PrivateTable, *, spend: Loss) -> Filler:
        """The model, for which up to `spend` was paid."""


@dataclass(frozen=True, slots=True)
class FromDomain:
    """Draw each missing cell uniformly from the cells of the column: a public rule, free."""

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:  # noqa: ARG002 free
        """The table with its gaps filled uniformly."""
        return table.fill([_uniform(column) for column in table.schema.columns])


@dataclass(frozen=True, slots=True)
class FromDistribution:
    """Draw each missing cell from its column's noisy distribution.

    Guarantee: the releases are the counts of the observed cells of every column that may be missing, each with an even
    share of the budget.
    """

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table with its gaps filled by the noisy counts of observed cells."""
        distributions = _release_distributions(table, grant, budget)
        return table.fill(
            [
                self._distribution_to_fill(column, distribution)
                for column, distribution in zip(table.schema.columns, distributions, strict=True)
            ]
        )

    def _distribution_to_fill(self, column: Column, distribution: Floats) -> Floats:  # noqa: ARG002 unchanged
        """The distribution that fills gaps of a column, given the noisy distribution of its observed cells."""
        return distribution


@dataclass(frozen=True, slots=True)
class FromMode(FromDistribution):
    """Put the most frequent cell of its column, by noisy counts, into each gap. Pays like `FromDistribution`."""

    def _distribution_to_fill(self, column: Column, distribution: Floats) -> Floats:  # noqa: ARG002 any column
        return _point_mass(len(distribution), int(distribution.argmax()))


@dataclass(frozen=True, slots=True)
class FromMean(FromDistribution):
    """Put the noisy mean of its column into each gap, and draw levels without an order: the baseline of [MD] §6.2.

    The mean is over the noisy counts, with the middle of each bin or the position of each ordered level. The gap gets
    the cell of the mean. *Not applicable* is excluded. Pays like `FromDistribution`.
    """

    def _distribution_to_fill(self, column: Column, distribution: Floats) -> Floats:
        values = distribution[: column.values_size]
        if not column.is_ordered:
            return distribution
        if values.sum() <= 0:  # all counts are of not applicable
            values = np.ones(column.values_size)
        if not isinstance(column, BinnedColumn):
            return _point_mass(column.size, round(float(np.average(np.arange(len(values)), weights=values))))
        first, last = column.bin_ranges()
        mean = np.average(first / 2 + last / 2, weights=values)
        return _point_mass(column.size, int(column.bin_of(np.array([mean]))[0]))


@dataclass(frozen=True, slots=True)
class FromModel:
    """Draw each row's gaps from a model given its observed cells.

    Args:
        model: a model that was fitted or loaded by this library, which is free, or a synthesizer such as `MST()`. A
            synthesizer is fitted first and may spend the budget of the imputer. Other objects never receive rows.
    """

    model: Filler | Synthesizer

    def __post_init__(self) -> None:
        fitted = is_trusted(self.model) and isinstance(self.model, Filler)
        if isinstance(self.model, type) or not (fitted or hasattr(self.model, "fit")):
            raise ModelError(
                f"model must be a fitted model or a synthesizer, got {self.model!r}",
                hint=Hint("use ", Call("gapless.missing.FromModel", Call("MST")))
                | Hint("use ", Call("gapless.missing.FromModel", Call("gapless.load", "people.model"))),
            )

    def check(self, schema: Schema) -> None:
        """Refuse a model that cannot fill the gaps of a table of this schema, before anything is paid."""
        if hasattr(self.model, "fit"):
            _check_fills(can_fill=getattr(self.model, "can_fill", True))
            return
        fitted: Filler = self.model
        _check_fills(can_fill=isinstance(fitted.filled, CanFill))
        if not fitted.private and type(current()) is SystemNoise:
            raise ModelError(
                "this model was fitted with the noise of a test", hint="fit the model again, outside of tests"
            )
        sizes = [[(column.name, column.size) for column in of.columns] for of in (fitted.schema, schema)]
        if sizes[0] != sizes[1] and fitted.schema.finest.columns != schema.finest.columns:
            raise SchemaError(
                "the model has other columns or cells than the table",
                hint="fit the model on a table with the same schema",
            )

    def impute(self, table: PrivateTable, grant: Grant, budget: Loss) -> PrivateTable:
        """The table with its gaps drawn given the observed cells."""
        self.check(table.schema)
        model: Filler = (
            self.model.fit(table, spend=grant.transfer(budget)) if hasattr(self.model, "fit") else self.model
        )
        if is_trusted(model):
            _check_fills(can_fill=isinstance(model.filled, CanFill))
        return table.fill_given(model)  # refuses a model that is not ours


@dataclass(frozen=True, slots=True)
class ImputeFirst:
    """Fill the gaps, then treat the table as complete: the baseline of [MD] §6.2.

    Args:
        imputer: how gaps are filled.
        share: the share of the budget for the imputer; 0.25, 0.5 and 0.75 in [MD].
    """

    rows: ClassVar[WhichRows] = "observed"

    imputer: Imputer = field(default_factory=FromDomain)
    share: float = 0.25

    def __post_init__(self) -> None:
        if isinstance(self.imputer, Filler):  # its impute() is for public tables
            raise ModelError(
                f"imputer must be an imputer, got a fitted model: {self.imputer!r}",
                hint=Hint("use ", Call("ImputeFirst", Call("gapless.missing.FromModel", Variable("model")))),
            )
        if isinstance(self.imputer, type) or not hasattr(self.imputer, "impute"):
            raise ModelError(
                f"imputer must be an imputer, got {self.imputer!r}",
                hint=Hint("use ", Call("ImputeFirst", Call("gapless.missing.FromMean"))),
            )
        checked_number("share", self.share, 0, 1, "()", error=ModelError, example=0.25)

    def prepare(self, table: PrivateTable, grant: Grant) -> PrivateTable:
        """The filled table."""
        return self.imputer.impute(table, grant, grant.left * self.share)


def _check_fills(*, can_fill: bool) -> None:
    if not can_fill:
        raise ModelError(
            "this model cannot draw the gaps of a row given its observed cells",
            hint=Hint("use ", Call("gapless.missing.FromModel", Call("MST")))
            | Hint("use ", Call("gapless.missing.FromModel", Call("AIM"))),
        )


def _release_distributions(table: PrivateTable, grant: Grant, budget: Loss) -> list[Floats]:
    """The noisy distribution of observed cells of each column that may be missing. Others are uniform and unused."""
    distributions = {column.name: _uniform(column) for column in table.schema.columns}
    incomplete = [column.name for column in table.schema.columns if column.gaps]
    if incomplete:
        counts = table.marginals(incomplete)
        noise = for_counts(budget / len(incomplete), counts[0].distance)
        released = grant.release_all(
            [(value, noise, f"{name}, to fill gaps") for name, value in zip(incomplete, counts, strict=True)]
        )
        for name, answer in zip(incomplete, released, strict=True):
            noisy = answer.value.astype(np.float64)
            distributions[name] = project_to_simplex(noisy, max(1.0, float(noisy.sum())))
    return list(distributions.values())


def _uniform(column: Column) -> Floats:
    return np.full(column.size, 1 / column.size)


def _point_mass(size: int, cell: int) -> Floats:
    distribution = np.zeros(size)
    distribution[cell] = 1.0
    return distribution
