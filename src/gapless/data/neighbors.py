"""Find the donors of each row with a gap: the nearest rows without a gap.

A *donor* is a row observed on all target columns, a *donee* a row with a gap in one of them. Each donee orders donors
by their distance on the matching columns. Ties are broken by secret random labels on a circle: the first donor after
the donee's label comes first. This order is a fixed function of the two rows and their labels. It does not depend on
other rows, and the proof needs this (docs/proofs/neighbours.md). Distances are integers, so ties are exact.

Donees with equal cells are searched together. The donors' distinct cells form a tree, one level for each column. The
search skips branches that are farther away than the k-th donor found so far.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Argument, Hint, SchemaError
from gapless.schema import Schema
from gapless.schema.columns import Column
from gapless.text import check_one_of, listing, nearest
from gapless.types import Codes, Integers, whole

Scheme: TypeAlias = Literal["nearest", "mean", "majority"]

MOST_CELLS = 1024  # of a matching column: its table of distances stays small
MOST_UNIT = 2**40  # the largest whole number for the distance 1
LARGEST_DOMAIN = 2**62  # combinations of cells that fit into one integer
BLOCK = 2**21  # pairs held in memory at a time
BEAM = 4  # branches followed in the first, rough search


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """How gaps are filled from similar rows. All of it is public and fixed in advance.

    Attributes:
        on: the columns on which rows are compared.
        neighbors: how many donors each donee has.
        scheme: "nearest" takes the cells of the nearest donor; "mean" the mean contribution of all donors; "majority"
            their most frequent cell, the first in the order of the schema if there are several.
        distance: "gower" adds up differences, "euclidean" their squares. Ordered columns differ by the difference of
            positions as a share of the column's range, other columns by 0 or 1. *Not applicable* is a cell without a
            position. A gap of a donor is as far as can be; a gap of a donee leaves that column out of the comparison.
        cover: None for the exact bound on a row's influence. Otherwise some of `on`: the bound is then taken over boxes
            that fix these columns and leave the others free, which is faster and never smaller. `()`: all donees.

    >>> Matching(on=("age", "sex")).neighbors
    1
    """

    on: tuple[str, ...]
    neighbors: int = 1
    scheme: Scheme = "nearest"
    distance: Literal["gower", "euclidean"] = "gower"
    cover: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("on", "cover"):
            given = getattr(self, name)
            if given is None and name == "cover":
                continue
            if isinstance(given, str) or not all(isinstance(column, str) for column in given):
                raise SchemaError(
                    f"{name} = {given!r} is not a list of columns", hint=Hint("pass ", Argument(name, ["age", "sex"]))
                )
            object.__setattr__(self, name, tuple(given))
        if not self.on:
            raise SchemaError(
                "on has no column, but rows are compared on at least one",
                hint=Hint("pass ", Argument("on", ["age", "sex"])),
            )
        neighbors = whole("neighbors", self.neighbors, error=SchemaError, least=1, most=1000)
        object.__setattr__(self, "neighbors", neighbors)
        for name, known in (("scheme", ("nearest", "mean", "majority")), ("distance", ("gower", "euclidean"))):
            check_one_of(name, getattr(self, name), known, error=SchemaError)
        if self.scheme == "nearest" and self.neighbors > 1:
            raise SchemaError(
                f'scheme = "nearest" takes 1 neighbor, got {self.neighbors}',
                hint=Hint("pass ", Argument("scheme", "mean"))
                | Hint("pass ", Argument("scheme", "majority"))
                | Hint("pass ", Argument("neighbors", 1)),
            )
        if self.cover is not None and (odd := [name for name in self.cover if name not in self.on]):
            raise SchemaError(
                f"cover has {odd[0]!r}, but cover may have only columns of on",
                hint=Hint(f"use {nearest(odd[0], self.on)}") | Hint(f"add {odd[0]!r} to ", Argument("on")),
            )

    def check(self, schema: Schema, targets: Sequence[str]) -> None:
        """Refuse what does not fit the schema or the target columns."""
        schema.positions(self.on)
        schema.positions(targets)
        if not targets:
            raise SchemaError(
                "no target column: rows are matched to fill gaps in the columns of a question, and none was given",
                hint="ask about a column that may be missing",
            )
        if both := sorted(set(self.on) & set(targets)):
            raise SchemaError(
                f"column {both[0]!r} is matched on and asked for, but gaps of a column are filled from other columns",
                hint=Hint(f"leave {both[0]!r} out of ", Argument("on")),
            )
        if self.scheme == "majority" and len(targets) > 1:
            raise SchemaError(
                f'scheme = "majority" fills 1 column of a question, got {len(targets)}: {listing(targets)}',
                hint=Hint("pass ", Argument("scheme", "nearest")) | Hint("pass ", Argument("scheme", "mean")),
            )
        chosen = [schema[name] for name in self.on]
        if wide := [column for column in chosen if column.extended_size > MOST_CELLS]:
            raise SchemaError(
                f"column {wide[0].name!r} has {wide[0].extended_size} cells, too many to match on (limit {MOST_CELLS})",
                hint=Hint("use fewer bins or levels for the column") | Hint("leave it out of ", Argument("on")),
            )
        if math.prod(column.extended_size for column in chosen) > LARGEST_DOMAIN:
            raise SchemaError(
                f"the columns {listing(self.on)} have too many combinations of cells to match on",
                hint=Hint("pass fewer columns as ", Argument("on")),
            )


@dataclass(frozen=True, slots=True)
class Space:
    """The matching columns in the order of the search, the column with the largest smallest distance first.

    `costs[j][a, b]` is the distance in column j of a donee with cell a from a donor with cell b. `observed[j]` is the
    number of observed cells of column j.
    """

    names: tuple[str, ...]
    costs: tuple[Integers, ...]
    observed: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column, gaps included."""
        return tuple(len(cost) for cost in self.costs)

    @classmethod
    def of(cls, matching: Matching, schema: Schema) -> Space:
        """Build the public distances of a matching."""
        power = 1 if matching.distance == "gower" else 2
        columns = [schema[name] for name in matching.on]
        ranges = [max(1, column.values_size - 1) for column in columns if column.is_ordered]
        unit = min(math.lcm(*ranges) ** power, MOST_UNIT)
        tables = {column.name: _cost_table(column, power, unit) for column in columns}
        # The column with the largest smallest distance first: the search skips far branches early.
        columns.sort(key=lambda column: -int(min(c for c in (*tables[column.name][0], unit) if c > 0)))
        names = tuple(column.name for column in columns)
        return cls(names, tuple(tables[name] for name in names), tuple(column.size for column in columns))


