"""Counting: many marginals of an encoded table in one pass over its rows.

Marginals that overlap are counted together: a few blocks of columns, each with at most 65,536 cells so that
a cell's number fits in 16 bits, cover all that is asked, and each marginal is then summed out of a block.
All pairs of 15 columns need some 20 blocks instead of 105. Rows are taken in chunks that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    blocks = _cover(sizes, marginals, cells=min(BLOCK_CELLS, max(256, rows // 4)))
    totals = [np.zeros(math.prod(sizes[c] for c in block), dtype=np.int64) for block in blocks]
    for start in range(0, rows, CHUNK):
        chunk = slice(start, min(start + CHUNK, rows))
        for block, total in zip(blocks, totals, strict=True):
            np.add(total, _count_block(columns, sizes, block, chunk, total.size), out=total)
    shaped = [total.reshape([sizes[c] for c in block]) for block, total in zip(blocks, totals, strict=True)]
    return [_sum_out(marginal, blocks, shaped) for marginal in marginals]


def _cover(sizes: Sequence[int], marginals: Sequence[tuple[int, ...]], cells: int) -> list[tuple[int, ...]]:
    """Few blocks of columns such that each marginal lies inside one of them."""
    open_sets = {frozenset(marginal) for marginal in marginals}
    blocks: list[tuple[int, ...]] = []
    while open_sets:
        block = max(open_sets, key=lambda one: (math.prod(sizes[c] for c in one), sorted(one)))
        while True:
            room = cells // max(1, math.prod(sizes[c] for c in block))
            gain = _gains(block, open_sets, sizes, room)
            if not gain:
                break
            block |= {max(gain, key=lambda c: (gain[c] / math.log(sizes[c] + 1), -c))}
        open_sets = {one for one in open_sets if not one <= block}
        blocks.append(tuple(sorted(block)))
    return blocks


def _gains(block: frozenset[int], open_sets: set[frozenset[int]], sizes: Sequence[int], room: int) -> dict[int, int]:
    """For each column that fits into the block: how many open marginals it would bring in."""
    gain: dict[int, int] = {}
    for one in open_sets:
        lacking = one - block
        if len(lacking) == 1:
            (column,) = lacking
            if sizes[column] <= room:
                gain[column] = gain.get(column, 0) + 1
    return gain


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


def _sum_out(
    marginal: tuple[int, ...], blocks: Sequence[tuple[int, ...]], counts: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    inside = [i for i, block in enumerate(blocks) if set(marginal) <= set(block)]
    best = min(inside, key=lambda i: counts[i].size)
    block = blocks[best]
    kept = counts[best].sum(axis=tuple(i for i, c in enumerate(block) if c not in marginal))
    left = [c for c in block if c in marginal]
    return np.array(np.transpose(kept, [left.index(c) for c in marginal]), order="C")
