r"""Bayesian networks: each column has a distribution given a few earlier columns, its parents.

.. math:: p(x) = \prod_i p(x_i \mid \pi_i)

A public map of codes may merge the cells of a parent. So a column can have several wide parents, and its table still
has few enough cells for the noise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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

CAP_CELLS = 20_000_000  # of the largest junction tree on which a marginal is computed
SWEEPS = 10  # of Gibbs sampling
_CELLS = 1 << 22  # of the working memory of Gibbs sampling


@dataclass(frozen=True, eq=False)
class Node:
    """A column, its parents, and for each parent the merged code of each of its cells."""

    column: int
    parents: tuple[int, ...] = ()
    merged: tuple[Integers, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of merged cells of each parent."""
        return tuple(int(codes.max()) + 1 for codes in self.merged)

    def cut(self, sizes: Sequence[int]) -> Node:
        """Return the same node for columns with only their first cells."""
        merged = tuple(codes[: sizes[parent]] for parent, codes in zip(self.parents, self.merged, strict=True))
        return Node(self.column, self.parents, merged)


class BayesianNetwork:
    """A distribution over columns 0 … d-1; public, free to query and sample.

    Args:
        sizes: the number of cells of each column.
        nodes: every column once, after its parents.
        probabilities: for each node the conditional probabilities, one axis per merged parent and a last one for the
            column.

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
                f"a network of {plural(len(self.sizes), 'column')} needs one node for each column, "
                f"got nodes of columns {[node.column for node in self.nodes]}",
                hint="pass one node for each column",
            )
        before: set[int] = set()
        for node, table in zip(self.nodes, self.probabilities, strict=True):
            fits = [len(codes) for codes in node.merged] == [self.sizes[parent] for parent in node.parents]
            if not fits or not before.issuperset(node.parents) or table.shape != (*node.shape, self.sizes[node.column]):
                raise ModelError(
                    f"column {node.column} needs parents that come before it and probabilities of shape "
                    f"{(*node.shape, self.sizes[node.column])}, got parents {node.parents} and shape {table.shape}",
                    hint="put the nodes of parents first, and give probabilities one axis for each parent and a last "
                    "axis for the column",
                )
            before.add(node.column)

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Draw rows × columns of codes, column by column, each given its parents.

        Among rows with the same parent cells, counts of a column are its expected counts, rounded; their order is
        random.
        """
        codes = np.empty((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        return self._draw(codes, 0, rng)

    def _draw(self, codes: Codes, first: int, rng: np.random.Generator) -> Codes:
        """Draw the columns of all nodes from the node `first` on."""
        for node, table in zip(self.nodes[first:], self.probabilities[first:], strict=True):
            groups = np.zeros(len(codes), dtype=np.int64)
            for parent, merged, many in zip(node.parents, node.merged, node.shape, strict=True):
                groups = groups * many + merged[codes[:, parent]]
            codes[:, node.column] = systematic_by_group(table.reshape(-1, table.shape[-1]), groups, rng)
        return codes

    def fill(self, given: Integers, chance: UniformDraws) -> Integers:
        """Draw the codes that are -1 given the other codes of each row: a function of each row and its random draws.

        Gibbs sampling: missing cells are first drawn column by column given their parents. Then, in SWEEPS sweeps, each
        is drawn given all other cells of the row. If two missing cells determine each other, they keep their first
        draws.
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
        """Return, for each row, the weights of a node's cells given its parents and, if asked for, its children."""
        node = self.nodes[place]
        every = np.arange(self.sizes[node.column])[None, :]

        def entries(column: int) -> Integers:
            return every if column == node.column else codes[:, column, None]

        weights = np.ones((len(codes), every.size))
        for other, table in zip(self.nodes, self.probabilities, strict=True):
            if other is node or (children and node.column in other.parents):
                merged = (m[entries(parent)] for parent, m in zip(other.parents, other.merged, strict=True))
                weights *= table[(*merged, entries(other.column))]
        return weights

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Compute the exact probabilities of all combinations of cells of these columns, from their ancestors.

        Raises:
            ModelError: An intermediate table would have too many cells.
        """
        needed, family = set(columns), []
        for node, table in zip(reversed(self.nodes), reversed(self.probabilities), strict=True):
            if node.column in needed:
                needed |= set(node.parents)
                family.append((node, table))
        axes = Axes(self.sizes, [node for node, _ in family])
        tables = axes.ties | {key: table for key, (_, table) in zip(axes.tables, family, strict=True)}
        if (tree_cells := cells(axes.sizes, tables)) > CAP_CELLS:
            raise ModelError(
                f"the marginal of columns {tuple(columns)} would need {tree_cells:,} cells; the cap is {CAP_CELLS:,}",
                hint="use counts of a large sample instead",
            )
        with np.errstate(divide="ignore"):
            potentials = {tuple(sorted(key)): np.log(table).transpose(np.argsort(key)) for key, table in tables.items()}
        return GraphicalModel(axes.sizes, potentials, 1.0).marginal(columns)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        arrays: dict[str, NDArray[Any]] = {"sizes": np.array(self.sizes, dtype=np.int64)}
        for number, (node, table) in enumerate(zip(self.nodes, self.probabilities, strict=True)):
            arrays[f"columns.{number}"] = np.array([node.column, *node.parents], dtype=np.int64)
            arrays[f"probabilities.{number}"] = table
            arrays |= {f"merged.{number}.{axis}": codes for axis, codes in enumerate(node.merged)}
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> BayesianNetwork:
        """Rebuild the network from the arrays of a model file."""
        numbers = range(len(arrays["sizes"]))
        nodes = []
        for number in numbers:
            column, *parents = arrays[f"columns.{number}"].tolist()
            merged = tuple(arrays[f"merged.{number}.{axis}"] for axis in range(len(parents)))
            nodes.append(Node(column, tuple(parents), merged))
        tables = [arrays[f"probabilities.{number}"] for number in numbers]
        network = BayesianNetwork(arrays["sizes"].tolist(), nodes, tables)
        if "many" not in arrays:
            return network
        start = {name.removeprefix("start."): array for name, array in arrays.items() if name.startswith("start.")}
        return JointStartNetwork(network, GraphicalModel.from_arrays(start), int(arrays["many"]))


class JointStartNetwork(BayesianNetwork):
    """A network whose first columns are drawn from one graphical model of all their tables.

    Samples of an ordinary network keep the table of a node only if an earlier table holds all its parents. Otherwise
    the parents are drawn as conditionally independent. Here the joint start keeps the tables of the first nodes as
    measured; the other columns are drawn given their parents.

    Args:
        network: the distribution of every column given its parents.
        start: the graphical model of the first nodes' tables; its axes are all columns, then merged ones.
        many: the number of nodes in the joint start.
    """

    def __init__(self, network: BayesianNetwork, start: GraphicalModel, many: int) -> None:
        super().__init__(network.sizes, network.nodes, network.probabilities)
        self.start = start
        self.many = many

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Draw rows × columns of codes; the tables of the first nodes are near the expected ones."""
        codes = np.asfortranarray(self.start.sample(rows, rng)[:, : len(self.sizes)])
        return self._draw(codes, self.many, rng)

    def marginal(self, columns: Sequence[int]) -> Floats:
        """Take it from the joint start if that holds all columns, else from the network."""
        held = {node.column for node in self.nodes[: self.many]}
        return self.start.marginal(columns) if held.issuperset(columns) else super().marginal(columns)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps."""
        start = {f"start.{name}": array for name, array in self.start.to_arrays().items()}
        return super().to_arrays() | start | {"many": np.array(self.many)}


class Axes:
    """Common axes for the tables of some nodes: all columns, then an axis for every merged parent.

    Attributes:
        sizes: the number of cells of each axis.
        tables: the axes of each node's table: its parents, then the column.
        ties: for each column and its merged axis, 1 where the cells belong together, else 0.
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
        """For each column and its merged axis, the combinations of cells that cannot occur."""
        return [(key, table == 0) for key, table in self.ties.items()]


class NodeTables(NamedTuple):
    """The fitted probabilities of each node's table, and the joint model of the first nodes, if there is one."""

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
    """Estimate probabilities from each node's noisy counts: nonnegative, and small where only noise is visible.

    Args:
        sizes: the number of cells of each column.
        nodes: every column after its parents; then pairs within these that were counted separately.
        counts: for each node one axis per merged parent and a last one for the column.
        noise: the `noise_std` of each node's counts.
        total: the number of rows, if all tables count the same rows. Then tables are reconciled, and those of the first
            nodes, as many as the cap allows, are fitted in one model. None if tables count different rows.
        cap_cells: the largest junction tree.
        follow_noise: whether to follow the counts, as in `GraphicalModel.fit`.
    """
    axes, families = Axes(sizes, nodes), nodes[: len({node.column for node in nodes})]
    measured = [Measurement(*table) for table in zip(axes.tables, counts, noise, strict=True)]
    singles, pairs = measured[: len(families)], measured[len(families) :]
    if total is None:
        return NodeTables([_fit_alone([table], follow_noise=follow_noise) for table in singles])
    joint = joint_start_size(sizes, families, cap_cells)
    reconciled = reconcile(axes.sizes, measured, total) if joint < len(singles) else {}
    tables = []
    for table in singles[joint:]:
        keys = [tuple(sorted(t.columns)) for t in (table, *pairs) if t.columns[-1] == table.columns[-1]]
        alone = [Measurement(key, *reconciled[key]) for key in keys]
        tables.append(_fit_alone(alone, table.columns, follow_noise=follow_noise))
    if joint == 0:
        return NodeTables(tables)
    start_axes = Axes(sizes, families[:joint])
    start_columns = {node.column for node in families[:joint]}
    start = GraphicalModel.fit(
        start_axes.sizes,
        singles[:joint] + [pair for pair in pairs if pair.columns[-1] in start_columns],
        total=total,
        follow_noise=follow_noise,
        unmerged=len(sizes),
        zeros=start_axes.structural_zeros,
        cap_cells=cap_cells,
    )
    return NodeTables(start.marginals(start_axes.tables) + tables, start)


def joint_start_size(sizes: Sequence[int], nodes: Sequence[Node], cap_cells: int) -> int:
    """Return the largest number of first nodes whose tables fit on one junction tree within the cap."""

    def tree_cells(many: int) -> int:
        axes = Axes(sizes, nodes[:many])
        return cells(axes.sizes, [*axes.ties, *axes.tables])

    return max(0, bisect_right(range(len(nodes) + 1), cap_cells, key=tree_cells) - 1)


def _fit_alone(measured: Sequence[Measurement], order: Marginal | None = None, *, follow_noise: bool) -> Floats:
    """Fit the first of these tables, from its counts and those of pairs within it; return its axes in this order."""
    axes, counts = measured[0].columns, measured[0].counts
    local = [replace(table, columns=tuple(map(axes.index, table.columns))) for table in measured]
    model = GraphicalModel.fit(counts.shape, local, follow_noise=follow_noise, cap_cells=counts.size)
    return model.marginal([axes.index(column) for column in order or axes])


def conditional(joint: Floats) -> Floats:
    """Return the distribution of the last axis given the others; where these have no mass, its marginal.

    >>> conditional(np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.25, 0.75]])
    """
    marginal = joint.reshape(-1, joint.shape[-1]).sum(axis=0)
    marginal = marginal / marginal.sum() if marginal.sum() > 0 else np.full(marginal.shape, 1 / marginal.size)
    given = joint.sum(axis=-1, keepdims=True)
    return np.where(given > 0, joint / np.where(given > 0, given, 1.0), marginal)
