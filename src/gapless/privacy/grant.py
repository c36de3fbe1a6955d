"""The gate: the right to spend, and the one place where a sealed value is charged for, opened and given noise."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from gapless.errors import BudgetError
from gapless.privacy import noise
from gapless.privacy.budget import ROUNDING, Loss
from gapless.privacy.first_batch import least_noise
from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism, for_counts
from gapless.privacy.private import L1, Columns, Key, Linf, Numbers, Private, Released, Sampled, Smooth, check_sealed
from gapless.privacy.registry import check_known

if TYPE_CHECKING:
    from gapless.privacy.journal import Journal, Past
    from gapless.privacy.ledger import Ledger

T = TypeVar("T")
D = TypeVar("D", bound=Linf | Smooth | Sampled)
R = TypeVar("R", bound=Numbers)

Charge: TypeAlias = tuple[Loss, dict[str, Any], str, Linf | Smooth | Sampled, Columns | None]


class Grant:
    """The right to spend up to a loss. What is not spent was never taken from the ledger."""

    def __init__(self, ledger: Ledger, spend: Loss, to: str, *, journal: Journal | None = None) -> None:
        self._ledger = ledger
        self.to = to
        self._left = spend
        self._journal = journal  # of a run that may have begun before: what it has released is not released again
        self._share = 1.0  # what there is of each loss, where charges were lost in a crash

    @property
    def left(self) -> Loss:
        """What may still be spent, if no charge was lost in a crash; there is `afford` of it."""
        self._settle()
        return self._left

    def afford(self, spend: Loss) -> Loss:
        """What there is of a part of this grant: all of it, unless a run goes on that has lost charges in a crash.

        What was lost is missing in all that is still to come, in even shares.
        """
        self._settle()
        if self._share == 0:
            raise BudgetError(
                f"{self.to}: all that was left was charged when the run was stopped, and is lost",
                hint="what is left in the ledger, by a new run",
            )
        return spend if self._share == 1 else spend * self._share

    def _settle(self) -> None:
        """Take off what was charged in an earlier run and has no answer: it counts as spent."""
        while self._journal is not None and (lost := self._journal.lost(self.to)) is not None:
            share = (self._left * self._share - lost).value / self._left.value if self._left.value else 0.0
            self._share = share if share > ROUNDING else 0.0  # what rounding left over is nothing, as in a ledger

    @property
    def _books(self) -> Ledger:
        """The account by which releases are priced: as it stood when they were first asked for."""
        self._settle()
        return self._ledger if self._journal is None else self._journal.books(self._ledger)

    def lend(self, spend: Loss) -> Loss:
        """Hand a part of this grant on, as a `spend=` of another: it is no longer in this one, spent or not."""
        if not spend.fits_in(self.left):
            raise BudgetError(f"{self.to}: more is lent than this grant has left", hint="a larger spend=")
        self._left -= spend
        return self.afford(spend)

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
        reads = [self._ledger._reads(value.reads) for value in values]  # noqa: SLF001 one account
        return self._books._split(reads, self.afford(spend), shares or [1.0] * len(values))  # noqa: SLF001 one account

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
        batch = self._books._first_batch(zip(noises, distances, strict=True))  # noqa: SLF001 one account
        if batch is None:
            return noises
        factor = least_noise(batch, self.afford(spend).value)
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
        for value, *_ in requests:
            check_sealed(value, self._ledger._key)  # noqa: SLF001 nothing is charged for a value that could not be opened
        planned = [(value.distance, value.reads, mechanism, what) for value, mechanism, what in requests]
        return self._plan(planned, together=together).release_all([value for value, *_ in requests])

    def plan(self, requests: Iterable[tuple[Any, Columns | None, Mechanism[Any, Any, Any], str]]) -> Plan:
        """Charge for all requests at once, each a distance, what it reads, a mechanism and its name; then read in turn.

        What is read need not be known yet: it may follow from earlier answers of the plan (`Plan.release`).
        """
        return self._plan(requests, together=False)

    def _plan(
        self, requests: Iterable[tuple[Any, Columns | None, Mechanism[Any, Any, Any], str]], *, together: bool
    ) -> Plan:
        requests = [(distance, reads, mechanism, what) for distance, reads, mechanism, what in requests]
        source, losses = noise.current(), []
        for distance, columns, mechanism, _ in requests:
            check_known(mechanism, distance)
            _check_plain(distance, columns)
            losses.append(mechanism.loss(distance, self._ledger.order))
        reads = [self._ledger._reads(columns) for _, columns, *_ in requests]  # noqa: SLF001 one account
        total = self._books._price(list(zip(losses, reads, strict=True)))  # noqa: SLF001 one account
        together = together and (price := self._books._together(requests)) < total.value  # noqa: SLF001 one account
        if together:
            losses = [loss * (price / total.value) for loss in losses]
            total = Loss(price, self._ledger.order)
        if not total.fits_in(self.left * self._share):
            raise BudgetError(
                f"{self.to}: a release costs {self._ledger.percent(total)} of the budget, but "
                f"{self._ledger.percent(self.left * self._share)} of this grant is left",
                hint="a larger spend=",
            )
        charges = [
            (loss, mechanism.parameters(), what, distance, columns)
            for loss, columns, (distance, _, mechanism, what) in zip(losses, reads, requests, strict=True)
        ]
        past = self._past(charges, noise_name=noise.origin(source), together=together)
        if past is None:
            numbers = self._ledger._charge(  # noqa: SLF001 nobody else may write entries
                charges, to=self.to, noise_name=noise.origin(source), together=together
            )
        else:
            numbers = past.numbers
        self._left -= total / self._share
        waiting = [(*request, number) for request, number in zip(requests, numbers, strict=True)]
        return Plan(self._ledger._key, self, waiting, source, past)  # noqa: SLF001 the gate is the one who holds it

    def _past(self, charges: Sequence[Charge], *, noise_name: str, together: bool) -> Past | None:
        """The same batch in an earlier run of the same call; None if it is new, and is to be charged now."""
        if self._journal is None:
            return None
        requests = [
            (what, parameters, recorded(distance), None if reads is None else sorted(reads), loss.value)
            for loss, parameters, what, distance, reads in charges
        ]
        return self._journal.asked(requests, to=self.to, noise=noise_name, together=together)

    def _again(
        self, request: tuple[Any, Columns | None, Mechanism[Any, Any, Any], str], value: Private[Any, Any]
    ) -> Released[Any]:
        """A release whose answer was lost in a crash: charged again, from what is left for all that is to come."""
        before = self.left
        plan = self._plan([request], together=False)
        self._share *= self._left.value / before.value if before.value else 0.0
        self._left = before
        return plan.release(value)


class Plan:
    """Releases that were charged at once, before the first read, to be read in their order.

    Distance, `reads`, mechanism and loss of each were fixed with the charge; what it is of may follow from earlier
    answers. So they are one batch, also for figures over patterns of gaps (docs/proofs/ground_truth.md, section 4).
    """

    def __init__(
        self,
        key: Key,
        grant: Grant,
        waiting: Iterable[tuple[Any, Columns | None, Mechanism[Any, Any, Any], str, int]],
        source: noise.NoiseSource,
        past: Past | None,
    ) -> None:
        self._key = key
        self._grant = grant
        self._waiting = list(waiting)
        self._source = source
        self._past = past
        self._process = os.getpid()  # a forked child would read everything once more
        self._lock = threading.Lock()

    def release(self, value: Private[Any, Any]) -> Released[Any]:
        """Read the next one: a value with the distance that was planned, which reads what was planned."""
        return self.release_all([value])[0]

    def release_all(self, values: Sequence[Private[Any, Any]]) -> list[Released[Any]]:
        """Read as many, one after the other; what is kept of them in a journal is written before they are told."""
        journal = self._grant._journal if self._past is None else None  # noqa: SLF001 one gate
        if journal is not None:
            journal.check_open()
        answers = [self._release(value) for value in values]
        if journal is not None:
            journal.keep(answers)
        return answers

    def _release(self, value: Private[Any, Any]) -> Released[Any]:
        check_sealed(value, self._key)
        distance, reads, mechanism, what, number = self._claimed(value)
        if self._past is None:
            return Released(mechanism(value._open(self._key), self._source), number)  # noqa: SLF001 nobody else opens a seal but into a new one
        if number in self._past.answers:
            return Released(self._past.answers[number], number)
        return self._grant._again((distance, reads, mechanism, what), value)  # noqa: SLF001 one gate

    def _claimed(self, value: Private[Any, Any]) -> tuple[Any, Columns | None, Mechanism[Any, Any, Any], str, int]:
        """The request and the entry whose turn it is, which are used up: before the read, and by one thread."""
        with self._lock:
            if os.getpid() != self._process or type(noise.current()) is not type(self._source):
                raise BudgetError("this plan was charged by another process or under other noise", hint="its own plan")
            if not self._waiting:
                raise BudgetError("all that was planned is released", hint="a plan that has this release in it")
            distance, reads, *_ = self._waiting[0]
            if (distance, reads) != (value.distance, value.reads):
                raise BudgetError(
                    f"planned was a value at {distance} that reads {_told(reads)}, not one at {value.distance} that "
                    f"reads {_told(value.reads)}",
                    hint="releases in the order of the plan, each as it was planned",
                )
            return self._waiting.pop(0)


def recorded(distance: Linf | Smooth | Sampled) -> dict[str, float]:
    """A distance as an entry records it."""
    return {type(distance).__name__: distance.at_most}


def _check_plain(distance: Linf | Smooth | Sampled, reads: object) -> None:
    """Refuse what could say of itself that it equals another: numbers, texts and sets are of their very types."""
    numbers = [getattr(distance, field.name) for field in fields(distance)]
    plain = all(type(number) in (int, float) for number in numbers)
    if not plain or not (reads is None or (type(reads) is frozenset and all(type(column) is str for column in reads))):
        raise BudgetError("this distance, or what is read, is not made of plain numbers and names", hint="plain ones")


def _told(reads: Columns | None) -> str:
    return "every row" if reads is None else f"rows observed on {', '.join(sorted(reads))}"
