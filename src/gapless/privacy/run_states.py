"""How far each resumable run has come, recorded beside the ledger.

A journal holds the answers of a run. A process that continued an old copy of it would draw a second answer for an entry
that already has one. So before an answer is returned, `people.ledger.runs` records the length and the hash of the
journal. A run advances only from the state it was opened with, so only one of two copies can continue
(docs/proofs/ledger.md, section 9).

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
from gapless.files import BINARY, append_and_sync, locked, parse_json, read_descriptor

MAX_BYTES = 1 << 30  # some million steps
_LINE_START = b'{"run": "'  # of each line


@dataclass(frozen=True, slots=True)
class RunState:
    """The length of a journal in bytes, and the SHA-256 of its content."""

    length: int = 0
    digest: str = ""


def states_path(ledger: Path) -> Path:
    """The file with the states of the runs of a ledger."""
    return ledger.with_name(f"{ledger.name}.runs")


def state_of(ledger: Path, run: str) -> RunState:
    """The last recorded state of a run; an empty one if there is none."""
    path = states_path(ledger)
    if not path.exists():
        return RunState()
    with _locked_file(path) as descriptor:
        return _last_state(descriptor, path, run)


def advance(ledger: Path, run: str, *, before: RunState, after: RunState) -> bool:
    """Record the next state of a run on the disk if its state is still `before`; returns whether it was."""
    path = states_path(ledger)
    with _locked_file(path) as descriptor:
        if _last_state(descriptor, path, run) != before:
            return False
        line = json.dumps({"run": run, "length": after.length, "digest": after.digest}) + "\n"
        append_and_sync(descriptor, path, line.encode())
        return True


@contextmanager
def _locked_file(path: Path) -> Iterator[int]:
    """Open the file and lock it against every other process."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        with locked(descriptor, path) as is_there:
            if not is_there:
                raise LedgerError(f"{path} was replaced by another file", hint="run the same command again")
            yield descriptor
    except OSError as error:
        raise LedgerError(
            f"cannot read or write {path}: {error.strerror}",
            hint="remove files to make space on the disk, or make the file and its folder writable",
        ) from None


def _last_state(descriptor: int, path: Path, run: str) -> RunState:
    """The state of a run in the last of its lines; half a line that a crash left is removed."""
    try:
        text = read_descriptor(descriptor, MAX_BYTES)
    except ValueError:
        wrong = f"{path} is larger than 1 GB, the limit for this record of how far interrupted runs have come"
        hint = (
            "run each interrupted command again until it ends and its journal, such as released.journal, is gone; then "
            "remove this file, because it serves only to notice an old copy of a journal"
        )
        raise LedgerError(wrong, hint=hint) from None
    whole = text[: text.rfind(b"\n") + 1]  # the answer of an incomplete line was never returned
    os.ftruncate(descriptor, len(whole))
    state = RunState()
    ours = json.dumps({"run": run})[:-1].encode()  # as `advance` writes it: a token may have escaped characters
    try:
        for line in whole.splitlines():
            if line.startswith(_LINE_START) and not line.startswith(ours):
                continue  # lines of other runs are not parsed, so that a step stays fast after many runs
            content = parse_json(line)
            if content["run"] == run:
                state = RunState(int(content["length"]), str(content["digest"]))
    except (ValueError, TypeError, KeyError):
        raise LedgerError(
            f"{path} records how far interrupted runs have come, and it was changed since gapless wrote it",
            hint="restore its latest backup; without a backup remove this file only, which keeps the ledger and what "
            "was spent, but ends all interrupted runs",
        ) from None
    return state
