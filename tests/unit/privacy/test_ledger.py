import contextlib
import json
import math
import os
import re
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import gapless as gl
from gapless.data.neighbors import Matching
from gapless.data.row_contribution import RowContribution
from gapless.data.sums import neighbour_sum, rank_scores
from gapless.data.training import training_rows
from gapless.data.workload import Views, grouped_counts
from gapless.errors import BudgetError, LedgerError, SealedError
from gapless.model.neural.descent import PredictionTask, PredictionTraining
from gapless.model.neural.layers import Linear
from gapless.privacy import L1, MCAR, Budget, DiscreteGaussian, DiscreteLaplace, Ledger, Loss, Rows
from gapless.privacy.ledger_file import NOT_WRITTEN_HINT, RESTORE_HINT, append, hash_of, seal_of
from gapless.privacy.noise import SystemNoise
from gapless.privacy.pricing import Request
from gapless.privacy.private import transform
from gapless.privacy.registry import MECHANISMS
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import FixedNoise, _active, fixed_noise
from helpers.optimizers import plain_steps
from helpers.rewritten_ledger import rewritten
from helpers.teacher_ensembles import prepare_example

ROWS = [("a", "b"), ("b", None), ("a", "a")]


@pytest.fixture
def table(tmp_path):
    return private(ROWS, letters_schema([2, 2]), tmp_path)


def spend(table, percent, what="x0"):
    grant = table.ledger.grant(table.ledger.share(f"{percent}%"), to="test")
    value = table.marginal(what)
    return grant.release(value, DiscreteGaussian.for_loss(grant.left, value.distance), what=what)


def test_an_entry_records_purpose_loss_and_reads(table):
    released = spend(table, 10)
    (entry,) = table.ledger.entries
    assert released.entry == entry.number == 1
    assert (entry.to, entry.what, entry.reads, entry.noise) == ("test", "x0", ["x0"], "system")
    assert entry.mechanism["name"] == "DiscreteGaussian"
    assert entry.distance == {"L1": 1}
    assert entry.loss == pytest.approx(table.ledger.capacity.value / 10)


def test_the_ledger_can_be_opened_again_and_goes_on_where_it_stopped(table):
    spend(table, 30)
    again = Ledger.open(table.ledger.path)
    assert again.entries == table.ledger.entries
    assert again.left.value == pytest.approx(0.7 * again.capacity.value)


def test_more_than_what_is_left_is_refused_with_percentages(table):
    spend(table, 80)
    with pytest.raises(BudgetError, match=r"spend asks for 50\.00% of the budget, but 20\.00% is left\n  Try: "):
        spend(table, 50)


def test_a_grant_cannot_be_overdrawn(table):
    grant = table.ledger.grant(table.ledger.share("10%"), to="test")
    value = table.marginal("x0")
    with pytest.raises(BudgetError, match="is left in this grant"):
        grant.release(value, DiscreteGaussian.for_loss(grant.left * 2, value.distance), what="x0")
    assert table.ledger.entries == ()


def test_the_unspent_part_of_a_grant_is_not_charged(table):
    grant = table.ledger.grant(table.ledger.share("50%"), to="test")
    value = table.marginal("x0")
    grant.release(value, DiscreteGaussian.for_loss(grant.left / 5, value.distance), what="x0")
    assert table.ledger.left.value == pytest.approx(0.9 * table.ledger.capacity.value)


@pytest.mark.parametrize("percent", ["0%", "-1%", "101%", "nan%", "x", "", 50, None, math.nan])
def test_a_share_is_above_zero_and_at_most_all(table, percent):
    with pytest.raises(BudgetError, match="a spend must be a percentage above 0%"):
        table.ledger.share(percent)
    with pytest.raises(BudgetError, match="a spend must be a percentage above 0%"):
        table.ledger.grant(percent, to="test")


def test_a_share_is_percent_of_the_whole_budget_and_a_loss_is_itself(table):
    whole = table.ledger.capacity
    assert table.ledger.share("50%") == table.ledger.share("50") == whole * 0.5
    assert table.ledger.share(whole * 0.2) == whole * 0.2
    with pytest.raises(BudgetError, match=r"a spend of 0\.5 is ambiguous: it may mean 0\.5% or 50% of the budget"):
        table.ledger.share("0.5")


def test_spend_must_be_a_loss_of_this_ledger(table, tmp_path):
    other = private(ROWS, letters_schema([2, 2]), tmp_path, budget=Budget(1.0, 0))
    for wrong in (0.5, other.ledger.left, None):
        with pytest.raises(BudgetError, match=r"must be a percentage|is ambiguous|is a loss of Rényi order"):
            table.ledger.grant(wrong, to="test")


