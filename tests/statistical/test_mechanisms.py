"""Noise as it comes out of the gate, white box: scale × loss / distance, cell by cell.

Each test has a false-alarm rate of at most 1e-6 and is run on planted errors, which it must reject: noise at half, 0.8
and 1.25 times its scale, one draw for all cells, half the cost charged, a sensitivity that forgets rows per person.
"""

import contextlib
import math

import numpy as np
import pytest
from scipy import stats

from gapless.privacy import Budget, DiscreteGaussian, Rows, for_counts
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import scaled_noise, shared_noise

# Of the normal test: squares of Laplace noise are skewed, so that the true level of one test is up to 1e-7.
LEVEL = 1e-9
CELLS = 26
REPEATS = 160  # 4,160 draws: a variance off by 0.8² or 1.25² is 6.5 standard deviations beyond the limit or more


def draws(folder, budget, protect=Rows(1), source=contextlib.nullcontext, cheat=None):
    """Noise on an empty table, standardised by what the ledger says of its cost."""
    table = private([], letters_schema([CELLS]), folder, budget=budget, protect=protect)
    share = table.ledger.capacity / REPEATS
    noise = []
    with source():
        grant = table.ledger.grant(table.ledger.left, to="test")
        for _ in range(REPEATS):
            value = table.marginal("x0")
            mechanism = for_counts(share, value.distance)
            if cheat is not None:
                mechanism = cheat(mechanism)
            noise.append(grant.release(value, mechanism, what="x0").value)
    loss = table.ledger.entries[0].loss
    if table.ledger.order == math.inf:
        scale = protect.at_most / loss
        std = 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale)))
    else:
        std = protect.at_most * math.sqrt(table.ledger.order / (2 * loss))
    return np.array(noise) / std


def variance_is_right(noise, kurtosis):
    """A two-sided normal test of the mean square; its variance is (kurtosis - 1) / n."""
    n = noise.size
    z = (np.mean(noise**2) - 1) / math.sqrt((kurtosis - 1) / n)
    return 2 * stats.norm.sf(abs(z)) > LEVEL


def cells_are_independent(noise):
    """The correlation of neighbouring cells of one release."""
    r = np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]
    return 2 * stats.norm.sf(abs(r) * math.sqrt(noise.size)) > LEVEL


BUDGETS = {"pure": (Budget(1.0, 0), 6.0), "approximate": (Budget(1.0, 1e-6), 3.0)}


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("rows", [1, 3])
def test_noise_has_the_size_that_the_ledger_charges_for(kind, rows, tmp_path):
    budget, kurtosis = BUDGETS[kind]
    noise = draws(tmp_path, budget, Rows(rows))
    assert variance_is_right(noise, kurtosis)
    assert cells_are_independent(noise)


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25])
def test_noise_of_the_wrong_size_is_caught(kind, factor, tmp_path):
    budget, kurtosis = BUDGETS[kind]
    assert not variance_is_right(draws(tmp_path, budget, source=lambda: scaled_noise(factor)), kurtosis)


@pytest.mark.parametrize("kind", BUDGETS)
def test_one_draw_for_all_cells_is_caught(kind, tmp_path):
    assert not cells_are_independent(draws(tmp_path, BUDGETS[kind][0], source=shared_noise))


def planted(monkeypatch, wrong):
    """A bug in the cost of Gaussian noise itself: what the gate charges and what a ledger computes again."""
    right = DiscreteGaussian.loss
    monkeypatch.setattr(
        DiscreteGaussian, "loss", lambda mechanism, distance, order: wrong(right, mechanism, distance, order)
    )


def test_half_the_cost_is_caught(tmp_path, monkeypatch):
    planted(monkeypatch, lambda right, *given: right(*given) / 2)
    assert not variance_is_right(draws(tmp_path, Budget(1.0, 1e-6)), 3.0)


def test_a_sensitivity_that_forgets_rows_per_person_is_caught(tmp_path, monkeypatch):
    planted(monkeypatch, lambda right, mechanism, distance, order: right(mechanism, type(distance)(1), order))
    noise = draws(tmp_path, Budget(1.0, 1e-6), Rows(3), cheat=lambda honest: DiscreteGaussian(honest.std / 3))
    assert not variance_is_right(noise, 3.0)


def test_a_release_without_a_charge_is_caught(tmp_path):
    """Planted: a ledger that forgets to write. The number of draws is then not the number of entries."""
    table = private([], letters_schema([4]), tmp_path)
    table.ledger.charge = lambda entries, **_: [1] * len(entries)
    grant = table.ledger.grant(table.ledger.share("10%"), to="test")
    value = table.marginal("x0")
    grant.release(value, DiscreteGaussian.for_loss(grant.left, value.distance), what="x0")
    assert not reads_are_charged(table.ledger, reads=1)


def reads_are_charged(ledger, reads):
    return len(type(ledger).open(ledger.path).entries) == reads
