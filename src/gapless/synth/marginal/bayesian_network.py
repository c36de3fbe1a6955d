r"""A Bayesian network: columns in an order, each with its law given a few of those before it.

.. math:: p(x) = \prod_i p(x_i \mid \pi_i)

A parent may enter coarser than it is, its cells merged by a public map of codes: so a column can have several wide
parents without a table that no noise leaves readable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapless.errors import ModelError
from gapless.model.graphical import GraphicalModel
from gapless.model.junction import cells
from gapless.model.marginal import Marginal, Measurement, reconcile
from gapless.model.sampling import UniformDraws, code_dtype, inverse_sample, systematic_by_group
from gapless.text import plural
from gapless.types import Codes, Floats, Integers

__all__ = ["Axes", "BayesianNetwork", "JointStartNetwork", "Node", "conditional", "fit_tables", "joint_start_size"]

CAP_CELLS = 20_000_000  # of the junction tree on which a marginal is computed
SWEEPS = 10  # of Gibbs sampling
_CELLS = 1 << 22  # its working memory


@dataclass(frozen=True, eq=False)
class Node:
    """A column, the columns on which it depends, and for each of these the codes that take the place of its own."""

    column: int
    parents: tuple[int, ...] = ()
    merged: tuple[Integers, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The cells of each parent as they are merged."""
        return tuple(int(codes.max()) + 1 for codes in self.merged)

    def cut(self, sizes: Sequence[int]) -> Node:
        """The same node where each column has only its first cells."""
        merged = tuple(codes[: sizes[parent]] for parent, codes in zip(self.parents, self.merged, strict=True))
        return Node(self.column, self.parents, merged)


