r"""The price of a first batch whose sensitivities and noise are fixed in advance, computed as one mechanism.

A ledger adds up Rényi losses at one order, which overstates the loss of Gaussian noise. If distances, noise and `reads`
of a batch are fixed before anything is read, its whole privacy profile is known. Values may depend on earlier answers
of the batch. Let integers change by at most :math:`\Delta_j` in L2, with discrete Gaussian noise of parameters
:math:`\sigma_j`. One normal variable whose mean changes by

.. math:: \mu = \Bigl(\sum_j \frac{\Delta_j^2}{\sigma_j^2 - s^2}\Bigr)^{1/2}

dominates all of them, up to a factor :math:`e^{\pm\eta}` on probabilities; s² is about 1. The ledger bounds the Rényi
loss of all other releases, after the batch or between its releases. So each hockey-stick divergence grows by a known
amount.

The *price* of the batch is the least loss with which (ε, δ) holds even if all the rest of the budget is spent
adaptively. If nothing is left, the analytic Gaussian curve decides. Proved in docs/proofs/first_batch.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gapless.privacy.accounting import MIN_DELTA
from gapless.privacy.budget import PURE, ROUNDING, Budget, Loss
from gapless.privacy.mechanisms import DiscreteGaussian
from gapless.privacy.pricing import CountNoise, Measurable, Price, RenyiFilter, Request
from gapless.privacy.private import L1, L2, Columns, L2Vector
from gapless.privacy.registry import RECOMPUTED_TOLERANCE, UNKNOWN_MECHANISM, distance_of, mechanism_of
from gapless.types import Floats

if TYPE_CHECKING:
    from gapless.privacy.ledger_file import Entry

SMOOTHING = 1e-5  # η: the ε that the step from discrete to continuous noise may cost
MARGIN = 1e-6  # relative, of δ, for rounding errors; half of it when an entry is checked, perhaps on another machine
MAX_GAP_COLUMNS = 18  # there are 2^18 patterns of gaps
MAX_MEANS = 300  # of a mixture over patterns of gaps; means are rounded up to a grid
_MAX_MEAN = 20.0  # a larger one leaves no guarantee, and numbers would overflow
_MAX_MEAN_TIMES_ORDER = 1e3  # a larger one exceeds every budget, and needs too many cells
_TAIL_STDS = 9.0  # the mass beyond, below 1e-18, counts as a certain loss
_TOLERANCE = 1e-10  # relative, of prices and noise, which are rounded up
_MAX_EXPONENT = 700.0  # larger exponentials overflow
_GRID_STEP = 0.04  # of cells


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One release of a batch.

    Attributes:
        std: the parameter σ of its noise.
        distance: the L2 sensitivity of its numbers.
        changed_numbers: how many of its numbers one protected unit can change.
        reads: the columns on which a row must be observed to be read; empty if every row is read.
    """

    std: float
    distance: float
    changed_numbers: int
    reads: frozenset[str] = frozenset()

    @classmethod
    def from_release(cls, mechanism: object, distance: object, reads: frozenset[str] | None = None) -> BatchPart | None:
        """The part of a release; None for other noise than the discrete Gaussian, for which nothing is proved."""
        if not isinstance(mechanism, DiscreteGaussian) or not isinstance(distance, L2):
            return None
        # An integer that changes at all changes by at least 1.
        changed = math.floor((distance.at_most if isinstance(distance, L1) else distance.at_most**2) * (1 + ROUNDING))
        if isinstance(distance, L2Vector):
            changed = min(changed, distance.numbers)
        return cls(mechanism.std, distance.at_most, changed, reads or frozenset())


@dataclass(frozen=True, slots=True)
class DominatingPair:
    """Two distributions of one number that are no easier to distinguish than a batch with and without a person.

    Attributes:
        ratios: the logarithm of the ratio of densities at each end of a cell; the first and last cell are half-lines.
        with_person: the probability of each cell with the person.
        without_person: the probability of each cell without the person.
    """

    ratios: Floats
    with_person: Floats
    without_person: Floats

    @classmethod
    def of(cls, means: Floats, chances: Floats, order: float) -> DominatingPair:
        """The pair of a mixture of normal variables with these means and variance 1, and one with mean 0."""
        most = float(means.max())
        cells = math.ceil((most + 2 * _TAIL_STDS) * max(1.0, most * (order - 1)) / _GRID_STEP)
        ends = np.linspace(-_TAIL_STDS, most + _TAIL_STDS, cells)
        masses, ratios = np.zeros(cells + 1), np.full(cells, -np.inf)
        for mean, chance in zip(means, chances, strict=True):
            masses += chance * _normal_masses(ends - mean)
            np.logaddexp(ratios, math.log(chance) + mean * (ends - mean / 2), out=ratios)
        return cls(ratios, masses, _normal_masses(ends))

    def delta(self, epsilon: float, bound: Callable[[Floats], Floats]) -> float:
        """The larger of the two hockey-stick divergences at ε, of this pair and everything after it."""
        ratios, first, second = self.ratios, self.with_person, self.without_person
        removed = _composed_delta(ratios, first, second, epsilon, bound)
        added = _composed_delta(-ratios[::-1], second[::-1], first[::-1], epsilon, bound)
        return max(removed, added)


