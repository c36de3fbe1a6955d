r"""Fitting of mixtures of products to noisy tables of one and two columns.

All pair tables of a mixture are the blocks of :math:`P P^\top / K`, with P the matrix of its probabilities
(`gapless.synth.marginal.mixture_model`). `fit_mixture` minimises

.. math:: \chi^2 = \sum_m \lVert (T \mu_m - y_m) / \sigma_m \rVert^2

over the logits of P, where μ are the model's tables, T is the total, y the noisy counts and σ their `noise_std`. First
the measurements are reconciled. That changes the loss by a constant, and leaves as many degrees of freedom as there are
main effects and interactions. Cells that are probably empty are shrunk to zero and get more weight
(`gapless.model.denoise`). Steps are those of Adam on the softmax logits, with one common scale, and become shorter. The
descent ends when noise explains the residuals (Morozov's discrepancy principle): χ² is at most its degrees of freedom,
and that of no table exceeds its degrees of freedom by more than `EXPLAINED` standard deviations.

*Components.* A small mixture cannot fit the noise. So several small mixtures are fitted from different starts and
combined, each with as few components as reach the noise level: if a start cannot, it is dropped, and the number of
components doubles. More rows give more components in total, because weaker dependence among many columns then shows.

*Gaps.* For each column a component has a distribution q over observed cells and, as separate parameters, the rates h of
being observed and of each kind of gap. Its distribution over all cells is :math:`(h_0 q, h_1, h_2, \dots)`. Rows with
gaps are drawn from it, complete rows from q: given its component, a cell is missing at random. If rates moved as fast
as cells, components would specialise in gaps or in no gaps, and would not learn the distribution of missing cells. So
rates move slowly, and only where the tables show that gaps depend on something. The cells of a gap are tested against
independence, given the noise and the randomness of gaps. A column that passes keeps its overall rate. For other columns
steps are scaled by the share of χ² that only dependence explains (the positive-part James-Stein factor).

References: Kingma, Ba 2015 (Adam). Constants were chosen by bench/mixture.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.model.denoise import denoise, margin_noise
from gapless.model.marginal import Marginal, Measurement, estimate_total, reconcile
from gapless.synth.marginal.mixture_model import MixtureModel, Singles, ends_of
from gapless.types import Floats, Integers

__all__ = ["MixtureFit", "fit_mixture"]

EXPLAINED = 10.0  # standard deviations of χ² up to which noise explains a table
LEAST_COMPONENTS = 25  # of each of the combined mixtures
LEAST_MIXTURES = 4  # that are combined
ROWS_PER_COMPONENT = 60  # of the whole, within the limits below
COMPONENTS = (1_000, 10_000)  # of the whole, at least and at most
FOLLOW_COMPONENTS = 100  # of a mixture that follows noise
FOLLOW_STEPS = 200
WARM_STEPS = 60  # of a mixture that follows noise, from a warm start
STEPS = 300
LEAST_STEPS = 20
RATE = 0.1  # of the first step, in logits
GAP_RATE, LOOSE_GAP_RATE = 0.1, 0.3  # of gap rates, relative to RATE; with loose gap rates
SPREAD = 0.5  # standard deviation of the logits at the start
DEPENDENT = 3.0  # standard deviations of χ² from which gaps are taken as dependent

_LEAST = 1e-4  # share of a cell at the start
_NEVER = 1e-30  # replaces 0 in logarithms
_CHECK = 5  # steps between two checks of convergence
_OUTLOOK = 50  # steps over which progress is extrapolated
_ZERO = 100.0  # weight of a forbidden cell, relative to the most precise one
_CELLS = 1 << 22  # of the working memory
_NO_THREADS = 1 << 18  # multiplications up to which BLAS uses one thread
_WORTH_THREADS = 1 << 22  # multiplications from which threads are worthwhile


class MixtureFit(NamedTuple):
    """The result of a fit.

    Attributes:
        filled: the distribution over observed cells.
        gapped: the distribution over all cells; None if no column has gap states.
        total: the number of rows.
        unexplained: the tables that are further from the model than noise explains.
    """

    filled: MixtureModel
    gapped: MixtureModel | None
    total: float
    unexplained: tuple[Marginal, ...]


def fit_mixture(
    sizes: Sequence[int],
    measurements: Iterable[Measurement],
    *,
    observed: Sequence[int] | None = None,
    total: float | None = None,
    zeros: Iterable[tuple[Marginal, NDArray[np.bool_]]] = (),
    follow_noise: bool = False,
    start: tuple[MixtureModel, MixtureModel | None] | None = None,
    loose_gap_rates: bool = False,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> MixtureFit:
    """Learn a mixture from noisy counts of one and two columns with equal totals.

    Memory is about 8 bytes × (all cells of all columns)², and time is proportional to it.

    Args:
        sizes: the number of cells of each column as counted: observed cells first, then gap states.
        measurements: noisy tables of one or two columns. Pairs without a table are not constrained.
        observed: the number of observed cells of each column; by default all.
        total: the number of rows, at least 1; by default estimated from the measurements.
        zeros: forbidden combinations of observed cells: two columns, and a table that is true where no row may be. They
            become targets with high weight, so their probability is small but not zero.
        follow_noise: whether to fit the noisy tables as closely as components can: less bias, more noise. The descent
            does not stop where noise explains the residuals, and no cell is shrunk to zero.
        start: `filled` and `gapped` of a fit of similar tables with `follow_noise`, as a warm start.
        loose_gap_rates: whether gap rates move three times as fast, with `follow_noise`. The tables do not determine
            this speed; comparing both shows how much depends on it.
        seed: of the starts; the same released values always give the same model.
        progress: called with the number of fitted components, and how many there will be.
    """
    sizes = tuple(int(size) for size in sizes)
    measurements = list(measurements)
    observed = sizes if observed is None else tuple(int(size) for size in observed)
    total = max(1.0, estimate_total(measurements) if total is None else total)
    tables = _Tables(sizes, observed, measurements, total, zeros, denoised=not follow_noise)
    rng = np.random.default_rng(seed)
    wanted = int(np.clip(total / ROWS_PER_COMPONENT, *COMPONENTS))
    largest = wanted // LEAST_MIXTURES
    components, done = LEAST_COMPONENTS, 0
    found: list[_Probabilities] = (
        [_follow(tables, rng, start, LOOSE_GAP_RATE if loose_gap_rates else GAP_RATE)] if follow_noise else []
    )
    while done < wanted and not follow_noise:
        probabilities = _descend(tables, components, rng, is_last=components == largest)
        if probabilities is None:
            components = min(2 * components, largest)
            continue
        found.append(probabilities)
        done += components
        if progress:
            progress(min(done, wanted), wanted)
    filled = MixtureModel(np.split(np.hstack([part.cells for part in found]).T, ends_of(observed)[1:-1], axis=1))
    whole = np.hstack([part.whole for part in found])
    gapped = MixtureModel(np.split(whole.T, ends_of(sizes)[1:-1], axis=1)) if observed != sizes else None
    return MixtureFit(filled, gapped, total, tables.unexplained(whole))


class _Tables:
    """The targets of a fit, and their weights, as blocks of one matrix over the cells of all columns.

    The diagonal holds the one-way tables. A two-way table is there twice, with half its weight.

    Attributes:
        layout: which cells are observed and which are gaps.
        start: the estimated share of each cell.
        freedom: the degrees of freedom of the table of each two columns; of one-way tables on the diagonal.
        gap_speed: for each column, how fast its gap rates move, from 0 to 1.
    """

    def __init__(
        self,
        sizes: Marginal,
        observed: Marginal,
        measurements: Iterable[Measurement],
        total: float,
        zeros: Iterable[tuple[Marginal, NDArray[np.bool_]]],
        *,
        denoised: bool = True,
    ) -> None:
        self.layout = _CellLayout(sizes, observed)
        self.ends = ends_of(sizes)
        cells, many = int(self.ends[-1]), len(sizes)
        self.target = np.zeros((cells, cells), dtype=np.float32)
        self.weight = np.zeros((cells, cells), dtype=np.float32)
        self.start = np.concatenate([np.empty(0), *(np.full(size, 1 / size) for size in sizes)])
        self.freedom = np.zeros((many, many))
        agreed = reconcile(sizes, measurements, total)
        for columns, (table, noise_std) in sorted(agreed.items(), key=lambda item: -len(item[0])):
            share, weight = table / total, (total / noise_std) ** 2
            spans = [slice(self.ends[column], self.ends[column + 1]) for column in columns]
            for axis, span in enumerate(spans):  # tables agree on this, so the last one may overwrite it
                self.start[span] = share.sum(axis=tuple(other for other in range(len(columns)) if other != axis))
            self.freedom[columns[0], columns[-1]] = prod(sizes[column] - 1 for column in columns)
            if len(columns) == 1:
                np.fill_diagonal(self.target[spans[0], spans[0]], share)
                np.fill_diagonal(self.weight[spans[0], spans[0]], weight)
            else:
                first, second = spans
                self.target[first, second], self.target[second, first] = share, share.T
                self.weight[first, second] = self.weight[second, first] = weight / 2
        self.start = np.maximum(self.start, _LEAST)
        self.gap_speed = np.array([self._gap_speed(column, total) for column in range(many)])
        for column in np.flatnonzero(
            self.gap_speed == 0
        ).tolist():  # their rates stay fixed, so add the randomness of gaps to the noise
            for gap, others, variance in self._gaps(column, total):
                self.weight[gap, others] = self.weight[others, gap] = 0.5 / variance
        heaviest = float(self.weight.max(initial=1.0))
        margins = margin_noise(sizes, {columns: noise_std for columns, (_, noise_std) in agreed.items()})
        for columns, (table, noise_std) in agreed.items():
            if len(columns) > 1 and denoised:
                self._denoise(columns, table, noise_std, [margins[column] for column in columns], total)
        for columns, forbidden in zeros:
            rows, others = np.nonzero(forbidden)
            cell, other = self.ends[columns[0]] + rows, self.ends[columns[1]] + others
            for block in ((cell, other), (other, cell)):
                self.target[block] = 0
                self.weight[block] = _ZERO * heaviest
        step = max(1, _CELLS // max(1, cells))
        self.blocks = [slice(begin, min(begin + step, cells)) for begin in range(0, cells, step)]

    def _denoise(
        self, columns: Marginal, table: Floats, noise_std: float, margins_std: Sequence[float], total: float
    ) -> None:
        """Shrink probably empty cells among the observed ones of two columns to zero; gaps have a separate test."""
        first, second = (slice(self.ends[column], self.ends[column + 1]) for column in columns)
        among = tuple(slice(self.layout.observed[column]) for column in columns)
        shown = denoise(table, noise_std, margins_std, region=among)
        self.target[first, second], self.target[second, first] = shown.counts / total, shown.counts.T / total
        self.weight[first, second] /= shown.variance
        self.weight[second, first] /= shown.variance.T

    def _gap_speed(self, column: int, total: float) -> float:
        """Return the share of χ² of a column's gaps that neither noise nor the randomness of gaps explains."""
        square, freedom = 0.0, 0
        for gap, others, variance in self._gaps(column, total):
            independent = self.start[gap] * self.start[others]
            square += float(((self.target[gap, others] - independent) ** 2 / variance).sum())
            freedom += len(others) - len(np.unique(self.layout.column[others]))
        explained = freedom + DEPENDENT * sqrt(2 * freedom)
        return max(0.0, 1 - explained / square) if square > 0 else 0.0

    def _gaps(self, column: int, total: float) -> list[tuple[int, Integers, Floats]]:
        """Return each gap state of a column, the cells with which it was counted, and the variance of the counts.

        The variance is that of the noise plus that of gaps that fall independently.
        """
        begin, end = self.ends[column], self.ends[column + 1]
        others = np.flatnonzero((self.layout.column != column) & (self.weight[begin] > 0))
        found = []
        for gap in range(begin + self.layout.observed[column], end):
            chance = self.start[gap] * (1 - self.start[gap]) * self.start[others] / total
            found.append((gap, others, 0.5 / self.weight[gap, others] + chance))
        return found

    def gradient(self, whole: Singles, squares: Floats | None = None) -> Singles:
        """Return the gradient of χ² in these probabilities, × components / 2.

        `squares`, if passed, receives the χ² of each cell with each column. The matrix of all tables is computed in
        blocks of rows, so that only a part is in memory at a time.
        """
        components = np.float32(whole.shape[1])
        gradient = np.empty_like(whole)
        for rows in self.blocks:
            table = _multiply(whole[rows], whole.T)
            table /= components
            places = np.arange(len(table)), np.arange(rows.start, rows.stop)
            table[places] = whole[rows].mean(axis=1)
            table -= self.target[rows]
            force = table * self.weight[rows]
            if squares is not None:
                table *= force
                squares[rows] = np.add.reduceat(table, self.ends[:-1], axis=1)
            alone = force[places][:, None]  # the diagonal is a mean, not a product
            force[places] = 0
            force *= 2  # a pair is there twice, and each cell affects both
            gradient[rows] = _multiply(force, whole)
            gradient[rows] += alone
        return gradient

    def compare(self, whole: Singles) -> tuple[Floats, Singles]:
        """Return χ² of each table, two-way tables above the diagonal, and the gradient."""
        squares = np.empty((len(whole), len(self.freedom)))
        gradient = self.gradient(whole, squares)
        both = np.add.reduceat(squares, self.ends[:-1], axis=0)
        return np.triu(both) + np.tril(both, -1).T, gradient

    def excess(self, squares: Floats) -> Floats:
        """Return the excess of each χ² over its degrees of freedom, in standard deviations; -∞ without a table."""
        known = self.freedom > 0
        deviation = np.sqrt(2 * np.where(known, self.freedom, 1))
        return np.where(known, (squares - self.freedom) / deviation, -np.inf)

    def unexplained(self, whole: Singles) -> tuple[Marginal, ...]:
        """Return the tables that are further from these probabilities than noise explains."""
        far = self.excess(self.compare(whole)[0]) > EXPLAINED
        return tuple((int(i),) if i == j else (int(i), int(j)) for i, j in np.argwhere(far))

    def misfit_ratios(self, squares: Floats) -> tuple[float, float]:
        """Return the misfit relative to noise, overall and in the worst table: at 1, noise explains the residuals."""
        overall = float(squares.sum()) / max(1.0, float(self.freedom.sum()))
        return overall, max(overall, float(self.excess(squares).max(initial=-np.inf)) / EXPLAINED)


