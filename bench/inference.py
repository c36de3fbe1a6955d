"""Coverage of intervals from copies: samples from a known population, released, pooled, and compared with the truth.

    python bench/inference.py run --samples 40               all cells; results are kept, and a run goes on from them
    python bench/inference.py run --cells mst,1 aim,3        some of them
    python bench/inference.py run --cells mst,1,mcar         with a fifth of four columns missing
    python bench/inference.py table                          what was kept, against the targets
    python bench/inference.py bound --samples 20             the widths that the best linear estimates would have
    python bench/inference.py speed                          20 copies of Adult, 15 columns
    python bench/inference.py run --table br2000 …           another population, looked at once

The population is Adult (7 columns, coarse cells, complete rows), a sample 5,000 rows with replacement, δ = 1e-6; the
seed of a sample is its number. Noise is that of a release: it cannot be seeded. Tables are looked for in ../shared.
"""

import argparse
import gc
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
import synth
from gapless.inference.estimates import Estimates, estimates_of
from gapless.schema import Categorical, Ordinal, Schema

ROWS = 5_000
COPIES, GAPPED_COPIES = 20, 10  # with gaps there are as many replicates
DELTA = 1e-6
METHODS = {"mst": gl.MST, "aim": gl.AIM, "privbayes": gl.PrivBayes, "mixture": gl.Mixture}
COMPLETE = [f"{method},{epsilon}" for method in METHODS for epsilon in (1, 3)]
CELLS = [*COMPLETE, *(f"{method},1,{gaps}" for method in METHODS for gaps in ("mcar", "mar"))]
RATE = 0.2  # of gaps
ONE_WAY = 4  # the first estimands are of one column
MANY = ("edu", "sex", "hrs", "age", "mar", "inc")
LOOKS = {  # at which columns each estimand looks, in sets of which each must have been measured in one table
    "mean age": [("age",)],
    "mean hrs": [("hrs",)],
    "P(inc)": [("inc",)],
    "P(F)": [("sex",)],
    "P(inc|F)": [("inc", "sex")],
    "P(inc|mar)": [("inc", "mar")],
    "hrs|F": [("hrs", "sex")],
    "P(inc|edu)": [("inc", "edu")],
    "P(inc|F,edu)": [("inc", "sex", "edu")],
    "hrs ~ age: x1": [("hrs", "age")],
    "inc ~ edu: x1": [("inc", "edu")],
    **{f"inc ~ many: x{number}": list(itertools.combinations(MANY, 2)) for number in (1, 2, 3)},
    "logit edu": [("edu", "sex", "inc")],
    "logit sex": [("edu", "sex", "inc")],
}


