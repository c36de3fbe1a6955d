r"""What a mechanism costs after a transformation that lets one row change several: group privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gapless.arguments import is_number, whole
from gapless.errors import BudgetError
from gapless.privacy.rounding import rounded_up


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
