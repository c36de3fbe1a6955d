"""A stopped run resumes: its entries are not charged again, and no answer is drawn again that anybody has seen."""

import json
import math
import os
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.training import training_rows
from gapless.model.neural.descent import PredictionTask, PredictionTraining
from gapless.model.neural.layers import Linear
from gapless.privacy import (
    ChoiceByGroup,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    Ledger,
    Linf,
    LinfByGroup,
    Plan,
    Private,
    PrivateTraining,
    Smooth,
    SmoothCauchy,
    SmoothValue,
    for_counts,
)
from gapless.privacy.journal import (
    Journal,
    JournalFile,
    _decode_value,
    _encode_value,
    open_journal_file,
    record_in,
)
from gapless.privacy.pricing import Request
from gapless.privacy.private import transform
from gapless.privacy.registry import MECHANISMS
from gapless.privacy.run_states import RunState, state_of, states_path
from gapless.synth import METHODS
from gapless.testing.audit import letters_schema, private
from helpers import teacher_ensembles
from helpers.optimizers import plain_steps
from helpers.repeatable_noise import RepeatableNoise, repeatable_noise

SCHEMA = letters_schema([2, 3, 2, 2])
RNG = np.random.default_rng(3)
ROWS = [tuple(RNG.choice(list("ab")) if RNG.random() > 0.1 else None for _ in range(4)) for _ in range(400)]
RESUMABLE = ["independent", "mst", "aim", "privbayes", "mixture", "factors", "kamino"]


class CrashError(Exception):
    """The process is gone."""


def crash_at(turn, function):
    """The function, which is never entered at this turn."""
    turns = iter(range(10**6))

    def crashing(*args, **kwargs):
        if next(turns) == turn:
            raise CrashError
        return function(*args, **kwargs)

    return crashing


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))


def fit(method, table, journal, missing=None):
    with gl.privacy.resumable(table.ledger, journal), repeatable_noise(5):
        return METHODS[method](missing=missing or gl.Extended()).fit(table, spend=table.ledger.share("90%"))


def facts(model):
    return model.sample(60, seed=1).to_polars().rows(), model.facts.settings, model.facts.structure


def entries(ledger):
    return [(entry.what, entry.mechanism, entry.loss, entry.together) for entry in ledger.entries]


