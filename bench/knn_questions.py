"""Questions to a table with gaps, as in [KNN] §6: ignoring gaps, global sensitivity, smooth Knn, HotDeck.

    python bench/knn_questions.py                      40 runs, some minutes; the tables, and box plots as SVG
    python bench/knn_questions.py --runs 5 --figure x.svg

The truth is Adult, from ../shared next to the repository: 32,561 rows, no gap in the hours of work a week. Each run
draws half of the rows, and gaps in the hours from a logistic model with the fixed coefficients below: women, the never
married, the young and the less educated answer less often, and they work fewer hours, so ignoring gaps is biased. In
the other two models few or many hours themselves make an answer less likely too, which no method can see. Errors are
against the mean or proportion of the drawn rows before the gaps were made.

Global sensitivity is [KNN]'s optimistic version: Laplace noise as if one row could fill all gaps of the table.
"""

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
from gapless.privacy import Loss
from gapless.testing.noise import no_noise

HERE = Path(__file__).resolve().parent
ADULT = HERE.parent.parent / "shared" / "data" / "adult.csv.gz"
MARITAL = [
    "Divorced",
    "Married-AF-spouse",
    "Married-civ-spouse",
    "Married-spouse-absent",
    "Never-married",
    "Separated",
    "Widowed",
]
SCHEMA = gl.Schema(
    "adult",
    [
        gl.Integer("age", bounds=(17, 90), edges=(17, 20, 30, 40, 50, 60, 70, 90)),
        gl.Categorical("sex", ["Female", "Male"]),
        gl.Integer("education", bounds=(1, 16), bins=16),
        gl.Categorical("marital", MARITAL),
        gl.Integer("hours", bounds=(1, 99), bins=99, may_be_missing=True),
    ],
)
MODELS = {  # log-odds of a gap: constant, female, never married, years below 40 / 10, education - 10, (hours - 40) / 10
    "gaps by what is matched": (-1.3, 1.0, 0.9, 0.25, -0.08, 0.0),
    "and by few hours": (-1.3, 1.0, 0.9, 0.25, -0.08, -0.25),
    "and by many hours": (-1.3, 1.0, 0.9, 0.25, -0.08, 0.25),
}
ON = ("age", "sex", "education", "marital")
CELLS = ("age", "sex", "marital")
QUESTIONS = {
    "mean, 20-59": ("mean", "age >= 20 and age < 60"),
    "mean, 20-29": ("mean", "age >= 20 and age < 30"),
    "mean, 40-49": ("mean", "age >= 40 and age < 50"),
    "share ≥ 40 h, 20-29": ("share", "age >= 20 and age < 30"),
    "share ≥ 40 h, 40-49": ("share", "age >= 40 and age < 50"),
}
METHODS = ("ignore", "global", "knn", "knn of 10", "hot deck")
EPSILONS = {"6 ln 2": 6 * math.log(2), "1": 1.0}


def load():
    if not ADULT.exists():
        raise SystemExit(f"no {ADULT.name}: it lies in ../shared/data, next to the repository")
    frame = pl.read_csv(ADULT)
    names = {"education-num": "education", "marital-status": "marital", "hours-per-week": "hours"}
    return frame.rename({"education": "school"} | names).select(SCHEMA.names)


def gapped(frame, model, rng):
    """The table with gaps in the hours, and how many there are."""
    constant, female, never, young, schooling, hours = MODELS[model]
    odds = (
        constant
        + female * (frame["sex"] == "Female").to_numpy()
        + never * (frame["marital"] == "Never-married").to_numpy()
        + young * (40 - frame["age"].to_numpy()) / 10
        + schooling * (frame["education"].to_numpy() - 10)
        + hours * (frame["hours"].to_numpy() - 40) / 10
    )
    gap = rng.random(len(odds)) < 1 / (1 + np.exp(-odds))
    return frame.with_columns(pl.when(pl.Series(gap)).then(None).otherwise(pl.col("hours")).alias("hours")), int(
        gap.sum()
    )


def question(kind, where, missing):
    if kind == "mean":
        return gl.Mean("hours", where=where, missing=missing)
    return gl.Proportion("hours >= 40", where=where, missing=missing)


def truth(frame, kind, where):
    low, high = (int(where.split()[i]) for i in (2, 6))
    hours = frame.filter((pl.col("age") >= low) & (pl.col("age") < high))["hours"].to_numpy()
    return hours.mean() if kind == "mean" else (hours >= 40).mean(), len(hours)


