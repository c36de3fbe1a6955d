r"""The guarantees of a ledger, as numbers and as text: for the incomplete table and for the complete data.

Also group privacy, cautions about weak guarantees, and the ledger as text and as JSON. All of it is public.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.errors import Argument, BudgetError, Call, Hint, LedgerError
from gapless.privacy.assumptions import Assumption
from gapless.privacy.budget import PURE, Loss, Persons, Rows, Unit, unit_call, unit_content
from gapless.privacy.ledger_file import seal_of
from gapless.text import aligned, format_rounded_up, plural, rounded_up
from gapless.types import GapRule, checked_number, whole

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger


BELIEVED = "That no person has more rows is believed, not checked"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee for the incomplete table, as numbers and as text."""

    table: str
    protect: Unit
    epsilon: float
    delta: float
    basis: str

    def __str__(self) -> str:
        if not self.private:
            return f"{self.promise}."
        return " ".join((f"{self.promise}.", *(f"{note}." for note in self.notes), f"Basis: {self.basis}."))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the guarantee rests on, besides what gapless enforces."""
        is_believed = isinstance(self.protect, Rows) and self.protect.at_most > 1
        return (BELIEVED,) if is_believed else ()

    @property
    def private(self) -> bool:
        """Whether there is a guarantee: not with the noise of a test."""
        return self.epsilon < math.inf

    @property
    def promise(self) -> str:
        """The guarantee as text, without its basis."""
        if not self.private:
            return f"NOT PRIVATE: {self.basis}"
        return (
            f"({rounded_up(self.epsilon)}, {format_rounded_up(self.delta)})-differential privacy for adding or "
            f"removing {self.protect} of the incomplete table '{self.table}', schema public"
        )


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The guarantee for the complete data, under an assumption; it always includes that for the incomplete table.

    Two of these cannot be added: the same gaps serve all releases, so a ledger recomputes the figure.

    Attributes:
        incomplete: the guarantee for the incomplete table, without any assumption.
        assumption: the assumption about gaps.
        epsilon, delta, basis: the guarantee under that assumption, and its basis.
        gaps: what counts as a gap in each column that the assumption names.
        realised: a bound on what the answers so far reveal about a person. It is no guarantee if releases depended on
            earlier answers. None where no such bound is proved.
    """

    incomplete: Guarantee
    assumption: Assumption
    epsilon: float
    delta: float
    basis: str
    gaps: Mapping[str, str]
    realised: float | None

    def __str__(self) -> str:
        if self.epsilon == math.inf:
            return str(self.incomplete)
        promise = (
            f"{self.incomplete}\nAssuming that {self.assumption}: ({rounded_up(self.epsilon)}, "
            f"{format_rounded_up(self.delta)})-differential privacy for adding or removing {self.incomplete.protect} "
            f"of the complete data. Basis: {self.basis}. {gap_rules_text(self.gaps)} "
            "This covers the releases of one ledger: such figures of several must not be added up."
        )
        if self.realised is None or self.realised > 0.999 * self.epsilon:
            return promise
        return (
            f"{promise}\nUnder the same assumption, the answers that were released reveal at most "
            f"ε = {rounded_up(self.realised)} about a person. This describes these answers only and is no guarantee."
        )

    def summary(self) -> dict[str, Any]:
        """The guarantee as JSON, beside that for the incomplete table."""
        kept = self.epsilon < math.inf
        return {
            "incomplete": {"epsilon": self.incomplete.epsilon if kept else None, "delta": self.incomplete.delta},
            "assumption": str(self.assumption),
            "gaps": dict(self.gaps),
            "epsilon": self.epsilon if kept else None,
            "delta": self.delta,
            "basis": self.basis,
            "after_the_fact": self.realised,
        }


