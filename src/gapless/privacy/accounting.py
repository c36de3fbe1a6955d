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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gapless.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace
from gapless.privacy.registry import mechanism_of
from gapless.types import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Noise: TypeAlias = DiscreteGaussian | DiscreteLaplace

MIN_DELTA = 1e-12  # below, float errors of the convolution are no longer small compared with δ
GRID_STEP = 1e-4  # of a loss distribution: losses are rounded up, so the resulting ε is an upper bound
# Beyond these limits a distribution would take too much time and memory; the ledger's own figure holds without it.
MAX_TOTAL_LOSS = 100.0
MAX_NOISE_CELLS = 1 << 18  # of one distribution of noise
REACH_STDS = 12.0  # about how many standard deviations of noise have a cell


def composed_epsilon(events: Iterable[tuple[Mapping[str, Any], float]], delta: float) -> float | None:
    """The ε at `delta` of independent mechanisms (parameters, distance), or None where no proof is known.

    Only mechanisms on counts at distance 1 are taken: there one unit moves one cell by one, and the pair of shifted
    noise distributions is exactly the worst one. dp-accounting composes them and rounds pessimistically.
    """
    repeats = Counter((mechanism_of(parameters), distance) for parameters, distance in events)
    if not repeats or any(distance != 1 for _, distance in repeats) or delta < MIN_DELTA:
        return None
    if sum(times * _max_loss(mechanism) for (mechanism, _), times in repeats.items()) > MAX_TOTAL_LOSS:
        return None
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 it takes a second to import

    def single(mechanism: object) -> PrivacyLossDistribution:
        if isinstance(mechanism, DiscreteGaussian):
            return pld.from_discrete_gaussian_mechanism(mechanism.std, 1, value_discretization_interval=GRID_STEP)
        assert isinstance(mechanism, DiscreteLaplace)  # noqa: S101 all others have an infinite `_max_loss`
        return pld.from_discrete_laplace_mechanism(1 / mechanism.scale, 1, value_discretization_interval=GRID_STEP)

    return _epsilon(((single(mechanism), times) for (mechanism, _), times in repeats.items()), delta)


def _epsilon(parts: Iterable[tuple[PrivacyLossDistribution, int]], delta: float) -> float:
    """The ε at `delta` of loss distributions, each composed with itself a number of times."""
    repeated = (distribution.self_compose(times) for distribution, times in parts)
    return float(reduce(lambda total, other: total.compose(other), repeated).get_epsilon_for_delta(delta))


def _max_loss(mechanism: object) -> float:
    """About the largest loss in the distribution of a mechanism; infinite where no distribution is computed."""
    if isinstance(mechanism, DiscreteLaplace):
        return 1 / mechanism.scale
    if isinstance(mechanism, DiscreteGaussian) and 2 * REACH_STDS * mechanism.std <= MAX_NOISE_CELLS:
        return (REACH_STDS + 1 / mechanism.std) / mechanism.std
    return math.inf


_MAX_NEW_COLUMNS = 15  # of a new block: beyond, it has too many subsets to try


def observed_probability(columns: frozenset[str], rates: Mapping[str, float]) -> float:
    """The probability that a row is observed on these columns, if columns are missing independently."""
    return math.prod(1 - rates.get(column, 0.0) for column in columns)


def amplified_epsilon(chance: float, epsilon: float) -> float:
    r"""The ε of an ε-DP mechanism that reads a row with secret probability p: :math:`\log(1 + p(e^\varepsilon - 1))`.

    >>> round(amplified_epsilon(0.1, 3.0), 2)
    1.07
    """
    if chance in (0.0, 1.0):
        return chance * epsilon
    return float(np.logaddexp(math.log1p(-chance), math.log(chance) + epsilon))


