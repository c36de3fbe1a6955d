"""Rows drawn from a calibrated junction tree, bag by bag, each given the columns that are already there.

Rows in the same situation form a group. A group of m rows gets ⌊m·p⌋ rows of every cell for certain and the rest at
random, so that each cell's expectation is exactly m·p and the tables of the sample are closer to the model's than
independent draws. The rows of a group are then dealt out in random order: two columns that depend on the same parent
are independent given it, which sorted order would break.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from gapless.model.junction import JunctionTree
from gapless.model.marginal import Columns, Floats

__all__ = ["sample", "sample_given"]

Codes = NDArray[np.unsignedinteger]
Ints = NDArray[np.int64]

_CELLS = 1 << 22  # working memory of conditional sampling, in cells


def sample(tree: JunctionTree, tables: Sequence[Floats], rows: int, rng: np.random.Generator) -> Codes:
    """Rows × columns of codes; `tables` holds the probabilities of each bag."""
    codes = np.empty((rows, len(tree.sizes)), dtype=_dtype(tree), order="F")
    for bag, shared, table in zip(tree.bags, tree.shared, tables, strict=True):
        groups = _ravel(codes, bag[:shared], tree)
        cells = _allot(table.reshape(tree.cells_of(bag[:shared]), -1), groups, rng)
        _unravel(codes, slice(None), cells, bag[shared:], tree)
    return codes


def _allot(probabilities: Floats, groups: Ints, rng: np.random.Generator) -> Ints:
    """A cell for every row; row r of `groups` follows the law in that row of `probabilities`."""
    sizes = np.bincount(groups, minlength=len(probabilities))
    present = np.flatnonzero(sizes)
    sizes = sizes[present]
    law = probabilities[present]
    expected = law * (sizes / law.sum(axis=1))[:, None]
    certain = np.floor(expected)
    fractions = np.cumsum(expected - certain, axis=1)
    rest = (sizes - certain.sum(axis=1))[:, None]
    last = np.maximum(fractions[:, -1:], 1e-300)
    fractions = np.where(fractions >= last, rest, fractions * (rest / last))  # ends on a whole number, exactly
    marks = np.floor(fractions + rng.random((len(present), 1)))  # systematic: one comb per group, teeth 1 apart
    times = (certain + np.diff(marks, axis=1, prepend=0.0)).astype(np.int64)
    cells = np.repeat(np.tile(np.arange(law.shape[1]), len(present)), times.ravel())
    shuffled = rng.permutation(len(groups))
    key = groups.astype(np.uint16) if len(probabilities) <= 1 << 16 else groups  # 16 bits are sorted by radix
    chosen = np.empty(len(groups), dtype=np.int64)
    chosen[shuffled[np.argsort(key[shuffled], kind="stable")]] = cells
    return chosen


def sample_given(tree: JunctionTree, tables: Sequence[Floats], given: Ints, rng: np.random.Generator) -> Codes:
    """Fill the cells that are -1, row by row, from the model's law given the other cells of the row.

    What is known sends messages up the tree; then every bag is drawn on the way down. A combination that the model
    holds impossible is kept, and what cannot be reconciled with it is drawn evenly.
    """
    laws = []
    for bag, shared, table in zip(tree.bags, tree.shared, tables, strict=True):
        joint = table.reshape(tree.cells_of(bag[:shared]), -1)
        laws.append((joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)).reshape(table.shape))
    widest = max((tree.cells_of(bag[:shared]) for bag, shared in zip(tree.bags, tree.shared, strict=True)), default=1)
    step = max(1, _CELLS // widest)
    codes = np.empty(given.shape, dtype=_dtype(tree), order="F")
    for start in range(0, len(given), step):
        codes[start : start + step] = _Evidence(tree, laws, given[start : start + step]).draw(rng)
    return codes


class _Evidence:
    """Some rows with what is known of them, and the messages this sends from each bag to its parent.

    A message has one axis per shared column. Along a column known from the start only its first entry is used.
    """

    def __init__(self, tree: JunctionTree, laws: Sequence[Floats], given: Ints) -> None:
        self.tree = tree
        self.laws = laws
        self.known = given >= 0
        self.codes = given.copy()
        self.kids: list[list[int]] = [[] for _ in tree.bags]
        for place, parent in enumerate(tree.parents[1:], start=1):
            self.kids[parent].append(place)
        self.messages: dict[int, Floats] = {}
        for place in range(len(tree.bags) - 1, 0, -1):
            self._send(place)

    def draw(self, rng: np.random.Generator) -> Ints:
        for place, (bag, shared) in enumerate(zip(self.tree.bags, self.tree.shared, strict=True)):
            for rows, free in self._patterns(bag, shared):
                if not free:
                    continue
                weights = self._weights(place, rows, free).reshape(len(rows), -1)
                weights[weights.sum(axis=1) <= 0] = 1.0
                steps = np.cumsum(weights, axis=1)
                mark = np.minimum(rng.random(len(rows)) * steps[:, -1], np.nextafter(steps[:, -1], 0))
                _unravel(self.codes, rows, (steps <= mark[:, None]).sum(axis=1), free, self.tree)
        return self.codes

    def _send(self, place: int) -> None:
        bag, shared = self.tree.bags[place], self.tree.shared[place]
        told = any(kid in self.messages for kid in self.kids[place])
        if not told and not self.known[:, bag[shared:]].any():
            return
        message = np.empty([len(self.codes), *(self.tree.sizes[column] for column in bag[:shared])])
        for rows, free in self._patterns(bag, 0):
            weights = self._weights(place, rows, free)
            total = weights.sum(axis=tuple(range(1 + shared, weights.ndim)))
            peak = total.max(axis=tuple(range(1, total.ndim)), keepdims=True)
            entries = tuple(slice(None) if column in free else slice(1) for column in bag[:shared])
            message[(rows, *entries)] = np.where(peak > 0, total / np.maximum(peak, 1e-300), 1.0)
        self.messages[place] = message

    def _patterns(self, bag: Columns, shared: int) -> Iterator[tuple[Ints, Columns]]:
        """The rows that lack the same columns, in portions; the first `shared` columns count as known."""
        open_columns = bag[shared:]
        lacks = ~self.known[:, open_columns]
        key = lacks @ (1 << np.arange(len(open_columns)))
        for pattern in np.unique(key):
            free = tuple(column for place, column in enumerate(open_columns) if pattern >> place & 1)
            rows = np.flatnonzero(key == pattern)
            step = max(1, _CELLS // self.tree.cells_of(free))
            for start in range(0, len(rows), step):
                yield rows[start : start + step], free

    def _weights(self, place: int, rows: Ints, free: Columns) -> Floats:
        """The law of a bag in these rows times its children's messages: one axis per column, length 1 if known."""
        bag, sizes = self.tree.bags[place], self.tree.sizes

        def entries(columns: Columns, *, first_if_known: bool) -> tuple[Ints, ...]:
            places = []
            for column in columns:
                if column in free:
                    shape = [1] + [sizes[other] if other == column else 1 for other in bag]
                    places.append(np.arange(sizes[column]).reshape(shape))
                else:
                    code = self.codes[rows, column]
                    code = np.where(self.known[rows, column], 0, code) if first_if_known else code
                    places.append(code.reshape(-1, *[1] * len(bag)))
            return tuple(places)

        shape = (len(rows), *(sizes[column] if column in free else 1 for column in bag))
        weights = np.empty(shape)
        weights[...] = self.laws[place][entries(bag, first_if_known=False)]
        for kid in self.kids[place]:
            if kid in self.messages:
                link = self.tree.bags[kid][: self.tree.shared[kid]]
                row = rows.reshape(-1, *[1] * len(bag))
                weights *= self.messages[kid][(row, *entries(link, first_if_known=True))]
        return weights


def _dtype(tree: JunctionTree) -> type[np.unsignedinteger]:
    return np.uint16 if max(tree.sizes, default=1) <= 1 << 16 else np.uint32


def _ravel(codes: Codes, columns: Columns, tree: JunctionTree) -> Ints:
    """The cell of each row in the marginal of these columns."""
    cells = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        cells *= tree.sizes[column]
        cells += codes[:, column]
    return cells


def _unravel(codes: NDArray[np.integer], rows: Ints | slice, cells: Ints, columns: Columns, tree: JunctionTree) -> None:
    """Write cells of a marginal into its columns."""
    span = prod(tree.sizes[column] for column in columns)
    for column in columns:
        span //= tree.sizes[column]
        codes[rows, column] = cells // span % tree.sizes[column]
