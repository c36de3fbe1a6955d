"""Open the file of a codebook, which may come from a stranger."""

from __future__ import annotations

from pathlib import Path

from gapless.errors import ReadError
from gapless.files import MEGABYTE, read_rest
from gapless.text import shortened


def check_file(path: Path) -> None:
    """Refuse a path that is no file."""
    if not path.is_file():
        raise ReadError(f"no file {path}", hint="check the path of the codebook")


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of a codebook.

    Raises:
        ReadError: The file cannot be read, or has more than `most` bytes.
    """
    try:
        with path.open("rb") as file:
            return read_rest(file, most)
    except FileNotFoundError:
        raise ReadError(f"no file {path}", hint="check the path of the codebook") from None
    except OSError as error:
        wrong = f"cannot read {path}: {shortened(str(error.strerror), 100)}"
        raise ReadError(wrong, hint="check that the path names a file and that you may read it") from None
    except ValueError:
        wrong = f"{path} is larger than {most // MEGABYTE} MB, the limit for codebooks of this kind"
        raise ReadError(wrong, hint="remove the columns that you do not need from the codebook") from None
