r"""The price of releases under a budget for the complete data: the increase of the privacy loss of the complete data.

With :math:`L_v` the sum of the losses of all releases that read a person whose cells v are observed, the filter keeps

.. math:: F = \log \mathbb{E}_v \exp(L_v) \le \varepsilon

after every charge. F does not add up over releases, so the price of a batch is F with it minus F without it.
Proved in docs/proofs/ground_truth.md, section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from gapless.privacy.assumptions import Assumption
from gapless.privacy.budget import ROUNDING, Budget, Loss
from gapless.privacy.ground_truth import calibrate_loss, complete_data_loss
from gapless.privacy.pricing import Price, Pricing, Request
from gapless.privacy.private import Columns

if TYPE_CHECKING:
    from gapless.privacy.ledger_file import Entry


@dataclass(frozen=True)
class GroundTruthFilter(Pricing):
    """Stops when the privacy loss F of the complete data reaches ε, under the budget's assumption about gaps.

    Attributes:
        budget: the guarantee.
        assumption: the assumption about gaps.
        rows: the number of rows of a protected unit.
        reads_by_header: the `reads` of an entry; None if the header does not define the gaps of all of them.
        losses: the exact sum of the losses for each set of columns; the empty set stands for every row.
    """

    budget: Budget
    assumption: Assumption
    rows: int
    reads_by_header: Callable[[Sequence[str] | None], Columns | None]
    losses: Mapping[Columns, Fraction] = field(default_factory=dict)

    @cached_property
    def spent(self) -> Loss:
        """F of all entries."""
        return Loss(complete_data_loss(_to_floats(self.losses), self.assumption, rows=self.rows), self.budget.order)

    def has_capacity_for(self, cost: Loss) -> bool:
        """Whether F stays within ε; F is already rounded up."""
        return (self.spent + cost).fits_in(Loss(self.budget.epsilon * (1 - ROUNDING), self.budget.order))

    def cost_of_losses(self, charges: Sequence[tuple[Loss, Columns | None]]) -> Loss:
        """The increase of F, at most the sum of the losses."""
        total = sum((loss for loss, _ in charges), Loss(0.0, self.budget.order))
        losses = _to_floats(_add_losses(self.losses, [(loss.value, reads) for loss, reads in charges]))
        grown = Loss(complete_data_loss(losses, self.assumption, rows=self.rows), self.budget.order)
        return min(total, grown - self.spent, key=lambda loss: loss.value)

    def price(self, requests: Sequence[Request], *, together: bool = False) -> Price:  # noqa: ARG002 pure budgets only
        """The increase of F."""
        losses = tuple(request.loss(self.budget.order) for request in requests)
        reads = [request.reads for request in requests]
        return Price(tuple(requests), self.cost_of_losses(list(zip(losses, reads, strict=True))), losses)

    def split_losses(self, reads: Sequence[Columns | None], spend: Loss, weights: Sequence[float]) -> list[Loss]:
        """The largest losses with which F grows by `spend`: above even shares if rows with gaps are left out."""
        target = (self.spent + spend).value
        even = calibrate_loss(_to_floats(self.losses), reads, target, self.assumption, rows=self.rows, weights=weights)
        return [Loss(even * (1 - ROUNDING), self.budget.order) * weight for weight in weights]

    def after(self, entries: Sequence[Entry]) -> GroundTruthFilter:
        """The filter with further losses."""
        if any(entry.together for entry in entries):
            raise ValueError("was changed: a batch under ground_truth is priced together")
        if not entries:
            return self
        charges = [(entry.loss, self.reads_by_header(entry.reads)) for entry in entries]
        return replace(self, losses=_add_losses(self.losses, charges))


def _add_losses(
    losses: Mapping[Columns, Fraction], charges: Sequence[tuple[float, Columns | None]]
) -> dict[Columns, Fraction]:
    """The exact losses for each set of columns, with those of further releases added."""
    added = dict(losses)
    for loss, reads in charges:
        columns = reads or frozenset()
        added[columns] = added.get(columns, Fraction(0)) + Fraction(loss)
    return added


def _to_floats(losses: Mapping[Columns, Fraction]) -> dict[Columns, float]:
    return {columns: float(loss) for columns, loss in losses.items()}
