"""The gate: budget, ledger, sealed and released values, mechanisms."""

from gapless.privacy.budget import Budget, Loss, Rows
from gapless.privacy.ledger import Grant, Guarantee, Ledger
from gapless.privacy.ledger_file import Entry
from gapless.privacy.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    Mechanism,
    for_counts,
)
from gapless.privacy.private import L1, L2, Columns, Linf, Private, Released, Smooth
from gapless.privacy.smooth import SmoothCauchy, SmoothValue

__all__ = [
    "L1",
    "L2",
    "Budget",
    "Columns",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Entry",
    "ExponentialChoice",
    "Grant",
    "Guarantee",
    "Ledger",
    "Linf",
    "Loss",
    "Mechanism",
    "Private",
    "Released",
    "Rows",
    "Smooth",
    "SmoothCauchy",
    "SmoothValue",
    "for_counts",
]