class Population:
    """Codes and the numbers they stand for, public; estimands as functions of a table."""

    def __init__(self, name):
        frame = pl.read_csv(synth.SHARED / "data" / f"{name}.csv.gz").drop_nulls()
        self.columns = {"adult": adult, "bank": bank, "br2000": br2000}[name](frame)
        self.gappy = ("edu", "hrs", "inc", "mar")
        self.codes = np.stack([codes for codes, _ in self.columns.values()], axis=1)
        self.names = list(self.columns)
        self.numbers = [numbers for _, numbers in self.columns.values()]

    def schema(self, *, gaps):
        return Schema(
            "population",
            [
                Ordinal(name, [float(x) for x in numbers], may_be_missing=gaps and name in self.gappy)
                if len(set(numbers)) == len(numbers)
                else Categorical(name, list(map(str, range(len(numbers)))))
                for name, numbers in zip(self.names, self.numbers, strict=True)
            ],
        )

    def table(self, codes, schema):
        return gl.Table(schema, list(codes.T), rows=len(codes))

    def estimators(self):
        """Names of estimands, and a function from a table to them: of one column, of two, of more."""
        return {
            "means": self._means,
            "hrs ~ age": lambda t: self._ols(t, "hrs", ["age"]),
            "inc ~ edu": lambda t: self._ols(t, "inc", ["edu"]),
            "inc ~ many": lambda t: self._ols(t, "inc", ["edu", "sex", "hrs", "age", "married"]),
            "logit": self._logit,
        }

    def value(self, table, name):
        if name == "married":
            return (table.codes[self.names.index("mar")] == 1) * 1.0
        place = self.names.index(name)
        return self.numbers[place][table.codes[place].astype(np.int64)]

    def _means(self, table):
        age, edu, hrs, sex, inc, married = (
            self.value(table, n) for n in ("age", "edu", "hrs", "sex", "inc", "married")
        )
        female, high = sex == 1, edu >= self.numbers[1][4]
        found = {
            "mean age": age,
            "mean hrs": hrs,
            "P(inc)": inc,
            "P(F)": sex,
            "P(inc|F)": inc[female],
            "P(inc|mar)": inc[married == 1],
            "hrs|F": hrs[female],
            "P(inc|edu)": inc[high],
            "P(inc|F,edu)": inc[female & high],
        }
        return {k: (x.mean(), x.var(ddof=1) / len(x)) if len(x) > 1 else (np.nan, np.nan) for k, x in found.items()}

    def _ols(self, table, y, xs):
        """Coefficients with HC1 variances, as statsmodels gives them, in a sixth of its time."""
        design = np.column_stack([np.ones(table.rows), *(self.value(table, x) for x in xs)])
        explained = self.value(table, y)
        bread = np.linalg.inv(design.T @ design)
        values = bread @ (design.T @ explained)
        left = design * (explained - design @ values)[:, None]
        variances = np.diag(bread @ (left.T @ left) @ bread) * table.rows / (table.rows - len(values))
        names = ("const", *(f"x{number}" for number in range(1, len(values))))
        return Estimates(names, values, variances, np.column_stack([design, explained]))

    def _logit(self, table):
        edu, sex, inc = (self.value(table, name) for name in ("edu", "sex", "inc"))
        cell = (table.codes[self.names.index("edu")] * np.int64(2) + table.codes[self.names.index("sex")]).astype(
            np.int64
        )
        rows, successes = np.bincount(cell), np.bincount(cell, inc)
        first = np.unique(cell, return_index=True)[1]
        rows, successes = rows[rows > 0], successes[rows > 0]
        design = np.column_stack([np.ones(len(first)), edu[first] - 10, sex[first]])
        beta = np.zeros(3)
        for _ in range(12):
            probability = 1 / (1 + np.exp(-design @ beta))
            beta += np.linalg.solve(
                (design.T * rows * probability * (1 - probability)) @ design,
                design.T @ (successes - rows * probability),
            )
        bread = np.linalg.inv((design.T * rows * probability * (1 - probability)) @ design)
        filling = (design.T * (successes * (1 - probability) ** 2 + (rows - successes) * probability**2)) @ design
        variances = np.diag(bread @ filling @ bread)
        return {"logit edu": (beta[1], variances[1]), "logit sex": (beta[2], variances[2])}


def cut(series, edges):
    return np.searchsorted(np.array(edges), series.to_numpy(), side="right").astype(np.int64)


def levels(series, groups):
    return series.replace_strict(groups, default=0, return_dtype=pl.Int64).to_numpy()


def adult(frame):
    marital = levels(
        frame["marital-status"], {"Married-civ-spouse": 1, "Married-AF-spouse": 1, "Never-married": 2, "Widowed": 3}
    )
    race = frame["race"].cast(pl.Categorical).to_physical().to_numpy().astype(np.int64)
    return {
        "age": (cut(frame["age"], [25, 30, 35, 40, 45, 50, 60]), np.array([21, 27, 32, 37, 42, 47, 54, 66.0])),
        "edu": (cut(frame["education-num"], [9, 10, 11, 13, 14]), np.array([7, 9, 10, 11.5, 13, 14.5])),
        "mar": (marital, np.arange(4.0)),
        "sex": ((frame["sex"] == "Female").to_numpy().astype(np.int64), np.arange(2.0)),
        "race": (race, np.arange(float(race.max() + 1))),
        "hrs": (cut(frame["hours-per-week"], [35, 40, 41, 50]), np.array([24, 37, 40, 45, 57.0])),
        "inc": ((frame["income"] == ">50K").to_numpy().astype(np.int64), np.arange(2.0)),
    }