def test_a_ledger_belongs_to_one_table_unit_and_budget(table, tmp_path):
    path = table.ledger.path
    for facts in (
        {"table": "others", "protect": Rows(1), "budget": None},
        {"table": "letters", "protect": Rows(2), "budget": None},
        {"table": "letters", "protect": Rows(1), "budget": Budget(2.0, 1e-6)},
    ):
        with pytest.raises(LedgerError, match=r"is the ledger of|has the budget|protects one row of each person"):
            Ledger.attach(path, **facts)
    assert Ledger.attach(path, table="letters", protect=Rows(1), budget=None).budget == Budget(1.0, 1e-6)


def another_unit(table, rows):
    with pytest.raises(LedgerError) as error:
        Ledger.attach(table.ledger.path, table="letters", protect=Rows(rows), budget=None)
    assert "rows_per_person" not in error.value.hint
    return error.value


def test_a_larger_unit_shows_the_weaker_promise(tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path)
    spend(table, 10)
    spend(table, 10)  # two batches: the budget's filter holds, and no smaller figure
    error = another_unit(table, 14)
    # 14 ε, and δ (e^14 - 1) / (e - 1) = 1e-6 · 1202603.28 / 1.718282
    assert error.message == (
        f"{table.ledger.path} protects one row of each person, and now it would be up to 14 rows: its releases are "
        "less private than they state. For a person with 14 rows (14, 0.699888)-differential privacy is left, in place "
        "of (1, 1e-06)"
    )
    assert error.hint == "release nothing more under this ledger, and correct the privacy statements of its releases"
    assert "no differential privacy can be proved, in place of (1, 1e-06)" in another_unit(table, 15).message


def test_a_larger_unit_while_little_is_spent_is_within_the_promise(tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, budget=Budget(1.0, 1e-6), protect=Rows(2))
    table.ask(gl.Count(), spend="5%")
    message = another_unit(table, 3).message
    assert "less private than they state" not in message
    assert "3 rows its releases so far have (0." in message
    assert "the ledger promises (1, 1e-06), but cannot keep it" in message


def test_a_larger_unit_under_a_pure_budget(tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, budget=Budget(1.0, 0), protect=Rows(3))
    grant = table.ledger.grant(table.ledger.share("20%"), to="test")
    value = table.marginal("x0")
    grant.release(value, DiscreteLaplace.for_loss(grant.left, value.distance), what="x0")
    assert table.ledger.guarantee().epsilon == pytest.approx(0.2)
    wrong = another_unit(table, 7).message  # 7 rows are up to 3 times 3
    assert "For a person with 7 rows (0.6, 0)-differential privacy is left, in place of (0.2, 0)" in wrong


def test_a_larger_unit_after_one_batch_is_priced_by_its_distance(table):
    """Not more than 0.2 % above the best order, and not below the exact δ of the Gaussian mechanism."""
    spend(table, 50)
    (entry,) = table.ledger.entries
    std, delta, rows = entry.mechanism["std"], 1e-6, 14
    orders = 1 + np.geomspace(1e-3, 1e6, 100_001)
    conversion = np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    best = (orders * rows**2 / (2 * std**2) + conversion).min()
    found = table.ledger.guarantee_for(Rows(rows))
    assert best * (1 - 1e-9) <= found.epsilon <= best * 1.002
    assert (found.delta, found.protect) == (delta, Rows(rows))
    shift = rows / std
    exact = norm.cdf(shift / 2 - found.epsilon / shift)
    exact -= np.exp(found.epsilon) * norm.cdf(-shift / 2 - found.epsilon / shift)
    assert exact <= delta
    assert table.ledger.guarantee_for(Rows(1)).epsilon == table.ledger.guarantee().epsilon


def test_a_larger_unit_under_test_noise_has_no_figure(table):
    with fixed_noise(1):
        spend(table, 10)
    error = another_unit(table, 14)
    assert error.message.endswith("and now it would be up to 14 rows")
    assert error.hint.startswith("release nothing more under this ledger")


def test_a_smaller_unit_keeps_the_larger_one(tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, protect=Rows(3))
    spend(table, 10)
    error = another_unit(table, 2)
    assert (
        error.message == f"{table.ledger.path} protects up to 3 rows of each person, and now it would be up to 2 rows"
    )
    assert error.hint == "keep protect=Rows(3): a promise for more rows covers fewer as well"


def test_a_larger_unit_before_anything_is_spent_starts_anew(table):
    path = table.ledger.path
    error = another_unit(table, 14)
    assert error.message.endswith("; nothing was spent under it")
    assert error.hint == f"remove {path} and {path}.seal, and read the table again with budget="


def test_another_budget_before_anything_is_spent_may_start_anew(table):
    with pytest.raises(LedgerError, match=r"leave budget= out: .*, or remove the ledger and its .seal: nothing"):
        Ledger.attach(table.ledger.path, table="letters", protect=Rows(1), budget=Budget(2.0, 1e-6))


