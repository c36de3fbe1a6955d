"""One file, one ledger: on the command line, between processes, after kill -9, and in what a release says."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

import gapless as gl

REGISTER = ".gapless-register"
TABLE = """\
[table]
name = "people"

[column.sex]
kind = "categorical"
levels = ["F", "M"]
may_be_missing = true
"""
PAID = ("--epsilon", 1, "--delta", 1e-6, "--spend", "10%")
COUNT = ("--spend", "10%", "count()")

# Reads a file under a ledger and pays: for several files, one after the other, when it gets the signal to start.
CHILD = """
import sys
import gapless as gl
from gapless.privacy import for_counts

schema = gl.Schema.read("people.toml")

def pay(path, ledger):
    people = gl.read(path, schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 1e-6), ledger=ledger)
    value = people.marginal("sex")
    grant = people.ledger.grant(people.ledger.share("10%"), to="child")
    grant.release(value, for_counts(grant.left, value.distance), what="sex")
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a schema, two files and what a release could be compared with."""
    (tmp_path / "people.toml").write_text(TABLE)
    (tmp_path / "big").mkdir()
    for name in ("big/2024.csv", "big/2025.csv", "fake.csv"):
        (tmp_path / name).write_text("sex\n" + "F\nM\n\nF\n" * 25)
    return tmp_path


def synth(data, output, *more):
    return ("synth", data, "-s", "people.toml", "-m", "independent", "-o", output, *more)


def child(folder, code, *arguments, **more):
    return subprocess.Popen([sys.executable, "-c", CHILD + code, *arguments], cwd=folder, text=True, **more)


def spent(path):
    return len(gl.Ledger.open(path).entries)


def test_no_command_takes_a_second_ledger_for_a_file_that_was_paid_for(folder, run_here):
    code, out, _ = run_here(*synth("big/2024.csv", "first", *PAID))
    assert code == 0
    assert "The ledger is big/2024.ledger; another one is refused for these files." in out
    both = ("big/*.csv", "-s", "people.toml")
    for command in (
        synth("big/*.csv", "second", *PAID),
        ("fit", *both, "-m", "independent", "-o", "p.model", *PAID),
        ("ask", *both, *PAID, "count()"),
        ("weigh", "big/*.csv", "fake.csv", "-s", "people.toml", "-o", "w.csv", *PAID),
    ):
        code, _, err = run_here(*command)
        assert code == 1
        assert "big/2024.csv is covered by the ledger" in err
        assert f"Try: pass --ledger {folder}/big/2024.ledger; if big/2024.csv now holds other people" in err
    other = gl.Ledger.attach(folder / "other.ledger", table="people", protect=gl.Rows(1), budget=gl.Budget(1.0, 1e-6))
    compared = ("evaluate", "big/2024.csv", "fake.csv", "-s", "people.toml", "--spend", "10%", "--ledger", other.path)
    assert run_here(*compared)[0] == 1
    assert sorted(path.name for path in folder.iterdir()) == [
        *("big", "fake.csv", "first", "other.ledger", "other.ledger.seal", "people.toml")
    ]
    assert spent("big/2024.ledger") == 1
    assert run_here("ask", *both, "--ledger", "big/2024.ledger", *COUNT)[0] == 0
    assert spent("big/2024.ledger") == 2


def test_a_release_states_what_was_checked_and_has_no_register(folder, run_here):
    assert run_here(*synth("big/2024.csv", "big/../release", *PAID))[0] == 0
    assert (folder / "big" / REGISTER).exists()
    names = [path.name for path in (folder / "release").rglob("*")]
    assert REGISTER not in names
    assert run_here("verify", "release")[0] == 0
    statement = (folder / "release/privacy.md").read_text(encoding="utf-8")
    assert "registered with this ledger" in statement
    assert "gapless cannot know about copies of these files" in statement
    identity = json.loads((folder / "big" / REGISTER).read_text().splitlines()[1])["ledger"]["identity"]
    for path in (folder / "release").iterdir():
        content = path.read_bytes()
        assert REGISTER.encode() not in content
        assert identity.encode() not in content or path.name == "ledger.json"
        assert b"2024.csv" not in content
    (folder / "release" / REGISTER).touch()
    assert run_here("verify", "release")[0] == 1


def test_a_release_from_a_read_only_folder_states_it(folder, run_here, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    plain = os.access
    monkeypatch.setattr("gapless.data.io.register._held", refuse)  # root, as whom tests may run, could write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(folder / "big") and plain(path, mode))
    code, out, err = run_here(*synth("big/2024.csv", "release", "--ledger", "kept.ledger", *PAID))
    assert code == 0
    assert "Warning: the folder of the data cannot be written to" in " ".join(err.split())
    assert "Releases under other ledgers would not be noticed" in out
    statement = (folder / "release/privacy.md").read_text(encoding="utf-8")
    assert "**Warning: the folder of the data cannot be written to" in statement
    assert "could not be registered with this ledger" in statement


def test_a_larger_unit_than_the_ledger_has_gives_correct_numbers(folder, run_here):
    ask = ("ask", "big/2024.csv", "-s", "people.toml")
    for _ in range(2):  # two batches: the budget's promise holds, and no smaller one
        assert run_here(*ask, *PAID, "count()")[0] == 0
    (folder / "people.toml").write_text(TABLE.replace('"people"', '"people"\nrows_per_person = 14', 1))
    code, _, err = run_here(*ask, *COUNT)
    printed = " ".join(err.split())
    assert code == 1
    assert "For a person with 14 rows (14, 0.699888)-differential privacy is left, in place of (1, 1e-06)" in printed
    assert "Try: release nothing more under this ledger" in printed
    assert "rows_per_person = 1 " not in printed
    assert spent("big/2024.ledger") == 2


def test_of_two_processes_with_two_ledgers_one_pays(folder):
    names = [f"{number}.csv" for number in range(12)]
    for name in names:
        (folder / name).write_text("sex\nF\nM\n")
    code = """
