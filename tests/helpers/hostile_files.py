"""Files and names that a stranger could hand over."""

import copy
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.errors import GaplessError

Place = tuple[str | int, ...]  # the keys that lead to a value within lists and tables

# Values that no file of ours has in any place; the texts stand for what Python cannot write as JSON.
ODD: list[Any] = [None, True, 0, -1, 0.5, 1e308, 2**64, 10**400, "", "x", [], [[]], {}, {"a": 1}]
WRITTEN = {"<NaN>": "NaN", "<Infinity>": "Infinity", "<1e999>": "1e999", "<deep>": "[" * 100_000 + "]" * 100_000}


def places(content: Any, before: Place = ()) -> Iterator[Place]:
    """The place of every value within lists and tables, the whole first."""
    yield before
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield from places(value, (*before, key))


def put(content: Any, place: Place, value: object) -> Any:
    """The same content with another value in one place."""
    if not place:
        return value
    changed = copy.deepcopy(content)
    whole = changed
    for key in place[:-1]:
        whole = whole[key]
    whole[place[-1]] = value
    return changed


def without(content: Any, place: Place) -> Any:
    """The same content without what is in one place."""
    changed = copy.deepcopy(content)
    whole = changed
    for key in place[:-1]:
        whole = whole[key]
    del whole[place[-1]]
    return changed


def changes(content: Any) -> Iterator[tuple[Place, str]]:
    """The content as JSON text, with each value in turn something else, or not there."""
    for place in places(content):
        for value in [*ODD, *WRITTEN]:
            yield place, text_of(put(content, place, value))
        if place:
            yield place, text_of(without(content, place))


def text_of(content: Any) -> str:
    """JSON, and what is none."""
    text = json.dumps(content)
    for name, written in WRITTEN.items():
        text = text.replace(f'"{name}"', written)
    return text


def works(use: Callable[[], object]) -> bool:
    """Return whether a call works. If not, it must raise a GaplessError with a message and a hint."""
    try:
        use()
    except GaplessError as error:
        texts = error.message, error.hint
    else:
        return True
    assert all(texts)
    return False


def npy(array: NDArray[Any]) -> bytes:
    """The bytes of a file of one array."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def zip_of(path: Path, members: Iterable[tuple[str, str | bytes]]) -> Path:
    """An archive of these names and contents, of which two may have the same name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def zip_bomb(path: Path, name: str, *, gigabytes: int) -> Path:
    """An archive of one member of zeros that takes some megabytes: a block of 64 MB, flushed, again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 26)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = block * (16 * gigabytes) + packer.flush(zlib.Z_FINISH)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(name), packed)
        listed = archive.start_dir
    with path.open("r+b") as file:  # it is said to be deflated, and how long it is
        for place, field in ((8, struct.pack("<H", 8)), (22, struct.pack("<L", gigabytes << 30))):
            for begin in (place, listed + 2 + place):
                file.seek(begin)
                file.write(field)
    return path
