"""Compare what two versions of gapless compute: every release, answer, weight, estimate and ledger entry.

    python bench/unchanged.py record before.json             run all cases with the gapless on PYTHONPATH
    python bench/unchanged.py compare before.json            run them again, list what differs; exit code 1 if any does
    python bench/unchanged.py compare before.json --only ask run the cases whose names begin so
    python bench/unchanged.py list                           print the names of the cases

Use it before and after a change that must leave all results as they are. Noise is fixed (`gapless.testing`), samples
have seeds, tables are small and simulated, or the bundled example. PYTHONPATH chooses the version. A file holds, for
each output, a digest and its beginning. Texts (what an entry is called, notes, messages) are compared apart and
are not counted as differences: a version may word them differently. Numbers are compared exactly, so both files must
come from one machine. A run takes three to four minutes on one core.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and os.environ.get("PYTHONHASHSEED") != "0":
    # Sums over sets in one order: that needs a new process.
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the same for matrices

import argparse
import contextlib
import csv
import dataclasses
import datetime as dt
import gzip
import hashlib
import io
import json
import random
import re
import tempfile
import time
import tomllib
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import polars as pl

# ------------------------------------------------------------------ the only part to adapt when names change
import gapless as gl
from gapless import evaluate, missing, query, synth
from gapless.cli import main as command_line
from gapless.testing.noise import fixed_noise

Refusal = gl.GaplessError
READ_DEMO = ("gapless.demo", "nhanes.csv.gz", "nhanes.toml")
METHODS = (
    "independent", "privbayes", "mst", "aim", "mixture", "kamino", "misgan", "dpgan", "dpcgan", "dpctgan", "dpautogan",
    "pategan", "auto",
)  # fmt: skip
FEW_STEPS = {"kamino": 6} | dict.fromkeys(("misgan", "dpgan", "dpcgan", "dpctgan", "dpautogan", "pategan"), 3)
TREATMENTS = (
    "extended", "observed", "complete-rows", "impute-random", "impute-mean", "impute-mode", "impute-distribution",
    "impute-kamino",
)  # fmt: skip
IMPUTERS = ("FromDomain", "FromDistribution", "FromMode", "FromMean")


def read_schema(text: str) -> Any:
    return gl.Schema.from_toml(text)


def write_schema(schema: Any) -> str:
    return str(schema.to_toml())


def draft_schema(data: Path) -> str:
    return str(gl.data.draft_schema(data, name="drafted").to_toml())


def look(data: Path, schema: Any) -> Any:
    return missing.check(data, schema)


def make_budget(epsilon: float, delta: float, *, mcar: Any = None, at_least: Any = None) -> Any:
    if mcar is not None:
        return gl.Budget(epsilon, delta, ground_truth=gl.MCAR(mcar))
    if at_least is not None:
        return gl.Budget(epsilon, delta, ground_truth=gl.privacy.MissingAtLeast(at_least))
    return gl.Budget(epsilon, delta)


def budget_figures(budget: Any) -> tuple[Any, ...]:
    return budget.order, budget.capacity.value


def complete_figure(
    releases: Sequence[tuple[float, set[str] | None]], *, mcar: Any = None, at_least: Any = None
) -> Any:
    return gl.privacy.ground_truth(releases, gl.privacy.MissingAtLeast(at_least) if mcar is None else gl.MCAR(mcar))


def group_figure(epsilon: float, delta: float, changed: int) -> tuple[float, float]:
    cost = gl.privacy.stability_cost(epsilon, delta, changed=changed)
    return cost.epsilon, cost.delta


def read_private(data: Any, schema: Any, ledger: Path, budget: Any, *, rows: int = 1, engine: str | None = None) -> Any:
    return gl.read(data, schema, protect=gl.Rows(rows), ledger=ledger, budget=budget, engine=engine)


def read_public(data: Any, schema: Any) -> Any:
    return gl.Table.read(data, schema)


def percent(table: Any, share: float) -> Any:
    return table.ledger.share(f"{share}%")


def fit_method(name: str, table: Any, share: float, treatment: str | None, **options: Any) -> Any:
    if name in FEW_STEPS:
        options.setdefault("steps", FEW_STEPS[name])
    if treatment is not None:
        options["missing"] = synth.TREATMENTS[treatment]()
    return synth.METHODS[name](**options).fit(table, spend=percent(table, share))


def takes(method: str, treatment: str) -> bool:
    return isinstance(synth.TREATMENTS[treatment](), synth.METHODS[method].treatments)


def is_pure(method: str) -> bool:
    return bool(synth.METHODS[method].pure)


def facts_of(model: Any) -> tuple[Any, Any]:
    """What is known of a model: numbers, and texts."""
    facts = model.facts
    broken = [facts.broken[rule] for rule in facts.broken]
    return (facts.noise, facts.edges, broken), (facts.method, facts.settings, facts.structure, facts.limits)


def entries_of(ledger: Any) -> tuple[list[Any], list[Any]]:
    """The entries of a ledger by their content, and their texts. A field `run` of resumable runs is left out."""
    content = []
    for e in ledger.entries:
        parameters = [value for key, value in e.mechanism.items() if key != "name"]
        drawn = (e.mechanism["name"], parameters, e.distance)
        content.append((e.number, e.batch, e.loss, drawn, e.reads, bool(e.together), e.noise == "system"))
    return content, [(e.to, e.what, list(e.mechanism)) for e in ledger.entries]


def promises_of(ledger: Any, rates: Mapping[str, float]) -> Iterator[tuple[str, Any]]:
    """Figures for the incomplete table, for larger units and for the complete one."""
    for name, value in (("guarantee", ledger.guarantee()), ("of-3-rows", ledger.guarantee_for(gl.Rows(3)))):
        yield name, (value.epsilon, value.delta)
    yield "at-another-delta", [ledger.epsilon_at(delta) for delta in (1e-9, 1e-6, 1e-3)]
    yield "spent", (ledger.spent.value, ledger.left.value, ledger.capacity.value, ledger.percentages())
    assumptions = {
        "independent": gl.MCAR(dict(rates)),
        "dependent": gl.MCAR(dict(rates), columns="dependent"),
        "at-least": gl.privacy.MissingAtLeast(dict(rates)),
    }
    for name, assumption in assumptions.items():
        figure = ledger.ground_truth(assumption)
        yield f"complete-{name}", (figure.epsilon, figure.delta, figure.realised, figure.incomplete.epsilon)


def open_ledger(path: Path) -> Any:
    return gl.Ledger.open(path)


def resumed(ledger: Any, journal: Path) -> Any:
    return gl.privacy.resumable(ledger, journal)


def ask_treatment(name: str) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "drop": gl.Drop,
        "nearest": lambda: gl.Knn(on=["age"]),
        "mean-of-3": lambda: gl.Knn(on=["age", "single"], neighbors=3, scheme="mean"),
        "majority-of-3": lambda: gl.Knn(on=["age"], neighbors=3, scheme="majority"),
        "euclidean": lambda: gl.Knn(on=["age"], distance="euclidean"),
        "covered": lambda: gl.Knn(on=["age", "single"], cover=["age"]),
        "hot-deck": lambda: gl.HotDeck(on=["age"]),
        "hot-deck-3": lambda: gl.HotDeck(on=["single", "age"], limit=3),
    }
    return makers[name]()


def question(text: str, treatment: str = "drop") -> Any:
    return query.parse_question(text, ask_treatment(treatment))


def ask(table: Any, asked: Any, share: float) -> Any:
    return table.ask(asked, spend=percent(table, share))


def ask_all(table: Any, asked: Sequence[Any], share: float) -> Any:
    return query.ask_all(table, asked, spend=percent(table, share))


def answer_of(answer: Any) -> tuple[Any, Any]:
    """The numbers of an answer with its groups, and its texts."""
    numbers = [(e.group, e.value, e.noise_std, e.interval) for e in answer.estimates]
    return (numbers, answer.entries), (answer.question, answer.measures, answer.interval_note)


def preview(asked: Any, schema: Any, budget: Any, share: float, rows: int | None) -> tuple[Any, Any]:
    shown = gl.query.preview(asked, schema, budget=budget, spend=f"{share}%", rows=rows)
    numbers = (shown.noise_std, shown.noise_median, shown.noise_limit, shown.depends_on_rows, shown.rows)
    return numbers, (shown.question, shown.of)


def impute(table: Any, imputer: str, share: float) -> Any:
    grant = table.ledger.grant(percent(table, share), to="impute")
    return gl.ImputeFirst(getattr(missing, imputer)()).prepare(table, grant)


def weighting(name: str) -> Any:
    kind, _, noise = name.partition("-")
    if kind in ("logistic", "biased"):
        return gl.weights.LogisticWeights(noise=noise, debias=kind == "logistic")  # type: ignore[arg-type] # one of three
    makers: dict[str, Callable[[], Any]] = {
        "calibration": gl.CalibrationWeights,
        "calibration-2": lambda: gl.CalibrationWeights(pairs=2),
        "noised": gl.weights.NoisedWeights,
        "network": lambda: gl.weights.NetworkWeights(steps=5),
    }
    return makers[name]()


def weigh(name: str, table: Any, fake: Any, share: float) -> Any:
    return weighting(name).fit(table, fake, spend=percent(table, share))


def weigh_in_public(truth: Any, fake: Any) -> dict[str, Any]:
    return {"logistic": gl.weights.LogReg().fit(truth, fake), "network": gl.weights.MLP(steps=5).fit(truth, fake)}


def weigh_by_critic(model: Any, fake: Any) -> Any:
    return gl.weights.CriticWeights(model).fit(fake).values


def weighted(fake: Any, weights: Any) -> dict[str, Any]:
    mean, shares = (
        gl.weights.weighted_mean(fake, "income", weights=weights),
        gl.weights.weighted_proportions(fake, "color", weights=weights),
    )
    return {
        "mean": (mean.value, mean.standard_error),
        "proportions": {cell: (share.value, share.standard_error) for cell, share in shares.items()},
        "quantiles": gl.weights.weighted_quantiles(fake, "age", [0.1, 0.5, 0.9], weights=weights),
        "effective-rows": weights.effective_rows,
        "truncated": weights.truncated(1.5).values,
    }


def pooled(copies: Any, text: str) -> tuple[Any, Any]:
    result = gl.pool(copies, question(text)).to_dict()
    return numbers_in(result), strings_in(result)


def compare_tables(truth: Any, fake: Any, weights: Any = None) -> dict[str, Any]:
    return dict(gl.compare(truth, fake, weights=weights).to_dict())


def compare_sealed(table: Any, fake: Any, share: float) -> dict[str, Any]:
    return dict(gl.evaluate.compare_private(table, fake, spend=percent(table, share)).to_dict())


def distances(truth: Any, fake: Any) -> dict[str, Any]:
    found: dict[str, Any] = {f"{k}-way": gl.evaluate.kway_distance(truth, fake, k=k) for k in (1, 2, 3)}
    found["wasserstein"] = gl.evaluate.wasserstein_distance(truth, fake)
    found["detection"] = evaluate.detection(truth, fake)
    found["auc"] = evaluate.roc_auc(truth, fake, label="single")
    found["f1"] = gl.evaluate.f1_scores(truth, fake, labels=["single"])
    found["coefficients"] = evaluate.coefficient_error(truth, fake, label="single")
    return found


def gap_maker(name: str, reference: Any) -> Any:
    rates = {"age": 0.3, "income": 0.1}
    makers: dict[str, Callable[[], Any]] = {
        "mcar": lambda: gl.MCAR(0.2),
        "mcar-dependent": lambda: gl.MCAR(rates, columns="dependent"),
        "mar": lambda: gl.MAR(0.2),
        "mar-by-color": lambda: gl.MAR(rates, observed=["color"]),
        "mar-reference": lambda: gl.MAR(0.2, reference=reference),
        "mnar-logistic": lambda: gl.MNAR(0.2),
        "mnar-inputs": lambda: gl.MNAR(rates, inputs=["color"]),
        "mnar-self": lambda: gl.MNAR(0.2, how="self"),
        "mnar-quantile": lambda: gl.MNAR(rates, how="quantile", quantile=0.3),
        "mnar-reference": lambda: gl.MNAR(0.2, reference=reference),
    }
    return makers[name]()


GAP_MAKERS = (
    "mcar", "mcar-dependent", "mar", "mar-by-color", "mar-reference",
    "mnar-logistic", "mnar-inputs", "mnar-self", "mnar-quantile", "mnar-reference",
)  # fmt: skip


def gap_figures(table: Any) -> Iterator[tuple[str, Any]]:
    for columns in ("independent", "dependent"):
        found = missing.gap_rates(table, spend=percent(table, 20), columns=columns)
        yield f"rates-{columns}", (found.rates, found.failure)
    yield "report", missing.describe_gaps(table, spend=percent(table, 40))


def public_gap_figures(table: Any) -> dict[str, Any]:
    return {"patterns": gl.missing.patterns(table), "little": gl.missing.little_test(table)}


def load_model(path: Path) -> Any:
    return gl.load(path)


def save_model(model: Any, path: Path) -> None:
    model.save(path)


def sample(model: Any, rows: int, *, seed: int, gaps: str = "filled", given: Mapping[str, str] | None = None) -> Any:
    return model.sample(rows, seed=seed, gaps=gaps.replace(" ", "-"), given=given)


def write_sample(model: Any, path: Path, rows: int, *, seed: int) -> None:
    model.write_sample(path, rows, seed=seed)


def complete(model: Any, table: Any, *, seed: int) -> Any:
    return model.impute(table, seed=seed)


def marginal_of(model: Any, column: str) -> Any:
    return model.marginal_if_known(column)


def make_copies(model: Any, many: int, *, seed: int) -> Any:
    return model.copies(many, seed=seed)


def ledger_of(table: Any) -> Any:
    return table.ledger


def spent_of(ledger: Any) -> tuple[float, float]:
    return ledger.spent.value, ledger.left.value


def percentages_of(ledger: Any) -> Any:
    return ledger.percentages()


def guarantee_of(ledger: Any) -> tuple[float, float]:
    promise = ledger.guarantee()
    return promise.epsilon, promise.delta


def schema_of(table: Any) -> Any:
    return table.schema


def cells_of(schema: Any) -> list[Any]:
    return [(c.name, c.cells, c.size, c.extended_size) for c in schema.columns]


def as_frame(table: Any) -> pl.DataFrame:
    frame: pl.DataFrame = table.to_polars()
    return frame


def as_text(table: Any) -> pl.DataFrame:
    frame: pl.DataFrame = table.to_text()
    return frame


def as_pandas(table: Any) -> Any:
    return table.to_pandas()


def as_arrow(table: Any) -> Any:
    return table.to_arrow()


def write_table(table: Any, path: Path) -> None:
    table.write(path)


def with_weights(table: Any, weights: Any) -> Any:
    return table.with_weights(weights)


def resample(table: Any, rows: int, *, seed: int) -> Any:
    return table.resample(rows, seed=seed)


def apply_gaps(maker: Any, table: Any, seed: int) -> Any:
    return maker.apply(table, seed=seed)


def mask_of(maker: Any, table: Any, seed: int) -> Any:
    return maker.mask(table, seed=seed)


# ------------------------------------------------------------------ what is compared

Output = tuple[str, Any]
KEPT = 1500  # characters of each output, to show what differs
SHOWN = 180  # of these, around the first difference


class Text(NamedTuple):
    """An output that is worded, and so may differ between versions."""

    content: Any


CASES: dict[str, Callable[[Path], Iterator[Output]]] = {}


def case(name: str, *arguments: Any) -> Callable[[Callable[..., Iterator[Output]]], Callable[..., Iterator[Output]]]:
    """Enter a function that yields named outputs, given an empty folder and these arguments."""

    def enter(function: Callable[..., Iterator[Output]]) -> Callable[..., Iterator[Output]]:
        CASES[name] = lambda folder: function(folder, *arguments)
        return function

    return enter


def plain(value: Any) -> Any:  # noqa: C901 a case for each type
    """A value made of lists, texts and numbers, equal for equal content whatever types hold it."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.number):
        number = float(value)
        return int(number) if abs(number) < 2**53 and number.is_integer() else repr(number)
    if isinstance(value, np.ndarray):
        return [list(value.shape), [plain(item) for item in value.ravel().tolist()]]
    if isinstance(value, pl.DataFrame):
        return [[name, [plain(item) for item in value[name].to_list()]] for name in value.columns]
    if isinstance(value, dt.date | dt.time | dt.timedelta | Path):
        return str(value)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, part.name)) for part in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    raise TypeError(f"cannot compare a {type(value).__name__}")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("identity", "time", "previous", "run"):  # random, of today, or of resumable runs
                yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield from _leaves(getattr(value, part.name))
    else:
        yield value


