"""The ledger: it records every release before any data are read for it.

`grant` gives permission to spend, `pricing` computes prices, `snapshot` computes guarantees from the entries, and
`ledger_file` writes the file with its lock and its seal (a copy of the last write). A ledger prevents overspending by
accident, but not forgery by its holder, who has the data anyway. Proved in docs/proofs/ledger.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from gapless.errors import Argument, BudgetError, Hint, LedgerError
from gapless.privacy import ledger_file, promise  # `promise` has the texts of reports and refusals
from gapless.privacy.budget import (
    PURE,
    RECOMMENDED_BUDGET,
    ROUNDING,
    Budget,
    Loss,
    Persons,
    Spend,
    Unit,
    is_same_unit,
    percent_of,
    share_of,
)
from gapless.privacy.first_batch import FirstBatchFilter, GaussianBatch
from gapless.privacy.grant import Grant
from gapless.privacy.ground_truth_filter import GroundTruthFilter
from gapless.privacy.journal import journal_of
from gapless.privacy.ledger_file import Entry, ReadPosition
from gapless.privacy.pricing import Price, Pricing, RenyiFilter, Request
from gapless.privacy.private import Columns, Key
from gapless.privacy.registry import RECOMPUTED_TOLERANCE, UNKNOWN_MECHANISM, recomputed_loss
from gapless.privacy.snapshot import GapDefinitions, LedgerGuarantees, LedgerSnapshot, check_rates_use_these_gaps
from gapless.types import GapRule

NEW_LEDGER_HINT = Hint(
    "pass ", Argument("budget", RECOMMENDED_BUDGET), " if nothing was released from the table before"
) | Hint("pass the path of its ledger as ", Argument("ledger"))

GapRules: TypeAlias = Mapping[str, GapRule]  # the definition of a gap in each column
_NO_GAPS: GapRules = MappingProxyType({})

# The register is the file `.gapless-register` beside the data; it names the ledger of each data file. The coverage says
# whether a second ledger for the same rows would be noticed: "registered" if their files are in the register,
# "unregistered" if the register cannot be written, "unknown" if the rows come from no file on this machine.
Coverage: TypeAlias = Literal["registered", "unregistered", "unknown"]


class Ledger(LedgerGuarantees):
    """The append-only privacy account of one table.

    Use `Ledger.open` for an existing file; `gapless.read` opens or creates the ledger of the table it reads. The header
    cannot be changed. `LedgerGuarantees` has the methods that compute (ε, δ) from the entries.
    """

    def __init__(
        self, path: Path, lines: Sequence[str], gaps: GapRules, given_path: Path, protect: Unit | None = None
    ) -> None:
        self._path = path
        self._given_path = given_path
        self._header = ledger_file.parse_header(path, lines[0] if lines else "")
        self._protect = protect or self._header.protect
        self._gaps = GapDefinitions(self._header.gaps, gaps)  # of the header, and of this reading
        self._key = Key()
        self._seen = ReadPosition().after(lines[0])  # offset and hash of the last line that was read
        self._entries: list[Entry] = []
        self._pricing = self._initial_pricing()
        self._coverage: Coverage = "unknown"
        self._register_files: Callable[[Ledger], Coverage] | None = None  # None once it is done
        self._add_lines(lines[1:])

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open an existing ledger, check every line and compute every loss again."""
        return cls._load(Path(path), _NO_GAPS)

    @classmethod
    def _load(cls, path: Path, gaps: GapRules, protect: Unit | None = None) -> Ledger:
        ledger_file.check_not_deleted(path)  # refuses if its seal exists but the file does not
        if not path.is_file():
            raise LedgerError(
                f"there is no ledger {path}", hint="check the path; the ledger of people.csv is people.ledger beside it"
            )
        with ledger_file.locked_ledger(path) as read_lines:
            return cls(path.resolve(), read_lines(ReadPosition()), gaps, path, protect)

    @classmethod
    def attach(
        cls, path: str | Path, *, table: str, protect: Unit, budget: Budget | None, gaps: GapRules = _NO_GAPS
    ) -> Ledger:
        """Open the ledger of this table, or create it if there is none.

        `gaps` defines a gap in each column for this reading of the data. A new ledger states it in its header. If the
        header of an existing ledger defines the gaps of a column differently, or not at all, a release that needs this
        column is recorded with `reads` None, as one that every row may affect. This can only raise its price.

        Of `Persons` the header binds the id. Another number of kept rows continues the same ledger: each entry records
        its own, to which its distance belongs.
        """
        path = Path(path)
        check_has_budget(path, budget)
        if budget is not None:
            if not path.exists():
                check_rates_use_these_gaps(budget.ground_truth, gaps)  # if its rates were estimated; reads no data
            header = ledger_file.new_header(table, protect, budget, gaps)  # a refusal leaves no empty file
            with ledger_file.locked_ledger(path) as read_lines:
                if not read_lines(ReadPosition()):  # new, and no other process was faster
                    ledger_file.append(path.resolve(), 0, json.dumps(header, allow_nan=False) + "\n")
        ledger = cls._load(path, gaps, protect)
        if not is_same_unit(ledger.header_unit, protect):
            raise promise.refused_unit(cls._load(path, gaps), path, protect)
        for name, given in {"table": table, "budget": budget or ledger.budget}.items():
            stated = getattr(ledger, name)
            if stated != given:
                raise LedgerError(
                    f"{path} is the ledger of a table called {stated!r}, not {given!r}"
                    if name == "table"
                    else f"{path} has the budget {str(stated)!r}, which cannot be changed to {str(given)!r}",
                    hint=promise.how_to_continue(ledger, name),
                )
        return ledger

    def register_before_charge(self, write: Callable[[Ledger], Coverage], coverage: Coverage) -> None:
        """Set how to register the files of the table. They are registered before the next charge, and not earlier.

        Args:
            write: refuses files of another ledger, writes the others into the register and returns the new coverage.
            coverage: what holds until then.
        """
        self._register_files, self._coverage = write, coverage

    def register_files(self) -> None:
        """Register the files of the table now, if that was not done."""
        write = self._register_files  # another thread may do the same
        if write is not None:
            self._coverage = write(self)
            self._register_files = None

    @property
    def path(self) -> Path:
        """The path of the ledger, with links resolved."""
        return self._path

    @property
    def given_path(self) -> Path:
        """The path with which it was opened."""
        return self._given_path

    @property
    def coverage(self) -> Coverage:
        """Whether a second ledger for the same files would be refused."""
        return self._coverage

    @property
    def identity(self) -> str:
        """The random identity of the ledger."""
        return self._header.identity

    @property
    def table(self) -> str:
        """The name of the table."""
        return self._header.table

    @property
    def protect(self) -> Unit:
        """The protected unit; of `Persons` with the number of rows that this reading of the table keeps."""
        return self._protect

    @property
    def kept_rows(self) -> int | None:
        """The most rows of a person that this reading of the table keeps; None under `Rows`, which keeps all."""
        return self.protect.at_most if isinstance(self.protect, Persons) else None

    @property
    def header_unit(self) -> Unit:
        """The protected unit in the header."""
        return self._header.protect

    @property
    def budget(self) -> Budget:
        """The budget, as the header states it."""
        return self._header.budget

    @property
    def order(self) -> float:
        """The Rényi order of all losses."""
        return self.capacity.order

    @property
    def capacity(self) -> Loss:
        """The whole budget as a loss."""
        return self._header.capacity

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Copies of all entries; those of other processes as of the last `refresh`."""
        return tuple(entry.copy() for entry in self._entries)

    @property
    def entry_count(self) -> int:
        """The number of entries; those of other processes as of the last `refresh`."""
        return len(self._entries)

    @property
    def spent(self) -> Loss:
        """The sum of the losses; under a budget with `ground_truth` the privacy loss of the complete data."""
        return self._pricing.spent

    def _initial_pricing(self) -> Pricing:
        """The pricing strategy of this ledger before its first entry."""
        # `reads_by_header(reads)` returns the `reads` of an entry as a set, or None if the header lacks the definition
        # of a gap in one of these columns. `recorded_reads` compared the definitions before the entry was written.
        budget, reads_by_header = self.budget, self._gaps.reads_by_header
        if budget.ground_truth is not None:
            return GroundTruthFilter(budget, budget.ground_truth, self.protect.at_most, reads_by_header)
        if self.order == PURE:
            return RenyiFilter(self.capacity)
        return FirstBatchFilter(self.capacity, budget=budget, reads_by_header=reads_by_header)

    def pricing(self, *, first_entries: int | None = None) -> Pricing:
        """The current pricing strategy; with `first_entries=n` that of the ledger when it had only n entries."""
        if first_entries is None:
            return self._pricing
        return self._pricing_after(self._initial_pricing(), self._entries[: max(0, first_entries)])

    def _pricing_after(self, pricing: Pricing, entries: Sequence[Entry]) -> Pricing:
        """The pricing strategy once these entries are charged; refuses entries that this ledger cannot have."""
        try:
            return pricing.after(entries)
        except ValueError as problem:
            raise self._damaged(str(problem)) from None

    def price(self, requests: Sequence[Request], *, together: bool = False, first_entries: int | None = None) -> Price:
        """The price of these releases, from public facts alone; `together` as in `Grant.release_all`."""
        recorded = [replace(request, reads=self.recorded_reads(request.reads)) for request in requests]
        return self.pricing(first_entries=first_entries).price(recorded, together=together)

    def recorded_reads(self, reads: Columns | None) -> Columns | None:
        """The `reads` that an entry records: None if this reading defines gaps differently than the header.

        Under `Persons` it is always None. A row that is not counted because of a gap can still take the place of
        another row of its person (docs/proofs/stability.md, section 2).
        """
        return None if isinstance(self.protect, Persons) else self._gaps.recorded_reads(reads)

    @property
    def left(self) -> Loss:
        """The loss that may still be spent; a rounding residue counts as 0."""
        left = self.capacity - self.spent
        return left if left.value > ROUNDING * self.capacity.value else Loss(0.0, self.order)

    def share(self, spend: Spend) -> Loss:
        """A `spend` as a loss: "10%" of the whole budget, or a loss, which is returned unchanged.

        Asking for the printed remaining percentage (`percentages`) spends all that is left.
        """
        share = share_of(self.capacity, spend)
        if isinstance(spend, Loss):
            return share
        _, left = self.percentages()
        excess = (share - self.left).value / self.capacity.value
        half_digit = 0.5e-4  # half of the last digit of a printed percentage
        return self.left if 0 < left <= round(percent_of(spend), 2) and excess <= half_digit else share

    def check_not_spent(self) -> None:
        """Refuse to continue if nothing is left, up to rounding."""
        if self.left.value < self.capacity.value * 1e-6:
            hint = "use what was released before; nothing more can be released from this table"
            raise BudgetError("the budget of this table is spent", hint=hint)

    def percent(self, loss: Loss) -> str:
        """A loss as a percentage of the whole budget, as text."""
        return f"{100 * loss.value / self.capacity.value:.2f}%"

    def percentages(self) -> tuple[float, float]:
        """The spent and the remaining percentage of the budget, with two digits; they add up to 100.

        The remaining percentage is rounded down, so that it can be spent as printed.
        """
        left = math.floor(1e4 * (self.left.value / self.capacity.value + ROUNDING)) / 100
        return round(100 - left, 2), left

    def grant(self, spend: Spend, *, to: str) -> Grant:
        """Permission to spend up to `spend`, if that much is left; entries record who spends it: `to`."""
        spend = self.share(spend)
        journal = journal_of(self)  # of the resumable run in which this is called; None outside of one
        if journal is not None and (recorded_spend := journal.next_grant(to)) is not None:
            self.refresh()
            # The whole grant of the stopped run: batches that it charged are taken from it again, not charged again.
            return Grant(self, self._key, recorded_spend, to, journal=journal)
        if spend.value <= 0:
            raise BudgetError(
                f"{to}: spend must be above 0, got 0", hint=Hint("pass a share such as ", Argument("spend", "10%"))
            )
        self.refresh()
        if not spend.fits_in(self.left):
            raise self._overspending_error(spend, to, "spend asks for")
        if journal is not None:
            journal.record_grant(to, spend)
        return Grant(self, self._key, spend, to, journal=journal)

    def refresh(self) -> None:
        """Read the entries that other processes have written since the last read."""
        with ledger_file.locked_ledger(self._path) as read_lines:
            self._add_lines(read_lines(self._seen))

    def _overspending_error(self, loss: Loss, to: str, verb: str) -> BudgetError:
        asked = math.ceil(1e4 * (loss.value / self.capacity.value - ROUNDING)) / 100  # rounded up: above what is left
        _, left = self.percentages()
        return BudgetError(
            f"{to}: {verb} {asked:.2f}% of the budget, but {left:.2f}% is left",
            hint=Hint("pass a ", Argument("spend"), f" of at most {left:.2f}%") if left else promise.SPENT,
        )

    def charge(self, entries: Sequence[Entry], *, run: str | None = None) -> list[int]:
        """Write the entries of one batch (`entries_of`) to the disk and return their numbers; refuse to overspend.

        Number, batch and hash are assigned here. `run` is the token of the resumable run that charges.
        """
        if not entries:
            return []
        self.register_files()  # lock order is register, then ledger; the reverse could deadlock
        to = entries[0].to
        with ledger_file.locked_ledger(self._path) as read_lines:
            self._add_lines(read_lines(self._seen))
            if self._entries and any(entry.together for entry in entries):
                raise BudgetError(
                    f"{to}: this batch was priced as the first release of the ledger, but another process was faster; "
                    "nothing was charged or released",
                    hint="run the same call again, which then gets the ordinary price",
                )
            cost = self._pricing.cost_of_losses([(Loss(entry.loss, self.order), entry.reads_set) for entry in entries])
            if not self._pricing.has_capacity_for(cost):
                raise self._overspending_error(cost, to, "a release costs")
            first_of_batch, previous_hash = len(self._entries) + 1, self._seen.last_hash
            written = []
            for number, entry in enumerate(entries, first_of_batch):
                written.append(replace(entry, number=number, batch=first_of_batch, run=run).line(previous_hash))
                previous_hash = ledger_file.hash_of(written[-1])
            self._add_lines(written, write=True)
            return list(range(first_of_batch, first_of_batch + len(written)))

    def _add_lines(self, lines: Sequence[str], *, write: bool = False) -> None:
        """Check new lines, then `write` them to the file if asked, and add them: all, or none if one is wrong."""
        entries: list[Entry] = []
        seen = self._seen
        try:
            for line in lines:
                number = len(self._entries) + len(entries) + 1
                entries.append(self._parse_checked(line, number=number, previous_hash=seen.last_hash))
                seen = seen.after(line)
            pricing = self._pricing_after(self._pricing, entries)
        except LedgerError as error:
            if not write:
                raise
            wrong = f"the new entries of the ledger could not be read again, so they were refused: {error.message}"
            raise LedgerError(wrong, hint=ledger_file.NOT_WRITTEN_HINT) from None
        if write:
            ledger_file.append(self._path, self._seen.end_offset, "".join(lines))
        self._entries += entries
        self._seen, self._pricing = seen, pricing

    def _parse_checked(self, line: str, *, number: int, previous_hash: str) -> Entry:
        """The entry in a line, if its hash continues the chain and its loss is at least the recomputed one."""
        try:
            entry = ledger_file.parse_entry(line, number=number, previous_hash=previous_hash)
            self._check_kept_rows(entry)
            least = recomputed_loss(entry.mechanism, entry.distance, self.order) * (1 - RECOMPUTED_TOLERANCE)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, BudgetError):
            raise self._damaged(f"was changed at entry {number}") from None
        if entry.loss < least and not entry.together:  # `FirstBatchFilter.after` checks those priced together
            raise self._damaged(
                f"records a smaller loss for entry {number} than this release has, so it was changed or damaged"
            )
        return entry

    def _check_kept_rows(self, entry: Entry) -> None:
        """Check that an entry states how many rows of a person were kept, if the ledger protects persons.

        Raises:
            ValueError: It does not, or should not.
        """
        is_known = entry.mechanism != UNKNOWN_MECHANISM  # after a crash nothing was read
        if is_known and (entry.kept_rows is None) == isinstance(self.header_unit, Persons):
            raise ValueError("kept_rows")

    def _damaged(self, problem: str) -> LedgerError:
        return LedgerError(f"{self._path} {problem}", hint=ledger_file.RESTORE_HINT)

    @property
    def _snapshot(self) -> LedgerSnapshot:
        """The header and the entries so far, from which `LedgerGuarantees` computes guarantees."""
        total = float(sum((Fraction(entry.loss) for entry in self._entries), Fraction(0)))
        return LedgerSnapshot(
            path=self._path,
            header=self._header,
            protect=self._reported_unit,
            gaps=self._gaps,
            entries=tuple(self._entries),
            total_loss=Loss(total, self.order),
            first_batch=self.first_batch,
        )

    @property
    def _reported_unit(self) -> Unit:
        """The protected unit of all entries: under `Persons` with the largest number of kept rows among them."""
        kept = [entry.kept_rows for entry in self._entries if entry.kept_rows is not None]
        return replace(self.protect, at_most=max(kept)) if kept and isinstance(self.protect, Persons) else self.protect

    @property
    def first_batch(self) -> tuple[GaussianBatch, float] | None:
        """The releases that were priced together, and their price; None if each entry was priced by itself."""
        return self._pricing.first_batch if isinstance(self._pricing, RenyiFilter) else None

    def cautions(self, *, expected_rows: int | None = None) -> list[str]:
        """Warnings about a weak guarantee; `expected_rows` is a public estimate of the number of rows."""
        # With `ground_truth` the budget states ε for the complete data; `guarantee` is for the incomplete table.
        epsilon = self.budget.epsilon if self.budget.ground_truth is None else self.guarantee().epsilon
        unnoticed = [promise.UNREGISTERED] if self.coverage == "unregistered" else []
        return promise.cautions(epsilon, self.budget.delta, expected_rows=expected_rows) + unnoticed

    def summary(self) -> dict[str, Any]:
        """The whole content of the ledger, for JSON. All of it is public."""
        return promise.summary(self, self._gaps.header_gaps)

    def __str__(self) -> str:
        return promise.text(self)

    def __repr__(self) -> str:
        return f"<Ledger of {self.table!r}: {self.percentages()[1]:.2f}% left>"


def check_has_budget(path: Path, budget: Budget | None, *, hint: str = NEW_LEDGER_HINT) -> None:
    """Refuse a new ledger without a budget, before anything is read or written."""
    ledger_file.check_not_deleted(path)
    if budget is None and not path.exists():
        raise BudgetError(f"{path} is new and needs a budget", hint=hint)
