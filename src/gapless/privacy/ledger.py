"""The ledger: what was spent on what, written down before anything is read.

The account. What may be spent and read is granted by `grant`; what the entries amount to is in `snapshot`; the file
underneath, with its seal and its lock, is `ledger_file`.
A ledger guards against accidents and forgetting, not against a holder who forges it: the holder has the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from gapless.errors import Argument, BudgetError, Call, Hint, LedgerError
from gapless.files import parse_json
from gapless.privacy.assumptions import Assumption, Paid
from gapless.privacy.budget import PURE, ROUNDING, USUAL, Budget, Loss, Rows, Spend, percent_of, share_of
from gapless.privacy.first_batch import FirstBatch, GaussianBatch
from gapless.privacy.grant import Grant
from gapless.privacy.ground_truth_filter import GroundTruthFilter
from gapless.privacy.journal import journal_of
from gapless.privacy.ledger_file import (
    RESTORE,
    VERSION,
    Entry,
    Seen,
    account,
    append,
    budget_of,
    check_not_lost,
    gaps_of,
    hash_of,
    identity_of,
    new_header,
    parse_header,
    seal_of,
)
from gapless.privacy.pricing import Price, Pricing, RenyiFilter, Request
from gapless.privacy.private import Columns, Key
from gapless.privacy.promise import UNREGISTERED, GroundTruth, Guarantee, cautions, summary, text
from gapless.privacy.registry import RECOMPUTED, UNKNOWN, recomputed_loss
from gapless.privacy.snapshot import Gaps, LedgerSnapshot, check_estimated
from gapless.text import rounded_up, told_up
from gapless.types import GapRule

FIRST = Hint("pass ", Argument("budget", USUAL), " if nothing was released from the table before") | Hint(
    "pass the path of its ledger as ", Argument("ledger")
)
SPENT = "use the releases that were paid for: the budget of this table is spent"

_NOTHING: Mapping[str, GapRule] = MappingProxyType({})

# Whether another ledger for the same rows would be noticed: files are entered in the register beside them, or they can
# not be, or the rows come from no file on this machine.
Coverage: TypeAlias = Literal["registered", "unregistered", "unknown"]


class Ledger:
    """The append-only account of one table.

    Use `Ledger.open` for an existing file; `gapless.read` opens or creates the ledger of the table it reads. What its
    header states cannot be changed.
    """

    def __init__(
        self,
        path: Path,
        lines: Sequence[str],
        gaps: Mapping[str, GapRule] = _NOTHING,
        *,
        given_path: Path | None = None,
    ) -> None:
        self._path = path
        self._given_path = given_path or path
        self._header = MappingProxyType(parse_header(path, lines[0] if lines else ""))
        self._budget = budget_of(self._header)
        self._order: float = PURE if self._header["order"] is None else self._header["order"]
        self._gaps = Gaps(gaps_of(self._header), gaps)
        self._key = Key()
        self._seen = Seen().after(lines[0])
        self._entries: list[Entry] = []
        self._pricing = self._initial_pricing()
        self._coverage: Coverage = "unknown"
        self._enter: Callable[[Ledger], Coverage] | None = None  # its files into the register, until that is done
        self._take(lines[1:])

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open an existing ledger, check every line of it and compute every loss again."""
        return cls._at(Path(path), _NOTHING)

    @classmethod
    def _at(cls, path: Path, gaps: Mapping[str, GapRule]) -> Ledger:
        check_not_lost(path)
        if not path.is_file():
            raise LedgerError(f"no ledger {path}", hint="check the path: the ledger of a file lies beside it")
        with account(path) as lines_after:
            return cls(path.resolve(), lines_after(Seen()), gaps, given_path=path)

    @classmethod
    def attach(
        cls,
        path: str | Path,
        *,
        table: str,
        protect: Rows,
        budget: Budget | None,
        gaps: Mapping[str, GapRule] = _NOTHING,
    ) -> Ledger:
        """Open the ledger of this very table, or create it if there is none.

        `gaps` is what counts as a gap in each column for this reading. A new ledger states it in its header; under an
        existing one, releases that leave out rows with a gap in a column of which the header says otherwise, or
        nothing, count every row in figures for the complete table.
        """
        path = Path(path)
        check_promised(path, budget)
        if budget is not None:
            if not path.exists():
                check_estimated(budget.ground_truth, gaps)
            header = new_header(table, protect, budget, gaps)  # whatever it refuses, no empty file is left behind
            with account(path) as lines_after:
                if not lines_after(Seen()):  # new, and no other process was faster
                    append(path.resolve(), 0, json.dumps(header, allow_nan=False) + "\n")
        ledger = cls._at(path, gaps)
        said = {"table": table, "protect": protect, "budget": budget or ledger.budget}
        for name, value in said.items():
            kept = getattr(ledger, name)
            if kept != value and name == "protect":
                raise _another_unit(ledger, path, protect)
            if kept != value:
                raise LedgerError(
                    f"{path} is the ledger of {name} {str(kept)!r}, not {str(value)!r}", hint=_go_on(ledger, name)
                )
        return ledger

    def covers(self, enter: Callable[[Ledger], Coverage], coverage: Coverage) -> None:
        """Have the files of the table that is read entered in the register beside them before the next charge.

        So a file that was read and not charged for binds nobody to this ledger.

        Args:
            enter: enters the files, says how far that was possible, and refuses those that another ledger pays for.
            coverage: what is known of it by now.
        """
        self._enter, self._coverage = enter, coverage

    def enter_files(self) -> None:
        """Enter them now."""
        enter = self._enter  # another thread may be at it too
        if enter is not None:
            self._coverage = enter(self)
            self._enter = None

    @property
    def coverage(self) -> Coverage:
        """Whether another ledger for the same files would be refused; "unknown" if no table was read from files."""
        return self._coverage

    # ------------------------------------------------------------------ what its header states

    @property
    def path(self) -> Path:
        """Its file."""
        return self._path

    @property
    def given_path(self) -> Path:
        """Its file, by the path that it was opened with."""
        return self._given_path

    @property
    def identity(self) -> str:
        """What tells this ledger from any other: random, or for one of an earlier gapless its first line."""
        return identity_of(self._header)

    @property
    def table(self) -> str:
        """The name of the table."""
        return str(self._header["table"])

    @property
    def protect(self) -> Rows:
        """The protected unit."""
        return Rows(self._header["rows_per_person"])

    @property
    def budget(self) -> Budget:
        """The promise, as the header states it."""
        return budget_of(self._header)

    @property
    def order(self) -> float:
        """The Rényi order of its losses."""
        return self._order

    @property
    def capacity(self) -> Loss:
        """The whole budget as a loss."""
        return Loss(self._header["capacity"], self.order)

    # ------------------------------------------------------------------ the account

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was spent on what, other processes' entries as of the last look at the file; copies."""
        return tuple(entry.copy() for entry in self._entries)

    @property
    def entry_count(self) -> int:
        """The number of entries, as of the last look at the file."""
        return len(self._entries)

    @property
    def spent(self) -> Loss:
        """What has been spent, other processes' entries as of the last look at the file.

        The sum of the losses; under a budget with `ground_truth` the loss of the complete data.
        """
        return self._pricing.spent

    def _initial_pricing(self) -> Pricing:
        """The strategy of this ledger as long as it has no entries."""
        if self._budget.ground_truth is not None:
            return GroundTruthFilter(self._budget, self._budget.ground_truth, self.protect.at_most, self._gaps.counted)
        plain = RenyiFilter(self.capacity)
        if self.order == PURE or self._header["version"] < VERSION:
            return plain
        return FirstBatch(self._budget, plain, self._gaps.counted)

    def pricing(self, *, after: int | None = None) -> Pricing:
        """How releases are priced now; or how they were when the ledger had `after` entries."""
        if after is None:
            return self._pricing
        try:
            return self._initial_pricing().after(self._entries[: max(0, after)])
        except ValueError as wrong:
            raise LedgerError(f"{self._path} {wrong}", hint=RESTORE) from None

    def price(self, requests: Sequence[Request], *, together: bool = False, after: int | None = None) -> Price:
        """The price of these releases, from public facts alone (`pricing`); `together` as in `Grant.release_all`."""
        recorded = [replace(request, reads=self.recorded_reads(request.reads)) for request in requests]
        return self.pricing(after=after).price(recorded, together=together)

    def recorded_reads(self, reads: Columns | None) -> Columns | None:
        """What a value of this reading reads, as an entry records it."""
        return self._gaps.recorded(reads)

    def batches_of(self, run: str) -> list[list[Entry]]:
        """The entries that a resumable run has charged, by the batches in which it did."""
        entries = [entry for entry in self._entries if entry.run == run]
        return [list(batch) for _, batch in groupby(entries, key=lambda entry: entry.batch)]

    @property
    def left(self) -> Loss:
        """What may still be spent; a rounding residue of a spent budget is nothing."""
        left = self.capacity - self.spent
        return left if left.value > ROUNDING * self.capacity.value else Loss(0.0, self.order)

    def share(self, spend: Spend) -> Loss:
        """What a `spend` amounts to: "10%" of the whole budget, or a loss, which is returned as it is.

        The percentage that `percentages` prints as left means all that is left.
        """
        share = share_of(self.capacity, spend)
        if isinstance(spend, Loss):
            return share
        _, left = self.percentages()
        beyond = (share - self.left).value / self.capacity.value
        return self.left if 0 < left <= round(percent_of(spend), 2) and beyond <= 0.5e-4 else share

    def check_not_spent(self) -> None:
        """Refuse to go on if nothing is left; what rounding left over is no budget."""
        if self.left.value < self.capacity.value * 1e-6:
            raise BudgetError("the budget of this table is spent", hint="use the releases that were paid for")

    def percent(self, loss: Loss) -> str:
        """A loss as a share of the whole budget, for people."""
        return f"{100 * loss.value / self.capacity.value:.2f}%"

    def percentages(self) -> tuple[float, float]:
        """What is spent and what is left of the whole budget, in percent with two digits that add up to 100.

        What is left is rounded down, so that whoever asks for the number that was told does not ask for more.
        """
        left = math.floor(1e4 * (self.left.value / self.capacity.value + ROUNDING)) / 100
        return round(100 - left, 2), left

    def grant(self, spend: Spend, *, to: str) -> Grant:
        """Permission to spend up to `spend`, if that much is left."""
        spend = self.share(spend)
        journal = journal_of(self)
        if journal is not None and (begun := journal.granted(to)) is not None:
            self.refresh()
            return Grant(self, self._key, begun, to, journal=journal)  # its first part may be spent already
        if spend.value <= 0:
            raise BudgetError(f"{to}: spend is nothing", hint="a share of the budget above 0%")
        self.refresh()
        if not spend.fits_in(self.left):
            raise self._overspent(spend, to, "spend asks for")
        if journal is not None:
            journal.grant(to, spend)
        return Grant(self, self._key, spend, to, journal=journal)

    def refresh(self) -> None:
        """Look at the file again: other processes may have spent."""
        with account(self._path) as lines_after:
            self._take(lines_after(self._seen))

    def _overspent(self, loss: Loss, to: str, verb: str) -> BudgetError:
        asked = math.ceil(1e4 * (loss.value / self.capacity.value - ROUNDING)) / 100  # never told as what is left
        _, left = self.percentages()
        return BudgetError(
            f"{to}: {verb} {asked:.2f}% of the budget, but {left:.2f}% is left",
            hint=Hint("pass a ", Argument("spend"), f" of at most {left:.2f}%") if left else SPENT,
        )

    def charge(self, entries: Sequence[Entry], *, run: str | None = None) -> list[int]:
        """Write entries down, flushed to the disk, and give their numbers. Refuses to overspend.

        Args:
            entries: one batch (`entries_of`); number, batch and hash are given here.
            run: the token of the resumable run that charges.
        """
        if not entries:
            return []
        self.enter_files()  # not under the lock below: whoever has a register's lock may wait for that of a ledger
        to = entries[0].to
        with account(self._path) as lines_after:
            self._take(lines_after(self._seen))
            if self._entries and any(entry.together for entry in entries):
                raise BudgetError(
                    f"{to}: another release was charged meanwhile, so this one is no first batch",
                    hint="run it again: its noise is then computed from what is left",
                )
            cost = self._pricing.cost(
                [
                    (Loss(entry.loss, self.order), None if entry.reads is None else frozenset(entry.reads))
                    for entry in entries
                ]
            )
            if not self._pricing.has_room_for(cost):
                raise self._overspent(cost, to, "a release costs")
            first, last = len(self._entries) + 1, self._seen.last
            written = []
            for number, entry in enumerate(entries, first):
                written.append(replace(entry, number=number, batch=first, run=run).line(last))
                last = hash_of(written[-1])
            append(self._path, self._seen.end, "".join(written))
            self._take(written)
            return list(range(first, first + len(written)))

    def _take(self, lines: Iterable[str]) -> None:
        """Take in lines that are new, all of them or, if one is wrong, none."""
        entries: list[Entry] = []
        seen = self._seen
        for line in lines:
            entries.append(self._checked(line, number=len(self._entries) + len(entries) + 1, after=seen.last))
            seen = seen.after(line)
        try:
            pricing = self._pricing.after(entries)
        except ValueError as wrong:
            raise LedgerError(f"{self._path} {wrong}", hint=RESTORE) from None
        self._entries += entries
        self._seen, self._pricing = seen, pricing

    def _checked(self, line: str, *, number: int, after: str) -> Entry:
        """The entry in a line: chained to the one before, and no cheaper than its mechanism is at its distance."""
        try:
            content = parse_json(line)
            previous = content.pop("previous")
            entry = Entry(**content)
            least = recomputed_loss(entry.mechanism, entry.distance, self.order) * (1 - RECOMPUTED)
            odd = entry.reads is not None and entry.mechanism == UNKNOWN  # of which nobody knows whom it read
            texts = [entry.to, entry.what, entry.noise, entry.time, *([] if entry.reads is None else entry.reads)]
            texts += [] if entry.run is None else [entry.run]
            odd |= isinstance(entry.reads, str) or not all(isinstance(text, str) for text in texts)
            odd |= not isinstance(entry.together, bool)
            if previous != after or entry.number != number or not 0 <= entry.loss < math.inf or odd:
                raise ValueError  # noqa: TRY301 one message for every way in which a line can be wrong
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, BudgetError):
            raise LedgerError(f"{self._path} was changed at entry {number}", hint=RESTORE) from None
        if entry.loss < least and not entry.together:  # those have a price in common (`FirstBatch.after`)
            raise LedgerError(f"{self._path} states less than entry {number} has lost", hint=RESTORE)
        return entry

    # ------------------------------------------------------------------ what it amounts to

    @property
    def _snapshot(self) -> LedgerSnapshot:
        """What is written down by now."""
        return LedgerSnapshot(
            path=self._path,
            table=self.table,
            identity=self.identity,
            protect=self.protect,
            budget=self.budget,
            capacity=self.capacity,
            version=self._header["version"],
            gaps=self._gaps,
            entries=tuple(self._entries),
            lost=Loss(float(sum((Fraction(entry.loss) for entry in self._entries), Fraction(0))), self.order),
            first=self.first_batch,
        )

    def guarantee(self) -> Guarantee:
        """What is promised for the incomplete table.

        The filter's (ε, δ) is the budget's, whatever the answers were. When all entries were charged in one
        batch, before the first read, the tighter total of their privacy loss distributions holds as well. A budget
        with `ground_truth` promises its ε to the complete table; the incomplete one may lose more, up to a bound.
        """
        return self._snapshot.guarantee()

    def guarantee_for(self, unit: Rows) -> Guarantee:
        """What is promised to a person who has more rows than the protected unit: for a unit that proved too small.

        By the losses at the larger distance if all entries were charged in one batch, else by group privacy. A δ of 1
        promises nothing.
        """
        return self._snapshot.guarantee_for(unit)

    def epsilon_at(self, delta: float) -> float:
        """The ε that the whole budget promises at another δ; infinite if none is known."""
        return self._snapshot.epsilon_at(delta)

    def receipt(self) -> Paid:
        """Which ledger this is and what it promises in all: for what was estimated under it and is used elsewhere."""
        return self._snapshot.receipt()

    def ground_truth(self, assumption: Assumption | None = None) -> GroundTruth:
        """What is promised for the complete table behind the gaps, if an assumption about them holds.

        Columns that were chosen in the light of earlier answers are not known in advance, so a figure computed from
        them is none that was promised. It is a guarantee when all was charged in one batch, or when the budget itself
        has this `ground_truth` and so stops on it. Else only the first batch is amplified, and all that the budget
        allows beyond it counts fully. Proved in docs/proofs/ground_truth.md and ground_truth_pld.md.

        Args:
            assumption: by default that of the budget. One rate stands for every column that may be missing; those that
                no release leaves out rows by change no figure.
        """
        return self._snapshot.ground_truth(assumption)

    # ------------------------------------------------------------------ reading it

    @property
    def remarks(self) -> tuple[str, ...]:
        """What weakens the promise to the complete table, in sentences; nothing in the usual case."""
        return self._gaps.remarks()

    @property
    def first_batch(self) -> tuple[GaussianBatch, float] | None:
        """The releases that were priced together, and their price; None if each entry was priced by itself."""
        return self._pricing.first if isinstance(self._pricing, RenyiFilter) else None

    def amounts_to(self) -> float:
        """The ε of the spending so far, as if all of it had been fixed in advance."""
        return self._snapshot.amounts_to()

    def gap_rules(self, assumption: Assumption) -> dict[str, str]:
        """What counts as a gap in each column that an assumption names."""
        return self._gaps.told(assumption)

    def cautions(self, *, expected_rows: int | None = None) -> list[str]:
        """What is weak about the promise, in words; `expected_rows` is about how many rows there are, if public."""
        epsilon = self.budget.epsilon if self.budget.ground_truth is None else self.guarantee().epsilon
        unnoticed = [UNREGISTERED] if self._coverage == "unregistered" else []
        return cautions(epsilon, self.budget.delta, expected_rows=expected_rows) + unnoticed

    def summary(self) -> dict[str, Any]:
        """Everything in the ledger, for a machine. All of it is public."""
        return summary(self, self._gaps.stated)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"<Ledger of {self.table!r}: {self.percentages()[1]:.2f}% left>"


