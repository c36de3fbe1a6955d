"""Junction trees: how a set of marginals is arranged so that inference is exact and cheap.

Columns that share a marginal are neighbours. Eliminating the columns one by one, each time joining the
neighbours of the one that leaves, gives *cliques* of columns; the largest cliques form a tree in which every column
occupies a connected part. Inference then costs time and memory proportional to the cells of the cliques, so their
number is the price of a model, known before anything is fitted.

>>> tree = junction_tree((2, 3, 4, 5), [(0, 1), (1, 2)])
>>> tree.cliques, tree.parents, tree.cells
(((1, 2), (1, 0), (3,)), (-1, 0, 0), 23)
>>> cells((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)])
38
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from math import prod
from operator import or_

Sizes = tuple[int, ...]
Clique = tuple[int, ...]
Cost = Callable[[int, list[int], Sizes], int]


@dataclass(frozen=True)
class JunctionTree:
    """Bags of columns, each with its parent; parents come before their children.

    Attributes:
        sizes: The number of levels of every column.
        cliques: The columns of each clique; those shared with its parent come first, in the parent's order.
        parents: The position of each clique's parent, -1 for the first clique, which has none.
        shared: How many leading columns of each clique its parent holds too.
    """

    sizes: Sizes
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]
    shared: tuple[int, ...]

    @cached_property
    def cells(self) -> int:
        """The cells of all cliques together."""
        return sum(self.cells_of(clique) for clique in self.cliques)

    def cells_of(self, columns: Iterable[int]) -> int:
        """The number of cells of one marginal."""
        return prod(self.sizes[column] for column in columns)

    @cached_property
    def children(self) -> list[list[int]]:
        """The children of each clique."""
        kids: list[list[int]] = [[] for _ in self.cliques]
        for place, parent in enumerate(self.parents[1:], start=1):
            kids[parent].append(place)
        return kids

    def separator(self, place: int) -> Clique:
        """The columns that a clique shares with its parent."""
        return self.cliques[place][: self.shared[place]]

    def smallest_clique(self, columns: Iterable[int]) -> int | None:
        """The smallest clique that holds all these columns, if there is one."""
        wanted = _mask(columns)
        return next((place for mask, place in self._by_size if not wanted & ~mask), None)

    @cached_property
    def _by_size(self) -> list[tuple[int, int]]:
        places = sorted(range(len(self.cliques)), key=lambda place: self.cells_of(self.cliques[place]))
        return [(_mask(self.cliques[place]), place) for place in places]


def junction_tree(sizes: Sequence[int], marginals: Iterable[Iterable[int]]) -> JunctionTree:
    """The smallest tree that a few greedy eliminations find in which each marginal is a subset of a clique.

    Every column gets a place, also those in no marginal. The same input always gives the same tree.
    """
    sizes = tuple(sizes)
    left = list(_smallest_cliques(sizes, _neighbours(len(sizes), marginals)))
    cliques: list[Clique] = []
    parents: list[int] = []
    shared: list[int] = []
    joined = dict.fromkeys(left, (0, -1))  # the widest link of each waiting clique to the tree, and where it leads
    while left:  # Prim's maximum spanning tree over the shared columns
        clique = max(left, key=lambda mask: (joined[mask][0], _cells(mask, sizes)))
        left.remove(clique)
        _, parent = joined[clique]
        common = tuple(column for column in cliques[parent] if clique >> column & 1) if cliques else ()
        for mask in left:
            joined[mask] = max(joined[mask], ((mask & clique).bit_count(), len(cliques)), key=lambda link: link[0])
        if not cliques:
            joined = {mask: (wide, 0) for mask, (wide, _) in joined.items()}
        fresh = (column for column in _members(clique) if column not in common)
        cliques.append(common + tuple(sorted(fresh, key=sizes.__getitem__)))  # long inner loops for numpy
        parents.append(parent)
        shared.append(len(common))
    return JunctionTree(sizes, tuple(cliques), tuple(parents), tuple(shared))


def cells(sizes: Sequence[int], marginals: Iterable[Iterable[int]]) -> int:
    """The cells that `junction_tree` would need for these marginals: the price of a model before it is fitted."""
    sizes = tuple(sizes)
    return sum(_cells(clique, sizes) for clique in _smallest_cliques(sizes, _neighbours(len(sizes), marginals)))


def cell_growth(tree: JunctionTree) -> list[list[int]]:
    """For each two columns, a bound on the cells that a tree grows by when they share a marginal.

    Two columns of one clique cost nothing. Otherwise they get a separate clique if they are in separate parts, or one
    of them joins every clique on the way to the other. All pairs at once, and cheap: a selection looks at thousands of
    them.
    """
    sizes, columns = tree.sizes, range(len(tree.sizes))
    growth = [[sizes[i] * sizes[j] for j in columns] for i in columns]
    for i in columns:
        reached: dict[int, int] = {}
        for place, price in _prices(tree, i).items():
            for j in tree.cliques[place]:
                reached[j] = min(price, reached.get(j, price))
        for j, price in reached.items():
            growth[i][j] = price
    return [[min(growth[i][j], growth[j][i]) for j in columns] for i in columns]


def _prices(tree: JunctionTree, column: int) -> dict[int, int]:
    """For each clique connected to one with the column: the cells it costs to extend the column there."""
    prices = {place: 0 for place, clique in enumerate(tree.cliques) if column in clique}
    frontier = list(prices)
    while frontier:
        here = frontier.pop()
        for there in (*tree.children[here], tree.parents[here]):
            shared = tree.shared[max(here, there)]  # children come after their parents
            if shared and there not in prices:
                prices[there] = prices[here] + tree.cells_of(tree.cliques[there]) * (tree.sizes[column] - 1)
                frontier.append(there)
    return prices


def _neighbours(columns: int, marginals: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """For each column the set of columns it shares a marginal with, itself included, as a bit mask."""
    masks = [1 << column for column in range(columns)]
    for marginal in marginals:
        mask = _mask(marginal)
        for column in marginal:
            masks[column] |= mask
    return tuple(masks)


@lru_cache(maxsize=4096)
def _smallest_cliques(sizes: Sizes, neighbours: tuple[int, ...]) -> tuple[int, ...]:
    """The maximal cliques of the cheapest elimination."""
    found = (_eliminate(sizes, list(neighbours), cost) for cost in (_weight, _fill))
    return min(found, key=lambda cliques: sum(_cells(clique, sizes) for clique in cliques))


def _eliminate(sizes: Sizes, neighbours: list[int], cost: Cost) -> tuple[int, ...]:
    """Take the cheapest column out, join its neighbours, and again: the maximal cliques on the way."""
    cliques: list[int] = []
    costs = {column: cost(mask, neighbours, sizes) for column, mask in enumerate(neighbours)}
    while costs:
        column = min(costs, key=costs.__getitem__)
        del costs[column]
        clique = neighbours[column]
        if all(map(clique.__and__, map(int.__invert__, cliques))):  # inside no other clique
            cliques.append(clique)
        rest = stale = clique & ~(1 << column)
        for other in _members(rest):
            if rest & ~neighbours[other]:
                stale |= neighbours[other] & ~(1 << column)
            neighbours[other] = (neighbours[other] | rest) & ~(1 << column)
        for other in _members(stale):
            costs[other] = cost(neighbours[other], neighbours, sizes)
    return tuple(cliques)


def _weight(mask: int, _neighbours: list[int], sizes: Sizes) -> int:
    """The cells of the clique that would come out."""
    return _cells(mask, sizes)


def _fill(mask: int, neighbours: list[int], _sizes: Sizes) -> int:
    """Twice the number of pairs that would become neighbours."""
    return sum((mask & ~neighbours[column]).bit_count() for column in _members(mask))


@lru_cache(maxsize=1 << 16)
def _cells(mask: int, sizes: Sizes) -> int:
    """The cells of the marginal of a bit mask's columns."""
    return prod(sizes[column] for column in _members(mask))


def _mask(columns: Iterable[int]) -> int:
    """Columns as the bits of a number."""
    return reduce(or_, (1 << column for column in columns), 0)


@lru_cache(maxsize=1 << 16)
def _members(mask: int) -> tuple[int, ...]:
    """The columns in a bit mask, ascending."""
    return tuple(column for column in range(mask.bit_length()) if mask >> column & 1)
