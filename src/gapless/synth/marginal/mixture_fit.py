r"""Mixtures of products, learned from noisy tables of one and two columns.

All pair tables of a mixture are the blocks of :math:`P P^\top / K`, with P the matrix of its laws
(`gapless.synth.marginal.mixture_model`). `fit_mixture` minimises

.. math:: \chi^2 = \sum_m \lVert (T \mu_m - y_m) / \sigma_m \rVert^2

over the logits of P, where μ are the model's tables, T is the total, y the noisy counts and σ their `noise_std`. First
the measurements are reconciled, which changes the loss by a constant only and leaves as many degrees of freedom as
there are main effects and interactions. Cells that should be empty are drawn to zero and weigh more
(`gapless.model.denoise`). The gradient goes through the softmax, steps are Adam's with one more scale for
all of them and grow shorter, and the descent ends when noise explains what is left (Morozov's discrepancy principle):
χ² is at most its degrees of freedom, and that of no table exceeds its own by more than `EXPLAINED` standard deviations.

Few components cannot follow the noise. So several small mixtures are fitted from different starts and put together,
each with as few components as reach the noise: a start that cannot is given up, and twice as many are tried. The whole
has more components the more rows there are, since what only noise hid then shows in combinations of many columns.

Gaps. A component has for each column a law q over observed cells and, as parameters of their own, the rates h of being
observed and of each kind of gap: its law over all cells is :math:`(h_0 q, h_1, h_2, \dots)`. Rows with their gaps are
drawn from it, complete rows from q: given its component a cell is missing at random. Rates that move as freely as the
laws make components that have a gap or have none, and teach nothing about the cells behind it. So they move slowly, and
only where the tables show that gaps depend on something: the cells of a gap are tested against independence, with the
noise and the chance by which gaps fall. A column that passes keeps its own rate; in others steps are shortened by the
share of χ² that nothing but dependence explains (the positive-part James-Stein factor).

References: Kingma, Ba 2015 (steps). Constants were chosen by bench/mixture.py.
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
LEAST_COMPONENTS = 25  # of each mixture among those that are put together
LEAST_MIXTURES = 4  # that are put together
ROWS_EACH = 60  # rows of a sample for each component of the whole, as long as this has
COMPONENTS = (1_000, 10_000)  # at least and at the most
CLOSE_COMPONENTS = 100  # of a mixture that follows its tables
CLOSE_STEPS = 200
NEAR_STEPS = 60  # if it begins with a mixture that followed tables nearby
STEPS = 300
LEAST_STEPS = 20
RATE = 0.1  # of the first step, in logits
GAP_RATE, FREE_GAP_RATE = 0.1, 0.3  # of that, for rates of gaps; those of a mixture whose rates move freely
SPREAD = 0.5  # of the logits at the start
DEPENDENT = 3.0  # standard deviations of χ² from which gaps depend on something

_LEAST = 1e-4  # share of a cell at the start
_NEVER = 1e-30  # stands for 0 where a logarithm is taken
_CHECK = 5  # steps between two looks at what is left
_OUTLOOK = 50  # steps from which it is told whether the noise can be reached
_ZERO = 100.0  # how much more a forbidden cell weighs than the best-known one
_CELLS = 1 << 22  # working memory
_NO_THREADS = 1 << 18  # multiplications up to which BLAS takes one thread
_WORTH_THREADS = 1 << 22


class MixtureFit(NamedTuple):
    """What is learned from tables.

    Attributes:
        filled: the distribution over observed cells.
        gapped: the distribution over all cells; None if no column has gap states.
        total: the number of rows that the tables speak for.
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
    """Learn a mixture from noisy counts of one and two columns whose totals agree.

    Needs about 8 bytes × (all cells of all columns)², and time in proportion.

    Args:
        sizes: the number of cells of each column as it was counted: observed cells first, then gap states.
        measurements: noisy tables of one or two columns. Pairs that none of them holds come out as they may.
        observed: the number of observed cells of each column; all, if no gaps were counted.
        total: the number of rows; by default what the measurements say. Less than one row counts as one.
        zeros: forbidden combinations of observed cells: two columns and a table that is true where no row may be. They
            become targets, so that hardly any probability is left to them; not none.
        follow_noise: whether to follow the tables, noise and all, with components that can: less bias, for more noise.
            The descent does not stop where noise explains the rest, and no cell is drawn to zero.
        start: what followed tables nearby, `filled` and `gapped` of such a fit: to follow these takes fewer steps.
        loose_gap_rates: whether rates of gaps move three times as fast where tables are followed: how fast is a choice
            that no table decides, and what hangs on it shows between the two.
        seed: of the starts; the same released values always give the same model.
        progress: called with the components fitted and how many there shall be.
    """
    sizes = tuple(int(size) for size in sizes)
    measurements = list(measurements)
    observed = sizes if observed is None else tuple(int(size) for size in observed)
    total = max(1.0, estimate_total(measurements) if total is None else total)
    tables = _Tables(sizes, observed, measurements, total, zeros, denoised=not follow_noise)
    rng = np.random.default_rng(seed)
    wanted = int(np.clip(total / ROWS_EACH, *COMPONENTS))
    largest = wanted // LEAST_MIXTURES
    each, done = LEAST_COMPONENTS, 0
    found: list[_Laws] = (
        [_follow(tables, rng, start, FREE_GAP_RATE if loose_gap_rates else GAP_RATE)] if follow_noise else []
    )
    while done < wanted and not follow_noise:
        laws = _descend(tables, each, rng, last=each == largest)
        if laws is None:
            each = min(2 * each, largest)
            continue
        found.append(laws)
        done += each
        if progress:
            progress(min(done, wanted), wanted)
    filled = MixtureModel(np.split(np.hstack([laws.cells for laws in found]).T, ends_of(observed)[1:-1], axis=1))
    whole = np.hstack([laws.whole for laws in found])
    gapped = MixtureModel(np.split(whole.T, ends_of(sizes)[1:-1], axis=1)) if observed != sizes else None
    return MixtureFit(filled, gapped, total, tables.unexplained(whole))