@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed()])
@pytest.mark.parametrize("method", RESUMABLE)
def test_stopped_between_releases_it_ends_as_if_it_had_not_been_stopped(method, missing, tmp_path):
    uninterrupted = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
    wanted = facts(fit(method, uninterrupted, tmp_path / "whole", missing))
    charges = len({entry.batch for entry in uninterrupted.ledger.entries})
    for turn in sorted({0, 1, charges // 2, charges - 1} & set(range(charges))):
        table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
        journal = tmp_path / f"run {turn}"
        with mock.patch.object(Ledger, "charge", crash_at(turn, Ledger.charge)), pytest.raises(CrashError):
            fit(method, table, journal, missing)
        assert facts(fit(method, table, journal, missing)) == wanted
        assert entries(table.ledger) == entries(uninterrupted.ledger)


def training(table):
    program = PredictionTraining(
        network=Linear(3, 2),
        cells=PredictionTask(given=(0,), sizes=(3,), targets=(1,), cells=(2,)),
        optimizer=plain_steps(0.1, 2),
        batch_size=1.0,
    )
    mechanism = PrivateTraining(rate=0.5, steps=2, clip=1.0, std=9.0, numbers=program.numbers)
    return training_rows(table, program, columns=["x0", "x1"]), mechanism


def sealed(table, value, distance):
    """A value for a mechanism that is for no marginal."""
    return transform(table.marginal("x0"), lambda _: value, distance=distance, reads=None, key=table.ledger._key)


def teaching(name):
    def releases(table):
        value, settings = teacher_ensembles.prepare_example(table, name)
        return value, MECHANISMS[name](**settings, std=90.0)

    return releases


RELEASES = {
    "DiscreteLaplace": lambda table: (table.marginal("x0"), DiscreteLaplace(50.0)),
    "DiscreteGaussian": lambda table: (table.marginal(()), DiscreteGaussian(50.0)),  # a single number
    "KNorm": lambda table: (table.marginal("x1"), KNorm(50.0)),
    "ExponentialChoice": lambda table: (sealed(table, np.arange(3.0), Linf(1)), ExponentialChoice(90.0)),
    "ChoiceByGroup": lambda table: (sealed(table, np.eye(2, dtype=np.int64), LinfByGroup(1)), ChoiceByGroup(90.0)),
    "SmoothCauchy": lambda table: (
        sealed(table, SmoothValue(Fraction(1, 3), Fraction(1)), Smooth(1, 1.0)),
        SmoothCauchy(2.0, 0.1, 0.125),
    ),
    "PrivateTraining": training,
    "TeacherVotes": teaching("TeacherVotes"),
    "SubsampledTeacher": teaching("SubsampledTeacher"),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_answer_of_every_mechanism_is_kept(name, tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(20.0, 1e-6))

    def answer():
        with gl.privacy.resumable(table.ledger, tmp_path / "run"):
            grant = table.ledger.grant(table.ledger.left, to="test")
            return grant.release(*RELEASES[name](table), what="x").value

    first = answer()
    with mock.patch.object(Private, "_open", side_effect=AssertionError("read again")):
        again = answer()
    assert (type(again), np.asarray(again).dtype) == (type(first), np.asarray(first).dtype)
    assert np.array_equal(again, first)
    assert len(table.ledger.entries) == 1


def test_refuses_answers_that_are_not_numbers(table, tmp_path):
    """Such a mechanism would be paid for again after a crash. Its author sees the error at the first call."""
    with (
        mock.patch.object(DiscreteGaussian, "__call__", return_value={"counts": [1, 2]}),
        gl.privacy.resumable(table.ledger, tmp_path / "run"),
        pytest.raises(TypeError, match="an answer that is a dict cannot be stored"),
    ):
        grant = table.ledger.grant(table.ledger.left, to="test")
        grant.release(table.marginal("x0"), DiscreteGaussian(50.0), what="x0")


@pytest.mark.parametrize("kind", ["O", "U3", "V8", "M8[s]", "no type"])
def test_an_answer_of_another_type_is_not_read_from_a_journal(kind, table, tmp_path):
    ask(table, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run").read_text().splitlines()]
    for value in (
        {"type": kind, "number": "1"},
        {"type": kind, "shape": [1], "data": "AAAAAAAAAAA="},
        "text",
        [1],
        None,
    ):
        lines[-1]["value"] = value
        (tmp_path / "run").write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(gl.errors.ReadError, match="was changed"):
            ask(table, tmp_path / "run")


def test_stopped_again_and_again_it_goes_on_from_where_it_was(table, tmp_path):
    uninterrupted = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
    wanted = facts(fit("aim", uninterrupted, tmp_path / "whole"))
    charges = len({entry.batch for entry in uninterrupted.ledger.entries})
    for done in range(1, charges):
        with mock.patch.object(Ledger, "charge", crash_at(1, Ledger.charge)), pytest.raises(CrashError):
            fit("aim", table, tmp_path / "run")
        assert len({entry.batch for entry in table.ledger.entries}) == done
    assert facts(fit("aim", table, tmp_path / "run")) == wanted
    assert entries(table.ledger) == entries(uninterrupted.ledger)


@pytest.mark.parametrize("method", RESUMABLE)
def test_a_charge_without_an_answer_is_released_with_the_noise_that_was_charged(method, table, tmp_path):
    uninterrupted = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
    wanted = facts(fit(method, uninterrupted, tmp_path / "whole"))
    for turn in (0, 1, 2):  # three crashes, each after a charge, while rows are read
        with mock.patch.object(RepeatableNoise, "_fixed", crash_at(turn, RepeatableNoise._fixed)), suppress(CrashError):
            fit(method, table, tmp_path / "run")
    assert facts(fit(method, table, tmp_path / "run")) == wanted
    assert entries(table.ledger) == entries(uninterrupted.ledger)
    lines = [json.loads(line) for line in (tmp_path / "run").read_text().splitlines()]
    answered = [line["entry"] for line in lines if "entry" in line]
    assert sorted(answered) == [entry.number for entry in table.ledger.entries]  # each was answered once


def test_an_entry_that_looks_like_ours_and_is_of_another_process_is_not_used(table, tmp_path):
    """The run crashed before its charge; then another process charged for the very same releases."""
    with mock.patch.object(Ledger, "charge", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    (other,) = ask(table, tmp_path / "other")
    (ours,) = ask(table, tmp_path / "run")
    assert (other.entry, ours.entry) == (1, 2)
    assert len({entry.run for entry in table.ledger.entries}) == 2


def test_of_two_copies_of_a_journal_one_continues_the_run(table, tmp_path):
    """Both continued, they would draw two answers for one charge."""
    with mock.patch.object(Plan, "_draw", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")  # charged, not answered
    shutil.copy(tmp_path / "run", tmp_path / "copy")
    (first,) = ask(table, tmp_path / "copy")
    with (
        mock.patch.object(Private, "_open", side_effect=AssertionError("read")),
        pytest.raises(gl.errors.ReadError, match="is not the latest journal of its run"),
    ):
        ask(table, tmp_path / "run")
    shutil.copy(tmp_path / "copy", tmp_path / "run")
    assert np.array_equal(ask(table, tmp_path / "run")[0].value, first.value)
    assert len(table.ledger.entries) == 1


def test_of_two_copies_that_are_continued_at_once_one_returns_an_answer(table, tmp_path):
    with mock.patch.object(Plan, "_draw", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    shutil.copy(tmp_path / "run", tmp_path / "copy")
    keep = Journal.write_answers

    def late(journal, answers):
        with mock.patch.object(Journal, "write_answers", keep):
            ask(table, tmp_path / "copy")  # is drawn and kept while this one is drawn
        keep(journal, answers)

    with (
        mock.patch.object(Journal, "write_answers", late),
        pytest.raises(gl.errors.ReadError, match="is an old copy: another process continued"),
    ):
        ask(table, tmp_path / "run")
    with pytest.raises(gl.errors.ReadError, match="is not the latest journal of its run"):
        ask(table, tmp_path / "run")
    ask(table, tmp_path / "copy")
    assert len(table.ledger.entries) == 1


def test_a_journal_that_was_set_back_or_damaged_draws_nothing(table, tmp_path):
    """Restored from a backup, or with a damaged line in its middle; under any file number."""
    ask(table, tmp_path / "run", times=2)
    whole = (tmp_path / "run").read_bytes()
    lines = whole.splitlines(keepends=True)
    for content in (b"".join(lines[:-1]), b"".join([*lines[:-2], b"{nonsense\n", lines[-1]]), whole[:-7]):
        (tmp_path / "run").write_bytes(content)
        with (
            mock.patch.object(Private, "_open", side_effect=AssertionError("read")),
            pytest.raises(gl.errors.ReadError, match=r"is not the latest journal|was changed"),
        ):
            ask(table, tmp_path / "run", times=2)
        assert (tmp_path / "run").read_bytes() == content  # nothing is cut off what somebody may repair
    (tmp_path / "run").write_bytes(whole)
    ask(table, tmp_path / "run", times=2)
    assert len(table.ledger.entries) == 2


def test_answers_that_were_written_and_not_returned_are_recorded_when_the_run_resumes(table, tmp_path):
    """Killed between the journal and the record of how far the run is: the answer counts, and is flushed."""
    with mock.patch.object(Journal, "_advance", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    assert state_of(table.ledger.path, table.ledger.entries[0].run) == RunState()
    with mock.patch.object(Private, "_open", side_effect=AssertionError("read")):
        (first,) = ask(table, tmp_path / "run")
    assert state_of(table.ledger.path, table.ledger.entries[0].run).length == (tmp_path / "run").stat().st_size
    assert np.array_equal(ask(table, tmp_path / "run")[0].value, first.value)


def test_answers_that_a_killed_process_wrote_are_flushed_before_they_count(table, tmp_path):
    """After a power failure they could be gone from the journal and be drawn again, though they were returned."""
    with mock.patch.object(Journal, "_advance", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    steps = mock.Mock()
    with (
        mock.patch.object(JournalFile, "flush", steps.flush),
        mock.patch("gapless.privacy.journal.advance", steps.advance),
    ):
        ask(table, tmp_path / "run")
    assert [name for name, *_ in steps.mock_calls if name in ("flush", "advance")] == ["flush", "advance"]


def test_a_run_that_is_stopped_twice_with_charges_of_others_between_is_priced_as_it_was(tmp_path):
    """Prices for the complete table depend on all entries before: the journal says which."""
    budget = gl.Budget(2.0, 0, ground_truth=gl.MCAR({"x0": 0.3, "x1": 0.2}))
    table = private(ROWS, SCHEMA, tmp_path, budget=budget)

    def run(steps):
        with gl.privacy.resumable(table.ledger, tmp_path / "run"):
            grant = table.ledger.grant(table.ledger.capacity * 0.5, to="test")
            for name in SCHEMA.names[:steps]:
                value = table.marginal(name)
                grant.release(value, for_counts(grant.even_loss([value], grant.left / 3), value.distance), what=name)
            return grant.left.value

    def other():
        grant = table.ledger.grant(table.ledger.capacity * 0.1, to="other")
        value = table.marginal("x1")
        grant.release(value, for_counts(grant.even_loss([value], grant.left), value.distance), what="x1")

    left = []
    for steps in (1, 2, 3):
        left.append(run(steps))
        other()
    assert run(3) == left[-1]
    assert [entry.to for entry in table.ledger.entries] == ["test", "other"] * 3


def other_entries(entries):
    """The same entries, each time with another value in one field of the last one."""
    last = entries[-1]
    changed = {
        "to": "other",
        "noise": "other",
        "what": "other",
        "mechanism": last.mechanism | {"std": 1.0},
        "distance": {"L1": 2.0},
        "reads": ["x3"],
        "loss": last.loss * 1.5,
        "together": not last.together,
    }
    return {name: [*entries[:-1], replace(last, **{name: value})] for name, value in changed.items()}


def test_every_field_of_every_entry_is_compared(table, tmp_path):
    ask(table, tmp_path / "run", times=2)
    mine = [entry for entry in table.ledger.entries if entry.batch == 1]
    for name, entries in other_entries(mine).items():
        with gl.privacy.resumable(table.ledger, tmp_path / "run") as journal:
            table.ledger.grant(table.ledger.share("10%"), to="test")
            with pytest.raises(gl.errors.ReadError, match="with other requests"):
                journal.charged_batch(entries, entries_when_priced=0)
        assert name
    with gl.privacy.resumable(table.ledger, tmp_path / "run") as journal:
        assert journal.charged_batch(mine, entries_when_priced=0) == [1, 2]


def test_two_answers_for_one_entry_are_refused(table, tmp_path):
    ask(table, tmp_path / "run")
    lines = (tmp_path / "run").read_text().splitlines(keepends=True)
    (tmp_path / "run").write_text("".join([*lines, lines[-1]]))
    with pytest.raises(gl.errors.ReadError, match="was changed"):
        ask(table, tmp_path / "run")


def test_a_grant_of_one_block_draws_nothing_beside_the_next_one(table, tmp_path):
    with open_journal_file(tmp_path / "run") as file:
        with record_in(file, table.ledger):
            grant = table.ledger.grant(table.ledger.share("10%"), to="test")
            value = table.marginal("x0")
            noise = for_counts(grant.left / 2, value.distance)
            plan = grant.charge_plan([Request(value.distance, value.reads, noise, "x0")])
        with record_in(file, table.ledger), pytest.raises(gl.errors.ReadError, match="has ended"):
            plan.release(value)


def test_an_empty_plan_leaves_a_run_as_it_is(table, tmp_path):
    for _ in range(2):
        with gl.privacy.resumable(table.ledger, tmp_path / "run"):
            grant = table.ledger.grant(table.ledger.share("10%"), to="test")
            grant.charge_plan([])
            value = table.marginal("x0")
            grant.release(value, for_counts(grant.left / 2, value.distance), what="x0")
    assert len(table.ledger.entries) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking with threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_draws_nothing_under_the_charges_of_its_parent(table, tmp_path):
    with mock.patch.object(Plan, "_draw", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    value = table.marginal("x0")
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        grant = table.ledger.grant(table.ledger.share("10%"), to="test")
        noise = for_counts(grant.left / 2, value.distance)
        child = os.fork()
        if child == 0:
            try:
                grant.release_all([(value, noise, "x0")])
            except gl.errors.ReadError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        grant.release_all([(value, noise, "x0")])
    assert len(table.ledger.entries) == 1


def test_a_journal_that_was_renamed_is_the_same(table, tmp_path):
    with mock.patch.object(Plan, "_draw", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "moved")
    ask(table, tmp_path / "moved")
    assert len(table.ledger.entries) == 1


def test_the_length_of_an_answer_in_the_journal_does_not_depend_on_its_value():
    """Else a full disk could decide, by the answer, that it is drawn again."""
    for values in ((0, 1, -12345, 2**60), (0.0, -1e300, math.inf, math.nan), (np.int64(0), np.int64(-(2**62)))):
        assert len({len(json.dumps(_encode_value(value))) for value in values}) == 1
        for value in values:
            again = _decode_value(json.loads(json.dumps(_encode_value(value), allow_nan=False)))
            assert type(again) is type(value)
            assert np.array_equal(again, value, equal_nan=True)


def test_a_finished_run_is_free_and_reads_nothing(table, tmp_path):
    first = facts(fit("aim", table, tmp_path / "run"))
    before = table.ledger.entries
    with mock.patch.object(Private, "_open", side_effect=AssertionError("read again")):
        assert facts(fit("aim", table, tmp_path / "run")) == first
    assert table.ledger.entries == before


def test_another_call_another_ledger_and_lost_entries_are_refused(table, tmp_path):
    fit("mst", table, tmp_path / "run")
    before = table.ledger.entries
    with pytest.raises(gl.errors.ReadError, match="with other requests"):
        fit("aim", table, tmp_path / "run")
    with pytest.raises(gl.errors.ReadError, match="with other requests"):
        fit("mst", table, tmp_path / "run", gl.Observed())
    assert table.ledger.entries == before
    other = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
    with pytest.raises(gl.errors.ReadError, match="under another ledger"):
        fit("mst", other, tmp_path / "run")
    with (
        pytest.raises(gl.errors.ReadError, match="by another call"),
        gl.privacy.resumable(table.ledger, tmp_path / "run", call={"a": 1}),
    ):
        pass
    assert not other.ledger.entries


def test_answers_without_a_charge_are_refused(table, tmp_path):
    """A journal beside the ledger's backup of an earlier day, or edited by hand."""
    fit("independent", table, tmp_path / "run")
    text = (tmp_path / "run").read_text()
    for forged in (
        text.replace('"entry": 1,', '"entry": 999,'),
        text.replace(f'"run": "{table.ledger.entries[0].run}"', '"run": "another"'),
    ):
        (tmp_path / "run").write_text(forged)
        with pytest.raises(gl.errors.ReadError, match=r"does not record|is not the latest journal"):
            fit("independent", table, tmp_path / "run")
    assert len({entry.batch for entry in table.ledger.entries}) == 1


def test_an_answer_that_a_crash_kept_from_the_journal_is_drawn_under_the_same_charge(table, tmp_path):
    (first,) = ask(table, tmp_path / "run")
    assert np.array_equal(ask(table, tmp_path / "run")[0].value, first.value)
    text = (tmp_path / "run").read_bytes()
    states_path(table.ledger.path).unlink()  # as before the answer was on the disk
    (tmp_path / "run").write_bytes(text[:-7])
    (again,) = ask(table, tmp_path / "run")
    assert (first.entry, again.entry, len(table.ledger.entries)) == (1, 1, 1)
    assert np.array_equal(ask(table, tmp_path / "run")[0].value, again.value)


def test_half_a_line_is_cut_off(table, tmp_path):
    fit("independent", table, tmp_path / "run")
    text = (tmp_path / "run").read_bytes()
    states_path(table.ledger.path).unlink()  # as before the answer was on the disk
    (tmp_path / "run").write_bytes(text[:-7])
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        pass
    assert (tmp_path / "run").read_bytes() == text[: text[:-1].rindex(b"\n") + 1]


def test_nothing_is_left_of_a_run_that_asked_for_nothing(table, tmp_path):
    with pytest.raises(gl.errors.ModelError), gl.privacy.resumable(table.ledger, tmp_path / "run"):
        gl.AIM(always=[("x0", "x1", "x2", "x3")], cap_cells=3).fit(table, spend=table.ledger.left)
    assert not (tmp_path / "run").exists()


def test_the_first_batch_keeps_its_price(table, tmp_path):
    """Priced together: the account is looked at as it stood when the batch was asked for."""
    with repeatable_noise(5):
        first = fit("mixture", table, tmp_path / "run")
        assert all(entry.together for entry in table.ledger.entries)
        assert facts(fit("mixture", table, tmp_path / "run")) == facts(first)


def test_plans_are_taken_up_where_they_were_stopped(table, tmp_path):
    def run(stop):
        with gl.privacy.resumable(table.ledger, tmp_path / "run"):
            grant = table.ledger.grant(table.ledger.share("40%"), to="test")
            values = table.marginals(["x0", "x1", "x2"])
            noise = for_counts(grant.left / 6, values[0].distance)
            plan = grant.charge_plan(
                [Request(value.distance, value.reads, noise, str(n)) for n, value in enumerate(values)]
            )
            answers = [plan.release(value) for value in values[:stop]]
            return answers, grant.left.value / table.ledger.capacity.value

    first, left = run(2)
    assert left == pytest.approx(0.2)
    again, left = run(3)
    assert [answer.entry for answer in again] == [1, 2, 3]  # the third was charged, and is read now
    assert all(np.array_equal(before.value, after.value) for before, after in zip(first, again, strict=False))
    assert left == pytest.approx(0.2)
    assert len(table.ledger.entries) == 3


def test_entries_of_another_process_that_look_the_same_are_not_taken_for_ours(table, tmp_path):
    def ask(journal):
        with gl.privacy.resumable(table.ledger, journal):
            grant = table.ledger.grant(table.ledger.share("10%"), to="test")
            value = table.marginal("x0")
            return grant.release(value, for_counts(grant.left, value.distance), what="x0")

    charge = Ledger.charge

    def late(ledger, *args, **kwargs):
        with mock.patch.object(Ledger, "charge", charge):
            ask(tmp_path / "other")  # comes between what is written down and the charge
        return charge(ledger, *args, **kwargs)

    with mock.patch.object(Ledger, "charge", late):
        first = ask(tmp_path / "run")
    again, other = ask(tmp_path / "run"), ask(tmp_path / "other")
    assert (other.entry, first.entry, again.entry) == (1, 2, 2)
    assert np.array_equal(first.value, again.value)
    assert len(table.ledger.entries) == 2


def ask(table, journal, *, times=1):
    with gl.privacy.resumable(table.ledger, journal):
        grant = table.ledger.grant(table.ledger.share("10%"), to="test")
        value = table.marginal("x0")
        noise = for_counts(grant.left / (2 * times), value.distance)
        return grant.release_all([(value, noise, "x0")] * times)


@pytest.mark.parametrize(
    "content", [b"name,income\nada,1\n", b'{"at": 0, "text": "x"}', b'{"gapless": "ledger"}\n{"lo']
)
def test_a_file_that_is_no_journal_is_left_as_it_is(content, table, tmp_path):
    (tmp_path / "people.csv").write_bytes(content)
    with pytest.raises(gl.errors.ReadError, match="is not a journal"):
        ask(table, tmp_path / "people.csv")
    assert (tmp_path / "people.csv").read_bytes() == content
    assert not table.ledger.entries


@pytest.mark.parametrize("cut", [30, -7])
@pytest.mark.parametrize("rest", ["", "\0" * 40])
def test_half_a_first_line_is_an_empty_journal(rest, cut, table, tmp_path):
    ask(table, tmp_path / "whole")
    first = (tmp_path / "whole").read_text().partition("\n")[0]
    (tmp_path / "half").write_text(first[:cut] + rest)
    ask(table, tmp_path / "half")
    assert (tmp_path / "half").read_text().startswith(first.partition(', "run"')[0])


@pytest.mark.parametrize(
    "line", ['{"entry": 0, "value": 1}', '{"entry": 1}', '{"grant": "test"}', '{"asked": 3, "after": 0}']
)
def test_a_journal_of_other_lines_is_refused(line, table, tmp_path):
    ask(table, tmp_path / "run")
    with (tmp_path / "run").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(gl.errors.ReadError, match="was changed"):
        ask(table, tmp_path / "run")
    assert len(table.ledger.entries) == 1


def opened_before(table):
    """The same table in another process, which looked at the ledger before anything was released."""
    rows = pl.DataFrame(ROWS, schema=dict.fromkeys(SCHEMA.names, pl.String), orient="row")
    return gl.read(rows, SCHEMA, protect=gl.Rows(1), ledger=table.ledger.path)


def test_a_waiting_process_sees_charges_made_meanwhile(table, tmp_path):
    other = opened_before(table)
    (first,) = ask(table, tmp_path / "run")
    (again,) = ask(other, tmp_path / "run")
    assert np.array_equal(first.value, again.value)
    assert len(gl.Ledger.open(table.ledger.path).entries) == 1


def test_a_process_that_waited_for_the_journal_draws_what_was_charged_meanwhile(table, tmp_path):
    other = opened_before(table)
    with mock.patch.object(Plan, "_draw", side_effect=CrashError), pytest.raises(CrashError):
        ask(table, tmp_path / "run")
    (answer,) = ask(other, tmp_path / "run")
    assert answer.entry == len(gl.Ledger.open(table.ledger.path).entries) == 1


def test_a_batch_is_not_found_across_two_charges(table, tmp_path):
    """Another process charged for the same, just before: of entries that are all alike two are ours."""
    charge = Ledger.charge

    def late(ledger, *args, **kwargs):
        with mock.patch.object(Ledger, "charge", charge):
            ask(table, tmp_path / "other", times=2)
        return charge(ledger, *args, **kwargs)

    with mock.patch.object(Ledger, "charge", late):
        first = ask(table, tmp_path / "run", times=2)
    lines = (tmp_path / "run").read_text().splitlines()
    states_path(table.ledger.path).unlink()
    (tmp_path / "run").write_text("\n".join(lines[:-1]) + "\n")  # a crash came before the second answer
    again = ask(table, tmp_path / "run", times=2)
    assert [answer.entry for answer in first] == [3, 4]
    assert [answer.entry for answer in again] == [3, 4]
    assert np.array_equal(first[0].value, again[0].value)


def test_a_grant_that_outlives_its_run_is_not_written_into_another_file(table, tmp_path):
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        grant = table.ledger.grant(table.ledger.share("10%"), to="test")
    value = table.marginal("x0")
    files = [(tmp_path / str(number)).open("w+b") for number in range(8)]  # one of them has the journal's number
    with pytest.raises(gl.errors.ReadError, match="cannot write"):
        grant.release(value, for_counts(grant.left, value.distance), what="x0")
    for file in files:
        assert file.read() == b""
        file.close()
    assert not table.ledger.entries


def test_after_it_is_discarded_nothing_is_charged_or_read_whose_answer_could_not_be_kept(table, tmp_path):
    with gl.privacy.resumable(table.ledger, tmp_path / "run") as run:
        grant = table.ledger.grant(table.ledger.share("10%"), to="test")
        value = table.marginal("x0")
        noise = for_counts(grant.left / 2, value.distance)
        plan = grant.charge_plan([Request(value.distance, value.reads, noise, "x0")])
        run.discard()
        assert not (tmp_path / "run").exists()
        with (
            mock.patch.object(Private, "_open", side_effect=AssertionError("read")),
            pytest.raises(gl.errors.ReadError, match=r"cannot write .*its run has ended"),
        ):
            plan.release(value)
        with pytest.raises(gl.errors.ReadError, match="cannot write"):
            grant.release(value, noise, what="x0")
        run.discard()
    assert len(table.ledger.entries) == 1
    assert not (tmp_path / "run").exists()


def test_a_file_that_has_taken_the_place_of_a_journal_is_not_deleted_with_it(table, tmp_path):
    with gl.privacy.resumable(table.ledger, tmp_path / "run") as run:
        (tmp_path / "other").write_text("mine")
        (tmp_path / "other").replace(tmp_path / "run")
        run.discard()
    assert (tmp_path / "run").read_text() == "mine"
    (tmp_path / "run").unlink()
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        (tmp_path / "run").unlink()
        (tmp_path / "run").write_text("mine")
    assert (tmp_path / "run").read_text() == "mine"  # also where nothing was written


def test_a_link_to_a_journal_stays_and_its_file_goes(table, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with gl.privacy.resumable(table.ledger, tmp_path / "link") as run:
        run.discard()
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "run").exists()


def test_finds_lines_after_half_a_line_from_a_full_disk(table, tmp_path):
    write, many = os.write, iter(range(10**6))

    def full(descriptor, data):
        if next(many) == 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:40])

    value = table.marginal("x0")
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        grant = table.ledger.grant(table.ledger.share("10%"), to="test")
        noise = for_counts(grant.left, value.distance)
        with mock.patch.object(os, "write", full), pytest.raises(gl.errors.ReadError, match="No space left"):
            grant.release(value, noise, what="x0")
        assert not table.ledger.entries
        first = grant.release(value, noise, what="x0").value
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        grant = table.ledger.grant(table.ledger.share("10%"), to="test")
        assert np.array_equal(grant.release(value, noise, what="x0").value, first)
    assert len(table.ledger.entries) == 1


def test_a_run_goes_on_with_the_spend_that_it_was_begun_with(table, tmp_path):
    with gl.privacy.resumable(table.ledger, tmp_path / "run") as run:
        assert run.spend is None
    ask(table, tmp_path / "run")
    with gl.privacy.resumable(table.ledger, tmp_path / "run") as run:
        assert run.spend == table.ledger.share("10%")


@pytest.mark.parametrize(
    "method", [gl.synth.DPGAN(steps=2), gl.synth.PATEGAN(steps=2), gl.synth.MisGAN(noised="generators", steps=2)]
)
def test_a_training_that_was_stopped_is_done_again_under_its_charge(method, table, tmp_path):
    def stop(phase, *_):
        if phase.startswith(("training", "votes")):
            raise CrashError

    spend = table.ledger.share("90%")
    with pytest.raises(CrashError), gl.privacy.resumable(table.ledger, tmp_path / "j"):
        method.fit(table, spend=spend, progress=stop)
    charged = table.ledger.entries
    with gl.privacy.resumable(table.ledger, tmp_path / "j"):
        method.fit(table, spend=spend)
    assert table.ledger.entries == charged


def test_answers_whose_entries_are_for_something_else_are_refused(table, tmp_path):
    """The journal of another day, under a ledger that by now has other entries with the same numbers."""
    ask(table, tmp_path / "run")
    other = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
    fit("independent", other, tmp_path / "other")
    text = (tmp_path / "run").read_text().replace(table.ledger.identity, other.ledger.identity)
    (tmp_path / "run").write_text(text)
    with pytest.raises(
        gl.errors.ReadError, match=r"has answers that the ledger .* does not record: the ledger is an old copy"
    ):
        ask(other, tmp_path / "run")


@pytest.mark.skipif(sys.platform == "win32", reason="locks belong to processes there")
def test_one_process_at_a_time_has_the_journal(table, tmp_path):
    import fcntl

    with (
        gl.privacy.resumable(table.ledger, tmp_path / "run"),
        (tmp_path / "run").open() as file,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_each_step_is_on_disk_before_the_next(table, tmp_path):
    steps = []
    flush, charge, write = os.fsync, Ledger.charge, Journal._write

    def recorded(step, function):
        def recording(*args, **kwargs):
            result = function(*args, **kwargs)
            steps.append(step)
            return result

        return recording

    with (
        mock.patch("gapless.privacy.journal.os.fsync", recorded("flush", flush)),
        mock.patch.object(Ledger, "charge", recorded("charge", charge)),
        mock.patch.object(Journal, "_write", recorded("journal", write)),
    ):
        ask(table, tmp_path / "run")
    assert steps[:3] == ["flush", "flush", "journal"]  # what is in it, and its name
    assert "charge" in steps
    assert steps[-4:] == ["flush", "journal", "flush", "flush"]  # the answer; then how far the run is, and its name


def test_a_grant_for_another_purpose_is_another_call(table, tmp_path):
    ask(table, tmp_path / "run")
    with (
        gl.privacy.resumable(table.ledger, tmp_path / "run"),
        pytest.raises(gl.errors.ReadError, match="with other requests"),
    ):
        table.ledger.grant(table.ledger.share("10%"), to="another")


def test_the_grant_is_the_one_that_the_run_was_begun_with(table, tmp_path):
    ask(table, tmp_path / "run")
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        assert table.ledger.grant(table.ledger.share("90%"), to="test").left == table.ledger.share("10%")


def test_a_journal_is_of_one_ledger_alone(table, tmp_path):
    other = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6))
    with gl.privacy.resumable(table.ledger, tmp_path / "run"):
        grant = other.ledger.grant(other.ledger.share("10%"), to="test")
        grant.release(other.marginal("x0"), for_counts(grant.left, other.marginal("x0").distance), what="x0")
    assert not (tmp_path / "run").exists()


def test_grants_of_one_run_are_resumed_in_their_order(table, tmp_path):
    def two():
        with gl.privacy.resumable(table.ledger, tmp_path / "run"):
            first_grant, second_grant = (
                table.ledger.grant(table.ledger.share("10%"), to=to) for to in ("one", "other")
            )
            value = table.marginal("x0")
            noise = for_counts(second_grant.left / 2, value.distance)
            first = second_grant.release(value, noise, what="x0")
            second = first_grant.release(value, noise, what="x0")
            return first.entry, second.entry, first_grant.left, second_grant.left

    with mock.patch.object(Plan, "_draw", side_effect=CrashError), pytest.raises(CrashError):
        two()
    *numbers, first_left, second_left = two()
    assert numbers == [1, 2]
    assert first_left.value == second_left.value == pytest.approx(table.ledger.share("5%").value)
    assert [entry.to for entry in table.ledger.entries] == ["other", "one"]


def test_prices_follow_from_the_account_of_the_table_not_from_an_older_look_at_it(table, tmp_path):
    """The journal may have been opened with the ledger by its path."""
    with gl.privacy.resumable(Ledger.open(table.ledger.path), tmp_path / "run"):
        for percent in (5, 90):  # the second would be priced together if it were the first
            gl.Mixture().fit(table, spend=table.ledger.share(f"{percent}%"))
    assert not any(entry.together for entry in table.ledger.entries)
