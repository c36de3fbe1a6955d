r"""A distribution over many columns, learned from noisy marginals: exact inference on a junction tree.

The model is :math:`p(x) \propto \exp \sum_m \theta_m(x_m)` with one table of potentials per measured marginal m. A new
marginal can be added without changing the distribution: its potential starts at zero. Fitting minimises

.. math:: \sum_m \tfrac12 \lVert (T \mu_m - y_m) / \sigma_m \rVert^2

over the model's marginals μ, where T is the total, y the noisy counts and σ their `noise_std`. First the measurements
are reconciled, which changes the loss only by a constant. Then sweeps over the tree move one marginal after the other
to the exact solution of

.. math:: \min_\nu \; \tfrac12 \lVert (\nu - y_m) / \sigma_m \rVert^2
          + \frac{r_m}{\sigma_m^2} \mathrm{KL}(\nu \,\Vert\, T\mu_m), \qquad \textstyle\sum \nu = T,

a proximal step in closed form (Wright's omega function). It is iterative proportional fitting with a step size that
depends on the noise of each cell. The reluctance r is σ / step, and somewhat larger for tables with more noise than
most, so that better tables decide. A cell that is off by one `noise_std` then changes by a factor of about
:math:`e^{step}` per sweep, at any scale of counts and noise.

A fit without a start model shrinks cells that should be empty to zero (`gapless.model.denoise`). y and σ are then the
shrunken counts and their noise.

The exact optimum of the loss follows the noise. So a model for rows is shrunk towards independent columns: the fit
starts there, and the steps of its sweeps (`ROW_STEPS`) add up to one. If e is the expected count of a cell, it keeps
of a small deviation from e about the share

.. math:: 1 - \prod_k \frac{1}{1 + s_k e / \sigma} \approx 1 - \exp(-e / \sigma), \qquad \textstyle\sum_k s_k = 1.

So a relation survives in cells with more rows than noise, even if noise would explain the :math:`\chi^2` of its table.
If it does not, sweeps continue, up to a cap: if :math:`\chi^2`, in units of noise, is more than three standard
deviations above the number of cells. These sweeps are extrapolated: Nesterov's momentum on the potentials, restarted
when the worst table gets worse. Without it, convergence is very slow where columns nearly determine each other. They
end when they make no progress because noise makes the measurements contradict each other. The tables that are then
unexplained are named.

A fit with `follow_noise` (`gapless.synth.copies`) does not shrink. A model cannot represent negative counts.
Clipping them to zero takes mass from the other cells. Where many cells of a large table are nearly empty, its margins
then move by more than their noise. So the loss has a second term for the pairs of columns P of tables with three
columns and more,

.. math:: \sum_m \sum_{P \subset m} \tfrac12 \lVert (T \mu_P - y_P) / \sigma_m \rVert^2,

in which a cell of a pair weighs as much as a cell of the table. Reconciled tables agree on their pairs, so both terms
have the same minimum if no count is negative. If one is, the correction stays inside the pairs.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from gapless.errors import ModelError
from gapless.model.denoise import EXPLAINED, denoise_all
from gapless.model.junction import JunctionTree, Sizes
from gapless.model.marginal import Marginal, Measurement, estimate_total, marginalize, reconcile
from gapless.model.message_passing import COPY_STEPS, ROW_STEPS, JunctionTreeInference
from gapless.model.sampling import UniformDraws, sample, sample_given
from gapless.text import plural
from gapless.types import Codes, Floats, Integers

_LEAST = 1e-6  # least start value of a cell, as a share of its expectation under independence


class GraphicalModel:
    """A distribution over columns 0 … d-1 given by tables of log-potentials; public, free to query and sample.

    >>> sick = Measurement((0, 1), np.array([[80.0, 10.0], [5.0, 5.0]]), noise_std=0.01)
    >>> model = GraphicalModel.fit((2, 2, 3), [sick])
    >>> model.total, model.marginal([1, 0]).round(2).tolist(), model.marginal([2]).round(2).tolist()
    (100.0, [[0.8, 0.05], [0.1, 0.05]], [0.33, 0.33, 0.33])
    """

    kind: ClassVar[str] = "graphical"

    def __init__(self, sizes: Sequence[int], potentials: Mapping[Marginal, Floats], total: float) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.potentials = dict(potentials)
        self.total = float(total)
        self.unexplained: tuple[Marginal, ...] = ()  # measured tables whose residuals noise does not explain

    @staticmethod
    def fit(
        sizes: Sequence[int],
        measurements: Iterable[Measurement],
        *,
        total: float | None = None,
        sweeps: int = 200,
        start: "GraphicalModel | None" = None,
        follow_noise: bool = False,
        unmerged: int = 0,
        zeros: Iterable[tuple[Marginal, np.ndarray]] = (),
        cap_cells: int = 4_000_000,
    ) -> "GraphicalModel":
        """Learn a distribution from noisy counts whose totals agree.

        Args:
            sizes: The number of levels of every column.
            measurements: Noisy tables. Columns in none of them stay uniform and independent.
            total: The number of rows; by default estimated from the measurements. Less than one row counts as one.
            sweeps: The largest number of sweeps over all marginals.
            start: A model for a warm start: potentials of marginals that are measured again are kept.
            follow_noise: Whether to fit the noisy tables exactly: no shrinkage towards independence, nor of empty
                cells. Less bias, but more noise.
            unmerged: The number of original columns. They come first; merged columns follow. Pairs of original columns
                are also fitted inside larger tables.
            zeros: Forbidden cells: columns, and a table that is true where no row is allowed. They hold exactly.
            cap_cells: The largest junction tree allowed, see `gapless.model.junction.cells`.

        Raises:
            ModelError: The tree is larger than the cap, or all cells are forbidden.
        """
        sizes = tuple(int(size) for size in sizes)
        measurements, zeros = list(measurements), list(zeros)
        _check(sizes, [(measurement.columns, measurement.counts) for measurement in measurements] + zeros)
        total = max(1.0, estimate_total(measurements) if total is None else total)
        targets = reconcile(sizes, measurements, total)
        potentials = _start(sizes, targets, total, start)
        shown = denoise_all(sizes, targets, fresh=start is None and not follow_noise)
        for columns, (table, _) in shown.items():
            potentials[columns] += np.log(np.maximum(table.start, _LEAST))
        for columns, forbidden in zeros:
            key = tuple(sorted(columns))
            old = potentials.get(key, np.zeros([sizes[column] for column in key]))
            potentials[key] = np.where(marginalize(forbidden, columns, key), -np.inf, old)
        engine = JunctionTreeInference(sizes, potentials, cap_cells)
        engine.calibrate()
        steps, further = (COPY_STEPS, 0) if follow_noise else (ROW_STEPS[:sweeps], sweeps - len(ROW_STEPS))
        excess = engine.fit(shown, total, steps=steps, further=further, unmerged=unmerged)
        model = GraphicalModel(sizes, engine.potentials(), total)
        model.unexplained = tuple(columns for columns in targets if excess[columns] > EXPLAINED)
        model.__dict__["_engine"] = engine
        engine.calibrate()
        return model

    @cached_property
    def _engine(self) -> JunctionTreeInference:
        engine = JunctionTreeInference(self.sizes, self.potentials, None)
        engine.calibrate()
        return engine

    @property
    def tree(self) -> JunctionTree:
        """The junction tree on which the model computes."""
        return self._engine.tree

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Return the joint probabilities of any set of columns, one axis per column in the order given.

        Raises:
            ModelError: An intermediate table would have more than `LARGEST_TABLE` cells
                (`gapless.model.message_passing`).
        """
        columns = tuple(int(column) for column in columns)
        if len(set(columns)) != len(columns) or not set(columns) <= set(range(len(self.sizes))):
            raise ModelError(
                f"there is no marginal of columns {columns} in a model of {plural(len(self.sizes), 'column')}",
                hint=f"pass different column numbers from 0 to {len(self.sizes) - 1}",
            )
        home = self.tree.smallest_clique(columns)
        if home is None:
            return self._engine.distant_marginal(columns) if columns else np.array(1.0)
        return marginalize(self._engine.tables[home], self.tree.cliques[home], columns)

    def marginals(self, wanted: Iterable[Sequence[int]]) -> list[Floats]:
        """Return several marginals. Pairs that are far apart in the tree share messages."""
        wanted = [tuple(columns) for columns in wanted]
        far = {tuple(sorted(c)) for c in wanted if len(set(c)) == 2 and self.tree.smallest_clique(c) is None}
        pairs = self._engine.distant_pairs(far) if len(far) > 1 else {}
        return [
            self.marginal(columns) if (pair := tuple(sorted(columns))) not in pairs
            else pairs[pair] if pair == columns else pairs[pair].T
            for columns in wanted
        ]  # fmt: skip

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows × columns of codes; the same state of the generator gives the same rows."""
        return sample(self._engine.tree, self._engine.tables, rows, rng)

    def fill(self, given: Integers, chance: UniformDraws) -> Codes:
        """Replace each -1 in rows × columns of codes by a draw given the other cells of its row.

        Draws follow the exact conditional distribution. A row's result depends only on the row and its random numbers.
        """
        return sample_given(self._engine.tree, self._engine.tables, given, chance)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the model as plain arrays, to be saved."""
        arrays = {"sizes": np.array(self.sizes, dtype=np.int64), "total": np.array(self.total)}
        for number, (columns, table) in enumerate(self.potentials.items()):
            arrays[f"columns.{number}"] = np.array(columns, dtype=np.int64)
            arrays[f"potential.{number}"] = table
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray]) -> "GraphicalModel":
        """Rebuild a model from the result of `to_arrays`."""
        many, sizes = sum(name.startswith("columns.") for name in arrays), tuple(arrays["sizes"].tolist())
        potentials = {
            tuple(arrays[f"columns.{number}"].tolist()): np.asarray(arrays[f"potential.{number}"], dtype=np.float64)
            for number in range(many)
        }
        _check(sizes, potentials.items())
        return GraphicalModel(sizes, potentials, float(arrays["total"]))