class _Tables:
    """What the model's tables shall be: targets and weights as blocks of one matrix over the cells of all columns.

    The diagonal holds the tables of one column. A table of two columns is there twice, with half its weight.

    Attributes:
        shape: which cells are observed and which are gaps.
        start: each cell's share, as far as all tables together tell it.
        freedom: for each two columns the degrees of freedom of their table; on the diagonal those of one.
        pace: for each column how fast its rates of gaps may move.
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
        self.shape = _Shape(sizes, observed)
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
            for axis, span in enumerate(spans):  # they agree on this, whichever is the last to tell it
                self.start[span] = share.sum(axis=tuple(other for other in range(len(columns)) if other != axis))
            self.freedom[columns[0], columns[-1]] = prod(sizes[column] - 1 for column in columns)
            if len(columns) == 1:
                np.fill_diagonal(self.target[spans[0], spans[0]], share)
                np.fill_diagonal(self.weight[spans[0], spans[0]], weight)
            else:
                self._enter(spans, share, weight / 2)
        self.start = np.maximum(self.start, _LEAST)
        self.pace = np.array([self._pace(column, total) for column in range(many)])
        for column in np.flatnonzero(self.pace == 0).tolist():  # their rates will stay, and chance in the tables
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
            for one, two in ((cell, other), (other, cell)):
                self.target[one, two] = 0
                self.weight[one, two] = _ZERO * heaviest
        step = max(1, _CELLS // max(1, cells))
        self.blocks = [slice(begin, min(begin + step, cells)) for begin in range(0, cells, step)]

    def _enter(self, spans: Sequence[slice], share: Floats, weight: float) -> None:
        one, other = spans
        self.target[one, other], self.target[other, one] = share, share.T
        self.weight[one, other] = self.weight[other, one] = weight

    def _denoise(
        self, columns: Marginal, table: Floats, noise_std: float, margins_std: Sequence[float], total: float
    ) -> None:
        """Draw the empty cells among the observed ones of two columns to zero; gaps have a test of their own."""
        one, other = (slice(self.ends[column], self.ends[column + 1]) for column in columns)
        among = tuple(slice(self.shape.observed[column]) for column in columns)
        shown = denoise(table, noise_std, margins_std, region=among)
        self.target[one, other], self.target[other, one] = shown.counts / total, shown.counts.T / total
        self.weight[one, other] /= shown.variance
        self.weight[other, one] /= shown.variance.T

    def _pace(self, column: int, total: float) -> float:
        """How much of what a column's gaps show is neither noise nor the chance by which they fall."""
        square, freedom = 0.0, 0
        for gap, others, variance in self._gaps(column, total):
            alone = self.start[gap] * self.start[others]
            square += float(((self.target[gap, others] - alone) ** 2 / variance).sum())
            freedom += len(others) - len(np.unique(self.shape.column[others]))
        explained = freedom + DEPENDENT * sqrt(2 * freedom)
        return max(0.0, 1 - explained / square) if square > 0 else 0.0

    def _gaps(self, column: int, total: float) -> list[tuple[int, Integers, Floats]]:
        """Each gap state of a column, the cells with which it was counted, and the variance of these counts.

        It is that of the noise, and of the chance by which gaps that depend on nothing fall.
        """
        begin, end = self.ends[column], self.ends[column + 1]
        others = np.flatnonzero((self.shape.column != column) & (self.weight[begin] > 0))
        found = []
        for gap in range(begin + self.shape.observed[column], end):
            chance = self.start[gap] * (1 - self.start[gap]) * self.start[others] / total
            found.append((gap, others, 0.5 / self.weight[gap, others] + chance))
        return found

    def slope(self, whole: Singles, squares: Floats | None = None) -> Singles:
        """The gradient of χ² in these laws, × components / 2; `squares` takes the χ² of each cell with each column.

        In blocks of rows, so that of the matrix of all tables only a part is there at a time.
        """
        components = np.float32(whole.shape[1])
        slope = np.empty_like(whole)
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
            force *= 2  # a pair is there twice, and each of its cells moves both
            slope[rows] = _multiply(force, whole)
            slope[rows] += alone
        return slope

    def compare(self, whole: Singles) -> tuple[Floats, Singles]:
        """χ² of each table, those of two columns above the diagonal, and the slope."""
        squares = np.empty((len(whole), len(self.freedom)))
        slope = self.slope(whole, squares)
        both = np.add.reduceat(squares, self.ends[:-1], axis=0)
        return np.triu(both) + np.tril(both, -1).T, slope

    def excess(self, squares: Floats) -> Floats:
        """By how many of its standard deviations each χ² exceeds its degrees of freedom; -∞ where nothing is known."""
        known = self.freedom > 0
        deviation = np.sqrt(2 * np.where(known, self.freedom, 1))
        return np.where(known, (squares - self.freedom) / deviation, -np.inf)

    def unexplained(self, whole: Singles) -> tuple[Marginal, ...]:
        """The tables that are further from these laws than noise explains."""
        far = self.excess(self.compare(whole)[0]) > EXPLAINED
        return tuple((int(one),) if one == other else (int(one), int(other)) for one, other in np.argwhere(far))

    def lack(self, squares: Floats) -> tuple[float, float]:
        """How far the fit is from its end, on the whole and in the worst table: at 1, noise explains what is left."""
        whole = float(squares.sum()) / max(1.0, float(self.freedom.sum()))
        return whole, max(whole, float(self.excess(squares).max(initial=-np.inf)) / EXPLAINED)


