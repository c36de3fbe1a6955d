"""Answers about values, and whether their intervals hold the truth: means, medians and quantiles of numbers, in groups.

    python bench/ask_values.py fair.csv                200 runs of each question at ε = 1, some minutes
    python bench/ask_values.py fair.csv --runs 20

`fair.csv` is Fair's survey of 1974 (6,366 married women), as statsmodels has it:
`statsmodels.api.datasets.fair.load_pandas().data.to_csv("fair.csv", index=False)`. Adult comes from ../shared next to
the repository; gains above 50,000 are clamped to that. The bins of the schemas are the default ones, ten of equal
width, and answers do not depend on them. The truth is that of the raw values. `ten bins` is the truth if each value
counts as the middle of its bin.
"""

import argparse
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gapless as gl
from gapless.privacy import Loss

ADULT = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "adult.csv.gz"
FAIR = gl.Schema(
    "fair",
    [
        gl.Integer("rate_marriage", bounds=(1, 5)),
        gl.Number("age", bounds=(15, 50), resolution=0.5),
        gl.Number("yrs_married", bounds=(0, 30), resolution=0.5),
        gl.Number("affairs", bounds=(0, 60)),
    ],
    ignore=["children", "religious", "educ", "occupation", "occupation_husb"],
)
HOURS = gl.Schema(
    "adult",
    [
        gl.Integer("age", bounds=(17, 90)),
        gl.Categorical("sex", ["Female", "Male"]),
        gl.Integer("hours", bounds=(1, 99)),
        gl.Integer("gain", bounds=(0, 50_000)),
    ],
)


def truth(question: gl.Mean | gl.Quantile, frame: pl.DataFrame, *, binned: gl.Schema | None = None) -> np.ndarray:
    """The answer of each group from the raw values, or from the middles of bins."""
    frame = frame.filter(pl.col("age") >= 33) if question.where else frame
    if binned is not None:
        column: Any = binned[question.column]
        low, high = column.bin_ranges()
        middles = ((low + high) / 2)[column.bin_of(frame[question.column].to_numpy().astype(float))]
        frame = frame.with_columns(pl.Series(question.column, middles))
    groups = [frame] if question.by is None else [group for _, group in sorted(frame.group_by(question.by))]
    values = [group[question.column].to_numpy() for group in groups]
    if isinstance(question, gl.Mean):
        return np.array([part.mean() for part in values])
    return np.array([np.quantile(part, question.q, method="inverted_cdf") for part in values])


def report(frame: pl.DataFrame, schema: gl.Schema, questions: list, runs: int) -> None:
    """A line for each group of each question."""
    with tempfile.TemporaryDirectory() as folder:
        for number, question in enumerate(questions):
            ledger = Path(folder) / f"{number}.ledger"
            table = gl.read(frame, schema, protect=gl.Rows(1), budget=gl.Budget(runs + 1.0, 0), ledger=ledger)
            started = time.perf_counter()
            answers = [table.ask(question, spend=Loss(1.0, math.inf)) for _ in range(runs)]
            took = (time.perf_counter() - started) / runs
            right, binned = truth(question, frame), truth(question, frame, binned=schema)
            print(f"\n{question}   ({took:.2f} s each)")
            print(f"  {'group':<10} {'truth':>9} {'ten bins':>9} {'median':>9} {'error':>9} {'width':>9}  covered")
            for place, estimates in enumerate(zip(*(answer.estimates for answer in answers), strict=True)):
                found = np.array([estimate.value for estimate in estimates])
                low, high = np.array([estimate.interval for estimate in estimates]).T
                covered = ((low <= right[place]) & (right[place] <= high)).mean()
                error, width = np.median(np.abs(found - right[place])), np.median(high - low)
                name = ", ".join(estimates[0].group or ("all",))
                numbers = (right[place], binned[place], np.median(found), error, width)
                print(f"  {name:<10}" + "".join(f" {number:9.4g}" for number in numbers) + f"  {covered:7.1%}")


def main() -> None:
    """Fair's survey if its file is named, and Adult."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fair", nargs="?", type=Path, help="fair.csv")
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    if arguments.fair is not None:
        fair = pl.read_csv(arguments.fair).with_columns(pl.col("rate_marriage").cast(pl.Int64))
        questions = [
            gl.Mean("affairs"),
            gl.Mean("affairs", by="rate_marriage"),
            gl.Mean("yrs_married", where="age >= 33", by="rate_marriage"),
            gl.Median("yrs_married", by="rate_marriage"),
            gl.Quantile("affairs", 0.9, by="rate_marriage"),
        ]
        report(fair, FAIR, questions, arguments.runs)
    adult = pl.read_csv(ADULT).select(
        age=pl.col("age"),
        sex=pl.col("sex"),
        hours=pl.col("hours-per-week"),
        gain=pl.col("capital-gain").clip(0, 50_000),
    )
    questions = [
        gl.Mean("hours", where="age >= 33", by="sex"),
        gl.Mean("gain", by="sex"),
        gl.Median("hours", by="sex"),
        gl.Quantile("gain", 0.95),
    ]
    report(adult, HOURS, questions, arguments.runs)


if __name__ == "__main__":
    main()