def _cost_table(column: Column, power: int, unit: int) -> Integers:
    """Return the table of distances of one column: rows are the donee's cell, columns the donor's."""
    cost = np.full((column.extended_size, column.extended_size), unit, dtype=np.int64)
    if column.is_ordered:
        span = max(1, column.values_size - 1)
        steps = np.array([round(unit * Fraction(step, span) ** power) for step in range(column.values_size)])
        codes = np.arange(column.values_size)
        cost[: column.values_size, : column.values_size] = steps[np.abs(codes[:, None] - codes)]
    np.fill_diagonal(cost[: column.size, : column.size], 0)
    cost[column.size :] = 0  # a donee's gap is at distance 0 from every donor: the column is not compared
    return cost


@dataclass(frozen=True, slots=True)
class Links:
    """Donees and their donors. Private throughout.

    Attributes:
        donees: the rows with a gap in a target.
        donors: for each donee its donors' rows, nearest first; -1 where there are fewer than k.
        kinds: the cell of each donee on the matching columns, as an index into `cells`.
        cells: the distinct cells of donees, columns in the order of the `Space`.
        radius: for each of `cells` the distance of the k-th donor, or None if there are fewer than k.
        starts: each donee's position on the circle of labels.
        ends: the position of its k-th donor. A new donor at the same distance replaces it if its label is in between.
    """

    donees: Integers
    donors: Integers
    kinds: Integers
    cells: Integers
    radius: Integers | None
    starts: Integers
    ends: Integers


