"""One-run audits of questions end to end: thousands of canary rows, each in a separate group, in or out by a coin.

False alarm at most 1e-6 (Steinke, Nasr, Jagielski 2023). Planted errors must be caught: half the noise, and a hot deck
whose noise forgets that a donor gives to others.
"""

import contextlib

import numpy as np
import polars as pl
import pytest

from gapless import Boolean, Budget, Categorical, Count, HotDeck, Mean, Schema
from gapless.data import sums
from gapless.data.row_contribution import plain_sum_distance
from gapless.query import CrossTable
from gapless.testing.audit import one_run_epsilon, private
from gapless.testing.noise import scaled_noise

CANARIES = 4000
DONEES = 3
SCHEMA = Schema(
    "canaries", [Categorical("cell", [f"c{i}" for i in range(CANARIES)]), Boolean("x", may_be_missing=True)]
)
PLAIN = {"count": Count(by="cell"), "mean": Mean("x", by="cell"), "cross table": CrossTable("cell", "x")}
DECK = Count(where="x == true", by="cell", missing=HotDeck(on=["cell"], limit=DONEES))


def audited(folder, question, source, *, donees, threshold, epsilon=1.0):
    """The ε that an attacker who sees the answer can prove: the groups' estimates against a fixed threshold."""
    present = np.random.default_rng().random(CANARIES) < 0.5
    cells = [f"c{i}" for i in np.flatnonzero(present)]
    others = [f"c{i}" for i in range(CANARIES)] * donees
    frame = pl.DataFrame({"cell": [*cells, *others], "x": [True] * len(cells) + [None] * len(others)})
    table = private(frame, SCHEMA, folder, budget=Budget(epsilon, 0))
    with source:
        answer = table.ask(question, spend=table.ledger.left)
    values = np.array(list(answer.estimate.values()))
    if isinstance(question, CrossTable):  # the canaries have x == true
        values = values[1::2]
    guessed, sure = values > threshold, values != threshold
    return one_run_epsilon(int((guessed == present)[sure].sum()), int(sure.sum()))


@pytest.mark.parametrize("name", PLAIN)
def test_questions_keep_their_promise_in_one_run(name, tmp_path):
    question = PLAIN[name]
    honest = contextlib.nullcontext()
    assert audited(tmp_path, question, honest, donees=0, threshold=0.5) <= 1.0
    assert audited(tmp_path, question, scaled_noise(0.3), donees=0, threshold=0.5) > 1.0


def test_a_hot_deck_keeps_its_promise_and_its_larger_distance_is_needed(tmp_path, monkeypatch):
    """A donor moves its class's answer by 1 + K."""
    threshold = (1 + DONEES) / 2
    honest = contextlib.nullcontext()
    assert audited(tmp_path, DECK, honest, donees=DONEES, threshold=threshold) <= 1.0
    monkeypatch.setattr(sums, "hot_deck_distance", lambda tally, _, rows: plain_sum_distance(tally, rows))
    assert audited(tmp_path, DECK, honest, donees=DONEES, threshold=threshold) > 1.0
