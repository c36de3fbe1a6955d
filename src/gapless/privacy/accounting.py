r"""Tighter totals, by privacy loss distributions, of releases whose noise was fixed before the first read.

`composed_epsilon` is the total for the incomplete table, `partition_epsilon` that for the complete data: it puts
releases into groups with disjoint blocks of independent columns, each group a mixture of its joint noise with and
without the row (docs/proofs/ground_truth_pld.md, section 3). `best_partition` searches such groups: if columns are
missing independently, releases of losses :math:`\varepsilon_j` in groups G, each of which reads at least the block of
its group, cost the complete table no more than

.. math:: \sum_G \log\bigl(1 + p_G (e^{\varepsilon_G} - 1)\bigr), \qquad \varepsilon_G = \sum_{j \in G} \varepsilon_j

with :math:`p_G` the probability that the block is observed. *Every* valid partition gives a bound: a search that stops
early, or goes by another price, loses tightness only. Proved in docs/proofs/ground_truth.md, section 3.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from gapless.privacy.registry import mechanism_of
from gapless.types import Floats

MIN_DELTA = 1e-12  # below, float errors of the convolution are no longer small beside δ
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
    if not counted or any(distance != 1 for _, distance in counted) or delta < MIN_DELTA:
        return None
    if sum(times * _max_loss(mechanism) for (mechanism, _), times in counted.items()) > MOST_LOST:
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


def _max_loss(mechanism: object) -> float:
    """About the largest loss that its distribution has a cell for; infinite where no distribution is computed."""
    if isinstance(mechanism, DiscreteLaplace):
        return 1 / mechanism.scale
    if isinstance(mechanism, DiscreteGaussian) and 2 * REACH * mechanism.std <= MOST_CELLS:
        return (REACH + 1 / mechanism.std) / mechanism.std
    return math.inf


_MOST_COLUMNS = 15  # of a new block: beyond, its parts are too many to try


def observed_probability(columns: frozenset[str], rates: Mapping[str, float]) -> float:
    """The probability that a row is observed on these columns, if they are independent."""
    return math.prod(1 - rates.get(column, 0.0) for column in columns)


def amplified_epsilon(chance: float, epsilon: float) -> float:
    r"""What an ε-DP mechanism costs that reads a row with a secret chance: :math:`\log(1 + p(e^\varepsilon - 1))`.

    >>> round(amplified_epsilon(0.1, 3.0), 2)
    1.07
    """
    if chance in (0.0, 1.0):
        return chance * epsilon
    return float(np.logaddexp(math.log1p(-chance), math.log(chance) + epsilon))


@dataclass(frozen=True, slots=True)
class Partition:
    """A valid partition.

    Attributes:
        blocks: for each release the columns that amplify it; any two are equal or disjoint.
        cost: the sum of the groups' prices; by the default price, `amplified_epsilon`, an ε that holds.
        exact: whether no other valid partition costs less.
    """

    blocks: tuple[frozenset[str], ...]
    cost: float
    exact: bool


def best_partition(
    releases: Sequence[tuple[float, frozenset[str]]],
    rates: Mapping[str, float],
    *,
    price: Callable[[float, float], float] = amplified_epsilon,
    most_steps: int | None = None,
) -> Partition:
    """The valid partition of least cost, by branch and bound.

    Each release takes a block that exists and lies within its columns, or a new one from columns that no block has, or
    none. A branch is left when even the best block for every further release could not beat what was found.

    Args:
        releases: ε and the columns on which a row must be observed.
        rates: the probability of a gap in each column.
        price: of a group, from the chance that its block is observed and the sum of its ε; convex in the latter.
        most_steps: stop after so many branches with the best partition so far; None: go on until it is proved.
    """
    names = sorted({column for _, columns in releases for column in columns if rates.get(column, 0.0) > 0})
    place = {column: 1 << i for i, column in enumerate(names)}
    logs = [math.log1p(-rates[column]) for column in names]
    masks = [sum(place[column] for column in columns if column in place) for _, columns in releases]
    search = _Search([epsilon for epsilon, _ in releases], masks, logs, price, most_steps)
    search.run()
    blocks = tuple(frozenset(column for column in names if place[column] & block) for block in search.best)
    groups: dict[frozenset[str], float] = {}
    for (epsilon, _), block in zip(releases, blocks, strict=True):
        groups[block] = groups.get(block, 0.0) + epsilon
    cost = math.fsum(price(observed_probability(block, rates), epsilon) for block, epsilon in groups.items())
    return Partition(blocks, cost, search.finished)


class _Search:
    """Depth first, cheap branches first. Blocks are masks of columns; a group is a block and the ε of its releases."""

    def __init__(
        self,
        epsilons: list[float],
        masks: list[int],
        logs: list[float],
        price: Callable[[float, float], float],
        most_steps: int | None,
    ) -> None:
        self.epsilons, self.masks, self.logs, self.price = epsilons, masks, logs, price
        self.steps, self.most_steps = 0, math.inf if most_steps is None else most_steps
        self.order = sorted(range(len(masks)), key=lambda release: (masks[release].bit_count(), masks[release]))
        self.best = [0] * len(masks)
        self.least = math.inf
        self.finished = True
        self._chances: dict[int, float] = {0: 1.0}
        self._chosen = [0] * len(masks)

    def run(self) -> None:
        """Find the least."""
        self._go(self.order, {0: 0.0}, 0, 0.0)

    def chance(self, block: int) -> float:
        """The probability that a row is observed on a block."""
        if block not in self._chances:
            self._chances[block] = math.exp(math.fsum(log for i, log in enumerate(self.logs) if block >> i & 1))
        return self._chances[block]

    def _increment(self, block: int, before: float, epsilon: float) -> float:
        chance = self.chance(block)
        return self.price(chance, before + epsilon) - (self.price(chance, before) if before else 0.0)

    def _parts(self, free: int) -> Iterator[int]:
        """Every part of the free columns, the largest first; of very many only the whole and each column alone."""
        if free.bit_count() > _MOST_COLUMNS:
            self.finished = False
            yield free
            yield from (1 << place for place in range(free.bit_length()) if free >> place & 1)
            return
        block = free
        while block:
            yield block
            block = (block - 1) & free

    def _go(self, waiting: list[int], groups: dict[int, float], used: int, paid: float) -> None:
        """Give a block to the waiting release that has the fewest ways to get one.

        Prices are convex in ε: what a release would cost now is the least that it can cost later.
        """
        if not waiting:
            if paid < self.least - 1e-12:
                self.least, self.best = paid, list(self._chosen)
            return
        self.steps += 1
        if self.steps > self.most_steps and self.least < math.inf:
            self.finished = False
            return
        bound, regrets = paid, []
        for release in waiting:
            mask, epsilon = self.masks[release], self.epsilons[release]
            old = min(self._increment(block, e, epsilon) for block, e in groups.items() if not block & ~mask)
            new = self._increment(mask & ~used, 0.0, epsilon) if mask & ~used else math.inf
            bound += min(old, new)
            regrets.append(((mask & ~used).bit_count(), release))
        if bound >= self.least - 1e-12:
            return
        release = min(regrets)[1]
        mask, epsilon = self.masks[release], self.epsilons[release]
        free = mask & ~used
        options = [(self._increment(block, e, epsilon), block) for block, e in groups.items() if not block & ~mask]
        fresh = (block for block in self._parts(free) if block not in groups)
        options += [(self._increment(block, 0.0, epsilon), block) for block in fresh]
        rest = [other for other in waiting if other != release]
        for increment, block in sorted(options):
            self._chosen[release] = block
            before = groups.get(block)
            groups[block] = (before or 0.0) + epsilon
            self._go(rest, groups, used | block, paid + increment)
            if before is None:
                del groups[block]
            else:
                groups[block] = before


Noise: TypeAlias = DiscreteGaussian | DiscreteLaplace

TAIL_STDS = 9.0  # standard deviations; what lies beyond, below 1e-17, counts as lost for certain
MOST_GROUP_CELLS = 50_000  # of the law of a group
MOST_MEAN = 20.0  # standard deviations by which a row moves a sum: beyond, its chances are too small for floats
MOST_EVENTS = 500  # in looking for a partition, which goes one deeper for each
MOST_STEPS = 20_000  # in looking for a partition: any valid one is a bound


def partition_epsilon(
    events: Sequence[tuple[Mapping[str, Any], float, frozenset[str]]], seen: Mapping[str, float], delta: float
) -> float | None:
    """The ε at `delta` of independent noise (parameters, distance, columns) in one batch; None without a proof.

    Only Laplace and Gaussian noise on counts at distance 1, columns independent.
    """
    if not events or delta < MIN_DELTA or any(distance != 1 for _, distance, _ in events):
        return None
    recorded = [mechanism_of(parameters) for parameters, _, _ in events]
    noises = [mechanism for mechanism in recorded if isinstance(mechanism, DiscreteGaussian | DiscreteLaplace)]
    if len(noises) < len(events) or len(events) > MOST_EVENTS:
        return None
    weights = [1 / _noise_scale(noise) ** 2 for noise in noises]
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
        laws = _group_log_probabilities(counted)
        if laws is None:
            return None
        upper, lower = laws
        mixed = np.logaddexp(upper + math.log(chance), lower + math.log1p(-chance)) if chance < 1 else upper
        # Beyond the reach of the laws the worst is taken: with and without the row nothing in common.
        tail = math.log(4 * sum(many for _, many in counted)) - TAIL_STDS**2 / 2
        single = pld.from_two_probability_mass_functions(
            dict(enumerate(lower.tolist())) | {"without": tail},
            dict(enumerate(mixed.tolist())) | {"with": tail},
            value_discretization_interval=GRID,
            symmetric=False,
        )
        many = single.self_compose(times)
        total = many if total is None else total.compose(many)
    return None if total is None else float(total.get_epsilon_for_delta(delta))


def _noise_scale(noise: Noise) -> float:
    return noise.std if isinstance(noise, DiscreteGaussian) else noise.scale


def _group_log_probabilities(counted: Sequence[tuple[Noise, int]]) -> tuple[Floats, Floats] | None:
    """Log-probabilities of what tells a group's noise with the row from that without it.

    Of equal Gaussian noises the sum tells all; of Laplace noise whether it is above 0; of different ones all of these.
    """
    pairs = []
    for noise, many in counted:
        scale = _noise_scale(noise)
        if isinstance(noise, DiscreteLaplace):
            up = 1 / (1 + math.exp(-1 / scale))  # P[Z >= 0], which is P[Z >= 1] of noise moved by one
            single = np.array([up, 1 - up])
            lower, upper = single, single[::-1]
            for _ in range(many - 1):
                lower, upper = np.convolve(lower, single), np.convolve(upper, single[::-1])
        else:
            reach, wide = math.ceil(TAIL_STDS * scale * math.sqrt(many)), math.ceil(12 * scale) + many
            if 2 * wide * many > MOST_GROUP_CELLS or math.sqrt(many) > MOST_MEAN * scale:
                return None
            single = np.exp(-((np.arange(-wide, wide + 1) / scale) ** 2) / 2)
            single /= single.sum()
            law, middle = single, wide * many
            for _ in range(many - 1):
                law = np.convolve(law, single)
            lower = law[middle - reach : middle + many + reach + 1]
            upper = law[middle - many - reach : middle + reach + 1]
        pairs.append((np.log(upper), np.log(lower)))
    if math.prod(len(upper) for upper, _ in pairs) > MOST_GROUP_CELLS:
        return None
    upper = np.array([math.fsum(cell) for cell in product(*(law.tolist() for law, _ in pairs))])
    lower = np.array([math.fsum(cell) for cell in product(*(law.tolist() for _, law in pairs))])
    return upper, lower
