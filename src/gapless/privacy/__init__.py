"""The gate: budget, ledger, sealed and released values, mechanisms."""

from gapless.privacy.assumptions import MCAR, Assumption, MissingAtLeast
from gapless.privacy.budget import Budget, Loss, Persons, Rows, Spend
from gapless.privacy.grant import Grant, Plan
from gapless.privacy.ground_truth import ground_truth
from gapless.privacy.journal import Journal, resumable
from gapless.privacy.ledger import Ledger
from gapless.privacy.ledger_file import Entry
from gapless.privacy.mechanisms import (
    ChoiceByGroup,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    Mechanism,
    for_counts,
)
from gapless.privacy.pricing import FutureValue, Request
from gapless.privacy.private import L1, L2, Columns, L2Vector, Linf, LinfByGroup, Private, Released, Sampled, Smooth
from gapless.privacy.promise import GroundTruth, Guarantee, StabilityCost, stability_cost
from gapless.privacy.sgd import PrivateTraining
from gapless.privacy.smooth import SmoothCauchy, SmoothValue
from gapless.privacy.teachers import SubsampledTeacher, TeacherVotes

__all__ = [
    "L1",
    "L2",
    "MCAR",
    "Assumption",
    "Budget",
    "ChoiceByGroup",
    "Columns",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Entry",
    "ExponentialChoice",
    "FutureValue",
    "Grant",
    "GroundTruth",
    "Guarantee",
    "Journal",
    "KNorm",
    "L2Vector",
    "Ledger",
    "Linf",
    "LinfByGroup",
    "Loss",
    "Mechanism",
    "MissingAtLeast",
    "Persons",
    "Plan",
    "Private",
    "PrivateTraining",
    "Released",
    "Request",
    "Rows",
    "Sampled",
    "Smooth",
    "SmoothCauchy",
    "SmoothValue",
    "Spend",
    "StabilityCost",
    "SubsampledTeacher",
    "TeacherVotes",
    "for_counts",
    "ground_truth",
    "resumable",
    "stability_cost",
]
