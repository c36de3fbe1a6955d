"""The journal of a run: its answers, so that a stopped run resumes and pays for no answer twice.

The ledger records what was requested: each entry that a run charges has the run's random token. The journal records
the token, the grants, and each answer by the number of its entry. An answer is on the disk before it is returned.

A restarted run makes the same requests, because they follow from public facts and earlier answers. Batches that the
ledger has charged to its token are not charged again. Answers in the journal are not drawn again. An entry without an
answer was charged and returned nothing, so it is released now, with the noise that was charged (docs/proofs/ledger.md,
section 9).

A journal belongs to one ledger and one call. It holds released values only, nothing private.
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
from gapless.files import BINARY, append_and_sync, is_file_at, locked, parse_json, read_descriptor
from gapless.privacy.budget import Loss
from gapless.privacy.ledger_file import Entry
from gapless.privacy.private import Released
from gapless.privacy.run_states import RunState, advance, state_of

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger

MAX_BYTES = 4 << 30  # of all answers of a run
VERSION = 2
_NUMBER_KINDS = "iufb"  # of numpy's types, those of numbers
_NUMBER_TYPE = re.compile(rf"[<>=|][{_NUMBER_KINDS}]\d{{1,2}}")
# Of an entry.
_COMPARED_FIELDS = ("to", "noise", "what", "mechanism", "distance", "reads", "loss", "together", "kept_rows")
_START_AGAIN = (
    "start again with another output name (in Python: another journal file); this pays again, and what was charged "
    "stays spent"
)
_CONTINUE_HINT = f"repeat the call that started it, on the same machine, or {_START_AGAIN}"
_RESTORE_HINT = f"put the latest copy of this file back, or {_START_AGAIN}"


class JournalFile:
    """The locked file of a journal; `open_journal_file` opens it, and other processes wait for it."""

    def __init__(self, descriptor: int, path: Path, real: Path) -> None:
        self.path = path  # as the caller wrote it
        self._real = real
        self._descriptor = descriptor
        self._open = True
        self._process = os.getpid()

    def read(self) -> bytes:
        """The content of the file."""
        try:
            return read_descriptor(self._descriptor, MAX_BYTES)
        except ValueError:
            wrong = f"{self.path} is larger than {MAX_BYTES >> 30} GB, the limit for the journal of a run"
            raise ReadError(wrong, hint=_START_AGAIN) from None

    def flush(self) -> None:
        """Flush the content to the disk."""
        os.fsync(self._descriptor)

    def truncate(self, end: int) -> None:
        """Keep this many bytes."""
        os.ftruncate(self._descriptor, end)

    def append(self, data: bytes) -> None:
        """Write data at the end and flush them to the disk."""
        self.check_open()
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            append_and_sync(self._descriptor, self._real, data)
        except BaseException as error:
            try:
                self.truncate(end)  # lines after half a line could not be read
            except OSError:
                self._open = False
            if not isinstance(error, OSError):
                raise
            raise ReadError(
                f"cannot write {self.path}: {error.strerror}",
                hint="check that the disk has space and that you can write to the file; what was charged stays spent",
            ) from None

    def discard(self) -> None:
        """Delete the file, unless another file has its name now. Nothing more is written."""
        if self._is_ours and is_file_at(self._descriptor, self._real):
            self._real.unlink()
        self._open = False

    def close(self) -> None:
        """Write nothing more, and delete the file if it is empty."""
        if self._is_ours and os.fstat(self._descriptor).st_size == 0:
            self.discard()
        self._open = False  # another file may soon get the number of this descriptor

    def check_open(self) -> None:
        """Refuse to continue after the run, or in a forked child: an answer that was paid for could not be stored."""
        if not self._is_ours:
            raise self.closed_error()

    def closed_error(self) -> ReadError:
        """The error for a journal whose run has ended."""
        return ReadError(
            f"cannot write {self.path}: its run has ended, or is in another process",
            hint="release everything inside the with block that opened the journal, in the same process",
        )

    @property
    def _is_ours(self) -> bool:
        return self._open and os.getpid() == self._process  # a forked child has the same descriptor


@contextmanager
def open_journal_file(path: str | Path) -> Iterator[JournalFile]:
    """Open and lock the file of a journal, and create it if there is none; waits for a process that has it.

    That process may have deleted the file meanwhile. A file without a name would be lost with the process, so the file
    is opened again until it is the one at the path.
    """
    path = Path(path)
    real = path.resolve()  # a link must not be deleted in place of its file
    while True:
        try:
            descriptor = os.open(real, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        except OSError as error:
            raise ReadError(
                f"cannot open {path}: {error.strerror}", hint="choose a folder that exists and that you can write to"
            ) from None
        with locked(descriptor, real) as is_there:
            if not is_there:
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
        is_resumed: whether an earlier process has charged anything in this run.
    """

    def __init__(self, file: JournalFile, ledger: Ledger, call: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self._file = file
        head = {"gapless": "journal", "version": VERSION, "ledger": ledger.identity, "call": dict(call)}
        content, lines = _read_lines(file, head)
        try:
            self.run = str(lines[0]["run"]) if lines else secrets.token_hex(16)
            self._granted, self._entries_when_priced, self._answers = _parse_lines(lines[1:])
        except (ValueError, TypeError, LookupError, OverflowError):
            raise ReadError(f"{file.path} was changed since its run wrote it", hint=_RESTORE_HINT) from None
        self._lock = threading.Lock()
        self._ended = False
        self._length, self._hash = len(content), hashlib.sha256(content)
        self._state = state_of(ledger.path, self.run)
        self._check_content(content)
        file.truncate(len(content))
        if self._answers:
            file.flush()  # answers that a killed process wrote may not be on the disk yet
            self._advance()
        ledger.refresh()  # another process may have charged for this run while this one waited
        charged = [entry for entry in ledger.entries if entry.run == self.run]
        self._batches = [list(batch) for _, batch in groupby(charged, key=lambda entry: entry.batch)]
        if not self._answers.keys() <= {entry.number for batch in self._batches for entry in batch}:
            raise ReadError(
                f"{file.path} has answers that the ledger {ledger.given_path} does not record: the ledger is an old "
                "copy, or the journal was changed",
                hint="put the latest copy of the ledger and its .seal and .runs files back; if the journal was "
                "changed, put its latest copy back",
            )
        self._batches_done = 0
        self.is_resumed = bool(self._batches)
        # Written with the first charge. Before it there is nothing to resume.
        self._unwritten = [] if lines else [head | {"run": self.run}]

    @property
    def spend(self) -> Loss | None:
        """The spend of the first grant of the earlier process; None if nothing was charged."""
        return Loss(self._granted[0][1], self.ledger.order) if self.is_resumed and self._granted else None

    @property
    def entries_when_priced(self) -> int | None:
        """The number of entries after which an earlier process priced the next batch; None if the batch is new."""
        if not self._batches:
            return None
        if self._batches_done not in self._entries_when_priced:
            raise ReadError(f"{self._file.path} was changed since its run wrote it", hint=_RESTORE_HINT)
        return self._entries_when_priced[self._batches_done]

    def next_grant(self, to: str) -> Loss | None:
        """The next grant of the earlier process, which must be for the same purpose; None if there is none."""
        if not self._granted:
            return None
        purpose, spend = self._granted.pop(0)
        if purpose != to:
            raise self._mismatch_error()
        return Loss(spend, self.ledger.order)

    def record_grant(self, to: str, spend: Loss) -> None:
        """Record a new grant; it is written with the first charge."""
        self._unwritten.append({"grant": to, "spend": spend.value})

    def charged_batch(self, entries: Sequence[Entry], *, entries_when_priced: int) -> list[int] | None:
        """The numbers of these entries if an earlier process has charged them; None if they must be charged now.

        Before a charge, everything that a resumed run needs is on the disk.

        Args:
            entries: the batch.
            entries_when_priced: how many entries the ledger had when the batch was priced.
        """
        with self._lock:
            if self._batches:
                charged = self._batches.pop(0)
                if [_compared_content(entry) for entry in charged] != [_compared_content(entry) for entry in entries]:
                    raise self._mismatch_error()
                numbers = [entry.number for entry in charged]
            else:
                self._write([{"batch": self._batches_done, "after": entries_when_priced}])
                numbers = None
            self._batches_done += 1
            return numbers

    def stored_answer(self, number: int) -> Released[Any] | None:
        """The answer of an entry from an earlier process; None if it must be drawn now."""
        if number in self._answers:
            return Released(self._answers[number], number)
        self.check_open()
        return None

    def write_answers(self, answers: Iterable[Released[Any]]) -> None:
        """Store answers on the disk, before they are returned."""
        with self._lock:
            self._write([{"entry": answer.entry, "value": _encode_value(answer.value)} for answer in answers])
            self._advance()

    def check_open(self) -> None:
        """Refuse a run that has ended, before any data are read whose answer could not be stored."""
        if self._ended:
            raise self._file.closed_error()
        self._file.check_open()

    def end(self) -> None:
        """End the run: nothing more is charged, drawn or written."""
        self._ended = True

    def discard(self) -> None:
        """Delete the file, because its result is complete. Further requests are refused before their charge."""
        self._file.discard()

    def _check_content(self, content: bytes) -> None:
        """Refuse an old or changed copy of the journal: it would draw answers again."""
        known = content[: self._state.length]
        if self._state != RunState() and hashlib.sha256(known).hexdigest() != self._state.digest:
            raise ReadError(
                f"{self._file.path} is not the latest journal of its run: the run was continued from another copy, or "
                "the file was changed",
                hint=_RESTORE_HINT,
            )

    def _advance(self) -> None:
        """Record the state of the run; refuse if another copy of the journal was continued meanwhile."""
        after = RunState(self._length, self._hash.hexdigest())
        if after == self._state:
            return
        if not advance(self.ledger.path, self.run, before=self._state, after=after):
            self.end()
            raise ReadError(
                f"{self._file.path} is an old copy: another process continued the run from another copy meanwhile",
                hint=_RESTORE_HINT,
            )
        self._state = after

    def _mismatch_error(self) -> ReadError:
        return ReadError(f"{self._file.path} was started by a run with other requests", hint=_CONTINUE_HINT)

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        self.check_open()
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in [*self._unwritten, *lines]).encode()
        self._file.append(text)
        self._length += len(text)
        self._hash.update(text)
        self._unwritten = []


