"""The journal of a run: what was asked and what came out, so that a stopped run resumes and pays for no answer again.

Answers are public, so keeping them costs nothing. A line is written before each charge, with all that is asked for in
one batch, and one for each answer before it is handed out. A run that begins again asks the same questions, since what
it asks follows from public facts and earlier answers: those with an answer in the journal get that one, nothing is read
and nothing charged. A batch that was charged and has no answer counts as spent, and is charged again when it is read:
whatever a journal says, no row is read without a charge of its own (docs/proofs/ledger.md, section 9).

A journal belongs to one ledger and one call. It holds no private fact: what was asked, and released values.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gapless.errors import ReadError
from gapless.parsing import parse_json, take_up_to
from gapless.privacy.budget import Loss
from gapless.privacy.file_lock import BINARY, is_at, locked, sync_name
from gapless.privacy.ledger_file import Entry
from gapless.privacy.private import Released

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger

LARGEST = 4 << 30  # bytes: it holds all that a run has released
_KINDS = "iufb"  # of numpy's types, those of numbers
_TYPE = re.compile(r"[<>=|][iufb]\d{1,2}")  # of the numbers that an answer is made of
_BEGUN = "the call it was begun with, on the same machine; or another file, and what is left of the budget"


@dataclass(slots=True)
class Asked:
    """A batch that was asked for: its content is what the ledger's entries say."""

    content: dict[str, Any]
    after: int  # entries of the ledger at that time
    until: int | None = None  # and when the run asked for something again: its charge lies between
    answers: dict[int, Any] = field(default_factory=dict)  # by the number of the entry that paid

    def paid_by(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that paid; none if the charge was not made."""
        wanted = [(self.content["to"], self.content["noise"], *map(_plain, one)) for one in self.content["requests"]]
        many, end = len(wanted), len(entries) if self.until is None else self.until
        for start in range(self.after, end - many + 1):
            found = entries[start : start + many]
            answered = set(self.answers) <= {entry.number for entry in found}  # another process may ask for the same
            charged = all(entry.batch == found[0].number for entry in found)  # at once, as it was asked for
            if answered and charged and [_told(entry) for entry in found] == wanted:
                return list(found)
        return []


def _told(entry: Entry) -> tuple[Any, ...]:
    told = (entry.what, entry.mechanism, entry.distance, entry.reads, entry.loss)
    return (entry.to, entry.noise, *map(_plain, told))


def _plain(value: Any) -> str:
    """A value as JSON has it, for comparison."""
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Past:
    """A batch that was charged in an earlier run: its entries, and the answers that were kept."""

    numbers: list[int]
    answers: Mapping[int, Any]


class JournalFile:
    """The file of a journal, which this process holds: every other one waits for it. `held` opens it."""

    def __init__(self, descriptor: int, path: Path, real: Path) -> None:
        self.path = path  # as it was called
        self._real = real
        self._descriptor = descriptor
        self._open = True

    def read(self) -> bytes:
        """All that is in it."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        with open(self._descriptor, "rb", closefd=False) as file:
            try:
                return take_up_to(file, LARGEST)
            except ValueError:
                raise ReadError(
                    f"{self.path} is larger than {LARGEST >> 30} GB", hint="use a separate file for each run"
                ) from None

    def cut(self, end: int) -> None:
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
            with suppress(OSError):
                self.cut(end)  # lines after half a line would not be found again
            if not isinstance(error, OSError):
                raise
            raise ReadError(
                f"cannot write {self.path}: {error.strerror}",
                hint="free space on the disk; what was charged stays spent",
            ) from None

    def discard(self) -> None:
        """Delete it, unless its name is that of another file by now. Nothing more is written."""
        if self._open and is_at(self._descriptor, self._real):
            self._real.unlink()
        self._open = False

    def close(self) -> None:
        """Write nothing more; a file in which nothing was written goes."""
        if self._open and os.fstat(self._descriptor).st_size == 0:
            self.discard()
        self._open = False  # the number of its descriptor may soon be that of another file

    def check_open(self) -> None:
        """Refuse to go on after the run: what was paid for could not be kept."""
        if not self._open:
            raise ReadError(
                f"cannot write {self.path}: the run that it was kept for has ended", hint="begin a new run for this"
            )


@contextmanager
def held(path: str | Path) -> Iterator[JournalFile]:
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
    """One run's questions and answers, in their order; `resumable` opens it."""

    def __init__(self, file: JournalFile, ledger: Ledger, call: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self._file = file
        head = {"gapless": "journal", "version": 1, "ledger": ledger.identity, "call": dict(call)}
        lines = _lines(file, head)
        ledger.refresh()  # another process may have paid, while this one waited, for what is in the journal
        try:
            self._events = _events(lines[1:])
        except (ValueError, TypeError, LookupError, OverflowError):
            raise ReadError(f"{file.path} was changed", hint=_BEGUN) from None
        self._place = 0
        self._unwritten = [] if lines else [head]  # what says nothing before there is a charge
        self._then: tuple[int, Ledger] = (-1, ledger)

    @property
    def begun(self) -> bool:
        """Whether an earlier run has asked for anything."""
        return bool(self._events)

    @property
    def spend(self) -> Loss | None:
        """What the earlier run was begun with; None if there was none."""
        first = self._events[0] if self._events else None
        return Loss(first[1], self.ledger.order) if isinstance(first, tuple) else None

    @property
    def _next(self) -> Asked | tuple[str, float] | None:
        return self._events[self._place] if self._place < len(self._events) else None

    def books(self, now: Ledger) -> Ledger:
        """The account as it stood when what comes next was asked for: prices follow from it. As it is `now`, if new."""
        known = self._next
        if not isinstance(known, Asked):
            return now
        if self._then[0] != known.after:
            self._then = known.after, self.ledger._as_of(known.after)  # noqa: SLF001 one account
        return self._then[1]

    def granted(self, to: str) -> Loss | None:
        """What was granted at this place in an earlier run; None if there was none."""
        known = self._next
        if known is None:
            return None
        if isinstance(known, Asked) or known[0] != to:
            raise self._another()
        self._place += 1
        return Loss(known[1], self.ledger.order)

    def grant(self, to: str, spend: Loss) -> None:
        """Write down what is granted, with the first charge."""
        self._unwritten.append({"grant": to, "spend": spend.value})

    def lost(self, to: str) -> Loss | None:
        """What a batch without any answer has cost, if one of this grant comes next: it is passed over."""
        known = self._next
        if not isinstance(known, Asked) or known.answers or known.content["to"] != to:
            return None
        paid, books = known.paid_by(self.ledger.entries), self.books(self.ledger)
        self._place += 1
        charges = [
            (Loss(entry.loss, books.order), None if entry.reads is None else frozenset(entry.reads)) for entry in paid
        ]
        return books._price(charges)  # noqa: SLF001 one account

    def asked(
        self,
        requests: Iterable[tuple[str, Mapping[str, Any], Mapping[str, float], list[str] | None, float]],
        **more: Any,
    ) -> Past | None:
        """How the same batch went in an earlier run; None, and it is written down, if it is new."""
        content = json.loads(json.dumps({**more, "requests": [list(request) for request in requests]}))
        known = self._next
        if known is None:
            self.ledger.refresh()
            self._write([{"asked": content, "after": len(self.ledger.entries)}])
            return None
        if not isinstance(known, Asked) or known.content != content:
            raise self._another()
        self._place += 1
        paid = [entry.number for entry in known.paid_by(self.ledger.entries)]
        if not paid:
            raise ReadError(f"{self._file.path} has answers that the ledger does not know", hint=_BEGUN)
        return Past(paid, known.answers)

    def keep(self, answers: Iterable[Released[Any]]) -> None:
        """Write answers down, before they are handed out."""
        self._write([{"entry": answer.entry, "value": _packed(answer.value)} for answer in answers])

    def check_open(self) -> None:
        """Refuse a run that has ended, before anything is read whose answer could not be kept."""
        self._file.check_open()

    def discard(self) -> None:
        """Delete it: what it was kept for is there. Whatever is still asked for is refused, before its charge."""
        self._file.discard()

    def _another(self) -> ReadError:
        return ReadError(f"{self._file.path} was begun by a run that asked for something else", hint=_BEGUN)

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in [*self._unwritten, *lines])
        self._file.append(text.encode())
        self._unwritten = []


_journal: ContextVar[Journal | None] = ContextVar("gapless.journal", default=None)


def journal_of(ledger: Ledger) -> Journal | None:
    """The journal in which releases under this ledger are kept, if there is one."""
    journal = _journal.get()
    return journal if journal is not None and journal.ledger.identity == ledger.identity else None


@contextmanager
def resumable(ledger: Ledger, path: str | Path, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """Keep what is released inside the `with` block, so that the same block can be run again after a crash.

    The same fit on the same table then resumes where it was stopped, with the `spend` it was begun with, and pays only
    for what it had not released. What was charged and not yet answered, such as a training in the middle, is spent, and
    charged again when it is read. While one process is at it, another one waits.

    Args:
        ledger: of the table that is released from.
        path: the journal, a file of its own for each run; it holds released values only. Delete it when you have what
            you wanted: as long as it is there, the same block gives the same result for free.
        call: what the run was asked for, if it should be compared.
    """
    with held(path) as file, recording(file, ledger, call=call) as journal:
        yield journal


@contextmanager
def recording(file: JournalFile, ledger: Ledger, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """The same in a file that is held already, and longer than the run."""
    journal = Journal(file, ledger, call or {})
    token = _journal.set(journal)
    try:
        yield journal
    finally:
        _journal.reset(token)


def _lines(file: JournalFile, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The whole lines of a journal; half a line that a crash left is cut off: its answer was handed to nobody.

    A file that is not this journal is refused, and left as it is.
    """
    text = file.read()
    lines, end = [], 0
    for line in io.BytesIO(text):
        try:
            content = parse_json(line) if line.endswith(b"\n") else None
        except ValueError:
            break
        if not isinstance(content, dict):
            break
        lines.append(content)
        end += len(line)
    written = json.dumps(head)
    if lines and lines[0].get("gapless") == "journal" and lines[0] != json.loads(written):
        raise ReadError(f"{file.path} was begun under another ledger, or by another call", hint=_BEGUN)
    half = written.encode().startswith(text.rstrip(b"\0"))  # of the first line; or zeros, after a power failure
    if lines[:1] != [json.loads(written)] and not half:
        raise ReadError(f"{file.path} is no journal", hint="a file of its own for each run")
    file.cut(end)
    return lines


def _events(lines: Iterable[Mapping[str, Any]]) -> list[Asked | tuple[str, float]]:
    events: list[Asked | tuple[str, float]] = []
    batches: list[Asked] = []
    for line in lines:
        if "grant" in line:
            events.append((str(line["grant"]), float(line["spend"])))
        elif "asked" in line:
            asked = Asked(dict(line["asked"]), int(line["after"]))
            if batches:
                batches[-1].until = asked.after
            batches.append(asked)
            events.append(asked)
        else:
            number = int(line["entry"])
            answered = [asked for asked in batches if asked.after < number][-1]
            answered.answers[number] = _unpacked(line["value"])
    return events


def _packed(value: Any) -> Any:
    """A released value as JSON: a number or an array of numbers, which every mechanism answers with."""
    if type(value) in (int, float):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        return {"type": value.dtype.str, "number": value.item()}
    if type(value) is np.ndarray and value.dtype.kind in _KINDS:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"type": value.dtype.str, "shape": list(value.shape), "data": data}
    raise TypeError(f"an answer that is a {type(value).__name__} cannot be kept: mechanisms answer with numbers")


def _unpacked(value: Any) -> Any:
    """The released value that a line holds.

    Raises:
        ValueError: It is none that `_packed` makes.
    """
    if type(value) in (int, float):
        return value
    kind = np.dtype(_TYPE.fullmatch(value["type"])[0])  # type: ignore[index] # None is a TypeError, which is refused
    if "number" in value:
        return kind.type(value["number"])
    array = np.frombuffer(base64.b64decode(value["data"], validate=True), dtype=kind)
    return array.reshape(value["shape"]).copy()
