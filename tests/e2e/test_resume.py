"""kill -9 in the middle of a run on files that stay on the disk: started again it pays for no answer again."""

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.privacy.journal import Journal
from gapless.publish.folder import JOURNAL, model_of
from helpers.read_and_release import read_and_release, read_and_save
from helpers.repeatable_noise import repeatable_noise

SCHEMA = gl.Schema("people", [gl.Categorical(f"x{c}", ["a", "b", "c"], may_be_missing=True) for c in range(4)])

# The child kills itself, as `kill -9` would: before a charge, after it while rows are counted, or after an answer
# was written down and before anybody saw it.
CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[4])
import gapless as gl
from gapless.data.engines.disk import Disk
from gapless.privacy.journal import Journal
from gapless.privacy.ledger import Ledger
from helpers.repeatable_noise import repeatable_noise

folder, moment, turn = sys.argv[1], sys.argv[2], int(sys.argv[3])
turns = iter(range(10**6))

def die(where, function):
    def dying(*args, **kwargs):
        result = function(*args, **kwargs) if where == "after" else None
        if next(turns) == turn:
            os.kill(os.getpid(), signal.SIGKILL)
        return result if where == "after" else function(*args, **kwargs)
    return dying

if moment == "before a charge":
    Ledger.charge = die("before", Ledger.charge)
if moment == "after a charge":
    Ledger.charge = die("after", Ledger.charge)
if moment == "while rows are counted":
    Disk._view = die("before", Disk._view)
if moment == "after an answer":
    Journal.write_answers = die("after", Journal.write_answers)
schema = gl.Schema.read(folder + "/people.toml")
with repeatable_noise(int(sys.argv[6])):
    table = gl.read(folder + "/people/*.parquet", schema, protect=gl.Rows(1), budget=gl.Budget(2.0, 1e-6))
    release = gl.release(table, folder + "/release", spend=table.ledger.left, method=sys.argv[5], rows=200, seed=1,
                         notify=print)
print("done", release.taken_up)
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(4)
    (tmp_path / "people").mkdir()
    for part in range(2):
        cells = {f"x{c}": rng.choice(["a", "b", "c", None], 200).tolist() for c in range(4)}
        pl.DataFrame(cells).write_parquet(tmp_path / "people" / f"{part}.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def run(folder, moment="", turn=-1, method="aim", noise=3):
    tests = str(Path(__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), moment, str(turn), tests, method, str(noise)],
        capture_output=True,
        text=True,
        check=False,
    )


def written(folder):
    return {
        name: (folder / "release" / name).read_bytes() for name in ("synthetic.csv", "synthetic.model", "ledger.json")
    }


def copy_of(folder, other):
    """The same table in another folder."""
    (other / "people.toml").write_bytes((folder / "people.toml").read_bytes())
    (other / "people").mkdir()
    for path in (folder / "people").iterdir():
        (other / "people" / path.name).write_bytes(path.read_bytes())
    return other


def charged(folder):
    """What a ledger has charged; each run has another token."""
    return [replace(entry, run=None) for entry in gl.Ledger.open(folder / "people.ledger").entries]


def test_killed_between_releases_it_ends_as_if_it_had_not_been(folder, tmp_path_factory):
    whole = copy_of(folder, tmp_path_factory.mktemp("whole"))
    assert "done" in run(whole).stdout
    for moment, turn in (("before a charge", 1), ("after an answer", 2), ("before a charge", 3)):
        killed = run(folder, moment, turn)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (folder / "release" / JOURNAL).exists()
    for look in (gl.publish.verify_release, model_of):
        with pytest.raises(
            gl.errors.ReadError,
            match=r"the release in .* is not finished\n  Try: run the command or the Python code that started it again",
        ):
            look(folder / "release")
    again = run(folder)
    assert "resumes from there and does not pay for them again" in again.stdout, again.stderr
    assert "done" in again.stdout
    for name in ("synthetic.csv", "synthetic.model"):
        assert (folder / "release" / name).read_bytes() == (whole / "release" / name).read_bytes()
    assert charged(folder) == charged(whole)
    assert gl.publish.verify_release(folder / "release").problems == ()


