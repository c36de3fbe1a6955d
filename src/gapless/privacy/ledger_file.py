"""The file of a ledger: JSON lines, chained by hashes, with a seal beside it and a lock on it.

The first line is the header: the table, the protected unit, the budget, the definition of a gap in each column, and a
random identity. Each further line is one entry. Every line holds the SHA-256 of the line before it, so a change in the
middle is noticed.

Beside the ledger is its *seal* (`people.ledger.seal`): the last text that was appended, and its position. The seal is
written and flushed before the ledger is written. So

- a crash between the two writes is completed on the next opening, and the entry counts as spent;
- a ledger that is shorter than its seal states has lost entries and is refused;
- two processes on one ledger take turns, and each reads the other's entries before it may spend. A process reads the
  new lines, and the last line it knows, which must still be there.

Proved in docs/proofs/ledger.md.
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
from gapless.files import BINARY, MEGABYTE, locked, parse_json, read_descriptor, read_limited, sync_name, write_and_sync
from gapless.privacy.assumptions import from_dict, to_dict
from gapless.privacy.budget import PURE, ROUNDING, Budget, Loss, Persons, Unit, unit_content, unit_from
from gapless.privacy.noise import SYSTEM
from gapless.privacy.private import Columns
from gapless.privacy.registry import UNKNOWN_MECHANISM, record_of
from gapless.types import GapRule, is_whole

if TYPE_CHECKING:
    from gapless.privacy.pricing import Price

VERSION = 4
MAX_BYTES = 256 * MEGABYTE  # half a million entries
MIN_LINE_BYTES = 64  # a line holds a hash
RESTORE_HINT = (
    "restore the ledger and its .seal together from a backup made after the last release; without one, release nothing "
    "more from this table"
)
NOT_WRITTEN_HINT = "report this error of gapless; the ledger is intact, nothing was written and nothing was read"


_OPTIONAL = ("together", "run", "kept_rows")  # fields of an entry


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger: a release and its loss.

    Attributes:
        loss: the charged loss. Losses of entries priced `together` add up to the price of their batch.
        number, batch: its number, and that of the first entry of its batch. A batch is charged before its first read.
        to, what: who released it, and for which purpose.
        mechanism, distance: the parameters from which the loss is computed again.
        reads: the columns on which a row must be observed to be read at all; None if every row is read.
        noise: the source of the noise.
        time: the date.
        together: whether the batch was priced as one mechanism (docs/proofs/first_batch.md).
        run: the random token of the resumable run that charged it, if any (docs/proofs/ledger.md, section 9).
        kept_rows: the most rows of a person that were kept when the table was read; None under a ledger of `Rows`.
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
    kept_rows: int | None = None

    def content(self) -> dict[str, Any]:
        """The fields of the entry; `together`, `run` and `kept_rows` only if they are set."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in content.items() if name not in _OPTIONAL or value}

    @property
    def reads_set(self) -> Columns | None:
        """`reads` as a set; None if every row is read."""
        return None if self.reads is None else frozenset(self.reads)

    def line(self, previous: str) -> str:
        """The entry as a line of JSON. The loss comes first, so that it can be read from half a line."""
        return json.dumps(self.content() | {"previous": previous}, allow_nan=False) + "\n"

    def copy(self) -> Entry:
        """A copy that shares no mutable field with this entry."""
        reads = None if self.reads is None else list(self.reads)
        return replace(self, mechanism=dict(self.mechanism), distance=dict(self.distance), reads=reads)


def parse_entry(line: str, *, number: int, previous_hash: str) -> Entry:
    """The entry in a line, which must have this number and hold the hash of the line before it.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: The line is not such an entry.
    """
    content = parse_json(line)
    previous = content.pop("previous")
    entry = Entry(**content)
    texts = [entry.to, entry.what, entry.noise, entry.time, *(entry.reads or ()), entry.run or ""]
    well_formed = (
        all(isinstance(text, str) for text in texts)
        and (entry.reads is None or isinstance(entry.reads, list))
        and (entry.run is None or isinstance(entry.run, str))
        and isinstance(entry.together, bool)
        and (entry.kept_rows is None or is_whole(entry.kept_rows, least=1))
        and not (entry.mechanism == UNKNOWN_MECHANISM and entry.reads is not None)  # its columns are unknown
    )
    if not (well_formed and previous == previous_hash and entry.number == number and 0 <= entry.loss < math.inf):
        raise ValueError("the line is not the next entry")
    return entry


