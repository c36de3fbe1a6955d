"""Locks on open files, and whether a path still names the file that was locked.

A lock belongs to the open file and not to its name. Whoever waits for one may find that the name has meanwhile been
deleted or given to another file, and must look before it reads or writes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

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
    try:
        _lock(descriptor)
        yield is_at(descriptor, path)
    finally:
        _unlock(descriptor)  # explicitly: a child forked meanwhile would keep it
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
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