def check_promised(path: Path, budget: Budget | None, *, hint: str = FIRST) -> None:
    """Refuse a ledger that would be new and without a budget; also before anything is read or made."""
    check_not_lost(path)
    if budget is None and not path.exists():
        raise BudgetError(f"{path} is new and has no budget", hint=hint)


def _go_on(ledger: Ledger, name: str) -> str:
    """How to use a ledger after a slip: never by another one, which would be a second budget."""
    if name == "table":
        return "the name that the table had before; another table has another file, with a ledger beside it"
    if ledger.left.value == 0:
        return SPENT
    if not ledger.entries:
        return Hint("leave ", Argument("budget"), " out: the ledger has the budget") | Hint(
            "delete the ledger and its .seal: nothing was spent under it"
        )
    left = f"{ledger.percentages()[1]:.2f}%"
    return Hint("leave ", Argument("budget"), f" out: the ledger has the budget, of which {left} is left")


def _another_unit(ledger: Ledger, path: Path, unit: Rows) -> LedgerError:
    """Why a table is not read with another protected unit than its ledger has, and what the releases promise then.

    A number that the holder knows to be wrong would be a false promise: no hint leads to one.
    """
    wrong = f"{path} protects {ledger.protect} of each person, and now it would be {unit}"
    if unit.at_most < ledger.protect.at_most:
        kept = Argument("protect", Call("Rows", ledger.protect.at_most))
        return LedgerError(wrong, hint=Hint("keep ", kept, ": a promise for more rows covers fewer as well"))
    if not ledger.entries:
        return LedgerError(
            f"{wrong}; nothing was spent under it",
            hint=Hint(f"delete {path} and {seal_of(path)}, and read the table again with ", Argument("budget")),
        )
    stated, true = ledger.guarantee(), ledger.guarantee_for(unit)
    if stated.private:
        promised, left = (f"({rounded_up(told.epsilon)}, {told_up(told.delta)})" for told in (stated, true))
        wrong += (
            f": its releases are less private than they state. For a person with {unit.at_most} rows "
            + (f"{left}-differential privacy is left" if true.delta < 1 else "no differential privacy can be proved")
            + f", in place of {promised}"
        )
    return LedgerError(
        wrong, hint="release nothing more under this ledger, and correct the privacy statements of its releases"
    )
