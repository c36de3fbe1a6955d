r"""A distribution over many columns, learned from noisy marginals: exact inference on a junction tree.

The model is :math:`p(x) \propto \exp \sum_m \theta_m(x_m)` with one table of potentials per measured marginal m, so a
marginal can be added without touching what is known: its potential starts at zero. Fitting minimises

.. math:: \sum_m \tfrac12 \lVert (T \mu_m - y_m) / \sigma_m \rVert^2

over the model's marginals μ, where T is the total, y the noisy counts and σ their `noise_std`. First the measurements
are reconciled (which changes the loss by a constant only); then sweeps over the tree move one marginal after the other
to the exact solution of

.. math:: \min_\nu \; \tfrac12 \lVert (\nu - y_m) / \sigma_m \rVert^2
          + \frac{r_m}{\sigma_m^2} \mathrm{KL}(\nu \,\Vert\, T\mu_m), \qquad \textstyle\sum \nu = T,

a proximal step in closed form (Wright's omega function): iterative proportional fitting that trusts a cell only as far
as its noise allows. The reluctance r is σ / `step`, somewhat more for tables noisier than most, which so give way to
better ones. A cell that is off by one `noise_std` then changes by a factor of about :math:`e^{step}` per sweep,
whatever the scale of counts and noise. Sweeps are extrapolated (Nesterov's momentum on the potentials, restarted when
the worst table gets worse), since where columns nearly determine each other plain ones hardly arrive.

A fit from the start draws cells that should be empty to zero (`gapless.model.denoise`): y and σ are then those of each
cell after that.

The fit ends as soon as noise explains what is left of every table (Morozov's discrepancy principle): its
:math:`\chi^2`, in units of noise, is no more than three standard deviations above its number of cells. It also ends at
a cap, or when it no longer gets closer because noise makes the measurements contradict each other; the tables that are
then unexplained are told. The exact optimum of the loss, which `polish` approaches by accelerated mirror descent,
follows the noise and is further from the truth.

A fit that shall follow its measurements *closely* (`gapless.synth.copies`) goes on to there. What it cannot reach are
signs: cells below zero are lifted, all others pay for it, and where many cells of a large table are nearly empty its
margins move by more than they are known to. So the loss has a second term for tables of three columns and more, their
pairs of columns P,

.. math:: \sum_m \sum_{P \subset m} \tfrac12 \lVert (T \mu_P - y_P) / \sigma_m \rVert^2,

in which a cell of a pair weighs as much as a cell of the table. Reconciled tables agree on their pairs, so both terms
are least at the same place if no sign is in the way; if one is, the correction stays inside the pairs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, combinations_with_replacement, groupby, product
from math import prod
from operator import itemgetter
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import wrightomega

from gapless.errors import ModelError
from gapless.model.denoise import Denoised, denoise, margin_noise
from gapless.model.junction import JunctionTree, Sizes, junction_tree
from gapless.model.marginal import Floats, Marginal, Measurement, contract, estimate_total, multiply, reconcile, sum_to
from gapless.model.sampling import Chance, Codes, Ints, sample, sample_given

__all__ = ["GraphicalModel"]

_NEVER = -1e300  # stands for log 0 in messages: sums of it stay finite
_FLOOR = 1e-20  # the least share of the total that fitting leaves to a possible cell
_SHORT = 20  # cells of a row that is not worth a call
_LEAST = 1e-6  # of what independent columns expect, to begin with
EXPLAINED = 3.0  # standard deviations of χ² up to which noise explains a residual
CLOSE_STEPS = tuple(2.0 ** np.linspace(1, -5, 8))  # a fit that follows its tables ends a tenth of noise from there
PATIENCE = 10  # sweeps without progress after which a contradiction is taken for one


Margin = tuple[tuple[int, ...], Floats]  # the axes that are summed out of a table, and what is left in as many axes


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
        self.unexplained: tuple[Marginal, ...] = ()  # the measured tables that a fit could not reach within noise

    @staticmethod
    def fit(
        sizes: Sequence[int],
        measurements: Iterable[Measurement],
        *,
        total: float | None = None,
        sweeps: int = 200,
        step: float = 1 / 32,
        polish: int = 0,
        start: "GraphicalModel | None" = None,
        closely: bool = False,
        whole: int = 0,
        zeros: Iterable[tuple[Marginal, np.ndarray]] = (),
        cap_cells: int = 4_000_000,
        progress: Callable[[int, int], object] | None = None,
    ) -> "GraphicalModel":
        """Learn a distribution from noisy counts whose totals agree.

        Args:
            sizes: The number of levels of every column.
            measurements: Noisy tables; columns that none of them holds stay uniform and independent.
            total: The number of rows; by default what the measurements say. Less than one row counts as one.
            sweeps: How often every marginal is brought closer to its measurement, at the most.
            step: How far at a time, by the exponent for a cell that is off by one `noise_std`.
            polish: Steps of accelerated mirror descent towards the least-squares optimum afterwards.
            start: A model to go on from: potentials of marginals that are measured again are kept.
            closely: Whether to follow the measurements, noise and all: no end where noise explains the rest, no cells
                drawn to zero. Less bias, for more noise.
            whole: As many of the first columns are such, and not merged ones: a fit that follows its measurements
                follows the pairs of these in larger tables too.
            zeros: Forbidden cells: columns and a table that is true where no row may be. They hold exactly.
            cap_cells: The largest junction tree allowed, see `gapless.model.junction.cells`.
            progress: Called with the sweeps done and the most there can be.

        Raises:
            ModelError: The tree is larger than the cap, or no cell is left possible.
        """
        sizes = tuple(int(size) for size in sizes)
        measurements, zeros = list(measurements), list(zeros)
        _check(sizes, [(each.columns, each.counts) for each in measurements] + zeros)
        total = max(1.0, estimate_total(measurements) if total is None else total)
        targets = reconcile(sizes, measurements, total)
        potentials = _start(sizes, targets, total, start)
        shown = _shown(sizes, targets, fresh=start is None and not closely)
        for columns, (table, _) in shown.items():
            potentials[columns] += np.log(np.maximum(table.start, _LEAST))
        for columns, forbidden in zeros:
            key = tuple(sorted(columns))
            old = potentials.get(key, np.zeros([sizes[column] for column in key]))
            potentials[key] = np.where(sum_to(forbidden, columns, key), -np.inf, old)
        engine = _Engine(sizes, potentials, cap_cells)
        excess: Mapping[Marginal, float] = {}
        if targets:
            engine.calibrate()
            if closely:
                excess = engine.follow(shown, total, whole)
            else:
                excess = engine.approach(aims_of(shown, step), total, sweeps=sweeps, progress=progress)
            if polish:
                engine.polish(targets, total, polish)
        model = GraphicalModel(sizes, engine.potentials(), total)
        model.unexplained = tuple(columns for columns in targets if excess[columns] > EXPLAINED)
        model.__dict__["_engine"] = engine
        engine.calibrate()
        return model

    @cached_property
    def _engine(self) -> "_Engine":
        engine = _Engine(self.sizes, self.potentials, None)
        engine.calibrate()
        return engine

    @property
    def tree(self) -> JunctionTree:
        """The junction tree on which the model computes."""
        return self._engine.tree

    def loss(self, measurements: Iterable[Measurement]) -> float:
        """Half the squared distance to these measurements, in units of their noise."""
        measurements = list(measurements)
        tables = self.marginals([each.columns for each in measurements])
        return sum(
            0.5 * float((((self.total * table - each.counts) / max(each.noise_std, 1e-6)) ** 2).sum())
            for each, table in zip(measurements, tables, strict=True)
        )

    def marginal(self, columns: Sequence[int], *, cap_cells: int = 10_000_000) -> Floats:
        """The probabilities of any set of columns, one axis per column in the order given.

        Raises:
            ModelError: A table on the way would have more than `cap_cells` cells.
        """
        columns = tuple(int(column) for column in columns)
        if len(set(columns)) != len(columns) or not set(columns) <= set(range(len(self.sizes))):
            raise ModelError(
                f"no marginal of columns {columns} in a model of {len(self.sizes)} columns",
                hint=f"different numbers from 0 to {len(self.sizes) - 1}",
            )
        home = self.tree.home(columns)
        if home is None:
            return self._engine.far(columns, cap_cells) if columns else np.array(1.0)
        return sum_to(self._engine.tables[home], self.tree.bags[home], columns)

    def marginals(self, wanted: Iterable[Sequence[int]]) -> list[Floats]:
        """Many marginals at once: pairs far apart in the tree share their way through it."""
        wanted = [tuple(columns) for columns in wanted]
        far = {tuple(sorted(c)) for c in wanted if len(set(c)) == 2 and self.tree.home(c) is None}
        pairs = self._engine.pairs(far) if len(far) > 1 else {}
        return [
            self.marginal(columns) if (pair := tuple(sorted(columns))) not in pairs
            else pairs[pair] if pair == columns else pairs[pair].T
            for columns in wanted
        ]  # fmt: skip

    def sample(
        self, rows: int, rng: np.random.Generator, *, given: Mapping[int, Sequence[int] | np.ndarray] | None = None
    ) -> Codes:
        """Rows × columns of codes.

        Args:
            rows: How many.
            rng: Where chance comes from; the same generator state gives the same rows.
            given: Codes of some columns, one per row; -1 where a row's code is not given. The rest is drawn from its
                law given them, exactly and independently per row.
        """
        if not given:
            return sample(self._engine.tree, self._engine.tables, rows, rng)
        known = np.full((rows, len(self.sizes)), -1, dtype=np.int64)
        for column, codes in given.items():
            if not 0 <= column < len(self.sizes) or np.shape(codes) != (rows,):
                raise ModelError(
                    f"given codes of shape {np.shape(codes)} for column {column} do not fit {rows} rows",
                    hint=f"one code per row, for columns from 0 to {len(self.sizes) - 1}",
                )
            known[:, column] = codes
        if (known < -1).any() or (known >= np.array(self.sizes)).any():
            raise ModelError("a given code is not a level of its column", hint="codes from 0, or -1 for not given")
        return self.fill(known, lambda: rng.random(rows))

    def fill(self, given: Ints, chance: Chance) -> Codes:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws."""
        return sample_given(self._engine.tree, self._engine.tables, given, chance)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Everything that makes the model, as plain arrays to be saved."""
        arrays = {"sizes": np.array(self.sizes, dtype=np.int64), "total": np.array(self.total)}
        for number, (columns, table) in enumerate(self.potentials.items()):
            arrays[f"columns.{number}"] = np.array(columns, dtype=np.int64)
            arrays[f"potential.{number}"] = table
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, np.ndarray]) -> "GraphicalModel":
        """The model that `to_arrays` took apart."""
        many = sum(name.startswith("columns.") for name in arrays)
        potentials = {
            tuple(arrays[f"columns.{number}"].tolist()): np.asarray(arrays[f"potential.{number}"], dtype=np.float64)
            for number in range(many)
        }
        return GraphicalModel(arrays["sizes"].tolist(), potentials, float(arrays["total"]))


class _Engine:
    """Potentials, marginals and bag tables in fixed memory, with every axis order worked out beforehand.

    `theta` and `mu` are one long vector each; a marginal's slice of them is seen through views that fit its bag.
    After `calibrate`, `tables` holds the probabilities of each bag.
    """

    def __init__(self, sizes: Sizes, potentials: Mapping[Marginal, Floats], cap_cells: int | None) -> None:
        self.tree = tree = junction_tree(sizes, potentials)
        if cap_cells is not None and tree.cells > cap_cells:
            raise ModelError(
                f"these marginals need a junction tree of {tree.cells:,} cells; the cap is {cap_cells:,}",
                hint=f"measure fewer marginals among columns {sorted(tree.largest)}, coarsen those with many levels, "
                "or raise cap_cells",
            )
        self.tables = [np.zeros([sizes[column] for column in bag]) for bag in tree.bags]
        self.flat = [table.reshape(tree.cells_of(tree.link(place)), -1) for place, table in enumerate(self.tables)]
        self.links: list[tuple[list[int], tuple[int, ...]]] = []  # the message's shape in the parent, axes summed out
        self.messages = [np.zeros((len(flat), 1)) for flat in self.flat]
        for place, parent in enumerate(tree.parents):
            self.links.append(_fit_into(tree.bags[parent], tree.link(place), sizes))
        self.marginals: list[_Slot] = []
        self.slots: list[list[_Slot]] = [[] for _ in tree.bags]
        self.theta = np.concatenate([np.empty(0), *(table.ravel() for table in potentials.values())])
        self.mu = np.zeros_like(self.theta)
        begin = 0
        for columns, table in potentials.items():
            home = tree.home(columns) or 0
            slot = _Slot(columns, slice(begin, begin + table.size), tree.bags[home] if tree.bags else (), self)
            self.marginals.append(slot)
            if tree.bags:
                self.slots[home].append(slot)
            begin += table.size
        self.tour = self._walk()

    def _walk(self) -> list[tuple[int, int]]:
        """Every bag in turn, going back to the parent after each child: (from, to) pairs from the first bag on."""
        tour: list[tuple[int, int]] = []
        stack = [(-1, 0)] if self.tables else []
        while stack:
            origin, place = stack.pop()
            tour.append((origin, place))
            if origin in (-1, self.tree.parents[place]):
                for kid in reversed(self.tree.kids[place]):
                    stack += [(kid, place), (place, kid)]
        return tour

    def potentials(self) -> dict[Marginal, Floats]:
        return {slot.columns: self.theta[slot.where].reshape(slot.shape).copy() for slot in self.marginals}

    def calibrate(self) -> None:
        """Pass messages up, in logs and normalised per shared cell, then probabilities down; fills `mu` too."""
        for place in range(len(self.tables) - 1, -1, -1):
            table, flat = self.tables[place], self.flat[place]
            here = self.slots[place]
            np.copyto(table, here[0].potential if here else 0.0)
            for slot in here[1:]:
                table += slot.potential
            for kid in self.tree.kids[place]:
                table += self.messages[kid].reshape(self.links[kid][0])
            top = np.maximum(_across(np.maximum, flat), _NEVER)[:, None]
            flat -= top
            np.exp(flat, out=flat)
            total = np.maximum(_across(np.add, flat), 1e-300)[:, None]
            flat /= total
            np.add(np.log(total), top, out=self.messages[place])
        if self.tables and self.messages[0][0, 0] < 0.1 * _NEVER:
            raise ModelError("the forbidden cells leave no possible row", hint="check the constraints for conflicts")
        for place, table in enumerate(self.tables):
            for kid in self.tree.kids[place]:
                self.flat[kid] *= sum_out(table, self.links[kid][1]).reshape(-1, 1)
            for slot in self.slots[place]:
                slot.marginal[...] = sum_out(table, slot.gone)

    def approach(
        self,
        aims: Mapping[Marginal, "Aim"],
        total: float,
        *,
        sweeps: int,
        progress: Callable[[int, int], object] | None,
    ) -> dict[Marginal, float]:
        """Sweep until noise explains what is left of every table, and say how far each is from that."""
        excess = dict.fromkeys(aims, 0.0)
        lowest, stalled = np.inf, 0
        for done, found in enumerate(self.sweeps(aims, total), start=1):
            excess |= found
            worst = max(excess.values())
            if progress:
                progress(done, sweeps)
            lowest, stalled = (worst, 0) if worst < 0.9 * lowest else (lowest, stalled + 1)
            if worst <= EXPLAINED or stalled == PATIENCE or done == sweeps:
                break
        return excess

    def follow(
        self, shown: Mapping[Marginal, tuple[Denoised, float]], total: float, whole: int
    ) -> dict[Marginal, float]:
        """Sweep in steps that grow shorter, and say how far each table is from what noise explains.

        Tables that contradict each other below zero pull to and fro: long steps come near soon, short ones arrive.
        """
        excess = dict.fromkeys(shown, 0.0)
        pairs = {columns: _pairs(columns, table.counts, whole) for columns, (table, _) in shown.items()}
        for step in CLOSE_STEPS:
            aims = {columns: aim._replace(pairs=pairs[columns]) for columns, aim in aims_of(shown, step).items()}
            excess |= self.sweep(aims, total)
        return excess

    def sweeps(self, aims: Mapping[Marginal, "Aim"], total: float) -> Iterator[dict[Marginal, float]]:
        """Sweep after sweep, with momentum that starts again when the worst table gets worse."""
        possible = np.isfinite(self.theta)
        before, momentum, worst = self.theta[possible], 1.0, np.inf
        while True:
            excess = self.sweep(aims, total)
            last, worst = worst, max(excess.values(), default=0.0)
            yield excess
            here, momentum = self.theta[possible], 1.0 if worst > last else momentum
            faster = (1 + np.sqrt(1 + 4 * momentum * momentum)) / 2
            if momentum > 1:
                self.theta[possible] += (momentum - 1) / faster * (here - before)
                self.calibrate()
            before, momentum = here, faster

    def sweep(self, aims: Mapping[Marginal, "Aim"], total: float) -> dict[Marginal, float]:
        """Move each marginal towards its target in turn, reluctantly, carrying the change from bag to bag.

        Gives, for each, how far it was from its target before it moved: by how many standard deviations its χ² exceeded
        what noise explains.
        """
        excess: dict[Marginal, float] = {}
        for origin, place in self.tour:
            table = self.tables[place]
            if origin >= 0:
                down = self.tree.parents[place] == origin
                kid = place if down else origin
                shape, gone = self.links[kid]
                above = sum_out(self.tables[self.tree.parents[kid]], gone)
                here = _across(np.add, self.flat[kid]).reshape(above.shape)
                if down:
                    self.flat[kid] *= ratio(above, here).reshape(-1, 1)
                else:
                    table *= ratio(here, above).reshape(shape)
                    continue
            for slot in self.slots[place]:
                if slot.columns in aims:
                    slot.marginal[...] = sum_out(table, slot.gone)
                    now, aim = total * self.mu[slot.where], aims[slot.columns]
                    square = float(((now - aim.target) ** 2 / aim.variance).sum()) / aim.noise_std**2
                    excess[slot.columns] = (square - now.size) / (2 * now.size) ** 0.5
                    near = towards(aim, now, total)
                    if aim.pairs:
                        near = towards_pairs(aim, near.reshape(slot.shape), total).ravel()
                    factor = ratio(near, now)
                    self.theta[slot.where] += np.log(factor)
                    table *= slot.seen(factor)
        return excess

    def polish(self, targets: Mapping[Marginal, tuple[Floats, float]], total: float, steps: int) -> None:
        """Accelerated mirror descent on the loss, restarted whenever it would rise."""
        goal, weight = np.zeros_like(self.mu), np.zeros_like(self.mu)
        for slot in self.marginals:
            if slot.columns in targets:
                target, noise_std = targets[slot.columns]
                goal[slot.where] = target.ravel() / total
                weight[slot.where] = (total / noise_std) ** 2
        weight /= weight.max()
        possible = np.isfinite(self.theta)

        def loss_at(theta: Floats) -> tuple[float, Floats]:
            self.theta[possible] = theta[possible]
            self.calibrate()
            off = self.mu - goal
            return 0.5 * float((weight * off * off).sum()), self.mu.copy()

        best = before = np.where(possible, self.theta, 0.0)
        lowest, _ = loss_at(best)
        pace, momentum, used = 1.0, 1.0, 1
        while used < steps:
            faster = (1 + np.sqrt(1 + 4 * momentum * momentum)) / 2
            ahead = best + (momentum - 1) / faster * (best - before)
            level, mu = loss_at(ahead)
            slope = weight * (mu - goal)
            for halved in range(60):
                trial = ahead - pace * 0.5**halved * slope
                loss, moved = loss_at(trial)
                if level - loss >= 0.5 * float((slope * (mu - moved)).sum()):
                    break
            used += 2 + halved
            pace *= 1.2 * 0.5**halved
            if loss < lowest:
                before, best, lowest, momentum = best, trial, loss, faster
            elif momentum > 1:
                before, momentum = best, 1.0
            else:
                break
        self.theta[possible] = best[possible]

    def law(self, place: int) -> Floats:
        """The probabilities of a bag given the columns it shares with its parent."""
        flat = self.flat[place]
        law: Floats = flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-300)
        return law.reshape(self.tables[place].shape)

    def far(self, columns: Marginal, cap_cells: int) -> Floats:
        """A marginal of columns that meet in no bag: laws are carried up the tree until all have met."""
        tree = self.tree
        below: list[Marginal] = [()] * len(tree.bags)  # the wanted columns introduced in or under each bag
        messages: dict[int, Floats] = {}
        place = len(tree.bags)
        while place == len(tree.bags) or len(below[place]) < len(columns):
            place -= 1
            bag, link = tree.bags[place], tree.link(place)
            told = [kid for kid in tree.kids[place] if below[kid]]
            own = tuple(column for column in bag[len(link) :] if column in columns)
            below[place] = own + sum((below[kid] for kid in told), ())
            met = len(below[place]) == len(columns)
            keep = columns if met else link + below[place]
            table, axes = self.tables[place] if met else self.law(place), bag
            for number, kid in enumerate(told, start=1):
                later = {column for other in told[number:] for column in tree.link(other)}
                out = tuple(c for c in dict.fromkeys(axes + below[kid]) if c in keep or c in later)
                if tree.cells_of(out) > cap_cells:
                    raise ModelError(
                        f"the marginal of columns {columns} needs a table of {tree.cells_of(out):,} cells; "
                        f"the cap is {cap_cells:,}",
                        hint="ask for fewer columns, or raise cap_cells",
                    )
                table, axes = contract(table, axes, messages.pop(kid), tree.link(kid) + below[kid], out), out
            if below[place]:
                messages[place] = sum_to(table, axes, keep)
        return messages[place]

    def pairs(self, wanted: set[Marginal]) -> dict[Marginal, Floats]:
        """Pairs of columns that meet in no bag, from the bottom of the tree to the top.

        Each bag tells its parent the law of every column under it given what they share, side by side in one matrix;
        two columns from different branches are joined where their branches meet.
        """
        tree, needed = self.tree, set(chain.from_iterable(wanted))
        found: dict[Marginal, Floats] = {}
        told: dict[int, _Laws] = {}
        for place in range(len(tree.bags) - 1, -1, -1):
            bag, up = tree.bags[place], tree.link(place)
            branches: dict[Marginal, list[_Laws]] = {}
            for column in needed.intersection(bag[len(up) :]):
                branches.setdefault((column,), []).append(_Laws.known(column, tree.sizes[column]))
            for kid in tree.kids[place]:
                branches.setdefault(tree.link(kid), []).append(told.pop(kid))
            groups = {link: _Laws.beside(laws) for link, laws in sorted(branches.items())}
            for (one, left), (other, right) in combinations_with_replacement(groups.items(), 2):
                fresh = [pair for pair in product(left.spans, right.spans) if tuple(sorted(pair)) in wanted]
                fresh = [(a, b) for a, b in fresh if left.spans[a][0] != right.spans[b][0]]
                if fresh:
                    union = tuple(dict.fromkeys(one + other))
                    joint = sum_to(self.tables[place], bag, union)
                    reach = left.through(joint, union, one, other, tree.sizes)
                for a, partners in groupby(fresh, key=itemgetter(0)):
                    block = multiply(reach[:, left.spans[a][1]].T, right.matrix)
                    for _, b in partners:
                        table = block[:, right.spans[b][1]]
                        found[min(a, b), max(a, b)] = table.copy() if a < b else table.T.copy()
            heard = [_Laws({}, np.empty((tree.cells_of(up), 0)))]
            for link, laws in groups.items():
                union = tuple(dict.fromkeys(up + link))
                matrix = laws.through(sum_to(self.law(place), bag, union), union, link, up, tree.sizes)
                heard.append(_Laws({column: (place, span) for column, (_, span) in laws.spans.items()}, matrix))
            told[place] = _Laws.beside(heard)
        return found


@dataclass(frozen=True, slots=True)
class _Laws:
    """The laws of many columns given the same link, side by side: a row per cell of the link.

    `spans` says for each column from which branch it comes and which columns of the matrix are its levels.
    """

    spans: dict[int, tuple[int, slice]]
    matrix: Floats

    @staticmethod
    def known(column: int, size: int) -> "_Laws":
        """The law of a column given itself, a branch of its own."""
        return _Laws({column: (-1 - column, slice(0, size))}, np.eye(size))

    @staticmethod
    def beside(laws: Sequence["_Laws"]) -> "_Laws":
        """All of them in one matrix."""
        spans, begin = {}, 0
        for each in laws:
            for column, (branch, span) in each.spans.items():
                spans[column] = branch, slice(span.start + begin, span.stop + begin)
            begin += each.matrix.shape[1]
        return _Laws(spans, np.hstack([each.matrix for each in laws]))

    def through(self, joint: Floats, axes: Marginal, link: Marginal, out: Marginal, sizes: Sizes) -> Floats:
        """Exchange the link for other columns, given how the two go together."""
        width = self.matrix.shape[1]
        matrix = self.matrix.reshape(*(sizes[column] for column in link), width)
        moved = contract(joint, axes, matrix, (*link, -1), (*out, -1))
        return moved.reshape(prod(sizes[column] for column in out), width)


class _Slot:
    """A marginal's place in the long vectors, and how it is seen from its bag."""

    def __init__(self, columns: Marginal, where: slice, bag: Marginal, engine: _Engine) -> None:
        sizes = engine.tree.sizes
        self.columns = columns
        self.where = where
        self.shape = [sizes[column] for column in columns]
        self.order = sorted(range(len(columns)), key=lambda axis: bag.index(columns[axis])) if bag else []
        self.inside = tuple(slice(None) if column in columns else None for column in bag)
        self.gone = _fit_into(bag, columns, sizes)[1]
        self.potential = self.seen(engine.theta[where])
        self.marginal = engine.mu[where].reshape(self.shape).transpose(self.order)

    def seen(self, values: Floats) -> Floats:
        """A view with the axes of the bag."""
        return values.reshape(self.shape).transpose(self.order)[self.inside]


