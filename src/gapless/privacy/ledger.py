"""The ledger: what was spent on what, written down before anything is read.

The account and what it may grant; the file underneath, with its seal and its lock, is `ledger_file`.
A ledger guards against accidents and forgetting, not against a holder who forges it: the holder has the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gapless.errors import BudgetError, LedgerError
from gapless.privacy import noise
from gapless.privacy.accounting import composed_epsilon
from gapless.privacy.amplified_pld import partition_epsilon
from gapless.privacy.assumptions import Assumption
from gapless.privacy.budget import PURE, ROUNDING, Budget, Loss, Rows, epsilon_of
from gapless.privacy.ground_truth import Release, calibrated, mean_exp, merged, most_lost, observed, renyi
from gapless.privacy.ledger_file import (
    RESTORE,
    Entry,
    account,
    append,
    budget_of,
    hash_of,
    header_of,
    lines_of,
    new_header,
    today,
)
from gapless.privacy.mechanisms import Mechanism
from gapless.privacy.private import Columns, Key, Linf, Private, Released, Smooth
from gapless.privacy.promise import GroundTruth, Guarantee
from gapless.privacy.rounding import rounded_up, told_up

T = TypeVar("T")
D = TypeVar("D", bound=Linf | Smooth)
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
        return self._ledger._even([value.reads for value in values], spend)  # noqa: SLF001 one account

    def release_all(self, requests: Sequence[tuple[Private[T, D], Mechanism[T, D, R], str]]) -> list[Released[R]]:
        """Charge for all requests together, then read: their noise was fixed before the first read."""
        if not requests:
            return []
        source, key = noise.current(), self._ledger._key  # noqa: SLF001 the gate is the one who holds it
        losses = []
        for value, mechanism, _ in requests:
            value._check(key)  # noqa: SLF001 nothing is charged for a value that could not be opened
            losses.append(mechanism.loss(value.distance, self._ledger.order))
        reads = [value.reads for value, *_ in requests]
        total = self._ledger._price(list(zip(losses, reads, strict=True)))  # noqa: SLF001 one account
        if not total.fits_in(self.left):
            raise BudgetError(
                f"{self.to}: a release costs {self._ledger.percent(total)} of the budget, but "
                f"{self._ledger.percent(self.left)} of this grant is left",
                hint="a larger spend=",
            )
        numbers = self._ledger._charge(  # noqa: SLF001 nobody else may write entries
            [
                (loss, mechanism.parameters(), what, value.distance, value.reads)
                for loss, (value, mechanism, what) in zip(losses, requests, strict=True)
            ],
            to=self.to,
            noise_name=noise.origin(source),
        )
        self.left -= total
        return [
            Released(mechanism(value._open(key), source), number)  # noqa: SLF001 the one place that opens a seal
            for number, (value, mechanism, _) in zip(numbers, requests, strict=True)
        ]


class Ledger:
    """The append-only account of one table.

    Use `Ledger.open` for an existing file; `gapless.read` opens or creates the ledger of the table it reads.
    """

    def __init__(self, path: str | Path, header: dict[str, Any]) -> None:
        self.path = Path(path)
        self.table: str = header["table"]
        self.protect = Rows(header["rows_per_person"])
        self.budget = budget_of(header)
        self.order: float = PURE if header["order"] is None else header["order"]
        self._entries: list[Entry] = []
        self._amplified = (0, 0.0)  # of how many entries, and what they amount to for the complete table
        self._header = header
        self._key = Key()
        self._offset = 0
        self._last = ""

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open an existing ledger and check every line of it."""
        path = Path(path)
        if not path.is_file():
            raise LedgerError(f"no ledger {path}", hint="check the path; reading a table with a budget creates one")
        with account(path) as path:
            ledger = cls(path, header_of(path))
            ledger._catch_up()
            return ledger

    @classmethod
    def attach(cls, path: str | Path, *, table: str, protect: Rows, budget: Budget | None) -> Ledger:
        """Open the ledger of this very table, or create it if there is none."""
        path = Path(path)
        if budget is None and not path.exists():
            raise BudgetError(f"{path} is new and has no budget", hint="budget=Budget(epsilon=1.0, delta=1e-6)")
        if budget is not None:
            with account(path) as path:
                if path.stat().st_size == 0:  # new, and no other process was faster
                    append(path, 0, json.dumps(new_header(table, protect, budget)) + "\n")
        ledger = cls.open(path)
        said = {"table": table, "protect": protect, "budget": budget or ledger.budget}
        for name, value in said.items():
            kept = getattr(ledger, name)
            if kept != value:
                raise LedgerError(
                    f"{path} is the ledger of {name} {str(kept)!r}, not {str(value)!r}",
                    hint="the ledger of this table, with the budget it was opened with",
                )
        return ledger

    # ------------------------------------------------------------------ the account

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was spent on what, other processes' entries as of the last look at the file."""
        return tuple(self._entries)

    @property
    def capacity(self) -> Loss:
        """The whole budget as a loss."""
        return Loss(self._header["capacity"], self.order)

    @property
    def spent(self) -> Loss:
        """What has been spent, other processes' entries as of the last look at the file.

        The sum of the losses; under a budget with `ground_truth` what they amount to for the complete table.
        """
        if self.budget.ground_truth is None:
            return Loss(math.fsum(entry.loss for entry in self.entries), self.order)
        entries, (known, figure) = self.entries, self._amplified  # another thread may add entries meanwhile
        if known != len(entries):
            figure = mean_exp(merged(_releases(entries)), self.budget.ground_truth, rows=self.protect.at_most)
            self._amplified = (len(entries), figure)
        return Loss(figure, self.order)

    def _price(self, charges: Sequence[tuple[Loss, Columns | None]]) -> Loss:
        """What these add to what is spent: never more than their losses."""
        total = sum((loss for loss, _ in charges), Loss(0.0, self.order))  # refuses a loss of another unit
        if self.budget.ground_truth is None:
            return total
        sets = merged([*_releases(self._entries), *((loss.value, reads) for loss, reads in charges)])
        after = Loss(mean_exp(sets, self.budget.ground_truth, rows=self.protect.at_most), self.order)
        return min(total, after - self.spent, key=lambda loss: loss.value)

    def _even(self, reads: Sequence[Columns | None], spend: Loss) -> Loss:
        if self.budget.ground_truth is None:
            return spend / len(reads)
        target, before = (self.spent + spend).value, merged(_releases(self._entries))
        loss = calibrated(before, reads, target, self.budget.ground_truth, rows=self.protect.at_most)
        return Loss(loss * (1 - ROUNDING), self.order)

    @property
    def left(self) -> Loss:
        """What may still be spent; a rounding residue of a spent budget is nothing."""
        left = self.capacity - self.spent
        return left if left.value > ROUNDING * self.capacity.value else Loss(0.0, self.order)

    def share(self, *, percent: float) -> Loss:
        """A part of the whole budget, to be passed as `spend=`."""
        if not (isinstance(percent, int | float) and 0 < percent <= 100):
            raise BudgetError(f"{percent!r} percent of the budget", hint="a number above 0 and up to 100")
        return self.capacity * (percent / 100)

    def percent(self, loss: Loss) -> str:
        """A loss as a share of the whole budget, for people."""
        return f"{100 * loss.value / self.capacity.value:.2f}%"

    def grant(self, spend: Loss, *, to: str) -> Grant:
        """Permission to spend up to `spend`, if that much is left."""
        if not isinstance(spend, Loss) or spend.order != self.order:
            raise BudgetError(f"{to}: spend is not a loss of this ledger", hint="spend=table.ledger.share(percent=50)")
        if spend.value <= 0:
            raise BudgetError(f"{to}: spend is nothing", hint="a share of the budget above 0%")
        self.refresh()
        if not spend.fits_in(self.left):
            raise self._overspent(spend, to, "spend asks for")
        return Grant(self, spend, to)

    def refresh(self) -> None:
        """Look at the file again: other processes may have spent."""
        with account(self.path):
            self._catch_up()

    def _overspent(self, loss: Loss, to: str, verb: str) -> BudgetError:
        return BudgetError(
            f"{to}: {verb} {self.percent(loss)} of the budget, but {self.percent(self.left)} is left",
            hint="pass a smaller spend=, or ask the holder for a larger Budget",
        )

    def _charge(
        self,
        charges: Sequence[tuple[Loss, dict[str, Any], str, Linf | Smooth, Columns | None]],
        *,
        to: str,
        noise_name: str,
    ) -> list[int]:
        """Write the entries down, flushed to the disk, and give their numbers. Refuses to overspend."""
        with account(self.path):
            self._catch_up()
            price = self._price([(loss, reads) for loss, *_, reads in charges])
            # A figure for the complete table is rounded up already: it need only keep within ε itself.
            whole = Loss(self.budget.epsilon * (1 - ROUNDING), self.order)
            most = self.capacity if self.budget.ground_truth is None else whole
            if not (self.spent + price).fits_in(most):
                raise self._overspent(price, to, "a release costs")
            first = len(self.entries) + 1
            entries = [
                Entry(
                    loss=loss.value,
                    number=first + i,
                    batch=first,
                    to=to,
                    what=what,
                    mechanism=parameters,
                    distance={type(distance).__name__: distance.at_most},
                    reads=None if reads is None else sorted(reads),
                    noise=noise_name,
                    time=today(),
                )
                for i, (loss, parameters, what, distance, reads) in enumerate(charges)
            ]
            text, last = "", self._last
            for entry in entries:
                line = entry.line(last)
                text, last = text + line, hash_of(line)
            append(self.path, self._offset, text)
            self._catch_up()
            return [entry.number for entry in entries]

    def _catch_up(self) -> None:
        """Take in and check the lines written since the last look."""
        text = self.path.read_bytes()
        if len(text) < self._offset:
            raise LedgerError(f"{self.path} has become shorter", hint=RESTORE)
        for line in lines_of(text[self._offset :]):
            self._take(line)

    def _take(self, line: str) -> None:
        number = len(self.entries) + 1
        try:
            content = json.loads(line)
            previous = content.pop("previous", "")
            if self._offset > 0:
                entry = Entry(**content)
                if previous != self._last or entry.number != number or not entry.loss >= 0:
                    raise ValueError  # noqa: TRY301 one message for every way in which a line can be wrong
                self._entries.append(entry)
        except (ValueError, TypeError, AttributeError):
            raise LedgerError(f"{self.path} was changed at entry {number}", hint=RESTORE) from None
        self._offset += len(line.encode())
        self._last = hash_of(line)

    # ------------------------------------------------------------------ reading it

    def guarantee(self) -> Guarantee:
        """What is promised for the incomplete table.

        The filter's (ε, δ) is the budget's, whatever the answers were. When all entries were charged in one
        batch, before the first read, the tighter total of their privacy loss distributions holds as well. A budget
        with `ground_truth` promises its ε to the complete table; the incomplete one may lose more, up to a bound.
        """
        epsilon, delta = self.budget.epsilon, self.budget.delta
        basis = (
            "the budget's Rényi filter" if self.order != PURE else "the budget, which stops on the sum of pure losses"
        )
        if self.budget.ground_truth is not None:
            epsilon = most_lost(epsilon, self.budget.ground_truth, rows=self.protect.at_most)
            basis = "the most that the filter for the complete table lets the incomplete one lose"
        if any(entry.noise != noise.SYSTEM for entry in self.entries):
            return Guarantee(self.table, self.protect, math.inf, 1.0, "noise of a test, not of the operating system")
        if self._all_fixed:
            events = [(entry.mechanism, next(iter(entry.distance.values()))) for entry in self.entries]
            pure = math.fsum(entry.loss for entry in self.entries)
            tighter = composed_epsilon(events, delta) if delta else pure
            if tighter is not None and tighter < epsilon:
                epsilon, basis = tighter, "the composed loss of releases that were all fixed in advance"
        return Guarantee(self.table, self.protect, epsilon, delta, basis)

    @property
    def _all_fixed(self) -> bool:
        """Whether everything was charged in one batch, before the first read."""
        return bool(self.entries) and all(entry.batch == 1 for entry in self.entries)

    def ground_truth(self, assumption: Assumption | None = None) -> GroundTruth:
        """What is promised for the complete table behind the gaps, if an assumption about them holds.

        Columns that were chosen in the light of earlier answers are not known in advance, so a figure computed from
        them is none that was promised. It is a guarantee when all was charged in one batch, or when the budget itself
        has this `ground_truth` and so stops on it. Else only the first batch is amplified, and all that the budget
        allows beyond it counts fully. Proved in docs/proofs/ground_truth.md and ground_truth_pld.md.

        Args:
            assumption: by default that of the budget.
        """
        assumption = assumption or self.budget.ground_truth
        if assumption is None:
            raise BudgetError("nothing is assumed about gaps", hint='ledger.ground_truth(MCAR({"income": 0.2}))')
        incomplete, rows, delta = self.guarantee(), self.protect.at_most, self.budget.delta
        first = merged(_releases(entry for entry in self.entries if entry.batch == 1))
        realised = mean_exp(merged(_releases(self.entries)), assumption, rows=rows) if self.order == PURE else None
        if incomplete.epsilon == math.inf:
            return GroundTruth(incomplete, assumption, math.inf, 1.0, incomplete.basis, None)
        amplified = renyi(first, assumption, self.order, rows=rows)
        if self._all_fixed:
            basis = "the mean over patterns of gaps, all releases fixed in advance"
            found = [(epsilon_of(Loss(amplified, self.order), delta), basis)]
            if self.order != PURE and assumption.columns == "independent":
                events = [
                    (entry.mechanism, next(iter(entry.distance.values())), frozenset(entry.reads or ()))
                    for entry in self.entries
                ]
                tighter = partition_epsilon(events, observed(assumption, rows), delta)
                if tighter is not None:
                    found.append((tighter, "amplified loss distributions of releases that were all fixed in advance"))
        elif assumption == self.budget.ground_truth:
            found = [(self.budget.epsilon, "the budget's filter for the complete table")]
        else:
            most = self.capacity.value if self.budget.ground_truth is None else incomplete.epsilon
            rest = max(0.0, most - math.fsum(first.values()))
            basis = "the first batch over patterns of gaps; all else, which may depend on earlier answers, in full"
            found = [(epsilon_of(Loss(amplified + rest, self.order), delta), basis)]
        found.append((incomplete.epsilon, "that of the incomplete table, which holds for the complete one as well"))
        epsilon, basis = min(found, key=lambda one: one[0])
        return GroundTruth(incomplete, assumption, epsilon, delta + assumption.failure, basis, realised)

    def summary(self) -> dict[str, Any]:
        """Everything in the ledger, for a machine. All of it is public."""
        guarantee = self.guarantee()
        return {
            "table": self.table,
            "rows_per_person": self.protect.at_most,
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta}
            | ({} if self.budget.ground_truth is None else {"ground_truth": str(self.budget.ground_truth)}),
            "order": None if self.order == PURE else self.order,
            "capacity": self.capacity.value,
            "spent": self.spent.value,
            "guarantee": {
                "epsilon": guarantee.epsilon if guarantee.epsilon < math.inf else None,
                "delta": guarantee.delta,
                "basis": guarantee.basis,
            },
            "entries": [{name: getattr(entry, name) for name in Entry.__slots__} for entry in self.entries],
        }

    def __str__(self) -> str:
        lost = Loss(math.fsum(entry.loss for entry in self.entries), self.order)
        spent = rounded_up(epsilon_of(lost, self.budget.delta))
        assumed = self.budget.ground_truth
        whom, for_whom, failure = "", "", 0.0
        if assumed is not None:
            whom, for_whom = " for the incomplete table", " for the complete table behind the gaps"
            failure = assumed.failure
        lines = [
            f"Ledger of '{self.table}': ε = {told_up(self.budget.epsilon)}, δ = {told_up(self.budget.delta + failure)}"
            f"{for_whom}, protecting {self.protect}",
            f"  spent {self.percent(self.spent)}, left {self.percent(self.left)}; "
            f"the spending so far amounts, after the fact, to ε = {spent}{whom}",
        ]
        if assumed is not None:
            lines += [f"  assuming that {assumed}", f"  {self.guarantee()}"]
        if self.entries:
            share = "spent" if self.budget.ground_truth is None else "loss"
            lines += ["", f"  {'no':>4}  {share:>7}  {'by':<18}  {'for':<28}  mechanism"]
        for entry in self.entries:
            name, *given = entry.mechanism.values()
            shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in given)
            share = self.percent(Loss(entry.loss, self.order))
            lines.append(f"  {entry.number:>4}  {share:>7}  {entry.to:<18}  {entry.what:<28}  {name}({shown})")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Ledger of {self.table!r}: {self.percent(self.left)} left>"


def _releases(entries: Iterable[Entry]) -> list[Release]:
    return [(entry.loss, entry.reads) for entry in entries]
