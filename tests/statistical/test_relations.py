"""Intervals of relations hold the truth of the population, for copies of two methods."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import gapless as gl
from gapless.inference.estimates import estimate
from gapless.query import parse_question
from gapless.testing.audit import private

SAMPLES, ROWS, COPIES = 24, 500, 6
ALPHA = 1e-6
SCHEMA = gl.Schema(
    "clinic",
    [gl.Integer("age", bounds=(0, 5)), gl.Categorical("sex", ["F", "M"]), gl.Integer("pressure", bounds=(0, 5))],
)
TEXTS = ("corr(age, pressure)", "spearman(age, pressure)", "ols(pressure ~ age + sex)", "table(sex, age)")
QUESTIONS = [parse_question(text) for text in TEXTS]


def people(seed, rows=ROWS):
    rng = np.random.default_rng([9, seed])
    age, man = rng.integers(6, size=rows), rng.random(rows) < 0.5
    pressure = np.clip(np.floor(0.6 * age + man + rng.normal(0.5, 1, rows)), 0, 5).astype(int)
    return pl.DataFrame({"age": age, "sex": np.where(man, "M", "F"), "pressure": pressure})


def missed(method, folder):
    """How many of the samples miss the truth of each estimate: with copies, and with one of them taken for real."""
    population = gl.Table.read(people(0, 400_000), SCHEMA)
    truths = np.concatenate([estimate(question, population).values for question in QUESTIONS])
    pooled, naive = np.zeros(len(truths)), np.zeros(len(truths))
    for seed in range(1, SAMPLES + 1):
        table = private(people(seed), SCHEMA, folder, budget=gl.Budget(0.5, 1e-6))
        copies = method.fit(table, spend=table.ledger.left).copies(COPIES, seed=seed)
        found = [part.interval for result in gl.pool(copies, QUESTIONS) for part in result.estimates]
        ends = np.array(found)
        pooled += (truths < ends[:, 0]) | (truths > ends[:, 1])
        rows = [estimate(question, copies[0]) for question in QUESTIONS]
        values, variances = (np.concatenate([getattr(part, name) for part in rows]) for name in ("values", "variances"))
        naive += np.abs(values - truths) > 1.96 * np.sqrt(variances)
    return pooled, naive


def too_often(many):
    """Whether an estimate is missed so often that, at 5 %, it has a probability below `ALPHA`."""
    return stats.binom.sf(many - 1, SAMPLES, 0.05) < ALPHA / len(TEXTS)


@pytest.mark.slow
@pytest.mark.parametrize("method", [gl.Factors(), gl.AIM(always=[("age", "sex", "pressure")])], ids=type)
def test_intervals_hold_the_truth(method, tmp_path):
    """Estimates of a sample depend on each other, so each is judged by itself, at a millionth of all together."""
    pooled, naive = missed(method, tmp_path)
    assert not too_often(pooled.max())
    assert too_often(naive.max())
