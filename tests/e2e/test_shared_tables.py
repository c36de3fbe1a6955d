"""Metrics on the public tables beside the repository, if they are there: agreement with another scorer, and time."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import gapless as gl

SHARED = Path(__file__).parents[3] / "shared"
SCORER, DATA = SHARED / "bench" / "score.py", SHARED / "data"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SCORER.exists() and DATA.exists()), reason="no public tables beside the repository"),
]


def score(*arguments):
    done = subprocess.run([sys.executable, SCORER, *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


def tables(name):
    schema = gl.Schema.from_toml(score("--schema", DATA / f"{name}.csv.gz"))
    truth = gl.Table.read(DATA / f"{name}.csv.gz", schema)
    complete = np.all([codes < c.size for codes, c in zip(truth.codes, schema.columns, strict=True)], axis=0)
    truth = gl.Table(schema, [codes[complete] for codes in truth.codes], rows=int(complete.sum()))
    rng = np.random.default_rng(0)
    drawn = [codes[rng.integers(0, truth.rows, 3000)] for codes in truth.codes]  # columns independent: far from it
    return truth, gl.Table(schema, drawn, rows=3000)


@pytest.mark.parametrize("name", ["adult", "bank", "br2000"])
def test_distances_agree_with_the_other_scorer(name, tmp_path):
    truth, fake = tables(name)
    fake.write(tmp_path / "fake.csv")
    other = json.loads(score(DATA / f"{name}.csv.gz", tmp_path / "fake.csv"))
    for k in (1, 2):
        assert gl.evaluate.kway_distance(truth, fake, k=k) == pytest.approx(other[f"tvd{k}"], abs=6e-5)


def test_four_way_distances_take_seconds():
    truth, fake = tables("adult")
    start = time.process_time()
    assert 0 < gl.evaluate.kway_distance(truth, fake, k=4) < 1
    assert time.process_time() - start < 20


def test_nine_classifiers_for_every_label_of_adult():
    pytest.importorskip("sklearn")
    truth, fake = tables("adult")
    start = time.monotonic()
    scores = gl.evaluate.f1_scores(truth, fake)
    assert time.monotonic() - start < 900  # minutes on two idle cores
    assert len(scores) >= 12
    assert all(len(by_classifier) == 9 for by_classifier in scores.values())
