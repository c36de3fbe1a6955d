r"""The largest number of donees that one row can change: L₁(D), exactly, and smooth upper bounds on it.

.. math:: L_1(D) = \max\big(1,\ \max_y |\{x : y \in \mathrm{don}_{D \cup y}(x)\}|\big)

over every donor y there is and every donor y that could come: any cell of the public domain, any label. A donor that
is there has its donees. A new one at cell v takes a place from x if d(x, v) is below x's radius (the distance of its
k-th donor), or equal to it and the new label falls on the arc from x's label to that of its k-th donor. So the second
maximum is the deepest point of an arrangement of balls, with arcs on their rims.

It is found by branch and bound. A box fixes the first columns of v; a class of donees with equal cells is *alive* in it
if the distance so far is within its radius. The donees alive bound the depth of the box; those that can only tie count
by the most that their arcs overlap. Boxes that cannot beat the best point so far are left, the others are split by the
next column, all boxes of a block at a time. Classes that agree on the columns left and on the radius left are merged.

Proved in docs/proofs/neighbours.md, tested against the definition in tests/property/test_neighbours.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapless.data.neighbors import Links, Space, Tree, concatenated_ranges, split_by_cost
from gapless.types import Integers

BLOCK = 2**18  # classes in boxes, held in memory at a time


def influence(links: Links, space: Space, cover: tuple[str, ...] | None = None) -> int:
    """L₁ of the table, or the smooth cover of it by boxes that fix the columns of `cover`."""
    if links.radius is None or not links.donees.size:
        return max(1, links.donees.size)  # fewer than k donors: a new one serves every donee
    weight = np.bincount(links.kinds, minlength=len(links.cells))
    if cover is not None:
        chosen = [j for j, name in enumerate(space.names) if name in cover]
        boxes = _Boxes([space.costs[j][:, : space.observed[j]] for j in chosen])
        return boxes.deepest(links.cells[:, chosen], links.radius, weight, weight, best=1)

    rim = largest_overlap(links.kinds, links.starts, links.ends, len(links.cells))
    best = max(int(np.bincount(links.donors.ravel()).max()), int(rim.max()))
    # A class of radius 0 without gaps matters at one point only: it is looked up there.
    point = (links.radius == 0) & (links.cells < np.array(space.observed)).all(axis=1)
    boxes = _Boxes([cost[:, :observed] for cost, observed in zip(space.costs, space.observed, strict=True)])
    boxes.add_points(links.cells[point], rim[point])
    exact = _Depth(links, space, links.radius)
    return boxes.deepest(links.cells[~point], links.radius[~point], weight[~point], rim[~point], best=best, exact=exact)


def largest_overlap(groups: Integers, starts: Integers, ends: Integers, count: int) -> Integers:
    """For each group of arcs on the circle, [start, end) going up and round: the most that share a point."""
    size = groups.size
    wraps = np.bincount(groups[ends < starts], minlength=count)
    group = np.concatenate([groups, groups])
    step = np.repeat([-1, 1], size)
    order = np.lexsort((step, np.concatenate([ends, starts]), group))  # an arc ends before another begins
    height = np.cumsum(step[order])  # every group starts and ends at 0
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, group[order], height)
    return most + wraps


class _Depth:
    """The depth of single points of the domain."""

    def __init__(self, links: Links, space: Space, radius: Integers) -> None:
        self.links, self.space, self.radius = links, space, radius
        self.members = np.argsort(links.kinds, kind="stable")
        self.sizes = np.bincount(links.kinds, minlength=len(links.cells))
        self.begins = np.append(0, np.cumsum(self.sizes))

    def __call__(self, points: Integers) -> Integers:
        """The depth of each of these distinct cells of the domain."""
        links = self.links
        ids = np.ravel_multi_index(tuple(points.T), self.space.sizes)
        order = np.argsort(ids)
        strict = np.zeros(len(points), dtype=np.int64)
        tied = []
        for kind, leaf, far in Tree.of(ids, self.space).within(links.cells, self.radius):
            is_closer = far < self.radius[kind]
            np.add.at(strict, leaf[is_closer], self.sizes[kind[is_closer]])
            tied.append((kind[~is_closer], leaf[~is_closer]))
        kinds, leaves = (np.concatenate(parts) for parts in zip(*tied, strict=True))
        by_leaf = np.argsort(leaves, kind="stable")
        kinds, leaves = kinds[by_leaf], leaves[by_leaf]
        begins = np.searchsorted(leaves, np.arange(len(points) + 1))
        arcs = np.zeros_like(strict)
        for some in split_by_cost(np.bincount(leaves, self.sizes[kinds], minlength=len(points)).astype(np.int64)):
            kind = kinds[begins[some[0]] : begins[some[-1] + 1]]
            rows = self.members[concatenated_ranges(self.begins[kind], self.sizes[kind])]
            leaf = np.repeat(leaves[begins[some[0]] : begins[some[-1] + 1]], self.sizes[kind]) - some[0]
            arcs[some] = largest_overlap(leaf, links.starts[rows], links.ends[rows], some.size)
        depth = np.empty_like(strict)
        depth[order] = strict + arcs
        return depth


@dataclass(frozen=True, slots=True)
class _Block:
    """Boxes, and the classes alive in each of them, merged where they can no longer be told apart."""

    boxes: Integers  # the first columns of each box, as one number
    box: Integers  # of each class: in which box
    rest: Integers  # the class's cells in the columns left, as one number
    left: Integers  # its radius less the distance so far
    weight: Integers  # how many donees are strictly inside, if they are
    rim: Integers  # how many of them can be won at once if they only tie

    def value(self) -> Integers:
        """The most that each class can add to the depth of a point of its box."""
        return np.where(self.left > 0, self.weight, self.rim)


class _Boxes:
    """Branch and bound over the boxes of a domain, given its tables of distances (donees' cells × domain cells)."""

    def __init__(self, costs: list[Integers]) -> None:
        self.costs = costs
        self.points: list[tuple[Integers, Integers]] = [
            (np.zeros(0, dtype=np.int64),) * 2 for _ in range(len(costs) + 1)
        ]

    def add_points(self, cells: Integers, values: Integers) -> None:
        """Points of the domain that are worth more by themselves; each level gets the best of each of its boxes."""
        number = np.zeros(len(cells), dtype=np.int64)
        for level in range(len(self.costs) + 1):
            boxes, place = np.unique(number, return_inverse=True)
            most = np.zeros(boxes.size, dtype=np.int64)
            np.maximum.at(most, place, values)
            self.points[level] = boxes, most
            if level < len(self.costs):
                number = number * self.costs[level].shape[1] + cells[:, level]

    def deepest(
        self,
        cells: Integers,
        radius: Integers,
        weight: Integers,
        rim: Integers,
        *,
        best: int,
        exact: Callable[[Integers], Integers] | None = None,
    ) -> int:
        """The largest depth of a point, or `best` if that is more; without `exact`, the bound counts as the depth."""
        rest = np.zeros(len(cells), dtype=np.int64)
        for j, cost in enumerate(self.costs):
            rest = rest * len(cost) + cells[:, j]
        whole = _merged(_Block(np.zeros(1, dtype=np.int64), np.zeros_like(rest), rest, radius, weight, rim))
        stack = [(0, whole)] if len(cells) else []
        while stack:
            level, block = stack.pop()
            bounds = self._bounds(level, block)
            if level == len(self.costs):
                best = self._leaves(block, bounds, best, exact)
                continue
            if not (bounds > best).any():
                continue
            block = _keep(block, bounds > best)
            parts = [self._split(level, part) for part in _parts(block, BLOCK // 8)]
            # The most promising boxes are split last in, first out: a good point early prunes more.
            for part in parts:
                bounds = self._bounds(level + 1, part)
                alive = _keep(_merged(part), bounds > best)
                pieces = list(_parts(alive, BLOCK, bounds[bounds > best]))
                stack += [(level + 1, piece) for piece in reversed(pieces)]
        return best

    def _bounds(self, level: int, block: _Block) -> Integers:
        """The most that a point of each box can have."""
        bounds = np.bincount(block.box, block.value(), minlength=block.boxes.size).astype(np.int64)
        boxes, most = self.points[level]
        if boxes.size:
            place = np.minimum(np.searchsorted(boxes, block.boxes), boxes.size - 1)
            bounds += np.where(boxes[place] == block.boxes, most[place], 0)
        return bounds

    def _split(self, level: int, block: _Block) -> _Block:
        """Split every box by the next column; classes that are too far from a part of it are not alive there."""
        cost = self.costs[level]
        below = int(np.prod([len(table) for table in self.costs[level + 1 :]], dtype=object))
        cell, rest = np.divmod(block.rest, below)
        left = block.left[:, None] - cost[cell]
        alive, code = np.nonzero(left >= 0)
        box = block.box[alive] * cost.shape[1] + code
        kept, box = np.unique(box, return_inverse=True)
        boxes = block.boxes[kept // cost.shape[1]] * cost.shape[1] + kept % cost.shape[1]
        return _Block(boxes, box, rest[alive], left[alive, code], block.weight[alive], block.rim[alive])

    def _leaves(self, block: _Block, bounds: Integers, best: int, exact: Callable[[Integers], Integers] | None) -> int:
        """The boxes are single points now: look at those that could be deepest, the most promising first."""
        if exact is None:
            return max(best, int(bounds.max(initial=0)))
        order = np.argsort(-bounds, kind="stable")
        count = 64
        while order.size and bounds[order[0]] > best:
            points, order, count = order[:count], order[count:], min(4 * count, 2**14)
            points = points[bounds[points] > best]
            cells = np.unravel_index(block.boxes[points], [cost.shape[1] for cost in self.costs])
            best = max(best, int(exact(np.stack(cells, axis=1)).max()))
        return best


def _keep(block: _Block, boxes: NDArray[np.bool_]) -> _Block:
    """Only some of the boxes."""
    number = np.cumsum(boxes) - 1
    alive = boxes[block.box]
    rest, left, weight, rim = (part[alive] for part in (block.rest, block.left, block.weight, block.rim))
    return _Block(block.boxes[boxes], number[block.box[alive]], rest, left, weight, rim)


def _merged(block: _Block) -> _Block:
    """Add up classes of one box that agree on the columns and the radius left."""
    if not block.box.size:
        return block
    order = np.lexsort((block.left, block.rest, block.box))
    box, rest, left = block.box[order], block.rest[order], block.left[order]
    first = np.flatnonzero(np.append(True, (np.diff(box) != 0) | (np.diff(rest) != 0) | (np.diff(left) != 0)))
    weight, rim = (np.add.reduceat(part[order], first) for part in (block.weight, block.rim))
    return _Block(block.boxes, box[first], rest[first], left[first], weight, rim)


def _parts(block: _Block, most: int, bounds: Integers | None = None) -> Iterator[_Block]:
    """The block in parts of about `most` classes, whole boxes each; those with the largest bounds first."""
    sizes = np.bincount(block.box, minlength=block.boxes.size)
    order = np.arange(sizes.size) if bounds is None else np.argsort(-bounds, kind="stable")
    total = np.cumsum(sizes[order])
    if not total.size:
        return
    part = np.empty(sizes.size, dtype=np.int64)
    part[order] = (total - sizes[order]) // most
    if part.max() == 0:
        yield block
        return
    for number in np.unique(part):
        yield _keep(block, part == number)
