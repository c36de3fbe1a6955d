"""Gaps: what makes them, what a synthesizer does about them, and what describes them."""

from collections.abc import Callable

from gapless.missing.check import Check, Patterns, check, patterns
from gapless.missing.diagnosis import GapReport, describe_gaps, gap_rates
from gapless.missing.gap_mechanisms import MAR, MCAR, MNAR
from gapless.missing.imputers import (
    CompleteRows,
    Extended,
    FromDistribution,
    FromDomain,
    FromMean,
    FromMode,
    FromModel,
    ImputeFirst,
    Imputer,
    Missing,
    Observed,
)
from gapless.missing.little import LittleTest, little_test

STRATEGIES: dict[str, Callable[[], Missing]] = {
    "extended": Extended,
    "observed": Observed,
    "complete-rows": CompleteRows,
    "impute-random": ImputeFirst,
    "impute-mean": lambda: ImputeFirst(FromMean()),
    "impute-mode": lambda: ImputeFirst(FromMode()),
    "impute-distribution": lambda: ImputeFirst(FromDistribution()),
}

__all__ = [
    "MAR",
    "MCAR",
    "MNAR",
    "STRATEGIES",
    "Check",
    "CompleteRows",
    "Extended",
    "FromDistribution",
    "FromDomain",
    "FromMean",
    "FromMode",
    "FromModel",
    "GapReport",
    "ImputeFirst",
    "Imputer",
    "LittleTest",
    "Missing",
    "Observed",
    "Patterns",
    "check",
    "describe_gaps",
    "gap_rates",
    "little_test",
    "patterns",
]
