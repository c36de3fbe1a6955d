"""Copies and rows of a release by factors: what noise does to copies, and correlations with and without gaps."""

import math
from dataclasses import replace

import numpy as np
import pytest

import gapless as gl
from gapless.schema import Categorical, Integer, Schema
from gapless.synth import Factors, copies, learners, measurements
from gapless.synth.marginal import factors_fit
from gapless.testing.audit import private

ROWS = 2000
CELLS = 6


def schema(*, gaps):
    return Schema(
        "numbers",
        [
            Integer("x", bounds=(0, CELLS - 1), bins=CELLS),
            Integer("y", bounds=(0, CELLS - 1), bins=CELLS, may_be_missing=gaps),
            Categorical("z", ["low", "high"]),
        ],
    )


def people(seed, rows=ROWS, *, gaps):
    """Two numbers with correlation 0.6 before rounding, and a group; with gaps, a fifth of y is missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = 0.6 * x + 0.8 * rng.normal(size=rows)
    high = x + y + rng.normal(size=rows) > 0
    codes = [np.clip(np.floor(column + CELLS / 2), 0, CELLS - 1).astype(int) for column in (x, y)]
    if gaps:
        codes[1][rng.random(rows) < 0.2] = CELLS
    return gl.Table(schema(gaps=gaps), [*codes, high.astype(int)], rows=rows)


def fitted(seed, folder, *, gaps, rows=ROWS, missing=None, budget=2.0):
    people_seen = people(seed, rows, gaps=gaps).to_polars()
    table = private(people_seen, schema(gaps=gaps), folder, budget=gl.Budget(budget, 1e-6))
    return Factors(missing=missing or gl.Extended()).fit(table, spend=table.ledger.left)


def correlation(table):
    return np.corrcoef(table.codes[0].astype(float), table.codes[1].astype(float))[0, 1]


def correlation_of(model):
    """Between x and y in a distribution of cells."""
    p = model.marginal([0, 1])[:CELLS, :CELLS]
    numbers = np.arange(CELLS)
    means = [p.sum(axis=1) @ numbers, p.sum(axis=0) @ numbers]
    variances = [p.sum(axis=1) @ numbers**2 - means[0] ** 2, p.sum(axis=0) @ numbers**2 - means[1] ** 2]
    return (numbers @ p @ numbers - means[0] * means[1]) / math.sqrt(variances[0] * variances[1])


def test_warm_starts_vary_as_cold_ones_do(tmp_path, monkeypatch):
    """Correlations of copies, over the same noise from a warm start and from cold ones: the ratio of their spreads.

    Pairs correlate by 0.98, so the ratio of 24 errs by about 0.05 around 0.95: false alarm below 1e-6 with seven of
    these. Copies that hardly move from their start, which would make intervals too narrow, are caught: about 0.2.
    """
    monkeypatch.setattr(learners, "FOLLOW_STEPS", 200)  # enough for three columns
    known, rng = schema(gaps=False), np.random.default_rng(1)
    released = fitted(1, tmp_path, gaps=False).measurements
    start = released.learn(known, follow_noise=True)
    again = [released.resampled(rng) for _ in range(24)]

    def spread(start):
        found = [table.learn(known, follow_noise=True, start=start) for table in again]
        return np.std([correlation_of(learned.filled) for learned in found])

    cold = spread(None)
    assert 0.6 < spread(start) / cold < 1.3
    monkeypatch.setattr(learners, "COPY_STEPS", 2)
    assert spread(start) / cold < 0.5


@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed(), None], ids=str)
def test_correlations_are_those_of_complete_rows(missing, tmp_path):
    """With a fifth of y missing completely at random, and without gaps.

    In 20,000 rows sampling and noise move the correlation by 0.005, so 0.03 is six of these: false alarm below 1e-6. If
    a fifth of the rows were filled without regard to x, it would be smaller by 0.11, and that is caught.
    """
    truth = correlation(people(0, 200_000, gaps=False))
    model = fitted(2, tmp_path, rows=20_000, gaps=missing is not None, missing=missing, budget=20.0)
    rows = model.sample(20_000, seed=1)
    assert abs(correlation(rows) - truth) < 0.03
    planted = rows.codes[1].copy()
    planted[:4000] = planted[:4000][::-1]
    assert abs(correlation(rows.with_codes([rows.codes[0], planted, rows.codes[2]], schema=rows.schema)) - truth) > 0.03
    p = model.filled.marginal([0, 1])[CELLS - 1]
    given = model.sample(5_000, seed=1, given={"x": CELLS - 1}).codes[1].astype(float)
    assert abs(given.mean() - p @ np.arange(CELLS) / p.sum()) < 6 * given.std() / math.sqrt(5_000)


def estimated_correlation(table):
    """The correlation and its sampling variance, by influence functions."""
    x, y = (codes - codes.mean() for codes in (table.codes[0].astype(float), table.codes[1].astype(float)))
    x, y = x / x.std(), y / y.std()
    r = (x * y).mean()
    return r, (x * y - r * (x * x + y * y) / 2).var() / table.rows


@pytest.mark.slow
def test_intervals_allow_for_the_errors_that_correlations_have(tmp_path, monkeypatch):
    """20 samples of 1,000 people, a fifth of y missing, each with noise of its own and 4 copies.

    The mean square of their errors, in 1/1.96 of half an interval, exceeds 3.3 in less than one of a million runs if
    intervals are those of normal errors. Copies and replicates without fresh noise are caught: sampling is all that
    their intervals allow for.
    """
    monkeypatch.setattr(copies, "ROWS", 1_000)
    monkeypatch.setattr(learners, "FOLLOW_STEPS", 200)
    monkeypatch.setattr(factors_fit, "COMPONENTS", 128)  # enough for three columns
    truth, rng = correlation(people(0, 400_000, gaps=False)), np.random.default_rng(3)
    model = fitted(3, tmp_path, rows=1_000, gaps=True, budget=0.3)
    samples = [np.column_stack(people(100 + number, 1_000, gaps=True).codes) for number in range(20)]
    released = [model.measurements.measure_rows(codes, model.schema, rng) for codes in samples]

    def mean_square():
        models = [replace(model, measurements=tables, total=tables.total) for tables in released]
        pooled = [gl.pool(model.copies(4), estimated_correlation).estimates[0] for model in models]
        low, high = np.array([found.interval for found in pooled]).T
        errors = np.array([found.value for found in pooled]) - truth
        return np.mean((1.96 * errors / ((high - low) / 2)) ** 2)

    assert mean_square() < 3.3
    without = lambda tables, counts, _: tables._with_counts(counts)  # noqa: E731
    monkeypatch.setattr(measurements.Measurements, "_with_noise", without)
    assert mean_square() > 3.3