def test_a_new_ledger_needs_a_budget(tmp_path):
    with pytest.raises(BudgetError, match="needs a budget"):
        Ledger.attach(tmp_path / "new", table="t", protect=Rows(1), budget=None)


@pytest.mark.parametrize("content", ["", "hello\n", "{}\n", '{"gapless": "model"}\n', "\x00\xff\n", "[1, 2]\n"])
def test_a_foreign_file_is_recognised(tmp_path, content):
    (tmp_path / "f").write_text(content)
    with pytest.raises(LedgerError, match="not a gapless ledger"):
        Ledger.open(tmp_path / "f")


@pytest.mark.parametrize("with_seal", [True, False])
def test_any_change_of_an_earlier_line_is_found(table, with_seal):
    spend(table, 10)
    spend(table, 10)
    lines = table.ledger.path.read_text().splitlines(keepends=True)
    if not with_seal:
        seal_of(table.ledger.path).unlink()
    for number, line in enumerate(lines[:-1]):
        broken = lines.copy()
        broken[number] = line.replace("0", "1", 1)
        table.ledger.path.write_text("".join(broken))
        with pytest.raises(LedgerError):
            Ledger.open(table.ledger.path)


def test_a_changed_last_line_is_found_by_the_seal(table):
    spend(table, 10)
    text = table.ledger.path.read_text()
    table.ledger.path.write_text(text.replace('"what": "x0"', '"what": "x9"'))
    with pytest.raises(LedgerError, match="changed in its last entry"):
        Ledger.open(table.ledger.path)


def test_lost_entries_are_found_by_the_seal(table):
    spend(table, 10)
    spend(table, 10)
    lines = table.ledger.path.read_text().splitlines(keepends=True)
    table.ledger.path.write_text("".join(lines[:2]))
    assert len(Ledger.open(table.ledger.path).entries) == 2  # the last entry is completed from the seal
    table.ledger.path.write_text("".join(lines[:1]))
    with pytest.raises(LedgerError, match="lost entries"):
        Ledger.open(table.ledger.path)


def test_a_ledger_that_vanished_is_not_started_anew(table):
    spend(table, 10)
    spend(table, 10)
    table.ledger.path.unlink()
    with pytest.raises(LedgerError):
        Ledger.attach(table.ledger.path, table="letters", protect=Rows(1), budget=Budget(1.0, 1e-6))


def test_a_half_written_entry_counts_as_spent(table):
    spend(table, 10)
    spend(table, 20)
    path, seal = table.ledger.path, seal_of(table.ledger.path)
    whole, sealed = path.read_bytes(), seal.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start, len(whole)):
        path.write_bytes(whole[:cut])
        seal.write_bytes(sealed)
        assert Ledger.open(path).entries == table.ledger.entries
        assert path.read_bytes() == whole


def test_a_half_written_entry_counts_as_spent_even_without_its_seal(table):
    spend(table, 10)
    spend(table, 20)
    path, seal = table.ledger.path, seal_of(table.ledger.path)
    whole = path.read_bytes()
    spent = table.ledger.spent.value
    start = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(start + 1, len(whole)):
        path.write_bytes(whole[:cut])
        seal.unlink(missing_ok=True)
        recovered = Ledger.open(path)
        assert recovered.spent.value >= spent * (1 - 1e-12)
        assert len(recovered.entries) == 2
        assert Ledger.open(path).entries == recovered.entries


def test_an_unfinished_seal_is_no_harm(table):
    spend(table, 10)
    seal = seal_of(table.ledger.path)
    sealed = seal.read_bytes()
    for cut in range(0, len(sealed), 7):
        seal.write_bytes(sealed[:cut])
        assert Ledger.open(table.ledger.path).entries == table.ledger.entries


def test_a_header_that_promises_one_budget_and_allows_another_is_refused(table):
    path = table.ledger.path
    header = json.loads(path.read_text())
    seal_of(path).unlink()
    for change in ({"capacity": header["capacity"] * 2}, {"order": 2.0}, {"epsilon": 0.1}):
        path.write_text(json.dumps(header | change) + "\n")
        with pytest.raises(LedgerError):
            Ledger.open(path)


def test_releases_of_one_batch_get_the_tighter_total(table):
    grant = table.ledger.grant(table.ledger.left, to="test")
    values = table.marginals(["x0", "x1"])
    noise = DiscreteGaussian.for_loss(grant.left / 2, values[0].distance)
    grant.release_all([(value, noise, "x") for value in values])
    guarantee = table.ledger.guarantee()
    assert 0.85 < guarantee.epsilon < 0.95
    assert "fixed in advance" in guarantee.basis


def planned(table, *names):
    """A plan for the counts of these columns, each with a fifth of the budget."""
    grant = table.ledger.grant(table.ledger.left, to="test")
    values = table.marginals(list(names))
    noise = DiscreteGaussian.for_loss(grant.left / 5, values[0].distance)
    return grant.charge_plan([Request(value.distance, value.reads, noise, "x") for value in values])


