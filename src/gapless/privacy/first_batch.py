r"""A first batch that was fixed in advance, priced as one mechanism: by its exact total, not by the sum of its losses.

A ledger adds up Rényi losses at one order, and their sum is more than Gaussian noise really loses. Of a batch that was
fixed before anything was read the whole profile is known. Discrete Gaussian noise of parameters :math:`\sigma_j` on
whole numbers that move by at most :math:`\Delta_j` tells no more than one normal variable that moves by

.. math:: \mu = \Bigl(\sum_j \frac{\Delta_j^2}{\sigma_j^2 - s^2}\Bigr)^{1/2},

up to a factor :math:`e^{\pm\eta}` on probabilities; s² is about 1. Whatever follows has, given the answers of the
batch, a Rényi loss that the ledger bounds, and so raises each hockey-stick divergence by a known amount. The *price* of
the batch is the least loss with which the promise (ε, δ) is kept though all the rest of the budget be spent adaptively.
With nothing left it is the analytic Gaussian curve that decides. Proved in docs/proofs/first_batch.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gapless.privacy.accounting import MIN_DELTA
from gapless.privacy.budget import PURE, ROUNDING, Budget, Loss
from gapless.privacy.mechanisms import DiscreteGaussian
from gapless.privacy.pricing import CountNoise, Price, RenyiFilter, Request
from gapless.privacy.private import L1, L2, Columns, Private
from gapless.privacy.registry import RECOMPUTED_TOLERANCE, UNKNOWN_MECHANISM, mechanism_of
from gapless.types import Floats

if TYPE_CHECKING:
    from gapless.privacy.ledger_file import Entry

SMOOTHING = 1e-5  # η: what the passage from discrete to continuous noise may cost in ε
MARGIN = 1e-6  # of δ, for rounding errors; half of it when a record is computed again, on whatever machine
MAX_GAP_COLUMNS = 18  # columns with gaps
MAX_MEANS = 300  # of a mixture over patterns of gaps, rounded up to so many
_MAX_MEAN = 20.0  # beyond, no promise is left to speak of, and numbers would overflow
_MAX_MEAN_TIMES_ORDER = 1e3  # mean times order, beyond which a budget is exceeded anyway and cells would be too many
_TAIL_STDS = 9.0  # standard deviations; what lies beyond, below 1e-18, counts as lost for certain
_TOLERANCE = 1e-10  # to which prices and noise are found, from above
_MAX_EXPONENT = 700.0  # the exponential of more would overflow
_GRID_STEP = 0.04  # of the cells, beside how fast the bound on the rest falls


@dataclass(frozen=True, slots=True)
class BatchPart:
    """One release of a batch: its noise, how far its numbers move, how many of them at most, and whom it reads."""

    std: float
    distance: float
    changed_numbers: int
    reads: frozenset[str] = frozenset()

    @classmethod
    def from_release(cls, mechanism: object, distance: object, reads: frozenset[str] | None = None) -> BatchPart | None:
        """None if it is no discrete Gaussian noise: nothing is known of other parts."""
        if not isinstance(mechanism, DiscreteGaussian) or not isinstance(distance, L2):
            return None
        moved = distance.at_most if isinstance(distance, L1) else distance.at_most**2  # whole numbers, so by 1 or more
        return cls(mechanism.std, distance.at_most, math.floor(moved * (1 + ROUNDING)), reads or frozenset())

    @classmethod
    def from_entry(
        cls, parameters: Mapping[str, Any], distance: Mapping[str, float], reads: frozenset[str]
    ) -> BatchPart | None:
        """The same from the record of an entry."""
        ((kind, at_most),) = distance.items()
        return cls.from_release(mechanism_of(parameters), {"L1": L1, "L2": L2}.get(kind, float)(at_most), reads)


@dataclass(frozen=True, slots=True)
class DominatingPair:
    """Laws of one number that tells no less than a batch, with the person and without: the mass of each cell of a line.

    `ratios` are the logarithms of the ratio of densities at the ends of the cells; the first cell and the last are
    half-lines.
    """

    ratios: Floats
    within: Floats
    without: Floats

    @classmethod
    def of(cls, means: Floats, chances: Floats, order: float) -> DominatingPair:
        """A mixture of normal variables of variance 1 with these means, against the one of mean 0."""
        most = float(means.max())
        cells = math.ceil((most + 2 * _TAIL_STDS) * max(1.0, most * (order - 1)) / _GRID_STEP)
        ends = np.linspace(-_TAIL_STDS, most + _TAIL_STDS, cells)
        within, ratios = np.zeros(cells + 1), np.full(cells, -np.inf)
        for mean, chance in zip(means, chances, strict=True):
            within += chance * _normal_masses(ends - mean)
            np.logaddexp(ratios, math.log(chance) + mean * (ends - mean / 2), out=ratios)
        return cls(ratios, within, _normal_masses(ends))

    def delta(self, epsilon: float, bound: Callable[[Floats], Floats]) -> float:
        """The larger of the two hockey-stick divergences at ε of this pair and all that follows it."""
        there = _composed_delta(self.ratios, self.within, self.without, epsilon, bound)
        back = _composed_delta(-self.ratios[::-1], self.without[::-1], self.within[::-1], epsilon, bound)
        return max(there, back)


def _normal_masses(ends: Floats) -> Floats:
    """The standard normal mass of the cells between these ends, each from the tail that is nearer."""
    from scipy.special import ndtr  # noqa: PLC0415 slow to load

    ends = np.concatenate([[-np.inf], ends, [np.inf]])
    below, above = ndtr(ends), ndtr(-ends)
    masses: Floats = np.where(ends[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return masses


def _composed_delta(
    ratios: Floats, first: Floats, second: Floats, epsilon: float, bound: Callable[[Floats], Floats]
) -> float:
    r"""E[g(γ)] with :math:`\gamma = e^{\varepsilon}` / ratio; g is convex, so that chords over cells lie above it.

    In each cell γ is measured in units of its value at the lower end, so that no number grows like
    :math:`e^{\varepsilon}`.
    """
    heights = np.append(bound(epsilon - ratios), 1.0)  # γ = 0 at the end of the last cell
    heights = np.minimum.accumulate(heights[::-1])[::-1]  # a divergence falls with γ, its bound need not
    narrowed = np.append(-np.diff(ratios), -np.inf)  # the logarithm of γ at the upper end of a cell
    falls, widths = np.diff(heights), np.expm1(narrowed)
    slopes = np.divide(falls, widths, out=np.zeros_like(falls), where=widths != 0)  # at 0 the higher end counts
    inside = first[1:] * heights[1:] + slopes * (np.exp(ratios) * second[1:] - np.exp(narrowed) * first[1:])
    return float(first[0] * heights[0] + inside.sum())


def remainder_divergence(order: float, loss: float) -> Callable[[Floats], Floats]:
    r"""A bound on :math:`H_\gamma(P\|Q)` for all pairs with a loss of at most this in both directions, by log γ.

    .. math:: (r - \gamma)_+ \le a\,(r^\alpha - r_0^\alpha - \alpha r_0^{\alpha-1}(r - r_0)), \qquad
              \mathbb{E}_Q r = 1, \quad \mathbb{E}_Q r^\alpha \le e^{(\alpha-1)\rho},

    with the least a, for several :math:`r_0 < 1`; :math:`r_0 = 0` is the usual conversion. Below γ = 1 by
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
            scaled = np.exp(
                np.minimum(beyond + v / (order - 1), _MAX_EXPONENT)
            )  # above all places, where a is the least
            np.minimum(heights, factor * np.interp(scaled, places, least, left=np.inf), out=heights)
        small = np.minimum(0.0, logs)
        return np.where(logs < 0, np.exp(small) * heights - np.expm1(small), heights)

    return bound


