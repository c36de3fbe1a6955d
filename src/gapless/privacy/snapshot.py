"""The guarantees that follow from the header and the entries of a ledger, as of one moment.

Guarantees for the complete data hold for one definition of a gap. A release that was read with other gaps than the
header states counts as reading every row (docs/proofs/ground_truth.md, section 11).
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gapless.errors import BudgetError, Call, Hint, SchemaError
from gapless.privacy import noise
from gapless.privacy.accounting import composed_epsilon, partition_epsilon
from gapless.privacy.assumptions import MCAR, Assumption, EstimateReceipt, expand_rates, named_rates
from gapless.privacy.budget import PURE, Budget, Loss, Rows, epsilon_of
from gapless.privacy.first_batch import GaussianBatch
from gapless.privacy.ground_truth import (
    complete_data_loss,
    max_incomplete_loss,
    merge_releases,
    observed_probabilities,
    renyi_loss,
)
from gapless.privacy.ledger_file import VERSION, Entry
from gapless.privacy.private import Columns
from gapless.privacy.promise import GroundTruth, Guarantee, group_privacy
from gapless.privacy.registry import recomputed_loss
from gapless.text import nearest
from gapless.types import GapRule

_NO_DEFINITION = "the ledger does not say, so its rate lowers no figure"


@dataclass(frozen=True, slots=True)
class GapDefinitions:
    """The rule of each column: as the header states it, or None if it says nothing; and as a reading has it."""

    stated: Mapping[str, GapRule] | None
    reading: Mapping[str, GapRule]

    def is_same_rule(self, column: str) -> bool:
        """Whether the same cells of a column are gaps for the reading and by the header."""
        here, there = self.reading.get(column), (self.stated or {}).get(column)
        return here is not None and there is not None and here.digest == there.digest

    def recorded_reads(self, reads: Columns | None) -> Columns | None:
        """What a value of this reading reads, as an entry records it: every row, unless the header agrees on it all."""
        return reads if all(map(self.is_same_rule, reads or ())) else None

    def counted_reads(self, reads: Collection[str] | None) -> Columns | None:
        """What an entry reads, as figures for the complete table count it."""
        said = reads is not None and self.stated is not None and self.stated.keys() >= set(reads)
        return frozenset(reads or ()) if said else None

    @property
    def columns_with_gaps(self) -> list[str]:
        """The columns that have gaps, as the header states them: no other can lower a figure."""
        return [column for column, rule in (self.stated or {}).items() if rule.description != "nothing"]

    def digests(self) -> dict[str, str]:
        """The rules of the reading, for columns that have gaps."""
        return {column: rule.digest for column, rule in self.reading.items() if rule.description != "nothing"}

    def descriptions(self, assumption: Assumption) -> dict[str, str]:
        """What counts as a gap in each column that an assumption names."""
        rules = self.stated or {}
        return {
            column: rules[column].description if column in rules else _NO_DEFINITION
            for column in named_rates(assumption)
        }

    def check_columns(self, assumption: Assumption, where: object) -> None:
        """Refuse a rate for a column that neither the header nor the reading knows: misspelt, it changes nothing."""
        rates = getattr(assumption, "rates", None)  # what is no assumption is refused by `over`
        known = {**self.stated, **self.reading} if self.stated else {}
        for column in rates if known and isinstance(rates, Mapping) else ():
            if column not in known:
                raise SchemaError(f"no column {column!r} in {where}", hint=nearest(column, known))

    def remarks(self) -> tuple[str, ...]:
        """What weakens the promise to the complete table, in sentences; nothing in the usual case."""
        if self.stated is None:
            return (
                "This ledger was begun by an earlier gapless and does not say what a gap is: no figure for the "
                "complete table is below that for the incomplete one.",
            )
        others = [
            name for name, rule in self.reading.items() if rule.description != "nothing" and not self.is_same_rule(name)
        ]
        if not others:
            return ()
        return (
            f"This reading takes other cells for gaps than the ledger says, in {', '.join(map(repr, others))}: "
            "its releases that look at such a column count every row in figures for the complete table.",
        )


def check_rates_match_gaps(assumption: Assumption | None, gaps: Mapping[str, GapRule]) -> None:
    """Refuse rates that were estimated with other cells as gaps: they say nothing of these."""
    if not isinstance(assumption, MCAR) or assumption.paid is None:
        return
    for column in named_rates(assumption):
        if column in gaps and assumption.paid.gaps.get(column) != gaps[column].digest:
            raise BudgetError(
                f"the rate of gaps in {column!r} was estimated under a schema that takes other cells for gaps",
                hint="estimate it with the schema that this ledger was opened with",
            )


_EXACT = "the exact total of a first batch that was fixed in advance"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSnapshot:
    """The header and the entries of a ledger, at one moment.

    Attributes:
        path, table, identity, protect, budget, capacity, version, gaps: as the header states them.
        entries: all of them.
        lost: the sum of their losses.
        first: what was priced together, and its price.
    """

    path: Path
    table: str
    identity: str
    protect: Rows
    budget: Budget
    capacity: Loss
    version: int
    gaps: GapDefinitions
    entries: tuple[Entry, ...]
    total_loss: Loss
    first_batch: tuple[GaussianBatch, float] | None

    @property
    def order(self) -> float:
        """The Rényi order of all losses."""
        return self.capacity.order

    @property
    def is_single_batch(self) -> bool:
        """Whether everything was charged in one batch, before the first read."""
        return bool(self.entries) and all(entry.batch == 1 for entry in self.entries)

    def guarantee(self) -> Guarantee:
        """What is promised for the incomplete table.

        The filter's (ε, δ) is the budget's, whatever the answers were. When all entries were charged in one
        batch, before the first read, the tighter total of their privacy loss distributions holds as well. A budget
        with `ground_truth` promises its ε to the complete table; the incomplete one may lose more, up to a bound.
        """
        whole = self._budget_guarantee()
        if not (self.is_single_batch and whole.private):
            return whole
        basis, found = "the composed loss of releases that were all fixed in advance", [whole.epsilon]
        if self.first_batch is not None:
            basis = _EXACT
            found.append(self.first_batch[0].epsilon(whole.delta))
        if self.first_batch is None or self.first_batch[0].has_equal_noise:  # of many kinds of noise it would take long
            events = [(entry.mechanism, next(iter(entry.distance.values()))) for entry in self.entries]
            composed = composed_epsilon(events, whole.delta) if whole.delta else self.total_loss.value
            found += [] if composed is None else [composed]
        return replace(whole, epsilon=min(found), basis=basis) if min(found) < whole.epsilon else whole

    def guarantee_for(self, unit: Rows) -> Guarantee:
        """What the same releases promise to a person who has more rows than the header says.

        k times as many rows move a value k times as far. If everything was charged in one batch, before the first read,
        the losses at that distance add up, at the order that suits them best. Else the filter has counted losses at the
        distance of the header alone, and group privacy is what is known. Proved in docs/proofs/ledger.md, section 12.
        """
        told, units = self.guarantee(), -(-unit.at_most // self.protect.at_most)
        if units == 1 or not told.private:
            return told
        epsilon, delta = group_privacy(told.epsilon, told.delta, units)
        basis = f"group privacy for {units} times the protected unit"
        if (
            self.is_single_batch
            and (found := self._epsilon_at_distance(units)) < math.inf
            and (delta or found < epsilon)
        ):
            epsilon, delta, basis = found, told.delta, f"the losses of all releases at {units} times their distance"
        return Guarantee(self.table, unit, epsilon, delta, basis)

    def _epsilon_at_distance(self, times: int) -> float:
        """The ε at the budget's δ of releases that were all fixed in advance, at a multiple of their distance."""
        entries = Counter((tuple(entry.mechanism.items()), tuple(entry.distance.items())) for entry in self.entries)
        orders = [PURE] if self.order == PURE else [1 + 2 ** (step / 4) for step in range(-16, 65)]
        found = []
        for order in orders:
            with contextlib.suppress(BudgetError):  # a mechanism without a finite loss at this order
                losses = (
                    many
                    * recomputed_loss(dict(mechanism), {name: times * at_most for name, at_most in distance}, order)
                    for (mechanism, distance), many in entries.items()
                )
                found.append(epsilon_of(Loss(math.fsum(losses), order), self.budget.delta))
        return min(found, default=math.inf)

    def _budget_guarantee(self) -> Guarantee:
        """What is promised for the incomplete table whatever is still to come."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        basis = (
            "the budget's Rényi filter" if self.order != PURE else "the budget, which stops on the sum of pure losses"
        )
        if self.first_batch is not None:
            basis = f"{_EXACT}, and the budget's Rényi filter for all that follows"
        if self.budget.ground_truth is not None:
            epsilon = max_incomplete_loss(epsilon, self.budget.ground_truth, rows=self.protect.at_most)
            basis = "the most that the filter for the complete table lets the incomplete one lose"
        if any(entry.noise != noise.SYSTEM for entry in self.entries):
            epsilon, delta, basis = math.inf, 1.0, "noise of a test, not of the operating system"
        return Guarantee(self.table, self.protect, epsilon, delta, basis)

    def epsilon_at(self, delta: float) -> float:
        """The ε that the whole budget promises at another δ; infinite if none is known.

        Before anything was released that is the budget's own: a first batch that is priced by its exact total may lose
        more, at another δ, than the filter would let it.
        """
        if self.first_batch is None:
            if self.entries or self.order == PURE or self.version < VERSION:
                return epsilon_of(self.capacity, delta)
            return self.budget.epsilon if delta >= self.budget.delta else math.inf
        batch, price = self.first_batch
        return batch.epsilon(delta, rest=batch.remaining_loss(price))

    def epsilon_spent(self) -> float:
        """The ε of the spending so far, as if all of it had been fixed in advance."""
        if self.first_batch is None:
            return epsilon_of(self.total_loss, self.budget.delta)
        batch, price = self.first_batch
        return batch.epsilon(self.budget.delta, rest=max(0.0, self.total_loss.value - price))

    def receipt(self) -> EstimateReceipt:
        """Which ledger this is and what it promises in all: for what was estimated under it and is used elsewhere."""
        return EstimateReceipt(self.identity, self._budget_guarantee().promise, self.gaps.digests())

    def ground_truth(self, assumption: Assumption | None) -> GroundTruth:
        """What is promised for the complete table behind the gaps (`Ledger.ground_truth`)."""
        promised = self.budget.ground_truth
        stated = assumption or promised
        if stated is None:
            raise BudgetError("nothing is assumed about gaps", hint=Hint("pass ", Call("MCAR", {"income": 0.2})))
        if promised is not None and stated == promised:
            stated = promised  # which also says where its rates come from
        elif isinstance(stated, MCAR) and stated.paid is not None and stated.paid.ledger == self.identity:
            stated = replace(stated, paid=None)  # it is among the entries
        if stated is not promised:
            self.gaps.check_columns(stated, self.path)
        assumption = expand_rates(stated, self.gaps.columns_with_gaps)
        check_rates_match_gaps(assumption, self.gaps.stated or {})
        incomplete, told = self.guarantee(), self.gaps.descriptions(assumption)
        if not incomplete.private:
            return GroundTruth(incomplete, stated, math.inf, 1.0, incomplete.basis, told, None)
        realised = None
        if self.order == PURE:
            losses = merge_releases((entry.loss, self.gaps.counted_reads(entry.reads)) for entry in self.entries)
            realised = complete_data_loss(losses, assumption, rows=self.protect.at_most)
        if not self.is_single_batch and assumption == promised and self.gaps.stated is not None:
            found = [(self.budget.epsilon, "the budget's filter for the complete table")]
        else:
            found = [*self._epsilons_over_gap_patterns(assumption, incomplete.epsilon)]
        found.append((incomplete.epsilon, "that of the incomplete table, which holds for the complete one as well"))
        epsilon, basis = min(found, key=lambda figure: figure[0])
        return GroundTruth(incomplete, stated, epsilon, self.budget.delta + assumption.failure, basis, told, realised)

    def _epsilons_over_gap_patterns(self, assumption: Assumption, epsilon: float) -> Iterator[tuple[float, str]]:
        """Figures of the first batch over patterns of gaps; all that may come after it, up to ε, counts in full."""
        rows, delta, fixed = self.protect.at_most, self.budget.delta, self.is_single_batch
        begun = [entry for entry in self.entries if entry.batch == 1]
        losses = [
            recomputed_loss(entry.mechanism, entry.distance, self.order) if entry.together else entry.loss
            for entry in begun
        ]
        reads = [self.gaps.counted_reads(entry.reads) for entry in begun]
        amplified = renyi_loss(merge_releases(zip(losses, reads, strict=True)), assumption, self.order, rows=rows)
        most = self.capacity.value if self.budget.ground_truth is None else epsilon
        rest = 0.0 if fixed else max(0.0, most - math.fsum(entry.loss for entry in begun))
        yield (
            epsilon_of(Loss(amplified + rest, self.order), delta),
            "the mean over patterns of gaps, all releases fixed in advance"
            if fixed
            else "the first batch over patterns of gaps; all else, which may depend on earlier answers, in full",
        )
        if self.order == PURE or assumption.columns != "independent":
            return
        seen = observed_probabilities(assumption, rows)
        if self.first_batch is not None:
            batch, price = self.first_batch
            after = "" if fixed else "; all else, which may depend on earlier answers, in full"
            exact = batch.epsilon(delta, rest=0.0 if fixed else batch.remaining_loss(price), observed=seen)
            yield exact, f"the exact total of the first batch over patterns of gaps{after}"
            if exact < math.inf and not batch.has_equal_noise:
                return  # groups of unequal noise have too many cells for what follows
        if fixed:
            events = [
                (entry.mechanism, next(iter(entry.distance.values())), columns or frozenset())
                for entry, columns in zip(begun, reads, strict=True)
            ]
            if (tighter := partition_epsilon(events, seen, delta)) is not None:
                yield tighter, "amplified loss distributions of releases that were all fixed in advance"


class LedgerGuarantees(ABC):
    """The methods of a ledger that compute guarantees, each from one snapshot of its entries."""

    @property
    @abstractmethod
    def _snapshot(self) -> LedgerSnapshot: ...

    def guarantee(self) -> Guarantee:
        """The (ε, δ) for the incomplete table: the budget's, or the tighter total of a single batch."""
        return self._snapshot.guarantee()

    def guarantee_for(self, unit: Rows) -> Guarantee:
        """The (ε, δ) for a person with more rows than the protected unit; a δ of 1 promises nothing."""
        return self._snapshot.guarantee_for(unit)

    def epsilon_at(self, delta: float) -> float:
        """The ε that the whole budget promises at another δ; infinite if none is known."""
        return self._snapshot.epsilon_at(delta)

    def epsilon_spent(self) -> float:
        """The ε of the spending so far, as if all of it had been fixed in advance."""
        return self._snapshot.epsilon_spent()

    def receipt(self) -> EstimateReceipt:
        """The identity of this ledger and its promise: for estimates made under it and used elsewhere."""
        return self._snapshot.receipt()

    def ground_truth(self, assumption: Assumption | None = None) -> GroundTruth:
        """The (ε, δ) for the complete table, if an assumption about gaps holds; by default that of the budget.

        One rate stands for every column that may be missing. Columns that were chosen after earlier answers are not
        known in advance, so that only a first batch is amplified, and all that the budget allows beyond it counts in
        full; unless the budget itself stops on this assumption. Proved in docs/proofs/ground_truth.md and
        ground_truth_pld.md.
        """
        return self._snapshot.ground_truth(assumption)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what weakens the guarantee for the complete data; usually none."""
        return self._snapshot.gaps.remarks()

    def gap_rules(self, assumption: Assumption) -> dict[str, str]:
        """The definition of a gap in each column that an assumption names."""
        return self._snapshot.gaps.descriptions(assumption)