class BayesianNetwork:
    """A distribution over columns 0 … d-1; public, free to query and sample.

    Args:
        sizes: the number of cells of each column.
        nodes: every column once, after its parents.
        laws: for each node one axis per parent, merged, and a last one for the column: probabilities given the parents.

    >>> rain, wet = Node(1), Node(0, (1,), (np.array([0, 1]),))
    >>> network = BayesianNetwork((2, 2), [rain, wet], [np.array([0.8, 0.2]), np.array([[0.9, 0.1], [0.0, 1.0]])])
    >>> network.marginal([0]).round(2)
    array([0.72, 0.28])
    """

    kind: ClassVar[str] = "network"

    def __init__(self, sizes: Sequence[int], nodes: Iterable[Node], probabilities: Iterable[Floats]) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        self.nodes = tuple(nodes)
        self.probabilities = tuple(probabilities)
        if sorted(node.column for node in self.nodes) != list(range(len(self.sizes))):
            raise ModelError(
                f"a network of {plural(len(self.sizes), 'column')} needs a node for each", hint="every column once"
            )
        before: set[int] = set()
        for node, law in zip(self.nodes, self.probabilities, strict=True):
            fits = [len(codes) for codes in node.merged] == [self.sizes[parent] for parent in node.parents]
            if not fits or not before.issuperset(node.parents) or law.shape != (*node.shape, self.sizes[node.column]):
                raise ModelError(
                    f"column {node.column} cannot follow parents {node.parents} by a law of shape {law.shape}",
                    hint="parents first; one axis for each, then one for the column itself",
                )
            before.add(node.column)

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows × columns of codes, column by column, each given its parents.

        Rows alike in their parents get a column's cells as near to its law as whole numbers are, in random order.
        """
        codes = np.empty((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        return self._draw(codes, 0, rng)

    def _draw(self, codes: Codes, first: int, rng: np.random.Generator) -> Codes:
        """Draw the columns of all nodes from the first one on."""
        for node, law in zip(self.nodes[first:], self.probabilities[first:], strict=True):
            groups = np.zeros(len(codes), dtype=np.int64)
            for parent, merged, many in zip(node.parents, node.merged, node.shape, strict=True):
                groups = groups * many + merged[codes[:, parent]]
            codes[:, node.column] = systematic_by_group(law.reshape(-1, law.shape[-1]), groups, rng)
        return codes

    def fill(self, given: Integers, chance: UniformDraws) -> Integers:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws.

        Gibbs sampling. The missing cells of a row are first drawn column by column given their parents; then, SWEEPS
        times, each is drawn anew from its law given all other cells of the row. Cells that decide each other and are
        both missing stay as they were first drawn.
        """
        codes = np.maximum(given, 0)
        for sweep in range(1 + SWEEPS):
            for place, node in enumerate(self.nodes):
                draws = chance()
                lacking = np.flatnonzero(given[:, node.column] < 0)
                step = max(1, _CELLS // self.sizes[node.column])
                for begin in range(0, len(lacking), step):
                    rows = lacking[begin : begin + step]
                    weights = self._weights(place, codes[rows], children=sweep > 0)
                    codes[rows, node.column] = inverse_sample(weights, np.arange(len(rows)), draws[rows])
        return codes

    def _weights(self, place: int, codes: Integers, *, children: bool) -> Floats:
        """For each row the law of a node given its parents and, if asked for, times what its children say."""
        node = self.nodes[place]
        every = np.arange(self.sizes[node.column])[None, :]

        def entries(column: int) -> Integers:
            return every if column == node.column else codes[:, column, None]

        weights = np.ones((len(codes), every.size))
        for other, law in zip(self.nodes, self.probabilities, strict=True):
            if other is node or (children and node.column in other.parents):
                merged = (m[entries(parent)] for parent, m in zip(other.parents, other.merged, strict=True))
                weights *= law[(*merged, entries(other.column))]
        return weights

    def marginal(self, columns: Sequence[int]) -> Floats:
        """The probabilities of each combination of cells of these columns, exactly: from them and their ancestors.

        Raises:
            ModelError: A table on the way would have too many cells.
        """
        needed, family = set(columns), []
        for node, law in zip(reversed(self.nodes), reversed(self.probabilities), strict=True):
            if node.column in needed:
                needed |= set(node.parents)
                family.append((node, law))
        axes = Axes(self.sizes, [node for node, _ in family])
        tables = axes.ties | {key: law for key, (_, law) in zip(axes.tables, family, strict=True)}
        if (price := cells(axes.sizes, tables)) > CAP_CELLS:
            raise ModelError(
                f"the marginal of columns {tuple(columns)} would need {price:,} cells",
                hint="count it in a large sample instead",
            )
        with np.errstate(divide="ignore"):
            potentials = {tuple(sorted(key)): np.log(table).transpose(np.argsort(key)) for key, table in tables.items()}
        return GraphicalModel(axes.sizes, potentials, 1.0).marginal(columns)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that makes the model, as plain arrays to be saved."""
        arrays: dict[str, NDArray[Any]] = {"sizes": np.array(self.sizes, dtype=np.int64)}
        for number, (node, law) in enumerate(zip(self.nodes, self.probabilities, strict=True)):
            arrays[f"columns.{number}"] = np.array([node.column, *node.parents], dtype=np.int64)
            arrays[f"law.{number}"] = law
            arrays |= {f"merged.{number}.{axis}": codes for axis, codes in enumerate(node.merged)}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> BayesianNetwork:
        """The model that `to_arrays` took apart."""
        numbers = range(len(arrays["sizes"]))
        nodes = []
        for number in numbers:
            column, *parents = arrays[f"columns.{number}"].tolist()
            merged = tuple(arrays[f"merged.{number}.{axis}"] for axis in range(len(parents)))
            nodes.append(Node(column, tuple(parents), merged))
        return cls(arrays["sizes"].tolist(), nodes, [arrays[f"law.{number}"] for number in numbers])


class JointStartNetwork(BayesianNetwork):
    """A network whose rows keep its first tables as they were measured.

    A network's own rows have the table of a node only if an earlier one holds its parents together: else these are
    drawn as if they were independent given theirs. Here the columns of the first nodes are drawn from one graphical
    model of all their tables, those of the others given their parents.

    Args:
        network: the law of every column given its parents.
        start: of the first nodes' tables; after the columns it may have merged ones.
        many: how many nodes it holds.
    """

    def __init__(self, network: BayesianNetwork, start: GraphicalModel, many: int) -> None:
        super().__init__(network.sizes, network.nodes, network.probabilities)
        self.start = start
        self.many = many

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows × columns of codes, the tables of the first nodes as near to the model's as whole numbers are."""
        codes = np.asfortranarray(self.start.sample(rows, rng)[:, : len(self.sizes)])
        return self._draw(codes, self.many, rng)


class Axes:
    """The tables of some nodes over common axes: first all columns, then every merged one, tied to its column.

    Attributes:
        sizes: the cells of each axis.
        tables: the axes of each node's table: its parents, then the column.
        ties: for each column and its merged axis, 1 where the cells belong together.
    """

    def __init__(self, sizes: Sequence[int], nodes: Iterable[Node]) -> None:
        self.sizes = list(sizes)
        self.tables: list[Marginal] = []
        self.ties: dict[Marginal, Floats] = {}
        known: dict[tuple[int, bytes], int] = {}
        for node in nodes:
            axes = []
            for parent, merged, many in zip(node.parents, node.merged, node.shape, strict=True):
                axis = parent if many == sizes[parent] else known.get((parent, merged.tobytes()), len(self.sizes))
                if axis == len(self.sizes):
                    known[parent, merged.tobytes()] = axis
                    self.sizes.append(many)
                    self.ties[parent, axis] = np.equal.outer(merged, np.arange(many)).astype(np.float64)
                axes.append(axis)
            self.tables.append((*axes, node.column))

    @property
    def structural_zeros(self) -> list[tuple[Marginal, NDArray[np.bool_]]]:
        """Cells of a column and of its merged axis that never go together."""
        return [(key, table == 0) for key, table in self.ties.items()]


class NodeTables(NamedTuple):
    """The probabilities behind each node's counts, and the model of the first ones, if these were fitted together."""

    tables: list[Floats]
    start: GraphicalModel | None = None


def fit_tables(
    sizes: Sequence[int],
    nodes: Sequence[Node],
    counts: Sequence[Floats],
    noise: Sequence[float],
    *,
    total: float | None,
    cap_cells: int,
    follow_noise: bool = False,
) -> NodeTables:
    """The probabilities behind each node's noisy counts: none negative, and small where only noise was seen.

    Args:
        sizes: the number of cells of each column.
        nodes: every column after its parents; then pairs in these that were counted by themselves.
        counts: for each node one axis per parent, merged, and a last one for the column.
        noise: the `noise_std` of each node's counts.
        total: the number of rows, if all tables count the same ones. Then they are brought to agree on what they share,
            and those of the first nodes, as many as the cap allows, fitted in one model. None if each counts rows of
            its own.
        cap_cells: the largest junction tree.
        follow_noise: whether to follow the counts, as in `GraphicalModel.fit`.
    """
    axes, families = Axes(sizes, nodes), nodes[: len({node.column for node in nodes})]
    measured = [Measurement(*table) for table in zip(axes.tables, counts, noise, strict=True)]
    own, pairs = measured[: len(families)], measured[len(families) :]
    if total is None:
        return NodeTables([_fit_alone([table], follow_noise=follow_noise) for table in own])
    many = joint_start_size(sizes, families, cap_cells)
    agreed = reconcile(axes.sizes, measured, total) if many < len(own) else {}
    tables = []
    for table in own[many:]:
        told = [table, *(pair for pair in pairs if pair.columns[-1] == table.columns[-1])]
        alone = [Measurement(key := tuple(sorted(each.columns)), *agreed[key]) for each in told]
        tables.append(_fit_alone(alone, table.columns, follow_noise=follow_noise))
    if many == 0:
        return NodeTables(tables)
    begin = Axes(sizes, families[:many])
    begun = {node.column for node in families[:many]}
    start = GraphicalModel.fit(
        begin.sizes,
        own[:many] + [pair for pair in pairs if pair.columns[-1] in begun],
        total=total,
        follow_noise=follow_noise,
        unmerged=len(sizes),
        zeros=begin.structural_zeros,
        cap_cells=cap_cells,
    )
    return NodeTables(start.marginals(begin.tables) + tables, start)


def joint_start_size(sizes: Sequence[int], nodes: Sequence[Node], cap_cells: int) -> int:
    """How many nodes the longest beginning of a network has whose tables fit on a junction tree within the cap."""
    many = bisect_right(range(len(nodes) + 1), cap_cells, key=lambda many: _price(sizes, nodes[:many])) - 1
    return max(0, many)


def _price(sizes: Sequence[int], nodes: Sequence[Node]) -> int:
    """The cells of the tree on which these nodes' tables are fitted together."""
    axes = Axes(sizes, nodes)
    return cells(axes.sizes, [*axes.ties, *axes.tables])


def _fit_alone(measured: Sequence[Measurement], order: Marginal | None = None, *, follow_noise: bool) -> Floats:
    """The first of these tables by itself, from its counts and those of pairs in it; its axes in the order given."""
    axes, counts = measured[0].columns, measured[0].counts
    own = [Measurement(tuple(map(axes.index, each.columns)), each.counts, each.noise_std) for each in measured]
    model = GraphicalModel.fit(counts.shape, own, follow_noise=follow_noise, cap_cells=counts.size)
    return model.marginal([axes.index(column) for column in order or axes])


def conditional(joint: Floats) -> Floats:
    """The law of the last axis given the others; where nothing is known, as in the whole table.

    >>> conditional(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.25, 0.75]])
    """
    own = joint.reshape(-1, joint.shape[-1]).sum(axis=0)
    own = own / own.sum() if own.sum() > 0 else np.full(own.shape, 1 / own.size)
    given = joint.sum(axis=-1, keepdims=True)
    return np.where(given > 0, joint / np.where(given > 0, given, 1.0), own)