def _start(
    sizes: Sizes, targets: Mapping[Marginal, tuple[Floats, float]], total: float, start: GraphicalModel | None
) -> dict[Marginal, Floats]:
    """Return the initial potentials: those of `start`; columns that are new to it are independent."""
    kept = {columns: start.potentials[columns] for columns in targets if start and columns in start.potentials}
    potentials = {columns: np.zeros([sizes[column] for column in columns]) for columns in targets}
    for columns, table in kept.items():
        np.copyto(potentials[columns], table, where=np.isfinite(table))
    seen = {column for columns in kept for column in columns}
    for columns in sorted(targets, key=lambda columns: prod(sizes[column] for column in columns)):
        table, noise_std = targets[columns]
        for axis, column in enumerate(columns):
            if column not in seen:
                others = tuple(other for other in range(len(columns)) if other != axis)
                counts = table.sum(axis=others, keepdims=True)
                noise = noise_std * (table.size / sizes[column]) ** 0.5
                potentials[columns] += np.log(np.maximum(counts, noise + 1e-9 * total) / total)
                seen.add(column)
    return potentials


def _check(sizes: Sizes, tables: Iterable[tuple[Marginal, np.ndarray]]) -> None:
    """Refuse columns without levels, and tables whose shape does not fit their columns."""
    if min(sizes, default=1) < 1:
        raise ModelError(f"every column needs at least one level, got sizes {sizes}", hint="pass sizes of 1 or more")
    for columns, table in tables:
        known = all(0 <= column < len(sizes) for column in columns) and len(set(columns)) == len(columns)
        if not known:
            hint = f"pass different column numbers from 0 to {len(sizes) - 1}"
            raise ModelError(
                f"columns of a table must be different numbers below {len(sizes)}, got {columns}", hint=hint
            )
        if table.shape != (shape := tuple(sizes[column] for column in columns)):
            raise ModelError(
                f"the table of columns {columns} must have shape {shape}, got {table.shape}",
                hint="pass a table with one axis for each column, as long as the column has levels",
            )
