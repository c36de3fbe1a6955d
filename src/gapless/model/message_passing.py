"""Messages on a junction tree: potentials in, marginals of all cliques out, and the sweeps that fit them to tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement, groupby, product
from math import prod
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from gapless.errors import Hint, ModelError
from gapless.model.denoise import (
    EXPLAINED,
    PATIENCE,
    STEP,
    Denoised,
    FitTarget,
    fit_targets,
    pair_margins,
    pair_step,
    proximal_step,
    safe_ratio,
)
from gapless.model.junction import Sizes, junction_tree
from gapless.model.marginal import Marginal, contract, marginalize, multiply
from gapless.text import listing
from gapless.types import Floats

ROW_STEPS = tuple(np.geomspace(8, 1, 16) / np.geomspace(8, 1, 16).sum())  # of a model for rows; their sum is 1
COPY_STEPS = tuple(2.0 ** np.linspace(1, -5, 8))  # a fit that follows its tables ends a tenth of noise from there
LARGEST_TABLE = 10_000_000  # cells, of a marginal of columns that are far apart in the tree
_NEVER = -1e300  # stands for log 0 in messages: sums of it stay finite
_SHORT = 20  # cells of a row that is not worth a call

Excess: TypeAlias = dict[Marginal, float]  # of each table's χ² above what noise explains, in standard deviations


class JunctionTreeInference:
    """Potentials, marginals and clique tables in fixed memory, with every axis order worked out beforehand.

    `theta` and `mu` are one long vector each; a marginal's slice of them is seen through views that fit its clique.
    After `calibrate`, `tables` holds the probabilities of each clique.
    """

    def __init__(self, sizes: Sizes, potentials: Mapping[Marginal, Floats], cap_cells: int | None) -> None:
        self.tree = tree = junction_tree(sizes, potentials)
        if cap_cells is not None and tree.cells > cap_cells:
            raise ModelError(
                f"these marginals need a junction tree of {tree.cells:,} cells; the cap is {cap_cells:,}",
                hint=Hint(f"measure fewer marginals among columns {sorted(max(tree.cliques, key=tree.cells_of))}")
                | Hint("choose coarser bins or fewer levels for them"),
            )
        self.tables = [np.zeros([sizes[column] for column in clique]) for clique in tree.cliques]
        self.flat = [table.reshape(tree.cells_of(tree.separator(place)), -1) for place, table in enumerate(self.tables)]
        self.links = [  # the shape of each message in its parent, and the axes that are summed out
            _broadcast_shape(tree.cliques[parent], tree.separator(place), sizes)
            for place, parent in enumerate(tree.parents)
        ]
        self.messages = [np.zeros((len(flat), 1)) for flat in self.flat]
        self.marginals: list[_MarginalView] = []
        self.slots: list[list[_MarginalView]] = [[] for _ in tree.cliques]
        self.theta = np.concatenate([np.empty(0), *(table.ravel() for table in potentials.values())])
        self.mu = np.zeros_like(self.theta)
        begin = 0
        for columns, table in potentials.items():
            home = tree.smallest_clique(columns) or 0
            clique = tree.cliques[home] if tree.cliques else ()
            slot = _MarginalView(columns, slice(begin, begin + table.size), clique, self)
            self.marginals.append(slot)
            if tree.cliques:
                self.slots[home].append(slot)
            begin += table.size
        self.tour = self._walk()

    def _walk(self) -> list[tuple[int, int]]:
        """A walk through all cliques, back to the parent after each child, as (from, to) pairs."""
        tour: list[tuple[int, int]] = []
        stack = [(-1, 0)] if self.tables else []
        while stack:
            origin, place = stack.pop()
            tour.append((origin, place))
            if origin in (-1, self.tree.parents[place]):
                for kid in reversed(self.tree.children[place]):
                    stack += [(kid, place), (place, kid)]
        return tour

    def potentials(self) -> dict[Marginal, Floats]:
        """The tables of potentials as they are now."""
        return {slot.columns: self.theta[slot.where].reshape(slot.shape).copy() for slot in self.marginals}

    def calibrate(self) -> None:
        """Pass messages up, in logs and normalised per shared cell, then probabilities down; fills `mu` too."""
        for place in range(len(self.tables) - 1, -1, -1):
            table, flat = self.tables[place], self.flat[place]
            here = self.slots[place]
            np.copyto(table, here[0].potential if here else 0.0)
            for slot in here[1:]:
                table += slot.potential
            for kid in self.tree.children[place]:
                table += self.messages[kid].reshape(self.links[kid][0])
            top = np.maximum(_reduce_rows(np.maximum, flat), _NEVER)[:, None]
            flat -= top
            np.exp(flat, out=flat)
            total = np.maximum(_reduce_rows(np.add, flat), 1e-300)[:, None]
            flat /= total
            np.add(np.log(total), top, out=self.messages[place])
        if self.tables and self.messages[0][0, 0] < 0.1 * _NEVER:
            raise ModelError(
                "the constraints of the schema forbid every row",
                hint="remove one of the constraints that contradict each other from the schema",
            )
        for place, table in enumerate(self.tables):
            for kid in self.tree.children[place]:
                self.flat[kid] *= sum_out(table, self.links[kid][1]).reshape(-1, 1)
            for slot in self.slots[place]:
                slot.marginal[...] = sum_out(table, slot.gone)

    def fit(
        self,
        shown: Mapping[Marginal, tuple[Denoised, float]],
        total: float,
        *,
        steps: Sequence[float],
        further: int,
        unmerged: int,
    ) -> Excess:
        """Sweep once with each step, and say how far each table is from what noise explains.

        Tables that contradict each other below zero pull to and fro: long steps come near soon, short ones arrive. If
        noise does not explain a table then, up to `further` sweeps follow. They have momentum, which starts again when
        the worst table gets worse, and end when there is no progress.
        """
        excess = dict.fromkeys(shown, 0.0)
        pairs = {columns: pair_margins(columns, table.counts, unmerged) for columns, (table, _) in shown.items()}

        def sweep(step: float) -> float:
            plain = fit_targets(shown, step)
            targets = {columns: plain[columns]._replace(pair_margins=pairs[columns]) for columns in plain}
            excess.update(self.sweep(targets, total))
            return max(excess.values(), default=0.0)

        worst = 0.0
        for step in steps:
            worst = sweep(step)
        possible = np.isfinite(self.theta)
        before, momentum, lowest, stalled = self.theta[possible], 1.0, worst, 0
        for _ in range(further):
            if worst <= EXPLAINED or stalled == PATIENCE:
                break
            last, worst = worst, sweep(STEP)
            lowest, stalled = (worst, 0) if worst < 0.9 * lowest else (lowest, stalled + 1)
            here, momentum = self.theta[possible], 1.0 if worst > last else momentum
            faster = (1 + np.sqrt(1 + 4 * momentum * momentum)) / 2
            if momentum > 1:
                self.theta[possible] += (momentum - 1) / faster * (here - before)
                self.calibrate()
            before, momentum = here, faster
        return excess

    def sweep(self, targets: Mapping[Marginal, FitTarget], total: float) -> Excess:
        """Move each marginal towards its target in turn, reluctantly, carrying the change from clique to clique.

        Gives, for each, how far it was from its target before it moved: by how many standard deviations its χ² exceeded
        what noise explains.
        """
        excess: Excess = {}
        for origin, place in self.tour:
            table = self.tables[place]
            if origin >= 0:
                down = self.tree.parents[place] == origin
                kid = place if down else origin
                shape, gone = self.links[kid]
                above = sum_out(self.tables[self.tree.parents[kid]], gone)
                here = _reduce_rows(np.add, self.flat[kid]).reshape(above.shape)
                if down:
                    self.flat[kid] *= safe_ratio(above, here).reshape(-1, 1)
                else:
                    table *= safe_ratio(here, above).reshape(shape)
                    continue
            for slot in self.slots[place]:
                if slot.columns in targets:
                    slot.marginal[...] = sum_out(table, slot.gone)
                    now, aim = total * self.mu[slot.where], targets[slot.columns]
                    square = float(((now - aim.counts) ** 2 / aim.variance).sum()) / aim.noise_std**2
                    excess[slot.columns] = (square - now.size) / (2 * now.size) ** 0.5
                    near = proximal_step(aim, now, total)
                    if aim.pair_margins:
                        near = pair_step(aim, near.reshape(slot.shape), total).ravel()
                    factor = safe_ratio(near, now)
                    self.theta[slot.where] += np.log(factor)
                    table *= slot.seen(factor)
        return excess

    def conditional(self, place: int) -> Floats:
        """The probabilities of a clique given the columns it shares with its parent."""
        flat = self.flat[place]
        conditional: Floats = flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-300)
        return conditional.reshape(self.tables[place].shape)

    def distant_marginal(self, columns: Marginal) -> Floats:
        """A marginal of columns that no clique holds together: conditionals are passed up the tree until all meet."""
        tree = self.tree
        below: list[Marginal] = [()] * len(tree.cliques)  # the wanted columns introduced in or under each clique
        messages: dict[int, Floats] = {}
        place = len(tree.cliques)
        while place == len(tree.cliques) or len(below[place]) < len(columns):
            place -= 1
            clique, link = tree.cliques[place], tree.separator(place)
            active = [kid for kid in tree.children[place] if below[kid]]
            introduced = tuple(column for column in clique[len(link) :] if column in columns)
            below[place] = introduced + sum((below[kid] for kid in active), ())
            met = len(below[place]) == len(columns)
            keep = columns if met else link + below[place]
            table, axes = self.tables[place] if met else self.conditional(place), clique
            for number, kid in enumerate(active, start=1):
                later = {column for other in active[number:] for column in tree.separator(other)}
                out = tuple(c for c in dict.fromkeys(axes + below[kid]) if c in keep or c in later)
                if tree.cells_of(out) > LARGEST_TABLE:
                    raise ModelError(
                        f"the marginal of the columns at positions {listing(map(str, columns))} needs a table of "
                        f"{tree.cells_of(out):,} cells, but at most {LARGEST_TABLE:,} are computed",
                        hint="leave out columns, those with many levels or bins first",
                    )
                table, axes = contract(table, axes, messages.pop(kid), tree.separator(kid) + below[kid], out), out
            if below[place]:
                messages[place] = marginalize(table, axes, keep)
        return messages[place]

    def distant_pairs(self, wanted: set[Marginal]) -> dict[Marginal, Floats]:
        """Marginals of pairs of columns that no clique holds together, from the leaves of the tree to the root.

        Each clique sends its parent the distribution of every column below it given their separator, in one matrix;
        two columns from different branches are joined where their branches meet.
        """
        tree, needed = self.tree, set(chain.from_iterable(wanted))
        found: dict[Marginal, Floats] = {}
        sent: dict[int, _Conditionals] = {}
        for place in range(len(tree.cliques) - 1, -1, -1):
            clique, up = tree.cliques[place], tree.separator(place)
            branches: dict[Marginal, list[_Conditionals]] = {}
            for column in needed.intersection(clique[len(up) :]):
                branches.setdefault((column,), []).append(_Conditionals.known(column, tree.sizes[column]))
            for kid in tree.children[place]:
                branches.setdefault(tree.separator(kid), []).append(sent.pop(kid))
            groups = {link: _Conditionals.beside(parts) for link, parts in sorted(branches.items())}
            for (left_link, left), (right_link, right) in combinations_with_replacement(groups.items(), 2):
                fresh = [pair for pair in product(left.spans, right.spans) if tuple(sorted(pair)) in wanted]
                fresh = [(a, b) for a, b in fresh if left.spans[a][0] != right.spans[b][0]]
                if fresh:
                    union = tuple(dict.fromkeys(left_link + right_link))
                    joint = marginalize(self.tables[place], clique, union)
                    reach = left.through(joint, union, left_link, right_link, tree.sizes)
                for a, partners in groupby(fresh, key=itemgetter(0)):
                    block = multiply(reach[:, left.spans[a][1]].T, right.matrix)
                    for _, b in partners:
                        table = block[:, right.spans[b][1]]
                        found[min(a, b), max(a, b)] = table.copy() if a < b else table.T.copy()
            heard = [_Conditionals({}, np.empty((tree.cells_of(up), 0)))]
            for link, parts in groups.items():
                union = tuple(dict.fromkeys(up + link))
                matrix = parts.through(marginalize(self.conditional(place), clique, union), union, link, up, tree.sizes)
                spans = {column: (place, span) for column, (_, span) in parts.spans.items()}
                heard.append(_Conditionals(spans, matrix))
            sent[place] = _Conditionals.beside(heard)
        return found


@dataclass(frozen=True, slots=True)
class _Conditionals:
    """The distributions of many columns given the same separator, side by side: a row per cell of the separator.

    `spans` says for each column from which branch it comes and which columns of the matrix are its levels.
    """

    spans: dict[int, tuple[int, slice]]
    matrix: Floats

    @staticmethod
    def known(column: int, size: int) -> "_Conditionals":
        """The distribution of a column given itself, as a separate branch."""
        return _Conditionals({column: (-1 - column, slice(0, size))}, np.eye(size))

    @staticmethod
    def beside(parts: Sequence["_Conditionals"]) -> "_Conditionals":
        """All of them in one matrix."""
        spans, begin = {}, 0
        for part in parts:
            for column, (branch, span) in part.spans.items():
                spans[column] = branch, slice(span.start + begin, span.stop + begin)
            begin += part.matrix.shape[1]
        return _Conditionals(spans, np.hstack([part.matrix for part in parts]))

    def through(self, joint: Floats, axes: Marginal, link: Marginal, out: Marginal, sizes: Sizes) -> Floats:
        """Exchange the link for other columns, given how the two go together."""
        width = self.matrix.shape[1]
        matrix = self.matrix.reshape(*(sizes[column] for column in link), width)
        moved = contract(joint, axes, matrix, (*link, -1), (*out, -1))
        return moved.reshape(prod(sizes[column] for column in out), width)


class _MarginalView:
    """A marginal's place in the long vectors, and how it is seen from its clique."""

    def __init__(self, columns: Marginal, where: slice, clique: Marginal, engine: JunctionTreeInference) -> None:
        sizes = engine.tree.sizes
        self.columns = columns
        self.where = where
        self.shape = [sizes[column] for column in columns]
        self.order = sorted(range(len(columns)), key=lambda axis: clique.index(columns[axis])) if clique else []
        self.expand = tuple(slice(None) if column in columns else None for column in clique)
        self.gone = _broadcast_shape(clique, columns, sizes)[1]
        self.potential = self.seen(engine.theta[where])
        self.marginal = engine.mu[where].reshape(self.shape).transpose(self.order)

    def seen(self, values: Floats) -> Floats:
        """A view with the axes of the clique."""
        return values.reshape(self.shape).transpose(self.order)[self.expand]


def _broadcast_shape(clique: Marginal, columns: Marginal, sizes: Sizes) -> tuple[list[int], tuple[int, ...]]:
    """The shape in which a table of `columns` spreads over a clique, and the clique's other axes."""
    shape = [sizes[column] if column in columns else 1 for column in clique]
    return shape, tuple(axis for axis, column in enumerate(clique) if column not in columns)


def sum_out(table: Floats, gone: Sequence[int]) -> Floats:
    """A table without some of its axes: in a third of the time of np.sum where several go."""
    axes = range(table.ndim)
    kept = [axis for axis in axes if axis not in gone]
    return np.asarray(np.einsum(table, list(axes), kept))  # type: ignore[arg-type]  # this form has no types


def _reduce_rows(fold: np.ufunc, flat: Floats) -> Floats:
    """What is left of each row; over a few long columns several times as quick as along many short rows."""
    if flat.shape[1] > _SHORT or len(flat) < _SHORT:
        return np.asarray(fold.reduce(flat, axis=1))
    found = flat[:, 0].copy()
    for column in range(1, flat.shape[1]):
        fold(found, flat[:, column], out=found)
    return found