def test_a_plan_is_charged_at_once_and_read_in_turn(table):
    plan = planned(table, "x0", "x1")
    assert [entry.batch for entry in table.ledger.entries] == [1, 1]
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value * 0.4)
    answers = [plan.release(table.marginal(name)) for name in ("x0", "x1")]
    assert [answer.entry for answer in answers] == [1, 2]
    with pytest.raises(BudgetError, match="this plan has 0 releases left, got 1 value"):
        plan.release(table.marginal("x1"))
    assert len(table.ledger.entries) == 2


@pytest.mark.parametrize(
    "other",
    [
        lambda table: table.marginal("x1"),  # which reads other rows
        lambda table: table.marginal("x0", rows="extended"),
        lambda table: grouped_counts(table, "x0", [np.array([0, 0])], rows="observed")[0].distance,
        lambda table: transform(
            table.marginal("x0"), list, distance=L1(2.0), reads=table.marginal("x0").reads, key=table.ledger._key
        ),
        lambda table: table,
    ],
)
def test_a_value_that_was_not_planned_is_not_read(table, other):
    plan = planned(table, "x0")
    with pytest.raises((BudgetError, SealedError), match=r"the next value of the plan has|is not a sealed value"):
        plan.release(other(table))
    assert plan.release(table.marginal("x0")).entry == 1


class Anything(float):
    """A number that equals every other."""

    def __eq__(self, _):
        return True

    __hash__ = float.__hash__


class EqualToEverything(frozenset):
    """A set that equals every other."""

    def __eq__(self, _):
        return True

    __hash__ = frozenset.__hash__


@pytest.mark.parametrize(
    ("lie", "wrong"),
    [
        ((L1(Anything(1e-6)), None), r"must hold a plain int or float, got L1\(at_most=.*Anything\)"),
        ((L1(np.int64(1)), None), r"got L1\(at_most=numpy.int64\)\n  Try: pass L1\(int\(...\)\) or L1\(float"),
        ((L1(1), EqualToEverything({"x0"})), "must be None or a frozenset of str, got .*EqualToEverything"),
        ((L1(1), {"x0"}), "must be None or a frozenset of str, got set"),
        ((L1(1), frozenset({1})), "must be None or a frozenset of str, got a frozenset of other objects"),
    ],
)
def test_a_plan_consists_of_plain_numbers_and_names(table, lie, wrong):
    """Else it could say of itself that it equals what is read, and cost less."""
    grant = table.ledger.grant(table.ledger.share("20%"), to="test")
    with pytest.raises(BudgetError, match=wrong):
        grant.charge_plan([Request(*lie, DiscreteGaussian(100.0), "x")])
    assert not table.ledger.entries
    assert grant.left.value == pytest.approx(table.ledger.share("20%").value)


def test_a_plan_takes_from_its_grant(table):
    grant = table.ledger.grant(table.ledger.share("20%"), to="test")
    value = table.marginal("x0")
    noise = DiscreteGaussian.for_loss(grant.left, value.distance)
    grant.charge_plan([Request(value.distance, value.reads, noise, "x")])
    with pytest.raises(BudgetError, match="is left in this grant"):
        grant.charge_plan([Request(value.distance, value.reads, noise, "x")])


def test_an_entry_of_a_plan_is_used_once_by_any_thread(table):
    """It is used up before the read: neither a read that fails, nor a thread, nor a child gets it again."""
    broken = transform(
        table.marginal("x0"),
        lambda _: 1 / 0,
        distance=table.marginal("x0").distance,
        reads=table.marginal("x0").reads,
        key=table.ledger._key,
    )
    plan = planned(table, "x0")
    with pytest.raises(ZeroDivisionError):
        plan.release(broken)
    with pytest.raises(BudgetError, match="this plan has 0 releases left, got 1 value"):
        plan.release(table.marginal("x0"))
    plan, found = planned(table, "x0", "x0"), []

    def read():
        with contextlib.suppress(BudgetError):
            found.append(plan.release(table.marginal("x0")).entry)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [2, 3]


def test_a_plan_is_read_by_the_process_that_charged_and_under_its_noise(table, monkeypatch):
    plan = planned(table, "x0")
    with fixed_noise(1), pytest.raises(BudgetError, match="another process or with another source of noise"):
        plan.release(table.marginal("x0"))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetError, match="another process or with another source of noise"):
        plan.release(table.marginal("x0"))
    monkeypatch.undo()
    assert plan.release(table.marginal("x0")).entry == 1


def test_a_value_of_another_table_is_not_read(table, tmp_path):
    (tmp_path / "other").mkdir()
    other = private(ROWS, letters_schema([2, 2]), tmp_path / "other")
    with pytest.raises(SealedError):
        planned(table, "x0").release(other.marginal("x0"))


