r"""Valid partitions of releases: groups, each amplified by a block of columns, with disjoint blocks.

If columns are missing independently, releases of losses :math:`\varepsilon_j` in groups G, each of which reads at least
the block of its group, cost the complete table no more than

.. math:: \sum_G \log\bigl(1 + p_G (e^{\varepsilon_G} - 1)\bigr), \qquad \varepsilon_G = \sum_{j \in G} \varepsilon_j

with :math:`p_G` the probability that the block is observed. *Every* valid partition gives a bound: a search that stops
early, or goes by another price, loses tightness only. Proved in docs/proofs/ground_truth.md, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_MOST_COLUMNS = 15  # of a new block: beyond, its parts are too many to try


def chance_observed(columns: frozenset[str], rates: Mapping[str, float]) -> float:
    """The probability that a row is observed on these columns, if they are independent."""
    return math.prod(1 - rates.get(column, 0.0) for column in columns)


def amplified(chance: float, epsilon: float) -> float:
    r"""What an ε-DP mechanism costs that reads a row with a secret chance: :math:`\log(1 + p(e^\varepsilon - 1))`.

    >>> round(amplified(0.1, 3.0), 2)
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
        cost: the sum of the groups' prices; by the default price, `amplified`, an ε that holds.
        exact: whether no other valid partition costs less.
    """

    blocks: tuple[frozenset[str], ...]
    cost: float
    exact: bool


def best_partition(
    releases: Sequence[tuple[float, frozenset[str]]],
    rates: Mapping[str, float],
    *,
    price: Callable[[float, float], float] = amplified,
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
    cost = math.fsum(price(chance_observed(block, rates), epsilon) for block, epsilon in groups.items())
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