def gap_rules_text(gaps: Mapping[str, str]) -> str:
    """The text on what counts as a gap in these columns, grouped by rule.

    >>> gap_rules_text({"age": "an empty cell", "sex": "an empty cell", "income": "'-8'"})
    "A gap is, in 'age', 'sex': an empty cell; in 'income': '-8'."
    """
    columns: defaultdict[str, list[str]] = defaultdict(list)
    for column, rule in gaps.items():
        columns[rule].append(repr(column))
    rules = "; ".join(f"in {', '.join(names)}: {rule}" for rule, names in columns.items())
    return f"A gap is, {rules}." if gaps else "No column is named."


def group_privacy(epsilon: float, delta: float, units: int) -> tuple[float, float]:
    r"""The ε and δ that an (ε, δ)-DP release has for several protected units together.

    .. math:: \varepsilon_k = k\,\varepsilon, \qquad
              \delta_k = \delta\,(1 + e^\varepsilon + \dots + e^{(k-1)\varepsilon})
              = \delta\,\frac{e^{k\varepsilon} - 1}{e^\varepsilon - 1}

    Notation: :math:`k` is `units`.
    Guarantee: a δ of 1, at which the formula stops, promises nothing. Proved in docs/proofs/ledger.md, section 12.

    >>> group_privacy(1.0, 0.0, 3)
    (3.0, 0.0)
    """
    if delta == 0 or units == 1:
        return units * epsilon, delta
    if (last := (units - 1) * epsilon) > 700:  # beyond what a float holds
        return units * epsilon, 1.0
    growth = units if epsilon == 0 else math.exp(last) * math.expm1(-units * epsilon) / math.expm1(-epsilon)
    return units * epsilon, min(1.0, delta * growth)


@dataclass(frozen=True, slots=True)
class StabilityCost:
    """The guarantee when one row can change several rows: (ε, δ) and, if requested, zCDP."""

    epsilon: float
    delta: float
    rho: float | None = None

    def __str__(self) -> str:
        text = f"ε = {rounded_up(self.epsilon)}, δ = {float(rounded_up(self.delta)):g}"
        return text if self.rho is None else f"{text}; ρ = {rounded_up(self.rho)}"


def stability_cost(epsilon: float, delta: float = 0.0, *, changed: int, rho: float | None = None) -> StabilityCost:
    r"""The cost of an (ε, δ)-DP mechanism on a table of which one row can change c rows.

    .. math:: \Bigl(c\,\varepsilon,\; \delta\,\frac{e^{c\varepsilon} - 1}{e^{\varepsilon} - 1}\Bigr), \qquad
              \rho \mapsto c^2 \rho

    A calculator, and a warning: δ does not stay as it is. Nothing in gapless is accounted for in this way, because a
    filling that lets one row change others has no bound c that holds for all tables.

    Args:
        epsilon: of the mechanism, for one row added or removed.
        delta: of the mechanism.
        changed: c, how many rows are added or removed when one is; a row that changes counts twice.
        rho: of the mechanism, if it is ρ-zCDP.

    Proved in docs/proofs/stability.md.

    >>> print(stability_cost(1.0, 1e-6, changed=11))
    ε = 11, δ = 0.03485
    >>> stability_cost(0.5, changed=3)
    StabilityCost(epsilon=1.5, delta=0.0, rho=None)
    """
    changed = whole("changed", changed, error=BudgetError, least=1)
    given = {"epsilon": epsilon, "delta": delta, "rho": 0.0 if rho is None else rho}
    for name, value in given.items():
        checked_number(name, value, 0, math.inf, "[)", error=BudgetError, example=1)
    return StabilityCost(
        float(epsilon) * changed,
        min(1.0, delta * _steps(epsilon, changed)) if delta else 0.0,
        None if rho is None else float(rho) * changed**2,
    )


def _steps(epsilon: float, changed: int) -> float:
    """(e^{cε} - 1) / (e^ε - 1): the sum of e^{iε} over i < c, also at ε = 0 and beyond the range of floats."""
    if epsilon == 0:
        return float(changed)
    if changed * epsilon > 700:
        return math.inf
    return math.expm1(changed * epsilon) / math.expm1(epsilon)


