"""What constraints cost: relations and cells of synthetic rows with and without rules, and how often these are broken.

    python bench/rules.py                                   three methods, four tables, five runs
    python bench/rules.py --methods mst privbayes --runs 2
    python bench/rules.py --tables household --rows 10000
    python bench/rules.py --json rules.jsonl                keep runs; the same command continues

All rules hold in the tables. ε = 1, δ = 1e-6, the whole budget in one fit, drafted schemas with learned bins, and as
many synthetic rows as there are rows, with gaps as observed. A run has the noise of `gapless.testing.fixed_noise`, the
same with and without rules. Errors are those of `relations.py`. Broken rules are counted in the CSV file as it is
written and read again: the share of rows that break the rule that is broken most, alone or with another row.
`worse` is the difference of the means with and without rules, in standard deviations of the runs without.
`sample` is the processor seconds of a second sample; `first` includes what is computed once for a model.
"""

import argparse
import json
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
from gapless.evaluate.comparison import compare_rules
from gapless.schema import Constraint
from gapless.synth import METHODS
from gapless.testing import fixed_noise
from relations import load, reference, score

BUDGET = gl.Budget(1.0, 1e-6)
SCORES = {"spearman": "Spearman", "cramers_v": "Cramér's V", "two_way": "2-way"}


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
    """Rules between rows of the census table."""
    frame, schema = load("adult")
    rules = [dependency("education", "education-num"), inequality("capital-gain", "capital-loss")]
    return frame.head(rows), schema.columns, rules


def household(rows):
    """13 rules on two columns of the census table and two on three; the few rows that break them are left out."""
    frame, schema = load("adult")
    status, spouse = '"marital-status"', "t1.relationship == '{}'"
    rules = [
        *(
            f"{spouse.format(name)} and t1.{status} != 'Married-civ-spouse' and t1.{status} != 'Married-AF-spouse'"
            for name in ("Husband", "Wife")
        ),
        *(
            f"{spouse.format('Unmarried')} and t1.{status} == '{name}'"
            for name in ("Married-civ-spouse", "Married-AF-spouse")
        ),
        f"{spouse.format('Husband')} and t1.sex == 'Female'",
        f"{spouse.format('Wife')} and t1.sex == 'Male'",
        *(
            f"t1.age < 18 and t1.education == '{level}'"
            for level in ("Bachelors", "Masters", "Prof-school", "Doctorate")
        ),
        f"t1.age < 18 and t1.{status} == 'Widowed'",
        "t1.education == 'Preschool' and t1.income == '>50K'",
        't1."capital-gain" > 0 and t1."capital-loss" > 0',
        f"t1.age < 22 and {spouse.format('Husband')} and t1.income == '>50K'",
        f"t1.\"capital-gain\" >= 8000 and {spouse.format('Husband')} and t1.income == '<=50K'",
    ]
    column = pl.col
    broken = (
        ((column("relationship") == "Husband") & (column("sex") == "Female"))
        | ((column("relationship") == "Wife") & (column("sex") == "Male"))
        | ((column("capital-gain") >= 8000) & (column("relationship") == "Husband") & (column("income") == "<=50K"))
    )
    return frame.filter(~broken).head(rows), schema.columns, [Constraint(rule) for rule in rules]


def nhanes(rows):
    """Rules on one row of the health survey, with gaps; all hold in it."""
    frame, schema = load("nhanes")
    rules = [
        Constraint("t1.systolic <= t1.diastolic"),
        Constraint("t1.age < 35 and t1.marital_status == 'widowed'"),
        Constraint("t1.age < 21 and t1.education == 'college graduate'"),
        Constraint("t1.smoker == 'false' and t1.cigarettes_per_day >= 1"),
    ]
    return frame.head(rows), schema.columns, rules


TABLES = {"household": household, "nhanes": nhanes, "adult": adult, "simulated": simulated}


