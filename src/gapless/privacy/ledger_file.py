"""The file of a ledger: JSON lines, chained by hashes, with a seal beside it and a lock on it.

The first line names the table, the protected unit, the budget and what counts as a gap in each column, and has a
random identity; each further line is one entry. Every line carries the SHA-256 of the line before it, so nothing in
the middle can be changed unseen. Beside the file lies a *seal*
(`people.ledger.seal`): it holds the last text appended and the place where it begins, written and flushed before the
ledger itself is. So

- a crash between the two is completed on the next opening: the entry counts as spent;
- a ledger shorter than its seal says has lost entries, and is refused;
- two processes on one ledger take turns, and each sees what the other spent before it may spend. A process reads what
  is new, and the last line it knows, which must still be there.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.errors import Argument, BudgetError, Hint, LedgerError, ReadError, SchemaError
from gapless.files import BINARY, MEGABYTE, locked, parse_json, read_limited, read_rest, sync_name
from gapless.privacy.assumptions import from_dict, to_dict
from gapless.privacy.budget import PURE, ROUNDING, Budget, Rows
from gapless.privacy.noise import SYSTEM
from gapless.privacy.registry import UNKNOWN_MECHANISM
from gapless.types import GapRule

if TYPE_CHECKING:
    from gapless.privacy.pricing import Price

VERSION = 4
WITHOUT_FIRST_BATCH = 3  # an earlier version: whoever wrote it does not know that a first batch may be priced together
WITHOUT_GAPS = (1, 2)  # earlier versions, without and with a filter for the ground truth: they do not say what a gap is
MAX_BYTES = 256 * MEGABYTE  # of a ledger: half a million entries
MIN_LINE_BYTES = 64  # bytes of a line: it carries a hash
RESTORE_HINT = "restore the ledger and its .seal together from a backup of the same moment; never start a new one"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: who paid how much for what.

    `reads` is the set of columns on which a row must be observed to be read at all (None: every row). All
    entries of one `batch` were charged at once, before the first of them was read. If they were priced `together`, as
    one mechanism, their losses add up to its price, and each alone says nothing (docs/proofs/first_batch.md). `run` is
    the random token of the resumable run that charged it, if it is one (docs/proofs/ledger.md, section 9).
    """

    loss: float
    number: int
    batch: int
    to: str
    what: str
    mechanism: dict[str, Any]
    distance: dict[str, float]
    reads: list[str] | None
    noise: str
    time: str
    together: bool = False
    run: str | None = None

    def content(self) -> dict[str, Any]:
        """The entry by names; `together` and `run` only where they say something."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in content.items() if name not in ("together", "run") or value}

    def line(self, previous: str) -> str:
        """The entry as text; the loss stands first, so that even half a line tells it."""
        return json.dumps(self.content() | {"previous": previous}, allow_nan=False) + "\n"

    def copy(self) -> Entry:
        """The same entry; what is done to it is done to nobody else's."""
        reads = None if self.reads is None else list(self.reads)
        return replace(self, mechanism=dict(self.mechanism), distance=dict(self.distance), reads=reads)


def parse_entry(line: str, *, number: int, after: str) -> Entry:
    """The entry in a line, which must have this number and carry the hash of the line before it.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: It is no such line.
    """
    content = parse_json(line)
    previous = content.pop("previous")
    entry = Entry(**content)
    texts = [entry.to, entry.what, entry.noise, entry.time, *(entry.reads or ()), entry.run or ""]
    well_formed = (
        all(isinstance(text, str) for text in texts)
        and not isinstance(entry.reads, str)
        and isinstance(entry.together, bool)
        and not (entry.mechanism == UNKNOWN_MECHANISM and entry.reads is not None)  # nobody knows which rows it read
    )
    if not (well_formed and previous == after and entry.number == number and 0 <= entry.loss < math.inf):
        raise ValueError("the line is not the next entry")
    return entry