def bank(frame):
    """Names are Adult's for what stands in their place: balance for education, housing for sex, duration for hours."""
    marital = levels(frame["marital"], {"married": 1, "single": 2})
    job = frame["job"].cast(pl.Categorical).to_physical().to_numpy().astype(np.int64) % 5
    return {
        "age": (cut(frame["age"], [28, 32, 36, 40, 46, 52, 60]), np.array([25, 30, 34, 38, 43, 49, 56, 66.0])),
        "edu": (cut(frame["balance"], [0, 200, 500, 1200, 3000]), np.array([-3, 1, 3.5, 8, 20, 60.0])),
        "mar": (marital, np.arange(3.0)),
        "sex": ((frame["housing"] == "yes").to_numpy().astype(np.int64), np.arange(2.0)),
        "race": (job, np.arange(5.0)),
        "hrs": (cut(frame["duration"], [100, 180, 260, 400]), np.array([0.6, 1.4, 2.2, 3.2, 7.0])),
        "inc": ((frame["y"] == "yes").to_numpy().astype(np.int64), np.arange(2.0)),
    }


def br2000(frame):
    """Names are Adult's for what stands in their place."""
    codes = {word: code for code, word in enumerate(("zero", "one", "two", "three", "four"))}
    return {
        "age": (cut(frame["a5"], [12, 17, 22, 26, 31, 36, 43]), np.array([8, 14, 19, 24, 28, 33, 39, 52.0])),
        "edu": (cut(frame["a3"], [1, 2, 3, 4, 6]), np.array([0, 1, 2, 3, 4.5, 7.5])),
        "mar": (levels(frame["a10"], codes), np.arange(4.0)),
        "sex": ((frame["a1"] == "one").to_numpy().astype(np.int64), np.arange(2.0)),
        "race": (levels(frame["a2"], codes), np.arange(5.0)),
        "hrs": (cut(frame["a13"], [12, 20, 30, 40]), np.array([6, 16, 25, 35, 52.0])),
        "inc": ((frame["a14"] == "one").to_numpy().astype(np.int64), np.arange(2.0)),
    }


def gapped(population, codes, gaps, rng):
    """Gaps in four columns: completely at random, or by whether age, always observed, is above its middle."""
    older = codes[:, 0] >= 4
    rate = np.full(len(codes), RATE)
    if gaps == "mar":
        rate = RATE * np.where(older, 0.8, 0.2) / np.where(population.codes[:, 0] >= 4, 0.8, 0.2).mean()
    codes = codes.copy()
    for name in population.gappy:
        place = population.names.index(name)
        codes[rng.random(len(codes)) < rate, place] = len(population.numbers[place])
    return codes


def fitted(population, cell, number):
    """One release, and the rows behind it as they would be without gaps."""
    method, epsilon, *gaps = cell.split(",")
    rng = np.random.default_rng([number, 17])
    codes = population.codes[rng.integers(len(population.codes), size=ROWS)]
    schema = population.schema(gaps=bool(gaps))
    seen = gapped(population, codes, gaps[0], rng) if gaps else codes
    with tempfile.TemporaryDirectory() as folder:
        people = gl.read(
            population.table(seen, schema).to_polars(),
            schema,
            protect=gl.Rows(1),
            budget=gl.Budget(float(epsilon), DELTA),
            ledger=f"{folder}/ledger",
        )
        return METHODS[method]().fit(people, spend=people.ledger.left), codes