@pytest.mark.parametrize("most", [1, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_every_step_it_pays_once_and_ends_as_if_it_had_not_been(most, folder, tmp_path_factory):
    """Before each charge, after it, while rows are counted, after each answer: several batches, one run."""
    whole = copy_of(folder, tmp_path_factory.mktemp("whole"))
    assert "done" in run(whole).stdout
    batches = len({entry.batch for entry in gl.Ledger.open(whole / "people.ledger").entries})
    assert batches > 3
    for batch in range(min(batches, most)):
        # A resumed run charges and answers nothing again: each time the first step of its kind is the next one.
        for moment in ("before a charge", "after a charge", "while rows are counted", "after an answer"):
            killed = run(folder, moment, 0)
            assert killed.returncode == -signal.SIGKILL, (batch, moment, killed.stderr)
    again = run(folder)
    assert "done" in again.stdout, again.stderr
    for name in ("synthetic.csv", "synthetic.model"):
        assert (folder / "release" / name).read_bytes() == (whole / "release" / name).read_bytes()
    assert charged(folder) == charged(whole)
    assert not (folder / "release" / JOURNAL).exists()


STAGES = ("bin_hierarchy", "tables", "products")  # what `Factors` releases, in turn, after one charge


@pytest.fixture
def incomes(folder):
    """The same table with a column whose bins are learned."""
    schema = gl.Schema("people", [*SCHEMA.columns, gl.Integer("income", bounds=(0, 9999), bins="learned")])
    (folder / "people.toml").write_text(schema.to_toml())
    rng = np.random.default_rng(5)
    for path in (folder / "people").iterdir():
        frame = pl.read_parquet(path)
        frame.with_columns(income=rng.integers(0, 9999, frame.height)).write_parquet(path)
    return folder


def kept_stages(model, other):
    """Which stages of two fits of factors released the same numbers."""
    for stage in STAGES:
        tables = zip(getattr(model.measurements, stage), getattr(other.measurements, stage), strict=True)
        (same,) = {np.array_equal(first.counts, second.counts) for first, second in tables}
        if same:
            yield stage


@pytest.mark.parametrize("stage", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_factors_stopped_between_their_stages_keep_the_noise_of_those_before(stage, incomes, tmp_path_factory):
    """The resumed run has other noise: what it drew again would differ from the run that was not stopped."""
    whole = copy_of(incomes, tmp_path_factory.mktemp("whole"))
    schema = gl.Schema.read(incomes / "people.toml")
    call = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6), "method": "factors"}
    write, turns = Journal.write_answers, iter(range(10**6))

    def stop(journal, answers):
        write(journal, answers)
        if next(turns) == stage:
            raise KeyboardInterrupt

    with repeatable_noise(3):
        read_and_save(whole / "people/*.parquet", schema, whole / "people.model", **call)
        with mock.patch.object(Journal, "write_answers", stop), pytest.raises(KeyboardInterrupt):
            read_and_save(incomes / "people/*.parquet", schema, incomes / "people.model", **call)
    with repeatable_noise(4):
        read_and_save(incomes / "people/*.parquet", schema, incomes / "people.model", **call)
    assert charged(incomes) == charged(whole)
    models = [gl.load(path / "people.model") for path in (incomes, whole)]
    assert list(kept_stages(*models)) == list(STAGES[: stage + 1])


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1])
def test_factors_killed_between_their_stages_end_as_if_they_had_not_been(stage, incomes, tmp_path_factory):
    whole = copy_of(incomes, tmp_path_factory.mktemp("whole"))
    assert "done" in run(whole, method="factors").stdout
    killed = run(incomes, "after an answer", stage, method="factors")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = run(incomes, method="factors", noise=4)
    assert "resumes from there and does not pay for them again" in again.stdout, again.stderr
    assert charged(incomes) == charged(whole)
    models = [gl.load(path / "release" / "synthetic.model") for path in (incomes, whole)]
    assert list(kept_stages(*models)) == list(STAGES[: stage + 1])


def test_another_call_is_not_taken_for_the_one_that_was_killed(folder):
    run(folder, "after an answer", 2)
    with pytest.raises(gl.errors.ReadError, match="by another call"):
        read_and_release(
            folder / "people/*.parquet",
            SCHEMA,
            folder / "release",
            protect=gl.Rows(1),
            budget=gl.Budget(2.0, 1e-6),
            method="mst",
        )


