"""The price of releases, given the earlier entries of a ledger (one entry for each release).

A ledger prices releases by one of three strategies, which its budget and its entries determine:

- `RenyiFilter`: the sum of the losses at the ledger's order.
- `FirstBatchFilter` (`first_batch`): the strategy of a ledger without entries. If all releases of the first batch have
  Gaussian noise, fixed in advance, the batch is priced as one Gaussian mechanism by its exact privacy profile. This is
  less than the sum of its Rényi losses.
- `GroundTruthFilter` (`ground_truth_filter`): under a budget for the complete data, the price is what the releases add
  to the privacy loss of the complete data.

A strategy is an immutable function of the entries: `after` gives the strategy once further entries are charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from gapless.errors import BudgetError, Call, Hint, Variable
from gapless.privacy.budget import ROUNDING, Loss
from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism, for_counts
from gapless.privacy.private import L2, Columns, Linf, Sampled, Smooth
from gapless.privacy.registry import check_known_mechanism
from gapless.text import type_name

if TYPE_CHECKING:
    from gapless.privacy.first_batch import GaussianBatch
    from gapless.privacy.ledger_file import Entry

Distance: TypeAlias = Linf | Smooth | Sampled
CountNoise: TypeAlias = DiscreteLaplace | DiscreteGaussian


class Measurable(Protocol):
    """Whatever has a distance and `reads`, to which noise is calibrated: a sealed value or a `FutureValue`."""

    @property
    def distance(self) -> Any:
        """The bound on the change of the value when one protected unit is added or removed."""

    @property
    def reads(self) -> Columns | None:
        """The columns on which a row must be observed to be read at all; None if every row is read."""


class FutureValue(NamedTuple):
    """The distance and `reads` of a value that does not exist yet, because it will depend on earlier answers."""

    distance: L2
    reads: Columns | None


@dataclass(frozen=True, slots=True)
class Request:
    """One release to be priced.

    Attributes:
        distance: the sensitivity of the value: a bound on its change when one protected unit is added or removed.
        reads: the columns on which a row must be observed to be read at all; None if every row is read.
        mechanism: adds the noise and computes the loss.
        what: the purpose of the release, as the ledger records it.
    """

    distance: Distance
    reads: Columns | None
    mechanism: Mechanism[Any, Any, Any]
    what: str

    def __post_init__(self) -> None:
        check_known_mechanism(self.mechanism, self.distance)  # a ledger must be able to compute the loss again
        # Exact types below: others could redefine equality.
        kind = type(self.distance).__name__
        for name in (field.name for field in fields(self.distance)):
            number = getattr(self.distance, name)
            if type(number) not in (int, float):
                got = f"{kind}({name}={type_name(number)})"
                raise BudgetError(
                    f"the distance of a release must hold a plain int or float, got {got}",
                    hint=Hint("pass ", Call(kind, Variable("int(...)")), " or ", Call(kind, Variable("float(...)"))),
                )
        names = frozenset() if self.reads is None else self.reads
        if type(names) is not frozenset or not all(type(name) is str for name in names):
            found = type_name(names) if type(names) is not frozenset else "a frozenset of other objects"
            wrong = f"the reads of a release must be None or a frozenset of str, got {found}"
            raise BudgetError(wrong, hint="pass the names of columns as a frozenset of plain str")
        if type(self.what) is not str:
            raise BudgetError(f"what of a release must be a str, got {type_name(self.what)}", hint="pass a plain str")

    def loss(self, order: float) -> Loss:
        """The loss of this release at an order."""
        return self.mechanism.loss(self.distance, order)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of releases.

    Attributes:
        requests: the releases.
        total: their price.
        losses: the loss that the entry of each release records; by the Rényi filter they add up to `total`.
        together: whether they are priced as one mechanism; each loss is then scaled down by the same factor.
    """

    requests: tuple[Request, ...]
    total: Loss
    losses: tuple[Loss, ...]
    together: bool = False