def link(
    space: Space, matching: Sequence[Codes], observed: NDArray[np.bool_], places: Integers, neighbors: int
) -> Links:
    """Find the donors of every donee.

    Args:
        space: the public distances.
        matching: the codes of its columns, in its order.
        observed: which rows are donors.
        places: each row's position on the circle of labels, 0 … rows - 1.
        neighbors: donors for each donee.
    """
    ids = np.ravel_multi_index(tuple(matching), space.sizes)
    donees, givers = np.flatnonzero(~observed), np.flatnonzero(observed)
    kind_ids, kinds = np.unique(ids[donees], return_inverse=True)
    cells = np.stack(np.unravel_index(kind_ids, space.sizes), axis=1)
    donors = np.full((donees.size, neighbors), -1, dtype=np.int64)
    starts = places[donees]
    if givers.size < neighbors:
        donors[:, : givers.size] = givers
        return Links(donees, donors, kinds, cells, None, starts, starts)

    tree = Tree.of(ids[givers], space)
    by_cell = np.lexsort((places[givers], ids[givers]))
    lists = _DonorLists(givers[by_cell], places[givers[by_cell]], np.append(0, np.cumsum(tree.leaves)))
    which, leaf, far = _nearest(tree, cells, neighbors)
    radius = np.zeros(len(cells), dtype=np.int64)
    np.maximum.at(radius, which, far)
    closer = far < radius[which]
    closer_donors = np.bincount(which[closer], tree.leaves[leaf[closer]], minlength=len(cells)).astype(np.int64)
    _take_all(donors, kinds, which[closer], leaf[closer], lists, closer_donors)
    ends = _take_next(donors, kinds, which[~closer], leaf[~closer], lists, closer_donors, starts, len(observed))
    return Links(donees, donors, kinds, cells, radius, starts, ends)


def concatenated_ranges(starts: Integers, counts: Integers) -> Integers:
    """Return start, start + 1, …, start + count - 1 for each pair, one after another."""
    ends = np.cumsum(counts)
    return np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if ends.size else 0)


