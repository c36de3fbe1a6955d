"""The experiments of [MD] §6 with our methods: what the paper claims against what we see.

    python bench/paper.py                    small: Adult, one run each, F1 for one label in Figure 3
    python bench/paper.py --full             Adult, Bank and BR2000, F1 for one label of each in Figure 3: two hours
    python bench/paper.py --full --runs 3 --every-label       as in the paper; days, nearly all of them for classifiers
    python bench/paper.py --only-print       figures and claims again, from what was measured before

Figure 2 compares the strategies at 20 % MCAR, Figure 3 the missing rate, Figure 4 the mechanism (MAR-SR: as many
complete rows as MCAR leaves), Figure 5 the budget. Every measurement is a line of bench/results/paper.jsonl; what is
there is not measured again, so a run that was stopped goes on. Delete the file after a change of the methods. Figures
and the table of claims are written beside it. The tables are looked for in ../shared, next to the repository; those
with gaps are made here, by `gapless.MCAR`, `MAR` and `MNAR`, with a seed of their own for every run.

PrivBayes spends a pure budget as in the paper, AIM and Kamino δ = 1e-6. Levels, bounds and bins are those of the public
truth.
"""

import argparse
import importlib.util
import json
import math
import statistics
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np

import gapless as gl
from gapless.evaluate import f1_scores, kway_distance, mean_f1
from gapless.missing import ImputeFirst
from gapless.synth import METHODS, TREATMENTS
from gapless.testing.noise import no_noise, scaled_noise

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared"
TABLES = ("adult", "bank", "br2000")
# kamino on complete rows is [MD]'s Kamino, on observed cells its KaminoI; misgan is DP-MisGAN, whose baselines on
# complete rows are dpautogan and dpctgan.
COMPARED = ("privbayes", "aim", "kamino", "misgan", "dpautogan", "dpctgan")
SHARES = (0.25, 0.5, 0.75)  # of the budget, for an imputer that pays
LABELS = {"adult": "income", "bank": "y", "br2000": "a14"}  # nine classifiers take a quarter of a minute for each


@dataclass(frozen=True)
class Setting:
    """One point of a figure."""

    table: str
    method: str
    missing: str  # "no gaps" for the baseline that sees the truth
    mechanism: str = "MCAR"
    rate: float = 0.2
    epsilon: float = 1.0
    share: float = 0.0  # for an imputer that pays

    @property
    def delta(self):
        return 0.0 if self.method == "privbayes" else 1e-6


# ---------------------------------------------------------------- the figures' settings


def strategies(tables):
    """Figure 2."""
    for table in tables:
        for method in COMPARED:
            yield Setting(table, method, "no gaps", rate=0.0)
            for missing in ("complete-rows", "impute-random", "observed", "extended"):
                yield Setting(table, method, missing)
            for share in SHARES:
                yield Setting(table, method, "impute-mean", share=share)
            if method != "privbayes":  # whose budget is pure: a training needs δ > 0
                yield Setting(table, method, "impute-kamino", share=SHARES[0])


def rates(tables):
    """Figure 3."""
    for table in tables:
        for method in COMPARED:
            yield Setting(table, method, "no gaps", rate=0.0)
            for rate in (0.1, 0.2, 0.3):
                for missing in ("complete-rows", "observed", "extended"):
                    yield Setting(table, method, missing, rate=rate)


def mechanisms(tables):
    """Figure 4."""
    for table in tables:
        for method in COMPARED:
            for mechanism in ("MCAR", "MAR", "MNAR", "MAR-SR"):
                for missing in ("complete-rows", "observed", "extended"):
                    yield Setting(table, method, missing, mechanism=mechanism, rate=0.1)


def budgets(tables):
    """Figure 5."""
    for method in COMPARED:
        for epsilon in (0.5, 1.0, 3.0, 5.0, 10.0, math.inf):
            for missing in ("complete-rows", "observed", "extended"):
                yield Setting(tables[0], method, missing, rate=0.1, epsilon=epsilon)


def takes(method, missing):
    """Whether a method takes a treatment of gaps."""
    return isinstance(TREATMENTS[missing](), METHODS[method].treatments)


def declared(figure):
    """A figure's settings without treatments of gaps that a method does not take."""

    def some(tables):
        for setting in figure(tables):
            if setting.missing == "no gaps" or takes(setting.method, setting.missing):
                yield setting

    return some


FIGURES = {
    "figure 2": declared(strategies),
    "figure 3": declared(rates),
    "figure 4": declared(mechanisms),
    "figure 5": declared(budgets),
}


# ---------------------------------------------------------------- one measurement


