"""Importance weights: what they repair, at the same total budget, and what the paper [IW] says of them.

    python bench/weights.py adult            what must be shown: MST and PrivBayes with calibration on Adult, five runs
    python bench/weights.py split            the share of the budget that goes to weights, for four synthesizers
    python bench/weights.py bias             debiased weights on the square and the triangle of [IW], Fig. 1
    python bench/weights.py tables           [IW] section 4 on four small tables, ε = 1 and 6: half an hour
    python bench/weights.py tables --tables iris --runs 2      some of it

All budget is counted: weights that read the private table get a part of it and synthesis the rest; `None` and the
weights that are NOT PRIVATE (LogReg, MLP) leave all of it to synthesis. δ = 1e-6. Adult is looked for in ../shared. The
small tables come with scikit-learn; their bounds are read from them, which a real release must not do. `banknote` is
simulated: two groups of four measures that overlap, as in the table of that name, which is in no package.
"""

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
import synth
from gapless.evaluate.tasks import coefficient_error, roc_auc
from gapless.weights import FewRowsWarning
from gapless.weights.logistic import log_means

DELTA = 1e-6
AT_MOST = {"mst": (20, 0.85, 0.76), "privbayes": (10, 0.93, 0.84)}  # percent to weights, required, aimed at
SYNTHESIZERS = {"mst": gl.MST, "privbayes": gl.PrivBayes, "aim": gl.AIM, "mixture": gl.Mixture}


def opened(data, schema, epsilon, folder):
    number = len(list(Path(folder).glob("*.ledger")))
    ledger = Path(folder) / f"{number}.ledger"
    return gl.read(data, schema, protect=gl.Rows(1), ledger=ledger, budget=gl.Budget(epsilon, DELTA))


def sampled(data, schema, method, epsilon, folder, *, percent, run, rows=None):
    """A sealed table of which this percentage was spent on synthetic rows, and these."""
    people = opened(data, schema, epsilon, folder)
    spend = people.ledger.left if percent == 100 else people.ledger.share(percent=percent)
    return people, method().fit(people, spend=spend).sample(rows, seed=run)


@contextlib.contextmanager
def adult():
    if not (synth.SHARED / "data" / "adult.csv.gz").exists():
        print("Skipped: Adult is looked for in ../shared, next to the repository.")
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        tables = synth.Tables(folder, sys.executable)
        schema = gl.Schema.read(tables.schema("adult"))
        truth = gl.Table.read(tables.truth("adult"), schema)
        yield tables, schema, truth, folder


def must_show(runs):
    """Adult, ε = 1: with calibration beside everything on synthesis."""
    rows = []
    with adult() as (tables, schema, truth, folder):
        for name, (percent, required, aim) in AT_MOST.items():
            method = SYNTHESIZERS[name]
            for gaps in ("adult", "adult_MCAR_0.2", "adult_MAR_0.2"):
                data = tables.truth("adult") if gaps == "adult" else tables.data(gaps)
                found = []
                for run in range(runs):
                    _, whole = sampled(data, schema, method, 1.0, folder, percent=100, run=run)
                    people, part = sampled(
                        data, schema, SYNTHESIZERS[name], 1.0, folder, percent=100 - percent, run=run
                    )
                    weights = gl.CalibrationWeights().fit(people, part, spend=people.ledger.left)
                    assert people.ledger.percentages()[1] < 1e-6
                    tried = (whole, None), (part, None), (part, weights)
                    found.append(
                        [gl.kway_distance(truth, table, k=k, weights=w) for k in (2, 1) for table, w in tried]
                        + [weights.effective_rows / len(weights)]
                    )
                mean = np.mean(found, axis=0)
                told = "–"
                if gaps == "adult":
                    told = "pass" if mean[2] <= required * mean[0] and mean[5] <= 1.1 * mean[3] else "FAIL"
                rows.append(
                    [f"{name} {100 - percent}/{percent}", gaps.replace("_", " ")]
                    + [f"{value:.4f}" for value in mean[:3]]
                    + [f"{mean[2] / mean[0]:.3f} ({required}, {aim})" if told != "–" else f"{mean[2] / mean[0]:.3f}"]
                    + [f"{value:.4f}" for value in mean[3:6]]
                    + [f"{mean[5] / mean[3]:.3f}", f"{mean[6]:.2f}", told]
                )
    print(f"\nAdult, ε = 1, δ = 1e-6, means of {runs} runs. Whole: everything on synthesis; part: before weights.\n")
    head = ["method", "table", "2-way whole", "part", "weighted", "ratio (required, aim)"]
    synth.markdown([*head, "1-way whole", "part", "weighted", "ratio (at most 1.1)", "rows in effect", "result"], rows)


