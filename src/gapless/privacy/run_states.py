"""How far each resumable run has come, recorded beside the ledger.

A journal holds the answers of a run. It could be copied, set back by a backup, or lose its end: whoever continued it
then would draw a second answer for an entry that has one. So before an answer is returned, `people.ledger.runs` records
how long the journal of the run is and the hash of its content. A run advances from the state it was opened with, or not
at all: of two copies one can go on (docs/proofs/ledger.md, section 9).

The file has one JSON line for each step of each run: the token of the run, the length and the hash. The last line of a
run counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gapless.errors import LedgerError
from gapless.files import BINARY, locked, parse_json, read_rest, sync_name

MAX_BYTES = 1 << 30  # bytes: some million steps
_LINE_START = b'{"run": "'  # of each line


@dataclass(frozen=True, slots=True)
class RunState:
    """The length of a journal in bytes, and the SHA-256 of its content."""

    length: int = 0
    digest: str = ""


def states_path(ledger: Path) -> Path:
    """Where the states of the runs of a ledger are recorded."""
    return ledger.with_name(f"{ledger.name}.runs")


def state_of(ledger: Path, run: str) -> RunState:
    """The last recorded state of a run; an empty one if there is none."""
    path = states_path(ledger)
    if not path.exists():
        return RunState()
    with _locked_file(path) as descriptor:
        return _last_state(descriptor, path, run)


def advance(ledger: Path, run: str, *, before: RunState, after: RunState) -> bool:
    """Record the next state of a run, on the disk, if it is still in the state `before`; whether it is."""
    path = states_path(ledger)
    with _locked_file(path) as descriptor:
        if _last_state(descriptor, path, run) != before:
            return False
        line = json.dumps({"run": run, "length": after.length, "digest": after.digest}) + "\n"
        end = os.lseek(descriptor, 0, os.SEEK_END)
        data = line.encode()
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
        if end == 0:
            sync_name(path)
        return True


@contextmanager
def _locked_file(path: Path) -> Iterator[int]:
    """Hold the file against every other process."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        with locked(descriptor, path) as there:
            if not there:
                raise LedgerError(f"{path} was replaced by another file", hint="run the same command again")
            yield descriptor
    except OSError as error:
        raise LedgerError(
            f"cannot read or write {path}: {error.strerror}",
            hint="free space on the disk, or make the file and its folder writable",
        ) from None


def _last_state(descriptor: int, path: Path, run: str) -> RunState:
    """The state of a run by the last of its lines; half a line that a crash left is cut off."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        try:
            text = read_rest(file, MAX_BYTES)
        except ValueError:
            raise LedgerError(f"{path} is larger than 1 GB", hint="delete it when no stopped run is left") from None
    whole = text[: text.rfind(b"\n") + 1]  # the answer of the other half was returned to nobody
    os.ftruncate(descriptor, len(whole))
    state = RunState()
    try:
        for line in whole.splitlines():
            if line.startswith(_LINE_START) and not line.startswith(_LINE_START + run.encode() + b'"'):
                continue  # of another run: not parsed, so that a step costs little however many runs there were
            content = parse_json(line)
            if content["run"] == run:
                state = RunState(int(content["length"]), str(content["digest"]))
    except (ValueError, TypeError, KeyError):
        raise LedgerError(
            f"{path} was changed", hint="restore it from a backup; runs that were stopped cannot be resumed without it"
        ) from None
    return state