SPENT = "use what was released before; the budget of this table is spent"
HIGH_EPSILON = 1.0
VERY_HIGH_EPSILON = 10.0
USUAL_ROWS = 10_000  # assumed where nothing is said
CLEARLY = 10  # δ is clearly below one in n if it is at most one in 10 n
UNREGISTERED = (
    "the folder of the data cannot be written to, so that a second ledger for the same files would not be noticed. "
    "Use one ledger for them, always the same."
)


def cautions(epsilon: float, delta: float, *, expected_rows: int | None = None) -> list[str]:
    """Reasons to reconsider a guarantee before it is given; none if it is a usual one.

    The limits follow NIST SP 800-226: reconsider ε above 1; ε above 10 protects little by itself; δ must be clearly
    below one in the number of people, because a mechanism that publishes each row with probability δ satisfies (0, δ).
    The number of rows is private, so δ is compared with the public `expected_rows`, else with `USUAL_ROWS`.

    >>> cautions(1.0, 1e-6)
    []
    >>> print(*cautions(3.0, 1e-6))
    ε = 3 is above 1: one person can change the probability of a result by a factor of up to e^ε = 20.09. Consider a \
smaller ε.
    """
    found = []
    if math.isfinite(epsilon) and epsilon > HIGH_EPSILON:
        change = f"one person can change the probability of a result by a factor of up to e^ε = {factor(epsilon)}"
        limit, advice = "1", f": {change}. Consider a smaller ε."
        if epsilon > VERY_HIGH_EPSILON:
            limit, advice = "10", f", A VERY WEAK PROMISE: {change}. It hardly protects by itself."
        found.append(f"ε = {format_rounded_up(epsilon)} is above {limit}{advice}")
    rows = expected_rows or USUAL_ROWS
    if delta * rows * CLEARLY > 1 + 1e-9:
        origin = "that the schema expects" if expected_rows else "assumed, since the schema states no expected_rows"
        found.append(
            f"δ = {format_rounded_up(delta)} is one in {1 / delta:,.0f}, not clearly below one in the "
            f"{plural(rows, 'row')} {origin}: rows could be published whole with that probability each. "
            f"At most {1 / (CLEARLY * rows):g} would be clear."
        )
    return found


def factor(epsilon: float) -> str:
    """e^ε as text, rounded up.

    >>> factor(1.0), factor(1000.0)
    ('2.719', '10^435')
    """
    return rounded_up(math.exp(epsilon)) if epsilon < 20 else f"10^{math.ceil(epsilon / math.log(10))}"


def summary(ledger: Ledger, gaps: Mapping[str, GapRule]) -> dict[str, Any]:
    """Everything in a ledger, with its definitions of gaps and without the tokens of runs."""
    guarantee, assumed = ledger.guarantee(), ledger.budget.ground_truth
    entries = [entry.content() for entry in ledger.entries]
    summary = {
        "identity": ledger.identity,
        "table": ledger.table,
        **unit_content(guarantee.protect),
        "budget": {"epsilon": ledger.budget.epsilon, "delta": ledger.budget.delta}
        | ({} if assumed is None else {"ground_truth": str(assumed)}),
        "gaps": {column: rule.to_dict() for column, rule in gaps.items()},
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
    """A ledger as text: its budget, the spending, cautions about a weak guarantee, and its entries."""
    assumed, delta = ledger.budget.ground_truth, ledger.budget.delta
    spent_scope, budget_scope = "", ""
    if assumed is not None:
        spent_scope, budget_scope = " for the incomplete table", " for the complete data"
        delta += assumed.failure
    used, left = ledger.percentages()
    lines = [
        f"Ledger of '{ledger.table}': ε = {format_rounded_up(ledger.budget.epsilon)}, "
        f"δ = {format_rounded_up(delta)}{budget_scope}, protecting {ledger.guarantee().protect}",
        f"  spent {used:.2f}%, left {left:.2f}%",
        f"  All entries so far amount to ε = {rounded_up(ledger.epsilon_spent())}{spent_scope}, "
        "if all of them were chosen before any answer was seen.",
    ]
    lines += [f"  {note}" for note in (pricing_note(ledger),) if note]
    lines += [f"  {caution}" for caution in ledger.cautions()]
    if assumed is not None:
        lines += [
            f"  assuming that {assumed}",
            f"  {gap_rules_text(ledger.gap_rules(assumed))}",
            f"  {ledger.guarantee()}",
        ]
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
        f"total: {share} of the budget" + ("." if share == alone else f", while one by one they would cost {alone}.")
    )