class Truths:
    """The complete tables, and the same with gaps."""

    def __init__(self):
        spec = importlib.util.spec_from_file_location("score", SHARED / "bench" / "score.py")
        if spec is None or spec.loader is None:
            raise FileNotFoundError(SHARED / "bench" / "score.py")
        self.score = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.score)
        self.known = {}

    def __getitem__(self, name):
        if name not in self.known:
            import pandas as pd

            frame = pd.read_csv(SHARED / "data" / f"{name}.csv.gz").dropna()
            schema = gl.Schema.from_toml(self.score.schema(frame, name))
            self.known[name] = gl.Table.read(frame.astype(str), schema)
        return self.known[name]

    def gapped(self, setting, repetition):
        truth = self[setting.table]
        if setting.rate == 0:
            return truth
        if setting.mechanism == "MAR-SR":
            return self._as_many_complete_rows(truth, setting.rate, repetition)
        maker = {"MCAR": gl.MCAR, "MAR": gl.MAR, "MNAR": gl.MNAR}[setting.mechanism]
        return maker(setting.rate).apply(truth, seed=repetition)

    @staticmethod
    def _as_many_complete_rows(truth, rate, repetition):
        """MAR at the rate that leaves as many complete rows as MCAR at `rate`, by bisection."""
        wanted = complete(gl.MCAR(rate).apply(truth, seed=repetition))
        low, high = rate, 0.9
        for _ in range(12):
            middle = (low + high) / 2
            table = gl.MAR(middle).apply(truth, seed=repetition)
            low, high = (middle, high) if complete(table) > wanted else (low, middle)
        return table


def complete(table):
    """How many rows have no gap."""
    seen = [codes < column.size for codes, column in zip(table.codes, table.schema.columns, strict=True)]
    return int(np.logical_and.reduce(seen).sum())


def silent(method):
    """No noise; lots of generative networks, whose scale matters, are drawn all the same."""
    return scaled_noise(1e-9) if "gan" in method else no_noise()


def measure(truths, setting, repetition, labels):
    truth, gapped = truths[setting.table], truths.gapped(setting, repetition)
    mode = setting.missing
    if mode == "no gaps":
        mode = "extended" if takes(setting.method, "extended") else "observed"
    missing = TREATMENTS[mode]()
    if setting.share and isinstance(missing, ImputeFirst):
        missing = ImputeFirst(missing.imputer, share=setting.share)
    private = setting.epsilon < math.inf
    with tempfile.TemporaryDirectory() as folder, nullcontext() if private else silent(setting.method):
        people = gl.read(
            gapped.to_text(),
            gapped.schema,
            protect=gl.Rows(1),
            budget=gl.Budget(setting.epsilon if private else 100.0, setting.delta),
            ledger=Path(folder) / "table.ledger",
        )
        model = METHODS[setting.method](missing=missing).fit(people, spend=people.ledger.left)
    fake = model.sample(truth.rows, seed=repetition)
    fake = gl.Table(truth.schema, fake.codes, rows=fake.rows)  # filled: the same cells under the schema without gaps
    found = {
        "complete_rows": complete(gapped),
        "one_way": kway_distance(truth, fake, k=1),
        "two_way": kway_distance(truth, fake, k=2),
    }
    if labels is not None:
        found["f1"] = mean_f1(f1_scores(truth, fake, labels=labels or None, seed=repetition))
    return found


# ---------------------------------------------------------------- results


