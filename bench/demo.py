"""The comparison pages of releases of the bundled table, made as `gapless demo` makes them.

    python bench/demo.py --runs 10

Prints, for each release: the correlation of systolic and diastolic in its rows, and what its comparison page calls
amber (fair) and red (poor). At the end: the mean absolute error of each column's standard deviation. 80 % of ε = 1,
δ = 1e-6, the default method. The noise is that of `gapless.testing.fixed_noise`, so a run repeats. It protects nobody.
"""

import argparse
import os
import tempfile
from importlib import resources
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import polars as pl

import gapless as gl
from gapless.evaluate import compare
from gapless.evaluate.values import SPREAD
from gapless.testing import fixed_noise


def correlation(frame: pl.DataFrame) -> float:
    """Return the correlation of systolic and diastolic over the rows in which both are observed."""
    columns = frame.select(pl.col("systolic", "diastolic").cast(pl.Float64, strict=False)).drop_nulls()
    return float(np.corrcoef(columns["systolic"], columns["diastolic"])[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--method", default="auto")
    asked = parser.parse_args()
    folder = resources.files("gapless.demo")
    truth = pl.read_csv((folder / "nhanes.csv.gz").read_bytes(), infer_schema=False)
    schema = gl.Schema.from_toml((folder / "nhanes.toml").read_text(encoding="utf-8"))
    print(f"table: {correlation(truth):.2f}")
    found: list[float] = []
    spreads: dict[str, list[float]] = {}
    for seed in range(asked.runs):
        with tempfile.TemporaryDirectory() as place, fixed_noise(seed):
            ledger, budget = Path(place) / "a.ledger", gl.Budget(1.0, 1e-6)
            table = gl.read(truth, schema, protect=gl.Rows(1), ledger=ledger, budget=budget)
            model = gl.synth.METHODS[asked.method]().fit(table, spend="80%")
        rows = model.sample(seed=seed)
        found.append(correlation(rows.to_polars()))
        comparison = compare(truth, rows, schema=schema, model=model)
        for difference in comparison.differences:
            if difference.measure == SPREAD:
                spreads.setdefault(difference.columns[0], []).append(difference.error)
        print(f"run {seed}, {model.method}: {found[-1]:.2f}")
        for grade in ("fair", "poor"):
            print(f"  {grade}: {'; '.join(getattr(comparison.verdict, grade)) or 'nothing'}")
        print("  " + " ".join(comparison.verdict.remarks), flush=True)
    print(f"mean {np.mean(found):.2f}, from {min(found):.2f} to {max(found):.2f}")
    for column, errors in spreads.items():
        print(f"standard deviation of {column}: off by {np.mean(errors):.1%}, at most {max(errors):.1%}")


if __name__ == "__main__":
    main()