@dataclass(frozen=True, slots=True)
class Partition:
    """A valid partition of releases into groups.

    Attributes:
        blocks: for each release the columns that amplify it; any two are equal or disjoint.
        cost: the sum of the groups' prices; with the default price, `amplified_epsilon`, a valid ε.
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

    Each release takes an existing block within its columns, a new block from columns that no block has, or none. A
    branch is cut when even the best block for every further release could not beat the best partition so far.

    Args:
        releases: ε and the columns on which a row must be observed.
        rates: the probability of a gap in each column.
        price: of a group, from the probability that its block is observed and the sum of its ε; convex in the latter.
        most_steps: stop after this many branches with the best partition so far; None: run until it is proved best.
    """
    names = sorted({column for _, columns in releases for column in columns if rates.get(column, 0.0) > 0})
    place = {column: 1 << i for i, column in enumerate(names)}
    logs = [math.log1p(-rates[column]) for column in names]
    masks = [sum(place[column] for column in columns if column in place) for _, columns in releases]
    search = _Search([epsilon for epsilon, _ in releases], masks, logs, price, most_steps)
    blocks = tuple(frozenset(column for column in names if place[column] & block) for block in search.best)
    groups: defaultdict[frozenset[str], float] = defaultdict(float)
    for (epsilon, _), block in zip(releases, blocks, strict=True):
        groups[block] += epsilon
    cost = math.fsum(price(observed_probability(block, rates), epsilon) for block, epsilon in groups.items())
    return Partition(blocks, cost, search.finished)


