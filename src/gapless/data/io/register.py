"""The register beside the data: which ledger pays for which file, so that no two ledgers pay for one file.

Each folder with data has a register, `.gapless-register`. It has JSON lines; the last line for a file's name counts. A
line holds the name, device and inode of the file, and the identity and path of its ledger. It holds nothing about the
content, size or time of the file. A file is *covered* by the ledger of its name, because a file that is written again
under its name usually holds the same people. A name without an entry is looked up by device and inode, because a file
may have been renamed, or have two names.

A file is entered before anything is charged for it. So a ledger that was created and never charged covers nothing, and
may be deleted. The register does not know copies, files that were moved to another folder or machine, and rows from a
database or a frame (docs/proofs/ledger.md, section 11).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from itertools import groupby
from pathlib import Path
from typing import Any

from gapless.data.io.address import is_database
from gapless.data.io.source import exists, find_paths
from gapless.errors import Argument, Hint, LedgerError
from gapless.files import BINARY, locked, sync_name
from gapless.privacy.ledger import Coverage, Ledger
from gapless.privacy.ledger_file import identity_at

REGISTER = ".gapless-register"
_HEAD = {"gapless": "register", "version": 1, "about": "which ledger pays for which file here; keep it with the data"}

# Errors of a folder that may only be read, that is gone, or whose file system has no locks: its files are not entered.
_NOT_WRITABLE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR),
    *(errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP),
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table: its path as given, its real path, and its device and inode when the table was read."""

    given_path: Path
    real_path: Path
    inode: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RegisterEntry:
    """An entry: the name and the inodes of a file, and the ledger that pays for it.

    There are several inodes while an earlier version of the file is still in the folder under another name.
    """

    name: str
    inodes: frozenset[tuple[int, int]]
    identity: str
    ledger: str

    def line(self) -> str:
        """The entry as a line of the register."""
        ledger = {"identity": self.identity, "path": self.ledger}
        return json.dumps({"name": self.name, "inodes": sorted(self.inodes), "ledger": ledger}) + "\n"

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> RegisterEntry:
        """The entry in a line. Raises if the line is no entry."""
        inodes = frozenset((int(device), int(inode)) for device, inode in content["inodes"])
        ledger = content["ledger"]
        return cls(str(content["name"]), inodes, str(ledger["identity"]), str(ledger["path"]))


def data_files(data: Any, engine: str | None) -> list[DataFile]:
    """The files on this machine that a table is read from, under all their names; none for a database or a frame.

    A file is read once, but any of its names may be in a register. Spark may also read a folder, or a path that is not
    on this machine; then there are no files.
    """
    if not isinstance(data, str | Path) or is_database(data):
        return []
    found = []
    for path in _read_by_spark(str(data)) if engine == "spark" else find_paths(data):
        with contextlib.suppress(OSError):  # reading the file raises the error
            stat = path.stat()
            found.append(DataFile(path, path.resolve(), (stat.st_dev, stat.st_ino)))
    return found


def _read_by_spark(data: str) -> list[Path]:
    data = re.sub(r"^file:/+", "/", data)
    found = [Path(data)] if exists(data) else sorted(map(Path, glob(data)))  # noqa: PTH207 it may be absolute
    files = (path.rglob("*") if path.is_dir() else [path] for path in found)
    return [path for paths in files for path in sorted(paths) if path.is_file() and path.name[0] not in "._"]


def check_not_covered(files: Sequence[DataFile], place: Path, beside: Callable[[Path], Path] | None = None) -> Coverage:
    """Refuse files that another ledger pays for than the one at `place`, before a row is read and a ledger made.

    A folder may have no register, because it was copied without hidden files or is older. Then a ledger `beside` a file
    pays for it if that ledger has entries.

    Returns:
        Whether the files are entered, or can be.
    """
    if not files:
        return "unknown"
    folders, identity = _by_folder(files), identity_at(place)
    owners = _check([(_entries(folder), members) for folder, members in folders], identity, place)
    for folder, members in folders:
        if beside is not None and not (folder / REGISTER).exists():
            _check_beside(members, identity, place, beside)
    paths = [(folder / REGISTER, folder) for folder, _ in folders]
    writable = [os.access(path if path.exists() else folder, os.W_OK) for path, folder in paths]
    return "registered" if None not in owners or all(writable) else "unregistered"