def _normal_masses(ends: Floats) -> Floats:
    """The standard normal probability of the cells between these ends, each computed from the nearer tail."""
    from scipy.special import ndtr  # noqa: PLC0415 slow to load

    ends = np.concatenate([[-np.inf], ends, [np.inf]])
    below, above = ndtr(ends), ndtr(-ends)
    masses: Floats = np.where(ends[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return masses


def _composed_delta(
    ratios: Floats, first: Floats, second: Floats, epsilon: float, bound: Callable[[Floats], Floats]
) -> float:
    r"""The mean of g(γ) with :math:`\gamma = e^{\varepsilon}` / ratio. Since g is convex, chords over cells bound it.

    In each cell γ is measured in units of its value at the lower end, so that no number grows like
    :math:`e^{\varepsilon}`.
    """
    heights = np.append(bound(epsilon - ratios), 1.0)  # γ = 0 at the end of the last cell
    heights = np.minimum.accumulate(heights[::-1])[::-1]  # a divergence decreases with γ, its bound may not
    narrowed = np.append(-np.diff(ratios), -np.inf)  # the logarithm of γ at the upper end of a cell
    falls, widths = np.diff(heights), np.expm1(narrowed)
    slopes = np.divide(falls, widths, out=np.zeros_like(falls), where=widths != 0)  # at 0 the higher end counts
    upper = first[1:] * heights[1:] + slopes * (np.exp(ratios) * second[1:] - np.exp(narrowed) * first[1:])
    return float(first[0] * heights[0] + upper.sum())


def remainder_divergence(order: float, loss: float) -> Callable[[Floats], Floats]:
    r"""A bound, by log γ, on :math:`H_\gamma(P\|Q)` for all P and Q with at most this Rényi loss in both directions.

    .. math:: (r - \gamma)_+ \le a\,(r^\alpha - r_0^\alpha - \alpha r_0^{\alpha-1}(r - r_0)), \qquad
              \mathbb{E}_Q r = 1, \quad \mathbb{E}_Q r^\alpha \le e^{(\alpha-1)\rho},

    with the least a, for several :math:`r_0 < 1`; :math:`r_0 = 0` is the usual conversion. For γ < 1 it uses
    :math:`H_\gamma(P\|Q) = 1 - \gamma + \gamma H_{1/\gamma}(Q\|P)`.
    """
    if loss == 0:
        return lambda logs: -np.expm1(np.minimum(0.0, logs))
    places, least = _tangent_points(order)
    moment = math.expm1(min((order - 1) * loss, _MAX_EXPONENT))
    usual = (order - 1) * (math.log1p(-1 / order) + loss) - math.log(order)

    def bound(logs: Floats) -> Floats:
        beyond = np.abs(logs)
        heights = np.exp(np.minimum(0.0, usual - (order - 1) * beyond))
        for v in _TANGENT_PARAMETERS:  # r0 = exp(-v / (α - 1))
            excess = -order * math.expm1(-v) + (order - 1) * math.expm1(-v * order / (order - 1))
            factor = math.exp(v) * (moment + excess)
            # Beyond all tangent points the least a of the last one holds.
            scaled = np.exp(np.minimum(beyond + v / (order - 1), _MAX_EXPONENT))
            np.minimum(heights, factor * np.interp(scaled, places, least, left=np.inf), out=heights)
        small = np.minimum(0.0, logs)
        return np.where(logs < 0, np.exp(small) * heights - np.expm1(small), heights)

    return bound


_TANGENT_PARAMETERS = np.geomspace(1e-4, 10, 16).tolist()


@lru_cache(maxsize=16)
def _tangent_points(order: float) -> tuple[Floats, Floats]:
    r"""Points x, and the least a with :math:`a(s^\alpha - 1 - \alpha(s - 1)) \ge s - x` for all s at each."""
    most = 600 * min(1.0, (order - 1) / order)  # s = exp(w / (α - 1)); s^α does not overflow
    w = np.geomspace(min(1e-4, most / 10), most, 600)
    above = np.expm1(w / (order - 1))
    least = 1 / (order * np.expm1(w))
    places = 1 + above - least * (np.expm1(w * order / (order - 1)) - order * above)
    return places, least


@dataclass(frozen=True, slots=True)
class GaussianBatch:
    """Releases whose discrete Gaussian noise, distances and `reads` are fixed before the first read, under a budget."""

    parts: tuple[BatchPart, ...]
    budget: Budget
    order: float

    @property
    def loss(self) -> float:
        """The sum of the losses: the price of the parts one by one."""
        return self.order / 2 * math.fsum((part.distance / part.std) ** 2 for part in self.parts)

    def dominating_pair(self, observed: Mapping[str, float] | None = None) -> DominatingPair | None:
        r"""A pair of distributions of one number that dominates the batch; None if no bound is known.

        With the probabilities that columns are `observed`, independently, it is a mixture over patterns v of gaps:

        .. math:: \Bigl(\sum_v p_v\,\mathcal{N}(m_v, 1),\ \mathcal{N}(0, 1)\Bigr), \qquad
                  m_v^2 = \sum_j \mathbf{1}\{A_j \subseteq v\}\,\mu_j^2
        """
        rates = observed or {}
        names = sorted({column for part in self.parts for column in part.reads if rates.get(column, 1.0) < 1})
        if len(names) > MAX_GAP_COLUMNS:
            return None
        # Each pattern of gaps may change other numbers.
        changed = max(1, sum(part.changed_numbers for part in self.parts)) << len(names)
        smoothed = math.log(5 * changed / SMOOTHING) / (2 * math.pi**2)
        variances = [part.std**2 - smoothed for part in self.parts]
        if min(variances) <= 0:
            return None
        squares = [part.distance**2 / variance for part, variance in zip(self.parts, variances, strict=True)]
        if not 0 < math.fsum(squares) < min(_MAX_MEAN, _MAX_MEAN_TIMES_ORDER / (self.order - 1)) ** 2:
            return None
        if observed is None:
            return DominatingPair.of(np.sqrt([math.fsum(squares)]), np.ones(1), self.order)
        patterns = np.arange(1 << len(names))
        chances, total = np.ones(len(patterns)), np.zeros(len(patterns))
        for i, column in enumerate(names):
            chances *= np.where(patterns >> i & 1, observed[column], 1 - observed[column])
        needed: dict[int, float] = {}
        for part, square in zip(self.parts, squares, strict=True):
            mask = sum(1 << i for i, column in enumerate(names) if column in part.reads)
            needed[mask] = needed.get(mask, 0.0) + square
        for mask, square in needed.items():
            total += np.where(patterns & mask == mask, square, 0.0)
        step = math.sqrt(total.max()) / MAX_MEANS
        means, where = np.unique(np.ceil(np.sqrt(total) / step - 1e-9), return_inverse=True)
        masses: Floats = np.bincount(where, chances).astype(np.float64)
        return DominatingPair.of(means[masses > 0] * step, masses[masses > 0], self.order)

    def satisfies(
        self, pair: DominatingPair | None, epsilon: float, delta: float, *, rest: float, margin: float = MARGIN
    ) -> bool:
        """Whether the batch, with this dominating pair, and later releases of loss `rest` satisfy (ε, δ) together."""
        if pair is None or epsilon <= SMOOTHING:
            return False
        reached = pair.delta(epsilon - SMOOTHING, remainder_divergence(self.order, rest))
        return reached * (1 + SMOOTHING) <= delta * (1 - margin)

    def epsilon(self, delta: float, *, rest: float = 0.0, observed: Mapping[str, float] | None = None) -> float:
        """The ε at δ of the batch and later releases of loss at most `rest`; infinite if no bound is known."""
        pair, most = self.dominating_pair(observed), 2 * self.budget.epsilon + 50
        return _smallest_true(lambda epsilon: self.satisfies(pair, epsilon, delta, rest=rest), most)

    def remaining_loss(self, price: float) -> float:
        """The largest loss of all later releases if the batch is charged this price, rounded up."""
        return max(0.0, self.budget.largest_loss(self.order) * (1 + ROUNDING) - price)

    def fits(self, price: float, *, margin: float = MARGIN, pair: DominatingPair | None = None) -> bool:
        """Whether the budget's (ε, δ) holds if the batch is charged this price; `pair` if it is known already."""
        pair, rest = pair or self.dominating_pair(), self.remaining_loss(price)
        return self.satisfies(pair, self.budget.epsilon, self.budget.delta, rest=rest, margin=margin)

    def price(self, most: float) -> float:
        """The least loss to charge for the batch; infinite if that is above `most` or the sum of the losses."""
        pair = self.dominating_pair()
        return _smallest_true(lambda price: self.fits(price, pair=pair), min(most, self.loss))

    @property
    def has_equal_noise(self) -> bool:
        """Whether all parts have the same noise."""
        return len({part.std for part in self.parts}) == 1

    def scale_noise(self, factor: float) -> GaussianBatch:
        """The batch with all noise multiplied by a factor."""
        return replace(self, parts=tuple(replace(part, std=part.std * factor) for part in self.parts))


def gaussian_batch(parts: Iterable[BatchPart | None], budget: Budget, order: float) -> GaussianBatch | None:
    """The batch of these parts, or None if no proof covers it: a part is None, or δ is too small."""
    given = list(parts)
    known = tuple(part for part in given if part is not None)
    proved = 0 < len(known) == len(given) and order != PURE and budget.delta >= MIN_DELTA
    return GaussianBatch(known, budget, order) if proved else None


def smallest_noise_factor(batch: GaussianBatch, spend: float) -> float:
    """The factor on all noise of a batch with which its price is `spend`; never above that for the sum of losses."""
    alone = math.sqrt(batch.loss / spend)
    found = _smallest_true(lambda factor: batch.scale_noise(factor).fits(spend), alone)
    return min(found, alone) * (1 + _TOLERANCE)


def _smallest_true(is_true: Callable[[float], bool], most: float) -> float:
    """The smallest number up to `most` that meets a monotone condition, rounded up; infinite if none does."""
    if not is_true(most):
        return math.inf
    low, high = 0.0, most
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_true(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class FirstBatchFilter(RenyiFilter):
    """The Rényi filter of a ledger without entries, which prices a batch of Gaussian noise as one mechanism.

    Distances, noise and `reads` of the batch are fixed by the charge; values may depend on its earlier answers.
    The price is the least loss that suffices. All other releases, and all later ones, are priced by the filter. Proved
    in docs/proofs/first_batch.md.

    Attributes:
        budget: the guarantee.
        reads_by_header: the `reads` of an entry; None if the header does not define the gaps of all of them.
    """

    budget: Budget = field(kw_only=True)
    reads_by_header: Callable[[Sequence[str] | None], Columns | None] = field(kw_only=True)

    def price(self, requests: Sequence[Request], *, together: bool = False) -> Price:
        """The price of a batch as one mechanism, if that is less than the sum of its losses."""
        alone = super().price(requests)
        batch = self._batch([(request.mechanism, request.distance) for request in requests]) if together else None
        price = math.inf if batch is None else batch.price(self.capacity.value)
        if not price < alone.total.value:
            return alone
        losses = tuple(loss * (price / alone.total.value) for loss in alone.losses)
        return Price(alone.requests, Loss(price, self.capacity.order), losses, together=True)

    def noise_for(self, counts: Sequence[Measurable], losses: Sequence[Loss], spend: Loss) -> list[CountNoise]:
        """The least noise with which the price of the batch is `spend`."""
        noises = super().noise_for(counts, losses, spend)
        batch = self._batch([(noise, value.distance) for noise, value in zip(noises, counts, strict=True)])
        if batch is None or (factor := smallest_noise_factor(batch, spend.value)) > 1:
            return noises
        return [DiscreteGaussian(part.std) for part in batch.scale_noise(factor).parts]

    def _batch(self, releases: Iterable[tuple[object, object]]) -> GaussianBatch | None:
        parts = (BatchPart.from_release(*release) for release in releases)
        return gaussian_batch(parts, self.budget, self.capacity.order)

    def after(self, entries: Sequence[Entry]) -> RenyiFilter:
        """The filter once anything is charged; checks the price of a first batch by its entries.

        The loss of an entry that a crash left half written is more than enough, since nothing was read for it.
        """
        if not entries:
            return self
        later = RenyiFilter(self.capacity).add_losses(entries)
        together = [entry for entry in entries if entry.together]
        if not together:
            return later
        if together != [entry for entry in entries if entry.batch == 1] or together[0].number != 1:
            raise ValueError("was changed: entries after the first batch are marked as priced together")
        parts = (
            BatchPart.from_release(
                mechanism_of(entry.mechanism), distance_of(entry.distance), self.reads_by_header(entry.reads)
            )
            for entry in together
            if entry.mechanism != UNKNOWN_MECHANISM
        )
        batch = gaussian_batch(parts, self.budget, self.capacity.order)
        price = math.fsum(entry.loss for entry in together)
        if batch is None or not batch.fits(price * (1 + RECOMPUTED_TOLERANCE), margin=MARGIN / 2):
            raise ValueError(
                "records a smaller loss for its first batch than these releases have, so it was changed or damaged"
            )
        return replace(later, first_batch=(batch, price))