def test_adaptive_releases_get_the_filters_promise(table):
    spend(table, 40)
    spend(table, 40)
    assert table.ledger.guarantee().epsilon == 1.0


def test_a_pure_budget_adds_up_epsilons(tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, budget=Budget(2.0, 0))
    grant = table.ledger.grant(table.ledger.share("50%"), to="test")
    value = table.marginal("x0")
    grant.release(value, DiscreteLaplace.for_loss(grant.left, value.distance), what="x0")
    assert table.ledger.guarantee().epsilon == pytest.approx(1.0)
    with pytest.raises(BudgetError, match="needs δ above 0"):
        spend(table, 10)


def test_noise_of_a_test_is_stamped_not_private(table):
    with fixed_noise(seed=1):
        spend(table, 10)
    assert "NOT PRIVATE" in table.ledger.entries[0].noise
    assert table.ledger.guarantee().epsilon == math.inf
    assert str(table.ledger.guarantee()).startswith("NOT PRIVATE")
    assert table.ledger.summary()["guarantee"]["epsilon"] is None


class Disguised(SystemNoise):
    """Counts without noise, under every name that a ledger might trust."""

    name = "system"

    def discrete_gaussian(self, std, size):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("source", [FixedNoise(1), Disguised()])
def test_no_noise_of_a_test_can_call_itself_the_systems(table, source):
    source.name = "system"
    with _active(source):
        spend(table, 10)
    assert table.ledger.entries[0].noise == f"{type(source).__name__}: NOT PRIVATE"
    assert table.ledger.guarantee().epsilon == math.inf
    assert Ledger.open(table.ledger.path).guarantee().epsilon == math.inf


def test_the_ledger_reads_well(table):
    spend(table, 10)
    text = str(table.ledger)
    assert "Ledger of 'letters': ε = 1, δ = 1e-06, protecting one row" in text
    amounts = r"  spent 10\.00%, left 90\.00%\n  All entries so far amount to ε = 0\.\d+, if all of them "
    assert re.search(amounts, text)
    assert "DiscreteGaussian(" in text
    json.dumps(table.ledger.summary(), allow_nan=False)


@pytest.mark.parametrize("name", ["coverage", "given_path"])
def test_facts_on_the_files_cannot_be_set(table, name):
    before = getattr(table.ledger, name)
    with pytest.raises(AttributeError):
        setattr(table.ledger, name, before)
    assert getattr(table.ledger, name) == before


def test_a_missing_folder_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(LedgerError, match="cannot open the ledger"):
        Ledger.attach(tmp_path / "no" / "x.ledger", table="t", protect=Rows(1), budget=Budget(1.0, 0))


def test_a_link_is_the_same_ledger(table, tmp_path):
    (tmp_path / "link").symlink_to(table.ledger.path)
    (tmp_path / "hard").hardlink_to(table.ledger.path)
    spend(table, 60)
    for name in ("link", "hard"):
        again = Ledger.open(tmp_path / name)
        assert again.spent == table.ledger.spent
        with pytest.raises(BudgetError):
            again.grant(again.share("50%"), to="test")
    assert not (tmp_path / "link.seal").exists()


def test_a_ledger_without_its_seal_keeps_its_entries_and_its_lock(table):
    spend(table, 60)
    seal_of(table.ledger.path).unlink()
    with pytest.raises(BudgetError):
        spend(table, 50)
    spend(table, 30)
    assert len(Ledger.open(table.ledger.path).entries) == 2


def test_odd_names_do_no_harm(tmp_path):
    from gapless import Categorical, Schema

    odd = "a\u2028b\u0085c\nd"
    table = private([("x",)], Schema(odd, [Categorical(odd, ["x"])]), tmp_path)
    spend(table, 10, odd)
    assert Ledger.open(table.ledger.path).entries[0].what == odd


def test_zeros_that_a_power_failure_left_are_repaired(table):
    spend(table, 10)
    path = table.ledger.path
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    path.write_bytes(whole[: start + 9] + bytes(len(whole) - start - 9))
    assert Ledger.open(path).entries == table.ledger.entries


def test_a_release_that_cannot_be_opened_is_not_charged(table, tmp_path):
    other = private(ROWS, letters_schema([2, 2]), tmp_path)
    value = other.marginal("x0")
    grant = table.ledger.grant(table.ledger.left, to="test")
    with pytest.raises(SealedError):
        grant.release(value, DiscreteGaussian.for_loss(grant.left, value.distance), what="x0")
    assert table.ledger.entries == ()
    assert grant.left == table.ledger.left


def test_a_mechanism_that_is_not_registered_is_refused(table):
    class Free(DiscreteGaussian):
        def loss(self, distance, order):
            return Loss(0.0, order)

    grant = table.ledger.grant(table.ledger.left, to="test")
    for mechanism in (Free(1.0), type("DiscreteGaussian", (Free,), {})(1.0)):
        with pytest.raises(BudgetError, match="a ledger has no formula for the loss of"):
            grant.release(table.marginal("x0"), mechanism, what="x0")
    assert table.ledger.entries == ()


