"""Ways to learn how a column lies on its line, at the same price: what bins and values are made of.

    python bench/cells.py

Simulated lines of 1,024 cells and a tenth of a budget of ε = 1, δ = 1e-6 shared by six columns, means of ten runs:
W, the Wasserstein distance over the standard deviation; M, the error of the mean over it; K, the largest error of a
cumulative share; S, the error of the share of the largest spike. Geometric means over the lines.
"""

import math
from itertools import pairwise

import numpy as np

from gapless.synth import learning

CELLS, RUNS, SIGMA = 1024, 10, 4.5 * math.sqrt(60)  # of one count with a sixtieth of the budget
SIZES = (3_000, 30_000, 300_000)


def lines(rng, rows):
    """Counts of simulated columns."""
    spiked = np.where(rng.random(rows) < 0.5, 0.4, np.where(rng.random(rows) < 0.3, 0.0, rng.normal(0.45, 0.12, rows)))
    delayed = np.where(rng.random(rows) < 0.9, rng.normal(0.03, 0.008, rows), 0.03 + rng.exponential(0.05, rows))
    values = {
        "exponential": rng.exponential(0.03, rows),
        "lognormal": rng.lognormal(-4, 1.2, rows),
        "normal": rng.normal(0.5, 0.1, rows),
        "spikes": spiked,
        "delays": delayed,
        "uniform": rng.random(rows),
    }
    return {
        name: np.bincount((np.clip(x, 0, 0.9999) * CELLS).astype(int), minlength=CELLS) for name, x in values.items()
    }


def tree(fanout):
    """Counts in groups of powers of `fanout`, as the library settles them."""

    def learn(counts, rng):
        learning.FANOUT = fanout
        levels = learning.hierarchy_levels(CELLS, 0)
        noise = SIGMA * math.sqrt(len(levels))
        tables = [np.bincount(level, weights=counts) for level in levels]
        return learning.nonnegative_counts([table + rng.normal(0, noise, len(table)) for table in tables], noise)

    return learn


def flat(counts, rng):
    """One noisy table of all cells, brought to its total."""
    noisy = counts + rng.normal(0, SIGMA, CELLS)
    return learning.project_rows(noisy[None], np.array([max(noisy.sum(), 1.0)]))[0]


def privtree(counts, rng):
    """PrivTree (Zhang, Xiao, Xie 2016), pure: splits by biased noisy counts; half of ε for the leaves' counts."""
    epsilon = 1 / 60  # the same share of the pure budget; its losses do not grow with the depth
    scale = (2 * 2 - 1) / (2 - 1) / (epsilon / 2)
    decay = scale * math.log(2)
    found = np.zeros(CELLS)
    nodes = [(0, CELLS, 0)]
    while nodes:
        first, last, depth = nodes.pop()
        biased = max(counts[first:last].sum() - depth * decay, -decay)
        if last - first > 1 and biased + rng.laplace(0, scale) > 0:
            middle = (first + last) // 2
            nodes += [(first, middle, depth + 1), (middle, last, depth + 1)]
        else:
            rows = counts[first:last].sum() + rng.laplace(0, 2 / epsilon)
            found[first:last] = max(rows, 0.0) / (last - first)
    return found


def quantiles(counts, rng, many=31):
    """So many quantiles by exponential choices over cells, Gaussian-DP shares alike; even in between."""
    below = np.append(0, np.cumsum(counts))
    epsilon = math.sqrt(8 / (2 * SIGMA**2) / many)  # bounded range: ε²/8 of zero-concentrated loss for each
    cuts = []
    for part in np.arange(1, many + 1) / (many + 1):
        scores = -np.abs((below[:-1] + below[1:]) / 2 - part * below[-1])
        cuts.append(int(np.argmax(epsilon * scores + rng.gumbel(size=CELLS))))
    edges = [0, *np.sort(cuts), CELLS]
    found = np.zeros(CELLS)
    for first, last in pairwise(edges):
        found[first : max(last, first + 1)] += 1 / max(last - first, 1)
    return found * below[-1] / (many + 1)


TREATMENTS = {
    "tree, 2 children": tree(2),
    "tree, 4 children": tree(4),
    "tree, 8 children": tree(8),
    "tree, 16 children": tree(16),
    "flat table": flat,
    "PrivTree (pure)": privtree,
    "31 quantiles": quantiles,
}


def errors(counts, found):
    """W, M, K and S."""
    truth, released = counts / counts.sum(), found / max(found.sum(), 1e-9)
    middles = (np.arange(CELLS) + 0.5) / CELLS
    deviation = math.sqrt(truth @ middles**2 - (truth @ middles) ** 2)
    off = np.cumsum(released - truth)
    spike = truth.argmax()
    return (
        np.abs(off).sum() / CELLS / deviation,
        abs((released - truth) @ middles) / deviation,
        np.abs(off).max(),
        abs(released[spike] - truth[spike]),
    )


def main():
    """Print the table."""
    print("| | " + " | ".join(f"{rows:,} rows: W | M | K | S" for rows in SIZES) + " |")
    print("|---" * (1 + 4 * len(SIZES)) + "|")
    chosen = learning.FANOUT
    for name, learn in TREATMENTS.items():
        cells = []
        for rows in SIZES:
            rng = np.random.default_rng(0)
            logs = []
            for counts in lines(rng, rows).values():
                found = [errors(counts, learn(counts.astype(np.float64), rng)) for _ in range(RUNS)]
                logs.append(np.log(np.maximum(np.mean(found, axis=0), 1e-9)))
            cells += [f"{value:.3f}" for value in np.exp(np.mean(logs, axis=0))]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    learning.FANOUT = chosen


if __name__ == "__main__":
    main()