def test_auto_chooses_by_the_share_that_it_was_begun_with(folder):
    """A third of the budget is for another method than all of it."""
    chosen = []
    choose = gl.synth.Auto.choose

    def record_choice(auto, schema, loss, protect):
        chosen.append((loss, *choose(auto, schema, loss, protect)))
        return chosen[-1][1:]

    call = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6), "spend": "30%", "expected_rows": 400}
    with mock.patch.object(gl.synth.Auto, "choose", record_choice):
        with (
            mock.patch.object(Journal, "write_answers", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            read_and_save(folder / "people/*.parquet", SCHEMA, folder / "people.model", **call)
        read_and_save(folder / "people/*.parquet", SCHEMA, folder / "people.model", **call)
    assert chosen[0] == chosen[1]


# Opens a journal, and says what it does: before it waits for the lock, when it has it, and what it was answered.
HOLDER = """
import fcntl, os, signal, sys
import polars as pl
import gapless as gl
from gapless.privacy import for_counts

folder, then = sys.argv[1:]
schema = gl.Schema("people", [gl.Categorical("x", ["a", "b"])])
people = gl.read(pl.DataFrame({"x": ["a", "b"]}), schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 1e-6),
                 ledger=folder + "/people.ledger")
flock = fcntl.flock

def waiting(*args):
    fcntl.flock = flock
    print("waiting", flush=True)  # the file is open already
    flock(*args)

fcntl.flock = waiting
with gl.privacy.resumable(people.ledger, folder + "/run") as run:
    print("held", flush=True)
    sys.stdin.readline()
    if then == "discard":
        run.discard()
        sys.exit()
    grant = people.ledger.grant(people.ledger.share("30%"), to="test")
    value = people.marginal("x")
    answer = grant.release(value, for_counts(grant.left, value.distance), what="x")
    print(answer.entry, answer.value.tolist(), flush=True)
    if then == "die":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be deleted there")
def test_a_journal_that_was_deleted_while_a_process_waited_for_it_is_opened_anew(folder):
    """A lock is on a file, not on its name: what the second process pays for must lie where the third one looks."""

    def start(then):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        child = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), then], **pipes)
        children.append(child)
        assert child.stdout.readline() == "waiting\n"
        return child

    def say(child):
        child.stdin.write("go on\n")
        child.stdin.flush()

    children = []
    try:
        first = start("discard")
        assert first.stdout.readline() == "held\n"
        second = start("die")
        say(first)
        assert first.wait(timeout=60) == 0
        assert second.stdout.readline() == "held\n"
        say(second)
        answer = second.stdout.readline()
        assert answer.startswith("1 [")
        assert second.wait(timeout=60) == -signal.SIGKILL
        third = start("end")
        say(third)
        assert third.stdout.readlines() == ["held\n", answer]
        assert third.wait(timeout=60) == 0
    finally:
        for child in children:
            child.kill()
            child.communicate()
    assert len(gl.Ledger.open(folder / "people.ledger").entries) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="flock is not there")
@pytest.mark.parametrize(
    ("make", "output", "refused"),
    [(read_and_release, "release", "holds a finished release"), (read_and_save, "people.model", "exists")],
)
def test_who_has_waited_for_the_same_run_finds_it_done_and_pays_nothing(make, output, refused, folder, monkeypatch):
    import fcntl

    call = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6), "spend": "30%", "method": "independent"}
    held, waits, errors, flock = threading.Event(), threading.Event(), [], fcntl.flock

    def pause(phase, *_):
        if phase == "measuring":
            held.set()
            waits.wait(60)

    def waiting(*args):
        if threading.current_thread() is second:
            waits.set()
        flock(*args)

    def run(**more):
        try:
            make(folder / "people/*.parquet", SCHEMA, folder / output, **call, **more)
        except gl.GaplessError as error:
            errors.append(str(error))

    first = threading.Thread(target=run, kwargs={"progress": pause})
    second = threading.Thread(target=run)
    monkeypatch.setattr(fcntl, "flock", waiting)
    first.start()
    assert held.wait(60)
    second.start()
    for thread in (first, second):
        thread.join(60)
    assert [refused in error for error in errors] == [True], errors
    ledger = gl.Ledger.open(folder / "people.ledger")
    assert {entry.batch for entry in ledger.entries} == {1}
    assert ledger.percentages()[0] <= 30.01
    if make is read_and_release:
        assert gl.publish.verify_release(folder / output).problems == ()
    assert not list(folder.rglob("*journal"))
