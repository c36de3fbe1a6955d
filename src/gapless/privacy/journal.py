"""The journal of a run: its answers, so that a stopped run resumes and pays for no answer again.

The ledger records what was asked for: each entry that a run charges carries the run's random token. The journal
records the token, what was granted, and each answer by the number of its entry, on the disk before the answer is
returned. A run that begins again asks for the same releases, because these follow from public facts and earlier
answers. Batches that the ledger has charged to its token are not charged again. Answers that the journal has are taken
from it; an entry without an answer was charged and returned nothing, so it is released now, with the noise that was
charged (docs/proofs/ledger.md, section 9).

A journal belongs to one ledger and one call. It holds no private fact: released values only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gapless.errors import ReadError
from gapless.files import BINARY, is_file_at, locked, parse_json, read_rest, sync_name
from gapless.privacy.budget import Loss
from gapless.privacy.ledger_file import Entry
from gapless.privacy.private import Released
from gapless.privacy.run_states import RunState, advance, state_of

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger

MAX_BYTES = 4 << 30  # bytes: it holds all that a run has released
_NUMBER_KINDS = "iufb"  # of numpy's types, those of numbers
VERSION = 2
_COMPARED_FIELDS = ("to", "noise", "what", "mechanism", "distance", "reads", "loss", "together")  # of an entry
_NUMBER_TYPE = re.compile(r"[<>=|][iufb]\d{1,2}")  # of the numbers that an answer is made of
_CONTINUE_HINT = "the call it was begun with, on the same machine; or another file, and what is left of the budget"


class JournalFile:
    """The file of a journal, which this process holds: every other one waits for it. `held` opens it."""

    def __init__(self, descriptor: int, path: Path, real: Path) -> None:
        self.path = path  # as it was called
        self._real = real
        self._descriptor = descriptor
        self._open = True
        self._process = os.getpid()

    def read(self) -> bytes:
        """All that is in it."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, "rb", closefd=False) as file:
            try:
                return read_rest(file, MAX_BYTES)
            except ValueError:
                raise ReadError(
                    f"{self.path} is larger than {MAX_BYTES >> 30} GB", hint="use a separate file for each run"
                ) from None

    def flush(self) -> None:
        """Flush to the disk what is in it."""
        os.fsync(self._descriptor)

    def truncate(self, end: int) -> None:
        """Leave this many bytes of it."""
        os.ftruncate(self._descriptor, end)

    def append(self, data: bytes) -> None:
        """Write at its end, and flush to the disk; so is the name of a file that was empty."""
        self.check_open()
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
            if end == 0:
                sync_name(self._real)
        except BaseException as error:
            try:
                self.truncate(end)  # lines after half a line would not be found again
            except OSError:
                self._open = False
            if not isinstance(error, OSError):
                raise
            raise ReadError(
                f"cannot write {self.path}: {error.strerror}",
                hint="free space on the disk; what was charged stays spent",
            ) from None

    def discard(self) -> None:
        """Delete it, unless its name is that of another file by now. Nothing more is written."""
        if self._is_ours and is_file_at(self._descriptor, self._real):
            self._real.unlink()
        self._open = False

    def close(self) -> None:
        """Write nothing more; a file in which nothing was written goes."""
        if self._is_ours and os.fstat(self._descriptor).st_size == 0:
            self.discard()
        self._open = False  # the number of its descriptor may soon be that of another file

    def check_open(self) -> None:
        """Refuse to go on after the run, or in a forked child: what was paid for could not be kept."""
        if not self._is_ours:
            raise ReadError(
                f"cannot write {self.path}: the run that it was kept for has ended, or is in another process",
                hint="begin a new run for this, or release everything in the process that opened the journal",
            )

    @property
    def _is_ours(self) -> bool:
        return self._open and os.getpid() == self._process  # a forked child has the same descriptor