def sample(population, cell, number):
    """One release and its pooled estimates: for each estimand what was found, and at what cost."""
    begin = time.process_time()
    model, codes = fitted(population, cell, number)
    after = time.process_time()
    copies = model.copies(COPIES if cell in COMPLETE else GAPPED_COPIES, seed=number)
    list(copies)
    copied = time.process_time()
    real, naive = population.table(codes, population.schema(gaps=False)), model.sample(seed=number)
    found = {}
    for label, estimator in population.estimators().items():
        pooled = gl.pool(copies, estimator)
        for which, table in (("real", real), ("naive", naive)):
            for name, value, variance in naive_estimates(label, estimator, table):
                found.setdefault(name, {})[which] = [value, 1.96 * variance**0.5]
        for estimate in pooled.estimates:
            if (name := shown(label, estimate.name)) is not None:
                half = None if estimate.interval is None else (estimate.interval[1] - estimate.interval[0]) / 2
                found[name]["pooled"] = [estimate.value, half]
                is_refused = estimate.interval is None and "not supported by this release" in estimate.unsupported
                found[name]["reported"] = is_refused or coverage(population, model, LOOKS[name])
    return {
        "cell": cell,
        "sample": number,
        "fit": after - begin,
        "copy": (copied - after) / len(copies),
        "all": time.process_time() - begin,
        "found": found,
    }


def coverage(population, model, looks):
    """Whether the tables of a release hold what an estimand looks at: here declared, where pool finds it out."""
    sizes = model.measurements.sizes(model.schema)
    measured = [
        {c for c, size in zip(table.columns, table.counts.shape, strict=True) if size == sizes[c]}
        for table in model.measurements.tables
    ]
    places = [{population.names.index(name) for name in names} for names in looks]
    return all(any(need <= table for table in measured) for need in places)


def shown(label, name):
    """An estimand's name; of regressions up to three slopes are looked at."""
    if "~" not in label:
        return name
    return f"{label}: {name}" if name in ("x1", "x2", "x3") else None


def naive_estimates(label, estimator, table):
    estimates = estimates_of(estimator(table))
    for name, value, variance in zip(estimates.names, estimates.values, estimates.variances, strict=True):
        if shown(label, name) is not None:
            yield shown(label, name), value, variance


def run(options):
    population = Population(options.table)
    path = Path(options.results)
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(record["cell"], record["sample"]) for record in kept}
    end = time.monotonic() + 60 * options.minutes
    gc.disable()  # once after each sample is enough
    with path.open("a") as file:
        for number, cell in itertools.product(range(options.samples), options.cells or CELLS):
            if (cell, number) not in done and time.monotonic() < end:
                record = sample(population, cell, number)
                gc.collect()
                file.write(json.dumps(record) + "\n")
                file.flush()
    table(options)