# ---------------------------------------------------------------------- the search


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of distinct cells, one level for each column: cells of donors, or points of the domain.

    `codes[j]` has the code of each node of level j. `children[j]` has the position among these of the first child of
    each node of level j - 1, and the end. `leaves` has the number of rows of each cell.
    """

    costs: tuple[Integers, ...]
    codes: tuple[Integers, ...]
    children: tuple[Integers, ...]
    leaves: Integers

    @classmethod
    def of(cls, ids: Integers, space: Space) -> Tree:
        """Build the tree of these cells, each given as one integer."""
        leaves, counts = np.unique(ids, return_counts=True)
        codes, children = [], []
        nodes = leaves
        for size in reversed(space.sizes):
            above, first = np.unique(nodes // size, return_index=True)
            codes.append(nodes % size)
            children.append(np.append(first, len(nodes)))
            nodes = above
        return cls(space.costs, tuple(reversed(codes)), tuple(reversed(children)), counts)

    def within(
        self, cells: Integers, limits: Integers, beam: int | None = None
    ) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Yield blocks of (which cell, leaf, distance) for every leaf within `limits` of each cell.

        With a `beam`, the search follows only this number of nearest branches at each level, and may miss leaves.
        """
        count = len(cells)
        step = max(1, BLOCK // 64) if beam else max(1, count)
        for first in range(0, count, step):
            which = np.arange(first, min(first + step, count))
            yield from self._below(0, which, np.zeros_like(which), np.zeros_like(which), cells, limits, beam)

    def _below(
        self,
        level: int,
        which: Integers,
        node: Integers,
        far: Integers,
        cells: Integers,
        limits: Integers,
        beam: int | None,
    ) -> Iterator[tuple[Integers, Integers, Integers]]:
        for j in range(level, len(self.codes)):
            counts = self.children[j][node + 1] - self.children[j][node]
            if not beam and which.size > 1 and counts.sum() > BLOCK:
                half = which.size // 2
                for part in (slice(half), slice(half, None)):
                    yield from self._below(j, which[part], node[part], far[part], cells, limits, beam)
                return
            node = concatenated_ranges(self.children[j][node], counts)
            which, far = np.repeat(which, counts), np.repeat(far, counts)
            far += self.costs[j][cells[which, j], self.codes[j][node]]
            kept = np.flatnonzero(far <= limits[which])
            if beam:
                order = kept[np.lexsort((far[kept], which[kept]))]
                ranked = which[order]
                kept = order[np.arange(order.size) - np.searchsorted(ranked, ranked) < beam]
            which, node, far = which[kept], node[kept], far[kept]
        yield which, node, far


def _nearest(tree: Tree, cells: Integers, neighbors: int) -> tuple[Integers, Integers, Integers]:
    """Return (which cell, leaf, distance) for every leaf up to the distance of each cell's k-th donor, by cell.

    Cells with k donors at distance 0 come first. For the others, a beam search gives an upper limit on the distance,
    and a second search within this limit is exact.
    """
    everything = np.full(len(cells), np.iinfo(np.int64).max)
    exact = _up_to_kth(tree, tree.within(cells, np.zeros_like(everything)), neighbors)
    found = np.bincount(exact[0], tree.leaves[exact[1]], minlength=len(cells)) >= neighbors
    rest = np.flatnonzero(~found)
    limits = np.zeros(rest.size, dtype=np.int64)
    which, _, far = _up_to_kth(tree, tree.within(cells[rest], everything, beam=max(BEAM, neighbors)), neighbors)
    np.maximum.at(limits, which, far)
    which, leaf, far = _up_to_kth(tree, tree.within(cells[rest], limits), neighbors)
    has_enough = found[exact[0]]
    parts = [
        np.concatenate(pair) for pair in zip((a[has_enough] for a in exact), (rest[which], leaf, far), strict=True)
    ]
    order = np.argsort(parts[0], kind="stable")
    return parts[0][order], parts[1][order], parts[2][order]


def _up_to_kth(
    tree: Tree, blocks: Iterator[tuple[Integers, Integers, Integers]], neighbors: int
) -> tuple[Integers, Integers, Integers]:
    """Keep the leaves that are no farther than the k-th donor of their cell."""
    found = [np.concatenate(parts) for parts in zip(*blocks, strict=True)] or [np.zeros(0, dtype=np.int64)] * 3
    order = np.lexsort((found[2], found[0]))
    which, leaf, far = (part[order] for part in found)
    if not which.size:
        return which, leaf, far
    counted = np.cumsum(tree.leaves[leaf])
    first = np.searchsorted(which, which)  # of the same cell
    before = counted - tree.leaves[leaf] - (counted - tree.leaves[leaf])[first]  # donors of earlier leaves
    ring = np.flatnonzero(np.append(True, (np.diff(which) != 0) | (np.diff(far) != 0)))
    nearer = np.repeat(before[ring], np.diff(np.append(ring, which.size)))  # donors that are strictly nearer
    kept = nearer < neighbors
    return which[kept], leaf[kept], far[kept]


# ---------------------------------------------------------------------- ties


@dataclass(frozen=True, slots=True)
class _DonorLists:
    """Donors listed by cell, in the order of their positions on the circle: list i is `begins[i]:begins[i + 1]`."""

    rows: Integers
    places: Integers
    begins: Integers


def _take_all(
    donors: Integers, kinds: Integers, which: Integers, leaf: Integers, lists: _DonorLists, closer_donors: Integers
) -> None:
    """Write the donors that are strictly nearer than the k-th into the first slots of each donee."""
    if not which.size:
        return
    counts = np.diff(lists.begins)[leaf]
    taken = lists.rows[concatenated_ranges(lists.begins[leaf], counts)]  # grouped by kind, as `which` is sorted
    begins = np.append(0, np.cumsum(closer_donors))
    slots = closer_donors[kinds]
    donee = np.repeat(np.arange(kinds.size), slots)
    slot = concatenated_ranges(np.zeros_like(slots), slots)
    donors[donee, slot] = taken[begins[kinds[donee]] + slot]


def _take_next(
    donors: Integers,
    kinds: Integers,
    which: Integers,
    leaf: Integers,
    lists: _DonorLists,
    closer_donors: Integers,
    starts: Integers,
    circle: int,
) -> Integers:
    """Fill the other slots with the next donors on the circle at the k-th distance; return the last one's position.

    Each donee searches each list of its kind. If a kind has more pairs of donees and lists than donors, its lists are
    merged into one first.
    """
    size = np.diff(lists.begins)
    kind_count = closer_donors.size
    lists_of = np.bincount(which, minlength=kind_count)
    donees_of = np.bincount(kinds, minlength=kind_count)
    tied = np.bincount(which, size[leaf], minlength=kind_count)
    merged = (lists_of > 1) & (tied < donees_of * lists_of)
    if merged.any():
        chosen = merged[which]
        counts = size[leaf[chosen]]
        places = concatenated_ranges(lists.begins[leaf[chosen]], counts)
        number = np.cumsum(merged) - 1
        owner = np.repeat(number[which[chosen]], counts)
        order = np.lexsort((lists.places[places], owner))
        begins = lists.begins[-1] + np.cumsum(np.bincount(owner))
        added = np.flatnonzero(merged)
        leaf = np.concatenate([leaf[~chosen], size.size + number[added]])
        which = np.concatenate([which[~chosen], added])
        lists = _DonorLists(
            np.concatenate([lists.rows, lists.rows[places][order]]),
            np.concatenate([lists.places, lists.places[places][order]]),
            np.concatenate([lists.begins, begins]),
        )
        order = np.argsort(which, kind="stable")
        which, leaf = which[order], leaf[order]
        lists_of = np.bincount(which, minlength=kind_count)

    size = np.diff(lists.begins)
    keys = np.repeat(np.arange(size.size), size) * circle + lists.places
    begins_of = np.append(0, np.cumsum(lists_of))
    wanted = donors.shape[1] - closer_donors
    ends = np.empty_like(starts)
    for donees in split_by_cost(lists_of[kinds] * wanted[kinds]):
        kind = kinds[donees]
        donee = np.repeat(donees, lists_of[kind])
        at = leaf[concatenated_ranges(begins_of[kind], lists_of[kind])]
        place = np.searchsorted(keys, at * circle + starts[donee]) - lists.begins[at]
        looks = np.minimum(wanted[kinds[donee]], size[at])
        step = concatenated_ranges(np.zeros_like(looks), looks)
        donee, at, place = (np.repeat(part, looks) for part in (donee, at, place))
        candidate = lists.begins[at] + (place + step) % size[at]
        round_ = (lists.places[candidate] - starts[donee]) % circle
        order = np.lexsort((round_, donee))
        donee, candidate = donee[order], candidate[order]
        rank = np.arange(donee.size) - np.searchsorted(donee, donee)
        taken = rank < wanted[kinds[donee]]
        donee, candidate, rank = donee[taken], candidate[taken], rank[taken]
        donors[donee, closer_donors[kinds[donee]] + rank] = lists.rows[candidate]
        last = rank == wanted[kinds[donee]] - 1
        ends[donee[last]] = lists.places[candidate[last]]
    return ends


def split_by_cost(costs: Integers) -> Iterator[Integers]:
    """Yield consecutive indices in blocks whose costs add up to about `BLOCK`."""
    if costs.size:
        total = np.cumsum(costs)
        cuts = np.searchsorted(total, np.arange(BLOCK, int(total[-1]), BLOCK))
        for part in np.split(np.arange(costs.size), np.unique(cuts)):
            if part.size:
                yield part


def random_ranks(random_words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the rank of each of these random words; equal words in the order of rows."""
    ranks = np.empty(random_words.size, dtype=np.int64)
    ranks[np.argsort(random_words, kind="stable")] = np.arange(random_words.size)
    return ranks
