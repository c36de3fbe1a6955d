r"""The quantities of [MD] section 5, for comparison and for teaching: most of them are NOT guarantees.

[MD] multiplies ε by the probability that a row is read, :math:`p\,\varepsilon`. The truth for one mechanism is
:math:`\log(1 + p(e^\varepsilon - 1))`, which is always at least as large. What is a bound is called *rigorous* here,
the other figures *linear*. Neither is needed for a promise: `ground_truth` is smaller than every rigorous one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gapless.errors import BudgetError

NOT_A_GUARANTEE = "[MD], not a guarantee"


def amplification_factor(columns: frozenset[str], rates: Mapping[str, float]) -> float:
    """The probability that a row is observed on these columns, if they are independent ([MD] Proposition 5.4)."""
    return math.prod(1 - rates.get(column, 0.0) for column in columns)


def amplified(chance: float, epsilon: float) -> float:
    r"""What an ε-DP mechanism costs that reads a row with a secret chance: :math:`\log(1 + p(e^\varepsilon - 1))`.

    >>> round(amplified(0.1, 3.0), 2)
    1.07
    """
    if chance in (0.0, 1.0):
        return chance * epsilon
    return float(np.logaddexp(math.log1p(-chance), math.log(chance) + epsilon))


def theorem_5_6(releases: Sequence[tuple[float, frozenset[str]]], rates: Mapping[str, float]) -> float:
    """Σ p ε for releases on disjoint columns: [MD], not a guarantee."""
    columns = [column for _, one in releases for column in one if rates.get(column, 0.0) > 0]
    if len(columns) != len(set(columns)):
        raise BudgetError("[MD] Theorem 5.6 is for disjoint sets of columns", hint="best_partition")
    return math.fsum(epsilon * amplification_factor(one, rates) for epsilon, one in releases)


def theorem_5_12(losses: Mapping[str, float], rates: Mapping[str, float]) -> float:
    """[MD]'s figure for models of one column each: the first of the least missing columns is amplified, linearly.

    Not a guarantee, and needlessly large: Σ log(1 + (1 - φ)(e^ε - 1)) over *all* columns is one, and mostly smaller.
    [MD] chooses the largest 1 - φ among the columns that have gaps at all (its Example 5.13).
    """
    gapped = {column: 1 - rates[column] for column in losses if rates.get(column, 0.0) > 0}
    chosen = max(gapped, key=lambda column: gapped[column], default=None)
    return math.fsum(epsilon * (gapped[chosen] if column == chosen else 1) for column, epsilon in losses.items())


_MOST_COLUMNS = 15  # of a new block: beyond, its parts are too many to try


@dataclass(frozen=True, slots=True)
class Partition:
    """A valid partition: releases in groups, each amplified by a block of columns; blocks are disjoint.

    Attributes:
        blocks: for each release the columns that amplify it.
        linear: Σ p_G Σ ε_j, the cost in [MD]: not a guarantee.
        rigorous: Σ_G log(1 + p_G (exp(Σ ε_j) - 1)): a guarantee, never below `ground_truth`.
        exact: whether no other valid partition costs less.
    """

    blocks: tuple[frozenset[str], ...]
    linear: float
    rigorous: float
    exact: bool

    def __str__(self) -> str:
        return f"linear {self.linear:.4g} ({NOT_A_GUARANTEE}), rigorous {self.rigorous:.4g}"


def best_partition(
    releases: Sequence[tuple[float, frozenset[str]]],
    rates: Mapping[str, float],
    *,
    cost: str = "linear",
    most_steps: int | None = None,
) -> Partition:
    """The valid partition of least cost: what [MD] Algorithm 4 looks for, by branch and bound.

    Each release takes a block that exists and lies within its columns, or a new one from columns that no block has, or
    none. A branch is left when even the best block for every further release could not beat what was found.

    Args:
        releases: ε and the columns on which a row must be observed.
        rates: the probability of a gap in each column.
        cost: "linear" as in [MD], or "rigorous".
        most_steps: stop after so many branches with the best partition so far; None: go on until it is proved.
    """
    if cost not in ("linear", "rigorous"):
        raise BudgetError(f"no cost {cost!r}", hint='"linear" or "rigorous"')
    price: Callable[[float, float], float] = amplified if cost == "rigorous" else float.__mul__
    names = sorted({column for _, one in releases for column in one if rates.get(column, 0.0) > 0})
    place = {column: 1 << i for i, column in enumerate(names)}
    logs = [math.log1p(-rates[column]) for column in names]
    masks = [sum(place[column] for column in one if column in place) for _, one in releases]
    search = _Search([epsilon for epsilon, _ in releases], masks, logs, price, most_steps)
    search.run()
    named = [frozenset(column for column in names if place[column] & block) for block in search.best]
    groups: dict[frozenset[str], float] = {}
    for (epsilon, _), block in zip(releases, named, strict=True):
        groups[block] = groups.get(block, 0.0) + epsilon
    chances = {block: amplification_factor(block, rates) for block in groups}
    return Partition(
        tuple(named),
        math.fsum(chances[block] * epsilon for block, epsilon in groups.items()),
        math.fsum(amplified(chances[block], epsilon) for block, epsilon in groups.items()),
        search.finished,
    )


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
        self.order = sorted(range(len(masks)), key=lambda one: (masks[one].bit_count(), masks[one]))
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

        Both costs are convex in ε: what a release would cost now is the least that it can cost later.
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
        for one in waiting:
            mask, epsilon = self.masks[one], self.epsilons[one]
            old = min(self._increment(block, e, epsilon) for block, e in groups.items() if not block & ~mask)
            new = self._increment(mask & ~used, 0.0, epsilon) if mask & ~used else math.inf
            bound += min(old, new)
            regrets.append(((mask & ~used).bit_count(), one))
        if bound >= self.least - 1e-12:
            return
        one = min(regrets)[1]
        mask, epsilon = self.masks[one], self.epsilons[one]
        free = mask & ~used
        options = [(self._increment(block, e, epsilon), block) for block, e in groups.items() if not block & ~mask]
        fresh = (block for block in self._parts(free) if block not in groups)
        options += [(self._increment(block, 0.0, epsilon), block) for block in fresh]
        rest = [other for other in waiting if other != one]
        for increment, block in sorted(options):
            self._chosen[one] = block
            before = groups.get(block)
            groups[block] = (before or 0.0) + epsilon
            self._go(rest, groups, used | block, paid + increment)
            if before is None:
                del groups[block]
            else:
                groups[block] = before