def numbers_in(value: Any) -> list[Any]:
    """All numbers of a nested value, in order."""
    return [leaf for leaf in _leaves(value) if not isinstance(leaf, str | Path)]


def strings_in(value: Any) -> list[str]:
    """All texts of a nested value, in order; but not hashes, which are of random parts as well."""
    found = (str(leaf) for leaf in _leaves(value) if isinstance(leaf, str | Path))
    return [text for text in found if not re.fullmatch("[0-9a-f]{16,}", text)]


def ten_digits(value: Any) -> Any:
    """The numbers of a nested value with ten digits: figures are sums over sets, whose order may differ."""
    if isinstance(value, list | tuple):
        return [ten_digits(item) for item in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def both(name: str, value: Any) -> Iterator[Output]:
    """The numbers of a nested value, and its texts apart."""
    yield name, numbers_in(value)
    yield f"{name}/texts", Text(strings_in(value))


def pair(name: str, found: tuple[Any, Any]) -> Iterator[Output]:
    """A pair of numbers and texts."""
    yield name, found[0]
    yield f"{name}/texts", Text(found[1])


def attempt(name: str, compute: Callable[..., Any], *arguments: Any) -> Iterator[Output]:
    """What is computed, or that it is refused: the kind of error counts, its message is a text."""
    try:
        yield name, compute(*arguments)
    except Refusal as error:
        yield name, f"refused: {type(error).__name__}"
        yield f"{name}/message", Text(str(error))


def ledger_outputs(ledger: Any) -> Iterator[Output]:
    """Entries one by one, so that the first that differs is seen, and what is spent."""
    content, texts = entries_of(ledger)
    yield "ledger/count", len(content)
    for position, item in enumerate(content[:12]):
        yield f"ledger/{position + 1}", item
    yield "ledger/all", content
    yield "ledger/texts", Text(texts)
    yield "ledger/spent", spent_of(ledger)
    yield "ledger/guarantee", guarantee_of(ledger)


def model_outputs(model: Any, folder: Path, *, rows: int = 40) -> Iterator[Output]:
    """What a model gives: samples, also after it was saved, its total and its facts."""
    yield "total", model.total
    yield from pair("facts", facts_of(model))
    yield from attempt("filled", lambda: as_frame(sample(model, rows, seed=1)))
    yield from attempt("as-observed", lambda: as_text(sample(model, rows, seed=2, gaps="as observed")))
    yield from attempt("given", lambda: as_frame(sample(model, 10, seed=3, given={"color": "red"})))
    path = folder / "saved.model"
    save_model(model, path)
    yield "loaded", as_frame(sample(load_model(path), rows, seed=4))


# ------------------------------------------------------------------ tables

PEOPLE = """
[table]
name = "people"
expected_rows = 250
[column.color]
kind = "categorical"
levels = ["red", "green", "blue"]
may_be_missing = true
missing = ["", {code = "-", kind = "refused"}]
[column.age]
kind = "integer"
bounds = [0, 99]
bins = 5
[column.income]
kind = "number"
bounds = [0, 100000]
bins = 4
may_be_missing = true
missing = ["", "NA", {code = "-8", kind = "unknown"}, {code = "-1", kind = "not-applicable"}]
[column.born]
kind = "date"
bounds = ["1950-01-01", "1999-12-31"]
resolution = "month"
bins = 3
may_be_missing = true
[column.single]
kind = "boolean"
may_be_missing = true
"""
MORE = """
[column.grade]
kind = "ordinal"
levels = ["low", "middle", "high"]
[column.seen]
kind = "datetime"
bounds = ["2020-01-01T00:00:00", "2020-12-31T23:59:59"]
bins = 4
may_be_missing = true
"""
HARD = """
[[constraint]]
not = "t1.age < 20 and t1.income >= 50000"
[[constraint]]
not = "t1.grade == t2.grade and t1.single != t2.single"
"""
SOFT = """
[[constraint]]
not = "t1.grade == t2.grade and t1.single != t2.single"
weight = 5
"""
LEARNED = SOFT.replace("weight = 5", 'weight = "learned"')
RATES = {"color": 0.15, "income": 0.3, "born": 0.1, "single": 0.2}


def people_rows(rows: int = 250, seed: int = 0, *, more: bool = False) -> list[dict[str, str]]:
    """Simulated people: columns depend on each other, gaps of several kinds."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        age = int(rng.integers(0, 100))
        color = ["red", "green", "blue"][int(rng.choice(3, p=[0.6, 0.3, 0.1] if age < 50 else [0.2, 0.3, 0.5]))]
        income = round(float(np.clip(rng.normal(1000 * age, 12_000), 0, 100_000)), 2)
        born = dt.date(1950, 1, 1) + dt.timedelta(days=int(rng.integers(0, 18_000)))
        row = {
            "color": str(rng.choice([color, "", "-"], p=[0.85, 0.1, 0.05])),
            "age": str(age),
            "income": str(rng.choice([str(income), "", "NA", "-8", "-1"], p=[0.7, 0.1, 0.05, 0.1, 0.05])),
            "born": str(born) if rng.random() > 0.1 else "",
            "single": str(rng.choice(["true" if age < 40 else "false", ""], p=[0.8, 0.2])),
        }
        if more:
            row["grade"] = str(rng.choice(["low", "middle", "high"]))
            seen = dt.datetime(2020, 1, 1) + dt.timedelta(hours=int(rng.integers(0, 8000)))  # noqa: DTZ001 local
            row["seen"] = seen.isoformat() if rng.random() > 0.15 else ""
        found.append(row)
    return found


def write_rows(path: Path, rows: list[dict[str, str]], separator: str = ",") -> Path:
    """A text file of rows."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=separator, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return path


BUDGETS: dict[str, Callable[[], Any]] = {
    "pure": lambda: make_budget(2.0, 0.0),
    "delta": lambda: make_budget(2.0, 1e-6),
    "complete": lambda: make_budget(2.0, 0.0, mcar=RATES),
    "at-least": lambda: make_budget(2.0, 0.0, at_least=RATES),
    "large": lambda: make_budget(200.0, 1e-6),
    "large-pure": lambda: make_budget(200.0, 0.0),
}


def sealed(
    folder: Path, budget: str = "delta", *, schema: str = PEOPLE, more: bool = False, rows: int = 250, unit: int = 1
) -> Any:
    """Simulated people as a private table."""
    data = write_rows(folder / "people.csv", people_rows(rows, more=more))
    return read_private(data, read_schema(schema), folder / "people.ledger", BUDGETS[budget](), rows=unit)


def public(folder: Path, seed: int = 0, rows: int = 250) -> Any:
    """Simulated people as a public table."""
    return read_public(write_rows(folder / f"public{seed}.csv", people_rows(rows, seed)), read_schema(PEOPLE))


def example(folder: Path) -> tuple[Path, Path]:
    """The bundled table, its first 400 rows, and its schema."""
    from importlib.resources import files

    package, data, schema = READ_DEMO
    lines = gzip.decompress((files(package) / data).read_bytes()).decode().splitlines(keepends=True)[:401]
    (folder / "nhanes.csv").write_text("".join(lines), encoding="utf-8")
    (folder / "nhanes.toml").write_bytes((files(package) / schema).read_bytes())
    return folder / "nhanes.csv", folder / "nhanes.toml"


# ------------------------------------------------------------------ synthesizers


def fit_case(folder: Path, method: str, treatment: str, budget: str) -> Iterator[Output]:
    """Every method with every treatment of gaps and every budget that it takes."""
    table = sealed(folder, budget)
    model = fit_method(method, table, 60, treatment)
    yield from model_outputs(model, folder)
    yield from ledger_outputs(ledger_of(table))
    if budget in ("pure", "complete"):
        yield "ledger/left-percent", percentages_of(ledger_of(table))


for _method in METHODS:
    for _treatment in TREATMENTS:
        if not takes(_method, _treatment):
            continue
        for _budget in ("delta", "pure", "complete", "at-least"):
            if _budget != "delta" and not is_pure(_method):
                continue
            if _budget in ("complete", "at-least") and _treatment not in ("extended", "observed", "complete-rows"):
                continue
            if _budget == "at-least" and _method not in ("independent", "mst"):
                continue
            case(f"fit/{_method}/{_treatment}/{_budget}", _method, _treatment, _budget)(fit_case)


def fit_refused(folder: Path, method: str) -> Iterator[Output]:
    """What a method does not take is refused, and nothing is spent."""
    for treatment in TREATMENTS:
        if not takes(method, treatment):
            table = sealed(folder)
            yield from attempt(f"{treatment}", fit_method, method, table, 10, treatment)
            yield f"{treatment}/entries", len(entries_of(ledger_of(table))[0])


for _method in METHODS:
    if not all(takes(_method, treatment) for treatment in TREATMENTS):
        case(f"fit-refused/{_method}", _method)(fit_refused)


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "aim-workload": ("aim", {"workload": {("color", "age"): 2.0, ("income", "single"): 1.0}}),
    "aim-always": ("aim", {"always": [("age", "income")]}),
    "mst-cap": ("mst", {"cap_cells": 20}),
    "kamino-columns": ("kamino", {"architecture": "columns", "steps": 3}),
    "kamino-order": ("kamino", {"order": ["single", "color", "age", "income", "born"], "hidden": 4}),
    "dpcgan-label": ("dpcgan", {"label": "single"}),
    "misgan-generators": ("misgan", {"noised": "generators"}),
    "auto-many": ("auto", {"expected_rows": 100_000}),
}


