"""Permission to spend. Only this module starts the opening of a sealed value: after its charge, to add noise."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gapless.errors import Argument, BudgetError, Hint
from gapless.privacy import noise
from gapless.privacy.budget import Loss
from gapless.privacy.ledger_file import Entry, entries_of
from gapless.privacy.mechanisms import Mechanism
from gapless.privacy.pricing import CountNoise, Distance, Measurable, Pricing, Request, normalized_weights
from gapless.privacy.private import Key, Numbers, Private, Released, check_sealed, describe_reads
from gapless.text import plural

if TYPE_CHECKING:
    from gapless.privacy.journal import Journal
    from gapless.privacy.ledger import Ledger

T = TypeVar("T")
D = TypeVar("D", bound=Distance)
R = TypeVar("R", bound=Numbers)


class Grant:
    """Permission to spend up to a loss. The ledger is charged for releases only, not for the grant.

    `to` is who spends. A grant belongs to one thread: it checks what is left, then spends. The ledger may be shared.
    Every release has four steps: price it from public facts, charge the ledger, open the sealed value, add noise. Under
    a journal (the file in which a `resumable` run stores its answers) a stopped run repeats these steps. A batch that
    the ledger has charged to this run is not charged again, and an answer that the journal holds is not drawn again.
    """

    def __init__(self, ledger: Ledger, key: Key, spend: Loss, to: str, *, journal: Journal | None = None) -> None:
        self.to = to
        self._ledger = ledger
        self._key = key
        self._left = spend
        self._journal = journal

    @property
    def left(self) -> Loss:
        """The loss that may still be spent."""
        return self._left

    def transfer(self, spend: Loss) -> Loss:
        """Take a part out of this grant and return it, to be the `spend=` of another grant."""
        if not spend.fits_in(self._left):
            raise BudgetError(
                f"{self.to}: a part of {self._ledger.percent(spend)} of the budget was asked of this grant, "
                f"but only {self._ledger.percent(self._left)} of the budget is left in it",
                hint=Hint("pass a larger ", Argument("spend")),
            )
        self._left -= spend
        return spend

    def release(self, value: Private[T, D], mechanism: Mechanism[T, D, R], *, what: str) -> Released[R]:
        """Price, charge, open, add noise. The entry records `what` it is for, and stays after a crash."""
        return self.release_all([(value, mechanism, what)])[0]

    def release_all(
        self, requests: Sequence[tuple[Private[T, D], Mechanism[T, D, R], str]], *, together: bool = False
    ) -> list[Released[R]]:
        """Charge for all requests at once, then open their values: the noise is fixed before the first read.

        `together` declares them one mechanism. If nothing was released before and all noise is discrete Gaussian, it is
        priced by its exact total, where that is less than the sum of losses. Only distances, noise and `reads` need to
        be fixed for this, not values (docs/proofs/first_batch.md).
        """
        requests = list(requests)  # the same requests are charged and read
        if not requests:
            return []
        for value, *_ in requests:
            check_sealed(value, self._key)  # before the charge
        batch = [Request(value.distance, value.reads, mechanism, what) for value, mechanism, what in requests]
        return self.charge_plan(batch, together=together).release_all([value for value, *_ in requests])

    def charge_plan(self, requests: Iterable[Request], *, together: bool = False) -> Plan:
        """Price all requests and charge for them at once; the plan then reads their values in turn.

        The values need not exist yet: they may depend on earlier answers of the plan. Distances, noise and `reads` are
        fixed here, which is all that a price needs; `together` as in `release_all`.
        """
        requests, source = list(requests), noise.current()  # the operating system, or a test's repeatable noise
        if not all(type(request) is Request for request in requests):  # a subclass could state another loss
            odd = next(type(request).__name__ for request in requests if type(request) is not Request)
            wrong = f"a plan needs objects of the class Request, got a {odd}"
            raise BudgetError(wrong, hint="pass one Request for each release")
        price = self._ledger.price(requests, together=together, first_entries=self._entries_when_priced)
        if not price.total.fits_in(self._left):
            raise BudgetError(
                f"{self.to}: a release costs {self._ledger.percent(price.total)} of the budget of this table, but "
                f"only {self._ledger.percent(self._left)} of it is left in this grant",
                hint=Hint("pass a larger ", Argument("spend")),
            )
        noise_name, kept_rows = noise.source_name(source), self._ledger.kept_rows
        numbers = self._charge_once(entries_of(price, to=self.to, noise_name=noise_name, kept_rows=kept_rows))
        self._left -= price.total
        return Plan(self._key, list(zip(requests, numbers, strict=True)), source, self._journal)

    def _charge_once(self, entries: Sequence[Entry]) -> list[int]:
        """Charge for the entries, unless an earlier run of the same call did; returns their numbers."""
        if self._journal is None or not entries:
            return self._ledger.charge(entries)
        # The numbers of the entries if the stopped run charged them. Else the journal records the batch first.
        charged = self._journal.charged_batch(entries, entries_when_priced=self._ledger.entry_count)
        return self._ledger.charge(entries, run=self._journal.run) if charged is None else charged

    def even_loss(self, values: Sequence[Measurable], spend: Loss) -> Loss:
        """The same loss for each value, such that releasing all of them next costs `spend`.

        Usually it is `spend` divided by their number. Under a budget with `ground_truth`, values that leave out rows
        with gaps cost less than their loss, so it can be larger (docs/proofs/ground_truth.md, section 6). It depends on
        the public `reads` of the values only.
        """
        return self.split_losses(values, spend)[0]

    def split_losses(
        self, values: Sequence[Measurable], spend: Loss, *, shares: Sequence[float] | None = None
    ) -> list[Loss]:
        """Like `even_loss`, with losses of the relative sizes `shares`."""
        reads = [self._ledger.recorded_reads(value.reads) for value in values]
        return self._pricing.split_losses(reads, spend, normalized_weights(shares or [1.0] * len(values)))

    def noise_for(
        self, counts: Sequence[Measurable], spend: Loss, *, shares: Sequence[float] | None = None
    ) -> list[CountNoise]:
        """Noise for each count so that releasing all next, `together`, costs `spend`.

        Losses have the relative sizes `shares`, or are even. For the first batch of a ledger with δ > 0 there is less
        noise than by `split_losses`, since the batch is priced by its exact total.
        """
        return self._pricing.noise_for(counts, self.split_losses(counts, spend, shares=shares), spend)

    @property
    def _entries_when_priced(self) -> int | None:
        """If a stopped run is repeated: how many entries the ledger had when that run priced this batch. Else None.

        With it the price is the same again, even if other processes have charged releases since.
        """
        return None if self._journal is None else self._journal.entries_when_priced

    @property
    def _pricing(self) -> Pricing:
        return self._ledger.pricing(first_entries=self._entries_when_priced)


class Plan:
    """Releases that were charged at once, before the first read, and are read in this order.

    Distance, `reads`, mechanism and loss of each are fixed by the charge; the value may depend on earlier answers. So
    guarantees for one batch apply (docs/proofs/ground_truth.md, section 4; docs/proofs/first_batch.md).
    """

    def __init__(
        self, key: Key, waiting: Sequence[tuple[Request, int]], source: noise.NoiseSource, journal: Journal | None
    ) -> None:
        self._key = key
        self._waiting = list(waiting)
        self._source = source
        self._journal = journal
        self._process = os.getpid()  # a forked child would release everything a second time
        self._lock = threading.Lock()

    def release(self, value: Private[Any, Any]) -> Released[Any]:
        """Read the next value, which must have the distance and the `reads` that were planned."""
        return self.release_all([value])[0]

    def release_all(self, values: Sequence[Private[Any, Any]]) -> list[Released[Any]]:
        """Read the next values in turn. Under a journal all answers are on the disk before they are returned."""
        answers, drawn = [], []
        for value, (request, number) in self._take_requests(list(values)):
            answer = None if self._journal is None else self._journal.stored_answer(number)
            if answer is None:
                answer = self._draw(value, request, number)
                drawn.append(answer)
            answers.append(answer)
        if drawn and self._journal is not None:
            self._journal.write_answers(drawn)
        return answers

    def _draw(self, value: Private[Any, Any], request: Request, number: int) -> Released[Any]:
        """Open the sealed value and add noise."""
        return Released(request.mechanism(value._open(self._key), self._source), number)  # noqa: SLF001 the one place that starts an opening

    def _take_requests(self, values: list[Private[Any, Any]]) -> list[tuple[Private[Any, Any], tuple[Request, int]]]:
        """Each value with its request and entry: removed from the plan before the first read, all of them or none."""
        for value in values:
            check_sealed(value, self._key)
        with self._lock:
            if os.getpid() != self._process or type(noise.current()) is not type(self._source):
                raise BudgetError(
                    "this plan was charged in another process or with another source of noise",
                    hint="use the plan in the process, and with the source of noise, that it was made with",
                )
            if len(values) > len(self._waiting):
                raise BudgetError(
                    f"this plan has {plural(len(self._waiting), 'release')} left, got {plural(len(values), 'value')}",
                    hint="add a request for each release when you make the plan",
                )
            for value, (planned, _) in zip(values, self._waiting, strict=False):
                if (planned.distance, planned.reads) != (value.distance, value.reads):
                    raise BudgetError(
                        f"the next value of the plan has {planned.distance} and reads {describe_reads(planned.reads)}, "
                        f"but this one has {value.distance} and reads {describe_reads(value.reads)}",
                        hint="release the values in the order of the plan, each as it was planned",
                    )
            taken, self._waiting = self._waiting[: len(values)], self._waiting[len(values) :]
            return list(zip(values, taken, strict=True))
