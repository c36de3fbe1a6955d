"""A ledger as text for people, and as a summary for machines. All of it is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gapless.privacy.budget import PURE, Loss
from gapless.privacy.promise import gaps_told
from gapless.text import aligned, rounded_up, told_up
from gapless.types import GapRule

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger


def summary(ledger: Ledger, gaps: Mapping[str, GapRule] | None) -> dict[str, Any]:
    """Everything in a ledger, with what its header states about gaps; without the tokens of runs."""
    guarantee, assumed = ledger.guarantee(), ledger.budget.ground_truth
    entries = [entry.content() for entry in ledger.entries]
    summary = {
        "identity": ledger.identity,
        "table": ledger.table,
        "rows_per_person": ledger.protect.at_most,
        "budget": {"epsilon": ledger.budget.epsilon, "delta": ledger.budget.delta}
        | ({} if assumed is None else {"ground_truth": str(assumed)}),
        "gaps": gaps if gaps is None else {column: asdict(rule) for column, rule in gaps.items()},
        "order": None if ledger.order == PURE else ledger.order,
        "capacity": ledger.capacity.value,
        "spent": ledger.spent.value,
        "guarantee": {
            "epsilon": guarantee.epsilon if guarantee.private else None,
            "delta": guarantee.delta,
            "basis": guarantee.basis,
        },
        "entries": [{name: value for name, value in entry.items() if name != "run"} for entry in entries],
    }
    if ledger.first_batch is not None:
        batch, price = ledger.first_batch
        summary["first_batch"] = {"entries": len(batch.parts), "price": price, "one_by_one": batch.loss}
    return summary


def text(ledger: Ledger) -> str:
    """A ledger for people: its budget, what is spent and left, what is weak about its promise, and its entries."""
    assumed, delta = ledger.budget.ground_truth, ledger.budget.delta
    whom, for_whom = "", ""
    if assumed is not None:
        whom, for_whom = " for the incomplete table", " for the complete table behind the gaps"
        delta += assumed.failure
    used, left = ledger.percentages()
    lines = [
        f"Ledger of '{ledger.table}': ε = {told_up(ledger.budget.epsilon)}, δ = {told_up(delta)}{for_whom}, "
        f"protecting {ledger.protect}",
        f"  spent {used:.2f}%, left {left:.2f}%; the spending so far amounts, after the fact, to "
        f"ε = {rounded_up(ledger.amounts_to())}{whom}",
    ]
    lines += [f"  {note}" for note in (pricing_note(ledger),) if note]
    lines += [f"  {caution}" for caution in ledger.cautions()]
    if assumed is not None:
        lines += [f"  assuming that {assumed}", f"  {gaps_told(ledger.gap_rules(assumed))}", f"  {ledger.guarantee()}"]
        lines += [f"  {remark}" for remark in ledger.remarks]
    if ledger.entries:
        lines += ["", *_entries(ledger)]
    return "\n".join(lines)


def pricing_note(ledger: Ledger) -> str | None:
    """How a first batch was priced, in a sentence; None if each entry was priced by itself."""
    if ledger.first_batch is None:
        return None
    batch, price = ledger.first_batch
    share, alone = (ledger.percent(Loss(loss, ledger.order)) for loss in (price, batch.loss))
    if len(batch.parts) == 1:
        return f"The first entry is priced by its exact total: {share} of the budget, in place of {alone} by its loss."
    return (
        f"The first {len(batch.parts)} entries were fixed in advance and are priced together, by their exact "
        f"total: {share} of the budget, where one by one they would cost {alone}."
    )


def _entries(ledger: Ledger) -> Iterator[str]:
    """A line for each entry under a head; as wide as the longest name, within reason."""
    entries = ledger.entries
    share = "spent" if ledger.budget.ground_truth is None else "loss"
    by = aligned(["by", *(entry.to for entry in entries)], most=24)
    what = aligned(["for", *(entry.what for entry in entries)], most=48)
    yield f"  {'no':>4}  {share:>7}  {by[0]}  {what[0]}  mechanism"
    for entry, to, purpose in zip(entries, by[1:], what[1:], strict=True):
        name, *parameters = entry.mechanism.values()
        shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in parameters)
        percent = ledger.percent(Loss(entry.loss, ledger.order))
        yield f"  {entry.number:>4}  {percent:>7}  {to}  {purpose}  {name}({shown})"