def _fit_into(bag: Marginal, columns: Marginal, sizes: Sizes) -> tuple[list[int], tuple[int, ...]]:
    """The shape in which a table of `columns` spreads over a bag, and the bag's other axes."""
    shape = [sizes[column] if column in columns else 1 for column in bag]
    return shape, tuple(axis for axis, column in enumerate(bag) if column not in columns)


def sum_out(table: Floats, gone: Sequence[int]) -> Floats:
    """A table without some of its axes: in a third of the time of np.sum where several go."""
    axes = range(table.ndim)
    kept = [axis for axis in axes if axis not in gone]
    return np.asarray(np.einsum(table, list(axes), kept))  # type: ignore[arg-type]  # this form has no types


def _across(fold: np.ufunc, flat: Floats) -> Floats:
    """What is left of each row; over a few long columns several times as quick as along many short rows."""
    if flat.shape[1] > _SHORT or len(flat) < _SHORT:
        return np.asarray(fold.reduce(flat, axis=1))
    found = flat[:, 0].copy()
    for column in range(1, flat.shape[1]):
        fold(found, flat[:, column], out=found)
    return found


def ratio(new: Floats, old: Floats) -> Floats:
    """What turns `old` into `new`; 1 where there is nothing to turn."""
    ratio = np.ones_like(new)
    np.divide(new, old, out=ratio, where=old > 1e-290)
    return ratio


