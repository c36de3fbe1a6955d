"""The guarantees that follow from the header and the entries of a ledger at one moment.

Guarantees for the complete data hold for one definition of a gap. A release that was read with other definitions than
the header's counts as reading every row (docs/proofs/ground_truth.md, section 11).
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
from gapless.privacy.budget import PURE, Loss, Persons, Unit, epsilon_of, is_same_unit, unit_call
from gapless.privacy.first_batch import GaussianBatch
from gapless.privacy.ground_truth import (
    complete_data_loss,
    max_incomplete_loss,
    merge_releases,
    observed_probabilities,
    renyi_loss,
)
from gapless.privacy.ledger_file import Entry, Header
from gapless.privacy.private import Columns
from gapless.privacy.promise import GroundTruth, Guarantee, group_privacy
from gapless.privacy.registry import recomputed_loss
from gapless.text import nearest
from gapless.types import GapRule

_KEPT_ROWS = (
    "that of the incomplete table; which rows of a person are kept depends on its gaps, so gaps lower no figure"
)
_UNDEFINED = "the ledger does not say, so its rate lowers no figure"


@dataclass(frozen=True, slots=True)
class GapDefinitions:
    """The definition of a gap in each column.

    Attributes:
        header_gaps: by the header.
        reading: by the schema with which the table was read.
    """

    header_gaps: Mapping[str, GapRule]
    reading: Mapping[str, GapRule]

    def is_same_rule(self, column: str) -> bool:
        """Whether the reading and the header define the gaps of a column in the same way."""
        read, stated = self.reading.get(column), self.header_gaps.get(column)
        return read is not None and stated is not None and read.digest == stated.digest

    def recorded_reads(self, reads: Columns | None) -> Columns | None:
        """The `reads` that an entry records: every row, unless the header defines all these gaps in the same way.

        This compares header and reading, when an entry is priced and written.
        """
        return reads if all(map(self.is_same_rule, reads or ())) else None

    def reads_by_header(self, reads: Collection[str] | None) -> Columns | None:
        """The `reads` of an entry, for guarantees for the complete data: every row if the header lacks a definition.

        This asks only the header, when a guarantee is computed from entries: the reading of an entry is not known then.
        """
        is_defined = reads is not None and self.header_gaps.keys() >= set(reads)
        return frozenset(reads or ()) if is_defined else None

    @property
    def columns_with_gaps(self) -> list[str]:
        """The columns that can have gaps by the header; the rates of other columns have no effect."""
        return [column for column, rule in self.header_gaps.items() if rule.description != "nothing"]

    def digests(self) -> dict[str, str]:
        """The digest of each definition of the reading, for columns that can have gaps."""
        return {column: rule.digest for column, rule in self.reading.items() if rule.description != "nothing"}

    def descriptions(self, assumption: Assumption) -> dict[str, str]:
        """The definition of a gap in each column that an assumption names."""
        return {
            name: self.header_gaps[name].description if name in self.header_gaps else _UNDEFINED
            for name in named_rates(assumption)
        }

    def check_columns(self, assumption: Assumption, where: object) -> None:
        """Refuse a rate for an unknown column: a misspelt one would have no effect."""
        rates = getattr(assumption, "rates", None)  # `expand_rates` refuses objects that are no assumption
        known = {**self.header_gaps, **self.reading} if self.header_gaps else {}
        for column in rates if known and isinstance(rates, Mapping) else ():
            if column not in known:
                raise SchemaError(f"no column {column!r} in {where}", hint=f"use {nearest(column, known)}")

    def remarks(self) -> tuple[str, ...]:
        """Sentences on what weakens the guarantee for the complete data; usually none."""
        others = [name for name in self.digests() if not self.is_same_rule(name)]
        if not others:
            return ()
        return (
            f"This reading takes other cells for gaps than the ledger says, in {', '.join(map(repr, others))}: "
            "its releases that look at such a column count every row in figures for the complete table.",
        )


def check_rates_use_these_gaps(assumption: Assumption | None, gaps: Mapping[str, GapRule]) -> None:
    """Refuse an assumption whose rates were estimated with another definition of a gap; reads no data."""
    if not isinstance(assumption, MCAR) or assumption.paid is None:
        return
    for column in named_rates(assumption):
        if column in gaps and assumption.paid.gaps.get(column) != gaps[column].digest:
            raise BudgetError(
                f"the rate of gaps in {column!r} was estimated under a schema that defines its gaps differently",
                hint="estimate the rates again, on the table as the schema of this ledger reads it",
            )


_EXACT_TOTAL = "the exact total of the first batch, which was fixed in advance"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSnapshot:
    """The header and the entries of a ledger at one moment.

    Attributes:
        path: the path of the ledger.
        header: its first line.
        protect: the protected unit of all entries.
        gaps: the definitions of gaps.
        entries: all entries.
        total_loss: the sum of their losses.
        first_batch: the releases that were priced together, and their price.
    """

    path: Path
    header: Header
    protect: Unit
    gaps: GapDefinitions
    entries: tuple[Entry, ...]
    total_loss: Loss
    first_batch: tuple[GaussianBatch, float] | None

    @property
    def order(self) -> float:
        """The Rényi order of all losses."""
        return self.header.capacity.order

    @property
    def is_single_batch(self) -> bool:
        """Whether everything was charged in one batch, before the first read."""
        return bool(self.entries) and all(entry.batch == 1 for entry in self.entries)

    def guarantee(self) -> Guarantee:
        """The (ε, δ) for the incomplete table.

        The filter guarantees the budget's (ε, δ), whatever the answers were. If all entries were charged in one batch,
        before the first read, the tighter total of their privacy loss distributions holds as well. A budget with
        `ground_truth` guarantees its ε for the complete data; the incomplete table may lose more, up to a bound.
        """
        whole = self._budget_guarantee()
        if not (self.is_single_batch and whole.private):
            return whole
        basis, found = "the composed loss of releases that were all fixed in advance", [whole.epsilon]
        if self.first_batch is not None:
            basis = _EXACT_TOTAL
            found.append(self.first_batch[0].epsilon(whole.delta))
        if self.first_batch is None or self.first_batch[0].has_equal_noise:  # else it would take long
            events = [(entry.mechanism, next(iter(entry.distance.values()))) for entry in self.entries]
            composed = composed_epsilon(events, whole.delta) if whole.delta else self.total_loss.value
            found += [] if composed is None else [composed]
        return replace(whole, epsilon=min(found), basis=basis) if min(found) < whole.epsilon else whole

    def guarantee_for(self, unit: Unit) -> Guarantee:
        """The (ε, δ) of the same releases for a person with more rows than the protected unit.

        If the unit is `Persons`, the guarantee holds for persons with any number of rows, and for no other unit.

        k times as many rows change a value by k times as much. If everything was charged in one batch, before the first
        read, the losses at that distance add up, at the best order. Otherwise the filter has added up losses at the
        distance of the header, and group privacy applies. Proved in docs/proofs/ledger.md, section 12.
        """
        if isinstance(self.protect, Persons) or isinstance(unit, Persons):
            if not is_same_unit(self.protect, unit):
                raise BudgetError(
                    f"the ledger protects {self.protect}, which says nothing about {unit}",
                    hint=Hint("pass ", unit_call(self.protect)),
                )
            return self.guarantee()
        stated, units = self.guarantee(), -(-unit.at_most // self.protect.at_most)
        if units == 1 or not stated.private:
            return stated
        epsilon, delta = group_privacy(stated.epsilon, stated.delta, units)
        basis = f"group privacy for {units} times the protected unit"
        found = self._epsilon_at_distance(units) if self.is_single_batch else math.inf
        if found < math.inf and (delta or found < epsilon):
            epsilon, delta, basis = found, stated.delta, f"the losses of all releases at {units} times their distance"
        return Guarantee(self.header.table, unit, epsilon, delta, basis)

    def _epsilon_at_distance(self, times: int) -> float:
        """The ε, at the budget's δ, of a single batch at a multiple of its distances."""
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
                found.append(epsilon_of(Loss(math.fsum(losses), order), self.header.budget.delta))
        return min(found, default=math.inf)

    def _budget_guarantee(self) -> Guarantee:
        """The (ε, δ) for the incomplete table, whatever is released later."""
        epsilon, delta = self.header.budget.epsilon, self.header.budget.delta
        basis = (
            "the budget's Rényi filter" if self.order != PURE else "the budget, which stops on the sum of pure losses"
        )
        if self.first_batch is not None:
            basis = f"{_EXACT_TOTAL}, and the Rényi filter, which limits all later releases to the rest of the budget"
        if self.header.budget.ground_truth is not None:
            epsilon = max_incomplete_loss(epsilon, self.header.budget.ground_truth, rows=self.protect.at_most)
            basis = "the most that the filter for the complete table lets the incomplete one lose"
        if any(entry.noise != noise.SYSTEM for entry in self.entries):
            epsilon, delta, basis = math.inf, 1.0, "noise of a test, not of the operating system"
        return Guarantee(self.header.table, self.protect, epsilon, delta, basis)

    def epsilon_at(self, delta: float) -> float:
        """The ε that the whole budget guarantees at another δ; infinite if none is known.

        Before the first release that is the budget's ε: a first batch that is priced by its exact total may lose more
        at another δ than the filter allows.
        """
        if self.first_batch is None:
            if self.entries or self.order == PURE:
                return epsilon_of(self.header.capacity, delta)
            return self.header.budget.epsilon if delta >= self.header.budget.delta else math.inf
        batch, price = self.first_batch
        return batch.epsilon(delta, rest=batch.remaining_loss(price))

    def epsilon_spent(self) -> float:
        """The ε of the spending so far, as if all of it had been fixed in advance."""
        if self.first_batch is None:
            return epsilon_of(self.total_loss, self.header.budget.delta)
        batch, price = self.first_batch
        return batch.epsilon(self.header.budget.delta, rest=max(0.0, self.total_loss.value - price))

    def receipt(self) -> EstimateReceipt:
        """The identity and the guarantee of this ledger, for estimates that are used elsewhere."""
        return EstimateReceipt(self.header.identity, self._budget_guarantee().promise, self.gaps.digests())

    def ground_truth(self, assumption: Assumption | None) -> GroundTruth:
        """The (ε, δ) for the complete data (`Ledger.ground_truth`)."""
        promised = self.header.budget.ground_truth
        stated = assumption or promised
        if stated is None:
            raise BudgetError(
                "a guarantee for the complete data needs an assumption about gaps",
                hint=Hint("pass the rate of gaps in each column, if it is public: ", Call("MCAR", {"income": 0.2})),
            )
        if promised is not None and stated == promised:
            stated = promised  # this one also names the source of its rates
        elif isinstance(stated, MCAR) and stated.paid is not None and stated.paid.ledger == self.header.identity:
            stated = replace(stated, paid=None)  # the estimate is among the entries
        if stated is not promised:
            self.gaps.check_columns(stated, self.path)
        assumption = expand_rates(stated, self.gaps.columns_with_gaps)
        check_rates_use_these_gaps(assumption, self.gaps.header_gaps)
        incomplete, rules = self.guarantee(), self.gaps.descriptions(assumption)
        if not incomplete.private:
            return GroundTruth(incomplete, stated, math.inf, 1.0, incomplete.basis, rules, None)
        realised = None
        if self.order == PURE:
            losses = merge_releases((entry.loss, self.gaps.reads_by_header(entry.reads)) for entry in self.entries)
            realised = complete_data_loss(losses, assumption, rows=self.protect.at_most)
        if isinstance(self.protect, Persons):
            found = [(incomplete.epsilon, _KEPT_ROWS)]
        elif not self.is_single_batch and assumption == promised:
            found = [(self.header.budget.epsilon, "the budget's filter for the complete table")]
        else:
            found = [*self._epsilons_over_gap_patterns(assumption, incomplete.epsilon)]
        found.append((incomplete.epsilon, "that of the incomplete table; these gaps give no better one"))
        epsilon, basis = min(found, key=lambda figure: figure[0])
        delta = self.header.budget.delta + assumption.failure
        return GroundTruth(incomplete, stated, epsilon, delta, basis, rules, realised)

    def _epsilons_over_gap_patterns(self, assumption: Assumption, epsilon: float) -> Iterator[tuple[float, str]]:
        """Values of ε with their basis: the first batch over patterns of gaps, and later releases in full."""
        rows, delta, fixed = self.protect.at_most, self.header.budget.delta, self.is_single_batch
        batch_entries = [entry for entry in self.entries if entry.batch == 1]
        losses = [
            recomputed_loss(entry.mechanism, entry.distance, self.order) if entry.together else entry.loss
            for entry in batch_entries
        ]
        reads = [self.gaps.reads_by_header(entry.reads) for entry in batch_entries]
        amplified = renyi_loss(merge_releases(zip(losses, reads, strict=True)), assumption, self.order, rows=rows)
        most = self.header.capacity.value if self.header.budget.ground_truth is None else epsilon
        rest = 0.0 if fixed else max(0.0, most - math.fsum(entry.loss for entry in batch_entries))
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
                return  # for unequal noise the next bound takes too long
        if fixed:
            events = [
                (entry.mechanism, next(iter(entry.distance.values())), columns or frozenset())
                for entry, columns in zip(batch_entries, reads, strict=True)
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

    def guarantee_for(self, unit: Unit) -> Guarantee:
        """The (ε, δ) for a person with more rows than the protected unit; a δ of 1 guarantees nothing."""
        return self._snapshot.guarantee_for(unit)

    def epsilon_at(self, delta: float) -> float:
        """The ε that the whole budget guarantees at another δ; infinite if none is known."""
        return self._snapshot.epsilon_at(delta)

    def epsilon_spent(self) -> float:
        """The ε of the spending so far, as if all of it had been fixed in advance."""
        return self._snapshot.epsilon_spent()

    def receipt(self) -> EstimateReceipt:
        """The identity and the guarantee of this ledger, for estimates that are used elsewhere."""
        return self._snapshot.receipt()

    def ground_truth(self, assumption: Assumption | None = None) -> GroundTruth:
        """The (ε, δ) for the complete table, if an assumption about gaps holds; by default that of the budget.

        One rate applies to every column that can have gaps. Columns chosen after earlier answers are not known in
        advance. So gaps lower the loss of a first batch only, and everything else that the budget allows counts in
        full, unless the budget's filter uses this assumption. Proved in docs/proofs/ground_truth.md and
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
