"""Processor seconds of `gapless estimate`: the first time, and later, when copies are read from beside the model.

    python bench/estimate_time.py                    the bundled table of 14 columns, and a simulated one of 88
    python bench/estimate_time.py --columns 88 --copies 20

Releases are by `Factors` at ε = 1, δ = 1e-6. Each command asks two questions, and the later ones others than the first.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
import gapless.demo
from gapless.schema import Categorical, Integer, Ordinal, Schema
from gapless.schema.columns import Column

QUESTIONS = {
    14: [["mean(systolic) by sex", "median(bmi)"], ["mean(bmi)", "proportion(age >= 60) by sex"]],
    88: [["mean(x0) by x2", "median(x4)"], ["mean(x8)", "proportion(x2 == b)"]],
}


def wide(columns: int = 88, rows: int = 5_000) -> tuple[pl.DataFrame, Schema]:
    """Four factors behind numbers in learned bins and levels; a tenth of every fifth column is missing."""
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((rows, 4))
    frame: dict[str, pl.Series] = {}
    schema: list[Column] = []
    for number in range(columns):
        name, gap = f"x{number}", number % 5 == 0
        score = factors @ rng.normal(0, 0.5, 4) + rng.standard_normal(rows)
        if number % 4 == 0:
            values = np.clip(np.round(50 + 12 * score), 0, 100).astype(int)
            schema.append(Integer(name, bounds=(0, 100), bins="learned", may_be_missing=gap))
        else:
            kind = Ordinal if number % 2 else Categorical
            values = np.array(list("abcd"))[np.digitize(score, [-1, 0, 1])]
            schema.append(kind(name, list("abcd"), may_be_missing=gap))
        frame[name] = pl.Series(values)
        if gap:
            frame[name] = pl.select(pl.when(pl.Series(rng.random(rows) >= 0.1)).then(frame[name])).to_series()
    return pl.DataFrame({name: values.alias(name) for name, values in frame.items()}), Schema("wide", schema)


def seconds(*command: object) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "gapless", *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="*", choices=(14, 88), default=(14, 88))
    parser.add_argument("--copies", type=int, default=20)
    given = parser.parse_args()
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    print("| columns | release | copies | first | later | megabytes kept |\n|---:|---:|---:|---:|---:|---:|")
    for columns in given.columns:
        demo = Path(gapless.demo.__file__).parent
        frame, schema = (demo / "nhanes.csv.gz", Schema.read(demo / "nhanes.toml")) if columns == 14 else wide()
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(frame, Path):  # a register is written beside a file that is read
                frame = Path(shutil.copy(frame, folder))
            release, start = Path(folder) / "release", os.times()
            budget = gl.Budget(1, 1e-6)
            people = gl.read(frame, schema, protect=gl.Rows(1), budget=budget, ledger=f"{folder}/ledger")
            gl.release(people, release, spend=people.ledger.left, method="factors")
            made = os.times().user + os.times().system - start.user - start.system
            first, later = (
                seconds("estimate", release, *asked, "--copies", given.copies) for asked in QUESTIONS[columns]
            )
            size = (release / "copies.cache").stat().st_size / 1e6
            cells = [columns, f"{made:.0f}", given.copies, f"{first:.1f}", f"{later:.1f}", f"{size:.1f}"]
            print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
