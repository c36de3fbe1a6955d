"""What a ledger promises, in numbers and in words: for the incomplete table, and for the complete one behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gapless.privacy.assumptions import Assumption
from gapless.privacy.budget import Rows
from gapless.privacy.rounding import rounded_up, told_up


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is promised for the incomplete table, in numbers and in words."""

    table: str
    protect: Rows
    epsilon: float
    delta: float
    basis: str

    def __str__(self) -> str:
        if self.epsilon == math.inf:
            return f"NOT PRIVATE: {self.basis}."
        return (
            f"({rounded_up(self.epsilon)}, {told_up(self.delta)})-differential privacy for adding or removing "
            f"{self.protect} of the incomplete table '{self.table}', schema public. Basis: {self.basis}."
        )


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """What is promised for the complete table behind the gaps, under an assumption; never without the other promise.

    There is no sum of two of these: the same gaps serve all releases, so a ledger computes the figure anew.

    Attributes:
        incomplete: what is promised for the incomplete table, without any assumption.
        assumption: what is assumed about gaps.
        epsilon, delta, basis: the promise under that assumption, and what it rests on.
        realised: what the outcomes so far tell about a person at most, after the fact: no guarantee if releases were
            chosen in the light of earlier answers. None where no such bound is proved.
    """

    incomplete: Guarantee
    assumption: Assumption
    epsilon: float
    delta: float
    basis: str
    realised: float | None

    def __str__(self) -> str:
        if self.epsilon == math.inf:
            return str(self.incomplete)
        promise = (
            f"{self.incomplete}\nAssuming that {self.assumption}: ({rounded_up(self.epsilon)}, {told_up(self.delta)})-"
            f"differential privacy for adding or removing {self.incomplete.protect} of the complete table behind the "
            f"gaps. Basis: {self.basis}. This covers the releases of one ledger: such figures of several must not be "
            "added up."
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
            "epsilon": self.epsilon if kept else None,
            "delta": self.delta,
            "basis": self.basis,
            "after_the_fact": self.realised,
        }
