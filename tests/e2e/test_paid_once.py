"""Whatever pays, stopped right after an answer was kept and run again: it pays for no answer twice, and ends the same.

What becomes of a charge without an answer, and of journals that were cut or changed: unit/privacy/test_journal.py.
"""

import inspect
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.missing import diagnosis
from gapless.privacy import Ledger, Private
from gapless.privacy.journal import Journal
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise
from helpers import fast_methods
from helpers.public_functions import SPEND_NOTHING, public_functions
from helpers.repeatable_noise import repeatable_noise

SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Categorical("town", ["x", "y"]),
        gl.Ordinal("grade", ["1", "2", "3"], may_be_missing=True),
        gl.Integer("age", bounds=(0, 99), bins=4, may_be_missing=True),
    ],
)
RULED = replace(
    SCHEMA, constraints=[gl.schema.Constraint("t1.sex == t2.sex and t1.grade != t2.grade", weight="learned")]
)
LEARNED = gl.Schema("people", [*SCHEMA.columns[:3], gl.Integer("age", bounds=(0, 99), may_be_missing=True)])
BUDGET = gl.Budget(200.0, 1e-6)  # nearest rows need much


class CrashError(Exception):
    """The process is gone."""


def rows(many=80, seed=0):
    rng = np.random.default_rng(seed)

    def perhaps(value):
        return str(value) if rng.random() > 0.1 else None

    return [
        (perhaps("FM"[rng.integers(2)]), "xy"[rng.integers(2)], perhaps(rng.integers(1, 4)), perhaps(rng.integers(100)))
        for _ in range(many)
    ]


def open_table(folder, schema=SCHEMA):
    return private(rows(), schema, folder, budget=BUDGET)


@cache
def fake():
    table = private(rows(seed=1), SCHEMA, Path(tempfile.mkdtemp()), budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(3):
        return gl.MST().fit(table, spend=table.ledger.left).sample(50, seed=1)


def model(synthesizer, schema=SCHEMA):
    """A fit, and what distinguishes two models."""

    def act(table):
        found = synthesizer.fit(table, spend=table.ledger.share("90%"))
        critic = None if found.critic is None else found.critic.weights.tolist()
        return found.sample(60, seed=1).to_polars().rows(), found.facts, found.total, critic

    return call(f"{type(synthesizer).__name__}.fit", act, schema)


def call(name, function, schema=SCHEMA):
    return name, schema, function


def spent(table):
    return table.ledger.share("90%")


def shown(result, ledger):
    """What is public of an answer, in words; without the identity of its ledger, which is drawn at random."""
    return str(result).replace(ledger.identity, "").replace(ledger.identity[:8], "")


def in_steps(table):
    """Patterns of gaps with beginnings that were released, as a table of many columns has them."""
    with mock.patch.object(diagnosis, "AT_ONCE", 1), mock.patch.object(diagnosis, "BLOCK", 1):
        return gl.missing.describe_gaps(table, spend=spent(table))


def ask(question, missing):
    return call("PrivateTable.ask", lambda table: table.ask(replace(question, missing=missing), spend=spent(table)))


def weights(method):
    name = f"{type(method).__name__}.fit"
    return call(name, lambda table: method.fit(table, fake(), spend=spent(table)).values.tolist())


ACTS = {
    **{name: model(method()) for name, method in fast_methods.METHODS.items()},
    "kamino": model(gl.Kamino(steps=4)),
    "aim, tables for certain": model(gl.AIM(always=[("sex", "age")])),
    "mst, gaps filled first": model(gl.MST(missing=gl.ImputeFirst(gl.missing.FromMean()))),
    "independent, gaps filled by kamino": model(
        gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(gl.Kamino(missing=gl.Observed(), steps=4))))
    ),
    "independent, rules learned": model(gl.Independent(), RULED),
    "mixture, bins learned": model(gl.Mixture(), LEARNED),
    "factors, bins learned": model(gl.synth.Factors(), LEARNED),
    "factors, bins learned, gaps left out": model(gl.synth.Factors(missing=gl.Observed()), LEARNED),
    "misgan, noise on generators": model(gl.synth.MisGAN(noised="generators", steps=4)),
    "kamino, a network for each column": model(gl.Kamino(architecture="columns", missing=gl.Observed(), steps=4)),
    "count": ask(gl.Count(by="grade"), gl.Drop()),
    "mean, nearest": ask(gl.Mean("age", where="sex == M"), gl.Knn(on=["town"], cover=["town"])),
    "median": ask(gl.Median("age", by="sex"), gl.Drop()),
    "sum, hot deck": ask(gl.Sum("age"), gl.HotDeck(on=["town"])),
    "several questions": call(
        "ask_all",
        lambda table: gl.query.ask_all(table, [gl.Count(), gl.Mean("age"), gl.Median("age")], spend=spent(table)),
    ),
    "deck": call(
        "HotDeck.release",
        lambda table: gl.HotDeck(on=["town"]).release(table, ["age", "grade"], spend=spent(table)).counts.tolist(),
    ),
    "describe_gaps": call("describe_gaps", lambda table: gl.missing.describe_gaps(table, spend=spent(table))),
    "describe_gaps, a column at a time": call("describe_gaps", in_steps),
    "gap_rates": call("gap_rates", lambda table: gl.missing.gap_rates(table, spend=spent(table))),
    "compare_private": call(
        "compare_private", lambda table: gl.evaluate.compare_private(table, fake(), spend=spent(table))
    ),
    "calibration weights": weights(gl.CalibrationWeights(pairs=3)),
    "logistic weights": weights(gl.weights.LogisticWeights(noise="knorm", debias=False)),
    "noised weights": weights(gl.weights.NoisedWeights()),
    "network weights": weights(gl.weights.NetworkWeights(steps=4)),
}


