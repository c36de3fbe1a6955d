"""Attacks on importance weights, each with planted bugs that must be caught.

Calibration: a one-run audit. Thousands of canary rows, each in a separate cell, in or out by a coin; the attacker
sees the weights. Logistic weights: the noisy coefficients, or odds, of two neighbours, distinguished along the line
between them. False alarm at most 1e-6.
"""

import contextlib
import math
from unittest import mock

import numpy as np
import polars as pl
import pytest

from gapless import Budget, CalibrationWeights, Categorical, Schema, Table
from gapless.data import private_logistic as logistic
from gapless.privacy import L2, DiscreteGaussian
from gapless.privacy.noise import current
from gapless.testing.audit import letters_schema, mu_at_least, one_run_epsilon, private
from gapless.testing.noise import no_noise, scaled_noise
from gapless.weights import LogisticWeights
from helpers.open_sealed import reveal

SIDE = 64
LEVELS = [f"c{number}" for number in range(SIDE)]
CANARIES = Schema("canaries", [Categorical("row", LEVELS), Categorical("column", LEVELS)])
EVERY = np.divmod(np.arange(SIDE * SIDE), SIDE)
FAKE = Table(CANARIES, EVERY, rows=SIDE * SIDE)


def audited_epsilon(folder, budget, source):
    present = np.random.default_rng().random(FAKE.rows) < 0.5
    names = np.array(LEVELS)
    rows = pl.DataFrame({name: names[codes[present]] for name, codes in zip(CANARIES.names, EVERY, strict=True)})
    table = private(rows, CANARIES, folder, budget=budget)
    with source:
        weights = np.asarray(CalibrationWeights(pairs=1).fit(table, FAKE, spend=table.ledger.left))
    guessed = weights > weights.mean()  # between the two weights that there are without noise
    return one_run_epsilon(int((guessed == present).sum()), FAKE.rows)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_calibration_weights_keep_their_promise_in_one_run(epsilon, tmp_path):
    assert audited_epsilon(tmp_path, Budget(epsilon, 0), contextlib.nullcontext()) <= epsilon
    assert audited_epsilon(tmp_path, Budget(epsilon, 0), scaled_noise(0.3)) > epsilon  # planted: too little noise
    assert audited_epsilon(tmp_path, Budget(epsilon, 0), no_noise()) > 1.5 * epsilon  # planted: weights from raw counts


LETTERS = letters_schema([2, 2])
TRIALS = 20_000


def coefficients(table):
    fake = Table(LETTERS, [np.zeros(1), np.zeros(1)], rows=1)
    return logistic.logistic_coefficients(table, fake, regularization=50.0, norm="L2")


def odds(table):
    """Of nine rows like the one that comes or goes, cut at 1, which is what they are without it."""
    fake = Table(LETTERS, [np.ones(9), np.ones(9)], rows=9)
    return logistic.logistic_odds(table, fake, regularization=500.0, largest=1.0)[0]


def audited_mu(folder, *, sealed=coefficients, noise=1.0):
    """The Gaussian parameter that what is sealed of an empty table and of one row surely exceeds, and the claim."""
    tables = [private(rows, LETTERS, folder, budget=Budget(8.0, 1e-6)) for rows in ([], [("b", "b")])]
    values = [sealed(table) for table in tables]
    loss = tables[0].ledger.left
    mechanism = DiscreteGaussian.for_loss(loss, values[0].distance)
    mechanism = DiscreteGaussian(mechanism.std * noise)
    raw = [reveal(value, table.ledger) for value, table in zip(values, tables, strict=True)]
    line = (raw[1] - raw[0]) / np.sqrt(((raw[1] - raw[0]) ** 2).sum())
    middle = line @ (raw[0] + raw[1]) / 2
    with scaled_noise(1.0):
        source = current()
        answers = [mechanism(np.tile(value, (TRIALS, 1)), source) @ line > middle for value in raw]
    claimed = math.sqrt(2 * loss.value / loss.order)
    return mu_at_least(int(answers[1].sum()), int(answers[0].sum()), TRIALS), claimed


@pytest.mark.parametrize("sealed", [coefficients, odds])
def test_sealed_weights_keep_their_promise(sealed, tmp_path):
    found, claimed = audited_mu(tmp_path, sealed=sealed)
    assert found <= claimed
    assert found > 0.35 * claimed  # a row that is alone has half of the slope that any can have


@pytest.mark.parametrize("sealed", [coefficients, odds])
def test_planted_too_little_noise_is_caught(sealed, tmp_path):
    found, claimed = audited_mu(tmp_path, sealed=sealed, noise=0.4)
    assert found > claimed


@pytest.mark.parametrize("sealed", [coefficients, odds])
def test_planted_a_distance_that_forgets_the_radius_or_the_rows_is_caught(sealed, tmp_path):
    real = L2

    def forgetful(at_most):
        return real(at_most / 3)

    with mock.patch.object(logistic, "L2", forgetful):
        found, claimed = audited_mu(tmp_path, sealed=sealed)
    assert found > claimed


def test_the_charged_noise_is_the_drawn_noise(tmp_path):
    """The noise of a fit is that of the ledger's entry, and its loss is the spend."""
    fake = Table(LETTERS, [np.zeros(9), np.zeros(9)], rows=9)
    table = private([("a", "b")] * 5, LETTERS, tmp_path, budget=Budget(1.0, 1e-6))
    seen = []
    real = DiscreteGaussian.__call__

    def noting(mechanism, value, noise):
        seen.append(mechanism)
        return real(mechanism, value, noise)

    with mock.patch.object(DiscreteGaussian, "__call__", noting):
        LogisticWeights().fit(table, fake, spend=table.ledger.left)
    (entry,) = table.ledger.entries
    assert entry.mechanism == seen[0].parameters()
    assert table.ledger.percentages() == pytest.approx((100.0, 0.0), abs=1e-6)