def split(runs):
    """Adult: two-way distance against the percentage that goes to weights."""
    shares = (0, 5, 10, 20, 40)
    rows = []
    with adult() as (tables, schema, truth, folder):
        for name, method in SYNTHESIZERS.items():
            found = []
            for share in shares:
                scores = []
                for run in range(runs):
                    people, fake = sampled(
                        tables.truth("adult"), schema, method, 1.0, folder, percent=100 - share, run=run
                    )
                    weights = gl.CalibrationWeights().fit(people, fake, spend=people.ledger.left) if share else None
                    scores.append(gl.kway_distance(truth, fake, weights=weights))
                found.append(f"{statistics.mean(scores):.4f}")
                print(f"  {name}, {share} %: {found[-1]}", file=sys.stderr, flush=True)
            rows.append([name, *found])
    print(f"\nAdult, ε = 1: two-way distance by the percentage of the budget for calibration, {runs} runs\n")
    synth.markdown(["method", *(f"{share} %" for share in shares)], rows)


# ---------------------------------------------------------------- the square and the triangle


def toy(rows, seed, *, triangle):
    rng = np.random.default_rng(seed)
    x = rng.random((rows * (4 if triangle else 1), 2))
    x = x[x.sum(axis=1) < 1][:rows] if triangle else x
    return pl.DataFrame({"x": x[:, 0], "y": x[:, 1]})


def bias(draws):
    """Weights under noise beside those without: as they are, and brought to a mean of 1."""
    from gapless.data.logistic import Points, grid, logistic_coefficients, minimum
    from gapless.privacy import DiscreteGaussian, DiscreteLaplace
    from gapless.privacy.noise import current

    schema = gl.Schema("toy", [gl.Number(name, bounds=(0, 1), bins=20) for name in "xy"])
    rows = []
    for many, strength in ((100, 10.0), (1000, 100.0)):
        fake = gl.Table.read(toy(many, 1, triangle=False), schema)
        truth = gl.Table.read(toy(many, 2, triangle=True), schema)
        points = Points.of(schema)
        real, made = points(truth.codes), points(fake.codes)
        both = [(real, 1.0), (made, -1.0)]
        beta = minimum(lambda both=both: iter(both), points, strength, near=1e-9)
        exact = np.exp(made @ beta)
        step = grid(points, strength)
        with tempfile.TemporaryDirectory() as folder:
            people = opened(toy(many, 2, triangle=True), schema, 1.0, folder)
            spend = people.ledger.left
            for kind, norm in ((DiscreteGaussian, "L2"), (DiscreteLaplace, "L1")):
                value = logistic_coefficients(people, fake, regularization=strength, norm=norm)
                noise = kind.for_loss(spend, value.distance)
                zeros = np.zeros((draws, points.numbers), dtype=np.int64)
                noisy = np.exp((beta + noise(zeros, current()) * step) @ made.T)
                for name, weights in {
                    "noised": noisy,
                    "debiased": noisy * np.exp(-log_means(made, noise, step)),
                }.items():
                    off = weights.mean(axis=0) - exact
                    error = weights.std(axis=0) / np.sqrt(draws)
                    normal = weights / weights.mean(axis=1, keepdims=True)
                    rows.append(
                        [
                            str(many),
                            kind.__name__,
                            f"{noise.noise_std * step:.2f}",
                            name,
                            f"{np.mean(off / exact):+.3f}",
                            f"{np.abs(off / error).max():.1f}",
                            f"{np.mean((weights - exact) ** 2):.3f}",
                            f"{np.mean((normal - exact / exact.mean()) ** 2):.4f}",
                        ]
                    )
    print(f"\nThe square weighted to the triangle, ε = 1, λ = 0.1, {draws} draws of the noise\n")
    head = ["rows", "noise", "std of a coefficient", "weights", "bias (share of the weight)"]
    synth.markdown([*head, "largest bias, in standard errors", "MSE", "MSE with mean 1"], rows)


# ---------------------------------------------------------------- section 4 of the paper


def small_tables():
    from sklearn import datasets

    rng = np.random.default_rng(0)
    group = rng.random(1372) < 0.445
    mixed = rng.normal(size=(1372, 4)) @ rng.normal(size=(4, 4)) + 1.2 * group[:, None] * [1, -1, 0.5, 0]
    return {
        "iris": (datasets.load_iris(), "category"),
        "breast": (datasets.load_breast_cancer(), "category"),
        "diabetes": (datasets.load_diabetes(scaled=False), "number"),
        "banknote": ({"data": mixed, "target": group.astype(int), "feature_names": list("abcd")}, "category"),
    }