class _Shape:
    """Which rows of P are observed cells, which are gaps, and where the logits of each are.

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
        self.being_seen = ends_of(states)[:-1]
        self.being_gap = np.setdiff1d(np.arange(sum(states)), self.being_seen)


class _Softmax:
    """Logits to probabilities in blocks of rows, and gradients back."""

    def __init__(self, sizes: Marginal) -> None:
        self.block = np.repeat(np.arange(len(sizes)), sizes)
        self.members = (np.arange(len(sizes))[:, None] == self.block).astype(np.float32)

    def sums(self, values: Singles) -> Singles:
        return _multiply(self.members, values)  # half the time of np.add.reduceat

    def __call__(self, logits: Singles) -> Singles:
        """Logits become logarithms of probabilities, in place: a step is short, so the next power is no overflow."""
        powers = np.exp(logits)
        sums = self.sums(powers)
        powers /= sums[self.block]
        logits -= np.log(sums)[self.block]
        return np.asarray(powers)

    def back(self, laws: Singles, slope: Singles) -> Singles:
        """The gradient in the logits, from the one in the probabilities."""
        moved = laws * slope
        moved -= laws * self.sums(moved)[self.block]
        return np.asarray(moved)


class _Adam:
    """Steps of even length in all logits: a running mean of gradients over the root of one of their squares."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape, dtype=np.float32)
        self.square = np.zeros(shape, dtype=np.float32)
        self.steps = 0

    def __call__(self, slope: Singles, rate: float) -> Singles:
        self.steps += 1
        self.mean *= np.float32(0.9)
        self.mean += np.float32(0.1) * slope
        slope = slope * slope
        slope *= np.float32(0.01)
        self.square *= np.float32(0.99)
        self.square += slope
        young = sqrt(1 - 0.99**self.steps)
        root = np.sqrt(self.square, out=slope)
        root += np.float32(1e-3 * young)
        step = np.divide(self.mean, root, out=root)
        step *= np.float32(rate * young / (1 - 0.9**self.steps))
        return step


