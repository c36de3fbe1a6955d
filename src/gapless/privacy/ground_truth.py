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
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.errors import BudgetError, Call, Hint
from gapless.privacy.assumptions import Assumption, expand_rates, named_rates
from gapless.privacy.budget import PURE
from gapless.types import is_number

Sets: TypeAlias = Mapping[frozenset[str], float]

WIDTH = 18  # tables of 2**18 numbers
OUTWARD = 1e-9  # float errors are below 1e-12; the result is raised by this much, relative and absolute


def independent_loss(weights: Sets, observed: Mapping[str, float], *, width: int = WIDTH) -> float:
    r"""F for independent columns: exact up to 1e-9 where tables of `width` columns suffice, else an upper bound.

    Written as the mean of a product of factors :math:`1 + (e^{w_A} - 1)\prod_{a \in A} v_a`, it is computed by variable
    elimination, least degree first, in 2 to the width steps. Where the width is too large, sets are made smaller: a
    smaller set is contained in v more often, so the result can only grow.

    Args:
        weights: a weight, not negative, for each set of columns.
        observed: the probability that a column is observed; one that is not named always is.
        width: the most columns of a table.
    """
    total = math.fsum(weights.values())
    names = sorted({a for columns in weights for a in columns if observed.get(a, 1.0) < 1})
    place = {a: i for i, a in enumerate(names)}
    masks: dict[int, float] = {}
    for columns, weight in weights.items():
        mask = sum(1 << place[a] for a in columns if a in place)
        masks[mask] = masks.get(mask, 0.0) + weight
    chances = [observed[a] for a in names]
    masks, order = _narrowed(masks, chances, width)
    return min(total, _sum_out(masks, chances, order) * (1 + OUTWARD) + OUTWARD)


def _sum_out(masks: Mapping[int, float], chances: list[float], order: list[int]) -> float:
    """Eliminate the columns in this order; all numbers are logarithms."""
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


