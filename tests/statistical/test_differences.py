"""Stays in a hospital at ε = 1: never negative, and as long as in the table.

The noise is repeatable, so nothing fails by chance. Two dates that are modelled one by one, and two dates with a rule,
fail the same bounds.
"""

import pytest

import gapless as gl
from gapless.synth import METHODS
from helpers.hospital import DECLARED, RULED, SEPARATE, lengths, stays
from helpers.repeatable_noise import repeatable_noise

ROWS = 5000
CLOSE = 1.5  # days between the mean stay of the synthetic rows and that of the table, 6.9 days
SEEDS = (1, 2)


def synthetic_stays(method, schema, folder, seed):
    with repeatable_noise(seed):
        ledger = folder / f"{seed}.ledger"
        table = gl.read(stays(ROWS), schema, protect=gl.Rows(1), ledger=ledger, budget=gl.Budget(1.0, 1e-6))
        model = METHODS[method]().fit(table, spend="100%")
    return model.sample(ROWS, seed=seed).to_polars()


@pytest.mark.parametrize("method", ["mst", "mixture", "factors"])
def test_stays_are_never_negative_and_have_their_mean(method, tmp_path):
    truth = stays(ROWS)
    for seed in SEEDS:
        rows = synthetic_stays(method, DECLARED, tmp_path, seed)
        assert lengths(rows).min() >= 0
        assert abs(lengths(rows).mean() - lengths(truth).mean()) < CLOSE
        by = [rows.filter(severity=severity) for severity in ("low", "middle", "high")]
        means = [lengths(part).mean() for part in by]
        assert means == sorted(means)


def test_two_dates_without_a_difference_fail(tmp_path):
    """The same bounds find the errors that a difference is to prevent."""
    (tmp_path / "ruled").mkdir()
    apart = lengths(synthetic_stays("mst", SEPARATE, tmp_path, 1))
    ruled = lengths(synthetic_stays("mst", RULED, tmp_path / "ruled", 1))
    assert (apart < 0).mean() > 0.3
    assert ruled.min() >= 0
    assert ruled.mean() > lengths(stays(ROWS)).mean() + 10 * CLOSE
