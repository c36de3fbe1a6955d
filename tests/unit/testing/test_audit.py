"""Confidence limits of audits, against binomial probabilities; and small private tables."""

import math

import pytest
from scipy import stats

import gapless as gl
from gapless.testing.audit import (
    ALPHA,
    epsilon_at_least,
    letters_schema,
    lower_limit,
    mu_at_least,
    one_run_epsilon,
    private,
    upper_limit,
)


@pytest.mark.parametrize(("hits", "trials"), [(1, 10), (30, 100), (999, 1000)])
def test_limits_are_those_at_which_such_an_outcome_is_just_too_rare(hits, trials):
    assert stats.binom.sf(hits - 1, trials, lower_limit(hits, trials)) == pytest.approx(ALPHA)
    assert stats.binom.cdf(hits, trials, upper_limit(hits, trials)) == pytest.approx(ALPHA)


def test_limits_at_the_ends():
    assert lower_limit(0, 100) == 0
    assert upper_limit(100, 100) == 1
    assert epsilon_at_least(0, 0, 100) == 0


def test_an_event_that_separates_the_inputs_has_a_bound():
    assert epsilon_at_least(9000, 1000, 10_000) == pytest.approx(math.log(9), abs=0.3)
    assert epsilon_at_least(9000, 1000, 10_000, delta=0.9) == 0
    assert mu_at_least(8413, 5000, 10_000) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(("correct", "guesses"), [(60, 60), (900, 1000), (700, 1000)])
def test_one_run_bounds_the_epsilon_at_which_so_many_guesses_are_too_rare(correct, guesses):
    epsilon = one_run_epsilon(correct, guesses)
    assert stats.binom.sf(correct - 1, guesses, 1 / (1 + math.exp(-epsilon))) == pytest.approx(ALPHA, rel=1e-6)


def test_guesses_as_good_as_chance_bound_nothing():
    assert one_run_epsilon(500, 1000) == 0
    assert one_run_epsilon(0, 10) == 0


def test_private_tables_have_ledgers_of_their_own(tmp_path):
    schema = letters_schema([2, 3])
    tables = [private([("a", None)], schema, tmp_path, protect=gl.Rows(2)) for _ in range(2)]
    assert tables[0].ledger.path != tables[1].ledger.path
    assert tables[0].protect == gl.Rows(2)
    assert schema["x1"].gaps != schema["x0"].gaps  # only odd columns know other kinds of gaps
