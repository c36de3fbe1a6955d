"""Files: written whole or not at all, locked, and read with limits.

A file is written beside its name, flushed and renamed.

A lock belongs to the open file and not to its name. Whoever waits for one may find that the name has meanwhile been
deleted or given to another file, and must look before it reads or writes.

A stranger may have written what is read: it is read up to a limit and parsed in bounded time. Whatever is wrong with a
text is a `ValueError`, which the caller turns into an error about its own kind of file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any

from gapless.errors import ReadError


def check_writable(path: Path, *, distinct_from: Iterable[Path | None] = (), must_not_exist: bool = False) -> None:
    """Be sure that a file can be put there, without touching what is there.

    It must be none of the files `unlike` it, the inputs and other outputs of the same command, whatever they are called
    by; with `new` nothing may be there yet.
    """
    if any(_is_same_file(path, other) for other in distinct_from if other is not None):
        raise ReadError(f"{path} would take the place of another file of this command", hint="another name for it")
    if must_not_exist and os.path.lexists(path):
        raise ReadError(f"{path} exists", hint="another name, so that nothing is lost")
    _make_temporary_folder(path).rmdir()


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; only when that is done does it take the place of `path`.

    A full disk, a read-only folder or a crash leaves the old file as it was.
    """
    folder = _make_temporary_folder(path)
    partial = folder / path.name
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise ReadError(
            f"cannot write {path}: {error.strerror or error}",
            hint="free space on the disk; the old file is intact" if full else "another path",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
            folder.rmdir()


def free_name(path: Path) -> Path:
    """The path itself if nothing is there, else the first of people-2, people-3, … that is free."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _make_temporary_folder(path: Path) -> Path:
    """A new folder to write in; not beside a ledger or its seal, which nothing replaces."""
    real = path.resolve()
    if (real.exists() and real.suffix == ".seal") or real.with_name(f"{real.name}.seal").exists():
        raise ReadError(f"{path} is a ledger", hint="another name: a ledger must remember what was spent")
    try:
        return Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise ReadError(f"cannot write {path}: {error.strerror}", hint="a folder that exists and is yours") from None


BINARY = getattr(os, "O_BINARY", 0)  # Windows would turn line ends

if sys.platform != "win32":
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

else:
    import msvcrt

    _FAR = 1 << 30  # beyond the content: a locked byte cannot be read there

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)


@contextlib.contextmanager
def locked(descriptor: int, path: Path) -> Iterator[bool]:
    """Hold an open file against every other process and thread, and close it in the end.

    Gives whether the path names this very file, now that it is locked.
    """
    process = os.getpid()
    try:
        _lock(descriptor)
        yield is_file_at(descriptor, path)
    finally:
        if os.getpid() == process:  # a child forked meanwhile shares the lock, and must leave it to its parent
            _unlock(descriptor)  # explicitly: such a child would keep it
        os.close(descriptor)


def is_file_at(descriptor: int, path: Path) -> bool:
    """Whether a path names this open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def sync_name(path: Path) -> None:
    """Flush the name of a new file to the disk: its content alone would have none after a power failure."""
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


MEGABYTE = 1 << 20
CHUNK_BYTES = 1 << 16  # bytes that are read at once: a buffer of this size is made for each
MAX_TEXT_BYTES = 32 * MEGABYTE  # of a schema, a manifest, the copy of a ledger: the largest that we know has 3
MAX_DEPTH = 32  # lists and tables within each other
MAX_NUMBER_LENGTH = 400  # characters: as many as any number that a float can hold has without an exponent
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"""(?<![\w\-"'\\])(?:{_KEY_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""")


def read_limited(path: Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """The bytes of a file of at most so many.

    Raises:
        ReadError: It is larger.
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return read_rest(file, most)
    except ValueError:
        raise ReadError(
            f"{path} is larger than {most // MEGABYTE} MB", hint="check the path, or pass a smaller file"
        ) from None


def read_rest(file: IO[bytes], most: int) -> bytes:
    """All bytes that an open file still has; memory grows with what is there, not with the limit.

    Raises:
        ValueError: They are more than so many.
    """
    pieces, left = [], most
    while left >= 0 and (piece := file.read(min(left + 1, CHUNK_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    if left < 0:
        raise ValueError("too large")
    return b"".join(pieces)


def parse_json(text: str | bytes) -> Any:
    """The content of JSON text, of finite numbers of at most 64 bits and not nested deeply.

    >>> parse_json('{"spent": [0.5, 2]}')
    {'spent': [0.5, 2]}

    Raises:
        ValueError: It is anything else.
    """
    try:
        content = json.loads(text, parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_limits(content, bits=64)
    return content


def parse_toml(text: str) -> dict[str, Any]:
    r"""The content of TOML text, without very long numbers and not nested deeply.

    Keys with many dots are refused before they are parsed: the time they take grows with the square of their length.

    >>> parse_toml("[column.age]\nbounds = [0, 120]")
    {'column': {'age': {'bounds': [0, 120]}}}

    Raises:
        ValueError: It is anything else.
    """
    text.encode()  # half of a surrogate pair has no encoding, which is a ValueError
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MAX_DEPTH} parts")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_limits(content, bits=MAX_NUMBER_LENGTH * 4)
    return content


def _check_limits(content: Any, *, bits: int) -> None:
    """Refuse what is nested too deeply, and whole numbers of more bits."""
    level = [content]
    for _ in range(MAX_DEPTH):
        if any(type(part) is int and part.bit_length() > bits for part in level):
            raise ValueError(f"a whole number has more than {bits} bits")
        inside = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inside for part in parts]
        if not level:
            return
    raise ValueError("nested too deeply")


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_NUMBER_LENGTH:
        raise ValueError("a number is too long")
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits) if len(digits) <= MAX_NUMBER_LENGTH else math.inf
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