class Aim(NamedTuple):
    """What a marginal moves towards in a sweep and how reluctantly.

    `variance` is that of each cell in units of noise_std². `pairs` are margins it moves towards as well, each with the
    axes that are summed out.
    """

    target: Floats
    variance: Floats
    noise_std: float
    reluctance: float
    pairs: tuple["Margin", ...] = ()


def _shown(
    sizes: Sizes, targets: Mapping[Marginal, tuple[Floats, float]], *, fresh: bool
) -> dict[Marginal, tuple[Denoised, float]]:
    """What the sweeps aim at; a fresh fit draws empty cells to zero, and begins where a table leaves no doubt.

    A fit that goes on from a model has its empty cells in the potentials already.
    """
    margins = margin_noise(sizes, {columns: noise_std for columns, (_, noise_std) in targets.items()})
    return {
        columns: (
            denoise(table, noise_std, [margins[c] for c in columns]) if fresh else Denoised.plain(table),
            noise_std,
        )
        for columns, (table, noise_std) in targets.items()
    }


def aims_of(shown: Mapping[Marginal, tuple[Denoised, float]], step: float) -> dict[Marginal, Aim]:
    """Tables and their noise as aims: noisier ones are approached more reluctantly."""
    typical = np.exp(np.mean([np.log(noise_std) for _, noise_std in shown.values()])) if shown else 1.0
    return {
        columns: Aim(
            table.counts.ravel(),
            table.variance.ravel(),
            noise_std,
            noise_std / step * float(np.clip(noise_std / typical, 1 / 16, 16)) ** 0.5,
        )
        for columns, (table, noise_std) in shown.items()
    }


