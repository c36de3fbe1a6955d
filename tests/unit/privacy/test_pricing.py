"""Each pricing strategy is a function of the entries, and refuses entries that its ledger could not have."""

import json
from dataclasses import replace

import pytest

import gapless as gl
from gapless.errors import LedgerError
from gapless.privacy import L1, DiscreteGaussian, DiscreteLaplace, Ledger, for_counts
from gapless.privacy.first_batch import FirstBatchFilter
from gapless.privacy.ground_truth_filter import GroundTruthFilter
from gapless.privacy.ledger_file import hash_of, seal_of
from gapless.privacy.pricing import RenyiFilter, Request
from gapless.testing.audit import letters_schema, private

ROWS = [("a", "b"), ("b", None), ("a", "a")]
ASSUMED = gl.MCAR({"x0": 0.3})
BUDGETS = {
    "pure": (gl.Budget(1.0, 0), RenyiFilter),
    "δ": (gl.Budget(1.0, 1e-6), FirstBatchFilter),
    "complete": (gl.Budget(1.0, 0, ground_truth=ASSUMED), GroundTruthFilter),
}


def charged(tmp_path, budget, *, shares=(0.2, 0.3)):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, budget=budget)
    for share in shares:
        grant = table.ledger.grant(table.ledger.capacity * share, to="test")
        value = table.marginal("x0")
        grant.release(value, for_counts(grant.left, value.distance), what="x0")
    return table.ledger


@pytest.mark.parametrize(("budget", "kind"), BUDGETS.values(), ids=BUDGETS)
def test_a_ledger_without_entries_has_the_strategy_of_its_budget(budget, kind, tmp_path):
    ledger = charged(tmp_path, budget, shares=())
    assert type(ledger.pricing()) is kind
    assert ledger.pricing().spent.value == 0


@pytest.mark.parametrize(("budget", "kind"), BUDGETS.values(), ids=BUDGETS)
def test_prices_follow_from_the_entries(budget, kind, tmp_path):
    ledger = charged(tmp_path, budget)
    assert type(ledger.pricing(first_entries=0)) is kind
    spent = [ledger.pricing(first_entries=number).spent.value for number in range(3)]
    assert spent[0] == 0
    assert spent[0] < spent[1] < spent[2] == ledger.spent.value
    noise = DiscreteLaplace(20.0) if budget.delta == 0 else DiscreteGaussian(20.0)
    request = Request(L1(1), frozenset({"x0"}), noise, "x0")
    assert ledger.price([request]) == ledger.price([request], first_entries=2)
    room = ledger.capacity - ledger.spent
    assert ledger.pricing().has_capacity_for(room * 0.99)
    assert not ledger.pricing().has_capacity_for(room * 1.01)


@pytest.mark.parametrize("budget", [BUDGETS["pure"][0], BUDGETS["complete"][0]], ids=["pure", "complete"])
def test_only_a_first_batch_of_gaussian_noise_is_priced_together(budget, tmp_path):
    ledger = charged(tmp_path, budget)
    with pytest.raises(ValueError, match="priced together"):
        ledger.pricing(first_entries=0).after([replace(ledger.entries[0], together=True)])


@pytest.mark.parametrize("run", [3, ["x"], {"a": 1}])
def test_the_token_of_a_run_is_text(run, tmp_path):
    ledger = charged(tmp_path, gl.Budget(1.0, 1e-6), shares=(0.2,))
    header, line = ledger.path.read_text().splitlines(keepends=True)
    content = json.loads(line) | {"run": run, "previous": hash_of(header)}
    ledger.path.write_text(header + json.dumps(content) + "\n")
    seal_of(ledger.path).unlink()
    with pytest.raises(LedgerError, match="was changed at entry 1"):
        Ledger.open(ledger.path)