def entries_of(price: Price, *, to: str, noise_name: str, kept_rows: int | None = None) -> list[Entry]:
    """The entries of priced releases. `Ledger.charge` assigns their numbers."""
    return [
        Entry(
            loss=loss.value,
            number=0,
            batch=0,
            to=to,
            what=request.what,
            mechanism=request.mechanism.parameters(),
            distance=record_of(request.distance),
            reads=None if request.reads is None else sorted(request.reads),
            noise=noise_name,
            time=today(),
            together=price.together,
            kept_rows=kept_rows,
        )
        for request, loss in zip(price.requests, price.losses, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far a process has read a ledger: the position and the hash of the last line it knows."""

    begin_offset: int = 0
    end_offset: int = 0
    last_hash: str = ""

    def after(self, line: str) -> ReadPosition:
        """The position after another line."""
        return ReadPosition(self.end_offset, self.end_offset + len(line.encode()), hash_of(line))


def seal_of(path: Path) -> Path:
    """The seal of a ledger: the file beside it that holds its last write."""
    return path.with_name(path.name + ".seal")


def check_not_deleted(path: Path) -> None:
    """Refuse a path where only the seal exists: the ledger was deleted and must not be started again.

    The seal is looked for first, since a new ledger is created before its seal.
    """
    path = path.resolve()
    if _exists(seal_of(path)) and not path.exists():
        raise LedgerError(f"{path} is gone: only its seal, {seal_of(path).name}, is there", hint=RESTORE_HINT)


def _exists(path: Path) -> bool:
    """Whether a file exists; refuses a path that cannot be looked up, such as one with too long a name."""
    try:
        return path.exists()
    except OSError as error:
        hint = Hint("pass a shorter name as ", Argument("ledger"))
        if error.errno != errno.ENAMETOOLONG:
            hint = Hint("pass a path in a folder that you can read and write as ", Argument("ledger"))
        raise LedgerError(f"cannot look up the file {path}: {error.strerror}", hint=hint) from None


def new_header(table: str, protect: Unit, budget: Budget, gaps: Mapping[str, GapRule]) -> dict[str, Any]:
    """The header of a new ledger."""
    if budget.ground_truth is not None and isinstance(protect, Persons):
        raise BudgetError(
            "a budget with ground_truth cannot protect persons: which rows of a person are kept depends on their gaps",
            hint=Hint("leave out ", Argument("ground_truth")),
        )
    capacity = budget.capacity
    assumed = {} if budget.ground_truth is None else {"ground_truth": to_dict(budget.ground_truth)}
    return {
        "gapless": "ledger",
        "version": VERSION,
        "identity": secrets.token_hex(16),
        "table": table,
        **unit_content(protect),
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "order": None if capacity.order == PURE else capacity.order,
        "capacity": capacity.value,
        "time": today(),
        "gaps": {column: rule.to_dict() for column, rule in gaps.items()},
    } | assumed


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line of a ledger states.

    Attributes:
        identity: random.
        table: the name of the table.
        protect: the protected unit. Of `Persons` only the id is binding: each entry states its own `kept_rows`.
        capacity: the whole budget as a loss, with its Rényi order.
        gaps: the definition of a gap in each column.
        content: the parsed line.
    """

    identity: str
    table: str
    protect: Unit
    capacity: Loss
    gaps: Mapping[str, GapRule]
    content: Mapping[str, Any]

    @property
    def budget(self) -> Budget:
        """The budget; a new object each time, since a caller could change the rates of its assumption."""
        assumed = self.content.get("ground_truth")
        ground_truth = None if assumed is None else from_dict(assumed)
        return Budget(self.content["epsilon"], self.content["delta"], ground_truth=ground_truth)


def today() -> str:
    """The date, without the time: the time between two entries would reveal the number of rows."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def hash_of(line: str) -> str:
    """The hash of a line, which the next line must hold."""
    return hashlib.sha256(line.encode()).hexdigest()


def split_lines(text: bytes) -> list[str]:
    """The whole lines of a ledger. If most are too short to be entries, only the first is kept, to save memory."""
    if text.count(b"\n") > 1 + len(text) // MIN_LINE_BYTES:
        text = text[: text.index(b"\n") + 1] + b"not an entry\n"
    return [line.decode("utf-8", "replace") + "\n" for line in text.split(b"\n")[:-1]]


@contextlib.contextmanager
def locked_ledger(path: Path) -> Iterator[Callable[[ReadPosition], list[str]]]:
    """Lock a ledger against every other process and thread; yields the function that reads its new lines."""
    path = path.resolve()  # a link must not get a separate seal
    try:
        check_not_deleted(path)
        descriptor = _open_or_create(path)
        with locked(descriptor, path) as is_there:
            if not is_there:  # it was replaced while we waited for the lock
                raise LedgerError(f"{path} was replaced by another file", hint=RESTORE_HINT)
            yield lambda seen: split_lines(_finish_write_and_read(path, descriptor, seen))
    except OSError as error:
        raise LedgerError(
            f"cannot read or write the ledger {path}: {error.strerror}",
            hint="check that the disk has space and that you can write to the file; nothing was read from the table",
        ) from None


def _open_or_create(path: Path) -> int:
    """Open a ledger for writing, or else for reading. It is opened each time, since a fork must not share a lock."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    except OSError as error:
        why = error
    if path.exists() and why.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY | BINARY)
    hint = Hint("pass a path in a folder that you can write to as ", Argument("ledger"), ", always the same one")
    if path.is_dir():
        hint = Hint("pass the name of a file as ", Argument("ledger"), ", not of a folder")
    elif path.exists():
        hint = Hint("ask its owner for permission to write; a table has only one ledger")
    raise LedgerError(f"cannot open the ledger {path}: {why.strerror}", hint=hint)


def _write_at(path: Path, offset: int, data: bytes) -> None:
    """Replace everything after a position in a file by data, and flush it to the disk."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        write_and_sync(descriptor, data)
    finally:
        os.close(descriptor)


def append(path: Path, offset: int, text: str) -> None:
    """Write the seal, then the ledger. After a crash in between, the text is completed from the seal."""
    if offset + len(text.encode()) > MAX_BYTES:
        wrong = f"{path} would exceed {MAX_BYTES // MEGABYTE} MB, so nothing more can be released"
        raise LedgerError(wrong, hint="use what was released before")
    seal = json.dumps({"at": offset, "text": text}, ensure_ascii=False)
    _write_at(seal_of(path), 0, seal.encode())
    _write_at(path, offset, text.encode())
    if offset == 0:
        sync_name(path)


def _finish_write_and_read(path: Path, descriptor: int, seen: ReadPosition) -> bytes:
    """The bytes after the last line that was seen; first completes a write that a crash interrupted.

    Refuses a ledger that is shorter than its seal states. Also refuses one in which the last line seen is no longer at
    its place: lines are chained, so any other ledger, or another history of the same one, differs there.
    """
    sealed = _read_seal(path)
    begin = seen.begin_offset if sealed is None else min(seen.begin_offset, sealed[0])
    text = _read_from(descriptor, begin)
    if (
        seen.end_offset
        and hashlib.sha256(text[seen.begin_offset - begin : seen.end_offset - begin]).hexdigest() != seen.last_hash
    ):
        raise LedgerError(f"{path} is no longer the ledger that was opened, or has lost entries", hint=RESTORE_HINT)
    if sealed is None:  # no seal, or an unfinished one: then the ledger itself was not being written
        if text and not text.endswith(b"\n"):
            _recover_fragment(path, _read_from(descriptor, 0))
            text = _read_from(descriptor, begin)
        return text[seen.end_offset - begin :]
    at, tail = sealed
    if begin + len(text) < at:
        raise LedgerError(f"{path} has lost entries: it is shorter than its seal says", hint=RESTORE_HINT)
    written = text[at - begin :].rstrip(b"\0")  # a power failure can leave zeros where data should be
    if not (written.startswith(tail) or tail.startswith(written)):
        raise LedgerError(f"{path} was changed in its last entry", hint=RESTORE_HINT)
    if len(written) < len(tail):
        _write_at(path, at, tail)
        text = text[: at - begin] + tail
    return text[seen.end_offset - begin :]


def _read_seal(path: Path) -> tuple[int, bytes] | None:
    """The position and the text of the last write; None if there is no readable seal."""
    try:
        seal = parse_json(read_limited(seal_of(path), MAX_BYTES))
        at, tail = int(seal["at"]), str(seal["text"]).encode()
    except (OSError, ReadError, ValueError, KeyError, TypeError):
        return None
    return (at, tail) if at >= 0 else None


def _read_from(descriptor: int, begin: int) -> bytes:
    try:
        return read_descriptor(descriptor, MAX_BYTES, begin=begin)
    except ValueError:
        hint = "pass the path of a ledger file"
        raise LedgerError(f"the ledger is larger than {MAX_BYTES // MEGABYTE} MB", hint=hint) from None


def _recover_fragment(path: Path, text: bytes) -> None:
    """Turn a half-written last line whose seal is gone into an entry that counts as spent."""
    whole, _, fragment = text.rpartition(b"\n")
    if not whole:
        raise LedgerError(f"{path} is not a gapless ledger", hint="pass the path of a ledger file")
    lines = split_lines(whole + b"\n")
    header = parse_header(path, lines[0])
    try:
        spent = math.fsum(float(parse_json(line)["loss"]) for line in lines[1:])
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{path} was changed", hint=RESTORE_HINT) from None
    # An entry that was priced together has no loss alone, and half of a first line does not show whether it was. Where
    # the loss is not known, all that was left counts as spent.
    together = '"together": true' in lines[-1]
    is_alone = not together and (len(lines) > 1 or header.capacity.order == PURE)
    stated = re.match(rb'\{"loss": ([0-9.e+-]+),', fragment) if is_alone else None
    counted = 0.0 if "ground_truth" in header.content else spent  # that filter does not stop at the sum
    left = header.capacity.value - counted
    loss = float(stated[1]) if stated else max(0.0, left)
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
    _write_at(path, len(whole) + 1, entry.line(hash_of(lines[-1])).encode())


def parse_header(path: Path, line: str) -> Header:
    """The header in the first line of a ledger, checked."""
    try:
        content = parse_json(line)
        version = content["version"]
        if content["gapless"] != "ledger":
            raise ValueError  # noqa: TRY301 one message for every foreign file
        if type(version) is int and version != VERSION:
            raise LedgerError(
                f"{path} is a ledger of version {version}, and this gapless reads version {VERSION}",
                hint="install a newer gapless" if version > VERSION else "use the version of gapless that wrote it",
            )
        order = PURE if content["order"] is None else content["order"]
        header = Header(
            identity=content["identity"],
            table=content["table"],
            protect=unit_from(content),
            capacity=Loss(content["capacity"], order),
            gaps=_parse_gaps(content["gaps"]),
            content=content,
        )
        budget = header.budget
        is_valid = (
            order > 1
            and (order == PURE) == (budget.delta == 0)
            and 0 < header.capacity.value <= budget.largest_loss(order) * (1 - ROUNDING / 2)
        )
        has_texts = all(isinstance(text, str) for text in (header.table, header.identity))
        if not (is_valid and has_texts and version == VERSION):
            raise ValueError  # noqa: TRY301 one message for every foreign file
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, BudgetError, SchemaError):
        raise LedgerError(f"{path} is not a gapless ledger", hint="pass the path of a ledger file") from None
    return header


def _parse_gaps(content: Mapping[str, Any]) -> dict[str, GapRule]:
    rules = {column: GapRule.from_dict(rule) for column, rule in content.items()}
    if not all(isinstance(text, str) for rule in rules.values() for text in (rule.description, rule.digest)):
        raise ValueError("a rule for gaps is not made of texts")
    return rules


def identity_at(path: Path) -> str | None:
    """The identity of the ledger at a path; None if there is no ledger, or an empty one."""
    if not (_exists(path) and path.is_file()):
        return None
    with locked_ledger(path) as read_lines:
        lines = read_lines(ReadPosition())
    return parse_header(path, lines[0]).identity if lines else None
