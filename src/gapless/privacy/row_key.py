"""The secret key by which rows of a person are kept: a file beside the ledger.

The key decides which rows of a person are kept. It protects no release: the guarantee holds for every key. But nobody
outside can know which rows are kept, and every reading under one ledger keeps the same rows. If the file is lost, a new
key is made.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gapless.errors import Argument, Hint, LedgerError
from gapless.files import BINARY, locked, read_descriptor, sync_name, write_and_sync

KEY_BYTES = 32
KEY_ENDING = ".key"


def key_of(ledger: Path) -> Path:
    """The file beside a ledger that holds the key."""
    return ledger.with_name(ledger.name + KEY_ENDING)


def row_key(ledger: Path) -> bytes:
    """The key of a ledger, made if there is none."""
    path = key_of(ledger.resolve())  # as the seal: a link has no separate one
    try:
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            with locked(descriptor, path) as is_there:
                if is_there:
                    return _read_or_make(descriptor, path)
    except OSError as error:
        raise LedgerError(
            f"cannot read or write {path}, the key by which rows of a person are kept: {error.strerror}",
            hint=Hint("pass a path in a folder that you can write to as ", Argument("ledger")),
        ) from None


def _read_or_make(descriptor: int, path: Path) -> bytes:
    """The key in a file. A file is empty if it is new, or if a crash came before its key was written."""
    with suppress(ValueError):  # the file is longer
        key = read_descriptor(descriptor, KEY_BYTES)
        if not key:
            path.chmod(0o600)  # an empty file may be there with other permissions
            key = os.urandom(KEY_BYTES)
            write_and_sync(descriptor, key)
            sync_name(path)
        if len(key) == KEY_BYTES:
            return key
    raise LedgerError(
        f"{path} is not the key of a ledger", hint="move the file away; a new key is made, and the guarantee holds"
    )