class _CellLayout:
    """Which rows of P are observed cells and which are gaps, and where the logits of each are.

    Logits of rates have a row for being observed and one for each gap state, column after column.
    """

    def __init__(self, sizes: Marginal, observed: Marginal) -> None:
        self.observed = observed
        self.column = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(self.column)) - ends_of(sizes)[self.column]
        self.seen = np.flatnonzero(place < np.array(observed, dtype=np.int64)[self.column])
        self.gaps = np.setdiff1d(np.arange(len(self.column)), self.seen)
        states = tuple(1 + size - seen for size, seen in zip(sizes, observed, strict=True))
        self.cells = _Softmax(observed)
        self.rates = _Softmax(states)
        self.observed_rates = ends_of(states)[:-1]
        self.gap_rates = np.setdiff1d(np.arange(sum(states)), self.observed_rates)


class _Softmax:
    """Maps logits to probabilities in blocks of rows, and gradients back."""

    def __init__(self, sizes: Marginal) -> None:
        self.block = np.repeat(np.arange(len(sizes)), sizes)
        self.members = (np.arange(len(sizes))[:, None] == self.block).astype(np.float32)

    def sums(self, values: Singles) -> Singles:
        return _multiply(self.members, values)  # half the time of np.add.reduceat

    def __call__(self, logits: Singles) -> Singles:
        """Return probabilities, and normalise the logits in place; steps are short, so that powers do not overflow."""
        powers = np.exp(logits)
        sums = self.sums(powers)
        powers /= sums[self.block]
        logits -= np.log(sums)[self.block]
        return np.asarray(powers)

    def back(self, probabilities: Singles, gradient: Singles) -> Singles:
        """Return the gradient in the logits, from the one in the probabilities."""
        result = probabilities * gradient
        result -= probabilities * self.sums(result)[self.block]
        return np.asarray(result)


