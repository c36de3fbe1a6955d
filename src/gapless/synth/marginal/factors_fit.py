r"""Fitting of latent factors to released feature products and one-way tables.

Model. Component k has a fixed latent vector :math:`\eta_k`, one of K points of a normal distribution. Given the
component, the columns are independent. The distribution over the values x of column j is

.. math:: q_{kj}(x) \propto \exp\bigl(b_j(x) + v_j(x)^\top \Lambda_j \eta_k\bigr)

with bounded tilts v. Tilts of an ordered column are the normal score z of its mid-ranks and :math:`(z^2 - 1)/\sqrt2`,
which carries relations that are not monotone. Other columns have one tilt for each value. The rates of gap states
have the same form, with parameters of their own. So given its component, a value is missing at random.

Fit. L-BFGS minimises over b, the logits of gap rates and the loadings :math:`\Lambda`

.. math:: \sum_{a<b} \frac{\lVert \mathrm{E} f_a f_b^\top - y_{ab} \rVert^2}{2 s_{ab}^2}
          + \sum_j \sum_x \frac{(p_j(x) - y_j(x))^2}{2 s_j(x)^2} + \sum_i \frac{\lambda_i}{2} \lVert u_i \rVert^2,

where y are released values as shares of all rows, s their noise, f the features of a cell (`gapless.data.products`),
and p the one-way marginals of the model. All expectations are blocks of one matrix product over components.
Forbidden combinations of two or more columns are targets 0 with a high weight. Cells that forbid the same are merged,
so a rule such as "nobody under 22 is a husband with a high income" is one target: its whole probability.

The ridge on u is the only prior. Loadings are :math:`\Lambda_i = u_i \sqrt{1 + \lVert u_i \rVert^2}`. They grow faster
than u, so that the ridge hardly shrinks correlations near 1. A ridge on loadings is a nuclear-norm penalty: it removes
factors that noise explains, and shrinks strong factors as much. So a second pass rotates factors to their principal
axes, and penalises each of them less, the stronger it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.model.marginal import Marginal
from gapless.threads import one_thread
from gapless.types import Floats, Integers

Singles = NDArray[np.float32]

COMPONENTS = 512
RANK = 40  # of the latent vectors, at most
STEPS = 200  # of L-BFGS, in each of two passes
RIDGE_PER_FEATURE = 1 / 3  # of loadings: more features have more noise
SQUARE_RIDGE, GROUP_RIDGE, LEVEL_RIDGE = 10.0, 3.0, 1.5  # relative to that of normal scores
GAP_RIDGE = 300.0  # a weaker one makes components that are always or never missing, which tell nothing of the values
LARGEST_SCORE = 2.5  # of normal scores, so that tilts stay bounded
LEVEL_TILT = 2.0  # the tilt of one value, about as long as a normal score
ZERO_WEIGHT = 100.0  # of a forbidden combination, relative to the most precise product
ZERO_CELLS = 1 << 14  # most combinations of all merged columns but the smallest of a forbidden table in the fit
_LEAST = 1e-9  # share, in logarithms

Zeros = Sequence[tuple[Marginal, NDArray[np.bool_]]]


@dataclass(frozen=True, eq=False)
class ColumnTarget:
    """The released distribution of one column, and its features.

    Attributes:
        shares: the share of rows in each cell: values first, then gap states. All positive, sum 1.
        noise_std: of each share.
        features: cells × features; the mean feature vector of the rows in each cell.
        gaps: how many of the cells are gap states.
        order: the place of each value of an ordered column in its order; None for other columns.
        groups: the group of each value of an ordered column, if groups have tilts; else empty or None.
    """

    shares: Floats
    noise_std: Floats
    features: Floats
    gaps: int
    order: Integers | None = None
    groups: Integers | None = None

    @property
    def values(self) -> int:
        """How many of the cells are observed: values, and *not applicable*."""
        return len(self.shares) - self.gaps

    @cached_property
    def tilts(self) -> Floats:
        """Observed cells × tilts, each with mean 0."""
        p = self.shares[: self.values] / self.shares[: self.values].sum()
        if self.order is None:
            tilts = LEVEL_TILT * np.eye(self.values)
        else:
            many = len(self.order)
            parts = [normal_score_tilts(p[:many], self.order)]
            if self.groups is not None and self.groups.size:
                parts.append(LEVEL_TILT * np.eye(int(self.groups.max()) + 1)[self.groups])
            ordered, others = np.hstack(parts), self.values - many
            tilts = np.zeros((self.values, ordered.shape[1] + others))
            tilts[:many, : ordered.shape[1]] = ordered
            tilts[many:, ordered.shape[1] :] = LEVEL_TILT * np.eye(others)
        return np.asarray(tilts - p @ tilts)

    @property
    def ridge_factors(self) -> Floats:
        """The ridge of each tilt, relative to that of normal scores and levels.

        The square of a normal score and groups of values have little variance. Noise on many of them cannot come from
        any distribution, and fitting it would shrink the relations that are not noise.
        """
        many = self.tilts.shape[1]
        if self.order is None:
            return np.full(many, LEVEL_RIDGE)
        others = self.values - len(self.order)
        return np.concatenate(
            [[1.0, SQUARE_RIDGE], np.full(many - 2 - others, GROUP_RIDGE), np.full(others, LEVEL_RIDGE)]
        )


def mid_ranks(shares: Floats, order: Integers) -> Floats:
    """The share of rows below each value, plus half of its own, in this order of values."""
    places = np.argsort(order)
    ranked = shares[places] / shares.sum()
    ranks = np.empty(len(shares))
    ranks[places] = np.cumsum(ranked) - ranked / 2
    return np.clip(ranks, 0.0, np.nextafter(1.0, 0.0))


def normal_score_tilts(shares: Floats, order: Integers) -> Floats:
    """The normal score of each mid-rank, and its square, standardised."""
    from scipy.special import ndtri  # noqa: PLC0415 slow to load

    ranks = np.clip(mid_ranks(shares, order), 1e-4, 1 - 1e-4)
    z = np.clip(ndtri(ranks), -LARGEST_SCORE, LARGEST_SCORE)
    return np.stack([z, (z * z - 1) / np.sqrt(2)], axis=1)


def ridge_for(columns: Sequence[ColumnTarget]) -> float:
    """The ridge for as many features as these columns have."""
    features = sum(column.features.shape[1] for column in columns)
    return max(1.0, float(features) * RIDGE_PER_FEATURE)


class WarmStart(NamedTuple):
    """Where a fit of similar values begins: the parameters of an earlier one, its latent points and their strength."""

    parameters: Floats
    points: Singles
    strength: Floats


class FactorsFit(NamedTuple):
    """The result of a fit.

    Attributes:
        values: for each column the probabilities of its observed cells in each component; cells × components.
        cells: the same with gap states.
        end: for a warm start of another fit.
    """

    values: list[Singles]
    cells: list[Singles]
    end: WarmStart


@one_thread()
def fit_factors(
    columns: Sequence[ColumnTarget],
    products: Mapping[Marginal, tuple[Floats, float]],
    *,
    ridge: float,
    gap_ridge: float = GAP_RIDGE,
    zeros: Zeros = (),
    start: WarmStart | None = None,
    steps: int = STEPS,
    seed: int = 0,
) -> FactorsFit:
    """Fit latent factors.

    Args:
        columns: the released distribution of each column.
        products: for each pair of columns the released feature products as shares of all rows, and their noise.
        ridge: of the loadings of values.
        gap_ridge: of the loadings of gap rates.
        zeros: forbidden combinations: some columns, and a table of observed cells that is true where no row may be.
            They become targets with high weight, so their probability is small but not zero.
        start: the end of an earlier fit of similar values.
        steps: of L-BFGS, at most: all of them from a warm start, else those of the second pass.
        seed: of the latent points and the start; the same released values always give the same model.
    """
    rng = np.random.default_rng(seed)
    problem = _Problem(columns, products, zeros, COMPONENTS, rng, ridge=ridge, gap_ridge=gap_ridge)
    if start is None:
        x = problem.rotate(problem.minimise(problem.start, STEPS))
        x = problem.minimise(x, steps)
    else:
        x, problem.points, problem.strength = start
        x = problem.minimise(x, steps)
    values, cells = problem.probabilities(x)
    return FactorsFit(values, cells, WarmStart(x, problem.points, problem.strength))


class _Problem:
    """The loss of a fit and its gradient; parameters are value logits b, gap logits and u, in one vector."""

    def __init__(
        self,
        columns: Sequence[ColumnTarget],
        products: Mapping[Marginal, tuple[Floats, float]],
        zeros: Zeros,
        components: int,
        rng: np.random.Generator,
        *,
        ridge: float,
        gap_ridge: float,
    ) -> None:
        self.columns, self.components = columns, components
        self.cells = _spans([len(c.shares) for c in columns])
        self.values = _spans([c.values for c in columns])
        self.rates = _spans([1 + c.gaps for c in columns])
        self.gappy = [j for j, c in enumerate(columns) if c.gaps]
        self.is_value = np.concatenate([np.arange(len(c.shares)) < c.values for c in columns])
        self.value_of_cell = np.maximum(np.cumsum(self.is_value) - 1, 0)  # of a gap state, any
        self.features = _spans([c.features.shape[1] for c in columns])
        tilts = [c.tilts for c in columns]
        self.value_tilts = _spans([t.shape[1] for t in tilts])
        self.tilts = [t.astype(np.float32) for t in tilts]
        self.maps = [c.features.astype(np.float32) for c in columns]
        many_tilts = self.value_tilts[-1].stop
        gap_starts = many_tilts + np.cumsum([0, *(c.gaps for c in columns)])
        self.gap_tilts = [slice(a, b) for a, b in pairwise(gap_starts.tolist())]
        self.rows = int(gap_starts[-1])

        self.shares = np.concatenate([c.shares for c in columns]).astype(np.float32)
        self.precision = np.concatenate([c.noise_std**-2.0 for c in columns]).astype(np.float32)
        width = self.features[-1].stop
        self.target = np.zeros((width, width), dtype=np.float32)
        self.weight = np.zeros((width, width), dtype=np.float32)
        for (a, b), (y, noise_std) in products.items():
            block = self.features[a], self.features[b]
            self.target[block], self.weight[block] = y, noise_std**-2.0
            self.target[block[::-1]], self.weight[block[::-1]] = y.T, noise_std**-2.0
        merged = ((columns, *merge_cells(table)) for columns, table in zeros)
        self.zeros = [zero for zero in merged if few_combinations(zero[2].shape)]
        self.zero_weight = np.float32(ZERO_WEIGHT * max(1.0, float(self.weight.max(initial=0.0))))
        penalty = [ridge * column.ridge_factors for column in columns]
        self.ridges = np.concatenate([*penalty, np.full(self.rows - many_tilts, gap_ridge)])[:, None]
        self.strength = np.zeros(1)  # of each principal factor; before factors are rotated, all are penalised alike
        self.rank = min(RANK, self.rows)
        self.points = normal_points(components, self.rank, rng)
        rates = [np.append(c.shares[: c.values].sum(), c.shares[c.values :]) for c in columns]
        self.start = np.concatenate(
            [
                *(np.log(np.maximum(c.shares[: c.values], _LEAST)) for c in columns),
                *(np.log(np.maximum(r, _LEAST)) for r in rates),
                0.3 * rng.standard_normal(self.rows * self.rank) / np.sqrt(self.rank),
            ]
        )

    def split(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """The value logits, the gap logits, and u."""
        values = self.values[-1].stop
        rates = values + self.rates[-1].stop
        return x[:values], x[values:rates], x[rates:].reshape(self.rows, self.rank)

    def probabilities(self, x: Floats) -> tuple[list[Singles], list[Singles]]:
        """For each column the probabilities of its values and of its cells, in each component."""
        values, cells, *_ = self._forward(x)
        return [values[span] for span in self.values], [cells[span] for span in self.cells]

    def _forward(self, x: Floats) -> tuple[Singles, Singles, dict[int, Singles], Floats, Floats]:
        """Probabilities of all values, of all cells, and of gap states by column; then u and its scale."""
        value_logits, rate_logits, u = self.split(x)
        scale = np.sqrt(1 + (u * u).sum(axis=1, keepdims=True))
        theta = (u * scale).astype(np.float32) @ self.points
        b, r = value_logits.astype(np.float32)[:, None], rate_logits.astype(np.float32)[:, None]
        values = np.empty((len(b), self.components), dtype=np.float32)
        for tilts, place, span in zip(self.tilts, self.value_tilts, self.values, strict=True):
            np.matmul(tilts, theta[place], out=values[span])
        values += b
        for span in self.values:
            values[span] -= values[span].max(axis=0)
        np.exp(values, out=values)
        for span in self.values:
            values[span] /= values[span].sum(axis=0)
        if not self.gappy:
            return values, values, {}, u, scale
        cells, rates = values[self.value_of_cell], {}
        for j in self.gappy:
            logits = np.repeat(r[self.rates[j]], self.components, axis=1)
            logits[1:] += LEVEL_TILT * theta[self.gap_tilts[j]]
            rates[j] = _softmax(logits)
            here, values_size = cells[self.cells[j]], self.columns[j].values
            here[:values_size] *= rates[j][0]
            here[values_size:] = rates[j][1:]
        return values, cells, rates, u, scale

    def loss(self, x: Floats) -> tuple[float, Floats]:
        """The loss and its gradient."""
        values, cells, rates, u, scale = self._forward(x)
        penalty = self.ridges / (1 + self.strength**2)
        many = np.float32(self.components)
        off = cells.mean(axis=1) - self.shares
        features = np.empty((self.features[-1].stop, self.components), dtype=np.float32)
        for vectors, place, span in zip(self.maps, self.cells, self.features, strict=True):
            np.matmul(vectors.T, cells[place], out=features[span])
        residual = features @ features.T / many - self.target
        force = self.weight * residual
        pull = force @ features / many
        d_cells = np.empty_like(cells)
        for vectors, span, place in zip(self.maps, self.features, self.cells, strict=True):
            np.matmul(vectors, pull[span], out=d_cells[place])
        d_cells += (self.precision * off / many)[:, None]
        d_values = d_cells[self.is_value] if self.gappy else d_cells
        d_rates = np.zeros(self.rates[-1].stop, dtype=np.float32)
        d_theta = np.empty((self.rows, self.components), dtype=np.float32)
        for j, h in rates.items():
            d, q = d_values[self.values[j]], values[self.values[j]]
            of_gaps = d_cells[self.cells[j]][len(d) :]
            d_logits = _softmax_back(h, np.vstack([np.einsum("ck,ck->k", d, q), of_gaps]))
            d_theta[self.gap_tilts[j]] = LEVEL_TILT * d_logits[1:]
            d_rates[self.rates[j]] = d_logits.sum(axis=1)
            d *= h[0]
        broken, d_zeros = self._zeros_loss([values[span] for span in self.values])
        for j, pushed in d_zeros.items():
            d_values[self.values[j]] += pushed
        d_values *= values
        for tilts, span, place in zip(self.tilts, self.values, self.value_tilts, strict=True):
            d_values[span] -= values[span] * d_values[span].sum(axis=0)
            np.matmul(tilts.T, d_values[span], out=d_theta[place])
        loadings = (d_theta @ self.points.T).astype(np.float64)
        d_u = scale * loadings + (loadings * u).sum(axis=1, keepdims=True) / scale * u + penalty * u
        value = (
            float((force * residual).sum(dtype=np.float64)) / 4
            + float((self.precision * off * off).sum(dtype=np.float64)) / 2
            + float((penalty * u * u).sum()) / 2
            + broken
        )
        return value, np.concatenate([d_values.sum(axis=1), d_rates, d_u.ravel()]).astype(np.float64)

    def _zeros_loss(self, values: Sequence[Singles]) -> tuple[float, dict[int, Singles]]:
        """The loss of forbidden combinations, and its gradient in the probabilities of values, by column."""
        loss, gradients, many = 0.0, dict[int, Singles](), np.float32(self.components)
        for columns, groups, table in self.zeros:
            merged = [group @ values[column] for column, group in zip(columns, groups, strict=True)]
            joint = table * (merged[0] @ _joint(merged[1:], self.components).T / many).reshape(table.shape)
            loss += float(self.zero_weight) * float((joint * joint).sum(dtype=np.float64)) / 2
            force = self.zero_weight / many * joint
            for axis, column in enumerate(columns):
                others = _joint([*merged[:axis], *merged[axis + 1 :]], self.components)
                pull = np.moveaxis(force, axis, 0).reshape(len(merged[axis]), -1) @ others
                gradient: Singles = np.asarray(groups[axis].T @ pull, dtype=np.float32)
                gradients[column] = gradients.get(column, np.float32(0)) + gradient
        return loss, gradients

    def minimise(self, x: Floats, steps: int) -> Floats:
        """Take at most this many steps of L-BFGS."""
        from scipy.optimize import minimize  # noqa: PLC0415 slow to load

        options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 15}
        return np.asarray(minimize(self.loss, x, jac=True, method="L-BFGS-B", options=options).x)

    def rotate(self, x: Floats) -> Floats:
        """Rotate factors to their principal axes, and penalise each of them less, the stronger it is."""
        b, r, u = self.split(x)
        _, self.strength, axes = np.linalg.svd(u, full_matrices=False)
        self.points = (axes @ self.points).astype(np.float32)
        return np.concatenate([b, r, (u @ axes.T).ravel()])


def normal_points(components: int, rank: int, rng: np.random.Generator) -> Singles:
    """Rank × components: quasi-random points of a normal distribution, with mean 0 and covariance 1 exactly."""
    from scipy.special import ndtri  # noqa: PLC0415 slow to load
    from scipy.stats import qmc  # noqa: PLC0415 slow to load

    points = ndtri(np.clip(qmc.Sobol(rank, seed=rng).random(components), 1e-4, 1 - 1e-4)).T
    points -= points.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(points @ points.T / components)
    whitened: Singles = ((vectors / np.sqrt(values)) @ vectors.T @ points).astype(np.float32)
    return whitened


def merge_cells(table: NDArray[np.bool_]) -> tuple[list[Singles], Singles]:
    """Merge the cells of each axis of a table of forbidden combinations that forbid the same.

    Returns:
        For each axis groups × cells: 1 for the cells of a group; and the smaller table.
    """
    groups = []
    for axis in range(table.ndim):
        slices = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
        _, first, code = np.unique(slices, axis=0, return_index=True, return_inverse=True)
        groups.append((np.arange(len(first))[:, None] == code.reshape(-1)).astype(np.float32))
        table = table.take(first, axis=axis)
    return groups, table.astype(np.float32)


def few_combinations(sizes: Sequence[int]) -> bool:
    """Whether a table of forbidden combinations of merged cells is small enough for a fit."""
    return prod(sizes) <= ZERO_CELLS * min(sizes)


def _joint(columns: Sequence[Singles], components: int) -> Singles:
    """The probabilities of all combinations of some columns, in each component: combinations × components."""
    joint = np.ones((1, components), dtype=np.float32)
    for cells in columns:
        joint = (joint[:, None] * cells).reshape(-1, components)
    return joint


def _spans(sizes: Sequence[int]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(np.cumsum([0, *sizes]).tolist())]


def _softmax(logits: Singles) -> Singles:
    powers = np.exp(logits - logits.max(axis=0))
    powers /= powers.sum(axis=0)
    return np.asarray(powers)


def _softmax_back(probabilities: Singles, gradient: Singles) -> Singles:
    h = probabilities * gradient
    return np.asarray(h - probabilities * h.sum(axis=0))