def _check_beside(files: Sequence[DataFile], identity: str | None, place: Path, beside: Callable[[Path], Path]) -> None:
    for file in files:
        other, known = beside(file.real_path), None
        with contextlib.suppress(LedgerError):  # not a ledger
            known = identity_at(other)
        if known not in (None, identity) and not _is_unspent(other):
            owner = RegisterEntry(file.real_path.name, frozenset({file.inode}), str(known), str(other))
            raise _refused(file, owner, place)


def register(files: Sequence[DataFile], ledger: Ledger, coverage: Coverage) -> None:
    """Let a ledger enter these files before its next charge.

    They are entered at once if the ledger was charged before and no register here knows it: it may be older than the
    register.
    """
    ledger.register_before_charge(partial(enter_files, files), coverage)
    known = {entry.identity for folder, _ in _by_folder(files) for entry in _entries(folder).values()}
    if ledger.entries and ledger.identity not in known:
        ledger.register_files()


def enter_files(files: Sequence[DataFile], ledger: Ledger) -> Coverage:
    """Enter files as paid for by this ledger, and flush the register to the disk.

    Refuses files that another ledger pays for. Skips files whose folder may only be read, and returns "unregistered".
    """
    if not files:
        return "unknown"
    folders = [(folder, members, _entries(folder)) for folder, members in _by_folder(files)]
    _check([(covered, members) for _, members, covered in folders], ledger.identity, ledger.path)
    all_entered = True
    for folder, members, covered in folders:
        if not _changes(covered, members, ledger):
            continue
        path = folder / REGISTER
        try:
            with _held(path) as descriptor:
                with open(descriptor, "rb", closefd=False) as file:
                    text = file.read()
                latest = _parsed(text, path)
                _check([(latest, members)], ledger.identity, ledger.path)  # another process may have been faster
                _append(descriptor, text, _changes(latest, members, ledger))
                sync_name(path)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                hint = "check that the disk has free space; nothing was read from the table"
                raise LedgerError(f"cannot write {path}: {error.strerror}", hint=hint) from None
            all_entered &= None not in _owners(covered, members)
    return "registered" if all_entered else "unregistered"


def _by_folder(files: Iterable[DataFile]) -> list[tuple[Path, list[DataFile]]]:
    """Group files by folder, in one order for all processes: of two that race for the same files, one gets them all."""
    ordered = sorted(files, key=lambda file: (str(file.real_path.parent), file.real_path.name))
    return [(folder, list(members)) for folder, members in groupby(ordered, key=lambda file: file.real_path.parent)]


def _owners(covered: Mapping[str, RegisterEntry], files: Sequence[DataFile]) -> list[RegisterEntry | None]:
    """The entry that covers each file: by its name first, since a deleted file leaves its inode to another."""
    by_inode = {inode: entry for entry in covered.values() for inode in entry.inodes if inode[1]}  # 0 is no inode
    return [covered.get(file.real_path.name) or by_inode.get(file.inode) for file in files]


def _check(
    folders: Sequence[tuple[Mapping[str, RegisterEntry], Sequence[DataFile]]], identity: str | None, place: Path
) -> list[RegisterEntry | None]:
    """The entry that covers each file of these folders. Refuses another ledger than the one with this identity."""
    pairs = [pair for covered, files in folders for pair in zip(files, _owners(covered, files), strict=True)]
    found = {owner.identity: (file, owner) for file, owner in reversed(pairs) if owner is not None}
    others = [pair for owner, pair in found.items() if owner != identity]
    if others and len(found) > 1:
        (second, of_second), (first, of_first) = list(found.values())[-2:]
        ledgers = f"the ledger {of_first.ledger}, and {second.given_path} by {of_second.ledger}"
        wrong = f"{first.given_path} is covered by {ledgers}: no ledger may pay for both"
        raise LedgerError(wrong, hint="read each file separately, under its own ledger")
    if others:
        raise _refused(*others[0], place)
    return [owner for _, owner in pairs]


def _refused(file: DataFile, owner: RegisterEntry, place: Path) -> LedgerError:
    """The error for a file that another ledger covers. Its hint never makes a second budget after a real release.

    A copy under another name has neither the name nor the inode of the covered file. That is the remedy if the file
    holds other people, because a name or the inode of a deleted file was used again.
    """
    folder = file.real_path.parent
    same = "" if owner.name == file.real_path.name else f" is the same file as {owner.name}, which"
    others = f"if {file.given_path} now holds other people than before, and only then, save it under a new name"
    lines = f"remove the lines that name {json.dumps(owner.name)} in {folder / REGISTER}"
    covered = f"{file.given_path}{same} is covered by the ledger"
    found = _find(owner, folder)
    if found is None:
        unshared = f"only if nothing that was released under it was ever shared, {lines}"
        hint = Hint("pass its path as ", Argument("ledger"), " if it was moved") | Hint(
            f"restore it and its .seal from a backup; {others}; {unshared}"
        )
        return LedgerError(f"{covered} {owner.ledger}, which is gone", hint=hint)
    unspent = _is_unspent(found)
    wrong = f"{covered} {found}, and {place} would be a second budget for the same rows"
    instead = f"to use {place} instead, {lines}; " if unspent else ""
    hint = Hint("pass ", Argument("ledger", found), "; ", instead, others)
    return LedgerError(wrong + ("; nothing was spent so far" if unspent else ""), hint=hint)


