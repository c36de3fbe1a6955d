r"""The largest number of donees that one row can change: L₁(D), exactly, and smooth upper bounds on it.

.. math:: L_1(D) = \max\big(1,\ \max_y |\{x : y \in \mathrm{don}_{D \cup y}(x)\}|\big)

The maximum is over every donor y in the table and every possible new donor y: any cell of the public domain, any label.
A donor in the table has its donees. The *radius* of a donee x is the distance of its k-th donor. A new donor at cell v
becomes a donor of x if d(x, v) is below the radius. If d(x, v) equals the radius, the new label must be on the arc from
x's label to that of its k-th donor. So for new donors the maximum is the deepest point of an arrangement of balls, with
arcs on their boundaries.

Branch and bound finds it. A box fixes the first columns of v. A class of donees with equal cells is *alive* in a box
if the distance so far is within its radius. The number of donees alive bounds the depth of the box. Donees that can
only tie count by the largest overlap of their arcs. Boxes that cannot beat the best point so far are discarded. The
others are split by the next column, all boxes of a block at a time. Classes with equal remaining columns and equal
remaining radius are merged.

Proved in docs/proofs/neighbours.md, tested against the definition in tests/property/test_neighbours.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapless.data.neighbors import Links, Space, Tree, concatenated_ranges, split_by_cost
from gapless.types import Integers

BLOCK = 2**18  # classes in boxes held in memory at a time


def influence(links: Links, space: Space, cover: tuple[str, ...] | None = None) -> int:
    """Return L₁ of the table, or its smooth upper bound by boxes that fix the columns of `cover`."""
    if links.radius is None or not links.donees.size:
        return max(1, links.donees.size)  # fewer than k donors: a new one serves every donee
    weight = np.bincount(links.kinds, minlength=len(links.cells))
    if cover is not None:
        chosen = [j for j, name in enumerate(space.names) if name in cover]
        boxes = _Boxes([space.costs[j][:, : space.observed[j]] for j in chosen])
        return boxes.deepest(links.cells[:, chosen], links.radius, weight, weight, best=1)

    rim = largest_overlap(links.kinds, links.starts, links.ends, len(links.cells))
    best = max(int(np.bincount(links.donors.ravel()).max()), int(rim.max()))
    # A class of radius 0 without gaps counts at one point only: it is looked up there.
    point = (links.radius == 0) & (links.cells < np.array(space.observed)).all(axis=1)
    boxes = _Boxes([cost[:, :observed] for cost, observed in zip(space.costs, space.observed, strict=True)])
    boxes.add_points(links.cells[point], rim[point])
    exact = _Depth(links, space, links.radius)
    return boxes.deepest(links.cells[~point], links.radius[~point], weight[~point], rim[~point], best=best, exact=exact)


def largest_overlap(groups: Integers, starts: Integers, ends: Integers, count: int) -> Integers:
    """Return, for each group of arcs [start, end) on the circle, the largest number that share a point."""
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
        """Return the depth of each of these distinct cells of the domain."""
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
    """Boxes, and the classes alive in each of them; classes that no longer differ are merged."""

    boxes: Integers  # the cells of each box in the fixed columns, as one integer
    box: Integers  # the box of each class
    rest: Integers  # the class's cells in the remaining columns, as one integer
    left: Integers  # its radius less the distance so far
    weight: Integers  # the number of its donees: those that count if the distance is below the radius
    rim: Integers  # the largest number of its donees that count if the distance equals the radius

    def value(self) -> Integers:
        """Return the largest contribution of each class to the depth of a point of its box."""
        return np.where(self.left > 0, self.weight, self.rim)


class _Boxes:
    """Branch and bound over the boxes of a domain, given its tables of distances (donees' cells × domain cells)."""

    def __init__(self, costs: list[Integers]) -> None:
        self.costs = costs
        self.points: list[tuple[Integers, Integers]] = [
            (np.zeros(0, dtype=np.int64),) * 2 for _ in range(len(costs) + 1)
        ]

    def add_points(self, cells: Integers, values: Integers) -> None:
        """Add points of the domain with extra depth; each level stores the largest in each of its boxes."""
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
        """Return the largest depth of a point, at least `best`; without `exact`, bounds count as depths."""
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
            # The boxes with the largest bounds are split first: a deep point found early prunes more.
            for part in parts:
                bounds = self._bounds(level + 1, part)
                alive = _keep(_merged(part), bounds > best)
                pieces = list(_parts(alive, BLOCK, bounds[bounds > best]))
                stack += [(level + 1, piece) for piece in reversed(pieces)]
        return best

    def _bounds(self, level: int, block: _Block) -> Integers:
        """Return an upper bound on the depth of points in each box."""
        bounds = np.bincount(block.box, block.value(), minlength=block.boxes.size).astype(np.int64)
        boxes, most = self.points[level]
        if boxes.size:
            place = np.minimum(np.searchsorted(boxes, block.boxes), boxes.size - 1)
            bounds += np.where(boxes[place] == block.boxes, most[place], 0)
        return bounds

    def _split(self, level: int, block: _Block) -> _Block:
        """Split every box by the next column; drop classes from the parts that are too far from them."""
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
        """Evaluate boxes that are single points, those with the largest bounds first; return the best depth."""
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
    """Keep only these boxes."""
    number = np.cumsum(boxes) - 1
    alive = boxes[block.box]
    rest, left, weight, rim = (part[alive] for part in (block.rest, block.left, block.weight, block.rim))
    return _Block(block.boxes[boxes], number[block.box[alive]], rest, left, weight, rim)


def _merged(block: _Block) -> _Block:
    """Merge the classes of one box with equal remaining columns and equal remaining radius."""
    if not block.box.size:
        return block
    order = np.lexsort((block.left, block.rest, block.box))
    box, rest, left = block.box[order], block.rest[order], block.left[order]
    first = np.flatnonzero(np.append(True, (np.diff(box) != 0) | (np.diff(rest) != 0) | (np.diff(left) != 0)))
    weight, rim = (np.add.reduceat(part[order], first) for part in (block.weight, block.rim))
    return _Block(block.boxes, box[first], rest[first], left[first], weight, rim)


def _parts(block: _Block, most: int, bounds: Integers | None = None) -> Iterator[_Block]:
    """Yield the block in parts of about `most` classes, without splitting boxes; the largest bounds first."""
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
