"""The tighter total, by privacy loss distributions, of noise that was fixed before the first read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from gapless.privacy.registry import mechanism_of

LEAST_DELTA = 1e-12  # below, float errors of the convolution are no longer small beside δ
MOST_STD = 1e5  # beyond, a single release loses less than a step of the grid, and takes as long as there is noise
GRID = 1e-4  # the step of the loss distribution: rounded up, so the ε it gives is an upper bound
# Beyond these limits a distribution would take too much time and memory; the ledger's own figure holds without it.
MOST_LOST = 100.0  # the largest loss in all
MOST_CELLS = 1 << 18  # of one distribution of noise
REACH = 12.0  # standard deviations of noise that have a cell, about


def composed_epsilon(events: Iterable[tuple[Mapping[str, Any], float]], delta: float) -> float | None:
    """The ε at `delta` of independent mechanisms (parameters, distance), or None where no proof is at hand.

    Only mechanisms on counts at distance 1 are taken: there one unit moves one cell by one, and the pair
    of shifted noise laws is exactly the worst one. Composition by dp-accounting, pessimistic rounding.
    """
    counted = Counter((mechanism_of(parameters), distance) for parameters, distance in events)
    if not counted or any(distance != 1 for _, distance in counted) or delta < LEAST_DELTA:
        return None
    if sum(times * _most_lost(mechanism) for (mechanism, _), times in counted.items()) > MOST_LOST:
        return None
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 it takes a second to import

    total = None
    for (mechanism, _), times in counted.items():
        if isinstance(mechanism, DiscreteGaussian):
            if mechanism.std > MOST_STD:
                return None
            single = pld.from_discrete_gaussian_mechanism(mechanism.std, 1, value_discretization_interval=GRID)
        elif isinstance(mechanism, DiscreteLaplace):
            single = pld.from_discrete_laplace_mechanism(1 / mechanism.scale, 1, value_discretization_interval=GRID)
        else:
            return None
        many = single.self_compose(times)
        total = many if total is None else total.compose(many)
    return None if total is None else float(total.get_epsilon_for_delta(delta))


def _most_lost(mechanism: object) -> float:
    """About the largest loss that its distribution has a cell for; infinite where no distribution is computed."""
    if isinstance(mechanism, DiscreteLaplace):
        return 1 / mechanism.scale
    if isinstance(mechanism, DiscreteGaussian) and 2 * REACH * mechanism.std <= MOST_CELLS:
        return (REACH + 1 / mechanism.std) / mechanism.std
    return math.inf