_TANGENT_PARAMETERS = np.geomspace(1e-4, 10, 16).tolist()


@lru_cache(maxsize=16)
def _tangent_points(order: float) -> tuple[Floats, Floats]:
    r"""The least a with :math:`a(s^\alpha - 1 - \alpha(s - 1)) \ge s - x` for all s, by x, through where they touch."""
    most = 600 * min(1.0, (order - 1) / order)  # s = exp(w / (α - 1)); s^α does not overflow
    w = np.geomspace(min(1e-4, most / 10), most, 600)
    above = np.expm1(w / (order - 1))
    least = 1 / (order * np.expm1(w))
    places = 1 + above - least * (np.expm1(w * order / (order - 1)) - order * above)
    return places, least


@dataclass(frozen=True, slots=True)
class GaussianBatch:
    """Discrete Gaussian noise fixed before the first read, under a budget that is spent at an order."""

    parts: tuple[BatchPart, ...]
    budget: Budget
    order: float

    @property
    def loss(self) -> float:
        """The sum of the losses: what it would be charged part by part."""
        return self.order / 2 * math.fsum((part.distance / part.std) ** 2 for part in self.parts)

    def dominating_pair(self, seen: Mapping[str, float] | None = None) -> DominatingPair | None:
        r"""One normal variable that tells no less; None where no bound is at hand.

        With the chances that columns are `seen`, independently of each other, a mixture over patterns v of gaps:

        .. math:: \Bigl(\sum_v p_v\,\mathcal{N}(m_v, 1),\ \mathcal{N}(0, 1)\Bigr), \qquad
                  m_v^2 = \sum_j \mathbf{1}\{A_j \subseteq v\}\,\mu_j^2
        """
        chance_of = seen or {}
        names = sorted({column for part in self.parts for column in part.reads if chance_of.get(column, 1.0) < 1})
        if len(names) > MAX_GAP_COLUMNS:
            return None
        moved = max(1, sum(part.changed_numbers for part in self.parts)) << len(
            names
        )  # others with each pattern, perhaps
        smoothed = math.log(5 * moved / SMOOTHING) / (2 * math.pi**2)
        variances = [part.std**2 - smoothed for part in self.parts]
        if min(variances) <= 0:
            return None
        squares = [part.distance**2 / variance for part, variance in zip(self.parts, variances, strict=True)]
        if not 0 < math.fsum(squares) < min(_MAX_MEAN, _MAX_MEAN_TIMES_ORDER / (self.order - 1)) ** 2:
            return None
        if seen is None:
            return DominatingPair.of(np.sqrt([math.fsum(squares)]), np.ones(1), self.order)
        patterns = np.arange(1 << len(names))
        chances, total = np.ones(len(patterns)), np.zeros(len(patterns))
        for i, column in enumerate(names):
            chances *= np.where(patterns >> i & 1, seen[column], 1 - seen[column])
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
        """Whether the batch, and what follows with a loss of at most `rest`, keep (ε, δ) together."""
        if pair is None or epsilon <= SMOOTHING:
            return False
        lost = pair.delta(epsilon - SMOOTHING, remainder_divergence(self.order, rest))
        return lost * (1 + SMOOTHING) <= delta * (1 - margin)

    def epsilon(self, delta: float, *, rest: float = 0.0, seen: Mapping[str, float] | None = None) -> float:
        """The ε at δ of the batch and what follows with a loss of at most `rest`; infinite without a bound."""
        pair = self.dominating_pair(seen)
        return _smallest_true(
            lambda epsilon: self.satisfies(pair, epsilon, delta, rest=rest), 2 * self.budget.epsilon + 50
        )

    def remaining_loss(self, price: float) -> float:
        """The most that a ledger lets everything lose that follows a batch of this price, rounded up."""
        return max(0.0, self.budget.largest_loss(self.order) * (1 + ROUNDING) - price)

    def fits(self, price: float, *, margin: float = MARGIN) -> bool:
        """Whether the budget's promise is kept if the batch is charged this loss."""
        return self.satisfies(
            self.dominating_pair(),
            self.budget.epsilon,
            self.budget.delta,
            rest=self.remaining_loss(price),
            margin=margin,
        )

    def price(self, most: float) -> float:
        """The least loss to charge for the batch; infinite where that is above `most` or what a filter asks."""
        pair, (epsilon, delta) = self.dominating_pair(), (self.budget.epsilon, self.budget.delta)
        return _smallest_true(
            lambda price: self.satisfies(pair, epsilon, delta, rest=self.remaining_loss(price)), min(most, self.loss)
        )

    @property
    def has_equal_noise(self) -> bool:
        """Whether all of its noise is the same."""
        return len({part.std for part in self.parts}) == 1

    def scale_noise(self, factor: float) -> GaussianBatch:
        """The same with all noise times a factor."""
        return replace(self, parts=tuple(replace(part, std=part.std * factor) for part in self.parts))


