"""Sample rows from a calibrated junction tree, clique by clique, each given the columns drawn before.

Rows with equal cells in the separator form a group. A group of m rows gets ⌊m·p⌋ rows of every cell for certain, and
the rest by systematic sampling. So each cell's expectation is exactly m·p, and the tables of the sample are closer to
the model's than with independent draws. The cells of a group then go to its rows in random order. Sorted order would
make two columns that depend on the same parent dependent given that parent.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from gapless.model.junction import JunctionTree
from gapless.model.marginal import Marginal
from gapless.types import Codes, Floats, Integers

UniformDraws = Callable[[], Floats]  # a fresh number from [0, 1) for every row, at each call

LEAST_SHARE = 1e-5  # least share of a cell that shifts of logits can represent
SORT_COLUMNS = 3  # earlier columns by which rows are sorted, so that draws spread evenly over them

_CELLS = 1 << 22  # working memory of conditional sampling, in cells


def sample(tree: JunctionTree, tables: Sequence[Floats], rows: int, rng: np.random.Generator) -> Codes:
    """Draw rows × columns of codes; `tables` has the probabilities of each clique."""
    codes = np.empty((rows, len(tree.sizes)), dtype=code_dtype(tree.sizes), order="F")
    for clique, shared, table in zip(tree.cliques, tree.shared, tables, strict=True):
        groups = _ravel(codes, clique[:shared], tree)
        cells = systematic_by_group(table.reshape(tree.cells_of(clique[:shared]), -1), groups, rng)
        _unravel(codes, slice(None), cells, clique[shared:], tree)
    return codes


def systematic_by_group(probabilities: Floats, groups: Integers, rng: np.random.Generator) -> Integers:
    """Draw a cell for every row by systematic sampling; rows of group g follow row g of `probabilities`."""
    sizes = np.bincount(groups, minlength=len(probabilities))
    present = np.flatnonzero(sizes)
    sizes = sizes[present]
    shares = probabilities[present]
    expected = shares * (sizes / shares.sum(axis=1))[:, None]
    certain = np.floor(expected)
    fractions = np.cumsum(expected - certain, axis=1)
    rest = (sizes - certain.sum(axis=1))[:, None]
    last = np.maximum(fractions[:, -1:], 1e-300)
    fractions = np.where(fractions >= last, rest, fractions * (rest / last))  # ends on a whole number, exactly
    reached = np.floor(fractions + rng.random((len(present), 1)))  # systematic: one random offset per group
    times = (certain + np.diff(reached, axis=1, prepend=0.0)).astype(np.int64)
    cells = np.repeat(np.tile(np.arange(shares.shape[1]), len(present)), times.ravel())
    shuffled = rng.permutation(len(groups))
    key = groups.astype(np.uint16) if len(probabilities) <= 1 << 16 else groups  # 16 bits: a fast radix sort
    chosen = np.empty(len(groups), dtype=np.int64)
    chosen[shuffled[np.argsort(key[shuffled], kind="stable")]] = cells
    return chosen


def sample_given(tree: JunctionTree, tables: Sequence[Floats], given: Integers, chance: UniformDraws) -> Codes:
    """Fill the cells that are -1, row by row, from the model's distribution given the other cells of the row.

    Known cells send messages up the tree; then every clique is drawn on the way down. Known cells that the model
    considers impossible stay as they are. Cells that have probability zero given them are drawn uniformly.

    A row's result is a function of the row and of its numbers from `chance`, to the last bit. Rows are grouped for
    speed, but no sum, maximum or comparison runs over rows with different known cells. The guarantee for imputation of
    private rows depends on this (docs/proofs/stability.md).
    """
    conditionals = []
    for clique, shared, table in zip(tree.cliques, tree.shared, tables, strict=True):
        joint = table.reshape(tree.cells_of(clique[:shared]), -1)
        conditionals.append((joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)).reshape(table.shape))
    first, who = _distinct(_ravel_all(given + 1, [size + 1 for size in tree.sizes]))
    spans = np.where(given[first] < 0, tree.sizes, 1)
    links = map(tree.separator, range(len(tree.cliques)))
    entries = np.array([spans[:, link].prod(axis=1) for link in links]).sum(axis=0).cumsum()
    ends = np.searchsorted(entries, np.arange(0, entries[-1:].sum() + _CELLS, _CELLS), side="right")
    order = np.argsort(who, kind="stable")
    codes = np.empty(given.shape, dtype=code_dtype(tree.sizes), order="F")
    draws = [chance() for _ in tree.cliques]
    for begin, end in pairwise(ends.tolist()):
        rows = order[slice(*np.searchsorted(who[order], [begin, end]))]
        evidence = _ConditionalSampler(tree, conditionals, given[first[begin:end]])
        codes[rows] = evidence.draw(who[rows] - begin, [draw[rows] for draw in draws])
    return codes


class _ConditionalSampler:
    """Draw unknown cells given known ones, for many patterns of known cells at once.

    A *state* is one combination of known cells. Its message has an entry for each combination of unknown cells in the
    separator. The messages of all states are stored one after the other, each from `begins` on. `strides` is the step
    between two levels of a column; it is 0 for a known column.
    """

    def __init__(self, tree: JunctionTree, conditionals: Sequence[Floats], given: Integers) -> None:
        self.tree = tree
        self.conditionals = conditionals
        self.given = given
        self.known = given >= 0
        self.begins: dict[int, Integers] = {}
        self.strides: dict[int, dict[int, Integers]] = {}
        self.messages: dict[int, Floats] = {}
        for place in range(len(tree.cliques) - 1, 0, -1):
            self._send(place)

    def draw(self, who: Integers, draws: Sequence[Floats]) -> Integers:
        """Draw a full row for each row's state in `who`; `draws` has a number for each clique and row."""
        codes = self.given[who]
        for place, (clique, shared) in enumerate(zip(self.tree.cliques, self.tree.shared, strict=True)):
            link = clique[:shared]
            for states, free in self._patterns(clique[shared:]):
                rows = np.flatnonzero(states[who]) if free else np.empty(0, dtype=np.int64)
                cells = _ravel(codes[rows], link, self.tree)
                first, group = _distinct(cells + self.tree.cells_of(link) * who[rows])
                order = np.argsort(group, kind="stable")
                rows, group, first = rows[order], group[order], rows[first]
                for begin, end in self._portions(len(first), free):
                    some = first[begin:end]
                    weights = self._weights(place, who[some], codes[some], free).reshape(len(some), -1)
                    places = slice(*np.searchsorted(group, [begin, end]))
                    cells = inverse_sample(weights, group[places] - begin, draws[place][rows[places]])
                    _unravel(codes, rows[places], cells, free, self.tree)
        return codes

    def _send(self, place: int) -> None:
        clique, shared = self.tree.cliques[place], self.tree.shared[place]
        entries, self.strides[place] = np.ones(len(self.given), dtype=np.int64), {}
        for column in reversed(clique[:shared]):
            self.strides[place][column] = np.where(self.known[:, column], 0, entries)
            entries = np.where(self.known[:, column], entries, entries * self.tree.sizes[column])
        begins = self.begins[place] = np.cumsum(entries) - entries
        message = self.messages[place] = np.empty(int(entries.sum()))
        for states, free in self._patterns(clique):
            who = np.flatnonzero(states)
            for begin, end in self._portions(len(who), free):
                some = who[begin:end]
                weights = self._weights(place, some, self.given[some], free)
                total = weights.reshape(len(some), entries[some[0]], -1).sum(axis=2)
                peak = total.max(axis=1, keepdims=True)
                places = begins[some, None] + np.arange(total.shape[1])
                message[places] = np.where(peak > 0, total / np.maximum(peak, 1e-300), 1.0)

    def _patterns(self, columns: Marginal) -> Iterator[tuple[NDArray[np.bool_], Marginal]]:
        """Group states by which of these columns are unknown."""
        key = ~self.known[:, columns] @ (1 << np.arange(len(columns)))
        for pattern in np.unique(key).tolist():
            yield key == pattern, tuple(column for place, column in enumerate(columns) if pattern >> place & 1)

    def _portions(self, many: int, free: Marginal) -> Iterator[tuple[int, int]]:
        """Return ranges of rows for which tables over the free columns fit into the working memory."""
        step = max(1, _CELLS // self.tree.cells_of(free))
        return ((begin, min(begin + step, many)) for begin in range(0, many, step))

    def _weights(self, place: int, who: Integers, codes: Integers, free: Marginal) -> Floats:
        """Multiply a clique's conditional by its children's messages; one axis per column, of length 1 unless free."""
        clique, sizes = self.tree.cliques[place], self.tree.sizes
        upright = (-1, *[1] * len(clique))

        def entries(column: int, code: Integers) -> Integers:
            if column not in free:
                return code.reshape(upright)
            return np.arange(sizes[column]).reshape([1] + [sizes[column] if other == column else 1 for other in clique])

        weights = np.empty((len(who), *(sizes[column] if column in free else 1 for column in clique)))
        weights[...] = self.conditionals[place][tuple(entries(column, codes[:, column]) for column in clique)]
        for kid in self.tree.children[place]:
            places = self.begins[kid][who].reshape(upright)
            for column, stride in self.strides[kid].items():
                places = places + stride[who].reshape(upright) * entries(column, codes[:, column])
            weights *= self.messages[kid][places]
        return weights


def inverse_sample(weights: Floats, groups: Integers, draws: Floats) -> Integers:
    """Draw an independent cell for every row by inversion; a row of group g follows row g of `weights`.

    >>> inverse_sample(np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([0, 0, 1, 1]), np.array([0.2, 0.3, 0.4, 0.6]))
    array([0, 1, 0, 1])
    """
    steps = np.cumsum(weights, axis=1)
    steps = np.where(steps[:, -1:] > 0, steps, np.arange(1.0, weights.shape[1] + 1))  # nothing possible: evenly
    total = steps[groups, -1]
    thresholds = np.minimum(draws * total, np.nextafter(total, 0))  # below the last step also after rounding
    low, high = np.zeros(len(groups), dtype=np.int64), np.full(len(groups), weights.shape[1] - 1)
    for _ in range(int(weights.shape[1]).bit_length()):  # the first step above the threshold, by bisection
        middle = (low + high) // 2
        above = steps[groups, middle] > thresholds
        low, high = np.where(above | (low == high), low, middle + 1), np.where(above, middle, high)
    return low


def _distinct(keys: Integers) -> tuple[Integers, Integers]:
    """Return the position of the first occurrence of each distinct key, and the number of the key of every row."""
    _, first, who = np.unique(keys, return_index=True, return_inverse=True)
    return first, who


def _ravel_all(codes: Integers, sizes: Sequence[int]) -> Integers:
    """Return one number per row; different rows get different numbers, for any number of columns."""
    keys, span = np.zeros(len(codes), dtype=np.int64), 1
    for column, size in enumerate(sizes):
        if span * size > 1 << 62:
            keys, span = _distinct(keys)[1], len(codes)
        keys, span = keys * size + codes[:, column], span * size
    return keys


def code_dtype(sizes: Sequence[int]) -> type[np.unsignedinteger]:
    """Return the smallest type for codes of columns of these sizes."""
    return np.uint16 if max(sizes, default=1) <= 1 << 16 else np.uint32


def _ravel(codes: NDArray[np.integer], columns: Marginal, tree: JunctionTree) -> Integers:
    """Return the cell of each row in the marginal of these columns."""
    cells = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        cells *= tree.sizes[column]
        cells += codes[:, column]
    return cells


def _unravel(
    codes: NDArray[np.integer], rows: Integers | slice, cells: Integers, columns: Marginal, tree: JunctionTree
) -> None:
    """Write cells of a marginal into its columns."""
    span = prod(tree.sizes[column] for column in columns)
    for column in columns:
        span //= tree.sizes[column]
        codes[rows, column] = cells // span % tree.sizes[column]


def softmax(logits: Floats) -> Floats:
    """Return the probabilities of each row's cells from their logits."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def systematic_by_row(logits: Floats, rng: np.random.Generator) -> Integers:
    """Draw a cell for each row from the row's logits, by systematic sampling along the rows.

    For each cell in turn, the rows without a cell yet are sampled with their conditional probability of this cell: a
    random offset, then steps of one along the cumulative sum. Each row is chosen with exactly its probability.
    """
    chances = softmax(logits)
    cells = np.full(len(chances), chances.shape[1] - 1, dtype=np.int64)
    waiting, left = np.arange(len(chances)), np.ones(len(chances))
    for cell in range(chances.shape[1] - 1):
        share = np.clip(chances[waiting, cell] / np.maximum(left, 1e-300), 0.0, 1.0)
        start = rng.random()
        taken = np.diff(np.floor(np.cumsum(share) + start), prepend=0.0) >= 1
        cells[waiting[taken]] = cell
        left = (left - chances[waiting, cell])[~taken]
        waiting = waiting[~taken]
    return cells
