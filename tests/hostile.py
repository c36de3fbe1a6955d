"""Files and names that a stranger could hand over."""

import copy
import io
import json
import struct
import zipfile
import zlib

import numpy as np

from gapless.errors import GaplessError

# What no file that we write has in any place; texts stand for what JSON alone can say.
ODD = [None, True, 0, -1, 0.5, 1e308, 2**64, 10**400, "", "x", [], [[]], {}, {"a": 1}]
WRITTEN = {"<NaN>": "NaN", "<Infinity>": "Infinity", "<1e999>": "1e999", "<deep>": "[" * 100_000 + "]" * 100_000}


def places(content, before=()):
    """The place of every value within lists and tables, the whole first."""
    yield before
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inside:
        yield from places(value, (*before, key))


def put(content, place, value):
    """The same content with another value in one place."""
    if not place:
        return value
    changed = copy.deepcopy(content)
    whole = changed
    for key in place[:-1]:
        whole = whole[key]
    whole[place[-1]] = value
    return changed


def without(content, place):
    """The same content without what is in one place."""
    changed = copy.deepcopy(content)
    whole = changed
    for key in place[:-1]:
        whole = whole[key]
    del whole[place[-1]]
    return changed


def changes(content):
    """The content as JSON text, with each value in turn something else, or not there."""
    for place in places(content):
        for value in [*ODD, *WRITTEN]:
            yield place, text_of(put(content, place, value))
        if place:
            yield place, text_of(without(content, place))


def text_of(content):
    """JSON, and what is none."""
    text = json.dumps(content)
    for name, written in WRITTEN.items():
        text = text.replace(f'"{name}"', written)
    return text


def works(use):
    """Whether it goes well; else it is refused in words, what is wrong and what to do, and in no other way."""
    try:
        use()
    except GaplessError as error:
        words = error.wrong, error.hint
    else:
        return True
    assert all(words)
    return False


def npy(array):
    """The bytes of a file of one array."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def zip_of(path, members):
    """An archive of these names and contents, of which two may have the same name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return path


def zip_bomb(path, name, *, gigabytes):
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