def as_table(bunch, label):
    """A frame and a schema of eight bins for each number; the label is called `label`."""
    frame = {
        str(name): column for name, column in zip(bunch["feature_names"], np.asarray(bunch["data"]).T, strict=True)
    }
    target = np.asarray(bunch["target"])
    numbers = dict(frame) | ({"label": target.astype(float)} if label == "number" else {})
    columns = [
        gl.Number(name, bounds=(float(values.min()), float(values.max())), bins=8) for name, values in numbers.items()
    ]
    if label == "category":
        columns.append(gl.Categorical("label", [str(level) for level in sorted(set(target.tolist()))]))
    frame["label"] = target.astype(float) if label == "number" else [str(level) for level in target.tolist()]
    return pl.DataFrame(frame), gl.Schema("small", columns)


PRIVATE = {
    "BetaNoised": gl.LogisticWeights(debias=False),
    "BetaDebiased": gl.LogisticWeights(),
    "DP-MLP": gl.NetworkWeights(),
    "Calibration": gl.CalibrationWeights(),
}
PUBLIC = {"LogReg": gl.LogReg(), "MLP": gl.MLP()}
METHODS = ("None", *PRIVATE, *PUBLIC)


def scores(test, fake, weights):
    """Wasserstein distance of rows, MSE of coefficients, AUC of a network for a category: against held-out rows."""
    auc = None
    if isinstance(test.schema["label"], gl.Categorical):
        auc = roc_auc(test, fake, label="label", weights=weights)
    return (
        gl.wasserstein_distance(test, fake, weights=weights),
        coefficient_error(test, fake, label="label", weights=weights),
        auc,
    )


def section_4(names, epsilons, runs, shares):
    known = small_tables()
    for epsilon, name in itertools.product(epsilons, names):
        frame, schema = as_table(*known[name])
        found = {}
        for run, (kind, method) in itertools.product(range(runs), (("privbayes", gl.PrivBayes), ("aim", gl.AIM))):
            order = np.random.default_rng(run).permutation(len(frame))
            cut = len(frame) * 4 // 5
            train, test = frame[order[:cut].tolist()], gl.Table.read(frame[order[cut:].tolist()], schema)
            truth = gl.Table.read(train, schema)
            with tempfile.TemporaryDirectory() as folder:
                _, whole = sampled(train, schema, method, epsilon, folder, percent=100, run=run, rows=cut)
                tried = [("None", whole, None)]
                tried += [(how, whole, weights.fit(truth, whole)) for how, weights in PUBLIC.items()]
                for share, (how, weights) in itertools.product(shares, PRIVATE.items()):
                    people, fake = sampled(
                        train, schema, method, epsilon, folder, percent=100 - share, run=run, rows=cut
                    )
                    told = how if len(shares) == 1 else f"{how} {100 - share}/{share}"
                    tried.append((told, fake, weights.fit(people, fake, spend=people.ledger.left)))
            for how, fake, weights in tried:
                found.setdefault((kind, how), []).append(scores(test, fake, weights))
            print(f"  {name}, ε = {epsilon:g}, {kind}, run {run}", file=sys.stderr, flush=True)
        rows = []
        for (kind, how), many in found.items():
            told = [summary([score[number] for score in many]) for number in range(3)]
            rows.append([kind, how, *told])
        print(f"\n{name}, {len(frame)} rows, ε = {epsilon:g}, {runs} runs, mean ± standard error\n")
        synth.markdown(["synthesizer", "weights", "Wasserstein", "coefficient MSE", "AUC"], sorted(rows))
        sys.stdout.flush()


def summary(values):
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    error = statistics.stdev(known) / len(known) ** 0.5 if len(known) > 1 else 0.0
    return f"{statistics.mean(known):.3f} ± {error:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["adult", "split", "bias", "tables"], default="adult")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--tables", nargs="*", default=["iris", "breast", "diabetes", "banknote"])
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0, 6.0])
    parser.add_argument("--shares", nargs="*", type=int, default=[20], help="percent of the budget for weights")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", FewRowsWarning)
    if asked.what == "adult":
        must_show(asked.runs or 5)
    elif asked.what == "split":
        split(asked.runs or 3)
    elif asked.what == "bias":
        bias(20_000)
    else:
        section_4(asked.tables, asked.epsilons, asked.runs or 10, asked.shares)


if __name__ == "__main__":
    main()