def run(name, table, journal):
    _, _, act = ACTS[name]
    with gl.privacy.resumable(table.ledger, journal), repeatable_noise(5):
        return shown(act(table), table.ledger)


def stopping_after(turns):
    """Crash as soon as this number of batches of answers is kept."""
    kept, turn = Journal.write_answers, iter(range(1, 10**6))

    def keep(journal, answers):
        kept(journal, answers)
        if next(turn) == turns:
            raise CrashError

    return mock.patch.object(Journal, "write_answers", keep)


# Cells that are filled first are drawn by secret chance, whatever the noise: two tables are filled differently.
FILLED = {"mst, gaps filled first", "independent, gaps filled by kamino", "kamino, a network for each column"}


@pytest.mark.filterwarnings("ignore::gapless.weights.FewRowsWarning")
@pytest.mark.parametrize("name", ACTS)
def test_stopped_after_any_answer_it_pays_for_none_again(name, tmp_path):
    whole, table = (open_table(tmp_path, ACTS[name][1]) for _ in range(2))
    kept = []
    with mock.patch.object(
        Journal, "write_answers", lambda *args, keep=Journal.write_answers: (kept.append(1), keep(*args))
    ):
        wanted = run(name, whole, tmp_path / "whole")
    many = len(kept)
    stops = sorted({1, many // 2, many} - {0})
    for before, stop in zip([0, *stops], stops, strict=False):
        with stopping_after(stop - before), pytest.raises(CrashError):
            run(name, table, tmp_path / "run")
    paid = table.ledger.entries
    with (
        mock.patch.object(Private, "_open", side_effect=AssertionError("read again")),
        mock.patch.object(Ledger, "charge", side_effect=AssertionError("charged again")),
    ):
        result = run(name, table, tmp_path / "run")
        assert run(name, table, tmp_path / "run") == result
    assert name in FILLED or result == wanted
    assert Ledger.open(table.ledger.path).entries == paid
    assert [entry.loss for entry in paid] == [entry.loss for entry in whole.ledger.entries]


# Each calls one of the acts above; test_resume.py stops those of publish/.
MADE_OF_ACTS = {"release", "save_model", "weigh"}


def test_nothing_that_pays_is_left_out():
    paying = {name for name, function in public_functions() if "spend" in inspect.signature(function).parameters}
    paying = {name for name in paying if not name.endswith(".answer_together")}  # which is ask_all
    assert paying - SPEND_NOTHING - MADE_OF_ACTS == {name for name, *_ in ACTS.values()}
