"""Model files: a zip of JSON and plain numpy arrays. Nothing in it can run when it is opened."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.errors import ModelError
from gapless.files import MAX_TEXT_BYTES, MEGABYTE, parse_json, read_rest, write_atomically

MODEL = "synthetic.model"  # its name in a release folder
VERSION = 3
LARGEST = 2 << 30  # bytes of all arrays
_LONGEST_LIST = 16 * MEGABYTE  # of an archive's members: some hundred thousand
_HEAD = "model.json"
_NAME = re.compile(r"(?:[a-z_]+/)?[A-Za-z0-9_.]+\.npy")
# How numpy begins a file: of numbers and texts alone, so that nothing is evaluated.
_HEADER = re.compile(
    rb"\x93NUMPY(?:\x01\x00..|[\x02\x03]\x00....)\{'descr': '([<>=|][iufbU]\d{1,9})', "
    rb"'fortran_order': (True|False), 'shape': \(([\d, ]{0,400})\), \} *\n",
    re.DOTALL,
)
_FILE = "load a file that `gapless fit` wrote, or the folder of a release; copy the file again if it is damaged"
_MISSING_FILE = "check the path, or run `gapless fit`, which writes such a file"


def save(
    path: Path, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, kind: str = "model", level: int = 6
) -> None:
    """Write a model file; the old one stays until the new one is whole. The same model gives the same bytes.

    Args:
        path: of the file.
        head: plain values for JSON.
        arrays: by name.
        kind: of the file; `load` refuses another one.
        level: of compression, from 1, the fastest, to 9.
    """
    with write_atomically(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        whole = {"gapless": kind, "version": VERSION} | dict(head)
        archive.writestr(zipfile.ZipInfo(_HEAD), json.dumps(whole, ensure_ascii=False, indent=1))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)  # one order of bytes for equal arrays
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED, level)


def load(path: Path, *, kind: str = "model") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The head and the arrays of a model file, which a stranger may have made: it is unpacked up to a limit."""
    try:
        with _Limited(path) as file, zipfile.ZipFile(file) as archive:
            head, arrays = _unpack(archive, kind)
    except FileNotFoundError:
        raise ModelError(f"there is no model file {path}", hint=_MISSING_FILE) from None
    except PermissionError:
        raise ModelError(f"you may not read {path}", hint="ask its owner for permission to read it") from None
    except Exception:  # noqa: BLE001 a damaged archive fails in many ways, and one message says it
        raise ModelError(f"{path} is not a gapless model, or is damaged", hint=_FILE) from None
    version = head["version"]
    if version != VERSION:
        older = "fit the model again, or load the file with the version of gapless that wrote it"
        raise ModelError(
            f"{path} is a model file of version {version}, and this gapless reads version {VERSION}",
            hint=older if version < VERSION else "install a newer version of gapless",
        )
    return head, arrays


class _Limited(io.FileIO):
    """A file of which some bytes are read at a time: the list of members, which is read at once, is no longer."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_LIST:
            raise ValueError("the list of members is too long")
        return super().read(_LONGEST_LIST if size is None or size < 0 else size) or b""


def _unpack(archive: zipfile.ZipFile, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    members = {member.filename: member for member in archive.infolist()}
    head = parse_json(_member(archive, members.pop(_HEAD), MAX_TEXT_BYTES))
    if head["gapless"] != kind or type(head["version"]) is not int or len(archive.infolist()) != 1 + len(members):
        raise ValueError("not of this kind, or two members have the same name")
    arrays, left = {}, LARGEST
    for name, member in members.items():
        if not _NAME.fullmatch(name):
            raise ValueError("not the name of an array")
        content = _member(archive, member, left)
        left -= len(content)
        arrays[name.removesuffix(".npy")] = _array(content)
    return head, arrays


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others take memory to unpack
        raise ValueError("not compressed as models are")
    with archive.open(member) as file:
        return read_rest(file, most)


def _array(content: bytes) -> NDArray[Any]:
    """The array in the bytes of a .npy file, which must be as long as its header says."""
    found = _HEADER.match(content)
    if found is None:
        raise ValueError("not an array of numbers or texts")
    dtype, shape = np.dtype(found[1].decode()), tuple(map(int, found[3].replace(b",", b" ").split()))
    body = memoryview(content)[found.end() :]
    if math.prod(shape) * dtype.itemsize != len(body):
        raise ValueError("an array is not as long as its header says")
    flat: NDArray[Any] = np.frombuffer(body, dtype)
    if dtype.kind == "f" and not (flat < np.inf).all():  # a logarithm may be -∞, nothing else may
        raise ValueError("an array holds something else than numbers")
    return flat.reshape(shape, order="F" if found[2] == b"True" else "C").copy()