def gaussian_batch(parts: Iterable[BatchPart | None], budget: Budget, order: float) -> GaussianBatch | None:
    """The batch of these parts if the rule is proved for it: every part is known, and δ is not too small."""
    given = list(parts)
    known = tuple(part for part in given if part is not None)
    proved = 0 < len(known) == len(given) and order != PURE and budget.delta >= MIN_DELTA
    return GaussianBatch(known, budget, order) if proved else None


def smallest_noise_factor(batch: GaussianBatch, spend: float) -> float:
    """The factor on all noise of a batch with which its price is `spend`; at most that by the sum of the losses."""
    alone = math.sqrt(batch.loss / spend)
    found = _smallest_true(lambda factor: batch.scale_noise(factor).fits(spend), alone)
    return min(found, alone) * (1 + _TOLERANCE)


def _smallest_true(holds: Callable[[float], bool], most: float) -> float:
    """The least number up to `most`, to ten digits and from above, at which something holds that then holds on."""
    if not holds(most):
        return math.inf
    low, high = 0.0, most
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class FirstBatch(RenyiFilter):
    """The Rényi filter of a ledger without entries: a batch of Gaussian noise costs the least sufficient loss.

    All other releases, and all later ones, are priced by the filter. Proved in docs/proofs/first_batch.md.

    Attributes:
        budget: the guarantee.
        counted: what an entry reads, as figures for the complete table count it.
    """

    budget: Budget = field(kw_only=True)
    counted: Callable[[Sequence[str] | None], Columns | None] = field(kw_only=True)

    def price(self, requests: Sequence[Request], *, together: bool = False) -> Price:
        """The exact price of a batch that is fixed in advance, where that is less than the sum of its losses."""
        alone = super().price(requests)
        batch = self._batch([(request.mechanism, request.distance) for request in requests]) if together else None
        price = math.inf if batch is None else batch.price(self.capacity.value)
        if not price < alone.total.value:
            return alone
        losses = tuple(loss * (price / alone.total.value) for loss in alone.losses)
        return Price(alone.requests, Loss(price, self.capacity.order), losses, together=True)

    def noise_for(self, counts: Sequence[Private[Any, L1]], parts: Sequence[Loss], spend: Loss) -> list[CountNoise]:
        """The least noise with which the exact price of the batch is `spend`."""
        noises = super().noise_for(counts, parts, spend)
        batch = self._batch([(noise, value.distance) for noise, value in zip(noises, counts, strict=True)])
        if batch is None or (factor := smallest_noise_factor(batch, spend.value)) > 1:
            return noises
        return [DiscreteGaussian(part.std) for part in batch.scale_noise(factor).parts]

    def _batch(self, releases: Iterable[tuple[object, object]]) -> GaussianBatch | None:
        return gaussian_batch(
            (BatchPart.from_release(*release) for release in releases), self.budget, self.capacity.order
        )

    def after(self, entries: Sequence[Entry]) -> RenyiFilter:
        """The filter, once anything is charged; the price of a first batch is computed again from its entries."""
        if not entries:
            return self
        following = RenyiFilter(self.capacity).add_losses(entries)
        together = [entry for entry in entries if entry.together]
        if not together:
            return following
        if together != [entry for entry in entries if entry.batch == 1] or together[0].number != 1:
            raise ValueError("was changed: a later batch is priced together")
        # For an entry that a crash left half written nothing was read, so that its loss is more than enough.
        batch = gaussian_batch(
            (
                BatchPart.from_entry(entry.mechanism, entry.distance, self.counted(entry.reads) or frozenset())
                for entry in together
                if entry.mechanism != UNKNOWN_MECHANISM
            ),
            self.budget,
            self.capacity.order,
        )
        price = math.fsum(entry.loss for entry in together)
        if batch is None or not batch.fits(price * (1 + RECOMPUTED_TOLERANCE), margin=MARGIN / 2):
            raise ValueError("states less than its first batch has lost")
        return replace(following, first_batch=(batch, price))