def _find(owner: RegisterEntry, folder: Path) -> Path | None:
    """The path of the ledger: as entered or, if the folder was moved with it, in this folder or beside it."""
    path = Path(owner.ledger)
    for candidate in (path, folder / path.name, folder.parent / path.name):
        try:
            if identity_at(candidate) == owner.identity:
                return candidate
        except LedgerError:  # damaged, or of another user: it is there
            if candidate == path:
                return path
    return None


def _is_unspent(path: Path) -> bool:
    try:
        return not Ledger.open(path).entries
    except LedgerError:
        return False


def _changes(covered: Mapping[str, RegisterEntry], files: Sequence[DataFile], ledger: Ledger) -> list[RegisterEntry]:
    """The entries to write so that the ledger covers the files as they are now."""
    changed = []
    for file in files:
        name, known = file.real_path.name, covered.get(file.real_path.name)
        inodes = {file.inode}
        if known is not None and not known.inodes <= inodes:
            inodes |= known.inodes & _inodes_in(file.real_path.parent)
        entry = RegisterEntry(name, frozenset(inodes), ledger.identity, str(ledger.path))
        if entry != known:
            changed.append(entry)
    return changed


def _inodes_in(folder: Path) -> set[tuple[int, int]]:
    """Devices and inodes of everything in a folder, which may contain an earlier version of a file."""
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        device = folder.stat().st_dev
        return {(device, entry.inode()) for entry in found}
    return set()


# ---------------------------------------------------------------------- the file


def _entries(folder: Path) -> dict[str, RegisterEntry]:
    """The entries of a folder by name, read without a lock. An incomplete last line is ignored."""
    path = folder / REGISTER
    try:
        return _parsed(path.read_bytes(), path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        wrong = f"cannot read {path}, which records what ledger pays for a file: {error.strerror}"
        raise LedgerError(wrong, hint="ask its owner for the right to read it") from None


def _whole(text: bytes) -> bytes:
    """The complete lines. A crash may leave half a line, or zeros; they were written before anything was charged."""
    return text[: text.rstrip(b"\0").rfind(b"\n") + 1]


def _parsed(text: bytes, path: Path) -> dict[str, RegisterEntry]:
    covered: dict[str, RegisterEntry] = {}
    for number, line in enumerate(_whole(text).splitlines(), start=1):
        if (entry := _entry(line, number, path)) is not None:
            covered.pop(entry.name, None)  # in the order of last lines: of two entries with an inode, the later has it
            covered[entry.name] = entry
    return covered


def _entry(line: bytes, number: int, path: Path) -> RegisterEntry | None:
    """The entry in a line of the register; None for its head."""
    try:
        content = json.loads(line)
        if content.get("gapless") != "register":
            return RegisterEntry.of(content)
        if content["version"] <= _HEAD["version"]:
            return None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        hint = (
            f"restore it from a backup, or delete line {number}; a file that only this line names could then get a "
            "second ledger, so make its next release under its old ledger"
        )
        raise LedgerError(f"line {number} of {path} cannot be read", hint=hint) from None
    raise LedgerError(f"{path} was written by a newer gapless", hint="install the newest gapless")


@contextlib.contextmanager
def _held(path: Path) -> Iterator[int]:
    """Lock a register against all other processes. Creates it if there is none."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o666)  # readable for all, as an ordinary file
        with locked(descriptor, path) as there:
            if there:  # otherwise an editor replaced the file while we waited
                yield descriptor
                return


def _append(descriptor: int, text: bytes, entries: Sequence[RegisterEntry]) -> None:
    """Write lines after the complete ones, and flush them to the disk."""
    end = len(_whole(text))
    head = "" if end else json.dumps(_HEAD) + "\n"
    data = "".join([head, *(entry.line() for entry in entries)]).encode()
    os.ftruncate(descriptor, end)
    os.lseek(descriptor, end, os.SEEK_SET)
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)
