"""Gaps: what a synthesizer does about them, and what describes them."""

from gapless.missing.check import Check, check
from gapless.missing.imputers import FromDomain, ImputeFirst, Imputer
from gapless.missing.patterns import Patterns, patterns
from gapless.missing.rates import gap_rates
from gapless.missing.strategies import CompleteRows, Extended, Missing, Observed

STRATEGIES: dict[str, type[Missing]] = {
    "extended": Extended,
    "observed": Observed,
    "complete-rows": CompleteRows,
    "impute-random": ImputeFirst,
}

__all__ = [
    "STRATEGIES",
    "Check",
    "CompleteRows",
    "Extended",
    "FromDomain",
    "ImputeFirst",
    "Imputer",
    "Missing",
    "Observed",
    "Patterns",
    "check",
    "gap_rates",
    "patterns",
]