def table(options):
    population = Population(options.table)
    whole = population.table(population.codes, population.schema(gaps=False))
    truth = {}
    for label, estimator in population.estimators().items():
        truth |= {name: value for name, value, _ in naive_estimates(label, estimator, whole)}
    records = [json.loads(line) for line in Path(options.results).read_text().splitlines()]
    one_way = list(truth)[:ONE_WAY]
    head = (
        "cell",
        "samples",
        "one-way",
        "inside",
        "least",
        "width",
        "naive",
        "outside",
        "naive out",
        "unreported",
        "s/copy",
        "s all",
        "least is",
    )
    print(f"| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 2)}---|")
    verdicts = {}
    for cell in dict.fromkeys(record["cell"] for record in records):
        some = [record for record in records if record["cell"] == cell]
        hits, naive, outside, widths = {}, {}, [], []
        for record in some:
            for name, found in record["found"].items():
                value, half = found["pooled"]
                guess, error = found["naive"]
                hit = abs(guess - truth[name]) <= error
                if half is None:
                    outside.append(hit)
                    continue
                hits.setdefault(name, []).append(abs(value - truth[name]) <= half)
                naive.setdefault(name, []).append(hit)
                if name not in one_way:
                    widths.append(half / found["real"][1])
        joint = [hit for name, found in hits.items() if name not in one_way for hit in found]
        rates = {name: float(np.mean(found)) for name, found in hits.items() if len(found) >= 15}
        worst = min(rates, key=lambda name: rates[name], default="")
        row = [
            np.mean([hit for name in one_way for hit in hits[name]]),
            np.mean(joint) if joint else np.nan,
            rates.get(worst, np.nan),
            np.median(widths) if widths else np.nan,
            np.mean([hit for name, found in naive.items() if name not in one_way for hit in found] or [np.nan]),
            len(outside) / sum(len(record["found"]) for record in some),
            np.mean(outside) if outside else np.nan,
            sum(not found["reported"] for record in some for found in record["found"].values()),
            np.median([record["copy"] for record in some]),
            np.median([record["all"] for record in some]),
        ]
        numbers = [f"{number:.2f}" if number > 1 else f"{number:.3f}" for number in row]
        print(
            f"| {', '.join(cell.split(','))} | {len(some)} | {' | '.join(numbers)} | {worst.replace('|', ' given ')} |"
        )
        verdicts |= _against_targets(cell, row)
        if options.verbose:
            for name, found in hits.items():
                value = [record["found"][name] for record in some if record["found"][name]["pooled"][1] is not None]
                bias = np.mean([(f["pooled"][0] - truth[name]) / (f["real"][1] / 1.96) for f in value])
                spread = np.std([(f["pooled"][0] - truth[name]) / (f["real"][1] / 1.96) for f in value])
                width = np.median([f["pooled"][1] / f["real"][1] for f in value])
                line = f"{np.mean(found):.3f}  width {width:.2f}  bias {bias:+.2f}  sd {spread:.2f}"
                print(f"    {name:<18} {len(found):4d} {line}")

    print()
    for target, is_met in verdicts.items():
        print(f"{'holds' if is_met else 'FAILS'}   {target}")


def _against_targets(cell, row):
    """What must be shown of a cell, and whether it is."""
    one_way, joint, worst, width, _, _, _, unreported = row[:8]
    _, epsilon, *gaps = cell.split(",")
    if gaps:
        return {
            f"{cell}: inside {joint:.3f} ≥ .92": joint >= 0.92,
            f"{cell}: unreported {unreported} = 0": unreported == 0,
        }
    most = 1.7 if epsilon == "1" else 1.25
    targets = {
        f"{cell}: one-way {one_way:.3f} ≥ .92": one_way >= 0.92,
        f"{cell}: inside {joint:.3f} ≥ .93": joint >= 0.93,
        f"{cell}: width {width:.2f} ≤ {most}": width <= most,
        f"{cell}: unreported {unreported} = 0": unreported == 0,
    }
    return targets if np.isnan(worst) else targets | {f"{cell}: worst {worst:.3f} ≥ .88": worst >= 0.88}


def bound(options):
    """The width that the best linear unbiased estimates from the tables of a release would have.

    An estimate is, to first order, a sum over rows of its influence c. With A the matrix that counts tables of noise 1
    from the numbers of rows in all combinations of cells, weights w with A'w = c make it from the tables; the least
    |w|², that of w = (AA')⁺ A c, is its variance (Gauss, Markov), and beside it stands that of a sample of rows.
    """
    population = Population(options.table)
    sizes = [len(numbers) for numbers in population.numbers]
    codes = np.indices(sizes).reshape(len(sizes), -1)
    probabilities = np.bincount(np.ravel_multi_index(tuple(population.codes.T), sizes), minlength=codes.shape[1]) / len(
        population.codes
    )
    all_influences = influences(population, codes, probabilities)
    for cell in options.cells or COMPLETE:
        widths = {}
        for number in range(options.samples):
            model, _ = fitted(population, cell, number)
            places, noise = counted(model.measurements, codes)
            many = [int(place.max()) + 1 for place in places]
            gram = np.block([
                [
                    np.bincount(place * k + other, minlength=n * k).reshape(n, k) / (s * t)
                    for other, k, t in zip(places, many, noise, strict=True)
                ]
                for place, n, s in zip(places, many, noise, strict=True)
            ])  # fmt: skip
            inverse = np.linalg.pinv(gram, hermitian=True, rcond=1e-9)
            for name, influence in list(all_influences.items())[ONE_WAY:]:
                if coverage(population, model, LOOKS[name]):
                    seen = [np.bincount(place, influence) / s for place, s in zip(places, noise, strict=True)]
                    weights = inverse @ np.concatenate(seen)
                    width = (1 + weights @ weights / ROWS / (probabilities @ influence**2)) ** 0.5
                    widths.setdefault(name, []).append(width)
        middle = np.median(np.concatenate(list(widths.values())))
        print(f"{cell:<12} {options.samples} samples, best linear unbiased width {middle:.2f}", flush=True)
        for name, found in widths.items() if options.verbose else ():
            print(f"    {name:<18} {len(found):4d}  width {np.median(found):.2f}")