def one_run(frame, model, seed, folder):
    """The errors of every method at every ε to every question, on one drawn table."""
    rng = np.random.default_rng(seed)
    drawn = frame.sample(fraction=0.5, seed=seed)
    table, gaps = gapped(drawn, model, rng)
    ledger = folder / f"{model}-{seed}.ledger".replace(" ", "-")
    people = gl.read(table, SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1e6, 0), ledger=ledger)
    treatments = {
        "ignore": gl.Drop(),
        "knn": gl.Knn(on=ON),
        "knn of 10": gl.Knn(on=ON, neighbors=10, scheme="mean"),
        "hot deck": gl.HotDeck(on=CELLS, limit=2),
    }
    errors = {}
    for name, (kind, where) in QUESTIONS.items():
        true, rows = truth(drawn, kind, where)
        with no_noise():
            exact = people.ask(question(kind, where, treatments["knn"]), spend=Loss(4.0, math.inf)).estimate
        for shown, epsilon in EPSILONS.items():
            spend = Loss(epsilon, math.inf)
            for method, missing in treatments.items():
                asked = people.ask(question(kind, where, missing), spend=spend).estimate
                errors[name, shown, method] = asked - true
            reach = (gaps + 1) * (98 if kind == "mean" else 1) / rows
            errors[name, shown, "global"] = exact + rng.laplace(0, reach / epsilon) - true
    return errors, gaps / len(drawn)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--figure", type=Path, default=HERE / "results" / "knn_questions.svg")
    arguments = parser.parse_args()
    frame = load()
    panels = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            runs = [one_run(frame, model, seed, Path(folder)) for seed in range(arguments.runs)]
            share = np.mean([gaps for _, gaps in runs])
            print(f"\n{model}: {100 * share:.1f} % of the hours missing, {arguments.runs} runs, 16,280 rows each")
            for shown in EPSILONS:
                print(f"\n  root mean squared error at ε = {shown} (in brackets: median size of the error)")
                print("  " + "question".ljust(22) + "".join(method.rjust(20) for method in METHODS))
                for name in QUESTIONS:
                    found = {
                        method: np.array([errors[name, shown, method] for errors, _ in runs]) for method in METHODS
                    }
                    cells = [f"{np.sqrt((e**2).mean()):.4f} ({np.median(np.abs(e)):.4f})" for e in found.values()]
                    print("  " + name.ljust(22) + "".join(cell.rjust(20) for cell in cells))
                    panels.append((f"{name}, ε = {shown}", model, found))
    arguments.figure.parent.mkdir(parents=True, exist_ok=True)
    arguments.figure.write_text(drawing(panels), encoding="utf-8")
    print(f"\nBox plots in {arguments.figure}")


def drawing(panels):
    """Box plots as SVG: quartiles, whiskers at 5 and 95 %, the truth a line across; without global sensitivity."""
    shown = [method for method in METHODS if method != "global"]
    wide, high, columns = 230, 190, len(QUESTIONS)
    parts = []
    for number, (title, model, found) in enumerate(panels):
        x0, y0 = wide * (number % columns), high * (number // columns) + 20
        points = {method: np.quantile(found[method], [0.05, 0.25, 0.5, 0.75, 0.95]) for method in shown}
        reach = 1.1 * max(np.abs(q).max() for q in points.values())

        def at(error, y0=y0, reach=reach):
            return y0 + 90 - 60 * error / reach

        parts.append(f'<text x="{x0 + 8}" y="{y0 + 8}">{title}</text><text x="{x0 + 8}" y="{y0 + 20}">{model}</text>')
        parts.append(f'<line x1="{x0 + 30}" x2="{x0 + wide - 10}" y1="{at(0)}" y2="{at(0)}" class="truth"/>')
        parts += [
            f'<text x="{x0 + 2}" y="{at(error) + 3}" class="small">{error:+.2g}</text>' for error in (reach, 0, -reach)
        ]
        for place, (method, q) in enumerate(points.items()):
            x = x0 + 55 + 48 * place
            y = [at(error) for error in q]
            parts += [
                f'<line x1="{x}" x2="{x}" y1="{y[0]:.1f}" y2="{y[4]:.1f}"/>',
                f'<rect x="{x - 14}" y="{y[3]:.1f}" width="28" height="{y[1] - y[3]:.1f}"/>',
                f'<line x1="{x - 14}" x2="{x + 14}" y1="{y[2]:.1f}" y2="{y[2]:.1f}" class="middle"/>',
                f'<text x="{x}" y="{y0 + 166}" class="name">{method}</text>',
            ]
    size = f'width="{wide * columns}" height="{high * (len(panels) // columns) + 20}"'
    style = (
        "text{font:10px sans-serif}.small{font-size:8px;fill:#666}line{stroke:#333}rect{fill:#cfe3f5;stroke:#333}"
        ".truth{stroke:#c33}.middle{stroke-width:2}.name{text-anchor:middle}"
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    main()
