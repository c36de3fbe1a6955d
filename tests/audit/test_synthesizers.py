"""One-run audits of MST, AIM, PrivBayes and Mixture, end to end: 4000 canary rows, each in a cell of two columns.

Each row is in the table or not by a fair coin. The attacker sees the model and nothing else, and bets on the cells
whose share of their row and column stands out most. Under ε-DP the number of right bets is at most
Binomial(bets, e^ε/(1+e^ε)) (Steinke, Nasr, Jagielski 2023), so each honest run fails with probability at most 1e-6, the
eight of this page together with at most 8e-6, if the synthesizers are correct. Broken noise must be caught.

Only δ = 0 has power: under δ > 0 a table of 4000 cells shows a fraction of its ε. AIM's measurements of the pair are
put into one round, since many small Laplace measurements tell an attacker less than one; the claim is the same. A
mixture stops where noise explains the rest and so says hardly anything about single cells: there the attacker gets the
released tables themselves, from which the model is made.
"""

import contextlib

import numpy as np
import polars as pl
import pytest

from gapless import AIM, MST, Budget, Categorical, Independent, Mixture, Observed, PrivBayes, Schema
from gapless.errors import BudgetError
from gapless.privacy.grant import Grant
from gapless.synth import learners
from gapless.synth.marginal import aim, privbayes
from gapless.testing.audit import one_run_epsilon, private
from gapless.testing.noise import scaled_noise, shared_noise

SIDE = 64
BETS = 2000  # on each side
SCHEMA = Schema("canaries", [Categorical(name, [f"{name}{i}" for i in range(SIDE)]) for name in "xy"])


@pytest.fixture
def one_round(monkeypatch):
    monkeypatch.setattr(aim, "ROUNDS_PER_COLUMN", 0.5)  # times two columns


@pytest.fixture
def released(monkeypatch):
    """The measurements that a mixture was fitted to, by their columns."""
    tables, plain = {}, learners.fit_mixture

    def watched(sizes, measurements, **named):
        tables.update({measurement.columns: measurement.counts for measurement in measurements})
        return plain(sizes, measurements, **named)

    monkeypatch.setattr(learners, "fit_mixture", watched)
    return tables


def audited_epsilon(method, folder, epsilon, source, *, tables=None):
    present = np.random.default_rng().random((SIDE, SIDE)) < 0.5
    x, y = np.nonzero(present)
    rows = pl.DataFrame({"x": [f"x{i}" for i in x], "y": [f"y{i}" for i in y]})
    table = private(rows, SCHEMA, folder, budget=Budget(epsilon, 0))
    with source:
        model = method.fit(table, spend=table.ledger.left)
    mass = model.marginal(["x", "y"])
    order = np.argsort(tables[0, 1] if tables else mass / np.outer(mass.sum(axis=1), mass.sum(axis=0)), axis=None)
    right = int((~present.flat[order[:BETS]]).sum() + present.flat[order[-BETS:]].sum())
    return one_run_epsilon(right, 2 * BETS)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_aim_keeps_its_promise_in_one_run(epsilon, tmp_path, one_round):
    """Four fifths of the budget measure the pair: honest runs show some 0.5 of 1 and 2.2 of 3."""
    assert audited_epsilon(AIM(), tmp_path, epsilon, contextlib.nullcontext()) <= epsilon
    assert audited_epsilon(AIM(), tmp_path, epsilon, scaled_noise(0.4)) > epsilon


def test_aim_keeps_its_promise_with_what_is_always_measured(tmp_path, one_round):
    """The pair is measured for certain, and once more."""
    always = AIM(always=[("x", "y")])
    assert audited_epsilon(always, tmp_path, 1.0, contextlib.nullcontext()) <= 1
    assert audited_epsilon(always, tmp_path, 1.0, scaled_noise(0.3)) > 1


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_mst_keeps_its_promise_in_one_run(epsilon, tmp_path):
    """A third of the budget measures the pair, so it takes a fifth of the noise to be caught here."""
    assert audited_epsilon(MST(missing=Observed()), tmp_path, epsilon, contextlib.nullcontext()) <= epsilon
    assert audited_epsilon(MST(missing=Observed()), tmp_path, epsilon, scaled_noise(0.2)) > epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_privbayes_keeps_its_promise_in_one_run(epsilon, tmp_path, monkeypatch):
    """Some two fifths of the budget measure the pair; all tables count as useful, or none so large would be."""
    monkeypatch.setattr(privbayes, "USEFUL", 1e-3)
    method = PrivBayes(missing=Observed())
    assert audited_epsilon(method, tmp_path, epsilon, contextlib.nullcontext()) <= epsilon
    assert audited_epsilon(method, tmp_path, epsilon, scaled_noise(0.2)) > epsilon


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_mixture_keeps_its_promise_in_one_run(epsilon, tmp_path, released):
    """All of the budget measures the one pair."""
    assert audited_epsilon(Mixture(), tmp_path, epsilon, contextlib.nullcontext(), tables=released) <= epsilon
    assert audited_epsilon(Mixture(), tmp_path, epsilon, scaled_noise(0.6), tables=released) > epsilon


def test_one_draw_for_all_cells_is_caught(tmp_path, one_round):
    """Planted: the same noise in every cell of a table hides the total and nothing else.

    Where it takes all rows off the total there is no table left to bet on, in less than half of the runs: one of 24
    must show it.
    """
    assert any(audited_epsilon(AIM(), tmp_path, 1.0, shared_noise()) > 1.0 for _ in range(24))


def test_one_draw_for_all_cells_of_a_mixture_is_caught(tmp_path, released):
    assert audited_epsilon(Mixture(), tmp_path, 1.0, shared_noise(), tables=released) > 1.0


def test_a_batch_that_costs_more_than_its_share_is_caught(tmp_path, released, monkeypatch):
    """Planted: every table is measured as if it alone had the budget."""
    plain = Grant.noise_for

    def noise_one_by_one(grant, counts, spend, *, shares=None):
        return [noise for value in counts for noise in plain(grant, [value], spend)]

    monkeypatch.setattr(Grant, "noise_for", noise_one_by_one)
    with pytest.raises(BudgetError, match="a release costs"):
        audited_epsilon(Independent(), tmp_path, 1.0, contextlib.nullcontext(), tables=released)
    assert not released