def test_a_loss_of_another_unit_is_refused(table, monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "loss", lambda *_: Loss(0.0, 1.5))
    grant = table.ledger.grant(table.ledger.left, to="test")
    with pytest.raises(BudgetError, match="losses of different Rényi orders"):
        grant.release(table.marginal("x0"), DiscreteGaussian(1.0), what="x0")


def test_entries_and_distances_cannot_be_changed(table):
    spend(table, 10)
    with pytest.raises(AttributeError):
        table.ledger.entries.clear()
    with pytest.raises(AttributeError):
        table.ledger.entries = ()
    (entry,) = table.ledger.entries
    entry.mechanism["std"] = 1e9
    entry.distance.clear()
    entry.reads.append("x1")
    assert table.ledger.entries == Ledger.open(table.ledger.path).entries
    with pytest.raises(AttributeError):
        table.marginal("x0").distance = None


def test_a_forked_child_does_not_keep_the_lock(table):
    import os
    import time

    from gapless.privacy.ledger_file import locked_ledger

    with locked_ledger(table.ledger.path):
        child = os.fork()
        if child == 0:
            time.sleep(5)
            os._exit(0)
    start = time.monotonic()
    spend(table, 10)
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert time.monotonic() - start < 4


def test_the_ledger_records_dates_and_not_times(table):
    spend(table, 10)
    assert len(table.ledger.entries[0].time) == len("2026-01-01")


def test_printed_entries_are_aligned_for_all_names(tmp_path):
    names = ["a", "total_combined_household_income_before_taxes_of_the_first_wave", "b" * 30]
    schema = gl.Schema("wide", [gl.Boolean(name) for name in names])
    table = private([("true", "false", "true")] * 5, schema, tmp_path)
    gl.Independent().fit(table, spend=table.ledger.share("50%"))
    table.ask(gl.Count(), spend=table.ledger.share("50%"))
    head, *lines = str(table.ledger).split("\n\n")[1].split("\n")
    for word in ("by", "for", "mechanism"):
        start = head.index(f" {word}")
        assert all(line[start] == " " != line[start + 1] for line in lines), word
    assert "total_combined_household…taxes_of_the_first_wave" in lines[1]
    assert max(map(len, lines)) < 120


# ---------------------------------------------------------------------- what the header says holds


def test_the_header_cannot_be_changed(table):
    ledger = table.ledger
    spend(table, 10)
    before = str(ledger), ledger.guarantee()
    for name, value in {
        "order": 1.5,
        "protect": Rows(9),
        "budget": Budget(100.0, 1e-6),
        "table": "others",
        "path": ledger.path.with_name("other.ledger"),
        "identity": "0",
        "capacity": ledger.capacity * 2,
        "spent": Loss(0.0, ledger.order),
        "left": ledger.capacity,
    }.items():
        with pytest.raises(AttributeError):
            setattr(ledger, name, value)
    with pytest.raises(AttributeError):
        table.ledger = None
    assert (str(ledger), ledger.guarantee()) == before


def test_the_assumption_of_a_budget_cannot_be_changed_through_its_ledger(tmp_path):
    filtered = private(ROWS, letters_schema([2, 2]), tmp_path, budget=Budget(1.0, 0, ground_truth=MCAR({"x0": 0.5})))
    filtered.ledger.budget.ground_truth.rates["x0"] = 0.999
    assert filtered.ledger.budget.ground_truth.rates == {"x0": 0.5}


def release(table, mechanism, value):
    table.ledger.grant(table.ledger.left, to="test").release(value, mechanism, what="x")


