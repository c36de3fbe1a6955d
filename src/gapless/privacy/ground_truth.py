r"""The privacy loss of the complete data for releases from an incomplete table.

A release that leaves out rows with a gap in the columns A reads a person only if these cells were observed. If gaps are
random, secret and independent across rows, releases of loss :math:`w_j` on :math:`A_j` together are F-differentially
private for the *complete* table, with v the observed cells of the person and

.. math:: F = \log \mathbb{E}_v \exp(L_v), \qquad L_v = \sum_j w_j \mathbf{1}\{A_j \subseteq v\}.

F is exact: no smaller number holds for all mechanisms of these losses. It replaces [MD]'s Proposition 5.4, Theorem 5.6
and Algorithm 4, whose figures are not bounds. It does not add up over releases: the same gaps serve all of them, so it
must be computed from all releases together. Proved in docs/proofs/ground_truth.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.errors import BudgetError, Call, Hint, Variable
from gapless.privacy.assumptions import Assumption, expand_rates, named_rates
from gapless.privacy.budget import PURE
from gapless.types import is_number

LossBySet: TypeAlias = Mapping[frozenset[str], float]
Release: TypeAlias = tuple[float, Collection[str] | None]

MAX_WIDTH = 18  # tables of 2**18 numbers
ROUND_UP = 1e-9  # float errors are below 1e-12; results are raised by this much, relative and absolute


def independent_loss(weights: LossBySet, observed: Mapping[str, float], *, width: int = MAX_WIDTH) -> float:
    r"""F for independent columns: exact up to 1e-9 where tables of `width` columns suffice, else an upper bound.

    F is the logarithm of the mean of a product of factors :math:`1 + (e^{w_A} - 1)\prod_{a \in A} v_a`. Variable
    elimination, least degree first, computes it in 2 to the width steps. Where the width is too large, sets are made
    smaller: a smaller set is contained in v more often, so the result can only grow.

    Args:
        weights: the loss, not negative, of each set of columns.
        observed: the probability that a column is observed; a column that is not named is always observed.
        width: the largest number of columns in a table.
    """
    total = math.fsum(weights.values())
    names = sorted({a for columns in weights for a in columns if observed.get(a, 1.0) < 1})
    place = {a: i for i, a in enumerate(names)}
    masks: dict[int, float] = {}
    for columns, weight in weights.items():
        mask = sum(1 << place[a] for a in columns if a in place)
        masks[mask] = masks.get(mask, 0.0) + weight
    chances = [observed[a] for a in names]
    masks, order = _shrink_sets(masks, chances, width)
    return min(total, _sum_out(masks, chances, order) * (1 + ROUND_UP) + ROUND_UP)


def _sum_out(masks: Mapping[int, float], chances: list[float], order: list[int]) -> float:
    """Sum out the columns in this order; all numbers are logarithms."""
    waiting = dict(masks)
    result = waiting.pop(0, 0.0)
    tables: list[tuple[int, NDArray[np.float64]]] = []  # columns as a mask, axes by place
    for column in order:
        bit = 1 << column
        touched = [(mask, weight) for mask, weight in waiting.items() if mask & bit]
        joined = [(mask, table) for mask, table in tables if mask & bit]
        tables = [(mask, table) for mask, table in tables if not mask & bit]
        scope = reduce(int.__or__, [mask for mask, _ in touched] + [mask for mask, _ in joined], 0)
        if not scope:
            continue
        axes = _places(scope)
        product = np.zeros((2,) * len(axes))
        for mask, weight in touched:
            del waiting[mask]
            product[tuple(1 if mask >> a & 1 else slice(None) for a in axes)] += weight
        for mask, table in joined:
            product += table.reshape([2 if mask >> a & 1 else 1 for a in axes])
        missing, seen = np.moveaxis(product, axes.index(column), 0)
        chance = chances[column]
        rest = np.logaddexp(missing + math.log1p(-chance), seen + math.log(chance))
        if scope == bit:
            result += float(rest)
        else:
            tables.append((scope ^ bit, np.asarray(rest)))
    return result


def _shrink_sets(masks: dict[int, float], chances: list[float], width: int) -> tuple[dict[int, float], list[int]]:
    """Shrink sets where needed, and return an elimination order in which no table has more than `width` columns.

    In the part of the graph that cannot be eliminated, a column is removed from the set where this costs the least per
    edge that it removes. The cost is the growth of the mean of L.
    """
    while True:
        order, core = _order(masks, len(chances), width)
        if not core:
            return masks, order
        found = sorted(_removals(masks, chances, core))
        changed: set[int] = set()
        for _, mask, a in found[: max(1, len(found) // 100)]:
            if mask not in changed:
                smaller = mask & ~(1 << a)
                changed |= {mask, smaller}
                weight = masks.pop(mask)
                masks[smaller] = masks.get(smaller, 0.0) + weight


def _removals(masks: Mapping[int, float], chances: list[float], core: int) -> Iterator[tuple[float, int, int]]:
    """The cost of removing a column from a set, per edge that only this set makes; the set; the column."""
    edges = Counter(pair for mask in masks for pair in combinations(_places(mask & core), 2))
    for mask, weight in masks.items():
        places = _places(mask & core)
        chance = math.prod(chances[a] for a in _places(mask))
        for a in places if len(places) > 1 else ():
            removed = sum(edges[min(a, b), max(a, b)] == 1 for b in places if b != a)
            yield weight * chance * (1 / chances[a] - 1) / (removed or 0.25), mask, a


def _order(masks: Mapping[int, float], columns: int, width: int) -> tuple[list[int], int]:
    """Columns by least degree; the rest, as a mask, for which every table would have more than `width` columns."""
    neighbors = [0] * columns
    for mask in masks:
        for a in _places(mask):
            neighbors[a] |= mask
    alive = sum(1 << a for a in range(columns))
    order: list[int] = []
    while alive:
        column = min(_places(alive), key=lambda a: neighbors[a].bit_count())
        scope = neighbors[column] | 1 << column
        if scope.bit_count() > width:
            return order, alive
        rest = scope & ~(1 << column)
        for a in _places(rest):
            neighbors[a] = (neighbors[a] | rest) & ~(1 << column)
        alive &= ~(1 << column)
        order.append(column)
    return order, 0


def _places(mask: int) -> list[int]:
    """The columns in a mask, in order."""
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def ground_truth(releases: Iterable[Release], assumption: Assumption) -> float:
    """The ε for the complete table of pure releases (ε, columns on which a row must be observed; None: every row).

    Pass all releases ever made from the table in one call: such figures must not be added up. Rates are those of
    columns that can really be missing; a single number applies to every column that a release names. The figure is a
    guarantee if losses and columns were fixed in advance. If they depended on earlier answers, it bounds what this
    outcome reveals about a person, after the fact; use `Budget(ground_truth=…)` for a guarantee then.

    >>> from gapless.privacy import MCAR
    >>> round(ground_truth([(0.1, {"age", "sex"}), (0.2, None)], MCAR({"age": 0.5})), 4)
    0.2512
    """
    sets = merge_releases(releases)
    named = expand_rates(assumption, sorted(frozenset().union(*sets)))
    if named.failure:
        raise BudgetError(
            f"these rates are wrong with probability {named.failure:g}, so no ε holds without a δ",
            hint=Hint("pass public rates")
            | Hint(
                "use ",
                Call("people.ledger.ground_truth", Variable("assumption")),
                ", which adds the probability to δ",
            ),
        )
    return complete_data_loss(sets, named)


def complete_data_loss(sets: LossBySet, assumption: Assumption, *, rows: int = 1) -> float:
    """F, rounded up by at most 1e-9, or a certified upper bound of it; never above the sum of the losses."""
    seen = observed_probabilities(assumption, rows)
    return independent_loss(sets, seen) if assumption.columns == "independent" else comonotone_loss(sets, seen)


def merge_releases(releases: Iterable[Release]) -> dict[frozenset[str], float]:
    """Sum the losses for each set of columns; a release that reads every row has the empty set."""
    sets: dict[frozenset[str], float] = {}
    for release in releases:
        loss, columns = release if isinstance(release, tuple) and len(release) == 2 else (None, None)
        if isinstance(columns, str) or not (is_number(loss) and 0 <= loss < math.inf):
            raise BudgetError(
                f"a release must be a finite loss of at least 0 and a set of columns, got {release!r}",
                hint='pass a loss and its columns: (0.1, {"age"}), or (0.1, ()) if it needs none',
            )
        needed = frozenset(columns or ())
        sets[needed] = sets.get(needed, 0.0) + loss
    return sets


def observed_probabilities(assumption: Assumption, rows: int = 1) -> dict[str, float]:
    r"""The probability that a column is observed in at least one of a person's rows: :math:`1 - \varphi^k`.

    A release reads the person only if one of the rows is observed on all its columns, and then each column is observed
    in at least one of them. Rows are independent, so the same theorem holds with this pattern as the person's.
    """
    return {column: 1 - rate**rows for column, rate in named_rates(assumption).items()}


def comonotone_loss(sets: LossBySet, seen: Mapping[str, float]) -> float:
    r"""F for the worst dependence between columns: the less often missing are observed whenever the others are.

    .. math:: \log \int_0^1 \exp\Bigl(\sum_j w_j \mathbf{1}\{u < \min_{a \in A_j} p_a\}\Bigr) du

    :math:`e^{L_v}` is supermodular in v, and the comonotone coupling maximises the mean of such functions.
    """
    by_chance: dict[float, float] = {}
    for columns, loss in sets.items():
        chance = min((seen.get(column, 1.0) for column in columns), default=1.0)
        by_chance[chance] = by_chance.get(chance, 0.0) + loss
    total = left = math.fsum(sets.values())
    terms, below = [], 0.0
    for chance in sorted(by_chance):
        if chance > below:
            terms.append(math.log(chance - below) + left)
        left, below = max(0.0, left - by_chance[chance]), chance
    if below < 1:
        terms.append(math.log1p(-below))
    return min(total, float(np.logaddexp.reduce(terms)) * (1 + ROUND_UP) + ROUND_UP) if terms else 0.0


def renyi_loss(sets: LossBySet, assumption: Assumption, order: float, *, rows: int = 1) -> float:
    r"""The Rényi divergence for the complete table of losses at an order, for columns fixed in advance.

    .. math:: D_\alpha \le \frac{1}{\alpha - 1} F\bigl((\alpha - 1) w\bigr)

    It holds even if v is revealed. At order ∞, for pure losses, it is F itself.
    """
    if order == PURE:
        return complete_data_loss(sets, assumption, rows=rows)
    scaled = {columns: (order - 1) * loss for columns, loss in sets.items()}
    return min(math.fsum(sets.values()), complete_data_loss(scaled, assumption, rows=rows) / (order - 1))


def max_incomplete_loss(epsilon: float, assumption: Assumption, *, rows: int = 1) -> float:
    r"""The largest loss of the *incomplete* table while F stays within ε: :math:`\log(1 + (e^\varepsilon - 1)/p)`.

    p is the probability that a row has no gap in any of the named columns. A larger set only lowers F, so F of any
    releases is at least that of one release with all their loss on all columns.
    """
    logs = [math.log(chance) for chance in observed_probabilities(assumption, rows).values()]
    complete = math.fsum(logs) if assumption.columns == "independent" else min(logs, default=0.0)
    grown = math.log(math.expm1(epsilon)) if epsilon < 700 else epsilon
    return float(np.logaddexp(0.0, grown - complete)) * (1 + ROUND_UP)


def calibrate_loss(
    before: LossBySet,
    columns: Iterable[Collection[str] | None],
    target: float,
    assumption: Assumption,
    *,
    rows: int = 1,
    weights: Sequence[float] | None = None,
) -> float:
    """The equal loss of further releases on these columns at which F reaches `target`, from below.

    F before is at most `target`. The loss found is at least the equal share of the rest, without amplification. With
    `weights`, of mean 1, it is the loss of weight 1.
    """
    wanted = [frozenset(needed or ()) for needed in columns]
    shares = weights or [1.0] * len(wanted)

    def reached(loss: float) -> float:
        sets = dict(before)
        for needed, weight in zip(wanted, shares, strict=True):
            sets[needed] = sets.get(needed, 0.0) + loss * weight
        return complete_data_loss(sets, assumption, rows=rows)

    low = max(0.0, target - complete_data_loss(before, assumption, rows=rows)) / len(wanted)
    below = reached(low)
    high, above = 2 * low + ROUND_UP, reached(2 * low + ROUND_UP)
    most = max_incomplete_loss(target, assumption, rows=rows)
    while above <= target and high * len(wanted) < most:
        low, below, high, above = high, above, 2 * high, reached(2 * high)
    for step in range(40):
        if target - below <= 1e-7 * target or above <= target:
            break
        # F is convex in the loss, so a chord meets the target below the root. Every other step bisects instead.
        chord = low + (high - low) * (target - below) / (above - below)
        middle = chord if step % 2 == 0 else (low + high) / 2
        if (found := reached(middle)) <= target:
            low, below = middle, found
        else:
            high, above = middle, found
    return low