def _entries(ledger: Ledger) -> Iterator[str]:
    """A header and a line for each entry, with columns as wide as the longest name, up to a limit."""
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


def how_to_continue(ledger: Ledger, name: str) -> str:
    """How to use a ledger after a mistake: never by another ledger, which would be a second budget."""
    if name == "table":
        return Hint(f"write {ledger.table!r} as its name in the schema, if it is the same table") | Hint(
            "pass another ", Argument("ledger"), " if it is another table"
        )
    if ledger.left.value == 0:
        return SPENT
    if not ledger.entries:
        return Hint("leave ", Argument("budget"), " out: the ledger has the budget") | Hint(
            "remove the ledger and its .seal: nothing was spent under it"
        )
    left = f"{ledger.percentages()[1]:.2f}%"
    return Hint("leave ", Argument("budget"), f" out: the ledger has the budget, of which {left} is left")


def refused_unit(ledger: Ledger, path: Path, unit: Unit) -> LedgerError:
    """The refusal of a protected unit other than the ledger's, with what its releases promise for that unit.

    No hint suggests a unit that the holder knows to be wrong: that would be a false promise.
    """
    if isinstance(ledger.protect, Persons) or isinstance(unit, Persons):
        return _refused_persons(ledger, path, unit)
    wrong = f"{path} protects {ledger.protect} of each person, and now it would be {unit}"
    if unit.at_most < ledger.protect.at_most:
        kept = Argument("protect", Call("Rows", ledger.protect.at_most))
        return LedgerError(wrong, hint=Hint("keep ", kept, ": a promise for more rows covers fewer as well"))
    if not ledger.entries:
        return LedgerError(
            f"{wrong}; nothing was spent under it",
            hint=Hint(f"remove {path} and {seal_of(path)}, and read the table again with ", Argument("budget")),
        )
    stated, true = ledger.guarantee(), ledger.guarantee_for(unit)
    if stated.private:
        promised, left = (
            f"({rounded_up(found.epsilon)}, {format_rounded_up(found.delta)})" for found in (stated, true)
        )
        is_kept = true.epsilon <= stated.epsilon and true.delta <= stated.delta  # as long as little was spent
        wrong += (
            f". For a person with {unit.at_most} rows its releases so far have {left}-differential privacy; the ledger "
            f"promises {promised}, but cannot keep it for further releases"
            if is_kept
            else f": its releases are less private than they state. For a person with {unit.at_most} rows "
            + (f"{left}-differential privacy is left" if true.delta < 1 else "no differential privacy can be proved")
            + f", in place of {promised}"
        )
    return LedgerError(
        wrong, hint="release nothing more under this ledger, and correct the privacy statements of its releases"
    )


def _refused_persons(ledger: Ledger, path: Path, unit: Unit) -> LedgerError:
    """The refusal if the ledger or the reading protects persons by an id, and the other one does not, or by another."""
    wrong = f"{path} protects {ledger.protect}, and now it would be {unit}"
    if not ledger.entries:
        return LedgerError(
            f"{wrong}; nothing was spent under it",
            hint=Hint(f"remove {path} and {seal_of(path)}, and read the table again with ", Argument("budget")),
        )
    kept = Argument("protect", unit_call(ledger.protect))
    if isinstance(ledger.protect, Persons):
        return LedgerError(wrong, hint=Hint("keep ", kept))
    return LedgerError(
        f"{wrong}: if a person has more rows, the releases so far are less private than they state",
        hint=Hint("keep ", kept, " without an id, if no person has more rows")
        | Hint("release nothing more under this ledger, and correct the privacy statements of its releases"),
    )
