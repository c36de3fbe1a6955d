"""What constraints cost: time of sampling with and without them, and how often they are broken.

    python bench/rules.py                              all methods, a simulated table and Adult
    python bench/rules.py --methods mst aim --runs 3
    python bench/rules.py --tables simulated --rows 30000

Two rules that hold always: a dependency (education → education-num) and an inequality between rows (nobody has both
more gains and more losses than somebody else); both hold in the tables. ε = 1, δ = 1e-6, the whole budget in one fit,
columns of numbers with learned bins, as many synthetic rows as there are rows. Times are processor seconds of
`sample`, the median of the runs; `first` includes what is computed once for a model. Violations are counted in the CSV
file as it is written and read again. Distances are the mean total variation over all pairs of columns, in bins.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

import gapless as gl
from gapless.evaluate import kway_distance
from gapless.evaluate.comparison import compare_rules
from gapless.schema import Constraint
from gapless.synth import METHODS

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
BUDGET = gl.Budget(1.0, 1e-6)


def dependency(cause, effect):
    return Constraint(f't1."{cause}" == t2."{cause}" and t1."{effect}" != t2."{effect}"')


def inequality(smaller, larger):
    return Constraint(f't1."{smaller}" < t2."{smaller}" and t1."{larger}" < t2."{larger}"')


def simulated(rows):
    """Schooling that decides its years, gains or losses but never both, and four columns that depend on schooling."""
    rng = np.random.default_rng(0)
    schooling = rng.choice(12, rows, p=np.arange(1, 13) / 78)
    gains = rng.random(rows) < 0.05 + 0.01 * schooling
    amounts = np.round(np.exp(rng.normal(7, 1, rows))).clip(1, 9999).astype(int)
    losses = ~gains & (rng.random(rows) < 0.05)
    frame = pl.DataFrame(
        {
            "school": [f"level {code}" for code in schooling],
            "years": schooling + 5,
            "gain": np.where(gains, amounts, 0),
            "loss": np.where(losses, amounts, 0),
            **{f"x{i}": rng.binomial(4, (1 + schooling) / 13 * (0.9 - 0.15 * i)) for i in range(4)},
        }
    )
    columns = [
        gl.Categorical("school", [f"level {code}" for code in range(12)]),
        gl.Integer("years", bounds=(0, 20), bins="learned"),
        *(gl.Integer(name, bounds=(0, 9999), bins="learned", scale="symlog") for name in ("gain", "loss")),
        *(gl.Integer(f"x{i}", bounds=(0, 4)) for i in range(4)),
    ]
    return frame, columns, [dependency("school", "years"), inequality("gain", "loss")]


def adult(rows):
    """The census table, under the schema that is drafted for it."""
    frame = pl.read_csv(SHARED / "adult.csv.gz", infer_schema_length=None).head(rows)
    columns = gl.data.draft_schema(frame, name="adult").schema.columns
    return frame, columns, [dependency("education", "education-num"), inequality("capital-gain", "capital-loss")]


TABLES = {"simulated": simulated, "adult": adult}


def sampled(model, rows, runs):
    """The first sample, its processor seconds, and the median of later ones."""
    start = time.process_time()
    rows = model.sample(rows, seed=0)
    first = time.process_time() - start
    times = []
    for run in range(runs):
        start = time.process_time()
        model.sample(rows.rows, seed=1 + run)
        times.append(time.process_time() - start)
    return rows, first, median(times)


def main(options):
    for name in options.tables:
        frame, columns, rules = TABLES[name](options.rows)
        schemas = [gl.Schema(name, columns, constraints=chosen) for chosen in ([], rules)]
        truth = gl.Table.read(frame, schemas[1])
        counted = [f"{rule.truth.rows} rows" for rule in compare_rules(truth, truth)]
        print(f"\n{name}: {frame.height} rows, {len(columns)} columns; broken in the table: {', '.join(counted)}")
        print(f"{'method':<12} {'rules':<6} {'fit':>7} {'first':>7} {'sample':>7} {'ratio':>6} {'2-way':>7}  broken by")
        for method in options.methods:
            plain = 0.0
            for schema in schemas:
                with tempfile.TemporaryDirectory() as folder:
                    ledger = Path(folder) / "ledger"
                    table = gl.read(frame, schema, protect=gl.Rows(1), budget=BUDGET, ledger=ledger)
                    start = time.process_time()
                    model = METHODS[method]().fit(table, spend=table.ledger.left)
                    fit = time.process_time() - start
                    rows, first, again = sampled(model, frame.height, options.runs)
                    plain = plain or again
                    rows.write(Path(folder) / "rows.csv")
                    written = gl.Table.read(Path(folder) / "rows.csv", schemas[1])
                found = ", ".join(
                    f"{rule.other.rows} ({rule.other.pairs:.3%} of pairs)" for rule in compare_rules(truth, written)
                )
                far = kway_distance(truth, written, k=2)
                print(
                    f"{method:<12} {'both' if schema.constraints else 'none':<6} {fit:7.2f} {first:7.3f} {again:7.3f} "
                    f"{again / plain:6.2f} {far:7.4f}  {found}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[name for name in METHODS if name != "auto"])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--runs", type=int, default=5)
    main(parser.parse_args())