def towards(aim: Aim, now: Floats, total: float) -> Floats:
    """Solve (ν - target) / variance + reluctance · log(ν / now) = -λ for the λ that makes ν sum to `total`."""
    possible, goal, scale = now > 0, aim.target / aim.variance, aim.reluctance * aim.variance
    logs = np.full_like(now, -np.inf)
    np.log(now / scale, out=logs, where=possible)
    least = float((goal - now / aim.variance)[possible].min())  # every cell would grow: λ is not below this
    shift = max(least, 0.0)
    for _ in range(50):
        omega: Floats = wrightomega((goal - shift) / aim.reluctance + logs)
        excess = float(scale @ omega) - total
        if abs(excess) <= 1e-9 * total:
            break
        shift = max(least, shift + excess / max(float(aim.variance @ (omega / (1 + omega))), 1e-300))
    return np.asarray(np.maximum(scale * omega, _FLOOR * total))


def towards_pairs(aim: Aim, table: Floats, total: float) -> Floats:
    """A step towards each pair: solve ν - target + reluctance · log(ν / now) = 0; then back to the total."""
    for gone, target in aim.pairs:
        now = np.maximum(table.sum(axis=gone, keepdims=True), _FLOOR * total)
        pair = aim.reluctance * wrightomega(target / aim.reluctance + np.log(now / aim.reluctance))
        table = table * (pair / now)
    return np.asarray(np.maximum(table * (total / table.sum()), _FLOOR * total))


