"""Files that are whole or not there: write beside, flush, rename."""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp

from gapless.errors import ReadError


def check_writable(path: Path, *, unlike: Iterable[Path | None] = (), new: bool = False) -> None:
    """Be sure that a file can be put there, without touching what is there.

    It must be none of the files `unlike` it, the inputs and other outputs of the same command, whatever they are called
    by; with `new` nothing may be there yet.
    """
    if any(_same(path, other) for other in unlike if other is not None):
        raise ReadError(f"{path} would take the place of another file of this command", hint="another name for it")
    if new and os.path.lexists(path):
        raise ReadError(f"{path} exists", hint="another name, so that nothing is lost")
    _beside(path).rmdir()


@contextlib.contextmanager
def replace(path: Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; only when that is done does it take the place of `path`.

    A full disk, a read-only folder or a crash leaves the old file as it was.
    """
    folder = _beside(path)
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


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))


def _beside(path: Path) -> Path:
    """A new folder to write in; not beside a ledger or its seal, which nothing replaces."""
    real = path.resolve()
    if (real.exists() and real.suffix == ".seal") or real.with_name(f"{real.name}.seal").exists():
        raise ReadError(f"{path} is a ledger", hint="another name: a ledger must remember what was spent")
    try:
        return Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise ReadError(f"cannot write {path}: {error.strerror}", hint="a folder that exists and is yours") from None