@contextmanager
def open_journal_file(path: str | Path) -> Iterator[JournalFile]:
    """Hold the file of a journal, made if there is none, against every other process; waits for whoever has it.

    Who had it may have deleted it meanwhile. What is written into a file without a name is lost with the process, so
    that the file is opened again until it is the one at the path.
    """
    path = Path(path)
    real = path.resolve()  # a link must not be deleted in place of its file
    while True:
        try:
            descriptor = os.open(real, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        except OSError as error:
            raise ReadError(
                f"cannot open {path}: {error.strerror}", hint="choose a file in a folder that is yours"
            ) from None
        with locked(descriptor, real) as there:
            if not there:
                continue
            file = JournalFile(descriptor, path, real)
            try:
                yield file
            finally:
                file.close()
            return


class Journal:
    """The answers of one run; `resumable` opens it.

    Attributes:
        run: the run's token, which its entries carry in the ledger.
        begun: whether an earlier process has charged anything in this run.
    """

    def __init__(self, file: JournalFile, ledger: Ledger, call: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self._file = file
        head = {"gapless": "journal", "version": VERSION, "ledger": ledger.identity, "call": dict(call)}
        content, lines = _read_lines(file, head)
        try:
            self.run = str(lines[0]["run"]) if lines else secrets.token_hex(16)
            self._granted, self._priced_after, self._answers = _parse_lines(lines[1:])
        except (ValueError, TypeError, LookupError, OverflowError):
            raise ReadError(f"{file.path} was changed", hint=_CONTINUE_HINT) from None
        self._lock = threading.Lock()
        self._ended = False
        self._length, self._hash = len(content), hashlib.sha256(content)
        self._state = state_of(ledger.path, self.run)
        self._check_content(content)
        file.truncate(len(content))
        if self._answers:
            file.flush()  # a process that was killed may have written answers that are not on the disk yet
            self._advance()
        ledger.refresh()  # another process may have charged for this run while this one waited for the file
        charged = [entry for entry in ledger.entries if entry.run == self.run]
        self._batches = [list(batch) for _, batch in groupby(charged, key=lambda entry: entry.batch)]
        if not self._answers.keys() <= {entry.number for batch in self._batches for entry in batch}:
            raise ReadError(f"{file.path} has answers that the ledger does not know", hint=_CONTINUE_HINT)
        self._batches_done = 0  # batches so far
        self.is_resumed = bool(self._batches)
        # Written with the first charge: before, there is nothing to resume.
        self._unwritten = [] if lines else [head | {"run": self.run}]

    @property
    def spend(self) -> Loss | None:
        """What the earlier run was begun with; None if there was none."""
        return Loss(self._granted[0][1], self.ledger.order) if self.is_resumed and self._granted else None

    @property
    def priced_after(self) -> int | None:
        """The number of entries by which the next batch was priced in an earlier process; None if it is new."""
        if not self._batches:
            return None
        if self._batches_done not in self._priced_after:
            raise ReadError(f"{self._file.path} was changed", hint=_CONTINUE_HINT)
        return self._priced_after[self._batches_done]

    def next_grant(self, to: str) -> Loss | None:
        """What was granted at this place in an earlier run; None if there was none."""
        if not self._granted:
            return None
        known, spend = self._granted.pop(0)
        if known != to:
            raise self._mismatch_error()
        return Loss(spend, self.ledger.order)

    def record_grant(self, to: str, spend: Loss) -> None:
        """Record what is granted; it is written with the first charge."""
        self._unwritten.append({"grant": to, "spend": spend.value})

    def next_batch(self, entries: Sequence[Entry], *, after: int) -> list[int] | None:
        """The numbers of the same entries if an earlier process has charged them; None if they are to be charged now.

        Before a charge, everything that a resumed run needs is on the disk.

        Args:
            entries: what is asked for.
            after: the number of entries by which it was priced.
        """
        with self._lock:
            if self._batches:
                known = self._batches.pop(0)
                if [_compared_content(entry) for entry in known] != [_compared_content(entry) for entry in entries]:
                    raise self._mismatch_error()
                numbers = [entry.number for entry in known]
            else:
                self._write([{"batch": self._batches_done, "after": after}])
                numbers = None
            self._batches_done += 1
            return numbers

    def stored_answer(self, number: int) -> Released[Any] | None:
        """The answer of an entry that was returned in an earlier process; None if it is to be drawn now."""
        if number in self._answers:
            return Released(self._answers[number], number)
        self.check_open()
        return None

    def write_answers(self, answers: Iterable[Released[Any]]) -> None:
        """Write answers down, before they are returned."""
        with self._lock:
            self._write([{"entry": answer.entry, "value": _encode_value(answer.value)} for answer in answers])
            self._advance()

    def check_open(self) -> None:
        """Refuse a run that has ended, before anything is read whose answer could not be kept."""
        if self._ended:
            raise ReadError(
                f"cannot write {self._file.path}: the run that it was kept for has ended",
                hint="start a new run for this",
            )
        self._file.check_open()

    def end(self) -> None:
        """Charge, draw and write nothing more."""
        self._ended = True

    def discard(self) -> None:
        """Delete the file, because its result is complete. Further requests are refused before their charge."""
        self._file.discard()

    def _check_content(self, content: bytes) -> None:
        """Refuse a copy of an earlier state, or one that somebody has changed: it would draw answers again."""
        known = content[: self._state.length]
        if self._state != RunState() and hashlib.sha256(known).hexdigest() != self._state.digest:
            raise ReadError(
                f"{self._file.path} is not the latest journal of its run: the run was continued from another copy, or "
                "the file was changed",
                hint="continue with the latest one, or start a new run with what is left of the budget",
            )

    def _advance(self) -> None:
        """Record how far the run has come; refuse, if another copy of the journal was continued meanwhile."""
        after = RunState(self._length, self._hash.hexdigest())
        if after == self._state:
            return
        if not advance(self.ledger.path, self.run, before=self._state, after=after):
            self.end()
            raise ReadError(
                f"{self._file.path} was continued from another copy of it meanwhile",
                hint="continue with that one, or start a new run with what is left of the budget",
            )
        self._state = after

    def _mismatch_error(self) -> ReadError:
        return ReadError(f"{self._file.path} was begun by a run that asked for something else", hint=_CONTINUE_HINT)

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        self.check_open()
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in [*self._unwritten, *lines]).encode()
        self._file.append(text)
        self._length += len(text)
        self._hash.update(text)
        self._unwritten = []


def _compared_content(entry: Entry) -> str:
    """What was asked for, for comparison; the number and the day are not part of it."""
    content = entry.content()
    return json.dumps([content.get(name) for name in _COMPARED_FIELDS], sort_keys=True)


_journal: ContextVar[Journal | None] = ContextVar("gapless.journal", default=None)


def journal_of(ledger: Ledger) -> Journal | None:
    """The journal in which releases under this ledger are kept, if there is one."""
    journal = _journal.get()
    return journal if journal is not None and journal.ledger.identity == ledger.identity else None


@contextmanager
def resumable(ledger: Ledger, path: str | Path, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """Keep what is released inside the `with` block, so that the same block can be run again after a crash.

    The same fit on the same table then resumes where it was stopped, with the `spend` it was begun with. It pays only
    for what it had not charged yet. What was charged and has no answer, such as a training that was stopped, is
    released with the noise that was charged. While one process uses the journal, another one waits.

    Args:
        ledger: of the table that is released from.
        path: the journal, a separate file for each run; it holds released values only. Delete it when you have what
            you wanted: as long as it is there, the same block gives the same result for free. Of several copies of it
            one can continue the run.
        call: what the run was asked for, if it should be compared.
    """
    with open_journal_file(path) as file, record_in(file, ledger, call=call) as journal:
        yield journal


@contextmanager
def record_in(file: JournalFile, ledger: Ledger, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """The same in a file that is held already, and longer than the run."""
    journal = Journal(file, ledger, call or {})
    token = _journal.set(journal)
    try:
        yield journal
    finally:
        _journal.reset(token)
        journal.end()


def _read_lines(file: JournalFile, head: Mapping[str, Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """The content of a journal up to its last whole line, and the lines. Half a line that a crash left was no answer.

    A file that is not this journal is refused, and left as it is.
    """
    text = file.read()
    content = text[: text.rfind(b"\n") + 1]
    written = json.dumps(head)
    begin = written.removesuffix("}").encode()  # the token of the run follows
    if not content:
        half = text.rstrip(b"\0")  # zeros, after a power failure
        if not (begin.startswith(half) or half.startswith(begin)):
            raise ReadError(f"{file.path} is no journal", hint="use a separate file for each run")
        return content, []
    lines = []
    for line in content.splitlines():
        try:
            lines.append(dict(parse_json(line)))
        except (ValueError, TypeError):
            lines.append({})
    if lines[0].get("gapless") != "journal":
        raise ReadError(f"{file.path} is no journal", hint="use a separate file for each run")
    if {name: lines[0].get(name) for name in head} != json.loads(written):
        raise ReadError(f"{file.path} was begun under another ledger, or by another call", hint=_CONTINUE_HINT)
    return content, lines


def _parse_lines(
    lines: Iterable[Mapping[str, Any]],
) -> tuple[list[tuple[str, float]], dict[int, int], dict[int, Any]]:
    """What was granted, in order; by how many entries each batch was priced; the answers by their entries."""
    granted: list[tuple[str, float]] = []
    priced_after: dict[int, int] = {}
    answers: dict[int, Any] = {}
    for line in lines:
        if "grant" in line:
            granted.append((str(line["grant"]), float(line["spend"])))
        elif "batch" in line:
            priced_after[int(line["batch"])] = int(line["after"])  # the last one, if a charge was not made
        elif int(line["entry"]) in answers:
            raise ValueError("two answers for one entry")
        else:
            answers[int(line["entry"])] = _decode_value(line["value"])
    return granted, priced_after, answers


def _encode_value(value: Any) -> Any:
    """A released value as JSON: a number or an array of numbers, which every mechanism answers with.

    Whether and how it can be written does not depend on the value, only on its type and shape: an answer that fails to
    be written would be drawn again, and so be chosen by its value.
    """
    if type(value) is int:
        return {"int": f"{value:+025d}"}
    if type(value) is float:
        return {"float": _to_base64(np.float64(value))}
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBER_KINDS:
        return {"type": value.dtype.str, "number": _to_base64(value)}
    if type(value) is np.ndarray and value.dtype.kind in _NUMBER_KINDS:
        return {"type": value.dtype.str, "shape": list(value.shape), "data": _to_base64(np.ascontiguousarray(value))}
    raise TypeError(f"an answer that is a {type(value).__name__} cannot be kept: mechanisms answer with numbers")


def _to_base64(value: np.generic | NDArray[Any]) -> str:
    return base64.b64encode(value.tobytes()).decode()


def _decode_value(value: Any) -> Any:
    """The released value that a line holds.

    Raises:
        ValueError: It is none that `_encode_value` makes.
    """
    if not isinstance(value, dict):
        raise TypeError
    if "int" in value:
        return int(value["int"])
    if "float" in value:
        return float(_from_base64(value["float"], "<f8").item())
    array = _from_base64(value.get("data", value.get("number")), _NUMBER_TYPE.fullmatch(value["type"])[0])  # type: ignore[index, arg-type] # None is a TypeError, which is refused
    return array.reshape(value["shape"]).copy() if "data" in value else array.reshape(())[()]


def _from_base64(data: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(data, validate=True), dtype=np.dtype(kind))
