"""Which pairs are measured when the gaps depend on age: MST, AIM and PrivBayes on a simulated table.

    python bench/selection.py                    10 runs of each, some minutes
    python bench/selection.py --age 0.4          income depends on age more

A table of ten columns in which income depends on education, and both on age. In six columns a cell is missing with a
probability that grows with age, from 5 % to 75 %. Printed: in how many runs the pair income × education was measured;
how far the slope of income on education in synthetic rows is from that of the complete table, in standard errors of
the latter; the mean distance of single columns, and of all pairs, to the complete table. Medians. "no gaps" is the same
method on the complete table.
"""

import argparse
import statistics
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
from gapless.evaluate import kway_distance
from gapless.missing import STRATEGIES
from gapless.synth import METHODS

EPSILON, DELTA = 1.0, 1e-6
SIZES = {
    "age": 12,
    "sex": 2,
    "region": 6,
    "marital": 4,
    "education": 8,
    "income": 10,
    "hours": 8,
    "health": 5,
    "children": 4,
    "smoker": 2,
}
DRIVEN = ("education", "income", "hours", "health", "children", "smoker")  # age drives their gaps
PAIR = ("education", "income")


def people(rows, seed, on_age):
    """Codes of complete rows: each column is cut from a normal score that depends on earlier columns."""
    rng = np.random.default_rng(seed)
    scores = {}

    def draw(name, **on):
        explained = sum(weight * scores[other] for other, weight in on.items())
        scores[name] = explained + np.sqrt(1 - sum(weight**2 for weight in on.values())) * rng.normal(size=rows)

    draw("age")
    draw("sex")
    draw("region")
    draw("marital", age=0.5)
    draw("education", age=-0.25, region=0.15)
    draw("income", education=0.5, age=on_age, sex=0.25)
    draw("hours", income=0.3, sex=0.3)
    draw("health", age=-0.35, income=0.2)
    draw("children", marital=0.5)
    draw("smoker", education=-0.25, sex=0.1)
    codes = {}
    for name, size in SIZES.items():
        standard = scores[name] / scores[name].std()
        cuts = np.linspace(-1.8, 1.8, size + 1)[1:-1] if size > 2 else [0.3]
        codes[name] = np.searchsorted(cuts, standard)
    return pl.DataFrame(codes)


def with_gaps(frame, seed):
    """The same rows, cells of the driven columns missing with a probability that grows with age."""
    rng = np.random.default_rng(seed)
    chance = 0.05 + 0.7 * frame["age"].to_numpy() / (SIZES["age"] - 1)
    return frame.with_columns(
        pl.when(pl.Series(rng.random(len(frame)) >= chance)).then(pl.col(name)).alias(name) for name in DRIVEN
    )


def schema():
    columns = [
        gl.Integer(name, bounds=(0, size - 1), may_be_missing=name in DRIVEN)
        if size > 6
        else gl.Ordinal(name, [str(level) for level in range(size)], may_be_missing=name in DRIVEN)
        for name, size in SIZES.items()
    ]
    return gl.Schema("people", tuple(columns))


def slope(frame):
    """Of income on education, by least squares, and its standard error."""
    x, y = (frame[name].cast(pl.Float64).to_numpy() for name in PAIR)
    x = x - x.mean()
    steep = (x @ y) / (x @ x)
    rest = y - y.mean() - steep * x
    return steep, np.sqrt(rest @ rest / (len(x) - 2) / (x @ x))


def run(method, missing, data, truth, seed):
    with tempfile.TemporaryDirectory() as folder:
        table = gl.read(
            data, schema(), protect=gl.Rows(1), ledger=Path(folder) / "people.ledger", budget=gl.Budget(EPSILON, DELTA)
        )
        model = METHODS[method](missing=STRATEGIES[missing]()).fit(table, spend=table.ledger.left)
    names = list(SIZES)
    measured = tuple(sorted(map(names.index, PAIR))) in model.facts.edges
    sample = model.sample(len(truth), seed=seed)
    real = gl.Table.read(truth, schema())
    steep, error = slope(truth)
    return {
        "measured": measured,
        "slope": (slope(sample.to_polars())[0] - steep) / error,
        "1-way": kway_distance(real, sample, k=1),
        "2-way": kway_distance(real, sample, k=2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--age", type=float, default=0.2, help="how much income depends on age (0.2)")
    parser.add_argument("--methods", default="mst+aim+privbayes")
    options = parser.parse_args()
    title = f"income on age {options.age:g}, ε = {EPSILON:g}, δ = {DELTA:g}, {options.repetitions} runs each"
    print(f"\n{options.rows:,} rows, {title}\n")
    print("| method | gaps | income × education measured | slope, standard errors off | 1-way | 2-way |")
    print("|---|---|---:|---:|---:|---:|")
    treatments = ("no gaps", "extended", "observed")
    for method, treatment in product(options.methods.split("+"), treatments):
        found = []
        for seed in range(options.repetitions):
            truth = people(options.rows, seed, options.age)
            data, missing = (truth, "extended") if treatment == "no gaps" else (with_gaps(truth, seed), treatment)
            found.append(run(method, missing, data, truth, seed))
            print(f"  {method}, {treatment} #{seed}: {found[-1]}", file=sys.stderr)
        cells = [f"{statistics.mean(r['measured'] for r in found):.0%}"]
        cells += [f"{statistics.median(r['slope'] for r in found):+.1f}"]
        cells += [f"{statistics.median(r[name] for r in found):.4f}" for name in ("1-way", "2-way")]
        print(f"| {method} | {treatment} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