class _Laws(NamedTuple):
    """The laws of some components: of observed cells, of rates, and of all cells."""

    cells: Singles
    rates: Singles
    whole: Singles


class _Logits:
    """The parameters of some components, and the laws they stand for."""

    def __init__(
        self, tables: _Tables, components: int, rng: np.random.Generator, *, gap_rate: float = GAP_RATE
    ) -> None:
        self.shape = shape = tables.shape
        self.gapped = len(shape.gaps) > 0
        log = np.log(tables.start).astype(np.float32)
        spread = rng.standard_normal((len(shape.seen), components), dtype=np.float32)
        self.cells = log[shape.seen, None] + np.float32(SPREAD) * spread
        rates = np.empty((len(shape.rates.block), 1), dtype=np.float32)
        rates[shape.being_seen] = np.log(shape.cells.sums(np.exp(log[shape.seen, None])))
        rates[shape.being_gap] = log[shape.gaps, None]
        self.rates = np.repeat(rates, components, axis=1)
        self.pace = (gap_rate * tables.pace).astype(np.float32)[shape.rates.block, None]
        self.moving = bool(self.pace.any())
        self.still = None if self.moving else shape.rates(self.rates)
        self.step_cells, self.step_rates = _Adam(self.cells.shape), _Adam(self.rates.shape)

    def begin_at(self, filled: MixtureModel, gapped: MixtureModel | None) -> None:
        """Take the place of the components of another mixture of these columns."""
        shape = self.shape
        self.cells = _logs(np.hstack(filled.probabilities).T)
        if gapped is not None and self.moving:
            whole = np.hstack(gapped.probabilities).T
            self.rates[shape.being_gap] = _logs(whole[shape.gaps])
            self.rates[shape.being_seen] = _logs(shape.cells.sums(whole[shape.seen]))

    def laws(self) -> _Laws:
        shape, cells = self.shape, self.shape.cells(self.cells)
        if not self.gapped:
            return _Laws(cells, self.rates, cells)
        rates = shape.rates(self.rates) if self.still is None else self.still
        whole = np.empty((len(shape.column), cells.shape[1]), dtype=np.float32)
        whole[shape.seen] = cells * rates[shape.being_seen][shape.cells.block]
        whole[shape.gaps] = rates[shape.being_gap]
        return _Laws(cells, rates, whole)

    def slopes(self, laws: _Laws, slope: Singles) -> tuple[Singles, Singles | None]:
        """The gradient in the logits of cells, and in those of rates if they move, from the one in all laws."""
        shape = self.shape
        if not self.gapped:
            return shape.cells.back(laws.cells, slope), None
        seen, rates = slope[shape.seen], None
        if self.moving:
            rates = np.empty_like(self.rates)
            rates[shape.being_gap] = slope[shape.gaps]
            rates[shape.being_seen] = shape.cells.sums(seen * laws.cells)
            rates = shape.rates.back(laws.rates, rates)
        seen *= laws.rates[shape.being_seen][shape.cells.block]
        return shape.cells.back(laws.cells, seen), rates

    def step(self, laws: _Laws, slope: Singles, *, rate: float) -> None:
        """Go down by gradients in units of the typical one: late ones, where all are small, count like early ones."""
        cells, rates = self.slopes(laws, slope)
        scale = np.float32(1 / sqrt(float(np.vdot(cells, cells)) / cells.size + 1e-30))
        self.cells -= self.step_cells(cells * scale, rate)
        if rates is not None:
            self.rates -= self.pace * self.step_rates(rates * scale, RATE)  # slow enough to the end