class Pricing(Protocol):
    """How a ledger prices releases, given the entries so far."""

    @property
    def spent(self) -> Loss:
        """The privacy loss of the entries so far."""

    def has_capacity_for(self, cost: Loss) -> bool:
        """Whether the guarantee still holds after releases of this cost."""

    def price(self, requests: Sequence[Request], *, together: bool = False) -> Price:
        """The price of these releases, before a charge; `together`: as one mechanism (`Grant.release_all`)."""

    def cost_of_losses(self, charges: Sequence[tuple[Loss, Columns | None]]) -> Loss:
        """By how much `spent` grows if these losses, which `price` computed before, are charged now.

        Args:
            charges: each loss with its `reads`.
        """

    def split_losses(self, reads: Sequence[Columns | None], spend: Loss, weights: Sequence[float]) -> list[Loss]:
        """One loss for each release, proportional to `weights` (mean 1), so that all together cost `spend`."""

    def noise_for(self, counts: Sequence[Measurable], losses: Sequence[Loss], spend: Loss) -> list[CountNoise]:  # noqa: ARG002 for `FirstBatchFilter`
        """The least noise at which these counts together cost `spend`, of which `losses` are the shares.

        By default each count gets the noise of its loss. A first batch gets less, since it costs less than the sum.
        """
        return [for_counts(loss, value.distance) for loss, value in zip(losses, counts, strict=True)]

    def after(self, entries: Sequence[Entry]) -> Pricing:
        """The strategy once these entries are charged as well.

        Raises:
            ValueError: These are not the entries of such a ledger.
        """


@dataclass(frozen=True)
class RenyiFilter(Pricing):
    r"""Adds up the losses at one Rényi order and stops at the capacity.

    .. math:: \sum_j \varepsilon_{\alpha,j} \le \text{capacity}

    Guarantee: (ε, δ) of the budget for releases that are chosen adaptively. Proved in docs/proofs/renyi_filter.md
    (Feldman and Zrnic 2021).

    Attributes:
        capacity: the whole budget as a loss.
        total: the exact sum of all losses.
        first_batch: the parameters of the releases that were priced together, and their price, a loss. Set by
            `FirstBatchFilter.after`, and used for guarantees only.
    """

    capacity: Loss
    total: Fraction = Fraction(0)
    first_batch: tuple[GaussianBatch, float] | None = None

    @property
    def spent(self) -> Loss:
        """The sum of all losses, rounded once."""
        return Loss(float(self.total), self.capacity.order)

    def has_capacity_for(self, cost: Loss) -> bool:
        """Whether the sum stays within the capacity."""
        return (self.spent + cost).fits_in(self.capacity)

    def cost_of_losses(self, charges: Sequence[tuple[Loss, Columns | None]]) -> Loss:
        """The sum of the losses; refuses a loss of another order."""
        return sum((loss for loss, _ in charges), Loss(0.0, self.capacity.order))

    def price(self, requests: Sequence[Request], *, together: bool = False) -> Price:  # noqa: ARG002 adds up either way
        """The sum of the losses. `together` changes nothing here: only a first batch is cheaper."""
        losses = tuple(request.loss(self.capacity.order) for request in requests)
        return Price(tuple(requests), self.cost_of_losses([(loss, None) for loss in losses]), losses)

    def split_losses(self, reads: Sequence[Columns | None], spend: Loss, weights: Sequence[float]) -> list[Loss]:
        """Shares of `spend`."""
        return [spend / len(reads) * weight for weight in weights]

    def after(self, entries: Sequence[Entry]) -> RenyiFilter:
        """The filter with further losses added."""
        if any(entry.together for entry in entries):
            # The ledger puts its path before this sentence, and before those of other strategies.
            raise ValueError("was changed: entries after the first batch are marked as priced together")
        return self.add_losses(entries)

    def add_losses(self, entries: Sequence[Entry]) -> RenyiFilter:
        """The filter with the losses of these entries added, however they were priced."""
        total = self.total + sum((Fraction(entry.loss) for entry in entries), Fraction(0))
        if total > self.capacity.value * (1 + ROUNDING):
            raise ValueError("has entries that exceed its budget")
        return replace(self, total=total)


def normalized_weights(shares: Sequence[float]) -> list[float]:
    """Relative sizes, scaled to mean 1."""
    if not all(isinstance(share, int | float) and 0 < share < math.inf for share in shares):
        raise BudgetError(f"shares = {list(shares)!r}, but each must be above 0", hint="pass finite numbers above 0")
    return [share * len(shares) / math.fsum(shares) for share in shares]