print("ready", flush=True)
sys.stdin.readline()
for path in sys.argv[2:]:
    try:
        pay(path, f"{sys.argv[1]}-{path}.ledger")
        print("paid")
    except gl.errors.LedgerError as error:
        assert "is covered by the ledger" in str(error), error
        print("refused")
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    children = [child(folder, code, which, *names, **pipes) for which in ("a", "b")]
    for process in children:
        assert process.stdout.readline() == "ready\n"
    for process in children:
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=120)[0].split() for process in children]
    assert len(results[0]) == len(names)
    for name, *outcome in zip(names, *results, strict=True):
        assert sorted(outcome) == ["paid", "refused"]
        winner = "ab"[outcome.index("paid")]
        ledgers = {path.name: spent(path) for path in folder.glob(f"?-{name}.ledger")}
        assert {path: entries for path, entries in ledgers.items() if entries} == {f"{winner}-{name}.ledger": 1}
    entered = [json.loads(line)["name"] for line in (folder / REGISTER).read_text().splitlines()[1:]]
    assert sorted(entered) == sorted(names)


KILLED = {
    "before the register": "gapless.data.io.register._append = lambda *_: kill()",
    "in a line of the register": (
        "plain = os.write\n"
        "gapless.data.io.register.os.write = lambda descriptor, data: (plain(descriptor, data[:-9]), kill())"
    ),
    "between the register and the charge": "gapless.privacy.ledger_file.append = lambda *_: kill()",
}


@pytest.mark.parametrize("moment", KILLED)
def test_kill_9_leaves_a_register_that_can_be_used(folder, moment):
    code = f"""
import os, signal, gapless.data.io.register, gapless.privacy.ledger
from gapless.privacy import Ledger
Ledger.attach("a.ledger", table="people", protect=gl.Rows(1), budget=gl.Budget(1.0, 1e-6))
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
{KILLED[moment]}
pay("big/2024.csv", "a.ledger")
"""
    assert child(folder, code).wait(timeout=60) == -signal.SIGKILL
    assert spent(folder / "a.ledger") == 0
    again = child(folder, 'pay("big/2024.csv", sys.argv[1])', "b.ledger", stderr=subprocess.PIPE)
    _, printed = again.communicate(timeout=60)
    if moment == "between the register and the charge":
        assert "second budget for the same rows; nothing was spent so far" in printed
        assert child(folder, 'pay("big/2024.csv", sys.argv[1])', "a.ledger").wait(timeout=60) == 0
        assert spent(folder / "a.ledger") == 1
    else:
        assert (again.returncode, printed) == (0, "")
    entered = [json.loads(line)["name"] for line in (folder / "big" / REGISTER).read_text().splitlines()[1:]]
    assert entered == ["2024.csv"]