class _Adam:
    """Adam: a running mean of gradients over the root of a running mean of their squares."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape, dtype=np.float32)
        self.square = np.zeros(shape, dtype=np.float32)
        self.steps = 0

    def __call__(self, gradient: Singles, rate: float) -> Singles:
        self.steps += 1
        self.mean *= np.float32(0.9)
        self.mean += np.float32(0.1) * gradient
        gradient = gradient * gradient
        gradient *= np.float32(0.01)
        self.square *= np.float32(0.99)
        self.square += gradient
        correction = sqrt(1 - 0.99**self.steps)
        root = np.sqrt(self.square, out=gradient)
        root += np.float32(1e-3 * correction)
        step = np.divide(self.mean, root, out=root)
        step *= np.float32(rate * correction / (1 - 0.9**self.steps))
        return step


class _Probabilities(NamedTuple):
    """The probabilities of some components: of observed cells, of rates, and of all cells."""

    cells: Singles
    rates: Singles
    whole: Singles


class _Logits:
    """The parameters of some components."""

    def __init__(
        self, tables: _Tables, components: int, rng: np.random.Generator, *, gap_rate: float = GAP_RATE
    ) -> None:
        self.layout = layout = tables.layout
        self.gapped = len(layout.gaps) > 0
        log = np.log(tables.start).astype(np.float32)
        spread = rng.standard_normal((len(layout.seen), components), dtype=np.float32)
        self.cells = log[layout.seen, None] + np.float32(SPREAD) * spread
        rates = np.empty((len(layout.rates.block), 1), dtype=np.float32)
        rates[layout.observed_rates] = np.log(layout.cells.sums(np.exp(log[layout.seen, None])))
        rates[layout.gap_rates] = log[layout.gaps, None]
        self.rates = np.repeat(rates, components, axis=1)
        self.gap_speed = (gap_rate * tables.gap_speed).astype(np.float32)[layout.rates.block, None]
        self.moving = bool(self.gap_speed.any())
        self.still = None if self.moving else layout.rates(self.rates)
        self.step_cells, self.step_rates = _Adam(self.cells.shape), _Adam(self.rates.shape)

    def warm_start(self, filled: MixtureModel, gapped: MixtureModel | None) -> None:
        """Start from the components of another mixture of these columns."""
        layout = self.layout
        self.cells = _logs(np.hstack(filled.probabilities).T)
        if gapped is not None and self.moving:
            whole = np.hstack(gapped.probabilities).T
            self.rates[layout.gap_rates] = _logs(whole[layout.gaps])
            self.rates[layout.observed_rates] = _logs(layout.cells.sums(whole[layout.seen]))

    def probabilities(self) -> _Probabilities:
        """Return the probabilities of the components."""
        layout, cells = self.layout, self.layout.cells(self.cells)
        if not self.gapped:
            return _Probabilities(cells, self.rates, cells)
        rates = layout.rates(self.rates) if self.still is None else self.still
        whole = np.empty((len(layout.column), cells.shape[1]), dtype=np.float32)
        whole[layout.seen] = cells * rates[layout.observed_rates][layout.cells.block]
        whole[layout.gaps] = rates[layout.gap_rates]
        return _Probabilities(cells, rates, whole)

    def logit_gradients(self, probabilities: _Probabilities, gradient: Singles) -> tuple[Singles, Singles | None]:
        """Return the gradients in the logits of cells and, if they move, of rates, from that in probabilities."""
        layout = self.layout
        if not self.gapped:
            return layout.cells.back(probabilities.cells, gradient), None
        seen, rates = gradient[layout.seen], None
        if self.moving:
            rates = np.empty_like(self.rates)
            rates[layout.gap_rates] = gradient[layout.gaps]
            rates[layout.observed_rates] = layout.cells.sums(seen * probabilities.cells)
            rates = layout.rates.back(probabilities.rates, rates)
        seen *= probabilities.rates[layout.observed_rates][layout.cells.block]
        return layout.cells.back(probabilities.cells, seen), rates

    def step(self, probabilities: _Probabilities, gradient: Singles, *, rate: float) -> None:
        """Take a step by gradients relative to their root mean square, so that late ones count like early ones."""
        cells, rates = self.logit_gradients(probabilities, gradient)
        scale = np.float32(1 / sqrt(float(np.vdot(cells, cells)) / cells.size + 1e-30))
        self.cells -= self.step_cells(cells * scale, rate)
        if rates is not None:
            self.rates -= self.gap_speed * self.step_rates(
                rates * scale, RATE
            )  # their steps are short enough without a schedule


def _descend(tables: _Tables, components: int, rng: np.random.Generator, *, is_last: bool) -> _Probabilities | None:
    """Fit components until noise explains the residuals; return None if so few components cannot reach that.

    If `is_last`, there are no more components to try. Then an overall misfit of 1 is enough, and the result of the last
    step is returned in any case.
    """
    logits = _Logits(tables, components, rng)
    ratios: list[float] = []
    for done in range(STEPS + 1):
        probabilities = logits.probabilities()
        rate = RATE * (1 - (done / (STEPS + 1)) ** 2)  # steps of constant length would oscillate at the end
        if done < LEAST_STEPS or done % _CHECK:
            logits.step(probabilities, tables.gradient(probabilities.whole), rate=rate)
            continue
        squares, gradient = tables.compare(probabilities.whole)
        overall, worst = tables.misfit_ratios(squares)
        ratios.append(worst)
        if worst <= 1:
            return probabilities
        if _will_not_converge(ratios, STEPS - done):
            if not is_last:
                return None
            if overall <= 1:
                break
        logits.step(probabilities, gradient, rate=rate)
    return probabilities


def _follow(
    tables: _Tables,
    rng: np.random.Generator,
    start: tuple[MixtureModel, MixtureModel | None] | None,
    gap_rate: float,
) -> _Probabilities:
    """Fit components to the noisy tables beyond the noise level; χ² that is left is noise shared by the components.

    The number of steps brings shares of groups and regression slopes to within a tenth of the effect of noise.
    """
    logits = _Logits(tables, FOLLOW_COMPONENTS, rng, gap_rate=gap_rate)
    steps = FOLLOW_STEPS
    if start is not None:
        logits.warm_start(*start)
        steps = WARM_STEPS
    for done in range(steps):
        probabilities = logits.probabilities()
        logits.step(probabilities, tables.gradient(probabilities.whole), rate=RATE * (1 - (done / steps) ** 2))
    return logits.probabilities()


def _will_not_converge(ratios: Sequence[float], left: int) -> bool:
    """Return whether the misfit would stay above 1 for the steps left if it kept falling by the same factor.

    Progress only slows down, so a fit that is stopped here would not have converged.
    """
    checks = _OUTLOOK // _CHECK
    if len(ratios) <= checks:
        return left == 0
    fall = ratios[-1] / ratios[-1 - checks]
    return bool(ratios[-1] * fall ** (left / _OUTLOOK) > 1)


def _multiply(left: Singles, right: Singles) -> Singles:
    """Multiply matrices in tiles so small that BLAS starts no threads, unless threads are worthwhile.

    On a busy machine threads wait for each other at every product, and there are thousands of small products.
    """
    rows, inner, columns = *left.shape, right.shape[1]
    if rows * inner * columns >= _WORTH_THREADS:
        return np.asarray(left @ right)
    height = max(32, _NO_THREADS // (inner * columns))
    width = max(1, _NO_THREADS // (inner * height))
    result = np.empty((rows, columns), dtype=np.result_type(left, right))
    for top in range(0, rows, height):
        for side in range(0, columns, width):
            tile = slice(top, top + height), slice(side, side + width)
            np.matmul(left[tile[0]], right[:, tile[1]], out=result[tile])
    return result


def _logs(probabilities: Singles) -> Singles:
    return np.log(np.maximum(probabilities, np.float32(_NEVER)))