def fit_options(folder: Path, name: str) -> Iterator[Output]:
    """Methods with settings of their own."""
    method, options = OPTIONS[name]
    table = sealed(folder)
    yield from model_outputs(fit_method(method, table, 60, None, **options), folder)
    yield from ledger_outputs(ledger_of(table))


for _name in OPTIONS:
    case(f"fit-options/{_name}", _name)(fit_options)


SCHEMAS = {
    "kinds": PEOPLE + MORE,
    "hard": PEOPLE + MORE + HARD,
    "holoclean": PEOPLE
    + MORE
    + """
[[constraint]]
not = 't1&t2&EQ(t1.grade,t2.grade)&IQ(t1.color,t2.color)'
[[constraint]]
not = 't1&LT(t1.age,"20")&EQ(t1.single,"false")'
""",
    "soft": PEOPLE + MORE + SOFT,
    "learned-weights": PEOPLE + MORE + LEARNED,
    "learned-bins": (PEOPLE + MORE).replace("bins = 5\n", "").replace("bins = 4\n", "").replace("bins = 3\n", ""),
}


def fit_schema(folder: Path, method: str, schema: str) -> Iterator[Output]:
    """Kinds of columns, constraints of every kind, bins that are learned."""
    table = sealed(folder, schema=SCHEMAS[schema], more=True, rows=200, unit=2 if schema == "kinds" else 1)
    model = fit_method(method, table, 100, None)
    yield from model_outputs(model, folder, rows=25)
    yield "marginal", marginal_of(model, "color")
    yield from ledger_outputs(ledger_of(table))


