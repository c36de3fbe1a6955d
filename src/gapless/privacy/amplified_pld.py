"""A tighter total for the complete table by privacy loss distributions, for releases that were all fixed in advance.

The *partition* bound takes any noise: releases in groups with disjoint blocks of independent columns, each group a
mixture of its joint noise with and without the row. Proved in docs/proofs/ground_truth_pld.md, section 3.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from gapless.privacy.accounting import GRID, LEAST_DELTA
from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from gapless.privacy.partitions import best_partition
from gapless.privacy.registry import mechanism_of
from gapless.types import Floats

Noise: TypeAlias = DiscreteGaussian | DiscreteLaplace

REACH = 9.0  # standard deviations; what lies beyond, below 1e-17, counts as lost for certain
MOST_CELLS = 50_000  # of the law of a group
MOST_MEAN = 20.0  # standard deviations by which a row moves a sum: beyond, its chances are too small for floats
MOST_EVENTS = 500  # in looking for a partition, which goes one deeper for each
MOST_STEPS = 20_000  # in looking for a partition: any valid one is a bound


def partition_epsilon(
    events: Sequence[tuple[Mapping[str, Any], float, frozenset[str]]], seen: Mapping[str, float], delta: float
) -> float | None:
    """The ε at `delta` of independent noise (parameters, distance, columns) in one batch; None without a proof.

    Only Laplace and Gaussian noise on counts at distance 1, columns independent.
    """
    if not events or delta < LEAST_DELTA or any(distance != 1 for _, distance, _ in events):
        return None
    recorded = [mechanism_of(parameters) for parameters, _, _ in events]
    noises = [mechanism for mechanism in recorded if isinstance(mechanism, DiscreteGaussian | DiscreteLaplace)]
    if len(noises) < len(events) or len(events) > MOST_EVENTS:
        return None
    weights = [1 / _scale(noise) ** 2 for noise in noises]
    rates = {column: 1 - chance for column, chance in seen.items()}
    releases = [(weight, columns) for weight, (_, _, columns) in zip(weights, events, strict=True)]
    groups: dict[frozenset[str], Counter[Noise]] = {}
    # To first order in ε what is mixed costs p·ε: this price finds good blocks, and any valid ones give a bound.
    found = best_partition(releases, rates, price=operator.mul, most_steps=MOST_STEPS)
    for noise, block in zip(noises, found.blocks, strict=True):
        groups.setdefault(block, Counter())[noise] += 1
    alike = Counter(
        (math.prod(seen.get(column, 1.0) for column in block), tuple(sorted(counted.items(), key=repr)))
        for block, counted in groups.items()
    )
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 it takes a second to import

    total = None
    for (chance, counted), times in alike.items():
        laws = _laws(counted)
        if laws is None:
            return None
        upper, lower = laws
        mixed = np.logaddexp(upper + math.log(chance), lower + math.log1p(-chance)) if chance < 1 else upper
        # Beyond the reach of the laws the worst is taken: with and without the row nothing in common.
        tail = math.log(4 * sum(many for _, many in counted)) - REACH**2 / 2
        single = pld.from_two_probability_mass_functions(
            dict(enumerate(lower.tolist())) | {"without": tail},
            dict(enumerate(mixed.tolist())) | {"with": tail},
            value_discretization_interval=GRID,
            symmetric=False,
        )
        many = single.self_compose(times)
        total = many if total is None else total.compose(many)
    return None if total is None else float(total.get_epsilon_for_delta(delta))


def _scale(noise: Noise) -> float:
    return noise.std if isinstance(noise, DiscreteGaussian) else noise.scale


def _laws(counted: Sequence[tuple[Noise, int]]) -> tuple[Floats, Floats] | None:
    """Log-probabilities of what tells a group's noise with the row from that without it.

    Of equal Gaussian noises the sum tells all; of Laplace noise whether it is above 0; of different ones all of these.
    """
    pairs = []
    for noise, many in counted:
        scale = _scale(noise)
        if isinstance(noise, DiscreteLaplace):
            up = 1 / (1 + math.exp(-1 / scale))  # P[Z >= 0], which is P[Z >= 1] of noise moved by one
            single = np.array([up, 1 - up])
            lower, upper = single, single[::-1]
            for _ in range(many - 1):
                lower, upper = np.convolve(lower, single), np.convolve(upper, single[::-1])
        else:
            reach, wide = math.ceil(REACH * scale * math.sqrt(many)), math.ceil(12 * scale) + many
            if 2 * wide * many > MOST_CELLS or math.sqrt(many) > MOST_MEAN * scale:
                return None
            single = np.exp(-((np.arange(-wide, wide + 1) / scale) ** 2) / 2)
            single /= single.sum()
            law, middle = single, wide * many
            for _ in range(many - 1):
                law = np.convolve(law, single)
            lower = law[middle - reach : middle + many + reach + 1]
            upper = law[middle - many - reach : middle + reach + 1]
        pairs.append((np.log(upper), np.log(lower)))
    if math.prod(len(upper) for upper, _ in pairs) > MOST_CELLS:
        return None
    upper = np.array([math.fsum(cell) for cell in product(*(law.tolist() for law, _ in pairs))])
    lower = np.array([math.fsum(cell) for cell in product(*(law.tolist() for _, law in pairs))])
    return upper, lower
