"""kill -9 in the middle of AIM on files that stay on the disk: started again it goes on, and pays nothing twice."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.privacy.journal import Journal
from gapless.release import make_model
from gapless.release.folder import JOURNAL, model_of

SCHEMA = gl.Schema("people", [gl.Categorical(f"x{c}", ["a", "b", "c"], may_be_missing=True) for c in range(4)])

# The child kills itself, as `kill -9` would: before a charge, after it while rows are counted, or after an answer
# was written down and before anybody saw it.
CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[4])
import gapless as gl
from gapless.data.disk import Disk
from gapless.privacy.journal import Journal
from gapless.privacy.ledger import Ledger
from steady import steady_noise

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
    Ledger._charge = die("before", Ledger._charge)
if moment == "after a charge":
    Ledger._charge = die("after", Ledger._charge)
if moment == "while rows are counted":
    Disk._batch = die("before", Disk._batch)
if moment == "after an answer":
    Journal.keep = die("after", Journal.keep)
schema = gl.Schema.read(folder + "/people.toml")
with steady_noise(3):
    release = gl.make_release(folder + "/people/*.parquet", schema, folder + "/release", protect=gl.Rows(1),
                              budget=gl.Budget(2.0, 1e-6), method="aim", rows=200, seed=1, tell=print)
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


def run(folder, moment="", turn=-1):
    tests = str(Path(__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), moment, str(turn), tests],
        capture_output=True,
        text=True,
        check=False,
    )


def written(folder):
    return {
        name: (folder / "release" / name).read_bytes() for name in ("synthetic.csv", "synthetic.model", "ledger.json")
    }


def test_killed_between_releases_it_ends_as_if_it_had_not_been(folder, tmp_path_factory):
    whole = tmp_path_factory.mktemp("whole")
    (whole / "people.toml").write_text(SCHEMA.to_toml())
    (whole / "people").mkdir()
    for path in (folder / "people").iterdir():
        (whole / "people" / path.name).write_bytes(path.read_bytes())
    assert "done" in run(whole).stdout
    for moment, turn in (("before a charge", 1), ("after an answer", 2), ("before a charge", 3)):
        killed = run(folder, moment, turn)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert (folder / "release" / JOURNAL).exists()
    for look in (gl.verify_release, model_of):
        with pytest.raises(gl.ReadError, match=r"the release in .* is not finished\n  Try: what began it, once more"):
            look(folder / "release")
    again = run(folder)
    assert "goes on from there, and nothing is paid twice" in again.stdout, again.stderr
    assert "done" in again.stdout
    for name in ("synthetic.csv", "synthetic.model"):
        assert (folder / "release" / name).read_bytes() == (whole / "release" / name).read_bytes()
    here, there = (gl.Ledger.open(place / "people.ledger") for place in (folder, whole))
    assert here.entries == there.entries
    assert gl.verify_release(folder / "release").problems == ()


@pytest.mark.parametrize("moment", ["after a charge", "while rows are counted"])
def test_killed_after_a_charge_that_charge_is_spent_and_the_run_goes_on(moment, folder):
    assert run(folder, "after an answer", 2).returncode == -signal.SIGKILL
    before = gl.Ledger.open(folder / "people.ledger").entries
    assert run(folder, moment, 1 if moment.startswith("while") else 0).returncode == -signal.SIGKILL
    lost = gl.Ledger.open(folder / "people.ledger").entries[len(before) :]
    assert len(lost) == 1  # charged, and nobody has seen the answer
    again = run(folder)
    assert "done" in again.stdout, again.stderr
    entries = gl.Ledger.open(folder / "people.ledger").entries
    assert entries[: len(before) + 1] == (*before, *lost)
    retried = entries[len(before) + 1]
    assert (retried.what, retried.loss < lost[0].loss) == (lost[0].what, True)  # a little less for all that followed
    ledger = gl.Ledger.open(folder / "people.ledger")
    assert ledger.spent.value <= ledger.capacity.value * (1 + 1e-9)
    assert ledger.percentages()[1] < 1.0  # all was granted
    assert not (folder / "release" / JOURNAL).exists()


def test_another_call_is_not_taken_for_the_one_that_was_killed(folder):
    run(folder, "after an answer", 2)
    with pytest.raises(gl.ReadError, match="by another call"):
        gl.make_release(
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
    choose = gl.Auto.choose

    def told(auto, schema, loss, protect):
        chosen.append((loss, *choose(auto, schema, loss, protect)))
        return chosen[-1][1:]

    call = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6), "percent": 30, "expected_rows": 400}
    with mock.patch.object(gl.Auto, "choose", told):
        with mock.patch.object(Journal, "keep", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            make_model(folder / "people/*.parquet", SCHEMA, folder / "people.model", **call)
        with suppress(gl.BudgetError):  # all that it had may be in the lost batch
            make_model(folder / "people/*.parquet", SCHEMA, folder / "people.model", **call)
    assert chosen[0] == chosen[1]
