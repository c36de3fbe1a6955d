"""The journal of a run: what was asked and what came out, so that a stopped run goes on and pays nothing twice.

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
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gapless.errors import ReadError
from gapless.parsing import parse_json, take_up_to
from gapless.privacy.budget import Loss
from gapless.privacy.ledger_file import _BINARY, Entry, _lock, _unlock
from gapless.privacy.private import Released

if TYPE_CHECKING:
    from gapless.privacy.ledger import Ledger

LARGEST = 4 << 30  # bytes: it holds all that a run has released
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


class Journal:
    """One run's questions and answers, in their order; `resumable` opens it."""

    def __init__(self, descriptor: int, path: Path, ledger: Ledger, call: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self._path = path
        self._descriptor = descriptor
        head = {"gapless": "journal", "version": 1, "ledger": ledger.identity, "call": dict(call)}
        lines = _lines(descriptor, path, head)
        ledger.refresh()  # another process may have paid, while this one waited, for what is in the journal
        try:
            self._events = _events(lines[1:])
        except (ValueError, TypeError, LookupError, OverflowError):
            raise ReadError(f"{path} was changed", hint=_BEGUN) from None
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
            raise ReadError(f"{self._path} has answers that the ledger does not know", hint=_BEGUN)
        return Past(paid, known.answers)

    def keep(self, answers: Iterable[Released[Any]]) -> None:
        """Write answers down, before they are handed out; what is not made of numbers is not kept."""
        written = [(answer.entry, _packed(answer.value)) for answer in answers]
        self._write([{"entry": number, "value": value} for number, value in written if value is not None])

    def discard(self) -> None:
        """Delete it: what it was kept for is there."""
        self._path.unlink(missing_ok=True)

    def closed(self) -> None:
        """Write nothing more: whoever still holds a grant of the run is refused, before its charge."""
        self._descriptor = -1  # its number may soon be that of another file

    def _another(self) -> ReadError:
        return ReadError(f"{self._path} was begun by a run that asked for something else", hint=_BEGUN)

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in [*self._unwritten, *lines])
        data = text.encode()
        try:
            os.lseek(self._descriptor, 0, os.SEEK_END)
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise ReadError(
                f"cannot write {self._path}: {error.strerror}", hint="free space; what was charged stays spent"
            ) from None
        self._unwritten = []


_journal: ContextVar[Journal | None] = ContextVar("gapless.journal", default=None)


def journal_of(ledger: Ledger) -> Journal | None:
    """The journal in which releases under this ledger are kept, if there is one."""
    journal = _journal.get()
    return journal if journal is not None and journal.ledger.identity == ledger.identity else None


@contextmanager
def resumable(ledger: Ledger, path: str | Path, *, call: Mapping[str, Any] | None = None) -> Iterator[Journal]:
    """Keep what is released inside the `with` block, so that the same block can be run again after a crash.

    The same fit on the same table then goes on where it was stopped, with the `spend` it was begun with, and pays only
    for what it had not released. While one process is at it, another one waits.

    Args:
        ledger: of the table that is released from.
        path: the journal, a file of its own for each run; it holds released values only. Delete it when you have what
            you wanted: as long as it is there, the same block gives the same result for free.
        call: what the run was asked for, if it should be compared.
    """
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
    except OSError as error:
        raise ReadError(f"cannot open {path}: {error.strerror}", hint="a file in a folder that is yours") from None
    journal = token = None
    try:
        _lock(descriptor)
        journal = Journal(descriptor, path, ledger, call or {})
        token = _journal.set(journal)
        yield journal
    finally:
        if token is not None:
            _journal.reset(token)
        if journal is not None:
            journal.closed()
        if os.fstat(descriptor).st_size == 0:
            path.unlink(missing_ok=True)
        _unlock(descriptor)
        os.close(descriptor)


def _lines(descriptor: int, path: Path, head: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The whole lines of a journal; half a line that a crash left is cut off: its answer was handed to nobody.

    A file that is not this journal is refused, and left as it is.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        try:
            text = take_up_to(file, LARGEST)
        except ValueError:
            raise ReadError(
                f"{path} is larger than {LARGEST >> 30} GB", hint="use a separate file for each run"
            ) from None
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
        raise ReadError(f"{path} was begun under another ledger, or by another call", hint=_BEGUN)
    half = written.encode().startswith(text.rstrip(b"\0"))  # of the first line; or zeros, after a power failure
    if lines[:1] != [json.loads(written)] and not half:
        raise ReadError(f"{path} is no journal", hint="a file of its own for each run")
    os.ftruncate(descriptor, end)
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
    """A released value as JSON; None for what is not made of numbers."""
    if type(value) in (int, float):
        return value
    if isinstance(value, np.generic):
        return {"type": value.dtype.str, "number": value.item()} if value.dtype.kind in "iufb" else None
    if type(value) is np.ndarray and value.dtype.kind in "iufb":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"type": value.dtype.str, "shape": list(value.shape), "data": data}
    return None


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