def entries_of(price: Price, *, to: str, noise_name: str) -> list[Entry]:
    """The entries of priced releases, without their numbers: the charge gives them."""
    return [
        Entry(
            loss=loss.value,
            number=0,
            batch=0,
            to=to,
            what=request.what,
            mechanism=request.mechanism.parameters(),
            distance={type(request.distance).__name__: request.distance.at_most},
            reads=None if request.reads is None else sorted(request.reads),
            noise=noise_name,
            time=today(),
            together=price.together,
        )
        for request, loss in zip(price.requests, price.losses, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far a process has seen a ledger: the last line it took in, by its place and its hash."""

    begin: int = 0
    end: int = 0
    last: str = ""

    def after(self, line: str) -> ReadPosition:
        """One line further."""
        return ReadPosition(self.end, self.end + len(line.encode()), hash_of(line))


def seal_of(path: Path) -> Path:
    """The file beside a ledger that holds its last write and its lock."""
    return path.with_name(path.name + ".seal")


def check_not_deleted(path: Path) -> None:
    """Refuse a path where only the seal is left: a ledger was there, and is never begun anew.

    The seal is looked for first: whoever makes a ledger makes the file before its seal.
    """
    path = path.resolve()
    if seal_of(path).exists() and not path.exists():
        raise LedgerError(f"{path} has lost its entries: only its seal is there", hint=RESTORE_HINT)


def new_header(table: str, protect: Rows, budget: Budget, gaps: Mapping[str, GapRule]) -> dict[str, Any]:
    """The first line of a new ledger."""
    capacity = budget.capacity
    filtered = {} if budget.ground_truth is None else {"ground_truth": to_dict(budget.ground_truth)}
    return {
        "gapless": "ledger",
        "version": VERSION,
        "identity": secrets.token_hex(16),
        "table": table,
        "rows_per_person": protect.at_most,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "order": None if capacity.order == PURE else capacity.order,
        "capacity": capacity.value,
        "time": today(),
        "gaps": {column: rule.to_dict() for column, rule in gaps.items()},
    } | filtered


def identity_of(header: Mapping[str, Any]) -> str:
    """What tells a ledger from any other: random, or for one of an earlier gapless its first line."""
    return str(header.get("identity") or hash_of(json.dumps(dict(header)) + "\n"))


def gaps_of(header: Mapping[str, Any]) -> dict[str, GapRule] | None:
    """What counts as a gap in each column, as a header states it; None if it is of a version that did not say."""
    if header["version"] in WITHOUT_GAPS:
        return None
    rules = {column: GapRule.from_dict(rule) for column, rule in header["gaps"].items()}
    if not all(isinstance(text, str) for rule in rules.values() for text in (rule.description, rule.digest)):
        raise ValueError("a rule for gaps is not made of texts")
    return rules


def budget_of(header: Mapping[str, Any]) -> Budget:
    """The promise that a header states."""
    assumed = header.get("ground_truth")
    return Budget(header["epsilon"], header["delta"], ground_truth=None if assumed is None else from_dict(assumed))


def today() -> str:
    """Only the day: the time between two entries would tell how long counting took, and so how many rows there are."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def hash_of(line: str) -> str:
    """What the next line must carry."""
    return hashlib.sha256(line.encode()).hexdigest()


def split_lines(text: bytes) -> list[str]:
    """The whole lines of a ledger's bytes; of lines that are too short to be entries only the first."""
    if text.count(b"\n") > 1 + len(text) // MIN_LINE_BYTES:
        text = text[: text.index(b"\n") + 1] + b"not an entry\n"
    return [line.decode("utf-8", "replace") + "\n" for line in text.split(b"\n")[:-1]]


@contextlib.contextmanager
def locked_ledger(path: Path) -> Iterator[Callable[[ReadPosition], list[str]]]:
    """Hold the ledger; gives what reads the lines that are new, and completes what a crash left half done."""
    path = path.resolve()  # a link must not get a seal of its own
    try:
        with _lock_ledger(path) as descriptor:
            yield lambda seen: split_lines(_finish_write_and_read(path, descriptor, seen))
    except OSError as error:
        raise LedgerError(
            f"cannot read or write the ledger {path}: {error.strerror}",
            hint="free space, and a file and folder that are yours; nothing was read from the table",
        ) from None


@contextlib.contextmanager
def _lock_ledger(path: Path) -> Iterator[int]:
    """Hold the ledger file itself, under whatever name, against every other process and thread."""
    check_not_deleted(path)
    descriptor = _open_or_create(path)
    with locked(descriptor, path) as there:
        if not there:  # replaced while we waited
            raise LedgerError(f"{path} was replaced by another file", hint=RESTORE_HINT)
        yield descriptor


def _open_or_create(path: Path) -> int:
    """Open anew each time, since a fork must not share a lock; a ledger that may only be read is locked as well."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    except OSError as error:
        why = error
    if path.exists() and why.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY | BINARY)
    raise LedgerError(
        f"cannot open the ledger {path}: {why.strerror}",
        hint="ask whoever keeps it for the right to write: a table has one ledger"
        if path.exists()
        else Hint("pass a path in a folder that is yours as ", Argument("ledger"), ", and always the same one"),
    )


def _write_and_sync(path: Path, offset: int, data: bytes) -> None:
    """Put data at a place in a file and flush it through to the disk."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append(path: Path, offset: int, text: str) -> None:
    """First the seal, then the ledger: whatever happens in between, nothing is forgotten."""
    if offset + len(text.encode()) > MAX_BYTES:
        raise LedgerError(
            f"{path} would have more than {MAX_BYTES // MEGABYTE} MB", hint="use the releases that were paid for"
        )
    seal = json.dumps({"at": offset, "text": text}, ensure_ascii=False)
    _write_and_sync(seal_of(path), 0, seal.encode())
    _write_and_sync(path, offset, text.encode())
    if offset == 0:
        sync_name(path)


def _finish_write_and_read(path: Path, descriptor: int, seen: ReadPosition) -> bytes:
    """What follows the last line that was seen, read once; before, what a crash left half done is finished.

    Refuses a ledger that is shorter than its seal says, and one in which the line last seen is not where it was: lines
    are chained, so another ledger, or another past of the same one, differs there.
    """
    sealed = _read_seal(path)
    begin = seen.begin if sealed is None else min(seen.begin, sealed[0])
    text = _read_from(descriptor, begin)
    if seen.end and hashlib.sha256(text[seen.begin - begin : seen.end - begin]).hexdigest() != seen.last:
        raise LedgerError(f"{path} is no longer the ledger that was opened, or has lost entries", hint=RESTORE_HINT)
    if sealed is None:  # none, or one that a crash left unfinished: then the ledger itself was not being written
        if text and not text.endswith(b"\n"):
            _recover_fragment(path, _read_from(descriptor, 0))
            text = _read_from(descriptor, begin)
        return text[seen.end - begin :]
    at, tail = sealed
    if begin + len(text) < at:
        raise LedgerError(f"{path} has lost entries: it is shorter than its seal says", hint=RESTORE_HINT)
    written = text[at - begin :].rstrip(b"\0")  # a power failure can leave zeros where data should be
    if not (written.startswith(tail) or tail.startswith(written)):
        raise LedgerError(f"{path} was changed in its last entry", hint=RESTORE_HINT)
    if len(written) < len(tail):
        _write_and_sync(path, at, tail)
        text = text[: at - begin] + tail
    return text[seen.end - begin :]


def _read_seal(path: Path) -> tuple[int, bytes] | None:
    """Where the last text appended begins, and that text; None if there is no seal that tells."""
    try:
        seal = parse_json(read_limited(seal_of(path), MAX_BYTES))
        at, tail = int(seal["at"]), str(seal["text"]).encode()
    except (OSError, ReadError, ValueError, KeyError, TypeError):
        return None
    return (at, tail) if at >= 0 else None


def _read_from(descriptor: int, begin: int) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(begin)
        try:
            return read_rest(file, MAX_BYTES)
        except ValueError:
            hint = "pass the path of a ledger file"
            raise LedgerError(f"the ledger is larger than {MAX_BYTES // MEGABYTE} MB", hint=hint) from None


def _recover_fragment(path: Path, text: bytes) -> None:
    """Turn a half-written last line whose seal is gone into an entry that counts as spent."""
    whole, _, fragment = text.rpartition(b"\n")
    if not whole:
        raise LedgerError(f"{path} is not a gapless ledger", hint="the path of a ledger file")
    lines = split_lines(whole + b"\n")
    header = parse_header(path, lines[0])
    try:
        spent = math.fsum(float(parse_json(line)["loss"]) for line in lines[1:])
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{path} was changed", hint=RESTORE_HINT) from None
    # Entries priced together have no loss of their own: where some may be lost, all that was left counts as spent.
    # Half of a first line does not tell whether it is one of them.
    together = '"together": true' in lines[-1]
    alone = not together and (len(lines) > 1 or header["order"] is None)
    told = None if not alone else re.match(rb'\{"loss": ([0-9.e+-]+),', fragment)
    left = header["capacity"] - (0.0 if "ground_truth" in header else spent)  # a filter does not stop at the sum
    loss = float(told[1]) if told else max(0.0, left)  # not even that: all that was left
    entry = Entry(
        loss=loss,
        number=len(lines),
        batch=1 if together else len(lines),
        to="recovered after a crash",
        what="a half-written entry, counted as spent",
        mechanism=UNKNOWN_MECHANISM,
        distance={"Linf": 0.0},
        reads=None,
        noise=SYSTEM,
        time=today(),
        together=together,
    )
    _write_and_sync(path, len(whole) + 1, entry.line(hash_of(lines[-1])).encode())


def parse_header(path: Path, line: str) -> dict[str, Any]:
    """The first line of a ledger, checked."""
    try:
        header = parse_json(line)
        version = header["version"]
        if header["gapless"] != "ledger":
            raise ValueError  # noqa: TRY301 one message for every foreign file
        if version > VERSION:
            raise LedgerError(f"{path} is of version {version}", hint="a newer gapless")
        budget, _ = budget_of(header), gaps_of(header)
        Rows(header["rows_per_person"])
        order = PURE if header["order"] is None else header["order"]
        honest = (
            order > 1
            and (order == PURE) == (budget.delta == 0)
            and 0 < header["capacity"] <= budget.largest_loss(order) * (1 - ROUNDING / 2)
        )
        earlier = WITHOUT_GAPS[budget.ground_truth is not None]
        texts = [header["table"]] if version == earlier else [header["table"], header["identity"]]
        if not (
            honest
            and version in (VERSION, WITHOUT_FIRST_BATCH, earlier)
            and all(isinstance(text, str) for text in texts)
        ):
            raise ValueError  # noqa: TRY301 one message for every foreign file
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, BudgetError, SchemaError):
        raise LedgerError(f"{path} is not a gapless ledger", hint="the path of a ledger file") from None
    checked: dict[str, Any] = header
    return checked


def identity_at(path: Path) -> str | None:
    """The identity of the ledger at a path; None if there is none, or not yet."""
    if not path.is_file():
        return None
    with locked_ledger(path) as lines_after:
        lines = lines_after(ReadPosition())
    return identity_of(parse_header(path, lines[0])) if lines else None