def _descend(tables: _Tables, components: int, rng: np.random.Generator, *, last: bool) -> _Laws | None:
    """Some components that the noise explains; None if so few cannot reach it.

    If these are the `last` to be tried, the worst table need not be reached, nor anything after the last step.
    """
    logits = _Logits(tables, components, rng)
    lacks: list[float] = []
    for done in range(STEPS + 1):
        laws = logits.laws()
        rate = RATE * (1 - (done / (STEPS + 1)) ** 2)  # even late steps would go to and fro about the end
        if done < LEAST_STEPS or done % _CHECK:
            logits.step(laws, tables.slope(laws.whole), rate=rate)
            continue
        squares, slope = tables.compare(laws.whole)
        on_the_whole, worst = tables.lack(squares)
        lacks.append(worst)
        if worst <= 1:
            return laws
        if _hopeless(lacks, STEPS - done):
            if not last:
                return None
            if on_the_whole <= 1:
                break
        logits.step(laws, slope, rate=rate)
    return laws


def _follow(
    tables: _Tables,
    rng: np.random.Generator,
    start: tuple[MixtureModel, MixtureModel | None] | None,
    gap_rate: float,
) -> _Laws:
    """Components that come nearer to the tables than noise explains: what is left of χ² is noise that they share.

    Steps are as many as bring what tables tell, shares in a group and slopes, to within a tenth of what noise changes.
    """
    logits = _Logits(tables, CLOSE_COMPONENTS, rng, gap_rate=gap_rate)
    steps = CLOSE_STEPS
    if start is not None:
        logits.begin_at(*start)
        steps = NEAR_STEPS
    for done in range(steps):
        laws = logits.laws()
        logits.step(laws, tables.slope(laws.whole), rate=RATE * (1 - (done / steps) ** 2))
    return logits.laws()


def _hopeless(lacks: Sequence[float], left: int) -> bool:
    """Whether what is lacking would not vanish in the steps left if it went on to fall by the same factor.

    Progress only slows down: a fit that is given up would not have come to its end.
    """
    looks = _OUTLOOK // _CHECK
    if len(lacks) <= looks:
        return left == 0
    fall = lacks[-1] / lacks[-1 - looks]
    return bool(lacks[-1] * fall ** (left / _OUTLOOK) > 1)


def _multiply(left: Singles, right: Singles) -> Singles:
    """A matrix product in tiles for which BLAS starts no threads, unless it is worth theirs.

    On a busy machine threads wait for each other at every product, and there are thousands of small ones.
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


def _logs(laws: Singles) -> Singles:
    return np.log(np.maximum(laws, np.float32(_NEVER)))