class _Search:
    """A depth-first search, cheap branches first. Blocks are masks of columns; groups map blocks to their sums of ε."""

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
        self.best = [0] * len(masks)
        self.least = math.inf
        self.finished = True
        self._chances: dict[int, float] = {0: 1.0}
        self._chosen = [0] * len(masks)
        order = sorted(range(len(masks)), key=lambda release: (masks[release].bit_count(), masks[release]))
        self._assign(order, {0: 0.0}, 0, 0.0)

    def chance(self, block: int) -> float:
        """The probability that a row is observed on a block."""
        if block not in self._chances:
            self._chances[block] = math.exp(math.fsum(log for i, log in enumerate(self.logs) if block >> i & 1))
        return self._chances[block]

    def _increment(self, block: int, before: float, epsilon: float) -> float:
        chance = self.chance(block)
        return self.price(chance, before + epsilon) - (self.price(chance, before) if before else 0.0)

    def _subsets(self, free: int) -> Iterator[int]:
        """Every subset of the free columns, the largest first; of very many only the whole and single columns."""
        if free.bit_count() > _MAX_NEW_COLUMNS:
            self.finished = False
            yield free
            yield from (1 << place for place in range(free.bit_length()) if free >> place & 1)
            return
        block = free
        while block:
            yield block
            block = (block - 1) & free

    def _assign(self, waiting: list[int], groups: dict[int, float], used: int, paid: float) -> None:
        """Give a block to the waiting release with the fewest free columns, and recurse.

        Prices are convex in ε: the cost of a release now is a lower bound on its cost later.
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
        fresh = (block for block in self._subsets(free) if block not in groups)
        options += [(self._increment(block, 0.0, epsilon), block) for block in fresh]
        rest = [other for other in waiting if other != release]
        for increment, block in sorted(options):
            self._chosen[release] = block
            before = groups.get(block)
            groups[block] = (before or 0.0) + epsilon
            self._assign(rest, groups, used | block, paid + increment)
            if before is None:
                del groups[block]
            else:
                groups[block] = before


TAIL_STDS = 9.0  # standard deviations; the mass beyond, below 1e-17, counts as a certain loss
MAX_GROUP_CELLS = 50_000  # of the joint distribution of a group
MAX_SHIFT_STDS = 20.0  # standard deviations by which a row moves a sum: beyond, probabilities are too small for floats
MAX_EVENTS = 500  # of a search, which recurses once for each
MAX_STEPS = 20_000  # of a search: any valid partition is a bound


def partition_epsilon(
    events: Sequence[tuple[Mapping[str, Any], float, frozenset[str]]], seen: Mapping[str, float], delta: float
) -> float | None:
    """The ε at `delta` of independent noise (parameters, distance, columns) in one batch; None where no proof is known.

    Only Laplace and Gaussian noise on counts at distance 1 is taken. Columns must be missing independently.
    """
    if not events or delta < MIN_DELTA or any(distance != 1 for _, distance, _ in events):
        return None
    recorded = [mechanism_of(parameters) for parameters, _, _ in events]
    noises = [mechanism for mechanism in recorded if isinstance(mechanism, DiscreteGaussian | DiscreteLaplace)]
    if len(noises) < len(events) or len(events) > MAX_EVENTS:
        return None
    weights = [1 / _noise_scale(noise) ** 2 for noise in noises]
    rates = {column: 1 - chance for column, chance in seen.items()}
    releases = [(weight, columns) for weight, (_, _, columns) in zip(weights, events, strict=True)]
    groups: defaultdict[frozenset[str], Counter[Noise]] = defaultdict(Counter)
    # To first order in ε a mixture costs p·ε. This price finds good blocks, and any valid blocks give a bound.
    found = best_partition(releases, rates, price=operator.mul, most_steps=MAX_STEPS)
    for noise, block in zip(noises, found.blocks, strict=True):
        groups[block][noise] += 1
    alike = Counter(
        (math.prod(seen.get(column, 1.0) for column in block), tuple(sorted(counted.items(), key=repr)))
        for block, counted in groups.items()
    )
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 it takes a second to import

    parts = []
    for (chance, counted), times in alike.items():
        pair = _group_log_probabilities(counted)
        if pair is None:
            return None
        upper, lower = pair
        mixed = np.logaddexp(upper + math.log(chance), lower + math.log1p(-chance)) if chance < 1 else upper
        # Beyond the computed cells the worst is assumed: the answers with and without the row have nothing in common.
        tail = math.log(4 * sum(repeats for _, repeats in counted)) - TAIL_STDS**2 / 2
        single = pld.from_two_probability_mass_functions(
            dict(enumerate(lower.tolist())) | {"without": tail},
            dict(enumerate(mixed.tolist())) | {"with": tail},
            value_discretization_interval=GRID_STEP,
            symmetric=False,
        )
        parts.append((single, times))
    return _epsilon(parts, delta)


def _noise_scale(noise: Noise) -> float:
    return noise.std if isinstance(noise, DiscreteGaussian) else noise.scale


def _group_log_probabilities(counted: Sequence[tuple[Noise, int]]) -> tuple[Floats, Floats] | None:
    """Log-probabilities of a sufficient statistic of a group's noise: with the row, and without it.

    The statistic is the sum of equal Gaussian noises, the number of equal Laplace noises above 0, or all of these for
    different noises.
    """
    pairs = []
    for noise, times in counted:
        scale = _noise_scale(noise)
        if isinstance(noise, DiscreteLaplace):
            up = 1 / (1 + math.exp(-1 / scale))  # P[Z >= 0], which is P[Z >= 1] of noise moved by one
            single = np.array([up, 1 - up])
            lower, upper = _self_convolved(single, times), _self_convolved(single[::-1], times)
        else:
            reach, wide = math.ceil(TAIL_STDS * scale * math.sqrt(times)), math.ceil(12 * scale) + times
            if 2 * wide * times > MAX_GROUP_CELLS or math.sqrt(times) > MAX_SHIFT_STDS * scale:
                return None
            single = np.exp(-((np.arange(-wide, wide + 1) / scale) ** 2) / 2)
            single /= single.sum()
            total, middle = _self_convolved(single, times), wide * times
            lower = total[middle - reach : middle + times + reach + 1]
            upper = total[middle - times - reach : middle + reach + 1]
        pairs.append((np.log(upper), np.log(lower)))
    if math.prod(len(upper) for upper, _ in pairs) > MAX_GROUP_CELLS:
        return None
    upper, lower = (
        np.array([math.fsum(cell) for cell in product(*(part.tolist() for part in parts))])
        for parts in zip(*pairs, strict=True)
    )
    return upper, lower


def _self_convolved(single: Floats, times: int) -> Floats:
    """The distribution of a sum of independent numbers, all with this distribution."""
    return reduce(np.convolve, [single] * times)
