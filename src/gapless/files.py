"""Files that are whole or not there: write beside, flush, rename."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from gapless.errors import ReadError


def check_writable(path: Path) -> None:
    """Be sure that a file can be put there, without touching what is there."""
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


def _beside(path: Path) -> Path:
    try:
        return Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise ReadError(f"cannot write {path}: {error.strerror}", hint="a folder that exists and is yours") from None