class Results:
    """One line for each measurement."""

    def __init__(self, path):
        self.path = path
        self.records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def of(self, setting):
        wanted = asdict(setting)
        return [record for record in self.records if all(record[name] == value for name, value in wanted.items())]

    def add(self, record):
        self.records.append(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def mean(self, setting, metric):
        values = [record[metric] for record in self.of(setting) if metric in record]
        return statistics.mean(values) if values else None


def run(options, results):
    truths = Truths()
    tables = TABLES if options.full else TABLES[:1]
    wanted = {}  # setting: whether F1 is wanted
    for name, figure in FIGURES.items():
        for setting in figure(tables):
            f1 = name == "figure 3" or (options.every_label and name == "figure 2")
            wanted[setting] = wanted.get(setting, False) or f1
    jobs = [
        (setting, repetition, f1)
        for repetition in range(options.runs)
        for setting, f1 in wanted.items()
        if setting.method in options.methods
        if not any(record["repetition"] == repetition for record in results.of(setting))
    ]
    for number, (setting, repetition, f1) in enumerate(jobs, 1):
        labels = None if not f1 else [] if options.every_label else [LABELS[setting.table]]
        found = measure(truths, setting, repetition, labels)
        results.add(asdict(setting) | {"repetition": repetition} | found)
        figures = ", ".join(f"{name} {value:.4g}" for name, value in found.items())
        print(f"  {number}/{len(jobs)} {setting}: {figures}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- what the paper claims, and what we see

METRICS = {"one_way": "1-way distance", "two_way": "2-way distance", "f1": "F1"}
ADAPTIVE = ("observed", "extended")
CLAIMED = {"one_way": 68, "two_way": 66, "f1": 24}  # percent, [MD] §6.2.2


def gains(results, settings, missing, metric):
    """How much better than complete rows, as a share, wherever both were measured."""
    found = []
    for setting in settings:
        ours = results.mean(replace(setting, missing=missing), metric)
        base = results.mean(replace(setting, missing="complete-rows"), metric)
        if setting.missing == missing and ours is not None and base:
            found.append(ours / base - 1 if metric == "f1" else 1 - ours / base)
    return found


def better_everywhere(results, tables, missing):
    points = [setting for figure in (rates, mechanisms) for setting in figure(tables)]
    found = {name: gains(results, points, missing, metric) for metric, name in METRICS.items()}
    return ", ".join(f"{name} {sum(g > 0 for g in some)} of {len(some)}" for name, some in found.items() if some)


def up_to(results, tables, metric):
    found = {missing: gains(results, list(rates(tables)), missing, metric) for missing in ADAPTIVE}
    return ", ".join(f"{missing} up to {100 * max(some):.0f} %" for missing, some in found.items() if some)


def reaches_baseline(results, tables, metric):
    seen = []
    for setting in rates(tables):
        base = results.mean(replace(setting, missing="no gaps", rate=0.0), metric)
        ours = results.mean(setting, metric)
        if setting.rate == 0.1 and setting.missing in ADAPTIVE and base and ours is not None:
            seen.append(f"{setting.table} {setting.method} {setting.missing} × {ours / base:.2f}")
    return ", ".join(seen)


def order_of_strategies(results, table, method, metric):
    found = {}
    for setting in strategies([table]):
        value = results.mean(setting, metric)
        if setting.method == method and setting.missing != "no gaps" and value is not None:
            found.setdefault(setting.missing, []).append(value)
    means = {missing: statistics.mean(values) for missing, values in found.items()}
    best_first = sorted(means, key=lambda missing: means[missing], reverse=metric == "f1")
    return ", ".join(f"{missing} {means[missing]:.3f}" for missing in best_first)


def complete_rows_by_mechanism(results, table, method):
    lines = []
    for mechanism in ("MCAR", "MAR", "MAR-SR", "MNAR"):
        setting = Setting(table, method, "complete-rows", mechanism=mechanism, rate=0.1)
        if (value := results.mean(setting, "two_way")) is not None:
            lines.append(f"{mechanism} {value:.3f} ({round(results.mean(setting, 'complete_rows')):,} rows)")
    return ", ".join(lines)


def larger_budget(results, tables):
    better, steps = 0, 0
    for method, missing in product(COMPARED, ("complete-rows", *ADAPTIVE)):
        path = [s for s in budgets(tables) if s.method == method and s.missing == missing]
        values = [value for s in path if (value := results.mean(s, "two_way")) is not None]
        better += sum(later < earlier for earlier, later in pairwise(values))
        steps += max(0, len(values) - 1)
    return f"in {better} of {steps} steps"


def claims(results, tables):
    """Rows of: the claim, where it stands, what we see."""
    for missing in ADAPTIVE:
        seen = better_everywhere(results, tables, missing)
        yield f"Adaptive is better than complete rows everywhere ({missing})", "Figures 3, 4", seen
    for metric, name in METRICS.items():
        yield f"{name} improves by up to {CLAIMED[metric]} %", "Figure 3", up_to(results, tables, metric)
    for metric, name in METRICS.items():
        seen = reaches_baseline(results, tables, metric)
        yield f"At 10 % adaptive often reaches the baseline without gaps ({name})", "Figure 3", seen
    for (metric, name), table, method in product(METRICS.items(), tables, COMPARED):
        seen = order_of_strategies(results, table, method, metric)
        yield f"Adaptive best, complete rows second ({name}, best first)", f"Figure 2, {table}, {method}", seen
    for table, method in product(tables, COMPARED):
        seen = complete_rows_by_mechanism(results, table, method)
        yield "The number of complete rows matters, not the mechanism (2-way)", f"Figure 4, {table}, {method}", seen
    yield "A larger budget is better (2-way)", "Figure 5", larger_budget(results, tables)


def write_claims(results, tables, path):
    lines = ["| [MD] claims | where | we see |", "|---|---|---|"]
    lines += [f"| {claim} | {where} | {seen or 'not measured'} |" for claim, where, seen in claims(results, tables)]
    path.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


# ---------------------------------------------------------------- figures

COLOURS = {
    "no gaps": "#c0392b",
    "complete-rows": "#7f8c8d",
    "impute-random": "#c9a227",
    "impute-mean": "#8e6bbf",
    "impute-kamino": "#b5651d",
    "observed": "#2a7ab0",
    "extended": "#1d8a5b",
}
AXES = {  # what stands below a point
    "figure 2": lambda s: s.missing.removeprefix("impute-").removesuffix("-rows"),
    "figure 3": lambda s: f"{100 * s.rate:.0f} %",
    "figure 4": lambda s: s.mechanism,
    "figure 5": lambda s: "∞" if s.epsilon == math.inf else f"{s.epsilon:g}",
}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 300, 190, 44, 30, 34
STYLE = (
    "text{font-family:sans-serif;fill:#222}.title{font-size:12px;font-weight:600}.tick{font-size:10px}"
    ".grid{stroke:#ddd}.key{font-size:11px}"
)


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def lines_of(results, settings, metric, below):
    """For each treatment of gaps and each tick the mean and standard deviation; without gaps it is a level line."""
    ticks = list(dict.fromkeys(below(s) for s in settings if s.missing != "no gaps"))
    found = {}
    for setting in settings:
        values = [record[metric] for record in results.of(setting) if metric in record]
        for tick in (ticks if setting.missing == "no gaps" else [below(setting)]) if values else []:
            found.setdefault(setting.missing, {}).setdefault(tick, []).extend(values)
    return ticks, {
        missing: {tick: (statistics.mean(values), spread(values)) for tick, values in line.items()}
        for missing, line in found.items()
    }


def panel(title, ticks, lines):
    """A line for each treatment of gaps; bars are standard deviations."""
    top = 1.08 * max(mean + std for line in lines.values() for mean, std in line.values())
    wide, high = WIDTH - LEFT - 8, HEIGHT - TOP - BOTTOM
    across = {tick: LEFT + wide * (place + 0.5) / len(ticks) for place, tick in enumerate(ticks)}
    parts = [f'<text x="{LEFT}" y="18" class="title">{title}</text>']
    for value in (0, top / 2, top):
        y = TOP + high * (1 - value / top)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 4}" y="{y + 3:.1f}" class="tick" text-anchor="end">{value:.3f}</text>')
    for tick, x in across.items():
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 18}" class="tick" text-anchor="middle">{tick}</text>')
    for number, (missing, line) in enumerate(lines.items()):
        colour, points = COLOURS[missing], []
        for tick in filter(line.__contains__, ticks):
            (mean, std), x = line[tick], across[tick] + 3 * (number - len(lines) / 2)
            low, middle, tall = (TOP + high * (1 - max(0.0, v) / top) for v in (mean - std, mean, mean + std))
            points.append(f"{x:.1f},{middle:.1f}")
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{tall:.1f}" stroke="{colour}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="2.8" fill="{colour}"/>')
        dash = ' stroke-dasharray="5 3"' if missing == "no gaps" else ""
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.4"{dash}/>')
    return "".join(parts)