def released_by(name, folder):
    """The path of a ledger with one entry by this mechanism."""
    approximate = name in ("DiscreteGaussian", "PrivateTraining", "TeacherVotes", "SubsampledTeacher")
    table = private(ROWS, letters_schema([2, 2]), folder, budget=Budget(8.0, 1e-6 if approximate else 0.0))
    half = table.ledger.share("50%")
    views = [(place, np.arange(column.extended_size)) for place, column in enumerate(table.schema.columns)]
    counted = RowContribution(("x1",), lambda rows: np.ones((len(rows["x1"]), 1), dtype=np.int64), 1, 1)
    value = {
        "ExponentialChoice": lambda: Views(table, views, rows="observed").dependence([(0, 1)]),
        "ChoiceByGroup": lambda: rank_scores(table, counted, "x1", quantile=Fraction(1, 2), shifts=[0])[0],
        "SmoothCauchy": lambda: neighbour_sum(
            table, lambda columns: columns["x0"] * 1.0, targets=["x0"], matching=Matching(on=("x1",)), low=0, high=1
        ),
    }.get(name, lambda: table.marginal("x0"))()
    more = {}
    if name == "PrivateTraining":
        cells = PredictionTask(given=(0,), sizes=(3,), targets=(1,), cells=(3,))
        value = training_rows(
            table, PredictionTraining(network=Linear(3, 3), cells=cells, optimizer=plain_steps(0.1, 3), batch_size=1.0)
        )
        more = {"rate": 0.5, "steps": 3, "clip": 1.0, "numbers": 12}
    if name in ("TeacherVotes", "SubsampledTeacher"):
        value, more = prepare_example(table, name)
    release(table, MECHANISMS[name].for_loss(half, value.distance, **more), value)
    return table.ledger.path


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_line_that_states_less_than_its_mechanism_loses_is_refused(tmp_path, name):
    path = released_by(name, tmp_path)
    assert Ledger.open(rewritten(path, lambda *_: None)).entries == Ledger.open(path).entries
    for factor in (0.0, 0.5, 1 - 1e-6):

        def less(number, content, factor=factor):
            content.update({"loss": content["loss"] * factor} if number else {})

        with pytest.raises(LedgerError, match="records a smaller loss for entry 1"):
            Ledger.open(rewritten(path, less))

    def more(number, content):
        content.update({"loss": content["loss"] * 1.5} if number else {})

    assert Ledger.open(rewritten(path, more)).entries[0].loss > Ledger.open(path).entries[0].loss


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"distance": {"L1": 5}},
            "records a smaller loss",
        ),  # a Rows(5) table that was charged as if each person had one row
        ({"mechanism": {"name": "DiscreteGaussian", "std": 0.5}}, "records a smaller loss"),
        ({"mechanism": {"name": "DiscreteGaussian", "std": 0.0}}, "was changed"),
        ({"mechanism": {"name": "DiscreteGaussian", "sigma": 9.0}}, "was changed"),
        ({"mechanism": {"name": "DiscreteGaussian"}}, "was changed"),
        (
            {"mechanism": {"name": "Levy", "scale": 1.0}},
            "does not know the mechanism 'Levy'\n  Try: install",
        ),
        ({"mechanism": {"name": "unknown"}}, "was changed"),  # only what reads every row
        ({"mechanism": {"name": "unknown", "std": 1.0}}, "does not know"),
        ({"distance": {"L7": 1}}, "was changed"),
        ({"distance": {"Smooth": 1}}, "was changed"),
        ({"distance": {"L1": 1e200}}, "was changed"),  # no float holds its square
        ({"mechanism": {"name": "DiscreteGaussian", "std": 1e-200}}, "was changed"),
        ({"what": 3}, "was changed"),
        ({"to": None}, "was changed"),
        ({"reads": "x0"}, "was changed"),
        ({"reads": [["x0"]]}, "was changed"),
        ({"loss": math.inf}, "was changed"),
        ({"loss": -1.0}, "was changed"),
        ({"loss": 1e6}, "entries that exceed its budget"),
    ],
)
def test_an_entry_that_does_not_fit_together_is_refused(table, change, expected):
    spend(table, 10)
    path = rewritten(table.ledger.path, lambda number, content: content.update(change if number else {}))
    with pytest.raises(LedgerError, match=expected):
        Ledger.open(path)


def test_an_order_that_makes_the_entries_dearer_is_refused(table):
    """The header's promise over entries that were charged otherwise."""
    spend(table, 10)
    larger = table.ledger.order * 1.2
    capacity = Budget(1.0, 1e-6).largest_loss(larger) * (1 - 1e-9)

    def change(number, content):
        content.update({} if number else {"order": larger, "capacity": capacity})

    with pytest.raises(LedgerError, match="records a smaller loss"):
        Ledger.open(rewritten(table.ledger.path, change))


def test_lines_of_other_processes_are_computed_again_as_well(table):
    spend(table, 10)
    honest = table.ledger.path.read_bytes()
    again = Ledger.open(table.ledger.path)
    spend(table, 10)
    *_, line = table.ledger.path.read_text().splitlines()
    forged = json.dumps(json.loads(line) | {"loss": 1e-9}) + "\n"
    table.ledger.path.write_bytes(honest + forged.encode())
    seal_of(table.ledger.path).unlink()
    for _ in range(2):  # and nothing of it is kept
        with pytest.raises(LedgerError, match="records a smaller loss for entry 2"):
            again.grant(again.share("1%"), to="test")
    assert len(again.entries) == 1


@pytest.mark.parametrize(
    ("change", "problem"), [({"loss": 1e-9}, "records a smaller loss"), ({"together": True}, "marked")]
)
def test_entries_that_could_not_be_read_again_are_refused_before_they_are_written(table, change, problem, monkeypatch):
    spend(table, 10)
    files = table.ledger.path, seal_of(table.ledger.path)
    before = [file.read_bytes() for file in files]
    (entry,) = table.ledger.entries
    if "together" in change:  # as if another check had missed it
        monkeypatch.setattr(table.ledger, "_entries", [])
    with pytest.raises(
        LedgerError, match=f"the new entries of the ledger could not be read again, so they were refused: .*{problem}"
    ) as error:
        table.ledger.charge([replace(entry, **change)])
    assert error.value.hint == NOT_WRITTEN_HINT
    assert [file.read_bytes() for file in files] == before


