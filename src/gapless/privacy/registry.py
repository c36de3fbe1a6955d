"""The mechanisms and distances that a ledger can record, by name, and the loss of a recorded release.

A ledger records parameters, so that every loss can be computed again when it is opened. A mechanism that is not listed
here is refused before it is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, get_args

from gapless.errors import BudgetError, LedgerError
from gapless.privacy.mechanisms import ChoiceByGroup, DiscreteGaussian, DiscreteLaplace, ExponentialChoice, KNorm
from gapless.privacy.private import L1, L2, L2Vector, Linf, LinfByGroup, Sampled, Smooth
from gapless.privacy.sgd import PrivateTraining
from gapless.privacy.smooth import SmoothCauchy
from gapless.privacy.teachers import SubsampledTeacher, TeacherVotes

Recorded: TypeAlias = (
    DiscreteLaplace
    | DiscreteGaussian
    | KNorm
    | ExponentialChoice
    | ChoiceByGroup
    | SmoothCauchy
    | PrivateTraining
    | TeacherVotes
    | SubsampledTeacher
)

MECHANISMS: dict[str, type[Recorded]] = {kind.__name__: kind for kind in get_args(Recorded)}
UNKNOWN_MECHANISM = {"name": "unknown"}  # of an entry that a crash left half written, for which nothing was read

# A recorded loss may be smaller than the recomputed one by this much: logarithms differ between machines
# (docs/proofs/renyi_filter.md, section 6).
RECOMPUTED_TOLERANCE = 1e-10

_DISTANCES: dict[type, Callable[..., Any]] = {
    L1: L1,
    L2: L2,
    L2Vector: L2Vector,
    Linf: Linf,
    LinfByGroup: LinfByGroup,
    Smooth: partial(Smooth, least=0.0),  # decides the grid of answers, not the loss
    Sampled: lambda at_most: Sampled(int(at_most)),
}
_DISTANCE_OF_NAME = {kind.__name__: build for kind, build in _DISTANCES.items()}


def check_known_mechanism(mechanism: object, distance: object) -> None:
    """Refuse a release whose loss could not be computed again; by exact type, since a subclass may cost anything."""
    if type(mechanism) not in MECHANISMS.values() or type(distance) not in _DISTANCES:
        raise BudgetError(
            f"a ledger has no formula for the loss of {type(mechanism).__name__} on a value with a distance of type "
            f"{type(distance).__name__}",
            hint=f"use one of: {', '.join(MECHANISMS)}; add a new one to privacy/registry.py, with its proof",
        )


def mechanism_of(parameters: Mapping[str, Any]) -> Recorded | None:
    """The mechanism with these recorded parameters; None for that of a half-written entry."""
    if parameters == UNKNOWN_MECHANISM:
        return None
    given = dict(parameters)
    name = given.pop("name")
    if name not in MECHANISMS:
        raise LedgerError(f"this gapless does not know the mechanism {name!r}", hint="install a newer gapless")
    return MECHANISMS[name](**given)


def distance_of(record: Mapping[str, float]) -> Any:
    """The distance that an entry records."""
    (name, at_most), *more = record.items()
    return _DISTANCE_OF_NAME[name](at_most, **dict(more))


def record_of(distance: Any) -> dict[str, float]:
    """The distance as an entry records it."""
    more = {"numbers": distance.numbers} if isinstance(distance, L2Vector) else {}
    return {type(distance).__name__: distance.at_most} | more


def recomputed_loss(parameters: Mapping[str, Any], distance: Mapping[str, float], order: float) -> float:
    """The loss of a recorded release at an order.

    0 for a half-written entry: its charge was never completed, so nothing was read for it.
    """
    mechanism = mechanism_of(parameters)
    return 0.0 if mechanism is None else mechanism.loss(distance_of(distance), order).value
