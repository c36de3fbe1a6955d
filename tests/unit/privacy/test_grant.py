"""The gate refuses before it charges, charges before it reads, and uses each entry once."""

import threading
from dataclasses import dataclass

import pytest

import gapless as gl
from gapless.errors import BudgetError, SealedError
from gapless.privacy import L1, DiscreteGaussian, Ledger, Loss, Private, for_counts
from gapless.privacy.grant import Grant
from gapless.privacy.ledger_file import entries_of
from gapless.privacy.pricing import Request
from gapless.testing.audit import letters_schema, private

ROWS = [("a", "b"), ("b", None), ("a", "a")]


@pytest.fixture
def table(tmp_path):
    return private(ROWS, letters_schema([2, 2]), tmp_path, budget=gl.Budget(1.0, 1e-6))


def granted(table, share):
    return Grant(table.ledger, table.ledger._key, table.ledger.capacity * share, "test")


def test_a_lent_part_leaves_the_grant(table):
    grant = granted(table, 0.5)
    lent = grant.transfer(table.ledger.capacity * 0.3)
    assert lent == table.ledger.capacity * 0.3
    assert grant.left.value == pytest.approx(table.ledger.capacity.value * 0.2)
    with pytest.raises(
        BudgetError,
        match=r"a part of 30\.00% of the budget was asked of this grant, but only 20\.00% of the budget is left in it",
    ):
        grant.transfer(table.ledger.capacity * 0.3)


def test_two_grants_together_spend_no_more_than_the_budget(table):
    """Each alone fits into the capacity: earlier spending counts."""
    value = table.marginal("x0")
    first, second = granted(table, 0.6), granted(table, 0.6)
    first.release(value, for_counts(first.left, value.distance), what="x0")
    written = table.ledger.path.read_bytes()
    with pytest.raises(BudgetError, match="a release costs"):
        second.release(value, for_counts(second.left, value.distance), what="x0")
    assert table.ledger.path.read_bytes() == written


@dataclass(frozen=True, slots=True)
class CheapRequest(Request):
    """Claims to lose nothing."""

    def loss(self, order):
        return Loss(0.0, order)


def test_a_request_of_another_class_is_refused(table):
    grant = granted(table, 0.5)
    with pytest.raises(BudgetError, match="a plan needs objects of the class Request"):
        grant.charge_plan([CheapRequest(L1(1), None, DiscreteGaussian(1.0), "x0")])
    assert not table.ledger.entries


@pytest.mark.parametrize("what", [3, None, b"x0"])
def test_the_purpose_of_a_release_is_text(what):
    with pytest.raises(BudgetError, match=f"what of a release must be a str, got {type(what).__name__}"):
        Request(L1(1), None, DiscreteGaussian(1.0), what)


def test_requests_are_taken_once(table):
    """From an iterator as well: what is charged is what is read."""
    value = table.marginal("x0")
    noise = for_counts(table.ledger.capacity / 4, value.distance)
    answers = granted(table, 0.9).release_all((value, noise, name) for name in ("one", "two"))
    assert [answer.entry for answer in answers] == [1, 2]
    assert [entry.what for entry in table.ledger.entries] == ["one", "two"]
    plan = granted(table, 0.3).charge_plan(Request(value.distance, value.reads, noise, name) for name in ("three",))
    assert plan.release(value).entry == 3


def test_threads_that_share_a_plan_use_each_entry_once(table):
    value = table.marginal("x0")
    noise = for_counts(table.ledger.capacity / 100, value.distance)
    plan = granted(table, 0.9).charge_plan([Request(value.distance, value.reads, noise, "x0")] * 40)
    entries, start = [], threading.Barrier(4)

    def read():
        start.wait()
        entries.extend(plan.release(value).entry for _ in range(10))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entries) == list(range(1, 41))


def test_a_mismatch_among_several_values_takes_none_from_the_plan(table):
    """Else the answers that were drawn before it would be paid for and lost."""
    values = table.marginals(["x0", "x1"])
    noise = for_counts(table.ledger.capacity / 4, values[0].distance)
    plan = granted(table, 0.9).charge_plan(
        [Request(value.distance, value.reads, noise, "x") for value in (*values, values[0])]
    )
    with pytest.raises(BudgetError, match="the next value of the plan has"):
        plan.release_all([*values, values[1]])
    with pytest.raises(BudgetError, match="this plan has 3 releases left, got 4 values"):
        plan.release_all([*values, values[0], values[0]])
    assert [answer.entry for answer in plan.release_all([*values, values[0]])] == [1, 2, 3]


def test_a_charge_follows_what_another_process_has_charged_meanwhile(table):
    """Both were granted before: the second entry must neither overwrite the first one nor overspend."""
    value, other = table.marginal("x0"), Ledger.open(table.ledger.path)
    grant, lent = granted(table, 0.6), table.ledger.capacity * 0.6
    noise = for_counts(lent, value.distance)
    price = other.price([Request(value.distance, value.reads, noise, "theirs")])
    other.charge(entries_of(price, to="other", noise_name="system"))
    written = table.ledger.path.read_bytes()
    with pytest.raises(BudgetError, match="a release costs"):
        grant.release(value, noise, what="ours")
    assert table.ledger.path.read_bytes() == written
    small = grant.release(value, for_counts(table.ledger.capacity * 0.2, value.distance), what="ours")
    assert small.entry == 2
    assert [entry.what for entry in Ledger.open(table.ledger.path).entries] == ["theirs", "ours"]


class KeyKeeper(Private):
    """Would be given the key, which opens every value of the table."""


def test_a_value_of_a_subclass_is_refused(table):
    value = table.marginal("x0")
    kept = KeyKeeper(lambda: [0, 0], distance=value.distance, reads=value.reads, key=table.ledger._key)
    noise, grant = for_counts(table.ledger.capacity / 4, value.distance), granted(table, 0.5)
    with pytest.raises(SealedError, match="a KeyKeeper is not a sealed value"):
        grant.release(kept, noise, what="x0")
    assert not table.ledger.entries
    plan = grant.charge_plan([Request(value.distance, value.reads, noise, "x0")])
    with pytest.raises(SealedError, match="a KeyKeeper is not a sealed value"):
        plan.release(kept)