# ---------------------------------------------------------------------- another ledger, and the cost of a charge


def test_a_copy_of_another_ledger_is_noticed_by_who_had_opened_the_first(tmp_path):
    first, second = (private(ROWS, letters_schema([2, 2]), tmp_path) for _ in range(2))
    for table in (first, second):
        spend(table, 10)
    assert first.ledger.path.stat().st_size == second.ledger.path.stat().st_size
    for whole in (first.ledger.path, seal_of(first.ledger.path)):
        whole.write_bytes(whole.with_name(whole.name.replace("0", "1")).read_bytes())
    for attempt in (first.ledger.refresh, lambda: spend(first, 10)):
        with pytest.raises(LedgerError, match="no longer the ledger that was opened"):
            attempt()
    assert len(Ledger.open(second.ledger.path).entries) == 1
    assert first.ledger.identity != second.ledger.identity == Ledger.open(second.ledger.path).identity


def test_another_past_of_the_same_ledger_is_noticed(table):
    """Ledger and seal of an earlier moment, and then another entry just as long."""
    path, seal = table.ledger.path, seal_of(table.ledger.path)
    before = path.read_bytes(), seal.read_bytes()
    spend(table, 10, "x0")
    path.write_bytes(before[0])
    seal.write_bytes(before[1])
    with pytest.raises(LedgerError, match="has lost entries"):
        table.ledger.refresh()
    line = table.ledger.entries[0].line(hash_of(before[0].decode()))
    append(path, len(before[0]), line.replace('"what": "x0"', '"what": "x1"'))
    assert Ledger.open(path).entries[0].what == "x1"
    with pytest.raises(LedgerError, match="no longer the ledger that was opened"):
        table.ledger.refresh()


def test_a_charge_reads_what_is_new_and_nothing_else(table):
    value, million = table.marginal("x0"), "x" * 1_000_000
    grant = table.ledger.grant(table.ledger.left, to="test")
    for what in (million, "x0", "x0"):
        grant.release(value, DiscreteGaussian(1e4), what=what)
    tracemalloc.start()
    grant.release(value, DiscreteGaussian(1e4), what="x0")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < len(million) / 4


def test_the_running_total_is_exact(table, monkeypatch):
    grant = table.ledger.grant(table.ledger.left, to="test")
    losses = [10.0**-power for power in range(3, 13)] * 3
    for loss in losses:
        value = table.marginal("x0")
        grant.release(value, DiscreteGaussian.for_loss(Loss(loss, table.ledger.order), value.distance), what="x0")
    recorded = math.fsum(entry.loss for entry in table.ledger.entries)
    assert table.ledger.spent.value == Ledger.open(table.ledger.path).spent.value == recorded
    monkeypatch.setattr(math, "fsum", lambda _: pytest.fail("summed anew"))
    assert table.ledger.spent.value == recorded


def test_threads_share_one_ledger(table):
    noise = DiscreteGaussian(1e3)

    def spend_some():
        grant = table.ledger.grant(table.ledger.share("10%"), to="thread")
        for _ in range(10):
            grant.release(table.marginal("x0"), noise, what="x0")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(spend_some) for _ in range(4)]:
            done.result()
    assert [entry.number for entry in Ledger.open(table.ledger.path).entries] == list(range(1, 41))
    assert table.ledger.entries == Ledger.open(table.ledger.path).entries


@pytest.mark.parametrize("budget", [None, Budget(1.0, 1e-6)])
def test_a_seal_without_its_ledger_is_a_ledger_that_was_lost(budget, tmp_path):
    """Found by a new user: it was called new, a budget was asked for, and an empty file was left behind."""
    path = tmp_path / "people.ledger"
    Ledger.attach(path, table="people", protect=Rows(1), budget=Budget(1.0, 1e-6))
    path.unlink()
    for opened in (
        lambda: Ledger.attach(path, table="people", protect=Rows(1), budget=budget),
        lambda: Ledger.open(path),
    ):
        with pytest.raises(LedgerError, match=r"is gone: only its seal, .*\.seal, is there") as error:
            opened()
        assert error.value.hint == RESTORE_HINT
        assert not path.exists()


def test_a_header_that_is_refused_leaves_no_empty_file(tmp_path):
    path = tmp_path / "people.ledger"
    with pytest.raises(BudgetError, match="a ledger needs a rate for each column"):
        Ledger.attach(path, table="people", protect=Rows(1), budget=Budget(1.0, 0, ground_truth=MCAR(0.2)))
    assert list(tmp_path.iterdir()) == []
