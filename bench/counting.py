"""Counting: all pairs of 15 columns, ours beside a plain numba loop, numpy, polars and duckdb, in one run.

    python bench/counting.py [--rows 10_000_000] [--small 30_000]

Processor seconds (best of three), the same uint8 columns for everybody, and the ratio to the numba loop. Targets: at
most 1.5 times the loop on 10 million rows; no slower than numpy on 30,000.
"""

import argparse
import itertools
import time

import numpy as np

from gapless.data.engines.memory import Memory

SIZES = [11, 10, 11, 17, 11, 8, 16, 7, 6, 3, 11, 11, 11, 12, 3]  # cells with the gap: much like Adult, country grouped
PAIRS = list(itertools.combinations(range(len(SIZES)), 2))


def table(rows):
    rng = np.random.default_rng(0)
    return [rng.integers(0, size, rows, dtype=np.uint8) for size in SIZES]


def ours(columns):
    return Memory(tuple(columns), len(columns[0])).count(PAIRS, SIZES, SIZES)


def by_numpy(columns):
    """The obvious way: one bincount for each pair."""
    return [
        np.bincount(columns[i].astype(np.int64) * SIZES[j] + columns[j], minlength=SIZES[i] * SIZES[j]).reshape(
            SIZES[i], SIZES[j]
        )
        for i, j in PAIRS
    ]


def numba_loop():
    import numba

    @numba.njit
    def loop(a, b, width, cells):
        for row in range(a.size):
            cells[a[row] * width + b[row]] += 1

    def by_numba(columns):
        counted = []
        for i, j in PAIRS:
            cells = np.zeros(SIZES[i] * SIZES[j], dtype=np.int64)
            loop(columns[i], columns[j], SIZES[j], cells)
            counted.append(cells.reshape(SIZES[i], SIZES[j]))
        return counted

    by_numba([column[:10] for column in table(10)])  # compiled before the clock starts
    return by_numba


def by_polars(columns):
    import polars as pl

    frame = pl.LazyFrame({f"x{i}": column for i, column in enumerate(columns)})
    queries = [frame.group_by(f"x{i}", f"x{j}").len() for i, j in PAIRS]
    return [
        dense(result[:, 0].to_numpy(), result[:, 1].to_numpy(), result[:, 2].to_numpy(), pair)
        for result, pair in zip(pl.collect_all(queries), PAIRS, strict=True)
    ]


def by_duckdb(columns):
    import duckdb
    import polars as pl

    frame = pl.DataFrame({f"x{i}": column for i, column in enumerate(columns)})  # noqa: F841 duckdb finds it by name
    sets = ", ".join(f"(x{i}, x{j})" for i, j in PAIRS)
    names = ", ".join(f"x{i}" for i in range(len(SIZES)))
    with duckdb.connect() as connection:
        found = connection.sql(f"select {names}, count(*) n from frame group by grouping sets ({sets})").fetchnumpy()
    counted = []
    for i, j in PAIRS:
        mine = ~np.ma.getmaskarray(found[f"x{i}"]) & ~np.ma.getmaskarray(found[f"x{j}"])
        counted.append(dense(found[f"x{i}"][mine], found[f"x{j}"][mine], found["n"][mine], (i, j)))
    return counted


def dense(a, b, n, pair):
    cells = np.zeros([SIZES[c] for c in pair], dtype=np.int64)
    cells[np.asarray(a).astype(int), np.asarray(b).astype(int)] = n
    return cells


def seconds(function, columns, repeats):
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        result = function(columns)
        best = min(best, time.process_time() - start)
    return best, result


def compare(rows):
    columns = table(rows)
    tools = {
        "plain numba loop": numba_loop(),
        "gapless": ours,
        "numpy": by_numpy,
        "polars": by_polars,
        "duckdb": by_duckdb,
    }
    print(f"\n{rows:,} rows, {len(SIZES)} columns, {len(PAIRS)} pairs")
    print(f"  {'':<18} {'cpu s':>9} {'÷ numba':>8} {'÷ numpy':>8}")
    measured = {
        name: seconds(tool, columns, 3 if rows < 10**6 or name in ("gapless", "plain numba loop") else 1)
        for name, tool in tools.items()
    }
    truth = measured["plain numba loop"][1]
    for name, (cpu, result) in measured.items():
        assert all(np.array_equal(a, b) for a, b in zip(truth, result, strict=True)), name
        ratios = [cpu / measured[peer][0] for peer in ("plain numba loop", "numpy")]
        print(f"  {name:<18} {cpu:>9.4f} {ratios[0]:>8.2f} {ratios[1]:>8.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--small", type=int, default=30_000)
    options = parser.parse_args()
    compare(options.small)
    compare(options.rows)