@cache
def prepared(name, rows):
    """The frame, both schemas, the table, and the statistics of the true rows."""
    frame, columns, rules = TABLES[name](rows)
    schemas = {"none": gl.Schema(name, columns), "all": gl.Schema(name, columns, constraints=rules)}
    return frame, schemas, gl.Table.read(frame, schemas["all"]), reference(frame, schemas["none"])


def run(name, method, rules, seed, rows):
    """Fit, sample, write and score once."""
    frame, schemas, truth, known = prepared(name, rows)
    with tempfile.TemporaryDirectory() as folder, fixed_noise(seed):
        table = gl.read(frame, schemas[rules], protect=gl.Rows(1), budget=BUDGET, ledger=Path(folder) / "a.ledger")
        times = [time.process_time()]
        model = METHODS[method]().fit(table, spend=table.ledger.left)
        times.append(time.process_time())
        for _ in range(2):
            sample = model.sample(frame.height, seed=seed, gaps="as-observed")
            times.append(time.process_time())
        sample.write(Path(folder) / "rows.csv")
        written = gl.Table.read(Path(folder) / "rows.csv", schemas["all"])
    errors = score(frame, sample.to_polars(), schemas["none"], known=known)
    broken = max(rule.other.rows for rule in compare_rules(truth, written)) / frame.height
    seconds = dict(zip(("fit", "first", "sample"), np.diff(times).tolist(), strict=True))
    return {part: errors[part] for part in SCORES if part in errors} | {"broken": broken} | seconds


def key(record):
    return tuple(record[name] for name in ("table", "rows", "method", "rules", "seed"))


def summary(table, method, records):
    """Lines of the table for one method: without rules, and with them."""
    lines = []
    plain = {part: np.array([record[part] for record in records["none"]]) for part in records["none"][0]}
    for rules, found in records.items():
        cells = []
        for name in SCORES:
            if name not in plain:
                cells += ["–"]
                continue
            mean = np.mean([record[name] for record in found])
            cells += [f"{mean:.4f}"]
            if rules == "all" and len(found) > 1:
                cells[-1] += f" ({(mean - plain[name].mean()) / max(plain[name].std(ddof=1), 1e-12):+.1f})"
        cells += [f"{np.mean([record['broken'] for record in found]):.3%}"]
        cells += [f"{np.mean([record[part] for record in found]):.2f}" for part in ("fit", "first", "sample")]
        lines.append("| " + " | ".join([table, method, rules, *cells]) + " |")
    return "\n".join(lines)


def main(options):
    kept = options.json.read_text(encoding="utf-8").splitlines() if options.json and options.json.exists() else []
    records = {key(record): record for record in map(json.loads, kept)}
    names = [*SCORES.values(), "broken", "fit, s", "first, s", "sample, s"]
    print("| table | method | rules | " + " | ".join(names) + " |")
    print("|---|---|---|" + "---:|" * len(names))
    for name in options.tables:
        for method in options.methods:
            found = {rules: [] for rules in ("none", "all")}
            for seed in range(options.runs):
                for rules, runs in found.items():
                    job = {"table": name, "rows": options.rows, "method": method, "rules": rules, "seed": seed}
                    if key(job) not in records:
                        records[key(job)] = job | run(name, method, rules, seed, options.rows)
                        if options.json:
                            with options.json.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(records[key(job)]) + "\n")
                    runs.append({part: value for part, value in records[key(job)].items() if part not in job})
            print(summary(name, method, found), flush=True)
    for name in options.tables:
        frame, _, truth, _ = prepared(name, options.rows)
        broken = sum(rule.truth.rows for rule in compare_rules(truth, truth))
        print(
            f"{name}: {frame.height} rows, {len(truth.schema.columns)} columns, "
            f"{len(truth.schema.constraints)} rules; rows that break them: {broken}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["auto", "aim", "mixture"])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file of runs")
    main(parser.parse_args())
