"""What a ledger promises, in numbers and in words: for the incomplete table, and for the complete one behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