def counted(measurements, codes):
    """For each table in which of its cells each combination is, and the noise."""
    places, noise = [], []
    for number, table in enumerate(measurements.tables):
        axes = [codes[c] for c in table.columns]
        merged = measurements.nodes[number].merged if measurements.nodes else ()
        axes = [merged[axis][code] if axis < len(merged) else code for axis, code in enumerate(axes)]
        places.append(np.ravel_multi_index(tuple(axes), table.counts.shape))
        noise.append(table.noise_std)
    return places, noise


def influences(population, codes, probabilities):
    """What a row adds to each estimate, × the number of rows: of means in groups and of regressions."""
    rows = population.table(codes.T, population.schema(gaps=False))
    age, edu, hrs, sex, inc, married = (
        population.value(rows, name) for name in ("age", "edu", "hrs", "sex", "inc", "married")
    )

    def mean(values, group):
        share = probabilities * group / (probabilities @ group)
        return (values - share @ values) * group / (probabilities @ group)

    def slopes(explained, *columns):
        design = np.column_stack([np.ones(len(probabilities)), *columns])
        gram = np.linalg.inv((design.T * probabilities) @ design)
        left = explained - design @ (gram @ (design.T @ (probabilities * explained)))
        return ((design * left[:, None]) @ gram).T[1:]

    every, women, high = np.ones(len(probabilities)), sex == 1, edu >= population.numbers[1][4]
    singles = {"mean age": age, "mean hrs": hrs, "P(inc)": inc, "P(F)": sex}
    groups = {"P(inc|F)": women, "P(inc|mar)": married == 1, "P(inc|edu)": high, "P(inc|F,edu)": women & high}
    return {
        **{name: mean(values, every) for name, values in singles.items()},
        **{name: mean(inc, group) for name, group in groups.items()},
        "hrs|F": mean(hrs, women),
        "hrs ~ age: x1": slopes(hrs, age)[0],
        "inc ~ edu: x1": slopes(inc, edu)[0],
        **{
            f"inc ~ many: x{number}": slope
            for number, slope in enumerate(slopes(inc, edu, sex, hrs, age, married)[:3], start=1)
        },
    }


def speed(_):
    """20 copies of Adult, 15 columns with their gaps."""
    with tempfile.TemporaryDirectory() as folder:
        tables = synth.Tables(folder, sys.executable)
        schema = gl.Schema.read(tables.schema("adult"))
        for name, method in METHODS.items():
            people = gl.read(
                synth.copied(tables.data("adult"), folder),
                schema,
                protect=gl.Rows(1),
                budget=gl.Budget(1.0, DELTA),
                ledger=f"{folder}/{name}.ledger",
            )
            begin = time.process_time()
            model = method().fit(people, spend=people.ledger.left)
            fitted = time.process_time()
            list(model.copies(20, seed=1))
            copied = time.process_time()
            print(f"{name:<10} fit {fitted - begin:6.1f} s   20 copies {copied - fitted:6.1f} s", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table", "bound", "speed"))
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then no other sample is begun")
    parser.add_argument("--cells", nargs="*")
    parser.add_argument("--table", default="adult")
    parser.add_argument("--results", default="inference.jsonl")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    {"run": run, "table": table, "bound": bound, "speed": speed}[given.what](given)