def draw(results, tables, folder):
    for name, figure in FIGURES.items():
        panels = []
        for table, method, (metric, label) in product(tables, COMPARED, METRICS.items()):
            settings = [s for s in figure(tables) if s.table == table and s.method == method]
            ticks, lines = lines_of(results, settings, metric, AXES[name])
            if lines:
                panels.append(panel(f"{table}, {method}: {label}", ticks, lines))
        across = 3
        tall = HEIGHT * math.ceil(len(panels) / across) + 26
        parts = [
            f'<g transform="translate({WIDTH * (n % across)},{HEIGHT * (n // across)})">{panel}</g>'
            for n, panel in enumerate(panels)
        ]
        for n, missing in enumerate(dict.fromkeys(s.missing for s in figure(tables))):
            parts.append(f'<circle cx="{14 + 120 * n}" cy="{tall - 12}" r="4" fill="{COLOURS[missing]}"/>')
            parts.append(f'<text x="{22 + 120 * n}" y="{tall - 8}" class="key">{missing}</text>')
        (folder / f"paper_{name.replace(' ', '_')}.svg").write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across * WIDTH} {tall}">'
            f'<style>{STYLE}</style><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>'
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all three tables")
    parser.add_argument("--runs", type=int, default=1, help="of each setting")
    parser.add_argument("--every-label", action="store_true", help="F1 for every label, in Figure 2 too")
    parser.add_argument("--methods", nargs="*", default=COMPARED)
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "paper.jsonl")
    options = parser.parse_args()
    if not (SHARED / "data" / "adult.csv.gz").exists():
        print("Skipped: the tables are looked for in ../shared/data, next to the repository.")
        return
    results = Results(options.results)
    if not options.only_print:
        run(options, results)
    tables = [table for table in TABLES if any(record["table"] == table for record in results.records)]
    folder = options.results.parent
    folder.mkdir(parents=True, exist_ok=True)
    draw(results, tables, folder)
    write_claims(results, tables, folder / "paper_claims.md")
    print(f"\nFigures: {folder}/paper_figure_*.svg")


if __name__ == "__main__":
    main()
