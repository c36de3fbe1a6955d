"""Shapes of single numbers in synthetic rows: ten equal-width bins, standard deviations, tails and spikes.

    python bench/shape.py                               nhanes (as the demo declares it), slid and flchain; three runs
    python bench/shape.py --tables slid --runs 10 --columns       a line for each column too

ε = 1, δ = 1e-6, the whole budget in one release by `Auto`. For each number with more than ten values, over the rows
that have one:

- *1-way*: the total variation distance of the rows on ten bins of equal width between the smallest and the largest
  value; before it *floor*, what the noise of the column's one-way table alone causes if it had counted these bins;
- *sd*: the error of the standard deviation, relative; before it *sd noise*, its standard error by the noise of the
  released counts, to first order, where negative counts are taken as they are;
- *tail*: the share of rows above the 96 % point of the truth, less the true one;
- *spikes*: the mean error of the shares of the five most frequent values, and their mean share.
"""

import argparse
import os
import sys
import tempfile
from importlib import resources
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl

import gapless as gl
from gapless.evaluate.release_noise import standard_error
from gapless.evaluate.values import SPREAD
from gapless.inference.precision import column_precision
from gapless.schema.calendar import Date
from gapless.schema.numeric import BinnedColumn
from gapless.synth import Auto
from gapless.testing import fixed_noise

sys.path.insert(0, str(Path(__file__).resolve().parent))
import relations

BINS, SPIKES, UPPER = 10, 5, 0.96
FIGURES = ("floor", "1-way", "sd noise", "sd", "tail", "spikes", "share")


def load(name):
    """Return a frame and a schema; `demo` is nhanes in the bins that its schema declares."""
    if name != "demo":
        return relations.load(name)
    frame, _ = relations.load("nhanes")
    return frame, gl.Schema.from_toml((resources.files("gapless.demo") / "nhanes.toml").read_text(encoding="utf-8"))


def numbers(frame, schema):
    """Return the values of each column with more than ten different numbers, without gaps."""
    found = {}
    for column in schema.columns:
        if isinstance(column, BinnedColumn) and not isinstance(column, Date):
            values = frame[column.name].cast(pl.Float64, strict=False).to_numpy().astype(float)
            codes = pl.Series([code.code for code in column.missing_codes], dtype=pl.String).cast(
                pl.Float64, strict=False
            )
            values = values[~np.isnan(values) & ~np.isin(values, codes.drop_nulls().to_numpy())]
            if len(np.unique(values)) > BINS:
                found[column.name] = values
    return found


def tables(edges, values):
    """Return the shares of values in bins."""
    return np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / max(len(values), 1)


def noise_std(model, name):
    """Return the noise of the one-way table of a column, with what other tables know."""
    (place,) = model.schema.positions([name])
    return model.measurements.column_counts(model.schema, place)[1]


def sd_noise(model, name):
    """Return the standard error of the standard deviation of a column by the noise of its counts."""
    (place,) = model.schema.positions([name])
    return standard_error(model, column_precision(model)[place], SPREAD)


def figures_of(truth, model, rows, name):
    """Return the figures of a column."""
    edges = np.linspace(truth.min(), truth.max(), BINS + 1)
    true = tables(edges, truth)
    rng = np.random.default_rng(0)
    noise = rng.normal(0, noise_std(model, name) / len(truth), (1000, BINS))
    floor = np.abs(noise - noise.mean(axis=1, keepdims=True)).sum(axis=1).mean() / 2
    upper = np.quantile(truth, UPPER, method="inverted_cdf")
    values, times = np.unique(truth, return_counts=True)
    frequent = np.argsort(-times, kind="stable")[:SPIKES]
    found = [np.mean(np.abs(rows - value) < 1e-9) for value in values[frequent]]
    shares = times[frequent] / len(truth)
    return {
        "floor": floor,
        "1-way": np.abs(tables(edges, rows) - true).sum() / 2,
        "sd noise": sd_noise(model, name),
        "sd": rows.std() / truth.std() - 1,
        "tail": np.mean(rows > upper) - np.mean(truth > upper),
        "spikes": np.abs(found - shares).mean(),
        "share": shares.mean(),
        "top": (values[frequent[0]], shares[0], found[0]),
    }


def run(name, seed):
    """Return the figures of each column for one release."""
    frame, schema = load(name)
    with tempfile.TemporaryDirectory() as folder, fixed_noise(seed):
        people = gl.read(
            frame, schema, protect=gl.Rows(1), ledger=Path(folder) / "a.ledger", budget=gl.Budget(1.0, 1e-6)
        )
        model = Auto().fit(people, spend=people.ledger.left)
        rows = numbers(model.sample(frame.height, seed=seed, gaps="as-observed").to_polars(), schema)
    return {
        column: figures_of(values, model, rows.get(column, values[:0]), column)
        for column, values in numbers(frame, schema).items()
    }


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="demo+nhanes+slid+flchain")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--columns", action="store_true", help="a line for each column too")
    asked = parser.parse_args()
    print("| table | column | " + " | ".join(FIGURES) + " | most frequent: share, found |")
    print("|---" * (3 + len(FIGURES)) + "|")
    for name in asked.tables.split("+"):
        found = [run(name, seed) for seed in range(asked.runs)]
        means = {
            column: {
                figure: float(np.mean([np.abs(figures[column][figure]) for figures in found])) for figure in FIGURES
            }
            for column in found[0]
        }
        if asked.columns:
            for column, values in means.items():
                top, share, _ = found[0][column]["top"]
                seen = ", ".join(f"{figures[column]['top'][2]:.3f}" for figures in found)
                print(
                    f"| {name} | {column} | "
                    + " | ".join(f"{values[figure]:.4f}" for figure in FIGURES)
                    + f" | {top:g}: {share:.3f}, {seen} |"
                )
        every = [np.mean([values[figure] for values in means.values()]) for figure in FIGURES]
        print(f"| {name} | *mean* | " + " | ".join(f"{value:.4f}" for value in every) + " | |", flush=True)


if __name__ == "__main__":
    main()
