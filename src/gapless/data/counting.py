"""Counting: many marginals of an encoded table in one pass over its rows.

Marginals that overlap are counted together: a few blocks of columns, each with at most 65,536 cells so that
a cell's number fits in 16 bits, cover all that is asked, and each marginal is then summed out of a block.
All pairs of 15 columns need some 20 blocks instead of 105. Rows are taken in chunks that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.schema.columns import Codes

CHUNK = 1 << 16
BLOCK_CELLS = 1 << 16


def count(
    columns: Sequence[Codes], sizes: Sequence[int], marginals: Sequence[tuple[int, ...]], rows: int
) -> list[NDArray[np.int64]]:
    """The counts of each marginal, shaped like its columns' sizes. The empty marginal is the number of rows."""
    # A block is worth its cells only while they are few beside the rows.
    blocks, home = _cover(sizes, marginals, cells=min(BLOCK_CELLS, max(256, rows // 4)))
    totals = [np.zeros(math.prod(sizes[c] for c in block), dtype=np.int64) for block in blocks]
    for start in range(0, rows, CHUNK):
        chunk = slice(start, min(start + CHUNK, rows))
        for block, total in zip(blocks, totals, strict=True):
            np.add(total, _count_block(columns, sizes, block, chunk, total.size), out=total)
    shaped = [total.reshape([sizes[c] for c in block]) for block, total in zip(blocks, totals, strict=True)]
    places = [home[frozenset(marginal)] for marginal in marginals]
    return [_sum_out(one, blocks[place], shaped[place]) for one, place in zip(marginals, places, strict=True)]


def _cover(
    sizes: Sequence[int], marginals: Sequence[tuple[int, ...]], cells: int
) -> tuple[list[tuple[int, ...]], dict[frozenset[int], int]]:
    """Few blocks of columns such that each marginal lies inside one of them, and the block of each marginal.

    Greedy: a block starts with a marginal, the largest first, and takes in, as long as there is room, the column that
    shares the most uncounted pairs with it for its size.
    """
    wanted = sorted({frozenset(one) for one in marginals}, key=lambda one: (-len(one), sorted(one)))
    uncounted = np.zeros((len(sizes), len(sizes)), dtype=np.bool_)  # pairs, as a symmetric matrix
    for one in wanted:
        if len(one) == 2:
            i, j = one
            uncounted[i, j] = uncounted[j, i] = True
    thirst = 1 / np.log(np.asarray(sizes, dtype=np.float64) + 1)
    blocks: list[tuple[int, ...]] = []
    home: dict[frozenset[int], int] = {}
    for one in wanted:
        if one in home:
            continue
        block = sorted(one)
        room = cells // max(1, math.prod(sizes[c] for c in block))
        while block:
            gain = uncounted[block].sum(axis=0) * thirst
            gain[block] = 0
            gain[np.asarray(sizes) > room] = 0
            best = int(gain.argmax())
            if gain[best] == 0:
                break
            block.append(best)
            room //= sizes[best]
        uncounted[np.ix_(block, block)] = False
        parts = (part for size in range(3) for part in combinations(block, size))
        home |= {frozenset(part): len(blocks) for part in (*parts, one) if frozenset(part) not in home}
        blocks.append(tuple(sorted(block)))
    return blocks, home


def _count_block(
    columns: Sequence[Codes], sizes: Sequence[int], block: tuple[int, ...], chunk: slice, cells: int
) -> NDArray[np.int64]:
    if not block:
        return np.array([chunk.stop - chunk.start])
    small: type[np.integer[Any]] = np.uint16 if cells <= BLOCK_CELLS else np.int64
    keys: NDArray[Any] = columns[block[0]][chunk].astype(small)
    for c in block[1:]:
        keys *= small(sizes[c])
        keys += columns[c][chunk]
    return np.bincount(keys, minlength=cells)


def _sum_out(marginal: tuple[int, ...], block: tuple[int, ...], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    kept = counts.sum(axis=tuple(i for i, c in enumerate(block) if c not in marginal))
    left = [c for c in block if c in marginal]
    return np.array(np.transpose(kept, [left.index(c) for c in marginal]), order="C")