def _pairs(columns: Marginal, table: Floats, whole: int) -> tuple[Margin, ...]:
    """The margins of each two columns before `whole`, of a table of more."""
    places = [place for place, column in enumerate(columns) if column < whole]
    gone = [tuple(axis for axis in range(table.ndim) if axis not in pair) for pair in combinations(places, 2)]
    return tuple((axes, table.sum(axis=axes, keepdims=True)) for axes in gone if axes)


def _start(
    sizes: Sizes, targets: Mapping[Marginal, tuple[Floats, float]], total: float, start: GraphicalModel | None
) -> dict[Marginal, Floats]:
    """The potentials to begin with: those of `start`, and columns new to it as independent."""
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
    """Refuse columns without levels, and tables that do not fit the columns they are said to have."""
    if min(sizes, default=1) < 1:
        raise ModelError(f"a column without levels among sizes {sizes}", hint="every column needs at least one level")
    for columns, table in tables:
        known = all(0 <= column < len(sizes) for column in columns) and len(set(columns)) == len(columns)
        if not known or table.shape != tuple(sizes[column] for column in columns):
            raise ModelError(
                f"a table of shape {table.shape} does not fit columns {columns}",
                hint=f"different columns from 0 to {len(sizes) - 1}, one axis each, as long as the column has levels",
            )
