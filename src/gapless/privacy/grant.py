"""The gate: the right to spend, and the one place where a sealed value is charged for, opened and given noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gapless.errors import BudgetError
from gapless.privacy import noise
from gapless.privacy.budget import Loss
from gapless.privacy.first_batch import least_noise
from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism, for_counts
from gapless.privacy.private import L1, Linf, Private, Released, Sampled, Smooth, check_sealed
from gapless.privacy.registry import check_known

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger

T = TypeVar("T")
D = TypeVar("D", bound=Linf | Smooth | Sampled)
R = TypeVar("R")


class Grant:
    """The right to spend up to a loss. What is not spent was never taken from the ledger."""

    def __init__(self, ledger: Ledger, spend: Loss, to: str) -> None:
        self._ledger = ledger
        self.to = to
        self.left = spend

    def lend(self, spend: Loss) -> Loss:
        """Hand a part of this grant on, as a `spend=` of another: it is no longer in this one, spent or not."""
        if not spend.fits_in(self.left):
            raise BudgetError(f"{self.to}: more is lent than this grant has left", hint="a larger spend=")
        self.left -= spend
        return spend

    def release(self, value: Private[T, D], mechanism: Mechanism[T, D, R], *, what: str) -> Released[R]:
        """Charge first, then read: a crash can waste budget but never hide a release."""
        return self.release_all([(value, mechanism, what)])[0]

    def even(self, values: Sequence[Private[Any, Any]], spend: Loss) -> Loss:
        """The loss that each of these values may have if they, released next, are to cost `spend` together.

        An even share; more, where the ledger stops on the promise to the people behind the gaps and these values leave
        out rows with gaps (PRIVACY A1 vi). Only the public `reads` of the values are looked at.
        """
        return self.split(values, spend)[0]

    def split(
        self, values: Sequence[Private[Any, Any]], spend: Loss, *, shares: Sequence[float] | None = None
    ) -> list[Loss]:
        """The same in parts of the relative size `shares`, in place of even ones."""
        reads = [self._ledger._reads(value) for value in values]  # noqa: SLF001 one account
        return self._ledger._split(reads, spend, shares or [1.0] * len(values))  # noqa: SLF001 one account

    def noise_for(
        self, counts: Sequence[Private[Any, L1]], spend: Loss, *, shares: Sequence[float] | None = None
    ) -> list[DiscreteLaplace | DiscreteGaussian]:
        """The least noise for each of these counts if they, released next and `together`, are to cost `spend`.

        Losses have the relative size `shares`, or are even. On a ledger that nothing was released under, with δ > 0,
        there is less noise than `split` would allow, since the batch is priced by its exact total.
        """
        parts = self.split(counts, spend, shares=shares)
        noises = [for_counts(loss, value.distance) for loss, value in zip(parts, counts, strict=True)]
        distances = [value.distance for value in counts]
        batch = self._ledger._first_batch(zip(noises, distances, strict=True))  # noqa: SLF001 one account
        if batch is None:
            return noises
        factor = least_noise(batch, spend.value)
        return noises if factor > 1 else [DiscreteGaussian(part.std) for part in batch.scaled(factor).parts]

    def release_all(
        self, requests: Sequence[tuple[Private[T, D], Mechanism[T, D, R], str]], *, together: bool = False
    ) -> list[Released[R]]:
        """Charge for all requests at once, then read: their noise was fixed before the first read.

        `together` declares them one mechanism: if nothing was released before and all of it is discrete Gaussian
        noise, it is priced by its exact total (docs/proofs/first_batch.md), where that is less than the sum of losses.
        """
        requests = [(value, mechanism, what) for value, mechanism, what in requests]  # charged is what is read
        if not requests:
            return []
        source, key = noise.current(), self._ledger._key  # noqa: SLF001 the gate is the one who holds it
        losses = []
        for value, mechanism, _ in requests:
            check_sealed(value, key)  # nothing is charged for a value that could not be opened
            check_known(mechanism, value.distance)
            losses.append(mechanism.loss(value.distance, self._ledger.order))
        reads = [self._ledger._reads(value) for value, *_ in requests]  # noqa: SLF001 one account
        total = self._ledger._price(list(zip(losses, reads, strict=True)))  # noqa: SLF001 one account
        together = together and (price := self._ledger._together(requests)) < total.value  # noqa: SLF001 one account
        if together:
            losses = [loss * (price / total.value) for loss in losses]
            total = Loss(price, self._ledger.order)
        if not total.fits_in(self.left):
            raise BudgetError(
                f"{self.to}: a release costs {self._ledger.percent(total)} of the budget, but "
                f"{self._ledger.percent(self.left)} of this grant is left",
                hint="a larger spend=",
            )
        numbers = self._ledger._charge(  # noqa: SLF001 nobody else may write entries
            [
                (loss, mechanism.parameters(), what, value.distance, columns)
                for loss, columns, (value, mechanism, what) in zip(losses, reads, requests, strict=True)
            ],
            to=self.to,
            noise_name=noise.origin(source),
            together=together,
        )
        self.left -= total
        return [
            Released(mechanism(value._open(key), source), number)  # noqa: SLF001 nobody else opens a seal but into a new one
            for number, (value, mechanism, _) in zip(numbers, requests, strict=True)
        ]