def _compared_content(entry: Entry) -> str:
    """The requested release of an entry, for comparison; its number and date may differ."""
    content = entry.content()
    return json.dumps([content.get(name) for name in _COMPARED_FIELDS], sort_keys=True)


_journal: ContextVar[Journal | None] = ContextVar("gapless.journal", default=None)


def journal_of(ledger: Ledger) -> Journal | None:
    """The journal that records releases under this ledger, if there is one."""
    journal = _journal.get()
    return journal if journal is not None and journal.ledger.identity == ledger.identity else None


@contextmanager
def resumable(ledger: Ledger, path: str | Path, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """Record what is released inside the `with` block, so that the block can be run again after a crash.

    The same fit on the same table then resumes where it stopped, with the `spend` of the first start. It pays only for
    what was not charged yet. A release that was charged and has no answer, such as a training that was stopped, is
    made with the noise that was charged. While one process uses the journal, others wait.

    Args:
        ledger: the ledger of the table.
        path: the journal, a separate file for each run; it holds released values only. While it exists, the same block
            gives the same result for free, so delete it when you have the result. If there are several copies, only
            one can continue the run.
        call: a description of the call; a journal with another one is refused.
    """
    with open_journal_file(path) as file, record_in(file, ledger, call=call) as journal:
        yield journal


@contextmanager
def record_in(file: JournalFile, ledger: Ledger, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """Like `resumable`, for a journal file that is already open and stays open after the run."""
    journal = Journal(file, ledger, call or {})
    token = _journal.set(journal)
    try:
        yield journal
    finally:
        _journal.reset(token)
        journal.end()


def _read_lines(file: JournalFile, head: Mapping[str, Any]) -> tuple[bytes, list[dict[str, Any]]]:
    """The content of a journal up to its last whole line, and its lines. An incomplete last line holds no answer.

    A file that is not this journal is refused and not changed.
    """
    text = file.read()
    content = text[: text.rfind(b"\n") + 1]
    header = json.dumps(head)
    lines = []
    for line in content.splitlines():
        try:
            lines.append(dict(parse_json(line)))
        except (ValueError, TypeError):
            lines.append({})
    if lines:
        is_journal = lines[0].get("gapless") == "journal"
    else:
        start, written = header.removesuffix("}").encode(), text.rstrip(b"\0")  # zeros come from a power failure
        is_journal = start.startswith(written) or written.startswith(start)  # the token of the run follows
    if not is_journal:
        raise ReadError(f"{file.path} is not a journal", hint="choose the path of a journal, or of a new file")
    if lines and {name: lines[0].get(name) for name in head} != json.loads(header):
        raise ReadError(f"{file.path} was started under another ledger, or by another call", hint=_CONTINUE_HINT)
    return content, lines


def _parse_lines(lines: Iterable[Mapping[str, Any]]) -> tuple[list[tuple[str, float]], dict[int, int], dict[int, Any]]:
    """The grants in order, the number of entries before each batch, and the answers by entry."""
    granted: list[tuple[str, float]] = []
    entries_when_priced: dict[int, int] = {}
    answers: dict[int, Any] = {}
    for line in lines:
        if "grant" in line:
            granted.append((str(line["grant"]), float(line["spend"])))
        elif "batch" in line:
            entries_when_priced[int(line["batch"])] = int(line["after"])  # the last line counts: earlier charges failed
        elif int(line["entry"]) in answers:
            raise ValueError("two answers for one entry")
        else:
            answers[int(line["entry"])] = _decode_value(line["value"])
    return granted, entries_when_priced, answers


def _encode_value(value: Any) -> Any:
    """A released value as JSON: a number or an array of numbers, the answers of all mechanisms.

    Whether and how a value can be written depends on its type and shape only. Otherwise an answer that cannot be
    written would be drawn again, and so be selected by its value.
    """
    if type(value) is int:
        return {"int": f"{value:+025d}"}
    if type(value) is float:
        return {"float": _to_base64(np.float64(value))}
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBER_KINDS:
        return {"type": value.dtype.str, "number": _to_base64(value)}
    if type(value) is np.ndarray and value.dtype.kind in _NUMBER_KINDS:
        return {"type": value.dtype.str, "shape": list(value.shape), "data": _to_base64(np.ascontiguousarray(value))}
    raise TypeError(f"an answer that is a {type(value).__name__} cannot be stored: mechanisms answer with numbers")


def _to_base64(value: np.generic | NDArray[Any]) -> str:
    return base64.b64encode(value.tobytes()).decode()


def _decode_value(value: Any) -> Any:
    """The released value of a line.

    Raises:
        ValueError, TypeError: `_encode_value` does not write such a line.
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
