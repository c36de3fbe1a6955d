"""Gaps: what a synthesizer does about them, and what describes them."""

from gapless.missing.check import Check, check
from gapless.missing.patterns import Patterns, patterns
from gapless.missing.strategies import CompleteRows, Extended, Missing, Observed

STRATEGIES: dict[str, type[Missing]] = {
    "extended": Extended,
    "observed": Observed,
    "complete-rows": CompleteRows,
}

__all__ = [
    "STRATEGIES",
    "Check",
    "CompleteRows",
    "Extended",
    "Missing",
    "Observed",
    "Patterns",
    "check",
    "patterns",
]