def _narrowed(masks: dict[int, float], chances: list[float], width: int) -> tuple[dict[int, float], list[int]]:
    """Sets made smaller, where they must be, and an order in which no table has more than `width` columns.

    In the part of the graph that cannot be eliminated, the column is taken out of the set where this costs the least
    for each connection that it loosens; the cost is the growth of the mean of L.
    """
    while True:
        order, core = _order(masks, len(chances), width)
        if not core:
            return masks, order
        found = _loosenings(masks, chances, core)
        found.sort()
        changed: set[int] = set()
        for _, mask, a in found[: max(1, len(found) // 100)]:
            if mask not in changed:
                smaller = mask & ~(1 << a)
                changed |= {mask, smaller}
                weight = masks.pop(mask)
                masks[smaller] = masks.get(smaller, 0.0) + weight


def _loosenings(masks: Mapping[int, float], chances: list[float], core: int) -> list[tuple[float, int, int]]:
    """What it costs to take a column out of a set, for each connection that only this set makes; set; column."""
    pairs: dict[int, int] = {}
    for mask in masks:
        for a, b in combinations(_places(mask & core), 2):
            pairs[1 << a | 1 << b] = pairs.get(1 << a | 1 << b, 0) + 1
    found = []
    for mask, weight in masks.items():
        inside = _places(mask & core)
        chance = math.prod(chances[a] for a in _places(mask))
        for a in inside if len(inside) > 1 else ():
            loosened = sum(pairs[1 << min(a, b) | 1 << max(a, b)] == 1 for b in inside if b != a)
            found.append((weight * chance * (1 / chances[a] - 1) / (loosened or 0.25), mask, a))
    return found


def _order(masks: Mapping[int, float], columns: int, width: int) -> tuple[list[int], int]:
    """Columns by least degree; what is left, as a mask, once every table would have more than `width` columns."""
    near = [0] * columns
    for mask in masks:
        for a in _places(mask):
            near[a] |= mask
    alive = sum(1 << a for a in range(columns))
    order: list[int] = []
    while alive:
        column = min(_places(alive), key=lambda a: near[a].bit_count())
        scope = near[column] | 1 << column
        if scope.bit_count() > width:
            return order, alive
        rest = scope & ~(1 << column)
        for a in _places(rest):
            near[a] = (near[a] | rest) & ~(1 << column)
        alive &= ~(1 << column)
        order.append(column)
    return order, 0


def _places(mask: int) -> list[int]:
    """The columns in a mask, in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


Release: TypeAlias = tuple[float, Collection[str] | None]


def ground_truth(releases: Iterable[Release], assumption: Assumption) -> float:
    """The ε for the complete table of pure releases (ε, columns on which a row must be observed; None: every row).

    All releases that were ever made from the table belong into one call: such figures must not be added up. Rates are
    of columns that may really be missing: one number is taken for every column that a release names. It is a
    guarantee if losses and columns were fixed in advance; if they were chosen in the light of earlier answers, it
    bounds what this very outcome tells about a person, after the fact (`Budget(ground_truth=…)` is the remedy).

    >>> from gapless.privacy import MCAR
    >>> round(ground_truth([(0.1, {"age", "sex"}), (0.2, None)], MCAR({"age": 0.5})), 4)
    0.2512
    """
    sets = merge_releases(releases)
    named = expand_rates(assumption, sorted(frozenset().union(*sets)))
    if named.failure:
        raise BudgetError(
            f"these rates fail with probability {named.failure:g}, so no ε holds without a δ",
            hint=Hint("pass public rates")
            | Hint("use ", Call("ledger.ground_truth", ...), ", which adds the probability to δ"),
        )
    return complete_data_loss(sets, named)


def complete_data_loss(sets: Sets, assumption: Assumption, *, rows: int = 1) -> float:
    """F, rounded up by at most 1e-9, or a certified upper bound of it; never above the sum of the losses."""
    seen = observed_probabilities(assumption, rows)
    return independent_loss(sets, seen) if assumption.columns == "independent" else comonotone_loss(sets, seen)


def merge_releases(releases: Iterable[Release]) -> dict[frozenset[str], float]:
    """The losses summed for each set of columns; every row is the empty set."""
    sets: dict[frozenset[str], float] = {}
    for release in releases:
        if not (isinstance(release, tuple) and len(release) == 2):
            raise BudgetError(
                f"{release!r} is no release",
                hint='pass a loss and its columns: (0.1, {"age"}), or (0.1, ()) if it needs none',
            )
        loss, columns = release
        if isinstance(columns, str) or not is_number(loss):
            raise BudgetError(f"({loss!r}, {columns!r}) is no release", hint='a loss and its columns: (0.1, {"age"})')
        if not 0 <= loss < math.inf:
            raise BudgetError(f"a loss of {loss}", hint="a finite number, not negative")
        needed = frozenset(columns or ())
        sets[needed] = sets.get(needed, 0.0) + loss
    return sets


def observed_probabilities(assumption: Assumption, rows: int = 1) -> dict[str, float]:
    r"""The probability that a column is observed in at least one of a person's rows: :math:`1 - \varphi^k`.

    A release reads the person only if one of the rows is observed on all its columns, and then each column is observed
    in at least one of them. Rows are independent, so the same theorem holds with this pattern for the person's.
    """
    return {column: 1 - rate**rows for column, rate in named_rates(assumption).items()}


def comonotone_loss(sets: Sets, seen: Mapping[str, float]) -> float:
    r"""F for the worst dependence between columns: those that go missing less are observed whenever the others are.

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
    return min(total, float(np.logaddexp.reduce(terms)) * (1 + OUTWARD) + OUTWARD) if terms else 0.0


def renyi_loss(sets: Sets, assumption: Assumption, order: float, *, rows: int = 1) -> float:
    r"""The Rényi divergence for the complete table of losses at an order, for columns fixed in advance.

    .. math:: D_\alpha \le \frac{1}{\alpha - 1} F\bigl((\alpha - 1) w\bigr)

    Even if v were revealed. At order ∞, pure losses, it is F itself.
    """
    if order == PURE:
        return complete_data_loss(sets, assumption, rows=rows)
    scaled = {columns: (order - 1) * loss for columns, loss in sets.items()}
    return min(math.fsum(sets.values()), complete_data_loss(scaled, assumption, rows=rows) / (order - 1))


def max_incomplete_loss(epsilon: float, assumption: Assumption, *, rows: int = 1) -> float:
    r"""The most that the *incomplete* table can lose while F stays within ε: :math:`\log(1 + (e^\varepsilon - 1)/p)`.

    p is the probability that a row has no gap in any of the named columns. A larger set only lowers F, so F of any
    releases is at least that of one release with all their loss on all columns.
    """
    logs = [math.log(chance) for chance in observed_probabilities(assumption, rows).values()]
    complete = math.fsum(logs) if assumption.columns == "independent" else min(logs, default=0.0)
    grown = math.log(math.expm1(epsilon)) if epsilon < 700 else epsilon
    return float(np.logaddexp(0.0, grown - complete)) * (1 + OUTWARD)


def calibrate_loss(
    before: Sets,
    columns: Iterable[Collection[str] | None],
    target: float,
    assumption: Assumption,
    *,
    rows: int = 1,
    weights: Sequence[float] | None = None,
) -> float:
    """The even loss of further releases on these columns with which F reaches `target`, from below.

    What F is before is at most `target`; the loss found is at least the even share of the rest, without amplification.
    With `weights`, of mean 1, it is the loss of weight 1.
    """
    wanted = [frozenset(needed or ()) for needed in columns]
    parts = weights or [1.0] * len(wanted)

    def reached(loss: float) -> float:
        sets = dict(before)
        for needed, weight in zip(wanted, parts, strict=True):
            sets[needed] = sets.get(needed, 0.0) + loss * weight
        return complete_data_loss(sets, assumption, rows=rows)

    low = max(0.0, target - complete_data_loss(before, assumption, rows=rows)) / len(wanted)
    below = reached(low)
    high, above = 2 * low + OUTWARD, reached(2 * low + OUTWARD)
    most = max_incomplete_loss(target, assumption, rows=rows)
    while above <= target and high * len(wanted) < most:
        low, below, high, above = high, above, 2 * high, reached(2 * high)
    for step in range(40):
        if target - below <= 1e-7 * target or above <= target:
            break
        # F is convex in the loss: a chord meets the target below the root. Halving, in turn, moves the other end.
        chord = low + (high - low) * (target - below) / (above - below)
        middle = chord if step % 2 == 0 else (low + high) / 2
        if (found := reached(middle)) <= target:
            low, below = middle, found
        else:
            high, above = middle, found
    return low
