r"""What a ledger promises, in numbers and in words: for the incomplete table, and for the complete one behind it.

What a mechanism costs after a transformation that lets one row change several: group privacy.

What is weak about a promise, told in words before it is paid for.

The limits follow NIST SP 800-226: ε above 1 is to be weighed, ε above 10 protects little by itself, and δ must be
clearly below one in the number of people: a mechanism that publishes each row with probability δ satisfies (0, δ).
The number of rows is private, so that δ is held against a public one or, where none is stated, against `USUAL_ROWS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapless.errors import BudgetError
from gapless.privacy.assumptions import Assumption
from gapless.privacy.budget import Rows
from gapless.text import plural, rounded_up, told_up
from gapless.types import is_number, whole


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is promised for the incomplete table, in numbers and in words."""

    table: str
    protect: Rows
    epsilon: float
    delta: float
    basis: str

    def __str__(self) -> str:
        return f"{self.promise}. Basis: {self.basis}." if self.private else f"{self.promise}."

    @property
    def private(self) -> bool:
        """Whether anything is promised: not under noise of a test."""
        return self.epsilon < math.inf

    @property
    def promise(self) -> str:
        """What is promised, without the basis."""
        if not self.private:
            return f"NOT PRIVATE: {self.basis}"
        return (
            f"({rounded_up(self.epsilon)}, {told_up(self.delta)})-differential privacy for adding or removing "
            f"{self.protect} of the incomplete table '{self.table}', schema public"
        )


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """What is promised for the complete table behind the gaps, under an assumption; never without the other promise.

    There is no sum of two of these: the same gaps serve all releases, so a ledger computes the figure anew.

    Attributes:
        incomplete: what is promised for the incomplete table, without any assumption.
        assumption: what is assumed about gaps.
        epsilon, delta, basis: the promise under that assumption, and what it rests on.
        gaps: what counts as a gap in each column that the assumption names.
        realised: what the outcomes so far tell about a person at most, after the fact: no guarantee if releases were
            chosen in the light of earlier answers. None where no such bound is proved.
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
            f"{self.incomplete}\nAssuming that {self.assumption}: ({rounded_up(self.epsilon)}, {told_up(self.delta)})-"
            f"differential privacy for adding or removing {self.incomplete.protect} of the complete table behind the "
            f"gaps. Basis: {self.basis}. {gaps_told(self.gaps)} This covers the releases of one ledger: such figures "
            "of several must not be added up."
        )
        if self.realised is None or self.realised > 0.999 * self.epsilon:
            return promise
        return (
            f"{promise}\nAfter the fact, under the same assumption, what was released tells about a person no more "
            f"than ε = {rounded_up(self.realised)}. This describes one outcome and is no guarantee."
        )

    def summary(self) -> dict[str, Any]:
        """The promise for a machine, beside the one for the incomplete table."""
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


def gaps_told(gaps: Mapping[str, str]) -> str:
    """What counts as a gap in these columns, those that agree together.

    >>> gaps_told({"age": "an empty cell", "sex": "an empty cell", "income": "'-8'"})
    "A gap is, in 'age', 'sex': an empty cell; in 'income': '-8'."
    """
    columns: dict[str, list[str]] = {}
    for column, told in gaps.items():
        columns.setdefault(told, []).append(repr(column))
    rules = "; ".join(f"in {', '.join(names)}: {told}" for told, names in columns.items())
    return f"A gap is, {rules}." if gaps else "No column is named."


@dataclass(frozen=True, slots=True)
class StabilityCost:
    """What is promised when one row can change several rows: (ε, δ) and, if asked for, zCDP."""

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
    filling that lets one row change others has no bound c that holds for all tables (PRIVACY E).

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
        if not (is_number(value) and 0 <= value < math.inf):
            raise BudgetError(f"{name} = {value!r}", hint="a finite number, not negative")
    return StabilityCost(
        float(epsilon) * changed,
        min(1.0, delta * _steps(epsilon, changed)) if delta else 0.0,
        None if rho is None else float(rho) * changed**2,
    )


def _steps(epsilon: float, changed: int) -> float:
    """(e^{cε} - 1) / (e^ε - 1): the sum of e^{iε} over i < c, also at ε = 0 and beyond the reach of floats."""
    if epsilon == 0:
        return float(changed)
    if changed * epsilon > 700:
        return math.inf
    return math.expm1(changed * epsilon) / math.expm1(epsilon)


HIGH_EPSILON = 1.0
VERY_HIGH_EPSILON = 10.0
USUAL_ROWS = 10_000  # assumed where nothing is said
CLEARLY = 10  # δ is clearly below one in n if it is at most one in 10 n
UNREGISTERED = (
    "the folder of the data cannot be written to, so that a second ledger for the same files would not be noticed. "
    "Use one ledger for them, always the same."
)


def cautions(epsilon: float, delta: float, *, expected_rows: int | None = None) -> list[str]:
    """What a holder should weigh before making this promise; nothing if it is a usual one.

    >>> cautions(1.0, 1e-6)
    []
    >>> print(*cautions(3.0, 1e-6))
    ε = 3 is above 1: odds about one person can shift by a factor of up to e^ε = 20.09. Weigh whether that is enough.
    """
    told = []
    if math.isfinite(epsilon) and epsilon > HIGH_EPSILON:
        odds = f"odds about one person can shift by a factor of up to e^ε = {factor(epsilon)}"
        if epsilon > VERY_HIGH_EPSILON:
            told.append(
                f"ε = {told_up(epsilon)} is above 10, A VERY WEAK PROMISE: {odds}. It hardly protects by itself."
            )
        else:
            told.append(f"ε = {told_up(epsilon)} is above 1: {odds}. Weigh whether that is enough.")
    rows = expected_rows or USUAL_ROWS
    if delta * rows * CLEARLY > 1 + 1e-9:
        said = "that the schema expects" if expected_rows else "assumed, since the schema states no expected_rows"
        said = f"{plural(rows, 'row')} {said}"
        told.append(
            f"δ = {told_up(delta)} is one in {1 / delta:,.0f}, not clearly below one in the {said}: rows "
            f"could be published whole with that probability each. At most {1 / (CLEARLY * rows):g} would be clear."
        )
    return told


def factor(epsilon: float) -> str:
    """e^ε for people, never less than it is.

    >>> factor(1.0), factor(1000.0)
    ('2.719', '10^435')
    """
    return rounded_up(math.exp(epsilon)) if epsilon < 20 else f"10^{math.ceil(epsilon / math.log(10))}"
