"""The progress of a run: one state after the other, also after a crash."""

import os
import subprocess
import sys

import pytest

from gapless.errors import LedgerError
from gapless.files import locked
from gapless.privacy.run_states import RunState, advance, state_of, states_path

FIRST, SECOND = RunState(10, "aa"), RunState(20, "bb")


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "people.ledger"


def test_a_run_advances_from_its_state_only(ledger):
    assert state_of(ledger, "run") == RunState()
    assert not states_path(ledger).exists()
    assert advance(ledger, "run", before=RunState(), after=FIRST)
    assert not advance(ledger, "run", before=RunState(), after=SECOND)
    assert state_of(ledger, "run") == FIRST
    assert advance(ledger, "run", before=FIRST, after=SECOND)
    assert state_of(ledger, "run") == SECOND
    assert state_of(ledger, "other") == RunState()
    assert advance(ledger, "other", before=RunState(), after=FIRST)
    assert state_of(ledger, "run") == SECOND


def test_half_a_line_that_a_crash_left_counts_for_nothing(ledger):
    advance(ledger, "run", before=RunState(), after=FIRST)
    with states_path(ledger).open("ab") as file:
        file.write(b'{"run": "run", "length": 20, "dig')
    assert state_of(ledger, "run") == FIRST
    assert advance(ledger, "run", before=FIRST, after=SECOND)
    assert state_of(ledger, "run") == SECOND


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"run": "run"}', '{"run": "run", "length": "x", "digest": ""}'])
def test_a_file_that_was_changed_is_refused(line, ledger):
    advance(ledger, "run", before=RunState(), after=FIRST)
    with states_path(ledger).open("a") as file:
        file.write(line + "\n")
    for look in (lambda: state_of(ledger, "run"), lambda: advance(ledger, "run", before=FIRST, after=SECOND)):
        with pytest.raises(LedgerError, match="was changed"):
            look()


def test_processes_take_turns(ledger):
    """Of many that advance from the same state one does."""
    code = (
        "import sys; from pathlib import Path; from gapless.privacy.run_states import RunState, advance\n"
        "print(advance(Path(sys.argv[1]), 'run', before=RunState(), after=RunState(1, sys.argv[2])))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(ledger), str(number)], stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert sorted(child.communicate()[0].strip() for child in children) == ["False", "False", "False", "True"]


class ChildError(Exception):
    """Leaves the block in the child."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking with threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_that_leaves_the_block_keeps_the_lock_for_its_parent(tmp_path):
    import fcntl

    path = tmp_path / "file"
    try:
        with locked(os.open(path, os.O_RDWR | os.O_CREAT), path):
            child = os.fork()
            if child == 0:
                raise ChildError  # noqa: TRY301 it must leave this very block
            os.waitpid(child, 0)
            with path.open() as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ChildError:
        os._exit(0)


@pytest.mark.parametrize("run", ["é", 'a"b', "back\\slash", "a\tb", ""])
def test_a_run_whose_token_is_written_with_escapes_advances_from_its_state_only(run, ledger):
    """A token that somebody wrote into a journal: its lines must be found, or two copies could continue the run."""
    assert advance(ledger, run, before=RunState(), after=FIRST)
    assert state_of(ledger, run) == FIRST
    assert not advance(ledger, run, before=RunState(), after=SECOND)
    assert advance(ledger, run, before=FIRST, after=SECOND)
    assert state_of(ledger, run) == SECOND


def test_a_file_that_was_replaced_before_it_was_locked_is_refused(ledger, monkeypatch):
    """What is appended to a file without a name is lost: another copy would continue from the earlier state."""
    advance(ledger, "run", before=RunState(), after=FIRST)
    real_open = os.open

    def replaced(path, *args):
        descriptor = real_open(path, *args)
        states_path(ledger).unlink()
        states_path(ledger).write_bytes(b"")
        return descriptor

    monkeypatch.setattr(os, "open", replaced)
    with pytest.raises(LedgerError, match="was replaced by another file"):
        advance(ledger, "run", before=FIRST, after=SECOND)
