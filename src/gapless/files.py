"""Files: written whole or not at all, locked, and read with limits.

A file is written under a temporary name, flushed and renamed.

A lock belongs to the open file and not to its name. While a process waits for a lock, the name may be deleted or given
to another file. It must check this before it reads or writes.

A file may come from a stranger. So it is read up to a limit and parsed in bounded time. Malformed text raises
`ValueError`, which the caller turns into an error about its kind of file.
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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any

from gapless.errors import ReadError


def check_writable(path: Path, *, distinct_from: Iterable[Path | None] = (), must_not_exist: bool = False) -> None:
    """Refuse a path to which no file can be written; nothing that exists is changed.

    Args:
        path: the file to write.
        distinct_from: the inputs and other outputs of the same command, which must be other files.
        must_not_exist: refuse an existing file as well.
    """
    if any(_is_same_file(path, other) for other in distinct_from if other is not None):
        wrong = f"the output {path} would overwrite another file of this command"
        raise ReadError(wrong, hint="choose another name for the output")
    if must_not_exist and os.path.lexists(path):
        hint = "choose another name, or move the existing file away"
        raise ReadError(f"{path} exists and is not overwritten", hint=hint)
    _make_temporary_folder(path).rmdir()


@contextlib.contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which replaces `path` when the block ends without an error.

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
        raise _write_error(path, error, otherwise="choose a path that you can write to") from None
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


def _is_same_file(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other))


def _make_temporary_folder(path: Path) -> Path:
    """Make a folder beside the path to write in; refuse a ledger or its seal, which nothing may replace."""
    real = path.resolve()
    if (real.exists() and real.suffix == ".seal") or real.with_name(f"{real.name}.seal").exists():
        wrong = f"{path} is a ledger, or the seal of one, and must not be overwritten"
        raise ReadError(wrong, hint="choose another name for the output")
    try:
        return Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise _write_error(path, error, otherwise="choose a folder that exists and that you can write to") from None


def _write_error(path: Path, error: OSError, *, otherwise: str) -> ReadError:
    """The error for a file that cannot be written; `otherwise` is the hint if the disk is not full."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "remove files to make space on the disk; the old file is intact" if is_full else otherwise
    return ReadError(f"cannot write {path}: {error.strerror or error}", hint=hint)


BINARY = getattr(os, "O_BINARY", 0)  # without it Windows would change line ends

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
    """Lock an open file against every other process and thread; close it in the end.

    Yields whether the path still names this file, now that it is locked.
    """
    process = os.getpid()
    try:
        _lock(descriptor)
        yield is_file_at(descriptor, path)
    finally:
        # A child that was forked meanwhile shares the lock. It must not release the parent's lock; and it would keep
        # the lock if the parent only closed the file.
        if os.getpid() == process:
            _unlock(descriptor)
        os.close(descriptor)


def is_file_at(descriptor: int, path: Path) -> bool:
    """Whether a path names this open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def sync_name(path: Path) -> None:
    """Flush the name of a new file to the disk; without it the file could vanish in a power failure."""
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_and_sync(descriptor: int, data: bytes) -> None:
    """Write all data at the current position of an open file and flush them to the disk."""
    while data:
        data = data[os.write(descriptor, data) :]
    os.fsync(descriptor)


def append_and_sync(descriptor: int, path: Path, data: bytes) -> None:
    """Write data at the end of an open file and flush them to the disk, with the name of a file that was empty."""
    end = os.lseek(descriptor, 0, os.SEEK_END)
    write_and_sync(descriptor, data)
    if end == 0:
        sync_name(path)


MEGABYTE = 1 << 20
CHUNK_BYTES = 1 << 16  # read at once
MAX_TEXT_BYTES = 32 * MEGABYTE  # of a schema, a manifest or the copy of a ledger; the largest known has 3 MB
MAX_DEPTH = 32  # of nested lists and tables
MAX_NUMBER_LENGTH = 400  # characters: enough for every float written without an exponent
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"""(?<![\w\-"'\\])(?:{_KEY_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""")


def read_limited(path: Path, most: int = MAX_TEXT_BYTES) -> bytes:
    """The bytes of a file.

    Raises:
        ReadError: The file has more than `most` bytes.
        OSError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return read_rest(file, most)
    except ValueError:
        hint = "check the path: a schema, a manifest or the copy of a ledger is much smaller"
        raise ReadError(f"{path} is larger than {most // MEGABYTE} MB, the limit for such files", hint=hint) from None


def read_rest(file: IO[bytes], most: int) -> bytes:
    """The remaining bytes of an open file; memory grows with the file, not with the limit.

    Raises:
        ValueError: There are more than `most` bytes.
    """
    pieces, left = [], most
    while left >= 0 and (piece := file.read(min(left + 1, CHUNK_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    if left < 0:
        raise ValueError("too large")
    return b"".join(pieces)


def read_descriptor(descriptor: int, most: int, *, begin: int = 0) -> bytes:
    """The bytes of an open file from the position `begin`.

    Raises:
        ValueError: There are more than `most` bytes.
    """
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(begin)
        return read_rest(file, most)


def parse_json(text: str | bytes) -> Any:
    """The content of JSON text with finite numbers, whole numbers of at most 64 bits and bounded nesting.

    >>> parse_json('{"spent": [0.5, 2]}')
    {'spent': [0.5, 2]}

    Raises:
        ValueError: The text is anything else.
    """
    return _load(
        lambda: json.loads(text, parse_int=_parse_int, parse_float=_parse_float, parse_constant=_refuse_constant),
        bits=64,
    )


def parse_toml(text: str) -> dict[str, Any]:
    r"""The content of TOML text without very long numbers and with bounded nesting.

    Keys with many dots are refused before parsing, because parsing them takes time quadratic in their length.

    >>> parse_toml("[column.age]\nbounds = [0, 120]")
    {'column': {'age': {'bounds': [0, 120]}}}

    Raises:
        ValueError: The text is anything else.
    """
    text.encode()  # half of a surrogate pair cannot be encoded, which raises a ValueError
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MAX_DEPTH} parts")
    content: dict[str, Any] = _load(lambda: tomllib.loads(text), bits=MAX_NUMBER_LENGTH * 4)
    return content


def _load(parse: Callable[[], Any], *, bits: int) -> Any:
    """The parsed content; refuses deep nesting and whole numbers of more than `bits` bits."""
    try:
        content = parse()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [content]
    for _ in range(MAX_DEPTH):
        if any(type(part) is int and part.bit_length() > bits for part in level):
            raise ValueError(f"a whole number has more than {bits} bits")
        nested = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in nested for part in parts]
        if not level:
            return content
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