for _schema in SCHEMAS:
    for _method in ("independent", "privbayes", "mst", "aim", "mixture", "kamino", "misgan"):
        case(f"fit-schema/{_schema}/{_method}", _method, _schema)(fit_schema)


def fit_large(folder: Path, method: str, budget: str) -> Iterator[Output]:
    """More rows, so that methods find more to measure."""
    table = sealed(folder, budget, schema=SCHEMAS["learned-bins"], more=True, rows=3000)
    model = fit_method(method, table, 100, "extended")
    yield from model_outputs(model, folder)
    yield from ledger_outputs(ledger_of(table))


for _method in ("independent", "privbayes", "mst", "aim", "mixture"):
    for _budget in ("delta", "pure"):
        case(f"fit-large/{_method}/{_budget}", _method, _budget)(fit_large)


@case("fit-small/empty", 0)
@case("fit-small/one-row", 1)
def fit_small(folder: Path, rows: int) -> Iterator[Output]:
    """Tables of no row and of one."""
    for method in ("independent", "mst", "aim", "mixture", "privbayes"):
        (folder / method).mkdir()
        data = write_rows(folder / method / "people.csv", people_rows(1))
        if rows == 0:
            data.write_text(data.read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
        table = read_private(data, read_schema(PEOPLE), folder / method / "x.ledger", BUDGETS["delta"]())
        model = fit_method(method, table, 50, None)
        yield f"{method}/total", model.total
        yield f"{method}/filled", as_frame(sample(model, 15, seed=1))
        yield f"{method}/ledger", entries_of(ledger_of(table))[0]


@case("fit-example/mst", "mst")
@case("fit-example/independent", "independent")
@case("fit-example/auto", "auto")
def fit_example(folder: Path, method: str) -> Iterator[Output]:
    """The bundled table: 14 columns."""
    data, schema = example(folder)
    table = read_private(data, read_schema(schema.read_text()), folder / "x.ledger", BUDGETS["delta"]())
    model = fit_method(method, table, 80, None)
    yield "total", model.total
    yield from pair("facts", facts_of(model))
    yield "filled", as_frame(sample(model, 30, seed=1))
    yield "as-observed", as_text(sample(model, 30, seed=1, gaps="as observed"))
    yield from ledger_outputs(ledger_of(table))


@case("fill")
def fill_public(folder: Path) -> Iterator[Output]:
    """A public table completed by a model."""
    table = sealed(folder)
    for method in ("mst", "aim", "mixture"):
        model = fit_method(method, table, 25, None)
        yield method, as_frame(complete(model, public(folder, 1, 40), seed=3))


# ------------------------------------------------------------------ questions

QUESTIONS = (
    "count()",
    "count() where age >= 33",
    "count() by color",
    "count() where income is missing",
    "count() where born >= 1970-01-01 and not single == true by single",
    "proportion(single == true) where age < 60",
    "proportion(color in (red, blue)) by single",
    "sum(income)",
    "sum(age, 10, 50) where color == red",
    "mean(income, 0, 50000)",
    "mean(income) by color",
    "mean(age) where income between 20000 and 70000",
    "mean(age) where income >= 20000 and income < 70000 or color is missing",
    "variance(age)",
    "variance(income, 0, 80000) where age > 20",
    "median(age)",
    "median(income) where color != blue",
    "quantile(income, 0.9) by single",
)
ASKED_WITH = (
    "drop", "nearest", "mean-of-3", "majority-of-3", "euclidean", "covered", "hot-deck", "hot-deck-3",
)  # fmt: skip


def asked_and_answered(table: Any, text: str, treatment: str) -> tuple[Any, Any]:
    """One answer, for 5 % of the budget."""
    return answer_of(ask(table, question(text, treatment), 5))


def ask_case(folder: Path, treatment: str, budget: str) -> Iterator[Output]:
    """Every kind of question, one after the other."""
    table = sealed(folder, budget, rows=150)
    for text in QUESTIONS:
        yield from attempt_pair(text, asked_and_answered, table, text, treatment)
    yield from ledger_outputs(ledger_of(table))


def attempt_pair(name: str, compute: Callable[..., tuple[Any, Any]], *arguments: Any) -> Iterator[Output]:
    """The same for numbers and texts."""
    try:
        yield from pair(name, compute(*arguments))
    except Refusal as error:
        yield name, f"refused: {type(error).__name__}"
        yield f"{name}/message", Text(str(error))


for _treatment in ASKED_WITH:
    for _budget in ("large", "large-pure"):
        case(f"ask/{_treatment}/{_budget}", _treatment, _budget)(ask_case)
for _budget in ("delta", "pure", "complete", "at-least"):
    case(f"ask/drop/{_budget}", "drop", _budget)(ask_case)
case("ask/hot-deck/complete", "hot-deck", "complete")(ask_case)


def previewed(text: str, treatment: str, schema: Any, budget: str, rows: int | None) -> tuple[Any, Any]:
    """The noise to expect for 5 % of the budget."""
    return preview(question(text, treatment), schema, BUDGETS[budget](), 5, rows)


@case("ask-preview")
def ask_preview(folder: Path) -> Iterator[Output]:  # noqa: ARG001 nothing is written
    """The noise to expect."""
    schema = read_schema(PEOPLE)
    for treatment in ASKED_WITH:
        for budget in ("delta", "large", "large-pure"):
            for text in QUESTIONS:
                for rows in (None, 3000):
                    name = f"{treatment}/{budget}/{text}/{rows}"
                    yield from attempt_pair(name, previewed, text, treatment, schema, budget, rows)


@case("ask-several/delta", "delta", "drop")
@case("ask-several/pure", "pure", "drop")
@case("ask-several/complete", "complete", "drop")
@case("ask-several/hot-deck", "delta", "hot-deck")
@case("ask-several/nearest", "large", "nearest")
def ask_several(folder: Path, budget: str, treatment: str) -> Iterator[Output]:
    """Several questions at once, as a first batch and later."""
    table = sealed(folder, budget)
    for turn, texts in enumerate((QUESTIONS[5:13], QUESTIONS[:4], (QUESTIONS[2], QUESTIONS[14]))):
        try:
            for text, answer in zip(texts, ask_all(table, [question(t, treatment) for t in texts], 30), strict=True):
                yield from pair(f"{turn}/{text}", answer_of(answer))
        except Refusal as error:
            yield f"{turn}/refused", type(error).__name__
            yield f"{turn}/message", Text(str(error))
    yield from ledger_outputs(ledger_of(table))


CONDITIONS = (
    "age >= 20 and age < 40",
    "age<20 or age>=80",
    "not (age >= 20 and color == red)",
    "not age >= 20 and color == red or single == true",
    "(color == red or color == 'green') and (single == true)",
    'color in (red, "blue") and age != 3',
    "color in (green)",
    "age between 20 and 40",
    "born between 1960-01-01 and 1970-12-31",
    "born < '1980-06-01'",
    "income is not missing and income >= 25000",
    "single is missing or color is missing",
    "income >= 1e4",
    '"age" == 20',
    "AGE >= 20",
    "grade > low and seen >= 2020-06-01",
    "grade in (low, high)",
    "seen is missing",
    "age",
    "age >=",
    "age >= twenty",
    "(age >= 20",
    "age >= 20 and",
    "nobody == 3",
    "color > red",
    "color == purple",
    "income < 12345.6",
    "age >= 20 age < 40",
    "color in ()",
    "age is missing",
)


@case("ask-conditions")
def ask_conditions(folder: Path) -> Iterator[Output]:
    """Conditions of every form, and some that are refused."""
    table = sealed(folder, "large", schema=PEOPLE + MORE, more=True, rows=150)
    for condition in CONDITIONS:
        for text in (f"count() where {condition}", f"proportion({condition})", f"mean(income) where {condition}"):
            yield from attempt_pair(text, cheaply_answered, table, text)
    for text in ("mode(age)", "mean age", "count( where age > 3", "mean(age) by color where age > 3", "quantile(age)"):
        yield from attempt_pair(text, cheaply_answered, table, text)
    yield from ledger_outputs(ledger_of(table))


def cheaply_answered(table: Any, text: str) -> tuple[Any, Any]:
    """One answer, for 1 % of the budget."""
    return answer_of(ask(table, question(text), 1))


@case("ask-filled")
def ask_filled(folder: Path) -> Iterator[Output]:
    """Questions to tables whose gaps an imputer filled."""
    table = sealed(folder)
    for imputer in IMPUTERS:
        filled = impute(table, imputer, 10)
        for text in (QUESTIONS[2], QUESTIONS[5], QUESTIONS[10], QUESTIONS[15]):
            yield from pair(f"{imputer}/{text}", answer_of(ask(filled, question(text), 2)))
    yield from ledger_outputs(ledger_of(table))


# ------------------------------------------------------------------ promises of ledgers


def promises(folder: Path, budget: str, treatment: str) -> Iterator[Output]:
    """Figures of ledgers under noise of the system: they follow from what is charged, not from what is drawn."""
    table = sealed(folder, budget)
    fit_method("independent", table, 30, treatment)
    for name, figure in promises_of(ledger_of(table), RATES):
        yield f"first/{name}", ten_digits(figure)
    for text in ("count() by color", "mean(income)", "median(age)"):
        ask(table, question(text), 5)
    for name, figure in promises_of(open_ledger(folder / "people.ledger"), RATES):
        yield f"later/{name}", ten_digits(figure)
    yield "entries", entries_of(ledger_of(table))[0]


for _budget in ("delta", "pure", "complete", "at-least"):
    for _treatment in ("extended", "observed", "complete-rows", "impute-mean"):
        case(f"promise/{_budget}/{_treatment}", _budget, _treatment)(promises)


@case("promise/questions")
def promises_of_questions(folder: Path) -> Iterator[Output]:
    """The same for questions that are one first batch."""
    for budget in ("delta", "pure"):
        (folder / budget).mkdir()
        table = sealed(folder / budget, budget)
        ask_all(table, [question(text) for text in QUESTIONS[:8]], 30)
        for name, figure in promises_of(ledger_of(table), RATES):
            yield f"{budget}/{name}", ten_digits(figure)


@case("promise/figures")
def figures(folder: Path) -> Iterator[Output]:  # noqa: ARG001 nothing is written
    """Figures that follow from public numbers alone."""
    for epsilon in (0.1, 1.0, 4.0):
        for delta in (0.0, 1e-9, 1e-6, 1e-3):
            yield f"budget/{epsilon}/{delta}", budget_figures(make_budget(epsilon, delta))
            yield f"group/{epsilon}/{delta}", [group_figure(epsilon, delta, changed) for changed in (1, 2, 11)]
    releases: list[tuple[float, set[str] | None]] = [(0.1, {"age", "sex"}), (0.2, None), (0.5, {"sex"})]
    for rate in (0.1, 0.5, 0.9):
        yield f"complete/{rate}", complete_figure(releases, mcar={"age": rate, "sex": rate / 2})
        yield f"complete-at-least/{rate}", complete_figure(releases, at_least={"age": rate, "sex": rate / 2})


def spend_all(folder: Path, budget: str) -> Iterator[Output]:
    """Everything that pays, one after the other under one ledger, until it is spent."""
    table = sealed(folder, budget)
    fake = public(folder, 2, 80)
    yield "asked", answer_of(ask(table, question(QUESTIONS[2]), 5))[0]
    model = fit_method("mst", table, 25, "observed")
    yield "fitted", as_frame(sample(model, 20, seed=1))
    yield from attempt("weighed", lambda: weigh("calibration", table, fake, 15).values)
    yield "compared", numbers_in(compare_sealed(table, fake, 10))
    yield "asked-together", [answer_of(a)[0] for a in ask_all(table, [question(t) for t in QUESTIONS[5:9]], 10)]
    yield from attempt("too-much", fit_method, "mst", table, 90, "observed")
    yield "rest", percentages_of(ledger_of(table))
    yield from attempt("rest-fitted", lambda: as_frame(sample(fit_method("aim", table, 30, "extended"), 20, seed=1)))
    yield from attempt("nothing-left", lambda: answer_of(ask(table, question("count()"), 50))[0])
    yield from ledger_outputs(ledger_of(table))


for _budget in ("delta", "pure", "complete", "at-least"):
    case(f"spend/{_budget}", _budget)(spend_all)


# ------------------------------------------------------------------ weights

WEIGHTINGS = (
    "calibration", "calibration-2", "noised", "network", "logistic-gaussian", "logistic-laplace", "logistic-knorm",
    "biased-gaussian", "biased-laplace", "biased-knorm",
)  # fmt: skip


def weights_case(folder: Path, name: str, budget: str) -> Iterator[Output]:
    """Weights of filled rows and of rows with gaps, and what is estimated by them."""
    table = sealed(folder, budget)
    model = fit_method("independent", table, 20, "extended")
    for gaps in ("filled", "as observed"):
        fake = sample(model, 120, seed=5, gaps=gaps)
        try:
            weights = weigh(name, table, fake, 30)
        except Refusal as error:
            yield f"{gaps}/refused", type(error).__name__
            yield f"{gaps}/message", Text(str(error))
            continue
        yield f"{gaps}/values", weights.values
        yield f"{gaps}/text", Text(str(weights))
        for estimate, value in weighted(fake, weights).items():
            yield f"{gaps}/{estimate}", value
        weighted_rows = with_weights(fake, weights)
        yield f"{gaps}/rows", as_text(weighted_rows)
        yield f"{gaps}/resampled", as_text(resample(weighted_rows, 30, seed=2))
    yield from ledger_outputs(ledger_of(table))


for _name in WEIGHTINGS:
    for _budget in (
        ("delta", "large-pure") if _name in ("calibration", "noised") or "gauss" not in _name else ("delta",)
    ):
        case(f"weights/{_name}/{_budget}", _name, _budget)(weights_case)


@case("weights-public")
def weights_public(folder: Path) -> Iterator[Output]:
    """Weights between two public tables, and by the critic of a network."""
    truth, fake = public(folder, 1), public(folder, 2, 100)
    for name, weights in weigh_in_public(truth, fake).items():
        yield name, weights.values
        for estimate, value in weighted(fake, weights).items():
            yield f"{name}/{estimate}", value
    for method in ("dpgan", "misgan", "pategan", "kamino"):
        (folder / method).mkdir()
        model = fit_method(method, sealed(folder / method), 80, None)
        yield from attempt(f"critic/{method}", weigh_by_critic, model, sample(model, 60, seed=1))


# ------------------------------------------------------------------ estimates from copies

ESTIMATED = ("mean(income)", "mean(age) where color == red", "proportion(single == true) by color", "median(age)")


def estimates(folder: Path, method: str, schema: str) -> Iterator[Output]:
    """Copies of a release and estimates pooled over them."""
    table = sealed(folder, "large" if schema == "learned-bins" else "delta", schema=SCHEMAS[schema], more=True)
    copies = make_copies(fit_method(method, table, 100, "extended"), 3, seed=7)
    for place, copy in enumerate(copies):
        yield f"copy/{place}", as_frame(copy)[:50]
        yield f"copy/{place}/rows", len(copy)
    for text in ESTIMATED:
        yield from attempt_pair(text, pooled, copies, text)


for _method in ("independent", "mst", "aim", "mixture", "privbayes"):
    case(f"estimate/{_method}", _method, "kinds")(estimates)
for _method in ("independent", "mst"):
    case(f"estimate/{_method}-learned-bins", _method, "learned-bins")(estimates)


# ------------------------------------------------------------------ comparisons


@case("compare/public")
def compare_public(folder: Path) -> Iterator[Output]:
    """Numbers of two public tables."""
    truth, fake = public(folder, 1), public(folder, 2, 200)
    yield from both("all", compare_tables(truth, fake))
    weights = np.linspace(0.5, 2.0, 200)
    yield from both("weighted", compare_tables(truth, fake, weights))
    for name, value in distances(truth, fake).items():
        yield name, numbers_in(value)


@case("compare/paid/delta", "delta")
@case("compare/paid/pure", "pure")
def compare_paid(folder: Path, budget: str) -> Iterator[Output]:
    """Numbers of a private table, paid for."""
    table = sealed(folder, budget)
    yield from both("first", compare_sealed(table, public(folder, 2, 200), 30))
    yield from both("again", compare_sealed(table, public(folder, 3, 200), 30))
    yield from ledger_outputs(ledger_of(table))


@case("compare/constraints")
def compare_constraints(folder: Path) -> Iterator[Output]:
    """Broken constraints of both tables."""
    schema = read_schema(SCHEMAS["hard"])
    tables = [
        read_public(write_rows(folder / f"{seed}.csv", people_rows(150, seed, more=True)), schema) for seed in (1, 2)
    ]
    yield from both("all", compare_tables(*tables))


# ------------------------------------------------------------------ gaps


def make_gaps(folder: Path, name: str) -> Iterator[Output]:
    """Gaps that a mechanism makes."""
    table = public(folder, 1)
    maker = gap_maker(name, public(folder, 2))
    for seed in (0, 1):
        gapped = apply_gaps(maker, table, seed)
        yield f"rows/{seed}", as_text(gapped)
        yield f"schema/{seed}", tomllib.loads(write_schema(schema_of(gapped)))
        yield f"mask/{seed}", mask_of(maker, table, seed)


for _name in GAP_MAKERS:
    case(f"gaps/{_name}", _name)(make_gaps)


@case("gap-figures/delta", "delta")
@case("gap-figures/pure", "pure")
def figures_of_gaps(folder: Path, budget: str) -> Iterator[Output]:
    """Rates and a report of gaps, paid for."""
    table = sealed(folder, budget, schema=PEOPLE + MORE, more=True)
    for name, value in gap_figures(table):
        yield from both(name, value)
    yield from ledger_outputs(ledger_of(table))


@case("gap-figures/public")
def figures_of_public_gaps(folder: Path) -> Iterator[Output]:
    """Patterns and Little's test."""
    for seed in (1, 2, 3):
        for name, value in public_gap_figures(public(folder, seed)).items():
            yield from both(f"{name}/{seed}", value)


# ------------------------------------------------------------------ schemas, reading, writing


RULES = (
    "t1.age < 20 and t1.color == 'red'",
    't1.age < 20 and t1.color != "red" and t1.single == true',
    "t1.grade > 'low' and t1.single == 'false'",
    "t1.color == t2.color and t1.grade != t2.grade",
    "t1.age < t2.age and t1.income > t2.income",
    "t1.age >= 60 and t2.age < 20 and t1.color == t2.color",
    "t1.income > t1.age",
    "t1.born >= t2.born and t1.grade < t2.grade",
    't1."age" <= 19 and t1.grade == high',
    "t1&t2&EQ(t1.color,t2.color)&LT(t1.age,t2.age)&GT(t1.income,t2.income)",
    "t1.age < 21",
    "t1.age",
    "t1.nobody == 3",
    "t3.age < 20",
    "t1.color < 'red'",
    "t1.age < 20 or t1.color == 'red'",
)


@case("constraints")
def constraints(folder: Path) -> Iterator[Output]:
    """Rules of every form: how often rows break them, and a release that keeps them."""
    data = write_rows(folder / "people.csv", people_rows(100, 3, more=True))
    for number, rule in enumerate(RULES):
        text = f"{PEOPLE}{MORE}\n[[constraint]]\nnot = {json.dumps(rule)}\n"
        yield from attempt(f"check/{rule}", lambda text=text: numbers_in(look(data, read_schema(text))))
        place = folder / str(number)
        place.mkdir()
        yield from attempt(f"rows/{rule}", rows_under_rule, place, text)


def rows_under_rule(folder: Path, schema: str) -> pl.DataFrame:
    """A sample that keeps a rule."""
    return as_frame(sample(fit_method("mst", sealed(folder, schema=schema, more=True, rows=100), 90, None), 25, seed=1))


def public_text(data: Any, schema: Any) -> pl.DataFrame:
    """The cells of a public table as texts."""
    return as_text(read_public(data, schema))


@case("schema")
def schemas(folder: Path) -> Iterator[Output]:
    """Schemas written and read again, drafted, and data checked against them."""
    for name, text in SCHEMAS.items():
        schema = read_schema(text)
        written = write_schema(schema)
        yield f"{name}/written", tomllib.loads(written)
        yield f"{name}/again", write_schema(read_schema(written)) == written
        yield f"{name}/cells", cells_of(schema)
        data = write_rows(folder / f"{name}.csv", people_rows(80, 3, more=True))
        yield from both(f"{name}/check", look(data, schema))
        drafted = draft_schema(data)
        yield f"{name}/draft", tomllib.loads(drafted)
        yield f"{name}/draft/comments", Text(drafted)
    data, bundled = example(folder)
    yield from both("example/check", look(data, read_schema(bundled.read_text(encoding="utf-8"))))
    yield "example/draft", tomllib.loads(draft_schema(data))
    odd = [dict(row, age="abc" if place % 9 == 0 else "300") for place, row in enumerate(people_rows(30, 3))]
    yield from both("odd/check", look(write_rows(folder / "odd.csv", odd), read_schema(PEOPLE)))
    clamped = PEOPLE.replace("bins = 5", 'bins = 5\noutside = "clamp"\nmay_be_missing = true')
    for outside in ("clamp", "missing"):
        schema = read_schema(clamped.replace('"clamp"', f'"{outside}"'))
        yield from attempt(f"odd/{outside}", public_text, folder / "odd.csv", schema)
    yield from attempt("odd/refused", public_text, folder / "odd.csv", read_schema(PEOPLE))


def sources(folder: Path) -> dict[str, Any]:
    """The same rows in files and frames of every kind."""
    rows = people_rows(120, 4)
    frame = pl.DataFrame(rows)
    frame.write_parquet(folder / "people.parquet")
    frame[:60].write_parquet(folder / "part-1.parquet")
    frame[60:].write_parquet(folder / "part-2.parquet")
    found: dict[str, Any] = {
        "csv": write_rows(folder / "people.csv", rows),
        "csv-gz": write_rows(folder / "people.csv.gz", rows),
        "tsv": write_rows(folder / "people.tsv", rows, "\t"),
        "parquet": folder / "people.parquet",
        "parts": str(folder / "part-*.parquet"),
        "polars": frame,
        "pandas": frame.to_pandas(),
        "arrow": frame.to_arrow(),
    }
    with contextlib.suppress(ImportError):
        import openpyxl  # type: ignore[import-untyped] # it has no types

        book = openpyxl.Workbook()
        for line in [list(rows[0]), *([cell or None for cell in row.values()] for row in rows)]:
            book.active.append(line)
        book.save(folder / "people.xlsx")
        found["xlsx"] = folder / "people.xlsx"
    return found


@case("read/public")
def read_tables(folder: Path) -> Iterator[Output]:
    """Every kind of file and frame, read as a public table."""
    for name, data in sources(folder).items():
        yield name, public_text(data, read_schema(PEOPLE))
    latin = folder / "latin.csv"
    latin.write_bytes("name;age\nJosé;3\n;4\n".encode("latin-1"))
    schema = """[table]
name = "names"
separator = ";"
encoding = "latin-1"
[column.name]
kind = "categorical"
levels = ["José"]
may_be_missing = true
[column.age]
kind = "integer"
bounds = [0, 9]
"""
    yield "latin", public_text(latin, read_schema(schema))


def released(data: Any, engine: str | None, place: Path) -> Any:
    """Answers and a model of these rows; a ledger pays for its files, so they are copied."""
    if isinstance(data, str | Path):
        for path in Path(data).parent.glob(Path(data).name):
            (place / path.name).write_bytes(path.read_bytes())
        copied = place / Path(data).name
        data = str(copied) if isinstance(data, str) else copied
    table = read_private(data, read_schema(PEOPLE), place / "x.ledger", BUDGETS["delta"](), engine=engine)
    with fixed_noise(5):
        answers = [answer_of(ask(table, question(QUESTIONS[at]), 4))[0] for at in (1, 2, 7, 10, 15, 17)]
        model = fit_method("mst", table, 60, "extended")
    return answers, model.total, as_frame(sample(model, 20, seed=1)), entries_of(ledger_of(table))[0]


@case("read/engines")
def read_engines(folder: Path) -> Iterator[Output]:
    """Every engine that needs no server, asked and fitted."""
    for name, data in sources(folder).items():
        for engine in (None, "memory", "disk", "duckdb"):
            place = folder / f"{name}-{engine}"
            place.mkdir()
            yield from attempt(f"{name}/{engine}", released, data, engine, place)


@case("write")
def write_tables(folder: Path) -> Iterator[Output]:
    """A table in every format that is written."""
    model = fit_method("mst", sealed(folder, schema=SCHEMAS["kinds"], more=True), 80, "extended")
    for gaps in ("filled", "as observed"):
        table = sample(model, 60, seed=9, gaps=gaps)
        for ending in ("csv", "csv.gz", "tsv", "parquet"):
            path = folder / f"{gaps.replace(' ', '-')}.{ending}"
            write_table(table, path)
            yield f"{gaps}/{ending}", content(path)
        yield f"{gaps}/pandas", as_pandas(table).to_csv()
        yield f"{gaps}/arrow", as_arrow(table).to_pylist()
        yield f"{gaps}/polars", as_frame(table)
        yield f"{gaps}/text", as_text(table)
        yield f"{gaps}/again", public_text(folder / f"{gaps.replace(' ', '-')}.csv", schema_of(model))
    write_sample(model, folder / "more.csv", 70, seed=2)
    yield "more", content(folder / "more.csv")


def content(path: Path) -> Any:
    """What is in a file of rows: its text, or its frame."""
    if path.suffix == ".parquet":
        return pl.read_parquet(path)
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


# ------------------------------------------------------------------ resumable runs


@case("resume/aim", "aim")
@case("resume/mst", "mst")
@case("resume/privbayes", "privbayes")
@case("resume/kamino", "kamino")
def resume(folder: Path, method: str) -> Iterator[Output]:
    """A run that keeps a journal and is not stopped, and the same run again, which is free."""
    table = sealed(folder)
    for turn in ("first", "again"):
        with resumed(ledger_of(table), folder / "run.journal"):
            model = fit_method(method, table, 50, "observed")
            answer = answer_of(ask(table, question("mean(income) by color"), 10))[0]
        yield f"{turn}/sample", as_frame(sample(model, 30, seed=1))
        yield f"{turn}/answer", answer[0]
        yield f"{turn}/entries", entries_of(ledger_of(table))[0]
    yield from ledger_outputs(ledger_of(table))


# ------------------------------------------------------------------ the command line


def run(folder: Path, *arguments: object) -> tuple[int, str, str]:
    """The command line in this process, so that its noise is fixed: exit code and what it prints."""
    old_arguments, old_folder, out, err = sys.argv, Path.cwd(), io.StringIO(), io.StringIO()
    sys.argv = ["gapless", *map(str, arguments)]
    os.chdir(folder)
    code: Any = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command_line()
    except SystemExit as left:
        code = left.code or 0
    finally:
        sys.argv = old_arguments
        os.chdir(old_folder)
    return int(code), out.getvalue(), err.getvalue()


def run_command(name: str, folder: Path, *arguments: object) -> Iterator[Output]:
    """A command with --json: its exit code and the numbers that it prints; texts apart."""
    code, out, err = run(folder, *arguments)
    yield f"{name}/code", code
    yield f"{name}/errors", Text(err)
    try:
        printed = json.loads(out)
    except ValueError:
        yield f"{name}/printed", Text(out)
        return
    yield from both(f"{name}/json", printed)


FOLDER_FILES = ("synthetic.csv", "synthetic.parquet", "schema.toml", "ledger.json")


def folder_outputs(name: str, release: Path) -> Iterator[Output]:
    """The data files of a release folder; pages and statements are texts of another kind."""
    names = sorted(path.name for path in release.iterdir()) if release.is_dir() else []
    yield f"{name}/files", Text(names)
    for file in FOLDER_FILES:
        path = release / file
        if not path.is_file():
            yield f"{name}/{file}", "not there"
        elif file == "schema.toml":
            yield f"{name}/{file}", tomllib.loads(path.read_text(encoding="utf-8"))
        elif file == "ledger.json":
            yield from both(f"{name}/{file}", json.loads(path.read_text(encoding="utf-8")))
        else:
            yield f"{name}/{file}", content(path)
    for path in sorted(release.glob("copies/*.csv")) + sorted(release.glob("copies*.csv*")):
        yield f"{name}/{path.name}", content(path)


def prepared(folder: Path, rows: int = 250) -> None:
    """A table and its schema, as files."""
    write_rows(folder / "people.csv", people_rows(rows))
    (folder / "people.toml").write_text(PEOPLE, encoding="utf-8")


NEW = ("--epsilon", 4, "--delta", 1e-6)
TABLE = ("people.csv", "-s", "people.toml")


@case("cli/release")
def cli_release(folder: Path) -> Iterator[Output]:
    """One table from its release to questions, weights, estimates and the ledger."""
    prepared(folder)
    yield from run_command(
        "synth", folder, "synth", *TABLE, *NEW, "--spend", "40%", "-m", "mst", "--seed", 3, "--json", "-o", "out"
    )
    yield from folder_outputs("synth", folder / "out")
    yield from run_command("verify", folder, "verify", "out", "--json")
    yield from run_command("sample", folder, "sample", "out", "--rows", 30, "--seed", 7, "-o", "more.csv", "--json")
    yield "sample/rows", content(folder / "more.csv")
    given = ("--given", "color=red", "--gaps", "as-observed")
    yield from run_command(
        "given", folder, "sample", "out", "--rows", 30, "--seed", 7, *given, "-o", "given.csv", "--json"
    )
    yield "given/rows", content(folder / "given.csv")
    asked = ("mean(income) where age >= 20 by color", "count()")
    yield from run_command("ask", folder, "ask", *TABLE, "--spend", "10%", *asked, "--json")
    deck = ("--missing", "hot-deck", "--on", "single", "--limit", 2)
    yield from run_command("ask-hot-deck", folder, "ask", *TABLE, "--spend", "5%", asked[0], *deck, "--json")
    yield from run_command(
        "ask-preview", folder, "ask", *TABLE, "--spend", "5%", *asked, "--preview", "--rows", 99, "--json"
    )
    yield from run_command("ask-quantile", folder, "ask", *TABLE, "--spend", "5%", "median(age) by single", "--json")
    yield from run_command(
        "weigh", folder, "weigh", *TABLE[:1], "out", *TABLE[1:], "--spend", "10%", "-o", "w.csv", "--json"
    )
    yield "weigh/rows", content(folder / "w.csv")
    yield from run_command(
        "estimate", folder, "estimate", "out", "mean(income) by color", "--copies", 2, "--seed", 1, "--json"
    )
    yield from run_command("copies", folder, "copies", "out", "--copies", 2, "--seed", 1, "-o", "copies.csv", "--json")
    yield "copies/rows", content(folder / "copies.csv")
    yield from run_command("evaluate", folder, "evaluate", "people.csv", "out", "-s", "people.toml", "--json")
    paid = ("--spend", "10%", "--json")
    yield from run_command("evaluate-paid", folder, "evaluate", "people.csv", "w.csv", "-s", "people.toml", *paid)
    yield from run_command("ledger", folder, "ledger", "people.ledger", "--json")
    yield from run_command("ledger-mcar", folder, "ledger", "people.ledger", "--mcar", "income=0.3", "--json")
    yield from run_command(
        "ledger-at-least", folder, "ledger", "people.ledger", "--missing-at-least", "income=0.1", "--json"
    )
    yield from run_command("ask-too-much", folder, "ask", *TABLE, "--spend", "90%", "count()", "--json")
    yield from run_command(
        "synth-rest", folder, "synth", *TABLE, "-m", "independent", "--seed", 4, "--json", "-o", "rest"
    )
    yield from folder_outputs("synth-rest", folder / "rest")
    yield "entries", entries_of(open_ledger(folder / "people.ledger"))[0]


def cli_synth(folder: Path, *options: object) -> Iterator[Output]:
    """Releases with other options."""
    prepared(folder, 150)
    yield from run_command("synth", folder, "synth", *TABLE, *options, "--seed", 3, "--json", "-o", "out")
    yield from folder_outputs("synth", folder / "out")
    yield "entries", entries_of(open_ledger(folder / "people.ledger"))[0]


SYNTHS: dict[str, tuple[object, ...]] = {
    "pure": ("--epsilon", 2, "--delta", 0, "-m", "independent"),
    "auto": (*NEW, "--rows", 50),
    "aim-always": (*NEW, "-m", "aim", "--always", "age+income", "--rows", 50),
    "observed": (*NEW, "-m", "mst", "--missing", "observed", "--rows", 50),
    "impute-mean": (*NEW, "-m", "privbayes", "--missing", "impute-mean", "--rows", 50),
    "as-observed": (*NEW, "-m", "mixture", "--gaps", "as-observed", "--rows", 50),
    "disk": (*NEW, "-m", "mst", "--engine", "disk", "--rows", 50),
    "copies": (*NEW, "-m", "independent", "--copies", 2, "--rows", 50),
}
for _name, _options in SYNTHS.items():
    case(f"cli/synth-{_name}", *_options)(cli_synth)


@case("cli/fit")
def cli_fit(folder: Path) -> Iterator[Output]:
    """A model file and samples of it."""
    prepared(folder)
    yield from run_command(
        "fit", folder, "fit", *TABLE, *NEW, "--spend", "50%", "-m", "mst", "-o", "people.model", "--json"
    )
    yield from run_command(
        "sample", folder, "sample", "people.model", "--rows", 30, "--seed", 7, "-o", "f.parquet", "--json"
    )
    yield "rows", content(folder / "f.parquet")
    yield from run_command("ledger", folder, "ledger", "people.ledger", "--json")


@case("cli/files")
def cli_files(folder: Path) -> Iterator[Output]:
    """Commands on files that nobody pays for: gap, check, schema draft."""
    prepared(folder)
    yield from run_command("check", folder, "check", *TABLE, "--json")
    for mechanism, more in {"mcar": (), "mar": ("--observed", "color"), "mnar": ("--how", "self")}.items():
        output = ("-o", f"{mechanism}.csv", "--schema-output", f"{mechanism}.toml", "--json")
        rates = ("--rate", "age=0.3", "--rate", "income=0.2")
        yield from run_command(mechanism, folder, "gap", *TABLE, "-m", mechanism, *rates, *more, "--seed", 1, *output)
        yield f"{mechanism}/rows", content(folder / f"{mechanism}.csv")
        yield f"{mechanism}/schema", tomllib.loads((folder / f"{mechanism}.toml").read_text(encoding="utf-8"))
    run(folder, "schema", "draft", "people.csv", "-o", "draft.toml")
    yield "draft", tomllib.loads((folder / "draft.toml").read_text(encoding="utf-8"))


@case("cli/demo")
def cli_demo(folder: Path) -> Iterator[Output]:
    """The demo: its ledger, its rows and its model."""
    code, _, err = run(folder, "demo", "-o", "demo")
    yield "code", code
    yield "errors", Text(err)
    release = folder / "demo" / "release"
    yield from folder_outputs("release", release)
    yield from ledger_outputs(open_ledger(folder / "demo" / "nhanes.ledger"))
    models = sorted(release.glob("*.model"))
    yield "models", len(models)
    for model in models:
        yield "sample", as_frame(sample(load_model(model), 50, seed=1))


# ------------------------------------------------------------------ recording and comparing


def summary(text: str) -> str:
    """The beginning of a value as text, enough to find most differences."""
    return text if len(text) <= KEPT else f"{text[:KEPT]} … ({len(text):,} characters)"


def first_difference(text: str, other: str) -> tuple[str, str]:
    """Both texts around the first place where they differ, and as they begin if that was not kept."""
    shorter = min(len(text), len(other))
    same = next((place for place in range(shorter) if text[place] != other[place]), shorter)
    start = max(0, same - SHOWN // 3) if same < min(shorter, KEPT) else 0
    before = "… " if start else ""
    return before + text[start : start + SHOWN], before + other[start : start + SHOWN]


def run_case(name: str) -> dict[str, dict[str, str]]:
    """All outputs of a case; an error that is none of gapless' own is an output too."""
    found: dict[str, dict[str, str]] = {}
    noise = contextlib.nullcontext() if name.startswith("promise/") else fixed_noise(zlib.crc32(name.encode()))
    # Gaps are filled by seeds of the system, of which there is no fixed source: one for each case, in whatever order.
    seeds = mock.patch("secrets.randbits", lambda bits: random.Random(f"{name} {bits}").getrandbits(bits))
    with tempfile.TemporaryDirectory(prefix="unchanged-") as place, warnings.catch_warnings(), noise, seeds:
        warnings.simplefilter("ignore")
        for output, value in _until_error(CASES[name](Path(place))):
            worded = isinstance(value, Text)
            text = json.dumps(plain(value.content if worded else value), ensure_ascii=False)
            text = text.replace(str(Path(place).resolve()), "FOLDER").replace(place, "FOLDER")
            digest = hashlib.sha256(text.encode()).hexdigest()[:20]
            full = f"{name}/{output}"
            if full in found:
                raise SystemExit(f"two outputs are called {full}")
            found[full] = {"kind": "text" if worded else "value", "digest": digest, "shows": summary(text)}
    return found


def _until_error(outputs: Iterator[Output]) -> Iterator[Output]:
    try:
        yield from outputs
    except Refusal as error:
        yield "refused", type(error).__name__
        yield "message", Text(str(error))
    except Exception as error:  # noqa: BLE001 whatever goes wrong is what a version does
        last = traceback.extract_tb(error.__traceback__)[-1]
        yield "ERROR", type(error).__name__
        yield "ERROR/message", Text(f"{error} ({Path(last.filename).name}:{last.lineno})")


def run_all(only: str) -> dict[str, dict[str, str]]:
    """All outputs of the cases whose names begin so, with progress."""
    names = [name for name in CASES if name.startswith(only)]
    found: dict[str, dict[str, str]] = {}
    for place, name in enumerate(names, 1):
        begun = time.perf_counter()
        outputs = run_case(name)
        found |= outputs
        took = time.perf_counter() - begun
        wrong = "  ERROR" if any(output.endswith("/ERROR") for output in outputs) else ""
        print(
            f"[{place}/{len(names)}] {name}: {len(outputs)} outputs, {took:.1f} s{wrong}", file=sys.stderr, flush=True
        )
    return found


def report(before: Mapping[str, dict[str, str]], after: Mapping[str, dict[str, str]]) -> int:
    """Print what differs, and give the number of values that do."""
    nothing = {"kind": "", "digest": "", "shows": "(no such output)"}
    differ: dict[str, list[str]] = {"value": [], "text": []}
    equal = {"value": 0, "text": 0}
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, nothing), after.get(name, nothing)
        kind = old["kind"] or new["kind"]
        if old["digest"] == new["digest"]:
            equal[kind] += 1
        else:
            was, now = first_difference(old["shows"], new["shows"])
            differ[kind].append(f"{name}\n    before: {was}\n    after:  {now}")
    for kind, title in (("text", "texts that differ"), ("value", "outputs that differ")):
        if differ[kind]:
            print(f"\n{title}:")
            for line in differ[kind]:
                print(f"  {line}")
    print(f"\n{equal['value']} outputs are equal, {len(differ['value'])} differ")
    print(f"{equal['text']} texts are equal, {len(differ['text'])} differ (not counted)")
    return len(differ["value"])


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare", "list"])
    parser.add_argument("file", type=Path, nargs="?", help="the file of recorded outputs")
    parser.add_argument("--only", default="", help="run the cases whose names begin so")
    arguments = parser.parse_args()
    if arguments.action == "list":
        print("\n".join(name for name in CASES if name.startswith(arguments.only)))
        return
    if arguments.file is None:
        parser.error("name the file of recorded outputs")
    begun = time.perf_counter()
    print(f"gapless in {Path(gl.__file__).parent}", file=sys.stderr)
    if arguments.action == "record":
        found = run_all(arguments.only)
        arguments.file.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
        values = sum(output["kind"] == "value" for output in found.values())
        errors = [name for name in found if name.endswith("/ERROR")]
        print(f"{values} outputs and {len(found) - values} texts in {time.perf_counter() - begun:.0f} s")
        print("\n".join(f"ended by an error: {name}" for name in errors))
        return
    before = json.loads(arguments.file.read_text(encoding="utf-8"))
    chosen = {name: output for name, output in before.items() if name.startswith(arguments.only)}
    different = report(chosen, run_all(arguments.only))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
